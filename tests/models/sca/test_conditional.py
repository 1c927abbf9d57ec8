"""Inference for new rows against the dense Gaussian distribution of each row."""

import mpmath
import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal

from prosparse.models.sca.conditional import (
    Factors,
    has_missing,
    posterior_means,
    predictive_moments,
    row_log_densities,
)

pytestmark = pytest.mark.quick

p, Q = 6, 2


@pytest.fixture
def model(rng):
    return Factors(rng.standard_normal((p, Q)), rng.gamma(3.0, 1.0, p), rng.standard_normal(p))


def rows(container):
    rng = np.random.default_rng(1)
    X = 2.0 * rng.standard_normal((7, p))
    if container == "integers":
        return X.round().astype(int)
    if container == "single precision":
        return X.astype(np.float32)
    if container == "sparse":
        return sparse.csr_array(X * (rng.random(X.shape) < 0.5))
    if "missing" in container:
        X[rng.random(X.shape) < 0.3] = np.nan
        X[:2] = X[0]  # two rows with the same pattern
        X[2] = 1.0  # a complete row
    if container == "sparse with missing values":
        return sparse.csr_array(np.where(rng.random(X.shape) < 0.3, 0.0, X))
    return X


CONTAINERS = [
    "floats",
    "integers",
    "single precision",
    "sparse",
    "missing values",
    "sparse with missing values",
]


@pytest.mark.parametrize("container", CONTAINERS)
def test_inference_matches_the_dense_gaussian_of_each_row(container, model):
    X = rows(container)
    assert has_missing(X) == ("missing" in container)
    L, tau, mean = model[:3]
    covariance = L @ L.T + np.diag(1 / tau)
    Z, density = posterior_means(X, model), row_log_densities(X, model)
    columns = np.array([4, 0, 3])
    ahead, variance = predictive_moments(X, model, columns)
    tol = 1e-4 if container == "single precision" else 1e-9
    dense = np.asarray(X.todense() if sparse.issparse(X) else X, dtype=float)
    for k, row in enumerate(dense):
        seen = ~np.isnan(row)
        x, W, row_covariance = row[seen] - mean[seen], L[seen], covariance[np.ix_(seen, seen)]
        gain = np.linalg.solve(row_covariance, W).T
        np.testing.assert_allclose(Z[k], gain @ x, atol=tol)
        assert density[k] == pytest.approx(
            multivariate_normal(cov=row_covariance).logpdf(x), rel=tol
        )
        # A new observation of the columns has independent noise.
        cross = L[columns] @ W.T
        np.testing.assert_allclose(
            ahead[k], mean[columns] + cross @ np.linalg.solve(row_covariance, x), atol=tol
        )
        left = L[columns] @ L[columns].T - cross @ np.linalg.solve(row_covariance, cross.T)
        np.testing.assert_allclose(variance[k], np.diag(left) + 1 / tau[columns], atol=tol)


def test_log_densities_are_accurate_with_tiny_noise():
    """More factors than observed entries and noise of 1e-10, against forty digits."""
    rng = np.random.default_rng(0)
    L, tau = rng.standard_normal((p, 5)), np.full(p, 1e10)
    X = rng.standard_normal((12, 5)) @ L.T
    X[rng.random(X.shape) < 0.3] = np.nan
    found = row_log_densities(X, Factors(L, tau, np.zeros(p)))
    with mpmath.workdps(40):
        loadings = mpmath.matrix(L.tolist())
        row_covariance = loadings * loadings.T + mpmath.diag(
            [1 / mpmath.mpf(value) for value in tau]
        )
        for row, density in zip(X, found, strict=True):
            seen = np.flatnonzero(~np.isnan(row)).tolist()
            x = mpmath.matrix([row[i] for i in seen])
            C = mpmath.matrix([[row_covariance[i, j] for j in seen] for i in seen])
            root = mpmath.cholesky(C)
            log_det = 2 * sum(mpmath.log(root[i, i]) for i in range(len(seen)))
            misfit = (x.T * mpmath.lu_solve(C, x))[0]
            exact = -(misfit + log_det + len(seen) * mpmath.log(2 * mpmath.pi)) / 2
            assert density == pytest.approx(float(exact), abs=1e-3)
