"""DSPCA: one sparse component by a semidefinite relaxation, with a certificate.

[AGJL07]  A. d'Aspremont, L. El Ghaoui, M. I. Jordan, G. R. G. Lanckriet. A direct formulation
          for sparse PCA using semidefinite programming. SIAM Review 49, 2007.

    maximise  tr(C Z) - rho sum |Z_ij|    over  Z >= 0 (semidefinite),  tr Z = 1

This relaxes the maximisation of w'Cw over sparse unit vectors w, with Z in place of ww'. The dual
minimises the largest eigenvalue of C - L over |L_ij| <= rho ([AGJL07] (8)). Any such L gives an
upper bound; the duality gap is the certificate. [AGJL07] smooths the dual. Here the alternating
direction method of multipliers splits the two constraints: the cost per iteration is the same, and
a small gap requires far fewer iterations.

A variable with |C_ij| <= rho for all j is zero in the optimum, because each of its entries of Z
costs at least as much as it gains. Such variables are removed in advance. (The condition
C_ii <= rho suffices for the l0 problem, but not for this one.)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np

from prosparse.errors import (
    FewerComponentsWarning,
    InputError,
    ParameterError,
    check_bool,
    check_integer,
    check_non_negative,
    warn,
)
from prosparse.inference.loop import Run, StopReason, iterate, worst
from prosparse.inference.progress import Progress
from prosparse.models._base import SparseProjection
from prosparse.models.empca.quadratic import Floats, Gram, leading_pair

MAX_COLUMNS = 1500  # maximum number of columns: each iteration decomposes p x p matrices
OVER_RELAXATION = 1.6
RANK_TOL = 1e-12


class State(NamedTuple):
    """Iterate of the alternating direction method."""

    Z: Floats  # (p, p) semidefinite with trace one
    Y: Floats  # (p, p) copy of Z with exact zeros
    D: Floats  # (p, p) scaled multipliers of Z = Y
    value: float  # primal objective tr(C Z) - rho sum |Z|
    upper_bound: float  # smallest largest eigenvalue of C - L so far
    bound: float  # cumulative sum of gaps and residuals |Z - Y|; its increment ends the loop


def project_on_simplex(values: Floats) -> Floats:
    """Project onto the unit simplex."""
    descending = np.sort(values)[::-1]
    excess = (np.cumsum(descending) - 1.0) / np.arange(1, values.size + 1)
    last = int(np.flatnonzero(descending > excess)[-1])
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest


def make_step(C: Floats, rho: float, mu: float) -> Callable[[State], State]:
    """Return one iteration of the alternating direction method with step length 1 / mu."""

    def step(state: State) -> State:
        values, vectors = np.linalg.eigh(state.Y - state.D + C / mu)
        weights = project_on_simplex(values)
        used = weights > 0
        Z = (vectors[:, used] * weights[used]) @ vectors[:, used].T
        mixed = OVER_RELAXATION * Z + (1.0 - OVER_RELAXATION) * state.Y
        target = mixed + state.D
        D = np.clip(target, -rho / mu, rho / mu)  # L = mu D is dual feasible
        Y = target - D
        value = float(np.sum(C * Z) - rho * np.sum(np.abs(Z)))
        upper_bound = float(np.linalg.eigvalsh(C - mu * D)[-1])
        best = min(upper_bound, state.upper_bound)
        residual = max(best - value, 0.0) + float(np.linalg.norm(Z - Y))
        return State(Z, Y, D, value, best, state.bound + residual)

    return step


def solve(C: Floats, rho: float, max_iter: int, tol: float, progress: Progress) -> Run[State]:
    """Solve the relaxation for C with largest diagonal entry one."""
    p = C.shape[0]
    first = int(np.argmax(np.diagonal(C)))
    Z = np.zeros((p, p))
    Z[first, first] = 1.0
    value = float(C[first, first]) - rho
    # Any mu converges; values near the largest eigenvalue need the fewest iterations.
    mu = 0.7 * leading_pair(C)[0]
    initial = State(Z, Z, np.zeros((p, p)), value, np.inf, 0.0)
    return iterate(make_step(C, rho, mu), initial, max_iter=max_iter, tol=tol, progress=progress)


def component(state: State) -> Floats:
    """Return the leading eigenvector of Y on its support."""
    Y = 0.5 * (state.Y + state.Y.T)
    S = np.flatnonzero(np.any(Y != 0, axis=1))
    if not S.size:  # The penalty removes all variables: use the one of largest variance.
        Y, S = state.Z, np.array([int(np.argmax(np.diagonal(state.Z)))])
    w = np.zeros(Y.shape[0])
    w[S] = leading_pair(Y[np.ix_(S, S)])[1]
    return w


class DSPCA(SparseProjection):
    """Sparse PCA by semidefinite programming, with deflation.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, extracted one after the other with deflation.
    penalty : float, default=0.1
        Penalty rho on the absolute values of Z, relative to the largest column variance (after
        deflation). 0 gives PCA; values of at least 1 select a single variable.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.
    max_iter : int, default=5000
        Maximum number of iterations per component. Each iteration decomposes two matrices with
        one column per variable whose covariance with some variable exceeds rho.
    tol : float, default=1e-4
        Tolerance for the duality gap, relative to the largest column variance, plus the distance
        between the semidefinite and the sparse copy of Z.
    verbose : int, default=0
        Verbosity; a positive value shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Unit rows with exact zeros.
    values_ : ndarray of shape (n_components_,)
        ``tr(CZ) - rho sum |Z|`` with C the covariance matrix (after deflation).
    gaps_ : ndarray of shape (n_components_,)
        Upper bounds on the distance of ``values_`` to the optimum.
    n_iter_ : int
        Largest number of iterations of a component.
    stop_reason_ : StopReason
        Stop reason; the worst one if there are several components.
    support_ : ndarray of bool of shape (n_features_in_,)
        Mask of the variables with a nonzero loading.
    n_selected_ : int
        Number of selected variables.
    n_nonzero_ : ndarray of int of shape (n_components_,)
        Number of nonzero loadings of each component.
    n_components_ : int
        Number of components.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores, with denominator n - 1.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Proportion of the total variance that each component adds to the preceding ones.
    relevance_ : ndarray of shape (n_features_in_,)
        Largest absolute loading of a variable times the standard deviation of the component,
        relative to the maximum.
    ranking_ : ndarray of int of shape (n_features_in_,)
        Rank by relevance; 1 is the most relevant variable.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Standard deviations of the columns if ``scale=True``, otherwise ones.
    varying_ : ndarray of bool of shape (n_features_in_,)
        Mask of the columns that are not constant.

    Examples
    --------
    >>> from papers import baselines
    >>> from prosparse import datasets
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> model = baselines.DSPCA(penalty=0.3).fit(X)
    >>> bool(model.n_nonzero_[0] < 10)
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        penalty: float = 0.1,
        scale: bool = False,
        max_iter: int = 5000,
        tol: float = 1e-4,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.penalty = penalty
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the components to ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense or sparse data matrix in memory.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        DSPCA
            The fitted estimator.
        """
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        if self.n_components > min(n - 1, p):
            raise ParameterError(
                f"`n_components` must be at most min(n_samples - 1, varying columns) = "
                f"{min(n - 1, p)}, got {self.n_components}"
            )
        if p > MAX_COLUMNS:
            raise InputError(
                f"DSPCA supports at most {MAX_COLUMNS} varying columns, got {p}. Select columns "
                "first, or use EMPCA."
            )
        form = Gram(np.asarray(op.gram()))
        threshold = RANK_TOL * float(np.trace(form.C))
        components: list[tuple[Floats, float, float]] = []
        runs = []
        for _ in range(self.n_components):
            diagonal = form.diagonal()
            largest = float(diagonal.max())
            if largest <= threshold:
                break
            S = np.flatnonzero(np.abs(form.C).max(axis=1) > self.penalty * largest)
            S = S if S.size else np.array([int(np.argmax(diagonal))])
            progress = Progress(self.max_iter, "DSPCA", self.verbose)
            run = solve(form.block(S) / largest, self.penalty, self.max_iter, self.tol, progress)
            w = np.zeros(p)
            w[S] = component(run.state)
            value, upper_bound = run.state.value, run.state.upper_bound
            unit = largest / (n - 1)
            components.append((w, value * unit, (upper_bound - value) * unit))
            runs.append(run)
            form = form.deflate(w)
        self._set_components(op, columns, np.array([w for w, _, _ in components]), float(n))
        self.values_ = columns.variance(np.array([value for _, value, _ in components]))
        self.gaps_ = columns.variance(np.array([gap for _, _, gap in components]))
        self.n_iter_ = max(len(run.bounds) for run in runs)
        self.stop_reason_ = worst([run.reason for run in runs])

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        check_non_negative("penalty", self.penalty)
        check_bool("scale", self.scale)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_components_ < self.n_components:
            warn(
                f"DSPCA found {self.n_components_} of {self.n_components} components: "
                f"{StopReason.EXHAUSTED}",
                FewerComponentsWarning,
            )
