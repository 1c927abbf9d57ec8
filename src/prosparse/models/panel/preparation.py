"""Conversion of the data matrix of `fit` to complete, standardised columns."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import Columns, Operator, container_of, standardise
from ...data.arrays import TableLike, from_numpy, to_numpy
from ...data.counts import hellinger, row_totals
from ...data.row_groups import RowGroups
from ...errors import InputError, ParameterError
from .._base import check_varying
from .missing_values import complete_rows, observed_means
from .parameters import ColumnNames

MIN_ROWS = 6  # minimum number of rows for cross-validation
# Deviations from group means below this multiple of the machine precision are rounding errors.
_ROUNDING = 1e3


class Prepared(NamedTuple):
    """Data of a fit."""

    op: Operator  # varying columns, centred (within groups) and scaled
    columns: Columns
    scale: np.ndarray  # (k,) standard deviations of the varying columns in their original units
    means: np.ndarray  # (p,) of the columns in their original units
    depth: float  # median row total of counts; 0 for other data


def is_list_of_tables(X: TableLike) -> bool:
    """Return whether ``X`` is a list of data matrices rather than of rows."""
    is_list = isinstance(X, list | tuple) and len(X) > 0
    return is_list and all(len(getattr(table, "shape", ())) == 2 for table in X)


def check_rows(X: TableLike) -> None:
    """Raise an error if cross-validation is impossible."""
    if X.shape[0] < MIN_ROWS:
        raise InputError(
            f"X has too few rows for cross-validation (n_samples={X.shape[0]}); at least "
            f"{MIN_ROWS} are required."
        )


def prepare(
    X: TableLike, rows: RowGroups | None, counts: bool, seed: int, names: ColumnNames
) -> Prepared:
    """Complete, transform and standardise a validated data matrix.

    Columns are centred within groups. Counts are transformed to square roots of proportions, which
    are not scaled. ``seed`` determines the draws of missing values.
    """
    X = _complete(X, rows, counts, seed, names)
    means, depth = container_of(X).raw_rows(X).extent().sums / X.shape[0], 0.0
    if counts:
        depth = float(np.median(row_totals(X)))
        X = hellinger(X, depth)
    op, columns = standardise(X, not counts)
    check_varying(op, columns)
    if rows is not None:
        op, columns = centre_within_groups(op, columns, rows)
    if counts:
        scale = np.sqrt(to_numpy(op.column_squares()).astype(float))
    else:
        scale = to_numpy(columns.scale)[columns.varying_index].astype(float)
    return Prepared(op, columns, scale, means, depth)


def _complete(
    X: TableLike, rows: RowGroups | None, counts: bool, seed: int, names: ColumnNames
) -> TableLike:
    """Replace missing values, if any, by draws."""
    container = container_of(X)
    if counts or container.is_sparse or not container.in_memory:
        # Missing counts, and missing values of sparse or distributed data, are not supported.
        return container.require_finite(X)
    if not container.has_missing(X):
        return X
    values = to_numpy(X).astype(float)
    empty = np.flatnonzero(np.isnan(values).all(axis=0))
    if empty.size:
        raise InputError(
            f"X has no observed value in column {names.label(empty[0])}. Drop this column."
        )
    means = observed_means(values, rows)
    return from_numpy(complete_rows(values - means, seed) + means, X, X.dtype)


def centre_within_groups(
    op: Operator, columns: Columns, rows: RowGroups
) -> tuple[Operator, Columns]:
    """Centre the columns within groups and drop constant columns.

    A column is constant if it does not vary within any group.
    """
    n, n_groups = op.shape[0], rows.sizes.size
    if n - n_groups < MIN_ROWS - 1:
        raise ParameterError(
            f"`groups` has {n_groups} labels for {n} rows. Columns are centred within groups: at "
            f"least {MIN_ROWS - 1} more rows than groups are required."
        )
    within = rows.centre_operator(op)
    before, after = (to_numpy(part.column_squares()).astype(float) for part in (op, within))
    is_varying = after > (_ROUNDING * op.epsilon) ** 2 * before
    if is_varying.sum() < 2:
        raise InputError(
            f"{int(is_varying.sum())} of the {is_varying.size} varying columns of X vary within "
            "groups; at least 2 are required. Check `groups`."
        )
    if is_varying.all():
        return within, columns
    varying = np.zeros(columns.mean.shape[0], dtype=bool)
    varying[columns.varying_index[is_varying]] = True
    subset = within.take_columns(from_numpy(np.flatnonzero(is_varying), within.column_squares()))
    return subset, columns._replace(varying=columns.values(varying))
