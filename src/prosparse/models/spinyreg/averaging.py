"""The average over sets of variables, each weighed by its probability.

[SB10]  J. G. Scott, J. O. Berger. Bayes and empirical-Bayes multiplicity adjustment in the
        variable-selection problem. Annals of Statistics 38(5), 2010.
[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Nothing is maximised here. Given the set v and lambda, w ~ N(0, sigma2 I / lambda) and
p(sigma2) ~ 1/sigma2 integrate out in closed form: with f degrees of freedom of y,

    log p(y | v, lambda) = -f/2 log R - 1/2 log det(I + X_v'X_v / lambda) + constant ,

    E[w] = m,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) ,

with P, m and R as in `model`. The size of the weights, tau = weight of a column of unit variance
over the deviation of the noise, has a half-Cauchy prior; a grid of doublings of tau, on which
lambda = 1/tau^2, integrates it. The prior of the sets pays for how many there are of each size,
[SB10].

Up to ten variables have all their sets summed. More are sampled by a jump process on the pairs
(v, lambda): every flip of one variable, and every change of lambda, has the rate
pi(there) / (pi(here) + pi(there)), so that detailed balance holds, and the time that a state lasts
is known, 1 / (sum of its rates). No proposal is ever refused, [ZR19]. All rates come from the
rank-one formulas of `model`, and they are at the same time the probabilities of every variable
given all others: averaging these (Rao & Blackwell) needs far fewer states than counting visits.

Where a few variables explain y together and none of them much alone, all sets between none and
these are improbable, and single flips would hardly ever cross. The search has been on both sides:
the sets that it passed are stepping stones, and between any two of them, at any two lambda, the
process jumps at a rate of the same form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dsyevd
from scipy.special import expit, ndtr, ndtri

from .credible import credible_sets
from .model import (
    FitSums,
    RegressionFit,
    RegressionMoments,
    exchange_gains,
    neighbours,
    removal_gains,
)

ALL_SETS = 10  # of so many variables, at most, are summed
MOST_VISITED = 400  # variables
MOST_STATES = 1000  # of the jump process
FEWEST_STATES = 100
STEADY = 0.01  # the halves of the run may differ by this much in a probability of inclusion
DOUBLINGS = 4  # of tau, on either side of its best value
LARGEST = 16  # doublings of tau: beyond, lambda is lost in the rounding of X'X
STEEP = 15.0  # a stepping stone is at most so far below the best one, in log posterior
LIKELY = 0.01  # inclusion from which on the covariances of a weight are kept, not only its variance
MOST_LIKELY = 300  # variables whose covariances are kept, at most


class WeightSizes(NamedTuple):
    """A grid of lambda, which stands for the size of weights, and its prior."""

    log_ratio: np.ndarray  # (K,) log lambda
    log_prior: np.ndarray  # (K,) log prior mass


class SetPrior(NamedTuple):
    """What is believed before y is seen."""

    log_prior: np.ndarray  # (p + 1,) of each set of 0 .. p variables, -inf for those too large
    sizes: WeightSizes
    free: float  # degrees of freedom of y


class Average(NamedTuple):
    """Means over all sets, in the units of the moments."""

    inclusion: np.ndarray  # (p,) probability that a variable is active
    by_number: np.ndarray  # (p, Q + 1) of that and, at the same time, of 0 .. Q active variables
    number: np.ndarray  # (Q + 1,) probability that 0 .. Q variables are active
    mean: np.ndarray  # (p,) of the weights, zero where a variable is out
    variance: np.ndarray  # (p,) of the weights
    active_mean: np.ndarray  # (p,) of each weight where its variable is active
    active_variance: np.ndarray  # (p,)
    likely: np.ndarray  # (k,) the variables that `covariance` is about, rising
    covariance: np.ndarray  # (k, k) of their weights: within sets, and between them
    together: np.ndarray  # (k, k) probability that both are active, by the sets that were seen
    rest: float  # variance of a prediction, on average, that is due to all others
    sigma2: float  # noise variance
    n_sets: int  # different sets that were seen


def weight_sizes(data: RegressionMoments, best: float) -> WeightSizes:
    """Doublings of tau around that of the log lambda ``best``, weighed by the half-Cauchy density
    2 / (pi (1 + tau^2)).

    The doublings lie on one lattice for all tables: a rounding of ``best`` changes nothing.
    Weights far below 1/sqrt(n) cannot be seen, and the grid does not go there.
    """
    unit = math.log(float(data.d.mean()) / data.n)  # lambda of tau = 1
    lowest = math.floor(-0.5 * math.log2(data.n)) - 1
    middle = (unit - best) / (2.0 * math.log(2.0))  # log2 of the best tau
    centre = round(min(max(middle, lowest + DOUBLINGS), LARGEST - DOUBLINGS))
    log_tau = math.log(2.0) * np.arange(max(centre - DOUBLINGS, lowest), centre + DOUBLINGS + 1)
    # density of log tau: tau times that of tau
    log_prior = log_tau - np.logaddexp(0.0, 2.0 * log_tau)
    return WeightSizes(unit - 2.0 * log_tau, log_prior - np.logaddexp.reduce(log_prior))


class Spectrum(NamedTuple):
    """Sets of one size at every lambda, from eigenvalues of X_v'X_v."""

    e: np.ndarray  # (..., q) eigenvalues
    U: np.ndarray  # (..., q, q) eigenvectors
    c: np.ndarray  # (..., q) U'X_v'y
    R: np.ndarray  # (..., K)
    log_density: np.ndarray  # (..., K) log p(y | v, lambda) + log p(lambda)


