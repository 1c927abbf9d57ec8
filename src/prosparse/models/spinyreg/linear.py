"""Bayesian linear regression of m >= 1 responses.

[LMBC16]  P. Latouche, P.-A. Mattei, C. Bouveyron, J. Chiquet. Combining a relaxed EM algorithm
          with Occam's razor for Bayesian variable selection in high-dimensional regression.
          Journal of Multivariate Analysis 146, 2016.

Model v is y_k = X_v w_k + noise with w_k ~ N(0, I/alpha_k) and noise ~ N(0, I/gamma_k). The set v
and lambda = alpha_k/gamma_k are common to all responses. Integrating over w_k gives
y_k ~ N(0, I/gamma_k + X_v X_v'/alpha_k). With sigma2_k = 1/gamma_k and

    P = (X_v'X_v + lambda I)^-1      M = P X_v'Y      R_k = y_k'y_k - (X_v'y_k)'M_k ;

    log p(Y | v) = sum_k [-n/2 log(2 pi sigma2_k) - R_k / (2 sigma2_k)]
                   - m/2 log det(I + X_v'X_v / lambda) .

The optimal sigma2_k is R_k/n, and log lambda is optimised by Newton's method. Each evaluation
requires one Cholesky factor of a q x q matrix. At a given lambda, the evidence of all neighbours of
v (one variable added, removed or exchanged) follows from P, M and R by rank-one formulas, which
require X'X and X'Y but not X.

[LMBC16] relax the selection of v to [0, 1]^p, which gives one prior variance per variable
(`ard`). With fewer samples than variables, the relaxed likelihood has no useful maximum in gamma,
because it increases as more variables explain more of the noise. Variables and noise are therefore
selected by the exact evidence of binary models (`stepwise`, `screening`). Given this noise, `ard`
computes the relevance of the variables (`relevance`).
"""

from __future__ import annotations

import math
from typing import NamedTuple, Self

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from .linear_states import LinearStates
from .set_model import Coefficients, Trials
from .slab_scales import SetPrior, make_prior_grid
from .suppressors import best_pair

MIN_NOISE_RATIO = 1e-12  # minimum noise variance relative to y'y / n
FACTOR_ROUNDING = 1e-14  # relative rounding error of a Cholesky factor
MIN_EIGENVALUE = 1e-10  # minimum eigenvalue of X'X relative to the largest
MAX_RATIO_RANGE = 1e12  # maximum ratio of lambda and the diagonal of X'X
# Tolerances of the log evidence in lambda, in a search, along the path and for the selected model.
COARSE, FINE, EXACT = 0.1, 1e-4, 1e-9
MAX_LOG_STEP = 8.0  # maximum step of log lambda
MAX_FULL_START = 200  # maximum number of variables for a search from the full model
START_RATIO = 0.01  # lambda of a first fit relative to the mean of x_j'x_j
WEAK_RATIO = 1e-6  # lambda of the weakly penalised full model relative to the smallest x_j'x_j


class LinearFit(NamedTuple):
    """Model v at one lambda, with optimal noise variances."""

    v: np.ndarray  # (q,) variables in order of addition
    log_ratio: float  # log lambda = log(alpha / gamma)
    P: np.ndarray  # (q, q)
    M: np.ndarray  # (q, m) posterior means of w
    R: np.ndarray  # (m,) residual sums
    sigma2: np.ndarray  # (m,)
    log_evidence: float
    slope: float  # derivative of the log evidence in log lambda
    step: float  # Newton step of log lambda


class Additions(NamedTuple):
    """Changes due to the addition of each variable at the same lambda."""

    H: np.ndarray  # (p, q) X'X_v P
    s: np.ndarray  # (p,) lambda + |x_j|^2 after regression on the model
    E: np.ndarray  # (p, m) x_j'(y_k - X_v M_k)
    gain: np.ndarray  # (p,) increase of the log evidence


