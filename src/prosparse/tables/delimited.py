"""CSV and its relatives, streamed by pyarrow; what a file says in no header is found out first.

Separator, decimal comma, byte-order mark and index column are guessed from the first rows and
said. What pyarrow refuses is read again, slowly: either it can be read after all, or that reading
finds the row and the column to blame.
"""

from __future__ import annotations

import codecs
import csv
import io
import itertools
import re
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

import numpy as np

from ..errors import TableError
from .base import MISSING, Growing, ReadOptions, Roles, Table, opened, quietly
from .layout import (
    Layout,
    RowsRead,
    find_layout,
    no_header,
    read_rows,
    roles_of,
    table_of,
    take_header,
)
from .marks import Marks, Use, decimal_mark, has_thousands, use_of
from .orientation import NamedRows, rows_by_name

SAMPLE_LINES = 200  # to look at, or fewer if they hold as many characters as
SAMPLE_CHARACTERS = 2_000_000
MOST_BLANK = 100_000  # empty lines among those
LONGEST_LINE = 2**27  # characters: a row of ten million numbers
WIDEST = 50_000  # columns: beyond, pyarrow's work and memory for each exceed those of its cells
BLOCK = 2**24  # bytes of text that pyarrow parses at a time
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",  # before that of UTF-16, which it begins with
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Lines in files of the Gene Expression Omnibus that are about the table, above and below it.
_ABOUT_THE_TABLE = re.compile(
    r'"?!(?:series|sample|dataset|subset|annotation|platform|database)', re.I
)
# Numbers with marks between their digits, as separators of thousands or of decimals are.
_WITH_MARKS = re.compile(r"\s*[-+]?\d+(?:[.,\s'\u2019\u066c]+\d+)*\s*")
_NO_SEPARATORS = set('0123456789.+-"\r\n')
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')  # as spreadsheet programs write and obey it


class Shape(NamedTuple):
    """How the file is written."""

    encoding: str
    separator: str
    decimal: str
    skipped: int  # lines before the first row of data
    quoted: bool
    spaced: bool  # a space may be between a separator and a quotation mark
    doubtful: bool  # the decimal mark could be one of thousands: all rows are to be looked at
    layout: Layout
    named: NamedRows


def read_delimited(path: Path, ask: ReadOptions) -> Table:
    notes: list[str] = []
    shape, ask = find_shape(path, ask, notes)
    roles = roles_of(path, shape.layout, ask)
    # pyarrow wants an ASCII separator
    unusual = shape.doubtful or shape.spaced or bool(shape.named.wanted)
    fast = len(shape.layout.names) <= WIDEST and shape.separator.isascii() and not unusual
    read = (_stream if fast else _row_by_row)(path, shape, roles, ask)
    return table_of(path, shape.layout, roles, read, lambda: _records(path, shape), notes, ask)


def read_texts(path: Path, ask: ReadOptions) -> tuple[list[str], list[list[str]], list[str]]:
    """Return all cells of a file as text: names of the columns, rows, and notes about values."""
    shape, _ = find_shape(path, ask, [])
    try:
        rows = [row for _, row in _records(path, shape)]
    except UnicodeError:
        _blame_encoding(path, shape.encoding, shape.separator)
    except csv.Error as error:
        raise TableError(f"{path}: it cannot be read as a table: {error}") from None
    return shape.layout.names, rows, []


# --- how the file is written


