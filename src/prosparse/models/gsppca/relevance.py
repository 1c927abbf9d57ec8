"""Update of the prior variances of the loadings, with exact zeros.

Row k of the loadings has prior w_k ~ N(0, t_k I); t_k = 0 removes variable k from the model. EM
updates of t_k converge to zero slowly. If w_k is integrated out, the optimal t_k can be computed
directly ([FT02], for d = 1).

On a GPU, every kernel launch and every transfer to CPU memory has a latency. The functions of this
module therefore use few operations and transfer all summaries at once.

[FT02]  A. Faul, M. Tipping. Analysis of sparse Bayesian learning. NeurIPS 2002.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from ...data import Array
from ...data.arrays import Namespace, is_numpy, to_numpy

MAX_ATTEMPTS = 60  # maximum number of step lengths that are tried; the last one is zero
MAX_LOG_STEP = 2.0  # maximum change of log t in one update
# Number of terms D whose product is taken before the logarithm, which costs as much as ten
# multiplications. Each term is at least 1 / (1 + e t), and e t is far below 1e30.
PRODUCT_SIZE = 10
ROUNDING_FACTOR = 45.0  # rounding error of h_k, in units of epsilon


class VarianceUpdate(NamedTuple):
    """Prior variances after an update, and the sums that depend on them."""

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
    summarise: Callable[[VarianceUpdate], tuple[tuple[Array, ...], Any]],
) -> tuple[VarianceUpdate, list[Any], Any]:
    """Increase every h_k by a safeguarded Newton step in log t_k.

    With q(Y) fixed and row k of W integrated out, the bound depends on t_k through

        h_k(t) = 1/2 sum_j [ -log(1 + e_j t) + w_jk t / (1 + e_j t) ],   e = c a, w = c^2 g^2.

    A variable leaves the model (t_k = 0) if h_k'(0) <= 0, h_k(t_k) <= 0, and the maximum predicted
    by Newton's method from t_k is not positive. An excluded variable enters the model if h_k'(0) >
    0.

    ``summarise`` maps the update to a tuple of numbers and small arrays, which are returned in CPU
    memory and in double precision, and to another object.
    """
    d, limits = e.shape[0], xp.finfo(w.dtype)
    ones = xp.ones_like(e)  # Products with ones are the fastest column sums.
    sum_e = xp.sum(e)
    slope = 0.5 * (ones @ w - sum_e)
    D, wD, log_D = _shrinkage_terms(t, e, w, xp)
    h = 0.5 * (log_D + t * (ones @ wD))
    # Derivatives of 2 h in log t: dD/dlog t = D^2 - D and, with T = w t D, dT/dlog t = T D.
    wD *= D
    sum_E = ones @ D + t * (ones @ wD)  # E = D + T D
    gradient = sum_E - d
    wD *= D
    D *= D
    curvature = ones @ D + 2.0 * t * (ones @ wD) - sum_E
    abs_curvature = xp.abs(curvature) + float(limits.smallest_normal)
    # The maximum of the parabola bounds the gain, except where h is convex and increasing.
    predicted = h + 0.25 * gradient * gradient / abs_curvature
    convex_increasing = xp.minimum(gradient, curvature) > 0
    zero = xp.zeros_like(h)
    leaving = (xp.maximum(slope, xp.maximum(h, predicted)) <= 0) & ~convex_increasing
    t, h = xp.where(leaving, zero, t), xp.where(leaving, zero, h)
    # If h is convex, the absolute curvature makes Newton's step an ascent direction.
    limit = xp.full_like(h, MAX_LOG_STEP)
    log_step = gradient / abs_curvature
    log_step = xp.maximum(xp.minimum(log_step, limit), -limit)
    # A variable enters the model at the value that is optimal if all e_j are equal.
    entering = xp.maximum(slope, zero) * (2.0 * d / sum_e**2)
    trial = xp.where(t > 0, t * xp.exp(log_step), entering)
    threshold = h - ROUNDING_FACTOR * float(limits.eps) * (1.0 + xp.abs(h))

    def backtrack(trial: Array, decreased: Array, attempt: int) -> Array:
        shorter = xp.where(t > 0, xp.sqrt(trial * t), 0.25 * trial)
        return xp.where(decreased, shorter if attempt < MAX_ATTEMPTS - 2 else t, trial)

    for attempt in range(MAX_ATTEMPTS):
        D, wD, log_D = _shrinkage_terms(trial, e, w, xp)
        T = trial * (ones @ wD)
        decreased = 0.5 * (log_D + T) < threshold
        last = attempt == MAX_ATTEMPTS - 1
        # On a GPU, this check would require a transfer and is part of the summaries instead.
        if not last and is_numpy(h) and bool(xp.any(decreased)):
            trial = backtrack(trial, decreased, attempt)
            continue
        wD *= D
        TD = trial * (ones @ wD)
        update = VarianceUpdate(trial, D, T, TD, ones @ D, log_D, slope)
        small, arrays = summarise(update)
        any_decreased, *summaries = _transfer((xp.any(decreased), *small), xp)
        if last or not any_decreased:
            break
        trial = backtrack(trial, decreased, attempt)
    return update, summaries, arrays


def _transfer(parts: tuple[Array, ...], xp: Namespace) -> list[Any]:
    """Copy numbers and small arrays to CPU memory in a single transfer."""
    if all(is_numpy(part) or np.isscalar(part) for part in parts):
        return [np.asarray(part, dtype=float) if part.ndim else float(part) for part in parts]
    wide = [xp.astype(xp.reshape(part, (-1,)), xp.float64, copy=False) for part in parts]
    flat, start, pieces = to_numpy(xp.concat(wide)), 0, []
    for part in parts:
        end = start + math.prod(part.shape)
        pieces.append(np.reshape(flat[start:end], part.shape) if part.ndim else float(flat[start]))
        start = end
    return pieces


def _shrinkage_terms(t: Array, e: Array, w: Array, xp: Namespace) -> tuple[Array, Array, Array]:
    """Return D and w D, both (d, p), and the column sums of log D."""
    D = e[:, None] * t
    D += 1.0
    D = 1.0 / D
    return D, w * D, _sum_logs(D, xp)


def _sum_logs(D: Array, xp: Namespace) -> Array:
    """Return the column sums of log D, computed as logarithms of products."""
    d, p = D.shape
    # If the size divides d, no product is shorter.
    sizes = range(PRODUCT_SIZE, PRODUCT_SIZE // 2, -1)
    size = next((size for size in sizes if d % size == 0), PRODUCT_SIZE)
    whole = d // size * size
    log_D = xp.sum(xp.log(xp.prod(xp.reshape(D[:whole, :], (-1, size, p)), axis=1)), axis=0)
    if whole == d:
        return log_D
    return log_D + xp.log(xp.prod(D[whole:, :], axis=0))
