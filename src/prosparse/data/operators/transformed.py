"""Operators whose blocks are functions of the blocks of another operator."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

from ..arrays import Array
from .base import Block, Operator, Parts, RowFunction

# Function of a block of the inner operator, its rows of an array, and whether it is entrywise.
Transform = Callable[[Block, Array, bool], Block]


class TransformedOperator(Operator):
    """Blocks ``transform(block, rows of row_array, entrywise)`` of ``inner``.

    Functions of blocks run where the inner operator stores its blocks. ``transform`` must be
    picklable for the workers of a cluster.
    """

    def __init__(self, inner: Operator, row_array: Array, transform: Transform):
        self.inner, self.row_array, self.transform = inner, row_array, transform
        self.xp, self.shape, self.dtype = inner.xp, inner.shape, inner.dtype
        self.few_columns = inner.few_columns
        self.density = inner.density

    @property
    def like(self) -> Array:
        return self.inner.like

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, block in self.inner.blocks(entrywise=entrywise):
            yield rows, self.transform(block, self.row_array[rows, :], entrywise)

    def sum_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Parts:
        g = partial(_apply, f, self.transform, entrywise)
        return self.inner.sum_rows(g, self.row_array, *row_arrays, entrywise=entrywise)

    def map_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        g = partial(_apply, f, self.transform, entrywise)
        return self.inner.map_rows(g, self.row_array, *row_arrays, entrywise=entrywise)

    def gather_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        g = partial(_apply, f, self.transform, entrywise)
        return self.inner.gather_rows(g, self.row_array, *row_arrays, entrywise=entrywise)


def _apply(
    f: Callable[..., Any],
    transform: Transform,
    entrywise: bool,
    block: Block,
    rows: Array,
    *others: Array,
) -> Any:
    return f(transform(block, rows, entrywise), *others)
