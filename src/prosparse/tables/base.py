"""What all readers share: what was asked, what comes back, and which column is what."""

from __future__ import annotations

import difflib
import gzip
import io
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from ..errors import TableError
from .identifiers import how_rows_are_told_apart, named_like_an_identifier

# What spreadsheets and statistics programs write where a number is missing.
MISSING = (
    "", "NA", "N/A", "n/a", "NaN", "nan", "NAN", "-nan", "null", "NULL", "None", "none",
    "#N/A", "#NA", "#NULL!", "#DIV/0!", "#VALUE!", "#NUM!", "#REF!",
)  # fmt: skip

# Packed files may unpack to this many times their size; smaller ones to anything.
MOST_EXPANSION, LARGEST_UNPACKED = 200, 2**27


EXACT = 2**53  # up to here every whole number is a floating-point number


def _silent(rows: int) -> None:
    """No progress shown."""


class ReadOptions(NamedTuple):
    """What the user said about the file.

    Attributes
    ----------
    id_column : str or None
        The column that names the rows.
    label : str or None
        The column that colours the scores.
    groups : str or None
        The column that says which rows belong together.
    response : str or None
        The column with what is to be predicted.
    drop : tuple of str
        Columns to leave out, by name or as names with commas between them; ``"text"`` stands for
        all columns that are not numbers.
    keep : tuple of str
        Columns that are variables, though they look like an index or like numbers of rows.
    variables : tuple of str
        Columns that are known from elsewhere, such as a fitted model, to be variables; a table
        need not have them.
    row_numbers : tuple of str
        Columns that are known from elsewhere to number the rows or to tell them apart; a table
        need not have them.
    transpose : bool
        Whether variables are in rows; ``label``, ``groups`` and ``response`` then name rows, and
        ``drop`` columns or rows.
    header : bool
        Whether the first line holds names.
    encoding : str or None
        Of a text file. None: find out.
    separator : str or None
        Between the columns of a text file. None: find out.
    decimal : "." or "," or None
        What is before the decimals in a text file. None: find out.
    sheet : str or None
        Of a spreadsheet: its name, or its number from 1 on. None: the first with anything in it.
    labels : str or None
        Another file, with a line for each row of the table, in which ``label``, ``groups`` and
        ``response`` are columns.
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
    decimal: str | None = None
    keep: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    row_numbers: tuple[str, ...] = ()
    progress: Callable[[int], None] = _silent
    groups: str | None = None
    response: str | None = None
    sheet: str | None = None
    labels: str | None = None

    @property
    def aside(self) -> dict[str, str]:
        """The columns that are read beside the variables: what each is for, and its name."""
        named = {"label": self.label, "groups": self.groups, "response": self.response}
        return {what: name for what, name in named.items() if name is not None}

    def without_aside(self, *found: str) -> ReadOptions:
        """The same, but for the columns that are read beside the variables: those that were
        ``found`` elsewhere, or all of them."""
        gone = found or ("label", "groups", "response")
        return self._replace(
            label=None if "label" in gone else self.label,
            groups=None if "groups" in gone else self.groups,
            response=None if "response" in gone else self.response,
        )


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
    row_numbers : tuple of str
        Columns that were left out because they number the rows or tell them apart.
    groups : list or None
        The column that says which rows belong together.
    response : list or None
        The column with what is to be predicted.
    rows : dict
        Rows of the file that were asked for by name, as texts: with ``--transpose``.
    ids_called : str
        The column that names the rows, as it is called in the file.
    """

    path: Path
    X: Any
    names: list[str]
    ids: list[str] | None
    label: list[Any] | None
    notes: list[str]
    row_numbers: tuple[str, ...] = ()
    groups: list[Any] | None = None
    response: list[Any] | None = None
    rows: Mapping[str, list[Any]] = {}
    ids_called: str = ""


class Roles(NamedTuple):
    """Positions of columns in the file."""

    variables: list[int]
    ids: tuple[int, ...]  # together they name the rows
    aside: Mapping[str, int]  # label, groups and response, as far as they were asked for
    row_numbers: tuple[int, ...]  # they look like numbers of rows: to be confirmed by all rows

    def texts(self) -> list[int]:
        """Columns that are read, but not as variables."""
        return sorted({*self.ids, *self.aside.values(), *self.row_numbers})


