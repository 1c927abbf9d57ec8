"""Bayesian logistic regression with the Laplace evidence of each set.

[TK86]  L. Tierney, J. B. Kadane. Accurate approximations for posterior moments and marginal
        densities. Journal of the American Statistical Association 81, 1986.

In model v, row i, which represents c_i observations, belongs to the second class (t_i = 1) with
probability s(h_i), where h = b + X_v w, s(h) = 1 / (1 + exp(-h)), w ~ N(0, tau^2 I), and the
intercept b has a flat prior. With lambda = 1 / tau^2, the log posterior density of theta = (b, w)
is

    l(theta) = sum_i c_i [t_i h_i - log(1 + exp(h_i))] - lambda/2 |w|^2 + q/2 log(lambda / 2 pi) ,

which is concave with curvature A = Z'SZ + diag(0, lambda, ..., lambda), Z = [1 X_v] and
S = diag(c_i s_i (1 - s_i)). The integral over theta is computed by Laplace's approximation at the
mode, [TK86]:

    log p(t | v, tau) = l(mode) + (q + 1)/2 log(2 pi) - 1/2 log det A ,     theta ~ N(mode, A^-1) .

For separated classes, w is finite because of the prior, and b is finite because both classes are
present.

The evidence of neighbours of v (one variable added, removed or exchanged) follows to second order
from the curvature at the mode, by the rank-one formulas of linear regression with known noise.
These scores require one product with X for all neighbours and rank the neighbours; the most
promising are fitted.

tau is on a grid of powers of two with a half-Cauchy prior. A search maximises log p(t | v, tau) +
log p(tau) over the grid; the final comparison of sets sums over the grid.
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dpotri, dpotrs
from scipy.special import expit

from .logistic_states import LogisticStates
from .set_model import Coefficients, Trials

MAX_STEPS = 100  # maximum number of Newton steps
# Expected increase of the log density below which a Newton step is the last, because convergence is
# quadratic.
NEWTON_TOL = 1e-6
ROUNDING = 1e-13  # relative rounding error of the log density
MAX_CHANGE = 10.0  # maximum change of log odds in one step, in addition to the current maximum
# Far from the mode, the curvature in b can vanish. This proportion of the sum of the absolute
# residuals, which is of the order of the curvature at the mode, is therefore added.
DAMPING = 1e-8
MAX_LOG2_TAU = 4  # maximum log2 of tau; larger coefficients only occur for separated classes
START_LOG2_TAU = -1  # log2 of tau at the start of a search
MAX_LOG_GAP = 10.0  # decrease of the log evidence at which the sum over tau ends
MAX_FULL_START = 30  # maximum number of variables of a search from all variables
ROWS_PER_VARIABLE = 10  # number of rows of the less frequent class required per variable


class LogisticModel(NamedTuple):
    """Rows of two classes, the candidate variables and the grid of tau."""

    X: np.ndarray  # (n, p) in column-major order
    squares: np.ndarray  # (n, p) squared entries
    t: np.ndarray  # (n,) 1.0 for the second class, 0.0 for the first
    counts: np.ndarray  # (n,) positive number of observations represented by each row
    intercept: int  # 1 with an intercept, otherwise 0
    unit: float  # log of the mean square of the columns
    log_tau: np.ndarray  # (K,) in increasing order
    log_tau_prior: np.ndarray  # (K,) log prior probability of each tau

    @property
    def trials(self) -> Trials:
        """Rules for the neighbours fitted in a search."""
        return Trials(4, -2.0, 0.5)

    @property
    def n(self) -> float:
        """Number of observations."""
        return float(self.counts.sum())

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.X.shape[1]

    @property
    def max_full_start(self) -> int:
        """Maximum number of variables for a search that starts from all."""
        second = float(self.counts @ self.t)
        return min(MAX_FULL_START, int(min(second, self.n - second) / ROWS_PER_VARIABLE))

    def take(self, indices: np.ndarray) -> Self:
        """Restrict the model to some variables."""
        return self._replace(X=self.X[:, indices], squares=self.squares[:, indices])

    # --- fits

    def fit(self, v: np.ndarray, near: LogisticFit | None = None, tune: bool = True) -> LogisticFit:
        """Fit the set v at the tau of ``near`` or at the best tau of the grid."""
        if near is None:
            k, start = self.start_tau, None
        else:
            k, start = near.k, warm_start(self, near, v)
        fit = fit_model(self, v, k, start)
        if not tune or not v.size:
            return fit
        for step in (1, -1):
            moved = False
            while 0 <= fit.k + step < self.log_tau.size:
                other = fit_model(self, v, fit.k + step, fit.mode)
                if not self.evidence(other) > self.evidence(fit):
                    break
                fit, moved = other, True
            if moved:
                break
        return fit

    @property
    def start_tau(self) -> int:
        """Grid point of the first fit."""
        return int(np.argmin(np.abs(self.log_tau - START_LOG2_TAU * math.log(2.0))))

    def refine(self, fit: LogisticFit, exact: bool = False) -> LogisticFit:
        """Return the fit unchanged, because tau is the best of the grid."""
        return fit

    def full_fit(self) -> LogisticFit:
        """Fit all variables."""
        return self.fit(np.arange(self.n_variables))

    def evidence(self, fit: LogisticFit) -> float:
        """Compute the log evidence at the tau of the fit plus the log prior of tau."""
        return fit.log_evidence + (float(self.log_tau_prior[fit.k]) if fit.v.size else 0.0)

    def path_evidence(self, fit: LogisticFit) -> tuple[float, float]:
        """Compute the log evidence integrated over tau."""
        total = integrate_tau(self, fit).log_evidence
        return total, total

    # --- neighbours, to second order

    def addition_gains(self, fit: LogisticFit) -> np.ndarray:
        """Compute the gain of adding each variable, (p,)."""
        return score_all_additions(self, fit).gain

    def removal_gains(self, fit: LogisticFit) -> np.ndarray:
        """Compute the gain of removing each variable, (q,).

        To second order, the gains are log ratios of the posterior and prior densities at zero.
        """
        C_ii = fit.C.diagonal()[self.intercept :]
        gains: np.ndarray = -0.5 * (fit.m**2 / C_ii + np.log(C_ii) + self.log_lambda(fit.k))
        return gains

    def exchange_gains(
        self, fit: LogisticFit, additions: LogisticAdditions | None = None
    ) -> np.ndarray:
        """Compute the gains if j replaces i, (p, q)."""
        additions = additions or score_all_additions(self, fit)
        C_ii = fit.C.diagonal()[self.intercept :]
        s = additions.s[:, None] + additions.H**2 / C_ii
        e = additions.e[:, None] + additions.H * (fit.m / C_ii)
        gains: np.ndarray = 0.5 * (e * e / s - fit.m**2 / C_ii - np.log(s * C_ii))
        gains[fit.v] = -np.inf
        return gains

    def log_lambda(self, k: int) -> float:
        """Compute the log prior precision, relative to the scale of the columns."""
        return self.unit - 2.0 * float(self.log_tau[k])

    # --- starts of a search

    def marginal(self) -> np.ndarray:
        """Compute squared correlations with the class indicator, (p,)."""
        centred = self.t - (float(self.counts @ self.t) / self.n if self.intercept else 0.5)
        products = self.X.T @ (self.counts * centred)
        squares: np.ndarray = products**2 / (self.counts @ self.squares)
        return squares

    def correlations(self, v: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Compute absolute correlations of ``others``, or of all variables, with v."""
        X = self.X if others is None else self.X[:, others]
        size = np.sqrt(self.counts @ (X * X))
        weighted = self.counts[:, None] * self.X[:, v]
        own = np.sqrt(self.counts @ self.squares[:, v])
        correlations: np.ndarray = np.abs(X.T @ weighted) / (size[:, None] * own)
        return correlations

    def effect_sizes(self, fit: LogisticFit) -> np.ndarray:
        """Compute absolute coefficients times column norms, (q,)."""
        sizes: np.ndarray = np.abs(fit.m) * np.sqrt(self.counts @ self.squares[:, fit.v])
        return sizes

    def well_determined(self, full: LogisticFit) -> bool:
        """Return False, because other starts are always tried."""
        return False

    def add_pair(self, fit: LogisticFit) -> LogisticFit | None:
        """Return None, because sets are grown from single variables."""
        return None

    # --- results

    def coefficients(self, fit: LogisticFit, least_squares: bool = False) -> Coefficients:
        """Compute the Gaussian approximation of the posterior."""
        first = 1 - self.intercept  # position of the first parameter
        covariance = np.zeros((1, 1 + fit.v.size, 1 + fit.v.size))
        covariance[0, first:, first:] = fit.C
        intercept = fit.mode[: self.intercept] if self.intercept else np.zeros(1)
        return Coefficients(fit.m[None], covariance, intercept, np.zeros(1))

    def states(self, log_prior: np.ndarray, fit: LogisticFit) -> LogisticStates:
        """Build the states of the average, which are sets and values of tau."""
        return LogisticStates(self, log_prior, fit.k)


