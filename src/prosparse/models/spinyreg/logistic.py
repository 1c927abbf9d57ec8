"""Bayesian variable selection in logistic regression: the evidence of every set of variables.

[TK86]  L. Tierney, J. B. Kadane. Accurate approximations for posterior moments and marginal
        densities. Journal of the American Statistical Association 81, 1986.

The model v says that row i, which counts c_i times, belongs to the second class (t_i = 1) with
probability s(h_i), h = b + X_v w, where s(h) = 1 / (1 + exp(-h)), w ~ N(0, tau^2 I), and b, the
intercept, is anything. With lambda = 1 / tau^2 the log posterior density of theta = (b, w) is

    l(theta) = sum_i c_i [t_i h_i - log(1 + exp(h_i))] - lambda/2 |w|^2 + q/2 log(lambda / 2 pi) ,

concave, with the curvature A = Z'SZ + diag(0, lambda, ..., lambda), Z = [1 X_v], and
S = diag(c_i s_i (1 - s_i)). Laplace's approximation at the mode, [TK86], integrates theta:

    log p(t | v, tau) = l(mode) + (q + 1)/2 log(2 pi) - 1/2 log det A ,     theta ~ N(mode, A^-1) .

Separated classes do no harm: the prior keeps w finite, and both classes keep b finite.

The evidence of neighbours of v (one variable more, one less, one exchanged for another) follows
to second order from the curvature at the mode, by the rank-one formulas of linear regression with
known noise; X is needed once for all of them. These are scores to choose by, and whatever is
chosen is then fitted.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.special import expit

MAX_STEPS = 100  # of Newton's method
# What a step gains of the log density, at most, that is the last: after it, Newton's method being
# quadratic, next to nothing is left.
NEWTON_TOL = 1e-6
ROUNDING = 1e-13  # of the log density, as a share of it
MAX_CHANGE = 10.0  # of the log odds of a row in one step, besides their present maximum
# Far from the mode the curvature in b can vanish. This proportion of the sum of the absolute
# residuals is added; the sum is of the size of the curvature at the mode.
DAMPING = 1e-8


class ClassificationData(NamedTuple):
    """Rows of two classes, and the variables that may tell them apart."""

    X: np.ndarray  # (n, p), column by column
    squares: np.ndarray  # (n, p) of its entries
    t: np.ndarray  # (n,) 1.0 for the second class, 0.0 for the first
    counts: np.ndarray  # (n,) how many observations a row stands for, positive
    intercept: int  # 1, or 0 without
    unit: float  # log of the mean square of the columns

    @property
    def n(self) -> float:
        """Observations."""
        return float(self.counts.sum())


def make_data(
    X: np.ndarray, t: np.ndarray, count: np.ndarray, intercept: bool
) -> ClassificationData:
    """The rows ``X``, centred (and scaled) as their counts say."""
    X = np.asfortranarray(X)
    squares = X * X
    unit = math.log(float((count @ squares).mean()) / float(count.sum())) if X.shape[1] else 0.0
    return ClassificationData(X, squares, t, count, int(intercept), unit)


class LogisticFit(NamedTuple):
    """A model v at one size of weights: the mode, and the Gaussian around it."""

    v: np.ndarray  # (q,) variables, in the order in which they came
    log_tau: float  # of columns of unit mean square
    mode: np.ndarray  # (c + q,) of the intercept, if there is one, and of the weights
    C: np.ndarray  # (c + q, c + q) A^-1
    residual: np.ndarray  # (n,) c_i (t_i - s_i)
    S: np.ndarray  # (n,) c_i s_i (1 - s_i)
    log_evidence: float

    @property
    def m(self) -> np.ndarray:
        """(q,) mode of the weights."""
        weights: np.ndarray = self.mode[self.mode.size - self.v.size :]
        return weights


def log_lambda(data: ClassificationData, log_tau: float) -> float:
    """Log precision of the weights: those of columns of mean square 4 are half as large."""
    return data.unit - 2.0 * log_tau


def design(data: ClassificationData, v: np.ndarray) -> np.ndarray:
    """(n, c + q) [1 X_v]."""
    n = data.t.size
    Z = np.ones((n, data.intercept + v.size), order="F")
    Z[:, data.intercept :] = data.X[:, v]
    return Z


def log_density(data: ClassificationData, h: np.ndarray, w: np.ndarray, lam: float) -> float:
    """l(theta) without the constant of the prior."""
    # log(1 + exp(-h)) directly: the difference t h - log(1 + exp(h)) cancels where h is large.
    likelihood = -(data.counts @ np.logaddexp(0.0, (1.0 - 2.0 * data.t) * h))
    return float(likelihood) - 0.5 * lam * float(w @ w)


def derivatives(data: ClassificationData, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(n,) and (n,): c_i (t_i - s_i) and c_i s_i (1 - s_i).

    Both use s(-h) for 1 - s(h). The difference would cancel where h is large, which large counts
    do not forgive.
    """
    first, second = expit(-h), expit(h)
    residual = data.counts * np.where(data.t > 0.0, first, -second)
    return residual, data.counts * first * second


