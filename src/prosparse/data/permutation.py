"""Independent permutation of columns: equal margins, no shared variance."""

from __future__ import annotations

import numpy as np
from scipy import sparse

from ..errors import InputError
from .arrays import TableLike
from .containers import container_of


def permute_columns(
    X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
) -> TableLike:
    """Permute the rows of each column independently, within groups if given."""
    container = container_of(X)
    if not container.in_memory:
        raise InputError(
            f"Columns can only be permuted in memory, but X is a {container.name}, which is read "
            "in blocks of rows. Pass a sample of its rows in memory."
        )
    if container.is_sparse:
        return _permute_sparse(X, rng, groups)
    values = container.to_dense(X, dtype=None)
    if groups is None:
        return container.replace_values(X, rng.permuted(values, axis=0))
    for code in np.unique(groups):
        rows = np.flatnonzero(groups == code)
        values[rows] = rng.permuted(values[rows], axis=0)
    return container.replace_values(X, values)


def _permute_sparse(
    X: sparse.sparray, rng: np.random.Generator, groups: np.ndarray | None
) -> sparse.sparray:
    """Permute a sparse matrix; only the rows of its stored entries change."""
    columns = X.tocsc(copy=True)
    codes = np.zeros(X.shape[0], dtype=int) if groups is None else groups
    rows_by_group = np.argsort(codes, kind="stable")
    for start, stop in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        # Sorted by group and randomly within groups, the rows of a group fill its positions.
        order = np.empty(X.shape[0], dtype=columns.indices.dtype)
        order[rows_by_group] = np.lexsort((rng.random(X.shape[0]), codes))
        columns.indices[start:stop] = order[columns.indices[start:stop]]
    columns.has_sorted_indices = False
    columns.sort_indices()
    return columns.asformat(X.format)
