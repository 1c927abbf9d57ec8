"""Checks of dtypes, shapes and column names that several containers share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import date, time, timedelta
from typing import Any

import numpy as np

from ...errors import InputError, plural
from ...phrases import list_items, truncate
from ..arrays import TableLike
from ..categories import Labels
from ..row_groups import is_missing
from .base import column_label

# Kinds of NumPy dtypes that are numeric. Complex numbers raise an error later.
NUMERIC_KINDS = "biufc"
# Kinds of NumPy dtypes of dates and times. Converted to numbers, they count from 1970, and a
# missing value (NaT) is -9.2e18.
TIME_KINDS = "Mm"
DATES_OR_TIMES = "dates or times"
MAX_NUMBERS = 0.5  # proportion of numeric texts from which a column is not categorical
MAX_TEXT_LENGTH = 20  # maximum number of characters of an entry quoted in a message

_CONVERT_TIMES = "Convert them to numbers (e.g. days since a reference date) or drop them."


def check_no_times(X: TableLike) -> None:
    """Raise an error if ``X`` is an array of dates or times."""
    if getattr(getattr(X, "dtype", None), "kind", "") in tuple(TIME_KINDS):
        raise InputError(f"X contains {DATES_OR_TIMES}, which are not numbers. {_CONVERT_TIMES}")


def check_dtype(dtype: np.dtype, allowed_kinds: str) -> None:
    """Raise an error for a dtype that is not numeric."""
    if dtype.kind in allowed_kinds:
        return
    if dtype.kind == "c":
        raise_complex(dtype)
    if dtype.kind in TIME_KINDS:
        raise InputError(f"X contains {DATES_OR_TIMES}, which are not numbers. {_CONVERT_TIMES}")
    raise InputError(
        f"X has dtype {dtype}, whose entries are not numbers. Convert X to a floating dtype."
    )


def raise_complex(dtype: object) -> None:
    """Raise scikit-learn's error for complex data."""
    raise InputError(f"Complex data not supported: X has dtype {dtype}.")


def check_shape(X: TableLike, min_size: int) -> None:
    """Check the shape of a matrix; raise the same errors as scikit-learn."""
    if X.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {X.ndim}D array instead: X has shape {tuple(X.shape)}. "
            "Reshape X to rows (samples) and columns (features)."
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count < min_size:
            raise InputError(
                f"Found array with {count} {what}(s) (shape={tuple(X.shape)}) while a minimum of "
                f"{min_size} is required."
            )


def check_unique_names(names: Sequence[object]) -> None:
    """Raise an error if two columns have the same name."""
    known: set[object] = set()
    for name in names:
        if name in known:
            raise InputError(
                f"X has more than one column named {name!r}. Rename these columns, or pass a NumPy "
                "array, whose columns have no names."
            )
        known.add(name)


def read_labels(entries: np.ndarray, *, is_category: bool, order: object = None) -> Labels | None:
    """Return a column as labels, or None if it is numeric.

    The result is None unless all entries are texts, most of them not numeric.

    ``is_category`` states that the dtype is categorical, with any entries. ``order`` contains the
    levels of an ordered categorical column.
    """
    missing = np.array([is_missing(entry) for entry in entries], dtype=bool)
    present = entries[~missing]
    if not is_category and not all(isinstance(entry, str) for entry in present):
        return None
    if not is_category and sum(map(_represents_number, present)) >= MAX_NUMBERS * present.size:
        return None
    values = np.full(entries.size, None, dtype=object)
    values[~missing] = [str(entry) for entry in present]
    return Labels(values, None if order is None else tuple(map(str, order)))  # type: ignore[call-overload]


def check_numeric(columns: Mapping[Any, np.ndarray]) -> None:
    """Raise an error that names all columns with non-numeric entries."""
    problems = {
        name: problem for name, entries in columns.items() if (problem := _non_numeric(entries))
    }
    if problems:
        described = [f"{column_label(name)} ({problem})" for name, problem in problems.items()]
        raise InputError(
            f"X has {plural(len(problems), 'non-numeric column')}: {list_items(described)}. Drop "
            "identifiers and labels; encode categories (e.g. `OneHotEncoder`) and convert dates "
            "to numbers."
        )


def _non_numeric(entries: np.ndarray) -> str | None:
    """Describe the entries of a non-numeric column; return None if numeric.

    Other objects than strings, dates and lists are left to scikit-learn's checks.
    """
    if entries.dtype.kind in TIME_KINDS:
        return DATES_OR_TIMES
    try:
        entries.astype(float)
    except (TypeError, ValueError):
        for entry in entries:
            if isinstance(entry, date | time | timedelta):
                return DATES_OR_TIMES
            if isinstance(entry, list | tuple | np.ndarray):
                return "lists"
            if isinstance(entry, str | bytes) and not _represents_number(entry):
                text = entry.decode(errors="replace") if isinstance(entry, bytes) else str(entry)
                return f"text, e.g. {truncate(text, MAX_TEXT_LENGTH)!r}"
    return None


def _represents_number(entry: str | bytes) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True
