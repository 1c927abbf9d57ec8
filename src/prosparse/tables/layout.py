"""What rows of cells say, wherever they come from: title, names, index, empty columns and rows.

A text file and a sheet of a spreadsheet are both rows of cells. This file finds out where the
names of the columns are, which column names the rows, and which hold nothing; and it turns cells
into numbers, row by row.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import numpy as np

from ..errors import TableError
from .base import (
    EXACT,
    MISSING,
    Growing,
    Mistaken,
    ReadOptions,
    Roles,
    Table,
    assign_roles,
    column_called,
    quietly,
    refuse_inexact,
    refuse_repeated_index,
    tell_identifiers,
    tell_row_numbers,
    unique_names,
)
from .formulas import unescaped
from .identifiers import candidates, how_rows_are_told_apart, whole
from .marks import Marks, is_decorated_number
from .orientation import NamedRows
from .percentages import SIGN, Percentages
from .unusable import Advice, Bad, refuse_unusable

Row = tuple[int, list[str]]  # the number of the line that it ends on, and its cells
Records = Callable[[], Iterator[Row]]  # the rows of data from the first on, each time it is called

MOST_TITLES = 50  # lines above the names of the columns
# What the columns without a name that look like an index are called when they are kept.
FIRST = "column 1"


class Header(NamedTuple):
    """Where the names of the columns are."""

    line: int  # on which they end
    names: list[str]
    body: list[list[str]]  # the rows below, as far as they were looked at
    because: str  # why the first column may be an index: without a name, or shifted
    written: int  # names that there are, without those that were added for empty cells


class Layout(NamedTuple):
    """Which column is what."""

    names: list[str]
    index_at: tuple[int, ...]  # the column that looks like an index
    index_because: str  # without a name, text, or cells without a name above them
    row_numbers: tuple[int, ...]  # columns that look like numbers of rows
    unnamed: tuple[int, ...]  # columns with values but without a name, which were given one
    blank: tuple[int, ...]  # columns without a name and without a value
    header_is_short: bool  # the blank columns are beyond the end of the header


class RowsRead(NamedTuple):
    """What the rows hold."""

    variables: np.ndarray
    texts: dict[int, list[str]]  # other columns, by position
    doubts: list[str]  # notes about how the numbers are written
    named: dict[str, list[str]]  # rows that were asked for by name: all their cells


def number(cell: str, decimal: str) -> float | None:
    """What a cell says as a number; NaN where it is missing, None where it is no number."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if "_" in text or (decimal == "," and "." in text):
        return None
    share = text.endswith(SIGN)
    try:
        value = float((text[:-1] if share else text).replace(decimal, "."))
    except ValueError:
        return None
    return value / 100 if share else value


def _numbers(cells: list[str], decimal: str) -> list[float | None]:
    """What cells say as numbers; most are plain, and need no more than Python's own reading."""
    if decimal == "." and "_" not in "".join(cells):
        try:
            return list(map(float, cells))
        except ValueError:
            pass
    return [number(cell, decimal) for cell in cells]


# --- where the names are


def take_header(path: Path, rows: list[Row], notes: list[str]) -> Header:
    """The names of the columns, and the rows below them."""
    first = next((k for k, (_, row) in enumerate(rows) if any(map(str.strip, row))), 0)
    at = _below_titles(rows, first)
    titles = [row for _, row in rows[first:at] if any(map(str.strip, row))]
    if titles:
        title = next(cell for cell in titles[0] if cell.strip())
        notes.append(
            f"{len(titles)} line(s) above the names of the columns were skipped: {quietly(title)}"
            f"{', ...' if len(titles) > 1 else ''}"
        )
    line, header = rows[at]
    body = [row for _, row in rows[at + 1 :]]
    if not body:
        raise TableError(f"{path}: there is a header, but no row of data below it")
    names = [unescaped(name.strip()) for name in header]
    fitted, because = _fitted_header(path, line, names, body)
    return Header(line, fitted, body, because, len(names))


