"""Soft thresholding, lasso with a common Gram matrix, sparse rotations."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace, device

from ...data import Array
from ...data.arrays import Namespace, from_numpy, to_numpy, with_row

MAX_BATCH_ENTRIES = 2**17  # maximum number of loadings per batch of plane rotations


def soft_threshold(x: Array, threshold: float, xp: Namespace) -> Array:
    """Shrink every entry towards zero by ``threshold``."""
    return xp.where(x > threshold, x - threshold, xp.where(x < -threshold, x + threshold, 0.0))


def violation(W: Array, gradient: Array, penalty: float, xp: Namespace) -> float:
    """Return the largest violation of the optimality conditions.

    The conditions are dl/dw = penalty sign(w) if w != 0, and |dl/dw| <= penalty if w = 0.
    """
    at_zero = xp.abs(gradient) - penalty
    return float(xp.max(xp.where(W != 0, xp.abs(gradient - penalty * xp.sign(W)), at_zero)))


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

    Coordinate descent sweeps over the d entries of all columns at once. Entries outside
    ``allowed`` remain zero. Zero columns with all entries of b below the threshold remain zero and
    are skipped, which applies to most columns at large penalties.
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
    # If column k of W moves, its position in V is the number of moving columns before k.
    position = xp.searchsorted(moving, xp.arange(W.shape[1], device=device(W)))
    position = xp.clip(position, None, moving.shape[0] - 1)
    stays = xp.take(moving, position) != xp.arange(W.shape[1], device=device(W))
    return xp.where(stays, 0.0, xp.take(V, position, axis=1))


def sparsest_rotation(W: Array, xp: Namespace, sweeps: int = 20) -> Array:
    """Rotate the rows of W (d, p) until no plane rotation decreases |W|_1."""
    if W.shape[0] * W.shape[1] <= MAX_BATCH_ENTRIES:  # many small steps are faster on the CPU
        return from_numpy(_rotate(to_numpy(W), array_namespace(to_numpy(W)), sweeps), W)
    return _rotate(W, xp, sweeps)


def _rotate(W: Array, xp: Namespace, sweeps: int) -> Array:
    rounds = _rounds(W.shape[0])
    for _ in range(sweeps):
        if not _any_rotation_helps(W, xp):
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
    """Disjoint pairs of rows, which can be rotated simultaneously."""

    first: list[int]
    second: list[int]
    alone: list[int]  # row without a partner, if the number of rows is odd
    back: list[int]  # position of row k in first + second + alone


def _rounds(d: int) -> list[_Round]:
    """Arrange all pairs of d rows in rounds of disjoint pairs (round-robin)."""
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


def _any_rotation_helps(W: Array, xp: Namespace) -> bool:
    """Return whether any plane rotation decreases |W|_1."""
    d, p = W.shape
    pairs = [(a, b) for a in range(d) for b in range(a + 1, d)]
    batch = max(1, MAX_BATCH_ENTRIES // p)
    for start in range(0, len(pairs), batch):
        first, second = zip(*pairs[start : start + batch], strict=True)
        if any(_best_angles(_rows(W, list(first), xp), _rows(W, list(second), xp), xp)):
            return True
    return False


def zero_rounding_errors(W: Array, xp: Namespace) -> Array:
    """Set entries that are zero up to rounding errors of a rotation to zero."""
    lengths = xp.sqrt(xp.sum(W * W, axis=0))
    return xp.where(xp.abs(W) <= 1e-9 * lengths, 0.0, W)


def _rows(W: Array, positions: list[int], xp: Namespace) -> Array:
    return xp.take(W, xp.asarray(positions, device=device(W)), axis=0)


def _best_angles(x: Array, y: Array, xp: Namespace) -> list[float]:
    """Find the rotation angle of each row that minimises sum_i |x_i| + |y_i|.

    With (x_i, y_i) = r_i (cos f_i, sin f_i), the sum after a rotation by t is sum_i r_i (cos u_i +
    sin u_i), u_i = (t - f_i) mod pi/2. It is concave between the angles f_i mod pi/2, so that its
    minimum is at one of these angles, where an entry is zero. After sorting, all sums follow from
    two cumulative sums, in O(p log p). The angle is 0 if no rotation decreases the sum.
    """
    m, p = x.shape
    f = xp.atan2(y, x) % (0.5 * math.pi)
    offsets = p * xp.arange(m, device=device(x))[:, None]
    order = xp.reshape(xp.argsort(f, axis=1) + offsets, (-1,))
    r = xp.sqrt(x * x + y * y)
    r, f = (xp.reshape(xp.take(xp.reshape(values, (-1,)), order), (m, p)) for values in (r, f))
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
    least, angles = (to_numpy(xp.take(xp.reshape(values, (-1,)), best)) for values in (sums, f))
    decreases = least < now * (1.0 - 1e-12)
    return [
        float(angle) if better else 0.0 for angle, better in zip(angles, decreases, strict=True)
    ]
