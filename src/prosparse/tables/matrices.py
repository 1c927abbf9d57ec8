"""Reading of NPY, NPZ, Matrix Market and H5AD files."""

from __future__ import annotations

import warnings
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import io, sparse

from ..errors import TableError, plural
from ..npy import PLAIN_TYPES, read_header
from .base import (
    MAX_EXACT_INTEGER,
    MAX_EXPANSION,
    MAX_UNPACKED,
    ReadOptions,
    Table,
    assign_roles,
    check_identifiers,
    make_unique,
    name_column,
    note_identifier_names,
    open_binary,
    quote,
    raise_unknown_column,
    refuse_expansion,
    refuse_inexact,
)
from .identifiers import describe_identifier, identifier_candidates
from .limited_process import read_in_child
from .orientation import split_named_rows

MAX_EMPTY = 10**6  # maximum number of empty rows or columns of a sparse table


def read_numpy(path: Path, options: ReadOptions) -> Table:
    """Read an NPY or NPZ file.

    An NPZ file contains a sparse matrix of ``scipy.sparse.save_npz``, or one two-dimensional array
    (of several, that named ``X``) and optionally ``feature_names`` (or ``names``) and ``ids``.
    """
    try:
        if path.suffix.lower() == ".npy":
            with path.open("rb") as file:
                read_header(file, path.stat().st_size)
            return _make_table(path, options, np.load(path, allow_pickle=False))
        _check_archive(path)
        with np.load(path, allow_pickle=False) as archive:
            if {"format", "shape", "data"} <= set(archive.files):
                return _make_table(path, options, sparse.load_npz(path))
            arrays = {name: archive[name] for name in archive.files}
    except (ValueError, zipfile.BadZipFile, EOFError, KeyError) as error:
        if isinstance(error, TableError):
            raise
        reason = quote(error, 300)
        raise TableError(f"{path}: invalid NumPy file ({reason}).") from error
    matrices = [name for name, array in arrays.items() if array.ndim == 2]
    matrix = "X" if "X" in matrices else matrices[0] if len(matrices) == 1 else None
    if matrix is None:
        raise TableError(
            f"{path}: {len(matrices)} of the arrays ({', '.join(map(quote, arrays)) or 'none'}) "
            "are two-dimensional. Give the data matrix the name X."
        )
    X = arrays[matrix]
    names = next((_to_texts(arrays[n]) for n in ("feature_names", "names") if n in arrays), None)
    # Annotations are arrays in the file, or columns of the matrix (found by `_make_table`).
    ids = None
    annotations = {
        role: _to_texts(arrays[name])
        for role, name in options.annotations.items()
        if name in arrays and name != matrix
    }
    if annotations:
        options = options.without_annotations(*annotations)
    if options.row_names is None:
        ids = _to_texts(arrays["ids"]) if "ids" in arrays else None
    elif options.row_names in arrays and options.row_names != matrix:
        ids = _to_texts(arrays[options.row_names])
        options = options._replace(row_names=None)
    return _make_table(path, options, X, names, ids, annotations)


def _to_texts(array: np.ndarray) -> list[Any]:
    """Convert an array of names to texts; decode bytes as UTF-8."""
    flat = array.ravel()
    return (
        [str(entry, "utf-8") for entry in flat] if flat.dtype.kind == "S" else list(flat.tolist())
    )


def _check_archive(path: Path) -> None:
    """Raise an error for members that are not numeric, or far too large."""
    with zipfile.ZipFile(path) as archive:
        members = archive.infolist()
        unpacked = sum(member.file_size for member in members)
        if unpacked > max(MAX_UNPACKED, MAX_EXPANSION * path.stat().st_size):
            refuse_expansion(path)
        for member in members:
            with archive.open(member) as file:
                read_header(
                    file, member.file_size, PLAIN_TYPES + "S"
                )  # SciPy stores the format as bytes


def read_mtx(path: Path, options: ReadOptions) -> Table:
    """Read a Matrix Market file."""
    read_in_child(path, "matrix", "Matrix Market file", "SciPy", "save it as NPZ")
    with open_binary(path) as file:
        X = io.mmread(file, spmatrix=False)
    n, p, *_, symmetry = io.mminfo(path)
    repeats = sparse.issparse(X) and X.tocsr().nnz < X.nnz  # CSR sums repeated entries
    if symmetry != "general" and (n != p or repeats):
        raise TableError(
            f"{path}: the matrix is declared {symmetry}, but is not square or has entries on both "
            "sides of the diagonal."
        )
    return _make_table(path, options, X)


