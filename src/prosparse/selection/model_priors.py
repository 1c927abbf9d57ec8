"""Prior weights of models, each a set of variables, by how many variables it has."""

from __future__ import annotations

import math

import numpy as np
from scipy.special import betaincinv

MODEL_PRIORS = ("uniform", "sparse")


def inclusion_probability(n: int, p: int, level: float = 0.05) -> float:
    """The largest rho in (0, 1/2] with P(Binomial(p, rho) > n) <= level, [BLM18].

    P(Binomial(p, rho) > n) is the incomplete beta function I_rho(n + 1, p - n).
    """
    if n >= p:
        return 0.5
    return min(0.5, float(betaincinv(n + 1, p - n, level)))


def log_prior(kind: str, cardinalities: np.ndarray, n: int, p: int) -> np.ndarray:
    """What the prior adds to the log evidence, up to a constant."""
    if kind == "uniform":
        return np.zeros(len(cardinalities))
    rho = inclusion_probability(n, p)
    return cardinalities * np.log(rho / (1.0 - rho))


def log_multiplicity(p: int) -> np.ndarray:
    """Log prior of each model of 0, 1, ..., p variables, when each variable is active with
    probability rho, and rho is anything up to 1/2: 2 times the integral a_q of
    rho^q (1 - rho)^(p - q) over (0, 1/2).

    The more variables there are, the less probable is each: that is what a flat prior on the
    models lacks (Scott & Berger 2010, with rho up to 1). Integration by parts gives
    q a_(q-1) = (p - q + 1) a_q + 2^-(p+1), a sum of positive terms on the way down from a_p.
    """
    log_c = [-math.log(p + 1.0)]  # log of a_q 2^(p+1), q = p, p - 1, ...
    for q in range(p, 0, -1):
        grown = math.log(p - q + 1.0) + log_c[-1]
        more = grown + math.log1p(math.exp(-grown)) if grown > 0 else math.log1p(math.exp(grown))
        log_c.append(more - math.log(q))
    return np.array(log_c[::-1]) - p * math.log(2.0)
