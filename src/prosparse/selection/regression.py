"""Which variables predict y? The exact evidence of linear models, and a search through them.

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

A flat prior on the 2^p models is no neutral one: of a hundred variables of pure noise it keeps
twenty. Models are compared under a prior that pays for their number (`prior.log_multiplicity`).
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg.lapack import dpotrf, dtrtri

from ..engine.loop import Run, iterate
from ..engine.progress import Progress
from .prior import log_multiplicity

Array = np.ndarray

NOISE_FLOOR = 1e-12  # least noise variance, as a share of the mean square of y
ROUNDING = 1e-14  # of a Cholesky factor, as a share of its largest diagonal entry
REACH = 1e12  # lambda stays within this factor of the mean diagonal of X'X
COARSE = 0.1  # how well lambda is optimised on the way, in log evidence
FINE = 1e-9  # and in the end


class Moments(NamedTuple):
    """All that the evidence needs of the data."""

    G: Array  # (p, p) X'X
    b: Array  # (p,) X'y
    yy: float  # y'y, not zero
    n: int
    d: Array  # (p,) diagonal of X'X
    centre: float  # log of its mean


def moments(G: Array, b: Array, yy: float, n: int) -> Moments:
    d = np.diagonal(G)
    return Moments(G, b, yy, n, d, math.log(float(np.mean(d))))


class Fit(NamedTuple):
    """A model v at some lambda, with the best noise variance for it."""

    v: Array  # (q,) variables, in the order in which they came
    log_ratio: float  # log lambda = log(alpha / gamma)
    P: Array  # (q, q)
    m: Array  # (q,) posterior mean of w
    R: float  # positive
    sigma2: float
    log_evidence: float
    slope: float  # derivatives of the log evidence in log lambda
    curvature: float


def evaluate(data: Moments, v: Array, log_ratio: float) -> Fit:
    """The evidence of model v at one lambda, and its two derivatives in log lambda."""
    n, q, b = data.n, v.size, data.b[v]
    floor = NOISE_FLOOR * data.yy / n
    if q == 0:
        sigma2 = data.yy / n
        value = -0.5 * n * (math.log(2.0 * math.pi * sigma2) + 1.0)
        return Fit(v, log_ratio, np.zeros((0, 0)), b, data.yy, sigma2, value, 0.0, -1.0)
    lam = math.exp(log_ratio)
    A = data.G[v[:, None], v]
    A.flat[:: q + 1] += lam
    L, failed = dpotrf(A, lower=1)
    more = ROUNDING * (float(A.diagonal().max()) + lam)
    while failed:  # copies of a variable, and lambda below rounding
        A.flat[:: q + 1] += more
        more *= 2.0
        L, failed = dpotrf(A, lower=1)
    inverse, _ = dtrtri(L, lower=1)
    P = inverse.T @ inverse
    m = P @ b
    R = max(data.yy - float(b @ m), 1e-4 * NOISE_FLOOR * data.yy)  # rounding
    sigma2 = max(R / n, floor)
    log_det = 2.0 * float(np.log(L.diagonal()).sum()) - q * log_ratio
    value = -0.5 * (n * math.log(2.0 * math.pi * sigma2) + R / sigma2 + log_det)
    # d P / d log lambda = -lambda P^2, hence those of R and of the log determinant
    dR = lam * float(m @ m)
    ddR = dR - 2.0 * lam * lam * float(m @ (P @ m))
    trace = lam * float(np.vdot(inverse, inverse))
    ddD = trace - lam * lam * float(np.vdot(P, P))
    slope = -0.5 * (dR / sigma2 + trace - q)
    bend = ddR / sigma2 - (dR * dR / (R * sigma2) if sigma2 > floor else 0.0)
    return Fit(v, log_ratio, P, m, R, sigma2, value, slope, -0.5 * (bend + ddD))


def optimise(data: Moments, fit: Fit, tol: float = FINE) -> Fit:
    """Raise the evidence over lambda until less than ``tol`` is to be gained."""
    low, high = data.centre - math.log(REACH), data.centre + math.log(REACH)
    for _ in range(100):
        newton = -fit.slope / fit.curvature if fit.curvature < 0 else math.copysign(2, fit.slope)
        there = min(max(fit.log_ratio + min(max(newton, -2.0), 2.0), low), high)
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


class Neighbours(NamedTuple):
    """What joining the model would change for each of some variables, at the same lambda."""

    H: Array  # (p, q) X'X_v P
    s: Array  # (p,) lambda + |x_j|^2 after regression on the model
    e: Array  # (p,) x_j'(y - X_v m)
    gain: Array  # (p,) rise of the log evidence


def neighbours(fit: Fit, cross: Array, d: Array, b: Array, n: int) -> Neighbours:
    """From ``cross`` = X'X_v, ``d`` = the diagonal of X'X and ``b`` = X'y of any variables."""
    lam = math.exp(fit.log_ratio)
    H = cross @ fit.P
    # Rounding must not make a copy of an active variable look new: s is at least lambda.
    s = np.maximum(lam + d - np.einsum("ij,ij->i", H, cross), lam)
    e = b - cross @ fit.m
    left = np.maximum(fit.R - e * e / s, NOISE_FLOOR * fit.R)
    return Neighbours(H, s, e, -0.5 * (n * np.log(left / fit.R) + np.log(s / lam)))


