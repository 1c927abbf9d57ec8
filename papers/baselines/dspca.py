"""DSPCA: one sparse component by a semidefinite relaxation, with a certificate.

[AGJL07]  A. d'Aspremont, L. El Ghaoui, M. I. Jordan, G. R. G. Lanckriet. A direct formulation
          for sparse PCA using semidefinite programming. SIAM Review 49, 2007.

    maximise  tr(C Z) - rho sum |Z_ij|    over  Z >= 0 (semidefinite),  tr Z = 1

in place of w'Cw over unit w with few nonzeros, Z standing for ww'. The dual is to minimise the
largest eigenvalue of C - L over |L_ij| <= rho ([AGJL07] (8)): any such L bounds the optimum from
above, and the gap between the two is the certificate. [AGJL07] smooths the dual; here the
alternating direction method of multipliers splits the two constraints, which needs the same
eigendecomposition per turn and far fewer turns for a small gap.

A variable with |C_ij| <= rho for all j has no part in the optimum: each of its entries of Z costs
at least what it brings. Such variables are left out from the start. (C_ii <= rho is enough for
the problem that counts nonzeros, but not for this one.)
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

WIDEST = 1500  # C is p x p, and a matrix of the side of the variables left is decomposed per turn
OVER_RELAXATION = 1.6
RANK_TOL = 1e-12


class State(NamedTuple):
    """Two copies of Z that must agree, and how far each is from the optimum."""

    Z: Floats  # (p, p) semidefinite with trace one
    Y: Floats  # (p, p) the same with exact zeros
    D: Floats  # (p, p) multipliers of Z = Y, over the step length
    value: float  # tr(C Z) - rho sum |Z|, attained
    ceiling: float  # largest eigenvalue of C - L: no Z attains more
    bound: float  # sum of the gaps and of |Z - Y| so far: the loop ends when both are small


def on_simplex(values: Floats) -> Floats:
    """The nearest vector without negative entries whose sum is one."""
    falling = np.sort(values)[::-1]
    excess = (np.cumsum(falling) - 1.0) / np.arange(1, values.size + 1)
    last = int(np.flatnonzero(falling > excess)[-1])
    nearest: Floats = np.maximum(values - excess[last], 0.0)
    return nearest


def make_step(C: Floats, rho: float, mu: float) -> Callable[[State], State]:
    """One turn of the alternating direction method with step length 1 / mu."""

    def step(state: State) -> State:
        values, vectors = np.linalg.eigh(state.Y - state.D + C / mu)
        weights = on_simplex(values)
        used = weights > 0
        Z = (vectors[:, used] * weights[used]) @ vectors[:, used].T
        mixed = OVER_RELAXATION * Z + (1.0 - OVER_RELAXATION) * state.Y
        target = mixed + state.D
        D = np.clip(target, -rho / mu, rho / mu)  # L = mu D is feasible in the dual
        Y = target - D
        value = float(np.sum(C * Z) - rho * np.sum(np.abs(Z)))
        ceiling = float(np.linalg.eigvalsh(C - mu * D)[-1])
        best = min(ceiling, state.ceiling)
        left = max(best - value, 0.0) + float(np.linalg.norm(Z - Y))
        return State(Z, Y, D, value, best, state.bound + left)

    return step


def solve(C: Floats, rho: float, max_iter: int, tol: float, progress: Progress) -> Run[State]:
    """The relaxation for C whose largest diagonal entry is one."""
    p = C.shape[0]
    first = int(np.argmax(np.diagonal(C)))
    Z = np.zeros((p, p))
    Z[first, first] = 1.0
    value = float(C[first, first]) - rho
    # Any mu converges; near the largest eigenvalue it took the fewest turns over all penalties.
    mu = 0.7 * leading_pair(C)[0]
    begun = State(Z, Z, np.zeros((p, p)), value, np.inf, 0.0)
    return iterate(make_step(C, rho, mu), begun, max_iter=max_iter, tol=tol, progress=progress)


def component(state: State) -> Floats:
    """The leading eigenvector of Y on the variables that Y uses."""
    Y = 0.5 * (state.Y + state.Y.T)
    S = np.flatnonzero(np.any(Y != 0, axis=1))
    if not S.size:  # a penalty so large that it took the single variable left, too
        Y, S = state.Z, np.array([int(np.argmax(np.diagonal(state.Z)))])
    w = np.zeros(Y.shape[0])
    w[S] = leading_pair(Y[np.ix_(S, S)])[1]
    return w


class DSPCA(SparseProjection):
    """Sparse PCA by semidefinite programming, one component after the other.

    Parameters
    ----------
    n_components : int, default=1
        Later components see the table without the directions found before (deflation).
    penalty : float, default=0.1
        Weight rho of the absolute values of Z, as a share of the largest column variance (of
        the deflated table): 0 is PCA, from 1 on a single variable is left.
    scale : bool, default=False
        Divide every column by its standard deviation first.
    max_iter : int, default=5000
        The most turns for a component, each of which decomposes two matrices as wide as the
        number of columns whose covariance with some column exceeds rho.
    tol : float, default=1e-4
        The gap to the optimum of the relaxation, as a share of the largest column variance, plus
        the distance between the two copies of Z, semidefinite and sparse, that must agree.
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Unit rows with exact zeros.
    values_ : array (n_components_,)
        ``tr(CZ) - rho sum |Z|`` with C the covariance (of the deflated table).
    gaps_ : array (n_components_,)
        By how much the optimum may exceed it at most.
    n_iter_ : int
        The most turns that a component took.
    stop_reason_ : StopReason
        Why the turns ended; of several components the worst reason.
    support_ : bool array (n_features_in_,)
        Variables used by any component.
    n_selected_ : int
        The number of these variables.
    n_nonzero_ : int array (n_components_,)
        The number of nonzeros of each component.
    n_components_ : int
        The number of components found.
    explained_variance_ : array (n_components_,)
        Variance of the scores, with denominator n - 1.
    explained_variance_ratio_ : array (n_components_,)
        The share of the total variance that each component adds to those before.
    relevance_ : array (n_features_in_,)
        Largest weight of a variable in any component, weighted by that component's standard
        deviation, as a share of the largest.
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable, and so on.
    mean_ : array (n_features_in_,)
        Means of the columns.
    scale_ : array (n_features_in_,)
        What the columns were divided by: ones unless ``scale=True``.
    varying_ : bool array (n_features_in_,)
        False for constant columns.

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
        """Solve the relaxation for every component of ``X``.

        Parameters
        ----------
        X : table (n_samples, n_features)
            In memory, dense or sparse.
        y : ignored
            Here for scikit-learn's sake.

        Returns
        -------
        DSPCA
            Itself.
        """
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        if self.n_components > min(n - 1, p):
            raise ParameterError(
                f"`n_components` must be at most min(n_samples - 1, columns that vary) = "
                f"{min(n - 1, p)}, got {self.n_components}"
            )
        if p > WIDEST:
            raise InputError(
                f"X has {p} columns that vary, and DSPCA decomposes matrices of that width; at "
                f"most {WIDEST} are allowed. Choose columns first, or use EMPCA."
            )
        form = Gram(np.asarray(op.gram()))
        floor = RANK_TOL * float(np.trace(form.C))
        found: list[tuple[Floats, float, float]] = []
        runs = []
        for _ in range(self.n_components):
            diagonal = form.diagonal()
            largest = float(diagonal.max())
            if largest <= floor:
                break
            S = np.flatnonzero(np.abs(form.C).max(axis=1) > self.penalty * largest)
            S = S if S.size else np.array([int(np.argmax(diagonal))])
            progress = Progress(self.max_iter, "DSPCA", self.verbose)
            run = solve(form.block(S) / largest, self.penalty, self.max_iter, self.tol, progress)
            w = np.zeros(p)
            w[S] = component(run.state)
            value, ceiling = run.state.value, run.state.ceiling
            unit = largest / (n - 1)
            found.append((w, value * unit, (ceiling - value) * unit))
            runs.append(run)
            form = form.deflated(w)
        self._set_components(op, columns, np.array([w for w, _, _ in found]), float(n))
        self.values_ = columns.variance(np.array([value for _, value, _ in found]))
        self.gaps_ = columns.variance(np.array([gap for _, _, gap in found]))
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
