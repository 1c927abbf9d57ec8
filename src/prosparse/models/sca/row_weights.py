"""Row weights from a factor model of the multivariate t distribution.

Samples differ in quality and sequencing depth, and a few rows may be outlying. Row n has a
precision w_n:

    x_n | w_n ~ N(mu, (Lambda Lambda' + Psi^-1) / w_n) ,    w_n ~ Gamma(nu / 2, nu / 2) ,

so that x_n has a multivariate t distribution. For nu -> infinity, rows have equal scale. Given the
squared Mahalanobis distance d^2 of a row with p columns, <w> = (nu + p) / (nu + d^2) [LLT89]. The
posterior means of Gaussian factors do not depend on w.

The weights are those of a preliminary factor analysis, whose number of factors is that of
variational PCA. The distance of a row refers to the model of the other rows. Otherwise, a factor
could fit the noise of many columns in this row alone, and its weight would increase without limit.
The rows are then multiplied by w^1/2, and the model is fitted as to rows of equal scale.

[LLT89]  K. Lange, R. Little, J. Taylor. Robust statistical modeling using the t distribution.
         Journal of the American Statistical Association 84, 1989.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ...data import DenseOperator, Operator
from ...data.arrays import from_numpy, to_numpy
from ...data.row_adjustment import intercept
from ...numerics.spectrum import spectrum
from ...selection.dimension import variational_count
from ...structure.row_scale import estimate_row_scale

# Degrees of freedom that are compared, including infinity.
DEGREES_OF_FREEDOM = np.append(np.geomspace(1.0, 1000.0, 46), math.inf)
# Number of iterations of the weights and the preliminary model.
N_ITERATIONS = 20
# Minimum noise variance, relative to the variance of a column.
MIN_NOISE_RATIO = 1e-3
# Minimum number of rows. With fewer rows, single rows determine factors.
MIN_ROWS = 30
# Minimum gain in log-likelihood for rows of unequal scale.
MIN_GAIN = 10.0
# Maximum degrees of freedom per row. With n rows, the errors of the preliminary model alone lead to
# distances as with about n / 2 degrees of freedom.
MAX_DF_PER_ROW = 0.25
# Maximum proportion of entries at the median of their column. In sparse data, the distance of a row
# measures its number of nonzero entries, not its scale.
MAX_TIED = 0.5
# Change of the weights or of the noise variances at convergence.
TOL = 0.01
# Maximum leverage of a row in the correction of residuals.
MAX_LEVERAGE = 0.9
# Number of columns, and maximum number of entries, from which the weights are estimated.
MIN_COLUMNS, MAX_COLUMNS, MAX_ENTRIES = 32, 300, 2**22


class RowWeights(NamedTuple):
    """Relative precisions of the rows."""

    weights: np.ndarray  # (n,) with mean 1
    df: float  # degrees of freedom nu

    def apply(self, op: Operator) -> tuple[Operator, np.ndarray]:
        """Weight and centre the rows; also return the weighted mean."""
        like, root = op.column_squares(), np.sqrt(self.weights)[:, None]
        weights = from_numpy(self.weights[:, None], like, op.dtype)
        mean = to_numpy(op.rmatmul(weights)).astype(float)[:, 0] / self.weights.size
        left, right = (from_numpy(part, like, op.dtype) for part in (root, mean[None, :]))
        return op.scale_rows(left[:, 0]).subtract_product(left, right), mean


def log_t_density(squares: np.ndarray, p: np.ndarray | int, df: float) -> np.ndarray:
    """Compute the log density of rows from squared distances."""
    value: np.ndarray
    if math.isinf(df):
        value = -0.5 * (p * math.log(2.0 * math.pi) + squares)
        return value
    value = gammaln(0.5 * (df + p)) - gammaln(0.5 * df) - 0.5 * p * np.log(df * math.pi)
    return value - 0.5 * (df + p) * np.log1p(squares / df)


class Distances(NamedTuple):
    """Distances of the rows from the model of the other rows."""

    squares: np.ndarray  # (n,) squared Mahalanobis distances
    log_det: np.ndarray  # (n,) log determinants of the scatter matrices
    noise: np.ndarray  # (p,) updated noise variances of all rows

    def log_likelihood(self, p: int, df: float) -> float:
        """Compute the log density of all rows."""
        return float(np.sum(log_t_density(self.squares, p, df) - 0.5 * self.log_det))


def estimate_row_weights(op: Operator) -> RowWeights | None:
    """Estimate the row weights of centred data; None for equal scales and sparse data."""
    n, p = op.shape
    count = min(p, max(MIN_COLUMNS, min(MAX_COLUMNS, MAX_ENTRIES // n)))
    if n < MIN_ROWS or n * count > MAX_ENTRIES:
        return None
    op = op.take_columns(np.unique(np.linspace(0, p - 1, count).astype(int)))
    X = to_numpy(op.dense()).astype(float)
    if np.mean(np.median(X, axis=0) == X) > MAX_TIED:
        return None
    start = 1.0 / estimate_row_scale(op, intercept(n)) ** 2
    weights, df, value = _fit(X, start * n / start.sum(), DEGREES_OF_FREEDOM)
    if df > MAX_DF_PER_ROW * n:
        return None
    equal = _fit(X, np.ones(n), np.array([math.inf]))[2]
    return RowWeights(weights, df) if value > equal + MIN_GAIN else None


def _fit(
    X: np.ndarray, weights: np.ndarray, options: np.ndarray
) -> tuple[np.ndarray, float, float]:
    """Fit weights and degrees of freedom; also return the log-likelihood."""
    n, p = X.shape
    noise = np.mean(X**2, axis=0)
    df, value = math.inf, -math.inf
    for _ in range(N_ITERATIONS):
        found = leave_one_out_distances(X, weights, noise)
        likelihood = [found.log_likelihood(p, option) for option in options]
        best = int(np.argmax(likelihood))
        df, value = float(options[best]), likelihood[best]
        new = np.ones(n) if math.isinf(df) else (df + p) / (df + found.squares)
        new *= n / new.sum()
        moved = np.max(np.abs(np.log(new / weights))), np.max(np.abs(np.log(found.noise / noise)))
        weights, noise = new, found.noise
        if max(moved) < TOL:
            break
    return weights, df, value


def leave_one_out_distances(X: np.ndarray, weights: np.ndarray, noise: np.ndarray) -> Distances:
    """Compute distances of weighted rows, and update the noise variances.

    The distances are approximate: residuals of a row with leverage h in the factors are divided by
    1 - h, and noise variances are those of the other rows.
    """
    n, p = X.shape
    root = np.sqrt(weights)[:, None]
    Y = root * (X - weights @ X / n) / np.sqrt(noise)
    decomposition = spectrum(DenseOperator(Y))
    ratio = decomposition.eigenvalues / n  # eigenvalues of the covariance in units of the noise
    k = min(variational_count(decomposition.eigenvalues, n, p), int(np.sum(ratio > 1.0)))
    ratio, V = ratio[:k], decomposition.directions(k)
    shrinkage, along = 1.0 - 1.0 / ratio, Y @ V
    Z = along * np.sqrt(shrinkage / ratio)
    residual = Y - (along * shrinkage) @ V.T
    variance = np.mean(Y**2, axis=0)
    unique = np.maximum(variance - V**2 @ (ratio - 1.0), MIN_NOISE_RATIO * variance)
    leverage = np.minimum(np.sum(Z**2, axis=1) / n, MAX_LEVERAGE)[:, None]
    squares = (residual / (1.0 - leverage)) ** 2
    others = np.maximum(n * unique - squares, (1.0 - MAX_LEVERAGE) * n * unique) / (n - 1.0)
    distance = (np.sum(squares / others, axis=1) + np.sum(Z**2, axis=1)) / weights
    log_det = np.sum(np.log(others * noise), axis=1) + float(np.sum(np.log(ratio)))
    return Distances(distance, log_det, unique * noise)
