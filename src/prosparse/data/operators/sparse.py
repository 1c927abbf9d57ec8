"""SciPy sparse tables, centred product by product and never made dense as a whole."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
from scipy import sparse

from ...parallel import in_parallel, slices_of
from ..arrays import Array, precision_of
from ..columns import Deviations, Extent
from .base import Block, Operator, row_slices

# Standard deviations that the mean of a column may lie from zero, for products in single precision.
_LARGE_MEAN = 100.0
# Stored entries that are worth a thread, and the most pieces of so many that are multiplied.
_ENTRIES_OF_A_PIECE = 2**20
_MOST_PIECES = 8
# For X X', columns with more than this share of entries are made dense, a few at a time: an
# entry of a product then costs so much less that the zeros do not matter.
_DENSE_COLUMN = 0.05
_DENSE_COLUMNS = 512  # at a time, and no more than X X' has
_DENSE_PIECES = 4  # that are worked on beside each other, at most


def canonical(X: Any) -> sparse.csr_array:
    """``X`` as CSR with sorted indices and every place stored once; never changes ``X``.

    SciPy sorts and adds up duplicates in place, and conversions share memory: a table that
    somebody else holds has to be copied first. One that is in order already is not copied.
    """
    S = sparse.csr_array(X)
    if not S.has_canonical_format:
        S = S.copy()
        S.sum_duplicates()
    return S


def placed_sums(
    values: Sequence[np.ndarray], places: Sequence[np.ndarray], rows: np.ndarray
) -> np.ndarray:
    """sum_k values[j][k] rows[places[j][i, k]] for every j and i: the few entries of some columns,
    each at many places.

    Parameters
    ----------
    values : sequence of arrays (k,)
    places : sequence of int arrays (m, k)
        Rows of ``rows``.
    rows : array (n, d)

    Returns
    -------
    array (columns, m, d)
    """
    columns, count = len(places), places[0].shape[0]
    widths = np.repeat([one.shape[1] for one in places], count)
    table = sparse.csr_array(
        (
            np.concatenate([np.tile(entries, count) for entries in values]),
            np.concatenate([one.ravel() for one in places]),
            np.concatenate([[0], np.cumsum(widths)]),
        ),
        (columns * count, rows.shape[0]),
    )
    return np.asarray(table @ rows).reshape(columns, count, rows.shape[1])


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
    """A sparse table S standing for (S - 1 shift') diag(factor)."""

    few_columns = 16
    few_rows = 4096

    def __init__(self, S: Any, shift: Array, factor: Array, dtype: Any = np.float64):
        self.S = canonical(S).astype(dtype, copy=False)
        self.shift, self.factor = shift.astype(dtype, copy=False), factor.astype(dtype, copy=False)
        self.xp, self.dtype = xp, dtype
        self.shape = self.S.shape

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), CentredRows(self.S, self.shift, self.factor)
            return
        for rows in row_slices(*self.shape):
            yield rows, (self.S[rows].toarray() - self.shift) * self.factor

    @cached_property
    def _pieces(self) -> list[tuple[slice, CentredRows]]:
        """The rows in pieces of about as many entries, whatever the number of cores, so that sums
        over them do not depend on it."""
        S, p = self.S, self.shape[1]
        pieces = []
        for rows, stored in _row_pieces(S, _MOST_PIECES):
            starts = S.indptr[rows.start : rows.stop + 1] - S.indptr[rows.start]
            shape = (rows.stop - rows.start, p)
            part = sparse.csr_array((S.data[stored], S.indices[stored], starts), shape)
            pieces.append((rows, CentredRows(part, self.shift, self.factor)))
        return pieces

    # SciPy's products are on one core: pieces of the table are multiplied beside each other.

    def sum_rows(
        self, f: Callable[..., tuple[Array, ...]], *row_arrays: Array, entrywise: bool = False
    ) -> tuple[Array, ...]:
        if entrywise or len(self._pieces) == 1:
            return super().sum_rows(f, *row_arrays, entrywise=entrywise)
        return tuple(sum(parts) for parts in zip(*self._of_pieces(f, *row_arrays), strict=True))

    def map_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        if entrywise or len(self._pieces) == 1:
            return super().map_rows(f, *row_arrays, entrywise=entrywise)
        return np.concatenate(self._of_pieces(f, *row_arrays))

    def _of_pieces(self, f: Callable[..., Any], *row_arrays: Array) -> list[Any]:
        def work(piece: tuple[slice, CentredRows]) -> Any:
            rows, block = piece
            return f(block, *(array[rows, ...] for array in row_arrays))

        return in_parallel(work, self._pieces)

    def sample_rows(self, count: int) -> SparseOperator:
        some = self.S[:: max(1, self.shape[0] // count)]
        return SparseOperator(some, self.shift, self.factor, self.dtype)

    def rough(self) -> SparseOperator:
        # a product with S is centred afterwards: of means that are large, few digits are left
        largest = float(np.max(np.abs(self.shift * self.factor), initial=0.0))
        if largest > _LARGE_MEAN:
            return self
        return SparseOperator(self.S, self.shift, self.factor, np.float32)

    def _taken(self, columns: Array) -> SparseOperator:
        # columns beside each other are taken many times faster as a slice
        beside = columns.size > 0 and np.array_equal(columns, columns[0] + np.arange(columns.size))
        where = slice(int(columns[0]), int(columns[0]) + columns.size) if beside else columns
        return SparseOperator(
            self.S[:, where], self.shift[columns], self.factor[columns], self.dtype
        )

    def _sum_squares(self) -> Array:
        return _deviations(self.S, self.shift, self.factor, None).squares

    def column_fourth_powers(self) -> Array:
        S, (n, p) = self.S, self.shape

        def of_entries(piece: tuple[slice, slice]) -> tuple[np.ndarray, np.ndarray]:
            at = S.indices[piece[1]]
            entries = (S.data[piece[1]] - self.shift[at]) * self.factor[at]
            fourth = np.bincount(at, weights=(entries * entries) ** 2, minlength=p)
            return fourth, np.bincount(at, minlength=p)

        parts = in_parallel(of_entries, _row_pieces(S, _MOST_PIECES))
        fourth, present = (sum(each) for each in zip(*parts, strict=True))
        return fourth + (n - present) * (self.shift * self.factor) ** 4

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
        entries = np.bincount(S.indices, minlength=self.shape[1])
        dense = entries > _DENSE_COLUMN * self.shape[0]
        many, few = np.flatnonzero(dense), np.flatnonzero(~dense)
        parts = [partial(_outer_of_many, S, mean, many[some]) for some in _dense_pieces(many.size)]
        if few.size:
            parts.append(partial(_outer_of_few, S, mean, few))
        total = np.zeros((self.shape[0],) * 2, dtype=self.dtype)
        for part in in_parallel(lambda work: work(), parts):
            total += part
        return total


def _dense_pieces(columns: int) -> list[slice]:
    step = max(_DENSE_COLUMNS, -(-columns // _DENSE_PIECES))
    return slices_of(columns, step)


def _outer_of_many(S: Any, mean: Array, columns: np.ndarray) -> Array:
    """(S - 1 mean')(S - 1 mean')' of columns of which most entries count, made dense, some of them
    at a time."""
    taken = S[:, columns].tocsc()
    total = np.zeros((S.shape[0],) * 2, dtype=S.dtype)
    for some in slices_of(columns.size, min(_DENSE_COLUMNS, S.shape[0])):
        block = taken[:, some].toarray() - mean[columns[some]]
        total += block @ block.T
    return total


def _outer_of_few(S: Any, mean: Array, columns: np.ndarray) -> Array:
    """The same of columns with few entries: S S' is sparse, and the means are taken off after."""
    some, mean = S[:, columns], mean[columns]
    along = some @ mean - 0.5 * (mean @ mean)
    product = (some @ some.T).toarray()
    product -= along[:, None]
    product -= along
    return product


def new_rows(X: Any, mean: Array, scale: Array) -> SparseOperator:
    """Rows to which known means and scales apply."""
    return SparseOperator(X, mean, 1.0 / scale)


class SparseRows:
    """Raw sparse rows; the entries stay where they are (see `RawRows`)."""

    centred_in_products = True

    def __init__(self, X: Any, weights: np.ndarray | None = None):
        self.given, self.working = precision_of(X), "float64"
        self.S = canonical(X).astype(np.float64, copy=False)
        self.weights = weights
        self.like = np.empty(0)

    def extent(self) -> Extent:
        S, (n, p) = self.S, self.S.shape

        def measured(piece: tuple[slice, slice]) -> tuple[np.ndarray, ...]:
            at, entries = S.indices[piece[1]], S.data[piece[1]]
            low, high = np.full(p, np.inf), np.full(p, -np.inf)
            np.minimum.at(low, at, entries)
            np.maximum.at(high, at, entries)
            return low, high, np.bincount(at, minlength=p)

        parts = zip(*in_parallel(measured, _row_pieces(S)), strict=True)
        low, high, stored = (np.stack(part) for part in parts)
        full = stored.sum(axis=0) == n
        low, high = low.min(axis=0), high.max(axis=0)
        low = np.where(full, low, np.minimum(low, 0.0))
        high = np.where(full, high, np.maximum(high, 0.0))
        if self.weights is None:
            return Extent(low, high, np.asarray(S.sum(axis=0), dtype=float).reshape(p), float(n))
        return Extent(low, high, S.T @ self.weights, float(self.weights.sum()))

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        return _deviations(self.S, centre, 1.0 / size, self.weights)

    def operator(self, kept: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        S = self.S if kept.size == self.S.shape[1] else self.S[:, kept]
        return SparseOperator(S, shift, factor)


def _deviations(S: Any, shift: Array, factor: Array, weights: np.ndarray | None) -> Deviations:
    """Sums and sums of squares of (S - shift) * factor.

    Stored entries and zeros apart: expanding the square would lose the digits of both.
    """
    n, p = S.shape
    each = np.ones(n) if weights is None else weights

    def measured(piece: tuple[slice, slice]) -> np.ndarray:
        rows, stored = piece
        at = S.indices[stored]
        of_entry = np.repeat(each[rows], np.diff(S.indptr[rows.start : rows.stop + 1]))
        entries = (S.data[stored] - shift[at]) * factor[at]
        sums = (of_entry, of_entry * entries, of_entry * entries**2)
        return np.stack([np.bincount(at, weights=values, minlength=p) for values in sums])

    present, total, squares = np.sum(in_parallel(measured, _row_pieces(S)), axis=0)
    absent, zeros = each.sum() - present, -shift * factor
    return Deviations(total + absent * zeros, squares + absent * zeros**2)


def _row_pieces(S: Any, most: int | None = None) -> list[tuple[slice, slice]]:
    """Rows, and where their entries are stored, some at a time, at ``most`` in so many pieces:
    temporary arrays of all entries would take more memory, and more time, than the table."""
    n, count = S.shape[0], max(1, S.nnz // _ENTRIES_OF_A_PIECE)
    count = count if most is None else min(most, count)
    ends = np.searchsorted(S.indptr, S.nnz * np.arange(1, count) // count)
    ends = np.unique(np.concatenate([[0], ends, [n]]))
    return [
        (slice(first, last), slice(int(S.indptr[first]), int(S.indptr[last])))
        for first, last in itertools.pairwise(ends.tolist())
    ]
