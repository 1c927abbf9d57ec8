"""Program that reads one file: ``TASK FILE MEMORY SECONDS OPTIONS``.

`limited_process.read_in_child` starts it in a process with limits, because python-calamine, the
HDF5 library and SciPy hang, crash or exhaust the memory on some files. The program imports nothing
of prosparse and therefore starts quickly. Each line of its output is a JSON value; if the file
cannot be read, the last one is the reason, and the exit code is `FAILED`.

The limits need the module `resource` and a system that enforces ``RLIMIT_AS``, as Linux does. On
Windows and macOS only the time limit of the parent process applies.
"""

from __future__ import annotations

import datetime
import html
import json
import math
import posixpath
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

FAILED = 10  # exit code: the file cannot be read
OUT_OF_MEMORY = 11  # exit code: the memory limit was reached
BLOCK = 2**20  # bytes of XML parsed at a time

# Limits on HDF5 arrays. They may be larger than the file, because they are compressed.
ENTRIES_AT_ONCE = 2**22
MAX_EXPANSION = 200
MIN_UNPACKED = 2**27


def limit_resources(memory: int, seconds: float) -> None:
    """Limit the memory to ``memory`` bytes more than now, and the CPU time.

    Nothing is limited where the operating system does not support it.
    """
    try:
        import resource
    except ImportError:  # Windows
        return
    try:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    except OSError:  # not Linux
        used = 0
    limits = {
        resource.RLIMIT_AS: used + memory,
        resource.RLIMIT_CPU: math.ceil(seconds) + 1,
        resource.RLIMIT_CORE: 0,
    }
    for what, limit in limits.items():
        hard = resource.getrlimit(what)[1]
        lowest = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        try:
            resource.setrlimit(what, (lowest, lowest))
        except (OSError, ValueError):  # macOS refuses RLIMIT_AS
            continue


def write(value: Any) -> None:
    sys.stdout.write(json.dumps(value) + "\n")


# --- spreadsheets


def read_workbook(path: str, limit: Callable[[], None], sheet: str | None) -> None:
    """Write the rows of a sheet that are not empty, and describe the sheet.

    A row consists of its number (from 1), the number of empty cells before the first text, and the
    texts up to the last one. The description of the sheet is the last line.
    """
    import python_calamine

    limit()
    try:
        with python_calamine.CalamineWorkbook.from_path(path) as book:
            names = list(book.sheet_names)
            found = _select_sheet(book, names, sheet)
            merged = 0 if found is None else _write_rows(found)
    except python_calamine.PasswordError:
        raise ValueError("the file is protected by a password; save it without one") from None
    except python_calamine.ZipError:
        raise ValueError("the ZIP archive is damaged") from None
    except python_calamine.CalamineError as error:
        # The rest of the message is for developers: structures of Rust, or bytes of the file.
        raise ValueError(re.split(r"[\[({]|, found ", str(error))[0].strip()) from None
    formulas = Formulas(0, "") if found is None else formulas_without_value(path, found.name)
    name = None if found is None else found.name
    write({"sheets": names, "sheet": name, "merged": merged, "formulas": formulas})


def _select_sheet(book: Any, names: list[str], selected: str | None) -> Any:
    """Return the sheet of this name or number, or the first that is not empty."""
    if selected is None:
        sheets = (book.get_sheet_by_name(name) for name in names)
        return next((sheet for sheet in sheets if sheet.height), None)
    if selected not in names and selected.isdecimal() and 1 <= int(selected) <= len(names):
        selected = names[int(selected) - 1]
    return book.get_sheet_by_name(selected) if selected in names else None


def _write_rows(sheet: Any) -> int:
    """Write the rows; return the number of cells filled from a merged cell."""
    if sheet.start is None:
        return 0
    merges = Merges(sheet)
    for line, cells in enumerate(sheet.iter_rows()):
        merges.fill(line, cells)
        texts = [text_of(cell) for cell in cells]
        filled = [k for k, text in enumerate(texts) if text and not text.isspace()]
        if filled:
            write((line + 1, filled[0], texts[filled[0] : filled[-1] + 1]))
    return merges.filled


