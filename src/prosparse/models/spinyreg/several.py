"""Several responses with one common set of variables: exact evidence of every set.

Response k has coefficients w_k ~ N(0, sigma2_k I / lambda) and noise variance sigma2_k. The set v
and lambda are common. Given these the responses are independent, and their log evidences add up:

    log p(Y | v, lambda) = sum_k [-n/2 log(2 pi sigma2_k) - R_k / (2 sigma2_k)]
                           - m/2 log det(I + X_v'X_v / lambda) ,

with P, m_k and R_k as in `model`, and the best sigma2_k = R_k / n. One eigendecomposition of
X_v'X_v gives the evidence at every lambda. At a given lambda the evidence of all neighbours of v
follows from the rank-one formulas of `model`, summed over responses.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.optimize import minimize_scalar

from ...data import Operator
from ...inference.loop import Run, StopReason, iterate, worst
from ...inference.progress import Progress
from .credible import credible_sets
from .model import MAX_RATIO_RANGE, MIN_NOISE_RATIO, pseudo_inverse, relative_size
from .null_test import NullData, run_null_test
from .stepwise import SearchRules

MAX_SHORTLIST = 1000  # maximum number of variables on a shortlist
MAX_EXTENSIONS = 5  # maximum number of extensions of the shortlist
PATH_EXTENSION = 5  # number of sets on the path beyond the best one
GRID = 25  # number of values of lambda in the initial grid search
LENIENT = 0.5  # factor of the log prior in an exploratory search
MAX_FULL_START = 200  # maximum number of variables of a search from all variables


class SeveralMoments(NamedTuple):
    """Sufficient statistics of the evidence."""

    G: np.ndarray  # (p, p) X'X
    B: np.ndarray  # (p, m) X'Y
    yy: np.ndarray  # (m,) squared norms of the responses
    n: float
    d: np.ndarray  # (p,) diagonal of X'X
    low: float  # lower and upper bound of log lambda
    high: float

    @property
    def noise_floor(self) -> np.ndarray:
        """(m,) minimum noise variances."""
        return MIN_NOISE_RATIO * self.yy / self.n


def several_moments(G: np.ndarray, B: np.ndarray, yy: np.ndarray, n: float) -> SeveralMoments:
    """Compute the sufficient statistics from X'X, X'Y, squared norms of Y and n."""
    d = np.diagonal(G)
    low, high = (
        math.log(float(d.min()) / MAX_RATIO_RANGE),
        math.log(float(d.max()) * MAX_RATIO_RANGE),
    )
    return SeveralMoments(G, B, yy, n, d, low, high)


class SeveralFit(NamedTuple):
    """Set v at one lambda, with the best noise variances."""

    v: np.ndarray  # (q,) variables in order of addition
    log_ratio: float  # log lambda
    P: np.ndarray  # (q, q)
    M: np.ndarray  # (q, m) posterior means of the weights
    R: np.ndarray  # (m,)
    sigma2: np.ndarray  # (m,)
    log_evidence: float


class Spectrum(NamedTuple):
    """Eigendecomposition that gives the evidence of a set at every lambda."""

    e: np.ndarray  # (q,) eigenvalues of X_v'X_v
    U: np.ndarray  # (q, q) eigenvectors
    C: np.ndarray  # (q, m) U'X_v'Y


def spectrum_of(data: SeveralMoments, v: np.ndarray) -> Spectrum:
    """Compute the eigendecomposition of the set v."""
    e, U = np.linalg.eigh(data.G[np.ix_(v, v)])
    return Spectrum(np.maximum(e, 0.0), U, U.T @ data.B[v])


def residuals_at(data: SeveralMoments, spectrum: Spectrum, log_ratio: float) -> np.ndarray:
    """Compute the (m,) residual sums R_k."""
    explained = (spectrum.C**2 / (spectrum.e + math.exp(log_ratio))[:, None]).sum(axis=0)
    R: np.ndarray = np.maximum(data.yy - explained, 1e-4 * MIN_NOISE_RATIO * data.yy)
    return R


def evidence_at(data: SeveralMoments, spectrum: Spectrum, log_ratio: float) -> float:
    """Compute log p(Y | v, lambda) at the best noise variances."""
    R = residuals_at(data, spectrum, log_ratio)
    sigma2 = np.maximum(R / data.n, data.noise_floor)
    log_det = float(np.log1p(spectrum.e / math.exp(log_ratio)).sum())
    fits = float((data.n * np.log(2.0 * math.pi * sigma2) + R / sigma2).sum())
    return -0.5 * (fits + data.yy.size * log_det)


def fit_at(data: SeveralMoments, v: np.ndarray, spectrum: Spectrum, log_ratio: float) -> SeveralFit:
    """Fit the set v at one lambda."""
    shrunk = spectrum.U / (spectrum.e + math.exp(log_ratio))
    R = residuals_at(data, spectrum, log_ratio)
    sigma2 = np.maximum(R / data.n, data.noise_floor)
    value = evidence_at(data, spectrum, log_ratio)
    return SeveralFit(v, log_ratio, shrunk @ spectrum.U.T, shrunk @ spectrum.C, R, sigma2, value)


def best_fit(data: SeveralMoments, v: np.ndarray, near: float | None = None) -> SeveralFit:
    """Fit the set v at its best lambda; ``near`` is an additional starting value."""
    spectrum = spectrum_of(data, v)
    if not v.size:
        return fit_at(data, v, spectrum, 0.0 if near is None else near)
    grid = np.linspace(data.low, data.high, GRID)
    if near is not None:
        grid = np.append(grid, near)
    grid.sort()
    log_evidences = [evidence_at(data, spectrum, float(log_ratio)) for log_ratio in grid]
    best = int(np.argmax(log_evidences))
    limits = (float(grid[max(best - 1, 0)]), float(grid[min(best + 1, grid.size - 1)]))
    found = minimize_scalar(
        lambda log_ratio: -evidence_at(data, spectrum, float(log_ratio)),
        bounds=limits,
        method="bounded",
        options={"xatol": 1e-6},
    )
    log_ratio = float(found.x) if -found.fun > log_evidences[best] else float(grid[best])
    return fit_at(data, v, spectrum, log_ratio)


# --- neighbours, at the same lambda


class SeveralAdditions(NamedTuple):
    """Changes by adding each variable at the same lambda."""

    H: np.ndarray  # (p, q) X'X_v P
    s: np.ndarray  # (p,) lambda + |x_j|^2 after regression on the set
    E: np.ndarray  # (p, m) x_j'(y_k - X_v m_k)
    gain: np.ndarray  # (p,) increase of the log evidence


def score_additions(
    fit: SeveralFit, cross: np.ndarray, d: np.ndarray, B: np.ndarray, n: float
) -> SeveralAdditions:
    """Score additions from X'X_v, the diagonal of X'X and X'Y of any variables."""
    lam = math.exp(fit.log_ratio)
    H = cross @ fit.P
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    E = B - cross @ fit.M
    remaining = np.maximum(1.0 - E * E / (s[:, None] * fit.R), MIN_NOISE_RATIO)
    gain = -0.5 * (n * np.log(remaining).sum(axis=1) + fit.R.size * np.log(s / lam))
    return SeveralAdditions(H, s, E, gain)


