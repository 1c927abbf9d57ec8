"""Correlation of the scores of each factor between views.

Given view v alone, with loadings L_v and noise variances N_v, the posterior means of the factors
are

    y_v = K_v x_v ,        K_v L_v = M_v (I + M_v)^-1 =: T_v ,        M_v = L_v' N_v^-1 L_v .

y_v has covariance T_v. The noise of two views is independent, so that y_a and y_b have covariance
T_a T_b. The scores of factor j from the two views have the correlation

    (T_a T_b)_jj / sqrt(T_a,jj T_b,jj)

in samples that were not used for the fit. N_v includes the posterior variance of the loadings. With
several groups and factor variances V, L_v is replaced by L_v V^1/2. The numerator and both factors
of the denominator are then means over all samples, multiplied by V_jj.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np


class Group(NamedTuple):
    """Group of samples with specific noise and factor variances."""

    proportion: float  # proportion of the samples
    variances: np.ndarray  # (Q,) variances of the factors
    residual_variance: np.ndarray  # (p,) noise plus uncertainty of the loadings
    varying_in_group: np.ndarray  # (p,) columns that vary within the group


def view_correlations(L: np.ndarray, view: np.ndarray, groups: list[Group]) -> np.ndarray:
    """Compute the mean correlation of scores between views, (Q,).

    The mean over all pairs of views is zero with one view. It is negative if a single view does not
    distinguish the factors.
    """
    views, Q = np.unique(view), L.shape[1]
    variance = np.zeros((views.size, Q))  # variances of the scores
    covariance = np.zeros((views.size, views.size, Q))  # covariances between views
    for proportion, variances, residual_variance, varying_in_group in groups:
        reliability = [
            _reliability((L * np.sqrt(variances))[columns], residual_variance[columns])
            for columns in (varying_in_group & (view == v) for v in views)
        ]
        variance += proportion * variances * np.array([T.diagonal() for T in reliability])
        for a, b in combinations(range(views.size), 2):
            covariance[a, b] += (
                proportion * variances * np.sum(reliability[a] * reliability[b], axis=1)
            )
    pairs = [
        _correlation(covariance[a, b], variance[a] * variance[b])
        for a, b in combinations(range(views.size), 2)
    ]
    return np.mean(pairs, axis=0) if pairs else np.zeros(Q)


def _reliability(L: np.ndarray, residual_variance: np.ndarray) -> np.ndarray:
    """Compute T = (I + M)^-1 M with M = L' diag(residual_variance)^-1 L.

    T (Q, Q) is computed from singular values, because I + M is numerically singular if the noise is
    tiny.
    """
    R = np.linalg.qr(L / np.sqrt(residual_variance)[:, None], mode="r")
    _, values, V = np.linalg.svd(R, full_matrices=False)
    shrinkage = values**2 / (1.0 + values**2)
    V = V * np.any(L != 0.0, axis=0)  # exact zeros for factors without loadings
    return np.asarray((V.T * shrinkage) @ V)


def _correlation(covariance: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """Compute a correlation; zero if a view has no loadings on the factor."""
    positive = squared > 0.0
    return np.where(positive, covariance / np.sqrt(np.where(positive, squared, 1.0)), 0.0)