def first_lambda(data: Moments, j: int) -> float:
    """The best log lambda of the model of variable j alone, in closed form.

    With rho the squared correlation of x_j and y and u = d/(lambda + d), the evidence is
    -n/2 log(1 - u rho) + 1/2 log(1 - u) up to a constant, largest at n rho - 1 = u rho (n - 1).
    """
    n, d = data.n, float(data.d[j])
    rho = float(data.b[j]) ** 2 / (d * data.yy)
    u = (n * rho - 1.0) / (rho * (n - 1)) if n * rho > 1.0 else 0.0
    u = min(max(u, 1.0 / REACH), 1.0 - 1.0 / REACH)
    return math.log(d * (1.0 - u) / u)


def with_one_more(data: Moments, fit: Fit, tol: float) -> Fit:
    """The best model with one variable more, which may be worse than ``fit``."""
    if fit.v.size == 0:
        j = int(np.argmax(data.b**2 / data.d))
        return optimise(data, evaluate(data, np.array([j]), first_lambda(data, j)), tol)
    near = neighbours(fit, data.G[:, fit.v], data.d, data.b, data.n)
    near.gain[fit.v] = -np.inf
    j = int(near.gain.argmax())
    h, s, weight = near.H[j], float(near.s[j]), float(near.e[j] / near.s[j])
    left = max(fit.R - weight * float(near.e[j]), NOISE_FLOOR * fit.R)
    m, trace = fit.m - weight * h, float(fit.P.trace()) + (1.0 + float(h @ h)) / s
    start = next_lambda(data, fit, fit.v.size + 1, left, float(m @ m) + weight**2, trace)
    return optimise(data, evaluate(data, np.append(fit.v, j), start), tol)


def next_lambda(
    data: Moments, fit: Fit, q: int, left: float, squares: float, trace: float
) -> float:
    """Where to start with a neighbour of ``fit``, whose R, m'm and tr P at the same lambda are
    ``left``, ``squares`` and ``trace``.

    The slope of the evidence is zero where lambda m'm / sigma2 = q - lambda tr P (MacKay 1992);
    one step of that equation is nearly there.
    """
    free = q - math.exp(fit.log_ratio) * trace
    low, high = data.centre - math.log(REACH), data.centre + math.log(REACH)
    if not (free > 0.0 and squares > 0.0):
        return fit.log_ratio
    return min(max(math.log(left / data.n * free) - math.log(squares), low), high)


