"""Solver of both estimators, from standardised data to the selected set.

A search finds the most probable set (`screening`, `stepwise`), and an average over sets yields
inclusion probabilities (`averaging`). A permutation test determines whether any variable is
selected (`null_test`), and a decision rule selects a set (`decision_rules`).
"""

from __future__ import annotations

from typing import Generic, Literal, NamedTuple

import numpy as np

from ...inference.loop import StopReason, worst
from .ard import fit_ard
from .averaging import Average, average_over_sets, temper
from .credible import credible_sets
from .decision_rules import select_by_f_score, select_by_median
from .linear import LinearFit, LinearModel
from .null_test import NullData, NullTest, Responses, SearchOdds, run_null_test
from .screening import (
    Candidates,
    LinearProblem,
    Problem,
    SearchResult,
    candidates,
    search_all,
)
from .set_model import Coefficients, F, SetModel
from .stepwise import Path, SearchRules, empty_set, nested_path

SelectionRule = Literal["f-score", "map", "median"]

PATH_EXTENSION = 5  # number of sets on the path beyond the selected set


class Options(NamedTuple):
    """Options of the estimators."""

    selection_rule: SelectionRule = "f-score"
    average: bool = True
    least_squares: bool = False
    seed: int = 0


class Solution(NamedTuple, Generic[F]):
    """Result of a fit, in the units of operator and responses."""

    order: np.ndarray  # (p,) variables, most useful first
    relevance: np.ndarray  # (p,) between 0 and 1
    selected: np.ndarray  # (q,) selected variables, in the order of `fit`
    fit: F  # selected set
    coefficients: Coefficients  # posterior of the coefficients of the selected set
    path: Path[F]
    log_evidence: np.ndarray  # (K + 1,) along the path
    log_posterior: np.ndarray  # (K + 1,)
    bounds: np.ndarray  # (n_iter,) objective of the iterations
    reason: StopReason
    listed: np.ndarray  # (k,) variables of `average`
    average: Average | None  # average over sets, if computed
    credible: list[np.ndarray]  # credible set of each selected variable
    expected_f: float | None  # expected F-score, if the rule maximises it
    null: NullTest


def solve(
    problem: Problem[F], null_data: NullData, rules: SearchRules, options: Options
) -> Solution[F]:
    """Select the variables that explain the responses."""
    found = search_all(problem, rules)
    model, fit = found.model, found.fit
    rules = rules._replace(max_size=min(rules.max_size, found.indices.size))
    known = None
    if isinstance(problem, LinearProblem):
        known = rules.posterior(model, fit) - rules.posterior(model, empty_set(model))
    null = detect_signal(null_data, problem.pool, rules, known)
    average, expected_f, rule = None, None, options.selection_rule
    if options.average or rule != "map":
        complete = found.indices.size == problem.pool.d.size
        average = average_over_sets(
            model, rules.log_prior, fit, found.intermediate_sets, options.seed, complete
        )
        space = model.states(rules.log_prior, fit)
        weight = null.weight(float(average.inclusion.max()))
        average = temper(average, space.empty_coefficients(), space.mean_squares(), weight)
        if rule == "median":
            fit = model.fit(select_by_median(average, rules.max_size), fit)
        elif rule == "f-score" and null.detected:
            v, expected_f = select_by_f_score(model, average, rules.max_size)
            fit = model.fit(v, fit)
    if not null.detected:
        fit = empty_set(model)
    longest = min(rules.max_size, fit.v.size + PATH_EXTENSION)
    path = nested_path(model, fit, longest)
    evidence = np.array([model.path_evidence(each) for each in path.fits])
    log_posterior = evidence[:, 1] + rules.log_prior[: evidence.shape[0]]
    best = fit.v.size
    if rule == "map" and null.detected:
        best = int(np.argmax(log_posterior))
    fit = path.fits[best] = model.refine(path.fits[best], exact=True)
    evidence[best, 0], compared = model.path_evidence(fit)
    log_posterior[best] = compared + rules.log_prior[best]
    selected = found.indices[fit.v]
    listed_relevance, bounds, reason = rate_relevance(found, path, fit, rules)
    relevance = np.zeros(problem.pool.d.size)
    relevance[found.indices] = listed_relevance
    if best == 0 and not reason.unfinished:
        reason = StopReason.NO_SIGNAL
    return Solution(
        order=rank(problem, found, path, fit),
        relevance=relevance,
        selected=selected,
        fit=fit,
        coefficients=model.coefficients(fit, options.least_squares),
        path=path,
        log_evidence=evidence[:, 0],
        log_posterior=log_posterior,
        bounds=bounds,
        reason=reason,
        listed=found.indices,
        average=average,
        credible=[found.indices[group] for group in credible_sets_of(model, fit)],
        expected_f=expected_f,
        null=null,
    )


