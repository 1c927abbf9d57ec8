"""Outlying rows, influential rows and correlation of adjacent rows."""

from __future__ import annotations

import numpy as np

from ..errors import plural
from .leading_components import StandardisedData

# Number of columns, and of entries, from which the correlation of adjacent rows is estimated.
_MAX_COLUMNS = 400
_MIN_COLUMNS = 8
_MAX_ENTRIES = 500_000
# Adjacent rows are correlated if the mean lag-1 correlation over the columns exceeds both limits.
MIN_CORRELATION = 0.1
_MIN_STANDARD_ERRORS = 4.0
# Adjacent rows are also correlated if nearly all of several components have a high lag-1
# correlation.
_MIN_SCORES = 5
_MIN_SCORE_CORRELATION = 0.3
_MIN_SCORE_PROPORTION = 0.9
# Rows are outlying if their scale exceeds both limits: relative to the median row, and in robust
# standard deviations of the log scales.
_MIN_OUTLYING_SCALE = 2.0
_MIN_OUTLYING_DEVIATION = 4.0
# A result depends on one or two rows if these contribute more than this proportion of the variance
# of the components.
MAX_INFLUENCE = 0.5
_N_INFLUENTIAL = 2
_MAX_LISTED = 5  # maximum number of rows listed in a message


def adjacent_row_correlation(data: StandardisedData, scores: np.ndarray) -> float:
    """Estimate the mean lag-1 correlation given the components.

    Small or insignificant estimates are set to 0.

    Rows sorted by a variable that the components explain (patients, then controls) are correlated
    only in the components. Time series and repeated measures are correlated in the residuals, or in
    nearly all of several components. ``scores`` (n, d) are orthonormal.
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


def row_influence(scores: np.ndarray) -> np.ndarray:
    """Compute the contribution of each row to the variance of scores, (n,)."""
    squares = np.sum(scores * scores, axis=1)
    total = float(np.sum(squares))
    return np.asarray(squares / total if total > 0.0 else np.zeros(squares.size))


def influential_rows(influence: np.ndarray) -> np.ndarray:
    """Return the one or two rows on which a result depends, if any."""
    order = np.argsort(-influence, kind="stable")[:_N_INFLUENTIAL]
    if influence.size <= 2 * _N_INFLUENTIAL or influence[order].sum() <= MAX_INFLUENCE:
        return np.empty(0, dtype=int)
    return order[:1] if influence[order[0]] > MAX_INFLUENCE else order


def outlying_rows(row_scale: np.ndarray) -> np.ndarray:
    """Return the rows with a much larger scale than the others, largest first."""
    logarithms = np.log(row_scale)  # the median is 0
    deviation = float(np.median(np.abs(logarithms))) / 0.6745
    limit = max(np.log(_MIN_OUTLYING_SCALE), _MIN_OUTLYING_DEVIATION * deviation)
    rows = np.flatnonzero(logarithms > limit)
    return rows[np.argsort(-row_scale[rows], kind="stable")]


def list_rows(rows: np.ndarray) -> str:
    """List the first rows by position: "rows 0, 17 and 31"."""
    names = [str(row) for row in rows[:_MAX_LISTED]]
    if rows.size > _MAX_LISTED:
        return f"rows {', '.join(names)} and {plural(rows.size - _MAX_LISTED, 'other')}"
    if rows.size == 1:
        return f"row {names[0]}"
    return f"rows {', '.join(names[:-1])} and {names[-1]}"
