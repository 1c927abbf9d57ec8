"""Fit of the model: from centred data to a `Solution`.

`solve` fits Gaussian views, `solve_non_gaussian` other likelihoods and `solve_groups` several
groups of samples. The number of factors is selected by `select_n_factors`.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import DenseOperator, Operator
from ...data.arrays import from_numpy, is_writable, to_numpy
from ...inference.checkpoint import Stage
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import spectrum
from ...selection.dimension import impute_by_pca
from .group_data import GroupedData
from .grouped import (
    GroupedParameters,
    GroupedState,
    grouped_accelerator,
    grouped_init,
    grouped_step,
)
from .hyperbolic import HyperbolicPrior
from .imputed_init import fit_imputed
from .missing_e_step import IncompleteSamples
from .model import (
    FactorParameters,
    Prior,
    State,
    ViewLayout,
    accelerator,
    hyperbolic_step,
    init,
    max_precisions,
    variational_step,
    view_layout,
)
from .n_factors import SCAOptions, factor_counts, learn_noise, select_n_factors
from .non_gaussian import (
    NonGaussianState,
    Rows,
    fisher_information,
    initial_offsets,
    non_gaussian_init,
    non_gaussian_step,
)
from .point_normal import local_false_sign_rate
from .samples import CompleteSamples, Samples, reduce_rows
from .score_prior import has_row_access, select_priors
from .scores import SparseScores
from .sketch import sketch_rows
from .start import EXACT_ROTATION, ROUGH_ROTATION, initial_loadings
from .view_correlation import Group, view_correlations

# Minimum tolerance with non-Gaussian views. Smaller gains per entry are negligible compared with
# the gap of the quadratic bounds.
MIN_NON_GAUSSIAN_TOL = 1e-6

# Tolerance of the fit to a sketch, relative to `tol`. Its iterations are cheap, and a loose
# tolerance can stop at a saddle point that costs dozens of iterations on the complete data.
SKETCH_TOL_RATIO = 0.1


# Loadings with a larger probability of being zero or of the other sign are set to zero.
MAX_FALSE_SIGN_RATE = 0.5


class Solution(NamedTuple):
    """Fitted model in the units of the operator, with ordered factors."""

    L: np.ndarray  # (p, Q) loadings
    deviations: np.ndarray | None  # (p, Q) posterior standard deviations (ard)
    mu: np.ndarray  # (p,) or (G, p) offsets from the observed means
    noise: np.ndarray  # (p,) or (G, p) noise variances
    factor_view: np.ndarray  # (Q,) view of private factors, -1 for shared factors
    view_correlation: np.ndarray  # (Q,) mean correlation of the scores of two views
    n_pruned: int  # number of factors without loadings
    objective_path: np.ndarray  # (n_iter,)
    n_densities: np.ndarray  # (p,) values per column of which the objective is a log density
    reason: StopReason
    factor_variance: np.ndarray | None = None  # (G, Q) variances of the factors
    sparse: SparseLoadings | None = None  # (point-normal)


class SparseLoadings(NamedTuple):
    """Posterior of loadings and prior of scores under point-normal priors."""

    mean: np.ndarray  # (p, Q) posterior means, which are not exactly zero
    lfsr: np.ndarray  # (p, Q) local false sign rates
    inclusion: np.ndarray  # (p, Q) inclusion probabilities
    score_probability: np.ndarray  # (Q,) probability of a non-zero score, 1 for Gaussian scores


def solve(
    op: Operator,
    seen: np.ndarray | None,
    groups: list[np.ndarray],
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit the loadings of all views jointly.

    ``op`` is the centred data matrix, zero where the mask ``seen`` is False; None if all entries
    are observed. ``groups`` are the columns of each view.
    """
    samples: Samples
    samples, start, sketch, epsilon = _fit_data(op, seen, groups, options)
    counts, private = factor_counts(start, samples.n, options), options.private
    max_factors = counts.maximum + sum(private)

    def layout(shared: int, private: list[int]) -> ViewLayout:
        lay = view_layout(groups, shared, private, options.noise, options.scale)
        return lay.to_device_of(samples.squares)

    def initial_state(lay: ViewLayout, prior: Prior, scale: float | np.ndarray = 1.0) -> State:
        """Return the start whose factors are those of columns multiplied by ``scale``."""
        shared, n_private = _factors_by_view(lay, len(groups))
        tol = EXACT_ROTATION if prior == "hyperbolic" else ROUGH_ROTATION
        table = start
        if np.ndim(scale) > 0:
            table = start.scale_columns(from_numpy(scale, start.column_squares(), start.dtype))
        L, variance = initial_loadings(
            table, samples.n, groups, shared, n_private, options.rotation, tol
        )
        first = init(samples, lay, (L.T / scale).T, variance / scale**2, prior)
        if sketch is None or prior == "hyperbolic":
            return first
        finer = options._replace(tol=SKETCH_TOL_RATIO * options.tol)
        found = _run_model(sketch, lay, None, first, start.epsilon, finer).state.fitted
        return State(found, found, -math.inf)

    def begin(shared: int, how: SCAOptions) -> tuple[State, ViewLayout]:
        lay = layout(shared, private)
        prior = _variational_prior(options)
        starts = [initial_state(lay, prior)]
        if lay.units is not None and len(lay.units) > 1:
            starts.append(initial_state(lay, prior, 1.0 / np.sqrt(lay.units[1])))
        if seen is not None:
            starts = [fit_imputed(start, lay, first, how.max_iter, how.tol) for first in starts]
        return learn_noise(starts, lay, run_from, how), lay

    def run_from(state: State, lay: ViewLayout, how: SCAOptions) -> Run[State]:
        part: Samples = samples if state.ahead.scores is None else SparseScores(op, seen)
        return _run_model(part, lay, None, state, epsilon, how)

    if options.n_components == "auto" or options.prior != "hyperbolic":
        first, lay = select_n_factors(counts, samples.n, begin, run_from, options)
    else:
        lay = layout(counts.maximum, private)
    prior = _hyperbolic_prior(lay, options)
    if prior is not None:
        # Under the Normal-Jeffreys prior a zero loading stays zero. A start from the ARD solution
        # or from a sketch would therefore lead to a poorer local maximum.
        lay = layout(*_factors_by_view(lay, len(groups)))
        first = initial_state(lay, "hyperbolic")
    if options.prior == "point-normal" and has_row_access(op):
        sparse = SparseScores(op, seen)
        first, lay = select_priors(sparse, first, lay, run_from, options)
        samples = samples if first.ahead.scores is None else sparse
    run = _run_model(samples, lay, prior, first, epsilon, options, progress, checkpoint)
    # The log posterior is a density of the loadings as well.
    n_densities = to_numpy(samples.observed)
    if prior is not None:
        n_densities = n_densities + lay.allowed.sum(axis=1)
    return _solution(run, lay, max_factors, n_densities)


