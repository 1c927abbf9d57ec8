"""Fit of the model: from centred data to a `Solution`.

`gaussian_data`, `non_gaussian_data` and `grouped_fit_data` prepare the data of a fit for `solve`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import DenseOperator, Operator
from ...data.arrays import from_numpy, is_writable, to_numpy
from ...inference.checkpoint import Stage
from ...inference.loop import Run, StopReason, iterate, relative_rounding, residual_rounding
from ...inference.progress import Progress
from ...selection.dimension import impute_by_pca
from .group_data import GroupedData
from .grouped import FactorVariances, GroupedSamples
from .hyperbolic import HyperbolicPrior
from .imputed_init import fit_imputed
from .missing_e_step import IncompleteSamples
from .model import (
    FactorParameters,
    Prior,
    State,
    ViewLayout,
    accelerator,
    init,
    step,
    view_layout,
)
from .n_factors import (
    MAX_ITER_PER_COUNT,
    MIN_NOISE_GAIN,
    FactorCounts,
    SCAOptions,
    better_noise,
    factor_counts,
    select_n_factors,
    with_learned_noise,
)
from .non_gaussian import Rows, fisher_information, initial_offsets, non_gaussian_init
from .point_normal import (
    FACTOR_FIELDS,
    PointNormal,
    local_false_sign_rate,
    observed_posterior,
)
from .samples import CompleteSamples, Samples, reduce_rows
from .score_prior import has_row_access, select_priors
from .scores import SparseScores
from .sketch import sketch_rows
from .start import EXACT_ROTATION, ROUGH_ROTATION, initial_loadings
from .view_correlation import Group, view_correlations

# Minimum tolerance with non-Gaussian views. Smaller gains per entry are negligible compared with
# the gap of the quadratic bounds.
MIN_NON_GAUSSIAN_TOL = 1e-6

# Tolerance of the fit to a sketch, relative to `tol`. Iterations on the sketch are fast, whereas a
# large tolerance can stop at a saddle point, which requires dozens of iterations on the complete
# data.
SKETCH_TOL_RATIO = 0.1


# Loadings with a larger probability of being zero or of the opposite sign are set to zero.
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


class FitData(NamedTuple):
    """Data of a fit."""

    samples: Samples
    start: Operator  # complete data for the initialisation, with few rows
    n: int  # number of samples, minus the number of groups
    pooled: Samples  # data of the initial state
    epsilon: float  # relative rounding error of products with the data
    expand: Callable[[ViewLayout, State, Prior], State] | None = None  # from pooled parameters
    imputed: bool = False  # whether `start` has imputed values
    sketch: Samples | None = None  # approximation of large data
    sparse: SparseScores | None = None  # data with row access
    information: np.ndarray | None = None  # (p,) Fisher information, NaN for Gaussian columns
    groups: GroupedData | None = None


def gaussian_data(
    op: Operator,
    seen: np.ndarray | None,
    groups: list[np.ndarray],
    options: SCAOptions,
    root: np.ndarray | None = None,
) -> FitData:
    """Prepare the data of Gaussian views.

    ``op`` is the centred data matrix, zero where the mask ``seen`` is False; ``seen`` is None for
    complete data. ``groups`` contains the columns of each view. ``root`` (n,) contains the square
    roots of row weights, by which the rows are multiplied.
    """
    n, count = op.shape[0], options.n_components
    sparse = SparseScores(op, seen, root) if has_row_access(op) else None
    if seen is not None:
        X = to_numpy(op.whole)
        full = impute_by_pca(X, seen, None if count == "auto" else count + sum(options.private))
        start = DenseOperator(full - full.mean(axis=0))
        samples = IncompleteSamples(X, seen)
        return FitData(samples, start, n, samples, start.epsilon, imputed=True, sparse=sparse)
    reduced = reduce_rows(op)
    # Updates under the hyperbolic prior are computed in CPU memory.
    on_device = options.prior != "hyperbolic" and is_writable(reduced.column_squares())
    complete = CompleteSamples(reduced, n, on_device=on_device)
    data = FitData(complete, reduced, n, complete, reduced.epsilon, sparse=sparse)
    if count != "auto":
        small = sketch_rows(reduced, groups, [int(count) + k for k in options.private])
        if small is not None:
            sketch = CompleteSamples(small.table, n, small.residual, on_device)
            return data._replace(start=small.table, sketch=sketch)
    return data


def non_gaussian_data(
    rows: Rows, op: Operator, per_unit: np.ndarray, means: np.ndarray, options: SCAOptions
) -> FitData:
    """Prepare the data of views of which at least one is non-Gaussian.

    ``op`` has standardised columns, zero where a value is missing, for the initialisation.
    ``per_unit`` (p,) is one standard deviation in units of the linear predictor. ``means`` (p,) are
    column means strictly inside the range of the likelihood.
    """
    start, mu = reduce_rows(op), initial_offsets(rows, means)

    def expand(lay: ViewLayout, pooled: State, prior: Prior) -> State:
        return non_gaussian_init(rows, lay, pooled.fitted.L * per_unit[:, None], mu, prior)

    pooled = CompleteSamples(start, rows.n)
    information = fisher_information(rows, means)
    return FitData(rows, start, rows.n, pooled, start.epsilon, expand, information=information)


def grouped_fit_data(data: GroupedData) -> FitData:
    """Prepare the data of several groups of samples, centred within groups."""
    start, n = reduce_rows(data.start), data.start.shape[0]
    samples = GroupedSamples(data.members, data.kept.size)
    return FitData(
        samples,
        start,
        n - len(data.members),
        CompleteSamples(start, n),
        start.epsilon,
        lambda lay, pooled, prior: samples.initial(lay, pooled),
        imputed=data.has_missing,
        groups=data,
    )


class Fit(NamedTuple):
    """Data and parameters of a fit."""

    data: FitData
    groups: list[np.ndarray]  # columns of each view
    options: SCAOptions
    equal: dict[tuple[int, int], State]  # states with equal noise, by number and system of units

    def layout(self, shared: int, private: list[int]) -> ViewLayout:
        """Build the layout for a number of factors."""
        options = self.options
        lay = view_layout(self.groups, shared, private, options.noise, options.scale)
        return lay.to_device_of(self.data.pooled.squares)

    def run(
        self,
        state: State,
        lay: ViewLayout,
        options: SCAOptions,
        prior: HyperbolicPrior | None = None,
        progress: Progress | None = None,
        checkpoint: Stage | None = None,
    ) -> Run[State]:
        """Iterate from a state."""
        samples, epsilon = self.samples_of(state), self.data.epsilon
        return _run(samples, lay, prior, state, epsilon, options, progress, checkpoint)

    def samples_of(self, state: State) -> Samples:
        """Return the data in the form required by the scores of a state."""
        if not isinstance(state.ahead.scores, PointNormal):
            return self.data.samples
        assert self.data.sparse is not None
        return self.data.sparse

    def initial_state(
        self, lay: ViewLayout, prior: Prior, how: SCAOptions, system: int = 0
    ) -> State:
        """Initialise from the factors of columns in a system of units."""
        data, start, options = self.data, self.data.start, self.options
        shared, private = _factors_by_view(lay, len(self.groups))
        tol = EXACT_ROTATION if prior == "hyperbolic" else ROUGH_ROTATION
        table, scale = start, np.ones(lay.view.shape[0])
        if system > 0:
            assert lay.units is not None
            scale = 1.0 / np.sqrt(lay.units[system])
            table = start.scale_columns(from_numpy(scale, start.column_squares(), start.dtype))
        L, variance = initial_loadings(
            table, data.pooled.n, self.groups, shared, private, options.rotation, tol
        )
        L, variance = L / scale[:, None], variance / scale**2
        state = init(data.pooled, lay, L, variance, prior, system)
        if prior != "hyperbolic" and data.sketch is not None:
            finer = options._replace(tol=SKETCH_TOL_RATIO * options.tol)
            found = _run(data.sketch, lay, None, state, start.epsilon, finer).state.fitted
            state = State(found, found, -math.inf)
        if prior != "hyperbolic" and data.imputed:
            state = fit_imputed(start, lay, state, how.max_iter, how.tol)
        return state if data.expand is None else data.expand(lay, state, prior)

    def begin(
        self, shared: int, how: SCAOptions, system: int | None = None
    ) -> tuple[State, ViewLayout]:
        """Initialise with equal noise in a system of units, or learned noise."""
        lay = self.layout(shared, self.options.private)
        prior = _variational_prior(self.options)
        if lay.units is None:
            return self.initial_state(lay, prior, how), lay
        rough = how._replace(max_iter=min(how.max_iter, MAX_ITER_PER_COUNT))
        for h in range(len(lay.units)):
            if (shared, h) not in self.equal:
                first = self.initial_state(lay, prior, how, h)
                self.equal[shared, h] = self.run(first, lay, rough).state
        if system is not None:
            return self.equal[shared, system], lay
        states = [self.equal[shared, h] for h in range(len(lay.units))]
        best = max(states, key=lambda state: state.bound)
        free = self.run(with_learned_noise(best), lay, rough).state
        return (free if free.bound > best.bound + MIN_NOISE_GAIN else best), lay


def solve(
    data: FitData,
    groups: list[np.ndarray],
    options: SCAOptions,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit the loadings of all views jointly; ``groups`` are columns of views."""
    counts = factor_counts(data.start, data.n, options)
    if options.noise == "learned" and (data.expand is not None or options.prior == "hyperbolic"):
        options = options._replace(noise="feature")
    fit = Fit(data, groups, options, {})
    if options.n_components == "auto" or options.prior != "hyperbolic":
        first, lay = _select_noise_and_count(fit, counts)
    else:
        lay = fit.layout(counts.maximum, options.private)
    prior = _hyperbolic_prior(lay, options)
    if prior is not None:
        # Under the Normal-Jeffreys prior, zero loadings remain zero. Initialisation from the ARD
        # solution or from a sketch would therefore lead to a poorer local maximum.
        lay = fit.layout(*_factors_by_view(lay, len(groups)))
        first = fit.initial_state(lay, "hyperbolic", options)
    if options.prior == "point-normal" and data.sparse is not None:
        first, lay = select_priors(data.sparse, first, lay, fit.run, options)
    noise = first.ahead.noise
    if options.n_components == "auto" and noise is not None and noise.system is not None:
        first, lay = better_noise(first, lay, with_learned_noise(first), lay, fit.run, options)
    run = fit.run(first, lay, options, prior, progress, checkpoint)
    # Probabilities of counts do not depend on units. The log posterior is also a density of the
    # loadings.
    n_densities = to_numpy(data.samples.observed)
    if prior is not None:
        n_densities = n_densities + to_numpy(lay.allowed).sum(axis=1)
    if data.samples.gaussian is not None:
        n_densities = np.where(data.samples.gaussian, n_densities, 0.0)
    max_factors = counts.maximum + sum(options.private)
    sparse = _observed_loadings(fit.samples_of(run.state), lay, run.state.fitted)
    return _solution(run, lay, max_factors, n_densities, sparse, data.information, data.groups)


