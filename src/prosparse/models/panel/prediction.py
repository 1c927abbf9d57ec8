"""Predictions, prediction intervals and explained variance in new rows.

Symbols: x_P (q,) standardised variables of the panel, F = `weights` (d, q), L = `loadings` (d, p).
The standardised prediction of all variables is L'F x_P.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from ...data.row_groups import RowGroups
from ...errors import InputError
from .conformal import conformal_quantile, fit_exponent, min_calibration_rows, row_factor
from .folds import dense_columns, project_columns
from .missing_values import CompletedPanel, observed_means

# Maximum variance of a column of new rows, relative to its variance in `fit`, in `explained`.
MAX_VARIANCE_RATIO = 4.0


class FittedPanel(NamedTuple):
    """Fitted attributes required for predictions, as float64 arrays."""

    support: np.ndarray  # (p,) bool
    varying: np.ndarray  # (p,) bool
    weights: np.ndarray  # (d, q) map the panel, in the order of the columns, to scores
    loadings: np.ndarray  # (d, p)
    mean: np.ndarray  # (p,)
    scale: np.ndarray  # (p,)
    residual_std: np.ndarray  # (p,) in the units of the data
    width: np.ndarray  # (p,) half widths of intervals in an average row
    exponent: float  # see `conformal`
    covariance: np.ndarray  # (q, q) of the standardised panel
    depth: float  # total to which counts are scaled; 0 for other data

    def coefficients(self, columns: np.ndarray) -> np.ndarray:
        """Return the coefficients of the predictions of some columns, (k, q)."""
        return np.asarray(self.loadings[:, columns].T @ self.weights)


class Predictions(NamedTuple):
    """Predictions of the variables outside the panel, (n, p - q)."""

    mean: np.ndarray
    std: np.ndarray
    lower: np.ndarray
    upper: np.ndarray


def predict_others(
    panel: FittedPanel,
    rows: CompletedPanel,
    distance: np.ndarray,
    row_total: Callable[[], np.ndarray],
) -> Predictions:
    """Predict the variables outside the panel in the units of the data.

    ``distance`` (n,) are the panel distances of `conformal`. ``row_total`` returns the total counts
    of the rows and is called for counts only.
    """
    outside = np.flatnonzero(~panel.support)
    mean, scale, residual_std = panel.mean[outside], panel.scale[outside], panel.residual_std
    residual_std = residual_std[outside]
    coefficients = panel.coefficients(outside)
    predicted = (rows.values @ coefficients.T) * scale + mean
    std = np.sqrt(residual_std**2 + rows.added_variance(coefficients) * scale**2)
    # The additional variance due to missing values widens the intervals in proportion.
    ratio = std / np.maximum(residual_std, np.finfo(float).tiny)
    ratio = np.where(residual_std > 0.0, ratio, 1.0)
    half = panel.width[outside] * row_factor(distance, panel.exponent)[:, None] * ratio
    if not panel.depth:
        return Predictions(predicted, std, predicted - half, predicted + half)
    root, factor = np.maximum(predicted, 0.0), (row_total() / panel.depth)[:, None]
    return Predictions(
        # Mean and standard deviation of the square of a Gaussian root.
        factor * (root**2 + std**2),
        factor * np.sqrt(4.0 * root**2 * std**2 + 2.0 * std**4),
        factor * np.maximum(root - half, 0.0) ** 2,
        factor * (root + half) ** 2,
    )


# --- calibration


def calibrate_intervals(
    panel: FittedPanel,
    rows: np.ndarray,
    others: np.ndarray,
    distance: np.ndarray,
    coverage: float,
    name: Callable[[int], str],
) -> tuple[np.ndarray, float]:
    """Calibrate the intervals on new rows (split conformal prediction).

    ``rows`` (n, q) are the standardised variables of the panel, and ``others`` (n, k) the varying
    variables outside the panel; NaN if missing. ``name`` returns the name of a column for error
    messages. The result is the widths (p,) and the exponent.
    """
    columns = np.flatnonzero(panel.varying & ~panel.support)
    errors = np.abs(others - rows @ panel.coefficients(columns).T) * panel.scale[columns]
    squares = (errors / panel.residual_std[columns]) ** 2
    means = np.nanmean(np.where(np.isnan(squares), 1.0, squares), axis=1)
    exponent = fit_exponent(means, distance)
    scores = errors / row_factor(distance, exponent)[:, None]
    width, n_required = np.zeros(panel.support.size), min_calibration_rows(coverage)
    for k, column in enumerate(columns.tolist()):
        column_scores = scores[~np.isnan(scores[:, k]), k]
        if column_scores.size < n_required:
            raise InputError(
                f"Calibration of {coverage:.0%} intervals needs {n_required} rows with a value of "
                f"each variable, but X has {column_scores.size} of {name(column)}. Pass more rows, "
                "or fit with a smaller `coverage`."
            )
        width[column] = conformal_quantile(column_scores[:, None], coverage)[0]
    return width, exponent


# --- explained variance


class ColumnSquares(NamedTuple):
    """Sums of squares of the varying columns over new rows, (k,)."""

    residual: np.ndarray  # of the predictions; zero in the panel
    total: np.ndarray  # around the means of `fit`, or of the groups


def squares_of_operator(
    panel: FittedPanel, op: Operator, groups: RowGroups | None
) -> ColumnSquares:
    """Compute sums of squares of complete rows from products with the data."""
    kept = np.flatnonzero(panel.varying)
    inside, loadings = np.flatnonzero(panel.support[kept]), panel.loadings[:, kept]
    if groups is not None:
        op = groups.centre_operator(op)
    scores = dense_columns(op, inside) @ panel.weights.T
    squares = to_numpy(op.column_squares()).astype(float)
    residual = squares - 2.0 * np.sum(project_columns(op, scores) * loadings.T, axis=1)
    residual += np.sum((loadings.T @ (scores.T @ scores)) * loadings.T, axis=1)
    residual[inside] = 0.0
    return ColumnSquares(residual, squares)


def expected_squares(
    panel: FittedPanel, rows: CompletedPanel, entries: np.ndarray, groups: RowGroups | None
) -> ColumnSquares:
    """Compute sums of squares, with expected squares of missing entries.

    ``entries``, (n, k), are the varying columns, standardised; NaN if missing.
    """
    kept = np.flatnonzero(panel.varying)
    inside = np.flatnonzero(panel.support[kept])
    coefficients = panel.coefficients(kept)
    predicted, added = rows.values @ coefficients.T, rows.added_variance(coefficients)
    predicted[:, inside] = rows.values
    added[:, inside] = rows.added_variance(np.eye(inside.size))
    variance = added + (panel.residual_std[kept] / panel.scale[kept]) ** 2
    if groups is not None:
        predicted = predicted - observed_means(predicted, groups)
        entries = entries - observed_means(entries, groups)
    is_missing = np.isnan(entries)
    errors = np.where(is_missing, variance, (entries - predicted) ** 2)
    errors[:, inside] = np.where(is_missing[:, inside], errors[:, inside], 0.0)
    total = np.where(is_missing, predicted**2 + variance, entries**2).sum(axis=0)
    return ColumnSquares(errors.sum(axis=0), total)


def explained_proportion(squares: ColumnSquares, n_rows: int, is_scaled: bool) -> float:
    """Compute the proportion of explained variance of all columns.

    Scaled columns with little variance in `fit` would dominate the sums, so their weights are
    limited.
    """
    residual, total = squares
    if is_scaled:
        factor = 1.0 / np.maximum(total / (n_rows * MAX_VARIANCE_RATIO), 1.0)
        residual, total = factor * residual, factor * total
    whole = float(np.sum(total))
    return 1.0 - float(np.sum(residual)) / whole if whole else 1.0
