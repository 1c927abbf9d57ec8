"""Operators of SciPy sparse matrices, which are centred in each product."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from functools import cached_property, partial
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
from scipy import sparse

from ...parallel import in_parallel, slices_of
from ..arrays import Array, precision_of
from ..columns import Deviations, Extent
from .base import (
    ENTRIES_PER_BLOCK,
    Block,
    LazyRows,
    Operator,
    Parts,
    RowFunction,
    row_slices,
    sampled_rows,
)
from .column_view import ColumnView
from .shadows import Shadows

# Maximum mean of a column, in standard deviations, for products in single precision.
_MAX_MEAN_IN_SINGLE = 100.0
_ENTRIES_PER_PIECE = 2**20  # minimum number of stored entries per thread
# A matrix is divided into at most `_FEW_PIECES` pieces, or into more if these would exceed the
# maximum number of entries and require too much memory for temporary arrays.
_FEW_PIECES, _MAX_ENTRIES_PER_PIECE = 8, 2**22
_PIECES_PER_SUM = 16  # number of pieces whose results are in memory before they are added
# Columns of a large matrix are copied only if they have less than this proportion of the entries.
_MIN_ENTRIES_OF_VIEW, _MAX_COPIED_PROPORTION = 2**22, 0.7
# For X X', columns with a larger proportion of stored entries are converted to dense columns, a few
# at a time, because dense products are faster despite the zeros.
_MIN_DENSITY = 0.05
_DENSE_COLUMNS = 512  # number of columns converted at a time, at most the number of rows of X
# Minimum number of rows converted at a time, subject to the maximum number of entries.
_MIN_ROWS, _MAX_ENTRIES = 256, 2**22
_MAX_DENSE_PIECES = 4  # maximum number of pieces that are processed in parallel


def canonical(X: Any) -> sparse.csr_array:
    """Convert ``X`` to CSR with sorted indices and without duplicates.

    SciPy sorts indices and sums duplicates in place, and conversions share memory. ``X`` is
    therefore copied unless it is in canonical format.
    """
    S = sparse.csr_array(X)
    if not S.has_canonical_format:
        S = S.copy()
        S.sum_duplicates()
    return S


class CentredRows(LazyRows):
    """(S - 1 shift') diag(factor) for a block of rows S."""

    def __init__(self, S: Any, shift: Array, factor: Array):
        self.S, self.shift, self.factor = S, shift, factor
        self._transposed = _assemble(sparse.csc_array, S.data, S.indices, S.indptr, S.shape[::-1])

    def __matmul__(self, F: Array) -> Array:
        F = self.factor[:, None] * F
        return self.S @ F - self.shift @ F

    def rmatmul(self, Y: Array) -> Array:
        product = self._transposed @ Y - self.shift[:, None] * np.sum(Y, axis=0)
        return self.factor[:, None] * product

    def scaled(self) -> Any:
        columns = self.S.indices
        entries = self.S.data * self.factor[columns]
        return _assemble(sparse.csr_array, entries, columns, self.S.indptr, self.S.shape)

    def background(self) -> tuple[Array, Array]:
        rank = int(self.shift.any())  # zeros remain zeros without a shift
        left = np.ones((self.S.shape[0], rank), dtype=self.shift.dtype)
        return left, (self.shift * self.factor)[None, :][:rank]


Piece = tuple[slice, CentredRows]


class SparseOperator(Operator):
    """(S - 1 shift') diag(factor) for a sparse matrix S."""

    few_columns = 16

    def __init__(self, S: Any, shift: Array, factor: Array, dtype: Any = np.float64):
        # Products convert the entries to the precision of the factors, one piece at a time.
        S = canonical(S)
        self.S = S.astype(dtype, copy=False) if dtype == np.float32 else S
        self.shift, self.factor = shift.astype(dtype, copy=False), factor.astype(dtype, copy=False)
        self.xp, self.dtype = xp, dtype
        self.shape = self.S.shape
        self.density = self.S.nnz / max(1, self.shape[0] * self.shape[1])

    @property
    def like(self) -> Array:
        return self.shift

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), CentredRows(self.S, self.shift, self.factor)
            return
        n, p = self.shape
        entries = min(_MIN_ROWS * p, _MAX_ENTRIES)
        size = (entries,) if entries > ENTRIES_PER_BLOCK else ()
        for rows in row_slices(n, p, *size):
            block = self.S[rows].astype(self.dtype, copy=False).toarray()
            block -= self.shift
            block *= self.factor
            yield rows, block

    @cached_property
    def _pieces(self) -> list[Piece]:
        """Pieces of rows independent of the number of cores."""
        S, p = self.S, self.shape[1]
        pieces = []
        count = max(_FEW_PIECES, S.nnz // _MAX_ENTRIES_PER_PIECE)
        for rows, stored in row_pieces(S, count):
            starts = S.indptr[rows.start : rows.stop + 1] - S.indptr[rows.start]
            shape = (rows.stop - rows.start, p)
            part = _assemble(sparse.csr_array, S.data[stored], S.indices[stored], starts, shape)
            pieces.append((rows, CentredRows(part, self.shift, self.factor)))
        return pieces

    # SciPy's products use one core; pieces of the matrix are therefore multiplied in parallel.

    def sum_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Parts:
        if entrywise or len(self._pieces) == 1:
            return super().sum_rows(f, *row_arrays, entrywise=entrywise)
        total: list[Array] = []
        for few in slices_of(len(self._pieces), _PIECES_PER_SUM):
            for part in self._map_pieces(self._pieces[few], f, *row_arrays):
                total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
        return tuple(total)

    def map_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        if entrywise or len(self._pieces) == 1:
            return super().map_rows(f, *row_arrays, entrywise=entrywise)
        return np.concatenate(self._map_pieces(self._pieces, f, *row_arrays))

    def _map_pieces(self, pieces: Sequence[Piece], f: RowFunction, *row_arrays: Array) -> list[Any]:
        def work(piece: Piece) -> Any:
            rows, block = piece
            return f(block, *(array[rows, ...] for array in row_arrays))

        return in_parallel(work, pieces)

    def sample_rows(self, count: int) -> SparseOperator:
        sample = self.S[sampled_rows(self.shape[0], count)]
        return SparseOperator(sample, self.shift, self.factor, self.dtype)

    def rough(self) -> SparseOperator:
        # Products are centred by subtraction, so that large means leave few accurate digits.
        largest = float(np.max(np.abs(self.shift * self.factor), initial=0.0))
        if largest > _MAX_MEAN_IN_SINGLE:
            return self
        return SparseOperator(self.S, self.shift, self.factor, np.float32)

    def _take_columns(self, columns: Array) -> Operator:
        if self.S.nnz >= _MIN_ENTRIES_OF_VIEW:
            proportion = self._entries_per_column[columns].sum() / self.S.nnz
            if proportion >= _MAX_COPIED_PROPORTION and np.unique(columns).size == columns.size:
                return ColumnView(self, columns)
        return self.copy_columns(columns)

    @cached_property
    def _entries_per_column(self) -> np.ndarray:
        pieces = (self.S.indices[stored] for _rows, stored in row_pieces(self.S))
        return np.asarray(sum(np.bincount(piece, minlength=self.shape[1]) for piece in pieces))

    def copy_columns(self, columns: Array) -> SparseOperator:
        """Copy columns in the given order."""
        # Selection of contiguous columns by a slice is many times faster.
        contiguous = columns.size > 0 and np.array_equal(
            columns, columns[0] + np.arange(columns.size)
        )
        index = slice(int(columns[0]), int(columns[0]) + columns.size) if contiguous else columns
        return SparseOperator(
            self.S[:, index], self.shift[columns], self.factor[columns], self.dtype
        )

    def _sum_squares(self) -> Array:
        return _deviations(self.S, self.shift, self.factor, None).squares

    def scale_columns(self, factors: Array) -> SparseOperator:
        return SparseOperator(self.S, self.shift, self.factor * factors, self.dtype)

    def with_shadows(self, shadows: Shadows) -> SparseOperator:
        stored = shadows.in_units(self.shift, self.factor)
        columns = shadows.columns % self.shape[1]
        return SparseOperator(
            stored.append_to(self.S.astype(self.dtype, copy=False), np.arange(self.shape[0])),
            self.shift[columns],
            self.factor[columns],
            self.dtype,
        )

    def _scale_entries(self) -> tuple[Any, Array]:
        S = self.S
        entries = S.data * self.factor[S.indices]
        scaled = _assemble(sparse.csr_array, entries, S.indices, S.indptr, S.shape)
        return scaled, self.shift * self.factor

    def gram(self) -> Array:
        S, mean = self._scale_entries()
        total = np.asarray(S.sum(axis=0))
        cross = np.outer(total, mean)
        return (S.T @ S).toarray() - cross - cross.T + self.shape[0] * np.outer(mean, mean)

    def outer(self) -> Array:
        S, mean = self._scale_entries()
        entries = np.bincount(S.indices, minlength=self.shape[1])
        dense = entries > _MIN_DENSITY * self.shape[0]
        many, few = np.flatnonzero(dense), np.flatnonzero(~dense)
        parts = [partial(_dense_outer, S, mean, many[piece]) for piece in _dense_pieces(many.size)]
        if few.size:
            parts.append(partial(_sparse_outer, S, mean, few))
        total = np.zeros((self.shape[0],) * 2, dtype=self.dtype)
        for part in in_parallel(lambda work: work(), parts):
            total += part
        return total


def _dense_pieces(columns: int) -> list[slice]:
    step = max(_DENSE_COLUMNS, -(-columns // _MAX_DENSE_PIECES))
    return slices_of(columns, step)


def _dense_outer(S: Any, mean: Array, columns: np.ndarray) -> Array:
    """Compute (S - 1 mean')(S - 1 mean')' from a few dense columns at a time."""
    taken = S[:, columns].tocsc()
    total = np.zeros((S.shape[0],) * 2, dtype=S.dtype)
    for part in slices_of(columns.size, min(_DENSE_COLUMNS, S.shape[0])):
        block = taken[:, part].toarray() - mean[columns[part]]
        total += block @ block.T
    return total


def _sparse_outer(S: Any, mean: Array, columns: np.ndarray) -> Array:
    """Compute (S - 1 mean')(S - 1 mean')' from S S' by subtracting the means."""
    S, mean = S[:, columns], mean[columns]
    correction = S @ mean - 0.5 * (mean @ mean)
    product = (S @ S.T).toarray()
    product -= correction[:, None]
    product -= correction
    return product


def new_rows(X: Any, mean: Array, scale: Array) -> SparseOperator:
    """Return the operator of rows with known means and scales."""
    return SparseOperator(X, mean, 1.0 / scale)


class SparseRows:
    """Raw sparse rows, which are not copied (`RawRows`)."""

    centred_in_products = True

    def __init__(self, X: Any, weights: np.ndarray | None = None):
        self.given, self.working = precision_of(X), "float64"
        self.S = canonical(X)
        self.weights = weights
        self.like = np.empty(0)

    def extent(self) -> Extent:
        S, (n, p) = self.S, self.S.shape

        def measure(piece: tuple[slice, slice]) -> tuple[np.ndarray, ...]:
            rows, stored = piece
            columns, entries = S.indices[stored], S.data[stored].astype(float, copy=False)
            low, high = np.full(p, np.inf), np.full(p, -np.inf)
            np.minimum.at(low, columns, entries)
            np.maximum.at(high, columns, entries)
            if self.weights is not None:
                starts = S.indptr[rows.start : rows.stop + 1]
                entries = entries * np.repeat(self.weights[rows], np.diff(starts))
            count = np.bincount(columns, minlength=p)
            return low, high, count, np.bincount(columns, weights=entries, minlength=p)

        parts = zip(*in_parallel(measure, row_pieces(S)), strict=True)
        low, high, stored, total = (np.stack(part) for part in parts)
        full = stored.sum(axis=0) == n
        low, high = low.min(axis=0), high.max(axis=0)
        low = np.where(full, low, np.minimum(low, 0.0))
        high = np.where(full, high, np.maximum(high, 0.0))
        weight = float(n) if self.weights is None else float(self.weights.sum())
        return Extent(low, high, total.sum(axis=0), weight)

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        return _deviations(self.S, centre, 1.0 / size, self.weights)

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        p = self.S.shape[1]
        if index.size == p:
            return SparseOperator(self.S, shift, factor)
        shift_of_all, factor_of_all = np.zeros(p), np.ones(p)
        shift_of_all[index], factor_of_all[index] = shift, factor
        return SparseOperator(self.S, shift_of_all, factor_of_all).take_columns(index)


def _deviations(S: Any, shift: Array, factor: Array, weights: np.ndarray | None) -> Deviations:
    """Compute sums and sums of squares of (S - shift) * factor.

    Stored entries and zeros are summed separately, because expansion of the square would lose
    digits by cancellation.
    """
    n, p = S.shape
    row_weights = np.ones(n) if weights is None else weights

    def measure(piece: tuple[slice, slice]) -> np.ndarray:
        rows, stored = piece
        columns = S.indices[stored]
        w = np.repeat(row_weights[rows], np.diff(S.indptr[rows.start : rows.stop + 1]))
        entries = (S.data[stored] - shift[columns]) * factor[columns]
        terms = (w, w * entries, w * entries**2)
        return np.stack([np.bincount(columns, weights=term, minlength=p) for term in terms])

    present, total, squares = np.sum(in_parallel(measure, row_pieces(S)), axis=0)
    absent, zeros = row_weights.sum() - present, -shift * factor
    return Deviations(total + absent * zeros, squares + absent * zeros**2)


def _assemble(kind: Any, data: Array, indices: Array, indptr: Array, shape: tuple[int, ...]) -> Any:
    """Assemble a sparse array from its parts.

    Unlike the constructor, this does not copy views of large arrays.
    """
    assembled = kind(shape, dtype=data.dtype)
    assembled.data, assembled.indices, assembled.indptr = data, indices, indptr
    return assembled


def row_pieces(S: Any, max_pieces: int | None = None) -> list[tuple[slice, slice]]:
    """Divide the rows into slices; also return slices of stored entries."""
    n, count = S.shape[0], max(1, S.nnz // _ENTRIES_PER_PIECE)
    count = count if max_pieces is None else min(max_pieces, count)
    ends = np.searchsorted(S.indptr, S.nnz * np.arange(1, count) // count)
    ends = np.unique(np.concatenate([[0], ends, [n]]))
    return [
        (slice(first, last), slice(int(S.indptr[first]), int(S.indptr[last])))
        for first, last in itertools.pairwise(ends.tolist())
    ]
