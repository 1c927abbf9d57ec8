"""Information criteria, as penalised log-likelihoods: larger is better."""

from __future__ import annotations

from typing import Any

import numpy as np

Array = Any


def aic(log_likelihood: Array, dimension: Array) -> np.ndarray:
    """Akaike (1974): log-likelihood minus the number of free parameters.

    Parameters
    ----------
    log_likelihood : array
        Of the models to compare.
    dimension : array
        The number of free parameters of each of them.

    Returns
    -------
    array
        The criterion; larger is better.
    """
    return np.asarray(log_likelihood, dtype=float) - np.asarray(dimension)


def bic(log_likelihood: Array, dimension: Array, n_samples: int) -> np.ndarray:
    """Schwarz (1978): log-likelihood minus half the number of free parameters times log n.

    Parameters
    ----------
    log_likelihood : array
        Of the models to compare.
    dimension : array
        The number of free parameters of each of them.
    n_samples : int

    Returns
    -------
    array
        The criterion; larger is better.
    """
    return np.asarray(log_likelihood) - 0.5 * np.log(n_samples) * np.asarray(dimension)
