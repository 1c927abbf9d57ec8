"""Reading of all cells as text, for the check of a file.

Cells are not interpreted. From large files, evenly spaced rows are read.
"""

from __future__ import annotations

from pathlib import Path
from typing import NamedTuple

from ..errors import TableError
from .base import ReadOptions, errors_as_table_error
from .delimited import iterate_cells_of_file
from .layout import Row, find_header, make_header
from .workbook import EXTENSIONS, read_sheet_rows

MAX_CELLS = 3_000_000  # maximum number of cells in memory
N_HEADER_ROWS = 200


class Cells(NamedTuple):
    """Column names and rows of a file, as text."""

    names: list[str]
    rows: list[list[str]]  # of equal length
    lines: list[int]  # numbers of the lines of the rows
    n_rows: int  # number of rows in the file
    decimal: str  # guessed decimal mark
    notes: list[str]  # observations about the format


def read_cells(path: Path, options: ReadOptions) -> Cells:
    """Read the cells of a text file or spreadsheet."""
    notes: list[str] = []
    with errors_as_table_error(path, "excel"):
        if path.suffix.lower() in EXTENSIONS:
            rows, decimal = read_sheet_rows(path, options, notes), options.decimal or "."
            stride = 1
        else:
            rows, decimal, stride = _read_text(path, options, notes)
    if not rows:
        raise TableError(f"{path}: the file contains only empty lines.")
    head = rows[:N_HEADER_ROWS]
    if options.header:
        header = find_header(path, head, notes, skip_units=not options.transpose)
    else:
        header = make_header(head, 0)
    below = [row for row in rows if row[0] > header.line and any(map(str.strip, row[1]))]
    width = len(header.names)
    cells = [(row + [""] * (width - len(row)))[:width] for _, row in below]
    return Cells(
        list(header.names), cells, [line for line, _ in below], stride * len(below), decimal, notes
    )


def _read_text(path: Path, options: ReadOptions, notes: list[str]) -> tuple[list[Row], str, int]:
    """Return the rows, the decimal mark, and the spacing of the rows."""
    rows: list[Row] = []
    stride, n_cells = 1, 0
    iterator, decimal = iterate_cells_of_file(path, options, notes)
    for k, (line, row) in enumerate(iterator):
        if k >= N_HEADER_ROWS and k % stride:
            continue
        if line in options.skip_lines:
            continue
        rows.append((line, row))
        n_cells += len(row)
        if n_cells > MAX_CELLS and len(rows) > 4 * N_HEADER_ROWS:
            rows = rows[:N_HEADER_ROWS] + rows[N_HEADER_ROWS::2]
            n_cells = sum(len(row) for _, row in rows)
            stride *= 2
    return rows, decimal, stride
