"""Standardisation of the columns of a data matrix.

A container computes extremes, sums and sums of squares of its columns (`RawRows`) and is converted
to an operator. For all containers, this module determines which columns are constant, which
matrices raise an error, and how columns are centred and scaled.

The columns of the operator are centred, optionally scaled, and of magnitude near 1. `Columns`
converts results of models back to the columns and units of the data matrix.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import InputError, plural
from .arrays import Array, from_numpy, to_numpy

if TYPE_CHECKING:
    from .operators.base import Operator


class Range(NamedTuple):
    """Allowed range of the largest deviation of a column from the mean."""

    smallest: float
    largest: float


# Squares of deviations and their sums must be finite and nonzero, also in the units of the data.
SMALLEST_UNIT, LARGEST_UNIT = 1e-152, 1e152
UNITS = {"float64": Range(SMALLEST_UNIT, LARGEST_UNIT), "float32": Range(1e-17, 1e17)}
# If each column is scaled, only ratios must be representable.
SCALES = {"float64": Range(1e-300, 1e300), "float32": Range(1e-36, 1e36)}
PRECISIONS = {"float64": "double", "float32": "single"}

# A column is constant if its range is below this proportion of its magnitude. In double precision,
# this is the rounding error of thousands of additions, far below any measurement error. In single
# precision, all but the last digits are often meaningful, so that the proportion is close to the
# machine precision.
ROUNDING = {"float64": 2.0**-45, "float32": 2.0**-20}

# Maximum ratio of the mean to the largest deviation of a sparse column. Sparse products are centred
# by subtraction, and above this ratio the Gram matrix has fewer than six accurate digits.
MAX_RELATIVE_MEAN = 1e5


class Extent(NamedTuple):
    """Extremes and sums of the raw columns."""

    low: np.ndarray  # (p,) smallest entries
    high: np.ndarray  # (p,) largest entries
    sums: np.ndarray  # (p,) (weighted) sums
    observed: np.ndarray | float  # number of observations in each sum; a number or (p,)


class Deviations(NamedTuple):
    """Sums over rows of (x - centre) / size and of its squares."""

    sums: np.ndarray  # (p,)
    squares: np.ndarray  # (p,)


class RawRows(Protocol):
    """Raw data that can be standardised; results are float64 arrays (p,)."""

    like: Array  # array of the library, device and precision of the results
    given: str  # "float64" or "float32": precision of the data
    working: str  # precision in which the data are centred
    centred_in_products: bool  # whether rows stay sparse and each product is centred

    def extent(self) -> Extent:
        """Compute extremes and sums of the columns."""

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        """Sum the deviations and their squares; ``size`` contains powers of two."""

    def operator(self, index: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        """Return (X[:, index] - shift) * factor; may change the rows in place."""


class Columns(NamedTuple):
    """Conversion between a data matrix and its operator.

    An entry z of the operator corresponds to the entry x = mean + scale * unit * z. ``unit`` is a
    power of two near the largest deviation, so that squares of entries of 1e150 or 1e-150 neither
    overflow nor underflow.
    """

    mean: Array  # (p,)
    scale: Array  # (p,) ones unless the columns were scaled
    unit: float
    varying: Array  # (p,) bool

    @property
    def varying_index(self) -> np.ndarray:
        """Positions of the columns that vary, as a NumPy array."""
        return np.flatnonzero(to_numpy(self.varying))

    # --- from the operator's units to those of the data

    def length(self, values: Any) -> Any:
        """Convert loadings and standard deviations to the units of the data."""
        return self.unit * values

    def variance(self, values: Any) -> Any:
        """Convert variances to the units of the data."""
        return self.unit**2 * values

    def log_density(self, values: Any, entries: float) -> Any:
        """Convert log densities of ``entries`` values to the units of the data."""
        return values - entries * math.log(self.unit)

    # --- from the units of the data to the operator's

    def per_length(self, values: Any) -> Any:
        """Convert multipliers of loadings (l1 penalties) to the operator's unit."""
        return self.unit * values

    def per_variance(self, values: Any) -> Any:
        """Convert multipliers of variances (precisions) to the operator's unit."""
        return self.unit**2 * values

    # --- to the array library of the data

    def numbers(self, values: Any) -> Array:
        """Convert values to the array library and the precision of the data."""
        return from_numpy(values, self.mean, self.mean.dtype)

    def values(self, values: Any) -> Array:
        """Convert values to the array library of the data; keep the dtype."""
        return from_numpy(values, self.mean)


