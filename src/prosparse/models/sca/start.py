"""Where a model of views starts: principal or canonical directions, rotated to be sparse."""

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

# Angles, in radians, of the steps of `evidence_rotation`.
INITIAL_ANGLE = 0.05
MAX_ANGLE = 0.3
MIN_ANGLE = 1e-8
# A rotation ends where its criterion rises by less than this share. Relevance determination goes on
# from about there as well; Normal-Jeffreys, which never lets go of a zero, does not.
EXACT_ROTATION = 1e-8
ROUGH_ROTATION = 1e-4
# Of a column's variance at least this share is taken for noise where weights are put in units of
# their standard deviation.
MIN_NOISE_PROPORTION = 1e-3


def varimax(
    L: np.ndarray, view: np.ndarray | None = None, max_iter: int = 200, tol: float = EXACT_ROTATION
) -> np.ndarray:
    """The rotation of the columns of ``L`` that spreads the squares of its entries most.

    The likelihood does not see a rotation and the sparse prior sees nothing else: from the
    principal axes it would have to turn through many poor maxima to where entries vanish.

    Spread over all rows, squares are also those of columns of ``L`` that only one view has. With
    ``view`` (p,), the view of every row, they are spread within every view, and a view counts as
    much as another: sparse weights, of latents that the views share.
    """
    p, d = L.shape
    R = np.eye(d)
    if d < 2 or p < 2:
        return R
    of_row = np.zeros(p, dtype=int) if view is None else view
    member = (of_row == np.arange(of_row.max() + 1)[:, None]).astype(float)
    strength = member @ np.sum(L * L, axis=1)
    counts = np.where(strength > 0, strength.max() / np.where(strength > 0, strength, 1.0), 0.0)
    weights, mean_of = (counts**2)[of_row, None], member / member.sum(axis=1, keepdims=True)
    before = 0.0
    for _ in range(max_iter):
        rotated = L @ R
        squares = rotated * rotated
        spread = squares - (mean_of @ squares)[of_row]
        U, s, Vt = np.linalg.svd(L.T @ (weights * rotated * spread))
        R = U @ Vt
        if s.sum() <= before * (1.0 + tol):
            break
        before = s.sum()
    return R


def evidence_rotation(L: np.ndarray, max_iter: int = 300, tol: float = 1e-6) -> np.ndarray:
    """The rotation of the columns of ``L`` at which its entries cost the least evidence.

    A weight l, known with the standard deviation c, costs about log(1 + l^2 / c^2) / 2, whatever
    it explains. ``L`` (p, d) is in units of c. The sum of these costs falls along its gradient
    among the rotations, by steps as long as Barzilai & Borwein's; where it is flat enough, near
    by, it ends.
    """
    R = np.eye(L.shape[1])
    if L.shape[1] < 2:
        return R

    def cost_and_gradient(R: np.ndarray) -> tuple[float, np.ndarray]:
        rotated = L @ R
        squares = 1.0 + rotated * rotated
        gradient = R.T @ (L.T @ (rotated / squares))
        return 0.5 * float(np.sum(np.log(squares))), 0.5 * (gradient - gradient.T)

    cost, turn = cost_and_gradient(R)
    largest = float(np.abs(turn).max())
    step = INITIAL_ANGLE / largest if largest > 0 else 0.0
    for _ in range(max_iter):
        length, largest = float(np.sum(turn * turn)), float(np.abs(turn).max())
        if step * largest < MIN_ANGLE:
            break
        U, _, Vt = np.linalg.svd(R - step * (R @ turn))
        new_cost, new_turn = cost_and_gradient(U @ Vt)
        if new_cost > cost - 1e-4 * step * length:
            step *= 0.25
            continue
        curved = -float(np.sum(turn * (new_turn - turn)))
        flat = cost - new_cost <= tol * cost
        R, cost, turn = U @ Vt, new_cost, new_turn
        if flat:
            break
        step = step * length / curved if curved > 0 else 2.0 * step
        largest = float(np.abs(turn).max())
        step = min(step, MAX_ANGLE / largest) if largest > 0 else 0.0
    return R


def _directions(op: Operator, k: int) -> Array:
    """The k leading eigenvectors of X'X, zero beyond the rank."""
    return _pad_columns(spectrum(op, k).directions(min(k, *op.shape)), k)


def _pad_columns(U: Array, k: int) -> Array:
    """``U`` with columns of zeros up to k."""
    xp = array_namespace(U)
    missing = k - U.shape[1]
    if missing <= 0:
        return U
    nothing = xp.zeros((U.shape[0], missing), dtype=U.dtype, device=device(U))
    return xp.concat([U, nothing], axis=1)


def _leading(op: Operator, k: int) -> Array:
    """Sample scores of the k leading components, in memory."""
    F = op.xp.astype(_directions(op, k), op.dtype)
    return op.xp.astype(op.gather_rows(lambda block: block @ F), op.xp.float64)