class LinearModel(NamedTuple):
    """Linear model in terms of the sufficient statistics of the evidence."""

    G: np.ndarray  # (p, p) X'X
    B: np.ndarray  # (p, m) X'Y
    yy: np.ndarray  # (m,) squared norms of the responses, positive
    n: float  # number of observations, or sum of the row weights
    dof: float  # n, less one with an intercept
    d: np.ndarray  # (p,) diagonal of X'X
    low: float  # lower and upper bound of log lambda
    high: float
    noise_floor: np.ndarray  # (m,) minimum noise variances
    common_sign: bool = False  # whether the prior favours equal signs of a common magnitude

    @property
    def trials(self) -> Trials:
        """Rules for the neighbours fitted in a search; gains are exact."""
        return Trials(1, 0.0, 0.0)

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.d.size

    @property
    def max_full_start(self) -> int:
        """Maximum number of variables for a search that starts from all."""
        return MAX_FULL_START

    def gram(self, v: np.ndarray) -> np.ndarray:
        """Return X_v'X_v as a new array."""
        return self.G.take(v, axis=0).take(v, axis=1)

    def take(self, indices: np.ndarray) -> Self:
        """Restrict the model to some variables."""
        return self._replace(G=self.gram(indices), B=self.B[indices], d=self.d[indices])

    # --- fits

    def fit(
        self, v: np.ndarray, near: LinearFit | None = None, tune: bool = True, tol: float = COARSE
    ) -> LinearFit:
        """Fit the set v at the best lambda, starting from that of ``near``."""
        if v.size == 0:
            return evaluate(self, v, 0.0 if near is None else near.log_ratio)
        if v.size == 1:
            start = single_log_ratio(self, int(v[0]))
        elif near is None or not near.v.size:
            start = math.log(START_RATIO * float(self.d.mean()))
        else:
            start = near.log_ratio
        return optimise(self, evaluate(self, v, start), tol)

    def refine(self, fit: LinearFit, exact: bool = False) -> LinearFit:
        """Improve lambda of a fit."""
        return optimise(self, fit, EXACT if exact else FINE)

    def full_fit(self) -> LinearFit:
        """Fit all variables with little shrinkage."""
        return evaluate(
            self, np.arange(self.n_variables), math.log(WEAK_RATIO * float(self.d.min()))
        )

    def evidence(self, fit: LinearFit) -> float:
        """Compute the log evidence without the means of the responses.

        A centred y has mean 0, which every model predicts. The factor N(0; 0, sigma2) would favour
        small noise variances without support from the data, which matters for small samples.
        """
        means = 0.5 * (self.n - self.dof) * float(np.log(2.0 * math.pi * fit.sigma2).sum())
        return fit.log_evidence + means

    def path_evidence(self, fit: LinearFit) -> tuple[float, float]:
        """Compute the log evidence of y, with and without the means."""
        return fit.log_evidence, self.evidence(fit)

    # --- neighbours at the same lambda

    def addition_gains(self, fit: LinearFit) -> np.ndarray:
        """Compute the gain of adding each variable, (p,)."""
        if fit.v.size == 0:  # lambda is undefined for the empty set.
            return single_gains(self)
        gain = score_additions(fit, self.G.take(fit.v, axis=1), self.d, self.B, self.dof).gain
        gain[fit.v] = -np.inf
        return gain

    def removal_gains(self, fit: LinearFit) -> np.ndarray:
        """Compute the gain of removing each variable, (q,)."""
        P_ii = fit.P.diagonal()
        log_growth = np.log1p(fit.M * fit.M / (P_ii[:, None] * fit.R)).sum(axis=1)
        gains: np.ndarray = -0.5 * (
            self.dof * log_growth + fit.R.size * (np.log(P_ii) + fit.log_ratio)
        )
        return gains

    def exchange_gains(self, fit: LinearFit) -> np.ndarray:
        """Compute the gains if j replaces i, (p, q)."""
        near = score_additions(fit, self.G.take(fit.v, axis=1), self.d, self.B, self.dof)
        P_ii = fit.P.diagonal()
        s = near.s[:, None] + near.H * near.H / P_ii
        gains: np.ndarray = -0.5 * fit.R.size * np.log(s * P_ii)
        for k, R in enumerate(fit.R):
            e = near.E[:, k, None] + near.H * (fit.M[:, k] / P_ii)
            without = R + fit.M[:, k] ** 2 / P_ii
            remaining = np.maximum(without - e * e / s, MIN_NOISE_RATIO * R)
            gains -= 0.5 * self.dof * np.log(remaining / R)
        gains[fit.v] = -np.inf
        return gains

    # --- starts of a search

    def marginal(self) -> np.ndarray:
        """Compute sums of squared correlations with the responses, (p,)."""
        squares: np.ndarray = (self.B * self.B / (self.d[:, None] * self.yy)).sum(axis=1)
        return squares

    def correlations(self, v: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Compute absolute correlations of ``others``, or of all variables, with v."""
        G = self.G.take(v, axis=1)
        d = self.d
        if others is not None:
            G, d = G[others], d[others]
        correlations: np.ndarray = np.abs(G) / np.sqrt(d[:, None] * self.d[v])
        return correlations

    def effect_sizes(self, fit: LinearFit) -> np.ndarray:
        """Compute norms of scaled coefficients, relative to the noise, (q,)."""
        sizes: np.ndarray = np.sqrt((fit.M**2 / fit.sigma2).sum(axis=1) * self.d[fit.v])
        return sizes

    def well_determined(self, full: LinearFit) -> bool:
        """Return whether coefficients of ``full`` are reliable.

        Reliable coefficients require many samples, columns of similar magnitude and small variance
        inflation.
        """
        inflation = float((full.P.diagonal() * self.d).max())
        similar = float(self.d.max()) < 10.0 * float(self.d.min())
        return self.n >= 2 * self.n_variables and inflation < 10.0 and similar

    def add_pair(self, fit: LinearFit) -> LinearFit | None:
        """Add the best pair of suppressor variables; return None without a pair."""
        pair = best_pair(self, fit)
        if pair is None:
            return None
        i, j, log_ratio = pair
        return optimise(self, evaluate(self, np.append(fit.v, [i, j]), log_ratio), COARSE)

    # --- results

    def coefficients(self, fit: LinearFit, least_squares: bool = False) -> Coefficients:
        """Compute the posterior, or least-squares estimates, of coefficients."""
        P, M, sigma2 = fit.P, fit.M, fit.sigma2
        if least_squares and fit.v.size:
            P = pseudo_inverse(self.gram(fit.v))
            B = self.B[fit.v]
            M = P @ B
            rest = np.maximum(self.yy - (B * M).sum(axis=0), 0.0)
            sigma2 = rest / max(self.dof - fit.v.size, 1.0)
        shape = np.zeros((1 + fit.v.size, 1 + fit.v.size))
        shape[0, 0] = (self.n - self.dof) / self.n
        shape[1:, 1:] = P
        return Coefficients(M.T, sigma2[:, None, None] * shape, np.zeros(self.yy.size), sigma2)

    def states(self, log_prior: np.ndarray, fit: LinearFit) -> LinearStates:
        """Build the state space of the average, with scales near those of ``fit``."""
        unit = math.log(float(self.d.mean()) / self.n)
        prior = SetPrior(
            log_prior, make_prior_grid(self, fit.log_ratio if fit.v.size else unit), self.dof
        )
        return LinearStates(self, prior)


def linear_model(
    G: np.ndarray, B: np.ndarray, yy: np.ndarray, n: float, dof: float | None = None
) -> LinearModel:
    """Build the model from its sufficient statistics."""
    d = np.diagonal(G)
    low, high = (
        math.log(float(d.min()) / MAX_RATIO_RANGE),
        math.log(float(d.max()) * MAX_RATIO_RANGE),
    )
    floor = MIN_NOISE_RATIO * yy / n
    return LinearModel(G, B, yy, n, n if dof is None else dof, d, low, high, floor)


def evaluate(model: LinearModel, v: np.ndarray, log_ratio: float) -> LinearFit:
    """Compute the evidence of model v at one lambda."""
    n, q, m, B = model.n, v.size, model.yy.size, model.B.take(v, axis=0)
    if q == 0:
        sigma2 = model.yy / n
        value = -0.5 * n * float((np.log(2.0 * math.pi * sigma2) + 1.0).sum())
        return LinearFit(v, log_ratio, np.zeros((0, 0)), B, model.yy, sigma2, value, 0.0, 0.0)
    lam = math.exp(log_ratio)
    A = model.gram(v)
    A.ravel()[:: q + 1] += lam
    L, failed = dpotrf(A, lower=1)
    if failed:
        L = _rounded_factor(A, lam)
    inverse, _ = dtrtri(L, lower=1)
    P = inverse.T.dot(inverse)
    M = P.dot(B)
    R = np.maximum(model.yy - (B * M).sum(axis=0), 1e-4 * MIN_NOISE_RATIO * model.yy)  # rounding
    sigma2 = np.maximum(R / n, model.noise_floor)
    log_det = 2.0 * sum(map(math.log, L.diagonal().tolist())) - q * log_ratio
    value = -0.5 * (float((n * np.log(2.0 * math.pi * sigma2) + R / sigma2).sum()) + m * log_det)
    slope, step = slope_and_step(model, lam, P, M, R, sigma2)
    return LinearFit(v, log_ratio, P, M, R, sigma2, value, slope, step)


def _rounded_factor(A: np.ndarray, lam: float) -> np.ndarray:
    """Compute a Cholesky factor of A + lambda I, shifted if necessary.

    The shift is required for repeated variables if lambda is below the rounding error.
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
    model: LinearModel,
    lam: float,
    P: np.ndarray,
    M: np.ndarray,
    R: np.ndarray,
    sigma2: np.ndarray,
) -> tuple[float, float]:
    """Compute the slope of the log evidence in log lambda, and a Newton step.

    The slope is zero if sum_k lambda M_k'M_k / sigma2_k, the size of the coefficients, equals m (q
    - lambda tr P), the number of well-determined coefficients (MacKay 1992). Because the logarithms
    of both are nearly linear in log lambda, a Newton step on their difference has a hundredth of
    the error of a Newton step on the slope. The derivative of P in log lambda is -lambda P^2.
    """
    q, m = M.shape
    mm, trace = (M * M).sum(axis=0), float(P.diagonal().sum())
    sizes = lam * mm / sigma2
    size, determined = float(sizes.sum()), m * (q - lam * trace)
    slope = 0.5 * (determined - size)
    if not (size > 0.0 and determined > 0.0):
        return slope, math.copysign(MAX_LOG_STEP, slope)
    change = sizes - 2.0 * lam * lam * (M * P.dot(M)).sum(axis=0) / sigma2
    change -= np.where(sigma2 > model.noise_floor, sizes * lam * mm / R, 0.0)
    curvature = float(change.sum()) / size
    curvature += m * lam * (trace - lam * float(np.vdot(P, P))) / determined
    if not curvature > 0.0:
        return slope, math.copysign(MAX_LOG_STEP, slope)
    step = math.log(determined / size) / curvature
    return slope, min(max(step, -MAX_LOG_STEP), MAX_LOG_STEP)


