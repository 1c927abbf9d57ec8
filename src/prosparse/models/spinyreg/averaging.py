"""Bayesian model averaging over sets of variables in linear regression.

[SB10]  J. G. Scott, J. O. Berger. Bayes and empirical-Bayes multiplicity adjustment in the
        variable-selection problem. Annals of Statistics 38(5), 2010.
[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Given a set v and a prior on its coefficients, the coefficients and the noise variance with
p(sigma2) ~ 1/sigma2 integrate out in closed form. With f degrees of freedom of y and W as in
`common_magnitude`,

    log p(y | v, ...) = -f/2 log R - 1/2 log det(W / prior precision) + constant ,

    E[w] = m,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) .

The coefficients are independent, w ~ N(0, sigma2 I / lambda), or have a common magnitude
(`common_magnitude`). The prior scale tau has a half-Cauchy prior in both cases and is integrated
on a grid. The prior on sets corrects for multiplicity, [SB10].

Up to ten variables, all sets and signs are enumerated. For more variables, a Markov jump process
samples sets, grid points and signs. Each flip of a variable, change of a sign and change of the
grid point has the rate pi(new) / (pi(old) + pi(new)), so detailed balance holds. The expected
holding time of a state is known, 1 / (sum of its rates), and no proposal is rejected, [ZR19]. All
rates follow from rank-one formulas. They also give the inclusion probability of each variable
given all others; averaging these (Rao-Blackwellisation) needs far fewer states than counting
visits.

If a few variables explain y together but none explains much alone, all sets between the empty set
and theirs are improbable, and single flips hardly ever connect the two. The intermediate sets of
the search are jump targets: the process also jumps between any two of them, at any two grid
points, at a rate of the same form.
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
    SetPrior,
    Spectrum,
    StateRates,
    densities,
    make_prior_grid,
    sign_patterns,
    spectrum,
    state_rates,
)
from .credible import credible_sets
from .model import RegressionFit, RegressionMoments, exchange_gains, score_additions

MAX_ENUMERATED = 10  # maximum number of variables whose sets are enumerated
MAX_VISITED = 400  # approximate maximum number of variables that are sampled
MAX_STATES = 1000  # maximum number of states of the jump process
MIN_STATES = 100  # number of states before the first convergence check
MIN_RATE = 1e-300  # total rate below which a state is absorbing
STABILITY_TOL = 0.01  # maximum difference of inclusion probabilities between two halves of a run
MAX_LOG_DROP = 15.0  # maximum difference of the log posteriors of jump targets
MIN_INCLUSION = 0.01  # minimum inclusion probability of a candidate, whose covariances are retained
MAX_CANDIDATES = 300  # maximum number of candidates


class Average(NamedTuple):
    """Posterior means over all sets, in the units of the sufficient statistics."""

    inclusion: np.ndarray  # (p,) probability that each variable is active
    by_size: np.ndarray  # (p, Q + 1) jointly with a model size of 0 .. Q
    size_probability: np.ndarray  # (Q + 1,) probability of the model size
    mean: np.ndarray  # (p,) of the coefficients, which are zero for inactive variables
    variance: np.ndarray  # (p,) of the coefficients
    active_mean: np.ndarray  # (p,) of each coefficient given that its variable is active
    active_variance: np.ndarray  # (p,)
    candidates: np.ndarray  # (k,) variables of `covariance`, in increasing order
    covariance: np.ndarray  # (k, k) of their coefficients, within and between sets
    together: np.ndarray  # (k, k) probability that two are both active
    excluded_variance: float  # mean contribution of all others to the variance of a prediction
    sigma2: float  # noise variance
    n_sets: int  # number of distinct sets


def mean_noise_variance(R: np.ndarray, dof: float) -> np.ndarray:
    """Return the posterior mean of the noise variance, bounded for few degrees of freedom."""
    return R / max(dof - 2, 1)


def temper(
    average: Average, data: RegressionMoments, weight: float, empty_variance: float
) -> Average:
    """Move the probability 1 - ``weight`` of all sets to the empty set.

    ``empty_variance`` is the noise variance of the empty set.
    """
    if weight >= 1.0:
        return average
    size_probability = weight * average.size_probability
    size_probability[0] += 1.0 - weight
    between = weight * (1.0 - weight)  # variance of the indicator of the other sets
    mean = average.mean
    others = np.ones(mean.size, dtype=bool)
    others[average.candidates] = False
    of_candidates = mean[average.candidates]
    moved = between * float(mean[others] ** 2 @ data.d[others]) / data.n
    return average._replace(
        inclusion=weight * average.inclusion,
        by_size=weight * average.by_size,
        size_probability=size_probability,
        mean=weight * mean,
        variance=weight * average.variance + between * mean**2,
        covariance=weight * average.covariance + between * np.outer(of_candidates, of_candidates),
        together=weight * average.together,
        excluded_variance=weight * average.excluded_variance + moved,
        sigma2=weight * average.sigma2 + (1.0 - weight) * empty_variance,
    )


class Sums(NamedTuple):
    """Sums over sets of first and second moments of the coefficients."""

    weight: np.ndarray  # (p,)
    together: np.ndarray  # (p, p) of two variables
    first: np.ndarray  # (p,)
    second: np.ndarray  # (p, p)
    sigma2: np.ndarray  # ()


def zero_sums(p: int) -> Sums:
    """Return empty sums for p variables."""
    return Sums(np.zeros(p), np.zeros((p, p)), np.zeros(p), np.zeros((p, p)), np.zeros(()))


def add_sets(
    sums: Sums,
    prior: SetPrior,
    v: np.ndarray,
    spectra: Spectrum,
    density: Densities,
    weights: np.ndarray,
) -> None:
    """Add the sets ``v`` of shape (S, q) to ``sums``.

    ``weights`` of shape (S, M, A) holds the posterior probability of each sign pattern at each grid
    point. With m_0 and P_0 of independent coefficients, z = P_0 s and x = h c / (1 - h t), see
    `common_magnitude`, m = m_0 + x z and P = P_0 + h / (1 - h t) z z'.
    """
    noise = mean_noise_variance(density.R, prior.dof)
    np.add(sums.sigma2, (weights * noise).sum(), out=sums.sigma2)
    size, q = v.shape
    if q == 0:
        return
    each = weights.sum(axis=1)  # (S, A)
    P = np.einsum(
        "sij,saj,slj->sail", spectra.U, 1.0 / density.eigenvalues, spectra.U, optimize=True
    )
    m = np.einsum("sij,saj->sai", spectra.U, spectra.c[:, None, :] / density.eigenvalues)
    of_signs = np.swapaxes(weights * density.gain_factor * density.c, 1, 2)  # (S, A, M)
    shift = np.einsum("sail,sal->sai", P, of_signs @ density.signs)
    squares = (density.signs[..., :, None] * density.signs[..., None, :]).reshape(
        *density.signs.shape[:2], q * q
    )
    of_squares = np.swapaxes(
        weights * (noise + density.gain_factor * density.c**2) * density.gain_factor, 1, 2
    )
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
    """Posterior probabilities of variables and model sizes, as in `Average`."""

    probability: np.ndarray  # (p,)
    by_size: np.ndarray  # (p, Q + 1)
    size_probability: np.ndarray  # (Q + 1,)


def sum_all(data: RegressionMoments, prior: SetPrior) -> Average:
    """Compute the exact average over all sets and signs."""
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
    by_size, size_probability = np.zeros((p, numbers[-1] + 1)), np.zeros(numbers[-1] + 1)
    for q, v, spectra, density, log_weight in groups:
        before, weights = sums.weight.copy(), np.exp(log_weight - top) / total
        add_sets(sums, prior, v, spectra, density, weights)
        by_size[:, q] += sums.weight - before
        size_probability[q] += float(weights.sum())
    n_sets = int(np.count_nonzero(np.isin(sizes, numbers)))
    inclusion = Inclusion(sums.weight, by_size, size_probability)
    return summarise(data, inclusion, sums.first, np.arange(p), sums, n_sets)


def summarise(
    data: RegressionMoments,
    inclusion: Inclusion,
    mean: np.ndarray,
    seen: np.ndarray,
    sums: Sums,
    n_sets: int,
) -> Average:
    """Assemble the average from the sums over the variables ``seen``.

    All covariances are retained if all sets were enumerated, otherwise those of the candidates. The
    other variables contribute their mean variance.
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
"""Variables of a set in increasing order and their signs, None if independent."""


