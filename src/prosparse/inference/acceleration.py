"""Acceleration of fixed-point iterations, including escape from saddles.

A fixed-point iteration x <- g(x) converges slowly along a few directions. An accelerator combines
previous iterations and proposes the start of the next iteration. Near a saddle of the objective,
such combinations can lead back to the saddle, and the objective decreases. The loop then calls
`retreat`, which extrapolates the last step, four times as far as the last successful extrapolation.
Without extrapolation, iterations can stay near a saddle for hundreds of steps; with it, they leave
the saddle within a few dozen.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Any, Generic, NamedTuple, TypeVar

import numpy as np
from array_api_compat import device

from ..data.arrays import Array, Namespace, from_numpy, to_numpy, with_row

State = Any  # state of a model, with the fields read by ``pack``

MIN_RETREAT, MIN_PROBE = 2.0, 16.0  # extrapolation factors, in units of the last step

# Named tuple with all quantities on which later proposals depend. Its fields include ``proposal``
# (the vector x from which the current step started), ``has_proposal``, ``stretch`` (the last
# extrapolation factor) and ``stretching`` (whether the current step starts from an extrapolation).
M = TypeVar("M", bound=Any)


class Extrapolation(ABC, Generic[M]):
    """Base class of accelerators over a flat vector.

    The loop verifies that the objective increases. The memory of an accelerator is a named tuple
    that every function takes and returns and that checkpoints store.

    ``pack`` converts a state to a vector, and ``unpack`` replaces the packed values of a state by
    those of a vector.
    """

    size: int  # number of iterations in the history

    def __init__(
        self,
        pack: Callable[[State], Array],
        unpack: Callable[[Array, State], State],
        xp: Namespace,
    ):
        self.pack, self.unpack, self.xp = pack, unpack, xp

    @abstractmethod
    def begin(self, state: State) -> M:
        """Return the memory before the first step."""

    @abstractmethod
    def _combine(self, memory: M, start: State, result: State) -> tuple[M, State]:
        """Return the memory and the proposal after an accepted step."""

    @abstractmethod
    def _extrapolate(self, memory: M, factor: float) -> tuple[M, Array]:
        """Return the memory and the vector ``factor`` steps beyond the last result."""

    @abstractmethod
    def _has_step(self, memory: M) -> bool:
        """Return whether there is a step to extrapolate."""

    @abstractmethod
    def _forget(self, memory: M) -> M:
        """Return the memory without its history."""

    def propose(self, memory: M, start: State, result: State) -> tuple[M, State]:
        """Update the memory and propose a start after an accepted step."""
        if memory.stretching:  # the extrapolation was accepted; the next one is longer
            memory = memory._replace(stretch=4.0 * memory.stretch, stretching=False)
        return self._combine(memory, start, result)

    def retreat(self, memory: M, best: State) -> tuple[M, State]:
        """Update the memory and the start after a failed proposal."""
        if memory.stretching or not self._has_step(memory):  # the extrapolation also failed
            return self._forget(memory)._replace(stretch=1.0, stretching=False), best
        return self._stretch(memory, max(memory.stretch, MIN_RETREAT), best)

    def probe(self, memory: M, best: State) -> tuple[M, State]:
        """Propose a start far along the last step, to leave a saddle."""
        if not self._has_step(memory):
            return memory, best
        return self._stretch(memory, max(memory.stretch, MIN_PROBE), best)

    def _stretch(self, memory: M, factor: float, best: State) -> tuple[M, State]:
        memory, vector = self._extrapolate(memory, factor)
        return self._continue_at(memory._replace(stretch=factor, stretching=True), vector, best)

    def _continue_at(self, memory: M, vector: Array, state: State) -> tuple[M, State]:
        return memory._replace(proposal=vector, has_proposal=True), self.unpack(vector, state)

    def _zeros(self, state: State, *shape: int) -> Array:
        """Return zeros whose last axis has the length of the packed vector."""
        vector = self.pack(state)
        kind = {"dtype": vector.dtype, "device": device(vector)}
        return self.xp.zeros((*shape, vector.shape[0]), **kind)


class AndersonMemory(NamedTuple):
    """Memory of `Anderson`; the two large arrays are updated by row."""

    ends: Array  # (size, N) the last results g(x), a ring buffer
    steps: Array  # (size, N) the last steps g(x) - x
    products: np.ndarray  # (size, size) inner products of the steps
    n_steps: int  # number of steps since the history was cleared
    latest: int  # row of the last step, -1 before the first
    proposal: Array  # (N,)
    has_proposal: bool
    stretch: float
    stretching: bool


class Anderson(Extrapolation[AndersonMemory]):
    """Anderson acceleration.

    The proposal combines the last results g(x_i) with weights that sum to one and minimise the norm
    of the combined steps g(x_i) - x_i. For a linear g, the proposal is the fixed point.
    """

    size = 6

    def begin(self, state: State) -> AndersonMemory:
        ends, steps = (self._zeros(state, self.size) for _ in range(2))
        products = np.zeros((self.size, self.size))
        return AndersonMemory(ends, steps, products, 0, -1, self._zeros(state), False, 1.0, False)

    def _combine(
        self, memory: AndersonMemory, start: State, result: State
    ) -> tuple[AndersonMemory, State]:
        end = self.pack(result)
        x = memory.proposal if memory.has_proposal else self.pack(start)
        memory = self._append(memory, end, end - x)
        m = min(memory.n_steps, self.size)
        gram = memory.products[:m, :m]
        size = float(np.trace(gram))
        if m == 1 or not 0.0 < size < np.inf:  # one step, or steps of zero length
            return memory._replace(proposal=end, has_proposal=True), result
        # The weights are proportional to the solution of (F F') w = 1. The ridge regularises nearly
        # equal steps.
        weights = np.linalg.solve(gram / size + 1e-10 * np.eye(m), np.ones(m))
        weights = from_numpy(weights / weights.sum(), end, end.dtype)
        return self._continue_at(memory, weights @ memory.ends[:m, :], result)

    def _extrapolate(self, memory: AndersonMemory, factor: float) -> tuple[AndersonMemory, Array]:
        end, step = memory.ends[memory.latest, :], memory.steps[memory.latest, :]
        return self._forget(memory), end + factor * step

    def _has_step(self, memory: AndersonMemory) -> bool:
        return memory.latest >= 0

    def _forget(self, memory: AndersonMemory) -> AndersonMemory:
        return memory._replace(n_steps=0, has_proposal=False)

    def _append(self, memory: AndersonMemory, end: Array, step: Array) -> AndersonMemory:
        row = memory.n_steps % self.size
        ends, steps = with_row(memory.ends, row, end), with_row(memory.steps, row, step)
        n_steps = memory.n_steps + 1
        m = min(n_steps, self.size)
        products = memory.products.copy()
        products[row, :m] = products[:m, row] = to_numpy(steps[:m, :] @ step)
        return memory._replace(
            ends=ends, steps=steps, products=products, n_steps=n_steps, latest=row
        )


A = TypeVar("A")


def over_loadings(
    field: str,
    xp: Namespace,
    accelerator: Callable[
        [Callable[[State], Array], Callable[[Array, State], State], Namespace], A
    ],
) -> A:
    """Accelerate a factor model over its loadings ``state.<field>`` and noise.

    One step determines all other parts of the state from these.
    """

    def pack(state: State) -> Array:
        W = getattr(state, field)
        log_sigma2 = xp.full(1, math.log(state.sigma2), dtype=W.dtype, device=device(W))
        return xp.concat([xp.reshape(W, (-1,)), log_sigma2])

    def unpack(vector: Array, state: State) -> State:
        W = xp.reshape(vector[:-1], getattr(state, field).shape)
        # With an exact fit, log sigma2 decreases without bound; its change per iteration is
        # limited.
        change = max(-2.0, min(2.0, float(vector[-1]) - math.log(state.sigma2)))
        sigma2 = state.sigma2 * math.exp(change)
        return state._replace(**{field: W, "sigma2": sigma2})

    return accelerator(pack, unpack, xp)