def clip_log_ratio(model: LinearModel, log_ratio: float) -> float:
    """Clip log lambda to its bounds."""
    return min(max(log_ratio, model.low), model.high)


def optimise(model: LinearModel, fit: LinearFit, tol: float) -> LinearFit:
    """Maximise the evidence over lambda.

    The iterations end when the expected increase is below ``tol``.
    """
    for _ in range(100):
        target = clip_log_ratio(model, fit.log_ratio + fit.step)
        if abs((target - fit.log_ratio) * fit.slope) <= tol:
            break
        trial = evaluate(model, fit.v, target)
        while trial.log_evidence < fit.log_evidence and abs(target - fit.log_ratio) > 1e-9:
            target = fit.log_ratio + 0.25 * (target - fit.log_ratio)
            trial = evaluate(model, fit.v, target)
        if not trial.log_evidence > fit.log_evidence:
            break
        fit = trial
    return fit


def single_log_ratio(model: LinearModel, j: int) -> float:
    """Compute the best log lambda of variable j alone.

    For several responses, the result is the initial value of the iterations.

    With rho the squared correlation of x_j and y and u = d/(lambda + d), the log evidence is
    -n/2 log(1 - u rho) + 1/2 log(1 - u) up to a constant, with its maximum at
    n rho - 1 = u rho (n - 1). The mean of rho over the responses is used.
    """
    n, d = model.n, float(model.d[j])
    rho = float((model.B[j] ** 2 / (d * model.yy)).mean())
    u = (n * rho - 1.0) / (rho * (n - 1)) if n * rho > 1.0 else 0.0
    best = math.log(d * (1.0 - u) / u) if 0.0 < u < 1.0 else model.high if u <= 0.0 else model.low
    return clip_log_ratio(model, best)


