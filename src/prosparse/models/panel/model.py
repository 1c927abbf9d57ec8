"""Selection of a panel: a small set of variables that predicts all others.

1. A factor model is estimated whose common variances and communalities are those of held-out rows
   (`folds`, `factors`).
2. Variables are selected greedily (`greedy`); among variables with similar gains, those with larger
   variance are preferred (`variance_weighting`).
3. Panels of increasing size are evaluated in held-out rows, each selected without these rows
   (`heldout_r2`). The result determines the size of the panel.
4. The scores are the principal components of the reconstruction of all variables by the panel.
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
    decompose_folds,
    decompose_from_outer,
    has_few_rows,
    held_out_squares,
    run_parallel,
    split_rows,
)
from .greedy import (
    Constraints,
    Criterion,
    Selection,
    admissible_sizes,
    select_greedily,
    swap_variables,
)
from .heldout_r2 import (
    FoldPath,
    PanelEvaluation,
    evaluate_panel,
    evaluate_path,
    evaluated_sizes,
    posterior_weights,
)
from .variance_weighting import variance_weights

MAX_SIZE = 300  # maximum size of a panel that `target_recovery` determines
# Number of folds; small samples have larger training sets.
N_FOLDS, N_FOLDS_SMALL, SMALL_SAMPLE = 5, 10, 100
# Number of inner folds, within the training rows of a fold.
N_INNER_FOLDS, N_INNER_FOLDS_SMALL = 2, 4
# A variable has a proxy if the panel explains at least these proportions of its communality and of
# its variance.
_MIN_PROXY_RECOVERY = 0.5
_MIN_PROXY_R2 = 0.05
_ROUNDING = 1e-12  # proportion of the sum of squares of all held-out rows


class Options(NamedTuple):
    """Parameters of `Panel`, for the columns of the operator."""

    n_features: int | None  # None: determined by `target_recovery`
    target_recovery: float
    criterion: Criterion
    include: np.ndarray  # (k,) indices
    allowed: np.ndarray  # (p,) bool
    costs: np.ndarray  # (p,)
    bundles: list[np.ndarray]
    is_scaled: bool  # whether the columns have unit variance
    seed: int


class CrossValidatedModel(NamedTuple):
    """Factor models of some rows and of their folds."""

    variances: np.ndarray  # (p,)
    folds: list[Fold]
    squares: np.ndarray  # (n_folds, p) of the held-out rows
    whole: FactorModel  # of all rows
    fold_models: list[FactorModel]  # of the training rows of each fold
    residuals: np.ndarray  # (n_folds, p) sums of squared residuals given all other columns
    communality: np.ndarray  # (p,) in held-out rows


class FoldModel(NamedTuple):
    """Model for the selection in the training rows of a fold."""

    fold: Fold
    squares: np.ndarray  # (p,) of the held-out rows
    model: FactorModel


class Path(NamedTuple):
    """Results of panels with 1, 2, ... variables in held-out rows."""

    r2: np.ndarray  # (q,) of all columns
    r2_std: np.ndarray  # (q,) standard deviation over the folds
    relative_r2: np.ndarray  # (q,) of the other columns, relative to all columns as predictors


class ScoreModel(NamedTuple):
    """Linear maps from the panel to scores and from scores to all columns."""

    weights: np.ndarray  # (d, q)
    loadings: np.ndarray  # (d, p) orthonormal rows
    variances: np.ndarray  # (d,) of the scores, in decreasing order


class Solution(NamedTuple):
    """Result of a fit, for the columns of the operator."""

    cross_validated: CrossValidatedModel
    selection: Selection  # as long as the path
    panel: np.ndarray  # (q,) columns in the order of selection
    path: Path
    scores: ScoreModel
    evaluation: PanelEvaluation
    proxies: np.ndarray  # (p,) proxy of each column in the panel, or -1


def solve(op: Operator, scale: np.ndarray, codes: np.ndarray | None, options: Options) -> Solution:
    """Select a panel.

    Parameters
    ----------
    op : Operator
        Data matrix with centred columns.
    scale : ndarray of shape (p,)
        Standard deviations of the columns in their original units.
    codes : int ndarray of shape (n,) or None
        Groups of the rows, within which the columns are centred.
    options : Options

    Returns
    -------
    Solution
    """
    cross_validated = cross_validate(op, scale, codes, options.seed)
    limit = int(options.allowed.sum()) + int(np.sum(~options.allowed[options.include]))
    max_size = max([MAX_SIZE, options.include.size, *(bundle.size for bundle in options.bundles)])
    constraints = Constraints(
        min(max_size if options.n_features is None else options.n_features, limit),
        options.include,
        options.allowed,
        options.costs,
        options.bundles,
        _variance_weights(scale, op, options),
    )
    model = rescale_loadings(
        cross_validated.whole, cross_validated.communality, cross_validated.variances
    )
    selection, *fold_models = run_parallel(
        op,
        [
            partial(select_greedily, model, constraints, options.criterion),
            *fold_model_tasks(op, scale, codes, cross_validated, options.seed),
        ],
    )

    def improve(panel: np.ndarray) -> np.ndarray:
        shortened = selection._replace(order=panel)
        return swap_variables(model, shortened, constraints, options.criterion).order

    panel, count = selection.order, selection.order.size
    tasks = [
        partial(
            select_and_evaluate,
            op,
            cross_validated.communality,
            fold_model,
            constraints,
            options.criterion,
            count,
        )
        for fold_model in fold_models
    ]
    if options.n_features is None:
        path = combine_folds(run_parallel(op, tasks), cross_validated.squares, count)
        sizes = admissible_sizes(panel, constraints)
        panel = improve(panel[: smallest_sufficient_size(path, options.target_recovery, sizes)])
    else:
        panel, *fold_paths = run_parallel(op, [partial(improve, panel), *tasks])
        path = combine_folds(fold_paths, cross_validated.squares, count)
    evaluation = evaluate_panel(
        op,
        cross_validated.folds,
        [fold_model.model for fold_model in fold_models],
        panel,
        cross_validated.squares,
        options.seed,
    )
    return Solution(
        cross_validated=cross_validated,
        selection=selection,
        panel=panel,
        path=path,
        scores=build_score_model(model, panel),
        evaluation=evaluation,
        proxies=assign_proxies(model, panel, evaluation.r2, cross_validated.communality),
    )


def _variance_weights(scale: np.ndarray, op: Operator, options: Options) -> np.ndarray | None:
    """Return variance weights if scaling removed the variances.

    Not for information: its bound holds for unweighted greedy selection.
    """
    if not options.is_scaled or options.criterion == "information":
        return None
    return variance_weights(scale, op.shape[0])


def cross_validate(
    op: Operator, scale: np.ndarray, codes: np.ndarray | None, seed: int
) -> CrossValidatedModel:
    """Estimate factor models of all rows and of the folds."""
    all_rows = np.ones(op.shape[0], dtype=bool)
    n_folds = N_FOLDS_SMALL if op.shape[0] <= SMALL_SAMPLE else N_FOLDS
    splits = split_rows(all_rows, n_folds, codes, seed)
    whole, *folds = decompose_folds(op, [Split(all_rows, ~all_rows), *splits])
    return estimate_models(op, scale, whole, folds)


def estimate_models(
    op: Operator, scale: np.ndarray, whole: Fold, folds: list[Fold]
) -> CrossValidatedModel:
    """Estimate factor models, and communalities in the held-out rows of the folds."""
    variances = to_numpy(op.column_squares()).astype(float) / op.shape[0]
    squares = held_out_squares(op, folds)
    common = estimate_common_variances(whole, folds, squares, variances)
    fold_models = run_parallel(
        op, [partial(build_factor_model, fold, common, variances) for fold in folds]
    )
    residuals = leave_one_out_residuals(op, folds, squares, fold_models)
    n_held_out = sum(int(fold.held_out.sum()) for fold in folds)
    return CrossValidatedModel(
        variances=variances,
        folds=folds,
        squares=squares,
        whole=build_factor_model(whole, common, variances),
        fold_models=fold_models,
        residuals=residuals,
        communality=shrink_communalities(pooled_r2(residuals, squares), scale, n_held_out),
    )


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
    estimates are then repeated in the training rows. Otherwise communalities come from the other
    folds: their models have used these rows, which is negligible if there are many rows.
    """
    numbers = range(len(cross_validated.folds))
    if not has_few_rows(op):
        return [partial(_model_from_other_folds, scale, cross_validated, k) for k in numbers]
    outer = to_numpy(op.outer()).astype(float)
    n_folds = N_INNER_FOLDS_SMALL if op.shape[0] <= SMALL_SAMPLE else N_INNER_FOLDS

    def estimate(k: int) -> FoldModel:
        fold = cross_validated.folds[k]
        splits = split_rows(fold.training, n_folds, codes, seed)
        inner = estimate_models(op, scale, fold, decompose_from_outer(op, outer, splits))
        model = rescale_loadings(inner.whole, inner.communality, inner.variances)
        return FoldModel(fold, cross_validated.squares[k], model)

    return [partial(estimate, k) for k in numbers]