class JumpTargets(NamedTuple):
    """Sets with signs between which the process jumps."""

    sets: list[tuple[int, ...]]  # variables of each, in increasing order
    signs: list[tuple[float, ...]]
    position: dict[tuple[int, ...], int]  # position of each set in `sets`
    log_density: np.ndarray  # (S, A) log posterior at each grid point

    def rates(self, state: Signed, a: int) -> np.ndarray:
        """Return the (S A,) rates to all targets, or none if ``state`` is not a target."""
        v, signs = state
        i = self.position.get(v)
        if i is None or (signs is not None and signs != self.signs[i]):
            return np.zeros(0)
        rates = expit(self.log_density - self.log_density[i, a])
        rates[i] = 0.0  # changes of the grid point are in `StateRates`
        return rates.ravel()


def best_independent(data: RegressionMoments, prior: SetPrior, v: np.ndarray) -> int:
    """Return the best grid point of the set ``v`` with independent coefficients."""
    density = densities(data, prior, prior.grid.independent(), spectrum(data, v[None]))
    return int(np.argmax(density.log_density))


def find_jump_targets(
    data: RegressionMoments, prior: SetPrior, sets: list[np.ndarray]
) -> JumpTargets:
    """Select the sufficiently probable ``sets`` and the signs of their coefficients."""
    found: dict[tuple[int, ...], StateRates] = {}
    for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets):
        variables = np.array(v, dtype=int)
        found[v] = state_rates(
            data, prior, variables, None, best_independent(data, prior, variables)
        )
    log_posterior = {v: at.log_density + prior.log_prior[len(v)] for v, at in found.items()}
    top = max((float(each.max()) for each in log_posterior.values()), default=0.0)
    retained = [v for v, each in log_posterior.items() if each.max() > top - MAX_LOG_DROP]
    log_density = np.array([log_posterior[v] for v in retained])
    log_density = log_density.reshape(len(retained), prior.grid.rho.size)
    signs = [tuple(found[v].signs.tolist()) for v in retained]
    return JumpTargets(retained, signs, {v: i for i, v in enumerate(retained)}, log_density)


