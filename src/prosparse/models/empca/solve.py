"""Computation of sequential and joint components.

After each component, C is deflated ([SB08] (18)), its variables are excluded, or later components
are constrained to a minimum angle (`angle`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ...data import Operator
from ...data.arrays import to_numpy
from ...inference.loop import StopReason, worst
from ...inference.progress import Progress
from ...selection.dimension import count_signals
from .certify.branching import Certificate
from .certify.clock import Clock
from .certify.component import bound_component, optimality_gap
from .certify.joint import MAX_JOINT_VARIABLES, certify_sum, improve_components
from .quadratic import Floats, Mask, Quadratic, quadratic_of
from .search import Effort, Optimum, find_at_angle, find_component
from .thresholds import Constraint

Orthogonality = Literal["deflation", "disjoint", "quasi"]

# Minimum variance of a component relative to the total variance; smaller values are rounding
# errors.
RANK_TOL = 1e-12


class CertificationOptions(NamedTuple):
    """Parameters of branch and bound."""

    gap: float  # relative gap at which the search may stop
    time_limit: float  # time limit in seconds for all components
    epsilon: float = float(np.finfo(float).eps)  # relative rounding error of the data


class EmpcaOptions(NamedTuple):
    """Parameters of the fit."""

    cardinalities: list[int]  # K of each component
    nonnegative: bool
    orthogonality: Orthogonality
    cosine: float  # cosine of the minimum angle; for "quasi"
    effort: Effort
    random_state: int | np.random.RandomState | None
    certification: CertificationOptions | None = None
    joint: bool = False  # whether the sum of the variances is maximised


class Solution(NamedTuple):
    """Components, with the problem that they solve."""

    quadratic: Quadratic  # C without deflation
    options: EmpcaOptions
    components: list[Optimum]  # with objective traces and stop reasons
    certificates: list[Certificate] = []  # noqa: RUF012 - one per component, if requested

    @property
    def W(self) -> Floats:
        """Components as rows, (d, p)."""
        return np.array([found.w for found in self.components]).reshape(-1, self.quadratic.width)

    @property
    def value(self) -> float:
        """Sum of the objective values of the components."""
        return sum(found.value for found in self.components)

    @property
    def exhausted(self) -> bool:
        """Whether the variance was exhausted before all components were found."""
        return len(self.components) < len(self.options.cardinalities)

    @property
    def reason(self) -> StopReason:
        """Most severe stop reason; unfinished loops outrank exhausted variance."""
        reason = worst([found.reason for found in self.components])
        return StopReason.EXHAUSTED if self.exhausted and not reason.unfinished else reason


class Remaining(NamedTuple):
    """Problem that remains after the preceding components."""

    quadratic: Quadratic
    allowed: Mask  # (p,) variables that may have a loading


def all_variables(quadratic: Quadratic) -> Remaining:
    """Return the problem of the first component."""
    return Remaining(quadratic, np.ones(quadratic.width, dtype=bool))


def remove_component(remaining: Remaining, w: Floats, orthogonality: Orthogonality) -> Remaining:
    """Return the problem that remains after component ``w``."""
    if orthogonality == "disjoint":
        return remaining._replace(allowed=remaining.allowed & (w == 0))
    if orthogonality == "deflation":
        return remaining._replace(quadratic=remaining.quadratic.deflate(w))
    return remaining


def next_constraint(remaining: Remaining, K: int, nonnegative: bool) -> Constraint:
    """Return the constraint on the next component."""
    return Constraint(min(K, int(remaining.allowed.sum())), nonnegative, remaining.allowed)


def solve_form(
    quadratic: Quadratic, options: EmpcaOptions, warm: Sequence[Floats] = ()
) -> Solution:
    """Compute components sequentially until no variance remains.

    ``warm`` are the components of a similar problem, in order; they are used as starts.
    """
    if options.joint:
        return solve_joint(quadratic, options, warm)
    rng = check_random_state(options.random_state)
    min_value = RANK_TOL * float(np.sum(quadratic.diagonal()))
    clock = Clock() if options.certification is None else Clock(options.certification.time_limit)
    remaining = all_variables(quadratic)
    found: list[Optimum] = []
    certificates: list[Certificate] = []
    for k, K in enumerate(options.cardinalities):
        if not np.any(remaining.allowed):
            break
        c = next_constraint(remaining, K, options.nonnegative)
        related = warm[k : k + 1]
        at_angle = options.orthogonality == "quasi" and bool(found)
        if at_angle:
            V = np.array([before.w for before in found]).T
            new = find_at_angle(
                remaining.quadratic, c, options.effort, rng, V, options.cosine, related
            )
        else:
            new = find_component(remaining.quadratic, c, options.effort, rng, related)
        if new is None or new.value <= min_value:
            break
        if options.certification is not None:
            part = clock.share(len(options.cardinalities) - k)
            new, certificate = certify_component(
                remaining.quadratic, c, new, options, part, at_angle
            )
            clock.interrupted = part.interrupted
            certificates.append(certificate)
        found.append(new if options.nonnegative else new._replace(w=fix_sign(new.w)))
        remaining = remove_component(remaining, new.w, options.orthogonality)
    return Solution(quadratic, options, found, certificates)


def certify_component(
    quadratic: Quadratic,
    c: Constraint,
    found: Optimum,
    options: EmpcaOptions,
    clock: Clock,
    at_angle: bool,
) -> tuple[Optimum, Certificate]:
    """Certify a component, or replace it by a better one.

    With an angle constraint, only the upper bound is used; it also holds under the constraint.
    """
    certification = options.certification
    assert certification is not None
    certificate = bound_component(
        quadratic,
        c,
        found.w,
        found.value,
        gap=certification.gap,
        clock=clock,
        epsilon=certification.epsilon,
        verbose=options.effort.verbose,
    )
    if at_angle:
        bound = max(certificate.upper_bound, found.value)
        certificate = certificate._replace(w=found.w, value=found.value, upper_bound=bound)
    elif certificate.value > found.value:
        found = found._replace(
            w=certificate.w,
            value=certificate.value,
            trace=[*found.trace, certificate.value],
        )
    if certificate.gap > certification.gap and clock.expired():
        found = found._replace(reason=worst([found.reason, StopReason.NOT_CERTIFIED]))
    return found, certificate


def solve_joint(
    quadratic: Quadratic, options: EmpcaOptions, warm: Sequence[Floats] = ()
) -> Solution:
    """Maximise the sum of the variances, starting from sequential components.

    Without certification, only the inexpensive bounds are computed. With too many columns for a
    joint bound, the sum of the bounds of the single components is used.
    """
    single = options._replace(joint=False, certification=None)
    initial = solve_form(quadratic, single, warm)
    d = len(initial.components)
    if d == 0:
        return initial
    sizes = np.array(options.cardinalities[:d])
    certification = options.certification or CertificationOptions(0.0, 0.0)
    clock = Clock(certification.time_limit)
    allowed = np.ones(quadratic.width, dtype=bool)
    bounds = {}
    for k, K in enumerate(np.unique(sizes).tolist()):
        one = initial.components[int(np.flatnonzero(sizes == K)[0])]
        part = clock.share(2 * (np.unique(sizes).size - k))
        proof = bound_component(
            quadratic,
            Constraint(K, False, allowed),
            one.w,
            one.value,
            gap=certification.gap,
            clock=part,
            epsilon=certification.epsilon,
        )
        clock.interrupted = part.interrupted
        bounds[K] = proof.upper_bound
    W, upper_bound = initial.W, sum(bounds[K] for K in sizes.tolist())
    value, n_nodes = initial.value, 0
    if quadratic.width <= MAX_JOINT_VARIABLES:
        C = quadratic.block(np.arange(quadratic.width))
        rng = check_random_state(options.random_state)
        W = improve_components(C, W, sizes, options.effort, rng)
        with Progress(None, "EMPCA, gap of the sum", options.effort.verbose) as progress:
            found = certify_sum(
                C,
                W,
                sizes,
                ceiling=upper_bound,
                gap=certification.gap,
                clock=clock,
                progress=progress,
            )
        W, value, upper_bound, n_nodes = found.W, found.value, found.upper_bound, found.n_nodes
    order = (
        np.argsort(-quadratic.form(W), kind="stable") if np.all(sizes == sizes[:1]) else range(d)
    )
    unfinished = (
        options.certification is not None
        and clock.expired()
        and 1.0 - value / upper_bound > certification.gap
    )
    components, certificates = [], []
    for c in order:
        own = float(quadratic.form(W[c][None, :])[0])
        old = initial.components[c]
        reason = worst([old.reason, StopReason.NOT_CERTIFIED]) if unfinished else old.reason
        components.append(Optimum(fix_sign(W[c]), own, [own], reason))
        certificates.append(Certificate(W[c], own, own * upper_bound / value, n_nodes))
    return Solution(quadratic, options, components, certificates)


def fix_sign(w: Floats) -> Floats:
    """Return ``w`` or ``-w``, with the largest entry positive."""
    return w if w[np.argmax(np.abs(w))] >= 0 else -w


def solve_path(op: Operator, problems: Sequence[EmpcaOptions]) -> list[Solution]:
    """Solve problems of increasing cardinality, started from their neighbours.

    The problems are solved in increasing order, and then in decreasing order without random starts.
    """
    quadratic = quadratic_of(op)
    certification = problems[0].certification if problems else None
    requested, problems = problems, [options._replace(certification=None) for options in problems]
    solutions: list[Solution] = []
    for options in problems:
        warm = solutions[-1].components if solutions else []
        solutions.append(solve_form(quadratic, options, [found.w for found in warm]))
    for k in range(len(solutions) - 2, -1, -1):
        effort = problems[k].effort._replace(n_restarts=0)
        warm = solutions[k + 1].components
        candidate = solve_form(
            quadratic, problems[k]._replace(effort=effort), [found.w for found in warm]
        )
        if candidate.value > solutions[k].value:
            solutions[k] = candidate
    if certification is None:
        return solutions
    return [
        solve_form(quadratic, options, [found.w for found in solution.components])
        for options, solution in zip(requested, solutions, strict=True)
    ]


def optimality_gaps(solution: Solution) -> Floats:
    """Bound the optimality gap of each component without branch and bound."""
    remaining, options = all_variables(solution.quadratic), solution.options
    gaps = []
    for K, found in zip(options.cardinalities, solution.components, strict=False):
        c = next_constraint(remaining, K, options.nonnegative)
        gaps.append(optimality_gap(remaining.quadratic, c, found.w, found.value))
        remaining = remove_component(remaining, found.w, options.orthogonality)
    return np.array(gaps)


def count_components(op: Operator, total: float) -> int:
    """Count the eigenvalues above white noise, for ``total`` observations."""
    n, p = op.shape
    values = np.linalg.eigvalsh(to_numpy(op.outer() if n <= p else op.gram()))[::-1]
    values = np.where(values > RANK_TOL * values[0], values, 0.0)  # smaller values are rounding
    # Weighted rows count as repeated rows.
    values = np.pad(values, (0, max(0, min(round(total), p) - values.size)))
    return count_signals(values, round(total), p)
