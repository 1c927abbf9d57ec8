"""The spectrum of a table through the Gram matrix of its smaller side, or, where both sides are
large, its leading part through a few products."""

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

# Up to this side the whole spectrum is computed, by a decomposition that costs its cube.
EXACT_SIDE = 2048
_OVERSAMPLE = 10  # columns of a Krylov block beyond those asked for
_DEPTH = 6  # as many directions are looked at between restarts, times those kept
_DEPTH_OF_BLOCKS = 3  # the same where blocks are narrow
# Sides that have fewer than so many times the directions looked for are decomposed as a whole.
_WHOLE = 4
_SMALL = 512  # a side on which threads do not pay
# What a unit direction must have at least that those before it have not, to be told from them by
# products: its square is far above rounding.
_WELL_APART = 1e-4


def eye_like(square: Array, xp: Any) -> Array:
    return xp.eye(square.shape[0], dtype=square.dtype, device=device(square))


def eigenpairs(symmetric: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """`numpy.linalg.eigh`; of a small matrix on one thread, as others would only be waited for."""
    if symmetric.shape[0] > _SMALL:
        values, vectors = np.linalg.eigh(symmetric)
    else:
        with blas_threads(1):
            values, vectors = np.linalg.eigh(symmetric)
    return values, vectors


def products(op: Operator, filters: Array) -> tuple[Array, Array]:
    """X'Y and Y'Y for Y = X F, all that an EM pass needs of the rows: two products with X.

    Products are in the table's precision, results in that of F; Y'Y is F'(X'Y), as the filters
    are short and Y is long.
    """
    xp = op.xp
    XY = xp.astype(squared_product(op, xp.astype(filters, op.dtype)), filters.dtype)
    YY = filters.T @ XY
    return XY, 0.5 * (YY + YY.T)


def squared_product(op: Operator, F: Array) -> Array:
    """X'X F, one pass."""

    return op.sum_rows(lambda block: (block.T @ (block @ F),))[0]


def across(op: Operator, Y: Array) -> Array:
    """Y'X, in the precision of the table."""
    return op.sum_rows(lambda block, rows: (rows.T @ block,), Y)[0]


def there_and_back(op: Operator, F: Array) -> tuple[Array, Array]:
    """Y = X F, in memory, and Y'X, by one pass over blocks of rows, which are on the host; in the
    precision of F."""
    xp, (n, d), narrow = op.xp, (op.shape[0], F.shape[1]), op.xp.astype(F, op.dtype, copy=False)

    def both(block: Any, places: Array) -> tuple[Array, Array]:
        some, first = block @ narrow, int(places[0])
        Y = xp.zeros((n, d), dtype=some.dtype)
        Y[first : first + some.shape[0], :] = some
        return Y, (block.T @ some).T

    Y, YX = op.sum_rows(both, xp.arange(n))
    return xp.astype(Y, F.dtype, copy=False), xp.astype(YX, F.dtype, copy=False)


class Latents(NamedTuple):
    """Y = X F, seen from both ends: what goes back to the columns, and what the host needs of it.

    A GPU is busy with the second product, and is handed all that follows, while the host waits for
    Y'Y alone and decides in which basis it wants Y.
    """

    YX: Array  # (d, p) in the precision of F
    squares: Callable[[], np.ndarray]  # Y'Y in double precision, on the host


def latents(op: Operator, filters: Array) -> Latents:
    """Y = X F; see `Latents`."""
    xp = op.xp
    if op.whole is None:  # one pass over the blocks has to do
        XY, YY = products(op, filters)
        return Latents(XY.T, lambda: to_numpy(YY))
    Y = op.matmul(xp.astype(filters, op.dtype))
    wide = xp.astype(Y, xp.float64, copy=False)
    squares = to_numpy_async(wide.T @ wide)
    return Latents(xp.astype(across(op, Y), filters.dtype, copy=False), squares)


def sums_of_squares(op: Operator, filters: np.ndarray) -> np.ndarray:
    """Squared length of X f for every column f of ``filters``, (p, d) on the host."""
    xp, there = op.xp, from_numpy(filters, op.column_squares(), op.dtype)
    (squares,) = op.sum_rows(lambda block: (xp.sum((block @ there) ** 2, axis=0),))
    return to_numpy(squares).astype(float)


class Spectrum(NamedTuple):
    """The singular value decomposition of a table, as far as the methods here need it.

    They are invariant under rotations of the sample space, so a table with more rows than
    columns is replaced by a p x p one with the same X'X: every later pass is cheaper.
    """

    eigenvalues: Array  # (min(n, p),) of X'X, in falling order; see `spectrum`
    table: Operator  # X itself if n <= p or p is large, else diag(singular values) V', p x p
    left: Array  # left singular vectors of `table`, unless `right` are known
    n: int  # rows of X
    right: Array = None  # (p, m) leading right singular vectors

    def directions(self, d: int) -> Array:
        """The d leading eigenvectors of X'X, p x d (zero where the eigenvalue is)."""
        if self.right is not None:
            return self.right[:, :d]
        xp, values = self.table.xp, self.eigenvalues[:d]
        present = values > 1e-14 * self.eigenvalues[0]
        inverse = xp.where(present, 1.0 / xp.sqrt(xp.where(present, values, 1.0)), 0.0)
        left = xp.astype(self.left[:, :d], self.table.dtype)
        return xp.astype(self.table.rmatmul(left), values.dtype) * inverse


def spectrum(op: Operator, count: int | None = None) -> Spectrum:
    """Eigenvalues of X'X and the table on which to iterate.

    A Gram matrix is ten times cheaper than an SVD but knows nothing of singular values below
    1e-8 of the largest: where half of them are that small, as beside an outlier, the SVD decides.
    With a ``count``, and both sides of the table above `EXACT_SIDE`, only that many eigenvalues
    are computed one by one; the others are represented by their mean.
    """
    xp, (n, p) = op.xp, op.shape
    if count is not None and min(n, p) > max(EXACT_SIDE, _WHOLE * (count + _OVERSAMPLE)):
        return _leading_spectrum(op, count)
    values, vectors = xp.linalg.eigh(op.outer() if n <= p else op.gram())
    values = xp.flip(xp.clip(values, 0.0, None), axis=0)
    vectors = xp.flip(vectors, axis=1)
    middle = values.shape[0] // 2
    if op.whole is not None and float(values[middle]) < 1e-10 * float(values[0]):
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
    op: Operator, count: int, tol: float = 1e-8, max_passes: int = 60
) -> tuple[np.ndarray, Array]:
    """The leading eigenvalues of X'X and their vectors (p, count), a block of products at a time.

    Block Krylov iteration (Musco & Musco 2015, "Randomized block Krylov methods for stronger and
    faster approximate singular value decomposition") from random directions, restarted from the
    best directions found until their residuals are below ``tol`` of the largest eigenvalue. At
    most half as many as there are columns can be asked for.
    """
    xp = op.xp
    tol = max(tol, 30.0 * float(xp.finfo(op.dtype).eps))

    def squared(V: Array) -> Array:  # X'X V, one pass
        return xp.astype(squared_product(op, xp.astype(V, op.dtype)), V.dtype)

    return leading_eigenvectors(squared, op.column_squares(), count, tol, max_passes)


