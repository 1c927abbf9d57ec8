"""Parsing of percentages in text files."""

from __future__ import annotations

from pathlib import Path
from typing import NoReturn

import numpy as np

from ..errors import TableError, plural
from .base import name_column, quote
from .missing_codes import MISSING

SIGN = "%"


class Percentages:
    """Check that each column contains only percentages or none."""

    def __init__(self, path: Path, names: list[str], variables: list[int]):
        self.path, self.names, self.variables = path, names, variables
        self.first: dict[int, str] = {}  # first percentage of each column

    def check_row(self, line: int, row: list[str], above: np.ndarray) -> None:
        """Check a row; ``above`` contains the numbers of the preceding rows."""
        if not self.first and not any(SIGN in cell for cell in row):
            return
        for j, k in enumerate(self.variables):
            cell = row[k].strip()
            if cell in MISSING:
                continue
            if cell.endswith(SIGN) and k not in self.first:
                if not np.all(np.isnan(above[:, j])):
                    self._refuse(line, k, f"{quote(cell)} is a percentage, but the numbers above")
                self.first[k] = cell
            elif not cell.endswith(SIGN) and k in self.first:
                self._refuse(line, k, f"{quote(self.first[k])} is a percentage, but {quote(cell)}")

    def _refuse(self, line: int, k: int, mixture: str) -> NoReturn:
        verb = "are" if mixture.endswith("above") else "is"
        raise TableError(
            f"{self.path}, line {line}, {name_column(self.names, k)}: {mixture} {verb} not. Write "
            "all values of the column in the same way."
        )

    def notes(self) -> list[str]:
        """Return a note on the columns with percentages."""
        if not self.first:
            return []
        k, cell = next(iter(self.first.items()))
        others = len(self.first) - 1
        more = f" and {plural(others, 'more column')}" if others else ""
        return [
            f"column {quote(self.names[k])}{more}: percentages were converted to proportions "
            f"({quote(cell)} is {float(cell.rstrip(SIGN).replace(',', '.')) / 100:g})"
        ]
