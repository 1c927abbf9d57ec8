"""Operators of dense matrices of any array API library."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
from array_api_compat import array_namespace, device, is_numpy_array

from ..arrays import Array, Namespace, from_numpy, on_accelerator, precision_of, to_numpy
from ..columns import Deviations, Extent
from .base import (
    ENTRIES_ON_ACCELERATOR,
    Block,
    Operator,
    integer_power,
    rough_column_sums,
    row_slices,
    sampled_rows,
)

# Number of terms of single-precision products, which are then summed in double precision.
_TERMS = 4096
_ENTRIES_PER_COLUMN_BLOCK = 2**18  # number of entries whose powers are computed at a time
MAX_NARROW_WIDTH = 64  # maximum number of columns of matrices stored by columns


class DenseOperator(Operator):
    """Dense matrix, centred by the caller."""

    def __init__(self, X: Array):
        self.X = X
        self.few_columns = 32 if on_accelerator(X) else 16
        self.xp = array_namespace(X)
        self.shape = X.shape
        self.dtype = X.dtype

    @property
    def like(self) -> Array:
        return self.X

    @property
    def whole(self) -> Array:
        return self.X

    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        if not entrywise:
            yield slice(0, self.shape[0]), self.X
            return
        size = (ENTRIES_ON_ACCELERATOR,) if on_accelerator(self.X) else ()
        for rows in row_slices(*self.shape, *size):
            yield rows, self.X[rows, :]

    def sample_rows(self, count: int) -> DenseOperator:
        return DenseOperator(self.X[sampled_rows(self.shape[0], count), :])

    def _take_columns(self, columns: Array) -> DenseOperator:
        return DenseOperator(self.xp.take(self.X, from_numpy(columns, self.X), axis=1))

    def remember_column_squares(self, squares: np.ndarray) -> None:
        self._column_squares = from_numpy(squares, self.X)

    def gram(self) -> Array:
        return _gram(self.X, self.xp)

    def outer(self) -> Array:
        return _gram(self.X.T, self.xp)

    def scale_columns(self, factors: Array) -> DenseOperator:
        return DenseOperator(self.X * factors)

    def scale_rows(self, factors: Array) -> DenseOperator:
        return DenseOperator(self.X * factors[:, None])

    def subtract_product(self, left: Array, right: Array) -> DenseOperator:
        return DenseOperator(self.X - left @ right)

    def power_sums(self, power: int, weights: Array) -> Array:
        # Each block of columns is multiplied once with all weights.
        size = ENTRIES_ON_ACCELERATOR if on_accelerator(self.X) else _ENTRIES_PER_COLUMN_BLOCK
        xp = self.xp
        sums = [
            integer_power(self.X[:, columns], power).T @ weights
            for columns in row_slices(self.shape[1], self.shape[0], size)
        ]
        return xp.astype(xp.concat(sums, axis=0), xp.float64)


def _gram(A: Array, xp: Namespace) -> Array:
    """Compute A'A in double precision."""
    if A.dtype == xp.float64:
        return A.T @ A
    parts = (A[rows, :] for rows in row_slices(A.shape[0], 1, _TERMS))
    first = next(parts)
    total = xp.astype(first.T @ first, xp.float64)
    for part in parts:
        total += xp.astype(part.T @ part, xp.float64)
    return total


def new_rows(X: Array, mean: Array, scale: Array) -> DenseOperator:
    """Return the operator of rows with known means and scales."""
    xp = array_namespace(X)
    return DenseOperator((xp.astype(X, _working_type(X)) - mean) / scale)


def _working_type(X: Array) -> object:
    """Return the dtype of calculations: float64 for NumPy, otherwise that of X."""
    return array_namespace(X).float64 if is_numpy_array(X) else X.dtype


class DenseRows:
    """Raw rows in one array, copied and standardised in place (`RawRows`)."""

    centred_in_products = False

    def __init__(self, X: Array, weights: np.ndarray | None = None):
        self.given = precision_of(X)
        self.Z = _fresh_copy(X)  # changed in place below
        self.working = precision_of(self.Z)
        self.xp = array_namespace(self.Z)
        self.weights = weights
        self.like = self.xp.empty(0, dtype=self.Z.dtype, device=device(self.Z))

    def extent(self) -> Extent:
        xp, Z = self.xp, self.Z
        low, high = (to_numpy(f(Z, axis=0)).astype(float) for f in (xp.min, xp.max))
        count = float(Z.shape[0]) if self.weights is None else float(self.weights.sum())
        return Extent(low, high, self._sums(rough=True), count)

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        Z = self.Z
        Z -= from_numpy(centre, Z, Z.dtype)
        if np.any(size != 1.0):
            Z *= from_numpy(1.0 / size, Z, Z.dtype)  # exact: powers of two
        self.Z, self.centre, self.size = Z, centre, size
        return Deviations(self._sums(), self._squares())

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        Z, centre, size = self.Z, self.centre[index], self.size[index]
        if index.size < Z.shape[1]:
            Z = self.xp.take(Z, from_numpy(index, Z), axis=1)
        Z -= from_numpy((shift - centre) / size, Z, Z.dtype)
        if np.any(factor * size != 1.0):
            Z *= from_numpy(factor * size, Z, Z.dtype)
        return DenseOperator(Z)

    def _sums(self, *, rough: bool = False) -> np.ndarray:
        """Sum each column; a rough sum is sufficient for the first centre."""
        if self.weights is not None:
            return self.weights @ self.Z
        if is_numpy_array(self.Z):
            return self.Z.sum(axis=0)
        return self._sum_blocks(lambda rows: rows, rough=rough)

    def _squares(self) -> np.ndarray:
        """Compute the squared norm of each column in double precision."""
        Z = self.Z
        if self.weights is not None:
            return np.einsum("i,ij,ij->j", self.weights, Z, Z)
        if is_numpy_array(Z):  # avoids a temporary matrix
            return np.einsum("ij,ij->j", Z, Z)
        return self._sum_blocks(lambda rows: rows * rows)

    def _sum_blocks(self, f: Callable[[Array], Array], *, rough: bool = False) -> np.ndarray:
        """Sum ``f`` over blocks of rows in double precision, to save GPU memory."""
        xp, Z = self.xp, self.Z

        def sums(rows: slice) -> Array:
            block = f(Z[rows, :])
            if rough:
                return rough_column_sums(block, xp)
            return xp.sum(block, axis=0, dtype=xp.float64)

        parts = map(sums, row_slices(Z.shape[0], Z.shape[1], ENTRIES_ON_ACCELERATOR))
        total = next(parts)
        for part in parts:
            total = total + part
        return to_numpy(total)


def _fresh_copy(X: Array) -> Array:
    """Copy to the working dtype; store narrow matrices by columns."""
    if is_numpy_array(X) and X.shape[1] <= MAX_NARROW_WIDTH:
        return np.array(X, dtype=np.float64, order="F")
    return array_namespace(X).astype(X, _working_type(X), copy=True)
