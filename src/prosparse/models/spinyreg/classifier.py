"""SpinyClassifier: sparse logistic regression by Bayesian model averaging."""

from __future__ import annotations

import math
from typing import Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import ClassifierMixin
from sklearn.metrics import accuracy_score
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, Operator, standardise
from ...data.containers import Table
from ...errors import (
    InputError,
    NoStructureWarning,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    check_total,
    check_weights,
    warn,
)
from .._base import VariableSelector, seed_of
from .labels import Labels, check_classes, encode_labels
from .logistic_average import LogisticAverage
from .logistic_solve import LogisticOptions, LogisticSolution, solve_classes
from .predictive_variance import quadratic_form
from .probability import log_probabilities
from .solve import SelectionRule
from .validation import check_columns, group_codes

MAX_EXPONENT = 295  # maximum decimal exponent of a column scale


class SpinyClassifier(ClassifierMixin, VariableSelector):
    """Sparse logistic regression by Bayesian model averaging, for two classes.

    Each set of variables defines a Bayesian logistic regression whose marginal likelihood
    (evidence) is computed by Laplace's approximation. Posterior probabilities of the sets give
    the inclusion probability of each variable and the selected set. Class probabilities are
    averages over the sets and over the coefficients.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Whether to fit an intercept. If False, X is not centred.
    scale : bool, default=True
        Whether to divide each column by its standard deviation before fitting. The prior gives
        all coefficients of scaled columns the same variance.
    selection_rule : {"f-score", "map", "median"}, default="f-score"
        Rule for the selected set. "f-score" maximises the expected F-score and selects one
        variable of each redundant group. "map" is the set of maximum posterior probability.
        "median" is the median probability model: all variables with an inclusion probability
        above 0.5.
    average : bool, default=True
        Whether to predict by Bayesian model averaging. If False, the selected set alone predicts.
        ``average=False`` with ``selection_rule="map"`` computes no average and is faster.
    max_iter : int, default=1000
        Maximum number of moves of a search.
    tol : float, default=1e-7
        Increase of the objective per sample below which a search stops.
    random_state : int, RandomState or None, default=0
        Seed for sampling sets of variables, used if X has more than six columns. The selected set
        of ``selection_rule="map"`` does not depend on it.
    verbose : int, default=0
        Verbosity level; 1 shows a progress bar.

    Attributes
    ----------
    classes_ : ndarray of shape (2,)
        Class labels, in the order of `predict_proba`.
    coef_ : ndarray of shape (1, n_features_in_)
        Coefficients of the log odds of ``classes_[1]`` used by `predict`: posterior means over
        all sets with averaging, else equal to ``selected_coef_``.
    intercept_ : ndarray of shape (1,)
        Intercept used by `predict`. It is 0 if ``fit_intercept=False``.
    selected_coef_ : ndarray of shape (1, n_features_in_)
        Posterior mode of the coefficients of the selected set, exactly zero outside ``support_``.
    selected_intercept_ : ndarray of shape (1,)
        Intercept of the selected set.
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
    relevance_ : ndarray of shape (n_features_in_,)
        Absolute coefficient times column standard deviation, relative to the largest; 0 for
        variables that are not selected.
    ranking_ : ndarray of shape (n_features_in_,)
        Ranks of the variables; 1 is the last variable removed by backward elimination. Variables
        outside the path are ranked by the evidence that each would add.
    cardinalities_ : ndarray of shape (n_models,)
        Numbers of variables in the nested models on the path: 0, 1, 2, ...
    log_evidence_path_ : ndarray of shape (n_models,)
        Log marginal likelihood of each model on the path.
    log_posterior_path_ : ndarray of shape (n_models,)
        Log evidence plus log prior of each model on the path, up to a constant.
    candidate_indices_ : ndarray of shape (n_candidates,)
        Indices of the variables whose joint posterior covariance enters the class probabilities.
        With averaging, these are at most 300 variables with an inclusion probability of at least
        0.01; otherwise, the selected variables.
    objective_path_ : ndarray of shape (n_iter_,)
        Log posterior after each move of the search that found the set. It is non-decreasing.
    n_iter_ : int
        Number of moves.
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
    v, with w ~ N(0, tau^2 I). Laplace's approximation integrates over b and w; its error in the
    log evidence is a few hundredths. A grid of powers of two integrates over tau, which has a
    half-Cauchy prior. Under the prior on sets, all variables have the same probability of being
    active, which is uniform on [0, 1/2]. Coefficients are finite even if the classes are separable.

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

    _min_features = 1
    _variable_attributes = (
        ("inclusion_probability", "inclusion_probability_"),
        ("coef", "coef_"),
        ("selected_coef", "selected_coef_"),
    )
    coef_: np.ndarray
    intercept_: np.ndarray
    candidate_indices_: np.ndarray
    # Inputs of the variance of the log odds.
    _candidate_covariance: (
        np.ndarray
    )  # (1 + k, 1 + k) of intercept and coefficients, scaled columns
    _excluded_variance: float  # mean contribution of all variables that are not candidates
    _averaged: bool  # whether `coef_` is an average over sets

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
            Class labels with two distinct values.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Number of observations that each row represents. A row with weight 2 counts as two
            rows, and a row with weight 0 is ignored.
        groups : array-like of shape (n_samples,) or None, default=None
            Labels of batches, donors or other strata. The null test permutes the classes within
            groups. By default it permutes all rows.

        Returns
        -------
        SpinyClassifier
            The fitted estimator.
        """
        with self._fitting():
            op, columns, labels, codes = self._prepare(X, y, sample_weight, groups)
            options = LogisticOptions(
                fit_intercept=self.fit_intercept,
                selection_rule=self.selection_rule,
                average=self.average,
                max_iter=self.max_iter,
                tol=self.tol,
                verbose=self.verbose,
                seed=seed_of(self.random_state),
            )
            self._set_fit(solve_classes(op, labels, codes, options), columns, labels)
        return self

    def _prepare(
        self,
        X: Table,
        y: ArrayLike,
        sample_weight: ArrayLike | None,
        groups: ArrayLike | None,
    ) -> tuple[Operator, Columns, Labels, np.ndarray | None]:
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
        return op, columns, labels, group_codes(groups, X.shape[0], weights)

    def _set_fit(self, found: LogisticSolution, columns: Columns, labels: Labels) -> None:
        """Set the fitted attributes in the units of X."""
        indices = self._set_selection(columns, found.order, found.selected, found.relevance)
        unit = columns.length(1.0)
        _check_units(self.scale_[self.varying_], unit)
        self.classes_ = labels.classes
        self.cardinalities_ = np.arange(found.log_posterior.size)
        self.log_evidence_path_ = found.path.log_evidence
        self.log_posterior_path_ = found.log_posterior
        self.objective_path_ = found.bounds
        self.n_iter_ = int(found.bounds.size)
        self.n_selected_ = found.best
        self.stop_reason_ = found.reason
        self._set_selected(found, indices, unit)
        self._averaged = self.average
        if found.average is not None:
            self._set_average(found.average, np.flatnonzero(self.varying_)[found.listed], unit)

    def _set_selected(self, found: LogisticSolution, indices: np.ndarray, unit: float) -> None:
        """Set the coefficients of the selected set and use them in `predict`."""
        n_intercepts, increasing = int(self.fit_intercept), np.argsort(indices)
        coef = np.zeros(self.support_.size)
        coef[indices] = found.fit.m / (unit * self.scale_[indices])
        intercept = float(found.fit.mode[0]) if n_intercepts else 0.0
        self.selected_coef_ = coef[None, :]
        self.selected_intercept_ = np.array([intercept - float(self.mean_ @ coef)])
        varying = np.flatnonzero(self.varying_)
        self.credible_sets_ = [varying[found.credible[i]] for i in increasing]
        self.coef_, self.intercept_ = self.selected_coef_.copy(), self.selected_intercept_.copy()
        self.candidate_indices_ = indices[increasing]
        order = np.concatenate([np.zeros(n_intercepts, dtype=int), n_intercepts + increasing])
        covariance = np.zeros((indices.size + 1, indices.size + 1))
        covariance[1 - n_intercepts :, 1 - n_intercepts :] = found.fit.C[order][:, order]
        self._candidate_covariance = _in_units_of_columns(covariance, unit)
        self._excluded_variance = 0.0

    def _set_average(self, average: LogisticAverage, indices: np.ndarray, unit: float) -> None:
        """Set the attributes of the average over sets of the columns ``indices``."""
        self.inclusion_probability_ = np.zeros(self.support_.size)
        self.inclusion_probability_[indices] = average.inclusion
        if not self._averaged:
            return
        coef = np.zeros(self.support_.size)
        coef[indices] = average.mean / (unit * self.scale_[indices])
        self.coef_ = coef[None, :]
        self.intercept_ = np.array([average.intercept - float(self.mean_ @ coef)])
        self.candidate_indices_ = indices[average.candidates]
        self._candidate_covariance = _in_units_of_columns(average.covariance, unit)
        self._excluded_variance = average.excluded_variance

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
        variance = self._excluded_variance + quadratic_form(
            X, self.candidate_indices_, self._candidate_covariance, self.mean_, self.scale_
        )
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

        The sign is that of ``X @ coef_.T + intercept_``. The absolute value is at most that of the
        linear predictor, because `predict_proba` averages over the posterior of the coefficients.

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

        This is ``classes_[1]`` if ``X @ coef_.T + intercept_`` is positive.

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
        # The variance of the log odds does not change which class is more probable.
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

    def _check_parameters(self) -> None:
        check_bool("fit_intercept", self.fit_intercept)
        check_bool("scale", self.scale)
        check_choice("selection_rule", self.selection_rule, get_args(SelectionRule))
        check_bool("average", self.average)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            near = "close to the class proportions" if self._averaged else "the class proportions"
            warn(
                "SpinyClassifier: no variable was selected, because no set is more probable than "
                f"the empty set. Predicted probabilities are {near} of y. `ranking_` orders the "
                "variables by the evidence that each would add, which is not significant for any "
                "of them.",
                NoStructureWarning,
            )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def _in_units_of_columns(covariance: np.ndarray, unit: float) -> np.ndarray:
    """Rescale the covariance of intercept and coefficients to the units of X."""
    covariance = covariance.copy()
    covariance[1:] /= unit
    covariance[:, 1:] /= unit
    return covariance


def _check_units(scale: np.ndarray, unit: float) -> None:
    """Raise an error if coefficients overflow or underflow in the units of X."""
    exponents = (np.log(scale) + math.log(unit)) / math.log(10.0)
    worst = float(exponents[np.argmax(np.abs(exponents))])
    if abs(worst) > MAX_EXPONENT:
        raise InputError(
            f"X has units in which coefficients are of order 1e{-worst:.0f}, which double "
            "precision cannot represent. Multiply X by a constant."
        )
