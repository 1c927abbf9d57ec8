"""What a fitted factor model says about new rows: x ~ N(mean, L L' + diag(1/tau)).

Every function takes rows as they come (dense, dense with NaN, or sparse) and uses the observed
entries of each row only; all of it is exact, by Woodbury in O(p Q^2) per pattern of gaps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Operator, kind_of, operator_of
from ...data.arrays import as_like
from .gaps import GappyTable, with_gaps

Array = np.ndarray


class Factors(NamedTuple):
    L: Array  # (p, Q)
    tau: Array  # (p,) noise precision of every column
    mean: Array  # (p,)


def has_gaps(X: Any) -> bool:
    """Whether an entry is missing; rows that are not in memory are taken to be complete."""
    return kind_of(X).has_gaps(X)


def latents(X: Any, model: Factors) -> Any:
    """Posterior means of the latents, [AB08] (17), for every row of ``X``."""
    if not has_gaps(X):
        return _complete_latents(X, model)[0]
    Z = np.empty((X.shape[0], model.L.shape[1]))
    table = _gappy(X, model.mean)
    for q in table.posteriors(model.L, None, model.tau, table.X):
        Z[q.rows] = q.Z
    return Z


def _complete_latents(X: Any, model: Factors) -> tuple[Any, Array]:
    """Posterior means, and the covariance that all rows share."""
    L, tau, mean = model
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = _complete(X, mean, np.ones_like(mean))
    filters = as_like(tau[:, None] * L @ S, X, op.dtype)
    return op.matmul(filters), S


def log_density(X: Any, model: Factors) -> Any:
    """log p of the observed entries of every row."""
    tau = model.tau
    if has_gaps(X):
        table = _gappy(X, model.mean)
        rows = table.seen @ np.log(tau / (2.0 * np.pi)) - table.X**2 @ tau
        for q in table.posteriors(model.L, None, tau, table.X):
            explained = np.sum(q.Y * q.Z, axis=1)  # <z>' S^-1 <z>
            rows[q.rows] += explained + np.repeat(q.log_det, table.in_pattern[q.patterns])
        return 0.5 * rows
    Z, S = _complete_latents(X, model)
    inverse, log_det = np.linalg.inv(S), float(np.linalg.slogdet(S)[1])
    explained = array_namespace(Z).sum((Z @ as_like(inverse, Z, Z.dtype)) * Z, axis=1)
    squares = _complete(X, model.mean, 1.0 / np.sqrt(tau)).row_squares()
    constant = float(np.sum(np.log(tau / (2.0 * np.pi)))) + log_det
    return 0.5 * (constant - squares + explained)


def expected(X: Any, model: Factors, columns: Array) -> Any:
    """Mean of some columns of every row, given the row's observed entries."""
    Z = latents(X, model)
    L, mean = (as_like(v, Z, Z.dtype) for v in (model.L[columns], model.mean[columns]))
    return mean + Z @ L.T


def variances(X: Any, model: Factors, columns: Array) -> Any:
    """Variances around `expected` of new observations: of the latents through the weights, plus
    noise."""
    L, noise = model.L[columns], 1.0 / model.tau[columns]
    if not has_gaps(X):
        Z, S = _complete_latents(X, model)
        spread = as_like(np.sum((L @ S) * L, axis=1) + noise, Z, Z.dtype)
        return array_namespace(spread).broadcast_to(spread, (Z.shape[0], noise.size))
    spread = np.empty((X.shape[0], noise.size))
    table = _gappy(X, model.mean)
    for q in table.posteriors(model.L, None, model.tau, table.X):
        of_pattern = np.sum((L @ q.S) * L, axis=2) + noise
        spread[q.rows] = np.repeat(of_pattern, table.in_pattern[q.patterns], axis=0)
    return spread


def _complete(X: Any, mean: Array, scale: Array) -> Operator:
    dtype = None if kind_of(X).on_host else X.dtype
    return operator_of(X, as_like(mean, X, dtype), as_like(scale, X, dtype))


def _gappy(X: Any, mean: Array) -> GappyTable:
    dense = with_gaps(X)
    return GappyTable(dense - mean, ~np.isnan(dense))
