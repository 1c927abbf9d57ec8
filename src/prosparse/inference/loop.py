"""The only iteration loop: it owns stopping, acceleration, progress and checkpoints.

A method hands over ``step``, a pure function from a state to a better state. A state is a named
tuple with a ``bound``, the objective that may never fall. The loop believes nothing: an objective
that falls or is not a number, and a decomposition that fails, end it with reasons of their own.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ..data.arrays import decomposition_errors
from .checkpoint import Stage
from .progress import Progress


class HasBound(Protocol):
    """A state of a model: a named tuple with the objective among its fields."""

    @property
    def bound(self) -> float: ...


S = TypeVar("S", bound=HasBound)


_DOUBLE = float(np.finfo(float).eps)
_LAST_DIGITS = 8.0  # by so many epsilons a sum may be wrong


def relative_rounding(state: HasBound, epsilon: float = _DOUBLE) -> float:
    """How far rounding can move an objective.

    Parameters
    ----------
    state : HasBound
    epsilon : float
        Relative rounding error of the products with the table: `Operator.epsilon`. What follows
        from them is computed in double precision, to ten digits.

    Returns
    -------
    float
    """
    return (1e-10 + _LAST_DIGITS * epsilon) * abs(state.bound)


def residual_rounding(state: HasBound, total: float, noise: float, epsilon: float) -> float:
    """How far rounding can move a likelihood whose residual is a difference of sums.

    Parameters
    ----------
    state : HasBound
    total : float
        What the sums are near to; a few last digits of it are lost.
    noise : float
        Variance by which the residual is divided: an exact fit leaves no digit.
    epsilon : float
        See `relative_rounding`.

    Returns
    -------
    float
    """
    return relative_rounding(state, epsilon) + _LAST_DIGITS * epsilon * total / noise


class StopReason(Enum):
    """Why the loop ended; the value is the sentence a user reads."""

    CONVERGED = "converged: a whole iteration raised the objective by less than `tol`"
    MAX_ITER = (
        "stopped by `max_iter` before converging: raise `max_iter`, or `tol` for a rougher fit"
    )
    UNPROVED = (
        "stopped by `time_limit`, or by Ctrl-C, before the proof was complete: `optimality_gap_` "
        "says what is proved. Raise `time_limit`, or `gap` for a proof that ends earlier"
    )
    NOTHING_LEFT = "every variable left the model: the data show no common structure at this noise"
    NOTHING_FOUND = "no set of variables is shown to be better than none"
    EXHAUSTED = (
        "under these constraints nothing is left to explain: ask for fewer components, or let "
        "them share variables"
    )
    FELL = (
        "stopped because an iteration lowered the objective, which it should never do: the result "
        "is the best found until then. Columns of very different size or nearly equal columns can "
        "be the cause: try `scale=True`, or leave one of such columns out"
    )
    NOT_A_NUMBER = (
        "stopped because the objective was no longer a finite number: the result is the best found "
        "until then. Multiply X by a constant that brings its entries near 1, and look for columns "
        "that are nearly constant"
    )
    DECOMPOSITION_FAILED = (
        "stopped because a matrix could not be decomposed: the result is the best found until "
        "then. Nearly equal columns can be the cause: leave one of them out, or ask for fewer "
        "components"
    )

    def __str__(self) -> str:
        return self.value

    @property
    def unfinished(self) -> bool:
        """Whether the loop ended before it should have."""
        return self in _UNFINISHED


# In the order of how bad they are: of several runs, the worst is reported.
_UNFINISHED = (
    StopReason.UNPROVED,
    StopReason.MAX_ITER,
    StopReason.FELL,
    StopReason.DECOMPOSITION_FAILED,
    StopReason.NOT_A_NUMBER,
)


def worst(reasons: list[StopReason]) -> StopReason:
    """The reason to report for several runs: the worst unfinished one, if there is any."""
    rank = {reason: place for place, reason in enumerate(_UNFINISHED)}
    unfinished = [reason for reason in reasons if reason.unfinished]
    return max(unfinished, key=rank.__getitem__) if unfinished else StopReason.CONVERGED


class Accelerator(Protocol):
    """Proposes where the next step should start; the loop checks that it pays.

    What it remembers is a named tuple that goes in and comes out of every function, so that a
    checkpoint holds it like any other part of the loop's position.
    """

    def begin(self, state: Any) -> Any:
        """The memory before the first step."""

    def propose(self, memory: Any, start: Any, result: Any) -> tuple[Any, Any]:
        """(memory, start of the next step) after ``result = step(start)`` was accepted."""

    def retreat(self, memory: Any, best: Any) -> tuple[Any, Any]:
        """(memory, start of the next step) after the last proposal made the objective fall."""

    def probe(self, memory: Any, best: Any) -> tuple[Any, Any]:
        """(memory, a start far along the last step): at a maximum it cannot pay, at a saddle it
        does."""


class Position(NamedTuple):
    """Where the loop stands between two iterations: all that a checkpoint has to hold."""

    start: Any  # of the next step
    best: Any
    memory: Any  # the accelerator's; None without one
    plain: bool  # whether ``start`` is the best state itself, and not a proposal
    quiet: int  # iterations in a row that raised the objective by less than ``tol``
    probing: bool  # whether ``start`` is the accelerator's probe
    bounds: list[float]  # see `Run`


class Run(NamedTuple, Generic[S]):
    """What the loop found."""

    state: S  # the best
    # The objective of the best state after each iteration, non-decreasing. A step that lowers it is
    # not accepted: the objective is then that of the state before, and `reason` reports the fall.
    bounds: list[float]
    reason: StopReason


def iterate(
    step: Callable[[S], S],
    state: S,
    *,
    max_iter: int,
    tol: float,
    accelerator: Accelerator | None = None,
    exhausted: Callable[[S], bool] = lambda state: False,
    rounding: Callable[[S], float] = relative_rounding,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Run[S]:
    """Apply ``step`` until the objective rises by less than ``tol``.

    A plain step that ends below its start by no more than ``rounding(state)`` has only met
    rounding, which is convergence; one that ends further below is wrong.

    A step from an accelerated start that ends below the best objective so far, or cannot be
    computed, is thrown away, and the accelerator is asked for another start. Small rises only
    count as convergence twice in a row, or once after a plain start: an accelerated start can be
    unlucky. A saddle looks like convergence, so before the loop believes it, one step starts from
    the accelerator's probe.
    """
    memory = None if accelerator is None else accelerator.begin(state)
    at = Position(state, state, memory, True, 0, False, [])
    found = checkpoint.load(at) if checkpoint else None
    if found is not None:
        at, reason = found
        if reason:
            if checkpoint and reason not in StopReason.__members__:
                raise checkpoint.file.damaged(f"{reason!r} is no reason to stop")
            return Run(at.best, at.bounds, StopReason[reason])
    with progress or Progress(0, ""):
        for _ in range(max_iter - len(at.bounds)):
            slack = tol + rounding(at.best) if math.isfinite(at.best.bound) else math.inf
            at, ended = _advance(step, at, tol, slack, accelerator, exhausted)
            if progress:
                progress.advance(at.bounds[-1])
            if checkpoint and (ended or checkpoint.due(len(at.bounds))):
                checkpoint.save(at, ended.name if ended else "")
            if ended:
                return Run(at.best, at.bounds, ended)
    return Run(at.best, at.bounds, StopReason.MAX_ITER)


def _advance(
    step: Callable[[S], S],
    at: Position,
    tol: float,
    slack: float,
    accelerator: Accelerator | None,
    exhausted: Callable[[S], bool],
) -> tuple[Position, StopReason | None]:
    """One iteration: where the loop stands after it, and whether it ends there."""
    best: Any = at.best
    result, trouble = _tried(step, at, slack)
    accepted = result is not None and not result.bound < best.bound
    rise = result.bound - best.bound if result is not None and accepted else 0.0
    best = result if accepted else best
    quiet = at.quiet + 1 if rise <= tol else 0
    here = Position(best, best, at.memory, True, quiet, False, [*at.bounds, best.bound])
    if trouble is not None and at.plain:
        return here, trouble
    if exhausted(best):
        return here, StopReason.NOTHING_LEFT
    if (at.probing and rise <= tol) or (at.plain and not accepted) or (not accelerator and quiet):
        return here, StopReason.CONVERGED
    if accelerator is None:
        return here, None
    if accepted:
        memory, following = accelerator.propose(at.memory, at.start, result)
    else:
        memory, following = accelerator.retreat(at.memory, best)
    if quiet and (at.plain or (quiet >= 2 and accepted)):
        memory, following = accelerator.probe(memory, best)
        here = here._replace(probing=True)
    return here._replace(start=following, memory=memory, plain=following is best), None


def _tried(
    step: Callable[[S], S], at: Position, slack: float
) -> tuple[S | None, StopReason | None]:
    """The step's result, unless it is of no use, and what was wrong with it."""
    try:
        result = step(at.start)
    except decomposition_errors():  # too far out for a decomposition
        if not at.bounds:
            raise  # there is nothing to fall back on
        return None, StopReason.DECOMPOSITION_FAILED
    except ArithmeticError:  # what NumPy calls NaN or infinity, Python's own numbers raise
        if not at.bounds:
            raise
        return None, StopReason.NOT_A_NUMBER
    if not math.isfinite(result.bound):
        return None, StopReason.NOT_A_NUMBER
    return result, StopReason.FELL if result.bound < at.best.bound - slack else None
