"""Prior probabilities of sets of variables, by the number of variables."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv

MODEL_PRIORS = ("uniform", "sparse")


def inclusion_probability(n: int, p: int, level: float = 0.05) -> float:
    """Return the largest rho <= 1/2 with P(Binomial(p, rho) > n) <= level.

    [BLM18]; the probability is an incomplete beta function with parameters n + 1 and p - n.
    """
    if n >= p:
        return 0.5
    return min(0.5, float(betaincinv(n + 1, p - n, level)))


def log_prior(prior: str, cardinalities: np.ndarray, n: int, p: int) -> np.ndarray:
    """Compute the log prior by the number of variables, up to a constant."""
    if prior == "uniform":
        return np.zeros(len(cardinalities))
    rho = inclusion_probability(n, p)
    return cardinalities * np.log(rho / (1.0 - rho))


def log_multiplicity(p: int) -> np.ndarray:
    """Compute the multiplicity-correcting log prior for 0, 1, ..., p variables.

    Each variable is active with probability rho, which is uniform on (0, 1/2). The prior of a model
    with q variables is 2 a_q, where a_q is the integral of rho^q (1 - rho)^(p - q) over (0, 1/2).
    Unlike a uniform prior on the models, it decreases with p (Scott & Berger 2010, with rho up to
    1). Integration by parts gives q a_(q-1) = (p - q + 1) a_q + 2^-(p+1), a recursion of positive
    terms from a_p.
    """
    log_scaled = [-math.log(p + 1.0)]  # log(a_q 2^(p+1)), q = p, p - 1, ...
    for q in range(p, 0, -1):
        log_term = math.log(p - q + 1.0) + log_scaled[-1]
        if log_term > 0:
            log_sum = log_term + math.log1p(math.exp(-log_term))
        else:
            log_sum = math.log1p(math.exp(log_term))
        log_scaled.append(log_sum - math.log(q))
    return np.array(log_scaled[::-1]) - p * math.log(2.0)
