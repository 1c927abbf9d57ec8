"""NSPCA: non-negative sparse PCA, all components jointly.

[ZS07]  R. Zass, A. Shashua. Nonnegative sparse PCA. NeurIPS 19, 2007.

    maximise  1/2 tr(U'CU) - alpha/4 |I - U'U|^2 - beta sum(U)   over U >= 0,  (p, d)

by coordinate ascent. In a single entry the objective is a quartic, whose maximum over u >= 0 is
zero or a root of a cubic ([ZS07] section 3). The penalty alpha controls orthogonality and unit
length, beta the number of zeros.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, Self

import numpy as np
from sklearn.utils import check_random_state

from prosparse.data import Columns, Operator
from prosparse.errors import (
    FewerComponentsWarning,
    InputError,
    ParameterError,
    check_bool,
    check_integer,
    check_non_negative,
    warn,
)
from prosparse.inference.loop import Run, iterate
from prosparse.inference.progress import Progress
from prosparse.models._base import SparseProjection
from prosparse.models.empca.quadratic import Floats

MAX_COLUMNS = 5000  # maximum number of columns: C is p x p


class State(NamedTuple):
    """Loadings and objective."""

    U: Floats  # (p, d)
    bound: float  # the objective


def objective(C: Floats, U: Floats, alpha: float, beta: float) -> float:
    """Return 1/2 tr(U'CU) - alpha/4 |I - U'U|^2 - beta sum(U)."""
    d = U.shape[1]
    distance = np.sum((np.eye(d) - U.T @ U) ** 2)
    return float(0.5 * np.sum(U * (C @ U)) - 0.25 * alpha * distance - beta * np.sum(U))


def best_entry(alpha: float, c2: float, c1: float) -> float:
    """Return the maximiser u >= 0 of -alpha/4 u^4 + c2/2 u^2 + c1 u."""
    # Stationary points solve u^3 - (c2/alpha) u - c1/alpha = 0 (Cardano's formula).
    a, b = -c2 / alpha, -c1 / alpha
    discriminant = (b / 2.0) ** 2 + (a / 3.0) ** 3
    if discriminant > 0.0:
        root = np.sqrt(discriminant)
        candidates = (np.cbrt(-b / 2.0 + root) + np.cbrt(-b / 2.0 - root),)
    else:
        radius = 2.0 * np.sqrt(max(-a / 3.0, 0.0))
        cosine = 0.0 if radius == 0.0 else 3.0 * b / (a * radius)
        angle = np.arccos(min(1.0, max(-1.0, cosine))) / 3.0
        # Of three real roots, the largest and the smallest are maxima; only one is positive.
        candidates = (radius * np.cos(angle),)
    best, value = 0.0, 0.0
    for u in candidates:
        objective_value = ((-0.25 * alpha * u * u + 0.5 * c2) * u + c1) * u
        if u > 0.0 and objective_value > value:
            best, value = float(u), objective_value
    return best


def make_step(C: Floats, alpha: float, beta: float) -> Callable[[State], State]:
    """Return one sweep over the entries of U with rank-one updates of C U and U'U."""

    def step(state: State) -> State:
        U = state.U.copy()
        gram = U.T @ U
        for s in range(U.shape[1]):
            image = C @ U[:, s]  # C u_s
            others = gram[s].copy()
            others[s] = 0.0
            for r in range(U.shape[0]):
                u, row = U[r, s], U[r]
                across = row @ row - u * u
                c2 = C[r, r] + alpha - alpha * (gram[s, s] - u * u + across)
                c1 = image[r] - C[r, r] * u - alpha * (others @ row - u * across) - beta
                new = best_entry(alpha, c2, c1)
                change = new - u
                if change == 0.0:
                    continue
                gram[s, s] += new * new - u * u
                others += change * row
                others[s] = 0.0
                image += change * C[:, r]
                U[r, s] = new
            gram[s] = gram[:, s] = U.T @ U[:, s]
        return State(U, objective(C, U, alpha, beta))

    return step


class NSPCA(SparseProjection):
    """Non-negative sparse PCA with penalties on loadings and on non-orthogonality.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, estimated jointly. Zero components are dropped.
    alpha : float, default=1.0
        Penalty on ``|I - U'U|^2``, in units of the largest eigenvalue of the covariance.
    beta : float, default=0.0
        Penalty on the sum of the loadings, in the same units. Larger values give sparser
        components.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.
    n_restarts : int, default=5
        Number of random starts; the best objective is selected.
    max_iter : int, default=200
        Maximum number of sweeps.
    tol : float, default=1e-6
        Minimum increase of the objective per sweep, in the same units.
    random_state : int, RandomState or None, default=None
        Seed for the random starts.
    verbose : int, default=0
        Verbosity; a positive value shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Non-negative unit rows with exact zeros; zero components are dropped.
    objective_ : float
        Final objective, in units of the largest eigenvalue.
    objective_path_ : ndarray of shape (n_iter_,)
        Objective after each sweep, non-decreasing.
    n_iter_ : int
        Number of sweeps.
    stop_reason_ : StopReason
        Stop reason of the selected start.
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
    >>> model = baselines.NSPCA(2, beta=0.1, random_state=0).fit(X)
    >>> bool((model.components_ >= 0).all())
    True
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        alpha: float = 1.0,
        beta: float = 0.0,
        scale: bool = False,
        n_restarts: int = 5,
        max_iter: int = 200,
        tol: float = 1e-6,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.alpha = alpha
        self.beta = beta
        self.scale = scale
        self.n_restarts = n_restarts
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit all components to ``X`` jointly.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense or sparse data matrix in memory.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        NSPCA
            The fitted estimator.
        """
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        p = op.shape[1]
        if self.n_components > p:
            raise ParameterError(
                f"`n_components` must be at most the number of varying columns, {p}, got "
                f"{self.n_components}"
            )
        if p > MAX_COLUMNS:
            raise InputError(
                f"NSPCA supports at most {MAX_COLUMNS} varying columns, got {p}. Select columns "
                "first, or use EMPCA(nonnegative=True)."
            )
        C = np.asarray(op.gram())
        C = C / float(np.linalg.eigvalsh(C)[-1])
        rng = check_random_state(self.random_state)
        alpha, beta = max(float(self.alpha), 1e-9), float(self.beta)
        step = make_step(C, alpha, beta)
        best: Run[State] | None = None
        for _ in range(self.n_restarts):
            U = np.abs(rng.standard_normal((p, self.n_components)))
            U /= np.linalg.norm(U, axis=0)
            initial = State(U, objective(C, U, alpha, beta))
            progress = Progress(self.max_iter, "NSPCA", self.verbose)
            run = iterate(step, initial, max_iter=self.max_iter, tol=self.tol, progress=progress)
            if best is None or run.state.bound > best.state.bound:
                best = run
        assert best is not None
        self._set_results(op, columns, best)

    def _set_results(self, op: Operator, columns: Columns, run: Run[State]) -> None:
        """Set unit components by decreasing variance, without zero components."""
        norms = np.linalg.norm(run.state.U, axis=0)
        nonzero = norms > 0
        W = (run.state.U[:, nonzero] / norms[nonzero]).T
        variance = np.sum(np.asarray(op.matmul(W.T)) ** 2, axis=0)
        self._set_components(op, columns, W[np.argsort(-variance)], float(op.shape[0]))
        self.objective_, self.objective_path_ = run.state.bound, np.array(run.bounds)
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        check_integer("n_restarts", self.n_restarts, 1)
        check_integer("max_iter", self.max_iter, 1)
        check_bool("scale", self.scale)
        for name in ("alpha", "beta", "tol"):
            check_non_negative(name, getattr(self, name))

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_components_ < self.n_components:
            warn(
                f"NSPCA: only {self.n_components_} of {self.n_components} components are nonzero. "
                "Decrease `beta`.",
                FewerComponentsWarning,
            )
