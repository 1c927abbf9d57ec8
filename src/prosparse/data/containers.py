"""Every kind of table: how it is recognised, checked, cut, measured, and given back.

This is the only place that asks what a table is. The rest of the library asks a table's `Kind`
(or one of the functions at the end, which do). A new kind of table is a class here, or in a
file of its own, and one line in `KINDS`; if its rows are kept in a way that no operator knows
yet, it brings an operator, too (`operators/`).

A table passes through two stages. What a user gives is a *container*: a DataFrame, a list, an
array, a sparse matrix in any format. What a model is given is a *validated table*: a NumPy
array, a CSR array, or an array that stays where it is (on a GPU, on a cluster, in a file).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, time, timedelta
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import (
    array_namespace,
    device,
    is_array_api_obj,
    is_dask_array,
    is_jax_array,
    is_numpy_array,
    is_torch_array,
)
from scipy import sparse

from ..errors import InputError
from . import columns as _columns
from .arrays import Array, TableLike, from_numpy, to_numpy
from .columns import Columns, RawRows
from .counts import (
    dense_roots,
    dense_squares,
    dense_totals,
    refuse_totals,
    roots_of_block,
    sparse_roots,
    sparse_squares,
    sparse_totals,
    squares_of_block,
    totals_of_block,
)
from .fingerprint import digest
from .operators import blocks, dask, dense, mapped
from .operators import sparse as sparse_rows
from .operators.base import ENTRIES_ON_ACCELERATOR, Operator, row_slices
from .operators.weighted import CountedRows
from .ranks import normal_scores, sparse_normal_scores
from .shuffle import shuffled_dense, shuffled_sparse

Table = TableLike  # a validated one


class NotFinite(NamedTuple):
    """The entries that are not finite numbers."""

    what: str  # "NaN", "infinity" or "NaN and infinity"
    total: int  # how many they are
    row: int  # of the first
    column: int  # of the first
    rows: int  # how many rows have one
    by_column: dict[int, int]  # how many each column has that has any, most of them first

    def in_words(self, names: Sequence[object], row: object = None) -> str:
        """How many, and where; ``row`` is what the first row is called, if not by its number."""
        columns = [f"{called(names[place])} ({n:,})" for place, n in self.by_column.items()]
        first = self.row if row is None else repr(row)
        return (
            f"{self.what}: {self.total:,} value(s), the first in row {first}, "
            f"{called(names[self.column])}; {self.rows:,} row(s) and {len(columns):,} column(s) "
            f"have any: {listed(columns)}"
        )


def called(name: object) -> str:
    """A column, by its name or, where it has none, by its position."""
    return f"column {name!r}" if isinstance(name, str) else f"column {name}"


def listed(items: Sequence[str], most: int = 5) -> str:
    """The first few of a list, and how many more there are."""
    more = f" and {len(items) - most:,} more" if len(items) > most else ""
    return ", ".join(items[:most]) + more


class Container:
    """One kind of table.

    Subclasses say what differs from a NumPy array, for which all of these work as they stand.
    """

    name = "NumPy array"
    # Validated where it is, and given back where it is; others are made NumPy or CSR arrays by
    # scikit-learn's checks.
    stays = False
    # Whether all rows can be asked for at once, or come in blocks.
    in_memory = True
    # Whether entries are on the host, where rows can be grouped by what they miss.
    is_numpy = True
    # Whether only some entries are stored, and the others are zero.
    is_sparse = False

    def recognises(self, X: TableLike) -> bool:
        """Whether ``X`` is of this kind."""
        return True

    def column_names(self, X: TableLike) -> list[Any] | None:
        """The names of the columns of a container; None if it has none."""
        return None

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        """``X`` as scikit-learn's checks take it; refuses in words what cannot be read."""
        if getattr(getattr(X, "dtype", None), "kind", "") in _TIMES:
            raise InputError(f"X holds dates or times, {_NO_NUMBERS}")
        return X

    def checked(self, X: Table, least: int) -> Table:
        """A table that stays where it is: two dimensions, ``least`` rows and columns, floats."""
        return X

    def not_finite(self, X: Table, *, allow_nan: bool = False) -> NotFinite | None:
        """The first entry that is not finite; with ``allow_nan``, the first infinite one."""
        return _not_finite(X, allow_nan)

    def finite(self, X: Table) -> Table:
        """``X``, refused if an entry is not finite: now, or when its rows are read."""
        found = self.not_finite(X)
        if found is not None:
            raise InputError(f"Input X contains {found.what}: {found.total} value(s)")
        return X

    def has_missing(self, X: Table) -> bool:
        """Whether an entry is missing (NaN)."""
        xp = array_namespace(X)
        return any(bool(xp.any(xp.isnan(some))) for some in _large_blocks(X))

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        """Some columns of a table or a container, in kind."""
        return np.asarray(X)[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        """Some rows of a table or a container, in kind."""
        return np.asarray(X)[rows]

    def shuffled(
        self, X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> TableLike:
        """A table like ``X`` with every column in a random order of its own, within ``groups``
        (codes of the rows) where they are given."""
        return self.with_values(X, shuffled_dense(np.asarray(X), rng, groups))

    def with_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        """A container like ``X`` with other entries."""
        return values

    def dense(self, X: Table) -> np.ndarray:
        """A copy of the table in double precision, dense and on the host."""
        return np.array(X, dtype=float)

    def normal_scores(self, X: Table) -> Table:
        """A table of the same kind with every column replaced by its normal scores."""
        return normal_scores(X)

    def row_totals(self, X: Table) -> np.ndarray:
        """The sum of the counts of every row, on the host; refuses what cannot be counts."""
        totals = np.asarray(to_numpy(dense_totals(X)), dtype=float)
        refuse_totals(totals)
        return totals

    def root_shares(self, X: Table, depth: float) -> Table:
        """A table of the same kind with counts replaced by sqrt(depth x / total of the row)."""
        return dense_roots(X, from_numpy(self.row_totals(X), X), depth)

    def squares(self, X: Table) -> Table:
        """A table of the same kind with the squares of the entries."""
        return dense_squares(X)

    def rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        """The table as the standardiser measures it; row i stands ``weights[i]`` times in it."""
        if weights is None:
            return dense.DenseRows(X)
        present = weights > 0
        weights = weights[present]
        return CountedRows(dense.DenseRows(X[present], weights), weights)

    def refuse_weights(self, X: TableLike) -> None:
        """Rows can only be weighted in the host's memory."""
        if self.stays:
            raise InputError(
                "`sample_weight` needs a table in the host's memory (NumPy, pandas, polars, "
                f"SciPy sparse), got {_full_name(X)}"
            )

    def new_rows(self, X: Table, mean: Array, scale: Array) -> Operator:
        """The operator of rows whose means and scales are known."""
        return dense.new_rows(X, mean, scale)

    def fingerprint(self, X: Table) -> np.ndarray:
        """Numbers that tell the content of the table; see `identity`."""
        numbers = np.arange(X.shape[0])
        parts = (digest(block, numbers[rows])[0] for rows, block in self.numpy_blocks(X))
        return np.add.reduce(list(parts), dtype=np.uint64)

    def numpy_blocks(self, X: Table) -> Iterator[tuple[slice, Table]]:
        """The rows block by block, on the host."""
        for rows in row_slices(X.shape[0], X.shape[1]):
            yield rows, X[rows, :]


class NumpyArray(Container):
    """NumPy arrays, and whatever scikit-learn makes one of (lists, for example)."""

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        X = super().readable(X, allow_nan=allow_nan)
        entries = _mixed_entries(X)
        if entries is not None:
            _refuse_columns(dict(enumerate(entries.T)))
        return X


class MaskedArray(Container):
    """NumPy's masked arrays, and lists of masked rows: what is masked is missing."""

    name = "masked array"

    def recognises(self, X: TableLike) -> bool:
        if isinstance(X, list | tuple):
            return any(isinstance(row, np.ma.MaskedArray) for row in X)
        return isinstance(X, np.ma.MaskedArray)

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        X = super().readable(np.ma.array(X, copy=False), allow_nan=allow_nan)
        masked = int(np.ma.count_masked(X))
        if not masked:
            return X.data
        if not allow_nan:
            raise InputError(
                f"{masked} entries of X are masked, that is missing, and would be used as if they "
                "were not. Fill them in first (`X.filled(...)`), or leave out their rows or "
                "columns; SCA takes masked entries as missing."
            )
        return X.astype(float).filled(np.nan)

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return np.ma.array(X, copy=False)[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return np.ma.array(X, copy=False)[rows]

    def shuffled(
        self, X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> TableLike:
        # what is missing goes along with its column, as NaN
        values: np.ndarray = np.ma.array(X, dtype=float).filled(np.nan)
        return np.ma.masked_invalid(shuffled_dense(values, rng, groups))

    def with_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return np.ma.MaskedArray(values)


class PandasFrame(Container):
    """pandas DataFrames, and those that have its ``iloc``."""

    name = "pandas DataFrame"

    def recognises(self, X: TableLike) -> bool:
        return hasattr(X, "iloc") and hasattr(X, "columns")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.columns)

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        _refuse_repeated_names(list(X.columns))
        others = [name for name, dtype in X.dtypes.items() if dtype.kind not in _NUMBERS]
        _refuse_columns({name: X[name].dropna().to_numpy() for name in others})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.iloc[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.iloc[rows]

    def with_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X)(values, index=X.index, columns=X.columns)


class PolarsFrame(Container):
    """polars DataFrames."""

    name = "polars DataFrame"

    def recognises(self, X: TableLike) -> bool:
        return hasattr(X, "collect_schema")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.columns)

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        if not hasattr(X, "to_numpy"):
            raise InputError("X is a lazy frame: call `collect()` on it first")
        others = [name for name, dtype in X.schema.items() if not dtype.is_numeric()]
        _refuse_columns({name: X[name].drop_nulls().to_numpy() for name in others})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.select([X.columns[place] for place in columns])

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X[rows]

    def with_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X)(values, schema=X.columns)


class ArrowTable(Container):
    """Tables and record batches of pyarrow."""

    name = "pyarrow table"

    def recognises(self, X: TableLike) -> bool:
        return type(X).__module__.partition(".")[0] == "pyarrow" and hasattr(X, "column_names")

    def column_names(self, X: TableLike) -> list[Any] | None:
        return list(X.column_names)

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        _refuse_repeated_names(X.column_names)
        columns = {name: X.column(name).to_numpy(zero_copy_only=False) for name in X.column_names}
        others = {name: v for name, v in columns.items() if v.dtype.kind not in _NUMBERS}
        _refuse_columns({name: v[[entry is not None for entry in v]] for name, v in others.items()})
        return X

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.select(columns.tolist())

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.take(rows)

    def with_values(self, X: TableLike, values: np.ndarray) -> TableLike:
        return type(X).from_pydict(dict(zip(X.column_names, values.T, strict=True)))


class SparseTable(Container):
    """SciPy's sparse matrices and arrays, in any format; validated ones are CSR."""

    name = "sparse table"
    is_sparse = True

    def recognises(self, X: TableLike) -> bool:
        return bool(sparse.issparse(X))

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        # What somebody else holds is never sorted or added up in place.
        return sparse_rows.canonical(X) if X.format == "csr" else X

    def not_finite(self, X: Table, *, allow_nan: bool = False) -> NotFinite | None:
        wrong = np.isinf(X.data) if allow_nan else ~np.isfinite(X.data)
        if not wrong.any():
            return None
        entries = X.tocoo()
        return _where_not_finite(entries.row[wrong], entries.col[wrong], X.data[wrong])

    def has_missing(self, X: Table) -> bool:
        return bool(np.isnan(X.data).any())

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X.tocsr()[:, columns].asformat(X.format)

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X.tocsr()[rows].asformat(X.format)

    def shuffled(
        self, X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> TableLike:
        return shuffled_sparse(X, rng, groups)

    def dense(self, X: Table) -> np.ndarray:
        return np.asarray(X.toarray(), dtype=float)

    def normal_scores(self, X: Table) -> Table:
        return sparse_normal_scores(X)

    def row_totals(self, X: Table) -> np.ndarray:
        totals = sparse_totals(X)
        refuse_totals(totals)
        return totals

    def root_shares(self, X: Table, depth: float) -> Table:
        return sparse_roots(X, self.row_totals(X), depth)

    def squares(self, X: Table) -> Table:
        return sparse_squares(X)

    def rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        if weights is None:
            return sparse_rows.SparseRows(X)
        present = np.flatnonzero(weights > 0)
        weights = weights[present]
        return CountedRows(sparse_rows.SparseRows(X[present], weights), weights)

    def new_rows(self, X: Table, mean: Array, scale: Array) -> Operator:
        return sparse_rows.new_rows(X, mean, scale)

    def numpy_blocks(self, X: Table) -> Iterator[tuple[slice, Table]]:
        yield slice(0, X.shape[0]), X


class ForeignArray(Container):
    """Arrays in memory of a library other than NumPy (Torch, CuPy, JAX, ...), on any device."""

    name = "array API array"
    stays = True
    is_numpy = False

    def recognises(self, X: TableLike) -> bool:
        return is_array_api_obj(X) and not (is_numpy_array(X) or is_dask_array(X))

    def checked(self, X: Table, least: int) -> Table:
        _check_shape(X, least)
        if is_torch_array(X):
            _refuse_layout(X)
            X = X.detach()  # no gradients are wanted
        xp = array_namespace(X)
        if xp.isdtype(X.dtype, "complex floating"):
            raise InputError(f"Complex data not supported: X has dtype {X.dtype}")
        if is_jax_array(X) and xp.asarray(1.0).dtype != xp.float64:
            raise InputError(
                "JAX is set to single precision, in which sums over the rows would lose their "
                "digits: call `jax.config.update('jax_enable_x64', True)` first. X itself may be "
                "float32."
            )
        if X.dtype in (xp.float32, xp.float64):
            return X
        return xp.astype(X, xp.float32 if xp.isdtype(X.dtype, "real floating") else xp.float64)

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return array_namespace(X).take(X, from_numpy(columns, X), axis=1)

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return array_namespace(X).take(X, from_numpy(rows, X), axis=0)

    def shuffled(
        self, X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> TableLike:
        return from_numpy(shuffled_dense(to_numpy(X), rng, groups), X, X.dtype)

    def dense(self, X: Table) -> np.ndarray:
        return np.array(to_numpy(X), dtype=float)

    def normal_scores(self, X: Table) -> Table:
        return from_numpy(normal_scores(to_numpy(X)), X, X.dtype)  # ranks are made on the host

    def rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        if weights is not None:
            self.refuse_weights(X)
        return dense.DenseRows(X)

    def numpy_blocks(self, X: Table) -> Iterator[tuple[slice, Table]]:
        for rows in row_slices(X.shape[0], X.shape[1]):
            yield rows, to_numpy(X[rows, :])


class RowBlocks(Container, ABC):
    """Tables whose rows come in blocks and are looked at when they are read."""

    stays = True
    in_memory = False

    @abstractmethod
    def source(self, X: Table) -> blocks.Source:
        """Where the blocks are."""

    def not_finite(self, X: Table, *, allow_nan: bool = False) -> NotFinite | None:
        return None  # nobody looked yet; the standardiser and new rows do

    def has_missing(self, X: Table) -> bool:
        return False  # would be refused when the rows are read

    def take_columns(self, X: TableLike, columns: np.ndarray) -> TableLike:
        return X[:, columns]

    def take_rows(self, X: TableLike, rows: np.ndarray) -> TableLike:
        return X[rows]

    def shuffled(
        self, X: TableLike, rng: np.random.Generator, groups: np.ndarray | None = None
    ) -> TableLike:
        raise InputError(
            f"columns can only be shuffled in memory, and X is a {self.name}, whose rows are read "
            "block by block: give some of its rows, in memory"
        )

    def normal_scores(self, X: Table) -> Table:
        raise InputError(
            f"ranks need whole columns in memory, and X is a {self.name}, whose rows are read "
            "block by block: bring it into memory first, or do without ranks"
        )

    def row_totals(self, X: Table) -> np.ndarray:
        totals = np.asarray(self.source(X).gather(totals_of_block), dtype=float)
        refuse_totals(totals)
        return totals

    def root_shares(self, X: Table, depth: float) -> Table:
        raise self._left_as_it_is()

    def squares(self, X: Table) -> Table:
        raise self._left_as_it_is()

    def _left_as_it_is(self) -> InputError:
        return InputError(
            f"X is a {self.name}, whose rows are read as they are, and counts would have to be "
            "changed: bring it into memory or into a Dask array first, or transform the counts "
            "yourself and fit with `counts=False`"
        )

    def rows(self, X: Table, weights: np.ndarray | None = None) -> RawRows:
        if weights is not None:
            self.refuse_weights(X)
        return blocks.BlockedRows(self.source(X))

    def new_rows(self, X: Table, mean: Array, scale: Array) -> Operator:
        return blocks.new_rows(self.source(X), mean, scale)

    def fingerprint(self, X: Table) -> np.ndarray:
        return self.source(X).reduce(digest, (np.arange(X.shape[0]),))[0]


class DaskTable(RowBlocks):
    """Dask arrays, with dense or sparse blocks."""

    name = "Dask array"

    def recognises(self, X: TableLike) -> bool:
        return bool(is_dask_array(X))

    def readable(self, X: TableLike, *, allow_nan: bool) -> TableLike:
        return dask.with_declared_blocks(super().readable(X, allow_nan=allow_nan))

    def checked(self, X: Table, least: int) -> Table:
        _check_shape(X, least)
        _check_numbers(X.dtype, "biufOSU")  # objects and text may yet be numbers
        return dask.checked_dask(X)

    def source(self, X: Table) -> blocks.Source:
        return dask.DaskRows(X)

    def finite(self, X: Table) -> Table:
        return X.map_blocks(blocks.finite_block, dtype=X.dtype)

    def root_shares(self, X: Table, depth: float) -> Table:
        return X.map_blocks(roots_of_block, depth, dtype=np.float64)

    def squares(self, X: Table) -> Table:
        return X.map_blocks(squares_of_block, dtype=np.float64)

    def dense(self, X: Table) -> np.ndarray:
        whole = X.compute()
        return np.array(whole.toarray() if sparse.issparse(whole) else whole, dtype=float)


class MappedTable(RowBlocks):
    """Large memory maps, read block by block; blocks are converted as they are read."""

    name = "memory map"

    def recognises(self, X: TableLike) -> bool:
        return mapped.is_large_map(X)

    def checked(self, X: Table, least: int) -> Table:
        _check_shape(X, least)
        _check_numbers(X.dtype, "biuf")
        return X

    def source(self, X: Table) -> blocks.Source:
        return mapped.MappedRows(X)

    def finite(self, X: Table) -> Table:
        for _, block in self.source(X).blocks():
            blocks.finite_block(block)
        return X


CONTAINERS: list[Container] = [
    PandasFrame(),
    PolarsFrame(),
    ArrowTable(),
    SparseTable(),
    DaskTable(),
    MappedTable(),
    MaskedArray(),
    ForeignArray(),
    NumpyArray(),  # takes whatever no other kind recognises
]


def container_of(X: TableLike) -> Container:
    """The first kind that recognises ``X``."""
    return next(kind for kind in CONTAINERS if kind.recognises(X))


# --- what the rest of the library asks of tables


def take_columns(X: TableLike, columns: np.ndarray) -> TableLike:
    """Some columns of a table of any kind, in kind."""
    return container_of(X).take_columns(X, columns)


def standardise(
    X: Table, scale: bool = False, weights: np.ndarray | None = None, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """The centred (and, if asked, scaled) operator of a validated table, without its constant
    columns, and the record that leads back to the table's own units.

    See `columns.standardise_rows`, which says what the options mean.
    """
    return _columns.standardise_rows(container_of(X).rows(X, weights), scale, centre=centre)


def reweighted(
    X: Table, columns: Columns, weights: np.ndarray, *, centre: bool = True
) -> tuple[Operator, Columns]:
    """The operator of a validated table in the scales of ``columns``, its rows weighed anew.

    See `columns.reweighted_rows`.
    """
    return _columns.reweighted_rows(container_of(X).rows(X, weights), columns, centre=centre)


def operator_of(X: Table, mean: Array, scale: Array) -> Operator:
    """The operator of new rows of a table whose means and scales are known."""
    return container_of(X).new_rows(X, mean, scale)


def fingerprint(X: Table) -> np.ndarray:
    """Numbers that tell the content of a validated table, however it is kept."""
    return np.concatenate([np.array(X.shape, dtype=np.uint64), container_of(X).fingerprint(X)])


def is_lazy(X: TableLike) -> bool:
    """Whether results for ``X`` are computed later, when somebody asks for them."""
    return isinstance(container_of(X), DaskTable)


def side_by_side(tables: list[TableLike]) -> tuple[TableLike, list[slice]]:
    """Tables of the same samples as one table, and where each of them stands in it.

    Sparse stays sparse where all are; arrays of one library stay in it.
    """
    kinds = [container_of(table) for table in tables]
    tables = [_readable_view(number, table) for number, table in enumerate(tables)]
    for number, table in enumerate(tables):
        if len(table.shape) != 2:
            raise InputError(
                f"view {number} must be a table with two dimensions, got shape {table.shape}"
            )
    lengths = [table.shape[0] for table in tables]
    if len(set(lengths)) > 1:
        raise InputError(
            f"the views must describe the same samples, row by row; they have {lengths} rows. "
            "Give rows of NaN to a view in which a sample is missing."
        )
    edges = np.cumsum([0, *(table.shape[1] for table in tables)])
    slices = [slice(a, b) for a, b in pairwise(edges.tolist())]
    if all(isinstance(kind, SparseTable) for kind in kinds):
        return sparse.hstack(tables, format="csr"), slices
    if any(isinstance(kind, ForeignArray | DaskTable) for kind in kinds):
        _refuse_mixture(tables, kinds)
        like = next(t for t, k in zip(tables, kinds, strict=True) if k.stays)
        return array_namespace(like).concat(tables, axis=1), slices
    return np.hstack([t.toarray() if sparse.issparse(t) else t for t in tables]), slices


def _readable_view(number: int, table: TableLike) -> TableLike:
    kind = container_of(table)
    try:
        table = kind.readable(table, allow_nan=True)
    except InputError as error:
        raise InputError(f"view {number}: {error}") from error
    return table if kind.stays or kind.is_sparse else np.asarray(table)


# --- shared by several kinds


def _large_blocks(X: Array) -> Iterator[Array]:
    """The rows of an array in memory, some at a time: looking at single entries makes temporary
    arrays, for which a GPU filled with the table has no room."""
    return (X[rows, ...] for rows in row_slices(X.shape[0], X.shape[1], ENTRIES_ON_ACCELERATOR))


def _not_finite(X: Array, allow_nan: bool) -> NotFinite | None:
    xp = array_namespace(X)
    if not allow_nan and _sums_to_a_number(X):
        return None

    def finite_entries(X: Array) -> Array:
        return ~xp.isinf(X) if allow_nan else xp.isfinite(X)

    if all(bool(xp.all(finite_entries(some))) for some in _large_blocks(X)):
        return None
    finite = finite_entries(X)
    rows, columns = (to_numpy(axis) for axis in xp.nonzero(~finite))
    return _where_not_finite(rows, columns, to_numpy(X[~finite]))


def _sums_to_a_number(X: Array) -> bool:
    """Whether the sum of all entries is finite: then every one of them is. One that is not makes
    no sum finite again, and large finite ones may add up to infinity, which says nothing."""
    with np.errstate(over="ignore", invalid="ignore"):
        return bool(np.isfinite(float(array_namespace(X).sum(X))))


def _where_not_finite(rows: np.ndarray, columns: np.ndarray, entries: np.ndarray) -> NotFinite:
    """Entries that are not finite, by their places, in the order of the rows."""
    missing = np.isnan(entries)
    what = "NaN" if missing.all() else "NaN and infinity" if missing.any() else "infinity"
    names, counts = np.unique(columns, return_counts=True)
    order = np.argsort(-counts, kind="stable")
    by_column = dict(zip(names[order].tolist(), counts[order].tolist(), strict=True))
    many = np.unique(rows).size
    return NotFinite(what, rows.size, int(rows[0]), int(columns[0]), many, by_column)


# The kinds of NumPy's types (and of those of pandas) that hold dates and times. As numbers they
# count from 1970, and one that is missing would be -9.2e18.
_TIMES = ("M", "m")
_NO_NUMBERS = (
    "which are not numbers. Make numbers of them first (days since some date, for example), or "
    "leave them out."
)


# The kinds of NumPy's types whose entries are numbers; complex ones are refused later, in words.
_NUMBERS = "biufc"


def _mixed_entries(X: TableLike) -> np.ndarray | None:
    """The entries of an array, or of rows in a list, that may hold text; None if none does."""
    if isinstance(X, list | tuple):
        try:
            X = np.asarray(X)
        except ValueError:  # rows of unequal length, which scikit-learn's checks refuse
            return None
    mixed = isinstance(X, np.ndarray) and X.ndim == 2 and X.dtype.kind in "OSU"
    return X if mixed else None


def _refuse_columns(columns: Mapping[Any, np.ndarray]) -> None:
    """Refuse columns that hold text or dates, all of them at once; numbers that are written as
    text are numbers."""
    wrong = {name: what for name, entries in columns.items() if (what := _no_numbers(entries))}
    if wrong:
        said = [f"{called(name)} ({what})" for name, what in wrong.items()]
        raise InputError(
            f"{len(wrong):,} column(s) of X hold no numbers: {listed(said)}. Leave out those "
            "that are names or labels of the rows, and make numbers of the others first: an "
            "indicator for each category (scikit-learn's OneHotEncoder), days since some date."
        )


def _refuse_repeated_names(names: Sequence[object]) -> None:
    """Refuse a container of which two columns have the same name."""
    known: set[object] = set()
    for name in names:
        if name in known:
            raise InputError(
                f"X has more than one column named {name!r}: rename them, or pass a NumPy array, "
                "whose columns have no names"
            )
        known.add(name)


def _no_numbers(entries: np.ndarray) -> str | None:
    """What a column holds that is neither numbers nor text that says numbers; None if it is. Other
    objects are left to scikit-learn's checks."""
    if entries.dtype.kind in _TIMES:
        return "dates or times"
    try:
        entries.astype(float)
    except (TypeError, ValueError):
        for entry in entries:
            if isinstance(entry, date | time | timedelta):
                return "dates or times"
            if isinstance(entry, list | tuple | np.ndarray):
                return "lists"
            if isinstance(entry, str | bytes) and not _says_a_number(entry):
                return f"text, such as {_shortened(entry)!r}"
    return None


def _says_a_number(entry: str | bytes) -> bool:
    try:
        float(entry)
    except ValueError:
        return False
    return True


def _shortened(text: str | bytes, most: int = 20) -> str:
    plain = text.decode(errors="replace") if isinstance(text, bytes) else str(text)
    return plain if len(plain) <= most else f"{plain[: most - 1]}…"


def _check_numbers(dtype: np.dtype, allowed: str) -> None:
    """Refuse a table by the kind of its NumPy type, before its first row is read."""
    if dtype.kind in allowed:
        return
    if dtype.kind == "c":
        raise InputError(f"Complex data not supported: X has dtype {dtype}")
    what = "dates or times" if dtype.kind in _TIMES else f"entries of type {dtype}"
    raise InputError(f"X holds {what}, {_NO_NUMBERS}")


def _refuse_layout(X: TableLike) -> None:
    """Torch tensors whose entries do not lie in memory one after the other, as they are."""
    if X.is_meta:
        raise InputError("X is a Torch tensor on the meta device, which has no entries")
    if X.is_quantized:
        raise InputError("X is a quantized Torch tensor: call `X.dequantize()` first")
    layout = str(X.layout).removeprefix("torch.")
    if layout != "strided":
        raise InputError(
            f"X is a Torch tensor with layout {layout}: call `X.to_dense()` first, or pass a "
            "SciPy sparse array, which stays sparse"
        )


def _refuse_mixture(tables: list[TableLike], kinds: list[Container]) -> None:
    """Arrays of Torch, CuPy or JAX only stand beside arrays of the same library and device."""
    first = next((k for k, kind in enumerate(kinds) if isinstance(kind, ForeignArray)), None)
    if first is None:
        return
    library = array_namespace(tables[first])
    for number, table in enumerate(tables):
        same = isinstance(kinds[number], ForeignArray) and array_namespace(table) is library
        if not (same and device(table) == device(tables[first])):
            raise InputError(
                f"view {first} is a {_full_name(tables[first])} and view {number} a "
                f"{_full_name(table)}: bring all views to one library and one device first"
            )


def _full_name(X: TableLike) -> str:
    return f"{type(X).__module__}.{type(X).__name__}"


def _check_shape(X: TableLike, least: int) -> None:
    if X.ndim != 2:
        raise InputError(
            f"Expected 2D array, got {X.ndim}D array instead: X must be a table of rows and "
            f"columns, got shape {tuple(X.shape)}"
        )
    for count, what in zip(X.shape, ("sample", "feature"), strict=True):
        if count < least:
            raise InputError(
                f"Found array with {count} {what}(s) (shape={tuple(X.shape)}) while a minimum of "
                f"{least} is required."
            )
