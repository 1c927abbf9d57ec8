"""Leave-one-out R2 agrees with deleting the column and decomposing the others."""

import numpy as np
import pytest

from prosparse.structure import leave_one_out
from prosparse.structure.leave_one_out import (
    bound_leave_one_out_r2,
    leave_one_out_eigenvectors,
    leave_one_out_r2,
)

# rows and columns; the rank is limited by either
SHAPES = [
    (6, 4), (8, 30), (10, 10), (12, 500), (15, 16), (16, 15), (20, 200), (25, 3), (30, 50),
    (31, 100), (40, 7), (40, 300), (50, 30), (60, 61), (64, 64), (80, 20), (100, 12), (90, 120),
    (150, 90), (200, 20),
]  # fmt: skip


def simulated(n, p, seed=0):
    """Columns of unit variance, a third of which share two factors."""
    rng = np.random.default_rng([n, p, seed])
    X = rng.standard_normal((n, p))
    shared = max(2, p // 3)
    X[:, :shared] += 2 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, shared))
    X -= X.mean(axis=0)
    return X / X.std(axis=0)


def decompose(X):
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    rank = int(np.sum(s > 1e-10 * s[0]))
    return U[:, :rank], s[:rank] ** 2, (Vt.T * s)[:, :rank]


def r2_by_deletion(X, count, columns):
    """Delete the column, decompose the others, correlate."""
    r2 = np.zeros((len(columns), count))
    for k, j in enumerate(columns):
        x = X[:, j]
        U, s, _ = np.linalg.svd(np.delete(X, j, axis=1), full_matrices=False)
        U = U[:, s > 1e-10 * s[0]][:, :count]
        r2[k, : U.shape[1]] = (U.T @ x) ** 2 / (x @ x)
    return r2


def some_columns(p):
    """Deleting each column is slow: test at most 24."""
    return np.unique(np.linspace(0, p - 1, min(p, 24)).astype(int))


def count_for(n, p):
    return max(1, min(8, p - 1, n - 2))


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_bounds_contain_the_exact_r2(n, p):
    """For the complete spectrum and for its leading part."""
    X = simulated(n, p)
    count, squares = count_for(n, p), np.sum(X * X, axis=0)
    _, eigenvalues, z = decompose(X)
    for m in range(count, eigenvalues.size + 1):
        bound = float(eigenvalues[m]) if m < eigenvalues.size else None
        given = eigenvalues[:m], z[:, :m], squares, count, bound
        bounds, r2 = bound_leave_one_out_r2(*given), leave_one_out_r2(*given).lower
        assert np.all(r2 <= bounds.upper * (1 + 1e-9))
        assert np.all(r2 >= bounds.lower * (1 - 1e-9))
        assert np.all((bounds.lower >= 0.0) & (bounds.upper <= 1.0))


def test_bounds_are_tight_if_columns_contribute_little():
    X = np.random.default_rng(0).standard_normal((100, 300))
    _, eigenvalues, z = decompose(X)
    given = eigenvalues, z, np.sum(X * X, axis=0), 8
    bounds, r2 = bound_leave_one_out_r2(*given), leave_one_out_r2(*given).lower
    assert np.median(bounds.upper / r2) < 1.1
    assert np.median(bounds.lower / r2) > 0.75
    # In-sample R2 is more than twice as large.
    assert np.median(z[:, :8] ** 2 / given[2][:, None] / r2) > 2


def test_bounds_with_equal_eigeneigenvalues():
    z, squares = np.full((3, 4), 0.1), np.ones(3)
    for eigenvalues in (np.array([4.0, 4.0, 2.0, 1.0]), np.array([4.0, 2.0, 2.0, 2.0])):
        given = eigenvalues, z, squares, 3
        bounds, r2 = bound_leave_one_out_r2(*given), leave_one_out_r2(*given).lower
        assert np.all((bounds.lower <= r2) & (r2 <= bounds.upper))


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_r2_equals_that_after_deletion(n, p):
    X = simulated(n, p)
    count = count_for(n, p)
    _, eigenvalues, z = decompose(X)
    found = leave_one_out_r2(eigenvalues, z, np.sum(X * X, axis=0), count)
    columns = some_columns(p)
    np.testing.assert_allclose(
        found.lower[columns], r2_by_deletion(X, count, columns), atol=1e-10, rtol=0
    )
    assert found.lower is found.upper


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_eigenvectors_are_the_components_of_the_others(n, p):
    X = simulated(n, p, seed=1)
    count = count_for(n, p)
    U, eigenvalues, z = decompose(X)
    j = p // 2
    scores = U @ leave_one_out_eigenvectors(eigenvalues, z[[j]], count)[0]
    others = np.linalg.svd(np.delete(X, j, axis=1), full_matrices=False)[0][:, :count]
    np.testing.assert_allclose(np.abs(np.sum(scores * others, axis=0)), 1.0, atol=1e-9)