def find_shape(path: Path, ask: ReadOptions, notes: list[str]) -> tuple[Shape, ReadOptions]:
    """How the file is written, and what is asked of its columns."""
    encoding = _encoding(path, ask)
    lines, whole = _first_lines(path, encoding, ask)
    declared = _take_separator_line(lines)
    separator = ask.separator or (declared[1] if declared else _separator(path, lines, ask))
    _check_separator(path, separator, ask)
    spaced = separator != " " and any(f'{separator} "' in line for line in lines)
    rows = _sample(path, lines, whole, separator, spaced)
    if ask.header:
        header = take_header(path, rows, notes)
    else:
        header = no_header(rows, declared[0] if declared else 0)
    columns, named = rows_by_name(header.names, ask)
    header = header._replace(body=named.without(header.body))
    if not header.body:
        raise TableError(f"{path}: all of its rows are labels, or left out")
    no_numbers = {columns.id_column, *columns.aside.values(), *columns.drop}
    aside = {k for k, name in enumerate(header.names) if name in no_numbers}
    decimal = ask.decimal or decimal_mark(_cells(header.body, aside), separator)
    if separator != "," or decimal != ".":
        commas = ", numbers have decimal commas" if decimal == "," else ""
        called = _SEPARATORS.get(separator, quietly(separator))
        notes.append(f"the columns are separated by {called}{commas}")
    if encoding not in ("utf-8", "utf-8-sig"):
        notes.append(f"the text was read as {encoding}")
    layout = find_layout(header, decimal, columns, notes)
    doubtful = False
    if ask.decimal is None and separator != ",":
        use = use_of(_cells(header.body, aside | {*layout.index_at}), decimal)
        # numbers from a thousand on may come late
        doubtful = use is Use.DOUBTFUL or (
            use is Use.NONE and not whole and _thousands_below(path, encoding, separator, decimal)
        )
    shape = Shape(
        encoding,
        separator,
        decimal,
        header.line,
        any('"' in line for line in lines),
        spaced,
        doubtful,
        layout,
        named,
    )
    return shape, columns


def _check_separator(path: Path, separator: str, ask: ReadOptions) -> None:
    if len(separator) != 1 or ask.decimal not in (None, ".", ","):
        raise TableError(
            f"{path}: columns are separated by one character, and decimals by a point or a comma, "
            f"not by {quietly(separator)} and {quietly(ask.decimal)}"
        )
    if separator == ask.decimal:
        raise TableError(
            f"{path}: {separator!r} cannot separate both columns and decimals: save the file with "
            "semicolons or tabs between the columns"
        )
    if separator in _NO_SEPARATORS:
        raise TableError(
            f"{path}: {separator!r} is part of numbers or ends a line or a text, and cannot "
            "separate columns: choose another --separator"
        )


def _cells(body: list[list[str]], aside: set[int]) -> Iterator[str]:
    """All cells but those of the columns ``aside``, which are no variables."""
    return (cell for row in body for k, cell in enumerate(row) if k not in aside)


def _thousands_below(path: Path, encoding: str, separator: str, mark: str) -> bool:
    """Whether a number anywhere in the file looks like thousands."""
    try:
        with io.TextIOWrapper(opened(path), encoding=encoding) as file:
            return has_thousands(file, separator, mark)
    except UnicodeError:
        return False  # whoever reads the rows will say where


def _sample(
    path: Path, lines: list[str], whole: bool, separator: str, spaced: bool
) -> list[tuple[int, list[str]]]:
    """Rows to look at, and the numbers of the lines that they end on."""
    try:
        rows = _cut(lines, separator, spaced)
    except csv.Error as error:
        raise TableError(f"{path}: it cannot be cut into columns ({error})") from error
    if not whole and len(rows) > 2:
        rows.pop()  # it may end in the middle of a cell
    while len(rows) > 2 and not any(map(str.strip, rows[-1][1])):
        rows.pop()  # see `_without_empty_end`
    if not rows:
        raise TableError(f"{path}: the file holds nothing but empty lines")
    return rows


def _take_separator_line(lines: list[str]) -> tuple[int, str] | None:
    """Blank out a first line such as ``sep=;``; its number, and the separator."""
    first = next((k for k, line in enumerate(lines) if line.strip()), None)
    found = None if first is None else _SEPARATOR_LINE.fullmatch(lines[first])
    if first is None or found is None:
        return None
    lines[first] = "\n"
    return first + 1, found[1]


def _encoding(path: Path, ask: ReadOptions) -> str:
    with opened(path) as file:
        start = file.read(4096)
    found = next((name for bom, name in _BOMS.items() if start.startswith(bom)), None)
    encoding = ask.encoding or found or "utf-8"
    try:
        "".encode(encoding)
        canonical = codecs.lookup(encoding).name
    except LookupError:
        raise TableError(
            f"{path}: there is no encoding of text called {quietly(encoding)}"
        ) from None
    if found is not None and canonical != found:
        if not found.startswith(canonical.removesuffix("-le").removesuffix("-be")):
            raise TableError(
                f"{path}: it begins with the mark of {found.removesuffix('-sig')}, and is not "
                f"{encoding}: leave --encoding out"
            )
        encoding = found  # or the mark would be part of the first name
    if b"\0" in start and not canonical.startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path}: this is not text (it holds zero bytes): is the ending right? Or name its "
            "encoding, such as --encoding utf-16"
        )
    return encoding


