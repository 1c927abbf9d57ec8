"""SCA for users: parameters, ``fit``, and what a fitted model says.

The model and its steps are in `model`, the fit as a whole in `solve`, what a fitted model says
about new rows in `conditional`.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Mapping, Sequence
from copy import deepcopy
from typing import Literal, NamedTuple, Self, get_args

import numpy as np
from array_api_compat import array_namespace
from numpy.typing import ArrayLike
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Columns, Operator, container_of, standardise, take_columns
from ...data.arrays import is_floating, precision_of, spread, to_numpy
from ...data.columns import UNITS, check_range
from ...data.containers import Table
from ...data.groups import ColumnGroup, column_groups
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
from ...inference.checkpoint import Checkpoint
from ...inference.loop import StopReason
from ...inference.progress import Progress
from .._base import HasDensity, SparseProjection, few_columns
from .conditional import (
    Factors,
    conditional_mean,
    conditional_variance,
    has_missing,
    posterior_means,
    row_log_densities,
)
from .group_data import GroupedData, group_data
from .group_rows import GroupedModel, encode_groups
from .likelihood import Likelihood
from .missing_data import dense_with_missing, standardise_observed
from .model import Noise
from .non_gaussian_data import NonGaussianModel, column_likelihoods, prepare_rows, view_likelihoods
from .solve import Prior, SCAOptions, Solution, solve, solve_groups, solve_non_gaussian
from .start import Rotation
from .views import (
    check_names,
    concatenate_views,
    duplicate_names,
    is_list_of_tables,
    join_views,
    joint_column_names,
    private_counts,
    separate_views,
    varying_view_columns,
    view_column_names,
)

MAX_RATE = 1e100  # scale of the hyperbolic prior, times the largest square of the table


class Prediction(NamedTuple):
    """A predicted view.

    Attributes
    ----------
    mean : array (n_samples, columns of the view)
        The expected entries.
    variance : array (n_samples, columns of the view)
        The variance of an observation residual_variance the mean.
    """

    mean: np.ndarray
    variance: np.ndarray


class SCA(HasDensity, SparseProjection):
    """Sparse probabilistic projections of one, two or many views.

    One view: sparse PCA. Two: sparse canonical correlation (inter-battery) analysis. More: group
    factor analysis. Missing entries (NaN) and missing views are handled exactly.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Latents shared by all views. "auto" begins with as many as variational PCA keeps. It takes
        a quarter more as long as each adds at least 1/2, for every sample, to the lower bound of
        the evidence, at most as many as there are eigenvalues of the table that stand out from
        white noise; else half as many, and then the weakest out, as long as the bound rises. Where
        it is higher without any latent, all weights are zero, and a warning says so. With
        ``max_iter`` of 30 or less it stays with the number that it begins with. Latents that no
        variable needs are removed in any case.
    prior : {"ard", "hyperbolic"}, default="ard"
        "ard": relevance determination, nothing to set, with posterior uncertainty.
        "hyperbolic": maximum a posteriori under a generalised hyperbolic prior.
    shape : float, default=0.0
        The hyperbolic prior's shape, times ``n_features * factors``. Zero, with ``rate`` zero, is
        Normal-Jeffreys, which has no parameter and does not depend on the units of the table;
        ``a = n_features * factors`` is the Laplace prior, an l1 penalty of ``sqrt(2 b)``.
        Ignored under "ard".
    rate : float, default=0.0
        The hyperbolic prior's scale, in units of one over a variance of the table. A larger
        ``rate`` gives more zeros. With ``noise="feature"``: of the columns divided by their standard
        deviations. Ignored under "ard".
    n_private : int or list of int, default=0
        Latents of each view's own; one number for all views, or one per view.
    noise : {"view", "feature"}, default="feature"
        "feature": every column has a noise variance of its own (factor analysis), with a weak
        prior that keeps it from vanishing. "view": all columns of a view have the same.
    rotation : {"shared", "sparse"}, default="shared"
        How the factors are turned before the first pass; of equally good fits the passes find one
        near by. "shared": so that few weights of every view are large, all views counting alike.
        Latents are then such as all views have, and scores of one view on a latent correlate with
        those of another. "sparse": so that as few weights as can be are large, wherever they
        are; the objective ends higher, held-out samples fit no better, and factors are more often
        those of few views. With one view, "sparse" turns on from where "shared" ends.
    likelihood : {"gaussian", "bernoulli", "poisson"} or list of these, default="gaussian"
        What the entries are, given the factors: measurements, 0 and 1, or counts; one for all
        views, or one per view. Loadings and means of views that are not Gaussian are those of
        the linear predictor: the log odds, or the logarithm of the expected count (which goes
        over into a straight line far above the largest count of a column).
    views : list or None, default=None
        Column groups: names, slices or positions, one group per view. None: one view, or, if
        ``fit`` is given a list of tables, one view per table.
    max_iter : int, default=1000
        The most passes over the data.
    tol : float, default=1e-6
        The rise of the objective per observed entry that ends the passes; where a view is not
        Gaussian, at least 1e-6.
    random_state : None
        Nothing here is random; the parameter is there for tools that set it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    components_ : array (factors, n_features_in_)
        The loadings Lambda' with exact zeros: factors open to all views first, those that views
        share most (``view_correlation_``) before others, then those of each view's own. With one
        view, and where no two views share a latent, those that explain most come first (with
        ``noise="feature"``: of columns divided by their standard deviations). Latents have unit
        variance, so the squares of a row add up to its explained variance.
    components_std_ : array (factors, n_features_in_)
        Posterior standard deviations of the loadings ("ard" only).
    view_components_ : list of arrays (factors, columns of the view)
        The loadings of every view.
    view_columns_ : list of int arrays (columns of the view,)
        The positions of the columns of every view.
    view_names_ : list of arrays (columns of the view,), or None for views without column names
        The names of the columns of every view.
    likelihood_ : list of str
        The likelihood of every view.
    linear_threshold_ : array (n_features_in_,)
        From which count on the expected count of a Poisson column rises in a straight line; one
        in other columns. Only where a view is not Gaussian.
    factor_view_ : int array (factors,)
        -1 for shared factors, else the view a latent belongs to.
    view_correlation_ : array (factors,)
        How much the scores that two views give of a latent, each alone, should correlate in new
        samples: by the fitted model, mean over all pairs of views; zero with one view, and below
        zero where a view alone takes one latent for another. Of views that are not Gaussian it is
        an approximation.
    n_components_ : int
        Shared factors that are left.
    n_private_ : list of int
        Latents of each view's own that are left.
    n_pruned_ : int
        Latents that were removed, as no variable needed them; with "auto", how many fewer there
        are than could have been.
    noise_variance_ : array (views,)
        The variance of the noise in every view, the mean over its columns; 1 in views that are
        not Gaussian, whose noise is that of their likelihood.
    feature_noise_variance_ : array (n_features_in_,)
        The variance of the noise in every column.
    explained_variance_ : array (factors,)
        The variance that each latent explains, in all columns together.
    explained_variance_per_view_ : array (views, factors)
        The variance that each latent explains in the columns of each view.
    explained_variance_per_group_ : array (groups, views, factors)
        The same in each group of samples: near zero where a latent is not active in a group.
        This and the next only where ``fit`` was given groups.
    factor_variance_per_group_ : array (groups, factors)
        The variance of each latent's scores in each group; over all samples it is one.
    groups_ : array (groups,)
        The labels of the groups.
    group_sizes_ : int array (groups,)
        Samples of every group.
    group_means_ : array (groups, n_features_in_)
        The means of the columns in every group; those of all groups where a group has no entry.
    group_noise_variance_ : array (groups, n_features_in_)
        The variance of the noise of every column in every group.
    group_varying_ : bool array (groups, n_features_in_)
        Columns that vary within each group; what others hold in rows of that group does not
        count.
    support_ : bool array (n_features_in_,)
        Variables with any loading.
    n_selected_ : int
        How many these are.
    relevance_ : array (n_features_in_,)
        The norm of a variable's loadings in the units of the table, relative to the largest.
    ranking_ : int array (n_features_in_,)
        1 for the variable of the largest relevance, and so on.
    mean_ : array (n_features_in_,)
        The means of the columns; where entries are missing, those that the model expects; of
        views that are not Gaussian, the linear predictor where all factors are zero.
    scale_ : array (n_features_in_,)
        Ones: the columns are not scaled.
    varying_ : bool array (n_features_in_,)
        Columns that are not constant.
    objective_path_ : array (n_iter_,)
        "ard": lower bound of the log evidence; "hyperbolic": the exact log posterior (a zero
        weight under a prior that is infinite there counts as one of 1e-12 of the table's
        scale). Where a view is not Gaussian, lower bounds of these. Non-decreasing.
    n_iter_ : int
        Passes over the data.
    stop_reason_ : StopReason
        Why they ended.
    n_features_in_ : int
        Columns of the table, or of all views together.
    feature_names_in_ : array (n_features_in_,)
        Their names, where all have names and no two views share one.

    Notes
    -----
    Constant columns get no loading and do not count in `score`.

    With ``groups`` in `fit`, as in MOFA+, samples come from grouped batches, donors or studies:
    the loadings are shared, the means, the noise and the variance of every latent are each group's
    own. `transform`, `score`, `score_samples`, `predict_view` and `impute` should then be told the
    groups of their rows, too. A row whose group is not said counts as one of the groups that it is
    likely to be of: scores and predictions are means over these.

    References
    ----------
    Archambeau & Bach (2008), NIPS 21; for groups of samples, Argelaguet et al. (2020), Genome
    Biology 21.

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

    components_std_: Array
    view_components_: list[Array]
    view_columns_: list[np.ndarray]
    view_names_: list[np.ndarray | None]
    likelihood_: list[Likelihood]
    linear_threshold_: Array
    factor_view_: Array
    view_correlation_: Array
    n_private_: list[int]
    n_pruned_: int
    noise_variance_: Array
    feature_noise_variance_: Array
    explained_variance_per_view_: Array
    explained_variance_per_group_: Array
    factor_variance_per_group_: Array
    groups_: np.ndarray
    group_sizes_: np.ndarray
    group_means_: Array
    group_noise_variance_: Array
    group_varying_: Array
    objective_path_: Array
    n_iter_: int
    stop_reason_: StopReason
    n_features_in_: int
    feature_names_in_: np.ndarray

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
        views: Sequence[ColumnGroup] | None = None,
        max_iter: int = 1000,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
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
        self.views = views
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    # --- fitting

    def fit(
        self,
        X: Table,
        y: object = None,
        *,
        groups: ArrayLike | None = None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Self:
        """Fit the weights of all views jointly.

        Parameters
        ----------
        X : table (n_samples, n_features), or a list of tables (n_samples, columns of the view)
            NaN where an entry is missing.
        y : ignored
        groups : array (n_samples,) or None, default=None
            Labels of samples that belong together: batch, donor, study. Every group has means,
            noise and variances of the factors of its own, and all share the loadings. Needs
            ``prior="ard"`` and Gaussian views.
        checkpoint : path, Checkpoint or None, default=None
            A file that keeps the state of a long fit, and from which the same fit goes on.

        Returns
        -------
        self : SCA
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
        checkpoint: str | os.PathLike[str] | Checkpoint | None = None,
    ) -> Array:
        """`fit`, then `transform` of the same rows.

        Parameters
        ----------
        X : table (n_samples, n_features), or a list of tables (n_samples, columns of the view)
            NaN where an entry is missing.
        y : ignored
        groups : array (n_samples,) or None, default=None
            Labels of samples that belong together.
        checkpoint : path, Checkpoint or None, default=None
            A file that keeps the state of a long fit.

        Returns
        -------
        array (n_samples, factors)
        """
        return self.fit(X, groups=groups, checkpoint=checkpoint).transform(X, groups=groups)

    def _fit(
        self,
        X: Table,
        labels: ArrayLike | None,
        checkpoint: str | os.PathLike[str] | Checkpoint | None,
    ) -> None:
        tables = list(X) if is_list_of_tables(X) else None
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
        self,
        X: Table,
        names: list[Likelihood],
        checkpoint: str | os.PathLike[str] | Checkpoint | None,
        views_given: bool,
    ) -> None:
        """Fit samples of one group."""
        if any(name != "gaussian" for name in names):
            self._fit_non_gaussian(X, names, checkpoint, views_given)
            return
        self.likelihood_ = list(names)
        # Where columns have noise of their own the model does not depend on their units, and
        # neither should where it starts.
        op, columns, seen = _standardised(X, scale=self.noise == "feature")
        groups = varying_view_columns(self.view_columns_, columns.kept, X.shape[1])
        options = self._options(len(groups), columns)
        # a list of tables says in `fit` which views there are, and may be cut elsewhere next time
        file = self._open_checkpoint(checkpoint, X, views=self.view_columns_ if views_given else None)
        solution = solve(
            op,
            seen,
            groups,
            options,
            progress=Progress(self.max_iter, "SCA", self.verbose),
            checkpoint=file.stage("weights") if file else None,
        )
        kept = columns.kept
        mean, scale = (to_numpy(part).astype(float)[kept] for part in (columns.mean, columns.scale))
        self._set_results(solution, columns, mean, columns.length(scale))

    def _check_groups_supported(self, names: list[Likelihood]) -> None:
        """Refuse what is not possible with grouped groups."""
        if self.prior != "ard":
            raise ParameterError(
                f"`groups` needs `prior='ard'`, got {self.prior!r}: the variances of the factors "
                "are learned in every group, and a maximum a posteriori would shrink the loadings "
                "and let the factors grow without end"
            )
        other = [name for name in names if name != "gaussian"]
        if other:
            raise ParameterError(
                f"`groups` needs Gaussian views, got `likelihood` {other[0]!r}: pass logarithms "
                "of counts with `likelihood='gaussian'`, or fit without `groups`"
            )

    def _fit_groups(
        self,
        X: Table,
        rows: RowGroups,
        checkpoint: str | os.PathLike[str] | Checkpoint | None,
        views_given: bool,
    ) -> None:
        """Fit samples of grouped groups."""
        columns = _standardised(X, scale=False)[1]
        count = None if self.n_components == "auto" else self.n_components
        private = private_counts(self.n_private, len(self.view_columns_))
        table = group_data(
            X, rows, self.noise == "feature", None if count is None else count + sum(private)
        )
        groups = varying_view_columns(self.view_columns_, table.kept, X.shape[1])
        file = self._open_checkpoint(
            checkpoint,
            X,
            views=self.view_columns_ if views_given else None,
            groups=rows.labels[rows.codes],
        )
        solution = solve_groups(
            table,
            groups,
            self._options(len(groups), columns),
            progress=Progress(self.max_iter, "SCA", self.verbose),
            checkpoint=file.stage("weights") if file else None,
        )
        self._set_group_results(solution, columns, table, rows)

    def _fit_non_gaussian(
        self,
        X: Table,
        names: list[Likelihood],
        checkpoint: str | os.PathLike[str] | Checkpoint | None,
        views_given: bool,
    ) -> None:
        """Fit views of which some are not Gaussian."""
        op, columns, _ = _standardised(X, scale=True)
        kept = columns.kept
        groups = varying_view_columns(self.view_columns_, kept, X.shape[1])
        kept_likelihood = column_likelihoods(names, self.view_columns_, X.shape[1])[kept]
        gaussian = kept_likelihood == "gaussian"
        deviation = to_numpy(columns.scale).astype(float)[kept]
        size = np.where(gaussian, deviation, 1.0)
        if self.noise == "view":  # the same for all columns of a view
            for group in groups:
                size[group] = np.sqrt(np.mean(size[group] ** 2))
        mean = np.where(gaussian, to_numpy(columns.mean).astype(float)[kept], 0.0)
        rows, inside = prepare_rows(X, kept, kept_likelihood, mean, size)
        # a standard deviation on the scale of the linear predictor, by the slope of the mean
        slope = np.where(kept_likelihood == "bernoulli", inside * (1.0 - inside), inside)
        per_unit = np.where(gaussian, deviation / size, np.minimum(deviation / slope, 2.0))
        file = self._open_checkpoint(checkpoint, X, views=self.view_columns_ if views_given else None)
        solution = solve_non_gaussian(
            rows,
            op,
            per_unit,
            inside,
            groups,
            self._options(len(groups), columns),
            progress=Progress(self.max_iter, "SCA", self.verbose),
            checkpoint=file.stage("weights") if file else None,
        )
        self.likelihood_ = list(names)
        every = spread(rows.linear_threshold[None, :], kept, self.n_features_in_)[0]
        self.linear_threshold_ = columns.numbers(np.where(every > 0, every, 1.0))
        self._set_results(solution, columns, mean, size)

    def _column_names(self) -> np.ndarray | None:
        """The names of the columns, where they are known."""
        return getattr(self, "feature_names_in_", None)

    def _set_view_names(self, tables: list[Table] | None) -> None:
        """Remember the column names of every view; of a list of tables, those of all together
        are the names of the columns, unless two views share one."""
        if tables is None:
            names = self._column_names()
            self.view_names_ = [None if names is None else names[c] for c in self.view_columns_]
            return
        self.view_names_ = [view_column_names(table, number) for number, table in enumerate(tables)]
        together = joint_column_names(self.view_names_)
        if together is not None:
            self.feature_names_in_ = together

    def _options(self, n_views: int, columns: Columns) -> SCAOptions:
        """The parameters as the solver takes them, in the operator's units."""
        b = columns.per_variance(self.rate)
        if self.prior == "hyperbolic" and b > MAX_RATE:
            raise ParameterError(
                f"`rate` = {self.rate:g} leaves no weight in a table with entries of "
                f"{columns.length(1.0):.1g}: b is in units of one over a variance"
            )
        return SCAOptions(
            n_components=self.n_components,
            private=private_counts(self.n_private, n_views),
            prior=self.prior,
            a=self.shape,
            b=b,
            width=self.n_features_in_,
            max_iter=self.max_iter,
            tol=self.tol,
            noise=self.noise,
            rotation=self.rotation,
        )

    def _set_results(
        self, solution: Solution, columns: Columns, mean: np.ndarray, size: np.ndarray
    ) -> None:
        """Set what users see: all columns of the table, in its units and container.

        ``mean`` and ``size`` (columns that vary,) are what nothing and one of the solution are in
        the table.
        """
        kept, width = columns.kept, self.n_features_in_
        components = spread(solution.L.T * size, kept, width)
        self.components_ = columns.numbers(components)
        if solution.deviations is not None:
            deviations = spread(solution.deviations.T * size, kept, width)
            self.components_std_ = columns.numbers(deviations)
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

        bounds = solution.bounds - float(solution.n_densities @ np.log(size))
        self.objective_path_ = columns.values(bounds)
        self.n_iter_ = solution.bounds.size
        self.stop_reason_ = solution.reason

    def _set_group_results(
        self, solution: Solution, columns: Columns, table: GroupedData, rows: RowGroups
    ) -> None:
        """What users see of a model of grouped groups: all samples together first."""
        assert solution.factor_variance is not None
        kept, width, size = table.kept, self.n_features_in_, table.size
        varying_in_group = table.varying_in_group
        weights = varying_in_group * rows.sizes[:, None]
        shares = weights / weights.sum(axis=0)
        means = table.mean + solution.mu * size
        noise = np.where(varying_in_group, solution.noise, 0.0) * size**2
        pooled = np.sum(shares * noise, axis=0)
        noise = np.where(varying_in_group, noise, pooled)
        varying = np.zeros(width, dtype=bool)
        varying[kept] = True
        columns = columns._replace(varying=columns.values(varying))
        together = solution._replace(
            mu=np.zeros(kept.size), noise=pooled / size**2, factor_variance=None
        )
        self._set_results(together, columns, rows.sizes @ means / rows.sizes.sum(), size)

        every = np.tile(to_numpy(columns.mean).astype(float), (rows.sizes.size, 1))
        every[:, kept] = means
        noises = np.tile(to_numpy(self.feature_noise_variance_).astype(float), (rows.sizes.size, 1))
        noises[:, kept] = noise
        counts = np.zeros(every.shape, dtype=bool)
        counts[:, kept] = varying_in_group
        self.groups_, self.group_sizes_ = rows.labels, rows.sizes
        self.group_means_ = columns.numbers(every)
        self.group_noise_variance_ = columns.numbers(noises)
        self.group_varying_ = columns.values(counts)
        self.factor_variance_per_group_ = columns.numbers(solution.factor_variance)
        per_view = to_numpy(self.explained_variance_per_view_).astype(float)
        self.explained_variance_per_group_ = columns.numbers(
            solution.factor_variance[:, None, :] * per_view
        )

    def _set_single_group_results(self, rows: RowGroups) -> None:
        """A single group is a model without groups, of which the same is said."""
        self.groups_, self.group_sizes_ = rows.labels, rows.sizes
        xp = array_namespace(self.components_)
        self.group_means_ = self.mean_[None, :]
        self.group_noise_variance_ = self.feature_noise_variance_[None, :]
        self.group_varying_ = self.varying_[None, :]
        self.factor_variance_per_group_ = xp.ones_like(self.explained_variance_)[None, :]
        self.explained_variance_per_group_ = self.explained_variance_per_view_[None, :, :]

    def _set_noise(self, noise: np.ndarray, columns: Columns) -> None:
        """The noise of every view, and of every column; constant columns, whose noise is never
        used, are given that of their view."""
        every = spread(noise[None, :], columns.kept, self.n_features_in_)[0]
        varying = to_numpy(columns.varying)
        levels = np.array([every[view[varying[view]]].mean() for view in self.view_columns_])
        for view, level in zip(self.view_columns_, levels, strict=True):
            every[view[~varying[view]]] = level
        self.noise_variance_ = columns.numbers(levels)
        self.feature_noise_variance_ = columns.numbers(every)

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        check_choice("prior", self.prior, get_args(Prior))
        check_choice("noise", self.noise, get_args(Noise))
        check_choice("rotation", self.rotation, get_args(Rotation))
        check_non_negative("shape", self.shape)
        check_non_negative("rate", self.rate)
        check_non_negative("tol", self.tol)
        check_integer("max_iter", self.max_iter, 1)

    def _warn(self) -> None:
        self._warn_unfinished()
        if not self.n_selected_:
            text = (
                "SCA: every weight is zero: the data show no common structure at this noise. One "
                "latent without loadings is kept. More samples, or a vaguer prior, may help."
            )
            warn(text, NoStructureWarning)

    # --- what the fitted model says

    def transform(self, X: Table, *, groups: ArrayLike | None = None) -> Array:
        """Posterior means of the factors, from what is observed of each row.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view
            None in place of a table: that view is missing.
        groups : array (n_samples,) or None, default=None
            The groups of the rows, where ``fit`` was given groups; None: not known.

        Returns
        -------
        array (n_samples, factors)
        """
        X = self._validated_rows(X)
        codes, non_gaussian, grouped = (
            self._group_codes(groups, X),
            self._non_gaussian_model(),
            self._grouped_model(),
        )
        if non_gaussian:
            Z = non_gaussian.posteriors(X)[0]
        elif grouped:
            Z = grouped.posterior_means(X, codes)
        else:
            Z = posterior_means(X, self._factors())
        return array_namespace(Z).astype(Z, X.dtype, copy=False) if is_floating(X) else Z

    def score_samples(self, X: Table, *, groups: ArrayLike | None = None) -> Array:
        """Log density of the observed entries of every row; where a view is not Gaussian, a lower
        bound of it.

        That of a Gaussian with the mean and the covariance that the model predicts: under "ard",
        what is not known of the loadings (``components_std_``) adds to the variances.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view
            None in place of a table: that view is missing.
        groups : array (n_samples,) or None, default=None
            The groups of the rows, where ``fit`` was given groups. Columns that do not vary
            within a row's group do not count. None: not known; the density is then that of the
            mixture of all groups, in the columns that vary within each.

        Returns
        -------
        array (n_samples,)
        """
        X = self._validated_rows(X)
        codes, grouped = self._group_codes(groups, X), self._grouped_model()
        if grouped:
            return grouped.log_densities(X, codes)
        kept = np.flatnonzero(to_numpy(self.varying_))
        non_gaussian = self._non_gaussian_model()
        if non_gaussian:
            return non_gaussian.take(kept).posteriors(take_columns(X, kept))[2]
        return row_log_densities(take_columns(X, kept), self._factors(kept))

    def score(self, X: Table, y: object = None, *, groups: ArrayLike | None = None) -> float:
        """Mean log density of the rows of ``X``; see `score_samples`.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view
        y : ignored
        groups : array (n_samples,) or None, default=None
            The groups of the rows, where ``fit`` was given groups; None: not known.

        Returns
        -------
        float
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
        """Mean and variance of one view given the others.

        Parameters
        ----------
        views : list of tables, dict from view to table, or table (n_samples, n_features_in_)
            One table per view, None where a view is missing and for the target; or a whole
            table, whose target columns are ignored.
        target : int
            The view to predict.
        groups : array (n_samples,) or None, default=None
            The groups of the rows, where ``fit`` was given groups; None: not known.

        Returns
        -------
        Prediction
            ``mean`` and ``variance``, both (n_samples, columns of the view).
        """
        check_is_fitted(self)
        n_views = len(self.view_columns_)
        check_integer("target", target, 0)
        if target >= n_views:
            raise ParameterError(
                f"`target` must be below the number of views, {n_views}, got {target}"
            )
        X = self._validated_rows(_drop_target(views, target, n_views))
        columns = self.view_columns_[target]
        container = container_of(X)
        if not (container.is_numpy and container.in_memory):
            raise InputError("`predict_view` takes NumPy, pandas, polars or sparse tables")
        X = container.dense(X)
        X[:, columns] = np.nan
        codes, non_gaussian, grouped = (
            self._group_codes(groups, X),
            self._non_gaussian_model(),
            self._grouped_model(),
        )
        if non_gaussian:
            return Prediction(*non_gaussian.means(X, columns))
        if grouped:
            mean, variance = grouped.moments(X, columns, codes)
        else:
            model = self._factors()
            mean = conditional_mean(X, model, columns)
            variance = conditional_variance(X, model, columns)
        return Prediction(mean, np.where(to_numpy(self.varying_)[columns], variance, 0.0))

    def impute(self, X: Table, *, groups: ArrayLike | None = None) -> Table:
        """``X`` with every missing entry replaced by its mean given the rest of its row.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view
            None in place of a table: that view is missing.
        groups : array (n_samples,) or None, default=None
            The groups of the rows, where ``fit`` was given groups; None: not known.

        Returns
        -------
        table (n_samples, n_features_in_)
            A new one, of the container of ``X``; a list becomes one array, the views in their places.
        """
        rows = self._validated_rows(X)
        codes, grouped = self._group_codes(groups, rows), self._grouped_model()
        container = container_of(X)
        listed = isinstance(X, list | tuple)
        if not has_missing(rows):
            if (
                not container.in_memory
            ):  # gaps would be seen when the rows are read, and refused then
                return container.finite(rows)
            if container.stays:
                return array_namespace(rows).asarray(rows, copy=True)
            return rows if listed else deepcopy(X)
        everything, non_gaussian = np.arange(self.n_features_in_), self._non_gaussian_model()
        if non_gaussian:
            mean = non_gaussian.means(rows, everything)[0]
        elif grouped:
            mean = grouped.moments(rows, everything, codes)[0]
        else:
            mean = conditional_mean(rows, self._factors(), everything)
        full = dense_with_missing(rows)
        missing = np.isnan(full)
        full[missing] = mean[missing]
        full = full.astype(rows.dtype, copy=False)
        return full if listed else container.with_values(X, full)

    def select(self, X: Table) -> Table:
        """The chosen columns of ``X``, in container; of a list of tables, those of every table.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view

        Returns
        -------
        table (n_samples, n_selected_), or a list of tables
        """
        if not is_list_of_tables(X):
            return super().select(X)
        self._validated_rows(X)
        support = to_numpy(self.support_)
        pairs = zip(X, self.view_columns_, strict=True)
        return [
            None if table is None else take_columns(table, np.flatnonzero(support[columns]))
            for table, columns in pairs
        ]

    def _factors(self, columns: np.ndarray | None = None) -> Factors:
        """The fitted model, of all columns or of some."""
        precision = 1.0 / (self._column_noise() + self._loading_variance())
        L, mean = to_numpy(self.components_).T.astype(float), to_numpy(self.mean_).astype(float)
        if columns is None:
            return Factors(L, precision, mean)
        return Factors(L[columns], precision[columns], mean[columns])

    def _group_codes(self, groups: ArrayLike | None, X: Table) -> np.ndarray | None:
        """The groups of new rows as numbers; None if they are not known, or there are none."""
        return encode_groups(groups, X.shape[0], getattr(self, "groups_", None))

    def _grouped_model(self) -> GroupedModel | None:
        """The fitted model where there are grouped groups."""
        if len(getattr(self, "groups_", ())) < 2:
            return None
        sizes = to_numpy(self.group_sizes_)
        factor_variance = to_numpy(self.factor_variance_per_group_).astype(float)
        noise = to_numpy(self.group_noise_variance_).astype(float)
        return GroupedModel(
            to_numpy(self.components_).T.astype(float),
            factor_variance,
            to_numpy(self.group_means_).astype(float),
            np.stack(
                [
                    row + self._loading_variance(v)
                    for row, v in zip(noise, factor_variance, strict=True)
                ]
            ),
            to_numpy(self.group_varying_),
            sizes / sizes.sum(),
        )

    def _non_gaussian_model(self) -> NonGaussianModel | None:
        """The fitted model where a view is not Gaussian."""
        names = getattr(self, "likelihood_", ["gaussian"])  # models of files of earlier versions
        if all(name == "gaussian" for name in names):
            return None
        return NonGaussianModel(
            to_numpy(self.components_).T.astype(float),
            1.0 / self._column_noise(),
            to_numpy(self.mean_).astype(float),
            column_likelihoods(names, self.view_columns_, self.n_features_in_),
            to_numpy(self.linear_threshold_).astype(float),
        )

    def _loading_variance(self, variances: np.ndarray | float = 1.0) -> np.ndarray | float:
        """The variance that what is not known of the weights adds to every column.

        A new row is x = <l>'z + (l - <l>)'z + noise. The second term has mean zero and, over the
        factors of variances ``variances`` (factors,), the variance sum_k v_k var(l_k); it does not
        go with the first, nor with that of another column.
        """
        known = getattr(self, "components_std_", None)
        if known is None:  # the weights are points
            return 0.0
        doubt: np.ndarray = np.sum(
            to_numpy(known).astype(float).T ** 2 * np.asarray(variances), axis=1
        )
        return doubt

    def _column_noise(self) -> np.ndarray:
        """The noise variance of every column."""
        known = getattr(self, "feature_noise_variance_", None)
        if known is not None:
            return to_numpy(known).astype(float)
        # a model from a file of an earlier version
        every = np.empty(self.n_features_in_)
        noise = to_numpy(self.noise_variance_).astype(float)
        for view, variance in zip(self.view_columns_, noise, strict=True):
            every[view] = variance
        return every

    def _validated_rows(self, X: Table) -> Table:
        """New rows, from a table or from one table per view (None: that view is missing)."""
        check_is_fitted(self)
        if duplicate_names(X):
            # views may share names, one table of scikit-learn's may not
            if X.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            X = separate_views(X, self.view_columns_)
        if not is_list_of_tables(X):
            return self._validate(X, reset=False)
        joined = join_views(X, self.view_columns_)
        unknown = [None] * len(self.view_columns_)  # of models in files of earlier versions
        check_names(X, getattr(self, "view_names_", unknown), type(self).__name__)
        with warnings.catch_warnings():
            # the names were compared above; side by side the views are an array, which has none
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self._validate(joined, reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags


def _standardised(X: Table, scale: bool) -> tuple[Operator, Columns, np.ndarray | None]:
    """The centred table without constant columns, the way back, and what of it was observed."""
    seen = None
    if has_missing(X):
        op, columns, seen = standardise_observed(X, scale)
    else:
        op, columns = standardise(X, scale)
    if op.shape[1] < 2:
        raise InputError(few_columns(op.shape[1], X.shape[1]))
    if scale:  # variances are given back in the units of the table
        deviations, precision = to_numpy(columns.scale).astype(float), precision_of(op)
        varying = np.zeros(deviations.size, dtype=bool)
        varying[columns.kept] = True
        check_range(deviations, UNITS[precision], precision, varying)
    return op, columns, seen


def _drop_target(
    views: Table | Mapping[int, Table] | Sequence[Table], target: int, n_views: int
) -> Table:
    """The views, or a whole table, with the target left out where that can be said."""
    if isinstance(views, Mapping):
        unknown = [key for key in views if key not in range(n_views)]
        if unknown:
            raise ParameterError(
                f"the views are numbered from 0 to {n_views - 1}; there is no view {unknown[0]!r}"
            )
        views = [views.get(v) for v in range(n_views)]
    if isinstance(views, list | tuple) and len(views) == n_views > 1:
        views = [None if v == target else table for v, table in enumerate(views)]
        if all(table is None for table in views):
            raise InputError("at least one view other than `target` must be given")
    return views
