"""Formatting of numbers and names in sentences."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

_MAX_RATIO = 1e9  # larger ratios are described in words


def percent(value: float | None, digits: int = 1) -> str:
    """Format a proportion as a percentage; None and NaN are unknown.

    Proportions below 1 are never rounded to 100%, and positive proportions never to 0%.
    """
    if value is None or not math.isfinite(value):
        return "unknown"
    if value in (0.0, 1.0):
        return f"{value:.0%}"
    smallest = 10.0**-digits
    text = f"{value:.{digits}%}"
    if 0.0 < value < 1.0 and text == f"{1:.{digits}%}":
        return f"more than {100.0 - smallest:.{digits}f}%"
    if 0.0 < value < 1.0 and text == f"{0:.{digits}%}":
        return f"less than {smallest:.{digits}f}%" if digits else "less than 1%"
    return text


def format_ratio(factor: float) -> str:
    """Format a ratio with two digits: "1.3 times", "over a billion times"."""
    if factor >= _MAX_RATIO:
        return "over a billion times"
    rounded = float(f"{factor:.2g}")
    return f"{rounded:,.0f} times" if rounded >= 10.0 else f"{rounded:g} times"


def format_mean(value: float) -> str:
    """Format a mean of counts with two digits, or as an integer from ten on."""
    return f"{value:,.0f}" if value >= 10.0 else f"{float(f'{value:.2g}'):g}"


def quote_name(name: Any) -> str:
    """Quote names with spaces or punctuation for use in a sentence."""
    text = str(name)
    plain = text.replace("_", "").replace("-", "").replace(".", "").isalnum()
    return text if plain else f"“{text}”"


def join_items(items: Sequence[str]) -> str:
    """Join items: "a", "a and b", "a, b and c"."""
    return " and ".join(filter(None, [", ".join(items[:-1]), *items[-1:]]))


def list_items(items: Sequence[str], limit: int = 5) -> str:
    """Join the first items of a list: "a, b and 7 others"."""
    n_others = len(items) - limit
    if n_others > 1:
        return f"{', '.join(items[:limit])} and {n_others:,} others"
    return join_items(items)


def truncate(text: str, length: int) -> str:
    """Truncate a text that is longer than ``length`` characters."""
    return text if len(text) <= length else f"{text[: length - 1]}…"
