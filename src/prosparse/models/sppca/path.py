"""Fits along rising penalties, and what the nonzeros of each can reach without shrinkage."""

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
from .l1 import sparsest_rotation, without_dust
from .model import (
    LEAST_PENALISED_NOISE,
    State,
    log_likelihood,
    make_step,
    rounding_of,
    subgradient_gap,
)

_FARTHEST = 2.0  # times the last step that the next fit is looked for ahead
FINEST = 3  # times the tolerance is made finer, each time by a hundredth
GAP = 1e-5  # how well the optimality conditions must hold, relative to the penalty


class Problem(NamedTuple):
    """A table whose likelihood is maximised, and how far."""

    parts: Spectrum
    sums: newton.Sums | None  # where Newton's method is worth its steps
    max_iter: int
    tol: float


def problem_of(parts: Spectrum, max_iter: int, tol: float) -> Problem:
    """With X'X, which Newton steps need, where it is small."""
    op, sums = parts.table, None
    if op.shape[1] <= newton.MOST_COLUMNS:
        S = to_numpy(op.gram()).astype(float)
        least_noise = LEAST_PENALISED_NOISE * float(np.trace(S)) / (parts.n * op.shape[1])
        sums = newton.sums_of(S, parts.n, least_noise)
    return Problem(parts, sums, max_iter, tol)


class PenalisedFit(NamedTuple):
    """The best loadings at one penalty."""

    state: State
    runs: list[Run[State]]  # with ever finer tolerances


def fit_one(problem: Problem, start: State, penalty: float) -> PenalisedFit:
    """Maximise from ``start``, with finer tolerances until the optimality conditions hold."""
    op, n = problem.parts.table, problem.parts.n
    xp, size = op.xp, n * op.shape[1]
    W = without_dust(sparsest_rotation(start.W, xp), xp)
    state = start._replace(W=W, bound=-math.inf)
    runs: list[Run[State]] = []
    left = problem.max_iter
    finer = 0
    while left > 0:
        tol = problem.tol * size * 0.01**finer
        if suits_newton(problem, state):  # which doubles its digits with every step
            tol, finer = min(tol, 1e-4 * problem.tol * size), FINEST
        step, accelerator = stepping(problem, state, penalty, tol)
        run = iterate(
            step,
            state,
            max_iter=left,
            tol=tol,
            accelerator=accelerator,
            rounding=rounding_of(op),
        )
        runs.append(run)
        left -= len(run.bounds)
        state = run.state
        if finer == FINEST or penalty == 0.0 or subgradient_gap(op, n, state, penalty) < GAP:
            break
        finer += 1
    if penalty == 0.0:  # nothing but the choice of axes makes zeros: steps leave dust on them
        state = state._replace(W=without_dust(state.W, xp))
    return PenalisedFit(state, runs)


def suits_newton(problem: Problem, state: State) -> bool:
    """Whether the loadings that move are few, or EM, whose steps shrink with the noise, would
    crawl."""
    xp, sums = problem.parts.table.xp, problem.sums
    if sums is None:
        return False
    moving = int(xp.sum(xp.astype(state.W != 0, xp.int64)))
    crawls = newton.tiny_noise(sums, state.sigma2)
    return moving <= (newton.MOST_LOADINGS if crawls else newton.FEW_LOADINGS)


def stepping(
    problem: Problem, state: State, penalty: float, tol: float, allowed: Array | None = None
) -> tuple[Callable[[State], State], Anderson | None]:
    """Newton's steps where few loadings move, else accelerated passes of EM."""
    op, sums = problem.parts.table, problem.sums
    by_em = make_step(op, problem.parts.n, penalty, allowed)
    if sums is None or not suits_newton(problem, state):
        return by_em, over_loadings("W", op.xp, Anderson)
    within = None if allowed is None else to_numpy(allowed)
    known: list[tuple[State, newton.Point, float]] = []  # where the next step begins, its damping

    def step(state: State) -> State:
        if known and known[0][0] is state:
            _, here, damping = known[0]
        else:
            here, damping = newton.at(sums, to_numpy(state.W), state.sigma2), 0.0
        there, damping = newton.improved(sums, here, penalty, tol, damping, within, GAP)
        if there is None:
            return by_em(state)
        price = penalty * float(np.abs(there.W).sum())
        result = State(from_numpy(there.W, state.W), there.sigma2, there.log_likelihood - price)
        known[:] = [(result, there, damping)]
        return result

    return step, None


