"""Tests of each variable for a response of two classes."""

import warnings

import numpy as np
import pytest
from scipy import sparse, stats

from prosparse.app.class_comparison import compare_classes, describe_comparison


def test_pvalues_are_those_of_welch(rng):
    X, y = rng.standard_normal((30, 8)), np.array(["a"] * 12 + ["b"] * 18)
    X[:, 3] = 2.0
    X[12:, 5] += 2.0
    found = compare_classes(X, y)
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # of the constant column
        expected = stats.ttest_ind(X[12:], X[:12], equal_var=False).pvalue
    expected[3] = 1.0
    np.testing.assert_allclose(found.pvalues, expected)
    np.testing.assert_allclose(found.qvalues, stats.false_discovery_control(expected))
    np.testing.assert_allclose(found.difference, X[12:].mean(axis=0) - X[:12].mean(axis=0))
    for container in (sparse.csr_array(X), sparse.csc_array(X)):
        np.testing.assert_allclose(compare_classes(container, y).pvalues, expected)
    text = describe_comparison(found, [f"g{k}" for k in range(8)], ["a", "b"])
    different = int((found.qvalues <= 0.05).sum())
    assert f"tested one at a time, {different} variable" in text
    assert "(g5" in text
    assert "in mean between 'a' and 'b'" in text
    found.qvalues[:] = 1.0
    assert "0 variables differ" in describe_comparison(found, ["g"] * 8, ["a", "b"])


def test_planted_differences_are_found():
    """Twenty of 1,500 variables differ by 1.5 standard deviations, 60 rows."""
    power, false = [], []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((60, 1500)), np.arange(60) % 2
        X[:, :20] += 1.5 * y[:, None]
        found = compare_classes(X, y).qvalues <= 0.05
        power.append(found[:20].mean())
        false.append(found[20:].sum() / max(found.sum(), 1))
    assert np.mean(power) > 0.8
    assert np.mean(false) < 0.1


@pytest.mark.parametrize("y", [[0, 0, 0, 1], [0, 0, 0, 0], [0, 1, 2, 2]])
def test_few_rows_and_other_classes_are_not_compared(y, rng):
    assert compare_classes(rng.standard_normal((4, 2)), np.array(y)) is None
