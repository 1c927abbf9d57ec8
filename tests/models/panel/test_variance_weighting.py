"""Preference of variables with large variance."""

import numpy as np
import pytest
from scipy.stats import norm

from prosparse import Panel
from prosparse.models.panel.variance_weighting import (
    MIN_WEIGHT,
    proportion_less_variable,
    variance_weights,
)


def by_pairs(scale, n):
    """Mean over all pairs of variables."""
    logs = np.log(scale)
    return norm.cdf((logs[:, None] - logs) * np.sqrt(n - 1.0)).mean(axis=1)


@pytest.mark.parametrize("width", [0.01, 0.3, 3.0])
@pytest.mark.parametrize("n", [6, 100, 3_000])
def test_proportions_agree_with_the_sum_over_pairs(n, width, rng):
    scale = np.exp(width * rng.standard_normal(300))
    found = proportion_less_variable(scale, n)
    np.testing.assert_allclose(found, by_pairs(scale, n), atol=0.005)
    assert np.all(np.diff(found[np.argsort(scale)]) >= 0.0)
    np.testing.assert_allclose(variance_weights(scale, n), MIN_WEIGHT + (1.0 - MIN_WEIGHT) * found)


def test_only_the_order_of_clear_differences_matters():
    scale = np.array([1e-8, 1.0, 2.0, 1e12])
    found = proportion_less_variable(scale, 10_000)
    np.testing.assert_allclose(found, [0.125, 0.375, 0.625, 0.875], atol=0.01)
    np.testing.assert_allclose(
        variance_weights(7.0 * scale, 50), variance_weights(scale, 50), atol=1e-12
    )


def test_differences_within_the_standard_error_are_reduced(rng):
    scale = rng.standard_normal((50, 400)).std(axis=0)
    shrunken, unshrunken = (np.ptp(proportion_less_variable(scale, n)) for n in (50, 10**9))
    assert shrunken < 0.95 < unshrunken
    same = np.nextafter(3.0, np.array([2.0, 3.0, 4.0]))
    np.testing.assert_allclose(proportion_less_variable(same, 50), 0.5, atol=1e-12)
    np.testing.assert_array_equal(proportion_less_variable(np.full(3, 3.0), 50), 0.5)


# Variables of the data below with a larger variance than their group.
LARGE = [5, 11, 17]


@pytest.fixture(scope="module")
def redundant():
    """Three groups of six redundant columns. The last of each has more noise and four times the
    standard deviation."""
    rng = np.random.default_rng(0)
    factors = np.repeat(rng.standard_normal((120, 3)), 6, axis=1)
    noise = np.where(np.isin(np.arange(18), LARGE), 0.45, 0.3)
    X = factors + noise * rng.standard_normal(factors.shape)
    return X * np.where(np.isin(np.arange(18), LARGE), 4.0, 1.0)


def test_variable_with_larger_variance_is_preferred(redundant):
    """With noise columns, of which there are too many for an exact search."""
    noise = 0.1 * np.random.default_rng(1).standard_normal((120, 90))
    assert sorted(Panel(3).fit(np.hstack([redundant, noise])).order_) == LARGE


def test_few_columns_are_not_weighted(redundant):
    """The best set is found exactly."""
    found = Panel(3).fit(redundant)
    assert found.optimality_gap_ < 1e-9
    assert not set(found.order_) & set(LARGE)


def test_standardised_data_have_equal_weights(redundant):
    """Variables with less noise are selected, one of each group."""
    found = Panel(3).fit((redundant - redundant.mean(axis=0)) / redundant.std(axis=0)).order_
    assert not set(found) & set(LARGE)
    assert sorted(found // 6) == [0, 1, 2]
