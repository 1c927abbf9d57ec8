"""Detection of exchangeable variables of a covariance matrix."""

from __future__ import annotations

import numpy as np

from ..quadratic import Floats, Indices

# Relative difference below which entries count as equal, far below `branching.RESOLUTION`.
SYMMETRY_TOL = 1e-13


def exchangeable(C: Floats, nonnegative: bool = False) -> Indices:
    """Return the first variable of the class of each variable, (p,).

    Variables i and j are exchangeable if C_ii = C_jj and C_il = C_jl for all other l, or C_il =
    -C_jl for all other l unless w >= 0. Examples are copies of a column and uncorrelated columns of
    equal variance. Sets S that differ only in i and j have equal values, so that one set suffices.
    """
    p = C.shape[0]
    tol = SYMMETRY_TOL * float(np.abs(C).max(initial=0.0))
    diagonal = np.diagonal(C)
    sizes = np.abs(C).sum(axis=1)  # equal for exchangeable variables
    first = np.arange(p)
    order = np.lexsort((np.arange(p), sizes))
    signs = (1.0,) if nonnegative else (1.0, -1.0)
    for place, i in enumerate(order):
        if first[i] != i:
            continue
        near = order[place + 1 :]
        near = near[: np.searchsorted(sizes[near], sizes[i] + 4.0 * p * tol, side="right")]
        near = near[(first[near] == near) & (np.abs(diagonal[near] - diagonal[i]) <= tol)]
        for sign in signs:
            apart = np.abs(C[i] - sign * C[near])
            apart[:, i] = 0.0
            apart[np.arange(near.size), near] = 0.0
            same = near[apart.max(axis=1, initial=0.0) <= tol]
            first[same] = i
    return np.array([np.flatnonzero(first == k)[0] for k in first], dtype=np.intp)
