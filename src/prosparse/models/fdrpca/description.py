"""Description of FDRPCA for the registry."""

from __future__ import annotations

import numpy as np

from ...data.arrays import to_numpy
from ...errors import ModelFileError
from ...structure.row_diagnostics import influential_rows, list_rows
from .._base import VariableSelector
from ..description import COUNTS, Method, ModelPath, Option
from ..schema import (
    COVARIATES,
    PROJECTION,
    DictOf,
    Field,
    Schema,
    State,
    check_components,
    check_covariates,
    integers,
    nonnegative,
    numbers,
    strings,
)
from .estimator import FDRPCA


def explain_test(model: VariableSelector, path: ModelPath | None, n_selected: int) -> str:
    """Report the FDR and the number of variables with a high communality."""
    parameters = model.get_params(deep=False)
    minimum = float(parameters["min_communality"])
    subject, share, have = {
        0: ("no variable", "shares", "has"),
        1: ("it", "shares", "has"),
    }.get(n_selected, ("they", "share", "have"))
    reason = (
        f"{subject} {share} significant variance with other variables (false discovery rate at "
        f"most {float(parameters['fdr']):.3g})"
    )
    if minimum:
        reason += f" and {have} a communality of at least {minimum:.3g}"
    if minimum >= 0.5 or n_selected < 2:
        return reason
    communality = to_numpy(model.communality_)[to_numpy(model.support_)]
    reason += f"; {int(np.sum(communality >= 0.5)):,} of them have a communality of at least 0.5"
    influence = to_numpy(model.row_influence_)
    rows = influential_rows(influence)
    if rows.size:
        reason += (
            f". This result is unreliable: {list_rows(rows)} of the table (counted from 0) "
            f"{'accounts' if rows.size == 1 else 'account'} for {float(influence[rows].sum()):.0%} "
            "of the variance of the components. Check "
            f"{'this row' if rows.size == 1 else 'these rows'}, and repeat the analysis without "
            f"{'it' if rows.size == 1 else 'them'}"
        )
    return reason


def check_categories(state: State) -> None:
    """Check that the attributes of categories have equal names and lengths."""
    levels = state.get("category_levels_")
    if levels is None:
        return
    codes = state["category_codes_"]
    parts = [state[f"category_{part}_"] for part in ("components", "effects")]
    n_effects = len(state.get("covariate_mean_", ()))
    consistent = (
        len(state["category_columns_"]) == len(levels)
        and all(set(part) == set(codes) <= set(levels) for part in parts)
        and all(codes[name].shape[0] == len(levels[name]) for name in codes)
        and all(part[name].shape[1] == codes[name].shape[1] for part in parts for name in codes)
        and all(effects.shape[0] == n_effects for effects in parts[1].values())
    )
    if not consistent:
        raise ModelFileError("The attributes of the categories are inconsistent.")


KNOCKOFF_ATTRIBUTES = ("knockoff_statistics_", "evalues_")
CATEGORIES: dict[str, Field] = {
    "category_columns_": integers("+", below="p"),
    "category_levels_": DictOf(strings("*")),
    "category_codes_": DictOf(numbers("*", "*", finite=True)),
    "category_components_": DictOf(numbers("d", "*", finite=True)),
    "category_effects_": DictOf(numbers("*", "*", finite=True)),
}
COUNT_MODEL = ("count_weights_", "count_proportions_", "count_noise_")

METHOD = Method(
    "fdrpca",
    FDRPCA,
    example={"n_components": 2},
    grid={"fdr": [0.05, 0.1]},
    options=(
        Option(
            "fdr",
            "fdr",
            "maximum expected proportion of false discoveries among the selected variables",
            type=float,
            default="0.05",
        ),
        Option(
            "null",
            "null",
            "null hypothesis: robust (rows may have unequal noise) or exchangeable (equal noise)",
            default="robust",
        ),
        Option(
            "control",
            "control",
            "control of the false discovery rate: bh (Benjamini-Hochberg) or knockoff (with a "
            "proof in finite samples)",
            default="bh",
        ),
        Option(
            "shadows",
            "n_shadows",
            "number of shadows of each variable, for knockoff control",
            type=int,
            default="1",
        ),
        Option(
            "draws",
            "n_draws",
            "number of times that the shadows are drawn, for knockoff control",
            type=int,
            default="1",
        ),
        Option(
            "min-communality",
            "min_communality",
            "minimum communality of the selected variables",
            type=float,
            default="none",
        ),
        COUNTS,
    ),
    explanations=(explain_test,),
    schema=Schema(
        required={
            **PROJECTION,
            "pvalues_": nonnegative("p"),
            "qvalues_": nonnegative("p"),
            "communality_": nonnegative("p"),
            "null_communality_": nonnegative(),
            "component_pvalues_": nonnegative("d", "p"),
            "component_qvalues_": nonnegative("d", "p"),
            "row_scale_": nonnegative("n"),
            "row_influence_": nonnegative("n"),
        },
        optional={
            **dict.fromkeys(COUNT_MODEL, nonnegative("p")),
            "count_unit_": nonnegative(),
            **COVARIATES,
            "knockoff_statistics_": numbers("m", "p", finite=True),
            "evalues_": nonnegative("p"),
            **CATEGORIES,
        },
        all_or_none=(
            (*COUNT_MODEL, "count_unit_"),
            tuple(COVARIATES),
            KNOCKOFF_ATTRIBUTES,
            tuple(CATEGORIES),
        ),
        checks=(check_components, check_covariates, check_categories),
    ),
    standardizes=True,
    tests_variables=True,
)
