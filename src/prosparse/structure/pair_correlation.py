"""Test of the largest correlation of a column with any other column.

Variables that share variance with only one or two others form no leading component. The statistic
of column j is its largest squared correlation r^2 with another column k. For blocks of m_j and m_k
columns (`null_distribution`), r^2 is the sum of the squared canonical correlations divided by
min(m_j, m_k), and the block with the smallest p-value is used. The p-value is p - 1 (the number of
other columns) times the larger of two probabilities:

* under permutation, r^2 follows Beta(1/2, (dof - 1) / 2) with the variance corrected for the fourth
  moments of both columns, or the beta distribution for blocks;
* under random signs, sum_a e_a w_a with w_a = y_a x_a. Chernoff's bound is
  P(|sum_a e_a w_a| >= t) <= 2 exp(min_s sum_a log cosh(s w_a) - s t).
  It holds for any magnitudes, and equals 2^(1 - k) at the largest value of k equal terms. Terms
  below 5 % of the largest are ignored, because the zeros of two rare columns, centred at small
  means, would count as equal signs. Blocks are replaced by the first pair of canonical variables,
  and the bound is multiplied by m_j m_k.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..parallel import slices_of
from .leading_components import StandardisedData
from .null_distribution import beta_tail, permutation_moments

# Maximum number of products for the p x p correlations. Above this maximum, pairs are not tested.
MAX_PRODUCTS = 2**33
_ENTRIES_PER_BLOCK = 2**22  # correlations that are in memory at a time
_MAX_PVALUE = 0.1  # larger p-values are not computed accurately
_MIN_RELATIVE_TERM = 0.05
_NEWTON_ITERATIONS = 15


class LargestCorrelations(NamedTuple):
    """Result of `find_largest_correlations`."""

    pvalues: np.ndarray  # (p,) bounds; 1 if above `_MAX_PVALUE`
    partners: np.ndarray  # (p,) the most correlated column; -1 if pairs were not tested


def find_largest_correlations(
    data: StandardisedData, fourth_moments: np.ndarray
) -> LargestCorrelations:
    """Test the largest squared correlation of each column with another column."""
    pvalues, partners = np.ones(data.p), np.full(data.p, -1)
    if data.p < 2 or float(data.n) * data.p**2 > MAX_PRODUCTS:
        return LargestCorrelations(pvalues, partners)
    squares = np.where(data.sums_of_squares > 0.0, data.sums_of_squares, np.inf)
    width = max(1, _ENTRIES_PER_BLOCK // max(data.p, data.n))
    groups = [np.flatnonzero(data.sizes == size) for size in np.unique(data.sizes)]
    for chunk in slices_of(data.p, width):
        columns = np.arange(data.p)[chunk]
        products = data.squared_products(columns)
        products[columns, np.arange(columns.size)] = 0.0
        r2 = np.divide(products, squares[:, None], out=products)
        pvalues[columns] = np.inf
        for group in groups:
            largest, best = _largest_entries(r2 if len(groups) == 1 else r2[group])
            found = _permutation_pvalues(
                data, fourth_moments, columns, group[best], largest / squares[columns]
            )
            smaller = found < pvalues[columns]
            partners[columns] = np.where(smaller, group[best], partners[columns])
            pvalues[columns] = np.minimum(found, pvalues[columns])
    index = np.flatnonzero(pvalues < _MAX_PVALUE)
    pvalues[pvalues >= _MAX_PVALUE] = 1.0
    for part in (index[chunk] for chunk in slices_of(index.size, width)):
        flips = (data.p - 1) * _flip_pvalues(data, part, partners[part])
        pvalues[part] = np.maximum(pvalues[part], flips)
    return LargestCorrelations(np.minimum(pvalues, 1.0), partners)


def _permutation_pvalues(
    data: StandardisedData,
    fourth_moments: np.ndarray,
    columns: np.ndarray,
    partners: np.ndarray,
    products: np.ndarray,
) -> np.ndarray:
    """Compute p - 1 times the p-values for partners of the same size."""
    m, of_partners = data.sizes[columns], data.sizes[partners]
    moments = permutation_moments(
        (fourth_moments[partners] * of_partners * (of_partners + 2.0) / 3.0)[:, None],
        fourth_moments[columns],
        data.n_observed[columns],
        data.dofs[columns],
        m,
        of_partners[:1].astype(float),
    )
    r2 = np.minimum(products / np.minimum(m, of_partners), 1.0)
    return np.asarray((data.p - 1) * beta_tail(r2[:, None], moments)[:, 0])


def _largest_entries(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Return the largest entry of each column and its first row.

    NumPy's ``argmax`` along the first axis is ten times slower.
    """
    largest, first = np.max(values, axis=0), np.zeros(values.shape[1], dtype=int)
    rows, columns = np.nonzero(values == largest)
    first[columns[::-1]] = rows[::-1]
    return largest, first


