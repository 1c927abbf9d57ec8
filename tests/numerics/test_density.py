"""Gaussian densities with a low-rank plus diagonal covariance matrix."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal

from prosparse.data import DenseOperator
from prosparse.numerics.density import FactorCovariance, log_density


@pytest.fixture
def covariance(rng):
    components = np.linalg.qr(rng.standard_normal((4, 2)))[0].T
    inside, outside = np.array([0, 2, 3, 6]), np.array([1, 5])
    return FactorCovariance(components, np.array([5.0, 2.0]), 0.5, 0.3, inside, outside)


def test_matrix_entry_by_entry(covariance):
    """cov(x_i, x_j) = sum_k V_ki V_kj (v_k - noise), plus noise on the diagonal."""
    expected = np.zeros((7, 7))
    for a, i in enumerate(covariance.inside):
        for b, j in enumerate(covariance.inside):
            expected[i, j] = 0.5 * (i == j) + sum(
                V[a] * V[b] * (variance - 0.5)
                for V, variance in zip(covariance.components, covariance.variances, strict=True)
            )
    expected[1, 1] = expected[5, 5] = 0.3
    np.testing.assert_allclose(covariance.matrix(7), expected, atol=1e-15)


def test_inverse_is_the_pseudo_inverse(covariance):
    np.testing.assert_allclose(
        covariance.inverse(7), np.linalg.pinv(covariance.matrix(7)), atol=1e-12
    )


def test_log_density_is_the_normal_one(covariance, rng):
    X = rng.standard_normal((10, 7))
    used = np.array([0, 1, 2, 3, 5, 6])
    normal = multivariate_normal(np.zeros(6), covariance.matrix(7)[np.ix_(used, used)])
    np.testing.assert_allclose(log_density(DenseOperator(X), covariance), normal.logpdf(X[:, used]))
