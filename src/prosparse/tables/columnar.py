"""Parquet and Arrow files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import TableError
from .base import (
    EXACT,
    Growing,
    Mistaken,
    ReadOptions,
    Roles,
    Table,
    Unusable,
    assign_roles,
    column_called,
    quietly,
    refuse_inexact,
    refuse_repeated_index,
    tell_identifiers,
    tell_row_numbers,
    unique_names,
)
from .identifiers import candidates, how_rows_are_told_apart
from .orientation import rows_by_name
from .unusable import MOST_NAMED

ENTRIES = 2**22  # numbers in a batch, about
_UNNAMED = "__index_level_"  # what pandas calls an index without a name begins so


def read_parquet(path: Path, ask: ReadOptions) -> Table:
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            size = max(1, ENTRIES // max(1, len(schema)))
            batches = file.iter_batches(batch_size=size)
            return _table(path, ask, schema, batches, file.metadata.num_rows)
    except pa.ArrowException as error:
        raise TableError(f"{path}: not a whole Parquet file ({quietly(error, 300)})") from error


def read_arrow(path: Path, ask: ReadOptions) -> Table:
    """Arrow's file format (Feather's, too) or its stream format."""
    import pyarrow as pa
    from pyarrow import ipc

    try:
        # not mapped: an offset beyond the end of a damaged file would kill the process
        with pa.OSFile(str(path)) as source:
            try:
                reader = ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                stream = ipc.open_stream(source)
                return _table(path, ask, stream.schema, stream, 0)
            batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
            return _table(path, ask, reader.schema, batches, 0)
    except pa.ArrowException as error:
        raise TableError(f"{path}: not a whole Arrow file ({quietly(error, 300)})") from error


def _table(path: Path, ask: ReadOptions, schema: Any, batches: Iterable[Any], rows: int) -> Table:
    kinds = [schema.field(k).type for k in range(len(schema.names))]
    index = _index(schema)
    names, repeated = unique_names(schema.names)
    ask, _ = rows_by_name(names, ask)
    text = not index and bool(kinds) and _is_text(kinds[0]) and ask.id_column is None
    if text:  # it could be an index: then no two rows may share a name
        index = (0,)
    batches = iter(batches)
    first = next(batches, None)
    alike = [
        k
        for k in candidates(names)
        if first is not None and _is_count(kinds[k]) and _tells_apart(first, names[k], k)
    ]
    roles = assign_roles(path, names, ask, index, alike)
    _refuse_other_kinds(path, names, kinds, roles)
    growing = Growing(len(roles.variables), rows)
    others = {k: list[Any]() for k in roles.texts()}
    for batch in () if first is None else chain([first], batches):
        batch.validate(full=True)  # offsets and texts of a damaged file may point anywhere
        above = growing.rows
        block = growing.room(batch.num_rows)
        for j, k in enumerate(roles.variables):
            block[:, j] = _numbers(path, names, k, batch.column(k), above)
        for k, values in others.items():
            values.extend(batch.column(k).to_pylist())
        ask.progress(growing.rows)
    said, mistaken = tell_row_numbers(names, roles, others, ask)
    if mistaken:
        raise Mistaken(mistaken)
    notes = [*repeated, *said]
    ids = _joined([others[k] for k in roles.ids])
    if roles.ids and {*roles.ids} <= {*index}:
        if text:
            refuse_repeated_index(path, names[0], ids or [])
        notes.insert(0, _say_index(names, roles, text))
    notes += tell_identifiers(names, roles, ask)
    aside = {what: others[k] for what, k in roles.aside.items()}
    return Table(
        path,
        growing.finish(),
        [names[k] for k in roles.variables],
        ids,
        aside.get("label"),
        notes,
        tuple(names[k] for k in roles.row_numbers),
        aside.get("groups"),
        aside.get("response"),
        ids_called=names[roles.ids[0]] if roles.ids else "",
    )


def _refuse_other_kinds(path: Path, names: list[str], kinds: list[Any], roles: Roles) -> None:
    """Refuse columns that are not numbers, all of them at once."""
    wrong = [k for k in roles.variables if not _is_number(kinds[k])]
    if not wrong:
        return
    held = ", ".join(f"{quietly(names[k])} ({kinds[k]})" for k in wrong[:MOST_NAMED])
    more = f" and {len(wrong) - MOST_NAMED:,} more" if len(wrong) > MOST_NAMED else ""
    texts = [names[k] for k in wrong]
    if len(wrong) == 1:
        message = (
            f"{path}, {column_called(path, names, wrong[0])}: it holds {kinds[wrong[0]]}, not "
            "numbers: leave it out with --drop, --label or --id-column"
        )
    else:
        message = (
            f"{path}: {len(wrong):,} columns are not numbers: {held}{more}. Say --drop text to "
            "leave out all of them; or, for one of them, --label to colour by it, --groups for "
            "rows that belong together, --id-column to name the rows"
        )
    note = f"columns that are not numbers were left out, as asked: {held}{more}"
    raise Unusable(message, texts, note)


def _index(schema: Any) -> tuple[int, ...]:
    """Which columns are the index of the data frame that was written; pandas says so in a file."""
    try:
        said = (schema.pandas_metadata or {})["index_columns"]
        stated = {one for one in said if isinstance(one, str)}  # a range of numbers is no column
    except (ValueError, KeyError, TypeError):  # nothing is said, or nothing that makes sense
        stated = set()
    return tuple(
        k
        for k, name in enumerate(schema.names)
        if name in stated or name.startswith(_UNNAMED) or not name
    )


def _say_index(names: list[str], roles: Roles, text: bool) -> str:
    if text:
        return f"the first column, {quietly(names[0])}, holds the names of the rows"
    given = [quietly(names[k]) for k in roles.ids if not names[k].startswith(_UNNAMED)]
    keep = " ".join(f"--keep {quietly(names[k])}" for k in roles.ids)
    return (
        f"the index, {' and '.join(given) or 'without a name'}, holds the names of the rows; if it "
        f"is a variable, say {keep}"
    )


def _joined(columns: list[list[Any]]) -> list[str] | None:
    """Names of the rows, of one column or of several."""
    if not columns:
        return None
    texts = [["" if one is None else str(one) for one in column] for column in columns]
    return [", ".join(parts) for parts in zip(*texts, strict=True)]


def _tells_apart(batch: Any, name: str, k: int) -> bool:
    batch.validate(full=True)
    return how_rows_are_told_apart(name, batch.column(k).to_pylist()) is not None


def _numbers(path: Path, names: list[str], k: int, column: Any, above: int) -> Any:
    """A column as floats, to the last digit."""
    import pyarrow as pa

    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        large = (k for k, v in enumerate(values) if isinstance(v, int) and abs(v) > EXACT)
        first = next(large, None)
        if first is None:
            raise
        row = above + first + 1
        refuse_inexact(f"{path}, row {row}", column_called(path, names, k), values[first])


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(inner) for test in tests)


def _is_count(kind: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(kind) or types.is_floating(kind))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)
