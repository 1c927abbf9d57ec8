"""Threads and processes: how many the products of a fit take, and independent pieces of work beside
each other.

BLAS shares every product out among all cores and lets the threads wait for each other in a loop
that never sleeps. Beside other programs that is many times slower than one thread, and for small
products it never pays. A fit therefore asks once for what suits its table (`blas_threads`): one
thread, or for large tables as many as there are cores on which nobody else computes. A process
has one number of BLAS threads: while several fits run beside each other, the smallest of what they
asked for holds, and the last to end puts back what was there before. More threads than the user
allowed (``OPENBLAS_NUM_THREADS``, `threadpoolctl.threadpool_limits`) are never taken.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from joblib import effective_n_jobs
from sklearn.utils.parallel import Parallel, delayed
from threadpoolctl import LibController, ThreadpoolController

Piece = TypeVar("Piece")
Answer = TypeVar("Answer")

_MOST_THREADS = 8  # beyond, they wait for the interpreter more than they compute
# Entries of a table from which products with it take long enough to be shared out.
LARGE_TABLE = 2**20
# How often, and how many seconds apart, the computing processes are counted.
_COUNTS, _APART = 5, 1e-3


def usable_cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_cores() -> int:
    """Those on which no other process computes at the moment, at least one; all, where the system
    does not say."""
    counts = sorted(_others_computing() for _ in _moments())
    return max(1, min(usable_cores(), (os.cpu_count() or 1) - counts[len(counts) // 2]))


def _moments() -> Iterator[None]:
    """Some, so that a process that only wakes up now and then is not counted."""
    for k in range(_COUNTS):
        if k:
            time.sleep(_APART)
        yield


def _others_computing() -> int:
    """Threads of other processes that want a core: Linux counts those of all, of which ours go.

    Load averages, which other systems have, are about the last minute, and know of us too.
    """
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        if running <= 1:  # we, and nobody else
            return 0
        tasks = list(Path("/proc/self/task").iterdir())
    except (OSError, IndexError, ValueError):
        return 0
    ours = sum(_is_running(task) for task in tasks)
    return max(0, running - ours)


def _is_running(task: Path) -> bool:
    try:
        # number (name, which may hold anything) state ...
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except (OSError, IndexError):  # it has ended
        return False


# --- the threads of BLAS


class _Requests:
    """What the fits under way asked for."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.asked: dict[object, int] = {}
        self.before: list[int] = []  # threads of every library before the first of them

    def set(self, who: object, threads: int | None) -> None:
        """``threads`` for the fit ``who``; None when it has ended."""
        with self.lock:
            libraries = _libraries()
            if not self.asked:
                self.before = [library.num_threads or 1 for library in libraries]
            if threads is None:
                self.asked.pop(who, None)
            else:
                self.asked[who] = threads
            least = min(self.asked.values(), default=None)
            for library, before in zip(libraries, self.before, strict=True):
                wanted = before if least is None else min(before, least)
                if library.num_threads != wanted:
                    library.set_num_threads(wanted)


@cache
def _libraries() -> list[LibController]:
    """The BLAS libraries of this process; to look for them takes milliseconds."""
    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


_requests = _Requests()
_here = threading.local()  # .fits: those of this thread that are under way, the innermost last


@contextmanager
def blas_threads(threads: int = 1) -> Iterator[None]:
    """So many threads for the products within, or fewer."""
    who = object()
    fits = _here.__dict__.setdefault("fits", [])
    try:  # from here on, so that an interrupt leaves nothing behind
        fits.append(who)
        _requests.set(who, threads)
        yield
    finally:
        if who in fits:
            fits.remove(who)
        _requests.set(who, None)


def suit_blas_threads(entries: int) -> None:
    """As many threads as pay for a table of so many ``entries``, for the rest of the innermost
    `blas_threads` of this thread."""
    fits = getattr(_here, "fits", [])
    if fits and entries >= LARGE_TABLE and usable_cores() > 1:
        _requests.set(fits[-1], free_cores())


# --- pieces of work beside each other


def in_parallel(work: Callable[[Piece], Answer], pieces: Sequence[Piece]) -> list[Answer]:
    """``work`` of every piece, in their order, on as many threads as there are cores (NumPy lets go
    of the interpreter while it computes); what one raises is raised."""
    threads = min(usable_cores(), _MOST_THREADS, len(pieces))
    if threads < 2 or getattr(_here, "beside_others", False):
        return [work(piece) for piece in pieces]
    with blas_threads(1):  # a piece on one core: the others have pieces of their own
        workers = _workers(min(usable_cores(), _MOST_THREADS))
        answers = [workers.submit(work, piece) for piece in pieces]
        try:
            return [answer.result() for answer in answers]
        finally:  # nothing goes on behind the back of who catches what one raised
            for answer in answers:
                answer.cancel()
            wait(answers)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    """The threads that take pieces, kept from one call to the next: a fit asks hundreds of times,
    and on a busy machine to start and to end them takes longer than many a piece."""
    return ThreadPoolExecutor(threads, "prosparse", initializer=_begin_beside_others)


if hasattr(os, "register_at_fork"):  # a child process has none of the threads
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _begin_beside_others() -> None:
    """This thread is one of several: what it does in pieces, it does one after the other."""
    _here.beside_others = True


def in_processes(
    work: Callable[[Piece], Answer], pieces: Iterable[Piece], n_jobs: int | None, most: int
) -> list[Answer]:
    """``work`` of every piece, in their order, in processes of their own, for pieces that take
    long and hold the interpreter; of ``n_jobs``, as joblib counts them, no more than ``most``, the
    number of pieces, are used. One process is this one, and takes the pieces as they come."""
    jobs = min(effective_n_jobs(n_jobs), max(1, most))
    if jobs == 1:
        return [work(piece) for piece in pieces]
    run = Parallel(n_jobs=jobs)
    return list(run(delayed(_on_one_core)(work, piece) for piece in pieces))


def _on_one_core(work: Callable[[Piece], Answer], piece: Piece) -> Answer:
    with blas_threads(1):
        return work(piece)


def slices_of(length: int, step: int) -> list[slice]:
    """0 to ``length`` in slices of ``step``."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]
