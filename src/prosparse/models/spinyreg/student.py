"""Linear regression with Student's t noise, fitted by reweighting the rows.

[LLT89]  K. L. Lange, R. J. A. Little, J. M. G. Taylor. Robust statistical modeling using the t
         distribution. Journal of the American Statistical Association 84, 1989.

Student's t noise with nu degrees of freedom and scale sigma is Gaussian noise of variance
sigma2 / u_i with independent u_i ~ Gamma(nu/2, nu/2), [LLT89]. The variational posterior
q(b, w) q(u) of intercept, coefficients and row weights bounds log p(y | v) from below. At fixed
means u, the bound equals the evidence of regression with row weights u (`linear`, with n - 1
degrees of freedom if there is an intercept), up to terms that do not depend on the set v. Two
alternating steps increase the bound:

1. given u, search for the best set v, lambda and sigma2 as for Gaussian noise;
2. given q(b, w) and d_i = E (y_i - b - x_i'w)^2 / sigma2, choose nu to maximise the sum of

       g(d_i, nu) = log Gamma((nu + 1)/2) - log Gamma(nu/2) + nu/2 log(nu/2)
                    - (nu + 1)/2 log((nu + d_i)/2) ,      and set  u_i = (nu + 1) / (nu + d_i) .

After the second step, the bound is

    sum_i g(d_i, nu) - n/2 log(2 pi sigma2) - KL(q(w), p(w)) + 1/2 log(2 pi e sigma2 / sum_i u_i) .
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar
from scipy.special import gammaln

from ...data import Columns, Operator
from ...inference.loop import Run, iterate, residual_rounding
from ...inference.progress import Progress
from .linear import EXACT, LinearFit, evaluate, linear_model, optimise
from .response import Response, count_informative_rows
from .screening import LinearProblem, candidates, max_linear_sizes, search_all
from .stepwise import rules_for

MIN_DEGREES = 3.0  # minimum degrees of freedom, with noise variance 3 sigma2
MAX_DEGREES = 200.0  # maximum degrees of freedom, with nearly Gaussian noise
MAX_ITERATIONS = 100  # maximum number of updates of the row weights
SCORE_TOL = 1e-3  # change of a score relative to sigma below which `null_scores` stops
BOUND_TOL = 1e-3  # increase of the bound below which the iterations stop


class WeightedData(NamedTuple):
    """Data matrix and response multiplied by the roots of the row weights."""

    op: Operator
    columns: Columns
    response: Response


class StudentState(NamedTuple):
    """State of the alternating maximisation."""

    u: np.ndarray  # (n,) mean row weights, used by the next iteration
    nu: float  # degrees of freedom
    v: np.ndarray  # (q,) variables of the set
    log_ratio: float  # log lambda
    sigma2: float
    bound: float


Reweight = Callable[[np.ndarray], WeightedData]
"""Function from mean row weights u to the weighted data, with unchanged column scales."""


def log_factor(d: np.ndarray, nu: float) -> np.ndarray:
    """Compute g(d, nu)."""
    constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) + 0.5 * nu * math.log(0.5 * nu)
    factor: np.ndarray = constant - 0.5 * (nu + 1.0) * np.log(0.5 * (nu + d))
    return factor


def best_degrees(d: np.ndarray, counts: np.ndarray, nu: float) -> float:
    """Maximise the weighted sum of g over rows, starting from ``nu``."""

    def loss(log_nu: float) -> float:
        return -float(counts @ log_factor(d, math.exp(log_nu)))

    limits = (math.log(MIN_DEGREES), math.log(MAX_DEGREES))
    found = minimize_scalar(loss, bounds=limits, method="bounded", options={"xatol": 1e-4})
    # If the optimiser returns a local maximum, the bound must not decrease.
    return math.exp(float(found.x)) if found.fun <= loss(math.log(nu)) else nu


class Moments(NamedTuple):
    """Posterior q(b, w) of one set, and the expected squared residuals."""

    fit: LinearFit
    d: np.ndarray  # (n,) expected squared residuals over sigma2
    divergence: float  # KL(q(w), p(w)) minus the entropy of the intercept


def compute_moments(
    weighted: WeightedData, v: np.ndarray, log_ratio: float, n_intercepts: int, noise_floor: float
) -> Moments:
    """Compute the posterior of the set v at its best lambda."""
    op, response = weighted.op, weighted.response
    root = np.ones(response.y.size) if response.root is None else response.root
    q = v.size
    rows = np.zeros((root.size, 0))
    if q:
        gathered = op.take_columns(v).gather_rows(lambda block: block, entrywise=True)
        rows = np.asarray(gathered, dtype=float)
    G = rows.T @ rows if q else np.eye(1)
    B = (rows.T @ response.y)[:, None] if q else np.zeros((1, 1))
    model = linear_model(G, B, np.array([response.yy]), response.n - n_intercepts)
    model = model._replace(noise_floor=np.array([noise_floor]))
    fit = optimise(model, evaluate(model, np.arange(q), log_ratio), EXACT)
    m, sigma2 = fit.M[:, 0], float(fit.sigma2[0])
    residual = (response.y - rows @ m) / root
    leverage = np.einsum("ij,ij->i", rows @ fit.P, rows) / root**2
    total = float(root @ root)
    d = residual**2 / sigma2 + leverage + n_intercepts / total
    lam = math.exp(fit.log_ratio)
    quadratic = lam * float(fit.P.trace()) + lam * float(m @ m) / sigma2 - q
    log_det = q * fit.log_ratio + float(np.linalg.slogdet(fit.P)[1]) if q else 0.0
    entropy = 0.5 * n_intercepts * math.log(2.0 * math.pi * math.e * sigma2 / total)
    return Moments(fit, d, 0.5 * (quadratic - log_det) - entropy)


class SearchSettings(NamedTuple):
    """Settings of the search for the best set."""

    n_intercepts: int  # 1 with an intercept, otherwise 0
    max_iter: int
    tol: float  # increase of the log posterior per sample below which a search stops
    noise_floor: float  # minimum of sigma2, the same in every iteration
    verbose: int = 0


class ScoredSet(NamedTuple):
    """Set of variables with its moments and posterior probability."""

    v: np.ndarray  # (q,)
    moments: Moments
    log_posterior: float  # at the current row weights, up to a constant
    log_prior: float  # relative to the empty set


def score_sets(
    weighted: WeightedData, state: StudentState, settings: SearchSettings
) -> list[ScoredSet]:
    """Score the current set and the best set of a new search."""
    op, response, n_intercepts = weighted.op, weighted.response, settings.n_intercepts
    rows, p = count_informative_rows(op, response), op.shape[1]
    sizes = max_linear_sizes(rows, p, bool(n_intercepts))
    rules = rules_for(p, sizes, max_iter=settings.max_iter, tol=settings.tol * response.n)
    # The intercept reduces n.
    n, yy = response.n - n_intercepts, np.array([response.yy])
    found = search_all(LinearProblem(candidates(op, response.y[:, None], yy, n, 0)), rules)
    sets = ((state.v, state.log_ratio), (found.indices[found.fit.v], found.fit.log_ratio))
    scored = []
    for v, log_ratio in sets:
        moments = compute_moments(weighted, v, log_ratio, n_intercepts, settings.noise_floor)
        log_prior = float(rules.log_prior[v.size]) - float(rules.log_prior[0])
        scored.append(ScoredSet(v, moments, moments.fit.log_evidence + log_prior, log_prior))
    return scored


def make_step(
    reweight: Reweight, counts: np.ndarray, settings: SearchSettings
) -> Callable[[StudentState], StudentState]:
    """Build the iteration: a search, followed by an update of weights and nu."""

    def step(state: StudentState) -> StudentState:
        weighted = reweight(state.u)
        best = max(score_sets(weighted, state, settings), key=lambda each: each.log_posterior)
        fit, d, divergence = best.moments
        nu = best_degrees(d, counts, state.nu)
        sigma2 = float(fit.sigma2[0])
        gaussian = 0.5 * weighted.response.n * math.log(2.0 * math.pi * sigma2)
        bound = float(counts @ log_factor(d, nu)) - gaussian - divergence + best.log_prior
        u = (nu + 1.0) / (nu + d)
        return StudentState(u, nu, best.v, fit.log_ratio, sigma2, bound)

    return step


def null_scores(values: np.ndarray, counts: np.ndarray, n_intercepts: int) -> np.ndarray:
    """Compute residuals times row weights of the model without variables.

    The weights, which make the scores of outliers small, do not depend on X, so that scores are
    exchangeable if the responses are.
    """
    n, nu = float(counts.sum()), MAX_DEGREES
    u, scores = np.ones(values.size), values
    for _ in range(MAX_ITERATIONS):
        weights = counts * u
        centre = float(weights @ values) / float(weights.sum()) if n_intercepts else 0.0
        residual = values - centre
        sigma2 = max(float(weights @ residual**2) / n, np.finfo(float).tiny)
        d = residual**2 / sigma2
        nu = best_degrees(d, counts, nu)
        u, previous = (nu + 1.0) / (nu + d), scores
        scores = u * residual
        if float(np.abs(scores - previous).max()) <= SCORE_TOL * math.sqrt(sigma2):
            break
    return scores


def estimate_row_weights(
    reweight: Reweight, counts: np.ndarray, settings: SearchSettings
) -> Run[StudentState]:
    """Estimate row weights iteratively, starting from equal weights."""
    empty = np.array([], dtype=int)
    start = StudentState(np.ones(counts.size), MAX_DEGREES, empty, 0.0, 1.0, -math.inf)
    first = reweight(start.u)
    total, epsilon = first.response.yy, first.op.epsilon
    return iterate(
        make_step(reweight, counts, settings),
        start,
        max_iter=MAX_ITERATIONS,
        tol=BOUND_TOL,
        rounding=lambda state: residual_rounding(state, total, state.sigma2, epsilon),
        progress=Progress(MAX_ITERATIONS, "row weights", settings.verbose),
    )
