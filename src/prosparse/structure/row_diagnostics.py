"""Diagnostics of rows: correlation, influence, outliers and duplicates."""

from __future__ import annotations

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy
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
_N_PROJECTIONS = 3  # number of random projections by which equal rows are found
_FEW_COLUMNS = 20  # number of columns up to which one pair of equal rows may be a coincidence
_MAX_COINCIDENCES = 1e-3  # expected number of equal pairs above which equal rows may be a coincidence
_MAX_LISTED = 5  # rows that a message lists


def adjacent_row_correlation(data: StandardisedData, scores: np.ndarray) -> float:
    """Estimate the mean lag-1 correlation given the components.

    The result is 0 if it is small or not significant.

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


def count_duplicates(op: Operator) -> int:
    """Count the rows that equal an earlier row (`find_duplicates`)."""
    return len(find_duplicates(op))


def find_duplicates(op: Operator) -> np.ndarray:
    """Find the rows that equal another row: pairs of row indices, (n_pairs, 2).

    Equal rows have equal projections on random directions. Rows with few discrete columns are often
    equal by coincidence. Such rows are reported only if no rows are equal after permutation of each
    column. With few columns, a single pair of equal rows is not reported.
    """
    rng = np.random.default_rng(0)
    n, p = op.shape
    directions = from_numpy(rng.standard_normal((p, _N_PROJECTIONS)), op.like, op.dtype)
    projections = to_numpy(op.gathered_matmul(directions)).astype(float)
    pairs = _equal_pairs(projections, 1e3 * op.epsilon)
    none = np.empty((0, 2), dtype=int)
    if not len(pairs):
        return none
    if len(pairs) == 1 and p <= _FEW_COLUMNS and _expected_equal_pairs(op) > _MAX_COINCIDENCES:
        return none
    columns = np.unique(np.linspace(0, p - 1, min(p, max(1, _MAX_ENTRIES // n))).astype(int))
    permuted = rng.permuted(to_numpy(op.take_columns(columns).dense()).astype(float), axis=0)
    by_chance = _equal_pairs(permuted @ rng.standard_normal((columns.size, 1)), 1e3 * op.epsilon)
    return none if len(by_chance) else pairs


def _expected_equal_pairs(op: Operator) -> float:
    """Compute an upper estimate of the number of coincidental equal pairs.

    The log probability of agreement is halved to allow for dependent columns.
    """
    n, p = op.shape
    values = to_numpy(op.take_columns(np.arange(p)).dense()).astype(float)
    repeated = 0.0  # logarithm of the probability that two rows agree
    for column in values.T:
        _, counts = np.unique(np.round(column, 9), return_counts=True)
        repeated += float(np.log(np.sum((counts / n) ** 2)))
    return float(0.5 * n**2 * np.exp(0.5 * repeated))


def _equal_pairs(projections: np.ndarray, tolerance: float) -> np.ndarray:
    """Return the pairs of equal rows that are adjacent in projection."""
    order = np.argsort(projections[:, 0], kind="stable")
    ordered = projections[order]
    gaps = np.abs(np.diff(ordered, axis=0))
    scale = np.sqrt(np.mean(ordered * ordered, axis=0))
    equal = np.flatnonzero(np.all(gaps <= tolerance * scale, axis=1))
    pairs = np.stack([order[equal], order[equal + 1]], axis=1)
    return np.sort(pairs, axis=1)


def list_rows(rows: np.ndarray) -> str:
    """Name rows by their positions, the first few of many: "rows 0, 17 and 31"."""
    names = [str(row) for row in rows[:_MAX_LISTED]]
    if rows.size > _MAX_LISTED:
        return f"rows {', '.join(names)} and {plural(rows.size - _MAX_LISTED, 'other')}"
    if rows.size == 1:
        return f"row {names[0]}"
    return f"rows {', '.join(names[:-1])} and {names[-1]}"
