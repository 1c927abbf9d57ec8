"""Operators of weighted rows, where row i counts w_i times."""

from __future__ import annotations

from typing import Any

import numpy as np

from ..arrays import Array
from ..columns import Deviations, Extent, RawRows
from .base import Block, LazyRows, Operator, sampled_rows
from .transformed import TransformedOperator


class WeightedRows(LazyRows):
    """diag(root) B for a block of rows B and root (n, 1)."""

    def __init__(self, block: Block, root: Array):
        self.block, self.root = block, root

    def __matmul__(self, F: Array) -> Array:
        return self.root * (self.block @ F)

    def rmatmul(self, Y: Array) -> Array:
        return self.block.T @ (self.root * Y)

    def scaled(self) -> Any:
        S = self.block.scaled()
        S.data *= np.repeat(self.root[:, 0], np.diff(S.indptr))
        return S

    def background(self) -> tuple[Array, Array]:
        left, right = self.block.background()
        return self.root * left, right


class WeightedOperator(TransformedOperator):
    """diag(root) X for another operator X; root^2 are the weights of the rows."""

    def __init__(self, inner: Operator, root: Array):
        super().__init__(inner, root[:, None], _weight)
        self.root = root

    def rough(self) -> WeightedOperator:
        inner = self.inner.rough()
        return WeightedOperator(inner, self.xp.astype(self.root, inner.dtype))

    def sample_rows(self, count: int) -> WeightedOperator:
        root = self.root[sampled_rows(self.shape[0], count)]
        return WeightedOperator(self.inner.sample_rows(count), root)

    def _take_columns(self, columns: Array) -> WeightedOperator:
        return WeightedOperator(self.inner.take_columns(columns), self.root)

    def gram(self) -> Array:
        return self.sum_rows(lambda block: (block.T @ block,), entrywise=True)[0]

    def outer(self) -> Array:
        return self.root[:, None] * self.inner.outer() * self.root

    def scale_columns(self, factors: Array) -> WeightedOperator:
        return WeightedOperator(self.inner.scale_columns(factors), self.root)


def _weight(block: Block, root: Array, entrywise: bool) -> Block:
    return root * block if entrywise else WeightedRows(block, root)


class WeightedRawRows:
    """Raw rows of which the operator has weighted rows."""

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
