"""Variables that can be exchanged for each other without changing anything."""

from __future__ import annotations

import numpy as np

from ..quadratic import Floats, Indices

# Entries that differ by less than this share of the largest are the same: far below what
# `branching.RESOLUTION` tells apart.
SAME = 1e-13


def exchangeable(C: Floats, nonnegative: bool = False) -> Indices:
    """A number for every variable, the same for those that can be exchanged for each other.

    i and j can be exchanged if C_ii = C_jj and C_il = C_jl for all other l; or, where w may have
    any sign, C_il = -C_jl for all of them. Copies of a column are of this kind, and so are
    columns that are correlated with nothing. The sets S with i in place of j then come to the
    same, so that only one of them need be looked at.

    Parameters
    ----------
    C : array (p, p)
    nonnegative : bool, default=False
        Whether w >= 0, so that signs matter.

    Returns
    -------
    int array (p,)
        The first variable of its kind.
    """
    p = C.shape[0]
    tol = SAME * float(np.abs(C).max(initial=0.0))
    diagonal = np.diagonal(C)
    sizes = np.abs(C).sum(axis=1)  # the same for variables of one kind
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
    return np.array([np.flatnonzero(first == one)[0] for one in first], dtype=np.intp)
