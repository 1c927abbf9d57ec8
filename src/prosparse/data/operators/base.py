"""What a model may ask of the data: a set of row blocks with two verbs.

A model never sees a NumPy array, a sparse matrix or a cluster. It sees an `Operator`
standing for the centred (and perhaps scaled) n x p table X and asks it to

* add up a function over blocks of rows, `sum_rows(f)`, or
* apply a function to every row, `map_rows(f)`.

A block understands ``block @ F`` and ``block.T @ Y``; with ``entrywise=True`` it is a
plain array of bounded size, for functions that look at single entries. Everything else
below is written once, in terms of these two verbs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from ..arrays import Array, from_numpy

Block = Any  # understands ``block @ F`` and ``block.T @ Y``; see above

# Entrywise blocks hold about this many entries: large enough to hide Python's overhead,
# small enough for a dozen temporaries to stay near the cache.
ENTRIES_PER_BLOCK = 2**17
# On a GPU every function call costs microseconds, whatever the size.
ENTRIES_ON_ACCELERATOR = 2**25
# Entries in single precision that are added up in it.
_TERMS_IN_SINGLE = 32


class Operator(ABC):
    """A centred n x p table, known only through sums and maps over its rows."""

    shape: tuple[int, int]
    xp: Any  # the array API namespace of everything that goes in and out
    dtype: Any  # of the blocks; sums of squares are in double precision all the same
    # A product with so many columns costs little more than with one; None where each is a pass.
    few_columns: int | None = None
    # Up to so many rows X X' costs about what some products with X cost.
    few_rows: int = 0
    _column_squares: Array = None

    @property
    def epsilon(self) -> float:
        """Relative rounding error of an entry of a product with X."""
        return float(self.xp.finfo(self.dtype).eps)

    @property
    def whole(self) -> Array | None:
        """The centred table as one array where it is in memory as such, else None: products can
        then be taken apart and decompositions are possible."""
        return None

    @abstractmethod
    def blocks(self, *, entrywise: bool = False) -> Iterator[tuple[slice, Block]]:
        """The rows, block by block, each with its position."""

    @abstractmethod
    def _taken(self, columns: Array) -> Operator:
        """The same rows on some of the columns, in the given order."""

    @abstractmethod
    def gram(self) -> Array:
        """X'X, p x p."""

    @abstractmethod
    def outer(self) -> Array:
        """X X', n x n."""

    def sum_rows(
        self, f: Callable[..., tuple[Array, ...]], *row_arrays: Array, entrywise: bool = False
    ) -> tuple[Array, ...]:
        """Sum over blocks of ``f(block, *rows of row_arrays)``, a tuple of arrays."""
        total: list[Array] = []
        for rows, block in self.blocks(entrywise=entrywise):
            part = f(block, *(array[rows, ...] for array in row_arrays))
            total = [a + b for a, b in zip(total, part, strict=True)] if total else list(part)
        return tuple(total)

    def map_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        """``f(block, *rows of row_arrays)`` for every block, stacked: one output row per row."""
        parts = [
            f(block, *(array[rows, ...] for array in row_arrays))
            for rows, block in self.blocks(entrywise=entrywise)
        ]
        return parts[0] if len(parts) == 1 else self.xp.concat(parts, axis=0)

    def gather_rows(
        self, f: Callable[..., Array], *row_arrays: Array, entrywise: bool = False
    ) -> Array:
        """`map_rows`, in memory even where that is lazy."""
        return self.map_rows(f, *row_arrays, entrywise=entrywise)

    def sample_rows(self, count: int) -> Operator:
        """About ``count`` rows at equal distances, in memory; all of them if there is no other
        way. For guesses that only save time."""
        return self

    def rough(self) -> Operator:
        """The same table for products that need few digits: in single precision, where these are
        then faster and no digit is lost to centring, or itself."""
        return self

    def take_columns(self, columns: Array) -> Operator:
        """The same rows on some of the columns, in the given order."""
        taken = self._taken(columns)
        if self._column_squares is not None:
            places = from_numpy(columns, self._column_squares)
            taken._column_squares = self.xp.take(self._column_squares, places, axis=0)
        return taken

    def matmul(self, F: Array) -> Array:
        """X F."""
        return self.map_rows(lambda block: block @ F)

    def gathered_matmul(self, F: Array) -> Array:
        """X F, in memory even where `matmul` is lazy."""
        return self.gather_rows(_Product(F))

    def rmatmul(self, Y: Array) -> Array:
        """X' Y."""
        return self.sum_rows(lambda block, rows: (block.T @ rows,), Y)[0]

    def column_squares(self) -> Array:
        """Squared norm of every column; one pass over the rows, the first time."""
        if self._column_squares is None:
            self._column_squares = self._sum_squares()
        return self._column_squares

    def remember_column_squares(self, squares: np.ndarray) -> None:
        """Spare that pass: whoever standardised the table knows them."""
        self._column_squares = squares

    def _sum_squares(self) -> Array:
        xp = self.xp
        return self.sum_rows(
            lambda block: (xp.sum(block * block, axis=0, dtype=xp.float64),), entrywise=True
        )[0]

    def column_fourth_powers(self) -> Array:
        """Sum of the fourth powers of every column's entries."""
        xp = self.xp

        def fourth_of(block: Array) -> tuple[Array]:
            squares = block * block  # a power would take many times as long
            return (rough_column_sums(squares * squares, xp),)

        return self.sum_rows(fourth_of, entrywise=True)[0]

    def row_squares(self) -> Array:
        """Squared norm of every row."""
        xp = self.xp
        return self.map_rows(
            lambda block: xp.sum(block * block, axis=1, dtype=xp.float64), entrywise=True
        )


class _Product:
    """``block @ F``; a class, so that it can travel to the workers of a cluster."""

    def __init__(self, F: Array):
        self.F = F

    def __call__(self, block: Block) -> Array:
        return block @ self.F


def rough_column_sums(block: Array, xp: Any) -> Array:
    """Sums over the rows in double precision, of entries in single precision to six digits.

    A few of these are added up before they are converted, which takes a GPU a fraction of the time.
    """
    rows = block.shape[0] // _TERMS_IN_SINGLE * _TERMS_IN_SINGLE
    if block.dtype == xp.float64 or rows == 0:
        return xp.sum(block, axis=0, dtype=xp.float64)
    few = xp.sum(xp.reshape(block[:rows, :], (-1, _TERMS_IN_SINGLE, block.shape[1])), axis=1)
    total = xp.sum(few, axis=0, dtype=xp.float64)
    if rows < block.shape[0]:
        total = total + xp.sum(block[rows:, :], axis=0, dtype=xp.float64)
    return total


def row_slices(n_rows: int, n_columns: int, entries: int = ENTRIES_PER_BLOCK) -> Iterator[slice]:
    """Cut ``n_rows`` rows into slices of about ``entries`` entries, at least one row each."""
    step = max(1, entries // max(1, n_columns))
    return (slice(start, min(start + step, n_rows)) for start in range(0, n_rows, step))
