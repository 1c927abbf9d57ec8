"""Best-first branch and bound for the optimal set of K variables.

A node specifies the variables that are in the optimal set S (``pinned``) and those that may be in S
(the rest of ``variables``). Its bound is that of `relaxation`, with the multipliers of its parent.
At each node,

1. variables that cannot be in an S better than the incumbent are excluded, and those in every such
   S are pinned (`relaxation.children`), repeatedly;
2. the multipliers are improved while the gap decreases quickly;
3. otherwise the node is branched: either one variable is in S, or this variable and all variables
  exchangeable with it (`symmetry`) are not.

The node with the largest bound is processed first. If the search is stopped, the largest bound of
the open nodes is valid. With a time limit of zero, only the first node is processed, with the
multipliers in closed form.

All bounds include rounding errors (`relaxation.rounding`). A node is closed if its bound is at most
1 + `RESOLUTION` times the incumbent: sets with closer values count as equal.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable
from functools import partial
from itertools import count
from typing import NamedTuple, Protocol, TypeVar

import numpy as np

from ....inference.loop import iterate
from ....inference.progress import Progress
from ..exchange import best_swap, make_polish_step
from ..model import Support
from ..nonnegative import optimal_loadings
from ..quadratic import Floats, Gram, Indices, Mask, largest_eigenvalue
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
# L-BFGS: iterations per round, maximum number of rounds per node, and maximum ratio of the gaps
# after and before a round for another round.
N_ITERATIONS = 40
MAX_IMPROVEMENTS = 3
MAX_GAP_RATIO = 0.6
# Smoothing relative to the gap, its maximum, and the gap below which nodes are branched.
SMOOTHING = 0.3
MAX_SMOOTHING = 0.02
MIN_GAP = 1e-6
# Maximum number of variables whose multipliers are optimised, and of the size of eigenproblems.
MAX_MULTIPLIERS = 400
# Proportion of newly fixed variables above which the closed-form bounds are computed again.
MIN_FIXED_PROPORTION = 0.1
# Wide matrices: sets evaluated before the search, sets improved, and swaps in each.
N_NEIGHBOURHOODS = 400
N_POLISHED = 12
MAX_SWAPS = 100


class Certificate(NamedTuple):
    """Component with an upper bound on its objective."""

    w: Floats  # (p,) best component found
    value: float  # w'Cw of the component
    upper_bound: float  # upper bound of w'Cw
    n_nodes: int  # number of nodes
    resolution: float = RESOLUTION  # relative difference of equal values

    @property
    def gap(self) -> float:
        """1 - value / upper bound; 0 if they differ by at most the resolution."""
        if self.upper_bound <= self.value * (1.0 + self.resolution):
            return 0.0
        return 1.0 - self.value / self.upper_bound


class Node(NamedTuple):
    """Family of sets S that share the pinned variables."""

    bound: float
    variables: Indices  # (m,) variables that may be in S
    pinned: Mask  # (m,) variables that are in S
    at: Multipliers | None  # multipliers of the variables ``of``, a superset of ``variables``
    of: Indices


class BoundedNode(Protocol):
    """Node of any search, with an upper bound on its solutions."""

    @property
    def bound(self) -> float: ...


N = TypeVar("N", bound=BoundedNode)


class SearchProblem(NamedTuple):
    """Problem with C scaled so that the initial component has value 1."""

    C: Floats  # (p, p)
    K: int
    nonnegative: bool
    classes: Indices  # (p,) classes of `exchangeable` variables
    gap: float  # relative gap at which the search stops
    clock: Clock


class Best:
    """Value of the best solution, and the largest bound of closed nodes."""

    def __init__(self, value: float, gap: float):
        self.value, self.gap = value, gap
        self.closed = -np.inf

    @property
    def target(self) -> float:
        """Bound at which a node is closed."""
        return self.value / (1.0 - max(self.gap, RESOLUTION))

    def close(self, bounds: float | Floats) -> None:
        """Record the bounds of closed nodes."""
        self.closed = max(self.closed, float(np.max(bounds, initial=-np.inf)))


class Incumbent(Best):
    """Best component found so far, with its support."""

    def __init__(self, search: SearchProblem, w: Floats, value: float):
        super().__init__(value, search.gap)
        self.search, self.w = search, w
        self.form = Gram(search.C)
        allowed = np.ones(self.form.width, dtype=bool)
        self.constraint = Constraint(search.K, search.nonnegative, allowed)

    def offer(self, S: Indices) -> None:
        """Evaluate a set of variables; improve by swaps if it is the best so far."""
        found = self.evaluate(S)
        if found.bound > self.value * (1.0 + 16.0 * EPS):
            found = self.polish(found)
            self.w, self.value = found.w, found.bound

    def evaluate(self, S: Indices) -> Support:
        """Return the optimal loadings on a set of variables."""
        start = embed(np.full(S.size, S.size**-0.5), S, self.form.width)
        return optimal_loadings(self.form, start, self.constraint)

    def polish(self, start: Support) -> Support:
        """Swap variables while the value increases."""
        step = make_polish_step(self.form, self.constraint, best_swap, {})
        begun = Support(start.w, start.bound)
        return iterate(step, begun, max_iter=MAX_SWAPS, tol=0.0).state

    def offer_neighbours(self) -> None:
        """Evaluate sets built around single variables, largest rows of C first.

        With thousands of variables, a search from a few starts can miss the optimum by several per
        cent. Better bounds cannot close a gap due to a poor incumbent.
        """
        C, K = self.search.C, self.search.K
        sizes = np.maximum(C, 0.0) if self.search.nonnegative else np.abs(C)
        nearest = np.argpartition(-sizes, K - 1, axis=1)[:, :K]
        norms = np.take_along_axis(np.square(sizes), nearest, axis=1).sum(axis=1)
        sets = nearest[np.argsort(-norms, kind="stable")[:N_NEIGHBOURHOODS]]
        blocks = C[sets[:, :, None], sets[:, None, :]]
        order = np.argsort(-np.linalg.eigvalsh(blocks)[:, -1], kind="stable")
        for k in order[:N_POLISHED]:
            found = self.polish(self.evaluate(np.sort(sets[k])))
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
    """Certify a component with at most K nonzeros and w'Cw > 0, or improve it."""
    scale = float(w @ C @ w)
    K = min(K, C.shape[0])
    classes = exchangeable(C, nonnegative)
    search = SearchProblem(C / scale, K, nonnegative, classes, gap, clock or Clock())
    best = Incumbent(search, w, 1.0)
    best.offer(np.flatnonzero(w))
    if C.shape[0] > max(MAX_MULTIPLIERS, K) and not search.clock.expired():
        best.offer_neighbours()
    everything = np.arange(C.shape[0])
    nothing = np.zeros(everything.size, dtype=bool)
    first = Node(outer_bound(search), everything, nothing, None, everything)
    ceiling, n_nodes = explore(
        best, first, partial(process_node, search, best), search.clock, progress
    )
    ceiling = max(best.value, min(ceiling, first.bound))
    found = best.w
    value = float(found @ C @ found)
    return Certificate(found, value, max(value, scale * ceiling), n_nodes)


