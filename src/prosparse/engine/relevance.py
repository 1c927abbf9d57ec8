"""One relevance variance per variable, with its weights integrated out and exact zeros.

In a Gaussian model whose weights w_k ~ N(0, t_k I) meet the data through d orthogonal
directions, t_k = 0 removes variable k. Re-estimating t_k from the posterior of w_k only creeps
towards zero; with w_k integrated out the best t_k is found directly (Faul & Tipping 2002,
"Analysis of sparse Bayesian learning", for d = 1).
"""

from __future__ import annotations

from typing import Any

Array = Any


def update_variances(
    t: Array, e: Array, w: Array, xp: Any
) -> tuple[Array, Array, Array, Array, Array]:
    """Raise every h_k by one safeguarded Newton step in log t_k; decide exact zeros.

    With q(Y) fixed and row k of W integrated out, the bound depends on t_k through

        h_k(t) = 1/2 sum_j [ -log(1 + e_j t) + w_jk t / (1 + e_j t) ],   e = c a, w = c^2 g^2.

    A variable leaves (t_k = 0) when h_k'(0) <= 0 and staying is no better, h_k(t_k) <= 0; it
    comes back as soon as h_k'(0) > 0. No h_k ever falls. Returns the new t with its D and T,
    the slopes h_k'(0), and the column sums of log D.
    """
    slope = 0.5 * (xp.sum(w, axis=0) - xp.sum(e))
    D, T, log_D, h = _gain(t, e, w, xp)
    t = xp.where((slope <= 0) & (h <= 0), 0.0, t)
    h = xp.where(t > 0, h, 0.0)
    # Newton in log t: dD/dlog t = D^2 - D and dT/dlog t = T D. (Twice the derivatives of h.)
    E = (T + 1.0) * D
    sum_E = xp.sum(E, axis=0)
    gradient = sum_E - e.shape[0]
    curvature = xp.sum((E + T * D) * D, axis=0) - sum_E
    concave = curvature < 0
    newton = gradient / -xp.where(concave, curvature, -1.0)
    move = xp.where(concave, newton, xp.sign(gradient))
    trial = t * xp.exp(xp.clip(move, -2.0, 2.0))
    # A variable that comes (back) in starts where it would be if all e_j were equal.
    waking = (t == 0) & (slope > 0)
    trial = xp.where(waking, 2.0 * slope / (e.shape[0] * xp.mean(e) ** 2), trial)
    D, T, log_D, h_trial = _gain(trial, e, w, xp)
    slack = 1e-14 * (1.0 + xp.abs(h))  # rounding of h itself
    for attempt in range(60):
        worse = h_trial < h - slack
        if not bool(xp.any(worse)):
            break
        shorter = xp.where(t > 0, xp.sqrt(trial * t), 0.25 * trial)
        trial = xp.where(worse, shorter if attempt < 59 else t, trial)
        D, T, log_D, h_trial = _gain(trial, e, w, xp)
    return trial, D, T, slope, log_D


def _gain(t: Array, e: Array, w: Array, xp: Any) -> tuple[Array, Array, Array, Array]:
    """D, T, the column sums of log D, and h_k(t_k) for every variable."""
    D = e[:, None] * t
    D += 1.0
    D = 1.0 / D
    T = w * D
    T *= t
    # Logarithms of products of eight: a logarithm costs as much as ten multiplications.
    whole = D.shape[0] // 8 * 8
    eights = xp.prod(xp.reshape(D[:whole, :], (whole // 8, 8, D.shape[1])), axis=1)
    log_D = xp.sum(xp.log(eights), axis=0) + xp.log(xp.prod(D[whole:, :], axis=0))
    return D, T, log_D, 0.5 * (log_D + xp.sum(T, axis=0))
