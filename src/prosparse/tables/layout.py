"""Detection of the layout: titles, names, index, empty columns and rows.

Both text files and spreadsheets consist of rows of cells. This module finds the column names, the
column with the row names and empty columns, and converts cells to numbers.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from ..errors import TableError, plural
from .base import (
    MAX_EXACT_INTEGER,
    GrowableArray,
    MisjudgedColumns,
    ReadOptions,
    Roles,
    Table,
    assign_roles,
    check_identifiers,
    list_names,
    make_unique,
    name_column,
    note_identifier_names,
    quote,
    refuse_inexact,
    refuse_repeated_index,
)
from .censored_values import CensoredCells, parse_censored
from .decimal_marks import ThousandsCheck, is_formatted_number
from .formulas import unescape_formula
from .identifiers import describe_identifier, identifier_candidates, parse_integer
from .non_numeric import Advice, NonNumericCells, refuse_non_numeric
from .number_format import NumberFormat, has_both_marks
from .orientation import NamedRows
from .percentages import Percentages
from .units import is_units_row

Row = tuple[int, list[str]]  # number of the last line of the row, and its cells
Records = Callable[[], Iterator[Row]]  # function that iterates over all rows of data

MAX_TITLE_LINES = 50  # maximum number of lines above the column names
# Name of a first column without a name, if --as-variable makes it a variable.
UNNAMED_INDEX = "column 1"


class Header(NamedTuple):
    """Column names and first rows of the data."""

    line: int  # last line of the names
    names: list[str]
    body: list[list[str]]  # sample of the rows below the names
    index_type: str  # type of a possible index: "without a name" or "shifted"
    n_written: int  # number of names in the file, without those added for empty cells


class Layout(NamedTuple):
    """Apparent roles of the columns."""

    names: list[str]
    index_columns: tuple[int, ...]  # column that resembles row names
    index_type: str  # "without a name", "text" or "shifted"
    identifiers: tuple[int, ...]  # columns that resemble identifiers
    unnamed: tuple[int, ...]  # columns with values but without a name in the file
    blank: tuple[int, ...]  # columns without a name and without values
    header_is_short: bool  # whether the blank columns follow the end of the header


class RowsRead(NamedTuple):
    """Content of the rows of data."""

    variables: np.ndarray
    texts: dict[int, list[str]]  # other columns, by position
    notes: list[str]  # notes on the format of the numbers
    named_rows: dict[str, list[str]]  # cells of the rows that were requested by name


def parse_number(cell: str, decimal: str) -> float | None:
    """Parse the number in a cell: NaN if missing, None if not numeric."""
    return NumberFormat(decimal).parse(cell)


# --- column names


def find_header(
    path: Path, rows: list[Row], notes: list[str], *, skip_units: bool = True
) -> Header:
    """Find the column names, and the rows below them.

    With ``skip_units``, a row of units below the names is skipped.
    """
    first = next((k for k, (_, row) in enumerate(rows) if any(map(str.strip, row))), 0)
    position = _find_names(rows, first)
    titles = [row for _, row in rows[first:position] if any(map(str.strip, row))]
    if titles:
        title = next(cell for cell in titles[0] if cell.strip())
        notes.append(
            f"skipped {plural(len(titles), 'line')} above the column names: "
            f"{quote(title)}{', ...' if len(titles) > 1 else ''}"
        )
    line, header = rows[position]
    below = rows[position + 1 :]
    if skip_units and len(below) > 2 and _is_units_row(below[0][1], below[1:]):
        line, units = below[0]
        different = [*dict.fromkeys(cell.strip() for cell in units if cell.strip())]
        notes.append(f"line {line} contains units and was skipped: {list_names(different, 5)}")
        below = below[1:]
    body = [row for _, row in below]
    if not body:
        raise TableError(f"{path}: there are no rows of data below the header.")
    names = [unescape_formula(name.strip()) for name in header]
    fitted, index_type = _fit_header(path, line, names, body)
    return Header(line, fitted, body, index_type, len(names))


def _find_names(rows: list[Row], first: int) -> int:
    """Find the position of the column names, below titles and comments.

    A title fills few cells of a wide table. Names fill nearly all cells, are not numbers, and are
    followed by numbers.
    """
    n_filled = [sum(bool(cell.strip()) for cell in row) for _, row in rows]
    usual = int(np.median([count for count in n_filled if count] or [0]))
    for k in range(first, min(first + MAX_TITLE_LINES, len(rows) - 1)):
        if n_filled[k] >= max(2, usual - 1):
            return k if not _has_number(rows[k][1]) and _has_number(rows[k + 1][1]) else first
        if n_filled[k] > usual / 2:
            break
    return first


def _is_units_row(cells: list[str], below: list[Row]) -> bool:
    """Return whether a row contains units, above rows with numbers."""
    return not _has_number(cells) and is_units_row(cells) and _has_number(below[0][1])


def _has_number(cells: list[str]) -> bool:
    return any(
        cell.strip() and any(parse_number(cell, mark) is not None for mark in ".,")
        for cell in cells
    )


def _fit_header(
    path: Path, line: int, names: list[str], body: list[list[str]]
) -> tuple[list[str], str]:
    """Adjust the header to the usual row; return it and the type of the index."""
    usual = Counter(map(len, body)).most_common(1)[0][0]
    extra = usual - len(names)  # single rows may be too long
    if extra > 0 and not any(cell.strip() for row in body for cell in row[len(names) :]):
        return [*names, *[""] * extra], "without a name"  # rows end in separators
    if extra > 1 or (extra == 1 and len(names) == 1):
        raise TableError(
            f"{path}, line {line}: the header has {plural(len(names), 'cell')}, but "
            f"the rows below have {len(names) + extra}. Remove titles and comments above the "
            "names; use --no-header if the file has no names."
        )
    if extra == 1:  # as written by R's write.table
        return ["", *names], "shifted"
    widest = max(map(len, body))
    while len(names) > max(widest, 1) and not names[-1]:  # the header ends in separators
        names = names[:-1]
    return names, "without a name"


def make_header(rows: list[Row], line: int) -> Header:
    """Name the columns x0, x1, ...

    ``line`` is the number of the last line before the first row.
    """
    names = [f"x{k}" for k in range(len(rows[0][1]))]
    return Header(line, names, [row for _, row in rows], "", len(names))


# --- roles of the columns


def find_layout(header: Header, decimal: str, options: ReadOptions, notes: list[str]) -> Layout:
    """Find the apparent roles of the columns from names and first rows."""
    names, body = list(header.names), header.body
    if options.header and all(parse_number(name, decimal) is not None for name in names):
        notes.append(
            "the first line contains only numbers and was read as names; use --no-header if it is "
            "data"
        )
    if not names[0] and UNNAMED_INDEX in options.as_variables:
        names[0] = UNNAMED_INDEX
    index, index_type = _find_index(names, body, decimal, header.index_type)
    unnamed = tuple(k for k, name in enumerate(names) if not name and k not in index)
    names, blank = _find_blank(names, body, index, options)
    empty = {*blank}
    if blank:
        columns = plural(len(blank), "column")
        notes.append(f"dropped {columns} without a name and without values")
    names, repeated = make_unique(names)
    notes += repeated
    return Layout(
        names,
        index,
        index_type,
        tuple(k for k in identifier_candidates(names) if _is_identifier(names[k], k, body)),
        tuple(k for k in unnamed if k not in empty),
        blank,
        any(k >= header.n_written for k in blank),
    )


def _is_identifier(name: str, k: int, body: list[list[str]]) -> bool:
    cells = [row[k] for row in body if k < len(row)]
    return describe_identifier(name, cells) is not None


def _find_index(
    names: list[str], body: list[list[str]], decimal: str, index_type: str
) -> tuple[tuple[int, ...], str]:
    """Return the first column if it is unnamed or contains distinct texts."""
    first = [row[0] for row in body]
    if not names[0]:
        return ((0,) if any(cell.strip() for cell in first) else ()), index_type
    text = all(parse_number(cell, decimal) is None for cell in first)
    # 1,234 and 12% are not row names, and raise an error later.
    text = text and not all(map(is_formatted_number, first))
    return ((0,), "text") if text and len(set(first)) == len(first) > 1 else ((), "")


def _find_blank(
    names: list[str], body: list[list[str]], index: tuple[int, ...], options: ReadOptions
) -> tuple[list[str], tuple[int, ...]]:
    """Name unnamed columns except the index; also return empty columns."""
    full_names = [name or ("" if k in index else f"column {k + 1}") for k, name in enumerate(names)]
    mentioned = {
        options.row_names,
        *options.annotations.values(),
        *options.ignore,
        *options.as_variables,
        *options.variables,
    }
    blank = [
        k
        for k, name in enumerate(names)
        if not name
        and k not in index
        and full_names[k] not in mentioned
        and not any(row[k].strip() for row in body if k < len(row))
    ]
    return full_names, tuple(blank)


# --- from cells to a table


def find_roles(path: Path, layout: Layout, options: ReadOptions) -> Roles:
    """Assign a role to each column."""
    blank = [layout.names[k] for k in layout.blank]
    options = options._replace(ignore=(*options.ignore, *blank))
    return assign_roles(path, layout.names, options, _index(layout, options), layout.identifiers)


def _index(layout: Layout, options: ReadOptions) -> tuple[int, ...]:
    # Text in the first column is an index unless the user selects another one.
    overruled = layout.index_type == "text" and options.row_names is not None
    return () if overruled else layout.index_columns


def read_rows(
    path: Path,
    layout: Layout,
    roles: Roles,
    options: ReadOptions,
    records: Records,
    number_format: NumberFormat,
    named_rows: NamedRows,
    advise: Advice,
    thousands: ThousandsCheck | None = None,
) -> RowsRead:
    """Read all rows of data.

    ``advise`` returns the remedy for a cell that is not numeric.
    """
    data = GrowableArray(len(roles.variables))
    texts = {k: list[str]() for k in (*roles.text_columns(), *layout.blank)}
    found: dict[str, list[str]] = {}
    percentages = Percentages(path, layout.names, roles.variables)
    parser = _RowParser(number_format, options.censored)
    for line, row in records():
        if named_rows.includes(row) and named_rows.name_of(row) not in found:
            found[named_rows.name_of(row)] = [row[k] for k in roles.variables if k < len(row)]
            continue
        if len(row) != len(layout.names):
            _refuse_width(path, layout, line, row)
        numbers = parser.parse_row(data.rows, [row[k] for k in roles.variables])
        if None in numbers:
            cells = NonNumericCells.find(
                (record for record in records() if not named_rows.includes(record[1])),
                roles.variables,
                parser.parse_cell,
            )
            refuse_non_numeric(path, layout.names, cells, advise, options)
        percentages.check_row(line, row, data.array[: data.rows])
        data.append_rows(1)[0] = numbers
        for k, column in texts.items():
            column.append(row[k])
        if thousands is not None:
            for k in roles.variables:
                thousands.add_cell(k, line, row[k])
        options.progress(data.rows)
    names = [layout.names[k] for k in roles.variables]
    notes = [*percentages.notes(), *parser.finish(data.array[: data.rows], names)]
    if thousands is not None:
        thousands.refuse_thousands(path, layout.names)
        notes += thousands.notes(layout.names)
    return RowsRead(data.finish(), texts, notes, found)


class _RowParser:
    """Parser of the cells of all rows, which also collects notes."""

    def __init__(self, number_format: NumberFormat, censored: str | None):
        self.number_format = number_format
        self.censored = None if censored is None else CensoredCells(censored)
        self.both_marks = ""  # first number with a thousands separator and a decimal mark

    def parse_cell(self, cell: str) -> float | None:
        number = self.number_format.parse(cell)
        if number is None and self.censored and parse_censored(cell, self.number_format):
            return float("nan")
        return number

    def parse_row(self, row: int, cells: list[str]) -> list[float | None]:
        numbers, is_plain = self.number_format.parse_all(cells)
        if is_plain:
            return numbers
        for j, number in enumerate(numbers):
            if number is None and self.censored is not None:
                value = parse_censored(cells[j], self.number_format)
                if value is not None:
                    self.censored.add(row, j, value)
                    numbers[j] = float("nan")
            elif not self.both_marks and has_both_marks(cells[j], self.number_format.decimal):
                self.both_marks = cells[j]
        return numbers

    def finish(self, X: np.ndarray, names: list[str]) -> list[str]:
        """Fill censored cells of ``X`` in place; return notes."""
        notes = []
        if self.both_marks and not self.number_format.thousands:
            number = self.number_format.parse(self.both_marks)
            notes.append(
                f"numbers such as {quote(self.both_marks)} have thousands separators and were read "
                f"as {number:.12g}"
            )
        return notes if self.censored is None else [*notes, *self.censored.fill(X, names)]


def _refuse_width(path: Path, layout: Layout, line: int, row: list[str]) -> None:
    expected = (
        f"most rows have {len(layout.names)}, one more than the header"
        if layout.index_type == "shifted"
        else f"the header has {len(layout.names)}"
    )
    raise TableError(
        f"{path}, line {line}: the line has {plural(len(row), 'cell')}, but {expected}. All rows "
        "must have the same number of cells."
    )


def make_table(
    path: Path,
    layout: Layout,
    roles: Roles,
    read: RowsRead,
    records: Records,
    notes: list[str],
    options: ReadOptions,
) -> Table:
    """Build the table, with notes on the file."""
    names = layout.names
    X, texts = _drop_empty_end(read.variables, read.texts, notes)
    identifier_notes, misjudged = check_identifiers(names, roles, texts, options)
    misjudged += _find_filled(path, layout, texts)
    if misjudged:
        raise MisjudgedColumns(misjudged)
    _refuse_rounded(path, names, roles, X, records)
    if roles.ids and roles.ids == _index(layout, options):
        notes.append(_note_index(path, layout, texts[roles.ids[0]]))
    notes += [
        *identifier_notes,
        *note_identifier_names(names, roles, options),
        *_note_unnamed(layout, roles, options),
        *read.notes,
    ]
    annotations: dict[str, Any] = {
        role: list(map(unescape_formula, texts[k])) for role, k in roles.annotations.items()
    }
    return Table(
        path,
        X,
        [names[k] for k in roles.variables],
        list(map(unescape_formula, texts[roles.ids[0]])) if roles.ids else None,
        notes=notes,
        identifiers=tuple(names[k] for k in roles.identifiers),
        named_rows={
            name: [unescape_formula(cell.strip()) for cell in row]
            for name, row in read.named_rows.items()
        },
        id_name=names[roles.ids[0]] if roles.ids else "",
    ).with_annotations(annotations)


def _refuse_rounded(
    path: Path, names: list[str], roles: Roles, X: np.ndarray, records: Records
) -> None:
    """Raise an error for integers that were rounded."""
    if not X.size:
        return
    is_large = (np.fmax.reduce(X, axis=0) > MAX_EXACT_INTEGER) | (
        np.fmin.reduce(X, axis=0) < -MAX_EXACT_INTEGER
    )
    suspects = [k for k, large in zip(roles.variables, is_large, strict=True) if large]
    if not suspects:
        return
    for line, row in records():
        for k in suspects:
            value = parse_integer(row[k]) if k < len(row) else None
            if value is not None and abs(value) > MAX_EXACT_INTEGER and int(float(value)) != value:
                refuse_inexact(f"{path}, line {line}", name_column(names, k), value)


def _drop_empty_end(
    X: np.ndarray, texts: dict[int, list[str]], notes: list[str]
) -> tuple[np.ndarray, dict[int, list[str]]]:
    """Drop empty rows at the end, which spreadsheet programs export."""
    last = X.shape[0]
    while last and not any(cells[last - 1].strip() for cells in texts.values()):
        if not np.all(np.isnan(X[last - 1])):
            break
        last -= 1
    if last < X.shape[0]:
        count = X.shape[0] - last
        notes.append(f"dropped {plural(count, 'empty row')} at the end")
    return X[:last], {k: cells[:last] for k, cells in texts.items()}


def _note_index(path: Path, layout: Layout, ids: list[str]) -> str:
    name = layout.names[layout.index_columns[0]]
    if layout.index_type == "text":
        refuse_repeated_index(path, name, ids)
        return f"the first column, {quote(name)}, contains the row names"
    if layout.index_type == "shifted" and len(set(ids)) < len(ids):
        raise TableError(
            f"{path}: every row has one cell more than the header, and the first cells repeat and "
            "are therefore not row names. Add the missing name to the header, or replace "
            "decimal commas."
        )
    return (
        "the first column, without a name, contains the row names; use --as-variable "
        f"{UNNAMED_INDEX!r} if it is a variable"
    )


def _note_unnamed(layout: Layout, roles: Roles, options: ReadOptions) -> list[str]:
    """Return notes on variables without a name in the file."""
    variables, known = {*roles.variables}, {*options.as_variables, *options.variables}
    return [
        f"column {k + 1} has no name and is used as a variable with the name "
        f"{quote(layout.names[k])}; use --ignore {quote(layout.names[k])} to drop it"
        for k in layout.unnamed
        if k in variables and layout.names[k] not in known
    ]


def _find_filled(path: Path, layout: Layout, texts: dict[int, list[str]]) -> list[str]:
    """Return the names of apparently blank columns that contain values."""
    filled = [k for k in layout.blank if any(cell.strip() for cell in texts[k])]
    if filled and layout.header_is_short:
        row, cell = next((r, c) for r, c in enumerate(texts[filled[0]], 1) if c.strip())
        raise TableError(
            f"{path}, row {row} of the data: {quote(cell)} is beyond the end of the header. Add a "
            "name to the header, or remove the cell."
        )
    return [layout.names[k] for k in filled]
