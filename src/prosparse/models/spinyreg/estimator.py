"""Bayesian variable selection in linear regression.

[LMBC16]  P. Latouche, P.-A. Mattei, C. Bouveyron, J. Chiquet. Combining a relaxed EM algorithm
          with Occam's razor for Bayesian variable selection in high-dimensional regression.
          Journal of Multivariate Analysis 146, 2016.

Model: y = X (z o w) + noise, z in {0,1}^p, w ~ N(0, I/alpha), noise ~ N(0, I/gamma). The weights
are integrated out, alpha and gamma maximise the evidence of each model: `selection.regression`.

Relaxing z to [0,1]^p leaves only t_j = z_j^2 / alpha in the likelihood: one prior variance per
variable (`engine.ard`). With fewer samples than variables that relaxed likelihood has no useful
maximum in gamma: it grows as ever more variables explain ever more of the noise. Hence the order
here: the exact evidence of binary models finds the variables and the noise, a path of models
around the best one says how many, and at that noise the relaxed model weighs the variables.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.base import RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import r2_score
from sklearn.utils.validation import check_is_fitted, column_or_1d

from ...data import Columns, standardise
from ...data.columns import LARGEST_UNIT, SMALLEST_UNIT, unit_of
from ...errors import (
    InputError,
    NoStructureWarning,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    checked_weights,
    warn,
)
from ...inference.loop import Run, StopReason, iterate
from ...inference.progress import Progress
from .._base import VariableSelector
from . import ard
from .regression import EXACT, Fit, Moments, optimise
from .shortlist import Problem
from .stepwise import EvidencePath, evidence_path, rules_for

Array = np.ndarray

REFITS = ("posterior", "ols")
WIDEST_SPREAD = 1e6  # of the deviations of the columns, when they are not scaled
RELAXED_NOISE = 1e-4  # least noise of the relaxed model, as a share of the mean square of y
LARGEST_POWER = 305  # of ten that a variance may have
BEYOND = 5  # the path goes so many variables beyond the best model


class SpinyRegressor(RegressorMixin, VariableSelector):
    """Linear regression that chooses its variables.

    Every set of variables is a Bayesian linear model whose evidence is known exactly. The most
    probable set that a search finds is kept; all other coefficients are exactly zero.

    Parameters
    ----------
    fit_intercept : bool, default=True
        Centre X and y. False: the model goes through the origin.
    normalize : bool, default=True
        Divide every column by its standard deviation first, so that one prior fits all.
    refit : {"posterior", "ols"}, default="posterior"
        Coefficients of the chosen variables: posterior means, or least squares.
    max_iter, tol : int, default=1000; float, default=1e-7
        The most moves of a search and sweeps of the relaxed model; the rise of the objective per
        sample that ends them.
    random_state, verbose : None; int, default=0
        Nothing here is random; ``verbose=1`` shows a progress bar.

    Attributes
    ----------
    coef_, intercept_ : array (n_features_in_,), float
    support_ : bool array (n_features_in_,)
        The chosen variables; none where no set is more probable than none.
    n_selected_ : int
    relevance_ : array (n_features_in_,)
        Root of the prior variance of the weight in the relaxed model of the variables on the
        path, between 0 (out of it, or not on the path) and 1.
    ranking_ : int array (n_features_in_,)
        1 for the variable that would be given up last; beyond the path, by what each would add.
    cardinalities_, log_evidence_path_, log_posterior_path_ : arrays
        Models of 0, 1, 2, ... variables in the order of ``ranking_``: log evidence, and log
        evidence plus log prior (less the share of the mean of y), whose maximum is the choice.
    alpha_path_, gamma_path_ : arrays
        The precisions of weights and noise that maximise the evidence of each, to 1e-4, that of
        the chosen model to 1e-9 (without any variable alpha means nothing).
    log_evidence_, alpha_, gamma_ : float
        Those of the chosen model.
    coef_covariance_ : array (n_selected_, n_selected_)
        Of the coefficients of the chosen variables.
    noise_variance_, n_samples_ : float, int
    intercept_variance_ : float
        Of the mean of y; 0 without an intercept.
    bounds_ : array (n_iter_,)
        Log marginal likelihood of the relaxed model after every sweep; never falls.
    n_iter_, stop_reason_ : int, StopReason
    mean_, scale_, varying_ : arrays (n_features_in_,)

    Notes
    -----
    Where ``Z = (X - mean_) / scale_`` and y is centred, the evidence of the first q variables v is
    log N(y; 0, I/gamma + Z_v Z_v'/alpha). The prior takes each variable to be active with one
    probability, anything up to 1/2: under a flat prior on the sets of variables, pure noise
    would select a fifth of them. Constant columns are left out.

    References
    ----------
    Latouche, Mattei, Bouveyron & Chiquet (2016), JMVA 146; Scott & Berger (2010), Annals of
    Statistics 38(5), for the prior.

    Examples
    --------
    >>> from prosparse import SpinyRegressor, datasets
    >>> X, y, coef = datasets.make_sparse_regression(random_state=0)
    >>> model = SpinyRegressor().fit(X, y)
    >>> model.n_selected_, bool((model.support_ == (coef != 0)).all())
    (10, True)
    """

    _fewest_features = 1

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        normalize: bool = True,
        refit: str = "posterior",
        max_iter: int = 1000,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.fit_intercept = fit_intercept
        self.normalize = normalize
        self.refit = refit
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any) -> SpinyRegressor:
        """Choose the variables of ``X`` that predict ``y``, and their coefficients.

        Parameters
        ----------
        X : table (n_samples, n_features)
        y : array (n_samples,)

        Returns
        -------
        SpinyRegressor
        """
        return self._fit_whole(lambda: self._fit(X, y))

    def _fit(self, X: Any, y: Any) -> None:
        X, y = self._validated_with_response(X, y)
        op, columns = standardise(X, self.normalize, centre=self.fit_intercept)
        n, p = op.shape
        if p == 0:
            raise InputError(
                f"all {columns.varying.size} columns of X are constant, so that there is nothing "
                "to choose from. Check how the table was read."
            )
        if not self.normalize:
            self._refuse_spread(np.asarray(op.column_squares()))
        centred, centre, unit, yy = self._response(y)
        problem = Problem(op, centred, yy)
        options = {"max_iter": self.max_iter, "tol": self.tol * n, "verbose": self.verbose}
        rules = rules_for(n, p, self.fit_intercept, **options)
        runs = problem.solve(rules)
        best = runs[-1].state.fit
        longest = min(rules.allowed, best.v.size + BEYOND, problem.listed.size)
        path = evidence_path(problem.data, best, longest)
        log_posterior = np.array([rules.posterior(fit) for fit in path.fits])
        chosen = int(np.argmax(log_posterior))
        best = path.fits[chosen] = optimise(problem.data, path.fits[chosen], EXACT)
        log_posterior[chosen] = rules.posterior(best)
        relaxed = self._relax(problem.data, path, best)
        places = self._describe(problem, columns, path, best, relaxed)

        # In the units of the table; see `Columns`.
        ratio = columns.unit / unit
        log_unit = math.log(unit)
        self.log_posterior_path_ = log_posterior - (n - rules.lost) * log_unit
        _refuse_units(path, best, unit, ratio, self.scale_[places])
        factor = 1.0 / (ratio * self.scale_[places])
        self._set_path(path, chosen, unit, ratio)
        self._set_coefficients(problem.data, best, places, factor)
        self.noise_variance_ *= unit**2
        self.intercept_variance_ = self.noise_variance_ / n if self.fit_intercept else 0.0
        self.intercept_ = centre - float(self.mean_ @ self.coef_)
        self.bounds_ = np.array(relaxed.bounds) - n * log_unit
        self.n_iter_ = len(relaxed.bounds)
        self.n_samples_, self.n_selected_ = n, chosen
        if StopReason.MAX_ITER in [run.reason for run in (*runs, relaxed)]:
            self.stop_reason_ = StopReason.MAX_ITER
        else:
            self.stop_reason_ = StopReason.CONVERGED if chosen else StopReason.NOTHING_FOUND

    def _set_path(self, path: EvidencePath, chosen: int, unit: float, ratio: float) -> None:
        """The evidence of the models and their precisions; ``chosen`` is the best of them."""
        sigma2 = np.array([fit.sigma2 for fit in path.fits])
        self.cardinalities_ = path.cardinalities
        self.log_evidence_path_ = path.log_evidence - path.n * math.log(unit)
        self.gamma_path_ = 1.0 / (unit**2 * sigma2)
        self.alpha_path_ = ratio**2 * np.exp([fit.log_ratio for fit in path.fits]) / sigma2
        self.log_evidence_ = float(self.log_evidence_path_[chosen])
        self.alpha_, self.gamma_ = float(self.alpha_path_[chosen]), float(self.gamma_path_[chosen])

    def _validated_with_response(self, X: Any, y: Any) -> tuple[Any, Array]:
        if y is None:
            raise InputError(
                f"{type(self).__name__} requires y to be passed, but the target y is None"
            )
        X = self._validated(X, reset=True)
        return X, _checked_response(y, X.shape[0])

    def _response(self, y: Array) -> tuple[Array, float, float, float]:
        """y centred (if asked) and in a unit near its size, the centre, the unit, and y'y."""
        top, bottom = float(y.max()), float(y.min())
        largest = max(top, -bottom)
        if largest and not SMALLEST_UNIT <= largest <= LARGEST_UNIT:
            raise InputError(
                f"y has values of size {largest:.3g}, which double precision cannot handle. Sizes "
                f"between {SMALLEST_UNIT:g} and {LARGEST_UNIT:g} are allowed: multiply y by a "
                "constant."
            )
        unit = unit_of(largest)
        y, centre = y / unit, 0.0
        if self.fit_intercept:
            for _ in range(2):  # the first mean carries rounding
                mean = float(y.mean())
                y, centre = y - mean, centre + mean
            if top == bottom:
                y = np.zeros_like(y)
        rounding = y.size * np.finfo(float).eps ** 2
        return y, centre * unit, unit, max(float(y @ y), rounding)

    def _refuse_spread(self, squares: Array) -> None:
        spread = math.sqrt(float(squares.max()) / max(float(squares.min()), 1e-300))
        if spread > WIDEST_SPREAD:
            raise InputError(
                f"the largest column of X is {spread:.3g} times the smallest: without scaling, no "
                "prior fits both. Set `normalize=True`, or bring the columns to similar units."
            )

    def _relax(self, data: Moments, path: EvidencePath, best: Fit) -> Run:
        """The relaxed model of the variables on the path, at the noise of the best one."""
        listed = path.order if best.v.size else path.order[:0]
        G, b = data.gram(listed), data.b[listed]
        t = np.zeros(listed.size)
        t[: best.v.size] = best.sigma2 / math.exp(best.log_ratio)
        # with less noise, what the variables leave of each other is lost in rounding
        noise = max(best.sigma2, RELAXED_NOISE * data.yy / data.n)
        moments = (G, b, data.yy, data.n, noise)
        known = noise == best.sigma2  # then the relaxed model starts as the best one
        return iterate(
            ard.make_step(*moments),
            ard.State(t, best.log_evidence) if known else ard.init(*moments, t),
            max_iter=self.max_iter,
            tol=self.tol * data.n,
            progress=Progress(self.max_iter, "SpinyRegressor", self.verbose),
        )

    def _describe(
        self, problem: Problem, columns: Columns, path: EvidencePath, best: Fit, relaxed: Run
    ) -> Array:
        """Support, ranking and relevance; the places of the variables of ``best`` in the table."""
        ranked = order = problem.listed[path.order]
        if ranked.size < problem.b.size:
            gain = problem.gains(best)
            gain[ranked] = np.inf
            order = np.append(ranked, np.argsort(-gain, kind="stable")[ranked.size :])
        u = np.zeros(problem.b.size)
        u[ranked[: relaxed.state.t.size]] = ard.relevance(relaxed.state.t)
        return self._set_selection(columns, order, problem.listed[best.v], u)

    def _set_coefficients(self, data: Moments, best: Fit, places: Array, factor: Array) -> None:
        """Coefficients and their covariance; ``factor`` leads to the units of the table."""
        m, covariance, sigma2 = best.m, best.sigma2 * best.P, best.sigma2
        if self.refit == "ols" and best.v.size:
            inverse = np.linalg.pinv(data.gram(best.v), hermitian=True)
            b = data.b[best.v]
            m = inverse @ b
            free = data.n - best.v.size - int(self.fit_intercept)
            sigma2 = max(data.yy - float(b @ m), 0.0) / max(free, 1)
            covariance = sigma2 * inverse
        self.coef_ = np.zeros(self.support_.size)
        self.coef_[places] = m * factor
        rising = np.argsort(places)
        covariance = covariance * factor[:, None] * factor
        self.coef_covariance_ = covariance[rising][:, rising]
        self.noise_variance_ = sigma2

    def predict(self, X: Any, return_std: bool = False) -> Any:
        """Predictions for the rows of ``X``, with their standard deviations if asked for.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
        return_std : bool, default=False

        Returns
        -------
        array (n_samples,), or two of them
            The deviation is that of a new observation: noise, coefficients and intercept.
        """
        check_is_fitted(self)
        columns = self._validated(X, reset=False)[:, np.flatnonzero(self.support_)]
        prediction = np.asarray(columns @ self.coef_[self.support_]) + self.intercept_
        if not return_std:
            return prediction
        C, mean = self.coef_covariance_, self.mean_[self.support_]
        # x'Cx of centred rows, without centring a sparse X: (a - b)'C(a - b), b the mean
        along = np.asarray(columns @ C) - mean @ C
        spread = np.asarray((columns @ np.eye(mean.size) - mean) * along).sum(axis=1)
        noise = self.noise_variance_ + self._variance_of_intercept()
        return prediction, np.sqrt(noise + np.maximum(spread, 0.0))

    def _variance_of_intercept(self) -> float:
        """Around the mean of the columns. Files of earlier versions do not tell."""
        known: float | None = getattr(self, "intercept_variance_", None)
        if known is not None:
            return known
        return self.noise_variance_ / self.n_samples_ if self.fit_intercept else 0.0

    def score(self, X: Any, y: Any, sample_weight: Any = None) -> float:
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
        weights = None if sample_weight is None else checked_weights(sample_weight, prediction.size)
        return float(
            r2_score(_checked_response(y, prediction.size), prediction, sample_weight=weights)
        )

    def _check_parameters(self) -> None:
        check_bool("fit_intercept", self.fit_intercept)
        check_bool("normalize", self.normalize)
        check_choice("refit", self.refit, REFITS)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        if self.stop_reason_ is StopReason.MAX_ITER:
            warn(f"SpinyRegressor {self.stop_reason_}", ConvergenceWarning)
        if self.n_selected_ == 0:
            warn(
                "SpinyRegressor: no variable predicts y: no set of variables is more probable than "
                "none. All coefficients are zero and predictions are the mean of y; `ranking_` "
                "orders the variables by how much each would help, which is not a finding.",
                NoStructureWarning,
            )


def _checked_response(y: Any, n: int) -> Array:
    """One finite number for each of the n rows."""
    try:
        y = _numbers(y)
    except (TypeError, ValueError, OverflowError) as error:  # words, objects, many columns
        raise InputError(f"y must hold one number for each row of X: {error}") from error
    if y.size != n:
        raise InputError(
            "X and y must have one row per sample: Found input variables with inconsistent "
            f"numbers of samples: {[n, y.size]}"
        )
    if not np.isfinite(y).all():
        bad = np.flatnonzero(~np.isfinite(y))
        what = "NaN" if np.isnan(y[bad]).any() else "infinity"
        raise InputError(
            f"Input y contains {what}: {bad.size} value(s), the first in row {bad[0]}. Drop "
            "these rows."
        )
    return y


def _numbers(y: Any) -> Array:
    """One number per sample, from whatever holds them."""
    if type(y) is np.ndarray and y.ndim == 1 and y.dtype.kind in "fiu":
        return np.asarray(y, dtype=float)
    if np.ma.is_masked(y) or (
        isinstance(y, list | tuple) and any(value is np.ma.masked for value in y)
    ):
        raise ValueError("some values are masked")
    y = column_or_1d(y, warn=True)
    if y.dtype.kind in "mM":
        raise TypeError("these are dates or times")
    return np.asarray(y, dtype=float)


def _refuse_units(path: EvidencePath, best: Fit, unit: float, ratio: float, scale: Array) -> None:
    """Refuse units of X and y in which a variance or a precision of the fit is not a number."""
    gamma = [-math.log(fit.sigma2) - 2.0 * math.log(unit) for fit in path.fits]
    shift = 2.0 * math.log(ratio * unit)
    alpha = [shift + fit.log_ratio + size for fit, size in zip(path.fits, gamma, strict=True)]
    size = -math.log(ratio) - np.log(scale)  # of coefficients
    spread = np.log(best.sigma2 * best.P.diagonal()) + 2.0 * size
    worst = max(*gamma, *alpha, *size.tolist(), *spread.tolist(), key=abs) / math.log(10.0)
    if abs(worst) > LARGEST_POWER:
        raise InputError(
            f"in the units of X and y some variance or precision of the fit is 1e{worst:.0f}, "
            "which double precision cannot hold. Multiply X or y by a constant."
        )
