"""SpinyRegressor: sparse linear regression by Bayesian model averaging."""

from __future__ import annotations

import math
from numbers import Real
from typing import Literal, NamedTuple, Self, get_args, overload

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import RegressorMixin
from sklearn.metrics import r2_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, Operator, container_of, restandardise, standardise
from ...data.containers import Table
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    check_total,
    check_weights,
    warn,
)
from ...inference.loop import Run
from .._base import VariableSelector, seed_of
from .averaging import Average, mixture_interval
from .model import MIN_NOISE_RATIO
from .null_test import NullData
from .predictive_variance import quadratic_form
from .response import (
    Response,
    check_response,
    check_responses,
    count_informative_rows,
    is_multi_output,
    prepare_response,
)
from .several import SeveralResponses, SeveralSolution, solve_several
from .solve import Options, Refit, SelectionRule, Solution, solve
from .stepwise import rules_for
from .student import (
    SearchSettings,
    StudentState,
    WeightedData,
    estimate_row_weights,
    null_scores,
)
from .validation import check_columns, group_codes

MAX_EXPONENT = 305  # maximum decimal exponent of a variance or precision

Noise = Literal["gaussian", "student"]


class FitData(NamedTuple):
    """Validated and standardised input of a fit."""

    X: Table
    weights: np.ndarray | None  # row weights
    op: Operator
    columns: Columns
    responses: list[Response]
    groups: np.ndarray | None  # group of each row with positive weight

    @property
    def response(self) -> Response:
        """The first response."""
        return self.responses[0]


