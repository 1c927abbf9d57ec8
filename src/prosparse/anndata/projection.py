"""Projection of new observations, such as query cells, on a fitted model."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from ..data import container_of, take_columns
from ..data.arrays import to_numpy
from ..errors import InputError, ParameterError
from ..models.panel import Panel
from ..models.sca import SCA
from ..persistence import load
from ..registry import method_of
from .annotated import Annotated, covariates_of_rows, is_mudata, tables_of, tables_of_views
from .counts import require_counts
from .factors import scaled_scores
from .fitting import check_target
from .log_messages import Report
from .stored_models import ENTRY, check_names, entry_of, unpack
from .variables import list_names

if TYPE_CHECKING:
    from anndata import AnnData
    from mudata import MuData

    from ..models._base import VariableSelector


def project(
    adata: AnnData | MuData,
    model: VariableSelector | AnnData | MuData | str | os.PathLike[str],
    *,
    key: str | None = None,
    layer: str | None = None,
    modality: str | None = None,
    key_added: str | None = None,
    copy: bool = False,
) -> AnnData | MuData | None:
    """Compute the scores of new observations on a fitted model.

    Query cells and reference cells then have common coordinates, for example for label transfer.
    Variables are matched by name.

    Parameters
    ----------
    adata : AnnData or MuData
        Query observations, in the units of the fit. All variables of the model must be present; for
        a panel, only its members.
    model : AnnData, MuData, estimator, or path
        Reference: data with the results of a function of this package, an estimator fitted to a
        data frame, or the path of a model file.
    key : str or None, default=None
        Name under which the results are stored in the reference. Required if several results
        are stored.
    layer : str or None, default=None
        Layer to use. By default, the layer of the fit.
    modality : str or None, default=None
        Modality, for a model fitted to one modality of a MuData.
    key_added : str or None, default=None
        Name under which the scores are stored. By default, the name in the reference, or the name
        of the estimator in lower case.
    copy : bool, default=False
        Whether to return a copy with the results instead of modifying ``adata``.

    Returns
    -------
    AnnData, MuData or None
        The copy, if requested. The result is ``.obsm["X_" + key_added]``.

    Notes
    -----
    Covariates of the fit are read from the columns of ``.obs`` with the same names. For `SCA`
    fitted with batches, scores are computed for an unknown batch.

    Examples
    --------
    >>> import anndata, prosparse.anndata as psa
    >>> from prosparse.datasets import make_cell_counts
    >>> cells = anndata.AnnData(make_cell_counts(300, 200, n_types=4, random_state=0).X)
    >>> reference, query = cells[:200].copy(), cells[200:].copy()
    >>> psa.tl.fdrpca(reference)
    >>> psa.tl.project(query, reference)
    >>> query.obsm["X_fdrpca"].shape[1] == reference.obsm["X_fdrpca"].shape[1]
    True
    """
    report = Report("project")
    parameters: dict[str, Any] = {}
    if isinstance(model, str | os.PathLike):
        estimator = load(model)
    elif hasattr(model, "uns"):
        key, entry = entry_of(model, key, modality)
        estimator, parameters = unpack(entry[ENTRY]), dict(entry["params"])
        parameters["views"] = entry.get("views")
    else:
        estimator = model
        method_of(estimator)
        check_is_fitted(estimator)
    key_added = key_added or key or type(estimator).__name__.lower()
    target = check_target(adata, key_added, copy)
    names = getattr(estimator, "feature_names_in_", None)
    if names is None:
        raise ParameterError(
            "`model` has no variable names. Fit the estimator to a data frame, such as "
            "`adata.to_df()`, or pass the AnnData with the results of `psa.tl`."
        )
    layer = parameters.get("layer") if layer is None else layer
    is_joint = is_mudata(target) and isinstance(estimator, SCA) and modality is None
    modalities: Any = modality
    if is_joint and parameters.get("views") is not None:
        modalities = [str(name) for name in parameters["views"]]
    tables = tables_of(target, layer, None, modalities)
    if is_joint:
        scores = _joint_scores(estimator, names, target, tables)
        slots = target.obsm
    elif len(tables) > 1:
        raise ParameterError(
            "`modality` must name the modality of the model, because the data have several: "
            + ", ".join(repr(table.source["modality"]) for table in tables)
            + "."
        )
    else:
        scores = _scores(estimator, names, tables[0])
        slots = tables[0].data.obsm
    slots[f"X_{key_added}"] = scores
    report.finish(
        f"projected {scores.shape[0]:,} observations on {scores.shape[1]} components",
        [f"'X_{key_added}' (.obsm)"],
    )
    return target if copy else None


def _scores(estimator: Any, names: np.ndarray, table: Annotated) -> np.ndarray:
    """Compute the scores of an AnnData."""
    if getattr(estimator, "counts", False):
        require_counts(table)
    if isinstance(estimator, Panel) and not np.isin(names, table.data.var_names).all():
        return _panel_scores(estimator, names, table)
    X, unnamed = _match_columns(table, names), _without_names(estimator)
    if isinstance(estimator, SCA):
        return scaled_scores(unnamed, unnamed.transform(X))
    covariates = covariates_of_rows(table, getattr(estimator, "covariate_names_", None))
    metadata = {} if covariates is None else {"covariates": covariates}
    return to_numpy(unnamed.transform(X, **metadata))


def _panel_scores(estimator: Panel, names: np.ndarray, table: Annotated) -> np.ndarray:
    """Compute the scores of an AnnData from the members of a panel."""
    from pandas import DataFrame

    panel = names[np.flatnonzero(to_numpy(estimator.support_))]
    members = container_of(table.X).to_dense(_match_columns(table, panel))
    return to_numpy(estimator.transform(DataFrame(members, columns=panel)))


def _joint_scores(
    estimator: SCA, names: np.ndarray, target: MuData, tables: list[Annotated]
) -> np.ndarray:
    """Compute the scores of a MuData, with one view per modality."""
    if len(tables) != len(estimator.view_columns_):
        raise ParameterError(
            f"`model` has {len(estimator.view_columns_)} views, but `adata` has {len(tables)} "
            "modalities. Pass a MuData with the modalities of the fit."
        )
    matched = [
        table._replace(
            X=_match_columns(table, names[columns]), columns=_positions(table, names[columns])
        )
        for table, columns in zip(tables, estimator.view_columns_, strict=True)
    ]
    unnamed = _without_names(estimator)
    return scaled_scores(unnamed, unnamed.transform(tables_of_views(target, matched)[0]))


def _positions(table: Annotated, names: Any) -> np.ndarray:
    """Return the positions of variables; raise an error that lists missing ones."""
    modality = table.source["modality"]
    where = "" if modality is None else f" of modality {modality!r}"
    check_names(table.data.var_names, where)
    positions = table.data.var_names.get_indexer(list(names))
    missing = [str(name) for name in np.asarray(names)[positions < 0]]
    if missing:
        raise InputError(
            f"`adata`{where} lacks {len(missing):,} of the {len(names):,} variables of the model: "
            f"{list_names(missing)}. Fit the model to the common variables."
        )
    return np.asarray(positions)


def _match_columns(table: Annotated, names: Any) -> Any:
    """Return the columns with the given names, in the given order."""
    positions = _positions(table, names)
    if np.array_equal(positions, np.arange(table.data.n_vars)):
        return table.X
    return take_columns(table.X, positions)


def _without_names(estimator: Any) -> Any:
    """Return a shallow copy without feature names, for matched columns."""
    from copy import copy

    unnamed = copy(estimator)
    del unnamed.feature_names_in_
    return unnamed
