"""Newton's method on the nonzero loadings, for tables of few columns.

EM moves the loadings by steps that shrink with the noise: where a table has columns of very
different size, so that the noise is a millionth of what the components explain, it crawls. The
penalised log-likelihood itself is smooth as long as no loading changes its sign. With
C = W'W + sigma2 I, S = X'X, K = C^-1, Q = K S K, G = n K - Q and R = 2 Q - n K, a change U of W and
v of sigma2 changes C by D = U'W + W'U + v I, and the log-likelihood to second order by

    - tr(G D) / 2  -  tr(R D K D) / 4  -  tr(G U'U) / 2 .

A step is taken within the orthant of the signs: of the nonzero loadings, and of those that are zero
and whose gradient exceeds the penalty. Loadings that would leave the orthant become zero. (Andrew &
Gao 2007, "Scalable training of l1-regularized log-linear models", with the exact curvature.)
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy import linalg

MOST_COLUMNS = 1000  # whose Gram matrix is kept
MOST_LOADINGS = 500  # that move at once; a step costs the cube of their number
FARTHEST = 2.0  # change of log sigma2 in a step
SHORTER, SHORTEST = 0.3, 1e-4  # of a step that does not pay, before EM goes on
RIDGES = (0.0, 1e-6, 1e-4, 1e-2, 0.1, 1.0, 10.0, 100.0, 1e4, 1e6)  # beside a diagonal of ones


class Sums(NamedTuple):
    """All that the likelihood needs of the table, on the host."""

    S: np.ndarray  # (p, p) X'X
    n: int  # rows
    total: float  # trace of S
    least_noise: float  # sigma2 goes no lower


class Point(NamedTuple):
    """Loadings and noise, with the log-likelihood there and its first derivatives."""

    W: np.ndarray  # (d, p)
    sigma2: float
    A: np.ndarray  # (d, p) W K = M^-1 W, with M = W W' + sigma2 I
    AS: np.ndarray  # (d, p)
    log_likelihood: float


def at(sums: Sums, W: np.ndarray, sigma2: float) -> Point:
    """The log-likelihood at these loadings, by Woodbury's identity."""
    d, p = W.shape
    M = W @ W.T
    M.flat[:: d + 1] += sigma2
    A = np.linalg.solve(M, W)
    AS = A @ sums.S
    distance = (sums.total - float(np.vdot(AS, W))) / sigma2
    log_det = (p - d) * math.log(sigma2) + float(np.linalg.slogdet(M)[1])
    value = -0.5 * (sums.n * (p * math.log(2.0 * math.pi) + log_det) + distance)
    return Point(W, sigma2, A, AS, value)


def gradient(sums: Sums, point: Point) -> np.ndarray:
    """-W G, of the log-likelihood in W, (d, p)."""
    W, A, AS = point.W, point.A, point.AS
    return (AS - (AS @ W.T) @ A) / point.sigma2 - sums.n * A


def curvature(sums: Sums, point: Point, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Minus the second derivatives in the ``free`` loadings, (d, p) bool, and log sigma2, which is
    last, and the first derivative in log sigma2."""
    sigma2, n = point.sigma2, sums.n
    inside = np.flatnonzero(np.any(free | (point.W != 0), axis=0))
    p, W, A = point.W.shape[1], point.W[:, inside], point.A[:, inside]
    K = -(W.T @ A) / sigma2
    K.flat[:: inside.size + 1] += 1.0 / sigma2
    S = sums.S[np.ix_(inside, inside)]
    Q = K @ S @ K
    G, R = n * K - Q, 2.0 * Q - n * K
    WR = W @ R
    WKW, WRW = A @ W.T, WR @ W.T
    a, j = np.nonzero(free[:, inside])
    crossed = _entries(WR.T, j, a) * _entries(A, a, j)
    H = 0.5 * (crossed + crossed.T)
    same = np.eye(W.shape[0])
    for columns, components in ((R, 0.5 * WKW), (K, 0.5 * WRW), (G, same)):
        H += _entries(columns, j, j) * _entries(components, a, a)
    # the noise: the columns without loadings have K = I / sigma2, and only the traces of theirs
    outside = p - inside.size
    left = sums.total - float(np.trace(S))
    trace_G = float(np.trace(G)) + outside * n / sigma2 - left / sigma2**2
    trace_RK = float(np.vdot(R, K)) + 2.0 * left / sigma2**3 - outside * n / sigma2**2
    mixed = 0.5 * (A @ R + WR @ K)[a, j]
    slope = -0.5 * sigma2 * trace_G
    whole = np.empty((a.size + 1, a.size + 1))
    whole[:-1, :-1] = H
    whole[-1, :-1] = whole[:-1, -1] = sigma2 * mixed
    whole[-1, -1] = 0.5 * sigma2**2 * trace_RK - slope
    return whole, slope


def _entries(table: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return table.take(rows, axis=0).take(columns, axis=1)


def improved(
    sums: Sums, point: Point, penalty: float, tol: float, allowed: np.ndarray | None = None
) -> Point | None:
    """A Newton step from ``point`` that raises the penalised log-likelihood, or None where it does
    not although it promises more than ``tol``; ``point`` itself if it does not promise that.

    Loadings outside ``allowed`` stay as they are.
    """
    W = point.W
    slopes = gradient(sums, point)
    entering = (W == 0) & (np.abs(slopes) > penalty)
    free = (W != 0) | entering
    signs = np.where(entering, np.sign(slopes), np.sign(W))
    if allowed is not None:
        free &= allowed
    if not free.any() or int(free.sum()) > MOST_LOADINGS:
        return None
    H, noise_slope = curvature(sums, point, free)
    uphill = np.append((slopes - penalty * signs)[free], noise_slope)
    direction = ascent(H, uphill)
    promise = float(uphill @ direction)
    before = point.log_likelihood - penalty * float(np.abs(W).sum())
    length = min(1.0, FARTHEST / max(abs(float(direction[-1])), 1e-300))
    while True:
        there = W.copy()
        there[free] += length * direction[:-1]
        if penalty > 0.0:
            there[there * signs < 0.0] = 0.0
        sigma2 = point.sigma2 * math.exp(length * float(direction[-1]))
        after = at(sums, there, max(sigma2, sums.least_noise))
        if after.log_likelihood - penalty * float(np.abs(there).sum()) > before:
            return after
        if length * promise <= tol:
            return point
        if length < SHORTEST:
            return None
        length *= SHORTER


def ascent(H: np.ndarray, uphill: np.ndarray) -> np.ndarray:
    """H^-1 uphill, with as much added to the diagonal of H as makes it positive definite."""
    scale = np.sqrt(np.maximum(np.abs(np.diagonal(H)), 1e-12 * float(np.abs(H).max())))
    scaled = H / scale[:, None] / scale
    diagonal = np.diagonal(scaled).copy()
    for ridge in RIDGES:
        np.fill_diagonal(scaled, diagonal + ridge)
        factor, failed = linalg.lapack.dpotrf(scaled)
        if not failed:
            break
    step, _ = linalg.lapack.dpotrs(factor, uphill / scale)
    return np.asarray(step / scale)
