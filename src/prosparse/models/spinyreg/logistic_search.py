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
    Labelled,
    LogisticFit,
    exchange_gains,
    fit_model,
    outside,
    removal_gains,
)

LARGEST_DOUBLING = 4  # of tau: weights beyond 16 say no more than that classes are separated
FIRST_DOUBLING = -1  # of tau, where a search starts without any variable
TRIED = 4  # neighbours of each sort, of the best scores, that are fitted
WORTH_TRYING = -2.0  # least score; of second order, it can be too low
NEGLIGIBLE = 10.0  # log evidence below the largest, at which the sum over tau ends
FEW = 30  # variables, at most, with which together a search also starts
ROWS_EACH = 10  # of the rarer class, for each of these
AHEAD = 5  # variables that a search looks beyond where it has come to
MOST_LOOKS = 5  # such looks


class LogisticRules(NamedTuple):
    """What is believed before the classes are seen, and how far a search may go."""

    log_prior: np.ndarray  # (p + 1,) of each set of 0 .. p variables, -inf for those too large
    log_tau: np.ndarray  # (K,) rising
    log_size: np.ndarray  # (K,) log prior mass of each tau
    limit: int  # variables of a set, at most
    max_iter: int
    tol: float
    verbose: int = 0


def rules_for(
    data: Labelled, p: int, *, max_iter: int, tol: float, verbose: int = 0
) -> LogisticRules:
    """The usual rules for p variables, of which ``data`` may hold some.

    Weights far below 2/sqrt(n) cannot be seen, and the grid does not go there. Half as many
    variables as the rarer class has members can separate the classes by chance.
    """
    second = float(data.counts @ data.t)
    limit = min(p, max(int(min(second, data.n - second) / 2.0), 1))
    log_prior = log_multiplicity(p)
    log_prior[limit + 1 :] = -math.inf
    lowest = min(math.floor(1.0 - 0.5 * math.log2(data.n)), FIRST_DOUBLING)
    log_tau = math.log(2.0) * np.arange(lowest, LARGEST_DOUBLING + 1)
    log_size = log_tau - np.logaddexp(0.0, 2.0 * log_tau)  # density of log tau
    log_size -= np.logaddexp.reduce(log_size)
    return LogisticRules(log_prior, log_tau, log_size, limit, max_iter, tol, verbose)


class LogisticState(NamedTuple):
    """Where a search has come to."""

    fit: LogisticFit
    k: int  # the number of its tau
    bound: float  # the objective, which may never fall


def objective(rules: LogisticRules, fit: LogisticFit, k: int) -> float:
    """Log posterior of a set and a tau, up to a constant; without variables tau means nothing."""
    of_size = float(rules.log_size[k]) if fit.v.size else 0.0
    return fit.log_evidence + of_size + float(rules.log_prior[fit.v.size])


def state_of(
    data: Labelled, rules: LogisticRules, v: np.ndarray, k: int, start: np.ndarray | None = None
) -> LogisticState:
    """The set v at the tau of number k."""
    fit = fit_model(data, v, float(rules.log_tau[k]), start)
    return LogisticState(fit, k, objective(rules, fit, k))


def best_size(data: Labelled, rules: LogisticRules, state: LogisticState) -> LogisticState:
    """The same set at the best tau, by climbing the grid."""
    if not state.fit.v.size:
        return state
    for step in (1, -1):
        moved = False
        while 0 <= state.k + step < rules.log_tau.size:
            there = state_of(data, rules, state.fit.v, state.k + step, state.fit.mode)
            if not there.bound > state.bound:
                break
            state, moved = there, True
        if moved:
            break
    return state


def with_variable(data: Labelled, fit: LogisticFit, j: int) -> tuple[np.ndarray, np.ndarray]:
    """The set with variable j as well, and where its mode is looked for."""
    return np.append(fit.v, j), np.append(fit.mode, 0.0)


