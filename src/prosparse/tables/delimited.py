"""CSV and its relatives, streamed by pyarrow; what a file says in no header is found out first.

Separator, decimal comma, byte-order mark and index column are guessed from the first rows and
said. When pyarrow refuses a file, a slow second reading finds the row and column to blame.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..errors import TableError
from .base import (
    MISSING,
    Ask,
    Growing,
    Roles,
    Table,
    assign_roles,
    column_called,
    opened,
    quietly,
    refuse_repeated_index,
)

SAMPLE_LINES = 200  # to look at, or fewer if they hold as many letters as
SAMPLE_LETTERS = 2_000_000
LONGEST_LINE = 2**27  # letters: a row of ten million numbers
WIDEST = 50_000  # columns: beyond, pyarrow's work and memory for each exceed those of its cells
BLOCK = 2**24  # bytes of text that pyarrow parses at a time
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BOMS = {
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
_DECIMAL_COMMA = re.compile(r"\s*[-+]?\d*,\d+(?:[eE][-+]?\d+)?\s*")
_DECIMAL_POINT = re.compile(r"\s*[-+]?\d*\.\d+(?:[eE][-+]?\d+)?\s*")


class Shape(NamedTuple):
    """How the file is written."""

    encoding: str
    separator: str
    decimal: str
    names: list[str]
    header: bool
    index_at: int | None  # the column that looks like an index
    guessed: bool  # the index is a guess from text in a named column
    blank: tuple[str, ...]  # columns without a name and without a value
    quoted: bool


def read_delimited(path: Path, ask: Ask) -> Table:
    notes: list[str] = []
    shape = find_shape(path, ask, notes)
    ask = ask._replace(drop=(*ask.drop, *shape.blank))
    roles = assign_roles(path, shape.names, ask, shape.index_at, notes)
    read = _stream if len(shape.names) <= WIDEST else _row_by_row
    X, ids, label = read(path, shape, roles, ask)
    if ids is not None and shape.guessed and ask.id_column is None:
        refuse_repeated_index(path, shape.names[roles.id or 0], ids)
    names = [shape.names[k] for k in roles.variables]
    return Table(path, X, names, ids, label, notes)


# --- how the file is written


def find_shape(path: Path, ask: Ask, notes: list[str]) -> Shape:
    encoding = _encoding(path, ask)
    lines = _first_lines(path, encoding, ask)
    separator = ask.separator or _separator(path, lines)
    try:
        rows = _cut(lines, separator)
    except csv.Error as error:
        raise TableError(f"{path}: it cannot be cut into columns ({error})") from error
    if not rows:
        raise TableError(f"{path}: the file holds nothing but empty lines")
    if ask.header:
        names, body = [name.strip() for name in rows[0]], rows[1:]
    else:
        names, body = [f"x{k}" for k in range(len(rows[0]))], rows
    if not body:
        raise TableError(f"{path}: there is a header, but no row of data below it")
    if ask.header and len(body[0]) == len(names) + 1:  # as R's write.table leaves it
        names = ["", *names]
    cells = [cell for row in body for cell in row]
    decimal = _decimal(cells, separator)
    if separator != "," or decimal != ".":
        commas = ", numbers have decimal commas" if decimal == "," else ""
        called = _SEPARATORS.get(separator, quietly(separator))
        notes.append(f"the columns are separated by {called}{commas}")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text was read as {encoding}")
    if ask.header and all(_number(name, decimal) is not None for name in names):
        notes.append(
            "the first line holds only numbers and was taken as names; if it is data, say "
            "--no-header"
        )
    index, guessed = _index(names, body, decimal)
    names, blank = _without_blanks(names, body, index)
    if blank:
        notes.append(f"{len(blank)} column(s) without a name and without a value were left out")
    quoted = any('"' in line for line in lines)
    return Shape(encoding, separator, decimal, names, ask.header, index, guessed, blank, quoted)


def _encoding(path: Path, ask: Ask) -> str:
    with opened(path) as file:
        start = file.read(4096)
    found = next((name for bom, name in _BOMS.items() if start.startswith(bom)), None)
    encoding = ask.encoding or found or "utf-8"
    try:
        codecs.lookup(encoding)
    except LookupError:
        raise TableError(f"{path}: there is no encoding called {quietly(encoding)}") from None
    if b"\0" in start and not encoding.lower().replace("-", "").startswith("utf16"):
        raise TableError(f"{path}: this is not text (it holds zero bytes): is the ending right?")
    return encoding


def _first_lines(path: Path, encoding: str, ask: Ask) -> list[str]:
    try:
        with io.TextIOWrapper(opened(path), encoding=encoding, newline="") as file:
            lines: list[str] = []
            letters = 0
            for _ in range(SAMPLE_LINES):
                line = file.readline(LONGEST_LINE)
                if len(line) == LONGEST_LINE:
                    raise TableError(
                        f"{path}: a line is longer than {LONGEST_LINE:,} letters: is this a table?"
                    )
                if not line:
                    break
                if line.strip():
                    lines.append(line)
                    letters += len(line)
                if letters > SAMPLE_LETTERS and len(lines) > 2:
                    break
            return lines
    except UnicodeError:
        _blame_encoding(path, encoding, ask.separator or ",")


def _cut(lines: list[str], separator: str) -> list[list[str]]:
    return [row for row in csv.reader(lines, delimiter=separator) if row]


def _separator(path: Path, lines: list[str]) -> str:
    """The separator that cuts the lines into most columns, the same number in nearly all."""
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    best, most = ",", (0.0, 0)
    for separator in _SEPARATORS:
        try:
            counts = [len(row) for row in _cut(lines, separator)]
        except csv.Error:  # a cell of many thousand letters: this is not the separator
            continue
        usual = max(set(counts), key=counts.count, default=0)
        # decimal commas cut rows, too, but not all into the same number, and never the header
        merit = (float(np.mean([c == usual for c in counts])), usual) if usual > 1 else (0.0, 0)
        if separator in (";", "\t", "|") and usual > 1 and counts[0] > 1:
            merit = (merit[0] + 1.0, usual)
        if merit > most:
            best, most = separator, merit
    return best


def _decimal(cells: list[str], separator: str) -> str:
    if separator == ",":
        return "."
    commas = sum(_DECIMAL_COMMA.fullmatch(cell) is not None for cell in cells)
    points = sum(_DECIMAL_POINT.fullmatch(cell) is not None for cell in cells)
    return "," if commas > points else "."


def _number(cell: str, decimal: str) -> float | None:
    """What a cell says as a number; NaN where it is missing, None where it is no number."""
    text = cell.strip()
    if text in MISSING:
        return float("nan")
    if "_" in text or (decimal == "," and "." in text):
        return None
    try:
        return float(text.replace(decimal, "."))
    except ValueError:
        return None


def _index(names: list[str], body: list[list[str]], decimal: str) -> tuple[int | None, bool]:
    """Is the first column an index: without a name, or text that differs in all rows?"""
    if not names[0]:
        return 0, False
    first = [row[0] for row in body]
    text = all(_number(cell, decimal) is None for cell in first)
    return (0, True) if text and len(set(first)) == len(first) > 1 else (None, False)


def _without_blanks(
    names: list[str], body: list[list[str]], index: int | None
) -> tuple[list[str], tuple[str, ...]]:
    """Names for columns that have none (the index may stay without), and which are empty."""
    full = [name or ("" if k == index else f"column {k + 1}") for k, name in enumerate(names)]
    blank = [
        full[k]
        for k, name in enumerate(names)
        if not name and k != index and not any(row[k].strip() for row in body if k < len(row))
    ]
    return full, tuple(blank)


# --- the numbers


def _stream(
    path: Path, shape: Shape, roles: Roles, ask: Ask
) -> tuple[np.ndarray, list[str] | None, list[Any] | None]:
    """Block after block into one array."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    numbers = [str(k) for k in roles.variables]
    texts = [str(k) for k in (roles.id, roles.label) if k is not None]
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    longest = 64 * max(len(shape.names), 1)  # a row must fit into a block
    encoding = "utf-8" if shape.encoding == "utf-8-sig" else shape.encoding
    read = arrow.ReadOptions(
        column_names=[str(k) for k in range(len(shape.names))],
        skip_rows=int(shape.header),
        block_size=max(BLOCK, 4 * longest),
        encoding=encoding,
    )
    parse = arrow.ParseOptions(delimiter=shape.separator, newlines_in_values=shape.quoted)
    convert = arrow.ConvertOptions(
        column_types=types,
        include_columns=[*numbers, *texts],
        null_values=list(MISSING),
        strings_can_be_null=False,
        decimal_point=shape.decimal,
    )
    growing, ids, label = Growing(len(numbers)), list[str](), list[Any]()
    try:
        packed = path.suffix.lower() == ".gz"
        with pa.PythonFile(opened(path)) if packed else pa.OSFile(str(path)) as source:
            for batch in arrow.open_csv(source, read, parse, convert):
                rows = growing.room(batch.num_rows)
                for j, column in enumerate(batch.columns[: len(numbers)]):
                    rows[:, j] = column.to_numpy(zero_copy_only=False)
                if roles.id is not None:
                    ids += batch.column(str(roles.id)).to_pylist()
                if roles.label is not None:
                    label += batch.column(str(roles.label)).to_pylist()
                ask.progress(growing.rows)
    except (pa.ArrowException, UnicodeError) as error:
        _blame(path, shape, roles, str(error).splitlines()[0])
    pa.default_memory_pool().release_unused()  # the fit will want it
    return (
        growing.finish(),
        ids if roles.id is not None else None,
        label if roles.label is not None else None,
    )


