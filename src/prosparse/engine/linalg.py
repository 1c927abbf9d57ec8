"""The spectrum of a table through the Gram matrix of its smaller side."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import device

from ..operators import DenseOperator, Operator

Array = Any


def eye_like(square: Array, xp: Any) -> Array:
    return xp.eye(square.shape[0], dtype=square.dtype, device=device(square))


def products(block: Array, filters: Array) -> tuple[Array, Array]:
    """X_b'Y_b and Y_b'Y_b for Y_b = X_b F: all that one EM pass needs of a block of rows."""
    Y = block @ filters
    return block.T @ Y, Y.T @ Y


class Spectrum(NamedTuple):
    """The singular value decomposition of a table, as far as the methods here need it.

    They are invariant under rotations of the sample space, so a table with more rows than
    columns is replaced by a p x p one with the same X'X: every later pass is cheaper.
    """

    eigenvalues: Array  # (min(n, p),) of X'X, in falling order
    table: Operator  # X itself if n <= p, else diag(singular values) V', p x p
    left: Array  # left singular vectors of `table`
    n: int  # rows of X

    def directions(self, d: int) -> Array:
        """The d leading eigenvectors of X'X, p x d (zero where the eigenvalue is)."""
        xp, values = self.table.xp, self.eigenvalues[:d]
        present = values > 1e-14 * self.eigenvalues[0]
        inverse = xp.where(present, 1.0 / xp.sqrt(xp.where(present, values, 1.0)), 0.0)
        return self.table.rmatmul(self.left[:, :d]) * inverse


def spectrum(op: Operator) -> Spectrum:
    """Eigenvalues of X'X and the table on which to iterate.

    A Gram matrix is ten times cheaper than an SVD but knows nothing of singular values below
    1e-8 of the largest: where half of them are that small, as beside an outlier, the SVD decides.
    """
    xp, (n, p) = op.xp, op.shape
    values, vectors = xp.linalg.eigh(op.outer() if n <= p else op.gram())
    values = xp.flip(xp.clip(values, 0.0, None), axis=0)
    vectors = xp.flip(vectors, axis=1)
    middle = values.shape[0] // 2
    if isinstance(op, DenseOperator) and float(values[middle]) < 1e-10 * float(values[0]):
        U, singular, Vt = xp.linalg.svd(op.X, full_matrices=False)
        values, vectors = singular**2, U if n <= p else Vt.T
    if n <= p:
        return Spectrum(values, op, vectors, n)
    factor = xp.sqrt(values)[:, None] * vectors.T
    return Spectrum(values, DenseOperator(factor), eye_like(factor, xp), n)


def principal_components(op: Operator, d: int) -> tuple[np.ndarray, np.ndarray]:
    """The d leading orthonormal directions of a table (d x p) and the sums of squares along them.

    Directions from a Gram matrix lose orthogonality when the spectrum spans many decades: one
    QR decomposition and one rotation restore it. The largest entry of each is positive.
    """
    xp = op.xp
    basis = xp.linalg.qr(spectrum(op).directions(d))[0]
    (squares,) = op.sum_rows(lambda block: products(block, basis)[1:])
    values, rotation = xp.linalg.eigh(squares)
    components = np.asarray((basis @ xp.flip(rotation, axis=1)).T)
    strongest = components[np.arange(d), np.argmax(np.abs(components), axis=1)]
    components = components * np.where(strongest < 0, -1.0, 1.0)[:, None]
    return components, np.clip(np.asarray(xp.flip(values, axis=0)), 0.0, None)


def added_squares(op: Operator, W: np.ndarray) -> np.ndarray:
    """Sum of squares of X that each row of W adds to the span of the rows before it, (d,)."""
    basis, R = np.linalg.qr(W.T)
    lengths = np.linalg.norm(W, axis=1)
    new = np.abs(np.diag(R)) > 1e-10 * np.where(lengths > 0, lengths, 1.0)
    xp = op.xp
    directions = xp.asarray(basis)
    (squares,) = op.sum_rows(lambda block: (xp.sum((block @ directions) ** 2, axis=0),))
    return np.where(new, np.asarray(squares), 0.0)
