"""Descriptions of SpinyRegressor and SpinyClassifier for the registry."""

from __future__ import annotations

from ...errors import ModelFileError
from .._base import VariableSelector
from ..description import EVIDENCE_PATH, Method, ModelPath, explain_evidence
from ..schema import (
    SELECTOR,
    Field,
    Instance,
    ListOf,
    Schema,
    State,
    check_cardinalities,
    integers,
    labels,
    nonnegative,
    numbers,
)
from .classifier import SpinyClassifier
from .estimator import SpinyRegressor

COMMON: dict[str, Field] = {
    "cardinalities_": integers("k"),
    "log_evidence_path_": numbers("k"),
    "log_posterior_path_": numbers("k"),
    "credible_sets_": ListOf(integers("*", below="p"), "s", "selected variable"),
    "candidate_indices_": integers("l", below="p"),
    "coef_std_": nonnegative("p", stack="m"),
    "selected_coef_covariance_": numbers("s", "s", finite=True, stack="m"),
    "_candidate_covariance": numbers("r", "l+1", "l+1", finite=True),
    "_excluded_variance": nonnegative("r"),
    "_averaged": Instance(bool),
}
AVERAGE: dict[str, Field] = {
    "inclusion_probability_": nonnegative("p"),
    "conditional_coef_mean_": numbers("p", finite=True, stack="m"),
    "conditional_coef_std_": nonnegative("p", stack="m"),
    "model_size_probability_": nonnegative("p+1"),
    "_nonzero_probability": nonnegative("p"),
}
STUDENT_NOISE: dict[str, Field] = {
    "degrees_of_freedom_": numbers(finite=True, minimum=2, exclusive=True),
    "row_weight_": nonnegative("*"),
}


def explain_averaging(
    model: VariableSelector, path: ModelPath | None, n_selected: int
) -> str | None:
    """Report the decision rule of a set selected by model averaging."""
    rule = model.get_params(deep=False)["selection_rule"]
    if rule == "map":
        return None
    if n_selected == 0:
        return "no set of variables improves on the model without variables"
    if rule == "median":
        return "each has an inclusion probability above 0.5"
    expected = vars(model).get("expected_f_score_")
    if expected is None:
        return None
    return f"this set has the highest expected F-score, {expected:.2f}"


def check_classes(state: State) -> None:
    """Check that there are two classes in increasing order."""
    classes = state["classes_"]
    if classes.size != 2 or not classes[0] < classes[1]:
        raise ModelFileError("`classes_` must contain two different labels in increasing order.")


REGRESSOR = Method(
    "spinyreg",
    SpinyRegressor,
    grid={"refit": ["posterior", "ols"]},
    explanations=(explain_averaging, explain_evidence),
    schema=Schema(
        # Attributes with stack="m" have a leading axis for several responses.
        required={
            **SELECTOR,
            **COMMON,
            "coef_": numbers("p", finite=True, stack="m"),
            "intercept_": numbers(finite=True, stack="m"),
            "selected_coef_": numbers("p", finite=True, stack="m"),
            "selected_intercept_": numbers(finite=True, stack="m"),
            "coef_precision_": numbers(stack="m"),
            "noise_precision_": numbers(stack="m"),
            "noise_variance_": nonnegative(stack="m"),
        },
        optional={
            **AVERAGE,
            "dense_probability_": nonnegative(),
            **STUDENT_NOISE,
            "expected_f_score_": nonnegative(),
        },
        all_or_none=((*AVERAGE, "dense_probability_"), tuple(STUDENT_NOISE)),
        checks=(check_cardinalities,),
    ),
    path=EVIDENCE_PATH._replace(posterior="log_posterior_path_"),
    coefficients="selected_coef_",
    supervised=True,
    inclusion_probabilities=True,
    size_probabilities=True,
    records_objective=True,
)

CLASSIFIER = Method(
    "spinyclass",
    SpinyClassifier,
    grid={"selection_rule": ["map", "median"]},
    explanations=(explain_averaging, explain_evidence),
    schema=Schema(
        required={
            **SELECTOR,
            **COMMON,
            "classes_": labels("c"),
            "coef_": numbers("one", "p", finite=True),
            "intercept_": numbers("one", finite=True),
            "selected_coef_": numbers("one", "p", finite=True),
            "selected_intercept_": numbers("one", finite=True),
        },
        optional={**AVERAGE, "expected_f_score_": nonnegative()},
        all_or_none=(tuple(AVERAGE),),
        checks=(check_cardinalities, check_classes),
    ),
    path=EVIDENCE_PATH._replace(posterior="log_posterior_path_"),
    coefficients="selected_coef_",
    supervised=True,
    inclusion_probabilities=True,
    size_probabilities=True,
    records_objective=True,
)