def _observed_loadings(
    samples: Samples, lay: ViewLayout, now: FactorParameters
) -> PointNormal | None:
    """Compute the posterior of point-normal loadings given the observed data."""
    if now.sparse is None:
        return None
    m = samples.moments(now.L, now.C, lay.of_columns(now.tau), now.mu, now.scores)
    squares, zz = to_numpy(m.mean_squares), np.diagonal(to_numpy(m.zz))
    proportion = np.where(zz > 0, squares / np.where(zz > 0, zz, 1.0), 1.0)
    parts = {name: to_numpy(getattr(now.sparse, name)).astype(float) for name in FACTOR_FIELDS}
    q = PointNormal(**parts, divergence=0.0, unit=now.sparse.unit)
    return observed_posterior(q, to_numpy(lay.view), proportion)


def _select_noise_and_count(fit: Fit, counts: FactorCounts) -> tuple[State, ViewLayout]:
    """Select the number of factors, with equal or unequal noise if learned.

    Unequal noise must have higher evidence than equal noise in any system of units, because few
    factors with free noise variances can be a local maximum.
    """
    options, n = fit.options, fit.data.n
    first, lay = select_n_factors(counts, n, fit.begin, fit.run, options)
    many = options.n_components == "auto" and options.max_iter > MAX_ITER_PER_COUNT
    if not many or first.ahead.noise is None:
        return first, lay
    assert lay.units is not None
    rough = options._replace(max_iter=MAX_ITER_PER_COUNT)
    equal = [
        select_n_factors(counts, n, partial(fit.begin, system=h), fit.run, options)
        for h in range(len(lay.units))
    ]
    best = max(equal, key=lambda pair: fit.run(pair[0], pair[1], rough).state.bound)
    return better_noise(*best, first, lay, fit.run, options)


