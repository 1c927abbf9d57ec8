"""The average over sets of variables, each weighed by its probability.

[SB10]  J. G. Scott, J. O. Berger. Bayes and empirical-Bayes multiplicity adjustment in the
        variable-selection problem. Annals of Statistics 38(5), 2010.
[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Nothing is maximised here. Given the set v and a kind of weights, weights and noise, with
p(sigma2) ~ 1/sigma2, integrate out in closed form: with f degrees of freedom of y and W as in
`alike`,

    log p(y | v, ...) = -f/2 log R - 1/2 log det(W / prior precision) + constant ,

    E[w] = m,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) .

Kinds of weights are those of their own, w ~ N(0, sigma2 I / lambda), and those of about one size,
with signs (`alike`). The deviation of a weight of a column of unit variance over that of the
noise, tau, has a half-Cauchy prior in both; a grid of doublings of tau integrates it. The prior of
the sets pays for how many there are of each size, [SB10].

Up to ten variables have all their sets, with all signs, summed. More are sampled by a jump process
on sets, kinds and signs: every flip of one variable, every change of a sign and of the kind of
weights, has the rate pi(there) / (pi(here) + pi(there)), so that detailed balance holds, and the
time that a state lasts is known, 1 / (sum of its rates). No proposal is ever refused, [ZR19]. All
rates come from rank-one formulas, and they are at the same time the probabilities of every variable
given all others: averaging these (Rao & Blackwell) needs far fewer states than counting visits.

Where a few variables explain y together and none of them much alone, all sets between none and
these are improbable, and single flips would hardly ever cross. The search has been on both sides:
the sets that it passed are stepping stones, and between any two of them, at any two kinds of
weights, the process jumps at a rate of the same form.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
from scipy.special import expit, ndtr, ndtri

from .common_magnitude import (
    Densities,
    StateRates,
    SetPrior,
    Spectrum,
    densities,
    state_rates,
    sign_patterns,
    spectrum,
    make_prior_grid,
)
from .credible import credible_sets
from .model import RegressionFit, RegressionMoments, exchange_gains, score_additions

MAX_ENUMERATED = 10  # of so many variables, at most, are summed
MAX_VISITED = 400  # variables
MAX_STATES = 1000  # of the jump process
MIN_STATES = 100
MIN_RATE = 1e-300  # total rate of jumps below which a state lasts for good
STABILITY_TOL = 0.01  # the halves of the run may differ by this much in a probability of inclusion
MAX_LOG_DROP = 15.0  # a stepping stone is at most so far below the best one, in log posterior
MIN_INCLUSION = (
    0.01  # inclusion from which on the covariances of a weight are kept, not only its variance
)
MAX_CANDIDATES = 300  # variables whose covariances are kept, at most


class Average(NamedTuple):
    """Means over all sets, in the units of the moments."""

    inclusion: np.ndarray  # (p,) probability that a variable is active
    by_number: np.ndarray  # (p, Q + 1) of that and, at the same time, of 0 .. Q active variables
    number: np.ndarray  # (Q + 1,) probability that 0 .. Q variables are active
    mean: np.ndarray  # (p,) of the weights, zero where a variable is out
    variance: np.ndarray  # (p,) of the weights
    active_mean: np.ndarray  # (p,) of each weight where its variable is active
    active_variance: np.ndarray  # (p,)
    candidates: np.ndarray  # (k,) the variables that `covariance` is about, rising
    covariance: np.ndarray  # (k, k) of their weights: within sets, and between them
    together: np.ndarray  # (k, k) probability that both are active, by the sets that were seen
    rest: float  # variance of a prediction, on average, that is due to all others
    sigma2: float  # noise variance
    n_sets: int  # different sets that were seen


def mean_noise_variance(R: np.ndarray, dof: float) -> np.ndarray:
    """The mean of the noise variance, which few degrees of freedom do not have."""
    return R / max(dof - 2, 1)


class Sums(NamedTuple):
    """First and second moments of the weights, summed over sets."""

    weight: np.ndarray  # (p,)
    together: np.ndarray  # (p, p) of two variables
    first: np.ndarray  # (p,)
    second: np.ndarray  # (p, p)
    sigma2: np.ndarray  # ()


def zero_sums(p: int) -> Sums:
    """Where summing starts."""
    return Sums(np.zeros(p), np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), np.zeros(()))


def add_sets(
    sums: Sums,
    prior: SetPrior,
    v: np.ndarray,
    spectra: Spectrum,
    density: Densities,
    weights: np.ndarray,
) -> None:
    """Add the sets ``v``, (S, q), with the weights (S, M, A) of each pattern of signs at each kind
    of weights to ``sums``.

    With m_0 and P_0 of weights of their own, z = P_0 s and x = h c / (1 - h t), see `alike`,
    m = m_0 + x z and P = P_0 + h / (1 - h t) z z'.
    """
    noise = mean_noise_variance(density.R, prior.dof)
    np.add(sums.sigma2, (weights * noise).sum(), out=sums.sigma2)
    size, q = v.shape
    if q == 0:
        return
    each = weights.sum(axis=1)  # (S, A)
    P = np.einsum("sij,saj,slj->sail", spectra.U, 1.0 / density.eigenvalues, spectra.U, optimize=True)
    m = np.einsum("sij,saj->sai", spectra.U, spectra.c[:, None, :] / density.eigenvalues)
    of_signs = np.swapaxes(weights * density.gain_factor * density.c, 1, 2)  # (S, A, M)
    shift = np.einsum("sail,sal->sai", P, of_signs @ density.signs)
    squares = (density.signs[..., :, None] * density.signs[..., None, :]).reshape(
        *density.signs.shape[:2], q * q
    )
    of_squares = np.swapaxes(weights * (noise + density.gain_factor * density.c**2) * density.gain_factor, 1, 2)
    inner = (of_squares @ squares).reshape(size, -1, q, q)
    second = np.einsum("sa,sail->sil", (weights * noise).sum(axis=1), P)
    second += np.einsum("sa,sai,sal->sil", each, m, m)
    second += np.einsum("sai,sal->sil", m, shift) + np.einsum("sai,sal->sil", shift, m)
    second += (P @ inner @ P).sum(axis=1)
    weight = each.sum(axis=1)
    np.add.at(sums.weight, v, weight[:, None])
    np.add.at(sums.together, (v[:, :, None], v[:, None, :]), weight[:, None, None])
    np.add.at(sums.first, v, np.einsum("sa,sai->si", each, m) + shift.sum(axis=1))
    np.add.at(sums.second, (v[:, :, None], v[:, None, :]), second)


class Inclusion(NamedTuple):
    """How probable variables, and numbers of them, are: as in `Average`."""

    probability: np.ndarray  # (p,)
    by_number: np.ndarray  # (p, Q + 1)
    number: np.ndarray  # (Q + 1,)


def sum_all(data: RegressionMoments, prior: SetPrior) -> Average:
    """The exact average over all sets and signs, where these are few."""
    p, independent, common = data.b.size, prior.grid.independent(), prior.grid.common()
    bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1
    sizes = bits.sum(axis=1)
    groups = []
    numbers = np.flatnonzero(np.isfinite(prior.log_prior))
    for q in numbers:
        v = np.nonzero(bits[sizes == q])[1].reshape(np.count_nonzero(sizes == q), q)
        spectra = spectrum(data, v)
        for grid, signs in ((independent, None), (common, sign_patterns(int(q))[None])):
            density = densities(data, prior, grid, spectra, signs)
            groups.append((q, v, spectra, density, density.log_density + prior.log_prior[q]))
    top = max(float(each[-1].max()) for each in groups)
    total = sum(float(np.exp(each[-1] - top).sum()) for each in groups)
    sums = zero_sums(p)
    by_number, number = np.zeros((p, numbers[-1] + 1)), np.zeros(numbers[-1] + 1)
    for q, v, spectra, density, log_weight in groups:
        before, weights = sums.weight.copy(), np.exp(log_weight - top) / total
        add_sets(sums, prior, v, spectra, density, weights)
        by_number[:, q] += sums.weight - before
        number[q] += float(weights.sum())
    n_sets = int(np.count_nonzero(np.isin(sizes, numbers)))
    inclusion = Inclusion(sums.weight, by_number, number)
    return summarise(data, inclusion, sums.first, np.arange(p), sums, n_sets)


def summarise(
    data: RegressionMoments,
    inclusion: Inclusion,
    mean: np.ndarray,
    seen: np.ndarray,
    sums: Sums,
    n_sets: int,
) -> Average:
    """The average whose second moments, of the variables ``seen``, are in ``sums``.

    Where all sets are summed all covariances are kept; of many variables those of the likely ones,
    and the others are taken to be as far from their means as they are on average.
    """
    # Rounding can make a sum of probabilities exceed 1.
    inclusion = inclusion._replace(probability=np.minimum(inclusion.probability, 1.0))
    probability = inclusion.probability[seen]
    covariance = sums.second - np.outer(sums.first, sums.first)
    retained = np.arange(seen.size)
    if mean.size > MAX_ENUMERATED:
        first = np.argsort(-probability, kind="stable")[:MAX_CANDIDATES]
        retained = np.sort(first[probability[first] >= MIN_INCLUSION])
    others = np.delete(np.arange(seen.size), retained)
    square = data.d[seen[others]] / data.n
    variance, active_mean, active_variance = (np.zeros(mean.size) for _ in range(3))
    variance[seen] = np.maximum(covariance.diagonal(), 0.0)
    weight = np.maximum(sums.weight, np.finfo(float).tiny)
    active_mean[seen] = sums.first / weight
    spread = sums.second.diagonal() / weight - active_mean[seen] ** 2
    active_variance[seen] = np.maximum(spread, 0.0)
    return Average(
        *inclusion,
        mean,
        variance,
        active_mean,
        active_variance,
        seen[retained],
        covariance[retained][:, retained],
        sums.together[retained][:, retained],
        float(variance[seen[others]] @ square),
        float(sums.sigma2),
        n_sets,
    )


Signed = tuple[tuple[int, ...], tuple[float, ...] | None]
"""Variables of a set, rising, and their signs, None for weights of their own."""


class JumpTargets(NamedTuple):
    """Sets, with signs, between which the process jumps."""

    sets: list[tuple[int, ...]]  # variables of each, rising
    signs: list[tuple[float, ...]]
    number: dict[tuple[int, ...], int]  # of each in `sets`
    log_density: np.ndarray  # (S, A) log posterior at each kind of weights

    def rates(self, state: Signed, a: int) -> np.ndarray:
        """(S A,) to all others at each kind of weights, none where ``here`` is no stone."""
        v, signs = state
        i = self.number.get(v)
        if i is None or (signs is not None and signs != self.signs[i]):
            return np.zeros(0)
        rates = expit(self.log_density - self.log_density[i, a])
        rates[i] = 0.0  # these are changes of the kind of weights
        return rates.ravel()


def best_independent(data: RegressionMoments, prior: SetPrior, v: np.ndarray) -> int:
    """The number of the kind of weights of their own at which the set ``v`` is most probable."""
    local = densities(data, prior, prior.grid.independent(), spectrum(data, v[None]))
    return int(np.argmax(local.log_density))


def find_jump_targets(
    data: RegressionMoments, prior: SetPrior, sets: list[np.ndarray]
) -> JumpTargets:
    """Those of ``sets`` that are not too improbable, with the signs of their weights."""
    found: dict[tuple[int, ...], StateRates] = {}
    for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets):
        variables = np.array(v, dtype=int)
        found[v] = state_rates(
            data, prior, variables, None, best_independent(data, prior, variables)
        )
    height = {v: local.log_density + prior.log_prior[len(v)] for v, local in found.items()}
    top = max((float(each.max()) for each in height.values()), default=0.0)
    retained = [v for v, each in height.items() if each.max() > top - MAX_LOG_DROP]
    log_density = np.array([height[v] for v in retained]).reshape(
        len(retained), prior.grid.rho.size
    )
    signs = [tuple(found[v].signs.tolist()) for v in retained]
    return JumpTargets(retained, signs, {v: i for i, v in enumerate(retained)}, log_density)


class Visits(NamedTuple):
    """The states of the jump process that were met, in the order of their first visits."""

    number: dict[tuple[Signed, int], int]  # of each set, with signs, and kind of weights
    sets: list[Signed]
    places: list[StateRates]
    rates: list[np.ndarray]  # summed up, of each
    spent: list[float]  # time in each

    def inclusion(self, since: np.ndarray) -> np.ndarray:
        """(p,) of every variable, over the time that was spent after ``since`` was, of the first
        of the states."""
        time = np.array(self.spent)
        time[: since.size] -= since
        return time @ np.array([local.inclusion for local in self.places]) / time.sum()


def sample(
    data: RegressionMoments,
    prior: SetPrior,
    v: np.ndarray,
    rng: np.random.Generator,
    intermediate_sets: list[np.ndarray],
) -> Average:
    """The average over the states of a jump process that starts at the set ``v``; ``passed`` are
    sets that may be stepping stones."""
    p = data.b.size
    targets = find_jump_targets(data, prior, [v, v[:0], *intermediate_sets])
    visits = Visits({}, [], [], [], [])
    half, check = np.zeros(0), MIN_STATES  # time spent in the first half
    state: Signed = (tuple(sorted(v.tolist())), None)
    a = best_independent(data, prior, np.sort(v))
    for t in range(1, MAX_STATES + 1):
        k = visits.number.get((state, a))
        if k is None:
            k = visits.number[state, a] = len(visits.sets)
            signs = None if state[1] is None else np.array(state[1])
            local = state_rates(data, prior, np.array(state[0], dtype=int), signs, a)
            visits.sets.append(state)
            visits.places.append(local)
            visits.rates.append(np.cumsum(np.append(local.rates, targets.rates(state, a))))
            visits.spent.append(0.0)
        steps = visits.rates[k]
        total = float(steps[-1])
        visits.spent[k] += 1.0 / max(total, MIN_RATE)
        if total < MIN_RATE:  # All neighbours together have no probability in double precision.
            break
        if t == check:
            if half.size:
                early = half @ np.array([local.inclusion for local in visits.places[: half.size]])
                apart = visits.inclusion(half) - early / half.sum()
                if float(np.abs(apart).max()) < STABILITY_TOL:
                    break
            half, check = np.array(visits.spent), 2 * check
        j = int(np.searchsorted(steps, rng.random() * total, side="right"))
        j = min(j, steps.size - 1)  # rounding
        state, a = jump(prior, targets, p, state, a, visits.places[k], j)
    return summarise_visits(data, prior, visits)


def jump(
    prior: SetPrior, targets: JumpTargets, p: int, state: Signed, a: int, local: StateRates, j: int
) -> tuple[Signed, int]:
    """The state, and its kind of weights, to which number ``j`` of the rates of `Place` leads."""
    v, signs = state
    q, A = len(v), prior.grid.rho.size
    if j < 2 * p:
        sign, i = (1.0, j) if j < p else (-1.0, j - p)
        at_i = bisect_left(v, i)
        if i in v:
            return (
                v[:at_i] + v[at_i + 1 :],
                positive(signs, lambda s: s[:at_i] + s[at_i + 1 :]),
            ), a
        v = (*v[:at_i], i, *v[at_i:])
        return (v, positive(signs, lambda s: (*s[:at_i], sign, *s[at_i:]))), a
    j -= 2 * p
    if j < q:
        return (v, positive(signs, lambda s: (*s[:j], -s[j], *s[j + 1 :]))), a
    j -= q
    if j < A:
        independent = prior.grid.rho[j] == 0.0
        return (v, None if independent else tuple(local.signs.tolist())), j
    i, a = divmod(j - A, A)
    return (targets.sets[i], None if prior.grid.rho[a] == 0.0 else targets.signs[i]), a


Change = Callable[[tuple[float, ...]], tuple[float, ...]]


def positive(signs: tuple[float, ...] | None, change: Change) -> tuple[float, ...] | None:
    """The signs after a change, the first of which counts as positive; weights of their own have
    none."""
    if signs is None:
        return None
    after = change(signs)
    return after if not after or after[0] > 0.0 else tuple(-s for s in after)


def inclusion_from_visits(visits: Visits, p: int) -> Inclusion:
    """How probable variables are, with 0 .. Q active ones.

    Of each variable, given all others of the set here: with a variable of the set there are as many
    as it has, with another one more.
    """
    sizes = np.array([len(v) for v, _ in visits.sets])
    time = np.array(visits.spent) / sum(visits.spent)
    given = np.array([local.inclusion for local in visits.places])  # (states, p)
    inside = np.zeros(given.shape, dtype=bool)
    for row, (v, _) in zip(inside, visits.sets, strict=True):
        row[list(v)] = True
    by_number = np.zeros((p, int(sizes.max()) + 2))
    for q in np.unique(sizes):
        same_size = sizes == q
        by_number[:, q] += time[same_size] @ np.where(inside[same_size], given[same_size], 0.0)
        by_number[:, q + 1] += time[same_size] @ np.where(inside[same_size], 0.0, given[same_size])
    number = np.bincount(sizes, time, by_number.shape[1])
    return Inclusion(visits.inclusion(np.zeros(0)), by_number, number)


def summarise_visits(data: RegressionMoments, prior: SetPrior, visits: Visits) -> Average:
    """Moments of the weights over the sets that were seen, each with its share of the time."""
    seen: dict[Signed, float] = {}
    for each, spent in zip(visits.sets, visits.spent, strict=True):
        seen[each] = seen.get(each, 0.0) + spent
    visited = np.unique(np.concatenate([np.array(v, dtype=int) for v, _ in seen]))
    total = sum(seen.values())
    sums = zero_sums(visited.size)
    groups: dict[tuple[int, bool], list[Signed]] = {}
    for v, signs in seen:
        groups.setdefault((len(v), signs is not None), []).append((v, signs))
    for (q, common), sets in groups.items():
        places = np.array([v for v, _ in sets], dtype=int).reshape(len(sets), q)
        grid = prior.grid.common() if common else prior.grid.independent()
        pattern = np.array([s for _, s in sets]).reshape(len(sets), 1, q) if common else None
        spectra = spectrum(data, places)
        density = densities(data, prior, grid, spectra, pattern)
        share = np.exp(
            density.log_density - np.logaddexp.reduce(density.log_density, axis=2)[..., None]
        )
        time = np.array([seen[each] for each in sets]) / total
        weights = time[:, None, None] * share
        add_sets(sums, prior, np.searchsorted(visited, places), spectra, density, weights)
    mean = np.zeros(data.b.size)
    mean[visited] = sums.first
    inclusion = inclusion_from_visits(visits, data.b.size)
    return summarise(data, inclusion, mean, visited, sums, len({v for v, _ in seen}))


def average_over_sets(
    data: RegressionMoments,
    prior: SetPrior,
    fit: RegressionFit,
    intermediate_sets: list[np.ndarray],
    seed: int,
) -> Average:
    """The average over sets, from that of ``fit`` on where they are too many to sum; ``passed``
    are others that a search has met."""
    if data.b.size <= MAX_ENUMERATED:
        return sum_all(data, prior)
    order = select_promising(data, fit, prior.dof)
    places = np.full(data.b.size, -1)
    places[order] = np.arange(order.size)
    found = sample(
        data._replace(G=data.gram(order), b=data.b[order], d=data.d[order]),
        prior,
        places[fit.v],
        np.random.default_rng(seed),
        [places[v] for v in intermediate_sets if np.all(places[v] >= 0)],
    )
    rising = np.argsort(order[found.candidates])

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
        candidates=order[found.candidates][rising],
        covariance=found.covariance[rising][:, rising],
        together=found.together[rising][:, rising],
    )


def select_promising(data: RegressionMoments, fit: RegressionFit, dof: float) -> np.ndarray:
    """The variables that the run visits, the most correlated with y first, so that the order of
    the columns does not matter to what is drawn.

    Of very many: those of ``fit``, those most correlated with y, and those that would add most to
    ``fit``. The others are hardly ever visited, but every state would pay for them.
    """
    correlation = np.abs(data.b) / np.sqrt(data.d)
    order = np.argsort(-correlation, kind="stable")
    if order.size <= MAX_VISITED:
        return order
    gain = score_additions(fit, data.G.take(fit.v, axis=1), data.d, data.b, dof).gain
    gain[fit.v] = np.inf
    most = MAX_VISITED // 2
    retained = np.zeros(order.size, dtype=bool)
    retained[order[:most]] = True
    retained[np.argsort(-gain, kind="stable")[: most + fit.v.size]] = True
    visited: np.ndarray = order[retained[order]]
    return visited


def set_prior(
    data: RegressionMoments, log_prior: np.ndarray, best: RegressionFit, dof: float
) -> SetPrior:
    """The prior of the average: of the sets that of the search, ``log_prior``; of the weights a
    grid of kinds around the size of those of ``best``."""
    unit = math.log(float(data.d.mean()) / data.n)
    grid = make_prior_grid(data, best.log_ratio if best.v.size else unit)
    return SetPrior(log_prior, grid, dof)


def mixture_interval(
    inclusion: np.ndarray, mean: np.ndarray, deviation: np.ndarray, level: float
) -> np.ndarray:
    """(..., 2): the quantiles of weights that leave (1 - level)/2 on either side.

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
    return np.stack(ends, axis=-1)


def credible_sets_of(data: RegressionMoments, fit: RegressionFit, dof: float) -> list[np.ndarray]:
    """The credible set of each variable of ``fit``, see `credible`."""
    if fit.v.size == 0:
        return []
    cross = data.G.take(fit.v, axis=1)
    gain = exchange_gains(fit, score_additions(fit, cross, data.d, data.b, dof), dof)
    correlation = np.abs(cross) / np.sqrt(data.d[:, None] * data.d[fit.v])
    return credible_sets(fit.v, gain, correlation)
