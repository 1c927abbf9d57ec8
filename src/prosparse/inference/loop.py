"""Iteration loop of all methods, with acceleration and checkpoints.

A method provides ``step``, a pure function from a state to a better state. A state is a named tuple
with the field ``bound``, the objective, which must be non-decreasing. The loop verifies this
condition: a decreasing or non-finite objective, and a failed decomposition, end the loop with
specific stop reasons.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, Generic, NamedTuple, Protocol, TypeVar

import numpy as np

from ..data.arrays import decomposition_errors
from .acceleration import Extrapolation
from .checkpoint import Stage
from .progress import Progress


class HasBound(Protocol):
    """State of a model, whose field ``bound`` is the objective."""

    @property
    def bound(self) -> float: ...


S = TypeVar("S", bound=HasBound)


_DOUBLE = float(np.finfo(float).eps)
_SUM_ERROR = 8.0  # rounding error of a sum, in units of epsilon


def relative_rounding(state: HasBound, epsilon: float = _DOUBLE) -> float:
    """Compute the rounding error of an objective with ten accurate digits.

    ``epsilon`` is the relative rounding error of products with the data matrix.
    """
    return (1e-10 + _SUM_ERROR * epsilon) * abs(state.bound)


def residual_rounding(state: HasBound, total: float, noise: float, epsilon: float) -> float:
    """Compute the rounding error of a likelihood with a residual of sums.

    The residual is a difference of sums of magnitude ``total``, divided by the variance ``noise``.
    """
    return relative_rounding(state, epsilon) + _SUM_ERROR * epsilon * total / noise


class StopReason(Enum):
    """Reason for the end of the iterations, with a message for users."""

    CONVERGED = "converged: the objective increased by less than `tol` in one iteration"
    MAX_ITER = "reached `max_iter` before convergence: increase `max_iter` or `tol`"
    NOT_CERTIFIED = (
        "stopped by `time_limit` or Ctrl-C before optimality was certified: see `optimality_gap_`. "
        "Increase `time_limit` or `gap`"
    )
    EMPTY_MODEL = (
        "no variable remains in the model: the data show no shared variance at this noise level"
    )
    NO_SIGNAL = "no set of variables is significantly better than the empty set"
    EXHAUSTED = (
        "the constraints leave no variance for further components: reduce `n_components` or allow "
        "shared variables"
    )
    DECREASED = (
        "stopped because the objective decreased; the best result so far is returned. Set "
        "`scale=True` if column variances differ strongly, or drop one of nearly equal columns"
    )
    NOT_FINITE = (
        "stopped because the objective was not finite; the best result so far is returned. Rescale "
        "X to entries near 1 and check for nearly constant columns"
    )
    DECOMPOSITION_FAILED = (
        "stopped because a matrix decomposition failed; the best result so far is returned. Drop "
        "one of nearly equal columns or reduce `n_components`"
    )

    def __str__(self) -> str:
        return self.value

    @property
    def unfinished(self) -> bool:
        """Whether the loop ended before convergence."""
        return self in _UNFINISHED


# Stop reasons in order of increasing severity.
_UNFINISHED = (
    StopReason.NOT_CERTIFIED,
    StopReason.MAX_ITER,
    StopReason.DECREASED,
    StopReason.DECOMPOSITION_FAILED,
    StopReason.NOT_FINITE,
)


def worst(reasons: list[StopReason]) -> StopReason:
    """Return the most severe of several stop reasons."""
    severity = {reason: index for index, reason in enumerate(_UNFINISHED)}
    unfinished = [reason for reason in reasons if reason.unfinished]
    return max(unfinished, key=severity.__getitem__) if unfinished else StopReason.CONVERGED


class Position(NamedTuple):
    """Position of the loop between iterations, stored in checkpoints."""

    start: Any  # start of the next step
    best: Any
    memory: Any  # memory of the accelerator, or None
    plain: bool  # whether ``start`` is the best state, not a proposal
    n_small: int  # number of consecutive increases of at most ``tol``
    probing: bool  # whether ``start`` is a probe of the accelerator
    bounds: list[float]  # see `Run`


class Run(NamedTuple, Generic[S]):
    """Result of the loop."""

    state: S  # the best
    # Objective of the best state after each iteration; non-decreasing. If a step decreases the
    # objective, it is rejected, the previous value is repeated, and `reason` reports the decrease.
    bounds: list[float]
    reason: StopReason


def iterate(
    step: Callable[[S], S],
    state: S,
    *,
    max_iter: int,
    tol: float,
    accelerator: Extrapolation[Any] | None = None,
    exhausted: Callable[[S], bool] = lambda state: False,
    rounding: Callable[[S], float] = relative_rounding,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Run[S]:
    """Apply ``step`` until the objective increases by at most ``tol``.

    If a plain step decreases the objective by at most ``tol + rounding(state)``, the loop has
    converged. A larger decrease is an error and ends the loop, as does an ``exhausted`` state.

    If a step from an accelerated start fails or decreases the objective, it is discarded, and the
    accelerator proposes another start. Because an accelerated start may be poor, convergence
    requires two consecutive small increases, or one after a plain start. Because a saddle resembles
    convergence, one step from the accelerator's probe precedes the end.
    """
    memory = None if accelerator is None else accelerator.begin(state)
    position = Position(state, state, memory, True, 0, False, [])
    saved = checkpoint.load(position) if checkpoint else None
    if saved is not None:
        position, reason = saved
        if reason:
            if checkpoint and reason not in StopReason.__members__:
                raise checkpoint.file.damage_error(f"unknown stop reason {reason!r}")
            return Run(position.best, position.bounds, StopReason[reason])
    with progress or Progress(0, ""):
        for _ in range(max_iter - len(position.bounds)):
            slack = (
                tol + rounding(position.best) if math.isfinite(position.best.bound) else math.inf
            )
            position, stop = _advance(step, position, tol, slack, accelerator, exhausted)
            if progress:
                progress.advance(position.bounds[-1])
            if checkpoint and (stop or checkpoint.due(len(position.bounds))):
                checkpoint.save(position, stop.name if stop else "")
            if stop:
                return Run(position.best, position.bounds, stop)
    return Run(position.best, position.bounds, StopReason.MAX_ITER)


def _advance(
    step: Callable[[S], S],
    position: Position,
    tol: float,
    slack: float,
    accelerator: Extrapolation[Any] | None,
    exhausted: Callable[[S], bool],
) -> tuple[Position, StopReason | None]:
    """Run one iteration; return the new position and any stop reason."""
    best: Any = position.best
    result, failure = _try_step(step, position, slack)
    accepted = result is not None and not result.bound < best.bound
    increase = result.bound - best.bound if result is not None and accepted else 0.0
    best = result if accepted else best
    n_small = position.n_small + 1 if increase <= tol else 0
    new = Position(
        best, best, position.memory, True, n_small, False, [*position.bounds, best.bound]
    )
    if failure is not None and position.plain:
        return new, failure
    if exhausted(best):
        return new, StopReason.EMPTY_MODEL
    if (
        (position.probing and increase <= tol)
        or (position.plain and not accepted)
        or (not accelerator and n_small)
    ):
        return new, StopReason.CONVERGED
    if accelerator is None:
        return new, None
    if accepted:
        memory, start = accelerator.propose(position.memory, position.start, result)
    else:
        memory, start = accelerator.retreat(position.memory, best)
    if n_small and (position.plain or (n_small >= 2 and accepted)):
        memory, start = accelerator.probe(memory, best)
        new = new._replace(probing=True)
    return new._replace(start=start, memory=memory, plain=start is best), None


def _try_step(
    step: Callable[[S], S], position: Position, slack: float
) -> tuple[S | None, StopReason | None]:
    """Run a step; return the result or None, and the reason for a failure."""
    try:
        result = step(position.start)
    except decomposition_errors():
        if not position.bounds:
            raise  # There is no earlier state to return.
        return None, StopReason.DECOMPOSITION_FAILED
    except ArithmeticError:  # Python floats raise errors where NumPy returns NaN.
        if not position.bounds:
            raise
        return None, StopReason.NOT_FINITE
    if not math.isfinite(result.bound):
        return None, StopReason.NOT_FINITE
    return result, StopReason.DECREASED if result.bound < position.best.bound - slack else None
