"""Knockoff filter: false discovery rate control by comparison with shadows.

Symbols: T_j the statistic of variable j, T_j1, ..., T_jK those of its K shadows, and

    W_j = s_j max(T_j, T_j1, ..., T_jK),

where s_j is 1 if the variable has the largest statistic, -1 if a shadow has it, and 0 if they tie.
If a variable is exchangeable with its shadows given everything else, s_j = 1 has probability 1 / (K
+ 1) given all |W|, independently of the other variables. With V(t) = #{j: W_j <= -t} and R(t) =
#{j: W_j >= t}, the estimate (1 + V(t)) / (K R(t)) of the proportion of false discoveries is
conservative [GZ19], and

    t = min {t > 0: (1 + V(t)) / (K R(t)) <= q},   select {j: W_j >= t}

controls the false discovery rate at q in finite samples [BC15]. At least 1 / (K q) variables, or
none, are selected.

The numbers e_j = p K 1{W_j >= t} / (1 + V(t)) are *e-values*: the sum of their expectations over
the null variables is at most p. Means of e-values over several draws of the shadows are also
e-values, and depend little on a single draw. The e-BH procedure controls the false discovery rate:
it selects the k variables with the largest e-values, for the largest k with p / (k e_(k)) <= q
[RB24].

[BC15]  R. F. Barber, E. J. Candes. Controlling the false discovery rate via knockoffs. Annals of
        Statistics 43, 2015.
[GZ19]  J. R. Gimenez, J. Zou. Improving the stability of the knockoff procedure: multiple
        simultaneous knockoffs and entropy maximization. AISTATS 2019.
[RB24]  Z. Ren, R. F. Barber. Derandomised knockoffs: leveraging e-values for false discovery rate
        control. Journal of the Royal Statistical Society B 86, 2024.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

# Rate of the thresholds of the draws, relative to the rate of e-BH. With one half, a variable is
# selected if it passes in about half of the draws, as recommended by [RB24].
THRESHOLD_RATE = 0.5
_ROUNDING = 1e-12  # maximum relative rounding error of a mean of e-values


def compare_with_shadows(statistics: np.ndarray, original_layer: np.ndarray) -> np.ndarray:
    """Compute W, (p,), from non-negative statistics of all layers, (K + 1, p).

    ``original_layer`` (p,) is the layer of the variable itself.
    """
    own = np.arange(statistics.shape[1])
    original = statistics[original_layer, own]
    shadows = statistics.copy()
    shadows[original_layer, own] = -np.inf
    largest_shadow = np.max(shadows, axis=0)
    sign = np.sign(original - largest_shadow)
    # Ties between shadows do not count.
    return np.asarray(sign * np.maximum(original, largest_shadow))


class _Estimates(NamedTuple):
    """Estimated proportions of false discoveries."""

    order: np.ndarray  # (p,) variables by decreasing |W|
    magnitude: np.ndarray  # (p,) |W| in this order
    proportion: np.ndarray  # (p,) estimate at the threshold |W|; infinite if |W| is no threshold


def knockoff_rates(statistics: np.ndarray, n_shadows: int) -> np.ndarray:
    """Compute the smallest rate at which each variable is selected, (p,).

    ``statistics`` (p,) are W. The rate is 1 for variables that are not selected at any smaller
    rate.
    """
    order, _, proportion = _estimate_proportions(statistics, n_shadows)
    rates = np.empty(statistics.size)
    rates[order] = np.minimum(np.minimum.accumulate(proportion[::-1])[::-1], 1.0)
    return np.where(statistics > 0.0, rates, 1.0)


def knockoff_threshold(statistics: np.ndarray, n_shadows: int, rate: float) -> float:
    """Compute the threshold t at a rate; infinite if no variable is selected."""
    _, magnitude, proportion = _estimate_proportions(statistics, n_shadows)
    return float(np.min(magnitude[proportion <= rate], initial=np.inf))


def knockoff_evalues(statistics: np.ndarray, n_shadows: int, rate: float) -> np.ndarray:
    """Compute the e-values of one draw at a rate, (p,), [RB24]."""
    threshold = knockoff_threshold(statistics, n_shadows, rate)
    n_false = np.sum(statistics <= -threshold)
    return np.where(statistics >= threshold, statistics.size * n_shadows / (1.0 + n_false), 0.0)


def _estimate_proportions(statistics: np.ndarray, n_shadows: int) -> _Estimates:
    order = np.argsort(-np.abs(statistics), kind="stable")
    in_order = statistics[order]
    magnitude = np.abs(in_order)
    n_false, n_selected = np.cumsum(in_order < 0.0), np.cumsum(in_order > 0.0)
    proportion = (1.0 + n_false) / (n_shadows * np.maximum(n_selected, 1))
    # Variables of equal |W| are selected together, and |W| = 0 is no threshold.
    is_threshold = np.append(magnitude[1:] < magnitude[:-1], True) & (magnitude > 0.0)
    return _Estimates(order, magnitude, np.where(is_threshold, proportion, np.inf))


def adjust_evalues(evalues: np.ndarray) -> np.ndarray:
    """Compute the smallest e-BH rate that selects each variable, (p,)."""
    order = np.argsort(-evalues, kind="stable")
    rank = np.arange(1, evalues.size + 1)
    ratio = (1.0 - _ROUNDING) * evalues.size / (rank * np.maximum(evalues[order], 1e-300))
    rates = np.empty(evalues.size)
    rates[order] = np.minimum(np.minimum.accumulate(ratio[::-1])[::-1], 1.0)
    return rates
