"""The same method on other rows: what is fitted again, and what it then chose."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone

from ..data import container_of
from ..data.arrays import to_numpy
from ..data.permutation import permute_columns
from ..data.row_groups import RowGroups, row_groups
from ..errors import InputError, ParameterError
from ..findings import refuse_unfitted
from ..models._base import VariableSelector
from ..registry import Method, method_of


class Rows:
    """The rows that a model was fitted to, to be fitted in part, or shuffled.

    Parameters
    ----------
    model : fitted estimator
    X : table, or list of tables with the same rows
        What it was fitted to.
    y : array (n_samples,) or None
        Of a regression.
    groups : array (n_samples,) or None
        Labels of rows that belong together.
    """

    def __init__(
        self, model: VariableSelector, X: Any, y: ArrayLike | None, groups: ArrayLike | None
    ):
        self.model, self.method = model, method_of(model)
        refuse_unfitted(model)
        model._check_parameters()
        # SCA takes its views as a list of tables; a list of rows is one table
        several = isinstance(X, list) and bool(X) and all(hasattr(view, "shape") for view in X)
        self.tables = X if several else [X if hasattr(X, "shape") else np.asarray(X)]
        self.several = several
        for table in self.tables:
            if len(table.shape) != 2:
                raise InputError(f"X must have rows and columns, got shape {tuple(table.shape)}")
        self.n = int(self.tables[0].shape[0])
        if any(table.shape[0] != self.n for table in self.tables):
            numbers = ", ".join(str(table.shape[0]) for table in self.tables)
            raise InputError(f"the views must have the same rows, got {numbers} rows")
        width = sum(int(table.shape[1]) for table in self.tables)
        if width != model.n_features_in_:
            raise InputError(
                f"X has {width} columns, and this {type(model).__name__} was fitted to "
                f"{model.n_features_in_}: give the table that it was fitted to"
            )
        self._check_values()
        self.y = _response(self.method, model, y, self.n)
        self.groups: RowGroups | None = row_groups(groups, self.n)

    def _check_values(self) -> None:
        """Refuse a table that the model itself refuses: every part of it would be refused."""
        with warnings.catch_warnings():
            # a model that was given its names afterwards
            warnings.filterwarnings("ignore", message="X (does not have valid|has) feature names")
            self.model.select(self.table)

    @property
    def table(self) -> Any:
        """What the model was fitted to."""
        return self.tables if self.several else self.tables[0]

    def fitted(self, tables: list[Any], y: Any, groups: Any, parameters: dict[str, Any]) -> Any:
        """The method fitted to some tables, without warnings; the error if it refuses them."""
        again = clone(self.model).set_params(**parameters)
        given = {} if groups is None or not self.method.accepts_groups else {"groups": groups}
        with warnings.catch_warnings():
            # Warnings of the fit on all rows were given; a fit of many has none of its own.
            warnings.simplefilter("ignore")
            try:
                return again.fit(tables if self.several else tables[0], y, **given)
            except (InputError, ParameterError) as error:  # of `groups`, for one: few rows a group
                return error

    def part(self, rows: np.ndarray, parameters: dict[str, Any]) -> np.ndarray | Exception:
        """The variables selected in some of the rows, (p,) bool; the error if they are refused."""
        tables = [container_of(table).take_rows(table, rows) for table in self.tables]
        labels = None if self.groups is None else self.groups.codes[rows]
        again = self.fitted(tables, None if self.y is None else self.y[rows], labels, parameters)
        return again if isinstance(again, Exception) else to_numpy(again.support_).astype(bool)

    def shuffled(self, rng: np.random.Generator) -> tuple[list[Any], np.ndarray | None]:
        """Tables and response of rows that share nothing: of a regression the response in random
        order, of any other method columns each in an order of its own."""
        codes = None if self.groups is None else self.groups.codes
        if self.y is not None:
            return self.tables, self.y[_order(self.n, rng, codes)]
        return [permute_columns(table, rng, codes) for table in self.tables], None

    def fitted_to_shuffled(
        self, tables: list[Any], y: np.ndarray | None, parameters: dict[str, Any]
    ) -> Any:
        """The method fitted to what `permutation_null` gave; the error if it refuses them."""
        return self.fitted(
            tables, y, None if self.groups is None else self.groups.codes, parameters
        )


def _response(method: Method, model: Any, y: ArrayLike | None, n: int) -> np.ndarray | None:
    """The response as an array, checked against that of the fit."""
    if not method.supervised:
        return None
    if y is None:
        raise InputError(f"{method.estimator.__name__} predicts a response: give it as `y`")
    try:
        response = np.asarray(y) if method.classifies else np.asarray(y, dtype=float)
    except (TypeError, ValueError) as error:
        raise InputError(f"`y` must hold numbers: {error}") from error
    if response.ndim not in (1, 2) or response.shape[0] != n:
        raise InputError(f"`y` must have one value for each of the {n} rows, got {response.shape}")
    if response.ndim == 2 and response.shape[1] == 1:
        response = response[:, 0]
    n_responses = 1 if method.classifies or model.coef_.ndim == 1 else model.coef_.shape[0]
    if response.size != n * n_responses:
        raise InputError(
            f"`y` has {response.size // n} columns, and this {type(model).__name__} was fitted to "
            f"{n_responses}: give the response that it was fitted to"
        )
    if method.classifies:
        unknown = [label for label in response.tolist() if label not in model.classes_.tolist()]
        if unknown:
            raise InputError(
                f"`y` must hold the classes of the fit, {model.classes_.tolist()}, got "
                f"{unknown[0]!r}"
            )
    elif not np.isfinite(response).all():
        raise InputError("`y` has missing or infinite values: leave these rows out")
    return response


def _order(n: int, rng: np.random.Generator, codes: np.ndarray | None) -> np.ndarray:
    """A random order of n rows, within groups where there are any."""
    if codes is None:
        return rng.permutation(n)
    order = np.empty(n, dtype=int)
    order[np.argsort(codes, kind="stable")] = np.lexsort((rng.random(n), codes))
    return order


def settled(model: VariableSelector, n_rows: int, *, choice_alone: bool = False) -> dict[str, Any]:
    """What a fit to other rows takes over from that to all: the number of components, where the
    data decided it, and a looser end of the iterations where that changes next to nothing.

    Neither looks at which variables were chosen, so that the choice is still one of these rows.
    Where the ``choice_alone`` is looked at, tests that decide before components are counted take
    one.
    """
    parameters, method = model.get_params(deep=False), method_of(model)
    settled: dict[str, Any] = {
        name: max(parameters[name], value) for name, value in method.refit_tolerances.items()
    }
    counted = int(getattr(model, "n_components_", 0))
    automatic = isinstance(parameters.get("n_components"), str)
    if choice_alone and method.tests_variables and not parameters["min_communality"]:
        settled["n_components"] = 1
    elif automatic and 0 < counted < n_rows - 2:
        settled["n_components"] = counted
    if "verbose" in parameters:
        settled["verbose"] = 0
    return settled
