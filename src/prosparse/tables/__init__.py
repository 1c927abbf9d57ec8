"""Reading of tables from files, with names of variables and rows.

`read_table` reads CSV, TSV, spreadsheets, Parquet, Arrow, NPZ, NPY, MTX and H5AD files;
`prepare_table` takes logarithms and handles missing values.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import TableError
from .base import (
    MisjudgedColumns,
    NonNumericColumnsError,
    ReadOptions,
    Table,
    check_shape,
    drops_text,
    errors_as_table_error,
)
from .columnar import read_arrow, read_parquet
from .dates import note_dates
from .delimited import read_delimited
from .joining import JoinedTables, join_tables
from .labels import attach_labels, read_labels
from .matrices import read_h5ad, read_mtx, read_numpy
from .orientation import note_orientation, transpose_table
from .preparation import prepare_table
from .response import parse_covariates, parse_response
from .row_selection import ignore_rows, replace_codes
from .workbook import EXTENSIONS, read_workbook

__all__ = [
    "READERS",
    "JoinedTables",
    "ReadOptions",
    "Table",
    "file_extension",
    "join_tables",
    "prepare_table",
    "read_table",
]

READERS: dict[str, Callable[[Path, ReadOptions], Table]] = {
    ".csv": read_delimited,
    ".tsv": read_delimited,
    ".tab": read_delimited,
    ".txt": read_delimited,
    ".parquet": read_parquet,
    ".pq": read_parquet,
    ".arrow": read_arrow,
    ".feather": read_arrow,
    ".npz": read_numpy,
    ".npy": read_numpy,
    ".mtx": read_mtx,
    ".h5ad": read_h5ad,
    **dict.fromkeys(EXTENSIONS, read_workbook),
}
"""Reader of each supported file extension."""
_COMPRESSED = (".csv.gz", ".tsv.gz", ".tab.gz", ".txt.gz", ".mtx.gz")


def file_extension(path: str | os.PathLike[str]) -> str:
    """Return the extension of a file, such as ``.csv`` or ``.csv.gz``.

    Parameters
    ----------
    path : str or path-like
        Path of the file, which need not exist.

    Returns
    -------
    str
        Extension as written in the name; empty without extension.
    """
    name = Path(path).name
    is_compressed = name.lower().endswith(_COMPRESSED)
    return Path(name[:-3]).suffix + name[-3:] if is_compressed else Path(name).suffix


def read_table(path: str | os.PathLike[str], options: ReadOptions | None = None) -> Table:
    """Read a table from a file.

    Parameters
    ----------
    path : str or path-like
        File whose extension is a key of `READERS`; text and MTX files may be compressed (.gz).
    options : ReadOptions or None, default=None
        Roles of columns and format of the file; by default detected.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        If the file cannot be read. The message names the file and, if possible, the row and the
        column.
    """
    path, options = Path(path), options or ReadOptions()
    labels = None if options.labels is None else read_labels(Path(options.labels))
    table_options = options if labels is None else labels.table_options(options)
    extension = file_extension(path).lower()
    extension = extension.removesuffix(".gz") or extension
    if not path.exists():
        raise TableError(f"{path}: the file does not exist.")
    if path.is_dir():
        raise TableError(f"{path}: the path is a folder, not a file.")
    if extension not in READERS:
        raise TableError(
            f"{path}: the extension {extension!r} is not supported. Supported extensions: "
            f"{', '.join(READERS)} (text and MTX also with .gz)."
        )
    if not path.is_file():
        raise TableError(
            f"{path}: the path is a device, a pipe or a socket, not a regular file. Write its "
            "content to a file first."
        )
    with errors_as_table_error(path, "excel" if extension in EXTENSIONS else "cli"):
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty.")
        table = _read_numeric(READERS[extension], path, table_options)
    if options.transpose:
        table = transpose_table(table, table_options)
    if labels is not None:
        table = attach_labels(table, labels, options)
    table = ignore_rows(replace_codes(table, options.na), options.ignore_rows)
    table = table.with_notes(
        *note_orientation(table, options.transpose),
        *note_dates(table.names),
        *note_dates(table.ids or ()),
    )
    table = parse_covariates(table, options)
    return check_shape(parse_response(table, options))


def _read_numeric(
    read: Callable[[Path, ReadOptions], Table], path: Path, options: ReadOptions
) -> Table:
    """Read a table; repeat if columns must be dropped or were misclassified."""
    try:
        return read(path, options)
    except MisjudgedColumns as found:
        variables = (*options.variables, *found.names)
        return _read_numeric(read, path, options._replace(variables=variables))
    except NonNumericColumnsError as error:
        if not error.columns or not drops_text(options):
            raise TableError(str(error)) from None
        ignore = (*options.ignore, *error.columns)
        return _read_numeric(read, path, options._replace(ignore=ignore)).with_notes(error.note)
