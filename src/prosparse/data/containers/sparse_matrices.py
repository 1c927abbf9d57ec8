"""SciPy's sparse matrices and arrays."""

from __future__ import annotations

from typing import Any

import numpy as np
from scipy import sparse

from ..arrays import Array, TableLike
from ..columns import RawRows
from ..operators import sparse as sparse_operator
from ..operators.base import Operator
from .base import Container, NonFinite, Table, summarise_non_finite


class SparseMatrix(Container):
    """Sparse matrices and arrays of any format, validated as CSR arrays."""

    name = "sparse matrix"
    is_sparse = True

    def recognises(self, X: TableLike) -> bool:
        return bool(sparse.issparse(X))

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        # The matrix of the caller is not sorted or summed in place.
        return sparse_operator.canonical(X) if X.format == "csr" else X

    def find_non_finite(self, X: Table, *, allow_nan: bool = False) -> NonFinite | None:
        invalid = np.isinf(X.data) if allow_nan else ~np.isfinite(X.data)
        if not invalid.any():
            return None
        entries = X.tocoo()
        return summarise_non_finite(entries.row[invalid], entries.col[invalid], X.data[invalid])

    def has_missing(self, X: Table) -> bool:
        return bool(np.isnan(X.data).any())

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.tocsr()[:, columns].asformat(X.format)

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.tocsr()[rows].asformat(X.format)

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        return np.asarray(X.toarray(), dtype=dtype)

    def raw_rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        return sparse_operator.SparseRows(X, weights)

    def operator(self, X: Table, mean: Array, scale: Array) -> Operator:
        return sparse_operator.new_rows(X, mean, scale)
