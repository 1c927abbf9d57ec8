"""Conformal prediction intervals for each unmeasured variable.

The interval of variable j in row i is the prediction plus or minus c_j g_i. The factor

    g_i = (x_P' S^-1 x_P / q)^(b/2)

follows from the panel of the row: rows whose q panel variables x_P are far from their means,
relative to the covariance S, have larger errors. The exponent b, between 0 and 1, is the slope of
the logarithm of the mean squared error of a row. The width c_j is the k-th smallest of the m
absolute errors of the calibration rows, divided by g_i, with k = ceil((m + 1) coverage). If `fit`
has not used the calibration rows, the interval covers a new row with at least this probability for
any distribution (Vovk, Gammerman & Shafer 2005; Lei et al. 2018).

Some rows have larger errors than others. For each variable, the rows are divided into fifths by the
mean squared error of *the other* variables. Division by the error of the variable itself would
select the entries that its interval misses. All widths are multiplied by the smallest factor, at
least 1, that covers the last fifth with probability 1 - 1.6 (1 - coverage): 92 % for intervals of
95 %.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.stats import t as student_t

from ...data import Operator
from .factors import FactorModel
from .folds import Fold, dense_columns
from .heldout_r2 import posterior_weights
from .missing_values import missing_patterns

MAX_ROWS = 2_000  # maximum number of held-out rows that calibrate the intervals
_MAX_ENTRIES = 2e7  # of the columns that are processed at a time
_ROUNDING = 1e-9  # rounding error of a rank
WORST_ROWS = 1.6  # maximum error rate of the rows with the largest errors, relative to all
N_ROW_GROUPS = 5  # groups of rows by their error
_MAX_SAMPLED_COLUMNS = 400  # columns that determine the dependence on the row
_MIN_DISTANCE = 0.05  # smaller panel distances do not narrow the intervals further


class Calibration(NamedTuple):
    """Widths and coverage of the intervals, and standard errors of the R2."""

    width: np.ndarray  # (p,) c
    exponent: float  # b
    r2_std: np.ndarray  # (p,) standard error of the held-out R2
    # Coverage of held-out entries by intervals calibrated without their fold.
    coverage: np.ndarray  # (p,) of each variable
    coverage_by_fifth: np.ndarray  # (5,) see `order_by_error`
    rows: np.ndarray  # (m,) rows that calibrated the intervals
    row_coverage: np.ndarray  # (m,)


def panel_distance(values: np.ndarray, covariance: np.ndarray) -> np.ndarray:
    """Compute x'S^-1 x / q of the panel variables of each row, (n,).

    Missing values (NaN) are ignored and not counted in q.
    """
    is_missing = np.isnan(values)
    distance = np.ones(values.shape[0])
    complete = np.flatnonzero(~is_missing.any(axis=1)), np.zeros(values.shape[1], dtype=bool)
    for rows, missing in (complete, *missing_patterns(is_missing)):
        observed = np.flatnonzero(~missing)
        if observed.size and rows.size:
            x, S = values[np.ix_(rows, observed)], covariance[np.ix_(observed, observed)]
            distance[rows] = np.sum(x * np.linalg.solve(S, x.T).T, axis=1) / observed.size
    return distance


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
    """Return the minimum number of scores for a given coverage."""
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


class Intervals(NamedTuple):
    """Interval widths of some columns, and errors relative to these widths."""

    width: np.ndarray  # (k,)
    ratios: np.ndarray  # (m, k) errors relative to the width without the fold of the row


def fit_intervals(
    errors: np.ndarray, factor: np.ndarray, fold_of: np.ndarray, coverage: float
) -> Intervals:
    """Compute the widths of the intervals of some columns.

    ``errors``, (m, k), are absolute errors; ``factor``, (m,), is g; ``fold_of``, (m,), numbers the
    folds of the rows. With a single fold, ratios refer to the width itself.
    """
    scores = errors / factor[:, None]
    width = conformal_quantile(scores, coverage)
    ratios = np.empty_like(scores)
    for fold in np.unique(fold_of):
        inside = fold_of == fold
        other = width if inside.all() else conformal_quantile(scores[~inside], coverage)
        ratios[inside] = scores[inside] / np.maximum(other, np.finfo(float).tiny)
    return Intervals(width, ratios)


def order_by_error(errors: np.ndarray, distance: np.ndarray) -> np.ndarray:
    """Assign the rows to fifths by the errors of the other columns, (m, k).

    ``errors``, (m, k), are absolute errors. The fifths are ordered by the mean squared relative
    error of the other columns; for a single column, by ``distance``, (m,).
    """
    relative = errors**2
    relative /= np.maximum(relative.mean(axis=0), 1e-300)
    means = relative.sum(axis=1, keepdims=True) - relative
    if errors.shape[1] == 1:
        means = distance[:, None]
    ranks = np.argsort(np.argsort(means, axis=0, kind="stable"), axis=0, kind="stable")
    return np.asarray(ranks * N_ROW_GROUPS // errors.shape[0])


def widening(ratios: np.ndarray, fifth: np.ndarray, coverage: float) -> float:
    """Compute the factor by which intervals are widened, at least 1.

    ``ratios`` and ``fifth``, (m, k), are those of `Intervals` and `order_by_error`. With this
    factor, the error rate of the intervals in the last fifth is at most `WORST_ROWS` (1 -
    ``coverage``).
    """
    worst = ratios[fifth == N_ROW_GROUPS - 1]
    proportion = max(1.0 - WORST_ROWS * (1.0 - coverage), 0.0)
    return max(1.0, float(np.quantile(worst, proportion, method="higher")))


def calibrate_on_folds(
    op: Operator,
    folds: list[Fold],
    models: list[FactorModel],
    panel: np.ndarray,
    coverage: float,
    seed: int,
) -> Calibration:
    """Calibrate the intervals on the held-out rows of all folds.

    The folds hold out each row at most once, and ``models`` are those of their training rows.
    ``seed`` determines the sample of columns from which the exponent is estimated. Widths are zero
    for variables of the panel.
    """
    p = op.shape[1]
    n_rows = max(MAX_ROWS // len(folds), 1)
    rows = [np.flatnonzero(fold.held_out)[:n_rows] for fold in folds]
    fold_of = np.repeat(np.arange(len(folds)), [index.size for index in rows])
    panel_columns = dense_columns(op, panel)
    distances, factors = [], []
    for fold, model, index in zip(folds, models, rows, strict=True):
        x = panel_columns[index] - fold.mean[panel]
        W = model.W[panel]
        distances.append(panel_distance(x, W @ W.T + np.diag(model.psi[panel])))
        factors.append(x @ posterior_weights(model, panel).T)
    distance, all_rows = np.concatenate(distances), np.concatenate(rows)

    def errors_of(columns: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Compute the absolute errors of some columns, and the centred columns."""
        values, start = dense_columns(op, columns)[all_rows], 0
        errors = np.empty_like(values)
        for fold, model, z in zip(folds, models, factors, strict=True):
            part = slice(start, start + z.shape[0])
            values[part] -= fold.mean[columns]
            errors[part] = values[part] - z @ model.W[columns].T
            start = part.stop
        return np.abs(errors), values

    width, r2_std, covered = np.zeros(p), np.zeros(p), np.ones(p)
    exponent, factor, row_coverage = 0.0, 1.0, np.ones(all_rows.size)
    by_fifth = np.ones(N_ROW_GROUPS)
    others = np.setdiff1d(np.arange(p), panel)
    if others.size:
        sample = np.sort(np.random.default_rng(seed).permutation(others)[:_MAX_SAMPLED_COLUMNS])
        errors, _ = errors_of(sample)
        squares = errors**2
        relative = squares / np.maximum(squares.mean(axis=0), 1e-300)
        exponent = fit_exponent(relative.mean(axis=1), distance)
        growth, fifth = row_factor(distance, exponent), order_by_error(errors, distance)
        ratios = fit_intervals(errors, growth, fold_of, coverage).ratios
        factor = widening(ratios, fifth, coverage)
        is_covered = ratios <= factor
        row_coverage = is_covered.mean(axis=1)
        if all_rows.size >= N_ROW_GROUPS:
            by_fifth = np.array([is_covered[fifth == k].mean() for k in range(N_ROW_GROUPS)])
        step = max(int(_MAX_ENTRIES // op.shape[0]), 1)
        for start in range(0, others.size, step):
            chunk = others[start : start + step]
            errors, values = errors_of(chunk)
            squares, mean_square = errors**2, np.maximum(np.mean(values**2, axis=0), 1e-300)
            # Standard error of a ratio of means, by linearisation.
            ratio = squares.mean(axis=0) / mean_square
            r2_std[chunk] = (squares - ratio * values**2).std(axis=0) / mean_square
            intervals = fit_intervals(errors, growth, fold_of, coverage)
            width[chunk] = factor * intervals.width
            covered[chunk] = np.mean(intervals.ratios <= factor, axis=0)
    r2_std /= np.sqrt(max(distance.size - 1, 1))
    return Calibration(width, exponent, r2_std, covered, by_fifth, all_rows, row_coverage)