def fit_model(
    data: ClassificationData, v: np.ndarray, log_tau: float, start: np.ndarray | None = None
) -> LogisticFit:
    """The mode of model v by Newton's method, from ``start`` on, and the evidence there.

    Newton's method starts without weights if ``start`` has a lower density.
    The density is concave. A step that lowers it is halved until it does not, at most to
    log(1 + r) / r of the Newton step, where r is the largest change of a row's log odds: this step
    raises the density (Bach 2010, Electronic Journal of Statistics 4).
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
    """(c + q,) the intercept that the shares of the classes ask for, and weights of zero."""
    theta = np.zeros(data.intercept + q)
    if data.intercept:
        second = float(data.counts @ data.t)
        theta[0] = math.log(second / (data.n - second))
    return theta


def _factor(Z: np.ndarray, S: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """The Cholesky factor of Z'SZ + diag(prior), as the lower triangle.

    Rows of very different weight can make the matrix indefinite by rounding. A QR decomposition of
    its root has the same factor and only the square root of the condition number.
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
    """(L L')^-1 ``right``."""
    if not L.size:
        return right
    solution: np.ndarray = dpotrs(L, right, lower=1)[0]
    return solution


def _inverse(L: np.ndarray) -> np.ndarray:
    """(L L')^-1."""
    if not L.size:
        return L
    half = dpotri(L, lower=1)[0]
    whole: np.ndarray = np.tril(half) + np.tril(half, -1).T
    return whole


class LogisticAdditions(NamedTuple):
    """What joining the model would change for each variable, to second order."""

    H: np.ndarray  # (p, q) X'SZ A^-1, the columns of the weights
    s: np.ndarray  # (p,) curvature in the new weight, given the others at their best
    e: np.ndarray  # (p,) x_j'(t - s(h))
    gain: np.ndarray  # (p,) rise of the log evidence


def score_additions(
    fit: LogisticFit, cross: np.ndarray, squares: np.ndarray, e: np.ndarray, log_lam: float
) -> LogisticAdditions:
    """From ``cross`` = X'SZ, ``squares`` = the diagonal of X'SX, and ``e`` = X' residual, of any
    variables."""
    lam = math.exp(log_lam)
    H = cross @ fit.C
    # Rounding must not make a copy of an active variable look new: s is at least lambda.
    s = np.maximum(lam + squares - np.einsum("ij,ij->i", H, cross), lam)
    gain = 0.5 * (e * e / s - np.log(s / lam))
    return LogisticAdditions(H[:, H.shape[1] - fit.v.size :], s, e, gain)


def score_all_additions(data: ClassificationData, fit: LogisticFit) -> LogisticAdditions:
    """The neighbours of a model, which itself can gain nothing."""
    cross = data.X.T @ (fit.S[:, None] * design(data, fit.v))
    additions = score_additions(
        fit, cross, data.squares.T @ fit.S, data.X.T @ fit.residual, log_lambda(data, fit.log_tau)
    )
    additions.gain[fit.v] = -np.inf
    return additions


def removal_gains(data: ClassificationData, fit: LogisticFit) -> np.ndarray:
    """Rise (mostly a fall) of the log evidence when each variable leaves, to second order: the
    density of the Gaussian posterior at zero over that of the prior there."""
    C_ii = fit.C.diagonal()[data.intercept :]
    gains: np.ndarray = -0.5 * (fit.m**2 / C_ii + np.log(C_ii) + log_lambda(data, fit.log_tau))
    return gains


def exchange_gains(
    data: ClassificationData, fit: LogisticFit, additions: LogisticAdditions
) -> np.ndarray:
    """Rise of the log evidence when i leaves and j comes, for all (j, i), to second order."""
    C_ii = fit.C.diagonal()[data.intercept :]
    s = additions.s[:, None] + additions.H**2 / C_ii
    e = additions.e[:, None] + additions.H * (fit.m / C_ii)
    gains: np.ndarray = 0.5 * (e * e / s - fit.m**2 / C_ii - np.log(s * C_ii))
    gains[fit.v] = -np.inf
    return gains
