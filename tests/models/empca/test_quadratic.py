"""Both quadratic forms, compared with dense matrices."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import DenseOperator
from prosparse.data.operators.sparse import SparseOperator
from prosparse.models.empca import quadratic
from prosparse.models.empca.quadratic import DataForm, Gram, lanczos_pair, leading_pair

pytestmark = pytest.mark.quick


def forms(n, p):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.6)
    centred = X - X.mean(axis=0)
    C = centred.T @ centred
    table = SparseOperator(sparse.csr_array(X), X.mean(axis=0), np.ones(p))
    return C, [Gram(C), DataForm(DenseOperator(centred)), DataForm(table)]


@pytest.mark.parametrize(("n", "p"), [(12, 7), (7, 12)])
@pytest.mark.parametrize("removed", [0, 1, 3])
def test_both_forms_agree_with_dense_matrices(n, p, removed):
    C, quadratics = forms(n, p)
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((removed, p))
    Q = np.linalg.qr(directions.T)[0]
    P = np.eye(p) - Q @ Q.T
    D = P @ C @ P
    W = rng.standard_normal((p, 4))
    for whole in quadratics:
        form = reduce(lambda form, w: form.deflate(w), directions, whole)
        for S in (np.array([4, 1, 5]), np.arange(p)):
            block = D[np.ix_(S, S)]
            np.testing.assert_allclose(form.columns(S), D[:, S], atol=1e-10)
            np.testing.assert_allclose(form.block(S), block, atol=1e-10)
            value, v = form.leading(S)
            assert value == pytest.approx(np.linalg.eigvalsh(block)[-1])
            np.testing.assert_allclose(block @ v, value * v, atol=1e-8)
            for R in (np.array([2, 0]), np.arange(p)):
                np.testing.assert_allclose(form.cross(R, S), D[np.ix_(R, S)], atol=1e-10)
        np.testing.assert_allclose(form.matmul(W), D @ W, atol=1e-10)
        np.testing.assert_allclose(form.form(W.T), np.diag(W.T @ D @ W), atol=1e-10)
        np.testing.assert_allclose(form.diagonal(), np.diag(D), atol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(12, 7), (7, 12), (30, 30)])
@pytest.mark.parametrize("removed", [0, 2])
@pytest.mark.parametrize("side", [5, 10, 20])
def test_large_data_use_products(n, p, removed, side, monkeypatch):
    """The largest eigenvalue through the outer product or by Lanczos, and forms on columns."""
    monkeypatch.setattr(quadratic, "MAX_DENSE_SIDE", side)
    C, forms_of_c = forms(n, p)
    directions = np.random.default_rng(0).standard_normal((removed, p))
    Q = np.linalg.qr(directions.T)[0]
    P = np.eye(p) - Q @ Q.T
    D = P @ C @ P
    for whole in forms_of_c:
        form = reduce(lambda form, w: form.deflate(w), directions, whole)
        for S in (np.arange(1, p), np.arange(p)):
            block = D[np.ix_(S, S)]
            value, v = form.leading(S)
            assert value == pytest.approx(np.linalg.eigvalsh(block)[-1])
            np.testing.assert_allclose(block @ v, value * v, atol=1e-7)
            assert np.linalg.norm(v) == pytest.approx(1.0)
            some = form.restrict(S)
            np.testing.assert_allclose(some.matmul(np.eye(S.size)), block, atol=1e-9)
            np.testing.assert_allclose(some.diagonal(), np.diag(block), atol=1e-9)


def test_deflating_twice_changes_nothing():
    _, quadratics = forms(12, 7)
    w = np.arange(7.0)
    for form in quadratics:
        once = form.deflate(w)
        assert once.deflate(2.0 * w) is once


def test_lanczos_agrees_with_the_dense_solver():
    C, _ = forms(60, 50)
    value, v = lanczos_pair(lambda w: C @ w, 50)
    expected, u = leading_pair(C)
    assert value == pytest.approx(expected)
    assert abs(u @ v) == pytest.approx(1.0)


def test_many_equal_eigenvalues():
    """LAPACK's search for the largest eigenvalue of this matrix finds none."""
    C = np.eye(8) - 1 / 8
    value, vector = leading_pair(C)
    assert value == pytest.approx(1.0)
    np.testing.assert_allclose(C @ vector, vector, atol=1e-12)


@pytest.mark.parametrize("k", [120, 300])
def test_a_nearby_vector_is_only_a_start(k, rng):
    """Also if it is orthogonal to the eigenvector, or zero."""
    A = rng.standard_normal((2 * k, k))
    C = A.T @ A
    values, vectors = np.linalg.eigh(C)
    for near in (vectors[:, -1] + 0.1 * vectors[:, -2], vectors[:, -2], np.zeros(k)):
        value, v = leading_pair(C, near)
        assert value == pytest.approx(values[-1], rel=1e-13)
        assert abs(v @ vectors[:, -1]) == pytest.approx(1.0, abs=1e-10)


def test_a_nearby_vector_with_few_rows(rng):
    X = rng.standard_normal((150, 700))
    form = DataForm(DenseOperator(X)).deflate(rng.standard_normal(700))
    S = np.arange(300)
    value, v = form.leading(S)
    for near in (v + 0.05 * rng.standard_normal(300), rng.standard_normal(300)):
        again, u = form.leading(S, near)
        assert again == pytest.approx(value, rel=1e-12)
        assert abs(u @ v) == pytest.approx(1.0, abs=1e-10)
