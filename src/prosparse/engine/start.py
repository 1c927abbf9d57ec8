"""Where a model of views starts: principal or canonical directions, rotated to be sparse."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ..operators import Operator
from .linalg import spectrum

Array = np.ndarray


def varimax(L: Array, max_iter: int = 200, tol: float = 1e-8) -> Array:
    """The rotation of the columns of ``L`` that spreads the squares of its entries most.

    The likelihood does not see a rotation and the sparse prior sees nothing else: from the
    principal axes it would have to turn through many poor maxima to where entries vanish.
    """
    p, d = L.shape
    R = np.eye(d)
    if d < 2 or p < 2:
        return R
    before = 0.0
    for _ in range(max_iter):
        rotated = L @ R
        U, s, Vt = np.linalg.svd(L.T @ (rotated**3 - rotated * np.mean(rotated**2, axis=0)))
        R = U @ Vt
        if s.sum() <= before * (1.0 + tol):
            break
        before = s.sum()
    return R


def _directions(op: Operator, k: int) -> Array:
    """The k leading eigenvectors of X'X, zero beyond the rank."""
    found = spectrum(op).directions(min(k, *op.shape))
    return np.pad(np.asarray(found), ((0, 0), (0, k - found.shape[1])))


def _scores(op: Operator, k: int) -> Array:
    """Orthonormal sample scores of the k leading components."""
    Z = np.asarray(op.matmul(_directions(op, k)))
    norm = np.linalg.norm(Z, axis=0)
    return Z / np.where(norm > 1e-10 * max(norm.max(initial=0.0), 1e-300), norm, np.inf)


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
    U = np.linalg.svd(np.hstack(scaled), full_matrices=False)[0][:, :k]
    return np.pad(U, ((0, 0), (0, k - U.shape[1])))


def _weighted_scores(op: Operator, k: int) -> Array:
    Z = np.asarray(op.matmul(_directions(op, k)))
    total = float(np.sum(np.asarray(op.column_squares())))
    return Z / np.sqrt(total / op.shape[1] if total > 0 else 1.0)


def initial_weights(
    op: Operator, n: int, groups: Sequence[Array], k: int, private: Sequence[int]
) -> tuple[Array, Array]:
    """Weights (p, Q), shared columns first, and the noise variance of every view.

    Regression of the table on the shared scores; then, view by view, the principal components
    of what is left, for the private latents.
    """
    p, Q = op.shape[1], k + sum(private)
    squares = np.asarray(op.column_squares())
    parts = [op.take_columns(columns) for columns in groups]
    scores = shared_scores(parts, k, private)
    shared = np.asarray(op.rmatmul(scores))  # (p, k): scores are orthonormal
    L = np.zeros((p, Q))
    L[:, :k] = (shared @ varimax(shared)) / np.sqrt(n)
    left = squares - np.sum(shared**2, axis=1)
    first = k
    for part, columns, own in zip(parts, groups, private, strict=True):
        if own:
            outer = np.asarray(part.outer()) if part.shape[0] <= part.shape[1] else None
            U = _left_over(part, scores, own, outer)
            loadings = np.asarray(part.rmatmul(U))
            L[columns, first : first + own] = (loadings @ varimax(loadings)) / np.sqrt(n)
            left[columns] -= np.sum(loadings**2, axis=1)
        first += own
    noise = [float(np.clip(left[c], 0, None).sum()) / (n * c.size) for c in groups]
    rough = [1e-3 * float(squares[c].sum()) / (n * c.size) for c in groups]
    return L, np.maximum(noise, rough)


def _left_over(part: Operator, scores: Array, own: int, outer: Array | None) -> Array:
    """Orthonormal scores of the leading components of a view after regressing on ``scores``."""
    if outer is not None:
        kernel = outer - scores @ (scores.T @ outer)
        kernel = kernel - (kernel @ scores) @ scores.T
        values, vectors = np.linalg.eigh(kernel)
    else:
        loadings = np.asarray(part.rmatmul(scores))
        values, V = np.linalg.eigh(np.asarray(part.gram()) - loadings @ loadings.T)
        vectors = np.asarray(part.matmul(V)) - scores @ (loadings.T @ V)
    order = np.argsort(values)[::-1][:own]
    U = vectors[:, order]
    norm = np.linalg.norm(U, axis=0)
    largest = max(float(values[-1]), 1e-300)
    U = np.where(values[order] > 1e-10 * largest, U / np.where(norm > 0, norm, 1.0), 0.0)
    return np.pad(U, ((0, 0), (0, own - U.shape[1])))