def score_all_additions(data: SeveralMoments, fit: SeveralFit, n: float) -> SeveralAdditions:
    """Score the addition of every variable; included variables have a gain of -inf."""
    near = score_additions(fit, data.G[:, fit.v], data.d, data.B, n)
    near.gain[fit.v] = -np.inf
    return near


def removal_gains(fit: SeveralFit, n: float) -> np.ndarray:
    """Compute the increase of the log evidence if each variable is removed."""
    P_ii = fit.P.diagonal()
    log_growth = np.log1p(fit.M**2 / (P_ii[:, None] * fit.R)).sum(axis=1)
    gains: np.ndarray = -0.5 * (n * log_growth + fit.R.size * (np.log(P_ii) + fit.log_ratio))
    return gains


def exchange_gains(fit: SeveralFit, near: SeveralAdditions, n: float) -> np.ndarray:
    """Compute the (p, q) increases of the log evidence if j replaces i."""
    P_ii = fit.P.diagonal()
    s = near.s[:, None] + near.H**2 / P_ii
    gains: np.ndarray = -0.5 * fit.R.size * np.log(s * P_ii)
    for k, R in enumerate(fit.R):
        e = near.E[:, [k]] + near.H * (fit.M[:, k] / P_ii)
        remaining = np.maximum(R + fit.M[:, k] ** 2 / P_ii - e * e / s, MIN_NOISE_RATIO * R)
        gains -= 0.5 * n * np.log(remaining / R)
    gains[fit.v] = -np.inf
    return gains


