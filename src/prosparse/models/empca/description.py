"""Description of EMPCA for the registry."""

from __future__ import annotations

from ..description import VARIABLES, Method, explain_requested
from ..schema import PROJECTION, Instance, ListOf, Schema, booleans, integers, numbers
from .estimator import EMPCA

METHOD = Method(
    "empca",
    EMPCA,
    example={"n_components": 2, "n_nonzero": 4, "random_state": 0},
    grid={"n_nonzero": [3, 4]},
    options=(
        VARIABLES._replace(
            parameter="n_nonzero", help="number of nonzero loadings per component", example="10"
        ),
    ),
    explanations=(explain_requested("n_nonzero", "loadings per component"),),
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
    ),
    size_parameter="n_nonzero",
    records_objective=True,
)
