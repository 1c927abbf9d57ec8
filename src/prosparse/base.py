"""What every estimator here shares: checked input in, projection and selection out."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from scipy.sparse import issparse
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from .engine.linalg import added_squares
from .errors import InputError
from .operators import Columns, Operator, standardise, standardise_weighted

Array = Any


class VariableSelector(BaseEstimator):
    """Anything that chooses columns: checks its input, and knows what it chose.

    A method sets ``support_`` in ``fit`` and inherits the rest.
    """

    support_: np.ndarray
    varying_: np.ndarray
    relevance_: np.ndarray
    ranking_: np.ndarray
    mean_: np.ndarray
    scale_: np.ndarray
    _fewest_features = 2

    def _fit_whole(self, fit: Callable[[], None]) -> Self:
        """Check the parameters, run ``fit``, and say what the user should know.

        A fit that fails leaves the estimator as it was.
        """
        self._check_parameters()
        with self._all_or_nothing():
            fit()
        self._warn()
        return self

    def _check_parameters(self) -> None:
        """Refuse parameters that are not allowed; nothing to refuse unless a method says so."""

    def _warn(self) -> None:
        """Warn of what the fit found; nothing to say unless a method does."""

    @contextmanager
    def _all_or_nothing(self) -> Iterator[None]:
        """A fit that fails leaves the estimator as it was."""
        before = dict(self.__dict__)
        try:
            yield
        except BaseException:
            self.__dict__ = before
            raise

    def _validated(self, X: Any, *, reset: bool) -> Any:
        """A dense float array or a CSR matrix, checked; names and width remembered on reset."""
        if hasattr(X, "collect_schema") and not hasattr(X, "to_numpy"):
            raise InputError("X is a lazy frame: call `collect()` on it first")
        checked = validate_data(
            self,
            X,
            reset=reset,
            accept_sparse="csr",
            dtype=[np.float64, np.float32],
            ensure_all_finite=False,
            ensure_min_samples=2 if reset else 1,
            ensure_min_features=self._fewest_features if reset else 1,
        )
        self._refuse_missing(checked)
        return checked

    def _refuse_missing(self, X: Any) -> None:
        values = X.data if issparse(X) else X
        bad = ~np.isfinite(values)
        if not bad.any():
            return
        if issparse(X):
            X = X.tocoo()
            row, column = X.row[~np.isfinite(X.data)][0], X.col[~np.isfinite(X.data)][0]
        else:
            row, column = np.argwhere(bad)[0]
        name = getattr(self, "feature_names_in_", np.arange(X.shape[1]))[column]
        what = "NaN" if np.isnan(values[bad]).any() else "infinity"
        raise InputError(
            f"Input X contains {what}: {int(bad.sum())} value(s), the first in row {row}, column "
            f"{name}. {type(self).__name__} needs finite values: drop these rows or columns, or "
            "fill them in first (scikit-learn's SimpleImputer, for one)."
        )

    def _set_selection(
        self, columns: Columns, order: np.ndarray, chosen: np.ndarray, relevance: np.ndarray
    ) -> np.ndarray:
        """Translate a choice among the columns that vary to all columns of the table.

        ``order`` ranks the varying columns, ``chosen`` are the selected ones among them, whose
        places in the table are returned.
        """
        self.mean_, self.scale_ = np.asarray(columns.mean), np.asarray(columns.scale)
        self.varying_ = np.asarray(columns.varying)
        width, kept = self.varying_.size, np.flatnonzero(self.varying_)
        self.support_ = np.zeros(width, dtype=bool)
        self.support_[kept[chosen]] = True
        self.relevance_ = np.zeros(width)
        self.relevance_[kept] = relevance
        self.ranking_ = np.empty(width, dtype=int)
        ranked = np.concatenate([kept[order], np.flatnonzero(~self.varying_)])
        self.ranking_[ranked] = np.arange(1, width + 1)
        return kept[chosen]

    def get_support(self, indices: bool = False) -> np.ndarray:
        """Which columns were chosen: a mask, or their positions."""
        check_is_fitted(self)
        return np.flatnonzero(self.support_) if indices else self.support_.copy()

    def select(self, X: Any) -> Any:
        """The chosen columns of ``X``, in kind: a DataFrame stays one, sparse stays sparse."""
        check_is_fitted(self)
        validated = self._validated(X, reset=False)
        chosen = np.flatnonzero(self.support_)
        if hasattr(X, "iloc"):  # pandas
            return X.iloc[:, chosen]
        if hasattr(X, "select") and hasattr(X, "columns"):  # polars
            return X.select([X.columns[i] for i in chosen])
        if issparse(X):
            return X.tocsc()[:, chosen].asformat(X.format)
        return X[:, chosen] if isinstance(X, np.ndarray) else validated[:, chosen]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SparseProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VariableSelector):
    """A linear projection on some of the columns.

    A method sets ``components_`` (d x p), ``mean_``, ``scale_`` and ``support_`` in ``fit``
    and inherits the rest.
    """

    components_: np.ndarray
    n_components_: int
    n_nonzero_: np.ndarray
    explained_variance_: np.ndarray
    explained_variance_ratio_: np.ndarray

    def _standardised(self, X: Any, scale: bool, weights: Any = None) -> tuple[Operator, Columns]:
        """The operator of the columns of ``X`` that vary, of which there must be two."""
        X = self._validated(X, reset=True)
        if weights is None:
            op, columns = standardise(X, scale)
        else:
            op, columns = standardise_weighted(X, scale, weights)
        varying, width = op.shape[1], columns.mean.shape[0]
        if varying < 2:
            raise InputError(
                f"{width - varying} of the {width} columns of X are constant; at least 2 must "
                "vary, or there is nothing to choose from. Check how the table was read."
            )
        return op, columns

    def _set_columns(
        self,
        columns: Columns,
        order: np.ndarray,
        chosen: np.ndarray,
        components: np.ndarray,
        relevance: np.ndarray,
    ) -> None:
        """As `_set_selection`, with the components of the chosen columns."""
        places = self._set_selection(columns, order, chosen, relevance)
        self.components_ = np.zeros((components.shape[0], self.support_.size))
        self.components_[:, places] = components

    def _set_components(self, op: Operator, columns: Columns, W: np.ndarray, total: float) -> None:
        """All that follows from components W (d x varying columns) of ``total`` observations."""
        squares = np.asarray(op.column_squares())
        along = np.sum(np.asarray(op.matmul(op.xp.asarray(W.T))) ** 2, axis=0)
        weight = np.max(np.abs(W) * np.sqrt(along)[:, None], axis=0, initial=0.0)
        order = np.lexsort((-squares, -weight))
        chosen = np.flatnonzero(np.any(W != 0, axis=0))
        relevance = weight / max(float(weight.max()), np.finfo(float).tiny)
        self._set_columns(columns, order, chosen, W[:, chosen], relevance)
        self.n_components_ = W.shape[0]
        self.n_nonzero_ = np.count_nonzero(W, axis=1)
        self.explained_variance_ = columns.unit**2 * along / (total - 1.0)
        self.explained_variance_ratio_ = added_squares(op, W) / float(np.sum(squares))

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _filters(self) -> np.ndarray:
        """What a centred row is multiplied with to give its scores, d x p."""
        return self.components_

    def transform(self, X: Any) -> np.ndarray:
        """Scores of the rows of ``X`` on the components, n x d."""
        check_is_fitted(self)
        X = self._validated(X, reset=False)
        chosen = np.flatnonzero(self.support_)
        loadings = self._filters()[:, chosen] / self.scale_[chosen]
        columns, mean = X[:, chosen], self.mean_[chosen]
        if issparse(X):
            scores = columns @ loadings.T - loadings @ mean
        else:
            scores = (columns - mean) @ loadings.T
        return np.asarray(scores).astype(X.dtype, copy=False)

    def inverse_transform(self, X: Any) -> np.ndarray:
        """Rows of the table rebuilt from scores; columns that were not chosen are their mean."""
        check_is_fitted(self)
        scores = check_array(X, dtype=[np.float64, np.float32])
        if scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"X must be scores of shape (n_samples, {self._n_features_out}), "
                f"got shape {scores.shape}"
            )
        return (scores @ self.components_) * self.scale_ + self.mean_

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags
