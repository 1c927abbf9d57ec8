"""Headers of arrays in NumPy's format, believed only if they describe the bytes that follow."""

from __future__ import annotations

import math
from typing import IO, Any

import numpy as np

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
