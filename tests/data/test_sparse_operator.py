"""Sparse matrices that are processed in pieces."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data.operators import sparse as sparse_module
from prosparse.data.operators.sparse import SparseOperator, SparseRows
from prosparse.numerics.spectrum import squared_product

pytestmark = pytest.mark.quick


@pytest.fixture
def dense(rng):
    X = np.where(rng.random((60, 12)) < 0.4, rng.standard_normal((60, 12)), 0.0)
    X[20:45, :2] = 0.0
    X[:, 2] = 1.0 + rng.random(60)  # a column without zeros
    X[:, 5] = 0.0  # an empty column
    return X


@pytest.fixture
def pieces(dense, monkeypatch):
    """Divide products of the matrix into four pieces."""
    n_entries = np.count_nonzero(dense) // 4
    monkeypatch.setattr(sparse_module, "_ENTRIES_PER_PIECE", n_entries)


@pytest.mark.usefixtures("pieces")
def test_products_of_pieces(dense, rng):
    centred = dense - dense.mean(axis=0)
    F, Y = rng.standard_normal((12, 7)), rng.standard_normal((60, 3))
    op = SparseOperator(sparse.csr_array(dense), dense.mean(axis=0), np.ones(12))
    np.testing.assert_allclose(squared_product(op, F), centred.T @ (centred @ F), atol=1e-10)
    np.testing.assert_allclose(op.matmul(F), centred @ F, atol=1e-12)
    np.testing.assert_allclose(op.rmatmul(Y), centred.T @ Y, atol=1e-12)


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("weighted", [False, True])
def test_extent_and_deviations_of_pieces(dense, weighted, rng):
    weights = rng.random(60) if weighted else np.ones(60)
    rows = SparseRows(sparse.csr_array(dense), weights if weighted else None)
    low, high, sums, _ = rows.extent()
    np.testing.assert_array_equal(low, dense.min(axis=0))
    np.testing.assert_array_equal(high, dense.max(axis=0))
    np.testing.assert_allclose(sums, weights @ dense, atol=1e-12)
    deviations = rows.deviations(np.full(12, 0.3), np.full(12, 2.0))
    scaled = (dense - 0.3) / 2.0
    np.testing.assert_allclose(deviations.sums, weights @ scaled, atol=1e-12)
    np.testing.assert_allclose(deviations.squares, weights @ scaled**2, atol=1e-12)


def test_precision_of_parts(dense):
    op = SparseOperator(sparse.csr_array(dense), dense.mean(axis=0), np.ones(12), np.float32)
    for columns in (np.arange(3, 8), np.array([7, 1, 4])):
        part = op.take_columns(columns)
        assert part.dtype == part.S.dtype == np.float32
        np.testing.assert_array_equal(part.S.toarray(), op.S.toarray()[:, columns])
    assert op.sample_rows(20).S.dtype == np.float32


@pytest.mark.usefixtures("pieces")
@pytest.mark.parametrize("dtype", [np.float32, np.int32, np.uint8, bool])
def test_entries_keep_their_dtype(dtype, rng):
    """Products and sums have double precision; the entries are neither copied nor changed."""
    counts = rng.poisson(1.0, (60, 12)).astype(dtype)
    X, wide = sparse.csr_array(counts), counts.astype(float)
    F, Y = rng.standard_normal((12, 7)), rng.standard_normal((60, 3))
    extent = SparseRows(X).extent()
    np.testing.assert_array_equal(extent.sums, wide.sum(axis=0))
    shift, factor = wide.mean(axis=0), 0.5 + rng.random(12)
    op, centred = SparseOperator(X, shift, factor), (wide - shift) * factor
    assert np.shares_memory(op.S.data, X.data)
    np.testing.assert_allclose(op.matmul(F), centred @ F, atol=1e-12)
    np.testing.assert_allclose(op.rmatmul(Y), centred.T @ Y, atol=1e-12)
    np.testing.assert_allclose(op.gram(), centred.T @ centred, atol=1e-11)
    np.testing.assert_allclose(op.outer(), centred @ centred.T, atol=1e-11)
    np.testing.assert_allclose(op.column_squares(), np.sum(centred**2, axis=0))
    np.testing.assert_allclose(op.power_sums(4, Y), (centred**4).T @ Y, atol=1e-10)
    np.testing.assert_allclose(op.dense(), centred, atol=1e-14)
    np.testing.assert_allclose(op.rough().matmul(F.astype(np.float32)), centred @ F, atol=1e-4)
    np.testing.assert_array_equal(X.toarray(), counts)
