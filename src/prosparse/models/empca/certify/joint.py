"""Several components at once: the largest sum of variances, with a proof.

d components w_c on sets S_c of K_c variables that do not meet. The bound of `relaxation`
holds for their sum with one change: unit vectors on sets that do not meet are orthonormal, so that
w_1'P w_1 + ... + w_d'P w_d is at most the sum of the d largest eigenvalues of P,

    sum_c w_c'C w_c <= lambda_1(P) + ... + lambda_d(P) + sum_c sum_{i in S_c} sum_{j in S_c} T_ij,

for any (M, alpha, N). A variable belongs to one component at most: its row counts the entries of T
within that component, and K_1 + ... + K_d rows are counted in all.

The search is that of `branching`, with labels: a variable has one of the components, is out, or is
free. Components of one size without any variable yet are the same, and only the first is tried.
"""

from __future__ import annotations

import heapq
import math
from itertools import count
from typing import NamedTuple

import numpy as np

from ....inference.progress import Progress
from ..quadratic import Floats, Gram, Indices, Mask
from ..search import Effort, find_component
from ..thresholds import Constraint, embed
from .branching import (
    MAX_GAP_RATIO,
    MAX_IMPROVEMENTS,
    MAX_SMOOTHING,
    MIN_GAP,
    N_ITERATIONS,
    RESOLUTION,
    SMOOTHING,
)
from .clock import Clock
from .relaxation import (
    EPS,
    EXCLUDED,
    SUM_SMOOTHING,
    Multipliers,
    Smoothed,
    minimise_smoothed,
    restrict,
    smoothed_top_indicator,
)

FREE = -1
# Up to so many variables the sum is bounded as a whole, by eigenproblems of this side.
MAX_JOINT_VARIABLES = 600
ROUNDS = 20  # of exchanging variables between components, at most


class Sum(NamedTuple):
    """Which components are in search. C should be of order one."""

    C: Floats  # (p, p)
    labels: Indices  # (p,) the component of a variable, or FREE
    sizes: Indices  # (d,) K of every component

    @property
    def open_slots(self) -> Indices:
        """How many variables each component still takes, (d,)."""
        labelled = self.labels[self.labels != FREE]
        open_slots: Indices = self.sizes - np.bincount(labelled, minlength=self.sizes.size)
        return open_slots

    @property
    def different(self) -> list[int]:
        """Components that differ: of those of one size without any variable, the first."""
        used = np.unique(self.labels[self.labels != FREE])
        empty = {int(size): c for c, size in reversed(list(enumerate(self.sizes))) if c not in used}
        return sorted({*used.tolist(), *empty.values()})


class SumProof(NamedTuple):
    """A bound with what it was made of."""

    bound: float
    eigenvalues: float  # the d largest, and what rounding can add
    s: Floats  # (p,) row sums


class SumCertificate(NamedTuple):
    """Components and what is proved of their sum."""

    W: Floats  # (d, p)
    value: float
    upper_bound: float
    n_nodes: int


# --- the bound


def row_choices(problem: Sum, c: int) -> tuple[Mask, Mask, Mask, Indices]:
    """For component c: the rows that can be in it, the entries that they count in any case, those
    that they cannot count, and how many others they do."""
    own, free = problem.labels == c, problem.labels == FREE
    rows = own | free if problem.open_slots[c] > 0 else own
    p = rows.size
    sure = np.tile(own, (p, 1))
    sure[np.diag_indices(p)] = True
    never = np.tile(~own & ~free, (p, 1)) & ~sure
    return rows, sure, never, problem.open_slots[c] - free.astype(np.intp)


def sum_rows(problem: Sum, T: Floats) -> Floats:
    """The largest that row i can add, over the components that it can be in, (p,)."""
    p = T.shape[0]
    s = np.full(p, -np.inf)
    for c in problem.different:
        rows, sure, never, counts = row_choices(problem, c)
        fixed = np.where(sure, T, 0.0).sum(axis=1)
        others = -np.sort(np.where(sure | never, np.inf, -T), axis=1)
        totals = np.cumsum(np.where(np.isfinite(others), others, 0.0), axis=1)
        totals = np.concatenate([np.zeros((p, 1)), totals], axis=1)
        here = fixed + totals[np.arange(p), np.clip(counts, 0, p)]
        s = np.where(rows, np.maximum(s, here), s)
    return s


