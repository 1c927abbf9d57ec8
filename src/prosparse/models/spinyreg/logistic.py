"""Bayesian logistic regression: Laplace evidence of every set of variables.

[TK86]  L. Tierney, J. B. Kadane. Accurate approximations for posterior moments and marginal
        densities. Journal of the American Statistical Association 81, 1986.

In model v, row i, which counts c_i times, belongs to the second class (t_i = 1) with probability
s(h_i), where h = b + X_v w, s(h) = 1 / (1 + exp(-h)), w ~ N(0, tau^2 I), and the intercept b has a
flat prior. With lambda = 1 / tau^2 the log posterior density of theta = (b, w) is

    l(theta) = sum_i c_i [t_i h_i - log(1 + exp(h_i))] - lambda/2 |w|^2 + q/2 log(lambda / 2 pi) ,

which is concave with curvature A = Z'SZ + diag(0, lambda, ..., lambda), Z = [1 X_v] and
S = diag(c_i s_i (1 - s_i)). Laplace's approximation at the mode, [TK86], integrates over theta:

    log p(t | v, tau) = l(mode) + (q + 1)/2 log(2 pi) - 1/2 log det A ,     theta ~ N(mode, A^-1) .

For separated classes the prior keeps w finite, and the presence of both classes keeps b finite.

The evidence of neighbours of v (one variable added, removed or exchanged) follows to second order
from the curvature at the mode, by the rank-one formulas of linear regression with known noise.
These scores need X once for all neighbours. They rank the neighbours; promising ones are fitted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.special import expit

MAX_STEPS = 100  # maximum number of Newton steps
# Expected increase of the log density below which a Newton step is the last one; convergence is
# quadratic.
NEWTON_TOL = 1e-6
ROUNDING = 1e-13  # relative rounding error of the log density
MAX_CHANGE = 10.0  # maximum change of log odds in one step, in addition to their maximum
# Far from the mode the curvature in b can vanish. This proportion of the sum of the absolute
# residuals is added; the sum is of the size of the curvature at the mode.
DAMPING = 1e-8


class ClassificationData(NamedTuple):
    """Rows of two classes and the candidate variables."""

    X: np.ndarray  # (n, p) in column-major order
    squares: np.ndarray  # (n, p) squared entries
    t: np.ndarray  # (n,) 1.0 for the second class, 0.0 for the first
    counts: np.ndarray  # (n,) number of observations that each row represents, positive
    intercept: int  # 1, or 0 without
    unit: float  # log of the mean square of the columns

    @property
    def n(self) -> float:
        """Number of observations."""
        return float(self.counts.sum())


def make_data(
    X: np.ndarray, t: np.ndarray, count: np.ndarray, intercept: bool
) -> ClassificationData:
    """Prepare the rows ``X``, centred (and scaled) with weights ``count``."""
    X = np.asfortranarray(X)
    squares = X * X
    unit = math.log(float((count @ squares).mean()) / float(count.sum())) if X.shape[1] else 0.0
    return ClassificationData(X, squares, t, count, int(intercept), unit)


class LogisticFit(NamedTuple):
    """Model v at one tau: posterior mode and Gaussian approximation."""

    v: np.ndarray  # (q,) variables in order of addition
    log_tau: float  # for columns of unit mean square
    mode: np.ndarray  # (c + q,) intercept, if fitted, and coefficients
    C: np.ndarray  # (c + q, c + q) A^-1
    residual: np.ndarray  # (n,) c_i (t_i - s_i)
    S: np.ndarray  # (n,) c_i s_i (1 - s_i)
    log_evidence: float

    @property
    def m(self) -> np.ndarray:
        """(q,) mode of the coefficients."""
        coefficients: np.ndarray = self.mode[self.mode.size - self.v.size :]
        return coefficients


def log_lambda(data: ClassificationData, log_tau: float) -> float:
    """Return the log prior precision for columns of any common scale."""
    return data.unit - 2.0 * log_tau


def design(data: ClassificationData, v: np.ndarray) -> np.ndarray:
    """Return the (n, c + q) design matrix [1 X_v]."""
    n = data.t.size
    Z = np.ones((n, data.intercept + v.size), order="F")
    Z[:, data.intercept :] = data.X[:, v]
    return Z


def log_density(data: ClassificationData, h: np.ndarray, w: np.ndarray, lam: float) -> float:
    """Compute l(theta) without the constant of the prior."""
    # log(1 + exp(-h)) avoids the cancellation of t h - log(1 + exp(h)) for large h.
    likelihood = -(data.counts @ np.logaddexp(0.0, (1.0 - 2.0 * data.t) * h))
    return float(likelihood) - 0.5 * lam * float(w @ w)


def derivatives(data: ClassificationData, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute c_i (t_i - s_i) and c_i s_i (1 - s_i), both of shape (n,).

    s(-h) replaces 1 - s(h), which would cancel for large h. Large counts amplify this error.
    """
    first, second = expit(-h), expit(h)
    residual = data.counts * np.where(data.t > 0.0, first, -second)
    return residual, data.counts * first * second


