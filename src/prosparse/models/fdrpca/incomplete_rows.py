"""Scores of rows with missing values, and a test of missingness.

Symbols: V (q x d) components of the q selected variables, standardised; L the variances of the
scores; s the mean variance of the other principal components. The variables follow the factor model

    x = W t + e,    W = V diag(L - s)^1/2,    t ~ N(0, I),    e ~ N(0, Psi),

with Psi_kk = 1 - |w_k|^2. Given the observed entries o of a row, t is normal with covariance
A^-1 = (I + W_o' Psi_o^-1 W_o)^-1 and mean A^-1 W_o' Psi_o^-1 x_o. The scores V'x have the mean
V_o'x_o + V_m' W_m E[t] and the covariance V_m' (W_m A^-1 W_m' + Psi_m) V_m, with the missing
entries m.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...parallel import slices_of
from ...structure import StandardisedData

_MIN_UNIQUENESS = 0.02
_ROWS_PER_CHUNK = 512


class ScoreDistribution(NamedTuple):
    """Conditional distribution of the scores of each row."""

    mean: np.ndarray  # (n, d)
    std: np.ndarray  # (n, d); zeros for complete rows


def missingness_pvalue(data: StandardisedData, seen: np.ndarray, scores: np.ndarray) -> float:
    """Test whether missing values depend on the components.

    Regress the proportion of missing values of each row on the orthonormal scores (n, d), and
    return the p-value of the F test.
    """
    from scipy.stats import f as f_distribution

    d = scores.shape[1]
    missing = data.adjustment.residuals(np.mean(~seen, axis=1)[:, None])[:, 0]
    total, free = float(missing @ missing), data.dof - d
    if d == 0 or free < 1 or total <= 1e-12:
        return 1.0
    explained = float(np.sum((scores.T @ missing) ** 2))
    ratio = (explained / d) / max((total - explained) / free, 1e-300)
    return float(f_distribution.sf(ratio, d, free))


def conditional_scores(
    Z: np.ndarray, V: np.ndarray, variances: np.ndarray, noise: float
) -> ScoreDistribution:
    """Compute the distribution of the scores given the observed entries.

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Standardised selected variables; NaN where a value is missing.
    V : ndarray of shape (q, d)
        Orthonormal components.
    variances : ndarray of shape (d,)
        Variances of the scores.
    noise : float
        Mean variance of the other principal components.

    Returns
    -------
    ScoreDistribution
    """
    seen = ~np.isnan(Z)
    X, d = np.where(seen, Z, 0.0), V.shape[1]
    W = V * np.sqrt(np.maximum(variances - noise, 0.0))
    uniqueness = np.maximum(1.0 - np.sum(W**2, axis=1), _MIN_UNIQUENESS)
    mean, std = X @ V, np.zeros((Z.shape[0], d))
    incomplete = np.flatnonzero(~seen.all(axis=1))
    for chunk in slices_of(incomplete.size, _ROWS_PER_CHUNK):
        rows = incomplete[chunk]
        missing = ~seen[rows]
        weights = seen[rows] / uniqueness
        precision = np.eye(d) + np.einsum("aq,qi,qk->aik", weights, W, W, optimize=True)
        covariance = np.linalg.inv(precision)
        factors = np.einsum("aik,ak->ai", covariance, (weights * X[rows]) @ W)
        mean[rows] += (missing * (factors @ W.T)) @ V
        across = np.einsum("aq,qi,qk->aik", missing, V, W, optimize=True)  # V_m' W_m
        total = np.einsum("aij,ajk,aik->ai", across, covariance, across, optimize=True)
        total += (missing * uniqueness) @ V**2
        std[rows] = np.sqrt(np.maximum(total, 0.0))
    return ScoreDistribution(mean, std)
