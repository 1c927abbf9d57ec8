"""Blocks: categories as orthonormal columns that are tested together."""

from itertools import permutations, product

import numpy as np
import pytest
from data_matrices import orthonormal_scores

from prosparse.data import DenseOperator
from prosparse.data.row_adjustment import intercept
from prosparse.structure import ObservedData, observed_data, select_shared_variables
from prosparse.structure.leave_one_out import leave_block_out_eigenvectors
from prosparse.structure.leave_one_out_pvalues import LeaveOneOutTester
from prosparse.structure.null_distribution import (
    block_flip_moments,
    gaussian_moments,
    permutation_moments,
    residual_flip_moments,
)
from prosparse.structure.pair_correlation import find_largest_correlations

pytestmark = pytest.mark.quick


def indicators(codes):
    """Orthonormal basis of centred indicators, (n, m)."""
    columns = np.eye(codes.max() + 1)[codes]
    U, s, _ = np.linalg.svd(columns - columns.mean(axis=0), full_matrices=False)
    return U[:, s > 1e-8]


def largest(D, m):
    return np.minimum(np.arange(1, D + 1), m)


def traces(U, B):
    """T(1), ..., T(D)."""
    return np.cumsum(np.sum((U.T @ B) ** 2, axis=1))


def kurtosis(B):
    m = B.shape[1]
    return np.array([3.0 * np.sum(np.sum(B**2, axis=1) ** 2) / (m * (m + 2))])


def test_moments_over_all_permutations():
    U, B = orthonormal_scores(7, 3, heavy=True), indicators(np.array([0, 0, 0, 1, 1, 2, 2]))
    T = np.array([traces(U, B[list(order)]) for order in permutations(range(7))]) / largest(3, 2)
    squared = np.sum(np.cumsum(U * U, axis=1) ** 2, axis=0)
    mean, variance = permutation_moments(squared, kurtosis(B), 7, 6, np.array([2]))
    np.testing.assert_allclose(mean[0], T.mean(axis=0))
    np.testing.assert_allclose(variance[0], T.var(axis=0))


def test_moments_over_all_signs():
    U, B = orthonormal_scores(9, 3, heavy=True), indicators(np.arange(9) % 3)
    signs = np.array(list(product([-1.0, 1.0], repeat=9)))
    T = np.array([traces(U, s[:, None] * B) for s in signs]) / largest(3, 2)
    found = block_flip_moments(U[None], B[None])
    np.testing.assert_allclose(found.mean[0], T.mean(axis=0))
    np.testing.assert_allclose(found.variance[0], T.var(axis=0))
    # Of residuals that the scores do not reduce and rows without leverage, the moments are equal.
    orthogonal = B - U @ (U.T @ B)
    expected = block_flip_moments(U[None], (orthogonal / (1 - np.sum(U**2, axis=1))[:, None])[None])
    residual = residual_flip_moments(U[None], B[None], np.zeros(9))
    np.testing.assert_allclose(residual.mean[0, -1], expected.mean[0, -1])
    np.testing.assert_allclose(residual.variance[0, -1], expected.variance[0, -1])


def test_moments_of_gaussian_scores():
    rng = np.random.default_rng(0)
    B = np.linalg.qr(rng.standard_normal((12, 4)))[0]
    T = [traces(np.linalg.qr(rng.standard_normal((12, 6)))[0], B) for _ in range(20_000)]
    found = gaussian_moments(np.arange(1.0, 7.0), 12, np.array([4]))
    T = np.array(T) / largest(6, 4)
    np.testing.assert_allclose(found.mean[0], T.mean(axis=0), rtol=0.03)
    np.testing.assert_allclose(found.variance[0], T.var(axis=0), rtol=0.06)


