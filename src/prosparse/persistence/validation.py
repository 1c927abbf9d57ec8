"""Validation of fitted attributes against the schema of a method.

A model file may be edited or damaged. Methods of estimators, reports and plots require consistent
attributes of a fitted model, which this module ensures when a model is saved or loaded.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from ..errors import ModelFileError
from ..models.description import Method
from ..models.schema import SELECTOR, State, shorten


def check_fitted(method: Method, state: State) -> None:
    """Raise `ModelFileError` if the attributes of a fitted estimator are invalid.

    ``state`` contains the attributes without the parameters, as NumPy arrays. An estimator without
    any declared attribute is not fitted and is valid.
    """
    if "_sklearn_output_config" in state:
        _check_output_config(state["_sklearn_output_config"])
    schema, name = method.schema, method.estimator.__name__
    fields = schema.fields
    if not any(attribute in state for attribute in fields):
        return
    missing = method.required_attributes - set(state)
    if missing:
        raise ModelFileError(f"a fitted {name} requires `{min(missing)}`, which is missing.")
    sizes: dict[str, int] = {"one": 1}
    for letter, attribute in (("p", "n_features_in_"), ("s", "n_selected_")):
        SELECTOR[attribute].check(attribute, state[attribute], sizes)
        sizes[letter] = int(state[attribute])
    for attribute, field in fields.items():
        if attribute in state:
            field.check(attribute, state[attribute], sizes)
    for group in schema.all_or_none:
        _check_all_or_none(group, state)
    _check_path(method, state)
    _check_selection(method, state)
    for check in schema.checks:
        check(state)


def _check_all_or_none(group: tuple[str, ...], state: State) -> None:
    present = [attribute for attribute in group if attribute in state]
    if present and len(present) < len(group):
        absent = next(attribute for attribute in group if attribute not in state)
        raise ModelFileError(f"`{present[0]}` requires `{absent}`, which is missing.")


def _check_path(method: Method, state: State) -> None:
    """Check that a path of models is complete and not empty."""
    path = method.path
    if path is None or (path.x not in state and path.y not in state):
        return
    missing = [attribute for attribute in path.attributes if attribute not in state]
    if missing:
        raise ModelFileError(f"the path of models requires `{missing[0]}`, which is missing.")
    if np.size(state[path.x]) == 0:
        raise ModelFileError(f"`{path.x}` must contain at least one model, got none.")


def _check_output_config(config: Any) -> None:
    """Check the setting stored by scikit-learn's `set_output`."""
    if (
        not isinstance(config, dict)
        or not set(config) <= {"transform"}
        or config.get("transform") not in [None, "default", "pandas", "polars"]
    ):
        raise ModelFileError(
            f"`_sklearn_output_config` must be a setting of `set_output`, got {shorten(config)}."
        )


def _check_selection(method: Method, state: State) -> None:
    """Check that selection, number, ranks and coefficients are consistent."""
    support, p = state["support_"], state["n_features_in_"]
    n_selected = int(support.sum())
    if n_selected != state["n_selected_"]:
        raise ModelFileError(
            f"`n_selected_` is {state['n_selected_']}, but `support_` selects {n_selected}."
        )
    if np.any(np.sort(state["ranking_"]) != np.arange(1, p + 1)):
        raise ModelFileError(f"`ranking_` must contain each rank from 1 to {p} once.")
    if np.any(np.atleast_2d(state[method.coefficients])[:, ~support]):
        raise ModelFileError(f"`{method.coefficients}` must be zero outside `support_`.")
    if np.any(support & ~state["varying_"]):
        raise ModelFileError(
            "`support_` selects columns that are constant according to `varying_`."
        )
