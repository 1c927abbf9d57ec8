"""Proportion of variance that a panel explains in held-out rows.

Variables of the panel are observed; all others are predicted by the factor model of the training
rows. Symbols: m (n, r) posterior means of the factors given the panel; W (p, r) loadings; psi (p,)
unique variances.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from .factors import FactorModel
from .folds import Fold, dense_columns, project_columns, project_some_rows, run_parallel

# Every size up to the first constant is evaluated; larger sizes grow by the ratio.
_ALL_SIZES = 20
_SIZE_RATIO = 1.08
_MAX_SAMPLED_COLUMNS = 400  # columns whose residuals calibrate the prediction intervals
NORMAL_QUANTILE = 1.959963984540054  # 97.5 % quantile of the normal distribution


class FoldPath(NamedTuple):
    """Results of panels of increasing size in the held-out rows of one fold."""

    r2: np.ndarray  # (n_sizes,) of all columns; 0 if the rows do not vary
    explained: np.ndarray  # (n_sizes,) sum of squares explained outside the panel
    attainable: np.ndarray  # (n_sizes,) the same with all columns as predictors
    order: np.ndarray  # (q,) the largest panel


class PanelEvaluation(NamedTuple):
    """Results of one panel in held-out rows."""

    r2: np.ndarray  # (p,) of each column; 1 in the panel
    residual_std: np.ndarray  # (p,) 95 % of the residuals are below 1.96 times this value


def evaluated_sizes(count: int) -> np.ndarray:
    """Return the panel sizes that are evaluated.

    Results of other sizes are interpolated.
    """
    sizes, size = list(range(1, min(count, _ALL_SIZES) + 1)), float(_ALL_SIZES)
    while size * _SIZE_RATIO < count:
        size *= _SIZE_RATIO
        sizes.append(int(np.ceil(size)))
    return np.unique([*sizes, count])


def posterior_weights(model: FactorModel, panel: np.ndarray) -> np.ndarray:
    """Compute F, (r, q), where F x is the posterior mean given the panel x."""
    W, psi = model.W[panel], model.psi[panel]
    weighted = W / psi[:, None]
    return np.linalg.solve(np.eye(W.shape[1]) + W.T @ weighted, weighted.T)


def evaluate_path(
    op: Operator,
    fold: Fold,
    model: FactorModel,
    order: np.ndarray,
    squares: np.ndarray,
    communality: np.ndarray,
    sizes: np.ndarray,
) -> FoldPath:
    """Evaluate the first variables of ``order`` in the held-out rows of a fold.

    ``squares`` (p,) are the sums of squares of these rows, ``communality`` (p,) is the proportion
    of each column that all others predict, and ``sizes`` are in non-decreasing order.
    """
    held_out = fold.held_out
    columns = dense_columns(op, order)[held_out] - fold.mean[order]
    projections = project_some_rows(op, model.W, held_out) - fold.mean @ model.W  # W'x
    A = model.W.T @ model.W
    total = float(squares.sum())
    S, m = np.eye(A.shape[0]), np.zeros_like(projections)
    results = []
    panel_squares, attainable = 0.0, float(communality @ squares)
    for q, k in enumerate(order.tolist(), start=1):
        w = model.W[k]
        Sw = S @ w
        variance = model.psi[k] + w @ Sw
        m = m + np.outer((columns[:, q - 1] - m @ w) / variance, Sw)
        S = S - np.outer(Sw, Sw) / variance
        panel_squares += squares[k]
        attainable -= communality[k] * squares[k]
        n_repeats = int(np.sum(sizes == q))
        if n_repeats:
            residual = total - 2.0 * np.sum(m * projections) + np.sum((m @ A) * m)
            residual -= np.sum((columns[:, :q] - m @ model.W[order[:q]].T) ** 2)
            r2 = 1.0 - residual / total if total > 0.0 else 0.0
            results += n_repeats * [(r2, total - panel_squares - residual, attainable)]
    r2s, explained, attained = np.array(results).T
    return FoldPath(r2s, explained, attained, order)


def evaluate_panel(
    op: Operator,
    folds: list[Fold],
    models: list[FactorModel],
    panel: np.ndarray,
    squares: np.ndarray,
    seed: int,
) -> PanelEvaluation:
    """Evaluate a panel for each column in the held-out rows of the folds.

    ``squares`` (n_folds, p) are the sums of squares of these rows. ``seed`` determines the sample
    of columns that calibrates the prediction intervals.
    """
    others = np.setdiff1d(np.arange(op.shape[1]), panel)
    sample = np.sort(np.random.default_rng(seed).permutation(others)[:_MAX_SAMPLED_COLUMNS])
    panel_columns, sample_columns = dense_columns(op, panel), dense_columns(op, sample)

    def evaluate(fold: Fold, model: FactorModel, squares: np.ndarray) -> tuple[np.ndarray, ...]:
        """Compute residual squares of all columns, and residuals of the sample."""
        held_out, W = fold.held_out, model.W
        x = panel_columns[held_out] - fold.mean[panel]
        m = x @ posterior_weights(model, panel).T
        cross = project_columns(op, m, held_out) - np.outer(fold.mean, m.sum(axis=0))
        residual_squares = squares - 2.0 * np.einsum("pr,pr->p", cross, W)
        residual_squares += np.einsum("pr,pr->p", W @ (m.T @ m), W)
        residual_squares[panel] = 0.0
        sampled = sample_columns[held_out] - fold.mean[sample] - m @ W[sample].T
        return np.maximum(residual_squares, 0.0), sampled

    parts = run_parallel(
        op, [partial(evaluate, *fold) for fold in zip(folds, models, squares, strict=True)]
    )
    residuals = np.stack([part[0] for part in parts])
    r2 = 1.0 - residuals.sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300)
    n_rows = [int(fold.held_out.sum()) for fold in folds]
    factor = _interval_factor([part[1] for part in parts], residuals[:, sample], n_rows)
    residual_std = factor * np.sqrt(residuals.sum(axis=0) / sum(n_rows))
    return PanelEvaluation(r2, residual_std)


def evaluate_rows(
    op: Operator, folds: list[Fold], models: list[FactorModel], panels: list[np.ndarray]
) -> np.ndarray:
    """Compute the residual and the total sum of squares of each row, (n, 2).

    Each held-out row is predicted from the panel of its fold by the model of its fold.
    """
    row_squares, by_row = _row_squares(op), np.zeros((op.shape[0], 2))
    for fold, model, panel in zip(folds, models, panels, strict=True):
        held_out, W = fold.held_out, model.W
        x = dense_columns(op, panel)[held_out] - fold.mean[panel]
        m = x @ posterior_weights(model, panel).T
        projections = project_some_rows(op, np.column_stack([W, fold.mean]), held_out)
        shift = np.append(fold.mean @ W, fold.mean @ fold.mean)
        total = row_squares[held_out] - 2.0 * projections[:, -1] + shift[-1]
        residual = total - 2.0 * np.sum(m * (projections[:, :-1] - shift[:-1]), axis=1)
        residual += np.sum((m @ (W.T @ W)) * m, axis=1)
        residual -= np.sum((x - m @ W[panel].T) ** 2, axis=1)
        by_row[held_out] += np.stack([residual, total], axis=1)
    return by_row


def _interval_factor(
    residuals: list[np.ndarray], residual_squares: np.ndarray, n_rows: list[int]
) -> float:
    """Compute the factor that calibrates the standard deviations.

    As for new rows, residuals of each fold are divided by the standard deviations of the other
    folds. The factor accounts for heavy tails, zeros and small samples.
    """
    if not residuals[0].size:
        return 1.0
    total, n_total = residual_squares.sum(axis=0), sum(n_rows)
    ratios = []
    for fold_residuals, fold_squares, n_fold in zip(
        residuals, residual_squares, n_rows, strict=True
    ):
        variance = (total - fold_squares) / max(n_total - n_fold, 1)
        ratios.append(np.abs(fold_residuals) / np.sqrt(np.maximum(variance, 1e-300)))
    return float(np.quantile(np.concatenate(ratios), 0.95)) / NORMAL_QUANTILE


def _row_squares(op: Operator) -> np.ndarray:
    """Compute the squared norm of each row, (n,)."""
    xp = op.xp
    rows = op.gather_rows(lambda block: xp.sum(block * block, axis=1), entrywise=True)
    return np.asarray(to_numpy(rows).astype(float))