def _factors_by_view(lay: ViewLayout, n_views: int) -> tuple[int, list[int]]:
    """Return the number of shared factors and of private factors of each view."""
    shared, *private = np.bincount(lay.block, minlength=n_views + 1).tolist()
    return shared, private


def _variational_prior(options: SCAOptions) -> Prior:
    """Return the prior of the variational fits."""
    return "ard" if options.prior == "hyperbolic" else options.prior


def _hyperbolic_prior(lay: ViewLayout, options: SCAOptions) -> HyperbolicPrior | None:
    """Build the hyperbolic prior if requested and if any loading is free."""
    if options.prior != "hyperbolic" or not bool(array_namespace(lay.allowed).any(lay.allowed)):
        return None
    return HyperbolicPrior(options.shape / (options.n_features * lay.block.size), options.rate)


def _run(
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
    xp = array_namespace(samples.squares)
    total, entries = float(xp.sum(samples.squares)), float(xp.sum(samples.observed))

    def rounding(state: State) -> float:
        return residual_rounding(state, total, 1.0 / float(xp.max(state.ahead.tau)), epsilon)

    exact = samples.gaussian is None
    tol = options.tol if exact else max(options.tol, MIN_NON_GAUSSIAN_TOL)
    return iterate(
        partial(step, samples, lay, prior),
        first,
        max_iter=options.max_iter,
        tol=tol * entries,
        accelerator=accelerator(samples.max_precisions(lay)),
        exhausted=lambda state: not bool(xp.any(state.fitted.L != 0)),
        rounding=rounding if exact else relative_rounding,
        progress=progress,
        checkpoint=checkpoint,
    )


def _solution(
    run: Run[State],
    lay: ViewLayout,
    max_factors: int,
    n_densities: np.ndarray,
    sparse: PointNormal | None = None,
    entry_information: np.ndarray | None = None,
    data: GroupedData | None = None,
) -> Solution:
    """Remove empty factors, sort the factors and fix their signs.

    ``max_factors`` is the largest possible number of factors. ``sparse`` is the posterior of the
    loadings given the observed data (point-normal). ``entry_information`` (p,) is the
    Fisher information of an entry about its linear predictor, NaN for Gaussian columns; None if all
    columns are Gaussian. ``data`` is given for several groups of samples.
    """
    fitted = run.state.fitted
    loadings, noise = to_numpy(fitted.L), to_numpy(1.0 / lay.of_columns(fitted.tau))
    scores = fitted.scores
    factor_variance = scores.v if isinstance(scores, FactorVariances) else None
    if sparse is not None:
        lfsr = local_false_sign_rate(sparse.mean, sparse.variance, sparse.inclusion)
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
        sparse=None if sparse is None else _sparse_loadings(fitted, sparse, L, alive, sign),
    )


