"""Initial loadings against decompositions of the complete data."""

import numpy as np
import pytest

from prosparse import SCA
from prosparse.data import DenseOperator
from prosparse.errors import ParameterError
from prosparse.models.sca.start import evidence_rotation, initial_loadings, shared_scores, varimax

pytestmark = pytest.mark.quick


def simulate_views(n, sizes, seed=0):
    """Simulate centred views with one shared factor, one private factor each, and noise."""
    rng = np.random.default_rng(seed)
    common = rng.standard_normal((n, 1))
    tables = []
    for p in sizes:
        own = rng.standard_normal((n, 1)) * 2.0
        signal = common @ rng.standard_normal((1, p)) + own @ rng.standard_normal((1, p))
        table = signal + 0.5 * rng.standard_normal((n, p))
        tables.append(table - table.mean(axis=0))
    return tables


def spread_of_squares(L):
    """Varimax criterion: sum of the variances of squared loadings."""
    return np.sum(np.var(L**2, axis=0))


@pytest.mark.parametrize("d", [2, 4])
def test_varimax_maximises_its_criterion(d, rng):
    L = rng.standard_normal((30, d)) * (rng.random((30, d)) < 0.3)
    L = L @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    R = varimax(L)
    np.testing.assert_allclose(R.T @ R, np.eye(d), atol=1e-12)
    best = spread_of_squares(L @ R)
    for _ in range(300):
        other = np.linalg.qr(rng.standard_normal((d, d)))[0]
        assert spread_of_squares(L @ other) <= best * (1 + 1e-9)
        near = np.linalg.qr(np.eye(d) + 1e-2 * rng.standard_normal((d, d)))[0]
        assert spread_of_squares(L @ R @ near) <= best * (1 + 1e-5)


def test_varimax_finds_simple_structure():
    L = np.kron(np.eye(3), np.ones((5, 1))) * [1.0, 2.0, 3.0]
    turn = np.linalg.qr(np.random.default_rng(1).standard_normal((3, 3)))[0]
    found = np.abs(L @ turn @ varimax(L @ turn))
    np.testing.assert_allclose(np.sort(found.max(axis=0)), [1.0, 2.0, 3.0], rtol=1e-4)
    np.testing.assert_allclose(np.count_nonzero(found > 1e-3, axis=1), 1)


def spread_within_views(L, view):
    """Varimax criterion within each view, relative to its sum of squares."""
    parts = [L[view == v] / np.sum(L[view == v] ** 2) ** 0.5 for v in np.unique(view)]
    return sum(part.shape[0] * spread_of_squares(part) for part in parts)


def test_varimax_weights_views_equally(rng):
    view = np.repeat([0, 1], [30, 10])
    L = rng.standard_normal((40, 3)) * np.where(view == 0, 3.0, 1.0)[:, None]
    R = varimax(L, view)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
    best = spread_within_views(L @ R, view)
    assert best > spread_within_views(L @ varimax(L), view)
    for _ in range(100):
        near = np.linalg.qr(np.eye(3) + 1e-2 * rng.standard_normal((3, 3)))[0]
        assert spread_within_views(L @ R @ near, view) <= best * (1 + 1e-6)
    # The scale of a view and a view without loadings have no influence.
    scaled = np.where(view == 0, 100.0, 1.0)[:, None] * L
    np.testing.assert_allclose(varimax(scaled, view), R, atol=1e-4)
    with_empty_view, extended_view = np.vstack([L, np.zeros((3, 3))]), np.r_[view, 2, 2, 2]
    np.testing.assert_allclose(varimax(with_empty_view, extended_view), R, atol=1e-4)
    # With one view the criteria agree.
    np.testing.assert_allclose(varimax(L, 0 * view), varimax(L), atol=1e-12)


def evidence_cost(L):
    return np.sum(np.log1p(L**2)) / 2


@pytest.mark.parametrize("d", [2, 5])
def test_evidence_rotation_minimises_its_criterion(d, rng):
    sparse = np.where(rng.random((60, d)) < 0.3, 30.0 * rng.standard_normal((60, d)), 0.0)
    L = (sparse + rng.standard_normal((60, d))) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    rotated = L @ varimax(L)
    R = evidence_rotation(rotated, tol=1e-12)
    np.testing.assert_allclose(R.T @ R, np.eye(d), atol=1e-12)
    best = evidence_cost(rotated @ R)
    assert best < evidence_cost(rotated)
    for _ in range(100):
        near = np.linalg.qr(np.eye(d) + 1e-2 * rng.standard_normal((d, d)))[0]
        assert evidence_cost(rotated @ R @ near) >= best - 1e-6
    np.testing.assert_array_equal(evidence_rotation(np.zeros((4, d))), np.eye(d))
    np.testing.assert_array_equal(evidence_rotation(np.ones((4, 1))), np.eye(1))


