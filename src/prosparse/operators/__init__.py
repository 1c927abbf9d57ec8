"""From a table to an operator. A new kind of data is one more file here and one line below."""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_dask_array
from scipy.sparse import issparse

from .base import Operator
from .blocks import BlockedOperator, Source, standardise_blocks
from .dask import DaskRows
from .dense import DenseOperator, standardise_dense, working_type
from .mapped import MappedRows, is_large_map
from .sparse import SparseOperator, standardise_sparse
from .standardise import LARGEST_SCALE, SMALLEST_SCALE, Columns, check_range, unit_of
from .weighted import standardise_weighted

__all__ = [
    "BlockedOperator",
    "Columns",
    "DenseOperator",
    "Operator",
    "SparseOperator",
    "operator_of",
    "rescale",
    "source_of",
    "standardise",
    "standardise_weighted",
]


def standardise(X: Any, scale: bool = False) -> tuple[Operator, Columns]:
    """The centred (and, if asked, scaled) operator of a validated table, without its
    constant columns, and the record that leads back to the table's own units."""
    if issparse(X):
        return standardise_sparse(X, scale)
    source = source_of(X)
    return standardise_dense(X, scale) if source is None else standardise_blocks(source, scale)


def rescale(X: Any, scale: bool = False) -> tuple[Operator, Columns]:
    """As `standardise`, about zero instead of the mean: for models without an intercept. Scaled
    columns have mean square one; columns of zeros are left out."""
    largest = abs(X).max(axis=0)
    largest = np.asarray(largest.toarray() if issparse(largest) else largest, dtype=float).ravel()
    varying = largest > 0
    kept = np.flatnonzero(varying)
    mean, one = np.zeros(largest.size), np.ones(largest.size)
    if not scale:
        unit = unit_of(float(largest.max(initial=0.0)))
        return operator_of(X[:, kept], mean[kept], unit * one[kept]), Columns(
            mean, one, unit, varying
        )
    check_range(largest[kept], SMALLEST_SCALE, LARGEST_SCALE)
    op = operator_of(X[:, kept], mean[kept], largest[kept])
    deviation = one.copy()
    deviation[kept] = largest[kept] * np.sqrt(op.column_squares() / op.shape[0])
    return operator_of(X[:, kept], mean[kept], deviation[kept]), Columns(
        mean, deviation, 1.0, varying
    )


def operator_of(X: Any, mean: Any, scale: Any) -> Operator:
    """The operator of new rows of a table whose means and scales are known."""
    if issparse(X):
        return SparseOperator(X, mean, 1.0 / scale)
    source = source_of(X)
    if source is not None:
        return BlockedOperator(source, None, mean, 1.0 / scale)
    xp = array_namespace(X)
    return DenseOperator((xp.astype(X, working_type(X)) - mean) / scale)


def source_of(X: Any) -> Source | None:
    """Where the rows are, if they are not in memory."""
    if is_dask_array(X):
        return DaskRows(X)
    return MappedRows(X) if is_large_map(X) else None
