"""Regression whose noise has Student's distribution: rows that fit badly count less.

After Lange, Little & Taylor (1989), Journal of the American Statistical Association 84, with the
set of variables and their weights integrated as in `model`.

Student's noise of nu degrees of freedom and scale sigma is Gaussian noise of variance sigma2 / u_i,
where u_i ~ Gamma(nu/2, nu/2) is another number for every row. With q(b, w) q(u) for the posterior
of intercept, weights and u, log p(y | v) is bounded from below, and for a given mean u of every row
the bound is the evidence of regression with these weights of rows (`model`, of n - 1 degrees of
freedom with an intercept), up to terms that v does not change. Two steps raise it in turn:

1. given u: search the best set v, lambda and sigma2 as for Gaussian noise;
2. given q(b, w), with d_i = E (y_i - b - x_i'w)^2 / sigma2: nu maximises the sum over rows of

       g(d_i, nu) = log Gamma((nu + 1)/2) - log Gamma(nu/2) + nu/2 log(nu/2)
                    - (nu + 1)/2 log((nu + d_i)/2) ,      and then  u_i = (nu + 1) / (nu + d_i) .

The bound, after the second step, is

    sum_i g(d_i, nu) - n/2 log(2 pi sigma2) - KL(q(w), p(w)) + 1/2 log(2 pi e sigma2 / sum_i u_i)
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
from .model import EXACT, RegressionFit, evaluate, moments, optimise
from .response import Response, telling_rows
from .screening import candidates, search_all
from .stepwise import rules_for

FEWEST_DEGREES = 3.0  # of freedom: the variance of the noise is then three times sigma2
MOST_DEGREES = 200.0  # next to Gaussian
MOST_ROUNDS = 100
ROUND_TOL = 1e-3  # rise of the bound that ends the rounds


class Weighted(NamedTuple):
    """The table and the response with every row weighed."""

    op: Operator
    columns: Columns
    response: Response


class StudentState(NamedTuple):
    """Where the rounds have come to."""

    u: np.ndarray  # (n,) mean weight of every row, for the next round
    nu: float
    places: np.ndarray  # (q,) variables of the set
    log_ratio: float
    sigma2: float
    bound: float


Reweigh = Callable[[np.ndarray], Weighted]
"""Table and response for mean weights u of the rows, scales unchanged."""


def log_factor(d: np.ndarray, nu: float) -> np.ndarray:
    """g(d, nu)."""
    constant = gammaln(0.5 * (nu + 1.0)) - gammaln(0.5 * nu) + 0.5 * nu * math.log(0.5 * nu)
    factor: np.ndarray = constant - 0.5 * (nu + 1.0) * np.log(0.5 * (nu + d))
    return factor


def best_degrees(d: np.ndarray, counts: np.ndarray, nu: float) -> float:
    """The nu that maximises the sum of g over rows that count ``counts`` times; not below that of
    ``nu``."""

    def fall(log_nu: float) -> float:
        return -float(counts @ log_factor(d, math.exp(log_nu)))

    limits = (math.log(FEWEST_DEGREES), math.log(MOST_DEGREES))
    found = minimize_scalar(fall, bounds=limits, method="bounded", options={"xatol": 1e-4})
    return math.exp(float(found.x)) if found.fun <= fall(math.log(nu)) else nu


class Moments(NamedTuple):
    """q(b, w) of one set, and what it makes of the rows."""

    fit: RegressionFit
    d: np.ndarray  # (n,)
    divergence: float  # KL(q(w), p(w)) less the entropy of the intercept


def moments_of(
    weighted: Weighted, places: np.ndarray, log_ratio: float, lost: int, floor: float
) -> Moments:
    """Of the set at ``places``, at its best lambda and sigma2, which is at least ``floor``."""
    op, response = weighted.op, weighted.response
    root = np.ones(response.y.size) if response.root is None else response.root
    q = places.size
    rows = np.zeros((root.size, 0))
    if q:
        some = op.take_columns(places)
        rows = np.asarray(some.gather_rows(_itself, entrywise=True), dtype=float)
    G = rows.T @ rows if q else np.eye(1)
    data = moments(G, rows.T @ response.y, response.yy, response.n - lost)._replace(floor=floor)
    fit = optimise(data, evaluate(data, np.arange(q), log_ratio), EXACT)
    residual = (response.y - rows @ fit.m) / root
    leverage = np.einsum("ij,ij->i", rows @ fit.P, rows) / root**2
    total = float(root @ root)
    d = residual**2 / fit.sigma2 + leverage + lost / total
    lam = math.exp(fit.log_ratio)
    spread = lam * float(fit.P.trace()) + lam * float(fit.m @ fit.m) / fit.sigma2 - q
    log_det = q * fit.log_ratio + float(np.linalg.slogdet(fit.P)[1]) if q else 0.0
    entropy = 0.5 * lost * math.log(2.0 * math.pi * math.e * fit.sigma2 / total)
    return Moments(fit, d, 0.5 * (spread - log_det) - entropy)


def _itself(block: np.ndarray) -> np.ndarray:
    return block


class Effort(NamedTuple):
    """How a search may go."""

    lost: int  # degrees of freedom spent on an intercept, 0 or 1
    max_iter: int
    tol: float  # rise of the log posterior per sample that ends a search
    floor: float  # least sigma2, the same in every round
    verbose: int = 0


class Choice(NamedTuple):
    """A set of variables, its moments, and how probable it is."""

    places: np.ndarray  # (q,)
    moments: Moments
    height: float  # log posterior at the present weights of rows, up to a constant


def choices(weighted: Weighted, state: StudentState, effort: Effort) -> list[Choice]:
    """The present set, and the best that a search finds."""
    op, response, lost = weighted.op, weighted.response, effort.lost
    rules = rules_for(
        telling_rows(op, response),
        op.shape[1],
        bool(lost),
        max_iter=effort.max_iter,
        tol=effort.tol * response.n,
    )
    rules = rules._replace(lost=0)  # which n has lost already
    among = candidates(op, response.y, response.yy, response.n - lost)
    shortlist, runs, _ = search_all(among, rules)
    fit = runs[-1].state.fit
    found = []
    for places, log_ratio in (
        (state.places, state.log_ratio),
        (shortlist.listed[fit.v], fit.log_ratio),
    ):
        of = moments_of(weighted, places, log_ratio, lost, effort.floor)
        height = of.fit.log_evidence + float(rules.log_prior[places.size])
        found.append(Choice(places, of, height - float(rules.log_prior[0])))
    return found


def make_round(
    reweigh: Reweigh, counts: np.ndarray, effort: Effort
) -> Callable[[StudentState], StudentState]:
    """One search for the best set at the present weights of rows, and new weights."""

    def turn(state: StudentState) -> StudentState:
        weighted = reweigh(state.u)
        places, of, height = max(choices(weighted, state, effort), key=lambda one: one.height)
        nu = best_degrees(of.d, counts, state.nu)
        log_prior = height - of.fit.log_evidence
        gaussian = 0.5 * weighted.response.n * math.log(2.0 * math.pi * of.fit.sigma2)
        bound = float(counts @ log_factor(of.d, nu)) - gaussian - of.divergence + log_prior
        u = (nu + 1.0) / (nu + of.d)
        return StudentState(u, nu, places, of.fit.log_ratio, of.fit.sigma2, bound)

    return turn


def rounds(reweigh: Reweigh, counts: np.ndarray, effort: Effort) -> Run[StudentState]:
    """Rounds, from equal weights of all rows on, which count ``counts`` times."""
    nothing = np.array([], dtype=int)
    start = StudentState(np.ones(counts.size), MOST_DEGREES, nothing, 0.0, 1.0, -math.inf)
    first = reweigh(start.u)
    total, epsilon = first.response.yy, first.op.epsilon
    return iterate(
        make_round(reweigh, counts, effort),
        start,
        max_iter=MOST_ROUNDS,
        tol=ROUND_TOL,
        rounding=lambda state: residual_rounding(state, total, state.sigma2, epsilon),
        progress=Progress(MOST_ROUNDS, "weights of rows", effort.verbose),
    )
