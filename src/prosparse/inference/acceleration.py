"""Anderson acceleration that can also leave a saddle.

A fixed-point iteration x <- g(x) crawls along a few slow directions. Anderson's method
combines the last few results g(x_i) so that the same combination of the steps g(x_i) - x_i is
as small as can be: for a linear g that is the fixed point itself. It is wrong near a saddle of
the objective, where the slow direction leads *away*: there the combination walks back towards
the saddle, and the objective falls. The loop then calls `retreat`, which instead goes on along
the last step, four times as far as the last time that paid. A saddle that holds plain
iterations for hundreds of passes is left in a few dozen.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np
from array_api_compat import device

from ..data.arrays import Array, Namespace, from_numpy, to_numpy, with_row

State = Any  # a model's, with the fields that ``pack`` knows


class Memory(NamedTuple):
    """What later proposals depend on. The two large arrays are written to row by row."""

    ends: Array  # (memory, N): the last results g(x), a ring
    steps: Array  # (memory, N): the last steps g(x) - x
    products: np.ndarray  # (memory, memory) of the steps with each other
    filled: int  # steps since the history was last dropped
    latest: int  # where in the ring the last step is; -1 before there is one
    chosen: Array  # (N,) x of the step under way, where the accelerator chose it
    has_chosen: bool
    stretch: float  # how far `retreat` goes, in units of the last step
    stretching: bool  # whether the step under way starts from there


class Anderson:
    """Acceleration over ``pack(state)``, a flat vector; ``unpack(vector, state)`` undoes it."""

    def __init__(
        self,
        pack: Callable[[State], Array],
        unpack: Callable[[Array, State], State],
        xp: Namespace,
        size: int = 6,
    ):
        self.pack, self.unpack, self.xp, self.size = pack, unpack, xp, size

    def begin(self, state: State) -> Memory:
        vector = self.pack(state)
        like = {"dtype": vector.dtype, "device": device(vector)}
        shape = (self.size, vector.shape[0])
        ends, steps = (self.xp.zeros(shape, **like) for _ in range(2))
        products = np.zeros((self.size, self.size))
        nothing = self.xp.zeros(vector.shape[0], **like)
        return Memory(ends, steps, products, 0, -1, nothing, False, 1.0, False)

    def propose(self, memory: Memory, start: State, result: State) -> tuple[Memory, State]:
        if memory.stretching:  # the stretched start paid: be bolder next time
            memory = memory._replace(stretch=4.0 * memory.stretch, stretching=False)
        end = self.pack(result)
        begun = memory.chosen if memory.has_chosen else self.pack(start)
        memory = self._remember(memory, end, end - begun)
        m = min(memory.filled, self.size)
        gram = memory.products[:m, :m]
        size = float(np.trace(gram))
        if m == 1 or not 0.0 < size < np.inf:  # nothing to combine, or nowhere left to go
            return memory._replace(chosen=end, has_chosen=True), result
        # Weights that add up to one and make the combined step shortest: proportional to the
        # solution of (F F') weights = 1. The ridge decides between steps that hardly differ.
        weights = np.linalg.solve(gram / size + 1e-10 * np.eye(m), np.ones(m))
        weights = from_numpy(weights / weights.sum(), end, end.dtype)
        return self._go(memory, weights @ memory.ends[:m, :], result)

    def retreat(self, memory: Memory, best: State) -> tuple[Memory, State]:
        if memory.stretching or memory.filled == 0:  # stretching did not pay either
            memory = memory._replace(stretch=1.0, stretching=False)
            return _forgetful(memory), best
        return self._stretch(memory, max(memory.stretch, 2.0), best)

    def probe(self, memory: Memory, best: State) -> tuple[Memory, State]:
        if memory.latest < 0:
            return memory, best
        return self._stretch(memory, max(memory.stretch, 16.0), best)

    def _stretch(self, memory: Memory, factor: float, best: State) -> tuple[Memory, State]:
        far = memory.ends[memory.latest, :] + factor * memory.steps[memory.latest, :]
        memory = _forgetful(memory)._replace(stretch=factor, stretching=True)
        return self._go(memory, far, best)

    def _go(self, memory: Memory, vector: Array, state: State) -> tuple[Memory, State]:
        return memory._replace(chosen=vector, has_chosen=True), self.unpack(vector, state)

    def _remember(self, memory: Memory, end: Array, step: Array) -> Memory:
        place = memory.filled % self.size
        ends, steps = with_row(memory.ends, place, end), with_row(memory.steps, place, step)
        filled = memory.filled + 1
        m = min(filled, self.size)
        products = memory.products.copy()
        products[place, :m] = products[:m, place] = to_numpy(steps[:m, :] @ step)
        return memory._replace(
            ends=ends, steps=steps, products=products, filled=filled, latest=place
        )


def _forgetful(memory: Memory) -> Memory:
    """Without the history: what follows comes from elsewhere."""
    return memory._replace(filled=0, has_chosen=False)


K = TypeVar("K")


def over_loadings(
    field: str,
    xp: Namespace,
    kind: Callable[[Callable[[State], Array], Callable[[Array, State], State], Namespace], K],
) -> K:
    """Acceleration of a factor model over its loadings ``state.<field>`` and log ``sigma2``; all
    other parts of the state follow within one step. ``kind`` is `Anderson` or another such
    class."""

    def pack(state: State) -> Array:
        M = getattr(state, field)
        log_sigma2 = xp.full(1, math.log(state.sigma2), dtype=M.dtype, device=device(M))
        return xp.concat([xp.reshape(M, (-1,)), log_sigma2])

    def unpack(vector: Array, state: State) -> State:
        M = xp.reshape(vector[:-1], getattr(state, field).shape)
        # An exact fit sends log sigma2 down a straight line: follow, but not out of sight.
        change = max(-2.0, min(2.0, float(vector[-1]) - math.log(state.sigma2)))
        sigma2 = state.sigma2 * math.exp(change)
        return state._replace(**{field: M, "sigma2": sigma2})

    return kind(pack, unpack, xp)
