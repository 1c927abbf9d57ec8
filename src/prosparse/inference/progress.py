"""Progress of a fit, shown in a terminal, a notebook or a log.

Nothing is shown by default. In a terminal with rich installed, progress is a bar. In a notebook it
is a single line of text that is updated in place, because bars require ipywidgets. Everywhere else
(log files, batch jobs) it consists of plain lines. A program that runs fits can show their progress
itself with `observe`.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, TypeVar

UPDATE_INTERVAL = 0.2  # minimum time between updates of a notebook, in seconds

Item = TypeVar("Item")
# Function of the label, the number of steps and their total, if known.
Observer = Callable[[str, int, int | None], None]
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observe(observer: Observer | None) -> Iterator[None]:
    """Call a function after every step of the fits within a context; None calls nothing."""
    previous = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(previous)


def announce(label: str, n_steps: int = 0, total: int | None = None) -> None:
    """Report a stage of an analysis, and its steps so far, to the observer, if any."""
    observer = _observer.get()
    if observer is not None:
        observer(label, n_steps, total)


def announce_each(label: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """Return an iterator that reports how many items were taken.

    A pool of workers may take items in another thread, whose context has no observer. The observer
    is therefore the one of the call.
    """
    observer = _observer.get()
    if observer is None:
        return iter(items)
    return _count(label, items, total, observer)


def _count(label: str, items: Iterable[Item], total: int, observer: Observer) -> Iterator[Item]:
    for k, item in enumerate(items):
        observer(label, k, total)
        yield item
    observer(label, total, total)


class Progress:
    """Context manager that shows up to ``total`` iterations and the objective."""

    def __init__(self, total: int | None, label: str, verbose: int | bool = 0):
        self.total, self.label, self.verbose = total, label, int(verbose)
        self.n_iter = 0
        self.display: _Bar | _NotebookLine | _PlainLines | None = None

    def __enter__(self) -> Progress:
        if self.verbose:
            self.display = _make_display(self.label, self.total)
        return self

    def __exit__(self, *error: object) -> None:
        if self.display is not None:
            self.display.end(self.n_iter)
            self.display = None

    def advance(self, objective: float) -> None:
        """Count an iteration and show its objective."""
        self.n_iter += 1
        announce(self.label, self.n_iter, self.total)
        if self.display is not None:
            self.display.update(self.n_iter, objective)


def _make_display(label: str, total: int | None) -> _Bar | _NotebookLine | _PlainLines:
    if _in_notebook():
        return _NotebookLine(label, total)
    try:
        from rich.console import Console
    except ImportError:
        return _PlainLines(label)
    console = Console(stderr=True)
    return _Bar(label, total, console) if console.is_terminal else _PlainLines(label)


def _in_notebook() -> bool:
    """Return whether the fit runs in the kernel of a notebook."""
    if "IPython" not in sys.modules:  # Kernels import IPython.
        return False
    from IPython import get_ipython

    return getattr(get_ipython(), "kernel", None) is not None


class _Bar:
    """Progress bar of rich."""

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

    def update(self, n_iter: int, objective: float) -> None:
        self.bar.update(self.task, completed=n_iter, objective=f"{objective:.6g}")

    def end(self, n_iter: int) -> None:
        self.bar.stop()


class _NotebookLine:
    """Line of text below the cell, updated in place."""

    def __init__(self, label: str, total: int | None):
        from IPython.display import display

        self.label, self.total = label, total
        self.start_time = self.update_time = time.monotonic()
        self.objective = ""
        self.handle = display(_Text(f"{label}: starting"), display_id=True)

    def update(self, n_iter: int, objective: float) -> None:
        self.objective = f", objective {objective:.6g}"
        if time.monotonic() - self.update_time >= UPDATE_INTERVAL:
            limit = "" if self.total is None else f" of at most {self.total}"
            self._send(f"iteration {n_iter}{limit}")

    def end(self, n_iter: int) -> None:
        self._send(f"{n_iter} iterations")

    def _send(self, count: str) -> None:
        self.update_time = time.monotonic()
        seconds = self.update_time - self.start_time
        self.handle.update(_Text(f"{self.label}: {count}{self.objective}, {seconds:.1f} s"))


class _Text:
    """Text that a notebook shows without quotation marks."""

    def __init__(self, text: str):
        self.text = text

    def __repr__(self) -> str:
        return self.text


class _PlainLines:
    """Lines for the first five iterations and every tenth."""

    def __init__(self, label: str):
        self.label = label

    def update(self, n_iter: int, objective: float) -> None:
        if n_iter <= 5 or n_iter % 10 == 0:
            print(f"{self.label}: iteration {n_iter}, objective {objective:.10g}", file=sys.stderr)

    def end(self, n_iter: int) -> None:
        print(f"{self.label}: {n_iter} iterations", file=sys.stderr)
