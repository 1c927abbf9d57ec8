"""Long fits that survive being killed: the state of the loop in a file, every few iterations.

The file is a plain ``.npz`` without pickled objects. It is written beside its place and then
renamed, so that there is always one whole file, and it remembers which data and parameters it
belongs to.
"""

from __future__ import annotations

import hashlib
import json
import os
import tempfile
from pathlib import Path
from typing import Any, TypeVar
from zipfile import ZipFile

import numpy as np

from .._version import __version__
from ..data.arrays import from_numpy, to_numpy
from ..errors import CheckpointError, ParameterError, check_integer
from ..files import PARTIAL, replace_file
from ..npy import check_members, read_array

T = TypeVar("T")


class Checkpoint:
    """A file that a fit writes every so many iterations, and resumes from if it exists.

    Parameters
    ----------
    path : str or path
        The file; made by the first fit, and left behind: a later ``fit`` of the same data with
        the same parameters goes on from it, and one of others is refused.
    every : int, default=10
        Iterations between two writes.
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10):
        if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
            raise ParameterError(
                f"`checkpoint` must be the path of a file or a `Checkpoint`, got {path!r}"
            )
        check_integer("every", every, 1)
        self.path, self.every = Path(path), every
        self.stored: dict[str, np.ndarray] = {}

    def open(self, parameters: dict[str, Any], table: np.ndarray) -> Checkpoint:
        """Read the file, if there is one; refuse it if it belongs to another fit.

        Parameters
        ----------
        parameters : dict
            Of the estimator.
        table : array
            The fingerprint of the table's content, see ``prosparse.data.fingerprint``.
        """
        # Another version may give the same arrays another meaning.
        now = {name: repr(_plain(value)) for name, value in parameters.items()}
        now["prosparse"] = __version__
        text = json.dumps(now, sort_keys=True)
        self.stored = {"parameters": np.array(text), "table": table}
        if not self._check_place():
            return self
        try:
            found, before = _read(self.path)
            digest = found.pop("digest", None)
        except Exception as error:  # `zipfile`, NumPy and `json` raise errors of many types
            raise self._not_a_checkpoint(str(error)) from error
        other = [k for k in sorted({*now, *before}) if now.get(k) != before.get(k)]
        if other:
            change = ", ".join(
                f"{k} was {_brief(before.get(k))}, is {_brief(now.get(k))}" for k in other
            )
            raise CheckpointError(f"{self.path} belongs to other parameters: {change}. {_ADVICE}")
        if not np.array_equal(found["table"], table):
            raise CheckpointError(f"{self.path} belongs to another table. {_ADVICE}")
        if not np.array_equal(digest, _digest(found)):  # type: ignore[arg-type]
            raise self.damaged("its contents do not match its checksum")
        self.stored = found
        return self

    def _check_place(self) -> bool:
        """Whether the file exists; raise if it cannot be read or written.

        This happens before the fit, not when its first hours are to be written.
        """
        try:
            place = Path(os.path.realpath(self.path))
            if not place.parent.is_dir():
                raise CheckpointError(
                    f"{self.path} cannot be written: there is no folder {place.parent}. Make it "
                    "first."
                )
            exists = _is_there(place)
            if exists and not place.is_file():  # reading a pipe would never end
                raise self._not_a_checkpoint("it is not a regular file")
            if not os.access(place if exists else place.parent, os.W_OK):
                raise CheckpointError(
                    f"{self.path} cannot be written: there is no permission to. Give another "
                    "`checkpoint`."
                )
            with tempfile.NamedTemporaryFile(dir=place.parent, prefix=PARTIAL):
                return exists
        except (OSError, ValueError) as error:  # ValueError: a null byte in the name
            if isinstance(error, CheckpointError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise CheckpointError(
                f"{self.path} cannot be written: {reason}. Give another `checkpoint`."
            ) from error

    def damaged(self, what: str) -> CheckpointError:
        """The error for a file that holds something other than the positions of this fit."""
        return CheckpointError(
            f"{self.path} is damaged, or was written by another version: {what}. {_ADVICE}"
        )

    def _not_a_checkpoint(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a checkpoint: {reason}. Give the name of a file that does not "
            "exist yet, or of one that a fit has written."
        )

    def stage(self, name: str) -> Stage:
        """The place of one run of the loop; a fit may have several."""
        return Stage(self, name)

    def write(self) -> None:
        with replace_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **self.stored, digest=_digest(self.stored))


def _is_there(place: Path) -> bool:
    """Whether the name is in use; OSError or ValueError if the system refuses it."""
    try:
        place.lstat()
    except FileNotFoundError:
        return False
    return True


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """All arrays of a file, and the parameters it belongs to; raises for any other file."""
    with ZipFile(path) as archive:
        check_members(archive, path.stat().st_size)
        found = {
            name.removesuffix(".npy"): read_array(archive.read(name)) for name in archive.namelist()
        }
    if "parameters" not in found or "table" not in found:
        raise ValueError("it does not say which parameters and data it belongs to")
    parameters = json.loads(str(found["parameters"]))
    if not isinstance(parameters, dict):
        raise ValueError("its parameters are not a dictionary")
    return found, parameters


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """SHA-256 of the names, types, shapes and contents of ``arrays``."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _plain(value: Any) -> Any:
    """``value`` of Python's own types where it can be: those print in full, and the same whichever
    of several equal numbers or lists was given."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_plain(part) for part in value]
    if isinstance(value, np.random.RandomState):  # which prints its address
        return _plain(value.get_state())
    return value


def _brief(text: str | None) -> str:
    """A parameter in an error's words: lists of columns can have thousands of numbers."""
    text = str(text)
    return text if len(text) <= 60 else f"{text[:57]}..."


