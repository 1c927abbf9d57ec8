"""Combined p-values and lists with few false entries."""

import numpy as np
import pytest

from prosparse.structure.false_discoveries import NESTED, combined, discoveries, qvalues
from prosparse.structure.null_distribution import gaussian_pvalues

pytestmark = pytest.mark.quick


def test_cauchy_as_typed_from_the_paper():
    p = np.array([[0.3, 0.02, 0.7], [0.5, 0.5, 0.5], [1e-4, 0.9, 0.2]])
    T = np.mean(np.tan((0.5 - p) * np.pi), axis=1)
    np.testing.assert_allclose(combined(p), np.minimum(1, NESTED * (0.5 - np.arctan(T) / np.pi)))


def test_tiny_ones_keep_their_size():
    """One p-value of 1e-200 among three gives 3e-200, not zero; and one of 1 does not hide it."""
    found = combined(np.array([[1e-200, 0.5, 0.5], [1e-200, 1.0, 1.0], [0.0, 0.5, 0.5]]))
    np.testing.assert_allclose(found[:2], NESTED * 3e-200, rtol=1e-6)
    assert 0.0 <= found[2] < 1e-300


@pytest.mark.parametrize(("n", "D"), [(12, 4), (40, 13), (200, 16)])
def test_nested_models_keep_their_level(n, D):
    rng = np.random.default_rng(n)
    squares = rng.chisquare(1, (40_000, D))
    total = squares.sum(axis=1) + rng.chisquare(n - 1 - D, 40_000)
    p = combined(gaussian_pvalues(np.cumsum(squares, axis=1) / total[:, None], n - 1))
    for level in (0.1, 0.05, 0.01):
        error = np.sqrt(level / 40_000)
        assert np.mean(p <= level) <= level + 3 * error
        assert np.mean(p <= level) >= 0.8 * level


def test_benjamini_and_hochberg_step_by_step():
    p = np.array([0.001, 0.008, 0.039, 0.041, 0.042, 0.06, 0.074, 0.205, 0.212, 0.216])
    largest = max(k for k in range(10) if np.sort(p)[k] <= 0.05 * (k + 1) / 10)
    assert discoveries(p, 0.05).sum() == largest + 1 == 2
    np.testing.assert_array_equal(discoveries(p, 0.05), qvalues(p) <= 0.05)
    assert not discoveries(np.ones(5), 0.5).any()
