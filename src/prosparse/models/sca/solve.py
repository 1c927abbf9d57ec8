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
from .group_tables import GroupedTable
from .grouped import (
    GroupedParameters,
    GroupedState,
    grouped_accelerator,
    grouped_init,
    grouped_step,
)
from .hyperbolic import HyperbolicPrior
from .imputed_init import fit_of_filled
from .missing_e_step import SamplesWithGaps
from .model import (
    FactorParameters,
    Noise,
    State,
    ViewLayout,
    accelerator,
    hyperbolic_step,
    init,
    largest_precisions,
    relevance_step,
    view_layout,
)
from .non_gaussian import (
    BoundedState,
    Rows,
    bounded_accelerator,
    bounded_init,
    bounded_step,
    information,
    starting_offsets,
)
from .samples import CompleteSamples, Samples, fewest_rows
from .sketch import compressed
from .start import EXACT_ROTATION, ROUGH_ROTATION, Rotation, initial_weights
from .view_correlation import Group, view_correlations

Prior = Literal["ard", "hyperbolic"]

# Where entries have bounds, rises per entry below this are small beside the bounds' own gaps.
BOUNDED_TOLERANCE = 1e-6

# How exactly the objectives of two numbers of latents are compared: the most passes, and the rise
# per entry that ends them.
PASSES_PER_COUNT = 30
PASSES_AT_A_TIME = 5  # of two numbers beside each other
ROUGH = 1e-6
PASSES_WITHOUT_LATENTS = 3  # only the noise is to be found

# What a latent beyond the likely number has to add to the evidence, for every sample. With nothing
# asked, a view of TCGA's tables that is left out is told worse from the others; with twice as much,
# simulated views with many true latents are fitted worse.
WORTH_OF_MORE = 0.5

# Of a compressed table the passes go on to this share of the tolerance: there they cost little, and
# what looks like an end may be a saddle, from which the whole table would take dozens of passes.
FINER = 0.1


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
    latent_view: np.ndarray  # (latents,) -1 for shared latents, else the view of each
    view_correlation: np.ndarray  # (latents,) of the scores of two views, mean over pairs
    n_removed: int  # latents that no variable needed
    bounds: np.ndarray  # (iterations,) of the objective
    densities: np.ndarray  # (p,) of how many numbers of a column the objective is a log density
    reason: StopReason
    activity: np.ndarray | None = None  # (groups, latents) variances of the latents


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
    samples, start, guess, epsilon = _samples_and_start(op, seen, groups, options)
    counts, private = _counts(start, samples.n, options), options.private
    possible = counts.most + sum(private)

    def laid_out(shared: int, own: list[int]) -> ViewLayout:
        return view_layout(groups, shared, own, options.noise).beside(samples.squares)

    def started(lay: ViewLayout, prior: HyperbolicPrior | None) -> State:
        shared, *own = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        tol = ROUGH_ROTATION if prior is None else EXACT_ROTATION
        weights = initial_weights(start, samples.n, groups, shared, own, options.rotation, tol)
        first = init(samples, lay, *weights, prior)
        if guess is None or prior is not None:
            return first
        finer = options._replace(tol=FINER * options.tol)
        found = _iterated(guess, lay, None, first, start.epsilon, finer).state.fitted
        return State(found, found, -math.inf)

    def begin(shared: int, how: SCAOptions) -> tuple[State, ViewLayout]:
        lay = laid_out(shared, private)
        first = started(lay, None)
        if seen is not None and (options.prior == "ard" or options.n_components == "auto"):
            first = fit_of_filled(start, lay, first, _relevance_steps(lay), how.max_iter, how.tol)
        return first, lay

    if options.n_components == "auto":
        rough = _rough(options)
        first, lay = _needed_latents(
            counts,
            samples.n,
            lambda shared: begin(shared, rough),
            lambda s, at, k: _iterated(samples, at, None, s, epsilon, _at_most(k, rough)),
            options.max_iter,
        )
    elif options.prior == "ard":
        first, lay = begin(counts.most, options)
    else:
        lay = laid_out(counts.most, private)
    prior = None
    nothing = not bool(array_namespace(lay.allowed).any(lay.allowed))
    if options.prior == "hyperbolic" and not nothing:
        # Normal-Jeffreys never lets go of a zero: from where relevance determination ends, or from
        # the fit of a table that is not quite the same, its maxima would be poorer ones.
        shared, *private = np.bincount(lay.block, minlength=len(groups) + 1).tolist()
        lay = laid_out(shared, private)
        prior = HyperbolicPrior(options.a / (options.width * lay.block.size), options.b)
        first = started(lay, prior)
    run = _iterated(samples, lay, prior, first, epsilon, options, progress, checkpoint)
    # A log posterior is a density of the weights, too.
    densities = to_numpy(samples.observed)
    if prior is not None:
        densities = densities + lay.allowed.sum(axis=1)
    return _solution(run, lay, possible, densities)


