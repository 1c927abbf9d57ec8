"""The search for the best K variables: EM with thresholds, exact blocks, swaps.

    maximise  w'Cw  subject to  |w| = 1,  at most K nonzeros,  and, if asked,  w >= 0

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.
[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM (`make_em_step`) finds good supports from many starts at once; it shrinks the weights, so
that they are not the best ones on their support. `make_polish_step` then works with exact
weights: a support is replaced by a better one, first by the K largest entries of Cw (which
cannot lower the objective: [YZ13]), then by exchanging one variable, until nothing improves.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from .loop import iterate
from .quadratic import Quadratic

Array = np.ndarray

# A step is an improvement if it raises the objective by more than this share: below, it is
# rounding, and two supports of equal value would be exchanged for ever.
RELATIVE_RISE = 1e-12
# Exact eigenvalues of this many K x K swaps (in units of K^3) are affordable per swap step.
EXACT_SWAPS = 4e6
# Swap matrices larger than this are only searched among the most promising variables.
SWAP_ENTRIES = 400_000

# How exchanges of two variables are judged: not at all, by a lower bound, exactly.
SWAPS = ("none", "plane", "exact")


class Constraint(NamedTuple):
    """What a single component must satisfy, besides its length."""

    K: int  # most nonzeros
    nonnegative: bool
    allowed: Array  # (p,) bool: variables that may be used


class Starts(NamedTuple):
    """EM from r starts at once: their products with X are one matrix product."""

    W: Array  # (r, p) unit rows that satisfy the constraint
    F: Array  # (r, p) their images C w
    values: Array  # (r,) w'Cw
    trace: tuple[Array, ...]  # `values` of every iteration so far
    bound: float  # sum of the values


class Support(NamedTuple):
    w: Array  # (p,)
    bound: float  # w'Cw


def strength(F: Array, c: Constraint) -> Array:
    """What an entry of Cw promises: its size, or its positive part; -1 where not allowed."""
    gain = np.clip(F, 0.0, None) if c.nonnegative else np.abs(F)
    return np.where(c.allowed, gain, -1.0)


def threshold(F: Array, c: Constraint, *, soft: bool = True) -> Array:
    """Rows of F reduced to K entries each and to unit length, [SB08] Algorithm 2.

    Soft: minus the (K+1)-th largest, which a partial sort finds in O(p). Hard: the K largest
    as they are. Ties can leave nothing of a soft threshold: that row is thresholded hard.
    """
    gain = strength(F, c)
    p = gain.shape[1]
    top = np.argpartition(gain, p - c.K, axis=1)[:, p - c.K :] if p > c.K else None
    kept = np.clip(gain, 0.0, None)
    if top is not None:
        hard = np.zeros_like(kept)
        np.put_along_axis(hard, top, np.take_along_axis(kept, top, axis=1), axis=1)
        if soft:
            outside = gain.copy()
            np.put_along_axis(outside, top, -1.0, axis=1)
            next_largest = np.clip(outside.max(axis=1, keepdims=True), 0.0, None)
            shrunk = np.clip(hard - next_largest, 0.0, None)
            lost = shrunk.max(axis=1, keepdims=True) <= 1e-12 * hard.max(axis=1, keepdims=True)
            hard = np.where(lost, hard, shrunk)
        kept = hard
    norms = np.linalg.norm(kept, axis=1, keepdims=True)
    return np.copysign(kept, F) * (kept > 0) / np.where(norms > 0, norms, 1.0)


def begin(quadratic: Quadratic, W: Array, c: Constraint) -> Starts:
    """Make the starts feasible; those of which nothing remains are dropped."""
    W = threshold(W, c)
    W = W[np.any(W != 0, axis=1)]
    F = quadratic.matmul(W.T).T
    values = np.sum(W * F, axis=1)
    return Starts(W, F, values, (values,), float(np.sum(values)))


def seeds(quadratic: Quadratic, c: Constraint, rng: Any, count: int) -> Array:
    """Starts at single variables j: the K largest entries of column j of C.

    Of twenty times as many variables as wanted (all, if there are not more), those are
    returned whose supports differ and have the largest w'Cw. At small K, where variables
    form many small groups, they find what neither random vectors nor the first principal
    component do.
    """
    variables = np.flatnonzero(c.allowed)
    if variables.size > max(20 * count, 64):
        variables = rng.choice(variables, max(20 * count, 64), replace=False)
    W = threshold(quadratic.columns(variables).T, c, soft=False)
    chosen: dict[bytes, int] = {}
    for k in np.argsort(-quadratic.form(W), kind="stable"):
        chosen.setdefault((W[k] != 0).tobytes(), int(k))
        if len(chosen) == count:
            break
    return W[list(chosen.values())]


def make_em_step(quadratic: Quadratic, c: Constraint) -> Callable[[Starts], Starts]:
    """E-step y = Xw and M-step w = threshold(X'y) of [SB08] (10), (14), (17), for all starts.

    A shrunken step can lower w'Cw, since the bound B on |w|_1 moves with K fixed. A start
    that would fall stays where it is.
    """

    def step(state: Starts) -> Starts:
        W = threshold(state.F, c)
        F = quadratic.matmul(W.T).T
        values = np.sum(W * F, axis=1)
        better = values > state.values
        pick = better[:, None]
        values = np.where(better, values, state.values)
        W, F = np.where(pick, W, state.W), np.where(pick, F, state.F)
        return Starts(W, F, values, state.trace + (values,), float(np.sum(values)))

    return step


def renormalised(quadratic: Quadratic, w: Array, c: Constraint, tol: float = 1e-12) -> Support:
    """The best weights on the nonzeros of ``w`` (variational renormalisation)."""
    S = np.flatnonzero(w)
    if not c.nonnegative:
        value, v = quadratic.leading(S)
        return Support(_spread(v, S, w.size), value)
    small = quadratic.restricted(S)
    begun = Support(w[S], float(small.form(w[None, S])[0]))
    step = make_nonnegative_step(small)
    state = iterate(step, begun, max_iter=200, tol=tol * begun.bound).state
    return Support(_spread(state.w, S, w.size), state.bound)


def make_nonnegative_step(quadratic: Quadratic) -> Callable[[Support], Support]:
    """Raise w'Cw over w >= 0.

    An EM step lets variables in, then an active-set move in the manner of Lawson and Hanson's
    NNLS takes others out: towards the leading eigenvector of the positive block, as far as the
    signs allow. On that way w'Cw / w'w rises: an eigenvector is C-orthogonal to the rest of w.
    """

    def step(state: Support) -> Support:
        w = state.w
        f = np.clip(quadratic.matmul(w[:, None])[:, 0], 0.0, None)
        norm = float(np.linalg.norm(f))
        if norm == 0.0:
            return state
        w = f / norm  # [SB08] (17)
        P = np.flatnonzero(w)
        _, v = quadratic.leading(P)
        v = v if v @ w[P] >= 0 else -v
        outside = v <= 0
        if np.any(outside):
            inside = w[P]
            reach = np.min(inside[outside] / (inside[outside] - v[outside]))
            moved = inside + reach * (v - inside)
            moved[outside & (moved <= 1e-14)] = 0.0
            v = np.clip(moved, 0.0, None)
        v = _spread(v / np.linalg.norm(v), P, w.size)
        value = float(quadratic.form(v[None, :])[0])
        return Support(v, value) if value > state.bound else state

    return step


def make_polish_step(
    quadratic: Quadratic, c: Constraint, *, swaps: str = "exact"
) -> Callable[[Support], Support]:
    """One replacement of the support by a better one, with the best weights on both.

    ``swaps`` is one of `SWAPS`; the lower bound is that of `best_swap`.
    """
    diagonal = quadratic.diagonal()

    def step(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        target = threshold(f[None, :], c, soft=False)[0]
        moved = np.any((target != 0) != (state.w != 0))
        if moved:
            result = renormalised(quadratic, target, c)
            if result.bound > state.bound * (1.0 + RELATIVE_RISE):
                return result
        if swaps == "none" or np.count_nonzero(state.w) == int(np.sum(c.allowed)):
            return state
        return best_swap(quadratic, diagonal, state, f, c, exact=swaps == "exact")

    return step


def best_swap(
    quadratic: Quadratic,
    diagonal: Array,
    state: Support,
    f: Array,
    c: Constraint,
    *,
    exact: bool,
) -> Support:
    """Exchange one variable for another, if that pays; else the state itself.

    What remains of w without variable i, v, and a new variable j span a plane, on which the
    largest value of the form is known: [a b; b d] with a = v'Cv, b = c_j'v, d = C_jj. That is
    a lower bound of the swapped block's eigenvalue, for all (i, j) at once; the most promising
    are then computed exactly.
    """
    w, (leave, enter) = state.w, _candidates(state.w, f, diagonal, c)
    if enter.size == 0:
        return state
    columns = quadratic.columns(leave)
    rest = 1.0 - w[leave] ** 2
    if leave.size == 1 and rest[0] < 1e-12:  # K = 1: nothing remains of w
        best = enter[np.argmax(diagonal[enter])]
        lone = Support(_spread(np.ones(1), np.array([best]), w.size), float(diagonal[best]))
        return lone if lone.bound > state.bound * (1.0 + RELATIVE_RISE) else state
    rest = np.maximum(rest, 1e-12)
    a = state.bound - 2.0 * w[leave] * f[leave] + w[leave] ** 2 * diagonal[leave]
    a = (a / rest)[:, None]
    b = ((f[enter][:, None] - columns[enter] * w[leave]) / np.sqrt(rest)).T  # (|leave|, |enter|)
    d = diagonal[enter]
    half = np.sqrt(0.25 * (a - d) ** 2 + b * b)
    value = 0.5 * (a + d) + half
    if c.nonnegative:
        value = np.where(b > 0, value, np.maximum(a, d))
    affordable = exact and leave.size**3 <= EXACT_SWAPS
    if not affordable and value.max() <= state.bound * (1.0 + RELATIVE_RISE):
        return state
    return _exact(quadratic, state, leave, enter, value, c)


def _candidates(w: Array, f: Array, diagonal: Array, c: Constraint) -> tuple[Array, Array]:
    """Variables that may leave and enter: all, unless the pairs are too many."""
    leave = np.flatnonzero(w)
    enter = np.flatnonzero(c.allowed & (w == 0))
    if leave.size * enter.size > SWAP_ENTRIES:
        few = max(256, SWAP_ENTRIES // enter.size)
        leave = leave[np.argsort(np.abs(w[leave]))[:few]]
    if leave.size * enter.size > SWAP_ENTRIES:
        few = SWAP_ENTRIES // leave.size
        gain = strength(f[None, :], c)[0][enter]
        enter = enter[np.argsort(-gain)[:few]]
    return leave, enter


def _exact(
    quadratic: Quadratic, state: Support, leave: Array, enter: Array, value: Array, c: Constraint
) -> Support:
    """The best of the most promising swaps, with exact weights."""
    w, S = state.w, np.flatnonzero(state.w)
    goal = state.bound * (1.0 + RELATIVE_RISE)
    flat = value.ravel()
    budget = int(np.clip(EXACT_SWAPS / (S.size**3 + 1000.0), 1, 1000))
    budget = min(budget, 24) if c.nonnegative else budget
    top = (
        np.argpartition(-flat, budget - 1)[:budget] if budget < flat.size else np.arange(flat.size)
    )
    top = top[np.argsort(-flat[top], kind="stable")]
    i, j = leave[top // enter.size], enter[top % enter.size]

    def swapped(k: int) -> Support:
        target = w.copy()
        target[i[k]], target[j[k]] = 0.0, max(float(np.max(np.abs(w))) * 0.5, 1e-3)
        return renormalised(quadratic, target / np.linalg.norm(target), c)

    if flat[top[0]] > goal:  # the plane improves: the whole block does at least as well
        result = swapped(0)
        return result if result.bound > goal else state
    if c.nonnegative:
        for k in range(top.size):
            result = swapped(k)
            if result.bound > goal:
                return result
        return state
    variables = np.concatenate([S, np.unique(j)])
    blocks = quadratic.block(variables)
    sets = np.tile(np.arange(S.size), (top.size, 1))
    new = S.size + np.searchsorted(variables[S.size :], j)
    sets[np.arange(top.size), np.searchsorted(S, i)] = new
    largest = np.linalg.eigvalsh(blocks[sets[:, :, None], sets[:, None, :]])[:, -1]
    best = int(np.argmax(largest))
    if largest[best] <= goal:
        return state
    result = swapped(best)
    return result if result.bound > goal else state


def _spread(v: Array, S: Array, p: int) -> Array:
    w = np.zeros(p)
    w[S] = v
    return w
