"""Exceptions, warnings and checks of parameters.

An error states the problem, the value received and the remedy.
"""

from __future__ import annotations

import contextlib
import inspect
import math
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
    """Error for data that cannot be fitted, for example with missing values."""


class TableError(InputError):
    """Error for a file that cannot be read as a table.

    The message names the row and the column, if possible.
    """


class ModelFileError(ValueError):
    """Error for a model that cannot be saved or a file that cannot be loaded."""


class ParameterError(ValueError):
    """Error for a parameter value that is not allowed."""


class CheckpointError(ValueError):
    """Error for an invalid checkpoint, or one of other data or parameters."""


class NoStructureWarning(UserWarning):
    """Warning that no shared variance was detected.

    The variables are ranked, but none is significant.
    """


class RowOrderWarning(UserWarning):
    """Warning that adjacent rows are correlated.

    Tests that assume exchangeable rows then select too many variables, unless the rows are merely
    sorted.
    """


class OutlyingRowsWarning(UserWarning):
    """Warning that a few rows have a large scale or dominate the components."""


class DuplicateRowsWarning(UserWarning):
    """Warning that rows are equal.

    Tests treat each row as an independent observation.
    """


class MissingValuesWarning(UserWarning):
    """Warning that missing values make results inaccurate."""


class RawCountsWarning(UserWarning):
    """Warning that counts are analysed as measurements.

    Differences in sequencing depth or length alone then correlate all variables.
    """


class UnknownVariablesWarning(UserWarning):
    """Warning that names of variables are not in the data and are ignored."""


class BatchWarning(UserWarning):
    """Warning that batches which were not given explain a component."""


class UnequalUnitsWarning(UserWarning):
    """Warning that one column has most of the variance."""


class CategoriesWarning(UserWarning):
    """Warning that rare levels of a category are pooled."""


class CovariatesWarning(UserWarning):
    """Warning that covariates are collinear, or leave few degrees of freedom."""


class ShortPanelWarning(UserWarning):
    """Warning that no panel attains the requested recovery."""


class FewVariablesWarning(UserWarning):
    """Warning that the evidence is largest for the minimum number of variables.

    The number of selected variables is then determined by the number of components.
    """


class ManyComponentsWarning(UserWarning):
    """Warning that more components exceed white noise than the model has."""


class FewerComponentsWarning(UserWarning):
    """Warning that the constraints allow fewer components than requested."""


# Warnings refer to the line of user code that called the library, possibly through a pipeline or
# cross-validation. Frames in these files are skipped.
_SKLEARN = Path(sklearn.__file__).parent
_SKIPPED = (
    *(f"{path}{os.sep}" for path in (Path(__file__).parent, _SKLEARN, _SKLEARN.parent / "joblib")),
    contextlib.__file__,  # fits run in a context manager
)


# Warnings of the current fit, which are issued at the end of the fit; None outside of fits.
_deferred: ContextVar[list[tuple[str, type[Warning]]] | None] = ContextVar("deferred", default=None)


@contextmanager
def defer_warnings() -> Iterator[list[tuple[str, type[Warning]]]]:
    """Collect warnings in a list, so that the caller can issue them later.

    If warnings are treated as errors, a warning within a fit would leave the estimator partly
    fitted.
    """
    deferred: list[tuple[str, type[Warning]]] = []
    token = _deferred.set(deferred)
    try:
        yield deferred
    finally:
        _deferred.reset(token)


def warn(message: str, category: type[Warning]) -> None:
    """Issue a warning at a line of user code, or defer it during a fit."""
    deferred = _deferred.get()
    if deferred is not None:
        deferred.append((message, category))
        return
    frame, level = inspect.currentframe(), 0
    while frame is not None and frame.f_code.co_filename.startswith(_SKIPPED):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level + 1)


