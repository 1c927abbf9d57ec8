"""emPCA: a sparse or non-negative principal component by expectation-maximisation.

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.

A component maximises

    w'Cw,  C = X'X,   over unit vectors w with at most K nonzeros and, if asked, w >= 0.

In probabilistic PCA with one component and vanishing noise the E-step is y = Xw and the M-step
w = X'y / y'y; the constraints only change the M-step, to a threshold ([SB08] Algorithm 2). That
is a local search. It runs from several starts at once, whose products with X are then one
matrix product.

The folder, in the order in which it is to be read: this file; `nonnegative` and `exchange`, which
work with the best weights on a support; `angle`, components at a smallest angle from earlier
ones; `search`, from the starts to one component; `solve`, one component after the other;
`estimator`, what a user sees.

Symbols
-------
X (n, p)  the table, centred
C (p, p)  X'X, perhaps deflated; known through `Quadratic`
w (p,)    a component, of length one
K         the most nonzeros of w
W (r, p)  r starts on their way
F (r, p)  their images C w, on which the M-step works
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

    W: Floats  # (r, p) unit rows that satisfy the constraint
    F: Floats  # (r, p) their images C w
    values: Floats  # (r,) w'Cw
    trace: tuple[Floats, ...]  # `values` of every iteration so far
    bound: float  # sum of the values


class Support(NamedTuple):
    """One component, with the weights that a later stage gave it."""

    w: Floats  # (p,) of length one
    bound: float  # w'Cw
    reason: StopReason = StopReason.CONVERGED  # how the search for these weights ended


def objective(W: Floats, F: Floats) -> Floats:
    """w'Cw for every row w of W, whose images C w are the rows of F."""
    values: Floats = np.einsum("rp,rp->r", W, F)
    return values


def init(quadratic: Quadratic, W: Floats, c: Constraint) -> State:
    """Make the starts feasible; those of which nothing remains are dropped."""
    W = threshold(W, c)
    W = W[np.any(W != 0, axis=1)]
    F = quadratic.matmul(W.T).T
    values = objective(W, F)
    # On variables without variance (deflated away, say) there is nothing to climb.
    alive = values > 0.0
    W, F, values = W[alive], F[alive], values[alive]
    return State(W, F, values, (values,), float(np.sum(values)))


def make_step(quadratic: Quadratic, c: Constraint) -> Callable[[State], State]:
    """E-step and M-step of [SB08] Algorithm 2 for all starts.

    A shrunken step can lower w'Cw, since the bound B on |w|_1 moves with K fixed. A start that
    would fall stays where it is.
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
