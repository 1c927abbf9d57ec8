"""Program that reads one file, run as ``TASK FILE MEMORY SECONDS OPTIONS``.

`limited_process.read_in_child` runs this program with limits, because python-calamine, the HDF5
library and SciPy hang, crash or exhaust the memory on some files. The program imports nothing from
prosparse and therefore starts quickly. Each line of the output is a JSON value; if the file cannot
be read, the last line is the reason, and the exit code is `FAILED`.

The limits require the module `resource` and a system that enforces ``RLIMIT_AS``, such as Linux. On
Windows and macOS, only the time limit of the parent process applies.
"""

from __future__ import annotations

import datetime
import json
import math
import re
import sys
import zipfile
from collections import defaultdict
from collections.abc import Callable
from pathlib import Path
from typing import Any

FAILED = 10  # exit code: the file cannot be read
OUT_OF_MEMORY = 11  # exit code: the memory limit was reached

# Limits on HDF5 arrays, which are compressed and may be larger than the file.
ENTRIES_AT_ONCE = 2**22
MAX_EXPANSION = 200
MIN_UNPACKED = 2**27


def limit_resources(memory: int, seconds: float) -> None:
    """Limit the additional memory to ``memory`` bytes, and the CPU time.

    Limits are ignored if the operating system does not support them.
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
    """Write the nonempty rows of a sheet, and a description of the sheet.

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
        # The rest of the message (Rust structures or bytes of the file) is for developers.
        raise ValueError(re.split(r"[\[({]|, found ", str(error))[0].strip()) from None
    name = None if found is None else found.name
    formulas = count_uncomputed_formulas(path)
    write({"sheets": names, "sheet": name, "merged": merged, "formulas": formulas})


def _select_sheet(book: Any, names: list[str], selected: str | None) -> Any:
    """Return the sheet with a name or number, or the first nonempty sheet."""
    if selected is None:
        sheets = (book.get_sheet_by_name(name) for name in names)
        return next((sheet for sheet in sheets if sheet.height), None)
    if selected not in names and selected.isdecimal() and 1 <= int(selected) <= len(names):
        selected = names[int(selected) - 1]
    return book.get_sheet_by_name(selected) if selected in names else None


def _write_rows(sheet: Any) -> int:
    """Write the rows; return the number of cells filled from merged cells."""
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
    """Vertically merged cells, of which the first contains the text."""

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


# Cell of an XLSX file with a formula but without a value, as written by some programs.
_TAG = rb"<(?:\w+:)?"
_UNCOMPUTED = re.compile(
    _TAG + rb"c\b(?![^>]*t=.str)[^>]*>\s*"
    + _TAG + rb"f\b[^>]*(?:/>|>[^<]*</[\w:]*f>)\s*"
    rb"(?:" + _TAG + rb"v\s*/>|" + _TAG + rb"v>\s*</[\w:]*v>)?\s*</[\w:]*c>"
)  # fmt: skip


def count_uncomputed_formulas(path: str) -> int:
    """Count the formulas without a value in an XLSX file."""
    if not zipfile.is_zipfile(path):
        return 0
    with zipfile.ZipFile(path) as archive:
        sheets = [
            name for name in archive.namelist() if re.fullmatch(r"xl/worksheets/[^/]*\.xml", name)
        ]
        return sum(len(_UNCOMPUTED.findall(archive.read(name))) for name in sheets)


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
    """Read the matrix; SciPy may crash if the file is damaged."""
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
    def limit() -> None:  # called after the imports, so that these are not limited
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
