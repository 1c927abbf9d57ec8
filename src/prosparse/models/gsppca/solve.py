"""Algorithm of GSPPCA: ranking, comparison of cardinalities, components.

The relaxed model ranks the variables (`model`), and the evidence along the ranking determines how
many are selected (`evidence`). The selection is refined by the components of the other variables
(`refinement`). PCA on the selected columns gives the components.
"""

from __future__ import annotations

from functools import partial
from numbers import Integral
from typing import Literal, NamedTuple

import numpy as np
from scipy.special import logsumexp

from ...data import Array, Operator
from ...data.arrays import to_numpy
from ...errors import ParameterError
from ...inference.acceleration import over_loadings
from ...inference.checkpoint import Checkpoint
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import Spectrum, principal_components, spectrum
from ...selection.dimension import resolve_dimension
from ...selection.noise import noise_variance
from ...structure import MIN_DOF, StandardisedData
from .diagnostics import (
    Diagnostic,
    diagnose_refined,
    diagnose_rows,
    diagnose_structure,
    empty_model,
    no_shared_variance,
)
from .evidence import EvidenceKind, NestedModels
from .factors import (
    FactorState,
    make_factor_step,
    over_factors,
    to_factor_state,
)
from .model import State, init, make_step, min_noise, rank_variables, relative_relevance
from .model_priors import log_odds
from .quasi_newton import QuasiNewton
from .refinement import FDR, Refined, Refinement, find_shared_components

NoiseEstimator = Literal["bias-corrected", "ml", "median"]
ModelPrior = Literal["uniform", "sparse"]

N_EIGENVALUES = 50  # number of eigenvalues computed if the matrix is too large for all
# Decimal digits of a variance relative to the largest; further digits are rounding errors.
VARIANCE_DIGITS = 9


class Options(NamedTuple):
    """Parameters of `GSPPCA`."""

    n_components: int | Literal["auto"]
    n_features_to_select: int | None
    scale: bool  # whether all columns were scaled to the same variance
    noise: NoiseEstimator
    evidence: EvidenceKind
    model_prior: ModelPrior
    refine: bool
    max_iter: int
    tol: float
    verbose: int
    checkpoint: Checkpoint | None


class SelectedVariables(NamedTuple):
    """Variables selected for one number of components."""

    d: int
    run: Run[State] | Run[FactorState]  # of the relaxed model
    order: np.ndarray  # (p,) indices of the variables, most relevant first
    relevance: np.ndarray  # (p,) between 0 and 1
    inclusion: np.ndarray  # (p,) posterior probabilities
    noise: float  # variance of the inactive variables
    cardinalities: np.ndarray  # (m,) compared numbers of variables
    log_evidence: np.ndarray  # (m,) plus log prior
    best: int  # index of the selected cardinality
    refined: bool = False

    @property
    def columns(self) -> np.ndarray:
        """Indices of the selected variables, increasing."""
        return np.sort(self.order[: self.cardinalities[self.best]])


class Solution(NamedTuple):
    """Results of a fit, in the columns and units of the operator."""

    selection: SelectedVariables
    components: Array  # (d, q) orthonormal rows, on the selected variables
    variances: np.ndarray  # (d,) along the components
    explained_proportions: np.ndarray  # (d,) of the total variance
    active_noise: float  # variance of the selected variables around the components
    diagnostics: list[Diagnostic]


def solve(op: Operator, options: Options) -> Solution:
    """Select variables of a standardised data matrix and fit their components."""
    if options.refine and op.shape[0] > MIN_DOF:
        parts, selection, diagnostics = select_refined(op, options)
    else:
        parts, d, found = count_factors(op, options)
        selection = select_variables(op, parts, d, options)
        diagnostics = diagnose(op, parts, selection, options, found)
    selected, d, n = selection.columns, selection.d, parts.n
    squares = to_numpy(op.column_squares())
    components, explained = principal_components(op.take_columns(selected), d)
    dof = (n - 1) * (selected.size - d)
    residual = (squares[selected].sum() - explained.sum()) / dof if dof else selection.noise
    return Solution(
        selection=selection,
        components=components,
        variances=explained / (n - 1),
        explained_proportions=explained / squares.sum(),
        active_noise=max(float(residual), min_noise(parts)),
        diagnostics=diagnostics,
    )


