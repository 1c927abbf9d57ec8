"""Orthogonal components that may share variables: a bound on the sum of their variances.

d orthonormal components w_c on sets S_c of K_c variables. The bound of `relaxation` holds
for their sum with the d largest eigenvalues of P, as in `joint`; since sets may meet, every
component counts rows of its own:

    sum_c w_c'C w_c <= lambda_1(P) + ... + lambda_d(P) + sum_c (the K_c largest s_i(K_c)),

where s_i(K) is T_ii and the K - 1 largest others of row i. With a number k of nonzeros for all
components together, none has more than k - d + 1, and on average they have k / d: s_i is that of
k - d + 1, and d times the ceil(k / d) largest are counted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..quadratic import Floats
from .clock import Clock
from .relaxation import (
    EPS,
    EXCLUDED,
    SUM_SMOOTHING,
    Multipliers,
    Smoothed,
    minimise_smoothed,
    smoothed_top_indicator,
)

N_STEPS = 40  # of L-BFGS, between two looks at the bound
# Of the smoothing: a share of the bound, and how much smaller it is each time.
INITIAL_SMOOTHING = 0.01
SMOOTHING_FACTOR = 0.4


class Group(NamedTuple):
    """Components of one kind."""

    members: int  # how many they are
    size: int  # variables of a row that are counted, with its own
    rows: int  # rows that are counted


def groups_of(sizes: list[int], total: int | None) -> list[Group]:
    """Components of one size each, or, with one number of nonzeros for all of them, all."""
    d = len(sizes)
    if total is not None:
        return [Group(d, total - d + 1, math.ceil(total / d))]
    return [Group(sizes.count(K), K, K) for K in sorted(set(sizes))]


def orthogonal_bound(
    C: Floats,
    sizes: list[int],
    total: int | None = None,
    *,
    max_iter: int = 200,
    clock: Clock | None = None,
) -> float:
    """A bound on the sum of w'Cw over orthonormal components, rounding included.

    Parameters
    ----------
    C : array (p, p)
        Symmetric, not zero.
    sizes : list of int
        The most nonzeros of each component.
    total : int or None, default=None
        The most nonzeros of all of them together, in place of ``sizes``, of which then only the
        number of components counts.
    max_iter : int, default=200
        Iterations of L-BFGS.
    clock : Clock or None
        Asked often whether the time is up.

    Returns
    -------
    float
    """
    clock = clock or Clock()
    d = len(sizes)
    p = C.shape[0]
    groups = [
        Group(group.members, min(group.size, p), min(group.rows, p))
        for group in groups_of(sizes, total)
    ]
    squares = np.square(C)
    counted = sum(g.members * top_rows(squares, g) for g in groups)
    scale = math.sqrt(counted / d)
    if scale == 0.0:
        return 0.0
    at = Multipliers(C / scale, np.ones(p), np.zeros((p, p)))
    bounds = [
        bound_at(C / scale, at, groups, d),
        bound_at(C / scale, zero_multipliers(p), groups, d),
    ]
    smoothing = INITIAL_SMOOTHING * d
    for _ in range(max_iter // N_STEPS):
        if clock.expired():
            break
        at = improve_orthogonal(C / scale, at, groups, d, smoothing, clock)
        bounds.append(bound_at(C / scale, at, groups, d))
        smoothing *= SMOOTHING_FACTOR
    return scale * min(bounds)


def zero_multipliers(p: int) -> Multipliers:
    """M = 0: the sum of the d largest eigenvalues of C."""
    return Multipliers(np.zeros((p, p)), np.full(p, EPS), np.zeros((p, p)))


def inner(C: Floats, at: Multipliers) -> Floats:
    P: Floats = C - 0.5 * (at.M + at.M.T)
    P[np.diag_indices(P.shape[0])] += 0.5 * at.alpha
    return P


def top_rows(T: Floats, group: Group) -> float:
    """The largest row sums, each of the row's own entry and the largest others."""
    p = T.shape[0]
    others = np.where(np.eye(p, dtype=bool), -np.inf, T)
    ranked = np.sort(others, axis=1)[:, p - group.size + 1 :]
    s = np.diagonal(T) + ranked.sum(axis=1)
    return float(np.sort(s)[p - group.rows :].sum())


def bound_at(C: Floats, at: Multipliers, groups: list[Group], d: int) -> float:
    """What ``at`` proves; for rounding see `relaxation.rounding`."""
    p = C.shape[0]
    T = np.square(at.M) / (2.0 * at.alpha[:, None]) + 0.5 * (at.A - at.A.T)
    top = sum(group.members * top_rows(T, group) for group in groups)
    norms = sum(float(np.linalg.norm(part)) for part in (C, at.M, at.alpha))
    most = sum(group.members * group.rows * group.size for group in groups)
    summed = abs(top) + most * float(np.abs(at.A).max(initial=0.0))
    rounding = EPS * (16.0 * p * d * norms + 8.0 * (p + most) * summed)
    return float(np.linalg.eigvalsh(inner(C, at))[p - d :].sum()) + top + rounding


def smoothed_orthogonal(
    C: Floats, at: Multipliers, groups: list[Group], d: int, smoothing: float
) -> tuple[float, tuple[Floats, Floats, Floats]]:
    """The bound made smooth, and its derivatives by M, log alpha and A; see
    `relaxation.smoothed`."""
    p = C.shape[0]
    values, vectors = np.linalg.eigh(inner(C, at))
    shares = smoothed_top_indicator(values[None, :], np.array([d]), smoothing)[0]
    height = float(shares @ values) - 0.5 * smoothing * float(shares @ shares)
    X = (vectors * shares) @ vectors.T
    squares = np.square(at.M) / (2.0 * at.alpha[:, None])
    T = squares + 0.5 * (at.A - at.A.T)
    own = np.eye(p, dtype=bool)
    Z = np.zeros((p, p))
    for group in groups:
        scale_rows = SUM_SMOOTHING * smoothing / group.rows
        scale_T = scale_rows / group.size
        counts = np.full(p, group.size - 1)
        Y = smoothed_top_indicator(np.where(own, EXCLUDED, T), counts, scale_T)
        s = -0.5 * scale_T * np.einsum("ij,ij->i", Y, Y)
        Y[own] = 1.0
        s += np.einsum("ij,ij->i", Y, T)
        z = smoothed_top_indicator(s[None, :], np.array([group.rows]), scale_rows)[0]
        height += group.members * float(z @ s - 0.5 * scale_rows * z @ z)
        Z += group.members * z[:, None] * Y
    dM = Z * at.M / at.alpha[:, None] - X
    dalpha = 0.5 * np.diagonal(X) * at.alpha - np.einsum("ij,ij->i", Z, squares)
    return height, (dM, dalpha, 0.5 * (Z - Z.T))


def improve_orthogonal(
    C: Floats, at: Multipliers, groups: list[Group], d: int, smoothing: float, clock: Clock
) -> Multipliers:
    """Multipliers that prove less, by L-BFGS; see `relaxation.improve`."""
    largest = max(group.size for group in groups)

    def at_point(point: Multipliers) -> Smoothed:
        return smoothed_orthogonal(C, point, groups, d, smoothing)

    return minimise_smoothed(at_point, at, largest, N_STEPS, 2 * N_STEPS, clock.expired)
