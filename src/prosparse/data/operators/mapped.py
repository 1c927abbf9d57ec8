"""Memory maps of NumPy, read block by block."""

from __future__ import annotations

import mmap
from collections.abc import Iterator
from typing import Any

import numpy as np

from .base import row_slices
from .blocks import Source

IN_MEMORY = 2**28  # maximum size in bytes of maps that are read into memory
ENTRIES_PER_READ = 2**22  # approximate number of entries of a block
ROWS_PER_SAMPLE = 64  # number of sampled rows per read
SHARED_MODES = ("r", "r+", "w+")  # modes in which changes in memory are written to the file


def is_large_map(X: Any) -> bool:
    """Return whether ``X`` is a memory map too large to be copied into memory."""
    return isinstance(X, np.memmap) and X.ndim == 2 and X.nbytes > IN_MEMORY


class MappedRows(Source):
    """Rows of a memory map.

    Pages count as memory of the process and are released after each block. Maps of mode "c"
    (copy-on-write) or of unknown mode (a view) keep their pages, because changes may exist only in
    memory.
    """

    def __init__(self, X: np.memmap):
        self.X = X
        self.shape, self.dtype = X.shape, X.dtype
        self.pages = _mapping(X) if X.mode in SHARED_MODES else None

    def blocks(self) -> Iterator[tuple[slice, np.ndarray]]:
        for rows in row_slices(*self.shape, ENTRIES_PER_READ):
            yield rows, self._read(rows)

    def _read(self, rows: slice) -> np.ndarray:
        block = np.array(self.X[rows])
        if self.pages is not None:
            self.pages.madvise(mmap.MADV_DONTNEED)
        return block

    def every(self, step: int) -> np.ndarray:
        # Reading a row loads its whole page, so that few rows are read before pages are released.
        span = ROWS_PER_SAMPLE * step
        starts = range(0, self.shape[0], span)
        return np.concatenate([self._read(slice(low, low + span, step)) for low in starts])


def _mapping(X: np.memmap) -> mmap.mmap | None:
    """Return the mapping behind a memory map if its pages can be released."""
    base: Any = X
    while isinstance(base, np.ndarray):
        base = base.base
    can_release = isinstance(base, mmap.mmap) and hasattr(mmap, "MADV_DONTNEED")
    return base if can_release else None
