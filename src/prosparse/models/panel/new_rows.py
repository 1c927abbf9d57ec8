"""Variables of the panel in new rows."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np

from ...data import container_of, take_columns
from ...data.arrays import TableLike, is_floating, to_numpy
from ...data.counts import row_totals
from ...errors import InputError, ParameterError
from .conformal import panel_distance
from .missing_values import CompletedPanel, expect_missing


class NewRows:
    """Validated rows with the columns of a panel, and possibly others.

    Parameters
    ----------
    table : matrix of shape (n, k)
        Validated rows.
    columns : int ndarray of shape (k,)
        Positions of the columns among those of ``fit``.
    support : bool ndarray of shape (p,)
        Variables of the panel, among ``columns``.
    mean, scale : ndarrays of shape (p,)
        Means and scales of ``fit``.
    covariance : ndarray of shape (q, q)
        Covariance of the scaled variables of the panel.
    depth : float
        Total to which counts are scaled; 0 for other data.
    totals : ndarray of shape (n,) or None
        Total counts of the rows.
    """

    def __init__(
        self,
        table: TableLike,
        columns: np.ndarray,
        support: np.ndarray,
        mean: np.ndarray,
        scale: np.ndarray,
        covariance: np.ndarray,
        depth: float,
        totals: Any = None,
    ):
        self.table, self.columns, self.support = table, columns, support
        self.mean, self.scale, self.covariance = mean, scale, covariance
        self.depth, self.totals = depth, totals
        self.n_rows, self.is_full = int(table.shape[0]), columns.size == support.size

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
            # Missing counts are left out of the total and of its expectation.
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
        """Distance of the panel of each row from the mean, see `conformal`, (n,)."""
        return panel_distance(self._standardised_panel, self.covariance)

    def standardised_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return columns of ``fit``, (n, k); NaN if they are missing."""
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
        """Return the positions in the table of a mask of columns."""
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
