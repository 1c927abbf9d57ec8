"""Matrix Market files, read here: SciPy's reader ends the process on some damaged ones.

https://math.nist.gov/MatrixMarket/formats.html: a banner, comments, a line of sizes, and then one
entry a line: ``row column value`` (coordinate; no value in a pattern) or ``value`` (array, column
after column; of a symmetric matrix the lower triangle only).
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import IO, Any, NamedTuple

import numpy as np
from scipy import sparse

from ..errors import TableError
from .base import EXACT, opened, quietly

_LONGEST = 2**20  # characters of a line before the numbers
_FIELDS = {"real", "double", "integer", "unsigned-integer", "pattern"}
_SYMMETRIES = {"general": 0.0, "symmetric": 1.0, "skew-symmetric": -1.0}


class Header(NamedTuple):
    layout: str  # coordinate or array
    field: str
    mirror: float  # what the other triangle is multiplied with; 0: there is none
    shape: tuple[int, int]
    entries: int


def read_market(path: Path) -> Any:
    """A dense array or a sparse one in coordinates."""
    import pyarrow as pa

    try:
        try:
            with opened(path) as file:
                header = _header(file)
                body = _quickly(file, header)
        except (pa.ArrowException, UnicodeError):  # more than one space: allowed, and rare
            with io.TextIOWrapper(opened(path), "ascii", "replace") as text:
                header = _header(text.buffer)
                body = np.loadtxt(text, ndmin=2, comments="%")
        width = _width(header)
        if body.shape != (header.entries, width):
            raise ValueError(f"{header.entries} lines of {width} numbers are not what follows")
        return _matrix(header, body)
    except (ValueError, OverflowError) as error:
        if isinstance(error, TableError):
            raise
        why = quietly(error, 300)
        raise TableError(f"{path}: not a whole Matrix Market file ({why})") from error


def _header(file: IO[bytes]) -> Header:
    banner = file.readline(_LONGEST).decode("ascii", "replace").lower().split()
    if len(banner) != 5 or banner[:2] != ["%%matrixmarket", "matrix"]:
        raise ValueError("the first line is not that of a matrix")
    _, _, layout, field, symmetry = banner
    if layout not in ("coordinate", "array") or field not in _FIELDS:
        raise ValueError(f"it holds a matrix of kind {layout} {field}, not real numbers")
    if symmetry not in _SYMMETRIES:
        raise ValueError(f"its symmetry is {symmetry}, which real matrices do not have")
    line = b"%"
    while line.startswith(b"%") or not line.strip():
        line = file.readline(_LONGEST)
        if not line:
            raise ValueError("there is no line of sizes")
    sizes = [int(size) for size in line.split()]
    if len(sizes) != (3 if layout == "coordinate" else 2) or min(sizes) < 0:
        raise ValueError(f"the line of sizes is {line[:60]!r}")
    n, p = sizes[:2]
    mirror = _SYMMETRIES[symmetry]
    if mirror and n != p:
        raise ValueError(f"it is {symmetry}, but has {n} rows and {p} columns")
    whole = n * p if not mirror else n * (n + int(mirror)) // 2
    return Header(layout, field, mirror, (n, p), sizes[2] if layout == "coordinate" else whole)


def _width(header: Header) -> int:
    return 1 if header.layout == "array" else 2 if header.field == "pattern" else 3


def _quickly(file: IO[bytes], header: Header) -> np.ndarray:
    """The numbers of all lines, one row each, if one space is between any two."""
    import pyarrow as pa
    from pyarrow import csv

    names = [str(k) for k in range(_width(header))]
    read = csv.ReadOptions(column_names=names, block_size=2**24)
    parse = csv.ParseOptions(delimiter=" ", quote_char=False)
    convert = csv.ConvertOptions(column_types=dict.fromkeys(names, pa.float64()), null_values=[])
    if not header.entries:
        return np.empty((0, len(names)))
    parts = [
        np.column_stack([column.to_numpy() for column in batch.columns])
        for batch in csv.open_csv(pa.PythonFile(file), read, parse, convert)
    ]
    return np.concatenate(parts)


def _matrix(header: Header, body: np.ndarray) -> Any:
    n, p = header.shape
    if header.layout == "array" and not header.mirror:
        return body.reshape((n, p), order="F")
    if header.layout == "array":
        # column after column from the diagonal (skew: from below it), as rows of the transpose
        j, i = np.triu_indices(n, 0 if header.mirror > 0 else 1)
        full = np.zeros((n, n))
        full[j, i] = header.mirror * body[:, 0]
        full[i, j] = body[:, 0]
        return full
    if not np.array_equal(body[:, :2], np.trunc(body[:, :2])):  # NaN differs from itself
        raise ValueError("the number of a row or of a column is not whole")
    if not np.all(np.abs(body[:, :2]) <= EXACT):
        raise ValueError("an entry is outside of the matrix")
    places = body[:, :2].astype(np.int64)
    if body.size and (places.min() < 1 or np.any(places.max(axis=0) > header.shape)):
        raise ValueError("an entry is outside of the matrix")
    i, j = places.T - 1
    values = body[:, 2] if body.shape[1] == 3 else np.ones(len(body))
    if header.mirror:
        if np.any(i < j) and np.any(i > j):
            raise ValueError("it is symmetric, but entries are on both sides of the diagonal")
        if header.mirror < 0 and np.any(values[i == j]):
            raise ValueError("it is skew-symmetric, but has entries on the diagonal")
        other = i != j
        i, j, values = (
            np.concatenate([i, j[other]]),
            np.concatenate([j, i[other]]),
            np.concatenate([values, header.mirror * values[other]]),
        )
    return sparse.coo_array((values, (i, j)), shape=header.shape)