def select_refined(
    op: Operator, options: Options
) -> tuple[Spectrum, SelectedVariables, list[Diagnostic]]:
    """Select variables by the evidence, and refine the selection."""
    with Progress(None, "GSPPCA, refinement", options.verbose) as bar:
        refinement = Refinement(
            op,
            log_odds(options.model_prior, *op.shape),
            bar.advance,
        )
        counted = None
        if is_counted(options):
            counted = refinement.select_dimension()
            d = 1 if counted is None else counted.d
            d = min(d, min(op.shape) - 1, options.n_features_to_select or d)
            options = options._replace(n_components=d)
        parts, d, _ = count_factors(op, options)
        free = options._replace(n_features_to_select=None)
        selection = select_variables(op, parts, d, free)
        starts = [np.isin(np.arange(op.shape[1]), selection.columns)]
        if not refinement.is_large:
            starts.append(refinement.eliminate(d))
        if counted is not None:
            starts.append(counted.selected)
        refined = refinement.run(d, starts)
    diagnostics = diagnose_refined(refined, options.n_features_to_select is not None)
    return parts, refine_selection(op, selection, refined, options), diagnostics


def refine_selection(
    op: Operator, selection: SelectedVariables, refined: Refined, options: Options
) -> SelectedVariables:
    """Replace the ranking, the evidence and the selection by the refined ones."""
    given, p = options.n_features_to_select, op.shape[1]
    q = np.arange(selection.d + 1, p + 1) if given is None else np.array([given])
    return selection._replace(
        order=refined.order,
        relevance=refined.relevance,
        inclusion=refined.inclusion.probability,
        cardinalities=q,
        log_evidence=refined.log_evidence[q],
        best=int(np.searchsorted(q, refined.n_selected)) if given is None else 0,
        refined=True,
    )


def is_counted(options: Options) -> bool:
    """Return whether the number of components is estimated."""
    return isinstance(options.n_components, str) and options.n_components == "auto"


def count_factors(op: Operator, options: Options) -> tuple[Spectrum, int, bool]:
    """Compute the spectrum, the number of components, and whether any exists.

    With unequal noise, eigenvalues of the data exceed white noise even if the columns share no
    variance. "auto" therefore selects columns with shared variance and counts their components.
    """
    d, found = options.n_components, True
    if is_counted(options) and op.shape[0] > MIN_DOF:
        shared, d = find_shared_components(StandardisedData(op.unit_variance()))
        found, d = bool(shared.any()), max(1, d)
        d = min(d, min(op.shape) - 1, options.n_features_to_select or d)
    count = max(1, int(d)) if isinstance(d, Integral) else N_EIGENVALUES
    parts = spectrum(op, count)
    return parts, check_dimension(parts, d, options), found


def check_dimension(parts: Spectrum, d: int | Literal["auto"], options: Options) -> int:
    """Check the number of components against the data and the cardinality."""
    p, q = parts.op.shape[1], options.n_features_to_select
    d = resolve_dimension(d, parts, q, white_noise(parts, options))
    if q is not None and not d <= q <= p:
        raise ParameterError(
            f"`n_features_to_select` must be between `n_components` = {d} and the number of "
            f"columns that vary, {p}, got {q}."
        )
    return d


def white_noise(parts: Spectrum, options: Options) -> float | None:
    """Return the variance of all columns if they were scaled."""
    return parts.n / (parts.n - 1) if options.scale else None


def select_variables(op: Operator, parts: Spectrum, d: int, options: Options) -> SelectedVariables:
    """Rank the variables with d components and select the best cardinality."""
    run = fit_relaxed(parts, d, options)
    empty = run.reason is StopReason.EMPTY_MODEL
    order = rank_by_variance(parts, d) if empty else rank_variables(run.state.t, run.state.slope)
    noise = inactive_noise(parts, to_numpy(op.column_squares()), d, run.state.sigma2, options)
    q, log_evidence = compare_cardinalities(op, order, d, noise, options)
    return SelectedVariables(
        d=d,
        run=run,
        order=order,
        relevance=relative_relevance(run.state.t),
        inclusion=path_inclusion(order, q, log_evidence),
        noise=noise,
        cardinalities=q,
        log_evidence=log_evidence,
        best=int(np.argmax(log_evidence)),
    )


