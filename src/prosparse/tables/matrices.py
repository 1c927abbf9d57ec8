"""NumPy's NPY and NPZ, Matrix Market, and AnnData's H5AD: mostly matrices without column names."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

from ..errors import TableError
from ..npy import PLAIN_TYPES, read_header
from .base import (
    EXACT,
    LARGEST_UNPACKED,
    MOST_EXPANSION,
    ReadOptions,
    Table,
    assign_roles,
    column_called,
    quietly,
    refuse_bomb,
    refuse_inexact,
    tell_identifiers,
    tell_row_numbers,
    unique_names,
    unknown_column,
)
from .identifiers import candidates, how_rows_are_told_apart
from .limited import read_in_child
from .market import read_market
from .orientation import rows_by_name

_MOST_EMPTY = 10**6  # rows or columns of a sparse table without an entry in them


def read_numpy(path: Path, ask: ReadOptions) -> Table:
    """One array of two dimensions (called X if there are several), names and ids if they are there,
    or a sparse matrix as ``scipy.sparse.save_npz`` writes it."""
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                read_header(file, path.stat().st_size)
            return _named(path, ask, np.load(path, allow_pickle=False))
        _check_archive(path)
        with np.load(path, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return _named(path, ask, sparse.load_npz(path))
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        if isinstance(error, TableError):
            raise
        why = quietly(error, 300)
        raise TableError(f"{path}: not a whole NumPy file of plain numbers ({why})") from error
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    chosen = "X" if "X" in tables else tables[0] if len(tables) == 1 else None
    if chosen is None:
        raise TableError(
            f"{path}: it holds {', '.join(map(quietly, arrays)) or 'nothing'}, of which "
            f"{len(tables)} have two dimensions; call the table X"
        )
    X = arrays[chosen]
    names = next((_texts(arrays[n]) for n in ("feature_names", "names") if n in arrays), None)
    # an array of the file, or a column of the table, which `_named` looks for
    ids = None
    aside = {
        what: _texts(arrays[name])
        for what, name in ask.aside.items()
        if name in arrays and name != chosen
    }
    if aside:
        ask = ask.without_aside(*aside)
    if ask.id_column is None:
        ids = _texts(arrays["ids"]) if "ids" in arrays else None
    elif ask.id_column in arrays and ask.id_column != chosen:
        ids = _texts(arrays[ask.id_column])
        ask = ask._replace(id_column=None)
    return _named(path, ask, X, names, ids, aside)


def _texts(array: np.ndarray) -> list[Any]:
    """The entries of an array of names; bytes are taken as UTF-8."""
    flat = array.ravel()
    return [str(one, "utf-8") for one in flat] if flat.dtype.kind == "S" else list(flat.tolist())


def _check_archive(path: Path) -> None:
    """Refuse members that are not plain arrays, or that unpack to far more than the file's size."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(LARGEST_UNPACKED, MOST_EXPANSION * path.stat().st_size):
            refuse_bomb(path)
        for member in members:
            with archive.open(member) as file:
                read_header(file, member.file_size, PLAIN_TYPES + "S")  # SciPy names formats so


def read_mtx(path: Path, ask: ReadOptions) -> Table:
    return _named(path, ask, read_market(path))


