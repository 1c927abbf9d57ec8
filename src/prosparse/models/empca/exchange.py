"""Better supports: variables are replaced or exchanged while that raises w'Cw.

[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM finds good supports from many starts. Here a support, always with the best weights on it
(`nonnegative.best_weights`), is replaced by a better one, first by the K largest entries of Cw
(which cannot lower the objective: [YZ13]), then by exchanging variables, until nothing improves:
the best one at a time (`best_swap`) or, where that would take too many eigenproblems, many of
them together (`rough_swaps`, `exact_swaps`). Where nothing improves a step returns the very
state that it was given.

Symbols: f = Cw (p,); S the support, of K variables; a gain tells whether variable i, which
leaves, should be exchanged for variable j, which enters.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from .model import Support
from .nonnegative import best_weights
from .quadratic import Floats, Indices, Quadratic
from .thresholds import Constraint, spread_weights, strength, threshold

# A step is an improvement if it raises the objective by more than this share: below, it is
# rounding, and two supports of equal value would be exchanged for ever.
RELATIVE_RISE = 1e-12
# Supports up to this size are exchanged by the exact rule, larger ones by a lower bound.
EXACT_SIDE = 600
# Swap matrices larger than this are only searched among the most promising variables.
SWAP_ENTRIES = 400_000
# Of so many of the exchanges that pay the new value is computed, and the best of them is made.
SWAPS_TRIED = 8
# Newton steps for these values, of which a few are the rule.
NEWTON_STEPS = 60
NEWTON_TOLERANCE = 1e-4  # of the rise: a step this small leaves an error of its square
# Non-negative weights have no exact rule: so many exchanges are computed in full.
NONNEGATIVE_SWAPS_TRIED = 24

# From C, its diagonal, a support, its image Cw and the constraint to a better support.
Exchange = Callable[[Quadratic, Floats, Support, Floats, Constraint], Support]


def make_polish_step(
    quadratic: Quadratic, c: Constraint, exchange: Exchange | None, known: dict[bytes, Support]
) -> Callable[[Support], Support]:
    """One replacement of the support by a better one, with the best weights on both: by the
    largest entries of Cw or, where these are its own, by ``exchange``, if any.

    What follows a support is kept in ``known``, so that climbs which meet go on together.
    """
    diagonal = quadratic.diagonal()

    def step(state: Support) -> Support:
        here = (state.w != 0).tobytes()
        if here not in known:
            known[here] = follower(state)
        there = known[here]
        return there if there.bound > state.bound * (1.0 + RELATIVE_RISE) else state

    def follower(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        target = threshold(f[None, :], c, soft=False)[0]
        if np.any((target != 0) != (state.w != 0)):
            result = best_weights(quadratic, target, c)
            if result.bound > state.bound * (1.0 + RELATIVE_RISE):
                return result
        if exchange is None or np.count_nonzero(state.w) == int(np.sum(c.allowed)):
            return state
        return exchange(quadratic, diagonal, state, f, c)

    return step


def best_swap(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Exchange one variable for another, if that pays; else the state itself."""
    w, (leave, enter) = state.w, _candidates(state.w, f, c)
    if enter.size == 0:
        return state
    if np.count_nonzero(w) == 1:  # nothing remains of w: the largest diagonal entry is best
        best = enter[np.argmax(diagonal[enter])]
        lone = Support(spread_weights(np.ones(1), np.array([best]), w.size), float(diagonal[best]))
        return lone if lone.bound > state.bound * (1.0 + RELATIVE_RISE) else state
    S = np.flatnonzero(w)
    if c.nonnegative or S.size > EXACT_SIDE:
        gain = plane_gains(state, f, diagonal, quadratic.cross(leave, enter), leave, enter)
        if c.nonnegative:  # the gains say little: many are tried, and the first that pays is made
            top = _most_promising(gain, NONNEGATIVE_SWAPS_TRIED)
        else:
            top = _most_promising(gain, 1, RELATIVE_RISE * state.bound)
    else:
        columns = quadratic.columns(S)
        pairs = np.linalg.eigh(columns[S])
        places = np.searchsorted(S, leave)
        gain = exact_gains(*pairs, columns[enter], diagonal[enter])[places]
        top = _most_promising(gain, SWAPS_TRIED, RELATIVE_RISE * state.bound)
        i, j = np.divmod(top, enter.size)
        reached = exchanged_values(*pairs, places[i], columns[enter[j]], diagonal[enter[j]])
        top = top[np.argsort(-reached, kind="stable")]
    i, j = np.divmod(top, enter.size)
    return _first_that_pays(quadratic, state, leave[i], enter[j], c)


