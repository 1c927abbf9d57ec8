"""Certified maximum of the variances of disjoint components.

Let w_c be d components on disjoint sets S_c of K_c variables. The bound of `relaxation` applies to
the sum of w_c'C w_c with one change. Because unit vectors on disjoint sets are orthonormal, the sum
of w_c'P w_c is at most the sum of the d largest eigenvalues of P,

    sum_c w_c'C w_c <= lambda_1(P) + ... + lambda_d(P) + sum_c sum_{i in S_c} sum_{j in S_c} T_ij,

for any (M, alpha, N). A variable belongs to at most one component. The row sum of the variable
contains the entries of T within this component, and K_1 + ... + K_d row sums are added.

The search is that of `branching` with labels: a variable is assigned to a component, excluded, or
free. Empty components of equal size are equivalent, and only the first is tried.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from ....inference.progress import Progress
from ..quadratic import Floats, Gram, Indices
from ..search import Effort, find_component
from ..thresholds import Constraint, embed
from .branching import (
    MAX_GAP_RATIO,
    MAX_IMPROVEMENTS,
    MAX_SMOOTHING,
    MIN_GAP,
    N_ITERATIONS,
    SMOOTHING,
    Best,
    explore,
)
from .clock import Clock
from .relaxation import (
    EPS,
    SUM_SMOOTHING,
    Multipliers,
    Problem,
    Smoothed,
    fixed_entries,
    free_counts,
    gradient,
    inner_matrix,
    minimise_smoothed,
    pair_terms,
    restrict,
    rounding,
    row_sums,
    smoothed_row_sums,
    smoothed_top_eigenvalues,
    smoothed_top_rows,
    sum_of_top_rows,
)

FREE = -1
# Maximum number of variables for a joint bound, which requires eigenproblems of this size.
MAX_JOINT_VARIABLES = 600
MAX_ROUNDS = 20  # maximum number of rounds of improving the components


class Sum(NamedTuple):
    """Problem whose sum of variances is bounded; C should be of order one."""

    C: Floats  # (p, p)
    labels: Indices  # (p,) component of each variable, or FREE
    sizes: Indices  # (d,) K of each component

    @property
    def open_slots(self) -> Indices:
        """Number of variables missing in each component, (d,)."""
        labelled = self.labels[self.labels != FREE]
        open_slots: Indices = self.sizes - np.bincount(labelled, minlength=self.sizes.size)
        return open_slots

    @property
    def distinct(self) -> list[int]:
        """Components up to equivalence of empty components of equal size."""
        used = np.unique(self.labels[self.labels != FREE])
        empty = {int(size): c for c, size in reversed(list(enumerate(self.sizes))) if c not in used}
        return sorted({*used.tolist(), *empty.values()})


class SumProof(NamedTuple):
    """Bound of a sum of variances, and its parts."""

    bound: float
    eigenvalues: float  # sum of the d largest plus the rounding error
    s: Floats  # (p,) row sums


class SumCertificate(NamedTuple):
    """Components with an upper bound on the sum of their variances."""

    W: Floats  # (d, p)
    value: float
    upper_bound: float
    n_nodes: int


# --- the bound


def problem_of(problem: Sum, c: int) -> tuple[Indices, Problem]:
    """Return the variables that component c may contain, and its problem."""
    own = problem.labels == c
    may_be_in = own | (problem.labels == FREE) if problem.open_slots[c] > 0 else own
    rows = np.flatnonzero(may_be_in)
    C = problem.C[np.ix_(rows, rows)]
    return rows, Problem(C, own[rows], int(problem.open_slots[c]))


def union_of_sets(problem: Sum) -> Problem:
    """Build the problem of the union of all sets, whose row sums are added."""
    return Problem(problem.C, problem.labels != FREE, int(problem.open_slots.sum()))


def sum_rows(problem: Sum, T: Floats) -> Floats:
    """Return the largest sum of each row over the components that may contain it."""
    s = np.full(T.shape[0], -np.inf)
    for c in problem.distinct:
        rows, part = problem_of(problem, c)
        s[rows] = np.maximum(s[rows], row_sums(part, T[np.ix_(rows, rows)])[0])
    return s


def prove_sum(problem: Sum, at: Multipliers) -> SumProof:
    """Compute the bound for given multipliers, including rounding errors."""
    d = problem.sizes.size
    s = sum_rows(problem, pair_terms(at))
    top = sum_of_top_rows(union_of_sets(problem), s)
    total = int(problem.sizes.sum())
    error = rounding(problem.C, at, top, total, total**2, d)
    eigenvalues = float(np.linalg.eigvalsh(inner_matrix(problem.C, at))[-d:].sum()) + error
    return SumProof(eigenvalues + top, eigenvalues, s)


def from_row_norms(problem: Sum) -> Multipliers:
    """Initialise with M = C and the optimal constant alpha."""
    p = problem.C.shape[0]
    s = sum_rows(problem, np.square(problem.C))
    total = sum_of_top_rows(union_of_sets(problem), s)
    alpha = np.full(p, math.sqrt(max(total / problem.sizes.size, np.finfo(float).tiny)))
    return Multipliers(problem.C.copy(), alpha, np.zeros((p, p)))


def smoothed_sum(problem: Sum, at: Multipliers, scales: tuple[float, float, float]) -> Smoothed:
    """Return the smoothed bound and its derivatives, as `relaxation.smoothed`."""
    scale_P, scale_rows, scale_T = scales
    p, d = problem.C.shape[0], problem.sizes.size
    smooth_bound, X = smoothed_top_eigenvalues(problem.C, at, d, scale_P)
    T = pair_terms(at)
    s, Y = np.full(p, -np.inf), np.zeros((p, p))
    for c in problem.distinct:
        rows, part = problem_of(problem, c)
        here, indicator = smoothed_row_sums(
            T[np.ix_(rows, rows)], fixed_entries(part), free_counts(part), scale_T
        )
        better = here > s[rows]
        s[rows[better]], Y[rows[better]] = here[better], 0.0
        Y[np.ix_(rows[better], rows)] = indicator[better]
    total, z = smoothed_top_rows(union_of_sets(problem), s, scale_rows)
    return smooth_bound + total, gradient(at, X, z[:, None] * Y)


def improve_sum(problem: Sum, at: Multipliers, smoothing: float, clock: Clock) -> Multipliers:
    """Minimise the smoothed bound by L-BFGS, as `relaxation.improve`."""
    K = int(problem.sizes.max())
    scales = (smoothing, SUM_SMOOTHING * smoothing / K, SUM_SMOOTHING * smoothing / K**2)

    def at_point(point: Multipliers) -> Smoothed:
        return smoothed_sum(problem, point, scales)

    return minimise_smoothed(at_point, at, K, N_ITERATIONS, 2 * N_ITERATIONS, clock.expired)


# --- initial components


def improve_components(
    C: Floats, W: Floats, sizes: Indices, effort: Effort, rng: np.random.RandomState
) -> Floats:
    """Recompute components, singly and in pairs, while the sum increases."""
    d = W.shape[0]
    form = Gram(C)
    best = W.copy()
    groups = [[c] for c in range(d)]
    groups += [[a, b] for a in range(d) for b in range(d) if a != b]
    for _ in range(MAX_ROUNDS):
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
    """Compute the sum of w'Cw over the components."""
    return float(np.einsum("ip,pq,iq->", W, C, W))


