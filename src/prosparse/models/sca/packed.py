"""Symmetric matrices (..., Q, Q) as lower triangles (..., Q (Q + 1) / 2)."""

from __future__ import annotations

import numpy as np


def pack(matrices: np.ndarray) -> np.ndarray:
    """Return the lower triangles of symmetric matrices."""
    lower = np.tril_indices(matrices.shape[-1])
    triangles: np.ndarray = matrices[..., lower[0], lower[1]]
    return triangles


def unpack(triangles: np.ndarray, Q: int) -> np.ndarray:
    """Return the symmetric matrices of lower triangles."""
    lower = np.tril_indices(Q)
    matrices = np.empty((*triangles.shape[:-1], Q, Q))
    matrices[..., lower[0], lower[1]] = triangles
    matrices[..., lower[1], lower[0]] = triangles
    return matrices


def pack_outer(Z: np.ndarray, S: np.ndarray | None = None) -> np.ndarray:
    """Return the triangles of z z' + S for each row z of Z (n, Q)."""
    lower = np.tril_indices(Z.shape[1])
    outer = Z[:, lower[0]] * Z[:, lower[1]]
    return outer if S is None else outer + S[:, lower[0], lower[1]]
