"""SpinyRegressor for users: parameters in, fitted attributes out; `model` has the mathematics."""

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

from ...data import Columns, Operator, container_of, reweighted, standardise
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
    checked_weights,
    warn,
)
from ...inference.loop import Run
from .._base import VariableSelector, seed_of
from .averaging import Average, mixture_interval
from .model import LEAST_REGRESSION_NOISE
from .predictive_variance import quadratic, refuse_spread
from .response import (
    Response,
    checked_response,
    checked_responses,
    holds_several,
    response_of,
    telling_rows,
)
from .several import SeveralResponses, SeveralSolution, solve_several
from .solve import Choose, Options, Refit, Solution, solve
from .stepwise import rules_for
from .student import Effort, StudentState, Weighted, rounds

LARGEST_POWER = 305  # of ten that a variance may have

Noise = Literal["gaussian", "student"]


class Given(NamedTuple):
    """A table and a response, checked and ready for a model."""

    X: Table
    weights: np.ndarray | None  # of the rows
    op: Operator
    columns: Columns
    responses: list[Response]

    @property
    def response(self) -> Response:
        """The first, or only one."""
        return self.responses[0]


class SpinyRegressor(RegressorMixin, VariableSelector):
    """Linear regression that chooses its variables.

    Every set of variables is a Bayesian linear model whose evidence is known exactly. From the
    probabilities of many sets follow those of the variables, and a set to keep; all other
    coefficients are exactly zero. Predictions are averages over the sets, each weighed by its
    probability.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Centre X and y. False: the model goes through the origin.
    scale : bool, default=True
        Divide every column by its standard deviation first, so that one prior fits all.
    noise : {"gaussian", "student"}, default="gaussian"
        Distribution of the noise. "student": Student's, whose tails are heavy: rows that fit badly
        count less, so that a few gross errors in y do no harm.
    refit : {"posterior", "ols"}, default="posterior"
        Coefficients of the chosen variables: posterior means, or least squares.
    selection_rule : {"f-score", "map", "median"}, default="f-score"
        The set to keep. "f-score": that of the largest expected F-score, which weighs what would
        be missed against what would be wrong; of variables that stand for each other, one.
        "map": the most probable set, which is smaller where the data say little. "median": all
        variables that are more probably active than not.
    average : bool, default=True
        Predict by the average over sets of variables. False: by the chosen set alone, as always
        with ``refit="ols"``; with ``selection_rule="map"`` nothing is averaged then, which saves time.
    max_iter : int, default=1000
        The most moves of a search, and the most sweeps of the relaxed model.
    tol : float, default=1e-7
        The rise of the objective per sample that ends them.
    random_state : int, RandomState or None, default=0
        Draws the sets of the average where there are more than ten variables; with
        ``selection_rule="map"`` the chosen set does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    coef_ : array (n_features_in_,)
        Coefficients, exactly zero outside ``support_``. Of m responses (m, n_features_in_), and so
        ``intercept_``, ``alpha_``, ``gamma_``, ``noise_variance_`` and ``intercept_variance_`` are
        arrays of m, and ``coef_covariance_`` is (m, n_selected_, n_selected_).
    intercept_ : float
        The prediction where all columns are zero; 0 without ``fit_intercept``.
    support_ : bool array (n_features_in_,)
        The chosen variables; none where no set is shown to be better than none.
    n_selected_ : int
        How many variables were chosen.
    relevance_ : array (n_features_in_,)
        Root of the prior variance of the weight in the relaxed model of the variables on the
        path, relative to the largest, between 0 and 1. For a selected variable it is at least the
        absolute value of its weight, relative to the same number, so that it is positive.
    ranking_ : int array (n_features_in_,)
        1 for the variable that would be given up last; beyond the path, by what each would add.
    cardinalities_ : int array
        0, 1, 2, ...: the path holds the models of so many variables, in the order of
        ``ranking_``.
    log_evidence_path_ : array
        The log evidence of each of them.
    log_posterior_path_ : array
        Log evidence plus log prior (less the share of the mean of y); ``selection_rule="map"`` is its
        maximum.
    alpha_path_ : array
        The precision of the weights that maximises the evidence of each, to 1e-4, that of the
        chosen model to 1e-9 (without any variable alpha means nothing).
    gamma_path_ : array
        The same for the precision of the noise.
    log_evidence_ : float
        The log evidence of the chosen model.
    alpha_ : float
        Its precision of the weights.
    gamma_ : float
        Its precision of the noise.
    coef_covariance_ : array (n_selected_, n_selected_)
        Of the coefficients of the chosen variables.
    noise_variance_ : float
        Variance of y around its predictions.
    n_samples_ : int or float
        How many observations the rows of ``fit`` stood for: their number, or the sum of
        ``sample_weight``.
    intercept_variance_ : float
        Of the mean of y; 0 without an intercept.
    averaged_ : bool
        Whether predictions are averages over sets.
    credible_sets_ : list of int arrays
        For each chosen variable, in the order of the columns: the smallest group of variables
        correlated with it (by at least 0.5) of which one is, with a probability of 0.95, the true
        one; the most probable first. One alone: nothing else can stand for it.
    inclusion_probability_ : array (n_features_in_,)
        The probability that each variable is active, over all sets. Only with an average, like
        all attributes up to ``n_sets_``.
    coef_mean_ : array (n_features_in_,)
        Means of the coefficients over all sets; a variable counts as zero where it is out.
    coef_std_ : array (n_features_in_,)
        Their standard deviations: within sets, and between them.
    conditional_coef_mean_ : array (n_features_in_,)
        The mean of each coefficient over the sets that have its variable.
    conditional_coef_std_ : array (n_features_in_,)
        Its standard deviation over these; see `coef_interval`.
    model_size_probability_ : array (n_features_in_ + 1,)
        The probability that 0, 1, 2, ... variables are active, over all sets.
    expected_f_score_ : float
        Of the chosen set, over all sets; only with ``selection_rule="f-score"``, unless nothing was found
        that chance would not find.
    intercept_mean_ : float
        The average prediction where all columns are zero; 0 without ``fit_intercept``.
    intercept_mean_variance_ : float
        The variance of the mean of y, with the noise of the average; 0 without an intercept.
    candidate_indices_ : int array
        The variables (at most 300) of an inclusion probability of at least 0.01.
    candidate_covariance_ : array (len(candidate_indices_), len(candidate_indices_))
        Of their coefficients, of columns divided by ``scale_``: within and between sets.
    excluded_variance_ : float
        What all other variables together add to the variance of a prediction, on average.
    noise_variance_mean_ : float
        The mean of the noise variance over all sets.
    n_sets_ : int
        How many different sets the average is over.
    degrees_of_freedom_ : float
        Of Student's noise, between 3 and 200 (next to Gaussian). Only with ``noise="student"``,
        like all attributes up to ``row_bounds_``. Evidence, path and average are then those at
        ``row_weight_``.
    row_weight_ : array (n_samples,)
        How much every row counts, near 1 (at most 4/3) where it fits, near 0 where it does not;
        of the rows whose ``sample_weight`` is not zero.
    row_bounds_ : array
        Lower bound of the log evidence after every round of weighing rows and searching
        variables; never falls.
    objective_path_ : array (n_iter_,)
        Log marginal likelihood of the relaxed model after every sweep; never falls.
    n_iter_ : int
        How many sweeps there were.
    stop_reason_ : StopReason
        Its text says why searches and sweeps ended and what can be done.
    mean_ : array (n_features_in_,)
        The mean of every column; zeros without ``fit_intercept``.
    scale_ : array (n_features_in_,)
        What every column was divided by: its standard deviation, or 1 without ``scale``.
    varying_ : bool array (n_features_in_,)
        False for constant columns.

    Notes
    -----
    Where ``Z = (X - mean_) / scale_`` and y is centred, the evidence of the first q variables v is
    log N(y; 0, I/gamma + Z_v Z_v'/alpha). The prior pays for how
    many sets there are of each number of variables: under a flat prior on the sets, pure noise
    would select a fifth of the variables. Numbers up to about fifteen are alike, and larger ones
    ever less probable. Constant columns are left out.

    With ``selection_rule="f-score"`` something is kept if a set is found that is more probable than none,
    or if at most one of forty responses of noise looks as much like a signal, on this table, as y.

    Several responses share the set of variables: their log evidences add up, each with noise of its
    own and alpha / gamma in common. The most probable set is kept and nothing is averaged over sets
    then, ``objective_path_`` are those of the search, and ``relevance_`` is the size of the coefficients
    over the noise, of all responses.

    The average takes nothing at its maximum: noise and size of coefficients are integrated, and
    every set counts. Coefficients (of scaled columns) may each be of a size of its own, or all of
    about one size with signs that may differ: both are as probable before y is seen. The prior on
    the signs favours equal signs. Therefore inclusion probabilities and the selection can change
    when a single column is multiplied by -1. The sign of y never matters, and ``selection_rule="map"``
    with ``average=False`` does not depend on any sign. Up to ten variables all sets are summed; of
    more, a run through at most 1000 states, among the (about 400) most promising variables, draws
    them.

    References
    ----------
    Latouche, Mattei, Bouveyron & Chiquet (2016), JMVA 146; Scott & Berger (2010), Annals of
    Statistics 38(5), for the prior; Zanella & Roberts (2019), JRSS B 81(3), for the run through
    sets; Barbieri & Berger (2004), Annals of Statistics 32(3), for the median probability model.

    Examples
    --------
    >>> from prosparse import SpinyRegressor, datasets
    >>> X, y, coef = datasets.make_sparse_regression(random_state=0)
    >>> model = SpinyRegressor().fit(X, y)
    >>> model.n_selected_, bool((model.support_ == (coef != 0)).all())
    (10, True)
    """

    _fewest_features = 1
    coef_: np.ndarray
    intercept_: float | np.ndarray
    coef_covariance_: np.ndarray
    noise_variance_: float | np.ndarray
    intercept_variance_: float | np.ndarray

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        scale: bool = True,
        noise: Noise = "gaussian",
        refit: Refit = "posterior",
        selection_rule: Choose = "f-score",
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

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the variables of ``X`` that predict ``y``, and their coefficients.

        Parameters
        ----------
        X : table (n_samples, n_features)
        y : array (n_samples,), or (n_samples, n_responses)
            Of several responses, one set of variables is chosen that predicts them together.
        sample_weight : array (n_samples,), float or None, default=None
            How many observations each row stands for: a row of weight 2 counts like two rows, in
            means, scales, coefficients and the number of observations, and one of weight 0 not at
            all. Where weights are inverse variances of the noise, divide them by their mean first.

        Returns
        -------
        SpinyRegressor
        """

        with self._fitting():
            given = self._prepared(X, y, sample_weight)
            if len(given.responses) > 1:
                self._fit_several(given)
            else:
                self._fit_one(given)

        return self

    def _fit_one(self, given: Given) -> None:
        """Fit one response."""
        run = None
        if self.noise == "student":
            given, run = self._reweighed(given)
        op, columns, response = given.op, given.columns, given.response
        self._describe(solve(op, response, self._options()), response.n, columns, response)
        if run is not None:
            self._describe_rows(run, response)

    def _prepared(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None) -> Given:
        """The table and the response as the model sees them."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = self._validated(X, reset=True)
        if holds_several(y):
            values = checked_responses(y, X.shape[0])
            self._refuse_for_several(values.shape[1])
        else:
            values = checked_response(y, X.shape[0])[:, None]
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X.shape[0])
            check_total(weights)
        op, columns = standardise(X, self.scale, weights, centre=self.fit_intercept)
        if op.shape[1] == 0:
            raise InputError(
                f"all {columns.varying.size} columns of X are constant, so that there is nothing "
                "to choose from. Check how the table was read."
            )
        if not self.scale:
            refuse_spread(np.asarray(op.column_squares()))
        responses = [response_of(column, self.fit_intercept, weights) for column in values.T]
        return Given(X, weights, op, columns, responses)

    def _refuse_for_several(self, m: int) -> None:
        """What is not there for several responses."""
        if self.noise != "gaussian":
            raise ParameterError(
                f"`noise` must be 'gaussian' for several responses, got {self.noise!r} and {m} "
                "columns of y: fit them one by one"
            )
        if self.selection_rule == "median":
            raise ParameterError(
                f"`selection_rule` must not be 'median' for several responses, got {m} columns of y: "
                "the most probable set is kept, as nothing is averaged over sets"
            )

    def _fit_several(self, given: Given) -> None:
        """One set of variables for all responses."""
        op, columns, responses, n = given.op, given.columns, given.responses, given.response.n
        rules = rules_for(
            max(telling_rows(op, response) for response in responses),
            op.shape[1],
            self.fit_intercept,
            max_iter=self.max_iter,
            tol=self.tol * n,
            verbose=self.verbose,
        )
        Y = np.column_stack([response.y for response in responses])
        yy = np.array([response.yy for response in responses])
        found = solve_several(op, SeveralResponses(Y, yy, n), rules, self.refit == "ols")
        self._describe_several(found, columns, responses)

    def _describe_several(
        self, found: SeveralSolution, columns: Columns, responses: list[Response]
    ) -> None:
        """The solution in the units of the table and of every response."""
        places = self._set_selection(columns, found.order, found.chosen, found.relevance)
        n = responses[0].n
        units = np.array([response.column.length(1.0) for response in responses])
        means = np.array([float(response.column.mean[0]) for response in responses])
        length, scale = columns.length(1.0), self.scale_[places]
        _refuse_units_of_several(found, length, units, scale)
        factor = units[:, None] / (length * scale)  # (m, q)
        self.coef_ = np.zeros((units.size, self.support_.size))
        self.coef_[:, places] = found.weights.mean.T * factor
        self.intercept_ = means - self.coef_ @ self.mean_
        rising = np.argsort(places)
        shape = found.weights.shape[rising][:, rising]
        within = found.weights.sigma2[:, None, None] * shape
        self.coef_covariance_ = within * factor[:, rising, None] * factor[:, None, rising]
        self.noise_variance_ = units**2 * found.weights.sigma2
        self.intercept_variance_ = self.noise_variance_ / n * float(self.fit_intercept)
        self.gamma_ = 1.0 / (units**2 * found.fit.sigma2)
        self.alpha_ = self.gamma_ * math.exp(found.fit.log_ratio) * length**2
        self.cardinalities_ = np.arange(found.log_evidence.size)
        shift = float(np.log(units).sum())
        self.log_evidence_path_ = found.log_evidence - n * shift
        self.log_posterior_path_ = found.log_posterior - found.n_free * shift
        self.log_evidence_ = float(self.log_evidence_path_[found.fit.v.size])
        self.objective_path_ = found.bounds - found.n_free * shift
        self.n_iter_ = int(found.bounds.size)
        self.n_samples_ = n
        self.n_selected_ = int(places.size)
        self.stop_reason_ = found.reason
        self.averaged_ = False
        kept = np.flatnonzero(self.varying_)
        self.credible_sets_ = [kept[found.credible[i]] for i in rising]

    def _reweighed(self, given: Given) -> tuple[Given, Run[StudentState]]:
        """The table and the response with every row weighed by how well it fits, and the rounds
        that led there."""
        X, values, n = given.X, given.response.values, given.response.n
        counts = np.ones(values.size)
        if given.weights is not None:
            X = container_of(X).take_rows(X, np.flatnonzero(given.weights > 0))
            counts = given.weights[given.weights > 0]

        def reweigh(u: np.ndarray) -> Weighted:
            op, columns = reweighted(X, given.columns, counts * u, centre=self.fit_intercept)
            response = response_of(values, self.fit_intercept, counts * u)._replace(n=n)
            return Weighted(op, columns, response)

        floor = LEAST_REGRESSION_NOISE * given.response.yy / n
        effort = Effort(int(self.fit_intercept), self.max_iter, self.tol, floor, self.verbose)
        run = rounds(reweigh, counts, effort)
        op, columns, response = reweigh(run.state.u)
        return Given(X, counts * run.state.u, op, columns, [response]), run

    def _describe_rows(self, run: Run[StudentState], response: Response) -> None:
        """What noise of Student's distribution adds to a fit at the last weights of rows."""
        self.degrees_of_freedom_ = run.state.nu
        self.row_weight_ = run.state.u
        self.row_bounds_ = response.column.log_density(np.array(run.bounds), response.n)
        if run.reason.unfinished and not self.stop_reason_.unfinished:
            self.stop_reason_ = run.reason
        wider = run.state.nu / (run.state.nu - 2.0)  # the variance, of a scale of 1
        per_row = response.n / float(np.sum(response.root**2)) if response.root is not None else 1.0
        self.intercept_variance_ *= per_row
        self.noise_variance_ *= wider
        if hasattr(self, "noise_variance_mean_"):
            self.intercept_mean_variance_ *= per_row
            self.noise_variance_mean_ *= wider

    def _options(self) -> Options:
        return Options(
            fit_intercept=self.fit_intercept,
            refit=self.refit,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
            selection_rule=self.selection_rule,
            average=self.average,
            seed=seed_of(self.random_state),
        )

    def _describe(self, found: Solution, n: float, columns: Columns, response: Response) -> None:
        """The solution of ``n`` observations in the units of the table and the response."""
        places = self._set_selection(columns, found.order, found.chosen, found.relevance)
        column = response.column
        # weights of the table = weights of the operator / (ratio * scale)
        ratio = columns.length(1.0) / column.length(1.0)
        scale = self.scale_[places]
        _refuse_units(found, columns, column, scale)
        sigma2 = found.path.sigma2
        self.cardinalities_ = np.arange(sigma2.size)
        self.log_evidence_path_ = column.log_density(found.path.log_evidence, n)
        self.log_posterior_path_ = column.log_density(found.log_posterior, found.n_free)
        self.gamma_path_ = 1.0 / column.variance(sigma2)
        self.alpha_path_ = ratio**2 * np.exp(found.path.log_ratio) / sigma2
        self.log_evidence_ = float(self.log_evidence_path_[found.best])
        self.alpha_ = float(self.alpha_path_[found.best])
        self.gamma_ = float(self.gamma_path_[found.best])
        factor = 1.0 / (ratio * scale)
        self.coef_ = np.zeros(self.support_.size)
        self.coef_[places] = found.weights.mean * factor
        rising = np.argsort(places)
        covariance = found.weights.covariance * factor[:, None] * factor
        self.coef_covariance_ = covariance[rising][:, rising]
        self.noise_variance_ = column.variance(found.weights.sigma2)
        self.intercept_variance_ = self.noise_variance_ / n if self.fit_intercept else 0.0
        self.intercept_ = float(column.mean[0]) - float(self.mean_ @ self.coef_)
        self.objective_path_ = column.log_density(found.bounds, n)
        self.n_iter_ = int(found.bounds.size)
        self.n_samples_ = n
        self.n_selected_ = found.best
        self.stop_reason_ = found.reason
        self.averaged_ = self.average and self.refit == "posterior"
        kept = np.flatnonzero(self.varying_)
        self.credible_sets_ = [kept[found.credible[i]] for i in rising]
        if found.expected_f is not None:
            self.expected_f_score_ = found.expected_f
        if found.average is not None:
            self._describe_average(found.average, kept[found.listed], ratio, column)

    def _describe_average(
        self, average: Average, places: np.ndarray, ratio: float, column: Columns
    ) -> None:
        """The average over sets of the variables at ``places`` of the table."""
        p = self.support_.size
        self.inclusion_probability_, self.coef_mean_ = np.zeros(p), np.zeros(p)
        self.inclusion_probability_[places] = average.inclusion
        factor = 1.0 / (ratio * self.scale_[places])
        self.coef_mean_[places] = average.mean * factor
        self.coef_std_, self.conditional_coef_mean_, self.conditional_coef_std_ = (
            np.zeros(p) for _ in range(3)
        )
        self.coef_std_[places] = np.sqrt(average.variance) * factor
        self.conditional_coef_mean_[places] = average.active_mean * factor
        self.conditional_coef_std_[places] = np.sqrt(average.active_variance) * factor
        self.model_size_probability_ = np.zeros(p + 1)
        self.model_size_probability_[: average.number.size] = average.number[: p + 1]
        self.candidate_indices_ = places[average.likely]
        self.candidate_covariance_ = average.covariance / ratio**2
        self.intercept_mean_ = float(column.mean[0]) - float(self.mean_ @ self.coef_mean_)
        self.excluded_variance_ = column.variance(average.rest)
        self.noise_variance_mean_ = column.variance(average.sigma2)
        intercept = self.noise_variance_mean_ / self.n_samples_
        self.intercept_mean_variance_ = intercept if self.fit_intercept else 0.0
        self.n_sets_ = average.n_sets

    @overload
    def predict(self, X: Table, return_std: Literal[False] = False) -> np.ndarray: ...

    @overload
    def predict(self, X: Table, return_std: Literal[True]) -> tuple[np.ndarray, np.ndarray]: ...

    def predict(
        self, X: Table, return_std: bool = False
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictions for the rows of ``X``, with their standard deviations if asked for.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
        return_std : bool, default=False
            Return the deviations, too.

        Returns
        -------
        array (n_samples,), or two of them
            The deviation is that of a new observation: noise, coefficients and intercept, and
            with an average what the sets disagree about.
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        averaged = self._averages()
        if self.coef_.ndim == 2:
            return self._predict_several(X, return_std)
        coef, intercept = self.coef_, self.intercept_
        if averaged:
            coef, intercept = self.coef_mean_, self.intercept_mean_
        used = np.flatnonzero(coef)
        prediction: np.ndarray = np.asarray(X[:, used] @ coef[used]) + intercept
        if not return_std:
            return prediction
        if averaged:
            return prediction, np.sqrt(self._variance_of_average(X))
        chosen, C = np.flatnonzero(self.support_), self.coef_covariance_
        spread = quadratic(X, chosen, C, self.mean_, np.ones(self.mean_.size))
        noise = self.noise_variance_ + self._variance_of_intercept()
        return prediction, np.sqrt(noise + spread)

    def coef_interval(self, level: float = 0.95) -> np.ndarray:
        """Intervals that hold the coefficients with the probability ``level``.

        Over all sets a coefficient is exactly zero where its variable is out, and nearly normal
        where it is in: the ends are the quantiles of this mixture that leave as much on either
        side, and often one of them, or both, is zero. Without an average they are those of the
        chosen set, and zero outside of it.

        Parameters
        ----------
        level : float, default=0.95
            Between 0 and 1.

        Returns
        -------
        ndarray of shape (n_features_in_, 2)
            Lower and upper end of every interval; (n_responses, n_features_in_, 2) for several
            responses.
        """
        check_is_fitted(self)
        if not (isinstance(level, Real) and 0.0 < float(level) < 1.0):
            raise ParameterError(f"`level` must be a number between 0 and 1, got {level!r}")
        if self._averages():
            if not hasattr(self, "conditional_coef_mean_"):
                raise InputError(
                    "this model was saved by an earlier version, which kept no deviations of the "
                    "coefficients. Fit it again."
                )
            inclusion, mean, std = (
                self.inclusion_probability_,
                self.conditional_coef_mean_,
                self.conditional_coef_std_,
            )
        else:
            inclusion, mean = self.support_.astype(float), self.coef_
            std = np.zeros_like(mean)
            variance = np.diagonal(self.coef_covariance_, axis1=-2, axis2=-1)
            std[..., self.support_] = np.sqrt(variance)
        return mixture_interval(inclusion, mean, std, level)

    def _predict_several(
        self, X: Table, return_std: bool
    ) -> np.ndarray | tuple[np.ndarray, np.ndarray]:
        """Predictions of every response, (n_samples, m), and their deviations if asked for."""
        used = np.flatnonzero(self.support_)
        prediction: np.ndarray = np.asarray(X[:, used] @ self.coef_[:, used].T) + self.intercept_
        if not return_std:
            return prediction
        ones = np.ones(self.mean_.size)
        spread = [quadratic(X, used, C, self.mean_, ones) for C in self.coef_covariance_]
        noise = self.noise_variance_ + self.intercept_variance_
        return prediction, np.sqrt(noise + np.column_stack(spread))

    def _averages(self) -> bool:
        """Whether predictions are averages over sets; files of earlier versions do not tell."""
        return getattr(self, "averaged_", False)

    def _variance_of_average(self, X: Table) -> np.ndarray:
        """Of new observations: noise, coefficients within sets, and between sets."""
        noise = self.noise_variance_mean_ + self.intercept_mean_variance_
        used = self.candidate_indices_
        spread = quadratic(X, used, self.candidate_covariance_, self.mean_, self.scale_)
        total: np.ndarray = noise + self.excluded_variance_ + spread
        return total

    def _variance_of_intercept(self) -> float | np.ndarray:
        """Around the mean of the columns. Files of earlier versions do not tell."""
        known: float | np.ndarray | None = getattr(self, "intercept_variance_", None)
        if known is not None:
            return known
        return self.noise_variance_ / self.n_samples_ if self.fit_intercept else 0.0

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the variance of ``y`` that the predictions explain, R squared.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
        y : array (n_samples,)
        sample_weight : array (n_samples,) or None

        Returns
        -------
        float
        """
        prediction = self.predict(X)
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, prediction.shape[0])
        check = checked_responses if holds_several(y) else checked_response
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
        check_choice("selection_rule", self.selection_rule, get_args(Choose))
        check_bool("average", self.average)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            near = "near the mean" if self._averages() else "the mean"
            warn(
                "SpinyRegressor: no variable predicts y: no set of variables is shown to be better "
                f"than none. All coefficients are zero and predictions are {near} of y; `ranking_` "
                "orders the variables by how much each would help, but none of them is shown to.",
                NoStructureWarning,
            )


def _refuse_units_of_several(
    found: SeveralSolution, length: float, units: np.ndarray, scale: np.ndarray
) -> None:
    """As `_refuse_units`."""
    log_units, log_length = np.log(units), math.log(length)
    gamma = -np.log(found.fit.sigma2) - 2.0 * log_units
    alpha = 2.0 * log_length + found.fit.log_ratio + gamma
    size = (log_units[:, None] - log_length - np.log(scale)).ravel()
    powers = np.concatenate([gamma, alpha, 2.0 * size]) / math.log(10.0)
    _refuse_powers(powers)


def _refuse_units(found: Solution, columns: Columns, column: Columns, scale: np.ndarray) -> None:
    """Refuse units of X and y in which a variance or a precision of the fit is not a number.

    ``scale`` is that of the chosen columns. Everything is in logarithms, as products may overflow.
    """
    log_length, log_response = math.log(columns.length(1.0)), math.log(column.length(1.0))
    gamma = -np.log(found.path.sigma2) - 2.0 * log_response
    alpha = 2.0 * log_length + found.path.log_ratio + gamma
    size = log_response - log_length - np.log(scale)  # of coefficients
    spread = np.log(found.posterior_variances) + 2.0 * size
    powers = np.concatenate([gamma, alpha, size, spread]) / math.log(10.0)
    _refuse_powers(powers)


def _refuse_powers(powers: np.ndarray) -> None:
    """Refuse powers of ten that double precision cannot hold."""
    worst = float(powers[np.argmax(np.abs(powers))])
    if abs(worst) > LARGEST_POWER:
        raise InputError(
            f"in the units of X and y some variance or precision of the fit is 1e{worst:.0f}, "
            "which double precision cannot hold. Multiply X or y by a constant."
        )