def leading_eigenvectors(
    squared: Callable[[Array], Array],
    like: Array,
    count: int,
    tol: float = 1e-8,
    max_passes: int = 60,
    near: np.ndarray | None = None,
    block: int | None = None,
) -> tuple[np.ndarray, Array]:
    """The leading eigenvalues and eigenvectors (p, count) of the matrix that ``squared``
    multiplies (p, k) arrays with; see `leading_directions`. ``like``, (p,), says of which kind
    these arrays are, and ``near``, (p, k), where the eigenvectors are thought to be.

    Each product is with some more than ``count`` columns, so that there are few of them, or with
    ``block`` columns: there are then many, of fewer columns in all, as powers of the matrix
    rise with every product. Only the first is then with as many as there are ``near``."""
    xp, p, some = array_namespace(like), like.shape[0], like
    width = min(count + _OVERSAMPLE, p // 2)
    narrow = block is not None and block < width and p > 2 * _DEPTH_OF_BLOCKS * width
    depth = _DEPTH_OF_BLOCKS if narrow else min(_DEPTH, p // width, max_passes)
    most = depth * width  # no more directions than there are
    block = block if block is not None and narrow else width
    warm = near is not None  # look at these first
    start = np.random.default_rng(0).standard_normal((p, width if warm else block))
    if near is not None:
        start[:, : min(near.shape[1], width)] = near[:, :width]
    new = xp.linalg.qr(from_numpy(start, some))[0]
    basis, images = new[:, :0], new[:, :0]
    values, V = np.zeros(count), new
    for _ in range(max(1, max_passes // depth)):
        while True:
            last = squared(new)
            basis = xp.concat([basis, new], axis=1)
            images = xp.concat([images, last], axis=1)
            if warm or basis.shape[1] + block > most:
                break
            new = _orthonormal(last, basis)
        small = to_numpy(basis.T @ images)
        values, turn = eigenpairs(0.5 * (small + small.T))
        values, turn = values[::-1][:width], from_numpy(turn[:, ::-1][:, :width], some)
        V, image = basis @ turn, images @ turn
        gap = image - V * from_numpy(values, some)
        errors = np.sqrt(to_numpy(xp.sum(gap * gap, axis=0)))[:count]
        if float(errors.max()) <= tol * float(values[0]):
            break
        if not narrow:
            new = _orthonormal(image, V)
        elif near is None:
            # the images of the best directions have nothing beside these and the last, but rounding
            new = _orthonormal(last, basis)
        else:
            new = _orthonormal(_strongest(gap[:, :count], block), V)  # what they lack most
        basis, images, warm = V, image, False
    return np.clip(values[:count], 0.0, None), V[:, :count]


def _strongest(directions: Array, count: int) -> Array:
    """The leading directions of the space that some span."""
    squares = to_numpy(directions.T @ directions)
    turn = np.linalg.eigh(squares)[1][:, ::-1][:, :count]
    return directions @ from_numpy(turn, directions)


def _orthonormal(directions: Array, basis: Array) -> Array:
    """Orthonormal directions that span, together with the basis, what these do."""
    for _ in range(2):  # once more: rounding leaves something of the basis behind
        directions = _apart(directions - basis @ (basis.T @ directions))
    return directions


def _apart(directions: Array) -> Array:
    """Directions that span the same, orthonormal: nearly, unless they nearly were before.

    By the triangular factor of their products, which costs a fraction of a QR decomposition; that
    is for directions of which one nearly follows from the others. The factor leaves an error of
    rounding times their condition squared, which a second time takes away.
    """
    xp = array_namespace(directions)
    squares = to_numpy(directions.T @ directions).astype(float)
    lengths = np.sqrt(np.diag(squares))
    if np.all(lengths > 0.0):
        with contextlib.suppress(np.linalg.LinAlgError):
            factor = np.linalg.cholesky(squares / np.outer(lengths, lengths))
            if float(np.min(np.diag(factor))) > _WELL_APART:
                one = np.eye(lengths.size)
                inverse = solve_triangular(factor, one, lower=True) / lengths
                return directions @ from_numpy(inverse.T, directions)
    return xp.linalg.qr(directions)[0]


def principal_components(op: Operator, d: int) -> tuple[Array, np.ndarray]:
    """The d leading orthonormal directions of a table (d x p) and the sums of squares along them.

    Directions from a Gram matrix lose orthogonality when the spectrum spans many decades: one
    QR decomposition and one rotation restore it. The largest entry of each is positive.
    """
    xp = op.xp
    basis = xp.linalg.qr(spectrum(op, d).directions(d))[0]
    narrow = xp.astype(basis, op.dtype)

    def squares(block: Array) -> tuple[Array]:
        Y = block @ narrow
        return (Y.T @ Y,)

    values, rotation = np.linalg.eigh(to_numpy(op.sum_rows(squares)[0]).astype(float))
    components = (basis @ from_numpy(rotation[:, ::-1], basis)).T
    strongest = xp.argmax(xp.abs(components), axis=1)
    here = xp.arange(components.shape[1], device=device(basis)) == strongest[:, None]
    negative = xp.sum(xp.where(here, components, 0.0), axis=1) < 0
    return xp.where(negative[:, None], -components, components), np.clip(values[::-1], 0.0, None)


def added_squares(op: Operator, W: np.ndarray) -> np.ndarray:
    """Sum of squares of X that each row of W adds to the span of the rows before it, (d,)."""
    basis = np.zeros(W.shape[::-1])
    for k, w in enumerate(W):  # not by QR, which makes up directions for rows that add none
        q = new_direction(basis[:, :k], w)
        if q is not None:
            basis[:, k] = q
    return sums_of_squares(op, basis)


def new_direction(Q: np.ndarray, w: np.ndarray) -> np.ndarray | None:
    """The unit vector that w adds to the span of Q, or None if it adds nothing."""
    q = w - Q @ (Q.T @ w)
    q = q - Q @ (Q.T @ q)  # once more: the first subtraction leaves rounding
    norm = float(np.linalg.norm(q))
    return q / norm if norm > 1e-8 * float(np.linalg.norm(w)) else None
