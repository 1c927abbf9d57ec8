"""Description of a method: capabilities, command-line options, explanations, saved attributes.

Each method describes itself once, in its ``description.py``. The command, reports, plots, model
files and the contract tests read the descriptions from `prosparse.registry`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import NamedTuple

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils import get_tags

from ..phrases import format_ratio
from ._base import SparseProjection, VariableSelector
from .schema import Schema

_MAX_LOG_RATIO = 100.0  # larger probability ratios are all reported as "over a billion times"


class PathAttributes(NamedTuple):
    """Attributes in which a fitted estimator stores the models that it compared.

    Parameters
    ----------
    x : str
        Attribute that identifies the models: numbers of variables, or penalties.
    y : str
        Attribute with the criterion of each model.
    selected : str
        Attribute with the ``x`` of the selected model.
    x_label, y_label : str
        Labels of the axes in plots.
    noun : str
        Unit of ``x``, for the label of the selected model.
    evidence : bool
        Whether ``y`` is a log marginal likelihood, and ``x`` are numbers of variables.
    posterior : str or None
        Attribute with the log posterior probability of each model, up to a constant.
    """

    x: str
    y: str
    selected: str = "n_selected_"
    x_label: str = "number of variables"
    y_label: str = "log evidence"
    noun: str = "variables"
    evidence: bool = False
    posterior: str | None = None

    @property
    def attributes(self) -> tuple[str, ...]:
        """Names of the attributes, all of which exist after a fit that compared models."""
        names = (self.x, self.y, self.selected)
        return names if self.posterior is None else (*names, self.posterior)


class ModelPath(NamedTuple):
    """Models that a fitted estimator compared, as NumPy arrays."""

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
        """Criterion of the selection, (n_models,): the posterior if there is one, else ``y``."""
        return self.y if self.posterior is None else self.posterior


class Option(NamedTuple):
    """Command-line option that sets a parameter of the estimator.

    Parameters
    ----------
    name : str
        Name on the command line, without dashes.
    parameter : str
        Name of the estimator's parameter.
    help : str
        Description in the help of the command, without a full stop.
    type : type
        Type of the value; ``bool`` for a flag.
    minimum : int or None
        Smallest value that the command accepts.
    parse : function or None
        Conversion of the typed value to a value of the parameter.
    default : str
        Setting that the report states if the option is not given.
    """

    name: str
    parameter: str
    help: str
    type: type[int] | type[float] | type[str] | type[bool] = str
    minimum: int | None = None
    parse: Callable[[str], object] | None = None
    default: str = "estimated from the data"


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
    """Description of one estimator.

    Parameters
    ----------
    name : str
        Name of the method on the command line.
    estimator : type
        Class of the estimator.
    example : mapping
        Parameters that fit a small table quickly and leave some variables out.
    grid : mapping
        One parameter and values of it for a grid search.
    options : tuple of Option, or None
        Options of ``prosparse select`` besides the number of components; None if that command
        does not offer the method.
    explanations : tuple of functions
        Reasons for the number of selected variables; the first that applies is reported.
    schema : Schema
        Declaration of the saved attributes.
    coefficients : str
        Attribute whose columns are zero for variables that are not selected.
    path : PathAttributes or None
        Attributes with the models that the estimator compares, if a fit compares models.
    size_parameter : str or None
        Parameter with the number of variables, or of loadings, to select; its value None leaves
        the number to the method.
    refit_tolerances : mapping
        Tolerances that suffice for refits to part of the rows or to permuted data.
    supervised : bool
        Whether the estimator is a regressor or classifier.
    standardizes : bool
        Whether the columns are always scaled to unit variance.
    tests_variables : bool
        Whether each variable is tested for shared variance.
    compares_penalties : bool
        Whether the models on the path differ by a penalty on the likelihood.
    reconstructs : bool
        Whether variables are selected to predict all others.
    fits_views : bool
        Whether several views of the same rows are fitted jointly.
    inclusion_probabilities : bool
        Whether the estimator can average models, with an inclusion probability per variable.
    size_probabilities : bool
        Whether that average includes the probability of each number of variables.
    records_objective : bool
        Whether ``objective_path_`` holds the objective per iteration.
    """

    name: str
    estimator: type[VariableSelector]
    example: Mapping[str, object] = field(default_factory=dict)
    grid: Mapping[str, Sequence[object]] = field(default_factory=dict)
    options: tuple[Option, ...] | None = None
    explanations: tuple[Explanation, ...] = ()
    schema: Schema = field(default_factory=Schema)
    coefficients: str = "components_"
    path: PathAttributes | None = None
    size_parameter: str | None = None
    refit_tolerances: Mapping[str, float] = field(default_factory=dict)
    supervised: bool = False
    standardizes: bool = False
    tests_variables: bool = False
    compares_penalties: bool = False
    reconstructs: bool = False
    fits_views: bool = False
    inclusion_probabilities: bool = False
    size_probabilities: bool = False
    records_objective: bool = False

    def has_parameter(self, parameter: str) -> bool:
        """Return whether the estimator has a parameter of that name."""
        return parameter in signature(self.estimator).parameters

    @property
    def accepts_groups(self) -> bool:
        """Whether ``fit`` accepts labels of grouped rows."""
        return "groups" in signature(self.estimator.fit).parameters

    @property
    def projects(self) -> bool:
        """Whether the estimator computes scores."""
        return issubclass(self.estimator, SparseProjection)

    @property
    def classifies(self) -> bool:
        """Whether the estimator is a classifier."""
        return issubclass(self.estimator, ClassifierMixin)

    @property
    def allows_missing(self) -> bool:
        """Whether ``X`` may have missing values."""
        return bool(get_tags(self.estimator()).input_tags.allow_nan)

    @property
    def required_attributes(self) -> set[str]:
        """Names of the attributes that exist after every fit."""
        required = {*self.schema.required, self.coefficients}
        if self.records_objective:
            required.add("objective_path_")
        return required

    def explain(self, model: VariableSelector, path: ModelPath | None, n_selected: int) -> str:
        """Return the reason for the number of selected variables, without a period."""
        for explanation in self.explanations:
            reason = explanation(model, path, n_selected)
            if reason is not None:
                return reason
        return "the other variables have zero loadings"


# --- explanations that several methods use


def explain_requested(parameter: str, noun: str) -> Explanation:
    """Return an explanation for a number that the user set by ``parameter``."""

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
