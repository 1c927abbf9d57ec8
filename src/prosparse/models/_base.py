"""Base classes of all estimators: input validation, selection and projection."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import chain
from typing import Any

import numpy as np
from array_api_compat import array_namespace
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_array, check_is_fitted, validate_data

from ..data import (
    Columns,
    Operator,
    container_of,
    fingerprint,
    operator_of,
    standardise,
    take_columns,
)
from ..data.arrays import (
    Array,
    TableLike,
    as_like,
    from_numpy,
    is_floating,
    on_accelerator,
    spread,
    to_numpy,
)
from ..data.frames import data_frame
from ..errors import InputError, UnequalUnitsWarning, check_verbose, defer_warnings, warn
from ..inference.checkpoint import Checkpoint
from ..inference.loop import StopReason
from ..numerics.density import FactorCovariance, log_density
from ..numerics.spectrum import EXACT_SIDE, added_squares, sums_of_squares
from ..parallel import adapt_blas_threads, blas_threads

_DROP = "drop these rows or columns"
_IMPUTE = "fill missing values with column means first (scikit-learn's SimpleImputer)"
_FIND_CAUSE = "look for divisions by zero and logarithms of zero, which give infinity"
# Remedies for non-finite entries.
_REMEDIES = {
    "NaN": f"{_IMPUTE}, or {_DROP}.",
    "infinity": f"{_FIND_CAUSE}, or {_DROP}.",
    "NaN and infinity": f"{_IMPUTE}; {_FIND_CAUSE}; or {_DROP}.",
}

# A column has most of the variance if it exceeds this proportion of the total and this multiple of
# the median variance.
MIN_UNIT_PROPORTION, MIN_UNIT_RATIO = 0.5, 100.0

CheckpointLike = str | os.PathLike[str] | Checkpoint | None


def _largest_dense_size(X: TableLike) -> int:
    """Return the number of entries of the largest dense matrix in CPU memory.

    This is the data matrix or, for sparse data, the Gram matrix of the smaller side if that is
    formed. For data on an accelerator, products on the CPU are small.
    """
    n, p = X.shape
    if on_accelerator(X):
        return 0
    if not container_of(X).is_sparse:
        return int(n * p)
    side = int(min(n, p))
    return side * side if side <= EXACT_SIDE else 0


class VariableSelector(BaseEstimator):
    """Base class of estimators that select columns.

    ``fit`` of a subclass sets ``support_``, ``ranking_`` and ``relevance_`` (`_set_selection`).
    """

    # Whether arrays on a GPU, on a cluster or in a memory map are processed in place. Otherwise
    # scikit-learn's validation copies them to NumPy or CSR arrays.
    _accepts_any_container = False
    _min_features = 2

    # Columns of `to_frame` that a class adds to those of its bases, and the corresponding fitted
    # attributes of shape (n_features_in_,) or (k, n_features_in_). A name that ends in "_" is a
    # prefix, to which the row number is appended.
    _variable_attributes: tuple[tuple[str, str], ...] = ()
    # Columns of `to_frame` that contain positions of variables, or -1.
    _variable_references: tuple[str, ...] = ()

    support_: np.ndarray
    varying_: np.ndarray
    relevance_: np.ndarray
    ranking_: np.ndarray
    mean_: np.ndarray
    scale_: np.ndarray
    stop_reason_: StopReason

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Check the parameters, remove fitted attributes and run ``fit``.

        If the fit fails, the estimator is restored. Warnings are issued after the fit, because a
        warning may be treated as an error.
        """
        check_verbose(getattr(self, "verbose", 0))
        self._check_parameters()
        before = dict(self.__dict__)
        try:
            for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
                delattr(self, name)
            with defer_warnings() as held, blas_threads():
                yield
        except BaseException:
            self.__dict__ = before
            raise
        for message, category in held:
            warn(message, category)
        self._warn()

    def _check_parameters(self) -> None:
        """Raise an error for invalid parameters; overridden by estimators."""

    def _warn(self) -> None:
        """Issue warnings about the finished fit; overridden by estimators."""

    def _warn_unfinished(self) -> None:
        """Warn if the iterations ended before convergence."""
        reason: StopReason = self.stop_reason_
        if reason.unfinished:
            warn(f"{type(self).__name__} {reason}.", ConvergenceWarning)

    def _validate(self, X: TableLike, *, reset: bool) -> TableLike:
        """Validate ``X`` and convert it to a dense float array or a CSR matrix.

        With ``reset``, the number and the names of the columns are stored.
        """
        container = container_of(X)
        X = container.prepare(X, allow_nan=self.__sklearn_tags__().input_tags.allow_nan)
        if self._accepts_any_container and container.stays_in_place:
            checked = container.validate(X, 2 if reset else 1)
            validate_data(self, X, reset=reset, skip_check_array=True)
        else:
            checked = validate_data(
                self,
                X,
                reset=reset,
                accept_sparse="csr",
                dtype=[np.float64, np.float32],
                ensure_all_finite=False,
                ensure_min_samples=2 if reset else 1,
                ensure_min_features=self._min_features if reset else 1,
            )
        self._check_finite(checked)
        if reset:
            adapt_blas_threads(_largest_dense_size(checked))
        return checked

    def _allows_missing(self, X: TableLike) -> bool:
        """Return whether a matrix of this container type may have missing values."""
        return bool(self.__sklearn_tags__().input_tags.allow_nan)

    def _check_finite(self, X: TableLike) -> None:
        """Raise an error for infinite entries and disallowed missing values."""
        found = container_of(X).find_non_finite(X)
        if found is not None and self._allows_missing(X):
            found = container_of(X).find_non_finite(X, allow_nan=True)
        if found is None:
            return
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        raise InputError(
            f"Input X contains {found.describe(names)}. {type(self).__name__} needs finite "
            f"values: {_REMEDIES[found.what]}"
        )

    def _set_selection(
        self, columns: Columns, order: np.ndarray, selected: np.ndarray, relevance: np.ndarray
    ) -> np.ndarray:
        """Set the attributes of a selection among the varying columns.

        ``order`` sorts the columns by relevance. The positions of the selected columns in ``X`` are
        returned.
        """
        self.mean_, self.scale_, self.varying_ = columns.mean, columns.scale, columns.varying
        like, varying = columns.mean, to_numpy(columns.varying)
        width, positions = varying.size, np.flatnonzero(varying)
        support, full, ranking = np.zeros(width, dtype=bool), np.zeros(width), np.empty(width, int)
        support[positions[selected]] = True
        full[positions] = relevance
        ranked = np.concatenate([positions[order], np.flatnonzero(~varying)])
        ranking[ranked] = np.arange(1, width + 1)
        self.support_, self.ranking_ = from_numpy(support, like), from_numpy(ranking, like)
        self.relevance_ = from_numpy(full, like, like.dtype)
        return positions[selected]

    @property
    def feature_importances_(self) -> Array:
        """Relevance of the selected variables, zero for all others.

        scikit-learn's ``SelectFromModel`` and ``RFE`` read this attribute. Any positive threshold
        excludes variables that are not selected.
        """
        check_is_fitted(self)
        return self.relevance_ * as_like(self.support_, self.relevance_, self.relevance_.dtype)

    def get_support(self, indices: bool = False) -> Array:
        """Return a mask or the positions of the selected columns.

        Parameters
        ----------
        indices : bool, default=False
            Whether to return positions instead of a mask.

        Returns
        -------
        ndarray of bool, shape (n_features_in_,), or of int, shape (n_selected_,)
        """
        check_is_fitted(self)
        mask = to_numpy(self.support_)
        return from_numpy(np.flatnonzero(mask) if indices else mask.copy(), self.support_)

    def select(self, X: TableLike) -> TableLike:
        """Return the selected columns of ``X`` in the container type of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data with the columns of ``fit``.

        Returns
        -------
        array, sparse matrix or DataFrame of shape (n_samples, n_selected_)
        """
        check_is_fitted(self)
        self._validate(X, reset=False)
        return take_columns(X, np.flatnonzero(to_numpy(self.support_)))

    def to_frame(self) -> Any:
        """Return the results for each variable as a pandas DataFrame.

        Returns
        -------
        pandas.DataFrame
            One row per variable, in the order of the columns of ``X``, indexed by column name
            (``x0``, ``x1``, ... without names). The columns are ``selected``, ``ranking``,
            ``relevance``, the results of the method for each variable, ``mean``, ``scale``, and
            one column per component. Results that were not computed have no column.
        """
        check_is_fitted(self)
        width = self.n_features_in_
        names = list(getattr(self, "feature_names_in_", [f"x{k}" for k in range(width)]))
        declared = [vars(base).get("_variable_attributes", ()) for base in type(self).__mro__]
        attributes = [
            ("selected", "support_"),
            ("ranking", "ranking_"),
            ("relevance", "relevance_"),
            *chain.from_iterable(declared),
            ("mean", "mean_"),
            ("scale", "scale_"),
        ]
        single: dict[str, Any] = {}
        numbered: dict[str, Any] = {}
        for name, attribute in attributes:
            if getattr(self, attribute, None) is None:
                continue
            values = to_numpy(getattr(self, attribute))
            if name.endswith("_") or (values.ndim == 2 and values.shape[0] > 1):
                prefix = name.rstrip("_")
                numbered |= {f"{prefix}_{k}": row for k, row in enumerate(values)}
            elif name in self._variable_references:
                single[name] = [names[k] if k >= 0 else None for k in values.tolist()]
            else:
                single[name] = values.reshape(width)
        return data_frame({**single, **numbered}, names, "variable")

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SparseProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VariableSelector):
    """Base class of linear projections on selected columns.

    ``fit`` of a subclass sets ``components_`` (d x p), ``mean_``, ``scale_`` and ``support_``.
    """

    _variable_attributes: tuple[tuple[str, str], ...] = (("component_", "components_"),)

    components_: np.ndarray
    n_components_: int
    n_selected_: int
    n_nonzero_: np.ndarray
    explained_variance_: np.ndarray
    explained_variance_ratio_: np.ndarray

    def _standardise(
        self, X: TableLike, scale: bool, weights: np.ndarray | None = None
    ) -> tuple[Operator, Columns]:
        """Standardise ``X``, which must have at least two varying columns."""
        op, columns = standardise(self._validate(X, reset=True), scale, weights)
        check_varying(op, columns)
        if not scale:
            self._warn_about_units(op, columns)
        return op, columns

    def _warn_about_units(self, op: Operator, columns: Columns) -> None:
        """Warn if one column has most of the variance."""
        squares = to_numpy(op.column_squares()).astype(float)
        largest, total = int(np.argmax(squares)), float(np.sum(squares))
        typical = float(np.median(squares))
        if squares[largest] <= max(MIN_UNIT_PROPORTION * total, MIN_UNIT_RATIO * typical):
            return
        position = int(columns.varying_index[largest])
        names = getattr(self, "feature_names_in_", None)
        column = f"column {position if names is None else repr(str(names[position]))}"
        by_parameter = "scale" in self.get_params(deep=False)
        remedy = "set `scale=True`" if by_parameter else "standardise the columns"
        warn(
            f"{type(self).__name__}: {column} has {squares[largest] / total:.0%} of the variance, "
            f"and the components describe mainly this column. If units differ, {remedy}.",
            UnequalUnitsWarning,
        )

    def _open_checkpoint(
        self, checkpoint: CheckpointLike, X: TableLike, **others: object
    ) -> Checkpoint | None:
        """Open the checkpoint of this fit of ``X``, if one was requested.

        ``others`` are further inputs that determine the result.
        """
        if checkpoint is None:
            return None
        file = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False)}
        # These parameters affect when the iterations stop, but not the sequence of iterates.
        for name in ("max_iter", "verbose"):
            parameters.pop(name, None)
        return file.open(parameters | others, fingerprint(self._validate(X, reset=False)))

    def _set_columns(
        self,
        columns: Columns,
        order: np.ndarray,
        selected: np.ndarray,
        components: np.ndarray,
        relevance: np.ndarray,
    ) -> None:
        """Set the selection and the components of the selected columns."""
        positions = self._set_selection(columns, order, selected, relevance)
        like = columns.mean
        components = array_namespace(components).astype(components, like.dtype)
        self.components_ = spread(components, positions, like.shape[0])

    def _set_components(self, op: Operator, columns: Columns, W: np.ndarray, total: float) -> None:
        """Set all attributes that depend on the components W (d, n_varying).

        ``total`` is the number of observations.
        """
        squares, like = to_numpy(op.column_squares()), columns.mean
        along = sums_of_squares(op, W.T)
        weight = np.max(np.abs(W) * np.sqrt(along)[:, None], axis=0, initial=0.0)
        # Scaled columns have equal variances up to rounding errors, which must not affect the
        # order.
        order = np.lexsort((-np.round(squares / squares.max(), 9), -weight))
        selected = np.flatnonzero(np.any(W != 0, axis=0))
        relevance = weight / max(float(weight.max()), np.finfo(float).tiny)
        self._set_columns(columns, order, selected, from_numpy(W[:, selected], like), relevance)
        self.n_components_, self.n_selected_ = W.shape[0], int(selected.size)
        self.n_nonzero_ = from_numpy(np.count_nonzero(W, axis=1), like)
        variances = columns.variance(along / (total - 1.0))
        self.explained_variance_ = from_numpy(variances, like, like.dtype)
        ratio = added_squares(op, W) / float(np.sum(squares))
        self.explained_variance_ratio_ = from_numpy(ratio, like, like.dtype)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _projection(self) -> np.ndarray:
        """Return the matrix (d, p) that maps standardised rows to scores."""
        return self.components_

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        """Standardise new rows, or some of their columns, as in ``fit``."""
        mean, scale = (as_like(v, X, X.dtype) for v in (self.mean_, self.scale_))
        if columns is not None:
            mean, scale = (take_columns(v[None, :], columns)[0, :] for v in (mean, scale))
            X = take_columns(X, columns)
        return operator_of(X, mean, scale)

    def transform(self, X: TableLike) -> Array:
        """Project rows on the components.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``, which are centred and scaled as in ``fit``.

        Returns
        -------
        ndarray of shape (n_samples, n_components_)
            Scores.
        """
        return self._transform(X)

    def _transform(self, X: TableLike, **metadata: Any) -> Array:
        """Project rows after standardisation by `_operator_of`."""
        check_is_fitted(self)
        selected = np.flatnonzero(to_numpy(self.support_))
        X = self._validate(X, reset=False)
        op = self._operator_of(X, selected, **metadata)
        projection = as_like(take_columns(self._projection(), selected).T, X, op.dtype)
        scores = self._project(op, projection)
        return op.xp.astype(scores, X.dtype, copy=False) if is_floating(X) else scores

    def _project(self, op: Operator, projection: Array) -> Array:
        """Compute the scores of standardised rows."""
        return op.matmul(projection)

    def score(self, X: TableLike, y: object = None) -> float:
        """Return the proportion of variance explained by the components.

        The score is 1 minus the relative squared error of the least-squares reconstruction of ``X``
        from the components, centred and scaled as in ``fit``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``.
        y : object
            Ignored. Present for API consistency.

        Returns
        -------
        float
        """
        return self._score(X)

    def _score(self, X: TableLike, **metadata: Any) -> float:
        """Compute `score` of rows standardised by `_operator_of`."""
        check_is_fitted(self)
        varying = np.flatnonzero(to_numpy(self.varying_))
        op = self._operator_of(self._validate(X, reset=False), varying, **metadata)
        W = to_numpy(take_columns(self.components_, varying)).astype(float)
        total = float(np.sum(to_numpy(op.column_squares())))
        return float(np.sum(added_squares(op, W))) / total if total else 1.0

    def inverse_transform(self, X: TableLike) -> Array:
        """Reconstruct rows from scores.

        Columns that are not selected are reconstructed by their means.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_components_)
            Scores.

        Returns
        -------
        ndarray of shape (n_samples, n_features_in_)
        """
        scores = self._validate_scores(X)
        components, scale, mean = (
            as_like(v, scores, scores.dtype) for v in (self.components_, self.scale_, self.mean_)
        )
        return (scores @ components) * scale + mean

    def _validate_scores(self, X: TableLike) -> TableLike:
        """Validate scores and retain their array library."""
        check_is_fitted(self)
        container = container_of(X)
        X = container.prepare(X, allow_nan=False)
        if container.stays_in_place:
            min_size = min(1, self._n_features_out)  # models may have no components
            scores = container.require_finite(container.validate(X, min_size))
        else:
            scores = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0)
        if scores.ndim != 2 or scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"X must be scores of shape (n_samples, {self._n_features_out}), "
                f"got shape {scores.shape}."
            )
        return scores

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def seed_of(state: int | np.random.RandomState | None) -> int:
    """Convert a ``random_state`` to a non-negative seed."""
    if isinstance(state, int | np.integer) and state >= 0:
        return int(state)
    return int(check_random_state(state).randint(2**31 - 1))