def single_gains(model: LinearModel) -> np.ndarray:
    """Compute increases of the log evidence by single variables."""
    n = model.n
    rho = model.B**2 / (model.d[:, None] * model.yy)
    mean = np.maximum(rho.mean(axis=1), 1.0 / n)
    u = np.clip((n * mean - 1.0) / (mean * max(n - 1.0, 1.0)), 0.0, 1.0 - MIN_NOISE_RATIO)
    remaining = np.maximum(1.0 - u[:, None] * rho, MIN_NOISE_RATIO)
    gains: np.ndarray = 0.5 * (
        rho.shape[1] * np.log1p(-u) - model.dof * np.log(remaining).sum(axis=1)
    )
    return gains


def score_additions(
    fit: LinearFit, cross: np.ndarray, d: np.ndarray, B: np.ndarray, dof: float
) -> Additions:
    """Compute gains of additions from X'X_v, the diagonal of X'X and X'Y."""
    lam = math.exp(fit.log_ratio)
    H = cross.dot(fit.P)
    # s is at least lambda, so that copies of active variables have no gain due to rounding errors.
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    E = B - cross.dot(fit.M)
    remaining = np.maximum(1.0 - E * E / (s[:, None] * fit.R), MIN_NOISE_RATIO)
    gain = -0.5 * (dof * np.log(remaining).sum(axis=1) + fit.R.size * np.log(s / lam))
    return Additions(H, s, E, gain)


def pseudo_inverse(G: np.ndarray) -> np.ndarray:
    """Compute the positive semidefinite pseudoinverse of X'X.

    Eigenvalues of collinear columns are of the order of rounding errors, whose magnitude is
    indicated by negative eigenvalues.
    """
    values, vectors = np.linalg.eigh(G)
    threshold = max(MIN_EIGENVALUE * float(values[-1]), -10.0 * float(values[0]))
    positive = values > threshold
    inverse: np.ndarray = (vectors[:, positive] / values[positive]) @ vectors[:, positive].T
    return inverse
