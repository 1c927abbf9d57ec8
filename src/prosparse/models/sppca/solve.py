"""Fits along a path of penalties, and selection of one of the fits.

Fits are in the units of the operator. Penalties and likelihoods are given, compared and reported
in the units of the data; `Columns` converts between them.

[BMM12]  J.-P. Baudry, C. Maugis, B. Michel. Slope heuristics: overview and implementation.
         Statistics and Computing 22(2), 2012.
[CC08]   J. Chen, Z. Chen. Extended Bayesian information criteria for model selection with large
         model spaces. Biometrika 95(3), 2008.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np

from ...data import Columns, Operator
from ...data.arrays import to_numpy
from ...errors import InputError
from ...inference.loop import StopReason, worst
from ...numerics.spectrum import added_squares, spectrum
from ...selection.criteria import ebic
from ...selection.dimension import resolve_dimension
from ...selection.slope import Slope, robust_slope, selection_shape
from ...structure import MIN_DOF, StandardisedData, count_components
from .model import init
from .path import find_largest_penalty, fit_one, fit_path, problem_of, refit_likelihoods

Criterion = Literal["slope", "aic", "bic", "ebic"]
Rule = Literal["slope", "aic", "bic", "ebic", "given"]

N_PENALTIES = 100  # length of the default path


class Options(NamedTuple):
    """Parameters of `SPPCA`."""

    n_components: int | Literal["auto"]
    penalty: Criterion | float  # criterion, or value
    penalties: np.ndarray | None  # grid; None: the default grid
    columns: Columns  # conversion to the units of the data
    max_iter: int
    tol: float
    verbose: int


class PenaltyPath(NamedTuple):
    """Arguments of the criteria, in the units of the data."""

    penalties: np.ndarray  # (m,) increasing
    log_likelihood: np.ndarray  # (m,) maximum over the nonzero loadings of each fit
    n_parameters: np.ndarray  # (m,) nonzero loadings and the noise variance


class Evaluation(NamedTuple):
    """Values of the criterion along a path."""

    values: np.ndarray  # (m,) maximised by the selected penalty
    rule: Rule  # the criterion
    slope: Slope | None = None


class Solution(NamedTuple):
    """Selected fit in the units of the operator; path in those of the data."""

    loadings: np.ndarray  # (d, p) in decreasing order of norm; the largest entries are positive
    order: np.ndarray  # (p,) variables in decreasing order of the norm of their loadings
    relevance: np.ndarray  # (p,) norm of the loadings relative to the largest
    selected: np.ndarray  # variables with a nonzero loading
    noise: float  # noise variance
    variances: np.ndarray  # (d,) added by each component to the preceding ones
    variance_ratios: np.ndarray  # (d,) proportions of the total variance
    path: PenaltyPath
    evaluation: Evaluation
    best: int  # position of the selected penalty on the path
    bounds: np.ndarray  # (n_iter,) penalised log-likelihood at the selected penalty
    reason: StopReason


def solve(op: Operator, options: Options) -> Solution:
    """Fit the path to centred data and maximise the criterion over it."""
    parts = spectrum(op)
    d = resolve_dimension(options.n_components, parts, shared_dimension(op, options))
    problem = problem_of(parts, options.max_iter, options.tol)
    start = init(parts, d)
    given = options.penalties is not None or not isinstance(options.penalty, str)
    search = None if given else find_largest_penalty(problem, start)
    penalties = penalty_grid(options, 0.0 if search is None else search.vanishing)
    fits = fit_path(
        problem, start, penalties, options.verbose, () if search is None else search.states
    )
    if search is not None:  # the path ends at W = 0
        fits[-1] = fit_one(problem, search.vanished, search.vanishing)
    likelihoods = refit_likelihoods(problem, fits)
    nonzeros = [int(op.xp.sum(op.xp.astype(fit.state.W != 0, op.xp.int64))) for fit in fits]
    n, p = op.shape
    path = PenaltyPath(
        penalties / options.columns.per_length(1.0),
        options.columns.log_density(likelihoods, n * p),
        np.array(nonzeros) + 1,
    )
    evaluation = evaluate_penalties(path, n, d * p, options)
    best = int(np.argmax(evaluation.values))
    state, runs = fits[best]
    W = order_components(to_numpy(state.W))
    norms = np.linalg.norm(W, axis=0)
    selected = np.flatnonzero(norms)
    along = added_squares(op, W)
    return Solution(
        loadings=W,
        order=np.argsort(-norms, kind="stable"),
        relevance=norms / norms.max() if selected.size else norms,
        selected=selected,
        noise=state.sigma2,
        variances=along / (n - 1),
        variance_ratios=along / to_numpy(op.column_squares()).sum(),
        path=path,
        evaluation=evaluation,
        best=best,
        bounds=np.concatenate([run.bounds for run in runs]),
        reason=worst([run.reason for run in runs]),
    )


def shared_dimension(op: Operator, options: Options) -> int | None:
    """Bound an estimated number of components; None if the number is given.

    Eigenvalues exceed those of white noise if columns differ in noise.

    The maximum is the number of components that exceed white noise after division of each column by
    its noise standard deviation.
    """
    if not isinstance(options.n_components, str) or op.shape[0] <= MIN_DOF:
        return None
    data = StandardisedData(op.unit_variance())
    return max(1, count_components(data, np.ones(op.shape[1], dtype=bool)))


def penalty_grid(options: Options, vanishing: float) -> np.ndarray:
    """Return the increasing penalties of the path, in the units of the operator.

    The default path ends at ``vanishing``, at which all loadings are zero.
    """
    penalty, per_length = options.penalty, options.columns.per_length
    if options.penalties is not None:
        given = [] if isinstance(penalty, str) else [penalty]
        return np.asarray(per_length(np.union1d(options.penalties, given)))
    if not isinstance(penalty, str):  # two smaller penalties provide starting values
        return np.asarray(per_length(penalty) * np.array([0.1, 0.3, 1.0]))
    # The quadratic spacing is dense at small penalties, where the models are large.
    return vanishing * np.linspace(0.0, 1.0, N_PENALTIES) ** 2


def evaluate_penalties(path: PenaltyPath, n: int, n_loadings: int, options: Options) -> Evaluation:
    """Evaluate the criterion along the path.

    The slope heuristic estimates the penalty per parameter from models that are larger than
    necessary. Data with few columns, or with structure in every variable, have too few such models,
    and [BMM12] recommend another criterion. On the default grid, this is extended BIC [CC08], which
    also corrects for the selection of the loadings by the data. On a grid given by the user, an
    error is raised, because a finer grid may suffice.
    """
    penalty = options.penalty
    likelihood, n_nonzero = path.log_likelihood, path.n_parameters - 1
    if penalty == "slope":
        try:
            slope = robust_slope(selection_shape(n_nonzero, n_loadings), likelihood)
        except InputError:
            if options.penalties is not None:
                raise
            penalty = "ebic"
        else:
            return Evaluation(slope.criterion, "slope", slope)
    if penalty == "aic":
        return Evaluation(likelihood - path.n_parameters, "aic")
    if penalty == "bic":
        return Evaluation(likelihood - 0.5 * np.log(n) * path.n_parameters, "bic")
    if penalty == "ebic":
        return Evaluation(ebic(likelihood, n_nonzero, n, n_loadings), "ebic")
    return Evaluation(-np.abs(path.penalties - float(penalty)), "given")


def order_components(W: np.ndarray) -> np.ndarray:
    """Sort components by norm and make the largest loading of each positive."""
    W = W[np.argsort(-np.sum(W**2, axis=1), kind="stable")]
    strongest = W[np.arange(W.shape[0]), np.argmax(np.abs(W), axis=1)]
    signs = np.where(strongest < 0, -1.0, 1.0)
    return W * signs[:, None]
