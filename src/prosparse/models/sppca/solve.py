"""From a table to sparse loadings: a grid of penalties, the path along it, the best of its fits.

Fits are in the operator's units. Penalties and likelihoods are asked for, compared and reported in
the table's, in which a criterion means the same whatever unit the operator has; `Columns` leads
from one to the other.

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
from ...selection.criteria import aic, bic, ebic
from ...selection.dimension import resolve_dimension
from ...selection.slope import Slope, choice_shape, robust_slope
from .model import init
from .path import best_likelihoods, fit_one, fit_path, problem_of, way_up

Criterion = Literal["slope", "aic", "bic", "ebic"]
Rule = Literal["slope", "aic", "bic", "ebic", "given"]

DEFAULT_PENALTIES = 100  # on the default path


class Options(NamedTuple):
    """What the user decides; see `SPPCA`."""

    n_components: int | Literal["auto"]
    penalty: Criterion | float  # how it is chosen, or its value
    penalties: np.ndarray | None  # the grid, or None for the default one
    columns: Columns  # the way to the table's units
    max_iter: int
    tol: float
    verbose: int


class PenaltyPath(NamedTuple):
    """What the criteria see of a path, in the table's units."""

    penalties: np.ndarray  # (m,) rising
    log_likelihood: np.ndarray  # (m,) the largest that the nonzeros of each fit can reach
    n_parameters: np.ndarray  # (m,) nonzero loadings and the noise variance


class Solution(NamedTuple):
    """All that a fit finds, in the operator's columns and units but for path and criterion."""

    loadings: np.ndarray  # (d, p) in falling order of norm, the largest of each positive
    order: np.ndarray  # (p,) variables, the largest loadings first
    relevance: np.ndarray  # (p,) norm of the loadings relative to the largest
    selected: np.ndarray  # variables with any loading
    noise: float  # variance
    variances: np.ndarray  # (d,) that each component adds to those before it
    variance_ratios: np.ndarray  # (d,) proportions of the total variance
    path: PenaltyPath
    criterion: np.ndarray  # (m,) that the chosen penalty maximises
    best: int  # the place of that penalty on the path
    rule: Rule  # what chose it
    slope: Slope | None
    bounds: np.ndarray  # (n_iter,) of the penalised log-likelihood at the chosen penalty
    reason: StopReason


def solve(op: Operator, options: Options) -> Solution:
    """Fit the path of a centred table and keep the fit that the criterion prefers."""
    parts = spectrum(op)
    d = resolve_dimension(options.n_components, parts)
    problem = problem_of(parts, options.max_iter, options.tol)
    start = init(parts, d)
    up = None if asked_for(options) else way_up(problem, start)
    penalties = grid(options, 0.0 if up is None else up.vanishing)
    fits = fit_path(problem, start, penalties, options.verbose, () if up is None else up.states)
    if up is not None:  # the path ends where no loading is left
        fits[-1] = fit_one(problem, up.vanished, up.vanishing)
    likelihoods = best_likelihoods(problem, fits)
    nonzeros = [int(op.xp.sum(op.xp.astype(fit.state.W != 0, op.xp.int64))) for fit in fits]
    n, p = op.shape
    path = PenaltyPath(
        penalties / options.columns.per_length(1.0),
        options.columns.log_density(likelihoods, n * p),
        np.array(nonzeros) + 1,
    )
    choice = chosen_by(path, n, d * p, options)
    best = int(np.argmax(choice.values))
    state, runs = fits[best]
    W = arranged(to_numpy(state.W))
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
        criterion=choice.values,
        best=best,
        rule=choice.rule,
        slope=choice.slope,
        bounds=np.concatenate([run.bounds for run in runs]),
        reason=worst([run.reason for run in runs]),
    )


def asked_for(options: Options) -> bool:
    """Whether the user gave the penalties, or the one to fit."""
    return options.penalties is not None or not isinstance(options.penalty, str)


def grid(options: Options, vanishing: float) -> np.ndarray:
    """The penalties to fit, rising, in the operator's units; up to ``vanishing``, at which no
    loading is left, unless the user said which."""
    penalty, per_length = options.penalty, options.columns.per_length
    if options.penalties is not None:
        asked = [] if isinstance(penalty, str) else [penalty]
        return np.asarray(per_length(np.union1d(options.penalties, asked)))
    if not isinstance(penalty, str):  # up to the one asked for, in a few strides
        return np.asarray(per_length(penalty) * np.array([0.1, 0.3, 1.0]))
    # dense where the models are large
    return vanishing * np.linspace(0.0, 1.0, DEFAULT_PENALTIES) ** 2


class PenaltyChoice(NamedTuple):
    """How a penalty was chosen from a path."""

    values: np.ndarray  # (m,) what the chosen penalty maximises
    rule: Rule
    slope: Slope | None = None


def chosen_by(path: PenaltyPath, n: int, n_loadings: int, options: Options) -> PenaltyChoice:
    """What the chosen penalty maximises along the path, and which rule says so.

    The slope heuristic reads the price of a parameter off models that are larger than needed. A
    table of few columns has too few models, and one in which every variable carries structure has
    none that is too large: [BMM12] advise another criterion then. On a grid of our own that is
    EBIC [CC08], which like the heuristic allows for the loadings having been picked by the data.
    On a grid that the user gave, more penalties may help, and the heuristic says what it lacks.
    """
    penalty = options.penalty
    likelihood, picked = path.log_likelihood, path.n_parameters - 1
    if penalty == "slope":
        try:
            slope = robust_slope(choice_shape(picked, n_loadings), likelihood)
        except InputError:
            if options.penalties is not None:
                raise
            penalty = "ebic"
        else:
            return PenaltyChoice(slope.criterion, "slope", slope)
    if penalty == "aic":
        return PenaltyChoice(aic(likelihood, path.n_parameters), "aic")
    if penalty == "bic":
        return PenaltyChoice(bic(likelihood, path.n_parameters, n), "bic")
    if penalty == "ebic":
        return PenaltyChoice(ebic(likelihood, picked, n, n_loadings), "ebic")
    return PenaltyChoice(-np.abs(path.penalties - float(penalty)), "given")


def arranged(W: np.ndarray) -> np.ndarray:
    """Components in falling order of norm, the largest loading of each positive."""
    W = W[np.argsort(-np.sum(W**2, axis=1), kind="stable")]
    strongest = W[np.arange(W.shape[0]), np.argmax(np.abs(W), axis=1)]
    signs = np.where(strongest < 0, -1.0, 1.0)
    return W * signs[:, None]
