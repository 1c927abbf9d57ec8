"""Every column without itself, from one decomposition: against deleting it and starting again."""

import numpy as np
import pytest

from prosparse.structure import leave_one_out as secular
from prosparse.structure.leave_one_out import (
    bounds_of_left_out_shares,
    left_out_coordinates,
    left_out_shares,
)

# rows, columns; many and few of both, and rank from either side
SHAPES = [
    (6, 4), (8, 30), (10, 10), (12, 500), (15, 16), (16, 15), (20, 200), (25, 3), (30, 50),
    (31, 100), (40, 7), (40, 300), (50, 30), (60, 61), (64, 64), (80, 20), (100, 12), (90, 120),
    (150, 90), (200, 20),
]  # fmt: skip


def table(n, p, seed=0):
    """Columns of unit variance, a third of which share two factors."""
    rng = np.random.default_rng([n, p, seed])
    X = rng.standard_normal((n, p))
    shared = max(2, p // 3)
    X[:, :shared] += 2 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, shared))
    X -= X.mean(axis=0)
    return X / X.std(axis=0)


def decomposed(X):
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    rank = int(np.sum(s > 1e-10 * s[0]))
    return U[:, :rank], s[:rank] ** 2, (Vt.T * s)[:, :rank]


def deleted(X, count, columns):
    """The definition: delete the column, decompose the others, correlate."""
    shares = np.zeros((len(columns), count))
    for k, j in enumerate(columns):
        x = X[:, j]
        U, s, _ = np.linalg.svd(np.delete(X, j, axis=1), full_matrices=False)
        U = U[:, s > 1e-10 * s[0]][:, :count]
        shares[k, : U.shape[1]] = (U.T @ x) ** 2 / (x @ x)
    return shares


def few_of(p):
    """Some columns of either sort: deleting each is slow."""
    return np.unique(np.linspace(0, p - 1, min(p, 24)).astype(int))


def count_for(n, p):
    return max(1, min(8, p - 1, n - 2))


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_bounds_without_a_root(n, p):
    """The shares themselves lie between, of the whole spectrum or of its leading part."""
    X = table(n, p)
    count, squares = count_for(n, p), np.sum(X * X, axis=0)
    _, values, z = decomposed(X)
    for m in range(count, values.size + 1):
        ceiling = float(values[m]) if m < values.size else None
        given = values[:m], z[:, :m], squares, count, ceiling
        bounds, shares = bounds_of_left_out_shares(*given), left_out_shares(*given).lower
        assert np.all(shares <= bounds.upper * (1 + 1e-9))
        assert np.all(shares >= bounds.lower * (1 - 1e-9))
        assert np.all((bounds.lower >= 0.0) & (bounds.upper <= 1.0))


def test_bounds_are_close_where_a_column_is_a_small_part():
    X = np.random.default_rng(0).standard_normal((100, 300))
    _, values, z = decomposed(X)
    given = values, z, np.sum(X * X, axis=0), 8
    bounds, shares = bounds_of_left_out_shares(*given), left_out_shares(*given).lower
    assert np.median(bounds.upper / shares) < 1.1
    assert np.median(bounds.lower / shares) > 0.75
    # without leaving the column out, shares look more than twice as large
    assert np.median(z[:, :8] ** 2 / given[2][:, None] / shares) > 2


