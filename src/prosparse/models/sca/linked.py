"""How much views have of the same latents.

Given view v alone, with weights L_v and noise variances N_v, the latents have the means

    y_v = K_v x_v ,        K_v L_v = M_v (I + M_v)^-1 =: T_v ,        M_v = L_v' N_v^-1 L_v ,

so that y_v has the covariance T_v and, as the noise of two views is independent, y_a and y_b have
the covariance T_a T_b. Of latent j the scores of the two views therefore correlate by

    (T_a T_b)_jj / sqrt(T_a,jj T_b,jj) ,

in samples that the weights have not seen: those that they were fitted to correlate by more.
"""

from __future__ import annotations

from itertools import combinations

import numpy as np


def view_correlations(L: np.ndarray, noise: np.ndarray, view: np.ndarray) -> np.ndarray:
    """(Q,) The correlation of the scores that two views give of each latent, the mean over all
    pairs of views; zero where there is one view only.

    ``L`` (p, Q) are the weights, ``noise`` (p,) the noise variances and ``view`` (p,) the views of
    the columns.
    """
    views = np.unique(view)
    told = [_told(L[view == v], noise[view == v]) for v in views]
    pairs = list(combinations(told, 2))
    if not pairs:
        return np.zeros(L.shape[1])
    return np.mean([_correlations(a, b) for a, b in pairs], axis=0)


def _told(L: np.ndarray, noise: np.ndarray) -> np.ndarray:
    """T, (Q, Q): what is told of the latents."""
    M = (L / noise[:, None]).T @ L
    T: np.ndarray = np.linalg.solve(np.eye(M.shape[0]) + M, M)
    return 0.5 * (T + T.T)


def _correlations(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    size = np.sqrt(np.maximum(a.diagonal() * b.diagonal(), 0.0))
    found = size > 0.0  # a view without weights of a latent says nothing of it
    return np.where(found, np.sum(a * b, axis=1) / np.where(found, size, 1.0), 0.0)
