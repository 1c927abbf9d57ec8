"""What a fitted factor model says about new rows: x ~ N(mean, L L' + diag(1/tau)).

Every function takes rows as they come (dense, dense with NaN, or sparse) and uses the observed
entries of each row only; all of it is exact, by Woodbury in O(p Q^2) per pattern of gaps.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.sparse import issparse

from ..arrays import as_like, is_foreign
from ..errors import InputError
from ..operators import Operator, operator_of, source_of
from ..operators.views import GappyTable

Array = np.ndarray

NO_GAPS_ELSEWHERE = (
    "X has missing entries (NaN), which only NumPy tables may have here: rows are grouped by what "
    "they miss on the host. Pass a NumPy array, or fill the entries in."
)


class Factors(NamedTuple):
    L: Array  # (p, Q)
    tau: Array  # (p,) noise precision of every column
    mean: Array  # (p,)


class Latents(NamedTuple):
    Z: Array  # (n, Q) posterior means
    S: Array  # (r, Q, Q) posterior covariances, one per pattern of gaps
    pattern_of: Array | None  # (n,) which of them is the row's; None: the only one


def has_gaps(X: Any) -> bool:
    """Whether an entry is missing; rows that are not in memory are taken to be complete."""
    if source_of(X) is not None:
        return False
    values = X.data if issparse(X) else X
    xp = array_namespace(values)
    return bool(xp.any(xp.isnan(values)))


def posterior(X: Any, model: Factors) -> Latents:
    """q(z_n) of [AB08] (17) for every row of ``X``."""
    L, tau, mean = model
    if has_gaps(X):
        table = _gappy(X, mean)
        _, S, Z = table.latents(L, None, tau, np.zeros(L.shape[0]))
        return Latents(Z, S, table.pattern_of)
    S = np.linalg.inv(np.eye(L.shape[1]) + (tau[:, None] * L).T @ L)
    op = _complete(X, mean, np.ones_like(mean))
    filters = as_like(tau[:, None] * L @ S, X, op.dtype)
    return Latents(op.matmul(filters), S[None], None)


def log_density(X: Any, model: Factors) -> Any:
    """log p of the observed entries of every row."""
    tau = model.tau
    Z, S, pattern_of = posterior(X, model)
    inverse, log_det = np.linalg.inv(S), np.linalg.slogdet(S)[1]
    if pattern_of is not None:
        explained = np.einsum("ni,nij,nj->n", Z, inverse[pattern_of], Z, optimize=True)
        table = _gappy(X, model.mean)
        noise = table.seen @ np.log(tau / (2.0 * np.pi))
        return 0.5 * (noise + log_det[pattern_of] - table.X**2 @ tau + explained)
    explained = array_namespace(Z).sum((Z @ as_like(inverse[0], Z, Z.dtype)) * Z, axis=1)
    squares = _complete(X, model.mean, 1.0 / np.sqrt(tau)).row_squares()
    constant = float(np.sum(np.log(tau / (2.0 * np.pi))) + log_det[0])
    return 0.5 * (constant - squares + explained)


def predict(X: Any, model: Factors, columns: Array) -> tuple[Array, Array]:
    """Mean and variance of some columns of every row, given the row's observed entries.

    The variance is that of a new observation: of the latents through the weights, plus noise.
    """
    Z, S, pattern_of = posterior(X, model)
    L = model.L[columns]
    spread = np.einsum("pi,rij,pj->rp", L, S, L, optimize=True) + 1.0 / model.tau[columns]
    L, mean, spread = (as_like(v, Z, Z.dtype) for v in (L, model.mean[columns], spread))
    if pattern_of is None:
        shape = (Z.shape[0], spread.shape[1])
        return mean + Z @ L.T, array_namespace(spread).broadcast_to(spread, shape)
    return mean + Z @ L.T, spread[pattern_of]


def _complete(X: Any, mean: Array, scale: Array) -> Operator:
    dtype = X.dtype if is_foreign(X) else None
    return operator_of(X, as_like(mean, X, dtype), as_like(scale, X, dtype))


def _gappy(X: Any, mean: Array) -> GappyTable:
    if is_foreign(X):
        raise InputError(NO_GAPS_ELSEWHERE)
    dense = X.toarray() if issparse(X) else np.asarray(X, dtype=float)
    return GappyTable(dense - mean, ~np.isnan(dense))
