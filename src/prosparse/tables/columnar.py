"""Parquet and Arrow files, batch by batch."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ..errors import TableError
from .base import Ask, Growing, Table, assign_roles, column_called, quietly, refuse_repeated_index

ENTRIES = 2**22  # numbers in a batch, about


def read_parquet(path: Path, ask: Ask) -> Table:
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


def read_arrow(path: Path, ask: Ask) -> Table:
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


def _table(path: Path, ask: Ask, schema: Any, batches: Iterable[Any], rows: int) -> Table:
    import pyarrow as pa

    # pandas calls an index without a name so
    names = ["" if name.startswith("__index_level_") else name for name in schema.names]
    unnamed = next((k for k, name in enumerate(names) if not name), None)
    guessed = unnamed is None and _is_text(schema.field(0).type)
    notes: list[str] = []
    index = 0 if guessed else unnamed
    roles = assign_roles(path, names, ask, index, notes)
    for k in roles.variables:
        kind = schema.field(k).type
        if not _is_number(kind):
            raise TableError(
                f"{path}, {column_called(path, names, k)}: it holds {kind}, not numbers: leave "
                "it out with --drop, --label or --id-column"
            )
    growing, ids, label = Growing(len(roles.variables), rows), list[str](), list[Any]()
    for batch in batches:
        batch.validate(full=True)  # offsets and texts of a damaged file may point anywhere
        block = growing.room(batch.num_rows)
        for j, k in enumerate(roles.variables):
            column = batch.column(k).cast(pa.float64())
            block[:, j] = column.to_numpy(zero_copy_only=False)
        if roles.id is not None:
            ids += [str(one) for one in batch.column(roles.id).to_pylist()]
        if roles.label is not None:
            label += batch.column(roles.label).to_pylist()
        ask.progress(growing.rows)
    if guessed and ask.id_column is None and roles.id is not None:
        refuse_repeated_index(path, names[0], ids)
    variables = [names[k] for k in roles.variables]
    return Table(
        path,
        growing.finish(),
        variables,
        ids if roles.id is not None else None,
        label if roles.label is not None else None,
        notes,
    )


def _is_text(kind: Any) -> bool:
    from pyarrow import types

    inner = kind.value_type if types.is_dictionary(kind) else kind
    return bool(types.is_string(inner) or types.is_large_string(inner))


def _is_number(kind: Any) -> bool:
    from pyarrow import types

    tests = (types.is_floating, types.is_integer, types.is_boolean, types.is_decimal, types.is_null)
    return any(test(kind) for test in tests)
