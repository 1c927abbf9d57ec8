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
from typing import Any

import numpy as np
from array_api_compat import device

from ..data.arrays import host, in_kind, with_row

Array = Any
State = Any


# What there is to remember, and how it reads from a file.
_NUMBERS: dict[str, Callable[[Any], Any]] = {
    "stretch": float,
    "stretching": bool,
    "latest": int,
    "count": int,
    "products": np.array,
}
_ARRAYS = ("ends", "steps", "start")


class Anderson:
    """Acceleration over ``pack(state)``, a flat vector; ``unpack(vector, state)`` undoes it."""

    def __init__(
        self,
        pack: Callable[[State], Array],
        unpack: Callable[[Array, State], State],
        xp: Any,
        memory: int = 6,
    ):
        self.pack, self.unpack, self.xp, self.memory = pack, unpack, xp, memory
        self.stretch = 1.0  # how far `retreat` goes, in units of the last step
        self.stretching = False
        self.ends: Array = None  # (memory, N): the last results g(x), a ring
        self.steps: Array = None  # (memory, N): the last steps g(x) - x
        self.latest = 0  # where in the ring the last step is
        self.products = np.zeros((memory, memory))  # of the steps with each other
        self.forget()

    def forget(self) -> None:
        """Drop the history: what follows comes from elsewhere."""
        self.start: Array = None  # x of the step under way, where this class chose it
        self.count = 0

    def propose(self, start: State, result: State) -> State:
        if self.stretching:  # the stretched start paid: be bolder next time
            self.stretch *= 4.0
            self.stretching = False
        end = self.pack(result)
        self._remember(end, end - (self.pack(start) if self.start is None else self.start))
        m = min(self.count, self.memory)
        gram = self.products[:m, :m]
        size = float(np.trace(gram))
        if m == 1 or not 0.0 < size < np.inf:  # nothing to combine, or nowhere left to go
            self.start = end
            return result
        # Weights that add up to one and make the combined step shortest: proportional to the
        # solution of (F F') weights = 1. The ridge decides between steps that hardly differ.
        weights = np.linalg.solve(gram / size + 1e-10 * np.eye(m), np.ones(m))
        weights = in_kind(weights / weights.sum(), end, end.dtype)
        return self._go(weights @ self.ends[:m, :], result)

    def retreat(self, best: State) -> State:
        if self.stretching or self.count == 0:  # stretching did not pay either
            self.stretch, self.stretching = 1.0, False
            self.forget()
            return best
        return self._stretch(max(self.stretch, 2.0), best)

    def probe(self, best: State) -> State:
        return best if self.ends is None else self._stretch(max(self.stretch, 16.0), best)

    def remembered(self) -> dict[str, Any]:
        numbers = {name: np.array(getattr(self, name)) for name in _NUMBERS}
        arrays = {name: getattr(self, name) for name in _ARRAYS}
        return numbers | {name: array for name, array in arrays.items() if array is not None}

    def restore(self, memory: dict[str, Any], like: State) -> None:
        packed = self.pack(like)
        for name, kind in _NUMBERS.items():
            setattr(self, name, kind(memory[name]))
        for name in _ARRAYS:
            array = memory.get(name)
            setattr(self, name, None if array is None else in_kind(array, packed, packed.dtype))

    def _stretch(self, factor: float, best: State) -> State:
        latest = self.latest
        self.stretch, self.stretching = factor, True
        self.forget()
        return self._go(self.ends[latest, :] + factor * self.steps[latest, :], best)

    def _go(self, vector: Array, state: State) -> State:
        self.start = vector
        return self.unpack(vector, state)

    def _remember(self, end: Array, step: Array) -> None:
        if self.ends is None:
            shape = (self.memory, end.shape[0])
            like = {"dtype": end.dtype, "device": device(end)}
            self.ends, self.steps = self.xp.zeros(shape, **like), self.xp.zeros(shape, **like)
        place = self.latest = self.count % self.memory
        self.ends = with_row(self.ends, place, end)
        self.steps = with_row(self.steps, place, step)
        self.count += 1
        m = min(self.count, self.memory)
        self.products[place, :m] = self.products[:m, place] = host(self.steps[:m, :] @ step)


def over_loadings(field: str, xp: Any) -> Anderson:
    """Acceleration of a factor model over its loadings ``state.<field>`` and log ``sigma2``; all
    other parts of the state follow within one step."""

    def pack(state: State) -> Array:
        M = getattr(state, field)
        log_sigma2 = xp.full(1, math.log(state.sigma2), dtype=M.dtype, device=device(M))
        return xp.concat([xp.reshape(M, (-1,)), log_sigma2])

    def unpack(vector: Array, state: State) -> State:
        M = xp.reshape(vector[:-1], getattr(state, field).shape)
        # An exact fit sends log sigma2 down a straight line: follow, but not out of sight.
        change = max(-2.0, min(2.0, float(vector[-1]) - math.log(state.sigma2)))
        return state._replace(**{field: M, "sigma2": state.sigma2 * math.exp(change)})

    return Anderson(pack, unpack, xp)