# --- the search


class SeveralState(NamedTuple):
    """Current set of a search."""

    fit: SeveralFit
    bound: float  # log posterior, non-decreasing


def posterior(rules: SearchRules, fit: SeveralFit) -> float:
    """Return the log posterior of the set, up to a constant.

    The contribution of the means of the responses is excluded; see `SearchRules.centred_evidence`.
    """
    means = 0.5 * rules.n_intercepts * float(np.log(2.0 * math.pi * fit.sigma2).sum())
    return fit.log_evidence + means + float(rules.log_prior[fit.v.size])


def make_step(data: SeveralMoments, rules: SearchRules) -> Callable[[SeveralState], SeveralState]:
    """Return a move to the best neighbour: addition or removal, otherwise an exchange."""
    log_prior, n = rules.log_prior, data.n - rules.n_intercepts

    def better(state: SeveralState, v: np.ndarray) -> SeveralState:
        fit = best_fit(data, v, state.fit.log_ratio if state.fit.v.size else None)
        bound = posterior(rules, fit)
        return SeveralState(fit, bound) if bound > state.bound else state

    def step(state: SeveralState) -> SeveralState:
        fit, q = state.fit, state.fit.v.size
        if q == 0:
            if not rules.max_search_size:
                return state
            explained = (data.B**2 / (data.d[:, None] * data.yy)).clip(0.0, 1.0 - 1e-15)
            return better(state, np.array([int(np.argmin(np.log1p(-explained).sum(axis=1)))]))
        out = removal_gains(fit, n) + (log_prior[q - 1] - log_prior[q])
        i = int(out.argmax())
        near = score_all_additions(data, fit, n)
        log_growth = -math.inf
        j = int(near.gain.argmax())
        if q < rules.max_search_size:
            log_growth = float(near.gain[j]) + float(log_prior[q + 1] - log_prior[q])
        if log_growth > max(float(out[i]), 0.0):
            return better(state, np.append(fit.v, j))
        if out[i] > 0.0:
            return better(state, np.delete(fit.v, i))
        if q == data.d.size:
            return state
        swap = exchange_gains(fit, near, n)
        j, i = divmod(int(swap.argmax()), q)
        return better(state, np.append(np.delete(fit.v, i), j)) if swap[j, i] > 0.0 else state

    return step


def local_search(data: SeveralMoments, fit: SeveralFit, rules: SearchRules) -> Run[SeveralState]:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        SeveralState(fit, posterior(rules, fit)),
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def search(data: SeveralMoments, rules: SearchRules) -> list[Run[SeveralState]]:
    """Search from several starts; return the runs in order of their posterior, best last.

    The starts are the empty set, the result of a search with half of the log prior, and all
    variables if they are few.
    """
    lenient = rules._replace(log_prior=LENIENT * rules.log_prior)
    nothing = best_fit(data, np.array([], dtype=int))
    runs = [local_search(data, nothing, rules)]
    far = local_search(data, runs[0].state.fit, lenient).state.fit
    runs.append(local_search(data, far, rules))
    if data.d.size <= min(rules.max_search_size, MAX_FULL_START):
        runs.append(local_search(data, best_fit(data, np.arange(data.d.size)), rules))
    return sorted(runs, key=lambda run: run.state.bound)


# --- from data to the selected set