def test_bounds_of_equal_eigenvalues():
    z, squares = np.full((3, 4), 0.1), np.ones(3)
    for values in (np.array([4.0, 4.0, 2.0, 1.0]), np.array([4.0, 2.0, 2.0, 2.0])):
        given = values, z, squares, 3
        bounds, shares = bounds_of_left_out_shares(*given), left_out_shares(*given).lower
        assert np.all((bounds.lower <= shares) & (shares <= bounds.upper))


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_as_if_the_column_had_been_deleted(n, p):
    X = table(n, p)
    count = count_for(n, p)
    _, values, z = decomposed(X)
    found = left_out_shares(values, z, np.sum(X * X, axis=0), count)
    some = few_of(p)
    np.testing.assert_allclose(found.lower[some], deleted(X, count, some), atol=1e-10, rtol=0)
    assert found.lower is found.upper


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_coordinates_are_the_components_of_the_others(n, p):
    X = table(n, p, seed=1)
    count = count_for(n, p)
    U, values, z = decomposed(X)
    j = p // 2
    scores = U @ left_out_coordinates(values, z[[j]], count)[0]
    others = np.linalg.svd(np.delete(X, j, axis=1), full_matrices=False)[0][:, :count]
    np.testing.assert_allclose(np.abs(np.sum(scores * others, axis=0)), 1.0, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), [shape for shape in SHAPES if min(shape) >= 10])
@pytest.mark.parametrize("kept", [0.4, 0.7])
def test_the_bracket_contains_what_the_whole_spectrum_gives(n, p, kept):
    X = table(n, p, seed=2)
    _, values, z = decomposed(X)
    m = max(3, int(kept * values.size))
    count = min(6, m - 1)
    bracket = left_out_shares(values[:m], z[:, :m], np.sum(X * X, axis=0), count, values[m])
    some = few_of(p)
    exact = deleted(X, count, some)
    assert np.all(bracket.lower[some] <= exact + 1e-12)
    assert np.all(bracket.upper[some] >= exact - 1e-12)
    assert np.all(bracket.lower[:, 0] > 0.0)  # it says something


def test_the_bracket_closes():
    """The more of the spectrum is known, the nearer are the bounds."""
    X = table(60, 200, seed=3)
    _, values, z = decomposed(X)
    widths = []
    for m in (6, 20, 50):
        squares = np.sum(X * X, axis=0)
        bracket = left_out_shares(values[:m], z[:, :m], squares, 3, values[m])
        widths.append(float(np.mean(bracket.upper - bracket.lower)))
    assert widths[0] > widths[1] > widths[2]


def test_many_columns_in_pieces():
    """Columns are treated in pieces, with far poles in powers: no piece changes another."""
    X = table(120, 3000, seed=4)
    _, values, z = decomposed(X)
    squares = np.sum(X * X, axis=0)
    together = left_out_shares(values, z, squares, 5).lower
    some = np.arange(0, 3000, 271)
    alone = left_out_shares(values, z[some], squares[some], 5).lower
    np.testing.assert_allclose(together[some], alone, atol=1e-13)


@pytest.mark.parametrize(("n", "p"), [(30, 20), (20, 30), (80, 70)])
def test_all_roots_at_once_or_one_after_another(n, p, monkeypatch):
    X = table(n, p, seed=5)
    _, values, z = decomposed(X)
    values[2] = values[1]  # a root between equal eigenvalues is known
    squares = np.sum(X * X, axis=0)
    together = left_out_shares(values, z, squares, 6).lower
    monkeypatch.setattr(secular, "_TOGETHER", 0)
    np.testing.assert_allclose(together, left_out_shares(values, z, squares, 6).lower, atol=1e-13)


def test_a_column_that_the_others_contain():
    """A copy is explained wholly; a column at right angles to all others not at all."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    X = np.column_stack([Q[:, 0], Q[:, 0], Q[:, 1] * 0.9, Q[:, 2] * 0.5])
    _, values, z = decomposed(X)
    shares = left_out_shares(values, z, np.sum(X * X, axis=0), 3).lower
    np.testing.assert_allclose(shares.sum(axis=1), [1, 1, 0, 0], atol=1e-10)


def test_one_removed_of_equal_eigenvalues():
    """Orthonormal columns: every eigenvalue is the same, and no column explains another."""
    X = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 6)))[0]
    _, values, z = decomposed(X)
    shares = left_out_shares(values, z, np.sum(X * X, axis=0), 5).lower
    np.testing.assert_allclose(shares, 0.0, atol=1e-10)
