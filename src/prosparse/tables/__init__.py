"""Files to tables: ``read_table(path)`` for CSV, TSV, Parquet, Arrow, NPZ, NPY, MTX and H5AD."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np

from ..errors import TableError
from .base import Ask, Table, check_size, quietly
from .columnar import read_arrow, read_parquet
from .delimited import read_delimited
from .matrices import read_h5ad, read_mtx, read_numpy

__all__ = ["READERS", "Ask", "Table", "ending_of", "read_table"]

READERS: dict[str, Callable[[Path, Ask], Table]] = {
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


def read_table(path: str | os.PathLike[str], ask: Ask | None = None) -> Table:
    """The numbers in a file, with their names.

    Parameters
    ----------
    path : str or path
        Its ending says what it is; see `READERS`.
    ask : Ask or None
        Which column is what, where that is not clear from the file.

    Returns
    -------
    Table

    Raises
    ------
    TableError
        Names the file and, where there is one, row and column.
    """
    path, ask = Path(path), ask or Ask()
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
    try:
        if path.stat().st_size == 0:
            raise TableError(f"{path}: the file is empty")
        table = READERS[ending](path, ask)
    except ModuleNotFoundError as error:
        raise TableError(
            f"{path}: reading it needs {error.name}, which is not installed: "
            "pip install 'prosparse[cli]'"
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
    return check_size(_transposed(table, ask) if ask.transpose else table)


def _transposed(table: Table, ask: Ask) -> Table:
    """Variables were in rows: the ids become names, and the names ids."""
    for option, asked in (("--label", ask.label), ("--groups", ask.groups)):
        if asked is None:
            continue
        raise TableError(
            f"{table.path}: {option} names a column, but with --transpose the columns are samples: "
            "transpose the file first"
        )
    names = table.ids or [f"x{k}" for k in range(table.X.shape[0])]
    seen: dict[str, int] = {}
    for number, name in enumerate(names, 1):
        if seen.setdefault(name, number) != number:
            raise TableError(
                f"{table.path}: rows {seen[name]} and {number} are both called {quietly(name)}: "
                "with --transpose they are variables, whose names must differ"
            )
    X = table.X.T.tocsr() if hasattr(table.X, "tocsr") else np.asarray(table.X).T
    note = "rows and columns were exchanged, as asked"
    return table._replace(X=X, names=names, ids=table.names, notes=[*table.notes, note])
