"""Reader of Matrix Market files.

SciPy's reader ends the process on some damaged files. A file consists of a banner, comments, a line
of sizes, and one entry per line: ``row column value`` (coordinate; without a value in a pattern) or
``value`` (array, column by column; only the lower triangle of a symmetric matrix). See
https://math.nist.gov/MatrixMarket/formats.html.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from ..errors import TableError, plural
from .base import MAX_EXACT_INTEGER, open_binary, quote

MAX_HEADER_LINE = 2**20  # maximum length of a line before the numbers
_FIELDS = {"real", "double", "integer", "unsigned-integer", "pattern"}
_SYMMETRIES = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}


class Header(NamedTuple):
    """Banner and sizes of a file."""

    layout: str  # coordinate or array
    field: str
    mirror: float  # factor of the omitted triangle; 0 if none is omitted
    shape: tuple[int, int]
    n_entries: int


def read_matrix_market(path: Path) -> Any:
    """Read a dense array, or a sparse one in coordinate format."""
    import pyarrow as pa

    try:
        try:
            with open_binary(path) as file:
                header = _read_header(file)
                body = _read_entries(file, header)
        except (pa.ArrowException, UnicodeError):  # several spaces between numbers
            with io.TextIOWrapper(open_binary(path), "ascii", "replace") as text:
                header = _read_header(text.buffer)
                body = np.loadtxt(text, ndmin=2, comments="%")
        width = _width(header)
        if body.shape != (header.n_entries, width):
            lines = plural(header.n_entries, "line")
            raise ValueError(f"expected {lines} of {plural(width, 'number')}")
        return _make_matrix(header, body)
    except (ValueError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        reason = quote(error, 300)
        raise TableError(f"{path}: invalid Matrix Market file ({reason}).") from error


def _read_header(file: IO[bytes]) -> Header:
    banner = file.readline(MAX_HEADER_LINE).decode("ascii", "replace").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("the first line is not the banner of a matrix")
    _, _, layout, field, symmetry = banner
    if layout not in ("coordinate", "array") or field not in _FIELDS:
        raise ValueError(f"type {layout} {field} is not supported")
    if symmetry not in _SYMMETRIES:
        raise ValueError(f"symmetry {symmetry} is not supported")
    line = b"%"
    while line.startswith(b"%") or not line.strip():
        line = file.readline(MAX_HEADER_LINE)
        if not line:
            raise ValueError("the line of sizes is missing")
    sizes = [int(size) for size in line.split()]
    if len(sizes) != (3 if layout == "coordinate" else 2) or min(sizes) < 0:
        raise ValueError(f"the line of sizes is {line[:60]!r}")
    n, p = sizes[:2]
    mirror = _SYMMETRIES[symmetry]
    if mirror and n != p:
        raise ValueError(
            f"a {symmetry} matrix cannot have {plural(n, 'row')} and {plural(p, 'column')}"
        )
    n_array = n * p if not mirror else n * (n + int(mirror)) // 2
    return Header(layout, field, mirror, (n, p), sizes[2] if layout == "coordinate" else n_array)


def _width(header: Header) -> int:
    return 1 if header.layout == "array" else 2 if header.field == "pattern" else 3


def _read_entries(file: IO[bytes], header: Header) -> np.ndarray:
    """Read the numbers of all lines, which must be separated by single spaces."""
    import pyarrow as pa
    from pyarrow import csv

    names = [str(k) for k in range(_width(header))]
    read = csv.ReadOptions(column_names=names, block_size=2**24)
    parse = csv.ParseOptions(delimiter=" ", quote_char=False)
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[])
    if not header.n_entries:
        return np.empty((0, len(names)))
    parts = [
        np.column_stack([column.to_numpy() for column in batch.columns])
        for batch in csv.open_csv(pa.PythonFile(file), read, parse, convert)
    ]
    return np.concatenate(parts)


def _make_matrix(header: Header, body: np.ndarray) -> Any:
    n, p = header.shape
    if header.layout == "array" and not header.mirror:
        return body.reshape((n, p), order="F")
    if header.layout == "array":
        # Columns start at the diagonal (skew: below it) and are rows of the transpose.
        j, i = np.triu_indices(n, 0 if header.mirror > 0 else 1)
        full = np.zeros((n, n))
        full[j, i] = header.mirror * body[:, 0]
        full[i, j] = body[:, 0]
        return full
    if not np.array_equal(body[:, :2], np.trunc(body[:, :2])):  # true for NaN
        raise ValueError("a row or column number is not an integer")
    if not np.all(np.abs(body[:, :2]) <= MAX_EXACT_INTEGER):
        raise ValueError("an entry is outside the matrix")
    positions = body[:, :2].astype(np.int64)
    if body.size and (positions.min() < 1 or np.any(positions.max(axis=0) > header.shape)):
        raise ValueError("an entry is outside the matrix")
    i, j = positions.T - 1
    values = body[:, 2] if body.shape[1] == 3 else np.ones(len(body))
    if header.mirror:
        if np.any(i < j) and np.any(i > j):
            raise ValueError("a symmetric matrix has entries on both sides of the diagonal")
        if header.mirror < 0 and np.any(values[i == j]):
            raise ValueError("a skew-symmetric matrix has entries on the diagonal")
        off_diagonal = i != j
        i, j, values = (
            np.concatenate([i, j[off_diagonal]]),
            np.concatenate([j, i[off_diagonal]]),
            np.concatenate([values, header.mirror * values[off_diagonal]]),
        )
    return sparse.coo_array((values, (i, j)), shape=header.shape)
