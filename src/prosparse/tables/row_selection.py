"""Selection of rows, and replacement of codes for missing values."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from scipy import sparse

from ..data.covariates import take_rows
from ..errors import TableError, plural
from .base import Table, list_names, raise_unknown_column
from .missing_codes import numeric_codes, split_codes


def select_rows(table: Table, rows: np.ndarray) -> Table:
    """Return the table with the selected rows."""

    def select(values: list[Any] | None) -> list[Any] | None:
        return None if values is None else [values[k] for k in rows]

    return table._replace(
        X=table.X[rows],
        ids=select(table.ids),
        labels={name: [cells[k] for k in rows] for name, cells in table.labels.items()},
        groups=select(table.groups),
        response=select(table.response),
        covariates=take_rows(table.covariates, table.X.shape[0], rows),
    )


def ignore_rows(table: Table, names: Sequence[str]) -> Table:
    """Drop rows from the table by name, or by number from 1."""
    if not names:
        return table
    n = table.X.shape[0]
    known = table.ids or [str(k + 1) for k in range(n)]
    position: dict[str, list[int]] = {}
    for k, name in enumerate(known):
        position.setdefault(name, []).append(k)
    ignored: list[int] = []
    for value in names:
        parts = [value] if value in position else [part.strip() for part in value.split(",")]
        for part in parts:
            if part not in position:
                raise_unknown_column(table.path, part, known, "row")
            ignored += position[part]
    rows = np.setdiff1d(np.arange(n), ignored)
    if rows.size < 2:
        raise TableError(f"{table.path}: --ignore-rows leaves {plural(rows.size, 'row')}.")
    listed = list_names([known[k] for k in sorted(set(ignored))], 5)
    return select_rows(table, rows).with_notes(f"ignored {plural(n - rows.size, 'row')}: {listed}")


def replace_codes(table: Table, codes: Sequence[str]) -> Table:
    """Replace codes for missing values.

    NaN replaces codes in numeric columns, and empty text replaces codes in other columns.
    """
    split = split_codes(codes)
    if not split:
        return table
    texts, numbers = {*split}, numeric_codes(split)

    def replace(cells: list[Any] | None) -> list[Any] | None:
        if cells is None:
            return None
        return ["" if isinstance(c, str) and c.strip() in texts else c for c in cells]

    table = table._replace(
        labels={name: replace(cells) or [] for name, cells in table.labels.items()},
        groups=replace(table.groups),
        response=replace(table.response),
        covariates=None
        if table.covariates is None
        else {name: replace(list(cells)) for name, cells in table.covariates.items()},
    )
    if numbers and not sparse.issparse(table.X):
        is_code = np.isin(table.X, numbers)
        count = int(is_code.sum())
        if count:
            table.X[is_code] = np.nan
            table = table.with_notes(
                f"{plural(count, 'value')} equal to {', '.join(f'{v:g}' for v in numbers)} "
                f"{'was' if count == 1 else 'were'} read as missing"
            )
    return table
