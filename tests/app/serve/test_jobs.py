"""Worker processes: progress, cancellation, memory limit, crashes."""

import os
import signal
import time

import numpy as np
import pandas as pd
import pytest

from prosparse.app.serve.jobs import Job, Progress, Status, Workers
from prosparse.datasets import make_globally_sparse


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("tables")
    X = make_globally_sparse(40, 12, n_components=2, n_informative=6, random_state=0).X
    pd.DataFrame(X).to_csv(folder / "small.csv", index=False)
    values = np.random.default_rng(0).normal(size=(1000, 300)).round(6)
    pd.DataFrame(values).to_csv(folder / "large.csv", index=False)
    return folder


def wait(job):
    assert job.finished.wait(60)
    return job


def test_job_with_progress_is_cancelled(folder):
    workers = Workers(4 * 2**30)
    try:
        arguments = ["select", "small.csv", "--permutations", "0", "--stability", "100000"]
        hidden = ["--output", str(folder / "out"), "--json"]
        job = workers.submit(
            {"task": "command", "folder": str(folder), "arguments": arguments, "hidden": hidden}
        )
        while not job.progress.done:
            assert job.is_active, job.message
            time.sleep(0.02)
        assert job.progress.stage == "halves of the rows"
        assert job.progress.total == 100000
        assert job.progress.remaining() > 0
        process = job.process.process
        job.cancel()
        assert job.status is Status.CANCELLED
        assert not process.is_alive()
        assert not (folder / "out").exists()
    finally:
        workers.close()


@pytest.mark.skipif(not hasattr(os, "setsid"), reason="limits need Linux")
def test_memory_limit_and_crash(folder):
    request = {"task": "check", "folder": str(folder), "options": {}, "refused": []}
    workers = Workers(2**20)
    try:
        job = wait(workers.submit(request | {"file": "large.csv"}))
        assert job.status is Status.FAILED
        assert "memory" in job.message
        workers.prepare()
        os.kill(workers.spare.process.pid, signal.SIGKILL)
        job = wait(workers.submit(request | {"file": "small.csv"}))
        assert job.status is Status.FAILED
        assert "ended unexpectedly" in job.message or "memory" in job.message
        processes = [process.process for process in workers.processes]
    finally:
        workers.close()
    assert not any(process.is_alive() for process in processes)
    assert wait_or_active(workers.submit(request | {"file": "small.csv"}))


def wait_or_active(job):
    """Return whether a job that was submitted after the end is never run."""
    return not job.finished.wait(0.2)


def test_cancelled_job_is_not_started():
    job = Job({})
    job.cancel()
    job.cancel()
    assert job.status is Status.CANCELLED
    assert not job._begin(None)
    job._receive({"event": "done", "result": {}})
    assert job.status is Status.CANCELLED


def test_remaining_time(monkeypatch):
    monkeypatch.setattr(time, "monotonic", lambda: 30.0)
    assert Progress("fits", 2, 6, since=20.0).remaining() == 20.0
    assert Progress("fits", 0, 6, since=20.0).remaining() is None
    assert Progress("rows", 100, None, since=20.0).remaining() is None
