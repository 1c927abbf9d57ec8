"""Observations with weights: row i counts w_i times, in means, scales and products."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from scipy.sparse import issparse

from .base import Array, Block, Operator
from .dense import DenseOperator
from .sparse import SparseOperator
from .standardise import Columns, unit_of


class WeightedRows:
    """diag(root) B for a block of rows B, understood by ``@`` alone."""

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
    """diag(root) X for another operator X: sums over rows are then weighted by root^2."""

    def __init__(self, inner: Operator, root: Array):
        self.inner, self.root = inner, root
        self.xp, self.shape, self.dtype = inner.xp, inner.shape, inner.dtype

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        for rows, block in self.inner.blocks(entrywise=entrywise):
            root = self.root[rows]
            yield rows, root[:, None] * block if entrywise else WeightedRows(block, root)

    def take_columns(self, columns: Array) -> WeightedOperator:
        return WeightedOperator(self.inner.take_columns(columns), self.root)

    def gram(self) -> Array:
        return self.sum_rows(lambda block: (block.T @ block,), entrywise=True)[0]

    def outer(self) -> Array:
        return self.root[:, None] * self.inner.outer() * self.root


def standardise_weighted(X: Any, scale: bool, weights: Array) -> tuple[Operator, Columns]:
    """As `standardise`, as if row i stood ``weights[i]`` times in the table."""
    X, weights = X[weights > 0], weights[weights > 0]
    total = float(weights.sum())
    if issparse(X):
        top, bottom = (m.toarray().ravel() for m in (X.max(axis=0), X.min(axis=0)))
    else:
        top, bottom = X.max(axis=0), X.min(axis=0)
    varying = top > bottom
    mean = np.asarray(X.T @ weights, dtype=float) / total
    largest = np.where(varying, np.maximum(top - mean, mean - bottom), 0.0)
    kept = np.flatnonzero(varying)
    inner: Operator
    if issparse(X):
        safe = np.where(largest > 0, largest, 1.0)
        inner = SparseOperator(X.astype(float)[:, kept], mean[kept], 1.0 / safe[kept])
    else:
        safe = np.where(largest > 0, largest, 1.0)
        inner = DenseOperator((X[:, kept].astype(float) - mean[kept]) / safe[kept])
    op = WeightedOperator(inner, np.sqrt(weights))
    unit, deviation = 1.0, np.ones_like(mean)
    if scale:
        # entries were divided by the largest first: squares of 1e-170 are zero
        deviation[kept] = safe[kept] * np.sqrt(op.column_squares() / total)
    else:
        unit = unit_of(float(largest.max(initial=0.0)))
    factor = safe[kept] / (deviation[kept] * unit)
    if isinstance(inner, SparseOperator):
        inner.factor = inner.factor * factor
    elif isinstance(inner, DenseOperator):
        inner.X *= factor
    return WeightedOperator(inner, op.root), Columns(mean, deviation, unit, varying)