def path_inclusion(order: np.ndarray, q: np.ndarray, log_evidence: np.ndarray) -> np.ndarray:
    """Compute inclusion probabilities from the evidence along a ranking."""
    weights = np.zeros(order.size)
    np.add.at(weights, q - 1, np.exp(log_evidence - logsumexp(log_evidence)))
    probability = np.empty(order.size)
    probability[order] = np.minimum(np.cumsum(weights[::-1])[::-1], 1.0)
    return probability


def rank_by_variance(parts: Spectrum, d: int) -> np.ndarray:
    """Rank variables by variance, and ties by d principal components.

    This ranking replaces that of an empty relaxed model, which depends on the path of iterations.
    """
    squares = to_numpy(parts.op.column_squares())
    explained = to_numpy(parts.directions(d) ** 2 @ parts.eigenvalues[:d])
    variances = np.round(squares / squares.max(), VARIANCE_DIGITS)
    return np.lexsort((-explained, -variances))


def fit_relaxed(parts: Spectrum, d: int, options: Options) -> Run[State] | Run[FactorState]:
    """Fit the relaxed model.

    The iterations alternate between q(W) and q(Y). The smaller of the two is accelerated, that is,
    q(Y) if the data matrix has at most as many rows as columns.
    """
    op, xp, n, p = parts.op, parts.op.xp, parts.n, parts.op.shape[1]
    total, epsilon = float(xp.sum(op.column_squares())), op.epsilon
    file, tol = options.checkpoint, options.tol * n * p
    run = partial(
        iterate,
        max_iter=options.max_iter,
        tol=tol,
        exhausted=lambda state: not bool(xp.any(state.t > 0)),
        rounding=lambda state: residual_rounding(state, total, state.sigma2, epsilon),
        progress=Progress(options.max_iter, "GSPPCA", options.verbose),
        checkpoint=file.stage(f"{d} components") if file else None,
    )
    if op.shape[0] > p:
        step = make_step(op, n)
        return run(step, init(parts, d), accelerator=over_loadings("M", xp, QuasiNewton))
    start = to_factor_state(init(parts, d), op)
    return run(make_factor_step(op, n), start, accelerator=over_factors(start, xp))


def inactive_noise(
    parts: Spectrum, squares: np.ndarray, d: int, relaxed: float, options: Options
) -> float:
    """Estimate the variance of inactive variables."""
    # The variance of scaled columns is known. Residuals of active columns would bias an estimate.
    kind = "median" if options.scale else options.noise
    noise = noise_variance(kind, to_numpy(parts.eigenvalues), squares, parts.n, d)
    floor = min_noise(parts)
    # If d components fit exactly, ``relaxed``, the noise variance of that model, is used.
    return noise if noise > floor else max(relaxed, floor)


def compare_cardinalities(
    op: Operator, order: np.ndarray, d: int, noise: float, options: Options
) -> tuple[np.ndarray, np.ndarray]:
    """Return cardinalities and their log evidence plus log prior."""
    given = options.n_features_to_select
    q = np.arange(d + 1, op.shape[1] + 1) if given is None else np.array([given])
    with Progress(None, "GSPPCA, evidence", options.verbose) as bar:
        models = NestedModels(op, order, d, noise, options.evidence, bar.advance)
        return models.search(q, lambda q: q * log_odds(options.model_prior, *op.shape))


def diagnose(
    op: Operator, parts: Spectrum, selection: SelectedVariables, options: Options, found: bool
) -> list[Diagnostic]:
    """Return the diagnostics; ``found`` states whether the test found structure."""
    if selection.run.reason is StopReason.EMPTY_MODEL:
        return [empty_model()]
    if not found:
        return [no_shared_variance(FDR)]
    smallest = selection.cardinalities.size > 1 and selection.best == 0
    white = white_noise(parts, options)
    diagnostics = diagnose_structure(
        op, parts, selection.columns, selection.d, selection.noise, white, smallest
    )
    if options.evidence == "noiseless":
        diagnostics += diagnose_rows(op, selection.noise)
    return diagnostics
