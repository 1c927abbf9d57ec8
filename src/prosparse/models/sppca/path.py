"""Fits along increasing penalties, and refits without penalty."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import Namespace, from_numpy, to_numpy
from ...inference.acceleration import Anderson, over_loadings
from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from ...numerics.spectrum import Spectrum
from . import newton
from .l1 import sparsest_rotation, zero_rounding_errors
from .model import (
    MIN_NOISE,
    State,
    log_likelihood,
    make_step,
    rounding_error,
    subgradient_gap,
)

MAX_EXTRAPOLATION = 2.0  # maximum length of the extrapolation, relative to the last step
MAX_REFINEMENTS = 3  # maximum number of times the tolerance is divided by 100
OPTIMALITY_TOL = 1e-5  # violation of the optimality conditions, relative to the penalty


class Problem(NamedTuple):
    """Data and stopping rule of a fit."""

    parts: Spectrum
    sums: newton.Sums | None  # sufficient statistics for Newton's method; None: EM only
    max_iter: int
    tol: float


def problem_of(parts: Spectrum, max_iter: int, tol: float) -> Problem:
    """Build the problem, with X'X for Newton's method if it is small."""
    op, sums = parts.op, None
    if op.shape[1] <= newton.MAX_COLUMNS:
        S = to_numpy(op.gram()).astype(float)
        min_noise = MIN_NOISE * float(np.trace(S)) / (parts.n * op.shape[1])
        sums = newton.sums_of(S, parts.n, min_noise)
    return Problem(parts, sums, max_iter, tol)


class PenalisedFit(NamedTuple):
    """Optimal loadings at one penalty."""

    state: State
    runs: list[Run[State]]  # with decreasing tolerances


def fit_one(problem: Problem, start: State, penalty: float) -> PenalisedFit:
    """Maximise with decreasing tolerance until the optimality conditions hold."""
    op, n = problem.parts.op, problem.parts.n
    xp, size = op.xp, n * op.shape[1]
    W = zero_rounding_errors(sparsest_rotation(start.W), xp)
    state = start._replace(W=W, bound=-math.inf)
    runs: list[Run[State]] = []
    left = problem.max_iter
    finer = 0
    while left > 0:
        tol = problem.tol * size * 0.01**finer
        if use_newton(problem, state):  # converges quadratically
            tol, finer = min(tol, 1e-4 * problem.tol * size), MAX_REFINEMENTS
        step, accelerator = select_step(problem, state, penalty, tol)
        run = iterate(
            step,
            state,
            max_iter=left,
            tol=tol,
            accelerator=accelerator,
            rounding=rounding_error(op),
        )
        runs.append(run)
        left -= len(run.bounds)
        state = run.state
        if (
            finer == MAX_REFINEMENTS
            or penalty == 0.0
            or subgradient_gap(op, n, state, penalty) < OPTIMALITY_TOL
        ):
            break
        finer += 1
    if penalty == 0.0:  # the rotation makes entries zero up to rounding errors
        state = state._replace(W=zero_rounding_errors(state.W, xp))
    return PenalisedFit(state, runs)


def use_newton(problem: Problem, state: State) -> bool:
    """Return whether Newton's method is faster than EM.

    The cost of a Newton step is cubic in the number of nonzero loadings. EM converges slowly if the
    noise is small.
    """
    xp, sums = problem.parts.op.xp, problem.sums
    if sums is None:
        return False
    nonzero = int(xp.sum(xp.astype(state.W != 0, xp.int64)))
    tiny = newton.tiny_noise(sums, state.sigma2)
    return nonzero <= (newton.MAX_LOADINGS_TINY_NOISE if tiny else newton.MAX_LOADINGS)


def select_step(
    problem: Problem, state: State, penalty: float, tol: float, allowed: Array | None = None
) -> tuple[Callable[[State], State], Anderson | None]:
    """Return Newton steps or EM steps with Anderson acceleration."""
    op, sums = problem.parts.op, problem.sums
    by_em = make_step(op, problem.parts.n, penalty, allowed)
    if sums is None or not use_newton(problem, state):
        return by_em, over_loadings("W", op.xp, Anderson)
    within = None if allowed is None else to_numpy(allowed)
    known: list[tuple[State, newton.Point, float]] = []  # last point, damping of the next step

    def step(state: State) -> State:
        if known and known[0][0] is state:
            _, here, damping = known[0]
        else:
            here, damping = newton.evaluate(sums, to_numpy(state.W), state.sigma2), 0.0
        there, damping = newton.improve(sums, here, penalty, tol, damping, within, OPTIMALITY_TOL)
        if there is None:
            return by_em(state)
        price = penalty * float(np.abs(there.W).sum())
        result = State(from_numpy(there.W, state.W), there.sigma2, there.log_likelihood - price)
        known[:] = [(result, there, damping)]
        return result

    return step, None


def refit(problem: Problem, state: State, near: State | None = None) -> State:
    """Maximise the likelihood over the nonzero loadings of ``state``.

    The criteria compare these likelihoods. The iterations start from ``near``, the refit at the
    preceding penalty, if its likelihood is higher.
    """
    op, n = problem.parts.op, problem.parts.n
    tol = problem.tol * n * op.shape[1]
    allowed = state.W != 0
    if near is not None:
        left = near._replace(W=op.xp.where(allowed, near.W, 0.0))
        if log_likelihood(op, n, left) > log_likelihood(op, n, state):
            state = state._replace(W=left.W, sigma2=left.sigma2)
    step, accelerator = select_step(problem, state, 0.0, tol, allowed)
    return iterate(
        step,
        state._replace(bound=-math.inf),
        max_iter=problem.max_iter,
        tol=tol,
        accelerator=accelerator,
        rounding=rounding_error(op),
    ).state


class PenaltySearch(NamedTuple):
    """Result of the search for the largest penalty of a path."""

    vanishing: float  # smallest penalty at which all loadings are zero
    vanished: State  # fit at this penalty
    states: list[State]  # fits at smaller penalties, with nonzero loadings


def find_largest_penalty(problem: Problem, start: State) -> PenaltySearch:
    """Find the smallest penalty at which the path ends in W = 0, to 1 %."""
    xp, n = problem.parts.op.xp, problem.parts.n
    low, state = 0.0, start
    high = 1e-3 * n * float(xp.max(xp.abs(start.W))) / start.sigma2 or 1.0
    # At penalties below `break_even`, the start has a larger objective than W = 0, so that no fit
    # ends at W = 0. The search starts below a sixteenth of `break_even`, at `high` times a power of
    # two.
    op = problem.parts.op
    noise = float(xp.sum(op.column_squares())) / (n * op.shape[1])
    nothing = penalised_likelihood(problem, State(xp.zeros_like(start.W), noise, -math.inf))
    something = penalised_likelihood(problem, start)
    break_even = (something.log_likelihood - nothing.log_likelihood) / (something.length or 1.0)
    if break_even > 0.0:
        high *= 2.0 ** math.floor(math.log2(break_even / 16.0 / high))
    states: list[State] = []
    while True:
        state_high = fit_one(problem, state, high).state
        if not bool(xp.any(state_high.W != 0)):
            vanished = state_high
            break
        low, high, state = high, 2.0 * high, state_high
        states.append(state)
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        state_middle = fit_one(problem, state, middle).state
        if bool(xp.any(state_middle.W != 0)):
            low, state = middle, state_middle
            states.append(state)
        else:
            high = middle
    return PenaltySearch(high, vanished, states)


def fit_path(
    problem: Problem,
    start: State,
    penalties: np.ndarray,
    verbose: int = 0,
    known: Sequence[State] = (),
) -> list[PenalisedFit]:
    """Fit increasing penalties.

    Each fit starts from the state with the largest objective among the preceding fit, the linear
    extrapolation of the two preceding fits, and the ``known`` states.
    """
    xp = problem.parts.op.xp
    likelihoods = [penalised_likelihood(problem, state) for state in known]
    fits: list[PenalisedFit] = []
    with Progress(penalties.size, "SPPCA, penalties", verbose) as progress:
        for k, penalty in enumerate(penalties):
            state = fits[-1].state if fits else start
            if bool(xp.any(state.W != 0)):  # W = 0 is stationary
                starts = [
                    *zip(likelihoods, known, strict=True),
                    (penalised_likelihood(problem, state), state),
                ]
                if k >= 2:
                    ratio = (penalty - penalties[k - 1]) / (penalties[k - 1] - penalties[k - 2])
                    ahead = extrapolate(
                        fits[-2].state, state, min(float(ratio), MAX_EXTRAPOLATION), xp
                    )
                    starts.append((penalised_likelihood(problem, ahead), ahead))
                state = max(starts, key=lambda start: start[0].at(float(penalty)))[1]
            fits.append(fit_one(problem, state, float(penalty)))
            progress.advance(fits[-1].state.bound)
    return fits


class PenalisedLikelihood(NamedTuple):
    """Penalised log-likelihood of a state, as a function of the penalty."""

    log_likelihood: float
    length: float  # |W|_1

    def at(self, penalty: float) -> float:
        """Return the objective at a penalty."""
        return self.log_likelihood - penalty * self.length


def penalised_likelihood(problem: Problem, state: State) -> PenalisedLikelihood:
    """Evaluate the log-likelihood and |W|_1 of a state."""
    op = problem.parts.op
    length = float(op.xp.sum(op.xp.abs(state.W)))
    return PenalisedLikelihood(log_likelihood(op, problem.parts.n, state), length)


def extrapolate(before: State, state: State, ratio: float, xp: Namespace) -> State:
    """Extrapolate from ``before`` through ``state`` by a ratio of their distance.

    No loading becomes zero, because each retains at least a tenth of its value.
    """
    W = state.W + ratio * (state.W - before.W)
    W = xp.where(W * state.W > 0.1 * state.W * state.W, W, 0.1 * state.W)
    return state._replace(W=W, sigma2=state.sigma2 * (state.sigma2 / before.sigma2) ** ratio)


def refit_likelihoods(problem: Problem, fits: list[PenalisedFit]) -> np.ndarray:
    """Maximise the log-likelihood over the nonzero loadings of each fit."""
    parts, values = problem.parts, np.empty(len(fits))
    xp = parts.op.xp
    best: State | None = None
    for k, fit in enumerate(fits):
        if k and bool(xp.all((fit.state.W != 0) == (fits[k - 1].state.W != 0))):
            values[k] = values[k - 1]
        else:
            best = refit(problem, fit.state, best)
            values[k] = log_likelihood(parts.op, parts.n, best)
    return values
