"""Threads of BLAS, and independent tasks on threads and processes."""

import multiprocessing
import os
import threading
import time
from types import SimpleNamespace

import numpy as np
import pytest
from joblib import parallel_config
from scipy.sparse import csr_array
from threadpoolctl import threadpool_limits

from prosparse import GSPPCA, ParameterError, parallel
from prosparse.errors import check_jobs
from prosparse.models._base import VariableSelector, _largest_dense_size
from prosparse.parallel import (
    adapt_blas_threads,
    blas_threads,
    free_cores,
    in_parallel,
    in_processes,
)

pytestmark = pytest.mark.quick


class Library:
    def __init__(self, threads):
        self.num_threads = threads

    def set_num_threads(self, threads):
        self.num_threads = threads


@pytest.fixture
def blas(monkeypatch):
    """Two libraries of four threads and three, on four cores."""
    libraries = [Library(4), Library(3)]
    monkeypatch.setattr(parallel, "_libraries", lambda: libraries)
    # Fits that other tests interrupted have no effect.
    monkeypatch.setattr(parallel, "_requests", parallel._Requests())
    monkeypatch.setattr(parallel, "_thread", threading.local())
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel, "free_cores", lambda: 2)
    return SimpleNamespace(threads=lambda: [library.num_threads for library in libraries])


def test_the_original_number_of_threads_is_restored(blas):
    with blas_threads():
        assert blas.threads() == [1, 1]
    assert blas.threads() == [4, 3]
    with pytest.raises(ZeroDivisionError), blas_threads():
        _ = 1 / 0
    assert blas.threads() == [4, 3]


def test_requests_never_exceed_the_original_number(blas):
    with blas_threads(100):
        assert blas.threads() == [4, 3]


def test_large_data_use_the_idle_cores(blas):
    adapt_blas_threads(10**9)  # no effect outside of a fit
    assert blas.threads() == [4, 3]
    with blas_threads():
        adapt_blas_threads(1000)
        assert blas.threads() == [1, 1]
        adapt_blas_threads(10**9)
        assert blas.threads() == [2, 2]
        with blas_threads():  # a nested fit
            assert blas.threads() == [1, 1]
        assert blas.threads() == [2, 2]
    assert blas.threads() == [4, 3]


def test_overlapping_fits_restore_the_original_number(blas):
    """The fit that starts first ends first: the number is restored after the last one."""
    started, finish = threading.Event(), threading.Event()

    def other():
        with blas_threads():
            started.set()
            finish.wait(10)

    thread = threading.Thread(target=other)
    with blas_threads():
        thread.start()
        assert started.wait(10)
    assert blas.threads() == [1, 1]
    finish.set()
    thread.join()
    assert blas.threads() == [4, 3]


def test_nested_tasks_run_sequentially(monkeypatch):
    """Nested threads would exceed the number of cores."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 3)

    def outer(_):
        thread = threading.get_ident()
        return in_parallel(lambda _: threading.get_ident() == thread, range(4))

    assert in_parallel(outer, range(3)) == [[True] * 4] * 3


def test_parallel_tasks_use_one_blas_thread_each(blas):
    seen = in_parallel(lambda task: (task, blas.threads()), list(range(5)))
    assert seen == [(task, [1, 1]) for task in range(5)]
    assert blas.threads() == [4, 3]


def test_an_exception_is_raised_after_the_other_tasks_have_ended(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    started, ended = threading.Event(), threading.Event()

    def work(task):
        if task == 0:
            started.wait(10)
            raise ZeroDivisionError
        started.set()
        time.sleep(0.05)
        ended.set()

    with pytest.raises(ZeroDivisionError):
        in_parallel(work, range(2))
    assert ended.is_set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # since Python 3.12
@pytest.mark.filterwarnings("ignore:os.fork:RuntimeWarning")  # if JAX is imported
def test_a_forked_process_starts_new_workers(monkeypatch):
    """The threads of the parent do not exist in the child."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    both = threading.Barrier(2)
    in_parallel(lambda _: both.wait(10), range(2))
    time.sleep(0.05)  # both threads become idle
    child = multiprocessing.get_context("fork").Process(target=in_parallel, args=(abs, [-1, -2]))
    child.start()
    child.join(10)
    hangs = child.is_alive()
    if hangs:
        child.kill()
        child.join()
    assert not hangs
    assert child.exitcode == 0


