"""Dependence between rows: groups that the user gives, and correlation of adjacent rows."""

from __future__ import annotations

import numpy as np

from ...data.row_groups import RowGroups, row_groups
from ...errors import InputError, ParameterError
from ...structure import MIN_DOF, StandardisedData

# Number of columns, and of entries, from which the correlation of adjacent rows is estimated.
_MAX_COLUMNS = 400
_MIN_COLUMNS = 8
_MAX_ENTRIES = 500_000
# Adjacent rows are correlated if the mean lag-1 correlation over the columns exceeds both limits.
MIN_CORRELATION = 0.1
_MIN_STANDARD_ERRORS = 4.0
# They are also correlated if nearly all of several components have a high lag-1 correlation.
_MIN_SCORES = 5
_MIN_SCORE_CORRELATION = 0.3
_MIN_SCORE_PROPORTION = 0.9


def check_groups(groups: object, n: int) -> RowGroups | None:
    """Validate the groups of n rows.

    Parameters
    ----------
    groups : array-like of shape (n,) or None
        Label of each row.
    n : int
        Number of rows.

    Returns
    -------
    RowGroups or None

    Raises
    ------
    InputError
        If there are too few rows.
    ParameterError
        If the labels are invalid or leave too few degrees of freedom within groups.
    """
    rows = row_groups(groups, n)
    if rows is None:
        if n - 1 < MIN_DOF:
            raise InputError(
                f"X has too few rows to test for shared variance (n_samples={n}); at least "
                f"{MIN_DOF + 1} are required."
            )
        return None
    n_groups = rows.sizes.size
    if n - n_groups < MIN_DOF:
        raise ParameterError(
            f"`groups` has {n_groups} labels for {n} rows. Rows are compared within groups: at "
            f"least {MIN_DOF} more rows than groups are required."
        )
    return rows


def adjacent_row_correlation(data: StandardisedData, scores: np.ndarray) -> float:
    """Estimate the mean lag-1 correlation of the columns after removing the components.

    Rows sorted by a variable that the components explain (patients, then controls) are correlated
    in the components only. Time series and repeated measures are correlated in the residuals, or in
    nearly all of several components.

    Parameters
    ----------
    data : StandardisedData
    scores : ndarray of shape (n, d)
        Orthonormal scores of the components.

    Returns
    -------
    float
        0 if the correlation is small or not significant.
    """
    of_scores = _lag1_correlations(scores)
    if (
        of_scores.size >= _MIN_SCORES
        and np.mean(of_scores > _MIN_SCORE_CORRELATION) > _MIN_SCORE_PROPORTION
    ):
        return float(np.mean(of_scores))
    n_columns = max(_MIN_COLUMNS, min(_MAX_COLUMNS, _MAX_ENTRIES // data.n))
    columns = np.unique(np.linspace(0, data.p - 1, min(n_columns, data.p)).astype(int))
    if columns.size < _MIN_COLUMNS:
        return 0.0
    residuals = data.dense_columns(columns)
    residuals = residuals - scores @ (scores.T @ residuals)
    squares = np.sum(residuals * residuals, axis=0)
    is_varying = squares > 1e-9 * float(np.max(data.sums_of_squares))
    if is_varying.sum() < _MIN_COLUMNS:
        return 0.0
    correlations = _lag1_correlations(residuals[:, is_varying])
    mean = float(np.mean(correlations))
    error = float(np.std(correlations, ddof=1)) / np.sqrt(correlations.size)
    return mean if mean > max(MIN_CORRELATION, _MIN_STANDARD_ERRORS * error) else 0.0


def _lag1_correlations(columns: np.ndarray) -> np.ndarray:
    """Compute the lag-1 autocorrelation of each centred column."""
    squares = np.sum(columns * columns, axis=0)
    products = np.sum(columns[1:] * columns[:-1], axis=0)
    return np.asarray(products / np.where(squares > 0, squares, 1.0))
