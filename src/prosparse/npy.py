"""Reading of arrays in NPY format, with checks before memory is allocated."""

from __future__ import annotations

import io
import math
from typing import IO, Any
from zipfile import ZIP_STORED, ZipFile

import numpy as np

MAX_MEMBERS = 10_000  # maximum number of members of an archive; models have at most a few hundred
PLAIN_TYPES = "biufcU"  # booleans, numbers and strings; objects could execute code
_HEADER_READERS = {
    1: np.lib.format.read_array_header_1_0,
    2: np.lib.format.read_array_header_2_0,
}


def read_header(
    file: IO[bytes], size: int, dtypes: str = PLAIN_TYPES
) -> tuple[tuple[int, ...], bool, np.dtype[Any]]:
    """Read the shape, order and dtype of an array of ``size`` bytes.

    The file is then positioned at the first value. ValueError is raised if the header does not
    match the size, or if the kind of the dtype is not in ``dtypes``.
    """
    major, _ = np.lib.format.read_magic(file)
    if major not in _HEADER_READERS:
        raise ValueError(
            f"an array is in version {major} of the NPY format; versions 1 and 2 are supported"
        )
    start = file.tell()
    try:
        shape, fortran_order, dtype = _HEADER_READERS[major](file)
    except Exception as error:  # parsing raises errors of many types
        raise ValueError(f"the header of an array cannot be read ({error})") from error
    if dtype.hasobject or dtype.kind not in dtypes:
        raise ValueError(f"an array has type {dtype}; only numbers and strings are allowed")
    body = size - (file.tell() - start) - np.lib.format.MAGIC_LEN
    declared = math.prod(shape) * dtype.itemsize
    if min(shape, default=0) < 0 or declared != body or max(shape, default=0) > max(body, 2**20):
        raise ValueError(
            f"an array of shape {shape} and type {dtype} is declared, but {body} bytes follow"
        )
    return shape, fortran_order, dtype


def read_array(raw: bytes, dtypes: str = PLAIN_TYPES) -> np.ndarray:
    """Read a writable array from bytes; see `read_header` for errors."""
    file = io.BytesIO(raw)
    shape, fortran_order, dtype = read_header(file, len(raw), dtypes)
    flat = np.frombuffer(raw, dtype=dtype, offset=file.tell()).copy()  # aligned and writable
    return flat.reshape(shape, order="F" if fortran_order else "C")


def check_members(archive: ZipFile, size: int) -> None:
    """Check that all members are uncompressed and fit into ``size`` bytes.

    Reading a member then allocates at most as many bytes as the file has.
    """
    entries = archive.infolist()
    if len(entries) > MAX_MEMBERS:
        raise ValueError(f"the archive has {len(entries)} members; at most {MAX_MEMBERS} allowed")
    if any(entry.compress_type != ZIP_STORED for entry in entries):
        raise ValueError("the archive has compressed members, which prosparse never writes")
    # `zipfile` allocates `compress_size` bytes, even if `file_size` is smaller.
    declared = sum(max(entry.file_size, entry.compress_size) for entry in entries)
    if declared > size:
        raise ValueError(f"the members declare {declared} bytes, but the file has {size}")
