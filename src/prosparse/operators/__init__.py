"""From a table to an operator. A new kind of data is one more file here and one line below."""

from __future__ import annotations

from typing import Any

from array_api_compat import array_namespace
from scipy.sparse import issparse

from .base import Operator
from .dense import DenseOperator, standardise_dense, working_type
from .sparse import SparseOperator, standardise_sparse
from .standardise import Columns
from .weighted import standardise_weighted

__all__ = [
    "Columns",
    "DenseOperator",
    "Operator",
    "SparseOperator",
    "operator_of",
    "standardise",
    "standardise_weighted",
]


def standardise(X: Any, scale: bool = False) -> tuple[Operator, Columns]:
    """The centred (and, if asked, scaled) operator of a validated table, without its
    constant columns, and the record that leads back to the table's own units."""
    if issparse(X):
        return standardise_sparse(X, scale)
    return standardise_dense(X, scale)


def operator_of(X: Any, mean: Any, scale: Any) -> Operator:
    """The operator of new rows of a table whose means and scales are known."""
    if issparse(X):
        return SparseOperator(X, mean, 1.0 / scale)
    xp = array_namespace(X)
    return DenseOperator((xp.astype(X, working_type(X)) - mean) / scale)
