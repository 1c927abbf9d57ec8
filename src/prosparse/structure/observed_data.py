"""Standardised data with missing values, and leave-one-out statistics of the observed entries.

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
their column: each row has enough observed values, and the leave-one-out components are exact.

The low-rank fit shrinks singular values by the optimal shrinker of Gavish and Donoho [GD17].
Without signals, missing values keep the mean of their column.

[GD17]  M. Gavish, D. L. Donoho. Optimal shrinkage of singular values. IEEE Transactions on
        Information Theory 63, 2017.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ..data import DenseOperator, Operator
from ..data.row_adjustment import RowAdjustment
from ..parallel import in_parallel, slices_of
from .leading_components import MIN_DOF, PrincipalComponents, StandardisedData
from .leave_one_out import leave_one_out_eigenvectors
from .null_distribution import Moments, residual_flip_moments

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
    factors: np.ndarray  # (p,) of the columns; zeros for columns that are not tested


class ObservedStatistics(NamedTuple):
    """Leave-one-out statistics of some columns on the rows in which they are observed."""

    r2: np.ndarray  # (k, D) squared correlation with each score given the ones before it
    partial_r2: np.ndarray  # (k, D) squared partial correlation given all other scores
    squared_leverages: np.ndarray  # (k, D) sum_a h_a(d)^2


class ObservedData(StandardisedData):
    """Standardised data with missing values.

    Parameters
    ----------
    Z : ndarray of shape (n, p)
        Columns of equal variance, residuals of the design on the observed rows; zeros where a value
        is missing.
    seen : bool ndarray of shape (n, p)
        Mask of the observed entries.
    adjustment : RowAdjustment
        Design whose residuals the columns are.
    """

    def __init__(self, Z: np.ndarray, seen: np.ndarray, adjustment: RowAdjustment):
        super().__init__(DenseOperator(Z), adjustment)
        self.Z, self.seen = Z, seen
        self.gram = None
        # Members, and the scores without each of them.
        self._last_scores: tuple[np.ndarray, dict[int, np.ndarray]] | None = None
        self.n_observed = np.maximum(seen.sum(axis=0).astype(float), MIN_OBSERVED)
        self.dofs = np.maximum(self.n_observed - adjustment.n_parameters, 1.0)

    def take_columns(self, columns: np.ndarray) -> ObservedData:
        return ObservedData(self.Z[:, columns], self.seen[:, columns], self.adjustment)

    def member_operator(self, members: np.ndarray) -> Operator:
        """Return the members with filled missing values; the last one is cached."""
        if self._last_subset is None or not np.array_equal(self._last_subset[0], members):
            self._last_subset = None
            Z = self.Z[:, members]
            if self._fills(members):
                Z = fill_by_components(Z, self.seen[:, members], self.dof)
            self._last_subset = members, DenseOperator(Z)
        return self._last_subset[1]

    def member_scores(self, found: PrincipalComponents, columns: np.ndarray, D: int) -> np.ndarray:
        """Compute scores that exclude each column, (k, n, D) or (1, n, D) if none is a member."""
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
        index = (np.cumsum(found.members) - 1)[columns[is_member]]
        z = found.member_projections[index]
        scores[is_member] = U @ leave_one_out_eigenvectors(found.eigenvalues, z, D)
        return scores

    def _fills(self, members: np.ndarray) -> bool:
        """Return whether missing values of the members are filled."""
        return int(members.sum()) <= MAX_FILLED

    def _scores_without(self, members: np.ndarray, column: int, D: int) -> np.ndarray:
        """Compute the scores of the members without one, whose fill never used it; cached."""
        last = self._last_scores
        if last is None or last[0] is not members:
            self._last_scores = last = members, {}
        if column not in last[1]:
            others = members.copy()
            others[column] = False
            filled = fill_by_components(self.Z[:, others], self.seen[:, others], self.dof)
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
        """Return columns of unit length as rows, (k, n)."""
        Y = self.Z[:, columns].T
        lengths = np.sqrt(np.maximum(np.sum(Y * Y, axis=1, keepdims=True), 1e-300))
        return np.asarray(Y / lengths)

    def _chunks(self, columns: np.ndarray, D: int) -> list[np.ndarray]:
        width = self.n * (D + self.adjustment.n_parameters)
        step = max(1, _ENTRIES_PER_CHUNK // width)
        return [columns[chunk] for chunk in slices_of(columns.size, step)]

    def statistics(
        self, found: PrincipalComponents, columns: np.ndarray, D: int
    ) -> ObservedStatistics:
        """Compute the leave-one-out statistics of some columns."""

        def compute(chunk: np.ndarray) -> ObservedStatistics:
            W, partial, _ = self.observed_scores(found, chunk, D)
            Y = self._unit_columns(chunk)[:, :, None]
            r2 = np.sum(W * Y, axis=1) ** 2
            along = np.sum(partial * Y, axis=1) ** 2
            unexplained = np.maximum(1.0 - np.sum(r2, axis=1, keepdims=True), 0.0)
            leverages = np.cumsum(W**2, axis=2)
            partial_r2 = along / np.maximum(unexplained + along, 1e-300)
            return ObservedStatistics(np.minimum(r2, 1.0), partial_r2, np.sum(leverages**2, axis=1))

        self.scores(found, 1)  # caches the members
        parts = in_parallel(compute, self._chunks(columns, D))
        if not parts:
            return ObservedStatistics(*(np.zeros((0, D)) for _ in range(3)))
        return ObservedStatistics(*(np.concatenate(part) for part in zip(*parts, strict=True)))

    def sequential_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        return self._member_statistics(members, count).r2

    def partial_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        return self._member_statistics(members, count).partial_r2

    def _member_statistics(self, members: np.ndarray, count: int) -> ObservedStatistics:
        found = self.principal_components(members, count)
        return self.statistics(found, np.arange(self.p), min(count, found.eigenvalues.size))

    def flip_means(self, U: np.ndarray) -> np.ndarray:
        observed = np.maximum(self.seen.T @ U**2, 1e-300)  # squared length on the observed rows
        return super().flip_means(U) / observed

    def imputed(self, members: np.ndarray) -> StandardisedData:
        Z = self.Z.copy()
        Z[:, members] = fill_by_components(Z[:, members], self.seen[:, members], self.dof)
        return StandardisedData(DenseOperator(Z), self.adjustment)

    def last_tested(self, columns: np.ndarray, D: int) -> np.ndarray:
        """Return, for d = 1, ..., D, the largest number up to d that each column supports, (k, D).

        Numbers are counted from 0. A column with few observed rows supports few components.
        """
        limit = np.maximum((self.dofs[columns] + 1.0) // 3.0, 1.0)
        return np.minimum(np.arange(D), limit[:, None] - 1.0).astype(int)

    def flip_moments(
        self, found: PrincipalComponents, columns: np.ndarray, D: int, few_rows: int
    ) -> Moments:
        """Compute the moments of R2(d) under random signs of the observed entries."""

        def compute(chunk: np.ndarray) -> Moments:
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
                    moments = _flip_moments(W[part], Y[part], design_leverages[part])
                mean[part], variance[part] = moments
            return Moments(mean, variance)

        parts = in_parallel(compute, self._chunks(columns, D))
        if not parts:
            return Moments(np.zeros((0, D)), np.zeros((0, D)))
        return Moments(*(np.concatenate(part) for part in zip(*parts, strict=True)))


def _flip_moments(W: np.ndarray, Y: np.ndarray, design_leverages: np.ndarray) -> Moments:
    """Compute the moments of R2(d) under random signs from M, see `null_distribution`."""
    D = W.shape[2]
    weights = Y**2 / np.maximum(1.0 - design_leverages, _MIN_RESIDUAL)
    M = np.swapaxes(W * weights[:, :, None], 1, 2) @ W
    squares = np.cumsum(np.cumsum(M**2, axis=1), axis=2)  # sums over leading blocks
    leading = np.arange(D)
    leverages = np.cumsum(W**2, axis=2)
    own = np.einsum("ja,jad->jd", weights**2, leverages**2)
    mean = np.cumsum(M[:, leading, leading], axis=1)
    return Moments(mean, 2.0 * (squares[:, leading, leading] - own))


def fill_by_design(op: Operator, seen: np.ndarray, adjustment: RowAdjustment) -> DenseOperator:
    """Fill missing values by the fitted values of the design on the observed rows.

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


def observed_data(op: Operator, seen: np.ndarray, adjustment: RowAdjustment) -> Observed:
    """Scale residuals to unit variance on the observed rows.

    Columns with too few observed rows become zero and are not tested.
    """
    Z = np.where(seen, np.asarray(op.dense(), dtype=float), 0.0)
    count, squares = seen.sum(axis=0), np.sum(Z * Z, axis=0)
    varies = squares > _MIN_VARIANCE * np.maximum(count, 1.0)
    varies &= count - adjustment.n_parameters >= MIN_DOF
    factors = np.where(varies, np.sqrt(count / np.where(varies, squares, 1.0)), 0.0)
    return Observed(ObservedData(Z * factors, seen, adjustment), factors)


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
    """Return factors of the first singular values, [GD17] (7); zeros for those of noise.

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
