"""Suppressor variables: pairs that explain the response only together."""

import numpy as np
import pytest
from regressions import model_of

from prosparse import SpinyRegressor
from prosparse.models.spinyreg import linear as rg
from prosparse.models.spinyreg import suppressors as pr

pytestmark = pytest.mark.quick


def cancelling(n, p, seed, correlation=0.95):
    """Simulate y as the difference of two correlated variables, plus noise of equal variance."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.standard_normal((n, p))
    X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
    y = (X[:, 0] - X[:, 1]) / np.sqrt(2 * (1 - correlation)) + rng.standard_normal(n)
    return X, y


def moments_of(X, y):
    X, y = X - X.mean(axis=0), y - y.mean()
    return model_of(X, y)


@pytest.mark.parametrize("v", [[], [4], [2, 5]])
def test_gains_equal_differences_of_evidence(v):
    X, y = cancelling(30, 8, 0)
    X[:, 6] = X[:, 3] + 0.2 * X[:, 6]
    data = moments_of(X, y + 2.0 * X[:, 4])
    pairs = pr.correlated_pairs(data.G, data.d)
    assert list(zip(*(each.tolist() for each in pairs), strict=True)) == [(0, 1), (3, 6)]
    fit = rg.evaluate(data, np.array(v, dtype=int), 0.7)
    found = pr.pair_gains(data, fit, pairs, 0.7)
    for gain, i, j in zip(found, *pairs, strict=True):
        more = rg.evaluate(data, np.array([*v, i, j]), 0.7)
        assert gain == pytest.approx(more.log_evidence - fit.log_evidence, abs=1e-8)


def test_pairs_that_overlap_with_the_model_are_excluded():
    data = moments_of(*cancelling(30, 8, 0))
    fit = rg.evaluate(data, np.array([1, 4]), 0.0)
    assert pr.pair_gains(data, fit, pr.correlated_pairs(data.G, data.d), 0.0) == -np.inf
    assert data.add_pair(fit) is None


def test_no_pair_without_correlated_variables(rng):
    data = moments_of(rng.standard_normal((50, 6)), rng.standard_normal(50))
    empty = rg.evaluate(data, np.array([], dtype=int), 0.0)
    assert data.add_pair(empty) is None


@pytest.mark.parametrize("seed", range(3))
def test_suppressors_are_found_among_more_variables_than_rows(seed):
    X, y = cancelling(100, 600, seed)
    model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1]


def test_suppressors_are_found_together_with_other_variables():
    X, y = cancelling(100, 600, 0)
    y = y + 3.0 * X[:, 10] - 3.0 * X[:, 20]
    model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1, 10, 20]
