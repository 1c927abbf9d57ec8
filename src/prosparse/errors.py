"""Errors and warnings of our own: what was given, what is allowed, what to do."""

from __future__ import annotations

import contextlib
import inspect
import os
import warnings
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from numbers import Integral, Real
from pathlib import Path
from typing import Any

import numpy as np
import sklearn


class InputError(ValueError):
    """The data cannot be fitted as they are."""


class TableError(InputError):
    """A file cannot be read as a table; the message names the row and the column."""


class ModelFileError(ValueError):
    """A model cannot be saved, or a file is not one that a model can be loaded from."""


class ParameterError(ValueError):
    """A parameter has a value that is not allowed."""


class CheckpointError(ValueError):
    """A checkpoint belongs to something else."""


class NoStructureWarning(UserWarning):
    """The data show no common structure: the result ranks the variables and shows no more."""


class RowOrderWarning(UserWarning):
    """Rows next to each other are alike: a test that takes them for exchangeable is too sure."""


class ShortPanelWarning(UserWarning):
    """No panel that was tried recovers the share that was asked for."""


class FewVariablesWarning(UserWarning):
    """The evidence is largest at the fewest variables that the components can have."""


class ManyComponentsWarning(UserWarning):
    """More components stand out from white noise than are taken."""


class FewerComponentsWarning(UserWarning):
    """The data, under the constraints, have fewer components than were asked for."""


# A warning refers to the line of user code that called the library, possibly through a pipeline or
# cross-validation. Frames of these files are skipped.
_LIBRARY = Path(sklearn.__file__).parent
_NOT_THE_USERS = (
    *(f"{one}{os.sep}" for one in (Path(__file__).parent, _LIBRARY, _LIBRARY.parent / "joblib")),
    contextlib.__file__,  # fits run in a context manager
)


# What is to be said once the fit under way is whole; None while nothing waits.
_held: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("held", default=None)


@contextmanager
def held_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Warnings raised inside wait in a list, for whoever opened it to raise them later: where
    warnings are errors, one in the middle of a fit would leave it half done."""
    held: list[tuple[str, type[Warning]]] = []
    token = _held.set(held)
    try:
        yield held
    finally:
        _held.reset(token)


def warn(message: str, category: type[Warning]) -> None:
    """Warn at the line of the user's that led here, or once the fit is whole."""
    held = _held.get()
    if held is not None:
        held.append((message, category))
        return
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_NOT_THE_USERS):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, e.g. "1 value" or "2,000 values"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def check_jobs(value: Any) -> None:
    """Refuse what is no number of jobs in scikit-learn's sense."""
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and (not whole or value == 0):
        raise ParameterError(
            "`n_jobs` must be None or an integer other than 0 (-1: as many as there are cores), "
            f"got {value!r}"
        )


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ParameterError(f"`{name}` must be one of {choices}, got {value!r}")


def check_bool(name: str, value: Any) -> None:
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"`{name}` must be True or False, got {value!r}")


def check_integer(name: str, value: Any, minimum: int, alternative: str = "") -> None:
    """Refuse all but integers from ``minimum`` on; ``alternative`` names what else is allowed."""
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ParameterError(
            f"`{name}` must be an integer of at least {minimum}{alternative}, got {value!r}"
        )


# Of weights and tolerances: their squares and products must stay numbers.
LARGEST_NUMBER = 1e100


def check_non_negative(name: str, value: Any, *, infinite: bool = False) -> None:
    """Refuse all but numbers from 0 on; very large ones and infinity only if ``infinite``."""
    if not isinstance(value, Real) or isinstance(value, bool) or not float(value) >= 0:
        raise ParameterError(f"`{name}` must be a non-negative number, got {value!r}")
    if float(value) > LARGEST_NUMBER and not infinite:
        raise ParameterError(f"`{name}` must be finite, at most {LARGEST_NUMBER:g}, got {value!r}")


def check_verbose(value: Any) -> None:
    """Refuse all but True, False and how much to say."""
    check_non_negative("verbose", float(value) if isinstance(value, bool | np.bool_) else value)


def checked_numbers(name: str, values: Any) -> np.ndarray:
    """A list of finite non-negative numbers, refused if it is anything else."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or numbers.size == 0 or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise ParameterError(
            f"`{name}` must be a list of finite non-negative numbers, or None, got {values!r}"
        )
    check_non_negative(name, float(numbers.max()))
    return numbers


def check_total(weights: np.ndarray) -> float:
    """The observations that weights stand for together, of which there must be more than one."""
    total = float(weights.sum())
    if not total > 1.0:
        raise ParameterError(
            f"`sample_weight` must add up to more than 1, got {total:g}: a weight says how many "
            "observations a row stands for. If not all are zero, multiply them by a constant."
        )
    return total


def checked_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """One finite non-negative weight for each row; a single number counts for all rows."""
    if np.ma.is_masked(sample_weight):
        raise ParameterError("`sample_weight` has masked entries: give a weight of 0 to such rows")
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise ParameterError(f"`sample_weight` must hold numbers: {error}") from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ParameterError(
            f"`sample_weight` must hold one number for each of the {n_rows} rows, got an array of "
            f"shape {weights.shape}"
        )
    if not np.all(np.isfinite(weights) & (weights >= 0)):
        raise ParameterError("`sample_weight` must be finite and non-negative")
    check_non_negative("sample_weight", float(weights.max(initial=0.0)))
    return weights
