"""The form w'Cw of a table, C = X'X, and its deflations.

The greedy methods ask five things of C: products, some of its columns, a diagonal block, the
diagonal, and the leading eigenvector of a block. With few columns C itself is formed, once
(`Gram`); with many they are answered through X (`TableForm`), which is neither copied nor made
dense, and no p x p array appears.

Deflation by the orthonormal basis Q of the components found so far stands for P C P with
P = I - QQ' ([SB08] (18); with Q for the components themselves it is the "orthogonalised
projection deflation" of L. Mackey, NeurIPS 2008, and what R's nsprcomp maximises).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import eigh
from scipy.sparse.linalg import LinearOperator, eigsh

from ...data import Array, Operator
from ...data.arrays import from_numpy, is_numpy, to_numpy
from ...numerics.spectrum import new_direction

# On the host: weights, images Cw and blocks of C, positions of variables, and which of them.
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Up to this side a dense eigenvector of a matrix at hand costs less than Lanczos, and up to this
# one where Lanczos starts near it.
LANCZOS_SIDE, LANCZOS_SIDE_NEAR = 200, 100
# Residual of an eigenvector, relative to its value, where one nearby is known; the value is then
# right to the square of it.
NEAR_TOL = 1e-8
# Up to this side it is worth its while to form the matrix.
DENSE_SIDE = 600
# Up to this many columns C is formed, if the table is not much wider than high.
GRAM_WIDTH = 4000


class Quadratic(ABC):
    """A positive semi-definite p x p matrix C, known through what can be asked of it."""

    width: int
    rank_bound: int  # C has at most this rank

    @abstractmethod
    def matmul(self, W: Floats) -> Floats:
        """C W for W of shape (p, r)."""

    @abstractmethod
    def columns(self, S: Indices) -> Floats:
        """C[:, S], (p, |S|)."""

    @abstractmethod
    def block(self, S: Indices) -> Floats:
        """C[S, S]."""

    def cross(self, R: Indices, S: Indices) -> Floats:
        """C[R, S]."""
        return self.columns(S)[R]

    @abstractmethod
    def diagonal(self) -> Floats:
        """C_jj, (p,)."""

    @abstractmethod
    def leading(self, S: Indices, near: Floats | None = None) -> tuple[float, Floats]:
        """Largest eigenvalue of C[S, S] and its unit vector, (|S|,).

        With a vector ``near`` it, (|S|,), both take half as long, and the vector has eight digits.
        """

    @abstractmethod
    def deflated(self, w: Floats) -> Quadratic:
        """The form without direction w (and those removed before)."""

    @abstractmethod
    def factor(self, S: Indices) -> Floats | None:
        """Some A, (m, |S|), with A'A = C[S, S]; None if the table is not the host's, as A is as
        large."""

    @abstractmethod
    def restricted(self, S: Indices) -> Quadratic:
        """The form on the variables S alone."""

    def form(self, W: Floats) -> Floats:
        """w'Cw for every row of W, (r,)."""
        values: Floats = np.einsum("rp,pr->r", W, self.matmul(W.T))
        return values


class Gram(Quadratic):
    """C held as an array."""

    def __init__(self, C: Floats):
        self.C = C
        self.width = self.rank_bound = C.shape[0]
        self.Q = np.empty((self.width, 0))

    def matmul(self, W: Floats) -> Floats:
        return self.C @ W

    def columns(self, S: Indices) -> Floats:
        return self.C[S].T  # of whole rows, which lie together

    def block(self, S: Indices) -> Floats:
        block: Floats = self.C[S][:, S]
        return block

    def diagonal(self) -> Floats:
        return np.diagonal(self.C)

    def leading(self, S: Indices, near: Floats | None = None) -> tuple[float, Floats]:
        return leading_pair(self.block(S), near)

    def deflated(self, w: Floats) -> Gram:
        q = new_direction(self.Q, w)
        if q is None:
            return self
        Cq = self.C @ q
        cross = np.outer(q, Cq)
        result = Gram(self.C - cross - cross.T + (q @ Cq) * np.outer(q, q))
        result.Q = np.column_stack([self.Q, q])
        return result

    def factor(self, S: Indices) -> Floats:
        values, vectors = np.linalg.eigh(self.block(S))  # in rising order
        factor: Floats = (np.sqrt(np.clip(values, 0.0, None)) * vectors).T[::-1]
        return factor

    def restricted(self, S: Indices) -> Gram:
        return Gram(self.block(S))


