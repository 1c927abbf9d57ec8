"""Null distributions of R2(d).

Symbols: U (n x D) orthonormal centred scores with columns u_i; h_a(d) = sum_{i <= d} u_ai^2 the
leverage of row a; y a centred column of unit length; R2(d) = sum_{i <= d} (u_i'y)^2.

**Permutation.** The rows of y are exchangeable. Then E[R2(d)] = d / (n - 1). The variance depends
on the scores only through sum_a h_a(d)^2, and on the column only through sum_a y_a^4 [K95]. If the
column or the scores are Gaussian, R2(d) follows Beta(d / 2, (n - 1 - d) / 2) exactly.

**Sign flips.** The entries of y have independent random signs and given magnitudes, so that rows
may have unequal noise. With M = sum_a y_a^2 u_a u_a', the covariance matrix of U'y,

    E[R2(d)] = tr M(d),    Var[R2(d)] = 2 (|M(d)|_F^2 - sum_a h_a(d)^2 y_a^4),

where M(d) is the leading d x d block. In residuals given groups and covariates, y_a^2 is smaller by
the factor 1 - h'_a, which is corrected (`RowAdjustment`). Here, h'_a is the leverage of row a in
the design (1/g in a group of g rows).

The variance of U'y estimated by M includes any variance explained by U, which reduces the power if
there are few rows. In this case, y_a is replaced by its residual e_a / (1 - h_a) given the scores,
with coefficients estimated from the other rows (the HC3 estimator of regression [MW85]). With many
rows, scores can adapt to noisy rows, whose residuals would then be too small.

**Blocks.** A categorical variable with m + 1 levels is a block of m orthonormal columns with rows
b_a and squared lengths p_a = |b_a|^2. Each row is permuted, or has its sign flipped, as a whole. A
column is a block with m = 1 and p_a = y_a^2. The statistic is R2(d) = T(d) / min(d, m) with T(d) =
sum_{i <= d} |B'u_i|^2, which is at most 1. Under permutation, the moments of T(d) are those of
[K95] for two projections; under sign flips,

    E[T(d)] = sum_a h_a(d) p_a,    Var[T(d)] = 2 (|A(d)'A(d)|_F^2 - sum_a h_a(d)^2 p_a^2),

where the rows of A(d) are the products of the entries of u_a and b_a.

Each distribution is approximated by the beta distribution with the same mean and variance. A column
with few large entries has few distinct sign patterns: with k entries of equal size, no p-value is
below 2^(1 - k). The effective number k of entries is 5 / (3 sum_a y_a^4), which is 5 n / 9 for
Gaussian columns, and at most n.

[K95]  F. Kazi-Aoual, S. Hitier, R. Sabatier, J.-D. Lebreton. Refined approximations to permutation
       tests for multivariate inference. Computational Statistics & Data Analysis 20, 1995.
[MW85]  J. G. MacKinnon, H. White. Some heteroskedasticity-consistent covariance matrix estimators
       with improved finite sample properties. Journal of Econometrics 29, 1985.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import betainc

from ..data import Operator
from ..data.arrays import from_numpy, to_numpy
from ..parallel import in_parallel, slices_of

# Rows up to which the moments of sign flips are computed from residuals, and the estimated number
# of components has more weight.
FEW_ROWS = 30
_COLUMNS_PER_TASK = 1024
_MAX_PRODUCTS = 256  # number of products of scores multiplied with the data at a time
_MANY_ROWS = 1000  # number of rows above which fourth powers of entries are negligible
_MIN_VARIANCE_RATIO = 1e-3  # relative to the Gaussian variance
_MIN_CONCENTRATION = 1e-3
_MIN_FREE = 1e-3  # lower bound of 1 - h_a
_ENTRIES_PER_INVERSE_MOMENT = 5.0 / 3.0


class Moments(NamedTuple):
    """Mean and variance of R2(d) under a null hypothesis."""

    mean: np.ndarray  # (n_columns, D)
    variance: np.ndarray  # (n_columns, D)


def gaussian_variance(mean: np.ndarray, dof: np.ndarray | int) -> np.ndarray:
    """Compute the variance of a beta distribution from its mean and dof."""
    return np.asarray(2.0 * mean * (1.0 - mean) / (dof + 2.0))


def gaussian_moments(
    d: np.ndarray, dof: np.ndarray | float, sizes: np.ndarray | float = 1.0
) -> Moments:
    """Compute the moments of R2(d) for Gaussian columns or Gaussian scores.

    ``d`` (D,) are numbers of scores. ``dof`` and ``sizes``, the numbers of columns m, are numbers
    or arrays (n_variables,). With m = 1, the moments are those of Beta(d / 2, (dof - d) / 2).
    """
    m, dof = (np.reshape(np.asarray(count, dtype=float), (-1, 1)) for count in (sizes, dof))
    mean = np.maximum(d, m) / dof  # d m / (dof min(d, m))
    of_block = (dof - m) / np.maximum(dof - 1.0, 1.0)
    return Moments(mean, of_block * 2.0 * mean * (dof - d) / (dof * np.minimum(d, m) * (dof + 2.0)))


def permutation_moments(
    squared_leverages: np.ndarray,
    fourth_moments: np.ndarray,
    n: np.ndarray | int,
    dof: np.ndarray | int,
    sizes: np.ndarray | float = 1.0,
    d: np.ndarray | None = None,
) -> Moments:
    """Compute the moments of R2(d) under permutation of the rows, [K95] (2).

    ``squared_leverages`` (D,), or (n_variables, D), are sum_a h_a(d)^2, and ``fourth_moments``
    (n_variables,) are 3 sum_a p_a^2 / (m (m + 2)), the sum of y_a^4 if m = 1. The degrees of
    freedom are n minus the number of parameters. ``d`` is 1, ..., D by default.
    """
    d = np.arange(1.0, squared_leverages.shape[-1] + 1.0) if d is None else d
    n, m = (np.reshape(np.asarray(count, dtype=float), (-1, 1)) for count in (n, sizes))
    # If d or m is at least n - 1, the column has few observed rows, and its moments are not used.
    expected = 2.0 * d * np.maximum(n - 1.0 - d, 1.0) / ((n - 1.0) ** 2 * (n + 1.0))
    expected = expected * m * np.maximum(n - 1.0 - m, 1.0) / (n - 2.0)
    of_scores = n * (n + 1.0) * squared_leverages - (n - 1.0) * d * (d + 2.0)
    of_column = n * (n + 1.0) * fourth_moments[:, None] - 3.0 * (n - 1.0)
    excess = of_column * of_scores / ((n + 1.0) * n * (n - 1.0) * (n - 2.0) * (n - 3.0))
    ratio = np.maximum(1.0 + excess * m * (m + 2.0) / (3.0 * expected), _MIN_VARIANCE_RATIO)
    gaussian = gaussian_moments(d, dof, sizes)
    return Moments(np.broadcast_to(gaussian.mean, ratio.shape), ratio * gaussian.variance)


def sign_flip_moments(M: np.ndarray, squared_diagonal: np.ndarray) -> Moments:
    """Compute the moments of R2(d) under random signs of the entries.

    ``M`` (n_columns, D (D + 1) / 2) has the entries of the upper triangle in the order of
    `upper_triangle`, and ``squared_diagonal`` (n_columns, D) is sum_a h_a(d)^2 y_a^4.
    """
    D = squared_diagonal.shape[1]
    i, k = upper_triangle(D)
    # Entry (i, k) is in the leading blocks of size d > k, and counts twice off the diagonal.
    counts = np.where(i == k, 1.0, 2.0)[:, None] * (k[:, None] < np.arange(1, D + 1))
    squared_norm = M**2 @ counts
    mean = np.cumsum(M[:, i == k], axis=1)
    return Moments(mean, 2.0 * (squared_norm - squared_diagonal))


def common_flip_moments(
    op: Operator,
    squares: np.ndarray,
    scores: np.ndarray,
    correction: np.ndarray | float = 1.0,
    d: np.ndarray | None = None,
) -> Moments:
    """Compute the moments of R2(d) of all columns under random signs.

    ``squares`` (p,) are the sums of squares of the columns, ``scores`` (n, D) are orthonormal, and
    ``correction`` (n, 1) multiplies the squared entries. ``d`` is 1, ..., D by default.
    """
    n, D = scores.shape
    d = np.arange(1, D + 1) if d is None else d
    like, squares = op.column_squares(), squares[:, None]

    def sums(power: int, weights: np.ndarray) -> np.ndarray:
        return to_numpy(op.power_sums(power, from_numpy(weights, like, op.dtype))).astype(float)

    i, k = upper_triangle(D)
    mean, squared_norm = np.zeros((2, op.shape[1], d.size))
    for chunk in slices_of(i.size, _MAX_PRODUCTS):
        rows, columns = i[chunk], k[chunk]
        M = sums(2, correction * scores[:, rows] * scores[:, columns]) / squares
        is_leading, on_diagonal = columns[:, None] < d, rows == columns
        mean += M[:, on_diagonal] @ is_leading[on_diagonal].astype(float)
        squared_norm += M**2 @ (np.where(on_diagonal, 1.0, 2.0)[:, None] * is_leading)
    if n > _MANY_ROWS:  # the term is small, and (tr M)^2 / n is a lower bound
        return Moments(mean, 2.0 * (squared_norm - mean**2 / n))
    leverages = np.column_stack([np.zeros(n), np.cumsum(scores**2, axis=1)])[:, d]
    squared_diagonal = sums(4, (correction * leverages) ** 2) / squares**2
    return Moments(mean, 2.0 * (squared_norm - squared_diagonal))


def residual_flip_moments(
    scores: np.ndarray, Y: np.ndarray, design_leverages: np.ndarray
) -> Moments:
    """Compute the moments of R2(d) under random signs of residuals, [MW85].

    ``scores`` (n_variables, n, D) and blocks ``Y`` (n_variables, n, m) are orthonormal, and
    ``design_leverages`` (n,) are the leverages of the rows in the design of the adjustment.
    """
    n_variables, n, D = scores.shape
    mean, variance = np.zeros((2, n_variables, D))
    residuals, leverages = Y, np.zeros((n_variables, n))
    for d in range(D):
        u = scores[:, :, d]
        residuals = residuals - u[:, :, None] * (u[:, None, :] @ Y)
        leverages = leverages + u * u
        free = np.maximum(1.0 - leverages - design_leverages, _MIN_FREE)
        rows = residuals / free[:, :, None]
        squares, largest = np.sum(rows**2, axis=2), min(d + 1, Y.shape[2])
        gram = _product_gram(scores[:, :, : d + 1], rows)
        mean[:, d] = np.sum(leverages * squares, axis=1) / largest
        diagonal = np.sum((leverages * squares) ** 2, axis=1)
        variance[:, d] = 2.0 * (np.sum(gram**2, axis=(1, 2, 3, 4)) - diagonal) / largest**2
    return Moments(mean, variance)


def block_flip_moments(scores: np.ndarray, Y: np.ndarray) -> Moments:
    """Compute the moments of R2(d) under random signs of the rows of blocks.

    The arrays ``scores`` (n_variables, n, D) and ``Y`` (n_variables, n, m) are orthonormal.
    """
    leading = np.arange(scores.shape[2])
    squared = np.sum(_product_gram(scores, Y) ** 2, axis=(2, 4))
    squared = np.cumsum(np.cumsum(squared, axis=1), axis=2)[:, leading, leading]
    squares, leverages = np.sum(Y**2, axis=2), np.cumsum(scores**2, axis=2)
    mean = np.einsum("ja,jad->jd", squares, leverages)
    diagonal = np.einsum("ja,jad->jd", squares**2, leverages**2)
    largest = np.minimum(leading + 1.0, Y.shape[2])
    return Moments(mean / largest, 2.0 * (squared - diagonal) / largest**2)


def _product_gram(scores: np.ndarray, Y: np.ndarray) -> np.ndarray:
    """Compute A'A for products A of scores and blocks, (k, D, m, D, m)."""
    k, n, D = scores.shape
    m = Y.shape[2]
    products = (scores[:, :, :, None] * Y[:, :, None, :]).reshape(k, n, D * m)
    return np.asarray((np.swapaxes(products, 1, 2) @ products).reshape(k, D, m, D, m))


