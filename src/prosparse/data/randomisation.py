"""Randomised data without shared variance: permuted columns and random signs.

Permutation retains the values of each column, but not the rows in which values are large. Random
signs retain the magnitude of each deviation from the column mean, and therefore rows of unequal
noise and outlying rows.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from scipy import sparse

from ..errors import InputError
from .arrays import TableLike
from .containers import container_of
from .containers.base import Container
from .operators.shadows import row_permutations


def permute_columns(
    X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
) -> TableLike:
    """Permute the entries of each column independently, within given groups."""
    container = _container_in_memory(X)
    if container.is_sparse:
        return _permute_sparse(X, rng, groups)
    values = container.to_dense(X, dtype=None)
    for rows in _rows_by_group(groups):
        values[rows] = rng.permuted(values[rows], axis=0)
    return container.replace_values(X, values)


def flip_deviations(
    X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
) -> TableLike:
    """Give the deviation of each entry from its column mean a random sign.

    If groups are given, group means are used. Missing values remain missing, and integers become
    floating-point numbers.
    """
    container = _container_in_memory(X)
    if container.is_sparse:
        raise InputError(
            "X is a sparse matrix, whose zeros would become nonzero with random signs of the "
            "deviations from the column means. Permute its columns, or convert it to a dense array."
        )
    values = container.to_dense(X, dtype=None)
    if values.dtype.kind != "f":
        values = container.to_dense(X)
    for rows in _rows_by_group(groups):
        block = values[rows]
        mean = _column_means(block)
        flipped = rng.integers(0, 2, size=block.shape, dtype=bool)
        values[rows] = np.where(flipped, mean - (block - mean), block)
    return container.replace_values(X, values)


def _container_in_memory(X: TableLike) -> Container:
    """Return the container of ``X``; raise an error if it is read in blocks."""
    container = container_of(X)
    if not container.in_memory:
        raise InputError(
            f"Columns can only be randomised in memory, but X is a {container.name}, which is read "
            "in blocks of rows. Pass a sample of its rows in memory."
        )
    return container


def _rows_by_group(groups: np.ndarray | None) -> Iterator[slice | np.ndarray]:
    """Yield the rows of each group; all rows if there are no groups."""
    if groups is None:
        yield slice(None)
    else:
        for code in np.unique(groups):
            yield np.flatnonzero(groups == code)


def _column_means(values: np.ndarray) -> np.ndarray:
    """Compute the mean of the observed values of each column, (p,).

    The minimum is subtracted first, so that a constant column equals its mean exactly. Values are
    divided before they are summed, because the sum of large values may overflow.
    """
    minimum = np.fmin.reduce(values, axis=0)
    observed = ~np.isnan(values)
    counts = np.maximum(observed.sum(axis=0), 1)
    above = np.where(observed, values - minimum, 0.0) / counts
    return np.asarray(minimum + above.sum(axis=0, dtype=float))


def _permute_sparse(
    X: sparse.sparray, rng: np.random.Generator, groups: np.ndarray | None
) -> sparse.sparray:
    """Permute the columns of a sparse matrix by moving its stored entries."""
    columns = X.tocsc(copy=True)
    codes = np.zeros(X.shape[0], dtype=int) if groups is None else groups
    for start, stop in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        permutation = row_permutations(codes, 1, rng)[:, 0]
        columns.indices[start:stop] = permutation[columns.indices[start:stop]]
    columns.has_sorted_indices = False
    columns.sort_indices()
    return columns.asformat(X.format)
