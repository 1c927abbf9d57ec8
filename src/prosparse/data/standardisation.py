"""From a validated data matrix of any container type to its operator."""

from __future__ import annotations

import numpy as np

from ..errors import InputError
from .arrays import Array, TableLike
from .columns import Columns, RawRows, restandardise_rows, standardise_rows
from .containers import Table, container_of
from .operators.base import Operator
from .operators.weighted import WeightedRawRows


def standardise(
    X: Table, scale: bool = False, weights: np.ndarray | None = None, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Centre, and optionally scale, a data matrix and drop its constant columns.

    Row i counts as ``weights[i]`` observations. Without ``centre``, columns are scaled by their
    root mean square and only columns of zeros are constant. The returned `Columns` convert results
    back to the units of ``X``.
    """
    return standardise_rows(_raw_rows(X, weights), scale, centre=centre)


def restandardise(
    X: Table, columns: Columns, weights: np.ndarray, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Standardise a matrix again with other row weights and the same scales."""
    return restandardise_rows(_raw_rows(X, weights), columns, centre=centre)


def operator_of(X: Table, mean: Array, scale: Array) -> Operator:
    """Return the operator of new rows whose means and scales are known."""
    return container_of(X).operator(X, mean, scale)


def take_columns(X: TableLike, columns: np.ndarray) -> TableLike:
    """Select columns by position; the result has the container type of ``X``."""
    return container_of(X).take_columns(X, columns)


def _raw_rows(X: Table, weights: np.ndarray | None) -> RawRows:
    """Return the rows to be measured; rows of weight zero are dropped."""
    container = container_of(X)
    if weights is None:
        return container.raw_rows(X)
    if container.stays_in_place:
        raise InputError(
            "`sample_weight` needs a matrix in CPU memory (NumPy, pandas, polars, SciPy sparse), "
            f"got {type(X).__module__}.{type(X).__name__}."
        )
    present = np.flatnonzero(weights > 0)
    weights = weights[present]
    return WeightedRawRows(container.raw_rows(X[present], weights), weights)
