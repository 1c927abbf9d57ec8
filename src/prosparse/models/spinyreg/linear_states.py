"""States of the average over sets in linear regression.

[ZR19]  G. Zanella, G. Roberts. Scalable importance tempering and Bayesian variable selection.
        Journal of the Royal Statistical Society B 81(3), 2019.

Given a set v and a prior on its coefficients, the coefficients and the noise variances with
p(sigma2) ~ 1/sigma2 integrate out in closed form. With f degrees of freedom of y and W as in
`common_magnitude`,

    log p(y | v, ...) = -f/2 log R - 1/2 log det(W / prior precision) + constant ,

    E[w] = m,    Cov[w] = sigma2 P,    sigma2 = E[noise variance] = R / (f - 2) .

A state is a set with the scale of its coefficients and, for a common magnitude, their signs. Each
flip of a variable, change of a sign and change of the scale has the rate
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
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit

from .common_magnitude import (
    Densities,
    SetPrior,
    Spectrum,
    StateRates,
    densities,
    sign_patterns,
    spectrum,
    state_rates,
)
from .set_model import Coefficients, Sums, VisitedState, zero_sums

if TYPE_CHECKING:
    from .linear import LinearModel

MAX_LOG_DROP = 15.0  # maximum difference of the log posteriors of jump targets

Signed = tuple[tuple[int, ...], tuple[float, ...] | None]
"""Variables of a set in increasing order and their signs, None if independent."""
StateKey = tuple[Signed, int]
"""Set with signs, and grid point."""


class JumpTargets(NamedTuple):
    """Sets with signs between which the process jumps."""

    sets: list[tuple[int, ...]]  # variables of each, in increasing order
    signs: list[tuple[float, ...]]
    position: dict[tuple[int, ...], int]  # position of each set in `sets`
    log_density: np.ndarray  # (S, A) log posterior at each grid point

    def rates(self, state: Signed, a: int) -> np.ndarray:
        """Return the (S A,) rates to all targets, if ``state`` is a target."""
        v, signs = state
        i = self.position.get(v)
        if i is None or (signs is not None and signs != self.signs[i]):
            return np.zeros(0)
        rates = expit(self.log_density - self.log_density[i, a])
        rates[i] = 0.0  # changes of the grid point are in `StateRates`
        return rates.ravel()


class LinearVisit(NamedTuple):
    """Visited state."""

    v: np.ndarray  # (q,)
    rates: np.ndarray  # cumulative rates of all moves
    inclusion: np.ndarray  # (p,) probability of each variable given all others
    signs: np.ndarray  # (q,) signs of a common magnitude, also if coefficients are independent


class LinearStates:
    """State space of the linear model."""

    max_enumerated = 10
    max_visited = 400

    def __init__(self, model: LinearModel, prior: SetPrior):
        self.model, self.prior = model, prior
        self.targets = JumpTargets([], [], {}, np.zeros((0, prior.grid.rho.size)))

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.model.n_variables

    def take(self, order: np.ndarray) -> LinearStates:
        """Restrict the states to some variables."""
        return LinearStates(self.model.take(order), self.prior)

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
        """Return the set v with independent coefficients at its best grid point."""
        self.targets = find_jump_targets(self.model, self.prior, [v, v[:0], *targets])
        return (tuple(np.sort(v).tolist()), None), best_independent(
            self.model, self.prior, np.sort(v)
        )

    def visit(self, key: Hashable) -> LinearVisit:
        """Compute the rates of a state."""
        (v, signs), a = cast(StateKey, key)
        members = np.array(v, dtype=int)
        local = state_rates(
            self.model, self.prior, members, None if signs is None else np.array(signs), a
        )
        rates = np.cumsum(np.append(local.rates, self.targets.rates((v, signs), a)))
        return LinearVisit(members, rates, local.inclusion, local.signs)

    def move(self, key: Hashable, state: VisitedState, j: int) -> StateKey:
        """Return the state to which move ``j`` of `StateRates` leads."""
        (v, signs), a = cast(StateKey, key)
        p, q, A = self.n_variables, len(v), self.prior.grid.rho.size
        if j < 2 * p:
            sign, i = (1.0, j) if j < p else (-1.0, j - p)
            at = bisect_left(v, i)
            if i in v:
                removed = positive(signs, lambda s: s[:at] + s[at + 1 :])
                return (v[:at] + v[at + 1 :], removed), a
            v = (*v[:at], i, *v[at:])
            return (v, positive(signs, lambda s: (*s[:at], sign, *s[at:]))), a
        j -= 2 * p
        if j < q:
            return (v, positive(signs, lambda s: (*s[:j], -s[j], *s[j + 1 :]))), a
        j -= q
        if j < A:
            independent = self.prior.grid.rho[j] == 0.0
            return (v, None if independent else tuple(cast(LinearVisit, state).signs.tolist())), j
        i, a = divmod(j - A, A)
        independent = self.prior.grid.rho[a] == 0.0
        return (self.targets.sets[i], None if independent else self.targets.signs[i]), a

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Return 0: the rates satisfy detailed balance."""
        return 0.0

    # --- moments

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Sum over the visited sets, with all grid points of each."""
        model, prior = self.model, self.prior
        seen: dict[Signed, float] = {}
        for (signed, _), weight in zip(cast(list[StateKey], keys), weights.tolist(), strict=True):
            seen[signed] = seen.get(signed, 0.0) + weight
        visited = np.unique(np.concatenate([np.array(v, dtype=int) for v, _ in seen]))
        sums = zero_sums(visited.size, model.yy.size)
        groups: dict[tuple[int, bool], list[Signed]] = {}
        for v, signs in seen:
            groups.setdefault((len(v), signs is not None), []).append((v, signs))
        for (q, common), sets in groups.items():
            positions = np.array([v for v, _ in sets], dtype=int).reshape(len(sets), q)
            grid = prior.grid.common() if common else prior.grid.independent()
            pattern = np.array([s for _, s in sets]).reshape(len(sets), 1, q) if common else None
            spectra = spectrum(model, positions)
            density = densities(model, prior, grid, spectra, pattern)
            total = np.logaddexp.reduce(density.log_density, axis=2)[..., None]
            time = np.array([seen[each] for each in sets])
            conditional = time[:, None, None] * np.exp(density.log_density - total)
            places = np.searchsorted(visited, positions)
            add_sets(sums, model, prior, places, spectra, density, conditional)
        return visited, sums

    def enumerate_sets(self) -> tuple[Sums, np.ndarray, np.ndarray]:
        """Sum over all sets and signs."""
        model, prior, p = self.model, self.prior, self.n_variables
        grids: list[tuple[object, bool]] = [(prior.grid.independent(), False)]
        if prior.grid.n_independent < prior.grid.rho.size:
            grids.append((prior.grid.common(), True))
        bits = (np.arange(2**p)[:, None] >> np.arange(p)) & 1
        sizes = bits.sum(axis=1)
        groups = []
        numbers = np.flatnonzero(np.isfinite(prior.log_prior))
        for q in numbers:
            v = np.nonzero(bits[sizes == q])[1].reshape(np.count_nonzero(sizes == q), q)
            spectra = spectrum(model, v)
            for grid, common in grids:
                signs = sign_patterns(int(q))[None] if common else None
                density = densities(model, prior, grid, spectra, signs)  # type: ignore[arg-type]
                groups.append((q, v, spectra, density, density.log_density + prior.log_prior[q]))
        top = max(float(each[-1].max()) for each in groups)
        total = sum(float(np.exp(each[-1] - top).sum()) for each in groups)
        sums = zero_sums(p, model.yy.size)
        by_size, size_probability = np.zeros((p, numbers[-1] + 1)), np.zeros(numbers[-1] + 1)
        for q, v, spectra, density, log_weight in groups:
            before, weights = sums.weight.copy(), np.exp(log_weight - top) / total
            add_sets(sums, model, prior, v, spectra, density, weights)
            by_size[:, q] += sums.weight - before
            size_probability[q] += float(weights.sum())
        return sums, by_size, size_probability


def mean_noise_variance(R: np.ndarray, dof: float) -> np.ndarray:
    """Return the (bounded) posterior mean of the noise variance."""
    return R / max(dof - 2, 1)


def add_sets(
    sums: Sums,
    model: LinearModel,
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
    noise = mean_noise_variance(density.R, prior.dof)  # (S, M, A, m)
    of_noise = (weights[..., None] * noise).sum(axis=1)  # (S, A, m)
    total = of_noise.sum(axis=(0, 1))
    np.add(sums.sigma2, total, out=sums.sigma2)
    sums.second[:, 0, 0] += total * (model.n - prior.dof) / model.n
    size, q = v.shape
    if q == 0:
        return
    each = weights.sum(axis=1)  # (S, A)
    shrunk = spectra.U[:, None] / density.eigenvalues[:, :, None, :]  # (S, A, q, q)
    P = shrunk @ np.swapaxes(spectra.U, 1, 2)[:, None]
    mean = shrunk @ spectra.c[:, None]  # (S, A, q, m)
    first = np.einsum("sa,saim->smi", each, mean)
    second = np.einsum("sam,sail->smil", of_noise, P, optimize=True)
    second += np.einsum("sa,saim,salm->smil", each, mean, mean, optimize=True)
    if density.gain_factor.any():
        of_signs = np.swapaxes(weights * density.gain_factor * density.c, 1, 2)  # (S, A, M)
        shift = np.einsum("sail,sal->sai", P, of_signs @ density.signs)
        squares = (density.signs[..., :, None] * density.signs[..., None, :]).reshape(
            *density.signs.shape[:2], q * q
        )
        of_squares = np.swapaxes(
            weights * (noise[..., 0] + density.gain_factor * density.c**2) * density.gain_factor,
            1,
            2,
        )
        inner = (of_squares @ squares).reshape(size, -1, q, q)
        crossed = np.einsum("sai,sal->sil", mean[..., 0], shift)
        second[:, 0] += crossed + np.swapaxes(crossed, 1, 2) + (P @ inner @ P).sum(axis=1)
        first[:, 0] += shift.sum(axis=1)
    weight = each.sum(axis=1)
    np.add.at(sums.weight, v, weight[:, None])
    np.add.at(sums.together, (v[:, :, None], v[:, None, :]), weight[:, None, None])
    for k in range(first.shape[1]):
        np.add.at(sums.first[k], 1 + v, first[:, k])
        np.add.at(sums.second[k], (1 + v[:, :, None], 1 + v[:, None, :]), second[:, k])


def best_independent(model: LinearModel, prior: SetPrior, v: np.ndarray) -> int:
    """Return the best grid point of the set ``v`` with independent coefficients."""
    density = densities(model, prior, prior.grid.independent(), spectrum(model, v[None]))
    return int(np.argmax(density.log_density))


def find_jump_targets(model: LinearModel, prior: SetPrior, sets: list[np.ndarray]) -> JumpTargets:
    """Select probable ``sets`` and the signs of their coefficients."""
    found: dict[tuple[int, ...], StateRates] = {}
    for v in dict.fromkeys(tuple(sorted(v.tolist())) for v in sets):
        variables = np.array(v, dtype=int)
        best = best_independent(model, prior, variables)
        found[v] = state_rates(model, prior, variables, None, best)
    log_posterior = {v: at.log_density + prior.log_prior[len(v)] for v, at in found.items()}
    top = max((float(each.max()) for each in log_posterior.values()), default=0.0)
    retained = [v for v, each in log_posterior.items() if each.max() > top - MAX_LOG_DROP]
    log_density = np.array([log_posterior[v] for v in retained])
    log_density = log_density.reshape(len(retained), prior.grid.rho.size)
    signs = [tuple(found[v].signs.tolist()) for v in retained]
    return JumpTargets(retained, signs, {v: i for i, v in enumerate(retained)}, log_density)


Change = Callable[[tuple[float, ...]], tuple[float, ...]]


def positive(signs: tuple[float, ...] | None, change: Change) -> tuple[float, ...] | None:
    """Apply a change to the signs and make the first sign positive."""
    if signs is None:
        return None
    after = change(signs)
    return after if not after or after[0] > 0.0 else tuple(-s for s in after)