@pytest.mark.slow
def test_data_on_an_accelerator_need_no_blas_threads():
    torch = pytest.importorskip("torch")
    assert _largest_dense_size(torch.ones((20, 30))) == 600
    assert _largest_dense_size(torch.ones((20, 30), device="meta")) == 0


@pytest.mark.parametrize(
    ("table", "threads"),
    [
        (np.ones((20, 30)), [1, 1]),
        (np.ones((1100, 1000)), [2, 2]),
        # BLAS multiplies only the Gram matrix of sparse data, which is not formed if it is large.
        (csr_array((3000, 4000)), [1, 1]),
        (csr_array((1100, 4000)), [2, 2]),
    ],
    ids=["small", "large", "large and sparse", "with a large Gram matrix"],
)
def test_fits_adapt_the_number_of_threads_to_their_data(blas, table, threads):
    class Watched(VariableSelector):
        def fit(self, X):
            with self._fitting():
                self._validate(X, reset=True)
                self.seen_ = blas.threads()
            return self

    assert Watched().fit(table).seen_ == threads
    assert blas.threads() == [4, 3]


def test_limits_apply_to_the_blas_libraries(rng, monkeypatch):
    """The limit of the user is restored after the fit."""
    seen, validated = [], GSPPCA._validate

    def watched(self, X, *, reset):
        seen.append([library.num_threads for library in parallel._libraries()])
        return validated(self, X, reset=reset)

    monkeypatch.setattr(GSPPCA, "_validate", watched)
    assert parallel._libraries()
    with threadpool_limits(2, user_api="blas"):
        GSPPCA(1).fit(rng.standard_normal((20, 6)) + rng.standard_normal((20, 1)))
        after = [library.num_threads for library in parallel._libraries()]
    assert set(seen[0]) == {1}
    assert set(after) == {2}


@pytest.mark.parametrize(("running", "free"), [(1, 4), (2, 3), (4, 1), (9, 1)])
def test_busy_cores_are_not_free(running, free, monkeypatch):
    """One of the running processes is this one."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(parallel, "_count_other_threads", lambda: running - 1)
    assert free_cores() == free


def test_brief_activity_of_other_processes_is_ignored(monkeypatch):
    counts = iter([0, 3, 0, 0, 1])
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(parallel, "_count_other_threads", lambda: next(counts))
    assert free_cores() == 4


def test_all_cores_are_free_if_the_system_reports_no_load(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(parallel.Path, "read_text", missing)
    assert parallel._count_other_threads() == 0


# --- processes


def test_results_keep_their_order_for_any_number_of_processes():
    for jobs in (None, 1, 2, -1, 10**6):
        with parallel_config(backend="threading"):
            assert in_processes(lambda k: k * k, range(7), jobs, 7) == [k * k for k in range(7)]


def test_one_process_takes_tasks_one_at_a_time():
    """The next task may depend on the time of the previous one."""
    done = []

    def tasks():
        for k in range(4):
            assert done == list(range(k))
            yield k

    in_processes(done.append, tasks(), 1, 4)
    assert done == [0, 1, 2, 3]


def test_the_number_of_processes_is_that_of_joblib_or_of_tasks(monkeypatch):
    requested = []

    def recorded(n_jobs):
        requested.append(n_jobs)
        return lambda calls: [f(*args) for f, args, _ in calls]

    monkeypatch.setattr(parallel, "Parallel", recorded)
    monkeypatch.setattr(parallel, "delayed", lambda f: lambda *args: (f, args, {}))
    with parallel_config(backend="threading", n_jobs=3):
        assert in_processes(abs, [-1, -2, -3, -4], None, 4) == [1, 2, 3, 4]
        in_processes(abs, [-1, -2], None, 2)
    in_processes(abs, [-1, -2], None, 2)
    assert requested == [3, 2]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_invalid_numbers_of_processes_raise(n_jobs):
    with pytest.raises(ParameterError, match="`n_jobs` must be None or an integer other than 0"):
        check_jobs(n_jobs)
