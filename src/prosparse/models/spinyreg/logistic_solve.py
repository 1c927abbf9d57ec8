"""From a table and two classes to chosen variables and their weights.

Of very many variables a shortlist is searched; those beyond it are asked again whether they would
help what was found. A path of sets around the best one says how many variables to keep.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.special import chdtrc

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
    make_data,
    log_lambda,
    score_additions,
    score_all_additions,
)
from .logistic_average import LogisticAverage, average_over_sets
from .logistic_search import (
    LogisticPath,
    LogisticRules,
    LogisticState,
    best_tau,
    local_search,
    logistic_path,
    rules_for,
    search,
    fit_state,
)
from .model import relative_size
from .solve import SelectionRule

MAX_SHORTLIST = 1000  # variables, at most, that are searched at once
MIN_SHORTLIST = 50
MAX_ENTRIES = 50_000_000  # of the table of a shortlist
MAX_EXTENSIONS = 5  # times that others may join the shortlist
PATH_EXTENSION = 5  # the path goes so many variables beyond the best set
# Probability that noise predicts as well, at most, for anything to be kept that the search does not
# find more probable than nothing.
NULL_LEVEL = 0.05


class LogisticOptions(NamedTuple):
    """What the user decides; see `SpinyClassifier`."""

    fit_intercept: bool
    selection_rule: SelectionRule
    average: bool
    max_iter: int
    tol: float
    verbose: int
    seed: int


class LogisticSolution(NamedTuple):
    """All that a fit finds, in the operator's columns and units."""

    order: np.ndarray  # (p,) variables, the most useful first
    relevance: np.ndarray  # (p,) between 0 and 1
    selected: np.ndarray  # (q,) selected variables, in the order of `fit`
    fit: LogisticFit
    prior_std: float  # of the weights of the chosen set
    path: LogisticPath
    log_posterior: np.ndarray  # (K + 1,) along the path
    best: int  # the place of the chosen set on the path, which is its number of variables
    bounds: np.ndarray  # (n_iter,) of the climb that found it
    reason: StopReason
    listed: np.ndarray  # (k,) the variables that `average` is about
    average: LogisticAverage | None
    credible: list[np.ndarray]  # for each of `chosen`, the variables that could stand for it


class ColumnSubset(NamedTuple):
    """Some of the columns of a table."""

    indices: np.ndarray  # (k,) column indices, increasing
    data: ClassificationData


def take_subset(op: Operator, labels: Labels, places: np.ndarray, intercept: bool) -> ColumnSubset:
    """The columns at ``places``; rows of ``op`` are multiplied by the roots of their counts."""
    some = op if places.size == op.shape[1] else op.take_columns(places)
    rows = np.asarray(some.gather_rows(_itself, entrywise=True), dtype=float)
    return ColumnSubset(
        places, make_data(rows / labels.root[:, None], labels.t, labels.counts, intercept)
    )


def _itself(block: np.ndarray) -> np.ndarray:
    return block


def marginal_scores(op: Operator, labels: Labels) -> np.ndarray:
    """How well each variable tells the classes apart by itself: its score statistic."""
    y = labels.root * (labels.t - labels.proportion)
    products = np.asarray(op.rmatmul(y[:, None]), dtype=float)[:, 0]
    scores: np.ndarray = np.abs(products) / np.sqrt(np.asarray(op.column_squares(), dtype=float))
    return scores


def joint_scores(op: Operator, labels: Labels, marginal: np.ndarray) -> np.ndarray:
    """Sizes of the weights of a ridge regression on all variables, which, unlike the marginal
    scores, see through their correlations; with more rows than variables these must do."""
    n, p = op.shape
    if n > p:
        return marginal
    K = np.asarray(op.outer(), dtype=float)
    K.flat[:: n + 1] += 0.01 * float(K.trace()) / n
    y = labels.root * (labels.t - labels.proportion)
    weights = np.asarray(op.rmatmul(np.linalg.solve(K, y)[:, None]), dtype=float)[:, 0]
    return np.abs(weights)


def gains_of_all(
    op: Operator, labels: Labels, data: ClassificationData, fit: LogisticFit
) -> np.ndarray:
    """Rise of the log evidence if each of all variables joined ``fit``, to second order."""
    S = fit.S / labels.root
    cross = np.asarray(op.rmatmul(S[:, None] * design(data, fit.v)), dtype=float)
    e = np.asarray(op.rmatmul((fit.residual / labels.root)[:, None]), dtype=float)[:, 0]
    (squares,) = op.sum_rows(
        lambda block, weights: ((block * block).T @ weights,),
        (fit.S / labels.counts)[:, None],
        entrywise=True,
    )
    squares = np.asarray(squares, dtype=float)[:, 0]
    return score_additions(fit, cross, squares, e, log_lambda(data, fit.log_tau)).gain


def select_top(size: int, *scores: np.ndarray) -> np.ndarray:
    """The variables at the top of each of the scores, rising."""
    each = size // len(scores)
    return np.unique(np.concatenate([np.argsort(-s, kind="stable")[:each] for s in scores]))


