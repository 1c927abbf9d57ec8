"""SPCA: sparse principal components by regression with the elastic net.

[ZHT06]  H. Zou, T. Hastie, R. Tibshirani. Sparse principal component analysis. Journal of
         Computational and Graphical Statistics 15, 2006 (R package elasticnet).

    minimise  |X - X B A'|^2 + ridge |B|^2 + sum_j l1_j |b_j|_1    over A, B (p, d),  A'A = I

by alternating minimisation ([ZHT06] Algorithm 1). Given A, each b_j is an elastic net of X a_j on
X. Given B, the optimal A is U V' from the singular value decomposition X'X B = U D V'. With
infinite `ridge` the elastic net is a soft threshold of X'X a_j (section 4, intended for p >> n),
and X'X is not formed. A given number of nonzeros replaces l1_j by the end of the segment of the
elastic net path with that many active variables, as in R.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.linear_model import lars_path_gram

from prosparse.data import Operator
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
from prosparse.numerics.spectrum import principal_components

Array = np.ndarray
# Map from (X'X a_j, j) to b_j.
Regression = Callable[[Array, int], Array]

MAX_RIDGE = 1e12  # ridge relative to |X|^2 above which X'X is negligible
MAX_COLUMNS = 5000  # maximum number of columns with finite ridge: X'X is p x p


class State(NamedTuple):
    """Iterate of Algorithm 1."""

    A: Array  # (p, d) orthonormal columns
    B: Array  # (p, d) sparse columns
    bound: float  # cumulative change of the unit columns of B; its increment ends the loop


def objective(C: Array, state: State, ridge: float, l1: Array) -> float:
    """Return |X - X B A'|^2 + ridge |B|^2 + sum_j l1_j |b_j|_1 with C = X'X."""
    A, B = state.A, state.B
    fit = np.trace(C) - 2.0 * np.sum(A * (C @ B)) + np.sum(B * (C @ B))
    return float(fit + ridge * np.sum(B**2) + np.sum(np.abs(B), axis=0) @ l1)


def elastic_net(C: Array, ridge: float, K: Array | None, l1: Array | None) -> Regression:
    """Solve min b'(C + ridge I) b - 2 b'C a_j + l1_j |b|_1 by least angle regression."""
    gram = C + ridge * np.eye(C.shape[0])
    p = C.shape[0]

    def solve(Ca: Array, j: int) -> Array:
        if K is None:
            assert l1 is not None
            return _lars(Ca, gram, alpha_min=0.5 * l1[j], return_path=False)
        steps = int(K[j])
        while True:  # Variables that leave the path require further steps.
            path = _lars(Ca, gram, max_iter=steps)
            enough = np.flatnonzero(np.count_nonzero(path, axis=0) >= K[j])
            if enough.size or steps >= 8 * p or path.shape[1] <= steps:
                return path[:, enough[0] if enough.size else -1]
            steps += int(K[j])

    return solve


def _lars(Ca: Array, gram: Array, **end: Any) -> Array:
    """Return the coefficients of least angle regression.

    Its warnings about collinear columns, which it drops, and about early stopping do not concern
    the user.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return lars_path_gram(Ca, gram, n_samples=1, method="lasso", **end)[2]


def soft_threshold_regression(K: Array | None, l1: Array | None) -> Regression:
    """Solve b_j = soft(C a_j, l1_j / 2), [ZHT06] (4.1), or threshold to K_j nonzeros."""

    def solve(Ca: Array, j: int) -> Array:
        size = np.abs(Ca)
        if K is None:
            assert l1 is not None
            threshold = 0.5 * l1[j]
        else:  # Ties: the first entries are selected; the threshold is the next smaller value.
            selected = np.argsort(-size, kind="stable")[: K[j]]
            threshold = np.max(size, where=size < size[selected[-1]], initial=0.0)
            size = np.where(np.isin(np.arange(size.size), selected), size, 0.0)
        return np.sign(Ca) * np.maximum(size - threshold, 0.0)

    return solve


def unit_columns(B: Array) -> Array:
    """Scale the nonzero columns to unit norm."""
    lengths = np.linalg.norm(B, axis=0)
    return B / np.where(lengths > 0, lengths, 1.0)


def distance(B: Array, before: Array) -> float:
    """Return the largest change of an entry of a unit column, up to sign."""
    B, before = unit_columns(B), unit_columns(before)
    change = np.minimum(np.abs(B - before).max(axis=0), np.abs(B + before).max(axis=0))
    return float(change.max())


def make_step(product: Callable[[Array], Array], solve: Regression) -> Callable[[State], State]:
    """Return one iteration of [ZHT06] Algorithm 1; ``product(B)`` is X'X B."""

    def regressions(A: Array) -> Array:
        CA = product(A)
        return np.column_stack([solve(CA[:, j], j) for j in range(A.shape[1])])

    def step(state: State) -> State:
        U, _, Vt = np.linalg.svd(product(state.B), full_matrices=False)
        A = U @ Vt  # [ZHT06] Theorem 4, reduced rank Procrustes rotation
        B = regressions(A)
        return State(A, B, state.bound + distance(B, state.B))

    return step


