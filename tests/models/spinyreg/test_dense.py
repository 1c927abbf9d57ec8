"""The dense component, compared with n x n matrices."""

import numpy as np
import pytest
from regressions import model_of

from prosparse.models.spinyreg.dense import SIGNAL_RATIOS, dense_component

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("n", "p"), [(30, 8), (12, 25)])
def test_sufficient_statistics(n, p):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((n, p))
    X[:, 1] = X[:, 0]  # X'X is singular.
    X, y = X - X.mean(axis=0), rng.standard_normal(n)
    y -= y.mean()
    model, columns = model_of(X, y, n - 1), np.array([3, 0, 2])
    dense = dense_component(model)
    np.testing.assert_allclose(dense.F @ dense.F.T, X.T @ X, atol=1e-9)
    for level, kappa in enumerate(dense.kappa):
        assert np.trace(X.T @ X) / (n * kappa) == pytest.approx(SIGNAL_RATIOS[level])
        S = np.eye(n) + X @ X.T / kappa
        Z = X[:, columns]
        found = dense.marginalise(model, columns, level)
        np.testing.assert_allclose(found.G, Z.T @ np.linalg.solve(S, Z), atol=1e-9)
        np.testing.assert_allclose(found.B[:, 0], Z.T @ np.linalg.solve(S, y), atol=1e-9)
        assert found.yy[0] == pytest.approx(float(y @ np.linalg.solve(S, y)))
        offset = dense.log_offset[level] - dense.log_prior[level]
        assert offset == pytest.approx(-0.5 * np.linalg.slogdet(S)[1])
        A = np.linalg.inv(X.T @ X + kappa * np.eye(p))
        np.testing.assert_allclose(dense.ridge(level)[:, 0], A @ X.T @ y, atol=1e-9)
        np.testing.assert_allclose(dense.hat(columns, level), A @ X.T @ Z, atol=1e-9)
        np.testing.assert_allclose(dense.variance(level), np.diagonal(A), atol=1e-9)
        leverage = np.trace(X @ A @ X.T) / n
        assert dense.predictive_variance(level) == pytest.approx(leverage / (1.0 - leverage))
