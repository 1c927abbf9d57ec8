"""Estimator class `Panel`: validation of parameters and fitted attributes."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Real
from typing import Any, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_array, check_is_fitted

from ...data import Array, Columns, Operator, container_of, standardise, take_columns
from ...data.arrays import TableLike, as_like, from_numpy, is_floating, to_numpy
from ...data.column_groups import ColumnGroup, column_positions
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
from .folds import dense_columns, project_columns
from .greedy import Criterion
from .heldout_r2 import NORMAL_QUANTILE
from .missing_values import complete_rows
from .model import Options, Solution, solve
from .new_rows import NewRows

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
        model has the remaining weight. It is chosen by held-out R2.
    attainable_r2_ : float
        Proportion of the variance of a variable that all others predict in held-out rows, averaged
        over the variables.
    heldout_r2_ : ndarray of shape (n_features_in_,)
        Proportion of the variance of each variable that the panel predicts in held-out rows; 1 for
        variables of the panel.
    heldout_r2_by_group_ : dict
        Proportion of variance that the panel explains in the held-out rows of each group; empty
        without groups.
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
    interval_exponent_ : float
        Exponent, between 0 and 1, by which the intervals widen with the distance of the panel of a
        row from the mean.
    r2_per_variable_ : ndarray of shape (n_features_in_, 3)
        ``heldout_r2_`` with lower and upper limits of its 95 % confidence intervals.
    panel_covariance_ : ndarray of shape (n_selected_, n_selected_)
        Covariance of the scaled variables of the panel, in the order of the columns of ``X``, from
        which missing values are predicted.
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
        self.counts = counts
        self.coverage = coverage
        self.random_state = random_state

    def fit(self, X: Table, y: object = None, *, groups: ArrayLike | None = None) -> Self:
        """Select a panel from the columns of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix. Dense data may contain missing values (NaN), which are replaced by draws
            from their distribution given the observed values of the row.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows (donors, batches, studies). Columns are centred within groups,
            which removes differences between groups.

        Returns
        -------
        Panel
            The fitted estimator.
        """
        with self._fitting():
            table = self._validate(X, reset=True)
            if table.shape[0] < MIN_ROWS:
                raise InputError(
                    f"X has too few rows for cross-validation (n_samples={table.shape[0]}); at "
                    f"least {MIN_ROWS} are required."
                )
            rows = row_groups(groups, table.shape[0])
            table = self._complete(table)
            self.depth_ = 0.0
            if self.counts:
                self.depth_ = float(np.median(row_totals(table)))
                table = hellinger(table, self.depth_)
            op, columns = standardise(table, not self.counts)
            check_varying(op, columns)
            if rows is not None:
                op, columns = _centre_within_groups(op, columns, rows)
            options = self._options(columns)
            if self.counts:
                scale = np.sqrt(to_numpy(op.column_squares()).astype(float))
            else:
                scale = to_numpy(columns.scale)[columns.varying_index].astype(float)
            solution = solve(op, scale, None if rows is None else rows.codes, options)
            self._set_attributes(solution, columns, rows)
        return self

    # --- from parameters to the problem

    def _complete(self, X: TableLike) -> TableLike:
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
        completed = complete_rows(values, seed_of(self.random_state))
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

    def _options(self, columns: Columns) -> Options:
        """Translate the parameters to indices of the varying columns."""
        varying, width = to_numpy(columns.varying), columns.mean.shape[0]
        kept = columns.varying_index
        index = np.full(width, -1)
        index[kept] = np.arange(kept.size)
        bundles = self._bundles(width)
        include, exclude = (
            _add_bundles(self._columns(name), bundles) for name in ("include", "exclude")
        )
        both = np.intersect1d(include, exclude)
        if both.size:
            raise ParameterError(
                f"`include` and `exclude` both contain column {self._name(both[0])}, directly or "
                "in a bundle. Remove it from one of them."
            )
        constant = include[~varying[include]]
        if constant.size:
            raise ParameterError(
                f"`include` contains column {self._name(constant[0])}, which is constant in X and "
                "predicts no other column. Remove it from `include`."
            )
        allowed = np.ones(width, dtype=bool)
        allowed[exclude] = False
        if not np.any(allowed & varying):
            others = ", and the others are constant" if exclude.size < width else ""
            raise ParameterError(
                f"`exclude` leaves no column to select: it contains {exclude.size} of the {width} "
                f"columns of X, including those of their bundles{others}. Exclude fewer columns."
            )
        bundles = [bundle[varying[bundle]] for bundle in bundles]
        bundles = [bundle for bundle in bundles if bundle.size > 1]
        n_features = None
        if self.n_features_to_select is not None:
            n_features = int(self.n_features_to_select)
            _check_size(n_features, include, allowed & varying, bundles)
        return Options(
            n_features=n_features,
            target_recovery=float(self.target_recovery),
            criterion=self.criterion,
            include=index[include],
            allowed=allowed[kept],
            costs=self._costs(width)[kept],
            bundles=[index[bundle] for bundle in bundles],
            is_scaled=not self.counts,
            coverage=float(self.coverage),
            seed=seed_of(self.random_state),
        )

    def _columns(self, parameter: str) -> np.ndarray:
        """Return the positions of the columns in ``include`` or ``exclude``."""
        given = getattr(self, parameter)
        is_empty = given is None or (isinstance(given, list | tuple) and not given)
        if isinstance(given, np.ndarray):
            is_empty = given.size == 0 or (given.dtype == bool and not given.any())
        if is_empty:
            return np.zeros(0, dtype=int)
        return np.unique(
            column_positions(given, f"`{parameter}`", self.n_features_in_, self._feature_names())
        )

    def _feature_names(self) -> list[str] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else np.asarray(names).tolist()

    def _name(self, column: int) -> str:
        names = self._feature_names()
        return str(int(column)) if names is None else repr(names[column])

    def _costs(self, width: int) -> np.ndarray:
        if self.costs is None:
            return np.ones(width)
        try:
            costs = np.asarray(self.costs, dtype=float)
        except (TypeError, ValueError) as error:
            raise ParameterError(f"`costs` must contain numbers, got {self.costs!r}.") from error
        if costs.shape != (width,) or not np.all(np.isfinite(costs) & (costs > 0.0)):
            raise ParameterError(
                f"`costs` must contain a positive number for each of the {width} columns of X, got "
                f"shape {costs.shape}" + (f" and minimum {costs.min():g}." if costs.size else ".")
            )
        return costs

    def _bundles(self, width: int) -> list[np.ndarray]:
        if self.bundles is None:
            return []
        if isinstance(self.bundles, str) or not isinstance(self.bundles, Sequence):
            raise ParameterError(
                "`bundles` must be a list of column groups (names, slices or positions), got "
                f"{self.bundles!r}."
            )
        names = self._feature_names()
        found = [
            np.unique(column_positions(bundle, f"bundle {number} of `bundles`", width, names))
            for number, bundle in enumerate(self.bundles)
        ]
        counts = np.bincount(np.concatenate([*found, np.zeros(0, dtype=int)]), minlength=width)
        if np.any(counts > 1):
            repeated = int(np.flatnonzero(counts > 1)[0])
            raise ParameterError(
                f"`bundles` contains column {self._name(repeated)} {counts[repeated]} times. Keep "
                "it in one bundle."
            )
        return found

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
        residual_std = columns.length(expand(evaluation.residual_std)) * to_numpy(columns.scale)
        self.unmeasured_std_ = columns.numbers(residual_std)
        half_width = columns.length(expand(solution.calibration.width)) * to_numpy(columns.scale)
        self.interval_width_ = columns.numbers(half_width)
        self.interval_exponent_ = solution.calibration.exponent
        r2_std = expand(solution.calibration.r2_std)
        r2 = expand(evaluation.r2)
        limits = [r2, r2 - NORMAL_QUANTILE * r2_std, r2 + NORMAL_QUANTILE * r2_std]
        self.r2_per_variable_ = columns.numbers(np.minimum(np.stack(limits, axis=1), 1.0))
        ascending = np.argsort(panel)
        covariance = solution.panel_covariance[np.ix_(ascending, ascending)]
        self.panel_covariance_ = columns.numbers(columns.variance(covariance))
        self.heldout_r2_by_group_ = {}
        if rows is not None:
            residual, squares = (
                np.bincount(rows.codes, weights=values) for values in evaluation.row_squares.T
            )
            r2 = 1.0 - residual / np.maximum(squares, np.finfo(float).tiny)
            self.heldout_r2_by_group_ = {
                str(label): float(value) for label, value in zip(rows.labels, r2, strict=True)
            }

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

    def score(self, X: TableLike, y: object = None) -> float:
        """Compute the proportion of the variance of ``X`` that the panel explains.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame
            New rows with all columns of ``fit``, or with those of the panel, as in ``transform``;
            rows of ``fit`` give an optimistic score.
        y : None
            Ignored; present for compatibility with scikit-learn.

        Returns
        -------
        float
            1 minus the squared error of predicting the variables outside the panel, relative to the
            sum of squares of all variables around the means of ``fit``. Except for counts,
            variables are divided by their standard deviations in ``fit``. A variable whose standard
            deviation in ``X`` is more than twice as large counts as if it were twice as large.
            Entries that are missing contribute the squares that are expected by the model.
        """
        check_is_fitted(self)
        rows = self._new_rows(X)
        kept = np.flatnonzero(to_numpy(self.varying_))
        inside = np.flatnonzero(to_numpy(self.support_)[kept])
        loadings = to_numpy(self.loadings_)[:, kept].astype(float)
        weights = to_numpy(self.components_)[:, kept[inside]].astype(float)
        if rows.is_full and not rows.has_missing:
            op = self._operator_of(rows.table, kept)
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
            is_missing = np.isnan(entries)
            errors = np.where(is_missing, variance, (entries - predicted) ** 2)
            errors[:, inside] = np.where(is_missing[:, inside], errors[:, inside], 0.0)
            residual = errors.sum(axis=0)
            squares = np.where(is_missing, predicted**2 + variance, entries**2).sum(axis=0)
        if not self.depth_:
            # Columns that hardly varied in `fit` would otherwise dominate the score.
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
            95 % of the entries of held-out rows, whatever their distribution.
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

        The intervals then cover each variable of a new row from the same distribution with
        probability at least ``coverage``: split conformal prediction, valid for any number of rows
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


def _check_size(
    n_features: int, include: np.ndarray, available: np.ndarray, bundles: list[np.ndarray]
) -> None:
    """Raise an error if no panel can have ``n_features`` variables."""
    n_available = int(available.sum())
    if n_features > n_available:
        raise ParameterError(
            f"`n_features_to_select` must be at most {n_available}, the number of varying columns "
            f"that are not excluded, got {n_features}."
        )
    if include.size > n_features:
        raise ParameterError(
            f"`n_features_to_select` must be at least {include.size}, the number of columns in "
            f"`include` and their bundles, got {n_features}."
        )
    is_single = available.copy()
    is_single[np.concatenate([*bundles, np.zeros(0, dtype=int)])] = False
    sizes = [bundle.size for bundle in bundles if available[bundle].all()]
    if not is_single.any() and min(sizes) > n_features:
        raise ParameterError(
            f"`n_features_to_select` must be at least {min(sizes)}, the size of the smallest "
            f"bundle, because all columns are in bundles, got {n_features}."
        )


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


def _add_bundles(columns: np.ndarray, bundles: list[np.ndarray]) -> np.ndarray:
    """Add all columns that share a bundle with one of the columns."""
    touched = [bundle for bundle in bundles if np.isin(bundle, columns).any()]
    return np.unique(np.concatenate([columns, *touched]))