def logistic_model(
    X: np.ndarray, t: np.ndarray, counts: np.ndarray, intercept: bool
) -> LogisticModel:
    """Build the model of the weighted rows ``X``.

    Coefficients far below 2/sqrt(n) are not detectable and are excluded from the grid of tau.
    """
    X, n = np.asfortranarray(X), float(counts.sum())
    squares = X * X
    unit = math.log(float((counts @ squares).mean()) / n) if X.shape[1] else 0.0
    lowest = min(math.floor(1.0 - 0.5 * math.log2(n)), START_LOG2_TAU)
    log_tau = math.log(2.0) * np.arange(lowest, MAX_LOG2_TAU + 1)
    log_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)  # density of log tau
    log_prior -= np.logaddexp.reduce(log_prior)
    return LogisticModel(X, squares, t, counts, int(intercept), unit, log_tau, log_prior)


class LogisticFit(NamedTuple):
    """Model v at one tau: posterior mode and Gaussian approximation."""

    v: np.ndarray  # (q,) variables in order of addition
    k: int  # grid point of tau
    mode: np.ndarray  # (c + q,) intercept, if fitted, and coefficients
    C: np.ndarray  # (c + q, c + q) A^-1
    residual: np.ndarray  # (n,) c_i (t_i - s_i)
    S: np.ndarray  # (n,) c_i s_i (1 - s_i)
    log_evidence: float

    @property
    def m(self) -> np.ndarray:
        """Mode of the coefficients, (q,)."""
        coefficients: np.ndarray = self.mode[self.mode.size - self.v.size :]
        return coefficients


