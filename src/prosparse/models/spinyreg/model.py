"""Bayesian linear regression: exact evidence of every set of variables.

[LMBC16]  P. Latouche, P.-A. Mattei, C. Bouveyron, J. Chiquet. Combining a relaxed EM algorithm
          with Occam's razor for Bayesian variable selection in high-dimensional regression.
          Journal of Multivariate Analysis 146, 2016.

Model v is y = X_v w + noise with w ~ N(0, I/alpha) and noise ~ N(0, I/gamma). Integrating over w
gives y ~ N(0, I/gamma + X_v X_v'/alpha). With lambda = alpha/gamma, sigma2 = 1/gamma and

    P = (X_v'X_v + lambda I)^-1      m = P X_v'y      R = y'y - (X_v'y)'m ;

    log p(y | v) = -n/2 log(2 pi sigma2) - R / (2 sigma2) - 1/2 log det(I + X_v'X_v / lambda) .

The best sigma2 is R/n, which leaves log lambda to optimise by Newton's method. Each evaluation
needs one Cholesky factor of a q x q matrix. At a given lambda the evidence of all neighbours of v
(one variable added, removed or exchanged) follows from P, m and R by rank-one formulas. These
need X'X and X'y but not X.

[LMBC16] relax the selection of v to [0, 1]^p, which gives one prior variance per variable
(`ard`). With fewer samples than variables the relaxed likelihood has no useful maximum in gamma:
it increases as more variables explain more of the noise. The exact evidence of binary models
therefore selects variables and noise (`stepwise`, `screening`). At that noise, `ard` computes the
relevance of the variables (`solve`).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.blas import ddot
from scipy.linalg.lapack import dpotrf, dtrtri

MIN_NOISE_RATIO = 1e-12  # minimum noise variance relative to y'y / n
FACTOR_ROUNDING = 1e-14  # relative rounding error of a Cholesky factor
MIN_EIGENVALUE = 1e-10  # minimum eigenvalue of X'X relative to the largest
MAX_RATIO_RANGE = 1e12  # maximum ratio of lambda and the diagonal of X'X
# Tolerances of the log evidence in lambda: in a search, along the path, for the selected model.
COARSE, FINE, EXACT = 0.1, 1e-4, 1e-9
MAX_LOG_STEP = 8.0  # maximum step of log lambda


class RegressionMoments(NamedTuple):
    """Sufficient statistics of the evidence."""

    G: np.ndarray  # (p, p) X'X
    b: np.ndarray  # (p,) X'y
    yy: float  # y'y, positive
    n: float  # number of observations, or sum of the row weights
    d: np.ndarray  # (p,) diagonal of X'X
    low: float  # lower and upper bound of log lambda
    high: float
    noise_floor: float  # minimum noise variance

    def gram(self, v: np.ndarray) -> np.ndarray:
        """Return X_v'X_v as a new array."""
        return self.G.take(v, axis=0).take(v, axis=1)


def moments(G: np.ndarray, b: np.ndarray, yy: float, n: float) -> RegressionMoments:
    """Compute the sufficient statistics from X'X, X'y, y'y and the number of observations."""
    d = np.diagonal(G)
    low, high = (
        math.log(float(d.min()) / MAX_RATIO_RANGE),
        math.log(float(d.max()) * MAX_RATIO_RANGE),
    )
    return RegressionMoments(G, b, yy, n, d, low, high, MIN_NOISE_RATIO * yy / n)


def relative_size(size: np.ndarray) -> np.ndarray:
    """Divide sizes of selected variables by the largest; all results are positive."""
    largest = float(size.max(initial=0.0))
    if largest == 0.0:
        return np.ones_like(size)
    relative: np.ndarray = np.maximum(size / largest, np.finfo(float).eps)
    return relative


class FitSums(NamedTuple):
    """Statistics of a model that determine its best lambda."""

    R: float  # positive
    mm: float  # m'm
    mPm: float
    trace: float  # tr P
    trace2: float  # tr P^2


class RegressionFit(NamedTuple):
    """Model v at one lambda, with the best noise variance."""

    v: np.ndarray  # (q,) variables in order of addition
    log_ratio: float  # log lambda = log(alpha / gamma)
    P: np.ndarray  # (q, q)
    m: np.ndarray  # (q,) posterior mean of w
    sums: FitSums
    sigma2: float
    log_evidence: float
    slope: float  # derivative of the log evidence in log lambda
    step: float  # Newton step of log lambda

    @property
    def R(self) -> float:
        """Residual sum y'y - (X_v'y)'m."""
        return self.sums.R


def evaluate(data: RegressionMoments, v: np.ndarray, log_ratio: float) -> RegressionFit:
    """Compute the evidence of model v at one lambda.

    The running time for small data is dominated by call overhead; NumPy methods have half the
    overhead of operators.
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
    """Compute a Cholesky factor of A + lambda I with the smallest sufficient diagonal shift.

    The shift is needed for repeated variables if lambda is below rounding.
    """
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
    """Compute the slope of the log evidence in log lambda, and a Newton step.

    The slope is zero if lambda m'm / sigma2, the size of the coefficients, equals q - lambda tr P,
    the number of well-determined coefficients (MacKay 1992). The logarithms of both are nearly
    linear in log lambda. A Newton step on their difference leaves a hundredth of the error of a
    Newton step on the slope. d P / d log lambda = -lambda P^2.
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
    """Return log lambda after a step, clipped to its bounds."""
    return min(max(log_ratio + step, data.low), data.high)


