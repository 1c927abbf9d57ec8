"""Spectrum of a data matrix.

All eigenvalues are computed from the Gram matrix of the smaller side. If both sides are large, the
leading eigenvalues are computed by block Krylov iterations.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace, device
from scipy.linalg import solve_triangular

from ..data import Array, DenseOperator, Operator
from ..data.arrays import from_numpy, to_numpy, to_numpy_async
from ..parallel import blas_threads

EXACT_SIDE = 2048  # maximum side of a matrix whose full spectrum is computed
N_OVERSAMPLES = 10  # additional columns of a Krylov block
KRYLOV_DEPTH = 6  # number of blocks in the Krylov basis between restarts
NARROW_KRYLOV_DEPTH = 3  # the same for narrow blocks, in multiples of the full width
# The full spectrum is computed if the side is less than this multiple of the number of vectors.
MIN_SIDE_RATIO = 4
MAX_SINGLE_THREAD_SIDE = 512  # maximum side for which one thread is faster than several
# Minimum norm of the part of a unit vector that is orthogonal to the previous vectors, for
# orthogonalisation by the Cholesky factor. The square of this norm is far above the rounding error.
MIN_CHOLESKY_DIAGONAL = 1e-4


def eye_like(square: Array, xp: Any) -> Array:
    """Return the identity matrix with shape, type and device of ``square``."""
    return xp.eye(square.shape[0], dtype=square.dtype, device=device(square))


def eigenpairs(symmetric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute eigenpairs by `numpy.linalg.eigh`, with suitable threads."""
    if symmetric.shape[0] > MAX_SINGLE_THREAD_SIDE:
        values, vectors = np.linalg.eigh(symmetric)
    else:
        with blas_threads(1):
            values, vectors = np.linalg.eigh(symmetric)
    return values, vectors


def products(op: Operator, filters: Array) -> tuple[Array, Array]:
    """Compute X'Y and Y'Y for Y = X F, the statistics of an EM iteration.

    Y'Y is computed as F'(X'Y), because F has fewer rows than Y.
    """
    xp = op.xp
    XY = xp.astype(squared_product(op, xp.astype(filters, op.dtype)), filters.dtype)
    YY = filters.T @ XY
    return XY, 0.5 * (YY + YY.T)


def squared_product(op: Operator, F: Array) -> Array:
    """Compute X'X F in one iteration over the rows."""
    return op.sum_rows(lambda block: (block.T @ (block @ F),))[0]


def transposed_product(op: Operator, Y: Array) -> Array:
    """Compute Y'X in the precision of X."""
    return op.sum_rows(lambda block, rows: (rows.T @ block,), Y)[0]


def product_and_transpose(op: Operator, F: Array) -> tuple[Array, Array]:
    """Compute Y = X F and Y'X in the precision of F, reading X once."""
    xp, (n, d), F_narrow = op.xp, (op.shape[0], F.shape[1]), op.xp.astype(F, op.dtype, copy=False)

    def multiply(block: Any, row_index: Array) -> tuple[Array, Array]:
        Y_block, first = block @ F_narrow, int(row_index[0])
        Y = xp.zeros((n, d), dtype=Y_block.dtype)
        Y[first : first + Y_block.shape[0], :] = Y_block
        return Y, (block.T @ Y_block).T

    Y, YX = op.sum_rows(multiply, xp.arange(n))
    return xp.astype(Y, F.dtype, copy=False), xp.astype(YX, F.dtype, copy=False)


class FactorProducts(NamedTuple):
    """Y'X and Y'Y for Y = X F.

    Y'Y is copied to CPU memory asynchronously, so that a GPU can compute Y'X in the meantime.
    """

    YX: Array  # (d, p) in the precision of F
    squares: Callable[[], np.ndarray]  # returns Y'Y in double precision, in CPU memory


def factor_products(op: Operator, filters: Array) -> FactorProducts:
    """Compute Y'X and Y'Y for Y = X F."""
    xp = op.xp
    if op.whole is None:  # iterate once over the blocks
        XY, YY = products(op, filters)
        return FactorProducts(XY.T, lambda: to_numpy(YY))
    Y = op.matmul(xp.astype(filters, op.dtype))
    Y_double = xp.astype(Y, xp.float64, copy=False)
    squares = to_numpy_async(Y_double.T @ Y_double)
    return FactorProducts(xp.astype(transposed_product(op, Y), filters.dtype, copy=False), squares)


def sums_of_squares(op: Operator, filters: np.ndarray) -> np.ndarray:
    """Compute the squared norm of X f for each column f of ``filters``."""
    xp, F = op.xp, from_numpy(filters, op.column_squares(), op.dtype)
    (squares,) = op.sum_rows(lambda block: (xp.sum((block @ F) ** 2, axis=0),))
    return to_numpy(squares).astype(float)