def fit_model(
    data: ClassificationData, v: np.ndarray, log_tau: float, start: np.ndarray | None = None
) -> LogisticFit:
    """Compute the mode of model v by Newton's method from ``start``, and the evidence.

    The iterations start from zero coefficients if ``start`` has a lower density. The density is
    concave. A step that decreases it is halved, at most to log(1 + r) / r of the Newton step, where
    r is the largest change of the log odds of a row; this step increases the density (Bach 2010,
    Electronic Journal of Statistics 4).
    """
    Z, c = design(data, v), data.intercept
    precision = log_lambda(data, log_tau)
    lam = math.exp(precision)
    prior = np.full(c + v.size, lam)
    prior[:c] = 0.0
    theta = intercept_only(data, v.size)
    h = Z @ theta
    value = log_density(data, h, theta[c:], lam)
    if start is not None:
        h_start = Z @ start
        value_start = log_density(data, h_start, start[c:], lam)
        if value_start > value:
            theta, h, value = start, h_start, value_start
    for _ in range(MAX_STEPS):
        residual, S = derivatives(data, h)
        gradient = Z.T @ residual - prior * theta
        damped = prior.copy()
        damped[:c] = DAMPING * float(np.abs(residual).sum())
        step = _solve(_factor(Z, S, damped), gradient)
        rounding = ROUNDING * abs(value)
        last = 0.5 * float(step @ gradient) <= max(NEWTON_TOL, rounding)
        direction = Z @ step
        change = max(float(np.abs(direction).max(initial=0.0)), 1e-3)
        max_change = MAX_CHANGE + float(np.abs(h).max(initial=0.0))
        size, min_size = min(1.0, max_change / change), math.log1p(change) / change
        while True:
            reached = log_density(data, h + size * direction, theta[c:] + size * step[c:], lam)
            if reached >= value - rounding or size <= min_size:
                break
            size = max(0.5 * size, min_size)
        if reached < value - rounding:
            break  # Rounding hides any further increase.
        theta, h, value = theta + size * step, h + size * direction, reached
        if last:
            break
    residual, S = derivatives(data, h)
    L = _factor(Z, S, prior)
    log_det = 2.0 * float(np.log(L.diagonal()).sum())
    evidence = value + 0.5 * (v.size * precision + c * math.log(2.0 * math.pi) - log_det)
    return LogisticFit(v, log_tau, theta, _inverse(L), residual, S, evidence)


def intercept_only(data: ClassificationData, q: int) -> np.ndarray:
    """Return the (c + q,) parameters with the intercept of the class proportions."""
    theta = np.zeros(data.intercept + q)
    if data.intercept:
        second = float(data.counts @ data.t)
        theta[0] = math.log(second / (data.n - second))
    return theta


