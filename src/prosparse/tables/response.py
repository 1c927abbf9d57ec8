"""Conversion of the response and the covariates to numbers or classes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ..errors import TableError
from .base import ReadOptions, Table, is_missing, name_row
from .decimal_marks import replace_decimal_commas

MAX_SHOWN = 40  # maximum number of characters of a cell in a message


def parse_response(table: Table, options: ReadOptions) -> Table:
    """Convert the response to floats, or to classes if it has two values.

    Missing values are NaN for floats and None for classes.
    """
    if table.response is None:
        return table
    cells = replace_decimal_commas(table.response, options.decimal)
    classes = parse_classes(cells)
    if classes is None:
        numbers = [_parse_number(table, row, options, cell) for row, cell in enumerate(cells)]
        return table._replace(response=numbers)
    first, second = sorted({value for value in classes if value is not None})
    return table._replace(response=classes).with_notes(
        f"the response {options.response!r} has two values, {first!r} and {second!r}, which "
        "are treated as classes"
    )


def parse_covariates(table: Table, options: ReadOptions) -> Table:
    """Convert each covariate to floats, or to strings if it is categorical."""
    if table.covariates is None:
        return table
    parsed: dict[str, Any] = {}
    for name, is_category in options.covariate_kinds.items():
        cells = list(replace_decimal_commas(table.covariates[name], options.decimal))
        values = [_parse_cell(cell) for cell in cells]
        if None in values:
            raise TableError(
                f"{table.path}, {name_row(table, values.index(None))}: the covariate {name!r} is "
                "missing. Add the value, or remove the row."
            )
        if is_category or any(isinstance(value, str) for value in values):
            parsed[name] = np.array([str(cell).strip() for cell in cells], dtype=object)
        else:
            parsed[name] = np.array(values, dtype=float)
    return table._replace(covariates=parsed)


def parse_classes(cells: Sequence[Any]) -> list[Any] | None:
    """Return the classes of a column with two distinct values, or None.

    Missing cells are None. If all other cells are numeric, the classes are numbers.
    """
    values = [_parse_cell(cell) for cell in cells]
    present = [value for value in values if value is not None]
    if len(set(present)) != 2:
        return None
    if not all(isinstance(value, float) for value in present):
        return [None if is_missing(cell) else str(cell).strip() for cell in cells]
    if all(value.is_integer() for value in present if isinstance(value, float)):
        return [None if value is None else int(value) for value in values]
    return values


def _parse_cell(cell: Any) -> float | str | None:
    """Convert a cell to a number, to text, or to None if it is missing."""
    if is_missing(cell):
        return None
    try:
        return float(cell)
    except (TypeError, ValueError):
        return str(cell).strip()


def _parse_number(table: Table, row: int, options: ReadOptions, cell: Any) -> float:
    value = _parse_cell(cell)
    if value is None:
        return math.nan
    if isinstance(value, str) or math.isinf(value):
        raise TableError(
            f"{table.path}, {name_row(table, row)}: the response {options.response!r} is "
            f"{str(cell)[:MAX_SHOWN]!r}, which is not a finite number. --response needs a column "
            "of numbers or of two classes."
        )
    return value