def refitted(problem: Problem, state: State, near: State | None = None) -> State:
    """Maximum likelihood with the nonzeros of ``state``: what the criteria are about. Along a path
    of shrunken fits the likelihood has no straight part.

    ``near`` is the refit of the penalty before. Most of its loadings stay, and nothing shrank
    them: where its likelihood without the others is the higher one, the steps begin there.
    """
    op, n = problem.parts.table, problem.parts.n
    tol = problem.tol * n * op.shape[1]
    allowed = state.W != 0
    if near is not None:
        left = near._replace(W=op.xp.where(allowed, near.W, 0.0))
        if log_likelihood(op, n, left) > log_likelihood(op, n, state):
            state = state._replace(W=left.W, sigma2=left.sigma2)
    step, accelerator = stepping(problem, state, 0.0, tol, allowed)
    return iterate(
        step,
        state._replace(bound=-math.inf),
        max_iter=problem.max_iter,
        tol=tol,
        accelerator=accelerator,
        rounding=rounding_of(op),
    ).state


class WayUp(NamedTuple):
    """What was found while looking for the largest penalty of a path."""

    vanishing: float  # the smallest penalty at which no loading is left
    vanished: State  # what is left there
    states: list[State]  # that have loadings, at the penalties below it that were tried


def way_up(problem: Problem, start: State) -> WayUp:
    """The smallest penalty at which the path that goes up from ``start`` ends in W = 0 (to 1 %)."""
    xp, n = problem.parts.table.xp, problem.parts.n
    low, state = 0.0, start
    high = 1e-3 * n * float(xp.max(xp.abs(start.W))) / start.sigma2 or 1.0
    # Below `worth_it` the start itself is better than W = 0, where no fit can end then: what comes
    # first on the way up, in powers of two, is the last below a sixteenth of that.
    op = problem.parts.table
    noise = float(xp.sum(op.column_squares())) / (n * op.shape[1])
    nothing = height_of(problem, State(xp.zeros_like(start.W), noise, -math.inf))
    something = height_of(problem, start)
    worth_it = (something.log_likelihood - nothing.log_likelihood) / (something.length or 1.0)
    if worth_it > 0.0:
        high *= 2.0 ** math.floor(math.log2(worth_it / 16.0 / high))
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
    return WayUp(high, vanished, states)


def fit_path(
    problem: Problem,
    start: State,
    penalties: np.ndarray,
    verbose: int = 0,
    known: Sequence[State] = (),
) -> list[PenalisedFit]:
    """Fits at rising penalties, each from the best of: the fit before it, the straight line
    through the two before it, and the ``known`` states."""
    xp = problem.parts.table.xp
    heights = [height_of(problem, some) for some in known]
    fits: list[PenalisedFit] = []
    with Progress(penalties.size, "SPPCA, penalties", verbose) as progress:
        for k, penalty in enumerate(penalties):
            state = fits[-1].state if fits else start
            if bool(xp.any(state.W != 0)):  # what has vanished stays away
                starts = [*zip(heights, known, strict=True), (height_of(problem, state), state)]
                if k >= 2:
                    share = (penalty - penalties[k - 1]) / (penalties[k - 1] - penalties[k - 2])
                    ahead = beyond(fits[-2].state, state, min(float(share), _FARTHEST), xp)
                    starts.append((height_of(problem, ahead), ahead))
                state = max(starts, key=lambda some: some[0].at(float(penalty)))[1]
            fits.append(fit_one(problem, state, float(penalty)))
            progress.advance(fits[-1].state.bound)
    return fits


class Height(NamedTuple):
    """The penalised log-likelihood of a state, for every penalty."""

    log_likelihood: float
    length: float  # |W|_1

    def at(self, penalty: float) -> float:
        return self.log_likelihood - penalty * self.length


def height_of(problem: Problem, state: State) -> Height:
    op = problem.parts.table
    length = float(op.xp.sum(op.xp.abs(state.W)))
    return Height(log_likelihood(op, problem.parts.n, state), length)


def beyond(before: State, state: State, share: float, xp: Namespace) -> State:
    """On the straight line from ``before`` through ``state``, by a ``share`` of their distance.
    Which loadings become zero is not decided here: none loses more than nine tenths."""
    W = state.W + share * (state.W - before.W)
    W = xp.where(W * state.W > 0.1 * state.W * state.W, W, 0.1 * state.W)
    return state._replace(W=W, sigma2=state.sigma2 * (state.sigma2 / before.sigma2) ** share)


def best_likelihoods(problem: Problem, fits: list[PenalisedFit]) -> np.ndarray:
    """The log-likelihood that the nonzeros of every fit can reach."""
    parts, values = problem.parts, np.empty(len(fits))
    xp = parts.table.xp
    best: State | None = None
    for k, fit in enumerate(fits):
        if k and bool(xp.all((fit.state.W != 0) == (fits[k - 1].state.W != 0))):
            values[k] = values[k - 1]
        else:
            best = refitted(problem, fit.state, best)
            values[k] = log_likelihood(parts.table, parts.n, best)
    return values