def optimise(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """Maximise the evidence over lambda until the expected increase is below ``tol``."""
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
    """Fit model v, a neighbour of ``fit`` with statistics ``sums`` at the same lambda."""
    _, step = slope_and_step(data, v.size, fit.log_ratio, sums)
    return optimise(data, evaluate(data, v, clip_log_ratio(data, fit.log_ratio, step)), tol)


class Additions(NamedTuple):
    """Changes by adding each of some variables at the same lambda."""

    H: np.ndarray  # (p, q) X'X_v P
    s: np.ndarray  # (p,) lambda + |x_j|^2 after regression on the model
    e: np.ndarray  # (p,) x_j'(y - X_v m)
    gain: np.ndarray  # (p,) increase of the log evidence


def score_additions(
    fit: RegressionFit, cross: np.ndarray, d: np.ndarray, b: np.ndarray, n: float
) -> Additions:
    """Score additions from X'X_v, the diagonal of X'X and X'y of any variables."""
    lam = math.exp(fit.log_ratio)
    H = cross.dot(fit.P)
    # Rounding must not make a copy of an active variable look new; s is at least lambda.
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    e = b - cross.dot(fit.m)
    remaining = np.maximum(1.0 - e * e / (s * fit.R), MIN_NOISE_RATIO)
    return Additions(H, s, e, -0.5 * (n * np.log(remaining) + np.log(s / lam)))


def score_all_additions(data: RegressionMoments, fit: RegressionFit, n: float) -> Additions:
    """Score the addition of every variable; included variables have a gain of -inf."""
    additions = score_additions(fit, data.G.take(fit.v, axis=1), data.d, data.b, n)
    additions.gain[fit.v] = -np.inf
    return additions


def fit_single(data: RegressionMoments, j: int) -> RegressionFit:
    """Fit the model of variable j alone at its best lambda, in closed form.

    With rho the squared correlation of x_j and y and u = d/(lambda + d), the log evidence is
    -n/2 log(1 - u rho) + 1/2 log(1 - u) up to a constant, with its maximum at
    n rho - 1 = u rho (n - 1).
    """
    n, d = data.n, float(data.d[j])
    rho = float(data.b[j]) ** 2 / (d * data.yy)
    u = (n * rho - 1.0) / (rho * (n - 1)) if n * rho > 1.0 else 0.0
    best = math.log(d * (1.0 - u) / u) if 0.0 < u < 1.0 else data.high if u <= 0.0 else data.low
    return evaluate(data, np.array([j]), clip_log_ratio(data, best, 0.0))


def add_best_variable(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """Add the variable of the largest gain, which may be negative."""
    if fit.v.size == 0:
        return fit_single(data, int(np.argmax(data.b**2 / data.d)))
    additions = score_all_additions(data, fit, data.n)
    return add_variable(data, fit, additions, int(additions.gain.argmax()), tol)


def add_variable(
    data: RegressionMoments, fit: RegressionFit, additions: Additions, j: int, tol: float
) -> RegressionFit:
    """Fit the model with variable j added."""
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
    """Compute the increase of the log evidence if each variable is removed."""
    P_ii = fit.P.diagonal()
    more = fit.m * fit.m / (P_ii * fit.R)
    gains: np.ndarray = -0.5 * (n * np.log1p(more) + np.log(P_ii) + fit.log_ratio)
    return gains


def least_useful(fit: RegressionFit, n: float) -> int:
    """Return the position in v of the variable with the largest removal gain."""
    return int(removal_gains(fit, n).argmax())


def remove_worst_variable(data: RegressionMoments, fit: RegressionFit, tol: float) -> RegressionFit:
    """Remove the least useful variable."""
    return remove_variable(data, fit, least_useful(fit, data.n), tol)


def remove_variable(
    data: RegressionMoments, fit: RegressionFit, i: int, tol: float
) -> RegressionFit:
    """Fit the model without the variable at position i of v."""
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
    """Compute the (p, q) increases of the log evidence if j replaces i."""
    P_ii = fit.P.diagonal()
    H, R = additions.H, fit.R + fit.m**2 / P_ii
    s = additions.s[:, None] + H * H / P_ii
    e = additions.e[:, None] + H * (fit.m / P_ii)
    remaining = np.maximum(R - e * e / s, MIN_NOISE_RATIO * fit.R)
    gains: np.ndarray = -0.5 * (n * np.log(remaining / fit.R) + np.log(s * P_ii))
    return gains


def pseudo_inverse(G: np.ndarray) -> np.ndarray:
    """Return the positive semidefinite pseudoinverse of X'X.

    Collinear columns have eigenvalues of the size of rounding errors. A negative eigenvalue shows
    how large these are.
    """
    values, vectors = np.linalg.eigh(G)
    threshold = max(MIN_EIGENVALUE * float(values[-1]), -10.0 * float(values[0]))
    positive = values > threshold
    inverse: np.ndarray = (vectors[:, positive] / values[positive]) @ vectors[:, positive].T
    return inverse
