"""Conversion of a validated data matrix to its operator."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..errors import InputError
from .arrays import Array, TableLike, from_numpy, to_numpy
from .columns import Columns, RawRows, restandardise_rows, standardise_rows
from .containers import Table, container_of
from .operators.base import Operator
from .operators.weighted import WeightedRawRows
from .row_adjustment import RowAdjustment

# Proportion of the variance of a column that must remain after the adjustment.
_MIN_RESIDUAL_VARIANCE = 1e-9


class AdjustedColumns(NamedTuple):
    """Columns that vary after an adjustment of the rows."""

    op: Operator  # columns before the adjustment
    residuals: Operator  # residuals of unit variance
    columns: Columns  # `scale` contains the standard deviations of the residuals
    # Proportion of the variance within groups explained by the covariates, including dropped
    # columns.
    r2: np.ndarray
    kept: np.ndarray  # positions of the columns among those that varied before


def standardise(
    X: Table, scale: bool = False, weights: np.ndarray | None = None, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Centre and optionally scale a data matrix; drop constant columns.

    Row i counts as ``weights[i]`` observations. Without ``centre``, columns are scaled by their
    root mean square and only columns of zeros are constant. The returned `Columns` convert results
    back to the units of ``X``.
    """
    return standardise_rows(_raw_rows(X, weights), scale, centre=centre)


def restandardise(
    X: Table, columns: Columns, weights: np.ndarray, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Standardise a data matrix with new row weights and the same scales."""
    return restandardise_rows(_raw_rows(X, weights), columns, centre=centre)


def adjust_columns(op: Operator, columns: Columns, adjustment: RowAdjustment) -> AdjustedColumns:
    """Replace columns by residuals of unit variance.

    Columns determined by groups and covariates are dropped, like constant columns.
    """
    if adjustment.is_intercept:
        every = np.arange(op.shape[1])
        return AdjustedColumns(op, op, columns, np.zeros(op.shape[1]), every)
    n, before = op.shape[0], to_numpy(op.column_squares()).astype(float)
    within, residuals = adjustment.squares_within_groups(op), adjustment.adjust_operator(op)
    after = to_numpy(residuals.column_squares()).astype(float)
    kept = np.flatnonzero(after > _MIN_RESIDUAL_VARIANCE * before)
    if kept.size < 2:
        raise InputError(
            f"{kept.size} of the {before.size} varying columns of X still vary after adjustment "
            "for groups and covariates; at least 2 are required. Check `groups` and `covariates`."
        )
    like = op.column_squares()
    if kept.size < before.size:
        index = from_numpy(kept, like)
        op, residuals = op.take_columns(index), residuals.take_columns(index)
    deviation = np.sqrt(after[kept] / n)
    residuals = residuals.scale_columns(from_numpy(1.0 / deviation, like, op.dtype))
    residuals.remember_column_squares(from_numpy(np.full(kept.size, float(n)), like))
    positions = columns.varying_index[kept]
    varying = np.zeros(columns.mean.shape[0], dtype=bool)
    varying[positions] = True
    scale = to_numpy(columns.scale).astype(float).copy()
    scale[positions] *= deviation
    r2 = np.clip(1.0 - after / np.maximum(within, _MIN_RESIDUAL_VARIANCE * before), 0.0, 1.0)
    adjusted = columns._replace(scale=columns.numbers(scale), varying=columns.values(varying))
    return AdjustedColumns(op, residuals, adjusted, r2, kept)


def operator_of(X: Table, mean: Array, scale: Array) -> Operator:
    """Return the operator of new rows with known means and scales."""
    return container_of(X).operator(X, mean, scale)


def take_columns(X: TableLike, columns: np.ndarray) -> TableLike:
    """Select columns by position; the result has the container type of ``X``."""
    return container_of(X).take_columns(X, columns)


def _raw_rows(X: Table, weights: np.ndarray | None) -> RawRows:
    """Return the raw rows to standardise, without rows of weight zero."""
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
