"""The search for one component: starts, EM, and stages of improvement.

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.
[YZ13]  X.-T. Yuan, T. Zhang. Truncated power method for sparse eigenvalue problems.
        JMLR 14, 2013.

EM (`model`) climbs from many starts at once. The supports on which it ends are given the best
weights (`nonnegative`) and improved in stages (`exchange`); fewer and fewer of them are pursued,
as the stages become more expensive. All loops are run by `inference.loop.iterate`; a component's
reason is the worst among those of the loops that led to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...inference.loop import StopReason, iterate, worst
from ...inference.progress import Progress
from ...parallel import in_processes
from .angle import feasible, make_angle_step
from .exchange import Exchange, best_swap, exact_swaps, make_polish_step, rough_swaps
from .model import State, Support, init, make_step
from .nonnegative import best_weights, no_worse
from .quadratic import Floats, Quadratic
from .thresholds import Constraint, renormalised, spread_weights, threshold

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


class Effort(NamedTuple):
    """How to look for a component, and how long."""

    n_restarts: int  # random starts, and as many at single variables
    renormalize: bool  # False: EM alone
    max_iter: int  # of each stage
    tol: float  # relative rise of w'Cw below which an iteration counts as the last
    verbose: int
    n_jobs: int | None = None  # climbs at a time, in processes of their own


class Climb(NamedTuple):
    """A start on its way up or, of all of them the best, a component."""

    w: Floats  # (p,) of length one
    value: float  # w'Cw
    trace: list[float]  # w'Cw per iteration
    reason: StopReason


def find_component(
    quadratic: Quadratic,
    c: Constraint,
    effort: Effort,
    rng: np.random.RandomState,
    warm: Iterable[Floats] = (),
) -> Climb | None:
    """The best component found, or None if none has any variance.

    ``warm`` are components found under a similar constraint (a neighbouring K): their images
    Cw say which variables to add or to leave out.
    """
    allowed = np.flatnonzero(c.allowed)
    value, v = quadratic.leading(allowed)
    first = spread_weights(v, allowed, quadratic.width)
    if allowed.size == c.K and not c.nonnegative:  # plain PCA
        return Climb(first, value, [value], StopReason.CONVERGED)
    W = first_starts(quadratic, c, effort, rng, first, warm)
    begun = init(quadratic, W, c)
    if begun.W.shape[0] == 0:
        return None
    run = iterate(
        make_step(quadratic, c),
        begun,
        max_iter=effort.max_iter,
        tol=(ROUGH if effort.renormalize else effort.tol) * begun.bound,
        progress=Progress(effort.max_iter, "EMPCA", effort.verbose),
    )
    climbs = separate(run.state, run.reason)
    if not effort.renormalize:
        return max(climbs, key=lambda climb: climb.value)
    return polished(quadratic, c, effort, climbs)


def first_starts(
    quadratic: Quadratic,
    c: Constraint,
    effort: Effort,
    rng: np.random.RandomState,
    first: Floats,
    warm: Iterable[Floats],
) -> Floats:
    """The first principal component, relatives, random vectors, and single variables, (r, p).

    The sign of a principal component is arbitrary, and where no entry may be negative one of
    the two can be useless: both are starts ([SB08] section 3.2).
    """
    random = rng.standard_normal((effort.n_restarts, first.size))
    rows = [first[None, :], np.abs(random) if c.nonnegative else random]
    if c.nonnegative:
        rows.append(-first[None, :])
    relatives = [w for w in warm if np.any(w)]
    if relatives:
        rows.append(quadratic.matmul(np.array(relatives).T).T)
    if effort.n_restarts and effort.renormalize:
        rows.append(seeds(quadratic, c, rng, effort.n_restarts))
    return np.vstack(rows)


def seeds(quadratic: Quadratic, c: Constraint, rng: np.random.RandomState, count: int) -> Floats:
    """Starts at single variables j: the K largest entries of column j of C.

    Of twenty times as many variables as wanted (all, if there are not more), those are
    returned whose supports differ and have the largest w'Cw. At small K, where variables
    form many small groups, they find what neither random vectors nor the first principal
    component do.
    """
    variables = np.flatnonzero(c.allowed)
    if variables.size > max(20 * count, 64):
        variables = rng.choice(variables, max(20 * count, 64), replace=False)
    rows = np.ascontiguousarray(quadratic.columns(variables).T)  # each is sorted in part
    W = threshold(rows, c, soft=False)
    W = W[np.argsort(-quadratic.form(W), kind="stable")]
    return W[_distinct(W)[:count]]


def separate(state: State, reason: StopReason) -> list[Climb]:
    """The starts of EM, each with its own trace."""
    traces = np.array(state.trace)  # (iterations, starts)
    return [
        Climb(w, float(value), traces[:, k].tolist(), reason)
        for k, (w, value) in enumerate(zip(state.W, state.values, strict=True))
    ]


def polished(quadratic: Quadratic, c: Constraint, effort: Effort, climbs: list[Climb]) -> Climb:
    """Exact weights on every support that EM found, better supports by [YZ13], then swaps."""
    exact = []
    for k in _distinct(np.array([climb.w for climb in climbs])):
        shrunken = Support(climbs[k].w, climbs[k].value)
        best = no_worse(best_weights(quadratic, shrunken.w, c), shrunken)
        exact.append(_continued(climbs[k], best, [best.bound], StopReason.CONVERGED))
    cost = c.K * quadratic.width
    few = FEW if cost > COSTLY_SWAPS else (len(exact),) * 3
    exchanges: list[Exchange | None] = [None, rough_swaps, exact_swaps]
    if cost <= CHEAP_SWAPS:
        exchanges = [None, best_swap]
    pursued = _ranked(exact)
    for exchange, count in zip(exchanges, few, strict=False):
        known: dict[bytes, Support] = {}
        improve = partial(_exchanged, quadratic, c, exchange, effort, known)
        pursued = pursued[:count]
        pursued = _ranked(in_processes(improve, pursued, effort.n_jobs, len(pursued)))
    found = pursued[0]
    if c.nonnegative:
        return found
    value, w = renormalised(quadratic, found.w)  # to the last digit
    exactly = no_worse(Support(w, value), Support(found.w, found.value))
    return found._replace(w=exactly.w, value=exactly.bound)


def _exchanged(
    quadratic: Quadratic,
    c: Constraint,
    exchange: Exchange | None,
    effort: Effort,
    known: dict[bytes, Support],
    climb: Climb,
) -> Climb:
    """A climb continued by better supports, or by exchanges."""
    step = make_polish_step(quadratic, c, exchange, known)
    return _climbed(step, climb, effort, effort.tol if exchange is None else 0.0)


def _turned_off(
    quadratic: Quadratic, V: Floats, c: Constraint, cosine: float, effort: Effort, climb: Climb
) -> Climb:
    """A climb continued at an angle from the columns of V."""
    return _climbed(make_angle_step(quadratic, V, c, cosine), climb, effort, effort.tol)


def _climbed(step: Callable[[Support], Support], climb: Climb, effort: Effort, tol: float) -> Climb:
    """A climb continued with ``step``, until it rises by a smaller share than ``tol``."""
    start = Support(climb.w, climb.value)
    run = iterate(step, start, max_iter=effort.max_iter, tol=tol * start.bound)
    return _continued(climb, run.state, run.bounds, run.reason)


def _continued(climb: Climb, best: Support, bounds: list[float], reason: StopReason) -> Climb:
    """A climb after a stage; its reason is the worst that the stages, and the search for the
    weights with which it stands there, ended with."""
    reason = worst([climb.reason, reason, best.reason])
    return Climb(best.w, best.bound, climb.trace + bounds, reason)


def _ranked(climbs: list[Climb]) -> list[Climb]:
    """The best first, one for every support."""
    climbs = sorted(climbs, key=lambda climb: -climb.value)
    return [climbs[k] for k in _distinct(np.array([climb.w for climb in climbs]))]


def _distinct(W: Floats) -> list[int]:
    """Positions of the rows of W, the first of every support."""
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
) -> Climb | None:
    """The best component found that keeps its angle from the earlier ones, columns of V (p, l).

    Starts: the best component on variables not used yet (it is feasible), those of the forms
    with and without deflation, and random vectors.
    """
    if V.shape[1] == 0:
        return find_component(quadratic, c, effort, rng, warm)
    deflated = quadratic
    for v in V.T:
        deflated = deflated.deflated(v)
    S = np.flatnonzero(c.allowed)
    first = spread_weights(deflated.leading(S)[1], S, quadratic.width)
    rows = [first, -first, *(w for w in warm if np.any(w))]
    rows += list(rng.standard_normal((effort.n_restarts, quadratic.width)))
    images = [first, -first, *quadratic.matmul(np.array(rows).T).T]
    feasible_ones = [feasible(quadratic, f, V, c, cosine) for f in images]
    unused = c.allowed & ~np.any(V != 0, axis=1)
    if np.any(unused):
        K = min(c.K, int(unused.sum()))
        alone = find_component(quadratic, Constraint(K, c.nonnegative, unused), effort, rng)
        if alone is not None:
            feasible_ones.append(Support(alone.w, alone.value))
    # Any feasible point will do as a start, however it was found: its own reason is of no account.
    starts = [
        Climb(start.w, start.bound, [start.bound], StopReason.CONVERGED)
        for start in feasible_ones
        if start is not None and start.bound > 0.0
    ]
    promising = sorted(starts, key=lambda start: -start.value)[:ANGLE_STARTS]
    improve = partial(_turned_off, quadratic, V, c, cosine, effort)
    climbs = in_processes(improve, promising, effort.n_jobs, len(promising))
    return max(climbs, key=lambda climb: climb.value) if climbs else None
