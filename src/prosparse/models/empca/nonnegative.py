"""The best weights on a support: an eigenvector, or, without negative entries, a short search.

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.
[LH74]  C. L. Lawson, R. J. Hanson. Solving least squares problems. Prentice-Hall, 1974.

EM shrinks the weights, so that they are not the best ones on their support S. With free signs
the best ones are the leading eigenvector of C[S, S]. With w >= 0 they are the leading
eigenvector of C[P, P] for some P within S, and finding P is a search of its own.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...inference.loop import iterate
from .model import Support
from .quadratic import Floats, Quadratic
from .thresholds import Constraint, renormalised, spread_weights

ROUNDING = 1e-15  # of the objective, as a share of it
# On supports of up to some hundred variables these steps ended after at most 33.
MOST_STEPS = 200


def best_weights(quadratic: Quadratic, w: Floats, c: Constraint, tol: float = 1e-12) -> Support:
    """The best weights on the nonzeros of ``w``, from which a search for them starts: to eight
    digits, which is w'Cw to all of them."""
    if not c.nonnegative:
        value, best = renormalised(quadratic, w, near=True)
        return Support(best, value)
    S = np.flatnonzero(w)
    small = quadratic.restricted(S)
    begun = Support(w[S], float(small.form(w[None, S])[0]))
    step = make_nonnegative_step(small)
    run = iterate(step, begun, max_iter=MOST_STEPS, tol=tol * begun.bound)
    return Support(spread_weights(run.state.w, S, w.size), run.state.bound, run.reason)


def make_nonnegative_step(quadratic: Quadratic) -> Callable[[Support], Support]:
    """Raise w'Cw over w >= 0.

    An EM step lets variables in, then an active-set move in the manner of [LH74] takes others
    out: towards the leading eigenvector of the positive block, as far as the signs allow. On
    that way w'Cw / w'w rises: an eigenvector is C-orthogonal to the rest of w.
    """

    def step(state: Support) -> Support:
        f = np.clip(quadratic.matmul(state.w[:, None])[:, 0], 0.0, None)
        norm = float(np.linalg.norm(f))
        if norm == 0.0:
            return state
        w: Floats = f / norm  # [SB08] (17)
        P = np.flatnonzero(w)
        v = _towards(w[P], quadratic.leading(P)[1])
        w = spread_weights(v / np.linalg.norm(v), P, w.size)
        value = float(quadratic.form(w[None, :])[0])
        return no_worse(Support(w, value), state)

    return step


def _towards(inside: Floats, v: Floats) -> Floats:
    """From positive weights ``inside`` towards ``v``, until the first of them is zero."""
    v = v if v @ inside >= 0 else -v
    outside = v <= 0
    if not np.any(outside):
        return v
    reach = np.min(inside[outside] / (inside[outside] - v[outside]))
    moved: Floats = inside + reach * (v - inside)
    moved[outside & (moved <= 1e-14)] = 0.0
    return np.clip(moved, 0.0, None)


def no_worse(exact: Support, old: Support) -> Support:
    """``exact``, unless it is worse than ``old`` by more than rounding.

    w'Cw is flat at its maximum: weights that are wrong in the eighth digit can come out ahead of
    exact ones in the sixteenth.
    """
    best = max(exact.bound, old.bound)
    return exact._replace(bound=best) if exact.bound >= best * (1.0 - ROUNDING) else old