def counted_rows(problem: Sum, s: Floats) -> float:
    """Rows of variables that have a component, and the largest of the others."""
    free = problem.labels == FREE
    slots = int(problem.open_slots.sum())
    rest = np.sort(s[free])
    return float(s[~free].sum() + rest[rest.size - slots :].sum())


def inner(problem: Sum, at: Multipliers) -> Floats:
    """P, (p, p)."""
    P: Floats = problem.C - 0.5 * (at.M + at.M.T)
    P[np.diag_indices(P.shape[0])] += 0.5 * at.alpha
    return P


def pairs(at: Multipliers) -> Floats:
    T: Floats = np.square(at.M) / (2.0 * at.alpha[:, None]) + 0.5 * (at.A - at.A.T)
    return T


def prove_sum(problem: Sum, at: Multipliers) -> SumProof:
    """The bound that ``at`` proves, with rounding on the safe side (as `relaxation.rounding`)."""
    p, d = problem.C.shape[0], problem.sizes.size
    s = sum_rows(problem, pairs(at))
    top = counted_rows(problem, s)
    norms = sum(float(np.linalg.norm(part)) for part in (problem.C, at.M, at.alpha))
    total = int(problem.sizes.sum())
    summed = abs(top) + total**2 * float(np.abs(at.A).max(initial=0.0))
    rounding = EPS * (16.0 * p * d * norms + 8.0 * (p + total) * summed)
    eigenvalues = float(np.linalg.eigvalsh(inner(problem, at))[-d:].sum()) + rounding
    return SumProof(eigenvalues + top, eigenvalues, s)


def from_row_norms(problem: Sum) -> Multipliers:
    """M = C and the one alpha that is best for it."""
    p = problem.C.shape[0]
    total = counted_rows(problem, sum_rows(problem, np.square(problem.C)))
    alpha = np.full(p, math.sqrt(max(total / problem.sizes.size, np.finfo(float).tiny)))
    return Multipliers(problem.C.copy(), alpha, np.zeros((p, p)))


def smoothed_sum(
    problem: Sum, at: Multipliers, scales: tuple[float, float, float]
) -> tuple[float, tuple[Floats, Floats, Floats]]:
    """The bound made smooth, and its derivatives by M, log alpha and A; see
    `relaxation.smoothed`. The sum of the d largest eigenvalues is smoothed as other sums are."""
    scale_P, scale_rows, scale_T = scales
    p, d = problem.C.shape[0], problem.sizes.size
    values, vectors = np.linalg.eigh(inner(problem, at))
    shares = smoothed_top_indicator(values[None, :], np.array([d]), scale_P)[0]
    height = float(shares @ values) - 0.5 * scale_P * float(shares @ shares)
    X = (vectors * shares) @ vectors.T
    squares = np.square(at.M) / (2.0 * at.alpha[:, None])
    T = squares + 0.5 * (at.A - at.A.T)
    s, Y = np.full(p, -np.inf), np.zeros((p, p))
    for c in problem.different:
        rows, sure, never, counts = row_choices(problem, c)
        which = np.flatnonzero(rows)
        part, known = T[which], sure[which]
        indicator = smoothed_top_indicator(
            np.where(known | never[which], EXCLUDED, part), counts[which], scale_T
        )
        here = -0.5 * scale_T * np.einsum("ij,ij->i", indicator, indicator)
        indicator[known] = 1.0
        here += np.einsum("ij,ij->i", indicator, part)
        better = here > s[which]
        s[which[better]], Y[which[better]] = here[better], indicator[better]
    free = problem.labels == FREE
    z = np.ones(p)
    slots = np.array([int(problem.open_slots.sum())])
    z[free] = smoothed_top_indicator(s[None, free], slots, scale_rows)[0]
    height += float(z @ s) - 0.5 * scale_rows * float(z[free] @ z[free])
    Z = z[:, None] * Y
    dM = Z * at.M / at.alpha[:, None] - X
    dalpha = 0.5 * np.diagonal(X) * at.alpha - np.einsum("ij,ij->i", Z, squares)
    return height, (dM, dalpha, 0.5 * (Z - Z.T))


