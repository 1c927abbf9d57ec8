"""Interface of a container, with defaults for dense arrays."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...errors import InputError, plural
from ...phrases import list_items
from ..arrays import Array, TableLike, to_numpy
from ..categories import Labels
from ..columns import RawRows
from ..operators import dense
from ..operators.base import ENTRIES_ON_ACCELERATOR, Operator, row_slices
from ..operators.blocks import ArrayRows, Source

Table = TableLike  # a validated data matrix


class NonFinite(NamedTuple):
    """Numbers of NaN and infinite entries, and position of the first."""

    what: str  # "NaN", "infinity" or "NaN and infinity"
    total: int  # number of entries
    row: int  # row of the first entry
    column: int  # column of the first entry
    n_rows: int  # number of rows with such an entry
    by_column: dict[int, int]  # number of entries by column, in decreasing order

    def describe(self, names: Sequence[object], row: object = None) -> str:
        """Describe the entries for an error message; ``row`` labels the first row."""
        columns = [f"{column_label(names[column])} ({n:,})" for column, n in self.by_column.items()]
        first = self.row if row is None else repr(row)
        return (
            f"{self.what}: {plural(self.total, 'value')}, first in row {first}, "
            f"{column_label(names[self.column])}; {plural(self.n_rows, 'row')} and "
            f"{plural(len(columns), 'column')} affected: {list_items(columns)}"
        )


class Container:
    """Type of data matrix; subclasses override what differs from NumPy."""

    name = "NumPy array"
    # Whether the matrix is validated and used in place. Other containers are converted to NumPy or
    # CSR arrays by scikit-learn's checks.
    stays_in_place = False
    # Whether all rows are in memory at once; otherwise they are read in blocks.
    in_memory = True
    # Whether the entries are in CPU memory, where rows can be grouped by their missing values.
    on_cpu = True
    # Whether zeros are not stored.
    is_sparse = False

    def recognises(self, X: TableLike) -> bool:
        """Return whether ``X`` is of this container type."""
        return True

    def column_names(self, X: TableLike) -> list[Any] | None:
        """Return the column names of a container, or None if it has none."""
        return None

    def categories(self, X: TableLike) -> dict[int, Labels]:
        """Return the columns that contain labels, by position."""
        return {}

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        """Prepare ``X`` for scikit-learn's checks, or raise an informative error."""
        return X

    def validate(self, X: Table, min_size: int) -> Table:
        """Validate a matrix that stays in place; return it with a float dtype."""
        return X

    def find_non_finite(self, X: Table, *, allow_nan: bool = False) -> NonFinite | None:
        """Find infinite entries, and NaN unless ``allow_nan``."""
        xp = array_namespace(X)
        if not allow_nan and _has_finite_sum(X):
            return None

        def is_valid(entries: Array) -> Array:
            return ~xp.isinf(entries) if allow_nan else xp.isfinite(entries)

        if all(bool(xp.all(is_valid(block))) for block in _large_blocks(X)):
            return None
        valid = is_valid(X)
        rows, columns = (to_numpy(axis) for axis in xp.nonzero(~valid))
        return summarise_non_finite(rows, columns, to_numpy(X[~valid]))

    def require_finite(self, X: Table) -> Table:
        """Raise an error if an entry is not finite, possibly when it is read."""
        found = self.find_non_finite(X)
        if found is not None:
            raise InputError(
                f"Input X contains {found.describe(range(X.shape[1]))}. Drop the affected rows or "
                "columns, or impute the values."
            )
        return X

    def has_missing(self, X: Table) -> bool:
        """Return whether an entry is missing (NaN)."""
        xp = array_namespace(X)
        return any(bool(xp.any(xp.isnan(block))) for block in _large_blocks(X))

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        """Select columns by position; the result has the same container type."""
        return np.asarray(X)[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        """Select rows by position; the result has the same container type."""
        return np.asarray(X)[rows]

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        """Return a container like ``X`` with the given entries."""
        return values

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        """Copy the matrix to a dense NumPy array; ``dtype=None`` keeps the precision."""
        return np.array(X, dtype=dtype)

    def source(self, X: Table) -> Source:
        """Return the raw rows in blocks, neither centred nor scaled."""
        return ArrayRows(X)

    def map_blocks(self, X: Table, f: Callable[[Any], Any]) -> Table:
        """Apply a function to blocks of rows; keep the container type."""
        return f(X)

    def raw_rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        """Return the raw rows for the standardiser."""
        return dense.DenseRows(X, weights)

    def operator(self, X: Table, mean: Array, scale: Array) -> Operator:
        """Return the operator of rows with known means and scales."""
        return dense.new_rows(X, mean, scale)


def column_label(name: object) -> str:
    """Return the text by which messages refer to a column."""
    return f"column {name!r}" if isinstance(name, str) else f"column {name}"


def summarise_non_finite(rows: np.ndarray, columns: np.ndarray, entries: np.ndarray) -> NonFinite:
    """Summarise non-finite entries, sorted by row."""
    missing = np.isnan(entries)
    what = "NaN" if missing.all() else "NaN and infinity" if missing.any() else "infinity"
    positions, counts = np.unique(columns, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    by_column = dict(zip(positions[order].tolist(), counts[order].tolist(), strict=True))
    n_rows = np.unique(rows).size
    return NonFinite(what, rows.size, int(rows[0]), int(columns[0]), n_rows, by_column)


def _large_blocks(X: Array) -> Iterator[Array]:
    """Yield blocks of rows whose temporaries fit into GPU memory."""
    return (X[rows, ...] for rows in row_slices(X.shape[0], X.shape[1], ENTRIES_ON_ACCELERATOR))


def _has_finite_sum(X: Array) -> bool:
    """Return whether the sum of all entries is finite.

    If so, every entry is finite. The converse does not hold, because large finite entries may sum
    to infinity.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(float(array_namespace(X).sum(X))))