def removal_gains(fit: Fit, n: int) -> Array:
    """Rise (mostly a fall) of the log evidence when each variable leaves, at the same lambda."""
    kept = np.diagonal(fit.P)
    more = fit.m**2 / kept
    return -0.5 * (n * np.log1p(more / fit.R) + np.log(kept) + fit.log_ratio)


def with_one_less(data: Moments, fit: Fit, tol: float) -> Fit:
    """The best model with one variable less."""
    i = int(removal_gains(fit, data.n).argmax())
    kept = float(fit.P[i, i])
    h = fit.P[i] / kept
    left, m = fit.R + float(fit.m[i]) ** 2 / kept, fit.m - fit.m[i] * h
    trace = float(fit.P.trace()) - kept * float(h @ h)
    start = next_lambda(data, fit, fit.v.size - 1, left, float(m @ m), trace)
    return optimise(data, evaluate(data, np.delete(fit.v, i), start), tol)


def exchange_gains(fit: Fit, near: Neighbours, n: int) -> Array:
    """Rise of the log evidence when i leaves and j comes, for all (j, i), at the same lambda."""
    kept = np.diagonal(fit.P)
    H, R = near.H, fit.R + fit.m**2 / kept
    s = near.s[:, None] + H * H / kept
    e = near.e[:, None] + H * (fit.m / kept)
    left = np.maximum(R - e * e / s, NOISE_FLOOR * fit.R)
    return -0.5 * (n * np.log(left / fit.R) + np.log(s * kept))


class Rules(NamedTuple):
    """What a search prefers, the largest model on its way, and when it stops."""

    log_prior: Array  # (p + 1,) of each model of 0 .. p variables, -inf for those too large
    limit: int
    lost: int  # degrees of freedom spent on an intercept, 0 or 1
    max_iter: int
    tol: float  # rise of the log posterior
    verbose: int = 0

    def weight(self, fit: Fit) -> float:
        """Log evidence without what the mean of y adds to it.

        A centred y has the mean 0, which any model predicts, the better the smaller its noise:
        that factor N(0; 0, sigma2) says nothing, and few samples cannot afford it.
        """
        return fit.log_evidence + 0.5 * self.lost * math.log(2.0 * math.pi * fit.sigma2)

    def posterior(self, fit: Fit) -> float:
        return self.weight(fit) + float(self.log_prior[fit.v.size])


class Search(NamedTuple):
    fit: Fit
    bound: float  # log posterior of the model, which may never fall


def make_step(data: Moments, rules: Rules) -> Callable[[Search], Search]:
    """One move to the best neighbour with a variable more or less, or else to one with another."""
    log_prior, limit = rules.log_prior, rules.limit

    def step(state: Search) -> Search:
        fit, n = state.fit, data.n - rules.lost
        q = fit.v.size
        if q == 0:
            return best_of(state, with_one_more(data, fit, COARSE)) if limit else state
        near = neighbours(fit, data.G[:, fit.v], data.d, data.b, n)
        near.gain[fit.v] = -np.inf
        out = removal_gains(fit, n)
        i, j = int(out.argmax()), int(near.gain.argmax())
        less = float(out[i]) + log_prior[q - 1] - log_prior[q]
        more = float(near.gain[j]) + log_prior[q + 1] - log_prior[q] if q < limit else -math.inf
        if max(less, more) > 0.0:
            v = np.append(fit.v, j) if more > less else np.delete(fit.v, i)
        else:  # exchanges are q times as many
            swap = exchange_gains(fit, near, n)
            swap[fit.v] = -np.inf
            j, i = divmod(int(swap.argmax()), q)
            if not swap[j, i] > 0.0:
                return state
            v = np.append(np.delete(fit.v, i), j)
        return best_of(state, optimise(data, evaluate(data, v, fit.log_ratio), COARSE))

    def best_of(state: Search, fit: Fit) -> Search:
        bound = rules.posterior(fit)
        return Search(fit, bound) if bound > state.bound else state

    return step


