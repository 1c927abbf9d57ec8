"""log K and its ratio, compared with 60-digit values and multi-precision quadrature."""

import array_api_strict
import mpmath
import numpy as np
import pytest

from prosparse.numerics import bessel
from prosparse.numerics.bessel import log_kv_and_ratio


def log_kv(nu, x):
    return log_kv_and_ratio(nu, x)[0]


def kv_ratio(nu, x):
    return log_kv_and_ratio(nu, x)[1]


# Orders on both sides of each change of formula.
ORDERS = [0.0, 0.5, 1.0, 3.5, 10.0, 24.5, 25.0, 49.5, 50.0, 69.5, 70.0, 109.5, 110.0, 209.5, 210.0]
ORDERS += [559.5, 560.0, 1000.0, 2699.5, 2700.0, 20000.5, 36999.5, 37000.0]


def arguments(nu):
    return [1e-100, 1e-8, 0.5, 3.0, 0.3 * nu + 0.1, 0.662 * nu + 0.1, 5 * nu + 1, 1e6, 1e12]


def log_k_by_quadrature(nu, x):
    """Integrate K_nu(x) = 1/2 int exp(nu t - x cosh t) dt by the trapezoid rule."""
    nu, x = mpmath.mpf(nu), mpmath.mpf(x)
    mode = mpmath.asinh(nu / x)
    width = 1 / mpmath.sqrt(mpmath.sqrt(nu**2 + x**2))
    spacing = min(width / 3, mpmath.mpf("0.1"))
    maximum = nu * mode - x * mpmath.cosh(mode)
    total = mpmath.mpf(1)
    for direction in (1, -1):
        t, term = mode, mpmath.mpf(1)
        while term > mpmath.mpf("1e-22"):
            t += direction * spacing
            term = mpmath.exp(nu * t - x * mpmath.cosh(t) - maximum)
            total += term
    return maximum + mpmath.log(total * spacing / 2)


def exact(nu, x):
    with mpmath.workdps(40):
        log_k = log_k_by_quadrature(nu, x)
        return float(log_k), float(mpmath.exp(log_k_by_quadrature(abs(nu - 1), x) - log_k))


@pytest.mark.parametrize("nu", ORDERS)
def test_against_quadrature(nu):
    for x in arguments(nu):
        log_k, ratio = exact(nu, x)
        assert log_kv(nu, np.array([x]))[0] == pytest.approx(log_k, rel=1e-12, abs=1e-12)
        assert kv_ratio(nu, np.array([x]))[0] == pytest.approx(ratio, rel=1e-12, abs=0)


def test_against_reference_table(reference_folder):
    table = np.load(reference_folder / "log_bessel_k.npz")
    values = [log_kv(nu, np.array([x]))[0] for nu, x in zip(table["nu"], table["x"], strict=True)]
    np.testing.assert_allclose(values, table["log_k"], rtol=1e-12)


def test_unsorted_orders(rng):
    nu = rng.permutation([0.5, 7.0, 30.0, 60.5, 400.0, 5000.0, 2.5, 26.0])
    x = rng.uniform(0.1, 100, (3, nu.size))
    for f in (log_kv, kv_ratio):
        separately = [[f(nu[j], x[i, j : j + 1])[0] for j in range(nu.size)] for i in range(3)]
        np.testing.assert_allclose(f(nu, x), separately, rtol=1e-14)


def test_order_one_half():
    x = np.array([0.01, 1.0, 50.0])
    np.testing.assert_allclose(log_kv(0.5, x), 0.5 * np.log(np.pi / (2 * x)) - x, rtol=1e-13)


def test_other_array_library():
    x = array_api_strict.asarray([[0.2, 3.0], [7.0, 100.0]])
    nu = np.array([1.5, 80.0])
    for f in (log_kv, kv_ratio):
        value = f(nu, x)
        assert isinstance(value, type(x))
        np.testing.assert_allclose(np.asarray(value), f(nu, np.asarray(x)), rtol=1e-15)


def test_negative_order():
    with pytest.raises(ValueError, match=r"`nu` must be non-negative, got -1"):
        log_kv(-1.0, np.array([1.0]))


def test_expansion_for_small_orders_and_large_arguments(rng):
    nu = np.arange(0.5, 25.0, 0.5)
    x = rng.uniform(26.0, 500.0, (30, nu.size))
    log_k, ratio = log_kv_and_ratio(nu, x)
    expected_log_k, expected_ratio = bessel._recurrence(nu, x)
    assert np.all(bessel._bands(nu, x, np) == 1)
    np.testing.assert_allclose(log_k, expected_log_k, rtol=1e-13)
    np.testing.assert_allclose(ratio, expected_ratio, rtol=1e-13)


@pytest.mark.parametrize("order", [0.0, 0.3, 0.8, 1.0])
@pytest.mark.parametrize("x", [1e-3, 7.0, 9e7, 1.1e8, 1e12])
def test_scaled_functions_of_small_order(order, x):
    """Arguments on both sides of the change to the asymptotic series."""
    with mpmath.workdps(40):
        expected = float(mpmath.exp(x + log_k_by_quadrature(order, x)))
    value = bessel.scaled_k(np.asarray(order), np.asarray(x))
    assert float(value) == pytest.approx(expected, rel=1e-13, abs=0)
