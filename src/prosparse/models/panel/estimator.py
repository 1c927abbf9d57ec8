"""Estimator class `Panel`: validation of parameters and fitted attributes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Operator, stack_rows, take_columns
from ...data.arrays import TableLike, as_like, from_numpy, is_floating, to_numpy
from ...data.column_groups import ColumnGroup
from ...data.containers import Table
from ...data.counts import hellinger
from ...data.row_groups import row_groups
from ...errors import NoStructureWarning, ParameterError, ShortPanelWarning, warn
from .._base import SparseProjection, seed_of
from .markers import add_markers, label_rows
from .model import Options, solve
from .new_rows import NewRows, find_columns, validate_some_columns
from .parameters import ColumnNames, build_constraints, check_parameters
from .prediction import (
    FittedPanel,
    calibrate_intervals,
    expected_squares,
    explained_proportion,
    predict_others,
    squares_of_operator,
)
from .preparation import check_rows, is_list_of_tables, prepare
from .results import describe_solution, relevance_order
from .tables import group_by_proxy, summarise_panel, tabulate_panel, tabulate_sizes

_MIN_COMMUNALITY = 0.05  # a warning is issued if all communalities are smaller


class Panel(SparseProjection):
    """Selection of a small panel of variables that predicts all others.

    Variables are selected greedily. Each one maximises the explained variance given the variables
    already selected, so that the panel contains few redundant variables. Among variables with
    similar gains, the one with the larger variance is preferred; standardise ``X`` if the units are
    not comparable. Prediction of the other variables is evaluated in held-out rows, with panels
    selected without these rows.

    Parameters
    ----------
    n_features_to_select : int or None, default=None
        Number of variables to select. None selects the smallest panel whose ``relative_r2_path_``
        is within one standard error of ``target_recovery``.
    target_recovery : float, default=0.9
        Target of ``relative_r2_path_``, between 0 and 1. Not used if ``n_features_to_select`` is
        given.
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
        Minimum number of markers of each label, such as a cell type. The mean of a marker is
        largest in the rows of its label. Requires ``labels`` in ``fit``.
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
        Held-out R2 of these panels for the variables outside the panel, relative to the R2 of
        prediction from all variables. The quantity compared with ``target_recovery``.
    relative_r2_path_std_ : ndarray of shape (n_sizes,)
        Standard error of ``relative_r2_path_``.
    n_selected_range_ : int ndarray of shape (2,)
        Smallest sizes whose relative R2, plus and minus two standard errors, reaches
        ``target_recovery``. Both are ``n_selected_`` if ``n_features_to_select`` is given.
    bound_path_ : ndarray of shape (n_sizes,)
        Upper bound of the criterion over all sets of 1, 2, ... variables.
    criterion_path_ : ndarray of shape (n_sizes,)
        Criterion of the first 1, 2, ... variables of the greedy selection. Swaps of variables may
        increase the criterion further.
    optimality_gap_ : float
        One minus the criterion of the panel, relative to an upper bound for any panel of its size;
        0 if the panel is certified optimal. With at most 30 columns, equal costs and no bundles
        the search is exact.
    empirical_weight_ : float
        Weight of the empirical covariance in the covariance used for the selection; the factor
        model has the remaining weight. The weight maximises held-out R2.
    attainable_r2_ : float
        Mean over the variables of the proportion of variance that all others predict in held-out
        rows.
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
        Position of the selected variable that best represents each variable; -1 for variables that
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
        Standard deviations of the prediction errors in held-out rows (see ``predict_unmeasured``).
    interval_width_ : ndarray of shape (n_features_in_,)
        Half widths of the prediction intervals in a row whose panel has average distance from the
        mean; zero for variables of the panel.
    heldout_coverage_ : ndarray of shape (n_features_in_,)
        Proportion of the held-out values of each variable in its interval, calibrated without the
        fold of the value; 1 for variables of the panel.
    heldout_coverage_by_error_ : ndarray of shape (5,)
        Coverage in fifths of the rows, ordered by the prediction errors of the other variables.
    heldout_coverage_by_group_ : dict
        Coverage in the rows of each group; empty without groups.
    interval_exponent_ : float
        Exponent, between 0 and 1, of the relation between the interval width of a row and the
        distance of its panel from the mean.
    r2_per_variable_ : ndarray of shape (n_features_in_, 3)
        ``heldout_r2_``, and the lower and upper limits of its 95 % confidence intervals.
    panel_covariance_ : ndarray of shape (n_selected_, n_selected_)
        Covariance of the scaled variables of the panel, in the order of the columns of ``X``; used
        to predict missing values.
    marker_of_ : ndarray of str, shape (n_features_in_,)
        Label of which a variable was selected as a marker; otherwise empty.
    column_mean_ : ndarray of shape (n_features_in_,)
        Means of the columns in the units of ``X``.
    relevance_ : ndarray of shape (n_features_in_,)
        Communality relative to the largest one; positive for variables of the panel.
    ranking_ : int ndarray of shape (n_features_in_,)
        Ranks, 1 for the first variable of the panel. Variables outside the panel follow, by
        decreasing communality.
    mean_ : ndarray of shape (n_features_in_,)
        Means of the columns, or of the square roots if ``counts=True``.
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
            columns common to all studies. Dense data may contain missing values (NaN), which are
            replaced by draws from their distribution given the observed values of the row.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows (donors, batches, studies). Columns are centred within groups,
            which removes differences between groups. Cross-validation holds out whole groups, so
            that held-out R2 refers to deviations from the mean in new groups. If a group has more
            than two thirds of the rows, rows are held out instead.
        labels : array-like of shape (n_samples,) or None, default=None
            Labels of the rows, such as cell types. ``markers_per_label`` markers of each are
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
            check_rows(table)
            rows = row_groups(groups, table.shape[0])
            labelled = label_rows(labels, table.shape[0], self.markers_per_label)
            seed, names = seed_of(self.random_state), self._names()
            data = prepare(table, rows, self.counts, seed, names)
            varying = to_numpy(data.columns.varying)
            constraints = build_constraints(self.get_params(deep=False), names, varying, data.means)
            constraints, self.marker_of_ = add_markers(
                data.op, data.columns, labelled, self.markers_per_label, constraints
            )
            options = Options(
                constraints,
                self.n_features_to_select is not None,
                float(self.target_recovery),
                is_scaled=not self.counts,
                coverage=float(self.coverage),
                seed=seed,
            )
            solution = solve(data.op, data.scale, None if rows is None else rows.codes, options)
            ascending = np.argsort(solution.panel)
            order, relevance = relevance_order(solution)
            weights = data.columns.numbers(solution.scores.weights[:, ascending])
            panel = solution.panel[ascending]
            self._set_columns(data.columns, order, panel, weights, relevance)
            for name, value in describe_solution(solution, data.columns, rows).items():
                setattr(self, name, value)
            self.column_mean_, self.depth_ = data.columns.numbers(data.means), data.depth
        return self

    def _check_parameters(self) -> None:
        check_parameters(self.get_params(deep=False))

    def _names(self) -> ColumnNames:
        names = getattr(self, "feature_names_in_", None)
        given = None if names is None else np.asarray(names).tolist()
        return ColumnNames(self.n_features_in_, given)

    def _fitted_panel(self) -> FittedPanel:
        """Return the fitted attributes required for predictions."""

        def read(values: Array) -> np.ndarray:
            return np.asarray(to_numpy(values), dtype=float)

        support = to_numpy(self.support_)
        return FittedPanel(
            support=support,
            varying=to_numpy(self.varying_),
            weights=read(self.components_)[:, support],
            loadings=read(self.loadings_),
            mean=read(self.mean_),
            scale=read(self.scale_),
            residual_std=read(self.unmeasured_std_),
            width=read(self.interval_width_),
            exponent=self.interval_exponent_,
            covariance=read(self.panel_covariance_),
            depth=self.depth_,
        )

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
        return tabulate_sizes(
            {
                "heldout_r2": self.heldout_r2_path_,
                "heldout_r2_std": self.heldout_r2_path_std_,
                "relative_r2": self.relative_r2_path_,
                "relative_r2_std": self.relative_r2_path_std_,
                "criterion": self.criterion_path_,
                "bound": self.bound_path_,
            }
        )

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
        names = self._names()
        return tabulate_panel(
            to_numpy(self.order_),
            names.names or [f"x{k}" for k in range(names.width)],
            names.positions(self.include, "include").tolist(),
            self.marker_of_,
            to_numpy(self.column_mean_),
            to_numpy(self.communality_),
            list(self.proxied_variables().values()),
        )

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
        order = to_numpy(self.order_)
        groups = group_by_proxy(order, to_numpy(self.proxy_), to_numpy(self.heldout_r2_))
        return {
            labels[k]: [labels[other] for other in others.tolist()]
            for k, others in zip(order.tolist(), groups, strict=True)
        }

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
            All columns of ``fit``, or a data frame with the columns of the panel, which are matched
            by name. Missing values of panel variables are replaced by conditional expectations;
            those of other columns are ignored.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Scores.
        """
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
            New rows with all columns of ``fit``, or only the columns of the panel, as in
            ``transform``. Rows of ``fit`` give an optimistic score.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows. Columns are centred within groups, as in ``fit``, so that the
            score of a new study does not depend on its means.

        Returns
        -------
        float
            1 minus the squared prediction error of the variables outside the panel, relative to the
            sum of squares of all variables around the means of ``fit``, or of the group. Except for
            counts, variables are divided by their standard deviations in ``fit``. A standard
            deviation in ``X`` that is more than twice as large counts as twice as large. Missing
            entries contribute the expected squares under the model.
        """
        rows = self._new_rows(X)
        fitted = rows.fitted
        groups_of_rows, kept = row_groups(groups, rows.n_rows), np.flatnonzero(fitted.varying)
        if rows.is_full and not rows.has_missing:
            op = self._operator_of(rows.table, kept)
            squares = squares_of_operator(fitted, op, groups_of_rows)
        else:
            entries = rows.standardised_columns(kept)
            squares = expected_squares(fitted, rows.panel, entries, groups_of_rows)
        return explained_proportion(squares, rows.n_rows, is_scaled=not self.depth_)

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
            from the panel. Used only for counts.

        Returns
        -------
        predictions : ndarray of shape (n_samples, n_features_in_ - n_selected_)
            Predictions in the original units.
        std : ndarray of shape (n_samples, n_features_in_ - n_selected_)
            Standard deviations, if ``return_std=True``. Intervals of 1.96 standard deviations cover
            95 % of the entries of held-out rows, for any distribution.
        lower, upper : ndarrays of shape (n_samples, n_features_in_ - n_selected_)
            Limits that cover each variable with probability ``coverage``, if
            ``return_interval=True``. Intervals are wider in rows whose panel is far from the mean
            or has missing values. ``calibrate`` makes the coverage valid in finite samples.
        """
        rows = self._new_rows(X, totals, by_position=True)
        found = predict_others(rows.fitted, rows.panel, rows.distance, lambda: rows.row_total)
        results = [found.mean]
        if return_std:
            results.append(found.std)
        if return_interval:
            results += [found.lower, found.upper]
        converted = tuple(from_numpy(part, *rows.target) for part in results)
        return converted if len(converted) > 1 else converted[0]

    def calibrate(self, X: TableLike) -> Self:
        """Calibrate the prediction intervals on rows not used by ``fit``.

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
        rows = self._new_rows(X)
        others = np.flatnonzero(rows.fitted.varying & ~rows.support)
        width, exponent = calibrate_intervals(
            rows.fitted,
            rows.panel.values,
            rows.standardised_columns(others),
            rows.distance,
            float(self.coverage),
            self._names().label,
        )
        like = self.unmeasured_std_
        self.interval_width_ = from_numpy(width, like, like.dtype)
        self.interval_exponent_ = exponent
        return self

    def summary(self) -> str:
        """Describe the panel and the variables that it does not predict.

        Returns
        -------
        str
            Sentences, one per line.
        """
        check_is_fitted(self)
        path, std = (to_numpy(v) for v in (self.heldout_r2_path_, self.heldout_r2_path_std_))
        last = self.n_selected_ - 1
        return (
            f"The panel has {self.n_selected_} of {self.n_features_in_} variables and "
            + summarise_panel(
                to_numpy(self.r2_per_variable_),
                ~to_numpy(self.support_) & to_numpy(self.varying_),
                float(path[last]),
                float(std[last]),
                self._names().label,
            )
        )

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        if self.depth_:
            X = hellinger(X, self.depth_)
        return super()._operator_of(X, columns)

    def _new_rows(
        self, X: TableLike, totals: ArrayLike | None = None, *, by_position: bool = False
    ) -> NewRows:
        """Validate new rows with at least the columns of the panel."""
        check_is_fitted(self)
        fitted = self._fitted_panel()
        X, columns = find_columns(X, fitted.support, self._names(), by_position)
        is_full = columns.size == self.n_features_in_
        table = self._validate(X, reset=False) if is_full else validate_some_columns(X)
        return NewRows(table, columns, fitted, totals)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
