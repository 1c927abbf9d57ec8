"""Algorithm of `Panel`: small set of variables that predicts all others.

1. A factor model is estimated whose common variances and communalities are those of held-out rows
   (`folds`, `factors`).
2. The covariance of the factor model is mixed with the empirical one. The weight is selected by the
   held-out R2 of its panels (`choose_guide`).
3. Variables are selected greedily and swapped (`greedy`); the best set of few columns is found
   exactly (`best_subset`). Among variables with similar gains, those with larger variance are
   preferred (`variance_weighting`).
4. Panels of increasing size are evaluated in held-out rows, each selected without these rows
   (`heldout_r2`). The results determine the size of the panel.
5. The scores are the principal components of the reconstruction of all variables by the panel.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...data import DenseOperator, Operator
from .conformal import Calibration, calibrate_on_folds
from .cross_validation import CrossValidatedModel, cross_validate, fold_model_tasks
from .factors import mix_covariances, rescale_loadings
from .folds import dense_columns, run_parallel
from .greedy import Constraints, Selection, admissible_sizes, select_greedily, total_gain
from .guide import SMALL_TABLE, Guide, SelectionTask, choose_guide
from .heldout_r2 import PanelEvaluation, evaluate_panel, evaluate_rows
from .panel_size import Path, combine_folds, smallest_sufficient_size
from .score_model import ScoreModel, assign_proxies, build_score_model, model_covariance
from .variance_weighting import variance_weights

MAX_SIZE = 300  # maximum size of a panel that `target_recovery` determines
MAX_COPIED_ENTRIES = 50_000_000  # maximum size of Dask or sparse data that are copied to memory
PLAUSIBLE_ERRORS = 2.0  # standard errors of the relative R2 within which a size is plausible


class Options(NamedTuple):
    """Parameters of `Panel`, for the columns of the operator."""

    constraints: Constraints
    has_given_size: bool  # otherwise, `target_recovery` determines the size
    target_recovery: float
    is_scaled: bool  # whether the columns have unit variance
    coverage: float  # of prediction intervals
    seed: int


class Solution(NamedTuple):
    """Result of a fit, for the columns of the operator."""

    cross_validated: CrossValidatedModel
    guide: Guide
    selection: Selection  # as long as the path
    panel: np.ndarray  # (q,) columns in the order of selection
    size_range: tuple[int, int]  # plausible sizes
    optimality_gap: float  # 1 - criterion / upper bound
    path: Path
    scores: ScoreModel
    panel_covariance: np.ndarray  # (q, q)
    evaluation: PanelEvaluation
    calibration: Calibration
    proxies: np.ndarray  # (p,) proxy of each column in the panel, or -1
    # (n, 2) residual and total sum of squares of each row by panels selected without it; None
    # without groups
    row_squares: np.ndarray | None


def solve(op: Operator, scale: np.ndarray, codes: np.ndarray | None, options: Options) -> Solution:
    """Select a panel from centred columns.

    ``scale`` (p,) are the standard deviations of the columns in the original units, and ``codes``
    (n,) are the groups within which columns are centred.
    """
    op = read_once(op)
    cross_validated = cross_validate(op, scale, codes, options.seed)
    constraints = options.constraints._replace(weights=_variance_weights(scale, op, options))
    if not options.has_given_size:
        bundle_sizes = [bundle.size for bundle in constraints.bundles]
        max_size = max([MAX_SIZE, constraints.include.size, *bundle_sizes])
        constraints = constraints._replace(n_features=min(max_size, constraints.n_features))
    task = SelectionTask(constraints, options.has_given_size)
    factor_models = run_parallel(
        op, fold_model_tasks(op, scale, codes, cross_validated, options.seed)
    )
    guide = choose_guide(op, cross_validated, factor_models, task)
    model = mix_covariances(
        rescale_loadings(
            cross_validated.whole, cross_validated.communality, cross_validated.variances
        ),
        cross_validated.whole_fold,
        cross_validated.variances,
        guide.weight,
    )
    task = task.with_weight(guide.weight)
    selection = select_greedily(model, task.constraints)
    panel = selection.order
    n_repeats = cross_validated.n_repeats
    path = combine_folds(
        guide.fold_paths, cross_validated.squares, constraints.n_features, n_repeats
    )
    path = path.shorten(panel.size)
    size_range = (panel.size, panel.size)
    if not options.has_given_size:
        sizes, target = admissible_sizes(panel, constraints), options.target_recovery
        size_range = (
            smallest_sufficient_size(path, target, sizes, PLAUSIBLE_ERRORS),
            smallest_sufficient_size(path, target, sizes, -PLAUSIBLE_ERRORS),
        )
        panel = panel[: smallest_sufficient_size(path, target, sizes)]
    panel, bound = task.certify(model, selection._replace(order=panel))
    gain = total_gain(model, panel)
    evaluation = evaluate_panel(
        op,
        cross_validated.folds,
        [fold_model.model for fold_model in guide.fold_models],
        panel,
        cross_validated.squares,
        options.seed,
    )
    # The first repetition holds out each row once.
    n_folds = len(guide.fold_models) // n_repeats
    calibration = calibrate_on_folds(
        op,
        cross_validated.folds[:n_folds],
        [fold_model.model for fold_model in guide.fold_models[:n_folds]],
        panel,
        options.coverage,
        options.seed,
    )
    return Solution(
        cross_validated=cross_validated,
        guide=guide,
        selection=selection,
        panel=panel,
        size_range=size_range,
        optimality_gap=max(1.0 - gain / bound, 0.0) if bound > 0.0 else 0.0,
        path=path,
        scores=build_score_model(model, panel),
        panel_covariance=model_covariance(model, panel),
        evaluation=evaluation,
        calibration=calibration,
        proxies=assign_proxies(model, panel, evaluation.r2, guide.communality),
        row_squares=None if codes is None else evaluate_fold_panels(op, guide, panel.size),
    )


def _variance_weights(scale: np.ndarray, op: Operator, options: Options) -> np.ndarray | None:
    """Return variance weights if scaling removed the variances.

    Small tables, in which the covariance is accurate, require no weights.
    """
    if not options.is_scaled or op.shape[1] <= SMALL_TABLE:
        return None
    return variance_weights(scale, op.shape[0])


def evaluate_fold_panels(op: Operator, guide: Guide, size: int) -> np.ndarray:
    """Evaluate panels that were selected without the held-out rows, (n, 2)."""
    return evaluate_rows(
        op,
        [fold_model.fold for fold_model in guide.fold_models],
        [fold_model.model for fold_model in guide.fold_models],
        [path.order[:size] for path in guide.fold_paths],
    )


def read_once(op: Operator) -> Operator:
    """Copy small data that are read in blocks to memory."""
    if op.whole is not None or op.shape[0] * op.shape[1] > MAX_COPIED_ENTRIES:
        return op
    return DenseOperator(dense_columns(op, np.arange(op.shape[1])))
