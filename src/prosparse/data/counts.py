"""Variance-stabilising transformation of counts.

If rows of counts x differ only by sampling, a row with total N is multinomial with probabilities
pi. Then sqrt(x_j / N) has approximate mean sqrt(pi_j) and variance 1 / (4 N), which does not depend
on the column (Hellinger transformation; Freeman & Tukey 1950). Zeros remain zeros, so that a sparse
matrix stays sparse.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from scipy import sparse

from ..errors import InputError
from .arrays import Array
from .containers import Table, container_of

# Maximum total of a row. Double precision does not represent all larger integers.
MAX_TOTAL = 2.0**53

_REMEDY = (
    "Counts must be non-negative, and each row must have a positive total. Drop empty rows, or "
    "fit with `counts=False`."
)


def row_totals(X: Table) -> np.ndarray:
    """Compute the total count of each row, or raise an error for invalid counts."""
    totals = np.asarray(container_of(X).source(X).gather(_block_totals), dtype=float)
    if totals.size and totals.min() <= 0.0:
        raise InputError(f"Row {int(np.argmin(totals))} of X has no counts. {_REMEDY}")
    wrong = np.flatnonzero(~((totals >= 1.0 / MAX_TOTAL) & (totals <= MAX_TOTAL)))
    if wrong.size:
        raise InputError(
            f"The total of row {wrong[0]} of X must be between {1.0 / MAX_TOTAL:.3g} and "
            f"{MAX_TOTAL:.3g}, got {totals[wrong[0]]:.3g}. Check that X contains counts, or fit "
            "with `counts=False`."
        )
    return totals


def hellinger(X: Table, depth: float) -> Table:
    """Compute sqrt(depth x_ij / N_i), where N_i is the total of row i."""
    container = container_of(X)
    if container.in_memory:
        row_totals(X)  # The error message for a row without counts contains its position.
    return container.map_blocks(X, partial(_block_hellinger, depth=depth))


def _block_totals(block: Any) -> Array:
    """Sum each row of a block, sparse or dense, in double precision."""
    is_sparse = sparse.issparse(block)
    entries = block.data if is_sparse else block
    xp = array_namespace(entries)
    smallest = float(xp.min(entries)) if 0 not in entries.shape else 0.0
    if smallest < 0.0:
        raise InputError(f"X has a negative entry, {smallest:g}. {_REMEDY}")
    if is_sparse:
        return np.asarray(block.sum(axis=1), dtype=float).reshape(-1)
    return xp.sum(block, axis=1, dtype=xp.float64)


def _block_hellinger(block: Any, depth: float) -> Any:
    totals = _block_totals(block)
    xp = array_namespace(totals)
    if totals.shape[0] and float(xp.min(totals)) <= 0.0:
        raise InputError(f"A row of X has no counts. {_REMEDY}")
    factor = xp.sqrt(depth / totals)
    if sparse.issparse(block):
        roots = sparse.csr_array(block).astype(np.float64)
        roots.data = np.sqrt(roots.data) * np.repeat(factor, np.diff(roots.indptr))
        return roots
    return xp.sqrt(block) * xp.astype(factor, block.dtype)[:, None]
