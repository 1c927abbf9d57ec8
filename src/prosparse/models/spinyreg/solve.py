"""Solver of SpinyRegressor: from standardised data to the selected set.

A search finds the most probable set (`screening`, `stepwise`), an average over sets gives
inclusion probabilities (`averaging`), and a decision rule selects a set (`decision_rules`).
Automatic relevance determination on a path around the selected set gives relevances (`ard`).
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np

from ...data import Operator
from ...inference.loop import Run, StopReason, iterate, worst
from ...inference.progress import Progress
from . import ard
from .averaging import (
    Average,
    average_over_sets,
    credible_sets_of,
    mean_noise_variance,
    set_prior,
    temper,
)
from .decision_rules import fit_set, select_by_f_score, select_by_median
from .model import EXACT, RegressionFit, RegressionMoments, optimise, pseudo_inverse
from .null_test import NullData, NullTest, run_null_test
from .response import Response, count_informative_rows
from .screening import Candidates, Shortlist, candidates, gains, search_all
from .stepwise import RegressionPath, SearchRules, empty_model, regression_path, rules_for

Refit = Literal["posterior", "ols"]
SelectionRule = Literal["f-score", "map", "median"]

ARD_NOISE_RATIO = 1e-4  # minimum noise variance of `ard` relative to y'y / n
PATH_EXTENSION = 5  # number of models on the path beyond the selected one


class Options(NamedTuple):
    """Options of SpinyRegressor."""

    fit_intercept: bool
    refit: Refit
    max_iter: int
    tol: float
    verbose: int
    selection_rule: SelectionRule = "f-score"
    average: bool = True
    seed: int = 0


class Weights(NamedTuple):
    """Coefficients of the selected set."""

    mean: np.ndarray  # (q,)
    covariance: np.ndarray  # (q, q)
    sigma2: float  # noise variance


class Solution(NamedTuple):
    """Result of a fit, in the units of the operator and of the prepared response."""

    order: np.ndarray  # (p,) variables, most useful first
    relevance: np.ndarray  # (p,) between 0 and 1
    selected: np.ndarray  # (q,) selected variables, in the order of `weights`
    weights: Weights
    posterior_variances: np.ndarray  # (q,) posterior variances, also if `weights` are least squares
    path: RegressionPath
    log_posterior: np.ndarray  # (K + 1,) along the path
    dof: float  # degrees of freedom of y, without the intercept
    best: int  # number of selected variables
    bounds: np.ndarray  # (n_iter,) objective of `ard`
    reason: StopReason
    listed: np.ndarray  # (k,) variables of `average`
    average: Average | None  # average over sets, if computed
    credible: list[np.ndarray]  # credible set of each selected variable
    expected_f: float | None  # expected F-score, if the rule maximised it
    null: NullTest


def solve(op: Operator, response: Response, null_data: NullData, options: Options) -> Solution:
    """Select the variables of standardised data that explain the response."""
    n, p = response.n, op.shape[1]
    pool = candidates(op, response.y, response.yy, n)
    rules = rules_for(
        count_informative_rows(op, response),
        p,
        options.fit_intercept,
        max_iter=options.max_iter,
        tol=options.tol * n,
        verbose=options.verbose,
    )
    shortlist, runs, intermediate_sets = search_all(pool, rules)
    data, found, dof = shortlist.data, runs[-1].state.fit, n - rules.n_intercepts
    average, expected_f = None, None
    null = detect_signal(null_data, pool if null_data.op is op else None, rules)
    if options.average or options.selection_rule != "map":
        prior = set_prior(data, rules.log_prior, found, dof)
        reachable = [
            np.searchsorted(shortlist.indices, v)
            for v in intermediate_sets
            if all_listed(shortlist, v)
        ]
        average = average_over_sets(data, prior, found, reachable, options.seed)
        empty_variance = mean_noise_variance(np.asarray(data.yy), dof)
        average = temper(
            average, data, null.weight(float(average.inclusion.max())), float(empty_variance)
        )
        if options.selection_rule == "median":
            found = fit_set(data, select_by_median(average, rules.max_size), found)
        elif options.selection_rule == "f-score" and null.detected:
            v, expected_f = select_by_f_score(data, average, rules.max_size)
            found = fit_set(data, v, found)
    if not null.detected:
        found = fit_set(data, found.v[:0], found)
    longest = min(rules.max_size, found.v.size + PATH_EXTENSION, shortlist.indices.size)
    path = regression_path(data, found, longest)
    log_posterior = np.array([rules.posterior(fit) for fit in path.fits])
    best = found.v.size
    if options.selection_rule == "map" and null.detected:
        best = int(np.argmax(log_posterior))
    selected_fit = path.fits[best] = optimise(data, path.fits[best], EXACT)
    log_posterior[best] = rules.posterior(selected_fit)
    run = fit_ard(data, path, selected_fit, options)
    reason = worst([*(each.reason for each in runs), run.reason])
    if best == 0 and not reason.unfinished:
        reason = StopReason.NO_SIGNAL
    selected, ranked = shortlist.indices[selected_fit.v], shortlist.indices[path.order]
    return Solution(
        order=ranking(pool, shortlist, path, selected_fit),
        relevance=relevance(p, ranked, run.state.t, selected, selected_fit.m),
        selected=selected,
        weights=refit_coefficients(data, selected_fit, options),
        posterior_variances=selected_fit.sigma2 * selected_fit.P.diagonal(),
        path=path,
        log_posterior=log_posterior,
        dof=dof,
        best=best,
        bounds=np.array(run.bounds),
        reason=reason,
        listed=shortlist.indices,
        average=average,
        credible=[shortlist.indices[group] for group in credible_sets_of(data, selected_fit, dof)],
        expected_f=expected_f,
        null=null,
    )


def detect_signal(data: NullData, pool: Candidates | None, rules: SearchRules) -> NullTest:
    """Test whether some variables predict the response, also by searches."""
    root = np.ones(data.values.shape[0]) if data.root is None else data.root
    known = pool or candidates(data.op, root * data.values[:, 0], 1.0, data.n)

    def odds(values: np.ndarray) -> float:
        y = root * values[:, 0]
        if data.n_intercepts:
            y = y - root * float(root @ y) / float(root @ root)
        b = np.asarray(data.op.rmatmul(y[:, None]))[:, 0]
        yy = max(float(y @ y), np.finfo(float).tiny)
        found = search_all(known._replace(y=y, b=b, yy=yy), rules)
        best = found.runs[-1].state.fit
        return rules.posterior(best) - rules.posterior(empty_model(found.shortlist.data))

    return run_null_test(data._replace(G=known.G), odds)


def all_listed(shortlist: Shortlist, v: np.ndarray) -> bool:
    """Return whether all variables of a set are on the shortlist."""
    return bool(np.all(np.isin(v, shortlist.indices)))


def fit_ard(
    data: RegressionMoments, path: RegressionPath, best: RegressionFit, options: Options
) -> Run[ard.State]:
    """Fit automatic relevance determination at the noise of ``best``."""
    listed = path.order if best.v.size else path.order[:0]
    G, b = data.gram(listed), data.b[listed]
    t = np.zeros(listed.size)
    t[: best.v.size] = best.sigma2 / math.exp(best.log_ratio)
    # With less noise, residuals of variables regressed on each other are lost in rounding.
    noise = max(best.sigma2, ARD_NOISE_RATIO * data.yy / data.n)
    unchanged = noise == best.sigma2  # The evidence of the start is known then.
    start = (
        ard.State(t, best.log_evidence) if unchanged else ard.init(G, b, data.yy, data.n, noise, t)
    )
    return iterate(
        ard.make_step(G, b, data.yy, data.n, noise),
        start,
        max_iter=options.max_iter,
        tol=options.tol * data.n,
        progress=Progress(options.max_iter, "SpinyRegressor", options.verbose),
    )


def ranking(
    pool: Candidates, shortlist: Shortlist, path: RegressionPath, best: RegressionFit
) -> np.ndarray:
    """Rank all variables: those on the path in its order, the others by their gain."""
    ranked: np.ndarray = shortlist.indices[path.order]
    if ranked.size == pool.b.size:
        return ranked
    gain = gains(pool, shortlist, best)
    gain[ranked] = np.inf
    return np.append(ranked, np.argsort(-gain, kind="stable")[ranked.size :])


def relevance(
    p: int, ranked: np.ndarray, t: np.ndarray, selected: np.ndarray, m: np.ndarray
) -> np.ndarray:
    """Compute relevances of all p variables, between 0 and 1.

    They are proportional to the square roots of the prior variances ``t`` of the first variables of
    ``ranked``. The variance of a selected variable can be zero; |m| is a lower bound for these.
    """
    u = np.zeros(p)
    if not selected.size:
        return u
    u[ranked[: t.size]] = np.sqrt(t)
    u[selected] = np.maximum(u[selected], np.abs(m))
    largest = float(u.max())
    if largest > 0.0:
        u /= largest
    u[selected] = np.maximum(u[selected], np.finfo(float).eps)
    return u


def refit_coefficients(data: RegressionMoments, best: RegressionFit, options: Options) -> Weights:
    """Compute the posterior mean or least squares fit of the selected set."""
    if options.refit == "posterior" or not best.v.size:
        return Weights(best.m, best.sigma2 * best.P, best.sigma2)
    inverse = pseudo_inverse(data.gram(best.v))
    b = data.b[best.v]
    m = inverse @ b
    dof = data.n - best.v.size - int(options.fit_intercept)
    sigma2 = max(data.yy - float(b @ m), 0.0) / max(dof, 1)
    return Weights(m, sigma2 * inverse, sigma2)
