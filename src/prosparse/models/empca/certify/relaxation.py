"""Convex upper bound on the variance of a sparse component.

Let w be a unit vector whose nonzeros lie in a set S of K variables, optionally with w >= 0. Let M
(p, p) be any matrix, alpha > 0 (p,) any vector and N (p, p) any antisymmetric matrix. Subtracting
the symmetric part of M from C gives

    w'Cw = w'(C - (M + M')/2) w + sum_{i in S} w_i sum_{j in S} M_ij w_j.

By the Cauchy-Schwarz inequality, the inner sum is at most the norm of row i of M on S. The product
of |w_i| and this norm is at most alpha_i w_i^2 / 2 + norm^2 / (2 alpha_i), and the entries of N on
S x S sum to zero:

    w'Cw <= lambda_max(P) + sum_{i in S} sum_{j in S} T_ij

    P = C - (M + M')/2 + diag(alpha)/2,      T_ij = M_ij^2 / (2 alpha_i) + N_ij.

Because S has K members, row i contributes at most s_i, the sum of T_ii and the K - 1 largest other
entries of row i. The rows contribute at most the sum of the K largest s_i. This bound holds for
every (M, alpha, N) and is minimised; it is convex up to the scale of alpha. For M = 0 and alpha ->
0, the bound is the largest eigenvalue of C. For M = C and constant alpha, it is the Frobenius norm
of a block (`screening.row_norms`), from which the minimisation starts. With w >= 0, negative M_ij
count as zero in T.

The bound is often exact. Its dual is a semidefinite relaxation with X for ww' and Z for the pairs
in S x S, where sum_j X_ij^2 / Z_ij <= X_ii, Z_ij = Z_ji <= Z_ii and sum_j Z_ij = K Z_ii. The dual
is not solved, because every (M, alpha, N) yields a valid bound.

Some variables may be fixed to be in S (``pinned``). Bounds given that one more variable is in S, or
not in S, follow for all variables from the same (M, alpha, N) (`children`). These bounds exclude
variables from the optimal S, or pin them, before branching.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..quadratic import Floats, Indices, Mask

EPS = float(np.finfo(float).eps)
# Smoothing of the sums relative to the smoothing of the largest eigenvalue.
SUM_SMOOTHING = 5.0
# Units of M and N (the latter relative to 1 / K) in which the curvature is similar to that in log
# alpha.
UNIT_OF_M = 0.1
UNIT_OF_N = 0.03
LBFGS_MEMORY = 15  # number of correction pairs of L-BFGS
MAX_NEWTON_STEPS = 30  # for the threshold in a smoothed sum of the largest entries
EXCLUDED = -1e3  # value of entries excluded from sums; the entries of C are of order one


class Problem(NamedTuple):
    """Problem to bound. C should be scaled to values w'Cw of order one."""

    C: Floats  # (p, p)
    pinned: Mask  # (p,) variables in S
    slots: int  # number of other variables in S
    nonnegative: bool = False


class Multipliers(NamedTuple):
    """Multipliers that determine a bound."""

    M: Floats  # (p, p)
    alpha: Floats  # (p,) positive
    A: Floats  # (p, p) matrix whose antisymmetric part is N


class OutsideTerms(NamedTuple):
    """Contributions of variables whose multipliers are not optimised.

    For these variables, M_ij equals C_ij, so that their entries of P are zero off the diagonal.
    """

    squares: Floats  # (p, slots) largest M_ij^2 of these variables in each row
    s: Floats  # (slots,) largest row sums of these variables


class Proof(NamedTuple):
    """Bound and its parts, as defined in the module documentation."""

    bound: float  # includes rounding errors
    largest: float  # largest eigenvalue of P plus the rounding error of the bound
    s: Floats  # (p,) row sums
    others: Floats  # (p, p) T, with -inf at pinned variables and on the diagonal
    ranked: Floats  # (p, slots + 1) largest entries of ``others`` in each row


def fixed_entries(problem: Problem) -> Mask:
    """Mask the entries always in a row sum, (p, p): pinned j, and j = i."""
    p = problem.C.shape[0]
    mask = np.tile(problem.pinned, (p, 1))
    mask[np.diag_indices(p)] = True
    return mask


def free_counts(problem: Problem) -> Indices:
    """Count the other entries in the sum of each row, (p,)."""
    counts: Indices = np.where(problem.pinned, problem.slots, problem.slots - 1)
    return counts


