"""From a centred table of views to the fitted model, in the units of the table's operator."""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, NamedTuple, Protocol, TypeVar

import numpy as np
from array_api_compat import array_namespace

from ...data import DenseOperator, Operator
from ...data.arrays import Array, from_numpy, is_writable, to_numpy
from ...inference.checkpoint import Stage
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import spectrum
from ...selection.dimension import completed, counted, variational_count
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
    non_gaussian_accelerator,
    non_gaussian_init,
    non_gaussian_step,
)
from .samples import CompleteSamples, Samples, reduce_rows
from .sketch import sketch_rows
from .start import EXACT_ROTATION, ROUGH_ROTATION, Rotation, initial_loadings
from .view_correlation import Group, view_correlations

Prior = Literal["ard", "hyperbolic"]

# Where entries have bounds, rises per entry below this are small beside the bounds' own gaps.
MIN_NON_GAUSSIAN_TOL = 1e-6

# How exactly the objectives of two numbers of latents are compared: the most passes, and the rise
# per entry that ends them.
MAX_ITER_PER_COUNT = 30
N_ITER_PER_ROUND = 5  # of two numbers beside each other
ROUGH_TOL = 1e-6
N_ITER_NULL_MODEL = 3  # only the noise is to be found

# What a latent beyond the likely number has to add to the evidence, for every sample. With nothing
# asked, a view of TCGA's tables that is left out is entry_information worse from the others; with twice as much,
# simulated views with many true latents are fitted worse.
MIN_GAIN_PER_SAMPLE = 0.5

# Of a sketch_rows table the passes go on to this share of the tolerance: there they cost little, and
# what looks like an end may be a saddle, from which the whole table would take dozens of passes.
SKETCH_TOL_RATIO = 0.1


class SCAOptions(NamedTuple):
    """What the user decides, in the operator's units."""

    n_components: int | Literal["auto"]  # shared latents
    private: list[int]  # latents of every view's own
    prior: Prior
    a: float  # shape of the hyperbolic prior, for all weights of the table together
    b: float  # its scale
    width: int  # columns of the table, constant ones included
    max_iter: int
    tol: float  # per observed entry
    noise: Noise  # one variance for every view, or for every column
    rotation: Rotation = "shared"  # of the first weights


class Solution(NamedTuple):
    """The fitted model, in the operator's units: latents that matter, those that views share most
    first."""

    L: np.ndarray  # (p, latents) weights
    deviations: np.ndarray | None  # (p, latents) their posterior standard deviations (ard)
    mu: np.ndarray  # (p,), or (groups, p), offsets from the observed means
    noise: np.ndarray  # (p,), or (groups, p), noise variances
    factor_view: np.ndarray  # (latents,) -1 for shared latents, else the view of each
    view_correlation: np.ndarray  # (latents,) of the scores of two views, mean over pairs
    n_pruned: int  # latents that no variable needed
    bounds: np.ndarray  # (iterations,) of the objective
    n_densities: np.ndarray  # (p,) of how many numbers of a column the objective is a log density
    reason: StopReason
    factor_variance: np.ndarray | None = None  # (groups, latents) variances of the latents