def _below_titles(rows: list[Row], first: int) -> int:
    """The position of the names of the columns, below titles and comments if there are any.

    A title fills few cells of a wide table; the names below it fill nearly all, none of them is a
    number, and numbers follow.
    """
    filled = [sum(bool(cell.strip()) for cell in row) for _, row in rows]
    usual = int(np.median([count for count in filled if count] or [0]))
    for at in range(first, min(first + MOST_TITLES, len(rows) - 1)):
        if filled[at] >= max(2, usual - 1):
            return at if _is_header(rows[at][1]) and _has_number(rows[at + 1][1]) else first
        if filled[at] > usual / 2:
            break
    return first


def _is_number(cell: str) -> bool:
    return number(cell, ".") is not None or number(cell, ",") is not None


def _is_header(cells: list[str]) -> bool:
    return not any(cell.strip() and _is_number(cell) for cell in cells)


def _has_number(cells: list[str]) -> bool:
    return any(cell.strip() and _is_number(cell) for cell in cells)


def _fitted_header(
    path: Path, line: int, names: list[str], body: list[list[str]]
) -> tuple[list[str], str]:
    """The header with as many names as rows have cells, if separators at an end are the reason."""
    usual = Counter(map(len, body)).most_common(1)[0][0]
    extra = usual - len(names)  # one row may be too long
    if extra > 0 and not any(cell.strip() for row in body for cell in row[len(names) :]):
        return [*names, *[""] * extra], "without a name"  # rows end in separators
    if extra > 1 or (extra == 1 and len(names) == 1):
        raise TableError(
            f"{path}, line {line}: it should hold the names of the columns, but has {len(names)} "
            f"cell(s), where the rows below have {len(names) + extra}. Take out titles and "
            "comments above the names; if the file has no names, say --no-header"
        )
    if extra == 1:  # as R's write.table leaves it
        return ["", *names], "shifted"
    widest = max(map(len, body))
    while len(names) > max(widest, 1) and not names[-1]:  # the header ends in separators
        names = names[:-1]
    return names, "without a name"


def no_header(rows: list[Row], line: int) -> Header:
    """Columns are called x0, x1, ...; ``line`` is the last before the first row."""
    names = [f"x{k}" for k in range(len(rows[0][1]))]
    return Header(line, names, [row for _, row in rows], "", len(names))


# --- which column is what


def find_layout(header: Header, decimal: str, ask: ReadOptions, notes: list[str]) -> Layout:
    """Which column is what, by its name and by the first rows."""
    names, body = list(header.names), header.body
    if ask.header and all(number(name, decimal) is not None for name in names):
        notes.append(
            "the first line holds only numbers and was taken as names; if it is data, say "
            "--no-header"
        )
    if not names[0] and FIRST in ask.keep:
        names[0] = FIRST
    index, because = _index(names, body, decimal, header.because)
    unnamed = tuple(k for k, name in enumerate(names) if not name and k not in index)
    names, blank = _without_blanks(names, body, index, ask)
    empty = {*blank}
    if blank:
        notes.append(f"{len(blank)} column(s) without a name and without a value were left out")
    names, said = unique_names(names)
    notes += said
    return Layout(
        names,
        index,
        because,
        tuple(k for k in candidates(names) if _tells_rows_apart(names[k], k, body)),
        tuple(k for k in unnamed if k not in empty),
        blank,
        any(k >= header.written for k in blank),
    )


def _tells_rows_apart(name: str, k: int, body: list[list[str]]) -> bool:
    cells = [row[k] for row in body if k < len(row)]
    return how_rows_are_told_apart(name, cells) is not None


def _index(
    names: list[str], body: list[list[str]], decimal: str, because: str
) -> tuple[tuple[int, ...], str]:
    """Is the first column an index: without a name, or text that differs in all rows?"""
    first = [row[0] for row in body]
    if not names[0]:
        return ((0,) if any(cell.strip() for cell in first) else ()), because
    text = all(number(cell, decimal) is None for cell in first)
    # 1,234 and 12% are no names of rows: such a column is refused later, not left out
    text = text and not all(map(is_decorated_number, first))
    return ((0,), "text") if text and len(set(first)) == len(first) > 1 else ((), "")


