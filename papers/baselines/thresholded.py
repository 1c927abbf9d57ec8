"""Thresholded PCA: the K largest loadings of each principal component.

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
        Number of components, at most min(n_samples - 1, number of varying columns).
    n_nonzero : int or None, default=None
        Number of nonzero loadings per component. None keeps all loadings.
    renormalize : bool, default=False
        Whether to replace each component by the leading eigenvector of its selected variables.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Unit rows with exact zeros.
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
        """Fit the principal components of ``X`` and threshold them.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Dense or sparse data matrix in memory.
        y : ignored
            Present for compatibility with scikit-learn.

        Returns
        -------
        ThresholdedPCA
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
