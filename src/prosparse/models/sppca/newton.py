"""Proximal Newton method for data with few columns.

The steps of EM are proportional to the noise variance, so that EM converges slowly if the noise is
small, as for columns of very different variances. The log-likelihood itself is smooth. With C = W'W
+ sigma2 I, S = X'X, K = C^-1, Q = K S K, G = n K - Q and R = 2 Q - n K, a change U of W and v of
sigma2 changes C by D = U'W + W'U + v I. To second order, the log-likelihood changes by

    - tr(G D) / 2  -  tr(R D K D) / 4  -  tr(G U'U) / 2 .

A step maximises this expression minus the penalty of W + U (`proximal_step`), a lasso problem that
is solved by an active-set method. Loadings that would change sign are set to zero, and the others
are recomputed. Zero loadings enter if the gradient *after* the step exceeds the penalty. (Lee, Sun
& Saunders 2014, "Proximal Newton-type methods for minimizing composite functions".)

The likelihood is invariant under rotations of W. Until enough loadings are zero to fix the axes,
the curvature along rotations is zero, whereas the curvature in other directions increases as the
noise decreases. A line search would shorten the step in all directions. Instead, the curvature is
damped (Levenberg & Marquardt) until the step increases the objective. The damping decreases while
the quadratic model predicts the increase well.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy import linalg

from .l1 import violation

MAX_COLUMNS = 1000  # maximum number of columns for which X'X is stored
# Maximum number of loadings in a step, whose cost is cubic in it. The maximum is larger if the
# noise is small.
MAX_LOADINGS, MAX_LOADINGS_TINY_NOISE = 400, 1000
TINY_NOISE_RATIO = 1e4  # mean square of the data relative to a noise variance that counts as small
MAX_LOG_NOISE_STEP = 2.0  # maximum change of log sigma2 in a step
MAX_ROUNDS = 12  # maximum number of active sets in a step
N_FINAL_ROUNDS = 3  # number of final active sets, in which no loading enters
MIN_DAMPING, MAX_DAMPING = 1e-8, 1e3  # relative to the diagonal of the curvature
DAMPING_INCREASE = 30.0  # factor after a step that decreases the objective
DAMPING_DECREASE = 0.2  # factor after a step that was predicted well
ROUNDING = 1e-12  # relative rounding error of the objective
STEP_GROWTH = 3.0  # factor by which a step is extended while the objective increases


class Sums(NamedTuple):
    """Sufficient statistics of the data, as NumPy arrays."""

    S: np.ndarray  # (p, p) X'X
    factor: np.ndarray  # (m, p) matrix with the same X'X
    n: int  # rows
    total: float  # trace of S
    min_noise: float  # minimum of sigma2


def sums_of(S: np.ndarray, n: int, min_noise: float) -> Sums:
    """Compute the statistics, and a factor of S = X'X by eigendecomposition."""
    values, axes = np.linalg.eigh(S)
    present = values > 0.0
    factor = np.sqrt(values[present])[:, None] * axes[:, present].T
    return Sums(S, factor, n, float(np.trace(S)), min_noise)


class Point(NamedTuple):
    """Loadings and noise variance, with the log-likelihood and its gradient."""

    W: np.ndarray  # (d, p)
    sigma2: float
    A: np.ndarray  # (d, p) W K = M^-1 W, with M = W W' + sigma2 I
    AS: np.ndarray  # (d, p)
    ASK: np.ndarray  # (d, p)
    log_likelihood: float


