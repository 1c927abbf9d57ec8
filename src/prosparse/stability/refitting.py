"""Refit a model to some of its rows, or to data without shared variance."""

from __future__ import annotations

import warnings
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..data import container_of
from ..data.arrays import to_numpy
from ..data.covariates import row_design, take_rows
from ..data.randomisation import flip_deviations, permute_columns
from ..data.row_adjustment import RowAdjustment
from ..data.row_groups import RowGroups, row_groups
from ..errors import InputError, ParameterError, end_sentence, plural
from ..findings import refuse_unfitted
from ..inference.progress import observe
from ..models._base import VariableSelector
from ..registry import Method, method_of

NullKind = Literal["signs", "permutation"]  # randomisation of a null dataset


class Refitter:
    """Refit a model to some of its rows, or to data without shared variance.

    The model is not changed. ``X``, ``y``, ``groups`` and ``covariates`` are those of the fit;
    ``X`` may be a list of data matrices with the same rows.
    """

    def __init__(
        self,
        model: VariableSelector,
        X: Any,
        y: ArrayLike | None,
        groups: ArrayLike | None,
        covariates: Any = None,
    ):
        self.model, self.method = model, method_of(model)
        refuse_unfitted(model)
        model._check_parameters()
        # A list of data matrices contains the views of SCA; a list of rows is one data matrix.
        self.has_views = isinstance(X, list) and bool(X) and all(hasattr(v, "shape") for v in X)
        self.views = X if self.has_views else [X if hasattr(X, "shape") else np.asarray(X)]
        for view in self.views:
            if len(view.shape) != 2:
                raise InputError(f"X must have rows and columns, got shape {tuple(view.shape)}.")
        self.n_rows = int(self.views[0].shape[0])
        if any(view.shape[0] != self.n_rows for view in self.views):
            numbers = ", ".join(str(view.shape[0]) for view in self.views)
            raise InputError(f"all views must have the same number of rows, got {numbers}.")
        n_columns = sum(int(view.shape[1]) for view in self.views)
        if n_columns != model.n_features_in_:
            raise InputError(
                f"X has {plural(n_columns, 'column')}, but this {type(model).__name__} was fitted "
                f"to {model.n_features_in_}; pass the data that it was fitted to."
            )
        self._check_values()
        self.y = _check_response(self.method, model, y, self.n_rows)
        self.groups: RowGroups | None = row_groups(groups, self.n_rows)
        self.covariates = _check_covariates(model, covariates)

    def _check_values(self) -> None:
        """Raise the model's error for invalid data."""
        with warnings.catch_warnings():
            # Column names may have been added to the model after the fit.
            warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
            self.model.select(self.X)

    @property
    def X(self) -> Any:
        """Data that the model was fitted to."""
        return self.views if self.has_views else self.views[0]

    def refit(
        self, views: list[Any], y: Any, groups: Any, covariates: Any, parameters: dict[str, Any]
    ) -> Any:
        """Fit a clone without warnings; return the error if the fit fails."""
        model = clone(self.model).set_params(**parameters)
        metadata = {} if groups is None or not self.method.accepts_groups else {"groups": groups}
        if covariates is not None:
            metadata["covariates"] = covariates
        with warnings.catch_warnings(), observe(None):  # fits are counted, not their iterations
            # The fit to all rows has already issued its warnings.
            warnings.simplefilter("ignore")
            try:
                return model.fit(views if self.has_views else views[0], y, **metadata)
            except (InputError, ParameterError) as error:  # for example too few rows in a group
                return error

    def select_on_rows(
        self, rows: np.ndarray, parameters: dict[str, Any]
    ) -> np.ndarray | Exception:
        """Return the mask of variables selected on some rows, or the error."""
        views = [container_of(view).take_rows(view, rows) for view in self.views]
        labels = None if self.groups is None else self.groups.codes[rows]
        covariates = take_rows(self.covariates, self.n_rows, rows)
        y = None if self.y is None else self.y[rows]
        model = self.refit(views, y, labels, covariates, parameters)
        return model if isinstance(model, Exception) else to_numpy(model.support_).astype(bool)

    @property
    def obstacle_to_signs(self) -> str | None:
        """Clause that explains why random signs are impossible, or None."""
        if self.y is not None:
            return "the null datasets of a regression have a permuted response"
        if any(container_of(view).is_sparse for view in self.views):
            return "X is a sparse matrix, whose zeros would become nonzero"
        if self.model.get_params(deep=False).get("counts", False):
            return "X contains counts, which would become negative"
        others = [name for name in getattr(self.model, "likelihood_", ()) if name != "gaussian"]
        if others:
            return f"the {others[0]} likelihood allows only non-negative integers"
        return None

    def randomise(
        self, kind: NullKind, rng: np.random.Generator
    ) -> tuple[list[Any], np.ndarray | None]:
        """Permute the response of a regression; otherwise randomise each column.

        ``kind`` is "signs" for random signs of the deviations from the column means and
        "permutation" for permuted columns. With groups, deviations are from group means, and values
        are permuted within groups.
        """
        codes = None if self.groups is None else self.groups.codes
        if self.y is not None:
            return self.views, self.y[_permutation(self.n_rows, rng, codes)]
        randomise_columns = flip_deviations if kind == "signs" else permute_columns
        return [randomise_columns(view, rng, codes) for view in self._adjusted_views], None

    @cached_property
    def _adjusted_views(self) -> list[Any]:
        """Residuals of dense data given the covariates; other data are unchanged."""
        if self.covariates is None or self.model.get_params(deep=False).get("counts", False):
            return self.views
        adjustment = row_design(None, self.covariates, self.n_rows).adjustment
        adjusted = []
        for view in self.views:
            container = container_of(view)
            if container.in_memory and not container.is_sparse:
                values = _residuals(adjustment, container.to_dense(view))
                view = container.replace_values(view, values)  # noqa: PLW2901
            adjusted.append(view)
        return adjusted

    def refit_randomised(
        self, views: list[Any], y: np.ndarray | None, parameters: dict[str, Any]
    ) -> Any:
        """Fit a clone to the data of `randomise`; return the error if the fit fails."""
        codes = None if self.groups is None else self.groups.codes
        return self.refit(views, y, codes, self.covariates, parameters)


