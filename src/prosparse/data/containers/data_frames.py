"""DataFrames of pandas and polars, and tables of pyarrow."""

from __future__ import annotations

from collections.abc import Sized
from typing import Any

import numpy as np

from ...errors import InputError
from ..arrays import TableLike
from ..categories import Labels
from .base import Container, Table
from .checks import NUMERIC_KINDS, TIME_KINDS, check_numeric, check_unique_names, read_labels


class PandasFrame(Container):
    """pandas DataFrames, and objects with ``iloc`` and ``columns``."""

    name = "pandas DataFrame"

    def recognises(self, X: TableLike) -> bool:
        return hasattr(X, "iloc") and hasattr(X, "columns")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.columns)

    def categories(self, X: TableLike) -> dict[int, Labels]:
        found = {}
        for k, dtype in enumerate(X.dtypes):
            is_category = isinstance(getattr(dtype, "categories", None), Sized)
            if is_category or dtype.kind not in NUMERIC_KINDS + TIME_KINDS:
                order = list(dtype.categories) if getattr(dtype, "ordered", False) else None
                entries = X.iloc[:, k].to_numpy(dtype=object)
                found[k] = read_labels(entries, is_category=is_category, order=order)
        return {k: labels for k, labels in found.items() if labels is not None}

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        check_unique_names(list(X.columns))
        others = [name for name, dtype in X.dtypes.items() if dtype.kind not in NUMERIC_KINDS]
        check_numeric({name: X[name].dropna().to_numpy() for name in others})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.iloc[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.iloc[rows]

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X)(values, index=X.index, columns=X.columns)

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        if all(isinstance(column_dtype, np.dtype) for column_dtype in X.dtypes):
            return np.array(X, dtype=dtype)
        # NumPy cannot convert pandas' NA, the missing value of nullable dtypes.
        return np.array(X.to_numpy(dtype=float, na_value=np.nan))


class PolarsFrame(Container):
    """polars DataFrames."""

    name = "polars DataFrame"

    def recognises(self, X: TableLike) -> bool:
        return hasattr(X, "collect_schema")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.columns)

    def categories(self, X: TableLike) -> dict[int, Labels]:
        if not hasattr(X, "to_numpy"):  # a LazyFrame
            return {}
        found = {}
        for k, (name, dtype) in enumerate(X.schema.items()):
            if str(dtype).startswith(("String", "Categorical", "Enum")):
                # Enum columns have ordered levels.
                order = dtype.categories.to_list() if str(dtype).startswith("Enum") else None
                entries = np.array(X[name].to_list(), dtype=object)
                is_category = not str(dtype).startswith("String")
                found[k] = read_labels(entries, is_category=is_category, order=order)
        return {k: labels for k, labels in found.items() if labels is not None}

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        if not hasattr(X, "to_numpy"):
            raise InputError("X is a polars LazyFrame. Call `X.collect()` first.")
        others = [name for name, dtype in X.schema.items() if not dtype.is_numeric()]
        check_numeric({name: X[name].drop_nulls().to_numpy() for name in others})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.select([X.columns[column] for column in columns])

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X[rows]

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X)(values, schema=X.columns)


class ArrowTable(Container):
    """Tables and record batches of pyarrow."""

    name = "pyarrow table"

    def recognises(self, X: TableLike) -> bool:
        return type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "column_names")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.column_names)

    def categories(self, X: TableLike) -> dict[int, Labels]:
        found = {}
        for k, field in enumerate(X.schema):
            is_category = str(field.type).startswith("dictionary")
            if is_category or str(field.type) in ("string", "large_string", "string_view"):
                entries = np.array(X.column(k).to_pylist(), dtype=object)
                found[k] = read_labels(entries, is_category=is_category)
        return {k: labels for k, labels in found.items() if labels is not None}

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        check_unique_names(X.column_names)
        columns = {name: X.column(name).to_numpy(zero_copy_only=False) for name in X.column_names}
        others = {name: v for name, v in columns.items() if v.dtype.kind not in NUMERIC_KINDS}
        check_numeric({name: v[[entry is not None for entry in v]] for name, v in others.items()})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.select(columns.tolist())

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.take(rows)

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X).from_pydict(dict(zip(X.column_names, values.T, strict=True)))
