"""NumPy arrays, lists of rows, and NumPy's masked arrays."""

from __future__ import annotations

from typing import Any

import numpy as np

from ...errors import InputError, plural
from ..arrays import TableLike
from .base import Container, Table
from .checks import check_no_times, check_numeric


class NumpyArray(Container):
    """NumPy arrays, and objects that scikit-learn converts to one."""

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        check_no_times(X)
        entries = _entries_with_text(X)
        if entries is not None:
            check_numeric(dict(enumerate(entries.T)))
        return X


class MaskedArray(Container):
    """NumPy's masked arrays, or lists of masked rows."""

    name = "masked array"

    def recognises(self, X: TableLike) -> bool:
        if isinstance(X, list | tuple):
            return any(isinstance(row, np.ma.MaskedArray) for row in X)
        return isinstance(X, np.ma.MaskedArray)

    def prepare(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        X = np.ma.array(X, copy=False)
        check_no_times(X)
        n_masked = int(np.ma.count_masked(X))
        if not n_masked:
            return X.data
        if not allow_nan:
            raise InputError(
                f"X has {plural(n_masked, 'masked value')}. Fill masked values (`X.filled(...)`), "
                "drop their rows or columns, or use SCA, which treats them as missing."
            )
        return X.astype(float).filled(np.nan)

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return np.ma.array(X, copy=False)[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return np.ma.array(X, copy=False)[rows]

    def replace_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return np.ma.masked_invalid(values)

    def to_dense(self, X: Table, dtype: Any = float) -> np.ndarray:
        # `filled` returns the array itself if nothing is masked.
        return np.array(np.ma.array(X, dtype=float).filled(np.nan))


def _entries_with_text(X: TableLike) -> np.ndarray | None:
    """Return the entries of an array or list that may contain strings."""
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of unequal length, for which scikit-learn raises an error
            return None
    may_have_text = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OSU"
    return X if may_have_text else None