def _model_from_other_folds(
    scale: np.ndarray, cross_validated: CrossValidatedModel, k: int
) -> FoldModel:
    """Estimate communalities in the held-out rows of all folds but one."""
    n_held_out = sum(int(fold.held_out.sum()) for fold in cross_validated.folds)
    others = np.arange(len(cross_validated.folds)) != k
    r2 = pooled_r2(cross_validated.residuals[others], cross_validated.squares[others])
    model = rescale_loadings(
        cross_validated.fold_models[k],
        shrink_communalities(r2, scale, n_held_out),
        cross_validated.variances,
    )
    return FoldModel(cross_validated.folds[k], cross_validated.squares[k], model)


def select_and_evaluate(
    op: Operator,
    communality: np.ndarray,
    fold_model: FoldModel,
    constraints: Constraints,
    criterion: Criterion,
    count: int,
) -> FoldPath:
    """Select up to ``count`` variables without the held-out rows and evaluate them there."""
    fold, squares, model = fold_model
    order = select_greedily(model, constraints, criterion).order[:count]
    # If bundles prevent a panel of this size in a fold, its largest panel is used.
    sizes = np.minimum(evaluated_sizes(count), order.size)
    return evaluate_path(op, fold, model, order, squares, communality, sizes)


def combine_folds(fold_paths: list[FoldPath], squares: np.ndarray, count: int) -> Path:
    """Combine the folds and interpolate between the evaluated sizes.

    ``squares``, (n_folds, p), are the sums of squares of the held-out rows.
    """
    r2 = np.stack([path.r2 for path in fold_paths])
    explained = np.sum([path.explained for path in fold_paths], axis=0)
    attainable = np.sum([path.attainable for path in fold_paths], axis=0)
    total = float(squares.sum())
    relative = np.where(attainable > 1e-9 * total, explained / np.maximum(attainable, 1e-300), 1.0)
    sizes, steps = evaluated_sizes(count), np.arange(1, count + 1)
    weights = squares.sum(axis=1) / total
    # R2 is not defined if all held-out rows of a fold are at the mean, up to rounding.
    varying = r2[weights > _ROUNDING]
    r2_std = varying.std(axis=0, ddof=1) if len(varying) > 1 else np.zeros(r2.shape[1])
    return Path(
        np.interp(steps, sizes, weights @ r2),
        np.interp(steps, sizes, r2_std),
        np.interp(steps, sizes, relative),
    )


