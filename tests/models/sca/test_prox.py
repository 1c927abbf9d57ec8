"""Maximisation over single loadings against a grid search."""

import numpy as np
import pytest

from prosparse.models.sca.hyperbolic import HyperbolicPrior
from prosparse.models.sca.prox import largest_root, maximise_loading

pytestmark = pytest.mark.quick

PRIORS = [
    (0, 0),
    (0, 1.5),
    (0.2, 0),
    (0.05, 0.1),
    (0.5, 2),
    (0.7, 1),
    (1, 0),
    (1, 2),
    (2, 3),
    (9, 1),
]


def objective(e, g, w, prior):
    return g * w - 0.5 * e * w * w + prior.log_density(w)


@pytest.mark.slow
@pytest.mark.parametrize(("shape", "rate"), PRIORS)
def test_largest_stationary_point(shape, rate, rng):
    prior = HyperbolicPrior(shape, rate)
    e, g = rng.uniform(0.5, 50, 60), rng.uniform(0, 60, 60)
    root = largest_root(e, g, prior)
    for k in range(60):
        grid = np.linspace(1e-4, g[k] / e[k] * 1.01 + 1e-3, 20001)
        values = objective(e[k], g[k], grid, prior)
        peaks = np.flatnonzero((values[1:-1] >= values[:-2]) & (values[1:-1] >= values[2:])) + 1
        if root[k] > 0:
            found = e[k] * root[k] + prior.slope(root[k : k + 1])[0]
            assert found == pytest.approx(g[k], rel=1e-8)
            assert np.abs(grid[peaks[-1]] - root[k]) <= 2 * (grid[1] - grid[0])
        elif shape <= 1:
            # The objective decreases from zero.
            assert peaks.size == 0 or grid[peaks[-1]] < 1e-3


@pytest.mark.parametrize(("shape", "rate"), PRIORS)
def test_objective_is_non_decreasing(shape, rate, rng):
    prior = HyperbolicPrior(shape, rate)
    e, g = rng.uniform(0.5, 50, 500), rng.normal(0, 20, 500)
    current = np.where(rng.random(500) < 0.3, 0.0, rng.normal(0, 1, 500) ** 3)
    best = maximise_loading(e, g, current, prior)
    before, after = objective(e, g, current, prior), objective(e, g, best, prior)
    assert np.all(after >= before - 1e-9 * (1 + np.abs(before)))
    # A maximum is a fixed point.
    again = maximise_loading(e, g, best, prior)
    np.testing.assert_allclose(again, best, rtol=1e-9)


def test_soft_threshold():
    prior = HyperbolicPrior(1.0, 2.0)  # l1 penalty of 2
    w = maximise_loading(np.full(4, 2.0), np.array([-5.0, -1.0, 1.9, 3.0]), np.ones(4), prior)
    np.testing.assert_array_equal(w, [-1.5, 0, 0, 0.5])
