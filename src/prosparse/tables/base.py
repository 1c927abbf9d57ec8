"""Options, results and column roles common to all readers."""

from __future__ import annotations

import difflib
import gzip
import io
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, NamedTuple, NoReturn

import numpy as np

from ..errors import TableError, end_sentence, plural
from .identifiers import describe_identifier, is_identifier_name
from .missing_codes import MISSING

# Maximum size of an unpacked file: a multiple of the packed size, or a number of bytes if that is
# larger.
MAX_EXPANSION, MAX_UNPACKED = 200, 2**27

MAX_EXACT_INTEGER = 2**53  # all smaller integers are exact floating-point numbers

ALL_TEXT = "text"  # value of --ignore for all non-numeric columns


def _ignore_progress(n_rows: int) -> None:
    """Ignore the progress."""


_LABEL = "label "  # prefix of the roles of labels
_COVARIATE = "covariate "  # prefix of the roles of covariates


class ReadOptions(NamedTuple):
    """Options of `read_table`.

    Attributes
    ----------
    row_names : str or None
        Column with the row names.
    label : str or tuple of str
        Columns by which scores are coloured and against which components are tested.
    ignore : tuple of str
        Columns to drop: names, or several names separated by commas. ``"text"`` stands for all
        non-numeric columns.
    transpose : bool
        Whether variables are in rows. ``label``, ``groups`` and ``response`` are then names of
        rows, and ``ignore`` contains names of columns or rows.
    header : bool
        Whether the first line contains the column names.
    encoding : str or None
        Encoding of a text file. By default it is detected.
    separator : str or None
        Separator of the columns of a text file. By default it is detected.
    decimal : {".", ",", "mixed"} or None
        Decimal mark of a text file. By default it is detected. If "mixed", points and commas are
        decimal marks.
    thousands : str
        Thousands separator of the numbers, or empty.
    na : tuple of str
        Additional codes for missing values: texts or numbers, or several of these separated by
        commas.
    censored : {"half", "lod", "missing"} or None
        Value of cells such as ``<0.5`` and ``<LOD``: half the limit, the limit, or missing.
    skip_lines : tuple of int
        Numbers of the lines of a text file or spreadsheet to skip.
    ignore_rows : tuple of str
        Rows to drop: names, or numbers from 1 if the rows have no names; or several of these
        separated by commas.
    as_variables : tuple of str
        Columns that are variables although they look like row names or identifiers.
    variables : tuple of str
        Columns known to be variables, for example from a fitted model. Unknown names are ignored.
    identifiers : tuple of str
        Columns known to number or identify the rows. Unknown names are ignored.
    progress : callable
        Function called with the number of rows read so far.
    groups : str or None
        Column with the groups of the rows, such as patients or batches.
    covariates : tuple of str
        Columns with covariates of the rows: names, or several names separated by commas.
        ``C(name)`` marks a numeric column as categorical.
    response : str or None
        Column with the response of a regression (numbers) or classification (two classes).
    sheet : str or None
        Name or number (from 1) of a sheet. By default the first sheet that is not empty.
    labels : str or None
        Second file with one line per row, which contains the columns ``label``, ``groups`` and
        ``response``.
    """

    row_names: str | None = None
    label: str | tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()
    transpose: bool = False
    header: bool = True
    encoding: str | None = None
    separator: str | None = None
    decimal: str | None = None
    thousands: str = ""
    na: tuple[str, ...] = ()
    censored: str | None = None
    skip_lines: tuple[int, ...] = ()
    ignore_rows: tuple[str, ...] = ()
    as_variables: tuple[str, ...] = ()
    variables: tuple[str, ...] = ()
    identifiers: tuple[str, ...] = ()
    progress: Callable[[int], None] = _ignore_progress
    groups: str | None = None
    covariates: tuple[str, ...] = ()
    response: str | None = None
    sheet: str | None = None
    labels: str | None = None

    @property
    def label_names(self) -> tuple[str, ...]:
        """Names of the label columns."""
        return (self.label,) if isinstance(self.label, str) else tuple(self.label or ())

    @property
    def covariate_kinds(self) -> dict[str, bool]:
        """Whether each covariate is marked as categorical by ``C(...)``, by name."""
        kinds: dict[str, bool] = {}
        for value in self.covariates:
            for part in map(str.strip, value.split(",")):
                is_category = part.startswith("C(") and part.endswith(")")
                kinds[part[2:-1] if is_category else part] = is_category
        return kinds

    @property
    def annotations(self) -> dict[str, str]:
        """Names of the label, group, response and covariate columns, by role."""
        names = {"groups": self.groups, "response": self.response}
        return {
            **{f"{_LABEL}{name}": name for name in self.label_names},
            **{role: name for role, name in names.items() if name is not None},
            **{f"{_COVARIATE}{name}": name for name in self.covariate_kinds},
        }

    def without_annotations(self, *roles: str) -> ReadOptions:
        """Return the options without the given annotations, or without any."""
        roles = roles or tuple(self.annotations)
        removed: dict[str, Any] = {r: None for r in roles if r in ("groups", "response")}
        labels = tuple(name for name in self.label_names if f"{_LABEL}{name}" not in roles)
        kinds = self.covariate_kinds.items()
        kept = tuple(
            f"C({name})" if is_category else name
            for name, is_category in kinds
            if f"{_COVARIATE}{name}" not in roles
        )
        return self._replace(**removed, label=labels, covariates=kept)

    def to_json(self) -> dict[str, Any]:
        """Return the options that also apply to other tables, for JSON."""
        transient = ("progress", "variables")
        return {name: value for name, value in self._asdict().items() if name not in transient}


