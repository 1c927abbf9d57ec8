"""Reading of files in a process with limited memory and time.

Some libraries hang, crash or exhaust the memory on damaged files. They are therefore run in a
separate process (`reader_process`). Windows and macOS do not enforce the memory limit.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

from ..errors import TableError
from .base import quote
from .reader_process import FAILED, OUT_OF_MEMORY

PROGRAM = Path(__file__).with_name("reader_process.py")
MIN_MEMORY = 2**30  # bytes of memory allowed for any file
MEMORY_PER_BYTE = 100  # additional bytes allowed per byte of the file
MAX_OUTPUT = 0.25  # proportion of the memory limit; Python texts take four times their length
MIN_SECONDS = 15.0  # time allowed for any file
BYTES_PER_SECOND = 1e6  # number of bytes of the file per additional second
# Messages of Rust, HDF5 and Python after a failed allocation.
_NO_MEMORY = re.compile(rb"memory allocation|unable to allocate|MemoryError", re.IGNORECASE)


def read_in_child(
    path: Path, task: str, file_type: str, library: str, remedy: str, **options: Any
) -> list[Any]:
    """Run a task of `reader_process.TASKS`; return the values it writes.

    ``file_type``, ``library`` and ``remedy`` are parts of the `TableError` for a file that is
    damaged or exceeds a limit. ``options`` are further arguments of the task.
    """
    size = path.stat().st_size
    memory = MIN_MEMORY + MEMORY_PER_BYTE * size
    seconds = MIN_SECONDS + size / BYTES_PER_SECOND
    arguments = [task, str(path), str(memory), str(seconds), json.dumps(options)]
    command = [sys.executable, "-P", str(PROGRAM), *arguments]
    expired = threading.Event()
    values, written = [], 0
    with (
        tempfile.TemporaryFile() as errors,
        subprocess.Popen(
            command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=errors
        ) as process,
    ):

        def stop() -> None:
            expired.set()
            process.kill()

        timer = threading.Timer(seconds, stop)
        timer.start()
        try:
            assert process.stdout is not None
            for line in process.stdout:
                written += len(line)
                if written > MAX_OUTPUT * memory:
                    break
                if line.endswith(b"\n"):  # otherwise the process has ended
                    values.append(json.loads(line))
            else:
                process.wait()
        finally:
            process.kill()
            timer.cancel()
        process.wait()
        errors.seek(0)
        messages = errors.read(2**20)  # intended for developers; not shown to users
    if expired.is_set():
        raise TableError(
            f"{path}: reading stopped after the limit of {seconds:.0f} seconds. The file is "
            f"damaged, or on a slow disk. If it is valid, {remedy}."
        )
    reason = values.pop() if process.returncode == FAILED and values else ""
    if (
        written > MAX_OUTPUT * memory
        or process.returncode == OUT_OF_MEMORY
        or _NO_MEMORY.search(messages + str(reason).encode())
    ):
        raise TableError(
            f"{path}: reading stopped at the memory limit of {memory / 2**30:.1f} GiB. "
            "Possible causes are cells far from the table, and long texts in many cells. If the "
            f"file is valid, {remedy}."
        )
    if process.returncode:
        cause = quote(reason, 300) if reason else f"{library} crashed"
        raise TableError(f"{path}: invalid {file_type} ({cause}).")
    return values