class TableForm(Quadratic):
    """C = P X'X P through products with X. Y = X Q, so that X P = X - Y Q'.

    X, Y and what has as many rows stay where the table is; vectors of length p, of which there
    are few, are the host's.
    """

    def __init__(self, op: Operator, Q: Floats | None = None, Y: Array | None = None):
        self.op = op
        self.width, self.rank_bound = op.shape[1], min(op.shape)
        self.Q = np.empty((self.width, 0)) if Q is None else Q
        self.Y = Y if Y is not None or self.Q.shape[1] == 0 else self._times(op, self.Q)

    def _there(self, W: Floats) -> Array:
        return from_numpy(W, self.op.column_squares(), self.op.dtype)

    def _times(self, part: Operator, W: Floats) -> Array:
        """X W, where the table is."""
        there = self._there(W)
        return part.gather_rows(lambda block: block @ there)

    def _deflated(self, Y: Array, Q: Floats, W: Floats) -> Array:
        """Y - (X Q) Q'W for Y = X W."""
        return Y if self.Y is None else Y - self.Y @ self._there(Q.T @ W)

    def _back(self, part: Operator, Q: Floats, Y: Array) -> Floats:
        """P X' Y."""
        F = to_numpy(part.rmatmul(Y)).astype(float)
        return F if self.Y is None else F - Q @ to_numpy(self.Y.T @ Y)

    def _product(self, part: Operator, Q: Floats, W: Floats) -> Floats:
        """P X'X P W on the columns of ``part``, whose rows of Q are given."""
        return self._back(part, Q, self._deflated(self._times(part, W), Q, W))

    def matmul(self, W: Floats) -> Floats:
        return self._product(self.op, self.Q, W)

    def form(self, W: Floats) -> Floats:
        image = to_numpy(self._deflated(self._times(self.op, W.T), self.Q, W.T)).astype(float)
        return np.einsum("nr,nr->r", image, image)

    def _some(self, S: Indices) -> Array:
        """X P e_S as a dense array, (n, |S|)."""
        part = self.op.take_columns(S)
        columns = part.whole
        if columns is None:
            columns = part.gather_rows(lambda block: block, entrywise=True)
        return columns if self.Y is None else columns - self.Y @ self._there(self.Q[S].T)

    def columns(self, S: Indices) -> Floats:
        return self._back(self.op, self.Q, self._some(S))

    def block(self, S: Indices) -> Floats:
        A = self._some(S)
        return to_numpy(A.T @ A).astype(float)

    def cross(self, R: Indices, S: Indices) -> Floats:
        # as a dense array, R or S would be large
        if self.op.whole is None or 2 * max(R.size, S.size) > self.width:
            return super().cross(R, S) if R.size > S.size else super().cross(S, R).T
        return to_numpy(self._some(R).T @ self._some(S)).astype(float)

    def diagonal(self) -> Floats:
        return self._diagonal

    @cached_property
    def _diagonal(self) -> Floats:
        # |x_j - Y q_j|^2, with q_j row j of Q
        squares = to_numpy(self.op.column_squares()).astype(float)
        if self.Y is None:
            return squares
        removed = 2.0 * to_numpy(self.op.rmatmul(self.Y)) - self.Q @ to_numpy(self.Y.T @ self.Y)
        left: Floats = np.clip(squares - np.sum(self.Q * removed, axis=1), 0.0, None)
        return left

    def leading(self, S: Indices, near: Floats | None = None) -> tuple[float, Floats]:
        n, size = self.op.shape[0], S.size
        if size <= min(n, DENSE_SIDE):
            return leading_pair(self.block(S), near)
        part = self.op.take_columns(S) if size < self.width else self.op
        QS = self.Q[S]
        if n <= DENSE_SIDE:
            # (X_S - Y Q_S')(X_S - Y Q_S')': eigenvectors of the small side lead to the large one
            if near is not None:
                near = near[:, None]
                near = to_numpy(self._deflated(self._times(part, near), QS, near))[:, 0].astype(
                    float
                )
            value, y = leading_pair(self._outer(part, QS), near)
            w = self._back(part, QS, self._there(y[:, None]))[:, 0]
        else:

            def product(w: Floats) -> Floats:
                return self._product(part, QS, w.reshape(-1, 1))[:, 0]

            value, w = lanczos_pair(product, size, near)
        norm = float(np.linalg.norm(w))
        if norm == 0.0:
            return 0.0, np.full(size, size**-0.5)
        return value, w / norm

    def _outer(self, part: Operator, QS: Floats) -> Floats:
        outer = to_numpy(part.outer()).astype(float)
        if self.Y is None:
            return outer
        Y = to_numpy(self.Y).astype(float)
        cross = to_numpy(self._times(part, QS)).astype(float) @ Y.T
        deflated: Floats = outer - cross - cross.T + Y @ (QS.T @ QS) @ Y.T
        return deflated

    def deflated(self, w: Floats) -> TableForm:
        q = new_direction(self.Q, w)
        return self if q is None else TableForm(self.op, np.column_stack([self.Q, q]))

    def factor(self, S: Indices) -> Floats | None:
        A = self._some(S)
        return A.astype(float, copy=False) if is_numpy(A) else None

    def restricted(self, S: Indices) -> Quadratic:
        if S.size <= min(2 * self.op.shape[0], DENSE_SIDE):
            return Gram(self.block(S))
        return TableForm(self.op.take_columns(S), self.Q[S], self.Y)


