"""The columns of a table: means, scales, units. One standardiser for every kind of table.

A kind of table says how to measure its columns (`RawRows`: smallest and largest entries, sums,
sums of squares) and how to become an operator. What to do with the measurements, which columns
count as constant, which tables are refused, is decided here, once, for all of them.

Models work on the operator's columns, which are centred, perhaps scaled, and in a unit near
one. `Columns` is the record that leads back to the table's own columns and units; nothing else
undoes units.
"""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from ..errors import InputError
from .arrays import Array, from_numpy, to_numpy

if TYPE_CHECKING:
    from .operators.base import Operator


class Range(NamedTuple):
    """Deviations that can be handled: all between the two numbers."""

    smallest: float
    largest: float


# Squares and their sums must stay numbers, also where results are given back.
SMALLEST_UNIT, LARGEST_UNIT = 1e-152, 1e152
UNITS = {"float64": Range(SMALLEST_UNIT, LARGEST_UNIT), "float32": Range(1e-17, 1e17)}
# With a scale of its own for every column only quotients matter.
SCALES = {"float64": Range(1e-300, 1e300), "float32": Range(1e-36, 1e36)}
PRECISIONS = {"float64": "double", "float32": "single"}

# A column whose entries differ by less than this share of their size is constant: the sums and
# quotients that made it explain the difference. In double precision that is what thousands of
# additions in a row can leave, and far below what anything was ever measured to; single
# precision is used up to its last digits, so that only those are taken for rounding.
ROUNDING = {"float64": 2.0**-45, "float32": 2.0**-20}

# Sparse products are centred by subtraction: beyond this the Gram matrix keeps fewer than six
# digits.
FARTHEST_MEAN = 1e5


class Extent(NamedTuple):
    """What one pass over raw rows says of every column."""

    low: np.ndarray  # (p,) smallest entries
    high: np.ndarray  # (p,) largest entries
    sums: np.ndarray  # (p,) (weighted) sums
    observed: np.ndarray | float  # observations that these are sums of, the same for all or (p,)


class Deviations(NamedTuple):
    """Sums over rows of (x - centre) / size."""

    sums: np.ndarray  # (p,)
    squares: np.ndarray  # (p,)


class RawRows(Protocol):
    """A raw table that can be measured and standardised; one class for each kind of table.

    Measurements come to the host in double precision: they are as long as the table is wide.
    """

    like: Array  # an array of the library, device and precision in which results are given back
    given: str  # "float64" or "float32": the precision in which the entries came
    working: str  # the precision in which they are centred
    centred_in_products: bool  # sparse rows stay as they are and every product is centred

    def extent(self) -> Extent:
        """Smallest and largest entries and sums of the columns."""

    def deviations(self, centre: np.ndarray, size: np.ndarray) -> Deviations:
        """Sums and sums of squares after a first centring; ``size`` holds powers of two."""

    def operator(self, kept: np.ndarray, shift: np.ndarray, factor: np.ndarray) -> Operator:
        """(columns ``kept`` - shift) * factor, where ``shift`` and ``factor`` are for the kept
        columns. Called last: rows may be worked on in place."""


