"""Description of Panel for the registry."""

from __future__ import annotations

import numpy as np

from ...data.arrays import to_numpy
from ...errors import ModelFileError
from ...phrases import percent
from .._base import VariableSelector
from ..description import COUNTS, VARIABLES, Method, ModelPath, Option, explain_requested
from ..schema import (
    PROJECTION,
    DictOf,
    OneOf,
    Schema,
    State,
    check_components,
    integers,
    nonnegative,
    numbers,
    strings,
)
from .estimator import Panel


def explain_recovery(model: VariableSelector, path: ModelPath | None, n_selected: int) -> str:
    """Report the held-out R2 of the panel, relative to that of all variables."""
    relative = float(to_numpy(model.relative_r2_path_)[n_selected - 1])
    if relative >= 1.0:
        return "they explain as much held-out variance of the others as all variables together"
    return (
        f"they explain {percent(relative)} of the held-out variance that all variables together "
        "explain"
    )


def check_panel(state: State) -> None:
    """Check that order, proxies and path match the selected columns."""
    selected = np.flatnonzero(state["support_"])
    if not np.array_equal(np.sort(state["order_"]), selected):
        raise ModelFileError("`order_` must contain each column of `support_` once.")
    if not np.isin(state["proxy_"], [-1, *selected]).all():
        raise ModelFileError("`proxy_` must contain columns of `support_`, or -1.")
    if state["relative_r2_path_"].size < selected.size:
        raise ModelFileError(
            f"`relative_r2_path_` must have at least {selected.size} values, got "
            f"{state['relative_r2_path_'].size}."
        )


METHOD = Method(
    "panel",
    Panel,
    example={"n_features_to_select": 5},
    grid={"n_features_to_select": [4, 5]},
    options=(
        VARIABLES,
        Option(
            "target-recovery",
            "target_recovery",
            "target for the held-out R2 of the panel, as a proportion of the R2 of prediction from "
            "all variables; used if --variables is not given",
            type=float,
            default="0.9",
        ),
        COUNTS,
    ),
    explanations=(explain_requested("n_features_to_select", "variables"), explain_recovery),
    schema=Schema(
        required={
            **PROJECTION,
            "explained_variance_ratio_": numbers("d"),
            "order_": integers("s"),
            "heldout_r2_path_": numbers("k", finite=True),
            "heldout_r2_path_std_": nonnegative("k"),
            "relative_r2_path_": numbers("k", finite=True),
            "relative_r2_path_std_": nonnegative("k"),
            "n_selected_range_": integers("2", minimum=1),
            "bound_path_": nonnegative("k"),
            "criterion_path_": numbers("k"),
            "optimality_gap_": nonnegative(),
            "empirical_weight_": nonnegative(),
            "attainable_r2_": numbers(finite=True),
            "heldout_r2_": numbers("p", finite=True),
            "heldout_r2_by_group_": DictOf(numbers(finite=True)),
            "communality_": nonnegative("p"),
            "proxy_": integers("p", minimum=-1),
            "loadings_": numbers("d", "p", finite=True),
            "unmeasured_std_": nonnegative("p"),
            "interval_width_": nonnegative("p"),
            "interval_exponent_": nonnegative(),
            "heldout_coverage_": nonnegative("p"),
            "heldout_coverage_by_error_": nonnegative("5"),
            "heldout_coverage_by_group_": DictOf(nonnegative()),
            "held_out_": OneOf(("rows", "groups")),
            "marker_of_": strings("p"),
            "column_mean_": numbers("p", finite=True),
            "r2_per_variable_": numbers("p", "3", finite=True),
            "panel_covariance_": numbers("s", "s", finite=True),
            "depth_": nonnegative(),
        },
        checks=(check_components, check_panel),
    ),
    size_parameter="n_features_to_select",
    standardizes=True,
    reconstructs=True,
)