def smallest_sufficient_size(path: Path, target: float, sizes: np.ndarray) -> int:
    """Return the smallest admissible size whose relative R2 reaches the target, or the largest."""
    sufficient = sizes[path.relative_r2[sizes - 1] >= target]
    return int(sufficient[0]) if sufficient.size else int(sizes[-1])


def build_score_model(model: FactorModel, panel: np.ndarray) -> ScoreModel:
    """Compute the principal components of the reconstruction by the panel.

    Given the panel, z has the posterior mean F x with covariance H = F Sigma F' = I - S. The
    reconstruction of all columns, W F x, has the covariance W H W'. The loadings are its
    eigenvectors.
    """
    F = posterior_weights(model, panel)
    W = model.W[panel]
    H = F @ (W @ W.T + np.diag(model.psi[panel])) @ F.T
    eigenvalues, vectors = np.linalg.eigh(0.5 * (H + H.T))
    is_positive = _is_positive(eigenvalues)
    is_positive &= np.arange(eigenvalues.size) >= eigenvalues.size - panel.size
    eigenvalues, vectors = eigenvalues[is_positive], vectors[:, is_positive]
    root = vectors * np.sqrt(eigenvalues)  # H = root root'
    W_root = model.W @ root
    variances, rotation = np.linalg.eigh(W_root.T @ W_root)
    variances, rotation = variances[::-1], rotation[:, ::-1]
    is_positive = _is_positive(variances)
    variances, rotation = variances[is_positive], rotation[:, is_positive]
    loadings = (W_root @ rotation / np.sqrt(variances)).T
    whitening = (vectors / np.sqrt(eigenvalues)).T @ F
    weights = np.sqrt(variances)[:, None] * (rotation.T @ whitening)
    largest = loadings[np.arange(variances.size), np.argmax(np.abs(loadings), axis=1)]
    sign = np.where(largest < 0.0, -1.0, 1.0)[:, None]
    return ScoreModel(sign * weights, sign * loadings, variances)


def _is_positive(eigenvalues: np.ndarray) -> np.ndarray:
    """Return which eigenvalues are positive, up to rounding."""
    return np.asarray(eigenvalues > 1e-9 * max(float(np.max(eigenvalues, initial=0.0)), 1e-300))


def assign_proxies(
    model: FactorModel, panel: np.ndarray, r2: np.ndarray, communality: np.ndarray
) -> np.ndarray:
    """Assign to each column the column of the panel with the largest model correlation.

    Columns that the panel predicts poorly have no proxy, -1. Columns of the panel are their own
    proxies.
    """
    W = model.W / np.sqrt(model.psi + np.sum(model.W**2, axis=1))[:, None]
    closest = panel[np.argmax(np.abs(W @ W[panel].T), axis=1)]
    is_predicted = (r2 >= _MIN_PROXY_RECOVERY * communality) & (r2 >= _MIN_PROXY_R2)
    proxies = np.where(is_predicted, closest, -1)
    proxies[panel] = panel
    return proxies
