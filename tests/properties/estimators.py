"""Every estimator of the registry with every combination of its parameters that is allowed."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from prosparse.registry import METHODS

few = st.integers(1, 4)
counts = st.one_of(few, st.just("auto"))
flags = st.booleans()
seeds = st.integers(0, 3)


def one_of(*values: Any) -> Any:
    return st.sampled_from(values)


PARAMETERS: dict[str, dict[str, Any]] = {
    "FDRPCA": {
        "n_components": counts,
        "fdr": one_of(0.05, 0.5),
        "null": one_of("robust", "exchangeable"),
        "min_communality": one_of(0.0, 0.0, 0.5),
        "max_features": one_of(None, None, 3),
        "rank_transform": flags,
    },
    "GSPPCA": {
        "n_components": counts,
        "n_features_to_select": st.one_of(st.none(), st.integers(1, 12)),
        "scale": flags,
        "noise": one_of("bias-corrected", "ml", "median"),
        "evidence": one_of("noiseless", "noiseless", "noisy"),
        "model_prior": one_of("uniform", "sparse"),
        "max_iter": one_of(1, 5, 100),
    },
    "SCA": {
        "n_components": counts,
        "prior": one_of("ard", "hyperbolic"),
        "shape": one_of(0.0, 0.0, 1.0, 30.0),
        "rate": one_of(0.0, 0.0, 1.0, 1e3),
        "n_private": one_of(0, 0, 1),
        "noise": one_of("feature", "view"),
        "rotation": one_of("sparse", "shared"),
        "likelihood": one_of("gaussian"),  # the others refuse most tables
        "max_iter": one_of(1, 5, 100),
    },
    "SPPCA": {
        "n_components": counts,
        "penalty": one_of("slope", "aic", "bic", 0.0, 1.0, 1e3),
        "penalties": one_of([0.0, 0.1, 1.0, 10.0, 100.0], [0.0, 1e-3, 3.0, 1e6], [2.0]),
        "max_iter": one_of(1, 5, 50),
    },
    "EMPCA": {
        "n_components": counts,
        "n_nonzero": st.one_of(st.none(), st.integers(1, 8)),
        "nonnegative": flags,
        "orthogonality": one_of("deflation", "disjoint", "quasi"),
        "n_restarts": one_of(0, 2),
        "renormalize": flags,
        "scale": flags,
        "max_iter": one_of(1, 5, 100),
        "random_state": seeds,
    },
    "Panel": {
        "n_features_to_select": st.one_of(st.none(), st.none(), st.integers(1, 8)),
        "target_recovery": one_of(0.5, 0.9, 0.99),
        "include": one_of((), (), [0], (1, -1)),
        "exclude": one_of((), (), [2]),
        "bundles": one_of(None, None, [[0, 1], slice(2, 5)]),
        "counts": one_of(False, False, True),
        "random_state": seeds,
    },
    "SpinyRegressor": {
        "fit_intercept": flags,
        "scale": flags,
        "noise": one_of("gaussian", "gaussian", "student"),
        "refit": one_of("posterior", "ols"),
        "max_iter": one_of(1, 5, 100),
    },
    "SpinyClassifier": {
        "fit_intercept": flags,
        "scale": flags,
        "selection_rule": one_of("f-score", "map", "median"),
        "average": flags,
        "max_iter": one_of(1, 5, 100),
    },
}


@st.composite
def estimators(draw: Any, name: str) -> Any:
    """One of them, with the parameters that go together."""
    chosen = {key: draw(values) for key, values in PARAMETERS[name].items()}
    if chosen.get("orthogonality") == "quasi":
        chosen["min_angle"] = draw(one_of(1.0, 60.0, 90.0))
    return METHODS[name].estimator(**chosen)
