"""Prior weights of the models, by cardinality."""

from __future__ import annotations

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
