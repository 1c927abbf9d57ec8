"""A convex bound on sparse components that is often exact.

How large can w'Cw be for a unit vector w whose nonzeros lie in some set S of K variables (and,
if asked, w >= 0)? Take any matrix M (p, p), any alpha > 0 (p,) and any antisymmetric N (p, p).
With the symmetric part of M taken out of C,

    w'Cw = w'(C - (M + M')/2) w + sum_{i in S} w_i sum_{j in S} M_ij w_j.

The inner sum is at most the length of row i of M on S (Cauchy and Schwarz), |w_i| times that
length is at most alpha_i w_i^2 / 2 + length^2 / (2 alpha_i), and the entries of N on S x S add up
to zero:

    w'Cw <= lambda_max(P) + sum_{i in S} sum_{j in S} T_ij

    P = C - (M + M')/2 + diag(alpha)/2,      T_ij = M_ij^2 / (2 alpha_i) + N_ij.

Of S it is now only used that it has K members: row i gives at most s_i = T_ii + the K - 1 largest
others of its entries, and the rows at most the K largest s_i. What results is a bound for every
(M, alpha, N), convex in them up to the scale of alpha, and the smallest is looked for. M = 0 and
alpha -> 0 is the largest eigenvalue of C; M = C and alpha constant is the Frobenius norm of a
block (`bounds.row_norm_bound`), from which the search starts. With w >= 0 a negative M_ij cannot
help: it counts as zero in T.

The dual of this problem is a semidefinite relaxation, X for ww' and Z for the pairs in S x S, with
sum_j X_ij^2 / Z_ij <= X_ii, Z_ij = Z_ji <= Z_ii and sum_j Z_ij = K Z_ii. It is never solved: every
(M, alpha, N) at hand proves its own bound, however roughly it was found.

Some variables can be known to be in S (``pinned``). The bounds that hold when one variable more is
known to be in S, or to be out of it, follow for all variables at once from the same (M, alpha, N):
`children`. They say which variables cannot be in the best S, or must be, before any branching.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize

from ..quadratic import Floats, Indices, Mask

EPS = float(np.finfo(float).eps)
# Of the smoothed objective, as shares of the smoothing of the largest eigenvalue.
SUM_SMOOTHING = 5.0
# M and N are found in these units, N's as a share of 1 / K: their curvature is then like that of
# log alpha.
UNIT_OF_M = 0.1
UNIT_OF_N = 0.03
LBFGS_MEMORY = 15  # pairs of steps and gradients that L-BFGS remembers
MAX_NEWTON_STEPS = 30  # at most, for the threshold of a smoothed sum of the largest entries
EXCLUDED = -1e3  # an entry that no sum of the largest takes in; C has entries of order one


class Problem(NamedTuple):
    """Which S are in search. C should be of order one: divide it by a value of w'Cw."""

    C: Floats  # (p, p)
    pinned: Mask  # (p,) variables that are in S
    slots: int  # how many others are, less than there are
    nonnegative: bool = False


class Multipliers(NamedTuple):
    """What proves a bound."""

    M: Floats  # (p, p)
    alpha: Floats  # (p,) positive
    A: Floats  # (p, p), of which N is the antisymmetric part


class OutsideTerms(NamedTuple):
    """What variables that take no part in an improvement add to the sums of those that do.

    Their M_ij are C_ij, on both sides, so that P is zero between them and all others.
    """

    squares: Floats  # (p, slots) for every row, the largest M_ij^2 of theirs
    s: Floats  # (slots,) the largest of their own row sums


class Proof(NamedTuple):
    """A bound with what it was made of; see the head of this file."""

    bound: float  # rounding included
    largest: float  # largest eigenvalue of P, and what rounding can add to the whole
    s: Floats  # (p,) row sums
    others: Floats  # (p, p) T, with -inf where S is known: at pinned variables and at i = j
    ranked: Floats  # (p, slots + 1) the largest entries of ``others`` in every row


def fixed_entries(problem: Problem) -> Mask:
    """Entries (i, j) that row i of T adds up in any case: pinned j, and i itself, (p, p)."""
    p = problem.C.shape[0]
    mask = np.tile(problem.pinned, (p, 1))
    mask[np.diag_indices(p)] = True
    return mask