def spectrum(data: RegressionMoments, prior: SetPrior, v: np.ndarray) -> Spectrum:
    """Of the sets ``v``, (..., q)."""
    e, U = np.linalg.eigh(data.G[v[..., :, None], v[..., None, :]])
    e = np.maximum(e, 0.0)
    c = np.einsum("...ij,...i->...j", U, data.b[v])
    lam = np.exp(prior.sizes.log_ratio)
    grown = e[..., None, :] + lam[:, None]  # (..., K, q)
    left = data.yy - ((c * c)[..., None, :] / grown).sum(axis=-1)
    R = np.maximum(left, prior.free * data.floor)
    log_det = np.log(grown / lam[:, None]).sum(axis=-1)
    return Spectrum(e, U, c, R, -0.5 * (prior.free * np.log(R) + log_det) + prior.sizes.log_prior)


def noise_of(R: np.ndarray, free: float) -> np.ndarray:
    """The mean of the noise variance, which few degrees of freedom do not have."""
    return R / max(free - 2, 1)


class Sums(NamedTuple):
    """First and second moments of the weights, summed over sets."""

    weight: np.ndarray  # (p,)
    together: np.ndarray  # (p, p) of two variables
    first: np.ndarray  # (p,)
    second: np.ndarray  # (p, p)
    sigma2: np.ndarray  # ()


def no_sums(p: int) -> Sums:
    """Where summing starts."""
    return Sums(np.zeros(p), np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), np.zeros(()))


def add_sets(sums: Sums, prior: SetPrior, v: np.ndarray, of: Spectrum, weights: np.ndarray) -> None:
    """Add the sets ``v``, (S, q), of the weights (S, K) at each lambda to ``sums``."""
    np.add(sums.sigma2, (weights * noise_of(of.R, prior.free)).sum(), out=sums.sigma2)
    if v.shape[1] == 0:
        return
    grown = of.e[:, None, :] + np.exp(prior.sizes.log_ratio)[:, None]  # (S, K, q)
    m = np.einsum("sij,skj->ski", of.U, of.c[:, None, :] / grown)
    scale = np.einsum("sk,skj->sj", weights * noise_of(of.R, prior.free), 1.0 / grown)
    second = np.einsum("sij,sj,slj->sil", of.U, scale, of.U)
    second += np.einsum("sk,ski,skj->sij", weights, m, m)
    weight = weights.sum(axis=1)
    np.add.at(sums.weight, v, weight[:, None])
    np.add.at(sums.together, (v[:, :, None], v[:, None, :]), weight[:, None, None])
    np.add.at(sums.first, v, np.einsum("sk,ski->si", weights, m))
    np.add.at(sums.second, (v[:, :, None], v[:, None, :]), second)


