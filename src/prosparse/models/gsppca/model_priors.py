"""Prior probabilities of sets of variables, by the number of variables."""

from __future__ import annotations

import numpy as np
from scipy.special import betaincinv

MODEL_PRIORS = ("uniform", "sparse")


def inclusion_probability(n: int, p: int, level: float = 0.05) -> float:
    """Compute the largest rho <= 1/2 with P(Binomial(p, rho) > n) <= level.

    This is the prior of [BLM18]. The probability is an incomplete beta function with parameters n +
    1 and p - n.
    """
    if n >= p:
        return 0.5
    return min(0.5, float(betaincinv(n + 1, p - n, level)))


def log_odds(prior: str, n: int, p: int) -> float:
    """Compute the prior log odds that a variable is active."""
    if prior == "uniform":
        return 0.0
    rho = inclusion_probability(n, p)
    return float(np.log(rho / (1.0 - rho)))