def outer_bound(search: SearchProblem) -> float:
    """Compute the smallest closed-form bound: norm, discs, eigenvalue, trace."""
    C, K = search.C, search.K
    p, norm = C.shape[0], float(np.linalg.norm(C))
    room = 32.0 * p * EPS * norm
    bounds = [gershgorin_bound(C, K, search.nonnegative) + room]
    if p > K:
        problem = Problem(C, np.zeros(p, dtype=bool), K, search.nonnegative)
        bounds.append(prove(problem, from_row_norms(problem)).bound)
    if p <= MAX_MULTIPLIERS or p == K:
        values = np.linalg.eigvalsh(C)
        # The largest eigenvalue of a block is its trace minus the others, bounded from below.
        trace = float(np.sort(np.diagonal(C))[p - K :].sum())
        others = (K - 1) * min(float(values[0]) - room, 0.0)
        bounds += [float(values[-1]) + room, trace - others + room]
    else:
        bounds.append(largest_eigenvalue(C) + room)
    return min(bounds)


def gershgorin_bound(C: Floats, K: int, nonnegative: bool) -> float:
    """Return the maximum of C_ii plus the K - 1 largest ``|C_ij|``."""
    off = np.maximum(C, 0.0) if nonnegative else np.abs(C)
    np.fill_diagonal(off, 0.0)
    p = C.shape[0]
    largest = np.partition(off, p - K + 1, axis=1)[:, p - K + 1 :] if K > 1 else off[:, :0]
    return float(np.max(np.diagonal(C) + largest.sum(axis=1)))