def free_counts(problem: Problem) -> Indices:
    """How many other entries of row i are added up, (p,): i itself takes a slot unless pinned."""
    counts: Indices = np.where(problem.pinned, problem.slots, problem.slots - 1)
    return counts


def from_row_norms(problem: Problem) -> Multipliers:
    """M = C with the one alpha that is best for it: the Frobenius norm of a block."""
    C = problem.C
    p = C.shape[0]
    s, _, _ = row_sums(problem, _squares(problem, C))
    total = float(s[problem.pinned].sum() + _top(s[~problem.pinned], problem.slots))
    alpha = np.full(p, math.sqrt(max(total, np.finfo(float).tiny)))
    return Multipliers(C.copy(), alpha, np.zeros((p, p)))


def from_leading_vector(problem: Problem) -> Multipliers:
    """M = (lambda_1 - lambda_2) uu' with the leading eigenvector u of C: as `spectral_bound` of its
    first vector, lambda_2 + (lambda_1 - lambda_2) times the K largest squares of u."""
    p = problem.C.shape[0]
    values, vectors = np.linalg.eigh(problem.C)
    u, ahead = vectors[:, -1], float(values[-1] - values[-2] if p > 1 else values[-1])
    M = ahead * np.outer(u, u)
    squares = np.square(u)
    share = float(squares[problem.pinned].sum() + _top(squares[~problem.pinned], problem.slots))
    alpha = np.full(p, max(ahead * share, 1e-9))
    return Multipliers(M, alpha, np.zeros((p, p)))


def _squares(problem: Problem, M: Floats) -> Floats:
    return np.square(np.maximum(M, 0.0)) if problem.nonnegative else np.square(M)


def _top(values: Floats, count: int) -> float:
    """Sum of the ``count`` largest."""
    return float(np.sort(values)[values.size - count :].sum())


def pairs(problem: Problem, at: Multipliers) -> Floats:
    """T, (p, p). N is antisymmetric to the last digit: a - b and b - a round alike."""
    T: Floats = _squares(problem, at.M) / (2.0 * at.alpha[:, None]) + 0.5 * (at.A - at.A.T)
    return T


def row_sums(problem: Problem, T: Floats) -> tuple[Floats, Floats, Floats]:
    """``s``, ``others`` and ``ranked`` of `Proof`."""
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


def inner_matrix(problem: Problem, at: Multipliers) -> Floats:
    """P, (p, p)."""
    P: Floats = problem.C - 0.5 * (at.M + at.M.T)
    P[np.diag_indices(P.shape[0])] += 0.5 * at.alpha
    return P


def prove(problem: Problem, at: Multipliers) -> Proof:
    """The bound that ``at`` proves, with rounding on the safe side.

    Parameters
    ----------
    problem : Problem
    at : Multipliers

    Returns
    -------
    Proof
    """
    P = inner_matrix(problem, at)
    s, others, ranked = row_sums(problem, pairs(problem, at))
    largest = largest_of_blocks(P)
    top = float(s[problem.pinned].sum() + _top(s[~problem.pinned], problem.slots))
    largest += rounding(problem, at, top)
    return Proof(largest + top, largest, s, others, ranked)


def largest_of_blocks(P: Floats) -> float:
    """The largest eigenvalue of P, where rows without any entry outside_squares the diagonal stand alone."""
    diagonal = np.diagonal(P)
    joined = np.count_nonzero(P, axis=1) > (diagonal != 0.0)
    largest = float(diagonal[~joined].max(initial=-np.inf))
    if np.any(joined):
        block = P[np.ix_(joined, joined)]
        largest = max(largest, float(np.linalg.eigvalsh(block)[-1]))
    return largest


