"""How many threads products take."""

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
from prosparse.models._base import VariableSelector, _dense_entries
from prosparse.parallel import (
    blas_threads,
    free_cores,
    in_parallel,
    in_processes,
    suit_blas_threads,
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
    # nothing of fits that other tests interrupted in the middle of these lines
    monkeypatch.setattr(parallel, "_requests", parallel._Requests())
    monkeypatch.setattr(parallel, "_here", threading.local())
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel, "free_cores", lambda: 2)
    return SimpleNamespace(threads=lambda: [library.num_threads for library in libraries])


def test_one_thread_and_then_those_of_before(blas):
    with blas_threads():
        assert blas.threads() == [1, 1]
    assert blas.threads() == [4, 3]
    with pytest.raises(ZeroDivisionError), blas_threads():
        _ = 1 / 0
    assert blas.threads() == [4, 3]


def test_never_more_than_there_were(blas):
    with blas_threads(100):
        assert blas.threads() == [4, 3]


def test_large_tables_take_the_free_cores(blas):
    suit_blas_threads(10**9)  # no fit under way: nothing happens
    assert blas.threads() == [4, 3]
    with blas_threads():
        suit_blas_threads(1000)
        assert blas.threads() == [1, 1]
        suit_blas_threads(10**9)
        assert blas.threads() == [2, 2]
        with blas_threads():  # a fit within a fit
            assert blas.threads() == [1, 1]
        assert blas.threads() == [2, 2]
    assert blas.threads() == [4, 3]


def test_fits_that_overlap_leave_what_was_there(blas):
    """The first to begin ends first: what it found must not be put back over the other, and what
    the other found must not be put back at all."""
    begun, go_on = threading.Event(), threading.Event()

    def other():
        with blas_threads():
            begun.set()
            go_on.wait(10)

    thread = threading.Thread(target=other)
    with blas_threads():
        thread.start()
        assert begun.wait(10)
    assert blas.threads() == [1, 1]
    go_on.set()
    thread.join()
    assert blas.threads() == [4, 3]


def test_pieces_of_a_piece_are_done_one_after_the_other(monkeypatch):
    """Threads of threads would be more than there are cores."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 3)

    def outer(_):
        me = threading.get_ident()
        return in_parallel(lambda _: threading.get_ident() == me, range(4))

    assert in_parallel(outer, range(3)) == [[True] * 4] * 3


def test_pieces_in_parallel_have_one_thread_each(blas):
    seen = in_parallel(lambda piece: (piece, blas.threads()), list(range(5)))
    assert seen == [(piece, [1, 1]) for piece in range(5)]
    assert blas.threads() == [4, 3]


def test_what_one_piece_raises_is_raised_when_the_others_have_ended(monkeypatch):
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    begun, ended = threading.Event(), threading.Event()

    def work(piece):
        if piece == 0:
            begun.wait(10)
            raise ZeroDivisionError
        begun.set()
        time.sleep(0.05)
        ended.set()

    with pytest.raises(ZeroDivisionError):
        in_parallel(work, range(2))
    assert ended.is_set()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system has no fork")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")  # since Python 3.12
def test_a_forked_process_has_workers_of_its_own(monkeypatch):
    """Of those of its parent none is there to take a piece."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 2)
    both = threading.Barrier(2)
    in_parallel(lambda _: both.wait(10), range(2))
    time.sleep(0.05)  # until both are idle
    child = multiprocessing.get_context("fork").Process(target=in_parallel, args=(abs, [-1, -2]))
    child.start()
    child.join(10)
    hangs = child.is_alive()
    if hangs:
        child.kill()
        child.join()
    assert not hangs
    assert child.exitcode == 0


def test_the_host_computes_little_for_a_table_on_an_accelerator():
    torch = pytest.importorskip("torch")
    assert _dense_entries(torch.ones((20, 30))) == 600
    assert _dense_entries(torch.ones((20, 30), device="meta")) == 0  # where nothing is computed


@pytest.mark.parametrize(
    ("table", "threads"),
    [
        (np.ones((20, 30)), [1, 1]),
        (np.ones((1100, 1000)), [2, 2]),
        # of sparse tables BLAS only sees the Gram matrix, which large ones have none of
        (csr_array((3000, 4000)), [1, 1]),
        (csr_array((1100, 4000)), [2, 2]),
    ],
    ids=["small", "large", "large and sparse", "with a large Gram matrix"],
)
def test_every_fit_asks_for_what_suits_its_table(blas, table, threads):
    class Watched(VariableSelector):
        def fit(self, X):
            with self._fitting():
                self._validate(X, reset=True)
                self.seen_ = blas.threads()
            return self

    assert Watched().fit(table).seen_ == threads
    assert blas.threads() == [4, 3]


def test_the_libraries_are_real(rng, monkeypatch):
    """BLAS itself is told, and the user's limit is kept afterwards."""
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
def test_cores_on_which_others_compute_are_not_free(running, free, monkeypatch):
    """One of those that run is ourselves."""
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(parallel, "_others_computing", lambda: running - 1)
    assert free_cores() == free


def test_a_process_that_wakes_up_now_and_then_does_not_count(monkeypatch):
    counts = iter([0, 3, 0, 0, 1])
    monkeypatch.setattr(parallel, "usable_cores", lambda: 4)
    monkeypatch.setattr(parallel.os, "cpu_count", lambda: 4)
    monkeypatch.setattr(parallel, "_others_computing", lambda: next(counts))
    assert free_cores() == 4


def test_where_the_system_does_not_say_all_cores_are_free(monkeypatch):
    def missing(path):
        raise FileNotFoundError(path)

    monkeypatch.setattr(parallel.Path, "read_text", missing)
    assert parallel._others_computing() == 0


# --- processes


def test_pieces_keep_their_order_whatever_the_number_of_processes():
    for jobs in (None, 1, 2, -1, 10**6):
        with parallel_config(backend="threading"):
            assert in_processes(lambda k: k * k, range(7), jobs, 7) == [k * k for k in range(7)]


def test_one_process_takes_pieces_as_they_come():
    """So that the piece that comes next can depend on the time that the last one took."""
    done = []

    def pieces():
        for k in range(4):
            assert done == list(range(k))
            yield k

    in_processes(done.append, pieces(), 1, 4)
    assert done == [0, 1, 2, 3]


def test_the_number_of_processes_is_joblib_s_unless_given(monkeypatch):
    """And never more than there are pieces."""
    asked = []

    def recorded(n_jobs):
        asked.append(n_jobs)
        return lambda calls: [f(*args) for f, args, _ in calls]

    monkeypatch.setattr(parallel, "Parallel", recorded)
    monkeypatch.setattr(parallel, "delayed", lambda f: lambda *args: (f, args, {}))
    with parallel_config(backend="threading", n_jobs=3):
        assert in_processes(abs, [-1, -2, -3, -4], None, 4) == [1, 2, 3, 4]
        in_processes(abs, [-1, -2], None, 2)
    in_processes(abs, [-1, -2], None, 2)
    assert asked == [3, 2]


@pytest.mark.parametrize("n_jobs", [0, 1.5, "2", True])
def test_what_is_no_number_of_processes(n_jobs):
    with pytest.raises(ParameterError, match="`n_jobs` must be None or an integer other than 0"):
        check_jobs(n_jobs)