def quadratic_of(op: Operator) -> Quadratic:
    """C = X'X itself where that is the smaller thing, the table where it is not."""
    n, p = op.shape
    if p <= min(2 * n, GRAM_WIDTH) or p <= 64:
        return Gram(to_numpy(op.gram()).astype(float, copy=False))
    return TableForm(op)


def leading_pair(C: Floats, near: Floats | None = None) -> tuple[float, Floats]:
    """Largest eigenvalue of a symmetric matrix and its unit vector; ``near`` as in
    `Quadratic.leading`."""
    k = C.shape[0]
    if k > (LANCZOS_SIDE if near is None else LANCZOS_SIDE_NEAR):
        return lanczos_pair(lambda w: C @ w, k, near)
    try:
        values, vectors = eigh(C, subset_by_index=[k - 1, k - 1], check_finite=False)
    except np.linalg.LinAlgError:
        values = np.empty(0)
    if not values.size:  # of many equal ones LAPACK may find none, or give up
        values, vectors = np.linalg.eigh(C)
    return max(float(values[-1]), 0.0), vectors[:, -1]


def largest_eigenvalue(C: Floats) -> float:
    """Of a symmetric matrix, which may be indefinite."""
    k = C.shape[0]
    try:
        values = eigh(C, subset_by_index=[k - 1, k - 1], eigvals_only=True, check_finite=False)
    except np.linalg.LinAlgError:
        values = np.empty(0)
    if not values.size:  # as in `leading_pair`
        values = np.linalg.eigvalsh(C)
    return float(values[-1])


def lanczos_pair(
    product: Callable[[Floats], Floats], k: int, near: Floats | None = None
) -> tuple[float, Floats]:
    """The same through products only. The start is fixed, so that results are reproducible."""
    start = np.random.RandomState(0).standard_normal(k)
    start /= np.linalg.norm(start)
    tol, width = 0.0, 24
    length = 0.0 if near is None else float(np.linalg.norm(near))
    if near is not None and length > 0.0:
        # something of everything: ``near`` may be orthogonal to what is looked for
        start = near / length + 1e-3 * start
        tol, width = NEAR_TOL, 16
    if not np.any(product(start)):  # a form that is zero, of which ARPACK knows nothing
        return 0.0, start / np.linalg.norm(start)
    form = LinearOperator((k, k), matvec=product, dtype=np.float64)
    values, vectors = eigsh(form, k=1, which="LA", v0=start, ncv=min(k, width), tol=tol)
    return max(float(values[0]), 0.0), vectors[:, 0]
