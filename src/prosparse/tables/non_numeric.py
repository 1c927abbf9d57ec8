"""Error message for non-numeric cells, with all columns and a remedy.

All rows are checked before an error is raised, because one error per column would require one run
per column. Non-numeric cells can be columns of text, single cells, or a line, such as units below
the names.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple, NoReturn

from ..errors import plural
from ..phrases import list_items
from .base import NonNumericColumnsError, ReadOptions, name_column, quote

MAX_NAMED = 20  # maximum number of columns in a message
MISSING_ADVICE = (
    "For a missing value, leave the cell empty or write NA; if the column is not a variable"
)


class NonNumericColumn(NamedTuple):
    """Non-numeric cells of a column."""

    line: int  # line of the first cell
    cell: str
    n_cells: int


class NonNumericCells(NamedTuple):
    """All non-numeric cells of a file."""

    columns: dict[int, NonNumericColumn]
    text_lines: dict[int, list[str]]  # first cells of the lines without a number
    mixed_columns: set[int]  # columns with non-numeric cells in other lines
    n_rows: int

    @classmethod
    def find(
        cls,
        rows: Iterable[tuple[int, list[str]]],
        variables: Sequence[int],
        parse: Callable[[str], float | None],
    ) -> NonNumericCells:
        """Check all variables; ``parse`` returns None for non-numeric cells."""
        columns: dict[int, NonNumericColumn] = {}
        text_lines: dict[int, list[str]] = {}
        mixed_columns: set[int] = set()
        n_rows = 0
        for line, row in rows:
            n_rows += 1
            cells = [(k, row[k]) for k in variables if k < len(row) and row[k].strip()]
            wrong = [(k, cell) for k, cell in cells if parse(cell) is None]
            for k, cell in wrong:
                before = columns.get(k, NonNumericColumn(line, cell, 0))
                columns[k] = before._replace(n_cells=before.n_cells + 1)
            if len(wrong) == len(cells) > 1:
                text_lines[line] = [cell for _, cell in wrong[:3]]
            else:
                mixed_columns.update(k for k, _ in wrong)
        return cls(columns, text_lines, mixed_columns, n_rows)


Advice = Callable[[str], str | None]
"""Function that returns the remedy for a malformed number or missing value, and None for text."""


def refuse_non_numeric(
    path: Path,
    names: Sequence[str],
    cells: NonNumericCells,
    advise: Advice,
    options: ReadOptions,
) -> NoReturn:
    """Raise an error that lists the non-numeric columns or lines."""
    if cells.text_lines and not cells.mixed_columns and len(cells.text_lines) < cells.n_rows:
        raise NonNumericColumnsError(f"{path}, {_describe_text_lines(cells, options)}")
    columns = sorted(cells.columns, key=lambda k: (cells.columns[k].line, k))
    text_names = [names[k] for k in columns]
    shown = list_items(
        [_describe(names[k], cells.columns[k], cells.n_rows) for k in columns], MAX_NAMED
    )
    count = plural(len(columns), "non-numeric column")
    note = f"dropped {count}: {shown}"
    malformed = [k for k in columns if advise(cells.columns[k].cell) is not None]
    if len(malformed) < len(columns) > 1:
        remedies = "" if options.transpose else "--label for colours, --groups for grouped rows, "
        raise NonNumericColumnsError(
            f"{path}: {count}: {shown}. Use --ignore text to drop all of them; or, for one of "
            f"them, {remedies}--row-names for the row names.",
            text_names,
            note,
        )
    first = columns[0]
    name, (line, cell, _) = quote(names[first]), cells.columns[first]
    others = len(columns) - 1
    more = f" (also in {plural(others, 'more column')})" if others else ""
    remedy = advise(cell) or "Correct the cell, or give the role of the column"
    colours = "" if options.transpose else f"--label {name} for colours, "
    raise NonNumericColumnsError(
        f"{path}, line {line}, {name_column(names, first)}: {quote(cell)} is not a "
        f"number{more}. {remedy}: --ignore {name} to drop it, {colours}--row-names {name} for the "
        "row names.",
        text_names,
        note,
    )


def _describe(name: str, column: NonNumericColumn, n_rows: int) -> str:
    if column.n_cells == n_rows:
        return f"{quote(name)} ({quote(column.cell, 30)})"
    return (
        f"{quote(name)} ({column.n_cells:,} of {n_rows:,} cells, such as {quote(column.cell, 30)} "
        f"in line {column.line})"
    )


def _describe_text_lines(cells: NonNumericCells, options: ReadOptions) -> str:
    line, first = next(iter(cells.text_lines.items()))
    others = len(cells.text_lines) - 1
    more = f" (and {others} more)" if others else ""
    problem = f"line {line}{more}: no cell is a number: {', '.join(map(quote, first))}, ..."
    if options.transpose:
        return (
            f"{problem} If the line contains labels of the samples, select it by --label, --groups "
            "or --response; --ignore NAME drops it."
        )
    lines = ",".join(map(str, list(cells.text_lines)[:MAX_NAMED]))
    return f"{problem} If it contains units or further names, use --skip-lines {lines}."
