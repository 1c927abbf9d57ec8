"""Quasi-orthogonal components, with a minimum angle to preceding ones.

[SB08] (20) adds a penalty alpha w'VV'w to the M-step, where alpha must be tuned. Here, the angle is
constrained: |v_l'w| <= c = cos(angle) for each preceding component v_l, with multipliers alpha_l >=
0:

    maximise f'w  subject to  |w| <= 1,  G'w <= c,  (w >= 0)          f = C w_t

with G = V for non-negative components and [V, -V] otherwise. The dual has one variable per column
of G:

    minimise  |h(f - G alpha)| + c sum alpha  over alpha >= 0,        h = positive part, or identity

and w = h(f - G alpha) / |...|. The feasible set contains w_t and w'Cw is convex, so that w'Cw is
non-decreasing. L-BFGS-B solves the dual. On the active set, the solution has a closed form, which
satisfies the constraint up to rounding.

Symbols: V (p, l) preceding components; G (p, m) constraint columns; alpha (m,) multipliers; f (p,)
image C w of the current component.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from .model import Support
from .quadratic import Floats, Indices, Quadratic
from .thresholds import Constraint, embed, selection_score

SLACK = 1e-12  # margin of the constraint against rounding


def constraint_columns(V: Floats, nonnegative: bool) -> Floats:
    """Return G, (p, m), from the preceding components V, (p, l)."""
    return V if nonnegative else np.column_stack([V, -V])


def maximise_linear(
    f: Floats, G: Floats, c: float, nonnegative: bool
) -> tuple[Floats | None, Floats]:
    """Find the feasible unit w that maximises f'w (or None), and alpha."""
    c = max(c - SLACK, 0.0)

    def h(alpha: Floats) -> Floats:
        r: Floats = f - G @ alpha
        return np.clip(r, 0.0, None) if nonnegative else r

    alpha = np.zeros(G.shape[1])
    r = h(alpha)
    size = float(np.linalg.norm(r))
    if size == 0.0:
        return None, alpha
    if np.all(G.T @ r <= c * size):
        return r / size, alpha

    def dual(alpha: Floats) -> tuple[float, Floats]:
        r = h(alpha * size)
        norm = max(float(np.linalg.norm(r)), 1e-300)
        return norm / size + c * float(alpha.sum()), c - G.T @ r / norm

    bounds = [(0.0, None)] * alpha.size
    options = {"maxiter": 500, "ftol": 1e-15, "gtol": 1e-10}
    solved = minimize(dual, alpha, jac=True, bounds=bounds, method="L-BFGS-B", options=options)
    alpha = size * solved.x
    return _on_active_set(f, G, c, nonnegative, h(alpha), alpha), alpha


def _on_active_set(
    f: Floats, G: Floats, c: float, nonnegative: bool, r: Floats, alpha: Floats
) -> Floats | None:
    """Compute the optimum on the active constraints in closed form, or None.

    w = B z + tau (part of f orthogonal to B) with B'w = c and |w| = 1; the columns of B are the
    active constraints.
    """
    P = r > 0 if nonnegative else np.ones(r.size, dtype=bool)
    active = alpha > 1e-9 * max(float(alpha.max()), 1e-300)
    for _ in range(50):
        if not np.any(P):
            return None
        B = G[np.ix_(P, active)]
        base = B @ np.linalg.lstsq(B.T @ B, np.full(B.shape[1], c), rcond=1e-12)[0]
        off = f[P]
        for _ in range(2):  # repeated, because the columns of B can be nearly dependent
            off = off - B @ np.linalg.lstsq(B, off, rcond=1e-12)[0]
        room, length = 1.0 - float(base @ base), float(np.linalg.norm(off))
        if room < 0.0 or length <= 1e-12 * float(np.linalg.norm(f)):
            return None
        w = np.zeros_like(f)
        w[P] = base + np.sqrt(room) / length * off
        broken = G.T @ w > c + SLACK
        if nonnegative and np.any(w < 0):
            P = P & (w > 0)
        elif np.any(broken & ~active):
            active = active | broken
        else:
            return None if np.any(broken) else w
    return None


def make_angle_step(
    quadratic: Quadratic, V: Floats, c: Constraint, cosine: float
) -> Callable[[Support], Support]:
    """Build an M-step with the angle constraint on at most K variables.

    The variables are the K largest of the solution without a cardinality constraint, or the current
    ones, whichever give the larger objective.
    """
    G = constraint_columns(V, c.nonnegative)

    def step(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        best = state
        for S in (_select_variables(f, G, c, cosine), np.flatnonzero(state.w)):
            candidate = feasible_on(quadratic, f, S, G, c, cosine)
            if candidate is not None and candidate.bound > best.bound:
                best = candidate
        return best

    return step


def feasible_component(
    quadratic: Quadratic, f: Floats, V: Floats, c: Constraint, cosine: float
) -> Support | None:
    """Return a feasible component that maximises f'w, or None."""
    G = constraint_columns(V, c.nonnegative)
    return feasible_on(quadratic, f, _select_variables(f, G, c, cosine), G, c, cosine)


def feasible_on(
    quadratic: Quadratic, f: Floats, S: Indices, G: Floats, c: Constraint, cosine: float
) -> Support | None:
    """Return a feasible component on the variables S, or None."""
    if S.size == 0:
        return None
    v, _ = maximise_linear(f[S], G[S], cosine, c.nonnegative)
    if v is None:
        return None
    w = embed(v, S, f.size)
    return Support(w, float(quadratic.form(w[None, :])[0]))


def _select_variables(f: Floats, G: Floats, c: Constraint, cosine: float) -> Indices:
    """Select the K largest loadings without the cardinality constraint."""
    allowed = np.flatnonzero(c.allowed)
    _, alpha = maximise_linear(f[allowed], G[allowed], cosine, c.nonnegative)
    gain = selection_score((f - G @ alpha)[None, :], c)[0]
    order = np.argsort(-gain, kind="stable")[: c.K]
    return np.sort(order[gain[order] > 0])
