"""The average of logistic models over sets of variables, each weighed by its probability.

[Z20]   G. Zanella. Informed proposals for local MCMC in discrete spaces. Journal of the American
        Statistical Association 115, 2020.

Up to six variables have all their sets summed, at every tau of the grid. More are sampled by a
Markov chain on the pairs (v, tau). A state proposes to flip one variable, to exchange one for
another, or to double or halve tau; of the first two kinds, move a has the rate
g_a = r_a / (1 + r_a), where r_a is the ratio of posteriors to second order (`logistic`), [Z20].
The proposal from v to v' is accepted with probability min(1, A),

    A = pi(v') g'_a' Z / (pi(v) g_a Z') ,    Z, Z' = the sums of the rates at v and v' ,

where pi is the posterior of the fitted sets, so that the chain samples it, whatever the rates.
Proposal and present state both count, by what the acceptance says (Frenkel 2006): a proposal that
is refused tells something too.
"""

from __future__ import annotations

import math
from itertools import combinations
from typing import NamedTuple

import numpy as np
from scipy.special import expit

from .averaging import MIN_INCLUSION, MAX_CANDIDATES
from .logistic import (
    ClassificationData,
    LogisticFit,
    exchange_gains,
    fit_model,
    score_all_additions,
    removal_gains,
)
from .logistic_search import (
    LogisticRules,
    LogisticState,
    integrate_tau,
    fit_state,
    add_variable_start,
    remove_variable_start,
)

MAX_ENUMERATED = 6  # of so many variables, at most, are summed
MAX_VISITED = 200  # variables
MAX_STEPS = 1600  # of the chain
MIN_STEPS = 100
STABILITY_TOL = 0.02  # the halves of the run may differ by this much in a probability of inclusion
SIZE_RATE = 0.25  # of doubling, and of halving, tau
SAMPLES_EACH = 20  # for every variable expected to be active before the classes are seen


class LogisticAverage(NamedTuple):
    """Means over all sets, in the units of the data."""

    inclusion: np.ndarray  # (p,) probability that a variable is active
    intercept: float  # mean
    mean: np.ndarray  # (p,) of the weights, zero where a variable is out
    candidates: np.ndarray  # (k,) the variables that `covariance` is about, rising
    covariance: np.ndarray  # (1 + k, 1 + k) of the intercept and their weights
    rest: float  # variance of h, on average, that is due to all other variables
    n_sets: int  # different sets that were seen
    by_number: np.ndarray  # (p, Q + 1) probability that a variable and q in all are active
    nothing: float  # probability that none is
    together: np.ndarray  # (k, k) probabilities that two of the likely variables are both active


def averaging_rules(data: ClassificationData, rules: LogisticRules) -> LogisticRules:
    """The prior of the average: that of the search times a geometric one, of the mean n / 20.

    Under that of the search alone all numbers of variables are alike before the classes are seen;
    where these cannot tell, few rows are then averaged over sets as large as they can bear.
    """
    price = math.log1p(SAMPLES_EACH / data.n)
    return rules._replace(log_prior=rules.log_prior - price * np.arange(rules.log_prior.size))


class WeightedFit(NamedTuple):
    """A fitted set and its share of the average."""

    fit: LogisticFit
    share: float


def sum_all(data: ClassificationData, rules: LogisticRules, k: int) -> list[WeightedFit]:
    """All sets at every tau, from that of number k on."""
    found: list[tuple[LogisticFit, float]] = []
    for q in range(min(data.X.shape[1], rules.max_size) + 1):
        for v in combinations(range(data.X.shape[1]), q):
            sized = integrate_tau(data, rules, fit_state(data, rules, np.array(v, dtype=int), k))
            log_posterior = sized.log_evidence + float(rules.log_prior[q])
            for fit, share in zip(sized.fits, sized.share, strict=True):
                found.append((fit, log_posterior + math.log(max(float(share), 1e-300))))
    heights = np.array([log_posterior for _, log_posterior in found])
    shares = np.exp(heights - np.logaddexp.reduce(heights))
    return [WeightedFit(fit, float(share)) for (fit, _), share in zip(found, shares, strict=True)]


class StateRates(NamedTuple):
    """A state of the chain, and where it may go."""

    fit: LogisticFit
    k: int  # the number of its tau
    log_posterior: float  # log posterior, up to a constant; also without variables tau has a prior
    flips: np.ndarray  # (p,) rates
    exchanges: np.ndarray  # (p, q) rates of j coming for the variable at place i
    sizes: np.ndarray  # (2,) rates of halving and doubling tau
    total: float  # of all rates


