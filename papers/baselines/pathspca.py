"""PathSPCA: a greedy path through all cardinalities.

[ABG08]  A. d'Aspremont, F. Bach, L. El Ghaoui. Optimal solutions for sparse principal
         component analysis. JMLR 9, 2008 (first at ICML 2007).

From the variable with the largest variance on, the variable i with the largest (c_i'w)^2 is
added, w the leading eigenvector of the variables so far. A step costs one product with C and
one eigenvector found from the last one: O(p^2), and O(p^3) for the whole path.
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
SMALL = 64  # blocks up to here are decomposed from scratch


def greedy_path(quadratic: Quadratic, K: int) -> tuple[Indices, Floats, Floats]:
    """Variables in the order in which they enter, w'Cw after each, and the last w (p,)."""
    p = quadratic.width
    order, values = np.empty(K, dtype=int), np.empty(K)
    order[0] = int(np.argmax(quadratic.diagonal()))
    block = np.empty((K, K))
    images = np.empty((p, K), order="F")  # columns of C, kept as they are met
    free = np.ones(p, dtype=bool)
    v = np.ones(1)
    for k in range(K):
        i = order[k]
        free[i] = False
        images[:, k] = quadratic.columns(order[k : k + 1])[:, 0]
        block[k, : k + 1] = block[: k + 1, k] = images[order[: k + 1], k]
        values[k], v = _leading_from(block[: k + 1, : k + 1], v)
        if k + 1 < K:
            gain = np.abs(images[:, : k + 1] @ v)
            order[k + 1] = int(np.argmax(np.where(free, gain, -1.0)))
    w = np.zeros(p)
    w[order] = v
    return order, values, w


def _leading_from(C: Floats, v: Floats) -> tuple[float, Floats]:
    """Leading eigenpair of C, whose upper left block has v."""
    k = C.shape[0]
    if k <= SMALL:
        return leading_pair(C)
    start = np.append(v, 1e-3)
    try:
        values, vectors = eigsh(C, k=1, which="LA", v0=start, ncv=8, tol=1e-10)
    except ArpackError:  # where many eigenvalues are equal
        return leading_pair(C)
    return float(values[0]), vectors[:, 0]


class PathSPCA(SparseProjection):
    """Sparse PCA by forward selection, one variable at a time.

    Parameters
    ----------
    n_components : int, default=1
        Later components see the table without the directions found before (deflation).
    n_nonzero : int or None, default=None
        Where the path of every component ends. None: at all variables.
    scale : bool, default=False
        Divide every column by its standard deviation first.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Unit rows with exact zeros, at the end of the path.
    order_ : int array (n_components_, n_nonzero)
        Columns in the order in which they enter.
    path_variances_ : array (n_components_, n_nonzero)
        Variance (of the deflated table) after each of them.
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
    >>> baselines.PathSPCA(n_nonzero=4).fit(X).path_variances_.shape
    (1, 4)
    """

    def __init__(self, n_components: int = 1, *, n_nonzero: int | None = None, scale: bool = False):
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.scale = scale

    def fit(self, X: Any, y: object = None) -> Self:
        """Follow the path of ``X`` up to ``n_nonzero`` variables, for every component.

        Parameters
        ----------
        X : table (n_samples, n_features)
            In memory, dense or sparse.
        y : ignored
            Here for scikit-learn's sake.

        Returns
        -------
        PathSPCA
            Itself.
        """
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        K = p if self.n_nonzero is None else min(self.n_nonzero, p)
        quadratic = quadratic_of(op)
        floor = RANK_TOL * float(np.sum(quadratic.diagonal()))
        paths = []
        for _ in range(self.n_components):
            path = greedy_path(quadratic, K)
            if path[1][-1] <= floor:
                break
            paths.append(path)
            quadratic = quadratic.deflated(path[2])
        self._set_components(op, columns, np.array([w for *_, w in paths]), float(n))
        kept = np.flatnonzero(self.varying_)
        self.order_ = kept[np.array([order for order, *_ in paths])]
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
