"""Conversion of the columns of a data matrix to numbers and texts."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from ..data.arrays import TableLike, to_numpy
from ..data.containers import container_of
from .numbers import MAX_ENTRIES, Numbers


class Columns(NamedTuple):
    """Columns of a table by type."""

    numbers: Numbers
    texts: dict[str, list[str]]
    n_columns: int  # number of all columns, of which only a sample is checked if there are many


def split_columns(X: TableLike) -> Columns:
    """Split the columns of a data matrix into numbers and texts."""
    container = container_of(X)
    names = container.column_names(X)
    if names is None:
        return _of_array(X)
    numeric, values, texts = list[str](), list[np.ndarray](), dict[str, list[str]]()
    rows = _row_names(X)
    for k, name in enumerate(map(str, names)):
        column = _column(X, k)
        numbers = _as_numbers(column)
        if numbers is None:
            texts[name] = ["" if _is_missing(cell) else str(cell).strip() for cell in column]
        else:
            numeric.append(name)
            values.append(numbers)
    n = len(values[0]) if values else len(next(iter(texts.values()), ()))
    matrix = np.column_stack(values) if values else np.empty((n, 0))
    rows = [str(k) for k in range(n)] if rows is None else rows
    return Columns(Numbers(matrix, numeric, rows), texts, len(names))


def _of_array(X: Any) -> Columns:
    array = X if hasattr(X, "shape") else np.asarray(X)
    if len(array.shape) != 2:
        raise ValueError(f"`X` must have two dimensions, got shape {tuple(array.shape)}.")
    n, p = map(int, array.shape)
    container = container_of(array)
    columns = np.arange(p)
    if n * p > MAX_ENTRIES:
        columns = np.unique(np.linspace(0, p - 1, max(2, MAX_ENTRIES // n)).astype(int))
        array = container.take_columns(array, columns)
    if isinstance(array, np.ndarray) and array.dtype.kind in "OSU":
        return split_columns(_as_frame(array))
    dense = np.asarray(to_numpy(container_of(array).to_dense(array)), dtype=float)
    names = [f"x{k}" for k in columns]
    return Columns(Numbers(dense, names, [str(k) for k in range(n)]), {}, p)


def _as_frame(array: np.ndarray) -> Any:
    import pandas as pd

    return pd.DataFrame(array, columns=[f"x{k}" for k in range(array.shape[1])])


def _row_names(X: Any) -> list[str] | None:
    index = getattr(X, "index", None)
    return None if index is None or callable(index) else [str(name) for name in index]


def _column(X: Any, k: int) -> Any:
    if hasattr(X, "iloc"):
        return X.iloc[:, k]
    column = X[X.columns[k]] if hasattr(X, "collect_schema") else X.column(k)
    return column.to_pylist() if hasattr(column, "to_pylist") else column.to_list()


def _as_numbers(column: Any) -> np.ndarray | None:
    """Convert a numeric column to floats; return None for other columns."""
    if str(getattr(column, "dtype", "")) == "category":
        return None
    if hasattr(column, "to_numpy") and getattr(column.dtype, "kind", "O") in "biuf":
        return np.asarray(column.to_numpy(dtype=float, na_value=np.nan))
    cells: Sequence[Any] = list(column)
    try:
        return np.array(
            [np.nan if _is_missing(cell) else _number(cell) for cell in cells], dtype=float
        )
    except (TypeError, ValueError):
        return None


def _number(cell: Any) -> float:
    if isinstance(cell, str):
        raise TypeError
    return float(cell)


def _is_missing(cell: Any) -> bool:
    if cell is None or str(cell) in ("<NA>", "NaT"):
        return True
    return isinstance(cell, float) and bool(np.isnan(cell))