def largest_models(n: int, p: int, fit_intercept: bool) -> tuple[int, int]:
    """The most variables that a model may have, and that it may have on the way there.

    As many variables as there are degrees of freedom fit y exactly, and the evidence has no
    maximum in gamma. Where there are many to choose from, far fewer come near that: more than
    n/3 of them cannot be told from chance.
    """
    most = max(n - 2 if fit_intercept else n - 1, 0)
    if p < n:
        return min(p, most), min(p, most)
    return min(most, max(n // 3, 1)), min(most, max(n // 2, 1))


def rules_for(n: int, p: int, fit_intercept: bool, **options: Any) -> Rules:
    """The usual rules for n samples of p variables."""
    allowed, passed = largest_models(n, p, fit_intercept)
    log_prior = log_multiplicity(p)
    log_prior[allowed + 1 :] = -math.inf
    return Rules(log_prior, passed, int(fit_intercept), **options)


def climb(data: Moments, fit: Fit, rules: Rules) -> Run:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        Search(fit, rules.posterior(fit)),
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def strip(data: Moments, fit: Fit, tol: float) -> Iterator[Fit]:
    """``fit`` and what is left as the least useful variables leave, down to none."""
    yield fit
    while fit.v.size:
        fit = with_one_less(data, fit, tol)
        yield fit


def most_probable(data: Moments, fit: Fit, rules: Rules) -> Fit:
    """The most probable of ``fit`` and what is left of it as variables leave."""
    best = fit
    for smaller in strip(data, fit, COARSE):
        if rules.posterior(smaller) > rules.posterior(best):
            best = smaller
        # The evidence goes on falling: no prior could make up for it.
        if rules.weight(smaller) + rules.log_prior[0] < rules.posterior(best):
            break
    return best


def search(data: Moments, weights: Array, rules: Rules) -> list[Run]:
    """The climbs that led to the most probable model that could be found, the best one last.

    Variables that are useful together can each look useless alone, and the prior would keep them
    out one by one: a first climb does without it and goes too far; what it found is stripped, and
    a second climb starts from the most probable model on that way. All this twice: from the empty
    model, and from as many variables of largest ``weights``, those of the model with all of them.
    Where variables are correlated the two often end differently.
    """
    flat = rules._replace(log_prior=np.zeros_like(rules.log_prior))
    start = evaluate(data, np.array([], dtype=int), 0.0)
    runs: list[Run] = []
    for again in (False, True):
        over = climb(data, start, flat)
        found = over.state.fit
        runs += [over, climb(data, most_probable(data, found, rules), rules)]
        if again or found.v.size == 0:
            break
        others = np.argsort(-np.abs(weights), kind="stable")[: found.v.size]
        if set(others) == set(found.v):
            break
        start = optimise(data, evaluate(data, others, found.log_ratio), COARSE)
    return sorted(runs, key=lambda run: rules.posterior(run.state.fit))


class EvidencePath(NamedTuple):
    order: Array  # (K,) variables, the most useful first
    cardinalities: Array  # (K + 1,) 0 .. K
    fits: list[Fit]  # of the first q variables, q = 0 .. K
    n: int

    @property
    def log_evidence(self) -> Array:
        return np.array([fit.log_evidence for fit in self.fits])


def evidence_path(data: Moments, fit: Fit, longest: int) -> EvidencePath:
    """Models around ``fit``, each with its own alpha and gamma: smaller ones without the
    variables that are missed least, larger ones with those that help most."""
    fits = list(strip(data, optimise(data, fit), FINE))[::-1]
    while fits[-1].v.size < longest:
        fits.append(with_one_more(data, fits[-1], FINE))
    order = [(set(large.v) - set(small.v)).pop() for small, large in pairwise(fits)]
    return EvidencePath(np.array(order, dtype=int), np.arange(len(fits)), fits, data.n)
