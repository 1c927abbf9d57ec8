"""Arrays in NumPy's format and archives of them, checked before memory is allocated for them."""

from __future__ import annotations

import io
import math
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

MAX_MEMBERS = 10_000  # a model has a few hundred arrays at most
PLAIN_TYPES = "biufcU"  # bool, integers, floats, complex, text: no objects, which would be code
_READ = {1: np.lib.format.read_array_header_1_0, 2: np.lib.format.read_array_header_2_0}


def read_header(
    file: IO[bytes], size: int, kinds: str = PLAIN_TYPES
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Shape, whether in Fortran's order, and type of an array that takes ``size`` bytes of a file,
    header included; the file is left where the numbers begin.

    Raises ValueError for anything else. Memory for what a header claims is never taken before.
    """
    major, _ = np.lib.format.read_magic(file)
    if major not in _READ:
        raise ValueError(f"it holds an array in NumPy's format {major}; 1 and 2 are known")
    start = file.tell()
    try:
        shape, fortran, dtype = _READ[major](file)
    except Exception as error:  # NumPy parses it as Python and raises whatever the parser does
        raise ValueError(f"the header of an array cannot be read ({error})") from error
    if dtype.hasobject or dtype.kind not in kinds:
        raise ValueError(f"it holds an array of {dtype}; only numbers and texts are allowed")
    body = size - (file.tell() - start) - np.lib.format.MAGIC_LEN
    claimed = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or claimed != body or max(shape, default=0) > max(body, 2**20):
        raise ValueError(f"an array says it has shape {shape} of {dtype}, but {body} bytes follow")
    return shape, fortran, dtype


def read_array(raw: bytes, kinds: str = PLAIN_TYPES) -> np.ndarray:
    """The array in ``raw``, writable; ValueError unless its header describes the other bytes."""
    file = io.BytesIO(raw)
    shape, fortran, dtype = read_header(file, len(raw), kinds)
    flat = np.frombuffer(raw, dtype=dtype, offset=file.tell()).copy()  # aligned and writable
    return flat.reshape(shape, order="F" if fortran else "C")


def check_members(archive: ZipFile, size: int) -> None:
    """Raise ValueError unless all members are uncompressed and fit into a file of ``size`` bytes.

    Reading a member then allocates no more memory than the file has bytes.
    """
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise ValueError(f"it has {len(entries)} members, more than the {MAX_MEMBERS} allowed")
    if any(entry.compress_type != ZIP_STORED for entry in entries):
        raise ValueError("its members are compressed, which those of prosparse's files never are")
    # `zipfile` allocates `compress_size` bytes, even where `file_size` is smaller.
    claimed = sum(max(entry.file_size, entry.compress_size) for entry in entries)
    if claimed > size:
        raise ValueError(f"its members claim {claimed} bytes, but the file has {size}")
