"""Slots of AnnData in which fitted attributes are stored."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Literal, NamedTuple

import numpy as np

from ..data.arrays import to_numpy
from .annotated import Annotated

# Value for variables that were not considered: zero (or False), NaN, or ranks after all others.
Fill = Literal["zero", "nan", "last"]


class Slots(NamedTuple):
    """Slots of one method.

    Keys are suffixes of ``key_added`` for columns of ``.var``, and names for entries of ``.uns``.
    """

    var: Mapping[str, tuple[str, Fill]]  # suffix -> attribute and fill value
    uns: Mapping[str, str]  # key -> attribute


_VARIANCE = {
    "n_components": "n_components_",
    "n_selected": "n_selected_",
    "variance": "explained_variance_",
    "variance_ratio": "explained_variance_ratio_",
}
ITERATIONS = {
    "objective_path": "objective_path_",
    "n_iter": "n_iter_",
    "stop_reason": "stop_reason_",
}

GSPPCA_SLOTS = Slots(
    var={
        "": ("support_", "zero"),
        "_relevance": ("relevance_", "zero"),
        "_ranking": ("ranking_", "last"),
    },
    uns={
        **_VARIANCE,
        "noise_variance": "noise_variance_",
        "cardinalities": "cardinalities_",
        "log_evidence_path": "log_evidence_path_",
        "log_evidence": "log_evidence_",
        **ITERATIONS,
    },
)
FDRPCA_SLOTS = Slots(
    var={
        "": ("support_", "zero"),
        "_communality": ("communality_", "nan"),
        "_pvalue": ("pvalues_", "nan"),
        "_qvalue": ("qvalues_", "nan"),
        "_ranking": ("ranking_", "last"),
    },
    uns={**_VARIANCE, "null_communality": "null_communality_"},
)
PANEL_SLOTS = Slots(
    var={
        "": ("support_", "zero"),
        "_communality": ("communality_", "nan"),
        "_heldout_r2": ("heldout_r2_", "nan"),
    },
    uns={
        **_VARIANCE,
        "heldout_r2_path": "heldout_r2_path_",
        "heldout_r2_path_std": "heldout_r2_path_std_",
        "relative_r2_path": "relative_r2_path_",
        "attainable_r2": "attainable_r2_",
    },
)


def write(
    table: Annotated, model: Any, slots: Slots, key: str, scores: Any, params: dict[str, Any]
) -> list[str]:
    """Store the results of a fit; return the slots in scanpy's format."""
    data = table.data
    for suffix, (attribute, fill) in slots.var.items():
        data.var[f"{key}{suffix}"] = fill_in(table, getattr(model, attribute), fill)
    added = [f"'{key}{suffix}' (.var)" for suffix in slots.var]
    if hasattr(model, "covariate_r2_"):
        data.var[f"{key}_covariate_r2"] = table.with_nan(model.covariate_r2_)
        added.append(f"'{key}_covariate_r2' (.var)")
    data.obsm[f"X_{key}"] = scores
    added.append(f"'X_{key}' (.obsm)")
    if slots is not PANEL_SLOTS:
        data.varm[key] = table.spread(model.components_).T
        added.append(f"'{key}' (.varm)")
    data.uns[key] = {"params": params, **read(model, slots.uns)}
    return [*added, f"'{key}' (.uns)"]


def write_pca_names(table: Annotated, key: str) -> list[str]:
    """Also store results under the names of ``scanpy.pp.pca``."""
    data, entry = table.data, table.data.uns[key]
    data.obsm["X_pca"], data.varm["PCs"] = data.obsm[f"X_{key}"], data.varm[key]
    names = ("params", "variance", "variance_ratio")
    data.uns["pca"] = {name: entry[name] for name in names}
    return ["'X_pca' (.obsm)", "'PCs' (.varm)", "'pca' (.uns)"]


def read(model: Any, attributes: Mapping[str, str]) -> dict[str, Any]:
    """Return attributes of a fitted model in types supported by H5AD."""
    return {key: _storable(getattr(model, name)) for key, name in attributes.items()}


def _storable(value: Any) -> Any:
    if isinstance(value, bool | int | float):
        return value
    return str(value) if not hasattr(value, "shape") else to_numpy(value)


def fill_in(table: Annotated, values: Any, fill: Fill) -> np.ndarray:
    """Expand values of the considered variables to all variables."""
    if fill == "nan":
        return table.with_nan(values)
    full = table.spread(values)
    if fill == "last":
        rest = np.flatnonzero(full == 0)
        full[rest] = np.arange(full.size - rest.size, full.size) + 1
    return full