def rough_swaps(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Exchange as many variables as pay, by a lower bound of what each exchange gains."""
    if np.count_nonzero(state.w) == 1:
        return best_swap(quadratic, diagonal, state, f, c)
    leave, enter = _candidates(state.w, f, c)
    if enter.size == 0:
        return state
    gain = plane_gains(state, f, diagonal, quadratic.cross(leave, enter), leave, enter)
    return _together(quadratic, state, leave, enter, gain, c)


def exact_swaps(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Exchange as many variables as pay, by the exact rule, where there is one."""
    S = np.flatnonzero(state.w)
    if c.nonnegative or S.size == 1:
        return best_swap(quadratic, diagonal, state, f, c)
    if S.size > EXACT_SIDE:
        return rough_swaps(quadratic, diagonal, state, f, c)
    leave, enter = _candidates(state.w, f, c)
    if enter.size == 0:
        return state
    block, parts = quadratic.block(S), (quadratic.cross(enter, S), diagonal[enter])
    try:
        gain = inverse_gains(block, *parts, state.w[S], state.bound)
    except np.linalg.LinAlgError:  # where the largest eigenvalue is not alone
        gain = exact_gains(*np.linalg.eigh(block), *parts)
    return _together(quadratic, state, leave, enter, gain[np.searchsorted(S, leave)], c)


def _together(
    quadratic: Quadratic,
    state: Support,
    leave: Indices,
    enter: Indices,
    gain: Floats,
    c: Constraint,
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
        swapped = best_weights(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > best.bound * (1.0 + RELATIVE_RISE):
            best, start, size = swapped, start + size, 2 * size
        elif size == 1:
            break
        else:
            size //= 2
    return best


def inverse_gains(
    block: Floats, columns: Floats, diagonal: Floats, u: Floats, largest: float
) -> Floats:
    """`exact_gains` where the leading eigenpair of ``block`` is known, at a third of the cost.

    (l - C[S, S] + l uu')^-1 = R + uu' / l, by Cholesky. LinAlgError if the largest eigenvalue is
    not alone.
    """
    shifted = largest * (np.eye(u.size) + np.outer(u, u)) - block
    factor, failed = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError
    lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    R = np.tril(lower) + np.tril(lower, -1).T - np.outer(u, u) / largest
    return _gains(columns, diagonal, u, largest, columns @ R, np.diagonal(R))


def exact_gains(values: Floats, vectors: Floats, columns: Floats, diagonal: Floats) -> Floats:
    """Positive where leaving out variable i for variable j raises the largest eigenvalue.

    ``values`` and ``vectors`` are the eigenpairs, in rising order, of C[S, S] (K, K), with largest
    eigenvalue l and its vector u, ``columns`` = C[enter, S], ``diagonal`` = C_jj of those that
    enter; the result is (K, |enter|). With B the block without i, the bordered block
    [B c_j; c_j' C_jj] has an eigenvalue above l if and only if C_jj - l + c_j' (l - B)^-1 c_j > 0
    (the secular equation, l being above B's own). The inverse for every i follows from that of
    the whole block, N(m) = (m - C[S, S])^-1, as N - N e_i e_i' N / N_ii; for m -> l, where
    N = uu' / (m - l) + R, it tends to R + uu' R_ii / u_i^2 - (u e_i' R + R e_i u') / u_i. One
    eigenproblem serves all K |enter| exchanges.
    """
    largest, u, V = values[-1], vectors[:, -1], vectors[:, :-1]
    below = np.maximum(largest - values[:-1], 1e-14 * largest)
    through = columns @ (V / below) @ V.T
    return _gains(columns, diagonal, u, largest, through, np.sum(V * V / below, axis=1))


def exchanged_values(
    values: Floats, vectors: Floats, leaving: Indices, columns: Floats, diagonal: Floats
) -> Floats:
    """The largest eigenvalue after each of some exchanges, which all raise it; no eigenproblem.

    ``values`` and ``vectors`` are as in `exact_gains`, ``leaving`` says which row i of the block
    an exchange takes out, and ``columns`` and ``diagonal`` are c_j and C_jj of what it puts in.
    The value is the root m > l of C_jj - m + c_j' (N - N e_i e_i' N / N_ii) c_j, N = (m - C[S,
    S])^-1. In the basis of the eigenvectors, with z = V'c_j, v = V'e_i and r = z - v (v'Nz / v'Nv),
    the last term is sum_k r_k^2 / (m - l_k). The function is convex and falls: Newton's method
    from l, where it is positive, rises to the root and never passes it.
    """
    largest = values[-1]
    below = np.maximum(largest - values, 0.0)
    z, v = columns @ vectors, vectors[leaving]
    above = np.full(leaving.size, RELATIVE_RISE * largest)  # m - l, in which no digit is lost
    for _ in range(NEWTON_STEPS):
        inverse = 1.0 / (below + above[:, None])
        weighted = v * inverse
        share = np.einsum("tk,tk->t", weighted, z) / np.einsum("tk,tk->t", weighted, v)
        r = z - share[:, None] * v
        through = r * inverse
        height = diagonal - largest - above + np.einsum("tk,tk->t", r, through)
        step = height / (1.0 + np.einsum("tk,tk->t", through, through))
        above = np.maximum(above + step, RELATIVE_RISE * largest)
        if np.all(np.abs(step) <= NEWTON_TOLERANCE * above):
            break
    reached: Floats = largest + above
    return reached


def _gains(
    columns: Floats, diagonal: Floats, u: Floats, largest: float, through: Floats, own: Floats
) -> Floats:
    """See `exact_gains`; ``through`` are the rows R c_j, ``own`` is R_ii."""
    u = np.where(np.abs(u) > 1e-100, u, 1e-100)
    along = columns @ u
    gain: Floats = (through * (-2.0 * along)[:, None]).T / u[:, None]
    gain += np.outer(own / u**2, along**2)
    gain += diagonal - largest + np.einsum("jk,jk->j", columns, through)
    return gain


def plane_gains(
    state: Support, f: Floats, diagonal: Floats, cross: Floats, leave: Indices, enter: Indices
) -> Floats:
    """A lower bound of what each exchange gains, (|leave|, |enter|).

    What remains of w without variable i, v, and a new variable j span a plane, on which the
    largest value of the form is known: [a b; b d] with a = v'Cv, b = c_j'v, d = C_jj.
    ``cross`` is C[leave, enter].
    """
    w = state.w
    rest = np.maximum(1.0 - w[leave] ** 2, 1e-12)
    a = state.bound - 2.0 * w[leave] * f[leave] + w[leave] ** 2 * diagonal[leave]
    a = (a / rest)[:, None]
    b = f[enter] - cross * w[leave][:, None]
    b /= np.sqrt(rest)[:, None]
    d = diagonal[enter]
    # 1/2 (a + d) + sqrt(1/4 (a - d)^2 + b^2), in as few arrays as can be
    gain: Floats = 0.5 * a - 0.5 * d
    gain *= gain
    b *= b
    gain += b
    np.sqrt(gain, out=gain)
    gain += 0.5 * a
    gain += 0.5 * d - state.bound
    return gain


def _candidates(w: Floats, f: Floats, c: Constraint) -> tuple[Indices, Indices]:
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


def _most_promising(gain: Floats, count: int, least: float = -math.inf) -> Indices:
    """Where in the flat table of gains the largest are, in falling order; those above ``least``."""
    flat = gain.ravel()
    count = min(count, flat.size)
    top = np.argpartition(-flat, count - 1)[:count]
    top = top[np.argsort(-flat[top], kind="stable")]
    return top[flat[top] > least]


def _first_that_pays(
    quadratic: Quadratic, state: Support, leave: Indices, enter: Indices, c: Constraint
) -> Support:
    """The first of some exchanges that pays with the best weights, or the state itself."""
    for i, j in zip(leave, enter, strict=True):
        target = state.w.copy()
        target[i] = 0.0
        target[j] = 0.5 * np.max(np.abs(state.w))
        swapped = best_weights(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > state.bound * (1.0 + RELATIVE_RISE):
            return swapped
    return state
