"""Standardised data with missing values and blocks.

A *block* contains the orthonormal columns of a categorical variable (`null_distribution`); a
numeric variable is a block of one column. With D scores of the other variables, the statistic of a
block with m columns B is R2(d) = |U'B|_F^2 / m, the mean over its columns.

Missing values must not be imputed from other variables before the test, because the variable would
share variance with these by construction. Therefore,

* the components of a set of columns, the *members*, are those of the members with their missing
  values filled by a low-rank fit to the members alone;
* column j is tested on the rows O_j in which it is observed. The scores for a member are those of
  the other members (`leave_one_out`). On O_j they are adjusted for the design and orthonormalised:
  W_j, (|O_j| x D), with R2(d) = sum_{i <= d} (w_i'y)^2 / |y|^2. Given the scores and the pattern of
  missing values, the null distributions of `null_distribution` apply with |O_j| rows.

Values imputed from column j would make the scores depend on this column. The members are therefore
filled again without each member, if there are few. With many members or rows, missing values are
set to the column mean, because each row has enough observed values, or the test has enough rows.
The leave-one-out components are then exact. A categorical variable is missing in all columns of its
block.

With many columns, the products A'A and A'y of the scores A of all members on the rows O_j are
computed jointly (`common_products`). The products of a member with scores that exclude it follow
from the secular equation (`leave_one_out`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data import DenseOperator, Operator
from ..data.row_adjustment import RowAdjustment
from ..parallel import in_parallel, slices_of
from .leading_components import MIN_DOF, PrincipalComponents, StandardisedData
from .leave_one_out import (
    approximate_leave_one_out_r2,
    leave_block_out_eigenvectors,
    leave_one_out_eigenvectors,
)
from .low_rank_fill import fill_by_components
from .null_distribution import (
    FEW_ROWS,
    Moments,
    block_flip_moments,
    residual_flip_moments,
    sign_flip_moments,
    upper_triangle,
)

# Maximum number of scores that are computed separately for each column, without the column. With
# more, the scores of all members are used: one column then has little effect.
MAX_OWN_SCORES = 2**22
MIN_OBSERVED = 5.0  # minimum number of rows for the moments of permutations
MAX_FILLED = 50  # maximum number of members whose missing values are filled
_MAX_FILLED_ENTRIES = 2**16  # with many rows, the test needs no fill to be powerful
_ENTRIES_PER_CHUNK = 2**21
_COLUMNS_PER_CHUNK = 1024
_ROWS_PER_CHUNK = 2**14
_MIN_VARIANCE = 1e-9  # relative variance below which a column is constant
_RIDGE = 1e-10  # relative diagonal term for scores that are collinear on few rows
_MIN_RESIDUAL = 1e-9
_MIN_SINGULAR = 1e-8  # relative singular value below which a score is zero


class Observed(NamedTuple):
    """Result of `observed_data`."""

    data: ObservedData
    factors: np.ndarray  # multipliers of the columns; 0 for columns that are not tested


class ObservedStatistics(NamedTuple):
    """Leave-one-out statistics of some variables."""

    r2: np.ndarray  # (k, D) R2 of each score given the preceding ones
    squared_leverages: np.ndarray  # (k, D) sum_a h_a(d)^2


class ScoreProducts(NamedTuple):
    """Products of A, the design and scores, on the observed rows of variables."""

    A: np.ndarray  # (k, n, c + D), zeros in rows that are not observed; (n, c + D) if common
    Y: np.ndarray  # (k, n, m) columns of unit length
    gram: np.ndarray  # (k, c + D, c + D) A'A
    with_columns: np.ndarray  # (k, c + D, m) A'Y


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
        Design of which the columns are residuals.
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
        """Return the members with imputed missing values; cache the last matrix."""
        if self._last_subset is None or not np.array_equal(self._last_subset[0], members):
            self._last_subset = None
            Z = self.Z[:, self.columns_of(members)]
            if self._fills(members):
                Z = fill_by_components(*self._members_with_mask(members), self.dof)
            self._last_subset = members, DenseOperator(Z)
        return self._last_subset[1]

    def member_scores(self, found: PrincipalComponents, columns: np.ndarray, D: int) -> np.ndarray:
        """Compute scores that exclude each variable, (k or 1, n, D).

        The variables must have the same size.
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
        count = int(members.sum())
        is_small = count <= MAX_FILLED and count * self.n <= _MAX_FILLED_ENTRIES
        return self._has_missing and is_small

    def _scores_without(self, members: np.ndarray, column: int, D: int) -> np.ndarray:
        """Compute the scores of the members without one variable.

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

    def _uses_common_scores(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> np.ndarray:
        """Return for which variables `common_products` is used."""
        if self.n * self.p * D <= MAX_OWN_SCORES:
            return np.zeros(columns.size, dtype=bool)
        n_scores = int(found.members.sum()) * self.n * D
        has_own = self._fills(found.members) or n_scores <= MAX_OWN_SCORES
        is_common = (self.sizes[columns] == 1) & (self.n_observed[columns] > FEW_ROWS)
        return np.asarray(is_common & ~(found.members[columns] & has_own))

    def own_products(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> ScoreProducts:
        """Compute products with the scores that exclude each variable."""
        Q, Y = self.adjustment.basis, self._unit_columns(columns)
        rows, c = self.seen[:, columns].T[:, :, None], Q.shape[1]
        A = np.empty((columns.size, self.n, c + D))
        np.multiply(rows, Q, out=A[:, :, :c])
        np.multiply(rows, self.member_scores(found, columns, D), out=A[:, :, c:])
        transposed = np.swapaxes(A, 1, 2)
        return ScoreProducts(A, Y, _add_ridge(transposed @ A), transposed @ Y)

    def common_products(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> ScoreProducts:
        """Compute products with the scores of all members.

        For a member y, the entries of A'y have the magnitudes of products with scores that exclude
        y. A'A is computed from all members, because with many members, a single one hardly changes
        the leverages of the rows.
        """
        A = np.column_stack([self.adjustment.basis, self.scores(found, D)])
        missing = ~self.seen[:, columns]
        rows = np.flatnonzero(missing.any(axis=1))
        gram = A.T @ A - weighted_gram(missing[rows].T, A[rows])
        z, squares = found.projections[columns, :D], self.sums_of_squares[columns, None]
        index = np.flatnonzero(found.members[columns])
        if index.size:
            position = np.cumsum(found.members)[columns[index]] - 1
            r2 = approximate_leave_one_out_r2(
                found.eigenvalues,
                found.member_projections[position],
                squares[index, 0],
                D,
                found.eigenvalue_bound,
            )
            z[index] = np.sqrt(r2 * squares[index]) * np.sign(z[index])
        products = np.zeros((columns.size, A.shape[1], 1))
        products[:, -D:, 0] = z / np.sqrt(np.maximum(squares, 1e-300))
        return ScoreProducts(A, self._unit_columns(columns), _add_ridge(gram), products)

    def _common_leverages(
        self, A: np.ndarray, columns: np.ndarray, weights: np.ndarray, D: int
    ) -> np.ndarray:
        """Compute sum_a v_ja h_a(d)^2 for weights v (k, n) and scores of all members.

        The leverages of all rows are scaled so that they sum to d on the observed rows.
        """
        leverages = np.cumsum(A[:, -D:] ** 2, axis=1)
        scale = np.arange(1.0, D + 1.0) / np.maximum(self.seen[:, columns].T @ leverages, 1e-300)
        return np.asarray((weights @ leverages**2) * scale**2)

    def _unit_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return unit columns of variables of the same size m, (k, n, m)."""
        Y = self.Z[:, self._positions(columns)].T
        lengths = np.sqrt(np.maximum(np.sum(Y * Y, axis=1, keepdims=True), 1e-300))
        return np.swapaxes((Y / lengths).reshape(columns.size, -1, self.n), 1, 2)

    def _map_chunks(
        self,
        compute: Callable[[ScoreProducts, np.ndarray], tuple[np.ndarray, ...]],
        found: PrincipalComponents,
        columns: np.ndarray,
        D: int,
        count: int,
    ) -> list[np.ndarray]:
        """Compute ``count`` arrays (k, D) by chunks of equal size."""
        sizes, is_common = self.sizes[columns], self._uses_common_scores(found, columns, D)
        chunks = [
            part
            for chunk in slices_of(columns.size, max(256, _ENTRIES_PER_CHUNK // self.n))
            if (part := np.arange(columns.size)[chunk][is_common[chunk]]).size
        ]
        for size in np.unique(sizes):
            index = np.flatnonzero((sizes == size) & ~is_common)
            width = self.n * (D * int(size) + self.adjustment.n_parameters)
            step = max(1, _ENTRIES_PER_CHUNK // width)
            chunks += [index[chunk] for chunk in slices_of(index.size, step)]

        def compute_chunk(chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            products = self.common_products if is_common[chunk[0]] else self.own_products
            return compute(products(found, columns[chunk], D), columns[chunk])

        self.scores(found, 1)  # caches the members
        results = [np.zeros((columns.size, D)) for _ in range(count)]
        for chunk, part in zip(chunks, in_parallel(compute_chunk, chunks), strict=True):
            for result, values in zip(results, part, strict=True):
                result[chunk] = values
        return results

    def statistics(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> ObservedStatistics:
        """Compute the leave-one-out statistics of some variables."""

        def compute(products: ScoreProducts, chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            L = np.linalg.cholesky(products.gram)
            r2 = np.mean(np.linalg.solve(L, products.with_columns)[:, -D:] ** 2, axis=2)
            if products.A.ndim == 2:
                leverages = self._common_leverages(products.A, chunk, self.seen[:, chunk].T, D)
            else:
                W = products.A @ np.swapaxes(np.linalg.inv(L)[:, -D:], 1, 2)
                leverages = np.sum(np.cumsum(W**2, axis=2) ** 2, axis=1)
            return np.minimum(r2, 1.0), leverages

        return ObservedStatistics(*self._map_chunks(compute, found, columns, D, 2))

    def sequential_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        found = self.principal_components(members, count)
        return self.statistics(found, np.arange(self.p), min(count, found.eigenvalues.size)).r2

    def partial_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        found = self.principal_components(members, count)
        D = min(count, found.eigenvalues.size)

        def compute(products: ScoreProducts, chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            # Squared multiple correlation of residual scores with the residuals of the block.
            precision, Y = np.linalg.inv(products.gram), products.with_columns
            coefficients = precision @ Y
            unexplained = (1.0 + _RIDGE) * np.eye(Y.shape[2]) - np.swapaxes(Y, 1, 2) @ coefficients
            along = np.swapaxes(coefficients[:, -D:], 1, 2)
            ratio = np.sum(along * np.linalg.solve(unexplained, along), axis=1)
            ratio = np.maximum(ratio / np.diagonal(precision, axis1=1, axis2=2)[:, -D:], 0.0)
            return (ratio / (1.0 + ratio),)

        return self._map_chunks(compute, found, np.arange(self.p), D, 1)[0]

    def _flip_means(self, U: np.ndarray) -> np.ndarray:
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
        """Return the largest supported number of components up to each d, (k, D).

        Numbers start at 0. A column with few observed rows supports few components.
        """
        limit = np.maximum((self.dofs[columns] + 1.0) // 3.0, 1.0)
        return np.minimum(np.arange(D), limit[:, None] - 1.0).astype(int)

    def flip_moments(self, found: PrincipalComponents, columns: np.ndarray, D: int) -> Moments:
        """Compute the moments of R2(d) under random signs of observed entries."""
        c = self.adjustment.n_parameters

        def compute(products: ScoreProducts, chunk: np.ndarray) -> tuple[np.ndarray, ...]:
            A, Y = products.A, products.Y
            inverse = np.linalg.inv(np.linalg.cholesky(products.gram))
            if A.ndim == 2:
                # The leverages of the design are inversely proportional to the number of rows.
                free = (1.0 - c / self.n) / (1.0 - c / self.n_observed[chunk])
                squares = Y[:, :, 0] ** 2 * self.adjustment.flip_correction * free[:, None]
                half = inverse[:, -D:]
                M = half @ weighted_gram(squares, A) @ np.swapaxes(half, 1, 2)
                fourth = self._common_leverages(A, chunk, squares**2, D)
                i, k = upper_triangle(D)
                return sign_flip_moments(M[:, i, k], fourth)
            W = A @ np.swapaxes(inverse, 1, 2)
            scores, leverages = W[:, :, -D:], np.sum(W[:, :, :-D] ** 2, axis=2)
            corrected = Y / np.sqrt(np.maximum(1.0 - leverages, _MIN_RESIDUAL))[:, :, None]
            mean, variance = np.zeros((2, chunk.size, D))
            few = self.n_observed[chunk] <= FEW_ROWS
            if few.any():
                of_few = residual_flip_moments(scores[few], Y[few], leverages[few])
                mean[few], variance[few] = of_few
            if not few.all():
                mean[~few], variance[~few] = block_flip_moments(scores[~few], corrected[~few])
            return mean, variance

        return Moments(*self._map_chunks(compute, found, columns, D, 2))


def _add_ridge(gram: np.ndarray) -> np.ndarray:
    """Add a small diagonal term, for scores that are collinear on few rows."""
    diagonal = np.arange(gram.shape[1])
    scale = np.maximum(gram[:, diagonal, diagonal], 1e-300)
    gram[:, diagonal, diagonal] += _RIDGE * scale + 1e-300
    return gram


def weighted_gram(weights: np.ndarray, A: np.ndarray) -> np.ndarray:
    """Compute sum_a w_ja A_a A_a' for each row j of weights (k, n), (k, m, m)."""
    i, k = upper_triangle(A.shape[1])
    packed = np.zeros((weights.shape[0], i.size))
    for rows in slices_of(A.shape[0], _ROWS_PER_CHUNK):
        packed += weights[:, rows] @ (A[rows][:, i] * A[rows][:, k])
    gram = np.empty((weights.shape[0], A.shape[1], A.shape[1]))
    gram[:, i, k] = gram[:, k, i] = packed
    return gram


def fill_by_design(op: Operator, seen: np.ndarray, adjustment: RowAdjustment) -> DenseOperator:
    """Impute missing values by the fitted values of the design.

    The imputed columns have the least-squares coefficients of the observed entries, and residuals
    of missing entries are 0.
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
    """Scale residuals to unit variance and orthogonalise blocks.

    Columns with too few observed rows become zero and are not tested. ``seen`` is the mask of the
    observed entries, and ``sizes`` are the numbers of columns of the variables.
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
