"""Newton's method on the loadings, for tables of few columns.

EM moves the loadings by steps that shrink with the noise: where a table has columns of very
different size, so that the noise is a millionth of what the components explain, it crawls. The
log-likelihood itself is smooth. With C = W'W + sigma2 I, S = X'X, K = C^-1, Q = K S K, G = n K - Q
and R = 2 Q - n K, a change U of W and v of sigma2 changes C by D = U'W + W'U + v I, and the
log-likelihood to second order by

    - tr(G D) / 2  -  tr(R D K D) / 4  -  tr(G U'U) / 2 .

A step maximises this minus the penalty of W + U: a lasso (`proximal_step`), solved by deciding
which loadings are zero after it. Loadings that would change their sign become zero and the others
are computed again, so that they make up for it; loadings that are zero move where the slope *after*
the step exceeds the penalty. (Lee, Sun & Saunders 2014, "Proximal Newton-type methods for
minimizing composite functions".)

The likelihood does not change when W is rotated. Until enough loadings are zero to hold the axes,
the curvature along rotations is zero, while across them it is the larger the smaller the noise:
shortening a step as a whole would stop it everywhere. Instead the curvature is raised
(Levenberg & Marquardt) until the step pays, and lowered again while steps keep what they promise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

MOST_COLUMNS = 1000  # whose Gram matrix is kept
# Loadings that move at once; a step costs the cube of their number. Many only where EM crawls.
FEW_LOADINGS, MOST_LOADINGS = 400, 1000
MANY_TIMES_NOISE = 1e4  # the mean square of a table in which it does
FARTHEST = 2.0  # change of log sigma2 in a step
ROUNDS = 12  # of deciding which loadings a step leaves at zero
LAST_ROUNDS = 3  # of them, in which no loading leaves zero any more
LEAST_DAMPING, MOST_DAMPING = 1e-8, 1e3  # beside a curvature of one
MORE_DAMPING = 30.0  # times as much, where a step does not pay
LESS_DAMPING = 0.2  # after a step that kept its promise
ROUNDING = 1e-12  # of the objective: what a step promises below may be rounding of the slopes
FARTHER = 3.0  # times a step, while that pays


class Sums(NamedTuple):
    """All that the likelihood needs of the table, on the host."""

    S: np.ndarray  # (p, p) X'X
    factor: np.ndarray  # (m, p) a table of few rows with the same X'X
    n: int  # rows
    total: float  # trace of S
    least_noise: float  # sigma2 goes no lower


def sums_of(S: np.ndarray, n: int, least_noise: float) -> Sums:
    """With the factor of S = X'X whose rows are its axes."""
    values, axes = np.linalg.eigh(S)
    present = values > 0.0
    factor = np.sqrt(values[present])[:, None] * axes[:, present].T
    return Sums(S, factor, n, float(np.trace(S)), least_noise)


class Point(NamedTuple):
    """Loadings and noise, with the log-likelihood there and its first derivatives."""

    W: np.ndarray  # (d, p)
    sigma2: float
    A: np.ndarray  # (d, p) W K = M^-1 W, with M = W W' + sigma2 I
    AS: np.ndarray  # (d, p)
    ASK: np.ndarray  # (d, p)
    log_likelihood: float


def at(sums: Sums, W: np.ndarray, sigma2: float) -> Point:
    """The log-likelihood at these loadings, by Woodbury's identity.

    tr(S K) is the sum over rows y of the smallest |y - W'e|^2 / sigma2 + |e|^2, at e = M^-1 W y:
    in this form no digits are lost where the noise is tiny, as they are in tr(S) - tr(A S W').
    """
    d, p = W.shape
    M = W @ W.T
    M.flat[:: d + 1] += sigma2
    A = np.linalg.solve(M, W)
    e = A @ sums.factor.T
    left = sums.factor - e.T @ W
    distance = float(np.vdot(left, left)) / sigma2 + float(np.vdot(e, e))
    log_det = (p - d) * math.log(sigma2) + float(np.linalg.slogdet(M)[1])
    value = -0.5 * (sums.n * (p * math.log(2.0 * math.pi) + log_det) + distance)
    return Point(W, sigma2, A, e @ sums.factor, (e @ left) / sigma2, value)


