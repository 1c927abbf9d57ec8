"""Search for the most probable logistic model, and a path of nested models.

A state is a set of variables and a prior scale tau. Second-order scores (`logistic`) select a few
neighbours to fit. A move is made only if the fitted neighbour increases the objective

    log p(t | v, tau) + log p(tau) + log p(v) ,

which is therefore non-decreasing. tau is on a grid of powers of two with a half-Cauchy prior. The
final comparison of sets sums over the grid. The prior on sets corrects for multiplicity.
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
    removal_gains,
    score_all_additions,
)

MAX_LOG2_TAU = 4  # maximum log2 of tau; larger coefficients only occur for separated classes
START_LOG2_TAU = -1  # log2 of tau at the start of a search
MAX_TRIALS = 4  # maximum number of neighbours of each type that are fitted
MIN_TRIAL_SCORE = -2.0  # minimum score of a fitted neighbour; scores can be too low
MAX_LOG_GAP = 10.0  # decrease of the log evidence at which the sum over tau ends
MAX_FULL_START = 30  # maximum number of variables of a search from all variables
ROWS_PER_VARIABLE = 10  # rows of the less frequent class required for each of these
LOOKAHEAD = 5  # number of variables added by `search_ahead`
MAX_LOOKAHEADS = 5  # maximum number of calls of `search_ahead`


class LogisticRules(NamedTuple):
    """Priors, limits and stopping rule of a search."""

    log_prior: np.ndarray  # (p + 1,) of a set of 0 .. p variables, -inf if too large
    log_tau: np.ndarray  # (K,) in increasing order
    log_tau_prior: np.ndarray  # (K,) log prior probability of each tau
    max_size: int  # maximum size of a set
    max_iter: int
    tol: float
    verbose: int = 0


def rules_for(
    data: ClassificationData, p: int, *, max_iter: int, tol: float, verbose: int = 0
) -> LogisticRules:
    """Return the default rules for p variables, of which ``data`` may hold a subset.

    Coefficients far below 2/sqrt(n) are not detectable and are excluded from the grid. The maximum
    size is half the number of observations of the less frequent class, because more variables can
    separate random classes.
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
    """Current set and tau of a search."""

    fit: LogisticFit
    k: int  # grid point of tau
    bound: float  # objective, non-decreasing


def objective(rules: LogisticRules, fit: LogisticFit, k: int) -> float:
    """Return the log posterior of a set and a tau, up to a constant."""
    of_size = float(rules.log_tau_prior[k]) if fit.v.size else 0.0
    return fit.log_evidence + of_size + float(rules.log_prior[fit.v.size])


def fit_state(
    data: ClassificationData,
    rules: LogisticRules,
    v: np.ndarray,
    k: int,
    start: np.ndarray | None = None,
) -> LogisticState:
    """Fit the set v at grid point k."""
    fit = fit_model(data, v, float(rules.log_tau[k]), start)
    return LogisticState(fit, k, objective(rules, fit, k))


def best_tau(data: ClassificationData, rules: LogisticRules, state: LogisticState) -> LogisticState:
    """Move along the grid to the best tau of the same set."""
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
    """Return the set with variable j added, and a start for its mode."""
    return np.append(fit.v, j), np.append(fit.mode, 0.0)


def remove_variable_start(
    data: ClassificationData, fit: LogisticFit, i: int
) -> tuple[np.ndarray, np.ndarray]:
    """Return the set without position i, and its mode to second order."""
    at = data.intercept + i
    mode = fit.mode - fit.C[at] * (fit.mode[at] / fit.C[at, at])
    return np.delete(fit.v, i), np.delete(mode, at)


def top(scores: np.ndarray, count: int) -> list[int]:
    """Return the positions of the largest scores above `MIN_TRIAL_SCORE`, largest first."""
    flat = scores.ravel()
    positions = np.argpartition(-flat, count)[:count] if flat.size > count else np.arange(flat.size)
    positions = positions[np.lexsort((positions, -flat[positions]))]
    return [int(position) for position in positions if flat[position] > MIN_TRIAL_SCORE]


def make_step(
    data: ClassificationData, rules: LogisticRules
) -> Callable[[LogisticState], LogisticState]:
    """Return a move to the best neighbour: addition or removal, otherwise an exchange."""

    def best_of(
        state: LogisticState, sets: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> LogisticState:
        best = state
        for v, start in sets:
            candidate = fit_state(data, rules, v, state.k, start)
            if not state.fit.v.size:  # tau has no effect on the empty set.
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
            divmod(position, q)
            for position in top(exchange_gains(data, fit, additions), MAX_TRIALS)
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
    """Return the state without variables."""
    k = int(np.argmin(np.abs(rules.log_tau - START_LOG2_TAU * math.log(2.0))))
    return fit_state(data, rules, np.array([], dtype=int), k)


def search(data: ClassificationData, rules: LogisticRules) -> list[Run[LogisticState]]:
    """Search from several starts; return the runs in order of their posterior, best last.

    Variables that are useful only together look useless one by one. In addition to the empty set,
    the starts are the result of a search with half of the log prior and, if there are few variables
    compared with the rows, all variables. The best run is then extended by a few variables and
    searched again.
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
    """Return the most probable state of a forward selection of a few more variables.

    Two variables can be useless one by one and informative together.
    """
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
    """Return the maximum size of an exploratory search."""
    return min(rules.max_size, 2 * state.fit.v.size + 5)


# --- the path


class TauEvidence(NamedTuple):
    """Evidence of a set integrated over tau, and its fits."""

    log_evidence: float
    fits: list[LogisticFit]
    probability: np.ndarray  # posterior probability of each fit


def integrate_tau(
    data: ClassificationData, rules: LogisticRules, state: LogisticState
) -> TauEvidence:
    """Sum the evidence over tau, starting from that of ``state``."""
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

    order: np.ndarray  # (K,) variables, most useful first
    states: list[LogisticState]  # sets of the first q variables, q = 0 .. K
    log_evidence: np.ndarray  # (K + 1,) integrated over tau


def logistic_path(
    data: ClassificationData, rules: LogisticRules, state: LogisticState, longest: int
) -> LogisticPath:
    """Compute nested sets around that of ``state``.

    Smaller sets follow by backward elimination, larger ones by forward selection.
    """
    states, order = [state], []
    while state.fit.v.size:  # Backward elimination: the last variable removed ranks first.
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
