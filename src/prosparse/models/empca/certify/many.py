"""Thousands of variables: those that cannot be in the best set are left out first.

The Frobenius norm of a block of C is a bound on its largest eigenvalue, and it needs only the
largest entries of every row of C: they are found some rows at a time, so that no p x p array is
formed. What the bound says of every single variable (as `relaxation.children` with M = C) leaves
a few dozen variables of ten thousand, if the component is near to the best.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..quadratic import Floats, Indices, Mask, Quadratic
from .relaxation import EPS

# So few variables are left to `branching`, which forms their block of C.
FEW = 1500
# More than this it cannot hold: the bound found here is then all there is.
MOST = 4000
# Another round is worth while if the last one left out this share of the variables.
WORTHWHILE = 0.1
ENTRIES = 4_000_000  # of C at a time


class Survivors(NamedTuple):
    """Variables that can be in a set better than the target, and what bounds the others."""

    variables: Indices
    closed: float  # no set with any other variable has more
    bound: float  # nor has any set more than this


def survivors(
    quadratic: Quadratic,
    allowed: Mask,
    K: int,
    target: float,
    nonnegative: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> Survivors:
    """Leave out variables whose sets of K have at most ``target``.

    Parameters
    ----------
    quadratic : Quadratic
        C.
    allowed : bool array (p,)
        The variables in question.
    K : int
        The most nonzeros of a component.
    target : float
        A value of w'Cw.
    nonnegative : bool, default=False
        Whether w >= 0.
    expired : callable
        Asked between rounds whether the time is up.

    Returns
    -------
    Survivors
    """
    variables = np.flatnonzero(allowed)
    closed, bound, slow = -np.inf, np.inf, False
    while variables.size > max(FEW, K) and not expired():
        before = variables.size
        # sums of p squares and products of C: rounding, on the safe side
        safe = 1.0 + 8.0 * (K + quadratic.rank_bound) * EPS
        r, smallest = row_norms(quadratic, variables, K, nonnegative)
        top = -np.sort(-r)[:K]
        bound = min(bound, max(closed, safe * float(np.sqrt(top.sum()))))
        if slow:
            inside = safe * norms_with(quadratic, variables, K, nonnegative, r, smallest)
        else:
            inside = safe * np.sqrt(r + top[: K - 1].sum())
        out = inside <= target
        if out.any():
            closed = max(closed, float(inside[out].max()))
            variables = variables[~out]
        if before - variables.size < WORTHWHILE * before:
            if slow:
                break
            slow = True  # the sharper rule, at the cost of another pass
    return Survivors(variables, closed, bound)


def _squares(quadratic: Quadratic, variables: Indices, some: Indices, positive: bool) -> Floats:
    """C_ij^2 for i among ``some`` of the ``variables`` and all j of them, (|some|, m)."""
    rows = quadratic.columns(variables[some])[variables].T
    squares: Floats = np.square(np.maximum(rows, 0.0) if positive else rows)
    return squares


def _parts(m: int) -> list[Indices]:
    return np.array_split(np.arange(m), max(1, m * m // ENTRIES))


def row_norms(
    quadratic: Quadratic, variables: Indices, K: int, nonnegative: bool
) -> tuple[Floats, Floats]:
    """For every variable C_ii^2 and the K - 1 largest other C_ij^2, added up, and the smallest of
    these others."""
    m = variables.size
    r, smallest = np.empty(m), np.full(m, -np.inf)
    for some in _parts(m):
        squares = _squares(quadratic, variables, some, nonnegative)
        own = squares[np.arange(some.size), some]
        squares[np.arange(some.size), some] = -1.0
        r[some] = own
        if K > 1:
            largest = np.partition(squares, m - K + 1, axis=1)[:, m - K + 1 :]
            r[some] += largest.sum(axis=1)
            smallest[some] = largest.min(axis=1)
    return r, smallest


def norms_with(
    quadratic: Quadratic,
    variables: Indices,
    K: int,
    nonnegative: bool,
    r: Floats,
    smallest: Floats,
) -> Floats:
    """For every variable i the largest Frobenius norm of a block that has it: every other row j
    must count C_ij^2 in place of its smallest."""
    m = variables.size
    inside = np.empty(m)
    for some in _parts(m):
        squares = _squares(quadratic, variables, some, nonnegative)
        with_i = r - np.maximum(smallest - squares, 0.0)
        with_i[np.arange(some.size), some] = -1.0
        inside[some] = r[some]
        if K > 1:
            inside[some] += np.partition(with_i, m - K + 1, axis=1)[:, m - K + 1 :].sum(axis=1)
    return np.sqrt(inside)
