"""A quasi-Newton method for fixed points that leaves saddles instead of walking back to them.

A fixed-point iteration x <- g(x) crawls along a few slow directions. What the last steps
f = g(x) - x changed by, df, where x changed by dx, tells how g bends the space of these changes: in
an orthonormal basis of the dx, f has the Jacobian J, a matrix of a few rows. Newton's method goes
-J^-1 f in that space. Anderson acceleration does nearly the same (see ``inference.acceleration``).

Near a maximum of the objective the eigenvalues of J are between -1 and 0, and the closer to 0, the
slower the direction. A positive one belongs to a direction along which the objective curves
upwards: a saddle, which plain iterations leave slowly and Newton's method does not leave at all, as
it looks for f = 0. So every eigenvalue is taken to be negative: along such a direction the step is
as long, and leads away. (Dauphin et al. 2014, "Identifying and attacking the saddle point problem
in high-dimensional non-convex optimization".)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from ...data.arrays import Array, Namespace, from_numpy, to_numpy, with_row

State = Any  # a model's, with the fields that ``pack`` knows

# How many times as long as plain ones steps along a slow direction may be: at first, at least, and
# how that changes where a step paid and where it did not. What is slower still is known too badly
# from a few changes.
_LONGEST, _LEAST = 30.0, 10.0
_LONGER, _SHORTER = 1.2, 0.25
# Changes of x that have less of their own than this share of the largest, squared, are left out.
_OF_ITS_OWN = 1e-8


class Changes(NamedTuple):
    """What later proposals depend on. The two large arrays are written to row by row."""

    dx: Array  # (memory, N): changes of x between accepted steps, of unit length, a ring
    df: Array  # (memory, N): what the step f = g(x) - x changed by, divided by the same length
    gram: np.ndarray  # (memory, memory) products of the dx with each other
    cross: np.ndarray  # (memory, memory) products of the dx with the df
    filled: int  # changes since the history was last dropped
    x: Array  # (N,) where the last accepted step started
    f: Array  # (N,) that step
    has_step: bool  # whether there was one
    chosen: Array  # (N,) x of the step under way, where the accelerator chose it
    has_chosen: bool
    longest: float  # see `_LONGEST`
    stretch: float  # how far `retreat` goes, in units of the last step
    stretching: bool  # whether the step under way starts from there


class Secants:
    """Acceleration over ``pack(state)``, a flat vector; ``unpack(vector, state)`` undoes it.

    Only the first numbers of it count where vectors are compared, so many as ``counted`` says (all
    by default): those after them are linear in them, and go along. ``ahead(result)`` is where a
    step leads that is known to go further than ``pack(result)``; f is then the way to there.
    """

    def __init__(
        self,
        pack: Callable[[State], Array],
        unpack: Callable[[Array, State], State],
        xp: Namespace,
        size: int = 4,
        counted: int | None = None,
        ahead: Callable[[State], Array] | None = None,
    ):
        self.pack, self.unpack, self.xp, self.size = pack, unpack, xp, size
        self.counted, self.ahead = counted, ahead

    def begin(self, state: State) -> Changes:
        vector = self.pack(state)
        like = {"dtype": vector.dtype, "device": device(vector)}
        shape = (self.size, vector.shape[0])
        dx, df = (self.xp.zeros(shape, **like) for _ in range(2))
        x, f, chosen = (self.xp.zeros(vector.shape[0], **like) for _ in range(3))
        gram, cross = (np.zeros((self.size, self.size)) for _ in range(2))
        return Changes(dx, df, gram, cross, 0, x, f, False, chosen, False, _LONGEST, 1.0, False)

    def propose(self, memory: Changes, start: State, result: State) -> tuple[Changes, State]:
        if memory.stretching:  # the stretched start paid: be bolder next time
            memory = memory._replace(stretch=4.0 * memory.stretch, stretching=False)
        end = (self.ahead or self.pack)(result)
        x = memory.chosen if memory.has_chosen else self.pack(start)
        f = end - x
        if memory.has_step:
            memory = self._remember(memory, x - memory.x, f - memory.f)
        longest = memory.longest * (_LONGER if memory.has_chosen else 1.0)
        memory = memory._replace(x=x, f=f, has_step=True, longest=longest)
        m = min(memory.filled, self.size)
        if m == 0:
            following = self.unpack(end, result) if self.ahead else result
            return memory._replace(chosen=end, has_chosen=True), following
        along_dx, along_df = (from_numpy(part, x, x.dtype) for part in self._combination(memory, m))
        there = end + along_dx @ memory.dx + along_df @ memory.df
        return self._go(memory, there, result)

    def _combination(self, memory: Changes, m: int) -> tuple[np.ndarray, np.ndarray]:
        """How much of the dx and of the df the step ahead takes in addition to f; nothing of the
        rows that are not filled, which take part all the same: libraries that compile their
        operations do that once for every shape."""
        gram, cross = memory.gram[:m, :m], memory.cross[:m, :m]
        lengths, turn = np.linalg.eigh(gram)
        kept = lengths > _OF_ITS_OWN * lengths[-1]
        B = turn[:, kept] / np.sqrt(lengths[kept])  # B' dx is orthonormal
        J = B.T @ cross @ B
        r = B.T @ self._products(memory.dx, memory.f)[:m]
        rates, vectors = np.linalg.eig(J)
        # Real in theory, as J is similar to a symmetric matrix; of a few changes only nearly so.
        longer = 1.0 / np.maximum(np.abs(rates.real), 1.0 / memory.longest)
        newton = np.real(vectors @ (longer * np.linalg.solve(vectors, r.astype(complex))))
        # In the space of the dx the step is `newton`; that alone changes f by J newton there, which
        # is not to be taken twice, and outside by what the df have beyond the dx.
        along = np.zeros((2, self.size))
        along[0, :m], along[1, :m] = B @ (newton - r - J @ newton), B @ newton
        return along[0], along[1]

    def retreat(self, memory: Changes, best: State) -> tuple[Changes, State]:
        memory = memory._replace(longest=max(_LEAST, _SHORTER * memory.longest))
        if memory.stretching or not memory.has_step:  # stretching did not pay either
            forgetful = memory._replace(filled=0, has_step=False, has_chosen=False)
            return forgetful._replace(stretch=1.0, stretching=False), best
        return self._stretch(memory, max(memory.stretch, 2.0), best)

    def probe(self, memory: Changes, best: State) -> tuple[Changes, State]:
        if not memory.has_step:
            return memory, best
        return self._stretch(memory, max(memory.stretch, 16.0), best)

    def _stretch(self, memory: Changes, factor: float, best: State) -> tuple[Changes, State]:
        far = memory.x + (1.0 + factor) * memory.f
        return self._go(memory._replace(stretch=factor, stretching=True), far, best)

    def _go(self, memory: Changes, vector: Array, state: State) -> tuple[Changes, State]:
        return memory._replace(chosen=vector, has_chosen=True), self.unpack(vector, state)

    def _remember(self, memory: Changes, dx: Array, df: Array) -> Changes:
        length = float(self.xp.linalg.vector_norm(dx[: self.counted]))
        if not 0.0 < length < np.inf:
            return memory
        dx, df = dx / length, df / length
        place, m = memory.filled % self.size, min(memory.filled + 1, self.size)
        gram, cross = memory.gram.copy(), memory.cross.copy()
        all_dx, all_df = with_row(memory.dx, place, dx), with_row(memory.df, place, df)
        gram[place, :m] = gram[:m, place] = self._products(all_dx, dx)[:m]
        cross[:m, place] = self._products(all_dx, df)[:m]
        cross[place, :m] = self._products(all_df, dx)[:m]
        return memory._replace(
            dx=all_dx, df=all_df, gram=gram, cross=cross, filled=memory.filled + 1
        )

    def _products(self, rows: Array, vector: Array) -> np.ndarray:
        """Of every row with the vector, on the host."""
        products: np.ndarray = to_numpy(rows[:, : self.counted] @ vector[: self.counted])
        return products.astype(float)
