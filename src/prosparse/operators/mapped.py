"""Tables in a file, larger than memory perhaps: a NumPy memory map, read block by block."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, Literal

import numpy as np

from .base import Array, row_slices
from .blocks import Parts, Source, add

# Smaller maps are read into memory like any array.
IN_MEMORY = 2**28  # bytes
ENTRIES_PER_READ = 2**22
ROWS_PER_SAMPLE = 64


def is_large_map(X: Any) -> bool:
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY


class MappedRows(Source):
    """The rows of a memory map.

    Pages of a map that were read count as memory of the process until the map is closed, so
    every block is read through a map of its own.
    """

    def __init__(self, X: np.memmap):
        self.X = X
        self.shape, self.dtype = X.shape, X.dtype
        # A slice of a map does not know where in the file it begins.
        contiguous = X.flags.c_contiguous or X.flags.f_contiguous
        self.whole = contiguous and not isinstance(X.base, np.memmap)

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_slices(*self.shape, ENTRIES_PER_READ):
            yield rows, self._read(rows)

    def _read(self, rows: slice) -> np.ndarray:
        X = self.X
        if self.whole and X.filename is not None:
            order: Literal["C", "F"] = "C" if X.flags.c_contiguous else "F"
            X = np.memmap(X.filename, X.dtype, "r", X.offset, self.shape, order)
        return np.array(X[rows])

    def every(self, step: int) -> np.ndarray:
        # Every row read drags its neighbours into memory: a few of them per map.
        reach = ROWS_PER_SAMPLE * step
        edges = range(0, self.shape[0], reach)
        return np.concatenate([self._read(slice(low, low + reach, step)) for low in edges])

    def reduce(
        self,
        f: Callable[..., Parts],
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        total: Parts | None = None
        for rows, raw in self.blocks():
            part = f(raw, *(array[rows] for array in row_arrays))
            total = part if total is None else combine(total, part)
        assert total is not None
        return total

    def map(self, f: Callable[..., Array], row_arrays: tuple[Array, ...] = ()) -> Array:
        parts = [f(raw, *(array[rows] for array in row_arrays)) for rows, raw in self.blocks()]
        return np.concatenate(parts)

    gather = map
