"""Experiments: name, required data, and a function that returns rows, claims and plots."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prosparse.files import replace_file

from .data import Data


class Row(NamedTuple):
    """One result of prosparse and the published value."""

    quantity: str
    ours: float
    error: float | None = None  # standard error, if the result is a mean over runs
    published: float | None = None
    note: str = ""


class Claim(NamedTuple):
    """A finding of the paper, and whether the experiment confirms it."""

    text: str
    holds: bool
    note: str = ""  # evidence for or against the claim


class PageTable(NamedTuple):
    """A table that the page shows instead of the rows."""

    title: str
    header: tuple[str, ...]
    rows: list[tuple[str, ...]]


class Result(NamedTuple):
    """Output of one experiment."""

    rows: list[Row]
    claims: list[Claim]
    figures: list[Path]
    seeds: str  # for example "0 to 49", "0" or "none (deterministic)"
    remarks: str = ""  # differences from the paper
    tables: tuple[PageTable, ...] = ()  # shown instead of the rows, which stay in the record


class Experiment(NamedTuple):
    """Description of one experiment."""

    name: str
    title: str
    paper: str
    data: tuple[str, ...]  # keys of `data.SOURCES`
    run: Callable[[bool, Data, Path], Result]  # (quick, data, folder for plots)


def mean_row(
    quantity: str, values: Any, published: float | None = None, note: str = "", factor: float = 1.0
) -> Row:
    """Return the row of a mean over runs with its standard error."""
    values = factor * np.asarray(values, dtype=float)
    error = float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else None
    return Row(quantity, float(values.mean()), error, published, note)


def seed_range(runs: int) -> str:
    """Describe the seeds of ``runs`` repetitions."""
    return f"0 to {runs - 1}"


def make_figure(columns: int, rows: int = 1, width: float = 4.6, height: float = 3.8) -> Any:
    """Return a figure without a display and its axes, an array of shape (rows, columns)."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "Plots require matplotlib, which is not installed. Run: pip install 'prosparse[plot]'"
        ) from error
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def save_figure(figure: Any, path: Path) -> Path:
    """Write a figure to ``path`` and return the path."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with replace_file(path) as partial:
        figure.savefig(partial, dpi=110, format=path.suffix[1:])
    return path


def claim_at_least(text: str, ours: Any, theirs: Any, slack: float = 0.0) -> Claim:
    """Return the claim that each value of ``ours`` is at least that of ``theirs`` - ``slack``."""
    differences = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    return Claim(
        text, bool(np.all(differences >= -slack)), f"smallest difference {differences.min():+.3g}"
    )
