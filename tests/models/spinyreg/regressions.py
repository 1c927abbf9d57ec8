"""Simulated regressions and dense formulas for tests of the evidence and the search."""

from typing import NamedTuple

import numpy as np
from scipy.linalg import cholesky, toeplitz
from scipy.optimize import minimize_scalar
from scipy.stats import multivariate_normal

from prosparse.datasets import make_sparse_regression
from prosparse.models.spinyreg.linear import linear_model

SHAPES = [(30, 6), (12, 12), (10, 25), (60, 40)]


def problem(n, p, seed=0, q=3, **options):
    X, y, coef = make_sparse_regression(n, p, n_informative=q, random_state=seed, **options)
    X, y = X - X.mean(axis=0), y - y.mean()
    X = X / X.std(axis=0)
    return X, y, model_of(X, y, n - 1), coef


def model_of(X, y, dof=None):
    """Build the linear model of one response."""
    G, B = X.T @ X, (X.T @ y)[:, None]
    return linear_model(G, B, np.array([float(y @ y)]), len(y), dof)


def max_evidence(Z, y):
    """Maximise log N(y; 0, sigma2 (I + Z Z'/lambda)) over lambda, at the best sigma2."""

    def loss(log_ratio):
        K = np.eye(y.size) + Z @ Z.T / np.exp(log_ratio)
        sigma2 = y @ np.linalg.solve(K, y) / y.size
        return -multivariate_normal(np.zeros(y.size), sigma2 * K).logpdf(y)

    return -minimize_scalar(loss, bounds=(-10.0, 20.0), method="bounded").fun


def dense(X, y, v, alpha, gamma):
    """Compute log N(y; 0, I/gamma + X_v X_v'/alpha)."""
    n = y.size
    covariance = np.eye(n) / gamma + X[:, v] @ X[:, v].T / alpha
    return multivariate_normal(np.zeros(n), covariance).logpdf(y)


def precisions(fit):
    return np.exp(fit.log_ratio) / fit.sigma2[0], 1.0 / fit.sigma2[0]


class CorrelatedDesign(NamedTuple):
    """Simulated regression on correlated variables with its true coefficients."""

    X: np.ndarray
    y: np.ndarray
    coef: np.ndarray
    covariance: np.ndarray
    noise_variance: float

    def relative_error(self, coef):
        """Return the expected squared test error relative to that of the true coefficients."""
        difference = coef - self.coef
        return 1.0 + float(difference @ self.covariance @ difference) / self.noise_variance


def correlated_design(seed, n=50, p=1000, n_true=5, ratio=6.0, correlation=0.35, n_new=200):
    """Simulate coefficients of random signs at random positions and autoregressive columns.

    This is the design of experiment E22, which simulates ``n_new`` additional rows.
    """
    rng = np.random.default_rng([seed, n, p, round(1e6 * ratio), 1])
    covariance = toeplitz(correlation ** np.arange(p))
    coef = np.zeros(p)
    coef[rng.choice(p, n_true, replace=False)] = rng.choice([-1.0, 1.0], n_true)
    noise_variance = float(coef @ covariance @ coef) / ratio
    rows = rng.standard_normal((n + n_new, p)) @ cholesky(covariance)
    y = rows @ coef + np.sqrt(noise_variance) * rng.standard_normal(n + n_new)
    return CorrelatedDesign(rows[:n], y[:n], coef, covariance, noise_variance)
