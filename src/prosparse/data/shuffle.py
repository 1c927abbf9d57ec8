"""Every column in an order of rows of its own: a table that shares nothing, of the same values."""

from __future__ import annotations

import numpy as np
from scipy import sparse


def shuffled_dense(
    X: np.ndarray, rng: np.random.Generator, groups: np.ndarray | None = None
) -> np.ndarray:
    """A copy of ``X`` in which every column is in a random order of its own.

    Parameters
    ----------
    X : array (n, p)
    rng : numpy.random.Generator
    groups : int array (n,) or None
        Values change places within their group only.

    Returns
    -------
    array (n, p)
    """
    if groups is None:
        return rng.permuted(X, axis=0)
    made = np.empty_like(X)
    for code in np.unique(groups):
        rows = np.flatnonzero(groups == code)
        made[rows] = rng.permuted(X[rows], axis=0)
    return made


def shuffled_sparse(
    X: sparse.sparray, rng: np.random.Generator, groups: np.ndarray | None = None
) -> sparse.sparray:
    """As `shuffled_dense`, of a sparse table, which stays one of the same format.

    Only the rows of the stored entries change.
    """
    columns = X.tocsc(copy=True)
    codes = np.zeros(X.shape[0], dtype=int) if groups is None else groups
    places = np.argsort(codes, kind="stable")  # the rows, group by group
    for start, end in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        # sorted by group and at random within it, the rows of a group fill its places
        order = np.empty(X.shape[0], dtype=columns.indices.dtype)
        order[places] = np.lexsort((rng.random(X.shape[0]), codes))
        columns.indices[start:end] = order[columns.indices[start:end]]
    columns.has_sorted_indices = False
    columns.sort_indices()
    return columns.asformat(X.format)
