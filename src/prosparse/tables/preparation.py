"""Preparation of a table for a fit: logarithms and missing values."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from scipy import sparse
from sklearn.preprocessing import StandardScaler

from ..errors import TableError, check_choice, plural
from ..selection.dimension import impute_by_pca
from .base import Table, is_missing, list_names, name_row
from .complete_cases import select_complete_part
from .row_selection import select_rows

MISSING_VALUES = ("error", "drop", "components", "allow")
MAX_MISSING = 0.5  # maximum proportion of missing values in a column that is imputed
MAX_EXACT_SIDE = 2_000  # maximum side of a table whose eigenvalues are all computed
N_LEADING = 50  # number of components for the imputation of larger tables
MAX_BLOCK = 2**22  # maximum number of entries of a block


def prepare_table(table: Table, *, log1p: bool = False, missing: str = "error") -> Table:
    """Take logarithms and handle missing values, as in the command.

    Rows without a response are dropped unless ``missing="error"``.

    Parameters
    ----------
    table : Table
        Table from `read_table`. With ``log1p=True``, its values are replaced in place.
    log1p : bool, default=False
        Whether to replace every value x by log(1 + x).
    missing : {"error", "drop", "components", "allow"}, default="error"
        Handling of missing values. "drop" removes rows, columns or both, whichever loses the fewest
        cells. "components" imputes predictions from principal components, and "allow" leaves
        missing values to the estimator. Both remove columns with more than half of their values
        missing.

    Returns
    -------
    Table
        Prepared table, with notes on the changes.

    Raises
    ------
    TableError
        If a value is infinite or has no logarithm, or if values are missing and
        ``missing="error"``.
    """
    check_choice("missing", missing, MISSING_VALUES)
    if log1p:
        _refuse_values(table, lambda block: block <= -1, "is not above -1 and has no log(1 + x)")
        X = table.X.data if sparse.issparse(table.X) else table.X
        np.log1p(X, out=X)
        table = table.with_notes("every value x was replaced by log(1 + x)")
    _refuse_values(table, np.isinf, "is infinite")
    return _drop_unknown_responses(_handle_missing(table, missing), missing)


def impute_components(X: np.ndarray) -> np.ndarray:
    """Impute missing values (NaN) from the leading principal components.

    The error was within 4 % of that of the exact conditional means of SCA. Imputation of 2,000 x
    300 entries with 0.3 % missing values took 0.2 s instead of 18 s.
    """
    scaler = StandardScaler()
    Z = scaler.fit_transform(X)
    observed = ~np.isnan(X)
    n_components = None if min(X.shape) <= MAX_EXACT_SIDE else N_LEADING
    Z = impute_by_pca(np.where(observed, Z, 0.0), observed, n_components)
    return np.where(observed, X, scaler.inverse_transform(Z))


def iterate_blocks(X: Any) -> Iterator[tuple[int, np.ndarray]]:
    """Yield dense blocks of rows, each with the index of its first row."""
    step = max(1, MAX_BLOCK // max(1, X.shape[1]))
    for start in range(0, X.shape[0], step):
        rows = X[start : start + step]
        yield start, rows.toarray() if sparse.issparse(rows) else rows


def _refuse_values(
    table: Table, is_invalid: Callable[[np.ndarray], np.ndarray], problem: str
) -> None:
    """Raise an error at the first invalid value."""
    if sparse.issparse(table.X) and not is_invalid(table.X.data).any():
        return
    for start, block in iterate_blocks(table.X):
        invalid = np.argwhere(is_invalid(block))
        if invalid.size:
            row, column = invalid[0]
            raise TableError(
                f"{table.path}, {name_row(table, start + row)}, column {table.names[column]!r}: "
                f"{block[row, column]:g} {problem}."
            )


def _handle_missing(table: Table, missing: str) -> Table:
    if sparse.issparse(table.X):
        _refuse_values(table, np.isnan, "is missing; sparse tables must have no missing values")
        return table
    n_missing = np.zeros(table.X.shape[1], dtype=int)
    first: tuple[int, int] | None = None
    for start, block in iterate_blocks(table.X):
        is_nan = np.isnan(block)
        if first is None and is_nan.any():
            row, column = np.argwhere(is_nan)[0]
            first = (start + int(row), int(column))
        n_missing += is_nan.sum(axis=0)
    if first is None:
        return table
    total, n_columns = int(n_missing.sum()), int(np.count_nonzero(n_missing))
    if missing == "error":
        n, p = table.X.shape
        rows, columns = _find_complete(table)
        in_all = "No other value is" if total == 1 else f"In total {total:,} values are"
        raise TableError(
            f"{table.path}, {name_row(table, first[0])}, column {table.names[first[1]]!r}: the "
            f"value is missing. {in_all} missing. Use --missing impute to impute them, or "
            f"--missing drop, which leaves {rows.size:,} of {n:,} rows and {columns.size:,} of "
            f"{p:,} columns."
        )
    found = (
        f"{plural(total, 'value')} in {plural(n_columns, 'column')} "
        f"{'is' if total == 1 else 'are'} missing"
    )
    if missing == "drop":
        return _drop_incomplete(table, found)
    table = _drop_columns(table, n_missing > MAX_MISSING * table.X.shape[0])
    if missing == "allow":
        return table.with_notes(f"{found}; the model handles missing values")
    X = impute_components(table.X)
    return table._replace(X=X).with_notes(f"{found}; imputed from principal components")


def _drop_columns(table: Table, is_dropped: np.ndarray) -> Table:
    if not is_dropped.any():
        return table
    remaining = np.flatnonzero(~is_dropped)
    if remaining.size < 2:
        raise TableError(
            f"{table.path}: {int(is_dropped.sum())} of {is_dropped.size} columns have more than "
            f"half of their values missing; at least 2 others are needed."
        )
    dropped = list_names([table.names[k] for k in np.flatnonzero(is_dropped)], 5)
    count = int(is_dropped.sum())
    return table._replace(
        X=table.X[:, ~is_dropped], names=[table.names[k] for k in remaining]
    ).with_notes(
        f"dropped {plural(count, 'column')} with more than half of the values missing: {dropped}"
    )


def _find_complete(table: Table) -> tuple[np.ndarray, np.ndarray]:
    return select_complete_part(lambda: iterate_blocks(table.X), table.X.shape)


def _drop_incomplete(table: Table, found: str) -> Table:
    n, p = table.X.shape
    rows, columns = _find_complete(table)
    if rows.size < 2 or columns.size < 2:
        raise TableError(
            f"{table.path}: without missing values, {plural(rows.size, 'row')} and "
            f"{plural(columns.size, 'column')} remain; at least 2 of each are needed. "
            "Use --missing impute."
        )
    dropped = np.setdiff1d(np.arange(p), columns)
    names = f" ({list_names([table.names[k] for k in dropped], 5)})" if dropped.size else ""
    table = table._replace(
        X=table.X[:, columns] if dropped.size else table.X,
        names=[table.names[k] for k in columns],
    ).with_notes(
        f"{found}; dropped {n - rows.size:,} of {n:,} rows and {dropped.size:,} of {p:,} "
        f"columns{names}"
    )
    return table if rows.size == n else select_rows(table, rows)


def _drop_unknown_responses(table: Table, missing: str) -> Table:
    if table.response is None:
        return table
    unknown = np.array([is_missing(value) for value in table.response])
    count = int(unknown.sum())
    if not count:
        return table
    if missing == "error":
        others = count - 1
        more = f", as in {plural(others, 'more row')}" if others else ""
        raise TableError(
            f"{table.path}, {name_row(table, int(np.argmax(unknown)))}: the response is "
            f"missing{more}. Use --missing drop or --missing impute, which drop rows without a "
            "response."
        )
    return select_rows(table, np.flatnonzero(~unknown)).with_notes(
        f"dropped {plural(count, 'row')} without a response"
    )