def detect_signal(
    data: NullData, pool: Candidates, rules: SearchRules, known: float | None
) -> NullTest:
    """Test whether any variables predict the response.

    ``known`` is the log posterior odds of the set found for the response of ``pool``. Permuted
    responses may also be searched.
    """

    def search_odds(tested: NullData) -> SearchOdds:
        columns = pool
        if pool.op is not tested.op:
            unit = np.ones(tested.values.shape[1])
            columns = candidates(tested.op, tested.values, unit, tested.n, tested.n_intercepts)

        def odds(responses: Responses) -> float:
            Y, yy = responses.Y[:, 0], responses.yy[0]
            if known is not None and tested.op is pool.op and np.allclose(Y, pool.Y):
                return known
            found = search_all(LinearProblem(columns.respond(Y, yy)), rules)
            best = rules.posterior(found.model, found.fit)
            return best - rules.posterior(found.model, empty_set(found.model))

        return odds

    G = pool.G if pool.op is data.op else None
    return run_null_test(data._replace(G=G), search_odds)


def rate_relevance(
    found: SearchResult[F], path: Path[F], fit: F, rules: SearchRules
) -> tuple[np.ndarray, np.ndarray, StopReason]:
    """Compute relevances of the shortlist, and the objective.

    For linear regression of one response, relevances are proportional to the square roots of the
    prior variances of automatic relevance determination; |m| is a lower bound for selected
    variables, whose variance can be zero. Otherwise, relevances are proportional to the effects.
    """
    model, reasons = found.model, [run.reason for run in found.runs]
    bounds = np.array(found.runs[-1].bounds)
    size = np.zeros(model.n_variables)
    if fit.v.size:
        size[fit.v] = model.effect_sizes(fit)
    if isinstance(model, LinearModel) and isinstance(fit, LinearFit) and model.yy.size == 1:
        run = fit_ard(
            model, path.order, fit, max_iter=rules.max_iter, tol=rules.tol, verbose=rules.verbose
        )
        reasons, bounds = [*reasons, run.reason], np.array(run.bounds)
        size[fit.v] = 0.0
        size[path.order[: run.state.t.size]] = np.sqrt(run.state.t)
        size[fit.v] = np.maximum(size[fit.v], np.abs(fit.M[:, 0]))
    return relative_size(size, fit.v), bounds, worst(reasons)


def relative_size(size: np.ndarray, selected: np.ndarray) -> np.ndarray:
    """Divide sizes by the largest; make those of selected variables positive."""
    if not selected.size:
        return np.zeros_like(size)
    relative = size / (float(size.max()) or 1.0)
    relative[selected] = np.maximum(relative[selected], np.finfo(float).eps)
    return relative


def rank(problem: Problem[F], found: SearchResult[F], path: Path[F], fit: F) -> np.ndarray:
    """Rank all variables, with those on the path first."""
    ranked: np.ndarray = found.indices[path.order]
    if ranked.size == problem.pool.d.size:
        return ranked
    gain = problem.gains(found.model, found.indices, fit)
    gain[ranked] = np.inf
    return np.append(ranked, np.argsort(-gain, kind="stable")[ranked.size :])


def credible_sets_of(model: SetModel[F], fit: F) -> list[np.ndarray]:
    """Compute the credible set of each variable of ``fit``."""
    if fit.v.size == 0:
        return []
    return credible_sets(fit.v, model.exchange_gains(fit), model.correlations(fit.v))