def upper_triangle(D: int) -> tuple[np.ndarray, np.ndarray]:
    """Return rows and columns of the upper triangle, by column."""
    k, i = np.tril_indices(D)
    return i, k


class BetaParameters(NamedTuple):
    """Parameters of the beta distributions with given moments."""

    explained: np.ndarray  # half of the degrees of freedom of the scores
    unexplained: np.ndarray  # half of the residual degrees of freedom


def beta_parameters(moments: Moments) -> BetaParameters:
    """Return the parameters of the beta distributions with the given moments."""
    mean = np.clip(moments.mean, 1e-12, 1.0 - 1e-9)
    variance = np.maximum(moments.variance, 1e-12 * mean)
    concentration = np.maximum(mean * (1.0 - mean) / variance - 1.0, _MIN_CONCENTRATION)
    return BetaParameters(mean * concentration, (1.0 - mean) * concentration)


def beta_tail(R2: np.ndarray, moments: Moments) -> np.ndarray:
    """Compute P(R2(d) >= observed) for beta distributions with the given moments."""
    tail = np.empty(R2.shape)

    def fill(chunk: slice) -> None:
        beta = beta_parameters(Moments(moments.mean[chunk], moments.variance[chunk]))
        complement = 1.0 - np.clip(R2[chunk], 0.0, 1.0)
        tail[chunk] = betainc(beta.unexplained, beta.explained, complement)

    in_parallel(fill, slices_of(R2.shape[0], _COLUMNS_PER_TASK))
    return tail


def smallest_flip_probability(fourth_moments: np.ndarray, n: int) -> np.ndarray:
    """Compute 2^(1 - k) with the effective number k of entries of each column."""
    entries = np.minimum(_ENTRIES_PER_INVERSE_MOMENT / np.maximum(fourth_moments, 1e-300), n)
    return np.asarray(np.minimum(2.0 ** (1.0 - entries), 1.0))