def check_varying(op: Operator, columns: Columns) -> None:
    """Raise an error if fewer than two columns vary."""
    varying, width = op.shape[1], columns.mean.shape[0]
    if varying < 2:
        raise InputError(
            f"{width - varying} of the {width} columns of X are constant; at least 2 must vary. "
            "Check how the data were read."
        )


class HasDensity(ABC):
    """Base class of estimators with a density of rows."""

    @abstractmethod
    def score_samples(self, X: TableLike) -> Array:
        """Compute the log density of each row of ``X``."""

    def score(self, X: TableLike, y: object = None) -> float:
        """Compute the mean log density of the rows of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``.
        y : object
            Ignored. Present for API consistency.

        Returns
        -------
        float
        """
        samples = self.score_samples(X)
        return float(array_namespace(samples).mean(samples))


class GaussianProjection(HasDensity, SparseProjection):
    """Projection with a Gaussian density of the varying columns.

    The covariance matrix is the sum of a low-rank and a diagonal matrix (`_factor_covariance`).
    """

    @abstractmethod
    def _factor_covariance(self) -> FactorCovariance:
        """Return the covariance matrix of the standardised varying columns."""

    def score_samples(self, X: TableLike) -> Array:
        """Return the log density of each row.

        Columns that were constant in ``fit`` are ignored.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features_in_)
            Data in the units of ``fit``.

        Returns
        -------
        ndarray of shape (n_samples,)
        """
        check_is_fitted(self)
        X = self._validate(X, reset=False)
        op, covariance = self._operator_of(X), self._factor_covariance()
        components = as_like(covariance.components, X, op.dtype)
        covariance = covariance._replace(components=components)
        scale = to_numpy(self.scale_)[to_numpy(self.varying_)]
        return log_density(op, covariance) - float(np.sum(np.log(scale)))

    def get_covariance(self) -> Array:
        """Return the covariance matrix of the model, in the units of the data.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
            Rows and columns of variables that were constant in ``fit`` are zero.
        """
        check_is_fitted(self)
        scale = to_numpy(self.scale_).astype(float)
        covariance = self._factor_covariance().matrix(scale.size) * np.outer(scale, scale)
        return from_numpy(covariance, self.mean_, self.mean_.dtype)

    def get_precision(self) -> Array:
        """Return the inverse of the covariance matrix of the varying columns.

        Returns
        -------
        ndarray of shape (n_features_in_, n_features_in_)
            Rows and columns of variables that were constant in ``fit`` are zero.
        """
        check_is_fitted(self)
        scale = to_numpy(self.scale_).astype(float)
        precision = self._factor_covariance().inverse(scale.size) / np.outer(scale, scale)
        return from_numpy(precision, self.mean_, self.mean_.dtype)
