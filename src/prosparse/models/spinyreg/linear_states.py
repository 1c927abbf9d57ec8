"""States of the average over sets in linear regression.

[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Given a set v and a prior on its coefficients, the integral over the coefficients and the noise
variances, with p(sigma2) ~ 1/sigma2, has a closed form (`slab_scales`). With f degrees of freedom
of y,

    E[w] = M,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) .

A state is a set with a mark for each variable, a size or a sign, at one grid point of the prior and
one level of the dense component (`dense`). Each flip of a variable and each change of a mark, of
the grid point or of the level has rate pi(new) / (pi(old) + pi(new)), so that detailed balance
holds and no move is rejected. The rates of flips follow from rank-one formulas and determine the
probability of each variable given all others. Averages of these probabilities
(Rao-Blackwellisation) require far fewer states than counts of visits, [ZR19].

If a few variables jointly explain y but none explains much alone, all sets between the empty set
and the set of these variables are improbable, and single flips rarely connect both. The
intermediate sets of the search are therefore jump targets: the process also jumps between any two
of these sets, at any two scales, with a rate of the same form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import entr, expit

from .dense import DenseComponent, dense_component
from .set_model import Coefficients, DenseSums, Sums, VisitedState, zero_sums
from .slab_scales import (
    GRID_RATE,
    SetDensities,
    SetPrior,
    mark_patterns,
    positive_signs,
    set_densities,
    state_rates,
)
from .stepwise import eliminate_variables

if TYPE_CHECKING:
    from .linear import LinearModel

MAX_LOG_DROP = 15.0  # maximum difference of the log posteriors of jump targets

Marked = tuple[tuple[int, ...], tuple[int, ...]]
"""Variables of a set in increasing order and their marks."""
StateKey = tuple[Marked, int, int]
"""Marked set, grid point and level."""


class JumpTargets(NamedTuple):
    """Sets between which the process jumps, with marks for each prior."""

    labels: list[Marked]
    signs: list[Marked]
    level: list[int]
    independent: int  # number of grid points with independent coefficients
    log_density: np.ndarray  # (S, A) log posterior at each grid point

    def find(self, i: int, a: int) -> StateKey:
        """Return target ``i`` with the marks at grid point ``a``."""
        marked = self.labels[i] if a < self.independent else self.signs[i]
        return marked, a, self.level[i]

    def rates(self, key: StateKey) -> np.ndarray:
        """Compute the rates from a target ``key`` to all targets, (S A,)."""
        marked, a, level = key
        targets = self.labels if a < self.independent else self.signs
        same = [i for i, own in enumerate(self.level) if own == level and targets[i] == marked]
        if not same:
            return np.zeros(0)
        rates = expit(self.log_density - self.log_density[same[0], a])
        rates[same[0]] = 0.0  # changes of the grid point are part of `StateRates`
        return rates.ravel()


class LinearVisit(NamedTuple):
    """Visited state."""

    v: np.ndarray  # (q,)
    log_posterior: float  # up to a constant of the data
    rates: np.ndarray  # cumulative rates of all moves
    inclusion: np.ndarray  # (p,) probability of each variable given all others
    signs: np.ndarray  # (q,) marks after a jump to a common magnitude


class LinearStates:
    """State space of the linear model, with or without a dense component.

    ``columns`` contains the columns of the variables in the dense component, and ``sign`` their
    signs.
    """

    max_enumerated = 7
    max_visited = 400

    def __init__(
        self,
        model: LinearModel,
        prior: SetPrior,
        dense: DenseComponent | None = None,
        columns: np.ndarray | None = None,
        sign: np.ndarray | None = None,
    ):
        p = model.n_variables
        self.model, self.prior, self.dense = model, prior, dense
        self.columns = np.arange(p) if columns is None else columns
        self.sign = np.ones(p) if sign is None else sign  # (p,) of the columns
        self.targets = JumpTargets([], [], [], 0, np.zeros((0, prior.grid.rho.size)))
        self.models: dict[int, LinearModel] = {}  # at each level

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.model.n_variables

    @property
    def n_levels(self) -> int:
        """Number of levels of the dense component, at least 1."""
        return 1 if self.dense is None else self.dense.kappa.size

    def log_offset(self, level: int) -> float:
        """Return the log density of a level that `set_densities` omits."""
        return 0.0 if self.dense is None else float(self.dense.log_offset[level])

    def at_level(self, level: int) -> LinearModel:
        """Return the model at a level of the dense component."""
        if level not in self.models:
            self.models[level] = self.marginalise(np.arange(self.n_variables), level)
        return self.models[level]

    def marginalise(self, v: np.ndarray, level: int) -> LinearModel:
        """Return the model of some variables at a level of the dense component."""
        if self.dense is None:
            return self.model if v.size == self.n_variables else self.model.take(v)
        model, sign = self.dense.marginalise(self.model, self.columns[v], level), self.sign[v]
        return model._replace(G=model.G * sign * sign[:, None], B=model.B * sign[:, None])

    def take(self, order: np.ndarray) -> LinearStates:
        """Restrict the states to some variables.

        Unless signs matter, columns are reflected to be positively correlated with the response, so
        that the draws do not depend on the signs of the columns.
        """
        model = self.model.take(order)
        flipped = (model.B[:, 0] < 0.0) & (not model.common_sign)
        sign = np.where(flipped, -1.0, 1.0)
        model = model._replace(G=model.G * sign * sign[:, None], B=model.B * sign[:, None])
        columns, sign = self.columns[order], self.sign[order] * sign
        return LinearStates(model, self.prior, self.dense, columns, sign)

    def mean_squares(self) -> np.ndarray:
        """Return the mean squares of the columns, (p,)."""
        return self.model.d / self.model.n

    def empty_coefficients(self) -> Coefficients:
        """Compute the posterior of the empty set."""
        sigma2 = mean_noise_variance(self.model.yy, self.prior.dof)
        share = (self.model.n - self.prior.dof) / self.model.n
        m = sigma2.size
        return Coefficients(np.zeros((m, 0)), share * sigma2[:, None, None], np.zeros(m), sigma2)

    # --- the process

    def start(self, v: np.ndarray, targets: list[np.ndarray]) -> StateKey:
        """Find the best state of the set v (with a dense component, of subsets)."""
        self.targets = self.find_targets([v, v[:0], *targets])
        if self.dense is None:
            v = np.sort(v)
            labels, signs, _, log_posterior = self.target(self.model, v, v, 0)
            a = int(log_posterior.argmax())
            return labels if a < self.prior.grid.n_independent else signs, a, 0
        log_density = self.targets.log_density
        return self.targets.find(*divmod(int(log_density.argmax()), log_density.shape[1]))

    def max_log_posterior(self, v: np.ndarray) -> float:
        """Compute the log posterior of the best state of v and its subsets."""
        return float(self.find_targets([v]).log_density.max())

    def find_targets(self, sets: list[np.ndarray]) -> JumpTargets:
        """Select the sufficiently probable ``sets``, or subsets of the first.

        Subsets of the first set are used with a dense component, because fewer variables are then
        active.
        """
        entries: list[tuple[Marked, Marked, int, np.ndarray]] = []
        if self.dense is None:
            entries = [self.target(self.model, v, v, 0) for v in distinct(sets)]
        else:
            v = np.sort(sets[0])
            for level in range(self.n_levels):
                part = self.marginalise(v, level)
                best = max(
                    eliminate_variables(part, part.fit(np.arange(v.size))),
                    key=lambda fit: part.evidence(fit) + self.prior.log_prior[fit.v.size],
                )
                nested = distinct([np.sort(best.v), v[:0]])
                entries += [self.target(part, v[each], each, level) for each in nested]
        top = max(float(each[-1].max()) for each in entries)
        retained = [each for each in entries if each[-1].max() > top - MAX_LOG_DROP]
        labels, signs, levels, log_density = zip(*retained, strict=True)
        independent = self.prior.grid.n_independent
        return JumpTargets(
            list(labels), list(signs), list(levels), independent, np.array(log_density)
        )

    def target(
        self, model: LinearModel, v: np.ndarray, at: np.ndarray, level: int
    ) -> tuple[Marked, Marked, int, np.ndarray]:
        """Find good marks of the set ``v``, at positions ``at`` of ``model``."""
        labels, signs, log_density = best_marks(model, self.prior, at)
        log_posterior = log_density + (self.prior.log_prior[v.size] + self.log_offset(level))
        members = tuple(v.tolist())
        return (members, labels), (members, signs), level, log_posterior

    def visit(self, key: Hashable) -> LinearVisit:
        """Compute the rates of a state."""
        (v, marks), a, level = cast(StateKey, key)
        members, marked = np.array(v, dtype=int), np.array(marks, dtype=int)
        local = state_rates(self.at_level(level), self.prior, members, marked, a)
        common, rates = a >= self.prior.grid.n_independent, np.zeros(2)
        for k, other in enumerate((level - 1, level + 1)):
            if 0 <= other < self.n_levels:
                model = self.at_level(other)
                there = set_densities(model, self.prior, members[None], marked[None], common)
                at = a - common * self.prior.grid.n_independent
                gain = there.log_density[0, at] - local.log_density[a]
                gain += self.log_offset(other) - self.log_offset(level)
                rates[k] = GRID_RATE * expit(gain)
        every = np.concatenate([local.rates, rates, self.targets.rates(((v, marks), a, level))])
        log_posterior = local.log_density[a] + self.prior.log_prior[len(v)]
        log_posterior += self.log_offset(level)
        return LinearVisit(members, log_posterior, np.cumsum(every), local.inclusion, local.signs)

    def move(self, key: Hashable, state: VisitedState, j: int) -> StateKey:
        """Return the state after move ``j`` of `visit`."""
        (v, marks), a, level = cast(StateKey, key)
        p, q, grid = self.n_variables, len(v), self.prior.grid
        common = a >= grid.n_independent
        if j < 2 * p:
            mark, i = divmod(j, p)
            at = bisect_left(v, i)
            if i in v:
                new = v[:at] + v[at + 1 :], marks[:at] + marks[at + 1 :]
            else:
                new = (*v[:at], i, *v[at:]), (*marks[:at], mark, *marks[at:])
            return mark_first(new, common), a, level
        j -= 2 * p
        if j < q:
            return mark_first((v, (*marks[:j], 1 - marks[j], *marks[j + 1 :])), common), a, level
        j -= q
        if j < grid.rho.size:
            if common == bool(grid.rho[j]):
                return (v, marks), j, level
            signs = tuple(cast(LinearVisit, state).signs.tolist())
            return (v, (0,) * q if common else signs), j, level
        j -= grid.rho.size
        if j < 2:
            return (v, marks), a, level + 2 * j - 1
        return self.targets.find(*divmod(j - 2, grid.rho.size))

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Return 0, because the rates satisfy detailed balance."""
        return 0.0

    def with_dense_component(self) -> LinearStates | None:
        """Build the states with a dense component of all variables."""
        if self.dense is not None:
            return None
        return LinearStates(self.model, self.prior, dense_component(self.model))

    # --- moments

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Sum over the visited sets, with all grid points of each prior."""
        keyed = cast(list[StateKey], keys)
        visited = np.unique(np.concatenate([np.array(v, dtype=int) for (v, _), _, _ in keyed]))
        totals = zero_sums(visited.size, self.model.yy.size)
        dense = None if self.dense is None else DenseTotals(self.dense, self.columns[visited])
        for level in sorted({level for _, _, level in keyed}):
            here = [k for k, key in enumerate(keyed) if key[2] == level]
            sums = self.sum_level(level, [keyed[k] for k in here], weights[here], visited)
            if dense is not None:
                sums = dense.add_level(sums, level, float(weights[here].sum()))
            totals = Sums(*(a + b for a, b in zip(totals[:-1], sums[:-1], strict=True)))
        return visited, totals if dense is None else totals._replace(dense=dense.sums())

    def log_evidence(
        self,
        keys: list[Hashable],
        states: list[VisitedState],
        weights: np.ndarray,
        inclusion: np.ndarray,
    ) -> float:
        """Estimate the log evidence of all states, up to a constant of the data.

        The estimate is the mean log posterior plus an upper bound of the entropy of the posterior,
        that of independent variables, marks, grid points and levels.
        """
        mean = sum(
            weight * cast(LinearVisit, state).log_posterior
            for weight, state in zip(weights.tolist(), states, strict=True)
        )
        scales: dict[tuple[int, int], float] = {}
        marked = np.zeros((2, self.n_variables))
        for ((v, marks), a, level), weight in zip(cast(list[StateKey], keys), weights, strict=True):
            scales[a, level] = scales.get((a, level), 0.0) + weight
            marked[list(marks), list(v)] += weight
        either = np.maximum(marked.sum(axis=0), np.finfo(float).tiny)
        entropy = entr(np.array(list(scales.values()))).sum()
        inclusion = np.clip(inclusion, 0.0, 1.0)  # rounding
        entropy += (entr(inclusion) + entr(1.0 - inclusion)).sum()
        entropy += (inclusion * entr(marked / either).sum(axis=0)).sum()
        return float(mean + entropy)

    def sum_level(
        self, level: int, keys: list[StateKey], weights: np.ndarray, visited: np.ndarray
    ) -> Sums:
        """Sum over the visited sets of one level, with the signs of the columns."""
        model, prior = self.at_level(level), self.prior
        seen: dict[tuple[Marked, bool], float] = {}
        for (marked, a, _), weight in zip(keys, weights.tolist(), strict=True):
            each = marked, a >= prior.grid.n_independent
            seen[each] = seen.get(each, 0.0) + weight
        sums = zero_sums(visited.size, model.yy.size)
        groups: dict[tuple[int, bool], list[Marked]] = {}
        for marked, common in seen:
            groups.setdefault((len(marked[0]), common), []).append(marked)
        for (_, common), sets in groups.items():
            v, marks = (np.array(each, dtype=int) for each in zip(*sets, strict=True))
            density = set_densities(model, prior, v, marks, common)
            total = np.logaddexp.reduce(density.log_density, axis=1)[:, None]
            time = np.array([seen[each, common] for each in sets])[:, None]
            conditional = time * np.exp(density.log_density - total)
            density = density._replace(v=np.searchsorted(visited, v))
            add_sets(sums, model, prior, density, conditional)
        sign = np.append(1.0, self.sign[visited])
        return sums._replace(first=sums.first * sign, second=sums.second * sign * sign[:, None])

    def enumerate_sets(self) -> tuple[Sums, np.ndarray, np.ndarray]:
        """Sum over all sets and marks."""
        model, prior, p = self.model, self.prior, self.n_variables
        bits = mark_patterns(p, common=False)
        sizes = bits.sum(axis=1)
        groups = []
        numbers = np.flatnonzero(np.isfinite(prior.log_prior))
        for q in numbers.tolist():
            sets = np.nonzero(bits[sizes == q])[1].reshape(np.count_nonzero(sizes == q), q)
            for common in (False, True):
                if common and prior.grid.n_independent == prior.grid.rho.size:
                    continue
                patterns = mark_patterns(q, common)
                v = np.repeat(sets, patterns.shape[0], axis=0)
                marks = np.tile(patterns, (sets.shape[0], 1))
                density = set_densities(model, prior, v, marks, common)
                groups.append((q, density, density.log_density + prior.log_prior[q]))
        top = max(float(each[-1].max()) for each in groups)
        total = sum(float(np.exp(each[-1] - top).sum()) for each in groups)
        sums = zero_sums(p, model.yy.size)
        by_size, size_probability = np.zeros((p, numbers[-1] + 1)), np.zeros(numbers[-1] + 1)
        for q, density, log_weight in groups:
            before, weights = sums.weight.copy(), np.exp(log_weight - top) / total
            add_sets(sums, model, prior, density, weights)
            by_size[:, q] += sums.weight - before
            size_probability[q] += float(weights.sum())
        return sums, by_size, size_probability


def mark_first(marked: Marked, common: bool) -> Marked:
    """Make the first sign positive."""
    v, marks = marked
    if not common or not marks or marks[0]:
        return marked
    return v, tuple(1 - mark for mark in marks)


class DenseTotals:
    """Moments of total coefficients w + u, summed over levels."""

    def __init__(self, dense: DenseComponent, columns: np.ndarray):
        self.dense, self.columns = dense, columns
        shape = dense.a.shape[1], dense.F.shape[0]
        self.mean, self.variance = np.zeros(shape), np.zeros(shape)
        self.predictive = np.zeros(shape[0])

    def add_level(self, sums: Sums, level: int, weight: float) -> Sums:
        """Add a level; replace moments of w by moments of w + E[u | w]."""
        hat, ridge = self.dense.hat(self.columns, level), self.dense.ridge(level).T
        self.mean += weight * ridge - sums.first[:, 1:] @ hat.T
        self.variance += np.multiply.outer(sums.sigma2, self.dense.variance(level))
        self.predictive += sums.sigma2 * self.dense.predictive_variance(level)
        A = np.eye(1 + self.columns.size)  # matrix for intercept and coefficients
        A[1:, 1:] -= hat[self.columns]
        constant = np.column_stack([np.zeros(ridge.shape[0]), ridge[:, self.columns]])
        mean = sums.first @ A.T
        cross = mean[:, :, None] * constant[:, None, :]
        squares = weight * constant[:, :, None] * constant[:, None, :]
        second = A @ sums.second @ A.T + cross + np.swapaxes(cross, 1, 2) + squares
        return sums._replace(first=mean + weight * constant, second=second)

    def sums(self) -> DenseSums:
        """Return the sums over the levels."""
        mean = self.mean.copy()
        mean[:, self.columns] = 0.0
        return DenseSums(mean, self.variance, self.predictive)


def mean_noise_variance(R: np.ndarray, dof: float) -> np.ndarray:
    """Compute the (bounded) posterior mean of the noise variance."""
    return R / max(dof - 2, 1)


def add_sets(
    sums: Sums, model: LinearModel, prior: SetPrior, density: SetDensities, weights: np.ndarray
) -> None:
    """Add sets to ``sums``.

    ``weights`` (S, A) contains posterior probabilities at each grid point.

    Let m_0 and P_0 refer to independent coefficients, z = P_0 s and x = h c / (1 - h t)
    (`slab_scales`). Then m = m_0 + x z and P = P_0 + h / (1 - h t) z z'.
    """
    noise = mean_noise_variance(density.R, prior.dof)  # (S, A, m)
    of_noise = weights[..., None] * noise
    total = of_noise.sum(axis=(0, 1))
    np.add(sums.sigma2, total, out=sums.sigma2)
    sums.second[:, 0, 0] += total * (model.n - prior.dof) / model.n
    v, U = density.v, density.U
    if v.shape[1] == 0:
        return
    shrunk = U[:, None] / density.eigenvalues[:, :, None, :]  # (S, A, q, q)
    P = shrunk @ np.swapaxes(U, 1, 2)[:, None]
    mean = shrunk @ density.c[:, None]  # (S, A, q, m)
    if density.signs.any():
        z = np.einsum("sail,sl->sai", P, density.signs)
        x = density.gain_factor * np.einsum("sai,si->sa", mean[..., 0], density.signs)
        mean = mean + (x[..., None] * z)[..., None]
        P = P + density.gain_factor[..., None, None] * z[..., :, None] * z[..., None, :]
    first = np.einsum("sa,saim->smi", weights, mean)
    second = np.einsum("sam,sail->smil", of_noise, P, optimize=True)
    second += np.einsum("sa,saim,salm->smil", weights, mean, mean, optimize=True)
    weight = weights.sum(axis=1)
    np.add.at(sums.weight, v, weight[:, None])
    np.add.at(sums.together, (v[:, :, None], v[:, None, :]), weight[:, None, None])
    for k in range(first.shape[1]):
        np.add.at(sums.first[k], 1 + v, first[:, k])
        np.add.at(sums.second[k], (1 + v[:, :, None], 1 + v[:, None, :]), second[:, k])


def distinct(sets: list[np.ndarray]) -> list[np.ndarray]:
    """Return the distinct sets, each in increasing order."""
    return [np.array(v, dtype=int) for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets)]


Marks = tuple[int, ...]


def best_marks(
    model: LinearModel, prior: SetPrior, v: np.ndarray
) -> tuple[Marks, Marks, np.ndarray]:
    """Find good labels and signs of the set ``v``, and log densities (A,).

    The labels are the best among equal labels and large labels for the k = 1, ..., q largest
    effects.
    """
    q = v.size
    small = set_densities(model, prior, v[None], np.zeros((1, q), dtype=int), False)
    A = model.gram(v)
    A.flat[:: q + 1] += np.exp(prior.grid.log_ratio[np.argmax(small.log_density[0])])
    means = np.linalg.solve(A, model.B[v]) if q else np.zeros((0, model.yy.size))
    place = np.empty(q, dtype=int)
    place[np.argsort(-(means**2).sum(axis=1) * model.d[v], kind="stable")] = np.arange(q)
    patterns = (place < np.arange(q + 1)[:, None]).astype(int)
    found = set_densities(model, prior, np.tile(v, (q + 1, 1)), patterns, False).log_density
    at, signs = int(np.argmax(found.max(axis=1))), positive_signs(means[:, 0])
    log_density = found[at]
    if prior.grid.n_independent < prior.grid.rho.size:
        with_signs = set_densities(model, prior, v[None], signs[None], True)
        log_density = np.append(log_density, with_signs.log_density[0])
    return tuple(patterns[at].tolist()), tuple(signs.tolist()), log_density