class Inclusion(NamedTuple):
    """How probable variables, and numbers of them, are: as in `Average`."""

    probability: np.ndarray  # (p,)
    by_number: np.ndarray  # (p, Q + 1)
    number: np.ndarray  # (Q + 1,)


def sum_all(data: RegressionMoments, prior: SetPrior) -> Average:
    """The exact average over all sets, where these are few."""
    p = data.b.size
    bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1
    sizes = bits.sum(axis=1)
    groups, log_weights = [], []
    numbers = np.flatnonzero(np.isfinite(prior.log_prior))
    for q in numbers:
        v = np.nonzero(bits[sizes == q])[1].reshape(np.count_nonzero(sizes == q), q)
        of = spectrum(data, prior, v)
        groups.append((v, of))
        log_weights.append(of.log_density + prior.log_prior[q])
    top = max(float(each.max()) for each in log_weights)
    total = sum(float(np.exp(each - top).sum()) for each in log_weights)
    sums = no_sums(p)
    by_number = np.zeros((p, numbers[-1] + 1))
    for q, (v, of), log_weight in zip(numbers, groups, log_weights, strict=True):
        before = sums.weight.copy()
        add_sets(sums, prior, v, of, np.exp(log_weight - top) / total)
        by_number[:, q] = sums.weight - before
    number = np.array([float(np.exp(each - top).sum()) / total for each in log_weights])
    n_sets = sum(len(v) for v, _ in groups)
    told = Inclusion(sums.weight, by_number, number)
    return average_of(data, told, sums.first, np.arange(p), sums, n_sets)


def average_of(
    data: RegressionMoments,
    told: Inclusion,
    mean: np.ndarray,
    seen: np.ndarray,
    sums: Sums,
    n_sets: int,
) -> Average:
    """The average whose second moments, of the variables ``seen``, are in ``sums``.

    Where all sets are summed all covariances are kept; of many variables those of the likely ones,
    and the others are taken to be as far from their means as they are on average.
    """
    covariance, inclusion = sums.second - np.outer(sums.first, sums.first), told.probability
    kept = np.arange(seen.size)
    if mean.size > ALL_SETS:
        first = np.argsort(-inclusion[seen], kind="stable")[:MOST_LIKELY]
        kept = np.sort(first[inclusion[seen[first]] >= LIKELY])
    others = np.delete(np.arange(seen.size), kept)
    square = data.d[seen[others]] / data.n
    variance, active_mean, active_variance = (np.zeros(mean.size) for _ in range(3))
    variance[seen] = np.maximum(covariance.diagonal(), 0.0)
    weight = np.maximum(sums.weight, np.finfo(float).tiny)
    active_mean[seen] = sums.first / weight
    spread = sums.second.diagonal() / weight - active_mean[seen] ** 2
    active_variance[seen] = np.maximum(spread, 0.0)
    return Average(
        *told,
        mean,
        variance,
        active_mean,
        active_variance,
        seen[kept],
        covariance[kept][:, kept],
        sums.together[kept][:, kept],
        float(variance[seen[others]] @ square),
        float(sums.sigma2),
        n_sets,
    )


class Place(NamedTuple):
    """A state of the jump process, and all that it tells."""

    rates: np.ndarray  # (p + K,) to flip each variable, to change to each lambda; where jumps
    # start, (p + K + S K,), see `Stones`
    inclusion: np.ndarray  # (p,) of each variable given all others


