"""Application of a saved model to new rows.

Results are scores, predictions, reconstructions and drift. Columns are matched by name, and columns
that the model does not use may be absent.
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import chi2, norm
from sklearn.utils import get_tags

from ..checks import check_file
from ..data.arrays import to_numpy
from ..errors import TableError, plural
from ..findings import Findings, scores_of
from ..models._base import VariableSelector
from ..phrases import quote_name
from ..registry import method_of
from ..tables import ReadOptions, Table, prepare_table, read_table
from ..tables.base import list_names
from .analysis import ignore_missing_names, scale_columns

COVERAGE_WIDTH = float(norm.ppf(0.975))  # half width of a 95 % interval, in standard deviations
MIN_SHIFT = 0.5  # minimum shift to report, in standard deviations
MAX_PVALUE = 0.001  # maximum adjusted p-value of a shift
MAX_REPORTED = 5  # maximum number of shifted variables in a sentence


@dataclass
class Drift:
    """Means and standard deviations of new rows, relative to the training rows.

    Attributes
    ----------
    names : list of str
        Names of components or variables.
    shift : ndarray of shape (n_names,)
        Difference of the means, in standard deviations of the training rows.
    ratio : ndarray of shape (n_names,)
        Ratio of the standard deviations.
    pvalue : ndarray of shape (n_names,)
        P-value of the shift, adjusted for the number of names (Bonferroni).
    """

    names: list[str]
    shift: np.ndarray
    ratio: np.ndarray
    pvalue: np.ndarray

    @property
    def shifted(self) -> np.ndarray:
        """Indices of the large and significant shifts, largest first."""
        large = (np.abs(self.shift) >= MIN_SHIFT) & (self.pvalue <= MAX_PVALUE)
        order = np.argsort(-np.abs(np.nan_to_num(self.shift)), kind="stable")
        return order[large[order]]


@dataclass
class Application:
    """Results of a model for new rows.

    Attributes
    ----------
    table : Table
        Table of the new rows with the columns of the model.
    scores : ndarray of shape (n_rows, n_components) or None
        Scores; NaN for rows with missing values that the model does not allow.
    columns : dict of str to ndarray
        Other columns of the results: predictions, intervals, distances.
    reconstructions : dict of str to ndarray
        Predictions of the variables outside a panel, with limits.
    drift : list of Drift
        Drift of the components and of the selected variables.
    notes, warnings : list of str
        Observations about the table and about drift.
    """

    table: Table
    scores: np.ndarray | None = None
    columns: dict[str, np.ndarray] = field(default_factory=dict)
    reconstructions: dict[str, np.ndarray] = field(default_factory=dict)
    drift: list[Drift] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def read_matching_table(
    path: Path, options: ReadOptions, found: Findings, preparation: dict[str, Any]
) -> tuple[Table, list[str]]:
    """Read the columns of a model from a file; also return ignored columns.

    Labels and the response may be absent.
    """
    unused: tuple[str, ...] = ()
    names = {*found.names} if found.named else None
    options = options._replace(variables=tuple(found.names) if found.named else ())
    if not options.transpose and names is not None:
        header = [*check_file(path, options).roles]
        present = {*header}
        labels = tuple(name for name in options.label_names if name in present)
        used = {*names, *labels, options.row_names}
        for value in options.covariates:
            used |= {part.strip().removeprefix("C(").removesuffix(")") for part in value.split(",")}
        row_names = options.row_names if options.row_names in present else None
        first = header[0] if header and row_names is None else None
        unused = tuple(name for name in header if name not in used and name != first)
        options = options._replace(
            label=labels, ignore=unused, row_names=row_names, groups=None, response=None
        )
    table = read_table(path, options)
    table = prepare_table(table, log1p=bool(preparation.get("log1p")), missing="allow")
    return table, [*unused]


def align_columns(
    table: Table, model: VariableSelector, found: Findings, others: Sequence[str] = ()
) -> Table:
    """Select the columns of a model; fill absent unused columns with means.

    ``others`` are names of ignored columns, which an error message may suggest.

    Raises
    ------
    TableError
        If a column required by the model is absent.
    """
    if not found.named:
        if len(table.names) != len(found.names):
            raise TableError(
                f"{table.path}: the table has {plural(len(table.names), 'variable')}, but the "
                f"model has {len(found.names)}."
            )
        return table
    position = {name: k for k, name in enumerate(table.names)}
    absent = [k for k, name in enumerate(found.names) if name not in position]
    needed = [k for k in absent if _uses(model, found)[k]]
    if needed:
        _refuse_absent(table, [found.names[k] for k in needed], others)
    X = table.X
    if absent and model.get_params(deep=False).get("counts", False):
        raise TableError(
            f"{table.path}: {list_names([found.names[k] for k in absent], 3)} are missing. A model "
            "of counts needs all variables, because it divides by the totals of the rows."
        )
    present = [k for k in range(len(found.names)) if found.names[k] in position]
    source = [position[found.names[k]] for k in present]
    if not absent:
        return table._replace(X=X[:, source], names=list(found.names))
    dense = X[:, source].toarray() if hasattr(X, "toarray") else np.asarray(X)[:, source]
    filled = np.tile(to_numpy(model.mean_).astype(float), (dense.shape[0], 1))
    filled[:, present] = dense
    unselected = (
        "variable that the model does not use is"
        if len(absent) == 1
        else ("variables that the model does not use are")
    )
    return table._replace(X=filled, names=list(found.names)).with_notes(
        f"{len(absent):,} {unselected} absent"
    )


def _uses(model: VariableSelector, found: Findings) -> np.ndarray:
    """Mask the variables that affect the results."""
    coefficients = vars(model).get("coef_")
    if found.regression and coefficients is not None:
        return np.any(np.atleast_2d(to_numpy(coefficients)) != 0.0, axis=0) & found.support
    return found.support


def _refuse_absent(table: Table, names: Sequence[str], others: Sequence[str]) -> None:
    by_lower = {name.lower(): name for name in others}
    matches = difflib.get_close_matches(names[0].lower(), list(by_lower), n=1, cutoff=0.6)
    close = [by_lower[match] for match in matches]
    hint = f" Is {quote_name(names[0])} the column {quote_name(close[0])}?" if close else ""
    verb = "is" if len(names) == 1 else "are"
    raise TableError(
        f"{table.path}: {plural(len(names), 'variable')} of the model {verb} missing: "
        f"{list_names(names, 5)}.{hint}"
    )


def apply_model(
    model: VariableSelector,
    found: Findings,
    path: Path,
    options: ReadOptions,
    preparation: dict[str, Any],
    column_scales: Sequence[float] | None = None,
    n_training: int | None = None,
) -> Application:
    """Apply a fitted model to the rows of a file.

    Parameters
    ----------
    model : fitted estimator
        Estimator of any method.
    found : Findings
        Results of the model.
    path : Path
        File with the new rows.
    options : ReadOptions
        Options for reading the file, usually those of the training table.
    preparation : dict
        Arguments of `prepare_table` for the training table.
    column_scales : sequence of float or None, default=None
        Scales by which the columns of the training table were divided.
    n_training : int or None, default=None
        Number of training rows, if known.

    Returns
    -------
    Application
    """
    table, others = read_matching_table(path, options, found, preparation)
    table = align_columns(table, model, found, others)
    result = Application(table, notes=[*table.notes])
    used = _uses(model, found)
    missing = _missing_in(table.X, np.flatnonzero(used))
    complete = np.asarray(~missing.any(axis=1))
    if not get_tags(model).input_tags.allow_nan and not complete.all():
        result.notes.append(
            f"{plural(int(np.sum(~complete)), 'row')} with missing values "
            f"{'has' if np.sum(~complete) == 1 else 'have'} no results, because {found.method} "
            "does not support missing values"
        )
    else:
        complete[:] = True
    if not complete.any():
        raise TableError(
            f"{path}: all rows have missing values, which {found.method} does not support."
        )
    table = scale_columns(table._replace(X=_fill_unused(table.X, used, model)), column_scales)
    X = table.X if complete.all() else table.X[complete]
    with ignore_missing_names():
        _compute(result, model, found, table, X, complete)
    result.table = table
    _describe_drift(result, model, found, X, n_training)
    return result


def _missing_in(X: Any, columns: np.ndarray) -> np.ndarray:
    if hasattr(X, "toarray"):
        return np.zeros((X.shape[0], 1), dtype=bool)  # sparse tables are complete
    return np.asarray(np.isnan(np.asarray(X)[:, columns]))


def _fill_unused(X: Any, used: np.ndarray, model: VariableSelector) -> Any:
    """Replace missing values of unused columns by training means."""
    if hasattr(X, "toarray") or not np.isnan(X[:, ~used]).any():
        return X
    X = np.array(X, dtype=float)
    mean = to_numpy(model.mean_).astype(float)
    X[:, ~used] = np.where(np.isnan(X[:, ~used]), mean[~used], X[:, ~used])
    return X


def _expand(values: Any, complete: np.ndarray) -> np.ndarray:
    """Expand values of complete rows to all rows, with NaN elsewhere."""
    values = to_numpy(values)
    if complete.all():
        return values
    dtype = float if values.dtype.kind in "fiub" else object
    full = np.full((complete.size, *values.shape[1:]), np.nan, dtype=dtype)
    full[complete] = values
    return full


def _compute(
    result: Application,
    model: Any,
    found: Findings,
    table: Table,
    X: Any,
    complete: np.ndarray,
) -> None:
    method = method_of(model)
    if method.classifies:
        result.columns["predicted"] = _expand(model.predict(X), complete)
        name = f"probability_{model.classes_[1]}"
        result.columns[name] = _expand(model.predict_proba(X)[:, 1], complete)
        return
    if found.regression:
        predicted, std = model.predict(X, return_std=True)
        half = COVERAGE_WIDTH * np.asarray(std)
        for name, values in (
            ("predicted", predicted),
            ("lower", predicted - half),
            ("upper", predicted + half),
        ):
            result.columns[name] = _expand(values, complete)
        return
    covariates = table.covariates
    if covariates is not None and not complete.all():
        covariates = {name: np.asarray(v)[complete] for name, v in covariates.items()}
    result.scores = _expand(scores_of(model, X, covariates), complete)
    variance = to_numpy(model.explained_variance_).astype(float)
    if variance.size:
        squares = np.sum(result.scores**2 / np.where(variance > 0, variance, np.inf), axis=1)
        result.columns["distance"] = np.sqrt(squares)
        far = squares > chi2.ppf(1.0 - MAX_PVALUE / max(1, len(squares)), variance.size)
        if far.any():
            rows = [_row_name(table, k) for k in np.flatnonzero(far)[:MAX_REPORTED]]
            result.warnings.append(
                f"{plural(int(far.sum()), 'row')} {'is' if far.sum() == 1 else 'are'} far from all "
                f"training rows: {', '.join(map(quote_name, rows))}{' …' if far.sum() > 5 else ''}."
            )
    if found.reconstruction is not None:
        predicted, lower, upper = model.predict_unmeasured(X, return_interval=True)
        names = [found.names[k] for k in np.flatnonzero(~found.support)]
        for k, name in enumerate(names):
            for ending, values in (("", predicted), (" (lower)", lower), (" (upper)", upper)):
                result.reconstructions[f"{name}{ending}"] = _expand(values[:, k], complete)


def _row_name(table: Table, row: int) -> str:
    return str(row + 1) if table.ids is None else str(table.ids[row])


# --- drift


def _describe_drift(
    result: Application,
    model: Any,
    found: Findings,
    X: Any,
    n_training: int | None,
) -> None:
    """Compare new rows with the training rows, and describe drift."""
    if result.scores is not None and result.scores.shape[1]:
        std = np.sqrt(to_numpy(model.explained_variance_).astype(float))
        names = [f"component {k + 1}" for k in range(std.size)]
        result.drift.append(
            compare_means(names, result.scores, np.zeros(std.size), std, n_training)
        )
    scale = to_numpy(model.scale_).astype(float)
    if found.selected.size and method_of(model).standardizes and not _is_count_model(model):
        columns = found.selected
        values = X[:, columns].toarray() if hasattr(X, "toarray") else np.asarray(X)[:, columns]
        mean = to_numpy(model.mean_).astype(float)[columns]
        names = [found.names[k] for k in columns]
        result.drift.append(compare_means(names, values, mean, scale[columns], n_training))
    for drift, noun in zip(result.drift, ("component", "selected variable"), strict=False):
        shifted = drift.shifted
        if shifted.size:
            listed = ", ".join(
                f"{quote_name(drift.names[k]) if noun != 'component' else drift.names[k]} "
                f"({drift.shift[k]:+.1f} standard deviations)"
                for k in shifted[:MAX_REPORTED]
            )
            verb = "differs" if shifted.size == 1 else "differ"
            result.warnings.append(
                f"{plural(int(shifted.size), noun)} of {len(drift.names):,} {verb} in mean "
                f"from the training rows: {listed}. The new rows may come from another population "
                "or instrument."
            )


def _is_count_model(model: Any) -> bool:
    return bool(model.get_params(deep=False).get("counts", False))


def compare_means(
    names: list[str],
    values: np.ndarray,
    mean: np.ndarray,
    std: np.ndarray,
    n_training: int | None = None,
) -> Drift:
    """Compare new rows with means and standard deviations of training rows."""
    std = np.where(std > 0.0, std, np.nan)
    Z = (np.asarray(values, dtype=float) - mean) / std
    count = np.sum(~np.isnan(Z), axis=0)
    enough = count >= 2
    shift, ratio = np.full(len(names), np.nan), np.full(len(names), np.nan)
    shift[enough] = np.nanmean(Z[:, enough], axis=0)
    ratio[enough] = np.nanstd(Z[:, enough], axis=0, ddof=1)
    variance = ratio**2 / np.maximum(count, 1) + (1.0 / n_training if n_training else 0.0)
    error = np.sqrt(np.maximum(variance, 1.0 / np.maximum(count, 1)))
    pvalue = np.minimum(1.0, 2.0 * norm.sf(np.abs(shift) / error) * len(names))
    return Drift(names, shift, ratio, np.where(np.isnan(pvalue), 1.0, pvalue))
