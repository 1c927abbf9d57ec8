"""Normal scores (van der Waerden scores) of columns.

Each entry is replaced by the quantile of the normal distribution at its rank. This limits the
influence of outliers and makes the result invariant to monotone transformations of a column. Ties
have their mean rank. The zeros of a sparse column have one score, which is subtracted from the
column to keep it sparse.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse
from scipy.special import ndtri
from scipy.stats import rankdata

from ..errors import InputError
from .containers import Table, container_of


def normal_scores(X: Table) -> Table:
    """Replace columns by normal scores, minus the score of zero if sparse."""
    container = container_of(X)
    if not container.in_memory:
        raise InputError(
            f"`rank_transform` needs whole columns in memory, but X is a {container.name}, which "
            "is read in blocks of rows. Load X into memory, or set `rank_transform=False`."
        )
    if container.is_sparse:
        return _sparse_scores(X)
    ranks = rankdata(container.to_dense(X, dtype=None), axis=0)
    return container.replace_values(X, np.asarray(ndtri((ranks - 0.5) / X.shape[0])))


def _sparse_scores(X: sparse.csr_array) -> sparse.csr_array:
    n = X.shape[0]
    columns = sparse.csc_array(X).copy()
    columns.eliminate_zeros()
    for start, stop in zip(columns.indptr[:-1], columns.indptr[1:], strict=True):
        stored = columns.data[start:stop]
        n_zeros = n - stored.size
        # Zeros are tied and increase the ranks of positive entries by their number.
        ranks = rankdata(stored) + n_zeros * (stored > 0)
        rank_of_zero = np.sum(stored < 0) + 0.5 * (n_zeros + 1)
        score_of_zero = ndtri((rank_of_zero - 0.5) / n) if n_zeros else 0.0
        columns.data[start:stop] = ndtri((ranks - 0.5) / n) - score_of_zero
    return sparse.csr_array(columns)
