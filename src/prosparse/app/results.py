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

from ..files import PARTIAL, flush, umask, write_text
from ..persistence import save
from ..report import render
from ..tables.formulas import escaped
from .analysis import Result, scores_of_table
from .places import MODEL, REPORT, RESULTS, check_folder

__all__ = ["RESULTS", "whole_folder", "write_results"]


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
    """All files of `RESULTS`."""
    table, model, about, found = result
    scores = scores_of_table(model, found, table)
    components = [f"component_{k + 1}" for k in range(found.loadings.shape[0])]
    measured = {"relevance": found.relevance}
    if found.shared is not None:
        tests = found.shared
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
    _write(folder / "selected.csv", ["variable", *measured, "rank", "chosen"], variables)
    loadings = ([found.names[k], *map(_digits, found.loadings[:, k])] for k in found.chosen)
    _write(folder / "loadings.csv", ["variable", *components], loadings)
    ids: Sequence[object] = table.ids or range(1, scores.shape[0] + 1)
    rows = ([name, *map(_digits, row)] for name, row in zip(ids, scores, strict=True))
    if table.label is None:
        _write(folder / "scores.csv", ["row", *components], rows)
    else:
        labelled = ([*row, label] for row, label in zip(rows, table.label, strict=True))
        _write(folder / "scores.csv", ["row", *components, about["label"]], labelled)
    save(model, folder / MODEL, about=about)
    page = render(found, scores=scores, ids=table.ids, label=table.label, about=about)
    write_text(folder / REPORT, page)


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
