"""What a fitted factor model says about new rows: x ~ N(mean, L L' + diag(1/tau)).

Every function takes rows as they come (dense, dense with NaN, or sparse) and uses the observed
entries of each row only; all of it is exact, by Woodbury in O(p Q^2) per pattern of gaps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.sparse import issparse

from ..operators import operator_of
from ..operators.views import GappyTable

Array = np.ndarray


class Factors(NamedTuple):
    L: Array  # (p, Q)
    tau: Array  # (p,) noise precision of every column
    mean: Array  # (p,)


class Latents(NamedTuple):
    Z: Array  # (n, Q) posterior means
    S: Array  # (r, Q, Q) posterior covariances, one per pattern of gaps
    pattern_of: Array  # (n,) which of them is the row's


def has_gaps(X: Any) -> bool:
    return bool(np.isnan(X.data if issparse(X) else X).any())


def posterior(X: Any, model: Factors) -> Latents:
    """q(z_n) of [AB08] (17) for every row of ``X``."""
    L, tau, mean = model
    if has_gaps(X):
        table = _gappy(X, mean)
        _, S, Z = table.latents(L, None, tau, np.zeros(L.shape[0]))
        return Latents(Z, S, table.pattern_of)
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = operator_of(X, mean, np.ones_like(mean))
    Z = np.asarray(op.matmul(tau[:, None] * L @ S))
    return Latents(Z, S[None], np.zeros(Z.shape[0], dtype=int))


def log_density(X: Any, model: Factors) -> Array:
    """log p of the observed entries of every row."""
    tau = model.tau
    Z, S, pattern_of = posterior(X, model)
    inverse = np.linalg.inv(S)
    explained = np.einsum("ni,nij,nj->n", Z, inverse[pattern_of], Z, optimize=True)
    log_det = np.linalg.slogdet(S)[1][pattern_of]
    if has_gaps(X):
        table = _gappy(X, model.mean)
        squares = table.X**2 @ tau
        noise = table.seen @ np.log(tau / (2.0 * np.pi))
    else:
        squares = np.asarray(operator_of(X, model.mean, 1.0 / np.sqrt(tau)).row_squares())
        noise = np.full(Z.shape[0], np.sum(np.log(tau / (2.0 * np.pi))))
    return 0.5 * (noise + log_det - squares + explained)


def predict(X: Any, model: Factors, columns: Array) -> tuple[Array, Array]:
    """Mean and variance of some columns of every row, given the row's observed entries.

    The variance is that of a new observation: of the latents through the weights, plus noise.
    """
    Z, S, pattern_of = posterior(X, model)
    L = model.L[columns]
    spread = np.einsum("pi,rij,pj->rp", L, S, L, optimize=True)
    return model.mean[columns] + Z @ L.T, spread[pattern_of] + 1.0 / model.tau[columns]


def _gappy(X: Any, mean: Array) -> GappyTable:
    dense = X.toarray() if issparse(X) else np.asarray(X, dtype=float)
    return GappyTable(dense - mean, ~np.isnan(dense))
