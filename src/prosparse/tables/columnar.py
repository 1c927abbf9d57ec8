"""Reading of Parquet and Arrow files in batches."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain
from pathlib import Path
from typing import Any

from ..errors import TableError, plural
from ..phrases import list_items
from .base import (
    MAX_EXACT_INTEGER,
    GrowableArray,
    MisjudgedColumns,
    NonNumericColumnsError,
    ReadOptions,
    Roles,
    Table,
    assign_roles,
    check_identifiers,
    make_unique,
    name_column,
    note_identifier_names,
    quote,
    refuse_inexact,
    refuse_repeated_index,
)
from .identifiers import describe_identifier, identifier_candidates
from .non_numeric import MAX_NAMED
from .orientation import split_named_rows

BATCH_ENTRIES = 2**22  # approximate number of entries of a batch
_UNNAMED = "__index_level_"  # prefix of the name that pandas gives to an index without a name


def read_parquet(path: Path, options: ReadOptions) -> Table:
    """Read a Parquet file."""
    import pyarrow as pa
    from pyarrow import parquet

    try:
        with parquet.ParquetFile(path) as file:
            schema = file.schema_arrow
            size = max(1, BATCH_ENTRIES // max(1, len(schema)))
            batches = file.iter_batches(batch_size=size)
            return _read_batches(path, options, schema, batches, file.metadata.num_rows)
    except pa.ArrowException as error:
        raise TableError(f"{path}: invalid Parquet file ({quote(error, 300)}).") from error


def read_arrow(path: Path, options: ReadOptions) -> Table:
    """Read a file in Arrow's file format (also Feather) or stream format."""
    import pyarrow as pa
    from pyarrow import ipc

    try:
        # The file is not memory-mapped, because an offset beyond its end would crash the process.
        with pa.OSFile(str(path)) as source:
            try:
                reader = ipc.open_file(source)
            except pa.ArrowInvalid:
                source.seek(0)
                stream = ipc.open_stream(source)
                return _read_batches(path, options, stream.schema, stream, 0)
            batches = (reader.get_batch(k) for k in range(reader.num_record_batches))
            return _read_batches(path, options, reader.schema, batches, 0)
    except pa.ArrowException as error:
        raise TableError(f"{path}: invalid Arrow file ({quote(error, 300)}).") from error


def _read_batches(
    path: Path, options: ReadOptions, schema: Any, batches: Iterable[Any], n_rows: int
) -> Table:
    types = [schema.field(k).type for k in range(len(schema.names))]
    index = _find_index(schema)
    names, repeated = make_unique(schema.names)
    options, _ = split_named_rows(names, options)
    text_index = not index and bool(types) and _is_text(types[0]) and options.row_names is None
    if text_index:  # uniqueness of the values is checked below
        index = (0,)
    batches = iter(batches)
    first = next(batches, None)
    identifiers = [
        k
        for k in identifier_candidates(names)
        if first is not None and _may_count(types[k]) and _is_identifier(first, names[k], k)
    ]
    roles = assign_roles(path, names, options, index, identifiers)
    _refuse_non_numeric(path, names, types, roles)
    data = GrowableArray(len(roles.variables), n_rows)
    texts = {k: list[Any]() for k in roles.text_columns()}
    for batch in () if first is None else chain([first], batches):
        batch.validate(full=True)  # offsets in a damaged file may be invalid
        n_above = data.rows
        block = data.append_rows(batch.num_rows)
        for j, k in enumerate(roles.variables):
            block[:, j] = _convert_to_float(path, names, k, batch.column(k), n_above)
        for k, values in texts.items():
            values.extend(batch.column(k).to_pylist())
        options.progress(data.rows)
    identifier_notes, misjudged = check_identifiers(names, roles, texts, options)
    if misjudged:
        raise MisjudgedColumns(misjudged)
    notes = [*repeated, *identifier_notes]
    ids = _join_columns([texts[k] for k in roles.ids])
    if roles.ids and {*roles.ids} <= {*index}:
        if text_index:
            refuse_repeated_index(path, names[0], ids or [])
        notes.insert(0, _note_index(names, roles, text_index))
    notes += note_identifier_names(names, roles, options)
    annotations: dict[str, Any] = {role: texts[k] for role, k in roles.annotations.items()}
    return Table(
        path,
        data.finish(),
        [names[k] for k in roles.variables],
        ids,
        notes=notes,
        identifiers=tuple(names[k] for k in roles.identifiers),
        id_name=names[roles.ids[0]] if roles.ids else "",
    ).with_annotations(annotations)


