"""The exact evidence of linear regression models, and of their neighbours.

[LMBC16]  P. Latouche, P.-A. Mattei, C. Bouveyron, J. Chiquet. Combining a relaxed EM algorithm
          with Occam's razor for Bayesian variable selection in high-dimensional regression.
          Journal of Multivariate Analysis 146, 2016.

The model v says y = X_v w + noise, w ~ N(0, I/alpha), noise ~ N(0, I/gamma). With w integrated
out y ~ N(0, I/gamma + X_v X_v'/alpha). Write lambda = alpha/gamma, sigma2 = 1/gamma and

    P = (X_v'X_v + lambda I)^-1      m = P X_v'y      R = y'y - (X_v'y)'m ;

    log p(y | v) = -n/2 log(2 pi sigma2) - R / (2 sigma2) - 1/2 log det(I + X_v'X_v / lambda) .

The best sigma2 is R/n, so that one number, log lambda, is left to optimise: Newton's method,
every evaluation one Cholesky factor of the q x q matrix. At a given lambda the evidence of all
neighbours of v (one variable more, one less, one exchanged for another) follows from P, m and R
by rank-one formulas; X itself is not needed, only X'X and X'y.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import ddot
from scipy.linalg.lapack import dpotrf, dtrtri

Array = np.ndarray

NOISE_FLOOR = 1e-12  # least noise variance, as a share of the mean square of y
ROUNDING = 1e-14  # of a Cholesky factor, as a share of its largest diagonal entry
REACH = 1e12  # lambda stays within this factor of the diagonal of X'X
# how well lambda is optimised, in log evidence: during the search, along the path, in the end
COARSE, FINE, EXACT = 0.1, 1e-4, 1e-9
LONGEST_STEP = 8.0  # of log lambda


class Moments(NamedTuple):
    """All that the evidence needs of the data."""

    G: Array  # (p, p) X'X
    b: Array  # (p,) X'y
    yy: float  # y'y, not zero
    n: int
    d: Array  # (p,) diagonal of X'X
    low: float  # log lambda is between these
    high: float
    floor: float  # least noise variance

    def gram(self, v: Array) -> Array:
        """X_v'X_v, a fresh array."""
        return self.G.take(v, axis=0).take(v, axis=1)


def moments(G: Array, b: Array, yy: float, n: int) -> Moments:
    d = np.diagonal(G)
    low, high = math.log(float(d.min()) / REACH), math.log(float(d.max()) * REACH)
    return Moments(G, b, yy, n, d, low, high, NOISE_FLOOR * yy / n)


class Sums(NamedTuple):
    """All that the best lambda of a model depends on."""

    R: float  # positive
    mm: float  # m'm
    mPm: float
    trace: float  # of P
    trace2: float  # of P^2


class Fit(NamedTuple):
    """A model v at some lambda, with the best noise variance for it."""

    v: Array  # (q,) variables, in the order in which they came
    log_ratio: float  # log lambda = log(alpha / gamma)
    P: Array  # (q, q)
    m: Array  # (q,) posterior mean of w
    sums: Sums
    sigma2: float
    log_evidence: float
    slope: float  # of the log evidence in log lambda
    step: float  # of log lambda to where the slope should be zero

    @property
    def R(self) -> float:
        return self.sums.R


def evaluate(data: Moments, v: Array, log_ratio: float) -> Fit:
    """The evidence of model v at one lambda.

    A small table spends most of its time here, in the overhead of calls: NumPy's methods have
    half that of its operators.
    """
    n, q, b = data.n, v.size, data.b.take(v)
    if q == 0:
        sigma2 = data.yy / n
        value = -0.5 * n * (math.log(2.0 * math.pi * sigma2) + 1.0)
        sums = Sums(data.yy, 0.0, 0.0, 0.0, 0.0)
        return Fit(v, log_ratio, np.zeros((0, 0)), b, sums, sigma2, value, 0.0, 0.0)
    lam = math.exp(log_ratio)
    A = data.gram(v)
    A.ravel()[:: q + 1] += lam
    L, failed = dpotrf(A, lower=1)
    if failed:
        L = _rounded_factor(A, lam)
    inverse, _ = dtrtri(L, lower=1)
    P = inverse.T.dot(inverse)
    m = P.dot(b)
    R = max(data.yy - ddot(b, m), 1e-4 * NOISE_FLOOR * data.yy)  # rounding
    mPm, trace = ddot(m, P.dot(m)), sum(P.diagonal().tolist())
    sums = Sums(R, ddot(m, m), mPm, trace, float(np.vdot(P, P)))
    sigma2 = max(R / n, data.floor)
    log_det = 2.0 * sum(map(math.log, L.diagonal().tolist())) - q * log_ratio
    value = -0.5 * (n * math.log(2.0 * math.pi * sigma2) + R / sigma2 + log_det)
    return Fit(v, log_ratio, P, m, sums, sigma2, value, *slope_and_step(data, q, log_ratio, sums))


