"""Long fits that survive being killed: the state of the loop in a file, every few iterations.

The file is a plain ``.npz`` without pickled objects. It is written beside its place and then
renamed, so that there is always one whole file, and it remembers which data and parameters it
belongs to.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

from ..data.arrays import host, in_kind
from ..errors import CheckpointError, check_integer
from ..files import whole_file

State = Any


class Position(NamedTuple):
    """Where the loop stands between two iterations."""

    start: State  # of the next step
    best: State
    bounds: list[float]
    quiet: int
    probing: bool


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
            The fingerprint of the table's content, see `data.fingerprint`.
        """
        text = json.dumps({k: repr(v) for k, v in parameters.items()}, sort_keys=True)
        self.stored = {"parameters": np.array(text), "table": table}
        if not self.path.exists():
            return self
        try:
            with np.load(self.path, allow_pickle=False) as file:
                found = {name: file[name] for name in file.files}
            before, other_table = json.loads(str(found["parameters"])), found["table"]
        except (OSError, ValueError, KeyError, EOFError, BadZipFile) as error:
            raise CheckpointError(
                f"{self.path} is not a checkpoint: {error}. Give the name of a file that does not "
                "exist yet, or of one that a fit has written."
            ) from error
        now = json.loads(text)
        other = [k for k in sorted({*now, *before}) if now.get(k) != before.get(k)]
        if other:
            change = ", ".join(f"{k} was {before.get(k)}, is {now.get(k)}" for k in other)
            raise CheckpointError(f"{self.path} belongs to other parameters: {change}. {_ADVICE}")
        if not np.array_equal(other_table, table):
            raise CheckpointError(f"{self.path} belongs to another table. {_ADVICE}")
        self.stored = found
        return self

    def stage(self, name: str) -> Stage:
        """The place of one run of the loop; a fit may have several."""
        return Stage(self, name)

    def write(self) -> None:
        with whole_file(self.path) as partial, partial.open("wb") as file:
            np.savez(file, allow_pickle=False, **self.stored)


_ADVICE = "Delete the file to start afresh, or give another `checkpoint`."


class Stage:
    """What the loop needs of a checkpoint."""

    def __init__(self, file: Checkpoint, name: str):
        self.file, self.name = file, name

    def load(self, like: State, accelerator: Any) -> tuple[Position, str] | None:
        """Where the loop stood, and the reason why it ended if it did."""
        prefix = f"{self.name}/"
        found = {k[len(prefix) :]: v for k, v in self.file.stored.items() if k.startswith(prefix)}
        if not found:
            return None
        best = _rebuilt(like, "best", found)
        start = best if bool(found["plain"]) else _rebuilt(like, "start", found)
        if accelerator is not None:
            memory = {k[7:]: v for k, v in found.items() if k.startswith("memory/")}
            accelerator.restore(memory, best)
        bounds = [float(bound) for bound in found["bounds"]]
        quiet, probing = int(found["quiet"]), bool(found["probing"])
        return Position(start, best, bounds, quiet, probing), str(found["reason"])

    def save(self, at: Position, accelerator: Any, reason: str = "") -> None:
        plain = at.start is at.best
        parts = {
            "bounds": np.array(at.bounds),
            "quiet": np.array(at.quiet),
            "probing": np.array(at.probing),
            "plain": np.array(plain),
            "reason": np.array(reason),
            **_flat(at.best, "best"),
        }
        if not plain:
            parts |= _flat(at.start, "start")
        if accelerator is not None:
            parts |= {f"memory/{k}": host(v) for k, v in accelerator.remembered().items()}
        prefix = f"{self.name}/"
        kept = {k: v for k, v in self.file.stored.items() if not k.startswith(prefix)}
        self.file.stored = kept | {prefix + k: v for k, v in parts.items()}
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
    return {name: host(value)}


def _rebuilt(like: Any, name: str, found: dict[str, np.ndarray]) -> Any:
    """The named tuple of the shape, kinds and devices of ``like``."""
    if like is None:
        return None
    if hasattr(like, "_fields"):
        fields = (_rebuilt(getattr(like, f), f"{name}.{f}", found) for f in like._fields)
        return type(like)(*fields)
    value = found[name]
    return in_kind(value, like, like.dtype) if hasattr(like, "shape") else type(like)(value)
