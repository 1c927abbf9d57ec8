"""Optimal loadings on a support, by an eigenvector or an active-set method.

[LH74]  C. L. Lawson, R. J. Hanson. Solving least squares problems. Prentice-Hall, 1974.

EM shrinks the loadings, so that they are not optimal on their support S. Without sign constraints,
the leading eigenvector of C[S, S] is optimal. With w >= 0, the optimum is the leading eigenvector
of C[P, P] for some subset P of S, which an active-set method finds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from ...inference.loop import iterate
from .model import Support
from .quadratic import Floats, Quadratic
from .thresholds import Constraint, embed, renormalise

ROUNDING = 1e-15  # relative rounding error of the objective
# The active-set method took at most 33 steps on supports of several hundred variables.
MAX_STEPS = 200


def optimal_loadings(quadratic: Quadratic, w: Floats, c: Constraint, tol: float = 1e-12) -> Support:
    """Compute the optimal loadings on the nonzeros of ``w``, from ``w``."""
    if not c.nonnegative:
        value, best = renormalise(quadratic, w, near=True)
        return Support(best, value)
    S = np.flatnonzero(w)
    small = quadratic.restrict(S)
    begun = Support(w[S], float(small.form(w[None, S])[0]))
    step = make_nonnegative_step(small)
    run = iterate(step, begun, max_iter=MAX_STEPS, tol=tol * begun.bound)
    return Support(embed(run.state.w, S, w.size), run.state.bound, run.reason)


def make_nonnegative_step(quadratic: Quadratic) -> Callable[[Support], Support]:
    """Build a step that increases w'Cw over w >= 0.

    An EM step adds variables. An active-set step as in [LH74] then removes others: it moves
    towards the leading eigenvector of the positive block until a loading becomes zero. The
    Rayleigh quotient increases, because an eigenvector is C-orthogonal to the rest of w.
    """

    def step(state: Support) -> Support:
        f = np.clip(quadratic.matmul(state.w[:, None])[:, 0], 0.0, None)
        norm = float(np.linalg.norm(f))
        if norm == 0.0:
            return state
        w: Floats = f / norm  # [SB08] (17)
        P = np.flatnonzero(w)
        v = _move_towards(w[P], quadratic.leading(P)[1])
        w = embed(v / np.linalg.norm(v), P, w.size)
        value = float(quadratic.form(w[None, :])[0])
        return keep_better(Support(w, value), state)

    return step


def _move_towards(inside: Floats, v: Floats) -> Floats:
    """Move from positive loadings towards ``v`` until the first becomes zero."""
    v = v if v @ inside >= 0 else -v
    outside = v <= 0
    if not np.any(outside):
        return v
    reach = np.min(inside[outside] / (inside[outside] - v[outside]))
    moved: Floats = inside + reach * (v - inside)
    moved[outside & (moved <= 1e-14)] = 0.0
    return np.clip(moved, 0.0, None)


def keep_better(exact: Support, old: Support) -> Support:
    """Return ``exact``, unless it is worse than ``old`` by more than rounding."""
    best = max(exact.bound, old.bound)
    return exact._replace(bound=best) if exact.bound >= best * (1.0 - ROUNDING) else old
