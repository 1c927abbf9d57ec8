"""How much views have of the same latents.

Given view v alone, with weights L_v and noise variances N_v, the latents have the means

    y_v = K_v x_v ,        K_v L_v = M_v (I + M_v)^-1 =: T_v ,        M_v = L_v' N_v^-1 L_v ,

so that y_v has the covariance T_v and, as the noise of two views is independent, y_a and y_b have
the covariance T_a T_b. Of latent j the scores of the two views therefore correlate by

    (T_a T_b)_jj / sqrt(T_a,jj T_b,jj) ,

in samples that the weights have not seen: those that they were fitted to correlate by more. N_v
holds what is not known of the weights, too: for the means of the weights it is noise. Where samples
come from several groups, with variances V of the latents, L_v V^1/2 takes the place of L_v, and
numerator and both factors of the denominator are means over all samples, times V_jj.
"""

from __future__ import annotations

from itertools import combinations
from typing import NamedTuple

import numpy as np


class Group(NamedTuple):
    """Samples with noise and variances of the latents of their own."""

    proportion: float  # of all samples
    variances: np.ndarray  # (Q,) of the latents
    residual_variance: (
        np.ndarray
    )  # (p,) variances of the columns residual_variance means of weights times latents
    varying_in_group: np.ndarray  # (p,) columns that vary within the group


def view_correlations(L: np.ndarray, view: np.ndarray, groups: list[Group]) -> np.ndarray:
    """(Q,) The correlation of the scores that two views give of each latent, the mean over all
    pairs of views; zero where there is one view only. It is below zero where a view alone takes one
    latent for another.

    ``L`` (p, Q) are the weights and ``view`` (p,) the views of the columns.
    """
    views, Q = np.unique(view), L.shape[1]
    own = np.zeros((views.size, Q))  # variances of the scores of each view
    common = np.zeros((views.size, views.size, Q))  # covariances of those of two
    for proportion, variances, residual_variance, varying_in_group in groups:
        reliability = [
            _reliability((L * np.sqrt(variances))[here], residual_variance[here])
            for here in (varying_in_group & (view == v) for v in views)
        ]
        own += proportion * variances * np.array([T.diagonal() for T in reliability])
        for a, b in combinations(range(views.size), 2):
            common[a, b] += proportion * variances * np.sum(reliability[a] * reliability[b], axis=1)
    pairs = [
        _correlation(common[a, b], own[a] * own[b]) for a, b in combinations(range(views.size), 2)
    ]
    return np.mean(pairs, axis=0) if pairs else np.zeros(Q)


def _reliability(L: np.ndarray, residual_variance: np.ndarray) -> np.ndarray:
    """T = (I + M)^-1 M with M = L' diag(residual_variance)^-1 L, (Q, Q): what is reliability of the latents.

    By singular values, as I + M is singular in floating point where columns have next to no noise.
    """
    R = np.linalg.qr(L / np.sqrt(residual_variance)[:, None], mode="r")
    _, values, V = np.linalg.svd(R, full_matrices=False)
    proportion = values**2 / (1.0 + values**2)
    V = V * np.any(L != 0.0, axis=0)  # no rounding where a view has no weights of a latent
    return np.asarray((V.T * proportion) @ V)


def _correlation(covariance: np.ndarray, squared: np.ndarray) -> np.ndarray:
    """A correlation; zero where a view has no weights of a latent, and says nothing of it."""
    found = squared > 0.0
    return np.where(found, covariance / np.sqrt(np.where(found, squared, 1.0)), 0.0)
