"""Covariance used for the selection of the panel.

The covariance is a weighted mean of the covariance of the factor model and the empirical
covariance. Panels are selected with each weight in all folds and evaluated in the held-out rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import Operator
from .best_subset import MAX_COLUMNS, find_best_subset
from .cross_validation import CrossValidatedModel, FoldModel, pooled_r2
from .factors import FactorModel, leave_one_out_residuals, mix_covariances, set_variances
from .folds import run_parallel
from .greedy import Constraints, Selection, order_greedily, select_greedily, swap_variables
from .heldout_r2 import FoldPath, evaluate_path, evaluated_sizes

EMPIRICAL_WEIGHTS = (0.0, 0.5, 0.8, 0.95, 1.0)  # of the empirical covariance, see `choose_guide`
MIN_ROWS_PER_COLUMN = 2  # minimum ratio at which large tables use the empirical covariance
SMALL_TABLE = 100  # number of columns up to which all weights and swaps are evaluated in folds


class SelectionTask(NamedTuple):
    """Constraints of a selection, and whether its size is given."""

    constraints: Constraints
    has_given_size: bool

    def with_weight(self, weight: float) -> SelectionTask:
        """Weaken the variance weights, given the weight of the empirical covariance.

        Variance weights compensate for errors of the factor model; an accurate covariance requires
        none.
        """
        weights = self.constraints.weights
        if weights is None:
            return self
        weights = None if weight == 1.0 else weights ** (1.0 - weight)
        return self._replace(constraints=self.constraints._replace(weights=weights))

    def improve(self, model: FactorModel, selection: Selection) -> Selection:
        """Improve the selection by swaps."""
        return swap_variables(model, selection, self.constraints)

    def certify(self, model: FactorModel, selection: Selection) -> tuple[np.ndarray, float]:
        """Find the best variables, and an upper bound on the criterion.

        The bound is that of `greedy` if there are too many columns for an exact search.
        """
        size = selection.order.size
        selection = self.improve(model, selection)
        if not self.is_exact(model.psi.size):
            return selection.order, float(selection.bounds[size - 1])
        found = find_best_subset(model, self.constraints, selection.order)
        ordered = order_greedily(model, found.variables, selection, self.constraints)
        return ordered.order, found.bound

    def is_exact(self, p: int) -> bool:
        """Return whether the best variables are found by an exact search."""
        costs, bundles = self.constraints.costs, self.constraints.bundles
        is_simple = not bundles and bool(np.all(costs == costs[0]))
        is_simple &= not self.constraints.limits_combinations
        return p <= MAX_COLUMNS and is_simple


class Guide(NamedTuple):
    """Covariance used for the selection, and results of its panels in the folds."""

    weight: float  # of the empirical covariance
    communality: np.ndarray  # (p,) in held-out rows
    r2: np.ndarray  # (n_folds,) held-out R2 by which guides are compared
    fold_models: list[FoldModel]
    fold_paths: list[FoldPath]


def choose_guide(
    op: Operator,
    cross_validated: CrossValidatedModel,
    factor_models: list[FoldModel],
    task: SelectionTask,
) -> Guide:
    """Select the weight of the empirical covariance by held-out R2.

    Panels are selected and evaluated in each fold with each weight. Among the weights within one
    standard error of the largest R2, the largest weight is selected if there are more rows than
    columns, otherwise the smallest. With many columns and few rows, the empirical covariance is not
    considered.
    """
    shares = cross_validated.squares.sum(axis=1)
    shares = shares / shares.sum()
    guides: list[Guide] = []
    scores: list[float] = []
    n, p = op.shape
    is_small = p <= SMALL_TABLE
    is_searched = is_small or n > MIN_ROWS_PER_COLUMN * p
    for weight in EMPIRICAL_WEIGHTS if is_searched else (0.0,):
        guides.append(evaluate_guide(op, cross_validated, factor_models, task, weight))
        scores.append(float(shares @ guides[-1].r2))
        if scores[-1] < max(scores) and not is_small:
            break  # R2 is unimodal in the weight, and further fits are slow
    best = guides[int(np.argmax(scores))]
    n_folds = len(best.r2) // cross_validated.n_repeats
    is_equivalent = []
    for guide in guides:
        difference = best.r2 - guide.r2
        standard_error = difference.std() / np.sqrt(max(n_folds - 1, 1))
        is_equivalent.append(float(shares @ difference) <= standard_error)
    index = np.flatnonzero(is_equivalent)
    return guides[int(index[-1 if n > p else 0])]


def evaluate_guide(
    op: Operator,
    cross_validated: CrossValidatedModel,
    factor_models: list[FoldModel],
    task: SelectionTask,
    weight: float,
) -> Guide:
    """Select panels in all folds with a weight of the empirical covariance."""
    variances = cross_validated.variances
    fold_models = [
        FoldModel(fold, squares, mix_covariances(model, fold, variances, weight))
        for fold, squares, model in factor_models
    ]
    communality = cross_validated.communality
    if weight > 0.0:
        models = [fold_model.model for fold_model in fold_models]
        squares = cross_validated.squares
        residuals = leave_one_out_residuals(op, cross_validated.folds, squares, models)
        communality = cross_validated.shrink(pooled_r2(residuals, squares))
    fold_task = task.with_weight(weight)
    fold_paths = run_parallel(
        op,
        [
            partial(select_and_evaluate, op, variances, communality, fold_model, fold_task)
            for fold_model in fold_models
        ],
    )
    r2 = np.array([path.r2[-1] if task.has_given_size else path.r2.mean() for path in fold_paths])
    return Guide(weight, communality, r2, fold_models, fold_paths)


def select_and_evaluate(
    op: Operator,
    variances: np.ndarray,
    communality: np.ndarray,
    fold_model: FoldModel,
    task: SelectionTask,
) -> FoldPath:
    """Select variables in the training rows; evaluate in the held-out rows."""
    fold, squares, model = fold_model
    # Columns are weighted by their variances in all rows, because a column that varies more in the
    # training rows varies less in the held-out rows.
    guide = set_variances(model, variances)
    selection = select_greedily(guide, task.constraints)
    if task.has_given_size and op.shape[1] <= SMALL_TABLE:
        selection = task.improve(guide, selection)
    order = selection.order
    # If bundles prevent a panel of this size in a fold, its largest panel is used.
    sizes = np.minimum(evaluated_sizes(task.constraints.n_features), order.size)
    return evaluate_path(op, fold, model, order, squares, communality, sizes)
