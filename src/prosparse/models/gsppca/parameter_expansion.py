"""Parameter expansion for factor models: balance the scale and shape of weights and latents.

The idea is that of Liu, Rubin & Wu (1998) for EM, and of [LI10] for variational Bayes.

[LI10]  J. Luttinen, A. Ilin. Transformations in variational Bayesian factor analysis to speed up
        learning. Neurocomputing 73, 2010.
"""

from __future__ import annotations

import math

import numpy as np


def expand(a: np.ndarray, B: np.ndarray, n: int, q: float) -> tuple[np.ndarray, float]:
    """The best change of latent basis, W -> W R and Y -> Y R^-T; d x d matrices only.

    The fit only sees W Y', but the divergences from the priors depend on Z = R R' through
    tr(A Z^-1) + tr(B Z) + (n - q) log det Z, where A = diag(a), B = sum_k E[w_k w_k'] / t_k
    and q variables are in the model. Its minimum solves A = Z B Z + (n - q) Z, which is
    diagonal in the eigenbasis of A^1/2 B A^1/2. A second expansion, W -> r W with
    t -> r^2 t, leaves the divergence of W alone and has r^2 = tr E[Y'Y] / (n d).
    Plain iterations creep along these directions by a fraction of a percent each. All R with
    the same R R' are as good.
    """
    k = n - q
    root_a = np.sqrt(a)
    values, vectors = np.linalg.eigh(root_a[:, None] * B * root_a)
    values = np.clip(values, 1e-300, None)
    root = np.sqrt(k * k + 4.0 * values)
    z = 2.0 / (k + root) if k > 0 else (root - k) / (2.0 * values)
    R = root_a[:, None] * vectors * np.sqrt(z)
    stretch = float(np.sum(1.0 / z)) / (n * a.shape[0])  # tr(A Z^-1) = sum 1/z
    return math.sqrt(stretch) * R, stretch
