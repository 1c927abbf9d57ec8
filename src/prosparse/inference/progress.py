"""Progress of a fit: silence by default, else what the place where it runs can show.

In a terminal where rich is installed, a bar. In a notebook, one line of text that is written anew
as the fit goes on: bars there need ipywidgets, which many do not have, and show nothing without it.
Everywhere else (a log file, a batch job), plain lines.
"""

from __future__ import annotations

import sys
import time
from typing import Any, Protocol

# A notebook's line is sent over a network: not more often than this, in seconds.
_BETWEEN_UPDATES = 0.2


class Progress:
    """Shows the iteration and its objective; a context manager, so that it ends cleanly.

    A ``total`` of None: nobody knows how many iterations there will be.
    """

    def __init__(self, total: int | None, label: str, verbose: int | bool = 0):
        self.total, self.label, self.verbose = total, label, int(verbose)
        self.done = 0
        self.shown: _Shown | None = None

    def __enter__(self) -> Progress:
        if self.verbose:
            self.shown = _place_to_show(self.label, self.total)
        return self

    def __exit__(self, *error: object) -> None:
        if self.shown is not None:
            self.shown.end(self.done)
            self.shown = None

    def advance(self, objective: float) -> None:
        self.done += 1
        if self.shown is not None:
            self.shown.update(self.done, objective)


class _Shown(Protocol):
    """One way to show progress."""

    def update(self, done: int, objective: float) -> None:
        """After every iteration."""

    def end(self, done: int) -> None:
        """After the last one, or when the fit failed."""


def _place_to_show(label: str, total: int | None) -> _Shown:
    if _in_notebook():
        return _NotebookLine(label, total)
    try:
        from rich.console import Console
    except ImportError:
        return _PlainLines(label)
    console = Console(stderr=True)
    return _Bar(label, total, console) if console.is_terminal else _PlainLines(label)


def _in_notebook() -> bool:
    """Whether the fit runs in the kernel of a notebook (Jupyter, Colab, VS Code)."""
    if "IPython" not in sys.modules:  # nobody can be in a notebook without it
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class _Bar:
    """rich's bar, in a terminal."""

    def __init__(self, label: str, total: int | None, console: Any):
        from rich import progress

        self.bar = progress.Progress(
            progress.TextColumn("{task.description}"),
            progress.BarColumn(),
            progress.MofNCompleteColumn(),
            progress.TextColumn("objective {task.fields[objective]}"),
            progress.TimeElapsedColumn(),
            console=console,
        )
        self.bar.start()
        self.task = self.bar.add_task(label, total=total, objective="")

    def update(self, done: int, objective: float) -> None:
        self.bar.update(self.task, completed=done, objective=f"{objective:.6g}")

    def end(self, done: int) -> None:
        self.bar.stop()


class _NotebookLine:
    """One line below the cell, replaced by its next version."""

    def __init__(self, label: str, total: int | None):
        from IPython.display import display

        self.label, self.total = label, total
        self.begun = self.sent = time.monotonic()
        self.objective = ""
        self.handle = display(_Text(f"{label}: starting"), display_id=True)

    def update(self, done: int, objective: float) -> None:
        self.objective = f", objective {objective:.6g}"
        if time.monotonic() - self.sent >= _BETWEEN_UPDATES:
            of = "" if self.total is None else f" of at most {self.total}"
            self._send(f"iteration {done}{of}")

    def end(self, done: int) -> None:
        self._send(f"{done} iterations")

    def _send(self, what: str) -> None:
        self.sent = time.monotonic()
        line = f"{self.label}: {what}{self.objective}, {self.sent - self.begun:.1f} s"
        self.handle.update(_Text(line))


class _Text:
    """Text that a notebook shows without quotation marks around it."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _PlainLines:
    """The first iterations and every tenth, one below the other."""

    def __init__(self, label: str):
        self.label = label

    def update(self, done: int, objective: float) -> None:
        if done <= 5 or done % 10 == 0:
            print(f"{self.label}: iteration {done}, objective {objective:.10g}", file=sys.stderr)

    def end(self, done: int) -> None:
        print(f"{self.label}: {done} iterations", file=sys.stderr)
