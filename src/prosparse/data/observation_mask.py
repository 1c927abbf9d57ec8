"""Which entries of a table were observed, as a matrix of ones and zeros that is only multiplied.

A product with it adds up rows of another matrix. Where a tenth of the entries is missing, the
sum over all rows less the sum over those missing takes a tenth of the additions; where only a
tenth was observed, the sum over these does. In between the table of ones and zeros is dense, for
which matrix products are several times as fast per addition.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

# Below this share of listed entries, products with their list cost less than dense products.
SPARSE_SHARE = 0.25


class Observed:
    """Ones where a table was observed, zeros where it was not.

    Parameters
    ----------
    seen : bool array (r, p)
        What was observed.
    """

    def __init__(self, seen: np.ndarray):
        self.seen = seen
        self.shape = seen.shape
        share = float(np.mean(seen)) if seen.size else 1.0
        self.by_gaps = 1.0 - share <= SPARSE_SHARE
        if self.by_gaps or share <= SPARSE_SHARE:
            listed = sparse.csr_array(~seen if self.by_gaps else seen)
            self._listed = listed.astype(float)
        else:
            self._listed = seen.astype(float)

    def sums(self, rows: slice, values: np.ndarray, direct: bool = False) -> np.ndarray:
        """Sums over the observed entries of some rows: ``seen[rows] @ values``.

        Parameters
        ----------
        rows : slice
        values : array (p, m)
        direct : bool, default=False
            Add up what was observed, even where subtracting what was not is faster: where rows
            of ``values`` are so large that a difference of two sums would leave no digits.

        Returns
        -------
        array (rows, m)
        """
        if direct and self.by_gaps:
            summed: np.ndarray = self.seen[rows].astype(float) @ values
            return summed
        listed: np.ndarray = self._listed[rows] @ values
        return values.sum(axis=0) - listed if self.by_gaps else listed

    def sums_over_rows(self, rows: slice, values: np.ndarray) -> np.ndarray:
        """Sums over the rows in which each column was observed: ``seen[rows].T @ values``.

        Parameters
        ----------
        rows : slice
        values : array (rows, m)

        Returns
        -------
        array (p, m)
        """
        listed: np.ndarray = self._listed[rows].T @ values
        return values.sum(axis=0) - listed if self.by_gaps else listed
