"""Joint update of all prior variances of a variable, for many factors.

A sweep over the loadings of a row requires Q rank-one updates of a Q x Q covariance, each limited
by memory access. The joint update sets each prior variance to its optimum given the current others
and requires two factorisations. It is nearly as good as a sweep, because the scores of different
factors are nearly uncorrelated. If the evidence of a row decreases, the row is swept instead.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dpotrf, dtrtri

from ...data import Array


class RowPosteriors(NamedTuple):
    """Posterior of rows of the loading matrix, each restricted to k factors."""

    L: np.ndarray  # (r, k) means
    V: np.ndarray  # (r, k, k) with covariances V V'
    t: np.ndarray  # (r, k) prior variances, zero for excluded loadings
    log_det: np.ndarray  # (r,) log det(I + tau t^1/2 A t^1/2)


def gain(ratio: Array) -> Array:
    """Compute the gain in log evidence of a loading with r = q^2 / s."""
    return 0.5 * (ratio - 1.0 - array_namespace(ratio).log(ratio))


def posterior(t: np.ndarray, tau: np.ndarray, A: np.ndarray, G: np.ndarray) -> RowPosteriors:
    """Compute the posterior (26) from the Cholesky factors of B.

    B = I + tau t^1/2 A t^1/2 for prior variances t (r, k), noise precisions tau (r,), sums A (1 or
    r, k, k) of <z z'> and sums G (r, k) of (x - mu) <z>.
    """
    r, k = t.shape
    root = np.sqrt(t)
    V = A * (tau[:, None] * root)[:, :, None]
    V *= root[:, None, :]
    V.reshape(r, -1)[:, :: k + 1] += 1.0
    for B in V:
        # B is symmetric, and its transpose has the memory order of LAPACK, which avoids a copy.
        factor, failed = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("precision matrix of the loadings is not finite")
        B[:] = dtrtri(factor, lower=1, overwrite_c=1)[0].T
    log_det = -2.0 * np.sum(np.log(V.reshape(r, -1)[:, :: k + 1]), axis=1)
    V *= root[:, :, None]
    L = tau[:, None] * np.squeeze(V @ (G[:, None, :] @ V).transpose(0, 2, 1), 2)
    return RowPosteriors(L, V, t, log_det)


def row_evidence(
    rows: RowPosteriors, tau: np.ndarray, G: np.ndarray, cost: np.ndarray
) -> np.ndarray:
    """Compute the log evidence of each row minus the cost of loadings, (r,)."""
    fit = 0.5 * (tau * np.sum(G * rows.L, axis=1) - rows.log_det)
    value: np.ndarray = fit - np.sum(np.where(rows.t > 0, cost, 0.0), axis=1)
    return value


def optimal_included_variances(rows: RowPosteriors, cost: np.ndarray) -> np.ndarray:
    """Compute the optimal prior variance of each included loading, (r, k).

    Each is optimal given the others, and zero if the gain of the loading is below its cost. For a
    loading l with posterior variance c, q and s of `loadings.update_ard_rows` are l / c and 1 / c -
    1 / t.
    """
    t = np.where(rows.t > 0, rows.t, 1.0)
    shrinkage = np.where(rows.t > 0, np.sum(rows.V * rows.V, axis=2) / t, 1.0)  # c / t
    s, q = (1.0 - shrinkage) / (t * shrinkage), rows.L / (t * shrinkage)
    return optimal_variance(q, s, cost, rows.t > 0)


def optimal_variance(
    q: np.ndarray, s: np.ndarray, cost: np.ndarray, among: np.ndarray
) -> np.ndarray:
    """Compute the optimum (q^2 - s) / s^2, or 0 if the gain is below the cost."""
    safe_s = np.where(s > 0, s, 1.0)
    ratio = np.where(among & (s > 0) & (q * q > s), q * q / safe_s, 1.0)
    return np.where(gain(ratio) > cost, (q * q - s) / (safe_s * safe_s), 0.0)


def optimal_excluded_variances(
    rows: RowPosteriors,
    positions: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
    min_residual_squares: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Find loadings to include; return rows, factors and variances.

    ``rows`` contains the posteriors of the included loadings for the factors ``positions`` (r, k).
    ``min_residual_squares`` (1 or r, Q) is a lower bound of A_jj after regression on the other
    factors, so that the exact s is required for only a few loadings.
    """
    index = np.arange(positions.shape[0])[:, None], positions
    L, inside = np.zeros(G.shape), np.zeros(G.shape, dtype=bool)
    L[index], inside[index] = rows.L, rows.t > 0
    along = L @ A[0] if A.shape[0] == 1 else np.einsum("ij,ijk->ik", L, A)
    q, s = tau[:, None] * (G - along), tau[:, None] * min_residual_squares
    ratio = np.where(s > 0, q * q / np.where(s > 0, s, 1.0), np.inf)
    candidate = allowed & ~inside & (q != 0) & (gain(np.maximum(ratio, 1.0)) > cost)
    i, j = np.nonzero(candidate)
    of_row = np.zeros_like(i) if A.shape[0] == 1 else i
    projected = A[of_row[:, None], positions[i], j[:, None]][:, None, :] @ rows.V[i]
    exact_s = tau[i] * A[of_row, j, j] - tau[i] ** 2 * np.sum(projected * projected, axis=(1, 2))
    optimal = optimal_variance(q[i, j], exact_s, cost[i, j], np.ones(i.size, dtype=bool))
    pays = optimal > 0
    return i[pays], j[pays], optimal[pays]
