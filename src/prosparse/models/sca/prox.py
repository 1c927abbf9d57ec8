"""One weight at a time: maximise  g l - e l^2 / 2 + log p(l)  over l, for many (e, g) at once.

By symmetry take g >= 0 and l >= 0. A stationary point solves e l + phi(l) = g, where
phi = -d log p / dl is positive. For shape <= 1 phi is convex and falling, so the left side is
convex: Newton's iteration from the right, l = g/e, falls to the largest root without ever
overshooting, or finds that there is none; then the objective rises all the way to zero. For
shape > 1 the prior is smooth at zero and the left side rises: Newton inside a bracket.
"""

from __future__ import annotations

import numpy as np

from .hyperbolic import HyperbolicPrior

# Just beside the Laplace prior the kink at zero is smooth on a scale that no computer resolves:
# a weight below this share of its least-squares value is zero.
NEGLIGIBLE = 1e-12


def largest_root(e: np.ndarray, g: np.ndarray, prior: HyperbolicPrior) -> np.ndarray:
    """The largest l > 0 with e l + phi(l) = g, zero where there is none; 1-d arrays, g >= 0."""
    if prior.shape == 1.0:
        soft_threshold: np.ndarray = np.maximum(g - prior.rate, 0.0) / e
        return soft_threshold
    if prior.b == 0 or prior.shape == 0.0:  # e l + k / l = h, a quadratic
        k = max(2.0 * prior.omega, 0.0) if prior.b == 0 else 1.0
        h = g - (0.0 if prior.b == 0 else prior.rate)
        discriminant = h * h - 4.0 * e * k
        exists = (h > 0) & (discriminant >= 0)
        return np.where(exists, (h + np.sqrt(np.maximum(discriminant, 0.0))) / (2.0 * e), 0.0)
    return _newton(e, g, prior)


def _newton(e: np.ndarray, g: np.ndarray, prior: HyperbolicPrior) -> np.ndarray:
    root = np.zeros_like(g)
    todo = np.flatnonzero(g > 0)
    if prior.shape > 1:  # the left side rises: is the root above what counts as zero?
        least = NEGLIGIBLE * g[todo] / e[todo]
        todo = todo[e[todo] * least + prior.slope(least) < g[todo]]
    w = g[todo] / e[todo]
    low, high = np.zeros_like(w), w.copy()
    for _ in range(100):
        slope = prior.slope(w)
        value = e[todo] * w + slope - g[todo]
        gradient = e[todo] + prior.curvature(w, slope)
        low, high = np.where(value > 0, low, w), np.where(value > 0, w, high)
        following = w - value / np.where(gradient > 0, gradient, 1.0)
        settled = (gradient > 0) & (np.abs(following - w) <= 1e-13 * w)
        outside = ~settled & ((following <= low) | (following > high) | (gradient <= 0))
        gone = np.zeros(w.shape, dtype=bool)
        if prior.shape < 1:  # from the right Newton needs no bracket, and may find nothing
            gone = (value > 0) & ~settled & ((gradient <= 0) | (following <= 0))
            outside &= value <= 0
        following = np.where(outside, 0.5 * (low + high), following)
        root[todo[settled]] = following[settled]
        left = ~(gone | settled)
        todo, w, low, high = todo[left], following[left], low[left], high[left]
        if todo.size == 0:
            return root
    root[todo] = w
    return root


def maximise_loading(
    e: np.ndarray, g: np.ndarray, current: np.ndarray, prior: HyperbolicPrior
) -> np.ndarray:
    """A weight that does not lower the objective: the largest stationary point, or exactly zero.

    Where the prior is infinite or steep at zero the objective has two maxima, one at zero. A
    weight stays on its side of the valley between them unless the other maximum is higher than
    where it stands; a weight at zero comes back only if that raises the objective.
    """
    size, sign = np.abs(g), np.sign(g)
    root = largest_root(e, size, prior)
    here = np.where(current * sign >= 0, np.abs(current), 0.0)  # the mirror image is no worse
    found = np.flatnonzero(root > 0)
    gain = _objective(e, size, root, found, prior) - _objective(e, size, here, found, prior)
    lower = gain < -1e-10 * (1.0 + size[found] * root[found])  # more than rounding
    root[found[lower & (prior.shape <= 1.0)]] = 0.0
    weight: np.ndarray = sign * root
    return weight


def _objective(
    e: np.ndarray, g: np.ndarray, w: np.ndarray, where: np.ndarray, prior: HyperbolicPrior
) -> np.ndarray:
    w = w[where]
    value: np.ndarray = g[where] * w - 0.5 * e[where] * w * w + prior.log_density(w)
    return value
