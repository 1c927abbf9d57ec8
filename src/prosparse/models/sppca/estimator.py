"""SPPCA for users: parameters in, fitted attributes out; `model` has the mathematics."""

from __future__ import annotations

from typing import Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Columns
from ...data.arrays import as_like, to_numpy
from ...data.containers import Table
from ...errors import (
    NoStructureWarning,
    check_choice,
    check_integer,
    check_non_negative,
    checked_numbers,
    warn,
)
from ...numerics.density import NoisyPlane, log_density
from .._base import HasDensity, SparseProjection
from .solve import Criterion, Options, Solution, solve


class SPPCA(HasDensity, SparseProjection):
    """Sparse probabilistic PCA: few loadings per component, the penalty chosen by the data.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Smaller than min(n_samples, n_features); "auto": as many as stand out from white noise.
    penalty : {"slope", "aic", "bic", "ebic"} or float, default="slope"
        How the l1 penalty is chosen along the path (slope heuristic, Akaike, Schwarz, extended
        BIC of Chen and Chen), or its value, in units of the log-likelihood per unit of loading.
        Where the slope heuristic finds no models that are larger than needed, as in tables of few
        columns, extended BIC chooses, and ``criterion_`` says so.
    penalties : array or None, default=None
        The grid. None: 100 values from 0 to the smallest penalty that leaves no loading.
    max_iter : int, default=2000
        The most passes over the data at each penalty.
    tol : float, default=1e-10
        The rise of the bound per entry of the table that ends the passes, refined until the
        conditions of optimality hold to 1e-5.
    random_state : None
        Not used: nothing here is random.
    verbose : int, default=0
        1 shows a progress bar over the penalties.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        The loadings W', with exact zeros; components in falling order of their norm.
    n_components_ : int
        The number of components.
    penalties_ : array
        The penalties along the path, rising.
    log_likelihood_path_ : array
        The largest log-likelihood with the nonzeros at each penalty (their weights not shrunken).
    n_parameters_path_ : int array
        The number of nonzero loadings at each penalty, plus one for the noise.
    criterion_path_ : array
        What the chosen penalty maximises.
    penalty_ : float
        The penalty chosen.
    criterion_ : {"slope", "aic", "bic", "ebic", "given"}
        What chose the penalty: what ``penalty`` asked for, or "ebic" where that was the slope
        heuristic and the table has too few models that are larger than needed.
    slope_ : Slope or None
        What the slope heuristic found, when it was used.
    support_ : bool array (n_features_in_,)
        Variables with any loading.
    n_selected_ : int
        How many variables these are.
    relevance_ : array (n_features_in_,)
        The norm of the loadings of each variable, relative to the largest.
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable.
    explained_variance_ : array (n_components_,)
        Variance that each component adds to the span of those before it.
    explained_variance_ratio_ : array (n_components_,)
        Its share of the total variance of all columns.
    noise_variance_ : float
        Variance of the noise, the same for all variables.
    mean_ : array (n_features_in_,)
        The mean of every column.
    scale_ : array (n_features_in_,)
        Ones: columns are not scaled.
    varying_ : bool array (n_features_in_,)
        False for constant columns.
    objective_path_ : array (n_iter_,)
        The bound of the penalised log-likelihood after every pass at the chosen penalty.
    n_iter_ : int
        How many passes there were at the chosen penalty.
    stop_reason_ : StopReason
        Its text says why these passes ended and what can be done.

    Notes
    -----
    ``transform`` returns the posterior means of the latent variables. The columns should have
    comparable units: the noise variance is common. The slope heuristic allows for the choice of
    loadings by the data (`selection.slope.choice_shape`), and so does extended BIC; AIC and BIC do
    not, and keep more.

    References
    ----------
    Bouveyron & Jacques (2015), EGC.

    Examples
    --------
    >>> from prosparse import SPPCA, datasets
    >>> X = datasets.make_globally_sparse(200, 20, n_components=2, random_state=0).X
    >>> model = SPPCA(n_components=2, penalty=200.0).fit(X)
    >>> model.n_selected_
    10
    """

    _takes_any_table = True

    def __init__(
        self,
        n_components: int | Literal["auto"] = "auto",
        *,
        penalty: Criterion | float = "slope",
        penalties: ArrayLike | None = None,
        max_iter: int = 2000,
        tol: float = 1e-10,
        random_state: object = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.penalty = penalty
        self.penalties = penalties
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Table, y: object = None) -> Self:
        """Fit the path and keep the penalty that the criterion prefers.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind; it is centred.
        y : ignored

        Returns
        -------
        SPPCA
        """

        with self._fitting():
            op, columns = self._standardised(X, False)
            solution = solve(op, self._options(columns))
            self._describe(solution, columns, op.shape[0] * op.shape[1])

        return self

    def _options(self, columns: Columns) -> Options:
        penalty, penalties = self.penalty, self.penalties
        return Options(
            n_components=self.n_components,
            penalty=penalty if isinstance(penalty, str) else float(penalty),
            penalties=None if penalties is None else checked_numbers("penalties", penalties),
            columns=columns,
            max_iter=self.max_iter,
            tol=self.tol,
            verbose=self.verbose,
        )

    def _describe(self, found: Solution, columns: Columns, entries: int) -> None:
        """The solution in the table's own columns and units; the operator has ``entries``."""
        components = columns.values(columns.length(found.loadings[:, found.chosen]))
        self._set_columns(columns, found.order, found.chosen, components, found.relevance)
        self.n_components_ = found.loadings.shape[0]
        self.n_selected_ = int(found.chosen.size)
        self.noise_variance_ = columns.variance(found.noise)
        self.explained_variance_ = columns.numbers(columns.variance(found.variances))
        self.explained_variance_ratio_ = columns.numbers(found.shares)
        self.penalty_ = float(found.path.penalties[found.best])
        self.penalties_ = columns.values(found.path.penalties)
        self.log_likelihood_path_ = columns.values(found.path.log_likelihood)
        self.n_parameters_path_ = columns.values(found.path.n_parameters)
        self.criterion_path_ = columns.values(found.criterion)
        self.criterion_ = found.rule
        self.slope_ = found.slope
        self.objective_path_ = columns.values(columns.log_density(found.bounds, entries))
        self.n_iter_ = int(found.bounds.size)
        self.stop_reason_ = found.reason

    def _filters(self) -> np.ndarray:
        """Posterior means of the latent variables: M^-1 W', [BJ15] (7)."""
        W = to_numpy(self.components_).astype(float)
        return np.linalg.solve(W @ W.T + self.noise_variance_ * np.eye(W.shape[0]), W)

    def score_samples(self, X: Table) -> Array:
        """Log density of every row; columns that were constant in ``fit`` are left out.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        array (n_samples,)
        """
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        op, sigma2 = self._operator_of(X), self.noise_variance_
        inside = np.flatnonzero(to_numpy(self.varying_))
        _, lengths, axes = np.linalg.svd(to_numpy(self.components_)[:, inside].astype(float), False)
        plane = as_like(axes, X, op.dtype)
        law = NoisyPlane(plane, lengths**2 + sigma2, sigma2, 1.0)
        return log_density(op, law, inside, np.empty(0, dtype=int))

    def _check_parameters(self) -> None:
        if isinstance(self.penalty, str):
            check_choice("penalty", self.penalty, get_args(Criterion))
        else:
            check_non_negative("penalty", self.penalty)
        if self.penalties is not None:
            checked_numbers("penalties", self.penalties)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_selected_ == 0:
            message = f"at penalty {self.penalty_:.4g} no loading is left"
            if self.criterion_ == "given":
                message += "; take a smaller one"
            else:
                message += ", and none is worth more than it costs: the data show no structure"
            warn(f"SPPCA: {message}", NoStructureWarning)
