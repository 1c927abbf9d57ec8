"""Dense tables of any array API library (NumPy, Torch, CuPy, JAX, array_api_strict)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array

from ..arrays import host, in_kind, on_accelerator
from .base import ENTRIES_ON_ACCELERATOR, Array, Block, Operator, row_slices
from .standardise import LARGEST_SCALE, SMALLEST_SCALE, Columns, check_range, unit_of

# Single-precision products are added up in double precision after this many terms.
_TERMS = 4096
NARROW = 64  # columns


class DenseOperator(Operator):
    """A dense table that has been centred already."""

    def __init__(self, X: Array):
        self.X = X
        self.xp = array_namespace(X)
        self.shape = X.shape
        self.dtype = X.dtype

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), self.X
            return
        size = (ENTRIES_ON_ACCELERATOR,) if on_accelerator(self.X) else ()
        for rows in row_slices(*self.shape, *size):
            yield rows, self.X[rows, :]

    def sample_rows(self, count: int) -> DenseOperator:
        return DenseOperator(self.X[:: max(1, self.shape[0] // count), :])

    def take_columns(self, columns: Array) -> DenseOperator:
        return DenseOperator(self.xp.take(self.X, in_kind(columns, self.X), axis=1))

    def gram(self) -> Array:
        return _gram(self.X, self.xp)

    def outer(self) -> Array:
        return _gram(self.X.T, self.xp)


def _gram(A: Array, xp: Any) -> Array:
    """A'A in double precision."""
    if A.dtype == xp.float64:
        return A.T @ A
    parts = (A[rows, :] for rows in row_slices(A.shape[0], 1, _TERMS))
    first = next(parts)
    total = xp.astype(first.T @ first, xp.float64)
    for part in parts:
        total += xp.astype(part.T @ part, xp.float64)
    return total


def working_type(X: Array) -> Any:
    """The type to calculate in: double on the host's own arrays, else what the user chose.

    Cards have little memory and are slow in double precision; of NumPy's arrays only blocks or
    one copy are ever converted.
    """
    xp = array_namespace(X)
    return xp.float64 if is_numpy_array(X) else X.dtype


def _fresh_copy(X: Array) -> Array:
    """In the working type; what goes along the rows of a narrow table pays for every row, so
    that its columns are put one after another."""
    if is_numpy_array(X) and X.shape[1] <= NARROW:
        return np.array(X, dtype=np.float64, order="F")
    return array_namespace(X).astype(X, working_type(X), copy=True)


def _squares(Z: Array) -> Array:
    """Squared norm of every column, in double precision."""
    if is_numpy_array(Z):  # without a temporary table, whose fresh pages cost more than the sum
        return np.einsum("ij,ij->j", Z, Z)
    xp = array_namespace(Z)
    return xp.sum(Z * Z, axis=0, dtype=xp.float64)


def standardise_dense(X: Array, scale: bool) -> tuple[DenseOperator, Columns]:
    """Centre (and scale) into one fresh copy; see `Columns` for what is remembered."""
    xp, n = array_namespace(X), X.shape[0]
    Z = _fresh_copy(X)  # from here on in place
    top, bottom = xp.max(Z, axis=0), xp.min(Z, axis=0)
    varying = top > bottom
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        mean = xp.sum(Z, axis=0, dtype=xp.float64) / n
        Z -= xp.astype(mean, Z.dtype)
        rest = xp.sum(Z, axis=0, dtype=xp.float64) / n  # the first mean carries rounding
        Z -= xp.astype(rest, Z.dtype)
        mean = xp.astype(mean + rest, Z.dtype)
        largest = xp.maximum(top - mean, mean - bottom)
    one = xp.ones_like(mean)
    if scale:
        largest = xp.where(varying, largest, one)
        check_range(host(largest).astype(float), SMALLEST_SCALE, LARGEST_SCALE)
        # Divide by the largest entry first: squares of 1e-170 are zero.
        Z /= largest
        variance = xp.astype(_squares(Z) / n, Z.dtype)
        deviation = xp.where(varying, xp.sqrt(variance), one)
        Z /= deviation
        columns = Columns(mean, largest * deviation, 1.0, varying)
    else:
        unit = unit_of(float(xp.max(xp.where(varying, largest, xp.zeros_like(mean)))))
        Z /= unit
        columns = Columns(mean, one, unit, varying)
    kept = np.flatnonzero(host(varying))
    if kept.size < varying.shape[0]:
        Z = xp.take(Z, in_kind(kept, X), axis=1)
    return DenseOperator(Z), columns
