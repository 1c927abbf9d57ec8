"""Weights of many latents: all prior variances of a row at once.

To visit the weights of a row one by one takes Q updates of a Q x Q covariance: no more arithmetic
than two factorisations, but each of them waits for memory. So all prior variances of a row
are set to where each would be best if it were the only one to move. Latents hardly correlate given
the samples, so that this is nearly as good as one after the other; where it is not, the evidence
of the row is lower than before, and the row has to be visited.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace
from scipy.linalg.lapack import dpotrf, dtrtri

from ...data import Array


class RowPosteriors(NamedTuple):
    """Rows of the weights, given their prior variances; (r, k) with k of all latents for each."""

    L: np.ndarray  # (r, k) means
    V: np.ndarray  # (r, k, k) with V V' the covariances
    t: np.ndarray  # (r, k) prior variances, zero out of the model
    log_det: np.ndarray  # (r,) log det(I + tau t^1/2 A t^1/2)


def gain(ratio: Array) -> Array:
    """What a weight with r = q^2 / s adds to the evidence at its best."""
    return 0.5 * (ratio - 1.0 - array_namespace(ratio).log(ratio))


def posterior(t: np.ndarray, tau: np.ndarray, A: np.ndarray, G: np.ndarray) -> RowPosteriors:
    """(26), by the Cholesky factors of B = I + tau t^1/2 A t^1/2.

    Parameters
    ----------
    t : array (r, k)
        Prior variances.
    tau : array (r,)
        Noise precisions.
    A : array (1 or r, k, k)
        Sums of <z z'>.
    G : array (r, k)
        Sums of (x - mu) <z>.

    Returns
    -------
    RowPosteriors
    """
    r, k = t.shape
    root = np.sqrt(t)
    V = A * (tau[:, None] * root)[:, :, None]
    V *= root[:, None, :]
    V.reshape(r, -1)[:, :: k + 1] += 1.0
    for B in V:
        # B is symmetric: its transpose has the order that LAPACK writes in, and is not copied
        factor, failed = dpotrf(B.T, lower=1, clean=1, overwrite_a=1)
        if failed:
            raise np.linalg.LinAlgError("the precision of a row of weights is not finite")
        B[:] = dtrtri(factor, lower=1, overwrite_c=1)[0].T
    log_det = -2.0 * np.sum(np.log(V.reshape(r, -1)[:, :: k + 1]), axis=1)
    V *= root[:, :, None]
    L = tau[:, None] * np.squeeze(V @ (G[:, None, :] @ V).transpose(0, 2, 1), 2)
    return RowPosteriors(L, V, t, log_det)


def evidence(rows: RowPosteriors, tau: np.ndarray, G: np.ndarray, cost: np.ndarray) -> np.ndarray:
    """(r,) the log evidence of every row, less what its weights cost."""
    fit = 0.5 * (tau * np.sum(G * rows.L, axis=1) - rows.log_det)
    less: np.ndarray = fit - np.sum(np.where(rows.t > 0, cost, 0.0), axis=1)
    return less


def optimal_included_variances(rows: RowPosteriors, cost: np.ndarray) -> np.ndarray:
    """(r, k) where the prior variance of each weight in the model would be best, were it the only
    one to move; zero where a weight does not pay.

    q and s as in `weights.update_ard_rows`: of a weight with variance c these are l / c and
    1 / c - 1 / t.
    """
    t = np.where(rows.t > 0, rows.t, 1.0)
    share = np.where(rows.t > 0, np.sum(rows.V * rows.V, axis=2) / t, 1.0)  # c / t
    s, q = (1.0 - share) / (t * share), rows.L / (t * share)
    return optimal_variance(q, s, cost, rows.t > 0)


def optimal_variance(
    q: np.ndarray, s: np.ndarray, cost: np.ndarray, among: np.ndarray
) -> np.ndarray:
    """(q^2 - s) / s^2 where that pays, else zero."""
    known = np.where(s > 0, s, 1.0)
    ratio = np.where(among & (s > 0) & (q * q > s), q * q / known, 1.0)
    return np.where(gain(ratio) > cost, (q * q - s) / (known * known), 0.0)


def optimal_excluded_variances(
    rows: RowPosteriors,
    at: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
    min_residual_squares: np.ndarray,
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """(row, latent, prior variance) of weights that are not in the model and would pay.

    Parameters
    ----------
    rows : RowPosteriors
    at : int array (r, k)
        The latents of ``rows``.
    tau : array (r,)
    A : array (1 or r, Q, Q)
    G, allowed, cost : arrays (r, Q)
    min_residual_squares : array (1 or r, Q)
        At most what is left of A_jj after regression on any other latents: with it in place of the
        exact s, few weights need that one.

    Returns
    -------
    tuple of arrays (found,)
    """
    here = np.arange(at.shape[0])[:, None], at
    L, inside = np.zeros(G.shape), np.zeros(G.shape, dtype=bool)
    L[here], inside[here] = rows.L, rows.t > 0
    along = L @ A[0] if A.shape[0] == 1 else np.einsum("ij,ijk->ik", L, A)
    q, s = tau[:, None] * (G - along), tau[:, None] * min_residual_squares
    ratio = np.where(s > 0, q * q / np.where(s > 0, s, 1.0), np.inf)
    could = allowed & ~inside & (q != 0) & (gain(np.maximum(ratio, 1.0)) > cost)
    i, j = np.nonzero(could)
    of_row = np.zeros_like(i) if A.shape[0] == 1 else i
    seen = A[of_row[:, None], at[i], j[:, None]][:, None, :] @ rows.V[i]
    exact = tau[i] * A[of_row, j, j] - tau[i] ** 2 * np.sum(seen * seen, axis=(1, 2))
    best = optimal_variance(q[i, j], exact, cost[i, j], np.ones(i.size, dtype=bool))
    pays = best > 0
    return i[pays], j[pays], best[pays]
