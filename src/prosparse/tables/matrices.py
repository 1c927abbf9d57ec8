"""NumPy's NPY and NPZ, Matrix Market, and AnnData's H5AD: mostly matrices without column names."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from ..errors import TableError
from .base import Ask, Table, assign_roles, quietly, unknown_column


def read_numpy(path: Path, ask: Ask) -> Table:
    """One array of two dimensions (called X if there are several), names and ids if they are there,
    or a sparse matrix as ``scipy.sparse.save_npz`` writes it."""
    try:
        if path.suffix.lower() == ".npy":
            return _named(path, ask, np.load(path, allow_pickle=False))
        with np.load(path, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return _named(path, ask, sparse.load_npz(path))
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        raise TableError(f"{path}: not a whole NumPy file of plain numbers ({error})") from error
    tables = [name for name, array in arrays.items() if array.ndim == 2]
    chosen = "X" if "X" in tables else tables[0] if len(tables) == 1 else None
    if chosen is None:
        raise TableError(
            f"{path}: it holds {', '.join(map(quietly, arrays)) or 'nothing'}, of which "
            f"{len(tables)} have two dimensions; call the table X"
        )
    X = arrays[chosen]
    names = next((arrays[n] for n in ("feature_names", "names") if n in arrays), None)
    label = None
    if ask.label is not None:
        if ask.label not in arrays:
            unknown_column(path, ask.label, [n for n in arrays if n != chosen])
        label = arrays[ask.label].ravel().tolist()
    ids = arrays.get(ask.id_column or "ids")
    return _named(path, ask._replace(label=None, id_column=None), X, names, ids, label)


def read_mtx(path: Path, ask: Ask) -> Table:
    try:
        X = io.mmread(str(path))
    except (ValueError, OverflowError) as error:
        raise TableError(f"{path}: not a whole Matrix Market file ({error})") from error
    return _named(path, ask, X)


def read_h5ad(path: Path, ask: Ask) -> Table:
    try:
        import anndata
    except ImportError as error:
        raise TableError(
            f"{path}: reading H5AD needs anndata, which is not installed: "
            "pip install 'prosparse[anndata]'"
        ) from error
    try:
        data = anndata.read_h5ad(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: not a whole H5AD file ({error})") from error
    for asked in (ask.label, ask.id_column):
        if asked is not None and asked not in data.obs.columns:
            unknown_column(path, asked, list(data.obs.columns))
    label = None if ask.label is None else data.obs[ask.label].tolist()
    ids = data.obs_names if ask.id_column is None else data.obs[ask.id_column]
    ask = ask._replace(label=None, id_column=None)
    return _named(path, ask, data.X, data.var_names, ids, label)


def _named(
    path: Path, ask: Ask, X: Any, names: Any = None, ids: Any = None, label: Any = None
) -> Table:
    """A table of a matrix; ``--drop`` works on names that were given or are x0, x1, ..."""
    if X is None or X.ndim != 2:
        raise TableError(f"{path}: a table of two dimensions is needed")
    if X.dtype.kind not in "biuf":
        raise TableError(f"{path}: it holds {X.dtype}, not real numbers")
    n, p = X.shape
    texts = [str(name) for name in names] if names is not None else [f"x{k}" for k in range(p)]
    if len(texts) != p:
        raise TableError(f"{path}: {len(texts)} names were given for {p} columns")
    for what, values in (("ids", ids), ("labels", label)):
        if values is not None and len(values) != n:
            raise TableError(f"{path}: {len(values)} {what} were given for {n} rows")
    roles = assign_roles(path, texts, ask, None, [])
    X = sparse.csr_array(X, dtype=float) if sparse.issparse(X) else np.asarray(X, dtype=float)
    if roles.label is not None:
        column = X[:, [roles.label]]
        label = (column.toarray() if sparse.issparse(column) else column).ravel().tolist()
    if roles.id is not None:
        column = X[:, [roles.id]]
        ids = (column.toarray() if sparse.issparse(column) else column).ravel().tolist()
    if len(roles.variables) < p:
        X = X[:, roles.variables]
    return Table(
        path,
        X,
        [texts[k] for k in roles.variables],
        None if ids is None else [str(one) for one in ids],
        label,
        ["it is sparse, and stays so"] if sparse.issparse(X) else [],
    )
