"""Conformal prediction intervals: order of the rows by their errors, and widths."""

import numpy as np
import pytest
from factor_models import random_model, simulate

from prosparse.models.panel import Panel
from prosparse.models.panel.conformal import order_by_error


def slow_fifths(errors):
    """Rank the rows for each column by the mean relative squares of the other columns."""
    relative = errors**2 / np.mean(errors**2, axis=0)
    fifths = np.zeros(errors.shape, dtype=int)
    for k in range(errors.shape[1]):
        means = np.delete(relative, k, axis=1).mean(axis=1)
        for i, mean in enumerate(means):
            fifths[i, k] = 5 * np.sum(means < mean) // means.size
    return fifths


def test_fifths_of_rows(rng):
    errors, distance = np.abs(rng.standard_normal((37, 6))), rng.random(37)
    np.testing.assert_array_equal(order_by_error(errors, distance), slow_fifths(errors))


def test_the_error_of_a_variable_does_not_select_its_rows(rng):
    errors, distance = np.abs(rng.standard_normal((40, 3))), rng.random(40)
    fifths = order_by_error(errors, distance)
    errors[:, 0] = rng.permutation(errors[:, 0])
    np.testing.assert_array_equal(order_by_error(errors, distance)[:, 0], fifths[:, 0])


def test_one_variable_uses_the_distance_of_the_panel(rng):
    distance = rng.random(25)
    fifths = order_by_error(np.abs(rng.standard_normal((25, 1))), distance)
    assert distance[fifths[:, 0] == 4].min() > distance[fifths[:, 0] < 4].max()


@pytest.mark.parametrize("p", [7, 30])
def test_rows_of_equal_variance_need_no_wider_intervals(p):
    """Few variables: the fifth with the largest own errors would contain all misses."""
    rng = np.random.default_rng(0)
    found = Panel(4).fit(simulate(random_model(rng, p, 2), 1_000, rng))
    coverage = found.heldout_coverage_[~found.support_].mean()
    assert 0.94 < coverage < 0.96
