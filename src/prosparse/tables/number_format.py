"""Parsing of the numbers in the cells of a file."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import NamedTuple

from .missing_codes import MISSING
from .percentages import SIGN

THOUSANDS = {"point": ".", "comma": ",", "space": " ", "apostrophe": "'"}
_SPACES = "\u00a0\u202f\u2009"  # spaces that separate thousands
# Numbers with both marks, of which the first separates thousands.
_BOTH_MARKS = {
    ",": re.compile(r"[-+]?\d{1,3}(?:\.\d{3})+,\d*"),
    ".": re.compile(r"[-+]?\d{1,3}(?:,\d{3})+\.\d*"),
}


class NumberFormat(NamedTuple):
    """Format of the numbers of a file.

    ``decimal`` is "." or ",", or "mixed" if both are decimal marks. ``thousands`` is the thousands
    separator, if any, and ``missing`` contains the codes for missing values.
    """

    decimal: str = "."
    thousands: str = ""
    missing: frozenset[str] = frozenset(MISSING)

    def parse(self, cell: str) -> float | None:
        """Parse the number in a cell: NaN if missing, None if not numeric."""
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
        """Parse the cells of a row; also return whether all are plain numbers."""
        if self.decimal == "." and not self.thousands and "_" not in "".join(cells):
            try:
                return list(map(float, cells)), True
            except ValueError:
                pass
        return [self.parse(cell) for cell in cells], False


def _remove_thousands(text: str, mark: str) -> str:
    if mark == " ":
        for space in _SPACES:
            text = text.replace(space, " ")
    group = re.escape(mark)
    pattern = rf"([-+]?\d{{1,3}}(?:{group}\d{{3}})+)([.,]\d*)?"
    match = re.fullmatch(pattern, text)
    return text if match is None else match[1].replace(mark, "") + (match[2] or "")


def has_both_marks(cell: str, decimal: str) -> bool:
    """Return whether a number has a thousands separator and a decimal mark."""
    pattern = _BOTH_MARKS.get(decimal)
    return pattern is not None and pattern.fullmatch(cell.strip()) is not None
