"""Progress of fits, printed if `verbose` is positive, or observed.

Programs can display the progress of fits with `observe`.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TypeVar

N_FIRST, INTERVAL = 5, 10  # the first five iterations are printed, then every tenth

Item = TypeVar("Item")
# Function of the label, the number of steps, and the total number or None.
Observer = Callable[[str, int, int | None], None]
_observer: ContextVar[Observer | None] = ContextVar("observer", default=None)


@contextmanager
def observe(observer: Observer | None) -> Iterator[None]:
    """Call a function after every step of the fits within a context.

    With None, no function is called.
    """
    previous = _observer.set(observer)
    try:
        yield
    finally:
        _observer.reset(previous)


def announce(label: str, n_steps: int = 0, total: int | None = None) -> None:
    """Report a stage of an analysis and its steps to the observer."""
    observer = _observer.get()
    if observer is not None:
        observer(label, n_steps, total)


def announce_each(label: str, items: Iterable[Item], total: int) -> Iterator[Item]:
    """Iterate over items and report the number of items taken.

    A pool of workers may take items in another thread, whose context has no observer. The observer
    of the calling context is therefore used.
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
    """Context manager that prints the objective of up to ``total`` iterations."""

    def __init__(self, total: int | None, label: str, verbose: int | bool = 0):
        self.total, self.label, self.verbose = total, label, int(verbose)
        self.n_iter = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(self, *error: object) -> None:
        if self.verbose:
            print(f"{self.label}: {self.n_iter} iterations", file=sys.stderr)

    def advance(self, objective: float) -> None:
        """Count an iteration and print its objective."""
        self.n_iter += 1
        announce(self.label, self.n_iter, self.total)
        if self.verbose and (self.n_iter <= N_FIRST or self.n_iter % INTERVAL == 0):
            message = f"{self.label}: iteration {self.n_iter}, objective {objective:.10g}"
            print(message, file=sys.stderr)