def place(data: RegressionMoments, prior: SetPrior, v: np.ndarray, k: int) -> Place:
    """The set ``v`` at the lambda of number ``k``.

    The run spends its time here: one eigendecomposition gives P at this lambda and the density
    at all of them, as in `spectrum`, with fewer calls.
    """
    p, q, lam = data.b.size, v.size, np.exp(prior.sizes.log_ratio)
    log_ratio, b = float(prior.sizes.log_ratio[k]), data.b.take(v)
    if q:
        e, U, _ = dsyevd(data.gram(v))
        grown = np.maximum(e, 0.0)[:, None] + lam
        c = b.dot(U)
        R = np.maximum(data.yy - (c * c).dot(1.0 / grown), prior.free * data.floor)
        log_det = np.log(grown / lam).sum(axis=0)
        log_density = prior.sizes.log_prior - 0.5 * (prior.free * np.log(R) + log_det)
        P = (U / grown[:, k]).dot(U.T)
    else:
        R, log_density, P = np.full(lam.size, data.yy), prior.sizes.log_prior, np.zeros((0, 0))
    m = P.dot(b)
    sums = FitSums(float(R[k]), 0.0, 0.0, 0.0, 0.0)  # of which R alone is asked for below
    fit = RegressionFit(v, log_ratio, P, m, sums, 0.0, 0.0, 0.0, 0.0)
    near = neighbours(fit, data.G.take(v, axis=1), data.d, data.b, prior.free)
    more = prior.log_prior[q + 1] - prior.log_prior[q] if q < p else -math.inf
    odds = near.gain + more  # of each variable, given all others
    if q:
        less = prior.log_prior[q - 1] - prior.log_prior[q]
        odds[v] = -(removal_gains(fit, prior.free) + less)
    inclusion = expit(odds)
    rates = np.concatenate([inclusion, expit(log_density - log_density[k])])
    rates[v] = expit(-odds[v])
    rates[p + k] = 0.0
    return Place(rates, inclusion)


class Stones(NamedTuple):
    """Sets between which the process jumps."""

    sets: list[tuple[int, ...]]  # variables of each, rising
    number: dict[tuple[int, ...], int]  # of each in `sets`
    log_density: np.ndarray  # (S, K) log posterior at each lambda

    def rates(self, here: tuple[int, ...], k: int) -> np.ndarray:
        """(S K,) to all others at each lambda, none where ``here`` is no stone."""
        i = self.number.get(here)
        if i is None:
            return np.zeros(0)
        rates = expit(self.log_density - self.log_density[i, k])
        rates[i] = 0.0  # these are changes of lambda
        return rates.ravel()


def stepping_stones(data: RegressionMoments, prior: SetPrior, sets: list[np.ndarray]) -> Stones:
    """Those of ``sets`` that are not too improbable."""
    found = {}
    for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets):
        of = spectrum(data, prior, np.array(v, dtype=int))
        found[v] = of.log_density + prior.log_prior[len(v)]
    top = max((float(density.max()) for density in found.values()), default=0.0)
    kept = [v for v, density in found.items() if density.max() > top - STEEP]
    log_density = np.array([found[v] for v in kept]).reshape(len(kept), prior.sizes.log_ratio.size)
    return Stones(kept, {v: i for i, v in enumerate(kept)}, log_density)


