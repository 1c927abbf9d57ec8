"""SpinyClassifier for users: parameters in, fitted attributes out; `logistic` has the
mathematics."""

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
    checked_weights,
    warn,
)
from .._base import VariableSelector, seed_of
from .labels import Labels, checked_classes, labels_of
from .logistic_average import LogisticAverage
from .logistic_solve import LogisticOptions, LogisticSolution, solve_classes
from .predictive_variance import quadratic, refuse_spread
from .probability import log_probabilities
from .solve import Choose

LARGEST_POWER = 305  # of ten that a coefficient or its variance may have


class SpinyClassifier(ClassifierMixin, VariableSelector):
    """Logistic regression that chooses its variables, for two classes.

    Every set of variables is a Bayesian logistic regression, whose evidence is computed by
    Laplace's approximation. The set of the largest expected F-score is kept; all other
    coefficients are exactly zero. Probabilities are averages over many sets, each weighed by its
    probability, and over the coefficients of each.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Centre X and fit an intercept. False: the log odds are zero where all columns are.
    scale : bool, default=True
        Divide every column by its standard deviation first, so that one prior fits all.
    selection_rule : {"f-score", "map", "median"}, default="f-score"
        The set to keep. "f-score": that of the largest expected F-score, which weighs what would
        be missed against what would be wrong; of variables that stand for each other, one.
        "map": the most probable set, which is smaller where the data say little. "median": all
        variables that are more probably active than not.
    average : bool, default=True
        Predict by the average over sets of variables. False: by the chosen set alone; with
        ``selection_rule="map"`` nothing is averaged then, which saves time.
    max_iter : int, default=1000
        The most moves of a search.
    tol : float, default=1e-7
        The rise of the objective per sample that ends it.
    random_state : int, RandomState or None, default=0
        Draws the sets of the average where there are more than six variables; the chosen set of
        ``selection_rule="map"`` does not depend on it.
    verbose : int, default=0
        1 shows a progress bar.

    Attributes
    ----------
    classes_ : array (2,)
        The two classes, in the order of ``predict_proba``.
    coef_ : array (1, n_features_in_)
        Coefficients of the log odds of the second class: most probable values, given the chosen
        variables; exactly zero outside ``support_``.
    intercept_ : array (1,)
        The log odds where all columns are zero; 0 without ``fit_intercept``.
    support_ : bool array (n_features_in_,)
        The chosen variables; none where no set is more probable than none.
    n_selected_ : int
        How many variables were chosen.
    relevance_ : array (n_features_in_,)
        The size of the coefficient times the deviation of its column, as a share of the largest;
        0 for variables that were not chosen.
    ranking_ : int array (n_features_in_,)
        1 for the variable that would be given up last; beyond the path, by what each would add.
    cardinalities_ : int array
        0, 1, 2, ...: the path holds the models of so many variables, in the order of
        ``ranking_``.
    log_evidence_path_ : array
        The log evidence of each of them: the log probability of the classes, with coefficients
        and their size integrated.
    log_posterior_path_ : array
        Log evidence plus log prior, whose maximum is the choice.
    log_evidence_ : float
        The log evidence of the chosen model.
    prior_std_ : float
        Standard deviation of the prior of its coefficients, of columns divided by ``scale_``, at
        its most probable value. Without any variable it means nothing.
    coef_covariance_ : array (n_selected_ + 1, n_selected_ + 1)
        Of the intercept (where all columns are at ``mean_``) and of the coefficients of the chosen
        variables, of columns divided by ``scale_``.
    n_samples_ : float
        How many observations the rows of ``fit`` stood for: their number, or the sum of
        ``sample_weight``.
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
    intercept_mean_ : float
        The average log odds where all columns are zero; 0 without ``fit_intercept``.
    candidate_indices_ : int array
        The variables (at most 300) of an inclusion probability of at least 0.01.
    candidate_covariance_ : array (len(candidate_indices_) + 1, len(candidate_indices_) + 1)
        Of the intercept and their coefficients, as ``coef_covariance_``: within and between sets.
    excluded_variance_ : float
        What all other variables together add to the variance of the log odds, on average.
    n_sets_ : int
        How many different sets the average is over.
    objective_path_ : array (n_iter_,)
        Log posterior of the set and the size of its coefficients after every move of the search
        that found it; never falls.
    n_iter_ : int
        How many moves there were.
    stop_reason_ : StopReason
        Its text says why searches ended and what can be done.
    mean_ : array (n_features_in_,)
        The mean of every column; zeros without ``fit_intercept``.
    scale_ : array (n_features_in_,)
        What every column was divided by: its standard deviation, or 1 without ``scale``.
    varying_ : bool array (n_features_in_,)
        False for constant columns.

    See Also
    --------
    SpinyRegressor : The same for a response of numbers.

    Notes
    -----
    Where ``Z = (X - mean_) / scale_``, the log odds of the second class are b + Z_v w with
    w ~ N(0, tau^2 I) for the set v. b and w are integrated by Laplace's approximation, whose error
    in the log evidence is a few hundredths; tau, with a half-Cauchy prior, on a grid of doublings.
    The prior of the sets takes each variable to be active with one probability, anything up to
    1/2. Separated classes have finite coefficients, as tau has a prior.

    A row of weight 2 counts like two rows. There are two classes; for more, fit one against the
    others by ``sklearn.multiclass.OneVsRestClassifier``. Weights for whole classes are not
    offered: they would change the probabilities, which are those of the classes in the rows given.

    References
    ----------
    Tierney & Kadane (1986), JASA 81, for the approximation; Scott & Berger (2010), Annals of
    Statistics 38(5), for the prior; Zanella (2020), JASA 115, for the run through sets; Monahan &
    Stefanski (1992), Handbook of the Logistic Distribution, for the average of probabilities.

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

    _fewest_features = 1

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        scale: bool = True,
        selection_rule: Choose = "f-score",
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

    def fit(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> Self:
        """Choose the variables of ``X`` that tell the two classes ``y`` apart.

        Parameters
        ----------
        X : table (n_samples, n_features)
        y : array (n_samples,)
            Two different values, numbers or texts.
        sample_weight : array (n_samples,), float or None, default=None
            How many observations each row stands for: a row of weight 2 counts like two rows, and
            one of weight 0 not at all.

        Returns
        -------
        SpinyClassifier
        """

        with self._fitting():
            op, columns, labels = self._prepared(X, y, sample_weight)
            self._describe(solve_classes(op, labels, self._options()), columns, labels)

        return self

    def _prepared(
        self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None
    ) -> tuple[Operator, Columns, Labels]:
        """The table and the classes as the model sees them."""
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = self._validated(X, reset=True)
        weights = None
        if sample_weight is not None:
            weights = checked_weights(sample_weight, X.shape[0])
            check_total(weights)
        labels = labels_of(checked_classes(y, X.shape[0]), weights)
        op, columns = standardise(X, self.scale, weights, centre=self.fit_intercept)
        if op.shape[1] == 0:
            raise InputError(
                f"all {columns.varying.size} columns of X are constant, so that there is nothing "
                "to choose from. Check how the table was read."
            )
        if not self.scale:
            refuse_spread(np.asarray(op.column_squares()))
        return op, columns, labels

    def _options(self) -> LogisticOptions:
        return LogisticOptions(
            fit_intercept=self.fit_intercept,
            selection_rule=self.selection_rule,
            average=self.average,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
            seed=seed_of(self.random_state),
        )

    def _describe(self, found: LogisticSolution, columns: Columns, labels: Labels) -> None:
        """The solution in the units of the table."""
        places = self._set_selection(columns, found.order, found.chosen, found.relevance)
        unit, c = columns.length(1.0), int(self.fit_intercept)
        self._refuse_units(found, unit, places)
        self.classes_ = labels.classes
        self.n_samples_ = labels.n
        self.cardinalities_ = np.arange(found.log_posterior.size)
        self.log_evidence_path_ = found.path.log_evidence
        self.log_posterior_path_ = found.log_posterior
        self.log_evidence_ = float(found.path.log_evidence[found.best])
        self.prior_std_ = found.prior_std / unit
        coef = np.zeros(self.support_.size)
        coef[places] = found.fit.m / (unit * self.scale_[places])
        intercept = float(found.fit.mode[0]) if c else 0.0
        self.coef_ = coef[None, :]
        self.intercept_ = np.array([intercept - float(self.mean_ @ coef)])
        rising = np.argsort(places)
        self.coef_covariance_ = np.zeros((places.size + 1, places.size + 1))
        at = np.concatenate([np.zeros(c, dtype=int), c + rising])
        inside = slice(1 - c, None)
        self.coef_covariance_[inside, inside] = found.fit.C[at][:, at]
        self.coef_covariance_[1:] /= unit
        self.coef_covariance_[:, 1:] /= unit
        self.objective_path_ = found.bounds
        self.n_iter_ = int(found.bounds.size)
        self.n_selected_ = found.best
        self.stop_reason_ = found.reason
        self.averaged_ = self.average
        kept = np.flatnonzero(self.varying_)
        self.credible_sets_ = [kept[found.credible[i]] for i in rising]
        if found.average is not None:
            self._describe_average(found.average, kept[found.listed], unit)

    def _describe_average(self, average: LogisticAverage, places: np.ndarray, unit: float) -> None:
        """The average over sets of the variables at ``places`` of the table."""
        p = self.support_.size
        self.inclusion_probability_, self.coef_mean_ = np.zeros(p), np.zeros(p)
        self.inclusion_probability_[places] = average.inclusion
        self.coef_mean_[places] = average.mean / (unit * self.scale_[places])
        self.intercept_mean_ = average.intercept - float(self.mean_ @ self.coef_mean_)
        self.candidate_indices_ = places[average.likely]
        self.candidate_covariance_ = average.covariance.copy()
        self.candidate_covariance_[1:] /= unit
        self.candidate_covariance_[:, 1:] /= unit
        self.excluded_variance_ = average.rest
        self.n_sets_ = average.n_sets

    def _refuse_units(self, found: LogisticSolution, unit: float, places: np.ndarray) -> None:
        """Refuse units of X in which a coefficient is not a number."""
        scale = self.scale_[self.varying_]
        powers = (np.log(scale) + math.log(unit)) / math.log(10.0)
        far = float(powers[np.argmax(np.abs(powers))])
        if abs(far) > LARGEST_POWER - 10:
            raise InputError(
                f"in the units of X some coefficients are of the size 1e{-far:.0f}, which double "
                "precision cannot hold. Multiply X by a constant."
            )

    # --- predictions

    def _log_odds(self, X: Table) -> tuple[np.ndarray, np.ndarray]:
        """Mean and variance of the log odds of the second class, for every row."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        if self.averaged_:
            coef, intercept = self.coef_mean_, self.intercept_mean_
            places, C, rest = (
                self.candidate_indices_,
                self.candidate_covariance_,
                self.excluded_variance_,
            )
        else:
            coef, intercept = self.coef_[0], float(self.intercept_[0])
            places, C, rest = np.flatnonzero(self.support_), self.coef_covariance_, 0.0
        used = np.flatnonzero(coef)
        odds: np.ndarray = np.asarray(X[:, used] @ coef[used]) + intercept
        return odds, rest + quadratic(X, places, C, self.mean_, self.scale_)

    def predict_log_proba(self, X: Table) -> np.ndarray:
        """Log probabilities of both classes.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        array (n_samples, 2)
            In the order of ``classes_``.
        """
        return log_probabilities(*self._log_odds(X))

    def predict_proba(self, X: Table) -> np.ndarray:
        """Probabilities of both classes, averaged over what is uncertain: the sets of variables
        (with ``average``) and the coefficients.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        array (n_samples, 2)
            In the order of ``classes_``.
        """
        probabilities: np.ndarray = np.exp(self.predict_log_proba(X))
        return probabilities

    def decision_function(self, X: Table) -> np.ndarray:
        """Log odds of the second class, of the probabilities of ``predict_proba``.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        array (n_samples,)
            Positive where the second class is more probable.
        """
        both = self.predict_log_proba(X)
        odds: np.ndarray = both[:, 1] - both[:, 0]
        return odds

    def predict(self, X: Table) -> np.ndarray:
        """The more probable class of every row.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        array (n_samples,)
        """
        odds, _ = self._log_odds(X)  # at 1/2 whatever their variance is, where they are zero
        return np.asarray(self.classes_[(odds > 0.0).astype(int)])

    def score(self, X: Table, y: ArrayLike, sample_weight: ArrayLike | None = None) -> float:
        """Share of the rows of which ``predict`` tells the class, the accuracy.

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
        weights = None if sample_weight is None else checked_weights(sample_weight, prediction.size)
        given = checked_classes(y, prediction.size)
        return float(accuracy_score(given, prediction, sample_weight=weights))

    def _check_parameters(self) -> None:
        check_bool("fit_intercept", self.fit_intercept)
        check_bool("scale", self.scale)
        check_choice("selection_rule", self.selection_rule, get_args(Choose))
        check_bool("average", self.average)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            near = "near the shares" if self.averaged_ else "the shares"
            warn(
                "SpinyClassifier: no variable tells the classes apart: no set of variables is more "
                f"probable than none. All coefficients are zero and probabilities are {near} of "
                "the classes in y; `ranking_` orders the variables by how much each would help, "
                "but none of them is shown to.",
                NoStructureWarning,
            )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags
