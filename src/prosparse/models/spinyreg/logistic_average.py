"""Bayesian model averaging over sets of variables in logistic regression.

[Z20]   G. Zanella. Informed proposals for local MCMC in discrete spaces. Journal of the American
        Statistical Association 115, 2020.
[F06]   D. Frenkel. Waste-recycling Monte Carlo. Lecture Notes in Physics 703, 2006.

Up to six variables, all sets are enumerated at every tau of the grid. For more variables, a
Markov chain samples pairs (v, tau). A state proposes to flip one variable, to exchange two, or to
double or halve tau. Move a of the first two types has the rate g_a = r_a / (1 + r_a), where r_a is
the ratio of posteriors to second order (`logistic`), [Z20]. The proposal from v to v' is accepted
with probability min(1, A),

    A = pi(v') g'_a' Z / (pi(v) g_a Z') ,    Z, Z' = sums of the rates at v and v' ,

where pi is the posterior of the fitted sets. The chain samples pi, whatever the rates. Proposal
and current state both contribute to the average, weighted by the acceptance probability, [F06].
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .averaging import MAX_CANDIDATES, MIN_INCLUSION
from .logistic import (
    ClassificationData,
    LogisticFit,
    exchange_gains,
    fit_model,
    removal_gains,
    score_all_additions,
)
from .logistic_search import (
    LogisticRules,
    LogisticState,
    add_variable_start,
    fit_state,
    integrate_tau,
    remove_variable_start,
)

MAX_ENUMERATED = 6  # maximum number of variables whose sets are enumerated
MAX_VISITED = 200  # approximate maximum number of variables that are sampled
MAX_STEPS = 1600  # maximum number of steps of the chain
MIN_STEPS = 100  # number of steps before the first convergence check
STABILITY_TOL = 0.02  # maximum difference of inclusion probabilities between two halves of a run
SIZE_RATE = 0.25  # rate of doubling and of halving tau
SAMPLES_EACH = 20  # samples per active variable expected by the prior


class LogisticAverage(NamedTuple):
    """Posterior means over all sets, in the units of the data."""

    inclusion: np.ndarray  # (p,) probability that each variable is active
    intercept: float  # posterior mean
    mean: np.ndarray  # (p,) of the coefficients, which are zero for inactive variables
    candidates: np.ndarray  # (k,) variables of `covariance`, in increasing order
    covariance: np.ndarray  # (1 + k, 1 + k) of the intercept and their coefficients
    excluded_variance: float  # mean contribution of all other variables to the variance of h
    n_sets: int  # number of distinct sets
    by_size: np.ndarray  # (p, Q + 1) inclusion jointly with a model size of 0 .. Q
    nothing: float  # probability of the empty set
    together: np.ndarray  # (k, k) probability that two candidates are both active


def temper(average: LogisticAverage, data: ClassificationData, weight: float) -> LogisticAverage:
    """Move the probability 1 - ``weight`` of all sets to the empty set."""
    if weight >= 1.0:
        return average
    empty = fit_model(data, np.array([], dtype=int), 0.0)
    mean = np.append(average.intercept, average.mean[average.candidates])
    at_empty = np.zeros(mean.size)
    at_empty[: data.intercept] = empty.mode
    difference = mean - at_empty
    covariance = weight * average.covariance
    covariance += weight * (1.0 - weight) * np.outer(difference, difference)
    covariance[: data.intercept, : data.intercept] += (1.0 - weight) * empty.C
    others = np.ones(average.mean.size, dtype=bool)
    others[average.candidates] = False
    square = data.counts @ data.squares[:, others] / data.n
    moved = weight * (1.0 - weight) * float(average.mean[others] ** 2 @ square)
    return average._replace(
        inclusion=weight * average.inclusion,
        intercept=float(weight * mean[0] + (1.0 - weight) * at_empty[0]),
        mean=weight * average.mean,
        covariance=covariance,
        excluded_variance=weight * average.excluded_variance + moved,
        by_size=weight * average.by_size,
        nothing=weight * average.nothing + 1.0 - weight,
        together=weight * average.together,
    )


def averaging_rules(data: ClassificationData, rules: LogisticRules) -> LogisticRules:
    """Multiply the prior on sets by a geometric distribution with mean n / 20.

    The prior of the search alone gives all model sizes equal probability. If the data carry little
    information, few rows would be averaged over sets of nearly maximum size.
    """
    price = math.log1p(SAMPLES_EACH / data.n)
    return rules._replace(log_prior=rules.log_prior - price * np.arange(rules.log_prior.size))


class WeightedFit(NamedTuple):
    """Fitted set and its posterior probability."""

    fit: LogisticFit
    probability: float


def sum_all(data: ClassificationData, rules: LogisticRules, k: int) -> list[WeightedFit]:
    """Enumerate all sets at every tau, starting from grid point k."""
    found: list[tuple[LogisticFit, float]] = []
    for q in range(min(data.X.shape[1], rules.max_size) + 1):
        for v in combinations(range(data.X.shape[1]), q):
            sized = integrate_tau(data, rules, fit_state(data, rules, np.array(v, dtype=int), k))
            log_posterior = sized.log_evidence + float(rules.log_prior[q])
            for fit, probability in zip(sized.fits, sized.probability, strict=True):
                found.append((fit, log_posterior + math.log(max(float(probability), 1e-300))))
    log_posteriors = np.array([log_posterior for _, log_posterior in found])
    probabilities = np.exp(log_posteriors - np.logaddexp.reduce(log_posteriors))
    return [
        WeightedFit(fit, float(probability))
        for (fit, _), probability in zip(found, probabilities, strict=True)
    ]


class StateRates(NamedTuple):
    """State of the chain and the rates of its moves."""

    fit: LogisticFit
    k: int  # grid point of tau
    log_posterior: float  # up to a constant; tau has a prior also for the empty set
    flips: np.ndarray  # (p,) rates of flips
    exchanges: np.ndarray  # (p, q) rates of j replacing the variable at position i
    sizes: np.ndarray  # (2,) rates of halving and doubling tau
    total: float  # sum of all rates


def chain_state(
    data: ClassificationData, rules: LogisticRules, fit: LogisticFit, k: int
) -> StateRates:
    """Compute the rates of all moves from a fitted set."""
    q, log_prior = fit.v.size, rules.log_prior
    additions = score_all_additions(data, fit)
    more = log_prior[q + 1] - log_prior[q] if q < rules.max_size else -math.inf
    flips = expit(additions.gain + more)
    exchanges = np.zeros((data.X.shape[1], q))
    if q:
        flips[fit.v] = expit(removal_gains(data, fit) + (log_prior[q - 1] - log_prior[q]))
        exchanges = expit(exchange_gains(data, fit, additions))
    sizes = np.where([k > 0, k + 1 < rules.log_tau.size], SIZE_RATE, 0.0)
    total = float(flips.sum() + exchanges.sum() + sizes.sum())
    log_posterior = fit.log_evidence + float(rules.log_tau_prior[k]) + float(log_prior[q])
    return StateRates(fit, k, log_posterior, flips, exchanges, sizes, total)


FitCache = dict[tuple[tuple[int, ...], int], StateRates]


def visit(
    data: ClassificationData,
    rules: LogisticRules,
    cache: FitCache,
    v: np.ndarray,
    k: int,
    start: np.ndarray,
) -> StateRates:
    """Return the state of the set v at grid point k, fitted once from ``start``."""
    order = np.argsort(v)
    key = (tuple(v[order].tolist()), k)
    if key not in cache:
        c = data.intercept
        additions = np.concatenate([start[:c], start[c:][order]])
        fit = fit_model(data, v[order], float(rules.log_tau[k]), additions)
        cache[key] = chain_state(data, rules, fit, k)
    return cache[key]


def propose(
    data: ClassificationData, rules: LogisticRules, cache: FitCache, current: StateRates, at: float
) -> tuple[StateRates, float]:
    """Return the move at quantile ``at`` of the rates, and its acceptance probability."""
    fit, k, p = current.fit, current.k, data.X.shape[1]
    steps = np.cumsum(np.concatenate([current.sizes, current.flips, current.exchanges.ravel()]))
    move = min(int(np.searchsorted(steps, at * steps[-1], side="right")), steps.size - 1)
    if move < 2:
        proposal = visit(data, rules, cache, fit.v, k + 2 * move - 1, fit.mode)
        forward = backward = SIZE_RATE
    elif move < 2 + p:
        j = move - 2
        inside = np.flatnonzero(fit.v == j)
        if inside.size:
            v, start = remove_variable_start(data, fit, int(inside[0]))
        else:
            v, start = add_variable_start(data, fit, j)
        proposal = visit(data, rules, cache, v, k, start)
        forward, backward = float(current.flips[j]), float(proposal.flips[j])
    else:
        j, i = divmod(move - 2 - p, fit.v.size)
        v, start = remove_variable_start(data, fit, i)
        proposal = visit(data, rules, cache, np.append(v, j), k, np.append(start, 0.0))
        forward = float(current.exchanges[j, i])
        backward = float(proposal.exchanges[fit.v[i], np.searchsorted(proposal.fit.v, j)])
    if not backward > 0.0:
        return proposal, 0.0
    rates = (
        math.log(backward) + math.log(current.total) - math.log(forward) - math.log(proposal.total)
    )
    return proposal, math.exp(min(proposal.log_posterior - current.log_posterior + rates, 0.0))


def sample(
    data: ClassificationData,
    rules: LogisticRules,
    state: LogisticState,
    rng: np.random.Generator,
    steps: int | None = None,
) -> list[WeightedFit]:
    """Sample sets by a chain from ``state`` and return them with their weights.

    The chain stops when its halves agree, or after ``steps`` steps.
    """
    cache: FitCache = {}
    current = visit(data, rules, cache, state.fit.v, state.k, state.fit.mode)
    time: dict[int, float] = {}  # weight of each state, by its identity
    inclusion, half = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    check = MIN_STEPS
    for t in range(1, (MAX_STEPS if steps is None else steps) + 1):
        proposal, accepted = propose(data, rules, cache, current, rng.random())
        for each, probability in ((proposal, accepted), (current, 1.0 - accepted)):
            time[id(each)] = time.get(id(each), 0.0) + probability
            inclusion[each.fit.v] += probability
        if t == check and steps is None:
            late = (inclusion - half) / (t - t // 2)
            if t > MIN_STEPS and float(np.abs(late - half / (t // 2)).max()) < STABILITY_TOL:
                break
            half, check = inclusion.copy(), 2 * check
        if rng.random() < accepted:
            current = proposal
    total = sum(time.values())
    return [
        WeightedFit(each.fit, time[id(each)] / total)
        for each in cache.values()
        if time.get(id(each), 0.0) > 0.0
    ]


def summarise(data: ClassificationData, sets: list[WeightedFit]) -> LogisticAverage:
    """Compute moments of the intercept and the coefficients over sets.

    The covariances of the candidates are retained. The other variables contribute their mean
    variance.
    """
    p, c = data.X.shape[1], data.intercept
    by_size = np.zeros((p, 1 + max(each.fit.v.size for each in sets)))
    visited = np.unique(np.concatenate([each.fit.v for each in sets]))
    first, second = np.zeros(1 + visited.size), np.zeros((1 + visited.size, 1 + visited.size))
    both = np.zeros((visited.size, visited.size))
    for fit, probability in sets:
        by_size[fit.v, fit.v.size] += probability
        at = np.searchsorted(visited, fit.v)
        both[np.ix_(at, at)] += probability
        at = at + 1
        if c:
            at = np.concatenate([[0], at])
        first[at] += probability * fit.mode
        second[np.ix_(at, at)] += probability * (fit.C + np.outer(fit.mode, fit.mode))
    covariance = second - np.outer(first, first)
    mean, inclusion = np.zeros(p), np.minimum(by_size.sum(axis=1), 1.0)  # rounding
    mean[visited] = first[1:]
    likely = np.argsort(-inclusion[visited], kind="stable")[:MAX_CANDIDATES]
    retained = np.sort(likely[inclusion[visited[likely]] >= MIN_INCLUSION])
    others = np.delete(np.arange(visited.size), retained)
    square = data.counts @ data.squares[:, visited[others]] / data.n
    excluded_variance = np.maximum(covariance.diagonal()[1 + others], 0.0) @ square
    positions = np.concatenate([[0], 1 + retained])
    n_sets = len({tuple(each.fit.v.tolist()) for each in sets})
    return LogisticAverage(
        inclusion,
        float(first[0]),
        mean,
        visited[retained],
        covariance[np.ix_(positions, positions)],
        float(excluded_variance),
        n_sets,
        by_size,
        sum(each.probability for each in sets if not each.fit.v.size),
        both[np.ix_(retained, retained)],
    )


def average_over_sets(
    data: ClassificationData, rules: LogisticRules, state: LogisticState, seed: int
) -> LogisticAverage:
    """Average over sets by enumeration, or by sampling from the set of ``state``."""
    rules = averaging_rules(data, rules)
    if data.X.shape[1] <= MAX_ENUMERATED:
        return summarise(data, sum_all(data, rules, state.k))
    order = select_promising(data, state)
    positions = np.full(data.X.shape[1], -1)
    positions[order] = np.arange(order.size)
    subset = data._replace(X=data.X[:, order], squares=data.squares[:, order])
    start = state._replace(fit=state.fit._replace(v=positions[state.fit.v]))
    found = summarise(subset, sample(subset, rules, start, np.random.default_rng(seed)))
    inclusion, mean = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    inclusion[order], mean[order] = found.inclusion, found.mean
    by_size = np.zeros((data.X.shape[1], found.by_size.shape[1]))
    by_size[order] = found.by_size
    increasing = np.argsort(order[found.candidates])
    at = np.concatenate([[0], 1 + increasing])
    return found._replace(
        inclusion=inclusion,
        mean=mean,
        candidates=order[found.candidates][increasing],
        covariance=found.covariance[np.ix_(at, at)],
        by_size=by_size,
        together=found.together[np.ix_(increasing, increasing)],
    )


def select_promising(data: ClassificationData, state: LogisticState) -> np.ndarray:
    """Select the variables that the chain considers, best single variables first.

    This order makes the draws independent of the column order. If there are too many variables,
    those of ``state``, the best single variables and those that would add most to ``state`` are
    selected. The others would hardly ever be visited but increase the cost of every state.
    """
    none = fit_model(data, np.array([], dtype=int), state.fit.log_tau)
    order = np.argsort(-score_all_additions(data, none).gain, kind="stable")
    if order.size <= MAX_VISITED:
        return order
    gain = score_all_additions(data, state.fit).gain
    gain[state.fit.v] = np.inf
    most = MAX_VISITED // 2
    retained = np.zeros(order.size, dtype=bool)
    retained[order[:most]] = True
    retained[np.argsort(-gain, kind="stable")[: most + state.fit.v.size]] = True
    visited: np.ndarray = order[retained[order]]
    return visited
