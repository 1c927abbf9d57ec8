"""Fit SCA to an AnnData, or to all modalities of a MuData jointly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ..data.arrays import spread, to_numpy
from ..data.column_groups import column_groups
from ..errors import ParameterError, check_bool
from ..findings import findings_of
from ..models.sca import SCA
from .annotated import Annotated, column_of, is_mudata, tables_of, tables_of_views
from .batches import labels_of_rows, warn_about_batches
from .counts import warn_about_raw_counts
from .fitting import Options, check_target, default_components, stored_parameters
from .log_messages import Report
from .slots import ITERATIONS, read
from .stored_models import ENTRY, pack

DEFAULT_N_FACTORS = 10


def fit_factors(arguments: Options) -> Any:
    """Fit SCA with the arguments of ``tl.sca`` and store the results."""
    arguments = dict(arguments)
    report = Report("sca")
    key, copy = arguments.pop("key_added"), arguments.pop("copy")
    target = check_target(arguments.pop("adata"), key, copy)
    mofa_names = arguments.pop("mofa_names")
    check_bool("mofa_names", mofa_names)
    if mofa_names and key == "mofa":
        raise ParameterError('`key_added` must not be "mofa", which `mofa_names` writes to.')
    source = {name: arguments.pop(name) for name in ("layer", "mask_var", "modality")}
    views, batch_key = arguments.pop("views"), arguments.pop("batch_key")
    tables = tables_of(target, **source)
    X, positions, names, columns = _read_views(target, tables, views)
    joint = Annotated(target, X, positions, {"modality": None})  # its `.obs` has all observations
    labels = labels_of_rows(joint, batch_key)
    arguments["n_components"] = default_components(
        arguments["n_components"], DEFAULT_N_FACTORS, tables
    )
    _warn_about_raw_counts(tables, arguments["likelihood"])
    model = SCA(**arguments, views=columns).fit(X, groups=labels)
    scores = scaled_scores(model, model.transform(X, groups=labels))
    if labels is None:
        warn_about_batches(joint, scores, "sca", True)
    names = names or [f"view {number}" for number in range(len(model.view_columns_))]
    parameters = {**arguments, **source, "views": views, "batch_key": batch_key}
    described = _describe(model, names, stored_parameters(joint, model, parameters))
    described[ENTRY] = pack(model, target.var_names[positions])
    target.obsm[f"X_{key}"] = scores
    target.varm[key] = spread(to_numpy(model.components_), positions, target.n_vars).T
    target.var[key] = spread(to_numpy(model.support_), positions, target.n_vars)
    target.uns[key] = described
    added = [f"'X_{key}' (.obsm)", f"'{key}' (.varm)", f"'{key}' (.var)", f"'{key}' (.uns)"]
    if labels is not None:
        target.uns[key]["batches"] = model.groups_.astype(object)
        target.uns[key]["batch_variance"] = to_numpy(model.explained_variance_per_group_)
    if mofa_names:
        added += _write_mofa_names(target, key, names)
    report.finish(
        f"{scores.shape[1]} factors load on {model.n_selected_:,} of {positions.size:,} variables",
        added,
    )
    return target if copy else None


def scaled_scores(model: SCA, scores: Any) -> np.ndarray:
    """Scale the scores of factors to the standard deviations they explain.

    Squared distances between observations then depend on each factor in proportion to the variance
    it explains, summed over views of equal total variance.
    """
    views = findings_of(model).views
    assert views is not None
    return np.asarray(to_numpy(scores) * np.sqrt(views.explained.sum(axis=0)))


def _warn_about_raw_counts(tables: list[Annotated], likelihood: Any) -> None:
    """Warn about counts in modalities with Gaussian noise."""
    likelihoods = [likelihood] * len(tables) if isinstance(likelihood, str) else list(likelihood)
    for table, name in zip(tables, likelihoods, strict=False):
        if name == "gaussian":
            warn_about_raw_counts(table, "SCA", ', or set `likelihood="poisson"`')


def _read_views(
    target: Any, tables: list[Annotated], views: Any
) -> tuple[Any, np.ndarray, list[str], Any]:
    """Return data matrices with their columns, and views with their columns.

    Without given views, names are empty and columns None.
    """
    if not is_mudata(target):
        X, positions = tables[0].X, tables[0].columns
        return X, positions, *_column_views(target, views, positions)
    if views is not None:
        raise ParameterError(
            f"`views` must be None for a MuData, whose modalities are the views, got {views!r}. "
            "Use `modality` to select modalities."
        )
    X, positions = tables_of_views(target, tables)
    return X, positions, [table.source["modality"] for table in tables], None


def _column_views(adata: Any, views: Any, positions: np.ndarray) -> tuple[list[str], Any]:
    """Return the names of the views of an AnnData and their columns."""
    if views is None:
        return [], None
    if not isinstance(views, str):
        position = np.full(adata.n_vars, -1)
        position[positions] = np.arange(positions.size)
        groups = [position[group] for group in column_groups(views, adata.n_vars, adata.var_names)]
        return [], [group[group >= 0] for group in groups]
    column = column_of(adata, "views", views)
    missing = column.isna().to_numpy()[positions]
    if missing.any():
        raise ParameterError(
            f"`views` ({views!r}) must name a view for every variable; {int(missing.sum())} have "
            "none."
        )
    labels = column.astype(str).to_numpy()[positions]
    names = list(dict.fromkeys(labels.tolist()))
    return names, [np.flatnonzero(labels == name) for name in names]


def _describe(model: SCA, names: Sequence[Any], parameters: dict[str, Any]) -> dict[str, Any]:
    """Build the entry of ``.uns`` for a fitted model."""
    factor_view = ["shared" if v < 0 else names[v] for v in to_numpy(model.factor_view_)]
    attributes = {
        "variance": "explained_variance_",
        "view_variance": "explained_variance_per_view_",
        "view_correlation": "view_correlation_",
        "noise_variance": "noise_variance_",
        **ITERATIONS,
    }
    return {
        "params": parameters,
        "views": np.array(names, dtype=object),
        "factor_view": np.array(factor_view, dtype=object),
        "variance_explained": _percent_of_views(model, names),
        **read(model, attributes),
    }


def _percent_of_views(model: SCA, names: Sequence[Any]) -> Any:
    """Compute the percentage of the variance of each view by factor."""
    from pandas import DataFrame  # a dependency of anndata

    views = findings_of(model).views
    assert views is not None
    factors = [str(k + 1) for k in range(views.explained.shape[1])]
    return DataFrame(
        100.0 * views.explained.T, index=factors, columns=[str(name) for name in names]
    )


def _write_mofa_names(target: Any, key: str, names: Sequence[Any]) -> list[str]:
    """Also store the results under the names of ``muon.tl.mofa``."""
    entry = target.uns[key]
    explained = entry["variance_explained"]
    target.obsm["X_mofa"] = target.obsm[f"X_{key}"]
    target.varm["LFs"] = target.varm[key]
    target.uns["mofa"] = {
        "params": {
            "model": {"n_factors": target.obsm["X_mofa"].shape[1]},
            "prosparse": entry["params"],
        },
        "variance": {str(name): explained[str(name)].to_numpy() for name in names},
    }
    return ["'X_mofa' (.obsm)", "'LFs' (.varm)", "'mofa' (.uns)"]
