"""Default output paths, and checks of paths before the analysis.

Outputs never replace inputs or files not written by prosparse. Without --output, they also never
replace results of another table.
"""

from __future__ import annotations

import errno
import os
import zipfile
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple, NoReturn

from ..errors import ModelFileError, ParameterError
from ..persistence import load_with_about
from ..report import is_report
from ..report.plots import is_plot
from ..tables import ReadOptions, file_extension
from ..tables.roles_file import is_roles_file

MODEL, REPORT = "model.prosparse", "report.html"
RESULTS = ("selected.csv", "scores.csv", "loadings.csv", MODEL, REPORT)
REGRESSION_RESULTS = ("selected.csv", "predictions.csv", "coefficients.csv", MODEL, REPORT)
IMPUTED = ("imputed.csv", "imputed_cells.csv")
APPLICATION_RESULTS = (
    "scores.csv", "predictions.csv", "reconstructions.csv", "drift.csv", MODEL, REPORT
)  # fmt: skip
PLOT_METADATA = {"Software": "prosparse"}  # PNG text by which plots are recognised
_PLOT_HEAD = 1024  # number of leading bytes of a PNG file that contain this text


def file_stem(path: Path) -> str:
    """Return a file name without extension: ``x.v1`` for ``x.v1.csv.gz``."""
    return path.name.removesuffix(file_extension(path)) or path.name


def model_name(model: Path) -> str:
    """Return the name of a model file, or of its folder of results."""
    model = Path(os.path.abspath(model))
    return model.parent.name if model.name == MODEL else model.name


def default_report_path(model: Path, data: Path | None) -> Path:
    """Return the default path of a report.

    The report of ``data`` has another name, because it must not replace the report of the model.
    """
    if data is not None:
        return Path(f"{file_stem(data)}-report.html")
    if model.is_dir():
        return model / REPORT
    name = model_name(model)
    return Path(f"{name if model.name == MODEL else Path(name).stem}.html")


def input_files(read_options: ReadOptions, *files: Path | None) -> list[Path]:
    """Return all input files of a command, which no output may replace."""
    labels = None if read_options.labels is None else Path(read_options.labels)
    return [file for file in (*files, labels) if file is not None]