def rounding(problem: Problem, at: Multipliers, top: float) -> float:
    """What rounding can have taken from a bound.

    The entries of P are off by a few eps of what they are made of, C among it, which was divided by
    a number; eigenvalues by p eps of its norm, with room to spare; sums by their number of terms.
    """
    p, K = problem.C.shape[0], problem.slots + int(problem.pinned.sum())
    norms = sum(float(np.linalg.norm(part)) for part in (problem.C, at.M, at.alpha))
    summed = abs(top) + K * K * float(np.abs(at.A).max(initial=0.0))
    return EPS * (16.0 * p * norms + 8.0 * (p + K) * summed)


def children(problem: Problem, proof: Proof) -> tuple[Indices, Floats, Floats]:
    """Bounds for every variable that is not pinned: if it is in S, and if it is out of S.

    If i is in S, a row j that had not counted T_ji must count it in place of the smallest entry
    that it had; if i is out, a row that had counted it takes the next largest in its place.

    Parameters
    ----------
    problem : Problem
    proof : Proof

    Returns
    -------
    free : int array (m,)
        The variables.
    inside : array (m,)
        With this variable in S.
    outside : array (m,)
        With this variable out of S; -inf if there are then too few for S.
    """
    free = np.flatnonzero(~problem.pinned)
    k, m, counts = problem.slots, free.size, free_counts(problem)
    rows = np.arange(counts.size)
    smallest = np.where(counts > 0, proof.ranked[rows, np.maximum(counts - 1, 0)], -np.inf)
    following = proof.ranked[rows, counts]
    # one row for each i, so that what follows runs along the memory
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
    """The same without the variables that are not ``kept``: valid for what remains."""
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
    """Multipliers that prove less, by L-BFGS on a smoothed bound.

    Parameters
    ----------
    problem : Problem
    at : Multipliers
        Where to start.
    smoothing : float
        How far the smoothed bound may be from the real one; a third of the gap does well.
    max_iter : int
    stop : callable or None
        Asked after every iteration whether to stop.
    outside_terms : OutsideTerms or None
        Of variables that are not among those of ``problem``; see ``improve_some``.

    Returns
    -------
    Multipliers
        Not always better ones: `prove` says.
    """
    p, K = problem.C.shape[0], problem.slots + int(problem.pinned.sum())
    # log-sum-exp of p eigenvalues is off by its scale times log p, sums of K by theirs times K
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
"""A smoothed bound, and its gradient in M, in log alpha and in A."""


def minimise_smoothed(
    bound: Callable[[Multipliers], Smoothed],
    at: Multipliers,
    K: int,
    max_iter: int,
    max_calls: int,
    stop: Callable[[], bool] | None = None,
) -> Multipliers:
    """Multipliers of a smaller smoothed bound, by L-BFGS.

    Parameters
    ----------
    bound : function of Multipliers
        The smoothed bound and its gradient.
    at : Multipliers
        Where to start.
    K : int
        Variables of a set, which the unit of A depends on.
    max_iter : int
        The most iterations.
    max_calls : int
        The most evaluations of the bound.
    stop : function or None
        Asked after every iteration whether to stop.

    Returns
    -------
    Multipliers
    """
    p, unit = at.alpha.size, UNIT_OF_N / K

    def unpack(x: Floats) -> Multipliers:
        # alpha stays away from zero and from overflow
        alpha = np.exp(np.clip(x[p * p : p * p + p], -40.0, 40.0))
        M, A = x[: p * p].reshape(p, p), x[p * p + p :].reshape(p, p)
        return Multipliers(UNIT_OF_M * M, alpha, unit * A)

    def value(x: Floats) -> tuple[float, Floats]:
        height, (dM, dalpha, dA) = bound(unpack(x))
        return height, np.concatenate([UNIT_OF_M * dM.ravel(), dalpha, unit * dA.ravel()])

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
) -> tuple[float, tuple[Floats, Floats, Floats]]:
    """The bound made smooth, and its derivatives by M, log alpha and A.

    The largest eigenvalue becomes a log-sum-exp of all, whose derivative is X = exp(P / scale),
    of trace one. A sum of the c largest of v is the largest y'v over 0 <= y <= 1, sum y = c, and
    becomes that of y'v - scale |y|^2 / 2: see `smoothed_top_indicator`.
    """
    scale_P, scale_rows, scale_T = scales
    values, vectors = np.linalg.eigh(inner_matrix(problem, at))
    weights = np.exp((values - values[-1]) / scale_P)
    total = float(weights.sum())
    height = float(values[-1]) + scale_P * math.log(total)
    X = (vectors * (weights / total)) @ vectors.T
    squares = _squares(problem, at.M) / (2.0 * at.alpha[:, None])
    outside_squares = outside_terms.squares / (2.0 * at.alpha[:, None])
    T = squares + 0.5 * (at.A - at.A.T)
    p, free = T.shape[0], ~problem.pinned
    Y = smoothed_top_indicator(
        np.hstack([np.where(mask, EXCLUDED, T), outside_squares]), counts, scale_T
    )
    s = -0.5 * scale_T * np.einsum("ij,ij->i", Y, Y)
    Y, Y_outside = Y[:, :p], Y[:, p:]
    Y[mask] = 1.0
    s += np.einsum("ij,ij->i", Y, T) + np.einsum("ij,ij->i", Y_outside, outside_squares)
    rows = np.concatenate([s[free], outside_terms.s])
    shares = smoothed_top_indicator(rows[None, :], np.array([problem.slots]), scale_rows)[0]
    z = np.ones(p)
    z[free] = shares[: rows.size - outside_terms.s.size]
    height += float(s[problem.pinned].sum() + shares @ rows - 0.5 * scale_rows * shares @ shares)
    Z = z[:, None] * Y
    M = np.maximum(at.M, 0.0) if problem.nonnegative else at.M
    dM = Z * M / at.alpha[:, None] - X
    dalpha = 0.5 * np.diagonal(X) * at.alpha - np.einsum("ij,ij->i", Z, squares)
    dalpha -= z * np.einsum("ij,ij->i", Y_outside, outside_squares)
    return height, (dM, dalpha, 0.5 * (Z - Z.T))