def chain_state(
    data: ClassificationData, rules: LogisticRules, fit: LogisticFit, k: int
) -> StateRates:
    """The rates of all moves from a fitted set."""
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
    """The set v at the tau of number k, fitted once; ``start`` is near its mode."""
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
    """The move at the share ``at`` of all rates, and with which probability it is accepted."""
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
    """The sets that a chain from ``state`` on visits, and how often: after as many steps as make
    its halves agree, or after ``steps``."""
    cache: FitCache = {}
    current = visit(data, rules, cache, state.fit.v, state.k, state.fit.mode)
    time: dict[int, float] = {}  # of each place, by its identity
    inclusion, half = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    check = MIN_STEPS
    for t in range(1, (MAX_STEPS if steps is None else steps) + 1):
        proposal, accepted = propose(data, rules, cache, current, rng.random())
        for place, share in ((proposal, accepted), (current, 1.0 - accepted)):
            time[id(place)] = time.get(id(place), 0.0) + share
            inclusion[place.fit.v] += share
        if t == check and steps is None:
            late = (inclusion - half) / (t - t // 2)
            if t > MIN_STEPS and float(np.abs(late - half / (t // 2)).max()) < STABILITY_TOL:
                break
            half, check = inclusion.copy(), 2 * check
        if rng.random() < accepted:
            current = proposal
    total = sum(time.values())
    return [
        WeightedFit(place.fit, time[id(place)] / total)
        for place in cache.values()
        if time.get(id(place), 0.0) > 0.0
    ]


def summarise(data: ClassificationData, sets: list[WeightedFit]) -> LogisticAverage:
    """Moments of the intercept and the weights over sets.

    The covariances of likely variables are kept; the others are taken to be as far from their
    means as they are on average.
    """
    p, c = data.X.shape[1], data.intercept
    by_number = np.zeros((p, 1 + max(each.fit.v.size for each in sets)))
    visited = np.unique(np.concatenate([each.fit.v for each in sets]))
    first, second = np.zeros(1 + visited.size), np.zeros((1 + visited.size, 1 + visited.size))
    both = np.zeros((visited.size, visited.size))
    for fit, share in sets:
        by_number[fit.v, fit.v.size] += share
        at = np.searchsorted(visited, fit.v)
        both[np.ix_(at, at)] += share
        at = at + 1
        if c:
            at = np.concatenate([[0], at])
        first[at] += share * fit.mode
        second[np.ix_(at, at)] += share * (fit.C + np.outer(fit.mode, fit.mode))
    covariance = second - np.outer(first, first)
    mean, inclusion = np.zeros(p), np.minimum(by_number.sum(axis=1), 1.0)  # 1 + rounding
    mean[visited] = first[1:]
    likely = np.argsort(-inclusion[visited], kind="stable")[:MAX_CANDIDATES]
    retained = np.sort(likely[inclusion[visited[likely]] >= MIN_INCLUSION])
    others = np.delete(np.arange(visited.size), retained)
    square = data.counts @ data.squares[:, visited[others]] / data.n
    rest = np.maximum(covariance.diagonal()[1 + others], 0.0) @ square
    places = np.concatenate([[0], 1 + retained])
    n_sets = len({tuple(each.fit.v.tolist()) for each in sets})
    return LogisticAverage(
        inclusion,
        float(first[0]),
        mean,
        visited[retained],
        covariance[np.ix_(places, places)],
        float(rest),
        n_sets,
        by_number,
        sum(each.share for each in sets if not each.fit.v.size),
        both[np.ix_(retained, retained)],
    )


def average_over_sets(
    data: ClassificationData, rules: LogisticRules, state: LogisticState, seed: int
) -> LogisticAverage:
    """The average over sets, from that of ``state`` on where they are too many to sum."""
    rules = averaging_rules(data, rules)
    if data.X.shape[1] <= MAX_ENUMERATED:
        return summarise(data, sum_all(data, rules, state.k))
    order = select_promising(data, state)
    places = np.full(data.X.shape[1], -1)
    places[order] = np.arange(order.size)
    subset = data._replace(X=data.X[:, order], squares=data.squares[:, order])
    start = state._replace(fit=state.fit._replace(v=places[state.fit.v]))
    found = summarise(subset, sample(subset, rules, start, np.random.default_rng(seed)))
    inclusion, mean = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    inclusion[order], mean[order] = found.inclusion, found.mean
    by_number = np.zeros((data.X.shape[1], found.by_number.shape[1]))
    by_number[order] = found.by_number
    rising = np.argsort(order[found.candidates])
    at = np.concatenate([[0], 1 + rising])
    return found._replace(
        inclusion=inclusion,
        mean=mean,
        candidates=order[found.candidates][rising],
        covariance=found.covariance[np.ix_(at, at)],
        by_number=by_number,
        together=found.together[np.ix_(rising, rising)],
    )


def select_promising(data: ClassificationData, state: LogisticState) -> np.ndarray:
    """The variables that the chain visits, those that would tell most alone first, so that the
    order of the columns does not matter to what is drawn.

    Of very many: those of ``state``, those that tell most alone, and those that would add most to
    ``state``. The others are hardly ever visited, but every state would pay for them.
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
