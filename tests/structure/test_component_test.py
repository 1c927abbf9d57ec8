"""Tests of each variable against each component."""

import numpy as np
import pytest
from data_matrices import equalised_data, standardised, standardised_data
from scipy import stats

from prosparse.structure import (
    adjust_pvalues,
    component_pvalues,
    component_qvalues,
    count_supported_components,
)

pytestmark = pytest.mark.quick


def two_factors(n=150, p=60, seed=0):
    """The first 10 columns load on one factor, the next 10 on another."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p))
    X[:, :10] += 1.5 * rng.standard_normal((n, 1))
    X[:, 10:20] += rng.standard_normal((n, 1))
    return X


def test_pvalues_equal_partial_correlations_after_deletion():
    """F test of one component given the other one, without the tested variable."""
    X = two_factors(60)
    Z, selected = standardised(X), np.arange(60) < 20
    found = component_pvalues(standardised_data(X), selected, 2, robust=False)
    for j in (0, 12, 40):
        others = selected.copy()
        others[j] = False
        U, y = np.linalg.svd(Z[:, others], full_matrices=False)[0][:, :2], Z[:, j]
        c = (U.T @ y) ** 2 / (y @ y)
        for i in (0, 1):
            partial = c[i] / (1.0 - c[1 - i])
            expected = stats.beta.sf(partial, 0.5, (59 - 2) / 2)
            assert found[j, i] == pytest.approx(expected, rel=1e-6)


def test_flips_do_not_decrease_pvalues():
    X = two_factors(60)
    data, selected = standardised_data(X), np.arange(60) < 20
    robust = component_pvalues(data, selected, 2, robust=True)
    assert np.all(robust >= component_pvalues(data, selected, 2, robust=False))


def test_variables_are_associated_with_their_component():
    X = two_factors()
    selected = np.arange(60) < 20
    q = component_qvalues(component_pvalues(equalised_data(X), selected, 2, robust=True))
    assert np.mean(q[:10, 0] <= 0.05) > 0.9
    assert np.mean(q[10:20, 1] <= 0.05) > 0.9
    assert np.mean(q[20:] <= 0.05) < 0.05


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("rows", ["gaussian", "t3"])
def test_pvalues_of_null_variables_are_uniform(robust, rows):
    """Variables that do not load on the components; the robust test may be conservative."""
    rng = np.random.default_rng(0)
    found = []
    for seed in range(15):
        X = two_factors(100, seed=seed)
        if rows == "t3":
            X *= np.sqrt(3.0 / rng.chisquare(3, (100, 1)))
        data = equalised_data(X) if robust else standardised_data(X)
        found.append(component_pvalues(data, np.arange(60) < 20, 2, robust)[20:])
    found = np.concatenate(found).ravel()
    if robust or rows == "gaussian":
        for level in (0.01, 0.05, 0.2):
            assert np.mean(found <= level) < 1.4 * level + 0.003
    else:
        assert np.mean(found <= 0.01) > 0.02  # why the robust null is the default
    if rows == "gaussian" and not robust:
        assert stats.kstest(found, "uniform").statistic < 0.06


def test_qvalues_are_adjusted_for_each_component():
    p = np.random.default_rng(0).random((30, 3))
    q = component_qvalues(p)
    for k in range(3):
        np.testing.assert_array_equal(q[:, k], adjust_pvalues(p[:, k]))


def test_supported_components_are_counted_up_to_the_last():
    pvalues = np.full((20, 4), 0.9)
    selected = np.arange(20) < 10
    assert count_supported_components(pvalues, selected, 0.05) == 0
    pvalues[:5, 0] = 1e-6
    pvalues[:3, 2] = 1e-6  # the second one is not supported, and counts
    pvalues[0, 3] = 1e-6  # a single variable does not support a component
    assert count_supported_components(pvalues, selected, 0.05) == 3
    pvalues[:3, 2] = 0.9
    pvalues[15:, 2] = 1e-6  # variables that are not selected do not count
    assert count_supported_components(pvalues, selected, 0.05) == 1


def test_fewer_components_than_requested():
    """Two selected variables have one component without the tested one; constant columns none."""
    data = standardised_data(np.random.default_rng(0).standard_normal((20, 6)))
    found = component_pvalues(data, np.arange(6) < 2, 3, robust=True)
    assert found.shape == (6, 3)
    assert np.all(found[:, 1:] == 1.0)
    assert np.all(component_pvalues(data, np.arange(6) < 1, 2, robust=True) == 1.0)
