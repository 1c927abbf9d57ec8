"""Description of EMPCA for the registry."""

from __future__ import annotations

from .._base import VariableSelector
from ..description import VARIABLES, Method, ModelPath, PathAttributes, explain_requested
from ..schema import PROJECTION, Instance, ListOf, Schema, booleans, integers, numbers
from .estimator import EMPCA

PATH = ("cardinality_", "cardinalities_", "criterion_path_")


def explain_cardinality(
    model: VariableSelector, path: ModelPath | None, n_selected: int
) -> str | None:
    """Report the number of nonzero loadings selected by extended BIC."""
    if path is None:
        return None
    K = int(path.x[path.best])
    noun = "loading" if K == 1 else "loadings"
    return f"extended BIC is largest at {K:,} nonzero {noun} per component"


METHOD = Method(
    "empca",
    EMPCA,
    example={"n_components": 2, "n_nonzero": 4, "random_state": 0},
    grid={"n_nonzero": [3, 4]},
    options=(
        VARIABLES._replace(
            parameter="n_nonzero",
            help="number of nonzero loadings per component (default: by extended BIC)",
            default="selected by extended BIC",
        ),
    ),
    explanations=(explain_requested("n_nonzero", "loadings per component"), explain_cardinality),
    schema=Schema(
        required={
            **PROJECTION,
            "n_nonzero_": integers("d"),
            "objective_path_": ListOf(numbers("+"), "d", "component"),
            "certified_": booleans("d"),
            "_optimality_gap": numbers("d"),
            # The problem from which the gap is computed on demand; the file holds the gap itself.
            "_gap_problem": Instance(type(None)),
        },
        optional={
            "cardinality_": integers(),
            "cardinalities_": integers("k"),
            "criterion_path_": numbers("k"),
        },
        all_or_none=(PATH,),
    ),
    path=PathAttributes(
        x="cardinalities_",
        y="criterion_path_",
        selected="cardinality_",
        x_label="nonzero loadings per component",
        y_label="extended BIC",
        noun="loadings",
    ),
    size_parameter="n_nonzero",
    records_objective=True,
)
