"""Improvement of supports by replacing and swapping variables.

[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM finds good supports from many starts. Steps replace a support, with its optimal loadings
(`nonnegative.optimal_loadings`), by a better one. The K largest entries of Cw do not decrease the
objective [YZ13]. Swaps follow: one at a time (`best_swap`) or, if that requires too many
eigenproblems, many at once (`rough_swaps`, `exact_swaps`). A step returns its argument if it finds
no improvement.

Symbols: f = Cw (p,); S the support, of K variables; the gain of a swap is positive if replacing
variable i by variable j increases the objective.
"""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.linalg import lapack

from .model import Support
from .nonnegative import optimal_loadings
from .quadratic import Floats, Indices, Quadratic
from .thresholds import Constraint, embed, selection_score, threshold

# Minimum relative increase of the objective by a step. Smaller increases are rounding errors, and
# supports of equal value would be swapped forever.
MIN_RELATIVE_INCREASE = 1e-12
# Maximum size of a support for exact gains; a lower bound is used for larger supports.
EXACT_SIDE = 600
# Maximum number of swaps to evaluate; beyond it, only the best variables are considered.
MAX_SWAP_ENTRIES = 400_000
# Number of swaps with positive gain whose new value is computed.
N_EVALUATED_SWAPS = 8
# Maximum number of Newton steps for these values; a few usually suffice.
MAX_NEWTON_STEPS = 60
NEWTON_TOL = 1e-4  # relative to the increase; the remaining error is its square
# Number of swaps to compute in full for non-negative components, which have no exact gains.
N_NONNEGATIVE_SWAPS = 24

# Function of C, the diagonal of C, a support, the image Cw of the support, and the constraint.
Exchange = Callable[[Quadratic, Floats, Support, Floats, Constraint], Support]


def make_polish_step(
    quadratic: Quadratic, c: Constraint, exchange: Exchange | None, known: dict[bytes, Support]
) -> Callable[[Support], Support]:
    """Build a step that replaces the support by a better one.

    Results are stored in ``known``, so that no support is improved twice.
    """
    diagonal = quadratic.diagonal()

    def step(state: Support) -> Support:
        here = (state.w != 0).tobytes()
        if here not in known:
            known[here] = next_support(state)
        following = known[here]
        improves = following.bound > state.bound * (1.0 + MIN_RELATIVE_INCREASE)
        return following if improves else state

    def next_support(state: Support) -> Support:
        f = quadratic.matmul(state.w[:, None])[:, 0]
        target = threshold(f[None, :], c, soft=False)[0]
        if np.any((target != 0) != (state.w != 0)):
            result = optimal_loadings(quadratic, target, c)
            if result.bound > state.bound * (1.0 + MIN_RELATIVE_INCREASE):
                return result
        if exchange is None or np.count_nonzero(state.w) == int(np.sum(c.allowed)):
            return state
        return exchange(quadratic, diagonal, state, f, c)

    return step


