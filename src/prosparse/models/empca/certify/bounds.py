"""How good could a sparse component be? Upper bounds on w'Cw over all supports of size K.

[MWA06]  B. Moghaddam, Y. Weiss, S. Avidan. Spectral bounds for sparse PCA. NeurIPS 2006.
[ABG08]  A. d'Aspremont, F. Bach, L. El Ghaoui. Optimal solutions for sparse principal
         component analysis. JMLR 9, 2008.

Every function returns a number that w'Cw cannot exceed for any unit w with at most K
nonzeros; the smallest is the best. Signs and angles only make the feasible set smaller, so
that the bounds hold with them too.

They differ in what they need and what they cost. `trace_bound` needs the diagonal of C,
`spectral_bound` some of its eigenvectors, `dual_bound` a factor; `gershgorin_bound` and
`row_norm_bound` need C, and are good where K is small. `relaxed_bound` contains all but the dual
one and is often exact, at the cost of some hundred eigenproblems; it alone has room for rounding.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ..quadratic import Floats, Mask, Quadratic, largest_eigenvalue
from ..thresholds import Constraint
from .relaxation import Problem, from_leading_vector, from_row_norms, improve, prove

GERSHGORIN_WIDTH = 3000  # p x p arrays up to here
FACTOR_ENTRIES = 20_000_000  # dense m x p factors up to here
DUAL_SIDE = 400  # and m x m eigenproblems, some twenty of them
# `relaxed_bound`: iterations at a time, and their smoothing: a share of the bound, and how much
# smaller it is each time.
RELAXED_STEPS = 40
RELAXED_SMOOTHING = 0.01
RELAXED_SHRINKAGE = 0.4


def top_sum(values: Floats, K: int, axis: int = -1) -> Floats:
    """Sum of the K largest entries along an axis.

    Parameters
    ----------
    values : array
    K : int
        If there are fewer entries, all of them are added up.
    axis : int, default=-1

    Returns
    -------
    array
        Without that axis.
    """
    size = values.shape[axis]
    if size > K:
        part = np.partition(values, size - K, axis=axis)
        values = np.take(part, np.arange(size - K, size), axis=axis)
    total: Floats = np.sum(values, axis=axis)
    return total


def spectral_bound(values: Floats, vectors: Floats, rest: float, K: int) -> float:
    """A bound from eigenvalues and eigenvectors of C.

    w'Cw = sum_l lambda_l (u_l'w)^2, where (u_l'w)^2 is at most the sum t_l of the K largest
    squares in u_l, and all of them add up to at most one: fill from the largest lambda on.

    Parameters
    ----------
    values : array (m,)
        Eigenvalues of C, in falling order, the largest among them.
    vectors : array (m, p)
        Their vectors, as rows.
    rest : float
        A bound on the eigenvalues that are not given.
    K : int
        The most nonzeros of w.

    Returns
    -------
    float
    """
    t = np.clip(top_sum(vectors**2, K, axis=1), 0.0, 1.0)
    before = np.concatenate([[0.0], np.cumsum(t)[:-1]])
    share = np.clip(1.0 - before, 0.0, t)
    return float(share @ values + max(0.0, 1.0 - share.sum()) * rest)


def _leading_directions(A: Floats, K: int) -> tuple[Floats, Floats, float]:
    """As many eigenvalues and vectors of A'A as `spectral_bound` fills, mostly a few, and a bound
    of the others."""
    values, vectors = np.linalg.eigh(A @ A.T)
    values, vectors = np.maximum(values[::-1], 0.0), vectors[:, ::-1]
    count = 0
    while True:
        count = min(max(4, 2 * count), values.size)
        directions = vectors[:, :count].T @ A
        directions /= np.sqrt(np.maximum(values[:count], 1e-300))[:, None]
        if count == values.size:
            return values, directions, 0.0
        if float(np.sum(top_sum(directions**2, K, axis=1))) >= 1.0:
            return values[:count], directions, float(values[count])


def trace_bound(diagonal: Floats, K: int) -> float:
    """The largest eigenvalue of a block is at most its trace.

    Parameters
    ----------
    diagonal : array (p,)
        The diagonal of C.
    K : int
        The most nonzeros of w.

    Returns
    -------
    float
    """
    return float(top_sum(diagonal, K))


def gershgorin_bound(C: Floats, K: int, nonnegative: bool = False) -> float:
    """The largest of C_ii + the K-1 largest ``|C_ij|``; for w >= 0 negative C_ij cannot help.

    Parameters
    ----------
    C : array (p, p)
    K : int
        The most nonzeros of w.
    nonnegative : bool, default=False
        Whether w >= 0.

    Returns
    -------
    float
    """
    size = np.clip(C, 0.0, None) if nonnegative else np.abs(C)
    diagonal = np.diagonal(C)
    off = size - np.diag(np.diagonal(size))
    return float(np.max(diagonal + (top_sum(off, K - 1, axis=1) if K > 1 else 0.0)))


def row_norm_bound(C: Floats, K: int, nonnegative: bool = False) -> float:
    """Frobenius norm of a block: the K largest sums of the K largest C_ij^2 of a row.

    Parameters
    ----------
    C : array (p, p)
    K : int
        The most nonzeros of w.
    nonnegative : bool, default=False
        Whether w >= 0.

    Returns
    -------
    float
    """
    size = np.clip(C, 0.0, None) if nonnegative else C
    return float(np.sqrt(top_sum(top_sum(size**2, K, axis=1), K)))


def dual_bound(A: Floats, x: Floats, K: int) -> float:
    """Weak duality in [ABG08]: the smallest over rho of lambda_max(sum_i Y_i) + rho K.

    For every rho and i, Y_i is positive semi-definite and at least B_i = a_i a_i' - rho I, which
    makes the value a bound for any x; if w is optimal it is often tight, and proves it.

    Parameters
    ----------
    A : array (m, p)
        With A'A = C.
    x : array (m,)
        The unit vector ``A w / |A w|`` of a good component w.
    K : int
        The most nonzeros of w.

    Returns
    -------
    float
    """
    s = A.T @ x
    norms = np.sum(A * A, axis=0)
    kept = np.sort(s**2)[::-1]
    # At an optimal support rho lies between its smallest (a_i'x)^2 and the next one.
    middle = 0.5 * float(kept[K - 1] + (kept[K] if kept.size > K else 0.0))
    if middle <= 0.0:
        return math.inf
    turned = _towards_first_axis(A, x)
    scaled = np.empty_like(turned[1:])

    def value(log_ratio: float) -> float:
        rho = middle * math.exp(log_ratio)
        return _dual_value(turned, s, norms, rho, scaled) + rho * K

    first = value(0.0)
    if first <= float(kept[:K].sum()) * (1.0 + 1e-9):
        return first  # w is optimal: no smaller bound exists
    tried = minimize_scalar(value, bounds=(-2.5, 1.0), method="bounded", options={"maxiter": 5})
    return min(first, float(tried.fun))


def _towards_first_axis(A: Floats, x: Floats) -> Floats:
    """H A with the reflection H that takes x to the first axis, or to its opposite."""
    v = x.copy()
    v[0] += math.copysign(1.0, x[0])
    v /= np.linalg.norm(v)
    turned: Floats = A - np.outer(2.0 * v, v @ A)
    return turned


def _dual_value(A: Floats, s: Floats, norms: Floats, rho: float, scaled: Floats) -> float:
    """Largest eigenvalue of sum_i Y_i, [ABG08] (13) and the lines after it.

    In the basis of ``A`` x is the first axis e, or -e, which changes nothing but the sign of s:
    there P = I - xx' leaves out the first row. ``scaled`` is written to.
    """
    positive = s**2 - rho  # x'B_i x
    inside = positive > 1e-12 * rho
    # the others, i with x'B_i x <= 0: Y_i = y_i P a_i a_i'P / |P a_i|^2, not expanded, as the terms
    # would cancel
    out = ~inside & (norms > rho)
    gap = np.maximum(-positive, 1e-12 * rho)
    y = np.where(out, rho * (norms - rho) / gap, 0.0)
    PA = np.multiply(A[1:], np.sqrt(y / np.maximum(norms - s**2, 1e-300)), out=scaled)
    total = np.zeros((A.shape[0], A.shape[0]))
    total[1:, 1:] = PA @ PA.T
    # i with x'B_i x > 0: Y_i = B_i x x'B_i / (x'B_i x), B_i x = a_i s_i - rho x
    B = A[:, inside] * A[0, inside]
    B[0] -= rho
    B /= np.sqrt(positive[inside])
    total += B @ B.T
    # Columns along x can overflow: then there is no bound at this rho.
    return largest_eigenvalue(total) if np.isfinite(total).all() else math.inf


def relaxed_bound(C: Floats, K: int, nonnegative: bool = False, max_iter: int = 200) -> float:
    """The convex bound of `relaxation`, with rounding on the safe side.

    Parameters
    ----------
    C : array (p, p)
        Symmetric, not zero.
    K : int
        The most nonzeros of w.
    nonnegative : bool, default=False
        Whether w >= 0.
    max_iter : int, default=200
        Iterations of L-BFGS, each an eigenproblem of side p; 0 gives the best of two bounds in
        closed form.

    Returns
    -------
    float
    """
    p = C.shape[0]
    size = row_norm_bound(C, K, nonnegative)
    if p <= K:
        return largest_eigenvalue(C) + 16.0 * p * np.finfo(float).eps * float(np.linalg.norm(C))
    problem = Problem(C / size, np.zeros(p, dtype=bool), K, nonnegative)
    starts = [from_row_norms(problem), from_leading_vector(problem)]
    bounds = [prove(problem, at).bound for at in starts]
    at = starts[int(np.argmin(bounds))]
    smoothing = RELAXED_SMOOTHING
    for _ in range(max_iter // RELAXED_STEPS):
        at = improve(problem, at, smoothing * min(bounds), RELAXED_STEPS)
        bounds.append(prove(problem, at).bound)
        smoothing *= RELAXED_SHRINKAGE
    return size * min(bounds)


def upper_bound(quadratic: Quadratic, w: Floats, K: int, allowed: Mask, nonnegative: bool) -> float:
    """The smallest bound that can be computed at this size, on the variables allowed.

    Parameters
    ----------
    quadratic : Quadratic
        C.
    w : array (p,)
        A good component, from which the dual bound starts.
    K : int
        The most nonzeros of a component.
    allowed : bool array (p,)
        The variables that a component may use.
    nonnegative : bool
        Whether components have no negative entry.

    Returns
    -------
    float
    """
    S = np.flatnonzero(allowed)
    bounds = [trace_bound(quadratic.diagonal()[S], K)]
    if S.size <= GERSHGORIN_WIDTH:
        C = quadratic.block(S)
        bounds += [gershgorin_bound(C, K, nonnegative), row_norm_bound(C, K, nonnegative)]
    small = quadratic.rank_bound * S.size <= FACTOR_ENTRIES and quadratic.rank_bound <= DUAL_SIDE
    A = quadratic.factor(S) if small else None
    if A is not None:
        values, directions, rest = _leading_directions(A, K)
        bounds += [float(values[0]), spectral_bound(values, directions, rest, K)]
        image = A @ w[S]
        length = float(np.linalg.norm(image))
        if length > 0:
            bounds.append(dual_bound(A, image / length, K))
    else:
        largest, first = quadratic.leading(S)
        bounds += [largest, spectral_bound(np.array([largest]), first[None, :], largest, K)]
    return float(min(bounds))


class Candidate(NamedTuple):
    """A component, with the problem that it is meant to solve: the largest w'Cw."""

    quadratic: Quadratic  # C
    constraint: Constraint
    w: Floats  # (p,) the component
    value: float  # its w'Cw


def gap(candidate: Candidate) -> float:
    """1 - value / upper bound: 0 proves that no other component has a larger value.

    Parameters
    ----------
    candidate : Candidate

    Returns
    -------
    float
        Between 0 and 1.
    """
    c = candidate.constraint
    bound = upper_bound(candidate.quadratic, candidate.w, c.K, c.allowed, c.nonnegative)
    return max(0.0, 1.0 - candidate.value / bound)


def gaps(candidates: Iterable[Candidate]) -> Floats:
    """The `gap` of every candidate.

    Parameters
    ----------
    candidates : iterable of Candidate
        Taken one after the other, so that a generator need hold one form at a time.

    Returns
    -------
    array
    """
    return np.array([gap(candidate) for candidate in candidates])
