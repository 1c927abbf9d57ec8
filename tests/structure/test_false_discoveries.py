"""Combination of p-values and the Benjamini-Hochberg procedure."""

import numpy as np
import pytest

from prosparse.structure.false_discoveries import (
    NESTED_CORRECTION,
    adjust_pvalues,
    benjamini_hochberg,
    combine_pvalues,
)
from prosparse.structure.null_distribution import Moments, beta_tail, gaussian_variance

pytestmark = pytest.mark.quick


def test_cauchy_combination_equals_the_formula_of_the_paper():
    p = np.array([[0.3, 0.02, 0.7], [0.5, 0.5, 0.5], [1e-4, 0.9, 0.2]])
    T = np.mean(np.tan((0.5 - p) * np.pi), axis=1)
    np.testing.assert_allclose(
        combine_pvalues(p), np.minimum(1, NESTED_CORRECTION * (0.5 - np.arctan(T) / np.pi))
    )


def test_tiny_pvalues_do_not_underflow():
    """A p-value of 1e-200 among three gives 3e-200, also if the others are 1."""
    found = combine_pvalues(np.array([[1e-200, 0.5, 0.5], [1e-200, 1.0, 1.0], [0.0, 0.5, 0.5]]))
    np.testing.assert_allclose(found[:2], NESTED_CORRECTION * 3e-200, rtol=1e-6)
    assert 0.0 <= found[2] < 1e-300


@pytest.mark.parametrize(("n", "D"), [(12, 4), (40, 13), (200, 16)])
def test_nested_models_have_the_nominal_level(n, D):
    rng = np.random.default_rng(n)
    squares = rng.chisquare(1, (40_000, D))
    total = squares.sum(axis=1) + rng.chisquare(n - 1 - D, 40_000)
    R2 = np.cumsum(squares, axis=1) / total[:, None]
    mean = np.broadcast_to(np.arange(1, D + 1) / (n - 1), R2.shape)
    p = combine_pvalues(beta_tail(R2, Moments(mean, gaussian_variance(mean, n - 1))))
    for level in (0.1, 0.05, 0.01):
        error = np.sqrt(level / 40_000)
        assert np.mean(p <= level) <= level + 3 * error
        assert np.mean(p <= level) >= 0.8 * level


def test_benjamini_hochberg_equals_its_definition():
    p = np.array([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216])
    largest = max(k for k in range(10) if np.sort(p)[k] <= 0.05 * (k + 1) / 10)
    assert benjamini_hochberg(p, 0.05).sum() == largest + 1 == 2
    np.testing.assert_array_equal(benjamini_hochberg(p, 0.05), adjust_pvalues(p) <= 0.05)
    assert not benjamini_hochberg(np.ones(5), 0.5).any()