class SPCA(SparseProjection):
    """Sparse PCA by regressing the principal components on the variables.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, at most min(n_samples - 1, number of varying columns).
    n_nonzero : int, one int per component, or None, default=None
        Number of nonzero loadings of each component.
    penalty : float or one float per component, default=0.0
        l1 penalty, used if ``n_nonzero`` is None.
    ridge : float, default=1e-6
        l2 penalty. Infinity gives soft thresholding, which needs no p x p matrix.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.
    max_iter : int, default=200
        Maximum number of iterations.
    tol : float, default=1e-3
        Maximum change of an entry of a unit loading vector at convergence.
    verbose : int, default=0
        Verbosity; a positive value shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Unit rows with exact zeros; zero components are dropped.
    support_ : ndarray of bool of shape (n_features_in_,)
        Mask of the variables with a nonzero loading.
    n_selected_ : int
        Number of selected variables.
    n_nonzero_ : ndarray of int of shape (n_components_,)
        Number of nonzero loadings of each component.
    n_components_ : int
        Number of nonzero components.
    relevance_ : ndarray of shape (n_features_in_,)
        Largest absolute loading of a variable times the standard deviation of the component,
        relative to the maximum.
    ranking_ : ndarray of int of shape (n_features_in_,)
        Rank by relevance; 1 is the most relevant variable.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Proportion of the total variance that each component adds to the preceding ones.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Standard deviations of the columns if ``scale=True``, otherwise ones.
    varying_ : ndarray of bool of shape (n_features_in_,)
        Mask of the columns that are not constant.
    n_iter_ : int
        Number of iterations.
    stop_reason_ : StopReason
        Stop reason.

    Notes
    -----
    ``penalty`` and ``ridge`` are in the units of X'X, as in the R package elasticnet.

    Examples
    --------
    >>> from papers import baselines
    >>> from prosparse import datasets
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> baselines.SPCA(2, n_nonzero=[5, 3]).fit(X).n_nonzero_
    array([5, 3])
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_nonzero: Any = None,
        penalty: Any = 0.0,
        ridge: float = 1e-6,
        scale: bool = False,
        max_iter: int = 200,
        tol: float = 1e-3,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.penalty = penalty
        self.ridge = ridge
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SPCA:
        """Fit the sparse components to ``X``."""
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        d = self.n_components
        if d > min(n - 1, p):
            raise ParameterError(
                f"`n_components` must be at most min(n_samples - 1, varying columns) = "
                f"{min(n - 1, p)}, got {d}"
            )
        K = (
            None
            if self.n_nonzero is None
            else np.minimum(_per_component("n_nonzero", self.n_nonzero, d), p)
        )
        with np.errstate(over="ignore"):  # An overflow to infinity is intended.
            l1 = (
                None
                if K is not None
                else _per_component("penalty", self.penalty, d) / columns.unit**2
            )
            run = self._iterate(op, K, l1, float(np.float64(self.ridge) / columns.unit**2))
        nonzero = np.any(run.state.B != 0, axis=0)
        self._set_components(op, columns, unit_columns(run.state.B[:, nonzero]).T, float(n))
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason

    def _iterate(self, op: Operator, K: Array | None, l1: Array | None, ridge: float) -> Run[State]:
        p, xp = op.shape[1], op.xp
        if ridge > MAX_RIDGE * float(xp.sum(op.column_squares())):
            solve = soft_threshold_regression(K, l1)

            def product(B: Array) -> Array:
                return np.asarray(op.rmatmul(op.matmul(xp.asarray(B))))
        else:
            if p > MAX_COLUMNS:
                raise InputError(
                    f"SPCA with a finite ridge supports at most {MAX_COLUMNS} varying columns, got "
                    f"{p}. Use `ridge=inf`, as [ZHT06] recommend for many columns."
                )
            C = np.asarray(op.gram())
            solve = elastic_net(C, ridge, K, l1)

            def product(B: Array) -> Array:
                return C @ B

        V = principal_components(op, self.n_components)[0].T
        CV = product(V)
        B = np.column_stack([solve(CV[:, j], j) for j in range(V.shape[1])])
        return iterate(
            make_step(product, solve),
            State(V, B, 0.0),
            max_iter=self.max_iter,
            tol=self.tol,
            progress=Progress(self.max_iter, "SPCA", self.verbose),
        )

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        if self.n_nonzero is not None:
            for K in np.ravel(self.n_nonzero):
                check_integer("n_nonzero", K, 1, " or None")
        for value in np.ravel(self.penalty):
            check_non_negative("penalty", value)
        check_non_negative("ridge", self.ridge, infinite=True)
        check_bool("scale", self.scale)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_components_ < self.n_components:
            advice = (
                "Decrease `penalty`." if self.n_nonzero is None else "The rank of X is exhausted."
            )
            warn(
                f"SPCA: only {self.n_components_} of {self.n_components} components are nonzero. "
                f"{advice}",
                FewerComponentsWarning,
            )


def _per_component(name: str, value: Any, d: int) -> Array:
    """Return one value per component."""
    values = np.ravel(value)
    if values.size not in (1, d):
        raise ParameterError(
            f"`{name}` must be one number or one for each of the {d} components, got {value!r}"
        )
    return np.broadcast_to(values, (d,))
