"""Estimator class `FDRPCA`: validation of parameters and fitted attributes."""

from __future__ import annotations

from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Columns, Operator, container_of, operator_of, standardise
from ...data.arrays import TableLike, as_like, from_numpy, precision_of, to_numpy
from ...data.containers import Table
from ...data.counts import row_totals
from ...data.covariates import RowDesign
from ...data.missing_values import dense_with_missing, standardise_observed
from ...data.normal_scores import normal_scores
from ...data.row_adjustment import RowAdjustment
from ...errors import (
    DuplicateRowsWarning,
    InputError,
    MissingValuesWarning,
    NoStructureWarning,
    OutlyingRowsWarning,
    ParameterError,
    RowOrderWarning,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    plural,
    warn,
)
from ...structure import (
    MIN_DOF,
    Blocks,
    Knockoffs,
    ObservedData,
    SharedByKnockoffs,
    StandardisedData,
    fill_by_design,
    observed_data,
    prepare_data,
    select_shared_by_knockoffs,
)
from ...structure.duplicate_rows import find_duplicates
from ...structure.row_diagnostics import (
    adjacent_row_correlation,
    influential_rows,
    list_rows,
    outlying_rows,
    row_influence,
)
from .._base import check_varying, seed_of
from .._covariates import check_design
from .categories import MixedProjection
from .incomplete_rows import (
    ScoreDistribution,
    conditional_scores,
    missingness_pvalue,
)
from .model import Options, Solution, solve
from .pearson_residuals import (
    CountModel,
    RowFactors,
    adjustment_of_proportions,
    column_moments,
    fit_count_model,
    limited_scores,
    residual_operator,
    row_factors,
)

Null = Literal["robust", "exchangeable"]
Control = Literal["bh", "knockoff"]

_MIN_OBSERVED = 0.1  # proportion of observed values below which a row is mostly missing
# A warning is issued if the test of missing values has a smaller p-value.
_MAX_MISSINGNESS_PVALUE = 1e-3