def _rounded_factor(A: Array, lam: float) -> Array:
    """The Cholesky factor of A + lambda I, made positive definite as far as rounding asks for:
    copies of a variable, and lambda below rounding."""
    more = ROUNDING * (float(A.diagonal().max()) + lam)
    failed = 1
    while failed:
        A.flat[:: A.shape[0] + 1] += more
        more *= 2.0
        L, failed = dpotrf(A, lower=1)
    return L


def slope_and_step(data: Moments, q: int, log_ratio: float, sums: Sums) -> tuple[float, float]:
    """The slope of the log evidence in log lambda, and the step to where it should be zero.

    It is zero where lambda m'm / sigma2, the size of the weights, equals q - lambda tr P, the
    number of those that the data determine (MacKay 1992). The logarithms of both are nearly
    straight lines: a step of Newton's method on their difference leaves a hundredth of the
    error that one on the slope itself leaves. d P / d log lambda = -lambda P^2.
    """
    R, mm, mPm, trace, trace2 = sums
    lam = math.exp(log_ratio)
    sigma2 = max(R / data.n, data.floor)
    size, determined = lam * mm / sigma2, q - lam * trace
    slope = 0.5 * (determined - size)
    if not (size > 0.0 and determined > 0.0):
        return slope, math.copysign(LONGEST_STEP, slope)
    bend = 1.0 - 2.0 * lam * mPm / mm + lam * (trace - lam * trace2) / determined
    if sigma2 > data.floor:
        bend -= lam * mm / R
    step = math.log(determined / size) / bend if bend > 0.0 else math.copysign(math.inf, slope)
    return slope, min(max(step, -LONGEST_STEP), LONGEST_STEP)


def after(data: Moments, log_ratio: float, step: float) -> float:
    """log lambda after a step, within reach."""
    return min(max(log_ratio + step, data.low), data.high)


def optimise(data: Moments, fit: Fit, tol: float) -> Fit:
    """Raise the evidence over lambda until less than ``tol`` is to be gained."""
    for _ in range(100):
        there = after(data, fit.log_ratio, fit.step)
        if abs((there - fit.log_ratio) * fit.slope) <= tol:
            break
        trial = evaluate(data, fit.v, there)
        while trial.log_evidence < fit.log_evidence and abs(there - fit.log_ratio) > 1e-9:
            there = fit.log_ratio + 0.25 * (there - fit.log_ratio)
            trial = evaluate(data, fit.v, there)
        if not trial.log_evidence > fit.log_evidence:
            break
        fit = trial
    return fit


def moved(data: Moments, fit: Fit, v: Array, sums: Sums, tol: float) -> Fit:
    """The model v, a neighbour of ``fit`` that has ``sums`` at the same lambda."""
    _, step = slope_and_step(data, v.size, fit.log_ratio, sums)
    return optimise(data, evaluate(data, v, after(data, fit.log_ratio, step)), tol)


class Neighbours(NamedTuple):
    """What joining the model would change for each of some variables, at the same lambda."""

    H: Array  # (p, q) X'X_v P
    s: Array  # (p,) lambda + |x_j|^2 after regression on the model
    e: Array  # (p,) x_j'(y - X_v m)
    gain: Array  # (p,) rise of the log evidence


def neighbours(fit: Fit, cross: Array, d: Array, b: Array, n: int) -> Neighbours:
    """From ``cross`` = X'X_v, ``d`` = the diagonal of X'X and ``b`` = X'y of any variables."""
    lam = math.exp(fit.log_ratio)
    H = cross.dot(fit.P)
    # Rounding must not make a copy of an active variable look new: s is at least lambda.
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    e = b - cross.dot(fit.m)
    left = np.maximum(1.0 - e * e / (s * fit.R), NOISE_FLOOR)
    return Neighbours(H, s, e, -0.5 * (n * np.log(left) + np.log(s / lam)))


