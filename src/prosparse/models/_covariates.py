"""Adjustment of training rows and new rows for covariates."""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from ..data import Columns, Operator
from ..data.arrays import Array, TableLike, as_like, from_numpy, to_numpy
from ..data.covariates import CovariateCoding, RowDesign, row_design
from ..data.row_adjustment import RowAdjustment
from ..data.standardisation import AdjustedColumns, adjust_columns
from ..errors import CovariatesWarning, ParameterError, plural, warn
from ._base import SparseProjection

# Residual proportions of the variance of a covariate, given groups and preceding covariates, below
# which the covariate is redundant or nearly collinear.
_DETERMINED = 1e-9
_NEARLY_COLLINEAR = 0.02
# Minimum proportion of the degrees of freedom within groups that should remain.
_MIN_FREE = 1 / 3


def check_design(groups: Any, covariates: Any, n: int, min_dof: int) -> RowDesign:
    """Read the groups and the covariates of the n rows of a fit.

    At least ``min_dof`` degrees of freedom must remain.
    """
    design = row_design(groups, covariates, n)
    n_groups = design.adjustment.groups.sizes.size
    if groups is not None and n - n_groups < min_dof:
        raise ParameterError(
            f"`groups` has {n_groups} labels for {n} rows. Rows are compared within groups: at "
            f"least {min_dof} more rows than groups are required."
        )
    if design.coding is not None:
        _check_degrees_of_freedom(design, min_dof)
        _warn_about_collinearity(design, design.coding, groups is not None)
    return design


def _check_degrees_of_freedom(design: RowDesign, min_dof: int) -> None:
    n, n_groups = design.adjustment.groups.codes.size, design.adjustment.groups.sizes.size
    free, used = n - design.adjustment.n_parameters, design.adjustment.used.size
    problem = (
        f"`covariates` has {plural(used, 'coded column')} for {n} rows and leaves "
        f"{plural(free, 'degree')} of freedom"
    )
    remedy = "Drop covariates, or merge rare levels of categories."
    if free < min_dof:
        raise ParameterError(f"{problem}; at least {min_dof} are required. {remedy}")
    if free < _MIN_FREE * (n - n_groups):
        warn(f"{problem}: tests have little power. {remedy}", CovariatesWarning)


def _warn_about_collinearity(design: RowDesign, coding: CovariateCoding, has_groups: bool) -> None:
    """Warn about covariates that (nearly) depend on groups or others."""
    coded, groups = design.adjustment.covariates, design.adjustment.groups
    determined: list[str] = []
    nearly: list[str] = []
    for name, block in zip(coding.names, coding.blocks, strict=True):
        columns = coded[:, block]
        before = np.sum((columns - columns.mean(axis=0)) ** 2, axis=0)
        after = np.sum(
            RowAdjustment(groups, coded[:, : block.start]).residuals(columns) ** 2, axis=0
        )
        unique = np.min(after / np.maximum(before, 1e-300), initial=1.0)
        if np.any(before > 0.0) and unique < _NEARLY_COLLINEAR:
            (determined if unique <= _DETERMINED else nearly).append(name)
    others = "groups or other covariates" if has_groups else "other covariates"
    for names, what, consequence in (
        (
            determined,
            "determined by",
            "Its effects in the fit are removed, but new rows cannot be adjusted for it alone.",
        ),
        (
            nearly,
            "nearly collinear with",
            "Its effects are removed, but its coefficients are inaccurate: scores of new rows may "
            "be wrong.",
        ),
    ):
        for name in names:
            warn(f"The covariate {name!r} is {what} {others}. {consequence}", CovariatesWarning)


