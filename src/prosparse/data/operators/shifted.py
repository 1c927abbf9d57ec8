"""A matrix minus a matrix of low rank: data centred within groups, residuals of counts.

The operator represents X - L R for another operator X, L of shape (n, k) and R of shape (k, p) with
small k. Neither L R nor the difference is formed, so that a sparse matrix stays sparse.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays import Array, from_numpy, to_numpy
from .base import Block, Operator


class ShiftedRows:
    """B - L R for a block of rows B; supports ``@`` only."""

    def __init__(self, block: Block, left: Array, right: Array):
        self.block, self.left, self.right = block, left, right

    def __matmul__(self, F: Array) -> Array:
        return self.block @ F - self.left @ (self.right @ F)

    @property
    def T(self) -> ShiftedColumns:
        return ShiftedColumns(self)


class ShiftedColumns:
    """The transpose of `ShiftedRows`."""

    def __init__(self, rows: ShiftedRows):
        self.rows = rows

    def __matmul__(self, Y: Array) -> Array:
        rows = self.rows
        return rows.block.T @ Y - rows.right.T @ (rows.left.T @ Y)


class ShiftedOperator(Operator):
    """X - L R.

    Parameters
    ----------
    inner : Operator
        X.
    left : array of shape (n, k)
        L, in the array library and precision of X.
    right : array of shape (k, p)
        R, in the array library and precision of X.
    """

    def __init__(self, inner: Operator, left: Array, right: Array):
        self.inner, self.left, self.right = inner, left, right
        self.xp, self.shape, self.dtype = inner.xp, inner.shape, inner.dtype
        self.few_columns, self.few_rows = inner.few_columns, inner.few_rows

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, block in self.inner.blocks(entrywise=entrywise):
            left = self.left[rows, :]
            if entrywise:
                yield rows, block - left @ self.right
            else:
                yield rows, ShiftedRows(block, left, self.right)

    # Functions run where the inner operator stores its blocks.

    def sum_rows(
        self, f: Callable[..., tuple[Array, ...]], *row_arrays: Array, entrywise: bool = False
    ) -> tuple[Array, ...]:
        g = ShiftedFunction(f, self.right, entrywise)
        return self.inner.sum_rows(g, self.left, *row_arrays, entrywise=entrywise)

    def map_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = ShiftedFunction(f, self.right, entrywise)
        return self.inner.map_rows(g, self.left, *row_arrays, entrywise=entrywise)

    def gather_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        g = ShiftedFunction(f, self.right, entrywise)
        return self.inner.gather_rows(g, self.left, *row_arrays, entrywise=entrywise)

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
        """Compute X X' - X R'L' - L R X' + L R R'L'."""
        wide = self.xp.float64
        left, right = (self.xp.astype(part, wide) for part in (self.left, self.right))
        cross = self.xp.astype(self.inner.matmul(self.right.T), wide) @ left.T
        return self.inner.outer() - cross - cross.T + left @ ((right @ right.T) @ left.T)

    def scale_columns(self, factors: Array) -> ShiftedOperator:
        return ShiftedOperator(self.inner.scale_columns(factors), self.left, factors * self.right)

    def power_sums(self, power: int, weights: Array) -> Array:
        """Expand (x - l r)^power by the multinomial theorem.

        Products of columns of L that vanish are skipped: indicators of groups have one nonzero
        product for each power of each group.
        """
        xp, right = self.xp, self.xp.astype(self.right, self.xp.float64)
        total = self.inner.power_sums(power, weights)
        for exponents, product in _nonzero_products(to_numpy(self.left), power):
            degree = sum(exponents.values())
            coefficient = math.factorial(power) // math.factorial(power - degree)
            coefficients = xp.ones(self.shape[1], dtype=xp.float64)
            for k, exponent in exponents.items():
                coefficients = coefficients * right[k, :] ** exponent
                coefficient //= math.factorial(exponent)
            factors = from_numpy(product[:, None], weights, weights.dtype)
            if degree < power:
                sums = self.inner.power_sums(power - degree, factors * weights)
            else:
                sums = xp.sum(xp.astype(factors * weights, xp.float64), axis=0)[None, :]
            total = total + (-1) ** degree * coefficient * coefficients[:, None] * sums
        return total


def _nonzero_products(left: np.ndarray, power: int) -> Iterator[tuple[dict[int, int], np.ndarray]]:
    """Yield the nonzero products of 1 to ``power`` columns of L, with their exponents."""
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


class ShiftedFunction:
    """A function of blocks of X - L R as a function of blocks of X and rows of L.

    A class can be pickled for the workers of a cluster.
    """

    def __init__(self, f: Callable[..., Any], right: Array, entrywise: bool):
        self.f, self.right, self.entrywise = f, right, entrywise

    def __call__(self, block: Block, left: Array, *rows: Array) -> Any:
        if self.entrywise:
            return self.f(block - left @ self.right, *rows)
        return self.f(ShiftedRows(block, left, self.right), *rows)
