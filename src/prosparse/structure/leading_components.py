"""Principal components of subsets of the columns of standardised data.

The shape of the data determines the algorithm. With few columns, the components follow from the
Gram matrix X'X; with few rows, from X X'. If both dimensions are large, only the leading components
are computed, together with an upper bound on the remaining eigenvalues.

Columns are residuals given an intercept, groups of rows (donors, batches, repeated measures) and
covariates (`RowAdjustment`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from ..data import Operator
from ..data.arrays import Array, from_numpy, to_numpy
from ..data.operators.base import sampled_rows
from ..data.row_adjustment import RowAdjustment, intercept
from ..numerics.spectrum import EXACT_SIDE, eigenpairs, leading_eigenvectors
from .leave_one_out import R2Bounds, leave_one_out_r2
from .row_scale import equalise_columns

MIN_DOF = 4  # minimum degrees of freedom of a test: rows minus parameters of their adjustment
# Number of leading components if not all are computed, and number of extra eigenvalues that bound
# the remaining ones.
N_LEADING = 24
N_EXTRA = 8
# Residuals relative to the largest eigenvalue. Tests depend little on the tolerance: for four
# shapes of data, p-values of 0.001 and 0.01 differed by less than 2 % in the median. Fitted
# components require a smaller tolerance.
TEST_TOLERANCE = 1e-2
FIT_TOLERANCE = 1e-3
_RANK_TOLERANCE = 1e-11  # relative size below which Gram eigenvalues are rounding errors


class PrincipalComponents(NamedTuple):
    """Principal components of a subset of the columns, the *members*."""

    members: np.ndarray  # (p,) bool
    eigenvalues: np.ndarray  # (m,) of X X' of the members, in decreasing order
    member_projections: np.ndarray  # (n_members, m) U'x of the members
    projections: np.ndarray  # (p, k) U'x of all columns, on the first k components
    score_weights: np.ndarray  # (n_members, m) F with scores U = X F
    eigenvalue_bound: float | None  # upper bound on the other eigenvalues; None if there are none


class StandardisedData:
    """Standardised data matrix with cached principal components.

    Parameters
    ----------
    op : Operator
        Data matrix with columns of equal variance that are residuals of the adjustment.
    adjustment : RowAdjustment or None
        Adjustment of the rows; None stands for an intercept.
    """

    def __init__(self, op: Operator, adjustment: RowAdjustment | None = None):
        self.op = op
        self.adjustment = intercept(op.shape[0]) if adjustment is None else adjustment
        self.n, self.p = op.shape
        self.dof = self.n - self.adjustment.n_parameters
        self.sums_of_squares = to_numpy(op.column_squares()).astype(float)
        # Number of columns, of observed rows and of degrees of freedom of each variable.
        self.sizes = np.ones(self.p, dtype=int)
        self.n_observed = np.full(self.p, float(self.n))
        self.dofs = np.full(self.p, float(self.dof))
        # Consecutive calls often use the same subset or a similar one.
        self.last_components: PrincipalComponents | None = None
        self._last_tolerance = TEST_TOLERANCE
        self._last_r2: tuple[PrincipalComponents, R2Bounds] | None = None
        self._last_flip_means: tuple[PrincipalComponents, np.ndarray] | None = None
        self._last_subset: tuple[np.ndarray, Operator] | None = None
        self._start_directions: np.ndarray | None = None  # (p, m) initial eigenvectors
        has_few_columns = self.p <= self.n and self.p <= EXACT_SIDE
        self.gram = _to_float64(op.gram()) if has_few_columns else None

    def take_columns(self, columns: np.ndarray) -> StandardisedData:
        """Restrict the data to some columns."""
        return StandardisedData(self.op.take_columns(columns), self.adjustment)

    def sample_rows(self, count: int) -> StandardisedData:
        """Restrict the data to ``count`` or more evenly spaced rows."""
        adjustment = self.adjustment.take_rows(sampled_rows(self.n, count))
        op = adjustment.adjust_operator(self.op.sample_rows(count))
        return StandardisedData(equalise_columns(op), adjustment)

    def principal_components(
        self, members: np.ndarray, count: int, tolerance: float = TEST_TOLERANCE
    ) -> PrincipalComponents:
        """Compute the principal components of the member columns.

        At least ``count`` components are computed; ``count`` must be less than the number of
        members and the degrees of freedom. If not all are computed, ``tolerance`` is the residual
        relative to the largest eigenvalue.
        """
        last = self.last_components
        if last is not None and np.array_equal(last.members, members):
            complete = last.eigenvalue_bound is None
            needed = min(count, last.eigenvalues.size) if complete else count
            if needed <= last.projections.shape[1] and (
                complete or self._last_tolerance <= tolerance
            ):
                return last
        self.last_components = self._decompose(members, count, tolerance)
        self._last_tolerance = tolerance
        return self.last_components

    def start_from(self, other: StandardisedData) -> None:
        """Start iterations from the last components of other data."""
        self._start_directions = other._start_directions

    def columns_of(self, members: np.ndarray) -> np.ndarray:
        """Convert a mask of variables to a mask of their columns.

        Blocks have several columns.
        """
        return members

    def max_count(self, members: np.ndarray) -> int:
        """Count the columns of the members without the largest member."""
        sizes = self.sizes[members]
        return int(sizes.sum() - sizes.max(initial=1.0))

    def imputed(self, members: np.ndarray) -> StandardisedData:
        """Return data without blocks in which members have no missing values."""
        return self

    def sequential_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        """Compute the squared correlation of each column with each component, (p, k).

        k is the smaller of ``count`` and the rank of the members. The components for a member are
        those of the other members. The values for i = 1, ..., d add up to R2(d).
        """
        found = self.principal_components(members, count, FIT_TOLERANCE)
        count = min(count, found.eigenvalues.size)
        squares = np.where(self.sums_of_squares > 0.0, self.sums_of_squares, 1.0)
        r2 = found.projections[:, :count] ** 2 / squares[:, None]
        r2[members] = self.member_r2(found, count).lower
        return r2

    def partial_r2(self, members: np.ndarray, count: int) -> np.ndarray:
        """Compute squared partial correlations with components, (p, k)."""
        r2 = self.sequential_r2(members, count)
        unexplained = np.maximum(1.0 - np.sum(r2, axis=1, keepdims=True), 0.0)
        return r2 / np.maximum(unexplained + r2, 1e-300)

    def member_r2(self, components: PrincipalComponents, count: int) -> R2Bounds:
        """Compute c_1, ..., c_count of each member given the others.

        The last result is cached, because a larger ``count`` does not change the first values.
        """
        cached = self._last_r2
        if cached is None or cached[0] is not components or cached[1].lower.shape[1] < count:
            r2 = leave_one_out_r2(
                components.eigenvalues,
                components.member_projections,
                self.sums_of_squares[components.members],
                count,
                components.eigenvalue_bound,
            )
            self._last_r2 = cached = components, r2
        return R2Bounds(*(part[:, :count] for part in cached[1]))

    def member_operator(self, members: np.ndarray) -> Operator:
        """Return the data matrix of the members; cache the last matrix."""
        if members.all():
            return self.op
        if self._last_subset is None or not np.array_equal(self._last_subset[0], members):
            self._last_subset = None  # releases its memory before the next one is made
            self._last_subset = members, self.op.take_columns(np.flatnonzero(members))
        return self._last_subset[1]

    def _decompose(self, members: np.ndarray, count: int, tolerance: float) -> PrincipalComponents:
        """Decompose by the algorithm for the shape of the data."""
        if self.gram is not None:
            columns = np.flatnonzero(members)
            with_all = self.gram[:, columns]
            return self._from_gram(members, with_all[columns], count, lambda F: with_all @ F)
        subset = self.member_operator(members)
        width = int(subset.shape[1])
        if width <= min(self.n, EXACT_SIDE):
            return self._from_gram(
                members,
                _to_float64(subset.gram()),
                count,
                lambda F: self._project_all(subset.matmul(self.from_numpy(F))),
            )
        if self.n <= EXACT_SIDE:
            return self._from_outer(members, subset, count)
        return self._leading_from_products(members, subset, count, tolerance)

    def _from_gram(
        self,
        members: np.ndarray,
        gram: np.ndarray,
        count: int,
        project: Callable[..., np.ndarray],
    ) -> PrincipalComponents:
        """Decompose X'X of the members.

        ``project`` maps weights F to X'X F of all columns.
        """
        eigenvalues, V = _sort_eigenpairs(eigenpairs(gram), self.dof)
        weights = V / np.sqrt(eigenvalues)
        count = min(max(count, N_LEADING), eigenvalues.size)
        return PrincipalComponents(
            members, eigenvalues, gram @ weights, project(weights[:, :count]), weights, None
        )

    def _from_outer(self, members: np.ndarray, subset: Operator, count: int) -> PrincipalComponents:
        """Decompose X X' of the members."""
        outer = _to_float64(subset.outer())
        eigenvalues, U = _sort_eigenpairs(np.linalg.eigh(0.5 * (outer + outer.T)), self.dof)
        count = min(max(count, N_LEADING), eigenvalues.size)
        z = _to_float64(subset.rmatmul(self.from_numpy(U)))
        projections = z[:, :count]
        if not members.all():
            projections = _to_float64(self.op.rmatmul(self.from_numpy(U[:, :count])))
        return PrincipalComponents(members, eigenvalues, z, projections, z / eigenvalues, None)

    def _leading_from_products(
        self, members: np.ndarray, subset: Operator, count: int, tolerance: float
    ) -> PrincipalComponents:
        """Compute leading components by products with X."""
        xp, like = subset.xp, subset.column_squares()
        rough = subset.rough()  # single precision is sufficient for the iterations

        def multiply_gram(V: Array) -> Array:
            narrow = xp.astype(V, rough.dtype)
            (product,) = rough.sum_rows(lambda block: (block.T @ (block @ narrow),))
            return xp.astype(product, V.dtype)

        m = min(max(count, N_LEADING) + 1 + N_EXTRA, like.shape[0] // 2)
        tol = max(tolerance, 30.0 * float(xp.finfo(rough.dtype).eps))
        columns = self.columns_of(members)
        start = None if self._start_directions is None else self._start_directions[columns]
        eigenvalues, V = leading_eigenvectors(
            multiply_gram, like, m, tol, initial=start, block=subset.few_columns
        )
        self._start_directions = np.zeros((columns.size, m))
        self._start_directions[columns] = _to_float64(V)
        weights = _to_float64(V) / np.sqrt(eigenvalues)
        scores = rough.matmul(from_numpy(weights, like, rough.dtype))
        projections = _to_float64(self.op.rough().rmatmul(scores))
        # Eigenvalues, and therefore the bound, are accurate to `tol` times the largest eigenvalue.
        bound = float(eigenvalues[-1] + tol * eigenvalues[0])
        return PrincipalComponents(
            members,
            eigenvalues[:-1],
            projections[columns, :-1],
            projections[:, :-1],
            weights[:, :-1],
            bound,
        )

    def _project_all(self, scores: Array) -> np.ndarray:
        """Compute X'U of all columns."""
        return _to_float64(self.op.rmatmul(scores))

    def scores(self, components: PrincipalComponents, count: int) -> np.ndarray:
        """Compute the first scores U, (n, count), with orthonormal columns."""
        subset = self.member_operator(components.members)
        weights = self.from_numpy(components.score_weights[:, :count])
        return _to_float64(subset.matmul(weights))

    def flip_means(self, components: PrincipalComponents, count: int) -> np.ndarray:
        """Compute sum_a y_a^2 u_ai^2 for each column y of unit length, (p, count).

        The last result is cached.
        """
        cached = self._last_flip_means
        if cached is None or cached[0] is not components or cached[1].shape[1] < count:
            means = self._flip_means(self.scores(components, count))
            self._last_flip_means = cached = components, means
        return cached[1][:, :count]

    def _flip_means(self, U: np.ndarray) -> np.ndarray:
        correction = self.adjustment.flip_correction[:, None]
        sums = _to_float64(self.op.power_sums(2, self.from_numpy(correction * U**2)))
        squares = np.where(self.sums_of_squares > 0.0, self.sums_of_squares, 1.0)
        return np.asarray(sums / squares[:, None])

    def dense_columns(self, columns: np.ndarray) -> np.ndarray:
        """Return some columns of the data as an array (n, k)."""
        return _to_float64(self.op.take_columns(columns).dense())

    def fourth_moments(self) -> np.ndarray:
        """Compute sum_a y_a^4 of each column y scaled to unit length, (p,)."""
        fourth = _to_float64(self.op.power_sums(4, self.from_numpy(np.ones((self.n, 1)))))[:, 0]
        squares = np.where(self.sums_of_squares > 0.0, self.sums_of_squares, 1.0)
        return np.asarray(fourth / squares**2)

    def squared_products(self, columns: np.ndarray) -> np.ndarray:
        """Compute the squared entries of X'Y for some columns Y of the data, (p, k)."""
        if self.gram is not None:
            return np.asarray(self.gram[:, columns] ** 2)
        products = _to_float64(self.op.rmatmul(self.from_numpy(self.dense_columns(columns))))
        return np.square(products, out=products)

    def to_numpy(self, array: Array) -> np.ndarray:
        """Convert to a NumPy array in double precision."""
        return _to_float64(array)

    def from_numpy(self, array: np.ndarray) -> Array:
        """Convert to the array library and dtype of the data."""
        return from_numpy(array, self.op.like, self.op.dtype)


def _sort_eigenpairs(
    pairs: tuple[np.ndarray, np.ndarray], max_rank: int
) -> tuple[np.ndarray, np.ndarray]:
    """Sort eigenpairs in decreasing order and drop rounding errors."""
    eigenvalues, vectors = pairs[0][::-1], pairs[1][:, ::-1]
    rank = min(int(np.sum(eigenvalues > _RANK_TOLERANCE * eigenvalues[0])), max_rank)
    return eigenvalues[:rank], vectors[:, :rank]


def _to_float64(array: Array) -> np.ndarray:
    return to_numpy(array).astype(float, copy=False)
