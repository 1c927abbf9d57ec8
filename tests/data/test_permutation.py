"""Independent permutation of the columns in every container type."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from prosparse import InputError
from prosparse.data.permutation import permute_columns

pytestmark = pytest.mark.quick

NAMES = list("abcde")
CONTAINERS = {
    "numpy": (np.asarray, np.asarray),
    "pandas": (lambda X: pd.DataFrame(X, columns=NAMES), np.asarray),
    "polars": (lambda X: pl.DataFrame(X, schema=NAMES), lambda X: X.to_numpy()),
    "pyarrow": (
        lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
        lambda X: np.column_stack([np.asarray(column) for column in X.columns]),
    ),
    "csr": (sparse.csr_array, lambda X: X.toarray()),
    "csc": (sparse.csc_matrix, lambda X: X.toarray()),
    "masked": (np.ma.masked_array, np.asarray),
    "strict": (array_api_strict.asarray, np.asarray),
}


@pytest.mark.parametrize("groups", [None, np.repeat([1, 0, 2], 4)], ids=["all rows", "groups"])
@pytest.mark.parametrize("container", CONTAINERS)
def test_columns_are_permuted_independently_within_groups(container, groups, rng):
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    convert, to_dense = CONTAINERS[container]
    given = convert(X)
    permuted = permute_columns(given, rng, groups)
    assert type(permuted) is type(given)
    np.testing.assert_array_equal(to_dense(given), X)
    values = to_dense(permuted)
    assert not np.array_equal(values, X)
    for code in np.unique(np.zeros(12) if groups is None else groups):
        rows = slice(None) if groups is None else groups == code
        np.testing.assert_array_equal(np.sort(values[rows], 0), np.sort(X[rows], 0))
    if groups is None:
        assert len({tuple(np.argsort(column)) for column in values.T}) == 5


def test_masked_values_move_with_their_column(rng):
    X = np.ma.masked_greater(rng.standard_normal((30, 3)), 1.0)
    permuted = permute_columns(X, rng)
    np.testing.assert_array_equal(np.ma.count_masked(permuted, 0), np.ma.count_masked(X, 0))
    assert not np.array_equal(permuted.mask, X.mask)


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_dtype_is_kept(dtype, rng):
    assert permute_columns(np.arange(20).reshape(10, 2).astype(dtype), rng).dtype == dtype


def test_lazy_columns_raise(rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(InputError, match="can only be permuted in memory"):
        permute_columns(da.ones((12, 5), chunks=(5, 5)), rng)
