"""Checkpoints: files from which an interrupted fit resumes.

The file is an ``.npz`` archive without pickled objects. A temporary file is written and renamed, so
that the checkpoint is always complete. It contains the parameters and the fingerprint of the data,
so that other fits cannot resume from it.
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
from ..phrases import truncate

T = TypeVar("T")

MAX_VALUE_LENGTH = 60  # maximum length of a parameter's value in an error message
REMEDY = "Delete the file to restart the fit, or pass another `checkpoint`."


class Checkpoint:
    """File in which a fit is saved regularly and from which it resumes.

    Parameters
    ----------
    path : str or path-like
        Path of the file, which is created by the first fit. A later fit with the same data and
        parameters resumes from the file; other data or parameters raise an error. The file is not
        deleted after the fit.
    every : int, default=10
        Number of iterations between two writes.
    """

    def __init__(self, path: str | os.PathLike[str], every: int = 10):
        if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
            raise ParameterError(
                f"`checkpoint` must be the path of a file or a `Checkpoint`, got {path!r}."
            )
        check_integer("every", every, 1)
        self.path, self.every = Path(path), every
        self.arrays: dict[str, np.ndarray] = {}

    def open(self, parameters: dict[str, Any], fingerprint: np.ndarray) -> Checkpoint:
        """Read the file if it exists; verify that it belongs to this fit."""
        current = {name: repr(_to_builtin(value)) for name, value in parameters.items()}
        # Arrays written by another version may have another meaning.
        current["prosparse"] = __version__
        text = json.dumps(current, sort_keys=True)
        self.arrays = {"parameters": np.array(text), "fingerprint": fingerprint}
        if not self._check_path():
            return self
        try:
            arrays, saved = _read(self.path)
            digest = arrays.pop("digest", None)
        except Exception as error:  # `zipfile`, NumPy and `json` raise errors of many types.
            raise self._not_a_checkpoint(str(error)) from error
        changed = [
            (k, *(truncate(str(values.get(k)), MAX_VALUE_LENGTH) for values in (saved, current)))
            for k in sorted({*current, *saved})
            if current.get(k) != saved.get(k)
        ]
        if changed:
            changes = ", ".join(f"{k} was {old}, is {new}" for k, old, new in changed)
            raise CheckpointError(
                f"{self.path} was written by a fit with other parameters: {changes}. {REMEDY}"
            )
        if not np.array_equal(arrays["fingerprint"], fingerprint):
            raise CheckpointError(f"{self.path} was written by a fit of other data. {REMEDY}")
        if not np.array_equal(digest, _digest(arrays)):  # type: ignore[arg-type]
            raise self.damage_error("its contents do not match its checksum")
        self.arrays = arrays
        return self

    def _check_path(self) -> bool:
        """Return whether the file exists; raise an error if it is not accessible."""
        try:
            path = Path(os.path.realpath(self.path))
            if not path.parent.is_dir():
                raise CheckpointError(
                    f"{self.path} cannot be written: directory {path.parent} does not exist. "
                    "Create it, or pass another `checkpoint`."
                )
            exists = _exists(path)
            if exists and not path.is_file():  # Reading a pipe would block.
                raise self._not_a_checkpoint("it is not a regular file")
            if not os.access(path if exists else path.parent, os.W_OK):
                raise CheckpointError(
                    f"{self.path} cannot be written: permission denied. Pass another `checkpoint`."
                )
            with tempfile.NamedTemporaryFile(dir=path.parent, prefix=PARTIAL):
                return exists
        except (OSError, ValueError) as error:  # A null byte in the path raises ValueError.
            if isinstance(error, CheckpointError):
                raise
            reason = error.strerror if isinstance(error, OSError) else error
            raise CheckpointError(
                f"{self.path} cannot be written: {reason}. Pass another `checkpoint`."
            ) from error

    def damage_error(self, reason: str) -> CheckpointError:
        """Return the error for a file whose contents are invalid."""
        return CheckpointError(
            f"{self.path} is damaged or was written by another version: {reason}. {REMEDY}"
        )

    def _not_a_checkpoint(self, reason: str) -> CheckpointError:
        return CheckpointError(
            f"{self.path} is not a checkpoint: {reason}. Pass the path of a new file or of a file "
            "that a fit has written."
        )

    def stage(self, name: str) -> Stage:
        """Return the part of the file for one run of the loop."""
        return Stage(self, name)

    def write(self) -> None:
        """Write all arrays to the file, replacing its content."""
        with replace_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **self.arrays, digest=_digest(self.arrays))


def _exists(path: Path) -> bool:
    """Return whether the path exists; unlike `Path.exists`, raise system errors."""
    try:
        path.lstat()
    except FileNotFoundError:
        return False
    return True


def _read(path: Path) -> tuple[dict[str, np.ndarray], dict[str, str]]:
    """Return the arrays and the parameters of a checkpoint."""
    with ZipFile(path) as archive:
        check_members(archive, path.stat().st_size)
        arrays = {
            name.removesuffix(".npy"): read_array(archive.read(name)) for name in archive.namelist()
        }
    if "parameters" not in arrays or "fingerprint" not in arrays:
        raise ValueError("it has no parameters or no fingerprint of the data")
    parameters = json.loads(str(arrays["parameters"]))
    if not isinstance(parameters, dict):
        raise ValueError("its parameters are not a dictionary")
    return arrays, parameters


def _digest(arrays: dict[str, np.ndarray]) -> np.ndarray:
    """Return the SHA-256 digest of names, types, shapes and contents."""
    digest = hashlib.sha256()
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(repr((name, array.dtype.str, array.shape)).encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    return np.frombuffer(digest.digest(), dtype=np.uint8)


def _to_builtin(value: Any) -> Any:
    """Convert values to built-in types, whose ``repr`` is complete."""
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    if isinstance(value, list | tuple | range):
        return [_to_builtin(part) for part in value]
    if isinstance(value, np.random.RandomState):  # Its ``repr`` contains its address.
        return _to_builtin(value.get_state())
    return value


class Stage:
    """Part of a checkpoint for one run of the loop; ``name`` is unique in a fit."""

    def __init__(self, file: Checkpoint, name: str):
        self.file, self.name = file, name

    def load(self, like: T) -> tuple[T, str] | None:
        """Load the saved position and stop reason, or None if not saved.

        Arrays have the libraries and devices of the position ``like``. The stop reason is empty if
        the loop had not ended.
        """
        if f"{self.name}/reason" not in self.file.arrays:
            return None
        try:
            position = _unflatten(like, f"{self.name}/position", self.file.arrays)
        except (TypeError, ValueError) as error:
            raise self.file.damage_error(str(error)) from error
        return position, str(self.file.arrays[f"{self.name}/reason"])

    def save(self, position: Any, reason: str = "") -> None:
        """Write a position and, after the last iteration, the stop reason."""
        prefix = f"{self.name}/"
        others = {k: v for k, v in self.file.arrays.items() if not k.startswith(prefix)}
        parts = _flatten(position, f"{prefix}position")
        self.file.arrays = others | parts | {f"{prefix}reason": np.array(reason)}
        self.file.write()

    def due(self, iteration: int) -> bool:
        """Return whether to save the position after an iteration."""
        return iteration % self.file.every == 0


def _flatten(value: Any, name: str) -> dict[str, np.ndarray]:
    """Convert nested named tuples to arrays by path."""
    if value is None:
        return {}
    if hasattr(value, "_fields"):
        parts = (_flatten(getattr(value, field), f"{name}.{field}") for field in value._fields)
        return {k: v for part in parts for k, v in part.items()}
    return {name: to_numpy(value)}


def _unflatten(like: Any, name: str, arrays: dict[str, np.ndarray]) -> Any:
    """Restore a value with the structure and array types of ``like``."""
    if like is None:
        return None
    if hasattr(like, "_fields"):
        fields = (_unflatten(getattr(like, f), f"{name}.{f}", arrays) for f in like._fields)
        return type(like)(*fields)
    if name not in arrays:
        raise ValueError(f"{name} is missing")
    value = arrays[name]
    if isinstance(like, list):
        if value.ndim != 1 or not value.size:
            raise ValueError(f"{name} must have one number per iteration, got shape {value.shape}")
        return value.tolist()
    shape = tuple(getattr(like, "shape", ()))
    if value.shape != shape:
        raise ValueError(f"{name} must have shape {shape}, got {value.shape}")
    return from_numpy(value, like, like.dtype) if hasattr(like, "shape") else type(like)(value)
