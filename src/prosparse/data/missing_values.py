"""Standardisation of data with missing values by the observed entries."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .arrays import precision_of
from .columns import Columns, Deviations, Extent, standardise_rows
from .containers import Table, container_of
from .operators.base import Operator
from .operators.dense import DenseOperator


def dense_with_missing(X: Table) -> np.ndarray:
    """Return a data matrix with missing values (NaN) as a dense NumPy array."""
    if not container_of(X).on_cpu:
        raise InputError(
            f"X has missing values (NaN), which requires a NumPy array, got {type(X).__name__}. "
            "Convert X to NumPy, or impute the missing values first."
        )
    return container_of(X).to_dense(X)


class RowsWithMissing:
    """Raw rows (`RawRows`) with NaN; sums are over the observed entries."""

    centred_in_products = False
    working = "float64"

    def __init__(self, X: Table):
        if container_of(X).is_sparse:
            raise InputError(
                "X is sparse and has missing values (NaN). Convert X to a dense array, or impute "
                "the missing values first."
            )
        self.given = precision_of(X)
        self.like = np.empty(0)
        Z = dense_with_missing(X)
        self.seen = ~np.isnan(Z)
        self.Z = np.where(self.seen, Z, 0.0)

    def extent(self) -> Extent:
        count = self.seen.sum(axis=0).astype(float)
        empty = np.flatnonzero(count == 0)
        if empty.size:
            columns = "1 column" if empty.size == 1 else f"{empty.size} columns"
            raise InputError(
                f"X has {columns} without observed values, first at position {empty[0]}. Drop "
                "columns that are entirely missing."
            )
        low = np.where(self.seen, self.Z, np.inf).min(axis=0)
        high = np.where(self.seen, self.Z, -np.inf).max(axis=0)
        return Extent(low, high, self.Z.sum(axis=0), count)

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        Z = np.where(self.seen, (self.Z - centre) / size, 0.0)
        return Deviations(Z.sum(axis=0), np.einsum("ij,ij->j", Z, Z))

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        Z = (self.Z[:, index] - shift) * factor
        return DenseOperator(np.where(self.seen[:, index], Z, 0.0))


def standardise_observed(X: Table, scale: bool = False) -> tuple[Operator, Columns, np.ndarray]:
    """Standardise by the observed entries; also return the mask.

    The operator contains the varying columns, with zeros for missing values.
    """
    rows = RowsWithMissing(X)
    op, columns = standardise_rows(rows, scale)
    return op, columns, rows.seen[:, columns.varying_index]
