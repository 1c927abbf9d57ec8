"""Results of a fitted estimator in a common form, as NumPy arrays.

Plots, reports and the command use the `Findings` of a model instead of its attributes. The
description of the method states which attributes exist.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeVar

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .data.arrays import to_numpy
from .errors import InputError
from .models._base import SparseProjection, VariableSelector
from .models.description import Method, ModelPath, PathAttributes
from .models.panel.incremental_r2 import incremental_r2
from .registry import method_of
from .selection.slope import Slope

MIN_SHARED = 0.03  # proportion of the variance of each view that a shared factor explains
Group = TypeVar("Group", bound=Any)  # type of a named tuple


class PenaltyPath(NamedTuple):
    """Models along a grid of penalties."""

    n_parameters: np.ndarray  # (n_models,)
    log_likelihood: np.ndarray  # (n_models,)
    criterion: np.ndarray  # (n_models,)
    penalties: np.ndarray  # (n_models,)
    penalty: float  # of the selected model
    slope: Slope | None  # fit of the slope heuristic; None for other criteria


class VariableTests(NamedTuple):
    """Tests of shared variance for each variable."""

    communality: np.ndarray  # (n_features,)
    null_communality: float  # null expectation of the communality
    pvalues: np.ndarray  # (n_features,)
    qvalues: np.ndarray  # (n_features,)


class InclusionProbabilities(NamedTuple):
    """Posterior probabilities of a Bayesian model average."""

    probability: np.ndarray  # (n_features,)
    credible_sets: list[np.ndarray]  # column indices, one array for each selected variable
    model_size: np.ndarray | None  # (n_sizes,) probability of 0, 1, ... active variables


class Reconstruction(NamedTuple):
    """Prediction of all variables from the selected ones."""

    order: np.ndarray  # (n_selected,) indices of the selected variables, most useful first
    heldout_r2_path: np.ndarray  # (n_sizes,) mean held-out R2 of 1, 2, ... variables
    heldout_r2_path_std: np.ndarray  # (n_sizes,) standard deviation over the folds
    relative_r2_path: np.ndarray  # (n_sizes,) R2 relative to that of all variables together
    attainable_r2: float  # mean held-out R2 of a variable given all others
    target_recovery: float | None  # relative R2 that determined the number of variables
    heldout_r2: np.ndarray  # (n_features,)
    proxy: np.ndarray  # (n_features,) index of the proxy of each variable, or -1
    communality: np.ndarray  # (n_features,)
    loadings: np.ndarray  # (n_components, n_features) from scores to all variables
    explained_variance: np.ndarray  # (n_components,) of the scores

    def incremental_r2(self, count: int) -> np.ndarray:
        """Compute the R2 (count, n_features) added by each of the first variables."""
        return incremental_r2(
            self.order,
            self.loadings,
            self.explained_variance,
            self.communality,
            self.heldout_r2,
            count,
        )


class CovariateEffects(NamedTuple):
    """Variance explained by covariates of the rows."""

    names: list[str]  # of the covariates
    r2: np.ndarray  # (n_features,) proportion of the variance of each variable


class Views(NamedTuple):
    """Variance of each view explained by the factors."""

    columns: list[np.ndarray]  # column indices, one array for each view
    factor_view: np.ndarray  # (n_factors,) view of each private factor; -1 for shared factors
    explained: np.ndarray  # (n_views, n_factors) proportions of the variance of a view

    @property
    def shared(self) -> np.ndarray:
        """Indices of the factors that explain variance in several views."""
        return np.flatnonzero(np.sum(self.explained >= MIN_SHARED, axis=0) >= 2)


class Findings(NamedTuple):
    """Results of a fitted model, as NumPy arrays.

    Attributes
    ----------
    method : str
        Name of the estimator's class.
    names : list of str
        Names of all variables.
    named : bool
        Whether the names come from the data; otherwise they are "x0", "x1", ...
    support : ndarray of bool, shape (n_features,)
        Mask of the selected variables.
    relevance : ndarray of shape (n_features,)
        Relevance of each variable, between 0 and 1.
    ranking : ndarray of int, shape (n_features,)
        Ranks of the variables, 1 for the most relevant.
    loadings : ndarray of shape (n_components, n_features)
        Loadings, or the coefficients of a regression, one row for each response.
    component_variance : ndarray of shape (n_components,) or None
        Proportion of the total variance explained by each component, if known.
    reason : str
        Reason for the number of selected variables, without a full stop.
    path : ModelPath or None
        Models compared by the method, possibly one.
    penalties : PenaltyPath or None
        Details of the path, if the models differ in a penalty.
    tests : VariableTests or None
        Tests of shared variance, if the method tests variables.
    objective_paths : list of ndarray
        Objective per iteration: one array, or one array per component.
    stop_reason : str
        Reason for the end of the iterations.
    regression : bool
        Whether ``loadings`` are coefficients.
    parameters : dict
        Parameters of the estimator.
    reconstruction : Reconstruction or None
        Prediction of all variables, if this is the aim of the method.
    size_given : bool
        Whether the number of variables or loadings was given.
    views : Views or None
        Variance explained in each view, if the method fits views.
    inclusion : InclusionProbabilities or None
        Inclusion probabilities, if the method averaged models.
    covariates : CovariateEffects or None
        Variance explained by covariates, if the model was fitted with covariates.
    """

    method: str
    names: list[str]
    named: bool
    support: np.ndarray
    relevance: np.ndarray
    ranking: np.ndarray
    loadings: np.ndarray
    component_variance: np.ndarray | None
    reason: str
    path: ModelPath | None
    penalties: PenaltyPath | None
    tests: VariableTests | None
    objective_paths: list[np.ndarray]
    stop_reason: str
    regression: bool
    parameters: dict[str, Any]
    reconstruction: Reconstruction | None
    size_given: bool
    views: Views | None
    inclusion: InclusionProbabilities | None
    covariates: CovariateEffects | None

    @property
    def explained(self) -> float | None:
        """Proportion of the total variance explained by the components."""
        return None if self.component_variance is None else float(self.component_variance.sum())

    @property
    def comparison(self) -> ModelPath | None:
        """Path of models, if it contains more than one."""
        return self.path if self.path is not None and self.path.y.size > 1 else None

    @property
    def by_evidence(self) -> bool:
        """Whether the marginal likelihood determined the number of variables."""
        return self.comparison is not None and self.comparison.evidence and not self.size_given

    @property
    def n_selected(self) -> int:
        """Number of selected variables."""
        return int(self.support.sum())

    @property
    def order(self) -> np.ndarray:
        """Indices of all variables, most relevant first."""
        indices: np.ndarray = np.argsort(self.ranking, kind="stable")
        return indices

    @property
    def selected(self) -> np.ndarray:
        """Indices of the selected variables, most relevant first."""
        order = self.order
        indices: np.ndarray = order[self.support[order]]
        return indices


def refuse_unfitted(model: VariableSelector) -> None:
    """Raise `InputError` if the model is not fitted."""
    try:
        check_is_fitted(model, ["n_features_in_", "support_"])
    except NotFittedError as error:
        raise InputError(f"this {type(model).__name__} is not fitted; call `fit` first.") from error


def findings_of(model: VariableSelector, total_variance: float | None = None) -> Findings:
    """Collect the results of a fitted model.

    Parameters
    ----------
    model : fitted estimator
        Estimator of a registered method, fitted on arrays of any library.
    total_variance : float or None, default=None
        Total variance of the data, for models without ``explained_variance_ratio_``.

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the model is not fitted, or its method is not registered.
    """
    method = method_of(model)
    refuse_unfitted(model)
    fitted = vars(model)
    names = fitted.get("feature_names_in_")
    support = to_numpy(model.support_).astype(bool)
    parameters = model.get_params(deep=False)
    findings = Findings(
        method=type(model).__name__,
        names=[f"x{k}" for k in range(support.size)] if names is None else [*map(str, names)],
        named=names is not None,
        support=support,
        relevance=to_numpy(model.relevance_),
        ranking=to_numpy(model.ranking_),
        loadings=np.atleast_2d(to_numpy(fitted[method.coefficients])),
        component_variance=(
            _component_variance(fitted, total_variance) if method.projects else None
        ),
        reason="",
        path=None if method.path is None else _model_path(fitted, method.path),
        penalties=_penalty_path(fitted) if method.compares_penalties else None,
        tests=_read(fitted, VariableTests) if method.tests_variables else None,
        objective_paths=_objective_paths(fitted, method),
        stop_reason=str(fitted.get("stop_reason_", "")),
        regression=method.supervised,
        parameters=parameters,
        reconstruction=_reconstruction(fitted, parameters) if method.reconstructs else None,
        size_given=(
            method.size_parameter is not None and parameters[method.size_parameter] is not None
        ),
        views=_views(fitted) if method.fits_views else None,
        inclusion=_inclusion(fitted) if method.inclusion_probabilities else None,
        covariates=_covariate_effects(fitted),
    )
    return findings._replace(reason=method.explain(model, findings.comparison, findings.n_selected))


def scores_of(model: VariableSelector, X: Any, covariates: Any = None) -> np.ndarray | None:
    """Compute the scores of the rows of ``X``, or None for a regression."""
    if not isinstance(model, SparseProjection):
        return None
    metadata = {} if covariates is None else {"covariates": covariates}
    return to_numpy(model.transform(X, **metadata))


def _component_variance(
    fitted: Mapping[str, Any], total_variance: float | None
) -> np.ndarray | None:
    if "explained_variance_ratio_" in fitted:
        proportions = to_numpy(fitted["explained_variance_ratio_"]).astype(float)
    elif total_variance:
        proportions = to_numpy(fitted["explained_variance_"]).astype(float) / total_variance
    else:
        return None
    return proportions if np.all(np.isfinite(proportions)) else None


def _model_path(fitted: Mapping[str, Any], path: PathAttributes) -> ModelPath | None:
    if path.x not in fitted:  # the fit did not compare models
        return None
    x, y = to_numpy(fitted[path.x]), to_numpy(fitted[path.y])
    # The nearest x is used, because an array of single precision may not contain the selected value
    # exactly; ties are resolved by the criterion.
    best = int(np.lexsort((-y, np.abs(x - float(fitted[path.selected]))))[0])
    posterior = None if path.posterior is None else to_numpy(fitted[path.posterior])
    return ModelPath(x, y, best, path.x_label, path.y_label, path.noun, path.evidence, posterior)


def _penalty_path(fitted: Mapping[str, Any]) -> PenaltyPath:
    return PenaltyPath(
        n_parameters=to_numpy(fitted["n_parameters_path_"]),
        log_likelihood=to_numpy(fitted["log_likelihood_path_"]),
        criterion=to_numpy(fitted["criterion_path_"]),
        penalties=to_numpy(fitted["penalties_"]),
        penalty=float(fitted["penalty_"]),
        slope=fitted["slope_"],
    )


def _read(fitted: Mapping[str, Any], group: type[Group], **others: Any) -> Group:
    """Read the fields of a named tuple from attributes of the same name.

    ``others`` are the values of the other fields.
    """
    values = dict(others)
    for name in set(group._fields) - set(others):
        array = to_numpy(fitted[f"{name}_"])
        array = array.astype(float) if array.dtype.kind == "f" else array
        values[name] = array if array.ndim else array.item()
    return group(**values)


def _inclusion(fitted: Mapping[str, Any]) -> InclusionProbabilities | None:
    if "inclusion_probability_" not in fitted:  # the fit did not average models
        return None
    model_size = fitted.get("model_size_probability_")
    return InclusionProbabilities(
        probability=to_numpy(fitted["inclusion_probability_"]),
        credible_sets=[to_numpy(indices).astype(int) for indices in fitted["credible_sets_"]],
        model_size=None if model_size is None else to_numpy(model_size),
    )


def _covariate_effects(fitted: Mapping[str, Any]) -> CovariateEffects | None:
    if "covariate_r2_" not in fitted:
        return None
    return CovariateEffects(fitted["covariate_names_"].tolist(), to_numpy(fitted["covariate_r2_"]))


def _reconstruction(fitted: Mapping[str, Any], parameters: Mapping[str, Any]) -> Reconstruction:
    automatic = parameters["n_features_to_select"] is None
    target = float(parameters["target_recovery"]) if automatic else None
    return _read(fitted, Reconstruction, target_recovery=target)


def _views(fitted: Mapping[str, Any]) -> Views:
    """Divide the explained variance in each view by the variance of the model."""
    columns = [np.asarray(indices) for indices in fitted["view_columns_"]]
    squares = np.atleast_2d(to_numpy(fitted["components_"])).astype(float) ** 2
    varying = to_numpy(fitted["varying_"]).astype(bool)
    noise = np.where(varying, to_numpy(fitted["feature_noise_variance_"]).astype(float), 0.0)
    explained = np.stack([squares[:, indices].sum(axis=1) for indices in columns])
    total = explained.sum(axis=1) + [noise[indices].sum() for indices in columns]
    return Views(
        columns=columns,
        factor_view=to_numpy(fitted["factor_view_"]).astype(int),
        explained=explained / np.where(total > 0, total, 1.0)[:, None],
    )


def _objective_paths(fitted: Mapping[str, Any], method: Method) -> list[np.ndarray]:
    if not method.records_objective:
        return []
    paths = fitted["objective_path_"]
    paths = paths if isinstance(paths, list) else [paths]
    return [to_numpy(path).astype(float) for path in paths]
