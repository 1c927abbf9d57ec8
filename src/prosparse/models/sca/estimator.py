"""Estimator class `SCA`: parameters, ``fit`` and methods of a fitted model.

Module `model` contains the model and its updates, `solve` the complete fit, and `conditional`
inference for new rows.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Any, Literal, NamedTuple, Self, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Columns, Operator, container_of, standardise, take_columns
from ...data.arrays import as_like, from_numpy, is_floating, precision_of, spread, to_numpy
from ...data.column_groups import ColumnGroup, column_groups
from ...data.columns import UNITS, check_range
from ...data.containers import Table
from ...data.missing_values import dense_with_missing, standardise_observed
from ...data.row_groups import RowGroups, row_groups
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    check_choice,
    check_integer,
    check_non_negative,
    warn,
)
from ...inference.checkpoint import Stage
from ...inference.progress import Progress
from .._base import CheckpointLike, HasDensity, SparseProjection, check_varying
from .conditional import Factors, FittedModel, encode_groups, has_missing
from .group_data import GroupedData, group_data
from .likelihood import Likelihood
from .model import Noise, Prior
from .n_factors import SCAOptions
from .non_gaussian_data import (
    check_in_memory,
    column_likelihoods,
    prepare_rows,
    view_likelihoods,
)
from .row_weights import estimate_row_weights
from .solve import (
    Solution,
    SparseLoadings,
    gaussian_data,
    grouped_fit_data,
    non_gaussian_data,
    solve,
)
from .start import Rotation
from .views import (
    check_names,
    concatenate_views,
    duplicate_names,
    is_list_of_views,
    join_views,
    joint_column_names,
    private_counts,
    varying_view_columns,
    view_column_names,
)

MAX_RATE = 1e100  # maximum rate of the hyperbolic prior, in the units of the operator


class Prediction(NamedTuple):
    """Predictive distribution of a view.

    Attributes
    ----------
    mean : ndarray of shape (n_samples, n_view_features)
        Predictive means.
    variance : ndarray of shape (n_samples, n_view_features)
        Predictive variances of new observations, including noise.
    """

    mean: np.ndarray
    variance: np.ndarray


class SCA(HasDensity, SparseProjection):
    """Sparse factor analysis of one or several views of the same samples.

    With one view, the model is sparse probabilistic PCA; with two views, sparse inter-battery
    (canonical correlation) analysis; and with more views, group factor analysis. Missing values and
    missing views are integrated out exactly.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of factors shared by all views. "auto" maximises the lower bound of the marginal
        likelihood over the number of factors, starting from the number of variational PCA. If
        ``max_iter`` is at most 30, the initial number is used. Factors without loadings are always
        removed.
    prior : {"ard", "point-normal", "hyperbolic"}, default="ard"
        Prior of the loadings. "point-normal": a loading is either zero or Gaussian, with a
        probability and a variance that are estimated for each factor and view; there are no tuning
        parameters. Scores have a point-normal prior if its evidence is higher than that of a
        Gaussian prior. The comparison requires NumPy or SciPy sparse data in memory, Gaussian views
        and a single group of samples; otherwise, scores are Gaussian. "ard" is automatic relevance
        determination with posterior uncertainty. "hyperbolic" is the maximum a posteriori estimate
        under a generalised hyperbolic prior.
    shape : float, default=0.0
        Shape of the hyperbolic prior, multiplied by the number of loadings
        (``n_features * n_factors``). If ``shape`` and ``rate`` are zero, the prior is
        Normal-Jeffreys, which has no tuning parameters and is invariant to units. ``shape =
        n_features * n_factors`` is the Laplace prior, an l1 penalty of ``sqrt(2 * rate)``. Requires
        ``prior="hyperbolic"``.
    rate : float, default=0.0
        Rate of the hyperbolic prior, in units of the inverse variance of the data, or of the
        standardised data unless ``noise="view"``. Larger values lead to more zeros. Requires
        ``prior="hyperbolic"``.
    n_private : int or list of int, default=0
        Number of factors private to each view. An integer applies to every view.
    noise : {"learned", "feature", "view"}, default="feature"
        Noise model. "feature" estimates one variance per column (factor analysis), with a weak
        prior that excludes zero; the fit does not depend on the units of the columns. "view"
        estimates one variance per view. "learned" is intermediate: the variances of a view have a
        common prior whose spread is estimated, as in limma. With several groups of samples,
        non-Gaussian views or ``prior="hyperbolic"``, "learned" is equivalent to "feature". With few
        columns, the evidence often does not distinguish equal from unequal variances; use "view" if
        the noise of all columns is known to be equal.
    rotation : {"shared", "sparse"}, default="shared"
        Rotation of the initial factors, which determines the local optimum. "shared" applies
        varimax within each view, with equal weight for each view, and favours factors common to
        all views. "sparse" minimises the number of large loadings overall. It reaches a higher
        objective and favours factors common to few views, but does not improve the held-out
        density.
    likelihood : {"gaussian", "bernoulli", "poisson"} or list of these, default="gaussian"
        Distribution of the entries given the factors, for all views or for each view. Loadings and
        means of Bernoulli views are on the log-odds scale. Loadings and means of Poisson views are
        on a scale that is logarithmic in the expected count below ``linear_threshold_`` and linear
        above it.
    row_scale : {"auto", "equal"}, default="auto"
        Scale of the rows. "auto" estimates the scale of each row if the likelihood of a
        multivariate t distribution is higher than that of rows of equal scale, as for samples of
        unequal quality or with outlying rows. That comparison requires at least 30 complete rows,
        Gaussian views, a single group of samples and a prior other than "hyperbolic"; the scales
        are equal otherwise, and in sparse data.
    views : list of column groups or None, default=None
        Columns of each view, as names, slices, masks or positions. None means a single view, or
        one view per data matrix if ``fit`` receives a list.
    max_iter : int, default=1000
        Maximum number of iterations.
    tol : float, default=1e-6
        Tolerance. Iterations stop if the objective increases by less than ``tol`` per observed
        entry. The tolerance is at least 1e-6 if any view is non-Gaussian.
    verbose : int, default=0
        Verbosity level. 1 prints the progress.

    Attributes
    ----------
    components_ : ndarray of shape (n_factors, n_features_in_)
        Loadings, with exact zeros. With ``prior="point-normal"``, a loading is zero if its local
        false sign rate is at least 0.5; otherwise, it is the posterior mean. Shared factors come
        first, in decreasing order of ``view_correlation_``, then the private factors of each view.
        Factors with equal view correlation, for example with a single view, are in decreasing order
        of explained variance (of the standardised columns unless ``noise="view"``). Factors have
        unit variance.
    components_std_ : ndarray of shape (n_factors, n_features_in_)
        Posterior standard deviations of the loadings. Undefined if ``prior="hyperbolic"``.
    loadings_mean_ : ndarray of shape (n_factors, n_features_in_)
        Posterior means of the loadings, which are not exactly zero. They are used by `transform`,
        `inverse_transform`, `score`, `impute` and `predict_view`. This attribute and the next three
        exist only if ``prior="point-normal"``.
    loadings_lfsr_ : ndarray of shape (n_factors, n_features_in_)
        Local false sign rate: posterior probability that a loading is zero or has the opposite
        sign.
    inclusion_probability_ : ndarray of shape (n_factors, n_features_in_)
        Posterior probability that a loading is not zero.
    score_probability_ : ndarray of shape (n_factors,)
        Prior probability that the score of a sample is not zero; 1 for Gaussian scores.
    view_components_ : list of ndarray of shape (n_factors, n_view_features)
        Loadings of each view.
    view_columns_ : list of ndarray of shape (n_view_features,)
        Positions of the columns of each view.
    view_names_ : list of ndarray of shape (n_view_features,) or None
        Column names of each view; None for views without names.
    likelihood_ : list of str
        Likelihood of each view.
    linear_threshold_ : ndarray of shape (n_features_in_,)
        Count above which the expected count of a Poisson column is linear in the factors; 1 for
        other columns. Exists only if a view is non-Gaussian.
    factor_view_ : ndarray of shape (n_factors,)
        View of each private factor; -1 for shared factors.
    view_correlation_ : ndarray of shape (n_factors,)
        Correlation, in new samples, between the scores of a factor computed from two different
        views, averaged over all pairs of views. The correlation is computed from the fitted model
        and is approximate for non-Gaussian views. It is zero with one view, and may be negative if
        a single view does not distinguish the factors.
    n_components_ : int
        Number of shared factors with loadings.
    n_private_ : list of int
        Number of private factors with loadings in each view.
    n_pruned_ : int
        Number of factors removed because all loadings are zero. With ``n_components="auto"``, the
        difference between the maximum and the selected number of factors.
    noise_variance_ : ndarray of shape (n_views,)
        Mean noise variance of the columns of each view; 1 for non-Gaussian views.
    feature_noise_variance_ : ndarray of shape (n_features_in_,)
        Noise variance of each column (unique variance); 1 for non-Gaussian columns.
    explained_variance_ : ndarray of shape (n_factors,)
        Variance explained by each factor, summed over all columns.
    explained_variance_ratio_ : ndarray of shape (n_factors,)
        Proportion of the model variance explained by each factor, or of the variance within groups
        if ``fit`` received ``groups``. Undefined if a view is non-Gaussian.
    explained_variance_per_view_ : ndarray of shape (n_views, n_factors)
        Variance explained by each factor, summed over the columns of each view.
    explained_variance_per_group_ : ndarray of shape (n_groups, n_views, n_factors)
        Variance explained by each factor in each group of samples and each view. This attribute and
        the next six exist only if ``fit`` received ``groups``.
    factor_variance_per_group_ : ndarray of shape (n_groups, n_factors)
        Variance of each factor in each group. The mean over all samples is 1.
    groups_ : ndarray of shape (n_groups,)
        Labels of the groups.
    group_sizes_ : ndarray of shape (n_groups,)
        Number of samples of each group.
    group_means_ : ndarray of shape (n_groups, n_features_in_)
        Column means in each group. If a column has no observed entries in a group, the mean of the
        other groups is used.
    group_noise_variance_ : ndarray of shape (n_groups, n_features_in_)
        Noise variance of each column in each group.
    group_varying_ : ndarray of bool of shape (n_groups, n_features_in_)
        Mask of the columns that vary within each group. Columns that are constant within a group
        are ignored in that group.
    support_ : ndarray of bool of shape (n_features_in_,)
        Mask of the columns with at least one non-zero loading.
    n_selected_ : int
        Number of selected columns.
    relevance_ : ndarray of shape (n_features_in_,)
        Euclidean norm of the loadings of each column, relative to the largest.
    ranking_ : ndarray of int of shape (n_features_in_,)
        Rank of each column by relevance, 1 for the most relevant.
    mean_ : ndarray of shape (n_features_in_,)
        Column means, estimated by the model if values are missing. For non-Gaussian views, the
        linear predictor with all factors equal to zero.
    scale_ : ndarray of shape (n_features_in_,)
        Ones, because the columns are not scaled.
    varying_ : ndarray of bool of shape (n_features_in_,)
        Mask of the columns that are not constant.
    row_scale_ : ndarray of shape (n_samples,)
        Scale of each row. This attribute and the following one exist only if the scales are not
        equal.
    row_df_ : float
        Degrees of freedom of the multivariate t distribution of the rows. Variances and
        `get_covariance` are those of a row of unit scale.
    objective_path_ : ndarray of shape (n_iter_,)
        Objective after each iteration, non-decreasing. "point-normal" and "ard": lower bound of the
        log marginal likelihood (evidence). "hyperbolic": log posterior density, where zero loadings
        are evaluated at 1e-12 (in units of the data) if the prior density is infinite at zero. If a
        view is non-Gaussian, the objective is a lower bound of these values.
    n_iter_ : int
        Number of iterations.
    stop_reason_ : StopReason
        Reason why the iterations stopped.
    n_features_in_ : int
        Number of columns of all views.
    feature_names_in_ : ndarray of shape (n_features_in_,)
        Column names. Exists only if all views have names and the names are unique.

    See Also
    --------
    sklearn.decomposition.FactorAnalysis : Factor analysis with dense loadings.

    Notes
    -----
    Constant columns have no loadings and are ignored by `score`.

    With point-normal scores, `transform` returns the means of a variational posterior, which are
    not linear functions of the row. `score` and `get_covariance` use a Gaussian distribution with
    the covariance matrix of the model.

    ``fit(X, groups=...)`` fits the multi-group model of MOFA+ to samples from several batches,
    donors or studies. The loadings are common to all groups; means, noise variances and factor
    variances differ between groups. `transform`, `score`, `score_samples`, `predict_view` and
    `impute` also accept the groups of new rows. Rows without a group are treated as draws from the
    mixture of the groups, weighted by the group sizes.

    References
    ----------
    Archambeau & Bach (2008), NIPS 21; for point-normal priors, Wang & Stephens (2021), Journal of
    Machine Learning Research 22; for learned noise variances, Smyth (2004), Statistical
    Applications in Genetics and Molecular Biology 3; for groups of samples, Argelaguet et al.
    (2020), Genome Biology 21.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse import SCA
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 1))
    >>> X1, X2 = (z * [1, 1, 0, 0] + 0.3 * rng.normal(size=(100, 4)) for _ in range(2))
    >>> model = SCA(n_components=1).fit([X1, X2])
    >>> (model.components_ != 0).astype(int).tolist()
    [[1, 1, 0, 0, 1, 1, 0, 0]]
    >>> model.predict_view([X1, None], target=1).mean.shape
    (100, 4)
    """

    _accepts_any_container = True
    _variable_attributes = (
        ("noise_variance", "feature_noise_variance_"),
        ("linear_threshold", "linear_threshold_"),
        ("component_std_", "components_std_"),
        ("component_lfsr_", "loadings_lfsr_"),
    )

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        prior: Prior = "ard",
        shape: float = 0.0,
        rate: float = 0.0,
        n_private: int | Sequence[int] = 0,
        noise: Noise = "feature",
        rotation: Rotation = "shared",
        likelihood: Likelihood | Sequence[Likelihood] = "gaussian",
        row_scale: Literal["auto", "equal"] = "auto",
        views: Sequence[ColumnGroup] | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.prior = prior
        self.shape = shape
        self.rate = rate
        self.n_private = n_private
        self.noise = noise
        self.rotation = rotation
        self.likelihood = likelihood
        self.row_scale = row_scale
        self.views = views
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    # --- fitting

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        checkpoint: CheckpointLike = None,
    ) -> Self:
        """Fit the loadings of all views jointly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such arrays
            Data matrix, or one data matrix per view. NaN marks missing values.
        y : object
            Ignored. Present for API consistency.
        groups : array-like of shape (n_samples,) or None, default=None
            Group of each sample, for example batch, donor or study. Means, noise variances and
            factor variances are estimated for each group; the loadings are common to all groups.
            Requires Gaussian views and a prior other than "hyperbolic".
        checkpoint : path, Checkpoint or None, default=None
            File that stores the state of the fit. An interrupted fit resumes from this file.

        Returns
        -------
        self : SCA
            Fitted estimator.
        """
        with self._fitting():
            self._fit(X, groups, checkpoint)
        return self

    def fit_transform(
        self,
        X: Table,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        checkpoint: CheckpointLike = None,
    ) -> Array:
        """Fit the model and return the factor scores of the same rows.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features), or list of such arrays
            Data matrix, or one data matrix per view. NaN marks missing values.
        y : object
            Ignored. Present for API consistency.
        groups : array-like of shape (n_samples,) or None, default=None
            Group of each sample.
        checkpoint : path, Checkpoint or None, default=None
            File that stores the state of the fit.

        Returns
        -------
        ndarray of shape (n_samples, n_factors)
            Posterior means of the factors.
        """
        return self.fit(X, groups=groups, checkpoint=checkpoint).transform(X, groups=groups)

    def _fit(self, X: Table, labels: ArrayLike | None, checkpoint: CheckpointLike) -> None:
        tables = list(X) if is_list_of_views(X) else None
        X, views = concatenate_views(X, self.views)
        X = self._validate(X, reset=True)
        self.view_columns_ = column_groups(views, X.shape[1], self._column_names())
        self._set_view_names(tables)
        names = view_likelihoods(self.likelihood, len(self.view_columns_))
        rows = row_groups(labels, X.shape[0])
        if rows is not None and rows.sizes.size > 1:
            self._check_groups_supported(names)
            self.likelihood_ = list(names)
            self._fit_groups(X, rows, checkpoint, views is not None)
            return
        self._fit_one_group(X, names, checkpoint, views is not None)
        if rows is not None:
            self._set_single_group_results(rows)

    def _fit_one_group(
        self, X: Table, names: list[Likelihood], checkpoint: CheckpointLike, views_given: bool
    ) -> None:
        """Fit the model to a single group of samples."""
        if any(name != "gaussian" for name in names):
            self._fit_non_gaussian(X, names, checkpoint, views_given)
            return
        self.likelihood_ = list(names)
        # With one noise variance per column, the model is invariant to units. Scaling also makes
        # the starting point invariant.
        op, columns, seen = _standardise(X, scale=self.noise != "view")
        if self.noise == "view":
            self._warn_about_units(op, columns)
        groups = varying_view_columns(self.view_columns_, columns.varying_index, X.shape[1])
        kept = columns.varying_index
        mean, scale = (to_numpy(part).astype(float)[kept] for part in (columns.mean, columns.scale))
        options = self._options(len(groups), columns, scale)
        stage = self._open_stage(checkpoint, X, views_given)
        rows = None
        if self.row_scale == "auto" and seen is None and self.prior != "hyperbolic":
            rows = estimate_row_weights(op)
        root = None
        if rows is not None:
            root = np.sqrt(rows.weights)
            op, centre = rows.apply(op)
            mean = mean + columns.length(scale) * centre
            self.row_scale_, self.row_df_ = columns.numbers(1.0 / root), rows.df
        data = gaussian_data(op, seen, groups, options, root)
        solution = solve(data, groups, options, self._progress(), stage)
        if root is not None:  # the objective refers to rows without weights
            path = solution.objective_path + kept.size * float(np.sum(np.log(root)))
            solution = solution._replace(objective_path=path)
        self._set_results(solution, columns, mean, columns.length(scale))

    def _check_groups_supported(self, names: list[Likelihood]) -> None:
        """Raise an error if the parameters do not allow several groups."""
        if self.prior == "hyperbolic":
            # Because factor variances are free in each group, a maximum a posteriori estimate would
            # shrink the loadings and inflate the factors without limit.
            raise ParameterError(
                "`groups` requires `prior='point-normal'` or `prior='ard'`, got 'hyperbolic'. Use "
                "one of these, or fit without `groups`."
            )
        other = [name for name in names if name != "gaussian"]
        if other:
            raise ParameterError(
                f"`groups` requires Gaussian views, got `likelihood` {other[0]!r}. Log-transform "
                "counts and use `likelihood='gaussian'`, or fit without `groups`."
            )

    def _fit_groups(
        self, X: Table, rows: RowGroups, checkpoint: CheckpointLike, views_given: bool
    ) -> None:
        """Fit the model to several groups of samples."""
        columns = _standardise(X, scale=False)[1]
        count = None if self.n_components == "auto" else self.n_components
        private = private_counts(self.n_private, len(self.view_columns_))
        table = group_data(
            X, rows, self.noise != "view", None if count is None else count + sum(private)
        )
        groups = varying_view_columns(self.view_columns_, table.kept, X.shape[1])
        stage = self._open_stage(checkpoint, X, views_given, groups=rows.labels[rows.codes])
        options = self._options(len(groups), columns, table.size)
        solution = solve(grouped_fit_data(table), groups, options, self._progress(), stage)
        noise = np.where(table.varying_in_group, solution.noise, np.nan)
        solution = solution._replace(noise=noise)
        self._set_group_results(solution, columns, table, rows)

    def _fit_non_gaussian(
        self, X: Table, names: list[Likelihood], checkpoint: CheckpointLike, views_given: bool
    ) -> None:
        """Fit the model to views of which at least one is non-Gaussian."""
        op, columns, _ = _standardise(X, scale=True)
        kept = columns.varying_index
        groups = varying_view_columns(self.view_columns_, kept, X.shape[1])
        kept_likelihood = column_likelihoods(names, self.view_columns_, X.shape[1])[kept]
        gaussian = kept_likelihood == "gaussian"
        deviation = to_numpy(columns.scale).astype(float)[kept]
        size = np.where(gaussian, deviation, 1.0)
        if self.noise == "view":  # columns of a view require a common scale
            for group in groups:
                size[group] = np.sqrt(np.mean(size[group] ** 2))
        mean = np.where(gaussian, to_numpy(columns.mean).astype(float)[kept], 0.0)
        rows, inside = prepare_rows(X, kept, kept_likelihood, mean, size)
        # Standard deviations are converted to the scale of the linear predictor by the slope of the
        # mean.
        slope = np.where(kept_likelihood == "bernoulli", inside * (1.0 - inside), inside)
        per_unit = np.where(gaussian, deviation / size, np.minimum(deviation / slope, 2.0))
        stage = self._open_stage(checkpoint, X, views_given)
        options = self._options(len(groups), columns, size)
        data = non_gaussian_data(rows, op, per_unit, inside, options)
        solution = solve(data, groups, options, self._progress(), stage)
        self.likelihood_ = list(names)
        thresholds = spread(rows.linear_threshold[None, :], kept, self.n_features_in_)[0]
        self.linear_threshold_ = columns.numbers(np.where(thresholds > 0, thresholds, 1.0))
        self._set_results(solution, columns, mean, size)

    def _column_names(self) -> np.ndarray | None:
        """Return the column names of the data matrix, or None."""
        return getattr(self, "feature_names_in_", None)

    def _set_view_names(self, tables: list[Table] | None) -> None:
        """Store the column names of each view.

        The names of a list of data matrices become ``feature_names_in_`` if they are unique.
        """
        if tables is None:
            names = self._column_names()
            self.view_names_ = [None if names is None else names[c] for c in self.view_columns_]
            return
        self.view_names_ = [view_column_names(table, number) for number, table in enumerate(tables)]
        joint = joint_column_names(self.view_names_)
        if joint is not None:
            self.feature_names_in_ = joint

    def _options(self, n_views: int, columns: Columns, scale: np.ndarray) -> SCAOptions:
        """Convert the parameters to options in the units of the operator."""
        rate = columns.per_variance(self.rate)
        if self.prior == "hyperbolic" and rate > MAX_RATE:
            raise ParameterError(
                f"`rate` must be at most {MAX_RATE / columns.per_variance(1.0):.3g} for data with "
                f"standard deviations up to {columns.length(1.0):.1g}, got {self.rate:g}. `rate` "
                "has the unit of an inverse variance."
            )
        return SCAOptions(
            n_components=self.n_components,
            private=private_counts(self.n_private, n_views),
            prior=self.prior,
            shape=self.shape,
            rate=rate,
            n_features=self.n_features_in_,
            max_iter=self.max_iter,
            tol=self.tol,
            noise=self.noise,
            scale=scale,
            rotation=self.rotation,
        )

    def _set_results(
        self, solution: Solution, columns: Columns, mean: np.ndarray, size: np.ndarray
    ) -> None:
        """Set the fitted attributes in the units and container of the data.

        ``mean`` and ``size`` map the units of the solution to those of the data.
        """
        kept, width = columns.varying_index, self.n_features_in_
        components = spread(solution.L.T * size, kept, width)
        self.components_ = columns.numbers(components)
        if solution.deviations is not None:
            deviations = spread(solution.deviations.T * size, kept, width)
            self.components_std_ = columns.numbers(deviations)
        if solution.sparse is not None:
            self._set_sparse_results(solution.sparse, columns, size)
        self.view_components_ = [columns.numbers(components[:, c]) for c in self.view_columns_]
        means = to_numpy(columns.mean).astype(float)
        means[kept] = mean + solution.mu * size
        self.mean_ = columns.numbers(means)
        self.scale_ = array_namespace(columns.scale).ones_like(columns.scale)
        self.varying_ = columns.varying
        self._set_noise(solution.noise * size**2, columns)
        self.explained_variance_ = columns.numbers(np.sum(components**2, axis=1))
        per_view = [np.sum(components[:, c] ** 2, axis=1) for c in self.view_columns_]
        self.explained_variance_per_view_ = columns.numbers(np.stack(per_view))

        factor_view = solution.factor_view
        self.factor_view_ = columns.values(factor_view)
        self.view_correlation_ = columns.numbers(solution.view_correlation)
        self.n_components_ = int(np.sum(factor_view == -1))
        n_views = len(self.view_columns_)
        self.n_private_ = [int(np.sum(factor_view == v)) for v in range(n_views)]
        self.n_pruned_ = solution.n_pruned

        support = np.any(components != 0, axis=0)
        self.support_ = columns.values(support)
        self.n_selected_ = int(np.count_nonzero(support))
        norms = np.linalg.norm(components, axis=0)
        self.relevance_ = columns.numbers(norms / max(float(norms.max()), np.finfo(float).tiny))
        self.ranking_ = columns.values(1 + np.argsort(np.argsort(-norms, kind="stable")))

        # The objective is a log density, to which a change of units adds the log Jacobian.
        objective = solution.objective_path - float(solution.n_densities @ np.log(size))
        self.objective_path_ = columns.values(objective)
        self.n_iter_ = solution.objective_path.size
        self.stop_reason_ = solution.reason

    def _set_sparse_results(
        self, sparse: SparseLoadings, columns: Columns, size: np.ndarray
    ) -> None:
        """Set the attributes of the point-normal prior."""
        kept, width = columns.varying_index, self.n_features_in_
        self.loadings_mean_ = columns.numbers(spread(sparse.mean.T * size, kept, width))
        self.loadings_lfsr_ = columns.numbers(1.0 - spread(1.0 - sparse.lfsr.T, kept, width))
        self.inclusion_probability_ = columns.numbers(spread(sparse.inclusion.T, kept, width))
        self.score_probability_ = columns.numbers(sparse.score_probability)

    def _set_group_results(
        self, solution: Solution, columns: Columns, table: GroupedData, rows: RowGroups
    ) -> None:
        """Set the attributes of a model of several groups."""
        assert solution.factor_variance is not None
        kept, width, size = table.kept, self.n_features_in_, table.size
        varying_in_group = table.varying_in_group
        counts = varying_in_group * rows.sizes[:, None]
        proportions = counts / counts.sum(axis=0)
        means = table.mean + solution.mu * size
        noise = np.where(varying_in_group, solution.noise, 0.0) * size**2
        pooled_noise = np.sum(proportions * noise, axis=0)
        noise = np.where(varying_in_group, noise, pooled_noise)
        varying = np.zeros(width, dtype=bool)
        varying[kept] = True
        columns = columns._replace(varying=columns.values(varying))
        pooled = solution._replace(
            mu=np.zeros(kept.size), noise=pooled_noise / size**2, factor_variance=None
        )
        self._set_results(pooled, columns, rows.sizes @ means / rows.sizes.sum(), size)

        n_groups = rows.sizes.size
        group_means = np.tile(to_numpy(columns.mean).astype(float), (n_groups, 1))
        group_means[:, kept] = means
        group_noise = np.tile(to_numpy(self.feature_noise_variance_).astype(float), (n_groups, 1))
        group_noise[:, kept] = noise
        group_varying = np.zeros(group_means.shape, dtype=bool)
        group_varying[:, kept] = varying_in_group
        self.groups_, self.group_sizes_ = rows.labels, rows.sizes
        self.group_means_ = columns.numbers(group_means)
        self.group_noise_variance_ = columns.numbers(group_noise)
        self.group_varying_ = columns.values(group_varying)
        self.factor_variance_per_group_ = columns.numbers(solution.factor_variance)
        per_view = to_numpy(self.explained_variance_per_view_).astype(float)
        self.explained_variance_per_group_ = columns.numbers(
            solution.factor_variance[:, None, :] * per_view
        )

    def _set_single_group_results(self, rows: RowGroups) -> None:
        """Set the group attributes of a model of one group."""
        self.groups_, self.group_sizes_ = rows.labels, rows.sizes
        xp = array_namespace(self.components_)
        self.group_means_ = self.mean_[None, :]
        self.group_noise_variance_ = self.feature_noise_variance_[None, :]
        self.group_varying_ = self.varying_[None, :]
        self.factor_variance_per_group_ = xp.ones_like(self.explained_variance_)[None, :]
        self.explained_variance_per_group_ = self.explained_variance_per_view_[None, :, :]

    def _set_noise(self, noise: np.ndarray, columns: Columns) -> None:
        """Set the noise variances of columns and views."""
        column_noise = spread(noise[None, :], columns.varying_index, self.n_features_in_)[0]
        varying = to_numpy(columns.varying)
        view_noise = np.array(
            [column_noise[view[varying[view]]].mean() for view in self.view_columns_]
        )
        for view, mean in zip(self.view_columns_, view_noise, strict=True):
            column_noise[view[~varying[view]]] = mean
        self.noise_variance_ = columns.numbers(view_noise)
        self.feature_noise_variance_ = columns.numbers(column_noise)

    def _open_stage(
        self, checkpoint: CheckpointLike, X: Table, views_given: bool, **others: object
    ) -> Stage | None:
        """Open the checkpoint of the loadings.

        If ``fit`` receives a list of data matrices, the views are not parameters and are therefore
        stored in the checkpoint. ``max_iter`` is stored if it also limits the initial fits.
        """
        others["views"] = self.view_columns_ if views_given else None
        if self.n_components == "auto" or container_of(X).has_missing(X):
            others["max_iter"] = self.max_iter
        file = self._open_checkpoint(checkpoint, X, **others)
        return file.stage("loadings") if file else None

    def _progress(self) -> Progress:
        return Progress(self.max_iter, "SCA", self.verbose)

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        check_choice("prior", self.prior, get_args(Prior))
        check_choice("noise", self.noise, get_args(Noise))
        check_choice("rotation", self.rotation, get_args(Rotation))
        check_choice("row_scale", self.row_scale, ("auto", "equal"))
        check_non_negative("shape", self.shape)
        check_non_negative("rate", self.rate)
        check_non_negative("tol", self.tol)
        check_integer("max_iter", self.max_iter, 1)

    def _warn(self) -> None:
        self._warn_unfinished()
        if not self.n_selected_:
            warn(
                "SCA: all loadings and scores are zero, because no shared variance was found. "
                "Add samples or, with `prior='hyperbolic'`, decrease `rate`.",
                NoStructureWarning,
            )

    # --- the fitted model

    @property
    def explained_variance_ratio_(self) -> Array:  # type: ignore[override]
        """Proportion of the model variance explained by each factor."""
        check_is_fitted(self)
        name = self._first_non_gaussian()
        if name is not None:
            raise AttributeError(
                "`explained_variance_ratio_` is not defined for views that are not Gaussian, got "
                f"`likelihood` {name!r}: loadings and noise have different scales. Compare "
                "`explained_variance_per_view_` between factors instead."
            )
        explained = to_numpy(self.explained_variance_).astype(float)
        residual = (
            to_numpy(self.feature_noise_variance_).astype(float) + self._loading_variance()
        )[to_numpy(self.varying_)]
        ratio = explained / (explained.sum() + residual.sum())
        return from_numpy(ratio, self.explained_variance_, self.explained_variance_.dtype)

    def get_covariance(self, *, group: object = None) -> Array:
        """Compute the covariance matrix of the model.

        As in `score_samples`, the posterior variance of the loadings is added to the noise variance
        unless ``prior="hyperbolic"``.

        Parameters
        ----------
        group : label or None, default=None
            Group whose covariance is returned. Required if ``fit`` received several groups.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
            Covariance matrix in the units of the data. Rows and columns of variables that were
            constant in ``fit``, or in the group, are zero.

        Raises
        ------
        ParameterError
            If a view is not Gaussian, or if the group is not specified.
        """
        model, columns = self._gaussian_model("get_covariance", group)
        covariance = model.L @ model.L.T + np.diag(1.0 / model.tau)
        return self._expand_matrix(covariance, columns)

    def get_precision(self, *, group: object = None) -> Array:
        """Compute the inverse of the covariance matrix of the varying columns.

        Parameters
        ----------
        group : label or None, default=None
            Group whose precision matrix is returned. Required if ``fit`` received several groups.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
            Precision matrix in the units of the data. Rows and columns of variables that were
            constant in ``fit``, or in the group, are zero.

        Raises
        ------
        ParameterError
            If a view is not Gaussian, or if the group is not specified.
        """
        model, columns = self._gaussian_model("get_precision", group)
        # Woodbury identity.
        weighted = model.tau[:, None] * model.L
        inner = np.eye(model.L.shape[1]) + weighted.T @ model.L
        precision = np.diag(model.tau) - weighted @ np.linalg.solve(inner, weighted.T)
        return self._expand_matrix(0.5 * (precision + precision.T), columns)

    def transform(self, X: Table, *, groups: ArrayLike | None = None) -> Array:
        """Compute the posterior means of the factors given the observed entries.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_), or list with one array per view
            Data in the units of ``fit``. NaN marks missing values, None a missing view.
        groups : array-like of shape (n_samples,) or None, default=None
            Groups of the rows if ``fit`` received groups. None if they are unknown.

        Returns
        -------
        ndarray of shape (n_samples, n_factors)
            Factor scores.
        """
        X = self._validate_rows(X)
        Z = self._model().posterior_means(X, self._group_codes(groups, X))
        return array_namespace(Z).astype(Z, X.dtype, copy=False) if is_floating(X) else Z

    def inverse_transform(self, X: Table) -> Array:
        """Reconstruct rows from scores.

        With ``prior="point-normal"``, the posterior means ``loadings_mean_`` are used.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_factors)
            Scores.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        scores = self._validate_scores(X)
        loadings = getattr(self, "loadings_mean_", self.components_)
        components, mean = (as_like(v, scores, scores.dtype) for v in (loadings, self.mean_))
        return scores @ components + mean

    def score_samples(self, X: Table, *, groups: ArrayLike | None = None) -> Array:
        """Return the log density of the observed entries of each row.

        The density is Gaussian with the mean and the covariance matrix of the model
        (`get_covariance`). For non-Gaussian views, the result is a lower bound.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_), or list with one array per view
            Data in the units of ``fit``. NaN marks missing values, None a missing view.
        groups : array-like of shape (n_samples,) or None, default=None
            Groups of the rows if ``fit`` received groups. Columns that do not vary within the group
            of a row are ignored. With None, the density is that of the mixture of all groups on the
            columns that vary within each group.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log densities.
        """
        X = self._validate_rows(X)
        return self._model().log_densities(X, self._group_codes(groups, X))

    def score(self, X: Table, y: object = None, *, groups: ArrayLike | None = None) -> float:
        """Return the mean log density of the rows of ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_), or list with one array per view
            Data in the units of ``fit``. NaN marks missing values, None a missing view.
        y : object
            Ignored. Present for API consistency.
        groups : array-like of shape (n_samples,) or None, default=None
            Groups of the rows if ``fit`` received groups. None if they are unknown.

        Returns
        -------
        float
            Mean of `score_samples`.
        """
        samples = self.score_samples(X, groups=groups)
        return float(array_namespace(samples).mean(samples))

    def predict_view(
        self,
        views: Table | Mapping[int, Table] | Sequence[Table],
        target: int,
        *,
        groups: ArrayLike | None = None,
    ) -> Prediction:
        """Predict one view from the others.

        Parameters
        ----------
        views : list of arrays, dict from view number to array, or array-like
            Data of each view, None for missing views and for the target; or a data matrix of shape
            (n_samples, n_features_in_), whose target columns are ignored.
        target : int
            Number of the view to predict.
        groups : array-like of shape (n_samples,) or None, default=None
            Groups of the rows if ``fit`` received groups. None if they are unknown.

        Returns
        -------
        Prediction
            Predictive ``mean`` and ``variance``, each of shape (n_samples, n_view_features).
        """
        check_is_fitted(self)
        n_views = len(self.view_columns_)
        check_integer("target", target, 0)
        if target >= n_views:
            raise ParameterError(
                f"`target` must be less than the number of views, {n_views}, got {target}."
            )
        X = self._validate_rows(_drop_target(views, target, n_views))
        columns = self.view_columns_[target]
        check_in_memory(X, "`predict_view` requires")
        X = container_of(X).to_dense(X)
        X[:, columns] = np.nan
        return self._predict(X, columns, self._group_codes(groups, X))

    def _predict(self, X: Table, columns: np.ndarray, codes: np.ndarray | None) -> Prediction:
        """Predict new observations of columns given the observed entries."""
        mean, variance = self._model().moments(X, columns, codes)
        return Prediction(mean, np.where(to_numpy(self.varying_)[columns], variance, 0.0))

    def impute(self, X: Table, *, groups: ArrayLike | None = None, return_std: bool = False) -> Any:
        """Replace missing values by their conditional means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_), or list with one array per view
            Data in the units of ``fit``. NaN marks missing values, None a missing view.
        groups : array-like of shape (n_samples,) or None, default=None
            Groups of the rows if ``fit`` received groups. None if they are unknown.
        return_std : bool, default=False
            Whether to return standard deviations. Requires data in memory.

        Returns
        -------
        X_full : array-like of shape (n_samples, n_features_in_)
            New data matrix in the container type of ``X``. If ``X`` is a list, one array with the
            columns of all views.
        std : ndarray of shape (n_samples, n_features_in_)
            Standard deviations of the missing values, including noise; zero for observed values.
            Returned only if ``return_std=True``.
        """
        if return_std:
            rows = self._validate_rows(X)
            check_in_memory(rows, "`return_std` requires")
            full = dense_with_missing(rows)
            codes = self._group_codes(groups, rows)
            variance = self._predict(rows, np.arange(self.n_features_in_), codes).variance
            std = np.where(np.isnan(full), np.sqrt(np.maximum(to_numpy(variance), 0.0)), 0.0)
            return self.impute(X, groups=groups), std
        rows = self._validate_rows(X)
        codes = self._group_codes(groups, rows)
        container = container_of(X)
        listed = isinstance(X, list | tuple)
        if not has_missing(rows):
            if not container.in_memory:  # missing values raise an error when the rows are read
                return container.require_finite(rows)
            if container.stays_in_place:
                return array_namespace(rows).asarray(rows, copy=True)
            return rows if listed else deepcopy(X)
        mean = self._model().moments(rows, np.arange(self.n_features_in_), codes)[0]
        full = dense_with_missing(rows)
        missing = np.isnan(full)
        full[missing] = mean[missing]
        full = full.astype(rows.dtype, copy=False)
        return full if listed else container.replace_values(X, full)

    def select(self, X: Table) -> Table:
        """Return the selected columns of ``X``, in the same container type.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features_in_), or list with one array per view
            Data matrix. None marks a missing view.

        Returns
        -------
        array-like of shape (n_samples, n_selected_), or list of arrays
            Selected columns, of each view if ``X`` is a list.
        """
        if not is_list_of_views(X):
            return super().select(X)
        self._validate_rows(X)
        support = to_numpy(self.support_)
        pairs = zip(X, self.view_columns_, strict=True)
        return [
            None if table is None else take_columns(table, np.flatnonzero(support[columns]))
            for table, columns in pairs
        ]

    def _model(self) -> FittedModel:
        """Return the fitted model of all groups of samples."""
        L, noise = self._loadings(), to_numpy(self.feature_noise_variance_).astype(float)
        if len(getattr(self, "groups_", ())) < 2:
            likelihood = threshold = None
            if self._first_non_gaussian() is None:
                noise = noise + self._loading_variance()
            else:
                likelihood = column_likelihoods(
                    self.likelihood_, self.view_columns_, self.n_features_in_
                )
                threshold = to_numpy(self.linear_threshold_).astype(float)
            mean = to_numpy(self.mean_).astype(float)
            probability, variance = self._sparse_scores()
            df = getattr(self, "row_df_", math.inf)
            model = Factors(L, 1.0 / noise, mean, probability, variance, likelihood, threshold, df)
            varying = to_numpy(self.varying_)[None, :]
            return FittedModel((model,), np.ones((1, L.shape[1])), varying, np.ones(1))
        sizes = to_numpy(self.group_sizes_)
        factor_variance = to_numpy(self.factor_variance_per_group_).astype(float)
        rows = zip(
            factor_variance,
            to_numpy(self.group_noise_variance_).astype(float),
            to_numpy(self.group_means_).astype(float),
            strict=True,
        )
        groups = tuple(
            Factors(L * np.sqrt(v), 1.0 / (noise + self._loading_variance(v)), mean)
            for v, noise, mean in rows
        )
        varying = to_numpy(self.group_varying_)
        return FittedModel(groups, factor_variance, varying, sizes / sizes.sum())

    def _gaussian_model(self, method: str, group: object) -> tuple[Factors, np.ndarray]:
        """Return the model of the columns that vary, overall or in a group.

        Error messages contain the name of the public ``method``.
        """
        check_is_fitted(self)
        name = self._first_non_gaussian()
        if name is not None:
            raise ParameterError(
                f"`{method}` requires Gaussian views, got `likelihood` {name!r}. Under this "
                "likelihood, the rows are not Gaussian; use `predict_view` for means and variances."
            )
        labels = getattr(self, "groups_", None)
        if group is not None and labels is None:
            raise ParameterError(
                f"`group` must be None for a model fitted without groups, got {group!r}."
            )
        names = [] if labels is None else labels.tolist()
        if group is None and len(names) > 1:
            raise ParameterError(
                f"`{method}` requires `group`, because the covariance differs between the "
                f"{len(names)} groups. Pass one of `groups_`, for example `group={names[0]!r}`."
            )
        if group is not None and group not in names:
            raise ParameterError(f"`group` must be one of `groups_`, {names}, got {group!r}.")
        model, g = self._model(), names.index(group) if group is not None else 0
        columns = np.flatnonzero(model.varying_in_group[g])
        return model.groups[g].take(columns), columns

    def _expand_matrix(self, matrix: np.ndarray, columns: np.ndarray) -> Array:
        """Expand a matrix of some columns to all columns, with zeros elsewhere."""
        full = np.zeros((self.n_features_in_, self.n_features_in_))
        full[np.ix_(columns, columns)] = matrix
        return from_numpy(full, self.mean_, self.mean_.dtype)

    def _first_non_gaussian(self) -> Likelihood | None:
        """Return the first non-Gaussian likelihood, or None."""
        return next((name for name in self.likelihood_ if name != "gaussian"), None)

    def _group_codes(self, groups: ArrayLike | None, X: Table) -> np.ndarray | None:
        """Return the group codes of new rows; None if groups are unknown."""
        return encode_groups(groups, X.shape[0], getattr(self, "groups_", None))

    def _loading_variance(self, factor_variance: np.ndarray | float = 1.0) -> np.ndarray:
        """Compute the variance of each column due to uncertain loadings.

        A new row is x = <l>'z + (l - <l>)'z + noise. The second term has mean zero and variance
        sum_k v_k var(l_k) for factor variances v. It is uncorrelated with the first term and
        between columns, and zero if the loadings are point estimates.
        """
        if not hasattr(self, "components_std_"):
            return np.zeros(self.n_features_in_)
        variance: np.ndarray = np.sum(
            to_numpy(self.components_std_).astype(float).T ** 2 * np.asarray(factor_variance),
            axis=1,
        )
        return variance

    def _loadings(self) -> np.ndarray:
        """Return the posterior means of the loadings, (p, Q)."""
        loadings = getattr(self, "loadings_mean_", self.components_)
        return to_numpy(loadings).T.astype(float)

    def _sparse_scores(self) -> tuple[np.ndarray, np.ndarray] | tuple[None, None]:
        """Return probabilities of non-zero scores, and variances of loadings."""
        probability = to_numpy(getattr(self, "score_probability_", np.ones(1))).astype(float)
        if np.all(probability == 1.0):
            return None, None
        return probability, to_numpy(self.components_std_).astype(float).T ** 2

    def _validate_rows(self, X: Table) -> Table:
        """Validate new rows as one data matrix; None marks a missing view."""
        check_is_fitted(self)
        if duplicate_names(X):
            # Views may have common column names, which scikit-learn's validation would reject.
            if X.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input."
                )
            X = [take_columns(X, columns) for columns in self.view_columns_]
        if not is_list_of_views(X):
            return self._validate(X, reset=False)
        joined = join_views(X, self.view_columns_)
        check_names(X, self.view_names_, type(self).__name__)
        with warnings.catch_warnings():
            # The names were compared above. The joined views are an array without names.
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self._validate(joined, reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _standardise(X: Table, scale: bool) -> tuple[Operator, Columns, np.ndarray | None]:
    """Centre and scale the varying columns; also return the observed mask."""
    seen = None
    if has_missing(X):
        op, columns, seen = standardise_observed(X, scale)
    else:
        op, columns = standardise(X, scale)
    check_varying(op, columns)
    if scale:  # variances are returned in the units of the data and must not overflow
        deviations, precision = to_numpy(columns.scale).astype(float), precision_of(op)
        varying = np.zeros(deviations.size, dtype=bool)
        varying[columns.varying_index] = True
        check_range(deviations, UNITS[precision], precision, varying)
    return op, columns, seen


def _drop_target(
    views: Table | Mapping[int, Table] | Sequence[Table], target: int, n_views: int
) -> Table:
    """Return the views without the target; a single data matrix is unchanged."""
    if isinstance(views, Mapping):
        unknown = [key for key in views if key not in range(n_views)]
        if unknown:
            raise ParameterError(
                f"`views` must have keys from 0 to {n_views - 1}, got {unknown[0]!r}."
            )
        views = [views.get(v) for v in range(n_views)]
    if isinstance(views, list | tuple) and len(views) == n_views > 1:
        views = [None if v == target else table for v, table in enumerate(views)]
        if all(table is None for table in views):
            raise InputError(
                f"`views` must contain at least one view other than `target`, {target}, got none."
            )
    return views