def improve_sum(problem: Sum, at: Multipliers, smoothing: float, clock: Clock) -> Multipliers:
    """Multipliers that prove less, by L-BFGS; see `relaxation.improve`."""
    K = int(problem.sizes.max())
    scales = (smoothing, SUM_SMOOTHING * smoothing / K, SUM_SMOOTHING * smoothing / K**2)

    def at_point(point: Multipliers) -> Smoothed:
        return smoothed_sum(problem, point, scales)

    return minimise_smoothed(at_point, at, K, N_ITERATIONS, 2 * N_ITERATIONS, clock.expired)


# --- good components to start from


def improve_components(
    C: Floats, W: Floats, sizes: Indices, effort: Effort, rng: np.random.RandomState
) -> Floats:
    """Components with a larger sum: each in turn, and each pair, is looked for again on what the
    others leave, until nothing rises."""
    d = W.shape[0]
    form = Gram(C)
    best = W.copy()
    groups = [[c] for c in range(d)]
    groups += [[a, b] for a in range(d) for b in range(d) if a != b]
    for _ in range(ROUNDS):
        before = total_variance(C, best)
        for group in groups:
            others = np.delete(best, group, axis=0)
            allowed = ~np.any(others != 0, axis=0)
            trial = best.copy()
            for c in group:
                c_allowed = Constraint(int(sizes[c]), False, allowed)
                found = find_component(form, c_allowed, effort, rng, [best[c]])
                if found is None:
                    break
                trial[c] = found.w
                allowed = allowed & (found.w == 0)
            else:
                if total_variance(C, trial) > total_variance(C, best) * (1.0 + 1e-12):
                    best = trial
        if total_variance(C, best) <= before * (1.0 + 1e-9):
            break
    return best


def total_variance(C: Floats, W: Floats) -> float:
    """The sum of w'Cw."""
    return float(np.einsum("ip,pq,iq->", W, C, W))


def components_on_sets(C: Floats, labels: Indices, d: int) -> Floats:
    """The best components on given sets, (d, p)."""
    W = np.zeros((d, labels.size))
    for c in range(d):
        S = np.flatnonzero(labels == c)
        W[c] = embed(np.linalg.eigh(C[np.ix_(S, S)])[1][:, -1], S, labels.size)
    return W


# --- the search


class Part(NamedTuple):
    """A part of all ways to choose the sets."""

    bound: float
    variables: Indices  # (m,) those that are not out
    labels: Indices  # (m,)
    at: Multipliers | None  # for the variables ``of``
    of: Indices


def certify_sum(
    C: Floats,
    W: Floats,
    sizes: Indices,
    *,
    ceiling: float = math.inf,
    gap: float = 0.0,
    clock: Clock | None = None,
    progress: Progress | None = None,
) -> SumCertificate:
    """Prove that no components on sets that do not meet have a larger sum, or find some.

    Parameters
    ----------
    C : array (p, p)
        Symmetric.
    W : array (d, p)
        Components on sets that do not meet, to start from.
    sizes : int array (d,)
        The number of variables of each; p at least in all.
    ceiling : float, default=inf
        A bound on the sum that is known already.
    gap : float, default=0.0
        The search ends when 1 - value / bound is at most this.
    clock : Clock or None
        Asked often whether the time is up.
    progress : Progress or None
        Told the gap after every node.

    Returns
    -------
    SumCertificate
    """
    clock = clock or Clock()
    scale = total_variance(C, W) / sizes.size
    search = _Search(C / scale, W, sizes, gap, clock)
    p = C.shape[0]
    everything = np.arange(p)
    nothing = np.full(p, FREE)
    problem = Sum(search.C, nothing, sizes)
    first = prove_sum(problem, from_row_norms(problem)).bound
    heap = [(-min(first, ceiling / scale), 0, Part(first, everything, nothing, None, everything))]
    ticket, n_nodes = count(1), 0
    while heap and -heap[0][0] > search.target and not clock.expired():
        bound, _, part = heap[0]
        try:
            rest = search.process_node(part._replace(bound=-bound))
        except KeyboardInterrupt:
            clock.interrupt()
            break
        heapq.heappop(heap)
        n_nodes += 1
        for one in rest:
            heapq.heappush(heap, (-one.bound, next(ticket), one))
        if progress is not None:
            progress.advance(1.0 - search.value / max(search.value, search.highest(heap)))
    upper = max(search.value, search.highest(heap))
    value = total_variance(C, search.W)
    return SumCertificate(search.W, value, max(value, scale * upper), n_nodes)