class Visits(NamedTuple):
    """Visited states of the jump process, in order of the first visit."""

    position: dict[tuple[Signed, int], int]  # position of each set with signs and grid point
    sets: list[Signed]
    local: list[StateRates]  # rates of single changes of each state
    rates: list[np.ndarray]  # cumulative rates of each state
    spent: list[float]  # expected time in each state

    def inclusion(self, since: np.ndarray) -> np.ndarray:
        """Compute (p,) inclusion probabilities over the time spent after ``since``."""
        time = np.array(self.spent)
        time[: since.size] -= since
        return time @ np.array([each.inclusion for each in self.local]) / time.sum()


def sample(
    data: RegressionMoments,
    prior: SetPrior,
    v: np.ndarray,
    rng: np.random.Generator,
    intermediate_sets: list[np.ndarray],
) -> Average:
    """Average over the states of a jump process that starts at the set ``v``.

    ``intermediate_sets`` are potential jump targets.
    """
    p = data.b.size
    targets = find_jump_targets(data, prior, [v, v[:0], *intermediate_sets])
    visits = Visits({}, [], [], [], [])
    half, check = np.zeros(0), MIN_STATES  # time spent in each state in the first half
    state: Signed = (tuple(sorted(v.tolist())), None)
    a = best_independent(data, prior, np.sort(v))
    for t in range(1, MAX_STATES + 1):
        k = visits.position.get((state, a))
        if k is None:
            k = visits.position[state, a] = len(visits.sets)
            signs = None if state[1] is None else np.array(state[1])
            local_rates = state_rates(data, prior, np.array(state[0], dtype=int), signs, a)
            visits.sets.append(state)
            visits.local.append(local_rates)
            visits.rates.append(np.cumsum(np.append(local_rates.rates, targets.rates(state, a))))
            visits.spent.append(0.0)
        steps = visits.rates[k]
        total = float(steps[-1])
        visits.spent[k] += 1.0 / max(total, MIN_RATE)
        if total < MIN_RATE:  # All neighbours have probability zero in double precision.
            break
        if t == check:
            if half.size:
                early = half @ np.array([each.inclusion for each in visits.local[: half.size]])
                apart = visits.inclusion(half) - early / half.sum()
                if float(np.abs(apart).max()) < STABILITY_TOL:
                    break
            half, check = np.array(visits.spent), 2 * check
        j = int(np.searchsorted(steps, rng.random() * total, side="right"))
        j = min(j, steps.size - 1)  # rounding
        state, a = jump(prior, targets, p, state, a, visits.local[k], j)
    return summarise_visits(data, prior, visits)


