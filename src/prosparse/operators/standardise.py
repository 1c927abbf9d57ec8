"""How raw columns relate to the operator's columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from ..errors import InputError

Array = Any

LARGEST_UNIT = 1e152
SMALLEST_UNIT = 1e-152
# With a scale of its own for every column only quotients matter.
LARGEST_SCALE = 1e300
SMALLEST_SCALE = 1e-300


class Columns(NamedTuple):
    """raw = mean + scale * unit * (operator's entry), on the columns that vary.

    Constant columns are left out of the operator: they carry no structure. ``unit`` is one
    number for the whole table, a power of two near its largest entry, so that squares of
    entries of 1e150 or 1e-150 neither overflow nor vanish.
    """

    mean: Array  # (p,)
    scale: Array  # (p,), ones unless scaling was asked for
    unit: float
    varying: Array  # (p,) bool


def check_range(largest: Array, smallest_allowed: float, largest_allowed: float) -> None:
    """Refuse deviations whose squares or quotients leave the range of doubles."""
    if largest.size and not (
        largest.min() >= smallest_allowed and largest.max() <= largest_allowed
    ):
        bad = ~((largest >= smallest_allowed) & (largest <= largest_allowed))
        worst = float(largest[bad][0])
        raise InputError(
            f"a column of X deviates from its mean by up to {worst:.3g}, which double precision "
            f"cannot handle. Deviations between {smallest_allowed:g} and {largest_allowed:g} are "
            "allowed: multiply X by a constant."
        )


def unit_of(largest: float) -> float:
    """The power of two next to ``largest``: dividing by it is exact."""
    if largest == 0.0:
        return 1.0
    if not SMALLEST_UNIT <= largest <= LARGEST_UNIT:
        check_range(np.array([largest]), SMALLEST_UNIT, LARGEST_UNIT)
    return 2.0 ** math.frexp(largest)[1]
