"""Dense tables of any array API library (NumPy, Torch, CuPy, JAX, array_api_strict)."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from array_api_compat import array_namespace, device

from .base import Array, Block, Operator, row_slices
from .standardise import LARGEST_SCALE, SMALLEST_SCALE, Columns, check_range, unit_of


class DenseOperator(Operator):
    """A dense table that has been centred already."""

    def __init__(self, X: Array):
        self.X = X
        self.xp = array_namespace(X)
        self.shape = X.shape

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), self.X
            return
        for rows in row_slices(*self.shape):
            yield rows, self.X[rows, :]

    def take_columns(self, columns: Array) -> DenseOperator:
        return DenseOperator(self.xp.take(self.X, columns, axis=1))

    def gram(self) -> Array:
        return self.X.T @ self.X

    def outer(self) -> Array:
        return self.X @ self.X.T


def standardise_dense(X: Array, scale: bool) -> tuple[DenseOperator, Columns]:
    """Centre (and scale) into one fresh copy; see `Columns` for what is remembered."""
    xp = array_namespace(X)
    varying = xp.max(X, axis=0) > xp.min(X, axis=0)
    Z = xp.astype(X, xp.float64)  # a copy: from here on in place
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        mean = xp.mean(Z, axis=0)
        Z -= mean
        rest = xp.mean(Z, axis=0)  # second pass: the first mean carries rounding
        Z -= rest
        mean = mean + rest
    largest = xp.maximum(xp.max(Z, axis=0), -xp.min(Z, axis=0))
    largest = xp.where(varying, largest, xp.zeros_like(mean))
    one = xp.ones_like(mean)
    if scale:
        check_range(np.asarray(largest)[np.asarray(varying)], SMALLEST_SCALE, LARGEST_SCALE)
        # Divide by the largest entry first: squares of 1e-170 are zero.
        Z /= xp.where(varying, largest, one)
        deviation = xp.where(varying, xp.sqrt(xp.mean(Z * Z, axis=0)), one)
        Z /= deviation
        columns = Columns(mean, xp.where(varying, largest * deviation, one), 1.0, varying)
    else:
        unit = unit_of(float(xp.max(largest)))
        Z /= unit
        columns = Columns(mean, one, unit, varying)
    if not bool(xp.all(varying)):
        kept = xp.nonzero(varying)[0]
        Z = xp.take(Z, xp.asarray(kept, device=device(X)), axis=1)
    return DenseOperator(Z), columns
