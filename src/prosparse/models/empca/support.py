"""The search for the best K variables: EM with thresholds, exact blocks, swaps.

    maximise  w'Cw  subject to  |w| = 1,  at most K nonzeros,  and, if asked,  w >= 0

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.
[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM (`make_em_step`) finds good supports from many starts at once; it shrinks the weights, so
that they are not the best ones on their support. `make_polish_step` then works with exact
weights: a support is replaced by a better one, first by the K largest entries of Cw (which
cannot lower the objective: [YZ13]), then by exchanging variables, until nothing improves: the
best one at a time (`best_swap`) or, where that would take too many eigenproblems, many of them
together (`rough_swaps`, `exact_swaps`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from ...inference.loop import iterate
from ...numerics.quadratic import Quadratic

Array = np.ndarray

# A step is an improvement if it raises the objective by more than this share: below, it is
# rounding, and two supports of equal value would be exchanged for ever.
RELATIVE_RISE = 1e-12
ROUNDING = 1e-15  # of the objective, as a share of it
# Supports up to this size are exchanged by the exact rule, larger ones by a lower bound.
EXACT_SIDE = 600
# Swap matrices larger than this are only searched among the most promising variables.
SWAP_ENTRIES = 400_000
# So many of the exchanges that pay are computed in full, and the best of them is made.
SWAPS_TRIED = 8
# Non-negative weights have no exact rule: so many exchanges are computed in full.
NONNEGATIVE_SWAPS_TRIED = 24


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
    gain = np.maximum(F, 0.0) if c.nonnegative else np.abs(F)
    return np.where(c.allowed, gain, -1.0)


def threshold(F: Array, c: Constraint, *, soft: bool = True) -> Array:
    """Rows of F reduced to K entries each and to unit length, [SB08] Algorithm 2.

    Soft: minus the (K+1)-th largest, which a partial sort finds in O(p). Hard: the K largest
    as they are. Ties can leave nothing of a soft threshold: that row is thresholded hard.
    """
    gain = strength(F, c)
    p = gain.shape[1]
    if p <= c.K:
        kept = np.maximum(gain, 0.0)
    elif soft:
        next_largest = np.partition(gain, p - c.K - 1, axis=1)[:, p - c.K - 1, None]
        kept = np.maximum(gain - np.maximum(next_largest, 0.0), 0.0)
        lost = kept.max(axis=1) <= 1e-12 * gain.max(axis=1)
        if lost.any():
            kept[lost] = _largest(gain[lost], c.K)
    else:
        kept = _largest(gain, c.K)
    norms = np.sqrt(np.einsum("rp,rp->r", kept, kept))[:, None]
    return np.copysign(kept, F) / np.where(norms > 0, norms, 1.0)


def _largest(gain: Array, K: int) -> Array:
    """The K largest entries of every row, if positive; zero elsewhere."""
    top = np.argpartition(gain, gain.shape[1] - K, axis=1)[:, -K:]
    kept = np.zeros_like(gain)
    np.put_along_axis(kept, top, np.maximum(np.take_along_axis(gain, top, axis=1), 0.0), axis=1)
    return kept


def begin(quadratic: Quadratic, W: Array, c: Constraint) -> Starts:
    """Make the starts feasible; those of which nothing remains are dropped."""
    W = threshold(W, c)
    W = W[np.any(W != 0, axis=1)]
    F = quadratic.matmul(W.T).T
    values = np.einsum("rp,rp->r", W, F)
    # On variables without variance (deflated away, say) there is nothing to climb.
    W, F, values = (part[values > 0.0] for part in (W, F, values))
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
        values = np.einsum("rp,rp->r", W, F)
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


def no_worse(exact: Support, old: Support) -> Support:
    """``exact``, unless it is worse than ``old`` by more than rounding.

    w'Cw is flat at its maximum: weights that are wrong in the eighth digit can come out ahead of
    exact ones in the sixteenth.
    """
    best = max(exact.bound, old.bound)
    return exact._replace(bound=best) if exact.bound >= best * (1.0 - ROUNDING) else old


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
        return no_worse(Support(v, value), state)

    return step


# From C, its diagonal, a support, its image Cw and the constraint to a better support.
Exchange = Callable[[Quadratic, Array, Support, Array, Constraint], Support]


def make_polish_step(
    quadratic: Quadratic, c: Constraint, exchange: Exchange | None
) -> Callable[[Support], Support]:
    """One replacement of the support by a better one, with the best weights on both: by the
    largest entries of Cw or, where these are its own, by ``exchange``, if any."""
    diagonal = quadratic.diagonal()

    def step(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        target = threshold(f[None, :], c, soft=False)[0]
        if np.any((target != 0) != (state.w != 0)):
            result = renormalised(quadratic, target, c)
            if result.bound > state.bound * (1.0 + RELATIVE_RISE):
                return result
        if exchange is None or np.count_nonzero(state.w) == int(np.sum(c.allowed)):
            return state
        return exchange(quadratic, diagonal, state, f, c)

    return step


def best_swap(
    quadratic: Quadratic, diagonal: Array, state: Support, f: Array, c: Constraint
) -> Support:
    """Exchange one variable for another, if that pays; else the state itself."""
    w, (leave, enter) = state.w, _candidates(state.w, f, diagonal, c)
    if enter.size == 0:
        return state
    if np.count_nonzero(w) == 1:  # nothing remains of w: the largest diagonal entry is best
        best = enter[np.argmax(diagonal[enter])]
        lone = Support(_spread(np.ones(1), np.array([best]), w.size), float(diagonal[best]))
        return lone if lone.bound > state.bound * (1.0 + RELATIVE_RISE) else state
    S = np.flatnonzero(w)
    if c.nonnegative or S.size > EXACT_SIDE:
        gain = plane_gains(state, f, diagonal, quadratic.columns(leave), leave, enter)
        tried = NONNEGATIVE_SWAPS_TRIED if c.nonnegative else 1
    else:
        columns = quadratic.columns(S)
        gain = exact_gains(columns[S], columns[enter], diagonal[enter])
        gain = gain[np.searchsorted(S, leave)]
        tried = SWAPS_TRIED
    return _first_or_best(quadratic, state, leave, enter, gain, tried, c)


def rough_swaps(
    quadratic: Quadratic, diagonal: Array, state: Support, f: Array, c: Constraint
) -> Support:
    """Exchange as many variables as pay, by a lower bound of what each exchange gains."""
    if np.count_nonzero(state.w) == 1:
        return best_swap(quadratic, diagonal, state, f, c)
    leave, enter = _candidates(state.w, f, diagonal, c)
    if enter.size == 0:
        return state
    gain = plane_gains(state, f, diagonal, quadratic.columns(leave), leave, enter)
    return _together(quadratic, state, leave, enter, gain, c)


def exact_swaps(
    quadratic: Quadratic, diagonal: Array, state: Support, f: Array, c: Constraint
) -> Support:
    """Exchange as many variables as pay, by the exact rule, where there is one."""
    S = np.flatnonzero(state.w)
    if c.nonnegative or S.size == 1:
        return best_swap(quadratic, diagonal, state, f, c)
    if S.size > EXACT_SIDE:
        return rough_swaps(quadratic, diagonal, state, f, c)
    leave, enter = _candidates(state.w, f, diagonal, c)
    if enter.size == 0:
        return state
    columns = quadratic.columns(S)
    parts = (columns[S], columns[enter], diagonal[enter])
    try:
        gain = inverse_gains(*parts, state.w[S], state.bound)
    except np.linalg.LinAlgError:  # where the largest eigenvalue is not alone
        gain = exact_gains(*parts)
    return _together(quadratic, state, leave, enter, gain[np.searchsorted(S, leave)], c)


def _together(
    quadratic: Quadratic, state: Support, leave: Array, enter: Array, gain: Array, c: Constraint
) -> Support:
    """Many exchanges from one table of gains, each of which would pay alone.

    What an exchange gains is nearly a sum of what the leaving and the entering variable
    contribute: the variables are paired in the order of the best gain that each can have. Pairs
    are exchanged in blocks that double while they pay and are halved when they do not.
    """
    leaving = np.argsort(-gain.max(axis=1), kind="stable")[: enter.size]
    entering = np.argsort(-gain.max(axis=0), kind="stable")[: leave.size]
    pays = gain[leaving, entering] > RELATIVE_RISE * state.bound
    leaving, entering = leave[leaving[pays]], enter[entering[pays]]
    best, start, size = state, 0, 1
    while start < leaving.size:
        target = best.w.copy()
        target[leaving[start : start + size]] = 0.0
        target[entering[start : start + size]] = 0.5 * np.max(np.abs(best.w))
        swapped = renormalised(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > best.bound * (1.0 + RELATIVE_RISE):
            best, start, size = swapped, start + size, 2 * size
        elif size == 1:
            break
        else:
            size //= 2
    return best


def inverse_gains(block: Array, columns: Array, diagonal: Array, u: Array, largest: float) -> Array:
    """`exact_gains` where the leading eigenpair of ``block`` is known, at a third of the cost.

    (l - C[S, S] + l uu')^-1 = R + uu' / l, by Cholesky. LinAlgError if the largest eigenvalue is
    not alone.
    """
    shifted = largest * (np.eye(u.size) + np.outer(u, u)) - block
    factor = cho_factor(shifted, overwrite_a=True, check_finite=False)
    inverse = cho_solve(factor, np.eye(u.size), overwrite_b=True, check_finite=False)
    R = inverse - np.outer(u, u) / largest
    return _gains(columns, diagonal, u, largest, columns @ R, np.diagonal(R))


def exact_gains(block: Array, columns: Array, diagonal: Array) -> Array:
    """Positive where leaving out variable i for variable j raises the largest eigenvalue.

    ``block`` = C[S, S] (K, K) with largest eigenvalue l and its vector u, ``columns`` =
    C[enter, S], ``diagonal`` = C_jj of those that enter; the result is (K, |enter|). With B the
    block without i, the bordered block [B c_j; c_j' C_jj] has an eigenvalue above l if and only
    if C_jj - l + c_j' (l - B)^-1 c_j > 0 (the secular equation, l being above B's own). The
    inverse for every i follows from that of the whole block, N(m) = (m - C[S, S])^-1, as
    N - N e_i e_i' N / N_ii; for m -> l, where N = uu' / (m - l) + R, it tends to
    R + uu' R_ii / u_i^2 - (u e_i' R + R e_i u') / u_i. One eigenproblem serves all K |enter|
    exchanges.
    """
    values, vectors = np.linalg.eigh(block)
    largest, u, V = values[-1], vectors[:, -1], vectors[:, :-1]
    below = np.maximum(largest - values[:-1], 1e-14 * largest)
    through = columns @ (V / below) @ V.T
    return _gains(columns, diagonal, u, largest, through, np.sum(V * V / below, axis=1))


def _gains(
    columns: Array, diagonal: Array, u: Array, largest: float, through: Array, own: Array
) -> Array:
    """See `exact_gains`; ``through`` are the rows R c_j, ``own`` is R_ii."""
    u = np.where(np.abs(u) > 1e-100, u, 1e-100)
    along = columns @ u
    gain = (through * (-2.0 * along)[:, None]).T / u[:, None]
    gain += np.outer(own / u**2, along**2)
    gain += diagonal - largest + np.einsum("jk,jk->j", columns, through)
    return gain


def plane_gains(
    state: Support, f: Array, diagonal: Array, columns: Array, leave: Array, enter: Array
) -> Array:
    """A lower bound of what each exchange gains, (|leave|, |enter|).

    What remains of w without variable i, v, and a new variable j span a plane, on which the
    largest value of the form is known: [a b; b d] with a = v'Cv, b = c_j'v, d = C_jj.
    ``columns`` is C[:, leave].
    """
    w = state.w
    rest = np.maximum(1.0 - w[leave] ** 2, 1e-12)
    a = state.bound - 2.0 * w[leave] * f[leave] + w[leave] ** 2 * diagonal[leave]
    a = (a / rest)[:, None]
    b = ((f[enter][:, None] - columns[enter] * w[leave]) / np.sqrt(rest)).T
    d = diagonal[enter]
    return 0.5 * (a + d) + np.sqrt(0.25 * (a - d) ** 2 + b * b) - state.bound


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


def _first_or_best(
    quadratic: Quadratic,
    state: Support,
    leave: Array,
    enter: Array,
    gain: Array,
    tried: int,
    c: Constraint,
) -> Support:
    """The best of the most promising swaps, with exact weights.

    For non-negative weights the gains say little, and many are tried: there the first that
    pays is taken.
    """
    flat = gain.ravel()
    tried = min(tried, flat.size)
    top = np.argpartition(-flat, tried - 1)[:tried]
    top = top[np.argsort(-flat[top], kind="stable")]
    if not c.nonnegative:
        top = top[flat[top] > RELATIVE_RISE * state.bound]
    best = state
    for k in top:
        target = state.w.copy()
        target[leave[k // enter.size]] = 0.0
        target[enter[k % enter.size]] = 0.5 * np.max(np.abs(state.w))
        swapped = renormalised(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > best.bound * (1.0 + RELATIVE_RISE):
            best = swapped
            if c.nonnegative:
                break
    return best


def _spread(v: Array, S: Array, p: int) -> Array:
    w = np.zeros(p)
    w[S] = v
    return w