def _without_blanks(
    names: list[str], body: list[list[str]], index: tuple[int, ...], ask: ReadOptions
) -> tuple[list[str], tuple[int, ...]]:
    """Names for columns that have none (the index may stay without), and which are empty."""
    full = [name or ("" if k in index else f"column {k + 1}") for k, name in enumerate(names)]
    said = {ask.id_column, *ask.aside.values(), *ask.drop, *ask.keep, *ask.variables}
    blank = [
        k
        for k, name in enumerate(names)
        if not name
        and k not in index
        and full[k] not in said
        and not any(row[k].strip() for row in body if k < len(row))
    ]
    return full, tuple(blank)


# --- from cells to a table


def roles_of(path: Path, layout: Layout, ask: ReadOptions) -> Roles:
    """Which columns are variables."""
    without = ask._replace(drop=(*ask.drop, *(layout.names[k] for k in layout.blank)))
    return assign_roles(path, layout.names, without, _index_of(layout, ask), layout.row_numbers)


def _index_of(layout: Layout, ask: ReadOptions) -> tuple[int, ...]:
    # text that could be an index is one only if the user names no other
    by_text = layout.index_because == "text" and ask.id_column is not None
    return () if by_text else layout.index_at


def read_rows(
    path: Path,
    layout: Layout,
    roles: Roles,
    ask: ReadOptions,
    records: Records,
    decimal: str,
    named: NamedRows,
    advice: Advice,
    marks: Marks | None = None,
) -> RowsRead:
    """All rows, one after the other; ``advice`` is about cells that are no numbers."""
    growing = Growing(len(roles.variables))
    others = {k: list[str]() for k in (*roles.texts(), *layout.blank)}
    found: dict[str, list[str]] = {}
    percentages = Percentages(path, layout.names, roles.variables)
    for line, row in records():
        if named.has(row) and named.name(row) not in found:
            found[named.name(row)] = [row[k] for k in roles.variables if k < len(row)]
            continue
        if len(row) != len(layout.names):
            _refuse_width(path, layout, line, row)
        numbers = _numbers([row[k] for k in roles.variables], decimal)
        if None in numbers:
            others_named = (one for one in records() if not named.has(one[1]))
            bad = Bad.of(others_named, roles.variables, lambda cell: number(cell, decimal))
            refuse_unusable(path, layout.names, bad, advice, ask)
        percentages.see(line, row, growing.array[: growing.rows])
        growing.room(1)[0] = numbers
        for k, cells in others.items():
            cells.append(row[k])
        if marks is not None:
            for k in roles.variables:
                marks.see(k, line, row[k])
        ask.progress(growing.rows)
    if marks is not None:
        marks.refuse_thousands(path, layout.names)
    doubts = [*percentages.notes(), *([] if marks is None else marks.doubts(layout.names))]
    return RowsRead(growing.finish(), others, doubts, found)


def _refuse_width(path: Path, layout: Layout, line: int, row: list[str]) -> None:
    wanted = (
        f"most rows have {len(layout.names)}, one more than the header, for the names of the "
        "rows; every row needs as many"
        if layout.index_because == "shifted"
        else f"the header has {len(layout.names)}; every row needs as many as the header"
    )
    raise TableError(f"{path}, line {line}: it has {len(row)} cells, {wanted}")


