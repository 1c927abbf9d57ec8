"""Factor models of all rows and of the training rows of each fold.

The common variances and communalities of the models are estimated in the held-out rows (`folds`,
`factors`).
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Operator
from ...data.arrays import to_numpy
from .factors import (
    FactorModel,
    build_factor_model,
    estimate_common_variances,
    leave_one_out_residuals,
    rescale_loadings,
    shrink_communalities,
)
from .folds import (
    Fold,
    Split,
    can_hold_out_groups,
    decompose_folds,
    decompose_from_outer,
    has_few_rows,
    held_out_squares,
    run_parallel,
    split_rows,
)

# Number of folds; small samples have larger training sets.
N_FOLDS, N_FOLDS_SMALL, SMALL_SAMPLE = 5, 10, 100
# Number of repetitions of cross-validation, and maximum number of entries in all of them.
N_REPEATS, MAX_REPEATED_ENTRIES = 10, 100_000
# Number of inner folds, within the training rows of a fold.
N_INNER_FOLDS, N_INNER_FOLDS_SMALL = 2, 4


class CrossValidatedModel(NamedTuple):
    """Factor models of some rows and of their folds."""

    variances: np.ndarray  # (p,)
    folds: list[Fold]
    squares: np.ndarray  # (n_folds, p) of the held-out rows
    whole_fold: Fold  # components of all rows
    whole: FactorModel  # of all rows
    fold_models: list[FactorModel]  # of the training rows of each fold
    residuals: np.ndarray  # (n_folds, p) sums of squared residuals given all other columns
    shrink: Callable[[np.ndarray], np.ndarray]  # shrinks measured communalities, (p,)
    communality: np.ndarray  # (p,) in held-out rows
    n_repeats: int  # of cross-validation


class FoldModel(NamedTuple):
    """Model for the selection in the training rows of a fold."""

    fold: Fold
    squares: np.ndarray  # (p,) of the held-out rows
    model: FactorModel


def cross_validate(
    op: Operator,
    scale: np.ndarray,
    codes: np.ndarray | None,
    seed: int,
    n_repeats: int | None = None,
) -> CrossValidatedModel:
    """Estimate factor models of all rows and of the folds."""
    all_rows = np.ones(op.shape[0], dtype=bool)
    n_folds = N_FOLDS_SMALL if op.shape[0] <= SMALL_SAMPLE else N_FOLDS
    if n_repeats is None:
        n_repeats = count_repeats(op, codes, n_folds)
    splits = [split_rows(all_rows, n_folds, codes, seed + repeat) for repeat in range(n_repeats)]
    # The components of all rows are the initial values for those of the folds.
    whole, *folds = decompose_folds(op, [Split(all_rows, ~all_rows), *splits[0]])
    for others in splits[1:]:
        folds += decompose_folds(op, others)
    return estimate_models(op, scale, whole, folds)._replace(n_repeats=n_repeats)


def count_repeats(op: Operator, codes: np.ndarray | None, n_folds: int) -> int:
    """Return the number of repetitions of cross-validation.

    Cross-validation is repeated for small tables only.

    Folds that each hold out one group are not random and are not repeated.
    """
    n, p = op.shape
    is_fixed = codes is not None and can_hold_out_groups(codes) and codes.max() < n_folds
    if has_few_rows(op) or is_fixed:
        return 1
    return int(np.clip(MAX_REPEATED_ENTRIES // (n * p), 1, N_REPEATS))


def estimate_models(
    op: Operator, scale: np.ndarray, whole: Fold, folds: list[Fold]
) -> CrossValidatedModel:
    """Estimate factor models and held-out communalities."""
    variances = to_numpy(op.column_squares()).astype(float) / op.shape[0]
    squares = held_out_squares(op, folds)
    common = estimate_common_variances(whole, folds, squares, variances)
    fold_models = run_parallel(
        op, [partial(build_factor_model, fold, common, variances) for fold in folds]
    )
    residuals = leave_one_out_residuals(op, folds, squares, fold_models)
    shrink = partial(shrink_communalities, scale=scale, n=count_held_out(folds))
    return CrossValidatedModel(
        variances=variances,
        folds=folds,
        squares=squares,
        whole_fold=whole,
        whole=build_factor_model(whole, common, variances),
        fold_models=fold_models,
        residuals=residuals,
        shrink=shrink,
        communality=shrink(pooled_r2(residuals, squares)),
        n_repeats=1,
    )


def count_held_out(folds: list[Fold]) -> int:
    """Count the rows that are held out at least once."""
    return int(np.any([fold.held_out for fold in folds], axis=0).sum())


def pooled_r2(residuals: np.ndarray, squares: np.ndarray) -> np.ndarray:
    """Compute R2 of each column over some folds, (p,)."""
    return np.asarray(1.0 - residuals.sum(axis=0) / np.maximum(squares.sum(axis=0), 1e-300))


def fold_model_tasks(
    op: Operator,
    scale: np.ndarray,
    codes: np.ndarray | None,
    cross_validated: CrossValidatedModel,
    seed: int,
) -> list[Callable[[], FoldModel]]:
    """Return tasks that estimate a model for each fold without its held-out rows.

    With few rows and many columns, communalities overfit the rows in which they are measured. All
    estimates are then repeated in the training rows. Otherwise, communalities come from the other
    folds. Their models have used the held-out rows, but the effect is negligible if there are many
    rows.
    """
    numbers = range(len(cross_validated.folds))
    if not has_few_rows(op):
        return [partial(_model_from_other_folds, cross_validated, k) for k in numbers]
    outer = to_numpy(op.outer()).astype(float)
    n_folds = N_INNER_FOLDS_SMALL if op.shape[0] <= SMALL_SAMPLE else N_INNER_FOLDS

    def estimate(k: int) -> FoldModel:
        fold = cross_validated.folds[k]
        splits = split_rows(fold.training, n_folds, codes, seed)
        inner = estimate_models(op, scale, fold, decompose_from_outer(op, outer, splits))
        model = rescale_loadings(inner.whole, inner.communality, inner.variances)
        return FoldModel(fold, cross_validated.squares[k], model)

    return [partial(estimate, k) for k in numbers]


def _model_from_other_folds(cross_validated: CrossValidatedModel, k: int) -> FoldModel:
    """Estimate communalities in the held-out rows of all folds but one."""
    others = np.arange(len(cross_validated.folds)) != k
    r2 = pooled_r2(cross_validated.residuals[others], cross_validated.squares[others])
    model = rescale_loadings(
        cross_validated.fold_models[k], cross_validated.shrink(r2), cross_validated.variances
    )
    return FoldModel(cross_validated.folds[k], cross_validated.squares[k], model)
