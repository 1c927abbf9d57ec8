"""SPCA: sparse principal components by regression with the elastic net.

[ZHT06]  H. Zou, T. Hastie, R. Tibshirani. Sparse principal component analysis. Journal of
         Computational and Graphical Statistics 15, 2006; the R package elasticnet is theirs.

    minimise  |X - X B A'|^2 + ridge |B|^2 + sum_j l1_j |b_j|_1    over A, B (p, d),  A'A = I

by turns ([ZHT06] Algorithm 1): given A every b_j is an elastic net of X a_j on X, given B the
best A is U V' from the singular value decomposition X'X B = U D V'. With `ridge` infinite the
elastic net is a soft threshold of X'X a_j (section 4, meant for p >> n), and X'X never appears.
A wished number of nonzeros replaces l1_j by the end of that segment of the elastic net's path
on which so many variables are active, as in R.
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
# From X'X a_j to b_j.
Regression = Callable[[Array, int], Array]

WEAKEST = 1e12  # beside a ridge of so many times |X|^2 X'X is rounding: the ridge is infinite
WIDEST = 5000  # with a finite ridge X'X is formed, p x p


class State(NamedTuple):
    A: Array  # (p, d) orthonormal columns
    B: Array  # (p, d) sparse columns
    bound: float  # how far the unit columns of B have travelled: ends when they rest


def objective(C: Array, state: State, ridge: float, l1: Array) -> float:
    """|X - X B A'|^2 + ridge |B|^2 + sum_j l1_j |b_j|_1 with C = X'X."""
    A, B = state.A, state.B
    fit = np.trace(C) - 2.0 * np.sum(A * (C @ B)) + np.sum(B * (C @ B))
    return float(fit + ridge * np.sum(B**2) + np.sum(np.abs(B), axis=0) @ l1)


def elastic_net(C: Array, ridge: float, K: Array | None, l1: Array | None) -> Regression:
    """b_j = argmin b'(C + ridge I) b - 2 b'C a_j + l1_j |b|_1, by least angle regression."""
    gram = C + ridge * np.eye(C.shape[0])
    p = C.shape[0]

    def solve(Ca: Array, j: int) -> Array:
        if K is None:
            assert l1 is not None
            return _lars(Ca, gram, alpha_min=0.5 * l1[j], return_path=False)
        steps = int(K[j])
        while True:  # a variable that leaves the path costs further steps
            path = _lars(Ca, gram, max_iter=steps)
            enough = np.flatnonzero(np.count_nonzero(path, axis=0) >= K[j])
            if enough.size or steps >= 8 * p or path.shape[1] <= steps:
                return path[:, enough[0] if enough.size else -1]
            steps += int(K[j])

    return solve


def _lars(Ca: Array, gram: Array, **end: Any) -> Array:
    """Coefficients of least angle regression. It warns of columns that are copies of others, which
    it leaves out, and of a path that ends in rounding: neither is for the user to mend."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return lars_path_gram(Ca, gram, n_samples=1, method="lasso", **end)[2]


def soft_threshold_regression(K: Array | None, l1: Array | None) -> Regression:
    """b_j = soft(C a_j, l1_j / 2), [ZHT06] (4.1); or the threshold that leaves K_j nonzeros."""

    def solve(Ca: Array, j: int) -> Array:
        size = np.abs(Ca)
        if K is None:
            assert l1 is not None
            cut = 0.5 * l1[j]
        else:  # of equal ones, the first; all of them are above the next smaller one
            kept = np.argsort(-size, kind="stable")[: K[j]]
            cut = np.max(size, where=size < size[kept[-1]], initial=0.0)
            size = np.where(np.isin(np.arange(size.size), kept), size, 0.0)
        return np.sign(Ca) * np.maximum(size - cut, 0.0)

    return solve


def unit_columns(B: Array) -> Array:
    lengths = np.linalg.norm(B, axis=0)
    return B / np.where(lengths > 0, lengths, 1.0)