@pytest.mark.parametrize(("n", "p"), [shape for shape in SHAPES if min(shape) >= 10])
@pytest.mark.parametrize("proportion", [0.4, 0.7])
def test_bounds_from_a_truncated_spectrum_contain_the_exact_r2(n, p, proportion):
    X = simulated(n, p, seed=2)
    _, eigenvalues, z = decompose(X)
    m = max(3, int(proportion * eigenvalues.size))
    count = min(6, m - 1)
    bounds = leave_one_out_r2(
        eigenvalues[:m], z[:, :m], np.sum(X * X, axis=0), count, eigenvalues[m]
    )
    columns = some_columns(p)
    exact = r2_by_deletion(X, count, columns)
    assert np.all(bounds.lower[columns] <= exact + 1e-12)
    assert np.all(bounds.upper[columns] >= exact - 1e-12)
    assert np.all(bounds.lower[:, 0] > 0.0)


def test_bounds_tighten_with_more_eigeneigenvalues():
    X = simulated(60, 200, seed=3)
    _, eigenvalues, z = decompose(X)
    widths = []
    for m in (6, 20, 50):
        squares = np.sum(X * X, axis=0)
        bounds = leave_one_out_r2(eigenvalues[:m], z[:, :m], squares, 3, eigenvalues[m])
        widths.append(float(np.mean(bounds.upper - bounds.lower)))
    assert widths[0] > widths[1] > widths[2]


def test_columns_in_chunks_give_the_same_r2():
    """Chunks and the expansion of distant poles do not change the result."""
    X = simulated(120, 3000, seed=4)
    _, eigenvalues, z = decompose(X)
    squares = np.sum(X * X, axis=0)
    together = leave_one_out_r2(eigenvalues, z, squares, 5).lower
    columns = np.arange(0, 3000, 271)
    alone = leave_one_out_r2(eigenvalues, z[columns], squares[columns], 5).lower
    np.testing.assert_allclose(together[columns], alone, atol=1e-13)


@pytest.mark.parametrize(("n", "p"), [(30, 20), (20, 30), (80, 70)])
def test_joint_and_sequential_roots_agree(n, p, monkeypatch):
    X = simulated(n, p, seed=5)
    _, eigenvalues, z = decompose(X)
    eigenvalues[2] = eigenvalues[1]  # the root between equal eigeneigenvalues is trivial
    squares = np.sum(X * X, axis=0)
    together = leave_one_out_r2(eigenvalues, z, squares, 6).lower
    monkeypatch.setattr(leave_one_out, "_MAX_JOINT", 0)
    np.testing.assert_allclose(
        together, leave_one_out_r2(eigenvalues, z, squares, 6).lower, atol=1e-13
    )


def test_duplicated_and_orthogonal_columns():
    """A duplicate has R2 1; a column orthogonal to all others has R2 0."""
    rng = np.random.default_rng(0)
    Q = np.linalg.qr(rng.standard_normal((30, 4)))[0]
    X = np.column_stack([Q[:, 0], Q[:, 0], Q[:, 1] * 0.9, Q[:, 2] * 0.5])
    _, eigenvalues, z = decompose(X)
    r2 = leave_one_out_r2(eigenvalues, z, np.sum(X * X, axis=0), 3).lower
    np.testing.assert_allclose(r2.sum(axis=1), [1, 1, 0, 0], atol=1e-10)


def test_orthonormal_columns_have_r2_zero():
    """All eigeneigenvalues are equal."""
    X = np.linalg.qr(np.random.default_rng(1).standard_normal((20, 6)))[0]
    _, eigenvalues, z = decompose(X)
    r2 = leave_one_out_r2(eigenvalues, z, np.sum(X * X, axis=0), 5).lower
    np.testing.assert_allclose(r2, 0.0, atol=1e-10)
