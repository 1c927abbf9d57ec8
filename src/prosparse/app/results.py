"""Writing of the folder of results: tables, model and report."""

from __future__ import annotations

import csv
import itertools
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, cast

import numpy as np
from scipy import sparse

from ..errors import ModelFileError, plural
from ..files import PARTIAL, flush, umask, write_text
from ..findings import Findings
from ..inference.progress import announce
from ..models._base import VariableSelector
from ..persistence import save
from ..registry import method_of
from ..report import render, write_plots
from ..report.robustness import Robustness
from ..tables.formulas import escape_formula, unescape_formula
from .analysis import Result, compare_classes_of, compute_scores, ignore_missing_names
from .application import COVERAGE_WIDTH, Application
from .class_comparison import ClassComparison
from .output_paths import IMPUTED, MODEL, REPORT, check_results_folder

SCORES = "scores.csv"


@contextmanager
def replace_folder(path: Path) -> Iterator[Path]:
    """Yield a temporary folder that replaces ``path`` after success.

    Links are followed. The permissions of earlier results and of their folder are preserved.
    """
    check_results_folder(path)
    try:
        with _replace_target(path, Path(os.path.realpath(path))) as partial:
            yield partial
    except OSError as error:  # the error must refer to ``path``, not to the temporary folder
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from error


@contextmanager
def _replace_target(path: Path, target: Path) -> Iterator[Path]:
    target.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=target.parent, prefix=PARTIAL))
    before = partial.with_name(f"{partial.name}.before")
    try:
        yield partial
        for file in partial.iterdir():
            earlier = target / file.name
            if earlier.is_file():
                file.chmod(stat.S_IMODE(earlier.stat().st_mode))
            flush(file)
        partial.chmod(stat.S_IMODE(target.stat().st_mode) if target.exists() else 0o777 & ~umask())
        if target.exists():  # renamed instead of removed, so that results exist at all times
            check_results_folder(path)
            target.rename(before)
        partial.rename(target)
    except BaseException:
        if before.exists() and not target.exists():
            before.rename(target)
        raise
    finally:
        for leftover in (partial, before):
            shutil.rmtree(leftover, ignore_errors=True)


def write_results(result: Result, folder: Path, plots: Sequence[str] = ()) -> None:
    """Write all files of `RESULTS`, or of `REGRESSION_RESULTS`, to a folder.

    ``plots`` are the formats of the plots.
    """
    table, model, about, found = result
    _write_selected(found, compare_classes_of(table, model), folder / "selected.csv")
    ids: Sequence[object] = table.ids or range(1, table.X.shape[0] + 1)
    scores = None
    if found.regression:
        _write_regression(result, ids, folder)
    else:
        scores = compute_scores(model, found, table)
        components = [f"component_{k + 1}" for k in range(found.loadings.shape[0])]
        loadings = ([found.names[k], *map(_format, found.loadings[:, k])] for k in found.selected)
        _write(folder / "loadings.csv", ["variable", *components], loadings)
        rows = ([name, *map(_format, row)] for name, row in zip(ids, scores, strict=True))
        header = ["row", *components]
        labels = [_rename_duplicate(name, header) for name in table.labels]
        cells = zip(*table.labels.values(), strict=True) if labels else itertools.repeat(())
        labelled = ([*row, *label] for row, label in zip(rows, cells, strict=False))
        _write(folder / SCORES, [*header, *labels], labelled)
        if hasattr(model, "impute") and not sparse.issparse(table.X):
            _write_imputed(result, ids, folder)
    save(model, folder / MODEL, about=about)
    page = render(found, scores=scores, ids=table.ids, label=table.label, about=about)
    write_text(folder / REPORT, page)
    if plots:
        plot_model(model, folder, plots, scores, table.ids, table.label, about)


def _write_imputed(result: Result, ids: Sequence[object], folder: Path) -> None:
    """Write the completed table, and imputed values with 95 % intervals.

    Values are in the units of the file.
    """
    table, model, about, _ = result
    missing = np.isnan(np.asarray(table.X))
    if not missing.any():
        return
    with ignore_missing_names():
        full, std = cast(Any, model).impute(table.X, return_std=True)
    scales = np.asarray(about.get("column_scales") or 1.0)
    transform = np.expm1 if about["preparation"]["log1p"] else np.asarray
    mean, lower, upper = (
        transform(scales * (full + width * std)) for width in (0.0, -COVERAGE_WIDTH, COVERAGE_WIDTH)
    )
    name = table.id_name or "row"
    labels = {_rename_duplicate(key, [name, *table.names]): v for key, v in table.labels.items()}
    header = [name, *labels, *table.names]
    rows = (
        [row, *(values[k] for values in labels.values()), *map(_format, mean[k])]
        for k, row in enumerate(ids)
    )
    _write(folder / IMPUTED[0], header, rows)
    cells = (
        [ids[k], table.names[j], *(_format(values[k, j]) for values in (mean, lower, upper))]
        for k, j in np.argwhere(missing)
    )
    _write(folder / IMPUTED[1], ["row", "variable", "value", "lower", "upper"], cells)


def plot_model(
    model: VariableSelector,
    folder: Path,
    formats: Sequence[str],
    scores: np.ndarray | None,
    ids: Sequence[Any] | None,
    label: Sequence[Any] | None,
    about: Mapping[str, Any],
) -> None:
    """Write all plots of a model, with tests of the labels."""
    robustness = Robustness.from_json(about.get("robustness"))
    announce("drawing the plots")
    write_plots(
        model,
        folder,
        formats=formats,
        scores=scores,
        ids=ids,
        label=label,
        label_name=about.get("label"),
        tests=() if robustness is None else robustness.associations,
        view_names=about.get("views") or None,
    )