def standardise_rows(
    rows: RawRows, scale: bool = False, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Standardise raw rows and drop the constant columns.

    Without ``centre``, for models without an intercept, columns are scaled by their root mean
    square and only columns of zeros are constant.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # non-finite columns raise an error below
        low, high, total, count = rows.extent()
        _check_finite(low, high)
        # The mean is between the extremes, even if the sum overflows.
        mean = np.clip(_mean(total, count), low, high) if centre else np.zeros(low.size)
        mean = mean.astype(rows.working).astype(float)
        largest = np.maximum(high - mean, mean - low)
    varying = ~_constant(low, high, rows.given) if centre else largest > 0.0
    largest = np.where(varying, largest, 0.0)
    unit = 1.0
    if not scale:
        column = int(np.argmax(largest)) if largest.size else 0
        unit = unit_of(float(largest.max(initial=0.0)), rows.working, f"Column {column}")
    if scale:
        check_range(largest, SCALES[rows.working], rows.working, varying)
    if rows.centred_in_products and centre:
        _check_near_zero(mean, largest, varying)
    # Division by powers of two is exact. If the columns are scaled, each column has its own power
    # of two.
    size = np.ldexp(1.0, np.frexp(largest)[1]) if scale else np.full(low.size, unit)
    size = np.where(varying, size, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # constant columns are dropped below
        rest, squares = rows.deviations(mean, size)
        if centre:  # corrects the rounding of the first mean
            squares = np.maximum(squares - rest**2 / count, 0.0)
            mean = np.where(varying, mean + size * rest / count, mean)
        deviation = np.where(varying, size * np.sqrt(squares / count), 1.0)
    deviation = deviation if scale else np.ones(low.size)
    index = np.flatnonzero(varying)
    factor = 1.0 / (deviation[index] * unit)
    op = rows.operator(index, mean[index], factor)
    op.remember_column_squares(squares[index] * (size[index] * factor) ** 2)
    like = rows.like
    return op, Columns(
        from_numpy(mean, like, like.dtype),
        from_numpy(deviation, like, like.dtype),
        unit,
        from_numpy(varying, like),
    )


def restandardise_rows(
    rows: RawRows, columns: Columns, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """Centre raw rows at their new weighted means and keep their scales."""
    index = columns.varying_index
    mean, scale = to_numpy(columns.mean).astype(float), to_numpy(columns.scale).astype(float)
    low, high, total, count = rows.extent()
    if centre:
        mean = np.where(to_numpy(columns.varying), np.clip(_mean(total, count), low, high), mean)
    size = np.ldexp(1.0, np.frexp(scale * columns.unit)[1])
    rest, _ = rows.deviations(mean, size)
    if centre:  # corrects the rounding of the first mean
        mean = np.where(to_numpy(columns.varying), mean + size * rest / count, mean)
    op = rows.operator(index, mean[index], 1.0 / (scale[index] * columns.unit))
    like = rows.like
    return op, columns._replace(mean=from_numpy(mean, like, like.dtype))


def _mean(total: np.ndarray, count: np.ndarray | float) -> np.ndarray:
    """Divide sums by counts; NaN becomes 0 and raises an error later."""
    return np.nan_to_num(total / count, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _constant(low: np.ndarray, high: np.ndarray, precision: str) -> np.ndarray:
    """Mask the columns that vary by no more than rounding errors."""
    half_size = np.maximum(0.5 * np.abs(low), 0.5 * np.abs(high))
    with np.errstate(over="ignore"):  # an infinite range is not constant
        return ~(0.5 * high - 0.5 * low > ROUNDING[precision] * half_size)


def _check_finite(low: np.ndarray, high: np.ndarray) -> None:
    """Raise an error if a column has non-finite extremes."""
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if bad.size:
        what = "NaN" if np.isnan(low[bad[0]] + high[bad[0]]) else "infinity"
        raise InputError(
            f"Input X contains {what} in {plural(bad.size, 'column')}, first in column {bad[0]}. "
            "Drop these columns or the affected rows, or impute the values."
        )


def _check_near_zero(mean: np.ndarray, largest: np.ndarray, varying: np.ndarray) -> None:
    """Raise an error for sparse columns with large means and small deviations."""
    far = np.flatnonzero(varying & (np.abs(mean) / MAX_RELATIVE_MEAN > largest))
    if far.size:
        raise InputError(
            f"The sparse X has {plural(far.size, 'column')} whose mean is more than "
            f"{MAX_RELATIVE_MEAN:g} times the largest deviation, such as column {far[0]}. "
            "Centring such columns in sparse products is inaccurate. Subtract a constant, or pass "
            "X as a dense array."
        )


def check_range(
    largest: np.ndarray, allowed: Range, precision: str, varying: np.ndarray, name: str = ""
) -> None:
    """Check that the largest deviations of varying columns are in the range."""
    bad = np.flatnonzero(varying & ~((largest >= allowed.smallest) & (largest <= allowed.largest)))
    if bad.size:
        remedy = "" if precision == "float64" else ", or convert it to double precision"
        raise InputError(
            f"{name or f'Column {bad[0]}'} of X deviates from its mean by "
            f"{float(largest[bad[0]]):.3g}. In {PRECISIONS[precision]} precision, deviations must "
            f"be between {allowed.smallest:g} and {allowed.largest:g}: multiply X by a "
            f"constant{remedy}."
        )


def unit_of(largest: float, precision: str = "float64", name: str = "A column") -> float:
    """Return the power of two above the largest deviation; 1 if that is 0."""
    if largest == 0.0:
        return 1.0
    check_range(np.array([largest]), UNITS[precision], precision, np.ones(1, dtype=bool), name)
    return 2.0 ** math.frexp(largest)[1]
