"""Numbers in the cells of a file."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import NamedTuple

import numpy as np

from ..errors import plural
from ..phrases import list_items
from .missing_codes import MISSING
from .percentages import SIGN

CENSORED = ("half", "lod", "missing")  # values of --censored
THOUSANDS = {"point": ".", "comma": ",", "space": " ", "apostrophe": "'"}
_SPACES = "\u00a0\u202f\u2009"  # that separate thousands
# Numbers with both marks: the first one separates thousands.
_BOTH_MARKS = {
    ",": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+,\d*"),
    ".": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+\.\d*"),
}
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

    limit: float  # NaN if the cell does not state it
    above: bool


class NumberFormat(NamedTuple):
    """Format of the numbers of a file.

    ``decimal`` is "." or ",", or "mixed" if both are decimal marks. ``thousands`` is the thousands
    separator, if any, and ``missing`` contains the codes for missing values.
    """

    decimal: str = "."
    thousands: str = ""
    missing: frozenset[str] = frozenset(MISSING)

    def parse(self, cell: str) -> float | None:
        """Return the number in a cell, NaN if missing and None if not numeric."""
        text = cell.strip()
        if text in self.missing:
            return float("nan")
        if "_" in text:
            return None
        is_percentage = text.endswith(SIGN)
        text = text[:-1] if is_percentage else text
        if self.thousands:
            text = _remove_thousands(text, self.thousands)
        elif self.decimal in _BOTH_MARKS and _BOTH_MARKS[self.decimal].fullmatch(text):
            text = text.replace("." if self.decimal == "," else ",", "")
        if self.decimal == "," and "." in text:
            return None
        if self.decimal in (",", "mixed"):
            text = text.replace(",", ".")
        try:
            value = float(text)
        except ValueError:
            return None
        return value / 100 if is_percentage else value

    def parse_all(self, cells: Sequence[str]) -> tuple[list[float | None], bool]:
        """Parse all cells of a row; return them and whether all are plain numbers."""
        if self.decimal == "." and not self.thousands and "_" not in "".join(cells):
            try:
                return list(map(float, cells)), True
            except ValueError:
                pass
        return [self.parse(cell) for cell in cells], False

    def parse_censored(self, cell: str) -> CensoredValue | None:
        """Return the limit in a cell such as ``<0.5`` or ``<LOD``, or None."""
        match = _CENSORED.fullmatch(cell.strip())
        if match is None:
            return None
        limit = match["limit"]
        sign = match["sign"] or "<"
        value = float("nan") if limit is None else self.parse(limit)
        return CensoredValue(float("nan") if value is None else value, sign[0] in ">\u2265")


def _remove_thousands(text: str, mark: str) -> str:
    if mark == " ":
        for space in _SPACES:
            text = text.replace(space, " ")
    group = re.escape(mark)
    pattern = rf"([-+]?\d{{1,3}}(?:{group}\d{{3}})+)([.,]\d*)?"
    match = re.fullmatch(pattern, text)
    return text if match is None else match[1].replace(mark, "") + (match[2] or "")


def has_both_marks(cell: str, decimal: str) -> bool:
    """Return whether a number contains a thousands separator and a decimal mark."""
    pattern = _BOTH_MARKS.get(decimal)
    return pattern is not None and pattern.fullmatch(cell.strip()) is not None


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


def split_codes(values: Iterable[str]) -> tuple[str, ...]:
    """Split the values of --na at commas."""
    return tuple(part.strip() for value in values for part in value.split(",") if part.strip())


def numeric_codes(codes: Iterable[str]) -> list[float]:
    """Return the codes that are numbers."""
    numbers = []
    for code in codes:
        try:
            numbers.append(float(code))
        except ValueError:
            continue
    return numbers
