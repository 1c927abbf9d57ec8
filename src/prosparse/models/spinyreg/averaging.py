"""Bayesian model averaging over sets of variables.

[SB10]  J. G. Scott, J. O. Berger. Bayes and empirical-Bayes multiplicity adjustment in the
        variable-selection problem. Annals of Statistics 38(5), 2010.
[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

The prior on sets corrects for multiplicity, [SB10]. With few variables, all sets are enumerated.
With more variables, a Markov chain visits states x, which are sets together with a scale of the
coefficients. It proposes state y with probability g(x, y) / Z(x), where Z(x) is the sum of the
rates g(x, y). The stationary distribution is proportional to pi(x) Z(x), and a visit of x has
weight 1 / Z(x), [ZR19]. The acceptance probability

    min(1, pi(y) g(y, x) / (pi(x) g(x, y)))

is 1 if the rates are exact (`linear_states`) and corrects rates that are approximate
(`logistic_states`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from typing import Any, NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from .set_model import Coefficients, DenseSums, F, SetModel, StateSpace, Sums, VisitedState

MAX_STATES = 1000  # maximum number of states of the chain
MIN_STATES = 100  # number of states before the first convergence check
MIN_RATE = 1e-300  # total rate below which a state is absorbing
BURN_IN = 300  # number of states discarded if the chain is more than twice as long
STABILITY_TOL = 0.01  # maximum difference of inclusion probabilities between two halves of a run
MIN_INCLUSION = 0.01  # minimum inclusion probability of candidates, whose covariances are retained
MAX_CANDIDATES = 300  # maximum number of candidates
# Log evidence of all sets, relative to the best state with a dense component, above which the dense
# component is omitted.
MAX_DENSE_DROP = 12.0
# Number of variables up to which there is no dense component, because the full model is probable.
MAX_WITHOUT_DENSE = 30


class Average(NamedTuple):
    """Posterior means over all sets, for m responses, in the units of the model."""

    inclusion: np.ndarray  # (p,) probability that each variable is active
    nonzero: np.ndarray  # (p,) probability of a nonzero coefficient (active, or a dense component)
    by_size: np.ndarray  # (p, Q + 1) joint probability with a model size of 0, ..., Q
    size_probability: np.ndarray  # (Q + 1,) probability of the model size
    intercept: np.ndarray  # (m,) at the column means
    mean: np.ndarray  # (m, p) of the coefficients
    variance: np.ndarray  # (m, p) of the coefficients
    active_mean: np.ndarray  # (m, p) of each coefficient given that it is not zero
    active_variance: np.ndarray  # (m, p)
    candidates: np.ndarray  # (k,) variables of `covariance`, in increasing order
    covariance: np.ndarray  # (m, 1 + k, 1 + k) of intercept and coefficients
    together: np.ndarray  # (k, k) probability that two candidates are both active
    excluded_variance: np.ndarray  # (m,) mean contribution of all other variables to the variance
    sigma2: np.ndarray  # (m,) noise variance
    dense: DenseSums | None = None  # moments of the dense component, before `spread`
    dense_probability: float = 0.0


class Inclusion(NamedTuple):
    """Posterior probabilities of variables and model sizes, as in `Average`."""

    probability: np.ndarray  # (p,)
    by_size: np.ndarray  # (p, Q + 1)
    size_probability: np.ndarray  # (Q + 1,)


class Visits(NamedTuple):
    """Visited states, in order of the first visit."""

    position: dict[Hashable, int]
    keys: list[Hashable]
    states: list[VisitedState]
    spent: list[float]  # weight of each state

    def find(self, space: StateSpace, key: Hashable) -> int:
        """Return the position of a state, adding new states."""
        k = self.position.get(key)
        if k is None:
            k = self.position[key] = len(self.keys)
            self.keys.append(key)
            self.states.append(space.visit(key))
            self.spent.append(0.0)
        return k

    def inclusion(self, since: np.ndarray) -> np.ndarray:
        """Compute inclusion probabilities, (p,), from weights after ``since``."""
        time = np.array(self.spent)
        time[: since.size] -= since
        return time @ np.array([each.inclusion for each in self.states]) / time.sum()


def sample(
    space: StateSpace, v: np.ndarray, rng: np.random.Generator, targets: list[np.ndarray]
) -> tuple[Average, float]:
    """Average over the states of a Markov chain that starts at the set ``v``.

    ``targets`` are other probable sets. The average and the log evidence of all states are
    returned.
    """
    visits = Visits({}, [], [], [])
    half, check = np.zeros(0), MIN_STATES  # weight of each state in the first half
    burn = np.zeros(0)  # weight of each state before the chain is near stationarity
    k = visits.find(space, space.start(v, targets))
    for t in range(1, MAX_STATES + 1):
        state = visits.states[k]
        total = float(state.rates[-1])
        visits.spent[k] += 1.0 / max(total, MIN_RATE)
        if total < MIN_RATE:  # All neighbours then have probability zero in double precision.
            break
        if t == BURN_IN:
            burn = np.array(visits.spent)
        if t == check:
            if half.size:
                early = half @ np.array([each.inclusion for each in visits.states[: half.size]])
                apart = visits.inclusion(half) - early / half.sum()
                if float(np.abs(apart).max()) < STABILITY_TOL:
                    break
            half, check = np.array(visits.spent), 2 * check
        j = int(np.searchsorted(state.rates, rng.random() * total, side="right"))
        j = min(j, state.rates.size - 1)  # rounding
        new = visits.find(space, space.move(visits.keys[k], state, j))
        log_acceptance = space.log_acceptance(state, visits.states[new], j)
        if log_acceptance >= 0.0 or rng.random() < math.exp(log_acceptance):
            k = new
    spent = np.array(visits.spent)
    if t > 2 * BURN_IN:
        spent[: burn.size] -= burn
    weights = spent / spent.sum()
    used = np.flatnonzero(weights > 0.0)
    keys, states = [visits.keys[k] for k in used], [visits.states[k] for k in used]
    visited, sums = space.moments(keys, states, weights[used])
    inclusion = inclusion_from_visits(visits, weights, space.n_variables)
    log_evidence = space.log_evidence(keys, states, weights[used], inclusion.probability)
    return summarise(space, inclusion, visited, sums, all_candidates=False), log_evidence


def inclusion_from_visits(visits: Visits, weights: np.ndarray, p: int) -> Inclusion:
    """Compute inclusion probabilities jointly with the model size.

    Each variable is considered given all other variables of the current set. The model size is
    unchanged for a variable in the set, and one larger for any other variable.
    """
    sizes = np.array([each.v.size for each in visits.states])
    given = np.array([each.inclusion for each in visits.states])  # (states, p)
    inside = np.zeros(given.shape, dtype=bool)
    for row, each in zip(inside, visits.states, strict=True):
        row[each.v] = True
    by_size = np.zeros((p, int(sizes.max()) + 2))
    for q in np.unique(sizes):
        same = sizes == q
        by_size[:, q] += weights[same] @ np.where(inside[same], given[same], 0.0)
        by_size[:, q + 1] += weights[same] @ np.where(inside[same], 0.0, given[same])
    size_probability = np.bincount(sizes, weights, by_size.shape[1])
    return Inclusion(weights @ given, by_size, size_probability)


def summarise(
    space: StateSpace, inclusion: Inclusion, seen: np.ndarray, sums: Sums, all_candidates: bool
) -> Average:
    """Assemble the average from the sums over the variables ``seen``.

    Covariances of the candidates are retained; other variables contribute their mean variance.
    """
    p, m = space.n_variables, sums.sigma2.size
    # Rounding can make a sum of probabilities exceed 1.
    inclusion = inclusion._replace(probability=np.minimum(inclusion.probability, 1.0))
    probability = inclusion.probability[seen]
    covariance = sums.second - sums.first[:, :, None] * sums.first[:, None, :]
    retained = np.arange(seen.size)
    if not all_candidates:
        first = np.argsort(-probability, kind="stable")[:MAX_CANDIDATES]
        retained = np.sort(first[probability[first] >= MIN_INCLUSION])
    others = np.delete(np.arange(seen.size), retained)
    mean, variance, active_mean, active_variance = (np.zeros((m, p)) for _ in range(4))
    squares = np.diagonal(sums.second, axis1=1, axis2=2)[:, 1:]
    weight = np.maximum(sums.weight, np.finfo(float).tiny)
    mean[:, seen] = sums.first[:, 1:]
    variance[:, seen] = np.maximum(np.diagonal(covariance, axis1=1, axis2=2)[:, 1:], 0.0)
    active_mean[:, seen] = sums.first[:, 1:] / weight
    active_variance[:, seen] = np.maximum(squares / weight - active_mean[:, seen] ** 2, 0.0)
    with_intercept = np.concatenate([[0], 1 + retained])
    return Average(
        inclusion.probability,
        inclusion.probability,
        inclusion.by_size,
        inclusion.size_probability,
        sums.first[:, 0],
        mean,
        variance,
        active_mean,
        active_variance,
        seen[retained],
        covariance[:, with_intercept][:, :, with_intercept],
        sums.together[np.ix_(retained, retained)],
        variance[:, seen[others]] @ space.mean_squares()[seen[others]],
        sums.sigma2,
        sums.dense,
    )


def average_over_sets(
    model: SetModel[F],
    log_prior: np.ndarray,
    fit: F,
    targets: list[np.ndarray],
    seed: int,
    all_columns: bool = True,
) -> Average:
    """Average over sets by enumeration or sampling.

    Sampling starts from the set of ``fit``; ``targets`` are other probable sets. A second chain
    samples sets with a dense component, which affects only the coefficients; probabilities of
    variables and sizes are those without a dense component. The second chain requires that
    ``model`` contains all columns, because a shortlist of those most correlated with the response
    would overestimate the dense component.
    """
    space = model.states(log_prior, fit)
    p = space.n_variables
    if p <= space.max_enumerated:
        sums, by_size, size_probability = space.enumerate_sets()
        inclusion = Inclusion(sums.weight, by_size, size_probability)
        return summarise(space, inclusion, np.arange(p), sums, all_candidates=True)
    order = select_promising(model, fit, space.max_visited)
    positions = np.full(p, -1)
    positions[order] = np.arange(order.size)
    start, rng = positions[fit.v], np.random.default_rng(seed)
    others = [positions[v] for v in targets if np.all(positions[v] >= 0)]

    found, log_evidence = sample(space.take(order), start, rng, others)
    average = spread(found, order, p)
    dense = space.with_dense_component() if all_columns and p > MAX_WITHOUT_DENSE else None
    if dense is None:
        return average
    dense = dense.take(order)
    if dense.max_log_posterior(start) < log_evidence - MAX_DENSE_DROP:
        return average
    found, log_dense = sample(dense, start, rng, others)
    alternative = spread(found, order, p)
    probability = float(expit(log_dense - log_evidence))
    mixed = mix(average, alternative, 1.0 - probability, space.mean_squares())
    return mixed._replace(dense_probability=probability)


def spread(average: Average, order: np.ndarray, p: int) -> Average:
    """Expand an average of the variables ``order`` to all p variables."""
    increasing = np.argsort(order[average.candidates])
    at = np.concatenate([[0], 1 + increasing])

    def everywhere(values: np.ndarray) -> np.ndarray:
        full = np.zeros((*values.shape[:-1], p))
        full[..., order] = values
        return full

    by_variable: Any = {
        name: everywhere(getattr(average, name))
        for name in ("inclusion", "nonzero", "mean", "variance", "active_mean", "active_variance")
    }
    found = average._replace(
        by_size=everywhere(average.by_size.T).T,
        candidates=order[average.candidates][increasing],
        covariance=average.covariance[:, at][:, :, at],
        together=average.together[np.ix_(increasing, increasing)],
        **by_variable,
    )
    if average.dense is None:
        return found
    mean = found.mean + average.dense.mean
    variance = found.variance + average.dense.variance
    return found._replace(
        nonzero=np.ones(p),
        mean=mean,
        variance=variance,
        active_mean=mean,
        active_variance=variance,
        excluded_variance=average.excluded_variance + average.dense.predictive,
    )


def select_promising(model: SetModel[F], fit: F, max_visited: int) -> np.ndarray:
    """Select the variables considered by the Markov chain.

    The variables are sorted by their correlation with the response.

    This order makes the draws independent of the column order. If there are too many variables,
    those of ``fit``, those most correlated with y and those that would add most to ``fit`` are
    selected. All others would rarely be visited but would increase the cost of every state.
    """
    order = np.argsort(-model.marginal(), kind="stable")
    if order.size <= max_visited:
        return order
    gain = model.addition_gains(fit)
    gain[fit.v] = np.inf
    most = max_visited // 2
    retained = np.zeros(order.size, dtype=bool)
    retained[order[:most]] = True
    retained[np.argsort(-gain, kind="stable")[: most + fit.v.size]] = True
    visited: np.ndarray = order[retained[order]]
    return visited


def mix(first: Average, second: Average, weight: float, mean_squares: np.ndarray) -> Average:
    """Mix two posteriors of coefficients; ``weight`` is that of the first.

    The probabilities of variables and sizes remain those of the first.
    """
    candidates = np.union1d(first.candidates, second.candidates)
    between = weight * (1.0 - weight)  # variance of the mixture indicator

    def within(average: Average, matrix: np.ndarray) -> np.ndarray:
        """Expand the last two axes to the candidates of both posteriors."""
        at = np.searchsorted(candidates, average.candidates)
        n_others = matrix.shape[-1] - at.size
        at = np.concatenate([np.arange(n_others), n_others + at])
        full = np.zeros(
            (*matrix.shape[:-2], n_others + candidates.size, n_others + candidates.size)
        )
        full[..., at[:, None], at] = matrix
        return full

    def mixed(a: np.ndarray, b: np.ndarray) -> np.ndarray:
        return weight * a + (1.0 - weight) * b

    apart = first.mean - second.mean
    excluded = apart**2 * mean_squares
    excluded[:, candidates] = 0.0
    apart = np.column_stack([first.intercept - second.intercept, apart[:, candidates]])
    covariance = mixed(within(first, first.covariance), within(second, second.covariance))
    nonzero = mixed(first.nonzero, second.nonzero)
    total = np.maximum(nonzero, np.finfo(float).tiny)
    active_mean, squares = (
        mixed(first.nonzero * a, second.nonzero * b) / total
        for a, b in (
            (first.active_mean, second.active_mean),
            (
                first.active_variance + first.active_mean**2,
                second.active_variance + second.active_mean**2,
            ),
        )
    )
    return first._replace(
        nonzero=nonzero,
        intercept=mixed(first.intercept, second.intercept),
        mean=mixed(first.mean, second.mean),
        variance=mixed(first.variance, second.variance) + between * (first.mean - second.mean) ** 2,
        active_mean=active_mean,
        active_variance=np.maximum(squares - active_mean**2, 0.0),
        candidates=candidates,
        covariance=covariance + between * apart[:, :, None] * apart[:, None, :],
        together=within(first, first.together),
        excluded_variance=mixed(first.excluded_variance, second.excluded_variance)
        + between * excluded.sum(axis=1),
        sigma2=mixed(first.sigma2, second.sigma2),
    )


def temper(
    average: Average, empty: Coefficients, mean_squares: np.ndarray, weight: float
) -> Average:
    """Move the probability 1 - ``weight`` of all sets to the empty set."""
    if weight >= 1.0:
        return average
    none = np.zeros_like(average.mean)
    nothing = average._replace(
        nonzero=none[0],
        intercept=empty.intercept,
        mean=none,
        variance=none,
        active_mean=none,
        active_variance=none,
        candidates=average.candidates[:0],
        covariance=empty.covariance[:, :1, :1],
        excluded_variance=np.zeros(empty.sigma2.size),
        sigma2=empty.sigma2,
    )
    size_probability = weight * average.size_probability
    size_probability[0] += 1.0 - weight
    return mix(average, nothing, weight, mean_squares)._replace(
        inclusion=weight * average.inclusion,
        by_size=weight * average.by_size,
        size_probability=size_probability,
        together=weight * average.together,
        dense_probability=weight * average.dense_probability,
    )


def mixture_interval(
    inclusion: np.ndarray, mean: np.ndarray, deviation: np.ndarray, level: float
) -> np.ndarray:
    """Compute equal-tailed intervals of spike-and-slab posteriors.

    A coefficient is exactly zero with probability 1 - ``inclusion``, otherwise normal. If the point
    mass at zero contains a quantile, the quantile is zero.
    """
    least = np.finfo(float).tiny
    a, spread = np.maximum(inclusion, least), np.maximum(deviation, least)
    negative = a * ndtr(-mean / spread)
    ends = []
    for tail in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        # This is the quantile level within the normal component.
        level_in = np.where(tail < negative, tail, tail - (1.0 - a)) / a
        end = mean + spread * ndtri(np.clip(level_in, least, 1.0 - 1e-16))
        ends.append(np.where((tail >= negative) & (tail <= negative + 1.0 - a), 0.0, end))
    return np.stack(ends, axis=-1)
