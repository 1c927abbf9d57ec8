"""The only iteration loop: it owns stopping, acceleration, progress and checkpoints.

A method hands over ``step``, a pure function from a state to a better state. A state is
any object with a ``bound``, the objective that may never fall.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np

from .checkpoint import Position, Stage
from .progress import Progress

State = Any


class StopReason(Enum):
    """Why the loop ended; the value is the sentence a user reads."""

    CONVERGED = "converged: a whole iteration raised the objective by less than `tol` asks for"
    MAX_ITER = (
        "stopped by `max_iter` before converging: raise `max_iter`, or `tol` for a rougher fit"
    )
    NOTHING_LEFT = "every variable left the model: the data show no common structure at this noise"
    NOTHING_FOUND = "no set of variables is more probable than none"
    EXHAUSTED = (
        "under these constraints nothing is left to explain: ask for fewer components, or let "
        "them share variables"
    )

    def __str__(self) -> str:
        return self.value


class Accelerator(Protocol):
    """Proposes where the next step should start; the loop checks that it pays."""

    def propose(self, start: State, result: State) -> State:
        """A start for the next step, after ``result = step(start)`` was accepted."""

    def retreat(self, best: State) -> State:
        """A start for the next step, after the last proposal made the objective fall."""

    def probe(self, best: State) -> State:
        """A start far along the last step: at a maximum it cannot pay, at a saddle it does."""

    def remembered(self) -> dict[str, Any]:
        """All that later proposals depend on, by name."""

    def restore(self, memory: dict[str, Any], like: State) -> None:
        """Undo `remembered`; arrays become of the kind of ``like``."""


class Run(NamedTuple):
    state: State
    bounds: list[float]  # one per step, never falling
    reason: StopReason


def iterate(
    step: Callable[[State], State],
    state: State,
    *,
    max_iter: int,
    tol: float,
    accelerator: Accelerator | None = None,
    exhausted: Callable[[State], bool] = lambda state: False,
    progress: Progress | None = None,
    checkpoint: Stage | None = None,
) -> Run:
    """Apply ``step`` until the objective rises by less than ``tol``.

    A step from an accelerated start that ends below the best objective so far is thrown
    away, and the accelerator is asked for another start. Small rises only count as
    convergence twice in a row, or once after a plain start (``start is best``): an
    accelerated start can be unlucky. A saddle looks like convergence, so before the loop
    believes it, one step starts from the accelerator's probe.
    """
    at = Position(state, state, [], 0, False)
    found = checkpoint.load(state, accelerator) if checkpoint else None
    if found is not None:
        at, reason = found
        if reason:
            return Run(at.best, at.bounds, StopReason[reason])
    with progress or Progress(0, ""):
        for _ in range(max_iter - len(at.bounds)):
            at, ended = _advance(step, at, tol, accelerator, exhausted)
            if progress:
                progress.advance(at.bounds[-1])
            if checkpoint and (ended or checkpoint.due(len(at.bounds))):
                checkpoint.save(at, accelerator, ended.name if ended else "")
            if ended:
                return Run(at.best, at.bounds, ended)
    return Run(at.best, at.bounds, StopReason.MAX_ITER)


def _advance(
    step: Callable[[State], State],
    at: Position,
    tol: float,
    accelerator: Accelerator | None,
    exhausted: Callable[[State], bool],
) -> tuple[Position, StopReason | None]:
    """One iteration: where the loop stands after it, and whether it ends there."""
    start, best, bounds, quiet, probing = at
    plain = start is best
    try:
        result = step(start)
    except np.linalg.LinAlgError:  # too far out for a decomposition: no better than a fall
        if not bounds:
            raise
        result = best._replace(bound=-math.inf)
    rise = result.bound - best.bound
    fell = not rise >= 0  # an overflow is a fall too
    if not fell:
        best = result
    bounds = [*bounds, best.bound]
    quiet = quiet + 1 if rise <= tol else 0
    here = Position(best, best, bounds, quiet, False)
    if exhausted(best):
        return here, StopReason.NOTHING_LEFT
    if (probing and not rise > tol) or (plain and fell) or (accelerator is None and quiet):
        return here, StopReason.CONVERGED
    if accelerator is None:
        return here, None
    following = accelerator.retreat(best) if fell else accelerator.propose(start, result)
    if quiet and (plain or (quiet >= 2 and not fell)):
        return here._replace(start=accelerator.probe(best), probing=True), None
    return here._replace(start=following), None