class Merges:
    """Vertically merged cells, whose first cell contains the text of all rows."""

    def __init__(self, sheet: Any):
        self.filled = 0
        self.current: dict[int, tuple[int, str]] = {}  # last row and text, by column
        self.beginning: defaultdict[int, list[tuple[int, int]]] = defaultdict(list)
        first = sheet.start[1]
        for (top, left), (bottom, right) in sheet.merged_cell_ranges or ():
            if left == right and top < bottom and 0 <= left - first < sheet.width:
                self.beginning[top].append((left - first, bottom))

    def fill(self, line: int, cells: list[Any]) -> None:
        """Fill the merged cells of a row; rows must be passed in order."""
        for column, (bottom, text) in list(self.current.items()):
            if line > bottom:
                del self.current[column]
            else:
                cells[column] = text
                self.filled += 1
        for column, bottom in self.beginning.pop(line, ()):
            value = cells[column]
            if isinstance(value, str) and value.strip():
                self.current[column] = bottom, value


def text_of(value: Any) -> str:
    """Return a cell as text."""
    if isinstance(value, str):
        return value
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return str(int(value)) if value.is_integer() and abs(value) < 1e15 else repr(value)
    if isinstance(value, datetime.datetime) and value.time() == datetime.time():
        return value.date().isoformat()
    return str(value)


# --- formulas whose values were not stored


class Formulas(NamedTuple):
    """Cells with a formula but no value, as some programs write them."""

    n_cells: int
    first: str  # address of the first cell, such as B2


class Tag(NamedTuple):
    """A tag of an XML file, and the text up to the next one."""

    end: bool
    name: str  # without its namespace
    attributes: dict[str, str]  # likewise
    text: str


def formulas_without_value(path: str, sheet: str) -> Formulas:
    """Find the cells of an XLSX or ODS sheet that contain a formula but no value.

    python-calamine returns them as empty cells. XLS and XLSB files always store the values. Tags
    are found by a pattern, because an XML parser would expand entities, and only a note depends on
    them.
    """
    if not zipfile.is_zipfile(path):
        return Formulas(0, "")
    try:
        with zipfile.ZipFile(path) as archive:
            if "content.xml" in archive.namelist():
                found = _opendocument_formulas(archive, sheet)
            else:
                found = _office_formulas(archive, sheet)
            first, n_cells = next(found, ("", 0))
            return Formulas(n_cells + sum(n for _, n in found), first)
    except MemoryError:
        raise
    except Exception:  # a note is lost, but python-calamine has read the cells
        return Formulas(0, "")


def _office_formulas(archive: zipfile.ZipFile, sheet: str) -> Iterator[tuple[str, int]]:
    """Iterate over addresses and numbers of such cells in an XLSX sheet."""
    part = _part_of_sheet(archive, sheet)
    if not _contains(archive, part, rb"<(?:[\w.-]+:)?f[\s/>]"):
        return
    address, cell_type, formula, value = "", "", False, False
    for tag in _tags(archive, part, b"c|f|v"):
        if tag.name == "c" and not tag.end:
            address, cell_type = tag.attributes.get("r", ""), tag.attributes.get("t", "")
            formula = value = False
        elif tag.name == "f":
            formula = True
        elif tag.name == "v" and not tag.end:
            value = cell_type == "str" or bool(tag.text.strip())  # a value may be empty text
        elif tag.name == "c" and formula and not value:
            yield address, 1


def _part_of_sheet(archive: zipfile.ZipFile, sheet: str) -> str:
    """Return the name of the XML file of a sheet in an XLSX file."""
    kinds = _targets(archive, "").values()
    book = next(target for kind, target in kinds if kind.endswith("/officeDocument"))
    tags = _tags(archive, book, b"sheet")
    keys = {tag.attributes["name"]: tag.attributes["id"] for tag in tags if not tag.end}
    return _targets(archive, book)[keys[sheet]][1]


def _targets(archive: zipfile.ZipFile, part: str) -> dict[str, tuple[str, str]]:
    """Return type and name of the files that a file refers to, by their keys."""
    folder, name = posixpath.split(part)
    relations = posixpath.join(folder, "_rels", f"{name}.rels")
    return {
        found["Id"]: (
            found["Type"],
            posixpath.normpath(posixpath.join("/", folder, found["Target"])).lstrip("/"),
        )
        for end, _, found, _ in _tags(archive, relations, b"Relationship")
        if not end
    }


def _opendocument_formulas(archive: zipfile.ZipFile, sheet: str) -> Iterator[tuple[str, int]]:
    """Iterate over addresses and numbers of such cells in an ODS sheet."""
    if not _contains(archive, "content.xml", rb"formula"):
        return
    active = False
    row = n_rows = column = 0
    for tag in _tags(archive, "content.xml", b"table|table-row|table-cell|covered-table-cell"):
        found = tag.attributes
        if tag.name == "table":
            active = not tag.end and found.get("name") == sheet
            row = n_rows = 0
        elif tag.name == "table-row" and not tag.end:
            row, column = row + n_rows, 0
            n_rows = int(found.get("number-rows-repeated", 1))
        elif active and not tag.end:
            n_columns = int(found.get("number-columns-repeated", 1))
            values = {"value", "date-value", "time-value", "boolean-value"} & {*found}
            if "formula" in found and found.get("value-type") != "string" and not values:
                yield f"{_letters(column)}{row + 1}", n_rows * n_columns
            column += n_columns


