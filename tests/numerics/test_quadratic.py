"""Both ways to ask for C, against C written out."""

from functools import reduce

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import DenseOperator
from prosparse.data.operators.sparse import SparseOperator
from prosparse.models.empca.angle import furthest
from prosparse.models.empca.support import exact_gains, inverse_gains
from prosparse.numerics import quadratic
from prosparse.numerics.quadratic import Gram, Table, lanczos_pair, leading_pair

pytestmark = pytest.mark.quick


def forms(n, p):
    rng = np.random.default_rng(n)
    X = rng.standard_normal((n, p)) * (rng.random((n, p)) < 0.6)
    centred = X - X.mean(axis=0)
    C = centred.T @ centred
    table = SparseOperator(sparse.csr_array(X), X.mean(axis=0), np.ones(p))
    return C, [Gram(C), Table(DenseOperator(centred)), Table(table)]


@pytest.mark.parametrize(("n", "p"), [(12, 7), (7, 12)])
@pytest.mark.parametrize("removed", [0, 1, 3])
def test_every_question(n, p, removed):
    C, quadratics = forms(n, p)
    rng = np.random.default_rng(0)
    directions = rng.standard_normal((removed, p))
    Q = np.linalg.qr(directions.T)[0]
    P = np.eye(p) - Q @ Q.T
    D = P @ C @ P
    W = rng.standard_normal((p, 4))
    for whole in quadratics:
        form = reduce(lambda form, w: form.deflated(w), directions, whole)
        for S in (np.array([4, 1, 5]), np.arange(p)):
            block = D[np.ix_(S, S)]
            np.testing.assert_allclose(form.columns(S), D[:, S], atol=1e-10)
            np.testing.assert_allclose(form.block(S), block, atol=1e-10)
            value, v = form.leading(S)
            assert value == pytest.approx(np.linalg.eigvalsh(block)[-1])
            np.testing.assert_allclose(block @ v, value * v, atol=1e-8)
            A = form.factor(S)
            np.testing.assert_allclose(A.T @ A, block, atol=1e-10)
            rows = A @ A.T
            np.testing.assert_allclose(rows, np.diag(np.diag(rows)), atol=1e-9)
            assert np.all(np.diff(np.diag(rows)) <= 1e-9)
        np.testing.assert_allclose(form.matmul(W), D @ W, atol=1e-10)
        np.testing.assert_allclose(form.diagonal(), np.diag(D), atol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(12, 7), (7, 12), (30, 30)])
@pytest.mark.parametrize("removed", [0, 2])
@pytest.mark.parametrize("side", [5, 10, 20])
def test_large_tables_are_asked_by_products(n, p, removed, side, monkeypatch):
    """The largest eigenvalue through the outer product or by Lanczos, and forms on columns."""
    monkeypatch.setattr(quadratic, "DENSE_SIDE", side)
    C, forms_of_c = forms(n, p)
    directions = np.random.default_rng(0).standard_normal((removed, p))
    Q = np.linalg.qr(directions.T)[0]
    P = np.eye(p) - Q @ Q.T
    D = P @ C @ P
    for whole in forms_of_c:
        form = reduce(lambda form, w: form.deflated(w), directions, whole)
        for S in (np.arange(1, p), np.arange(p)):
            block = D[np.ix_(S, S)]
            value, v = form.leading(S)
            assert value == pytest.approx(np.linalg.eigvalsh(block)[-1])
            np.testing.assert_allclose(block @ v, value * v, atol=1e-7)
            assert np.linalg.norm(v) == pytest.approx(1.0)
            some = form.restricted(S)
            np.testing.assert_allclose(some.matmul(np.eye(S.size)), block, atol=1e-9)
            np.testing.assert_allclose(some.diagonal(), np.diag(block), atol=1e-9)


def test_a_direction_removed_twice_changes_nothing():
    _, quadratics = forms(12, 7)
    w = np.arange(7.0)
    for form in quadratics:
        once = form.deflated(w)
        assert once.deflated(2.0 * w) is once


def test_lanczos_agrees_with_the_dense_solver():
    C, _ = forms(60, 50)
    value, v = lanczos_pair(lambda w: C @ w, 50)
    expected, u = leading_pair(C)
    assert value == pytest.approx(expected)
    assert abs(u @ v) == pytest.approx(1.0)


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_furthest_point_at_an_angle(nonnegative, seed):
    """No feasible point among many goes further along f, and the constraint holds."""
    rng = np.random.default_rng(seed)
    V = np.abs(rng.standard_normal((6, 2))) * (rng.random((6, 2)) < 0.7)
    V /= np.linalg.norm(V, axis=0)
    G = V if nonnegative else np.column_stack([V, -V])
    f, c = V.sum(axis=1) + 0.5 * np.abs(rng.standard_normal(6)), 0.3
    w, alpha = furthest(f, G, c, nonnegative)
    assert np.linalg.norm(w) == pytest.approx(1.0)
    assert np.all(G.T @ w <= c)
    assert np.all(alpha >= 0)
    Z = rng.standard_normal((200_000, 6))
    Z = np.abs(Z) if nonnegative else Z
    Z = np.vstack([Z, w + 0.05 * Z])
    Z = np.clip(Z, 0.0, None) if nonnegative else Z
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    rivals = Z[np.all(c >= Z @ G, axis=1)]
    assert rivals.shape[0] > 100
    assert np.max(rivals @ f) <= f @ w + 1e-9


@pytest.mark.parametrize(("K", "p", "n"), [(2, 6, 30), (5, 12, 30), (9, 30, 6)])
def test_every_exchange_is_judged_exactly(K, p, n):
    """The sign of a gain, against the eigenvalues of every exchanged block."""
    A = np.random.default_rng(K).standard_normal((n, p))
    C = A.T @ A
    S, enter = np.arange(K), np.arange(K, p)
    largest = np.linalg.eigvalsh(C[:K, :K])[-1]
    gains = exact_gains(C[:K, :K], C[K:, :K], np.diagonal(C)[K:])
    pair = leading_pair(C[:K, :K])
    again = inverse_gains(C[:K, :K], C[K:, :K], np.diagonal(C)[K:], pair[1], pair[0])
    np.testing.assert_allclose(again, gains, rtol=1e-9, atol=1e-12 * np.abs(gains).max())
    pays = np.zeros_like(gains, dtype=bool)
    for i in S:
        for j in enter:
            T = [k for k in S if k != i] + [j]
            pays[i, j - K] = np.linalg.eigvalsh(C[np.ix_(T, T)])[-1] > largest
    assert pays.any()
    assert not pays.all()
    np.testing.assert_array_equal(gains > 0, pays)


def test_a_largest_eigenvalue_that_is_not_alone_has_no_inverse():
    with pytest.raises(np.linalg.LinAlgError):
        inverse_gains(np.eye(3), np.eye(3), np.ones(3), np.array([1.0, 0.0, 0.0]), 1.0)


def test_many_equal_eigenvalues():
    """Of this matrix LAPACK's search for the largest eigenvalue alone finds none."""
    C = np.eye(8) - 1 / 8
    value, vector = leading_pair(C)
    assert value == pytest.approx(1.0)
    np.testing.assert_allclose(C @ vector, vector, atol=1e-12)