class Table(NamedTuple):
    """Data matrix with names of variables and rows.

    Attributes
    ----------
    path : Path
        File of the table.
    X : ndarray or CSR array of shape (n_rows, n_variables)
        Data matrix, with NaN for missing values.
    names : list of str
        Names of the variables, without duplicates.
    ids : list of str or None
        Names of the rows.
    labels : dict
        Columns by which scores are coloured, by name.
    notes : list of str
        Observations about the file.
    identifiers : tuple of str
        Columns that were dropped because they number or identify the rows.
    groups : list or None
        Groups of the rows.
    covariates : dict or None
        Covariates of the rows by name: arrays of floats, or of strings if categorical.
    response : list or None
        Response: floats, with NaN for missing values; or two classes, with None for missing values.
    named_rows : dict
        Rows that were requested by name, as text, for tables with variables in rows.
    id_name : str
        Name of the column with the row names.
    """

    path: Path
    X: Any
    names: list[str]
    ids: list[str] | None
    labels: Mapping[str, list[Any]] = {}
    notes: Sequence[str] = ()
    identifiers: tuple[str, ...] = ()
    groups: list[Any] | None = None
    covariates: dict[str, Any] | None = None
    response: list[Any] | None = None
    named_rows: Mapping[str, list[Any]] = {}
    id_name: str = ""

    @property
    def label(self) -> list[Any] | None:
        """First label, or None."""
        return next(iter(self.labels.values()), None)

    def with_annotations(self, values: Mapping[str, Any]) -> Table:
        """Return the table with annotations by role (`ReadOptions.annotations`)."""
        covariates = {
            role.removeprefix(_COVARIATE): list(cells)
            for role, cells in values.items()
            if role.startswith(_COVARIATE)
        }
        labels = {
            role.removeprefix(_LABEL): list(cells)
            for role, cells in values.items()
            if role.startswith(_LABEL)
        }
        fields: dict[str, Any] = {r: c for r, c in values.items() if r in ("groups", "response")}
        if labels:
            fields["labels"] = {**self.labels, **labels}
        if covariates:
            fields["covariates"] = {**(self.covariates or {}), **covariates}
        return self._replace(**fields)

    def with_notes(self, *notes: str) -> Table:
        """Return the table with further notes."""
        return self._replace(notes=[*self.notes, *notes])


