"""Tables that are never in memory as a whole: raw blocks of rows, standardised as they come.

A `Source` knows where the blocks are (a file, a cluster) and how to bring a function to them;
what happens inside a block is left to the dense or the sparse operator of that block.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any, NamedTuple

import array_api_compat.numpy as xp
import numpy as np
from scipy.sparse import issparse

from ...errors import InputError
from ..arrays import Array, precision_of
from ..columns import Deviations, Extent
from .base import Block, Operator
from .dense import DenseOperator
from .sparse import SparseOperator, canonical

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


class Standard(NamedTuple):
    """How the raw columns of a block become the operator's."""

    columns: np.ndarray | None  # positions of the columns that count; None: all of them
    shift: np.ndarray
    factor: np.ndarray
    unseen: bool = False  # new rows, which nobody has looked at yet


def _local(raw: Any, standard: Standard) -> Operator:
    """The operator of one raw block, in the memory of whoever works on it."""
    columns, shift, factor, unseen = standard
    refuse_masked(raw)
    if issparse(raw):
        raw = canonical(raw)
    if unseen:
        finite_block(raw)
    if columns is not None:
        raw = raw[:, columns]
    if issparse(raw):
        return SparseOperator(raw, shift, factor)
    block = np.asarray(raw).astype(np.float64)  # always a copy: in place from here on
    block -= shift
    block *= factor
    return DenseOperator(block)


def refuse_masked(raw: Any) -> None:
    """What lies under a mask would otherwise be used as if it were not masked."""
    if np.ma.is_masked(raw):
        raise InputError(
            f"{np.ma.count_masked(raw)} entries of a block of X are masked, that is missing. Fill "
            "them in first (`dask.array.ma.filled`), or leave out their rows or columns."
        )


def finite_block(raw: Any) -> Any:
    """The raw block, refused if an entry is masked or not finite."""
    refuse_masked(raw)
    values = raw.data if issparse(raw) else np.asarray(raw)
    if not np.all(np.isfinite(values)):
        raise InputError(
            "Input X contains NaN or infinity: drop the rows or columns that have it, or fill "
            "them in first"
        )
    return raw


def _sum_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: Standard) -> Parts:
    return _local(raw, standard).sum_rows(f, *rows, entrywise=entrywise)


def _map_block(raw: Any, *rows: Array, f: Any, entrywise: bool, standard: Standard) -> Array:
    return _local(raw, standard).map_rows(f, *rows, entrywise=entrywise)


def _gram_block(raw: Any, *, standard: Standard) -> Parts:
    return (_local(raw, standard).gram(),)


class BlockedOperator(Operator):
    """(columns of the source - shift) * factor, block by block."""

    def __init__(self, source: Source, standard: Standard):
        self.source, self.standard = source, standard
        self.shape = (source.shape[0], standard.shift.shape[0])
        self.xp, self.dtype = xp, np.float64

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, raw in self.source.blocks():
            for inner, block in _local(raw, self.standard).blocks(entrywise=entrywise):
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
        return _local(self.source.every(max(1, self.shape[0] // count)), self.standard)

    def _taken(self, columns: Array) -> BlockedOperator:
        known, shift, factor, unseen = self.standard
        where = np.asarray(columns) if known is None else known[columns]
        return BlockedOperator(
            self.source, Standard(where, shift[columns], factor[columns], unseen)
        )

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


def new_rows(source: Source, mean: Array, scale: Array) -> BlockedOperator:
    """Rows to which known means and scales apply."""
    return BlockedOperator(source, Standard(None, mean, 1.0 / scale, unseen=True))


class BlockedRows:
    """Raw rows in blocks, measured in two passes; they stay where they are (see `RawRows`)."""

    centred_in_products = False  # until a sparse block was seen

    def __init__(self, source: Source):
        self.source = source
        self.given, self.working = precision_of(source), "float64"
        self.like = np.empty(0)

    def extent(self) -> Extent:
        low, high, total, any_sparse = self.source.reduce(_extent, combine=_wider)
        self.centred_in_products = bool(any_sparse)
        low, high = (np.asarray(values, dtype=float) for values in (low, high))
        return Extent(low, high, total, float(self.source.shape[0]))

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        standard = Standard(None, centre, 1.0 / size)
        return Deviations(*self.source.reduce(partial(_deviations, standard=standard)))

    def operator(self, kept: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        every = kept.size == self.source.shape[1]
        return BlockedOperator(self.source, Standard(None if every else kept, shift, factor))


def _extent(raw: Any) -> Parts:
    """Column minima, maxima and sums of a raw block, and whether it was sparse."""
    refuse_masked(raw)
    if issparse(raw):
        raw = canonical(raw).tocsc()
        low, high = (np.asarray(m.toarray()).ravel() for m in (raw.min(axis=0), raw.max(axis=0)))
    else:
        raw = np.asarray(raw)
        low, high = raw.min(axis=0), raw.max(axis=0)
    total = np.asarray(raw.sum(axis=0, dtype=np.float64)).ravel()
    return low, high, total, np.array(issparse(raw))


def _wider(one: Parts, other: Parts) -> Parts:
    return (
        np.minimum(one[0], other[0]),
        np.maximum(one[1], other[1]),
        one[2] + other[2],
        one[3] | other[3],
    )


def _deviations(raw: Any, *, standard: Standard) -> Parts:
    """Sums and sums of squares after a first centring."""
    op = _local(raw, standard)
    return op.rmatmul(np.ones((op.shape[0], 1)))[:, 0], op.column_squares()
