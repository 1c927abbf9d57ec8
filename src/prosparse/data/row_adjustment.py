"""Adjustment of the rows for groups and covariates.

Symbols: D (n x c) the design, with one indicator column for each group (the intercept if there is
one group) and the coded covariates; Q (n x c) an orthonormal basis of its columns. The residuals of
Z are Z - Q Q'Z. For noise of variance s^2, the residual of row a has variance (1 - h_a) s^2, where
h_a = |q_a|^2 is the leverage.

Rows of unequal noise and the rows of the design are multiplied by weights w_a. The residuals of the
weighted rows are those of weighted least squares. In these residuals, noise of variance
proportional to 1 / w_a^2 has equal variances and is uncorrelated apart from the projection.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from .arrays import Array, from_numpy, to_numpy
from .operators.base import Operator
from .row_groups import RowGroups, single_group

# Residual proportion of the sum of squares of a covariate, given the groups and preceding
# covariates, below which the covariate is redundant.
_MIN_UNIQUE = 1e-9
# Proportion of a sum of squares below which a difference of sums is inaccurate.
_MIN_RESIDUAL = 1e-4
_MIN_FREE = 1e-9  # value of 1 - h_a below which a row has no residual


class RowAdjustment:
    """Residuals given groups of rows and covariates.

    Parameters
    ----------
    groups : RowGroups
        Groups of rows, each with its own intercept.
    covariates : ndarray of shape (n, k) or None, default=None
        Coded covariates. Columns that are linear functions of the groups and preceding columns are
        not used.
    weights : ndarray of shape (n,) or None, default=None
        Positive multipliers of the rows; ones by default.
    """

    def __init__(
        self,
        groups: RowGroups,
        covariates: np.ndarray | None = None,
        weights: np.ndarray | None = None,
    ):
        n = groups.codes.size
        self.groups = groups
        self.covariates = np.zeros((n, 0)) if covariates is None else covariates
        self.weights = np.ones(n) if weights is None else weights
        # Sum of the squared weights of each group, (n_groups,).
        self._group_squares = np.bincount(
            groups.codes, weights=self.weights**2, minlength=groups.sizes.size
        )

    @property
    def n_parameters(self) -> int:
        """Rank of the design: number of groups plus independent covariates."""
        return int(self.groups.sizes.size + self.used.size)

    @property
    def is_intercept(self) -> bool:
        """Whether the design has only an intercept (one group, no covariates)."""
        return self.n_parameters == 1

    @cached_property
    def used(self) -> np.ndarray:
        """Positions of the covariates that enter the design."""
        columns = self.weights[:, None] * self.covariates
        total = np.sum((columns - np.mean(columns, axis=0)) ** 2, axis=0)
        columns, kept = self._within_groups(columns), np.zeros((columns.shape[0], 0))
        used = []
        for k in range(total.size):
            column = columns[:, k]
            for _ in range(2):  # the second projection removes the rounding errors of the first
                column = column - kept @ (kept.T @ column)
            squares = float(column @ column)
            if squares > _MIN_UNIQUE * total[k]:
                kept = np.column_stack([kept, column / np.sqrt(squares)])
                used.append(k)
        return np.array(used, dtype=int)

    @cached_property
    def basis(self) -> np.ndarray:
        """Orthonormal basis of the design, (n, n_parameters)."""
        return np.column_stack([self._group_basis, self._covariate_basis])

    @cached_property
    def leverages(self) -> np.ndarray:
        """Leverages h_a of the rows, (n,)."""
        of_groups = self.weights**2 / self._group_squares[self.groups.codes]
        return np.asarray(of_groups + np.sum(self._covariate_basis**2, axis=1))

    @property
    def has_residual(self) -> np.ndarray:
        """Mask of the rows whose values the design does not determine, (n,)."""
        return np.asarray(1.0 - self.leverages > _MIN_FREE)

    @cached_property
    def flip_correction(self) -> np.ndarray:
        """Factors 1 / (1 - h_a) of squared residuals, (n,).

        The factor is 1 for rows without a residual.
        """
        free = np.where(self.has_residual, 1.0 - self.leverages, 1.0)
        return np.asarray(1.0 / free)

    def weight_rows(self, factors: np.ndarray) -> RowAdjustment:
        """Return the adjustment for rows multiplied by factors (n,)."""
        adjustment = RowAdjustment(self.groups, self.covariates, self.weights * factors)
        adjustment.used = self.used
        return adjustment

    def take_rows(self, rows: slice) -> RowAdjustment:
        """Return the adjustment of some rows."""
        groups = self.groups.take_rows(rows)
        return RowAdjustment(groups, self.covariates[rows], self.weights[rows])

    def residuals(self, Z: np.ndarray) -> np.ndarray:
        """Compute the residuals of an array (n, k) given the design."""
        within = self._within_groups(Z)
        if self.used.size == 0:
            return within
        return np.asarray(within - self._covariate_basis @ (self._covariate_basis.T @ within))

    def fit(self, op: Operator) -> tuple[np.ndarray, np.ndarray]:
        """Compute the intercepts, and the coefficients of all covariates.

        Intercepts (n_groups, p) refer to covariates of 0. Coefficients (k, p) are zero for
        covariates that are not used.
        """
        solution, n_groups = self._solve(self._products(op)), self.groups.sizes.size
        coefficients = np.zeros((self.covariates.shape[1], op.shape[1]))
        coefficients[self.used] = solution[n_groups:]
        return solution[:n_groups], coefficients

    def coefficients(self, op: Operator) -> np.ndarray:
        """Compute the coefficients of all covariates, (k, p).

        Coefficients of unused covariates are zero.
        """
        return self.fit(op)[1]

    def squares_within_groups(self, op: Operator) -> np.ndarray:
        """Compute the squared norm of each column within the groups, (p,)."""
        of_groups = self._orthonormal_products(self._products(op))[: self.groups.sizes.size]
        return to_numpy(op.column_squares()).astype(float) - np.sum(of_groups**2, axis=0)

    def adjust_operator(self, op: Operator) -> Operator:
        """Subtract the fitted values from a data matrix; sparse data stay sparse."""
        products, squares = self._products(op), to_numpy(op.column_squares()).astype(float)
        right = from_numpy(self._solve(products), op.like, op.dtype)
        adjusted = op.subtract_product(self._design_like(op), right)
        fitted = np.sum(self._orthonormal_products(products) ** 2, axis=0)
        residual = np.maximum(squares - fitted, 0.0)
        cancelled = np.flatnonzero(residual < _MIN_RESIDUAL * squares)
        if cancelled.size:
            summed = adjusted.take_columns(cancelled).column_squares()
            residual[cancelled] = to_numpy(summed).astype(float)
        adjusted.remember_column_squares(residual)
        return adjusted

    # --- the design

    @cached_property
    def design(self) -> np.ndarray:
        """The weighted design D, (n, n_parameters)."""
        indicators = np.eye(self.groups.sizes.size)[self.groups.codes]
        return self.weights[:, None] * np.column_stack([indicators, self.covariates[:, self.used]])

    def _design_like(self, op: Operator) -> Array:
        return from_numpy(self.design, op.like, op.dtype)

    @property
    def _group_basis(self) -> np.ndarray:
        return self.design[:, : self.groups.sizes.size] / np.sqrt(self._group_squares)

    @cached_property
    def _qr(self) -> tuple[np.ndarray, np.ndarray]:
        """QR decomposition of the weighted covariates within groups."""
        columns = self._within_groups(self.covariates[:, self.used] * self.weights[:, None])
        Q, R = np.linalg.qr(columns)
        return self._within_groups(Q), R

    @property
    def _covariate_basis(self) -> np.ndarray:
        """Orthonormal basis of the covariates within groups, (n, k)."""
        return self._qr[0]

    def _within_groups(self, Z: np.ndarray) -> np.ndarray:
        """Subtract from each row the weighted mean of its group."""
        if self.groups.sizes.size == 1:
            sums = (self.weights @ Z)[None, :]
        else:
            sums = np.zeros((self.groups.sizes.size, Z.shape[1]))
            np.add.at(sums, self.groups.codes, self.weights[:, None] * Z)
        means = sums / self._group_squares[:, None]
        return np.asarray(Z - self.weights[:, None] * means[self.groups.codes])

    # --- products with the design

    def _products(self, op: Operator) -> np.ndarray:
        """Compute D'X, (n_parameters, p)."""
        return to_numpy(op.rmatmul(self._design_like(op))).astype(float).T

    def _orthonormal_products(self, products: np.ndarray) -> np.ndarray:
        """Compute Q'X from D'X."""
        count = self.groups.sizes.size
        sums, of_covariates = products[:count], products[count:]
        means = sums / self._group_squares[:, None]
        if self.used.size:
            within = of_covariates - self._cross.T @ means
            of_covariates = np.linalg.solve(self._qr[1].T, within)
        return np.vstack([sums / np.sqrt(self._group_squares)[:, None], of_covariates])

    def _solve(self, products: np.ndarray) -> np.ndarray:
        """Solve the normal equations D'D B = D'X."""
        count = self.groups.sizes.size
        means = products[:count] / self._group_squares[:, None]
        if self.used.size == 0:
            return means
        slopes = np.linalg.solve(self._qr[1], self._orthonormal_products(products)[count:])
        return np.vstack([means - self._cross / self._group_squares[:, None] @ slopes, slopes])

    @cached_property
    def _cross(self) -> np.ndarray:
        """Products of the group indicators and the covariates, (n_groups, k)."""
        count = self.groups.sizes.size
        return self.design[:, :count].T @ self.design[:, count:]


def intercept(n: int) -> RowAdjustment:
    """Return the adjustment of n rows for an intercept."""
    return RowAdjustment(single_group(n))