def distance(B: Array, before: Array) -> float:
    """The largest change of an entry of a unit column; a column and its mirror are the same."""
    B, before = unit_columns(B), unit_columns(before)
    apart = np.minimum(np.abs(B - before).max(axis=0), np.abs(B + before).max(axis=0))
    return float(apart.max())


def make_step(product: Callable[[Array], Array], solve: Regression) -> Callable[[State], State]:
    """One turn of [ZHT06] Algorithm 1; ``product(B)`` is X'X B."""

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
        At most min(n_samples - 1, number of columns that vary).
    n_nonzero : int, one int per component, or None, default=None
        How many variables enter the regression of every component.
    penalty : float or one float per component, default=0.0
        Weight l1 of the absolute values, where ``n_nonzero`` is None.
    ridge : float, default=1e-6
        Weight of the squares. Infinity: soft thresholds, which need no p x p matrix.
    scale : bool, default=False
        Divide every column by its standard deviation first.
    max_iter : int, default=200
    tol : float, default=1e-3
        Iterations end when no entry of a unit loading vector changes by more.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Unit rows with exact zeros; components of which nothing is left are left out.
    support_ : bool array (n_features_in_,)
        The variables with any weight.
    n_selected_ : int
        How many there are.
    n_nonzero_ : int array (n_components_,)
        Nonzero weights of each component.
    n_components_ : int
        Components that are not zero.
    relevance_ : array (n_features_in_,)
        How much a variable takes part, relative to the one that does most.
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable.
    explained_variance_ : array (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : array (n_components_,)
        Share of the total variance that each component adds to those before it.
    mean_ : array (n_features_in_,)
    scale_ : array (n_features_in_,)
        Standard deviations of the columns if they were scaled, else ones.
    varying_ : bool array (n_features_in_,)
        False for constant columns.
    n_iter_ : int
    stop_reason_ : StopReason

    Notes
    -----
    ``penalty`` and ``ridge`` are in the units of the sums of squares X'X, as in R's elasticnet.

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
        """Find the sparse components of ``X``."""
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        d = self.n_components
        if d > min(n - 1, p):
            raise ParameterError(
                f"`n_components` must be at most min(n_samples - 1, columns that vary) = "
                f"{min(n - 1, p)}, got {d}"
            )
        K = None if self.n_nonzero is None else np.minimum(_each("n_nonzero", self.n_nonzero, d), p)
        with np.errstate(over="ignore"):  # infinite is infinite
            l1 = None if K is not None else _each("penalty", self.penalty, d) / columns.unit**2
            run = self._iterate(op, K, l1, float(np.float64(self.ridge) / columns.unit**2))
        kept = np.any(run.state.B != 0, axis=0)
        self._set_components(op, columns, unit_columns(run.state.B[:, kept]).T, float(n))
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason

    def _iterate(self, op: Operator, K: Array | None, l1: Array | None, ridge: float) -> Run[State]:
        p, xp = op.shape[1], op.xp
        if ridge > WEAKEST * float(xp.sum(op.column_squares())):
            solve = soft_threshold_regression(K, l1)

            def product(B: Array) -> Array:
                return np.asarray(op.rmatmul(op.matmul(xp.asarray(B))))
        else:
            if p > WIDEST:
                raise InputError(
                    f"X has {p} columns that vary, and SPCA with a finite ridge needs their "
                    f"covariance matrix; at most {WIDEST} are allowed. Use `ridge=inf`, which "
                    "its authors advise for wide tables."
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
            advice = "lower `penalty`" if self.n_nonzero is None else "the table has no more"
            warn(
                f"SPCA: {self.n_components_} of {self.n_components} components are not zero: "
                f"{advice}",
                FewerComponentsWarning,
            )


def _each(name: str, value: Any, d: int) -> Array:
    """One number for every component."""
    values = np.ravel(value)
    if values.size not in (1, d):
        raise ParameterError(
            f"`{name}` must be one number or one for each of the {d} components, got {value!r}"
        )
    return np.broadcast_to(values, (d,))
