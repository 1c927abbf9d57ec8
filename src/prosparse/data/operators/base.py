"""Interface between models and data: sums and maps over blocks of rows.

Models do not use NumPy arrays, sparse matrices or clusters directly. An `Operator` represents the
centred (and optionally scaled) n x p data matrix X. Models call

* `sum_rows(f)` to sum a function over blocks of rows, or
* `map_rows(f)` to apply a function to each row.

A block supports ``block @ F`` and ``block.T @ Y``. With ``entrywise=True``, a block is a plain
array of bounded size, for functions of single entries. All other methods are based on these two.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from array_api_compat import array_namespace

from ..arrays import Array, from_numpy, to_numpy
from .shadows import Shadows

Block = Any  # supports ``block @ F`` and ``block.T @ Y``
Parts = tuple[Array, ...]
RowFunction = Callable[..., Any]  # function of a block and of rows of further arrays

# Approximate number of entries of entrywise blocks. Blocks are so large that Python's overhead is
# small, and so small that a dozen temporary arrays fit into the cache.
ENTRIES_PER_BLOCK = 2**17
# Blocks are larger on a GPU, where each function call takes microseconds for any size.
ENTRIES_ON_ACCELERATOR = 2**25
# Number of products of stored entries, per entry of X, that take as long as a conversion to a dense
# block.
_MIN_ENTRIES_PER_CONVERSION = 2.5
_MAX_SPARSE_DENSITY = 0.5  # maximum density for sums of squares of the stored entries
_TERMS_IN_SINGLE = 32  # number of entries that are summed in single precision


class Operator(ABC):
    """Centred n x p data matrix, accessed by sums and maps over its rows."""

    shape: tuple[int, int]
    xp: Any  # array API namespace of all arguments and results
    dtype: Any  # dtype of the blocks; sums of squares are in double precision
    # Number of columns for which a product costs little more than for one column; None if reading
    # the data dominates the cost.
    few_columns: int | None = None
    density: float = 1.0  # proportion of entries that are stored
    _column_squares: Array = None

    @property
    def epsilon(self) -> float:
        """Relative rounding error of an entry of a product with X."""
        return float(self.xp.finfo(self.dtype).eps)

    @property
    def like(self) -> Array:
        """Array in the library and on the device of all arguments and results."""
        return self.column_squares()

    @property
    def whole(self) -> Array | None:
        """Centred matrix as one array, or None if it is not in memory."""
        return None

    @abstractmethod
    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        """Yield the blocks of rows in order, each with its slice."""

    @abstractmethod
    def _take_columns(self, columns: Array) -> Operator:
        """Select columns in the given order."""

    @abstractmethod
    def gram(self) -> Array:
        """Compute X'X of shape (p, p)."""

    @abstractmethod
    def outer(self) -> Array:
        """Compute X X' of shape (n, n)."""

    def sum_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Parts:
        """Sum the tuple of arrays ``f(block, *rows of row_arrays)`` over blocks."""
        total: list[Array] = []
        for rows, block in self.blocks(entrywise=entrywise):
            part = f(block, *(array[rows, ...] for array in row_arrays))
            total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
        return tuple(total)

    def map_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        """Stack ``f(block, *rows of row_arrays)``, with one result per row."""
        parts = [
            f(block, *(array[rows, ...] for array in row_arrays))
            for rows, block in self.blocks(entrywise=entrywise)
        ]
        return parts[0] if len(parts) == 1 else self.xp.concat(parts, axis=0)

    def gather_rows(self, f: RowFunction, *row_arrays: Array, entrywise: bool = False) -> Array:
        """Compute `map_rows` in memory, even if the operator is lazy."""
        return self.map_rows(f, *row_arrays, entrywise=entrywise)

    @abstractmethod
    def sample_rows(self, count: int) -> Operator:
        """Return the rows of `sampled_rows` in memory."""

    def rough(self) -> Operator:
        """Return an operator for fast products of low accuracy."""
        return self

    def take_columns(self, columns: Array) -> Operator:
        """Select columns in the given order."""
        taken = self._take_columns(columns)
        if self._column_squares is not None:
            index = from_numpy(columns, self._column_squares)
            taken._column_squares = self.xp.take(self._column_squares, index, axis=0)
        return taken

    def matmul(self, F: Array) -> Array:
        """Compute X F."""
        return self.map_rows(lambda block: block @ F)

    def gathered_matmul(self, F: Array) -> Array:
        """Compute X F in memory, even if `matmul` is lazy."""
        return self.gather_rows(_Product(F))

    def rmatmul(self, Y: Array) -> Array:
        """Compute X'Y."""
        return self.sum_rows(lambda block, rows: (block.T @ rows,), Y)[0]

    def column_squares(self) -> Array:
        """Compute the squared norm of each column; the result is cached."""
        if self._column_squares is None:
            self._column_squares = self._sum_squares()
        return self._column_squares

    def remember_column_squares(self, squares: np.ndarray) -> None:
        """Cache the squared norms of the columns from the standardiser."""
        self._column_squares = squares

    def _sum_squares(self) -> Array:
        xp = self.xp
        if self.density < _MAX_SPARSE_DENSITY:
            ones = xp.ones((self.shape[0], 1), dtype=self.dtype)
            return self.sum_rows(StoredPowerSums(2), ones)[0][:, 0]
        return self.sum_rows(
            lambda block: (xp.sum(block * block, axis=0, dtype=xp.float64),), entrywise=True
        )[0]

    def power_sums(self, power: int, weights: Array) -> Array:
        """Compute sum_i x_ij^power weights_ik, (p, k), in double precision.

        With many weights, sparse blocks are converted to dense blocks, because dense products are
        faster despite the zeros.
        """
        if self.density < min(1.0, _MIN_ENTRIES_PER_CONVERSION / max(weights.shape[1], 1)):
            return self.sum_rows(StoredPowerSums(power), weights)[0]
        return self.sum_rows(_PowerSums(power), weights, entrywise=True)[0]

    def row_squares(self) -> Array:
        """Compute the squared norm of each row."""
        xp = self.xp
        return self.map_rows(
            lambda block: xp.sum(block * block, axis=1, dtype=xp.float64), entrywise=True
        )

    def dense(self) -> Array:
        """Return the centred matrix as one array in memory."""
        return self.gather_rows(_identity, entrywise=True)

    @abstractmethod
    def scale_columns(self, factors: Array) -> Operator:
        """Return X diag(factors)."""

    def unit_variance(self) -> Operator:
        """Scale the columns to variance 1; no column may be zero."""
        (n, p), like = self.shape, self.column_squares()
        factors = np.sqrt(n / to_numpy(like).astype(float))
        scaled = self.scale_columns(from_numpy(factors, like, self.dtype))
        scaled.remember_column_squares(np.full(p, float(n)))
        return scaled

    def scale_rows(self, factors: Array) -> Operator:
        """Return diag(factors) X."""
        from .weighted import WeightedOperator

        return WeightedOperator(self, factors)

    def with_shadows(self, shadows: Shadows) -> Operator:
        """Append shadows of the columns to the matrix.

        The result is in memory unless a subclass is lazy.
        """
        from .dense import DenseOperator

        return DenseOperator(shadows.append_to(self.dense(), np.arange(self.shape[0])))

    def subtract_product(self, left: Array, right: Array) -> Operator:
        """Return X - left right, for left (n, k) and right (k, p) with small k."""
        from .shifted import ShiftedOperator

        return ShiftedOperator(self, left, right)


