"""Estimator class `SpinyRegressor`: sparse linear regression."""

from __future__ import annotations

from typing import Any, Literal, NamedTuple, Self, get_args, overload

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
    check_total,
    check_weights,
    warn,
)
from ...inference.loop import Run
from .._base import seed_of
from .base import SpinyBase, check_exponents, warn_about_rows
from .linear import MIN_NOISE_RATIO, LinearFit
from .null_test import NullData
from .response import (
    Response,
    check_response,
    check_responses,
    count_informative_rows,
    is_multi_output,
    prepare_response,
)
from .screening import LinearProblem, candidates, max_linear_sizes
from .solve import Options, SelectionRule, Solution, solve
from .stepwise import rules_for
from .student import (
    SearchSettings,
    StudentState,
    WeightedData,
    estimate_row_weights,
    null_scores,
)
from .validation import check_columns, group_codes

Refit = Literal["posterior", "ols"]
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
        """First response."""
        return self.responses[0]


class SpinyRegressor(RegressorMixin, SpinyBase):
    """Sparse linear regression by Bayesian model averaging.

    Each set of variables defines a Bayesian linear model whose marginal likelihood (evidence) is
    known in closed form. The inclusion probability of each variable and the selected set follow
    from the posterior probabilities of the sets. `predict` averages over the sets and, if supported
    by the data, over small coefficients of all variables.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept. If False, X and y are not centred.
    scale : bool, default=True
        Whether to divide each column by its standard deviation before fitting. All coefficients of
        scaled columns have the same prior variance.
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
    common_sign : bool, default=False
        Whether the prior favours coefficients of the same sign, for columns coded so that larger
        values are expected to have effects in the same direction. If False, the result is invariant
        to multiplication of columns by -1.
    average : bool, default=True
        Whether to predict by Bayesian model averaging. If False, or with ``refit="ols"``, only the
        selected set is used for prediction. ``average=False`` with ``selection_rule="map"``
        computes no average and is faster.
    max_iter : int, default=1000
        Maximum number of moves of a search, and of iterations of automatic relevance
        determination.
    tol : float, default=1e-7
        Increase of the objective per sample below which a search or an iteration stops.
    random_state : int, RandomState or None, default=0
        Seed for sampling sets of variables, used if X has more than seven columns. The set selected
        by ``selection_rule="map"`` does not depend on ``random_state``.
    verbose : int, default=0
        Verbosity level. 1 prints the progress.

    Attributes
    ----------
    coef_ : ndarray of shape (n_features_in_,) or (n_responses, n_features_in_)
        Coefficients used by `predict`: posterior means over all sets with averaging, otherwise
        equal to ``selected_coef_``.
    intercept_ : float or ndarray of shape (n_responses,)
        Intercept used by `predict`; 0 if ``fit_intercept=False``.
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
        Posterior probability that each variable is active, given no dense component. Exists only if
        an average over sets was computed.
    dense_probability_ : float
        Posterior probability of a dense component, in which all variables have small coefficients
        in addition to those of the active variables. Selection and inclusion probabilities assume
        no dense component; `predict` and ``coef_`` average over both cases. 0 for at most 30 or
        more than 1000 variables. Exists together with ``inclusion_probability_``.
    credible_sets_ : list of ndarray
        One array of column indices for each selected variable, in column order. The array is the
        smallest group that contains the active variable with probability 0.95, most probable first.
        All variables of the group have an absolute correlation of at least 0.5 with the selected
        variable.
    conditional_coef_mean_ : ndarray of the shape of coef_
        Posterior mean of each coefficient given that it is nonzero, because the variable is active
        or there is a dense component. Exists together with ``inclusion_probability_``.
    conditional_coef_std_ : ndarray of the shape of coef_
        Posterior standard deviation of each coefficient given that it is nonzero. Exists together
        with ``inclusion_probability_``.
    model_size_probability_ : ndarray of shape (n_features_in_ + 1,)
        Posterior probability of 0, 1, 2, ... active variables. Exists together with
        ``inclusion_probability_``.
    expected_f_score_ : float
        Posterior expectation of the F-score of the selected set. Exists only if
        ``selection_rule="f-score"`` selected the set.
    relevance_ : ndarray of shape (n_features_in_,)
        Prior standard deviation of each coefficient under automatic relevance determination,
        relative to the largest. For several responses, the norm of the coefficients divided by the
        noise standard deviations. Selected variables have positive relevance.
    ranking_ : ndarray of shape (n_features_in_,)
        Ranks of the variables; 1 is the last variable removed by backward elimination. Variables
        outside the path are ranked by the increase in evidence if added.
    cardinalities_ : ndarray of shape (n_models,)
        Numbers of variables in the nested models on the path: 0, 1, 2, ...
    log_evidence_path_ : ndarray of shape (n_models,)
        Log marginal likelihood of each model on the path.
    log_posterior_path_ : ndarray of shape (n_models,)
        Log evidence plus log prior of each model on the path, up to a constant.
    coef_precision_ : float or ndarray of shape (n_responses,)
        Prior precision of the coefficients of scaled columns in the selected model; without effect
        if no variable is selected.
    noise_precision_ : float or ndarray of shape (n_responses,)
        Noise precision of the selected model, at the maximum of its evidence.
    noise_variance_ : float or ndarray of shape (n_responses,)
        Noise variance used by `predict`: the posterior mean over all sets with averaging, otherwise
        that of the selected set.
    candidate_indices_ : ndarray of shape (n_candidates,)
        Indices of the variables whose joint posterior covariance is used for the standard
        deviations of predictions. With averaging, these are at most 300 variables with an inclusion
        probability of at least 0.01; otherwise, the selected variables.
    degrees_of_freedom_ : float
        Degrees of freedom of the noise, between 3 and 200. Exists only if ``noise="student"``.
    row_weight_ : ndarray of shape (n_samples,)
        Posterior mean weight of each row with positive ``sample_weight``. Outliers have weights
        near 0; other rows have weights near 1. Exists only if ``noise="student"``.
    objective_path_ : ndarray of shape (n_iter_,)
        Log marginal likelihood after each iteration of automatic relevance determination, or log
        posterior after each move of the search for several responses; non-decreasing.
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
    ``noise_precision_``. The multiplicity-correcting prior divides the probability of a model size
    equally among the sets of that size. The prior on the model size is flat up to about fifteen
    variables and decreases for larger models.

    With any ``selection_rule``, variables are selected only if a permutation test detects a signal.
    The test has level 0.04, permutes the response (within ``groups``, if given) and does not assume
    a noise distribution. If permuted responses have a mean Bayes factor above 1, as with rare
    counts or outliers, inclusion probabilities and averaged coefficients are reduced accordingly.

    Several responses have a common set and a common ratio alpha/gamma. Each response has its own
    noise variance and its own coefficients, which are independent across responses a priori.

    The average integrates over the noise variance and the scales of the coefficients. Two priors
    are compared by their evidence: independent Gaussian coefficients of a small or a large
    variance, and coefficients of a common magnitude whose signs may differ. All sets are enumerated
    for up to seven variables. For more variables, a Markov jump process visits at most 1000 states
    among about 400 variables. A second process includes a dense component, a ridge regression on
    all variables, with prior probability 0.002.

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

    noise_variance_: Any

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        scale: bool = True,
        noise: Noise = "gaussian",
        refit: Refit = "posterior",
        selection_rule: SelectionRule = "f-score",
        common_sign: bool = False,
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
        self.common_sign = common_sign
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
            Response. One set of variables is selected for several responses.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Number of observations represented by each row. A row with weight 2 counts as two rows,
            and a row with weight 0 is ignored. Inverse noise variances should be divided by their
            mean.
        groups : array-like of shape (n_samples,) or None, default=None
            Labels of batches, donors or other strata. The null test permutes the response within
            groups, by default over all rows.

        Returns
        -------
        SpinyRegressor
            The fitted estimator.
        """
        with self._fitting():
            data = self._prepare(X, y, sample_weight, groups)
            run, null_data = None, self._null_data(data)
            if self.noise == "student":
                data, run = self._reweight_rows(data)
            found = self._solve(data, null_data)
            self._set_fit(found, data)
            warn_about_rows(type(self).__name__, found, null_data)
            if run is not None:
                self._set_student_noise(run, data.response)
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
            if self.noise != "gaussian":
                raise ParameterError(
                    f"`noise` must be 'gaussian' for several responses, got {self.noise!r} and "
                    f"{values.shape[1]} columns of y. Fit each response separately."
                )
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

    def _null_data(self, data: FitData) -> NullData:
        """Build the data of the null test."""
        root, n_intercepts = data.response.root, int(self.fit_intercept)
        Y = np.column_stack([response.y for response in data.responses])
        values = Y if root is None else Y / root[:, None]
        if self.noise == "student":
            counts = np.ones(values.shape[0]) if root is None else root**2
            values = null_scores(values[:, 0], counts, n_intercepts)[:, None]
        return NullData(
            data.op,
            values,
            root,
            data.response.n,
            n_intercepts,
            data.groups,
            unequal_noise=True,
        )

    def _solve(self, data: FitData, null_data: NullData) -> Solution[LinearFit]:
        """Select variables for all responses."""
        op, n, p = data.op, data.response.n, data.op.shape[1]
        rows = max(count_informative_rows(op, response) for response in data.responses)
        rules = rules_for(
            p,
            max_linear_sizes(rows, p, self.fit_intercept),
            max_iter=self.max_iter,
            tol=self.tol * n,
            verbose=self.verbose,
        )
        Y = np.column_stack([response.y for response in data.responses])
        yy = np.array([response.yy for response in data.responses])
        options = Options(
            self.selection_rule, self.average, self.refit == "ols", seed_of(self.random_state)
        )
        pool = candidates(op, Y, yy, n, int(self.fit_intercept))
        return solve(LinearProblem(pool, self.common_sign), null_data, rules, options)

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
            self._candidate_covariance[:, 0] *= response.n / float(np.sum(response.root**2))
        self.noise_variance_ *= nu / (nu - 2.0)  # variance of a t variable of unit scale

    def _by_response(self, values: np.ndarray) -> Any:
        """Remove the axis of the responses for a single response."""
        if values.shape[0] > 1:
            return values
        return float(values[0]) if values.ndim == 1 else values[0]

    def _set_fit(self, found: Solution[LinearFit], data: FitData) -> None:
        """Set the fitted attributes in the units of X and y."""
        columns, responses, n = data.columns, data.responses, data.response.n
        units = np.array([response.column.length(1.0) for response in responses])
        means = np.array([float(response.column.mean[0]) for response in responses])
        length, fit, dof = columns.length(1.0), found.fit, n - int(self.fit_intercept)
        averaged = self.average and self.refit == "posterior"
        _check_units(found, columns, units)
        self._set_solution(found, columns, units, means, averaged)
        log_units = float(np.log(units).sum())
        self.log_evidence_path_ = found.log_evidence - n * log_units
        self.log_posterior_path_ = found.log_posterior - dof * log_units
        self.objective_path_ = found.bounds - (n if units.size == 1 else dof) * log_units
        noise_precision = 1.0 / (units**2 * fit.sigma2)
        self.noise_precision_ = self._by_response(noise_precision)
        self.coef_precision_ = self._by_response(
            (length / units) ** 2 * (np.exp(fit.log_ratio) / fit.sigma2)
        )
        if found.average is not None:
            self.dense_probability_ = found.average.dense_probability
        sigma2 = found.coefficients.sigma2
        if averaged and found.average is not None:
            sigma2 = found.average.sigma2
        self.noise_variance_ = self._by_response(units**2 * sigma2)

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
            Whether to also return the predictive standard deviations.

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
        variance = self._variance_of_coefficients(X).reshape(prediction.shape)
        return prediction, np.sqrt(variance + self.noise_variance_)

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Compute the coefficient of determination, R squared, of predictions.

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
        tags.target_tags.multi_output = self.noise == "gaussian"
        return tags

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("noise", self.noise, get_args(Noise))
        check_choice("refit", self.refit, get_args(Refit))
        check_bool("common_sign", self.common_sign)

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


def _check_units(found: Solution[LinearFit], columns: Columns, units: np.ndarray) -> None:
    """Check that variances and precisions are finite in the units of X and y.

    Magnitudes are computed on the log scale, because products may overflow.
    """
    log_length, log_units = np.log(columns.length(1.0)), np.log(units)
    sigma2 = np.array([fit.sigma2 for fit in found.path.fits])  # (K + 1, m)
    log_ratio = np.array([fit.log_ratio for fit in found.path.fits])[:, None]
    noise_precision = -np.log(sigma2) - 2.0 * log_units
    coef_precision = 2.0 * log_length + log_ratio + noise_precision
    positions = np.flatnonzero(columns.varying)[found.selected]
    # Log magnitudes of the coefficients and of their posterior variances.
    size = log_units[:, None] - log_length - np.log(columns.scale[positions])
    variance = np.log(np.outer(found.fit.sigma2, found.fit.P.diagonal())) + 2.0 * size
    values = (noise_precision, coef_precision, size, variance)
    check_exponents(
        np.concatenate([each.ravel() for each in values]),
        "X and y have units in which a variance or precision of the fit",
    )