class _Search:
    """The best components so far, and the largest bound of what was closed."""

    def __init__(self, C: Floats, W: Floats, sizes: Indices, gap: float, clock: Clock):
        self.C, self.W, self.sizes, self.gap, self.clock = C, W, sizes, gap, clock
        self.value, self.closed = total_variance(C, W), -math.inf

    @property
    def target(self) -> float:
        return self.value / (1.0 - max(self.gap, RESOLUTION))

    def highest(self, heap: list[tuple[float, int, Part]]) -> float:
        """The largest bound of what is open or was closed."""
        return max(self.closed, -heap[0][0] if heap else -math.inf)

    def close(self, bounds: float | Floats) -> None:
        self.closed = max(self.closed, float(np.max(bounds, initial=-math.inf)))

    def process_node(self, part: Part) -> list[Part]:
        """What is left to be looked at of a part: nothing, some parts, or, out of time, itself."""
        bound, variables, labels, at = part.bound, part.variables, part.labels, part.at
        if at is not None and part.of.size > variables.size:
            at = restrict(at, np.isin(part.of, variables, assume_unique=True))
        tries, before, many = 0, math.inf, True
        while True:
            problem = Sum(self.C[np.ix_(variables, variables)], labels, self.sizes)
            slots = int(problem.open_slots.sum())
            free = np.flatnonzero(labels == FREE)
            if free.size < slots or np.any(problem.open_slots < 0):
                return []
            if slots == 0:
                return self.leaf(variables, labels)
            tried = [] if at is None else [at]
            tried += [from_row_norms(problem)] if many else []
            proofs = [prove_sum(problem, one) for one in tried]
            best = int(np.argmin([proof.bound for proof in proofs]))
            at, proof = tried[best], proofs[best]
            bound = min(bound, proof.bound)
            if bound <= self.target:
                self.close(bound)
                return []
            inside = np.min([bounds_inside(problem, one, free) for one in proofs], axis=0)
            out = inside <= self.target
            many = False
            if out.any():
                self.close(inside[out])
                kept = np.ones(variables.size, dtype=bool)
                kept[free[out]] = False
                many = out.mean() > 0.1
                tries = 0 if many else tries
                variables, labels, at = variables[kept], labels[kept], restrict(at, kept)
                continue
            left = proof.bound / self.value - 1.0
            here = Part(bound, variables, labels, at, variables)
            if (
                tries == MAX_IMPROVEMENTS
                or (tries and left > MAX_GAP_RATIO * before)
                or left < MIN_GAP
            ):
                return branch(problem, here, free[np.argmax(proof.s[free])])
            if self.clock.expired():
                return [here]
            smoothing = min(SMOOTHING * left, MAX_SMOOTHING)
            at = improve_sum(problem, at, smoothing, self.clock)
            tries, before = tries + 1, left

    def leaf(self, variables: Indices, labels: Indices) -> list[Part]:
        """All sets are known."""
        everywhere = np.full(self.C.shape[0], FREE)
        everywhere[variables] = labels
        W = components_on_sets(self.C, everywhere, self.sizes.size)
        value = total_variance(self.C, W)
        self.close(value * (1.0 + 64.0 * int(self.sizes.sum()) * EPS))
        if value > self.value:
            self.W, self.value = W, value
        return []


def bounds_inside(problem: Sum, proof: SumProof, free: Indices) -> Floats:
    """Bounds for every free variable, if it is in one of the sets, (m,)."""
    slots = int(problem.open_slots.sum())
    s = proof.s[free]
    ranked = -np.sort(-s)
    indicator = s >= ranked[slots - 1]
    fixed = proof.eigenvalues + float(proof.s[problem.labels != FREE].sum())
    top = float(ranked[:slots].sum())
    inside: Floats = fixed + np.where(indicator, top, top - ranked[slots - 1] + s)
    return inside


def branch(problem: Sum, part: Part, chosen: int) -> list[Part]:
    """A variable in each of the components that differ, and out of all."""
    parts = []
    for c in problem.different:
        if problem.open_slots[c] > 0:
            labels = part.labels.copy()
            labels[chosen] = c
            parts.append(part._replace(labels=labels))
    kept = np.ones(part.variables.size, dtype=bool)
    kept[chosen] = False
    parts.append(part._replace(variables=part.variables[kept], labels=part.labels[kept]))
    return parts
