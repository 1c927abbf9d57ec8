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

from .averaging import LIKELY, MOST_LIKELY
from .logistic import (
    Labelled,
    LogisticFit,
    exchange_gains,
    fit_model,
    outside,
    removal_gains,
)
from .logistic_search import (
    LogisticRules,
    LogisticState,
    over_sizes,
    state_of,
    with_variable,
    without_variable,
)

ALL_SETS = 6  # of so many variables, at most, are summed
MOST_VISITED = 200  # variables
MOST_STEPS = 1600  # of the chain
FEWEST_STEPS = 100
STEADY = 0.02  # the halves of the run may differ by this much in a probability of inclusion
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


def rules_of_average(data: Labelled, rules: LogisticRules) -> LogisticRules:
    """The prior of the average: that of the search times a geometric one, of the mean n / 20.

    Under that of the search alone all numbers of variables are alike before the classes are seen;
    where these cannot tell, few rows are then averaged over sets as large as they can bear.
    """
    price = math.log1p(SAMPLES_EACH / data.n)
    return rules._replace(log_prior=rules.log_prior - price * np.arange(rules.log_prior.size))


class Weighed(NamedTuple):
    """A fitted set and its share of the average."""

    fit: LogisticFit
    share: float


def sum_all(data: Labelled, rules: LogisticRules, k: int) -> list[Weighed]:
    """All sets at every tau, from that of number k on."""
    found: list[tuple[LogisticFit, float]] = []
    for q in range(min(data.X.shape[1], rules.limit) + 1):
        for v in combinations(range(data.X.shape[1]), q):
            sized = over_sizes(data, rules, state_of(data, rules, np.array(v, dtype=int), k))
            height = sized.log_evidence + float(rules.log_prior[q])
            for fit, share in zip(sized.fits, sized.share, strict=True):
                found.append((fit, height + math.log(max(float(share), 1e-300))))
    heights = np.array([height for _, height in found])
    shares = np.exp(heights - np.logaddexp.reduce(heights))
    return [Weighed(fit, float(share)) for (fit, _), share in zip(found, shares, strict=True)]


class Place(NamedTuple):
    """A state of the chain, and where it may go."""

    fit: LogisticFit
    k: int  # the number of its tau
    height: float  # log posterior, up to a constant; also without variables tau has a prior
    flips: np.ndarray  # (p,) rates
    exchanges: np.ndarray  # (p, q) rates of j coming for the variable at place i
    sizes: np.ndarray  # (2,) rates of halving and doubling tau
    total: float  # of all rates


def place_of(data: Labelled, rules: LogisticRules, fit: LogisticFit, k: int) -> Place:
    """The rates of all moves from a fitted set."""
    q, log_prior = fit.v.size, rules.log_prior
    near = outside(data, fit)
    more = log_prior[q + 1] - log_prior[q] if q < rules.limit else -math.inf
    flips = expit(near.gain + more)
    exchanges = np.zeros((data.X.shape[1], q))
    if q:
        flips[fit.v] = expit(removal_gains(data, fit) + (log_prior[q - 1] - log_prior[q]))
        exchanges = expit(exchange_gains(data, fit, near))
    sizes = np.where([k > 0, k + 1 < rules.log_tau.size], SIZE_RATE, 0.0)
    total = float(flips.sum() + exchanges.sum() + sizes.sum())
    height = fit.log_evidence + float(rules.log_size[k]) + float(log_prior[q])
    return Place(fit, k, height, flips, exchanges, sizes, total)


Known = dict[tuple[tuple[int, ...], int], Place]


def visit(
    data: Labelled, rules: LogisticRules, known: Known, v: np.ndarray, k: int, start: np.ndarray
) -> Place:
    """The set v at the tau of number k, fitted once; ``start`` is near its mode."""
    order = np.argsort(v)
    key = (tuple(v[order].tolist()), k)
    if key not in known:
        c = data.intercept
        near = np.concatenate([start[:c], start[c:][order]])
        fit = fit_model(data, v[order], float(rules.log_tau[k]), near)
        known[key] = place_of(data, rules, fit, k)
    return known[key]


