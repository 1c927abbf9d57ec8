"""What any fitted estimator found, under the same names for all of them."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import NotFittedError
from sklearn.utils.validation import check_is_fitted

from .data.arrays import host
from .errors import InputError


class Choice(NamedTuple):
    """A path of models and the one that was chosen."""

    x: np.ndarray
    y: np.ndarray
    best: int  # position in both
    x_label: str
    y_label: str
    noun: str  # what the chosen x counts, for the label in the picture


class Findings(NamedTuple):
    """What a report says.

    Attributes
    ----------
    method : str
    names : list of str
        Of all variables.
    support, relevance, ranking : arrays (n_features,)
        As the estimator has them.
    loadings : array (n_components, n_features)
        One row of coefficients for a regression.
    retained : float or None
        Share of the variance of all columns that the components hold.
    why : str
        Why that many.
    choice : Choice or None
        The path of models and the chosen one.
    traces : list of arrays
        The objective per iteration, one trace or one per component.
    stop : str
    regression : bool
        Whether ``loadings`` are coefficients.
    """

    method: str
    names: list[str]
    support: np.ndarray
    relevance: np.ndarray
    ranking: np.ndarray
    loadings: np.ndarray
    retained: float | None
    why: str
    choice: Choice | None
    traces: list[np.ndarray]
    stop: str
    regression: bool

    @property
    def n_selected(self) -> int:
        return int(self.support.sum())

    @property
    def order(self) -> np.ndarray:
        """Positions of the variables, most relevant first."""
        return np.argsort(self.ranking, kind="stable")

    @property
    def chosen(self) -> np.ndarray:
        """Positions of the chosen variables, most relevant first."""
        order = self.order
        return order[self.support[order]]


def refuse_unfitted(model: Any) -> None:
    """Refuse a model that has found nothing, as it was not fitted."""
    try:
        check_is_fitted(model, ["n_features_in_", "support_"])
    except NotFittedError as error:
        raise InputError(
            f"this {type(model).__name__} was not fitted to any table: there is nothing to report"
        ) from error


def findings_of(model: Any, total_variance: float | None = None) -> Findings:
    """What a fitted model found.

    Parameters
    ----------
    model : fitted estimator
    total_variance : float or None
        Of the table; helps where the model has no ``explained_variance_ratio_``.

    Returns
    -------
    Findings
    """
    refuse_unfitted(model)
    width = model.n_features_in_
    names = [str(n) for n in getattr(model, "feature_names_in_", [f"x{k}" for k in range(width)])]
    loadings = np.atleast_2d(
        host(model.components_ if hasattr(model, "components_") else model.coef_)
    )
    support = host(model.support_).astype(bool)
    traces = getattr(model, "bounds_", [])
    traces = [traces] if isinstance(traces, np.ndarray) else list(traces)
    return Findings(
        type(model).__name__,
        names,
        support,
        host(model.relevance_),
        host(model.ranking_),
        loadings,
        _retained(model, total_variance),
        why_that_many(model, int(support.sum())),
        choice_of(model),
        [np.asarray(trace, dtype=float) for trace in traces],
        str(getattr(model, "stop_reason_", "")),
        not hasattr(model, "components_"),
    )


def _retained(model: Any, total_variance: float | None) -> float | None:
    share = math.nan
    if hasattr(model, "explained_variance_ratio_"):
        share = float(np.sum(host(model.explained_variance_ratio_)))
    elif total_variance and hasattr(model, "explained_variance_"):
        share = float(np.sum(host(model.explained_variance_))) / total_variance
    return share if math.isfinite(share) else None


def choice_of(model: Any) -> Choice | None:
    """The path along which the model chose, if it had one of several points."""
    if hasattr(model, "log_evidence_path_") and np.size(model.log_evidence_path_) > 1:
        x, y = host(model.cardinalities_), host(model.log_evidence_path_)
        best = int(np.flatnonzero(x == model.n_selected_)[0])
        return Choice(x, y, best, "number of variables", "log evidence", "variables")
    if hasattr(model, "criterion_path_") and np.size(model.criterion_path_) > 1:
        x, y = host(model.penalties_), host(model.criterion_path_)
        return Choice(x, y, int(np.argmax(y)), "penalty", "criterion", "penalty")
    return None


def why_that_many(model: Any, selected: int) -> str:
    """One sentence on where the number of variables comes from."""
    choice = choice_of(model)
    for parameter, what in (
        ("n_features_to_select", "variables"),
        ("n_nonzero", "loadings per component"),
    ):
        asked = getattr(model, parameter, None)
        if asked is not None:
            return f"you asked for {', '.join(map(str, np.ravel(asked)))} {what}"
    if choice is not None and choice.noun == "variables":
        return _evidence_words(choice)
    if choice is not None:
        rule = getattr(model, "penalty", None)
        how = {"slope": "the slope heuristic", "aic": "AIC", "bic": "BIC"}.get(str(rule))
        how = f"chosen by {how}" if how else "the one you gave"
        return f"at the penalty {model.penalty_:.4g}, {how}, {selected} variables have a loading"
    if hasattr(model, "prior"):
        return "the prior set the weights of all other variables to exactly zero"
    return "the method leaves these with a loading"


def _evidence_words(choice: Choice) -> str:
    best, drops = choice.best, []
    for k, side in ((best - 1, "fewer"), (best + 1, "more")):
        if 0 <= k < choice.y.size:
            steps = abs(int(choice.x[k] - choice.x[best]))
            drops.append(f"{choice.y[best] - choice.y[k]:.3g} for {steps} {side}")
    return f"the evidence is highest there (its logarithm falls by {' and by '.join(drops)})"
