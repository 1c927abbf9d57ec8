"""Every method, described once: the command, explanations, model files, reports, pictures and the
contract tests read this, and ask nobody else what an estimator is.

To add a method, write its estimator and one `Method(...)` in `METHODS`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from inspect import signature
from typing import Any, NamedTuple

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import get_tags

from .data.arrays import to_numpy
from .errors import InputError
from .fitted import (
    PROJECTION,
    SELECTOR,
    Contents,
    Field,
    all_or_none,
    counts,
    labels,
    numbers,
)
from .models._base import SparseProjection, VariableSelector
from .models.empca import EMPCA
from .models.fdrpca import FDRPCA
from .models.gsppca import GSPPCA
from .models.panel import Panel
from .models.sca import SCA
from .models.spinyreg import SpinyClassifier, SpinyRegressor
from .models.sppca import SPPCA
from .phrases import percent, times

# --- what a method may have


class Choice(NamedTuple):
    """A path of models and the one that was chosen, on the host."""

    x: np.ndarray  # (n_models,), what tells the models apart
    y: np.ndarray  # (n_models,), what they were compared by
    best: int  # position in both
    x_label: str
    y_label: str
    noun: str  # what the chosen x counts, for the label in the picture
    evidence: bool = False  # whether y is log evidence, and x numbers of variables
    posterior: np.ndarray | None = None  # (n_models,), y with the prior of the models added

    @property
    def compared(self) -> np.ndarray:
        """What decided, (n_models,): y, with the prior of the models where they have one."""
        return self.y if self.posterior is None else self.posterior


class ChoicePath(NamedTuple):
    """Where a fitted estimator keeps the models that it chose from."""

    x: str  # attribute with what tells the models apart
    y: str  # attribute with what they were compared by
    chosen: str  # attribute with the x of the model that was chosen
    x_label: str
    y_label: str
    noun: str
    evidence: bool = False
    posterior: str | None = None  # attribute with y and the log prior of the models together


class Option(NamedTuple):
    """An option of the command, and the parameter of the estimator that it sets."""

    name: str  # as it is typed, without the dashes before it
    parameter: str
    help: str  # for this method
    kind: type[int] | type[float] | type[str] | type[bool] = str  # what is typed; bool: a flag
    least: int | None = None
    read: Callable[[str], object] | None = None  # what is typed as a value of the parameter
    left_out: str = "decided by the data"  # what the report says then
    needed: str = ""  # what the method must be told, if it cannot do without


Explanation = Callable[[VariableSelector, Choice | None, int], str | None]
"""Why that many variables: a function of the fitted estimator, of the path that it chose from, and
of the number of variables; None where it has nothing to say."""


@dataclass(frozen=True)
class Method:
    """All that the rest of the library knows about one estimator.

    Parameters
    ----------
    name : str
        What ``prosparse select --method`` calls it.
    estimator : type
        Its class.
    summary : str
        What it is, in half a sentence.
    example : mapping
        Parameters with which a table of a dozen columns is fitted quickly, and some are left out.
    grid : mapping
        A parameter and some of its values, of which a search would choose one.
    options : tuple of Option, or None
        What the command lets a user set besides the number of components; None if the command
        does not offer the method.
    explanations : tuple of functions
        Why that many variables: the first that has something to say is heard.
    path : ChoicePath or None
        The models that it chooses from.
    slope : bool
        Whether it keeps what `prosparse.plot.SlopeDisplay` draws.
    tests : bool
        Whether it tests every variable by itself, and keeps what
        `prosparse.plot.CommunalityDisplay` draws.
    scales : bool
        Whether it scales every column to unit variance, asked or not.
    traces : str or None
        The attribute with its objective per iteration.
    number : str or None
        The parameter with which a user says how many variables, or loadings, to choose; None of
        them leaves it to the method.
    quick : mapping
        Parameters and the least values of them with which many fits are quick and choose next to
        the same variables: for fits on parts of the rows, and on shuffled tables.
    predicts : bool
        Whether it is a regression, with coefficients of variables instead of components; one
        whose response is classes is a classifier.
    saved : Contents
        What a saved model of it must hold.
    """

    name: str
    estimator: type[VariableSelector]
    summary: str
    example: Mapping[str, object] = field(default_factory=dict)
    grid: Mapping[str, Sequence[object]] = field(default_factory=dict)
    options: tuple[Option, ...] | None = None
    explanations: tuple[Explanation, ...] = ()
    path: ChoicePath | None = None
    slope: bool = False
    tests: bool = False
    scales: bool = False
    traces: str | None = "objective_path_"
    number: str | None = None
    quick: Mapping[str, float] = field(default_factory=dict)
    predicts: bool = False
    saved: Contents = field(default_factory=Contents)

    def takes(self, parameter: str) -> bool:
        """Whether the estimator has a parameter of that name."""
        return parameter in self.estimator().get_params(deep=False)

    @property
    def takes_groups(self) -> bool:
        """Whether a fit can be told which rows belong together."""
        return "groups" in signature(self.estimator.fit).parameters

    @property
    def projects(self) -> bool:
        """Whether it gives rows scores."""
        return issubclass(self.estimator, SparseProjection)

    @property
    def classifies(self) -> bool:
        """Whether the response is classes."""
        return bool(is_classifier(self.estimator()))

    @property
    def allows_gaps(self) -> bool:
        """Whether a table may have missing values."""
        return bool(get_tags(self.estimator()).input_tags.allow_nan)

    def why(self, model: VariableSelector, choice: Choice | None, n_selected: int) -> str:
        """Why that many variables, in one sentence without its full stop."""
        for explanation in self.explanations:
            said = explanation(model, choice, n_selected)
            if said is not None:
                return said
        return "the method leaves these with a loading"


# --- how methods explain their choice


def asked_for(parameter: str, what: str) -> Explanation:
    """The user gave the number."""

    def explain(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
        asked = model.get_params(deep=False)[parameter]
        if asked is None:
            return None
        return f"you asked for {', '.join(map(str, np.ravel(asked)))} {what}"

    return explain


_MOST_LOG = 100.0  # beyond, "over a billion times" is said anyway


def by_evidence(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """The evidence is highest for that number; how much less probable its neighbours are."""
    if choice is None:
        return None
    best, evidence, others = choice.best, choice.compared, []
    for k, side in ((best - 1, "fewer"), (best + 1, "more")):
        if 0 <= k < evidence.size and np.isfinite(evidence[k]):
            steps = abs(int(choice.x[k] - choice.x[best]))
            factor = math.exp(min(float(evidence[best] - evidence[k]), _MOST_LOG))
            others.append(f"{steps:,} {side} would be {times(factor)} less probable")
    beside = f" ({', '.join(others)})" if others else ""
    return f"the evidence is highest there{beside}"


def by_probability(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """What is expected of the chosen set, where it was chosen by the average over sets."""
    choose, expected = (
        model.get_params(deep=False)["selection_rule"],
        vars(model).get("expected_f_score_"),
    )
    if choose == "map":
        return None
    if n_selected == 0:
        return "no set of variables is shown to be better than none"
    if choose == "median":
        return "each of them is more probably active than not"
    if expected is None:  # a file of an earlier version
        return None
    return f"of all sets, this one has the largest expected F-score, {float(expected):.2f}"


def by_test(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """They vary with others beyond chance; how many share half of their variance."""
    parameters = model.get_params(deep=False)
    rate = f"at a false discovery rate of {float(parameters['fdr']):.3g}"
    least = float(parameters["min_communality"])
    enough = f" and shares at least {least:.3g} of its variance" if least else ""
    if n_selected == 0:
        return f"no variable varies with others beyond chance{enough}, {rate}"
    if n_selected == 1:
        return f"it varies with others beyond chance{enough}, {rate}"
    enough = f" and share at least {least:.3g} of their variance" if least else ""
    said = f"they vary with others beyond chance{enough}, {rate}"
    if least >= 0.5:
        return said
    half = int(np.sum(to_numpy(model.communality_)[to_numpy(model.support_)] >= 0.5))
    return f"{said}; {half:,} of them share at least half of their variance"


def by_recovery(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """What the panel predicts of the others, as a share of what all variables together do."""
    attained = float(to_numpy(model.relative_r2_path_)[n_selected - 1])
    if attained >= 1.0:
        return (
            "they recover as much of the others as all variables together do, in rows that were "
            "held out"
        )
    return (
        f"they recover {percent(attained)} of what all variables together tell of the others, in "
        "rows that were held out"
    )


_CRITERIA = {
    "slope": "the slope heuristic",
    "aic": "AIC",
    "bic": "BIC",
    "ebic": "extended BIC",
}


def by_penalty(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """The penalty leaves that many with a loading."""
    if choice is None:
        return None
    asked = str(model.get_params(deep=False)["penalty"])
    # model files of earlier versions say only what was asked for
    rule = _CRITERIA.get(str(vars(model).get("criterion_", asked)))
    how = f"chosen by {rule}" if rule else "the one you gave"
    if asked == "slope" and rule == _CRITERIA["ebic"]:
        how += " (the slope heuristic found too few models that are larger than needed)"
    at = float(choice.x[choice.best])
    return f"at the penalty {at:.4g}, {how}, {n_selected} variables have a loading"


def by_prior(model: VariableSelector, choice: Choice | None, n_selected: int) -> str | None:
    """The prior is one that sets weights to zero."""
    if n_selected == 0:
        return "no common structure is more probable than noise alone"
    return "the prior set the weights of all other variables to exactly zero"


def number_or_name(text: str) -> float | str:
    """A penalty as a number, or the name of a criterion, which the estimator knows."""
    try:
        return float(text)
    except ValueError:
        return text


# --- the methods

_EVIDENCE = ChoicePath(
    x="cardinalities_",
    y="log_evidence_path_",
    chosen="n_selected_",
    x_label="number of variables",
    y_label="log evidence",
    noun="variables",
    evidence=True,
)

# For methods that know what rows of different size do to counts.
COUNTS = Option(
    "counts",
    "counts",
    "the table holds counts as they were measured, of rows that may differ in size",
    kind=bool,
    left_out="no",
)

METHODS: dict[str, Method] = {
    method.estimator.__name__: method
    for method in (
        Method(
            "fdrpca",
            FDRPCA,
            "PCA of the variables that share structure, at a stated false discovery rate",
            example={"n_components": 2},
            grid={"fdr": [0.05, 0.1]},
            options=(
                Option(
                    "fdr",
                    "fdr",
                    "the share of false variables among the chosen that is allowed",
                    kind=float,
                    left_out="0.05",
                ),
                Option(
                    "min-communality",
                    "min_communality",
                    "the least share of its variance that a chosen variable has in common",
                    kind=float,
                    left_out="none",
                ),
                COUNTS,
            ),
            explanations=(by_test,),
            tests=True,
            scales=True,
            traces=None,
            saved=Contents(
                (*PROJECTION, "pvalues_", "qvalues_", "communality_", "null_communality_"),
                {
                    "pvalues_": numbers("p", finite=True, least=0),
                    "qvalues_": numbers("p", finite=True, least=0),
                    "communality_": numbers("p", finite=True, least=0),
                    "null_communality_": numbers(finite=True, least=0),
                    "permutation_tested_": Field("b", ("p",)),
                    "count_weights_": numbers("p", finite=True, least=0),
                    "count_proportions_": numbers("p", finite=True, least=0),
                    "count_noise_": numbers("p", finite=True, least=0),
                },
                parameters={
                    "fdr": numbers(finite=True, least=0),
                    "min_communality": numbers(finite=True, least=0),
                },
                together=all_or_none("count_weights_", "count_proportions_", "count_noise_"),
            ),
        ),
        Method(
            "gsppca",
            GSPPCA,
            "globally sparse PCA: one set of variables for all components, chosen by evidence",
            example={"n_components": 2},
            grid={"n_features_to_select": [5, 6]},
            options=(
                Option(
                    "variables",
                    "n_features_to_select",
                    "how many variables (left out, the data decide)",
                    kind=int,
                    least=1,
                ),
            ),
            explanations=(asked_for("n_features_to_select", "variables"), by_evidence),
            number="n_features_to_select",
            quick={"tol": 1e-6},
            path=_EVIDENCE,
            saved=Contents((*PROJECTION, "noise_variance_", "active_noise_variance_")),
        ),
        Method(
            "sca",
            SCA,
            "sparse factors of one table, or shared by several views of the same rows",
            example={"n_components": 2, "prior": "hyperbolic"},
            grid={"prior": ["ard", "hyperbolic"]},
            options=(
                Option(
                    "noise",
                    "noise",
                    "feature (every variable has noise of its own) or view (all have the same)",
                    left_out="feature",
                ),
                Option(
                    "likelihood",
                    "likelihood",
                    "gaussian (measurements), bernoulli (0 and 1) or poisson (counts)",
                    left_out="gaussian",
                ),
            ),
            explanations=(by_prior,),
            saved=Contents(
                (*PROJECTION, "noise_variance_", "view_columns_"),
                {
                    "noise_variance_": numbers("v", finite=True, least=0, positive=True),
                    "feature_noise_variance_": numbers("p", finite=True, least=0, positive=True),
                    "explained_variance_per_view_": numbers("v", "d"),
                    "view_correlation_": numbers("d", finite=True),
                    "linear_threshold_": numbers("p", finite=True, least=0, positive=True),
                    "groups_": labels("g"),
                    "group_sizes_": counts("g", least=1),
                    "group_means_": numbers("g", "p", finite=True),
                    "group_noise_variance_": numbers("g", "p", finite=True, least=0, positive=True),
                    "group_varying_": Field("b", ("g", "p")),
                    "factor_variance_per_group_": numbers("g", "d", finite=True, least=0),
                    "explained_variance_per_group_": numbers("g", "v", "d"),
                },
                together=all_or_none(
                    "groups_",
                    "group_sizes_",
                    "group_means_",
                    "group_noise_variance_",
                    "group_varying_",
                    "factor_variance_per_group_",
                    "explained_variance_per_group_",
                ),
            ),
        ),
        Method(
            "sppca",
            SPPCA,
            "probabilistic PCA with an l1 penalty on the loadings",
            example={"n_components": 2, "penalty": 15.0},
            grid={"penalty": [10.0, 15.0]},
            options=(
                Option(
                    "penalty",
                    "penalty",
                    "slope (the default), aic, bic, ebic, or a number",
                    read=number_or_name,
                    left_out="chosen by the slope heuristic",
                ),
            ),
            explanations=(by_penalty,),
            path=ChoicePath(
                x="penalties_",
                y="criterion_path_",
                chosen="penalty_",
                x_label="penalty",
                y_label="criterion",
                noun="penalty",
            ),
            slope=True,
            saved=Contents(
                (*PROJECTION, "noise_variance_", "penalty_"),
                {"noise_variance_": numbers(finite=True, least=0, positive=True)},
                together={"criterion_path_": "penalties_"},
            ),
        ),
        Method(
            "empca",
            EMPCA,
            "sparse or non-negative PCA with a given number of loadings per component",
            example={"n_components": 2, "n_nonzero": 4, "random_state": 0},
            grid={"n_nonzero": [3, 4]},
            options=(
                Option(
                    "variables",
                    "n_nonzero",
                    "how many variables a component may have",
                    kind=int,
                    least=1,
                    needed="how many variables a component may have: --variables 10, say",
                ),
            ),
            explanations=(asked_for("n_nonzero", "loadings per component"),),
            number="n_nonzero",
            saved=Contents((*PROJECTION, "objective_path_", "_optimality_gap", "_gap_problem")),
        ),
        Method(
            "panel",
            Panel,
            "few variables from which all others can be told",
            example={"n_features_to_select": 5},
            grid={"n_features_to_select": [4, 5]},
            options=(
                Option(
                    "variables",
                    "n_features_to_select",
                    "how many variables (left out, the data decide)",
                    kind=int,
                    least=1,
                ),
                Option(
                    "target-recovery",
                    "target_recovery",
                    "the share of what all variables together tell of the others that the chosen "
                    "ones must tell, where --variables is left out",
                    kind=float,
                    left_out="0.9",
                ),
                COUNTS,
            ),
            explanations=(asked_for("n_features_to_select", "variables"), by_recovery),
            number="n_features_to_select",
            scales=True,
            traces=None,
            saved=Contents(
                (
                    *PROJECTION,
                    "explained_variance_ratio_",
                    "order_",
                    "heldout_r2_path_",
                    "heldout_r2_path_std_",
                    "relative_r2_path_",
                    "bound_path_",
                    "criterion_path_",
                    "attainable_r2_",
                    "heldout_r2_",
                    "heldout_r2_by_group_",
                    "communality_",
                    "proxy_",
                    "loadings_",
                    "unmeasured_std_",
                    "depth_",
                ),
                {
                    "order_": counts("s"),
                    "heldout_r2_path_": numbers("k", finite=True),
                    "heldout_r2_path_std_": numbers("k", finite=True, least=0),
                    "relative_r2_path_": numbers("k", finite=True),
                    "bound_path_": numbers("k", finite=True, least=0),
                    "attainable_r2_": numbers(finite=True),
                    "heldout_r2_": numbers("p", finite=True),
                    "communality_": numbers("p", finite=True, least=0),
                    "proxy_": counts("p", least=-1),
                    "loadings_": numbers("d", "p", finite=True),
                    "unmeasured_std_": numbers("p", finite=True, least=0),
                    "depth_": numbers(finite=True, least=0),
                },
            ),
        ),
        Method(
            "spinyreg",
            SpinyRegressor,
            "regression on few variables, chosen by evidence",
            grid={"refit": ["posterior", "ols"]},
            explanations=(by_probability, by_evidence),
            path=_EVIDENCE._replace(posterior="log_posterior_path_"),
            predicts=True,
            saved=Contents(
                (
                    *SELECTOR,
                    "coef_",
                    "intercept_",
                    "intercept_variance_",
                    "coef_covariance_",
                    "noise_variance_",
                    "n_samples_",
                ),
                {
                    # of several responses, one for each
                    "coef_": numbers("p", finite=True, stacked="m"),
                    "intercept_": numbers(finite=True, stacked="m"),
                    "coef_covariance_": numbers("s", "s", finite=True, stacked="m"),
                    "noise_variance_": numbers(finite=True, least=0, stacked="m"),
                    "intercept_variance_": numbers(finite=True, least=0, stacked="m"),
                    "alpha_": numbers(stacked="m"),
                    "gamma_": numbers(stacked="m"),
                    "coef_mean_": numbers("p", finite=True),
                    "coef_std_": numbers("p", finite=True, least=0),
                    "conditional_coef_mean_": numbers("p", finite=True),
                    "conditional_coef_std_": numbers("p", finite=True, least=0),
                    "model_size_probability_": numbers("p+1", finite=True, least=0),
                    "expected_f_score_": numbers(finite=True, least=0),
                    "inclusion_probability_": numbers("p", finite=True, least=0),
                    "intercept_mean_": numbers(finite=True),
                    "intercept_mean_variance_": numbers(finite=True, least=0),
                    "candidate_indices_": counts("l"),
                    "candidate_covariance_": numbers("l", "l", finite=True),
                    "excluded_variance_": numbers(finite=True, least=0),
                    "noise_variance_mean_": numbers(finite=True, least=0),
                    "degrees_of_freedom_": numbers(finite=True, least=2, positive=True),
                    "row_weight_": numbers("rows", finite=True, least=0),
                    "row_bounds_": numbers("rounds", finite=True),
                    "n_sets_": counts(least=1),
                },
                loadings="coef_",
                # an average is used as a whole
                together={
                    "coef_mean_": "inclusion_probability_",
                    "inclusion_probability_": "intercept_mean_",
                    "intercept_mean_": "intercept_mean_variance_",
                    "intercept_mean_variance_": "candidate_indices_",
                    "candidate_indices_": "candidate_covariance_",
                    "candidate_covariance_": "excluded_variance_",
                    "excluded_variance_": "noise_variance_mean_",
                    "noise_variance_mean_": "n_sets_",
                    **all_or_none("conditional_coef_mean_", "conditional_coef_std_"),
                },
            ),
        ),
        Method(
            "spinyclass",
            SpinyClassifier,
            "logistic regression on few variables, chosen by evidence",
            grid={"selection_rule": ["map", "median"]},
            explanations=(by_evidence,),
            path=_EVIDENCE._replace(posterior="log_posterior_path_"),
            predicts=True,
            saved=Contents(
                (*SELECTOR, "classes_", "coef_", "intercept_", "coef_covariance_", "averaged_"),
                {
                    "coef_": numbers("one", "p", finite=True),
                    "intercept_": numbers("one", finite=True),
                    "coef_covariance_": numbers("s+1", "s+1", finite=True),
                    "prior_std_": numbers(finite=True, least=0, positive=True),
                    "coef_mean_": numbers("p", finite=True),
                    "inclusion_probability_": numbers("p", finite=True, least=0),
                    "intercept_mean_": numbers(finite=True),
                    "candidate_indices_": counts("l"),
                    "candidate_covariance_": numbers("l+1", "l+1", finite=True),
                    "excluded_variance_": numbers(finite=True, least=0),
                    "n_sets_": counts(least=1),
                },
                loadings="coef_",
                # an average is used as a whole
                together={
                    "coef_mean_": "inclusion_probability_",
                    "inclusion_probability_": "intercept_mean_",
                    "intercept_mean_": "candidate_indices_",
                    "candidate_indices_": "candidate_covariance_",
                    "candidate_covariance_": "excluded_variance_",
                    "excluded_variance_": "n_sets_",
                },
            ),
        ),
    )
}
"""Every method, by the name of its class."""


class _Estimators(Mapping[str, type[Any]]):
    """The classes of `METHODS`, as they are now."""

    def __getitem__(self, name: str) -> type[Any]:
        return METHODS[name].estimator

    def __iter__(self) -> Iterator[str]:
        return iter(METHODS)

    def __len__(self) -> int:
        return len(METHODS)


ESTIMATORS: Mapping[str, type[Any]] = _Estimators()
"""What can be saved and loaded, by class name."""


def offered() -> dict[str, Method]:
    """What ``prosparse select --method`` offers, by the name it is asked for; the first is taken
    where none is named."""
    return {one.name: one for one in METHODS.values() if one.options is not None}


def method_of(model: object) -> Method:
    """The method that an estimator, or one that was derived from it, is of.

    Raises
    ------
    InputError
        If it is of none.
    """
    for kind in type(model).__mro__:
        method = METHODS.get(kind.__name__)
        if method is not None and method.estimator is kind:
            return method
    raise InputError(
        f"{type(model).__name__} is not an estimator of prosparse; these are: {', '.join(METHODS)}"
    )