def sample(
    data: RegressionMoments,
    prior: SetPrior,
    v: np.ndarray,
    rng: np.random.Generator,
    passed: list[np.ndarray],
) -> Average:
    """The average over the states of a jump process that starts at the set ``v``; ``passed`` are
    sets that may be stepping stones."""
    p, K = data.b.size, prior.sizes.log_ratio.size
    stones = stepping_stones(data, prior, [v, v[:0], *passed])
    k = int(np.argmax(spectrum(data, prior, v).log_density))
    seen: dict[tuple[int, ...], float] = {}  # time spent in each set
    known: dict[tuple[int, ...], Place] = {}
    inclusion, half, total, half_total = np.zeros(p), np.zeros(p), 0.0, 0.0
    by_number: dict[int, np.ndarray] = {}  # of `inclusion`, with so many active variables
    check = FEWEST_STATES
    here = tuple(sorted(v.tolist()))
    for t in range(1, MOST_STATES + 1):
        at = known.get((*here, -1 - k))
        if at is None:
            at = place(data, prior, np.array(here, dtype=int), k)
            at = at._replace(rates=np.append(at.rates, stones.rates(here, k)))
            known[*here, -1 - k] = at
        steps = np.cumsum(at.rates)
        time = 1.0 / float(steps[-1])
        total += time
        seen[here] = seen.get(here, 0.0) + time
        inclusion += time * at.inclusion
        add_by_number(by_number, here, time * at.inclusion)
        if t == check:
            if half_total:
                late = (inclusion - half) / (total - half_total)
                if float(np.abs(late - half / half_total).max()) < STEADY:
                    break
            half, half_total, check = inclusion.copy(), total, 2 * check
        j = int(np.searchsorted(steps, rng.random() * steps[-1], side="right"))
        j = min(j, steps.size - 1)  # rounding
        if j >= p + K:
            stone, k = divmod(j - p - K, K)
            here = stones.sets[stone]
        elif j >= p:
            k = j - p
        elif j in here:
            here = tuple(i for i in here if i != j)
        else:
            here = tuple(sorted((*here, j)))
    sizes = [len(v) for v in seen]
    number = np.bincount(sizes, list(seen.values()), max(by_number) + 1) / total
    columns = [by_number.get(q, np.zeros(p)) / total for q in range(number.size)]
    told = Inclusion(inclusion / total, np.column_stack(columns), number)
    return gathered(data, prior, seen, told)


def add_by_number(
    by_number: dict[int, np.ndarray], here: tuple[int, ...], inclusion: np.ndarray
) -> None:
    """Add the inclusion of each variable, given all others of the set ``here``, to where it
    belongs: with a variable of the set there are as many as it has, with another one more."""
    q, inside = len(here), list(here)
    for number in (q, q + 1):
        by_number.setdefault(number, np.zeros(inclusion.size))
    by_number[q][inside] += inclusion[inside]
    by_number[q + 1] += inclusion
    by_number[q + 1][inside] -= inclusion[inside]


def gathered(
    data: RegressionMoments,
    prior: SetPrior,
    seen: dict[tuple[int, ...], float],
    told: Inclusion,
) -> Average:
    """Moments of the weights over the sets that were seen, each with its share of the time."""
    visited = np.unique(np.concatenate([np.array(v, dtype=int) for v in seen]))
    total = sum(seen.values())
    sums = no_sums(visited.size)
    by_size: dict[int, list[tuple[int, ...]]] = {}
    for v in seen:
        by_size.setdefault(len(v), []).append(v)
    for q, sets in by_size.items():
        places = np.array(sets, dtype=int).reshape(len(sets), q)
        of = spectrum(data, prior, places)
        share = np.exp(of.log_density - np.logaddexp.reduce(of.log_density, axis=1)[:, None])
        time = np.array([seen[each] for each in sets]) / total
        add_sets(sums, prior, np.searchsorted(visited, places), of, time[:, None] * share)
    mean = np.zeros(data.b.size)
    mean[visited] = sums.first
    return average_of(data, told, mean, visited, sums, len(seen))


