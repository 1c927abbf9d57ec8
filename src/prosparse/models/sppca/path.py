"""Fits along rising penalties, and what the nonzeros of each can reach without shrinkage."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import host, in_kind
from ...inference.acceleration import Anderson, over_loadings
from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from ...numerics.spectrum import Spectrum
from . import newton
from .l1 import sparsest_rotation
from .model import (
    LEAST_PENALISED_NOISE,
    State,
    log_likelihood,
    make_step,
    rounding_of,
    subgradient_gap,
)

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
        S = host(op.gram()).astype(float)
        total = float(np.trace(S))
        least_noise = LEAST_PENALISED_NOISE * total / (parts.n * op.shape[1])
        sums = newton.Sums(S, parts.n, total, least_noise)
    return Problem(parts, sums, max_iter, tol)


class PenalisedFit(NamedTuple):
    """The best loadings at one penalty."""

    state: State
    runs: list[Run[State]]  # with ever finer tolerances


def fit_one(problem: Problem, start: State, penalty: float) -> PenalisedFit:
    """Maximise from ``start``, with finer tolerances until the optimality conditions hold."""
    op, n = problem.parts.table, problem.parts.n
    xp, size = op.xp, n * op.shape[1]
    state = start._replace(W=sparsest_rotation(start.W, xp), bound=-math.inf)
    runs: list[Run[State]] = []
    left = problem.max_iter
    while left > 0:
        tol = problem.tol * size * 0.01 ** len(runs)
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
        if penalty == 0.0 or len(runs) == 4 or subgradient_gap(op, n, state, penalty) < GAP:
            break
    return PenalisedFit(state, runs)


def stepping(
    problem: Problem, state: State, penalty: float, tol: float, allowed: Array | None = None
) -> tuple[Callable[[State], State], Anderson | None]:
    """Newton's steps where few loadings move, else accelerated passes of EM."""
    op, sums = problem.parts.table, problem.sums
    by_em = make_step(op, problem.parts.n, penalty, allowed)
    moving = int(op.xp.sum(op.xp.astype(state.W != 0, op.xp.int64)))
    if sums is None or moving > newton.MOST_LOADINGS:
        return by_em, over_loadings("W", op.xp)
    within = None if allowed is None else host(allowed)
    known: list[tuple[State, newton.Point]] = []  # the last step's result: where the next begins

    def step(state: State) -> State:
        if known and known[0][0] is state:
            here = known[0][1]
        else:
            here = newton.at(sums, host(state.W), state.sigma2)
        there = newton.improved(sums, here, penalty, tol, within)
        if there is None:
            return by_em(state)
        price = penalty * float(np.abs(there.W).sum())
        result = State(in_kind(there.W, state.W), there.sigma2, there.log_likelihood - price)
        known[:] = [(result, there)]
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


def vanishing_penalty(problem: Problem, start: State) -> float:
    """The smallest penalty at which the path that goes up from ``start`` ends in W = 0 (to 1 %)."""
    xp, n = problem.parts.table.xp, problem.parts.n
    low, state = 0.0, start
    high = 1e-3 * n * float(xp.max(xp.abs(start.W))) / start.sigma2 or 1.0
    while True:
        state_high = fit_one(problem, state, high).state
        if not bool(xp.any(state_high.W != 0)):
            break
        low, high, state = high, 2.0 * high, state_high
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        state_middle = fit_one(problem, state, middle).state
        if bool(xp.any(state_middle.W != 0)):
            low, state = middle, state_middle
        else:
            high = middle
    return high


def fit_path(
    problem: Problem, start: State, penalties: np.ndarray, verbose: int = 0
) -> list[PenalisedFit]:
    """Fits at rising penalties, each from the one before."""
    state = start
    fits: list[PenalisedFit] = []
    with Progress(penalties.size, "SPPCA, penalties", verbose) as progress:
        for penalty in penalties:
            fits.append(fit_one(problem, state, float(penalty)))
            state = fits[-1].state
            progress.advance(state.bound)
    return fits


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
