"""Files to tables: ``read_table(path)`` for CSV, TSV, spreadsheets, Parquet, Arrow, NPZ, NPY,
MTX and H5AD."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from ..errors import TableError
from .base import (
    Mistaken,
    ReadOptions,
    Table,
    Unusable,
    check_size,
    drops_text,
    errors_as_table_error,
)
from .columnar import read_arrow, read_parquet
from .dates import tell_dates
from .delimited import read_delimited
from .labels import labelled, read_labels
from .matrices import read_h5ad, read_mtx, read_numpy
from .orientation import tell_orientation, transposed
from .workbook import ENDINGS, read_workbook

__all__ = ["READERS", "ReadOptions", "Table", "ending_of", "read_table"]

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
    **dict.fromkeys(ENDINGS, read_workbook),
}
"""Endings of files that can be read, and what reads them."""
_COMPRESSED = (".csv.gz", ".tsv.gz", ".tab.gz", ".txt.gz", ".mtx.gz")


def ending_of(path: str | os.PathLike[str]) -> str:
    """What the name of a file ends in, as far as it says what the file is: ``.csv``, ``.csv.gz``.

    Letters are as in the name; empty if it has no ending.
    """
    name = Path(path).name
    packed = name.lower().endswith(_COMPRESSED)
    return Path(name[:-3]).suffix + name[-3:] if packed else Path(name).suffix


def read_table(path: str | os.PathLike[str], ask: ReadOptions | None = None) -> Table:
    """The numbers in a file, with their names.

    Parameters
    ----------
    path : str or path
        Its ending says what it is; see `READERS`.
    ask : ReadOptions or None
        Which column is what, where that is not clear from the file.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        Names the file and, where there is one, row and column.
    """
    path, asked = Path(path), ask or ReadOptions()
    labels = None if asked.labels is None else read_labels(Path(asked.labels))
    ask = asked if labels is None else labels.rest_of(asked)
    ending = ending_of(path).lower().removesuffix(".gz") or ending_of(path).lower()
    if not path.exists():
        raise TableError(f"{path}: there is no such file")
    if path.is_dir():
        raise TableError(f"{path}: this is a folder, not a file")
    if ending not in READERS:
        raise TableError(
            f"{path}: files that end in {ending or 'nothing'!r} are not read; these are: "
            f"{', '.join(READERS)} (text and MTX also as .gz)"
        )
    if not path.is_file():
        raise TableError(
            f"{path}: this is not a regular file, but a device, a pipe or a socket: write what it "
            "holds to a file first"
        )
    with errors_as_table_error(path, "excel" if ending in ENDINGS else "cli"):
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty")
        table = _usable(READERS[ending], path, ask)
    if ask.transpose:
        table = transposed(table, ask)
    if labels is not None:
        table = labelled(table, labels, asked)
    noticed = [
        *tell_orientation(table, ask.transpose),
        *tell_dates(table.names),
        *tell_dates(table.ids or ()),
    ]
    table = table._replace(notes=[*table.notes, *noticed])
    return check_size(table)


def _usable(read: Callable[[Path, ReadOptions], Table], path: Path, ask: ReadOptions) -> Table:
    """The table without what is not numbers, if that is to be left out; read again where the first
    rows were misleading."""
    try:
        return read(path, ask)
    except Mistaken as found:
        return _usable(read, path, ask._replace(variables=(*ask.variables, *found.names)))
    except Unusable as found:
        if not found.columns or not drops_text(ask):
            raise TableError(str(found)) from None
        table = _usable(read, path, ask._replace(drop=(*ask.drop, *found.columns)))
        return table._replace(notes=[*table.notes, found.note])
