"""A progress bar where rich is installed, plain lines where it is not, silence by default."""

from __future__ import annotations

import sys
from typing import Any


class Progress:
    """Shows the iteration and its objective; a context manager, so that it ends cleanly.

    A ``total`` of None: nobody knows how many iterations there will be.
    """

    def __init__(self, total: int | None, label: str, verbose: int | bool = 0):
        self.total, self.label, self.verbose = total, label, int(verbose)
        self.done = 0
        self.bar: Any = None

    def __enter__(self) -> Progress:
        if self.verbose:
            try:
                from rich import console, progress
            except ImportError:
                return self
            self.bar = progress.Progress(
                progress.TextColumn("{task.description}"),
                progress.BarColumn(),
                progress.MofNCompleteColumn(),
                progress.TextColumn("objective {task.fields[objective]}"),
                progress.TimeElapsedColumn(),
                console=console.Console(stderr=True),
            )
            self.bar.start()
            self.task = self.bar.add_task(self.label, total=self.total, objective="")
        return self

    def __exit__(self, *error: object) -> None:
        if self.bar is not None:
            self.bar.stop()
            self.bar = None
        elif self.verbose:
            print(f"{self.label}: {self.done} iterations", file=sys.stderr)

    def advance(self, objective: float) -> None:
        self.done += 1
        if self.bar is not None:
            self.bar.update(self.task, advance=1, objective=f"{objective:.6g}")
        elif self.verbose and (self.done <= 5 or self.done % 10 == 0):
            print(
                f"{self.label}: iteration {self.done}, objective {objective:.10g}", file=sys.stderr
            )
