"""What any fitted estimator found, under the same names for all of them, on the host.

`findings_of` is the only reader of fitted attributes: pictures, reports and the command read the
`Findings` that it puts together, and the registry says what there is to read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .data.arrays import to_numpy
from .errors import InputError
from .models._base import SparseProjection, VariableSelector
from .models.panel.incremental_r2 import added_shares
from .registry import Choice, ChoicePath, Method, method_of
from .selection.slope import Slope

__all__ = [
    "Choice",
    "Findings",
    "Penalties",
    "Shared",
    "Told",
    "Views",
    "findings_of",
    "refuse_unfitted",
    "scores_of",
    "variance_shares",
]


# A method that always has this attribute chooses variables for what they tell of all others.
TELLS = "heldout_r2_path_"
# A method that always has this attribute fits several views of the same rows jointly.
VIEWS = "view_columns_"


class Penalties(NamedTuple):
    """The models along a grid of penalties, of which a criterion chose one."""

    n_parameters: np.ndarray  # (n_models,)
    log_likelihood: np.ndarray  # (n_models,)
    criterion: np.ndarray  # (n_models,)
    penalties: np.ndarray  # (n_models,)
    penalty: float  # the chosen one
    slope: Slope | None  # the line of the slope heuristic, where that chose


class Shared(NamedTuple):
    """What every variable shares with the others, where each was tested by itself."""

    communality: np.ndarray  # (n_features,), shares of the variance
    chance: float  # what chance alone gives on average
    pvalues: np.ndarray  # (n_features,)
    qvalues: np.ndarray  # (n_features,)


class Probable(NamedTuple):
    """How probable it is that variables are active, where the method averages over sets."""

    inclusion: np.ndarray  # (n_features,)
    groups: list[np.ndarray]  # for each chosen variable those that could stand for it
    number: np.ndarray | None  # (Q + 1,) probability that 0 .. Q are active, if it is known


class Told(NamedTuple):
    """What few variables tell of all, where the method chooses them for that."""

    order: np.ndarray  # (n_selected,) positions of the chosen variables, the first worth most
    recovered_path: np.ndarray  # (n_tried,) share of the variance of all that 1, 2, ... recover
    recovered_path_std: np.ndarray  # (n_tried,) over the parts of the rows that were held out
    attained_path: np.ndarray  # (n_tried,) of what all variables together tell of the others
    attainable: float  # share of a variable that all others tell, on average
    wanted: float | None  # the share of what is attainable that decided how many
    recovered: np.ndarray  # (n_features,) share of each variable
    stand_in: np.ndarray  # (n_features,) position of the chosen variable that stands for it, or -1
    communality: np.ndarray  # (n_features,)
    loadings: np.ndarray  # (n_components, n_features) from scores to all variables
    variances: np.ndarray  # (n_components,) of the scores

    def added(self, shown: int) -> np.ndarray:
        """The share of every variable that each of the first chosen ones adds to those before it,
        (shown, n_features)."""
        return added_shares(
            self.order, self.loadings, self.variances, self.communality, self.recovered, shown
        )


class Views(NamedTuple):
    """What the latents explain of every view, where a method fits several views jointly."""

    columns: list[np.ndarray]  # (columns of the view,) positions, one array per view
    latent_view: np.ndarray  # (latents,) -1 for shared latents, else the view of each
    shares: np.ndarray  # (views, latents) of the variance of a view that each latent explains


class Findings(NamedTuple):
    """What a fitted model found; every array is NumPy's, wherever the model was fitted.

    Attributes
    ----------
    method : str
        Name of the estimator's class.
    names : list of str
        Of all variables.
    named : bool
        Whether these are the names of the table, which may have had none.
    support : bool array (n_features,)
        Which variables were chosen.
    relevance : array (n_features,)
        Between 0 and 1.
    ranking : int array (n_features,)
        1 for the most relevant variable.
    loadings : array (n_components, n_features)
        One row of coefficients for a regression.
    retained : float or None
        Share of the variance of all columns that the components hold.
    why : str
        Why that many variables.
    path : Choice or None
        The models that the method chose from, perhaps a single one.
    penalties : Penalties or None
        More on them, where they differ by a penalty on the likelihood.
    shared : Shared or None
        What each variable shares with the others, where the method tests that.
    traces : list of arrays
        The objective per iteration, one trace or one per component.
    stop : str
        Why the iterations ended.
    regression : bool
        Whether ``loadings`` are coefficients.
    parameters : dict
        Of the estimator.
    told : Told or None
        What the chosen variables tell of all, where the method chooses them for that.
    asked : bool
        Whether the user gave the number of variables, or of loadings.
    views : Views or None
        What the latents explain of every view, where the method fits views.
    probable : Probable or None
        How probable each variable is, where the method averages over sets of them.
    """

    method: str
    names: list[str]
    named: bool
    support: np.ndarray
    relevance: np.ndarray
    ranking: np.ndarray
    loadings: np.ndarray
    retained: float | None
    why: str
    path: Choice | None
    penalties: Penalties | None
    shared: Shared | None
    traces: list[np.ndarray]
    stop: str
    regression: bool
    parameters: dict[str, Any]
    told: Told | None
    asked: bool
    views: Views | None = None
    probable: Probable | None = None

    @property
    def choice(self) -> Choice | None:
        """The path of models and the chosen one, if there was more than one to choose from."""
        return self.path if self.path is not None and self.path.y.size > 1 else None

    @property
    def by_evidence(self) -> bool:
        """Whether the evidence of other numbers of variables is known, and decided."""
        return self.choice is not None and self.choice.evidence and not self.asked

    @property
    def n_selected(self) -> int:
        """How many variables were chosen."""
        return int(self.support.sum())

    @property
    def order(self) -> np.ndarray:
        """Positions of the variables, most relevant first."""
        positions: np.ndarray = np.argsort(self.ranking, kind="stable")
        return positions

    @property
    def chosen(self) -> np.ndarray:
        """Positions of the chosen variables, most relevant first."""
        order = self.order
        positions: np.ndarray = order[self.support[order]]
        return positions


def refuse_unfitted(model: VariableSelector) -> None:
    """Refuse a model that has found nothing, as it was not fitted."""
    try:
        check_is_fitted(model, ["n_features_in_", "support_"])
    except NotFittedError as error:
        raise InputError(
            f"this {type(model).__name__} was not fitted to any table: there is nothing to report"
        ) from error


def findings_of(model: VariableSelector, total_variance: float | None = None) -> Findings:
    """What a fitted model found.

    Parameters
    ----------
    model : fitted estimator
        On whatever arrays.
    total_variance : float or None
        Of the table; helps where the model has no ``explained_variance_ratio_``.

    Returns
    -------
    Findings

    Raises
    ------
    InputError
        If the model is not fitted, or of no method that is registered.
    """
    method = method_of(model)
    refuse_unfitted(model)
    # What is not always there (names of a table, the path of a fit that had none) is None.
    fitted = vars(model)
    names = fitted.get("feature_names_in_")
    support = to_numpy(model.support_).astype(bool)
    parameters = model.get_params(deep=False)
    path = None if method.path is None else _path(fitted, method.path)
    found = Findings(
        method=type(model).__name__,
        names=[f"x{k}" for k in range(support.size)] if names is None else [*map(str, names)],
        named=names is not None,
        support=support,
        relevance=to_numpy(model.relevance_),
        ranking=to_numpy(model.ranking_),
        loadings=np.atleast_2d(to_numpy(fitted[method.saved.loadings])),
        retained=_retained(fitted, total_variance),
        why="",
        path=path,
        penalties=_penalties(fitted) if method.slope else None,
        shared=_shared(fitted) if method.tests else None,
        traces=_traces(fitted, method),
        stop=str(fitted.get("stop_reason_", "")),
        regression=method.predicts,
        parameters=parameters,
        told=_told(model) if TELLS in method.saved.required else None,
        asked=method.number is not None and parameters[method.number] is not None,
        views=_views(fitted) if VIEWS in method.saved.required else None,
        probable=_probable(fitted),
    )
    return found._replace(why=method.why(model, found.choice, found.n_selected))


def scores_of(model: VariableSelector, X: Any) -> np.ndarray | None:
    """Scores of the rows of ``X``, (n_rows, n_components), on the host; None for a regression.

    Parameters
    ----------
    model : fitted estimator
    X : table (n_rows, n_features_in_)

    Returns
    -------
    array or None
    """
    return to_numpy(model.transform(X)) if isinstance(model, SparseProjection) else None


def variance_shares(model: VariableSelector) -> np.ndarray | None:
    """The share of the variance of all columns that each component has, (n_components,), on the
    host; None where the model does not say.

    Parameters
    ----------
    model : fitted estimator

    Returns
    -------
    array or None
    """
    shares = vars(model).get("explained_variance_ratio_")
    if shares is None or not np.all(np.isfinite(to_numpy(shares))):
        return None
    return to_numpy(shares)


def _retained(fitted: Mapping[str, Any], total_variance: float | None) -> float | None:
    share = math.nan
    if "explained_variance_ratio_" in fitted:
        share = float(np.sum(to_numpy(fitted["explained_variance_ratio_"])))
    elif total_variance and "explained_variance_" in fitted:
        share = float(np.sum(to_numpy(fitted["explained_variance_"]))) / total_variance
    return share if math.isfinite(share) else None


def _path(fitted: Mapping[str, Any], path: ChoicePath) -> Choice | None:
    if path.x not in fitted or path.y not in fitted:
        return None
    x, y = to_numpy(fitted[path.x]), to_numpy(fitted[path.y])
    # The nearest, as an array of single precision need not hold the very number that was chosen;
    # of several that are as near, the one that was preferred.
    best = int(np.lexsort((-y, np.abs(x - float(fitted[path.chosen]))))[0])
    posterior = None if path.posterior is None else fitted.get(path.posterior)
    return Choice(
        x,
        y,
        best,
        path.x_label,
        path.y_label,
        path.noun,
        path.evidence,
        None if posterior is None else to_numpy(posterior),
    )


def _penalties(fitted: Mapping[str, Any]) -> Penalties | None:
    names = ("n_parameters_path_", "log_likelihood_path_", "criterion_path_", "penalties_")
    if not all(name in fitted for name in names):
        return None
    parameters, likelihood, criterion, penalties = (to_numpy(fitted[name]) for name in names)
    penalty, slope = float(fitted["penalty_"]), fitted.get("slope_")
    return Penalties(parameters, likelihood, criterion, penalties, penalty, slope)


def _shared(fitted: Mapping[str, Any]) -> Shared:
    arrays = (to_numpy(fitted[name]) for name in ("communality_", "pvalues_", "qvalues_"))
    communality, pvalues, qvalues = arrays
    return Shared(communality, float(fitted["null_communality_"]), pvalues, qvalues)


def _probable(fitted: Mapping[str, Any]) -> Probable | None:
    if "inclusion_probability_" not in fitted:
        return None
    number = fitted.get("model_size_probability_")
    return Probable(
        inclusion=to_numpy(fitted["inclusion_probability_"]),
        groups=[to_numpy(group).astype(int) for group in fitted.get("credible_sets_", [])],
        number=None if number is None else to_numpy(number),
    )


def _told(model: VariableSelector) -> Told:
    fitted, parameters = vars(model), model.get_params(deep=False)
    return Told(
        order=to_numpy(fitted["order_"]).astype(int),
        recovered_path=to_numpy(fitted["heldout_r2_path_"]).astype(float),
        recovered_path_std=to_numpy(fitted["heldout_r2_path_std_"]).astype(float),
        attained_path=to_numpy(fitted["relative_r2_path_"]).astype(float),
        attainable=float(fitted["attainable_r2_"]),
        wanted=float(parameters["recover"]) if parameters["n_features"] is None else None,
        recovered=to_numpy(fitted["heldout_r2_"]).astype(float),
        stand_in=to_numpy(fitted["proxy_"]).astype(int),
        communality=to_numpy(fitted["communality_"]).astype(float),
        loadings=to_numpy(fitted["loadings_"]).astype(float),
        variances=to_numpy(fitted["explained_variance_"]).astype(float),
    )


def _views(fitted: Mapping[str, Any]) -> Views:
    """Shares of the variance that the model gives to every view: loadings and noise together."""
    columns = [np.asarray(positions) for positions in fitted[VIEWS]]
    squares = np.atleast_2d(to_numpy(fitted["components_"])).astype(float) ** 2
    width = squares.shape[1]
    if "feature_noise_variance_" in fitted:
        of_column = to_numpy(fitted["feature_noise_variance_"]).astype(float)
    else:  # a model in a file of an earlier version: one variance for all columns of a view
        of_column = np.empty(width)
        for positions, level in zip(columns, to_numpy(fitted["noise_variance_"]), strict=True):
            of_column[positions] = level
    varying = (
        to_numpy(fitted["varying_"]).astype(bool) if "varying_" in fitted else np.ones(width, bool)
    )
    of_column = np.where(varying, of_column, 0.0)
    explained = np.stack([squares[:, positions].sum(axis=1) for positions in columns])
    left = np.array([of_column[positions].sum() for positions in columns])
    total = explained.sum(axis=1) + left
    shares = explained / np.where(total > 0, total, 1.0)[:, None]
    latents = fitted.get("factor_view_")
    latent_view = np.full(len(squares), -1) if latents is None else to_numpy(latents).astype(int)
    return Views(columns, latent_view, shares)


def _traces(fitted: Mapping[str, Any], method: Method) -> list[np.ndarray]:
    """One trace, or a list of one for each component."""
    traces = None if method.traces is None else fitted.get(method.traces)
    if traces is None:
        return []
    several = traces if isinstance(traces, list) else [traces]
    return [to_numpy(trace).astype(float) for trace in several]
