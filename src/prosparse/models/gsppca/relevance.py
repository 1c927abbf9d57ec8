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
from typing import Any, NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import Namespace, is_numpy, to_numpy

_ATTEMPTS = 60  # at a step that raises every h_k; the last one stays where it was
_FARTHEST = 2.0  # that a step in log t goes
# Factors of one logarithm, which costs as much as ten multiplications. Each is at least
# 1 / (1 + e t), and e t, a number of observations times a ratio of variances, is far below 1e30
# (in single precision, where 1e38 is the end, it need be below 1e7).
_FACTORS, _FACTORS_IN_SINGLE = 10, 5
_ROUNDING = 45.0  # epsilons by which rounding may lower an h_k


class VarianceUpdate(NamedTuple):
    """One step in the variances of all variables, and what it leaves to compute with."""

    t: Array  # (p,) the new variances
    D: Array  # (d, p) 1 / (1 + e_j t_k)
    T: Array  # (p,) column sums of T_jk = w_jk t_k D_jk
    TD: Array  # (p,) column sums of T D
    D_sum: Array  # (p,) column sums of D
    log_D: Array  # (p,) column sums of log D
    slope: Array  # (p,) h_k'(0)


def update_variances(
    t: Array,
    e: Array,
    w: Array,
    xp: Namespace,
    summaries: Callable[[VarianceUpdate], tuple[tuple[Array, ...], Any]],
) -> tuple[VarianceUpdate, list[Any], Any]:
    """Raise every h_k by one safeguarded Newton step in log t_k; decide exact zeros.

    With q(Y) fixed and row k of W integrated out, the bound depends on t_k through

        h_k(t) = 1/2 sum_j [ -log(1 + e_j t) + w_jk t / (1 + e_j t) ],   e = c a, w = c^2 g^2.

    A variable leaves (t_k = 0) when h_k'(0) <= 0 and staying is no better: h_k <= 0 at t_k, and
    also at the maximum that Newton's method sees from there, as t_k may only be far from it. It
    comes back as soon as h_k'(0) > 0. No h_k ever falls. Everything is in the precision of ``w``.
    Returns the update, the first part of its ``summaries`` on the host, in double precision, and
    the second part as it is.
    """
    d, limits = e.shape[0], xp.finfo(w.dtype)
    over_j = xp.ones_like(e)  # column sums are products with ones, the fastest way to them
    sum_e = xp.sum(e)
    slope = 0.5 * (over_j @ w - sum_e)
    D, wD, log_D = _curves(t, e, w, xp)
    h = 0.5 * (log_D + t * (over_j @ wD))
    # Newton in log t: dD/dlog t = D^2 - D and, with T = w t D, dT/dlog t = T D. (Twice the
    # derivatives of h.)
    wD *= D
    sum_E = over_j @ D + t * (over_j @ wD)  # of E = D + T D
    gradient = sum_E - d
    wD *= D
    D *= D
    curvature = over_j @ D + 2.0 * t * (over_j @ wD) - sum_E
    bend = xp.abs(curvature) + float(limits.smallest_normal)
    # h at the top of the parabola; where h is convex and rises, that is further than can be seen
    top = h + 0.25 * gradient * gradient / bend
    climbing = xp.minimum(gradient, curvature) > 0
    zero = xp.zeros_like(h)
    leaving = (xp.maximum(slope, xp.maximum(h, top)) <= 0) & ~climbing
    t, h = xp.where(leaving, zero, t), xp.where(leaving, zero, h)
    # Where h is convex, go uphill as far as the same bend the other way would let us.
    farthest = xp.full_like(h, _FARTHEST)
    move = gradient / bend
    move = xp.maximum(xp.minimum(move, farthest), -farthest)
    # A variable that comes (back) in starts where it would be if all e_j were equal.
    waking = xp.maximum(slope, zero) * (2.0 * d / sum_e**2)
    trial = xp.where(t > 0, t * xp.exp(move), waking)
    lowest = h - _ROUNDING * float(limits.eps) * (1.0 + xp.abs(h))

    def shorter(trial: Array, worse: Array, attempt: int) -> Array:
        less = xp.where(t > 0, xp.sqrt(trial * t), 0.25 * trial)
        return xp.where(worse, less if attempt < _ATTEMPTS - 2 else t, trial)

    for attempt in range(_ATTEMPTS):
        D, wD, log_D = _curves(trial, e, w, xp)
        T = trial * (over_j @ wD)
        worse = 0.5 * (log_D + T) < lowest
        last = attempt == _ATTEMPTS - 1
        if not last and is_numpy(h) and bool(xp.any(worse)):  # on a GPU this would be waited for
            trial = shorter(trial, worse, attempt)
            continue
        wD *= D
        TD = trial * (over_j @ wD)
        update = VarianceUpdate(trial, D, T, TD, over_j @ D, log_D, slope)
        small, kept = summaries(update)
        verdict, *numbers = _together((xp.any(worse), *small), xp)
        if last or not verdict:
            break
        trial = shorter(trial, worse, attempt)
    return update, numbers, kept


def _together(parts: tuple[Array, ...], xp: Namespace) -> list[Any]:
    """Numbers and small arrays to the host by one way, as each waits for the device."""
    if all(is_numpy(part) or np.isscalar(part) for part in parts):
        return [np.asarray(part, dtype=float) if part.ndim else float(part) for part in parts]
    wide = [xp.astype(xp.reshape(part, (-1,)), xp.float64, copy=False) for part in parts]
    flat, start, pieces = to_numpy(xp.concat(wide)), 0, []
    for part in parts:
        end = start + math.prod(part.shape)
        pieces.append(np.reshape(flat[start:end], part.shape) if part.ndim else float(flat[start]))
        start = end
    return pieces


def _curves(t: Array, e: Array, w: Array, xp: Namespace) -> tuple[Array, Array, Array]:
    """D and w D, (d, p), and the column sums of log D."""
    D = e[:, None] * t
    D += 1.0
    D = 1.0 / D
    return D, w * D, _sum_of_logs(D, xp)


def _sum_of_logs(D: Array, xp: Namespace) -> Array:
    """Column sums of log D, by logarithms of products."""
    d, p = D.shape
    most = _FACTORS if D.dtype == xp.float64 else _FACTORS_IN_SINGLE
    size = next((size for size in range(most, most // 2, -1) if d % size == 0), most)
    whole = d // size * size
    log_D = xp.sum(xp.log(xp.prod(xp.reshape(D[:whole, :], (-1, size, p)), axis=1)), axis=0)
    if whole == d:
        return log_D
    return log_D + xp.log(xp.prod(D[whole:, :], axis=0))