class LazyRows(ABC):
    """Block of rows that is never formed; supports only ``@`` and ``.T @``."""

    @abstractmethod
    def __matmul__(self, F: Array) -> Array:
        """Compute the product with F."""

    @abstractmethod
    def rmatmul(self, Y: Array) -> Array:
        """Compute the product of the transpose with Y."""

    @abstractmethod
    def scaled(self) -> Any:
        """Compute the stored entries plus L R (see `background`), as a CSR array."""

    @abstractmethod
    def background(self) -> tuple[Array, Array]:
        """Return L (n, k) and R (k, p); entries that are not stored are -L R."""

    def stored(self) -> Any:
        """Compute the entries at the stored positions, as a CSR array."""
        S = self.scaled()
        S.data = S.data - low_rank_entries(*self.background(), S)
        return S

    @property
    def T(self) -> LazyColumns:
        return LazyColumns(self)


class LazyColumns:
    """Transpose of `LazyRows`."""

    def __init__(self, rows: LazyRows):
        self.rows = rows

    def __matmul__(self, Y: Array) -> Array:
        return self.rows.rmatmul(Y)


class _Product:
    """The function ``block @ F`` as a class that can be pickled."""

    def __init__(self, F: Array):
        self.F = F

    def __call__(self, block: Block) -> Array:
        return block @ self.F


def _identity(block: Array) -> Array:
    return block


