"""Comparison of two analyses by their selected variables."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import NamedTuple

from .workspace import SELECTED, Analysis

MAX_ROWS = 500  # maximum number of variables in the table
_STATISTICS = ("communality", "relevance")


class Row(NamedTuple):
    """Variable selected by at least one analysis."""

    name: str
    selected: tuple[bool, bool]
    statistic: tuple[str, str]


class Comparison(NamedTuple):
    """Variables of two analyses."""

    rows: list[Row]
    n_both: int
    n_first: int  # selected only by the first analysis
    n_second: int
    n_hidden: int
    statistic: tuple[str, str]  # names of the statistics
    arguments: tuple[list[str], list[str]]  # arguments that differ


def compare_analyses(first: Analysis, second: Analysis) -> Comparison:
    """Compare the tables of selected variables of two analyses."""
    tables = [_read(analysis.folder / SELECTED) for analysis in (first, second)]
    names = dict.fromkeys([*tables[0][1], *tables[1][1]])
    rows = []
    for name in names:
        found = [content.get(name, ("", False)) for _, content in tables]
        if any(selected for _, selected in found):
            rows.append(
                Row(name, (found[0][1], found[1][1]), (found[0][0], found[1][0])),
            )
    rows.sort(key=lambda row: row.selected != (True, True))
    counts = [row.selected for row in rows]
    return Comparison(
        rows[:MAX_ROWS],
        counts.count((True, True)),
        counts.count((True, False)),
        counts.count((False, True)),
        max(0, len(rows) - MAX_ROWS),
        (tables[0][0], tables[1][0]),
        (
            _without(first.arguments, second.arguments),
            _without(second.arguments, first.arguments),
        ),
    )


def _read(path: Path) -> tuple[str, dict[str, tuple[str, bool]]]:
    """Read the statistic, and its value and the selection for each variable."""
    if not path.is_file():
        return "", {}
    with path.open(newline="", encoding="utf-8") as file:
        rows = list(csv.DictReader(file))
    column = next((name for name in _STATISTICS if rows and name in rows[0]), "")
    content = {
        row["variable"]: (_round(row.get(column, "")), row["selected"] == "yes") for row in rows
    }
    return column, content


def _round(text: str) -> str:
    try:
        return f"{float(text):.3g}"
    except ValueError:
        return text


def _without(arguments: list[str], others: list[str]) -> list[str]:
    """Return the options that others lack, with their values."""
    words, other_words = _pair_options(arguments), _pair_options(others)
    return [word for word in words if word not in other_words]


def _pair_options(arguments: list[str]) -> list[str]:
    words: list[str] = []
    for argument in arguments[1:]:  # without the command
        if words and words[-1].startswith("--") and not argument.startswith("--"):
            words[-1] = f"{words[-1]} {argument}"
        else:
            words.append(argument)
    return words
