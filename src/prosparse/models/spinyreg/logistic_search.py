"""Which variables tell two classes apart? A search through the sets of variables, and a path.

A set and a size tau of its weights are one place of the search. Scores of second order
(`logistic`) say which few neighbours are worth fitting; a move is made only where the evidence of
the fitted neighbour is higher, so that the objective

    log p(t | v, tau) + log p(tau) + log p(v)

never falls. tau is on a grid of doublings, on which its half-Cauchy prior is summed wherever sets
are compared in the end; the prior of the sets pays for how many there are of each size.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from typing import NamedTuple

import numpy as np

from ...inference.loop import Run, iterate
from ...inference.progress import Progress
from ...selection.model_priors import log_multiplicity
from .logistic import (
    ClassificationData,
    LogisticFit,
    exchange_gains,
    fit_model,
    score_all_additions,
    removal_gains,
)

MAX_LOG2_TAU = 4  # of tau: weights beyond 16 say no more than that classes are separated
START_LOG2_TAU = -1  # of tau, where a search starts without any variable
MAX_TRIALS = 4  # neighbours of each sort, of the best scores, that are fitted
MIN_TRIAL_SCORE = -2.0  # least score; of second order, it can be too low
MAX_LOG_GAP = 10.0  # log evidence below the largest, at which the sum over tau ends
MAX_FULL_START = 30  # variables, at most, with which together a search also starts
ROWS_PER_VARIABLE = 10  # of the rarer class, for each of these
LOOKAHEAD = 5  # variables that a search looks beyond where it has come to
MAX_LOOKAHEADS = 5  # such looks


class LogisticRules(NamedTuple):
    """What is believed before the classes are seen, and how far a search may go."""

    log_prior: np.ndarray  # (p + 1,) of each set of 0 .. p variables, -inf for those too large
    log_tau: np.ndarray  # (K,) rising
    log_tau_prior: np.ndarray  # (K,) log prior mass of each tau
    max_size: int  # variables of a set, at most
    max_iter: int
    tol: float
    verbose: int = 0


def rules_for(
    data: ClassificationData, p: int, *, max_iter: int, tol: float, verbose: int = 0
) -> LogisticRules:
    """The usual rules for p variables, of which ``data`` may hold some.

    Weights far below 2/sqrt(n) cannot be seen, and the grid does not go there. Half as many
    variables as the rarer class has members can separate the classes by chance.
    """
    second = float(data.counts @ data.t)
    max_size = min(p, max(int(min(second, data.n - second) / 2.0), 1))
    log_prior = log_multiplicity(p)
    log_prior[max_size + 1 :] = -math.inf
    lowest = min(math.floor(1.0 - 0.5 * math.log2(data.n)), START_LOG2_TAU)
    log_tau = math.log(2.0) * np.arange(lowest, MAX_LOG2_TAU + 1)
    log_tau_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)  # density of log tau
    log_tau_prior -= np.logaddexp.reduce(log_tau_prior)
    return LogisticRules(log_prior, log_tau, log_tau_prior, max_size, max_iter, tol, verbose)


class LogisticState(NamedTuple):
    """Where a search has come to."""

    fit: LogisticFit
    k: int  # the number of its tau
    bound: float  # the objective, which may never fall


def objective(rules: LogisticRules, fit: LogisticFit, k: int) -> float:
    """Log posterior of a set and a tau, up to a constant; without variables tau means nothing."""
    of_size = float(rules.log_tau_prior[k]) if fit.v.size else 0.0
    return fit.log_evidence + of_size + float(rules.log_prior[fit.v.size])


def fit_state(
    data: ClassificationData,
    rules: LogisticRules,
    v: np.ndarray,
    k: int,
    start: np.ndarray | None = None,
) -> LogisticState:
    """The set v at the tau of number k."""
    fit = fit_model(data, v, float(rules.log_tau[k]), start)
    return LogisticState(fit, k, objective(rules, fit, k))


def best_tau(data: ClassificationData, rules: LogisticRules, state: LogisticState) -> LogisticState:
    """The same set at the best tau, by climbing the grid."""
    if not state.fit.v.size:
        return state
    for step in (1, -1):
        moved = False
        while 0 <= state.k + step < rules.log_tau.size:
            candidate = fit_state(data, rules, state.fit.v, state.k + step, state.fit.mode)
            if not candidate.bound > state.bound:
                break
            state, moved = candidate, True
        if moved:
            break
    return state


def add_variable_start(
    data: ClassificationData, fit: LogisticFit, j: int
) -> tuple[np.ndarray, np.ndarray]:
    """The set with variable j as well, and where its mode is looked for."""
    return np.append(fit.v, j), np.append(fit.mode, 0.0)


def remove_variable_start(
    data: ClassificationData, fit: LogisticFit, i: int
) -> tuple[np.ndarray, np.ndarray]:
    """The set without the variable at place i, and where its mode is, to second order."""
    at = data.intercept + i
    mode = fit.mode - fit.C[at] * (fit.mode[at] / fit.C[at, at])
    return np.delete(fit.v, i), np.delete(mode, at)


def top(scores: np.ndarray, count: int) -> list[int]:
    """The places of the largest scores that are worth trying, the largest first."""
    flat = scores.ravel()
    places = np.argpartition(-flat, count)[:count] if flat.size > count else np.arange(flat.size)
    places = places[np.lexsort((places, -flat[places]))]
    return [int(place) for place in places if flat[place] > MIN_TRIAL_SCORE]


def make_step(
    data: ClassificationData, rules: LogisticRules
) -> Callable[[LogisticState], LogisticState]:
    """One move to the best neighbour with a variable more or less, or else to one with another."""

    def best_of(
        state: LogisticState, sets: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> LogisticState:
        best = state
        for v, start in sets:
            candidate = fit_state(data, rules, v, state.k, start)
            if not state.fit.v.size:  # the tau of no variables is anything
                candidate = best_tau(data, rules, candidate)
            if candidate.bound > best.bound:
                best = candidate
        return best if best is state else best_tau(data, rules, best)

    def step(state: LogisticState) -> LogisticState:
        fit, log_prior, q = state.fit, rules.log_prior, state.fit.v.size
        sets: list[tuple[np.ndarray, np.ndarray]] = []
        additions = score_all_additions(data, fit)
        if q < rules.max_size:
            more = additions.gain + (log_prior[q + 1] - log_prior[q])
            sets += [add_variable_start(data, fit, j) for j in top(more, MAX_TRIALS)]
        if q:
            less = removal_gains(data, fit) + (log_prior[q - 1] - log_prior[q])
            sets += [remove_variable_start(data, fit, i) for i in top(less, MAX_TRIALS)]
        found = best_of(state, sets)
        if found is not state or not q or q == data.X.shape[1]:
            return found
        swaps = [
            divmod(place, q) for place in top(exchange_gains(data, fit, additions), MAX_TRIALS)
        ]
        exchanged = []
        for j, i in swaps:
            v, start = remove_variable_start(data, fit, i)
            exchanged.append((np.append(v, j), np.append(start, 0.0)))
        return best_of(state, exchanged)

    return step


def local_search(
    data: ClassificationData, state: LogisticState, rules: LogisticRules
) -> Run[LogisticState]:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        state,
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def empty_state(data: ClassificationData, rules: LogisticRules) -> LogisticState:
    """No variables."""
    k = int(np.argmin(np.abs(rules.log_tau - START_LOG2_TAU * math.log(2.0))))
    return fit_state(data, rules, np.array([], dtype=int), k)


def search(data: ClassificationData, rules: LogisticRules) -> list[Run[LogisticState]]:
    """The climbs that led to the most probable set that could be found, the best one last.

    One starts without any variable. Variables that are useful together can each look useless
    alone: another starts from what a climb finds that hardly pays for variables, where these are
    few beside the rows, one more from all of them, and the best looks a few variables ahead.
    """
    p = data.X.shape[1]
    runs = [local_search(data, empty_state(data, rules), rules)]
    found = runs[0].state
    lenient = rules._replace(log_prior=0.5 * rules.log_prior, max_size=enlarged_limit(found, rules))
    far = local_search(
        data, found._replace(bound=objective(lenient, found.fit, found.k)), lenient
    ).state
    if far.fit.v.size != found.fit.v.size:
        back = far._replace(bound=objective(rules, far.fit, far.k))
        runs.append(local_search(data, back, rules))
    second = float(data.counts @ data.t)
    if p <= min(MAX_FULL_START, rules.max_size, min(second, data.n - second) / ROWS_PER_VARIABLE):
        whole = best_tau(data, rules, fit_state(data, rules, np.arange(p), found.k))
        runs.append(local_search(data, whole, rules))
    runs.sort(key=lambda run: run.state.bound)
    for _ in range(MAX_LOOKAHEADS):
        farther = search_ahead(data, rules, runs[-1].state)
        if not farther.bound > runs[-1].state.bound + rules.tol:
            break
        runs.append(local_search(data, farther, rules))
    return runs


def search_ahead(
    data: ClassificationData, rules: LogisticRules, state: LogisticState
) -> LogisticState:
    """The most probable of ``state`` and what a few variables more make of it, each of them the one
    that helps most, or harms least: two can be useless one by one and tell everything together."""
    best = state
    for _ in range(
        min(LOOKAHEAD, rules.max_size - state.fit.v.size, data.X.shape[1] - state.fit.v.size)
    ):
        j = int(score_all_additions(data, state.fit).gain.argmax())
        v, start = add_variable_start(data, state.fit, j)
        state = best_tau(data, rules, fit_state(data, rules, v, state.k, start))
        best = state if state.bound > best.bound else best
    return best


def enlarged_limit(state: LogisticState, rules: LogisticRules) -> int:
    """How large a set a lenient climb may reach."""
    return min(rules.max_size, 2 * state.fit.v.size + 5)


# --- the path


class TauEvidence(NamedTuple):
    """The evidence of one set with every tau weighed, and its fits."""

    log_evidence: float
    fits: list[LogisticFit]
    share: np.ndarray  # of each fit


def integrate_tau(
    data: ClassificationData, rules: LogisticRules, state: LogisticState
) -> TauEvidence:
    """Sum over tau, from that of ``state`` on, as far as it matters."""
    if not state.fit.v.size:
        return TauEvidence(state.fit.log_evidence, [state.fit], np.ones(1))
    found = {state.k: state.fit}
    values = {state.k: state.fit.log_evidence + float(rules.log_tau_prior[state.k])}
    for step in (1, -1):
        k, start = state.k + step, state.fit.mode
        while 0 <= k < rules.log_tau.size:
            fit = fit_model(data, state.fit.v, float(rules.log_tau[k]), start)
            found[k], values[k] = fit, fit.log_evidence + float(rules.log_tau_prior[k])
            if values[k] < max(values.values()) - MAX_LOG_GAP:
                break
            k, start = k + step, fit.mode
    order = sorted(found)
    log_values = np.array([values[k] for k in order])
    total = float(np.logaddexp.reduce(log_values))
    return TauEvidence(total, [found[k] for k in order], np.exp(log_values - total))


class LogisticPath(NamedTuple):
    """Nested sets of 0, 1, 2, ... variables, each at its best tau."""

    order: np.ndarray  # (K,) variables, the most useful first
    states: list[LogisticState]  # of the first q variables, q = 0 .. K
    log_evidence: np.ndarray  # (K + 1,) with every tau weighed


def logistic_path(
    data: ClassificationData, rules: LogisticRules, state: LogisticState, longest: int
) -> LogisticPath:
    """Sets around that of ``state``: smaller ones without the variables that are missed least,
    larger ones with those that help most."""
    states, order = [state], []
    while state.fit.v.size:  # who leaves last is the most useful
        i = int(removal_gains(data, state.fit).argmax())
        order.append(int(state.fit.v[i]))
        v, start = remove_variable_start(data, state.fit, i)
        state = best_tau(data, rules, fit_state(data, rules, v, state.k, start))
        states.append(state)
    states.reverse()
    order.reverse()
    while states[-1].fit.v.size < longest:
        last = states[-1]
        j = int(score_all_additions(data, last.fit).gain.argmax())
        v, start = add_variable_start(data, last.fit, j)
        states.append(best_tau(data, rules, fit_state(data, rules, v, last.k, start)))
        order.append(j)
    evidence = np.array([integrate_tau(data, rules, each).log_evidence for each in states])
    return LogisticPath(np.array(order, dtype=int), states, evidence)
