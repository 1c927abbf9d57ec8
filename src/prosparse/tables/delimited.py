"""CSV and its relatives, streamed by pyarrow; what a file says in no header is found out first.

Separator, decimal comma, byte-order mark and index column are guessed from the first rows and
said. What pyarrow refuses is read again, slowly: either it can be read after all, or that reading
finds the row and the column to blame.
"""

from __future__ import annotations

import codecs
import csv
import io
import re
from collections.abc import Iterable, Iterator
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
    tell_identifiers,
    tell_row_numbers,
)
from .formulas import unescaped
from .identifiers import candidates, how_rows_are_told_apart
from .marks import Marks, Use, decimal_mark, has_thousands, is_decorated_number, use_of

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
# Numbers with marks between their digits, as separators of thousands or of decimals are.
_WITH_MARKS = re.compile(r"\s*[-+]?\d+(?:[.,\s'\u2019\u066c]+\d+)*\s*")
_NO_SEPARATORS = set('0123456789.+-"\r\n')
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')  # as spreadsheet programs write and obey it
# What the columns without a name that look like an index are called when they are kept.
_FIRST = "column 1"


class Shape(NamedTuple):
    """How the file is written."""

    encoding: str
    separator: str
    decimal: str
    names: list[str]
    skipped: int  # lines before the first row of data
    index_at: tuple[int, ...]  # the column that looks like an index
    index_because: str  # without a name, text, or cells without a name above them
    row_numbers: tuple[int, ...]  # columns that look like numbers of rows
    unnamed: tuple[int, ...]  # columns with values but without a name, which were given one
    blank: tuple[int, ...]  # columns without a name and without a value
    header_is_short: bool  # the blank columns are beyond the end of the header
    quoted: bool
    spaced: bool  # a space may be between a separator and a quotation mark
    doubtful: bool  # the decimal mark could be one of thousands: all rows are to be looked at


class RowsRead(NamedTuple):
    """What the rows hold."""

    variables: np.ndarray
    texts: dict[int, list[str]]  # other columns, by position
    doubts: list[str]  # notes about how the numbers are written


def read_delimited(path: Path, ask: Ask) -> Table:
    notes: list[str] = []
    shape = find_shape(path, ask, notes)
    names = shape.names
    # text that could be an index is one only if the user names no other
    index = () if shape.index_because == "text" and ask.id_column is not None else shape.index_at
    without = ask._replace(drop=(*ask.drop, *(names[k] for k in shape.blank)))
    roles = assign_roles(path, names, without, index, shape.row_numbers)
    # pyarrow wants an ASCII separator
    unusual = shape.doubtful or shape.spaced
    fast = len(names) <= WIDEST and shape.separator.isascii() and not unusual
    X, texts, doubts = (_stream if fast else _row_by_row)(path, shape, roles, ask)
    X, texts = _without_empty_end(X, texts, notes)
    said, mistaken = tell_row_numbers(names, roles, texts, ask)
    mistaken += _not_blank(path, shape, texts)
    if mistaken:  # the first rows had another look: read again, and know better
        return read_delimited(path, ask._replace(variables=(*ask.variables, *mistaken)))
    if roles.ids and roles.ids == index:
        notes.append(_say_index(path, shape, texts[index[0]]))
    notes += [
        *said,
        *tell_identifiers(names, roles, ask),
        *_say_unnamed(shape, roles, ask),
        *doubts,
    ]
    return Table(
        path,
        X,
        [names[k] for k in roles.variables],
        [unescaped(one) for one in texts[roles.ids[0]]] if roles.ids else None,
        None if roles.label is None else [unescaped(one) for one in texts[roles.label]],
        notes,
        tuple(names[k] for k in roles.row_numbers),
        None if roles.groups is None else [unescaped(one) for one in texts[roles.groups]],
    )


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


def _say_index(path: Path, shape: Shape, ids: list[str]) -> str:
    name = shape.names[shape.index_at[0]]
    if shape.index_because == "text":
        refuse_repeated_index(path, name, ids)
        return f"the first column, {quietly(name)}, holds the names of the rows"
    if shape.index_because == "shifted" and len(set(ids)) < len(ids):
        raise TableError(
            f"{path}: every row has one cell more than the header, and the first cells are not "
            "names of rows, as some are the same: is a name missing in the header, or are there "
            "decimal commas between commas?"
        )
    return (
        "the first column, without a name, holds the names of the rows; if it is a variable, say "
        f"--keep {_FIRST!r}"
    )


def _say_unnamed(shape: Shape, roles: Roles, ask: Ask) -> list[str]:
    """Notes about variables that have no name in the file."""
    return [
        f"the column {k + 1} has no name and was taken as a variable, called "
        f"{quietly(shape.names[k])}; to leave it out, say --drop {quietly(shape.names[k])}"
        for k in shape.unnamed
        if k in roles.variables and shape.names[k] not in (*ask.keep, *ask.variables)
    ]


