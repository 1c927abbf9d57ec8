"""Soft thresholding, lasso with a common Gram matrix, sparse rotations."""

from __future__ import annotations

import math

import numpy as np
from array_api_compat import device

from ...data import Array
from ...data.arrays import Namespace, from_numpy, to_numpy, with_row


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


def sparsest_rotation(W: Array, sweeps: int = 20) -> Array:
    """Rotate the rows of W (d, p) until no plane rotation decreases |W|_1."""
    V = np.array(to_numpy(W))  # many small steps are faster on the CPU
    for _ in range(sweeps):
        has_changed = False
        for first, second in _disjoint_pairs(V.shape[0]):
            x, y = V[first], V[second]
            angle = _best_angles(x, y)[:, None].astype(V.dtype)
            if np.any(angle):
                c, s = np.cos(angle), np.sin(angle)
                V[first], V[second] = c * x + s * y, c * y - s * x
                has_changed = True
        if not has_changed:
            break
    return from_numpy(V, W, W.dtype)


def _disjoint_pairs(d: int) -> list[tuple[list[int], list[int]]]:
    """Arrange all pairs of d rows in rounds of disjoint pairs (round-robin)."""
    ring = list(range(d + d % 2))
    rounds = []
    for _ in range(len(ring) - 1):
        half = len(ring) // 2
        pairs = [sorted(pair) for pair in zip(ring[:half], ring[::-1][:half], strict=True)]
        pairs = [pair for pair in pairs if pair[1] < d]
        rounds.append(([a for a, _ in pairs], [b for _, b in pairs]))
        ring = [ring[0], ring[-1], *ring[1:-1]]
    return rounds


def zero_rounding_errors(W: Array, xp: Namespace) -> Array:
    """Set entries that are zero up to rounding errors of a rotation to zero."""
    lengths = xp.sqrt(xp.sum(W * W, axis=0))
    return xp.where(xp.abs(W) <= 1e-9 * lengths, 0.0, W)


def _best_angles(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """Find the rotation angle of each row that minimises sum_i |x_i| + |y_i|.

    With (x_i, y_i) = r_i (cos f_i, sin f_i), the sum after a rotation by t is sum_i r_i (cos u_i +
    sin u_i), u_i = (t - f_i) mod pi/2. It is concave between the angles f_i mod pi/2, so that its
    minimum is at one of these angles, where an entry is zero. After sorting, all sums follow from
    two cumulative sums, in O(p log p). The angle is 0 if no rotation decreases the sum.
    """
    f = np.arctan2(y, x) % (0.5 * math.pi)
    order = np.argsort(f, axis=1, kind="stable")
    r, f = (np.take_along_axis(values, order, axis=1) for values in (np.sqrt(x * x + y * y), f))
    cos, sin = np.cos(f), np.sin(f)
    # cos u + sin u = cos t (cos f - sin f) + sin t (cos f + sin f) for f <= t, and
    # cos t (cos f + sin f) + sin t (sin f - cos f) for f > t.
    low, high = r * (cos - sin), r * (cos + sin)
    lows, highs = np.cumsum(low, axis=1), np.cumsum(high, axis=1)
    P = lows + highs[:, -1:] - highs
    Q = highs - lows[:, -1:] + lows
    sums = P * cos + Q * sin
    best = np.argmin(sums, axis=1)[:, None]
    least, angles = (np.take_along_axis(values, best, axis=1)[:, 0] for values in (sums, f))
    now = np.sum(np.abs(x) + np.abs(y), axis=1)
    return np.where(least < now * (1.0 - 1e-12), angles, 0.0)
