"""Sparse and non-negative PCA by expectation-maximisation (emPCA).

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.

A component maximises

    w'Cw,  C = X'X,   over unit vectors w with at most K nonzeros and, optionally, w >= 0.

In probabilistic PCA with one component and vanishing noise, the E-step is y = Xw and the M-step is
w = X'y / y'y. The constraints add a threshold to the M-step ([SB08] Algorithm 2). This local search
runs from several starts at once, so that the products with X are one matrix product.

The modules, in reading order, are this one; `nonnegative` and `exchange`, which improve a support
with optimal loadings; `angle`, components at a minimum angle from preceding ones; `search`, search
for one component; `solve`, sequential components; `cardinality`, selection of K; `certify`, upper
bounds and certificates; `estimator`.

Symbols
-------
X (n, p)  data matrix, centred
C (p, p)  X'X, possibly deflated; see `Quadratic`
w (p,)    component, a unit vector
K         maximum number of nonzeros of w
W (r, p)  components of r starts
F (r, p)  their images C w
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...inference.loop import StopReason
from .quadratic import Floats, Quadratic
from .thresholds import Constraint, threshold


class State(NamedTuple):
    """EM from r starts at once."""

    W: Floats  # (r, p) unit rows that satisfy the constraints
    F: Floats  # (r, p) their images C w
    values: Floats  # (r,) w'Cw
    trace: tuple[Floats, ...]  # `values` after each iteration
    bound: float  # sum of the values


class Support(NamedTuple):
    """Component after a later stage of the search."""

    w: Floats  # (p,) unit vector
    bound: float  # w'Cw
    reason: StopReason = StopReason.CONVERGED  # why the search for the loadings stopped


def objective(W: Floats, F: Floats) -> Floats:
    """Compute w'Cw for each row w of W, given the images C w as rows of F."""
    values: Floats = np.einsum("rp,rp->r", W, F)
    return values


def init(quadratic: Quadratic, W: Floats, c: Constraint) -> State:
    """Threshold the starts and drop those that become zero."""
    W = threshold(W, c)
    W = W[np.any(W != 0, axis=1)]
    F = quadratic.matmul(W.T).T
    values = objective(W, F)
    # Starts without variance, for example on deflated variables, are dropped.
    alive = values > 0.0
    W, F, values = W[alive], F[alive], values[alive]
    return State(W, F, values, (values,), float(np.sum(values)))


def make_step(quadratic: Quadratic, c: Constraint) -> Callable[[State], State]:
    """Build the E-step and M-step of [SB08] Algorithm 2 for all starts.

    A soft-thresholded step that decreases w'Cw is rejected.
    """

    def step(state: State) -> State:
        W = threshold(state.F, c)  # [SB08] (14), (17): w = threshold(X'y), y = Xw of (10)
        F = quadratic.matmul(W.T).T
        values = objective(W, F)
        better = values > state.values
        W = np.where(better[:, None], W, state.W)
        F = np.where(better[:, None], F, state.F)
        values = np.where(better, values, state.values)
        return State(W, F, values, (*state.trace, values), float(np.sum(values)))

    return step