def design(data: LogisticModel, v: np.ndarray) -> np.ndarray:
    """Build the design matrix [1 X_v], (n, c + q)."""
    n = data.t.size
    Z = np.ones((n, data.intercept + v.size), order="F")
    Z[:, data.intercept :] = data.X[:, v]
    return Z


def log_density(data: LogisticModel, h: np.ndarray, w: np.ndarray, lam: float) -> float:
    """Compute l(theta) without the constant of the prior."""
    # log(1 + exp(-h)) avoids the cancellation of t h - log(1 + exp(h)) for large h.
    likelihood = -(data.counts @ np.logaddexp(0.0, (1.0 - 2.0 * data.t) * h))
    return float(likelihood) - 0.5 * lam * float(w @ w)


def derivatives(data: LogisticModel, h: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute c_i (t_i - s_i) and c_i s_i (1 - s_i), both of shape (n,).

    s(-h) is used instead of 1 - s(h), which is inaccurate for large h, in particular with large
    counts.
    """
    first, second = expit(-h), expit(h)
    residual = data.counts * np.where(data.t > 0.0, first, -second)
    return residual, data.counts * first * second


def fit_model(
    data: LogisticModel, v: np.ndarray, k: int, start: np.ndarray | None = None
) -> LogisticFit:
    """Compute the mode of model v by Newton's method, and the evidence.

    The iterations start from zero coefficients if ``start`` has a lower density. A step that
    decreases the log density, which is concave, is halved, at most to log(1 + r) / r of the Newton
    step, where r is the largest change of the log odds of a row. This step increases the density
    (Bach 2010, Electronic Journal of Statistics 4).
    """
    Z, c = design(data, v), data.intercept
    precision = data.log_lambda(k)
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
            break  # Further increases are below the rounding error.
        theta, h, value = theta + size * step, h + size * direction, reached
        if last:
            break
    residual, S = derivatives(data, h)
    L = _factor(Z, S, prior)
    log_det = 2.0 * float(np.log(L.diagonal()).sum())
    evidence = value + 0.5 * (v.size * precision + c * math.log(2.0 * math.pi) - log_det)
    return LogisticFit(v, k, theta, _inverse(L), residual, S, evidence)


def intercept_only(data: LogisticModel, q: int) -> np.ndarray:
    """Build parameters (c + q,) with the intercept of the class proportions."""
    theta = np.zeros(data.intercept + q)
    if data.intercept:
        second = float(data.counts @ data.t)
        theta[0] = math.log(second / (data.n - second))
    return theta


def _factor(Z: np.ndarray, S: np.ndarray, prior: np.ndarray) -> np.ndarray:
    """Compute the lower Cholesky factor of Z'SZ + diag(prior).

    If row weights differ strongly, rounding errors can make the matrix indefinite. A QR
    decomposition of the square root of the matrix then yields the same factor with the square root
    of the condition number.
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
    """Changes due to the addition of each variable, to second order."""

    H: np.ndarray  # (p, q) X'SZ A^-1, columns of the coefficients
    s: np.ndarray  # (p,) curvature in the new coefficient, maximised over the others
    e: np.ndarray  # (p,) x_j'(t - s(h))
    gain: np.ndarray  # (p,) increase of the log evidence


def score_additions(
    fit: LogisticFit, cross: np.ndarray, squares: np.ndarray, e: np.ndarray, log_lam: float
) -> LogisticAdditions:
    """Compute gains of additions of any variables from products with S."""
    lam = math.exp(log_lam)
    H = cross @ fit.C
    # s is at least lambda, so that copies of active variables have no gain due to rounding errors.
    s = np.maximum(lam + squares - np.einsum("ij,ij->i", H, cross), lam)
    gain = 0.5 * (e * e / s - np.log(s / lam))
    return LogisticAdditions(H[:, H.shape[1] - fit.v.size :], s, e, gain)


def score_all_additions(data: LogisticModel, fit: LogisticFit) -> LogisticAdditions:
    """Compute the gain of adding each variable.

    Included variables have a gain of -inf.
    """
    cross = data.X.T @ (fit.S[:, None] * design(data, fit.v))
    additions = score_additions(
        fit, cross, data.squares.T @ fit.S, data.X.T @ fit.residual, data.log_lambda(fit.k)
    )
    additions.gain[fit.v] = -np.inf
    return additions


def warm_start(data: LogisticModel, near: LogisticFit, v: np.ndarray) -> np.ndarray:
    """Compute an initial value for the mode of v from the fit ``near``.

    The removal of variables changes the other parameters to second order.
    """
    c, mode, C = data.intercept, near.mode, near.C
    members = near.v
    for i in np.flatnonzero(~np.isin(members, v))[::-1]:
        at = c + int(i)
        mode = np.delete(mode - C[at] * (mode[at] / C[at, at]), at)
        C = C - np.outer(C[at], C[at] / C[at, at])
        C = np.delete(np.delete(C, at, axis=0), at, axis=1)
        members = np.delete(members, i)
    value = dict(zip(members.tolist(), mode[c:].tolist(), strict=True))
    return np.concatenate([mode[:c], [value.get(j, 0.0) for j in v.tolist()]])


class TauEvidence(NamedTuple):
    """Evidence of a set integrated over tau, and the fits at each tau."""

    log_evidence: float
    fits: list[LogisticFit]
    probability: np.ndarray  # posterior probability of each fit


def integrate_tau(data: LogisticModel, fit: LogisticFit) -> TauEvidence:
    """Sum the evidence over tau, starting from that of ``fit``."""
    if not fit.v.size:
        return TauEvidence(fit.log_evidence, [fit], np.ones(1))
    found = {fit.k: fit}
    best = data.evidence(fit)
    for step in (1, -1):
        k, near = fit.k + step, fit
        while 0 <= k < data.log_tau.size:
            near = found[k] = fit_model(data, fit.v, k, near.mode)
            best = max(best, data.evidence(near))
            if data.evidence(near) < best - MAX_LOG_GAP:
                break
            k += step
    fits = [found[k] for k in sorted(found)]
    log_values = np.array([data.evidence(each) for each in fits])
    total = float(np.logaddexp.reduce(log_values))
    return TauEvidence(total, fits, np.exp(log_values - total))
