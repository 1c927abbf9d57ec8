"""Estimator class `SPPCA`; `model` describes the mathematics."""

from __future__ import annotations

from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike

from ...data import Columns
from ...data.arrays import to_numpy
from ...data.containers import Table
from ...errors import (
    NoStructureWarning,
    check_choice,
    check_integer,
    check_non_negative,
    check_numbers,
    warn,
)
from ...numerics.density import FactorCovariance
from .._base import GaussianProjection
from .solve import Criterion, Options, Solution, solve


class SPPCA(GaussianProjection):
    """Sparse probabilistic PCA with an l1 penalty on the loadings.

    The model is fitted along a path of penalties, and a criterion selects the penalty. The fit is
    deterministic.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Number of components, below min(n_samples, n_features). "auto" counts the eigenvalues that
        exceed those of white noise, with and without division of the columns by their noise
        standard deviations, and uses the smaller count.
    penalty : {"slope", "aic", "bic", "ebic"} or float, default="slope"
        Criterion that selects the l1 penalty (slope heuristic, AIC, BIC, extended BIC), or the
        penalty itself, in units of the log-likelihood per unit of loading. If the path has too few
        large models for the slope heuristic, extended BIC is used instead (see ``criterion_``).
    penalties : array-like or None, default=None
        Grid of penalties. By default, 100 values from 0 to the smallest penalty at which all
        loadings are zero.
    max_iter : int, default=2000
        Maximum number of iterations at each penalty.
    tol : float, default=1e-10
        Increase of the objective per entry of ``X`` below which the iterations stop. Iterations
        continue until the optimality conditions hold to a relative error of 1e-5.
    verbose : int, default=0
        Verbosity level. 1 prints the progress over the penalties.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Loadings of the components, with exact zeros, in decreasing order of norm.
    n_components_ : int
        Number of components.
    penalties_ : ndarray of shape (n_penalties,)
        Penalties along the path, increasing.
    log_likelihood_path_ : ndarray of shape (n_penalties,)
        Log-likelihood maximised without penalty over the nonzero loadings of each fit.
    n_parameters_path_ : ndarray of int, shape (n_penalties,)
        Number of nonzero loadings at each penalty, plus one for the noise variance.
    criterion_path_ : ndarray of shape (n_penalties,)
        Criterion that the selected penalty maximises.
    penalty_ : float
        Selected penalty.
    criterion_ : {"slope", "aic", "bic", "ebic", "given"}
        Criterion that selected the penalty: the value of ``penalty``, or "ebic" if the path has
        too few large models for the slope heuristic.
    slope_ : Slope or None
        Result of the slope heuristic, if it was used.
    support_ : ndarray of bool, shape (n_features_in_,)
        Mask of the variables with a nonzero loading.
    n_selected_ : int
        Number of selected variables.
    relevance_ : ndarray of shape (n_features_in_,)
        Norm of the loadings of each variable, relative to the largest.
    ranking_ : ndarray of int, shape (n_features_in_,)
        Rank of each variable by relevance, 1 for the most relevant.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance explained by each component in addition to the preceding ones.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        ``explained_variance_`` as a proportion of the total variance.
    noise_variance_ : float
        Noise variance, common to all variables.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Ones: the columns are not scaled.
    varying_ : ndarray of bool, shape (n_features_in_,)
        Mask of the columns that are not constant.
    objective_path_ : ndarray of shape (n_iter_,)
        Lower bound of the penalised log-likelihood after each iteration at the selected penalty.
    n_iter_ : int
        Number of iterations at the selected penalty.
    stop_reason_ : StopReason
        Reason why the iterations stopped.

    Notes
    -----
    ``transform`` returns posterior means of the factors. The noise variance is common to all
    variables, so the columns should have comparable units.

    The slope heuristic and extended BIC correct for the selection of the loadings by the data.
    AIC and BIC make no such correction and retain more loadings.

    References
    ----------
    C. Bouveyron, J. Jacques (2015). Sparse probabilistic PCA. EGC.

    Examples
    --------
    >>> from prosparse import SPPCA, datasets
    >>> X = datasets.make_globally_sparse(200, 20, n_components=2, random_state=0).X
    >>> model = SPPCA(n_components=2, penalty=200.0).fit(X)
    >>> model.n_selected_
    10
    """

    _accepts_any_container = True

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        penalty: Criterion | float = "slope",
        penalties: ArrayLike | None = None,
        max_iter: int = 2000,
        tol: float = 1e-10,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.penalty = penalty
        self.penalties = penalties
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(self, X: Table, y: object = None) -> Self:
        """Fit the model along a path of penalties and select a penalty.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix. The columns are centred.
        y : object
            Ignored. Present for API consistency.

        Returns
        -------
        SPPCA
            The fitted estimator.
        """
        with self._fitting():
            op, columns = self._standardise(X, False)
            solution = solve(op, self._options(columns))
            self._describe(solution, columns, op.shape[0] * op.shape[1])
        return self

    def _options(self, columns: Columns) -> Options:
        penalty, penalties = self.penalty, self.penalties
        return Options(
            n_components=self.n_components,
            penalty=penalty if isinstance(penalty, str) else float(penalty),
            penalties=None if penalties is None else check_numbers("penalties", penalties),
            columns=columns,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
        )

    def _describe(self, found: Solution, columns: Columns, entries: int) -> None:
        """Set the fitted attributes; ``entries`` is the size of the operator."""
        components = columns.values(columns.length(found.loadings[:, found.selected]))
        self._set_columns(columns, found.order, found.selected, components, found.relevance)
        self.n_components_ = found.loadings.shape[0]
        self.n_selected_ = int(found.selected.size)
        self.noise_variance_ = columns.variance(found.noise)
        self.explained_variance_ = columns.numbers(columns.variance(found.variances))
        self.explained_variance_ratio_ = columns.numbers(found.variance_ratios)
        self.penalty_ = float(found.path.penalties[found.best])
        self.penalties_ = columns.values(found.path.penalties)
        self.log_likelihood_path_ = columns.values(found.path.log_likelihood)
        self.n_parameters_path_ = columns.values(found.path.n_parameters)
        self.criterion_path_ = columns.values(found.evaluation.values)
        self.criterion_ = found.evaluation.rule
        self.slope_ = found.evaluation.slope
        self.objective_path_ = columns.values(columns.log_density(found.bounds, entries))
        self.n_iter_ = int(found.bounds.size)
        self.stop_reason_ = found.reason

    def _projection(self) -> np.ndarray:
        """Compute the map from rows to posterior means of the factors, M^-1 W'."""
        W = to_numpy(self.components_).astype(float)
        return np.linalg.solve(W @ W.T + self.noise_variance_ * np.eye(W.shape[0]), W)

    def _factor_covariance(self) -> FactorCovariance:
        """Diagonalise W W' + sigma2 I by the singular value decomposition of W."""
        varying, sigma2 = np.flatnonzero(to_numpy(self.varying_)), self.noise_variance_
        W = to_numpy(self.components_)[:, varying].astype(float)
        _, lengths, axes = np.linalg.svd(W, full_matrices=False)
        none = np.empty(0, dtype=int)
        return FactorCovariance(axes, lengths**2 + sigma2, sigma2, 1.0, varying, none)

    def _check_parameters(self) -> None:
        if isinstance(self.penalty, str):
            check_choice("penalty", self.penalty, get_args(Criterion))
        else:
            check_non_negative("penalty", self.penalty)
        if self.penalties is not None:
            check_numbers("penalties", self.penalties)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ > 0:
            return
        if self.criterion_ == "given":
            remedy = "Use a smaller penalty."
        else:
            remedy = f"The criterion ({self.criterion_}) is largest without components."
        warn(
            f"SPPCA: all loadings are zero at penalty {self.penalty_:.4g}. {remedy}",
            NoStructureWarning,
        )
