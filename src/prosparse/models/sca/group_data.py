"""From a table and the groups of its rows to what the model of groups takes: every group centred by
its own means, all in common units."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import DenseOperator, Operator, container_of, operator_of, standardise, take_columns
from ...data.arrays import as_like, to_numpy
from ...data.columns import unit_of
from ...data.containers import Table
from ...data.row_groups import RowGroups
from ...errors import InputError, ParameterError
from ...selection.dimension import completed
from .grouped import GroupSamples
from .missing_data import dense_with_missing, standardise_observed
from .missing_e_step import IncompleteSamples
from .samples import CompleteSamples, reduce_rows


class GroupedData(NamedTuple):
    """A table of groups: raw = mean + size * entry, on the columns that vary within a group."""

    members: list[GroupSamples]
    start: Operator  # (n, p) all rows less the means of their groups, gaps filled in
    has_missing: bool
    kept: np.ndarray  # (p,) the columns that vary within a group, among all of the table
    size: np.ndarray  # (p,)
    mean: np.ndarray  # (G, p) of the observed entries; those of all groups where there is none

    @property
    def varying_in_group(self) -> np.ndarray:
        """(G, p) which columns vary within each group."""
        varying_in_group = np.zeros(self.mean.shape, dtype=bool)
        for row, member in zip(varying_in_group, self.members, strict=True):
            row[member.columns] = True
        return varying_in_group


class _GroupStatistics(NamedTuple):
    """What the rows of a group say of every column of the table."""

    part: Table  # the rows
    varying: np.ndarray  # (width,)
    mean: np.ndarray  # (width,) NaN where nothing was observed
    squares: np.ndarray  # (width,) of the deviations
    observed: np.ndarray  # (width,) entries of columns that vary


def check_groups(rows: RowGroups, X: Table) -> None:
    """Refuse groups that cannot have means and noise of their own, and tables out of memory."""
    if not container_of(X).in_memory:
        raise InputError(
            "`groups` needs a table in memory: the rows of every group are taken out of it. Bring "
            "some of its rows into memory, or fit without groups"
        )
    lonely = np.flatnonzero(rows.sizes < 2)
    if lonely.size:
        first = rows.labels.tolist()[lonely[0]]
        raise ParameterError(
            f"`groups`: {lonely.size} groups have a single row, the first of them {first!r}; a "
            "group has means and noise of its own, for which at least 2 rows are needed. Leave "
            "these rows out, or put them into other groups"
        )


def group_data(X: Table, rows: RowGroups, scale: bool, count: int | None) -> GroupedData:
    """Every group centred by its own means.

    Parameters
    ----------
    X : table (n, width)
        Validated, NaN where an entry is missing.
    rows : RowGroups
    scale : bool
        Divide every column by its standard deviation within groups.
    count : int or None
        With how many components gaps are filled in for the start; None: as many as stand out.

    Returns
    -------
    GroupedData
    """
    check_groups(rows, X)
    gaps = container_of(X).has_missing(X)
    X = dense_with_missing(X) if gaps else X
    codes = rows.codes
    found = [
        _group_statistics(container_of(X).take_rows(X, np.flatnonzero(codes == g)), gaps)
        for g in range(rows.sizes.size)
    ]
    varying = np.stack([one.varying for one in found])
    _check_variation(varying, rows, X.shape[1])
    kept = np.flatnonzero(varying.any(axis=0))
    squares = np.sum([one.squares for one in found], axis=0)[kept]
    deviation = np.sqrt(squares / np.sum([one.observed for one in found], axis=0)[kept])
    size = deviation if scale else np.full(kept.size, unit_of(float(deviation.max())))
    mean = _impute_means(np.stack([one.mean for one in found])[:, kept], rows.sizes)
    members = []
    for g, one in enumerate(found):
        at = np.flatnonzero(varying[g, kept])
        part = take_columns(one.part, kept[at])
        members.append(_group_samples(part, mean[g, at], size[at], at))
    if gaps:
        Z = (X[:, kept] - mean[codes]) / size
        seen = ~np.isnan(Z)
        Z = completed(np.where(seen, Z, 0.0), seen, count)
        start: Operator = DenseOperator(Z)
    else:
        start = _operator(take_columns(X, kept), np.mean(mean, axis=0), size)
    return GroupedData(members, rows.centre_operator(start), gaps, kept, size, mean)


def _group_statistics(part: Table, gaps: bool) -> _GroupStatistics:
    """Means and deviations of the rows of a group."""
    n, width = part.shape
    known = np.arange(width)
    if gaps:
        known = np.flatnonzero(~np.isnan(part).all(axis=0))
        op, columns, seen = standardise_observed(part[:, known])
        observed = seen.sum(axis=0).astype(float)
    else:
        op, columns = standardise(part)
        observed = np.full(columns.kept.size, float(n))
    at = known[columns.kept]
    one = _GroupStatistics(
        part,
        np.zeros(width, dtype=bool),
        np.full(width, np.nan),
        np.zeros(width),
        np.zeros(width),
    )
    one.varying[at] = True
    one.mean[known] = to_numpy(columns.mean).astype(float)
    one.squares[at] = columns.variance(to_numpy(op.column_squares()).astype(float))
    one.observed[at] = observed
    return one


def _check_variation(varying: np.ndarray, rows: RowGroups, width: int) -> None:
    still = np.flatnonzero(~varying.any(axis=1))
    if still.size:
        first = rows.labels.tolist()[still[0]]
        raise InputError(
            f"no column of X varies within group {first!r}: leave its rows out, or put them into "
            "another group"
        )
    moving = int(varying.any(axis=0).sum())
    if moving < 2:
        raise InputError(
            f"{moving} of the {width} columns of X vary within groups; at least 2 must. Check "
            "`groups`."
        )


def _impute_means(mean: np.ndarray, sizes: np.ndarray) -> np.ndarray:
    """Where a group has no entry of a column, the mean of the groups that have."""
    known = ~np.isnan(mean)
    weights = known * sizes[:, None]
    of_all = np.sum(np.where(known, mean, 0.0) * weights, axis=0) / weights.sum(axis=0)
    return np.where(known, mean, of_all)


def _group_samples(part: Table, mean: np.ndarray, size: np.ndarray, at: np.ndarray) -> GroupSamples:
    if container_of(part).has_missing(part):
        return GroupSamples(IncompleteSamples((part - mean) / size, ~np.isnan(part)), at)
    op = reduce_rows(_operator(part, mean, size))
    return GroupSamples(CompleteSamples(op, part.shape[0]), at)


def _operator(X: Table, mean: np.ndarray, size: np.ndarray) -> Operator:
    dtype = None if container_of(X).is_numpy else X.dtype
    return operator_of(X, as_like(mean, X, dtype), as_like(size, X, dtype))
