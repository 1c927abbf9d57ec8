"""Quadratic form w'Cw with C = X'X, and its deflations.

The search requires products, columns, blocks and the diagonal of C, and leading eigenvectors of
blocks. With few columns, C is formed once (`Gram`). With many columns, `DataForm` computes these
parts from X, without a copy or a dense version of X and without a p x p array.

Deflation by an orthonormal basis Q of the preceding components replaces C by P C P with
P = I - QQ' ([SB08] (18)). This is the orthogonalised projection deflation of L. Mackey (NeurIPS
2008), as in the R package nsprcomp.
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
from ...data.arrays import from_numpy, to_numpy
from ...numerics.spectrum import new_direction

# NumPy arrays: loadings and blocks of C, positions of variables, and masks.
Floats = NDArray[np.float64]
Indices = NDArray[np.intp]
Mask = NDArray[np.bool_]

# Matrix size above which Lanczos is faster than a dense eigensolver, without and with a starting
# vector near the eigenvector.
MIN_LANCZOS_SIDE, MIN_LANCZOS_SIDE_NEAR = 200, 100
# Relative residual of an eigenvector if a nearby vector is known. The relative error of the
# eigenvalue is its square.
NEAR_TOL = 1e-8
# Maximum size of a block that is formed.
MAX_DENSE_SIDE = 600
# Maximum number of columns p for which C is formed, if p <= 2 n.
MAX_GRAM_WIDTH = 4000


class Quadratic(ABC):
    """Positive semi-definite matrix C (p, p)."""

    width: int
    rank_bound: int  # C has at most this rank

    @abstractmethod
    def matmul(self, W: Floats) -> Floats:
        """Return C W for W of shape (p, r)."""

    @abstractmethod
    def columns(self, S: Indices) -> Floats:
        """Return C[:, S], (p, |S|)."""

    @abstractmethod
    def block(self, S: Indices) -> Floats:
        """Return C[S, S]."""

    def cross(self, R: Indices, S: Indices) -> Floats:
        """Return C[R, S]."""
        return self.columns(S)[R]

    @abstractmethod
    def diagonal(self) -> Floats:
        """Return the diagonal of C, (p,)."""

    @abstractmethod
    def leading(self, S: Indices, near: Floats | None = None) -> tuple[float, Floats]:
        """Return the largest eigenvalue of C[S, S] and its unit eigenvector, (|S|,).

        Given a vector ``near`` the eigenvector, (|S|,), the computation takes half the time, and
        the eigenvector has eight correct digits.
        """

    @abstractmethod
    def deflate(self, w: Floats) -> Quadratic:
        """Return the form deflated by w, in addition to earlier deflations."""

    @abstractmethod
    def restrict(self, S: Indices) -> Quadratic:
        """Return the form restricted to the variables S."""

    def form(self, W: Floats) -> Floats:
        """Return w'Cw for each row of W, (r,)."""
        values: Floats = np.einsum("rp,pr->r", W, self.matmul(W.T))
        return values


class Gram(Quadratic):
    """Form with C stored as an array."""

    def __init__(self, C: Floats):
        self.C = C
        self.width = self.rank_bound = C.shape[0]
        self.Q = np.empty((self.width, 0))

    def matmul(self, W: Floats) -> Floats:
        return self.C @ W

    def columns(self, S: Indices) -> Floats:
        return self.C[S].T  # rows are contiguous

    def block(self, S: Indices) -> Floats:
        block: Floats = self.C[S][:, S]
        return block

    def diagonal(self) -> Floats:
        return np.diagonal(self.C)

    def leading(self, S: Indices, near: Floats | None = None) -> tuple[float, Floats]:
        return leading_pair(self.block(S), near)

    def deflate(self, w: Floats) -> Gram:
        q = new_direction(self.Q, w)
        if q is None:
            return self
        Cq = self.C @ q
        cross = np.outer(q, Cq)
        result = Gram(self.C - cross - cross.T + (q @ Cq) * np.outer(q, q))
        result.Q = np.column_stack([self.Q, q])
        return result

    def restrict(self, S: Indices) -> Gram:
        return Gram(self.block(S))


