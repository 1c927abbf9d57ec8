"""Spectra and products, compared with full decompositions."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse import GSPPCA
from prosparse.data import DenseOperator, standardise
from prosparse.data.arrays import to_numpy
from prosparse.datasets import make_globally_sparse
from prosparse.numerics import spectrum as spectrum_module
from prosparse.numerics.spectrum import (
    leading_directions,
    leading_eigenvectors,
    principal_components,
    spectrum,
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
def test_narrow_blocks_give_the_same_eigenvectors(block, p, rng):
    X = rng.standard_normal((500, p)) * rng.gamma(1.0, 2.0, p)
    _, singular, Vt = np.linalg.svd(X, full_matrices=False)
    columns = []

    def multiply(V):
        columns.append(V.shape[1])
        return X.T @ (X @ V)

    values, V = leading_eigenvectors(multiply, np.empty(p), 6, block=block)
    np.testing.assert_allclose(values, singular[:6] ** 2, rtol=1e-10)
    np.testing.assert_allclose(np.abs(np.sum(V * Vt[:6].T, axis=0)), 1.0, atol=1e-8)
    assert set(columns) == {min(block or 16, 16, p // 2) if p > 100 else min(16, p // 2)}


@pytest.mark.parametrize("block", [None, 5])
def test_initial_vectors_reduce_the_number_of_products(block, rng):
    X = rng.standard_normal((500, 300)) * rng.gamma(1.0, 2.0, 300)
    changed = X + 1e-3 * rng.standard_normal(X.shape)
    columns = {}

    def solve(data, initial):
        def multiply(V):
            columns[initial is None] = columns.get(initial is None, 0) + V.shape[1]
            return data.T @ (data @ V)

        return leading_eigenvectors(multiply, np.empty(300), 6, 1e-3, initial=initial, block=block)

    values, _ = solve(changed, solve(X, None)[1])
    exact = np.linalg.svd(changed)[1][:6] ** 2
    np.testing.assert_allclose(values, exact, rtol=1e-3)
    assert columns[False] < columns[True]
    # Random initial vectors need more products but give the same result.
    values, V = solve(changed, rng.standard_normal((300, 6)))
    np.testing.assert_allclose(values, exact, rtol=1e-3)
    np.testing.assert_allclose(V.T @ V, np.eye(6), atol=1e-10)


def test_rank_below_the_number_of_vectors(rng):
    X = rng.standard_normal((60, 3)) @ rng.standard_normal((3, 50))
    values, V = leading_directions(DenseOperator(X), 8)
    np.testing.assert_allclose(values[:3], np.linalg.svd(X)[1][:3] ** 2)
    assert np.all(values[3:] < 1e-8 * values[0])
    assert np.all(values >= 0)
    np.testing.assert_allclose(V.T @ V, np.eye(8), atol=1e-8)


def test_other_eigenvalues_are_replaced_by_their_mean(monkeypatch, rng):
    op = standardise(rng.standard_normal((90, 70)))[0]
    exact = spectrum(op)
    monkeypatch.setattr(spectrum_module, "EXACT_SIDE", 10)
    leading = spectrum(op, 5)
    assert leading.op is op
    np.testing.assert_allclose(leading.eigenvalues[:5], exact.eigenvalues[:5])
    assert leading.eigenvalues.shape == exact.eigenvalues.shape
    assert leading.eigenvalues.sum() == pytest.approx(exact.eigenvalues.sum())
    components, squares = principal_components(op, 5)
    np.testing.assert_allclose(squares, exact.eigenvalues[:5])
    np.testing.assert_allclose(components @ components.T, np.eye(5), atol=1e-12)


@pytest.mark.slow
@pytest.mark.parametrize("shape", [(200, 90), (60, 150)])
@pytest.mark.parametrize("d", [3, "auto"])
def test_fits_do_not_depend_on_the_method_for_the_spectrum(shape, d, monkeypatch):
    X = make_globally_sparse(*shape, n_components=3, n_informative=20, random_state=0).X
    exact = GSPPCA(d, tol=1e-13).fit(X)
    monkeypatch.setattr(spectrum_module, "EXACT_SIDE", 10)
    monkeypatch.setattr("prosparse.models.gsppca.solve.N_EIGENVALUES", 2)
    leading = GSPPCA(d, tol=1e-13).fit(X)
    assert leading.n_components_ == exact.n_components_
    np.testing.assert_array_equal(leading.support_, exact.support_)
    np.testing.assert_allclose(leading.components_, exact.components_, atol=1e-6)
    np.testing.assert_allclose(leading.log_evidence_path_, exact.log_evidence_path_, rtol=1e-8)


def torch_on_gpu(X):
    torch = pytest.importorskip("torch", reason="Torch is not installed")
    if not torch.cuda.is_available():
        pytest.skip("Torch finds no CUDA GPU")
    return torch.asarray(X, device="cuda")


@pytest.mark.parametrize(
    "make", [np.asarray, array_api_strict.asarray, torch_on_gpu, sparse.csr_array]
)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_factor_products(make, dtype, rng):
    """Y'Y and Y'X of data in memory and of sparse matrices."""
    X = rng.standard_normal((30, 12)).astype(dtype)
    op, columns = standardise(make(X))
    F = rng.standard_normal((12, 4))
    X = (X - X.mean(axis=0)) / columns.length(1.0)  # the units of the operator
    Y = X.astype(float) @ F
    make_filters = np.asarray if make is sparse.csr_array else make
    products, tol = (
        spectrum_module.factor_products(op, make_filters(F)),
        1e-4 if dtype is np.float32 else 1e-11,
    )
    assert products.squares().dtype == np.float64
    np.testing.assert_allclose(products.squares(), Y.T @ Y, atol=tol)
    assert products.YX.dtype == make_filters(F).dtype
    np.testing.assert_allclose(to_numpy(products.YX), Y.T @ X, rtol=tol, atol=100 * tol)


def test_added_squares(rng):
    """Rows that are zero or in the span of the previous rows add nothing."""
    X, W = rng.standard_normal((20, 7)), rng.standard_normal((5, 7))
    W[2], W[3] = 0.0, W[0] - 2.0 * W[1]
    total, expected = 0.0, []
    for k in range(1, 6):
        U, s, _ = np.linalg.svd(W[:k].T, full_matrices=False)
        U = U[:, s > 1e-10 * s[0]]
        expected.append(np.sum((X @ U) ** 2) - total)
        total += expected[-1]
    added = spectrum_module.added_squares(DenseOperator(X), W)
    np.testing.assert_allclose(added, expected, atol=1e-9)
    assert added[2] == added[3] == 0.0


@pytest.mark.parametrize("max_products", [1, 4, 13])
def test_maximum_number_of_products(max_products, rng):
    X, products = rng.standard_normal((300, 200)), []

    def multiply(V):
        products.append(V.shape[1])
        return X.T @ (X @ V)

    leading_eigenvectors(multiply, np.empty(200), 6, max_products=max_products)
    assert 1 <= len(products) <= max_products


@pytest.mark.parametrize("kind", ["general", "close", "copies", "zero", "scales"])
def test_vectors_are_orthonormal_and_orthogonal_to_a_basis(kind):
    rng = np.random.default_rng(0)
    basis = np.linalg.qr(rng.standard_normal((60, 5)))[0]
    D = rng.standard_normal((60, 4)) + basis @ rng.standard_normal((5, 4))
    if kind == "close":
        D[:, 1] = D[:, 0] + 1e-7 * D[:, 1]
    elif kind == "copies":
        D[:, 1] = D[:, 0]
    elif kind == "zero":
        D[:, 2] = 0.0
    elif kind == "scales":
        D *= np.array([1e-9, 1.0, 1e9, 1e3])
    Q = spectrum_module._orthonormalise(D, basis)
    both = np.column_stack([basis, Q])
    np.testing.assert_allclose(both.T @ both, np.eye(9), atol=1e-13)
    residual = D - both @ (both.T @ D)
    assert np.max(np.abs(residual)) <= 1e-12 * np.max(np.abs(D))
