"""Protocol of a marginal likelihood over sets of variables.

The search (`stepwise`), the screening (`screening`), the average over sets (`averaging`), the
decision rules and the solver (`solve`) use a model through this protocol only. Two models implement
it: linear regression of one or several responses (`linear`, with states in `linear_states`) and
logistic regression (`logistic`, with states in `logistic_states`).
"""

from __future__ import annotations

from collections.abc import Hashable
from typing import NamedTuple, Protocol, Self, TypeVar

import numpy as np


class SetFit(Protocol):
    """Fitted set of variables."""

    @property
    def v(self) -> np.ndarray:
        """(q,) variables in order of addition."""

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
    """Marginal likelihood of every set of variables.

    Gains are increases of `evidence` at the scale of the given fit. They are exact, or accurate to
    second order; only a few (`trials`) of the best neighbours are fitted.
    """

    @property
    def trials(self) -> Trials:
        """Rules for the neighbours that a search fits."""

    @property
    def n_variables(self) -> int:
        """Number of variables."""

    @property
    def max_full_start(self) -> int:
        """Maximum number of variables of a search that starts from all of them."""

    def fit(self, v: np.ndarray, near: F | None = None, tune: bool = True) -> F:
        """Fit the set v, starting from ``near``; ``tune=False`` may keep its scale."""

    def refine(self, fit: F, exact: bool = False) -> F:
        """Improve the scale of a fit."""

    def evidence(self, fit: F) -> float:
        """Return the log evidence by which sets are compared in a search."""

    def path_evidence(self, fit: F) -> tuple[float, float]:
        """Return the log evidence for the user, and that by which sets are compared."""

    def addition_gains(self, fit: F) -> np.ndarray:
        """Compute the (p,) gains of adding each variable.

        The gain of variables of the set is -inf.
        """

    def removal_gains(self, fit: F) -> np.ndarray:
        """Compute the (q,) gains of removing each variable of the set."""

    def exchange_gains(self, fit: F) -> np.ndarray:
        """Compute the (p, q) gains if j replaces i; -inf for variables of the set."""

    def marginal(self) -> np.ndarray:
        """Compute (p,) squared correlations with the response."""

    def correlations(self, v: np.ndarray, others: np.ndarray | None = None) -> np.ndarray:
        """Compute absolute correlations of ``others``, or of all variables, with v."""

    def full_fit(self) -> F:
        """Fit all variables with little shrinkage."""

    def effect_sizes(self, fit: F) -> np.ndarray:
        """Compute (q,) absolute coefficients times column norms."""

    def well_determined(self, full: F) -> bool:
        """Return whether the largest coefficients of ``full`` are reliable."""

    def add_pair(self, fit: F) -> F | None:
        """Add the best pair of suppressor variables, or return None."""

    def coefficients(self, fit: F, least_squares: bool = False) -> Coefficients:
        """Return the posterior, or least squares estimates, of the coefficients."""

    def take(self, indices: np.ndarray) -> Self:
        """Restrict the model to some variables."""

    def states(self, log_prior: np.ndarray, fit: F) -> StateSpace:
        """Return the states over which the average is taken, near ``fit``."""


class VisitedState(Protocol):
    """Set at one scale of the coefficients, and possibly their labels."""

    @property
    def v(self) -> np.ndarray:
        """(q,) variables in increasing order."""

    @property
    def rates(self) -> np.ndarray:
        """(K,) cumulative rates of all moves."""

    @property
    def inclusion(self) -> np.ndarray:
        """(p,) probability of each variable given all others.

        If the rates are approximate, the value is 1 for variables of the set, otherwise 0.
        """


class DenseSums(NamedTuple):
    """Moments of the coefficients u of a dense component, for all p variables of the model."""

    mean: np.ndarray  # (m, p) of u, zero for the variables of `Sums`, which include it
    variance: np.ndarray  # (m, p) of u given the coefficients of the sets
    predictive: np.ndarray  # (m,) contribution of u to the variance of a prediction


class Sums(NamedTuple):
    """Sums over weighted sets of moments, for m responses."""

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

        Returns moments, (p, Q + 1) inclusion by size, and (Q + 1,) sizes.
        """

    def take(self, order: np.ndarray) -> Self:
        """Restrict the states to some variables."""

    def start(self, v: np.ndarray, targets: list[np.ndarray]) -> Hashable:
        """Return the first state.

        ``targets`` are sets between which the chain may jump.
        """

    def max_log_posterior(self, v: np.ndarray) -> float:
        """Return the log posterior of the best state of the set v, comparable to `log_evidence`."""

    def visit(self, key: Hashable) -> VisitedState:
        """Compute the rates of a state."""

    def move(self, key: Hashable, state: VisitedState, j: int) -> Hashable:
        """Return the state to which move ``j`` leads."""

    def log_acceptance(self, state: VisitedState, proposal: VisitedState, j: int) -> float:
        """Return log pi(new) g(new, old) / (pi(old) g(old, new)).

        It is 0 if the rates are exact.
        """

    def moments(
        self, keys: list[Hashable], states: list[VisitedState], weights: np.ndarray
    ) -> tuple[np.ndarray, Sums]:
        """Return the (k,) visited variables and sums over the weighted states."""

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
        """Return the posterior of the empty set."""

    def mean_squares(self) -> np.ndarray:
        """Return the (p,) mean squares of the columns."""
