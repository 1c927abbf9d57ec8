"""Normal scores: every entry replaced by what a normal sample would have at its rank.

An outlier becomes the largest of n ordinary values, and any monotone change of a column's scale
changes nothing. Equal entries share the mean of their ranks; so the many zeros of a sparse
column become one value, which is taken off the whole column to leave it sparse.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from scipy.stats import rankdata


def normal_scores(X: np.ndarray) -> np.ndarray:
    """The normal scores of every column of a dense table; see the module's text."""
    n = X.shape[0]
    return np.asarray(ndtri((rankdata(X, axis=0) - 0.5) / n))


def sparse_normal_scores(X: sparse.csr_array) -> sparse.csr_array:
    """The normal scores of every column, less the score of zero: sparse as before."""
    n = X.shape[0]
    columns = sparse.csc_array(X).copy()
    columns.eliminate_zeros()
    for j in range(columns.shape[1]):
        here = slice(columns.indptr[j], columns.indptr[j + 1])
        stored = columns.data[here]
        zeros = n - stored.size
        # one zero stands for all: its weight moves the ranks of what lies above
        ranks = rankdata(stored) + zeros * (stored > 0)
        of_zero = np.sum(stored < 0) + 0.5 * (zeros + 1)
        base = ndtri((of_zero - 0.5) / n) if zeros else 0.0
        columns.data[here] = ndtri((ranks - 0.5) / n) - base
    return sparse.csr_array(columns)
