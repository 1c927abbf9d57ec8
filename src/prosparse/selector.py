"""Feature selection as a transformer, for scikit-learn pipelines."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from sklearn import get_config
from sklearn.base import BaseEstimator, MetaEstimatorMixin, clone
from sklearn.feature_selection import SelectorMixin
from sklearn.utils import Tags, get_tags
from sklearn.utils.metadata_routing import MetadataRouter, MethodMapping, process_routing
from sklearn.utils.validation import check_is_fitted

from .data.arrays import TableLike, to_numpy
from .errors import ParameterError
from .models._base import VariableSelector


class Selector(MetaEstimatorMixin, SelectorMixin, BaseEstimator):
    """Transformer that returns the columns selected by an estimator.

    The method ``transform`` of the estimators returns scores on components. `Selector` returns the
    selected columns instead, so that the next step of a pipeline receives the variables.

    Parameters
    ----------
    estimator : VariableSelector
        Estimator of prosparse, such as `FDRPCA` or `Panel`, which is cloned before the fit.

    Attributes
    ----------
    estimator_ : VariableSelector
        Fitted clone of ``estimator``.
    n_features_in_ : int
        Number of columns seen in ``fit``.
    feature_names_in_ : ndarray of str, shape (n_features_in_,)
        Column names seen in ``fit``, if all of them are strings.

    See Also
    --------
    sklearn.feature_selection.SelectFromModel : Selects by a threshold on the importances.

    Examples
    --------
    >>> from sklearn.linear_model import LinearRegression
    >>> from sklearn.pipeline import make_pipeline
    >>> from prosparse import FDRPCA, Selector, datasets
    >>> X, truth, _ = datasets.make_globally_sparse(100, 50, scale=True, random_state=0)
    >>> Selector(FDRPCA()).fit_transform(X).shape
    (100, 11)
    >>> y = X[:, truth].sum(axis=1)
    >>> model = make_pipeline(Selector(FDRPCA()), LinearRegression()).fit(X, y)
    >>> model[-1].coef_.shape
    (11,)
    """

    estimator_: VariableSelector

    def __init__(self, estimator: VariableSelector):
        self.estimator = estimator

    def fit(self, X: TableLike, y: object = None, **fit_params: Any) -> Self:
        """Fit a clone of the estimator.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix, in any container accepted by the estimator.
        y : array-like or None, default=None
            Response, for estimators that require one.
        **fit_params : dict
            Further arguments of the estimator's ``fit``, such as ``groups``. If metadata routing is
            enabled, the estimator must request these (``set_fit_request``).

        Returns
        -------
        Selector
            The fitted transformer.
        """
        if not isinstance(self.estimator, VariableSelector):
            raise ParameterError(
                "`estimator` must be an estimator of prosparse that selects variables, such as "
                f"FDRPCA(), got {self.estimator!r}."
            )
        if fit_params and get_config()["enable_metadata_routing"]:
            fit_params = process_routing(self, "fit", **fit_params).estimator.fit
        estimator = clone(self.estimator).fit(X, y, **fit_params)
        self.__dict__.pop("feature_names_in_", None)
        self.estimator_ = estimator
        if hasattr(estimator, "feature_names_in_"):
            self.feature_names_in_ = estimator.feature_names_in_
        return self

    def transform(self, X: TableLike) -> TableLike:
        """Return the selected columns of ``X`` in the container type of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data with the columns of ``fit``.

        Returns
        -------
        array, sparse matrix or DataFrame of shape (n_samples, n_selected)
        """
        check_is_fitted(self)
        return self.estimator_.select(X if hasattr(X, "shape") else np.asarray(X))

    @property
    def n_features_in_(self) -> int:
        """Number of columns seen in ``fit``."""
        if not hasattr(self, "estimator_"):
            raise AttributeError(f"{type(self).__name__} has no `n_features_in_` before `fit`")
        return int(self.estimator_.n_features_in_)

    def _get_support_mask(self) -> np.ndarray:
        check_is_fitted(self)
        return to_numpy(self.estimator_.support_)

    def get_metadata_routing(self) -> MetadataRouter:
        """Return the metadata routing of the transformer.

        Returns
        -------
        MetadataRouter
            Routing of the arguments of ``fit`` to the estimator.
        """
        mapping = MethodMapping().add(caller="fit", callee="fit")
        return MetadataRouter(owner=type(self).__name__).add(
            estimator=self.estimator, method_mapping=mapping
        )

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        inner = get_tags(self.estimator)
        tags.input_tags.sparse = inner.input_tags.sparse
        tags.input_tags.allow_nan = inner.input_tags.allow_nan
        tags.target_tags.required = inner.target_tags.required
        return tags