def table_of(
    path: Path,
    layout: Layout,
    roles: Roles,
    read: RowsRead,
    records: Records,
    notes: list[str],
    ask: ReadOptions,
) -> Table:
    """The table, with what is to be said about it."""
    names = layout.names
    X, texts = _without_empty_end(read.variables, read.texts, notes)
    said, mistaken = tell_row_numbers(names, roles, texts, ask)
    mistaken += _not_blank(path, layout, texts)
    if mistaken:  # the first rows had another look: read again, and know better
        raise Mistaken(mistaken)
    _refuse_rounded(path, names, roles, X, records)
    if roles.ids and roles.ids == _index_of(layout, ask):
        notes.append(_say_index(path, layout, texts[roles.ids[0]]))
    notes += [
        *said,
        *tell_identifiers(names, roles, ask),
        *_say_unnamed(layout, roles, ask),
        *read.doubts,
    ]
    aside = {what: [unescaped(one) for one in texts[k]] for what, k in roles.aside.items()}
    return Table(
        path,
        X,
        [names[k] for k in roles.variables],
        [unescaped(one) for one in texts[roles.ids[0]]] if roles.ids else None,
        aside.get("label"),
        notes,
        tuple(names[k] for k in roles.row_numbers),
        aside.get("groups"),
        aside.get("response"),
        {name: [unescaped(one.strip()) for one in row] for name, row in read.named.items()},
        names[roles.ids[0]] if roles.ids else "",
    )


def _refuse_rounded(
    path: Path, names: list[str], roles: Roles, X: np.ndarray, records: Records
) -> None:
    """Refuse whole numbers that are not what they were in the file."""
    if not X.size:
        return
    beyond = (np.fmax.reduce(X, axis=0) > EXACT) | (np.fmin.reduce(X, axis=0) < -EXACT)
    suspects = [k for k, large in zip(roles.variables, beyond, strict=True) if large]
    if not suspects:
        return
    for line, row in records():
        for k in suspects:
            value = whole(row[k]) if k < len(row) else None
            if value is not None and abs(value) > EXACT and int(float(value)) != value:
                refuse_inexact(f"{path}, line {line}", column_called(path, names, k), value)


def _without_empty_end(
    X: np.ndarray, texts: dict[int, list[str]], notes: list[str]
) -> tuple[np.ndarray, dict[int, list[str]]]:
    """Leave out the rows at the end that hold nothing, as spreadsheet programs export them."""
    last = X.shape[0]
    while last and not any(cells[last - 1].strip() for cells in texts.values()):
        if not np.all(np.isnan(X[last - 1])):
            break
        last -= 1
    if last < X.shape[0]:
        notes.append(f"{X.shape[0] - last:,} row(s) at the end without any value were left out")
    return X[:last], {k: cells[:last] for k, cells in texts.items()}


def _say_index(path: Path, layout: Layout, ids: list[str]) -> str:
    name = layout.names[layout.index_at[0]]
    if layout.index_because == "text":
        refuse_repeated_index(path, name, ids)
        return f"the first column, {quietly(name)}, holds the names of the rows"
    if layout.index_because == "shifted" and len(set(ids)) < len(ids):
        raise TableError(
            f"{path}: every row has one cell more than the header, and the first cells are not "
            "names of rows, as some are the same: is a name missing in the header, or are there "
            "decimal commas between commas?"
        )
    return (
        "the first column, without a name, holds the names of the rows; if it is a variable, say "
        f"--keep {FIRST!r}"
    )


def _say_unnamed(layout: Layout, roles: Roles, ask: ReadOptions) -> list[str]:
    """Notes about variables that have no name in the file."""
    variables, known = {*roles.variables}, {*ask.keep, *ask.variables}
    return [
        f"the column {k + 1} has no name and was taken as a variable, called "
        f"{quietly(layout.names[k])}; to leave it out, say --drop {quietly(layout.names[k])}"
        for k in layout.unnamed
        if k in variables and layout.names[k] not in known
    ]


def _not_blank(path: Path, layout: Layout, texts: dict[int, list[str]]) -> list[str]:
    """Names of columns that are not blank after all."""
    full = [k for k in layout.blank if any(cell.strip() for cell in texts[k])]
    if full and layout.header_is_short:
        row, cell = next((r, c) for r, c in enumerate(texts[full[0]], 1) if c.strip())
        raise TableError(
            f"{path}, row {row} of the data: {quietly(cell)} is beyond the end of the header, "
            "which has no name for it"
        )
    return [layout.names[k] for k in full]
