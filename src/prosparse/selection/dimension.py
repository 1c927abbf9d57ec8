"""Number of components from the eigenvalues of X'X, X centred (n x p).

Eigenvalues are in decreasing order, and zeros may be omitted. Both rules assume equal noise
variance in all variables and overestimate the number of components if the noise is correlated.

[KN08]   S. Kritchman, B. Nadler. Determining the number of components in a factor model from
         limited noisy data. Chemometrics and Intelligent Laboratory Systems 94, 2008.
[NTS15]  S. Nakajima, R. Tomioka, M. Sugiyama, S. D. Babacan. Condition for perfect dimensionality
         recovery by variational Bayesian PCA. JMLR 16, 2015.
[TB99]   M. Tipping, C. Bishop. Probabilistic principal component analysis. JRSS B 61, 1999.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from scipy.optimize import brentq, minimize_scalar

from ..data import DenseOperator
from ..data.arrays import to_numpy
from ..errors import ManyComponentsWarning, ParameterError, check_integer, warn
from ..numerics.spectrum import spectrum
from .noise import bias_corrected

_TRACY_WIDOM_999 = 3.2724  # 99.9 % quantile of the Tracy-Widom distribution (real case)
_RANK_TOLERANCE = 1e-13  # relative size below which Gram eigenvalues are rounding errors
MAX_COUNTED = 100  # maximum number of components for "auto"
_MAX_IMPUTATIONS = 20  # maximum number of iterations, each with one eigendecomposition


def count_signals(eigenvalues: np.ndarray, n: int, p: int, noise: float | None = None) -> int:
    """Count the eigenvalues of X'X that exceed those of white noise, [KN08].

    Each eigenvalue in turn is compared with the distribution of the largest eigenvalue of noise of
    the remaining dimension, at level 0.1 %. The count ends at the first eigenvalue that is not
    significant. If columns differ in scale, the count is too large.

    Parameters
    ----------
    eigenvalues : ndarray
        Eigenvalues of X'X in decreasing order.
    n : int
        Number of rows.
    p : int
        Number of columns.
    noise : float or None
        Noise variance; by default estimated from the remaining eigenvalues with bias correction.

    Returns
    -------
    int
    """
    m = n - 1  # degrees of freedom after centring
    if eigenvalues.size == 0 or not eigenvalues[0] > 0:
        return 0
    # Eigenvalues are divided by the largest, so that no square overflows or underflows.
    values = eigenvalues / eigenvalues[0] / m
    noise = None if noise is None else noise / float(eigenvalues[0])
    rounding = max(n, p) * np.finfo(float).eps * values[0]
    max_count = min(min(m, p) - 1, int(np.sum(values > rounding)))
    for k in range(max_count):
        sigma2 = bias_corrected(values, m, p, k) if noise is None else noise
        roots = np.sqrt(m - 0.5), np.sqrt(max(p - k - 0.5, 0.5))
        centre = sum(roots) ** 2
        scale = sum(roots) * (1.0 / roots[0] + 1.0 / roots[1]) ** (1.0 / 3.0)
        if values[k] * m <= sigma2 * (centre + _TRACY_WIDOM_999 * scale):
            return k
    return max_count


def impute_by_pca(X: np.ndarray, observed: np.ndarray, count: int | None = None) -> np.ndarray:
    """Impute missing entries by the leading principal components.

    If missing entries are set to the mean, the noise is not white and `count_signals` returns too
    many components: 41 instead of 20 for a 2,000 x 300 matrix with 5 % missing values. Entries are
    therefore predicted iteratively from the components, which are shrunk as in probabilistic PCA
    [TB99].

    ``X`` is centred at the observed means, with zeros for missing entries. ``count`` is the number
    of components, by default `count_signals`.
    """
    if observed.all():
        return X
    n, p = X.shape
    tolerance = 1e-2 * math.sqrt(float(np.mean(X[observed] ** 2)))
    for _ in range(_MAX_IMPUTATIONS):
        mean = X.mean(axis=0)
        Z = X - mean
        found = spectrum(DenseOperator(Z), count)
        eigenvalues = found.eigenvalues
        k = count_signals(eigenvalues, n, p) if count is None else min(count, n - 1, p - 1)
        noise = float(eigenvalues[k:].sum()) / (p - k)
        V = found.directions(k)
        positive = np.where(eigenvalues[:k] > 0, eigenvalues[:k], np.inf)
        shrinkage = np.clip(1.0 - noise / positive, 0.0, None)
        imputed = np.where(observed, X, mean + ((Z @ V) * shrinkage) @ V.T)
        change = float(np.sqrt(np.mean((imputed - X)[~observed] ** 2)))
        X = imputed
        if change <= tolerance:
            break
    return X


def variational_count(eigenvalues: np.ndarray, n: int, p: int) -> int:
    """Count the components of variational PCA with ARD priors.

    The variational bound has a maximum in closed form [NTS15]: a component remains if its
    eigenvalue exceeds a multiple of the noise variance. The noise variance is found by
    one-dimensional maximisation. With few rows, the count is too small.

    Parameters
    ----------
    eigenvalues : ndarray
        Eigenvalues of X'X in decreasing order.
    n : int
        Number of rows.
    p : int
        Number of columns.

    Returns
    -------
    int
    """
    short, long = sorted((n - 1, p))
    alpha = short / long
    if eigenvalues.size == 0 or not eigenvalues[0] > 0:
        return 0
    values = eigenvalues / eigenvalues[0]
    values = values[values > _RANK_TOLERANCE][:short]
    if values.size < 2:
        return values.size
    squares = values / long
    threshold = _variational_threshold(alpha)

    def free_energy(log_noise: np.ndarray) -> np.ndarray:  # [NTS15] (23), up to constants
        x = squares / np.exp(log_noise)[..., None]
        remains = x > threshold
        half = 0.5 * (np.where(remains, x, threshold) - 1.0 - alpha)
        tau = half + np.sqrt(half**2 - alpha)
        gain = np.log1p(tau) + alpha * np.log1p(tau / alpha) - tau
        energy: np.ndarray = np.sum(x + np.where(remains, gain, 0.0), axis=-1) + short * log_noise
        return energy

    tails = np.cumsum(squares[::-1])[::-1] / np.arange(short, short - squares.size, -1)
    tails = np.log(tails[tails > np.finfo(float).eps * tails[0]])
    grid = np.linspace(tails[-1], tails[0], 200)
    best = int(np.argmin(free_energy(grid)))
    bounds = grid[max(best - 1, 0)], grid[min(best + 1, grid.size - 1)]
    log_noise = minimize_scalar(free_energy, bounds=bounds, method="bounded").x
    return int(np.sum(squares > threshold * math.exp(log_noise)))


def _variational_threshold(alpha: float) -> float:
    """Compute (1 + t)(1 + alpha / t) at the root t of [NTS15], Theorem 1."""

    def phi(z: float) -> float:
        return math.log1p(z) / z - 0.5

    root = brentq(lambda t: phi(t) + phi(t / alpha), 1e-3 * math.sqrt(alpha), 100.0)
    return float((1.0 + root) * (1.0 + alpha / root))


def estimate_n_components(
    eigenvalues: np.ndarray, n: int, p: int, noise: float | None = None
) -> int:
    """Limit the result of `count_signals` to 1, ..., `MAX_COUNTED`.

    For counts, duplicated columns and columns in different units, the noise is not white, and
    nearly all components exceed white noise.
    """
    count = count_signals(eigenvalues, n, p, noise)
    if count > MAX_COUNTED:
        warn(
            f'`n_components="auto"` found more than {MAX_COUNTED} components and uses the first '
            f"{MAX_COUNTED}. The noise is probably not white, as with counts or columns in "
            "different units. Set `n_components` to a number.",
            ManyComponentsWarning,
        )
    return max(1, min(count, MAX_COUNTED))


def resolve_dimension(
    n_components: int | str, parts: Any, max_count: int | None = None, noise: float | None = None
) -> int:
    """Validate ``n_components``, or estimate it if "auto"."""
    n, p = parts.n, parts.op.shape[1]
    limit = min(n, p) - 1
    if isinstance(n_components, str) and n_components == "auto":
        count = estimate_n_components(to_numpy(parts.eigenvalues), n, p, noise)
        return min(count, limit, max_count or limit)
    check_integer("n_components", n_components, 1, ' or "auto"')
    if int(n_components) > limit:
        raise ParameterError(
            f"`n_components` must be less than min(n_samples, n_features) = {limit + 1}, without "
            f"constant columns, got {n_components}."
        )
    return int(n_components)
