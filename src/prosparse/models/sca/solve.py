"""Fit of the model: from centred data to a `Solution`.

`solve` fits Gaussian views, `solve_non_gaussian` other likelihoods and `solve_groups` several
groups of samples. The number of factors is selected by `_select_n_factors`.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, TypeVar

import numpy as np
from array_api_compat import array_namespace

from ...data import DenseOperator, Operator
from ...data.arrays import Array, from_numpy, is_writable, to_numpy
from ...inference.checkpoint import Stage
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import spectrum
from ...selection.dimension import estimate_n_components, impute_by_pca, variational_count
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
    Noise,
    State,
    ViewLayout,
    accelerator,
    ard_step,
    hyperbolic_step,
    init,
    max_precisions,
    view_layout,
)
from .non_gaussian import (
    NonGaussianState,
    Rows,
    fisher_information,
    initial_offsets,
    non_gaussian_init,
    non_gaussian_step,
)
from .samples import CompleteSamples, Samples, reduce_rows
from .sketch import sketch_rows
from .start import EXACT_ROTATION, ROUGH_ROTATION, Rotation, initial_loadings
from .view_correlation import Group, view_correlations

Prior = Literal["ard", "hyperbolic"]

# Minimum tolerance with non-Gaussian views. Smaller gains per entry are negligible compared with
# the gap of the quadratic bounds.
MIN_NON_GAUSSIAN_TOL = 1e-6

# Comparison of two numbers of factors: maximum number of iterations and tolerance per entry.
MAX_ITER_PER_COUNT = 30
N_ITER_PER_ROUND = 5  # iterations between two comparisons
ROUGH_TOL = 1e-6
N_ITER_NULL_MODEL = 3  # iterations without factors, which estimate the noise only

# Minimum gain of the bound per sample for a factor beyond the initial number. A smaller value
# degrades the prediction of held-out views (TCGA), a larger one the fit of data with many factors.
MIN_GAIN_PER_SAMPLE = 0.5

# Tolerance of the fit to a sketch, relative to `tol`. Its iterations are cheap, and a loose
# tolerance can stop at a saddle point that costs dozens of iterations on the complete data.
SKETCH_TOL_RATIO = 0.1


class SCAOptions(NamedTuple):
    """Parameters of a fit, in the units of the operator."""

    n_components: int | Literal["auto"]  # number of shared factors
    private: list[int]  # number of private factors of each view
    prior: Prior
    shape: float  # shape of the hyperbolic prior, multiplied by the number of loadings
    rate: float  # rate of the hyperbolic prior
    n_features: int  # number of columns, including constant ones
    max_iter: int
    tol: float  # gain per observed entry at convergence
    noise: Noise  # one noise variance per view or per column
    rotation: Rotation = "shared"  # rotation of the initial loadings


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
    samples, start, sketch, epsilon = _fit_data(op, seen, groups, options)
    counts, private = _factor_counts(start, samples.n, options), options.private
    max_factors = counts.maximum + sum(private)

    def layout(shared: int, private: list[int]) -> ViewLayout:
        return view_layout(groups, shared, private, options.noise).to_device_of(samples.squares)

    def initial_state(lay: ViewLayout, prior: HyperbolicPrior | None) -> State:
        shared, n_private = _factors_by_view(lay, len(groups))
        tol = ROUGH_ROTATION if prior is None else EXACT_ROTATION
        loadings = initial_loadings(
            start, samples.n, groups, shared, n_private, options.rotation, tol
        )
        first = init(samples, lay, *loadings, prior)
        if sketch is None or prior is not None:
            return first
        finer = options._replace(tol=SKETCH_TOL_RATIO * options.tol)
        found = _run_model(sketch, lay, None, first, start.epsilon, finer).state.fitted
        return State(found, found, -math.inf)

    def begin(shared: int, how: SCAOptions) -> tuple[State, ViewLayout]:
        lay = layout(shared, private)
        first = initial_state(lay, None)
        if seen is not None:
            first = fit_imputed(start, lay, first, how.max_iter, how.tol)
        return first, lay

    def run_from(state: State, lay: ViewLayout, how: SCAOptions) -> Run[State]:
        return _run_model(samples, lay, None, state, epsilon, how)

    if options.n_components == "auto" or options.prior == "ard":
        first, lay = _select_n_factors(counts, samples.n, begin, run_from, options)
    else:
        lay = layout(counts.maximum, private)
    prior = _hyperbolic_prior(lay, options)
    if prior is not None:
        # Under the Normal-Jeffreys prior a zero loading stays zero. A start from the ARD solution
        # or from a sketch would therefore lead to a poorer local maximum.
        lay = layout(*_factors_by_view(lay, len(groups)))
        first = initial_state(lay, prior)
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
        step = partial(ard_step, samples, lay)
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


StateOf = TypeVar("StateOf", State, NonGaussianState, GroupedState)


# Function that runs a given number of iterations from a state.
RunFrom = Callable[[StateOf, ViewLayout, int], Run[StateOf]]


class FactorCounts(NamedTuple):
    """Numbers of shared factors."""

    initial: int
    maximum: int


def _select_n_factors(
    counts: FactorCounts,
    n: int,
    begin: Callable[[int, SCAOptions], tuple[StateOf, ViewLayout]],
    run: Callable[[StateOf, ViewLayout, SCAOptions], Run[StateOf]],
    options: SCAOptions,
) -> tuple[StateOf, ViewLayout]:
    """Select the number of shared factors by the lower bound of the evidence.

    The number increases by a quarter while the bound gains `MIN_GAIN_PER_SAMPLE` per sample and
    factor. Otherwise it is halved while the bound increases, and the weakest factors are removed
    (`_prune_weakest`). If the bound is higher without factors, one factor without free loadings
    remains.

    A factor that fits noise reduces the bound through the divergences of its loadings and scores.
    ARD alone does not remove such factors, because it updates one loading at a time. ``begin``
    returns the initial state for a number of factors, ``run`` iterates. No numbers are compared if
    the number is given, or if ``max_iter`` does not exceed the iterations of one comparison.
    """
    if options.n_components != "auto":
        return begin(counts.maximum, options)
    rough = options._replace(
        max_iter=min(options.max_iter, MAX_ITER_PER_COUNT), tol=max(options.tol, ROUGH_TOL)
    )

    def run_from(state: StateOf, lay: ViewLayout, n_iter: int) -> Run[StateOf]:
        return run(state, lay, rough._replace(max_iter=min(rough.max_iter, n_iter)))

    count = counts.initial
    start, lay = begin(count, rough)
    if options.max_iter <= MAX_ITER_PER_COUNT:
        return start, lay
    best = run_from(start, lay, MAX_ITER_PER_COUNT).state
    while count < counts.maximum:
        more = min(count + max(1, count // 4), counts.maximum)
        goal = best.bound + MIN_GAIN_PER_SAMPLE * n * (more - count)
        trial, other = _run_towards(goal, *begin(more, rough), run_from)
        if trial.bound <= goal:
            break
        best, lay, count = trial, other, more
    larger, larger_lay = best, lay
    while 1 < count <= counts.initial:
        count //= 2
        trial, other = _run_towards(best.bound, *begin(count, rough), run_from)
        if trial.bound <= best.bound:
            break
        larger, larger_lay, best, lay = best, lay, trial, other
    larger, larger_lay = _prune_weakest(larger, larger_lay, run_from)
    if larger.bound >= best.bound:
        best, lay = larger, larger_lay
    null, null_lay = _null_model(best, lay, run_from)
    if null.bound >= best.bound:
        best, lay = null, null_lay
    return _take_factors(best, lay, np.arange(lay.block.size))


def _run_towards(
    goal: float, state: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """Iterate until the bound exceeds ``goal`` or is predicted not to reach it."""
    for remaining in range(MAX_ITER_PER_COUNT - N_ITER_PER_ROUND, -1, -N_ITER_PER_ROUND):
        run = run_from(state, lay, N_ITER_PER_ROUND)
        state = run.state
        finished = run.reason is not StopReason.MAX_ITER
        # The gain per iteration decreases.
        if (
            state.bound > goal
            or finished
            or goal - state.bound > _gain_per_iteration(run) * remaining
        ):
            break
    return state, lay


def _prune_weakest(
    best: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """Remove the weakest factors while the bound increases.

    The number of factors removed at once doubles after each success and halves after a failure.
    """
    fewer, factor = 1, 2.0
    while lay.block.size > 1 and fewer >= 1:
        strength = np.sum(to_numpy(best.fitted.L) ** 2, axis=0)
        keep = np.sort(np.argsort(strength, kind="stable")[min(fewer, strength.size - 1) :])
        start, other = _take_factors(best, lay, keep)
        best, trial = compare_after_equal_iterations(best, lay, start, other, run_from)
        if trial.bound > best.bound:
            best, lay = trial, other
        else:
            factor = 0.5
        fewer = int(factor * fewer)
    return best, lay


def _null_model(
    state: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """Fit a model of one factor without free loadings: noise only."""
    state, lay = _take_factors(state, lay, np.arange(1))
    zero = state.ahead._replace(**{name: 0.0 * getattr(state.ahead, name) for name in "LCt"})
    lay = lay._replace(allowed=array_namespace(lay.allowed).zeros_like(lay.allowed))
    state = state._replace(fitted=zero, ahead=zero)
    for _ in range(N_ITER_NULL_MODEL):
        state = run_from(state, lay, 1).state
    return state, lay


def compare_after_equal_iterations(
    held: StateOf,
    lay: ViewLayout,
    trial: StateOf,
    other: ViewLayout,
    run_from: RunFrom[StateOf],
) -> tuple[StateOf, StateOf]:
    """Iterate two states equally until the trial leads or cannot lead.

    Against a state that does not move, a trial could win by its additional iterations alone.
    """
    settled = False
    for remaining in range(MAX_ITER_PER_COUNT - N_ITER_PER_ROUND, -1, -N_ITER_PER_ROUND):
        of_trial = run_from(trial, other, N_ITER_PER_ROUND)
        trial, relative_gain = of_trial.state, _gain_per_iteration(of_trial)
        if not settled:
            of_held = run_from(held, lay, N_ITER_PER_ROUND)
            held, settled = of_held.state, of_held.reason is not StopReason.MAX_ITER
            relative_gain -= _gain_per_iteration(of_held)
        finished = of_trial.reason is not StopReason.MAX_ITER
        lead = held.bound - trial.bound
        # The gain per iteration decreases.
        if lead < 0 or finished or lead > relative_gain * remaining:
            break
    return held, trial


def _gain_per_iteration(run: Run[StateOf]) -> float:
    """Return the mean gain of the objective per iteration."""
    return (run.bounds[-1] - run.bounds[0]) / max(1, len(run.bounds) - 1)


def _take_factors(state: StateOf, lay: ViewLayout, keep: np.ndarray) -> tuple[StateOf, ViewLayout]:
    """Return a state restricted to the factors ``keep``, as a new start."""
    now = state.ahead
    assert now.C is not None
    assert now.t is not None
    places = from_numpy(keep, now.L)

    def kept(part: Array, axis: int = 1) -> Array:
        return array_namespace(part).take(part, places, axis=axis)

    now = now._replace(L=kept(now.L), C=kept(kept(now.C), 2), t=kept(now.t))
    if isinstance(now, GroupedParameters):
        now = now._replace(v=now.v[:, keep])
    lay = lay._replace(allowed=kept(lay.allowed), block=lay.block[keep])
    start = state._replace(fitted=now, ahead=now, bound=-math.inf)
    if isinstance(start, NonGaussianState):
        start = start._replace(Z=start.Z[:, keep], S=start.S[:, keep][:, :, keep])
    return start, lay


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

    def begin(
        shared: int, private: list[int], prior: HyperbolicPrior | None = None
    ) -> tuple[NonGaussianState, ViewLayout]:
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

    counts = _factor_counts(start, rows.n, options)
    max_factors = counts.maximum + sum(options.private)
    first, lay = _select_n_factors(
        counts, rows.n, lambda shared, how: begin(shared, options.private), run_from, options
    )
    prior = _hyperbolic_prior(lay, options)
    if prior is not None:
        first, lay = begin(*_factors_by_view(lay, len(groups)), prior)
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
    counts, private = _factor_counts(start, n - len(members), options), options.private
    max_factors = counts.maximum + sum(private)
    pooled = CompleteSamples(start, n)
    total = float(sum(np.sum(member.samples.squares) for member in members))
    entries = float(sum(np.sum(member.samples.observed) for member in members))

    def begin(shared: int, how: SCAOptions) -> tuple[GroupedState, ViewLayout]:
        lay = view_layout(views, shared, private, options.noise)
        loadings = initial_loadings(start, n, views, shared, private, options.rotation)
        pooled_state = init(pooled, lay, *loadings, None)
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

    first, lay = _select_n_factors(counts, n, begin, run_from, options)
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
    on_device = options.prior == "ard" and is_writable(reduced.column_squares())
    samples = CompleteSamples(reduced, n, on_device=on_device)
    if count != "auto":
        small = sketch_rows(reduced, groups, [int(count) + k for k in options.private])
        if small is not None:
            sketch = CompleteSamples(small.table, n, small.residual, on_device)
            return FitData(samples, small.table, sketch, reduced.epsilon)
    return FitData(samples, reduced, None, reduced.epsilon)


def _factor_counts(op: Operator, n: int, options: SCAOptions) -> FactorCounts:
    """Return the initial and the maximum number of shared factors.

    With "auto", the initial number is that of variational PCA, and the maximum is the number of
    eigenvalues that exceed white noise.
    """
    if options.n_components != "auto":
        return FactorCounts(int(options.n_components), int(options.n_components))
    values, p = to_numpy(spectrum(op).eigenvalues), op.shape[1]
    most = max(1, estimate_n_components(values, n, p) - sum(options.private))
    likely = min(variational_count(values, n, p) - sum(options.private), most)
    return FactorCounts(max(1, likely), most)


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
    return Solution(
        L=L * np.where(largest < 0, -1.0, 1.0),
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
