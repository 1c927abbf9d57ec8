"""Description of a method: capabilities, options and saved attributes.

Each method is described in ``description.py`` of its package. The command, reports, plots, model
files and contract tests use the descriptions in `prosparse.registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin

from ..phrases import format_ratio
from ._base import SparseProjection, VariableSelector
from .schema import Schema

_MAX_LOG_RATIO = 100.0  # larger log probability ratios are reported as "over a billion times"


class PathAttributes(NamedTuple):
    """Attributes in which a fitted estimator stores the compared models."""

    x: str  # attribute that identifies the models: numbers of variables, or penalties
    y: str  # criterion of each model
    selected: str = "n_selected_"  # `x` of the selected model
    x_label: str = "number of variables"
    y_label: str = "log evidence"
    noun: str = "variables"  # unit of `x`
    evidence: bool = False  # whether `y` is a log marginal likelihood by number of variables
    posterior: str | None = None  # log posterior probability of each model, up to a constant

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes that a fit sets when it compares models."""
        names = (self.x, self.y, self.selected)
        return names if self.posterior is None else (*names, self.posterior)


class ModelPath(NamedTuple):
    """Models compared by a fitted estimator, as NumPy arrays."""

    x: np.ndarray  # (n_models,)
    y: np.ndarray  # (n_models,)
    best: int  # index of the selected model
    x_label: str
    y_label: str
    noun: str
    evidence: bool = False
    posterior: np.ndarray | None = None  # (n_models,)

    @property
    def criterion(self) -> np.ndarray:
        """Criterion of the selection, (n_models,): ``posterior`` if set, else ``y``."""
        return self.y if self.posterior is None else self.posterior


class Option(NamedTuple):
    """Command-line option that sets a parameter of the estimator."""

    name: str  # on the command line, without dashes
    parameter: str
    help: str  # without a full stop
    type: type[int] | type[float] | type[str] | type[bool] = str  # bool: a flag
    minimum: int | None = None
    parse: Callable[[str], object] | None = None  # converts the value given by the user
    default: str = "estimated from the data"  # setting in the report if the option is not given


COUNTS = Option(
    "counts",
    "counts",
    "the table holds raw counts, and rows may differ in their totals",
    type=bool,
    default="no",
)
"""Option of the methods that model raw counts."""

VARIABLES = Option(
    "variables",
    "n_features_to_select",
    "number of variables (default: estimated from the data)",
    type=int,
    minimum=1,
)
"""Option of the methods that select a given number of variables on request."""


Explanation = Callable[[VariableSelector, ModelPath | None, int], str | None]
"""Function of the fitted estimator, the path of models and the number of selected variables. It
returns the reason for that number, or None if it does not apply."""


@dataclass(frozen=True)
class Method:
    """Description of one estimator."""

    name: str  # on the command line
    estimator: type[VariableSelector]
    # Parameters for a fast fit of a small table that does not select all variables.
    example: Mapping[str, object] = field(default_factory=dict)
    # One parameter and its values in a grid search.
    grid: Mapping[str, Sequence[object]] = field(default_factory=dict)
    # Options of `prosparse select`; None if the method is not available there.
    options: tuple[Option, ...] | None = None
    # Reasons for the number of selected variables; the first that applies is reported.
    explanations: tuple[Explanation, ...] = ()
    schema: Schema = field(default_factory=Schema)  # saved attributes
    coefficients: str = "components_"  # attribute that is zero for unselected variables
    path: PathAttributes | None = None  # models that a fit compares
    # Parameter with the number of variables or loadings to select, if any.
    size_parameter: str | None = None
    # Tolerances that are sufficient for refits to part of the rows or to null datasets.
    refit_tolerances: Mapping[str, float] = field(default_factory=dict)
    supervised: bool = False
    standardizes: bool = False  # whether the columns are always scaled to unit variance
    tests_variables: bool = False  # whether each variable is tested for shared variance
    compares_penalties: bool = False  # whether the models on the path differ in a penalty
    reconstructs: bool = False  # whether variables are selected to predict all others
    fits_views: bool = False  # whether several views of the same rows are fitted jointly
    inclusion_probabilities: bool = False  # whether the estimator can average models
    size_probabilities: bool = False  # whether the average includes the number of variables
    records_objective: bool = False  # whether `objective_path_` holds the objective

    def has_parameter(self, parameter: str) -> bool:
        """Return whether the estimator has a parameter with the given name."""
        return parameter in signature(self.estimator).parameters

    @property
    def accepts_groups(self) -> bool:
        """Whether ``fit`` accepts labels of grouped rows."""
        return "groups" in signature(self.estimator.fit).parameters

    @property
    def accepts_covariates(self) -> bool:
        """Whether ``fit`` accepts covariates of the rows."""
        return "covariates" in signature(self.estimator.fit).parameters

    @property
    def projects(self) -> bool:
        """Whether the estimator computes scores."""
        return issubclass(self.estimator, SparseProjection)

    @property
    def classifies(self) -> bool:
        """Whether the estimator is a classifier."""
        return issubclass(self.estimator, ClassifierMixin)

    @property
    def required_attributes(self) -> set[str]:
        """Names of the attributes that exist after every fit."""
        required = {*self.schema.required, self.coefficients}
        if self.records_objective:
            required.add("objective_path_")
        return required

    def explain(self, model: VariableSelector, path: ModelPath | None, n_selected: int) -> str:
        """Return the reason for the number of variables, without a full stop."""
        for explanation in self.explanations:
            reason = explanation(model, path, n_selected)
            if reason is not None:
                return reason
        return "the other variables have zero loadings"


# --- explanations that several methods use


def explain_requested(parameter: str, noun: str) -> Explanation:
    """Build the explanation of a number given by ``parameter``."""

    def explain(model: VariableSelector, path: ModelPath | None, n_selected: int) -> str | None:
        requested = model.get_params(deep=False)[parameter]
        if requested is None:
            return None
        return f"{', '.join(map(str, np.ravel(requested)))} {noun} were requested"

    return explain


def explain_evidence(
    model: VariableSelector, path: ModelPath | None, n_selected: int
) -> str | None:
    """Compare the selected number of variables with its neighbours on the path."""
    if path is None:
        return None
    log_probability, ratios = path.criterion, []
    for k, direction in ((path.best - 1, "fewer"), (path.best + 1, "more")):
        if 0 <= k < log_probability.size and np.isfinite(log_probability[k]):
            step = abs(int(path.x[k] - path.x[path.best]))
            log_ratio = float(log_probability[path.best] - log_probability[k])
            ratio = format_ratio(math.exp(min(log_ratio, _MAX_LOG_RATIO)))
            ratios.append(f"{step:,} {direction} would be {ratio} less probable")
    comparison = f" ({', '.join(ratios)})" if ratios else ""
    name = "marginal likelihood (evidence)" if path.posterior is None else "posterior probability"
    return f"this number has the highest {name}{comparison}"


EVIDENCE_PATH = PathAttributes(x="cardinalities_", y="log_evidence_path_", evidence=True)
"""Path of the methods that compare numbers of variables by their marginal likelihood."""