def _sparse_loadings(
    fitted: FactorParameters,
    sparse: PointNormal,
    L: np.ndarray,
    alive: np.ndarray,
    sign: np.ndarray,
) -> SparseLoadings:
    """Return the posterior of the factors ``alive`` with loadings L.

    Posterior means are also zero for a factor without loadings.
    """
    means, inclusion = to_numpy(fitted.L)[:, alive], sparse.inclusion[:, alive]
    lfsr = local_false_sign_rate(sparse.mean, sparse.variance, sparse.inclusion)
    some = np.any(L, axis=0)
    probability = np.ones(alive.size)
    if isinstance(fitted.scores, PointNormal):
        probability = fitted.scores.probability[0, alive]
    return SparseLoadings(
        np.where(some, means * sign, 0.0),
        np.where(some, lfsr[:, alive], 1.0),
        np.where(some, inclusion, 0.0),
        np.where(some, probability, 1.0),
    )


def _order_factors(block: np.ndarray, correlation: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """Return the positions of the remaining factors in their final order.

    Shared factors come first, by decreasing view correlation and strength, followed by the private
    factors of each view. If no factor has loadings, one is retained, so that scores have a column.
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
    """Build the groups of samples for `view_correlations`."""
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
    """Convert factors with a single loading to noise of the column.

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