class FDRPCA(MixedProjection):
    """PCA on variables selected with false discovery rate control.

    Each variable is tested for association with the leading principal components of the remaining
    variables, and for correlation with any single one of them. Variables selected by the
    Benjamini-Hochberg procedure at level ``fdr`` are standardised and passed to PCA; all other
    loadings are zero. The test does not assume equal noise variances, equal scales or a known
    number of components. Rows may have unequal noise and may be outlying (see Notes).

    Statistical significance does not imply a large effect: ``communality_`` measures how much
    variance a variable shares with the others, and ``min_communality`` excludes variables that
    share little.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components of the selected variables. "auto" estimates it after dividing each
        variable by the square root of its unique variance. The communality depends on this number;
        the test does not.
    fdr : float, default=0.05
        False discovery rate: expected proportion of variables without shared variance among the
        selected ones.
    null : {"robust", "exchangeable"}, default="robust"
        Null hypothesis. "robust" allows rows of unequal noise and outlying rows. "exchangeable"
        assumes that all rows have the same distribution. It also detects shared variance due to
        fewer than about eight rows, which sign flips cannot distinguish from outlying rows.
    control : {"bh", "knockoff"}, default="bh"
        Procedure that controls the false discovery rate. "bh" applies the Benjamini-Hochberg
        procedure to the p-values; its error rate is established by simulation. "knockoff" compares
        each variable with randomised copies, its *shadows*; control is proven for finite samples,
        apart from the estimation of centres if ``null="robust"`` (see Notes). The knockoff filter
        selects no variables or at least 1 / (``fdr`` * ``n_shadows``).
    n_shadows : int, default=1
        Number of shadows of each variable, for ``control="knockoff"``. More shadows allow smaller
        selections.
    n_draws : int, default=1
        Number of times that the shadows are drawn, for ``control="knockoff"``. The e-values of all
        draws are averaged: with 10 draws or more, the selection depends little on ``random_state``.
    min_communality : float, default=0.0
        Minimum communality of selected variables, between 0 and 1.
    max_features : int or None, default=None
        Maximum number of selected variables. If more are significant, those with the largest
        communality are selected. By default, there is no maximum.
    rank_transform : bool, default=False
        Whether the test uses normal scores of the ranks of each column, which reduces the influence
        of single entries. Components and scores are computed from the untransformed columns.
    ordered_scores : bool, default=False
        Whether ordered categorical columns are coded as 0, 1, ... in the order of their levels. By
        default, all levels are treated as unordered.
    counts : bool, default=False
        Whether ``X`` contains counts (molecules of genes, words, species) in rows that differ in
        sequencing depth or length. Counts are replaced by Pearson residuals (see Notes). Sparse
        data stay sparse.
    random_state : int, RandomState instance or None, default=0
        Seed for the shadows, for ``control="knockoff"``.

    Attributes
    ----------
    support_ : bool ndarray of shape (n_features_in_,)
        Mask of the selected variables.
    n_selected_ : int
        Number of selected variables; 0, with a warning, if no variable is selected.
    pvalues_ : ndarray of shape (n_features_in_,)
        P-values of the null hypothesis that a variable shares no variance with the others; 1 for
        constant columns. With ``control="knockoff"``, medians over the draws of the p-values from
        which the statistics are computed; they do not determine the selection.
    qvalues_ : ndarray of shape (n_features_in_,)
        Benjamini-Hochberg adjusted p-values. Variables with a q-value of at most ``fdr`` and a
        communality of at least ``min_communality`` are selected. The p-values depend on ``fdr``;
        refit for another rate. With ``control="knockoff"``, the smallest rate at which each
        variable is selected.
    knockoff_statistics_ : ndarray of shape (n_draws, n_features_in_)
        Statistics of the knockoff filter: positive if a variable has a larger statistic than all of
        its shadows, and negative if a shadow has the largest. Exists only if
        ``control="knockoff"``.
    evalues_ : ndarray of shape (n_features_in_,)
        E-values of the null hypothesis, averaged over the draws. Exists only if
        ``control="knockoff"``.
    communality_ : ndarray of shape (n_features_in_,)
        Proportion of the variance of each variable explained by the components of the other
        selected variables. Its null expectation is ``null_communality_``.
    null_communality_ : float
        Expected communality of a variable without shared variance: ``n_components_`` /
        (n_samples - 1). With groups or covariates, the denominator is the residual degrees of
        freedom.
    component_pvalues_ : ndarray of shape (n_components_, n_features_in_)
        P-values of the association of each variable with each component, given the other
        components. A selected variable is tested against components computed without it.
    component_qvalues_ : ndarray of shape (n_components_, n_features_in_)
        Benjamini-Hochberg adjusted p-values of each component.
    row_scale_ : ndarray of shape (n_samples,)
        Scale of the noise of each row, relative to the median row. With ``null="robust"``, rows are
        divided by this scale before the test.
    row_influence_ : ndarray of shape (n_samples,)
        Proportion of the variance of the components that each row contributes; 0 without
        components.
    components_ : ndarray of shape (n_components_, n_features_in_)
        Principal axes of the standardised selected variables, as orthonormal rows; exact zeros for
        all other variables. For a categorical variable, the length of its part of the axis, with
        the sign of the last level if there are two levels; ``level_components_`` describes the
        levels.
    n_components_ : int
        Number of components, at most the numerical rank of the selected variables.
    explained_variance_ : ndarray of shape (n_components_,)
        Variances of the scores; if ``counts=True``, of scores from residuals without a limit.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Variances of the scores as proportions of the variance of all standardised variables.
    relevance_ : ndarray of shape (n_features_in_,)
        Communality relative to the largest one.
    ranking_ : int ndarray of shape (n_features_in_,)
        Ranks, 1 for the selected variable with the largest communality. Variables that are not
        selected follow, by decreasing communality.
    mean_ : ndarray of shape (n_features_in_,)
        Means of the columns, or of the Pearson residuals if ``counts=True``; 0 for categorical
        columns.
    scale_ : ndarray of shape (n_features_in_,)
        Standard deviations of the columns, or of the Pearson residuals if ``counts=True``, after
        removal of group and covariate effects; 1 for categorical columns.
    varying_ : bool ndarray of shape (n_features_in_,)
        Mask of the columns that are not constant after removal of group and covariate effects.
    covariate_names_ : ndarray of str, shape (n_covariates,)
        Names of the covariates. This and the next four attributes exist only if ``fit`` received
        ``covariates``.
    covariate_levels_ : dict of str to ndarray of str
        Levels of each categorical covariate. The first level is the reference.
    covariate_mean_ : ndarray of shape (n_coded,)
        Means of the coded covariates: numeric covariates, and indicators of all levels but the
        first.
    covariate_coef_ : ndarray of shape (n_coded, n_features_in_)
        Least-squares effects of the coded covariates on the columns.
    covariate_r2_ : ndarray of shape (n_features_in_,)
        Proportion of the variance of each column (within groups) that the covariates explain.
    category_columns_ : int ndarray of shape (n_categories,)
        Positions of the categorical columns. This and the next four attributes exist only if ``X``
        has such columns.
    category_levels_ : dict of str to ndarray of str
        Levels of each categorical column, by name; rare levels are pooled as "other levels".
    category_codes_ : dict of str to ndarray of shape (n_levels, n_coded)
        Standardised values of the coded columns, which are orthonormal, at each level.
    category_components_ : dict of str to ndarray of shape (n_components_, n_coded)
        Entries of the principal axes for the coded columns.
    category_effects_ : dict of str to ndarray of shape (n_covariates, n_coded)
        Effects of the coded covariates on the coded columns.
    count_weights_ : ndarray of shape (n_features_in_,)
        Weights of the columns in the size factor of a row; small for overdispersed columns. Exists
        only if ``counts=True``.
    count_proportions_ : ndarray of shape (n_features_in_,)
        Proportion of each column in the total count. Exists only if ``counts=True``.
    count_noise_ : ndarray of shape (n_features_in_,)
        Mean squared Pearson residual of each column, with null expectation 1. Only if
        ``counts=True``.
    count_unit_ : float
        Mean over the rows of the factor between a change of the proportions and the resulting
        change of the residuals. Effects of covariates refer to rows with this factor. Only if
        ``counts=True``.

    Notes
    -----
    **Null hypothesis.** Under the null hypothesis, a variable is independent of all others. The
    p-value is the larger of the p-values under two null distributions. Under *permutation*, the
    entries of the column are exchangeable. Under *sign flips*, they have random signs and arbitrary
    magnitudes, so that rows may differ in noise. Rows are divided by ``row_scale_`` before the
    test, which restores the power lost to noisy rows. ``null="exchangeable"`` uses permutation
    alone, except for columns with few nonzero entries.

    Rows must be independent. Time series and repeated measures violate this assumption. Pass
    patients, donors or batches as ``groups`` to compare rows within groups. Warnings report
    correlated adjacent rows, equal rows, outlying rows, and components that describe one or two
    rows.

    **Covariates.** Effects of covariates and groups are removed by least squares. In the test, rows
    are weighted by their scales. Degrees of freedom and sign flips account for the adjustment.
    Numeric covariates have linear effects; categorical covariates have one effect per level.

    **Many rows.** With at least 32,768 rows and more than 2,048 columns, the components of the test
    are those of variables selected on 16,384 evenly spaced rows, provided that at least 100 are
    discovered. All variables are then tested on all rows.

    **Pairs.** A variable that shares variance with only one or two others forms no leading
    component. Such a variable is detected by its largest correlation with another variable. Pairs
    are not tested if n_samples * n_features^2 exceeds 8.6e9, for example with 200 rows and more
    than 6,500 columns.

    **Knockoffs.** With ``control="knockoff"``, a shadow of a variable has the same entries in
    random order, within groups (``null="exchangeable"``), or the same deviations from the centre
    with random signs (``null="robust"``, with or without covariates). A shadow and its variable
    have the same missing values. All coded columns of a categorical variable have the same
    permutation, or the same signs if there are covariates. Variables and shadows are tested
    together, and the knockoff filter selects the variables that exceed their shadows. If null
    variables are exchangeable with their shadows, given all others, the false discovery rate is at
    most ``fdr`` for any number of rows and any distribution. Permuted rows satisfy this exactly if
    rows are exchangeable. Random signs satisfy it if deviations are symmetric, up to an error of
    the order of 1 / n_samples for each centre that is estimated. With several draws, the e-BH
    procedure is applied to the mean e-values. ``min_communality`` and ``max_features`` remove
    variables after the selection; control is not proven for the remaining variables.

    **Categories.** Columns of a DataFrame with category or string dtype are categorical variables.
    Booleans are treated as numbers 0 and 1. A categorical variable with L levels is coded by a
    block of L - 1 orthonormal columns, as in PCA of mixed data (FAMD, PCAmix). It is tested and
    selected as one variable, and its communality is the mean R2 of its columns. Levels with fewer
    than five rows are pooled if there are several such levels. ``inverse_transform`` returns NaN in
    categorical columns. ``counts=True`` and ``rank_transform=True`` require numeric columns.

    **Counts.** For a count x in a row with size factor N and a column with proportion pi, the
    Pearson residual is (x - N pi) / sqrt(N pi). It has mean 0 and variance 1 for any size factor if
    the rows differ only in their size factors. Rows whose residuals are larger overall are scaled
    down. ``transform`` limits residuals to three standard deviations of their column. Otherwise,
    rows of a rare group, with a few large counts in rare columns, would have no near neighbours.
    ``mean_`` and ``scale_`` refer to the residuals times sqrt(pi), which ``inverse_transform``
    returns. Effects of groups and covariates on the proportions grow with the size factor of a row
    and are subtracted in proportion to it. In tables of fewer than about 100 columns, columns with
    shared variance change the size factors, and the false discovery rate can exceed ``fdr``.

    **Missing values** (NaN) of dense data in memory are accepted. Each variable is tested on the
    rows in which it is observed. Missing values of the selected variables are imputed by their
    components after the test. Values are assumed to be missing at random; a warning reports
    missing values that depend on the components. Do not impute before the test: values imputed from
    other columns share variance with them by construction, and the false discovery rate is no
    longer controlled. ``counts=True``, ``rank_transform=True`` and sparse, Dask and GPU data
    require complete data.

    References
    ----------
    Y. Benjamini, Y. Hochberg (1995). Controlling the false discovery rate. JRSS B.
    R. F. Barber, E. J. Candes (2015). Controlling the false discovery rate via knockoffs. Annals of
    Statistics.
    M. Chavent, V. Kuentz-Simonet, A. Labenne, J. Saracco (2017). Multivariate analysis of mixed
    data: the R package PCAmixdata. arXiv:1411.4911.
    J. R. Gimenez, J. Zou (2019). Improving the stability of the knockoff procedure: multiple
    simultaneous knockoffs and entropy maximization. AISTATS.
    G. H. Golub (1973). Some modified matrix eigenvalue problems. SIAM Review.
    M. Linting, B. J. van Os, J. J. Meulman (2011). Statistical significance of the contribution of
    variables to the PCA solution. Psychometrika.
    Z. Ren, R. F. Barber (2024). Derandomised knockoffs: leveraging e-values for false discovery
    rate control. JRSS B.

    Examples
    --------
    >>> from prosparse import FDRPCA, datasets
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> model = FDRPCA().fit(X)
    >>> model.n_selected_, int(truth[model.support_].sum())
    (11, 10)
    """

    _accepts_any_container = True
    _variable_attributes = (
        ("communality", "communality_"),
        ("pvalue", "pvalues_"),
        ("qvalue", "qvalues_"),
        ("evalue", "evalues_"),
        ("knockoff_statistic", "knockoff_statistics_"),
        ("count_weight", "count_weights_"),
        ("count_proportion", "count_proportions_"),
        ("count_noise", "count_noise_"),
    )

    pvalues_: Array
    qvalues_: Array
    knockoff_statistics_: Array
    evalues_: Array
    communality_: Array
    null_communality_: float
    component_pvalues_: Array
    component_qvalues_: Array
    row_scale_: np.ndarray
    row_influence_: np.ndarray
    count_weights_: Array
    count_proportions_: Array
    count_noise_: Array

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        fdr: float = 0.05,
        null: Null = "robust",
        control: Control = "bh",
        n_shadows: int = 1,
        n_draws: int = 1,
        min_communality: float = 0.0,
        max_features: int | None = None,
        rank_transform: bool = False,
        ordered_scores: bool = False,
        counts: bool = False,
        random_state: int | np.random.RandomState | None = 0,
    ):
        self.n_components = n_components
        self.fdr = fdr
        self.null = null
        self.control = control
        self.n_shadows = n_shadows
        self.n_draws = n_draws
        self.min_communality = min_communality
        self.max_features = max_features
        self.rank_transform = rank_transform
        self.ordered_scores = ordered_scores
        self.counts = counts
        self.random_state = random_state

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        covariates: object = None,
    ) -> Self:
        """Select the variables with shared variance and fit their components.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix.
        y : None
            Ignored; present for compatibility with scikit-learn.
        groups : array-like of shape (n_samples,) or None, default=None
            Group labels of the rows (donors, batches, repeated measures). Columns are centred
            within groups, which removes differences between groups.
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Known variables of the rows, such as age, sex and batch. Their effects are removed
            before variables are tested and components are fitted. Categorical, string and boolean
            columns are coded by indicators of their levels.

        Returns
        -------
        FDRPCA
            The fitted estimator.
        """
        with self._fitting():
            table = self._validate(X, reset=True)
            self._check_n_rows(table.shape[0])
            design = check_design(groups, covariates, table.shape[0], MIN_DOF)
            coded = self._code_categories(table, design)
            op, columns, seen = self._standardise_table(table if coded is None else coded.X)
            if self.counts:
                design = self._design_of_counts(table, design)
            check_varying(op, columns)
            if covariates is not None and self.control == "knockoff" and self.null != "robust":
                raise ParameterError(
                    '`control="knockoff"` with `null="exchangeable"` does not accept covariates: '
                    'residuals given covariates are not exchangeable. Set `null="robust"`, or pass '
                    "categories as `groups`."
                )
            if seen is not None:
                op = fill_by_design(op, seen, design.adjustment)
            adjusted = self._adjust(op, columns, design)
            op, columns, blocks, sizes = adjusted.op, adjusted.columns, None, None
            tested_op = self._normal_scores(table, columns) if self.rank_transform else op
            data = StandardisedData(adjusted.residuals, design.adjustment)
            if seen is not None:
                seen = seen[:, adjusted.kept]
                if coded is not None:
                    blocks = coded.varying_blocks(columns)
                    sizes = blocks.sizes
                data, factors = observed_data(adjusted.residuals, seen, design.adjustment, sizes)
                columns = _divide_scales(columns, factors)
            prepared = prepare_data(
                tested_op, design.adjustment, self.null == "robust", seen, sizes
            )
            self.row_scale_, tested = prepared.row_scale, prepared.data
            by_knockoffs = self._apply_knockoffs(tested_op, design.adjustment, seen, blocks)
            has_rounding = self.counts or seen is not None
            rounding = (
                np.zeros(op.shape[1]) if has_rounding else _rounding_squares(table, columns, op)
            )
            solution = solve(tested, data, rounding, self._options(), by_knockoffs)
            variables, components = columns, solution.components
            if coded is not None:
                variables, components = self._set_categories(coded, columns, solution)
            self._set_attributes(solution, solution.data, variables, components)
            scores = _orthonormal_scores(solution, solution.data)
            self.row_influence_ = row_influence(scores * np.sqrt(solution.sums_of_squares))
            correlation = adjacent_row_correlation(solution.data, scores)
            self._warn_about_rows(correlation, op, groups is not None)
            if isinstance(tested, ObservedData):
                self._warn_about_missing_values(tested, scores)
        self._warn_about_selection()
        return self

    # --- from parameters to the problem

    def _check_n_rows(self, n: int) -> None:
        if n - 1 < MIN_DOF:
            raise InputError(
                f"X has too few rows to test for shared variance (n_samples={n}); at least "
                f"{MIN_DOF + 1} are required."
            )

    def _options(self) -> Options:
        return Options(
            n_components=self.n_components,
            fdr=float(self.fdr),
            min_communality=float(self.min_communality),
            max_features=None if self.max_features is None else int(self.max_features),
            robust=self.null == "robust",
        )

    def _allows_missing(self, X: TableLike) -> bool:
        container = container_of(X)
        return container.on_cpu and not container.is_sparse and not container.stays_in_place

    def _has_missing(self, X: TableLike) -> bool:
        return self._allows_missing(X) and container_of(X).has_missing(X)

    def _standardise_table(self, table: Table) -> tuple[Operator, Columns, np.ndarray | None]:
        """Standardise the columns; also return the mask of observed entries."""
        if not self._is_incomplete(table):
            op, columns = self._residuals(table) if self.counts else standardise(table, True)
            return op, columns, None
        for parameter in ("counts", "rank_transform"):
            if getattr(self, parameter):
                raise InputError(
                    f"Input X contains missing values (NaN), which `{parameter}=True` does not "
                    f"support. Drop the incomplete rows or columns, or set `{parameter}=False`."
                )
        return standardise_observed(table, True)

    def _residuals(self, table: Table) -> tuple[Operator, Columns]:
        """Standardise the Pearson residuals of counts."""
        row_totals(table)  # raises an error if the entries are not counts
        counts = _raw_counts(table)
        null = fit_count_model(counts)
        rows = row_factors(counts, null)
        mean, deviation = column_moments(counts, null, rows)
        varying = deviation > 0.0
        if varying.sum() < 2:
            raise InputError(
                f"{varying.size - int(varying.sum())} of the {varying.size} columns of X are "
                "proportional to the size factors of the rows; at least 2 must not be. Check how "
                "the data were read."
            )
        like = counts.like
        mean, deviation = np.where(varying, mean, 0.0), np.where(varying, deviation, 1.0)
        columns = Columns(
            mean=from_numpy(mean, like, counts.dtype),
            scale=from_numpy(deviation, like, counts.dtype),
            unit=1.0,
            varying=from_numpy(varying, like),
        )
        self.count_weights_ = columns.values(null.weights)
        self.count_proportions_ = columns.values(null.proportions)
        self.count_noise_ = columns.values(null.dispersion)
        op = _standard_residuals(
            table, columns.varying_index, null.proportions, rows, mean, deviation
        )
        op.remember_column_squares(from_numpy(np.full(op.shape[1], float(op.shape[0])), like))
        return op, columns

    def _design_of_counts(self, table: Table, design: RowDesign) -> RowDesign:
        """Multiply the design by the expected counts, relative to their mean."""
        expected = self._row_factors(table).expected
        self.count_unit_ = float(np.mean(expected))
        adjustment = adjustment_of_proportions(design.adjustment, expected / self.count_unit_)
        return design._replace(adjustment=adjustment)

    def _design_weights(self, X: TableLike) -> np.ndarray:
        if not hasattr(self, "count_unit_"):
            return super()._design_weights(X)
        return np.asarray(self._row_factors(X).expected / self.count_unit_)

    def _row_factors(self, X: TableLike) -> RowFactors:
        """Compute the size factors and scales of rows of counts."""
        model = (self.count_weights_, self.count_proportions_, self.count_noise_)
        null = CountModel(*(to_numpy(values).astype(float) for values in model))
        return row_factors(_raw_counts(X), null)

    def _unadjusted_operator(self, X: TableLike, columns: np.ndarray | None) -> Operator:
        if not hasattr(self, "count_weights_"):
            return super()._unadjusted_operator(X, columns)
        row_totals(X)
        rows, proportions = self._row_factors(X), to_numpy(self.count_proportions_).astype(float)
        mean, scale = (to_numpy(v).astype(float) for v in (self.mean_, self.scale_))
        columns = np.arange(mean.size) if columns is None else columns
        return _standard_residuals(X, columns, proportions, rows, mean, scale)

    def _apply_knockoffs(
        self,
        op: Operator,
        adjustment: RowAdjustment,
        seen: np.ndarray | None,
        blocks: Blocks | None,
    ) -> SharedByKnockoffs | None:
        """Select variables by the knockoff filter; None if it is not used."""
        if self.control != "knockoff":
            return None
        options = Knockoffs(
            fdr=float(self.fdr),
            n_shadows=int(self.n_shadows),
            n_draws=int(self.n_draws),
            seed=seed_of(self.random_state),
            signs=self.null == "robust",
        )
        return select_shared_by_knockoffs(op, adjustment, options, seen, blocks)

    def _normal_scores(self, table: Table, columns: Columns) -> Operator:
        """Standardise the normal scores of the varying columns."""
        scores = normal_scores(table)
        varying = container_of(scores).take_columns(scores, columns.varying_index)
        return standardise(varying, True)[0]

    def _transform(self, X: TableLike, **metadata: Any) -> Array:
        check_is_fitted(self)
        table = self._validate(X, reset=False)
        if not self._is_incomplete(table):
            return super()._transform(X, **metadata)
        return self._conditional_scores(table, metadata).mean.astype(table.dtype, copy=False)

    def _project(self, op: Operator, projection: Array) -> Array:
        if hasattr(self, "count_weights_"):
            return limited_scores(op, projection)
        return super()._project(op, projection)

    def transform_std(self, X: TableLike, *, covariates: Any = None) -> np.ndarray:
        """Return the standard deviations of the scores due to missing values.

        Parameters
        ----------
        X : array-like or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``, with missing values (NaN).
        covariates : DataFrame or array-like of shape (n_samples, n_covariates) or None
            Covariates of the rows, required if ``fit`` received covariates.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Standard deviations given the observed values; 0 for complete rows.
        """
        check_is_fitted(self)
        table = self._validate(X, reset=False)
        return self._conditional_scores(table, {"covariates": covariates}).std

    def _conditional_scores(self, table: Table, metadata: dict[str, Any]) -> ScoreDistribution:
        """Compute the distribution of the scores given the observed values."""
        selected = np.flatnonzero(to_numpy(self.support_))
        standardised = self._standardised_observed(table, selected, metadata)
        components = self._coded_components(selected)
        variances = to_numpy(self.explained_variance_).astype(float)
        d, q = components.shape
        noise = max(q - float(variances.sum()), 0.0) / max(q - d, 1)
        return conditional_scores(standardised, components.T, variances, noise)

    def _score(self, X: TableLike, **metadata: Any) -> float:
        check_is_fitted(self)
        table = self._validate(X, reset=False)
        if not self._is_incomplete(table):
            return super()._score(X, **metadata)
        varying = np.flatnonzero(to_numpy(self.varying_))
        Z = self._standardised_observed(table, varying, metadata)
        components = self._coded_components(varying)
        fitted = self._conditional_scores(table, metadata).mean @ components
        total = float(np.nansum(Z**2))
        return 1.0 - float(np.nansum((Z - fitted) ** 2)) / total if total else 1.0

    def _standardised_observed(
        self, table: Table, columns: np.ndarray, metadata: dict[str, Any]
    ) -> np.ndarray:
        """Standardise some columns as in ``fit``; missing values remain NaN."""
        Z = dense_with_missing(table)
        seen = ~np.isnan(Z)
        filled = np.where(seen, Z, to_numpy(self.mean_).astype(float))
        op = self._operator_of(filled, columns, **metadata)
        standardised = np.where(seen[:, columns], np.asarray(op.dense(), dtype=float), np.nan)
        return self._code_new_rows(Z, standardised, columns, metadata)

    def _is_incomplete(self, table: Table) -> bool:
        """Return whether rows have categories or missing values."""
        return self._has_categories or self._has_missing(table)

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        for name in ("fdr", "min_communality"):
            check_non_negative(name, getattr(self, name))
        if not 0.0 < self.fdr < 1.0:
            raise ParameterError(f"`fdr` must be in (0, 1), got {self.fdr!r}.")
        if self.min_communality > 1.0:
            raise ParameterError(
                f"`min_communality` must be in [0, 1], got {self.min_communality!r}."
            )
        if self.max_features is not None:
            check_integer("max_features", self.max_features, 2, " or None")
        check_choice("null", self.null, get_args(Null))
        check_choice("control", self.control, get_args(Control))
        check_integer("n_shadows", self.n_shadows, 1)
        check_integer("n_draws", self.n_draws, 1)
        check_bool("rank_transform", self.rank_transform)
        check_bool("ordered_scores", self.ordered_scores)
        check_bool("counts", self.counts)
        if self.counts and self.rank_transform:
            raise ParameterError(
                "`rank_transform=True` and `counts=True` cannot be combined: both transform the "
                "columns before the test. Set one of them."
            )

        if self.counts and self.control == "knockoff":
            raise ParameterError(
                '`control="knockoff"` and `counts=True` cannot be combined: residuals of counts in '
                "rows of unequal depth are neither exchangeable nor symmetric. Set "
                '`control="bh"`.'
            )

    # --- from the solution to attributes

    def _set_attributes(
        self, solution: Solution, data: StandardisedData, columns: Columns, components: np.ndarray
    ) -> None:
        kept, width = columns.varying_index, columns.mean.shape[0]
        largest = max(float(solution.communality.max()), np.finfo(float).tiny)
        self._set_columns(
            columns,
            solution.order,
            solution.selected,
            columns.numbers(components),
            solution.communality / largest,
        )
        self.n_components_ = components.shape[0]
        self.n_selected_ = int(solution.selected.size)

        def expand(values: np.ndarray, constant: float) -> np.ndarray:
            """Expand values of varying columns to all columns."""
            full = np.full(width, constant)
            full[kept] = values
            return full

        self.pvalues_ = columns.values(expand(solution.test.pvalues, 1.0))
        self.qvalues_ = columns.values(expand(solution.qvalues, 1.0))
        if isinstance(solution.test, SharedByKnockoffs):
            filtered = solution.test.filtered
            self.evalues_ = columns.values(expand(filtered.evalues, 0.0))
            full = np.zeros((filtered.statistics.shape[0], width))
            full[:, kept] = filtered.statistics
            self.knockoff_statistics_ = columns.values(full)
        self.communality_ = columns.numbers(expand(solution.communality, 0.0))
        for name in ("component_pvalues", "component_qvalues"):
            full = np.ones((self.n_components_, width))
            full[:, kept] = getattr(solution, name).T
            setattr(self, f"{name}_", columns.values(full))
        self.null_communality_ = self.n_components_ / data.dof
        self.explained_variance_ = columns.numbers(solution.sums_of_squares / data.dof)
        # Because the sums of squares have different rounding errors, the ratios could sum to more
        # than 1.
        total = max(float(np.sum(data.sums_of_squares)), float(np.sum(solution.sums_of_squares)))
        ratio = solution.sums_of_squares / max(total, np.finfo(float).tiny)
        self.explained_variance_ratio_ = columns.numbers(ratio)

    def _warn_about_rows(self, correlation: float, op: Operator, has_groups: bool) -> None:
        if correlation:
            within = " within groups" if has_groups else ""
            remedy = (
                "If they are repeated measures or a time series, the test selects too many "
                "variables: keep only rows that are far enough apart to be independent."
                if has_groups
                else "If they are repeated measures, pass `groups`; for a time series, the test is "
                "invalid and selects too many variables."
            )
            warn(
                f"FDRPCA: adjacent rows{within} are correlated (mean lag-1 correlation "
                f"{correlation:.2f} after removing the components). If the rows are merely sorted, "
                f"ignore this warning. {remedy}",
                RowOrderWarning,
            )
        if n_equal := len(find_duplicates(op)):
            warn(
                f"FDRPCA: {plural(n_equal, 'row')} of X {'equals' if n_equal == 1 else 'equal'} "
                "an earlier row. The test counts each row as an independent observation. Drop the "
                "duplicates, unless they are distinct samples with equal measurements.",
                DuplicateRowsWarning,
            )
        outlying = outlying_rows(self.row_scale_)
        if outlying.size:
            protection = (
                "The test accounts for their scale, but the components do not: check these rows."
                if self.null == "robust"
                else "Uncorrelated variables then seem significant: check these rows, or set "
                '`null="robust"`.'
            )
            largest = float(self.row_scale_[outlying[0]])
            warn(
                f"FDRPCA: {list_rows(outlying)} of X {'has' if outlying.size == 1 else 'have'} a "
                f"much larger scale than the others, up to {largest:.1f} times that of a typical "
                f"row. {protection}",
                OutlyingRowsWarning,
            )
        influential = influential_rows(self.row_influence_)
        if influential.size:
            proportion = float(self.row_influence_[influential].sum())
            verb = "accounts" if influential.size == 1 else "account"
            warn(
                f"FDRPCA: {list_rows(influential)} of X {verb} for {proportion:.0%} of the "
                "variance of the components. The components describe these rows, not the table. "
                "Check them, and fit again without them.",
                OutlyingRowsWarning,
            )

    def _warn_about_missing_values(self, tested: ObservedData, scores: np.ndarray) -> None:
        untested = int(np.sum(tested.sums_of_squares <= 0.0))
        if untested:
            warn(
                f"FDRPCA: {plural(untested, 'column')} of X {'has' if untested == 1 else 'have'} "
                f"too few observed values to be tested and {'is' if untested == 1 else 'are'} not "
                "selected.",
                MissingValuesWarning,
            )
        sparse_rows = np.flatnonzero(tested.seen.mean(axis=1) < _MIN_OBSERVED)
        if sparse_rows.size:
            verb = "has" if sparse_rows.size == 1 else "each have"
            warn(
                f"FDRPCA: {list_rows(sparse_rows)} of X {verb} more than {1.0 - _MIN_OBSERVED:.0%} "
                "missing values, so scores are inaccurate. Drop rows of failed measurements.",
                MissingValuesWarning,
            )
        if missingness_pvalue(tested, tested.seen, scores) < _MAX_MISSINGNESS_PVALUE:
            warn(
                "FDRPCA: the proportion of missing values in a row depends on the components. If "
                "values are missing because they are small or large, loadings and scores are "
                "biased. Check why values are missing.",
                MissingValuesWarning,
            )

    def _warn_about_selection(self) -> None:
        if self.n_selected_ == 0:
            minimum = ""
            if self.min_communality:
                minimum = f" and a communality of at least {float(self.min_communality):g}"
            warn(
                "FDRPCA: no variable has significant shared variance at a false discovery rate of "
                f"{float(self.fdr):g}{minimum}. No variable is selected and there are no "
                "components. More rows increase the power of the test.",
                NoStructureWarning,
            )


