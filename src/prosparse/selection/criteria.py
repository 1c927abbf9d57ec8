"""Information criteria as penalised log-likelihoods (larger is better)."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

Array = Any


def aic(log_likelihood: Array, dimension: Array) -> np.ndarray:
    """Compute Akaike's criterion: log-likelihood minus the number of parameters.

    Parameters
    ----------
    log_likelihood : array-like of shape (n_models,)
        Maximised log-likelihoods.
    dimension : array-like of shape (n_models,)
        Numbers of free parameters.

    Returns
    -------
    ndarray of shape (n_models,)
        Criterion; larger is better.
    """
    return np.asarray(log_likelihood, dtype=float) - np.asarray(dimension)


def bic(log_likelihood: Array, dimension: Array, n_samples: float) -> np.ndarray:
    """Compute Schwarz's Bayesian information criterion.

    The criterion is the log-likelihood minus ``dimension * log(n_samples) / 2``.

    Parameters
    ----------
    log_likelihood : array-like of shape (n_models,)
        Maximised log-likelihoods.
    dimension : array-like of shape (n_models,)
        Numbers of free parameters.
    n_samples : float
        Number of observations, or the sum of their weights.

    Returns
    -------
    ndarray of shape (n_models,)
        Criterion; larger is better.
    """
    return np.asarray(log_likelihood) - 0.5 * np.log(n_samples) * np.asarray(dimension)


def ebic(
    log_likelihood: Array, dimension: Array, n_samples: float, n_candidates: int
) -> np.ndarray:
    """Compute extended BIC (Chen & Chen, 2008).

    The logarithm of the number of models with the same dimension is subtracted from `bic`. It
    corrects for the selection of the parameters among many candidates.

    Parameters
    ----------
    log_likelihood : array-like of shape (n_models,)
        Maximised log-likelihoods.
    dimension : array-like of shape (n_models,)
        Numbers of selected parameters.
    n_samples : float
        Number of observations, or the sum of their weights.
    n_candidates : int
        Number of parameters from which they were selected.

    Returns
    -------
    ndarray of shape (n_models,)
        Criterion; larger is better.

    Examples
    --------
    >>> bic([-10.0, -10.0], [1, 2], 20) - ebic([-10.0, -10.0], [1, 2], 20, 4)
    array([1.38629436, 1.79175947])
    """
    selected, total = np.asarray(dimension, dtype=float), float(n_candidates)
    log_models = gammaln(total + 1.0) - gammaln(selected + 1.0) - gammaln(total - selected + 1.0)
    return bic(log_likelihood, dimension, n_samples) - log_models
