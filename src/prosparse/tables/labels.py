"""Labels in a second file, with a line for each row of the table: matched by the names of the rows.

Where variables are in rows, what is known of the samples is mostly in another file.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NamedTuple

from ..errors import TableError
from .base import ReadOptions, Table, errors_as_table_error, quietly, unknown_column
from .delimited import read_texts
from .workbook import ENDINGS, sheet_texts

_READ: dict[str, Callable[[Path, ReadOptions], tuple[list[str], list[list[str]], list[str]]]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), read_texts),
    **dict.fromkeys(ENDINGS, sheet_texts),
}


class Labels(NamedTuple):
    """A file of labels."""

    path: Path
    columns: dict[str, list[str]]
    notes: list[str]  # what the user should know about the values

    def rest_of(self, ask: ReadOptions) -> ReadOptions:
        """What is asked of the table: all but the columns that this file must have."""
        for name in ask.aside.values():
            if name not in self.columns:
                unknown_column(self.path, name, list(self.columns))
        return ask.without_aside()


def read_labels(path: Path) -> Labels:
    """All cells of a text file or a spreadsheet, by column."""
    ending = path.suffix.lower()
    if ending not in _READ:
        raise TableError(
            f"{path}: labels are read from files that end in {', '.join(_READ)}, not in "
            f"{ending or 'nothing'!r}"
        )
    if not path.is_file():
        raise TableError(f"{path}: there is no such file")
    with errors_as_table_error(path, "excel"):
        names, rows, notes = _READ[ending](path, ReadOptions())
    columns = {
        name: [row[k].strip() if k < len(row) else "" for row in rows]
        for k, name in enumerate(names)
    }
    if len(columns) < 2:
        raise TableError(
            f"{path}: a file of labels needs a column with the names of the samples and another "
            f"with labels; it has {len(columns)} column(s)"
        )
    return Labels(path, columns, [f"{path.name}: {note}" for note in notes])


def labelled(table: Table, labels: Labels, ask: ReadOptions) -> Table:
    """The table with label, groups and response from the second file."""
    if table.ids is None:
        raise TableError(
            f"{table.path}: its rows have no names, by which the lines of {labels.path} could be "
            "found: name the column that has them with --id-column"
        )
    key = _key(table, labels)
    wanted = ask.aside
    if not wanted:
        others = [name for name in labels.columns if name != key]
        if len(others) > 1:
            raise TableError(
                f"{labels.path}: which of its columns is to be used? Say --label, --groups or "
                f"--response, with one of {', '.join(map(quietly, others[:8]))}"
            )
        wanted = {"label": others[0]}
    line_of = _lines(labels, key)
    missing = [one for one in table.ids if one not in line_of]
    if missing:
        close = difflib.get_close_matches(missing[0], list(line_of), n=1, cutoff=0.7)
        hint = f"; is {quietly(missing[0])} its {quietly(close[0])}?" if close else ""
        raise TableError(
            f"{labels.path}, column {quietly(key)}: {len(missing):,} of the {len(table.ids):,} "
            f"rows of {table.path.name} have no line in it: {_some(missing)}{hint}"
        )
    found = {
        what: [labels.columns[name][line_of[one]] for one in table.ids]
        for what, name in wanted.items()
    }
    note = (
        f"{' and '.join(map(quietly, wanted.values()))} came from {labels.path.name}, by the names "
        f"in its column {quietly(key)}"
    )
    if len(line_of) > len(table.ids):
        note += f", of which {len(line_of) - len(table.ids):,} are not in the table"
    return table._replace(
        label=found.get("label", table.label),
        groups=found.get("groups", table.groups),
        response=found.get("response", table.response),
        notes=[*table.notes, note, *labels.notes],
    )


def _key(table: Table, labels: Labels) -> str:
    """The column that holds most of the names of the rows."""
    ids = {*(table.ids or ())}
    shared = {name: len(ids & {*cells}) for name, cells in labels.columns.items()}
    best = max(shared, key=lambda name: shared[name])
    if shared[best]:
        return best
    first = next(iter(labels.columns))
    raise TableError(
        f"{labels.path}: none of its columns holds the names of the rows of {table.path.name}, "
        f"which are {_some(table.ids or ())}; its first column, {quietly(first)}, holds "
        f"{_some(labels.columns[first])}"
    )


def _lines(labels: Labels, key: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    for k, name in enumerate(labels.columns[key]):
        if name and lines.setdefault(name, k) != k:
            raise TableError(
                f"{labels.path}, column {quietly(key)}: rows {lines[name] + 1} and {k + 1} of the "
                f"data are both about {quietly(name)}"
            )
    return lines


def _some(names: Sequence[str]) -> str:
    return ", ".join(map(quietly, names[:3])) + (", ..." if len(names) > 3 else "")
