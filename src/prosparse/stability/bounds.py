"""How many variables that are seldom chosen get into the stable set, at most, on average?

Symbols, as in [SS13]: B pairs of halves; p_k the probability that variable k is chosen on half of
the rows; tau the share of the 2B halves on which a stable variable is chosen; theta a selection
probability that counts as low; L = {k : p_k <= theta} the variables of low selection probability;
q = sum of all p_k, the expected number chosen on a half. Then, for the stable set S,

    E|S and L| <= theta / (2 tau - 1) * E|chosen on a half, and L|         [SS13] Theorem 1 (a)

whatever the method, the data and the law of either. If the share of the B *pairs* of which both
halves choose k has a unimodal distribution for every k in L, then

    E|S and L| <= C(tau, B) * theta * E|chosen on a half, and L|           [SS13] Theorem 2

    C = 1 / (2 (2 tau - 1 - 1 / 2B))         1/2 + min(theta^2, 1/2B + 3/4 theta^2) < tau <= 3/4
    C = 4 (1 - tau + 1 / 2B) / (1 + 1 / B)   3/4 < tau <= 1

for theta <= 1 / sqrt(3) and tau one of 1/2 + 1/B, 1/2 + 3/2B, ..., 1. The last factor of both is a
sum of at most p numbers, none above theta, that is at most q: it is at most min(q, theta p).

The variables of L are the false ones only if the method is no worse on them than drawing variables
at random, theta being q / p.
"""

from __future__ import annotations

import math

from ..errors import ParameterError, check_integer, check_non_negative

LARGEST_LOW = 1.0 / math.sqrt(3.0)  # theta, for Theorem 2
_ROUNDING = 1e-9


def worst_factor(threshold: float) -> float:
    """1 / (2 tau - 1), which holds without any assumption; infinite up to a half."""
    _check_probabilities(threshold=threshold)
    return 1.0 / (2.0 * threshold - 1.0) if threshold > 0.5 else math.inf  # [SS13] Theorem 1 (a)


def unimodal_factor(threshold: float, n_pairs: int, low: float) -> float:
    """C(tau, B) of [SS13], Theorem 2; infinite where the theorem says nothing.

    Parameters
    ----------
    threshold : float
        tau, rounded up to a whole number of halves.
    n_pairs : int
        B.
    low : float
        theta.

    Returns
    -------
    float
    """
    _check_probabilities(threshold=threshold, low=low)
    check_integer("n_pairs", n_pairs, 1)
    tau, B = math.ceil(2 * n_pairs * threshold - _ROUNDING) / (2.0 * n_pairs), float(n_pairs)
    if low > LARGEST_LOW or tau > 1.0 or tau < 0.5 + 1.0 / B - _ROUNDING:
        return math.inf
    if tau > 0.75:
        return 4.0 * (1.0 - tau + 0.5 / B) / (1.0 + 1.0 / B)
    if tau <= 0.5 + min(low**2, 0.5 / B + 0.75 * low**2):
        return math.inf
    return 1.0 / (2.0 * (2.0 * tau - 1.0 - 0.5 / B))


def expected_low(
    threshold: float,
    n_pairs: int,
    low: float,
    mean_chosen: float,
    n_features: int,
    *,
    unimodal: bool = True,
) -> float:
    """The most variables of low selection probability in the stable set, on average.

    Parameters
    ----------
    threshold : float
        tau: the share of the halves on which a stable variable is chosen.
    n_pairs : int
        B.
    low : float
        theta: a selection probability up to here is low.
    mean_chosen : float
        q: the mean number of variables chosen on a half.
    n_features : int
        p.
    unimodal : bool, default=True
        Whether Theorem 2 may be used as well, where it is smaller.

    Returns
    -------
    float
        Infinite for a threshold of a half and less.
    """
    _check_probabilities(low=low)
    check_non_negative("mean_chosen", mean_chosen)
    check_integer("n_features", n_features, 1)
    factor = worst_factor(threshold)
    if not math.isfinite(factor):
        return factor
    if unimodal:
        factor = min(factor, unimodal_factor(threshold, n_pairs, low))
    return factor * low * min(mean_chosen, low * n_features)


def _check_probabilities(**values: float) -> None:
    """Raise unless every value is a number from 0 to 1."""
    for name, value in values.items():
        check_non_negative(name, value)
        if value > 1.0:
            raise ParameterError(f"`{name}` must be at most 1, got {value!r}")