class SeveralResponses(NamedTuple):
    """Prepared responses, each in its own unit."""

    Y: np.ndarray  # (n, m) centred if requested, times the root weights
    yy: np.ndarray  # (m,)
    n: float  # observations


class SeveralWeights(NamedTuple):
    """Coefficients of the selected set: posterior means or least squares."""

    mean: np.ndarray  # (q, m)
    shape: np.ndarray  # (q, q) covariance of the weights, divided by the noise variance
    sigma2: np.ndarray  # (m,) noise variances, zero for responses that are fitted exactly


class SeveralSolution(NamedTuple):
    """Result of a fit, in the units of the operator and of the prepared responses."""

    order: np.ndarray  # (p,) variables, most useful first
    selected: np.ndarray  # (q,) selected variables, in the order of `fit`
    relevance: np.ndarray  # (p,) between 0 and 1
    fit: SeveralFit
    weights: SeveralWeights
    log_evidence: np.ndarray  # (K + 1,) along the path
    log_posterior: np.ndarray  # (K + 1,)
    dof: float
    bounds: np.ndarray  # (n_iter,) objective of the search that found the set
    reason: StopReason
    credible: list[np.ndarray]


class ColumnSubset(NamedTuple):
    """Subset of the columns with its sufficient statistics."""

    indices: np.ndarray  # (k,) column indices, increasing
    data: SeveralMoments


def take_subset(
    op: Operator, targets: SeveralResponses, B: np.ndarray, indices: np.ndarray
) -> ColumnSubset:
    """Compute the sufficient statistics of the columns ``indices``."""
    columns = op if indices.size == op.shape[1] else op.take_columns(indices)
    G = np.asarray(columns.gram(), dtype=float)
    return ColumnSubset(indices, several_moments(G, B[indices], targets.yy, targets.n))


def gains_of_all(
    op: Operator, subset: ColumnSubset, fit: SeveralFit, B: np.ndarray, n: float
) -> np.ndarray:
    """Compute the increase of the log evidence of ``fit`` by adding each variable."""
    d = np.asarray(op.column_squares(), dtype=float)
    if not fit.v.size:
        explained: np.ndarray = (B**2 / (d[:, None] * subset.data.yy)).sum(axis=1)
        return explained
    if subset.indices.size == op.shape[1]:
        return score_additions(fit, subset.data.G[:, fit.v], d, B, n).gain
    columns = np.asarray(op.take_columns(subset.indices[fit.v]).matmul(np.eye(fit.v.size)))
    cross = np.asarray(op.rmatmul(columns), dtype=float)
    return score_additions(fit, cross, d, B, n).gain


def solve_several(
    op: Operator,
    targets: SeveralResponses,
    null_data: NullData,
    rules: SearchRules,
    refit_ols: bool,
) -> SeveralSolution:
    """Select the variables of a standardised data matrix that explain all responses."""
    p, n = op.shape[1], targets.n - rules.n_intercepts
    B = np.asarray(op.rmatmul(targets.Y), dtype=float)
    d = np.asarray(op.column_squares(), dtype=float)
    marginal = (B**2 / (d[:, None] * targets.yy)).sum(axis=1)
    first = np.sort(np.argsort(-marginal, kind="stable")[:MAX_SHORTLIST])
    subset = take_subset(op, targets, B, first)
    rules = rules._replace(max_search_size=min(rules.max_search_size, subset.indices.size))
    runs = search(subset.data, rules)
    for _ in range(MAX_EXTENSIONS if p > MAX_SHORTLIST else 0):
        fit = runs[-1].state.fit
        selected = subset.indices[fit.v]
        gain = gains_of_all(op, subset, fit, B, n)
        gain[selected] = np.inf
        q = fit.v.size
        if q in (0, rules.max_search_size):
            break
        price = float(rules.log_prior[q] - rules.log_prior[q + 1])
        if not np.any(np.delete(gain, subset.indices) > price):
            break
        subset = take_subset(
            op, targets, B, np.sort(np.argsort(-gain, kind="stable")[:MAX_SHORTLIST])
        )
        start = best_fit(subset.data, np.searchsorted(subset.indices, selected), fit.log_ratio)
        runs.append(local_search(subset.data, start, rules))
    G = subset.data.G if subset.indices.size == p else None
    detected = run_null_test(null_data._replace(G=G)).detected
    return summarise(op, targets, B, subset, runs, rules, refit_ols, detected)


