"""SciPy sparse tables, centred product by product and never made dense as a whole."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
from scipy import sparse

from ..errors import InputError
from .base import Array, Block, Operator, row_slices
from .standardise import LARGEST_SCALE, SMALLEST_SCALE, Columns, check_range, unit_of

# Products are centred by subtraction: beyond this the Gram matrix keeps fewer than six digits.
FARTHEST_MEAN = 1e5


class CentredRows:
    """(S - 1 shift') diag(factor) for a block of rows S, understood by ``@`` alone."""

    def __init__(self, S: Any, shift: Array, factor: Array):
        self.S, self.shift, self.factor = S, shift, factor

    def __matmul__(self, F: Array) -> Array:
        F = self.factor[:, None] * F
        return self.S @ F - self.shift @ F

    @property
    def T(self) -> CentredColumns:
        return CentredColumns(self)


class CentredColumns:
    """The transpose of `CentredRows`."""

    def __init__(self, rows: CentredRows):
        self.rows = rows

    def __matmul__(self, Y: Array) -> Array:
        rows = self.rows
        product = rows.S.T @ Y - rows.shift[:, None] * np.sum(Y, axis=0)
        return rows.factor[:, None] * product


class SparseOperator(Operator):
    """A CSR table S standing for (S - 1 shift') diag(factor)."""

    def __init__(self, S: Any, shift: Array, factor: Array):
        self.S = sparse.csr_array(S, dtype=np.float64)
        self.S.sum_duplicates()
        self.shift, self.factor = shift, factor
        self.xp, self.dtype = xp, np.float64
        self.shape = self.S.shape

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), CentredRows(self.S, self.shift, self.factor)
            return
        for rows in row_slices(*self.shape):
            yield rows, (self.S[rows].toarray() - self.shift) * self.factor

    def sample_rows(self, count: int) -> SparseOperator:
        some = self.S[:: max(1, self.shape[0] // count)]
        return SparseOperator(some, self.shift, self.factor)

    def take_columns(self, columns: Array) -> SparseOperator:
        return SparseOperator(self.S[:, columns], self.shift[columns], self.factor[columns])

    def _sum_squares(self) -> Array:
        # Stored entries and zeros apart: expanding the square would lose the digits of both.
        n, p = self.shape
        at = self.S.indices
        deviations = ((self.S.data - self.shift[at]) * self.factor[at]) ** 2
        stored = np.bincount(at, weights=deviations, minlength=p)
        absent = n - np.bincount(at, minlength=p)
        return stored + absent * (self.shift * self.factor) ** 2

    def _scaled(self) -> tuple[Any, Array]:
        S = self.S.copy()
        S.data *= self.factor[S.indices]
        return S, self.shift * self.factor

    def gram(self) -> Array:
        S, mean = self._scaled()
        total = np.asarray(S.sum(axis=0))
        cross = np.outer(total, mean)
        return (S.T @ S).toarray() - cross - cross.T + self.shape[0] * np.outer(mean, mean)

    def outer(self) -> Array:
        S, mean = self._scaled()
        projection = S @ mean
        return (S @ S.T).toarray() - projection[:, None] - projection + mean @ mean


def check_near_zero(mean: Array, largest: Array, varying: Array) -> None:
    """Refuse sparse columns far away from zero."""
    if np.any(np.abs(mean) > FARTHEST_MEAN * largest, where=varying):
        raise InputError(
            f"a column of the sparse X lies more than {FARTHEST_MEAN:g} times its spread away from "
            "zero; centring it without making X dense would lose its digits. Subtract a constant "
            "first, or pass X as a dense array."
        )


def standardise_sparse(X: Any, scale: bool) -> tuple[SparseOperator, Columns]:
    """Remember means and scales; the entries stay where they are."""
    S = sparse.csc_array(X, dtype=np.float64, copy=True)
    S.sum_duplicates()
    n, p = S.shape
    top, bottom = (np.asarray(m.toarray()).ravel() for m in (S.max(axis=0), S.min(axis=0)))
    varying = top > bottom
    with np.errstate(over="ignore"):  # refused below
        mean = np.asarray(S.sum(axis=0)) / n
    largest = np.where(varying, np.maximum(top - mean, mean - bottom), 0.0)
    check_near_zero(mean, largest, varying)
    if scale:
        check_range(largest[varying], SMALLEST_SCALE, LARGEST_SCALE)
        safe = np.where(varying, largest, 1.0)
        column = np.repeat(np.arange(p), np.diff(S.indptr))
        inverse = varying / safe  # zero for constant columns, whose entries are not squared
        deviations = ((S.data - mean[column]) * inverse[column]) ** 2
        stored = np.bincount(column, weights=deviations, minlength=p)
        absent = (n - np.diff(S.indptr)) * (mean * inverse) ** 2
        deviation = np.where(varying, safe * np.sqrt((stored + absent) / n), 1.0)
        columns = Columns(mean, deviation, 1.0, varying)
    else:
        columns = Columns(mean, np.ones(p), unit_of(float(largest.max(initial=0.0))), varying)
    kept = np.flatnonzero(varying)
    factor = 1.0 / (columns.scale[kept] * columns.unit)
    return SparseOperator(S[:, kept], mean[kept], factor), columns
