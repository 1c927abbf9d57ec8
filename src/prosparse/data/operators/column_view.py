"""View of some columns of a sparse matrix.

A copy of most columns of a large matrix would nearly double the required memory. Products with the
view are products with the whole matrix, in which the other columns are multiplied by zero or
ignored.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import numpy as np

from ..arrays import Array
from .base import Block, LazyRows, Operator
from .shadows import Shadows
from .transformed import TransformedOperator

if TYPE_CHECKING:
    from .sparse import SparseOperator


class ViewedRows(LazyRows):
    """Selected columns of a block with p columns."""

    def __init__(self, block: LazyRows, columns: np.ndarray, p: int):
        self.block, self.columns, self.p = block, columns, p

    def __matmul__(self, F: Array) -> Array:
        of_all = np.zeros((self.p, *F.shape[1:]), dtype=F.dtype)
        of_all[self.columns] = F
        return self.block @ of_all

    def rmatmul(self, Y: Array) -> Array:
        return (self.block.T @ Y)[self.columns]

    def scaled(self) -> Any:
        return self.block.scaled()[:, self.columns]

    def background(self) -> tuple[Array, Array]:
        left, right = self.block.background()
        return left, right[:, self.columns]


class ColumnView(TransformedOperator):
    """Distinct columns of a sparse operator, in the given order."""

    def __init__(self, inner: SparseOperator, columns: np.ndarray):
        n, p = inner.shape
        super().__init__(inner, np.empty((n, 0)), partial(_select, columns=columns, p=p))
        self.inner: SparseOperator = inner
        self.columns = columns
        self.shape = (n, columns.size)

    def rough(self) -> ColumnView:
        return ColumnView(self.inner.rough(), self.columns)

    def sample_rows(self, count: int) -> Operator:
        return self.inner.sample_rows(count).take_columns(self.columns)

    def _take_columns(self, columns: Array) -> Operator:
        return self.inner.take_columns(self.columns[columns])

    def _sum_squares(self) -> Array:
        return self.inner.column_squares()[self.columns]

    def power_sums(self, power: int, weights: Array) -> Array:
        return self.inner.power_sums(power, weights)[self.columns]

    def scale_columns(self, factors: Array) -> ColumnView:
        of_all = np.ones(self.inner.shape[1], dtype=factors.dtype)
        of_all[self.columns] = factors
        return ColumnView(self.inner.scale_columns(of_all), self.columns)

    def gram(self) -> Array:
        return self.inner.copy_columns(self.columns).gram()

    def outer(self) -> Array:
        return self.inner.copy_columns(self.columns).outer()

    def with_shadows(self, shadows: Shadows) -> Operator:
        return self.inner.copy_columns(self.columns).with_shadows(shadows)


def _select(block: Block, _rows: Array, entrywise: bool, columns: np.ndarray, p: int) -> Block:
    return block[:, columns] if entrywise else ViewedRows(block, columns, p)
