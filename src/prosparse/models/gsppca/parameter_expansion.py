"""Parameter expansion of factor models by joint rescaling.

Parameter expansion was proposed for EM by Liu, Rubin & Wu (1998) and for variational Bayes by
[LI10].

[LI10]  J. Luttinen, A. Ilin. Transformations in variational Bayesian factor analysis to speed up
        learning. Neurocomputing 73, 2010.
"""

from __future__ import annotations

import math

import numpy as np


def expand(a: np.ndarray, B: np.ndarray, n: int, q: float) -> tuple[np.ndarray, float]:
    """Compute the optimal R of W -> W R, Y -> Y R^-T, and the scale of W.

    The likelihood depends only on W Y'. The divergences from the priors depend on Z = R R' through
    tr(A Z^-1) + tr(B Z) + (n - q) log det Z, where A = diag(a), B = sum_k E[w_k w_k'] / t_k and q
    variables are in the model. The minimum solves A = Z B Z + (n - q) Z, which is diagonal in the
    eigenbasis of A^1/2 B A^1/2. The rescaling W -> r W, t -> r^2 t does not change the divergence
    of W and has the optimum r^2 = tr E[Y'Y] / (n d). Without expansion, iterations change these
    parameters by a fraction of a percent each.
    """
    k = n - q
    root_a = np.sqrt(a)
    values, vectors = np.linalg.eigh(root_a[:, None] * B * root_a)
    values = np.clip(values, 1e-300, None)
    root = np.sqrt(k * k + 4.0 * values)
    z = 2.0 / (k + root) if k > 0 else (root - k) / (2.0 * values)
    R = root_a[:, None] * vectors * np.sqrt(z)
    scale = float(np.sum(1.0 / z)) / (n * a.shape[0])  # tr(A Z^-1) = sum 1/z
    return math.sqrt(scale) * R, scale
