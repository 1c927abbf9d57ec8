"""Operators minus a matrix of low rank, for centring and residuals.

The operator represents X - L R for another operator X, L of shape (n, k) and R of shape (k, p) with
small k. Neither L R nor the difference is formed, so that a sparse matrix stays sparse.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, from_numpy
from .base import Block, LazyRows, Operator, sampled_rows
from .transformed import TransformedOperator


class ShiftedRows(LazyRows):
    """B - L R for a block of rows B."""

    def __init__(self, block: Block, left: Array, right: Array):
        self.block, self.left, self.right = block, left, right

    def __matmul__(self, F: Array) -> Array:
        return self.block @ F - self.left @ (self.right @ F)

    def rmatmul(self, Y: Array) -> Array:
        return self.block.T @ Y - self.right.T @ (self.left.T @ Y)

    def scaled(self) -> Any:
        return self.block.scaled()

    def background(self) -> tuple[Array, Array]:
        left, right = self.block.background()
        return np.hstack([left, self.left]), np.vstack([right, self.right])


class ShiftedOperator(TransformedOperator):
    """X - L R, with L (n, k) and R (k, p) in the library and precision of X."""

    def __init__(self, inner: Operator, left: Array, right: Array):
        super().__init__(inner, left, partial(_shift, right=right))
        self.left, self.right = left, right

    def rough(self) -> ShiftedOperator:
        inner = self.inner.rough()
        left, right = (self.xp.astype(part, inner.dtype) for part in (self.left, self.right))
        return ShiftedOperator(inner, left, right)

    def sample_rows(self, count: int) -> ShiftedOperator:
        left = self.left[sampled_rows(self.shape[0], count), :]
        return ShiftedOperator(self.inner.sample_rows(count), left, self.right)

    def _take_columns(self, columns: Array) -> ShiftedOperator:
        right = self.xp.take(self.right, from_numpy(columns, self.right), axis=1)
        return ShiftedOperator(self.inner.take_columns(columns), self.left, right)

    def gram(self) -> Array:
        """Compute X'X - X'L R - R'L'X + R'L'L R."""
        wide = self.xp.float64
        left, right = (self.xp.astype(part, wide) for part in (self.left, self.right))
        cross = self.xp.astype(self.inner.rmatmul(self.left), wide) @ right
        return self.inner.gram() - cross - cross.T + right.T @ ((left.T @ left) @ right)

    def outer(self) -> Array:
        """Compute X X' - B L' - L B' with B = X R' - L R R' / 2."""
        outer, wide = self.inner.outer(), self.xp.float64
        left, right = (self.xp.astype(part, wide) for part in (self.left, self.right))
        B = self.xp.astype(self.inner.matmul(self.right.T), wide) - 0.5 * left @ (right @ right.T)
        first = self.xp.astype(self.xp.concat([B, left], axis=1), outer.dtype)
        second = self.xp.astype(self.xp.concat([left, B], axis=1), outer.dtype)
        return outer - first @ second.T

    def scale_columns(self, factors: Array) -> ShiftedOperator:
        return ShiftedOperator(self.inner.scale_columns(factors), self.left, factors * self.right)


def _shift(block: Block, left: Array, entrywise: bool, right: Array) -> Block:
    return block - left @ right if entrywise else ShiftedRows(block, left, right)