class SpinyRegressor(RegressorMixin, VariableSelector):
    """Sparse linear regression by Bayesian model averaging.

    Each set of variables defines a Bayesian linear model whose marginal likelihood (evidence) is
    known in closed form. Posterior probabilities of the sets give the inclusion probability of
    each variable and the selected set. `predict` averages over the sets.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept. If False, X and y are not centred.
    scale : bool, default=True
        Whether to divide each column by its standard deviation before fitting. The prior gives
        all coefficients of scaled columns the same variance.
    noise : {"gaussian", "student"}, default="gaussian"
        Noise distribution. "student" is Student's t distribution, which reduces the weight of
        outliers in y.
    refit : {"posterior", "ols"}, default="posterior"
        Estimator of the coefficients of the selected set: the posterior mean or ordinary least
        squares.
    selection_rule : {"f-score", "map", "median"}, default="f-score"
        Rule for the selected set. "f-score" maximises the expected F-score and selects one
        variable of each redundant group. "map" is the set of maximum posterior probability.
        "median" is the median probability model: all variables with an inclusion probability
        above 0.5.
    average : bool, default=True
        Whether to predict by Bayesian model averaging. If False, or with ``refit="ols"``, the
        selected set alone predicts. ``average=False`` with ``selection_rule="map"`` computes no
        average and is faster.
    max_iter : int, default=1000
        Maximum number of moves of a search, and of iterations of automatic relevance
        determination.
    tol : float, default=1e-7
        Increase of the objective per sample below which a search or an iteration stops.
    random_state : int, RandomState or None, default=0
        Seed for sampling sets of variables, used if X has more than ten columns. The selected
        set of ``selection_rule="map"`` does not depend on it.
    verbose : int, default=0
        Verbosity level; 1 shows a progress bar.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,) or (n_responses, n_features_in_)
        Coefficients used by `predict`: posterior means over all sets with averaging, else equal
        to ``selected_coef_``.
    intercept_ : float or ndarray of shape (n_responses,)
        Intercept used by `predict`. It is 0 if ``fit_intercept=False``.
    coef_std_ : ndarray of the shape of coef_
        Posterior standard deviations of ``coef_``.
    selected_coef_ : ndarray of the shape of coef_
        Coefficients of the selected set, exactly zero outside ``support_``.
    selected_intercept_ : float or ndarray of shape (n_responses,)
        Intercept of the selected set.
    selected_coef_covariance_ : ndarray of shape (n_selected_, n_selected_)
        Posterior covariance of the nonzero ``selected_coef_``. The shape is
        (n_responses, n_selected_, n_selected_) for several responses.
    support_ : ndarray of shape (n_features_in_,)
        Boolean mask of the selected variables.
    n_selected_ : int
        Number of selected variables.
    inclusion_probability_ : ndarray of shape (n_features_in_,)
        Posterior probability that each variable is active. Present if an average over sets was
        computed.
    credible_sets_ : list of ndarray
        One array of column indices for each selected variable, in column order. It is the
        smallest group of variables correlated with the selected one (at least 0.5 in absolute
        value) that contains the active variable with probability 0.95, most probable first.
    conditional_coef_mean_ : ndarray of shape (n_features_in_,)
        Posterior mean of each coefficient given that its variable is active. Present with
        ``inclusion_probability_``.
    conditional_coef_std_ : ndarray of shape (n_features_in_,)
        Posterior standard deviation of each coefficient given that its variable is active.
        Present with ``inclusion_probability_``.
    model_size_probability_ : ndarray of shape (n_features_in_ + 1,)
        Posterior probability of 0, 1, 2, ... active variables. Present with
        ``inclusion_probability_``.
    expected_f_score_ : float
        Posterior expectation of the F-score of the selected set. Present if the set was selected
        by ``selection_rule="f-score"``.
    relevance_ : ndarray of shape (n_features_in_,)
        Prior standard deviation of each coefficient under automatic relevance determination,
        relative to the largest. For several responses, the norm of the coefficients over the
        noise standard deviations. Selected variables have positive relevance.
    ranking_ : ndarray of shape (n_features_in_,)
        Ranks of the variables; 1 is the last variable removed by backward elimination. Variables
        outside the path are ranked by the evidence that each would add.
    cardinalities_ : ndarray of shape (n_models,)
        Numbers of variables in the nested models on the path: 0, 1, 2, ...
    log_evidence_path_ : ndarray of shape (n_models,)
        Log marginal likelihood of each model on the path.
    log_posterior_path_ : ndarray of shape (n_models,)
        Log evidence plus log prior of each model on the path, up to a constant.
    coef_precision_ : float or ndarray of shape (n_responses,)
        Prior precision of the coefficients of scaled columns in the selected model. It has no
        effect if no variable is selected.
    noise_precision_ : float or ndarray of shape (n_responses,)
        Noise precision of the selected model, at the maximum of its evidence.
    noise_variance_ : float or ndarray of shape (n_responses,)
        Noise variance used by `predict`: the posterior mean over all sets with averaging, else
        that of the selected set.
    candidate_indices_ : ndarray of shape (n_candidates,)
        Indices of the variables whose joint posterior covariance enters the standard deviation
        of a prediction. With averaging, these are at most 300 variables with an inclusion
        probability of at least 0.01; otherwise, the selected variables.
    degrees_of_freedom_ : float
        Degrees of freedom of the noise, between 3 and 200. Present if ``noise="student"``.
    row_weight_ : ndarray of shape (n_samples,)
        Posterior mean weight of each row with positive ``sample_weight``. Outliers have weights
        near 0, other rows near 1. Present if ``noise="student"``.
    objective_path_ : ndarray of shape (n_iter_,)
        Log marginal likelihood after each iteration of automatic relevance determination, or log
        posterior after each move of the search for several responses. It is non-decreasing.
    n_iter_ : int
        Number of iterations.
    stop_reason_ : StopReason
        Reason why the iterations stopped.
    mean_ : ndarray of shape (n_features_in_,)
        Column means; zeros if ``fit_intercept=False``.
    scale_ : ndarray of shape (n_features_in_,)
        Column standard deviations; ones if ``scale=False``.
    varying_ : ndarray of shape (n_features_in_,)
        Boolean mask of the columns that are not constant. Constant columns are never selected.

    See Also
    --------
    SpinyClassifier : Logistic regression for two classes.

    Notes
    -----
    With ``Z = (X - mean_) / scale_`` and centred y, the evidence of a set v is
    N(y; 0, I/gamma + Z_v Z_v'/alpha), where alpha is ``coef_precision_`` and gamma is
    ``noise_precision_``. The multiplicity-correcting prior divides the probability of a model
    size equally among the sets of that size. It is flat up to about fifteen variables and
    decreases for larger models.

    Variables are selected only if a permutation test detects a signal, whatever the
    ``selection_rule``. The test has level 0.04, permutes the response, within ``groups`` if these
    are given, and assumes no noise distribution. If permuted responses have a mean Bayes factor
    above 1, as with rare counts or outliers, inclusion probabilities and averaged coefficients are
    reduced accordingly.

    Several responses share the selected set and the ratio alpha/gamma; each has its own noise
    variance. The set of maximum posterior probability is selected and no average is computed.

    The average integrates over the noise variance and the scale of the coefficients. Two priors
    have probability 1/2 each: independent Gaussian coefficients, or coefficients of a common
    magnitude whose signs may differ. The prior on the signs favours equal signs. Multiplying one
    column by -1 can therefore change inclusion probabilities; multiplying y by -1 cannot. All
    sets are enumerated for up to ten variables. For more variables, a Markov jump process visits
    at most 1000 states among about 400 variables.

    References
    ----------
    Latouche, Mattei, Bouveyron & Chiquet (2016), Journal of Multivariate Analysis 146.
    Scott & Berger (2010), Annals of Statistics 38(5): prior on sets.
    Zanella & Roberts (2019), Journal of the Royal Statistical Society B 81(3): jump process.
    Barbieri & Berger (2004), Annals of Statistics 32(3): median probability model.

    Examples
    --------
    >>> from prosparse import SpinyRegressor, datasets
    >>> X, y, coef = datasets.make_sparse_regression(random_state=0)
    >>> model = SpinyRegressor().fit(X, y)
    >>> model.n_selected_, bool((model.support_ == (coef != 0)).all())
    (10, True)
    """

    _min_features = 1
    _variable_attributes = (
        ("inclusion_probability", "inclusion_probability_"),
        ("coef", "coef_"),
        ("coef_std", "coef_std_"),
        ("selected_coef", "selected_coef_"),
        ("conditional_coef_mean", "conditional_coef_mean_"),
        ("conditional_coef_std", "conditional_coef_std_"),
    )
    coef_: np.ndarray
    intercept_: float | np.ndarray
    coef_std_: np.ndarray
    noise_variance_: float | np.ndarray
    candidate_indices_: np.ndarray
    # Inputs of the predictive variance, in addition to `noise_variance_`.
    _candidate_covariance: np.ndarray  # (k, k) of coefficients of scaled columns; or (m, k, k)
    _excluded_variance: float  # mean contribution of all variables that are not candidates
    _intercept_variance: float | np.ndarray  # at the column means
    _averaged: bool  # whether `coef_` is an average over sets

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        scale: bool = True,
        noise: Noise = "gaussian",
        refit: Refit = "posterior",
        selection_rule: SelectionRule = "f-score",
        average: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ):
        self.fit_intercept = fit_intercept
        self.scale = scale
        self.noise = noise
        self.refit = refit
        self.selection_rule = selection_rule
        self.average = average
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        *,
        groups: ArrayLike | None = None,
    ) -> Self:
        """Select variables and estimate their coefficients.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features)
            Predictors.
        y : array-like of shape (n_samples,) or (n_samples, n_responses)
            Response. Several responses share one selected set.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Number of observations that each row represents. A row with weight 2 counts as two
            rows, and a row with weight 0 is ignored. Divide inverse noise variances by their mean
            before passing them as weights.
        groups : array-like of shape (n_samples,) or None, default=None
            Labels of batches, donors or other strata. The null test permutes the response within
            groups. By default it permutes all rows.

        Returns
        -------
        SpinyRegressor
            The fitted estimator.
        """
        with self._fitting():
            data = self._prepare(X, y, sample_weight, groups)
            if len(data.responses) > 1:
                self._fit_multi_output(data)
            else:
                self._fit_single_output(data)
        return self

    def _prepare(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> FitData:
        """Validate the input, standardise X and centre y."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = self._validate(X, reset=True)
        if is_multi_output(y):
            values = check_responses(y, X.shape[0])
            self._check_multi_output(values.shape[1])
        else:
            values = check_response(y, X.shape[0])[:, None]
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, X.shape[0])
            check_total(weights)
        op, columns = standardise(X, self.scale, weights, centre=self.fit_intercept)
        check_columns(op, columns, self.scale)
        responses = [prepare_response(column, self.fit_intercept, weights) for column in values.T]
        return FitData(X, weights, op, columns, responses, group_codes(groups, X.shape[0], weights))

    def _check_multi_output(self, m: int) -> None:
        """Raise an error for options that do not support several responses."""
        if self.noise != "gaussian":
            raise ParameterError(
                f"`noise` must be 'gaussian' for several responses, got {self.noise!r} and {m} "
                "columns of y. Fit each response separately."
            )
        if self.selection_rule == "median":
            raise ParameterError(
                "`selection_rule` must be 'f-score' or 'map' for several responses, got 'median' "
                f"and {m} columns of y. Fit each response separately."
            )

    def _null_data(self, data: FitData) -> NullData:
        """Return the data of the null test."""
        root, n_intercepts = data.response.root, int(self.fit_intercept)
        Y = np.column_stack([response.y for response in data.responses])
        values = Y if root is None else Y / root[:, None]
        if self.noise == "student":
            counts = np.ones(values.shape[0]) if root is None else root**2
            values = null_scores(values[:, 0], counts, n_intercepts)[:, None]
        return NullData(data.op, values, root, data.response.n, n_intercepts, data.groups)

    # --- one response

    def _fit_single_output(self, data: FitData) -> None:
        run, null_data = None, self._null_data(data)
        if self.noise == "student":
            data, run = self._reweight_rows(data)
        options = Options(
            fit_intercept=self.fit_intercept,
            refit=self.refit,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
            selection_rule=self.selection_rule,
            average=self.average,
            seed=seed_of(self.random_state),
        )
        self._set_fit(
            solve(data.op, data.response, null_data, options), data.columns, data.response
        )
        if run is not None:
            self._set_student_noise(run, data.response)

    def _reweight_rows(self, data: FitData) -> tuple[FitData, Run[StudentState]]:
        """Estimate the row weights of Student's t noise and apply them to the data."""
        X, values, n = data.X, data.response.values, data.response.n
        counts = np.ones(values.size)
        if data.weights is not None:
            X = container_of(X).take_rows(X, np.flatnonzero(data.weights > 0))
            counts = data.weights[data.weights > 0]

        def reweight(u: np.ndarray) -> WeightedData:
            op, columns = restandardise(X, data.columns, counts * u, centre=self.fit_intercept)
            response = prepare_response(values, self.fit_intercept, counts * u)._replace(n=n)
            return WeightedData(op, columns, response)

        settings = SearchSettings(
            n_intercepts=int(self.fit_intercept),
            max_iter=self.max_iter,
            tol=self.tol,
            noise_floor=MIN_NOISE_RATIO * data.response.yy / n,
            verbose=self.verbose,
        )
        run = estimate_row_weights(reweight, counts, settings)
        op, columns, response = reweight(run.state.u)
        return data._replace(
            X=X, weights=counts * run.state.u, op=op, columns=columns, responses=[response]
        ), run

    def _set_student_noise(self, run: Run[StudentState], response: Response) -> None:
        """Set the attributes of Student's t noise and adjust the variances."""
        nu = run.state.nu
        self.degrees_of_freedom_ = nu
        self.row_weight_ = run.state.u
        if run.reason.unfinished and not self.stop_reason_.unfinished:
            self.stop_reason_ = run.reason
        if response.root is not None:
            self._intercept_variance *= response.n / float(np.sum(response.root**2))
        self.noise_variance_ *= nu / (nu - 2.0)  # variance of a t variable of unit scale

    def _set_fit(self, found: Solution, columns: Columns, response: Response) -> None:
        """Set the fitted attributes in the units of X and y."""
        indices = self._set_selection(columns, found.order, found.selected, found.relevance)
        target, n = response.column, response.n
        # Coefficients in the units of X and y are those of the operator divided by ratio * scale.
        ratio = columns.length(1.0) / target.length(1.0)
        _check_units(found, columns, target, self.scale_[indices])
        self.cardinalities_ = np.arange(found.path.sigma2.size)
        self.log_evidence_path_ = target.log_density(found.path.log_evidence, n)
        self.log_posterior_path_ = target.log_density(found.log_posterior, found.dof)
        self.noise_precision_ = 1.0 / target.variance(float(found.path.sigma2[found.best]))
        lam = math.exp(found.path.log_ratio[found.best])
        self.coef_precision_ = ratio**2 * lam / float(found.path.sigma2[found.best])
        self.objective_path_ = target.log_density(found.bounds, n)
        self.n_iter_ = int(found.bounds.size)
        self.n_selected_ = found.best
        self.stop_reason_ = found.reason
        self._set_selected(found, indices, ratio, target)
        if found.expected_f is not None:
            self.expected_f_score_ = found.expected_f
        self._averaged = self.average and self.refit == "posterior"
        if found.average is not None:
            listed = np.flatnonzero(self.varying_)[found.listed]
            self._set_average(found.average, listed, ratio, target)
        self._intercept_variance = self.noise_variance_ / n if self.fit_intercept else 0.0

    def _set_selected(
        self, found: Solution, indices: np.ndarray, ratio: float, target: Columns
    ) -> None:
        """Set the coefficients of the selected set and use them in `predict`."""
        increasing = np.argsort(indices)
        indices, scale = indices[increasing], self.scale_[indices[increasing]]
        covariance = found.weights.covariance[increasing][:, increasing] / ratio**2
        self.selected_coef_ = np.zeros(self.support_.size)
        self.selected_coef_[indices] = found.weights.mean[increasing] / (ratio * scale)
        self.selected_intercept_ = float(target.mean[0]) - float(self.mean_ @ self.selected_coef_)
        self.selected_coef_covariance_ = covariance / scale[:, None] / scale
        varying = np.flatnonzero(self.varying_)
        self.credible_sets_ = [varying[found.credible[i]] for i in increasing]
        self.coef_ = self.selected_coef_.copy()
        self.intercept_ = self.selected_intercept_
        self.coef_std_ = np.zeros(self.support_.size)
        self.coef_std_[indices] = np.sqrt(covariance.diagonal()) / scale
        self.noise_variance_ = target.variance(found.weights.sigma2)
        self.candidate_indices_ = indices
        self._candidate_covariance = covariance
        self._excluded_variance = 0.0

    def _set_average(
        self, average: Average, indices: np.ndarray, ratio: float, target: Columns
    ) -> None:
        """Set the attributes of the average over sets of the columns ``indices``."""
        factor = 1.0 / (ratio * self.scale_[indices])

        def on_all_columns(values: np.ndarray) -> np.ndarray:
            full = np.zeros(self.support_.size)
            full[indices] = values
            return full

        self.inclusion_probability_ = on_all_columns(average.inclusion)
        self.conditional_coef_mean_ = on_all_columns(average.active_mean * factor)
        self.conditional_coef_std_ = on_all_columns(np.sqrt(average.active_variance) * factor)
        size = min(average.size_probability.size, self.support_.size + 1)
        self.model_size_probability_ = np.zeros(self.support_.size + 1)
        self.model_size_probability_[:size] = average.size_probability[:size]
        if not self._averaged:
            return
        self.coef_ = on_all_columns(average.mean * factor)
        self.intercept_ = float(target.mean[0]) - float(self.mean_ @ self.coef_)
        self.coef_std_ = on_all_columns(np.sqrt(average.variance) * factor)
        self.noise_variance_ = target.variance(average.sigma2)
        self.candidate_indices_ = indices[average.candidates]
        self._candidate_covariance = average.covariance / ratio**2
        self._excluded_variance = target.variance(average.excluded_variance)

    # --- several responses

    def _fit_multi_output(self, data: FitData) -> None:
        op, responses, n = data.op, data.responses, data.response.n
        rules = rules_for(
            max(count_informative_rows(op, response) for response in responses),
            op.shape[1],
            self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol * n,
            verbose=self.verbose,
        )
        Y = np.column_stack([response.y for response in responses])
        yy = np.array([response.yy for response in responses])
        targets = SeveralResponses(Y, yy, n)
        found = solve_several(op, targets, self._null_data(data), rules, self.refit == "ols")
        self._set_multi_output_fit(found, data.columns, responses)

    def _set_multi_output_fit(
        self, found: SeveralSolution, columns: Columns, responses: list[Response]
    ) -> None:
        """Set the fitted attributes in the units of X and of each response."""
        indices = self._set_selection(columns, found.order, found.selected, found.relevance)
        n = responses[0].n
        units = np.array([response.column.length(1.0) for response in responses])
        means = np.array([float(response.column.mean[0]) for response in responses])
        length = columns.length(1.0)
        _check_multi_output_units(found, length, units, self.scale_[indices])
        increasing = np.argsort(indices)
        indices, scale = indices[increasing], self.scale_[indices[increasing]]
        factor = units[:, None] / length  # (m, 1), for coefficients of scaled columns
        shape = found.weights.shape[increasing][:, increasing]
        covariance = (found.weights.sigma2[:, None] * factor**2)[:, :, None] * shape
        self.selected_coef_ = np.zeros((units.size, self.support_.size))
        self.selected_coef_[:, indices] = found.weights.mean[increasing].T * factor / scale
        self.selected_intercept_ = means - self.selected_coef_ @ self.mean_
        self.selected_coef_covariance_ = covariance / scale[:, None] / scale
        self.coef_, self.intercept_ = self.selected_coef_.copy(), np.array(self.selected_intercept_)
        self.coef_std_ = np.zeros(self.coef_.shape)
        variances = np.diagonal(covariance, axis1=1, axis2=2)
        self.coef_std_[:, indices] = np.sqrt(variances) / scale
        self.noise_variance_ = units**2 * found.weights.sigma2
        self.candidate_indices_ = indices
        self._candidate_covariance = covariance
        self._excluded_variance = 0.0
        self._intercept_variance = self.noise_variance_ / n * float(self.fit_intercept)
        self._averaged = False
        self.noise_precision_ = 1.0 / (units**2 * found.fit.sigma2)
        self.coef_precision_ = self.noise_precision_ * math.exp(found.fit.log_ratio) * length**2
        self.cardinalities_ = np.arange(found.log_evidence.size)
        log_units = float(np.log(units).sum())
        self.log_evidence_path_ = found.log_evidence - n * log_units
        self.log_posterior_path_ = found.log_posterior - found.dof * log_units
        self.objective_path_ = found.bounds - found.dof * log_units
        self.n_iter_ = int(found.bounds.size)
        self.n_selected_ = int(indices.size)
        self.stop_reason_ = found.reason
        varying = np.flatnonzero(self.varying_)
        self.credible_sets_ = [varying[found.credible[i]] for i in increasing]

    # --- predictions

    @overload
    def predict(self, X: Table, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Table, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predict the response as ``X @ coef_.T + intercept_``.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.
        return_std : bool, default=False
            Whether to return the predictive standard deviation as well.

        Returns
        -------
        y_mean : ndarray of shape (n_samples,) or (n_samples, n_responses)
            Predictions.
        y_std : ndarray of the shape of y_mean
            Standard deviation of a new observation, which includes the noise and the posterior
            uncertainty of the coefficients, the intercept and, with averaging, the set. Returned
            if ``return_std=True``.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        prediction: np.ndarray = np.asarray(X @ self.coef_.T) + self.intercept_
        if not return_std:
            return prediction
        covariances = self._candidate_covariance
        if covariances.ndim == 2:
            covariances = covariances[None]
        from_coef = np.column_stack(
            [
                quadratic_form(X, self.candidate_indices_, C, self.mean_, self.scale_)
                for C in covariances
            ]
        ).reshape(prediction.shape)
        variance = self.noise_variance_ + self._intercept_variance + self._excluded_variance
        return prediction, np.sqrt(variance + from_coef)

    def coef_interval(self, level: float = 0.95) -> np.ndarray:
        """Compute equal-tailed credible intervals of the coefficients.

        With averaging, the posterior of a coefficient is a mixture of a point mass at zero and a
        Gaussian distribution. One or both ends of an interval can be exactly zero. Without
        averaging, the intervals are those of the selected set and zero outside it.

        Parameters
        ----------
        level : float, default=0.95
            Posterior probability of each interval, in (0, 1).

        Returns
        -------
        ndarray of shape (n_features_in_, 2) or (n_responses, n_features_in_, 2)
            Lower and upper ends of the intervals.
        """
        check_is_fitted(self)
        if not (isinstance(level, Real) and 0.0 < float(level) < 1.0):
            raise ParameterError(f"`level` must be in (0, 1), got {level!r}.")
        if self._averaged:
            return mixture_interval(
                self.inclusion_probability_,
                self.conditional_coef_mean_,
                self.conditional_coef_std_,
                level,
            )
        return mixture_interval(self.support_.astype(float), self.coef_, self.coef_std_, level)

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the coefficient of determination, R squared, of the predictions.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.
        y : array-like of shape (n_samples,) or (n_samples, n_responses)
            Observed responses.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Row weights.

        Returns
        -------
        float
            R squared, averaged over the responses.
        """
        prediction = self.predict(X)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, prediction.shape[0])
        check = check_responses if is_multi_output(y) else check_response
        return float(r2_score(check(y, prediction.shape[0]), prediction, sample_weight=weights))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.target_tags.multi_output = self.noise == "gaussian" and self.selection_rule != "median"
        return tags

    def _check_parameters(self) -> None:
        check_bool("fit_intercept", self.fit_intercept)
        check_bool("scale", self.scale)
        check_choice("noise", self.noise, get_args(Noise))
        check_choice("refit", self.refit, get_args(Refit))
        check_choice("selection_rule", self.selection_rule, get_args(SelectionRule))
        check_bool("average", self.average)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            near = "close to the mean" if self._averaged else "the mean"
            warn(
                "SpinyRegressor: no variable was selected, because no set is significantly better "
                f"than the empty set. Predictions are {near} of y. `ranking_` orders the variables "
                "by the evidence that each would add, which is not significant for any of them.",
                NoStructureWarning,
            )


def _check_units(found: Solution, columns: Columns, target: Columns, scale: np.ndarray) -> None:
    """Check that variances and precisions are finite in the units of X and y.

    ``scale`` is that of the selected columns. Sizes are computed on the log scale, because
    products may overflow.
    """
    log_length, log_target = math.log(columns.length(1.0)), math.log(target.length(1.0))
    noise_precision = -np.log(found.path.sigma2) - 2.0 * log_target
    coef_precision = 2.0 * log_length + found.path.log_ratio + noise_precision
    size = log_target - log_length - np.log(scale)  # log size of the coefficients
    variance = np.log(found.posterior_variances) + 2.0 * size
    _check_exponents(np.concatenate([noise_precision, coef_precision, size, variance]))


def _check_multi_output_units(
    found: SeveralSolution, length: float, units: np.ndarray, scale: np.ndarray
) -> None:
    """Check the units of several responses as `_check_units` does for one."""
    log_units, log_length = np.log(units), math.log(length)
    noise_precision = -np.log(found.fit.sigma2) - 2.0 * log_units
    coef_precision = 2.0 * log_length + found.fit.log_ratio + noise_precision
    size = (log_units[:, None] - log_length - np.log(scale)).ravel()
    _check_exponents(np.concatenate([noise_precision, coef_precision, 2.0 * size]))


def _check_exponents(log_values: np.ndarray) -> None:
    """Raise an error if a value, given by its logarithm, overflows or underflows."""
    exponents = log_values / math.log(10.0)
    worst = float(exponents[np.argmax(np.abs(exponents))])
    if abs(worst) > MAX_EXPONENT:
        raise InputError(
            f"X and y have units in which a variance or precision of the fit is 1e{worst:.0f}, "
            "which double precision cannot represent. Multiply X or y by a constant."
        )
