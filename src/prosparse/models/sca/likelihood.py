"""Views that are not Gaussian: quadratic lower bounds of log p(x | eta), tight where the model is.

eta = l'z + mu is the linear predictor of an entry. A quadratic bound k + b eta - w eta^2 / 2 has a
closed-form mean over q(z) q(Lambda), and is to the model an entry b / w with noise of precision w:
all updates stay those of Gaussian views, and one objective never falls.

"bernoulli"  0 or 1 with p = 1 / (1 + exp(-eta)). Bound of [JJ00]: the tightest quadratic one, which
    touches where eta^2 = xi^2; the best xi^2 is the mean of eta^2.
"poisson"    counts of rate s log(1 + exp(eta) / s), which is exp(eta) far below the linear_threshold s and a
    straight line above: exp(eta) itself has no quadratic bound. s = 1 is the soft plus of MOFA,
    with which effects add from counts of one on. Here the linear_threshold of a column is three times its
    largest count, so that effects multiply: with latents that act on the logarithms of counts
    residual_variance one, the deviance of missing entries is 1.182 with the linear_threshold at the mean, 1.150 at the
    largest count and 1.145 at three times that; residual_variance seven, 1.374, 1.179 and 1.134 (one draw of
    benchmarks/sca_counts.py each, on which the factor was chosen). A higher linear_threshold gains little, and
    its looser bound takes more passes. The rate is bounded as above, x times the logarithm of it by
    its largest curvature, [SB12], tight where eta has its mean.

[JJ00]  T. Jaakkola, M. Jordan. Bayesian parameter estimation via variational methods. Statistics
        and Computing 10, 2000.
[SB12]  M. Seeger, G. Bouchard. Fast variational Bayesian inference for non-conjugate matrix
        factorization models. AISTATS 2012.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

import numpy as np
from scipy.special import expit, gammaln

Likelihood = Literal["gaussian", "bernoulli", "poisson"]

# The linear_threshold of a column of counts, in units of its largest count plus one.
LINEAR_THRESHOLD_FACTOR = 3.0

# Above the largest second derivative of -log log(1 + exp(u)), 0.167096 near u = 0.495, [SB12].
MAX_CURVATURE = 0.1671

# Nodes and weights of Gauss and Hermite, for means over the linear predictor.
_QUADRATURE_NODES, _QUADRATURE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_QUADRATURE_WEIGHTS = _QUADRATURE_WEIGHTS / _QUADRATURE_WEIGHTS.sum()


class Quadratic(NamedTuple):
    """k + b eta - w eta^2 / 2, entry by entry."""

    w: np.ndarray
    b: np.ndarray
    k: np.ndarray


def softplus(u: np.ndarray) -> np.ndarray:
    """log(1 + exp(u))."""
    value: np.ndarray = np.logaddexp(0.0, u)
    return value


def _softplus_bound(second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(w, k) of -log(1 + exp(u)) >= k - u/2 - w u^2 / 2, the best for a mean square of u."""
    xi = np.sqrt(np.maximum(second, 1e-12))
    w = np.tanh(0.5 * xi) / (2.0 * xi)
    return w, 0.5 * w * xi * xi + 0.5 * xi - softplus(xi)


def bernoulli_bound(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Quadratic:
    """The bound of the entries 0 or 1, the best for these moments of eta, [JJ00]."""
    w, k = _softplus_bound(mean * mean + variance)
    return Quadratic(w, x - 0.5, k)


def poisson_bound(
    x: np.ndarray, mean: np.ndarray, variance: np.ndarray, linear_threshold: np.ndarray
) -> Quadratic:
    """The bound of counts, the best for these moments of eta."""
    shift = np.log(linear_threshold)
    u = mean - shift
    w, k = _softplus_bound(u * u + variance)
    rate = softplus(u)
    log_rate = np.where(u > -30.0, np.log(np.maximum(rate, 1e-300)), u)
    slope = np.where(u > -30.0, expit(u) / np.maximum(rate, 1e-300), 1.0)
    w = linear_threshold * w + MAX_CURVATURE * x
    b = x * (slope + MAX_CURVATURE * u) - 0.5 * linear_threshold
    k = linear_threshold * k + x * (log_rate - slope * u - 0.5 * MAX_CURVATURE * u * u)
    k += x * shift - gammaln(x + 1.0)
    # from u to eta = u + shift
    return Quadratic(w, b + w * shift, k - b * shift - 0.5 * w * shift * shift)


def log_density(
    likelihood: Likelihood, x: np.ndarray, eta: np.ndarray, linear_threshold: np.ndarray
) -> np.ndarray:
    """log p(x | eta) of counts, or of 0 and 1."""
    value: np.ndarray
    if likelihood == "bernoulli":
        value = x * eta - softplus(eta)
        return value
    rate = inverse_link("poisson", eta, linear_threshold)
    value = x * np.log(np.maximum(rate, 1e-300)) - rate - gammaln(x + 1.0)
    return value


def inverse_link(
    likelihood: Likelihood, eta: np.ndarray, linear_threshold: np.ndarray
) -> np.ndarray:
    """The mean of an entry, given eta."""
    value: np.ndarray
    if likelihood == "bernoulli":
        value = expit(eta)
    elif likelihood == "poisson":
        value = linear_threshold * softplus(eta - np.log(linear_threshold))
    else:
        value = eta
    return value


def link(likelihood: Likelihood, mean: np.ndarray, linear_threshold: np.ndarray) -> np.ndarray:
    """The eta of a mean strictly inside its range."""
    value: np.ndarray
    if likelihood == "bernoulli":
        value = np.log(mean) - np.log1p(-mean)
    elif likelihood == "poisson":
        ratio = mean / linear_threshold
        value = np.log(linear_threshold) + np.where(
            ratio > 30.0, ratio, np.log(np.expm1(np.minimum(ratio, 30.0)))
        )
    else:
        value = mean
    return value


def mean_and_variance(
    likelihood: Likelihood, eta: np.ndarray, variance: np.ndarray, linear_threshold: np.ndarray
) -> tuple[np.ndarray, np.ndarray]:
    """Mean and variance of an entry whose eta is normal; by quadrature."""
    root = np.sqrt(variance)
    first, second = np.zeros_like(eta), np.zeros_like(eta)
    for node, weight in zip(_QUADRATURE_NODES, _QUADRATURE_WEIGHTS, strict=True):
        value = inverse_link(likelihood, eta + node * root, linear_threshold)
        first += weight * value
        second += weight * value * value
    own = first * (1.0 - first) if likelihood == "bernoulli" else None
    if own is not None:  # of 0 and 1, whatever the mean comes from
        return first, own
    return first, first + np.maximum(second - first * first, 0.0)