def mixed_data(n=80, n_shared=4, seed=0, missing=0.0):
    """Numbers and categories, the first of each kind with a common factor."""
    rng = np.random.default_rng(seed)
    factor = rng.standard_normal(n)
    columns = [
        rng.standard_normal((n, 1)) + (2.0 * factor[:, None] if k < n_shared else 0.0)
        for k in range(10)
    ]
    for k in range(6):
        latent = rng.standard_normal(n) + (2.0 * factor if k < n_shared else 0.0)
        columns.append(indicators(np.digitize(latent, [-1.0, 0.0, 1.0][: 1 + k % 3])))
    sizes = np.array([column.shape[1] for column in columns])
    Z = np.hstack(columns)
    seen = np.repeat(rng.random((n, sizes.size)) >= missing, sizes, axis=1)
    Z = np.where(seen, Z, 0.0)
    Z = np.where(seen, Z - Z.sum(axis=0) / seen.sum(axis=0), 0.0)
    return observed_data(DenseOperator(Z), seen, intercept(n), sizes).data


def test_scores_exclude_the_whole_block():
    data, members, D = mixed_data(), np.arange(16) % 3 != 0, 3
    found = data.principal_components(members, D)
    assert data.sizes[11] > 1
    assert members[11]
    statistics = data.statistics(found, np.arange(16), D)
    partial_r2 = data.partial_r2(members, D)
    for j in range(16):
        others = members.copy()
        others[j] = False
        U = np.linalg.svd(data.Z[:, data.columns_of(others)], full_matrices=False)[0][:, :D]
        B = data.dense_columns(np.array([j])) / np.sqrt(80)
        expected = np.sum((U.T @ B) ** 2, axis=1) / B.shape[1]
        np.testing.assert_allclose(statistics.r2[j], expected, atol=1e-9)
        # Squared multiple correlation of the last score with the block, given the other scores.
        M = np.eye(80) - U[:, :-1] @ U[:, :-1].T
        y, A = M @ U[:, -1], M @ B
        fitted = A @ np.linalg.lstsq(A, y)[0]
        np.testing.assert_allclose(partial_r2[j, -1], fitted @ fitted / (y @ y), atol=1e-6)


def test_eigenvectors_without_a_block():
    rng = np.random.default_rng(1)
    X = rng.standard_normal((9, 20))
    L, U = np.linalg.eigh(X @ X.T)
    L, U = L[::-1], U[:, ::-1]
    T = leave_block_out_eigenvectors(L, (X[:, 3:6].T @ U)[None], 4)[0]
    expected = np.linalg.eigh(X @ X.T - X[:, 3:6] @ X[:, 3:6].T)[1][:, ::-1][:, :4]
    np.testing.assert_allclose(np.abs(np.sum((U @ T) * expected, axis=0)), 1.0)


def test_a_rotation_of_a_block_changes_nothing():
    data = mixed_data(missing=0.1)
    Z = data.Z.copy()
    j = int(np.flatnonzero(data.sizes == 3)[0])
    block = data._positions(np.array([j]))
    Z[:, block] = Z[:, block] @ np.linalg.qr(np.random.default_rng(2).standard_normal((3, 3)))[0]
    rotated = ObservedData(Z, data.seen, data.adjustment, data.sizes)
    members = np.ones(16, dtype=bool)
    found, expected = (
        LeaveOneOutTester(each, robust=True).against(members).pvalues for each in (rotated, data)
    )
    np.testing.assert_allclose(found, expected, rtol=1e-5)


@pytest.mark.parametrize("missing", [0.0, 0.15])
def test_selection(missing):
    is_shared = np.r_[np.arange(10) < 4, np.arange(6) < 4]
    selected = select_shared_variables(mixed_data(missing=missing), 0.05).selected
    assert selected[is_shared].all()
    assert selected[~is_shared].sum() <= 1


def test_pairs_of_categories():
    rng = np.random.default_rng(0)
    n = 90
    codes = rng.integers(4, size=(n, 8))
    codes[:, 1] = np.where(rng.random(n) < 0.8, (codes[:, 0] + 1) % 4, codes[:, 1])
    blocks = [indicators(column) for column in codes.T]
    blocks += [rng.standard_normal((n, 1)) for _ in range(4)]
    sizes = np.array([block.shape[1] for block in blocks])
    Z = np.hstack(blocks)
    Z = Z - Z.mean(axis=0)
    data = observed_data(DenseOperator(Z), np.ones(Z.shape, dtype=bool), intercept(n), sizes).data
    found = find_largest_correlations(data, data.fourth_moments())
    assert found.partners[:2].tolist() == [1, 0]
    assert found.pvalues[:2].max() < 1e-3
    assert found.pvalues[2:].min() > 0.01
