"""Imputation of missing values by a low-rank fit.

Singular values are shrunken by the optimal shrinker of Gavish and Donoho [GD17]. Without signals,
missing values keep the mean of their column.

[GD17]  M. Gavish, D. L. Donoho. Optimal shrinkage of singular values. IEEE Transactions on
        Information Theory 63, 2017.
"""

from __future__ import annotations

import numpy as np

N_FILL_ITERATIONS = 12
_FILL_TOLERANCE = 1e-3  # change of the filled entries relative to the observed ones


def fill_by_components(Z: np.ndarray, seen: np.ndarray, dof: int) -> np.ndarray:
    """Impute missing values by iterated low-rank fits, shrunken as in [GD17].

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Standardised columns, zero where a value is missing.
    seen : bool ndarray of shape (n, q)
    dof : int
        Degrees of freedom of the rows.

    Returns
    -------
    ndarray of shape (n, q)
    """
    n, q = Z.shape
    if seen.all() or q < 2:
        return Z.copy()
    filled, size = Z, float(np.linalg.norm(Z))
    rank = max(1, min(dof // 3, (q - 1) // 2, 24))
    for _ in range(N_FILL_ITERATIONS):
        is_wide = n <= q
        gram = filled @ filled.T if is_wide else filled.T @ filled
        eigenvalues, vectors = np.linalg.eigh(gram)
        eigenvalues, vectors = np.maximum(eigenvalues[::-1], 0.0), vectors[:, ::-1]
        factors = _shrinkage(eigenvalues, dof, q, rank)
        kept = np.flatnonzero(factors > 0.0)
        if kept.size == 0:
            return Z.copy()
        V = vectors[:, kept]
        if is_wide:
            fitted = V @ (factors[kept, None] * (V.T @ filled))
        else:
            fitted = (filled @ V * factors[kept]) @ V.T
        new = np.where(seen, Z, fitted)
        change = float(np.linalg.norm(new - filled))
        filled = new
        if change <= _FILL_TOLERANCE * size:
            break
    return np.asarray(filled)


def _shrinkage(eigenvalues: np.ndarray, dof: int, q: int, rank: int) -> np.ndarray:
    """Compute shrinkage factors of the first singular values, [GD17] (7).

    Singular values of noise have factor zero. The noise variance is estimated from the singular
    values below the edge of white noise.
    """
    smaller, larger = min(dof, q), max(dof, q)
    beta = smaller / larger
    edge = (1.0 + np.sqrt(beta)) ** 2  # largest eigenvalue of white noise, relative to its variance
    count = 0
    while True:
        noise = float(np.sum(eigenvalues[count:smaller])) / ((smaller - count) * larger)
        y2 = eigenvalues[:rank] / max(noise * larger, 1e-300)
        above = y2 > edge
        if int(above.sum()) <= count:
            break
        count = int(above.sum())
    inside = np.maximum((y2 - beta - 1.0) ** 2 - 4.0 * beta, 0.0)
    return np.where(above, np.sqrt(inside) / np.maximum(y2, 1e-300), 0.0)