def without_variable(data: Labelled, fit: LogisticFit, i: int) -> tuple[np.ndarray, np.ndarray]:
    """The set without the variable at place i, and where its mode is, to second order."""
    at = data.intercept + i
    mode = fit.mode - fit.C[at] * (fit.mode[at] / fit.C[at, at])
    return np.delete(fit.v, i), np.delete(mode, at)


def top(scores: np.ndarray, count: int) -> list[int]:
    """The places of the largest scores that are worth trying, the largest first."""
    flat = scores.ravel()
    places = np.argpartition(-flat, count)[:count] if flat.size > count else np.arange(flat.size)
    places = places[np.lexsort((places, -flat[places]))]
    return [int(place) for place in places if flat[place] > WORTH_TRYING]


def make_step(data: Labelled, rules: LogisticRules) -> Callable[[LogisticState], LogisticState]:
    """One move to the best neighbour with a variable more or less, or else to one with another."""

    def best_of(
        state: LogisticState, sets: Iterable[tuple[np.ndarray, np.ndarray]]
    ) -> LogisticState:
        best = state
        for v, start in sets:
            there = state_of(data, rules, v, state.k, start)
            if not state.fit.v.size:  # the tau of no variables is anything
                there = best_size(data, rules, there)
            if there.bound > best.bound:
                best = there
        return best if best is state else best_size(data, rules, best)

    def step(state: LogisticState) -> LogisticState:
        fit, log_prior, q = state.fit, rules.log_prior, state.fit.v.size
        sets: list[tuple[np.ndarray, np.ndarray]] = []
        near = outside(data, fit)
        if q < rules.limit:
            more = near.gain + (log_prior[q + 1] - log_prior[q])
            sets += [with_variable(data, fit, j) for j in top(more, TRIED)]
        if q:
            less = removal_gains(data, fit) + (log_prior[q - 1] - log_prior[q])
            sets += [without_variable(data, fit, i) for i in top(less, TRIED)]
        found = best_of(state, sets)
        if found is not state or not q or q == data.X.shape[1]:
            return found
        swaps = [divmod(place, q) for place in top(exchange_gains(data, fit, near), TRIED)]
        exchanged = []
        for j, i in swaps:
            v, start = without_variable(data, fit, i)
            exchanged.append((np.append(v, j), np.append(start, 0.0)))
        return best_of(state, exchanged)

    return step


def climb(data: Labelled, state: LogisticState, rules: LogisticRules) -> Run[LogisticState]:
    """Move to better neighbours until there is none."""
    return iterate(
        make_step(data, rules),
        state,
        max_iter=rules.max_iter,
        tol=rules.tol,
        progress=Progress(rules.max_iter, "search", rules.verbose),
    )


def empty(data: Labelled, rules: LogisticRules) -> LogisticState:
    """No variables."""
    k = int(np.argmin(np.abs(rules.log_tau - FIRST_DOUBLING * math.log(2.0))))
    return state_of(data, rules, np.array([], dtype=int), k)


def search(data: Labelled, rules: LogisticRules) -> list[Run[LogisticState]]:
    """The climbs that led to the most probable set that could be found, the best one last.

    One starts without any variable. Variables that are useful together can each look useless
    alone: another starts from what a climb finds that hardly pays for variables, where these are
    few beside the rows, one more from all of them, and the best looks a few variables ahead.
    """
    p = data.X.shape[1]
    runs = [climb(data, empty(data, rules), rules)]
    found = runs[0].state
    lenient = rules._replace(log_prior=0.5 * rules.log_prior, limit=beyond(found, rules))
    far = climb(data, found._replace(bound=objective(lenient, found.fit, found.k)), lenient).state
    if far.fit.v.size != found.fit.v.size:
        back = far._replace(bound=objective(rules, far.fit, far.k))
        runs.append(climb(data, back, rules))
    second = float(data.counts @ data.t)
    if p <= min(FEW, rules.limit, min(second, data.n - second) / ROWS_EACH):
        whole = best_size(data, rules, state_of(data, rules, np.arange(p), found.k))
        runs.append(climb(data, whole, rules))
    runs.sort(key=lambda run: run.state.bound)
    for _ in range(MOST_LOOKS):
        farther = look_ahead(data, rules, runs[-1].state)
        if not farther.bound > runs[-1].state.bound + rules.tol:
            break
        runs.append(climb(data, farther, rules))
    return runs


