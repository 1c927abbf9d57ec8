"""One component after the other: what `EMPCA` computes, as pure functions.

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.

A component sees what those before it left over: C without their directions ([SB08] (18)), the
variables that they do not use, or all of C at an angle from them (`angle`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple

import numpy as np
from sklearn.utils import check_random_state

from ...data import Operator
from ...data.arrays import to_numpy
from ...inference.loop import StopReason, worst
from ...inference.progress import Progress
from ...selection.dimension import count_signals
from .certify.bounds import Candidate
from .certify.branching import Certificate
from .certify.clock import Clock
from .certify.component import prove_component
from .certify.joint import MAX_JOINT, certify_sum, raised
from .certify.orthogonal import orthogonal_bound
from .quadratic import Floats, Mask, Quadratic, quadratic_of
from .search import Climb, Effort, find_at_angle, find_component
from .thresholds import Constraint

Orthogonality = Literal["deflation", "disjoint", "quasi"]

# A component with less than this share of the table's variance is rounding.
RANK_TOL = 1e-12
# For the bound on the sum of orthogonal components, which is not searched.
ORTHOGONAL_ITERATIONS = 400


class Proving(NamedTuple):
    """How far components are to be proved the best."""

    gap: float  # 1 - value / bound that is good enough
    time_limit: float  # seconds for all components
    epsilon: float = float(np.finfo(float).eps)  # relative rounding error of the table's numbers


class EmpcaOptions(NamedTuple):
    """What is asked for."""

    cardinalities: list[int]  # K of every component
    nonnegative: bool
    orthogonality: Orthogonality
    cosine: float  # of the smallest angle between components; for "quasi"
    effort: Effort
    random_state: int | np.random.RandomState | None
    proving: Proving | None = None
    joint: bool = False  # the largest sum, instead of one component after the other


class Solution(NamedTuple):
    """What was found, with the question."""

    quadratic: Quadratic  # C of the whole table
    options: EmpcaOptions
    components: list[Climb]  # with their traces and reasons
    certificates: list[Certificate] = []  # noqa: RUF012 - of every component, where asked for

    @property
    def W(self) -> Floats:
        """The components as rows, (d, p)."""
        return np.array([found.w for found in self.components]).reshape(-1, self.quadratic.width)

    @property
    def value(self) -> float:
        """The sum of what the components explain."""
        return sum(found.value for found in self.components)

    @property
    def exhausted(self) -> bool:
        """Whether there was nothing left to explain before all components were found."""
        return len(self.components) < len(self.options.cardinalities)

    @property
    def reason(self) -> StopReason:
        """Why the search ended: a loop that ended too early is named before anything else."""
        reason = worst([found.reason for found in self.components])
        return StopReason.EXHAUSTED if self.exhausted and not reason.unfinished else reason


class Remaining(NamedTuple):
    """What the components found so far leave for the next."""

    quadratic: Quadratic
    allowed: Mask  # (p,) variables that it may use


def everything(quadratic: Quadratic) -> Remaining:
    """Before the first component."""
    return Remaining(quadratic, np.ones(quadratic.width, dtype=bool))


def without(remaining: Remaining, w: Floats, orthogonality: Orthogonality) -> Remaining:
    """What is left after component ``w``; an angle leaves everything."""
    if orthogonality == "disjoint":
        return remaining._replace(allowed=remaining.allowed & (w == 0))
    if orthogonality == "deflation":
        return remaining._replace(quadratic=remaining.quadratic.deflated(w))
    return remaining


def constraint(remaining: Remaining, K: int, nonnegative: bool) -> Constraint:
    """What the next component must satisfy."""
    return Constraint(min(K, int(remaining.allowed.sum())), nonnegative, remaining.allowed)


def solve(op: Operator, options: EmpcaOptions) -> Solution:
    """Component after component, until none has any variance left to explain.

    Parameters
    ----------
    op : Operator
        The table, centred.
    options : EmpcaOptions

    Returns
    -------
    Solution
    """
    return solve_form(quadratic_of(op), options)


def solve_form(
    quadratic: Quadratic, options: EmpcaOptions, warm: Sequence[Floats] = ()
) -> Solution:
    """`solve` for C itself. ``warm`` are components of a neighbouring problem, in order."""
    if options.joint:
        return solve_joint(quadratic, options, warm)
    rng = check_random_state(options.random_state)
    least = RANK_TOL * float(np.sum(quadratic.diagonal()))
    clock = Clock() if options.proving is None else Clock(options.proving.time_limit)
    remaining = everything(quadratic)
    found: list[Climb] = []
    certificates: list[Certificate] = []
    for k, K in enumerate(options.cardinalities):
        if not np.any(remaining.allowed):
            break
        c = constraint(remaining, K, options.nonnegative)
        relatives = warm[k : k + 1]
        at_angle = options.orthogonality == "quasi" and bool(found)
        if at_angle:
            V = np.array([before.w for before in found]).T
            new = find_at_angle(
                remaining.quadratic, c, options.effort, rng, V, options.cosine, relatives
            )
        else:
            new = find_component(remaining.quadratic, c, options.effort, rng, relatives)
        if new is None or new.value <= least:
            break
        if options.proving is not None:
            part = clock.share(len(options.cardinalities) - k)
            new, certificate = proved(remaining.quadratic, c, new, options, part, at_angle)
            clock.interrupted = part.interrupted
            certificates.append(certificate)
        found.append(new if options.nonnegative else new._replace(w=turned(new.w)))
        remaining = without(remaining, new.w, options.orthogonality)
    return Solution(quadratic, options, found, certificates)


def proved(
    quadratic: Quadratic,
    c: Constraint,
    found: Climb,
    options: EmpcaOptions,
    clock: Clock,
    at_angle: bool,
) -> tuple[Climb, Certificate]:
    """A component with its proof, or a better one that turned up on the way.

    Of a component at an angle from others only the bound is taken, which holds without the angle
    and so with it.
    """
    proving = options.proving
    assert proving is not None
    certificate = prove_component(
        quadratic,
        c,
        found.w,
        found.value,
        gap=proving.gap,
        clock=clock,
        epsilon=proving.epsilon,
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
    if certificate.gap > proving.gap and clock.expired():
        found = found._replace(reason=worst([found.reason, StopReason.UNPROVED]))
    return found, certificate


def solve_joint(
    quadratic: Quadratic, options: EmpcaOptions, warm: Sequence[Floats] = ()
) -> Solution:
    """The largest sum: from one component after the other to all together, with a bound on the
    sum. Without a proof asked for, that bound is the one that costs next to nothing.

    Where there are too many columns for a bound of the sum as a whole, it is the sum of what each
    component could have alone. Orthogonal components that may share variables are those found one
    after the other, with a bound on their sum.
    """
    single = options._replace(joint=False, proving=None)
    begun = solve_form(quadratic, single, warm)
    d = len(begun.components)
    if d == 0:
        return begun
    sizes = np.array(options.cardinalities[:d])
    proving = options.proving or Proving(0.0, 0.0)
    clock = Clock(proving.time_limit)
    everyone = np.ones(quadratic.width, dtype=bool)
    ceilings = {}
    for place, K in enumerate(np.unique(sizes).tolist()):
        one = begun.components[int(np.flatnonzero(sizes == K)[0])]
        part = clock.share(2 * (np.unique(sizes).size - place))
        proof = prove_component(
            quadratic,
            Constraint(K, False, everyone),
            one.w,
            one.value,
            gap=proving.gap,
            clock=part,
            epsilon=proving.epsilon,
        )
        clock.interrupted = part.interrupted
        ceilings[K] = proof.upper_bound
    W, ceiling = begun.W, sum(ceilings[K] for K in sizes.tolist())
    value, n_nodes = begun.value, 0
    if quadratic.width <= MAX_JOINT and options.orthogonality == "quasi":
        C = quadratic.block(np.arange(quadratic.width))
        iterations = 0 if options.proving is None else ORTHOGONAL_ITERATIONS
        bound = orthogonal_bound(C, sizes.tolist(), max_iter=iterations, clock=clock)
        ceiling = max(value, min(ceiling, bound))
    elif quadratic.width <= MAX_JOINT:
        C = quadratic.block(np.arange(quadratic.width))
        rng = check_random_state(options.random_state)
        W = raised(C, W, sizes, options.effort, rng)
        with Progress(None, "EMPCA, gap of the sum", options.effort.verbose) as progress:
            found = certify_sum(
                C,
                W,
                sizes,
                ceiling=ceiling,
                gap=proving.gap,
                clock=clock,
                progress=progress,
            )
        W, value, ceiling, n_nodes = found.W, found.value, found.upper_bound, found.n_nodes
    order = (
        np.argsort(-quadratic.form(W), kind="stable") if np.all(sizes == sizes[:1]) else range(d)
    )
    unproved = (
        options.proving is not None and clock.expired() and 1.0 - value / ceiling > proving.gap
    )
    components, certificates = [], []
    for c in order:
        own = float(quadratic.form(W[c][None, :])[0])
        old = begun.components[c]
        reason = worst([old.reason, StopReason.UNPROVED]) if unproved else old.reason
        components.append(Climb(turned(W[c]), own, [own], reason))
        certificates.append(Certificate(W[c], own, own * ceiling / value, n_nodes))
    return Solution(quadratic, options, components, certificates)


def turned(w: Floats) -> Floats:
    """The sign for which the largest entry is positive."""
    return w if w[np.argmax(np.abs(w))] >= 0 else -w


def solve_path(op: Operator, problems: Sequence[EmpcaOptions]) -> list[Solution]:
    """Problems that differ in their cardinalities, in rising order, each from the start that its
    neighbours provide: upwards, and then downwards with those from above, without restarts.

    Parameters
    ----------
    op : Operator
        The table, centred.
    problems : sequence of EmpcaOptions
        With rising cardinalities.

    Returns
    -------
    list of Solution
        In the same order.
    """
    quadratic = quadratic_of(op)
    proving = problems[0].proving if problems else None
    asked, problems = problems, [options._replace(proving=None) for options in problems]
    solutions: list[Solution] = []
    for options in problems:
        warm = solutions[-1].components if solutions else []
        solutions.append(solve_form(quadratic, options, [found.w for found in warm]))
    for k in range(len(solutions) - 2, -1, -1):
        alone = problems[k].effort._replace(n_restarts=0)
        warm = solutions[k + 1].components
        rival = solve_form(
            quadratic, problems[k]._replace(effort=alone), [found.w for found in warm]
        )
        if rival.value > solutions[k].value:
            solutions[k] = rival
    if proving is None:
        return solutions
    return [
        solve_form(quadratic, options, [found.w for found in solution.components])
        for options, solution in zip(asked, solutions, strict=True)
    ]


def candidates(solution: Solution) -> Iterator[Candidate]:
    """Every component with the problem that it solves; for `models.empca.certify.bounds.gaps`."""
    remaining, options = everything(solution.quadratic), solution.options
    for K, found in zip(options.cardinalities, solution.components, strict=False):
        c = constraint(remaining, K, options.nonnegative)
        yield Candidate(remaining.quadratic, c, found.w, found.value)
        remaining = without(remaining, found.w, options.orthogonality)


def count_components(op: Operator, total: float) -> int:
    """How many components stand out from white noise, for a table of ``total`` observations."""
    n, p = op.shape
    values = np.linalg.eigvalsh(to_numpy(op.outer() if n <= p else op.gram()))[::-1]
    values = np.where(values > RANK_TOL * values[0], values, 0.0)  # the rest is rounding
    # as many as if every row stood there as often as its weight says
    values = np.pad(values, (0, max(0, min(round(total), p) - values.size)))
    return count_signals(values, round(total), p)