class Columns(NamedTuple):
    """raw = mean + scale * unit * (operator's entry), on the columns that vary.

    Constant columns are left out of the operator: they carry no structure. ``unit`` is one
    number for the whole table, a power of two near its largest deviation, so that squares of
    entries of 1e150 or 1e-150 neither overflow nor vanish.
    """

    mean: Array  # (p,)
    scale: Array  # (p,), ones unless scaling was asked for
    unit: float
    varying: Array  # (p,) bool

    @property
    def kept(self) -> np.ndarray:
        """Positions of the columns that vary, on the host."""
        return np.flatnonzero(to_numpy(self.varying))

    # --- from the operator's units to the table's

    def length(self, values: Any) -> Any:
        """Loadings and standard deviations, in the table's units."""
        return self.unit * values

    def variance(self, values: Any) -> Any:
        """Variances, in the table's units squared."""
        return self.unit**2 * values

    def log_density(self, values: Any, entries: float) -> Any:
        """Log densities of ``entries`` numbers of the table (or of loadings) at once."""
        return values - entries * math.log(self.unit)

    # --- from the table's units to the operator's

    def own_length(self, values: Any) -> Any:
        """Lengths of the table, such as singular values, in the operator's unit."""
        return values / self.unit

    def own_variance(self, values: Any) -> Any:
        """Sums of squares of the table, in the operator's unit squared."""
        return values / self.unit**2

    def per_length(self, values: Any) -> Any:
        """What multiplies loadings of the table, such as an l1 penalty, for the operator's."""
        return self.unit * values

    def per_variance(self, values: Any) -> Any:
        """What multiplies variances of the table, such as a precision, for the operator's."""
        return self.unit**2 * values

    # --- in kind

    def numbers(self, values: Any) -> Array:
        """Values of the table's own precision, where its arrays are."""
        return from_numpy(values, self.mean, self.mean.dtype)

    def values(self, values: Any) -> Array:
        """Integers, masks and double precision numbers, where the table's arrays are."""
        return from_numpy(values, self.mean)


