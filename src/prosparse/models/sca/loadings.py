"""The weights of every variable, given the moments of the latents: all rows at once.

Row i of the weights sees the latents through A_i (Q x Q, the sum of <z z'> over the samples in
which variable i was observed; one matrix for all rows when nothing is missing) and
g_i = sum_n (x_ni - mu_i) <z_n>. Rows are independent given these; columns are visited in turn.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from array_api_compat import array_namespace

from ...data import Array
from ...data.arrays import is_numpy
from .hyperbolic import HyperbolicPrior
from .joint_row_update import (
    evidence,
    gain,
    optimal_excluded_variances,
    optimal_included_variances,
    posterior,
)
from .prox import maximise_loading

# Covariances of a block of rows should stay in the cache while the columns are visited.
MAX_BLOCK_ENTRIES = 2**17
# Where more weights than this share are in the model, rows are visited whole.
DENSE_PROPORTION = 0.5
# With more latents than this, all weights of a row move at once.
MAX_SEQUENTIAL_FACTORS = 20


class LoadingPosteriors(NamedTuple):
    """q(Lambda): one Gaussian per row, [AB08] (26)."""

    L: Array  # (p, Q) means
    C: Array  # (p, Q, Q) covariances
    t: Array  # (p, Q) prior variances 1/gamma, exactly 0 for weights out of the model
    log_det: Array  # (p,) log det(I + tau t^1/2 A t^1/2)


def update_ard_rows(
    t: Array, tau: Array, A: Array, G: Array, allowed: Array, cost: Array
) -> LoadingPosteriors:
    """q(Lambda) and its prior variances: one factorisation per row, one visit per weight.

    With the row integrated out, the marginal likelihood as a function of one t_ij alone is
    -1/2 log(1 + t s) + 1/2 q^2 t / (1 + t s), whose maximum is (q^2 - s) / s^2, or exactly
    zero where q^2 <= s (Faul & Tipping 2002, the rule behind gamma = 1/<l^2> in (27)). There the
    weight adds (r - 1 - log r) / 2 with r = q^2 / s, and comes in where that exceeds ``cost``
    (p, Q).
    """
    if not is_numpy(t):  # to look for what need not be visited costs more than to visit it
        return _sweep(t, tau, A, G, allowed, cost)
    p, Q = t.shape
    rows = LoadingPosteriors(np.zeros((p, Q)), np.zeros((p, Q, Q)), np.zeros((p, Q)), np.zeros(p))
    if Q > MAX_SEQUENTIAL_FACTORS:
        visited = np.zeros((p, Q), dtype=bool)
        visited[_update_jointly(rows, t, tau, A, G, allowed, cost)] = True
    elif p * Q * Q <= MAX_BLOCK_ENTRIES or np.mean(t > 0) > DENSE_PROPORTION:
        busy = np.flatnonzero(np.any(_may_be_nonzero(t, tau, A, G, allowed), axis=1))
        visited = np.zeros((p, Q), dtype=bool)
        visited[busy] = True
    else:
        visited = _candidates(t, tau, A, G, allowed, cost)
    for block, at in _blocks_of_similar_width(visited):
        here = block[:, None], at
        part = _sweep(
            t[here], tau[block], _submatrices(A, block, at), G[here], allowed[here], cost[here]
        )
        _write_rows(part, rows, block, at)
    return rows


def _write_rows(
    part: LoadingPosteriors, rows: LoadingPosteriors, block: np.ndarray, at: np.ndarray
) -> None:
    """Some rows on some columns of their own, into all."""
    here = block[:, None], at
    rows.L[here], rows.t[here], rows.log_det[block] = part.L, part.t, part.log_det
    if at.shape[1] == rows.L.shape[1]:
        rows.C[block] = part.C
    else:
        rows.C[block[:, None, None], at[:, :, None], at[:, None, :]] = part.C


def _update_jointly(
    rows: LoadingPosteriors,
    t: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
) -> np.ndarray:
    """The rows for which moving all prior variances at once does not pay; the others are written
    into ``rows``."""
    before, best = np.zeros(t.shape[0]), np.zeros(t.shape)
    left = _min_residual_squares(A)
    busy = np.any(_may_be_nonzero(t, tau, A, G, allowed), axis=1)
    for block, at in _blocks_of_similar_width(t > 0, busy):
        here, noise = (block[:, None], at), tau[block]
        old = posterior(t[here], noise, _submatrices(A, block, at), G[here])
        before[block] = evidence(old, noise, G[here], cost[here])
        best[here] = optimal_included_variances(old, cost[here])
        whole = A if A.shape[0] == 1 else A[block]
        about = left if A.shape[0] == 1 else left[block]
        i, j, variance = optimal_excluded_variances(
            old, at, noise, whole, G[block], allowed[block], cost[block], about
        )
        best[block[i], j] = variance
    falls = np.zeros(t.shape[0], dtype=bool)
    for block, at in _blocks_of_similar_width(best > 0, busy):
        here, noise = (block[:, None], at), tau[block]
        new = posterior(best[here], noise, _submatrices(A, block, at), G[here])
        falls[block] = evidence(new, noise, G[here], cost[here]) < before[block]
        C = new.V @ new.V.transpose(0, 2, 1)
        _write_rows(LoadingPosteriors(new.L, C, new.t, new.log_det), rows, block, at)
    return np.flatnonzero(falls)


def _may_be_nonzero(
    t: np.ndarray, tau: np.ndarray, A: np.ndarray, G: np.ndarray, allowed: np.ndarray
) -> np.ndarray:
    """(p, Q) weights that are in the model, or could come into a row that has none."""
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    could: np.ndarray = (t > 0) | (allowed & (tau[:, None] * G * G > diagonal))
    return could


def _candidates(
    t: np.ndarray,
    tau: np.ndarray,
    A: np.ndarray,
    G: np.ndarray,
    allowed: np.ndarray,
    cost: np.ndarray,
) -> np.ndarray:
    """(p, Q) weights that are in the model, or could come in before any other weight moves.

    Most weights of a wide table are zero and stay so, and need not be visited. How much a weight
    could add is told by q and by the least that s can be: what is left of a latent's squares
    after all others have been regressed on.
    """
    inside = t > 0
    L = np.zeros(t.shape)
    for block, at in _blocks_of_similar_width(inside):
        here = block[:, None], at
        C = row_covariances(t[here], tau[block], _submatrices(A, block, at))[0]
        L[here] = tau[block, None] * np.einsum("ijk,ik->ij", C, G[here])
    along = L @ A[0] if A.shape[0] == 1 else np.einsum("ij,ijk->ik", L, A)
    q = tau[:, None] * (G - along)
    s = tau[:, None] * _min_residual_squares(A)
    known = s > 0
    ratio = np.where(known & (q * q > s), q * q / np.where(known, s, 1.0), 1.0)
    could: np.ndarray = inside | (allowed & (~known | (gain(ratio) > cost)))
    return could


def _min_residual_squares(A: np.ndarray) -> np.ndarray:
    """(1 or p, Q) 1 / (A^-1)_jj, beside rounding; zero where that is not known."""
    try:
        left: np.ndarray = 1.0 / np.diagonal(np.linalg.inv(A), axis1=1, axis2=2)
    except np.linalg.LinAlgError:  # a latent that is zero in all samples
        return np.zeros(A.shape[:2])
    return np.where(left > 0, (1.0 - 1e-6) * left, 0.0)


def _blocks_of_similar_width(
    wanted: np.ndarray, at_least_one: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Blocks of rows that want about as many columns, (r,), and for each row so many columns in
    their order, (r, w), the wanted ones among them. Rows that want none are left out, but for
    those that are to have one."""
    Q = wanted.shape[1]
    counts = np.count_nonzero(wanted, axis=1)
    if at_least_one is not None:
        counts = np.where(at_least_one, np.maximum(counts, 1), 0)
    below = 0
    while below < Q:
        wider = 2 * below if below < MAX_SEQUENTIAL_FACTORS else below + max(1, below // 4)
        width = min(max(1, wider), Q)
        rows = np.flatnonzero((counts > below) & (counts <= width))
        for block in _blocks(rows, max(1, MAX_BLOCK_ENTRIES // (width * width))):
            first = np.argsort(~wanted[block], axis=1, kind="stable")[:, :width]
            yield block, np.sort(first, axis=1)
        below = width


def _submatrices(A: np.ndarray, rows: np.ndarray, at: np.ndarray) -> np.ndarray:
    """The moments of the latents that each row looks at."""
    if at.shape[1] == A.shape[1]:
        return A if A.shape[0] == 1 else A[rows]
    across, down = at[:, :, None], at[:, None, :]
    return A[0, across, down] if A.shape[0] == 1 else A[rows[:, None, None], across, down]


def _blocks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (rows[start : start + size] for start in range(0, rows.size, size))


def row_covariances(t: np.ndarray, tau: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """(Gamma + tau A)^-1 of (26), finite where gamma is infinite, and log det(I + tau A t)."""
    C, log_det = _covariances(t.T, tau, _rows_last(A))
    return C.transpose(2, 0, 1), log_det


def _rows_last(A: Array) -> Array:
    """(Q, Q, 1 or p): there are many rows and few latents, and arithmetic runs along the rows."""
    xp = array_namespace(A)
    return xp.asarray(xp.permute_dims(A, (1, 2, 0)), copy=True)


def _covariances(t: Array, tau: Array, A: Array) -> tuple[Array, Array]:
    """`row_covariances` with the rows last: t (Q, p), A (Q, Q, 1 or p), C (Q, Q, p).

    B = I + tau t^1/2 A t^1/2 is inverted by sweeping its diagonal, where no pivot is below one.
    """
    xp, Q = array_namespace(t), t.shape[0]
    root = xp.sqrt(t)
    B = A * (tau * root)[:, None, :] * root
    log_det = xp.zeros_like(t[0, :])
    for j in range(Q):
        B[j, j, :] += 1.0
    for j in range(Q):
        pivot, column = xp.asarray(B[j, j, :], copy=True), xp.asarray(B[:, j, :], copy=True)
        log_det += xp.log(pivot)
        column[j, :] = 0.0
        share = column / pivot
        B -= column[:, None, :] * share
        B[j, :, :] = share
        B[:, j, :] = share
        B[j, j, :] = -1.0 / pivot
    B *= -root[:, None, :]
    B *= root
    return B, log_det


def _sweep(
    t: Array, tau: Array, A: Array, G: Array, allowed: Array, cost: Array
) -> LoadingPosteriors:
    xp = array_namespace(t)
    t, G, allowed, cost = (_transposed_copy(part) for part in (t, G, allowed, cost))
    A = _rows_last(A)
    Q, p = t.shape
    C, log_det = _covariances(t, tau, A)
    L = tau * xp.sum(C * G, axis=1)
    for j in range(Q):
        A_j, inside, sigma = A[j, ...], t[j, :] > 0, xp.asarray(C[j, j, :], copy=True)
        # u: how the row's mean moves with weight j, the others following. Where j is in the
        # model it is a column of C; where it is not, e_j - tau C A_j.
        u = C[:, j, :] / xp.where(inside, sigma, 1.0)
        if not (is_numpy(t) and inside.all()):
            if A_j.shape[1] == 1:
                along = xp.reshape(A_j[:, 0] @ xp.reshape(C, (Q, -1)), (Q, p))
            else:
                along = xp.sum(C * A_j[:, None, :], axis=0)
            along *= -tau
            along[j, :] += 1.0
            u = xp.where(inside, u, along)
        s = tau * xp.sum(A_j * u, axis=0)
        rest = L - u * L[j, :]  # the mean without weight j
        q = tau * (G[j, :] - xp.sum(A_j * rest, axis=0))
        # a latent that is zero in all samples of a row says nothing
        known = xp.where(s > 0, s, 1.0)
        ratio = xp.where(allowed[j, :] & (q * q > s), q * q / known, 1.0)
        best = xp.where(gain(ratio) > cost[j, :], (q * q - s) / (known * known), 0.0)
        sigma_new = best / (1.0 + best * s)
        log_det += xp.log1p(best * s) - xp.log1p(t[j, :] * s)
        L = rest + (sigma_new * q) * u
        C += ((sigma_new - sigma) * u)[:, None, :] * u
        t[j, :] = best
        # exact zeros, where rounding leaves something near them
        zero = best == 0
        L[j, :] = xp.where(zero, 0.0, L[j, :])
        C[j, :, :] = xp.where(zero, 0.0, C[j, :, :])
        C[:, j, :] = xp.where(zero, 0.0, C[:, j, :])
    return LoadingPosteriors(L.T, xp.permute_dims(C, (2, 0, 1)), t.T, log_det)


def _transposed_copy(part: Array) -> Array:
    """A copy with the rows last, one after another in memory."""
    if is_numpy(part):
        return np.array(part.T, order="C")
    return array_namespace(part).asarray(part.T, copy=True)


def loadings_divergence(rows: LoadingPosteriors) -> float:
    """KL(q(Lambda) | N(0, 1/gamma)), over the weights in the model."""
    xp = array_namespace(rows.t)
    inside = rows.t > 0
    second = xp.linalg.diagonal(rows.C) + rows.L**2
    ratio = xp.where(inside, second / xp.where(inside, rows.t, 1.0) - 1.0, 0.0)
    return 0.5 * float(xp.sum(ratio) + xp.sum(rows.log_det))


def update_map_rows(
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
        L[open_rows, j] = maximise_loading(e, g, weights[:, j], prior)
    return L
