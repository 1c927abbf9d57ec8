"""Estimator class `SpinyClassifier`: sparse logistic regression."""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, Operator, standardise
from ...data.containers import Table
from ...errors import InputError, NoStructureWarning, check_total, check_weights, warn
from .._base import seed_of
from .base import SpinyBase, check_exponents, warn_about_rows
from .labels import Labels, check_classes, encode_labels
from .logistic import LogisticFit
from .null_test import NullData
from .probability import log_probabilities
from .screening import LogisticProblem, candidates, max_logistic_sizes
from .solve import Options, SelectionRule, Solution, solve
from .stepwise import rules_for
from .validation import check_columns, group_codes

LOG_COEFFICIENT_MARGIN = 10.0 * np.log(10.0)  # maximum log magnitude of scaled coefficients


class FitData(NamedTuple):
    """Validated and standardised input of a fit."""

    op: Operator
    columns: Columns
    labels: Labels
    groups: np.ndarray | None  # group of each row with positive weight


class SpinyClassifier(ClassifierMixin, SpinyBase):
    """Sparse logistic regression by Bayesian model averaging, for two classes.

    Each set of variables defines a Bayesian logistic regression whose marginal likelihood
    (evidence) is computed by Laplace's approximation. The inclusion probability of each variable
    and the selected set follow from the posterior probabilities of the sets. Class probabilities
    are averages over the sets and over the coefficients.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept. If False, X is not centred.
    scale : bool, default=True
        Whether to divide each column by its standard deviation before fitting. All coefficients of
        scaled columns have the same prior variance.
    selection_rule : {"f-score", "map", "median"}, default="f-score"
        Rule for the selected set. "f-score" maximises the expected F-score and selects one
        variable of each redundant group. "map" is the set of maximum posterior probability.
        "median" is the median probability model: all variables with an inclusion probability
        above 0.5.
    average : bool, default=True
        Whether to predict by Bayesian model averaging. If False, only the selected set is used for
        prediction. ``average=False`` with ``selection_rule="map"`` computes no average and is
        faster.
    max_iter : int, default=1000
        Maximum number of moves of a search.
    tol : float, default=1e-7
        Increase of the objective per sample below which a search stops.
    random_state : int, RandomState or None, default=0
        Seed for sampling sets of variables, used if X has more than six columns. The set selected
        by ``selection_rule="map"`` does not depend on ``random_state``.
    verbose : int, default=0
        Verbosity level. 1 prints the progress.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, in the order of `predict_proba`.
    coef_ : ndarray of shape (1, n_features_in_)
        Coefficients of the log odds of ``classes_[1]`` used by `predict`: posterior means over all
        sets with averaging, otherwise equal to ``selected_coef_``.
    intercept_ : ndarray of shape (1,)
        Intercept used by `predict`; 0 if ``fit_intercept=False``.
    selected_coef_ : ndarray of shape (1, n_features_in_)
        Posterior mode of the coefficients of the selected set, exactly zero outside ``support_``.
    selected_intercept_ : ndarray of shape (1,)
        Intercept of the selected set.
    support_ : ndarray of shape (n_features_in_,)
        Boolean mask of the selected variables.
    n_selected_ : int
        Number of selected variables.
    coef_std_ : ndarray of shape (1, n_features_in_)
        Posterior standard deviations of ``coef_``.
    selected_coef_covariance_ : ndarray of shape (1, n_selected_, n_selected_)
        Posterior covariance of the nonzero ``selected_coef_``.
    inclusion_probability_ : ndarray of shape (n_features_in_,)
        Posterior probability that each variable is active. Exists only if an average over sets was
        computed.
    conditional_coef_mean_ : ndarray of shape (1, n_features_in_)
        Posterior mean of each coefficient given that the variable is active. Exists together with
        ``inclusion_probability_``.
    conditional_coef_std_ : ndarray of shape (1, n_features_in_)
        Posterior standard deviation of each coefficient given that the variable is active. Exists
        together with ``inclusion_probability_``.
    model_size_probability_ : ndarray of shape (n_features_in_ + 1,)
        Posterior probability of 0, 1, 2, ... active variables. Exists together with
        ``inclusion_probability_``.
    expected_f_score_ : float
        Posterior expectation of the F-score of the selected set. Exists only if
        ``selection_rule="f-score"`` selected the set.
    credible_sets_ : list of ndarray
        One array of column indices for each selected variable, in column order. The array is the
        smallest group that contains the active variable with probability 0.95, most probable first.
        All variables of the group have an absolute correlation of at least 0.5 with the selected
        variable.
    relevance_ : ndarray of shape (n_features_in_,)
        Absolute coefficient times column standard deviation, relative to the largest; 0 for
        variables that are not selected.
    ranking_ : ndarray of shape (n_features_in_,)
        Ranks of the variables; 1 is the last variable removed by backward elimination. Variables
        outside the path are ranked by the increase in evidence if added.
    cardinalities_ : ndarray of shape (n_models,)
        Numbers of variables in the nested models on the path: 0, 1, 2, ...
    log_evidence_path_ : ndarray of shape (n_models,)
        Log marginal likelihood of each model on the path.
    log_posterior_path_ : ndarray of shape (n_models,)
        Log evidence plus log prior of each model on the path, up to a constant.
    candidate_indices_ : ndarray of shape (n_candidates,)
        Indices of the variables whose joint posterior covariance is used for the class
        probabilities. With averaging, these are at most 300 variables with an inclusion probability
        of at least 0.01; otherwise, the selected variables.
    objective_path_ : ndarray of shape (n_iter_,)
        Log posterior after each move of the search that found the set; non-decreasing.
    n_iter_ : int
        Number of moves of this search.
    stop_reason_ : StopReason
        Reason why the search stopped.
    mean_ : ndarray of shape (n_features_in_,)
        Column means; zeros if ``fit_intercept=False``.
    scale_ : ndarray of shape (n_features_in_,)
        Column standard deviations; ones if ``scale=False``.
    varying_ : ndarray of shape (n_features_in_,)
        Boolean mask of the columns that are not constant. Constant columns are never selected.

    See Also
    --------
    SpinyRegressor : Linear regression for continuous responses.

    Notes
    -----
    With ``Z = (X - mean_) / scale_``, the log odds of the second class are b + Z_v w for the set
    v, with w ~ N(0, tau^2 I). The integral over b and w is computed by Laplace's approximation,
    with an error of a few hundredths in the log evidence. The integral over tau, which has a
    half-Cauchy prior, is computed on a grid of powers of two. The prior on sets is that of
    `SpinyRegressor`. Coefficients are finite even if the classes are separable.

    Variables are selected only if a permutation test detects a signal, as in `SpinyRegressor`.

    A row with weight 2 counts as two rows. Class weights are not supported, because they would
    change the class probabilities. For more than two classes, use
    ``sklearn.multiclass.OneVsRestClassifier``.

    References
    ----------
    Tierney & Kadane (1986), Journal of the American Statistical Association 81: approximation.
    Scott & Berger (2010), Annals of Statistics 38(5): prior on sets.
    Zanella (2020), Journal of the American Statistical Association 115: sampling of sets.
    Monahan & Stefanski (1992), Handbook of the Logistic Distribution: average probabilities.

    Examples
    --------
    >>> from prosparse import SpinyClassifier, datasets
    >>> X, y, coef = datasets.make_sparse_regression(200, 50, n_informative=3, random_state=0)
    >>> model = SpinyClassifier().fit(X, y > 0)
    >>> model.n_selected_, bool((model.support_ == (coef != 0)).all())
    (3, True)
    >>> model.predict(X[:3])
    array([False,  True,  True])
    """

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        scale: bool = True,
        selection_rule: SelectionRule = "f-score",
        average: bool = True,
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: int | np.random.RandomState | None = 0,
        verbose: int = 0,
    ):
        self.fit_intercept = fit_intercept
        self.scale = scale
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
        y : array-like of shape (n_samples,)
            Class labels of two classes.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Number of observations represented by each row. A row with weight 2 counts as two rows,
            and a row with weight 0 is ignored.
        groups : array-like of shape (n_samples,) or None, default=None
            Labels of batches, donors or other strata. The null test permutes the classes within
            groups, by default over all rows.

        Returns
        -------
        SpinyClassifier
            The fitted estimator.
        """
        with self._fitting():
            data = self._prepare(X, y, sample_weight, groups)
            self._set_fit(self._solve(data), data)
        return self

    def _prepare(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> FitData:
        """Validate the input, standardise X and encode the classes."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None."
            )
        X = self._validate(X, reset=True)
        weights = None
        if sample_weight is not None:
            weights = check_weights(sample_weight, X.shape[0])
            check_total(weights)
        labels = encode_labels(check_classes(y, X.shape[0]), weights)
        op, columns = standardise(X, self.scale, weights, centre=self.fit_intercept)
        check_columns(op, columns, self.scale)
        return FitData(op, columns, labels, group_codes(groups, X.shape[0], weights))

    def _solve(self, data: FitData) -> Solution[LogisticFit]:
        """Select the variables that distinguish the classes."""
        op, labels, c = data.op, data.labels, int(self.fit_intercept)
        rules = rules_for(
            op.shape[1],
            max_logistic_sizes(labels, op.shape[1]),
            max_iter=self.max_iter,
            tol=self.tol * labels.n,
            verbose=self.verbose,
        )
        values = (labels.t - (labels.proportion if c else 0.5))[:, None]
        Y = labels.root[:, None] * values
        problem = LogisticProblem(
            candidates(op, Y, (Y * Y).sum(axis=0), labels.n, c), labels, self.fit_intercept
        )
        null_data = NullData(op, values, labels.root, labels.n, c, data.groups)
        options = Options(self.selection_rule, self.average, seed=seed_of(self.random_state))
        found = solve(problem, null_data, rules, options)
        warn_about_rows(type(self).__name__, found, null_data)
        return found

    def _set_fit(self, found: Solution[LogisticFit], data: FitData) -> None:
        """Set the fitted attributes in the units of X."""
        columns = data.columns
        log_scale = np.log(columns.scale[columns.varying]) + np.log(columns.length(1.0))
        check_exponents(
            -log_scale - np.sign(log_scale) * LOG_COEFFICIENT_MARGIN,
            "X has units in which a coefficient",
        )
        self.classes_ = data.labels.classes
        self._set_solution(found, columns, np.ones(1), np.zeros(1), self.average)
        self.log_evidence_path_ = found.log_evidence
        self.log_posterior_path_ = found.log_posterior
        self.objective_path_ = found.bounds

    # --- predictions

    def _linear_predictor(self, X: Table) -> np.ndarray:
        """Compute the posterior mean of the log odds for each row of validated ``X``."""
        log_odds: np.ndarray = np.asarray(X @ self.coef_[0]) + self.intercept_[0]
        return log_odds

    def predict_log_proba(self, X: Table) -> np.ndarray:
        """Predict log probabilities of the classes.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Log probabilities in the order of ``classes_``.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        variance = self._variance_of_coefficients(X)[:, 0]
        return log_probabilities(self._linear_predictor(X), variance)

    def predict_proba(self, X: Table) -> np.ndarray:
        """Predict probabilities of the classes.

        The probabilities are posterior means over the coefficients and, with averaging, over the
        sets of variables.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.

        Returns
        -------
        ndarray of shape (n_samples, 2)
            Probabilities in the order of ``classes_``.
        """
        probabilities: np.ndarray = np.exp(self.predict_log_proba(X))
        return probabilities

    def decision_function(self, X: Table) -> np.ndarray:
        """Return the log odds of the probabilities of `predict_proba`.

        The sign equals that of the linear predictor ``X @ coef_.T + intercept_``. The absolute
        value is at most that of the linear predictor, because `predict_proba` averages over the
        posterior of the coefficients.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.

        Returns
        -------
        ndarray of shape (n_samples,)
            Log odds of ``classes_[1]``.
        """
        both = self.predict_log_proba(X)
        log_odds: np.ndarray = both[:, 1] - both[:, 0]
        return log_odds

    def predict(self, X: Table) -> np.ndarray:
        """Predict the more probable class of each row.

        The prediction is ``classes_[1]`` if ``X @ coef_.T + intercept_`` is positive.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.

        Returns
        -------
        ndarray of shape (n_samples,)
            Class labels.
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        # The variance of the log odds does not affect which class is more probable.
        return np.asarray(self.classes_[(self._linear_predictor(X) > 0.0).astype(int)])

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Return the accuracy of the predicted classes.

        Parameters
        ----------
        X : data matrix of shape (n_samples, n_features_in_)
            Predictors.
        y : array-like of shape (n_samples,)
            True classes.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Row weights.

        Returns
        -------
        float
            Proportion of rows whose class is predicted correctly.
        """
        prediction = self.predict(X)
        weights = None if sample_weight is None else check_weights(sample_weight, prediction.size)
        true = check_classes(y, prediction.size)
        return float(accuracy_score(true, prediction, sample_weight=weights))

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            near = "close to the class proportions" if self._averaged else "the class proportions"
            warn(
                "SpinyClassifier: no variable was selected, because no set is significantly "
                f"better than the empty set. Predicted probabilities are {near} of y. `ranking_` "
                "orders the variables by the evidence that each would add, which is not "
                "significant for any of them.",
                NoStructureWarning,
            )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