class SearchResult(NamedTuple):
    """What a search among all columns has led to."""

    listed: ColumnSubset  # the last shortlist; the variables of `runs` are places in it
    rules: LogisticRules
    runs: list[Run[LogisticState]]  # the best one last


def search_all(op: Operator, labels: Labels, options: LogisticOptions) -> SearchResult:
    """Search a shortlist, look whether others would help, bring them in, go on."""
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


def solve_classes(op: Operator, labels: Labels, options: LogisticOptions) -> LogisticSolution:
    """SelectionRule the variables of a standardised table that tell the classes apart."""
    p = op.shape[1]
    listed, rules, runs = search_all(op, labels, options)
    data, found = listed.data, runs[-1].state
    average, wanted = None, options.selection_rule
    if not found.fit.v.size and wanted == "f-score" and null_pvalue(op, labels) > NULL_LEVEL:
        wanted = "map"  # noise might give as much
    if options.average or options.selection_rule != "map":
        average = average_over_sets(data, rules, found, options.seed)
        if options.selection_rule == "median":
            found = best_state(data, rules, select_by_median(average, rules.max_size), found)
        elif wanted == "f-score":
            v = select_by_f_score(data, average, rules.max_size)
            if v.size:  # else what the search found, which is more probable than nothing
                found = best_state(data, rules, v, found)
    longest = min(rules.max_size, found.fit.v.size + PATH_EXTENSION)
    path = logistic_path(data, rules, found, longest)
    log_posterior = path.log_evidence + rules.log_prior[: path.log_evidence.size]
    best = int(np.argmax(log_posterior)) if wanted == "map" else found.fit.v.size
    fit = path.states[best].fit
    reason = worst([each.reason for each in runs])
    if best == 0 and not reason.unfinished:
        reason = StopReason.NOTHING_FOUND
    relevance = np.zeros(p)
    if best:
        size = np.abs(fit.m) * np.sqrt(data.counts @ data.squares[:, fit.v])
        relevance[listed.indices[fit.v]] = relative_size(size)
    return LogisticSolution(
        order=ranking(op, labels, listed, path, fit),
        relevance=relevance,
        selected=listed.indices[fit.v],
        fit=fit,
        prior_std=float(np.exp(-0.5 * log_lambda(data, fit.log_tau))),
        path=path,
        log_posterior=log_posterior,
        best=best,
        bounds=np.array(runs[-1].bounds),
        reason=reason,
        listed=listed.indices,
        average=average,
        credible=[listed.indices[group] for group in credible_sets_of(data, fit)],
    )


def select_by_median(average: LogisticAverage, max_size: int) -> np.ndarray:
    """The variables more probably active than not (Barbieri & Berger 2004)."""
    likely = np.argsort(-average.inclusion, kind="stable")[:max_size]
    v: np.ndarray = likely[average.inclusion[likely] > 0.5]
    return v


def select_by_f_score(
    data: ClassificationData, average: LogisticAverage, max_size: int
) -> np.ndarray:
    """The set of the largest expected F-score, with one of those that stand for each other; see
    `choice`."""
    X = data.X[:, average.candidates]
    G = X.T @ (data.counts[:, None] * X)
    size = np.sqrt(G.diagonal())
    correlated = np.abs(G) >= MIN_CORRELATION * np.outer(size, size)
    representative = find_representatives(
        average.inclusion, average.candidates, average.together, correlated
    )
    by_number = merge_redundant(average.by_number, representative)
    return maximise_expected_f_score(by_number, average.nothing, max_size).v


def null_pvalue(op: Operator, labels: Labels) -> float:
    """The probability that classes which have nothing to do with the table give some column as
    large a score as it has: squares of scores are about chi2 of one degree of freedom, and columns
    are taken to be independent, which makes the probability too large if anything."""
    share = labels.proportion
    largest = float(marginal_scores(op, labels).max()) ** 2 / (share * (1.0 - share))
    one = float(chdtrc(1.0, largest))
    return float(-np.expm1(op.shape[1] * np.log1p(-min(one, 1.0 - 1e-16))))


def best_state(
    data: ClassificationData, rules: LogisticRules, v: np.ndarray, near: LogisticState
) -> LogisticState:
    """The set v at its best tau, from that of ``near`` on."""
    return best_tau(data, rules, fit_state(data, rules, v, near.k))


def ranking(
    op: Operator, labels: Labels, listed: ColumnSubset, path: LogisticPath, fit: LogisticFit
) -> np.ndarray:
    """All variables: those on the path in its order, the others by what each would add."""
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
    """The credible set of each variable of ``fit``, see `credible`; evidences of exchanges are
    known to second order."""
    if fit.v.size == 0:
        return []
    d = data.counts @ data.squares
    cross = data.X.T @ (data.counts[:, None] * data.X[:, fit.v])
    correlation = np.abs(cross) / np.sqrt(d[:, None] * d[fit.v])
    return credible_sets(
        fit.v, exchange_gains(data, fit, score_all_additions(data, fit)), correlation
    )