def propose(
    data: Labelled, rules: LogisticRules, known: Known, here: Place, at: float
) -> tuple[Place, float]:
    """The move at the share ``at`` of all rates, and with which probability it is accepted."""
    fit, k, p = here.fit, here.k, data.X.shape[1]
    steps = np.cumsum(np.concatenate([here.sizes, here.flips, here.exchanges.ravel()]))
    move = min(int(np.searchsorted(steps, at * steps[-1], side="right")), steps.size - 1)
    if move < 2:
        there = visit(data, rules, known, fit.v, k + 2 * move - 1, fit.mode)
        forth = back = SIZE_RATE
    elif move < 2 + p:
        j = move - 2
        inside = np.flatnonzero(fit.v == j)
        if inside.size:
            v, start = without_variable(data, fit, int(inside[0]))
        else:
            v, start = with_variable(data, fit, j)
        there = visit(data, rules, known, v, k, start)
        forth, back = float(here.flips[j]), float(there.flips[j])
    else:
        j, i = divmod(move - 2 - p, fit.v.size)
        v, start = without_variable(data, fit, i)
        there = visit(data, rules, known, np.append(v, j), k, np.append(start, 0.0))
        forth = float(here.exchanges[j, i])
        back = float(there.exchanges[fit.v[i], np.searchsorted(there.fit.v, j)])
    if not back > 0.0:
        return there, 0.0
    rates = math.log(back) + math.log(here.total) - math.log(forth) - math.log(there.total)
    return there, math.exp(min(there.height - here.height + rates, 0.0))


def sample(
    data: Labelled,
    rules: LogisticRules,
    state: LogisticState,
    rng: np.random.Generator,
    steps: int | None = None,
) -> list[Weighed]:
    """The sets that a chain from ``state`` on visits, and how often: after as many steps as make
    its halves agree, or after ``steps``."""
    known: Known = {}
    here = visit(data, rules, known, state.fit.v, state.k, state.fit.mode)
    time: dict[int, float] = {}  # of each place, by its identity
    inclusion, half = np.zeros(data.X.shape[1]), np.zeros(data.X.shape[1])
    check = FEWEST_STEPS
    for t in range(1, (MOST_STEPS if steps is None else steps) + 1):
        there, accepted = propose(data, rules, known, here, rng.random())
        for place, share in ((there, accepted), (here, 1.0 - accepted)):
            time[id(place)] = time.get(id(place), 0.0) + share
            inclusion[place.fit.v] += share
        if t == check and steps is None:
            late = (inclusion - half) / (t - t // 2)
            if t > FEWEST_STEPS and float(np.abs(late - half / (t // 2)).max()) < STEADY:
                break
            half, check = inclusion.copy(), 2 * check
        if rng.random() < accepted:
            here = there
    total = sum(time.values())
    return [
        Weighed(place.fit, time[id(place)] / total)
        for place in known.values()
        if time.get(id(place), 0.0) > 0.0
    ]


def average_of(data: Labelled, sets: list[Weighed]) -> LogisticAverage:
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
    likely = np.argsort(-inclusion[visited], kind="stable")[:MOST_LIKELY]
    kept = np.sort(likely[inclusion[visited[likely]] >= LIKELY])
    others = np.delete(np.arange(visited.size), kept)
    square = data.counts @ data.squares[:, visited[others]] / data.n
    rest = np.maximum(covariance.diagonal()[1 + others], 0.0) @ square
    places = np.concatenate([[0], 1 + kept])
    n_sets = len({tuple(each.fit.v.tolist()) for each in sets})
    return LogisticAverage(
        inclusion,
        float(first[0]),
        mean,
        visited[kept],
        covariance[np.ix_(places, places)],
        float(rest),
        n_sets,
        by_number,
        sum(each.share for each in sets if not each.fit.v.size),
        both[np.ix_(kept, kept)],
    )


def average_over_sets(
    data: Labelled, rules: LogisticRules, state: LogisticState, seed: int
) -> LogisticAverage:
    """The average over sets, from that of ``state`` on where they are too many to sum."""
    rules = rules_of_average(data, rules)
    if data.X.shape[1] <= ALL_SETS:
        return average_of(data, sum_all(data, rules, state.k))
    order = promising(data, state)
    places = np.full(data.X.shape[1], -1)
    places[order] = np.arange(order.size)
    some = data._replace(X=data.X[:, order], squares=data.squares[:, order])
    start = state._replace(fit=state.fit._replace(v=places[state.fit.v]))
    found = average_of(some, sample(some, rules, start, np.random.default_rng(seed)))
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


def promising(data: Labelled, state: LogisticState) -> np.ndarray:
    """The variables that the chain visits, those that would tell most alone first, so that the
    order of the columns does not matter to what is drawn.

    Of very many: those of ``state``, those that tell most alone, and those that would add most to
    ``state``. The others are hardly ever visited, but every state would pay for them.
    """
    none = fit_model(data, np.array([], dtype=int), state.fit.log_tau)
    order = np.argsort(-outside(data, none).gain, kind="stable")
    if order.size <= MOST_VISITED:
        return order
    gain = outside(data, state.fit).gain
    gain[state.fit.v] = np.inf
    most = MOST_VISITED // 2
    kept = np.zeros(order.size, dtype=bool)
    kept[order[:most]] = True
    kept[np.argsort(-gain, kind="stable")[: most + state.fit.v.size]] = True
    visited: np.ndarray = order[kept[order]]
    return visited
