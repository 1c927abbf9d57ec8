"""Percentages in text: ``12%`` is 0.12, if all cells of the column are written so."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np

from ..errors import TableError
from .base import MISSING, column_called, quietly

SIGN = "%"


class Percentages:
    """The columns that hold percentages."""

    def __init__(self, path: Path, names: list[str], variables: list[int]):
        self.path, self.names, self.variables = path, names, variables
        self.first: dict[int, str] = {}

    def see(self, line: int, row: list[str], above: np.ndarray) -> None:
        """Take notice of a row; ``above`` holds the numbers of the rows before it."""
        if not self.first and not any(SIGN in cell for cell in row):
            return
        for j, k in enumerate(self.variables):
            cell = row[k].strip()
            if cell in MISSING:
                continue
            if cell.endswith(SIGN) and k not in self.first:
                if not np.all(np.isnan(above[:, j])):
                    self._refuse(line, k, cell, "numbers above it are none")
                self.first[k] = cell
            elif not cell.endswith(SIGN) and k in self.first:
                self._refuse(line, k, cell, f"{quietly(self.first[k])} above it is a percentage")

    def _refuse(self, line: int, k: int, cell: str, other: str) -> NoReturn:
        what = "a percentage" if cell.endswith(SIGN) else "none"
        raise TableError(
            f"{self.path}, line {line}, {column_called(self.path, self.names, k)}: {quietly(cell)} "
            f"is {what}, and {other}: write all of them in the same way"
        )

    def notes(self) -> list[str]:
        """What is to be said of such columns."""
        if not self.first:
            return []
        k, cell = next(iter(self.first.items()))
        more = f" and {len(self.first) - 1:,} more" if len(self.first) > 1 else ""
        return [
            f"the column {quietly(self.names[k])}{more} holds percentages: {quietly(cell)} became "
            "a share of 1"
        ]
