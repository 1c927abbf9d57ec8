"""Fit an estimator to an AnnData, or to each modality of a MuData."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from numbers import Integral
from typing import Any, NamedTuple, get_args

import numpy as np

from ..data import container_of
from ..data.arrays import to_numpy
from ..errors import InputError, ParameterError, check_bool, check_choice, check_integer
from ..findings import scores_of
from ..models.fdrpca import FDRPCA
from ..models.gsppca import GSPPCA
from ..models.panel import Panel
from .annotated import (
    Annotated,
    column_of,
    covariates_of_rows,
    is_mudata,
    of_modality,
    tables_of,
    varying_columns,
)
from .batches import labels_of_rows, warn_about_batches
from .counts import detect_counts, warn_about_raw_counts
from .log_messages import Report
from .slots import PANEL_SLOTS, Slots, write, write_pca_names
from .stored_models import ENTRY, pack
from .variables import HandleUnknown, columns_named

DEFAULT_N_COMPONENTS = 30  # usual in single-cell analyses

Options = dict[str, Any]  # arguments of a function for one modality
Fit = Callable[[Annotated, Options, Report], Any]


class Fitted(NamedTuple):
    """Results of one modality, before they are stored."""

    table: Annotated
    model: Any
    scores: np.ndarray
    parameters: dict[str, Any]
    stored: np.ndarray  # bytes of the model


def run(function: str, arguments: Options, fit: Fit, slots: Slots) -> Any:
    """Fit all modalities, and store the results after all fits succeeded.

    ``fit`` returns the fitted estimator of one modality. The result is the copy if requested,
    otherwise None.
    """
    arguments = dict(arguments)
    report = Report(function)
    key, copy = arguments.pop("key_added"), arguments.pop("copy")
    pca_names = arguments.pop("pca_names", False)
    check_bool("pca_names", pca_names)
    target = check_target(arguments.pop("adata"), key, copy)
    source = [arguments.pop(name) for name in ("layer", "mask_var", "modality")]
    fits = []
    for table in tables_of(target, *source, **arguments):
        modality = table.source["modality"]
        options = {name: of_modality(value, modality) for name, value in arguments.items()}
        model = fit(table, options, report)
        covariates = covariates_of_rows(table, options.get("covariate_keys"))
        scores = scores_of(model, table.X, covariates)
        assert scores is not None
        stored = pack(model, table.data.var_names[table.columns])
        parameters = stored_parameters(table, model, options)
        fits.append(Fitted(table, model, scores, parameters, stored))
        if options.get("batch_key") is None and options.get("covariate_keys") is None:
            warn_about_batches(table, scores, function, "batch_key" in options)
    for fitted in fits:
        table, model, scores, parameters, stored = fitted
        added = write(table, model, slots, key, scores, parameters)
        table.data.uns[key][ENTRY] = stored
        if slots is PANEL_SLOTS:
            added = write_panel(table, model, key) + added
        if pca_names:
            added += write_pca_names(table, key)
        report.finish(
            f"selected {model.n_selected_:,} of {table.columns.size:,} variables, "
            f"{model.n_components_} components",
            added,
        )
    return target if copy else None


def check_target(data: Any, key_added: Any, copy: Any) -> Any:
    """Return the object to which results are written: the data or a copy."""
    try:
        from anndata import AnnData
    except ImportError as error:
        raise ImportError(
            "prosparse.anndata needs anndata, which is not installed: "
            "pip install 'prosparse[anndata]'"
        ) from error
    if not isinstance(data, AnnData) and not is_mudata(data):
        raise InputError(
            f"`adata` must be an AnnData or a MuData, got {type(data).__name__}. Use the "
            "estimators, such as prosparse.FDRPCA, for arrays and data frames."
        )
    if not isinstance(key_added, str) or not key_added or "/" in key_added:
        raise ParameterError(
            f"`key_added` must be a non-empty name without '/', got {key_added!r}."
        )
    check_bool("copy", copy)
    if data.isbacked and data.is_view:
        raise InputError("`adata` is a read-only view of a file. Call `to_memory()` first.")
    if not copy:
        return data
    if data.isbacked:
        raise ParameterError(
            "`copy=True` is not possible for data in a file. Set `copy=False`, which leaves the "
            "file unchanged, or call `to_memory()` first."
        )
    return data.copy()


# --- estimators


def fit_gsppca(table: Annotated, options: Options, report: Report) -> GSPPCA:
    """Fit GSPPCA to one modality."""
    options = dict(options)
    size = options["n_features_to_select"] = options.pop("n_top_genes")
    usual = DEFAULT_N_COMPONENTS
    usual = min(usual, int(size)) if isinstance(size, Integral) else usual
    n_components = default_components(options["n_components"], usual, [table])
    model = GSPPCA(**{**options, "n_components": n_components})
    check_finite(table, "GSPPCA")
    warn_about_raw_counts(table, "GSPPCA", ", or use `tl.fdrpca`, which models counts")
    return model.fit(table.X)


def fit_fdrpca(table: Annotated, options: Options, report: Report) -> FDRPCA:
    """Fit FDRPCA to one modality."""
    options = dict(options)
    labels = labels_of_rows(table, options.pop("batch_key"))
    covariates = covariates_of_rows(table, options.pop("covariate_keys"))
    if options["n_components"] is None:
        options["n_components"] = "auto"
    options["max_features"] = options.pop("n_top_genes")
    check_finite(table, "FDRPCA")
    if options["rank_transform"] and options["counts"] is None:
        options["counts"] = False
    otherwise = "variables are scaled to unit variance"
    options["counts"] = detect_counts(table, options["counts"], report, otherwise)
    model = FDRPCA(**options)
    return model.fit(table.X, groups=labels, covariates=covariates)


def fit_panel(table: Annotated, options: Options, report: Report) -> Panel:
    """Fit a panel to one modality, with genes given by name."""
    options = dict(options)
    n_genes = options.pop("n_genes")
    batches = labels_of_rows(table, options.pop("batch_key"))
    labels = labels_of_rows(table, options.pop("labels_key"), "labels_key")
    handle_unknown = options.pop("handle_unknown")
    check_choice("handle_unknown", handle_unknown, get_args(HandleUnknown))
    for name in ("include", "exclude"):
        options[name] = columns_named(table, name, options[name], handle_unknown)
    for name in ("bundles", "conflicts"):
        lists = options[name]
        if lists is None:
            continue
        if not isinstance(lists, Iterable) or isinstance(lists, str):
            raise ParameterError(f"`{name}` must be a list of lists, got {lists!r}.")
        options[name] = [columns_named(table, name, names, handle_unknown) for names in lists]
    check_finite(table, "Panel")
    otherwise = "variables are scaled to unit variance"
    options["counts"] = detect_counts(table, options["counts"], report, otherwise)
    options["costs"] = _costs(table, options["costs"])
    _check_panel(table, n_genes, options["include"], options["exclude"])
    return Panel(n_genes, **options).fit(table.X, groups=batches, labels=labels)


def default_components(n_components: Any, usual: int, tables: list[Annotated]) -> Any:
    """Return the given number of components, or a feasible default."""
    if n_components is not None:
        return n_components
    n_varying = sum(int(varying_columns(table.X).sum()) for table in tables)
    return max(1, min(usual, tables[0].X.shape[0] - 1, n_varying - 1))


def check_finite(table: Annotated, method: str) -> None:
    """Raise an error that locates the first missing value."""
    container = container_of(table.X)
    readable = container.in_memory and container.on_cpu
    found = container.find_non_finite(table.X) if readable else None
    if found is not None:
        names = table.data.var_names[table.columns].astype(str).tolist()
        where = found.describe(names, table.data.obs_names[found.row])
        raise InputError(
            f"The data contain {where}. {method} needs finite values: drop these observations or "
            "variables, or fill missing values with the means of the variables."
        )


# --- panels


def _check_panel(table: Annotated, n_genes: Any, include: np.ndarray, exclude: np.ndarray) -> None:
    """Check the parameters of a panel; errors contain names of variables."""
    varying = varying_columns(table.X)
    for column in include.tolist():
        name = table.data.var_names[table.columns[column]]
        if not varying[column]:
            raise ParameterError(
                f"`include` names {name!r}, which is constant. Remove it from `include`."
            )
        if column in exclude:
            raise ParameterError(
                f"`include` and `exclude` both name {name!r}. Remove it from one of them."
            )
    if n_genes is None:
        return
    check_integer("n_genes", n_genes, 1, " or None")
    varying[exclude] = False
    if n_genes > varying.sum():
        raise ParameterError(
            f"`n_genes` must be at most {varying.sum()}, the number of varying variables that are "
            f"not excluded, got {n_genes}."
        )
    if include.size > n_genes:
        raise ParameterError(
            f"`include` must have at most `n_genes` = {n_genes} names, got {include.size}."
        )


def _costs(table: Annotated, given: Any) -> np.ndarray | None:
    """Return the costs of the considered variables."""
    if given is None:
        return None
    if isinstance(given, str):
        given = column_of(table.data, "costs", given).to_numpy()
    costs = np.asarray(given)
    if costs.shape != (table.data.n_vars,):
        raise ParameterError(
            f"`costs` must have one number for each of the {table.data.n_vars} variables, got "
            f"shape {costs.shape}."
        )
    return costs[table.columns]


def write_panel(table: Annotated, model: Panel, key: str) -> list[str]:
    """Store the order of selection, proxies, markers, and R² by batch."""
    from pandas import DataFrame

    data, order = table.data, to_numpy(model.order_)
    rank = np.full(table.columns.size, np.nan)
    rank[order] = np.arange(1, order.size + 1)
    data.var[f"{key}_rank"] = table.with_nan(rank)
    proxy = np.full(data.n_vars, "", dtype=object)
    index = to_numpy(model.proxy_)
    names = data.var_names[table.columns].astype(str).to_numpy(dtype=object)
    proxy[table.columns] = np.where(index >= 0, names[index], "")
    data.var[f"{key}_proxy"] = proxy
    added = [f"'{key}_rank' (.var)", f"'{key}_proxy' (.var)"]
    if model.markers_per_label:
        marker_of = np.full(data.n_vars, "", dtype=object)
        marker_of[table.columns] = model.marker_of_.astype(object)
        data.var[f"{key}_marker_of"] = marker_of
        added.append(f"'{key}_marker_of' (.var)")
    by_batch = model.heldout_r2_by_group_
    if by_batch:
        # Stored as a data frame, because a slash in a key is a group in H5AD files.
        data.uns[key]["heldout_r2_by_batch"] = DataFrame(
            {"heldout_r2": list(by_batch.values())}, index=list(by_batch)
        )
    return added


# --- parameters


def stored_parameters(table: Annotated, model: Any, options: Options) -> dict[str, Any]:
    """Return the parameters that are not None, in types supported by H5AD."""
    arguments = {name: value for name, value in options.items() if value is not None}
    given = {**model.get_params(), **table.source, **arguments}
    if "n_genes" in options or "n_top_genes" in options:  # these names are stored instead
        given.pop("n_features_to_select", None)
        given.pop("max_features", None)
    stored = {name: storable(value) for name, value in given.items() if value is not None}
    return {name: value for name, value in stored.items() if value is not None}


def storable(value: Any) -> Any:
    """Convert a value to a type supported by H5AD; None for an empty list."""
    if isinstance(value, Mapping):
        return {str(k): storable(v) for k, v in value.items() if v is not None}
    if isinstance(value, bool | int | float | str | np.generic):
        return value
    try:
        array = np.asarray(value)
    except ValueError:  # groups have unequal sizes
        return repr(value)
    if array.size == 0:
        return None
    if array.dtype.kind in "biuf":
        return array
    return array.astype(object) if array.dtype.kind == "U" else repr(value)
