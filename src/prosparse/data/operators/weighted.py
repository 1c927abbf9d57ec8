"""Weighted observations: row i counts w_i times in means, scales and products."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays import Array
from ..columns import Deviations, Extent, RawRows
from .base import Block, Operator, integer_power


class WeightedRows:
    """diag(root) B for a block of rows B; supports ``@`` only."""

    def __init__(self, block: Block, root: Array):
        self.block, self.root = block, root

    def __matmul__(self, F: Array) -> Array:
        return self.root[:, None] * (self.block @ F)

    @property
    def T(self) -> WeightedColumns:
        return WeightedColumns(self)


class WeightedColumns:
    """The transpose of `WeightedRows`."""

    def __init__(self, rows: WeightedRows):
        self.rows = rows

    def __matmul__(self, Y: Array) -> Array:
        return self.rows.block.T @ (self.rows.root[:, None] * Y)


class WeightedOperator(Operator):
    """diag(root) X for another operator X; sums over rows are weighted by root^2."""

    def __init__(self, inner: Operator, root: Array):
        self.inner, self.root = inner, root
        self.xp, self.shape, self.dtype = inner.xp, inner.shape, inner.dtype
        self.few_columns, self.few_rows = inner.few_columns, inner.few_rows

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, block in self.inner.blocks(entrywise=entrywise):
            root = self.root[rows]
            yield rows, root[:, None] * block if entrywise else WeightedRows(block, root)

    # Functions run where the inner operator stores its blocks.

    def sum_rows(
        self, f: Callable[..., tuple[Array, ...]], *row_arrays: Array, entrywise: bool = False
    ) -> tuple[Array, ...]:
        g = WeightedFunction(f, entrywise)
        return self.inner.sum_rows(g, self.root[:, None], *row_arrays, entrywise=entrywise)

    def map_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = WeightedFunction(f, entrywise)
        return self.inner.map_rows(g, self.root[:, None], *row_arrays, entrywise=entrywise)

    def gather_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = WeightedFunction(f, entrywise)
        return self.inner.gather_rows(g, self.root[:, None], *row_arrays, entrywise=entrywise)

    def rough(self) -> WeightedOperator:
        inner = self.inner.rough()
        return WeightedOperator(inner, self.xp.astype(self.root, inner.dtype))

    def _take_columns(self, columns: Array) -> WeightedOperator:
        return WeightedOperator(self.inner.take_columns(columns), self.root)

    def gram(self) -> Array:
        return self.sum_rows(lambda block: (block.T @ block,), entrywise=True)[0]

    def outer(self) -> Array:
        return self.root[:, None] * self.inner.outer() * self.root

    def scale_columns(self, factors: Array) -> WeightedOperator:
        return WeightedOperator(self.inner.scale_columns(factors), self.root)

    def power_sums(self, power: int, weights: Array) -> Array:
        return self.inner.power_sums(power, integer_power(self.root, power)[:, None] * weights)


class WeightedFunction:
    """A function of blocks of diag(root) X as a function of blocks of X and rows of root, (n, 1).

    A class can be pickled for the workers of a cluster.
    """

    def __init__(self, f: Callable[..., Any], entrywise: bool):
        self.f, self.entrywise = f, entrywise

    def __call__(self, block: Block, root: Array, *rows: Array) -> Any:
        weighted = root * block if self.entrywise else WeightedRows(block, root[:, 0])
        return self.f(weighted, *rows)


class WeightedRawRows:
    """Raw rows with weights (see `RawRows`).

    ``inner`` measures with the same weights; this class weights its operator as well.
    """

    def __init__(self, inner: RawRows, weights: np.ndarray):
        self.inner, self.root = inner, np.sqrt(weights)
        self.like, self.given, self.working = inner.like, inner.given, inner.working
        self.centred_in_products = inner.centred_in_products

    def extent(self) -> Extent:
        return self.inner.extent()

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        return self.inner.deviations(centre, size)

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        return WeightedOperator(self.inner.operator(index, shift, factor), self.root)
