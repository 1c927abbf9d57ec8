"""Branch and bound agrees with enumeration."""

from itertools import combinations

import numpy as np
import pytest
from factor_models import largest_gain, random_model, total_gain

from prosparse import Panel
from prosparse.models.panel.best_subset import find_best_subset, subset_gain
from prosparse.models.panel.factors import FactorModel
from prosparse.models.panel.greedy import Constraints


def constraints(p, q, include=(), allowed=None):
    allowed = np.ones(p, dtype=bool) if allowed is None else allowed
    return Constraints(q, np.array(include, dtype=int), allowed, np.ones(p), [])


def empirical_model(rng, p, n=60):
    """Empirical covariance of correlated data, without unique variances."""
    X = rng.standard_normal((n, 4)) @ rng.standard_normal((4, p)) + rng.standard_normal((n, p))
    eigenvalues, vectors = np.linalg.eigh(np.corrcoef(X.T))
    return FactorModel(vectors * np.sqrt(eigenvalues), np.full(p, 1e-8))


@pytest.mark.parametrize("q", [1, 3, 6, 9, 10])
@pytest.mark.parametrize("make", [random_model, empirical_model])
def test_best_set_is_that_of_enumeration(make, q):
    for seed in range(4):
        model = make(np.random.default_rng(seed), 11)
        found = find_best_subset(model, constraints(11, q), np.arange(q))
        expected = largest_gain(model, q)
        assert found.gain == pytest.approx(expected, rel=1e-7)
        assert found.bound == pytest.approx(expected, rel=1e-6)
        assert total_gain(model, found.variables) == pytest.approx(found.gain)


def test_included_and_excluded_variables(rng):
    model = random_model(rng, 10)
    allowed = np.isin(np.arange(10), [0, 2, 3, 5, 6, 8, 9])
    found = find_best_subset(model, constraints(10, 4, [1, 3], allowed), np.array([1, 3, 0, 2]))
    values = {
        pair: total_gain(model, [1, 3, *pair]) for pair in combinations([0, 2, 5, 6, 8, 9], 2)
    }
    best = max(values, key=values.get)
    assert set(found.variables) == {1, 3, *best}
    assert found.bound == pytest.approx(values[best], rel=1e-6)


def test_bound_holds_if_the_search_is_stopped(rng):
    model = empirical_model(rng, 14)
    exact = find_best_subset(model, constraints(14, 6), np.arange(6))
    stopped = find_best_subset(model, constraints(14, 6), np.arange(6), max_nodes=1)
    assert stopped.bound >= exact.gain * (1 - 1e-9)
    assert stopped.bound > stopped.gain


def test_gain_of_collinear_variables(rng):
    X = rng.standard_normal((50, 3))
    X = np.hstack([X, X[:, :1] + X[:, 1:2]])
    sigma = np.corrcoef(X.T)
    assert subset_gain(sigma, sigma, np.arange(4)) == pytest.approx(4.0)
    model = FactorModel(np.linalg.cholesky(sigma + 1e-10 * np.eye(4)), np.full(4, 1e-10))
    found = find_best_subset(model, constraints(4, 3), np.array([0, 1, 3]))
    assert found.gain == pytest.approx(4.0, rel=1e-6)
    assert 2 in found.variables


def test_panel_of_few_columns_is_the_best_one(rng):
    X = rng.standard_normal((200, 3)) @ rng.standard_normal((3, 9))
    X += rng.standard_normal(X.shape)
    found = Panel(4).fit(X)
    assert found.optimality_gap_ < 1e-8
    assert found.empirical_weight_ == 1.0
    sigma = np.corrcoef(X.T)
    gains = {s: subset_gain(sigma, sigma, np.array(s)) for s in combinations(range(9), 4)}
    assert tuple(np.sort(found.order_)) == max(gains, key=gains.get)
