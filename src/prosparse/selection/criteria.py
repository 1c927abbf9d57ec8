"""Information criteria, as penalised log-likelihoods: larger is better."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def aic(log_likelihood: Array, dimension: Array) -> np.ndarray:
    """Akaike (1974): log-likelihood minus the number of free parameters.

    Parameters
    ----------
    log_likelihood, dimension : arrays
        Of the models to compare; larger values of the criterion are better.

    Returns
    -------
    array
    """
    return np.asarray(log_likelihood, dtype=float) - np.asarray(dimension)


def bic(log_likelihood: Array, dimension: Array, n_samples: int) -> np.ndarray:
    """Schwarz (1978): log-likelihood minus half the number of free parameters times log n.

    Parameters
    ----------
    log_likelihood, dimension : arrays
        Of the models to compare; larger values of the criterion are better.
    n_samples : int

    Returns
    -------
    array
    """
    return np.asarray(log_likelihood) - 0.5 * np.log(n_samples) * np.asarray(dimension)
