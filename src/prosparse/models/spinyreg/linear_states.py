"""States of the average over sets in linear regression.

[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Given a set v and a prior on its coefficients, the coefficients and the noise variances with
p(sigma2) ~ 1/sigma2 integrate out in closed form (`slab_scales`). With f degrees of freedom of y,

    E[w] = M,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) .

A state is a set with a mark for each variable, a size or a sign, at one grid point of the prior.
Each flip of a variable, change of a mark and change of the grid point has the rate
pi(new) / (pi(old) + pi(new)), so detailed balance holds and no move is rejected. All rates follow
from rank-one formulas. They also give the probability of each variable given all others; averaging
these (Rao-Blackwellisation) needs far fewer states than counting visits, [ZR19].

If a few variables explain y together but none explains much alone, all sets between the empty set
and theirs are improbable, and single flips rarely connect the two. The intermediate sets of the
search are jump targets: the process also jumps between any two of them, at any two scales, at a
rate of the same form.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit

from .set_model import Coefficients, Sums, VisitedState, zero_sums
from .slab_scales import (
    SetDensities,
    SetPrior,
    mark_patterns,
    positive_signs,
    set_densities,
    state_rates,
)

if TYPE_CHECKING:
    from .linear import LinearModel

MAX_LOG_DROP = 15.0  # maximum difference of the log posteriors of jump targets

Marked = tuple[tuple[int, ...], tuple[int, ...]]
"""Variables of a set in increasing order and their marks."""
StateKey = tuple[Marked, int]
"""Marked set, and grid point."""


class JumpTargets(NamedTuple):
    """Sets between which the process jumps, with marks for each prior."""

    labels: list[Marked]
    signs: list[Marked]
    two: int  # number of grid points with two scales
    log_density: np.ndarray  # (S, A) log posterior at each grid point

    def find(self, i: int, a: int) -> Marked:
        """Return target ``i`` with its marks at grid point ``a``."""
        return self.labels[i] if a < self.two else self.signs[i]

    def rates(self, state: Marked, a: int) -> np.ndarray:
        """Return the (S A,) rates to all targets, if ``state`` is a target."""
        targets = self.labels if a < self.two else self.signs
        if state not in targets:
            return np.zeros(0)
        i = targets.index(state)
        rates = expit(self.log_density - self.log_density[i, a])
        rates[i] = 0.0  # changes of the grid point are in `StateRates`
        return rates.ravel()


class LinearVisit(NamedTuple):
    """Visited state."""

    v: np.ndarray  # (q,)
    rates: np.ndarray  # cumulative rates of all moves
    inclusion: np.ndarray  # (p,) probability of each variable given all others
    signs: np.ndarray  # (q,) marks of a common magnitude to which a jump leads


class LinearStates:
    """State space of the linear model."""

    max_enumerated = 7
    max_visited = 400

    def __init__(self, model: LinearModel, prior: SetPrior, sign: np.ndarray | None = None):
        self.model, self.prior = model, prior
        self.sign = np.ones(model.n_variables) if sign is None else sign  # (p,) of the columns
        self.targets = JumpTargets([], [], 0, np.zeros((0, prior.grid.rho.size)))

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.model.n_variables

    def take(self, order: np.ndarray) -> LinearStates:
        """Restrict the states to some variables.

        All are made positively correlated with the response: the draws do not depend on the signs
        of the columns.
        """
        sign = np.where(self.model.B[order, 0] < 0.0, -1.0, 1.0)
        model = self.model.take(order)
        model = model._replace(G=model.G * sign * sign[:, None], B=model.B * sign[:, None])
        return LinearStates(model, self.prior, self.sign[order] * sign)

    def mean_squares(self) -> np.ndarray:
        """Return the (p,) mean squares of the columns."""
        return self.model.d / self.model.n

    def empty_coefficients(self) -> Coefficients:
        """Return the posterior of the empty set."""
        sigma2 = mean_noise_variance(self.model.yy, self.prior.dof)
        share = (self.model.n - self.prior.dof) / self.model.n
        m = sigma2.size
        return Coefficients(np.zeros((m, 0)), share * sigma2[:, None, None], np.zeros(m), sigma2)

    # --- the process

    def start(self, v: np.ndarray, targets: list[np.ndarray]) -> StateKey:
        """Return the set v at its best grid point with two scales."""
        self.targets = find_jump_targets(self.model, self.prior, [v, v[:0], *targets])
        labelled, _, log_density = best_marks(self.model, self.prior, np.sort(v))
        return labelled, int(np.argmax(log_density[: self.prior.grid.n_two_scales]))

    def visit(self, key: Hashable) -> LinearVisit:
        """Compute the rates of a state."""
        (v, marks), a = cast(StateKey, key)
        members = np.array(v, dtype=int)
        local = state_rates(self.model, self.prior, members, np.array(marks, dtype=int), a)
        rates = np.cumsum(np.append(local.rates, self.targets.rates((v, marks), a)))
        return LinearVisit(members, rates, local.inclusion, local.signs)

    def move(self, key: Hashable, state: VisitedState, j: int) -> StateKey:
        """Return the state to which move ``j`` of `StateRates` leads."""
        (v, marks), a = cast(StateKey, key)
        p, q, grid = self.n_variables, len(v), self.prior.grid
        common = a >= grid.n_two_scales
        if j < 2 * p:
            mark, i = divmod(j, p)
            at = bisect_left(v, i)
            if i in v:
                return mark_first((v[:at] + v[at + 1 :], marks[:at] + marks[at + 1 :]), common), a
            return mark_first(((*v[:at], i, *v[at:]), (*marks[:at], mark, *marks[at:])), common), a
        j -= 2 * p
        if j < q:
            return mark_first((v, (*marks[:j], 1 - marks[j], *marks[j + 1 :])), common), a
        j -= q
        if j < grid.rho.size:
            if common == bool(grid.rho[j]):
                return (v, marks), j
            signs = tuple(cast(LinearVisit, state).signs.tolist())
            return (v, (0,) * q if common else signs), j
        i, a = divmod(j - grid.rho.size, grid.rho.size)
        return self.targets.find(i, a), a

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Return 0: the rates satisfy detailed balance."""
        return 0.0

    # --- moments

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Sum over the visited sets, with all grid points of each prior."""
        model, prior, two = self.model, self.prior, self.prior.grid.n_two_scales
        seen: dict[tuple[Marked, bool], float] = {}
        for (marked, a), weight in zip(cast(list[StateKey], keys), weights.tolist(), strict=True):
            seen[marked, a >= two] = seen.get((marked, a >= two), 0.0) + weight
        visited = np.unique(np.concatenate([np.array(v, dtype=int) for (v, _), _ in seen]))
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
        return visited, sums._replace(
            first=sums.first * sign, second=sums.second * sign * sign[:, None]
        )

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
                if common and prior.grid.n_two_scales == prior.grid.rho.size:
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


def mean_noise_variance(R: np.ndarray, dof: float) -> np.ndarray:
    """Return the (bounded) posterior mean of the noise variance."""
    return R / max(dof - 2, 1)


def add_sets(
    sums: Sums, model: LinearModel, prior: SetPrior, density: SetDensities, weights: np.ndarray
) -> None:
    """Add sets to ``sums``.

    ``weights`` of shape (S, A) holds posterior probabilities at each grid point.

    With m_0 and P_0 of independent coefficients, z = P_0 s and x = h c / (1 - h t), see
    `slab_scales`, m = m_0 + x z and P = P_0 + h / (1 - h t) z z'.
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