def solve(
    op: Operator,
    seen: np.ndarray | None,
    groups: list[np.ndarray],
    options: SCAOptions,
    *,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit the weights of all views jointly.

    Parameters
    ----------
    op : Operator
        The centred table (n, p), zero where an entry is missing.
    seen : bool array (n, p) or None
        What was observed; None if all of it was.
    groups : list of int arrays
        The columns of every view.
    options : SCAOptions
    progress : Progress or None, default=None
    checkpoint : Stage or None, default=None

    Returns
    -------
    Solution
    """
    samples, start, sketch, epsilon = _fit_data(op, seen, groups, options)
    counts, private = _factor_counts(start, samples.n, options), options.private
    max_factors = counts.most + sum(private)

    def layout(shared: int, own: list[int]) -> ViewLayout:
        return view_layout(groups, shared, own, options.noise).to_device_of(samples.squares)

    def initial_state(lay: ViewLayout, prior: HyperbolicPrior | None) -> State:
        shared, *own = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        tol = ROUGH_ROTATION if prior is None else EXACT_ROTATION
        weights = initial_loadings(start, samples.n, groups, shared, own, options.rotation, tol)
        first = init(samples, lay, *weights, prior)
        if sketch is None or prior is not None:
            return first
        finer = options._replace(tol=SKETCH_TOL_RATIO * options.tol)
        found = _run_model(sketch, lay, None, first, start.epsilon, finer).state.fitted
        return State(found, found, -math.inf)

    def begin(shared: int, how: SCAOptions) -> tuple[State, ViewLayout]:
        lay = layout(shared, private)
        first = initial_state(lay, None)
        if seen is not None and (options.prior == "ard" or options.n_components == "auto"):
            first = fit_imputed(start, lay, first, _ard_steps(lay), how.max_iter, how.tol)
        return first, lay

    if options.n_components == "auto":
        rough = _rough_options(options)
        first, lay = _select_n_factors(
            counts,
            samples.n,
            lambda shared: begin(shared, rough),
            lambda s, at, k: _run_model(samples, at, None, s, epsilon, _limit_iterations(k, rough)),
            options.max_iter,
        )
    elif options.prior == "ard":
        first, lay = begin(counts.most, options)
    else:
        lay = layout(counts.most, private)
    prior = None
    nothing = not bool(array_namespace(lay.allowed).any(lay.allowed))
    if options.prior == "hyperbolic" and not nothing:
        # Normal-Jeffreys never lets go of a zero: from where relevance determination ends, or from
        # the fit of a table that is not quite the same, its maxima would be poorer ones.
        shared, *private = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        lay = layout(shared, private)
        prior = HyperbolicPrior(options.a / (options.width * lay.block.size), options.b)
        first = initial_state(lay, prior)
    run = _run_model(samples, lay, prior, first, epsilon, options, progress, checkpoint)
    # A log posterior is a density of the weights, too.
    n_densities = to_numpy(samples.observed)
    if prior is not None:
        n_densities = n_densities + lay.allowed.sum(axis=1)
    return _solution(run, lay, max_factors, n_densities)


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
    """From a state to where the objective no longer rises."""
    step_of = _ard_steps(lay) if prior is None else _hyperbolic_steps(lay, prior)
    xp = array_namespace(samples.squares)
    total, entries = float(xp.sum(samples.squares)), float(xp.sum(samples.observed))
    return iterate(
        step_of(samples),
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


class RunFrom(Protocol[StateOf]):
    """At most so many passes from a state."""

    def __call__(self, state: StateOf, lay: ViewLayout, passes: int, /) -> Run[StateOf]: ...


class FactorCounts(NamedTuple):
    """Numbers of latents that all views share."""

    likely: int  # to begin with
    most: int


def _select_n_factors(
    counts: FactorCounts,
    n: int,
    begin: Callable[[int], tuple[StateOf, ViewLayout]],
    run_from: RunFrom[StateOf],
    max_iter: int,
) -> tuple[StateOf, ViewLayout]:
    """As many latents as the evidence asks for: from a likely number a quarter more each time, as
    long as the bound rises by `MIN_GAIN_PER_SAMPLE` for every sample and latent; else half as many, as
    long as it rises; and then the weakest are taken out, see `_prune_weakest`. Where the bound is
    higher without any latent, one is left, and no weight of it is open.

    A latent that fits noise costs more, in the divergence of its weights and its scores, than it
    adds to the fit. Relevance determination alone does not see that: it looks at one weight at a
    time. ``begin`` makes a start with so many latents, ``run_from`` so many rough passes. Where a
    fit may take no more passes than one number is given, no numbers are compared.
    """
    count = counts.likely
    start, lay = begin(count)
    if max_iter <= MAX_ITER_PER_COUNT:
        return start, lay
    best = run_from(start, lay, MAX_ITER_PER_COUNT).state
    while count < counts.most:
        more = min(count + max(1, count // 4), counts.most)
        goal = best.bound + MIN_GAIN_PER_SAMPLE * n * (more - count)
        trial, other = _run_towards(goal, *begin(more), run_from)
        if trial.bound <= goal:
            break
        best, lay, count = trial, other, more
    above, residual_variance = best, lay
    while 1 < count <= counts.likely:
        count //= 2
        trial, other = _run_towards(best.bound, *begin(count), run_from)
        if trial.bound <= best.bound:
            break
        above, residual_variance, best, lay = best, lay, trial, other
    above, residual_variance = _prune_weakest(above, residual_variance, run_from)
    if above.bound >= best.bound:
        best, lay = above, residual_variance
    nothing, closed = _null_model(best, lay, run_from)
    if nothing.bound >= best.bound:
        best, lay = nothing, closed
    return _take_factors(best, lay, np.arange(lay.block.size))


def _run_towards(
    goal: float, state: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """Passes from a start until the bound is above the goal, or is not going to be."""
    for left in range(MAX_ITER_PER_COUNT - N_ITER_PER_ROUND, -1, -N_ITER_PER_ROUND):
        run = run_from(state, lay, N_ITER_PER_ROUND)
        state = run.state
        over = run.reason is not StopReason.MAX_ITER
        # what a pass adds grows smaller from pass to pass
        if state.bound > goal or over or goal - state.bound > _gain_per_iteration(run) * left:
            break
    return state, lay


def _prune_weakest(
    best: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """The weakest latents taken out as long as the bound rises: one at first, then twice as many
    each time; once it fell, half as many."""
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
    """One latent, of which no view has a weight: nothing but noise."""
    state, lay = _take_factors(state, lay, np.arange(1))
    zero = state.ahead._replace(**{name: 0.0 * getattr(state.ahead, name) for name in "LCt"})
    lay = lay._replace(allowed=array_namespace(lay.allowed).zeros_like(lay.allowed))
    state = state._replace(fitted=zero, ahead=zero)
    for _ in range(N_ITER_NULL_MODEL):  # each ends where it sees that all weights are zero
        state = run_from(state, lay, 1).state
    return state, lay


def compare_after_equal_iterations(
    held: StateOf,
    lay: ViewLayout,
    trial: StateOf,
    other: ViewLayout,
    run_from: RunFrom[StateOf],
) -> tuple[StateOf, StateOf]:
    """Both after as many passes: until the trial is ahead, or is not going to be.

    Beside a state that stands still, a trial would win by its passes alone where all states still
    rise.
    """
    settled = False
    for left in range(MAX_ITER_PER_COUNT - N_ITER_PER_ROUND, -1, -N_ITER_PER_ROUND):
        of_trial = run_from(trial, other, N_ITER_PER_ROUND)
        trial, gains_on = of_trial.state, _gain_per_iteration(of_trial)
        if not settled:
            of_held = run_from(held, lay, N_ITER_PER_ROUND)
            held, settled = of_held.state, of_held.reason is not StopReason.MAX_ITER
            gains_on -= _gain_per_iteration(of_held)
        over = of_trial.reason is not StopReason.MAX_ITER
        lead = held.bound - trial.bound
        # what a state gains on another grows smaller from pass to pass
        if lead < 0 or over or lead > gains_on * left:
            break
    return held, trial


def _gain_per_iteration(run: Run[StateOf]) -> float:
    """Of the objective, per pass."""
    return (run.bounds[-1] - run.bounds[0]) / max(1, len(run.bounds) - 1)


def _rough_options(options: SCAOptions) -> SCAOptions:
    return options._replace(
        max_iter=min(options.max_iter, MAX_ITER_PER_COUNT), tol=max(options.tol, ROUGH_TOL)
    )


def _limit_iterations(passes: int, options: SCAOptions) -> SCAOptions:
    return options._replace(max_iter=min(options.max_iter, passes))


def _take_factors(state: StateOf, lay: ViewLayout, keep: np.ndarray) -> tuple[StateOf, ViewLayout]:
    """Some latents of a state under relevance determination, as a start."""
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
    *,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit views of which some are not Gaussian.

    Parameters
    ----------
    rows : Rows
    op : Operator
        The columns centred and divided by their standard deviations, zero where an entry is
        missing, to start from.
    per_unit : array (p,)
        What a standard deviation is in units of the linear predictor.
    means : array (p,)
        The means of the columns, strictly inside their range.
    groups : list of int arrays
        The columns of every view.
    options : SCAOptions
    progress : Progress or None, default=None
    checkpoint : Stage or None, default=None

    Returns
    -------
    Solution
    """
    start = spectrum(op).table if op.shape[0] > op.shape[1] else op
    mu = initial_offsets(rows, means)

    def begin(
        shared: int, private: list[int], prior: HyperbolicPrior | None
    ) -> tuple[NonGaussianState, ViewLayout]:
        lay = view_layout(groups, shared, private, options.noise)
        L = initial_loadings(start, rows.n, groups, shared, private, options.rotation)[0]
        return non_gaussian_init(rows, lay, L * per_unit[:, None], mu, prior), lay

    def run_from(
        first: NonGaussianState, lay: ViewLayout, prior: HyperbolicPrior | None, how: SCAOptions
    ) -> Run[NonGaussianState]:
        last = how is options
        return iterate(
            partial(non_gaussian_step, rows, lay, prior),
            first,
            max_iter=how.max_iter,
            tol=max(how.tol, MIN_NON_GAUSSIAN_TOL) * float(rows.observed.sum()),
            accelerator=non_gaussian_accelerator(rows, lay),
            exhausted=lambda state: not np.any(state.fitted.L),
            progress=progress if last else None,
            checkpoint=checkpoint if last else None,
        )

    counts = _factor_counts(start, rows.n, options)
    max_factors = counts.most + sum(options.private)
    if options.n_components == "auto":
        rough = _rough_options(options)
        first, lay = _select_n_factors(
            counts,
            rows.n,
            lambda shared: begin(shared, options.private, None),
            lambda s, at, k: run_from(s, at, None, _limit_iterations(k, rough)),
            options.max_iter,
        )
    else:
        first, lay = begin(counts.most, options.private, None)
    prior = None
    nothing = not bool(array_namespace(lay.allowed).any(lay.allowed))
    if options.prior == "hyperbolic" and not nothing:
        shared, *private = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        prior = HyperbolicPrior(options.a / (options.width * lay.block.size), options.b)
        first, lay = begin(shared, private, prior)
    run = run_from(first, lay, prior, options)
    # FactorCounts have no density that would depend on units; weights are of the linear predictor.
    n_densities = np.where(rows.gaussian, rows.observed, 0.0)
    if prior is not None:
        n_densities = n_densities + np.where(rows.gaussian, lay.allowed.sum(axis=1), 0)
    return _solution(run, lay, max_factors, n_densities, fisher_information(rows, means))


def solve_groups(
    table: GroupedData,
    views: list[np.ndarray],
    options: SCAOptions,
    *,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit samples of several groups, under relevance determination.

    Parameters
    ----------
    table : GroupedData
    views : list of int arrays
        The columns of every view.
    options : SCAOptions
    progress : Progress or None, default=None
    checkpoint : Stage or None, default=None

    Returns
    -------
    Solution
        ``mu`` and ``noise`` have a row for every group; where a column does not vary within one,
        the noise there is NaN.
    """
    members, n = table.members, table.start.shape[0]
    start = reduce_rows(table.start)
    counts, private = _factor_counts(start, n - len(members), options), options.private
    max_factors = counts.most + sum(private)
    pooled = CompleteSamples(start, n)
    total = float(sum(np.sum(member.samples.squares) for member in members))
    entries = float(sum(np.sum(member.samples.observed) for member in members))

    def begin(shared: int, how: SCAOptions) -> tuple[GroupedState, ViewLayout]:
        lay = view_layout(views, shared, private, options.noise)
        weights = initial_loadings(start, n, views, shared, private, options.rotation)
        pooled_state = init(pooled, lay, *weights, None)
        if table.has_missing:
            pooled_state = fit_imputed(
                start, lay, pooled_state, _ard_steps(lay), how.max_iter, how.tol
            )
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

    if options.n_components == "auto":
        rough = _rough_options(options)
        first, lay = _select_n_factors(
            counts,
            n,
            lambda shared: begin(shared, rough),
            lambda s, at, k: run_from(s, at, _limit_iterations(k, rough)),
            options.max_iter,
        )
    else:
        first, lay = begin(counts.most, options)
    run = run_from(first, lay, options)
    n_densities = np.zeros(lay.view.size)
    for member in members:
        n_densities[member.columns] += member.samples.observed
    solution = _solution(run, lay, max_factors, n_densities, table=table)
    return solution._replace(noise=np.where(table.varying_in_group, solution.noise, np.nan))


def _ard_steps(lay: ViewLayout) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(ard_step, samples, lay)


def _hyperbolic_steps(
    lay: ViewLayout, prior: HyperbolicPrior
) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(hyperbolic_step, samples, lay, prior)


class FitData(NamedTuple):
    """What a fit stands on."""

    samples: Samples  # to iterate on
    start: Operator  # to start from, with as few rows as can be
    sketch: Samples | None  # of a large table: nearly the same samples, for most of the way
    epsilon: float  # relative rounding error of the products with the samples


def _fit_data(
    op: Operator, seen: np.ndarray | None, groups: list[np.ndarray], options: SCAOptions
) -> FitData:
    n, count = op.shape[0], options.n_components
    if seen is not None:
        X = to_numpy(op.whole)
        full = completed(X, seen, None if count == "auto" else count + sum(options.private))
        start = DenseOperator(full - full.mean(axis=0))
        return FitData(IncompleteSamples(X, seen), start, None, start.epsilon)
    reduced = reduce_rows(op)
    # The steps of the hyperbolic prior are for the host.
    on_device = options.prior == "ard" and is_writable(reduced.column_squares())
    samples = CompleteSamples(reduced, n, on_device=on_device)
    if count != "auto":
        small = sketch_rows(reduced, groups, [int(count) + own for own in options.private])
        if small is not None:
            sketch = CompleteSamples(small.table, n, small.rest, on_device)
            return FitData(samples, small.table, sketch, reduced.epsilon)
    return FitData(samples, reduced, None, reduced.epsilon)


def _factor_counts(op: Operator, n: int, options: SCAOptions) -> FactorCounts:
    """The number of latents that all views share; with "auto", a likely one and the most there
    may be.

    At most as many as eigenvalues stand out from white noise. As many as variational PCA keeps are
    likely: where samples are few, these are those that are well above the noise.
    """
    if options.n_components != "auto":
        return FactorCounts(int(options.n_components), int(options.n_components))
    values, p = to_numpy(spectrum(op).eigenvalues), op.shape[1]
    most = max(1, counted(values, n, p) - sum(options.private))
    likely = min(variational_count(values, n, p) - sum(options.private), most)
    return FactorCounts(max(1, likely), most)


def _solution(
    run: Run[State] | Run[NonGaussianState] | Run[GroupedState],
    lay: ViewLayout,
    max_factors: int,
    n_densities: np.ndarray,
    entry_information: np.ndarray | None = None,
    table: GroupedData | None = None,
) -> Solution:
    """Without dead latents, in their order, their largest weight positive.

    ``max_factors`` is how many there might have been, ``entry_information`` (p,) what an entry of a column tells of
    its linear predictor where it is not Gaussian, see `fisher_information`; None: all columns are
    Gaussian. ``table`` is that of the groups of a `GroupedState`.
    """
    fitted: FactorParameters | GroupedParameters = run.state.fitted
    if isinstance(fitted, GroupedParameters):
        weights, noise, factor_variance = fitted.L, 1.0 / fitted.tau, fitted.v
    else:
        weights, noise, factor_variance = (
            to_numpy(fitted.L),
            to_numpy(1.0 / lay.of_columns(fitted.tau)),
            None,
        )
    if lay.noise_has_prior:
        noisy = None if entry_information is None else np.isnan(entry_information)
        weights, noise = absorb_singleton_factors(weights, noise, noisy, factor_variance)
    deviations = None
    if fitted.C is not None:
        variances = to_numpy(array_namespace(fitted.C).linalg.diagonal(fitted.C))
        deviations = np.sqrt(np.clip(variances, 0.0, None))
        deviations = np.where(np.any(weights, axis=0), deviations, 0.0)
    strength = np.sum(weights**2, axis=0)
    loading_variance = np.zeros_like(weights) if deviations is None else deviations**2
    groups = _correlation_groups(noise, loading_variance, factor_variance, entry_information, table)
    correlation = view_correlations(weights, to_numpy(lay.view), groups)
    alive = _order_factors(lay.block, correlation, strength)
    L = weights[:, alive]
    strongest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
    return Solution(
        L=L * np.where(strongest < 0, -1.0, 1.0),
        deviations=None if deviations is None else deviations[:, alive],
        mu=to_numpy(fitted.mu),
        noise=noise,
        factor_view=lay.block[alive] - 1,
        view_correlation=correlation[alive],
        n_pruned=int(max_factors - np.sum(strength > 0)),
        bounds=np.array(run.bounds),
        n_densities=n_densities,
        reason=run.reason,
        factor_variance=None if factor_variance is None else factor_variance[:, alive],
    )


def _order_factors(block: np.ndarray, correlation: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The latents that are left: those open to all views first, by how much views share them, as
    canonical correlations are ordered; then those of each view's own. Where no two views share
    them, the strongest first.

    Without any structure one latent without loadings stays, so that scores have a column.
    """
    order = np.lexsort((-strength, -np.maximum(correlation, 0.0), block))
    alive: np.ndarray = order[strength[order] > 0]
    return alive if alive.size else order[:1]


def _correlation_groups(
    noise: np.ndarray,
    loading_variance: np.ndarray,
    factor_variance: np.ndarray | None,
    entry_information: np.ndarray | None,
    table: GroupedData | None,
) -> list[Group]:
    """What `view_correlations` needs to know of the samples: all pooled_state, or of several groups.

    ``loading_variance`` (p, Q) are the variances of the weights; the others are as in `_solution`.
    """
    p, Q = loading_variance.shape
    if table is None or factor_variance is None:
        if entry_information is not None:
            noise = np.where(np.isnan(entry_information), noise, 1.0 / entry_information)
        return [
            Group(1.0, np.ones(Q), noise + loading_variance.sum(axis=1), np.ones(p, dtype=bool))
        ]
    sizes = np.array([member.samples.n for member in table.members], dtype=float)
    parts = zip(sizes / sizes.sum(), factor_variance, noise, table.varying_in_group, strict=True)
    return [
        Group(share, v, own + loading_variance @ v, varying_in_group)
        for share, v, own, varying_in_group in parts
    ]


def absorb_singleton_factors(
    L: np.ndarray, noise: np.ndarray, noisy: np.ndarray | None, factor_variance: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """A latent that a single column has is noise of that column: the same law of the table.
    ``factor_variance`` (groups, latents) are its variances, where there are groups."""
    singleton = np.count_nonzero(L, axis=0) == 1
    if noisy is not None:
        singleton &= ~np.any(L[~noisy], axis=0)
    singleton_variance = L[:, singleton] ** 2
    if factor_variance is None:
        return np.where(singleton, 0.0, L), noise + np.sum(singleton_variance, axis=1)
    return np.where(singleton, 0.0, L), noise + factor_variance[:, singleton] @ singleton_variance.T