def _not_blank(path: Path, shape: Shape, texts: dict[int, list[str]]) -> list[str]:
    """Names of columns that are not blank after all."""
    full = [k for k in shape.blank if any(cell.strip() for cell in texts[k])]
    if full and shape.header_is_short:
        row, cell = next((r, c) for r, c in enumerate(texts[full[0]], 1) if c.strip())
        raise TableError(
            f"{path}, row {row} of the data: {quietly(cell)} is beyond the end of the header, "
            "which has no name for it"
        )
    return [shape.names[k] for k in full]


# --- how the file is written


def find_shape(path: Path, ask: Ask, notes: list[str]) -> Shape:
    encoding = _encoding(path, ask)
    lines, whole = _first_lines(path, encoding, ask)
    declared = _take_separator_line(lines)
    separator = ask.separator or (declared[1] if declared else _separator(path, lines, ask))
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
    spaced = separator != " " and any(f'{separator} "' in line for line in lines)
    rows = _sample(path, lines, whole, separator, spaced)
    if ask.header:
        skipped, names, body = _take_header(path, rows)
    else:
        skipped = declared[0] if declared else 0
        names, body = [f"x{k}" for k in range(len(rows[0][1]))], [row for _, row in rows]
    written = len(names)
    names, because = _fitted_header(path, skipped, names, body) if ask.header else (names, "")
    no_numbers = {ask.id_column, ask.label, ask.groups, *ask.drop}
    aside = {k for k, name in enumerate(names) if name in no_numbers}
    decimal = ask.decimal or decimal_mark(_cells(body, aside), separator)
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
    if not names[0] and _FIRST in ask.keep:
        names[0] = _FIRST
    index, because = _index(names, body, decimal, because)
    unnamed = tuple(k for k, name in enumerate(names) if not name and k not in index)
    names, blank = _without_blanks(names, body, index, ask)
    doubtful = False
    if ask.decimal is None and separator != ",":
        use = use_of(_cells(body, aside | {*index}), decimal)
        # numbers from a thousand on may come late
        doubtful = use is Use.DOUBTFUL or (
            use is Use.NONE and not whole and _thousands_below(path, encoding, separator, decimal)
        )
    if blank:
        notes.append(f"{len(blank)} column(s) without a name and without a value were left out")
    return Shape(
        encoding,
        separator,
        decimal,
        names,
        skipped,
        index,
        because,
        tuple(k for k in candidates(names) if _tells_rows_apart(names[k], k, body)),
        tuple(k for k in unnamed if k not in blank),
        blank,
        any(k >= written for k in blank),
        any('"' in line for line in lines),
        spaced,
        doubtful,
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


def _take_header(
    path: Path, rows: list[tuple[int, list[str]]]
) -> tuple[int, list[str], list[list[str]]]:
    """The line on which the header ends, its names, and the rows below it."""
    first = next((k for k, (_, row) in enumerate(rows) if any(map(str.strip, row))), 0)
    line, header = rows[first]
    body = [row for _, row in rows[first + 1 :]]
    if not body:
        raise TableError(f"{path}: there is a header, but no row of data below it")
    return line, [unescaped(name.strip()) for name in header], body


def _fitted_header(
    path: Path, line: int, names: list[str], body: list[list[str]]
) -> tuple[list[str], str]:
    """The header with as many names as rows have cells, if separators at an end are the reason."""
    widths = [len(row) for row in body]
    extra = max(widths, key=widths.count) - len(names)  # of most rows: one may be too long
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


def _tells_rows_apart(name: str, k: int, body: list[list[str]]) -> bool:
    cells = [row[k] for row in body if k < len(row)]
    return how_rows_are_told_apart(name, cells) is not None


def _encoding(path: Path, ask: Ask) -> str:
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


def _first_lines(path: Path, encoding: str, ask: Ask) -> tuple[list[str], bool]:
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
        if len(row) > 1 or (row and row[0].strip()):
            yield reader.line_num, row


def _separator(path: Path, lines: list[str], ask: Ask) -> str:
    """The separator that cuts the lines into most columns, the same number in nearly all."""
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    best, most = ",", (0.0, 0)
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
        if separator in (";", "\t", "|") and usual > 1 and counts[0] > 1:
            merit = (merit[0] + 1.0, usual)
        if merit > most:
            best, most = separator, merit
    return best


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


def _index(
    names: list[str], body: list[list[str]], decimal: str, because: str
) -> tuple[tuple[int, ...], str]:
    """Is the first column an index: without a name, or text that differs in all rows?"""
    first = [row[0] for row in body]
    if not names[0]:
        return ((0,) if any(cell.strip() for cell in first) else ()), because
    text = all(_number(cell, decimal) is None for cell in first)
    # 1,234 and 12% are no names of rows: such a column is refused later, not left out
    text = text and not all(map(is_decorated_number, first))
    return ((0,), "text") if text and len(set(first)) == len(first) > 1 else ((), "")


def _without_blanks(
    names: list[str], body: list[list[str]], index: tuple[int, ...], ask: Ask
) -> tuple[list[str], tuple[int, ...]]:
    """Names for columns that have none (the index may stay without), and which are empty."""
    full = [name or ("" if k in index else f"column {k + 1}") for k, name in enumerate(names)]
    said = {ask.id_column, ask.label, ask.groups, *ask.drop, *ask.keep, *ask.variables}
    blank = [
        k
        for k, name in enumerate(names)
        if not name
        and k not in index
        and full[k] not in said
        and not any(row[k].strip() for row in body if k < len(row))
    ]
    return full, tuple(blank)


# --- the numbers


def _stream(path: Path, shape: Shape, roles: Roles, ask: Ask) -> RowsRead:
    """Block after block into one array."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    numbers = [str(k) for k in roles.variables]
    others = {k: list[str]() for k in (*roles.texts(), *shape.blank)}
    texts = [str(k) for k in others]
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(texts, pa.string())
    longest = 64 * max(len(shape.names), 1)  # a row must fit into a block
    encoding = "utf-8" if shape.encoding == "utf-8-sig" else shape.encoding
    read = arrow.ReadOptions(
        column_names=[str(k) for k in range(len(shape.names))],
        skip_rows=shape.skipped,
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
        # pyarrow knows fewer ways to write a number than `_number`, and does not say which line
        del growing
        return _row_by_row(path, shape, roles, ask)
    pa.default_memory_pool().release_unused()  # the fit will want it
    return RowsRead(growing.finish(), others, [])


def _row_by_row(path: Path, shape: Shape, roles: Roles, ask: Ask) -> RowsRead:
    """The same as `_stream`, slowly: for rows of very many cells, and for all that is unusual."""
    growing = Growing(len(roles.variables))
    others = {k: list[str]() for k in (*roles.texts(), *shape.blank)}
    marks = Marks(shape.decimal) if shape.doubtful else None
    try:
        for line, row in _records(path, shape):
            numbers = [_number(row[k], shape.decimal) for k in roles.variables if k < len(row)]
            if len(row) != len(shape.names) or None in numbers:
                _blame(path, shape, roles, line, row)
            growing.room(1)[0] = numbers
            for k, cells in others.items():
                cells.append(row[k])
            if marks is not None:
                for k in roles.variables:
                    marks.see(k, line, row[k])
            ask.progress(growing.rows)
    except UnicodeError:
        _blame_encoding(path, shape.encoding, shape.separator)
    except csv.Error as error:
        raise TableError(f"{path}: it cannot be read as a table: {error}") from None
    if marks is not None:
        marks.refuse_thousands(path, shape.names)
    doubts = [] if marks is None else marks.doubts(shape.names)
    return RowsRead(growing.finish(), others, doubts)


# --- whose fault it was


def _records(path: Path, shape: Shape) -> Iterator[tuple[int, list[str]]]:
    """Line number and cells of every row of data, slowly."""
    with io.TextIOWrapper(opened(path), encoding=shape.encoding, newline="") as file:
        for _ in range(shape.skipped):
            file.readline()
        cut = csv.reader(file, delimiter=shape.separator, skipinitialspace=shape.spaced)
        for line, row in _numbered(cut):
            yield shape.skipped + line, row


def _blame(path: Path, shape: Shape, roles: Roles, line: int, row: list[str]) -> NoReturn:
    """Say what is wrong with a row."""
    if len(row) != len(shape.names):
        shifted = shape.index_because == "shifted"
        wanted = (
            f"most rows have {len(shape.names)}, one more than the header, for the names of the "
            "rows; every row needs as many"
            if shifted
            else f"the header has {len(shape.names)}; every row needs as many as the header"
        )
        raise TableError(f"{path}, line {line}: it has {len(row)} cells, {wanted}")
    k = next(k for k in roles.variables if _number(row[k], shape.decimal) is None)
    raise TableError(
        f"{path}, line {line}, {column_called(path, shape.names, k)}: "
        f"{quietly(row[k])} is not a number. {_advice(row[k], shape, k)}"
    )


def _advice(cell: str, shape: Shape, k: int) -> str:
    name = quietly(shape.names[k])
    if _WITH_MARKS.fullmatch(cell):
        misjudged = (
            "if commas begin decimals, save the file with semicolons or tabs between the columns"
            if shape.separator == ","
            else "if the decimals are misjudged, say --decimal comma or --decimal point"
        )
        return (
            f"Numbers are written with a decimal {'comma' if shape.decimal == ',' else 'point'} "
            "in this file, without separators of thousands. Take out what separates thousands; "
            f"{misjudged}"
        )
    if not any(one.isalnum() for one in cell):
        return (
            "If it stands for a missing value, leave the cell empty or write NA; if the column is "
            f"no variable, say --drop {name}"
        )
    return (
        f"Correct it, or say what the column is: --drop {name} leaves it out, --label {name} "
        f"colours by it, --id-column {name} names the rows by it"
    )


def _blame_encoding(path: Path, encoding: str, separator: str) -> NoReturn:
    """Say where the text of a file is not in its encoding."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, begun = 1, ""  # the number of a line, and its text so far
    with opened(path) as file:
        while block := file.read(2**16):
            text, wrong = _decoded(decoder, block)
            line += text.count("\n")
            begun = text.rpartition("\n")[2] if "\n" in text else begun + text
            if wrong:
                raise TableError(
                    f"{path}, line {line}, column {begun.count(separator) + 1}: the text is not "
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
