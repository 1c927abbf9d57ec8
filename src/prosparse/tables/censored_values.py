"""Replacement of values beyond a detection limit (``<0.5``, ``<LOD``)."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from ..errors import plural
from ..phrases import list_items
from .number_format import NumberFormat

CENSORED = ("half", "lod", "missing")  # values of --censored
_NUMBER = r"[-+]?\d+(?:[.,]\d+)?(?:[eE][-+]?\d+)?"
_LIMIT_NAME = (
    r"l\.?o\.?d\.?|l\.?o\.?q\.?|l?lloq|uloq|m?dl|b\.?\s?d\.?\s?l\.?|b\.?\s?l\.?\s?d\.?|b\.?d\.?|"
    r"bql|blq|below (?:the )?(?:limit of )?(?:detection|quantification)(?: limit)?|"
    r"detection limit|limit|nwg|n\.w\.g\."
)
_CENSORED = re.compile(
    rf"(?P<sign>[<>\u2264\u2265]=?)\s*(?P<limit>{_NUMBER})?\s*(?:{_LIMIT_NAME})?\s*|(?:{_LIMIT_NAME})",
    re.IGNORECASE,
)


class CensoredValue(NamedTuple):
    """Value below or above a limit."""

    limit: float  # NaN if the cell states no number
    above: bool


def parse_censored(cell: str, number_format: NumberFormat) -> CensoredValue | None:
    """Return the limit in a cell such as ``<0.5`` or ``<LOD``, or None."""
    match = _CENSORED.fullmatch(cell.strip())
    if match is None:
        return None
    limit = match["limit"]
    sign = match["sign"] or "<"
    value = float("nan") if limit is None else number_format.parse(limit)
    return CensoredValue(float("nan") if value is None else value, sign[0] in ">\u2265")


def is_censored(cell: str) -> bool:
    """Return whether a cell states a limit, such as ``<0.5`` or ``<LOD``."""
    return _CENSORED.fullmatch(cell.strip()) is not None


class CensoredCells:
    """Cells beyond a limit of detection, and their replacement."""

    def __init__(self, handling: str):
        self.handling = handling
        self.cells: list[tuple[int, int, CensoredValue]] = []

    def add(self, row: int, column: int, value: CensoredValue) -> None:
        """Register a cell; ``column`` is its position among the variables."""
        self.cells.append((row, column, value))

    def fill(self, X: np.ndarray, names: Sequence[str]) -> list[str]:
        """Fill the cells of ``X`` in place; return notes."""
        if not self.cells:
            return []
        values: dict[tuple[int, int], float] = {}
        if self.handling != "missing":
            extremes = {j: _observed_range(X[:, j]) for _, j, _ in self.cells}
            values = {(row, j): self._value(value, *extremes[j]) for row, j, value in self.cells}
        for (row, j), number in values.items():
            X[row, j] = number
        columns = list(dict.fromkeys(j for _, j, _ in self.cells))
        listed = list_items([repr(names[j]) for j in columns], 3)
        count = plural(len(self.cells), "value")
        verb = {
            "half": "set to half the limit of detection",
            "lod": "set to the limit of detection",
            "missing": "read as missing",
        }[self.handling]
        return [
            f"{count} below or above a limit in {plural(len(columns), 'column')} ({listed}) "
            f"{'was' if len(self.cells) == 1 else 'were'} {verb}; without a stated limit, the "
            "smallest value of the column is the limit"
            if self.handling != "missing"
            else f"{count} below or above a limit in {plural(len(columns), 'column')} "
            f"({listed}) {'was' if len(self.cells) == 1 else 'were'} {verb}"
        ]

    def _value(self, value: CensoredValue, smallest: float, largest: float) -> float:
        if value.above:
            return largest if np.isnan(value.limit) else value.limit
        limit = smallest if np.isnan(value.limit) else value.limit
        return limit / 2.0 if self.handling == "half" and limit > 0.0 else limit


def _observed_range(column: np.ndarray) -> tuple[float, float]:
    observed = column[~np.isnan(column)]
    if not observed.size:
        return float("nan"), float("nan")
    return float(observed.min()), float(observed.max())