class Unusable(TableError):  # noqa: N818 (it says what the columns are)
    """Columns that are not numbers, all of them."""

    def __init__(self, message: str, columns: Sequence[str] = (), note: str = ""):
        super().__init__(message)
        self.columns = columns  # those that can be left out
        self.note = note  # to be said if they are


class Mistaken(Exception):  # noqa: N818 (no error: the file is read again)
    """Columns that looked like numbers of rows at the top of a file are variables after all."""

    def __init__(self, names: Sequence[str]):
        super().__init__(names)
        self.names = names


@contextmanager
def errors_as_table_error(path: Path, extra: str) -> Iterator[None]:
    """Raise every error of reading a file as a `TableError`.

    Parameters
    ----------
    path : Path
        File that is read.
    extra : str
        Optional dependencies of prosparse that reading needs.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise TableError(
            f"{path}: reading it needs {error.name}, which is not installed: "
            f"pip install 'prosparse[{extra}]'"
        ) from error
    except TableError:
        raise
    except MemoryError as error:
        raise TableError(f"{path}: there is not enough memory for this table") from error
    except OSError as error:
        why = error.strerror or str(error)
        raise TableError(f"{path}: it cannot be read ({quietly(why, 200)})") from error
    except Exception as error:
        # Parsers of other people's formats raise whatever they stumble over in a damaged file.
        why = quietly(f"{type(error).__name__}: {error}", 200)
        raise TableError(f"{path}: it is damaged, or not what its ending says ({why})") from error


def quietly(text: Any, limit: int = 60) -> str:
    """A piece of a file in a message: quoted, on one line, and not longer than ``limit``."""
    shown = repr(str(text))
    return shown if len(shown) <= limit else shown[: limit - 2] + "…'"


def column_called(path: Path, names: Sequence[str], k: int) -> str:
    return f"column {k + 1} ({quietly(names[k])})" if names[k] else f"column {k + 1}"


def assign_roles(
    path: Path,
    names: Sequence[str],
    ask: ReadOptions,
    index: Sequence[int] = (),
    row_numbers: Sequence[int] = (),
) -> Roles:
    """Which columns are variables.

    ``index`` are the columns that look like an index, and ``row_numbers`` those that look like
    numbers of rows; what the user said about a column goes before what it looks like.
    """
    place = {name: k for k, name in enumerate(names)}
    for name in (ask.id_column, *ask.aside.values(), *ask.keep):
        if name is not None and name not in place:
            unknown_column(path, name, names)
    chosen = () if ask.id_column is None else (place[ask.id_column],)
    aside = {what: place[name] for what, name in ask.aside.items()}
    gone, kept = (
        {place[name] for name in dropped(path, names, ask)},
        {place[name] for name in ask.keep},
    )
    for k in kept & (gone | {*chosen, *aside.values()}):
        raise TableError(
            f"{path}: {quietly(names[k])} is named by --keep, which makes it a variable, and also "
            "by --drop, --label, --groups, --response or --id-column, which make it none"
        )
    said = gone | kept | {*chosen, *aside.values()}
    index = tuple(k for k in index if k not in said)
    known = {place[name] for name in ask.variables if name in place}
    alike = {*row_numbers, *(place[name] for name in ask.row_numbers if name in place)}
    numbers = tuple(sorted(alike - said - known - {*index}))
    ids = chosen or index or numbers[:1]
    gone |= {*ids, *index, *numbers, *aside.values()}
    variables = [k for k in range(len(names)) if k not in gone]
    if len(variables) < 2:
        taken = "".join(
            f"; {quietly(names[k])} was taken for the names of the rows (it is a variable with "
            f"--keep {quietly(names[k])})"
            for k in numbers
        )
        text = path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".tab", ".txt"))
        cut_wrongly = ". Is the separator right (--separator)?" if text and len(names) < 3 else ""
        raise TableError(
            f"{path}: it has {len(names)} column(s), of which {len(variables)} would be variables; "
            f"at least 2 are needed{taken}{cut_wrongly}"
        )
    return Roles(variables, ids, aside, numbers)


ALL_TEXT = "text"  # with --drop: all columns that are not numbers


def dropped(path: Path, names: Sequence[str], ask: ReadOptions) -> list[str]:
    """The columns that are to be left out, as far as they are known by name."""
    gone: list[str] = []
    known = {*names}
    for asked in ask.drop:
        parts = [one.strip() for one in asked.split(",")]
        if asked in known:
            gone.append(asked)
        elif all(one in known or one == ALL_TEXT for one in parts):
            gone += [one for one in parts if one in known]
        else:
            unknown_column(path, next(one for one in parts if one not in {*known, ALL_TEXT}), names)
    return gone


def drops_text(ask: ReadOptions) -> bool:
    """Whether all columns that are not numbers are to be left out."""
    return any(ALL_TEXT in map(str.strip, asked.split(",")) for asked in ask.drop)


def unique_names(names: Sequence[str], what: str = "columns") -> tuple[list[str], list[str]]:
    """The names, numbered from the second of the same name on; and what is to be said of that."""
    taken, count, following = {*names}, dict[str, int](), dict[str, int]()
    unique, changed = list[str](), dict[str, list[str]]()
    for name in names:
        count[name] = count.get(name, 0) + 1
        new = name
        if count[name] > 1:
            number = following.get(name, 2)
            while (new := f"{name}.{number}") in taken:
                number += 1
            following[name] = number + 1  # all numbers before it are taken
            taken.add(new)
            changed.setdefault(name, []).append(new)
        unique.append(new)
    if not changed:
        return unique, []
    first = next(iter(changed))
    more = f"; likewise for {len(changed) - 1:,} more name(s)" if len(changed) > 1 else ""
    shown = ", ".join(quietly(new) for new in changed[first][:3])
    return unique, [
        f"{count[first]:,} {what} have the name {quietly(first)}: from the second on they are "
        f"called {shown}{', ...' if len(changed[first]) > 3 else ''}{more}"
    ]


def tell_row_numbers(
    names: Sequence[str], roles: Roles, values: Mapping[int, Sequence[Any]], ask: ReadOptions
) -> tuple[list[str], list[str]]:
    """Notes about the columns that number the rows, and the names of those that do not after all.

    ``values`` has the whole column at each position in ``roles.row_numbers``.
    """
    notes, mistaken = [], []
    for k in roles.row_numbers:
        name = quietly(names[k])
        how = how_rows_are_told_apart(names[k], values[k])
        if how is None and names[k] in ask.row_numbers:
            how = "tells rows apart, as in the table of the model"
        if how is None:
            mistaken.append(names[k])
        else:
            used = "names the rows and is no variable" if k in roles.ids else "is no variable"
            notes.append(f"the column {name} {how}: it {used}; if it is one, say --keep {name}")
    return notes, mistaken


def tell_identifiers(names: Sequence[str], roles: Roles, ask: ReadOptions) -> list[str]:
    """Notes about variables that have the names of identifiers."""
    return [
        f"the column {quietly(names[k])} was taken as a variable, though its name is that of an "
        f"identifier; to leave it out, say --drop {quietly(names[k])}"
        for k in roles.variables
        if named_like_an_identifier(names[k]) and names[k] not in ask.keep
    ]


def unknown_column(path: Path, name: str, names: Sequence[str], what: str = "column") -> NoReturn:
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    first = ", ".join(map(quietly, names[:5])) + (", ..." if len(names) > 5 else "")
    hint = f"did you mean {' or '.join(map(quietly, close))}?" if close else f"there are {first}"
    raise TableError(f"{path}: there is no {what} {quietly(name)}; {hint}")


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


def refuse_inexact(place: str, column: str, value: int) -> NoReturn:
    raise TableError(
        f"{place}, {column}: {value} is beyond 2^53, where floating-point numbers no "
        "longer tell neighbouring whole numbers apart. If the column is an identifier, name it "
        "with --id-column or --drop; if it is a measurement, store it as floating point"
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
