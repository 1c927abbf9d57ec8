"""Products with the observation mask of a data matrix with missing values.

A product with the mask, which is 1 for observed and 0 for missing entries, sums rows of another
matrix. If few entries are missing, the sum over the missing entries is subtracted from the total;
if few are observed, only these are summed. Otherwise, the mask is dense, because dense products are
several times faster per addition.
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

# Maximum proportion of stored entries for which sparse products are faster than dense ones.
MAX_SPARSE_DENSITY = 0.25


class Observed:
    """Observation mask (n, p), stored in the form that is fastest in products."""

    def __init__(self, seen: np.ndarray):
        self.seen = seen
        self.shape = seen.shape
        density = float(np.mean(seen)) if seen.size else 1.0
        self.stores_missing = 1.0 - density <= MAX_SPARSE_DENSITY
        if self.stores_missing or density <= MAX_SPARSE_DENSITY:
            stored = sparse.csr_array(~seen if self.stores_missing else seen)
            self._stored = stored.astype(float)
        else:
            self._stored = seen.astype(float)

    def sums(self, rows: slice, values: np.ndarray, direct: bool = False) -> np.ndarray:
        """Sum the observed entries of rows: ``seen[rows] @ values``.

        With ``direct``, the observed entries are summed even if subtraction of the missing entries
        is faster. Subtraction is inaccurate if rows of ``values`` differ by many orders of
        magnitude.
        """
        if direct and self.stores_missing:
            observed_sums: np.ndarray = self.seen[rows].astype(float) @ values
            return observed_sums
        sums: np.ndarray = self._stored[rows] @ values
        return values.sum(axis=0) - sums if self.stores_missing else sums

    def sums_over_rows(self, rows: slice, values: np.ndarray) -> np.ndarray:
        """Sum over the rows that observe each column: ``seen[rows].T @ values``."""
        sums: np.ndarray = self._stored[rows].T @ values
        return values.sum(axis=0) - sums if self.stores_missing else sums
