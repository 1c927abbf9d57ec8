"""Number of BLAS threads, and parallel execution of independent tasks.

BLAS divides each product among all cores, and its threads wait for each other in a busy loop. If
other programs use the cores, several threads are many times slower than one; for small products,
they are never faster. A fit therefore requests a number of threads once (`blas_threads`): one, or
the number of idle cores for large data.

The number of BLAS threads is common to a process. While several fits run, the smallest request is
used, and the last fit to end restores the original number. The number that the user allows
(``OPENBLAS_NUM_THREADS``, `threadpoolctl.threadpool_limits`) is never exceeded.
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

Task = TypeVar("Task")
Result = TypeVar("Result")

_MAX_THREADS = 8  # maximum number of threads; more would wait for the interpreter lock
MIN_PARALLEL_ENTRIES = 2**20  # minimum number of entries for which BLAS uses several threads
# Number of counts of running threads, and seconds between counts.
_N_COUNTS, _COUNT_INTERVAL = 5, 1e-3


def usable_cores() -> int:
    """Return the number of cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def free_cores() -> int:
    """Return the number of idle cores, at least one.

    The median of several counts is robust to processes that run briefly. If the system does not
    report its load, all usable cores are regarded as idle.
    """
    counts = [_count_other_threads()]
    for _ in range(_N_COUNTS - 1):
        time.sleep(_COUNT_INTERVAL)
        counts.append(_count_other_threads())
    return max(1, min(usable_cores(), (os.cpu_count() or 1) - sorted(counts)[_N_COUNTS // 2]))


def _count_other_threads() -> int:
    """Count the running threads of other processes (Linux only; otherwise 0)."""
    try:
        running = int(Path("/proc/loadavg").read_text().split()[3].partition("/")[0])
        if running <= 1:  # only this process
            return 0
        tasks = list(Path("/proc/self/task").iterdir())
    except (OSError, IndexError, ValueError):
        return 0
    n_own = sum(_is_running(task) for task in tasks)
    return max(0, running - n_own)


def _is_running(task: Path) -> bool:
    try:
        # Format: number (name) state ...; the name may contain any character.
        return (task / "stat").read_text().rpartition(")")[2].split()[0] == "R"
    except (OSError, IndexError):  # the thread has ended
        return False


# --- the threads of BLAS


class _Requests:
    """Numbers of threads requested by the running fits."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.requested: dict[object, int] = {}
        self.original: list[int] = []  # number of threads of each library before the first fit

    def set(self, fit: object, threads: int | None) -> None:
        """Register the request of a fit; None removes it."""
        with self.lock:
            libraries = _libraries()
            if not self.requested:
                self.original = [library.num_threads or 1 for library in libraries]
            if threads is None:
                self.requested.pop(fit, None)
            else:
                self.requested[fit] = threads
            smallest = min(self.requested.values(), default=None)
            for library, original in zip(libraries, self.original, strict=True):
                target = original if smallest is None else min(original, smallest)
                if library.num_threads != target:
                    library.set_num_threads(target)


@cache
def _libraries() -> list[LibController]:
    """Find the BLAS libraries of this process, which takes milliseconds."""
    found = ThreadpoolController().lib_controllers
    return [library for library in found if library.user_api == "blas"]


_requests = _Requests()
_thread = threading.local()  # .fits: running fits of this thread, the innermost last


@contextmanager
def blas_threads(threads: int = 1) -> Iterator[None]:
    """Limit the number of BLAS threads within a context."""
    fit = object()
    fits = _thread.__dict__.setdefault("fits", [])
    try:  # includes the registration, so that an interrupt leaves no request
        fits.append(fit)
        _requests.set(fit, threads)
        yield
    finally:
        if fit in fits:
            fits.remove(fit)
        _requests.set(fit, None)


def adapt_blas_threads(entries: int) -> None:
    """Use all idle cores in the current fit if the data are large."""
    fits = getattr(_thread, "fits", [])
    if fits and entries >= MIN_PARALLEL_ENTRIES and usable_cores() > 1:
        _requests.set(fits[-1], free_cores())


# --- independent tasks


def in_parallel(work: Callable[[Task], Result], tasks: Sequence[Task]) -> list[Result]:
    """Run ``work`` on independent tasks in threads; return the results in order.

    Threads run in parallel because NumPy releases the interpreter lock. Exceptions are raised after
    all running tasks have ended.
    """
    threads = min(usable_cores(), _MAX_THREADS, len(tasks))
    if threads < 2 or getattr(_thread, "is_worker", False):
        return [work(task) for task in tasks]
    with blas_threads(1):  # one core per task
        workers = _workers(min(usable_cores(), _MAX_THREADS))
        results = [workers.submit(work, task) for task in tasks]
        try:
            return [result.result() for result in results]
        finally:  # no task runs on after an exception
            for result in results:
                result.cancel()
            wait(results)


@cache
def _workers(threads: int) -> ThreadPoolExecutor:
    """Return the thread pool, which is reused because starting it is slow."""
    return ThreadPoolExecutor(threads, "prosparse", initializer=_mark_as_worker)


if hasattr(os, "register_at_fork"):  # a forked process has no threads of its parent
    os.register_at_fork(after_in_child=_workers.cache_clear)


def _mark_as_worker() -> None:
    """Mark a thread of the pool, which runs nested tasks sequentially."""
    _thread.is_worker = True


def in_processes(
    work: Callable[[Task], Result], tasks: Iterable[Task], n_jobs: int | None, n_tasks: int
) -> list[Result]:
    """Run ``work`` on independent tasks in processes; return results in order.

    Processes are suitable for long tasks that hold the interpreter lock. With one job, each task is
    taken after the previous task has ended.
    """
    jobs = min(effective_n_jobs(n_jobs), max(1, n_tasks))
    if jobs == 1:
        return [work(task) for task in tasks]
    run = Parallel(n_jobs=jobs)
    return list(run(delayed(_run_on_one_core)(work, task) for task in tasks))


def _run_on_one_core(work: Callable[[Task], Result], task: Task) -> Result:
    with blas_threads(1):
        return work(task)


def slices_of(length: int, step: int) -> list[slice]:
    """Divide the range from 0 to ``length`` into slices of length ``step``."""
    return [slice(start, min(start + step, length)) for start in range(0, length, step)]


class Stopwatch:
    """Shorter of the wall-clock and processor times since the creation.

    Wall-clock time is increased by other programs, and processor time by several threads.
    """

    def __init__(self) -> None:
        self._wall, self._processor = time.perf_counter(), time.process_time()

    @property
    def seconds(self) -> float:
        """Time since the creation, in seconds."""
        return min(time.perf_counter() - self._wall, time.process_time() - self._processor)
