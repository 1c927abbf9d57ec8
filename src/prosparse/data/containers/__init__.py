"""Containers: the supported types of data matrices.

Only this package inspects the type of a data matrix. A new container is a subclass of `Container`
(`RowBlocks` if its rows are read in blocks) and one entry of `CONTAINERS`.

Users pass a container: a DataFrame, a list, an array, or a sparse matrix in any format. Models
receive a validated matrix (`Table`): a NumPy array, a CSR array, or an array that stays in place
(on a GPU, on a cluster, in a file).
"""

from __future__ import annotations

from ..arrays import TableLike
from .array_api import ArrayAPIArray
from .base import Container, NonFinite, Table
from .data_frames import ArrowTable, PandasFrame, PolarsFrame
from .numpy_arrays import MaskedArray, NumpyArray
from .row_blocks import DaskArray, MemoryMap, RowBlocks
from .sparse_matrices import SparseMatrix

__all__ = [
    "CONTAINERS",
    "ArrayAPIArray",
    "ArrowTable",
    "Container",
    "DaskArray",
    "MaskedArray",
    "MemoryMap",
    "NonFinite",
    "NumpyArray",
    "PandasFrame",
    "PolarsFrame",
    "RowBlocks",
    "SparseMatrix",
    "Table",
    "container_of",
]

CONTAINERS: list[Container] = [
    PandasFrame(),
    PolarsFrame(),
    ArrowTable(),
    SparseMatrix(),
    DaskArray(),
    MemoryMap(),
    MaskedArray(),
    ArrayAPIArray(),
    NumpyArray(),  # accepts all other objects
]


def container_of(X: TableLike) -> Container:
    """Return the first container that recognises ``X``."""
    return next(container for container in CONTAINERS if container.recognises(X))