def _first_lines(path: Path, encoding: str, ask: ReadOptions) -> tuple[list[str], bool]:
    """Lines to look at, blank ones among them, and whether these are all."""
    try:
        with io.TextIOWrapper(opened(path), encoding=encoding, newline="") as file:
            lines: list[str] = []
            characters = full = 0
            while full < SAMPLE_LINES and not (characters > SAMPLE_CHARACTERS and full > 2):
                line = file.readline(LONGEST_LINE)
                if len(line) == LONGEST_LINE:
                    raise TableError(
                        f"{path}: a line is longer than {LONGEST_LINE:,} characters: is this a "
                        "table?"
                    )
                if not line:
                    return lines, True
                lines.append(line)
                characters += len(line)
                full += bool(line.strip())
                if len(lines) - full > MOST_BLANK:
                    raise TableError(
                        f"{path}: more than {MOST_BLANK:,} of the first lines are empty: is this "
                        "a table?"
                    )
            return lines, not file.read(1)
    except UnicodeError:
        _blame_encoding(path, encoding, ask.separator or ",")


def _cut(lines: Iterable[str], separator: str, spaced: bool = False) -> list[tuple[int, list[str]]]:
    """Rows that are not blank, and the numbers of the lines that they end on."""
    return list(_numbered(csv.reader(lines, delimiter=separator, skipinitialspace=spaced)))


def _numbered(reader: Any) -> Iterator[tuple[int, list[str]]]:
    for row in reader:
        if (len(row) > 1 or (row and row[0].strip())) and not _ABOUT_THE_TABLE.match(row[0]):
            yield reader.line_num, row


def _separator(path: Path, lines: list[str], ask: ReadOptions) -> str:
    """The separator that cuts the lines into most columns, the same number in nearly all."""
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    best, most = ",", (0.0, 0)
    # a title above the table is cut by no separator
    titles = itertools.takewhile(lambda line: not any(s in line for s in _SEPARATORS), lines)
    above = sum(bool(line.strip()) for line in titles)
    for separator in _SEPARATORS:
        if separator == ask.decimal:
            continue
        try:
            counts = [len(row) for _, row in _cut(lines, separator)]
        except csv.Error:  # a cell of many thousand characters: this is not the separator
            continue
        usual = max(set(counts), key=counts.count, default=0)
        # decimal commas cut rows, too, but not all into the same number, and never the header
        merit = (float(np.mean([c == usual for c in counts])), usual) if usual > 1 else (0.0, 0)
        if separator in (";", "\t", "|") and usual > 1 and counts[above] > 1:
            merit = (merit[0] + 1.0, usual)
        if merit > most:
            best, most = separator, merit
    return best


# --- the numbers


