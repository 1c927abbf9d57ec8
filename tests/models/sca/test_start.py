"""Starts of models of views, against decompositions of whole tables."""

import numpy as np
import pytest

from prosparse import SCA
from prosparse.data import DenseOperator
from prosparse.errors import ParameterError
from prosparse.models.sca.start import evidence_rotation, initial_loadings, shared_scores, varimax

pytestmark = pytest.mark.quick


def views(n, sizes, seed=0):
    """Tables with one latent in common and one of their own each, and noise."""
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
    """Kaiser's criterion: the variance of the squares of every column."""
    return np.sum(np.var(L**2, axis=0))


@pytest.mark.parametrize("d", [2, 4])
def test_varimax_is_a_rotation_that_no_other_beats(d, rng):
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
    """The same within every view, in units of the view's squares."""
    parts = [L[view == v] / np.sum(L[view == v] ** 2) ** 0.5 for v in np.unique(view)]
    return sum(part.shape[0] * spread_of_squares(part) for part in parts)


def test_views_that_count_alike(rng):
    view = np.repeat([0, 1], [30, 10])
    L = rng.standard_normal((40, 3)) * np.where(view == 0, 3.0, 1.0)[:, None]
    R = varimax(L, view)
    np.testing.assert_allclose(R.T @ R, np.eye(3), atol=1e-12)
    best = spread_within_views(L @ R, view)
    assert best > spread_within_views(L @ varimax(L), view)
    for _ in range(100):
        near = np.linalg.qr(np.eye(3) + 1e-2 * rng.standard_normal((3, 3)))[0]
        assert spread_within_views(L @ R @ near, view) <= best * (1 + 1e-6)
    # the size of a view does not matter, nor a view without weights
    louder = np.where(view == 0, 100.0, 1.0)[:, None] * L
    np.testing.assert_allclose(varimax(louder, view), R, atol=1e-4)
    silent, its_view = np.vstack([L, np.zeros((3, 3))]), np.r_[view, 2, 2, 2]
    np.testing.assert_allclose(varimax(silent, its_view), R, atol=1e-4)
    # one view
    np.testing.assert_allclose(varimax(L, 0 * view), varimax(L), atol=1e-12)


def cost_of_weights(L):
    return np.sum(np.log1p(L**2)) / 2


@pytest.mark.parametrize("d", [2, 5])
def test_the_rotation_that_costs_the_least_evidence(d, rng):
    sparse = np.where(rng.random((60, d)) < 0.3, 30.0 * rng.standard_normal((60, d)), 0.0)
    L = (sparse + rng.standard_normal((60, d))) @ np.linalg.qr(rng.standard_normal((d, d)))[0]
    begun = L @ varimax(L)
    R = evidence_rotation(begun, tol=1e-12)
    np.testing.assert_allclose(R.T @ R, np.eye(d), atol=1e-12)
    best = cost_of_weights(begun @ R)
    assert best < cost_of_weights(begun)
    for _ in range(100):
        near = np.linalg.qr(np.eye(d) + 1e-2 * rng.standard_normal((d, d)))[0]
        assert cost_of_weights(begun @ R @ near) >= best - 1e-6
    np.testing.assert_array_equal(evidence_rotation(np.zeros((4, d))), np.eye(d))
    np.testing.assert_array_equal(evidence_rotation(np.ones((4, 1))), np.eye(1))


def test_the_rotation_of_the_first_weights():
    """The same table is told either way; the estimator passes its choice on."""
    tables = views(40, (30, 10))
    X, groups = np.hstack(tables), [np.arange(30), np.arange(30, 40)]
    view = np.repeat([0, 1], [30, 10])
    one, other = (
        initial_loadings(DenseOperator(X), 40, groups, 3, (0, 0), rotation)
        for rotation in ("sparse", "shared")
    )
    np.testing.assert_allclose(one[0] @ one[0].T, other[0] @ other[0].T, atol=1e-8)
    np.testing.assert_allclose(one[1], other[1])
    deviations = np.sqrt(one[1] / 40)[:, None]
    assert cost_of_weights(one[0] / deviations) < cost_of_weights(other[0] / deviations)
    assert spread_within_views(one[0], view) < spread_within_views(other[0], view)
    fits = [SCA(3, rotation=rotation, tol=1e-3).fit(tables) for rotation in ("sparse", "shared")]
    assert not np.allclose(fits[0].components_, fits[1].components_)
    with pytest.raises(ParameterError, match="rotation"):
        SCA(3, rotation="dense").fit(tables)


def test_what_cannot_be_rotated_stays():
    np.testing.assert_array_equal(varimax(np.ones((5, 1))), np.eye(1))
    np.testing.assert_array_equal(varimax(np.ones((1, 3))), np.eye(3))


def same_span(U, V):
    np.testing.assert_allclose(U @ U.T, V @ V.T, atol=1e-8)


def leading(X, k):
    U, s, _ = np.linalg.svd(X, full_matrices=False)
    return U[:, :k], s[:k]


@pytest.mark.parametrize(("n", "sizes"), [(40, (12, 9)), (10, (14, 20))])
def test_shared_scores(n, sizes):
    """Principal scores of one view; of several, of the views in units of their variance; with
    private latents, what orthonormal scores have in common."""
    tables = views(n, sizes)
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
def test_initial_weights_are_regressions_and_what_is_left_is_noise(n, sizes, private):
    tables, k = views(n, sizes), 2
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


def test_latents_that_are_not_there_start_at_zero():
    """More latents than the tables have directions; nothing is then left."""
    rng = np.random.default_rng(0)
    tables = [rng.standard_normal((9, 1)) @ rng.standard_normal((1, p)) for p in (4, 20)]
    groups = [np.arange(4), np.arange(4, 24)]
    X = np.hstack(tables)
    L, left = initial_loadings(DenseOperator(X), 9, groups, 2, (2, 2))
    np.testing.assert_allclose(L @ L.T, X.T @ X / 9, atol=1e-8)
    assert np.all(np.abs(L[:, 2:]) < 1e-6)
    np.testing.assert_allclose(left, 0.0, atol=1e-10)
