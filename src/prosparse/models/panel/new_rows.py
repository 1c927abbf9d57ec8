"""New rows: matching of columns, standardisation and missing values."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from ...data import container_of, take_columns
from ...data.arrays import TableLike, is_floating, to_numpy
from ...data.counts import row_totals
from ...errors import InputError, ParameterError
from .conformal import panel_distance
from .missing_values import CompletedPanel, expect_missing
from .parameters import ColumnNames
from .prediction import FittedPanel


def find_columns(
    X: TableLike, support: np.ndarray, names: ColumnNames, by_position: bool
) -> tuple[TableLike, np.ndarray]:
    """Find the columns of ``fit`` in new rows, by name if their number differs.

    ``support`` (p,) marks the variables of the panel, all of which ``X`` must have. If
    ``by_position``, arrays without names may have the columns of the panel in order. The result is
    the columns in the order of ``fit``, and their positions in ``fit``.
    """
    container = container_of(X)
    given = container.column_names(X)
    shape: tuple[int, ...] = np.shape(X) if isinstance(X, list) else getattr(X, "shape", ())
    width = shape[1] if len(shape) == 2 else names.width
    if width != names.width and names.names is not None and given is not None:
        position = {name: k for k, name in enumerate(given)}
        columns = np.flatnonzero([name in position for name in names.names])
        missing = np.setdiff1d(np.flatnonzero(support), columns)
        if missing.size:
            raise InputError(
                f"X must have the {int(support.sum())} columns of the panel, but "
                f"{names.label(missing[0])} is missing."
            )
        order = np.array([position[names.names[k]] for k in columns])
        return container.take_columns(X, order), columns
    if by_position and width == support.sum():
        return X, np.flatnonzero(support)
    return X, np.arange(names.width)


def validate_some_columns(X: TableLike) -> TableLike:
    """Validate rows with some columns of ``fit`` and possibly missing values."""
    container = container_of(X)
    X = container.prepare(X, allow_nan=True)
    if container.stays_in_place:
        table = container.validate(X, 1)
    else:
        types = [np.float64, np.float32]
        table = check_array(X, accept_sparse="csr", dtype=types, ensure_all_finite=False)
    found = container_of(table).find_non_finite(table, allow_nan=True)
    if found is not None:
        raise InputError(f"Input X contains {found.describe(range(table.shape[1]))}.")
    return table


class NewRows:
    """Validated rows with the columns of a panel, and possibly others.

    Parameters
    ----------
    table : matrix of shape (n, k)
        Validated rows.
    columns : int ndarray of shape (k,)
        Positions of the columns among those of ``fit``.
    fitted : FittedPanel
    totals : ndarray of shape (n,) or None
        Total counts of the rows.
    """

    def __init__(
        self,
        table: TableLike,
        columns: np.ndarray,
        fitted: FittedPanel,
        totals: Any = None,
    ):
        self.table, self.columns, self.fitted, self.totals = table, columns, fitted, totals
        self.support, self.mean, self.scale = fitted.support, fitted.mean, fitted.scale
        self.covariance, self.depth = fitted.covariance, fitted.depth
        self.n_rows, self.is_full = int(table.shape[0]), columns.size == self.support.size

    # --- missing values

    @cached_property
    def has_missing(self) -> bool:
        """Whether an entry is missing, in any column."""
        return _has_missing(self.table)

    @cached_property
    def panel_has_missing(self) -> bool:
        """Whether a variable of the panel is missing."""
        return _has_missing(take_columns(self.table, self._positions(self.support)))

    # --- values

    @cached_property
    def row_total(self) -> np.ndarray:
        """Total counts of the rows, given or estimated, (n,)."""
        values = self._raw_panel
        if self.totals is not None:
            row_total = np.asarray(self.totals, dtype=float)
            if row_total.shape != (self.n_rows,):
                raise ParameterError(
                    f"`totals` must have one number for each of the {self.n_rows} rows, got "
                    f"shape {row_total.shape}."
                )
        elif self.is_full and not self.has_missing:
            return np.asarray(row_totals(self.table), dtype=float)
        else:
            # Missing counts are omitted from the total and from its expectation.
            squares = self.mean[self.support] ** 2
            expected = np.where(np.isnan(values), 0.0, squares).sum(axis=1)
            proportion = expected / self.depth
            row_total = np.nansum(values, axis=1) / np.maximum(proportion, np.finfo(float).tiny)
        if np.any(values < 0.0) or np.any(row_total <= 0.0):
            raise InputError(
                "X must contain non-negative counts with a positive total in each row. Drop empty "
                "rows, or pass their `totals`."
            )
        return row_total

    @cached_property
    def panel(self) -> CompletedPanel:
        """Standardised variables of the panel, without missing values."""
        return expect_missing(self._standardised_panel, self.covariance)

    @cached_property
    def distance(self) -> np.ndarray:
        """Distance of the panel of each row from the mean (`conformal`), (n,)."""
        return panel_distance(self._standardised_panel, self.covariance)

    def standardised_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return standardised columns of ``fit``, (n, k), with NaN if missing."""
        is_wanted = np.zeros(self.support.size, dtype=bool)
        is_wanted[columns] = True
        full = np.full((self.n_rows, self.support.size), np.nan)
        is_wanted[np.setdiff1d(np.arange(self.support.size), self.columns)] = False
        full[:, is_wanted] = self._standardise(self._dense(is_wanted), is_wanted)
        return full[:, columns]

    @property
    def target(self) -> tuple[TableLike, Any]:
        """Array library and precision of the results.

        NumPy is used unless the rows are in another array library.
        """
        container = container_of(self.table)
        if container.stays_in_place and container.in_memory and not container.is_sparse:
            return self.table, self.table.dtype if is_floating(self.table) else None
        return np.zeros(0), None

    @cached_property
    def _raw_panel(self) -> np.ndarray:
        return self._dense(self.support)

    @cached_property
    def _standardised_panel(self) -> np.ndarray:
        return self._standardise(self._raw_panel, self.support)

    def _standardise(self, values: np.ndarray, columns: np.ndarray) -> np.ndarray:
        if self.depth:
            values = np.sqrt(values * (self.depth / self.row_total)[:, None])
        return np.asarray((values - self.mean[columns]) / self.scale[columns])

    def _positions(self, columns: np.ndarray) -> np.ndarray:
        """Convert a mask of columns to positions in ``self.table``."""
        return np.searchsorted(self.columns, np.flatnonzero(columns))

    def _dense(self, columns: np.ndarray) -> np.ndarray:
        part = take_columns(self.table, self._positions(columns))
        container = container_of(part)
        is_special = container.stays_in_place or container.is_sparse
        values = container.to_dense(part) if is_special else to_numpy(part)
        return np.asarray(values, dtype=float)


def _has_missing(table: TableLike) -> bool:
    """Return whether an entry of data in memory is missing.

    Sparse data have no missing values.
    """
    container = container_of(table)
    if container.is_sparse or not container.in_memory:
        container.require_finite(table)
        return False
    return container.has_missing(table)
