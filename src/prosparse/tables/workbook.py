"""Spreadsheets (XLSX, XLSM, XLSB, XLS, ODS): one sheet, read as a text file of its cells would be.

python-calamine reads all of these formats. Cells become texts that say the same, to the last digit,
and `layout` finds out which is what: so titles, names, text columns and empty rows are treated as
those of a CSV file are. Dates are text; a percentage is the number behind it, 0.12 for 12 %.
"""

from __future__ import annotations

import datetime
import re
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from ..errors import TableError
from .base import LARGEST_UNPACKED, MOST_EXPANSION, Ask, Table, quietly, refuse_bomb
from .layout import Row, find_layout, no_header, read_rows, roles_of, table_of, take_header
from .orientation import rows_by_name
from .trial import try_first

_PROBE = Path(__file__).with_name("probe_workbook.py")
ENDINGS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
_SAMPLE = 200  # rows to look at
_MOST_EMPTY = 10**7  # cells of a sheet that may be empty, or
_EMPTY = 50  # times those that are not
_PLACE = re.compile(rb'<(?:\w+:)?c\b[^>]*?\br="([A-Z]{1,3})(\d{1,7})"')


def read_workbook(path: Path, ask: Ask) -> Table:
    notes: list[str] = []
    rows = _cells(path, ask, notes)
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


def sheet_texts(path: Path, ask: Ask) -> tuple[list[str], list[list[str]]]:
    """All cells of a sheet as text: the names of the columns, and the rows."""
    rows = _cells(path, ask, [])
    header = take_header(path, rows, [])
    layout = find_layout(header, ".", ask, [])
    return layout.names, header.body


def _cells(path: Path, ask: Ask, notes: list[str]) -> list[Row]:
    """The rows of a sheet that hold anything, with their numbers, from 1 on; without empty columns
    at the ends."""
    import python_calamine as calamine

    _refuse_large(path)
    try_first(path, _PROBE, "spreadsheet", "python-calamine", "save it as CSV")
    with calamine.CalamineWorkbook.from_path(path) as book:
        sheet = _sheet(path, book, ask, notes)
        cells = sheet.to_python(skip_empty_area=False)
        merged = sheet.merged_cell_ranges or []
    _fill_merged(cells, merged, notes)
    rows = [(line, [_text(one) for one in row]) for line, row in enumerate(cells, 1)]
    filled = [(line, row) for line, row in rows if any(map(str.strip, row))]
    if not filled:
        raise TableError(f"{path}: the sheet {quietly(sheet.name)} is empty; say --sheet NAME")
    first = min(next(k for k, cell in enumerate(row) if cell.strip()) for _, row in filled)
    last = max(k for _, row in filled for k, cell in enumerate(row) if cell.strip()) + 1
    return [(line, row[first:last]) for line, row in filled]


def _sheet(path: Path, book: Any, ask: Ask, notes: list[str]) -> Any:
    """The sheet that was asked for, or the first with anything in it."""
    names = list(book.sheet_names)
    if ask.sheet is not None:
        asked = ask.sheet
        if asked not in names and asked.isdecimal() and 1 <= int(asked) <= len(names):
            asked = names[int(asked) - 1]
        if asked not in names:
            raise TableError(
                f"{path}: there is no sheet {quietly(asked)}; there are "
                f"{', '.join(map(quietly, names))}"
            )
        return book.get_sheet_by_name(asked)
    sheets = (book.get_sheet_by_name(name) for name in names)
    chosen = next((sheet for sheet in sheets if sheet.height), None)
    if chosen is None:
        raise TableError(f"{path}: none of its sheets holds anything")
    if len(names) > 1:
        others = ", ".join(quietly(name) for name in names if name != chosen.name)
        notes.append(
            f"the sheet {quietly(chosen.name)} was read; for another ({others}), say --sheet"
        )
    return chosen


def _fill_merged(cells: list[list[Any]], merged: list[Any], notes: list[str]) -> None:
    """A text in merged cells one below the other is that of all these rows, such as a patient's."""
    filled = 0
    for (top, left), (bottom, right) in merged:
        if left == right and bottom < len(cells) and isinstance(cells[top][left], str):
            for row in range(top + 1, bottom + 1):
                cells[row][left] = cells[top][left]
                filled += 1
    if filled:
        notes.append(f"{filled:,} merged cell(s) hold the text of the first of them")


def _text(value: Any) -> str:
    """A cell as text."""
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return str(value)


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


def _refuse_large(path: Path) -> None:
    """Refuse files that unpack to far more than their size, and sheets that are nearly empty but
    reach far: every cell up to the last would take memory."""
    if not zipfile.is_zipfile(path):  # XLS is none
        return
    try:
        _look_into(path)
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise TableError(f"{path}: not a whole spreadsheet ({quietly(error, 300)})") from error


def _look_into(path: Path) -> None:
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(LARGEST_UNPACKED, MOST_EXPANSION * path.stat().st_size):
            refuse_bomb(path)
        for member in members:
            if member.filename.startswith("xl/worksheets/") and member.filename.endswith(".xml"):
                _refuse_stray(path, archive.read(member))


def _refuse_stray(path: Path, sheet: bytes) -> None:
    count = rows = columns = 0
    last = b""
    for found in _PLACE.finditer(sheet):
        count += 1
        rows = max(rows, int(found[2]))
        if len(found[1]) > len(last) or (len(found[1]) == len(last) and found[1] > last):
            last = found[1]
    for letter in last:
        columns = 26 * columns + letter - ord("A") + 1
    if rows * columns > _MOST_EMPTY + _EMPTY * count:
        raise TableError(
            f"{path}: a sheet reaches to row {rows:,} and column {last.decode()}, but only "
            f"{count:,} of its cells hold anything: copy the table to a new sheet"
        )