class DataForm(Quadratic):
    """Form C = P X'X P by products with X, where X P = X - Y Q', Y = X Q.

    X, Y and other arrays with n rows stay on the device of the data. Vectors of length p are NumPy
    arrays.
    """

    def __init__(self, op: Operator, Q: Floats | None = None, Y: Array | None = None):
        self.op = op
        self.width, self.rank_bound = op.shape[1], min(op.shape)
        self.Q = np.empty((self.width, 0)) if Q is None else Q
        self.Y = Y if Y is not None or self.Q.shape[1] == 0 else self._times(op, self.Q)

    def _to_device(self, W: Floats) -> Array:
        return from_numpy(W, self.op.column_squares(), self.op.dtype)

    def _times(self, part: Operator, W: Floats) -> Array:
        """Return X W on the device of the data."""
        there = self._to_device(W)
        return part.gather_rows(lambda block: block @ there)

    def _deflated(self, Y: Array, Q: Floats, W: Floats) -> Array:
        """Return Y - (X Q) Q'W for Y = X W."""
        return Y if self.Y is None else Y - self.Y @ self._to_device(Q.T @ W)

    def _adjoint(self, part: Operator, Q: Floats, Y: Array) -> Floats:
        """Return P X'Y."""
        F = to_numpy(part.rmatmul(Y)).astype(float)
        return F if self.Y is None else F - Q @ to_numpy(self.Y.T @ Y)

    def _product(self, part: Operator, Q: Floats, W: Floats) -> Floats:
        """Return P X'X P W on the columns of ``part``; Q has the same variables."""
        return self._adjoint(part, Q, self._deflated(self._times(part, W), Q, W))

    def matmul(self, W: Floats) -> Floats:
        return self._product(self.op, self.Q, W)

    def form(self, W: Floats) -> Floats:
        image = to_numpy(self._deflated(self._times(self.op, W.T), self.Q, W.T)).astype(float)
        return np.einsum("nr,nr->r", image, image)

    def _dense_columns(self, S: Indices) -> Array:
        """Return X P[:, S] as a dense array, (n, |S|)."""
        part = self.op.take_columns(S)
        columns = part.whole
        if columns is None:
            columns = part.gather_rows(lambda block: block, entrywise=True)
        return columns if self.Y is None else columns - self.Y @ self._to_device(self.Q[S].T)

    def columns(self, S: Indices) -> Floats:
        return self._adjoint(self.op, self.Q, self._dense_columns(S))

    def block(self, S: Indices) -> Floats:
        A = self._dense_columns(S)
        return to_numpy(A.T @ A).astype(float)

    def cross(self, R: Indices, S: Indices) -> Floats:
        # Avoid dense arrays with many columns.
        if self.op.whole is None or 2 * max(R.size, S.size) > self.width:
            return super().cross(R, S) if R.size > S.size else super().cross(S, R).T
        return to_numpy(self._dense_columns(R).T @ self._dense_columns(S)).astype(float)

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
        if size <= min(n, MAX_DENSE_SIDE):
            return leading_pair(self.block(S), near)
        part = self.op.take_columns(S) if size < self.width else self.op
        QS = self.Q[S]
        if n <= MAX_DENSE_SIDE:
            # (X_S - Y Q_S')(X_S - Y Q_S')': eigenvectors of the smaller side determine those of the
            # larger side
            if near is not None:
                near = near[:, None]
                near = to_numpy(self._deflated(self._times(part, near), QS, near))[:, 0].astype(
                    float
                )
            value, y = leading_pair(self._outer(part, QS), near)
            w = self._adjoint(part, QS, self._to_device(y[:, None]))[:, 0]
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

    def deflate(self, w: Floats) -> DataForm:
        q = new_direction(self.Q, w)
        return self if q is None else DataForm(self.op, np.column_stack([self.Q, q]))

    def restrict(self, S: Indices) -> Quadratic:
        if S.size <= min(2 * self.op.shape[0], MAX_DENSE_SIDE):
            return Gram(self.block(S))
        return DataForm(self.op.take_columns(S), self.Q[S], self.Y)


def quadratic_of(op: Operator) -> Quadratic:
    """Return `Gram` if C is small compared with X, otherwise `DataForm`."""
    n, p = op.shape
    if p <= min(2 * n, MAX_GRAM_WIDTH) or p <= 64:
        return Gram(to_numpy(op.gram()).astype(float, copy=False))
    return DataForm(op)


def leading_pair(C: Floats, near: Floats | None = None) -> tuple[float, Floats]:
    """Return the leading eigenpair of a matrix, as in `Quadratic.leading`."""
    k = C.shape[0]
    if k > (MIN_LANCZOS_SIDE if near is None else MIN_LANCZOS_SIDE_NEAR):
        return lanczos_pair(lambda w: C @ w, k, near)
    try:
        values, vectors = eigh(C, subset_by_index=[k - 1, k - 1], check_finite=False)
    except np.linalg.LinAlgError:
        values = np.empty(0)
    if not values.size:  # LAPACK can fail on many equal eigenvalues
        values, vectors = np.linalg.eigh(C)
    return max(float(values[-1]), 0.0), vectors[:, -1]


def largest_eigenvalue(C: Floats) -> float:
    """Return the largest eigenvalue of a symmetric, possibly indefinite matrix."""
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
    """Compute the leading eigenpair by Lanczos, from a reproducible start."""
    start = np.random.RandomState(0).standard_normal(k)
    start /= np.linalg.norm(start)
    tol, width = 0.0, 24
    length = 0.0 if near is None else float(np.linalg.norm(near))
    if near is not None and length > 0.0:
        # A random part is added because ``near`` may be orthogonal to the eigenvector.
        start = near / length + 1e-3 * start
        tol, width = NEAR_TOL, 16
    if not np.any(product(start)):  # ARPACK fails on a zero matrix
        return 0.0, start / np.linalg.norm(start)
    form = LinearOperator((k, k), matvec=product, dtype=np.float64)
    values, vectors = eigsh(form, k=1, which="LA", v0=start, ncv=min(k, width), tol=tol)
    return max(float(values[0]), 0.0), vectors[:, 0]
