"""Labels from a second file, matched by the row names.

If variables are in rows, annotations of samples are often in a separate file.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from ..errors import TableError, end_sentence
from .base import (
    ReadOptions,
    Table,
    errors_as_table_error,
    list_names,
    quote,
    raise_unknown_column,
)
from .delimited import read_texts
from .workbook import EXTENSIONS, read_sheet_texts

_READERS: dict[str, Callable[[Path, ReadOptions], tuple[list[str], list[list[str]], list[str]]]] = {
    **dict.fromkeys((".csv", ".tsv", ".tab", ".txt"), read_texts),
    **dict.fromkeys(EXTENSIONS, read_sheet_texts),
}


class Labels(NamedTuple):
    """Content of a file of labels."""

    path: Path
    columns: dict[str, list[str]]
    notes: list[str]  # observations about the file

    def table_options(self, options: ReadOptions) -> ReadOptions:
        """Return the options for the table, without the columns of this file."""
        for name in options.annotations.values():
            if name not in self.columns:
                raise_unknown_column(self.path, name, list(self.columns))
        return options.without_annotations()


def read_labels(path: Path) -> Labels:
    """Read all cells of a text file or spreadsheet as text."""
    extension = path.suffix.lower()
    if extension not in _READERS:
        raise TableError(
            f"{path}: the extension {extension!r} is not supported for labels. Supported "
            f"extensions: {', '.join(_READERS)}."
        )
    if not path.is_file():
        raise TableError(f"{path}: the file does not exist.")
    with errors_as_table_error(path, "excel"):
        names, rows, notes = _READERS[extension](path, ReadOptions())
    columns = {
        name: [row[k].strip() if k < len(row) else "" for row in rows]
        for k, name in enumerate(names)
    }
    if len(columns) < 2:
        raise TableError(
            f"{path}: the file has 1 column; a file of labels needs the row names and at "
            "least one more column."
        )
    return Labels(path, columns, [f"{path.name}: {note}" for note in notes])


def attach_labels(table: Table, labels: Labels, options: ReadOptions) -> Table:
    """Add labels, groups and response from the second file to the table."""
    if table.ids is None:
        raise TableError(
            f"{table.path}: the rows have no names that could be matched with {labels.path}. "
            "Select the column with the names by --row-names."
        )
    key = _find_key(table, labels)
    annotations = options.annotations
    if not annotations:
        others = [name for name in labels.columns if name != key]
        if len(others) > 1:
            raise TableError(
                f"{labels.path}: the file has several columns: "
                f"{', '.join(map(quote, others[:8]))}. Select one by --label, --groups or "
                "--response."
            )
        annotations = ReadOptions(label=others[0]).annotations
    line_of = _index_lines(labels, key)
    missing = [name for name in table.ids if name not in line_of]
    if missing:
        close = difflib.get_close_matches(missing[0], list(line_of), n=1, cutoff=0.7)
        hint = f"; the closest name to {quote(missing[0])} is {quote(close[0])}" if close else ""
        raise TableError(
            f"{labels.path}, column {quote(key)}: {len(missing):,} of the {len(table.ids):,} rows "
            f"of {table.path.name} are missing: {end_sentence(list_names(missing, 3) + hint)}"
        )
    values: dict[str, Any] = {
        role: [labels.columns[name][line_of[row]] for row in table.ids]
        for role, name in annotations.items()
    }
    note = (
        f"{' and '.join(map(quote, annotations.values()))} read from {labels.path.name}, matched "
        f"by its column {quote(key)}"
    )
    if len(line_of) > len(table.ids):
        note += f"; {len(line_of) - len(table.ids):,} of its names are not in the table"
    return table.with_annotations(values).with_notes(note, *labels.notes)


def _find_key(table: Table, labels: Labels) -> str:
    """Return the column that contains most of the row names."""
    ids = {*(table.ids or ())}
    n_matched = {name: len(ids & {*cells}) for name, cells in labels.columns.items()}
    best = max(n_matched, key=lambda name: n_matched[name])
    if n_matched[best]:
        return best
    first = next(iter(labels.columns))
    raise TableError(
        f"{labels.path}: no column contains the row names of {table.path.name}, such as "
        f"{list_names(table.ids or (), 3)}. The first column, {quote(first)}, contains "
        f"{end_sentence(list_names(labels.columns[first], 3))}"
    )


def _index_lines(labels: Labels, key: str) -> dict[str, int]:
    lines: dict[str, int] = {}
    for k, name in enumerate(labels.columns[key]):
        if name and lines.setdefault(name, k) != k:
            raise TableError(
                f"{labels.path}, column {quote(key)}: rows {lines[name] + 1} and {k + 1} of the "
                f"data have the same name, {quote(name)}. Remove one of them."
            )
    return lines
