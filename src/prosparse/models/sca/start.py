"""Initial loadings from rotated principal or canonical directions."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Literal

import numpy as np
from array_api_compat import array_namespace, device

from ...data import Array, Operator
from ...data.arrays import from_numpy, to_numpy
from ...numerics.spectrum import spectrum

Rotation = Literal["sparse", "shared"]

# Step sizes of `evidence_rotation`, in radians.
INITIAL_ANGLE = 0.05
MAX_ANGLE = 0.3
MIN_ANGLE = 1e-8
# Relative tolerance of the rotation criterion. A rough rotation is sufficient for ARD. Under the
# Normal-Jeffreys prior, zero loadings remain zero, which requires an exact rotation.
EXACT_ROTATION = 1e-8
ROUGH_ROTATION = 1e-4
# Minimum proportion of noise in the variance of a column, for standardised coefficients.
MIN_NOISE_PROPORTION = 1e-3


def varimax(
    L: np.ndarray, view: np.ndarray | None = None, max_iter: int = 200, tol: float = EXACT_ROTATION
) -> np.ndarray:
    """Compute the varimax rotation of the columns of ``L``.

    The likelihood is invariant to rotations, but the sparse prior is not. From the principal axes,
    the iterations could end at many poor local maxima.

    Varimax over all rows also favours factors of a single view. With ``view`` (p,), the view of
    each row, the criterion is the sum over views with equal weights, which favours sparse loadings
    of shared factors.
    """
    p, d = L.shape
    R = np.eye(d)
    if d < 2 or p < 2:
        return R
    of_row = np.zeros(p, dtype=int) if view is None else view
    member = (of_row == np.arange(of_row.max() + 1)[:, None]).astype(float)
    strength = member @ np.sum(L * L, axis=1)
    view_weight = np.where(
        strength > 0, strength.max() / np.where(strength > 0, strength, 1.0), 0.0
    )
    row_weight, mean_of = (view_weight**2)[of_row, None], member / member.sum(axis=1, keepdims=True)
    before = 0.0
    for _ in range(max_iter):
        rotated = L @ R
        squares = rotated * rotated
        spread = squares - (mean_of @ squares)[of_row]
        U, s, Vt = np.linalg.svd(L.T @ (row_weight * rotated * spread))
        R = U @ Vt
        if s.sum() <= before * (1.0 + tol):
            break
        before = s.sum()
    return R


def evidence_rotation(L: np.ndarray, max_iter: int = 300, tol: float = 1e-6) -> np.ndarray:
    """Compute the rotation of the columns of ``L`` with minimum evidence cost.

    A loading l with standard deviation c costs about log(1 + l^2 / c^2) / 2. ``L`` (p, d) is in
    units of c. The sum is minimised by gradient descent on the rotations with Barzilai-Borwein
    steps.
    """
    R = np.eye(L.shape[1])
    if L.shape[1] < 2:
        return R

    def cost_and_gradient(R: np.ndarray) -> tuple[float, np.ndarray]:
        rotated = L @ R
        squares = 1.0 + rotated * rotated
        gradient = R.T @ (L.T @ (rotated / squares))
        return 0.5 * float(np.sum(np.log(squares))), 0.5 * (gradient - gradient.T)

    cost, skew = cost_and_gradient(R)
    largest = float(np.abs(skew).max())
    step = INITIAL_ANGLE / largest if largest > 0 else 0.0
    for _ in range(max_iter):
        length, largest = float(np.sum(skew * skew)), float(np.abs(skew).max())
        if step * largest < MIN_ANGLE:
            break
        U, _, Vt = np.linalg.svd(R - step * (R @ skew))
        new_cost, new_skew = cost_and_gradient(U @ Vt)
        if new_cost > cost - 1e-4 * step * length:
            step *= 0.25
            continue
        curvature = -float(np.sum(skew * (new_skew - skew)))
        converged = cost - new_cost <= tol * cost
        R, cost, skew = U @ Vt, new_cost, new_skew
        if converged:
            break
        step = step * length / curvature if curvature > 0 else 2.0 * step
        largest = float(np.abs(skew).max())
        step = min(step, MAX_ANGLE / largest) if largest > 0 else 0.0
    return R


def _directions(op: Operator, k: int) -> Array:
    """Compute the k leading eigenvectors of X'X, zero beyond the rank."""
    return _pad_columns(spectrum(op, k).directions(min(k, *op.shape)), k)


def _pad_columns(U: Array, k: int) -> Array:
    """Append columns of zeros up to k columns."""
    xp = array_namespace(U)
    missing = k - U.shape[1]
    if missing <= 0:
        return U
    padding = xp.zeros((U.shape[0], missing), dtype=U.dtype, device=device(U))
    return xp.concat([U, padding], axis=1)


def _leading_scores(op: Operator, k: int) -> Array:
    """Compute the scores of the k leading components in memory."""
    F = op.xp.astype(_directions(op, k), op.dtype)
    return op.xp.astype(op.gather_rows(lambda block: block @ F), op.xp.float64)


