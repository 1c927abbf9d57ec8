"""Base class of SpinyRegressor and SpinyClassifier."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, get_args

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ...data import Columns
from ...data.containers import Table
from ...errors import (
    DuplicateRowsWarning,
    InputError,
    OutlyingRowsWarning,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    plural,
    warn,
)
from ...structure.duplicate_rows import find_duplicates
from .._base import VariableSelector
from .averaging import Average, mixture_interval
from .null_test import NullData
from .set_model import Coefficients
from .solve import SelectionRule, Solution

MAX_EXPONENT = 305  # maximum decimal exponent of a variance or precision


class SpinyBase(VariableSelector):
    """Base class that sets fitted attributes in the units of the data.

    Coefficients have a leading axis of m responses, which `_by_response` removes for a single
    response.
    """

    _min_features = 1
    _variable_attributes = (
        ("inclusion_probability", "inclusion_probability_"),
        ("coef", "coef_"),
        ("coef_std", "coef_std_"),
        ("selected_coef", "selected_coef_"),
        ("conditional_coef_mean", "conditional_coef_mean_"),
        ("conditional_coef_std", "conditional_coef_std_"),
    )
    coef_: np.ndarray
    coef_std_: np.ndarray
    intercept_: Any
    candidate_indices_: np.ndarray
    inclusion_probability_: np.ndarray
    _nonzero_probability: np.ndarray  # (p,) probability of a nonzero coefficient
    conditional_coef_mean_: np.ndarray
    conditional_coef_std_: np.ndarray
    # Inputs of the variance of a prediction, in addition to the noise.
    # (m, 1 + k, 1 + k) covariances of intercept and coefficients of scaled columns
    _candidate_covariance: np.ndarray
    _excluded_variance: np.ndarray  # (m,) mean contribution of all variables except the candidates
    _averaged: bool  # whether `coef_` is an average over sets

    def _by_response(self, values: np.ndarray) -> Any:
        """Convert an attribute with a leading axis of m responses."""
        return values

    def _set_solution(
        self,
        found: Solution[Any],
        columns: Columns,
        units: np.ndarray,
        means: np.ndarray,
        averaged: bool,
    ) -> None:
        """Set the fitted attributes of a solution.

        ``units`` and ``means`` (m,) refer to the responses.
        """
        indices = self._set_selection(columns, found.order, found.selected, found.relevance)
        self.cardinalities_ = np.arange(found.log_posterior.size)
        self.n_iter_ = int(found.bounds.size)
        self.n_selected_ = int(indices.size)
        self.stop_reason_ = found.reason
        self._averaged = averaged
        increasing, varying = np.argsort(indices), np.flatnonzero(self.varying_)
        self.credible_sets_ = [varying[found.credible[i]] for i in increasing]
        self._set_selected(
            found.coefficients, indices[increasing], increasing, columns, units, means
        )
        if found.expected_f is not None:
            self.expected_f_score_ = found.expected_f
        if found.average is not None:
            self._set_average(found.average, varying[found.listed], columns, units, means)

    def _set_selected(
        self,
        found: Coefficients,
        indices: np.ndarray,
        increasing: np.ndarray,
        columns: Columns,
        units: np.ndarray,
        means: np.ndarray,
    ) -> None:
        """Set the coefficients of the selected set, which `predict` uses."""
        factor = (units / columns.length(1.0))[:, None]  # converts coefficients of scaled columns
        coef, std = (np.zeros((units.size, self.support_.size)) for _ in range(2))
        coef[:, indices] = found.mean[:, increasing] * factor / self.scale_[indices]
        intercept = means + units * found.intercept - coef @ self.mean_
        at = np.concatenate([[0], 1 + increasing])
        covariance = _scale(found.covariance[:, at][:, :, at], units, factor)
        within = covariance[:, 1:, 1:]
        std[:, indices] = np.sqrt(np.diagonal(within, axis1=1, axis2=2)) / self.scale_[indices]
        scales = self.scale_[indices]
        self.selected_coef_ = self._by_response(coef)
        self.selected_intercept_ = self._by_response(intercept)
        self.selected_coef_covariance_ = self._by_response(within / scales[:, None] / scales)
        self.coef_, self.coef_std_ = self._by_response(coef.copy()), self._by_response(std)
        self.intercept_ = self._by_response(intercept.copy())
        self.candidate_indices_ = indices
        self._candidate_covariance = covariance
        self._excluded_variance = np.zeros(units.size)

    def _set_average(
        self,
        average: Average,
        indices: np.ndarray,
        columns: Columns,
        units: np.ndarray,
        means: np.ndarray,
    ) -> None:
        """Set the attributes of the average over sets of the columns ``indices``."""
        factor = (units / columns.length(1.0))[:, None]
        to_units = factor / self.scale_[indices]

        def on_all_columns(values: np.ndarray) -> np.ndarray:
            full = np.zeros((*values.shape[:-1], self.support_.size))
            full[..., indices] = values
            return full

        self.inclusion_probability_ = on_all_columns(average.inclusion)
        self._nonzero_probability = on_all_columns(average.nonzero)
        self.conditional_coef_mean_ = self._by_response(
            on_all_columns(average.active_mean * to_units)
        )
        self.conditional_coef_std_ = self._by_response(
            on_all_columns(np.sqrt(average.active_variance) * to_units)
        )
        size = min(average.size_probability.size, self.support_.size + 1)
        self.model_size_probability_ = np.zeros(self.support_.size + 1)
        self.model_size_probability_[:size] = average.size_probability[:size]
        if not self._averaged:
            return
        coef = on_all_columns(average.mean * to_units)
        self.coef_ = self._by_response(coef)
        self.intercept_ = self._by_response(means + units * average.intercept - coef @ self.mean_)
        self.coef_std_ = self._by_response(on_all_columns(np.sqrt(average.variance) * to_units))
        self.candidate_indices_ = indices[average.candidates]
        self._candidate_covariance = _scale(average.covariance, units, factor)
        self._excluded_variance = units**2 * average.excluded_variance

    def _variance_of_coefficients(self, X: Table) -> np.ndarray:
        """Compute the variance due to intercept and coefficients, (n, m)."""
        indices = self.candidate_indices_
        Z = np.asarray(X[:, indices] @ np.eye(indices.size)) - self.mean_[indices]
        Z = np.column_stack([np.ones(Z.shape[0]), Z / self.scale_[indices]])
        forms = np.stack(
            [np.einsum("ij,ij->i", Z @ C, Z) for C in self._candidate_covariance], axis=1
        )
        variances: np.ndarray = np.maximum(forms, 0.0) + self._excluded_variance
        return variances

    def coef_interval(self, level: float = 0.95) -> np.ndarray:
        """Compute equal-tailed credible intervals of the coefficients.

        With averaging, the posterior of a coefficient is a mixture of a point mass at zero and a
        Gaussian distribution given that it is not zero. The probability of the point mass is one
        minus the inclusion probability, or zero with a dense component. An interval contains the
        proportion ``level`` of this mixture. If the prior is adequate, the intervals cover the
        proportion ``level`` of all coefficients, zero or not. The coverage of nonzero coefficients
        is smaller, because the interval is [0, 0] for undetected variables, whose probability of a
        nonzero coefficient is at most ``(1 - level) / 2``. ``conditional_coef_mean_`` and
        ``conditional_coef_std_`` describe a coefficient given that it is nonzero. Without
        averaging, the intervals are those of the selected set, and zero for other variables.

        Parameters
        ----------
        level : float, default=0.95
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features, 2) or (n_targets, n_features, 2)
            Lower and upper limits of the intervals, for each response.
        """
        check_is_fitted(self)
        if not (isinstance(level, Real) and 0.0 < float(level) < 1.0):
            raise ParameterError(f"`level` must be in (0, 1), got {level!r}.")
        if self._averaged:
            return mixture_interval(
                self._nonzero_probability,
                self.conditional_coef_mean_,
                self.conditional_coef_std_,
                level,
            )
        return mixture_interval(self.support_.astype(float), self.coef_, self.coef_std_, level)

    def _check_parameters(self) -> None:
        parameters: Any = self
        check_bool("fit_intercept", parameters.fit_intercept)
        check_bool("scale", parameters.scale)
        check_choice("selection_rule", parameters.selection_rule, get_args(SelectionRule))
        check_bool("average", parameters.average)
        check_integer("max_iter", parameters.max_iter, 1)
        check_non_negative("tol", parameters.tol)


def _scale(covariance: np.ndarray, units: np.ndarray, factor: np.ndarray) -> np.ndarray:
    """Convert covariances (m, 1 + k, 1 + k) to the units of the data."""
    each = np.concatenate(
        [units[:, None], np.broadcast_to(factor, (units.size, covariance.shape[1] - 1))], axis=1
    )
    scaled: np.ndarray = covariance * each[:, :, None] * each[:, None, :]
    return scaled


def check_exponents(log_values: np.ndarray, what: str) -> None:
    """Raise an error if a value, given by its logarithm, overflows or underflows."""
    exponents = log_values / math.log(10.0)
    worst = float(exponents[np.argmax(np.abs(exponents))])
    if abs(worst) > MAX_EXPONENT:
        raise InputError(
            f"{what} is 1e{worst:.0f}, which double precision cannot represent. Multiply X or y by "
            "a constant."
        )


def warn_about_rows(name: str, found: Solution[Any], data: NullData) -> None:
    """Warn if the selection depends on a few rows or on equal rows."""
    if not found.selected.size:
        return
    if found.null.rests_on_few_rows:
        warn(
            f"{name}: the association of the variables with y rests on few rows. With random "
            "signs, y is predicted equally well, so larger noise in rows with large values of X "
            "may cause the association. Check these rows, or transform skewed columns.",
            OutlyingRowsWarning,
        )
    if data.root is not None:  # Equal rows are represented by weights.
        return
    pairs = find_duplicates(data.op)
    n_equal = int(np.sum((data.values[pairs[:, 0]] == data.values[pairs[:, 1]]).all(axis=1)))
    if n_equal:
        warn(
            f"{name}: {plural(n_equal, 'row')} of X and y {'equals' if n_equal == 1 else 'equal'} "
            "an earlier row. The null test counts each row as an independent observation. Drop the "
            "duplicates, unless they are distinct samples with equal measurements.",
            DuplicateRowsWarning,
        )
