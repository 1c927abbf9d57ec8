"""Estimation of the noise scale of each row.

Samples differ in quality, dilution and sequencing depth, which changes the magnitudes of
uncorrelated columns together. The scale of a row is the median magnitude m of its standardised
entries, relative to the other rows. Shared variance in a minority of the columns changes a median
little.

With p columns, log m has the sampling variance v = 1.36 / p. By empirical Bayes, log m is
multiplied by the larger of 1 - v / (mean of log^2 m over the rows) and 1 - 9 v / log^2 m. Rows of
equal noise therefore remain nearly unchanged, whereas outlying rows are scaled down.

The scale depends only on the magnitudes of the entries, not on their signs. The null distribution
under sign flips (`null_distribution`) therefore also holds for the divided data.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy
from ..data.row_adjustment import RowAdjustment, intercept

_SAMPLING_VARIANCE = 1.36  # variance of log m times the number of columns, for Gaussian entries
_MIN_OUTLYING = 3.0  # number of standard errors of log m above which a row is outlying
_N_ITERATIONS = 2
# Number of columns, and of entries, from which the scales are estimated.
_MIN_COLUMNS, _MAX_COLUMNS = 64, 1000
_MAX_ENTRIES = 2**24
_MIN_VARIANCE = 1e-9  # relative variance below which a column is constant within groups


class EqualisedRows(NamedTuple):
    """Data with rows of equal scale."""

    op: Operator  # columns of equal variance, residuals of `adjustment`
    row_scale: np.ndarray  # (n,) relative to the median row
    adjustment: RowAdjustment  # design of the divided rows


def equalise_rows(op: Operator, adjustment: RowAdjustment | None = None) -> EqualisedRows:
    """Divide each row by its scale and standardise the columns again.

    The columns of ``op`` must have equal variance. Effects of groups and covariates are removed
    from the divided rows by a design that is divided by the same scales (weighted least squares).
    If residuals were divided afterwards, they would be correlated in the direction of the design.
    """
    adjustment = intercept(op.shape[0]) if adjustment is None else adjustment
    scale = estimate_row_scale(op, adjustment)
    like, weighted = op.like, adjustment.weight_rows(1.0 / scale)
    divided = weighted.adjust_operator(op.scale_rows(from_numpy(1.0 / scale, like, op.dtype)))
    return EqualisedRows(equalise_columns(divided), scale, weighted)


def equalise_columns(op: Operator) -> Operator:
    """Scale columns to unit variance; columns without variance become zero."""
    squares = to_numpy(op.column_squares()).astype(float)
    varies = squares > _MIN_VARIANCE * float(np.max(squares))
    n = float(op.shape[0])
    factors = np.sqrt(np.where(varies, n / np.where(varies, squares, 1.0), 0.0))
    equalised = op.scale_columns(from_numpy(factors, op.like, op.dtype))
    equalised.remember_column_squares(np.where(varies, n, 0.0))
    return equalised


def estimate_row_scale(
    op: Operator,
    adjustment: RowAdjustment,
    seen: np.ndarray | None = None,
    among: np.ndarray | None = None,
) -> np.ndarray:
    """Estimate the scale of each row, (n,).

    The residuals of a row are corrected for its leverage in the design. Missing entries, outside
    the mask ``seen``, are ignored. ``among`` contains the positions of the columns to use, by
    default all. If ``among`` is empty, the rows have equal scales.
    """
    n = op.shape[0]
    among = np.arange(op.shape[1]) if among is None else among
    p = among.size
    if p == 0:
        return np.ones(n)
    count = min(p, _MAX_COLUMNS, max(_MIN_COLUMNS, _MAX_ENTRIES // n))
    columns = among[np.unique(np.linspace(0, p - 1, count).astype(int))]
    Z = adjustment.residuals(to_numpy(op.take_columns(columns).dense()).astype(float))
    scale = np.ones(n)
    for _ in range(_N_ITERATIONS):
        weighted = adjustment.weight_rows(1.0 / scale)
        standardised = weighted.residuals(Z / scale[:, None])
        deviation = np.sqrt(np.mean(standardised**2, axis=0))
        standardised /= np.where(deviation > 0.0, deviation, np.inf)
        if seen is None:
            magnitudes = np.median(np.abs(standardised), axis=1, overwrite_input=True)
        else:
            magnitudes = _observed_median(np.abs(standardised), seen[:, columns])
        magnitudes *= np.sqrt(weighted.flip_correction)
        free = weighted.has_residual
        scale[free] *= _shrunken_scale(magnitudes[free], columns.size)
    return np.asarray(scale / float(np.median(scale)))


def _observed_median(magnitudes: np.ndarray, seen: np.ndarray) -> np.ndarray:
    """Compute the median of the observed entries of each row.

    For rows without observed entries, the median of all entries is used.
    """
    missing = ~seen.any(axis=1)
    observed = np.where(seen, magnitudes, np.nan)
    observed[missing] = np.nanmedian(observed)
    return np.asarray(np.nanmedian(observed, axis=1))


def _shrunken_scale(magnitudes: np.ndarray, p: int) -> np.ndarray:
    """Shrink the median magnitudes of rows of p entries, (n,)."""
    typical = float(np.median(magnitudes))
    if typical <= 0.0:  # most entries equal their column mean
        return np.ones(magnitudes.size)
    log_scale = np.log(np.maximum(magnitudes / typical, 1e-3))
    variance, squares = _SAMPLING_VARIANCE / p, np.maximum(log_scale**2, 1e-300)
    common = max(1.0 - variance / float(np.mean(squares)), 0.0)
    own = 1.0 - _MIN_OUTLYING**2 * variance / squares
    return np.asarray(np.exp(np.maximum(common, own) * log_scale))