def best_swap(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Swap one variable for another if this improves the objective."""
    w, (leave, enter) = state.w, _candidates(state.w, f, c)
    if enter.size == 0:
        return state
    if np.count_nonzero(w) == 1:  # the largest diagonal entry is optimal
        best = enter[np.argmax(diagonal[enter])]
        lone = Support(embed(np.ones(1), np.array([best]), w.size), float(diagonal[best]))
        return lone if lone.bound > state.bound * (1.0 + MIN_RELATIVE_INCREASE) else state
    S = np.flatnonzero(w)
    if c.nonnegative or S.size > EXACT_SIDE:
        gain = plane_gains(state, f, diagonal, quadratic.cross(leave, enter), leave, enter)
        if c.nonnegative:  # lower bounds are loose: try many swaps
            top = _largest_gains(gain, N_NONNEGATIVE_SWAPS)
        else:
            top = _largest_gains(gain, 1, MIN_RELATIVE_INCREASE * state.bound)
    else:
        columns = quadratic.columns(S)
        pairs = np.linalg.eigh(columns[S])
        places = np.searchsorted(S, leave)
        gain = exact_gains(*pairs, columns[enter], diagonal[enter])[places]
        top = _largest_gains(gain, N_EVALUATED_SWAPS, MIN_RELATIVE_INCREASE * state.bound)
        i, j = np.divmod(top, enter.size)
        reached = swap_values(*pairs, places[i], columns[enter[j]], diagonal[enter[j]])
        top = top[np.argsort(-reached, kind="stable")]
    i, j = np.divmod(top, enter.size)
    return _first_improving_swap(quadratic, state, leave[i], enter[j], c)


def rough_swaps(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Make many swaps, ordered by a lower bound of the gain of each."""
    if np.count_nonzero(state.w) == 1:
        return best_swap(quadratic, diagonal, state, f, c)
    leave, enter = _candidates(state.w, f, c)
    if enter.size == 0:
        return state
    gain = plane_gains(state, f, diagonal, quadratic.cross(leave, enter), leave, enter)
    return _swap_many(quadratic, state, leave, enter, gain, c)


def exact_swaps(
    quadratic: Quadratic, diagonal: Floats, state: Support, f: Floats, c: Constraint
) -> Support:
    """Make many swaps, ordered by exact gains if available."""
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
    except np.linalg.LinAlgError:  # the largest eigenvalue is not simple
        gain = exact_gains(*np.linalg.eigh(block), *parts)
    return _swap_many(quadratic, state, leave, enter, gain[np.searchsorted(S, leave)], c)


def _swap_many(
    quadratic: Quadratic,
    state: Support,
    leave: Indices,
    enter: Indices,
    gain: Floats,
    c: Constraint,
) -> Support:
    """Make many swaps whose single gains are positive.

    The gain is nearly additive in the leaving and the entering variable. Variables are therefore
    paired in the order of their best gains. Pairs are swapped in blocks, whose size doubles after
    an improvement and is halved otherwise.
    """
    leaving = np.argsort(-gain.max(axis=1), kind="stable")[: enter.size]
    entering = np.argsort(-gain.max(axis=0), kind="stable")[: leave.size]
    improves = gain[leaving, entering] > MIN_RELATIVE_INCREASE * state.bound
    leaving, entering = leave[leaving[improves]], enter[entering[improves]]
    best, start, size = state, 0, 1
    while start < leaving.size:
        target = best.w.copy()
        target[leaving[start : start + size]] = 0.0
        target[entering[start : start + size]] = 0.5 * np.max(np.abs(best.w))
        swapped = optimal_loadings(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > best.bound * (1.0 + MIN_RELATIVE_INCREASE):
            best, start, size = swapped, start + size, 2 * size
        elif size == 1:
            break
        else:
            size //= 2
    return best


def inverse_gains(
    block: Floats, columns: Floats, diagonal: Floats, u: Floats, largest: float
) -> Floats:
    """Compute `exact_gains` from the leading eigenpair, three times as fast.

    The matrix R follows from (l - C[S, S] + l uu')^-1 = R + uu' / l by Cholesky decomposition.
    LinAlgError is raised if the largest eigenvalue is not simple.
    """
    shifted = largest * (np.eye(u.size) + np.outer(u, u)) - block
    factor, failed = lapack.dpotrf(shifted.T, lower=1, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError
    lower, _ = lapack.dpotri(factor, lower=1, overwrite_c=1)
    R = np.tril(lower) + np.tril(lower, -1).T - np.outer(u, u) / largest
    return _gains(columns, diagonal, u, largest, columns @ R, np.diagonal(R))


def exact_gains(values: Floats, vectors: Floats, columns: Floats, diagonal: Floats) -> Floats:
    """Compute gains, which are positive if swapping i for j is an improvement.

    ``values`` and ``vectors`` are the eigenpairs, in increasing order, of C[S, S] (K, K), with
    largest eigenvalue l and eigenvector u. ``columns`` = C[enter, S] and ``diagonal`` = C_jj of the
    entering variables; the result is (K, |enter|). With B the block without i, the bordered block
    [B c_j; c_j' C_jj] has an eigenvalue above l if and only if C_jj - l + c_j' (l - B)^-1 c_j > 0
    (the secular equation; l exceeds the eigenvalues of B). With the inverse N(m) = (m - C[S, S])^-1
    of the whole block, the inverse for each i is N - N e_i e_i' N / N_ii. For m -> l, where N = uu'
    / (m - l) + R, it tends to R + uu' R_ii / u_i^2 - (u e_i' R + R e_i u') / u_i. One eigenproblem
    yields the gains of all K |enter| swaps.
    """
    largest, u, V = values[-1], vectors[:, -1], vectors[:, :-1]
    below = np.maximum(largest - values[:-1], 1e-14 * largest)
    through = columns @ (V / below) @ V.T
    return _gains(columns, diagonal, u, largest, through, np.sum(V * V / below, axis=1))


def swap_values(
    values: Floats, vectors: Floats, leaving: Indices, columns: Floats, diagonal: Floats
) -> Floats:
    """Compute the largest eigenvalue after each of several improving swaps.

    ``values`` and ``vectors`` are as in `exact_gains`, ``leaving`` are the rows i of the block that
    leave; ``columns`` and ``diagonal`` are c_j and C_jj of the entering variables. The value is the
    root m > l of C_jj - m + c_j' (N - N e_i e_i' N / N_ii) c_j with N = (m - C[S, S])^-1. In the
    basis of the eigenvectors, with z = V'c_j, v = V'e_i and r = z - v (v'Nz / v'Nv), the last term
    is sum_k r_k^2 / (m - l_k). The function is convex and decreasing, so that Newton's method from
    l, where the function is positive, converges monotonically to the root.
    """
    largest = values[-1]
    below = np.maximum(largest - values, 0.0)
    z, v = columns @ vectors, vectors[leaving]
    above = np.full(leaving.size, MIN_RELATIVE_INCREASE * largest)  # m - l, without cancellation
    for _ in range(MAX_NEWTON_STEPS):
        inverse = 1.0 / (below + above[:, None])
        weighted = v * inverse
        ratio = np.einsum("tk,tk->t", weighted, z) / np.einsum("tk,tk->t", weighted, v)
        r = z - ratio[:, None] * v
        through = r * inverse
        residual = diagonal - largest - above + np.einsum("tk,tk->t", r, through)
        step = residual / (1.0 + np.einsum("tk,tk->t", through, through))
        above = np.maximum(above + step, MIN_RELATIVE_INCREASE * largest)
        if np.all(np.abs(step) <= NEWTON_TOL * above):
            break
    reached: Floats = largest + above
    return reached


def _gains(
    columns: Floats, diagonal: Floats, u: Floats, largest: float, through: Floats, own: Floats
) -> Floats:
    """Evaluate `exact_gains` from R c_j (rows of ``through``) and R_ii (``own``)."""
    u = np.where(np.abs(u) > 1e-100, u, 1e-100)
    along = columns @ u
    gain: Floats = (through * (-2.0 * along)[:, None]).T / u[:, None]
    gain += np.outer(own / u**2, along**2)
    gain += diagonal - largest + np.einsum("jk,jk->j", columns, through)
    return gain


def plane_gains(
    state: Support, f: Floats, diagonal: Floats, cross: Floats, leave: Indices, enter: Indices
) -> Floats:
    """Compute a lower bound of the gain of each swap, (|leave|, |enter|).

    The maximum of the form on the plane spanned by v, which is w without variable i, and variable
    j is the largest eigenvalue of [a b; b d] with a = v'Cv, b = c_j'v, d = C_jj. ``cross`` is
    C[leave, enter].
    """
    w = state.w
    rest = np.maximum(1.0 - w[leave] ** 2, 1e-12)
    a = state.bound - 2.0 * w[leave] * f[leave] + w[leave] ** 2 * diagonal[leave]
    a = (a / rest)[:, None]
    b = f[enter] - cross * w[leave][:, None]
    b /= np.sqrt(rest)[:, None]
    d = diagonal[enter]
    # 1/2 (a + d) + sqrt(1/4 (a - d)^2 + b^2), in place to save memory
    gain: Floats = 0.5 * a - 0.5 * d
    gain *= gain
    b *= b
    gain += b
    np.sqrt(gain, out=gain)
    gain += 0.5 * a
    gain += 0.5 * d - state.bound
    return gain


def _candidates(w: Floats, f: Floats, c: Constraint) -> tuple[Indices, Indices]:
    """Select variables that may leave and enter, up to a number of pairs."""
    leave = np.flatnonzero(w)
    enter = np.flatnonzero(c.allowed & (w == 0))
    if leave.size * enter.size > MAX_SWAP_ENTRIES:
        few = max(256, MAX_SWAP_ENTRIES // enter.size)
        leave = leave[np.argsort(np.abs(w[leave]))[:few]]
    if leave.size * enter.size > MAX_SWAP_ENTRIES:
        few = MAX_SWAP_ENTRIES // leave.size
        gain = selection_score(f[None, :], c)[0][enter]
        enter = enter[np.argsort(-gain)[:few]]
    return leave, enter


def _largest_gains(gain: Floats, count: int, least: float = -math.inf) -> Indices:
    """Return flat positions of the gains above ``least``, largest first."""
    flat = gain.ravel()
    count = min(count, flat.size)
    top = np.argpartition(-flat, count - 1)[:count]
    top = top[np.argsort(-flat[top], kind="stable")]
    return top[flat[top] > least]


def _first_improving_swap(
    quadratic: Quadratic, state: Support, leave: Indices, enter: Indices, c: Constraint
) -> Support:
    """Return the first swap that improves the objective, or ``state``."""
    for i, j in zip(leave, enter, strict=True):
        target = state.w.copy()
        target[i] = 0.0
        target[j] = 0.5 * np.max(np.abs(state.w))
        swapped = optimal_loadings(quadratic, target / np.linalg.norm(target), c)
        if swapped.bound > state.bound * (1.0 + MIN_RELATIVE_INCREASE):
            return swapped
    return state
