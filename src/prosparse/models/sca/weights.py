"""The weights of every variable, given the moments of the latents: all rows at once.

Row i of the weights sees the latents through A_i (Q x Q, the sum of <z z'> over the samples in
which variable i was observed; one matrix for all rows when nothing is missing) and
g_i = sum_n (x_ni - mu_i) <z_n>. Rows are independent given these; columns are visited in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from .hyperbolic import HyperbolicPrior
from .prox import maximise_weight

# Covariances of a block of rows should stay in the cache while the columns are visited.
WEIGHT_ENTRIES_PER_BLOCK = 2**17


class WeightPosteriors(NamedTuple):
    """q(Lambda): one Gaussian per row, [AB08] (26)."""

    L: np.ndarray  # (p, Q) means
    C: np.ndarray  # (p, Q, Q) covariances
    t: np.ndarray  # (p, Q) prior variances 1/gamma, exactly 0 for weights out of the model
    log_det: np.ndarray  # (p,) log det(I + tau t^1/2 A t^1/2)


def relevance_rows(
    t: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
) -> WeightPosteriors:
    """q(Lambda) and its prior variances: one factorisation per row, one visit per weight.

    With the row integrated out, the marginal likelihood as a function of one t_ij alone is
    -1/2 log(1 + t s) + 1/2 q^2 t / (1 + t s), whose maximum is (q^2 - s) / s^2, or exactly
    zero where q^2 <= s (Faul & Tipping 2002, the rule behind gamma = 1/<l^2> in (27)). There the
    weight adds (r - 1 - log r) / 2 with r = q^2 / s, and comes in where that exceeds ``cost``
    (p, Q).
    """
    p, Q = t.shape
    rows = WeightPosteriors(np.zeros((p, Q)), np.zeros((p, Q, Q)), np.zeros((p, Q)), np.zeros(p))
    # A row without weights in which none would come in needs no arithmetic at all.
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    wakes = allowed & (tau[:, None] * G * G > diagonal)
    busy = np.flatnonzero(np.any((t > 0) | wakes, axis=1))
    for block in _blocks(busy, max(1, WEIGHT_ENTRIES_PER_BLOCK // (Q * Q))):
        A_block = A if A.shape[0] == 1 else A[block]
        part = _visit(t[block], tau[block], A_block, G[block], allowed[block], cost[block])
        for whole, piece in zip(rows, part, strict=True):
            whole[block] = piece
    return rows


def _blocks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (rows[start : start + size] for start in range(0, rows.size, size))


def row_covariances(t: np.ndarray, tau: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Gamma + tau A)^-1 of (26), finite where gamma is infinite, and log det(I + tau A t)."""
    root = np.sqrt(t)
    B = tau[:, None, None] * root[:, :, None] * A * root[:, None, :]
    B += np.eye(t.shape[1])
    log_det = np.linalg.slogdet(B)[1]
    C = root[:, :, None] * np.linalg.inv(B) * root[:, None, :]
    return 0.5 * (C + C.transpose(0, 2, 1)), log_det


def _visit(
    t: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
) -> WeightPosteriors:
    t = t.copy()
    C, log_det = row_covariances(t, tau, A)
    L = tau[:, None] * np.einsum("ijk,ik->ij", C, G)
    for j in range(t.shape[1]):
        A_j = A[:, j, :]
        inside, sigma = t[:, j] > 0, C[:, j, j].copy()
        # u: how the row's mean moves with weight j, the others following. Where j is in the
        # model it is a column of C; where it is not, e_j - tau C A_j.
        u = -tau[:, None] * (C @ A_j[:, :, None])[:, :, 0]
        u[:, j] += 1.0
        u[inside] = C[inside, :, j] / sigma[inside, None]
        s = tau * np.sum(A_j * u, axis=1)
        rest = L - u * L[:, j : j + 1]  # the mean without weight j
        q = tau * (G[:, j] - np.sum(A_j * rest, axis=1))
        known = np.where(
            s > 0, s, 1.0
        )  # a latent that is zero in all samples of a row says nothing
        ratio = np.where(allowed[:, j] & (q * q > s), q * q / known, 1.0)
        enters = 0.5 * (ratio - 1.0 - np.log(ratio)) > cost[:, j]
        best = np.where(enters, (q * q - s) / (known * known), 0.0)
        sigma_new = best / (1.0 + best * s)
        log_det += np.log1p(best * s) - np.log1p(t[:, j] * s)
        L = rest + (sigma_new * q)[:, None] * u
        C += ((sigma_new - sigma)[:, None] * u)[:, :, None] * u[:, None, :]
        t[:, j] = best
        # exact zeros, where rounding leaves something near them
        zero = np.flatnonzero(best == 0)
        L[zero, j] = 0.0
        C[zero, j, :] = 0.0
        C[zero, :, j] = 0.0
    return WeightPosteriors(L, C, t, log_det)


def weights_divergence(rows: WeightPosteriors) -> float:
    """KL(q(Lambda) | N(0, 1/gamma)), over the weights in the model."""
    inside = rows.t > 0
    second = np.diagonal(rows.C, axis1=1, axis2=2) + rows.L**2
    ratio = np.where(inside, second / np.where(inside, rows.t, 1.0) - 1.0, 0.0)
    return 0.5 * float(np.sum(ratio) + np.sum(rows.log_det))


def hyperbolic_rows(
    L: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    prior: HyperbolicPrior,
) -> np.ndarray:
    """MAP weights, [AB08] (20), visiting the columns in turn: every visit is an exact maximum.

    Reweighted ridge regressions creep towards zero and never arrive; the maximum over one
    weight, the scale gamma integrated out, is zero exactly where it should be.
    """
    L = L.copy()
    for j in range(L.shape[1]):
        open_rows = np.flatnonzero(allowed[:, j])
        A_j = A[:, j, :] if A.shape[0] == 1 else A[open_rows, j, :]
        tau_j, weights = tau[open_rows], L[open_rows]
        e = tau_j * A_j[:, j]
        g = tau_j * (G[open_rows, j] - np.sum(A_j * weights, axis=1)) + e * weights[:, j]
        L[open_rows, j] = maximise_weight(e, g, weights[:, j], prior)
    return L
