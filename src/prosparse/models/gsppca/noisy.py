"""The noisy evidence of [MBL16] Theorem 1 as a positive integral.

Given g = |y|^2 ~ chi2_d the active part of an observation is N(0, s I_q) with
s = sigma^2 + g / b^2. With tau = log g the logarithm of the integrand is

    l(tau) = -q/2 log(2 pi s) - r^2/(2 s) + d/2 tau - g/2 - d/2 log 2 - lgamma(d/2) .

For q >= d it has exactly one maximum: its stationary points are the positive roots of a cubic
whose coefficients change sign once. The trapezoid rule in x, tau = mode + width sinh(x), then
resolves narrow peaks (many variables) and long tails (few components) with the same nodes.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from scipy.special import gammaln

from ...data import Array
from ...data.arrays import Namespace, from_numpy

# Distance between nodes in x: fine for the one or two cardinalities next to d, whose integrand
# has a long flat top with sharp ends; five times wider for all others.
_FINE, _COARSE = 0.03, 0.15


class NoisyTerms(NamedTuple):
    """The log density of every row under every cardinality, and its slopes in log b."""

    q: np.ndarray  # (m,) cardinalities, rising
    d: int
    sigma2: float
    xp: Namespace

    def derivatives(self, r2: Array, log_b: Array) -> list[Array]:
        """log p and its first two derivatives in log b, for all cardinalities."""
        near = int(np.searchsorted(self.q, self.d + 2))  # q is increasing
        parts = [
            self._integrate(self.q[some], r2[:, some], log_b[some], spacing)
            for some, spacing in ((slice(0, near), _FINE), (slice(near, None), _COARSE))
            if self.q[some].size
        ]
        return [self.xp.concat(list(part), axis=1) for part in zip(*parts, strict=True)]

    def _integrate(
        self, cardinalities: np.ndarray, r2: Array, log_b: Array, spacing: float
    ) -> tuple[Array, Array, Array]:
        """The integral; the derivatives of log p are moments of those of the integrand."""
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
            slope = (q - u) * y  # d l / d log b, for ds / d log b = -2 (s - sigma^2)
            mass = mass + weight
            first = first + weight * slope
            second = second + weight * (slope * slope - 2.0 * y * (u * y + (q - u) * (1.0 - y)))
        first, second = first / mass, second / mass
        constant = -0.5 * d * np.log(2.0) - gammaln(0.5 * d) + np.log(spacing)
        value = peak + xp.log(mass * width) + float(constant) - 0.5 * float(np.log(2.0 * np.pi)) * q
        return value, first, second - first * first

    def _log_integrand(self, r2: Array, alpha: Array, q: Array, tau: Array) -> tuple[Array, ...]:
        """l(tau) up to a constant, u = r^2/s and y = 1 - sigma^2/s."""
        xp = self.xp
        g = xp.exp(xp.clip(tau, None, 700.0))
        f = alpha * g
        s = f + self.sigma2
        u = r2 / s
        return 0.5 * (self.d * tau - q * xp.log(s) - u - g), u, f / s

    def _peak(self, r2: Array, alpha: Array, q: Array) -> tuple[Array, Array]:
        """The maximum of l and its width, by Newton steps kept inside a bracket."""
        xp, d = self.xp, self.d
        # 2 l' = (r^2/s - q) y + d - g, with y = alpha g/s: positive for g below
        # d / (1 + q alpha/sigma^2), negative where g - d exceeds r^2 y/s.
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
            good = (curvature < 0) & (newton > low) & (newton < high)
            moved = xp.where(good, newton, 0.5 * (low + high))
            done = bool(xp.all(xp.abs(moved - tau) < 1e-6))
            tau = moved
            if done:
                break
        width = 1.0 / xp.sqrt(xp.clip(-curvature, 1e-3, None))
        # Between r^2/alpha and d the integrand falls only like g^((d-q)/2): a long shelf when
        # q is d or little more, which the curvature at the peak knows nothing of.
        shelf = math.log(d) - xp.log(xp.maximum(r2, self.sigma2 * q) / (alpha * q))
        reach = xp.minimum(shelf, 2.0 / (q - d + 1e-3))
        return tau, xp.maximum(width, 0.25 * reach)
