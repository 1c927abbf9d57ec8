"""Description of GSPPCA for the registry."""

from __future__ import annotations

from ..description import EVIDENCE_PATH, VARIABLES, Method, explain_evidence, explain_requested
from ..schema import (
    PROJECTION,
    Schema,
    check_cardinalities,
    check_components,
    integers,
    nonnegative,
    numbers,
)
from .estimator import GSPPCA

METHOD = Method(
    "gsppca",
    GSPPCA,
    example={"n_components": 2},
    grid={"n_features_to_select": [5, 6]},
    options=(VARIABLES,),
    explanations=(explain_requested("n_features_to_select", "variables"), explain_evidence),
    schema=Schema(
        required={
            **PROJECTION,
            "noise_variance_": nonnegative(),
            "active_noise_variance_": nonnegative(),
            "cardinalities_": integers("k"),
            "log_evidence_path_": numbers("k"),
            "log_evidence_": numbers(),
            "inclusion_probability_": numbers("p", finite=True, minimum=0.0),
        },
        checks=(check_components, check_cardinalities),
    ),
    path=EVIDENCE_PATH,
    size_parameter="n_features_to_select",
    refit_tolerances={"tol": 1e-6},
    records_objective=True,
)
