"""Columns that are not numbers: all of them in one message, and what to do about them.

A person who is told of one column at a time runs the command once for each. So every row is looked
at before anything is said: whether whole columns are text, a few cells of a column, or a whole
line, such as units below the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from .base import ReadOptions, Unusable, column_called, quietly

MOST_NAMED = 20  # columns in a message


class BadColumn(NamedTuple):
    """Cells of a column that are not numbers."""

    line: int  # of the first
    cell: str
    n_cells: int


class Bad(NamedTuple):
    """All cells that are not numbers."""

    columns: dict[int, BadColumn]
    lines: dict[int, list[str]]  # lines without a single number: their first cells
    outside: set[int]  # columns with such cells in other lines
    rows: int

    @classmethod
    def of(
        cls,
        rows: Iterable[tuple[int, list[str]]],
        variables: Sequence[int],
        number: Callable[[str], float | None],
    ) -> Bad:
        """Look at every cell of the variables."""
        columns: dict[int, BadColumn] = {}
        lines: dict[int, list[str]] = {}
        outside: set[int] = set()
        total = 0
        for line, row in rows:
            total += 1
            cells = [(k, row[k]) for k in variables if k < len(row) and row[k].strip()]
            wrong = [(k, cell) for k, cell in cells if number(cell) is None]
            for k, cell in wrong:
                before = columns.get(k, BadColumn(line, cell, 0))
                columns[k] = before._replace(n_cells=before.n_cells + 1)
            if len(wrong) == len(cells) > 1:
                lines[line] = [cell for _, cell in wrong[:3]]
            else:
                outside.update(k for k, _ in wrong)
        return cls(columns, lines, outside, total)


Advice = Callable[[str], str | None]
"""What to do about a cell that is a number or a gap to a person; None if it is neither."""


def refuse_unusable(
    path: Path, names: Sequence[str], bad: Bad, advice: Advice, ask: ReadOptions
) -> NoReturn:
    """Say which columns, or which lines, are not numbers."""
    if bad.lines and not bad.outside and len(bad.lines) < bad.rows:
        raise Unusable(f"{path}, {_lines_of_text(bad, ask)}")
    columns = sorted(bad.columns, key=lambda k: (bad.columns[k].line, k))
    texts = [names[k] for k in columns]
    shown = _listed([_described(names[k], bad.columns[k], bad.rows) for k in columns])
    note = f"{_columns(len(texts))} not numbers and left out, as asked: {shown}"
    odd = [k for k in columns if advice(bad.columns[k].cell) is not None]
    if len(odd) < len(columns) > 1:
        others = (
            ""
            if ask.transpose
            else ("--label to colour by it, --groups for rows that belong together, ")
        )
        raise Unusable(
            f"{path}: {_columns(len(texts))} not numbers: {shown}. Say --drop text to leave out "
            f"all of them; or, for one of them, {others}--id-column to name the rows",
            texts,
            note,
        )
    first = columns[0]
    name, (line, cell, _) = quietly(names[first]), bad.columns[first]
    more = f" (nor are cells of {len(columns) - 1} more columns)" if len(columns) > 1 else ""
    what_to_do = advice(cell) or "Correct it, or say what the column is"
    colours = "" if ask.transpose else f"--label {name} colours by it, "
    raise Unusable(
        f"{path}, line {line}, {column_called(path, names, first)}: {quietly(cell)} is not a "
        f"number{more}. {what_to_do}: --drop {name} leaves it out, {colours}--id-column {name} "
        "names the rows by it",
        texts,
        note,
    )


def _columns(count: int) -> str:
    return "1 column is" if count == 1 else f"{count:,} columns are"


def _described(name: str, bad: BadColumn, rows: int) -> str:
    if bad.n_cells == rows:
        return f"{quietly(name)} ({quietly(bad.cell, 30)})"
    return (
        f"{quietly(name)} ({bad.n_cells:,} of {rows:,} cells, such as {quietly(bad.cell, 30)} in "
        f"line {bad.line})"
    )


def _listed(parts: list[str]) -> str:
    more = f" and {len(parts) - MOST_NAMED:,} more" if len(parts) > MOST_NAMED else ""
    return ", ".join(parts[:MOST_NAMED]) + more


def _lines_of_text(bad: Bad, ask: ReadOptions) -> str:
    line, cells = next(iter(bad.lines.items()))
    more = f" (and {len(bad.lines) - 1} more)" if len(bad.lines) > 1 else ""
    what = f"line {line}{more}: it holds no number, but {', '.join(map(quietly, cells))}, ..."
    if ask.transpose:
        return (
            f"{what} If these are labels of the samples, name the line with --label, --groups or "
            "--response; --drop NAME leaves it out"
        )
    return f"{what} Are these units, or more names? Take out the line"