def tiny_noise(sums: Sums, sigma2: float) -> bool:
    """Whether the noise is so small beside the table that EM crawls and digits are lost."""
    return sums.total > MANY_TIMES_NOISE * sigma2 * sums.n * sums.S.shape[0]


def gradient(sums: Sums, point: Point) -> np.ndarray:
    """-W G, of the log-likelihood in W, (d, p)."""
    return point.ASK - sums.n * point.A


# --- curvature


class Curvature:
    """Minus the second derivatives in all loadings and log sigma2 at a point, as a product."""

    def __init__(self, sums: Sums, point: Point):
        self.sums, self.point = sums, point
        self.WR = 2.0 * point.ASK - sums.n * point.A
        sigma2, n, p = point.sigma2, sums.n, point.W.shape[1]
        # P = W'A = I - sigma2 K; traces of its powers, alone and with S
        W, A = point.W, point.A
        WW, WA, ASA = W @ W.T, W @ A.T, point.AS @ A.T
        P = float(np.trace(WA))
        PP = float(np.vdot(A @ A.T, WW))
        SP = float(np.vdot(point.AS, W))
        SPP = float(np.vdot(ASA, WW))
        SPPP = float(np.vdot(ASA, WA @ WW))
        trace_K, trace_KK = (p - P) / sigma2, (p - 2.0 * P + PP) / sigma2**2
        trace_SKK = (sums.total - 2.0 * SP + SPP) / sigma2**2
        trace_SKKK = (sums.total - 3.0 * SP + 3.0 * SPP - SPPP) / sigma2**3
        self.noise_slope = -0.5 * sigma2 * (n * trace_K - trace_SKK)
        of_noise = 0.5 * sigma2**2 * (2.0 * trace_SKKK - n * trace_KK) - self.noise_slope
        # an approximate curvature that is never negative, where rounding is all that is left
        self.noise_curvature = max(of_noise, 1e-12 * n * p)
        self.mixed = self._of_loadings(np.zeros_like(W), sigma2)

    def _after_K(self, V: np.ndarray) -> np.ndarray:
        point = self.point
        return (V - (V @ point.W.T) @ point.A) / point.sigma2

    def _of_loadings(self, U: np.ndarray, v: float) -> np.ndarray:
        """(A D R + W R D K) / 2 + U G."""
        W, A, n, WR = self.point.W, self.point.A, self.sums.n, self.WR
        AD = (A @ U.T) @ W + (A @ W.T) @ U + v * A
        WRD = (WR @ U.T) @ W + (WR @ W.T) @ U + v * WR
        ADK, UK = self._after_K(AD), self._after_K(U)
        return self._after_K((ADK - UK) @ self.sums.S + 0.5 * WRD) + n * (UK - 0.5 * ADK)

    def times(self, U: np.ndarray, v: float) -> tuple[np.ndarray, float]:
        """Of a change U of W and v of log sigma2."""
        there = self._of_loadings(U, 0.0) + v * self.mixed
        return there, float(np.vdot(self.mixed, U)) + self.noise_curvature * v


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
    a, j = np.nonzero(free[:, inside])
    crossed = _entries(WR.T, j, a) * _entries(A, a, j)
    H = 0.5 * (crossed + crossed.T)
    # R (x) WKW / 2 + K (x) WRW / 2 + G (x) I, in terms of Q and K
    WKW, WRW, same = A @ W.T, WR @ W.T, np.eye(W.shape[0])
    for columns, components in ((Q, WKW - same), (K, 0.5 * (WRW - n * WKW) + n * same)):
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


# --- the equations of a step