def _divide_scales(columns: Columns, factors: np.ndarray) -> Columns:
    """Divide the scales of the varying columns by positive factors."""
    scale = to_numpy(columns.scale).astype(float).copy()
    scale[columns.varying_index] /= np.where(factors > 0.0, factors, 1.0)
    return columns._replace(scale=columns.numbers(scale))


def _orthonormal_scores(solution: Solution, data: StandardisedData) -> np.ndarray:
    """Compute the scores on the components, scaled to unit length, (n, d)."""
    if not solution.components.shape[0]:
        return np.zeros((data.n, 0))
    subset = data.op.take_columns(solution.selected_columns)
    lengths = np.sqrt(np.maximum(solution.sums_of_squares, 1e-300))
    weights = data.from_numpy(solution.components.T / lengths)
    return to_numpy(subset.gathered_matmul(weights)).astype(float)


def _rounding_squares(table: Table, columns: Columns, op: Operator) -> np.ndarray:
    """Bound the sum of squared rounding errors of each standardised column.

    The rounding error of an entry is relative to its magnitude, which the mean may dominate. The
    products of sparse columns are summed before the means are subtracted, and cancellation adds to
    the error. The result has shape (n_varying,).
    """
    index = columns.varying_index
    mean, scale = (to_numpy(v)[index].astype(float) for v in (columns.mean, columns.scale))
    relative_mean = np.abs(mean) / (scale * columns.unit)
    epsilon = float(np.finfo(precision_of(table)).eps)
    squares = (epsilon * (1.0 + relative_mean)) ** 2
    if container_of(table).is_sparse:
        squares += np.sqrt(table.shape[0]) * op.epsilon * relative_mean**2
    return np.asarray(table.shape[0] * squares)


def _raw_counts(X: Table) -> Operator:
    """Return the operator of counts that are neither centred nor scaled."""
    zeros, ones = (as_like(v, X, X.dtype) for v in (np.zeros(X.shape[1]), np.ones(X.shape[1])))
    return operator_of(X, zeros, ones)


def _standard_residuals(
    X: Table,
    columns: np.ndarray,
    proportions: np.ndarray,
    rows: RowFactors,
    mean: np.ndarray,
    scale: np.ndarray,
) -> Operator:
    """Standardise the residuals of some columns of counts.

    ``proportions``, ``mean`` and ``scale`` are those of all columns.
    """
    zeros, scales = (as_like(v, X, X.dtype) for v in (np.zeros(scale.size), scale))
    counts, divisor = operator_of(X, zeros, scales), scale[columns]
    if columns.size < scale.size:
        counts = counts.take_columns(from_numpy(columns, counts.like))
    return residual_operator(counts, proportions[columns] / divisor, rows, mean[columns] / divisor)