_ADVICE = "Delete the file to start afresh, or give another `checkpoint`."


class Stage:
    """What the loop needs of a checkpoint: one tree in, the same tree out."""

    def __init__(self, file: Checkpoint, name: str):
        self.file, self.name = file, name

    def load(self, like: T) -> tuple[T, str] | None:
        """The position that was saved, of the shape, kinds and devices of ``like``, and the
        reason why the loop ended there if it did."""
        if f"{self.name}/reason" not in self.file.stored:
            return None
        try:
            position = _rebuilt(like, f"{self.name}/position", self.file.stored)
        except (TypeError, ValueError) as error:
            raise self.file.damaged(str(error)) from error
        return position, str(self.file.stored[f"{self.name}/reason"])

    def save(self, position: Any, reason: str = "") -> None:
        prefix = f"{self.name}/"
        kept = {k: v for k, v in self.file.stored.items() if not k.startswith(prefix)}
        parts = _flat(position, f"{prefix}position")
        self.file.stored = kept | parts | {f"{prefix}reason": np.array(reason)}
        self.file.write()

    def due(self, iteration: int) -> bool:
        return iteration % self.file.every == 0


def _flat(value: Any, name: str) -> dict[str, np.ndarray]:
    """The arrays and numbers in nested named tuples, by path."""
    if value is None:
        return {}
    if hasattr(value, "_fields"):
        parts = (_flat(getattr(value, field), f"{name}.{field}") for field in value._fields)
        return {k: v for part in parts for k, v in part.items()}
    return {name: to_numpy(value)}


def _rebuilt(like: Any, name: str, found: dict[str, np.ndarray]) -> Any:
    """The named tuple of the shape, kinds and devices of ``like``."""
    if like is None:
        return None
    if hasattr(like, "_fields"):
        fields = (_rebuilt(getattr(like, f), f"{name}.{f}", found) for f in like._fields)
        return type(like)(*fields)
    if name not in found:
        raise ValueError(f"there is no {name}")
    value = found[name]
    if isinstance(like, list):
        if value.ndim != 1 or not value.size:
            raise ValueError(f"{name} has shape {value.shape}, not one number per iteration")
        return value.tolist()
    _refuse_shape(name, value, tuple(getattr(like, "shape", ())))
    return from_numpy(value, like, like.dtype) if hasattr(like, "shape") else type(like)(value)


def _refuse_shape(name: str, value: np.ndarray, expected: tuple[int, ...]) -> None:
    if value.shape != expected:
        raise ValueError(f"{name} has shape {value.shape}, not {expected}")
