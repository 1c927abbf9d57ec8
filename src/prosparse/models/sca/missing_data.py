"""Tables in which entries are missing (NaN): measured and standardised by what was observed."""

from __future__ import annotations

import numpy as np

from ...data import Columns, DenseOperator, Operator, container_of
from ...data.arrays import precision_of
from ...data.columns import Deviations, Extent, standardise_rows
from ...data.containers import Table
from ...errors import InputError


def dense_with_missing(X: Table) -> np.ndarray:
    """A table in which entries are missing (NaN) as a dense one on the host."""
    if not container_of(X).is_numpy:
        raise InputError(
            "X has missing entries (NaN), which only NumPy tables may have here: rows are grouped "
            "by what they miss on the host. Pass a NumPy array, or fill the entries in."
        )
    return container_of(X).dense(X)


class RowsWithMissing:
    """Raw rows with NaN where nothing was observed; sums are over what was (see `RawRows`).

    Parameters
    ----------
    X : table (n, p)
    """

    centred_in_products = False
    working = "float64"

    def __init__(self, X: Table):
        if container_of(X).is_sparse:
            raise InputError("a sparse X may not hold NaN: missing entries need a dense table")
        self.given = precision_of(X)
        self.like = np.empty(0)
        Z = dense_with_missing(X)
        self.seen = ~np.isnan(Z)
        self.Z = np.where(self.seen, Z, 0.0)

    def extent(self) -> Extent:
        """Smallest and largest observed entries of the columns, their sums and numbers."""
        count = self.seen.sum(axis=0).astype(float)
        empty = np.flatnonzero(count == 0)
        if empty.size:
            raise InputError(
                f"{empty.size} columns of X have no observed entry, the first of them column "
                f"{empty[0]}: leave them out"
            )
        low = np.where(self.seen, self.Z, np.inf).min(axis=0)
        high = np.where(self.seen, self.Z, -np.inf).max(axis=0)
        return Extent(low, high, self.Z.sum(axis=0), count)

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        """Sums and sums of squares of the observed entries after a first centring."""
        Z = np.where(self.seen, (self.Z - centre) / size, 0.0)
        return Deviations(Z.sum(axis=0), np.einsum("ij,ij->j", Z, Z))

    def operator(self, kept: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        """The centred columns ``kept``, zero where an entry is missing."""
        Z = (self.Z[:, kept] - shift) * factor
        return DenseOperator(np.where(self.seen[:, kept], Z, 0.0))


def standardise_observed(X: Table, scale: bool = False) -> tuple[Operator, Columns, np.ndarray]:
    """A table with gaps, centred by the observed means and zero where an entry is missing.

    Parameters
    ----------
    X : table (n, p)
        With NaN where an entry is missing.
    scale : bool, default=False
        Divide every column by its standard deviation.

    Returns
    -------
    op : Operator
        Of the columns that vary.
    columns : Columns
        The record that leads back to the table's columns and units.
    seen : bool array (n, columns that vary)
        What was observed.
    """
    rows = RowsWithMissing(X)
    op, columns = standardise_rows(rows, scale)
    return op, columns, rows.seen[:, columns.kept]