def from_row_norms(problem: Problem) -> Multipliers:
    """Initialise with M = C and constant alpha: Frobenius norm of a block."""
    C = problem.C
    p = C.shape[0]
    s, _, _ = row_sums(problem, _squares(C, problem.nonnegative))
    total = sum_of_top_rows(problem, s)
    alpha = np.full(p, math.sqrt(max(total, np.finfo(float).tiny)))
    return Multipliers(C.copy(), alpha, np.zeros((p, p)))


def from_leading_vector(problem: Problem) -> Multipliers:
    """Initialise M = (lambda_1 - lambda_2) uu' with the leading eigenvector u.

    The bound is lambda_2 + (lambda_1 - lambda_2) times the sum of the K largest squares of u.
    """
    p = problem.C.shape[0]
    values, vectors = np.linalg.eigh(problem.C)
    u, ahead = vectors[:, -1], float(values[-1] - values[-2] if p > 1 else values[-1])
    M = ahead * np.outer(u, u)
    alpha = np.full(p, max(ahead * sum_of_top_rows(problem, np.square(u)), 1e-9))
    return Multipliers(M, alpha, np.zeros((p, p)))


def _squares(M: Floats, nonnegative: bool) -> Floats:
    return np.square(np.maximum(M, 0.0)) if nonnegative else np.square(M)


def sum_of_top_rows(problem: Problem, s: Floats) -> float:
    """Sum ``s`` over the pinned variables and the largest others."""
    others = np.sort(s[~problem.pinned])
    return float(s[problem.pinned].sum() + others[others.size - problem.slots :].sum())


def pair_terms(at: Multipliers, nonnegative: bool = False) -> Floats:
    """Compute T (p, p), with exactly antisymmetric N."""
    squares = _squares(at.M, nonnegative) / (2.0 * at.alpha[:, None])
    return squares + 0.5 * (at.A - at.A.T)


def row_sums(problem: Problem, T: Floats) -> tuple[Floats, Floats, Floats]:
    """Compute ``s``, ``others`` and ``ranked`` of `Proof`."""
    p, k = T.shape[0], problem.slots
    mask = fixed_entries(problem)
    s = np.where(mask, T, 0.0).sum(axis=1)
    others = np.where(mask, -np.inf, T)
    if k + 1 < p:
        ranked = -np.sort(np.partition(-others, k, axis=1)[:, : k + 1], axis=1)
    else:
        ranked = -np.sort(-others, axis=1)
        ranked = np.pad(ranked, ((0, 0), (0, k + 1 - p)), constant_values=-np.inf)
    totals = np.cumsum(np.where(np.isfinite(ranked), ranked, 0.0), axis=1)
    totals = np.concatenate([np.zeros((p, 1)), totals], axis=1)
    return s + totals[np.arange(p), free_counts(problem)], others, ranked


def inner_matrix(C: Floats, at: Multipliers) -> Floats:
    """Compute P, (p, p)."""
    P: Floats = C - 0.5 * (at.M + at.M.T)
    P[np.diag_indices(P.shape[0])] += 0.5 * at.alpha
    return P


def prove(problem: Problem, at: Multipliers) -> Proof:
    """Compute the bound for given multipliers, including rounding errors."""
    P = inner_matrix(problem.C, at)
    s, others, ranked = row_sums(problem, pair_terms(at, problem.nonnegative))
    largest = largest_of_blocks(P)
    top = sum_of_top_rows(problem, s)
    K = problem.slots + int(problem.pinned.sum())
    largest += rounding(problem.C, at, top, K, K * K)
    return Proof(largest + top, largest, s, others, ranked)


def largest_of_blocks(P: Floats) -> float:
    """Compute the largest eigenvalue of P; split off diagonal rows."""
    diagonal = np.diagonal(P)
    joined = np.count_nonzero(P, axis=1) > (diagonal != 0.0)
    largest = float(diagonal[~joined].max(initial=-np.inf))
    if np.any(joined):
        block = P[np.ix_(joined, joined)]
        largest = max(largest, float(np.linalg.eigvalsh(block)[-1]))
    return largest