def _flip_pvalues(data: StandardisedData, columns: np.ndarray, partners: np.ndarray) -> np.ndarray:
    """Bound the probability of the correlation of each column with its partner."""
    is_block = np.maximum(data.sizes[columns], data.sizes[partners]) > 1
    if is_block.any():
        pvalues = np.ones(columns.size)
        single = np.flatnonzero(~is_block)
        if single.size:
            pvalues[single] = _flip_pvalues(data, columns[single], partners[single])
        for k in np.flatnonzero(is_block):
            pvalues[k] = _block_flip_pvalue(data, int(columns[k]), int(partners[k]))
        return pvalues
    both, position = np.unique(np.concatenate([columns, partners]), return_inverse=True)
    Y = data.dense_columns(both) / np.sqrt(np.maximum(data.sums_of_squares[both], 1e-300))
    W = Y[:, position[: columns.size]] * Y[:, position[columns.size :]]
    return sign_flip_bound(W, data.adjustment.flip_correction)


def _block_flip_pvalue(data: StandardisedData, column: int, partner: int) -> float:
    """Bound the probability of the first canonical correlation of two blocks."""
    B, C = (
        data.dense_columns(np.array([k])) / np.sqrt(max(data.sums_of_squares[k], 1e-300))
        for k in (column, partner)
    )
    left, _, right = np.linalg.svd(B.T @ C)
    W = (B @ left[:, :1]) * (C @ right[:1].T)
    bound = sign_flip_bound(W, data.adjustment.flip_correction)[0]
    return min(float(bound) * B.shape[1] * C.shape[1], 1.0)


def sign_flip_bound(W: np.ndarray, correction: np.ndarray) -> np.ndarray:
    """Bound P(|sum_a e_a w_a| >= |sum_a w_a|) for random signs e.

    ``W`` (n, k) has the terms of one pair in each column. ``correction`` (n,) multiplies the
    squared terms, for columns centred within groups. The bound is valid for any s. The iterations
    increase s monotonically, because the derivative of log cosh is concave.
    """
    W = np.where(np.abs(W) >= _MIN_RELATIVE_TERM * np.max(np.abs(W), axis=0), W, 0.0)
    t = np.abs(W.sum(axis=0))
    W = np.abs(W) * np.sqrt(correction)[:, None]
    variance = np.maximum(np.sum(W * W, axis=0), 1e-300)
    s = t / variance  # the minimum for Gaussian terms
    for _ in range(_NEWTON_ITERATIONS):
        tanh = np.tanh(s * W)
        slope = np.maximum(np.sum(W * W * (1.0 - tanh * tanh), axis=0), 1e-6 * variance)
        s = s + np.maximum(t - np.sum(W * tanh, axis=0), 0.0) / slope
    x = s * W
    log_cosh = x + np.log1p(np.exp(-2.0 * x)) - np.log(2.0)
    exponent = np.sum(log_cosh, axis=0) - s * t
    return np.asarray(np.minimum(2.0 * np.exp(np.minimum(exponent, 0.0)), 1.0))