def improve_some(
    problem: Problem,
    at: Multipliers,
    proof: Proof,
    some: Indices,
    smoothing: float,
    max_iter: int,
    stop: Callable[[], bool] | None = None,
) -> Multipliers:
    """As `improve`, for the variables ``some``, pinned ones among them, where all are too many.

    The others have M_ij = C_ij and the largest alpha that does not raise the largest eigenvalue.

    Parameters
    ----------
    problem : Problem
    at : Multipliers
        Where to start.
    proof : Proof
        Of these.
    some : int array
        The variables, in rising order.
    smoothing, max_iter, stop
        As for `improve`.

    Returns
    -------
    Multipliers
        For all variables.
    """
    block = np.ix_(some, some)
    rest = np.setdiff1d(np.arange(problem.C.shape[0]), some, assume_unique=True)
    part = Problem(problem.C[block], problem.pinned[some], problem.slots, problem.nonnegative)
    everywhere = Multipliers(
        problem.C.copy(), np.full(at.alpha.size, 2.0 * proof.largest), np.zeros_like(at.A)
    )
    s, _, _ = row_sums(problem, pairs(problem, everywhere))
    columns = _squares(problem, problem.C[np.ix_(some, rest)])
    k = problem.slots
    outside_terms = OutsideTerms(
        -np.sort(-columns, axis=1)[:, :k],
        -np.sort(-s[rest])[:k],
    )
    start = Multipliers(at.M[block], at.alpha[some], at.A[block])
    end = improve(part, start, smoothing, max_iter, stop, outside_terms)
    everywhere.M[block], everywhere.A[block] = end.M, end.A
    largest = float(np.linalg.eigvalsh(inner_matrix(part, end))[-1])
    everywhere.alpha[:] = 2.0 * largest
    everywhere.alpha[some] = end.alpha
    return everywhere


def smoothed_top_indicator(V: Floats, counts: Indices, scale: float) -> Floats:
    """Rows y of the largest y'v - scale |y|^2 / 2 over 0 <= y <= 1 with sum y = count.

    y = clip((v - t) / scale, 0, 1), with the threshold t found by Newton's method between bounds:
    with t = v_(count) at most count entries are positive, and with t = v_(count + 1) - scale at
    least count + 1 are one.
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
    left = rows  # whose threshold is not found yet
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
