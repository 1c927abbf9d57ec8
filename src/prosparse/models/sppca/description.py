"""Description of SPPCA for the registry."""

from __future__ import annotations

from ...selection.slope import Slope
from .._base import VariableSelector
from ..description import Method, ModelPath, Option, PathAttributes
from ..schema import PROJECTION, Instance, OneOf, Schema, integers, numbers, positive
from .estimator import SPPCA

CRITERIA = {
    "slope": "the slope heuristic",
    "aic": "AIC",
    "bic": "BIC",
    "ebic": "extended BIC",
}


def explain_penalty(model: VariableSelector, path: ModelPath | None, n_selected: int) -> str | None:
    """Report the penalty and the criterion that selected it."""
    if path is None:
        return None
    criterion = CRITERIA.get(model.criterion_)
    source = f"selected by {criterion}" if criterion else "as requested"
    if model.criterion_ == "ebic" and model.get_params(deep=False)["penalty"] == "slope":
        source += " because the slope heuristic found too few large models"
    plural = "variable has" if n_selected == 1 else "variables have"
    penalty = float(path.x[path.best])
    return f"at penalty {penalty:.4g}, {source}, {n_selected:,} {plural} nonzero loadings"


def parse_penalty(text: str) -> float | str:
    """Return a penalty as a number, or the name of a criterion."""
    try:
        return float(text)
    except ValueError:
        return text


METHOD = Method(
    "sppca",
    SPPCA,
    example={"n_components": 2, "penalty": 15.0},
    grid={"penalty": [10.0, 15.0]},
    options=(
        Option(
            "penalty",
            "penalty",
            "slope (the default), aic, bic, ebic, or a number",
            parse=parse_penalty,
            default="selected by the slope heuristic",
        ),
    ),
    explanations=(explain_penalty,),
    schema=Schema(
        required={
            **PROJECTION,
            "noise_variance_": positive(),
            "penalty_": numbers(),
            "penalties_": numbers("k"),
            "log_likelihood_path_": numbers("k"),
            "n_parameters_path_": integers("k"),
            "criterion_path_": numbers("k"),
            "criterion_": OneOf((*CRITERIA, "given")),
            "slope_": Instance(Slope, optional=True),
        },
    ),
    path=PathAttributes(
        x="penalties_",
        y="criterion_path_",
        selected="penalty_",
        x_label="penalty",
        y_label="criterion",
        noun="penalty",
    ),
    compares_penalties=True,
    records_objective=True,
)