class Roles(NamedTuple):
    """Roles of the columns, by position in the file."""

    variables: list[int]
    ids: tuple[int, ...]  # columns that form the row names
    annotations: Mapping[str, int]  # by role, see `ReadOptions.annotations`
    identifiers: tuple[int, ...]  # apparent identifiers, to be confirmed by all rows

    def text_columns(self) -> list[int]:
        """Return the columns that are read as text."""
        return sorted({*self.ids, *self.annotations.values(), *self.identifiers})


class NonNumericColumnsError(TableError):
    """Error for columns of the table that are not numeric."""

    def __init__(self, message: str, columns: Sequence[str] = (), note: str = ""):
        super().__init__(message)
        self.columns = columns  # columns that can be dropped
        self.note = note  # note if these columns are dropped


class MisjudgedColumns(Exception):  # noqa: N818 (not an error: the file is read again)
    """Signal that columns which resembled identifiers are variables."""

    def __init__(self, names: Sequence[str]):
        super().__init__(names)
        self.names = names


@contextmanager
def errors_as_table_error(path: Path, extra: str) -> Iterator[None]:
    """Convert every error of reading a file to a `TableError`.

    ``extra`` names the optional dependencies of prosparse that the file type requires.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise TableError(
            f"{path}: reading this file requires {error.name}, which is not installed: "
            f"pip install 'prosparse[{extra}]'"
        ) from error
    except TableError:
        raise
    except MemoryError as error:
        raise TableError(
            f"{path}: not enough memory for this table. Drop rows or columns first."
        ) from error
    except OSError as error:
        reason = error.strerror or str(error)
        raise TableError(f"{path}: the file cannot be read ({quote(reason, 200)}).") from error
    except Exception as error:
        # Parsers of other libraries raise errors of any type on a damaged file.
        reason = quote(f"{type(error).__name__}: {error}", 200)
        raise TableError(
            f"{path}: the file is damaged, or its extension is wrong ({reason})."
        ) from error


def quote(text: Any, limit: int = 60) -> str:
    """Quote a text from a file on one line, at most ``limit`` characters long."""
    shown = repr(str(text))
    return shown if len(shown) <= limit else shown[: limit - 2] + "…'"


def list_names(names: Sequence[str], limit: int) -> str:
    """List quoted names, at most ``limit`` of them."""
    return ", ".join(map(quote, names[:limit])) + (", ..." if len(names) > limit else "")


def name_column(names: Sequence[str], k: int) -> str:
    """Return number and name of a column for a message."""
    return f"column {k + 1} ({quote(names[k])})" if names[k] else f"column {k + 1}"


def name_row(table: Table, row: int) -> str:
    """Return number and name of a row for a message."""
    return f"row {row + 1} of the data" + (f" ({table.ids[row]!r})" if table.ids else "")


def is_missing(value: Any) -> bool:
    """Return whether a cell is missing."""
    if isinstance(value, str):
        return value.strip() in MISSING
    return value is None or (isinstance(value, float) and math.isnan(value))


def assign_roles(
    path: Path,
    names: Sequence[str],
    options: ReadOptions,
    index: Sequence[int] = (),
    identifiers: Sequence[int] = (),
) -> Roles:
    """Assign a role to each column.

    ``index`` and ``identifiers`` are the columns that resemble row names and identifiers. The
    options of the user take precedence.
    """
    position = {name: k for k, name in enumerate(names)}
    for name in (options.row_names, *options.annotations.values(), *options.as_variables):
        if name is not None and name not in position:
            raise_unknown_column(path, name, names)
    row_names = () if options.row_names is None else (position[options.row_names],)
    annotations = {role: position[name] for role, name in options.annotations.items()}
    dropped = {position[name] for name in columns_to_drop(path, names, options)}
    kept = {position[name] for name in options.as_variables}
    other_roles = dropped | {*row_names, *annotations.values()}
    for k in kept & other_roles:
        raise TableError(
            f"{path}: --as-variable makes {quote(names[k])} a variable, but --ignore, --label, "
            "--groups, --covariates, --response or --row-names gives it another role. Remove one "
            "of these options."
        )
    assigned = kept | other_roles
    index = tuple(k for k in index if k not in assigned)
    known = {position[name] for name in options.variables if name in position}
    apparent = {
        *identifiers, *(position[name] for name in options.identifiers if name in position)
    }  # fmt: skip
    found = tuple(sorted(apparent - assigned - known - {*index}))
    ids = row_names or index or found[:1]
    excluded = {*dropped, *ids, *index, *found, *annotations.values()}
    variables = [k for k in range(len(names)) if k not in excluded]
    if len(variables) < 2:
        _refuse_few_variables(path, names, variables, found)
    return Roles(variables, ids, annotations, found)


def _refuse_few_variables(
    path: Path, names: Sequence[str], variables: list[int], identifiers: Sequence[int]
) -> NoReturn:
    taken = "".join(
        f" {quote(names[k])} was read as an identifier; --as-variable {quote(names[k])} makes it a "
        "variable."
        for k in identifiers
    )
    is_text = path.name.lower().removesuffix(".gz").endswith((".csv", ".tsv", ".tab", ".txt"))
    separator = " Check the separator (--separator)." if is_text and len(names) < 3 else ""
    raise TableError(
        f"{path}: the table has {plural(len(names), 'column')}, of which {len(variables)} can "
        f"be variables; at least 2 are needed.{taken}{separator}"
    )


def columns_to_drop(path: Path, names: Sequence[str], options: ReadOptions) -> list[str]:
    """Return the names of the columns to drop."""
    dropped: list[str] = []
    known = {*names}
    for value in options.ignore:
        parts = [part.strip() for part in value.split(",")]
        if value in known:
            dropped.append(value)
        elif all(part in known or part == ALL_TEXT for part in parts):
            dropped += [part for part in parts if part in known]
        else:
            unknown = next(part for part in parts if part not in {*known, ALL_TEXT})
            raise_unknown_column(path, unknown, names)
    return dropped


def drops_text(options: ReadOptions) -> bool:
    """Return whether all non-numeric columns are dropped."""
    return any(ALL_TEXT in map(str.strip, value.split(",")) for value in options.ignore)


def make_unique(names: Sequence[str], noun: str = "columns") -> tuple[list[str], list[str]]:
    """Append numbers to repeated names; return the names and a note.

    The list of notes is empty if no name repeats. ``noun`` is a plural noun for the named objects.
    """
    taken, count, following = {*names}, dict[str, int](), dict[str, int]()
    unique, changed = list[str](), dict[str, list[str]]()
    for name in names:
        count[name] = count.get(name, 0) + 1
        new = name
        if count[name] > 1:
            number = following.get(name, 2)
            while (new := f"{name}.{number}") in taken:
                number += 1
            following[name] = number + 1  # all smaller numbers are taken
            taken.add(new)
            changed.setdefault(name, []).append(new)
        unique.append(new)
    if not changed:
        return unique, []
    first = next(iter(changed))
    others = len(changed) - 1
    more = f"; the same applies to {plural(others, 'more name')}" if others else ""
    return unique, [
        f"{count[first]:,} {noun} have the name {quote(first)}; the repetitions were renamed to "
        f"{list_names(changed[first], 3)}{more}"
    ]


def check_identifiers(
    names: Sequence[str], roles: Roles, values: Mapping[int, Sequence[Any]], options: ReadOptions
) -> tuple[list[str], list[str]]:
    """Check apparent identifiers by their values in all rows.

    Notes on the confirmed identifiers and the names of the other columns are returned.
    """
    notes, misjudged = [], []
    for k in roles.identifiers:
        name = quote(names[k])
        description = describe_identifier(names[k], values[k])
        if description is None and names[k] in options.identifiers:
            description = "identifies the rows in the table of the model"
        if description is None:
            misjudged.append(names[k])
        else:
            used = "provides the row names" if k in roles.ids else "is not used as a variable"
            notes.append(
                f"column {name} {description} and {used}; use --as-variable {name} if it is a "
                "variable"
            )
    return notes, misjudged


def note_identifier_names(names: Sequence[str], roles: Roles, options: ReadOptions) -> list[str]:
    """Return notes on variables that are named like identifiers."""
    return [
        f"column {quote(names[k])} is used as a variable although it is named like an identifier; "
        f"use --ignore {quote(names[k])} to drop it"
        for k in roles.variables
        if is_identifier_name(names[k]) and names[k] not in options.as_variables
    ]


def raise_unknown_column(
    path: Path, name: str, names: Sequence[str], noun: str = "column"
) -> NoReturn:
    """Raise an error for an unknown name, with the most similar names."""
    close = difflib.get_close_matches(name, list(names), n=3, cutoff=0.5)
    known = f"available {noun}s: {end_sentence(list_names(names, 5))}"
    hint = f"did you mean {' or '.join(map(quote, close))}?" if close else known
    raise TableError(f"{path}: there is no {noun} {quote(name)}; {hint}")


def refuse_repeated_index(path: Path, name: str, ids: Sequence[str]) -> None:
    """Raise an error if texts in the first column repeat."""
    first_row: dict[str, int] = {}
    for row, value in enumerate(ids, 1):
        if first_row.setdefault(value, row) != row:
            raise TableError(
                f"{path}: the first column, {quote(name)}, is text but does not name the rows: "
                f"rows {first_row[value]} and {row} of the data are both {quote(value)}. Give its "
                f"role: --label {quote(name)}, --ignore {quote(name)} or --row-names {quote(name)}."
            )


def refuse_inexact(row: str, column: str, value: int) -> NoReturn:
    """Raise an error for an integer that a float64 cannot represent."""
    raise TableError(
        f"{row}, {column}: {value} exceeds 2^53 and would be rounded. For an identifier use "
        "--row-names or --ignore; store a measurement as floating point."
    )


def check_shape(table: Table) -> Table:
    """Raise an error if the table has fewer than two rows or variables."""
    n, p = table.X.shape
    if n < 2 or p < 2:
        raise TableError(
            f"{table.path}: the table has {plural(n, 'row')} and {plural(p, 'variable')}; "
            "at least 2 of each are needed."
        )
    return table


class LimitedGzip(io.RawIOBase):
    """Gzip file that raises an error if it unpacks to far more than its size."""

    def __init__(self, path: Path):
        self.path, self.file = path, gzip.GzipFile(path)
        self.limit = max(MAX_UNPACKED, MAX_EXPANSION * path.stat().st_size)

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        data = self.file.read(len(buffer))
        buffer[: len(data)] = data
        if self.file.tell() > self.limit:
            refuse_expansion(self.path)
        return len(data)

    def close(self) -> None:
        self.file.close()
        super().close()


def refuse_expansion(path: Path) -> NoReturn:
    """Raise an error for a file that unpacks to far more than its size."""
    raise TableError(
        f"{path}: the file decompresses to more than {MAX_EXPANSION} times its size, like a "
        "decompression bomb. Decompress it first if you trust it."
    )


def open_binary(path: Path) -> IO[bytes]:
    """Open a file for reading bytes; unpack it if its name ends in .gz."""
    if path.suffix.lower() != ".gz":
        return path.open("rb")
    return io.BufferedReader(LimitedGzip(path), 2**20)


class GrowableArray:
    """Float array that grows by rows in place, without a second copy."""

    def __init__(self, width: int, rows: int = 0):
        self.rows = 0
        self.array = np.empty((rows, width))

    def append_rows(self, rows: int) -> np.ndarray:
        """Return a view of ``rows`` new rows, to be filled by the caller."""
        needed = self.rows + rows
        if needed > self.array.shape[0]:
            # Growth by a tenth is inexpensive, because the page table moves large blocks without a
            # copy.
            capacity = max(needed, int(1.1 * self.array.shape[0]))
            self.array.resize((capacity, self.array.shape[1]), refcheck=False)
        view = self.array[self.rows : needed]
        self.rows = needed
        return view

    def finish(self) -> np.ndarray:
        """Return the array without unused rows."""
        self.array.resize((self.rows, self.array.shape[1]), refcheck=False)
        return self.array
