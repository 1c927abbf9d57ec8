"""Independent pieces of work on arrays, on as many threads as there are cores: NumPy lets go of the
interpreter while it computes."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

from threadpoolctl import ThreadpoolController

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

_MOST_THREADS = 8  # beyond, they wait for the interpreter more than they compute


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def in_parallel(work: Callable[[Piece], Answer], pieces: Sequence[Piece]) -> list[Answer]:
    """``work`` of every piece, in their order; what one raises is raised."""
    threads = min(usable_cores(), _MOST_THREADS, len(pieces))
    if threads < 2:
        return [work(piece) for piece in pieces]
    # each product of a piece on one core: the others have pieces of their own
    with _libraries().limit(limits=1, user_api="blas"), ThreadPoolExecutor(threads) as pool:
        return list(pool.map(work, pieces))


@cache
def _libraries() -> ThreadpoolController:
    """The libraries of this process that have threads; to look for them takes milliseconds."""
    return ThreadpoolController()


def slices_of(length: int, step: int) -> list[slice]:
    """0 to ``length`` in slices of ``step``."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
