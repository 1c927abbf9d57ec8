"""Analysis of a table: preparation, fit, diagnostics and description."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from sklearn.preprocessing import StandardScaler

from ..checks import check_table, correct_file
from ..errors import InputError, ParameterError, TableError, plural
from ..findings import Findings, findings_of, scores_of
from ..inference.progress import announce
from ..models._base import VariableSelector
from ..parallel import Stopwatch
from ..persistence import versions
from ..registry import method_of, offered
from ..report.robustness import examine_robustness
from ..tables import JoinedTables, ReadOptions, Table, join_tables, prepare_table, read_table
from ..tables.base import is_missing, name_row
from ..tables.preparation import iterate_blocks
from ..tables.roles import names_batch
from .class_comparison import ClassComparison, compare_classes, describe_comparison
from .cli_messages import name_positions, translate_parameters
from .diagnostics import MAX_FIT_SECONDS, run_diagnostics
from .estimators import (
    CLASSIFIER,
    AnalysisOptions,
    build_estimator,
    missing_strategy,
    set_variables,
    set_views,
)
from .metadata import describe_data, describe_file, describe_settings, store_read_options
from .script_export import export_script

Progress = Callable[[str, int], None]  # called with a stage and the number of rows read


class Result(NamedTuple):
    """Result of an analysis."""

    table: Table  # prepared table
    model: VariableSelector
    about: dict[str, Any]  # see `metadata`
    found: Findings


def run(
    path: str | os.PathLike[str],
    read_options: ReadOptions | None = None,
    options: AnalysisOptions | None = None,
    *,
    command: str = "",
    progress: Progress | None = None,
) -> Result:
    """Read, check and analyse a file.

    The command and the page of ``prosparse serve`` use this function.

    Parameters
    ----------
    path : str or path-like
        File of the table.
    read_options : ReadOptions or None, default=None
        Roles of the columns and format of the file.
    options : AnalysisOptions or None, default=None
        Method and its options.
    command : str, default=""
        Command line shown in the report.
    progress : callable or None, default=None
        Function called with each stage and, while the file is read, the number of rows.

    Returns
    -------
    Result

    Raises
    ------
    TableError
        If the file cannot be read or analysed. The message refers to options of the command.
    """
    read_options, options = read_options or ReadOptions(), options or AnalysisOptions()
    show = progress or announce
    show("reading", 0)
    reading = read_options._replace(progress=lambda n_rows: show("reading", n_rows))
    table = read_table(path, reading)
    further: list[tuple[Path, ReadOptions]] = []
    joined = JoinedTables(table, {})
    if options.tables:
        build_estimator(options)  # invalid options raise errors before the analysis
        tables = [table]
        for other in options.tables:
            checked = correct_file(other)
            further.append((other, checked.options))
            found = read_table(other, checked.options)
            tables.append(found.with_notes(f"read with {checked.fix}") if checked.fix else found)
        joined = join_tables(tables)
    return analyse(
        joined.table, read_options, options, command, show, views=joined.views, further=further
    )


def analyse(
    table: Table,
    read_options: ReadOptions,
    options: AnalysisOptions,
    command: str = "",
    progress: Progress = announce,
    *,
    views: Mapping[str, list[int]] | None = None,
    further: Sequence[tuple[Path, ReadOptions]] = (),
) -> Result:
    """Check and prepare a table, fit a model and describe the analysis.

    The values of the table may be replaced. Errors refer to options of the command line, and the
    report shows ``command``. ``progress`` is called with each stage. ``views`` contains the
    columns of each of several tables, and ``further`` the paths and options of all tables but the
    first.
    """
    sources = _Sources(read_options, views or {}, further)
    if table.response is not None and _is_binary(table.response):
        options = options._replace(method=CLASSIFIER)
    try:
        return _analyse(table, sources, options, command, progress)
    except TableError:
        raise
    except ValueError as error:
        message = translate_parameters(str(error), options.description)
        if isinstance(error, ParameterError):
            raise ParameterError(message) from error
        if not isinstance(error, InputError):
            estimator = options.description.estimator.__name__
            message = f"{estimator} cannot be fitted to this table ({message})."
        raise TableError(f"{table.path}: {message}") from error


class _Sources(NamedTuple):
    """How a table was read, and the columns of several joined tables."""

    read_options: ReadOptions
    views: Mapping[str, list[int]]
    further: Sequence[tuple[Path, ReadOptions]]


def _analyse(
    table: Table, sources: _Sources, options: AnalysisOptions, command: str, progress: Progress
) -> Result:
    read_options = sources.read_options
    start = time.perf_counter()
    model = build_estimator(options)  # invalid options raise errors before the analysis
    _check_row_variables(table, read_options, options)
    shape, names = table.X.shape, table.names
    progress("checking", 0)
    check = check_table(table, read_options, _settings(options))
    missing = missing_strategy(options, model)
    preparation = {"log1p": options.log1p, "missing": missing}
    table = prepare_table(table, log1p=options.log1p, missing=missing)
    set_variables(model, options, table.names)
    views = _locate_views(sources.views, names, table.names)
    set_views(model, views)
    scales = _column_scales(table, options)
    table = scale_columns(table, scales)
    total_variance = float(column_variances(table.X).sum())
    y = None if table.response is None else np.array(table.response)
    fit_arguments = {
        name: value
        for name, value in (("y", y), ("groups", table.groups), ("covariates", table.covariates))
        if value is not None
    }
    progress("fitting", 0)
    stopwatch = Stopwatch()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model.fit(table.X, **fit_arguments)
    model.feature_names_in_ = np.array(table.names, dtype=object)
    fit_seconds = stopwatch.seconds
    found = findings_of(model, total_variance)
    progress("testing on null datasets", 0)
    diagnostics = run_diagnostics(
        model,
        found,
        table.X,
        y=y,
        groups=table.groups,
        covariates=table.covariates,
        fit_seconds=fit_seconds,
        permutations=options.permutations,
        halves=options.stability,
    )
    with ignore_missing_names():
        robustness = examine_robustness(
            model,
            table.X,
            y=y,
            groups=table.groups,
            covariates=table.covariates,
            labels=_row_labels(table, read_options),
            batches=[name for name in table.labels if names_batch(name)],
            ids=table.ids,
            refit=options.permutations != 0 and fit_seconds <= MAX_FIT_SECONDS,
        )
    messages = [
        name_positions(
            translate_parameters(str(w.message), options.description), table.names, table.ids
        )
        for w in caught
    ]
    notes = [*table.notes, *diagnostics.notes]
    comparison = compare_classes_of(table, model)
    if comparison is not None:
        notes.append(describe_comparison(comparison, table.names, model.classes_.tolist()))
    paths = [table.path, *(path for path, _ in sources.further)]
    about = {
        "title": (
            f"Regression of {read_options.response}: {table.path.name}"
            if found.regression
            else f"Variable selection: {', '.join(path.name for path in paths)}"
        ),
        "data": describe_data(table, model, shape, read_options),
        "settings": describe_settings(options, model),
        "check": check.to_json(),
        "notes": notes,
        **diagnostics.about,
        "robustness": robustness.to_json(),
        "warnings": list(dict.fromkeys(messages)),
        "label": next(iter(table.labels), None),
        "total_variance": total_variance,
        "column_scales": scales,
        "command": command,
        "script": export_script(
            table.path,
            read_options,
            preparation,
            model,
            scaled=scales is not None,
            further=sources.further,
        ),
        "views": [*views],
        "n_imputed": int(np.isnan(table.X).sum()) if isinstance(table.X, np.ndarray) else 0,
        "file": describe_file(table.path),
        "versions": versions(),
        "read_options": store_read_options(read_options, table),
        "preparation": preparation,
        "seconds": round(time.perf_counter() - start, 2),
    }
    if y is not None:
        with ignore_missing_names():
            score = "accuracy" if method_of(model).classifies else "r2"
            about[score] = float(model.score(table.X, y))
    return Result(table, model, about, found)


def _locate_views(
    views: Mapping[str, list[int]], before: list[str], names: list[str]
) -> dict[str, list[int]]:
    """Locate the columns of several tables after columns were dropped."""
    position = {name: k for k, name in enumerate(names)}
    located = {
        view: [position[before[k]] for k in columns if before[k] in position]
        for view, columns in views.items()
    }
    for view, columns in located.items():
        if not columns:
            raise InputError(f"No column of the table {view!r} has enough observed values.")
    return located


def compare_classes_of(table: Table, model: VariableSelector) -> ClassComparison | None:
    """Compare the classes of a classifier, unless there are groups of rows."""
    if not method_of(model).classifies or table.groups is not None:
        return None
    return compare_classes(table.X, np.array(table.response))


def _row_labels(table: Table, read_options: ReadOptions) -> dict[str, Sequence[Any]]:
    """Return the labels, groups and covariates of the rows."""
    columns: dict[str, Sequence[Any]] = {**table.labels, **(table.covariates or {})}
    if table.groups is not None:
        columns[str(read_options.groups)] = table.groups
    return columns


def _settings(options: AnalysisOptions) -> list[str]:
    """Return the settings that checks do not need to recommend."""
    settings = ["counts"] if options.method_options.get("counts") else []
    return [*settings, "scale"] if options.scale or options.description.standardizes else settings


def _is_binary(response: Sequence[Any]) -> bool:
    return len({value for value in response if not is_missing(value)}) == 2


def _check_row_variables(table: Table, read_options: ReadOptions, options: AnalysisOptions) -> None:
    """Check that the method accepts the groups and covariates of the rows."""
    for given, flag, attribute in (
        (table.groups, "--groups", "accepts_groups"),
        (table.covariates, "--covariates", "accepts_covariates"),
    ):
        if given is not None and not getattr(options.description, attribute):
            names = " or ".join(m.name for m in offered().values() if getattr(m, attribute))
            raise ParameterError(
                f"{flag} has no effect with --method {options.method}; use {names}."
            )
    for row, group in enumerate(table.groups or ()):
        if is_missing(group):
            raise TableError(
                f"{table.path}, {name_row(table, row)}: the group {read_options.groups!r} is "
                "missing. Add the group, or remove the row."
            )


# --- columns


def _column_scales(table: Table, options: AnalysisOptions) -> list[float] | None:
    """Compute column scales if the estimator has no parameter ``scale``."""
    method = options.description
    if not options.scale or method.standardizes or method.has_parameter("scale"):
        return None
    return [float(scale) for scale in StandardScaler(with_mean=False).fit(table.X).scale_]


def scale_columns(table: Table, scales: Sequence[float] | None) -> Table:
    """Divide each column by its scale in place; None leaves the table unchanged."""
    if scales is None:
        return table
    if len(scales) != table.X.shape[1]:
        raise TableError(
            f"{table.path}: the table has {plural(table.X.shape[1], 'variable')}, but the model "
            f"has {len(scales)}."
        )
    scaler = StandardScaler(with_mean=False, copy=False)
    scaler.scale_, scaler.n_features_in_ = np.asarray(scales, dtype=float), len(scales)
    return table._replace(X=scaler.transform(table.X)).with_notes(
        "every column was divided by its standard deviation"
    )


def column_variances(X: Any) -> np.ndarray:
    """Compute the variances of the columns, ignoring missing values."""
    scaler = StandardScaler()
    with np.errstate(over="ignore", invalid="ignore"):  # overflow is reported as infinity
        for _, block in iterate_blocks(X):
            scaler.partial_fit(block)
    return np.where(np.isnan(scaler.var_), np.inf, scaler.var_)


# --- scores


def compute_scores(model: VariableSelector, found: Findings, table: Table) -> np.ndarray:
    """Compute the scores of a table with the variables of the model."""
    if not method_of(model).projects:
        raise InputError(f"{found.method} computes no scores; remove --data.")
    if not found.named and len(table.names) != len(found.names):  # fitted to an array
        raise TableError(
            f"{table.path}: the table has {plural(len(table.names), 'variable')}, but the model "
            f"has {len(found.names)}."
        )
    if found.named and found.names != table.names:
        missing = [name for name in found.names if name not in set(table.names)]
        problem = f"{missing[0]!r} is missing" if missing else "other variables, or another order"
        raise TableError(f"{table.path}: the table does not match the model: {problem}.")
    with ignore_missing_names():
        return np.asarray(scores_of(model, table.X, table.covariates))


@contextmanager
def ignore_missing_names() -> Iterator[None]:
    """Ignore scikit-learn's warning about arrays without names."""
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message="X does not have valid feature names")
        yield