def _orthonormal_scores(op: Operator, k: int) -> Array:
    """Compute orthonormal scores of the k leading components."""
    Z = _leading_scores(op, k)
    norm = np.sqrt(to_numpy(op.xp.sum(Z * Z, axis=0)))
    small = norm <= 1e-10 * max(norm.max(initial=0.0), 1e-300)
    return Z / from_numpy(np.where(small, np.inf, norm), Z)


def shared_scores(parts: Sequence[Operator], k: int, private: Sequence[int]) -> Array:
    """Compute orthonormal scores (n, k) of k shared factors.

    Without private factors, the scores are principal components of the views, each scaled to unit
    variance. With private factors, which may dominate the variance, they are MAXVAR canonical
    variates of the leading components of the views.
    """
    if len(parts) == 1:
        return _orthonormal_scores(parts[0], k)
    if not any(private):
        scaled = [_weighted_scores(op, k) for op in parts]
    else:
        scaled = [
            _orthonormal_scores(op, k + n_own) for op, n_own in zip(parts, private, strict=True)
        ]
    xp = parts[0].xp
    U = xp.linalg.svd(xp.concat(scaled, axis=1), full_matrices=False)[0]
    return _pad_columns(U[:, :k], k)


def _weighted_scores(op: Operator, k: int) -> Array:
    """Compute the scores of a view scaled to unit mean variance."""
    total = float(op.xp.sum(op.column_squares()))
    return _leading_scores(op, k) / math.sqrt(total / op.shape[1] if total > 0 else 1.0)


def initial_loadings(
    op: Operator,
    n: int,
    groups: Sequence[np.ndarray],
    k: int,
    private: Sequence[int],
    rotation: Rotation = "shared",
    tol: float = EXACT_ROTATION,
) -> tuple[np.ndarray, np.ndarray]:
    """Compute initial loadings (p, Q) and residual variances of the columns.

    The data are regressed on the shared scores. Private factors are principal components of the
    residuals of each view.
    """
    p, Q = op.shape[1], k + sum(private)
    squares = to_numpy(op.column_squares())
    parts = [op.take_columns(columns) for columns in groups]
    scores = shared_scores(parts, k, private)
    shared = _regress(op, scores)  # (p, k), because the scores are orthonormal
    L = np.zeros((p, Q))
    view = None
    if rotation == "shared":
        view = np.empty(p, dtype=int)
        for v, columns in enumerate(groups):
            view[columns] = v
    shared = shared @ varimax(shared, view, tol=tol)
    residual = squares - np.sum(shared**2, axis=1)
    if rotation == "sparse":
        shared = shared @ evidence_rotation(
            _standardised_coefficients(shared, residual, squares, n)
        )
    L[:, :k] = shared / np.sqrt(n)
    first = k
    for part, columns, n_own in zip(parts, groups, private, strict=True):
        if n_own:
            loadings = _regress(part, _residual_scores(part, scores, n_own))
            rotated = loadings @ varimax(loadings, tol=tol)
            L[columns, first : first + n_own] = rotated / np.sqrt(n)
            residual[columns] -= np.sum(loadings**2, axis=1)
        first += n_own
    return L, np.clip(residual, 0.0, None) / n


def _standardised_coefficients(
    loadings: np.ndarray, residual: np.ndarray, squares: np.ndarray, n: int
) -> np.ndarray:
    """Divide coefficients on orthonormal scores by their standard errors."""
    noise = np.maximum(residual, MIN_NOISE_PROPORTION * squares) / n
    positive = noise > 0
    units: np.ndarray = loadings / np.sqrt(np.where(positive, noise, 1.0))[:, None]
    return np.where(positive[:, None], units, 0.0)


def _regress(op: Operator, scores: Array) -> np.ndarray:
    """Compute X' times orthonormal scores, in CPU memory."""
    return to_numpy(op.rmatmul(op.xp.astype(scores, op.dtype))).astype(float)


def _residual_scores(part: Operator, scores: Array, n_own: int) -> Array:
    """Compute orthonormal scores of leading residual components of a view."""
    xp = part.xp
    if part.shape[0] <= part.shape[1]:
        kernel = part.outer()
        kernel = kernel - scores @ (scores.T @ kernel)
        kernel = kernel - (kernel @ scores) @ scores.T
        values, vectors = xp.linalg.eigh(kernel)
        U = xp.flip(vectors[:, -n_own:], axis=1)
    else:
        loadings = from_numpy(_regress(part, scores), scores)
        values, V = xp.linalg.eigh(part.gram() - loadings @ loadings.T)
        V = xp.flip(V[:, -n_own:], axis=1)
        F = xp.astype(V, part.dtype)
        projected = xp.astype(part.gather_rows(lambda block: block @ F), xp.float64)
        U = projected - scores @ (loadings.T @ V)
    leading_values = to_numpy(values)[::-1][:n_own]
    norm = np.sqrt(to_numpy(xp.sum(U * U, axis=0)))
    # The limit is relative to the complete view, because an exact fit leaves only rounding errors.
    nonzero = (leading_values > 1e-10 * float(xp.sum(part.column_squares()))) & (norm > 0)
    factor = np.where(nonzero, 1.0 / np.where(nonzero, norm, 1.0), 0.0)
    return _pad_columns(U * from_numpy(factor, U), n_own)
