"""The response of a regression: checked, centred, and in a unit near its size."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import column_or_1d

from ...data import Columns
from ...data.columns import LARGEST_UNIT, SMALLEST_UNIT, unit_of
from ...errors import InputError


class Response(NamedTuple):
    """A response as the model sees it."""

    y: np.ndarray  # (n,) centred if asked, in a unit near its size
    yy: float  # y'y, at least rounding
    column: Columns  # of one column: its mean (0 if not centred), and the way back to its unit


def response_of(values: np.ndarray, centred: bool) -> Response:
    """The response for the model; ``values`` are checked."""
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
            mean = float(y.mean())
            y, centre = y - mean, centre + mean
        if top == bottom:
            y = np.zeros_like(y)
    rounding = y.size * np.finfo(float).eps ** 2
    column = Columns(np.array([centre * unit]), np.ones(1), unit, np.array([top != bottom]))
    return Response(y, max(float(y @ y), rounding), column)


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
