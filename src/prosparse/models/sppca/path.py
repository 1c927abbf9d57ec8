"""Fits along rising penalties, and what the nonzeros of each can reach without shrinkage."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ...inference.acceleration import over_loadings
from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from ...numerics.spectrum import Spectrum
from .l1 import sparsest_rotation
from .model import State, init, log_likelihood, make_step, rounding_of, subgradient_gap

GAP = 1e-5  # how well the optimality conditions must hold, relative to the penalty


class PenalisedFit(NamedTuple):
    """The best loadings at one penalty."""

    state: State
    runs: list[Run[State]]  # with ever finer tolerances


def fit_one(
    parts: Spectrum, start: State, penalty: float, max_iter: int, tol: float
) -> PenalisedFit:
    """Maximise from ``start``, with finer tolerances until the optimality conditions hold."""
    op, n = parts.table, parts.n
    xp, size = op.xp, n * op.shape[1]
    state = start._replace(W=sparsest_rotation(start.W, xp), bound=-math.inf)
    runs: list[Run[State]] = []
    left = max_iter
    while left > 0:
        run = iterate(
            make_step(op, n, penalty),
            state,
            max_iter=left,
            tol=tol * size * 0.01 ** len(runs),
            accelerator=over_loadings("W", xp),
            rounding=rounding_of(op),
        )
        runs.append(run)
        left -= len(run.bounds)
        state = run.state
        if penalty == 0.0 or len(runs) == 4 or subgradient_gap(op, n, state, penalty) < GAP:
            break
    return PenalisedFit(state, runs)


def refitted(parts: Spectrum, state: State, max_iter: int, tol: float) -> State:
    """Maximum likelihood with the nonzeros of ``state``: what the criteria are about. Along a path
    of shrunken fits the likelihood has no straight part."""
    op, n = parts.table, parts.n
    return iterate(
        make_step(op, n, 0.0, state.W != 0),
        state._replace(bound=-math.inf),
        max_iter=max_iter,
        tol=tol * n * op.shape[1],
        accelerator=over_loadings("W", op.xp),
        rounding=rounding_of(op),
    ).state


def vanishing_penalty(parts: Spectrum, start: State, max_iter: int, tol: float) -> float:
    """The smallest penalty at which the path that goes up from ``start`` ends in W = 0 (to 1 %)."""
    xp = parts.table.xp
    low, state = 0.0, start
    high = 1e-3 * parts.n * float(xp.max(xp.abs(start.W))) / start.sigma2 or 1.0
    while True:
        state_high = fit_one(parts, state, high, max_iter, tol).state
        if not bool(xp.any(state_high.W != 0)):
            break
        low, high, state = high, 2.0 * high, state_high
    while high - low > 0.01 * high:
        middle = 0.5 * (low + high)
        state_middle = fit_one(parts, state, middle, max_iter, tol).state
        if bool(xp.any(state_middle.W != 0)):
            low, state = middle, state_middle
        else:
            high = middle
    return high


def fit_path(
    parts: Spectrum, d: int, penalties: np.ndarray, max_iter: int, tol: float, verbose: int = 0
) -> list[PenalisedFit]:
    """Fits at rising penalties, each from the one before."""
    state = init(parts, d)
    fits: list[PenalisedFit] = []
    with Progress(penalties.size, "SPPCA, penalties", verbose) as progress:
        for penalty in penalties:
            fits.append(fit_one(parts, state, float(penalty), max_iter, tol))
            state = fits[-1].state
            progress.advance(state.bound)
    return fits


def best_likelihoods(
    parts: Spectrum, fits: list[PenalisedFit], max_iter: int, tol: float
) -> np.ndarray:
    """The log-likelihood that the nonzeros of every fit can reach."""
    xp, values = parts.table.xp, np.empty(len(fits))
    for k, fit in enumerate(fits):
        if k and bool(xp.all((fit.state.W != 0) == (fits[k - 1].state.W != 0))):
            values[k] = values[k - 1]
        else:
            best = refitted(parts, fit.state, max_iter, tol)
            values[k] = log_likelihood(parts.table, parts.n, best)
    return values