class Known:
    """The curvature at one point as a matrix, in as many loadings as were asked for."""

    def __init__(self, sums: Sums, point: Point):
        self.sums, self.point = sums, point
        self.included: np.ndarray | None = None  # (d, p)

    def include(self, loadings: np.ndarray) -> None:
        if self.included is None:
            self.included = loadings
        elif np.any(loadings & ~self.included):
            self.included = self.included | loadings
        else:
            return
        self.places = np.flatnonzero(self.included)
        self.H, self.noise_slope = curvature(self.sums, self.point, self.included)
        self.scale = np.sqrt(np.maximum(np.abs(np.diagonal(self.H)), 1e-300))
        self.scaled = self.H / self.scale[:, None] / self.scale


# Of ``uphill`` (d, p), the ``free`` loadings and a change ``fixed`` of the others: the change of
# all loadings and of log sigma2 at which no slope is left in the free ones and the noise; None
# where the curvature is not positive.
Solver = Callable[[np.ndarray, np.ndarray, np.ndarray], "tuple[np.ndarray, float] | None"]


def solver(known: Known, damping: float) -> Solver:
    """By Cholesky's decomposition, of the curvature with ``damping`` times its diagonal added."""

    def solve(
        uphill: np.ndarray, free: np.ndarray, fixed: np.ndarray
    ) -> tuple[np.ndarray, float] | None:
        known.include(free | (fixed != 0))
        inside = known.places
        moving = np.flatnonzero(np.append(free.ravel()[inside], True))
        held = np.append(fixed.ravel()[inside], 0.0)
        right = np.append(uphill.ravel()[inside], known.noise_slope)
        right = (right - known.H @ held if held.any() else right)[moving]
        scale = known.scale[moving]
        scaled = _entries(known.scaled, moving, moving)
        scaled.flat[:: scale.size + 1] += damping
        factor, failed = linalg.lapack.dpotrf(scaled.T, overwrite_a=True, clean=False)
        if failed:
            return None
        found = linalg.lapack.dpotrs(factor, right / scale)[0] / scale
        U = fixed.copy()
        U[free] = found[:-1]
        return U, float(found[-1])

    return solve


# --- steps


class Step(NamedTuple):
    """A change of the loadings and of log sigma2."""

    U: np.ndarray  # (d, p)
    v: float
    promise: float  # by how much the penalised log-likelihood rises, to second order
    finished: bool  # whether nothing was left to decide about the zeros


def proximal_step(
    bend: Curvature,
    slopes: np.ndarray,
    penalty: float,
    solve: Solver,
    allowed: np.ndarray | None = None,
) -> Step | None:
    """Maximise the penalised log-likelihood to second order; None where it has no maximum.

    Loadings outside ``allowed`` stay as they are.
    """
    W = bend.point.W
    free = W != 0 if penalty > 0.0 else np.ones_like(W, dtype=bool)
    if allowed is not None:
        free &= allowed
    signs, fixed = np.sign(W), np.zeros_like(W)
    for k in range(ROUNDS):
        found = solve(slopes - penalty * signs, free, fixed)
        if found is None:
            return None
        U, v = found
        last = k == ROUNDS - 1
        leaving = free & ((W + U) * signs < 0.0) if penalty > 0.0 else np.zeros_like(free)
        if leaving.any() and not last:
            free, fixed = free & ~leaving, np.where(leaving, -W, fixed)
            continue
        U = np.where(leaving, -W, U)
        HU, Hv = bend.times(U, v)
        zero = ~free if allowed is None else ~free & allowed
        entering = zero & (np.abs(slopes - HU) > penalty * (1.0 + 1e-9))
        if np.count_nonzero(free | entering) > 2 * MOST_LOADINGS:
            return None
        if k >= ROUNDS - LAST_ROUNDS or not entering.any():
            break
        signs = np.where(entering, np.sign(slopes - HU), signs)
        free, fixed = free | entering, np.where(entering, 0.0, fixed)
    price = penalty * float(np.abs(W + U).sum() - np.abs(W).sum())
    rise = float(np.vdot(U, slopes - 0.5 * HU)) + v * (bend.noise_slope - 0.5 * Hv)
    return Step(U, v, rise - price, not entering.any() and not leaving.any())


