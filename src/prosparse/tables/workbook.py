"""Reading of spreadsheets (XLSX, XLSM, XLSB, XLS, ODS).

python-calamine reads these formats in a process with limited memory (see `limited_process`). Cells
are converted to texts without loss of precision, and `layout` finds titles, names, text columns and
empty rows as in a CSV file. Dates become text, and a percentage its stored number, 0.12 for 12 %.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from ..errors import TableError, plural
from .base import ReadOptions, Table, quote
from .layout import Row, find_header, find_layout, find_roles, make_header, make_table, read_rows
from .limited_process import read_in_child
from .missing_codes import MISSING, split_codes
from .non_numeric import MISSING_ADVICE
from .number_format import NumberFormat
from .orientation import split_named_rows

EXTENSIONS = (".xlsx", ".xlsm", ".xlsb", ".xls", ".ods")
SAMPLE_ROWS = 200  # number of rows that determine the layout


def read_workbook(path: Path, options: ReadOptions) -> Table:
    """Read a sheet of a spreadsheet."""
    sheet = _read_sheet(path, options)
    notes = sheet.notes
    rows = [row for row in sheet.rows if row[0] not in options.skip_lines]
    number_format = NumberFormat(
        "mixed" if options.decimal == "mixed" else options.decimal or ".",
        options.thousands,
        frozenset({*MISSING, *split_codes(options.na)}),
    )
    header = (
        find_header(path, rows, notes, skip_units=not options.transpose)
        if options.header
        else make_header(rows, 0)
    )
    columns, named_rows = split_named_rows(header.names, options)
    below = [row for row in rows if row[0] > header.line]
    body = named_rows.remove_from(row for _, row in below[:SAMPLE_ROWS])
    if not body:
        raise TableError(f"{path}: no rows of data remain; all rows are labels or dropped.")
    layout = find_layout(header._replace(body=body), ".", columns, notes)
    roles = find_roles(path, layout, columns)

    def records() -> Iterator[Row]:
        return ((line, row[: len(layout.names)]) for line, row in below)

    read = read_rows(path, layout, roles, columns, records, number_format, named_rows, _advise)
    return make_table(path, layout, roles, read, records, notes, columns)


def read_sheet_rows(path: Path, options: ReadOptions, notes: list[str]) -> list[Row]:
    """Read all rows of a sheet as text, including the header."""
    sheet = _read_sheet(path, options)
    notes += sheet.notes
    return [row for row in sheet.rows if row[0] not in options.skip_lines]


def read_sheet_texts(
    path: Path, options: ReadOptions
) -> tuple[list[str], list[list[str]], list[str]]:
    """Read all cells of a sheet as text: column names, rows and notes."""
    sheet = _read_sheet(path, options)
    header = find_header(path, sheet.rows, [])
    layout = find_layout(header, ".", options, [])
    return layout.names, header.body, sheet.formula_notes


class Sheet(NamedTuple):
    """Nonempty rows of a sheet, without empty columns at either side."""

    rows: list[Row]
    notes: list[str]  # observations about the file
    formula_notes: list[str]  # notes on formulas without a value, also part of ``notes``


def _read_sheet(path: Path, options: ReadOptions) -> Sheet:
    import python_calamine  # noqa: F401 (the child process needs it)

    found = read_in_child(
        path, "workbook", "spreadsheet", "python-calamine", "save it as CSV", sheet=options.sheet
    )
    *spans, about = found
    names, name = about["sheets"], about["sheet"]
    if name is None and options.sheet is not None:
        raise TableError(
            f"{path}: there is no sheet {quote(options.sheet)}; available sheets: "
            f"{', '.join(map(quote, names))}."
        )
    formula_notes = _note_formulas(about["formulas"])
    if not spans:
        raise TableError(
            f"{path}: all sheets are empty."
            if name is None
            else "; ".join(
                [
                    f"{path}: sheet {quote(name)} is empty",
                    *formula_notes,
                    "select another sheet by --sheet NAME.",
                ]
            )
        )
    notes = list(formula_notes)
    if options.sheet is None and len(names) > 1:
        others = ", ".join(quote(other) for other in names if other != name)
        notes.append(f"sheet {quote(name)} was read; use --sheet for another one ({others})")
    if about["merged"]:
        cells, verb = (
            plural(about["merged"], "merged cell"),
            "was" if about["merged"] == 1 else "were",
        )
        notes.append(f"{cells} {verb} filled with the text of the first cell")
    first = min(start for _, start, _ in spans)
    last = max(start + len(cells) for _, start, cells in spans)
    rows = [
        (line, [""] * (start - first) + cells + [""] * (last - start - len(cells)))
        for line, start, cells in spans
    ]
    return Sheet(rows, notes, formula_notes)


def _note_formulas(count: int) -> list[str]:
    """Return a note on formulas without a stored value."""
    if not count:
        return []
    return [
        f"the file contains {plural(count, 'formula')} without a stored value, read as missing; to "
        "store the values, open the file in a spreadsheet program and save it"
    ]


def _advise(cell: str) -> str | None:
    """Return the remedy for a malformed or missing number; None for text."""
    if not any(character.isalnum() for character in cell):
        return MISSING_ADVICE
    try:
        float(cell.replace(",", ".").replace(" ", ""))
    except ValueError:
        return None
    return (
        "The cell is stored as text. Convert the column to numbers in the spreadsheet program; if "
        "it is not a variable"
    )
