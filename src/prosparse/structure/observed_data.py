"""Standardised data with missing values and blocks.

A *block* holds the orthonormal indicator columns of a category (`null_distribution`), which belong
to one variable; a number is a block of one column. With D scores of the other variables, the
statistic of a block with m columns B is R2(d) = |U'B|_F^2 / m, the mean over its columns.

A missing value must not be replaced by what other variables predict before the test: the variable
would share variance with them by construction. Therefore

* the components of a set of columns, the *members*, are those of the members with their missing
  values filled by a low-rank fit to the members alone;
* column j is tested on the rows O_j in which it is observed. The scores for a member are those of
  the other members (`leave_one_out`). On O_j they are adjusted for the design and orthonormalised:
  W_j, (|O_j| x D), with R2(d) = sum_{i <= d} (w_i'y)^2 / |y|^2. Given the scores and the pattern of
  missing values, the null distributions of `null_distribution` hold with |O_j| rows.

A fill that used column j would carry its entries into the scores. The members are therefore filled
again without each member, if there are few. With many members, missing values keep the mean of
their column: each row has enough observed values, and the leave-one-out components are exact. A
category is missing in all columns of its block at once.

The low-rank fit shrinks singular values by the optimal shrinker of Gavish and Donoho [GD17].
Without signals, missing values keep the mean of their column.

[GD17]  M. Gavish, D. L. Donoho. Optimal shrinkage of singular values. IEEE Transactions on
        Information Theory 63, 2017.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data import DenseOperator, Operator
from ..data.row_adjustment import RowAdjustment
from ..parallel import in_parallel, slices_of
from .leading_components import MIN_DOF, PrincipalComponents, StandardisedData
from .leave_one_out import leave_block_out_eigenvectors, leave_one_out_eigenvectors
from .null_distribution import Moments, block_flip_moments, residual_flip_moments

MIN_OBSERVED = 5.0  # number of rows that the moments of permutations require
MAX_FILLED = 50  # maximum number of members whose missing values are filled
N_FILL_ITERATIONS = 12
_FILL_TOLERANCE = 1e-3  # change of the filled entries relative to the observed ones
_ENTRIES_PER_CHUNK = 2**21
_COLUMNS_PER_CHUNK = 1024
_MIN_VARIANCE = 1e-9  # relative variance below which a column is constant
_RIDGE = 1e-10  # relative diagonal term for scores that are collinear on few rows
_MIN_RESIDUAL = 1e-9
_MIN_SINGULAR = 1e-8  # relative singular value of a score that counts as zero


class Observed(NamedTuple):
    """Result of `observed_data`."""

    data: ObservedData
    factors: np.ndarray  # of the columns; zeros for columns that are not tested


class ObservedStatistics(NamedTuple):
    """Leave-one-out statistics of some variables."""

    r2: np.ndarray  # (k, D) R2 with each score given the ones before it
    partial_r2: np.ndarray  # (k, D) squared (multiple) partial correlation given all other scores
    squared_leverages: np.ndarray  # (k, D) sum_a h_a(d)^2


class ObservedData(StandardisedData):
    """Standardised data with missing values or blocks.

    Parameters
    ----------
    Z : ndarray of shape (n, n_columns)
        Columns of equal variance, residuals of the design on the observed rows; zeros where a value
        is missing. The columns of a block are orthogonal.
    seen : bool ndarray of shape (n, p)
        Mask of the observed entries of the p variables.
    adjustment : RowAdjustment
        Design whose residuals the columns are.
    sizes : int ndarray of shape (p,) or None
        Number of columns of each variable; ones by default.
    """

    def __init__(
        self,
        Z: np.ndarray,
        seen: np.ndarray,
        adjustment: RowAdjustment,
        sizes: np.ndarray | None = None,
    ):
        super().__init__(DenseOperator(Z), adjustment)
        self.Z, self.seen, self.p = Z, seen, seen.shape[1]
        self.gram = None
        # Members, and the scores without each of them.
        self._last_scores: tuple[np.ndarray, dict[int, np.ndarray]] | None = None
        self.sizes = np.ones(self.p, dtype=int) if sizes is None else sizes
        self._starts = np.cumsum(self.sizes) - self.sizes
        self.sums_of_squares = self._sum_blocks(self.sums_of_squares) / self.sizes
        self.n_observed = np.maximum(seen.sum(axis=0).astype(float), MIN_OBSERVED)
        self.dofs = np.maximum(self.n_observed - adjustment.n_parameters, 1.0)
        self._has_missing = not seen.all()

    def take_columns(self, columns: np.ndarray) -> ObservedData:
        Z = self.Z[:, self._positions(columns)]
        return ObservedData(Z, self.seen[:, columns], self.adjustment, self.sizes[columns])

    def columns_of(self, members: np.ndarray) -> np.ndarray:
        return np.repeat(members, self.sizes)

    def _positions(self, variables: np.ndarray) -> np.ndarray:
        """Return the positions of the columns of some variables."""
        sizes = self.sizes[variables]
        offsets = self._starts[variables] - (np.cumsum(sizes) - sizes)
        return np.asarray(np.repeat(offsets, sizes) + np.arange(sizes.sum()))

    def _sum_blocks(self, values: np.ndarray) -> np.ndarray:
        """Sum the last axis over the columns of each variable."""
        if values.shape[-1] == self.p:
            return values
        return np.asarray(np.add.reduceat(values, self._starts, axis=-1))

    def _members_with_mask(self, members: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """Return the columns of the members, and the mask of their observed entries."""
        seen = np.repeat(self.seen[:, members], self.sizes[members], axis=1)
        return self.Z[:, self.columns_of(members)], seen

    def member_operator(self, members: np.ndarray) -> Operator:
        """Return the members with filled missing values; the last one is cached."""
        if self._last_subset is None or not np.array_equal(self._last_subset[0], members):
            self._last_subset = None
            Z = self.Z[:, self.columns_of(members)]
            if self._fills(members):
                Z = fill_by_components(*self._members_with_mask(members), self.dof)
            self._last_subset = members, DenseOperator(Z)
        return self._last_subset[1]

    def member_scores(self, found: PrincipalComponents, columns: np.ndarray, D: int) -> np.ndarray:
        """Compute scores that exclude each variable, (k or 1, n, D).

        The variables have the same size.
        """
        U = self.scores(found, found.eigenvalues.size)
        is_member = found.members[columns]
        if not is_member.any():
            return U[None, :, :D]
        scores = np.empty((columns.size, self.n, D))
        scores[~is_member] = U[:, :D]
        if self._fills(found.members):
            for k in np.flatnonzero(is_member):
                scores[k] = self._scores_without(found.members, columns[k], D)
            return scores
        size = int(self.sizes[columns[0]])
        last = np.cumsum(np.where(found.members, self.sizes, 0))[columns[is_member]]
        z = found.member_projections[last[:, None] + np.arange(-size, 0)]
        if size == 1:
            without = leave_one_out_eigenvectors(found.eigenvalues, z[:, 0], D)
        else:
            without = leave_block_out_eigenvectors(found.eigenvalues, z, D)
        scores[is_member] = U @ without
        return scores

    def _fills(self, members: np.ndarray) -> bool:
        """Return whether missing values of the members are filled."""
        return self._has_missing and int(members.sum()) <= MAX_FILLED

    def _scores_without(self, members: np.ndarray, column: int, D: int) -> np.ndarray:
        """Compute the scores of the members without one.

        The scores are cached.
        """
        last = self._last_scores
        if last is None or last[0] is not members:
            self._last_scores = last = members, {}
        if column not in last[1]:
            others = members.copy()
            others[column] = False
            filled = fill_by_components(*self._members_with_mask(others), self.dof)
            U, values, _ = np.linalg.svd(filled, full_matrices=False)
            last[1][column] = U * (values > _MIN_SINGULAR * values[0])
        return last[1][column][:, :D]

    def observed_scores(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Orthonormalise the scores that exclude each column on its observed rows.

        Returns
        -------
        W : ndarray of shape (k, n, D)
            Orthonormal columns, orthogonal to the design; zeros in rows that are not observed.
        partial : ndarray of shape (k, n, D)
            Unit residuals of each score given all others and the design.
        leverages : ndarray of shape (k, n)
            Leverages of the design on the observed rows.
        """
        rows = self.seen[:, columns].T[:, :, None]
        Q = self.adjustment.basis
        c = Q.shape[1]
        A = np.empty((columns.size, self.n, c + D))
        np.multiply(rows, Q, out=A[:, :, :c])
        np.multiply(rows, self.member_scores(found, columns, D), out=A[:, :, c:])
        gram = np.swapaxes(A, 1, 2) @ A
        diagonal = np.arange(c + D)
        scale = np.maximum(gram[:, diagonal, diagonal], 1e-300)
        gram[:, diagonal, diagonal] += _RIDGE * scale + 1e-300
        L = np.linalg.cholesky(gram)
        inverse = np.linalg.inv(L)
        W = A @ np.swapaxes(inverse, 1, 2)
        # The last row of the inverse factor gives the residual of the last score given all others;
        # the inverse of the Gram matrix gives those of all scores.
        precision = np.swapaxes(inverse, 1, 2) @ inverse
        partial = A @ precision[:, :, c:]
        partial /= np.sqrt(np.maximum(precision[:, diagonal[c:], diagonal[c:]], 1e-300))[:, None, :]
        return W[:, :, c:], partial, np.sum(W[:, :, :c] ** 2, axis=2)

    def _unit_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return columns of unit length of variables of the same size m, (k, n, m)."""
        Y = self.Z[:, self._positions(columns)].T
        lengths = np.sqrt(np.maximum(np.sum(Y * Y, axis=1, keepdims=True), 1e-300))
        return np.swapaxes((Y / lengths).reshape(columns.size, -1, self.n), 1, 2)

    def _map_chunks(
        self,
        compute: Callable[[np.ndarray], tuple[np.ndarray, ...]],
        columns: np.ndarray,
        D: int,
        count: int,
    ) -> list[np.ndarray]:
        """Compute ``count`` arrays (k, D) by chunks of equal size."""
        sizes, chunks = self.sizes[columns], []
        for size in np.unique(sizes):
            index = np.flatnonzero(sizes == size)
            width = self.n * (D * int(size) + self.adjustment.n_parameters)
            step = max(1, _ENTRIES_PER_CHUNK // width)
            chunks += [index[chunk] for chunk in slices_of(index.size, step)]
        results = [np.zeros((columns.size, D)) for _ in range(count)]
        parts = in_parallel(lambda chunk: compute(columns[chunk]), chunks)
        for chunk, part in zip(chunks, parts, strict=True):
            for result, values in zip(results, part, strict=True):
                result[chunk] = values
        return results

    def statistics(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> ObservedStatistics:
        """Compute the leave-one-out statistics of some variables."""

        def compute(chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            W, partial, _ = self.observed_scores(found, chunk, D)
            Y = self._unit_columns(chunk)
            products = np.swapaxes(W, 1, 2) @ Y
            r2 = np.mean(products**2, axis=2)
            # Squared multiple correlation of residual scores with the residuals of the block.
            along = np.swapaxes(partial, 1, 2) @ Y
            unexplained = np.eye(Y.shape[2]) - np.swapaxes(products, 1, 2) @ products
            unexplained += _RIDGE * np.eye(Y.shape[2])
            ratio = np.sum(
                along * np.swapaxes(np.linalg.solve(unexplained, np.swapaxes(along, 1, 2)), 1, 2),
                axis=2,
            )
            ratio = np.maximum(ratio, 0.0)
            squared_leverages = np.sum(np.cumsum(W**2, axis=2) ** 2, axis=1)
            return np.minimum(r2, 1.0), ratio / (1.0 + ratio), squared_leverages

        self.scores(found, 1)  # caches the members
        return ObservedStatistics(*self._map_chunks(compute, columns, D, 3))

    def sequential_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        return self._member_statistics(members, count).r2

    def partial_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        return self._member_statistics(members, count).partial_r2

    def _member_statistics(self, members: np.ndarray, count: int) -> ObservedStatistics:
        found = self.principal_components(members, count)
        return self.statistics(found, np.arange(self.p), min(count, found.eigenvalues.size))

    def flip_means(self, U: np.ndarray) -> np.ndarray:
        observed = np.maximum(self.seen.T @ U**2, 1e-300)  # squared length on the observed rows
        weights = self.adjustment.flip_correction[:, None] * U**2
        sums = self._sum_blocks(weights.T @ self.Z**2).T
        squares = np.where(self.sums_of_squares > 0.0, self.sums_of_squares, 1.0)
        return np.asarray(sums / squares[:, None] / observed)

    def fourth_moments(self) -> np.ndarray:
        squares = np.where(self.sums_of_squares > 0.0, self.sums_of_squares, 1.0)
        lengths = self._sum_blocks(self.Z**2) / squares
        return np.sum(lengths**2, axis=0) * 3.0 / (self.sizes * (self.sizes + 2.0))

    def dense_columns(self, columns: np.ndarray) -> np.ndarray:
        return self.Z[:, self._positions(columns)]

    def squared_products(self, columns: np.ndarray) -> np.ndarray:
        products = self._sum_blocks((self.dense_columns(columns).T @ self.Z) ** 2).T
        if products.shape[1] == columns.size:
            return products
        sizes = self.sizes[columns]
        return np.asarray(np.add.reduceat(products, np.cumsum(sizes) - sizes, axis=1))

    def imputed(self, members: np.ndarray) -> StandardisedData:
        Z = self.Z.copy()
        Z[:, self.columns_of(members)] = fill_by_components(
            *self._members_with_mask(members), self.dof
        )
        return StandardisedData(DenseOperator(Z), self.adjustment)

    def last_tested(self, columns: np.ndarray, D: int) -> np.ndarray:
        """Return the largest supported number up to each d, (k, D).

        Numbers are counted from 0. A column with few observed rows supports few components.
        """
        limit = np.maximum((self.dofs[columns] + 1.0) // 3.0, 1.0)
        return np.minimum(np.arange(D), limit[:, None] - 1.0).astype(int)

    def flip_moments(
        self, found: PrincipalComponents, columns: np.ndarray, D: int, few_rows: int
    ) -> Moments:
        """Compute the moments of R2(d) under random signs of the observed entries."""

        def compute(chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            W, _, design_leverages = self.observed_scores(found, chunk, D)
            Y = self._unit_columns(chunk)
            has_few = self.n_observed[chunk] <= few_rows
            mean, variance = np.zeros((2, chunk.size, D))
            for part, is_few in ((has_few, True), (~has_few, False)):
                if not part.any():
                    continue
                if is_few:
                    moments = residual_flip_moments(W[part], Y[part], design_leverages[part])
                else:
                    free = np.maximum(1.0 - design_leverages[part], _MIN_RESIDUAL)
                    moments = block_flip_moments(W[part], Y[part] / np.sqrt(free)[:, :, None])
                mean[part], variance[part] = moments
            return mean, variance

        return Moments(*self._map_chunks(compute, columns, D, 2))


def fill_by_design(op: Operator, seen: np.ndarray, adjustment: RowAdjustment) -> DenseOperator:
    """Fill missing values by the fitted values of the design.

    The least-squares coefficients of the filled columns are those of the observed entries, and
    residuals of missing entries are 0.
    """
    Z = np.where(seen, np.asarray(op.dense(), dtype=float), 0.0)
    Q = adjustment.basis
    c = Q.shape[1]
    products = (Q[:, :, None] * Q[:, None, :]).reshape(-1, c * c)
    for chunk in slices_of(Z.shape[1], _COLUMNS_PER_CHUNK):
        observed = seen[:, chunk]
        gram = (observed.T @ products).reshape(-1, c, c)
        gram += (_RIDGE * np.trace(gram, axis1=1, axis2=2))[:, None, None] * np.eye(c)
        coefficients = np.linalg.solve(gram, (Z[:, chunk].T @ Q)[:, :, None])[:, :, 0]
        Z[:, chunk] = np.where(observed, Z[:, chunk], Q @ coefficients.T)
    return DenseOperator(Z)


def observed_data(
    op: Operator, seen: np.ndarray, adjustment: RowAdjustment, sizes: np.ndarray | None = None
) -> Observed:
    """Scale residuals to unit variance, and orthogonalise blocks.

    Columns with too few observed rows become zero and are not tested. ``seen`` is the mask of the
    columns, and ``sizes`` are the numbers of columns of the variables.
    """
    Z = np.where(seen, np.asarray(op.dense(), dtype=float), 0.0)
    count, squares = seen.sum(axis=0), np.sum(Z * Z, axis=0)
    varies = squares > _MIN_VARIANCE * np.maximum(count, 1.0)
    varies &= count - adjustment.n_parameters >= MIN_DOF
    factors = np.where(varies, np.sqrt(count / np.where(varies, squares, 1.0)), 0.0)
    Z *= factors
    sizes = np.ones(Z.shape[1], dtype=int) if sizes is None else sizes
    starts = np.cumsum(sizes) - sizes
    for k in np.flatnonzero(sizes > 1):
        block = slice(starts[k], starts[k] + sizes[k])
        Z[:, block] = _orthogonalise(Z[:, block], int(count[starts[k]]))
    return Observed(ObservedData(Z, seen[:, starts], adjustment, sizes), factors)


def _orthogonalise(B: np.ndarray, count: int) -> np.ndarray:
    """Multiply a block by the inverse square root of its covariance matrix."""
    eigenvalues, V = np.linalg.eigh(B.T @ B / max(count, 1))
    is_free = eigenvalues > _MIN_VARIANCE
    inverse = np.where(is_free, 1.0 / np.sqrt(np.where(is_free, eigenvalues, 1.0)), 0.0)
    return np.asarray(B @ (V * inverse) @ V.T)


def fill_by_components(Z: np.ndarray, seen: np.ndarray, dof: int) -> np.ndarray:
    """Fill missing values by iterated fits of low rank, shrunken by [GD17].

    Parameters
    ----------
    Z : ndarray of shape (n, q)
        Standardised columns, zero where a value is missing.
    seen : bool ndarray of shape (n, q)
    dof : int
        Degrees of freedom of the rows.

    Returns
    -------
    ndarray of shape (n, q)
    """
    n, q = Z.shape
    if seen.all() or q < 2:
        return Z.copy()
    filled, size = Z, float(np.linalg.norm(Z))
    rank = max(1, min(dof // 3, (q - 1) // 2, 24))
    for _ in range(N_FILL_ITERATIONS):
        is_wide = n <= q
        gram = filled @ filled.T if is_wide else filled.T @ filled
        eigenvalues, vectors = np.linalg.eigh(gram)
        eigenvalues, vectors = np.maximum(eigenvalues[::-1], 0.0), vectors[:, ::-1]
        factors = _shrinkage(eigenvalues, dof, q, rank)
        kept = np.flatnonzero(factors > 0.0)
        if kept.size == 0:
            return Z.copy()
        V = vectors[:, kept]
        if is_wide:
            fitted = V @ (factors[kept, None] * (V.T @ filled))
        else:
            fitted = (filled @ V * factors[kept]) @ V.T
        new = np.where(seen, Z, fitted)
        change = float(np.linalg.norm(new - filled))
        filled = new
        if change <= _FILL_TOLERANCE * size:
            break
    return np.asarray(filled)


def _shrinkage(eigenvalues: np.ndarray, dof: int, q: int, rank: int) -> np.ndarray:
    """Return factors of the first singular values, [GD17] (7).

    The factors of singular values of noise are zero.

    The noise variance is that of the singular values below the edge of white noise.
    """
    smaller, larger = min(dof, q), max(dof, q)
    beta = smaller / larger
    edge = (1.0 + np.sqrt(beta)) ** 2  # largest eigenvalue of white noise, relative to its variance
    count = 0
    while True:
        noise = float(np.sum(eigenvalues[count:smaller])) / ((smaller - count) * larger)
        y2 = eigenvalues[:rank] / max(noise * larger, 1e-300)
        above = y2 > edge
        if int(above.sum()) <= count:
            break
        count = int(above.sum())
    inside = np.maximum((y2 - beta - 1.0) ** 2 - 4.0 * beta, 0.0)
    return np.where(above, np.sqrt(inside) / np.maximum(y2, 1e-300), 0.0)
