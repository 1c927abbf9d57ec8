"""Estimator class `Panel`: validation of parameters and fitted attributes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from ...data import (
    Array,
    Columns,
    Operator,
    container_of,
    stack_rows,
    standardise,
    take_columns,
)
from ...data.arrays import TableLike, as_like, from_numpy, is_floating, to_numpy
from ...data.column_groups import ColumnGroup
from ...data.containers import Table
from ...data.counts import hellinger, row_totals
from ...data.frames import data_frame
from ...data.row_groups import RowGroups, row_groups
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    ShortPanelWarning,
    check_bool,
    check_choice,
    check_integer,
    warn,
)
from .._base import SparseProjection, check_varying, seed_of
from .conformal import conformal_quantile, fit_exponent, min_calibration_rows, row_factor
from .folds import can_hold_out_groups, dense_columns, project_columns
from .greedy import Constraints, Criterion
from .heldout_r2 import NORMAL_QUANTILE
from .markers import marker_scores, select_markers
from .missing_values import complete_rows, observed_means
from .model import Options, Solution, solve
from .new_rows import NewRows
from .parameters import ColumnLimits, ColumnNames, build_constraints, check_limits

MIN_ROWS = 6  # minimum number of rows for cross-validation
# Deviations from group means below this multiple of the machine precision are rounding errors.
_ROUNDING = 1e3
_MIN_COMMUNALITY = 0.05  # a warning is issued if all communalities are smaller
# Maximum variance of a column of new rows, relative to its variance in `fit`, in `score`.
_MAX_VARIANCE_RATIO = 4.0
# `summary` names variables whose R2 is smaller than this, and at most so many.
_MAX_UNPREDICTED_R2, _MAX_NAMED = 0.1, 10


class Panel(SparseProjection):
    """Selection of a small panel of variables that predicts all others.

    Variables are selected greedily: each maximises the gain given the variables already selected,
    so that the panel contains few redundant variables. Among variables with similar gains, the one
    with the larger variance is preferred; standardise ``X`` if the units are not comparable. The
    prediction of all other variables is evaluated in held-out rows, with panels selected without
    these rows.

    Parameters
    ----------
    n_features_to_select : int or None, default=None
        Number of variables to select. None selects the smallest panel whose prediction of all other
        variables in held-out rows is within one standard error of ``target_recovery``.
    target_recovery : float, default=0.9
        Target of ``relative_r2_path_``, between 0 and 1. Not used if ``n_features_to_select`` is
        given.
    criterion : {"reconstruction", "information"}, default="reconstruction"
        Gain of a variable: reduction of the squared error of reconstructing all variables, or
        information about the factors. The latter is within 1 - 1/e of the optimum, and
        ``bound_path_`` bounds the difference. It is preferable for small panels selected from few
        rows, but reconstructs the variables less accurately.
    include : column names, positions or a mask, default=()
        Variables that are always selected, for example known markers. They come first.
    exclude : column names, positions or a mask, default=()
        Variables that are not selected. They are predicted like all others.
    costs : array-like of shape (n_features_in_,) or None, default=None
        Positive costs of the variables, by which the gains are divided.
    bundles : list of column groups or None, default=None
        Groups of variables that are selected together, each given as names, a slice or positions.
        Bundles are not split, so a panel may have fewer variables than ``n_features_to_select``.
        ``include`` and ``exclude`` apply to the whole bundle of a variable.
    conflicts : list of column groups or None, default=None
        Groups of variables of which at most one is selected, for example genes whose probes
        overlap.
    mean_range : tuple (low, high) or None, default=None
        Limits of the means of selected variables in their original units, for example of the
        expression of genes; None in the tuple sets no limit. ``include`` has priority.
    max_total : float or None, default=None
        Maximum sum of the means of the selected variables, the total signal of the panel.
    markers_per_label : int, default=0
        Number of markers of each label that the panel contains at least, for example of each cell
        type. Markers have their largest mean in the label. Requires ``labels`` in ``fit``.
    counts : bool, default=False
        Whether ``X`` contains counts (molecules of genes, words, species). Counts are replaced by
        the square roots of the proportions of their row, which stabilises the variance, and are not
        scaled. Sparse data stay sparse.
    coverage : float, default=0.95
        Probability with which the intervals of ``predict_unmeasured`` cover a value.
    random_state : int, RandomState instance or None, default=0
        Seed for the cross-validation folds and for draws of missing values.

    Attributes
    ----------
    order_ : int ndarray of shape (n_selected_,)
        Positions of the selected variables in the order of selection.
    support_ : bool ndarray of shape (n_features_in_,)
        Mask of the selected variables.
    n_selected_ : int
        Number of selected variables.
    heldout_r2_path_ : ndarray of shape (n_sizes,)
        Proportion of the variance of all variables explained in held-out rows by panels of
        1, 2, ... variables. Variables of the panel count as explained.
    heldout_r2_path_std_ : ndarray of shape (n_sizes,)
        Standard deviation of ``heldout_r2_path_`` over the folds.
    relative_r2_path_ : ndarray of shape (n_sizes,)
        Variance of the other variables predicted in held-out rows by these panels, relative to
        their prediction from all variables. Compared with ``target_recovery``.
    relative_r2_path_std_ : ndarray of shape (n_sizes,)
        Standard error of ``relative_r2_path_``.
    n_selected_range_ : int ndarray of shape (2,)
        Smallest sizes whose relative R2, plus and minus two standard errors, reaches
        ``target_recovery``. Both are ``n_selected_`` if ``n_features_to_select`` is given.
    bound_path_ : ndarray of shape (n_sizes,)
        Upper bound of the criterion for any 1, 2, ... variables.
    criterion_path_ : ndarray of shape (n_sizes,)
        Criterion of the first 1, 2, ... variables of the greedy selection. Swaps of variables may
        increase it further.
    optimality_gap_ : float
        One minus the criterion of the panel, relative to an upper bound for any panel of its size;
        0 if the panel is certified optimal. With at most 30 columns, equal costs and no bundles
        the search is exact.
    empirical_weight_ : float
        Weight of the empirical covariance in the covariance that guides the selection; the factor
        model has the remaining weight. It is selected by held-out R2.
    attainable_r2_ : float
        Proportion of the variance of a variable that all others predict in held-out rows, averaged
        over the variables.
    heldout_r2_ : ndarray of shape (n_features_in_,)
        Proportion of the variance of each variable that the panel predicts in held-out rows; 1 for
        variables of the panel.
    heldout_r2_by_group_ : dict
        Proportion of variance explained in the held-out rows of each group by panels of
        ``n_selected_`` variables that were selected without these rows; empty without groups.
    held_out_ : str
        "groups" if cross-validation holds out whole groups, otherwise "rows".
    communality_ : ndarray of shape (n_features_in_,)
        Proportion of the variance of each variable that all others predict in held-out rows.
    proxy_ : int ndarray of shape (n_features_in_,)
        Position of the selected variable that is the proxy of each variable; -1 for variables that
        the panel predicts poorly.
    components_ : ndarray of shape (n_components_, n_features_in_)
        Weights that map centred rows to scores; exact zeros for variables outside the panel.
    loadings_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal loadings that map scores to all variables.
    n_components_ : int
        Number of scores.
    explained_variance_ : ndarray of shape (n_components_,)
        Expected variances of the scores.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Expected variances of the scores as proportions of the variance of all variables.
    unmeasured_std_ : ndarray of shape (n_features_in_,)
        Standard deviations of the prediction errors in held-out rows, see ``predict_unmeasured``.
    interval_width_ : ndarray of shape (n_features_in_,)
        Half widths of the prediction intervals in an average row; zero for variables of the panel.
    heldout_coverage_ : ndarray of shape (n_features_in_,)
        Proportion of the held-out values of each variable that lie in its interval, calibrated
        without their fold; 1 for variables of the panel.
    heldout_coverage_by_error_ : ndarray of shape (5,)
        Proportion in fifths of the rows, in the order of the prediction errors of the other
        variables of the row.
    heldout_coverage_by_group_ : dict
        Proportion in the rows of each group; empty without groups.
    interval_exponent_ : float
        Exponent, between 0 and 1, by which the intervals widen with the distance of the panel of a
        row from the mean.
    r2_per_variable_ : ndarray of shape (n_features_in_, 3)
        ``heldout_r2_`` with lower and upper limits of its 95 % confidence intervals.
    panel_covariance_ : ndarray of shape (n_selected_, n_selected_)
        Covariance of the scaled variables of the panel, in the order of the columns of ``X``, from
        which missing values are predicted.
    marker_of_ : ndarray of str, shape (n_features_in_,)
        Label of which a selected variable is a marker; otherwise empty.
    column_mean_ : ndarray of shape (n_features_in_,)
        Means of the columns in the units of ``X``.
    relevance_ : ndarray of shape (n_features_in_,)
        Communality relative to the largest one; positive for variables of the panel.
    ranking_ : int ndarray of shape (n_features_in_,)
        Ranks, 1 for the first variable of the panel. Variables outside the panel follow, by
        decreasing communality.
    mean_ : ndarray of shape (n_features_in_,)
        Means of the columns; of the square roots, if ``counts=True``.
    scale_ : ndarray of shape (n_features_in_,)
        Standard deviations of the columns; ones if ``counts=True``.
    varying_ : bool ndarray of shape (n_features_in_,)
        Mask of the columns that vary, within at least one group if there are groups.
    depth_ : float
        Median row total in ``fit``, to which rows of counts are rescaled; 0 if ``counts=False``.

    References
    ----------
    A. Krause, A. Singh, C. Guestrin (2008). Near-optimal sensor placements in Gaussian processes.
    JMLR.

    Examples
    --------
    >>> from prosparse import Panel, datasets
    >>> X, *_ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> model = Panel(5).fit(X)
    >>> model.order_.size, bool(model.heldout_r2_path_[-1] > 0.1)
    (5, True)
    """

    _accepts_any_container = True
    _variable_attributes = (
        ("communality", "communality_"),
        ("heldout_r2", "heldout_r2_"),
        ("proxy", "proxy_"),
        ("unmeasured_std", "unmeasured_std_"),
        ("loading_", "loadings_"),
    )
    _variable_references = ("proxy",)

    order_: Array
    heldout_r2_path_: Array
    heldout_r2_path_std_: Array
    relative_r2_path_: Array
    relative_r2_path_std_: Array
    n_selected_range_: Array
    bound_path_: Array
    criterion_path_: Array
    optimality_gap_: float
    empirical_weight_: float
    attainable_r2_: float
    heldout_r2_: Array
    heldout_r2_by_group_: dict[str, float]
    communality_: Array
    proxy_: Array
    loadings_: Array
    unmeasured_std_: Array
    interval_width_: Array
    interval_exponent_: float
    heldout_coverage_: Array
    heldout_coverage_by_error_: Array
    heldout_coverage_by_group_: dict[str, float]
    held_out_: str
    marker_of_: np.ndarray
    column_mean_: Array
    r2_per_variable_: Array
    panel_covariance_: Array
    depth_: float

    def __init__(
        self,
        n_features_to_select: int | None = None,
        *,
        target_recovery: float = 0.9,
        criterion: Criterion = "reconstruction",
        include: ColumnGroup = (),
        exclude: ColumnGroup = (),
        costs: ArrayLike | None = None,
        bundles: Sequence[ColumnGroup] | None = None,
        conflicts: Sequence[ColumnGroup] | None = None,
        mean_range: tuple[float | None, float | None] | None = None,
        max_total: float | None = None,
        markers_per_label: int = 0,
        counts: bool = False,
        coverage: float = 0.95,
        random_state: int | np.random.RandomState | None = 0,
    ):
        self.n_features_to_select = n_features_to_select
        self.target_recovery = target_recovery
        self.criterion = criterion
        self.include = include
        self.exclude = exclude
        self.costs = costs
        self.bundles = bundles
        self.conflicts = conflicts
        self.mean_range = mean_range
        self.max_total = max_total
        self.markers_per_label = markers_per_label
        self.counts = counts
        self.coverage = coverage
        self.random_state = random_state

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        labels: ArrayLike | None = None,
    ) -> Self:
        """Select a panel from the columns of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features), or a list
            Data matrix, or a list with one data matrix per study. Data frames are reduced to the
            columns that all studies have. Dense data may contain missing values (NaN), which are
            replaced by draws from their distribution given the observed values of the row.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows (donors, batches, studies). Columns are centred within groups,
            which removes differences between groups. Cross-validation holds out whole groups, so
            that held-out R2 refers to new groups, around their own means. If a group has more than
            two thirds of the rows, rows are held out instead.
        labels : array-like of shape (n_samples,) or None, default=None
            Labels of the rows, such as cell types, of which ``markers_per_label`` markers are
            selected.

        Returns
        -------
        Panel
            The fitted estimator.
        """
        with self._fitting():
            if is_list_of_tables(X):
                if groups is not None:
                    raise ParameterError(
                        "`groups` must be None if X is a list of tables, which are the groups."
                    )
                X, groups = stack_rows(list(X))
            table = self._validate(X, reset=True)
            if table.shape[0] < MIN_ROWS:
                raise InputError(
                    f"X has too few rows for cross-validation (n_samples={table.shape[0]}); at "
                    f"least {MIN_ROWS} are required."
                )
            rows = row_groups(groups, table.shape[0])
            label_rows = self._label_rows(labels, table.shape[0])
            table = self._complete(table, rows)
            raw_means = column_means(table)
            self.depth_ = 0.0
            if self.counts:
                self.depth_ = float(np.median(row_totals(table)))
                table = hellinger(table, self.depth_)
            op, columns = standardise(table, not self.counts)
            check_varying(op, columns)
            if rows is not None:
                op, columns = _centre_within_groups(op, columns, rows)
            constraints = self._constraints(columns, raw_means)
            if label_rows is not None:
                constraints = self._add_markers(op, columns, label_rows, constraints)
            else:
                self.marker_of_ = np.full(table.shape[1], "")
            if self.counts:
                scale = np.sqrt(to_numpy(op.column_squares()).astype(float))
            else:
                scale = to_numpy(columns.scale)[columns.varying_index].astype(float)
            options = Options(
                constraints,
                self.n_features_to_select is not None,
                float(self.target_recovery),
                self.criterion,
                is_scaled=not self.counts,
                coverage=float(self.coverage),
                seed=seed_of(self.random_state),
            )
            solution = solve(op, scale, None if rows is None else rows.codes, options)
            self._set_attributes(solution, columns, rows)
            self.column_mean_ = columns.numbers(raw_means)
        return self

    # --- from parameters to the problem

    def _complete(self, X: TableLike, rows: RowGroups | None) -> TableLike:
        """Replace missing values by draws, if there are any."""
        container = container_of(X)
        if self.counts or container.is_sparse or not container.in_memory:
            # Missing counts, and missing values of sparse or distributed data, are not supported.
            return container.require_finite(X)
        if not container.has_missing(X):
            return X
        values = to_numpy(X).astype(float)
        empty = np.flatnonzero(np.isnan(values).all(axis=0))
        if empty.size:
            raise InputError(
                f"X has no observed value in column {self._name(empty[0])}. Drop this column."
            )
        means = observed_means(values, rows)
        completed = complete_rows(values - means, seed_of(self.random_state)) + means
        return from_numpy(completed, X, X.dtype)

    def _check_parameters(self) -> None:
        if self.n_features_to_select is not None:
            check_integer("n_features_to_select", self.n_features_to_select, 1, " or None")
        if not (isinstance(self.target_recovery, Real) and 0.0 < float(self.target_recovery) < 1.0):
            raise ParameterError(
                f"`target_recovery` must be in (0, 1), got {self.target_recovery!r}."
            )
        if not (isinstance(self.coverage, Real) and 0.0 < float(self.coverage) < 1.0):
            raise ParameterError(f"`coverage` must be in (0, 1), got {self.coverage!r}.")
        check_choice("criterion", self.criterion, get_args(Criterion))
        check_bool("counts", self.counts)
        check_limits(self.mean_range, self.max_total)
        check_integer("markers_per_label", self.markers_per_label, 0)

    def _label_rows(self, labels: ArrayLike | None, n: int) -> RowGroups | None:
        """Group the rows by their labels, if markers are selected."""
        if self.markers_per_label == 0:
            return None
        if labels is None:
            raise ParameterError(
                f"`labels` is required if `markers_per_label`={self.markers_per_label}. Pass one "
                "label for each row to `fit`."
            )
        found = row_groups(labels, n, "labels")
        if found is None or found.sizes.size < 2:
            raise ParameterError("`labels` must have at least two different labels.")
        return found

    def _constraints(self, columns: Columns, means: np.ndarray) -> Constraints:
        """Translate the parameters to constraints on the varying columns."""
        size = self.n_features_to_select
        given = ColumnLimits(
            None if size is None else int(size),
            self.include,
            self.exclude,
            self.costs,
            self.bundles,
            self.conflicts,
            self.mean_range,
            self.max_total,
        )
        names = ColumnNames(self.n_features_in_, self._feature_names())
        return build_constraints(given, names, to_numpy(columns.varying), means)

    def _add_markers(
        self, op: Operator, columns: Columns, labels: RowGroups, constraints: Constraints
    ) -> Constraints:
        """Include markers of each label."""
        count = int(self.markers_per_label)
        selected, label_of = select_markers(marker_scores(op, labels), count, constraints)
        names = np.append(labels.labels.astype(str), "")
        marker_of = np.full(self.n_features_in_, "", dtype=names.dtype)
        marker_of[columns.varying_index] = names[label_of]
        self.marker_of_ = marker_of
        found = np.bincount(label_of[label_of >= 0], minlength=labels.sizes.size)
        lacking = np.flatnonzero(found < count)
        if lacking.size:
            warn(
                f"Panel: label {str(labels.labels[lacking[0]])!r} has {found[lacking[0]]} of "
                f"{count} markers. No other allowed variable has its largest mean in this label.",
                ShortPanelWarning,
            )
        if selected.size > constraints.n_features:
            raise ParameterError(
                f"`n_features_to_select` must be at least {selected.size}, the number of columns "
                f"in `include` and of markers, got {constraints.n_features}."
            )
        return constraints._replace(include=selected)

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else np.asarray(names).tolist()

    def _name(self, column: int) -> str:
        return ColumnNames(self.n_features_in_, self._feature_names()).label(column)

    # --- from the solution to attributes

    def _set_attributes(self, solution: Solution, columns: Columns, rows: RowGroups | None) -> None:
        kept, width = columns.varying_index, columns.mean.shape[0]
        evaluation, panel = solution.evaluation, solution.panel
        communality, variances = solution.guide.communality, solution.cross_validated.variances
        weights = solution.scores.weights[:, np.argsort(panel)]
        others = np.setdiff1d(np.arange(kept.size), panel)
        others = others[np.argsort(-communality[others], kind="stable")]
        relevance = communality / max(float(communality.max()), np.finfo(float).tiny)
        relevance[panel] = np.maximum(relevance[panel], np.finfo(np.float32).eps)
        self._set_columns(
            columns,
            np.concatenate([panel, others]),
            np.sort(panel),
            columns.numbers(weights),
            relevance,
        )

        def expand(values: np.ndarray) -> np.ndarray:
            """Add zeros for constant columns."""
            full = np.zeros((*values.shape[:-1], width))
            full[..., kept] = values
            return full

        self.empirical_weight_ = solution.guide.weight
        self.optimality_gap_ = solution.optimality_gap
        self.n_selected_, self.n_components_ = int(panel.size), weights.shape[0]
        self.order_ = columns.values(kept[panel])
        self.heldout_r2_path_ = columns.values(solution.path.r2)
        self.heldout_r2_path_std_ = columns.values(solution.path.r2_std)
        self.relative_r2_path_ = columns.values(solution.path.relative_r2)
        self.relative_r2_path_std_ = columns.values(solution.path.relative_r2_std)
        self.n_selected_range_ = columns.values(np.array(solution.size_range))
        self.bound_path_ = columns.values(solution.selection.bounds)
        self.criterion_path_ = columns.values(np.cumsum(solution.selection.gains))
        total = float(variances.sum())
        self.attainable_r2_ = float(communality @ variances) / total
        self.heldout_r2_ = columns.numbers(expand(evaluation.r2))
        self.communality_ = columns.numbers(expand(communality))
        proxy = np.full(width, -1)
        proxy[kept] = np.where(solution.proxies >= 0, kept[solution.proxies], -1)
        self.proxy_ = columns.values(proxy)
        self.loadings_ = columns.numbers(expand(solution.scores.loadings))
        self.explained_variance_ = columns.numbers(columns.variance(solution.scores.variances))
        self.explained_variance_ratio_ = columns.numbers(solution.scores.variances / total)
        r2_std = expand(solution.calibration.r2_std)
        r2 = expand(evaluation.r2)
        limits = [r2, r2 - NORMAL_QUANTILE * r2_std, r2 + NORMAL_QUANTILE * r2_std]
        self.r2_per_variable_ = columns.numbers(np.minimum(np.stack(limits, axis=1), 1.0))
        ascending = np.argsort(panel)
        covariance = solution.panel_covariance[np.ix_(ascending, ascending)]
        self.panel_covariance_ = columns.numbers(columns.variance(covariance))
        self._set_intervals(solution, columns)
        self._set_group_results(solution, rows)

    def _set_intervals(self, solution: Solution, columns: Columns) -> None:
        """Set the widths of prediction intervals and their coverage."""
        kept, calibration = columns.varying_index, solution.calibration
        unit = columns.length(to_numpy(columns.scale))
        std, width, coverage = np.zeros((3, unit.size))
        std[kept], width[kept] = solution.evaluation.residual_std, calibration.width
        coverage[:], coverage[kept] = 1.0, calibration.coverage
        self.unmeasured_std_ = columns.numbers(std * unit)
        self.interval_width_ = columns.numbers(width * unit)
        self.interval_exponent_ = calibration.exponent
        self.heldout_coverage_ = columns.numbers(coverage)
        self.heldout_coverage_by_error_ = columns.values(calibration.coverage_by_fifth)

    def _set_group_results(self, solution: Solution, rows: RowGroups | None) -> None:
        """Set the results of each group."""
        self.heldout_r2_by_group_, self.heldout_coverage_by_group_ = {}, {}
        self.held_out_ = "rows"
        if rows is None or solution.row_squares is None:
            return
        if can_hold_out_groups(rows.codes):
            self.held_out_ = "groups"
        n_groups, calibration = rows.sizes.size, solution.calibration
        residual, squares = (
            np.bincount(rows.codes, weights=values) for values in solution.row_squares.T
        )
        r2 = 1.0 - residual / np.maximum(squares, np.finfo(float).tiny)
        codes = rows.codes[calibration.rows]
        covered = np.bincount(codes, weights=calibration.row_coverage, minlength=n_groups)
        n_rows = np.bincount(codes, minlength=n_groups)
        for label, value, total, count in zip(rows.labels, r2, covered, n_rows, strict=True):
            self.heldout_r2_by_group_[str(label)] = float(value)
            if count:
                self.heldout_coverage_by_group_[str(label)] = float(total / count)

    def _warn(self) -> None:
        relative_r2, error = (
            float(to_numpy(path)[self.n_selected_ - 1])
            for path in (self.relative_r2_path_, self.relative_r2_path_std_)
        )
        largest = float(to_numpy(self.communality_).max())
        if largest < _MIN_COMMUNALITY:
            warn(
                "Panel: no shared variance in held-out rows. All other variables together predict "
                f"at most {largest:.1%} of the variance of a variable, and the selection is "
                "arbitrary.",
                NoStructureWarning,
            )
        elif self.n_features_to_select is None and relative_r2 + error < self.target_recovery:
            warn(
                f"Panel: {self.n_selected_} variables reach a relative R2 of {relative_r2:.2f}, "
                f"less than `target_recovery`={float(self.target_recovery):g}. Set "
                "`n_features_to_select` or a smaller `target_recovery`.",
                ShortPanelWarning,
            )

    # --- use of a panel

    def path_to_frame(self) -> Any:
        """Return the results of panels of 1, 2, ... variables as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per panel size, with the columns ``heldout_r2``, ``heldout_r2_std``,
            ``relative_r2``, ``relative_r2_std``, ``criterion`` and ``bound``.
        """
        check_is_fitted(self)
        names = ("heldout_r2", "heldout_r2_std", "relative_r2", "relative_r2_std")
        attributes = (*(name.replace("r2", "r2_path") for name in names),)
        values = {
            name: to_numpy(getattr(self, f"{attribute}_"))
            for name, attribute in zip(names, attributes, strict=True)
        }
        values |= {"criterion": to_numpy(self.criterion_path_), "bound": to_numpy(self.bound_path_)}
        sizes = np.arange(1, values["heldout_r2"].size + 1)
        return data_frame(values, sizes.tolist(), "n_selected")

    def panel_to_frame(self) -> Any:
        """Return the variables of the panel as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per variable in the order of selection, indexed by column name, with the columns
            ``rank``, ``reason`` ("included", "marker of" a label, or "selected"), ``mean`` in the
            units of ``X``, ``communality``, ``n_proxied``, the number of other variables for which
            it is the proxy, and ``proxied``, their names by decreasing ``heldout_r2_``.
        """
        check_is_fitted(self)
        order = to_numpy(self.order_)
        names = ColumnNames(self.n_features_in_, self._feature_names())
        included = names.positions(self.include, "include")
        proxied = list(self.proxied_variables().values())
        reasons = [
            f"marker of {label}" if label else "included" if k in included else "selected"
            for k, label in zip(order.tolist(), self.marker_of_[order].tolist(), strict=True)
        ]
        values = {
            "rank": np.arange(1, order.size + 1),
            "reason": np.array(reasons, dtype=object),
            "mean": to_numpy(self.column_mean_)[order],
            "communality": to_numpy(self.communality_)[order],
            "n_proxied": np.array([len(others) for others in proxied]),
            "proxied": np.array([", ".join(others) for others in proxied], dtype=object),
        }
        labels = names.names or [f"x{k}" for k in range(self.n_features_in_)]
        return data_frame(values, [labels[k] for k in order.tolist()], "variable")

    def proxied_variables(self, names: ArrayLike | None = None) -> dict[str, list[str]]:
        """Return the variables for which each selected variable is the proxy.

        Parameters
        ----------
        names : array-like of str of shape (n_features_in_,) or None, default=None
            Names of the variables; by default those of ``fit``, or positions.

        Returns
        -------
        dict
            Keys are the selected variables in the order of selection. Values are lists of variables
            by decreasing ``heldout_r2_``.
        """
        check_is_fitted(self)
        if names is None:
            names = getattr(self, "feature_names_in_", np.arange(self.n_features_in_))
        labels = [str(name) for name in np.asarray(names).tolist()]
        if len(labels) != self.n_features_in_:
            raise ParameterError(
                f"`names` must have {self.n_features_in_} names, got {len(labels)}."
            )
        proxy, r2 = to_numpy(self.proxy_), to_numpy(self.heldout_r2_)
        proxied = {}
        for k in to_numpy(self.order_).tolist():
            others = np.flatnonzero(proxy == k)
            others = others[others != k]
            others = others[np.argsort(-r2[others], kind="stable")]
            proxied[labels[k]] = [labels[other] for other in others.tolist()]
        return proxied

    def inverse_transform(self, X: TableLike) -> Array:
        """Reconstruct all variables from scores.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Scores, as returned by ``transform``.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
            Reconstruction; for counts, of rows whose total is ``depth_``.
        """
        scores = self._validate_scores(X)
        loadings, scale, mean = (
            as_like(v, scores, scores.dtype) for v in (self.loadings_, self.scale_, self.mean_)
        )
        reconstruction = (scores @ loadings) * scale + mean
        if not self.depth_:
            return reconstruction
        return (0.5 * (reconstruction + abs(reconstruction))) ** 2  # negative roots become zero

    def transform(self, X: TableLike) -> Array:
        """Compute the scores of rows from the variables of the panel.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            All columns of ``fit``, or a data frame with those of the panel, which are found by
            name, in any order. Missing values of the panel are replaced by conditional
            expectations; those of other columns are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Scores.
        """
        check_is_fitted(self)
        rows = self._new_rows(X)
        selected = np.flatnonzero(rows.support)
        if rows.is_full and not rows.panel_has_missing:
            table, op = rows.table, self._operator_of(rows.table, selected)
            scores = op.matmul(as_like(take_columns(self.components_, selected).T, table, op.dtype))
            return op.xp.astype(scores, table.dtype, copy=False) if is_floating(table) else scores
        weights = to_numpy(self.components_)[:, selected].astype(float)
        return from_numpy(rows.panel.values @ weights.T, *rows.target)

    def score(self, X: TableLike, y: object = None, *, groups: ArrayLike | None = None) -> float:
        """Compute the proportion of the variance of ``X`` that the panel explains.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            New rows with all columns of ``fit``, or with those of the panel, as in ``transform``;
            rows of ``fit`` give an optimistic score.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows. Columns are centred within groups, as in ``fit``, so that the
            score of a new study does not depend on its means.

        Returns
        -------
        float
            1 minus the squared error of predicting the variables outside the panel, relative to the
            sum of squares of all variables around the means of ``fit``, or of their group. Except
            for counts, variables are divided by their standard deviations in ``fit``. A variable
            whose standard deviation in ``X`` is more than twice as large counts as if it were twice
            as large.
            Entries that are missing contribute the squares that are expected by the model.
        """
        check_is_fitted(self)
        rows = self._new_rows(X)
        kept = np.flatnonzero(to_numpy(self.varying_))
        inside = np.flatnonzero(to_numpy(self.support_)[kept])
        loadings = to_numpy(self.loadings_)[:, kept].astype(float)
        weights = to_numpy(self.components_)[:, kept[inside]].astype(float)
        groups_of_rows = row_groups(groups, rows.n_rows)
        if rows.is_full and not rows.has_missing:
            op = self._operator_of(rows.table, kept)
            if groups_of_rows is not None:
                op = groups_of_rows.centre_operator(op)
            scores = dense_columns(op, inside) @ weights.T
            squares = to_numpy(op.column_squares()).astype(float)
            residual = squares - 2.0 * np.sum(project_columns(op, scores) * loadings.T, axis=1)
            residual += np.sum((loadings.T @ (scores.T @ scores)) * loadings.T, axis=1)
            residual[inside] = 0.0
        else:
            panel = rows.panel
            predicted = panel.values @ weights.T @ loadings
            predicted[:, inside] = panel.values
            added = panel.added_variance(loadings.T @ weights)
            added[:, inside] = panel.added_variance(np.eye(inside.size))
            std, scale = (to_numpy(v)[kept] for v in (self.unmeasured_std_, self.scale_))
            variance = added + (std / scale) ** 2
            entries = rows.standardised_columns(kept)
            if groups_of_rows is not None:
                predicted = predicted - observed_means(predicted, groups_of_rows)
                entries = entries - observed_means(entries, groups_of_rows)
            is_missing = np.isnan(entries)
            errors = np.where(is_missing, variance, (entries - predicted) ** 2)
            errors[:, inside] = np.where(is_missing[:, inside], errors[:, inside], 0.0)
            residual = errors.sum(axis=0)
            squares = np.where(is_missing, predicted**2 + variance, entries**2).sum(axis=0)
        if not self.depth_:
            # Columns with little variance in `fit` would otherwise dominate the score.
            factor = 1.0 / np.maximum(squares / (rows.n_rows * _MAX_VARIANCE_RATIO), 1.0)
            residual, squares = factor * residual, factor * squares
        total = float(np.sum(squares))
        return 1.0 - float(np.sum(residual)) / total if total else 1.0

    def predict_unmeasured(
        self,
        X: TableLike,
        return_std: bool = False,
        *,
        return_interval: bool = False,
        totals: ArrayLike | None = None,
    ) -> Array | tuple[Array, ...]:
        """Predict the variables outside the panel from those in the panel.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            Columns of the panel, or all columns of ``fit``, as in ``transform``. An array without
            names may have the columns of the panel in the order of ``fit``, as ``select`` returns.
        return_std : bool, default=False
            Whether to return the standard deviations of the prediction errors.
        return_interval : bool, default=False
            Whether to return the limits of prediction intervals.
        totals : array-like of shape (n_samples,) or None, default=None
            Total counts of the rows, including the columns outside the panel; by default estimated
            from the panel. Only for counts.

        Returns
        -------
        predictions : ndarray of shape (n_samples, n_features_in_ - n_selected_)
            Predictions in the original units.
        std : ndarray of shape (n_samples, n_features_in_ - n_selected_)
            Standard deviations, if ``return_std=True``. Intervals of 1.96 standard deviations cover
            95 % of the entries of held-out rows, for any distribution.
        lower, upper : ndarrays of shape (n_samples, n_features_in_ - n_selected_)
            Limits that cover each variable with probability ``coverage``, if
            ``return_interval=True``. They are wider in rows whose panel is far from the mean, or
            has missing values. ``calibrate`` makes them valid in finite samples.
        """
        check_is_fitted(self)
        rows = self._new_rows(X, totals, by_position=True)
        inside = to_numpy(self.support_)
        mean, scale, residual_std, width = (
            to_numpy(v)[~inside].astype(float)
            for v in (self.mean_, self.scale_, self.unmeasured_std_, self.interval_width_)
        )
        panel = rows.panel
        weights = to_numpy(self.components_)[:, inside].astype(float)
        coefficients = (weights.T @ to_numpy(self.loadings_)[:, ~inside].astype(float)).T
        predicted = (panel.values @ coefficients.T) * scale + mean
        added = panel.added_variance(coefficients) * scale**2
        std = np.sqrt(residual_std**2 + added)
        # The variance that missing values add widens the intervals in proportion.
        ratio = std / np.maximum(residual_std, np.finfo(float).tiny)
        ratio = np.where(residual_std > 0.0, ratio, 1.0)
        half = width * row_factor(rows.distance, self.interval_exponent_)[:, None] * ratio
        if self.depth_:
            predicted = np.maximum(predicted, 0.0)
        lower, upper = predicted - half, predicted + half
        if self.depth_:
            factor = (rows.row_total / self.depth_)[:, None]
            lower, upper = factor * np.maximum(lower, 0.0) ** 2, factor * upper**2
            # Mean and variance of the square of a Gaussian root.
            root, variance = predicted, std**2
            predicted = factor * (root**2 + variance)
            std = factor * np.sqrt(4.0 * root**2 * variance + 2.0 * variance**2)
        results = [predicted]
        if return_std:
            results.append(std)
        if return_interval:
            results += [lower, upper]
        converted = tuple(from_numpy(part, *rows.target) for part in results)
        return converted if len(converted) > 1 else converted[0]

    def calibrate(self, X: TableLike) -> Self:
        """Calibrate the prediction intervals on rows that ``fit`` has not used.

        By split conformal prediction, the intervals then cover each variable of a new row from the
        same distribution with probability at least ``coverage``. This holds for any number of rows
        and any distribution. At least ``coverage / (1 - coverage)`` values of each variable are
        required.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Rows with all columns of ``fit``. Missing values are ignored.

        Returns
        -------
        Panel
            The estimator with new ``interval_width_`` and ``interval_exponent_``.
        """
        check_is_fitted(self)
        rows = self._new_rows(X)
        inside, scale = to_numpy(self.support_), to_numpy(self.scale_).astype(float)
        varying = to_numpy(self.varying_) & ~inside
        others = np.flatnonzero(varying)
        weights = to_numpy(self.components_)[:, inside].astype(float)
        loadings = to_numpy(self.loadings_)[:, others].astype(float)
        predicted = rows.panel.values @ weights.T @ loadings
        errors = np.abs(rows.standardised_columns(others) - predicted) * scale[others]
        squares = (errors / to_numpy(self.unmeasured_std_)[others]) ** 2
        means = np.nanmean(np.where(np.isnan(squares), 1.0, squares), axis=1)
        exponent = fit_exponent(means, rows.distance)
        scores = errors / row_factor(rows.distance, exponent)[:, None]
        width, n_required = np.zeros(inside.size), min_calibration_rows(float(self.coverage))
        for k, column in enumerate(others.tolist()):
            column_scores = scores[~np.isnan(scores[:, k]), k]
            if column_scores.size < n_required:
                raise InputError(
                    f"Calibration of {float(self.coverage):.0%} intervals needs {n_required} rows "
                    f"with a value of each variable, but X has {column_scores.size} of "
                    f"{self._name(column)}. Pass more rows, or fit with a smaller `coverage`."
                )
            width[column] = conformal_quantile(column_scores[:, None], float(self.coverage))[0]
        like = self.unmeasured_std_
        self.interval_width_, self.interval_exponent_ = (
            from_numpy(width, like, like.dtype),
            exponent,
        )
        return self

    def summary(self) -> str:
        """Describe the panel and the variables that it does not predict.

        Returns
        -------
        str
            Sentences, one per line.
        """
        check_is_fitted(self)
        r2, _, upper = to_numpy(self.r2_per_variable_).T
        path, std = (to_numpy(v) for v in (self.heldout_r2_path_, self.heldout_r2_path_std_))
        last = self.n_selected_ - 1
        outside = ~to_numpy(self.support_) & to_numpy(self.varying_)
        lost = np.flatnonzero(outside & (upper < _MAX_UNPREDICTED_R2))
        lost = lost[np.argsort(r2[lost], kind="stable")]
        lines = [
            f"The panel has {self.n_selected_} of {self.n_features_in_} variables and explains "
            f"{path[last]:.2f} ± {std[last]:.2f} of the variance of held-out rows.",
            f"It predicts {int(outside.sum()) - lost.size} of the {int(outside.sum())} other "
            f"variables with an R2 that may exceed {_MAX_UNPREDICTED_R2:g}.",
        ]
        if lost.size:
            names = ", ".join(self._name(k) for k in lost[:_MAX_NAMED].tolist())
            more = f" and {lost.size - _MAX_NAMED} others" if lost.size > _MAX_NAMED else ""
            lines.append(f"It does not predict {names}{more}: measure them if they are needed.")
        return "\n".join(lines)

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        if self.depth_:
            X = hellinger(X, self.depth_)
        return super()._operator_of(X, columns)

    def _new_rows(
        self, X: TableLike, totals: ArrayLike | None = None, *, by_position: bool = False
    ) -> NewRows:
        """Validate new rows that have the columns of the panel, and possibly others.

        Columns of the panel are found by name; arrays without names have them in order, if that is
        allowed.
        """
        container, names = container_of(X), self._feature_names()
        given = container.column_names(X)
        support = to_numpy(self.support_)
        columns = np.arange(self.n_features_in_)
        shape: tuple[int, ...] = np.shape(X) if isinstance(X, list) else getattr(X, "shape", ())
        width = shape[1] if len(shape) == 2 else self.n_features_in_
        if width != self.n_features_in_ and names is not None and given is not None:
            position = {name: k for k, name in enumerate(given)}
            columns = np.flatnonzero([name in position for name in names])
            missing = np.setdiff1d(np.flatnonzero(support), columns)
            if missing.size:
                raise InputError(
                    f"X must have the {self.n_selected_} columns of the panel, but "
                    f"{self._name(missing[0])} is missing."
                )
            X = container.take_columns(X, np.array([position[names[k]] for k in columns]))
        elif by_position and width == self.n_selected_:
            columns = np.flatnonzero(support)
        is_full = columns.size == self.n_features_in_
        table = self._validate(X, reset=False) if is_full else self._validate_partial(X, container)
        fitted = (self.mean_, self.scale_, self.panel_covariance_)
        mean, scale, covariance = (to_numpy(part).astype(float) for part in fitted)
        return NewRows(table, columns, support, mean, scale, covariance, self.depth_, totals)

    def _validate_partial(self, X: TableLike, container: Any) -> TableLike:
        """Validate rows that have some of the columns of ``fit``."""
        X = container.prepare(X, allow_nan=True)
        if container.stays_in_place:
            table = container.validate(X, 1)
        else:
            types = [np.float64, np.float32]
            table = check_array(X, accept_sparse="csr", dtype=types, ensure_all_finite=False)
        found = container_of(table).find_non_finite(table, allow_nan=True)
        if found is not None:
            raise InputError(f"Input X contains {found.describe(range(table.shape[1]))}.")
        return table

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def is_list_of_tables(X: TableLike) -> bool:
    """Return whether ``X`` is a list of data matrices rather than of rows."""
    is_list = isinstance(X, list | tuple) and len(X) > 0
    return is_list and all(len(getattr(table, "shape", ())) == 2 for table in X)


def column_means(X: TableLike) -> np.ndarray:
    """Compute the means of the columns in their original units."""
    return container_of(X).raw_rows(X).extent().sums / X.shape[0]


def _centre_within_groups(
    op: Operator, columns: Columns, rows: RowGroups
) -> tuple[Operator, Columns]:
    """Centre the columns within groups and drop constant columns.

    A column is constant if it does not vary within any group.
    """
    n, n_groups = op.shape[0], rows.sizes.size
    if n - n_groups < MIN_ROWS - 1:
        raise ParameterError(
            f"`groups` has {n_groups} labels for {n} rows. Columns are centred within groups: at "
            f"least {MIN_ROWS - 1} more rows than groups are required."
        )
    within = rows.centre_operator(op)
    before, after = (to_numpy(part.column_squares()).astype(float) for part in (op, within))
    is_varying = after > (_ROUNDING * op.epsilon) ** 2 * before
    if is_varying.sum() < 2:
        raise InputError(
            f"{int(is_varying.sum())} of the {is_varying.size} varying columns of X vary within "
            "groups; at least 2 are required. Check `groups`."
        )
    if is_varying.all():
        return within, columns
    varying = np.zeros(columns.mean.shape[0], dtype=bool)
    varying[columns.varying_index[is_varying]] = True
    subset = within.take_columns(from_numpy(np.flatnonzero(is_varying), within.column_squares()))
    return subset, columns._replace(varying=columns.values(varying))