def write_application(
    applied: Application,
    fitted: VariableSelector,
    found: Findings,
    folder: Path,
    model: Path,
    about: dict[str, Any],
    plots: Sequence[str] = (),
) -> None:
    """Write the results of a model for new rows, and a copy of the model."""
    table = applied.table
    ids: Sequence[object] = table.ids or range(1, table.X.shape[0] + 1)
    columns = dict(applied.columns)
    if applied.scores is not None:
        names = [f"component_{k + 1}" for k in range(applied.scores.shape[1])]
        columns = dict(zip(names, applied.scores.T, strict=True)) | columns
    name = "predictions.csv" if found.regression else SCORES
    _write_columns(folder / name, ids, columns)
    if applied.reconstructions:
        _write_columns(folder / "reconstructions.csv", ids, applied.reconstructions)
    rows = (
        [drift.names[k], *map(_format, (drift.shift[k], drift.ratio[k], drift.pvalue[k]))]
        for drift in applied.drift
        for k in range(len(drift.names))
    )
    _write(folder / "drift.csv", ["name", "shift", "std_ratio", "adjusted_pvalue"], rows)
    shutil.copyfile(model, folder / MODEL)
    scores = applied.scores
    if scores is not None:
        scores = scores[np.isfinite(scores).all(axis=1)]
        complete = np.isfinite(applied.scores).all(axis=1) if applied.scores is not None else ()
        ids = [name for name, known in zip(ids, complete, strict=True) if known]
    label = table.label if scores is not None and len(scores) == table.X.shape[0] else None
    write_text(folder / REPORT, render(found, scores=scores, ids=ids, label=label, about=about))
    if plots:
        plot_model(fitted, folder, plots, scores, ids, label, about)


def _write_columns(path: Path, ids: Sequence[object], columns: dict[str, np.ndarray]) -> None:
    header = ["row", *columns]
    cells = (
        [name, *(_cell(column[k]) for column in columns.values())] for k, name in enumerate(ids)
    )
    _write(path, header, cells)


def _cell(value: Any) -> str:
    if isinstance(value, float | np.floating):
        return "" if np.isnan(value) else _format(float(value))
    return str(value)


def _rename_duplicate(name: str, header: list[str]) -> str:
    """Return a name that is not in the header."""
    while name in header:
        name = f"{name} (label)"
    return name


def _write_selected(found: Findings, comparison: ClassComparison | None, path: Path) -> None:
    statistics = {"relevance": found.relevance}
    if comparison is not None:
        statistics |= {
            "mean_difference": comparison.difference,
            "ttest_pvalue": comparison.pvalues,
            "ttest_qvalue": comparison.qvalues,
        }
    if found.tests is not None:
        tests = found.tests
        statistics = {
            "communality": tests.communality, "pvalue": tests.pvalues, "qvalue": tests.qvalues
        }  # fmt: skip
    if found.covariates is not None:
        statistics["covariate_r2"] = found.covariates.r2
    variables = (
        [
            found.names[k],
            *(_format(values[k]) for values in statistics.values()),
            found.ranking[k],
            "yes" if found.support[k] else "no",
        ]
        for k in found.order
    )
    _write(path, ["variable", *statistics, "rank", "selected"], variables)


def intercept_of(model: VariableSelector) -> float:
    """Return the intercept of a regression, or of a classifier with one response."""
    return float(np.ravel(model.selected_intercept_)[0])


def _write_regression(result: Result, ids: Sequence[object], folder: Path) -> None:
    table, model, _, found = result
    coefficients = [[found.names[k], _format(found.loadings[0, k])] for k in found.selected]
    intercept = ["(intercept)", _format(intercept_of(model))]
    _write(folder / "coefficients.csv", ["variable", "coefficient"], [intercept, *coefficients])
    header = ["row", "response", "predicted"]
    columns: list[Iterable[object]] = [ids, table.response or ()]
    with ignore_missing_names():
        predicted = np.asarray(model.predict(table.X)).tolist()
        if method_of(model).classifies:
            header.append(f"probability_{model.classes_[1]}")
            columns += [predicted, map(_format, model.predict_proba(table.X)[:, 1].tolist())]
        else:
            columns.append(map(_format, predicted))
    _write(folder / "predictions.csv", header, map(list, zip(*columns, strict=True)))


def read_scores(
    folder: Path, found: Findings
) -> tuple[np.ndarray | None, list[str] | None, list[str] | None]:
    """Read scores, names and labels of the rows from a folder of results."""
    path = folder / SCORES
    if found.regression or not path.is_file():
        return None, None, None
    count = found.loadings.shape[0]
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    width = max(len(header), count + 1)
    if any(len(row) != width for row in rows):
        raise ModelFileError(
            f"{path}: each row must have {plural(count, 'component')}, as in the model."
        )
    try:
        scores = np.array([row[1 : count + 1] for row in rows], dtype=float)
    except ValueError as error:
        raise ModelFileError(f"{path}: a score is not a number.") from error
    ids = [unescape_formula(row[0]) for row in rows]
    labels = [unescape_formula(row[count + 1]) for row in rows] if width > count + 1 else None
    return scores.reshape(len(rows), count), ids, labels


def _format(value: float) -> str:
    return f"{value:.10g}"


def _write(path: Path, header: list[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in (header, *rows):
            # Spreadsheet programs must not execute names as formulas.
            writer.writerow(
                [escape_formula(cell) if isinstance(cell, str) else cell for cell in row]
            )
