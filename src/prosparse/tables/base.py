"""What all readers share: what was asked, what comes back, and which column is what."""

from __future__ import annotations

import difflib
import gzip
import io
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from ..errors import TableError

# What spreadsheets and statistics programs write where a number is missing.
MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "none",
    "#N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#NUM!", "#REF!",
)  # fmt: skip

# Packed files may unpack to this many times their size; smaller ones to anything.
MOST_EXPANSION, LARGEST_UNPACKED = 200, 2**27


def _silent(rows: int) -> None:
    """No progress shown."""


class Ask(NamedTuple):
    """What the user said about the file.

    Attributes
    ----------
    id_column, label : str or None
        The columns that name the rows, and that colour the scores.
    drop : tuple of str
        Columns to leave out.
    transpose : bool
        Whether variables are in rows.
    header : bool
        Whether the first line holds names.
    encoding, separator : str or None
        Of a text file. None: find out.
    progress : function of an int
        Called with the number of rows read so far.
    """

    id_column: str | None = None
    label: str | None = None
    drop: tuple[str, ...] = ()
    transpose: bool = False
    header: bool = True
    encoding: str | None = None
    separator: str | None = None
    progress: Callable[[int], None] = _silent


class Table(NamedTuple):
    """Numbers with their names.

    Attributes
    ----------
    path : Path
    X : array or CSR matrix (n_rows, n_variables)
        NaN where a value is missing.
    names : list of str
        Of the variables, all different.
    ids : list of str or None
        Of the rows.
    label : list or None
        The column that colours the scores.
    notes : list of str
        What was found out about the file and should be said.
    """

    path: Path
    X: Any
    names: list[str]
    ids: list[str] | None
    label: list[Any] | None
    notes: list[str]


class Roles(NamedTuple):
    """Positions of columns in the file."""

    variables: list[int]
    id: int | None
    label: int | None


def quietly(text: Any, limit: int = 60) -> str:
    """A piece of a file in a message: quoted, on one line, and not longer than ``limit``."""
    shown = repr(str(text))
    return shown if len(shown) <= limit else shown[: limit - 2] + "…'"


def column_called(path: Path, names: Sequence[str], k: int) -> str:
    return f"column {k + 1} ({quietly(names[k])})" if names[k] else f"column {k + 1}"


def assign_roles(
    path: Path, names: Sequence[str], ask: Ask, index: int | None, notes: list[str]
) -> Roles:
    """Which columns are variables; ``index`` is the column that looks like an index, if any."""
    _refuse_duplicates(path, names)
    wanted = [n for n in (ask.id_column, ask.label, *ask.drop) if n is not None]
    place = {name: k for k, name in enumerate(names)}
    for name in wanted:
        if name not in place:
            unknown_column(path, name, names)
    id_at = index if ask.id_column is None else place[ask.id_column]
    label_at = None if ask.label is None else place[ask.label]
    gone = {place[name] for name in ask.drop}
    if id_at is not None and ask.id_column is None:
        if id_at in gone or id_at == label_at:
            id_at = None
        else:
            called = quietly(names[id_at]) if names[id_at] else "without a name"
            notes.append(f"the first column, {called}, holds the names of the rows")
    gone |= {k for k in (id_at, label_at) if k is not None}
    variables = [k for k in range(len(names)) if k not in gone]
    if len(variables) < 2:
        raise TableError(
            f"{path}: it has {len(names)} column(s), of which {len(variables)} would be variables; "
            "at least 2 are needed. Is the separator right (--separator)?"
        )
    return Roles(variables, id_at, label_at)


def _refuse_duplicates(path: Path, names: Sequence[str]) -> None:
    seen: dict[str, int] = {}
    for k, name in enumerate(names):
        if seen.setdefault(name, k) != k:
            raise TableError(
                f"{path}, header: columns {seen[name] + 1} and {k + 1} are both called "
                f"{quietly(name)}; names must differ"
            )


def unknown_column(path: Path, name: str, names: Sequence[str]) -> NoReturn:
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    hint = f"; did you mean {' or '.join(map(quietly, close))}?" if close else ""
    raise TableError(f"{path}: there is no column {quietly(name)}{hint}")


def refuse_repeated_index(path: Path, name: str, ids: Sequence[str]) -> None:
    """An index was guessed from text in the first column: then no two rows may share a name."""
    seen: dict[str, int] = {}
    for row, one in enumerate(ids, 1):
        if seen.setdefault(one, row) != row:
            raise TableError(
                f"{path}: the first column, {quietly(name)}, is text, but not a name for each row: "
                f"rows {seen[one]} and {row} of the data both hold {quietly(one)}. Say what it is: "
                f"--label {quietly(name)}, --drop {quietly(name)} or --id-column {quietly(name)}"
            )


def check_size(table: Table) -> Table:
    n, p = table.X.shape
    if n < 2 or p < 2:
        raise TableError(
            f"{table.path}: {n} row(s) and {p} variable(s) were read; at least 2 of each are needed"
        )
    return table


class Unpacked(io.RawIOBase):
    """A gzip file that says no when it unpacks to far more than its size, as no table does."""

    def __init__(self, path: Path):
        self.path, self.file = path, gzip.GzipFile(path)
        self.most = max(LARGEST_UNPACKED, MOST_EXPANSION * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        if self.file.tell() > self.most:
            refuse_bomb(self.path)
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def refuse_bomb(path: Path) -> NoReturn:
    raise TableError(
        f"{path}: it unpacks to over {MOST_EXPANSION} times its size, as files made to fill a "
        "memory do; if you trust it, unpack it first"
    )


def opened(path: Path) -> IO[bytes]:
    """The bytes of a file, unpacked if its name ends in .gz."""
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    return io.BufferedReader(Unpacked(path), 2**20)


class Growing:
    """A float array that grows by rows in place: no second copy while a file is streamed."""

    def __init__(self, width: int, rows: int = 0):
        self.rows = 0
        self.array = np.empty((rows, width))

    def room(self, rows: int) -> np.ndarray:
        """The next ``rows`` rows, to be written to."""
        needed = self.rows + rows
        if needed > self.array.shape[0]:
            # a tenth more each time: large blocks are moved by the page table, not copied
            capacity = max(needed, int(1.1 * self.array.shape[0]))
            self.array.resize((capacity, self.array.shape[1]), refcheck=False)
        view = self.array[self.rows : needed]
        self.rows = needed
        return view

    def finish(self) -> np.ndarray:
        self.array.resize((self.rows, self.array.shape[1]), refcheck=False)
        return self.array
