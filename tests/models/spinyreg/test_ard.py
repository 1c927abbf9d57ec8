"""Automatic relevance determination, compared with dense formulas."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from prosparse.datasets import make_sparse_regression
from prosparse.inference.loop import iterate
from prosparse.models.spinyreg import ard

pytestmark = pytest.mark.quick

SHAPES = [(40, 6), (12, 12), (10, 20)]


def moments(n, p, seed=0, correlation=0.0):
    X, y, _ = make_sparse_regression(
        n, p, n_informative=3, correlation=correlation, random_state=seed
    )
    return X, y, (X.T @ X, X.T @ y, float(y @ y), n, 0.8)


def dense(X, y, sigma2, t):
    covariance = sigma2 * np.eye(y.size) + (X * t) @ X.T
    return multivariate_normal(np.zeros(y.size), covariance).logpdf(y)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_likelihood_equals_the_dense_formula(n, p, rng):
    X, y, given = moments(n, p)
    t = rng.uniform(0, 2, p) * (rng.random(p) < 0.6)
    assert ard.log_likelihood(*given, t) == pytest.approx(dense(X, y, 0.8, t), abs=1e-9)


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("correlation", [0.0, 0.8])
def test_step_maximises_each_variance_in_turn(n, p, correlation):
    """A step equals numerical maximisation of the dense density over each variance in turn."""
    X, y, given = moments(n, p, correlation=correlation)
    slow = np.full(p, 0.5)
    fast = ard.make_step(*given)(ard.init(*given, slow)).t
    for j in range(p):

        def loss(log_t, j=j):
            return -dense(X, y, 0.8, np.where(np.arange(p) == j, np.exp(log_t), slow))

        best = minimize_scalar(loss, bounds=(-12, 6), method="bounded", options={"xatol": 1e-10})
        slow[j] = 0.0
        slow[j] = np.exp(best.x) if dense(X, y, 0.8, slow) < -best.fun - 1e-9 else 0.0
    np.testing.assert_allclose(fast, slow, rtol=2e-3, atol=1e-4)
    np.testing.assert_array_equal(fast == 0, slow == 0)


@pytest.mark.parametrize("correlation", [0.0, 0.9])
@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("start", [0.0, 1.0])
def test_likelihood_is_non_decreasing(n, p, correlation, start):
    X, y, given = moments(n, p, correlation=correlation)
    step, state = ard.make_step(*given), ard.init(*given, np.full(p, start))
    for _ in range(25):
        result = step(state)
        assert result.bound >= state.bound - 1e-9
        assert result.bound == pytest.approx(dense(X, y, 0.8, result.t), abs=1e-8)
        state = result
    assert np.any(state.t == 0)


def test_no_variables():
    empty = (np.zeros((0, 0)), np.zeros(0), 3.0, 5, 0.6)
    run = iterate(ard.make_step(*empty), ard.init(*empty, np.zeros(0)), max_iter=5, tol=0.0)
    assert run.state.bound == pytest.approx(-2.5 * np.log(2 * np.pi * 0.6) - 2.5)
    assert len(run.bounds) == 1