def look_ahead(data: Labelled, rules: LogisticRules, state: LogisticState) -> LogisticState:
    """The most probable of ``state`` and what a few variables more make of it, each of them the one
    that helps most, or harms least: two can be useless one by one and tell everything together."""
    best = state
    for _ in range(min(AHEAD, rules.limit - state.fit.v.size, data.X.shape[1] - state.fit.v.size)):
        j = int(outside(data, state.fit).gain.argmax())
        v, start = with_variable(data, state.fit, j)
        state = best_size(data, rules, state_of(data, rules, v, state.k, start))
        best = state if state.bound > best.bound else best
    return best


def beyond(state: LogisticState, rules: LogisticRules) -> int:
    """How large a set a lenient climb may reach."""
    return min(rules.limit, 2 * state.fit.v.size + 5)


# --- the path


class SizedEvidence(NamedTuple):
    """The evidence of one set with every tau weighed, and its fits."""

    log_evidence: float
    fits: list[LogisticFit]
    share: np.ndarray  # of each fit


def over_sizes(data: Labelled, rules: LogisticRules, state: LogisticState) -> SizedEvidence:
    """Sum over tau, from that of ``state`` on, as far as it matters."""
    if not state.fit.v.size:
        return SizedEvidence(state.fit.log_evidence, [state.fit], np.ones(1))
    found = {state.k: state.fit}
    values = {state.k: state.fit.log_evidence + float(rules.log_size[state.k])}
    for step in (1, -1):
        k, start = state.k + step, state.fit.mode
        while 0 <= k < rules.log_tau.size:
            fit = fit_model(data, state.fit.v, float(rules.log_tau[k]), start)
            found[k], values[k] = fit, fit.log_evidence + float(rules.log_size[k])
            if values[k] < max(values.values()) - NEGLIGIBLE:
                break
            k, start = k + step, fit.mode
    order = sorted(found)
    log_values = np.array([values[k] for k in order])
    total = float(np.logaddexp.reduce(log_values))
    return SizedEvidence(total, [found[k] for k in order], np.exp(log_values - total))


class LogisticPath(NamedTuple):
    """Nested sets of 0, 1, 2, ... variables, each at its best tau."""

    order: np.ndarray  # (K,) variables, the most useful first
    states: list[LogisticState]  # of the first q variables, q = 0 .. K
    log_evidence: np.ndarray  # (K + 1,) with every tau weighed


def logistic_path(
    data: Labelled, rules: LogisticRules, state: LogisticState, longest: int
) -> LogisticPath:
    """Sets around that of ``state``: smaller ones without the variables that are missed least,
    larger ones with those that help most."""
    states, order = [state], []
    while state.fit.v.size:  # who leaves last is the most useful
        i = int(removal_gains(data, state.fit).argmax())
        order.append(int(state.fit.v[i]))
        v, start = without_variable(data, state.fit, i)
        state = best_size(data, rules, state_of(data, rules, v, state.k, start))
        states.append(state)
    states.reverse()
    order.reverse()
    while states[-1].fit.v.size < longest:
        last = states[-1]
        j = int(outside(data, last.fit).gain.argmax())
        v, start = with_variable(data, last.fit, j)
        states.append(best_size(data, rules, state_of(data, rules, v, last.k, start)))
        order.append(j)
    evidence = np.array([over_sizes(data, rules, each).log_evidence for each in states])
    return LogisticPath(np.array(order, dtype=int), states, evidence)
