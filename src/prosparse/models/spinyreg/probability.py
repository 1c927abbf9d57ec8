"""Probabilities of two classes where the log odds are uncertain.

After Monahan & Stefanski (1992), Handbook of the Logistic Distribution.

The logistic distribution is a mixture of normal ones of deviation 2 psi, where psi has
Kolmogorov's distribution: s(h) = E Phi(h / (2 psi)). If h is N(mu, v), then

    E s(h) = E Phi(mu / sqrt(4 psi^2 + v)) ,

an integral over psi alone, whatever v: 32 nodes leave an error below 1e-10.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from scipy.special import log_expit, log_ndtr, logsumexp, roots_legendre
from scipy.stats import kstwobign

N_NODES = 32
LEAST, LARGEST = math.log(0.2), math.log(5.0)  # of psi: beyond, its density is below 1e-20
BATCH_ROWS = 100_000


@cache
def _mixture() -> tuple[np.ndarray, np.ndarray]:
    """Variances of the normal distributions, and the logarithms of their shares."""
    x, weight = roots_legendre(N_NODES)
    psi = np.exp(LEAST + 0.5 * (LARGEST - LEAST) * (x + 1.0))
    share = weight * psi * kstwobign.pdf(psi)
    return 4.0 * psi**2, np.log(share / share.sum())


def log_probabilities(mu: np.ndarray, v: np.ndarray) -> np.ndarray:
    """(n, 2) log probabilities of both classes, if the log odds of the second are N(mu, v)."""
    variances, log_share = _mixture()
    rarer = np.empty(mu.size)
    for start in range(0, mu.size, BATCH_ROWS):
        rows = slice(start, start + BATCH_ROWS)
        below = -np.abs(mu[rows])
        z = below[:, None] / np.sqrt(variances + v[rows, None])
        mixed = logsumexp(log_ndtr(z) + log_share, axis=1)
        # Where h is far below zero and certain, the mixture has no tail left; uncertainty can only
        # add to the probability of the rarer class.
        rarer[rows] = np.minimum(np.maximum(mixed, log_expit(below)), -math.log(2.0))
    other = np.log1p(-np.exp(rarer))
    second = mu > 0.0
    return np.column_stack([np.where(second, rarer, other), np.where(second, other, rarer)])
