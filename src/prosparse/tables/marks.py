"""Decimal commas, decimal points and separators of thousands, told apart by how they are used.

``2,626`` is 2.626 where a comma begins the decimals, and 2626 where it separates thousands. The
latter has three digits after every comma and at most three before, no zero in front, and stands
beside numbers under a thousand without a comma, such as ``688``. One number that cannot have
separators of thousands, such as ``0,25`` or ``1,5``, settles it for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from ..errors import TableError
from .base import column_called, quietly

_SHORT = re.compile(r"[-+]?\d{1,3}")
_LONG = re.compile(r"[-+]?\d{4,}")


def _decimals(mark: str) -> re.Pattern[str]:
    return re.compile(rf"[-+]?\d*{re.escape(mark)}\d+(?:[eE][-+]?\d+)?")


def _groups(mark: str) -> re.Pattern[str]:
    return re.compile(rf"[-+]?[1-9]\d{{0,2}}(?:{re.escape(mark)}\d{{3}})+")


_DECIMALS = {mark: _decimals(mark) for mark in ".,"}
_GROUPS = {mark: _groups(mark) for mark in ".,"}
# Numbers as people write them: with separators of thousands, a currency or per cent.
_DECORATED = re.compile(
    r"\(?[-+\u2212]?\s*[$\u20ac\u00a3\u00a5]?\s*"
    r"(?:\d{1,3}(?:[,.\s'\u2019]\d{3})+(?:[.,]\d+)?|\d*[.,]?\d+(?:[eE][-+]?\d+)?)"
    r"\s*[%\u2030$\u20ac\u00a3\u00a5]?\)?"
)
_CALLED = {",": "comma", ".": "point"}


def decimal_mark(cells: Iterable[str], separator: str) -> str:
    """What begins the decimals of numbers in these cells."""
    if separator == ",":
        return "."
    commas = points = 0
    for cell in cells:
        commas += _DECIMALS[","].fullmatch(cell.strip()) is not None
        points += _DECIMALS["."].fullmatch(cell.strip()) is not None
    return "," if commas > points else "."


def is_decorated_number(cell: str) -> bool:
    """Whether a cell is a number to a person, though a program may not take it for one."""
    return _DECORATED.fullmatch(cell.strip()) is not None


def could_be_thousands(cells: Iterable[str], mark: str) -> bool:
    """Whether some cells look like thousands, and none settles that ``mark`` begins decimals."""
    some = False
    for cell in cells:
        if mark in cell:
            grouped = _GROUPS[mark].fullmatch(cell.strip()) is not None
            if not grouped and _DECIMALS[mark].fullmatch(cell.strip()):
                return False
            some |= grouped
    return some


class _Column(NamedTuple):
    """What was seen in a column: line and cell of the first number of each kind."""

    grouped: tuple[int, str] | None = None
    short: tuple[int, str] | None = None
    long: tuple[int, str] | None = None  # four digits or more in a row: thousands have no separator


class Marks:
    """All the numbers of a file, looked at for separators of thousands."""

    def __init__(self, mark: str):
        self.mark = mark
        self.settled = False  # the mark begins decimals, without doubt
        self.columns: dict[int, _Column] = {}

    def see(self, column: int, line: int, cell: str) -> None:
        """Take notice of a cell."""
        if self.settled:
            return
        text, seen = cell.strip(), self.columns.get(column, _Column())
        if _GROUPS[self.mark].fullmatch(text):
            seen = seen if seen.grouped else seen._replace(grouped=(line, text))
        elif _SHORT.fullmatch(text):
            seen = seen if seen.short else seen._replace(short=(line, text))
        elif _LONG.fullmatch(text):
            seen = seen if seen.long else seen._replace(long=(line, text))
        elif _DECIMALS[self.mark].fullmatch(text):
            self.settled = True
        self.columns[column] = seen

    def refuse_thousands(self, path: Path, names: list[str]) -> None:
        """Refuse a column whose numbers look like thousands."""
        for k, seen in self.columns.items():
            if self.settled or not (seen.grouped and seen.short) or seen.long:
                continue
            line, cell = seen.grouped
            other, plain = seen.short
            called = _CALLED[self.mark]
            raise TableError(
                f"{path}, line {line}, {column_called(path, names, k)}: is {quietly(cell)} "
                f"{cell.replace(self.mark, '')}, with a separator of thousands, or "
                f"{cell.replace(self.mark, '.')}? Every {called} in the column has three digits "
                f"behind it, and {quietly(plain)} in line {other} has none. If the {called}s begin "
                f"decimals, say --decimal {called}; if they separate thousands, take them out"
            )
