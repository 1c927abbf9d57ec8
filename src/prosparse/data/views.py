"""Concatenation of data matrices by columns or by rows."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from array_api_compat import array_namespace, device
from scipy import sparse

from ..errors import InputError
from .arrays import TableLike
from .containers import ArrayAPIArray, Container, DaskArray, container_of


def stack_columns(views: list[TableLike]) -> tuple[TableLike, list[slice]]:
    """Concatenate the columns of several views; also return their slices."""
    containers = [container_of(view) for view in views]
    views = [_prepare_view(number, view) for number, view in enumerate(views)]
    for number, view in enumerate(views):
        if len(view.shape) != 2:
            raise InputError(f"View {number} must be two-dimensional, got shape {view.shape}.")
    n_rows = [view.shape[0] for view in views]
    if len(set(n_rows)) > 1:
        raise InputError(
            f"All views must have the same samples as rows, got {n_rows} rows. If a sample is "
            "missing in a view, insert a row of NaN there."
        )
    edges = np.cumsum([0, *(view.shape[1] for view in views)])
    slices = [slice(a, b) for a, b in pairwise(edges.tolist())]
    if all(container.is_sparse for container in containers):
        return sparse.hstack(views, format="csr"), slices
    if any(isinstance(container, ArrayAPIArray | DaskArray) for container in containers):
        _check_same_library(views, containers)
        like = next(v for v, c in zip(views, containers, strict=True) if c.stays_in_place)
        return array_namespace(like).concat(views, axis=1), slices
    return np.hstack([v.toarray() if sparse.issparse(v) else v for v in views]), slices


def _prepare_view(number: int, view: TableLike) -> TableLike:
    container = container_of(view)
    try:
        view = container.prepare(view, allow_nan=True)
    except InputError as error:
        raise InputError(f"View {number}: {error}") from error
    return view if container.stays_in_place or container.is_sparse else np.asarray(view)


def _check_same_library(views: list[TableLike], containers: list[Container]) -> None:
    """Check that arrays of Torch, CuPy or JAX share one library and one device."""
    first = next((k for k, c in enumerate(containers) if isinstance(c, ArrayAPIArray)), None)
    if first is None:
        return
    library = array_namespace(views[first])
    for number, view in enumerate(views):
        same = isinstance(containers[number], ArrayAPIArray) and array_namespace(view) is library
        if not (same and device(view) == device(views[first])):
            raise InputError(
                "All views must be arrays of one library on one device. View "
                f"{first} is a {_full_name(views[first])} and view {number} a {_full_name(view)}. "
                "Convert them first."
            )


def _full_name(X: TableLike) -> str:
    return f"{type(X).__module__}.{type(X).__name__}"


def stack_rows(tables: list[TableLike]) -> tuple[TableLike, np.ndarray]:
    """Stack the rows of several tables; also return the table of each row.

    Tables with column names are reduced to their common columns, in the order of the first table.
    Tables without names must have the same number of columns.
    """
    containers = [container_of(table) for table in tables]
    names = [c.column_names(table) for c, table in zip(containers, tables, strict=True)]
    if all(known is not None for known in names):
        common = [name for name in names[0] or () if all(name in (known or ()) for known in names)]
        tables = [
            c.take_columns(table, np.array([list(known or ()).index(name) for name in common]))
            for c, table, known in zip(containers, tables, names, strict=True)
        ]
        if not common:
            raise InputError("The tables have no column name in common.")
    widths = [table.shape[1] for table in tables]
    if len(set(widths)) > 1:
        raise InputError(
            f"Tables without column names must have the same columns, got {widths} columns. Use "
            "data frames with column names, or take the columns that all tables have."
        )
    codes = np.repeat(np.arange(len(tables)), [table.shape[0] for table in tables])
    first, container = tables[0], containers[0]
    if all(container.is_sparse for container in containers):
        return sparse.vstack(tables, format="csr"), codes
    if container.stays_in_place:
        return array_namespace(first).concat(tables, axis=0), codes
    values = np.concatenate([c.to_dense(t) for c, t in zip(containers, tables, strict=True)])
    return container.replace_values(container.take_rows(first, 0 * codes), values), codes
