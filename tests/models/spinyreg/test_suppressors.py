"""Pairs of variables that help only together."""

import numpy as np
import pytest

from prosparse import SpinyRegressor
from prosparse.models.spinyreg import model as rg
from prosparse.models.spinyreg import suppressors as pr

pytestmark = pytest.mark.quick


def cancelling(n, p, seed, correlation=0.95):
    """y is the difference of the first two of many variables, and as much noise."""
    rng = np.random.default_rng([seed, n, p])
    X = rng.standard_normal((n, p))
    X[:, 1] = correlation * X[:, 0] + np.sqrt(1 - correlation**2) * X[:, 1]
    y = (X[:, 0] - X[:, 1]) / np.sqrt(2 * (1 - correlation)) + rng.standard_normal(n)
    return X, y


def moments_of(X, y):
    X, y = X - X.mean(axis=0), y - y.mean()
    return rg.moments(X.T @ X, X.T @ y, float(y @ y), len(y))


@pytest.mark.parametrize("v", [[], [4], [2, 5]])
def test_gains_are_those_of_the_larger_models(v):
    X, y = cancelling(30, 8, 0)
    X[:, 6] = X[:, 3] + 0.2 * X[:, 6]
    data = moments_of(X, y + 2.0 * X[:, 4])
    pairs = pr.correlated_pairs(data)
    assert list(zip(*(each.tolist() for each in pairs), strict=True)) == [(0, 1), (3, 6)]
    fit = rg.evaluate(data, np.array(v, dtype=int), 0.7)
    found = pr.pair_gains(data, fit, pairs, 0.7, data.n)
    for gain, i, j in zip(found, *pairs, strict=True):
        more = rg.evaluate(data, np.array([*v, i, j]), 0.7)
        assert gain == pytest.approx(more.log_evidence - fit.log_evidence, abs=1e-8)


def test_a_pair_of_which_one_is_in_the_model_gains_nothing():
    data = moments_of(*cancelling(30, 8, 0))
    fit = rg.evaluate(data, np.array([1, 4]), 0.0)
    assert pr.pair_gains(data, fit, pr.correlated_pairs(data), 0.0, 30.0) == -np.inf
    assert pr.add_best_pair(data, fit, pr.correlated_pairs(data), 30.0) is None


def test_without_correlated_variables_there_is_no_pair(rng):
    data = moments_of(rng.standard_normal((50, 6)), rng.standard_normal(50))
    empty = rg.evaluate(data, np.array([], dtype=int), 0.0)
    assert pr.add_best_pair(data, empty, pr.correlated_pairs(data), 50.0) is None


@pytest.mark.parametrize("seed", range(3))
def test_variables_that_cancel_are_found_among_more_than_there_are_rows(seed):
    X, y = cancelling(100, 600, seed)
    model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1]


def test_they_are_found_beside_others_too():
    X, y = cancelling(100, 600, 0)
    y = y + 3.0 * X[:, 10] - 3.0 * X[:, 20]
    model = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    assert model.get_support(indices=True).tolist() == [0, 1, 10, 20]
