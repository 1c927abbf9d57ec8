"""The leading spectrum by products alone, against the decomposition of the whole table."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse import GSPPCA
from prosparse.data import DenseOperator, standardise
from prosparse.data.arrays import to_numpy
from prosparse.data.operators.sparse import SparseOperator, SparseRows
from prosparse.datasets import make_globally_sparse
from prosparse.numerics import spectrum as linalg
from prosparse.numerics.spectrum import (
    leading_directions,
    leading_eigenvectors,
    principal_components,
    spectrum,
    squared_product,
)

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("shape", [(300, 80), (80, 300), (100, 100), (60, 15)])
@pytest.mark.parametrize("make", [np.asarray, array_api_strict.asarray])
def test_leading_directions_are_singular_vectors(shape, make, rng):
    X = rng.standard_normal(shape) * rng.gamma(1.0, 2.0, shape[1])
    _, singular, Vt = np.linalg.svd(X)
    values, V = leading_directions(DenseOperator(make(X)), 6)
    np.testing.assert_allclose(values, singular[:6] ** 2, rtol=1e-10)
    cosines = np.abs(np.sum(np.asarray(V) * Vt[:6].T, axis=0))
    np.testing.assert_allclose(cosines, 1.0, atol=1e-8)


@pytest.mark.parametrize("block", [None, 3, 7, 16])
@pytest.mark.parametrize("p", [20, 130, 400])
def test_narrow_blocks_find_the_same(block, p, rng):
    X = rng.standard_normal((500, p)) * rng.gamma(1.0, 2.0, p)
    _, singular, Vt = np.linalg.svd(X, full_matrices=False)
    columns = []

    def squared(V):
        columns.append(V.shape[1])
        return X.T @ (X @ V)

    values, V = leading_eigenvectors(squared, np.empty(p), 6, block=block)
    np.testing.assert_allclose(values, singular[:6] ** 2, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(V * Vt[:6].T, axis=0)), 1.0, atol=1e-8)
    assert set(columns) == {min(block or 16, 16, p // 2) if p > 100 else min(16, p // 2)}


@pytest.mark.parametrize("block", [None, 5])
def test_a_good_guess_saves_products(block, rng):
    """Of a table that changed a little, from the eigenvectors of the one before."""
    X = rng.standard_normal((500, 300)) * rng.gamma(1.0, 2.0, 300)
    changed = X + 1e-3 * rng.standard_normal(X.shape)
    columns = {}

    def found(of, near):
        def squared(V):
            columns[near is None] = columns.get(near is None, 0) + V.shape[1]
            return of.T @ (of @ V)

        return leading_eigenvectors(squared, np.empty(300), 6, 1e-3, near=near, block=block)

    guess = found(X, None)[1]
    values, _ = found(changed, guess)
    exact = np.linalg.svd(changed)[1][:6] ** 2
    np.testing.assert_allclose(values, exact, rtol=1e-3)
    assert columns[False] < columns[True]
    # a wrong guess costs products, nothing else
    values, V = found(changed, rng.standard_normal((300, 6)))
    np.testing.assert_allclose(values, exact, rtol=1e-3)
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-10)


def test_fewer_directions_than_asked_for(rng):
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 50))
    values, V = leading_directions(DenseOperator(X), 8)
    np.testing.assert_allclose(values[:3], np.linalg.svd(X)[1][:3] ** 2)
    assert np.all(values[3:] < 1e-8 * values[0])
    assert np.all(values >= 0)
    np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-8)


def test_only_the_mean_of_the_other_eigenvalues_is_known(monkeypatch, rng):
    op = standardise(rng.standard_normal((90, 70)))[0]
    exact = spectrum(op)
    monkeypatch.setattr(linalg, "EXACT_SIDE", 10)
    some = spectrum(op, 5)
    assert some.table is op
    np.testing.assert_allclose(some.eigenvalues[:5], exact.eigenvalues[:5])
    assert some.eigenvalues.shape == exact.eigenvalues.shape
    assert some.eigenvalues.sum() == pytest.approx(exact.eigenvalues.sum())
    one, other = principal_components(op, 5), principal_components(op, 5)
    np.testing.assert_allclose(one[0], other[0])


@pytest.mark.parametrize("shape", [(200, 90), (60, 150)])
@pytest.mark.parametrize("d", [3, "auto"])
def test_fits_do_not_depend_on_how_the_spectrum_was_found(shape, d, monkeypatch):
    X = make_globally_sparse(*shape, n_components=3, n_informative=20, random_state=0).X
    exact = GSPPCA(d, tol=1e-13).fit(X)
    monkeypatch.setattr(linalg, "EXACT_SIDE", 10)
    monkeypatch.setattr("prosparse.models.gsppca.solve.N_EIGENVALUES", 2)
    some = GSPPCA(d, tol=1e-13).fit(X)
    assert some.n_components_ == exact.n_components_
    np.testing.assert_array_equal(some.support_, exact.support_)
    np.testing.assert_allclose(some.components_, exact.components_, atol=1e-6)
    np.testing.assert_allclose(some.log_evidence_path_, exact.log_evidence_path_, rtol=1e-8)


def torch_on_gpu(X):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("Torch finds no CUDA GPU")
    return torch.asarray(X, device="cuda")


@pytest.mark.parametrize(
    "make", [np.asarray, array_api_strict.asarray, torch_on_gpu, sparse.csr_array]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_latents_are_the_same_from_both_ends(make, dtype, rng):
    """Y'Y and Y'X of a table in memory, and from one pass over any other."""
    X = rng.standard_normal((30, 12)).astype(dtype)
    op, columns = standardise(make(X))
    F = rng.standard_normal((12, 4))
    X = (X - X.mean(axis=0)) / columns.length(1.0)  # in the units of the operator
    Y = X.astype(float) @ F
    kind = np.asarray if make is sparse.csr_array else make
    seen, tol = linalg.latents(op, kind(F)), 1e-4 if dtype is np.float32 else 1e-11
    assert seen.squares().dtype == np.float64
    np.testing.assert_allclose(seen.squares(), Y.T @ Y, atol=tol)
    assert seen.YX.dtype == kind(F).dtype
    np.testing.assert_allclose(to_numpy(seen.YX), Y.T @ X, rtol=tol, atol=100 * tol)


def test_added_squares_are_those_of_growing_spans(rng):
    """Zero rows and rows in the span of those before add nothing."""
    X, W = rng.standard_normal((20, 7)), rng.standard_normal((5, 7))
    W[2], W[3] = 0.0, W[0] - 2.0 * W[1]
    total, expected = 0.0, []
    for k in range(1, 6):
        U, s, _ = np.linalg.svd(W[:k].T, full_matrices=False)
        U = U[:, s > 1e-10 * s[0]]
        expected.append(np.sum((X @ U) ** 2) - total)
        total += expected[-1]
    ours = linalg.added_squares(DenseOperator(X), W)
    np.testing.assert_allclose(ours, expected, atol=1e-9)
    assert ours[2] == ours[3] == 0.0


def test_sparse_products_are_shared_out_among_cores(rng, monkeypatch):
    """Pieces of the rows go to cores; the sum of the parts is the product. Empty rows are no
    piece of their own."""
    X = sparse.random_array((60, 40), density=0.2, rng=rng, format="lil")
    X[20:45] = 0.0
    X = sparse.csr_array(X)
    centred = X.toarray() - X.toarray().mean(axis=0)
    F, Y = rng.standard_normal((40, 7)), rng.standard_normal((60, 3))
    shared = []

    def in_parallel(work, pieces):
        shared.append([rows for rows, _ in pieces])
        return [work(piece) for piece in pieces]

    monkeypatch.setattr("prosparse.data.operators.sparse.in_parallel", in_parallel)
    monkeypatch.setattr("prosparse.data.operators.sparse._ENTRIES_OF_A_PIECE", X.nnz // 3)
    op = SparseOperator(X, X.mean(axis=0), np.ones(40))
    np.testing.assert_allclose(squared_product(op, F), centred.T @ (centred @ F), atol=1e-10)
    np.testing.assert_allclose(op.matmul(F), centred @ F, atol=1e-12)
    np.testing.assert_allclose(op.rmatmul(Y), centred.T @ Y, atol=1e-12)
    assert len(shared) == 3
    for pieces in shared:
        assert 2 <= len(pieces) <= 3
        assert [k for rows in pieces for k in range(rows.start, rows.stop)] == list(range(60))


@pytest.mark.parametrize("most", [1, 4, 13])
def test_no_more_products_than_allowed(most, rng):
    X, products = rng.standard_normal((300, 200)), []

    def squared(V):
        products.append(V.shape[1])
        return X.T @ (X @ V)

    leading_eigenvectors(squared, np.empty(200), 6, max_passes=most)
    assert 1 <= len(products) <= most


def test_sparse_tables_are_measured_piece_by_piece(monkeypatch, rng):
    """Smallest and largest entries, sums and squares, as of the dense table; the precision of the
    products is kept."""
    dense = np.where(rng.random((60, 12)) < 0.4, rng.standard_normal((60, 12)), 0.0)
    dense[:, 2] = 1.0 + rng.random(60)  # no zeros here
    dense[:, 5] = 0.0  # nothing else there
    X = sparse.csr_array(dense)
    weights = rng.random(60)
    monkeypatch.setattr("prosparse.data.operators.sparse._ENTRIES_OF_A_PIECE", X.nnz // 4)
    for each in (None, weights):
        rows = SparseRows(X, each)
        low, high, sums, _ = rows.extent()
        np.testing.assert_array_equal(low, dense.min(axis=0))
        np.testing.assert_array_equal(high, dense.max(axis=0))
        counted = np.ones(60) if each is None else each
        np.testing.assert_allclose(sums, counted @ dense, atol=1e-12)
        found = rows.deviations(np.full(12, 0.3), np.full(12, 2.0))
        scaled = (dense - 0.3) / 2.0
        np.testing.assert_allclose(found.sums, counted @ scaled, atol=1e-12)
        np.testing.assert_allclose(found.squares, counted @ scaled**2, atol=1e-12)
    narrow = SparseOperator(X, dense.mean(axis=0), np.ones(12), np.float32)
    for columns in (np.arange(3, 8), np.array([7, 1, 4])):
        taken = narrow.take_columns(columns)
        assert taken.dtype == taken.S.dtype == np.float32
        np.testing.assert_array_equal(taken.S.toarray(), narrow.S.toarray()[:, columns])
    assert narrow.sample_rows(20).S.dtype == np.float32


@pytest.mark.parametrize("kind", ["apart", "close", "copies", "nothing", "scales"])
def test_orthonormal_directions_beside_a_basis(kind):
    """By products where that is safe, by QR where directions hardly differ."""
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 5)))[0]
    D = rng.standard_normal((60, 4)) + basis @ rng.standard_normal((5, 4))
    if kind == "close":
        D[:, 1] = D[:, 0] + 1e-7 * D[:, 1]
    elif kind == "copies":
        D[:, 1] = D[:, 0]
    elif kind == "nothing":
        D[:, 2] = 0.0
    elif kind == "scales":
        D *= np.array([1e-9, 1.0, 1e9, 1e3])
    Q = linalg._orthonormal(D, basis)
    both = np.column_stack([basis, Q])
    np.testing.assert_allclose(both.T @ both, np.eye(9), atol=1e-13)
    left = D - both @ (both.T @ D)
    assert np.max(np.abs(left)) <= 1e-12 * np.max(np.abs(D))