def _refuse_non_numeric(path: Path, names: list[str], types: list[Any], roles: Roles) -> None:
    """Raise an error with all columns that are not numeric."""
    wrong = [k for k in roles.variables if not _is_numeric(types[k])]
    if not wrong:
        return
    shown = list_items([f"{quote(names[k])} ({types[k]})" for k in wrong], MAX_NAMED)
    count = plural(len(wrong), "non-numeric column")
    remedy = (
        "Use --ignore, --label, --groups or --row-names."
        if len(wrong) == 1
        else "Use --ignore text to drop all of them; or, for one of them, --label for colours, "
        "--groups for grouped rows, --row-names for the row names."
    )
    raise NonNumericColumnsError(
        f"{path}: {count}: {shown}. {remedy}",
        [names[k] for k in wrong],
        f"dropped {count}: {shown}",
    )


def _find_index(schema: Any) -> tuple[int, ...]:
    """Return the index columns recorded in the metadata by pandas."""
    try:
        columns = (schema.pandas_metadata or {})["index_columns"]
        stated = {name for name in columns if isinstance(name, str)}  # a range is not a column
    except (ValueError, KeyError, TypeError):  # no metadata, or invalid metadata
        stated = set()
    return tuple(
        k
        for k, name in enumerate(schema.names)
        if name in stated or name.startswith(_UNNAMED) or not name
    )


def _note_index(names: list[str], roles: Roles, text_index: bool) -> str:
    if text_index:
        return f"the first column, {quote(names[0])}, contains the row names"
    given = [quote(names[k]) for k in roles.ids if not names[k].startswith(_UNNAMED)]
    keep = " ".join(f"--as-variable {quote(names[k])}" for k in roles.ids)
    return (
        f"the index, {' and '.join(given) or 'without a name'}, contains the row names; "
        f"use {keep} if it is a variable"
    )


def _join_columns(columns: list[list[Any]]) -> list[str] | None:
    """Join the texts of one or several columns into row names."""
    if not columns:
        return None
    texts = [["" if cell is None else str(cell) for cell in column] for column in columns]
    return [", ".join(parts) for parts in zip(*texts, strict=True)]


def _is_identifier(batch: Any, name: str, k: int) -> bool:
    batch.validate(full=True)
    return describe_identifier(name, batch.column(k).to_pylist()) is not None


def _convert_to_float(path: Path, names: list[str], k: int, column: Any, n_above: int) -> Any:
    """Convert a column to floats without rounding."""
    import pyarrow as pa

    try:
        return column.cast(pa.float64()).to_numpy(zero_copy_only=False)
    except pa.ArrowInvalid:
        values = column.to_pylist()
        large = (
            i for i, v in enumerate(values) if isinstance(v, int) and abs(v) > MAX_EXACT_INTEGER
        )
        first = next(large, None)
        if first is None:
            raise
        row = n_above + first + 1
        refuse_inexact(f"{path}, row {row}", name_column(names, k), values[first])


def _is_text(data_type: Any) -> bool:
    from pyarrow import types

    inner = data_type.value_type if types.is_dictionary(data_type) else data_type
    tests = (types.is_string, types.is_large_string, types.is_string_view)
    return any(test(inner) for test in tests)


def _may_count(data_type: Any) -> bool:
    from pyarrow import types

    return bool(types.is_integer(data_type) or types.is_floating(data_type))


def _is_numeric(data_type: Any) -> bool:
    from pyarrow import types

    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(data_type) for test in tests)
