"""Programs in processes of their own that do not start from nothing.

A process that imports NumPy, SciPy and scikit-learn takes seconds to start. Here one does, once,
and every program is forked from it. Working directory, limits, signals, what a program says and how
it ends are those of its own process.
"""

import multiprocessing
import os
import sys
import textwrap
from typing import NamedTuple

# Windows cannot fork: each program starts from scratch.
_FORKS = "forkserver" in multiprocessing.get_all_start_methods()
CONTEXT = multiprocessing.get_context("forkserver" if _FORKS else "spawn")
# Without the command and the estimators, which prosparse imports on first use: an error in them
# must occur in the program, not in the process from which it is forked.
CONTEXT.set_forkserver_preload(
    [
        "prosparse",
        "array_api_compat.numpy",
        "scipy.cluster.hierarchy",
        "scipy.stats",
        "sklearn.linear_model",
        "pandas",
        "pyarrow",
        "typer",
        "rich",
        "jinja2",
    ]
)


class Ended(NamedTuple):
    """How a program ended: minus the number of a signal, or its exit code; and what it said."""

    returncode: int
    stderr: str


class Program:
    """A Python script that runs in ``folder``.

    Parameters
    ----------
    script : str
        Its code, indented or not.
    folder : path
    arguments : str
        ``sys.argv[1:]``.
    """

    def __init__(self, script, folder, *arguments):
        self._said, errors = CONTEXT.Pipe(duplex=False)
        code = textwrap.dedent(script)
        self.process = CONTEXT.Process(target=_main, args=(code, str(folder), arguments, errors))
        self.process.start()
        errors.close()

    def ended(self, timeout):
        """Wait for it: an `Ended`."""
        parts = []
        while part := os.read(self._said.fileno(), 2**16):
            parts.append(part)
        self.process.join(timeout)
        assert self.process.exitcode is not None, f"it still runs after {timeout} s"
        return Ended(self.process.exitcode, b"".join(parts).decode())


def _main(code, folder, arguments, errors):
    os.chdir(folder)
    # new streams: inherited ones refer to the files of the parent process
    sys.stdout = os.fdopen(os.open(os.devnull, os.O_WRONLY), "w")
    sys.stderr = os.fdopen(os.dup(errors.fileno()), "w", 1, errors="backslashreplace")
    os.dup2(sys.stdout.fileno(), 1)
    os.dup2(sys.stderr.fileno(), 2)
    errors.close()
    sys.argv = ["-c", *arguments]
    exec(compile(code, "<program>", "exec"), {"__name__": "__main__"})
