"""Screening: exclusion of variables that cannot be in the optimal set.

The Frobenius norm of a block of C bounds its largest eigenvalue. The norm requires the largest
entries of each row of C, which are computed in blocks of rows, so that no p x p array is formed.
The bound for each variable (`relaxation.children` with M = C) typically leaves a few dozen of ten
thousand variables if the component is close to optimal.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..quadratic import Floats, Indices, Mask, Quadratic
from .relaxation import EPS

# Number of variables at which screening stops and `branching` forms the block of C.
MAX_BRANCHING = 1500
# Maximum number of variables for `branching`; above it, only the screening bound is available.
MAX_VARIABLES = 4000
# Minimum proportion of variables excluded in a round for another round.
MIN_REDUCTION = 0.1
MAX_BLOCK_ENTRIES = 4_000_000  # maximum number of entries of C computed at once


class Screening(NamedTuple):
    """Variables that can be in a set above the target, and upper bounds."""

    variables: Indices
    closed: float  # upper bound of sets with an excluded variable
    bound: float  # upper bound of all sets


def screen_variables(
    quadratic: Quadratic,
    allowed: Mask,
    K: int,
    target: float,
    nonnegative: bool = False,
    expired: Callable[[], bool] = lambda: False,
) -> Screening:
    """Exclude variables that are in no set of K with a value above ``target``."""
    variables = np.flatnonzero(allowed)
    closed, bound, slow = -np.inf, np.inf, False
    while variables.size > max(MAX_BRANCHING, K) and not expired():
        before = variables.size
        # This factor allows for rounding errors of sums of squares and of the entries of C.
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
        if before - variables.size < MIN_REDUCTION * before:
            if slow:
                break
            slow = True  # the sharper bound reads C again
    return Screening(variables, closed, bound)


def _squares(quadratic: Quadratic, variables: Indices, rows: Indices, positive: bool) -> Floats:
    """Compute C_ij^2 for i in ``variables[rows]`` and j in ``variables``."""
    entries = quadratic.columns(variables[rows])[variables].T
    squares: Floats = np.square(np.maximum(entries, 0.0) if positive else entries)
    return squares


def _row_blocks(m: int) -> list[Indices]:
    return np.array_split(np.arange(m), max(1, m * m // MAX_BLOCK_ENTRIES))


def row_norms(
    quadratic: Quadratic, variables: Indices, K: int, nonnegative: bool
) -> tuple[Floats, Floats]:
    """Sum C_ii^2 and the K - 1 largest other C_ij^2; also return the smallest."""
    m = variables.size
    r, smallest = np.empty(m), np.full(m, -np.inf)
    for rows in _row_blocks(m):
        squares = _squares(quadratic, variables, rows, nonnegative)
        own = squares[np.arange(rows.size), rows]
        squares[np.arange(rows.size), rows] = -1.0
        r[rows] = own
        if K > 1:
            largest = np.partition(squares, m - K + 1, axis=1)[:, m - K + 1 :]
            r[rows] += largest.sum(axis=1)
            smallest[rows] = largest.min(axis=1)
    return r, smallest


def norms_with(
    quadratic: Quadratic,
    variables: Indices,
    K: int,
    nonnegative: bool,
    r: Floats,
    smallest: Floats,
) -> Floats:
    """Bound the Frobenius norm of any block that contains each variable.

    Every other row j of the block contains C_ij^2 instead of its smallest entry.
    """
    m = variables.size
    inside = np.empty(m)
    for rows in _row_blocks(m):
        squares = _squares(quadratic, variables, rows, nonnegative)
        with_i = r - np.maximum(smallest - squares, 0.0)
        with_i[np.arange(rows.size), rows] = -1.0
        inside[rows] = r[rows]
        if K > 1:
            inside[rows] += np.partition(with_i, m - K + 1, axis=1)[:, m - K + 1 :].sum(axis=1)
    return np.sqrt(inside)
