"""Information criteria, as penalised log-likelihoods: larger is better."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy.special import gammaln

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


def ebic(log_likelihood: Array, dimension: Array, n_samples: int, n_candidates: int) -> np.ndarray:
    """Chen & Chen (2008): `bic` minus the logarithm of how many models of that size there are.

    BIC treats every model alike; where D parameters were picked among P by the data, models of
    middling size are so many that one of them fits well by chance.

    Parameters
    ----------
    log_likelihood : array
        Of the models to compare.
    dimension : array
        The number of parameters that each of them picked.
    n_samples : int
    n_candidates : int
        How many parameters there were to pick from.

    Returns
    -------
    array
        The criterion; larger is better.

    Examples
    --------
    >>> bic([-10.0, -10.0], [1, 2], 20) - ebic([-10.0, -10.0], [1, 2], 20, 4)
    array([1.38629436, 1.79175947])
    """
    picked, total = np.asarray(dimension, dtype=float), float(n_candidates)
    models = gammaln(total + 1.0) - gammaln(picked + 1.0) - gammaln(total - picked + 1.0)
    return bic(log_likelihood, dimension, n_samples) - models