def _factor(Z: np.ndarray, S: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute the lower Cholesky factor of Z'SZ + diag(prior).

    Rounding can make the matrix indefinite if row weights differ strongly. A QR decomposition of
    its square root gives the same factor with the square root of the condition number.
    """
    A = (Z.T * S) @ Z
    A.flat[:: A.shape[0] + 1] += prior
    if not A.size:
        return A
    factor: np.ndarray
    factor, failed = dpotrf(A, lower=1)
    if failed:
        root = np.concatenate([np.sqrt(S)[:, None] * Z, np.diag(np.sqrt(prior))])
        upper = np.linalg.qr(root).R
        factor = np.asfortranarray((upper * np.where(upper.diagonal() < 0.0, -1.0, 1.0)[:, None]).T)
    return factor


def _solve(L: np.ndarray, right: np.ndarray) -> np.ndarray:
    """Compute (L L')^-1 ``right``."""
    if not L.size:
        return right
    solution: np.ndarray = dpotrs(L, right, lower=1)[0]
    return solution


def _inverse(L: np.ndarray) -> np.ndarray:
    """Compute (L L')^-1."""
    if not L.size:
        return L
    half = dpotri(L, lower=1)[0]
    whole: np.ndarray = np.tril(half) + np.tril(half, -1).T
    return whole


class LogisticAdditions(NamedTuple):
    """Changes by adding each variable, to second order."""

    H: np.ndarray  # (p, q) X'SZ A^-1, columns of the coefficients
    s: np.ndarray  # (p,) curvature in the new coefficient, maximised over the others
    e: np.ndarray  # (p,) x_j'(t - s(h))
    gain: np.ndarray  # (p,) increase of the log evidence


def score_additions(
    fit: LogisticFit, cross: np.ndarray, squares: np.ndarray, e: np.ndarray, log_lam: float
) -> LogisticAdditions:
    """Score additions from X'SZ, the diagonal of X'SX and X' residual of any variables."""
    lam = math.exp(log_lam)
    H = cross @ fit.C
    # Rounding must not make a copy of an active variable look new; s is at least lambda.
    s = np.maximum(lam + squares - np.einsum("ij,ij->i", H, cross), lam)
    gain = 0.5 * (e * e / s - np.log(s / lam))
    return LogisticAdditions(H[:, H.shape[1] - fit.v.size :], s, e, gain)


def score_all_additions(data: ClassificationData, fit: LogisticFit) -> LogisticAdditions:
    """Score the addition of every variable; included variables have a gain of -inf."""
    cross = data.X.T @ (fit.S[:, None] * design(data, fit.v))
    additions = score_additions(
        fit, cross, data.squares.T @ fit.S, data.X.T @ fit.residual, log_lambda(data, fit.log_tau)
    )
    additions.gain[fit.v] = -np.inf
    return additions


def removal_gains(data: ClassificationData, fit: LogisticFit) -> np.ndarray:
    """Compute the increase of the log evidence if each variable is removed.

    To second order this is the log ratio of the posterior and prior densities at zero.
    """
    C_ii = fit.C.diagonal()[data.intercept :]
    gains: np.ndarray = -0.5 * (fit.m**2 / C_ii + np.log(C_ii) + log_lambda(data, fit.log_tau))
    return gains


def exchange_gains(
    data: ClassificationData, fit: LogisticFit, additions: LogisticAdditions
) -> np.ndarray:
    """Compute the (p, q) increases of the log evidence if j replaces i, to second order."""
    C_ii = fit.C.diagonal()[data.intercept :]
    s = additions.s[:, None] + additions.H**2 / C_ii
    e = additions.e[:, None] + additions.H * (fit.m / C_ii)
    gains: np.ndarray = 0.5 * (e * e / s - fit.m**2 / C_ii - np.log(s * C_ii))
    gains[fit.v] = -np.inf
    return gains
