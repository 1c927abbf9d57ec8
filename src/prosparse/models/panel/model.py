"""Selection of a panel: a small set of variables that predicts all others.

1. A factor model is estimated whose common variances and communalities are those of held-out rows
   (`folds`, `factors`).
2. The covariance of the factor model is mixed with the empirical one. The weight is chosen by the
   held-out R2 of the panels that it selects (`choose_guide`).
3. Variables are selected greedily and swapped (`greedy`); the best set of few columns is found
   exactly (`best_subset`). Among variables with similar gains, those with larger variance are
   preferred (`variance_weighting`).
4. Panels of increasing size are evaluated in held-out rows, each selected without these rows
   (`heldout_r2`). The result determines the size of the panel.
5. The scores are the principal components of the reconstruction of all variables by the panel.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import numpy as np

from ...data import DenseOperator, Operator
from ...data.arrays import to_numpy
from .best_subset import MAX_COLUMNS, find_best_subset
from .conformal import Calibration, calibrate_on_folds
from .factors import (
    FactorModel,
    build_factor_model,
    estimate_common_variances,
    leave_one_out_residuals,
    mix_covariances,
    rescale_loadings,
    set_variances,
    shrink_communalities,
)
from .folds import (
    Fold,
    Split,
    can_hold_out_groups,
    decompose_folds,
    decompose_from_outer,
    dense_columns,
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
    order_greedily,
    select_greedily,
    swap_variables,
    total_gain,
)
from .heldout_r2 import (
    FoldPath,
    PanelEvaluation,
    evaluate_panel,
    evaluate_path,
    evaluate_rows,
    evaluated_sizes,
    posterior_weights,
)
from .variance_weighting import variance_weights

MAX_SIZE = 300  # maximum size of a panel that `target_recovery` determines
# Number of folds; small samples have larger training sets.
N_FOLDS, N_FOLDS_SMALL, SMALL_SAMPLE = 5, 10, 100
EMPIRICAL_WEIGHTS = (0.0, 0.5, 0.8, 0.95, 1.0)  # of the empirical covariance, see `choose_guide`
# Number of repetitions of cross-validation, and maximum number of entries in all of them.
N_REPEATS, MAX_REPEATED_ENTRIES = 10, 100_000
MAX_COPIED_ENTRIES = 50_000_000  # maximum size of Dask or sparse data that are copied to memory
PLAUSIBLE_ERRORS = 2.0  # standard errors of the relative R2 within which a size is plausible
MIN_ROWS_PER_COLUMN = 2  # minimum ratio for which large tables try the empirical covariance
SMALL_TABLE = 100  # number of columns up to which all weights and swaps are evaluated in folds
# Number of inner folds, within the training rows of a fold.
N_INNER_FOLDS, N_INNER_FOLDS_SMALL = 2, 4
# A variable has a proxy if the panel explains at least these proportions of its communality and of
# its variance.
_MIN_PROXY_RECOVERY = 0.5
_MIN_PROXY_R2 = 0.05
_ROUNDING = 1e-12  # proportion of the sum of squares of all held-out rows


class Options(NamedTuple):
    """Parameters of `Panel`, for the columns of the operator."""

    constraints: Constraints
    has_given_size: bool  # otherwise, `target_recovery` determines the size
    target_recovery: float
    criterion: Criterion
    is_scaled: bool  # whether the columns have unit variance
    coverage: float  # of prediction intervals
    seed: int


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


class Path(NamedTuple):
    """Results of panels with 1, 2, ... variables in held-out rows."""

    r2: np.ndarray  # (q,) of all columns
    r2_std: np.ndarray  # (q,) standard deviation over the folds
    relative_r2: np.ndarray  # (q,) of the other columns, relative to all columns as predictors
    relative_r2_std: np.ndarray  # (q,) standard error

    def shorten(self, size: int) -> Path:
        """Return the results of the first sizes."""
        return Path(*(values[:size] for values in self))


class ScoreModel(NamedTuple):
    """Linear maps from the panel to scores and from scores to all columns."""

    weights: np.ndarray  # (d, q)
    loadings: np.ndarray  # (d, p) orthonormal rows
    variances: np.ndarray  # (d,) of the scores, in decreasing order


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
    op = read_once(op)
    cross_validated = cross_validate(op, scale, codes, options.seed)
    constraints = options.constraints._replace(weights=_variance_weights(scale, op, options))
    if not options.has_given_size:
        bundle_sizes = [bundle.size for bundle in constraints.bundles]
        max_size = max([MAX_SIZE, constraints.include.size, *bundle_sizes])
        constraints = constraints._replace(n_features=min(max_size, constraints.n_features))
    task = SelectionTask(constraints, options.criterion, options.has_given_size)
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
    selection = select_greedily(model, task.constraints, task.criterion)
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
    gain = total_gain(model, panel, task.criterion)
    evaluation = evaluate_panel(
        op,
        cross_validated.folds,
        [fold_model.model for fold_model in guide.fold_models],
        panel,
        cross_validated.squares,
        options.seed,
    )
    # Each row is held out once in the first repetition.
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


def evaluate_fold_panels(op: Operator, guide: Guide, size: int) -> np.ndarray:
    """Evaluate in each held-out row the panel that was selected without it, (n, 2)."""
    return evaluate_rows(
        op,
        [fold_model.fold for fold_model in guide.fold_models],
        [fold_model.model for fold_model in guide.fold_models],
        [path.order[:size] for path in guide.fold_paths],
    )


def read_once(op: Operator) -> Operator:
    """Copy data that are read in blocks to memory if they are small, in one pass."""
    if op.whole is not None or op.shape[0] * op.shape[1] > MAX_COPIED_ENTRIES:
        return op
    return DenseOperator(dense_columns(op, np.arange(op.shape[1])))


class SelectionTask(NamedTuple):
    """What is selected: constraints, criterion, and whether the size is given."""

    constraints: Constraints
    criterion: Criterion
    has_given_size: bool

    def with_weight(self, weight: float) -> SelectionTask:
        """Reduce the variance weights by the weight of the empirical covariance.

        Variance weights compensate for errors of the factor model; an accurate covariance needs
        none.
        """
        weights = self.constraints.weights
        if weights is None:
            return self
        weights = None if weight == 1.0 else weights ** (1.0 - weight)
        return self._replace(constraints=self.constraints._replace(weights=weights))

    def improve(self, model: FactorModel, selection: Selection) -> Selection:
        """Swap variables."""
        return swap_variables(model, selection, self.constraints, self.criterion)

    def certify(self, model: FactorModel, selection: Selection) -> tuple[np.ndarray, float]:
        """Find the best variables, and an upper bound on the criterion of as many variables.

        The bound is that of `greedy` if there are too many columns for an exact search.
        """
        size = selection.order.size
        selection = self.improve(model, selection)
        if not self.is_exact(model.psi.size):
            return selection.order, float(selection.bounds[size - 1])
        found = find_best_subset(model, self.constraints, selection.order)
        ordered = order_greedily(
            model, found.variables, selection, self.constraints, self.criterion
        )
        return ordered.order, found.bound

    def is_exact(self, p: int) -> bool:
        """Return whether the best variables are found by an exact search."""
        costs, bundles = self.constraints.costs, self.constraints.bundles
        is_simple = not bundles and bool(np.all(costs == costs[0]))
        is_simple &= not self.constraints.limits_combinations
        return p <= MAX_COLUMNS and is_simple and self.criterion == "reconstruction"


class Guide(NamedTuple):
    """Covariance that guides the selection, and its panels in held-out rows."""

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
    """Choose the weight of the empirical covariance by the held-out R2 of the panels.

    Each weight selects and predicts in each fold. Among the weights within one standard error of
    the largest R2, the one that the shape of the data favours is chosen: the largest if there are
    more rows than columns, otherwise the smallest. With many columns and few rows, the empirical
    covariance is not considered, nor for information, which refers to the factors.
    """
    shares = cross_validated.squares.sum(axis=1)
    shares = shares / shares.sum()
    guides: list[Guide] = []
    scores: list[float] = []
    n, p = op.shape
    is_small = p <= SMALL_TABLE
    is_searched = is_small or n > MIN_ROWS_PER_COLUMN * p
    is_searched &= task.criterion == "reconstruction"
    for weight in EMPIRICAL_WEIGHTS if is_searched else (0.0,):
        guides.append(evaluate_guide(op, cross_validated, factor_models, task, weight))
        scores.append(float(shares @ guides[-1].r2))
        if scores[-1] < max(scores) and not is_small:
            break  # R2 has one maximum, and further weights take long
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


def _variance_weights(scale: np.ndarray, op: Operator, options: Options) -> np.ndarray | None:
    """Return variance weights if scaling removed the variances.

    Not for information, whose bound holds for unweighted greedy selection, and not for small
    tables, in which the covariance is accurate.
    """
    is_information = options.criterion == "information"
    if not options.is_scaled or is_information or op.shape[1] <= SMALL_TABLE:
        return None
    return variance_weights(scale, op.shape[0])


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
    # Components of all rows are a start for those of the folds.
    whole, *folds = decompose_folds(op, [Split(all_rows, ~all_rows), *splits[0]])
    for others in splits[1:]:
        folds += decompose_folds(op, others)
    return estimate_models(op, scale, whole, folds)._replace(n_repeats=n_repeats)


def count_repeats(op: Operator, codes: np.ndarray | None, n_folds: int) -> int:
    """Return how often cross-validation is repeated; small tables allow many repetitions.

    Folds that hold out one group each are not random.
    """
    n, p = op.shape
    is_fixed = codes is not None and can_hold_out_groups(codes) and codes.max() < n_folds
    if has_few_rows(op) or is_fixed:
        return 1
    return int(np.clip(MAX_REPEATED_ENTRIES // (n * p), 1, N_REPEATS))


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
    estimates are then repeated in the training rows. Otherwise communalities come from the other
    folds: their models have used these rows, which is negligible if there are many rows.
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


def select_and_evaluate(
    op: Operator,
    variances: np.ndarray,
    communality: np.ndarray,
    fold_model: FoldModel,
    task: SelectionTask,
) -> FoldPath:
    """Select variables without the held-out rows of a fold and evaluate them there."""
    fold, squares, model = fold_model
    # Columns count by their variance in all rows: a column that varies more in the training rows
    # varies less in the held-out ones.
    guide = set_variances(model, variances)
    selection = select_greedily(guide, task.constraints, task.criterion)
    if task.has_given_size and op.shape[1] <= SMALL_TABLE:
        selection = task.improve(guide, selection)
    order = selection.order
    # If bundles prevent a panel of this size in a fold, its largest panel is used.
    sizes = np.minimum(evaluated_sizes(task.constraints.n_features), order.size)
    return evaluate_path(op, fold, model, order, squares, communality, sizes)


def combine_folds(
    fold_paths: list[FoldPath], squares: np.ndarray, count: int, n_repeats: int = 1
) -> Path:
    """Combine the folds and interpolate between the evaluated sizes.

    ``squares``, (n_folds, p), are the sums of squares of the held-out rows. Repetitions of
    cross-validation reduce the noise of random folds, not that of the rows: standard errors are
    those of one repetition.
    """
    r2 = np.stack([path.r2 for path in fold_paths])
    explained = np.stack([path.explained for path in fold_paths])
    attainable = np.stack([path.attainable for path in fold_paths])
    total = float(squares.sum())
    mean_attainable = attainable.mean(axis=0)
    is_attainable = attainable.sum(axis=0) > 1e-9 * total
    divisor = np.where(is_attainable, mean_attainable, 1.0)
    relative = np.where(is_attainable, explained.mean(axis=0) / divisor, 1.0)
    # Standard error of a ratio of means, by linearisation.
    deviations = np.where(is_attainable, (explained - relative * attainable) / divisor, 0.0)
    n_folds = len(fold_paths) // n_repeats
    relative_std = np.sqrt(np.mean(deviations**2, axis=0) / max(n_folds - 1, 1))
    sizes, steps = evaluated_sizes(count), np.arange(1, count + 1)
    weights = squares.sum(axis=1) / total
    # R2 is not defined if all held-out rows of a fold are at the mean, up to rounding.
    varying = r2[weights > _ROUNDING]
    r2_std = varying.std(axis=0, ddof=1) if len(varying) > 1 else np.zeros(r2.shape[1])
    values = (weights @ r2, r2_std, relative, relative_std)
    return Path(*(np.interp(steps, sizes, value) for value in values))


def smallest_sufficient_size(
    path: Path, target: float, sizes: np.ndarray, n_errors: float = 1.0
) -> int:
    """Return the smallest admissible size whose relative R2 reaches the target, or the largest.

    The target is reached if it is within ``n_errors`` standard errors above the relative R2.
    """
    reached = path.relative_r2 + n_errors * path.relative_r2_std >= target
    sufficient = sizes[reached[sizes - 1]]
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


def model_covariance(model: FactorModel, columns: np.ndarray) -> np.ndarray:
    """Compute the covariance of some columns under the model."""
    W = model.W[columns]
    return np.asarray(W @ W.T + np.diag(model.psi[columns]))


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
