"""The folder of results: tables, model and report, all of them or none."""

from __future__ import annotations

import csv
import os
import shutil
import stat
import tempfile
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np

from ..errors import ModelFileError
from ..files import PARTIAL, flush, umask, write_text
from ..findings import Findings
from ..models._base import VariableSelector
from ..persistence import save
from ..registry import method_of
from ..report import render
from ..tables.formulas import escaped, unescaped
from .analysis import Result, scores_of_table, without_names
from .output_paths import MODEL, REPORT, RESULTS, check_folder

__all__ = ["RESULTS", "scores_in", "whole_folder", "write_results"]
SCORES = "scores.csv"


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which appears as ``path`` when all is written, and else not at all.

    A link is followed, and the permissions of earlier results and of their folder stay.
    """
    check_folder(path)
    try:
        with _swapped(path, Path(os.path.realpath(path))) as partial:
            yield partial
    except OSError as error:  # about the folder that was asked for, not the one beside it
        raise type(error)(error.errno, error.strerror or str(error), str(path)) from error


@contextmanager
def _swapped(path: Path, place: Path) -> Iterator[Path]:
    place.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=place.parent, prefix=PARTIAL))
    before = partial.with_name(f"{partial.name}.before")
    try:
        yield partial
        for one in partial.iterdir():
            earlier = place / one.name
            if earlier.is_file():
                one.chmod(stat.S_IMODE(earlier.stat().st_mode))
            flush(one)
        partial.chmod(stat.S_IMODE(place.stat().st_mode) if place.exists() else 0o777 & ~umask())
        if place.exists():  # moved aside, not removed: there is no moment without results
            check_folder(path)
            place.rename(before)
        partial.rename(place)
    except BaseException:
        if before.exists() and not place.exists():
            before.rename(place)
        raise
    finally:
        for leftover in (partial, before):
            shutil.rmtree(leftover, ignore_errors=True)


def write_results(result: Result, folder: Path) -> None:
    """All files of `RESULTS`, or, for a regression, of `OF_REGRESSIONS`."""
    table, model, about, found = result
    _write_selected(found, folder / "selected.csv")
    ids: Sequence[object] = table.ids or range(1, table.X.shape[0] + 1)
    scores = None
    if found.regression:
        _write_regression(result, ids, folder)
    else:
        scores = scores_of_table(model, found, table)
        components = [f"component_{k + 1}" for k in range(found.loadings.shape[0])]
        loadings = ([found.names[k], *map(_digits, found.loadings[:, k])] for k in found.selected)
        _write(folder / "loadings.csv", ["variable", *components], loadings)
        rows = ([name, *map(_digits, row)] for name, row in zip(ids, scores, strict=True))
        header = ["row", *components]
        if table.label is None:
            _write(folder / SCORES, header, rows)
        else:
            labelled = ([*row, label] for row, label in zip(rows, table.label, strict=True))
            _write(folder / SCORES, [*header, _not_among(header, about["label"])], labelled)
    save(model, folder / MODEL, about=about)
    page = render(found, scores=scores, ids=table.ids, label=table.label, about=about)
    write_text(folder / REPORT, page)


def _not_among(header: list[str], name: str) -> str:
    """The name of a column that is not one of the others."""
    while name in header:
        name = f"{name} (label)"
    return name


def _write_selected(found: Findings, path: Path) -> None:
    measured = {"relevance": found.relevance}
    if found.tests is not None:
        tests = found.tests
        measured = {
            "communality": tests.communality, "pvalue": tests.pvalues, "qvalue": tests.qvalues
        }  # fmt: skip
    variables = (
        [
            found.names[k],
            *(_digits(values[k]) for values in measured.values()),
            found.ranking[k],
            _yes_no(found.support[k]),
        ]
        for k in found.order
    )
    _write(path, ["variable", *measured, "rank", "chosen"], variables)


def intercept_of(model: VariableSelector) -> float:
    """Of a regression, or of a classifier, which has an array of one."""
    return float(np.ravel(model.selected_intercept_)[0])


def _write_regression(result: Result, ids: Sequence[object], folder: Path) -> None:
    table, model, _, found = result
    chosen = [[found.names[k], _digits(found.loadings[0, k])] for k in found.selected]
    intercept = ["(intercept)", _digits(intercept_of(model))]
    _write(folder / "coefficients.csv", ["variable", "coefficient"], [intercept, *chosen])
    header = ["row", "response", "predicted"]
    columns: list[Iterable[object]] = [ids, table.response or ()]
    with without_names():
        predicted = np.asarray(model.predict(table.X)).tolist()
        if method_of(model).classifies:
            header.append(f"probability of {model.classes_[1]}")
            columns += [predicted, map(_digits, model.predict_proba(table.X)[:, 1].tolist())]
        else:
            columns.append(map(_digits, predicted))
    _write(folder / "predictions.csv", header, map(list, zip(*columns, strict=True)))


def scores_in(
    folder: Path, found: Findings
) -> tuple[np.ndarray | None, list[str] | None, list[str] | None]:
    """Scores, names and labels of the rows, as `write_results` left them in a folder."""
    path = folder / SCORES
    if found.regression or not path.is_file():
        return None, None, None
    count = found.loadings.shape[0]
    with path.open(newline="", encoding="utf-8") as file:
        header, *rows = list(csv.reader(file))
    width = count + 1 + (len(header) > count + 1)
    if any(len(row) != width for row in rows):
        raise ModelFileError(f"{path}: its rows do not have the {count} components of the model")
    try:
        scores = np.array([row[1 : count + 1] for row in rows], dtype=float)
    except ValueError as error:
        raise ModelFileError(f"{path}: a score is not a number") from error
    ids = [unescaped(row[0]) for row in rows]
    labels = [unescaped(row[-1]) for row in rows] if width > count + 1 else None
    return scores.reshape(len(rows), count), ids, labels


def _yes_no(value: bool) -> str:
    return "yes" if value else "no"


def _digits(value: float) -> str:
    return f"{value:.10g}"


def _write(path: Path, header: list[str], rows: Iterable[Sequence[object]]) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        for row in (header, *rows):
            # a name that is a formula to a spreadsheet program must not be run by it
            writer.writerow([escaped(one) if isinstance(one, str) else one for one in row])