def components_on_sets(C: Floats, labels: Indices, d: int) -> Floats:
    """Compute the optimal components on given sets, (d, p)."""
    W = np.zeros((d, labels.size))
    for c in range(d):
        S = np.flatnonzero(labels == c)
        W[c] = embed(np.linalg.eigh(C[np.ix_(S, S)])[1][:, -1], S, labels.size)
    return W


# --- the search


class Part(NamedTuple):
    """Node of the search: assignments that share the given labels."""

    bound: float
    variables: Indices  # (m,) variables that are not excluded
    labels: Indices  # (m,)
    at: Multipliers | None  # multipliers of the variables ``of``
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
    """Certify components on disjoint sets, or find components with a larger sum.

    ``ceiling`` is a known upper bound of the sum.
    """
    clock = clock or Clock()
    scale = total_variance(C, W) / sizes.size
    search = _Search(C / scale, W, sizes, gap, clock)
    p = C.shape[0]
    everything = np.arange(p)
    nothing = np.full(p, FREE)
    problem = Sum(search.C, nothing, sizes)
    first = prove_sum(problem, from_row_norms(problem)).bound
    root = Part(min(first, ceiling / scale), everything, nothing, None, everything)
    upper, n_nodes = explore(search, root, search.process_node, clock, progress)
    value = total_variance(C, search.W)
    return SumCertificate(search.W, value, max(value, scale * upper), n_nodes)


class _Search(Best):
    """Branch and bound, with the best components found so far."""

    def __init__(self, C: Floats, W: Floats, sizes: Indices, gap: float, clock: Clock):
        super().__init__(total_variance(C, W), gap)
        self.C, self.W, self.sizes, self.clock = C, W, sizes, clock

    def process_node(self, part: Part) -> list[Part]:
        """Replace a node by branches or none; keep it if the time is up."""
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
            proofs = [prove_sum(problem, trial) for trial in tried]
            best = int(np.argmin([proof.bound for proof in proofs]))
            at, proof = tried[best], proofs[best]
            bound = min(bound, proof.bound)
            if bound <= self.target:
                self.close(bound)
                return []
            inside = np.min([bounds_inside(problem, trial, free) for trial in proofs], axis=0)
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
        """Evaluate the optimal components of a complete assignment."""
        everywhere = np.full(self.C.shape[0], FREE)
        everywhere[variables] = labels
        W = components_on_sets(self.C, everywhere, self.sizes.size)
        value = total_variance(self.C, W)
        self.close(value * (1.0 + 64.0 * int(self.sizes.sum()) * EPS))
        if value > self.value:
            self.W, self.value = W, value
        return []


def bounds_inside(problem: Sum, proof: SumProof, free: Indices) -> Floats:
    """Bound the sum given that each free variable is in a set."""
    slots = int(problem.open_slots.sum())
    s = proof.s[free]
    ranked = -np.sort(-s)
    indicator = s >= ranked[slots - 1]
    fixed = proof.eigenvalues + float(proof.s[problem.labels != FREE].sum())
    top = float(ranked[:slots].sum())
    inside: Floats = fixed + np.where(indicator, top, top - ranked[slots - 1] + s)
    return inside


def branch(problem: Sum, part: Part, variable: int) -> list[Part]:
    """Branch on a variable: assign it to each distinct component, or exclude it."""
    parts = []
    for c in problem.distinct:
        if problem.open_slots[c] > 0:
            labels = part.labels.copy()
            labels[variable] = c
            parts.append(part._replace(labels=labels))
    kept = np.ones(part.variables.size, dtype=bool)
    kept[variable] = False
    parts.append(part._replace(variables=part.variables[kept], labels=part.labels[kept]))
    return parts