def _stream(path: Path, shape: Shape, roles: Roles, ask: ReadOptions) -> RowsRead:
    """Block after block into one array."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    numbers = [str(k) for k in roles.variables]
    others = {k: list[str]() for k in (*roles.texts(), *shape.layout.blank)}
    texts = [str(k) for k in others]
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    longest = 64 * max(len(shape.layout.names), 1)  # a row must fit into a block
    encoding = "utf-8" if shape.encoding == "utf-8-sig" else shape.encoding
    read = arrow.ReadOptions(
        column_names=[str(k) for k in range(len(shape.layout.names))],
        skip_rows=shape.skipped,
        block_size=max(BLOCK, 4 * longest),
        encoding=encoding,
    )
    parse = arrow.ParseOptions(
        delimiter=shape.separator,
        newlines_in_values=shape.quoted,
        invalid_row_handler=lambda row: "skip" if _ABOUT_THE_TABLE.match(row.text) else "error",
    )
    convert = arrow.ConvertOptions(
        column_types=types,
        include_columns=[*numbers, *texts],
        null_values=list(MISSING),
        strings_can_be_null=False,
        decimal_point=shape.decimal,
    )
    growing = Growing(len(numbers))
    try:
        packed = path.suffix.lower() == ".gz"
        with pa.PythonFile(opened(path)) if packed else pa.OSFile(str(path)) as source:
            for batch in arrow.open_csv(source, read, parse, convert):
                rows = growing.room(batch.num_rows)
                for j, column in enumerate(batch.columns[: len(numbers)]):
                    rows[:, j] = column.to_numpy(zero_copy_only=False)
                for k, cells in others.items():
                    cells.extend(batch.column(str(k)).to_pylist())
                ask.progress(growing.rows)
    except (pa.ArrowException, UnicodeError):
        # pyarrow knows fewer ways to write a number than `number`, and does not say which line
        del growing
        return _row_by_row(path, shape, roles, ask)
    pa.default_memory_pool().release_unused()  # the fit will want it
    return RowsRead(growing.finish(), others, [], {})


def _row_by_row(path: Path, shape: Shape, roles: Roles, ask: ReadOptions) -> RowsRead:
    """The same as `_stream`, slowly: for rows of very many cells, and for all that is unusual."""
    try:
        return read_rows(
            path,
            shape.layout,
            roles,
            ask,
            lambda: _records(path, shape),
            shape.decimal,
            shape.named,
            lambda cell: _advice(cell, shape),
            Marks(shape.decimal) if shape.doubtful else None,
        )
    except UnicodeError:
        _blame_encoding(path, shape.encoding, shape.separator)
    except csv.Error as error:
        raise TableError(f"{path}: it cannot be read as a table: {error}") from None


# --- whose fault it was


def _records(path: Path, shape: Shape) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row of data, slowly."""
    with io.TextIOWrapper(opened(path), encoding=shape.encoding, newline="") as file:
        for _ in range(shape.skipped):
            file.readline()
        cut = csv.reader(file, delimiter=shape.separator, skipinitialspace=shape.spaced)
        for line, row in _numbered(cut):
            yield shape.skipped + line, row


def _advice(cell: str, shape: Shape) -> str | None:
    """What to do about a cell that is a number or a gap to a person; None if it is neither."""
    if _WITH_MARKS.fullmatch(cell):
        misjudged = (
            "if commas begin decimals, save the file with semicolons or tabs between the columns"
            if shape.separator == ","
            else "if the decimals are misjudged, say --decimal comma or --decimal point"
        )
        return (
            f"Numbers are written with a decimal {'comma' if shape.decimal == ',' else 'point'} "
            "in this file, without separators of thousands. Take out what separates thousands; "
            f"{misjudged}; if the column is no variable"
        )
    if not any(one.isalnum() for one in cell):
        return (
            "If it stands for a missing value, leave the cell empty or write NA; if the column is "
            "no variable"
        )
    return None


def _blame_encoding(path: Path, encoding: str, separator: str) -> NoReturn:
    """Say where the text of a file is not in its encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, separators = 1, 0  # the number of a line, and the separators in it so far
    with opened(path) as file:
        while block := file.read(2**16):
            text, wrong = _decoded(decoder, block)
            line += text.count("\n")
            last = text.rpartition("\n")[2]
            separators = last.count(separator) + (0 if "\n" in text else separators)
            if wrong:
                raise TableError(
                    f"{path}, line {line}, column {separators + 1}: the text is not "
                    f"{encoding} (byte 0x{wrong.hex()}). Save the file as UTF-8, or name its "
                    "encoding: --encoding cp1252 is common for spreadsheets on Windows"
                )
    raise TableError(
        f"{path}, line {line}: the file ends in the middle of a character of {encoding}: was it "
        "cut short? If it is in another encoding, name it with --encoding"
    )


def _decoded(decoder: codecs.IncrementalDecoder, block: bytes) -> tuple[str, bytes]:
    """The text of a block up to the first byte that is wrong, and that byte if there is one."""
    before = decoder.getstate()
    try:
        return decoder.decode(block), b""
    except UnicodeError:
        decoder.setstate(before)
    text = ""
    for k in range(len(block)):
        try:
            text += decoder.decode(block[k : k + 1])
        except UnicodeDecodeError as error:  # it may be about a byte before this one
            return text, error.object[error.start : error.start + 1]
        except UnicodeError:
            return text, block[k : k + 1]
    return text, block[-1:]