def best_marks(
    model: LinearModel, prior: SetPrior, v: np.ndarray
) -> tuple[Marked, Marked, np.ndarray]:
    """Return the set ``v`` with good labels and signs, and (A,) log densities.

    The labels are the best of equal ones and of large ones for the k largest effects, k = 1 .. q.
    """
    q, two = v.size, prior.grid.n_two_scales
    small = set_densities(model, prior, v[None], np.zeros((1, q), dtype=int), False)
    best = small.log_density
    A = model.gram(v)
    A.flat[:: q + 1] += np.exp(prior.grid.log_ratio[np.argmax(best[0])])
    means = np.linalg.solve(A, model.B[v]) if q else np.zeros((0, model.yy.size))
    place = np.empty(q, dtype=int)
    place[np.argsort(-(means**2).sum(axis=1) * model.d[v], kind="stable")] = np.arange(q)
    patterns = (place < np.arange(q + 1)[:, None]).astype(int)
    found = set_densities(model, prior, np.tile(v, (q + 1, 1)), patterns, False).log_density
    at, signs = int(np.argmax(found.max(axis=1))), positive_signs(means[:, 0])
    log_density = found[at]
    if two < prior.grid.rho.size:
        with_signs = set_densities(model, prior, v[None], signs[None], True)
        log_density = np.append(log_density, with_signs.log_density[0])
    members = tuple(v.tolist())
    return (members, tuple(patterns[at].tolist())), (members, tuple(signs.tolist())), log_density


def find_jump_targets(model: LinearModel, prior: SetPrior, sets: list[np.ndarray]) -> JumpTargets:
    """Select the sufficiently probable ``sets``, with good marks."""
    found = [
        best_marks(model, prior, np.array(v, dtype=int))
        for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets)
    ]
    log_posterior = [each[2] + prior.log_prior[len(each[0][0])] for each in found]
    top = max(float(each.max()) for each in log_posterior)
    retained = [i for i, each in enumerate(log_posterior) if each.max() > top - MAX_LOG_DROP]
    return JumpTargets(
        [found[i][0] for i in retained],
        [found[i][1] for i in retained],
        prior.grid.n_two_scales,
        np.array([log_posterior[i] for i in retained]),
    )
