"""Estimators of the noise variance of probabilistic PCA.

[PLY17]  D. Passemier, Z. Li, J. Yao. On estimation of the noise variance in high dimensional
         probabilistic principal component analysis. JRSS B 79(1), 2017.
[JL09]   I. Johnstone, A. Lu. On consistency and sparsity for principal components analysis in
         high dimensions. JASA 104, 2009.
"""

from __future__ import annotations

import numpy as np

NOISE_ESTIMATORS = ("bias-corrected", "ml", "median")


def maximum_likelihood(eigenvalues: np.ndarray, p: int, d: int) -> float:
    """Compute the mean of the p - d smallest eigenvalues (Tipping & Bishop 1999).

    ``eigenvalues`` are those of X'X / n in decreasing order; zeros may be omitted.
    """
    return float(np.sum(eigenvalues[d:]) / (p - d))


def bias_corrected(eigenvalues: np.ndarray, n: int, p: int, d: int) -> float:
    """Correct the ML estimate for its downward bias of order p / n, [PLY17]."""
    sigma2 = maximum_likelihood(eigenvalues, p, d)
    c = p / n
    # A spike a + sigma2 has the sample eigenvalue (a + sigma2)(1 + c sigma2 / a), which is solved
    # for a. Spikes below the edge of the noise are not identified and are set to the edge, sqrt(c)
    # sigma2.
    half = 0.5 * (eigenvalues[:d] - sigma2 * (1.0 + c))
    spikes = half + np.sqrt(np.maximum(half**2 - c * sigma2**2, 0.0))
    spikes = np.maximum(spikes, np.sqrt(c) * sigma2)
    bias = np.sqrt(c / 2.0) * (d + sigma2 * np.sum(1.0 / np.maximum(spikes, 1e-300)))
    return float(sigma2 * (1.0 + bias * np.sqrt(2.0 * c) / (p - d)))


def median(column_squares: np.ndarray, n: int) -> float:
    """Compute the median column variance, assuming mostly noise, [JL09]."""
    return float(np.median(column_squares) / (n - 1))


def noise_variance(
    estimator: str, eigenvalues: np.ndarray, column_squares: np.ndarray, n: int, d: int
) -> float:
    """Estimate the noise variance from the eigenvalues of X'X, for d components."""
    p = column_squares.shape[0]
    if estimator == "median":
        return median(column_squares, n)
    if estimator == "ml":
        return maximum_likelihood(eigenvalues / n, p, d)
    return bias_corrected(eigenvalues / n, n, p, d)
