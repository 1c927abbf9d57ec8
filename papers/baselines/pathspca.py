"""PathSPCA: greedy forward selection over all cardinalities.

[ABG08]  A. d'Aspremont, F. Bach, L. El Ghaoui. Optimal solutions for sparse principal
         component analysis. JMLR 9, 2008 (first at ICML 2007).

The path starts with the variable of largest variance. Each step adds the variable i with the
largest (c_i'w)^2, where w is the leading eigenvector of the current submatrix. A step needs one
product with C and one warm-started eigenvector: O(p^2), and O(p^3) for the complete path.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from scipy.sparse.linalg import ArpackError, eigsh

from prosparse.errors import FewerComponentsWarning, check_bool, check_integer, warn
from prosparse.inference.loop import StopReason
from prosparse.models._base import SparseProjection
from prosparse.models.empca.quadratic import Floats, Indices, Quadratic, leading_pair, quadratic_of

RANK_TOL = 1e-12
MAX_DENSE = 64  # maximum size of a submatrix that is fully decomposed


def greedy_path(quadratic: Quadratic, K: int) -> tuple[Indices, Floats, Floats]:
    """Return variables in order of entry, w'Cw after each, and the final w (p,)."""
    p = quadratic.width
    order, values = np.empty(K, dtype=int), np.empty(K)
    order[0] = int(np.argmax(quadratic.diagonal()))
    block = np.empty((K, K))
    images = np.empty((p, K), order="F")  # columns of C for the selected variables
    free = np.ones(p, dtype=bool)
    v = np.ones(1)
    for k in range(K):
        i = order[k]
        free[i] = False
        images[:, k] = quadratic.columns(order[k : k + 1])[:, 0]
        block[k, : k + 1] = block[: k + 1, k] = images[order[: k + 1], k]
        values[k], v = _update_leading_pair(block[: k + 1, : k + 1], v)
        if k + 1 < K:
            gain = np.abs(images[:, : k + 1] @ v)
            order[k + 1] = int(np.argmax(np.where(free, gain, -1.0)))
    w = np.zeros(p)
    w[order] = v
    return order, values, w


def _update_leading_pair(C: Floats, v: Floats) -> tuple[float, Floats]:
    """Return the leading eigenpair of C, started from that of its leading submatrix."""
    k = C.shape[0]
    if k <= MAX_DENSE:
        return leading_pair(C)
    start = np.append(v, 1e-3)
    try:
        values, vectors = eigsh(C, k=1, which="LA", v0=start, ncv=8, tol=1e-10)
    except ArpackError:  # Arpack fails if many eigenvalues are equal.
        return leading_pair(C)
    return float(values[0]), vectors[:, 0]


class PathSPCA(SparseProjection):
    """Sparse PCA by forward selection, one variable at a time.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, extracted one after the other with deflation.
    n_nonzero : int or None, default=None
        Number of nonzero loadings at the end of the path. None selects all variables.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Unit rows with exact zeros, at the end of the path.
    order_ : ndarray of int of shape (n_components_, n_nonzero)
        Columns in order of entry.
    path_variances_ : ndarray of shape (n_components_, n_nonzero)
        Variance (after deflation) at each cardinality.
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
    >>> baselines.PathSPCA(n_nonzero=4).fit(X).path_variances_.shape
    (1, 4)
    """

    def __init__(self, n_components: int = 1, *, n_nonzero: int | None = None, scale: bool = False):
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.scale = scale

    def fit(self, X: Any, y: object = None) -> Self:
        """Fit the path of each component to ``X``.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense or sparse data matrix in memory.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        PathSPCA
            The fitted estimator.
        """
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        K = p if self.n_nonzero is None else min(self.n_nonzero, p)
        quadratic = quadratic_of(op)
        threshold = RANK_TOL * float(np.sum(quadratic.diagonal()))
        paths = []
        for _ in range(self.n_components):
            path = greedy_path(quadratic, K)
            if path[1][-1] <= threshold:
                break
            paths.append(path)
            quadratic = quadratic.deflate(path[2])
        self._set_components(op, columns, np.array([w for *_, w in paths]), float(n))
        varying_index = np.flatnonzero(self.varying_)
        self.order_ = varying_index[np.array([order for order, *_ in paths])]
        self.path_variances_ = columns.variance(np.array([v for _, v, _ in paths])) / (n - 1)

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        if self.n_nonzero is not None:
            check_integer("n_nonzero", self.n_nonzero, 1, " or None")
        check_bool("scale", self.scale)

    def _warn(self) -> None:
        if self.n_components_ < self.n_components:
            warn(
                f"PathSPCA found {self.n_components_} of {self.n_components} components: "
                f"{StopReason.EXHAUSTED}",
                FewerComponentsWarning,
            )
