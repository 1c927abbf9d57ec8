"""Description of SCA for the registry."""

from __future__ import annotations

import numpy as np

from ...errors import ModelFileError, plural
from .._base import VariableSelector
from ..description import Method, ModelPath, Option
from ..schema import (
    PROJECTION,
    ListOf,
    OneOf,
    Schema,
    State,
    booleans,
    integers,
    labels,
    nonnegative,
    numbers,
    positive,
    strings,
)
from .estimator import SCA

GROUPS = {
    "groups_": labels("g"),
    "group_sizes_": integers("g", minimum=1),
    "group_means_": numbers("g", "p", finite=True),
    "group_noise_variance_": positive("g", "p"),
    "group_varying_": booleans("g", "p"),
    "factor_variance_per_group_": nonnegative("g", "d"),
    "explained_variance_per_group_": numbers("g", "v", "d"),
}


SPARSE = {
    "loadings_mean_": numbers("d", "p", finite=True),
    "loadings_lfsr_": nonnegative("d", "p"),
    "inclusion_probability_": nonnegative("d", "p"),
    "score_probability_": positive("d"),
}


def explain_prior(model: VariableSelector, path: ModelPath | None, n_selected: int) -> str:
    """Report the effect of the sparse prior."""
    if n_selected == 0:
        return "no factor is more probable than noise alone"
    return "the loadings of all other variables are exactly zero under the sparse prior"


def check_views(state: State) -> None:
    """Check that the views partition the columns and match the factors."""
    views, p, d = state["view_columns_"], state["n_features_in_"], len(state["components_"])
    columns = np.sort(np.concatenate(views)) if views else np.empty(0)
    if not np.array_equal(columns, np.arange(p)):
        raise ModelFileError(f"`view_columns_` must contain each of the {p} columns once.")
    if state["n_components_"] > d:
        raise ModelFileError(
            f"`n_components_` is {state['n_components_']}, but `components_` has "
            f"{plural(d, 'row')}."
        )
    for k, columns in enumerate(views):
        names, loadings = state["view_names_"][k], state["view_components_"][k]
        if loadings.shape[1] != columns.size or (names is not None and names.size != columns.size):
            raise ModelFileError(
                f"`view_components_` and `view_names_` must have {columns.size} columns for view "
                f"{k}, as in `view_columns_`."
            )


def check_likelihood(state: State) -> None:
    """Check that non-Gaussian views have the thresholds of their likelihood."""
    if set(state["likelihood_"]) != {"gaussian"} and "linear_threshold_" not in state:
        raise ModelFileError("`linear_threshold_` is missing; non-Gaussian views require it.")


METHOD = Method(
    "sca",
    SCA,
    example={"n_components": 2, "prior": "hyperbolic"},
    grid={"prior": ["point-normal", "ard", "hyperbolic"]},
    options=(
        Option(
            "noise",
            "noise",
            "noise variances: feature (one per variable), view (one for all variables) or learned "
            "(shrunk towards equal variances)",
            default="feature",
        ),
        Option(
            "likelihood",
            "likelihood",
            "gaussian (measurements), bernoulli (0 and 1) or poisson (counts)",
            default="gaussian",
        ),
    ),
    explanations=(explain_prior,),
    schema=Schema(
        required={
            **PROJECTION,
            "view_columns_": ListOf(integers("*"), "v", "view"),
            "view_names_": ListOf(strings("*", optional=True), "v", "view"),
            "view_components_": ListOf(numbers("d", "*"), "v", "view"),
            "likelihood_": ListOf(OneOf(("gaussian", "bernoulli", "poisson")), "v", "view"),
            "n_private_": ListOf(integers(), "v", "view"),
            "n_pruned_": integers(),
            "factor_view_": integers("d", minimum=-1, below="v"),
            "view_correlation_": numbers("d", finite=True),
            "noise_variance_": positive("v"),
            "feature_noise_variance_": positive("p"),
            "explained_variance_per_view_": numbers("v", "d"),
        },
        optional={
            **SPARSE,
            "components_std_": numbers("d", "p"),
            "linear_threshold_": positive("p"),
            "row_scale_": positive("n"),
            "row_df_": positive(),
            **GROUPS,
        },
        all_or_none=(tuple(GROUPS), tuple(SPARSE), ("row_scale_", "row_df_")),
        checks=(check_views, check_likelihood),
    ),
    fits_views=True,
    records_objective=True,
)