class _PowerSums:
    """The function ``(block^power)' rows`` as a class that can be pickled."""

    def __init__(self, power: int):
        self.power = power

    def __call__(self, block: Array, rows: Array) -> tuple[Array]:
        xp = array_namespace(block)
        return (xp.astype(integer_power(block, self.power).T @ rows, xp.float64),)


class StoredPowerSums:
    """The function ``(block^power)' rows`` for sparse `LazyRows`.

    Powers of the stored entries are summed directly. All other entries equal those of a low-rank
    matrix, whose powers are summed over all rows minus the stored positions. Expansion of the
    powers of stored entries would lose digits by cancellation. If all entries of a column are
    stored, the sum over the others is exactly 0.
    """

    def __init__(self, power: int):
        self.power = power

    def __call__(self, block: LazyRows, rows: Array) -> tuple[Array]:
        powers, (left, right) = block.scaled(), block.background()
        n, p = powers.shape
        rows = rows.astype(powers.dtype, copy=False)
        low_rank = low_rank_entries(left, right, powers)
        powers.data = integer_power(powers.data - low_rank, self.power)
        total = (powers.T @ rows).astype(np.float64)
        if left.shape[1]:
            powers.data = integer_power(low_rank, self.power)
            absent = _sum_low_rank_powers(left, right, self.power, rows) - powers.T @ rows
            count = np.bincount(powers.indices, minlength=p)
            total += (-1.0) ** self.power * np.where(count[:, None] < n, absent, 0.0)
        return (total,)


def low_rank_entries(left: Array, right: Array, S: Any) -> Array:
    """Compute the entries of ``left @ right`` at stored positions of S."""
    counts, columns = np.diff(S.indptr), S.indices
    if left.shape[1] == 0:
        return np.zeros_like(S.data)
    entries = np.repeat(left[:, 0], counts) * right[0, columns]
    for k in range(1, left.shape[1]):
        entries += np.repeat(left[:, k], counts) * right[k, columns]
    return np.asarray(entries)


def _sum_low_rank_powers(left: Array, right: Array, power: int, weights: Array) -> Array:
    """Compute sum_i (L R)_ij^power weights_ik by the multinomial theorem, (p, k).

    Products of columns of L that vanish are skipped, because indicators of groups have one nonzero
    product for each power of each group.
    """
    left, right, weights = (part.astype(np.float64) for part in (left, right, weights))
    total = np.zeros((right.shape[1], weights.shape[1]))
    products: list[tuple[tuple[int, ...], np.ndarray]] = [((), np.ones(left.shape[0]))]
    for _ in range(power):
        products = [
            ((*chosen, k), column)
            for chosen, product in products
            for k in range(chosen[-1] if chosen else 0, left.shape[1])
            if (column := product * left[:, k]).any()
        ]
    for chosen, product in products:
        repeats = np.unique(chosen, return_counts=True)[1]
        coefficient = math.factorial(power) / math.prod(map(math.factorial, repeats.tolist()))
        total += np.outer(coefficient * np.prod(right[list(chosen)], axis=0), product @ weights)
    return total


def integer_power(block: Array, power: int) -> Array:
    """Compute a power by multiplication, faster than ``block**power``."""
    result = block
    for digit in f"{power:b}"[1:]:
        result = result * result
        if digit == "1":
            result = result * block
    return result


def rough_column_sums(block: Array, xp: Any) -> Array:
    """Sum over the rows of a block in double precision.

    Groups of a few entries are first summed in single precision, which is much faster on a GPU.
    """
    rows = block.shape[0] // _TERMS_IN_SINGLE * _TERMS_IN_SINGLE
    if block.dtype == xp.float64 or rows == 0:
        return xp.sum(block, axis=0, dtype=xp.float64)
    few = xp.sum(xp.reshape(block[:rows, :], (-1, _TERMS_IN_SINGLE, block.shape[1])), axis=1)
    total = xp.sum(few, axis=0, dtype=xp.float64)
    if rows < block.shape[0]:
        total = total + xp.sum(block[rows:, :], axis=0, dtype=xp.float64)
    return total


def sampled_rows(n_rows: int, count: int) -> slice:
    """Return a slice of at least ``count`` evenly spaced rows."""
    return slice(None, None, max(1, n_rows // count))


def row_slices(n_rows: int, n_columns: int, entries: int = ENTRIES_PER_BLOCK) -> Iterator[slice]:
    """Divide rows into slices of at least one row and about ``entries`` entries."""
    step = max(1, entries // max(1, n_columns))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
