"""States of the average over sets in logistic regression.

[Z20]   G. Zanella. Informed proposals for local MCMC in discrete spaces. Journal of the American
        Statistical Association 115, 2020.

A state is a set at one tau of the grid. Moves flip one variable, exchange two, or double or halve
tau. The first two types have rate r / (1 + r), where r is the ratio of the posteriors to second
order (`logistic`), [Z20]. An acceptance probability corrects for the error of r, so that the chain
samples from the posterior of the fitted sets (`averaging`).
"""

from __future__ import annotations

import math
from collections.abc import Hashable
from itertools import combinations
from typing import TYPE_CHECKING, NamedTuple, cast

import numpy as np
from scipy.special import expit

from .set_model import Coefficients, Sums, VisitedState, zero_sums

if TYPE_CHECKING:
    from .logistic import LogisticFit, LogisticModel

SCALE_RATE = 0.25  # rate of doubling and of halving tau

StateKey = tuple[tuple[int, ...], int]
"""Variables in increasing order, and grid point of tau."""


class LogisticVisit(NamedTuple):
    """Visited state."""

    v: np.ndarray  # (q,) in increasing order
    rates: np.ndarray  # (2 + p + p q,) cumulative rates: tau, flips, exchanges
    inclusion: np.ndarray  # (p,) 1 for variables of the set
    fit: LogisticFit
    log_posterior: float  # up to a constant; tau also has a prior for the empty set
    flips: np.ndarray  # (p,) rates of flips
    exchanges: np.ndarray  # (p, q) rates at which j replaces the variable at position i


