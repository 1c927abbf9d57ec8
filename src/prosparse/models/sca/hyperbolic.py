"""Generalised hyperbolic prior, [AB08] (5), (10) and appendix B.

A loading is Gaussian given its precision y. Given the loading, y has a generalised inverse Gaussian
distribution

    y ~ N^-(omega, chi, phi):  density proportional to y^(omega-1) exp(-(chi/y + phi y) / 2)

with mean sqrt(chi/phi) R_omega(sqrt(chi phi)), where R is a ratio of Bessel functions (30).
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import gammaln

from ...numerics.bessel import log_kv_and_ratio, scaled_k


def bessel_ratio(omega: float, z: np.ndarray) -> np.ndarray:
    """Compute R_omega(z) = K_{omega+1}(z) / K_omega(z), [AB08] (30)."""
    z = np.asarray(z, dtype=float)
    ratio: np.ndarray
    if -1.0 <= omega <= 0.0:  # K_{-nu} = K_nu: both orders lie in [0, 1]
        ratio = scaled_k(np.asarray(omega + 1.0), z) / scaled_k(np.asarray(-omega), z)
    elif 0.0 < omega <= 1.0:  # one step up
        below = scaled_k(np.asarray(1.0 - omega), z) / scaled_k(np.asarray(omega), z)
        ratio = below + 2 * omega / z
    else:
        flat = z.reshape(-1, 1)
        ratio = log_kv_and_ratio(max(-omega, omega + 1.0), flat)[1]
        ratio = ratio if omega < 0 else 1.0 / ratio
    return ratio.reshape(z.shape)


class HyperbolicPrior:
    """Density p(l) of [AB08] (10): a scale mixture of Gaussians.

    ``shape`` is a / DQ in [AB08], and ``rate`` is b. With ``shape = 1``, the prior is Laplace; with
    ``shape = rate = 0``, it is Normal-Jeffreys, 1/|l|. If ``shape`` or ``rate`` is zero, the prior
    is improper and has no normalising constant. If ``shape <= 1/2``, the density at zero is
    infinite, (11). Exact zeros are then evaluated at ``smallest``, so that the posterior density of
    sparse loadings is finite.
    """

    def __init__(self, shape: float, rate: float, smallest: float = 1e-12):
        self.shape, self.rate, self.smallest = float(shape), float(rate), float(smallest)
        self.omega = 0.5 - self.shape  # (18)
        self.l1 = math.sqrt(2.0 * self.rate)

    def slope(self, w: np.ndarray) -> np.ndarray:
        """Compute -d log p / dl = <gamma> l at l > 0, with <gamma> of (23)."""
        slope: np.ndarray
        if self.shape == 1.0:
            slope = np.full(np.shape(w), self.l1)
        elif self.rate == 0:
            slope = max(2.0 * self.omega, 0.0) / w
        elif self.shape == 0.0:
            slope = self.l1 + 1.0 / w
        else:
            slope = self.l1 * bessel_ratio(self.omega, self.l1 * w)
        return slope

    def curvature(self, w: np.ndarray, slope: np.ndarray) -> np.ndarray:
        """Compute -d^2 log p / dl^2 from R' = R^2 - 1 - (2 omega + 1) R / z."""
        curvature: np.ndarray
        if self.shape == 1.0:
            curvature = np.zeros(np.shape(w))
        elif self.rate == 0:
            curvature = -slope / w
        elif self.shape == 0.0:
            curvature = -1.0 / (w * w)
        else:
            curvature = slope * slope - 2.0 * self.rate - (2.0 * self.omega + 1.0) * slope / w
        return curvature

    def log_density(self, w: np.ndarray) -> np.ndarray:
        """Compute log p(l), (10) and (11)."""
        size = np.abs(np.asarray(w, dtype=float))
        if self.shape <= 0.5:
            size = np.maximum(size, self.smallest)
        value: np.ndarray
        if self.shape == 1.0:
            value = np.log(0.5 * self.l1) - self.l1 * size if self.rate > 0 else 0.0 * size
        elif self.rate == 0:
            power = max(2.0 * self.omega, 0.0)
            value = -power * np.log(size) if power else 0.0 * size
        elif self.shape == 0.0:
            value = -np.log(size) - self.l1 * size
        else:
            value = self._proper_log_density(size)
        return value

    def _proper_log_density(self, size: np.ndarray) -> np.ndarray:
        """Compute log p(l) of a proper prior from |l|."""
        positive = size > 0
        safe = np.where(positive, size, 1.0)
        z = self.l1 * safe
        if abs(self.omega) <= 1.0:
            log_k = np.log(scaled_k(np.asarray(abs(self.omega)), z)) - z
        else:
            log_k = log_kv_and_ratio(abs(self.omega), z.reshape(-1, 1))[0].reshape(z.shape)
        log_constant = 0.5 * np.log(2.0 / np.pi) + self.shape * np.log(self.rate)
        log_constant -= gammaln(self.shape)
        power = self.shape - 0.5
        value = log_constant + power * (np.log(safe) - 0.5 * np.log(2.0 * self.rate)) + log_k
        return np.where(positive, value, self._log_density_at_zero())

    def _log_density_at_zero(self) -> float:
        if self.shape <= 0.5:
            return math.inf
        log_ratio = gammaln(self.shape - 0.5) - gammaln(self.shape)
        return float(0.5 * np.log(self.rate / (2.0 * np.pi)) + log_ratio)  # (11)