class Spectrum(NamedTuple):
    """Eigenvalues of X'X and an equivalent data matrix.

    The methods are invariant under rotations of the rows. A matrix with more rows than columns is
    replaced by a p x p matrix with the same X'X, which makes later iterations faster.
    """

    eigenvalues: Array  # (min(n, p),) eigenvalues of X'X in decreasing order (`spectrum`)
    op: Operator  # X if n <= p or p is large, else diag(singular values) V', p x p
    left: Array  # left singular vectors of `op`; None if `right` is given
    n: int  # number of rows of X
    right: Array = None  # (p, m) leading right singular vectors

    def directions(self, d: int) -> Array:
        """Compute d leading eigenvectors (p, d) of X'X, zero if eigenvalues are."""
        if self.right is not None:
            return self.right[:, :d]
        xp, values = self.op.xp, self.eigenvalues[:d]
        positive = values > 1e-14 * self.eigenvalues[0]
        inverse = xp.where(positive, 1.0 / xp.sqrt(xp.where(positive, values, 1.0)), 0.0)
        left = xp.astype(self.left[:, :d], self.op.dtype)
        return xp.astype(self.op.rmatmul(left), values.dtype) * inverse


def spectrum(op: Operator, count: int | None = None) -> Spectrum:
    """Compute the eigenvalues of X'X and an equivalent data matrix.

    The Gram matrix is ten times faster than the SVD, but does not resolve singular values below
    1e-8 times the largest. If half of the singular values are that small, for example because of an
    outlier, the SVD is used. If both sides exceed `EXACT_SIDE` and ``count`` is given, only
    ``count`` eigenvalues are computed, and the others are replaced by their mean.
    """
    xp, (n, p) = op.xp, op.shape
    min_side = max(EXACT_SIDE, MIN_SIDE_RATIO * ((count or 0) + N_OVERSAMPLES))
    if count is not None and min(n, p) > min_side:
        return _leading_spectrum(op, count)
    values, vectors = xp.linalg.eigh(op.outer() if n <= p else op.gram())
    values = xp.flip(xp.clip(values, 0.0, None), axis=0)
    vectors = xp.flip(vectors, axis=1)
    median = float(values[values.shape[0] // 2])
    if op.whole is not None and median < 1e-10 * float(values[0]):
        U, singular, Vt = xp.linalg.svd(xp.astype(op.whole, values.dtype), full_matrices=False)
        values, vectors = singular**2, U if n <= p else Vt.T
    if n <= p:
        return Spectrum(values, op, vectors, n)
    factor = xp.sqrt(values)[:, None] * vectors.T
    return Spectrum(values, DenseOperator(factor), eye_like(factor, xp), n)


def _leading_spectrum(op: Operator, count: int) -> Spectrum:
    xp, (n, p) = op.xp, op.shape
    values, right = leading_directions(op, count)
    total = float(xp.sum(op.column_squares()))
    rest = min(n, p) - count
    mean = max(total - float(values.sum()), 0.0) / rest
    tail = np.full(rest, min(mean, float(values[-1])))
    return Spectrum(from_numpy(np.concatenate([values, tail]), right), op, None, n, right)


def leading_directions(
    op: Operator, count: int, tol: float = 1e-8, max_products: int = 60
) -> tuple[np.ndarray, Array]:
    """Compute the leading eigenpairs of X'X by block Krylov iterations.

    The iterations start from random vectors (Musco & Musco 2015, "Randomized block Krylov methods
    for stronger and faster approximate singular value decomposition"). They are restarted from the
    best vectors until all residuals are at most ``tol`` times the largest eigenvalue.
    """
    xp = op.xp
    tol = max(tol, 30.0 * float(xp.finfo(op.dtype).eps))

    def multiply(V: Array) -> Array:
        return xp.astype(squared_product(op, xp.astype(V, op.dtype)), V.dtype)

    return leading_eigenvectors(multiply, op.column_squares(), count, tol, max_products)


def leading_eigenvectors(
    multiply: Callable[[Array], Array],
    like: Array,
    count: int,
    tol: float = 1e-8,
    max_products: int = 60,
    initial: np.ndarray | None = None,
    block: int | None = None,
) -> tuple[np.ndarray, Array]:
    """Compute the leading eigenpairs of a positive semidefinite matrix A (p, p).

    ``multiply`` returns A V for V (p, k). ``like`` (p,) determines the array library, type and
    device. ``count`` must be at most p / 2, and ``max_products`` refers to blocks of full width.
    With fewer ``block`` columns than ``count``, fewer columns are required in total, because each
    product raises the power of A.
    """
    xp, p = array_namespace(like), like.shape[0]
    width = min(count + N_OVERSAMPLES, p // 2)
    narrow = block is not None and block < width and p > 2 * NARROW_KRYLOV_DEPTH * width
    depth = NARROW_KRYLOV_DEPTH if narrow else min(KRYLOV_DEPTH, p // width, max_products)
    max_basis = depth * width  # at most p
    block = block if block is not None and narrow else width
    check_initial = initial is not None  # whether to test before extending the basis
    start = np.random.default_rng(0).standard_normal((p, width if check_initial else block))
    if initial is not None:
        start[:, : min(initial.shape[1], width)] = initial[:, :width]
    new = xp.linalg.qr(from_numpy(start, like))[0]
    basis, images = new[:, :0], new[:, :0]
    values, V = np.zeros(count), new
    for _ in range(max(1, max_products // depth)):
        while True:
            last_image = multiply(new)
            basis = xp.concat([basis, new], axis=1)
            images = xp.concat([images, last_image], axis=1)
            if check_initial or basis.shape[1] + block > max_basis:
                break
            new = _orthonormalise(last_image, basis)
        # Rayleigh-Ritz approximation in the span of the basis
        projected = to_numpy(basis.T @ images)
        values, rotation = eigenpairs(0.5 * (projected + projected.T))
        values, rotation = values[::-1][:width], from_numpy(rotation[:, ::-1][:, :width], like)
        V, image = basis @ rotation, images @ rotation
        residual = image - V * from_numpy(values, like)
        errors = np.sqrt(to_numpy(xp.sum(residual * residual, axis=0)))[:count]
        if float(errors.max()) <= tol * float(values[0]):
            break
        if not narrow:
            new = _orthonormalise(image, V)
        elif initial is None:
            # The residuals of the Ritz vectors are in the span of the last block.
            new = _orthonormalise(last_image, basis)
        else:
            new = _orthonormalise(_leading_span(residual[:, :count], block), V)
        basis, images, check_initial = V, image, False
    return np.clip(values[:count], 0.0, None), V[:, :count]


def _leading_span(directions: Array, count: int) -> Array:
    """Compute the leading singular directions (p, count) of the columns."""
    squares = to_numpy(directions.T @ directions)
    rotation = np.linalg.eigh(squares)[1][:, ::-1][:, :count]
    return directions @ from_numpy(rotation, directions)


def _orthonormalise(directions: Array, basis: Array) -> Array:
    """Orthonormalise vectors and make them orthogonal to a basis."""
    for _ in range(2):  # The second iteration removes the rounding errors of the first.
        directions = _orthonormalise_once(directions - basis @ (basis.T @ directions))
    return directions


def _orthonormalise_once(directions: Array) -> Array:
    """Orthonormalise vectors by Cholesky factorisation or QR.

    The Cholesky factor of the Gram matrix is much faster than QR. The error, which is the rounding
    error times the squared condition number, is removed by a second call. QR is used if the vectors
    are nearly dependent.
    """
    xp = array_namespace(directions)
    squares = to_numpy(directions.T @ directions).astype(float)
    norms = np.sqrt(np.diag(squares))
    if np.all(norms > 0.0):
        with contextlib.suppress(np.linalg.LinAlgError):
            factor = np.linalg.cholesky(squares / np.outer(norms, norms))
            if float(np.min(np.diag(factor))) > MIN_CHOLESKY_DIAGONAL:
                inverse = solve_triangular(factor, np.eye(norms.size), lower=True) / norms
                return directions @ from_numpy(inverse.T, directions)
    return xp.linalg.qr(directions)[0]


def principal_components(op: Operator, d: int) -> tuple[Array, np.ndarray]:
    """Compute the d leading principal axes (d, p) and their sums of squares.

    Axes from a Gram matrix lose orthogonality if the eigenvalues differ by many orders of
    magnitude. A QR decomposition and a rotation restore orthogonality.
    """
    xp = op.xp
    basis = xp.linalg.qr(spectrum(op, d).directions(d))[0]
    narrow = xp.astype(basis, op.dtype)

    def squares(block: Array) -> tuple[Array]:
        Y = block @ narrow
        return (Y.T @ Y,)

    values, rotation = np.linalg.eigh(to_numpy(op.sum_rows(squares)[0]).astype(float))
    components = (basis @ from_numpy(rotation[:, ::-1], basis)).T
    largest = xp.argmax(xp.abs(components), axis=1)
    is_largest = xp.arange(components.shape[1], device=device(basis)) == largest[:, None]
    negative = xp.sum(xp.where(is_largest, components, 0.0), axis=1) < 0
    return xp.where(negative[:, None], -components, components), np.clip(values[::-1], 0.0, None)


def added_squares(op: Operator, W: np.ndarray) -> np.ndarray:
    """Compute the sum of squares of X that each row of W adds to those above."""
    return sums_of_squares(op, added_directions(W))


def added_directions(W: np.ndarray) -> np.ndarray:
    """Compute the unit vectors (columns) that rows of W add to those above.

    A vector is zero if the row adds no direction; a QR decomposition would return an arbitrary
    vector.
    """
    basis = np.zeros(W.shape[::-1])
    for k, w in enumerate(W):
        q = new_direction(basis[:, :k], w)
        if q is not None:
            basis[:, k] = q
    return basis


def new_direction(Q: np.ndarray, w: np.ndarray) -> np.ndarray | None:
    """Compute the unit vector that w adds to the span of Q, or None."""
    q = w - Q @ (Q.T @ w)
    q = q - Q @ (Q.T @ q)  # The second projection removes the rounding errors of the first.
    norm = float(np.linalg.norm(q))
    return q / norm if norm > 1e-8 * float(np.linalg.norm(w)) else None