class AdjustedProjection(SparseProjection):
    """Base class of projections that adjust the rows for groups and covariates.

    ``fit`` reads the groups and covariates with `check_design`, and passes the standardised columns
    to `_adjust`.
    """

    _variable_attributes: tuple[tuple[str, str], ...] = (("covariate_r2", "covariate_r2_"),)

    covariate_names_: np.ndarray
    covariate_levels_: dict[str, np.ndarray]
    covariate_mean_: np.ndarray
    covariate_coef_: Array
    covariate_r2_: Array

    def _adjust(self, op: Operator, columns: Columns, design: RowDesign) -> AdjustedColumns:
        """Adjust standardised columns, and set the attributes of the covariates."""
        adjusted = adjust_columns(op, columns, design.adjustment)
        if design.coding is None:
            return adjusted
        coding, width = design.coding, columns.mean.shape[0]
        self.covariate_names_ = np.array(coding.names, dtype=object)
        self.covariate_levels_ = {
            name: np.array(levels, dtype=object)
            for name, levels in zip(coding.names, coding.levels, strict=True)
            if levels is not None
        }
        self.covariate_mean_ = design.mean
        index, adjustment, k = columns.varying_index, design.adjustment, design.mean.size
        unit = to_numpy(columns.scale)[index] * columns.unit
        fitted = adjustment.coefficients(op)[:k]
        coefficients = np.zeros((k, width))
        coefficients[:, index] = fitted / design.scale[:, None] * unit
        if np.any(adjustment.weights != 1.0):  # the means of weighted covariates are not zero
            mean = to_numpy(columns.mean).astype(float).copy()
            centred = adjustment.covariates[:, :k] - np.mean(adjustment.covariates[:, :k], axis=0)
            mean[index] -= unit * (adjustment.weights @ centred @ fitted) / centred.shape[0]
            adjusted = adjusted._replace(
                columns=adjusted.columns._replace(mean=columns.numbers(mean))
            )
        self.covariate_coef_ = columns.numbers(coefficients)
        r2 = np.zeros(width)
        r2[index] = adjusted.r2
        self.covariate_r2_ = columns.numbers(r2)
        return adjusted

    def _operator_of(
        self, X: TableLike, columns: np.ndarray | None = None, covariates: Any = None
    ) -> Operator:
        op = self._unadjusted_operator(X, columns)
        effects = self._covariate_effects(covariates, X.shape[0])
        if effects is None:
            return op
        coded, coefficients = effects
        scale = to_numpy(self.scale_).astype(float)
        coefficients = coefficients / scale
        if columns is not None:
            coefficients = coefficients[:, columns]
        coded = self._design_weights(X)[:, None] * coded
        left, right = (as_like(part, X, op.dtype) for part in (coded, coefficients))
        return op.subtract_product(left, right)

    def _unadjusted_operator(self, X: TableLike, columns: np.ndarray | None) -> Operator:
        """Return the operator of new rows, standardised but not adjusted."""
        return super()._operator_of(X, columns)

    def _design_weights(self, X: TableLike) -> np.ndarray:
        """Return the multipliers of the covariates of new rows, (n,)."""
        return np.ones(X.shape[0])

    def _covariate_effects(self, covariates: Any, n: int) -> tuple[np.ndarray, np.ndarray] | None:
        """Compute centred coded covariates (n, k) and their coefficients (k, p)."""
        name = type(self).__name__
        if not hasattr(self, "covariate_names_"):
            if covariates is not None:
                raise ParameterError(
                    f"`covariates` must be None for a model fitted without covariates. Omit them, "
                    f"or fit with `{name}.fit(X, covariates=...)`."
                )
            return None
        names = tuple(self.covariate_names_.tolist())
        if covariates is None:
            raise ParameterError(
                f"`covariates` is required: this {name} was fitted with "
                f"{', '.join(map(repr, names))}. Pass the covariates of these rows."
            )
        levels = (self.covariate_levels_.get(name) for name in names)
        coding = CovariateCoding(names, tuple(None if v is None else tuple(v) for v in levels))
        coded = coding.encode(coding.match(covariates, n)) - self.covariate_mean_
        return coded, to_numpy(self.covariate_coef_).astype(float)

    def fit_transform(
        self, X: TableLike, y: object = None, *, groups: Any = None, covariates: Any = None
    ) -> Array:
        """Fit the model to ``X`` and return the scores.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows, as in ``fit``.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows, as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Scores.
        """
        fitted: Self = self.fit(X, y, groups=groups, covariates=covariates)
        return fitted.transform(X, covariates=covariates)

    def transform(self, X: TableLike, *, covariates: Any = None) -> Array:
        """Project rows on the components.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``. They are centred and scaled as in ``fit``.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows, required if ``fit`` received covariates. Effects are subtracted
            with the coefficients of ``fit``. Columns of DataFrames are matched by name.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Scores.
        """
        return self._transform(X, covariates=covariates)

    def score(self, X: TableLike, y: object = None, *, covariates: Any = None) -> float:
        """Return the proportion of variance explained by the components.

        This is 1 minus the relative squared error of the least-squares reconstruction of ``X``
        from the components, centred, scaled and adjusted for covariates as in ``fit``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``.
        y : object
            Ignored. Present for API consistency.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows, required if ``fit`` received covariates.

        Returns
        -------
        float
        """
        return self._score(X, covariates=covariates)

    def inverse_transform(self, X: TableLike, *, covariates: Any = None) -> Array:
        """Reconstruct rows from scores.

        Columns that are not selected are reconstructed by their means. Without ``covariates``, the
        result is adjusted: it refers to rows with the mean covariates of ``fit``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Scores.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows. Their effects are added to the reconstruction.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        adjusted = super().inverse_transform(X)
        if covariates is None:
            return adjusted
        effects = self._covariate_effects(covariates, adjusted.shape[0])
        if effects is None:
            return adjusted
        return adjusted + from_numpy(effects[0] @ effects[1], adjusted, adjusted.dtype)