def _contains(archive: zipfile.ZipFile, part: str, pattern: bytes) -> bool:
    """Search a file for a pattern, which is faster than parsing its tags."""
    before = b""
    for block in _blocks(archive, part):
        if re.search(pattern, before[-100:] + block):
            return True
        before = block
    return False


def _tags(archive: zipfile.ZipFile, part: str, names: bytes) -> Iterator[Tag]:
    """Iterate over the tags of these names."""
    pattern = re.compile(
        rb"<(/?)(?:[\w.-]+:)?("
        + names
        + rb""")(?=[\s/>])((?:[^<>"']|"[^"<]*"|'[^'<]*')*)>([^<]*)"""
    )
    attribute = re.compile(rb"""([\w.-]+)\s*=\s*(?:"([^"]*)"|'([^']*)')""")
    rest = b""
    for block in _blocks(archive, part):
        whole, mark, rest = (rest + block).rpartition(b"<")
        rest = mark + rest if len(rest) < BLOCK else b""  # no tag is that long
        for found in pattern.finditer(whole):
            attributes = {
                key.decode(): html.unescape((double or single).decode())
                for key, double, single in attribute.findall(found[3])
            }
            yield Tag(bool(found[1]), found[2].decode(), attributes, found[4].decode())
            if found[3].endswith(b"/"):
                yield Tag(True, found[2].decode(), {}, "")


def _blocks(archive: zipfile.ZipFile, part: str) -> Iterator[bytes]:
    with archive.open(part) as file:
        while block := file.read(BLOCK):
            yield block


def _letters(column: int) -> str:
    """Return the letters of a column, given its number (from 0)."""
    letters, column = "", column + 1
    while column:
        column, last = divmod(column - 1, 26)
        letters = chr(65 + last) + letters
    return letters


# --- HDF5


def try_hdf5(path: str, limit: Callable[[], None]) -> None:
    """Read all attributes and arrays; raise an error for links to other files."""
    import h5py

    limit()
    largest = max(MIN_UNPACKED, MAX_EXPANSION * Path(path).stat().st_size)
    names: list[str] = []

    def find_external(name: str, link: Any) -> str | None:
        return name if isinstance(link, h5py.ExternalLink) else None

    with h5py.File(path, "r") as file:
        external = file.visititems_links(find_external)
        if external:
            raise ValueError(f"{external!r} is a link to another file")
        file.visit(names.append)
        for item in (file, *(file[name] for name in names)):
            for key in item.attrs:
                _ = item.attrs[key]
            if isinstance(item, h5py.Dataset) and item.shape is not None:
                _try_array(item, largest)


def _try_array(array: Any, largest: int) -> None:
    if array.is_virtual or array.external:
        raise ValueError(f"{array.name!r} stores its numbers in another file")
    if array.nbytes > largest:
        raise ValueError(
            f"{array.name!r} would decompress to {array.nbytes:,} bytes; the limit for this file "
            f"is {largest:,} bytes"
        )
    if array.ndim == 0:
        _ = array[()]
        return
    step = max(1, ENTRIES_AT_ONCE // max(1, math.prod(array.shape[1:])))
    for start in range(0, array.shape[0], step):
        _ = array[start : start + step]


# --- Matrix Market


def try_matrix_market(path: str, limit: Callable[[], None]) -> None:
    """Read the matrix, which ends the process if SciPy cannot read a damaged file."""
    from scipy import io

    limit()
    io.mmread(path, spmatrix=False)


# --- the program

TASKS: dict[str, Callable[..., None]] = {
    "workbook": read_workbook,
    "hdf5": try_hdf5,
    "matrix": try_matrix_market,
}


def main(task: str, path: str, memory: str, seconds: str, options: str) -> int:
    def limit() -> None:  # called after the imports, which the limits exclude
        limit_resources(int(memory), float(seconds))

    try:
        TASKS[task](path, limit, **json.loads(options))
    except MemoryError:
        return OUT_OF_MEMORY
    except Exception as error:  # a panic of Rust is a BaseException and ends the program
        write(str(error) or type(error).__name__)
        return FAILED
    return 0


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