def _iterated(
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
    step_of = _relevance_steps(lay) if prior is None else _hyperbolic_steps(lay, prior)
    xp = array_namespace(samples.squares)
    total, entries = float(xp.sum(samples.squares)), float(xp.sum(samples.observed))
    return iterate(
        step_of(samples),
        first,
        max_iter=options.max_iter,
        tol=options.tol * entries,
        accelerator=accelerator(largest_precisions(samples, lay)),
        exhausted=lambda state: not bool(xp.any(state.fitted.L != 0)),
        rounding=lambda state: residual_rounding(
            state, total, 1.0 / float(xp.max(state.ahead.tau)), epsilon
        ),
        progress=progress,
        checkpoint=checkpoint,
    )


StateOf = TypeVar("StateOf", State, BoundedState, GroupedState)


class RunFrom(Protocol[StateOf]):
    """At most so many passes from a state."""

    def __call__(self, state: StateOf, lay: ViewLayout, passes: int, /) -> Run[StateOf]: ...


class Counts(NamedTuple):
    """Numbers of latents that all views share."""

    likely: int  # to begin with
    most: int


def _needed_latents(
    counts: Counts,
    n: int,
    begin: Callable[[int], tuple[StateOf, ViewLayout]],
    run_from: RunFrom[StateOf],
    most_passes: int,
) -> tuple[StateOf, ViewLayout]:
    """As many latents as the evidence asks for: from a likely number a quarter more each time, as
    long as the bound rises by `WORTH_OF_MORE` for every sample and latent; else half as many, as
    long as it rises; and then the weakest are taken out, see `_without_weakest`. Where the bound is
    higher without any latent, one is left, and no weight of it is open.

    A latent that fits noise costs more, in the divergence of its weights and its scores, than it
    adds to the fit. Relevance determination alone does not see that: it looks at one weight at a
    time. ``begin`` makes a start with so many latents, ``run_from`` so many rough passes. Where a
    fit may take no more passes than one number is given, no numbers are compared.
    """
    count = counts.likely
    start, lay = begin(count)
    if most_passes <= PASSES_PER_COUNT:
        return start, lay
    best = run_from(start, lay, PASSES_PER_COUNT).state
    while count < counts.most:
        more = min(count + max(1, count // 4), counts.most)
        goal = best.bound + WORTH_OF_MORE * n * (more - count)
        trial, other = _towards(goal, *begin(more), run_from)
        if trial.bound <= goal:
            break
        best, lay, count = trial, other, more
    above, around = best, lay
    while 1 < count <= counts.likely:
        count //= 2
        trial, other = _towards(best.bound, *begin(count), run_from)
        if trial.bound <= best.bound:
            break
        above, around, best, lay = best, lay, trial, other
    above, around = _without_weakest(above, around, run_from)
    if above.bound >= best.bound:
        best, lay = above, around
    nothing, closed = _without_any(best, lay, run_from)
    if nothing.bound >= best.bound:
        best, lay = nothing, closed
    return _with_latents(best, lay, np.arange(lay.block.size))


def _towards(
    goal: float, state: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """Passes from a start until the bound is above the goal, or is not going to be."""
    for left in range(PASSES_PER_COUNT - PASSES_AT_A_TIME, -1, -PASSES_AT_A_TIME):
        run = run_from(state, lay, PASSES_AT_A_TIME)
        state = run.state
        over = run.reason is not StopReason.MAX_ITER
        # what a pass adds grows smaller from pass to pass
        if state.bound > goal or over or goal - state.bound > _rise(run) * left:
            break
    return state, lay


def _without_weakest(
    best: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """The weakest latents taken out as long as the bound rises: one at first, then twice as many
    each time; once it fell, half as many."""
    fewer, factor = 1, 2.0
    while lay.block.size > 1 and fewer >= 1:
        strength = np.sum(to_numpy(best.fitted.L) ** 2, axis=0)
        keep = np.sort(np.argsort(strength, kind="stable")[min(fewer, strength.size - 1) :])
        start, other = _with_latents(best, lay, keep)
        best, trial = compare_after_equal_iterations(best, lay, start, other, run_from)
        if trial.bound > best.bound:
            best, lay = trial, other
        else:
            factor = 0.5
        fewer = int(factor * fewer)
    return best, lay


def _without_any(
    state: StateOf, lay: ViewLayout, run_from: RunFrom[StateOf]
) -> tuple[StateOf, ViewLayout]:
    """One latent, of which no view has a weight: nothing but noise."""
    state, lay = _with_latents(state, lay, np.arange(1))
    zero = state.ahead._replace(**{name: 0.0 * getattr(state.ahead, name) for name in "LCt"})
    lay = lay._replace(allowed=array_namespace(lay.allowed).zeros_like(lay.allowed))
    state = state._replace(fitted=zero, ahead=zero)
    for _ in range(PASSES_WITHOUT_LATENTS):  # each ends where it sees that all weights are zero
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
    for left in range(PASSES_PER_COUNT - PASSES_AT_A_TIME, -1, -PASSES_AT_A_TIME):
        of_trial = run_from(trial, other, PASSES_AT_A_TIME)
        trial, gains_on = of_trial.state, _rise(of_trial)
        if not settled:
            of_held = run_from(held, lay, PASSES_AT_A_TIME)
            held, settled = of_held.state, of_held.reason is not StopReason.MAX_ITER
            gains_on -= _rise(of_held)
        over = of_trial.reason is not StopReason.MAX_ITER
        lead = held.bound - trial.bound
        # what a state gains on another grows smaller from pass to pass
        if lead < 0 or over or lead > gains_on * left:
            break
    return held, trial


def _rise(run: Run[StateOf]) -> float:
    """Of the objective, per pass."""
    return (run.bounds[-1] - run.bounds[0]) / max(1, len(run.bounds) - 1)


def _rough(options: SCAOptions) -> SCAOptions:
    return options._replace(
        max_iter=min(options.max_iter, PASSES_PER_COUNT), tol=max(options.tol, ROUGH)
    )


def _at_most(passes: int, options: SCAOptions) -> SCAOptions:
    return options._replace(max_iter=min(options.max_iter, passes))


def _with_latents(state: StateOf, lay: ViewLayout, keep: np.ndarray) -> tuple[StateOf, ViewLayout]:
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
    if isinstance(start, BoundedState):
        start = start._replace(Z=start.Z[:, keep], S=start.S[:, keep][:, :, keep])
    return start, lay


def solve_bounded(
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
    mu = starting_offsets(rows, means)

    def begin(
        shared: int, private: list[int], prior: HyperbolicPrior | None
    ) -> tuple[BoundedState, ViewLayout]:
        lay = view_layout(groups, shared, private, options.noise)
        L = initial_weights(start, rows.n, groups, shared, private, options.rotation)[0]
        return bounded_init(rows, lay, L * per_unit[:, None], mu, prior), lay

    def run_from(
        first: BoundedState, lay: ViewLayout, prior: HyperbolicPrior | None, how: SCAOptions
    ) -> Run[BoundedState]:
        last = how is options
        return iterate(
            partial(bounded_step, rows, lay, prior),
            first,
            max_iter=how.max_iter,
            tol=max(how.tol, BOUNDED_TOLERANCE) * float(rows.observed.sum()),
            accelerator=bounded_accelerator(rows, lay),
            exhausted=lambda state: not np.any(state.fitted.L),
            progress=progress if last else None,
            checkpoint=checkpoint if last else None,
        )

    counts = _counts(start, rows.n, options)
    possible = counts.most + sum(options.private)
    if options.n_components == "auto":
        rough = _rough(options)
        first, lay = _needed_latents(
            counts,
            rows.n,
            lambda shared: begin(shared, options.private, None),
            lambda s, at, k: run_from(s, at, None, _at_most(k, rough)),
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
    # Counts have no density that would depend on units; weights are of the linear predictor.
    densities = np.where(rows.gaussian, rows.observed, 0.0)
    if prior is not None:
        densities = densities + np.where(rows.gaussian, lay.allowed.sum(axis=1), 0)
    return _solution(run, lay, possible, densities, information(rows, means))


def solve_groups(
    table: GroupedTable,
    views: list[np.ndarray],
    options: SCAOptions,
    *,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Solution:
    """Fit samples of several groups, under relevance determination.

    Parameters
    ----------
    table : GroupedTable
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
    start = fewest_rows(table.start)
    counts, private = _counts(start, n - len(members), options), options.private
    possible = counts.most + sum(private)
    pooled = CompleteSamples(start, n)
    total = float(sum(np.sum(member.samples.squares) for member in members))
    entries = float(sum(np.sum(member.samples.observed) for member in members))

    def begin(shared: int, how: SCAOptions) -> tuple[GroupedState, ViewLayout]:
        lay = view_layout(views, shared, private, options.noise)
        weights = initial_weights(start, n, views, shared, private, options.rotation)
        alike = init(pooled, lay, *weights, None)
        if table.has_missing:
            alike = fit_of_filled(start, lay, alike, _relevance_steps(lay), how.max_iter, how.tol)
        return grouped_init(members, lay, alike), lay

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
        rough = _rough(options)
        first, lay = _needed_latents(
            counts,
            n,
            lambda shared: begin(shared, rough),
            lambda s, at, k: run_from(s, at, _at_most(k, rough)),
            options.max_iter,
        )
    else:
        first, lay = begin(counts.most, options)
    run = run_from(first, lay, options)
    densities = np.zeros(lay.view.size)
    for member in members:
        densities[member.columns] += member.samples.observed
    solution = _solution(run, lay, possible, densities, table=table)
    return solution._replace(noise=np.where(table.counted, solution.noise, np.nan))


def _relevance_steps(lay: ViewLayout) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(relevance_step, samples, lay)


def _hyperbolic_steps(
    lay: ViewLayout, prior: HyperbolicPrior
) -> Callable[[Samples], Callable[[State], State]]:
    return lambda samples: partial(hyperbolic_step, samples, lay, prior)


class FitData(NamedTuple):
    """What a fit stands on."""

    samples: Samples  # to iterate on
    start: Operator  # to start from, with as few rows as can be
    guess: Samples | None  # of a large table: nearly the same samples, for most of the way
    epsilon: float  # relative rounding error of the products with the samples


def _samples_and_start(
    op: Operator, seen: np.ndarray | None, groups: list[np.ndarray], options: SCAOptions
) -> FitData:
    n, count = op.shape[0], options.n_components
    if seen is not None:
        X = to_numpy(op.whole)
        full = completed(X, seen, None if count == "auto" else count + sum(options.private))
        start = DenseOperator(full - full.mean(axis=0))
        return FitData(SamplesWithGaps(X, seen), start, None, start.epsilon)
    reduced = fewest_rows(op)
    # The steps of the hyperbolic prior are for the host.
    stay = options.prior == "ard" and is_writable(reduced.column_squares())
    samples = CompleteSamples(reduced, n, stay=stay)
    if count != "auto":
        small = compressed(reduced, groups, [int(count) + own for own in options.private])
        if small is not None:
            guess = CompleteSamples(small.table, n, small.rest, stay)
            return FitData(samples, small.table, guess, reduced.epsilon)
    return FitData(samples, reduced, None, reduced.epsilon)


def _counts(op: Operator, n: int, options: SCAOptions) -> Counts:
    """The number of latents that all views share; with "auto", a likely one and the most there
    may be.

    At most as many as eigenvalues stand out from white noise. As many as variational PCA keeps are
    likely: where samples are few, these are those that are well above the noise.
    """
    if options.n_components != "auto":
        return Counts(int(options.n_components), int(options.n_components))
    values, p = to_numpy(spectrum(op).eigenvalues), op.shape[1]
    most = max(1, counted(values, n, p) - sum(options.private))
    likely = min(variational_count(values, n, p) - sum(options.private), most)
    return Counts(max(1, likely), most)


def _solution(
    run: Run[State] | Run[BoundedState] | Run[GroupedState],
    lay: ViewLayout,
    possible: int,
    densities: np.ndarray,
    told: np.ndarray | None = None,
    table: GroupedTable | None = None,
) -> Solution:
    """Without dead latents, in their order, their largest weight positive.

    ``possible`` is how many there might have been, ``told`` (p,) what an entry of a column tells of
    its linear predictor where it is not Gaussian, see `information`; None: all columns are
    Gaussian. ``table`` is that of the groups of a `GroupedState`.
    """
    fitted: FactorParameters | GroupedParameters = run.state.fitted
    if isinstance(fitted, GroupedParameters):
        weights, noise, activity = fitted.L, 1.0 / fitted.tau, fitted.v
    else:
        weights, noise, activity = (
            to_numpy(fitted.L),
            to_numpy(1.0 / lay.of_columns(fitted.tau)),
            None,
        )
    if lay.noise_has_prior:
        noisy = None if told is None else np.isnan(told)
        weights, noise = absorb_singleton_factors(weights, noise, noisy, activity)
    deviations = None
    if fitted.C is not None:
        variances = to_numpy(array_namespace(fitted.C).linalg.diagonal(fitted.C))
        deviations = np.sqrt(np.clip(variances, 0.0, None))
        deviations = np.where(np.any(weights, axis=0), deviations, 0.0)
    strength = np.sum(weights**2, axis=0)
    doubt = np.zeros_like(weights) if deviations is None else deviations**2
    groups = _groups(noise, doubt, activity, told, table)
    correlation = view_correlations(weights, to_numpy(lay.view), groups)
    alive = _in_order(lay.block, correlation, strength)
    L = weights[:, alive]
    strongest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
    return Solution(
        L=L * np.where(strongest < 0, -1.0, 1.0),
        deviations=None if deviations is None else deviations[:, alive],
        mu=to_numpy(fitted.mu),
        noise=noise,
        latent_view=lay.block[alive] - 1,
        view_correlation=correlation[alive],
        n_removed=int(possible - np.sum(strength > 0)),
        bounds=np.array(run.bounds),
        densities=densities,
        reason=run.reason,
        activity=None if activity is None else activity[:, alive],
    )


def _in_order(block: np.ndarray, correlation: np.ndarray, strength: np.ndarray) -> np.ndarray:
    """The latents that are left: those open to all views first, by how much views share them, as
    canonical correlations are ordered; then those of each view's own. Where no two views share
    them, the strongest first.

    Without any structure one latent without loadings stays, so that scores have a column.
    """
    order = np.lexsort((-strength, -np.maximum(correlation, 0.0), block))
    alive: np.ndarray = order[strength[order] > 0]
    return alive if alive.size else order[:1]


def _groups(
    noise: np.ndarray,
    doubt: np.ndarray,
    activity: np.ndarray | None,
    told: np.ndarray | None,
    table: GroupedTable | None,
) -> list[Group]:
    """What `view_correlations` needs to know of the samples: all alike, or of several groups.

    ``doubt`` (p, Q) are the variances of the weights; the others are as in `_solution`.
    """
    p, Q = doubt.shape
    if table is None or activity is None:
        if told is not None:
            noise = np.where(np.isnan(told), noise, 1.0 / told)
        return [Group(1.0, np.ones(Q), noise + doubt.sum(axis=1), np.ones(p, dtype=bool))]
    sizes = np.array([member.samples.n for member in table.members], dtype=float)
    parts = zip(sizes / sizes.sum(), activity, noise, table.counted, strict=True)
    return [Group(share, v, own + doubt @ v, counted) for share, v, own, counted in parts]


def absorb_singleton_factors(
    L: np.ndarray, noise: np.ndarray, noisy: np.ndarray | None, activity: np.ndarray | None
) -> tuple[np.ndarray, np.ndarray]:
    """A latent that a single column has is noise of that column: the same law of the table.
    ``activity`` (groups, latents) are its variances, where there are groups."""
    lonely = np.count_nonzero(L, axis=0) == 1
    if noisy is not None:
        lonely &= ~np.any(L[~noisy], axis=0)
    of_lonely = L[:, lonely] ** 2
    if activity is None:
        return np.where(lonely, 0.0, L), noise + np.sum(of_lonely, axis=1)
    return np.where(lonely, 0.0, L), noise + activity[:, lonely] @ of_lonely.T
