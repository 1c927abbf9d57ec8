"""Maximisation of g l - e l^2 / 2 + log p(l) over loadings l.

By symmetry, let g >= 0 and l >= 0. A stationary point solves e l + phi(l) = g with phi = -d log p /
dl > 0. For shape <= 1, phi is convex and decreasing, so that the left side is convex. Newton's
method from the right, l = g/e, then decreases monotonically to the largest root, or detects that
there is no root and the maximum is at zero. For shape > 1, the prior is smooth at zero and the left
side is increasing; Newton's method is then bracketed.
"""

from __future__ import annotations

import numpy as np

from .hyperbolic import HyperbolicPrior

# Loadings below this multiple of the least-squares estimate are set to zero. For shapes slightly
# above 1, the prior is smooth at zero only on a scale below the machine precision.
NEGLIGIBLE = 1e-12


def largest_root(e: np.ndarray, g: np.ndarray, prior: HyperbolicPrior) -> np.ndarray:
    """Compute the largest l > 0 with e l + phi(l) = g >= 0, otherwise zero."""
    if prior.shape == 1.0:
        soft_threshold: np.ndarray = np.maximum(g - prior.l1, 0.0) / e
        return soft_threshold
    if prior.rate == 0 or prior.shape == 0.0:  # e l + k / l = h, a quadratic
        k = max(2.0 * prior.omega, 0.0) if prior.rate == 0 else 1.0
        h = g - (0.0 if prior.rate == 0 else prior.l1)
        discriminant = h * h - 4.0 * e * k
        exists = (h > 0) & (discriminant >= 0)
        return np.where(exists, (h + np.sqrt(np.maximum(discriminant, 0.0))) / (2.0 * e), 0.0)
    return _newton(e, g, prior)


def _newton(e: np.ndarray, g: np.ndarray, prior: HyperbolicPrior) -> np.ndarray:
    """Solve e l + phi(l) = g by a safeguarded Newton method."""
    root = np.zeros_like(g)
    active = np.flatnonzero(g > 0)
    if prior.shape > 1:  # the left side is increasing; only roots above the threshold are retained
        least = NEGLIGIBLE * g[active] / e[active]
        active = active[e[active] * least + prior.slope(least) < g[active]]
    w = g[active] / e[active]
    low, high = np.zeros_like(w), w.copy()
    for _ in range(100):
        slope = prior.slope(w)
        value = e[active] * w + slope - g[active]
        gradient = e[active] + prior.curvature(w, slope)
        low, high = np.where(value > 0, low, w), np.where(value > 0, w, high)
        following = w - value / np.where(gradient > 0, gradient, 1.0)
        converged = (gradient > 0) & (np.abs(following - w) <= 1e-13 * w)
        outside = ~converged & ((following <= low) | (following > high) | (gradient <= 0))
        no_root = np.zeros(w.shape, dtype=bool)
        if prior.shape < 1:  # Newton's method from the right needs no bracket; a root may not exist
            no_root = (value > 0) & ~converged & ((gradient <= 0) | (following <= 0))
            outside &= value <= 0
        following = np.where(outside, 0.5 * (low + high), following)
        root[active[converged]] = following[converged]
        left = ~(no_root | converged)
        active, w, low, high = active[left], following[left], low[left], high[left]
        if active.size == 0:
            return root
    root[active] = w
    return root


def maximise_loading(
    e: np.ndarray, g: np.ndarray, current: np.ndarray, prior: HyperbolicPrior
) -> np.ndarray:
    """Maximise over each loading without decreasing the objective.

    The result is the largest stationary point or exactly zero. If the prior is infinite or steep at
    zero, the objective has two local maxima, one of which is at zero. A loading moves from one to
    the other only if the objective increases.
    """
    size, sign = np.abs(g), np.sign(g)
    root = largest_root(e, size, prior)
    # Reversing a loading of the wrong sign does not decrease the objective.
    start = np.where(current * sign >= 0, np.abs(current), 0.0)
    found = np.flatnonzero(root > 0)
    gain = _objective(e, size, root, found, prior) - _objective(e, size, start, found, prior)
    lower = gain < -1e-10 * (1.0 + size[found] * root[found])  # beyond rounding error
    root[found[lower & (prior.shape <= 1.0)]] = 0.0
    loading: np.ndarray = sign * root
    return loading


def _objective(
    e: np.ndarray, g: np.ndarray, w: np.ndarray, where: np.ndarray, prior: HyperbolicPrior
) -> np.ndarray:
    """Compute the objective at the positions ``where``."""
    w = w[where]
    value: np.ndarray = g[where] * w - 0.5 * e[where] * w * w + prior.log_density(w)
    return value
