"""Spreadsheets (XLSX, XLSM, XLSB, XLS, ODS): one sheet, read as a text file of its cells would be.

python-calamine reads all of these formats, in a process with limited memory (`limited`). Cells
become texts that say the same, to the last digit, and `layout` finds out which is what: so titles,
names, text columns and empty rows are treated as those of a CSV file are. Dates are text; a
percentage is the number behind it, 0.12 for 12 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import TableError
from .base import ReadOptions, Table, quietly
from .layout import Row, find_layout, no_header, read_rows, roles_of, table_of, take_header
from .limited import read_in_child
from .orientation import rows_by_name

ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_SAMPLE = 200  # rows to look at


def read_workbook(path: Path, ask: ReadOptions) -> Table:
    sheet = _read_sheet(path, ask)
    rows, notes = sheet.rows, sheet.notes
    header = take_header(path, rows, notes) if ask.header else no_header(rows, 0)
    columns, named = rows_by_name(header.names, ask)
    below = [row for row in rows if row[0] > header.line]
    body = named.without(row for _, row in below[:_SAMPLE])
    if not body:
        raise TableError(f"{path}: all of its rows are labels, or left out")
    layout = find_layout(header._replace(body=body), ".", columns, notes)
    roles = roles_of(path, layout, columns)

    def records() -> Iterator[Row]:
        return ((line, row[: len(layout.names)]) for line, row in below)

    read = read_rows(path, layout, roles, columns, records, ".", named, _advice)
    return table_of(path, layout, roles, read, records, notes, columns)


def sheet_texts(path: Path, ask: ReadOptions) -> tuple[list[str], list[list[str]], list[str]]:
    """Return all cells of a sheet as text: names of the columns, rows, and notes about values."""
    sheet = _read_sheet(path, ask)
    header = take_header(path, sheet.rows, [])
    layout = find_layout(header, ".", ask, [])
    return layout.names, header.body, sheet.unstored


class Sheet(NamedTuple):
    """The rows of a sheet that hold anything, without empty columns at either side."""

    rows: list[Row]  # with their numbers, from 1 on
    notes: list[str]  # what the user should know about the sheet
    unstored: list[str]  # of these, the one about formulas


def _read_sheet(path: Path, ask: ReadOptions) -> Sheet:
    import python_calamine  # noqa: F401 (the child process needs it)

    found = read_in_child(
        path, "workbook", "spreadsheet", "python-calamine", "save it as CSV", sheet=ask.sheet
    )
    *spans, about = found
    names, name = about["sheets"], about["sheet"]
    if name is None and ask.sheet is not None:
        raise TableError(
            f"{path}: there is no sheet {quietly(ask.sheet)}; there are "
            f"{', '.join(map(quietly, names))}"
        )
    unstored = _say_unstored(*about["formulas"])
    if not spans:
        raise TableError(
            f"{path}: none of its sheets holds anything"
            if name is None
            else "; ".join(
                [f"{path}: the sheet {quietly(name)} is empty", *unstored, "say --sheet NAME"]
            )
        )
    notes = list(unstored)
    if ask.sheet is None and len(names) > 1:
        others = ", ".join(quietly(one) for one in names if one != name)
        notes.append(f"the sheet {quietly(name)} was read; for another ({others}), say --sheet")
    if about["merged"]:
        notes.append(f"{about['merged']:,} merged cell(s) hold the text of the first of them")
    first = min(start for _, start, _ in spans)
    last = max(start + len(cells) for _, start, cells in spans)
    rows = [
        (line, [""] * (start - first) + cells + [""] * (last - start - len(cells)))
        for line, start, cells in spans
    ]
    return Sheet(rows, notes, unstored)


def _say_unstored(count: int, first: str) -> list[str]:
    """Return a note about formulas without a value."""
    if not count:
        return []
    cells = "1 cell holds" if count == 1 else f"{count:,} cells hold"
    return [
        f"{cells} a formula without a stored value and {'is' if count == 1 else 'are'} read as "
        f"missing (first: {quietly(first)}); to calculate the values, open the file in a "
        "spreadsheet program and save it"
    ]


def _advice(cell: str) -> str | None:
    """What to do about a cell that is a number or a gap to a person; None if it is neither."""
    if not any(one.isalnum() for one in cell):
        return (
            "If it stands for a missing value, leave the cell empty or write NA; if the column is "
            "no variable"
        )
    try:
        float(cell.replace(",", ".").replace(" ", ""))
    except ValueError:
        return None
    return (
        "It is stored as text: turn the column into numbers in the spreadsheet program; if it is "
        "no variable"
    )
