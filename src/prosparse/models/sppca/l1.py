"""Thresholds, small lassos and rotations for l1 penalties."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ...data import Array
from ...data.arrays import Namespace, from_numpy, to_numpy, with_row

_ENTRIES_AT_ONCE = 2**17  # of loadings, where many planes are looked at together


def soft_threshold(x: Array, threshold: float, xp: Namespace) -> Array:
    """Move every entry towards zero by ``threshold``; exact zeros."""
    return xp.where(x > threshold, x - threshold, xp.where(x < -threshold, x + threshold, 0.0))


def lasso_rows(
    W: Array,
    B: Array,
    s: Array,
    threshold: float,
    xp: Namespace,
    *,
    sweeps: int,
    allowed: Array | None = None,
) -> Array:
    """Minimise w's w / 2 - w'b + threshold |w|_1 for every column w of W, b of B.

    Sweeps of coordinate descent over the d entries, all columns at once; entries outside
    ``allowed`` stay zero. Columns that are zero and whose b stays below the threshold cannot
    move: they are left out, and at the sparse end of a path most are such.
    """
    may_move = (W != 0) | (xp.abs(B) > threshold)
    moving = xp.nonzero(xp.any(may_move if allowed is None else allowed, axis=0))[0]
    if moving.shape[0] == 0:
        return xp.zeros_like(W)
    V, b = xp.take(W, moving, axis=1), xp.take(B, moving, axis=1)
    free = None if allowed is None else xp.take(allowed, moving, axis=1)
    for _ in range(sweeps):
        before = xp.asarray(V, copy=True)
        for j in range(V.shape[0]):
            rest = b[j, :] - s[j, :] @ V + s[j, j] * V[j, :]
            entry = soft_threshold(rest, threshold, xp) / s[j, j]
            V = with_row(V, j, entry if free is None else xp.where(free[j, :], entry, 0.0))
        if float(xp.max(xp.abs(V - before))) <= 1e-12 * float(xp.max(xp.abs(V))):
            break
    # Back in place: column k of W is column (number of moving ones before k) of V, or zero.
    position = xp.searchsorted(moving, xp.arange(W.shape[1], device=device(W)))
    position = xp.clip(position, None, moving.shape[0] - 1)
    stays = xp.take(moving, position) != xp.arange(W.shape[1], device=device(W))
    return xp.where(stays, 0.0, xp.take(V, position, axis=1))


def sparsest_rotation(W: Array, xp: Namespace, sweeps: int = 20) -> Array:
    """Turn the rows of W (d, p) among themselves until no plane rotation lowers |W|_1."""
    if W.shape[0] * W.shape[1] <= _ENTRIES_AT_ONCE:  # many small steps: on the host
        return from_numpy(
            _turned_to_sparseness(to_numpy(W), array_namespace(to_numpy(W)), sweeps), W
        )
    return _turned_to_sparseness(W, xp, sweeps)


def _turned_to_sparseness(W: Array, xp: Namespace, sweeps: int) -> Array:
    rounds = _rounds(W.shape[0])
    for _ in range(sweeps):
        if not _some_plane_falls(W, xp):
            break
        for first, second, alone, back in rounds:
            x, y = _rows(W, first, xp), _rows(W, second, xp)
            angles = _best_angles(x, y, xp)
            if any(angles):
                angle = from_numpy(np.asarray(angles)[:, None], W, W.dtype)
                c, s = xp.cos(angle), xp.sin(angle)
                rows = [c * x + s * y, c * y - s * x, *([_rows(W, alone, xp)] if alone else [])]
                W = _rows(xp.concat(rows), back, xp)
    return W


class _Round(NamedTuple):
    """Pairs of rows that share none, so that all can be turned at once."""

    first: list[int]
    second: list[int]
    alone: list[int]  # the row that has no partner, where their number is odd
    back: list[int]  # where row k is in first + second + alone


def _rounds(d: int) -> list[_Round]:
    """All pairs of d rows, as in a tournament: one row stays and the others go round."""
    ring = list(range(d + d % 2))
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = [sorted(pair) for pair in zip(ring[:half], ring[::-1][:half], strict=True)]
        pairs = [pair for pair in pairs if pair[1] < d]
        first, second = ([pair[k] for pair in pairs] for k in range(2))
        alone = [row for row in range(d) if row not in {*first, *second}]
        order = first + second + alone
        rounds.append(_Round(first, second, alone, [order.index(row) for row in range(d)]))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def _some_plane_falls(W: Array, xp: Namespace) -> bool:
    """Whether any pair of rows can be turned to a smaller |W|_1; along a path few need a turn, so
    many are asked at once."""
    d, p = W.shape
    pairs = [(a, b) for a in range(d) for b in range(a + 1, d)]
    together = max(1, _ENTRIES_AT_ONCE // p)
    for start in range(0, len(pairs), together):
        first, second = zip(*pairs[start : start + together], strict=True)
        if any(_best_angles(_rows(W, list(first), xp), _rows(W, list(second), xp), xp)):
            return True
    return False


def without_dust(W: Array, xp: Namespace) -> Array:
    """W with exact zeros where a turn meant them: what rounding left there is 1e-9 of its column
    at most."""
    lengths = xp.sqrt(xp.sum(W * W, axis=0))
    return xp.where(xp.abs(W) <= 1e-9 * lengths, 0.0, W)


def _rows(W: Array, places: list[int], xp: Namespace) -> Array:
    return xp.take(W, xp.asarray(places, device=device(W)), axis=0)


def _best_angles(x: Array, y: Array, xp: Namespace) -> list[float]:
    """For each row, the rotation of the plane that makes sum_i |x_i| + |y_i| smallest, in
    O(p log p).

    With (x_i, y_i) = r_i (cos f_i, sin f_i) the sum after a turn by t is
    sum_i r_i (cos u_i + sin u_i), u_i = (t - f_i) mod pi/2. Between the angles f_i mod pi/2 it is
    concave, so its minimum is at one of them, where some entry becomes zero; sorted, all the
    sums are two running totals. 0 unless the sum falls.
    """
    m, p = x.shape
    f = xp.atan2(y, x) % (0.5 * math.pi)
    offsets = p * xp.arange(m, device=device(x))[:, None]
    order = xp.reshape(xp.argsort(f, axis=1) + offsets, (-1,))
    r = xp.sqrt(x * x + y * y)
    r, f = (xp.reshape(xp.take(xp.reshape(some, (-1,)), order), (m, p)) for some in (r, f))
    cos, sin = xp.cos(f), xp.sin(f)
    # cos u + sin u = cos t (cos f - sin f) + sin t (cos f + sin f) for f <= t, and
    # cos t (cos f + sin f) + sin t (sin f - cos f) for f > t.
    low, high = r * (cos - sin), r * (cos + sin)
    lows, highs = xp.cumulative_sum(low, axis=1), xp.cumulative_sum(high, axis=1)
    P = lows + highs[:, -1:] - highs
    Q = highs - lows[:, -1:] + lows
    sums = P * cos + Q * sin
    best = xp.argmin(sums, axis=1) + offsets[:, 0]
    now = to_numpy(xp.sum(xp.abs(x) + xp.abs(y), axis=1))
    least, angles = (to_numpy(xp.take(xp.reshape(some, (-1,)), best)) for some in (sums, f))
    falls = least < now * (1.0 - 1e-12)
    return [float(angle) if fall else 0.0 for angle, fall in zip(angles, falls, strict=True)]