def evaluate(sums: Sums, W: np.ndarray, sigma2: float) -> Point:
    """Evaluate the log-likelihood by Woodbury's identity.

    tr(S K) is the sum over rows y of the minimum of |y - W'e|^2 / sigma2 + |e|^2 over e, attained
    at e = M^-1 W y. Unlike tr(S) - tr(A S W'), this form has no cancellation if the noise is small.
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
    """Return whether the noise is so small that EM is slow and sums cancel."""
    return sums.total > TINY_NOISE_RATIO * sigma2 * sums.n * sums.S.shape[0]


def gradient(sums: Sums, point: Point) -> np.ndarray:
    """Compute the gradient -W G of the log-likelihood in W, (d, p)."""
    return point.ASK - sums.n * point.A


# --- curvature


class Curvature:
    """Negative Hessian in all loadings and log sigma2, as a linear operator."""

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
        self.noise_gradient = -0.5 * sigma2 * (n * trace_K - trace_SKK)
        of_noise = 0.5 * sigma2**2 * (2.0 * trace_SKKK - n * trace_KK) - self.noise_gradient
        # A negative curvature, due to rounding, is replaced by a small positive value.
        self.noise_curvature = max(of_noise, 1e-12 * n * p)
        self.mixed = self._of_loadings(np.zeros_like(W), sigma2)

    def _after_K(self, V: np.ndarray) -> np.ndarray:
        point = self.point
        return (V - (V @ point.W.T) @ point.A) / point.sigma2

    def _of_loadings(self, U: np.ndarray, v: float) -> np.ndarray:
        """Compute (A D R + W R D K) / 2 + U G."""
        W, A, n, WR = self.point.W, self.point.A, self.sums.n, self.WR
        AD = (A @ U.T) @ W + (A @ W.T) @ U + v * A
        WRD = (WR @ U.T) @ W + (WR @ W.T) @ U + v * WR
        ADK, UK = self._after_K(AD), self._after_K(U)
        return self._after_K((ADK - UK) @ self.sums.S + 0.5 * WRD) + n * (UK - 0.5 * ADK)

    def times(self, U: np.ndarray, v: float) -> tuple[np.ndarray, float]:
        """Multiply by a change U of W and v of log sigma2."""
        product = self._of_loadings(U, 0.0) + v * self.mixed
        return product, float(np.vdot(self.mixed, U)) + self.noise_curvature * v


def curvature(sums: Sums, point: Point, free: np.ndarray) -> tuple[np.ndarray, float]:
    """Compute the negative Hessian matrix, and the derivative in log sigma2.

    The variables are the ``free`` loadings, (d, p) bool, followed by log sigma2.
    """
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
    # Noise: columns without loadings have K = I / sigma2 and contribute only to traces.
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


def _entries(matrix: np.ndarray, rows: np.ndarray, columns: np.ndarray) -> np.ndarray:
    return matrix.take(rows, axis=0).take(columns, axis=1)


# --- the equations of a step


class CurvatureMatrix:
    """Matrix of the negative Hessian at one point, for the included loadings."""

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
        self.H, self.noise_gradient = curvature(self.sums, self.point, self.included)
        self.scale = np.sqrt(np.maximum(np.abs(np.diagonal(self.H)), 1e-300))
        self.scaled = self.H / self.scale[:, None] / self.scale


# Function of the gradient (d, p), the ``free`` loadings and a change ``fixed`` of the others. It
# returns the change of all loadings and of log sigma2 at which the gradient in the free loadings
# and the noise is zero, or None if the curvature is not positive definite.
Solver = Callable[[np.ndarray, np.ndarray, np.ndarray], "tuple[np.ndarray, float] | None"]


def make_solver(matrix: CurvatureMatrix, damping: float) -> Solver:
    """Build a Cholesky solver with ``damping`` times the diagonal added."""

    def solve(
        gradient: np.ndarray, free: np.ndarray, fixed: np.ndarray
    ) -> tuple[np.ndarray, float] | None:
        matrix.include(free | (fixed != 0))
        inside = matrix.places
        moving = np.flatnonzero(np.append(free.ravel()[inside], True))
        offset = np.append(fixed.ravel()[inside], 0.0)
        right = np.append(gradient.ravel()[inside], matrix.noise_gradient)
        right = (right - matrix.H @ offset if offset.any() else right)[moving]
        scale = matrix.scale[moving]
        scaled = _entries(matrix.scaled, moving, moving)
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
    predicted: float  # predicted increase of the penalised log-likelihood, to second order
    finished: bool  # whether the active set is final


def proximal_step(
    hessian: Curvature,
    gradients: np.ndarray,
    penalty: float,
    solve: Solver,
    allowed: np.ndarray | None = None,
) -> Step | None:
    """Maximise the quadratic model of the penalised log-likelihood.

    The result is None if the model is unbounded. Loadings outside ``allowed`` do not change.
    """
    W = hessian.point.W
    free = W != 0 if penalty > 0.0 else np.ones_like(W, dtype=bool)
    if allowed is not None:
        free &= allowed
    signs, fixed = np.sign(W), np.zeros_like(W)
    for k in range(MAX_ROUNDS):
        found = solve(gradients - penalty * signs, free, fixed)
        if found is None:
            return None
        U, v = found
        last = k == MAX_ROUNDS - 1
        leaving = free & ((W + U) * signs < 0.0) if penalty > 0.0 else np.zeros_like(free)
        if leaving.any() and not last:
            free, fixed = free & ~leaving, np.where(leaving, -W, fixed)
            continue
        U = np.where(leaving, -W, U)
        HU, Hv = hessian.times(U, v)
        zero = ~free if allowed is None else ~free & allowed
        entering = zero & (np.abs(gradients - HU) > penalty * (1.0 + 1e-9))
        if np.count_nonzero(free | entering) > 2 * MAX_LOADINGS_TINY_NOISE:
            return None
        if k >= MAX_ROUNDS - N_FINAL_ROUNDS or not entering.any():
            break
        signs = np.where(entering, np.sign(gradients - HU), signs)
        free, fixed = free | entering, np.where(entering, 0.0, fixed)
    price = penalty * float(np.abs(W + U).sum() - np.abs(W).sum())
    rise = float(np.vdot(U, gradients - 0.5 * HU)) + v * (hessian.noise_gradient - 0.5 * Hv)
    return Step(U, v, rise - price, not entering.any() and not leaving.any())


def improve(
    sums: Sums,
    point: Point,
    penalty: float,
    tol: float,
    damping: float = 0.0,
    allowed: np.ndarray | None = None,
    gap: float = 0.0,
) -> tuple[Point | None, float]:
    """Find a point with a larger objective, and the damping of the next step.

    The point is ``point`` itself if the predicted increase is below ``tol`` or rounding, or if the
    optimality conditions hold to ``gap`` times the penalty. The point is None if no step increases
    the objective although the predicted increase exceeds ``tol``. Loadings outside ``allowed`` do
    not change.
    """
    gradients = gradient(sums, point)
    hessian, matrix = Curvature(sums, point), CurvatureMatrix(sums, point)
    noise_gap = abs(hessian.noise_gradient) / (sums.n * point.W.shape[1])
    if (
        penalty > 0.0
        and noise_gap < gap
        and violation(point.W, gradients, penalty, np) < gap * penalty
    ):
        return point, damping
    before = _objective(point, penalty)
    rounding = ROUNDING * (abs(before) + sums.n * point.W.shape[1])
    min_increase = max(tol, 0.1 * rounding) if tiny_noise(sums, point.sigma2) else tol
    while damping <= MAX_DAMPING:
        step = proximal_step(hessian, gradients, penalty, make_solver(matrix, damping), allowed)
        if step is not None:
            if step.finished and step.predicted <= min_increase:
                return point, damping
            after = _move(sums, point, step, penalty)
            rise = _objective(after, penalty) - before
            if rise > 0.0:
                ratio = rise / max(step.predicted, 1e-300)
                if ratio > 0.75 and (damping > 0.0 or penalty == 0.0):
                    after = _extend(sums, point, step, after, penalty)
                return after, _next_damping(damping, ratio)
            if step.finished and step.predicted <= rounding:
                return point, damping
        damping = max(DAMPING_INCREASE * damping, MIN_DAMPING)
    return None, MIN_DAMPING


def _move(sums: Sums, point: Point, step: Step, penalty: float, length: float = 1.0) -> Point:
    """Return the point after ``length`` steps; loadings do not change sign."""
    W = point.W + length * step.U
    if length > 1.0 and penalty > 0.0:
        end = point.W + step.U
        W = np.where((W * end <= 0.0) | (W * point.W < 0.0), 0.0, W)
    change = math.exp(max(-MAX_LOG_NOISE_STEP, min(MAX_LOG_NOISE_STEP, length * step.v)))
    return evaluate(sums, W, max(point.sigma2 * change, sums.min_noise))


def _objective(point: Point, penalty: float) -> float:
    """Return the penalised log-likelihood."""
    return point.log_likelihood - penalty * float(np.abs(point.W).sum())


def _extend(sums: Sums, point: Point, step: Step, after: Point, penalty: float) -> Point:
    """Extend a well predicted step while the objective increases.

    Steps away from a saddle point or from shrunken loadings are long, and their length does not
    follow from the curvature.
    """
    length = 1.0
    while True:
        length *= STEP_GROWTH
        longer = _move(sums, point, step, penalty, length)
        if not _objective(longer, penalty) > _objective(after, penalty):
            return after
        after = longer


def _next_damping(damping: float, ratio: float) -> float:
    """Return the next damping, given the ratio of actual to predicted increase."""
    if ratio < 0.25:
        return max(4.0 * damping, MIN_DAMPING)
    if ratio > 0.75:
        return DAMPING_DECREASE * damping if damping > MIN_DAMPING else 0.0
    return damping