def read_h5ad(path: Path, ask: ReadOptions) -> Table:
    try:
        import anndata
    except ImportError as error:
        raise TableError(
            f"{path}: reading H5AD needs anndata, which is not installed: "
            "pip install 'prosparse[anndata]'"
        ) from error
    read_in_child(
        path,
        "hdf5",
        "H5AD file",
        "the HDF5 library",
        "copy it to a local one, or read it with anndata and use prosparse.anndata.",
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=".*names are not unique")  # we say so
            data = anndata.read_h5ad(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: not a whole H5AD file ({quietly(error, 300)})") from error
    if ask.transpose:  # labels are then in `.var`, of which rows of the table will be made
        ask = rows_by_name(data.var_names, ask)[0]
    for asked in (*ask.aside.values(), ask.id_column):
        if asked is not None and asked not in data.obs.columns:
            unknown_column(path, asked, list(data.obs.columns))
    aside = {what: data.obs[name].tolist() for what, name in ask.aside.items()}
    ids = data.obs_names if ask.id_column is None else data.obs[ask.id_column]
    ask = ask.without_aside()._replace(id_column=None)
    return _named(path, ask, data.X, data.var_names, ids, aside)


def _refuse_large(path: Path, X: Any, names: list[str], variables: list[int]) -> None:
    """Refuse whole numbers that would be rounded."""
    values = X.data if sparse.issparse(X) else X
    if not values.size or max(int(values.max()), -int(values.min())) <= EXACT:
        return
    table = X.tocsr()[:, variables].tocoo() if sparse.issparse(X) else X[:, variables]
    entries = table.data if sparse.issparse(X) else table
    large = np.argwhere((entries > EXACT) | (entries < -EXACT))
    if large.size:
        at = int(large[0][0])
        row, j = (int(table.row[at]), int(table.col[at])) if sparse.issparse(X) else large[0]
        k = variables[j]
        value = int(entries[tuple(large[0])])
        refuse_inexact(f"{path}, row {row + 1}", column_called(path, names, k), value)


def _refuse_empty(path: Path, n: int, p: int, entries: int) -> None:
    """Rows and columns cost memory even where nothing is stored in them."""
    most = _MOST_EMPTY + 10 * entries
    if n > most or p > most:
        raise TableError(
            f"{path}: it says it has {n} rows and {p} columns, nearly all of them empty, for "
            f"{entries} entries"
        )


def _as_floats(X: Any) -> Any:
    """A table of floats; of a sparse one, each value is stored once."""
    if not sparse.issparse(X):
        return np.asarray(X, dtype=float)
    X = sparse.csr_array(X, dtype=float)
    X.sum_duplicates()  # a value stored in parts: log(1 + x) of the parts is not that of the value
    return X


def _named(
    path: Path,
    ask: ReadOptions,
    X: Any,
    names: Any = None,
    ids: Any = None,
    aside: Mapping[str, list[Any]] | None = None,
) -> Table:
    """A table of a matrix; ``--drop`` works on names that were given or are x0, x1, ..."""
    if X is None or X.ndim != 2:
        raise TableError(f"{path}: a table of two dimensions is needed")
    if X.dtype.kind not in "biuf":
        raise TableError(f"{path}: it holds {X.dtype}, not real numbers")
    n, p = X.shape
    if sparse.issparse(X):
        _refuse_empty(path, n, p, X.nnz)
        if hasattr(X, "check_format"):  # positions outside the table would be written to
            X.check_format(full_check=True)
    texts = [str(name) for name in names] if names is not None else [f"x{k}" for k in range(p)]
    texts, notes = unique_names(texts)
    ask, _ = rows_by_name(texts, ask)
    if len(texts) != p:
        raise TableError(f"{path}: {len(texts)} names were given for {p} columns")
    known = {} if aside is None else aside
    for what, values in (("ids", ids), *known.items()):
        if values is not None and len(values) != n:
            raise TableError(f"{path}: {len(values)} {what} were given for {n} rows")
    whole = X
    X = _as_floats(X)

    def column_of(k: int) -> list[float]:
        column = X[:, [k]]
        return list((column.toarray() if sparse.issparse(column) else column).ravel().tolist())

    alike = [k for k in candidates(texts) if how_rows_are_told_apart(texts[k], column_of(k))]
    roles = assign_roles(path, texts, ask, (), alike)
    known = {**known, **{what: column_of(k) for what, k in roles.aside.items()}}
    if roles.ids and (ids is None or ask.id_column is not None):
        ids = [f"{value:.17g}" for value in column_of(roles.ids[0])]
    if whole.dtype.kind in "iu":
        _refuse_large(path, whole, texts, roles.variables)
    if sparse.issparse(X):
        notes.append("the table is sparse, and is never made dense")
    if ids is not None and len(set(ids)) < n:
        notes.append("the names of the rows are not all different")
    counted = {k: column_of(k) for k in roles.row_numbers}
    notes += [
        *tell_row_numbers(texts, roles, counted, ask)[0],
        *tell_identifiers(texts, roles, ask),
    ]
    if len(roles.variables) < p:
        X = X[:, roles.variables]
    return Table(
        path,
        X,
        [texts[k] for k in roles.variables],
        None if ids is None else [str(one) for one in ids],
        known.get("label"),
        notes,
        tuple(texts[k] for k in roles.row_numbers),
        known.get("groups"),
        known.get("response"),
    )