def read_h5ad(path: Path, options: ReadOptions) -> Table:
    """Read ``X`` of an AnnData file; annotations are columns of ``obs``."""
    try:
        import anndata
    except ImportError as error:
        raise TableError(
            f"{path}: reading H5AD requires anndata, which is not installed: "
            "pip install 'prosparse[anndata]'"
        ) from error
    read_in_child(
        path,
        "hdf5",
        "H5AD file",
        "the HDF5 library",
        "copy it to a local disk, or read it with anndata and use prosparse.anndata",
    )
    try:
        with warnings.catch_warnings():
            warnings.filterwarnings(
                "ignore", message=".*names are not unique"
            )  # a note is added below
            data = anndata.read_h5ad(path)
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise TableError(f"{path}: invalid H5AD file ({quote(error, 300)}).") from error
    if options.transpose:  # annotations are then names of variables
        options = split_named_rows(data.var_names, options)[0]
    for name in (*options.annotations.values(), options.row_names):
        if name is not None and name not in data.obs.columns:
            raise_unknown_column(path, name, list(data.obs.columns))
    annotations = {role: data.obs[name].tolist() for role, name in options.annotations.items()}
    ids = data.obs_names if options.row_names is None else data.obs[options.row_names]
    options = options.without_annotations()._replace(row_names=None)
    return _make_table(path, options, data.X, data.var_names, ids, annotations)


def _refuse_large(path: Path, X: Any, names: list[str], variables: list[int]) -> None:
    """Raise an error for integers that would be rounded."""
    values = X.data if sparse.issparse(X) else X
    if not values.size or max(int(values.max()), -int(values.min())) <= MAX_EXACT_INTEGER:
        return
    table = X.tocsr()[:, variables].tocoo() if sparse.issparse(X) else X[:, variables]
    entries = table.data if sparse.issparse(X) else table
    large = np.argwhere((entries > MAX_EXACT_INTEGER) | (entries < -MAX_EXACT_INTEGER))
    if large.size:
        first = int(large[0][0])
        row, j = (int(table.row[first]), int(table.col[first])) if sparse.issparse(X) else large[0]
        k = variables[j]
        value = int(entries[tuple(large[0])])
        refuse_inexact(f"{path}, row {row + 1}", name_column(names, k), value)


def _refuse_empty(path: Path, n: int, p: int, n_entries: int) -> None:
    """Raise an error if nearly all rows or columns are empty."""
    limit = MAX_EMPTY + 10 * n_entries
    if n > limit or p > limit:
        raise TableError(
            f"{path}: the table has {plural(n, 'row')} and {plural(p, 'column')} but only "
            f"{plural(n_entries, 'stored value')}. Remove empty rows and columns."
        )


def _to_float(X: Any) -> Any:
    """Convert to floats; sum repeated entries of a sparse matrix."""
    if not sparse.issparse(X):
        return np.asarray(X, dtype=float)
    X = sparse.csr_array(X, dtype=float)
    X.sum_duplicates()  # log(1 + x) of a sum is not the sum of the logarithms
    return X


def _make_table(
    path: Path,
    options: ReadOptions,
    X: Any,
    names: Any = None,
    ids: Any = None,
    annotations: Mapping[str, list[Any]] | None = None,
) -> Table:
    """Build a table from a matrix; unnamed columns become x0, x1, ..."""
    if X is None or X.ndim != 2:
        raise TableError(f"{path}: the data matrix must have two dimensions.")
    if X.dtype.kind not in "biuf":
        raise TableError(f"{path}: the type {X.dtype} is not supported; real numbers are needed.")
    n, p = X.shape
    if sparse.issparse(X):
        _refuse_empty(path, n, p, X.nnz)
        if hasattr(X, "check_format"):  # invalid positions would corrupt the memory
            X.check_format(full_check=True)
    texts = [str(name) for name in names] if names is not None else [f"x{k}" for k in range(p)]
    texts, notes = make_unique(texts)
    options, _ = split_named_rows(texts, options)
    if len(texts) != p:
        raise TableError(
            f"{path}: the file has {plural(len(texts), 'name')} for {plural(p, 'column')}."
        )
    known: Mapping[str, Any] = annotations or {}
    for role, values in (("ids", ids), *known.items()):
        if values is not None and len(values) != n:
            raise TableError(f"{path}: the file has {len(values)} {role} for {plural(n, 'row')}.")
    original = X
    X = _to_float(X)

    def get_column(k: int) -> list[float]:
        column = X[:, [k]]
        return list((column.toarray() if sparse.issparse(column) else column).ravel().tolist())

    identifiers = [
        k for k in identifier_candidates(texts) if describe_identifier(texts[k], get_column(k))
    ]
    roles = assign_roles(path, texts, options, (), identifiers)
    known = {**known, **{role: get_column(k) for role, k in roles.annotations.items()}}
    if roles.ids and (ids is None or options.row_names is not None):
        ids = [f"{value:.17g}" for value in get_column(roles.ids[0])]
    if original.dtype.kind in "iu":
        _refuse_large(path, original, texts, roles.variables)
    if sparse.issparse(X):
        notes.append("the table is sparse and remains sparse")
    if ids is not None and len(set(ids)) < n:
        notes.append("the row names are not unique")
    values = {k: get_column(k) for k in roles.identifiers}
    notes += [
        *check_identifiers(texts, roles, values, options)[0],
        *note_identifier_names(texts, roles, options),
    ]
    if len(roles.variables) < p:
        X = X[:, roles.variables]
    return Table(
        path,
        X,
        [texts[k] for k in roles.variables],
        None if ids is None else [str(name) for name in ids],
        notes=notes,
        identifiers=tuple(texts[k] for k in roles.identifiers),
    ).with_annotations(known)
