"""Validation, centring and units of the response of a regression."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from ...data import Columns, Operator
from ...data.columns import LARGEST_UNIT, SMALLEST_UNIT, unit_of
from ...errors import InputError, end_sentence, plural

ROUNDING_FACTOR = 1e4  # maximum difference of equal rows, in rounding errors of a product


class Response(NamedTuple):
    """Validated response in the form used by the models."""

    y: np.ndarray  # (n,) centred if requested, scaled by a unit, times the root weights
    yy: float  # y'y, at least of the order of rounding
    n: float  # number of observations: number of rows, or sum of the row weights
    values: np.ndarray  # original values of the rows with positive weight
    root: np.ndarray | None  # square roots of the row weights
    column: Columns  # mean (0 if not centred) and unit of the response


def prepare_response(
    values: np.ndarray, centred: bool, weights: np.ndarray | None = None
) -> Response:
    """Centre and weight a validated response; drop rows of weight zero."""
    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    top, bottom = float(values.max()), float(values.min())
    largest = max(top, -bottom)
    if largest and not SMALLEST_UNIT <= largest <= LARGEST_UNIT:
        raise InputError(
            f"y must have a largest absolute value between {SMALLEST_UNIT:g} and "
            f"{LARGEST_UNIT:g}, got {largest:.3g}. Multiply y by a constant."
        )
    unit = unit_of(largest)
    y, centre = values / unit, 0.0
    if centred:
        for _ in range(2):  # The second iteration removes the rounding error of the first.
            mean = float(np.average(y, weights=weights))
            y, centre = y - mean, centre + mean
        if top == bottom:
            y = np.zeros_like(y)
    n, root = float(y.size), None
    if weights is not None:
        n, root = float(weights.sum()), np.sqrt(weights)
        y = root * y
    rounding = n * np.finfo(float).eps ** 2
    column = Columns(np.array([centre * unit]), np.ones(1), unit, np.array([top != bottom]))
    n = round(n) if n == round(n) else n
    return Response(y, max(float(y @ y), rounding), n, values, root, column)


def count_distinct_rows(op: Operator, response: Response) -> int:
    """Count the distinct pairs of a row of ``op`` and its response.

    This number of variables fits the response exactly, regardless of repeated pairs. Rows are
    compared by their products with one random direction.
    """
    direction = np.random.default_rng(0).standard_normal((op.shape[1], 1))
    projected = np.asarray(op.matmul(direction), dtype=float)[:, 0]
    if response.root is not None:
        projected = projected / response.root
    order = np.lexsort((projected, response.values))
    rounding = ROUNDING_FACTOR * op.epsilon * float(np.abs(projected).max(initial=0.0))
    differs = np.diff(projected[order]) > rounding
    return 1 + int(np.count_nonzero(differs | (np.diff(response.values[order]) > 0.0)))


def count_informative_rows(op: Operator, response: Response) -> float:
    """Count the observations that limit the size of a model.

    With more variables than distinct rows, repeated and weighted rows do not help to separate
    signal from noise, and only distinct rows count.
    """
    distinct = count_distinct_rows(op, response)
    return response.n if op.shape[1] <= distinct else min(response.n, distinct)


def check_response(y: ArrayLike, n: int) -> np.ndarray:
    """Validate a response with one finite number for each of the n rows."""
    try:
        values = _as_float_vector(y)
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"`y` must contain one number for each row of X: {end_sentence(error)}"
        ) from error
    if values.size != n:
        raise InputError(
            "X and y must have one row per sample: Found input variables with inconsistent "
            f"numbers of samples: {[n, values.size]}."
        )
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values))
        problem = "NaN" if np.isnan(values[bad]).any() else "infinity"
        raise InputError(
            f"Input y contains {problem}: {plural(bad.size, 'value')}, first in row {bad[0]}. "
            "Drop these rows."
        )
    return values


def is_multi_output(y: ArrayLike) -> bool:
    """Return whether y has more than one column."""
    shape = getattr(y, "shape", None)
    if shape is not None:
        return len(shape) == 2 and int(shape[1]) > 1
    # Rows of different lengths raise an error in `check_responses`.
    return isinstance(y, list | tuple) and len(y) > 0 and all(_has_several_values(row) for row in y)


def _has_several_values(row: object) -> bool:
    if isinstance(row, np.ndarray):
        return row.ndim == 1 and row.size > 1
    return isinstance(row, list | tuple) and len(row) > 1


def check_responses(y: ArrayLike, n: int) -> np.ndarray:
    """Validate several responses and convert them to an array (n, m)."""
    try:
        values = np.asarray(y, dtype=float) if not np.ma.is_masked(y) else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(
            f"`y` must contain numbers for each row of X: {end_sentence(error)}"
        ) from error
    if values is None:
        raise InputError("`y` must contain numbers for each row of X: some values are masked.")
    if np.iscomplexobj(y):
        raise InputError("`y` must contain real numbers, got complex numbers.")
    return np.column_stack([check_response(column, n) for column in values.T])


def _as_float_vector(y: ArrayLike) -> np.ndarray:
    """Convert y to a vector of floats.

    Masked values, dates and times raise an error.
    """
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "fiu":
        return np.asarray(y, dtype=float)
    if np.ma.is_masked(y) or (
        isinstance(y, list | tuple) and any(value is np.ma.masked for value in y)
    ):
        raise ValueError("some values are masked")
    values = column_or_1d(y, warn=True)
    if values.dtype.kind in "mM":
        raise TypeError("the values are dates or times")
    return np.asarray(values, dtype=float)
