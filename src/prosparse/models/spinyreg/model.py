"""Bayesian variable selection in linear regression: the exact evidence of every model.

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

The papers relax the choice of v to [0, 1]^p, which leaves one prior variance per variable
(`relaxed`). With fewer samples than variables that relaxed likelihood has no useful maximum in
gamma: it grows as ever more variables explain ever more of the noise. Hence the order here: the
exact evidence of binary models finds the variables and the noise (`stepwise`, `shortlist`), a path
of models around the best one says how many, and at that noise the relaxed model weighs the
variables (`solve`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import ddot
from scipy.linalg.lapack import dpotrf, dtrtri

MIN_NOISE_RATIO = 1e-12  # least noise variance, as a share of the mean square of y
FACTOR_ROUNDING = 1e-14  # of a Cholesky factor, as a share of its largest diagonal entry
MAX_RATIO_RANGE = 1e12  # lambda stays within this factor of the diagonal of X'X
# how well lambda is optimised, in log evidence: during the search, along the path, in the end
COARSE, FINE, EXACT = 0.1, 1e-4, 1e-9
MAX_LOG_STEP = 8.0  # of log lambda


class RegressionMoments(NamedTuple):
    """All that the evidence needs of the data."""

    G: np.ndarray  # (p, p) X'X
    b: np.ndarray  # (p,) X'y
    yy: float  # y'y, not zero
    n: float  # observations: rows, or the sum of their weights
    d: np.ndarray  # (p,) diagonal of X'X
    low: float  # log lambda is between these
    high: float
    noise_floor: float  # least noise variance

    def gram(self, v: np.ndarray) -> np.ndarray:
        """X_v'X_v, a fresh array."""
        return self.G.take(v, axis=0).take(v, axis=1)


def moments(G: np.ndarray, b: np.ndarray, yy: float, n: float) -> RegressionMoments:
    """From X'X, X'y, y'y and the number of rows."""
    d = np.diagonal(G)
    low, high = (
        math.log(float(d.min()) / MAX_RATIO_RANGE),
        math.log(float(d.max()) * MAX_RATIO_RANGE),
    )
    return RegressionMoments(G, b, yy, n, d, low, high, MIN_NOISE_RATIO * yy / n)


def relative_size(size: np.ndarray) -> np.ndarray:
    """Sizes of selected variables relative to the largest, all of them positive."""
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return np.ones_like(size)
    relative: np.ndarray = np.maximum(size / largest, np.finfo(float).eps)
    return relative


class FitSums(NamedTuple):
    """All that the best lambda of a model depends on."""

    R: float  # positive
    mm: float  # m'm
    mPm: float
    trace: float  # of P
    trace2: float  # of P^2


class RegressionFit(NamedTuple):
    """A model v at some lambda, with the best noise variance for it."""

    v: np.ndarray  # (q,) variables, in the order in which they came
    log_ratio: float  # log lambda = log(alpha / gamma)
    P: np.ndarray  # (q, q)
    m: np.ndarray  # (q,) posterior mean of w
    sums: FitSums
    sigma2: float
    log_evidence: float
    slope: float  # of the log evidence in log lambda
    step: float  # of log lambda to where the slope should be zero

    @property
    def R(self) -> float:
        """y'y - (X_v'y)'m."""
        return self.sums.R


def evaluate(data: RegressionMoments, v: np.ndarray, log_ratio: float) -> RegressionFit:
    """The evidence of model v at one lambda.

    A small table spends most of its time here, in the overhead of calls: NumPy's methods have
    half that of its operators.
    """
    n, q, b = data.n, v.size, data.b.take(v)
    if q == 0:
        sigma2 = data.yy / n
        value = -0.5 * n * (math.log(2.0 * math.pi * sigma2) + 1.0)
        sums = FitSums(data.yy, 0.0, 0.0, 0.0, 0.0)
        return RegressionFit(v, log_ratio, np.zeros((0, 0)), b, sums, sigma2, value, 0.0, 0.0)
    lam = math.exp(log_ratio)
    A = data.gram(v)
    A.ravel()[:: q + 1] += lam
    L, failed = dpotrf(A, lower=1)
    if failed:
        L = _rounded_factor(A, lam)
    inverse, _ = dtrtri(L, lower=1)
    P = inverse.T.dot(inverse)
    m = P.dot(b)
    R = max(data.yy - ddot(b, m), 1e-4 * MIN_NOISE_RATIO * data.yy)  # rounding
    mPm, trace = ddot(m, P.dot(m)), sum(P.diagonal().tolist())
    sums = FitSums(R, ddot(m, m), mPm, trace, float(np.vdot(P, P)))
    sigma2 = max(R / n, data.noise_floor)
    log_det = 2.0 * sum(map(math.log, L.diagonal().tolist())) - q * log_ratio
    value = -0.5 * (n * math.log(2.0 * math.pi * sigma2) + R / sigma2 + log_det)
    return RegressionFit(
        v, log_ratio, P, m, sums, sigma2, value, *slope_and_step(data, q, log_ratio, sums)
    )


