"""Operators of Dask arrays with dense or sparse blocks.

A sum over the rows is computed by a function of each block and a tree reduction, on threads or a
cluster. The function, which contains small arrays (p x d), is sent once to each worker.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import numpy as np

from ...errors import InputError
from ..arrays import Array
from .base import Parts, RowFunction
from .blocks import Source, add

FAN_IN = 8  # number of partial sums that one task adds


def to_float_rows(X: Any) -> Any:
    """Convert a Dask array to floats with all columns in one chunk."""
    if any(math.isnan(length) for length in X.shape):
        raise InputError(
            "The chunks of the Dask array X have unknown sizes. Call `X.compute_chunk_sizes()`, or "
            "create X by `to_dask_array(lengths=True)`."
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({0: "auto", 1: -1})
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def check_blocks(X: Any) -> Any:
    """Check the type and the shape of each block when it is computed."""
    if any(math.isnan(length) for length in X.shape):
        return X
    return X.map_blocks(_check_block, dtype=X.dtype)


def _check_block(block: Any, block_info: Any = None) -> Any:
    if not block_info:  # Dask calls the function to determine the type of the result.
        return block
    declared = tuple(high - low for low, high in block_info[0]["array-location"])
    number = ", ".join(map(str, block_info[0]["chunk-location"]))
    dtype = getattr(block, "dtype", None)
    if getattr(dtype, "kind", "") not in "biuf" or dtype is None:
        found = f"dtype {dtype}" if dtype is not None else f"type {type(block).__name__}"
        raise InputError(
            f"Block ({number}) of the Dask array X must be an array of numbers, got {found}."
        )
    if block.shape != declared:
        raise InputError(
            f"Block ({number}) of the Dask array X has shape {tuple(block.shape)}, but its chunks "
            f"declare {declared}. Correct the `chunks` passed to `map_blocks` or `from_delayed`, "
            "or call `X.compute_chunk_sizes()`."
        )
    return block


class DaskRows(Source):
    """The row chunks of a Dask array."""

    def __init__(self, X: Any):
        self.X = X
        self.shape, self.dtype = X.shape, X.dtype
        edges = np.cumsum([0, *X.chunks[0]]).tolist()
        self.rows = [slice(a, b) for a, b in pairwise(edges)]

    def blocks(self) -> Iterator[tuple[slice, Any]]:
        for number, rows in enumerate(self.rows):
            yield rows, self.X.blocks[number].compute()

    def every(self, step: int) -> Any:
        return self.X[::step].compute()

    def _delayed_blocks(self, row_arrays: tuple[Array, ...]) -> Iterator[tuple[Any, ...]]:
        """Yield each nonempty delayed block with its rows of ``row_arrays``."""
        for rows, block in zip(self.rows, self.X.to_delayed().ravel(), strict=True):
            if rows.stop > rows.start:
                yield block, *(array[rows] for array in row_arrays)

    def reduce(
        self,
        f: RowFunction,
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        from dask.delayed import delayed

        def graph(function: Any) -> Any:
            call, merge = delayed(_call, pure=False), delayed(_merge, pure=False)
            parts = [call(function, *block) for block in self._delayed_blocks(row_arrays)]
            while len(parts) > 1:
                groups = (parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN))
                parts = [merge(combine, group) for group in groups]
            return parts[0]

        return _compute(f, graph)

    def gather(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> Array:
        from dask.delayed import delayed

        def graph(function: Any) -> Any:
            call = delayed(_call, pure=False)
            return delayed(np.concatenate)(
                [call(function, *block) for block in self._delayed_blocks(row_arrays)]
            )

        return _compute(f, graph)

    def map(self, f: RowFunction, row_arrays: tuple[Array, ...] = ()) -> Array:
        from dask import array as da

        example = f(np.zeros((1, self.shape[1])), *(array[:1] for array in row_arrays))
        lazy_arrays = [
            da.from_array(array, chunks=(self.X.chunks[0], *array.shape[1:]))
            for array in row_arrays
        ]
        axes = {"drop_axis": 1} if example.ndim == 1 else {}
        chunks = (self.X.chunks[0], *((width,) for width in example.shape[1:]))
        meta = np.empty((0,) * example.ndim, dtype=example.dtype)
        return da.map_blocks(
            f, self.X, *lazy_arrays, dtype=example.dtype, chunks=chunks, meta=meta, **axes
        )


def _call(f: Any, block: Any, *rows: Any) -> Any:
    return f(block, *rows)


def _merge(combine: Any, parts: list[Parts]) -> Parts:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def _compute(f: Any, graph: Callable[[Any], Any]) -> Any:
    """Compute ``graph(f)``, with ``f`` sent once to each worker."""
    from dask.delayed import delayed

    with warnings.catch_warnings():  # large arrays (p x d) are expected
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return graph(delayed(_identity, pure=False)(f)).compute()


def _identity(f: Any) -> Any:
    return f