def _factors_by_view(lay: ViewLayout, n_views: int) -> tuple[int, list[int]]:
    """Return the number of shared factors and of private factors of each view."""
    shared, *private = np.bincount(lay.block, minlength=n_views + 1).tolist()
    return shared, private


def _variational_prior(options: SCAOptions) -> Prior:
    """Return the prior of the variational fits, which start that of the hyperbolic prior."""
    return "ard" if options.prior == "hyperbolic" else options.prior


def _hyperbolic_prior(lay: ViewLayout, options: SCAOptions) -> HyperbolicPrior | None:
    """Return the hyperbolic prior if it is requested and any loading is free."""
    if options.prior != "hyperbolic" or not bool(array_namespace(lay.allowed).any(lay.allowed)):
        return None
    return HyperbolicPrior(options.shape / (options.n_features * lay.block.size), options.rate)


def _run_model(
    samples: Samples,
    lay: ViewLayout,
    prior: HyperbolicPrior | None,
    first: State,
    epsilon: float,
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Run[State]:
    """Iterate from a state to convergence of the objective."""
    if prior is None:
        step = partial(variational_step, samples, lay)
    else:
        step = partial(hyperbolic_step, samples, lay, prior)
    xp = array_namespace(samples.squares)
    total, entries = float(xp.sum(samples.squares)), float(xp.sum(samples.observed))
    return iterate(
        step,
        first,
        max_iter=options.max_iter,
        tol=options.tol * entries,
        accelerator=accelerator(max_precisions(samples, lay)),
        exhausted=lambda state: not bool(xp.any(state.fitted.L != 0)),
        rounding=lambda state: residual_rounding(
            state, total, 1.0 / float(xp.max(state.ahead.tau)), epsilon
        ),
        progress=progress,
        checkpoint=checkpoint,
    )


def solve_non_gaussian(
    rows: Rows,
    op: Operator,
    per_unit: np.ndarray,
    means: np.ndarray,
    groups: list[np.ndarray],
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit views of which at least one is not Gaussian.

    ``op`` has standardised columns, zero where a value is missing, for the initialisation.
    ``per_unit`` (p,) is one standard deviation in units of the linear predictor. ``means`` (p,) are
    column means strictly inside the range of the likelihood. ``groups`` are the columns of each
    view.
    """
    start = spectrum(op).op if op.shape[0] > op.shape[1] else op
    mu = initial_offsets(rows, means)

    def begin(shared: int, private: list[int], prior: Prior) -> tuple[NonGaussianState, ViewLayout]:
        lay = view_layout(groups, shared, private, options.noise)
        L = initial_loadings(start, rows.n, groups, shared, private, options.rotation)[0]
        return non_gaussian_init(rows, lay, L * per_unit[:, None], mu, prior), lay

    def run_from(
        first: NonGaussianState,
        lay: ViewLayout,
        how: SCAOptions,
        prior: HyperbolicPrior | None = None,
    ) -> Run[NonGaussianState]:
        last = how is options
        return iterate(
            partial(non_gaussian_step, rows, lay, prior),
            first,
            max_iter=how.max_iter,
            tol=max(how.tol, MIN_NON_GAUSSIAN_TOL) * float(rows.observed.sum()),
            accelerator=accelerator(max_precisions(rows, lay)),
            exhausted=lambda state: not np.any(state.fitted.L),
            progress=progress if last else None,
            checkpoint=checkpoint if last else None,
        )

    counts = factor_counts(start, rows.n, options)
    max_factors = counts.maximum + sum(options.private)
    first, lay = select_n_factors(
        counts,
        rows.n,
        lambda shared, how: begin(shared, options.private, _variational_prior(options)),
        run_from,
        options,
    )
    prior = _hyperbolic_prior(lay, options)
    if prior is not None:
        first, lay = begin(*_factors_by_view(lay, len(groups)), "hyperbolic")
    run = run_from(first, lay, options, prior)
    # Probabilities of counts and loadings of the linear predictor do not depend on units.
    n_densities = np.where(rows.gaussian, rows.observed, 0.0)
    if prior is not None:
        n_densities = n_densities + np.where(rows.gaussian, lay.allowed.sum(axis=1), 0)
    return _solution(run, lay, max_factors, n_densities, fisher_information(rows, means))


def solve_groups(
    data: GroupedData,
    views: list[np.ndarray],
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit samples of several groups, centred within groups, under the ARD prior.

    ``mu`` and ``noise`` of the solution have one row per group. The noise is NaN if a column does
    not vary within a group.
    """
    members, n = data.members, data.start.shape[0]
    start = reduce_rows(data.start)
    counts, private = factor_counts(start, n - len(members), options), options.private
    max_factors = counts.maximum + sum(private)
    pooled = CompleteSamples(start, n)
    total = float(sum(np.sum(member.samples.squares) for member in members))
    entries = float(sum(np.sum(member.samples.observed) for member in members))

    def begin(shared: int, how: SCAOptions) -> tuple[GroupedState, ViewLayout]:
        lay = view_layout(views, shared, private, options.noise)
        loadings = initial_loadings(start, n, views, shared, private, options.rotation)
        pooled_state = init(pooled, lay, *loadings, options.prior)
        if data.has_missing:
            pooled_state = fit_imputed(start, lay, pooled_state, how.max_iter, how.tol)
        return grouped_init(members, lay, pooled_state), lay

    def run_from(state: GroupedState, lay: ViewLayout, how: SCAOptions) -> Run[GroupedState]:
        last = how is options
        return iterate(
            grouped_step(members, lay),
            state,
            max_iter=how.max_iter,
            tol=how.tol * entries,
            accelerator=grouped_accelerator(members, lay),
            exhausted=lambda state: not np.any(state.fitted.L),
            rounding=lambda state: residual_rounding(
                state, total, 1.0 / state.ahead.tau.max(), start.epsilon
            ),
            progress=progress if last else None,
            checkpoint=checkpoint if last else None,
        )

    first, lay = select_n_factors(counts, n, begin, run_from, options)
    run = run_from(first, lay, options)
    n_densities = np.zeros(lay.view.size)
    for member in members:
        n_densities[member.columns] += member.samples.observed
    solution = _solution(run, lay, max_factors, n_densities, data=data)
    return solution._replace(noise=np.where(data.varying_in_group, solution.noise, np.nan))


class FitData(NamedTuple):
    """Data of a fit."""

    samples: Samples  # all samples
    start: Operator  # data for the initialisation, with few rows
    sketch: Samples | None  # approximation of large data
    epsilon: float  # relative rounding error of products with the data


def _fit_data(
    op: Operator, seen: np.ndarray | None, groups: list[np.ndarray], options: SCAOptions
) -> FitData:
    """Return the data in the forms that a fit needs."""
    n, count = op.shape[0], options.n_components
    if seen is not None:
        X = to_numpy(op.whole)
        full = impute_by_pca(X, seen, None if count == "auto" else count + sum(options.private))
        start = DenseOperator(full - full.mean(axis=0))
        return FitData(IncompleteSamples(X, seen), start, None, start.epsilon)
    reduced = reduce_rows(op)
    # The updates under the hyperbolic prior run in CPU memory.
    on_device = options.prior != "hyperbolic" and is_writable(reduced.column_squares())
    samples = CompleteSamples(reduced, n, on_device=on_device)
    if count != "auto":
        small = sketch_rows(reduced, groups, [int(count) + k for k in options.private])
        if small is not None:
            sketch = CompleteSamples(small.table, n, small.residual, on_device)
            return FitData(samples, small.table, sketch, reduced.epsilon)
    return FitData(samples, reduced, None, reduced.epsilon)


def _solution(
    run: Run[State] | Run[NonGaussianState] | Run[GroupedState],
    lay: ViewLayout,
    max_factors: int,
    n_densities: np.ndarray,
    entry_information: np.ndarray | None = None,
    data: GroupedData | None = None,
) -> Solution:
    """Return the model without empty factors, ordered, with fixed signs.

    ``max_factors`` is the largest possible number of factors. ``entry_information`` (p,) is the
    Fisher information of an entry about its linear predictor, NaN for Gaussian columns; None if all
    columns are Gaussian. ``data`` holds the data of a `GroupedState`.
    """
    fitted: FactorParameters | GroupedParameters = run.state.fitted
    if isinstance(fitted, GroupedParameters):
        loadings, noise, factor_variance = fitted.L, 1.0 / fitted.tau, fitted.v
    else:
        loadings, noise, factor_variance = (
            to_numpy(fitted.L),
            to_numpy(1.0 / lay.of_columns(fitted.tau)),
            None,
        )
    lfsr = None
    if fitted.sparse is not None:
        lfsr = local_false_sign_rate(
            *(to_numpy(part).astype(float) for part in (loadings, *fitted.sparse[1:3]))
        )
        loadings = np.where(lfsr < MAX_FALSE_SIGN_RATE, loadings, 0.0)
    if lay.noise_has_prior:
        noisy = None if entry_information is None else np.isnan(entry_information)
        loadings, noise = absorb_singleton_factors(loadings, noise, noisy, factor_variance)
    deviations = None
    if fitted.C is not None:
        variances = to_numpy(array_namespace(fitted.C).linalg.diagonal(fitted.C))
        deviations = np.sqrt(np.clip(variances, 0.0, None))
        deviations = np.where(np.any(loadings, axis=0), deviations, 0.0)
    strength = np.sum(loadings**2, axis=0)
    loading_variance = np.zeros_like(loadings) if deviations is None else deviations**2
    groups = _correlation_groups(noise, loading_variance, factor_variance, entry_information, data)
    correlation = view_correlations(loadings, to_numpy(lay.view), groups)
    alive = _order_factors(lay.block, correlation, strength)
    L = loadings[:, alive]
    largest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
    sign = np.where(largest < 0, -1.0, 1.0)
    return Solution(
        L=L * sign,
        deviations=None if deviations is None else deviations[:, alive],
        mu=to_numpy(fitted.mu),
        noise=noise,
        factor_view=lay.block[alive] - 1,
        view_correlation=correlation[alive],
        n_pruned=int(max_factors - np.sum(strength > 0)),
        objective_path=np.array(run.bounds),
        n_densities=n_densities,
        reason=run.reason,
        factor_variance=None if factor_variance is None else factor_variance[:, alive],
        sparse=None if lfsr is None else _sparse_loadings(fitted, lfsr, L, alive, sign),
    )


def _sparse_loadings(
    fitted: FactorParameters | GroupedParameters,
    lfsr: np.ndarray,
    L: np.ndarray,
    alive: np.ndarray,
    sign: np.ndarray,
) -> SparseLoadings:
    """Return the posterior of the factors ``alive``, whose loadings are L.

    A factor without loadings has no posterior means either.
    """
    assert fitted.sparse is not None
    means, inclusion = (to_numpy(part)[:, alive] for part in (fitted.L, fitted.sparse.inclusion))
    some = np.any(L, axis=0)
    scores = None if isinstance(fitted, GroupedParameters) else fitted.scores
    probability = np.ones(alive.size) if scores is None else scores.probability[0, alive]
    return SparseLoadings(
        np.where(some, means * sign, 0.0),
        np.where(some, lfsr[:, alive], 1.0),
        np.where(some, inclusion, 0.0),
        np.where(some, probability, 1.0),
    )


def _order_factors(block: np.ndarray, correlation: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Return the positions of the remaining factors in their final order.

    Shared factors come first, by decreasing view correlation and strength, then the private factors
    of each view. One factor remains without loadings, so that scores have a column.
    """
    order = np.lexsort((-strength, -np.maximum(correlation, 0.0), block))
    alive: np.ndarray = order[strength[order] > 0]
    return alive if alive.size else order[:1]


def _correlation_groups(
    noise: np.ndarray,
    loading_variance: np.ndarray,
    factor_variance: np.ndarray | None,
    entry_information: np.ndarray | None,
    data: GroupedData | None,
) -> list[Group]:
    """Return the groups of samples for `view_correlations`."""
    p, Q = loading_variance.shape
    if data is None or factor_variance is None:
        if entry_information is not None:
            noise = np.where(np.isnan(entry_information), noise, 1.0 / entry_information)
        return [
            Group(1.0, np.ones(Q), noise + loading_variance.sum(axis=1), np.ones(p, dtype=bool))
        ]
    sizes = np.array([member.samples.n for member in data.members], dtype=float)
    parts = zip(sizes / sizes.sum(), factor_variance, noise, data.varying_in_group, strict=True)
    return [
        Group(proportion, v, group_noise + loading_variance @ v, varying_in_group)
        for proportion, v, group_noise, varying_in_group in parts
    ]


def absorb_singleton_factors(
    L: np.ndarray, noise: np.ndarray, noisy: np.ndarray | None, factor_variance: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """Convert factors with a single loading to noise of that column.

    The distribution of the data is unchanged. ``noisy`` (p,) marks the columns with estimated
    noise.
    """
    singleton = np.count_nonzero(L, axis=0) == 1
    if noisy is not None:
        singleton &= ~np.any(L[~noisy], axis=0)
    singleton_variance = L[:, singleton] ** 2
    if factor_variance is None:
        return np.where(singleton, 0.0, L), noise + np.sum(singleton_variance, axis=1)
    return np.where(singleton, 0.0, L), noise + factor_variance[:, singleton] @ singleton_variance.T
