"""Thresholds and rotations for l1 penalties."""

from __future__ import annotations

import math
from typing import Any

Array = Any


def soft_threshold(x: Array, threshold: float, xp: Any) -> Array:
    """Move every entry towards zero by ``threshold``; exact zeros."""
    return xp.sign(x) * xp.clip(xp.abs(x) - threshold, 0.0, None)


def sparsest_rotation(W: Array, xp: Any, sweeps: int = 20) -> Array:
    """Turn the rows of W (d, p) among themselves until no plane rotation lowers |W|_1."""
    W = xp.asarray(W, copy=True)
    for _ in range(sweeps):
        turned = False
        for a in range(W.shape[0]):
            for b in range(a + 1, W.shape[0]):
                angle = _best_angle(W[a, :], W[b, :], xp)
                if angle:
                    c, s = math.cos(angle), math.sin(angle)
                    row_a = c * W[a, :] + s * W[b, :]
                    W[b, :] = c * W[b, :] - s * W[a, :]
                    W[a, :] = row_a
                    turned = True
        if not turned:
            break
    return W


def _best_angle(x: Array, y: Array, xp: Any) -> float:
    """The rotation of the plane that makes sum_i |x_i| + |y_i| smallest, in O(p log p).

    With (x_i, y_i) = r_i (cos f_i, sin f_i) the sum after a turn by t is
    sum_i r_i (cos u_i + sin u_i), u_i = (t - f_i) mod pi/2. Between the angles f_i mod pi/2 it is
    concave, so its minimum is at one of them, where some entry becomes zero; sorted, all the
    sums are two running totals. Returns 0 unless the sum falls.
    """
    r = xp.sqrt(x * x + y * y)
    f = xp.atan2(y, x) % (0.5 * math.pi)
    order = xp.argsort(f)
    r, f = xp.take(r, order), xp.take(f, order)
    with_cos, with_sin = r * xp.cos(f), r * xp.sin(f)
    # cos u + sin u = cos t (cos f - sin f) + sin t (cos f + sin f) for f <= t, and
    # cos t (cos f + sin f) + sin t (sin f - cos f) for f > t.
    low, high = with_cos - with_sin, with_cos + with_sin
    P = xp.cumulative_sum(low) + xp.sum(high) - xp.cumulative_sum(high)
    Q = xp.cumulative_sum(high) - xp.sum(low) + xp.cumulative_sum(low)
    sums = P * xp.cos(f) + Q * xp.sin(f)
    best = int(xp.argmin(sums))
    now = float(xp.sum(xp.abs(x)) + xp.sum(xp.abs(y)))
    return float(f[best]) if float(sums[best]) < now * (1.0 - 1e-12) else 0.0
