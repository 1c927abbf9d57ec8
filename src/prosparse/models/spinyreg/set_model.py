"""Protocol of a marginal likelihood over sets of variables.

The search (`stepwise`), the screening (`screening`), the average over sets (`averaging`), the
decision rules and the solver (`solve`) use models only through this protocol. The protocol is
implemented by linear regression of one or several responses (`linear`, with states in
`linear_states`) and by logistic regression (`logistic`, with states in `logistic_states`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np


class SetFit(Protocol):
    """Fitted set of variables."""

    @property
    def v(self) -> np.ndarray:
        """Variables in order of addition, (q,)."""

    @property
    def log_evidence(self) -> float:
        """Log marginal likelihood at the scale of the coefficients."""


F = TypeVar("F", bound=SetFit)


class Trials(NamedTuple):
    """Rules for the neighbours that a search fits."""

    number: int  # number of neighbours fitted per move
    min_gain: float  # minimum gain of a fitted neighbour
    exploration: float  # factor of the log prior in an exploratory search


class Coefficients(NamedTuple):
    """Posterior of the coefficients of one set, for each of m responses."""

    mean: np.ndarray  # (m, q)
    covariance: np.ndarray  # (m, 1 + q, 1 + q) of the intercept at the column means and the others
    intercept: np.ndarray  # (m,) at the column means, in addition to the mean of the response
    sigma2: np.ndarray  # (m,) noise variance, 0 for classes


class SetModel(Protocol[F]):
    """Marginal likelihood of each set of variables.

    Gains are increases of `evidence` at the scale of the given fit, either exact or accurate to
    second order. Only a few of the best neighbours (`trials`) are fitted.
    """

    @property
    def trials(self) -> Trials:
        """Rules for the neighbours that a search fits."""

    @property
    def n_variables(self) -> int:
        """Number of variables."""

    @property
    def max_full_start(self) -> int:
        """Maximum number of variables for a search that starts from all."""

    def fit(self, v: np.ndarray, near: F | None = None, tune: bool = True) -> F:
        """Fit the set v from ``near``; with ``tune=False``, keep the scale."""

    def refine(self, fit: F, exact: bool = False) -> F:
        """Improve the scale of a fit."""

    def evidence(self, fit: F) -> float:
        """Compute the log evidence by which sets are compared in a search."""

    def path_evidence(self, fit: F) -> tuple[float, float]:
        """Compute the reported log evidence, and that by which sets are compared."""

    def addition_gains(self, fit: F) -> np.ndarray:
        """Compute the gain of adding each variable, (p,).

        The gain is -inf for variables of the set.
        """

    def removal_gains(self, fit: F) -> np.ndarray:
        """Compute the gain of removing each variable of the set, (q,)."""

    def exchange_gains(self, fit: F) -> np.ndarray:
        """Compute the gains (p, q) if j replaces i; -inf for variables of the set."""

    def marginal(self) -> np.ndarray:
        """Compute squared correlations with the response, (p,)."""

    def correlations(self, v: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Compute absolute correlations of ``others``, or of all variables, with v."""

    def full_fit(self) -> F:
        """Fit all variables with little shrinkage."""

    def effect_sizes(self, fit: F) -> np.ndarray:
        """Compute absolute coefficients times column norms, (q,)."""

    def well_determined(self, full: F) -> bool:
        """Return whether the largest coefficients of ``full`` are reliable."""

    def add_pair(self, fit: F) -> F | None:
        """Add the best pair of suppressor variables; return None without a pair."""

    def coefficients(self, fit: F, least_squares: bool = False) -> Coefficients:
        """Compute the posterior, or least-squares estimates, of coefficients."""

    def take(self, indices: np.ndarray) -> Self:
        """Restrict the model to some variables."""

    def states(self, log_prior: np.ndarray, fit: F) -> StateSpace:
        """Build the states over which the average is computed, near ``fit``."""


class VisitedState(Protocol):
    """Set at one scale of the coefficients, possibly with labels."""

    @property
    def v(self) -> np.ndarray:
        """Variables in increasing order, (q,)."""

    @property
    def rates(self) -> np.ndarray:
        """Cumulative rates of all moves, (K,)."""

    @property
    def inclusion(self) -> np.ndarray:
        """Probability of each variable given all others, (p,).

        If the rates are approximate, the value is 1 for variables of the set and 0 for others.
        """


class DenseSums(NamedTuple):
    """Moments of the coefficients u of a dense component, for all p variables."""

    mean: np.ndarray  # (m, p) of u; zero for the variables of `Sums`, which include u
    variance: np.ndarray  # (m, p) of u given the coefficients of the sets
    predictive: np.ndarray  # (m,) contribution of u to the variance of a prediction


class Sums(NamedTuple):
    """Sums of moments over weighted sets, for m responses."""

    weight: np.ndarray  # (p,)
    together: np.ndarray  # (p, p) of two variables
    first: np.ndarray  # (m, 1 + p), the intercept first
    second: np.ndarray  # (m, 1 + p, 1 + p)
    sigma2: np.ndarray  # (m,)
    dense: DenseSums | None = None


def zero_sums(p: int, m: int) -> Sums:
    """Return empty sums for p variables and m responses."""
    return Sums(
        np.zeros(p),
        np.zeros((p, p)),
        np.zeros((m, 1 + p)),
        np.zeros((m, 1 + p, 1 + p)),
        np.zeros(m),
    )


class StateSpace(Protocol):
    """States of a reversible Markov chain over sets."""

    max_enumerated: int  # maximum number of variables whose sets are enumerated
    max_visited: int  # approximate maximum number of variables that are sampled

    @property
    def n_variables(self) -> int:
        """Number of variables."""

    def enumerate_sets(self) -> tuple[Sums, np.ndarray, np.ndarray]:
        """Sum over all sets.

        The result is moments, inclusion by size (p, Q + 1), and size probabilities (Q + 1,).
        """

    def take(self, order: np.ndarray) -> Self:
        """Restrict the states to some variables."""

    def start(self, v: np.ndarray, targets: list[np.ndarray]) -> Hashable:
        """Return the first state.

        ``targets`` are sets between which the chain may jump.
        """

    def max_log_posterior(self, v: np.ndarray) -> float:
        """Compute the log posterior of the best state of the set v."""

    def visit(self, key: Hashable) -> VisitedState:
        """Compute the rates of a state."""

    def move(self, key: Hashable, state: VisitedState, j: int) -> Hashable:
        """Return the state after move ``j``."""

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Compute log pi(new) g(new, old) / (pi(old) g(old, new)).

        The value is 0 if the rates are exact.
        """

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Return the visited variables (k,), and sums over the weighted states."""

    def log_evidence(
        self,
        keys: list[Hashable],
        states: list[VisitedState],
        weights: np.ndarray,
        inclusion: np.ndarray,
    ) -> float:
        """Estimate the log evidence of all states from weighted states."""

    def with_dense_component(self) -> Self | None:
        """Return the states with a dense component, if there is one."""

    def empty_coefficients(self) -> Coefficients:
        """Compute the posterior of the empty set."""

    def mean_squares(self) -> np.ndarray:
        """Return the mean squares of the columns, (p,)."""