def _rounded_factor(A: np.ndarray, lam: float) -> np.ndarray:
    """The Cholesky factor of A + lambda I, made positive definite as far as rounding asks for:
    copies of a variable, and lambda below rounding."""
    more = FACTOR_ROUNDING * (float(A.diagonal().max()) + lam)
    failed = 1
    while failed:
        A.flat[:: A.shape[0] + 1] += more
        more *= 2.0
        factor: np.ndarray
        factor, failed = dpotrf(A, lower=1)
    return factor


def slope_and_step(
    data: RegressionMoments, q: int, log_ratio: float, sums: FitSums
) -> tuple[float, float]:
    """The slope of the log evidence in log lambda, and the step to where it should be zero.

    It is zero where lambda m'm / sigma2, the size of the weights, equals q - lambda tr P, the
    number of those that the data determine (MacKay 1992). The logarithms of both are nearly
    straight lines: a step of Newton's method on their difference leaves a hundredth of the
    error that one on the slope itself leaves. d P / d log lambda = -lambda P^2.
    """
    R, mm, mPm, trace, trace2 = sums
    lam = math.exp(log_ratio)
    sigma2 = max(R / data.n, data.noise_floor)
    size, determined = lam * mm / sigma2, q - lam * trace
    slope = 0.5 * (determined - size)
    if not (size > 0.0 and determined > 0.0):
        return slope, math.copysign(MAX_LOG_STEP, slope)
    curvature = 1.0 - 2.0 * lam * mPm / mm + lam * (trace - lam * trace2) / determined
    if sigma2 > data.noise_floor:
        curvature -= lam * mm / R
    step = (
        math.log(determined / size) / curvature
        if curvature > 0.0
        else math.copysign(math.inf, slope)
    )
    return slope, min(max(step, -MAX_LOG_STEP), MAX_LOG_STEP)


def clip_log_ratio(data: RegressionMoments, log_ratio: float, step: float) -> float:
    """log lambda after a step, within reach."""
    return min(max(log_ratio + step, data.low), data.high)


