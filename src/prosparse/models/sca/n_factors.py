"""Selection of the number of factors and the noise model by evidence."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Literal, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Operator
from ...data.arrays import Array, from_numpy, to_numpy
from ...inference.loop import Run, StopReason
from ...numerics.spectrum import spectrum
from ...selection.dimension import estimate_n_components, variational_count
from .model import Noise, Prior, State, ViewLayout
from .start import Rotation

# Comparison of two numbers of factors: maximum number of iterations and tolerance per entry.
MAX_ITER_PER_COUNT = 30
N_ITER_PER_ROUND = 5  # number of iterations between two comparisons
ROUGH_TOL = 1e-6
# Minimum gain in log evidence for unequal noise variances. Smaller gains can be due to a column
# that a factor fits exactly.
MIN_NOISE_GAIN = 10.0
N_ITER_NULL_MODEL = 3  # number of iterations without factors, in which only the noise is estimated

# Minimum gain of the bound per sample for a factor beyond the initial number. Smaller values
# degraded the prediction of held-out views (TCGA), and larger values the fit of data with many
# factors.
MIN_GAIN_PER_SAMPLE = 0.5


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
    noise: Noise  # noise variances: learned prior, one per view or one per column
    rotation: Rotation = "shared"  # rotation of the initial loadings
    scale: np.ndarray | None = None  # (p,) divisors of the columns, None for ones


def factor_counts(op: Operator, n: int, options: SCAOptions) -> FactorCounts:
    """Compute the initial and the maximum number of shared factors.

    With "auto", the initial number is that of variational PCA, and the maximum is the number of
    eigenvalues that exceed white noise. With learned noise, the eigenvalues are counted in the
    units of the operator and in the units of the data, and the maximum is the larger count.
    """
    if options.n_components != "auto":
        return FactorCounts(int(options.n_components), int(options.n_components))
    tables, p = [op], op.shape[1]
    scale = options.scale
    if options.noise == "learned" and scale is not None and np.any(scale != scale[0]):
        units = from_numpy(scale / scale.max(), op.column_squares(), op.dtype)
        tables.append(op.scale_columns(units))
    initial = maximum = 1
    for table in tables:
        values = to_numpy(spectrum(table).eigenvalues)
        most = estimate_n_components(values, n, p) - sum(options.private)
        maximum = max(maximum, most)
        if table is op:
            likely = min(variational_count(values, n, p) - sum(options.private), most)
            initial = max(initial, likely)
    return FactorCounts(initial, maximum)


# Functions that iterate from a state, with options or for a given number of iterations.
RunWith = Callable[[State, ViewLayout, "SCAOptions"], Run[State]]
RunFrom = Callable[[State, ViewLayout, int], Run[State]]


def with_learned_noise(state: State) -> State:
    """Initialise iterations that learn the spread of the noise variances."""
    now = state.fitted
    assert now.noise is not None
    now = now._replace(noise=now.noise._replace(system=None))
    return State(now, now, -math.inf)


def better_noise(
    equal: State,
    lay: ViewLayout,
    other: State,
    other_lay: ViewLayout,
    run: RunWith,
    options: SCAOptions,
) -> tuple[State, ViewLayout]:
    """Select the state with different noise if it gains `MIN_NOISE_GAIN`.

    If noise variances are free from the start, factors can fit single columns.
    """
    rough = options._replace(max_iter=min(options.max_iter, MAX_ITER_PER_COUNT))
    held, found = run(equal, lay, rough).state, run(other, other_lay, rough).state
    if found.bound > held.bound + MIN_NOISE_GAIN:
        return found, other_lay
    return held, lay


class FactorCounts(NamedTuple):
    """Numbers of shared factors."""

    initial: int
    maximum: int


def select_n_factors(
    counts: FactorCounts,
    n: int,
    begin: Callable[[int, SCAOptions], tuple[State, ViewLayout]],
    run: RunWith,
    options: SCAOptions,
) -> tuple[State, ViewLayout]:
    """Select the number of shared factors by the lower bound of the evidence.

    The number increases by a quarter while the bound gains `MIN_GAIN_PER_SAMPLE` per sample and
    factor. If there is no increase, the number is halved while the bound increases, and the weakest
    factors are removed (`prune_weakest`). If the bound is higher without factors, one factor
    without free loadings remains.

    A factor that fits noise reduces the bound through the divergences of its loadings and scores.
    ARD alone does not remove such factors, because it updates one loading at a time. ``begin``
    returns the initial state for a number of factors, and ``run`` iterates. Numbers are not
    compared if the number is given, or if ``max_iter`` does not exceed the iterations of one
    comparison.
    """
    if options.n_components != "auto":
        return begin(counts.maximum, options)
    rough = options._replace(
        max_iter=min(options.max_iter, MAX_ITER_PER_COUNT), tol=max(options.tol, ROUGH_TOL)
    )

    def run_from(state: State, lay: ViewLayout, n_iter: int) -> Run[State]:
        return run(state, lay, rough._replace(max_iter=min(rough.max_iter, n_iter)))

    min_gain = 0.0 if options.prior == "point-normal" else MIN_GAIN_PER_SAMPLE * n
    count = counts.initial
    start, lay = begin(count, rough)
    if options.max_iter <= MAX_ITER_PER_COUNT:
        return start, lay
    best = run_from(start, lay, MAX_ITER_PER_COUNT).state
    while count < counts.maximum:
        more = min(count + max(1, count // 4), counts.maximum)
        goal = best.bound + min_gain * (more - count)
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
    larger, larger_lay = prune_weakest(larger, larger_lay, run_from)
    if larger.bound >= best.bound:
        best, lay = larger, larger_lay
    null, null_lay = _null_model(best, lay, run_from)
    if null.bound >= best.bound:
        best, lay = null, null_lay
    return take_factors(best, lay, np.arange(lay.block.size))


def _run_towards(
    goal: float, state: State, lay: ViewLayout, run_from: RunFrom
) -> tuple[State, ViewLayout]:
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


def prune_weakest(best: State, lay: ViewLayout, run_from: RunFrom) -> tuple[State, ViewLayout]:
    """Remove the weakest factors while the bound increases.

    The number of factors removed at once doubles after each success and halves after a failure.
    """
    fewer, factor = 1, 2.0
    while lay.block.size > 1 and fewer >= 1:
        strength = np.sum(to_numpy(best.fitted.L) ** 2, axis=0)
        keep = np.sort(np.argsort(strength, kind="stable")[min(fewer, strength.size - 1) :])
        start, other = take_factors(best, lay, keep)
        best, trial = compare_after_equal_iterations(best, lay, start, other, run_from)
        if trial.bound > best.bound:
            best, lay = trial, other
        else:
            factor = 0.5
        fewer = int(factor * fewer)
    return best, lay


def _null_model(state: State, lay: ViewLayout, run_from: RunFrom) -> tuple[State, ViewLayout]:
    """Fit a model of noise only, with one factor without free loadings."""
    state, lay = take_factors(state, lay, np.arange(1))
    now = state.ahead
    assert now.C is not None
    zero = now._replace(
        L=0.0 * now.L,
        C=0.0 * now.C,
        t=None if now.t is None else 0.0 * now.t,
        sparse=None if now.sparse is None else now.sparse.without_support(),
    )
    lay = lay._replace(allowed=array_namespace(lay.allowed).zeros_like(lay.allowed))
    state = state._replace(fitted=zero, ahead=zero)
    for _ in range(N_ITER_NULL_MODEL):
        state = run_from(state, lay, 1).state
    return state, lay


def compare_after_equal_iterations(
    held: State,
    lay: ViewLayout,
    trial: State,
    other: ViewLayout,
    run_from: RunFrom,
) -> tuple[State, State]:
    """Iterate two states equally often until the trial leads or cannot lead.

    Otherwise, the trial could have a larger bound because of its additional iterations alone.
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


def _gain_per_iteration(run: Run[State]) -> float:
    """Compute the mean gain of the objective per iteration."""
    return (run.bounds[-1] - run.bounds[0]) / max(1, len(run.bounds) - 1)


def take_factors(state: State, lay: ViewLayout, keep: np.ndarray) -> tuple[State, ViewLayout]:
    """Restrict a state to the factors ``keep``, as a new start."""
    now = state.ahead
    assert now.C is not None
    places = from_numpy(keep, now.L)

    def kept(part: Array, axis: int = 1) -> Array:
        return array_namespace(part).take(part, places, axis=axis)

    now = now._replace(
        L=kept(now.L),
        C=kept(kept(now.C), 2),
        t=None if now.t is None else kept(now.t),
        sparse=None if now.sparse is None else now.sparse.take(places),
    )
    if now.scores is not None:
        now = now._replace(scores=now.scores.take(places))
    lay = lay._replace(allowed=kept(lay.allowed), block=lay.block[keep])
    return State(now, now, -math.inf), lay
