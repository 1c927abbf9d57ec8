"""How raw columns relate to the operator's columns."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

from ..errors import InputError

Array = Any

LARGEST_UNIT = 1e152
SMALLEST_UNIT = 1e-152


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


def unit_of(largest: float) -> float:
    """The power of two next to ``largest``: dividing by it is exact."""
    if largest == 0.0:
        return 1.0
    if not SMALLEST_UNIT <= largest <= LARGEST_UNIT:
        raise InputError(
            f"X deviates from its column means by up to {largest:.3g}, and the square of that "
            f"cannot be represented. Deviations between {SMALLEST_UNIT:g} and {LARGEST_UNIT:g} "
            "are allowed: multiply X by a constant."
        )
    return 2.0 ** math.frexp(largest)[1]
