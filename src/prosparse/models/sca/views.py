"""Several views of the same samples: tables side by side, their names, and their latents.

Users give views as one table with groups of columns, or as one table per view, of which some may
be missing. The model sees one table.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ...data import container_of, side_by_side, take_columns
from ...data.arrays import from_numpy
from ...data.containers import Table
from ...data.groups import ColumnGroup
from ...errors import InputError, ParameterError, check_integer, warn


def varying_view_columns(
    groups: list[np.ndarray], kept: np.ndarray, width: int
) -> list[np.ndarray]:
    """The columns of every view, varying_in_group among those that vary.

    Parameters
    ----------
    groups : list of int arrays
        The columns of every view.
    kept : int array
        The columns that vary.
    width : int
        Columns of the table.

    Returns
    -------
    list of int arrays
    """
    varying = np.isin(np.arange(width), kept)
    place = np.cumsum(varying) - 1
    parts = [place[columns[varying[columns]]] for columns in groups]
    for number, part in enumerate(parts):
        if part.size == 0:
            raise InputError(f"every column of view {number} is constant: leave that view out")
    return parts


def private_counts(given: int | Sequence[int], n_views: int) -> list[int]:
    """Latents of each view's own, from one number for all or one per view."""
    if isinstance(given, Iterable) and np.ndim(given) > 0:
        counts = list(given)
        if len(counts) != n_views:
            raise ParameterError(
                f"`n_private` must be one integer or one per view; there are {n_views} views, "
                f"got {given!r}"
            )
        for count in counts:
            check_integer("n_private", count, 0)
        return [int(count) for count in counts]
    check_integer("n_private", given, 0)
    assert not isinstance(given, Iterable)
    return [int(given)] * n_views


# --- one table per view


def is_list_of_tables(X: Table) -> TypeGuard[Sequence[Table]]:
    """Whether ``X`` is one table per view, and not a table given as a list of rows.

    A view that is None is missing. Tables have two dimensions, whatever their kind.
    """
    if not isinstance(X, list | tuple) or not X:
        return False
    return any(table is None or len(getattr(table, "shape", ())) == 2 for table in X)


def concatenate_views(
    X: Table, views: Sequence[ColumnGroup] | None
) -> tuple[Table, Sequence[ColumnGroup] | None]:
    """A list of tables as one table and its column groups; anything else as it is."""
    if not is_list_of_tables(X):
        return X, views
    if views is not None:
        raise ParameterError("give either `views` or a list of tables, not both")
    if any(table is None for table in X):
        raise InputError("`fit` needs every view; give rows of NaN to samples that miss one")
    return side_by_side(list(X))


def join_views(tables: Sequence[Table], groups: list[np.ndarray]) -> Table:
    """New rows of fitted views as one table, its columns in their old places; None is missing."""
    if len(tables) != len(groups):
        raise InputError(
            f"{len(groups)} views were fitted, got {len(tables)}; give None for a view that is "
            "missing"
        )
    n = next((t.shape[0] for t in tables if t is not None), 0)
    like = next((t for t in tables if t is not None and not container_of(t).is_numpy), None)

    def missing(width: int) -> Table:
        nothing = np.full((n, width), np.nan)
        return nothing if like is None else from_numpy(nothing, like, like.dtype)

    pairs = zip(tables, groups, strict=True)
    full = [missing(columns.size) if table is None else table for table, columns in pairs]
    for number, (part, columns) in enumerate(zip(full, groups, strict=True)):
        if part.shape[1] != columns.size:
            raise InputError(
                f"view {number} was fitted with {columns.size} columns, got {part.shape[1]}"
            )
    return take_columns(side_by_side(full)[0], np.argsort(np.concatenate(groups)))


def separate_views(X: Table, groups: list[np.ndarray]) -> list[Table]:
    """The columns of every view of a whole table, in kind."""
    return [take_columns(X, columns) for columns in groups]


# --- their column names


def duplicate_names(X: Table) -> list[object]:
    """The labels that more than one column of a DataFrame has.

    Views may share names, and a DataFrame of all of them then has some twice.
    """
    labels = Counter(container_of(X).column_names(X) or ())
    return [label for label, count in labels.items() if count > 1]


def view_column_names(table: Table, number: int) -> np.ndarray | None:
    """The column names of view ``number`` that scikit-learn would remember, if it has any."""
    twice = duplicate_names(table)
    if twice:
        raise InputError(f"view {number} has more than one column named {twice[0]!r}: rename them")
    probe = BaseEstimator()
    try:
        validate_data(probe, table, skip_check_array=True)
    except TypeError as error:  # names of several types
        raise InputError(f"view {number}: {error}") from error
    return getattr(probe, "feature_names_in_", None)


def joint_column_names(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """The names of all views side by side; None unless all have names, and no two the same."""
    known = [part for part in parts if part is not None]
    if len(known) < len(parts):
        return None
    together = np.concatenate(known)
    return together if len(set(together)) == together.size else None


def check_names(tables: Sequence[Table], fitted: Sequence[np.ndarray | None], who: str) -> None:
    """Refuse views whose columns have other names than in ``fit``, or another order, as
    scikit-learn does with one table; where one of the two has no names, say so."""
    for number, (table, expected) in enumerate(zip(tables, fitted, strict=True)):
        given = None if table is None else view_column_names(table, number)
        if table is None or (given is None and expected is None):
            continue
        if given is None:
            warn(
                f"view {number} does not have valid feature names, but {who} was fitted with "
                "feature names",
                UserWarning,
            )
        elif expected is None:
            warn(
                f"view {number} has feature names, but {who} was fitted without feature names",
                UserWarning,
            )
        elif list(given) != list(expected):
            raise InputError(_name_mismatch(number, list(given), list(expected)))


def _name_mismatch(number: int, given: list[str], expected: list[str]) -> str:
    message = f"view {number}: the feature names should match those that were passed during fit."
    for what, names in (
        ("Feature names unseen at fit time", _missing_names(given, expected)),
        ("Feature names seen at fit time, yet now missing", _missing_names(expected, given)),
    ):
        if names:
            more = f", and {len(names) - 5} more" if len(names) > 5 else ""
            message += f" {what}: {', '.join(map(repr, names[:5]))}{more}."
    if set(given) == set(expected):
        message += " They must be in the same order as they were in fit."
    return message


def _missing_names(names: list[str], others: list[str]) -> list[str]:
    known = set(others)
    return [name for name in names if name not in known]