def average_over_sets(
    data: RegressionMoments,
    prior: SetPrior,
    fit: RegressionFit,
    passed: list[np.ndarray],
    seed: int,
) -> Average:
    """The average over sets, from that of ``fit`` on where they are too many to sum; ``passed``
    are others that a search has met."""
    if data.b.size <= ALL_SETS:
        return sum_all(data, prior)
    order = promising(data, fit, prior.free)
    places = np.full(data.b.size, -1)
    places[order] = np.arange(order.size)
    found = sample(
        data._replace(G=data.gram(order), b=data.b[order], d=data.d[order]),
        prior,
        places[fit.v],
        np.random.default_rng(seed),
        [places[v] for v in passed if np.all(places[v] >= 0)],
    )
    rising = np.argsort(order[found.likely])

    def spread(values: np.ndarray) -> np.ndarray:
        """Zero for the variables that were not visited."""
        everywhere = np.zeros((data.b.size, *values.shape[1:]))
        everywhere[order] = values
        return everywhere

    return found._replace(
        inclusion=spread(found.inclusion),
        by_number=spread(found.by_number),
        mean=spread(found.mean),
        variance=spread(found.variance),
        active_mean=spread(found.active_mean),
        active_variance=spread(found.active_variance),
        likely=order[found.likely][rising],
        covariance=found.covariance[rising][:, rising],
        together=found.together[rising][:, rising],
    )


def promising(data: RegressionMoments, fit: RegressionFit, free: float) -> np.ndarray:
    """The variables that the run visits, the most correlated with y first, so that the order of
    the columns does not matter to what is drawn.

    Of very many: those of ``fit``, those most correlated with y, and those that would add most to
    ``fit``. The others are hardly ever visited, but every state would pay for them.
    """
    correlation = np.abs(data.b) / np.sqrt(data.d)
    order = np.argsort(-correlation, kind="stable")
    if order.size <= MOST_VISITED:
        return order
    gain = neighbours(fit, data.G.take(fit.v, axis=1), data.d, data.b, free).gain
    gain[fit.v] = np.inf
    most = MOST_VISITED // 2
    kept = np.zeros(order.size, dtype=bool)
    kept[order[:most]] = True
    kept[np.argsort(-gain, kind="stable")[: most + fit.v.size]] = True
    visited: np.ndarray = order[kept[order]]
    return visited


def set_prior(
    data: RegressionMoments, log_prior: np.ndarray, best: RegressionFit, free: float
) -> SetPrior:
    """The prior of the average: of the sets that of the search, ``log_prior``; of the weights a
    grid of sizes around that of ``best``."""
    unit = math.log(float(data.d.mean()) / data.n)
    sizes = weight_sizes(data, best.log_ratio if best.v.size else unit)
    return SetPrior(log_prior, sizes, free)


def mixture_interval(
    inclusion: np.ndarray, mean: np.ndarray, deviation: np.ndarray, level: float
) -> np.ndarray:
    """(p, 2): the quantiles of weights that leave (1 - level)/2 on either side.

    A weight is exactly zero with the probability 1 - ``inclusion``, else it is normal. If zero
    alone holds the quantile, it is the quantile.
    """
    least = np.finfo(float).tiny
    a, spread = np.maximum(inclusion, least), np.maximum(deviation, least)
    negative = a * ndtr(-mean / spread)
    ends = []
    for tail in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        share = np.where(tail < negative, tail, tail - (1.0 - a)) / a  # of the normal part, below
        end = mean + spread * ndtri(np.clip(share, least, 1.0 - 1e-16))
        ends.append(np.where((tail >= negative) & (tail <= negative + 1.0 - a), 0.0, end))
    return np.column_stack(ends)


def stand_ins_of(data: RegressionMoments, fit: RegressionFit, free: float) -> list[np.ndarray]:
    """The credible set of each variable of ``fit``, see `credible`."""
    if fit.v.size == 0:
        return []
    cross = data.G.take(fit.v, axis=1)
    gain = exchange_gains(fit, neighbours(fit, cross, data.d, data.b, free), free)
    correlation = np.abs(cross) / np.sqrt(data.d[:, None] * data.d[fit.v])
    return credible_sets(fit.v, gain, correlation)
