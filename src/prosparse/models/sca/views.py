"""Data and column names of several views of the same samples.

Views are given as one data matrix with groups of columns, or as one data matrix per view, some of
which may be missing. The model uses a single data matrix.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import TypeGuard

import numpy as np
from sklearn.base import BaseEstimator
from sklearn.utils.validation import validate_data

from ...data import container_of, stack_columns, take_columns
from ...data.arrays import from_numpy
from ...data.column_groups import ColumnGroup
from ...data.containers import Table
from ...errors import InputError, ParameterError, check_integer, warn
from ...phrases import list_items


def varying_view_columns(
    groups: list[np.ndarray], kept: np.ndarray, width: int
) -> list[np.ndarray]:
    """Return the columns of each view as positions among varying columns."""
    varying = np.isin(np.arange(width), kept)
    position = np.cumsum(varying) - 1
    parts = [position[columns[varying[columns]]] for columns in groups]
    for number, (part, columns) in enumerate(zip(parts, groups, strict=True)):
        if part.size == 0:
            raise InputError(
                f"View {number} has no varying column (of {columns.size}). Drop this view."
            )
    return parts


def private_counts(given: int | Sequence[int], n_views: int) -> list[int]:
    """Return the number of private factors of each view."""
    if isinstance(given, Iterable) and np.ndim(given) > 0:
        counts = list(given)
        if len(counts) != n_views:
            raise ParameterError(
                "`n_private` must be an integer or a list with one integer per view "
                f"({len(counts)} given, n_views={n_views}), got {given!r}."
            )
        for count in counts:
            check_integer("n_private", count, 0)
        return [int(count) for count in counts]
    check_integer("n_private", given, 0)
    assert not isinstance(given, Iterable)
    return [int(given)] * n_views


# --- one data matrix per view


def is_list_of_views(X: Table) -> TypeGuard[Sequence[Table]]:
    """Return whether ``X`` is a list of matrices (or None), not of rows."""
    if not isinstance(X, list | tuple) or not X:
        return False
    return any(table is None or len(getattr(table, "shape", ())) == 2 for table in X)


def concatenate_views(
    X: Table, views: Sequence[ColumnGroup] | None
) -> tuple[Table, Sequence[ColumnGroup] | None]:
    """Concatenate a list of data matrices; return the matrix and its views."""
    if not is_list_of_views(X):
        return X, views
    if views is not None:
        raise ParameterError(
            f"`views` must be None if X is a list of data matrices, got {views!r}. The data "
            "matrices define the views."
        )
    if any(table is None for table in X):
        raise InputError(
            "X must contain every view in `fit`, got None. Use rows of NaN for samples without a "
            "view."
        )
    return stack_columns(list(X))


def join_views(tables: Sequence[Table], groups: list[np.ndarray]) -> Table:
    """Join new rows of all views in the column order of ``fit``."""
    if len(tables) != len(groups):
        raise InputError(
            f"X must be a list of {len(groups)} views, as in `fit`, got {len(tables)}. Use None "
            "for a missing view."
        )
    n = next((t.shape[0] for t in tables if t is not None), 0)
    like = next((t for t in tables if t is not None and not container_of(t).on_cpu), None)

    def missing(width: int) -> Table:
        missing_values = np.full((n, width), np.nan)
        return missing_values if like is None else from_numpy(missing_values, like, like.dtype)

    pairs = zip(tables, groups, strict=True)
    full = [missing(columns.size) if table is None else table for table, columns in pairs]
    for number, (part, columns) in enumerate(zip(full, groups, strict=True)):
        if part.shape[1] != columns.size:
            raise InputError(
                f"View {number} must have {columns.size} columns, as in `fit`, got {part.shape[1]}."
            )
    return take_columns(stack_columns(full)[0], np.argsort(np.concatenate(groups)))


# --- column names


def duplicate_names(X: Table) -> list[object]:
    """Return repeated column names of a DataFrame."""
    labels = Counter(container_of(X).column_names(X) or ())
    return [label for label, count in labels.items() if count > 1]


def view_column_names(table: Table, number: int) -> np.ndarray | None:
    """Return the column names of a view as scikit-learn would store them."""
    duplicates = duplicate_names(table)
    if duplicates:
        raise InputError(f"View {number} has several columns named {duplicates[0]!r}. Rename them.")
    probe = BaseEstimator()
    try:
        validate_data(probe, table, skip_check_array=True)
    except TypeError as error:  # column names of mixed types
        raise InputError(f"View {number}: {error}") from error
    return getattr(probe, "feature_names_in_", None)


def joint_column_names(parts: Sequence[np.ndarray | None]) -> np.ndarray | None:
    """Join the names of all views; None if some are missing or not unique."""
    named = [part for part in parts if part is not None]
    if len(named) < len(parts):
        return None
    joint = np.concatenate(named)
    return joint if len(set(joint)) == joint.size else None


def check_names(tables: Sequence[Table], fitted: Sequence[np.ndarray | None], who: str) -> None:
    """Check the column names of views as scikit-learn checks a DataFrame.

    Different names or a different order raise an error. Names that are present only in ``fit`` or
    only in the new rows cause a warning.
    """
    for number, (table, expected) in enumerate(zip(tables, fitted, strict=True)):
        given = None if table is None else view_column_names(table, number)
        if table is None or (given is None and expected is None):
            continue
        if given is None:
            warn(
                f"View {number} does not have valid feature names, but {who} was fitted with "
                "feature names.",
                UserWarning,
            )
        elif expected is None:
            warn(
                f"View {number} has feature names, but {who} was fitted without feature names.",
                UserWarning,
            )
        elif list(given) != list(expected):
            raise InputError(_name_mismatch(number, list(given), list(expected)))


def _name_mismatch(number: int, given: list[str], expected: list[str]) -> str:
    """Return the message for column names that differ from those of ``fit``."""
    message = f"View {number}: the feature names should match those that were passed during fit."
    given_set, expected_set = set(given), set(expected)
    unseen = [repr(name) for name in given if name not in expected_set]
    missing = [repr(name) for name in expected if name not in given_set]
    if unseen:
        message += f" Feature names unseen at fit time: {list_items(unseen)}."
    if missing:
        message += f" Feature names seen at fit time, yet now missing: {list_items(missing)}."
    if not unseen and not missing:
        message += " They must be in the same order as they were in fit."
    return message
