"""Conformal prediction intervals for each unmeasured variable.

The interval of variable j in row i is the prediction plus or minus c_j g_i. The factor

    g_i = (x_P' S^-1 x_P / q)^(b/2)

follows from the panel of the row: rows whose q panel variables are far from their means, relative
to their covariance S, have larger errors. The exponent b, between 0 and 1, is the slope of the
logarithm of the mean squared error of a row. The width c_j is a quantile of the absolute errors of
calibration rows, divided by g_i: the k-th smallest of m, k = ceil((m + 1) coverage). If the
calibration rows have not been used by `fit`, the interval covers a new row with at least this
probability, whatever the distribution (Vovk, Gammerman & Shafer 2005; Lei et al. 2018).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from ...data import Operator
from .factors import FactorModel
from .folds import Fold, dense_columns
from .heldout_r2 import posterior_weights

MAX_ROWS = 2_000  # maximum number of held-out rows that calibrate the intervals
_MAX_ENTRIES = 2e7  # of the columns that are processed at a time
_ROUNDING = 1e-9  # rounding error of a rank
_MIN_DISTANCE = 0.05  # smaller mean squares of the panel do not narrow the intervals


class Calibration(NamedTuple):
    """Widths of the intervals and errors of the R2 of each variable."""

    width: np.ndarray  # (p,) c
    exponent: float  # b
    r2_std: np.ndarray  # (p,) standard error of the held-out R2


def panel_distance(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Compute x'S^-1 x / q of the panel variables of each row, (n,).

    Missing values (NaN) are ignored, also in q.
    """
    is_missing = np.isnan(values)
    if not is_missing.any():
        return _distance(values, covariance)
    distance = np.ones(values.shape[0])
    patterns, number = np.unique(is_missing, axis=0, return_inverse=True)
    for k, missing in enumerate(patterns):
        rows, observed = np.flatnonzero(number.ravel() == k), np.flatnonzero(~missing)
        if observed.size:
            part = covariance[np.ix_(observed, observed)]
            distance[rows] = _distance(values[np.ix_(rows, observed)], part)
    return distance


def _distance(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    return np.asarray(
        np.sum(values * np.linalg.solve(covariance, values.T).T, axis=1) / values.shape[1]
    )


def row_factor(distance: np.ndarray, exponent: float) -> np.ndarray:
    """Compute g of each row."""
    return np.asarray(np.maximum(distance, _MIN_DISTANCE) ** (0.5 * exponent))


def fit_exponent(errors: np.ndarray, distance: np.ndarray) -> float:
    """Estimate b by least squares.

    ``errors``, (n,), are mean squared errors of the rows.
    """
    x, y = np.log(np.maximum(distance, _MIN_DISTANCE)), np.log(np.maximum(errors, 1e-300))
    x, y = x - x.mean(), y - y.mean()
    return float(np.clip(x @ y / max(float(x @ x), 1e-300), 0.0, 1.0))


def min_calibration_rows(coverage: float) -> int:
    """Return the smallest number of scores whose largest covers with this probability."""
    return int(np.ceil(coverage / (1.0 - coverage) - _ROUNDING))


def conformal_quantile(scores: np.ndarray, coverage: float) -> np.ndarray:
    """Return the k-th smallest score of each column, k = ceil((m + 1) coverage).

    If there are too few scores, the width is that of a t interval, but at least the largest score.
    """
    m = scores.shape[0]
    if m < min_calibration_rows(coverage):
        quantile = student_t.ppf(0.5 * (1.0 + coverage), m) * np.sqrt(1.0 + 1.0 / m)
        return np.maximum(quantile * np.sqrt(np.mean(scores**2, axis=0)), scores.max(axis=0))
    k = int(np.ceil((m + 1) * coverage - _ROUNDING))
    return np.asarray(np.partition(scores, k - 1, axis=0)[k - 1])


def calibrate_on_folds(
    op: Operator,
    folds: list[Fold],
    models: list[FactorModel],
    panel: np.ndarray,
    coverage: float,
) -> Calibration:
    """Calibrate the intervals on held-out rows, each predicted by the model of its fold.

    Parameters
    ----------
    op : Operator
    folds : list of Fold
        Folds that hold out each row at most once.
    models : list of FactorModel
        Models of the training rows of each fold.
    panel : int ndarray of shape (q,)
    coverage : float
        Probability with which an interval covers a value.

    Returns
    -------
    Calibration
        Widths are zero for variables of the panel.
    """
    p = op.shape[1]
    n_rows = max(MAX_ROWS // len(folds), 1)
    rows = [np.flatnonzero(fold.held_out)[:n_rows] for fold in folds]
    panel_columns = dense_columns(op, panel)
    distances, factors = [], []
    for fold, model, index in zip(folds, models, rows, strict=True):
        x = panel_columns[index] - fold.mean[panel]
        W = model.W[panel]
        distances.append(panel_distance(x, W @ W.T + np.diag(model.psi[panel])))
        factors.append(x @ posterior_weights(model, panel).T)
    distance, all_rows = np.concatenate(distances), np.concatenate(rows)

    def errors_of(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the errors of some columns, and the centred columns."""
        values, start = dense_columns(op, columns)[all_rows], 0
        errors = np.empty_like(values)
        for fold, model, z in zip(folds, models, factors, strict=True):
            part = slice(start, start + z.shape[0])
            values[part] -= fold.mean[columns]
            errors[part] = values[part] - z @ model.W[columns].T
            start = part.stop
        return errors, values

    others = np.setdiff1d(np.arange(p), panel)
    step = max(int(_MAX_ENTRIES // op.shape[0]), 1)
    chunks = [others[start : start + step] for start in range(0, others.size, step)]
    width, r2_std = np.zeros(p), np.zeros(p)
    exponent = 0.0
    for number, chunk in enumerate(chunks):
        errors, values = errors_of(chunk)
        squares, mean_square = errors**2, np.maximum(np.mean(values**2, axis=0), 1e-300)
        if number == 0:
            relative = squares / np.maximum(squares.mean(axis=0), 1e-300)
            exponent = fit_exponent(relative.mean(axis=1), distance)
        # Standard error of a ratio of means, by linearisation.
        ratio = squares.mean(axis=0) / mean_square
        r2_std[chunk] = (squares - ratio * values**2).std(axis=0) / mean_square
        scores = np.abs(errors) / row_factor(distance, exponent)[:, None]
        width[chunk] = conformal_quantile(scores, coverage)
    return Calibration(width, exponent, r2_std / np.sqrt(max(distance.size - 1, 1)))