def jump(
    prior: SetPrior,
    targets: JumpTargets,
    p: int,
    state: Signed,
    a: int,
    local_rates: StateRates,
    j: int,
) -> tuple[Signed, int]:
    """Return the state and grid point to which jump ``j`` of `StateRates` leads."""
    v, signs = state
    q, A = len(v), prior.grid.rho.size
    if j < 2 * p:
        sign, i = (1.0, j) if j < p else (-1.0, j - p)
        i_pos = bisect_left(v, i)
        if i in v:
            return (
                v[:i_pos] + v[i_pos + 1 :],
                positive(signs, lambda s: s[:i_pos] + s[i_pos + 1 :]),
            ), a
        v = (*v[:i_pos], i, *v[i_pos:])
        return (v, positive(signs, lambda s: (*s[:i_pos], sign, *s[i_pos:]))), a
    j -= 2 * p
    if j < q:
        return (v, positive(signs, lambda s: (*s[:j], -s[j], *s[j + 1 :]))), a
    j -= q
    if j < A:
        independent = prior.grid.rho[j] == 0.0
        return (v, None if independent else tuple(local_rates.signs.tolist())), j
    i, a = divmod(j - A, A)
    return (targets.sets[i], None if prior.grid.rho[a] == 0.0 else targets.signs[i]), a


Change = Callable[[tuple[float, ...]], tuple[float, ...]]


def positive(signs: tuple[float, ...] | None, change: Change) -> tuple[float, ...] | None:
    """Apply a change to the signs and make the first sign positive."""
    if signs is None:
        return None
    after = change(signs)
    return after if not after or after[0] > 0.0 else tuple(-s for s in after)


def inclusion_from_visits(visits: Visits, p: int) -> Inclusion:
    """Compute inclusion probabilities jointly with the model size.

    Each variable is considered given all others of the current set. A variable of the set keeps the
    size; another variable increases it by one.
    """
    sizes = np.array([len(v) for v, _ in visits.sets])
    time = np.array(visits.spent) / sum(visits.spent)
    given = np.array([each.inclusion for each in visits.local])  # (states, p)
    inside = np.zeros(given.shape, dtype=bool)
    for row, (v, _) in zip(inside, visits.sets, strict=True):
        row[list(v)] = True
    by_size = np.zeros((p, int(sizes.max()) + 2))
    for q in np.unique(sizes):
        same_size = sizes == q
        by_size[:, q] += time[same_size] @ np.where(inside[same_size], given[same_size], 0.0)
        by_size[:, q + 1] += time[same_size] @ np.where(inside[same_size], 0.0, given[same_size])
    size_probability = np.bincount(sizes, time, by_size.shape[1])
    return Inclusion(visits.inclusion(np.zeros(0)), by_size, size_probability)


