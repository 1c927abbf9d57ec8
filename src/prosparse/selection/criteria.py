"""Information criteria, as penalised log-likelihoods: larger is better."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def aic(log_likelihood: Array, dimension: Array) -> np.ndarray:
    """Akaike (1974): log-likelihood minus the number of free parameters."""
    return np.asarray(log_likelihood, dtype=float) - np.asarray(dimension, dtype=float)


def bic(log_likelihood: Array, dimension: Array, n_samples: int) -> np.ndarray:
    """Schwarz (1978): log-likelihood minus half the number of free parameters times log n."""
    dimension = np.asarray(dimension, dtype=float)
    return np.asarray(log_likelihood, dtype=float) - 0.5 * dimension * np.log(n_samples)
