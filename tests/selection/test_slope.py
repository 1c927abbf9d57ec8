"""Slope heuristic on collections of models with known slope, and information criteria."""

from math import comb

import numpy as np
import pytest

from prosparse.errors import InputError
from prosparse.selection.criteria import ebic
from prosparse.selection.slope import robust_slope, selection_shape


def collection(slope, true=20, largest=120, jitter=0.0, seed=0):
    """Log-likelihoods with a bias below the true dimension and the given slope above it."""
    rng = np.random.default_rng(seed)
    D = np.arange(1, largest + 1)
    L = -1000.0 + slope * D - 8.0 * slope * np.maximum(true - D, 0) ** 1.2
    return D, L + jitter * rng.standard_normal(largest)


@pytest.mark.parametrize("slope", [0.5, 3.0, 40.0])
@pytest.mark.parametrize("jitter", [0.0, 0.5])
def test_slope_and_model_are_recovered(slope, jitter):
    D, L = collection(slope, jitter=jitter * slope)
    found = robust_slope(D, L)
    assert found.slope == pytest.approx(slope, rel=0.05)
    assert abs(D[found.best] - 20) <= 1
    assert found.best == np.argmax(found.criterion)
    np.testing.assert_allclose(found.criterion, L - 2 * found.slope * D)


def test_gaussian_model_selection():
    """Nested Gaussian means have slope 1/2; twice the slope is Akaike's penalty."""
    selected = []
    for seed in range(8):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(150) + np.r_[np.full(15, 4.0), np.zeros(135)]
        D = np.arange(1, 151)
        L = 0.5 * np.cumsum(x**2)
        found = robust_slope(D, L)
        assert found.slope == pytest.approx(0.5, abs=0.15)
        selected.append(D[found.best])
    assert abs(np.median(selected) - 15) <= 3


def test_unit_of_the_shape_does_not_matter():
    D, L = collection(3.0, jitter=0.5)
    plain, small = robust_slope(D, L), robust_slope(1e-6 * D, L)
    assert small.slope == pytest.approx(1e6 * plain.slope)
    assert small.best == plain.best


def test_slope_is_robust_to_outliers():
    D, L = collection(3.0)
    L[100] += 300.0
    assert robust_slope(D, L).slope == pytest.approx(3.0, rel=0.05)


def test_order_and_repeated_dimensions_do_not_matter(rng):
    D, L = collection(3.0)
    D2, L2 = np.r_[D, D[::2]], np.r_[L, L[::2] - 50.0]  # same dimension, lower likelihood
    shuffle = rng.permutation(D2.size)
    found = robust_slope(D2[shuffle], L2[shuffle])
    plain = robust_slope(D, L)
    assert found.slope == pytest.approx(plain.slope)
    assert D2[shuffle][found.best] == D[plain.best]
    assert L2[shuffle][found.best] == L[plain.best]


def test_unsuitable_collections_raise_errors():
    with pytest.raises(InputError, match="at least 10 models of different shape, got 5"):
        robust_slope([1, 2, 3, 4, 5, 5], [1, 2, 3, 4, 5, 6])
    D = np.arange(1, 60)
    with pytest.raises(InputError, match=r"no linear part.*Add larger models"):
        robust_slope(D, -1e3 * 0.8**D - 30.0 * D)  # decreases everywhere
    with pytest.raises(InputError, match=r"no linear part.*pass `selection_shape`"):
        robust_slope(D, -np.exp(-0.3 * (D - 60.0)))  # is not linear anywhere
    with pytest.raises(InputError, match="selects the smallest model"):
        robust_slope(D, 5.0 * D)  # is linear everywhere


def test_extended_bic():
    counts, sizes = [comb(12, k) for k in (0, 3, 12)], np.array([0, 3, 12])
    np.testing.assert_allclose(
        ebic([-5.0, -5.0, -5.0], sizes, 50, 12), -5.0 - 0.5 * np.log(50) * sizes - np.log(counts)
    )


@pytest.mark.parametrize(("total", "seed"), [(200, 0), (1000, 1)])
def test_selection_shape_is_the_gain_from_selecting_noise(total, seed):
    """Half the sum of the D largest squares of normal variables, by simulation."""
    squares = np.random.default_rng(seed).standard_normal((4000, total)) ** 2
    gains = 0.5 * np.cumsum(np.sort(squares, axis=1)[:, ::-1], axis=1).mean(axis=0)
    D = np.array([5, 20, total // 4, total // 2, total])
    np.testing.assert_allclose(selection_shape(D, total), gains[D - 1], rtol=0.04)
    assert selection_shape(0, total) == 0.0


@pytest.mark.parametrize("slope", [1.0, 7.0])
def test_selected_parameters_require_the_selection_shape(slope):
    """15 of 300 coordinates are not zero; models contain the D largest."""
    found = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        x = rng.standard_normal(300)
        x[:15] += 6.0
        D = np.arange(1, 301, 4)
        L = slope * 0.5 * np.cumsum(np.sort(x**2)[::-1])[D - 1]
        with pytest.raises(InputError, match="no linear part"):
            robust_slope(D, L)
        result = robust_slope(selection_shape(D, 300), L)
        assert result.slope == pytest.approx(slope, rel=0.4)
        found.append(D[result.best])
    assert abs(np.median(found) - 15) <= 2


def test_only_linear_windows_are_used():
    """With 70 parameters of signal and 30 of noise most windows are not linear."""
    D = np.arange(1, 101)
    L = np.where(D <= 70, 20.0 * D, 1400.0 + (D - 70))
    found = robust_slope(D, L)
    assert found.slope == pytest.approx(1.0)
    assert D[found.best] == 70