def rounding(
    C: Floats, at: Multipliers, top: float, n_rows: int, n_entries: int, d: int = 1
) -> float:
    """Compute an upper bound on the rounding error of a bound.

    The bound consists of ``top``, the sum of ``n_rows`` row sums with ``n_entries`` entries in
    total, and of the d largest eigenvalues of P. The error of an entry of P is a few eps times its
    terms, and that of an eigenvalue at most p eps times the norm of P. The error of a sum is
    proportional to the number of terms.
    """
    p = C.shape[0]
    norms = sum(float(np.linalg.norm(part)) for part in (C, at.M, at.alpha))
    summed = abs(top) + n_entries * float(np.abs(at.A).max(initial=0.0))
    return EPS * (16.0 * p * d * norms + 8.0 * (p + n_rows) * summed)


def children(problem: Problem, proof: Proof) -> tuple[Indices, Floats, Floats]:
    """Compute bounds given that a variable is in S, and that it is not.

    If i is in S, T_ji replaces the smallest entry in the sum of row j, unless the sum contains it.
    If i is not in S, the next largest entry replaces T_ji. The result is the variables that are not
    pinned, and both bounds for each.
    """
    free = np.flatnonzero(~problem.pinned)
    k, m, counts = problem.slots, free.size, free_counts(problem)
    rows = np.arange(counts.size)
    smallest = np.where(counts > 0, proof.ranked[rows, np.maximum(counts - 1, 0)], -np.inf)
    following = proof.ranked[rows, counts]
    # One contiguous row for each i.
    entries = np.ascontiguousarray(proof.others[:, free].T)
    finite = np.isfinite(entries)
    counted = (entries >= smallest) & (counts > 0) & finite
    with np.errstate(invalid="ignore"):
        lost_in = np.where(counted | ~finite, 0.0, smallest - entries)
        lost_out = np.where(counted, entries - following, 0.0)
    lost_in = np.where(np.isfinite(lost_in), lost_in, 0.0)
    own = np.arange(m)

    def total(rest: Floats, slots: int) -> Floats:
        fixed: Floats = rest[:, problem.pinned].sum(axis=1)
        if slots == 0:
            return fixed
        open_rows = rest[:, free]
        open_rows[own, own] = -np.inf
        part = np.partition(open_rows, m - slots, axis=1)[:, m - slots :]
        return fixed + part.sum(axis=1)

    inside = proof.largest + proof.s[free] + total(proof.s - lost_in, k - 1)
    outside = np.full(m, -np.inf)
    if m > k:
        outside = proof.largest + total(proof.s - lost_out, k)
    return free, inside, outside


def restrict(at: Multipliers, kept: Mask) -> Multipliers:
    """Return the multipliers of the variables in ``kept``."""
    block = np.ix_(kept, kept)
    return Multipliers(at.M[block], at.alpha[kept], at.A[block])


