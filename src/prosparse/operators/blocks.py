"""Tables that are never in memory as a whole: raw blocks of rows, standardised as they come.

A `Source` knows where the blocks are (a file, a cluster) and how to bring a function to them;
what happens inside a block is left to the dense or the sparse operator of that block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import array_api_compat.numpy as xp
import numpy as np
from scipy.sparse import issparse

from ..errors import InputError
from .base import Array, Block, Operator
from .dense import DenseOperator
from .sparse import SparseOperator, check_near_zero
from .standardise import LARGEST_SCALE, SMALLEST_SCALE, Columns, check_range, unit_of

Parts = tuple[Array, ...]

# Entries of the pieces in which X X' is put together.
_PIECE = 2**24


def add(one: Parts, other: Parts) -> Parts:
    return tuple(a + b for a, b in zip(one, other, strict=True))


class Source(ABC):
    """Raw rows in blocks."""

    shape: tuple[int, int]
    dtype: Any

    @abstractmethod
    def reduce(
        self,
        f: Callable[..., Parts],
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        """``f(block, *rows of row_arrays)`` of all blocks, combined two by two."""

    @abstractmethod
    def map(self, f: Callable[..., Array], row_arrays: tuple[Array, ...] = ()) -> Array:
        """``f(block, *rows of row_arrays)`` of all blocks, stacked; lazy where the source is."""

    @abstractmethod
    def gather(self, f: Callable[..., Array], row_arrays: tuple[Array, ...] = ()) -> Array:
        """The same in memory."""

    @abstractmethod
    def every(self, step: int) -> Any:
        """Every ``step``-th row, in memory."""

    @abstractmethod
    def blocks(self) -> Iterator[tuple[slice, Any]]:
        """The blocks one after the other, each with its position."""


def _local(raw: Any, columns: Any, shift: Array, factor: Array) -> Operator:
    """The operator of one raw block, in the memory of whoever works on it."""
    if columns is not None:
        raw = raw[:, columns]
    if issparse(raw):
        return SparseOperator(raw, shift, factor)
    block = np.asarray(raw).astype(np.float64)  # always a copy: in place from here on
    block -= shift
    block *= factor
    return DenseOperator(block)


def _sum_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: tuple) -> Parts:
    return _local(raw, *standard).sum_rows(f, *rows, entrywise=entrywise)


def _map_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: tuple) -> Array:
    return _local(raw, *standard).map_rows(f, *rows, entrywise=entrywise)


def _gram_block(raw: Any, *, standard: tuple) -> Parts:
    return (_local(raw, *standard).gram(),)


class BlockedOperator(Operator):
    """(columns of the source - shift) * factor, block by block."""

    def __init__(self, source: Source, columns: np.ndarray | None, shift: Array, factor: Array):
        self.source, self.standard = source, (columns, shift, factor)
        self.shape = (source.shape[0], shift.shape[0])
        self.xp, self.dtype = xp, np.float64

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, raw in self.source.blocks():
            for inner, block in _local(raw, *self.standard).blocks(entrywise=entrywise):
                yield slice(rows.start + inner.start, rows.start + inner.stop), block

    def sum_rows(
        self, f: Callable[..., Parts], *row_arrays: Array, entrywise: bool = False
    ) -> Parts:
        g = partial(_sum_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.reduce(g, row_arrays)

    def map_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = partial(_map_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.map(g, row_arrays)

    def gather_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = partial(_map_block, f=f, entrywise=entrywise, standard=self.standard)
        return self.source.gather(g, row_arrays)

    def sample_rows(self, count: int) -> Operator:
        return _local(self.source.every(max(1, self.shape[0] // count)), *self.standard)

    def take_columns(self, columns: Array) -> BlockedOperator:
        known, shift, factor = self.standard
        where = np.asarray(columns) if known is None else known[columns]
        return BlockedOperator(self.source, where, shift[columns], factor[columns])

    def gram(self) -> Array:
        return self.source.reduce(partial(_gram_block, standard=self.standard))[0]

    def outer(self) -> Array:
        n, p = self.shape
        total, width = np.zeros((n, n)), max(1, _PIECE // n)
        for low in range(0, p, width):
            some = self.take_columns(np.arange(low, min(low + width, p)))
            piece = some.gather_rows(_itself, entrywise=True)
            total += piece @ piece.T
        return total


def _itself(block: Array) -> Array:
    return block


def _extent(raw: Any) -> Parts:
    """(column minima, maxima, sums) of a raw block."""
    if issparse(raw):
        bottom, top = (np.asarray(m.toarray()).ravel() for m in (raw.min(axis=0), raw.max(axis=0)))
    else:
        raw = np.asarray(raw)
        bottom, top = raw.min(axis=0), raw.max(axis=0)
    return bottom, top, np.asarray(raw.sum(axis=0, dtype=np.float64)).ravel()


def _wider(one: Parts, other: Parts) -> Parts:
    return np.minimum(one[0], other[0]), np.maximum(one[1], other[1]), one[2] + other[2]


def _deviations(raw: Any, *, standard: tuple) -> Parts:
    """(sums, sums of squares, whether the block was sparse) after a first centring."""
    op = _local(raw, *standard)
    sums = op.rmatmul(np.ones((op.shape[0], 1)))[:, 0]
    return sums, op.column_squares(), np.array(float(issparse(raw)))


def standardise_blocks(source: Source, scale: bool) -> tuple[BlockedOperator, Columns]:
    """Means, scales and squares of the columns in two passes; the rows stay where they are."""
    n, _ = source.shape
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        bottom, top, total = source.reduce(_extent, combine=_wider)
        mean = total / n
    bad = np.flatnonzero(~(np.isfinite(bottom) & np.isfinite(top)))
    if bad.size:
        what = "NaN" if np.isnan(top[bad[0]] + bottom[bad[0]]) else "infinity"
        raise InputError(
            f"Input X contains {what} in {bad.size} column(s), the first of them column {bad[0]}: "
            "drop these columns or the rows that have it, or fill them in first"
        )
    varying = top > bottom
    largest = np.where(varying, np.maximum(top - mean, mean - bottom), 0.0).astype(float)
    unit = 1.0 if scale else unit_of(float(largest.max(initial=0.0)))
    if scale:
        check_range(largest[varying], SMALLEST_SCALE, LARGEST_SCALE)
    # The largest entry first: squares of 1e-170 are zero. Then the rest of the mean, which the
    # first one lost to rounding.
    safe = np.where(varying, largest, 1.0)
    standard = (None, mean, 1.0 / safe)
    rest, squares, any_sparse = source.reduce(partial(_deviations, standard=standard))
    if any_sparse:
        check_near_zero(mean, largest, varying)
    squares = np.maximum(squares - rest**2 / n, 0.0)
    mean = mean + safe * rest / n
    deviation = np.where(varying, safe * np.sqrt(squares / n), 1.0) if scale else np.ones_like(mean)
    kept = np.flatnonzero(varying)
    factor = 1.0 / (deviation[kept] * unit)
    every = kept.size == varying.size
    op = BlockedOperator(source, None if every else kept, mean[kept], factor)
    op._column_squares = squares[kept] * (safe[kept] * factor) ** 2
    return op, Columns(mean, deviation, unit, varying)
