"""Upper bounds on w'Cw over all supports of size K.

[MWA06]  B. Moghaddam, Y. Weiss, S. Avidan. Spectral bounds for sparse PCA. NeurIPS 2006.
[ABG08]  A. d'Aspremont, F. Bach, L. El Ghaoui. Optimal solutions for sparse principal
         component analysis. JMLR 9, 2008.

Each function returns an upper bound of w'Cw for unit vectors w with at most K nonzeros. Sign and
angle constraints reduce the feasible set, so that the bounds remain valid.

`trace_bound` requires the diagonal of C, `spectral_bound` some of its eigenvectors, `dual_bound` a
factor. `gershgorin_bound` and `row_norm_bound` require C and are sharp for small K. `relaxed_bound`
is at least as sharp as all but the dual bound and often exact, at the cost of a few hundred
eigenproblems; only this bound accounts for rounding.
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

MAX_GERSHGORIN_WIDTH = 3000  # maximum p for p x p arrays
MAX_FACTOR_ENTRIES = 20_000_000  # maximum number of entries of a dense m x p factor
MAX_DUAL_SIDE = 400  # maximum m for about twenty m x m eigenproblems
# `relaxed_bound`: iterations per round, initial smoothing relative to the bound, and its factor per
# round.
N_RELAXED_STEPS = 40
RELAXED_SMOOTHING = 0.01
RELAXED_SMOOTHING_FACTOR = 0.4


def top_sum(values: Floats, K: int, axis: int = -1) -> Floats:
    """Return the sum of the K largest entries along an axis."""
    size = values.shape[axis]
    if size > K:
        part = np.partition(values, size - K, axis=axis)
        values = np.take(part, np.arange(size - K, size), axis=axis)
    total: Floats = np.sum(values, axis=axis)
    return total


def spectral_bound(values: Floats, vectors: Floats, rest: float, K: int) -> float:
    """Return a bound from eigenvalues and eigenvectors of C.

    In w'Cw = sum_l lambda_l (u_l'w)^2, (u_l'w)^2 is at most the sum t_l of the K largest squares of
    u_l, and the sum of all (u_l'w)^2 is at most one.

    Parameters
    ----------
    values : ndarray of shape (m,)
        Largest eigenvalues of C, in decreasing order.
    vectors : ndarray of shape (m, p)
        Eigenvectors as rows.
    rest : float
        Upper bound of the other eigenvalues.
    K : int
        Maximum number of nonzeros of w.

    Returns
    -------
    float
    """
    t = np.clip(top_sum(vectors**2, K, axis=1), 0.0, 1.0)
    before = np.concatenate([[0.0], np.cumsum(t)[:-1]])
    proportion = np.clip(1.0 - before, 0.0, t)
    return float(proportion @ values + max(0.0, 1.0 - proportion.sum()) * rest)


def _leading_directions(A: Floats, K: int) -> tuple[Floats, Floats, float]:
    """Return the eigenpairs of A'A for `spectral_bound`, and a bound of others."""
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
    """Return the largest trace of a block, which bounds its largest eigenvalue.

    Parameters
    ----------
    diagonal : ndarray of shape (p,)
        Diagonal of C.
    K : int
        Maximum number of nonzeros of w.

    Returns
    -------
    float
    """
    return float(top_sum(diagonal, K))


def gershgorin_bound(C: Floats, K: int, nonnegative: bool = False) -> float:
    """Return the maximum of C_ii plus the K-1 largest ``|C_ij|``.

    With w >= 0, negative C_ij count as zero.

    Parameters
    ----------
    C : ndarray of shape (p, p)
        Symmetric matrix.
    K : int
        Maximum number of nonzeros of w.
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
    """Return the largest Frobenius norm of a block of K rows with K entries each.

    Parameters
    ----------
    C : ndarray of shape (p, p)
        Symmetric matrix.
    K : int
        Maximum number of nonzeros of w.
    nonnegative : bool, default=False
        Whether w >= 0.

    Returns
    -------
    float
    """
    size = np.clip(C, 0.0, None) if nonnegative else C
    return float(np.sqrt(top_sum(top_sum(size**2, K, axis=1), K)))


def dual_bound(A: Floats, x: Floats, K: int) -> float:
    """Return the dual bound of [ABG08].

    This is the minimum over rho of lambda_max(sum Y_i) + rho K. For each rho and i, Y_i is positive
    semi-definite and at least B_i = a_i a_i' - rho I, so that the value is a bound for any x. If w
    is optimal, the bound is often tight.

    Parameters
    ----------
    A : ndarray of shape (m, p)
        Factor with A'A = C.
    x : ndarray of shape (m,)
        Unit vector ``A w / |A w|`` of a component w.
    K : int
        Maximum number of nonzeros of w.

    Returns
    -------
    float
    """
    s = A.T @ x
    norms = np.sum(A * A, axis=0)
    squares = np.sort(s**2)[::-1]
    # At an optimal support rho lies between its smallest (a_i'x)^2 and the next one.
    middle = 0.5 * float(squares[K - 1] + (squares[K] if squares.size > K else 0.0))
    if middle <= 0.0:
        return math.inf
    reflected = _reflect_to_first_axis(A, x)
    scaled = np.empty_like(reflected[1:])

    def value(log_ratio: float) -> float:
        rho = middle * math.exp(log_ratio)
        return _dual_value(reflected, s, norms, rho, scaled) + rho * K

    first = value(0.0)
    if first <= float(squares[:K].sum()) * (1.0 + 1e-9):
        return first  # w is optimal, and the bound is tight
    tried = minimize_scalar(value, bounds=(-2.5, 1.0), method="bounded", options={"maxiter": 5})
    return min(first, float(tried.fun))


def _reflect_to_first_axis(A: Floats, x: Floats) -> Floats:
    """Return H A with the reflection H that maps x to the first axis, up to sign."""
    v = x.copy()
    v[0] += math.copysign(1.0, x[0])
    v /= np.linalg.norm(v)
    reflected: Floats = A - np.outer(2.0 * v, v @ A)
    return reflected


def _dual_value(A: Floats, s: Floats, norms: Floats, rho: float, scaled: Floats) -> float:
    """Return the largest eigenvalue of sum_i Y_i, [ABG08] (13).

    In the basis of ``A``, x is the first axis up to sign, so that P = I - xx' removes the first
    row. ``scaled`` is a buffer.
    """
    positive = s**2 - rho  # x'B_i x
    inside = positive > 1e-12 * rho
    # If x'B_i x <= 0: Y_i = y_i P a_i a_i'P / |P a_i|^2, not expanded to avoid cancellation.
    out = ~inside & (norms > rho)
    gap = np.maximum(-positive, 1e-12 * rho)
    y = np.where(out, rho * (norms - rho) / gap, 0.0)
    PA = np.multiply(A[1:], np.sqrt(y / np.maximum(norms - s**2, 1e-300)), out=scaled)
    total = np.zeros((A.shape[0], A.shape[0]))
    total[1:, 1:] = PA @ PA.T
    # If x'B_i x > 0: Y_i = B_i x x'B_i / (x'B_i x), B_i x = a_i s_i - rho x
    B = A[:, inside] * A[0, inside]
    B[0] -= rho
    B /= np.sqrt(positive[inside])
    total += B @ B.T
    # Columns parallel to x can overflow; there is no bound at this rho then.
    return largest_eigenvalue(total) if np.isfinite(total).all() else math.inf


def relaxed_bound(C: Floats, K: int, nonnegative: bool = False, max_iter: int = 200) -> float:
    """Return the convex bound of ``relaxation``, including rounding errors.

    Parameters
    ----------
    C : ndarray of shape (p, p)
        Symmetric nonzero matrix.
    K : int
        Maximum number of nonzeros of w.
    nonnegative : bool, default=False
        Whether w >= 0.
    max_iter : int, default=200
        Number of L-BFGS iterations, each with an eigenproblem of size p. 0 returns the smaller of
        two closed-form bounds.

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
    for _ in range(max_iter // N_RELAXED_STEPS):
        at = improve(problem, at, smoothing * min(bounds), N_RELAXED_STEPS)
        bounds.append(prove(problem, at).bound)
        smoothing *= RELAXED_SMOOTHING_FACTOR
    return size * min(bounds)


def upper_bound(quadratic: Quadratic, w: Floats, K: int, allowed: Mask, nonnegative: bool) -> float:
    """Return the smallest bound that is feasible at this size.

    Parameters
    ----------
    quadratic : Quadratic
        C.
    w : ndarray of shape (p,)
        Component that determines the dual bound.
    K : int
        Maximum number of nonzeros of a component.
    allowed : ndarray of bool, shape (p,)
        Variables that may have a loading.
    nonnegative : bool
        Whether components are non-negative.

    Returns
    -------
    float
    """
    S = np.flatnonzero(allowed)
    bounds = [trace_bound(quadratic.diagonal()[S], K)]
    if S.size <= MAX_GERSHGORIN_WIDTH:
        C = quadratic.block(S)
        bounds += [gershgorin_bound(C, K, nonnegative), row_norm_bound(C, K, nonnegative)]
    small = (
        quadratic.rank_bound * S.size <= MAX_FACTOR_ENTRIES
        and quadratic.rank_bound <= MAX_DUAL_SIDE
    )
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
    """Component, with the problem that it solves."""

    quadratic: Quadratic  # C
    constraint: Constraint
    w: Floats  # (p,) component
    value: float  # its w'Cw


def gaps(candidates: Iterable[Candidate]) -> Floats:
    """Return 1 - value / upper bound of each candidate; 0 certifies optimality."""
    values = []
    for quadratic, c, w, value in candidates:
        bound = upper_bound(quadratic, w, c.K, c.allowed, c.nonnegative)
        values.append(max(0.0, 1.0 - value / bound))
    return np.array(values)
