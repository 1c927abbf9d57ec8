"""Rows of unequal noise: the scale of each row, and data divided by it.

Samples differ in quality, dilution and depth: the magnitudes of uncorrelated columns rise and fall
together. The scale of a row is the median magnitude m of its standardised entries, relative to the
other rows. Structure in a minority of the columns changes a median little.

With p columns, log m has the sampling variance v = 1.36 / p. It is shrunk towards 0 by empirical
Bayes: multiplied by 1 - v / (mean of log^2 m over the rows), or by 1 - 9 v / log^2 m if that is
larger. Rows of equal noise are therefore left nearly unchanged, and outlying rows are not.

The scale depends on the magnitudes of the entries only, never on their signs. The null
distribution under sign flips (`null_distribution`) therefore holds for the divided data as well.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy
from ..data.row_groups import RowGroups, single_group

_SAMPLING_VARIANCE = 1.36  # of log m, times the number of columns, for Gaussian entries
_MIN_OUTLYING = 3.0  # standard errors of log m beyond which a row counts as outlying
_N_ITERATIONS = 2
# Number of columns, and of entries, from which the scales are estimated.
_MIN_COLUMNS, _MAX_COLUMNS = 64, 1000
_MAX_ENTRIES = 2**24
_MIN_VARIANCE = 1e-9  # relative variance below which a column is constant within groups


class EqualisedRows(NamedTuple):
    """Data with rows of equal scale."""

    op: Operator  # columns of equal variance, centred (within groups)
    row_scale: np.ndarray  # (n,) relative to the median row


def equalise_rows(
    op: Operator, groups: RowGroups | None = None, *, is_centred: bool = False
) -> EqualisedRows:
    """Divide each row by its scale and standardise the columns again.

    The columns of ``op`` have equal variance and mean 0. They are centred within the groups before
    and after the division: differences between groups divided by unequal scales would remain.
    ``is_centred`` states that they are centred within the groups already, at any estimate.
    """
    rows = single_group(op.shape[0]) if groups is None else groups
    if rows.sizes.size > 1 and not is_centred:
        op = rows.centre_operator(op)
    scale = estimate_row_scale(op, rows)
    like = op.column_squares()
    divided = rows.centre_operator(op.scale_rows(from_numpy(1.0 / scale, like, op.dtype)))
    squares = to_numpy(divided.column_squares()).astype(float)
    varies = squares > _MIN_VARIANCE * float(np.max(squares))
    n = float(op.shape[0])
    factors = np.sqrt(np.where(varies, n / np.where(varies, squares, 1.0), 0.0))
    equalised = divided.scale_columns(from_numpy(factors, like, op.dtype))
    equalised.remember_column_squares(np.where(varies, n, 0.0))
    return EqualisedRows(equalised, scale)


def estimate_row_scale(op: Operator, rows: RowGroups) -> np.ndarray:
    """Estimate the scale of each row from up to 1,000 evenly spaced columns, (n,)."""
    n, p = op.shape
    count = min(p, _MAX_COLUMNS, max(_MIN_COLUMNS, _MAX_ENTRIES // n))
    columns = np.unique(np.linspace(0, p - 1, count).astype(int))
    Z = to_numpy(op.take_columns(columns).dense()).astype(float)
    Z = rows.centre(Z)
    scale = np.ones(n)
    for _ in range(_N_ITERATIONS):
        standardised = rows.centre(Z / scale[:, None])
        deviation = np.sqrt(np.mean(standardised**2, axis=0))
        standardised /= np.where(deviation > 0.0, deviation, np.inf)
        magnitudes = np.median(np.abs(standardised), axis=1, overwrite_input=True)
        scale *= _shrunken_scale(magnitudes, columns.size)
    return np.asarray(scale / float(np.median(scale)))


def _shrunken_scale(magnitudes: np.ndarray, p: int) -> np.ndarray:
    """Shrink the median magnitudes of rows of p entries towards their median, (n,)."""
    typical = float(np.median(magnitudes))
    if typical <= 0.0:  # most entries equal the mean of their column
        return np.ones(magnitudes.size)
    log_scale = np.log(np.maximum(magnitudes / typical, 1e-3))
    variance, squares = _SAMPLING_VARIANCE / p, np.maximum(log_scale**2, 1e-300)
    common = max(1.0 - variance / float(np.mean(squares)), 0.0)
    own = 1.0 - _MIN_OUTLYING**2 * variance / squares
    return np.asarray(np.exp(np.maximum(common, own) * log_scale))
