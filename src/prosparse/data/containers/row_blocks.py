"""Matrices read in blocks of rows: Dask arrays and memory maps."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any

import numpy as np
from array_api_compat import is_dask_array
from scipy import sparse

from ...errors import InputError
from ..arrays import Array, TableLike
from ..columns import RawRows
from ..operators import blocks, dask, mapped
from ..operators.base import Operator
from .base import Container, NonFinite, Table
from .checks import check_dtype, check_no_times, check_shape


class RowBlocks(Container, ABC):
    """Matrices whose rows are read and checked in blocks."""

    stays_in_place = True
    in_memory = False

    @abstractmethod
    def source(self, X: Table) -> blocks.Source:
        """Return the raw rows in blocks."""

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        check_no_times(X)
        return X

    def find_non_finite(self, X: Table, *, allow_nan: bool = False) -> NonFinite | None:
        return None  # Entries are checked when they are read.

    def require_finite(self, X: Table) -> Table:
        for _, block in self.source(X).blocks():
            blocks.check_finite_block(block)
        return X

    def has_missing(self, X: Table) -> bool:
        return False  # Missing values raise an error when their row is read.

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X[rows]

    def map_blocks(self, X: Table, f: Callable[[Any], Any]) -> Table:
        raise InputError(
            f"X is a {self.name}, whose entries cannot be transformed in place. Load it into "
            "memory, convert it to a Dask array, or transform it yourself (with counts, fit with "
            "`counts=False`)."
        )

    def raw_rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        return blocks.BlockedRows(self.source(X))

    def operator(self, X: Table, mean: Array, scale: Array) -> Operator:
        return blocks.new_rows(self.source(X), mean, scale)


class DaskArray(RowBlocks):
    """Dask arrays with dense or sparse blocks."""

    name = "Dask array"

    def recognises(self, X: TableLike) -> bool:
        return bool(is_dask_array(X))

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        return dask.check_blocks(super().prepare(X, allow_nan=allow_nan))

    def validate(self, X: Table, min_size: int) -> Table:
        check_shape(X, min_size)
        check_dtype(X.dtype, "biufOSU")  # objects and strings may represent numbers
        return dask.to_float_rows(X)

    def source(self, X: Table) -> blocks.Source:
        return dask.DaskRows(X)

    def require_finite(self, X: Table) -> Table:
        return X.map_blocks(blocks.check_finite_block, dtype=X.dtype)

    def map_blocks(self, X: Table, f: Callable[[Any], Any]) -> Table:
        return X.map_blocks(blocks.to_double, dtype=np.float64).map_blocks(f, dtype=np.float64)

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        whole = X.compute()
        return np.array(whole.toarray() if sparse.issparse(whole) else whole, dtype=dtype)


class MemoryMap(RowBlocks):
    """Large memory maps, read and converted to floats block by block."""

    name = "memory map"

    def recognises(self, X: TableLike) -> bool:
        return mapped.is_large_map(X)

    def validate(self, X: Table, min_size: int) -> Table:
        check_shape(X, min_size)
        check_dtype(X.dtype, "biuf")
        return X

    def source(self, X: Table) -> blocks.Source:
        return mapped.MappedRows(X)