def outside(data: Moments, fit: Fit, n: int) -> Neighbours:
    """The neighbours of a model, which itself can gain nothing."""
    near = neighbours(fit, data.G.take(fit.v, axis=1), data.d, data.b, n)
    near.gain[fit.v] = -np.inf
    return near


def alone(data: Moments, j: int) -> Fit:
    """The model of variable j alone, at its best lambda, which is known in closed form.

    With rho the squared correlation of x_j and y and u = d/(lambda + d), the evidence is
    -n/2 log(1 - u rho) + 1/2 log(1 - u) up to a constant, largest at n rho - 1 = u rho (n - 1).
    """
    n, d = data.n, float(data.d[j])
    rho = float(data.b[j]) ** 2 / (d * data.yy)
    u = (n * rho - 1.0) / (rho * (n - 1)) if n * rho > 1.0 else 0.0
    best = math.log(d * (1.0 - u) / u) if 0.0 < u < 1.0 else data.high if u <= 0.0 else data.low
    return evaluate(data, np.array([j]), after(data, best, 0.0))


def with_one_more(data: Moments, fit: Fit, tol: float) -> Fit:
    """The best model with one variable more, which may be worse than ``fit``."""
    if fit.v.size == 0:
        return alone(data, int(np.argmax(data.b**2 / data.d)))
    near = outside(data, fit, data.n)
    return joined(data, fit, near, int(near.gain.argmax()), tol)


def joined(data: Moments, fit: Fit, near: Neighbours, j: int, tol: float) -> Fit:
    """The model with variable j as well."""
    P, h, s, e = fit.P, near.H[j], float(near.s[j]), float(near.e[j])
    R, _, _, trace, trace2 = fit.sums
    weight = e / s
    m, more = fit.m - weight * h, (1.0 + ddot(h, h)) / s
    sums = Sums(
        max(R - weight * e, NOISE_FLOOR * R),
        ddot(m, m) + weight * weight,
        ddot(m, P.dot(m)) + (ddot(h, m) - weight) ** 2 / s,
        trace + more,
        trace2 + 2.0 * ddot(h, P.dot(h)) / s + more * more,
    )
    return moved(data, fit, np.append(fit.v, j), sums, tol)


def removal_gains(fit: Fit, n: int) -> Array:
    """Rise (mostly a fall) of the log evidence when each variable leaves, at the same lambda."""
    kept = fit.P.diagonal()
    more = fit.m * fit.m / (kept * fit.R)
    return -0.5 * (n * np.log1p(more) + np.log(kept) + fit.log_ratio)


def with_one_less(data: Moments, fit: Fit, tol: float) -> Fit:
    """The best model with one variable less."""
    return left_by(data, fit, int(removal_gains(fit, data.n).argmax()), tol)


def left_by(data: Moments, fit: Fit, i: int, tol: float) -> Fit:
    """The model without the variable at place i of v."""
    v = np.concatenate([fit.v[:i], fit.v[i + 1 :]])
    if v.size < 2:
        return alone(data, int(v[0])) if v.size else evaluate(data, v, fit.log_ratio)
    P, h, kept, weight = fit.P, fit.P[i], float(fit.P[i, i]), float(fit.m[i])
    R, _, _, trace, trace2 = fit.sums
    m, less = fit.m - (weight / kept) * h, ddot(h, h) / kept
    sums = Sums(
        R + weight * weight / kept,
        ddot(m, m),
        ddot(m, P.dot(m)) - ddot(h, m) ** 2 / kept,
        trace - less,
        trace2 - 2.0 * ddot(h, P.dot(h)) / kept + less * less,
    )
    return moved(data, fit, v, sums, tol)


def exchange_gains(fit: Fit, near: Neighbours, n: int) -> Array:
    """Rise of the log evidence when i leaves and j comes, for all (j, i), at the same lambda."""
    kept = fit.P.diagonal()
    H, R = near.H, fit.R + fit.m**2 / kept
    s = near.s[:, None] + H * H / kept
    e = near.e[:, None] + H * (fit.m / kept)
    left = np.maximum(R - e * e / s, NOISE_FLOOR * fit.R)
    return -0.5 * (n * np.log(left / fit.R) + np.log(s * kept))
