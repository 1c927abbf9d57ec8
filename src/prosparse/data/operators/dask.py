"""Dask arrays chunked by rows, with dense or sparse blocks, on threads or on a cluster.

A pass over the data is one function of a block and one reduction in a tree. What travels is
the function with the small arrays it holds (p x d), once to every worker, and its sums back.
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
from .blocks import Parts, Source, add

FAN_IN = 8  # partial sums that are added up in one task


def to_float_rows(X: Any) -> Any:
    """A Dask array of floats with all columns in one chunk."""
    if any(math.isnan(length) for length in X.shape):
        raise InputError(
            "the chunks of the Dask array X have unknown sizes: call `X.compute_chunk_sizes()`, "
            "or `to_dask_array(lengths=True)` on the DataFrame that X comes from"
        )
    if X.numblocks[1] > 1:
        X = X.rechunk({0: "auto", 1: -1})
    return X if X.dtype in (np.float32, np.float64) else X.astype(np.float64)


def check_block_shapes(X: Any) -> Any:
    """The Dask array, each block of which is refused when it is computed if it has not the shape
    that the chunks declare: sums would be divided by a wrong number of rows."""
    if any(math.isnan(length) for length in X.shape):
        return X
    return X.map_blocks(_declared_block, dtype=X.dtype)


def _declared_block(block: Any, block_info: Any = None) -> Any:
    if not block_info:  # Dask looks at the type of the result
        return block
    declared = tuple(high - low for low, high in block_info[0]["array-location"])
    if block.shape != declared:
        number = ", ".join(map(str, block_info[0]["chunk-location"]))
        raise InputError(
            f"block ({number}) of the Dask array X has shape {tuple(block.shape)}, but its chunks "
            f"declare {declared}: correct the `chunks` given to `map_blocks` or `from_delayed`, or "
            "call `X.compute_chunk_sizes()`"
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

    def _pieces(self, row_arrays: tuple[Array, ...]) -> Iterator[tuple[Any, ...]]:
        """Every block as a delayed object, with its rows of the arrays that go along."""
        filled = [k for k, rows in enumerate(self.rows) if rows.stop > rows.start]
        blocks = self.X.to_delayed().ravel()
        for k in filled:
            yield blocks[k], *(array[self.rows[k]] for array in row_arrays)

    def reduce(
        self,
        f: Callable[..., Parts],
        row_arrays: tuple[Array, ...] = (),
        combine: Callable[[Parts, Parts], Parts] = add,
    ) -> Parts:
        from dask.delayed import delayed

        def graph(function: Any) -> Any:
            call, merge = delayed(_call, pure=False), delayed(_merge, pure=False)
            parts = [call(function, *piece) for piece in self._pieces(row_arrays)]
            while len(parts) > 1:
                groups = (parts[i : i + FAN_IN] for i in range(0, len(parts), FAN_IN))
                parts = [merge(combine, group) for group in groups]
            return parts[0]

        return _compute(f, graph)

    def gather(self, f: Callable[..., Array], row_arrays: tuple[Array, ...] = ()) -> Array:
        from dask.delayed import delayed

        def graph(function: Any) -> Any:
            call = delayed(_call, pure=False)
            return delayed(np.concatenate)(
                [call(function, *piece) for piece in self._pieces(row_arrays)]
            )

        return _compute(f, graph)

    def map(self, f: Callable[..., Array], row_arrays: tuple[Array, ...] = ()) -> Array:
        from dask import array as da

        one = f(np.zeros((1, self.shape[1])), *(array[:1] for array in row_arrays))
        whole = [
            da.from_array(array, chunks=(self.X.chunks[0], *array.shape[1:]))
            for array in row_arrays
        ]
        axes = {"drop_axis": 1} if one.ndim == 1 else {}
        chunks = (self.X.chunks[0], *((width,) for width in one.shape[1:]))
        meta = np.empty((0,) * one.ndim, dtype=one.dtype)
        return da.map_blocks(f, self.X, *whole, dtype=one.dtype, chunks=chunks, meta=meta, **axes)


def _call(f: Any, block: Any, *rows: Any) -> Any:
    return f(block, *rows)


def _merge(combine: Any, parts: list[Parts]) -> Parts:
    total = parts[0]
    for part in parts[1:]:
        total = combine(total, part)
    return total


def _compute(f: Any, graph: Callable[[Any], Any]) -> Any:
    """Run ``graph(f)``, where ``f`` is a task of its own: on a cluster it then travels to every
    worker once, not once per block, and is made again if the workers that hold it die."""
    from dask.delayed import delayed

    with warnings.catch_warnings():  # what is large is p x d, and is meant to travel
        warnings.filterwarnings("ignore", "Sending large graph", UserWarning)
        return graph(delayed(_itself, pure=False)(f)).compute()


def _itself(f: Any) -> Any:
    return f