def summarise(
    op: Operator,
    targets: SeveralResponses,
    B: np.ndarray,
    subset: ColumnSubset,
    runs: list[Run[SeveralState]],
    rules: SearchRules,
    refit_ols: bool,
    detected: bool,
) -> SeveralSolution:
    """Compute the path around the best set and assemble the solution."""
    data, p, n = subset.data, op.shape[1], targets.n - rules.n_intercepts
    found = runs[-1].state.fit
    fits, order = nested_path(
        data, found, min(rules.max_size, rules.max_search_size, found.v.size + PATH_EXTENSION), n
    )
    log_posterior = np.array([posterior(rules, fit) for fit in fits])
    best = fits[int(np.argmax(log_posterior)) if detected else 0]
    gain = gains_of_all(op, subset, best, B, n)
    ranked = subset.indices[order]
    gain[ranked] = np.inf
    size = np.sqrt((best.M**2 / best.sigma2).sum(axis=1) * data.d[best.v])
    relevance = np.zeros(p)
    relevance[subset.indices[best.v]] = relative_size(size)
    reason = worst([run.reason for run in runs])
    if not best.v.size and not reason.unfinished:
        reason = StopReason.NO_SIGNAL
    weights = SeveralWeights(best.M, best.P, best.sigma2)
    if refit_ols and best.v.size:
        inverse = pseudo_inverse(data.G[np.ix_(best.v, best.v)])
        M = inverse @ data.B[best.v]
        remaining = np.maximum(data.yy - (data.B[best.v] * M).sum(axis=0), 0.0)
        weights = SeveralWeights(M, inverse, remaining / max(n - best.v.size, 1.0))
    return SeveralSolution(
        order=np.append(ranked, np.argsort(-gain, kind="stable")[ranked.size :]),
        selected=subset.indices[best.v],
        relevance=relevance,
        fit=best,
        weights=weights,
        log_evidence=np.array([fit.log_evidence for fit in fits]),
        log_posterior=log_posterior,
        dof=n,
        bounds=np.array(runs[-1].bounds),
        reason=reason,
        credible=[subset.indices[group] for group in credible_sets_of(data, best, n)],
    )


def nested_path(
    data: SeveralMoments, fit: SeveralFit, longest: int, n: float
) -> tuple[list[SeveralFit], np.ndarray]:
    """Return nested sets of 0, 1, 2, ... variables around ``fit``, and their order."""
    fits, order = [fit], []
    while fit.v.size:  # Backward elimination: the last variable removed ranks first.
        i = int(removal_gains(fit, n).argmax())
        order.append(int(fit.v[i]))
        fit = best_fit(data, np.delete(fit.v, i), fit.log_ratio)
        fits.append(fit)
    fits.reverse()
    order.reverse()
    while fits[-1].v.size < longest:
        last = fits[-1]
        if last.v.size:
            j = int(score_all_additions(data, last, n).gain.argmax())
        else:
            j = int(np.argmax((data.B**2 / (data.d[:, None] * data.yy)).sum(axis=1)))
        fits.append(best_fit(data, np.append(last.v, j), last.log_ratio if last.v.size else None))
        order.append(j)
    return fits, np.array(order, dtype=int)


def credible_sets_of(data: SeveralMoments, fit: SeveralFit, n: float) -> list[np.ndarray]:
    """Compute the credible set of each variable of ``fit``."""
    if fit.v.size == 0:
        return []
    gain = exchange_gains(fit, score_all_additions(data, fit, n), n)
    correlation = np.abs(data.G[:, fit.v]) / np.sqrt(data.d[:, None] * data.d[fit.v])
    return credible_sets(fit.v, gain, correlation)
