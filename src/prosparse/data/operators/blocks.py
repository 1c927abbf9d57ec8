"""Operators of matrices outside memory, standardised block by block.

A `Source` reads the blocks (from a file or a cluster) and applies functions to them. Calculations
within a block use its dense or sparse operator.
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import array_api_compat.numpy as xp
import numpy as np
from scipy.sparse import csr_array, issparse

from ...errors import InputError, plural
from ..arrays import Array, on_accelerator, precision_of, to_numpy
from ..columns import Deviations, Extent
from .base import (
    ENTRIES_ON_ACCELERATOR,
    ENTRIES_PER_BLOCK,
    Block,
    Operator,
    Parts,
    RowFunction,
    row_slices,
    sampled_rows,
)
from .dense import DenseOperator
from .shadows import Shadows
from .sparse import SparseOperator, canonical, row_pieces

# Number of entries of the column blocks from which X X' is computed.
_ENTRIES_PER_COLUMN_BLOCK = 2**24


def add(first: Parts, second: Parts) -> Parts:
    """Add two tuples of arrays."""
    return tuple(a + b for a, b in zip(first, second, strict=True))


class Source(ABC):
    """Raw rows in blocks, neither centred nor scaled.

    A subclass overrides methods if it can run a function where the blocks are stored.
    """

    shape: tuple[int, int]
    dtype: Any

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """Yield the blocks in order, each with its rows."""

    def reduce(
        self,
        f: RowFunction,
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        """Combine ``f(block, *rows of row_arrays)`` over all blocks."""
        return functools.reduce(combine, self._apply(f, row_arrays))

    def map(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> Array:
        """Stack ``f(block, *rows of row_arrays)``; lazy if the source is lazy."""
        return np.concatenate([to_numpy(part) for part in self._apply(f, row_arrays)])

    def gather(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> np.ndarray:
        """Stack ``f(block, *rows of row_arrays)`` of all blocks in a NumPy array."""
        return np.asarray(self.map(f, row_arrays))

    def every(self, step: int) -> Any:
        """Return every ``step``-th row in memory."""
        return np.concatenate([block[-rows.start % step :: step] for rows, block in self.blocks()])

    def _apply(self, f: RowFunction, row_arrays: tuple[Array, ...]) -> Iterator[Any]:
        for rows, block in self.blocks():
            yield f(block, *(array[rows] for array in row_arrays))


class ArrayRows(Source):
    """Rows of an array or sparse matrix in memory."""

    def __init__(self, X: Any):
        self.X = X
        self.shape, self.dtype = X.shape, X.dtype

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        if issparse(self.X):
            S = csr_array(self.X)
            for rows, _stored in row_pieces(S):
                yield rows, S[rows]
            return
        entries = ENTRIES_ON_ACCELERATOR if on_accelerator(self.X) else ENTRIES_PER_BLOCK
        for rows in row_slices(*self.shape, entries):
            yield rows, self.X[rows, :]


class ShadowedRows(Source):
    """Rows of another source with shadows of some columns.

    Parameters
    ----------
    inner : Source
    columns : int ndarray or None
        Positions of the columns; None for all.
    shadows : Shadows
        Shadows in the units of the raw columns.
    """

    def __init__(self, inner: Source, columns: np.ndarray | None, shadows: Shadows):
        self.inner, self.columns, self.shadows = inner, columns, shadows
        self.rows = np.arange(inner.shape[0])[:, None]
        self.shape, self.dtype = (inner.shape[0], shadows.columns.size), inner.dtype

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        for rows, raw in self.inner.blocks():
            yield rows, _append_shadows(raw, self.rows[rows], self.columns, self.shadows)

    def reduce(
        self,
        f: RowFunction,
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        return self.inner.reduce(self._after_shadows(f), (self.rows, *row_arrays), combine)

    def map(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> Array:
        return self.inner.map(self._after_shadows(f), (self.rows, *row_arrays))

    def gather(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> np.ndarray:
        return self.inner.gather(self._after_shadows(f), (self.rows, *row_arrays))

    def _after_shadows(self, f: RowFunction) -> RowFunction:
        return partial(_call_with_shadows, f=f, columns=self.columns, shadows=self.shadows)


def _call_with_shadows(
    raw: Any,
    rows: np.ndarray,
    *others: Array,
    f: RowFunction,
    columns: np.ndarray | None,
    shadows: Shadows,
) -> Any:
    return f(_append_shadows(raw, rows, columns, shadows), *others)


def _append_shadows(
    raw: Any, rows: np.ndarray, columns: np.ndarray | None, shadows: Shadows
) -> Any:
    """Append the shadows of some columns to a raw block."""
    check_masked(raw)
    raw = canonical(raw) if issparse(raw) else np.asarray(raw)
    raw = to_double(raw if columns is None else raw[:, columns])
    return shadows.append_to(raw, rows[:, 0])


class Standard(NamedTuple):
    """Standardisation of the raw columns of a block."""

    columns: np.ndarray | None  # positions of the columns; None: all of them
    shift: np.ndarray
    factor: np.ndarray
    unchecked: bool = False  # whether entries have not been checked, as in new rows


def _standardise_block(raw: Any, standard: Standard) -> Operator:
    """Build the operator of one raw block."""
    columns, shift, factor, unchecked = standard
    check_masked(raw)
    if issparse(raw):
        raw = canonical(raw)
    if unchecked:
        check_finite_block(raw)
    if columns is not None:
        raw = raw[:, columns]
    if issparse(raw):
        return SparseOperator(raw, shift, factor)
    block = np.asarray(raw).astype(np.float64)  # always a copy, which is changed in place
    block -= shift
    block *= factor
    return DenseOperator(block)


def check_masked(raw: Any) -> None:
    """Raise an error for masked entries, whose masks NumPy would ignore."""
    if np.ma.is_masked(raw):
        raise InputError(
            f"A block of X has {plural(int(np.ma.count_masked(raw)), 'masked value')}. Fill masked "
            "values (`dask.array.ma.filled`), or drop their rows or columns."
        )


def check_finite_block(raw: Any) -> Any:
    """Raise an error for masked and non-finite entries; return the block."""
    check_masked(raw)
    values = raw.data if issparse(raw) else np.asarray(raw)
    if not np.all(np.isfinite(values)):
        raise InputError(
            "Input X contains NaN or infinity. Drop the affected rows or columns, or impute the "
            "values."
        )
    return raw


def to_double(raw: Any) -> Any:
    """Convert a raw block to double precision, and a sparse block to CSR."""
    return csr_array(raw).astype(np.float64) if issparse(raw) else np.asarray(raw, dtype=np.float64)


def _sum_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: Standard) -> Parts:
    return _standardise_block(raw, standard).sum_rows(f, *rows, entrywise=entrywise)


def _map_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: Standard) -> Array:
    return _standardise_block(raw, standard).map_rows(f, *rows, entrywise=entrywise)


def _gram_block(raw: Any, *, standard: Standard) -> Parts:
    return (_standardise_block(raw, standard).gram(),)


def _power_block(raw: Any, weights: Array, *, power: int, standard: Standard) -> Parts:
    return (_standardise_block(raw, standard).power_sums(power, weights),)


class BlockedOperator(Operator):
    """(columns of the source - shift) * factor, block by block."""

    def __init__(self, source: Source, standard: Standard):
        self.source, self.standard = source, standard
        self.shape = (source.shape[0], standard.shift.shape[0])
        self.xp, self.dtype = xp, np.float64

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, raw in self.source.blocks():
            for inner, block in _standardise_block(raw, self.standard).blocks(entrywise=entrywise):
                yield slice(rows.start + inner.start, rows.start + inner.stop), block

    def sum_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Parts:
        g = partial(_sum_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.reduce(g, row_arrays)

    def map_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        g = partial(_map_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.map(g, row_arrays)

    def gather_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        g = partial(_map_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.gather(g, row_arrays)

    def sample_rows(self, count: int) -> Operator:
        return _standardise_block(
            self.source.every(sampled_rows(self.shape[0], count).step), self.standard
        )

    def _take_columns(self, columns: Array) -> BlockedOperator:
        known, shift, factor, unchecked = self.standard
        positions = np.asarray(columns) if known is None else known[columns]
        return BlockedOperator(
            self.source, Standard(positions, shift[columns], factor[columns], unchecked)
        )

    def scale_columns(self, factors: Array) -> BlockedOperator:
        return BlockedOperator(
            self.source, self.standard._replace(factor=self.standard.factor * factors)
        )

    def with_shadows(self, shadows: Shadows) -> BlockedOperator:
        known, shift, factor, unchecked = self.standard
        columns = shadows.columns % self.shape[1]
        source = ShadowedRows(self.source, known, shadows.in_units(shift, factor))
        return BlockedOperator(source, Standard(None, shift[columns], factor[columns], unchecked))

    def power_sums(self, power: int, weights: Array) -> Array:
        g = partial(_power_block, power=power, standard=self.standard)
        return self.source.reduce(g, (weights,))[0]

    def gram(self) -> Array:
        return self.source.reduce(partial(_gram_block, standard=self.standard))[0]

    def outer(self) -> Array:
        n, p = self.shape
        total, width = np.zeros((n, n)), max(1, _ENTRIES_PER_COLUMN_BLOCK // n)
        for low in range(0, p, width):
            part = self.take_columns(np.arange(low, min(low + width, p)))
            block = part.dense()
            total += block @ block.T
        return total


def new_rows(source: Source, mean: Array, scale: Array) -> BlockedOperator:
    """Return the operator of rows with known means and scales."""
    return BlockedOperator(source, Standard(None, mean, 1.0 / scale, unchecked=True))


class BlockedRows:
    """Raw rows in blocks, read twice and not copied (`RawRows`)."""

    centred_in_products = False  # set by `extent` if a block is sparse

    def __init__(self, source: Source):
        self.source = source
        self.given, self.working = precision_of(source), "float64"
        self.like = np.empty(0)

    def extent(self) -> Extent:
        low, high, total, any_sparse = self.source.reduce(_extent, combine=_combine_extents)
        self.centred_in_products = bool(any_sparse)
        low, high = (np.asarray(values, dtype=float) for values in (low, high))
        return Extent(low, high, total, float(self.source.shape[0]))

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        standard = Standard(None, centre, 1.0 / size)
        return Deviations(*self.source.reduce(partial(_deviations, standard=standard)))

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        all_columns = index.size == self.source.shape[1]
        return BlockedOperator(self.source, Standard(None if all_columns else index, shift, factor))


def _extent(raw: Any) -> Parts:
    """Return minima, maxima and sums of a raw block, and whether it is sparse."""
    check_masked(raw)
    if issparse(raw):
        raw = canonical(raw).tocsc()
        low, high = (np.asarray(m.toarray()).ravel() for m in (raw.min(axis=0), raw.max(axis=0)))
    else:
        raw = np.asarray(raw)
        low, high = raw.min(axis=0), raw.max(axis=0)
    total = np.asarray(raw.sum(axis=0, dtype=np.float64)).ravel()
    return low, high, total, np.array(issparse(raw))


def _combine_extents(first: Parts, second: Parts) -> Parts:
    return (
        np.minimum(first[0], second[0]),
        np.maximum(first[1], second[1]),
        first[2] + second[2],
        first[3] | second[3],
    )


def _deviations(raw: Any, *, standard: Standard) -> Parts:
    """Compute sums and sums of squares of a block after centring."""
    op = _standardise_block(raw, standard)
    return op.rmatmul(np.ones((op.shape[0], 1)))[:, 0], op.column_squares()