def improved(
    sums: Sums,
    point: Point,
    penalty: float,
    tol: float,
    damping: float = 0.0,
    allowed: np.ndarray | None = None,
    gap: float = 0.0,
) -> tuple[Point | None, float]:
    """A step from ``point`` that raises the penalised log-likelihood, and the damping for the next.

    None where no step pays although one promises more than ``tol``; ``point`` itself if none
    promises that, or nothing beyond what rounding hides, or if the conditions of optimality hold
    to ``gap`` of the penalty. Loadings outside ``allowed`` stay as they are.
    """
    slopes = gradient(sums, point)
    bend, known = Curvature(sums, point), Known(sums, point)
    noise_gap = abs(bend.noise_slope) / (sums.n * point.W.shape[1])
    if penalty > 0.0 and noise_gap < gap and violation(point.W, slopes, penalty) < gap * penalty:
        return point, damping
    before = _height(point, penalty)
    hidden = ROUNDING * (abs(before) + sums.n * point.W.shape[1])
    enough = max(tol, 0.1 * hidden) if tiny_noise(sums, point.sigma2) else tol
    while damping <= MOST_DAMPING:
        step = proximal_step(bend, slopes, penalty, solver(known, damping), allowed)
        if step is not None:
            if step.finished and step.promise <= enough:
                return point, damping
            after = _moved(sums, point, step, penalty)
            rise = _height(after, penalty) - before
            if rise > 0.0:
                kept = rise / max(step.promise, 1e-300)
                if kept > 0.75 and (damping > 0.0 or penalty == 0.0):
                    after = _farther(sums, point, step, after, penalty)
                return after, _suited(damping, kept)
            if step.finished and step.promise <= hidden:
                return point, damping
        damping = max(MORE_DAMPING * damping, LEAST_DAMPING)
    return None, LEAST_DAMPING


def _moved(sums: Sums, point: Point, step: Step, penalty: float, length: float = 1.0) -> Point:
    """The point at so many times the step; under a penalty, loadings that would change their sign
    become zero."""
    W = point.W + length * step.U
    if length > 1.0 and penalty > 0.0:
        there = point.W + step.U
        W = np.where((W * there <= 0.0) | (W * point.W < 0.0), 0.0, W)
    change = math.exp(max(-FARTHEST, min(FARTHEST, length * step.v)))
    return at(sums, W, max(point.sigma2 * change, sums.least_noise))


def _height(point: Point, penalty: float) -> float:
    """The penalised log-likelihood."""
    return point.log_likelihood - penalty * float(np.abs(point.W).sum())


def _farther(sums: Sums, point: Point, step: Step, after: Point, penalty: float) -> Point:
    """The highest point along a step that kept its promise: where it leaves a saddle, or loadings
    that a penalty had shrunken, the way is long, and the curvature says nothing of its length."""
    length = 1.0
    while True:
        length *= FARTHER
        there = _moved(sums, point, step, penalty, length)
        if not _height(there, penalty) > _height(after, penalty):
            return after
        after = there


def violation(W: np.ndarray, slopes: np.ndarray, penalty: float) -> float:
    """The largest violation of the conditions of optimality: slope = penalty sign(w) where
    w != 0, and at most the penalty where w = 0."""
    excess = np.where(W != 0, np.abs(slopes - penalty * np.sign(W)), np.abs(slopes) - penalty)
    return float(excess.max())


def _suited(damping: float, kept: float) -> float:
    """The damping after a step that kept this share of its promise."""
    if kept < 0.25:
        return max(4.0 * damping, LEAST_DAMPING)
    if kept > 0.75:
        return LESS_DAMPING * damping if damping > LEAST_DAMPING else 0.0
    return damping
