"""Decimal commas, decimal points and separators of thousands, told apart by how they are used.

``2,626`` is 2.626 where a comma begins the decimals, and 2626 where it separates thousands. The
latter has three digits after every comma and at most three before, no zero in front, and stands
beside numbers under a thousand without a comma, such as ``688``. One number that cannot have
separators of thousands, such as ``0,25`` or ``1,5``, settles it for the whole file.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple

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
    r"\(?[-+\u2212]?\s*(?:[$\u20ac\u00a3\u00a5]\s*)?"
    r"(?:\d{1,3}(?:[,.\s'\u2019]\d{3})+(?:[.,]\d+)?|(?:\d+(?:[.,]\d+)?|[.,]\d+)(?:[eE][-+]?\d+)?)"
    r"\s*[%\u2030$\u20ac\u00a3\u00a5]?\)?"
)
_CALLED = {",": "comma", ".": "point"}


def decimal_mark(cells: Iterable[str], separator: str) -> str:
    """What begins the decimals of numbers in these cells."""
    if separator == ",":
        return "."
    commas = points = 0
    for cell in cells:
        text = cell.strip().removesuffix("%").rstrip()
        commas += _DECIMALS[","].fullmatch(text) is not None
        points += _DECIMALS["."].fullmatch(text) is not None
    return "," if commas > points else "."


def is_decorated_number(cell: str) -> bool:
    """Whether a cell is a number to a person, though a program may not take it for one."""
    return _DECORATED.fullmatch(cell.strip()) is not None


class Use(Enum):
    """What a mark does in some cells."""

    DECIMALS = "it begins decimals, without doubt"
    DOUBTFUL = "some numbers look like thousands, and none settles that it begins decimals"
    NONE = "it is in no number"


def use_of(cells: Iterable[str], mark: str) -> Use:
    """What ``mark`` does in these cells."""
    use = Use.NONE
    for cell in cells:
        if mark in cell:
            if _GROUPS[mark].fullmatch(cell.strip()):
                use = Use.DOUBTFUL
            elif _DECIMALS[mark].fullmatch(cell.strip()):
                return Use.DECIMALS
    return use


def with_points(cells: Sequence[Any], asked: str | None) -> list[Any]:
    """Cells of a column, in which a comma that begins the decimals of a number is a point.

    Parameters
    ----------
    cells : sequence
        Those that are not texts stay as they are.
    asked : "." or "," or None
        What begins decimals, if the user said so. Otherwise commas do where a number settles it:
        ``2,626`` alone may be thousands.

    Returns
    -------
    list
    """
    texts = [cell for cell in cells if isinstance(cell, str)]
    commas = decimal_mark(texts, ";") == "," and use_of(texts, ",") is Use.DECIMALS
    if asked == "." or not (asked == "," or commas):
        return list(cells)
    return [
        cell.replace(",", ".")
        if isinstance(cell, str) and _DECIMALS[","].fullmatch(cell.strip())
        else cell
        for cell in cells
    ]


def has_thousands(lines: Iterable[str], separator: str, mark: str) -> bool:
    """Whether a cell in these lines looks like thousands; for many lines, as none is cut up."""
    edge = rf'[{re.escape(separator)}"\s]'
    cell = re.compile(rf"(?:^|{edge}){_GROUPS[mark].pattern}(?=$|{edge})")
    return any(mark in line and cell.search(line) is not None for line in lines)


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

    def doubts(self, names: list[str]) -> list[str]:
        """Notes about columns of numbers that were taken as decimals, and may be thousands."""
        found = [
            (names[k], seen.grouped[1])
            for k, seen in self.columns.items()
            if seen.grouped and not seen.long and not self.settled
        ]
        if not found:
            return []
        name, cell = found[0]
        others = f" and in {len(found) - 1:,} more" if len(found) > 1 else ""
        return [
            f"every {_CALLED[self.mark]} in the column {quietly(name)}{others} has three digits "
            f"behind it and was taken to begin decimals: {quietly(cell)} is "
            f"{cell.replace(self.mark, '.')}; if it separates thousands, take it out"
        ]
