"""Joining of the columns of several tables with the same rows."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from scipy import sparse

from ..errors import TableError, plural
from .base import Table


class JoinedTables(NamedTuple):
    """Joined columns of several tables.

    Attributes
    ----------
    table : Table
        All columns, with the rows, labels and groups of the first table.
    views : dict of str to list of int
        Positions of the columns of each table, by its name.
    """

    table: Table
    views: Mapping[str, list[int]]


def join_tables(tables: Sequence[Table]) -> JoinedTables:
    """Join the columns of tables that describe the same rows.

    Rows are matched by name if all tables have row names, otherwise by position. Rows of the first
    table that are absent from another table have missing values in its columns.

    Parameters
    ----------
    tables : sequence of Table
        Tables from `read_table`. The first table determines the rows, labels and groups.

    Returns
    -------
    JoinedTables

    Raises
    ------
    TableError
        If rows cannot be matched.
    """
    first = tables[0]
    stems = Counter(_stem(table) for table in tables)
    taken: Counter[str] = Counter()
    views: dict[str, list[int]] = {}
    n_columns = 0
    repeated = {k for k, count in Counter(n for t in tables for n in t.names).items() if count > 1}
    names, blocks, notes = [], [], [*first.notes]
    for table in tables:
        stem = _stem(table)
        taken[stem] += 1
        view = f"{stem} ({taken[stem]})" if stems[stem] > 1 else stem
        rows, problems = _match_rows(first, table)
        X = table.X.toarray() if sparse.issparse(table.X) else np.asarray(table.X, dtype=float)
        blocks.append(np.where(rows[:, None] >= 0, X[rows], np.nan))
        names += [f"{name} ({view})" if name in repeated else name for name in table.names]
        views[view] = [*range(n_columns, n_columns + len(table.names))]
        n_columns += len(table.names)
        if table is not first:
            notes += [f"{table.path.name}: {note}" for note in (*table.notes, *problems)]
    return JoinedTables(first._replace(X=np.hstack(blocks), names=names, notes=notes), views)


def _stem(table: Table) -> str:
    return table.path.name.partition(".")[0] or table.path.name


def _match_rows(first: Table, table: Table) -> tuple[np.ndarray, list[str]]:
    """Match rows to those of the first table, -1 if absent; also return notes."""
    n, n_first = table.X.shape[0], first.X.shape[0]
    if table is first:
        return np.arange(n), []
    if first.ids is None or table.ids is None:
        if n != n_first:
            raise TableError(
                f"{table.path}: the table has {plural(n, 'row')}, but {first.path.name} has "
                f"{n_first:,}. Add a column with the row names to both tables."
            )
        return np.arange(n), ["rows were matched by position, because there are no row names"]
    for each in (first, table):
        name, count = Counter(each.ids or ()).most_common(1)[0]
        if count > 1:
            raise TableError(
                f"{each.path}: the row name {name!r} occurs {count:,} times. Rows of several "
                "tables are matched by name, so names must be unique."
            )
    position = {str(name).strip(): k for k, name in enumerate(table.ids)}
    rows = np.array([position.get(str(name).strip(), -1) for name in first.ids])
    n_matched = int(np.sum(rows >= 0))
    if not n_matched:
        raise TableError(
            f"{table.path}: no row name is shared with {first.path.name}; the first rows are "
            f"{table.ids[0]!r} and {first.ids[0]!r}. Give the rows the same names in both tables."
        )
    notes = []
    if n_matched < n_first:
        verb = "is" if n_first - n_matched == 1 else "are"
        notes.append(
            f"{plural(n_first - n_matched, 'row')} of {first.path.name} {verb} absent and "
            f"{'has' if verb == 'is' else 'have'} missing values here"
        )
    if n_matched < n:
        verb = "was" if n - n_matched == 1 else "were"
        notes.append(f"{plural(n - n_matched, 'further row')} {verb} not used")
    return rows, notes
