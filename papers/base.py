"""What an experiment is: a name, the data it needs, and a run that gives rows, claims, figures."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from prosparse.files import whole_file

from .data import Data


class Row(NamedTuple):
    """One number of ours beside the published one."""

    quantity: str
    ours: float
    error: float | None = None  # standard error of ours, where it is a mean over runs
    published: float | None = None
    note: str = ""


class Claim(NamedTuple):
    """Something that the paper found, and whether ours shows it too."""

    text: str
    holds: bool
    note: str = ""  # the evidence, where it does not hold or needs a word


class Result(NamedTuple):
    rows: list[Row]
    claims: list[Claim]
    figures: list[Path]
    seeds: str  # in words: "0 to 49", "0", "none: nothing is random"
    remarks: str = ""  # what differs from the paper, in words


class Experiment(NamedTuple):
    name: str
    title: str
    paper: str
    data: tuple[str, ...]  # names of `data.SOURCES`
    run: Callable[[bool, Data, Path], Result]  # (quick, data, folder for the figures)


def mean_row(
    quantity: str, values: Any, published: float | None = None, note: str = "", factor: float = 1.0
) -> Row:
    """The mean over runs with its standard error."""
    values = factor * np.asarray(values, dtype=float)
    error = float(values.std(ddof=1) / math.sqrt(values.size)) if values.size > 1 else None
    return Row(quantity, float(values.mean()), error, published, note)


def seeds_of(runs: int) -> str:
    return f"0 to {runs - 1}"


def figure_of(columns: int, rows: int = 1, width: float = 4.6, height: float = 3.8) -> Any:
    """A figure that needs no display, and its axes as a rows x columns array."""
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise ImportError(
            "drawing needs matplotlib, which is not installed: pip install 'prosparse[plot]'"
        ) from error
    figure = Figure(figsize=(width * columns, height * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    for ax in axes.ravel():
        ax.spines[["top", "right"]].set_visible(False)
    return figure, axes


def saved(figure: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with whole_file(path) as partial:
        figure.savefig(partial, dpi=110, format=path.suffix[1:])
    return path


def above(text: str, ours: Any, theirs: Any, slack: float = 0.0) -> Claim:
    """A claim that every number of ``ours`` is at least that of ``theirs``."""
    gaps = np.asarray(ours, dtype=float) - np.asarray(theirs, dtype=float)
    return Claim(text, bool(np.all(gaps >= -slack)), f"smallest difference {gaps.min():+.3g}")
