"""Numeric part of a table, with properties common to the detectors."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from ..data import Operator, standardise
from ..data.row_adjustment import intercept
from ..structure import estimate_row_scale

MAX_ENTRIES = 2**24  # maximum number of entries; columns of larger tables are sampled
MAX_ROW_ENTRIES = 2**22  # maximum number of entries for comparisons of rows
MIN_ROW_COLUMNS = 50
MAX_DENSE_COLUMNS = 1000
MAX_SAMPLED_ROWS = 2000  # maximum number of rows in which columns are compared


class Numbers:
    """Numeric columns of a table as a dense array, with NaN if missing.

    Infinite values are treated as missing; the reader and the estimators report them.

    Parameters
    ----------
    X : ndarray of shape (n, p)
        Values.
    names : sequence of str
        Names of the columns.
    rows : sequence of str
        Names of the rows, or row numbers.
    """

    def __init__(self, X: np.ndarray, names: Sequence[str], rows: Sequence[str]):
        if np.isinf(X).any():
            X = np.where(np.isinf(X), np.nan, X)
        self.X, self.names, self.rows = X, list(names), list(rows)

    def without_rows(self, names: Sequence[str]) -> Numbers:
        """Return the numbers without rows of these names; a name may contain several."""
        ignored = {*names, *(part.strip() for name in names for part in name.split(","))}
        kept = [k for k, row in enumerate(self.rows) if row not in ignored]
        if len(kept) == len(self.rows):
            return self
        return Numbers(self.X[kept], self.names, [self.rows[k] for k in kept])

    def name(self, columns: np.ndarray | Sequence[int]) -> tuple[str, ...]:
        """Return the names of columns."""
        return tuple(self.names[int(k)] for k in columns)

    def name_rows(self, rows: np.ndarray | Sequence[int]) -> tuple[str, ...]:
        """Return the names of rows."""
        return tuple(self.rows[int(k)] for k in rows)

    @cached_property
    def missing(self) -> np.ndarray:
        """Mask of the missing values."""
        return np.isnan(self.X)

    @cached_property
    def extremes(self) -> tuple[np.ndarray, np.ndarray]:
        """Smallest and largest value of each column."""
        return np.fmin.reduce(self.X, axis=0), np.fmax.reduce(self.X, axis=0)

    @cached_property
    def varying(self) -> np.ndarray:
        """Positions of the columns with at least two distinct values."""
        if not self.X.size:
            return np.empty(0, dtype=int)
        smallest, largest = self.extremes
        return np.flatnonzero(largest > smallest)

    @cached_property
    def sampled_rows(self) -> np.ndarray:
        """Positions of up to 2,000 evenly spaced rows."""
        n = self.X.shape[0]
        return np.unique(np.linspace(0, n - 1, min(n, MAX_SAMPLED_ROWS)).astype(int))

    @cached_property
    def filled(self) -> np.ndarray:
        """Varying columns with missing values replaced by column means."""
        X = self.X[:, self.varying]
        missing = self.missing[:, self.varying]
        return np.where(missing, np.nanmean(X, axis=0), X) if missing.any() else X

    @cached_property
    def is_counts(self) -> bool:
        """Whether the values appear to be counts of objects in samples."""
        X = self.X[:, self.varying]
        if X.size == 0 or self.missing.any() or X.min() < 0.0:
            return False
        if not np.array_equal(X, np.floor(X)) or X.max() < 20.0:
            return False
        means, variances = X.mean(axis=0), X.var(axis=0)
        # Codes, pixels and scores have a common maximum, whereas counts are dispersed and contain
        # zeros.
        return bool(
            np.mean(X == 0.0) > 0.01
            and np.mean(variances > means) > 0.5
            and X.max() > 2.0 * np.median(X.max(axis=0))
        )

    @cached_property
    def operator(self) -> Operator | None:
        """Standardised columns (a sample of many), or None if too few vary."""
        if self.varying.size < 2 or self.X.shape[0] < 3:
            return None
        columns = self.filled
        limit = max(MIN_ROW_COLUMNS, MAX_ROW_ENTRIES // columns.shape[0])
        if columns.shape[1] > limit:
            positions = np.linspace(0, columns.shape[1] - 1, limit).astype(int)
            columns = columns[:, np.unique(positions)]
        if self.is_counts:  # rows of counts differ in their totals
            totals = np.maximum(columns.sum(axis=1, keepdims=True), 1.0)
            columns = np.sqrt(columns / totals)
        op, kept = standardise(np.ascontiguousarray(columns, dtype=float), True)
        return op if kept.varying_index.size >= 2 else None

    @cached_property
    def standardised(self) -> np.ndarray:
        """Standardised entries of up to 1,000 evenly spaced columns."""
        if self.operator is None:
            return np.zeros((self.X.shape[0], 0))
        p = self.operator.shape[1]
        columns = np.unique(np.linspace(0, p - 1, min(p, MAX_DENSE_COLUMNS)).astype(int))
        return np.asarray(self.operator.take_columns(columns).dense(), dtype=float)

    @cached_property
    def row_scale(self) -> np.ndarray:
        """Scale of each row relative to the median row."""
        n = self.X.shape[0]
        return (
            np.ones(n) if self.operator is None else estimate_row_scale(self.operator, intercept(n))
        )
