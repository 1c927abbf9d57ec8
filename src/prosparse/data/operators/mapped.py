"""Tables in a file, larger than memory perhaps: a NumPy memory map, read block by block."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from .base import row_slices
from .blocks import Source

# Smaller maps are read into memory like any array.
IN_MEMORY = 2**28  # bytes
ENTRIES_PER_READ = 2**22
ROWS_PER_SAMPLE = 64
SHARED = ("r", "r+", "w+")  # modes in which the file holds all that the memory does


def is_large_map(X: Any) -> bool:
    """Whether ``X`` is a memory map too large to be copied into memory without being asked."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY


class MappedRows(Source):
    """The rows of a memory map, read through the map itself.

    Pages of a map that were read count as memory of the process, so that they are handed back
    after every block, where the system lets us: the file still has them. A copy-on-write map
    (mode "c") keeps its pages, and so does one that does not know how it was made (a view of an
    array): what was changed in memory may be nowhere else.
    """

    def __init__(self, X: np.memmap):
        self.X = X
        self.shape, self.dtype = X.shape, X.dtype
        self.pages = _mapping(X) if X.mode in SHARED else None

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_slices(*self.shape, ENTRIES_PER_READ):
            yield rows, self._read(rows)

    def _read(self, rows: slice) -> np.ndarray:
        block = np.array(self.X[rows])
        if self.pages is not None:
            self.pages.madvise(mmap.MADV_DONTNEED)
        return block

    def every(self, step: int) -> np.ndarray:
        # Every row read drags its neighbours into memory: a few of them at a time.
        reach = ROWS_PER_SAMPLE * step
        edges = range(0, self.shape[0], reach)
        return np.concatenate([self._read(slice(low, low + reach, step)) for low in edges])


def _mapping(X: np.memmap) -> mmap.mmap | None:
    """The mapping behind a memory map or a view of one, where its pages can be handed back."""
    base: Any = X
    while isinstance(base, np.ndarray):
        base = base.base
    known = isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")
    return base if known else None