def test_rotation_of_the_initial_loadings():
    """Both rotations span the same space; the estimator passes the parameter on."""
    tables = simulate_views(40, (30, 10))
    X, groups = np.hstack(tables), [np.arange(30), np.arange(30, 40)]
    view = np.repeat([0, 1], [30, 10])
    one, other = (
        initial_loadings(DenseOperator(X), 40, groups, 3, (0, 0), rotation)
        for rotation in ("sparse", "shared")
    )
    np.testing.assert_allclose(one[0] @ one[0].T, other[0] @ other[0].T, atol=1e-8)
    np.testing.assert_allclose(one[1], other[1])
    deviations = np.sqrt(one[1] / 40)[:, None]
    assert evidence_cost(one[0] / deviations) < evidence_cost(other[0] / deviations)
    assert spread_within_views(one[0], view) < spread_within_views(other[0], view)
    fits = [SCA(3, rotation=rotation, tol=1e-3).fit(tables) for rotation in ("sparse", "shared")]
    assert not np.allclose(fits[0].components_, fits[1].components_)
    with pytest.raises(ParameterError, match="rotation"):
        SCA(3, rotation="dense").fit(tables)


def test_varimax_of_one_row_or_column():
    np.testing.assert_array_equal(varimax(np.ones((5, 1))), np.eye(1))
    np.testing.assert_array_equal(varimax(np.ones((1, 3))), np.eye(3))


def same_span(U, V):
    np.testing.assert_allclose(U @ U.T, V @ V.T, atol=1e-8)


def leading(X, k):
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return U[:, :k], s[:k]


@pytest.mark.parametrize(("n", "sizes"), [(40, (12, 9)), (10, (14, 20))])
def test_shared_scores(n, sizes):
    """Principal components of one view, of scaled views, and canonical variates."""
    tables = simulate_views(n, sizes)
    parts = [DenseOperator(X) for X in tables]
    same_span(shared_scores(parts[:1], 3, [0]), leading(tables[0], 3)[0])
    U, s = zip(*(leading(X, 2) for X in tables), strict=True)
    units = [np.sqrt(np.sum(X**2) / X.shape[1]) for X in tables]
    weighted = np.hstack([u * v / unit for u, v, unit in zip(U, s, units, strict=True)])
    same_span(shared_scores(parts, 2, [0, 0]), leading(weighted, 2)[0])
    canonical = np.hstack([leading(tables[0], 2)[0], leading(tables[1], 3)[0]])
    same_span(shared_scores(parts, 1, [1, 2]), leading(canonical, 1)[0])


@pytest.mark.parametrize(("n", "sizes"), [(40, (12, 9)), (10, (14, 20)), (15, (8, 20))])
@pytest.mark.parametrize("private", [(0, 0), (1, 2), (2, 0)])
def test_initial_loadings_are_regressions(n, sizes, private):
    tables, k = simulate_views(n, sizes), 2
    X = np.hstack(tables)
    groups = np.split(np.arange(sum(sizes)), [sizes[0]])
    L, left = initial_loadings(DenseOperator(X), n, groups, k, private)
    assert L.shape == (sum(sizes), k + sum(private))
    scores = shared_scores([DenseOperator(table) for table in tables], k, private)
    fitted = scores @ scores.T @ X
    np.testing.assert_allclose(L[:, :k] @ L[:, :k].T, fitted.T @ fitted / n, atol=1e-8)
    first = k
    for own, columns in zip(private, groups, strict=True):
        rest = X[:, columns] - fitted[:, columns]
        mine = L[columns, first : first + own]
        _, s, Vt = np.linalg.svd(rest, full_matrices=False)
        np.testing.assert_allclose(
            mine @ mine.T, (Vt[:own].T * s[:own] ** 2) @ Vt[:own] / n, atol=1e-8
        )
        others = np.delete(L[:, first : first + own], columns, axis=0)
        np.testing.assert_array_equal(others, 0.0)
        after = (rest - (rest @ Vt[:own].T) @ Vt[:own]) ** 2
        np.testing.assert_allclose(left[columns], after.sum(axis=0) / n, atol=1e-8)
        first += own


def test_factors_beyond_the_rank_start_at_zero():
    """More factors than directions leave no residual."""
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((9, 1)) @ rng.standard_normal((1, p)) for p in (4, 20)]
    groups = [np.arange(4), np.arange(4, 24)]
    X = np.hstack(tables)
    L, left = initial_loadings(DenseOperator(X), 9, groups, 2, (2, 2))
    np.testing.assert_allclose(L @ L.T, X.T @ X / 9, atol=1e-8)
    assert np.all(np.abs(L[:, 2:]) < 1e-6)
    np.testing.assert_allclose(left, 0.0, atol=1e-10)
