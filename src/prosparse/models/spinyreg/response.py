"""The response of a regression: checked, centred, and in a unit near its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from ...data import Columns, Operator
from ...data.columns import LARGEST_UNIT, SMALLEST_UNIT, unit_of
from ...errors import InputError

SAME_ROW = 1e4  # times the rounding of a product, by which rows that are the same may differ


class Response(NamedTuple):
    """A response as the model sees it."""

    y: np.ndarray  # centred if asked, in a unit near its size, times the roots of the weights
    yy: float  # y'y, at least rounding
    n: float  # observations: the number of rows, or the sum of their weights
    values: np.ndarray  # as they were given, of the rows that count
    root: np.ndarray | None  # of the weights, if there are any
    column: Columns  # of one column: its mean (0 if not centred), and the way back to its unit


def response_of(values: np.ndarray, centred: bool, weights: np.ndarray | None = None) -> Response:
    """The response for the model; ``values`` and ``weights`` are checked.

    A row of weight w counts w times; one of weight zero is left out.
    """
    if weights is not None:
        values, weights = values[weights > 0], weights[weights > 0]
    top, bottom = float(values.max()), float(values.min())
    largest = max(top, -bottom)
    if largest and not SMALLEST_UNIT <= largest <= LARGEST_UNIT:
        raise InputError(
            f"y has values of size {largest:.3g}, which double precision cannot handle. Sizes "
            f"between {SMALLEST_UNIT:g} and {LARGEST_UNIT:g} are allowed: multiply y by a "
            "constant."
        )
    unit = unit_of(largest)
    y, centre = values / unit, 0.0
    if centred:
        for _ in range(2):  # the first mean carries rounding
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
    return Response(y, max(float(y @ y), rounding), whole_if_near(n), values, root, column)


def distinct_rows(op: Operator, response: Response) -> int:
    """How many different pairs of a row of ``op`` and its response there are: so many variables
    fit them exactly, however often each is there.

    Rows are compared by their products with one random direction.
    """
    direction = np.random.default_rng(0).standard_normal((op.shape[1], 1))
    along = np.asarray(op.matmul(direction), dtype=float)[:, 0]
    if response.root is not None:
        along = along / response.root
    order = np.lexsort((along, response.values))
    rounding = SAME_ROW * op.epsilon * float(np.abs(along).max(initial=0.0))
    other = np.diff(along[order]) > rounding
    return 1 + int(np.count_nonzero(other | (np.diff(response.values[order]) > 0.0)))


def telling_rows(op: Operator, response: Response) -> float:
    """How many observations limit the number of variables: all of them, or, of more variables than
    that, the different rows alone, which copies and weights do not help to tell from noise."""
    different = distinct_rows(op, response)
    return response.n if op.shape[1] <= different else min(response.n, different)


def whole_if_near(n: float) -> float:
    """A sum of weights, as an integer where it is one: it counts observations."""
    return round(n) if n == round(n) else n


def checked_response(y: ArrayLike, n: int) -> np.ndarray:
    """One finite number for each of the n rows."""
    try:
        values = _numbers(y)
    except (TypeError, ValueError, OverflowError) as error:  # words, objects, many columns
        raise InputError(f"y must hold one number for each row of X: {error}") from error
    if values.size != n:
        raise InputError(
            "X and y must have one row per sample: Found input variables with inconsistent "
            f"numbers of samples: {[n, values.size]}"
        )
    if not np.isfinite(values).all():
        bad = np.flatnonzero(~np.isfinite(values))
        what = "NaN" if np.isnan(values[bad]).any() else "infinity"
        raise InputError(
            f"Input y contains {what}: {bad.size} value(s), the first in row {bad[0]}. Drop "
            "these rows."
        )
    return values


def holds_several(y: ArrayLike) -> bool:
    """Whether y has more than one column."""
    shape = getattr(y, "shape", None)
    if shape is not None:
        return len(shape) == 2 and int(shape[1]) > 1
    # rows of different length are refused later
    return isinstance(y, list | tuple) and len(y) > 0 and all(_is_long(row) for row in y)


def _is_long(row: object) -> bool:
    if isinstance(row, np.ndarray):
        return row.ndim == 1 and row.size > 1
    return isinstance(row, list | tuple) and len(row) > 1


def checked_responses(y: ArrayLike, n: int) -> np.ndarray:
    """(n, m) finite numbers, m of them for each of the n rows."""
    try:
        table = np.asarray(y, dtype=float) if not np.ma.is_masked(y) else None
    except (TypeError, ValueError, OverflowError) as error:
        raise InputError(f"y must hold numbers for each row of X: {error}") from error
    if table is None:
        raise InputError("y must hold numbers for each row of X: some values are masked")
    if np.iscomplexobj(y):
        raise InputError("y must hold numbers for each row of X, not complex ones")
    return np.column_stack([checked_response(column, n) for column in table.T])


def _numbers(y: ArrayLike) -> np.ndarray:
    """One number per sample, from whatever holds them."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "fiu":
        return np.asarray(y, dtype=float)
    if np.ma.is_masked(y) or (
        isinstance(y, list | tuple) and any(value is np.ma.masked for value in y)
    ):
        raise ValueError("some values are masked")
    values = column_or_1d(y, warn=True)
    if values.dtype.kind in "mM":
        raise TypeError("these are dates or times")
    return np.asarray(values, dtype=float)