def summarise_visits(data: RegressionMoments, prior: SetPrior, visits: Visits) -> Average:
    """Compute moments of the coefficients over the visited sets, weighted by time."""
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
        positions = np.array([v for v, _ in sets], dtype=int).reshape(len(sets), q)
        grid = prior.grid.common() if common else prior.grid.independent()
        pattern = np.array([s for _, s in sets]).reshape(len(sets), 1, q) if common else None
        spectra = spectrum(data, positions)
        density = densities(data, prior, grid, spectra, pattern)
        conditional = np.exp(
            density.log_density - np.logaddexp.reduce(density.log_density, axis=2)[..., None]
        )
        time = np.array([seen[each] for each in sets]) / total
        weights = time[:, None, None] * conditional
        add_sets(sums, prior, np.searchsorted(visited, positions), spectra, density, weights)
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
    """Average over sets by enumeration or sampling.

    Sampling starts from the set of ``fit``; ``intermediate_sets`` are potential jump targets.
    """
    if data.b.size <= MAX_ENUMERATED:
        return sum_all(data, prior)
    order = select_promising(data, fit, prior.dof)
    positions = np.full(data.b.size, -1)
    positions[order] = np.arange(order.size)
    found = sample(
        data._replace(G=data.gram(order), b=data.b[order], d=data.d[order]),
        prior,
        positions[fit.v],
        np.random.default_rng(seed),
        [positions[v] for v in intermediate_sets if np.all(positions[v] >= 0)],
    )
    increasing = np.argsort(order[found.candidates])

    def spread(values: np.ndarray) -> np.ndarray:
        """Set the values of variables that were not considered to zero."""
        everywhere = np.zeros((data.b.size, *values.shape[1:]))
        everywhere[order] = values
        return everywhere

    return found._replace(
        inclusion=spread(found.inclusion),
        by_size=spread(found.by_size),
        mean=spread(found.mean),
        variance=spread(found.variance),
        active_mean=spread(found.active_mean),
        active_variance=spread(found.active_variance),
        candidates=order[found.candidates][increasing],
        covariance=found.covariance[increasing][:, increasing],
        together=found.together[increasing][:, increasing],
    )


def select_promising(data: RegressionMoments, fit: RegressionFit, dof: float) -> np.ndarray:
    """Select the variables that the process considers, most correlated with y first.

    This order makes the draws independent of the column order. If there are too many variables,
    those of ``fit``, those most correlated with y and those that would add most to ``fit`` are
    selected. The others would hardly ever be visited but increase the cost of every state.
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
    """Combine the prior on sets of the search with a grid around the scale of ``best``."""
    unit = math.log(float(data.d.mean()) / data.n)
    grid = make_prior_grid(data, best.log_ratio if best.v.size else unit)
    return SetPrior(log_prior, grid, dof)


def mixture_interval(
    inclusion: np.ndarray, mean: np.ndarray, deviation: np.ndarray, level: float
) -> np.ndarray:
    """Compute equal-tailed intervals of spike-and-slab posteriors, of shape (..., 2).

    A coefficient is exactly zero with probability 1 - ``inclusion``, otherwise normal. If the point
    mass at zero contains a quantile, the quantile is zero.
    """
    least = np.finfo(float).tiny
    a, spread = np.maximum(inclusion, least), np.maximum(deviation, least)
    negative = a * ndtr(-mean / spread)
    ends = []
    for tail in (0.5 - 0.5 * level, 0.5 + 0.5 * level):
        # Quantile level within the normal component.
        level_in = np.where(tail < negative, tail, tail - (1.0 - a)) / a
        end = mean + spread * ndtri(np.clip(level_in, least, 1.0 - 1e-16))
        ends.append(np.where((tail >= negative) & (tail <= negative + 1.0 - a), 0.0, end))
    return np.stack(ends, axis=-1)


def credible_sets_of(data: RegressionMoments, fit: RegressionFit, dof: float) -> list[np.ndarray]:
    """Compute the credible set of each variable of ``fit``."""
    if fit.v.size == 0:
        return []
    cross = data.G.take(fit.v, axis=1)
    gain = exchange_gains(fit, score_additions(fit, cross, data.d, data.b, dof), dof)
    correlation = np.abs(cross) / np.sqrt(data.d[:, None] * data.d[fit.v])
    return credible_sets(fit.v, gain, correlation)
