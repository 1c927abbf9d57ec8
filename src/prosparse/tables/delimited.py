"""Reading of CSV and similar text files.

Separator, decimal mark, encoding and index are detected from the first rows and reported in notes.
The file is streamed by pyarrow. If pyarrow fails, the file is read again row by row, which either
succeeds or finds the row and the column of the error.
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
from .base import GrowableArray, ReadOptions, Roles, Table, open_binary, quote
from .decimal_marks import (
    MarkUse,
    ThousandsCheck,
    classify_mark,
    contains_thousands,
    find_decimal_mark,
)
from .layout import (
    Layout,
    Row,
    RowsRead,
    find_header,
    find_layout,
    find_roles,
    make_header,
    make_table,
    read_rows,
)
from .missing_codes import MISSING, split_codes
from .non_numeric import MISSING_ADVICE
from .number_format import NumberFormat
from .orientation import NamedRows, split_named_rows

SAMPLE_LINES = 200  # number of lines that determine the format
SAMPLE_CHARACTERS = 2_000_000  # maximum length of these lines
MAX_BLANK_LINES = 100_000  # maximum number of empty lines among these lines
MAX_LINE_LENGTH = 2**27  # maximum number of characters, sufficient for ten million numbers
MAX_ARROW_COLUMNS = 50_000  # pyarrow's overhead per column dominates in wider files
BLOCK = 2**24  # bytes of text that pyarrow parses at a time
_SEPARATORS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "vertical bars"}
_BOMS = {
    codecs.BOM_UTF32_LE: "utf-32",  # listed first, because it begins with the mark of UTF-16
    codecs.BOM_UTF32_BE: "utf-32",
    codecs.BOM_UTF8: "utf-8-sig",
    codecs.BOM_UTF16_LE: "utf-16",
    codecs.BOM_UTF16_BE: "utf-16",
}
# Metadata above and below the table in files of the Gene Expression Omnibus.
_METADATA = re.compile(r'"?!(?:series|sample|dataset|subset|annotation|platform|database)', re.I)
# Numbers with decimal marks or thousands separators.
_WITH_MARKS = re.compile(r"\s*[-+]?\d+(?:[.,\s'\u2019\u066c]+\d+)*\s*")
_INVALID_SEPARATORS = set('0123456789.+-"\r\n')
_UNREADABLE = "the file cannot be read as a table ({}). Check its quotation marks and --separator."
_SEPARATOR_LINE = re.compile(r'"?sep=(.)"?\s*')  # instruction to spreadsheet programs


class TextFormat(NamedTuple):
    """Format of a text file."""

    encoding: str
    separator: str
    decimal: str
    n_skipped: int  # number of lines before the first row of data
    is_quoted: bool
    is_spaced: bool  # whether spaces occur between separators and quotation marks
    is_ambiguous: bool  # whether the decimal mark may separate thousands
    layout: Layout
    named_rows: NamedRows
    numbers: NumberFormat
    skip_lines: frozenset[int]


def read_delimited(path: Path, options: ReadOptions) -> Table:
    """Read a text file of separated columns."""
    notes: list[str] = []
    text_format, options = find_format(path, options, notes)
    layout = text_format.layout
    roles = find_roles(path, layout, options)
    use_arrow = (
        len(layout.names) <= MAX_ARROW_COLUMNS
        and text_format.separator.isascii()
        and text_format.decimal != "mixed"
        and not (text_format.is_ambiguous or text_format.is_spaced or text_format.named_rows.names)
        and not (text_format.numbers.thousands or options.censored or text_format.skip_lines)
    )
    read = (_stream if use_arrow else _read_slowly)(path, text_format, roles, options)
    return make_table(
        path, layout, roles, read, lambda: _iterate_rows(path, text_format), notes, options
    )


def read_texts(path: Path, options: ReadOptions) -> tuple[list[str], list[list[str]], list[str]]:
    """Read all cells of a file as text: column names, rows and notes."""
    text_format, _ = find_format(path, options, [])
    try:
        rows = [row for _, row in _iterate_rows(path, text_format)]
    except UnicodeError:
        _raise_encoding_error(path, text_format.encoding, text_format.separator)
    except csv.Error as error:
        raise TableError(f"{path}: {_UNREADABLE.format(error)}") from None
    return text_format.layout.names, rows, []


def iterate_cells_of_file(
    path: Path, options: ReadOptions, notes: list[str]
) -> tuple[Iterator[Row], str]:
    """Detect the format; return an iterator over all rows, and the decimal mark."""
    dialect = _find_dialect(path, options)
    cells = _iterate_cells([row for _, row in dialect.rows[1:]], set())
    decimal = options.decimal or find_decimal_mark(cells, dialect.separator)
    notes.extend(_describe_dialect(dialect, decimal, options))

    def iterate() -> Iterator[Row]:
        with io.TextIOWrapper(open_binary(path), encoding=dialect.encoding, newline="") as file:
            for _ in range(dialect.n_declared):
                file.readline()
            reader = csv.reader(
                file, delimiter=dialect.separator, skipinitialspace=dialect.is_spaced
            )
            for line, row in _number_rows(reader):
                yield dialect.n_declared + line, row

    return iterate(), decimal


# --- format of the file


class _Dialect(NamedTuple):
    """Encoding and separator of a text file, detected in its first lines."""

    encoding: str
    separator: str
    n_declared: int  # number of lines up to the instruction "sep=;"; 0 without instruction
    is_quoted: bool
    is_spaced: bool
    rows: list[Row]  # first rows, with their line numbers
    is_complete: bool  # whether these are all rows


def _find_dialect(path: Path, options: ReadOptions) -> _Dialect:
    encoding = _find_encoding(path, options)
    lines, is_complete = _read_first_lines(path, encoding, options)
    n_declared, declared = _pop_separator_line(lines) or (0, None)
    separator = options.separator or declared or _find_separator(path, lines, options)
    _check_separator(path, separator, options)
    is_spaced = separator != " " and any(f'{separator} "' in line for line in lines)
    rows = _split_sample(path, lines, is_complete, separator, is_spaced)
    is_quoted = any('"' in line for line in lines)
    return _Dialect(encoding, separator, n_declared, is_quoted, is_spaced, rows, is_complete)


def _describe_dialect(dialect: _Dialect, decimal: str, options: ReadOptions) -> Iterator[str]:
    """Yield notes on an unusual separator, decimal mark or encoding."""
    if dialect.separator != "," or decimal != ".":
        commas = {
            ",": ", and numbers have decimal commas",
            "mixed": ", and numbers have decimal points or commas",
        }.get(decimal, "")
        name = _SEPARATORS.get(dialect.separator, quote(dialect.separator))
        yield f"columns are separated by {name}{commas}"
    if dialect.encoding not in ("utf-8", "utf-8-sig"):
        is_guess = not options.encoding and dialect.encoding in ("cp1252", "latin-1")
        guess = ", a guess, because the file is not valid UTF-8" if is_guess else ""
        yield f"the encoding is {dialect.encoding}{guess}"


def find_format(
    path: Path, options: ReadOptions, notes: list[str]
) -> tuple[TextFormat, ReadOptions]:
    """Detect the format of the file; also return the options for columns."""
    dialect = _find_dialect(path, options)
    encoding, separator = dialect.encoding, dialect.separator
    skip_lines = frozenset(options.skip_lines)
    rows = [row for row in dialect.rows if row[0] not in skip_lines]
    if options.header:
        header = find_header(path, rows, notes, skip_units=not options.transpose)
    else:
        header = make_header(rows, dialect.n_declared)
    column_options, named_rows = split_named_rows(header.names, options)
    header = header._replace(body=named_rows.remove_from(header.body))
    if not header.body:
        raise TableError(f"{path}: no rows of data remain; all rows are labels or dropped.")
    other_names = {
        column_options.row_names,
        *column_options.annotations.values(),
        *column_options.ignore,
    }
    others = {k for k, name in enumerate(header.names) if name in other_names}
    decimal = options.decimal or find_decimal_mark(_iterate_cells(header.body, others), separator)
    notes.extend(_describe_dialect(dialect, decimal, options))
    layout = find_layout(header, decimal, column_options, notes)
    is_ambiguous = False
    if options.decimal is None and separator != "," and not options.thousands:
        use = classify_mark(_iterate_cells(header.body, others | {*layout.index_columns}), decimal)
        # Numbers above a thousand may occur only after the sample.
        is_ambiguous = use is MarkUse.AMBIGUOUS or (
            use is MarkUse.UNUSED
            and not dialect.is_complete
            and _file_contains_thousands(path, encoding, separator, decimal)
        )
    text_format = TextFormat(
        encoding,
        separator,
        decimal,
        header.line,
        dialect.is_quoted,
        dialect.is_spaced,
        is_ambiguous,
        layout,
        named_rows,
        NumberFormat(decimal, options.thousands, frozenset({*MISSING, *split_codes(options.na)})),
        skip_lines,
    )
    return text_format, column_options


def _check_separator(path: Path, separator: str, options: ReadOptions) -> None:
    if len(separator) != 1 or options.decimal not in (None, ".", ",", "mixed"):
        raise TableError(
            f"{path}: the separator must be one character, and the decimal mark must be a point, "
            f"a comma or mixed, got {quote(separator)} and {quote(options.decimal)}."
        )
    if separator == options.decimal:
        raise TableError(
            f"{path}: {separator!r} cannot be both the separator and the decimal mark. Save the "
            "file with semicolons or tabs between the columns."
        )
    if separator in _INVALID_SEPARATORS:
        raise TableError(
            f"{path}: {separator!r} cannot separate columns, because it is part of numbers, quotes "
            "or line ends. Use another --separator."
        )


def _iterate_cells(body: list[list[str]], others: set[int]) -> Iterator[str]:
    """Iterate over the cells of all columns except ``others``."""
    return (cell for row in body for k, cell in enumerate(row) if k not in others)


def _file_contains_thousands(path: Path, encoding: str, separator: str, mark: str) -> bool:
    """Return whether any number of the file may have thousands separators."""
    try:
        with io.TextIOWrapper(open_binary(path), encoding=encoding) as file:
            return contains_thousands(file, separator, mark)
    except UnicodeError:
        return False  # an error with the position is raised when the rows are read


def _split_sample(
    path: Path, lines: list[str], is_complete: bool, separator: str, is_spaced: bool
) -> list[Row]:
    try:
        rows = _split(lines, separator, is_spaced)
    except csv.Error as error:
        raise TableError(f"{path}: {_UNREADABLE.format(error)}") from error
    if not is_complete and len(rows) > 2:
        rows.pop()  # the last line may end within a cell
    while len(rows) > 2 and not any(map(str.strip, rows[-1][1])):
        rows.pop()  # empty rows at the end are dropped
    if not rows:
        raise TableError(f"{path}: the file contains only empty lines.")
    return rows


def _pop_separator_line(lines: list[str]) -> tuple[int, str] | None:
    """Clear a first line such as ``sep=;``; return its number and separator."""
    first = next((k for k, line in enumerate(lines) if line.strip()), None)
    found = None if first is None else _SEPARATOR_LINE.fullmatch(lines[first])
    if first is None or found is None:
        return None
    lines[first] = "\n"
    return first + 1, found[1]


def _find_encoding(path: Path, options: ReadOptions) -> str:
    with open_binary(path) as file:
        start = file.read(4096)
    found = next((name for bom, name in _BOMS.items() if start.startswith(bom)), None)
    encoding = options.encoding or found or _guess_encoding(path, start)
    try:
        "".encode(encoding)
        canonical = codecs.lookup(encoding).name
    except LookupError:
        raise TableError(f"{path}: the encoding {quote(encoding)} is unknown.") from None
    if found is not None and canonical != found:
        if not found.startswith(canonical.removesuffix("-le").removesuffix("-be")):
            raise TableError(
                f"{path}: the file begins with the byte-order mark of "
                f"{found.removesuffix('-sig')}, so its encoding cannot be {encoding}. Remove "
                "--encoding."
            )
        encoding = found  # otherwise, the byte-order mark would be part of the first name
    if b"\0" in start and not canonical.startswith(("utf-16", "utf-32")):
        raise TableError(
            f"{path}: the file contains null bytes and is not text. Check its extension, or give "
            "its encoding, such as --encoding utf-16."
        )
    return encoding


def _guess_encoding(path: Path, start: bytes) -> str:
    """Guess the encoding of the file.

    The result is UTF-8 if the file is valid UTF-8, otherwise the usual encoding of Windows.
    """
    if b"\0" in start:
        return "utf-8"  # the caller raises an error
    decoder = codecs.getincrementaldecoder("utf-8")()
    try:
        with open_binary(path) as file:
            while block := file.read(2**22):
                decoder.decode(block)
    except UnicodeDecodeError:
        return "cp1252" if _is_valid(path, "cp1252") else "latin-1"
    return "utf-8"


def _is_valid(path: Path, encoding: str) -> bool:
    decoder = codecs.getincrementaldecoder(encoding)()
    try:
        with open_binary(path) as file:
            while block := file.read(2**22):
                decoder.decode(block)
    except UnicodeDecodeError:
        return False
    return True


def _read_first_lines(path: Path, encoding: str, options: ReadOptions) -> tuple[list[str], bool]:
    """Read a sample of lines; also return whether it is the whole file."""
    try:
        with io.TextIOWrapper(open_binary(path), encoding=encoding, newline="") as file:
            lines: list[str] = []
            n_characters = n_filled = 0
            while n_filled < SAMPLE_LINES and not (
                n_characters > SAMPLE_CHARACTERS and n_filled > 2
            ):
                line = file.readline(MAX_LINE_LENGTH)
                if len(line) == MAX_LINE_LENGTH:
                    raise TableError(
                        f"{path}: a line has more than {MAX_LINE_LENGTH:,} characters, and the "
                        "file is probably not a table."
                    )
                if not line:
                    return lines, True
                lines.append(line)
                n_characters += len(line)
                n_filled += bool(line.strip())
                if len(lines) - n_filled > MAX_BLANK_LINES:
                    raise TableError(
                        f"{path}: more than {MAX_BLANK_LINES:,} of the first lines are empty, and "
                        "the file is probably not a table."
                    )
            return lines, not file.read(1)
    except UnicodeError:
        _raise_encoding_error(path, encoding, options.separator or ",")


def _split(lines: Iterable[str], separator: str, is_spaced: bool = False) -> list[Row]:
    """Split lines into rows that are not blank."""
    return list(_number_rows(csv.reader(lines, delimiter=separator, skipinitialspace=is_spaced)))


def _number_rows(reader: Any) -> Iterator[Row]:
    for row in reader:
        if (len(row) > 1 or (row and row[0].strip())) and not _METADATA.match(row[0]):
            yield reader.line_num, row


def _find_separator(path: Path, lines: list[str], options: ReadOptions) -> str:
    """Find the separator that yields the most columns, consistent over lines."""
    if path.name.lower().removesuffix(".gz").endswith((".tsv", ".tab")):
        return "\t"
    best, best_merit = ",", (0.0, 0)
    # A title above the table contains no separator.
    titles = itertools.takewhile(lambda line: not any(s in line for s in _SEPARATORS), lines)
    n_titles = sum(bool(line.strip()) for line in titles)
    for separator in _SEPARATORS:
        if separator == options.decimal:
            continue
        try:
            counts = [len(row) for _, row in _split(lines, separator)]
        except csv.Error:  # a cell is too long, so that the separator is another one
            continue
        usual = max(set(counts), key=counts.count, default=0)
        # Decimal commas also split rows, but into varying numbers of cells, and they do not split
        # the header.
        merit = (float(np.mean([c == usual for c in counts])), usual) if usual > 1 else (0.0, 0)
        if separator in (";", "\t", "|") and usual > 1 and counts[n_titles] > 1:
            merit = (merit[0] + 1.0, usual)
        if merit > best_merit:
            best, best_merit = separator, merit
    return best


# --- rows


def _stream(path: Path, text_format: TextFormat, roles: Roles, options: ReadOptions) -> RowsRead:
    """Read blocks with pyarrow into one array."""
    import pyarrow as pa
    from pyarrow import csv as arrow

    numbers = [str(k) for k in roles.variables]
    texts = {k: list[str]() for k in (*roles.text_columns(), *text_format.layout.blank)}
    text_names = [str(k) for k in texts]
    types = dict.fromkeys(numbers, pa.float64()) | dict.fromkeys(text_names, pa.string())
    row_length = 64 * max(len(text_format.layout.names), 1)  # a row must fit into a block
    encoding = "utf-8" if text_format.encoding == "utf-8-sig" else text_format.encoding
    read = arrow.ReadOptions(
        column_names=[str(k) for k in range(len(text_format.layout.names))],
        skip_rows=text_format.n_skipped,
        block_size=max(BLOCK, 4 * row_length),
        encoding=encoding,
    )
    parse = arrow.ParseOptions(
        delimiter=text_format.separator,
        newlines_in_values=text_format.is_quoted,
        invalid_row_handler=lambda row: "skip" if _METADATA.match(row.text) else "error",
    )
    convert = arrow.ConvertOptions(
        column_types=types,
        include_columns=[*numbers, *text_names],
        null_values=sorted(text_format.numbers.missing),
        strings_can_be_null=False,
        decimal_point=text_format.decimal,
    )
    data = GrowableArray(len(numbers))
    try:
        is_packed = path.suffix.lower() == ".gz"
        with pa.PythonFile(open_binary(path)) if is_packed else pa.OSFile(str(path)) as source:
            for batch in arrow.open_csv(source, read, parse, convert):
                rows = data.append_rows(batch.num_rows)
                for j, column in enumerate(batch.columns[: len(numbers)]):
                    rows[:, j] = column.to_numpy(zero_copy_only=False)
                for k, cells in texts.items():
                    cells.extend(batch.column(str(k)).to_pylist())
                options.progress(data.rows)
    except (pa.ArrowException, UnicodeError):
        # pyarrow reads fewer number formats than `parse_number`, and does not report the line.
        del data
        return _read_slowly(path, text_format, roles, options)
    pa.default_memory_pool().release_unused()  # frees memory for the fit
    return RowsRead(data.finish(), texts, [], {})


def _read_slowly(
    path: Path, text_format: TextFormat, roles: Roles, options: ReadOptions
) -> RowsRead:
    """Read row by row, for very wide files and files that pyarrow cannot read."""
    try:
        return read_rows(
            path,
            text_format.layout,
            roles,
            options,
            lambda: _iterate_rows(path, text_format),
            text_format.numbers,
            text_format.named_rows,
            lambda cell: _advise(cell, text_format),
            ThousandsCheck(text_format.decimal) if text_format.is_ambiguous else None,
        )
    except UnicodeError:
        _raise_encoding_error(path, text_format.encoding, text_format.separator)
    except csv.Error as error:
        raise TableError(f"{path}: {_UNREADABLE.format(error)}") from None


def _iterate_rows(path: Path, text_format: TextFormat) -> Iterator[Row]:
    """Iterate over the line number and the cells of each row of data."""
    with io.TextIOWrapper(open_binary(path), encoding=text_format.encoding, newline="") as file:
        for _ in range(text_format.n_skipped):
            file.readline()
        reader = csv.reader(
            file, delimiter=text_format.separator, skipinitialspace=text_format.is_spaced
        )
        for line, row in _number_rows(reader):
            if text_format.n_skipped + line not in text_format.skip_lines:
                yield text_format.n_skipped + line, row


# --- errors


def _advise(cell: str, text_format: TextFormat) -> str | None:
    """Return the remedy for a malformed or missing number; None for text."""
    if _WITH_MARKS.fullmatch(cell):
        remedy = (
            "for decimal commas save the file with semicolons or tabs between the columns"
            if text_format.separator == ","
            else "use --decimal comma or --decimal point if the decimal mark is wrong"
        )
        mark = "comma" if text_format.decimal == "," else "point"
        return (
            f"The decimal mark of this file is a {mark}. Remove thousands separators, or specify "
            f"them by --thousands; {remedy}; if the column is not a variable"
        )
    return None if any(character.isalnum() for character in cell) else MISSING_ADVICE


def _raise_encoding_error(path: Path, encoding: str, separator: str) -> NoReturn:
    """Raise an error with the position of the first invalid byte."""
    decoder = codecs.getincrementaldecoder(encoding)()
    line, n_separators = 1, 0  # number of the line, and separators in it so far
    with open_binary(path) as file:
        while block := file.read(2**16):
            text, invalid = _decode(decoder, block)
            line += text.count("\n")
            last = text.rpartition("\n")[2]
            n_separators = last.count(separator) + (0 if "\n" in text else n_separators)
            if invalid:
                raise TableError(
                    f"{path}, line {line}, column {n_separators + 1}: the text is not valid "
                    f"{encoding} (byte 0x{invalid.hex()}). Save the file as UTF-8, or give its "
                    "encoding; --encoding cp1252 is common for spreadsheets on Windows."
                )
    raise TableError(
        f"{path}, line {line}: the file ends within a character of {encoding} and may be "
        "truncated. Specify another encoding with --encoding."
    )


def _decode(decoder: codecs.IncrementalDecoder, block: bytes) -> tuple[str, bytes]:
    """Decode a block up to its first invalid byte; also return this byte."""
    try:
        return decoder.decode(block), b""
    except UnicodeDecodeError as error:
        valid = error.object[: error.start].decode(error.encoding)
        return valid, error.object[error.start : error.start + 1]
    except UnicodeError:  # the byte-order mark is missing
        return "", block[:1]
