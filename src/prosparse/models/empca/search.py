"""Search for one component: starts, EM and improvement of the supports.

[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM (`model`) runs from many starts at once. The resulting supports receive optimal loadings
(`nonnegative`) and are improved in stages (`exchange`). Later stages are more expensive and pursue
fewer supports. `inference.loop.iterate` runs all loops; the stop reason of a component is the most
severe one of its loops.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...inference.loop import StopReason, iterate, worst
from ...inference.progress import Progress
from ...parallel import in_processes
from .angle import feasible_component, make_angle_step
from .exchange import Exchange, best_swap, exact_swaps, make_polish_step, rough_swaps
from .model import State, Support, init, make_step
from .nonnegative import keep_better, optimal_loadings
from .quadratic import Floats, Quadratic
from .thresholds import Constraint, embed, renormalise, threshold

# Maximum K p for single swaps; above this limit, many swaps are made at once.
MAX_SINGLE_SWAP_COST = 10_000
# Maximum K p for pursuing all supports. Above this limit, N_PURSUED contains the numbers of
# supports pursued without swaps, with rough swaps and with exact swaps.
MAX_FULL_SEARCH_COST = 100_000
N_PURSUED = (6, 3, 1)
# Relative increase at which EM stops if improvement stages follow.
ROUGH_TOL = 1e-3
# Number of starts with an angle constraint, whose steps are expensive.
N_ANGLE_STARTS = 4


class Effort(NamedTuple):
    """Parameters of the search for a component."""

    n_restarts: int  # random starts, and the same number of single-variable starts
    renormalize: bool  # False: EM alone
    max_iter: int  # maximum number of iterations of each stage
    tol: float  # relative increase of w'Cw at which iterations stop
    verbose: int
    n_jobs: int | None = None  # number of processes


class Optimum(NamedTuple):
    """Local optimum of the search from one start."""

    w: Floats  # (p,) unit vector
    value: float  # w'Cw
    trace: list[float]  # w'Cw after each iteration
    reason: StopReason


def find_component(
    quadratic: Quadratic,
    c: Constraint,
    effort: Effort,
    rng: np.random.RandomState,
    warm: Iterable[Floats] = (),
) -> Optimum | None:
    """Search for the best component; return None if no variance remains.

    Starts include the images Cw of ``warm`` components, for example those of a neighbouring K.
    """
    allowed = np.flatnonzero(c.allowed)
    value, v = quadratic.leading(allowed)
    first = embed(v, allowed, quadratic.width)
    if allowed.size == c.K and not c.nonnegative:  # plain PCA
        return Optimum(first, value, [value], StopReason.CONVERGED)
    W = make_starts(quadratic, c, effort, rng, first, warm)
    begun = init(quadratic, W, c)
    if begun.W.shape[0] == 0:
        return None
    run = iterate(
        make_step(quadratic, c),
        begun,
        max_iter=effort.max_iter,
        tol=(ROUGH_TOL if effort.renormalize else effort.tol) * begun.bound,
        progress=Progress(effort.max_iter, "EMPCA", effort.verbose),
    )
    optima = split_starts(run.state, run.reason)
    if not effort.renormalize:
        return max(optima, key=lambda optimum: optimum.value)
    return polish(quadratic, c, effort, optima)


def make_starts(
    quadratic: Quadratic,
    c: Constraint,
    effort: Effort,
    rng: np.random.RandomState,
    first: Floats,
    warm: Iterable[Floats],
) -> Floats:
    """Build starts (r, p): principal component, warm, random, single variables.

    The sign of a principal component is arbitrary. With w >= 0, one of the signs can be useless, so
    that both signs are used ([SB08] section 3.2).
    """
    random = rng.standard_normal((effort.n_restarts, first.size))
    rows = [first[None, :], np.abs(random) if c.nonnegative else random]
    if c.nonnegative:
        rows.append(-first[None, :])
    related = [w for w in warm if np.any(w)]
    if related:
        rows.append(quadratic.matmul(np.array(related).T).T)
    if effort.n_restarts and effort.renormalize:
        rows.append(single_variable_starts(quadratic, c, rng, effort.n_restarts))
    return np.vstack(rows)


def single_variable_starts(
    quadratic: Quadratic, c: Constraint, rng: np.random.RandomState, count: int
) -> Floats:
    """Build starts from the K largest entries of columns of C.

    If variables form many small groups, these starts find components that random vectors and the
    first principal component miss.
    """
    variables = np.flatnonzero(c.allowed)
    if variables.size > max(20 * count, 64):
        variables = rng.choice(variables, max(20 * count, 64), replace=False)
    rows = np.ascontiguousarray(
        quadratic.columns(variables).T
    )  # contiguous rows for the partial sort
    W = threshold(rows, c, soft=False)
    W = W[np.argsort(-quadratic.form(W), kind="stable")]
    return W[_distinct(W)[:count]]


def split_starts(state: State, reason: StopReason) -> list[Optimum]:
    """Return the result of EM for each start."""
    traces = np.array(state.trace)  # (iterations, starts)
    return [
        Optimum(w, float(value), traces[:, k].tolist(), reason)
        for k, (w, value) in enumerate(zip(state.W, state.values, strict=True))
    ]


def polish(quadratic: Quadratic, c: Constraint, effort: Effort, optima: list[Optimum]) -> Optimum:
    """Improve each support by optimal loadings, [YZ13] steps and swaps."""
    exact = []
    for k in _distinct(np.array([optimum.w for optimum in optima])):
        shrunken = Support(optima[k].w, optima[k].value)
        best = keep_better(optimal_loadings(quadratic, shrunken.w, c), shrunken)
        exact.append(_append_stage(optima[k], best, [best.bound], StopReason.CONVERGED))
    cost = c.K * quadratic.width
    n_pursued = N_PURSUED if cost > MAX_FULL_SEARCH_COST else (len(exact),) * 3
    exchanges: list[Exchange | None] = [None, rough_swaps, exact_swaps]
    if cost <= MAX_SINGLE_SWAP_COST:
        exchanges = [None, best_swap]
    pursued = _rank(exact)
    for exchange, count in zip(exchanges, n_pursued, strict=False):
        known: dict[bytes, Support] = {}
        improve = partial(_improve_by_swaps, quadratic, c, exchange, effort, known)
        pursued = pursued[:count]
        pursued = _rank(in_processes(improve, pursued, effort.n_jobs, len(pursued)))
    found = pursued[0]
    if c.nonnegative:
        return found
    value, w = renormalise(quadratic, found.w)  # to machine precision
    exactly = keep_better(Support(w, value), Support(found.w, found.value))
    return found._replace(w=exactly.w, value=exactly.bound)


def _improve_by_swaps(
    quadratic: Quadratic,
    c: Constraint,
    exchange: Exchange | None,
    effort: Effort,
    known: dict[bytes, Support],
    optimum: Optimum,
) -> Optimum:
    """Continue the search from an optimum by better supports, or by swaps."""
    step = make_polish_step(quadratic, c, exchange, known)
    return _continue_search(step, optimum, effort, effort.tol if exchange is None else 0.0)


def _improve_at_angle(
    quadratic: Quadratic, V: Floats, c: Constraint, cosine: float, effort: Effort, optimum: Optimum
) -> Optimum:
    """Continue the search at a minimum angle from the columns of V."""
    return _continue_search(make_angle_step(quadratic, V, c, cosine), optimum, effort, effort.tol)


def _continue_search(
    step: Callable[[Support], Support], optimum: Optimum, effort: Effort, tol: float
) -> Optimum:
    """Continue the search until the relative increase is below ``tol``."""
    start = Support(optimum.w, optimum.value)
    run = iterate(step, start, max_iter=effort.max_iter, tol=tol * start.bound)
    return _append_stage(optimum, run.state, run.bounds, run.reason)


def _append_stage(
    optimum: Optimum, best: Support, bounds: list[float], reason: StopReason
) -> Optimum:
    """Append the result of a stage, with the most severe stop reason so far."""
    reason = worst([optimum.reason, reason, best.reason])
    return Optimum(best.w, best.bound, optimum.trace + bounds, reason)


def _rank(optima: list[Optimum]) -> list[Optimum]:
    """Sort by decreasing value and remove duplicate supports."""
    optima = sorted(optima, key=lambda optimum: -optimum.value)
    return [optima[k] for k in _distinct(np.array([optimum.w for optimum in optima]))]


def _distinct(W: Floats) -> list[int]:
    """Return the positions of the rows of W with distinct supports."""
    seen: dict[bytes, int] = {}
    for k, row in enumerate(W):
        seen.setdefault((row != 0).tobytes(), k)
    return list(seen.values())


def find_at_angle(
    quadratic: Quadratic,
    c: Constraint,
    effort: Effort,
    rng: np.random.RandomState,
    V: Floats,
    cosine: float,
    warm: Iterable[Floats] = (),
) -> Optimum | None:
    """Search for the best component at a minimum angle from V (p, l).

    One start is the best component on unused variables, which is feasible. The result is None if no
    start is feasible.
    """
    if V.shape[1] == 0:
        return find_component(quadratic, c, effort, rng, warm)
    deflated = quadratic
    for v in V.T:
        deflated = deflated.deflate(v)
    S = np.flatnonzero(c.allowed)
    first = embed(deflated.leading(S)[1], S, quadratic.width)
    rows = [first, -first, *(w for w in warm if np.any(w))]
    rows += list(rng.standard_normal((effort.n_restarts, quadratic.width)))
    images = [first, -first, *quadratic.matmul(np.array(rows).T).T]
    candidates = [feasible_component(quadratic, f, V, c, cosine) for f in images]
    unused = c.allowed & ~np.any(V != 0, axis=1)
    if np.any(unused):
        K = min(c.K, int(unused.sum()))
        alone = find_component(quadratic, Constraint(K, c.nonnegative, unused), effort, rng)
        if alone is not None:
            candidates.append(Support(alone.w, alone.value))
    # The stop reason of a start is ignored, because any feasible point is a valid start.
    starts = [
        Optimum(start.w, start.bound, [start.bound], StopReason.CONVERGED)
        for start in candidates
        if start is not None and start.bound > 0.0
    ]
    promising = sorted(starts, key=lambda start: -start.value)[:N_ANGLE_STARTS]
    improve = partial(_improve_at_angle, quadratic, V, c, cosine, effort)
    optima = in_processes(improve, promising, effort.n_jobs, len(promising))
    return max(optima, key=lambda optimum: optimum.value) if optima else None
