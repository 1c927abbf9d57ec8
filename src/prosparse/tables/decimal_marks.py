"""Detection of decimal marks and thousands separators.

``2,626`` is 2.626 with a decimal comma and 2626 with a thousands separator. With thousands
separators, three digits follow each mark, and one to three digits without a leading zero precede
the first. Numbers below a thousand, such as ``688``, have no mark. A single number that cannot have
thousands separators, such as ``0,25`` or ``1,5``, determines the use of the mark in the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum, auto
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import TableError, plural
from .base import name_column, quote

_SHORT = re.compile(r"[-+]?\d{1,3}")
_LONG = re.compile(r"[-+]?\d{4,}")
_DECIMALS = {mark: re.compile(rf"[-+]?\d*{re.escape(mark)}\d+(?:[eE][-+]?\d+)?") for mark in ".,"}
_THOUSANDS = {
    mark: re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+") for mark in ".,"
}
# Numbers with thousands separators, a currency or a percent sign.
_FORMATTED = re.compile(
    r"\(?[-+\u2212]?\s*(?:[$\u20ac\u00a3\u00a5]\s*)?"
    r"(?:\d{1,3}(?:[,.\s'\u2019]\d{3})+(?:[.,]\d+)?|(?:\d+(?:[.,]\d+)?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    r"\s*[%\u2030$\u20ac\u00a3\u00a5]?\)?"
)
_MARK_NAMES = {",": "comma", ".": "point"}


def find_decimal_mark(cells: Iterable[str], separator: str) -> str:
    """Return the decimal mark of the numbers in the cells."""
    if separator == ",":
        return "."
    commas = points = 0
    for cell in cells:
        text = cell.strip().removesuffix("%").rstrip()
        commas += _DECIMALS[","].fullmatch(text) is not None
        points += _DECIMALS["."].fullmatch(text) is not None
    return "," if commas > points else "."


def is_formatted_number(cell: str) -> bool:
    """Return whether a cell is a number such as ``1,234``, ``$5`` or ``12%``."""
    return _FORMATTED.fullmatch(cell.strip()) is not None


class MarkUse(Enum):
    """Use of a mark in a set of cells."""

    DECIMAL = auto()
    AMBIGUOUS = auto()  # some numbers may have thousands separators, and none determines the use
    UNUSED = auto()


def classify_mark(cells: Iterable[str], mark: str) -> MarkUse:
    """Determine the use of ``mark`` in the cells."""
    use = MarkUse.UNUSED
    for cell in cells:
        if mark in cell:
            if _THOUSANDS[mark].fullmatch(cell.strip()):
                use = MarkUse.AMBIGUOUS
            elif _DECIMALS[mark].fullmatch(cell.strip()):
                return MarkUse.DECIMAL
    return use


def replace_decimal_commas(cells: Sequence[Any], decimal: str | None) -> list[Any]:
    """Replace decimal commas by points in the texts of a column.

    If ``decimal`` is None, commas are replaced only if a number shows that they are decimal marks;
    in ``2,626``, the comma may separate thousands.
    """
    texts = [cell for cell in cells if isinstance(cell, str)]
    has_commas = (
        find_decimal_mark(texts, ";") == "," and classify_mark(texts, ",") is MarkUse.DECIMAL
    )
    if decimal == "." or not (decimal == "," or has_commas):
        return list(cells)
    return [
        cell.replace(",", ".")
        if isinstance(cell, str) and _DECIMALS[","].fullmatch(cell.strip())
        else cell
        for cell in cells
    ]


def contains_thousands(lines: Iterable[str], separator: str, mark: str) -> bool:
    """Return whether a cell of the lines may have thousands separators."""
    edge = rf'[{re.escape(separator)}"\s]'
    cell = re.compile(rf"(?:^|{edge}){_THOUSANDS[mark].pattern}(?=$|{edge})")
    return any(mark in line and cell.search(line) is not None for line in lines)


class _Column(NamedTuple):
    """Line and cell of the first number of each type in a column."""

    thousands: tuple[int, str] | None = None
    short: tuple[int, str] | None = None
    long: tuple[int, str] | None = None  # four or more digits in a row: no thousands separators


class ThousandsCheck:
    """Check of all numbers of a file for thousands separators."""

    def __init__(self, mark: str):
        self.mark = mark
        self.is_decimal = False  # whether some number proves that the mark is a decimal mark
        self.columns: dict[int, _Column] = {}

    def add_cell(self, column: int, line: int, cell: str) -> None:
        """Register a cell of the file."""
        if self.is_decimal:
            return
        text, seen = cell.strip(), self.columns.get(column, _Column())
        if _THOUSANDS[self.mark].fullmatch(text):
            seen = seen if seen.thousands else seen._replace(thousands=(line, text))
        elif _SHORT.fullmatch(text):
            seen = seen if seen.short else seen._replace(short=(line, text))
        elif _LONG.fullmatch(text):
            seen = seen if seen.long else seen._replace(long=(line, text))
        elif _DECIMALS[self.mark].fullmatch(text):
            self.is_decimal = True
        self.columns[column] = seen

    def refuse_thousands(self, path: Path, names: list[str]) -> None:
        """Raise an error if the numbers of a column have thousands separators."""
        for k, seen in self.columns.items():
            if self.is_decimal or not (seen.thousands and seen.short) or seen.long:
                continue
            line, cell = seen.thousands
            other, plain = seen.short
            mark = _MARK_NAMES[self.mark]
            raise TableError(
                f"{path}, line {line}, {name_column(names, k)}: {quote(cell)} is ambiguous: "
                f"{cell.replace(self.mark, '')} with a thousands separator, or "
                f"{cell.replace(self.mark, '.')}. Every {mark} in the column precedes three "
                f"digits, and {quote(plain)} in line {other} has none. Use --decimal {mark} for "
                f"decimal {mark}s; otherwise remove the thousands separators."
            )

    def notes(self, names: list[str]) -> list[str]:
        """Return a note on ambiguous columns that were read as decimals."""
        found = [
            (names[k], seen.thousands[1])
            for k, seen in self.columns.items()
            if seen.thousands and not seen.long and not self.is_decimal
        ]
        if not found:
            return []
        name, cell = found[0]
        others = len(found) - 1
        more = f" and {plural(others, 'more column')}" if others else ""
        return [
            f"column {quote(name)}{more}: every {_MARK_NAMES[self.mark]} precedes three digits "
            f"and was read as a decimal mark, so that {quote(cell)} is "
            f"{cell.replace(self.mark, '.')}; remove it if it separates thousands"
        ]
