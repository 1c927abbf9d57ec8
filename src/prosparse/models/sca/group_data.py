"""Data of several groups of rows, centred within groups."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import DenseOperator, Operator, container_of, standardise, take_columns
from ...data.arrays import to_numpy
from ...data.columns import unit_of
from ...data.containers import Table
from ...data.missing_values import dense_with_missing, standardise_observed
from ...data.row_groups import RowGroups
from ...errors import InputError, ParameterError
from ...selection.dimension import impute_by_pca
from .conditional import centred_operator
from .grouped import GroupSamples
from .missing_e_step import IncompleteSamples
from .samples import CompleteSamples, reduce_rows


class GroupedData(NamedTuple):
    """Data of all groups, where raw entries are mean + size * entry."""

    members: list[GroupSamples]
    start: Operator  # (n, p) rows centred within groups, missing values imputed
    has_missing: bool
    kept: np.ndarray  # (p,) columns that vary within a group
    size: np.ndarray  # (p,)
    mean: np.ndarray  # (G, p) observed means; mean of the other groups without observations

    @property
    def varying_in_group(self) -> np.ndarray:
        """Mask (G, p) of the columns that vary within each group."""
        varying_in_group = np.zeros(self.mean.shape, dtype=bool)
        for row, member in zip(varying_in_group, self.members, strict=True):
            row[member.columns] = True
        return varying_in_group


class _GroupStatistics(NamedTuple):
    """Statistics of the columns within one group."""

    rows: Table  # rows of the group
    varying: np.ndarray  # (width,)
    mean: np.ndarray  # (width,) NaN without observed entries
    squares: np.ndarray  # (width,) sums of squared deviations
    observed: np.ndarray  # (width,) observed entries of varying columns


def check_groups(rows: RowGroups, X: Table) -> None:
    """Raise an error for groups of a single row and for data outside memory."""
    if not container_of(X).in_memory:
        raise InputError(
            f"`groups` requires data in memory, got {type(X).__name__}. Load (part of) the rows "
            "into memory, or fit without `groups`."
        )
    single = np.flatnonzero(rows.sizes < 2)
    if single.size:
        first = rows.labels.tolist()[single[0]]
        count = "1 group" if single.size == 1 else f"{single.size} groups"
        raise ParameterError(
            f"`groups` must have at least 2 rows per group, got {count} with a single row, such "
            f"as {first!r}. Drop these rows, or merge groups."
        )


def group_data(X: Table, rows: RowGroups, scale: bool, count: int | None) -> GroupedData:
    """Centre each group by its means, and impute missing values.

    With ``scale``, columns are divided by their standard deviations within groups. ``count`` is the
    number of components of the imputation; with None, those that exceed noise are used.
    """
    check_groups(rows, X)
    missing = container_of(X).has_missing(X)
    X = dense_with_missing(X) if missing else X
    codes = rows.codes
    statistics = [
        _group_statistics(container_of(X).take_rows(X, np.flatnonzero(codes == g)), missing)
        for g in range(rows.sizes.size)
    ]
    varying = np.stack([group.varying for group in statistics])
    _check_variation(varying, rows, X.shape[1])
    kept = np.flatnonzero(varying.any(axis=0))
    squares = np.sum([group.squares for group in statistics], axis=0)[kept]
    deviation = np.sqrt(squares / np.sum([group.observed for group in statistics], axis=0)[kept])
    size = deviation if scale else np.full(kept.size, unit_of(float(deviation.max())))
    mean = _impute_means(np.stack([group.mean for group in statistics])[:, kept], rows.sizes)
    members = []
    for g, group in enumerate(statistics):
        positions = np.flatnonzero(varying[g, kept])
        group_rows = take_columns(group.rows, kept[positions])
        members.append(_group_samples(group_rows, mean[g, positions], size[positions], positions))
    if missing:
        Z = (X[:, kept] - mean[codes]) / size
        seen = ~np.isnan(Z)
        Z = impute_by_pca(np.where(seen, Z, 0.0), seen, count)
        start: Operator = DenseOperator(Z)
    else:
        start = centred_operator(take_columns(X, kept), np.mean(mean, axis=0), size)
    return GroupedData(members, rows.centre_operator(start), missing, kept, size, mean)


def _group_statistics(group_rows: Table, missing: bool) -> _GroupStatistics:
    """Compute means and squared deviations of the columns within a group."""
    n, width = group_rows.shape
    observed_columns = np.arange(width)
    if missing:
        observed_columns = np.flatnonzero(~np.isnan(group_rows).all(axis=0))
        op, columns, seen = standardise_observed(group_rows[:, observed_columns])
        observed = seen.sum(axis=0).astype(float)
    else:
        op, columns = standardise(group_rows)
        observed = np.full(columns.varying_index.size, float(n))
    positions = observed_columns[columns.varying_index]
    group = _GroupStatistics(
        group_rows,
        np.zeros(width, dtype=bool),
        np.full(width, np.nan),
        np.zeros(width),
        np.zeros(width),
    )
    group.varying[positions] = True
    group.mean[observed_columns] = to_numpy(columns.mean).astype(float)
    group.squares[positions] = columns.variance(to_numpy(op.column_squares()).astype(float))
    group.observed[positions] = observed
    return group


def _check_variation(varying: np.ndarray, rows: RowGroups, width: int) -> None:
    """Raise an error if too few columns vary within groups."""
    constant = np.flatnonzero(~varying.any(axis=1))
    if constant.size:
        first = rows.labels.tolist()[constant[0]]
        raise InputError(
            f"X has no column that varies within group {first!r}. Drop the rows of this group, or "
            "merge it with another group."
        )
    n_varying = int(varying.any(axis=0).sum())
    if n_varying < 2:
        raise InputError(
            f"X must have at least 2 columns that vary within groups, got {n_varying} of {width}. "
            "Check `groups`."
        )


def _impute_means(mean: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Replace means of groups without observations by the other groups' mean."""
    is_observed = ~np.isnan(mean)
    weights = is_observed * sizes[:, None]
    pooled = np.sum(np.where(is_observed, mean, 0.0) * weights, axis=0) / weights.sum(axis=0)
    return np.where(is_observed, mean, pooled)


def _group_samples(
    group_rows: Table, mean: np.ndarray, size: np.ndarray, positions: np.ndarray
) -> GroupSamples:
    """Build the samples of one group."""
    if container_of(group_rows).has_missing(group_rows):
        return GroupSamples(
            IncompleteSamples((group_rows - mean) / size, ~np.isnan(group_rows)), positions
        )
    op = reduce_rows(centred_operator(group_rows, mean, size))
    return GroupSamples(CompleteSamples(op, group_rows.shape[0]), positions)
