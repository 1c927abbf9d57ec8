"""One relevance variance per variable, with its weights integrated out and exact zeros.

In a Gaussian model whose weights w_k ~ N(0, t_k I) meet the data through d orthogonal
directions, t_k = 0 removes variable k. Re-estimating t_k from the posterior of w_k only creeps
towards zero; with w_k integrated out the best t_k is found directly (Faul & Tipping 2002,
"Analysis of sparse Bayesian learning", for d = 1).

Tables on a GPU wait for the launch of every kernel and for every number that the host wants to
see: operations are few here, and all numbers travel together.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import Namespace, host

_ATTEMPTS = 60  # at a step that raises every h_k; the last one stays where it was
_FARTHEST = 2.0  # that a step in log t goes
# Factors of one logarithm, which costs as much as ten multiplications. Each is at least
# 1 / (1 + e t), and e t, a number of observations times a ratio of variances, is far below 1e30.
_FACTORS = 10


class VarianceUpdate(NamedTuple):
    """One step in the variances of all variables, and what it leaves to compute with."""

    t: Array  # (p,) the new variances
    D: Array  # (d, p) 1 / (1 + e_j t_k)
    T: Array  # (d, p) w_jk t_k D_jk
    log_D: Array  # (p,) column sums of log D
    slope: Array  # (p,) h_k'(0)


def update_variances(
    t: Array,
    e: Array,
    w: Array,
    xp: Namespace,
    summaries: Callable[[VarianceUpdate], tuple[Array, ...]],
) -> tuple[VarianceUpdate, list[Array]]:
    """Raise every h_k by one safeguarded Newton step in log t_k; decide exact zeros.

    With q(Y) fixed and row k of W integrated out, the bound depends on t_k through

        h_k(t) = 1/2 sum_j [ -log(1 + e_j t) + w_jk t / (1 + e_j t) ],   e = c a, w = c^2 g^2.

    A variable leaves (t_k = 0) when h_k'(0) <= 0 and staying is no better, h_k(t_k) <= 0; it
    comes back as soon as h_k'(0) > 0. No h_k ever falls. Returns the update and its
    ``summaries`` on the host.
    """
    d = e.shape[0]
    slope = 0.5 * (xp.sum(w, axis=0) - xp.sum(e))
    D, T, _, h = _gain(t, e, w, xp)
    leaving = xp.maximum(slope, h) <= 0
    zero = xp.zeros_like(h)
    t, h = xp.where(leaving, zero, t), xp.where(leaving, zero, h)
    # Newton in log t: dD/dlog t = D^2 - D and dT/dlog t = T D. (Twice the derivatives of h.)
    T *= D
    E = T + D
    sum_E = xp.sum(E, axis=0)
    gradient = sum_E - d
    E += T
    E *= D
    curvature = xp.sum(E, axis=0) - sum_E
    # Where h is convex, go uphill as far as the same bend the other way would let us.
    farthest = xp.full_like(h, _FARTHEST)
    move = gradient / (xp.abs(curvature) + 1e-100)
    move = xp.maximum(xp.minimum(move, farthest), -farthest)
    # A variable that comes (back) in starts where it would be if all e_j were equal.
    waking = xp.maximum(slope, zero) * (2.0 * d / xp.sum(e) ** 2)
    trial = xp.where(t > 0, t * xp.exp(move), waking)
    lowest = h - 1e-14 * (1.0 + xp.abs(h))  # less the rounding of h itself
    for attempt in range(_ATTEMPTS):
        D, T, log_D, h = _gain(trial, e, w, xp)
        update = VarianceUpdate(trial, D, T, log_D, slope)
        worse = h < lowest
        verdict, *numbers = _together((xp.astype(xp.any(worse), h.dtype), *summaries(update)), xp)
        if not verdict:
            break
        shorter = xp.where(t > 0, xp.sqrt(trial * t), 0.25 * trial)
        trial = xp.where(worse, shorter if attempt < _ATTEMPTS - 2 else t, trial)
    return update, numbers


def _together(parts: tuple[Array, ...], xp: Namespace) -> list[Array]:
    """Numbers and small arrays to the host by one way, as each waits for the device."""
    flat, start, pieces = host(xp.concat([xp.reshape(part, (-1,)) for part in parts])), 0, []
    for part in parts:
        end = start + math.prod(part.shape)
        pieces.append(np.reshape(flat[start:end], part.shape) if part.ndim else float(flat[start]))
        start = end
    return pieces


def _gain(t: Array, e: Array, w: Array, xp: Namespace) -> tuple[Array, Array, Array, Array]:
    """D, T, the column sums of log D, and h_k(t_k) for every variable."""
    D = e[:, None] * t
    D += 1.0
    D = 1.0 / D
    T = w * t
    T *= D
    log_D = _sum_of_logs(D, xp)
    return D, T, log_D, 0.5 * (log_D + xp.sum(T, axis=0))


def _sum_of_logs(D: Array, xp: Namespace) -> Array:
    """Column sums of log D, by logarithms of products."""
    d, p = D.shape
    size = next((size for size in range(_FACTORS, 5, -1) if d % size == 0), _FACTORS)
    whole = d // size * size
    log_D = xp.sum(xp.log(xp.prod(xp.reshape(D[:whole, :], (-1, size, p)), axis=1)), axis=0)
    if whole == d:
        return log_D
    return log_D + xp.log(xp.prod(D[whole:, :], axis=0))