def improve(
    problem: Problem,
    at: Multipliers,
    smoothing: float,
    max_iter: int,
    stop: Callable[[], bool] | None = None,
    outside_terms: OutsideTerms | None = None,
) -> Multipliers:
    """Minimise a smoothed bound by L-BFGS.

    ``smoothing`` is the maximum difference between the smoothed and the exact bound; a third of the
    gap works well. The exact bound (`prove`) need not decrease.
    """
    p, K = problem.C.shape[0], problem.slots + int(problem.pinned.sum())
    # The error of log-sum-exp of p eigenvalues is its scale times log p; that of sums is their
    # scale times K.
    scales = (
        smoothing / math.log(p + 1.0),
        SUM_SMOOTHING * smoothing / K,
        SUM_SMOOTHING * smoothing / K**2,
    )
    mask, counts = fixed_entries(problem), free_counts(problem)
    if outside_terms is None:
        outside_terms = OutsideTerms(np.empty((p, 0)), np.empty(0))

    def at_point(point: Multipliers) -> Smoothed:
        return smoothed(problem, point, mask, counts, scales, outside_terms)

    return minimise_smoothed(at_point, at, K, max_iter, max_iter + max_iter // 2 + 5, stop)


Smoothed = tuple[float, tuple[Floats, Floats, Floats]]
"""Smoothed bound, and its gradient in M, log alpha and A."""


def minimise_smoothed(
    bound: Callable[[Multipliers], Smoothed],
    at: Multipliers,
    K: int,
    max_iter: int,
    max_calls: int,
    stop: Callable[[], bool] | None = None,
) -> Multipliers:
    """Minimise a smoothed bound of sets of K variables by L-BFGS, until ``stop``."""
    p, unit = at.alpha.size, UNIT_OF_N / K

    def unpack(x: Floats) -> Multipliers:
        # The limits keep alpha positive and finite.
        alpha = np.exp(np.clip(x[p * p : p * p + p], -40.0, 40.0))
        M, A = x[: p * p].reshape(p, p), x[p * p + p :].reshape(p, p)
        return Multipliers(UNIT_OF_M * M, alpha, unit * A)

    def value(x: Floats) -> tuple[float, Floats]:
        smooth_bound, (dM, dalpha, dA) = bound(unpack(x))
        return smooth_bound, np.concatenate([UNIT_OF_M * dM.ravel(), dalpha, unit * dA.ravel()])

    def after(intermediate_result: object) -> None:
        if stop is not None and stop():
            raise StopIteration

    start = np.concatenate([at.M.ravel() / UNIT_OF_M, np.log(at.alpha), at.A.ravel() / unit])
    options = {"maxiter": max_iter, "maxcor": LBFGS_MEMORY, "maxfun": max_calls}
    found = minimize(value, start, jac=True, method="L-BFGS-B", options=options, callback=after)
    return unpack(found.x)


def smoothed(
    problem: Problem,
    at: Multipliers,
    mask: Mask,
    counts: Indices,
    scales: tuple[float, float, float],
    outside_terms: OutsideTerms,
) -> Smoothed:
    """Compute the smoothed bound and its derivatives in M, log alpha and A.

    Log-sum-exp of the eigenvalues replaces the largest one; its derivative is X = exp(P / scale),
    normalised to trace one. The sum of the c largest entries of v is the maximum of y'v over
    0 <= y <= 1 with sum y = c; the smoothed sum is the maximum of y'v - scale |y|^2 / 2
    (`smoothed_top_indicator`).
    """
    scale_P, scale_rows, scale_T = scales
    values, vectors = np.linalg.eigh(inner_matrix(problem.C, at))
    weights = np.exp((values - values[-1]) / scale_P)
    total = float(weights.sum())
    smooth_bound = float(values[-1]) + scale_P * math.log(total)
    X = (vectors * (weights / total)) @ vectors.T
    outside_squares = outside_terms.squares / (2.0 * at.alpha[:, None])
    T = pair_terms(at, problem.nonnegative)
    s, Y = smoothed_row_sums(np.hstack([T, outside_squares]), mask, counts, scale_T)
    total, z = smoothed_top_rows(problem, np.concatenate([s, outside_terms.s]), scale_rows)
    p = T.shape[0]
    dM, dalpha, dA = gradient(at, X, z[:p, None] * Y[:, :p], problem.nonnegative)
    dalpha -= z[:p] * np.einsum("ij,ij->i", Y[:, p:], outside_squares)
    return smooth_bound + total, (dM, dalpha, dA)


def smoothed_row_sums(
    T: Floats, mask: Mask, counts: Indices, scale: float
) -> tuple[Floats, Floats]:
    """Compute smoothed row sums s (p,) and the indicator of their entries.

    The entries in ``mask`` (p, p) are always in a sum; T may have further columns.
    """
    p = mask.shape[0]
    summed = T.copy()
    summed[:, :p][mask] = EXCLUDED
    Y = smoothed_top_indicator(summed, counts, scale)
    s = -0.5 * scale * np.einsum("ij,ij->i", Y, Y)
    Y[:, :p][mask] = 1.0
    s += np.einsum("ij,ij->i", Y, T)
    return s, Y


def smoothed_top_rows(problem: Problem, s: Floats, scale: float) -> tuple[float, Floats]:
    """Compute the smoothed `sum_of_top_rows` and the indicator of the rows.

    ``s`` may have further entries after those of the problem; these are not pinned.
    """
    pinned = np.concatenate([problem.pinned, np.zeros(s.size - problem.pinned.size, dtype=bool)])
    z = np.ones(s.size)
    z[~pinned] = smoothed_top_indicator(s[None, ~pinned], np.array([problem.slots]), scale)[0]
    return float(z @ s) - 0.5 * scale * float(z[~pinned] @ z[~pinned]), z


def smoothed_top_eigenvalues(
    C: Floats, at: Multipliers, d: int, scale: float
) -> tuple[float, Floats]:
    """Compute the smoothed sum of the d largest eigenvalues of P, and X."""
    values, vectors = np.linalg.eigh(inner_matrix(C, at))
    weights = smoothed_top_indicator(values[None, :], np.array([d]), scale)[0]
    total = float(weights @ values) - 0.5 * scale * float(weights @ weights)
    return total, (vectors * weights) @ vectors.T


def gradient(
    at: Multipliers, X: Floats, Z: Floats, nonnegative: bool = False
) -> tuple[Floats, Floats, Floats]:
    """Convert derivatives in P and T to derivatives in M, log alpha and A."""
    M = np.maximum(at.M, 0.0) if nonnegative else at.M
    dM = Z * M / at.alpha[:, None] - X
    squares = np.square(M) / (2.0 * at.alpha[:, None])
    dalpha = 0.5 * np.diagonal(X) * at.alpha - np.einsum("ij,ij->i", Z, squares)
    return dM, dalpha, 0.5 * (Z - Z.T)


def improve_some(
    problem: Problem,
    at: Multipliers,
    proof: Proof,
    some: Indices,
    smoothing: float,
    max_iter: int,
    stop: Callable[[], bool] | None = None,
) -> Multipliers:
    """Minimise a smoothed bound over the multipliers of some variables.

    All other variables have M_ij = C_ij and the largest alpha that does not increase the largest
    eigenvalue. ``some`` contains variables in increasing order, including all pinned variables, and
    ``proof`` is the bound at the start ``at``.
    """
    block = np.ix_(some, some)
    rest = np.setdiff1d(np.arange(problem.C.shape[0]), some, assume_unique=True)
    part = Problem(problem.C[block], problem.pinned[some], problem.slots, problem.nonnegative)
    extended = Multipliers(
        problem.C.copy(), np.full(at.alpha.size, 2.0 * proof.largest), np.zeros_like(at.A)
    )
    s, _, _ = row_sums(problem, pair_terms(extended, problem.nonnegative))
    columns = _squares(problem.C[np.ix_(some, rest)], problem.nonnegative)
    k = problem.slots
    outside_terms = OutsideTerms(
        -np.sort(-columns, axis=1)[:, :k],
        -np.sort(-s[rest])[:k],
    )
    start = Multipliers(at.M[block], at.alpha[some], at.A[block])
    end = improve(part, start, smoothing, max_iter, stop, outside_terms)
    extended.M[block], extended.A[block] = end.M, end.A
    largest = float(np.linalg.eigvalsh(inner_matrix(part.C, end))[-1])
    extended.alpha[:] = 2.0 * largest
    extended.alpha[some] = end.alpha
    return extended


def smoothed_top_indicator(V: Floats, counts: Indices, scale: float) -> Floats:
    """Return the maximisers y of y'v - scale |y|^2 / 2 for each row v of V.

    They satisfy 0 <= y <= 1 with sum y = count: y = clip((v - t) / scale, 0, 1). Newton's method
    finds the threshold t between v_(count + 1) - scale, where at least count + 1 entries are one,
    and v_(count), where at most count entries are positive.
    """
    r, n = V.shape
    rows = np.arange(r)
    if n == 0 or n <= int(counts.min()):
        return np.ones_like(V)
    low_place = n - 1 - np.minimum(counts, n - 1)
    high_place = np.minimum(low_place + 1, n - 1)
    places = np.unique(np.concatenate([low_place, high_place]))
    ordered = np.partition(V, places, axis=1)
    high = ordered[rows, high_place]
    low = ordered[rows, low_place] - scale
    t = 0.5 * (high + low)
    left = rows  # rows whose threshold has not converged
    for _ in range(MAX_NEWTON_STEPS):
        u = (V[left] - t[left, None]) / scale
        excess = np.clip(u, 0.0, 1.0).sum(axis=1) - counts[left]
        above = excess > 0
        low[left[above]], high[left[~above]] = t[left[above]], t[left[~above]]
        slope = np.count_nonzero((u > 0.0) & (u < 1.0), axis=1)
        step = t[left] + scale * excess / np.maximum(slope, 1)
        newton = (slope > 0) & (step >= low[left]) & (step <= high[left])
        found = np.abs(excess) < 1e-9
        t[left] = np.where(found, t[left], np.where(newton, step, 0.5 * (low[left] + high[left])))
        left = left[~found]
        if left.size == 0:
            break
    y: Floats = np.clip((V - t[:, None]) / scale, 0.0, 1.0)
    y[counts <= 0] = 0.0
    return y