def _scores(op: Operator, k: int) -> Array:
    """The same, orthonormal."""
    Z = _leading(op, k)
    norm = np.sqrt(to_numpy(op.xp.sum(Z * Z, axis=0)))
    small = norm <= 1e-10 * max(norm.max(initial=0.0), 1e-300)
    return Z / from_numpy(np.where(small, np.inf, norm), Z)


def shared_scores(parts: Sequence[Operator], k: int, private: Sequence[int]) -> Array:
    """Scores of k latents that the views have in common, (n, k) with orthonormal columns.

    Without private latents: principal components of the views, each with unit variance. With
    them: what the leading components of the views have in common (MAXVAR canonical analysis),
    for the strongest structure may be one view's own.
    """
    if len(parts) == 1:
        return _scores(parts[0], k)
    if not any(private):
        scaled = [_weighted_scores(op, k) for op in parts]
    else:
        scaled = [_scores(op, k + own) for op, own in zip(parts, private, strict=True)]
    xp = parts[0].xp
    U = xp.linalg.svd(xp.concat(scaled, axis=1), full_matrices=False)[0]
    return _pad_columns(U[:, :k], k)


def _weighted_scores(op: Operator, k: int) -> Array:
    total = float(op.xp.sum(op.column_squares()))
    return _leading(op, k) / math.sqrt(total / op.shape[1] if total > 0 else 1.0)


def initial_loadings(
    op: Operator,
    n: int,
    groups: Sequence[np.ndarray],
    k: int,
    private: Sequence[int],
    rotation: Rotation = "shared",
    tol: float = EXACT_ROTATION,
) -> tuple[np.ndarray, np.ndarray]:
    """Weights (p, Q), shared columns first, and the variance that they leave in every column.

    Regression of the table on the shared scores; then, view by view, the principal components
    of what is left, for the private latents. ``rotation`` says among which rows the weights of
    the former are spread, ``tol`` how exactly; see `varimax`. Sparse ones then turn to where they
    cost the least evidence.
    """
    p, Q = op.shape[1], k + sum(private)
    squares = to_numpy(op.column_squares())
    parts = [op.take_columns(columns) for columns in groups]
    scores = shared_scores(parts, k, private)
    shared = _regress(op, scores)  # (p, k): scores are orthonormal
    L = np.zeros((p, Q))
    view = None
    if rotation == "shared":
        view = np.empty(p, dtype=int)
        for v, columns in enumerate(groups):
            view[columns] = v
    shared = shared @ varimax(shared, view, tol=tol)
    left = squares - np.sum(shared**2, axis=1)
    if rotation == "sparse":
        shared = shared @ evidence_rotation(_standardised_coefficients(shared, left, squares, n))
    L[:, :k] = shared / np.sqrt(n)
    first = k
    for part, columns, own in zip(parts, groups, private, strict=True):
        if own:
            loadings = _regress(part, _residual_scores(part, scores, own))
            turned = loadings @ varimax(loadings, tol=tol)
            L[columns, first : first + own] = turned / np.sqrt(n)
            left[columns] -= np.sum(loadings**2, axis=1)
        first += own
    return L, np.clip(left, 0.0, None) / n


def _standardised_coefficients(
    loadings: np.ndarray, left: np.ndarray, squares: np.ndarray, n: int
) -> np.ndarray:
    """Regression coefficients on orthonormal scores, each over its standard deviation."""
    noise = np.maximum(left, MIN_NOISE_PROPORTION * squares) / n
    known = noise > 0
    units: np.ndarray = loadings / np.sqrt(np.where(known, noise, 1.0))[:, None]
    return np.where(known[:, None], units, 0.0)


def _regress(op: Operator, scores: Array) -> np.ndarray:
    """X' times orthonormal scores, on the host."""
    return to_numpy(op.rmatmul(op.xp.astype(scores, op.dtype))).astype(float)


def _residual_scores(part: Operator, scores: Array, own: int) -> Array:
    """Orthonormal scores of the leading components of a view after regressing on ``scores``."""
    xp = part.xp
    if part.shape[0] <= part.shape[1]:
        kernel = part.outer()
        kernel = kernel - scores @ (scores.T @ kernel)
        kernel = kernel - (kernel @ scores) @ scores.T
        values, vectors = xp.linalg.eigh(kernel)
        U = xp.flip(vectors[:, -own:], axis=1)
    else:
        loadings = from_numpy(_regress(part, scores), scores)
        values, V = xp.linalg.eigh(part.gram() - loadings @ loadings.T)
        V = xp.flip(V[:, -own:], axis=1)
        F = xp.astype(V, part.dtype)
        along = xp.astype(part.gather_rows(lambda block: block @ F), xp.float64)
        U = along - scores @ (loadings.T @ V)
    top = to_numpy(values)[::-1][:own]
    norm = np.sqrt(to_numpy(xp.sum(U * U, axis=0)))
    # A share of the whole view: where the scores leave nothing, the rest is rounding, top and all.
    present = (top > 1e-10 * float(xp.sum(part.column_squares()))) & (norm > 0)
    factor = np.where(present, 1.0 / np.where(present, norm, 1.0), 0.0)
    return _pad_columns(U * from_numpy(factor, U), own)
