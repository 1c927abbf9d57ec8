"""Inference for new rows of a factor model x ~ N(mean, L L' + diag(1/tau)).

Rows are dense, dense with NaN, or sparse. All results are exact given the observed entries, by the
Woodbury identity in O(p Q^2) per pattern of missing values.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Array, DenseOperator, Operator, container_of, operator_of
from ...data.arrays import as_like
from ...data.containers import Table
from ...data.missing_values import dense_with_missing
from .missing_e_step import IncompleteSamples
from .point_normal import PointNormal
from .scores import SparseScores


class Factors(NamedTuple):
    """Factor model in the units of the data."""

    L: np.ndarray  # (p, Q)
    tau: np.ndarray  # (p,) noise precisions
    mean: np.ndarray  # (p,)
    score_probability: np.ndarray | None = None  # (Q,) None if all scores are Gaussian
    loading_variance: np.ndarray | None = None  # (p, Q) if scores are not Gaussian

    def take(self, columns: np.ndarray) -> Factors:
        """Return the model of some columns."""
        variance = self.loading_variance
        return self._replace(
            L=self.L[columns],
            tau=self.tau[columns],
            mean=self.mean[columns],
            loading_variance=None if variance is None else variance[columns],
        )


def has_missing(X: Table) -> bool:
    """Return whether a value is missing; data outside memory count as complete."""
    return container_of(X).has_missing(X)


def posterior_means(X: Table, model: Factors) -> Array:
    """Return the posterior means of the factors (n, Q), [AB08] (17)."""
    if model.score_probability is not None:
        return _sparse_posterior(X, model).mean
    if not has_missing(X):
        return _complete_posterior(X, model)[0]
    Z = np.empty((X.shape[0], model.L.shape[1]))
    samples = _incomplete_samples(X, model.mean)
    for q in samples.posteriors(model.L, None, model.tau, np.zeros(samples.p)):
        Z[q.rows] = q.Z
    return Z


def row_log_densities(X: Table, model: Factors) -> Array:
    """Return the log density of the observed entries of each row."""
    tau = model.tau
    if has_missing(X):
        samples = _incomplete_samples(X, model.mean)
        Z, no_offsets = np.empty((samples.n, model.L.shape[1])), np.zeros(samples.p)
        rows = samples.seen @ np.log(tau / (2.0 * np.pi))
        for q in samples.posteriors(model.L, None, tau, no_offsets):
            Z[q.rows] = q.Z
            rows[q.rows] += np.repeat(q.log_det, samples.in_pattern[q.patterns])
        return 0.5 * (rows - samples.squared_distances(model.L, tau, no_offsets, Z))
    Z, S = _complete_posterior(X, model)
    inverse, log_det = np.linalg.inv(S), float(np.linalg.slogdet(S)[1])
    explained = array_namespace(Z).sum((Z @ as_like(inverse, Z, Z.dtype)) * Z, axis=1)
    squares = centred_operator(X, model.mean, 1.0 / np.sqrt(tau)).row_squares()
    constant = float(np.sum(np.log(tau / (2.0 * np.pi)))) + log_det
    return 0.5 * (constant - squares + explained)


def conditional_mean(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Return the means (n, m) of some columns given the observed entries."""
    Z = posterior_means(X, model)
    L, mean = (as_like(v, Z, Z.dtype) for v in (model.L[columns], model.mean[columns]))
    return mean + Z @ L.T


def conditional_variance(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Return the variances of new observations around `conditional_mean`."""
    spread = factor_contribution_variance(X, model, columns)
    return spread + as_like(1.0 / model.tau[columns], spread, spread.dtype)


def factor_contribution_variance(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Return the conditional variances (n, m) of the factor part of columns."""
    L = model.L[columns]
    if model.score_probability is not None:
        return _sparse_posterior(X, model).variance @ (L * L).T
    if not has_missing(X):
        Z, S = _complete_posterior(X, model)
        spread = as_like(np.sum((L @ S) * L, axis=1), Z, Z.dtype)
        return array_namespace(spread).broadcast_to(spread, (Z.shape[0], columns.size))
    variance = np.empty((X.shape[0], columns.size))
    samples = _incomplete_samples(X, model.mean)
    for q in samples.posteriors(model.L, None, model.tau, np.zeros(samples.p)):
        of_pattern = np.sum((L @ q.S) * L, axis=2)
        variance[q.rows] = np.repeat(of_pattern, samples.in_pattern[q.patterns], axis=0)
    return variance


def _sparse_posterior(X: Table, model: Factors) -> PointNormal:
    """Return the posterior of point-normal scores.

    The noise excludes the uncertainty of the loadings, which is a part of the update.
    """
    assert model.score_probability is not None
    assert model.loading_variance is not None
    tau = 1.0 / (1.0 / model.tau - model.loading_variance.sum(axis=1))
    seen = None
    if has_missing(X):
        dense = dense_with_missing(X) - model.mean
        seen = ~np.isnan(dense)
        op: Operator = DenseOperator(np.where(seen, dense, 0.0))
    else:
        op = centred_operator(X, model.mean, np.ones_like(model.mean))
    data = SparseScores(op, seen)
    return data.infer(model.L, model.loading_variance, tau, model.score_probability)


def _complete_posterior(X: Table, model: Factors) -> tuple[Array, np.ndarray]:
    """Return posterior means and the covariance common to all rows."""
    L, tau, mean = model.L, model.tau, model.mean
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = centred_operator(X, mean, np.ones_like(mean))
    filters = as_like(tau[:, None] * L @ S, X, op.dtype)
    return op.matmul(filters), S


def centred_operator(X: Table, mean: np.ndarray, scale: np.ndarray) -> Operator:
    """Return the operator of centred and scaled rows."""
    dtype = None if container_of(X).on_cpu else X.dtype
    return operator_of(X, as_like(mean, X, dtype), as_like(scale, X, dtype))


def _incomplete_samples(X: Table, mean: np.ndarray) -> IncompleteSamples:
    """Return centred rows with missing values."""
    dense = dense_with_missing(X)
    return IncompleteSamples(dense - mean, ~np.isnan(dense))
