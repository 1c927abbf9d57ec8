"""Regression problems and slow oracles, for the tests of their evidence and of the search."""

import numpy as np
from scipy.stats import multivariate_normal

from prosparse.datasets import make_sparse_regression
from prosparse.models.spinyreg import model as rg

SHAPES = [(30, 6), (12, 12), (10, 25), (60, 40)]


def problem(n, p, seed=0, q=3, **options):
    X, y, coef = make_sparse_regression(n, p, n_informative=q, random_state=seed, **options)
    X, y = X - X.mean(axis=0), y - y.mean()
    X = X / X.std(axis=0)
    return X, y, rg.moments(X.T @ X, X.T @ y, float(y @ y), n), coef


def dense(X, y, v, alpha, gamma):
    """log N(y; 0, I/gamma + X_v X_v'/alpha), [LM-slides]."""
    n = y.size
    covariance = np.eye(n) / gamma + X[:, v] @ X[:, v].T / alpha
    return multivariate_normal(np.zeros(n), covariance).logpdf(y)


def precisions(fit):
    return np.exp(fit.log_ratio) / fit.sigma2, 1.0 / fit.sigma2