def standardise_rows(
    rows: RawRows, scale: bool = False, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """The operator of a raw table without its constant columns, and the way back.

    Parameters
    ----------
    rows : RawRows
    scale : bool, default=False
        Divide every column by its standard deviation (its root mean square if not centred).
    centre : bool, default=True
        False: deviations are from zero, for models without an intercept, and only columns of
        zeros count as constant.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # refused below
        low, high, total, count = rows.extent()
        _refuse_not_finite(low, high)
        # A mean lies between the extremes, also where the sum is too large to be a number.
        mean = np.clip(_mean(total, count), low, high) if centre else np.zeros(low.size)
        mean = mean.astype(rows.working).astype(float)
        largest = np.maximum(high - mean, mean - low)
    varying = ~_constant(low, high, rows.given) if centre else largest > 0.0
    largest = np.where(varying, largest, 0.0)
    unit = 1.0
    if not scale:
        at = int(np.argmax(largest)) if largest.size else 0
        unit = unit_of(float(largest.max(initial=0.0)), rows.working, f"column {at}")
    if scale:
        check_range(largest, SCALES[rows.working], rows.working, varying)
    if rows.centred_in_products and centre:
        _refuse_far_from_zero(mean, largest, varying)
    # Powers of two, by which division is exact; per column where each has a scale of its own.
    size = np.ldexp(1.0, np.frexp(largest)[1]) if scale else np.full(low.size, unit)
    size = np.where(varying, size, 1.0)
    with np.errstate(over="ignore", invalid="ignore"):  # of constant columns, left out below
        rest, squares = rows.deviations(mean, size)
        if centre:  # the first mean carries rounding
            squares = np.maximum(squares - rest**2 / count, 0.0)
            mean = np.where(varying, mean + size * rest / count, mean)
        deviation = np.where(varying, size * np.sqrt(squares / count), 1.0)
    deviation = deviation if scale else np.ones(low.size)
    kept = np.flatnonzero(varying)
    factor = 1.0 / (deviation[kept] * unit)
    op = rows.operator(kept, mean[kept], factor)
    op.remember_column_squares(squares[kept] * (size[kept] * factor) ** 2)
    like = rows.like
    return op, Columns(
        from_numpy(mean, like, like.dtype),
        from_numpy(deviation, like, like.dtype),
        unit,
        from_numpy(varying, like),
    )


def reweighted_rows(
    rows: RawRows, columns: Columns, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """The operator of a table that was standardised before, in the same scales, now that its rows
    have other weights: they are centred by these.

    Parameters
    ----------
    rows : RawRows
        With the new weights.
    columns : Columns
        What they were standardised to.
    centre : bool, default=True
        False: deviations are from zero.
    """
    kept = columns.kept
    mean, scale = to_numpy(columns.mean).astype(float), to_numpy(columns.scale).astype(float)
    low, high, total, count = rows.extent()
    if centre:
        mean = np.where(to_numpy(columns.varying), np.clip(_mean(total, count), low, high), mean)
    size = np.ldexp(1.0, np.frexp(scale * columns.unit)[1])
    rest, _ = rows.deviations(mean, size)
    if centre:  # the first mean carries rounding
        mean = np.where(to_numpy(columns.varying), mean + size * rest / count, mean)
    op = rows.operator(kept, mean[kept], 1.0 / (scale[kept] * columns.unit))
    like = rows.like
    return op, columns._replace(mean=from_numpy(mean, like, like.dtype))


def _mean(total: np.ndarray, count: np.ndarray | float) -> np.ndarray:
    """Sums of numbers near the largest double can cancel to anything; such columns are refused
    for their size, for which any number between their extremes will do."""
    return np.nan_to_num(total / count, nan=0.0, posinf=np.inf, neginf=-np.inf)


def _constant(low: np.ndarray, high: np.ndarray, precision: str) -> np.ndarray:
    """Columns whose entries differ by no more than rounding of their size explains."""
    half_size = np.maximum(0.5 * np.abs(low), 0.5 * np.abs(high))
    with np.errstate(over="ignore"):  # then they differ
        return ~(0.5 * high - 0.5 * low > ROUNDING[precision] * half_size)


def _refuse_not_finite(low: np.ndarray, high: np.ndarray) -> None:
    """For rows that were not in memory when the table was validated."""
    bad = np.flatnonzero(~(np.isfinite(low) & np.isfinite(high)))
    if bad.size:
        what = "NaN" if np.isnan(low[bad[0]] + high[bad[0]]) else "infinity"
        raise InputError(
            f"Input X contains {what} in {bad.size:,} column(s), the first of them column "
            f"{bad[0]}: leave out these columns or the rows that have it, or fill missing values "
            "with column means first"
        )


def _refuse_far_from_zero(mean: np.ndarray, largest: np.ndarray, varying: np.ndarray) -> None:
    far = np.flatnonzero(varying & (np.abs(mean) / FARTHEST_MEAN > largest))
    if far.size:
        raise InputError(
            f"{far.size:,} column(s) of the sparse X, the first of them column {far[0]}, lie more "
            f"than {FARTHEST_MEAN:g} times their spread away from zero; centring them without "
            "making X dense would lose their digits. Subtract a constant first, or pass X as a "
            "dense array."
        )


def check_range(
    largest: np.ndarray, allowed: Range, precision: str, varying: np.ndarray, name: str = ""
) -> None:
    """Refuse deviations whose squares or quotients leave the range of a precision's numbers; only
    columns that vary have any."""
    bad = np.flatnonzero(varying & ~((largest >= allowed.smallest) & (largest <= allowed.largest)))
    if bad.size:
        advice = "" if precision == "float64" else ", or convert it to double precision"
        raise InputError(
            f"{name or f'column {bad[0]}'} of X deviates from its mean by up to "
            f"{float(largest[bad[0]]):.3g}, which "
            f"{PRECISIONS[precision]} precision cannot handle. Deviations between "
            f"{allowed.smallest:g} and {allowed.largest:g} are allowed: multiply X by a "
            f"constant{advice}."
        )


def unit_of(largest: float, precision: str = "float64", name: str = "a column") -> float:
    """The power of two next to ``largest``: dividing by it is exact. ``name`` is what the error
    calls the column that it is of."""
    if largest == 0.0:
        return 1.0
    check_range(np.array([largest]), UNITS[precision], precision, np.ones(1, dtype=bool), name)
    return 2.0 ** math.frexp(largest)[1]