class LogisticStates:
    """State space of the logistic model."""

    max_enumerated = 6
    max_visited = 200

    def __init__(self, model: LogisticModel, log_prior: np.ndarray, k: int):
        self.model, self.log_prior, self.k = model, log_prior, k
        self.near: dict[StateKey, LogisticFit] = {}  # a neighbour of each state

    @property
    def n_variables(self) -> int:
        """Number of variables."""
        return self.model.n_variables

    def take(self, order: np.ndarray) -> LogisticStates:
        """Restrict the states to some variables."""
        return LogisticStates(self.model.take(order), self.log_prior, self.k)

    def mean_squares(self) -> np.ndarray:
        """Return the mean squares of the columns, (p,)."""
        squares: np.ndarray = self.model.counts @ self.model.squares / self.model.n
        return squares

    def empty_coefficients(self) -> Coefficients:
        """Compute the posterior of the empty set."""
        return self.model.coefficients(self.model.fit(np.zeros(0, dtype=int)))

    # --- the chain

    def start(self, v: np.ndarray, targets: list[np.ndarray]) -> StateKey:
        """Return the set v at the tau of the search; ``targets`` are not used."""
        return tuple(np.sort(v).tolist()), self.k

    def max_log_posterior(self, v: np.ndarray) -> float:
        """Return 0: there is no other space to compare with."""
        return 0.0

    def visit(self, key: Hashable) -> LogisticVisit:
        """Fit a state and compute the rates of all moves."""
        from .logistic import fit_model, score_all_additions, warm_start

        v, k = cast(StateKey, key)
        model, members, near = self.model, np.array(v, dtype=int), self.near.get((v, k))
        start = None if near is None else warm_start(model, near, members)
        fit = fit_model(model, members, k, start)
        q, log_prior = members.size, self.log_prior
        additions = score_all_additions(model, fit)
        more = log_prior[q + 1] - log_prior[q] if q < model.n_variables else -math.inf
        flips, exchanges = expit(additions.gain + more), np.zeros((model.n_variables, q))
        inclusion = np.zeros(model.n_variables)
        if q:
            inclusion[members] = 1.0
            flips[members] = expit(model.removal_gains(fit) + (log_prior[q - 1] - log_prior[q]))
            exchanges = expit(model.exchange_gains(fit, additions))
        scales = np.where([k > 0, k + 1 < model.log_tau.size], SCALE_RATE, 0.0)
        rates = np.cumsum(np.concatenate([scales, flips, exchanges.ravel()]))
        log_posterior = fit.log_evidence + float(model.log_tau_prior[k]) + float(log_prior[q])
        return LogisticVisit(members, rates, inclusion, fit, log_posterior, flips, exchanges)

    def move(self, key: Hashable, state: VisitedState, j: int) -> StateKey:
        """Return the state after move ``j`` of `LogisticVisit.rates`."""
        v, k = cast(StateKey, key)
        if j < 2:
            new = v, k + 2 * j - 1
        elif j < 2 + self.n_variables:
            new = tuple(sorted({*v} ^ {j - 2})), k
        else:
            added, i = divmod(j - 2 - self.n_variables, len(v))
            new = tuple(sorted({*v[:i], *v[i + 1 :], added})), k
        self.near.setdefault(new, cast(LogisticVisit, state).fit)
        return new

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Compute log pi(new) g(new, old) / (pi(old) g(old, new))."""
        old, new = cast(LogisticVisit, state), cast(LogisticVisit, proposal)
        if j < 2:
            return new.log_posterior - old.log_posterior
        j -= 2
        if j < self.n_variables:
            forward, backward = float(old.flips[j]), float(new.flips[j])
        else:
            added, i = divmod(j - self.n_variables, old.v.size)
            forward = float(old.exchanges[added, i])
            backward = float(new.exchanges[old.v[i], np.searchsorted(new.v, added)])
        if not backward > 0.0:
            return -math.inf
        return new.log_posterior - old.log_posterior + math.log(backward) - math.log(forward)

    # --- moments

    def log_evidence(
        self,
        keys: list[Hashable],
        states: list[VisitedState],
        weights: np.ndarray,
        inclusion: np.ndarray,
    ) -> float:
        """Return 0: there is no other space to compare with."""
        return 0.0

    def with_dense_component(self) -> None:
        """Return None, because there is no dense component."""

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Sum over the visited states."""
        fits = [cast(LogisticVisit, state).fit for state in states]
        visited = np.unique(np.concatenate([fit.v for fit in fits]))
        sums = zero_sums(visited.size, 1)
        for fit, weight in zip(fits, weights.tolist(), strict=True):
            add_fit(sums, self.model, np.searchsorted(visited, fit.v), fit, weight)
        return visited, sums

    def enumerate_sets(self) -> tuple[Sums, np.ndarray, np.ndarray]:
        """Sum over all sets and tau."""
        from .logistic import integrate_tau

        model, p = self.model, self.n_variables
        terms: list[tuple[LogisticFit, float]] = []
        sizes = np.flatnonzero(np.isfinite(self.log_prior))
        for q in sizes:
            for v in combinations(range(p), int(q)):
                found = integrate_tau(model, model.fit(np.array(v, dtype=int)))
                log_posterior = found.log_evidence + float(self.log_prior[q])
                for fit, probability in zip(found.fits, found.probability, strict=True):
                    terms.append((fit, log_posterior + math.log(max(float(probability), 1e-300))))
        log_weights = np.array([log_weight for _, log_weight in terms])
        weights = np.exp(log_weights - np.logaddexp.reduce(log_weights))
        sums = zero_sums(p, 1)
        by_size, size_probability = np.zeros((p, sizes[-1] + 1)), np.zeros(sizes[-1] + 1)
        for (fit, _), weight in zip(terms, weights.tolist(), strict=True):
            add_fit(sums, model, fit.v, fit, weight)
            by_size[fit.v, fit.v.size] += weight
            size_probability[fit.v.size] += weight
        return sums, by_size, size_probability


def add_fit(
    sums: Sums, model: LogisticModel, at: np.ndarray, fit: LogisticFit, weight: float
) -> None:
    """Add a fit with variables at the positions ``at`` to ``sums``."""
    sums.weight[at] += weight
    sums.together[np.ix_(at, at)] += weight
    used = np.concatenate([np.zeros(model.intercept, dtype=int), 1 + at])
    sums.first[0, used] += weight * fit.mode
    sums.second[0][np.ix_(used, used)] += weight * (fit.C + np.outer(fit.mode, fit.mode))
