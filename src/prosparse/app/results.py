"""The folder of results: tables, model and report, all of them or none."""

from __future__ import annotations

import csv
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ..errors import ParameterError
from ..files import umask
from ..persistence import save
from ..report import render
from .analysis import Result, scores_of

MODEL, REPORT = "model.prosparse", "report.html"
RESULTS = ("selected.csv", "scores.csv", "loadings.csv", MODEL, REPORT)


def check_folder(path: Path) -> None:
    """Refuse a folder that holds anything but older results, which would be replaced."""
    if path.exists() and not path.is_dir():
        raise ParameterError(f"{path} is a file: choose another folder with --output")
    there = path.iterdir() if path.exists() else ()
    strange = sorted(p.name for p in there if p.name not in RESULTS)
    if strange:
        raise ParameterError(
            f"{path} exists and holds other files ({', '.join(strange[:3])}): choose another "
            "folder with --output"
        )


def check_file(path: Path) -> None:
    """Refuse a place where no file can be written, before the work is done."""
    if path.is_dir():
        raise ParameterError(f"{path} is a folder: name a file with --output")
    if not path.parent.is_dir():
        raise ParameterError(f"there is no folder {path.parent}: make it, or choose another")


@contextmanager
def whole_folder(path: Path) -> Iterator[Path]:
    """A folder to write to, which appears as ``path`` when all is written, and else not at all."""
    check_folder(path)
    path.parent.mkdir(parents=True, exist_ok=True)
    partial = Path(tempfile.mkdtemp(dir=path.parent, prefix=f".{path.name}."))
    before = partial.with_name(f"{partial.name}.before")
    try:
        yield partial
        partial.chmod(0o777 & ~umask())
        if path.exists():  # moved aside, not removed: there is no moment without results
            path.rename(before)
        partial.rename(path)
    except BaseException:
        if before.exists() and not path.exists():
            before.rename(path)
        raise
    finally:
        for leftover in (partial, before):
            shutil.rmtree(leftover, ignore_errors=True)


def write_results(result: Result, folder: Path) -> None:
    """All files of `RESULTS`."""
    table, model, about, found = result
    scores = scores_of(model, table)
    components = [f"component_{k + 1}" for k in range(found.loadings.shape[0])]
    variables = (
        [found.names[k], _digits(found.relevance[k]), found.ranking[k], _yes_no(found.support[k])]
        for k in found.order
    )
    _write(folder / "selected.csv", ["variable", "relevance", "rank", "chosen"], variables)
    loadings = ([found.names[k], *map(_digits, found.loadings[:, k])] for k in found.chosen)
    _write(folder / "loadings.csv", ["variable", *components], loadings)
    ids: Sequence[Any] = table.ids or range(1, scores.shape[0] + 1)
    rows = ([name, *map(_digits, row)] for name, row in zip(ids, scores, strict=True))
    if table.label is None:
        _write(folder / "scores.csv", ["row", *components], rows)
    else:
        labelled = ([*row, label] for row, label in zip(rows, table.label, strict=True))
        _write(folder / "scores.csv", ["row", *components, about["label"]], labelled)
    save(model, folder / MODEL, about=about)
    page = render(model, scores=scores, ids=table.ids, label=table.label, about=about)
    (folder / REPORT).write_text(page, "utf-8")


def _yes_no(value: Any) -> str:
    return "yes" if value else "no"


def _digits(value: float) -> str:
    return f"{value:.10g}"


def _write(path: Path, header: list[str], rows: Any) -> None:
    with path.open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(header)
        writer.writerows(rows)
