"""Hyperbolic prior against numerical integration."""

import mpmath
import numpy as np
import pytest
from scipy.integrate import quad

from prosparse.models.sca.hyperbolic import HyperbolicPrior, bessel_ratio

ORDERS = [-40.0, -3.3, -1.0, -0.7, -0.5, -0.2, 0.0, 0.3, 0.5, 1.0, 7.5, 60.0]
SHAPES = [1e-8, 1e-4, 0.02, 1.0, 30.0, 1e4]


def mean_precision(omega, chi, phi):
    """<y> by trapezoid sums over x = ln y of the density (29), 30 digits."""
    mpmath.mp.dps = 30
    z = mpmath.sqrt(mpmath.mpf(chi) * phi)
    mode = mpmath.asinh(omega / z)
    step = mpmath.mpf(1) / 12 / mpmath.sqrt(1 + mpmath.sqrt(z * z + omega * omega))

    def log_density(x):
        return omega * x - z * mpmath.cosh(x)

    top = max(log_density(mode), log_density(mode + 1), log_density(mode - 1))
    total = weighted = mpmath.mpf(0)
    for direction in (1, -1):
        k = 0 if direction == 1 else 1
        while True:
            x = mode + direction * k * step
            weight = mpmath.exp(log_density(x) - top)
            # The integrand of the mean decays more slowly than the density.
            if weight * mpmath.exp(abs(x - mode)) < mpmath.mpf(10) ** -20 and k > 50:
                break
            total += weight
            weighted += weight * mpmath.exp(x)
            k += 1
    return float(mpmath.sqrt(mpmath.mpf(chi) / phi) * weighted / total)


@pytest.mark.parametrize("omega", ORDERS)
@pytest.mark.parametrize("z", SHAPES)
def test_bessel_ratio(omega, z):
    mpmath.mp.dps = 40
    exact = float(mpmath.besselk(omega + 1, z) / mpmath.besselk(omega, z))
    assert bessel_ratio(omega, np.array(z)) == pytest.approx(exact, rel=1e-11)


@pytest.mark.parametrize("shape", [0.1, 0.5, 0.7, 1.0, 1.8, 6.0])
@pytest.mark.parametrize("rate", [1e-3, 1.0, 50.0])
def test_prior_is_a_scale_mixture_of_gaussians(shape, rate):
    """(10) is the integral (5) over the inverse Gamma distribution (9)."""
    prior = HyperbolicPrior(shape, rate)
    for loading in (1e-3, 0.2, 3.0):

        def mixed(u, loading=loading):
            gamma = np.exp(u)
            gaussian = 0.5 * np.log(gamma / (2 * np.pi)) - 0.5 * gamma * loading**2
            inverse_gamma = shape * np.log(rate) - (shape + 1) * u - rate / gamma
            return np.exp(gaussian + inverse_gamma + u - float(mpmath.loggamma(shape)))

        value = quad(mixed, -60, 60, limit=2000, points=[np.log(rate), 0, 5], epsabs=0)[0]
        assert prior.log_density(loading) == pytest.approx(np.log(value), abs=1e-6)
        assert prior.slope(np.array([loading]))[0] == pytest.approx(
            loading * mean_precision(prior.omega, 2 * rate, loading**2), rel=1e-10
        )


@pytest.mark.parametrize(
    ("shape", "rate"), [(0, 0), (0, 2.0), (0.3, 0), (0.3, 1.0), (1, 2), (3, 0.5)]
)
def test_slope_and_curvature_are_derivatives(shape, rate):
    prior = HyperbolicPrior(shape, rate)
    w = np.array([0.01, 0.3, 2.0, 9.0])
    h = 1e-5 * w
    slope = prior.slope(w)
    numeric = -(prior.log_density(w + h) - prior.log_density(w - h)) / (2 * h)
    np.testing.assert_allclose(slope, numeric, rtol=1e-6, atol=1e-7)
    numeric = (prior.slope(w + h) - prior.slope(w - h)) / (2 * h)
    np.testing.assert_allclose(prior.curvature(w, slope), numeric, rtol=1e-4, atol=1e-6)
    assert slope.shape == prior.curvature(w, slope).shape == w.shape


def test_laplace_and_normal_jeffreys_are_limits():
    """Closed forms and Bessel functions agree at the limits."""
    w = np.array([1e-4, 0.1, 2.0])
    laplace, near = HyperbolicPrior(1.0, 3.0), HyperbolicPrior(1.0 + 1e-9, 3.0)
    np.testing.assert_allclose(laplace.log_density(w), near.log_density(w), atol=1e-6)
    np.testing.assert_allclose(laplace.slope(w), np.sqrt(6.0))
    jeffreys, near = HyperbolicPrior(0.0, 0.0), HyperbolicPrior(1e-12, 1e-20)
    np.testing.assert_allclose(jeffreys.slope(w), near.slope(w), rtol=1e-6)
    np.testing.assert_allclose(jeffreys.slope(w), 1 / w)


def test_density_at_zero():
    assert HyperbolicPrior(0.8, 2.0).log_density(0.0) == pytest.approx(
        HyperbolicPrior(0.8, 2.0).log_density(1e-14), abs=1e-6
    )
    # The infinite density at zero is evaluated at the smallest loading.
    prior = HyperbolicPrior(0.3, 2.0, smallest=1e-6)
    assert prior.log_density(0.0) == prior.log_density(1e-6)
