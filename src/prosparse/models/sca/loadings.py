"""Update of the loadings of each variable given the moments of the factors.

Row i of the loadings depends on the data through A_i (Q x Q, the sum of <z z'> over the samples
with variable i observed; one matrix for complete data) and g_i = sum_n (x_ni - mu_i) <z_n>. Given
these moments, rows are independent; the loadings within a row are updated in turn.
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
    gain,
    optimal_excluded_variances,
    optimal_included_variances,
    posterior,
    row_evidence,
)
from .prox import maximise_loading

# Maximum size of the covariances of a block of rows, which should stay in the cache.
MAX_BLOCK_ENTRIES = 2**17
# Proportion of included loadings above which complete rows are swept.
DENSE_PROPORTION = 0.5
# Maximum number of factors with sequential updates; with more factors, rows are updated jointly.
MAX_SEQUENTIAL_FACTORS = 20


class LoadingPosteriors(NamedTuple):
    """q(Lambda): one Gaussian per row, [AB08] (26)."""

    L: Array  # (p, Q) means
    C: Array  # (p, Q, Q) covariances
    t: Array  # (p, Q) prior variances 1/gamma, 0 for excluded loadings
    log_det: Array  # (p,) log det(I + tau t^1/2 A t^1/2)


class RowData(NamedTuple):
    """Data of the update of p rows with Q factors."""

    t: Array  # (p, Q) prior variances
    tau: Array  # (p,) noise precisions
    A: Array  # (1 or p, Q, Q) sums of <z z'>
    G: Array  # (p, Q) sums of (x - mu) <z>
    allowed: Array  # (p, Q) False for loadings fixed at zero
    cost: Array  # (p, Q) minimum gain of an included loading

    def take(self, rows: np.ndarray, positions: np.ndarray) -> RowData:
        """Return some rows, each restricted to the factors at its positions."""
        index = rows[:, None], positions
        A = _submatrices(self.A, rows, positions)
        return RowData(
            self.t[index], self.tau[rows], A, self.G[index], self.allowed[index], self.cost[index]
        )


def update_ard_rows(
    t: Array, tau: Array, A: Array, G: Array, allowed: Array, cost: Array
) -> LoadingPosteriors:
    """Update q(Lambda) and its prior variances in one sweep over the loadings.

    With the row integrated out, the log marginal likelihood as a function of one t_ij is
    -1/2 log(1 + t s) + 1/2 q^2 t / (1 + t s). Its maximum is (q^2 - s) / s^2, or zero if q^2 <= s
    (Faul & Tipping 2002; cf. gamma = 1/<l^2> in (27)). A loading gains (r - 1 - log r) / 2 with r =
    q^2 / s, and is included if this gain exceeds ``cost`` (p, Q).
    """
    data = RowData(t, tau, A, G, allowed, cost)
    if not is_numpy(t):  # on an accelerator, screening is slower than a sweep
        return _sweep(data)
    p, Q = t.shape
    rows = LoadingPosteriors(np.zeros((p, Q)), np.zeros((p, Q, Q)), np.zeros((p, Q)), np.zeros(p))
    if Q > MAX_SEQUENTIAL_FACTORS:
        swept = np.zeros((p, Q), dtype=bool)
        swept[_update_jointly(rows, data)] = True
    elif p * Q * Q <= MAX_BLOCK_ENTRIES or np.mean(t > 0) > DENSE_PROPORTION:
        swept = np.zeros((p, Q), dtype=bool)
        swept[np.any(_may_be_nonzero(data), axis=1)] = True
    else:
        swept = _candidates(data)
    for block, positions in _blocks_of_similar_width(swept):
        _write_rows(_sweep(data.take(block, positions)), rows, block, positions)
    return rows


def _write_rows(
    part: LoadingPosteriors, rows: LoadingPosteriors, block: np.ndarray, positions: np.ndarray
) -> None:
    """Write the posteriors of some rows and factors into ``rows``."""
    index = block[:, None], positions
    rows.L[index], rows.t[index], rows.log_det[block] = part.L, part.t, part.log_det
    if positions.shape[1] == rows.L.shape[1]:
        rows.C[block] = part.C
    else:
        rows.C[block[:, None, None], positions[:, :, None], positions[:, None, :]] = part.C


def _update_jointly(rows: LoadingPosteriors, data: RowData) -> np.ndarray:
    """Update all loadings of each row jointly; return the rows that fail.

    A row fails if its evidence decreases; all other rows are written into ``rows``.
    """
    t, tau, A, G, allowed, cost = data
    before, optimal = np.zeros(t.shape[0]), np.zeros(t.shape)
    residual_squares = _min_residual_squares(A)
    active = np.any(_may_be_nonzero(data), axis=1)
    for block, positions in _blocks_of_similar_width(t > 0, active):
        part = data.take(block, positions)
        old = posterior(part.t, part.tau, part.A, part.G)
        before[block] = row_evidence(old, part.tau, part.G, part.cost)
        optimal[block[:, None], positions] = optimal_included_variances(old, part.cost)
        A_block = A if A.shape[0] == 1 else A[block]
        screen = residual_squares if A.shape[0] == 1 else residual_squares[block]
        i, j, variance = optimal_excluded_variances(
            old, positions, tau[block], A_block, G[block], allowed[block], cost[block], screen
        )
        optimal[block[i], j] = variance
    decreases = np.zeros(t.shape[0], dtype=bool)
    data = data._replace(t=optimal)
    for block, positions in _blocks_of_similar_width(optimal > 0, active):
        part = data.take(block, positions)
        new = posterior(part.t, part.tau, part.A, part.G)
        decreases[block] = row_evidence(new, part.tau, part.G, part.cost) < before[block]
        C = new.V @ new.V.transpose(0, 2, 1)
        _write_rows(LoadingPosteriors(new.L, C, new.t, new.log_det), rows, block, positions)
    return np.flatnonzero(decreases)


def _may_be_nonzero(data: RowData) -> np.ndarray:
    """Mask loadings that are included, or could be in an empty row, (p, Q)."""
    t, tau, A, G, allowed, _ = data
    diagonal = np.diagonal(A, axis1=1, axis2=2)
    candidates: np.ndarray = (t > 0) | (allowed & (tau[:, None] * G * G > diagonal))
    return candidates


def _candidates(data: RowData) -> np.ndarray:
    """Return a mask (p, Q) of included and candidate loadings.

    A bound of the gain of a loading follows from q and the minimum of s, the residual sum of
    squares of a factor after regression on all others.
    """
    t, tau, A, G, allowed, cost = data
    inside = t > 0
    L = np.zeros(t.shape)
    for block, positions in _blocks_of_similar_width(inside):
        part = data.take(block, positions)
        C = row_covariances(part.t, part.tau, part.A)[0]
        L[block[:, None], positions] = part.tau[:, None] * np.einsum("ijk,ik->ij", C, part.G)
    fitted = L @ A[0] if A.shape[0] == 1 else np.einsum("ij,ijk->ik", L, A)
    q = tau[:, None] * (G - fitted)
    s = tau[:, None] * _min_residual_squares(A)
    positive = s > 0
    ratio = np.where(positive & (q * q > s), q * q / np.where(positive, s, 1.0), 1.0)
    candidates: np.ndarray = inside | (allowed & (~positive | (gain(ratio) > cost)))
    return candidates


def _min_residual_squares(A: np.ndarray) -> np.ndarray:
    """Compute lower bounds of 1 / (A^-1)_jj, (1 or p, Q); zero if unknown."""
    try:
        residual_squares: np.ndarray = 1.0 / np.diagonal(np.linalg.inv(A), axis1=1, axis2=2)
    except np.linalg.LinAlgError:  # a factor is zero in all samples
        return np.zeros(A.shape[:2])
    return np.where(residual_squares > 0, (1.0 - 1e-6) * residual_squares, 0.0)


def _blocks_of_similar_width(
    mask: np.ndarray, nonempty: np.ndarray | None = None
) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield blocks of rows with similar numbers of factors.

    Each block is a pair: rows (r,), and sorted positions of factors (r, w) that include those in
    ``mask``. Rows without factors are omitted unless ``nonempty`` marks them.
    """
    Q = mask.shape[1]
    counts = np.count_nonzero(mask, axis=1)
    if nonempty is not None:
        counts = np.where(nonempty, np.maximum(counts, 1), 0)
    lower_width = 0
    while lower_width < Q:
        width_limit = (
            2 * lower_width
            if lower_width < MAX_SEQUENTIAL_FACTORS
            else lower_width + max(1, lower_width // 4)
        )
        width = min(max(1, width_limit), Q)
        rows = np.flatnonzero((counts > lower_width) & (counts <= width))
        for block in _blocks(rows, max(1, MAX_BLOCK_ENTRIES // (width * width))):
            first = np.argsort(~mask[block], axis=1, kind="stable")[:, :width]
            yield block, np.sort(first, axis=1)
        lower_width = width


def _submatrices(A: np.ndarray, rows: np.ndarray, positions: np.ndarray) -> np.ndarray:
    """Select the moments of the factors at the positions of each row."""
    if positions.shape[1] == A.shape[1]:
        return A if A.shape[0] == 1 else A[rows]
    across, down = positions[:, :, None], positions[:, None, :]
    return A[0, across, down] if A.shape[0] == 1 else A[rows[:, None, None], across, down]


def _blocks(rows: np.ndarray, size: int) -> Iterator[np.ndarray]:
    return (rows[start : start + size] for start in range(0, rows.size, size))


def row_covariances(t: np.ndarray, tau: np.ndarray, A: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Compute (Gamma + tau A)^-1 of (26), also for t = 0, and its log det."""
    C, log_det = _covariances(t.T, tau, _rows_last(A))
    return C.transpose(2, 0, 1), log_det


def _rows_last(A: Array) -> Array:
    """Move the row axis last, (Q, Q, 1 or p), for faster arithmetic."""
    xp = array_namespace(A)
    return xp.asarray(xp.permute_dims(A, (1, 2, 0)), copy=True)


def _covariances(t: Array, tau: Array, A: Array) -> tuple[Array, Array]:
    """Compute `row_covariances` with the rows last.

    The shapes are t (Q, p), A (Q, Q, 1 or p) and C (Q, Q, p). B = I + tau t^1/2 A t^1/2 is inverted
    by sweeping its diagonal; all pivots are at least one.
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
        scaled = column / pivot
        B -= column[:, None, :] * scaled
        B[j, :, :] = scaled
        B[:, j, :] = scaled
        B[j, j, :] = -1.0 / pivot
    B *= -root[:, None, :]
    B *= root
    return B, log_det


def _sweep(data: RowData) -> LoadingPosteriors:
    """Update the loadings of each row in turn."""
    xp, tau, A = array_namespace(data.t), data.tau, _rows_last(data.A)
    t, G, allowed, cost = map(_transposed_copy, (data.t, data.G, data.allowed, data.cost))
    Q, p = t.shape
    C, log_det = _covariances(t, tau, A)
    L = tau * xp.sum(C * G, axis=1)
    for j in range(Q):
        A_j, inside, sigma = A[j, ...], t[j, :] > 0, xp.asarray(C[j, j, :], copy=True)
        # u is the change of the posterior mean of the row with loading j: a column of C for an
        # included loading, and e_j - tau C A_j for an excluded loading.
        u = C[:, j, :] / xp.where(inside, sigma, 1.0)
        if not (is_numpy(t) and inside.all()):
            if A_j.shape[1] == 1:
                fitted = xp.reshape(A_j[:, 0] @ xp.reshape(C, (Q, -1)), (Q, p))
            else:
                fitted = xp.sum(C * A_j[:, None, :], axis=0)
            fitted *= -tau
            fitted[j, :] += 1.0
            u = xp.where(inside, u, fitted)
        s = tau * xp.sum(A_j * u, axis=0)
        mean_without = L - u * L[j, :]  # posterior mean without loading j
        q = tau * (G[j, :] - xp.sum(A_j * mean_without, axis=0))
        # s is 0 for a factor that is zero in all samples of the row.
        positive = xp.where(s > 0, s, 1.0)
        ratio = xp.where(allowed[j, :] & (q * q > s), q * q / positive, 1.0)
        optimal = xp.where(gain(ratio) > cost[j, :], (q * q - s) / (positive * positive), 0.0)
        sigma_new = optimal / (1.0 + optimal * s)
        log_det += xp.log1p(optimal * s) - xp.log1p(t[j, :] * s)
        L = mean_without + (sigma_new * q) * u
        C += ((sigma_new - sigma) * u)[:, None, :] * u
        t[j, :] = optimal
        # Remove rounding errors of zeros.
        zero = optimal == 0
        L[j, :] = xp.where(zero, 0.0, L[j, :])
        C[j, :, :] = xp.where(zero, 0.0, C[j, :, :])
        C[:, j, :] = xp.where(zero, 0.0, C[:, j, :])
    return LoadingPosteriors(L.T, xp.permute_dims(C, (2, 0, 1)), t.T, log_det)


def _transposed_copy(part: Array) -> Array:
    """Return a contiguous copy with the rows last."""
    if is_numpy(part):
        return np.array(part.T, order="C")
    return array_namespace(part).asarray(part.T, copy=True)


def loadings_divergence(rows: LoadingPosteriors) -> float:
    """Compute KL(q(Lambda) | N(0, 1/gamma)) of the included loadings."""
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
    """Update the MAP loadings, [AB08] (20), by exact coordinate ascent.

    Iteratively reweighted ridge regression never reaches zero exactly. The maximum over one
    loading, with the scale gamma integrated out, can be exactly zero.
    """
    L = L.copy()
    for j in range(L.shape[1]):
        open_rows = np.flatnonzero(allowed[:, j])
        A_j = A[:, j, :] if A.shape[0] == 1 else A[open_rows, j, :]
        tau_j, row_loadings = tau[open_rows], L[open_rows]
        e = tau_j * A_j[:, j]
        g = tau_j * (G[open_rows, j] - np.sum(A_j * row_loadings, axis=1)) + e * row_loadings[:, j]
        L[open_rows, j] = maximise_loading(e, g, row_loadings[:, j], prior)
    return L
