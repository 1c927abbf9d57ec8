"""Solver of SpinyClassifier: from standardised data to the selected set.

If there are very many variables, a shortlist is searched. All other variables are then scored,
and those that would increase the evidence join the shortlist. A path of sets around the best one
gives the evidence of each size.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...inference.loop import Run, StopReason, worst
from .credible import MIN_CORRELATION, credible_sets
from .decision_rules import find_representatives, maximise_expected_f_score, merge_redundant
from .labels import Labels
from .logistic import (
    ClassificationData,
    LogisticFit,
    design,
    exchange_gains,
    log_lambda,
    make_data,
    score_additions,
    score_all_additions,
)
from .logistic_average import LogisticAverage, average_over_sets, temper
from .logistic_search import (
    LogisticPath,
    LogisticRules,
    LogisticState,
    best_tau,
    fit_state,
    local_search,
    logistic_path,
    rules_for,
    search,
)
from .model import relative_size
from .null_test import NullData, NullTest, run_null_test
from .solve import SelectionRule

MAX_SHORTLIST = 1000  # maximum number of variables on a shortlist
MIN_SHORTLIST = 50  # minimum number of variables on a shortlist
MAX_ENTRIES = 50_000_000  # maximum number of entries of the columns on a shortlist
MAX_EXTENSIONS = 5  # maximum number of extensions of the shortlist
PATH_EXTENSION = 5  # number of sets on the path beyond the best one


class LogisticOptions(NamedTuple):
    """Options of SpinyClassifier."""

    fit_intercept: bool
    selection_rule: SelectionRule
    average: bool
    max_iter: int
    tol: float
    verbose: int
    seed: int


class LogisticSolution(NamedTuple):
    """Result of a fit, in the columns and units of the operator."""

    order: np.ndarray  # (p,) variables, most useful first
    relevance: np.ndarray  # (p,) between 0 and 1
    selected: np.ndarray  # (q,) selected variables, in the order of `fit`
    fit: LogisticFit
    path: LogisticPath
    log_posterior: np.ndarray  # (K + 1,) along the path
    best: int  # number of selected variables
    bounds: np.ndarray  # (n_iter,) objective of the search that found the set
    reason: StopReason
    listed: np.ndarray  # (k,) variables of `average`
    average: LogisticAverage | None
    null: NullTest
    credible: list[np.ndarray]  # credible set of each selected variable


class ColumnSubset(NamedTuple):
    """Subset of the columns."""

    indices: np.ndarray  # (k,) column indices, increasing
    data: ClassificationData


def take_subset(op: Operator, labels: Labels, indices: np.ndarray, intercept: bool) -> ColumnSubset:
    """Load the columns ``indices``; rows of ``op`` are divided by their root weights."""
    columns = op if indices.size == op.shape[1] else op.take_columns(indices)
    rows = np.asarray(columns.gather_rows(lambda block: block, entrywise=True), dtype=float)
    return ColumnSubset(
        indices, make_data(rows / labels.root[:, None], labels.t, labels.counts, intercept)
    )


def marginal_scores(op: Operator, labels: Labels) -> np.ndarray:
    """Compute the score statistic of each variable."""
    y = labels.root * (labels.t - labels.proportion)
    products = np.asarray(op.rmatmul(y[:, None]), dtype=float)[:, 0]
    scores: np.ndarray = np.abs(products) / np.sqrt(np.asarray(op.column_squares(), dtype=float))
    return scores


def joint_scores(op: Operator, labels: Labels, marginal: np.ndarray) -> np.ndarray:
    """Compute absolute coefficients of a ridge regression on all variables.

    Unlike marginal scores, these account for the correlations of the variables. With more rows than
    variables the marginal scores are used.
    """
    n, p = op.shape
    if n > p:
        return marginal
    K = np.asarray(op.outer(), dtype=float)
    K.flat[:: n + 1] += 0.01 * float(K.trace()) / n
    y = labels.root * (labels.t - labels.proportion)
    coefficients = np.asarray(op.rmatmul(np.linalg.solve(K, y)[:, None]), dtype=float)[:, 0]
    return np.abs(coefficients)


def gains_of_all(
    op: Operator, labels: Labels, data: ClassificationData, fit: LogisticFit
) -> np.ndarray:
    """Compute the gains of ``fit`` by adding each variable, to second order."""
    S = fit.S / labels.root
    cross = np.asarray(op.rmatmul(S[:, None] * design(data, fit.v)), dtype=float)
    e = np.asarray(op.rmatmul((fit.residual / labels.root)[:, None]), dtype=float)[:, 0]
    (squares,) = op.sum_rows(
        lambda block, coefficients: ((block * block).T @ coefficients,),
        (fit.S / labels.counts)[:, None],
        entrywise=True,
    )
    squares = np.asarray(squares, dtype=float)[:, 0]
    return score_additions(fit, cross, squares, e, log_lambda(data, fit.log_tau)).gain


def select_top(size: int, *scores: np.ndarray) -> np.ndarray:
    """Return the top variables by each of the scores, in increasing order."""
    each = size // len(scores)
    return np.unique(np.concatenate([np.argsort(-s, kind="stable")[:each] for s in scores]))


class SearchResult(NamedTuple):
    """Result of a search among all columns."""

    listed: ColumnSubset  # last shortlist; `runs` index its variables
    rules: LogisticRules
    runs: list[Run[LogisticState]]  # best run last


def search_all(op: Operator, labels: Labels, options: LogisticOptions) -> SearchResult:
    """Search the shortlist, and extend it while other variables would help."""
    n, p = op.shape
    intercept = options.fit_intercept
    size = int(min(max(MAX_ENTRIES // n, MIN_SHORTLIST), MAX_SHORTLIST))

    def rules_of(listed: ColumnSubset) -> LogisticRules:
        tol = options.tol * labels.n
        rules = rules_for(
            listed.data, p, max_iter=options.max_iter, tol=tol, verbose=options.verbose
        )
        return rules._replace(max_size=min(rules.max_size, listed.indices.size))

    if p <= size:
        listed = take_subset(op, labels, np.arange(p), intercept)
        rules = rules_of(listed)
        return SearchResult(listed, rules, search(listed.data, rules))
    marginal = marginal_scores(op, labels)
    joint = joint_scores(op, labels, marginal)
    listed = take_subset(op, labels, select_top(size, marginal, joint), intercept)
    rules = rules_of(listed)
    runs = search(listed.data, rules)
    for _ in range(MAX_EXTENSIONS):
        state = runs[-1].state
        q, selected = state.fit.v.size, listed.indices[state.fit.v]
        if q == rules.max_size:
            break
        gain = gains_of_all(op, labels, listed.data, state.fit)
        gain[selected] = np.inf
        better = gain > rules.log_prior[q] - rules.log_prior[q + 1]
        if not np.any(np.delete(better, listed.indices)):
            break
        scores = (gain, np.where(gain == np.inf, np.inf, joint))
        listed = take_subset(op, labels, select_top(size, *scores), intercept)
        rules = rules_of(listed)
        v = np.searchsorted(listed.indices, selected)
        start = fit_state(listed.data, rules, v, state.k, state.fit.mode)
        runs.append(local_search(listed.data, best_tau(listed.data, rules, start), rules))
    return SearchResult(listed, rules, runs)


def solve_classes(
    op: Operator, labels: Labels, groups: np.ndarray | None, options: LogisticOptions
) -> LogisticSolution:
    """Select the variables of a standardised data matrix that predict the classes."""
    p = op.shape[1]
    listed, rules, runs = search_all(op, labels, options)
    data, found = listed.data, runs[-1].state
    average, wanted = None, options.selection_rule
    c = int(options.fit_intercept)
    values = (labels.t - (labels.proportion if c else 0.5))[:, None]
    null = run_null_test(NullData(op, values, labels.root, labels.n, c, groups))
    if options.average or options.selection_rule != "map":
        average = average_over_sets(data, rules, found, options.seed)
        average = temper(average, data, null.weight(float(average.inclusion.max())))
        if options.selection_rule == "median":
            found = best_state(data, rules, select_by_median(average, rules.max_size), found)
        elif wanted == "f-score" and null.detected:
            v = select_by_f_score(data, average, rules.max_size)
            if v.size:  # otherwise the set that the search found
                found = best_state(data, rules, v, found)
    if not null.detected:
        found = best_state(data, rules, found.fit.v[:0], found)
    longest = min(rules.max_size, found.fit.v.size + PATH_EXTENSION)
    path = logistic_path(data, rules, found, longest)
    log_posterior = path.log_evidence + rules.log_prior[: path.log_evidence.size]
    best = found.fit.v.size
    if wanted == "map" and null.detected:
        best = int(np.argmax(log_posterior))
    fit = path.states[best].fit
    reason = worst([each.reason for each in runs])
    if best == 0 and not reason.unfinished:
        reason = StopReason.NO_SIGNAL
    relevance = np.zeros(p)
    if best:
        size = np.abs(fit.m) * np.sqrt(data.counts @ data.squares[:, fit.v])
        relevance[listed.indices[fit.v]] = relative_size(size)
    return LogisticSolution(
        order=ranking(op, labels, listed, path, fit),
        relevance=relevance,
        selected=listed.indices[fit.v],
        fit=fit,
        path=path,
        log_posterior=log_posterior,
        best=best,
        bounds=np.array(runs[-1].bounds),
        reason=reason,
        listed=listed.indices,
        average=average,
        null=null,
        credible=[listed.indices[group] for group in credible_sets_of(data, fit)],
    )


def select_by_median(average: LogisticAverage, max_size: int) -> np.ndarray:
    """Select all variables with an inclusion probability above 1/2."""
    likely = np.argsort(-average.inclusion, kind="stable")[:max_size]
    v: np.ndarray = likely[average.inclusion[likely] > 0.5]
    return v


def select_by_f_score(
    data: ClassificationData, average: LogisticAverage, max_size: int
) -> np.ndarray:
    """Select the set of maximum expected F-score, one variable per redundant group."""
    X = data.X[:, average.candidates]
    G = X.T @ (data.counts[:, None] * X)
    size = np.sqrt(G.diagonal())
    correlated = np.abs(G) >= MIN_CORRELATION * np.outer(size, size)
    representative = find_representatives(
        average.inclusion, average.candidates, average.together, correlated
    )
    by_size = merge_redundant(average.by_size, representative)
    return maximise_expected_f_score(by_size, average.nothing, max_size).v


def best_state(
    data: ClassificationData, rules: LogisticRules, v: np.ndarray, near: LogisticState
) -> LogisticState:
    """Fit the set v at its best tau, starting from that of ``near``."""
    return best_tau(data, rules, fit_state(data, rules, v, near.k))


def ranking(
    op: Operator, labels: Labels, listed: ColumnSubset, path: LogisticPath, fit: LogisticFit
) -> np.ndarray:
    """Rank all variables: those on the path in its order, the others by their gain."""
    ranked: np.ndarray = listed.indices[path.order]
    p = op.shape[1]
    if ranked.size == p:
        return ranked
    if listed.indices.size == p:
        gain = score_all_additions(listed.data, fit).gain
    else:
        gain = gains_of_all(op, labels, listed.data, fit)
    gain[ranked] = np.inf
    return np.append(ranked, np.argsort(-gain, kind="stable")[ranked.size :])


def credible_sets_of(data: ClassificationData, fit: LogisticFit) -> list[np.ndarray]:
    """Compute the credible set of each variable of ``fit``, to second order."""
    if fit.v.size == 0:
        return []
    d = data.counts @ data.squares
    cross = data.X.T @ (data.counts[:, None] * data.X[:, fit.v])
    correlation = np.abs(cross) / np.sqrt(d[:, None] * d[fit.v])
    return credible_sets(
        fit.v, exchange_gains(data, fit, score_all_additions(data, fit)), correlation
    )
