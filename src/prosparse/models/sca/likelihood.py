"""Non-Gaussian likelihoods: quadratic lower bounds of log p(x | eta).

eta = l'z + mu is the linear predictor of an entry. A quadratic bound k + b eta - w eta^2 / 2 has a
closed-form expectation under q(z) q(Lambda). The entry is then equivalent to a Gaussian entry b / w
with noise precision w, so that all Gaussian updates apply and the objective is non-decreasing.

"bernoulli"  p = 1 / (1 + exp(-eta)). The bound of [JJ00] is the tightest quadratic bound. It is
    exact at eta^2 = xi^2, and the optimal xi^2 is the expectation of eta^2.
"poisson"    Rate s log(1 + exp(eta) / s), which is exp(eta) far below the threshold s and linear in
    eta above, because exp(eta) has no quadratic bound. With s = 1 (MOFA), effects are additive for
    counts above 1. Here, s is three times the largest count of the column, so that effects are
    multiplicative. The bound of the rate follows from that of [JJ00]. The bound of x times the log
    rate has the largest curvature of this function [SB12] and is exact at the mean of eta.

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

# Linear threshold of a Poisson column, in units of its largest count plus one.
LINEAR_THRESHOLD_FACTOR = 3.0

# Upper bound of the second derivative of -log log(1 + exp(u)), 0.167096 near u = 0.495, [SB12].
MAX_CURVATURE = 0.1671

# Gauss-Hermite quadrature for expectations over the linear predictor.
_QUADRATURE_NODES, _QUADRATURE_WEIGHTS = np.polynomial.hermite_e.hermegauss(24)
_QUADRATURE_WEIGHTS = _QUADRATURE_WEIGHTS / _QUADRATURE_WEIGHTS.sum()


class Quadratic(NamedTuple):
    """Coefficients of k + b eta - w eta^2 / 2 for each entry."""

    w: np.ndarray
    b: np.ndarray
    k: np.ndarray


def softplus(u: np.ndarray) -> np.ndarray:
    """Return log(1 + exp(u))."""
    value: np.ndarray = np.logaddexp(0.0, u)
    return value


def _softplus_bound(second: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute w, k of -log(1 + exp(u)) >= k - u/2 - w u^2 / 2 for E u^2."""
    xi = np.sqrt(np.maximum(second, 1e-12))
    decay = np.exp(-xi)
    w = (1.0 - decay) / ((1.0 + decay) * (2.0 * xi))  # tanh(xi / 2) / (2 xi)
    return w, 0.5 * xi * (w * xi - 1.0) - np.log(1.0 + decay)


def bernoulli_bound(x: np.ndarray, mean: np.ndarray, variance: np.ndarray) -> Quadratic:
    """Compute the best bound of binary entries for moments of eta, [JJ00]."""
    w, k = _softplus_bound(mean * mean + variance)
    return Quadratic(w, x - 0.5, k)


def poisson_bound(
    x: np.ndarray, mean: np.ndarray, variance: np.ndarray, linear_threshold: np.ndarray
) -> Quadratic:
    """Compute the best bound of counts for given moments of eta."""
    x, mean = np.atleast_1d(x), np.atleast_1d(mean)
    shift = np.log(linear_threshold)
    u = mean - shift
    w, k = _softplus_bound(u * u + variance)
    w *= linear_threshold
    k *= linear_threshold
    b = np.broadcast_to(-0.5 * linear_threshold, w.shape).copy()
    # Most counts are zero. The log rate concerns the others only.
    x, u_of_all, shift_of_all = np.broadcast_arrays(x, u, shift)
    some = np.nonzero(x)
    count, u = x[some], u_of_all[some]
    rate = softplus(u)
    log_rate = np.where(u > -30.0, np.log(np.maximum(rate, 1e-300)), u)
    slope = np.where(u > -30.0, expit(u) / np.maximum(rate, 1e-300), 1.0)
    w[some] += MAX_CURVATURE * count
    b[some] += count * (slope + MAX_CURVATURE * u)
    constant = log_rate - slope * u - 0.5 * MAX_CURVATURE * u * u + shift_of_all[some]
    k[some] += count * constant - gammaln(count + 1.0)
    # Change of variable from u to eta = u + shift.
    return Quadratic(w, b + w * shift, k - shift * (b + 0.5 * w * shift))


def log_density(
    likelihood: Likelihood, x: np.ndarray, eta: np.ndarray, linear_threshold: np.ndarray
) -> np.ndarray:
    """Compute log p(x | eta) of binary entries or counts."""
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
    """Compute the mean of an entry given eta."""
    value: np.ndarray
    if likelihood == "bernoulli":
        value = expit(eta)
    elif likelihood == "poisson":
        value = linear_threshold * softplus(eta - np.log(linear_threshold))
    else:
        value = eta
    return value


def link(likelihood: Likelihood, mean: np.ndarray, linear_threshold: np.ndarray) -> np.ndarray:
    """Compute eta for a mean strictly inside its range."""
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
    """Compute mean and variance of an entry with Gaussian eta by quadrature."""
    root = np.sqrt(variance)
    first, second = np.zeros_like(eta), np.zeros_like(eta)
    for node, weight in zip(_QUADRATURE_NODES, _QUADRATURE_WEIGHTS, strict=True):
        value = inverse_link(likelihood, eta + node * root, linear_threshold)
        first += weight * value
        second += weight * value * value
    if likelihood == "bernoulli":
        return first, first * (1.0 - first)
    return first, first + np.maximum(second - first * first, 0.0)