def explore(
    best: Best,
    first: N,
    process: Callable[[N], list[N]],
    clock: Clock,
    progress: Progress | None = None,
) -> tuple[float, int]:
    """Search best first; return the largest bound and the number of nodes.

    ``process`` returns the open nodes that replace a node.
    """
    ticket = count()  # breaks ties, because nodes are not comparable
    heap = [(-first.bound, next(ticket), first)]
    n_nodes = 0
    while heap:
        node = heap[0][2]
        if node.bound <= best.target:
            heapq.heappop(heap)
            best.close(node.bound)
            continue
        if n_nodes and clock.expired():
            break
        try:
            parts = process(node)
        except KeyboardInterrupt:
            clock.interrupt()
            break  # the node remains on the heap
        heapq.heappop(heap)
        n_nodes += 1
        for part in parts:
            heapq.heappush(heap, (-part.bound, next(ticket), part))
        if progress is not None:
            ceiling = max(best.value, best.closed, -heap[0][0] if heap else -np.inf)
            progress.advance(1.0 - best.value / ceiling)
    return max(best.value, best.closed, -heap[0][0] if heap else -np.inf), n_nodes


def process_node(search: SearchProblem, best: Incumbent, node: Node) -> list[Node]:
    """Replace a node by two branches or none; keep it if the time is up."""
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
        left = proof.bound / best.value - 1.0  # relative gap
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
    """Find the best multipliers and the smallest bounds of `children`.

    If ``many`` variables were fixed, two closed-form multipliers are also compared.
    """
    tried = [] if at is None else [at]
    if many:
        tried.append(from_row_norms(problem))
        if problem.C.shape[0] <= MAX_MULTIPLIERS:
            tried.append(from_leading_vector(problem))
    proofs = [prove(problem, trial) for trial in tried]
    child_bounds = [children(problem, proof) for proof in proofs]
    best = int(np.argmin([proof.bound for proof in proofs]))
    inside = np.min([child[1] for child in child_bounds], axis=0)
    outside = np.min([child[2] for child in child_bounds], axis=0)
    return tried[best], proofs[best], child_bounds[0][0], inside, outside


def promising_set(variables: Indices, problem: Problem, proof: Proof) -> Indices:
    """Return the set of variables with the largest row sums."""
    ranks = np.where(problem.pinned, np.inf, proof.s)
    K = problem.slots + int(problem.pinned.sum())
    S: Indices = np.sort(variables[np.argsort(-ranks, kind="stable")[:K]])
    return S


def branch(
    search: SearchProblem, node: Node, free: Indices, inside: Floats, outside: Floats
) -> list[Node]:
    """Branch on the variable for which both bounds decrease most.

    The first variable of its exchangeable class is used; exclusion applies to the whole class.
    """
    floor = 1e-12 * node.bound
    lost_in = np.maximum(node.bound - inside, floor)
    lost_out = np.maximum(node.bound - outside, floor)
    variable = free[np.argmax(lost_in * lost_out)]
    classes = search.classes[node.variables]
    equivalent = np.flatnonzero((classes == classes[variable]) & ~node.pinned)
    position = int(np.searchsorted(free, equivalent[0]))
    pinned = node.pinned.copy()
    pinned[equivalent[0]] = True
    kept = np.ones(node.variables.size, dtype=bool)
    kept[equivalent] = False
    with_it = node._replace(bound=min(node.bound, float(inside[position])), pinned=pinned)
    without = node._replace(
        bound=min(node.bound, float(outside[position])),
        variables=node.variables[kept],
        pinned=node.pinned[kept],
    )
    return [with_it, without]


def leaf(search: SearchProblem, best: Incumbent, S: Indices) -> None:
    """Evaluate the optimal component on exactly these variables.

    With w >= 0, the optimum is the leading eigenvector of the block of its nonzeros. If the
    eigenvector for S has both signs, some variable of S has no loading, and each variable is
    removed in turn. If the time is up, the largest eigenvalue bounds the remaining subsets.
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
    stack: list[tuple[Indices, int]] = [
        (S, 0)
    ]  # a set, and the number of leading variables to retain
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


def pinned_bound(search: SearchProblem, best: Incumbent, S: Indices) -> float:
    """Compute the bound for w >= 0 on exactly these variables."""
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
    """Bound the largest eigenvalue; check if the eigenvector has one sign."""
    block = C[np.ix_(S, S)]
    values, vectors = np.linalg.eigh(block)
    room = 16.0 * S.size * EPS * float(np.linalg.norm(block))
    v = vectors[:, -1]
    return float(values[-1]) + room, bool(np.all(v >= 0) or np.all(v <= 0))
