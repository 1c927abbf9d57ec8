"""What a fitted factor model says about new rows: x ~ N(mean, L L' + diag(1/tau)).

Every function takes rows as they come (dense, dense with NaN, or sparse) and uses the observed
entries of each row only; all of it is exact, by Woodbury in O(p Q^2) per pattern of gaps.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Array, Operator, container_of, operator_of
from ...data.arrays import as_like
from ...data.containers import Table
from .missing_data import dense_with_missing
from .missing_e_step import IncompleteSamples


class Factors(NamedTuple):
    """A factor model, in the units of its rows."""

    L: np.ndarray  # (p, Q)
    tau: np.ndarray  # (p,) noise precision of every column
    mean: np.ndarray  # (p,)


def has_missing(X: Table) -> bool:
    """Whether an entry is missing; rows that are not in memory are taken to be complete."""
    return container_of(X).has_missing(X)


def posterior_means(X: Table, model: Factors) -> Array:
    """Posterior means of the latents, [AB08] (17), for every row.

    Parameters
    ----------
    X : table (n, p)
    model : Factors

    Returns
    -------
    array (n, Q)
    """
    if not has_missing(X):
        return _complete_posterior(X, model)[0]
    Z = np.empty((X.shape[0], model.L.shape[1]))
    samples = _incomplete_samples(X, model.mean)
    for q in samples.posteriors(model.L, None, model.tau, np.zeros(samples.p)):
        Z[q.rows] = q.Z
    return Z


def row_log_densities(X: Table, model: Factors) -> Array:
    """log p of the observed entries of every row.

    Parameters
    ----------
    X : table (n, p)
    model : Factors

    Returns
    -------
    array (n,)
    """
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
    squares = _centred(X, model.mean, 1.0 / np.sqrt(tau)).row_squares()
    constant = float(np.sum(np.log(tau / (2.0 * np.pi)))) + log_det
    return 0.5 * (constant - squares + explained)


def conditional_mean(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Mean of some columns of every row, given the row's observed entries.

    Parameters
    ----------
    X : table (n, p)
    model : Factors
    columns : int array (m,)

    Returns
    -------
    array (n, m)
    """
    Z = posterior_means(X, model)
    L, mean = (as_like(v, Z, Z.dtype) for v in (model.L[columns], model.mean[columns]))
    return mean + Z @ L.T


def conditional_variance(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Variances residual_variance `conditional_mean` of new observations: of the latents through the
    weights, plus noise.

    Parameters
    ----------
    X : table (n, p)
    model : Factors
    columns : int array (m,)

    Returns
    -------
    array (n, m)
    """
    spread = factor_contribution_variance(X, model, columns)
    return spread + as_like(1.0 / model.tau[columns], spread, spread.dtype)


def factor_contribution_variance(X: Table, model: Factors, columns: np.ndarray) -> Array:
    """Variances of what the latents add to some columns of every row, given the row's observed
    entries.

    Parameters
    ----------
    X : table (n, p)
    model : Factors
    columns : int array (m,)

    Returns
    -------
    array (n, m)
    """
    L = model.L[columns]
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


def _complete_posterior(X: Table, model: Factors) -> tuple[Array, np.ndarray]:
    """Posterior means, and the covariance that all rows share."""
    L, tau, mean = model
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = _centred(X, mean, np.ones_like(mean))
    filters = as_like(tau[:, None] * L @ S, X, op.dtype)
    return op.matmul(filters), S


def _centred(X: Table, mean: np.ndarray, scale: np.ndarray) -> Operator:
    dtype = None if container_of(X).is_numpy else X.dtype
    return operator_of(X, as_like(mean, X, dtype), as_like(scale, X, dtype))


def _incomplete_samples(X: Table, mean: np.ndarray) -> IncompleteSamples:
    dense = dense_with_missing(X)
    return IncompleteSamples(dense - mean, ~np.isnan(dense))
