"""Counts as residuals: what is left of them when each row has its size and each column its share.

Rows of counts differ in size: cells in how many molecules were caught, texts in length. Any two
columns then vary together, through nothing but size, and logarithms or roots of shares do not help:
small rows have another bias and other noise than large ones, in all columns at once. Where rows
differ in nothing but size, the count x_ij has the mean and the variance N_i pi_j, for the size N_i
of the row and the share pi_j of the column, so that *Pearson's residuals*

    z_ij = (x_ij - N_i pi_j) / sqrt(N_i pi_j)

have the mean 0 and the variance 1 in every row and column (Lause, Berens & Kobak 2021). Two steps
more make rows alike that are not so in real tables:

* *Size* is not the total of a row: columns that vary much and hold many counts would push all
  others down. It is a sum with weights 1 / V_j, where V_j is the mean square of the residuals of
  column j, which is 1 for a column without structure.
* *Noise*: counts vary more than that, and the more the larger the row. Every row is divided by
  s_i, the root mean square of its residuals, each in units of its column.

Up to the scale of a column this is diag(a) (X - N pi') with a_i = 1 / (s_i sqrt(N_i)): the table
itself, rows scaled, less a part of rank one. A sparse table stays sparse.

J. Lause, P. Berens, D. Kobak. Analytic Pearson residuals for normalization of single-cell RNA-seq
UMI data. Genome Biology 22, 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .arrays import from_numpy, to_numpy
from .operators.base import Operator
from .operators.shifted import ShiftedOperator
from .operators.weighted import WeightedOperator

# Sizes and mean squares depend on each other; after so many rounds both stay.
_ROUNDS = 3
MAX_ROUNDING = 1e-4  # proportion of a sum of squares that is taken for rounding, at most


class Null(NamedTuple):
    """What columns of counts would be if rows differed in nothing but size."""

    weights: np.ndarray  # (p,) of the columns in the size of a row
    shares: np.ndarray  # (p,) pi; 0 for columns without counts
    noise: np.ndarray  # (p,) V, the mean squares of Pearson's residuals; 0 if they are rounding


class Rows(NamedTuple):
    """What is known of some rows of counts under a null model."""

    size: np.ndarray  # (n,) N
    factor: np.ndarray  # (n,) a


class Moments(NamedTuple):
    """Means and standard deviations of the residuals of columns."""

    mean: np.ndarray  # (p,)
    deviation: np.ndarray  # (p,) 0 if it is rounding


def null_of(counts: Operator, squares: Operator) -> Null:
    """Sizes and shares of a table.

    Parameters
    ----------
    counts : Operator
        The counts, not centred.
    squares : Operator
        Their squares.

    Returns
    -------
    Null
    """
    n, p = counts.shape
    totals = _onto_columns(counts, np.ones(n))
    everything = float(totals.sum())
    shares = totals / everything
    noise = np.ones(p)
    for _ in range(_ROUNDS):
        weights = 1.0 / np.maximum(noise, 1.0)
        size = _onto_rows(counts, weights)
        weights = weights * (everything / float(size.sum()))
        size = np.maximum(size * (everything / float(size.sum())), _least(everything, n))
        # sum_i (x - N pi)^2 / (N pi), where sum_i N pi is the total of the column
        squared = _over(_onto_columns(squares, 1.0 / size), shares) - totals
        squared = np.where(squared > _rounding(counts) * totals, squared, 0.0)
        noise = np.where(totals > 0.0, squared / n, 1.0)
    return Null(weights, shares, noise)


def rows_of(counts: Operator, squares: Operator, null: Null) -> Rows:
    """Size and factor of some rows, which may be new ones.

    Parameters
    ----------
    counts : Operator
        The counts, not centred.
    squares : Operator
        Their squares.
    null : Null

    Returns
    -------
    Rows
    """
    weights, shares, noise = null
    present = (shares > 0.0) & (noise > 0.0)
    inverse = np.where(present, 1.0 / np.where(present, noise, 1.0), 0.0)
    size = _onto_rows(counts, weights)
    size = np.maximum(size, _least(float(size.sum()), size.size))
    # sum_j (x - N pi)^2 / (N pi V)
    total = _onto_rows(squares, _over(inverse, shares)) / size
    total += float(shares @ inverse) * size - 2.0 * _onto_rows(counts, inverse)
    spread = np.sqrt(np.maximum(total / max(int(present.sum()), 1), 1e-12))
    return Rows(size, 1.0 / (spread * np.sqrt(size)))


def moments_of(counts: Operator, squares: Operator, null: Null, rows: Rows) -> Moments:
    """Means and standard deviations of the columns of diag(a) (X - N pi').

    Parameters
    ----------
    counts : Operator
        The counts, not centred.
    squares : Operator
        Their squares.
    null : Null
    rows : Rows

    Returns
    -------
    Moments
    """
    (size, factor), pi, n = rows, null.shares, counts.shape[0]
    weight = factor**2
    mean = (_onto_columns(counts, factor) - pi * float(factor @ size)) / n
    raw = _onto_columns(squares, weight)
    square = raw - 2.0 * pi * _onto_columns(counts, weight * size)
    square += pi**2 * float(weight @ size**2)
    variance = square / n - mean**2
    varying = (null.noise > 0.0) & (variance > _rounding(counts) * raw / n)
    return Moments(mean, np.sqrt(np.where(varying, variance, 0.0)))


def residuals_of(counts: Operator, shares: np.ndarray, rows: Rows, mean: np.ndarray) -> Operator:
    """diag(a) (X - N pi') less the means of its columns.

    Parameters
    ----------
    counts : Operator
        The counts, not centred; columns may be divided by anything.
    shares : array (p,)
        pi, divided by the same.
    rows : Rows
        Of these rows.
    mean : array (p,)
        Of the columns, divided by the same.

    Returns
    -------
    Operator
    """
    like = counts.column_squares()

    def there(array: np.ndarray) -> np.ndarray:
        return from_numpy(array, like, counts.dtype)

    less = ShiftedOperator(counts, there(rows.size[:, None]), there(shares[None, :]))
    scaled = WeightedOperator(less, there(rows.factor))
    return ShiftedOperator(scaled, there(np.ones((rows.size.size, 1))), there(mean[None, :]))


def _over(numerator: np.ndarray, shares: np.ndarray) -> np.ndarray:
    """Divided by shares, and zero where there is none."""
    return np.where(shares > 0.0, numerator / np.where(shares > 0.0, shares, 1.0), 0.0)


def _rounding(counts: Operator) -> float:
    """Relative rounding error of a sum over the rows."""
    return min(counts.shape[0] * counts.epsilon, MAX_ROUNDING)


def _least(total: float, n: int) -> float:
    """A size below which no row is: one with counts in columns of little weight alone."""
    return 1e-9 * total / max(n, 1)


def _onto_columns(op: Operator, y: np.ndarray) -> np.ndarray:
    """X'y on the host, (p,)."""
    there = from_numpy(y[:, None], op.column_squares(), op.dtype)
    return to_numpy(op.rmatmul(there)).astype(float)[:, 0]


def _onto_rows(op: Operator, f: np.ndarray) -> np.ndarray:
    """X f on the host, (n,)."""
    there = from_numpy(f[:, None], op.column_squares(), op.dtype)
    return to_numpy(op.gathered_matmul(there)).astype(float)[:, 0]
