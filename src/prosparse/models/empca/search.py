"""The search for one component: starts, EM, and stages of improvement.

[SB08] and [YZ13] as in `engine.support`, whose steps these stages run through the loop.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import numpy as np

from ...inference.loop import StopReason, iterate
from ...inference.progress import Progress
from ...numerics.quadratic import Quadratic
from .angle import feasible, make_angle_step
from .support import (
    Constraint,
    Exchange,
    Support,
    begin,
    best_swap,
    exact_swaps,
    make_em_step,
    make_polish_step,
    no_worse,
    renormalised,
    rough_swaps,
    seeds,
)

Array = np.ndarray

# Up to this K p the best of all exchanges is made, then the next; beyond, many together.
CHEAP_SWAPS = 10_000
# All supports found are pursued while K p is below this, else the best few: so many without
# exchanges, so many with rough ones, so many with exact ones.
COSTLY_SWAPS = 100_000
FEW = (6, 3, 1)
# EM stops at this relative rise when exact weights and better supports follow.
ROUGH = 1e-3
# A step at an angle solves two small problems: only the best starts are pursued.
ANGLE_STARTS = 4


class Search(NamedTuple):
    """How to look for a component, and how long."""

    rng: Any
    n_restarts: int
    renormalize: bool
    max_iter: int
    tol: float  # relative rise of w'Cw below which an iteration counts as the last
    verbose: int


class Found(NamedTuple):
    w: Array  # (p,) unit vector
    value: float  # w'Cw, C deflated
    trace: list[float]  # w'Cw per iteration of the start that won
    reason: StopReason


class Climb(NamedTuple):
    """A start on its way up."""

    state: Support
    trace: list[float]
    reason: StopReason


def find_component(
    quadratic: Quadratic, c: Constraint, search: Search, warm: Iterable[Array] = ()
) -> Found | None:
    """The best component found, or None if none has any variance.

    ``warm`` are components found under a similar constraint (a neighbouring K): their images
    Cw say which variables to add or to leave out.
    """
    allowed = np.flatnonzero(c.allowed)
    value, v = quadratic.leading(allowed)
    first = np.zeros(quadratic.width)
    first[allowed] = v
    if allowed.size == c.K and not c.nonnegative:  # plain PCA
        return Found(first, value, [value], StopReason.CONVERGED)
    W = first_starts(quadratic, c, search, first, warm)
    begun = begin(quadratic, W, c)
    if begun.W.shape[0] == 0:
        return None
    run = iterate(
        make_em_step(quadratic, c),
        begun,
        max_iter=search.max_iter,
        tol=(ROUGH if search.renormalize else search.tol) * begun.bound,
        progress=Progress(search.max_iter, "EMPCA", search.verbose),
    )
    traces = np.array(run.state.trace)  # (iterations, starts)
    best = int(np.argmax(run.state.values))
    if not search.renormalize:
        found = run.state.W[best], float(run.state.values[best])
        return Found(*found, list(traces[:, best]), run.reason)
    return polished(quadratic, c, search, run.state.W, traces, run.reason)


def first_starts(
    quadratic: Quadratic, c: Constraint, search: Search, first: Array, warm: Iterable[Array]
) -> Array:
    """The first principal component, relatives, random vectors, and single variables.

    The sign of a principal component is arbitrary, and where no entry may be negative one of
    the two can be useless: both are starts ([SB08] section 3.2).
    """
    random = search.rng.standard_normal((search.n_restarts, first.size))
    rows = [first[None, :], np.abs(random) if c.nonnegative else random]
    if c.nonnegative:
        rows.append(-first[None, :])
    relatives = [w for w in warm if np.any(w)]
    if relatives:
        rows.append(quadratic.matmul(np.array(relatives).T).T)
    if search.n_restarts and search.renormalize:
        rows.append(seeds(quadratic, c, search.rng, search.n_restarts))
    return np.vstack(rows)


def polished(
    quadratic: Quadratic,
    c: Constraint,
    search: Search,
    W: Array,
    traces: Array,
    reason: StopReason,
) -> Found:
    """Exact weights on every support that EM found, better supports by [YZ13], then swaps."""
    runs: list[Climb] = []
    for k in _distinct(W):
        shrunken = Support(W[k], float(traces[-1, k]))
        exact = no_worse(renormalised(quadratic, W[k], c), shrunken)
        runs.append(Climb(exact, [*traces[:, k], exact.bound], reason))
    cost = c.K * quadratic.width
    few = FEW if cost > COSTLY_SWAPS else (len(runs),) * 3
    exchanges: list[Exchange | None] = [None, rough_swaps, exact_swaps]
    if cost <= CHEAP_SWAPS:
        exchanges = [None, best_swap]
    runs = _ranked(runs)
    for exchange, count in zip(exchanges, few, strict=False):
        tol = search.tol if exchange is None else 0.0
        runs = _climbed(runs[:count], make_polish_step(quadratic, c, exchange), search, tol)
    best = runs[0]
    return Found(best.state.w, best.state.bound, best.trace, best.reason)


def _climbed(
    runs: list[Climb], step: Callable[[Support], Support], search: Search, tol: float
) -> list[Climb]:
    """Every run continued with ``step``, the best first."""
    longer = []
    for run in runs:
        more = iterate(step, run.state, max_iter=search.max_iter, tol=tol * run.state.bound)
        reason = run.reason if more.reason is StopReason.CONVERGED else more.reason
        longer.append(Climb(more.state, run.trace + more.bounds, reason))
    return _ranked(longer)


def _ranked(runs: list[Climb]) -> list[Climb]:
    """The best first, one for every support."""
    runs = sorted(runs, key=lambda run: -run.state.bound)
    return [runs[k] for k in _distinct(np.array([run.state.w for run in runs]))]


def find_at_angle(
    quadratic: Quadratic,
    c: Constraint,
    search: Search,
    V: Array,
    cosine: float,
    warm: Iterable[Array] = (),
) -> Found | None:
    """The best component found that keeps its angle from the earlier ones, columns of V.

    Starts: the best component on variables not used yet (it is feasible), those of the forms
    with and without deflation, and random vectors.
    """
    if V.shape[1] == 0:
        return find_component(quadratic, c, search, warm)
    unused = c.allowed & ~np.any(V != 0, axis=1)
    deflated = quadratic
    for v in V.T:
        deflated = deflated.deflated(v)
    S = np.flatnonzero(c.allowed)
    first = np.zeros(V.shape[0])
    first[S] = deflated.leading(S)[1]
    rows = [first, -first, *(w for w in warm if np.any(w))]
    rows += list(search.rng.standard_normal((search.n_restarts, V.shape[0])))
    starts = [feasible(quadratic, f, V, c, cosine) for f in [first, -first]]
    starts += [feasible(quadratic, f, V, c, cosine) for f in quadratic.matmul(np.array(rows).T).T]
    if np.any(unused):
        K = min(c.K, int(unused.sum()))
        alone = find_component(quadratic, Constraint(K, c.nonnegative, unused), search)
        starts += [Support(alone.w, alone.value)] if alone else []
    step = make_angle_step(quadratic, V, c, cosine)
    best: Found | None = None
    feasible_ones = [start for start in starts if start is not None and start.bound > 0.0]
    for start in sorted(feasible_ones, key=lambda s: -s.bound)[:ANGLE_STARTS]:
        tol = search.tol * start.bound
        run = iterate(step, start, max_iter=search.max_iter, tol=tol)
        if best is None or run.state.bound > best.value:
            best = Found(run.state.w, run.state.bound, [start.bound, *run.bounds], run.reason)
    return best


def _distinct(W: Array) -> list[int]:
    """Positions of the rows of W, the first of every support."""
    seen: dict[bytes, int] = {}
    for k, row in enumerate(W):
        seen.setdefault((row != 0).tobytes(), k)
    return list(seen.values())
