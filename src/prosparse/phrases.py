"""Numbers and names in sentences: one rule for each, wherever they are said."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_MANY_TIMES = 1e9


def percent(value: float | None, digits: int = 1) -> str:
    """A share in per cent. What is not all is never said to be 100 %, nor what is something 0 %.

    Parameters
    ----------
    value : float or None
        A share; None or NaN if it is not known.
    digits : int, default=1
        After the point.

    Returns
    -------
    str
    """
    if value is None or not math.isfinite(value):
        return "not known"
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    least = 10.0**-digits
    text = f"{value:.{digits}%}"
    if 0.0 < value < 1.0 and text == f"{1:.{digits}%}":
        return f"more than {100.0 - least:.{digits}f}%"
    if 0.0 < value < 1.0 and text == f"{0:.{digits}%}":
        return f"less than {least:.{digits}f}%" if digits else "less than 1%"
    return text


def times(factor: float) -> str:
    """How many times, with two digits: "1.3 times", "400,000 times", "over a billion times"."""
    if factor >= _MANY_TIMES:
        return "over a billion times"
    rounded = float(f"{factor:.2g}")
    return f"{rounded:,.0f} times" if rounded >= 10.0 else f"{rounded:g} times"


def number(value: float) -> str:
    """A mean of counts: whole numbers from ten on, else two digits."""
    return f"{value:,.0f}" if value >= 10.0 else f"{float(f'{value:.2g}'):g}"


def quoted(name: Any) -> str:
    """A name in a sentence; one with spaces or commas in quotation marks."""
    text = str(name)
    plain = text.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return text if plain else f"“{text}”"


def listed(items: Sequence[str]) -> str:
    """ "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))
