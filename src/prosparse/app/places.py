"""Where results go: names made from that of the table, and places that are refused before the work.

Results never take the place of what they were made from, of folders with anything else in them,
or, unless the place was named, of the results of another table.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from ..errors import ModelFileError, ParameterError
from ..persistence import load_with_about
from ..tables import ending_of

MODEL, REPORT = "model.prosparse", "report.html"
_PAGE = b'<p class="kicker">prosparse'  # in every report, and hardly anywhere else
RESULTS = ("selected.csv", "scores.csv", "loadings.csv", MODEL, REPORT)
OF_REGRESSIONS = ("selected.csv", "predictions.csv", "coefficients.csv", MODEL, REPORT)
_OURS = {*RESULTS, *OF_REGRESSIONS}


def stem_of(path: Path) -> str:
    """The name of a file without its ending: ``x.v1`` of ``x.v1.csv.gz``."""
    return path.name.removesuffix(ending_of(path)) or path.name


def page_of(model: Path) -> Path:
    """The page of a model; models in folders of results all have one name, the folders have not."""
    model = Path(os.path.abspath(model))
    return Path(f"{model.parent.name if model.name == MODEL else model.stem}.html")


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
    with zipfile.ZipFile(path) as archive:
        return "model.json" in archive.namelist()


def check_page(path: Path) -> None:
    """Refuse a place that was not named by the user if a file of another kind is there."""
    if path.is_file() and _PAGE not in path.read_bytes():
        raise ParameterError(
            f"{path} exists and is not a report of prosparse: move it away, or choose another place"
        )


def check_file(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Refuse a place where no file can be written, before the work is done."""
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
            raise ParameterError(f"{path} is what is read: name another file with --output")


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
        about = load_with_about(model)[1]["about"]
        return Earlier(str(about["data"]["file"]), str(about["file"]["SHA-256"]))
    except (ModelFileError, OSError, KeyError, TypeError):
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