def _residuals(adjustment: RowAdjustment, values: np.ndarray) -> np.ndarray:
    """Compute residuals (n, p) of the observed values of columns.

    For columns with missing values, the observed rows are used.
    """
    residuals = adjustment.residuals(values)
    for k in np.flatnonzero(np.isnan(values).any(axis=0)):
        observed = ~np.isnan(values[:, k])
        basis, column = adjustment.basis[observed], values[observed, k]
        residuals[observed, k] = column - basis @ np.linalg.lstsq(basis, column)[0]
    return residuals


def _check_covariates(model: Any, covariates: Any) -> Any:
    """Check that covariates are given if and only if the fit received them."""
    name, has_covariates = type(model).__name__, hasattr(model, "covariate_names_")
    if covariates is None and has_covariates:
        raise InputError(f"this {name} was fitted with covariates; pass them as `covariates`.")
    if covariates is not None and not has_covariates:
        raise InputError(f"this {name} was fitted without covariates; omit `covariates`.")
    return covariates


def _check_response(method: Method, model: Any, y: ArrayLike | None, n: int) -> np.ndarray | None:
    """Convert the response to an array, and check that it is that of the fit."""
    if not method.supervised:
        return None
    if y is None:
        raise InputError(f"{method.estimator.__name__} needs the response; pass it as `y`.")
    try:
        response = np.asarray(y) if method.classifies else np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must contain numbers: {end_sentence(error)}") from error
    if response.ndim not in (1, 2) or response.shape[0] != n:
        raise InputError(
            f"`y` must have one value for each of the {n} rows, got shape {response.shape}."
        )
    if response.ndim == 2 and response.shape[1] == 1:
        response = response[:, 0]
    n_responses = 1 if method.classifies or model.coef_.ndim == 1 else model.coef_.shape[0]
    if response.size != n * n_responses:
        raise InputError(
            f"`y` has {plural(response.size // n, 'column')}, but this {type(model).__name__} "
            f"was fitted to {n_responses}; pass the response that it was fitted to."
        )
    if method.classifies:
        unknown = [label for label in response.tolist() if label not in model.classes_.tolist()]
        if unknown:
            raise InputError(
                f"`y` must contain the classes of the fit, {model.classes_.tolist()}, got "
                f"{unknown[0]!r}."
            )
    elif not np.isfinite(response).all():
        raise InputError("`y` has missing or infinite values; remove these rows.")
    return response


def _permutation(n: int, rng: np.random.Generator, codes: np.ndarray | None) -> np.ndarray:
    """Draw a random permutation of n rows, within groups if given."""
    if codes is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=int)
    order[np.argsort(codes, kind="stable")] = np.lexsort((rng.random(n), codes))
    return order


def refit_parameters(
    model: VariableSelector, n_rows: int, *, selection_only: bool = False
) -> dict[str, Any]:
    """Return the parameters of a refit that follow from the fit to all rows.

    These are the number of components, if it was estimated, and larger tolerances that hardly
    affect the result. Neither depends on the selected variables. If only the selection is of
    interest, methods that test variables before counting components use one component.
    """
    fitted, method = model.get_params(deep=False), method_of(model)
    parameters: dict[str, Any] = {
        name: max(fitted[name], tolerance) for name, tolerance in method.refit_tolerances.items()
    }
    n_components = int(getattr(model, "n_components_", 0))
    automatic = isinstance(fitted.get("n_components"), str)
    restricted = fitted.get("min_communality") or fitted.get("max_features") is not None
    if selection_only and method.tests_variables and not restricted:
        parameters["n_components"] = 1
    elif automatic and 0 < n_components < n_rows - 2:
        parameters["n_components"] = n_components
    if "verbose" in fitted:
        parameters["verbose"] = 0
    return parameters