def check_results_folder(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise an error if a folder contains anything but earlier results."""
    with _refuse_long_names(path):
        if path.exists() and not path.is_dir():
            raise ParameterError(f"{path} is a file: select another folder with --output.")
        content = list(path.iterdir()) if path.exists() else []
    current, target = Path.cwd(), Path(os.path.realpath(path))
    _check_writable(path, next(parent for parent in target.parents if parent.exists()))
    if target == current or target in current.parents:
        raise ParameterError(
            f"{path} contains the current folder and cannot be replaced: select another folder "
            "with --output."
        )
    for file in inputs:
        if _is_inside(file, path):
            raise ParameterError(
                f"{file} is in the folder {path}, which the results would replace: select another "
                "folder with --output."
            )
    known = {*RESULTS, *IMPUTED, *REGRESSION_RESULTS, *APPLICATION_RESULTS}
    unknown = sorted(
        entry.name
        for entry in content
        if entry.is_dir() or not (entry.name in known or is_plot(entry.name))
    )
    if unknown:
        raise ParameterError(
            f"{path} contains other files ({', '.join(unknown[:3])}): select another folder with "
            "--output."
        )
    if content and not _is_model(path / MODEL):
        names = ", ".join(sorted(entry.name for entry in content)[:3])
        raise ParameterError(
            f"{path} contains files with the names of results ({names}) but no valid {MODEL}, and "
            "may have been written by another program: select another folder with --output."
        )


def _is_model(path: Path) -> bool:
    """Return whether a file has the structure of a model file."""
    if not path.is_file() or not zipfile.is_zipfile(path):  # reading a pipe would block
        return False
    try:
        with zipfile.ZipFile(path) as archive:
            return "model.json" in archive.namelist()
    except (zipfile.BadZipFile, NotImplementedError, ValueError):
        return False


def check_report_path(path: Path) -> None:
    """Raise an error if a file that is not a report would be replaced."""
    if path.is_file() and not is_report(path):
        _refuse_replacement(path, "report")


def check_model_path(path: Path) -> None:
    """Raise an error if a file that is not a model would be replaced."""
    if path.is_file() and not _is_model(path):
        _refuse_replacement(path, "model")


def check_roles_path(path: Path) -> None:
    """Raise an error if a file that is not a roles file would be replaced."""
    if path.is_file() and not is_roles_file(path):
        raise ParameterError(
            f"{path} exists and is not a file of roles written by prosparse: move it, or select "
            "another file with --write."
        )


def check_plot_path(path: Path) -> None:
    """Raise an error if a file of another program would be replaced."""
    if not path.exists():
        return
    text = "\0".join(next(iter(PLOT_METADATA.items()))).encode()
    if path.is_file():
        with path.open("rb") as file:
            if text in file.read(_PLOT_HEAD):
                return
    raise ParameterError(f"{path} exists and was not written by prosparse. Pass another FOLDER.")


def _refuse_replacement(path: Path, noun: str) -> NoReturn:
    raise ParameterError(
        f"{path} exists and is not a {noun} written by prosparse: move it, or select another "
        "file with --output."
    )


def check_output_file(path: Path, inputs: Iterable[Path] = ()) -> None:
    """Raise an error if a file cannot be written, or if it is an input."""
    with _refuse_long_names(path):
        if path.is_dir():
            raise ParameterError(f"{path} is a folder: select a file with --output.")
        if path.exists() and not path.is_file():
            raise ParameterError(
                f"{path} is a device, a pipe or a socket, not a regular file: select a file with "
                "--output."
            )
    if not path.parent.is_dir():
        raise ParameterError(
            f"the folder {path.parent} does not exist: create it, or select another one with "
            "--output."
        )
    _check_writable(path, Path(os.path.realpath(path)).parent)
    for file in inputs:
        if file.exists() and path.exists() and os.path.samefile(file, path):
            raise ParameterError(
                f"{path} is an input of this command: select another file with --output."
            )


def _check_writable(path: Path, folder: Path) -> None:
    if folder.exists() and not folder.is_dir():
        raise ParameterError(
            f"{path} cannot be created because {folder} is a file: select another path with "
            "--output."
        )
    if folder.exists() and not os.access(folder, os.W_OK | os.X_OK):
        raise PermissionError(errno.EACCES, f"the folder {folder} is not writable", str(path))


def _is_inside(file: Path, folder: Path) -> bool:
    """Return whether a file or the target of a link is in a folder."""
    return any(
        Path(resolve(folder)) in Path(resolve(file)).parents
        for resolve in (os.path.realpath, os.path.abspath)
    ) or Path(os.path.realpath(folder)) == Path(os.path.realpath(file.parent))


@contextmanager
def _refuse_long_names(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno != errno.ENAMETOOLONG:
            raise
        length = len(os.fsencode(path.name))
        raise ParameterError(
            f"the file name {path.name[:40]}... is too long ({length} bytes): select a shorter one "
            "with --output."
        ) from None


class FittedTable(NamedTuple):
    """File to which a saved model was fitted."""

    file: str
    digest: str


def read_fitted_table(model: Path) -> FittedTable | None:
    """Read which table a saved model was fitted to; None if unknown."""
    try:
        about = load_with_about(model)[1]["about"]
        return FittedTable(str(about["data"]["file"]), str(about["file"]["SHA-256"]))
    except (ModelFileError, OSError, KeyError, TypeError):
        return None


def check_same_table(path: Path, model: Path, table: Path) -> None:
    """Raise an error if a default path contains the results of another table.

    ``model`` is the model file at ``path``, and ``table`` the table of the command.
    """
    earlier = read_fitted_table(model)
    if earlier is not None and earlier.file != table.name:
        raise ParameterError(
            f"{path} contains the results of {earlier.file}, not of {table.name}: replace them "
            f"with --output {path}, or select another path."
        )
    if earlier is None and path == model and path.exists():
        raise ParameterError(
            f"{path} exists and is not a model that was fitted to {table.name}: replace it "
            f"with --output {path}, or select another path."
        )
