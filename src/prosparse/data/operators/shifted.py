"""Operators minus a matrix of low rank, for centring and residuals.

The operator represents X - L R for another operator X, L of shape (n, k) and R of shape (k, p) with
small k. Neither L R nor the difference is formed, so that a sparse matrix stays sparse.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np

from ..arrays import Array, from_numpy, to_numpy
from .base import Block, LazyRows, Operator
from .transformed import TransformedOperator


class ShiftedRows(LazyRows):
    """B - L R for a block of rows B."""

    def __init__(self, block: Block, left: Array, right: Array):
        self.block, self.left, self.right = block, left, right

    def __matmul__(self, F: Array) -> Array:
        return self.block @ F - self.left @ (self.right @ F)

    def rmatmul(self, Y: Array) -> Array:
        return self.block.T @ Y - self.right.T @ (self.left.T @ Y)

    def stored(self) -> Any:
        S = self.block.stored()
        row_index = np.repeat(np.arange(S.shape[0]), np.diff(S.indptr))
        for left, right in zip(self.left.T, self.right, strict=True):
            S.data -= left[row_index] * right[S.indices]
        return S


class ShiftedOperator(TransformedOperator):
    """X - L R, with L (n, k) and R (k, p) in the library and precision of X."""

    def __init__(self, inner: Operator, left: Array, right: Array):
        super().__init__(inner, left, partial(_shift, right=right))
        self.left, self.right = left, right

    def rough(self) -> ShiftedOperator:
        inner = self.inner.rough()
        left, right = (self.xp.astype(part, inner.dtype) for part in (self.left, self.right))
        return ShiftedOperator(inner, left, right)

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

    def _sparse_power_sums(self, power: int, weights: Array) -> Array:
        """Expand (x - l r)^power by the multinomial theorem.

        Products of columns of L that vanish are skipped, because indicators of groups have one
        nonzero product for each power of each group.
        """
        xp, right = self.xp, self.xp.astype(self.right, self.xp.float64)
        total = self.inner._sparse_power_sums(power, weights)
        for exponents, product in _nonzero_products(to_numpy(self.left), power):
            degree = sum(exponents.values())
            coefficient = math.factorial(power) // math.factorial(power - degree)
            coefficients = xp.ones(self.shape[1], dtype=xp.float64)
            for k, exponent in exponents.items():
                coefficients = coefficients * right[k, :] ** exponent
                coefficient //= math.factorial(exponent)
            factors = from_numpy(product[:, None], weights, weights.dtype)
            if degree < power:
                sums = self.inner._sparse_power_sums(power - degree, factors * weights)
            else:
                sums = xp.sum(xp.astype(factors * weights, xp.float64), axis=0)[None, :]
            total = total + (-1) ** degree * coefficient * coefficients[:, None] * sums
        return total


def _nonzero_products(left: np.ndarray, power: int) -> Iterator[tuple[dict[int, int], np.ndarray]]:
    """Yield nonzero products of columns of L, with their exponents."""
    products: list[tuple[dict[int, int], np.ndarray]] = [({}, np.ones(left.shape[0]))]
    for _ in range(power):
        longer = []
        for exponents, product in products:
            first = max(exponents, default=0)
            candidates = product[:, None] * left[:, first:]
            for k in np.flatnonzero(np.any(candidates != 0.0, axis=0)):
                column = first + int(k)
                extended = {**exponents, column: exponents.get(column, 0) + 1}
                longer.append((extended, candidates[:, k]))
        yield from longer
        products = longer


def _shift(block: Block, left: Array, entrywise: bool, right: Array) -> Block:
    return block - left @ right if entrywise else ShiftedRows(block, left, right)
