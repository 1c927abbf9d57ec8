"""Components at a minimum angle from those found before ("quasi-orthogonal").

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.

[SB08] (20) adds a penalty alpha w'VV'w to the M-step, with alpha to be tuned until the angles
are wide enough. Here the angle itself is the constraint, |v_l'w| <= c = cos(angle) for every
earlier component v_l, and the multipliers alpha_l >= 0 follow:

    maximise f'w  subject to  |w| <= 1,  G'w <= c,  (w >= 0)          f = C w_t

with G = V for non-negative components, [V, -V] for others. Its dual has one variable per
earlier component, whatever p is:

    minimise  |h(f - G alpha)| + c sum alpha  over alpha >= 0,        h = positive part, or identity

and w = h(f - G alpha) / |...|. Since the feasible set contains w_t and w'Cw is convex,
w'Cw never falls. SciPy's L-BFGS-B solves the dual; on its active set the solution is then
known in closed form, which makes the constraint hold to rounding.

Symbols: V (p, l) the earlier components; G (p, m) the columns of the constraint; alpha (m,) its
multipliers; f (p,) the image C w of the component so far.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from scipy.optimize import minimize

from .model import Support
from .quadratic import Floats, Indices, Quadratic
from .thresholds import Constraint, spread_weights, strength

SLACK = 1e-12  # kept from the constraint, so that rounding does not break it


def constraint_columns(V: Floats, nonnegative: bool) -> Floats:
    """G, (p, m), from the earlier components V, (p, l)."""
    return V if nonnegative else np.column_stack([V, -V])


def furthest(f: Floats, G: Floats, c: float, nonnegative: bool) -> tuple[Floats | None, Floats]:
    """The feasible unit w with the largest f'w, or None where there is none; and alpha."""
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
    """w = B z + tau (part of f orthogonal to B) with B'w = c, |w| = 1: the optimum, given which
    constraints are active (columns of B) and which entries are positive."""
    P = r > 0 if nonnegative else np.ones(r.size, dtype=bool)
    active = alpha > 1e-9 * max(float(alpha.max()), 1e-300)
    for _ in range(50):
        if not np.any(P):
            return None
        B = G[np.ix_(P, active)]
        base = B @ np.linalg.lstsq(B.T @ B, np.full(B.shape[1], c), rcond=1e-12)[0]
        off = f[P] - B @ np.linalg.lstsq(B, f[P], rcond=1e-12)[0]
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
    """An M-step with the angle constraint, on K variables.

    The variables are the K largest of h(f - G alpha) for alpha of the whole problem, or those
    in use; whichever ends higher, if it is higher than before.
    """
    G = constraint_columns(V, c.nonnegative)

    def step(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        best = state
        for S in (_most_useful(f, G, c, cosine), np.flatnonzero(state.w)):
            candidate = feasible_on(quadratic, f, S, G, c, cosine)
            if candidate is not None and candidate.bound > best.bound:
                best = candidate
        return best

    return step


def feasible(
    quadratic: Quadratic, f: Floats, V: Floats, c: Constraint, cosine: float
) -> Support | None:
    """A component that satisfies everything, as far along ``f`` as can be had."""
    G = constraint_columns(V, c.nonnegative)
    return feasible_on(quadratic, f, _most_useful(f, G, c, cosine), G, c, cosine)


def feasible_on(
    quadratic: Quadratic, f: Floats, S: Indices, G: Floats, c: Constraint, cosine: float
) -> Support | None:
    """The same on the variables S alone; None where no such component can be had."""
    if S.size == 0:
        return None
    v, _ = furthest(f[S], G[S], cosine, c.nonnegative)
    if v is None:
        return None
    w = spread_weights(v, S, f.size)
    return Support(w, float(quadratic.form(w[None, :])[0]))


def _most_useful(f: Floats, G: Floats, c: Constraint, cosine: float) -> Indices:
    """The K variables with the largest share in the solution over all that are allowed."""
    allowed = np.flatnonzero(c.allowed)
    _, alpha = furthest(f[allowed], G[allowed], cosine, c.nonnegative)
    gain = strength((f - G @ alpha)[None, :], c)[0]
    order = np.argsort(-gain, kind="stable")[: c.K]
    return np.sort(order[gain[order] > 0])