def _row_by_row(
    path: Path, shape: Shape, roles: Roles, ask: Ask
) -> tuple[np.ndarray, list[str] | None, list[Any] | None]:
    """The same as `_stream`, for rows of very many cells."""
    growing, ids, label = Growing(len(roles.variables)), list[str](), list[Any]()
    try:
        for _, row in _records(path, shape):
            numbers = [_number(row[k], shape.decimal) for k in roles.variables if k < len(row)]
            if len(row) != len(shape.names) or None in numbers:
                _blame(path, shape, roles, "")
            growing.room(1)[0] = numbers
            if roles.id is not None:
                ids.append(row[roles.id])
            if roles.label is not None:
                label.append(row[roles.label])
            ask.progress(growing.rows)
    except (UnicodeError, csv.Error) as error:
        _blame(path, shape, roles, str(error))
    return (
        growing.finish(),
        ids if roles.id is not None else None,
        label if roles.label is not None else None,
    )


# --- whose fault it was


def _records(path: Path, shape: Shape) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row of data, slowly."""
    with io.TextIOWrapper(opened(path), encoding=shape.encoding, newline="") as file:
        reader = csv.reader(file, delimiter=shape.separator)
        waiting = shape.header
        for row in reader:
            if row and not waiting:
                yield reader.line_num, row
            waiting = waiting and not row


def _blame(path: Path, shape: Shape, roles: Roles, otherwise: str) -> NoReturn:
    """Find the first row and column that cannot be read, and say so."""
    try:
        for line, row in _records(path, shape):
            if len(row) != len(shape.names):
                raise TableError(
                    f"{path}, line {line}: it has {len(row)} cells, the header has "
                    f"{len(shape.names)}; every row needs as many as the header"
                )
            for k in roles.variables:
                if _number(row[k], shape.decimal) is None:
                    raise TableError(
                        f"{path}, line {line}, {column_called(path, shape.names, k)}: "
                        f"{quietly(row[k])} is not a number. {_advice(row[k], shape, k)}"
                    )
    except UnicodeError:
        _blame_encoding(path, shape.encoding, shape.separator)
    except csv.Error as error:
        otherwise = str(error)
    raise TableError(f"{path}: it cannot be read as a table: {otherwise}") from None


def _advice(cell: str, shape: Shape, k: int) -> str:
    if re.fullmatch(r"[-+\d.,\s' ]+", cell):
        return (
            f"Numbers are written with a decimal {'comma' if shape.decimal == ',' else 'point'} "
            "in this file, without separators of thousands."
        )
    name = quietly(shape.names[k])
    return (
        f"Correct it, or say what the column is: --drop {name} leaves it out, --label {name} "
        f"colours by it, --id-column {name} names the rows by it"
    )


def _blame_encoding(path: Path, encoding: str, separator: str) -> NoReturn:
    with opened(path) as file:
        for line, raw in enumerate(file, 1):
            try:
                raw.decode(encoding)
            except UnicodeError as error:
                start = getattr(error, "start", 0)
                column = raw[:start].count(separator.encode()) + 1
                raise TableError(
                    f"{path}, line {line}, column {column}: the text is not {encoding} (byte "
                    f"0x{raw[start]:02x}). Save the file as UTF-8, or name its encoding: "
                    "--encoding cp1252 is common for spreadsheets on Windows"
                ) from None
    raise TableError(f"{path}: the text is not {encoding}; name its encoding with --encoding")
