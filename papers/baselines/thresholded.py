"""Thresholded PCA: the K largest loadings of every principal component.

[CJ95]  J. Cadima, I. T. Jolliffe. Loadings and correlations in the interpretation of principal
        components. Journal of Applied Statistics 22, 1995.
"""

from __future__ import annotations

from typing import Any, Self

import numpy as np

from prosparse.errors import ParameterError, check_bool, check_integer
from prosparse.models._base import SparseProjection
from prosparse.models.empca.quadratic import quadratic_of
from prosparse.models.empca.thresholds import Constraint, renormalise, threshold
from prosparse.numerics.spectrum import principal_components


class ThresholdedPCA(SparseProjection):
    """PCA with all but the largest loadings of each component set to zero.

    Parameters
    ----------
    n_components : int, default=1
        At most min(n_samples - 1, number of columns that vary).
    n_nonzero : int or None, default=None
        Nonzeros of every component. None: all.
    renormalize : bool, default=False
        Replace what is left of a component by the leading eigenvector of its variables.
    scale : bool, default=False
        Divide every column by its standard deviation first.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Unit rows with exact zeros.
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
    >>> baselines.ThresholdedPCA(2, n_nonzero=3).fit(X).n_nonzero_
    array([3, 3])
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        n_nonzero: int | None = None,
        renormalize: bool = False,
        scale: bool = False,
    ):
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.renormalize = renormalize
        self.scale = scale

    def fit(self, X: Any, y: object = None) -> Self:
        """Find the principal components of ``X`` and threshold them.

        Parameters
        ----------
        X : table (n_samples, n_features)
            In memory, dense or sparse.
        y : ignored
            Here for scikit-learn's sake.

        Returns
        -------
        ThresholdedPCA
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
        K = p if self.n_nonzero is None else min(self.n_nonzero, p)
        c = Constraint(K, False, np.ones(p, dtype=bool))
        W = threshold(principal_components(op, self.n_components)[0], c, soft=False)
        if self.renormalize:
            quadratic = quadratic_of(op)
            W = np.array([renormalise(quadratic, w)[1] for w in W])
        self._set_components(op, columns, W, float(n))

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        if self.n_nonzero is not None:
            check_integer("n_nonzero", self.n_nonzero, 1, " or None")
        check_bool("renormalize", self.renormalize)
        check_bool("scale", self.scale)
