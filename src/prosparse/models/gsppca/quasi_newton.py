"""Quasi-Newton acceleration of fixed-point iterations.

Let f = g(x) - x be the step of a fixed-point iteration. Pairs of changes dx of x and df of the step
determine the Jacobian J of f in an orthonormal basis of the dx. Newton's method moves by -J^-1 f in
that subspace; Anderson acceleration (`inference.acceleration`) does nearly the same.

Near a maximum of the objective, the eigenvalues of J lie between -1 and 0; directions with
eigenvalues near 0 converge slowly. A positive eigenvalue indicates positive curvature, that is, a
saddle. Newton's method converges to the saddle because it solves f = 0. Here, the absolute value of
each eigenvalue is used, so that the step leads away from the saddle [D14].

[D14]  Y. Dauphin et al. Identifying and attacking the saddle point problem in high-dimensional
       non-convex optimization. NeurIPS 2014.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ...data.arrays import Array, Namespace, from_numpy, to_numpy, with_row
from ...inference.acceleration import Extrapolation, State

# Maximum length of a step along a slow direction, relative to the plain step: initial value, lower
# limit, and factors after accepted and rejected proposals. Even slower directions cannot be
# estimated from a few changes.
INITIAL_MAX_LENGTH, MIN_MAX_LENGTH = 30.0, 10.0
GROWTH, SHRINKAGE = 1.2, 0.25
# Directions of dx whose squared norm is below this proportion of the largest are ignored.
MIN_RELATIVE_NORM = 1e-8


class QuasiNewtonMemory(NamedTuple):
    """Memory of `QuasiNewton`; the two large arrays are updated by row."""

    dx: Array  # (size, N) normalised changes of x between accepted steps; a ring buffer
    df: Array  # (size, N) changes of the step f, divided by the same lengths
    gram: np.ndarray  # (size, size) inner products of the dx
    cross: np.ndarray  # (size, size) inner products of the dx with the df
    n_changes: int  # number of changes since the history was cleared
    x: Array  # (N,) start of the last accepted step
    f: Array  # (N,) the last accepted step
    has_step: bool
    proposal: Array  # (N,)
    has_proposal: bool
    max_length: float
    stretch: float
    stretching: bool


class QuasiNewton(Extrapolation[QuasiNewtonMemory]):
    """Quasi-Newton acceleration with absolute eigenvalues.

    ``n_compared`` leading entries of a vector enter inner products, by default all; the other
    entries are linear in these.
    """

    size = 4

    def __init__(
        self,
        pack: Callable[[State], Array],
        unpack: Callable[[Array, State], State],
        xp: Namespace,
        n_compared: int | None = None,
    ):
        super().__init__(pack, unpack, xp)
        self.n_compared = n_compared

    def begin(self, state: State) -> QuasiNewtonMemory:
        dx, df = (self._zeros(state, self.size) for _ in range(2))
        x, f, proposal = (self._zeros(state) for _ in range(3))
        gram, cross = (np.zeros((self.size, self.size)) for _ in range(2))
        return QuasiNewtonMemory(
            dx, df, gram, cross, 0, x, f, False, proposal, False, INITIAL_MAX_LENGTH, 1.0, False
        )

    def _combine(
        self, memory: QuasiNewtonMemory, start: State, result: State
    ) -> tuple[QuasiNewtonMemory, State]:
        end = self.pack(result)
        x = memory.proposal if memory.has_proposal else self.pack(start)
        f = end - x
        if memory.has_step:
            memory = self._append(memory, x - memory.x, f - memory.f)
        max_length = memory.max_length * (GROWTH if memory.has_proposal else 1.0)
        memory = memory._replace(x=x, f=f, has_step=True, max_length=max_length)
        m = min(memory.n_changes, self.size)
        if m == 0:
            return memory._replace(proposal=end, has_proposal=True), result
        along_dx, along_df = (from_numpy(part, x, x.dtype) for part in self._weights(memory, m))
        proposal = end + along_dx @ memory.dx + along_df @ memory.df
        return self._continue_at(memory, proposal, result)

    def _weights(self, memory: QuasiNewtonMemory, m: int) -> tuple[np.ndarray, np.ndarray]:
        """Compute the weights of the dx and the df in the proposal.

        The weight of empty rows is zero. Empty rows are included because libraries that compile
        operations would compile again for each shape.
        """
        gram, cross = memory.gram[:m, :m], memory.cross[:m, :m]
        values, vectors = np.linalg.eigh(gram)
        independent = values > MIN_RELATIVE_NORM * values[-1]
        B = vectors[:, independent] / np.sqrt(values[independent])  # B' dx is orthonormal
        J = B.T @ cross @ B
        r = B.T @ self._products(memory.dx, memory.f)[:m]
        # The eigenvalues are real in theory, because J is similar to a symmetric matrix. J is only
        # approximately symmetric if few changes are available.
        rates, basis = np.linalg.eig(J)
        length = 1.0 / np.maximum(np.abs(rates.real), 1.0 / memory.max_length)
        newton = np.real(basis @ (length * np.linalg.solve(basis, r.astype(complex))))
        # Within the span of the dx, the step is `newton` and changes f by J newton, which must not
        # be counted twice. Outside the span, f changes by the components of the df.
        weights = np.zeros((2, self.size))
        weights[0, :m], weights[1, :m] = B @ (newton - r - J @ newton), B @ newton
        return weights[0], weights[1]

    def retreat(self, memory: QuasiNewtonMemory, best: State) -> tuple[QuasiNewtonMemory, State]:
        max_length = max(MIN_MAX_LENGTH, SHRINKAGE * memory.max_length)
        return super().retreat(memory._replace(max_length=max_length), best)

    def _extrapolate(
        self, memory: QuasiNewtonMemory, factor: float
    ) -> tuple[QuasiNewtonMemory, Array]:
        return memory, memory.x + (1.0 + factor) * memory.f

    def _has_step(self, memory: QuasiNewtonMemory) -> bool:
        return memory.has_step

    def _forget(self, memory: QuasiNewtonMemory) -> QuasiNewtonMemory:
        return memory._replace(n_changes=0, has_step=False, has_proposal=False)

    def _append(self, memory: QuasiNewtonMemory, dx: Array, df: Array) -> QuasiNewtonMemory:
        length = float(self.xp.linalg.vector_norm(dx[: self.n_compared]))
        if not 0.0 < length < np.inf:
            return memory
        dx, df = dx / length, df / length
        row, m = memory.n_changes % self.size, min(memory.n_changes + 1, self.size)
        gram, cross = memory.gram.copy(), memory.cross.copy()
        all_dx, all_df = with_row(memory.dx, row, dx), with_row(memory.df, row, df)
        gram[row, :m] = gram[:m, row] = self._products(all_dx, dx)[:m]
        cross[:m, row] = self._products(all_dx, df)[:m]
        cross[row, :m] = self._products(all_df, dx)[:m]
        return memory._replace(
            dx=all_dx, df=all_df, gram=gram, cross=cross, n_changes=memory.n_changes + 1
        )

    def _products(self, rows: Array, vector: Array) -> np.ndarray:
        """Return the inner products of every row with the vector."""
        products: np.ndarray = to_numpy(rows[:, : self.n_compared] @ vector[: self.n_compared])
        return products.astype(float)
