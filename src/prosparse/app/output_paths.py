"""Output paths: default names, and the checks that run before any work is done.

An output never replaces an input, a file or folder that prosparse did not write, or, unless the
path was given, the results of another table.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import ModelFileError, ParameterError
from ..files import sha256
from ..persistence import load_with_about
from ..report import is_report
from ..tables import ReadOptions, ending_of

MODEL, REPORT = "model.prosparse", "report.html"
RESULTS = ("selected.csv", "scores.csv", "loadings.csv", MODEL, REPORT)
OF_REGRESSIONS = ("selected.csv", "predictions.csv", "coefficients.csv", MODEL, REPORT)
_OURS = {*RESULTS, *OF_REGRESSIONS}


def stem_of(path: Path) -> str:
    """The name of a file without its ending: ``x.v1`` of ``x.v1.csv.gz``."""
    return path.name.removesuffix(ending_of(path)) or path.name


def name_of(model: Path) -> str:
    """Return the name of a model file, or of its folder of results."""
    model = Path(os.path.abspath(model))
    return model.parent.name if model.name == MODEL else model.name


def page_of(model: Path) -> Path:
    """Return the default path of the report of a model file."""
    name = name_of(model)
    return Path(f"{name if model.name == MODEL else Path(name).stem}.html")


def inputs_of(ask: ReadOptions, *files: Path | None) -> list[Path]:
    """Every file that a command reads, none of which an output may replace.

    Parameters
    ----------
    ask : ReadOptions
        Reading options, which may name a file of labels.
    *files : Path or None
        Table, model, costs and new data of the command; None is skipped.

    Returns
    -------
    list of Path
    """
    labels = None if ask.labels is None else Path(ask.labels)
    return [one for one in (*files, labels) if one is not None]


def check_folder(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a folder that holds anything but older results, which would be replaced.

    Parameters
    ----------
    path : Path
    inputs : iterable of Path
        Files that are read, and must not be replaced.
    """
    with _long_names_refused(path):
        if path.exists() and not path.is_dir():
            raise ParameterError(f"{path} is a file: choose another folder with --output")
        there = list(path.iterdir()) if path.exists() else []
    here, place = Path.cwd(), Path(os.path.realpath(path))
    _check_writable(path, next(p for p in place.parents if p.exists()))
    if place == here or place in here.parents:
        raise ParameterError(
            f"{path} is the current folder, or one that it is in, which cannot be replaced: "
            "choose another folder with --output"
        )
    for one in inputs:
        if _inside(one, path):
            raise ParameterError(
                f"{one} is in the folder {path}, which the results would replace: choose another "
                "folder with --output"
            )
    strange = sorted(p.name for p in there if p.name not in _OURS or p.is_dir())
    if strange:
        raise ParameterError(
            f"{path} exists and holds other files ({', '.join(strange[:3])}): choose another "
            "folder with --output"
        )
    if there and not _is_model(path / MODEL):
        raise ParameterError(
            f"{path} exists, and its files ({', '.join(sorted(p.name for p in there)[:3])}) only "
            f"have the names of results: without a {MODEL} beside them they may be anything. "
            "Choose another folder with --output"
        )


def _is_model(path: Path) -> bool:
    """Whether a file is a model, as far as a short look can tell."""
    if not path.is_file() or not zipfile.is_zipfile(path):  # a pipe would never answer
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "model.json" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):  # a damaged archive
        return False


def check_page(path: Path, table: Earlier | None = None) -> None:
    """Refuse to replace a file that is not a report.

    Parameters
    ----------
    path : Path
        Where the report goes.
    table : Earlier or None
        Table that the model was fitted to, for the message.
    """
    if not path.is_file() or is_report(path):
        return
    if table is not None and sha256(path) == table.digest:
        raise ParameterError(
            f"{path} is the table that the model was fitted to ({table.file}, same SHA-256) and "
            "would be replaced: name another file with --output"
        )
    raise ParameterError(
        f"{path} exists and is not a report of prosparse: move it, or name another file with "
        "--output"
    )


def check_model(path: Path) -> None:
    """Refuse to replace a file that is not a model."""
    if path.is_file() and not _is_model(path):
        raise ParameterError(
            f"{path} exists and is not a model of prosparse: move it, or name another file with "
            "--output"
        )


def check_file(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a path where no file can be written, or where an input is.

    Parameters
    ----------
    path : Path
    inputs : iterable of Path
        Files that are read, and must not be replaced.
    """
    with _long_names_refused(path):
        if path.is_dir():
            raise ParameterError(f"{path} is a folder: name a file with --output")
        if path.exists() and not path.is_file():
            raise ParameterError(
                f"{path} is not a regular file, but a device, a pipe or a socket: name a file with "
                "--output"
            )
    if not path.parent.is_dir():
        raise ParameterError(f"there is no folder {path.parent}: make it, or choose another")
    _check_writable(path, Path(os.path.realpath(path)).parent)
    for one in inputs:
        if _same(one, path):
            raise ParameterError(
                f"{path} is an input of this command and would be replaced: name another file "
                "with --output"
            )


def _same(one: Path, other: Path) -> bool:
    """Whether two names, by links of either kind, are those of one file."""
    if os.path.realpath(one) == os.path.realpath(other):
        return True
    return one.exists() and other.exists() and os.path.samefile(one, other)


def _check_writable(path: Path, folder: Path) -> None:
    """Refuse a folder in which nothing can be made."""
    if folder.exists() and not folder.is_dir():
        raise ParameterError(f"{path} cannot be: {folder} is a file. Choose another with --output")
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"nothing can be written in {folder}", str(path))


def _inside(file: Path, folder: Path) -> bool:
    """Whether a file, or the link that it is, lies in a folder."""
    return any(
        Path(resolved(folder)) in Path(resolved(file)).parents
        for resolved in (os.path.realpath, os.path.abspath)
    ) or Path(os.path.realpath(folder)) == Path(os.path.realpath(file.parent))


@contextmanager
def _long_names_refused(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        length = len(os.fsencode(path.name))
        raise ParameterError(
            f"{path.name[:40]}... is too long for the name of a file ({length} bytes): choose a "
            "shorter one with --output"
        ) from None


class Earlier(NamedTuple):
    """The table that earlier results are of."""

    file: str
    digest: str


def earlier_table(model: Path) -> Earlier | None:
    """What the model in a file was fitted to; None if there is no model."""
    try:
        return table_of(load_with_about(model)[1]["about"])
    except (ModelFileError, OSError):
        return None


def table_of(about: Any) -> Earlier | None:
    """The table that a saved model was fitted to; None if its file does not say."""
    try:
        return Earlier(str(about["data"]["file"]), str(about["file"]["SHA-256"]))
    except (KeyError, TypeError):
        return None


def check_not_of_another(path: Path, model: Path, table: Path) -> None:
    """Refuse a place that was not named by the user if the results of another table are there."""
    earlier = earlier_table(model)
    if earlier is not None and earlier.file != table.name:
        raise ParameterError(
            f"{path} holds the results of {earlier.file}, not of {table.name}: choose another "
            f"place with --output, or replace them with --output {path}"
        )
    if earlier is None and path == model and path.exists():
        raise ParameterError(
            f"{path} exists and is not a model that was fitted to {table.name}: choose another "
            f"place with --output, or replace it with --output {path}"
        )
