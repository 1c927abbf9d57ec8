"""The best K variables, with a proof: best-first branch and bound.

A node says which variables are in the best set S (``pinned``) and which can still be (the rest of
``variables``). Its bound is that of `relaxation`, whose multipliers it has from its
parent. At every node

1. variables that cannot be in an S better than the best one known are left out, and those without
   which there is none are pinned (`relaxation.children`), again and again;
2. the multipliers are improved, while that closes the gap quickly;
3. else the node is divided: one variable in S, or out of it, and with it all for which it could
   be exchanged (`symmetry`).

The node with the largest bound comes first, so that the bound of the whole falls as fast as it
can. Whatever ends the search (time, the user), the largest bound of what is left holds.

Rounding: every bound has room for it (`relaxation.rounding`). A node is closed when its bound is
at most 1 + `RESOLUTION` times the best value known: sets whose values are closer than that count
as equally good.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from itertools import count
from typing import NamedTuple

import numpy as np

from ....inference.loop import iterate
from ....inference.progress import Progress
from ..exchange import best_swap, make_polish_step
from ..model import Support
from ..nonnegative import optimal_loadings
from ..quadratic import Floats, Gram, Indices, Mask
from ..thresholds import Constraint, embed
from .clock import Clock
from .relaxation import (
    EPS,
    Multipliers,
    Problem,
    Proof,
    children,
    from_leading_vector,
    from_row_norms,
    improve,
    improve_some,
    prove,
    restrict,
)
from .symmetry import exchangeable

RESOLUTION = 1e-9
# L-BFGS: iterations at a time, how often at a node, and how much of the gap must go each time.
N_ITERATIONS = 40
MAX_IMPROVEMENTS = 3
MAX_GAP_RATIO = 0.6
# The smoothing, as a share of the gap, and at most; below the least gap only branching helps.
SMOOTHING = 0.3
MAX_SMOOTHING = 0.02
MIN_GAP = 1e-6
# So many variables at most have multipliers of their own; and what is an eigenproblem of all.
MAX_MULTIPLIERS = 400
# The bound by row norms is looked at again when so many of the variables were settled.
MIN_FIXED_PROPORTION = 0.1
# Of wide matrices, sets that are tried before the search, and exchanges of variables in each.
N_NEIGHBOURHOODS = 400
N_POLISHED = 12
MAX_SWAPS = 100


class Certificate(NamedTuple):
    """A component and what is proved of it."""

    w: Floats  # (p,) the best one found
    value: float  # its w'Cw
    upper_bound: float  # no component has more
    n_nodes: int  # how many were looked at
    resolution: float = RESOLUTION  # values closer than this share count as equal

    @property
    def gap(self) -> float:
        """1 - value / upper bound; 0 where they differ by no more than the resolution."""
        if self.upper_bound <= self.value * (1.0 + self.resolution):
            return 0.0
        return 1.0 - self.value / self.upper_bound


class Node(NamedTuple):
    """A part of all sets S."""

    bound: float
    variables: Indices  # (m,) those that can be in S
    pinned: Mask  # (m,) those that are
    at: Multipliers | None  # for the variables ``of``, which include ``variables``
    of: Indices


class SearchProblem(NamedTuple):
    """What is looked for: K of the variables of C, scaled so that a good component has 1."""

    C: Floats  # (p, p)
    K: int
    nonnegative: bool
    kinds: Indices  # (p,) see `exchangeable`
    gap: float  # the search may stop at this one
    clock: Clock


class Best:
    """The best component so far, and the largest bound of what was closed."""

    def __init__(self, search: SearchProblem, w: Floats, value: float):
        self.search, self.w, self.value = search, w, value
        self.closed = -np.inf

    @property
    def target(self) -> float:
        """What need not be looked at further."""
        return self.value / (1.0 - max(self.search.gap, RESOLUTION))

    def close(self, bounds: float | Floats) -> None:
        """What has at most these bounds is not looked at further."""
        self.closed = max(self.closed, float(np.max(bounds, initial=-np.inf)))

    def offer(self, S: Indices) -> None:
        """A set of variables; if it is the best so far, others near by are tried too."""
        search = self.search
        form = Gram(search.C)
        allowed = np.ones(form.width, dtype=bool)
        c = Constraint(min(search.K, form.width), search.nonnegative, allowed)
        start = embed(np.full(S.size, S.size**-0.5), S, form.width)
        found = optimal_loadings(form, start, c)
        if found.bound <= self.value * (1.0 + 16.0 * EPS):
            return
        found = self.polish(found)
        self.w, self.value = found.w, found.bound

    def polish(self, start: Support) -> Support:
        """Variables exchanged while that raises the value."""
        form, search = Gram(self.search.C), self.search
        allowed = np.ones(form.width, dtype=bool)
        c = Constraint(min(search.K, form.width), search.nonnegative, allowed)
        step = make_polish_step(form, c, best_swap, {})
        begun = Support(start.w, start.bound)
        return iterate(step, begun, max_iter=MAX_SWAPS, tol=0.0).state

    def offer_neighbours(self) -> None:
        """Sets around single variables, those with the largest row of C first.

        Among thousands of variables a search from a few starts can miss the best set by some per
        cent, and no bound closes a gap that is the component's own fault.
        """
        search = self.search
        C, K = search.C, search.K
        sizes = np.maximum(C, 0.0) if search.nonnegative else np.abs(C)
        nearest = np.argpartition(-sizes, K - 1, axis=1)[:, :K]
        norms = np.take_along_axis(np.square(sizes), nearest, axis=1).sum(axis=1)
        sets = nearest[np.argsort(-norms, kind="stable")[:N_NEIGHBOURHOODS]]
        blocks = C[sets[:, :, None], sets[:, None, :]]
        order = np.argsort(-np.linalg.eigvalsh(blocks)[:, -1], kind="stable")
        form = Gram(C)
        c = Constraint(K, search.nonnegative, np.ones(form.width, dtype=bool))
        for place in order[:N_POLISHED]:
            S = np.sort(sets[place])
            start = embed(np.full(K, K**-0.5), S, form.width)
            found = self.polish(optimal_loadings(form, start, c))
            if found.bound > self.value * (1.0 + 16.0 * EPS):
                self.w, self.value = found.w, found.bound


def certify(
    C: Floats,
    w: Floats,
    K: int,
    *,
    nonnegative: bool = False,
    gap: float = 0.0,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> Certificate:
    """Prove that no K variables have more than those of ``w``, or find some that have.

    Parameters
    ----------
    C : array (p, p)
        Symmetric; negative eigenvalues do no harm.
    w : array (p,)
        A component with at most K nonzeros and w'Cw > 0 to start from.
    K : int
        The most nonzeros of a component.
    nonnegative : bool, default=False
        Whether components have no negative entry.
    gap : float, default=0.0
        The search ends when 1 - value / bound is at most this.
    clock : Clock or None
        Asked often whether the time is up.
    progress : Progress or None
        Told the gap after every node.

    Returns
    -------
    Certificate
    """
    scale = float(w @ C @ w)
    K = min(K, C.shape[0])
    kinds = exchangeable(C, nonnegative)
    search = SearchProblem(C / scale, K, nonnegative, kinds, gap, clock or Clock())
    best = Best(search, w, 1.0)
    best.offer(np.flatnonzero(w))
    if C.shape[0] > max(MAX_MULTIPLIERS, K):
        best.offer_neighbours()
    everything = np.arange(C.shape[0])
    nothing = np.zeros(everything.size, dtype=bool)
    first = Node(outer_bound(search), everything, nothing, None, everything)
    open_nodes, n_nodes = explore(search, best, [first], progress)
    ceiling = max(best.value, best.closed, max((node.bound for node in open_nodes), default=0.0))
    ceiling = max(best.value, min(ceiling, first.bound))
    found = best.w
    value = float(found @ C @ found)
    return Certificate(found, value, max(value, scale * ceiling), n_nodes)


def outer_bound(search: SearchProblem) -> float:
    """What holds before anything is looked at: the Frobenius norm or the trace of a block, the
    largest eigenvalue of C."""
    C, K = search.C, search.K
    p, norm = C.shape[0], float(np.linalg.norm(C))
    room = 32.0 * p * EPS * norm
    bounds = []
    if p > K:
        problem = Problem(C, np.zeros(p, dtype=bool), K, search.nonnegative)
        bounds.append(prove(problem, from_row_norms(problem)).bound)
    if p <= MAX_MULTIPLIERS or p == K:
        values = np.linalg.eigvalsh(C)
        # the largest eigenvalue of a block is its trace without the others, each at least the least
        trace = float(np.sort(np.diagonal(C))[p - K :].sum())
        others = (K - 1) * min(float(values[0]) - room, 0.0)
        bounds += [float(values[-1]) + room, trace - others + room]
    return min(bounds)


def explore(
    search: SearchProblem, best: Best, first: Iterable[Node], progress: Progress | None = None
) -> tuple[list[Node], int]:
    """Nodes left open when the search ended, and how many were looked at."""
    ticket = count()  # breaks ties: nodes themselves cannot be compared
    heap = [(-node.bound, next(ticket), node) for node in first]
    heapq.heapify(heap)
    n_nodes = 0
    while heap:
        node = heap[0][2]
        if node.bound <= best.target:
            heapq.heappop(heap)
            best.close(node.bound)
            continue
        if search.clock.expired():
            break
        try:
            parts = process_node(search, best, node)
        except KeyboardInterrupt:
            search.clock.interrupt()
            break  # the node is still on the heap, with its bound
        heapq.heappop(heap)
        n_nodes += 1
        for part in parts:
            heapq.heappush(heap, (-part.bound, next(ticket), part))
        if progress is not None:
            ceiling = max(best.value, best.closed, -heap[0][0] if heap else -np.inf)
            progress.advance(1.0 - best.value / ceiling)
    return [entry[2] for entry in heap], n_nodes


def process_node(search: SearchProblem, best: Best, node: Node) -> list[Node]:
    """What is left to be looked at of a node: nothing, two parts, or, out of time, itself."""
    bound, variables, pinned, at = node.bound, node.variables, node.pinned, node.at
    if at is not None and node.of.size > variables.size:
        at = restrict(at, np.isin(node.of, variables, assume_unique=True))
    tries, before, many, over = 0, np.inf, True, search.clock.expired
    while True:
        slots = search.K - int(pinned.sum())
        if slots < 0 or variables.size < search.K:
            return []
        if slots == 0 or variables.size == search.K:
            leaf(search, best, variables[pinned] if slots == 0 else variables)
            return []
        problem = Problem(search.C[np.ix_(variables, variables)], pinned, slots, search.nonnegative)
        at, proof, free, inside, outside = evaluate_multipliers(problem, at, many)
        bound = min(bound, proof.bound)
        best.offer(promising_set(variables, problem, proof))
        either = np.minimum(bound, np.maximum(inside, outside).min())
        if either <= best.target:
            best.close(either)
            return []
        out, needed = inside <= best.target, outside <= best.target
        if np.any(out) or np.any(needed):
            best.close(inside[out])
            best.close(outside[needed])
            pinned = pinned.copy()
            pinned[free[needed]] = True
            kept = np.ones(variables.size, dtype=bool)
            kept[free[out]] = False
            many = out.sum() + needed.sum() > MIN_FIXED_PROPORTION * variables.size
            tries = 0 if many else tries
            variables, pinned, at = variables[kept], pinned[kept], restrict(at, kept)
            continue
        many = False
        left = proof.bound / best.value - 1.0  # what the multipliers can still gain
        if tries == MAX_IMPROVEMENTS or (tries and left > MAX_GAP_RATIO * before) or left < MIN_GAP:
            rest = Node(bound, variables, pinned, at, variables)
            return branch(search, rest, free, inside, outside)
        if search.clock.expired():
            return [Node(bound, variables, pinned, at, variables)]
        smoothing = min(SMOOTHING * left, MAX_SMOOTHING)
        if variables.size > MAX_MULTIPLIERS:
            some = np.union1d(free[np.argsort(-inside)[:MAX_MULTIPLIERS]], np.flatnonzero(pinned))
            at = improve_some(problem, at, proof, some, smoothing, N_ITERATIONS, over)
        else:
            at = improve(problem, at, smoothing, N_ITERATIONS, over)
        tries, before = tries + 1, left


def evaluate_multipliers(
    problem: Problem, at: Multipliers | None, many: bool
) -> tuple[Multipliers, Proof, Indices, Floats, Floats]:
    """The best of the multipliers at hand and, where ``many`` variables were settled, two that are
    known in closed form; and the least that any of them says of every variable (`children`)."""
    tried = [] if at is None else [at]
    if many:
        tried.append(from_row_norms(problem))
        if problem.C.shape[0] <= MAX_MULTIPLIERS:
            tried.append(from_leading_vector(problem))
    proofs = [prove(problem, one) for one in tried]
    said = [children(problem, proof) for proof in proofs]
    best = int(np.argmin([proof.bound for proof in proofs]))
    inside = np.min([one[1] for one in said], axis=0)
    outside = np.min([one[2] for one in said], axis=0)
    return tried[best], proofs[best], said[0][0], inside, outside


def promising_set(variables: Indices, problem: Problem, proof: Proof) -> Indices:
    """The set with the largest row sums."""
    ranks = np.where(problem.pinned, np.inf, proof.s)
    K = problem.slots + int(problem.pinned.sum())
    S: Indices = np.sort(variables[np.argsort(-ranks, kind="stable")[:K]])
    return S


def branch(
    search: SearchProblem, node: Node, free: Indices, inside: Floats, outside: Floats
) -> list[Node]:
    """A variable in S, or out of it: the one for which both parts lose most.

    Of variables that can be exchanged for each other the first is taken; if it is out, all are.
    """
    floor = 1e-12 * node.bound
    lost_in = np.maximum(node.bound - inside, floor)
    lost_out = np.maximum(node.bound - outside, floor)
    chosen = free[np.argmax(lost_in * lost_out)]
    kinds = search.kinds[node.variables]
    alike = np.flatnonzero((kinds == kinds[chosen]) & ~node.pinned)
    place = int(np.searchsorted(free, alike[0]))
    pinned = node.pinned.copy()
    pinned[alike[0]] = True
    kept = np.ones(node.variables.size, dtype=bool)
    kept[alike] = False
    with_it = node._replace(bound=min(node.bound, float(inside[place])), pinned=pinned)
    without = node._replace(
        bound=min(node.bound, float(outside[place])),
        variables=node.variables[kept],
        pinned=node.pinned[kept],
    )
    return [with_it, without]


def leaf(search: SearchProblem, best: Best, S: Indices) -> None:
    """The best component on exactly these variables.

    With w >= 0 the best one is the leading eigenvector of the block of its own nonzeros: if that
    of S has both signs, some variable of S has no weight, which each in turn can be. What time
    does not allow to look at counts with its largest eigenvalue.
    """
    best.offer(S)
    value, one_sign = block_bound(search.C, S)
    if not search.nonnegative or one_sign or value <= best.target:
        best.close(value)
        return
    value = min(value, pinned_bound(search, best, S))
    if value <= best.target:
        best.close(value)
        return
    stack: list[tuple[Indices, int]] = [(S, 0)]  # a set, and how many of its first must stay
    while stack:
        T, fixed = stack.pop()
        own, one_sign = block_bound(search.C, T)
        if own <= best.target or search.clock.expired():
            best.close(min(own, value))
        elif one_sign:
            best.offer(T)
            best.close(own)
        else:
            stack += [(np.delete(T, i), i) for i in range(fixed, T.size) if T.size > 1]


def pinned_bound(search: SearchProblem, best: Best, S: Indices) -> float:
    """The bound for w >= 0 on exactly these variables, by improved multipliers."""
    problem = Problem(search.C[np.ix_(S, S)], np.ones(S.size, dtype=bool), 0, True)
    at = from_row_norms(problem)
    bound, before = prove(problem, at).bound, np.inf
    while bound > best.target and not search.clock.expired():
        left = bound / best.value - 1.0
        if left > 0.9 * before or left < MIN_GAP:
            break
        smoothing = min(SMOOTHING * left, MAX_SMOOTHING)
        at = improve(problem, at, smoothing, N_ITERATIONS, search.clock.expired)
        before, bound = left, min(bound, prove(problem, at).bound)
    return bound


def block_bound(C: Floats, S: Indices) -> tuple[float, bool]:
    """The largest eigenvalue of a block, rounding included, and whether its vector has one sign."""
    block = C[np.ix_(S, S)]
    values, vectors = np.linalg.eigh(block)
    room = 16.0 * S.size * EPS * float(np.linalg.norm(block))
    v = vectors[:, -1]
    return float(values[-1]) + room, bool(np.all(v >= 0) or np.all(v <= 0))
