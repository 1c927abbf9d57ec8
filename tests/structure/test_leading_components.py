"""Principal components of subsets of columns agree with the singular value decomposition."""

import numpy as np
import pytest
from data_matrices import simulated, standardised, standardised_data
from scipy import sparse

from prosparse.structure import leading_components


def svd_components(Z, members, count):
    U, s, _ = np.linalg.svd(Z[:, members], full_matrices=False)
    return s[:count] ** 2, U[:, :count]


@pytest.fixture(params=["complete", "leading"])
def is_complete(request, monkeypatch):
    """Small limits make the algorithm for large data run on small data."""
    if request.param == "leading":
        monkeypatch.setattr(leading_components, "EXACT_SIDE", 8)
    monkeypatch.setattr(leading_components, "N_LEADING", 3)
    monkeypatch.setattr(leading_components, "N_EXTRA", 2)
    return request.param == "complete"


@pytest.mark.parametrize(("n", "p"), [(80, 30), (30, 80)])
def test_components_equal_singular_vectors(n, p, is_complete):
    X = simulated(n, p)
    Z = standardised(X)
    members = np.ones(p, dtype=bool)
    members[::3] = False
    data = standardised_data(X)
    found = data.principal_components(members, 3, 1e-9)
    eigenvalues, U = svd_components(Z, members, 3)
    np.testing.assert_allclose(found.eigenvalues[:3], eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found.projections[:, :3]), np.abs(Z.T @ U), atol=1e-3)
    np.testing.assert_allclose(np.abs(data.scores(found, 3)), np.abs(U), atol=1e-4)
    assert (found.eigenvalue_bound is None) == is_complete
    if not is_complete:
        exact = np.linalg.svd(Z[:, members], compute_uv=False) ** 2
        assert found.eigenvalue_bound >= exact[found.eigenvalues.size] * (1 - 1e-6)


@pytest.mark.parametrize("has_groups", [False, True])
def test_components_of_successive_subsets(has_groups, monkeypatch):
    """Successive subsets of sparse data with few rows: columns are added, removed or replaced."""
    monkeypatch.setattr(leading_components, "EXACT_SIDE", 8)
    monkeypatch.setattr(leading_components, "N_LEADING", 3)
    monkeypatch.setattr(leading_components, "N_EXTRA", 2)
    n, p = 40, 120
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, p)) < 0.3, np.exp(simulated(n, p)), 0.0)
    X[0] = 1.0  # all columns vary
    Z, groups = standardised(X), np.arange(n) % 3
    if has_groups:
        Z = Z - np.array([Z[groups == g].mean(axis=0) for g in range(3)])[groups]
    data = standardised_data(sparse.csr_array(X), groups if has_groups else None)
    for first, last in ((0, 120), (10, 110), (5, 105), (60, 120)):
        members = (np.arange(p) >= first) & (np.arange(p) < last)
        found = data.principal_components(members, 3, 1e-5)
        eigenvalues, U = svd_components(Z, members, 3)
        np.testing.assert_allclose(found.eigenvalues[:3], eigenvalues, rtol=1e-5)
        np.testing.assert_allclose(np.abs(found.projections[:, :3]), np.abs(Z.T @ U), atol=1e-2)
        np.testing.assert_allclose(np.abs(data.scores(found, 3)), np.abs(U), atol=1e-3)
        np.testing.assert_allclose(found.member_projections, found.projections[members], atol=1e-12)
        exact = np.linalg.svd(Z[:, members], compute_uv=False) ** 2
        assert found.eigenvalue_bound >= exact[found.eigenvalues.size] * (1 - 1e-6)


@pytest.mark.parametrize(("n", "p"), [(60, 20), (20, 60)])
def test_columns_are_centred_within_groups(n, p, is_complete):
    rng = np.random.default_rng(0)
    groups = np.arange(n) % 4
    X = simulated(n, p) + 3.0 * rng.standard_normal((4, p))[groups]
    Z = standardised(X)
    within = Z - np.array([Z[groups == g].mean(axis=0) for g in range(4)])[groups]
    data = standardised_data(X, groups)
    np.testing.assert_allclose(data.sums_of_squares, np.sum(within**2, axis=0))
    assert data.dof == n - 4
    members = np.ones(p, dtype=bool)
    found = data.principal_components(members, 2, 1e-9)
    eigenvalues, U = svd_components(within, members, 2)
    np.testing.assert_allclose(found.eigenvalues[:2], eigenvalues, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found.projections[:, :2]), np.abs(within.T @ U), atol=1e-3)
    np.testing.assert_allclose(data.dense_columns(np.array([3]))[:, 0], within[:, 3], atol=1e-12)
