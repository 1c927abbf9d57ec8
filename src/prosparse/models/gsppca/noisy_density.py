"""Density of the active variables with noise, [MBL16] Theorem 1.

Given g = |y|^2 ~ chi2_d, the active part of an observation is N(0, s I_q) with
s = sigma^2 + g / b^2. With tau = log g the logarithm of the integrand is

    l(tau) = -q/2 log(2 pi s) - r^2/(2 s) + d/2 tau - g/2 - d/2 log 2 - lgamma(d/2) .

For q >= d, l has exactly one maximum: its stationary points are the positive roots of a cubic whose
coefficients change sign once. The integral is computed by the trapezoid rule in x, with tau = mode
+ width sinh(x). The nodes resolve both narrow peaks (many variables) and long tails (few
components).
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ...data import Array
from ...data.arrays import Namespace, from_numpy

# Distance between nodes in x. Cardinalities below d + 2 require the smaller distance, because their
# integrand has a long plateau with steep ends.
FINE_SPACING, COARSE_SPACING = 0.03, 0.15


class NoisyDensity(NamedTuple):
    """Log density of the active variables of every row for every cardinality."""

    q: np.ndarray  # (m,) cardinalities, increasing
    d: int
    sigma2: float
    xp: Namespace

    def derivatives(self, r2: Array, log_b: Array) -> list[Array]:
        """Return the log density and its first two derivatives in log b."""
        n_fine = int(np.searchsorted(self.q, self.d + 2))
        parts = [
            self._integrate(self.q[part], r2[:, part], log_b[part], spacing)
            for part, spacing in (
                (slice(0, n_fine), FINE_SPACING),
                (slice(n_fine, None), COARSE_SPACING),
            )
            if self.q[part].size
        ]
        return [self.xp.concat(list(part), axis=1) for part in zip(*parts, strict=True)]

    def _integrate(
        self, cardinalities: np.ndarray, r2: Array, log_b: Array, spacing: float
    ) -> tuple[Array, Array, Array]:
        """Integrate over tau.

        The derivatives of log p are moments of the derivatives of the log integrand.
        """
        xp, d = self.xp, self.d
        q = from_numpy(cardinalities, r2, r2.dtype)
        alpha = xp.exp(-2.0 * log_b)
        mode, width = self._peak(r2, alpha, q)
        peak = self._log_integrand(r2, alpha, q, mode)[0]
        mass = first = second = xp.zeros_like(r2)
        for x in np.arange(-6.0, 4.5, spacing):
            tau = mode + float(np.sinh(x)) * width
            log_f, u, y = self._log_integrand(r2, alpha, q, tau)
            weight = float(np.cosh(x)) * xp.exp(log_f - peak)
            slope = (q - u) * y  # dl/dlog b, because ds/dlog b = -2 (s - sigma^2)
            mass = mass + weight
            first = first + weight * slope
            second = second + weight * (slope * slope - 2.0 * y * (u * y + (q - u) * (1.0 - y)))
        first, second = first / mass, second / mass
        constant = -0.5 * d * np.log(2.0) - gammaln(0.5 * d) + np.log(spacing)
        value = peak + xp.log(mass * width) + float(constant) - 0.5 * float(np.log(2.0 * np.pi)) * q
        return value, first, second - first * first

    def _log_integrand(self, r2: Array, alpha: Array, q: Array, tau: Array) -> tuple[Array, ...]:
        """Compute l(tau) up to a constant, u = r^2/s and y = 1 - sigma^2/s."""
        xp = self.xp
        g = xp.exp(xp.clip(tau, None, 700.0))
        f = alpha * g
        s = f + self.sigma2
        u = r2 / s
        return 0.5 * (self.d * tau - q * xp.log(s) - u - g), u, f / s

    def _peak(self, r2: Array, alpha: Array, q: Array) -> tuple[Array, Array]:
        """Find the maximum of l, and its width, by bracketed Newton iterations."""
        xp, d = self.xp, self.d
        # 2 l' = (r^2/s - q) y + d - g, with y = alpha g/s, is positive if g is less than
        # d / (1 + q alpha/sigma^2) and negative if g - d exceeds r^2 y/s.
        high = xp.log(d + xp.minimum(r2 / (4.0 * self.sigma2), xp.sqrt(r2 / alpha)))
        low = xp.log(d / (1.0 + q * alpha / self.sigma2)) + xp.zeros_like(r2)
        tau = xp.clip(xp.log(r2 / (alpha * q) + 1e-300), low, high)
        for _ in range(25):
            _, u, y = self._log_integrand(r2, alpha, q, tau)
            g = xp.exp(tau)
            slope = 0.5 * ((u - q) * y + d - g)
            curvature = 0.5 * ((u - q) * y * (1.0 - y) - u * y * y - g)
            low = xp.where(slope > 0, tau, low)
            high = xp.where(slope > 0, high, tau)
            newton = tau - slope / xp.where(curvature < 0, curvature, -1.0)
            in_bracket = (curvature < 0) & (newton > low) & (newton < high)
            new_tau = xp.where(in_bracket, newton, 0.5 * (low + high))
            converged = bool(xp.all(xp.abs(new_tau - tau) < 1e-6))
            tau = new_tau
            if converged:
                break
        width = 1.0 / xp.sqrt(xp.clip(-curvature, 1e-3, None))
        # Between r^2/alpha and d the integrand decreases like g^((d-q)/2). If q is close to d, this
        # is a long plateau that the curvature at the peak does not reveal.
        plateau = math.log(d) - xp.log(xp.maximum(r2, self.sigma2 * q) / (alpha * q))
        plateau_width = xp.minimum(plateau, 2.0 / (q - d + 1e-3))
        return tau, xp.maximum(width, 0.25 * plateau_width)