def plural(count: int, noun: str) -> str:
    """Return a count with its noun, such as "1 value" or "2,000 values"."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def end_sentence(text: object) -> str:
    """Return a text with a final period."""
    return str(text) if str(text).endswith(".") else f"{text}."


def check_jobs(value: Any) -> None:
    """Check that ``n_jobs`` is None or a nonzero integer, as in scikit-learn."""
    is_integer = isinstance(value, Integral) and not isinstance(value, bool)
    if value is not None and (not is_integer or value == 0):
        raise ParameterError(
            f"`n_jobs` must be None or an integer other than 0 (-1 for all cores), got {value!r}."
        )


def check_choice(name: str, value: Any, allowed: Sequence[str]) -> None:
    """Check that a parameter is one of the allowed strings."""
    if not isinstance(value, str) or value not in allowed:
        choices = ", ".join(repr(choice) for choice in allowed)
        raise ParameterError(f"`{name}` must be one of {choices}, got {value!r}.")


def check_bool(name: str, value: Any) -> None:
    """Check that a parameter is True or False."""
    if not isinstance(value, bool | np.bool_):
        raise ParameterError(f"`{name}` must be True or False, got {value!r}.")


def check_integer(name: str, value: Any, minimum: int, alternative: str = "") -> None:
    """Check that a parameter is an integer of at least ``minimum``.

    ``alternative`` describes other allowed values in the error message, such as ' or "auto"'.
    """
    if not isinstance(value, Integral) or isinstance(value, bool) or value < minimum:
        raise ParameterError(
            f"`{name}` must be an integer of at least {minimum}{alternative}, got {value!r}."
        )


# Maximum of weights and tolerances, whose squares and products must be finite.
MAX_NUMBER = 1e100


def check_non_negative(name: str, value: Any, *, infinite: bool = False) -> None:
    """Check that a parameter is non-negative, and finite unless ``infinite``."""
    given: Any = value if isinstance(value, Real) and not isinstance(value, bool) else math.nan
    try:
        number = float(given)
    except OverflowError:  # an integer beyond the range of floats
        number = math.inf if given > 0 else -math.inf
    if not number >= 0:
        raise ParameterError(f"`{name}` must be a non-negative number, got {value!r}.")
    if number > MAX_NUMBER and not infinite:
        raise ParameterError(f"`{name}` must be finite, at most {MAX_NUMBER:g}, got {value!r}.")


def check_verbose(value: Any) -> None:
    """Check that ``verbose`` is True, False or a non-negative number."""
    check_non_negative("verbose", float(value) if isinstance(value, bool | np.bool_) else value)


def check_numbers(name: str, values: Any) -> np.ndarray:
    """Convert finite non-negative numbers to an array, or raise an error."""
    try:
        numbers = np.asarray(values, dtype=float)
    except (TypeError, ValueError):
        numbers = np.empty(0)
    if numbers.ndim != 1 or numbers.size == 0 or not np.all((numbers >= 0) & np.isfinite(numbers)):
        raise ParameterError(
            f"`{name}` must be a list of finite non-negative numbers, or None, got {values!r}."
        )
    check_non_negative(name, float(numbers.max()))
    return numbers


def check_total(weights: np.ndarray) -> float:
    """Return the sum of the weights, which must exceed 1."""
    total = float(weights.sum())
    if not total > 1.0:
        raise ParameterError(
            f"`sample_weight` must add up to more than 1, got {total:g}. Weights are numbers of "
            "observations: unless all are zero, multiply them by a constant."
        )
    return total


def check_weights(sample_weight: Any, n_rows: int) -> np.ndarray:
    """Convert sample weights to an array; a single number applies to all rows."""
    if np.ma.is_masked(sample_weight):
        raise ParameterError(
            "`sample_weight` has masked entries. Set the weight of such rows to 0."
        )
    try:
        weights = np.asarray(sample_weight, dtype=float)
    except (TypeError, ValueError) as error:
        raise ParameterError(
            f"`sample_weight` must contain numbers: {end_sentence(error)}"
        ) from error
    if weights.ndim == 0:
        weights = np.full(n_rows, float(weights))
    if weights.shape != (n_rows,):
        raise ParameterError(
            f"`sample_weight` must contain one number for each of the {n_rows} rows, got an array "
            f"of shape {weights.shape}."
        )
    invalid = weights[~(np.isfinite(weights) & (weights >= 0))]
    if invalid.size:
        raise ParameterError(
            f"`sample_weight` must be finite and non-negative, got {invalid[0]:g}."
        )
    check_non_negative("sample_weight", float(weights.max(initial=0.0)))
    return weights
