"""Jobs in worker processes, with progress, cancellation and a memory limit.

Each job runs in a separate process. A crash, a cancellation or a lack of memory therefore does not
affect other jobs, and all memory is released at the end. One process is started in advance, because
imports take longer than most analyses.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable
from enum import StrEnum
from typing import Any, NamedTuple

from . import worker

MAX_RUNNING = 2  # maximum number of simultaneous jobs; others wait
END_SECONDS = 2.0  # time in seconds for a process to end before it is killed


class Status(StrEnum):
    """Status of a job."""

    WAITING = "waiting"
    RUNNING = "running"
    DONE = "done"
    FAILED = "failed"
    CANCELLED = "cancelled"


class Progress(NamedTuple):
    """Progress of a running job within a stage."""

    stage: str
    done: int = 0
    total: int | None = None
    since: float = 0.0  # start of the stage

    def remaining(self) -> float | None:
        """Estimate the time in seconds until the end of the stage, or None."""
        if self.total is None or not 0 < self.done <= self.total:
            return None
        return (time.monotonic() - self.since) / self.done * (self.total - self.done)


class Job:
    """Task of `worker` with its arguments.

    Attributes
    ----------
    status : Status
    progress : Progress
    result : dict
        Result of the task, if finished.
    message : str
        Reason of a failure, for the user.
    """

    def __init__(self, request: dict[str, Any]):
        self.request = request
        self.status = Status.WAITING
        self.progress = Progress("waiting for other analyses")
        self.result: dict[str, Any] = {}
        self.message = ""
        self.created = time.monotonic()
        self.ended: float | None = None
        self.finished = threading.Event()
        self.lock = threading.Lock()
        self.process: _WorkerProcess | None = None

    @property
    def seconds(self) -> float:
        """Run time in seconds, until now or until the end."""
        return (self.ended or time.monotonic()) - self.created

    @property
    def is_active(self) -> bool:
        """Whether the job has not ended."""
        return self.status in (Status.WAITING, Status.RUNNING)

    def cancel(self) -> None:
        """Cancel the job unless it has ended."""
        if self._end(Status.CANCELLED, "The analysis was cancelled.") and self.process is not None:
            self.process.end()

    def _end(self, status: Status, message: str = "", result: dict[str, Any] | None = None) -> bool:
        with self.lock:
            if not self.is_active:
                return False
            self.status, self.message, self.result = status, message, result or {}
            self.ended = time.monotonic()
        self.finished.set()
        return True

    def _begin(self, process: _WorkerProcess) -> bool:
        with self.lock:
            if self.status is not Status.WAITING:
                return False
            self.status, self.process = Status.RUNNING, process
            self.progress = Progress("starting", since=time.monotonic())
        return True

    def _receive(self, event: dict[str, Any]) -> None:
        """Handle an event of the worker process."""
        if event["event"] == "progress":
            stage, done, total = event["stage"], event["done"], event["total"]
            is_same = stage == self.progress.stage and done >= self.progress.done
            since = self.progress.since if is_same else time.monotonic()
            self.progress = Progress(stage, done, total, since)
        elif event["event"] == "done":
            self._end(Status.DONE, result=event["result"])
        elif event["event"] == "failed":
            self._end(Status.FAILED, event["message"])


class _WorkerProcess:
    """Process that imports the library and then waits for one request."""

    def __init__(self) -> None:
        context = multiprocessing.get_context("spawn")
        self.connection, end = context.Pipe()
        self.process = context.Process(target=worker.main, args=(end,), daemon=True)
        self.process.start()
        end.close()
        self.lock = threading.Lock()  # only one thread may wait for the process

    def run(self, request: dict[str, Any], receive: Callable[[dict[str, Any]], None]) -> str:
        """Send a request and receive events; return the reason for any failure."""
        try:
            self.connection.send_bytes(json.dumps(request).encode())
            while True:
                event = json.loads(self.connection.recv_bytes())
                receive(event)
                if event["event"] in ("done", "failed"):
                    return ""
        except (EOFError, OSError):
            with self.lock:
                self.process.join(END_SECONDS)
                code = self.process.exitcode
        if code == -signal.SIGKILL:
            return "The analysis was stopped by the system, probably because memory ran out."
        return f"The analysis ended unexpectedly (exit code {code})."

    def end(self) -> None:
        """End the process and the processes that it started."""
        with self.lock:
            self.connection.close()
            pid = self.process.pid
            if pid is None or not self.process.is_alive():
                return
            for send in (signal.SIGTERM, getattr(signal, "SIGKILL", signal.SIGTERM)):
                try:
                    os.killpg(pid, send)  # the worker is the leader of a process group
                except (AttributeError, ProcessLookupError, PermissionError):
                    self.process.terminate()
                self.process.join(END_SECONDS)
                if not self.process.is_alive():
                    return


class Workers:
    """Processes for jobs.

    Parameters
    ----------
    memory : int
        Memory limit of a process in bytes.
    """

    def __init__(self, memory: int):
        self.memory = memory
        self.slots = threading.BoundedSemaphore(MAX_RUNNING)
        self.lock = threading.Lock()
        self.spare: _WorkerProcess | None = None
        self.processes: set[_WorkerProcess] = set()
        self.closed = False

    def prepare(self) -> None:
        """Start a process in advance."""
        with self.lock:
            if self.spare is None and not self.closed:
                self.spare = _WorkerProcess()
                self.processes.add(self.spare)

    def submit(self, request: dict[str, Any]) -> Job:
        """Run a task in a process as soon as a slot is free."""
        job = Job(request | {"memory": self.memory})
        threading.Thread(target=self._run, args=(job,), daemon=True).start()
        return job

    def _run(self, job: Job) -> None:
        with self.slots:
            if not job.is_active:
                return
            self.prepare()
            with self.lock:
                process, self.spare = self.spare, None
            if process is None:  # the server ends
                return
            try:
                if job._begin(process):
                    threading.Thread(target=self.prepare, daemon=True).start()
                    reason = process.run(job.request, job._receive)
                    job._end(Status.FAILED, reason)
            finally:
                process.end()
                with self.lock:
                    self.processes.discard(process)

    def close(self) -> None:
        """End all processes."""
        with self.lock:
            self.closed = True
            processes, self.processes, self.spare = self.processes, set(), None
        for process in processes:
            process.end()


def available_memory() -> int:
    """Return the default memory limit: three quarters of the memory."""
    try:
        total = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, ValueError, OSError):  # Windows
        return 8 * 2**30
    return max(2**30, 3 * total // 4)
