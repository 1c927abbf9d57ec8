"""Error bounds of stability selection.

The bounds limit the expected number of variables with low selection probability in the stable set.

Symbols as in [SS13]: B is the number of pairs of halves, p_k is the probability that variable k is
selected on half of the rows, and tau is the minimum selection frequency of a stable variable. A
selection probability of at most theta is low, and L = {k : p_k <= theta}. The expected number of
variables selected on a half is q = sum_k p_k. For the stable set S,

    E|S and L| <= theta / (2 tau - 1) * E|selected on a half, and L|       [SS13] Theorem 1 (a)

for any method and any distribution of the data. If the proportion of the B *pairs* in which both
halves select k has a unimodal distribution for every k in L, then

    E|S and L| <= C(tau, B) * theta * E|selected on a half, and L|         [SS13] Theorem 2

    C = 1 / (2 (2 tau - 1 - 1 / 2B))         1/2 + min(theta^2, 1/2B + 3/4 theta^2) < tau <= 3/4
    C = 4 (1 - tau + 1 / 2B) / (1 + 1 / B)   3/4 < tau <= 1

for theta <= 1 / sqrt(3) and tau one of 1/2 + 1/B, 1/2 + 3/2B, ..., 1. The last factor of both
bounds is a sum of at most p numbers, each at most theta, and is at most q. It is therefore at most
min(q, theta p).

With theta = q / p, L contains all uninformative variables if their selection is exchangeable and no
more probable than under random selection.
"""

from __future__ import annotations

import math

MAX_LOW_PROBABILITY = 1.0 / math.sqrt(3.0)  # maximum of theta in Theorem 2
_ROUNDING = 1e-9  # tolerance for thresholds that are not exact in floating point


def worst_case_factor(threshold: float) -> float:
    """Compute the factor 1 / (2 tau - 1) of Theorem 1; infinite for tau <= 1/2."""
    return 1.0 / (2.0 * threshold - 1.0) if threshold > 0.5 else math.inf  # [SS13] Theorem 1 (a)


def unimodal_factor(threshold: float, n_pairs: int, low_probability: float) -> float:
    """Compute the factor C(tau, B) of Theorem 2; infinite if not applicable.

    tau is rounded up to a multiple of 1 / 2B.
    """
    tau, B = math.ceil(2 * n_pairs * threshold - _ROUNDING) / (2.0 * n_pairs), float(n_pairs)
    theta = low_probability
    if theta > MAX_LOW_PROBABILITY or tau > 1.0 or tau < 0.5 + 1.0 / B - _ROUNDING:
        return math.inf
    if tau > 0.75:
        return 4.0 * (1.0 - tau + 0.5 / B) / (1.0 + 1.0 / B)
    if tau <= 0.5 + min(theta**2, 0.5 / B + 0.75 * theta**2):
        return math.inf
    return 1.0 / (2.0 * (2.0 * tau - 1.0 - 0.5 / B))


def low_probability_bound(
    threshold: float,
    n_pairs: int,
    low_probability: float,
    mean_selected: float,
    n_features: int,
    *,
    unimodal: bool = True,
) -> float:
    """Bound the expected number of stable variables of low selection probability.

    ``mean_selected`` is q, and ``n_features`` is p. With ``unimodal``, the smaller of the bounds of
    both theorems is used.
    """
    factor = worst_case_factor(threshold)
    if not math.isfinite(factor):
        return factor
    if unimodal:
        factor = min(factor, unimodal_factor(threshold, n_pairs, low_probability))
    return factor * low_probability * min(mean_selected, low_probability * n_features)
