"""Counts as square roots of shares: the scale on which a multinomial has one noise for all columns.

A row of counts x with total N is, if nothing distinguishes it from others, multinomial with the
shares pi of all rows. Then sqrt(x_j / N) has the mean sqrt(pi_j) and the variance 1 / (4 N),
whatever the column (the *Hellinger* scale; Freeman & Tukey 1950). Centred columns are thus
residuals of that null model, in units in which columns need not be scaled, and zeros stay zeros: a
sparse table stays sparse.

All are multiplied with the root of one number, the *depth*, so that they are roots of counts of
rows of that total.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from array_api_compat import array_namespace, is_numpy_array
from scipy import sparse

from ..errors import InputError
from .arrays import Array

_ADVICE = (
    "counts (of molecules, words, species) are at least 0, and every row has some: leave out empty "
    "rows, or fit with `counts=False`"
)

# Beyond it, double precision does not distinguish a count from the next one.
MAX_TOTAL = 2.0**53


def dense_totals(X: Array) -> Array:
    """The sum of every row; negative entries are refused."""
    xp = array_namespace(X)
    if X.shape[0] and float(xp.min(X)) < 0.0:
        raise InputError(f"X has a negative entry, {float(xp.min(X)):g}: {_ADVICE}")
    return xp.sum(X, axis=1, dtype=xp.float64)


def sparse_totals(X: Any) -> np.ndarray:
    """The sum of every row of a sparse table; negative entries are refused."""
    if X.data.size and float(X.data.min()) < 0.0:
        raise InputError(f"X has a negative entry, {float(X.data.min()):g}: {_ADVICE}")
    return np.asarray(X.sum(axis=1), dtype=float).reshape(-1)


def refuse_totals(totals: np.ndarray) -> None:
    """Rows without any counts have no shares; squares of very large or small ones are not
    finite, or zero."""
    if totals.size and totals.min() <= 0.0:
        raise InputError(f"row {int(np.argmin(totals))} of X has no counts at all: {_ADVICE}")
    wrong = np.flatnonzero(~((totals >= 1.0 / MAX_TOTAL) & (totals <= MAX_TOTAL)))
    if wrong.size:
        raise InputError(
            f"row {wrong[0]} of X has a total of {totals[wrong[0]]:.3g} counts; totals between "
            f"{1.0 / MAX_TOTAL:.3g} and {MAX_TOTAL:.3g} are allowed. Check that X holds counts and "
            "in which unit, or fit with `counts=False`."
        )


def dense_squares(X: Array) -> Array:
    """x^2, in floating point; of NumPy's arrays in double precision."""
    xp = array_namespace(X)
    keeps = xp.isdtype(X.dtype, "real floating") and not is_numpy_array(X)
    wide = X if keeps else xp.astype(X, xp.float64)
    return wide * wide


def sparse_squares(X: Any) -> sparse.csr_array:
    """The same of a sparse table."""
    squares = sparse.csr_array(X).astype(np.float64)
    squares.data = squares.data**2
    return squares


def squares_of_block(block: Any) -> Any:
    """The same of a block of rows, sparse or dense."""
    return sparse_squares(block) if sparse.issparse(block) else dense_squares(np.asarray(block))


def dense_roots(X: Array, totals: Array, depth: float) -> Array:
    """sqrt(depth x / total), in the precision of ``X``."""
    xp = array_namespace(X)
    factor = xp.astype(xp.sqrt(depth / totals), X.dtype)
    return xp.sqrt(X) * factor[:, None]


def sparse_roots(X: Any, totals: np.ndarray, depth: float) -> sparse.csr_array:
    """The same of a sparse table."""
    roots = sparse.csr_array(X).astype(np.float64)
    roots.data = np.sqrt(roots.data) * np.repeat(np.sqrt(depth / totals), np.diff(roots.indptr))
    return roots


def roots_of_block(block: Any, depth: float) -> Any:
    """The same of a block of rows, sparse or dense, by the totals of its own rows."""
    totals = totals_of_block(block)
    if totals.size and totals.min() <= 0.0:  # which row of X it is, nobody here knows
        raise InputError(f"a row of X has no counts at all: {_ADVICE}")
    if sparse.issparse(block):
        return sparse_roots(block, totals, depth)
    return dense_roots(np.asarray(block, dtype=float), totals, depth)


def totals_of_block(block: Any) -> np.ndarray:
    """The totals of a block of rows."""
    if sparse.issparse(block):
        return sparse_totals(sparse.csr_array(block))
    return dense_totals(np.asarray(block, dtype=float))
