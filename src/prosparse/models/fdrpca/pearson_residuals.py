"""Pearson residuals of counts.

Rows of counts differ in their totals: cells in sequencing depth, texts in length. These differences
alone make all columns correlated. If rows differ in their size factor N_i only and columns in their
proportion pi_j, a Poisson count x_ij has mean and variance N_i pi_j. The *Pearson residual*

    z_ij = (x_ij - N_i pi_j) / sqrt(N_i pi_j)

has mean 0 and variance 1 in each row and column (Lause, Berens & Kobak 2021). Two adjustments make
rows of real data comparable:

* The *size factor* of a row is a weighted sum of its counts, because variable columns with many
  counts would dominate the total. The weights are 1 / V_j, where V_j is the mean squared residual
  of column j; it is 1 without shared variance.
* *Overdispersion* grows with the size factor. Each row is therefore divided by s_i, the root mean
  square of its residuals relative to those of their columns.

Up to the scale of the columns this is diag(a) (X - N pi') with a_i = 1 / (s_i sqrt(N_i)): a matrix
with scaled rows minus a matrix of rank one. A sparse X stays sparse.

Residuals of rare columns have heavy tails: a few counts exceed the mean by many standard
deviations. Rows of a rare group, in which such columns are large, differ more from each other than
from rows of other groups. Scores therefore limit residuals to `MAX_RESIDUAL` standard deviations
(`limited_scores`); the test and the components do not.

J. Lause, P. Berens, D. Kobak. Analytic Pearson residuals for normalization of single-cell RNA-seq
UMI data. Genome Biology 22, 2021.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Array, Operator
from ...data.arrays import from_numpy, to_numpy
from ...data.operators.base import Block, LazyRows
from ...data.operators.shifted import ShiftedOperator
from ...data.operators.weighted import WeightedOperator
from ...data.row_adjustment import RowAdjustment

N_ITERATIONS = 3  # size factors and mean squares depend on each other and converge quickly
MAX_ROUNDING = 1e-4  # maximum proportion of a sum of squares that is attributed to rounding
MIN_RELATIVE_SIZE = 1e-9  # minimum size factor relative to the mean of all rows
MAX_RESIDUAL = 3.0  # maximum residual in scores, in standard deviations of the column


class CountModel(NamedTuple):
    """Null model of counts: rows differ in their size factors only."""

    weights: np.ndarray  # (p,) weights of the columns in the size factors
    proportions: np.ndarray  # (p,) pi; 0 for columns without counts
    dispersion: np.ndarray  # (p,) V, mean squared residuals; 0 if these are rounding errors


class RowFactors(NamedTuple):
    """Size factors and scales of rows under a `CountModel`."""

    size: np.ndarray  # (n,) N
    factor: np.ndarray  # (n,) a

    @property
    def expected(self) -> np.ndarray:
        """Multipliers a N of the proportions in the residuals, (n,)."""
        return self.size * self.factor


class Moments(NamedTuple):
    """Means and standard deviations of the residuals of each column."""

    mean: np.ndarray  # (p,)
    deviation: np.ndarray  # (p,) 0 if it is a rounding error


def fit_count_model(counts: Operator) -> CountModel:
    """Estimate weights, proportions and dispersions of the columns.

    Parameters
    ----------
    counts : Operator of shape (n, p)
        Counts, not centred.

    Returns
    -------
    CountModel
    """
    n, p = counts.shape
    totals = _rmatvec(counts, np.ones(n))
    grand_total = float(totals.sum())
    proportions = totals / grand_total
    dispersion = np.ones(p)
    for _ in range(N_ITERATIONS):
        weights = 1.0 / np.maximum(dispersion, 1.0)
        size = _matvec(counts, weights)
        normaliser = grand_total / float(size.sum())
        weights = weights * normaliser
        size = np.maximum(size * normaliser, _min_size(grand_total, n))
        # sum_i (x - N pi)^2 / (N pi), where sum_i N pi is the total of the column
        squared = _divide(_squares_rmatvec(counts, 1.0 / size), proportions) - totals
        squared = np.where(squared > _rounding(counts) * totals, squared, 0.0)
        dispersion = np.where(totals > 0.0, squared / n, 1.0)
    return CountModel(weights, proportions, dispersion)


def row_factors(counts: Operator, model: CountModel) -> RowFactors:
    """Compute size factors and scales of training rows or new rows.

    Parameters
    ----------
    counts : Operator of shape (n, p)
        Counts, not centred.
    model : CountModel

    Returns
    -------
    RowFactors
    """
    weights, proportions, dispersion = model
    present = (proportions > 0.0) & (dispersion > 0.0)
    inverse = np.where(present, 1.0 / np.where(present, dispersion, 1.0), 0.0)
    size = _matvec(counts, weights)
    size = np.maximum(size, _min_size(float(size.sum()), size.size))
    # sum_j (x - N pi)^2 / (N pi V)
    total = _squares_matvec(counts, _divide(inverse, proportions)) / size
    total += float(proportions @ inverse) * size - 2.0 * _matvec(counts, inverse)
    root_mean_square = np.sqrt(np.maximum(total / max(int(present.sum()), 1), 1e-12))
    return RowFactors(size, 1.0 / (root_mean_square * np.sqrt(size)))


def column_moments(counts: Operator, model: CountModel, rows: RowFactors) -> Moments:
    """Compute means and deviations of the columns of diag(a) (X - N pi').

    Parameters
    ----------
    counts : Operator of shape (n, p)
        Counts, not centred.
    model : CountModel
    rows : RowFactors

    Returns
    -------
    Moments
    """
    (size, factor), pi, n = rows, model.proportions, counts.shape[0]
    weight = factor**2
    mean = (_rmatvec(counts, factor) - pi * float(factor @ size)) / n
    raw = _squares_rmatvec(counts, weight)
    square = raw - 2.0 * pi * _rmatvec(counts, weight * size)
    square += pi**2 * float(weight @ size**2)
    variance = square / n - mean**2
    varying = (model.dispersion > 0.0) & (variance > _rounding(counts) * raw / n)
    return Moments(mean, np.sqrt(np.where(varying, variance, 0.0)))


def residual_operator(
    counts: Operator, proportions: np.ndarray, rows: RowFactors, mean: np.ndarray
) -> Operator:
    """Return diag(a) (X - N pi') with centred columns.

    Parameters
    ----------
    counts : Operator of shape (n, p)
        Counts, not centred. Columns may be scaled.
    proportions : ndarray of shape (p,)
        pi, scaled like the columns.
    rows : RowFactors
    mean : ndarray of shape (p,)
        Means of the residuals, scaled like the columns.

    Returns
    -------
    Operator of shape (n, p)
    """
    like = counts.like

    def convert(array: np.ndarray) -> Array:
        return from_numpy(array, like, counts.dtype)

    residuals = ShiftedOperator(counts, convert(rows.size[:, None]), convert(proportions[None, :]))
    scaled = WeightedOperator(residuals, convert(rows.factor))
    return ShiftedOperator(scaled, convert(np.ones((rows.size.size, 1))), convert(mean[None, :]))


def adjustment_of_proportions(adjustment: RowAdjustment, expected: np.ndarray) -> RowAdjustment:
    """Build the adjustment for effects of groups and covariates on proportions.

    If the proportions of a group are pi + delta, the mean of its residuals is a N delta, which
    differs between rows of the same group. The design is therefore multiplied by a N. A constant
    column keeps the residuals centred.

    Parameters
    ----------
    adjustment : RowAdjustment
        Groups and covariates.
    expected : ndarray of shape (n,)
        a N, relative to its mean.

    Returns
    -------
    RowAdjustment
    """
    if adjustment.is_intercept:
        return adjustment
    covariates = np.column_stack([adjustment.covariates, 1.0 / expected])
    return RowAdjustment(adjustment.groups, covariates, expected)


class SquaredProduct:
    """The function ``block^2 @ F`` as a picklable class.

    A sparse block must not be centred.
    """

    def __init__(self, F: Array):
        self.F = F

    def __call__(self, block: Block) -> Array:
        squares = block.stored().power(2) if isinstance(block, LazyRows) else block * block
        return squares @ self.F


class LimitedProduct:
    """The function ``min(block, limit) @ F`` as a picklable class.

    Only stored entries of sparse blocks exceed the limit, because residuals of zeros are negative.
    """

    def __init__(self, F: Array, limit: float = MAX_RESIDUAL):
        self.F, self.limit = F, limit

    def __call__(self, block: Block) -> Array:
        if not isinstance(block, LazyRows):
            return array_namespace(block).clip(block, max=self.limit) @ self.F
        excess = block.stored()
        excess.data = np.maximum(excess.data - self.limit, 0.0)
        return block @ self.F - excess @ self.F


def limited_scores(residuals: Operator, projection: Array) -> Array:
    """Compute Z F, where the residuals Z are limited to `MAX_RESIDUAL`.

    Parameters
    ----------
    residuals : Operator of shape (n, p)
        Standardised residuals.
    projection : Array of shape (p, d)
        F.

    Returns
    -------
    Array of shape (n, d)
        Lazy if the operator is lazy.
    """
    return residuals.map_rows(LimitedProduct(projection), entrywise=residuals.density == 1.0)


def _divide(numerator: np.ndarray, proportions: np.ndarray) -> np.ndarray:
    """Divide by proportions; the result is zero for proportions of zero."""
    return np.where(proportions > 0.0, numerator / np.where(proportions > 0.0, proportions, 1.0), 0)


def _rounding(counts: Operator) -> float:
    """Return the relative rounding error of a sum over the rows."""
    return min(counts.shape[0] * counts.epsilon, MAX_ROUNDING)


def _min_size(total: float, n: int) -> float:
    """Return the minimum size factor."""
    return MIN_RELATIVE_SIZE * total / max(n, 1)


def _rmatvec(op: Operator, y: np.ndarray) -> np.ndarray:
    """Compute X'y of shape (p,) as a NumPy array."""
    column = from_numpy(y[:, None], op.like, op.dtype)
    return to_numpy(op.rmatmul(column)).astype(float)[:, 0]


def _matvec(op: Operator, f: np.ndarray) -> np.ndarray:
    """Compute X f of shape (n,) as a NumPy array."""
    column = from_numpy(f[:, None], op.like, op.dtype)
    return to_numpy(op.gathered_matmul(column)).astype(float)[:, 0]


def _squares_rmatvec(op: Operator, y: np.ndarray) -> np.ndarray:
    """Compute (X * X)'y of shape (p,) as a NumPy array."""
    column = from_numpy(y[:, None], op.like, op.dtype)
    return to_numpy(op.power_sums(2, column)).astype(float)[:, 0]


def _squares_matvec(op: Operator, f: np.ndarray) -> np.ndarray:
    """Compute (X * X) f of shape (n,) as a NumPy array."""
    column = from_numpy(f[:, None], op.like, op.dtype)
    product = op.gather_rows(SquaredProduct(column), entrywise=op.density == 1.0)
    return to_numpy(product).astype(float)[:, 0]
