"""Bound on the sum of the variances of orthogonal components.

Let w_c be d orthonormal components on sets S_c of K_c variables. The bound of `relaxation` holds
for their sum with the d largest eigenvalues of P, as in `joint`. The sets may overlap, so that the
rows are counted for each component:

    sum_c w_c'C w_c <= lambda_1(P) + ... + lambda_d(P) + sum_c (the K_c largest s_i(K_c)),

where s_i(K) is the sum of T_ii and the K - 1 largest other entries of row i.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ..quadratic import Floats
from .clock import Clock
from .relaxation import (
    EPS,
    SUM_SMOOTHING,
    Multipliers,
    Problem,
    Smoothed,
    fixed_entries,
    free_counts,
    gradient,
    inner_matrix,
    minimise_smoothed,
    pair_terms,
    rounding,
    row_sums,
    smoothed_row_sums,
    smoothed_top_eigenvalues,
    smoothed_top_rows,
    sum_of_top_rows,
)

N_STEPS = 40  # L-BFGS iterations per round
# Initial smoothing relative to the bound, and its factor per round.
INITIAL_SMOOTHING = 0.01
SMOOTHING_FACTOR = 0.4


class Group(NamedTuple):
    """Components of one size."""

    members: int  # number of components
    problem: Problem  # sets of this size


def groups_of(C: Floats, sizes: list[int]) -> list[Group]:
    """Group the components by size, at most p."""
    p = C.shape[0]
    nothing = np.zeros(p, dtype=bool)
    return [Group(sizes.count(K), Problem(C, nothing, min(K, p))) for K in sorted(set(sizes))]


def orthogonal_bound(
    C: Floats, sizes: list[int], *, max_iter: int = 200, clock: Clock | None = None
) -> float:
    """Bound the sum of w'Cw over orthonormal components, including rounding."""
    clock = clock or Clock()
    d = len(sizes)
    p = C.shape[0]
    groups = groups_of(C, sizes)
    squares = np.square(C)
    counted = sum_of_rows(squares, groups)
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
    """Return M = 0, which bounds by the d largest eigenvalues of C."""
    return Multipliers(np.zeros((p, p)), np.full(p, EPS), np.zeros((p, p)))


def sum_of_rows(T: Floats, groups: list[Group]) -> float:
    """Return the sum of the largest row sums over all components."""
    return sum(
        group.members * sum_of_top_rows(group.problem, row_sums(group.problem, T)[0])
        for group in groups
    )


def bound_at(C: Floats, at: Multipliers, groups: list[Group], d: int) -> float:
    """Return the bound of given multipliers, including rounding errors."""
    p = C.shape[0]
    top = sum_of_rows(pair_terms(at), groups)
    most = sum(group.members * group.problem.slots**2 for group in groups)
    error = rounding(C, at, top, most, most, d)
    return float(np.linalg.eigvalsh(inner_matrix(C, at))[p - d :].sum()) + top + error


def smoothed_orthogonal(
    C: Floats, at: Multipliers, groups: list[Group], d: int, smoothing: float
) -> Smoothed:
    """Return the smoothed bound and its derivatives, as `relaxation.smoothed`."""
    p = C.shape[0]
    smooth_bound, X = smoothed_top_eigenvalues(C, at, d, smoothing)
    T = pair_terms(at)
    Z = np.zeros((p, p))
    for members, problem in groups:
        scale_rows = SUM_SMOOTHING * smoothing / problem.slots
        s, Y = smoothed_row_sums(
            T, fixed_entries(problem), free_counts(problem), scale_rows / problem.slots
        )
        total, z = smoothed_top_rows(problem, s, scale_rows)
        smooth_bound += members * total
        Z += members * z[:, None] * Y
    return smooth_bound, gradient(at, X, Z)


def improve_orthogonal(
    C: Floats, at: Multipliers, groups: list[Group], d: int, smoothing: float, clock: Clock
) -> Multipliers:
    """Minimise the smoothed bound by L-BFGS, as `relaxation.improve`."""
    largest = max(group.problem.slots for group in groups)

    def at_point(point: Multipliers) -> Smoothed:
        return smoothed_orthogonal(C, point, groups, d, smoothing)

    return minimise_smoothed(at_point, at, largest, N_STEPS, 2 * N_STEPS, clock.expired)
