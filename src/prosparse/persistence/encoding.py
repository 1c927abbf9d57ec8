"""Encoding of parameters and attributes as JSON and separate arrays."""

from __future__ import annotations

from enum import Enum
from typing import Any

import numpy as np

from ..data.arrays import to_numpy_if_foreign
from ..errors import ModelFileError
from ..inference.loop import StopReason
from ..npy import PLAIN_TYPES
from ..selection.slope import Slope
from .archive import ARRAY_TYPES

ENUMS: dict[str, type[Enum]] = {"StopReason": StopReason}
RECORDS: dict[str, Any] = {"Slope": Slope}
MAX_SCALAR_BYTES = 2**16  # maximum size of a scalar; a dtype can declare any width


def encode(value: Any, arrays: list[np.ndarray], name: str) -> Any:  # noqa: PLR0911
    """Convert a value to objects that JSON supports.

    Arrays in ``value`` are appended to ``arrays`` and encoded by their index. ``name`` is the name
    of the parameter or attribute, for messages.
    """

    def encode_part(part: Any) -> Any:
        return encode(part, arrays, name)

    value = to_numpy_if_foreign(value)
    if isinstance(value, np.ndarray):
        return _encode_array(value, arrays, name)
    # NumPy scalars come first because np.float64 and np.str_ are subclasses of float and str.
    if isinstance(value, np.generic) and isinstance(value.item(), bool | int | float | str):
        return {"$scalar": [value.dtype.str, value.item()]}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, Enum) and ENUMS.get(type(value).__name__) is type(value):
        return {"$enum": [type(value).__name__, value.name]}
    if isinstance(value, tuple) and RECORDS.get(type(value).__name__) is type(value):
        fields = {k: encode_part(v) for k, v in zip(type(value)._fields, value)}  # type: ignore[attr-defined]
        return {"$record": [type(value).__name__, fields]}
    if type(value) in (list, range):
        return [encode_part(part) for part in value]
    if type(value) is tuple:
        return {"$tuple": [encode_part(part) for part in value]}
    if type(value) is dict:
        return {"$dict": [[encode_part(k), encode_part(v)] for k, v in value.items()]}
    if isinstance(value, slice):
        return {"$slice": [encode_part(v) for v in (value.start, value.stop, value.step)]}
    raise ModelFileError(
        f"`{name}` contains a {type(value).__name__}, which a model file cannot store. Use "
        "numbers, strings, lists or NumPy arrays; for `random_state`, an integer or None."
    )


def _encode_array(value: np.ndarray, arrays: list[np.ndarray], name: str) -> Any:
    if value.dtype == object and all(type(text) is str for text in value.flat) and value.ndim == 1:
        return {"$strings": value.tolist()}
    if value.dtype.kind not in ARRAY_TYPES or type(value) is not np.ndarray:
        raise ModelFileError(
            f"`{name}` is an array of {value.dtype}, which a model file cannot store. Use an array "
            "of numbers, strings, bytes or dates."
        )
    arrays.append(value)
    return {"$array": len(arrays) - 1}


def decode(value: Any, arrays: dict[int, np.ndarray]) -> Any:  # noqa: PLR0911
    """Restore the output of `encode`; ``arrays`` are the arrays of the file."""

    def decode_part(part: Any) -> Any:
        return decode(part, arrays)

    if isinstance(value, list):
        return [decode_part(part) for part in value]
    if not isinstance(value, dict):
        return value
    ((tag, content),) = value.items()
    match tag:
        case "$array":
            return arrays[content]
        case "$scalar":
            dtype = np.dtype(content[0])
            plain = isinstance(content[1], bool | int | float | str)
            if dtype.kind not in PLAIN_TYPES or dtype.itemsize > MAX_SCALAR_BYTES or not plain:
                raise ModelFileError(f"a scalar of type {dtype} is not allowed.")
            return np.array([content[1]], dtype=dtype)[0]
        case "$strings":
            if not all(isinstance(text, str) for text in content):
                raise ModelFileError("an array of strings contains other values.")
            return np.array(content, dtype=object)
        case "$tuple":
            return tuple(decode_part(part) for part in content)
        case "$dict":
            return {decode_part(k): decode_part(v) for k, v in content}
        case "$slice":
            return slice(*(decode_part(part) for part in content))
        case "$enum":
            return ENUMS[content[0]][content[1]]
        case "$record":
            return RECORDS[content[0]](**{k: decode_part(v) for k, v in content[1].items()})
    raise ModelFileError(f"unknown tag {tag!r} of a value.")