def optimise(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """Raise the evidence over lambda until less than ``tol`` is to be gained."""
    for _ in range(100):
        target = clip_log_ratio(data, fit.log_ratio, fit.step)
        if abs((target - fit.log_ratio) * fit.slope) <= tol:
            break
        trial = evaluate(data, fit.v, target)
        while trial.log_evidence < fit.log_evidence and abs(target - fit.log_ratio) > 1e-9:
            target = fit.log_ratio + 0.25 * (target - fit.log_ratio)
            trial = evaluate(data, fit.v, target)
        if not trial.log_evidence > fit.log_evidence:
            break
        fit = trial
    return fit


def fit_neighbour(
    data: RegressionMoments, fit: RegressionFit, v: np.ndarray, sums: FitSums, tol: float
) -> RegressionFit:
    """The model v, a neighbour of ``fit`` that has ``sums`` at the same lambda."""
    _, step = slope_and_step(data, v.size, fit.log_ratio, sums)
    return optimise(data, evaluate(data, v, clip_log_ratio(data, fit.log_ratio, step)), tol)


class Additions(NamedTuple):
    """What joining the model would change for each of some variables, at the same lambda."""

    H: np.ndarray  # (p, q) X'X_v P
    s: np.ndarray  # (p,) lambda + |x_j|^2 after regression on the model
    e: np.ndarray  # (p,) x_j'(y - X_v m)
    gain: np.ndarray  # (p,) rise of the log evidence


def score_additions(
    fit: RegressionFit, cross: np.ndarray, d: np.ndarray, b: np.ndarray, n: float
) -> Additions:
    """From ``cross`` = X'X_v, ``d`` = the diagonal of X'X and ``b`` = X'y of any variables."""
    lam = math.exp(fit.log_ratio)
    H = cross.dot(fit.P)
    # Rounding must not make a copy of an active variable look new: s is at least lambda.
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    e = b - cross.dot(fit.m)
    remaining = np.maximum(1.0 - e * e / (s * fit.R), MIN_NOISE_RATIO)
    return Additions(H, s, e, -0.5 * (n * np.log(remaining) + np.log(s / lam)))


def score_all_additions(data: RegressionMoments, fit: RegressionFit, n: float) -> Additions:
    """The neighbours of a model, which itself can gain nothing."""
    additions = score_additions(fit, data.G.take(fit.v, axis=1), data.d, data.b, n)
    additions.gain[fit.v] = -np.inf
    return additions


def fit_single(data: RegressionMoments, j: int) -> RegressionFit:
    """The model of variable j alone, at its best lambda, which is known in closed form.

    With rho the squared correlation of x_j and y and u = d/(lambda + d), the evidence is
    -n/2 log(1 - u rho) + 1/2 log(1 - u) up to a constant, largest at n rho - 1 = u rho (n - 1).
    """
    n, d = data.n, float(data.d[j])
    rho = float(data.b[j]) ** 2 / (d * data.yy)
    u = (n * rho - 1.0) / (rho * (n - 1)) if n * rho > 1.0 else 0.0
    best = math.log(d * (1.0 - u) / u) if 0.0 < u < 1.0 else data.high if u <= 0.0 else data.low
    return evaluate(data, np.array([j]), clip_log_ratio(data, best, 0.0))


def add_best_variable(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """The best model with one variable more, which may be worse than ``fit``."""
    if fit.v.size == 0:
        return fit_single(data, int(np.argmax(data.b**2 / data.d)))
    additions = score_all_additions(data, fit, data.n)
    return add_variable(data, fit, additions, int(additions.gain.argmax()), tol)


def add_variable(
    data: RegressionMoments, fit: RegressionFit, additions: Additions, j: int, tol: float
) -> RegressionFit:
    """The model with variable j as well."""
    P, h, s, e = fit.P, additions.H[j], float(additions.s[j]), float(additions.e[j])
    R, _, _, trace, trace2 = fit.sums
    weight = e / s
    m, more = fit.m - weight * h, (1.0 + ddot(h, h)) / s
    sums = FitSums(
        max(R - weight * e, MIN_NOISE_RATIO * R),
        ddot(m, m) + weight * weight,
        ddot(m, P.dot(m)) + (ddot(h, m) - weight) ** 2 / s,
        trace + more,
        trace2 + 2.0 * ddot(h, P.dot(h)) / s + more * more,
    )
    return fit_neighbour(data, fit, np.append(fit.v, j), sums, tol)


def removal_gains(fit: RegressionFit, n: float) -> np.ndarray:
    """Rise (mostly a fall) of the log evidence when each variable leaves, at the same lambda."""
    P_ii = fit.P.diagonal()
    more = fit.m * fit.m / (P_ii * fit.R)
    gains: np.ndarray = -0.5 * (n * np.log1p(more) + np.log(P_ii) + fit.log_ratio)
    return gains


def least_useful(fit: RegressionFit, n: float) -> int:
    """The place in v of the variable without which the model is best."""
    return int(removal_gains(fit, n).argmax())


def remove_worst_variable(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """The best model with one variable less."""
    return remove_variable(data, fit, least_useful(fit, data.n), tol)


def remove_variable(
    data: RegressionMoments, fit: RegressionFit, i: int, tol: float
) -> RegressionFit:
    """The model without the variable at place i of v."""
    v = np.concatenate([fit.v[:i], fit.v[i + 1 :]])
    if v.size < 2:
        return fit_single(data, int(v[0])) if v.size else evaluate(data, v, fit.log_ratio)
    P, h, P_ii, weight = fit.P, fit.P[i], float(fit.P[i, i]), float(fit.m[i])
    R, _, _, trace, trace2 = fit.sums
    m, less = fit.m - (weight / P_ii) * h, ddot(h, h) / P_ii
    sums = FitSums(
        R + weight * weight / P_ii,
        ddot(m, m),
        ddot(m, P.dot(m)) - ddot(h, m) ** 2 / P_ii,
        trace - less,
        trace2 - 2.0 * ddot(h, P.dot(h)) / P_ii + less * less,
    )
    return fit_neighbour(data, fit, v, sums, tol)


def exchange_gains(fit: RegressionFit, additions: Additions, n: float) -> np.ndarray:
    """Rise of the log evidence when i leaves and j comes, for all (j, i), at the same lambda."""
    P_ii = fit.P.diagonal()
    H, R = additions.H, fit.R + fit.m**2 / P_ii
    s = additions.s[:, None] + H * H / P_ii
    e = additions.e[:, None] + H * (fit.m / P_ii)
    remaining = np.maximum(R - e * e / s, MIN_NOISE_RATIO * fit.R)
    gains: np.ndarray = -0.5 * (n * np.log(remaining / fit.R) + np.log(s * P_ii))
    return gains
