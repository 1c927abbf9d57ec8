"""What every estimator here shares: checked input in, projection and selection out."""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager

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
from ..errors import InputError, check_verbose, held_warnings, warn
from ..inference.checkpoint import Checkpoint
from ..inference.loop import StopReason
from ..numerics.spectrum import EXACT_SIDE, added_squares, sums_of_squares
from ..parallel import blas_threads, suit_blas_threads

_LEAVE_OUT = "leave these rows or columns out"
_FILL_IN = "fill missing values with column means first (scikit-learn's SimpleImputer)"
_MEND = "look for divisions by zero and logarithms of zero, which give infinity"
# What to do about entries that are not finite numbers.
_ADVICE = {
    "NaN": f"{_FILL_IN}, or {_LEAVE_OUT}.",
    "infinity": f"{_MEND}, or {_LEAVE_OUT}.",
    "NaN and infinity": f"{_FILL_IN}; {_MEND}; or {_LEAVE_OUT}.",
}

CheckpointLike = str | os.PathLike[str] | Checkpoint | None


def _dense_entries(X: TableLike) -> int:
    """The entries of the largest dense matrix that BLAS sees of a table: itself or, if it is
    sparse, the Gram matrix of its smaller side, where that is formed. Of a table on an accelerator
    it sees none: the host's own products are small, and many threads make them slower."""
    n, p = X.shape
    if on_accelerator(X):
        return 0
    if not container_of(X).is_sparse:
        return int(n * p)
    side = int(min(n, p))
    return side * side if side <= EXACT_SIDE else 0


class VariableSelector(BaseEstimator):
    """Anything that chooses columns: checks its input, and knows what it chose.

    A method sets ``support_`` in ``fit`` and inherits the rest.
    """

    # Whether tables on a GPU, on a cluster or in a large file are taken where they are; the
    # others are copied into memory by scikit-learn's checks, where that is possible.
    _takes_any_table = False

    support_: np.ndarray
    varying_: np.ndarray
    relevance_: np.ndarray
    ranking_: np.ndarray
    mean_: np.ndarray
    scale_: np.ndarray
    stop_reason_: StopReason
    _fewest_features = 2

    @contextmanager
    def _fitting(self) -> Iterator[None]:
        """Run the body of ``fit``: parameters checked, attributes of an earlier fit removed.

        BLAS uses as many threads as suit the data matrix. A fit that fails leaves the estimator as
        it was. Warnings are issued after the fit, because a warning may be turned into an error.
        """
        check_verbose(getattr(self, "verbose", 0))
        self._check_parameters()
        before = dict(self.__dict__)
        try:
            for name in [n for n in vars(self) if n.endswith("_") and not n.startswith("_")]:
                delattr(self, name)
            with held_warnings() as held, blas_threads():
                yield
        except BaseException:
            self.__dict__ = before
            raise
        for message, category in held:
            warn(message, category)
        self._warn()

    def _check_parameters(self) -> None:
        """Refuse parameters that are not allowed; nothing to refuse unless a method says so."""

    def _warn(self) -> None:
        """Warn of what the fit found; nothing to say unless a method does."""

    def _warn_unfinished(self) -> None:
        """Warn of a loop that ended before it should have, with what can be done."""
        reason: StopReason = self.stop_reason_
        if reason.unfinished:
            warn(f"{type(self).__name__} {reason}", ConvergenceWarning)

    def _validated(self, X: TableLike, *, reset: bool) -> TableLike:
        """A dense float array, in kind, or a CSR matrix, checked; names and width remembered on
        reset."""
        kind = container_of(X)
        X = kind.readable(X, allow_nan=self.__sklearn_tags__().input_tags.allow_nan)
        if self._takes_any_table and kind.stays:
            checked = kind.checked(X, 2 if reset else 1)
            validate_data(self, X, reset=reset, skip_check_array=True)
            self._refuse_missing(checked)
            if reset:
                suit_blas_threads(_dense_entries(checked))
            return checked
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
        if reset:
            suit_blas_threads(_dense_entries(checked))
        return checked

    def _refuse_missing(self, X: TableLike) -> None:
        found = container_of(X).not_finite(X)
        if found is not None and self.__sklearn_tags__().input_tags.allow_nan:
            found = container_of(X).not_finite(X, allow_nan=True)
        if found is None:
            return
        names = getattr(self, "feature_names_in_", range(X.shape[1]))
        raise InputError(
            f"Input X contains {found.in_words(names)}. {type(self).__name__} needs finite "
            f"values: {_ADVICE[found.what]}"
        )

    def _set_selection(
        self, columns: Columns, order: np.ndarray, chosen: np.ndarray, relevance: np.ndarray
    ) -> np.ndarray:
        """Translate a choice among the columns that vary to all columns of the table.

        ``order`` ranks the varying columns, ``chosen`` are the selected ones among them, whose
        places in the table are returned.
        """
        self.mean_, self.scale_, self.varying_ = columns.mean, columns.scale, columns.varying
        like, varying = columns.mean, to_numpy(columns.varying)
        width, kept = varying.size, np.flatnonzero(varying)
        support, full, ranking = np.zeros(width, dtype=bool), np.zeros(width), np.empty(width, int)
        support[kept[chosen]] = True
        full[kept] = relevance
        ranking[np.concatenate([kept[order], np.flatnonzero(~varying)])] = np.arange(1, width + 1)
        self.support_, self.ranking_ = from_numpy(support, like), from_numpy(ranking, like)
        self.relevance_ = from_numpy(full, like, like.dtype)
        return kept[chosen]

    @property
    def feature_importances_(self) -> Array:
        """``relevance_`` of the chosen variables and zero for the others, for scikit-learn's
        ``SelectFromModel`` and ``RFE``: any threshold then selects among the chosen ones."""
        check_is_fitted(self)
        return self.relevance_ * as_like(self.support_, self.relevance_, self.relevance_.dtype)

    def get_support(self, indices: bool = False) -> Array:
        """Which columns were chosen.

        Parameters
        ----------
        indices : bool, default=False
            Positions instead of a mask.

        Returns
        -------
        bool array (n_features_in_,), or int array (n_selected_,)
        """
        check_is_fitted(self)
        mask = to_numpy(self.support_)
        return from_numpy(np.flatnonzero(mask) if indices else mask.copy(), self.support_)

    def select(self, X: TableLike) -> TableLike:
        """The chosen columns of ``X``, in kind: a DataFrame stays one, sparse stays sparse.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)

        Returns
        -------
        table (n_samples, n_selected_)
        """
        check_is_fitted(self)
        self._validated(X, reset=False)
        return take_columns(X, np.flatnonzero(to_numpy(self.support_)))

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags


class SparseProjection(ClassNamePrefixFeaturesOutMixin, TransformerMixin, VariableSelector):
    """A linear projection on some of the columns.

    A method sets ``components_`` (d x p), ``mean_``, ``scale_`` and ``support_`` in ``fit``
    and inherits the rest.
    """

    components_: np.ndarray
    n_components_: int
    n_selected_: int
    n_nonzero_: np.ndarray
    explained_variance_: np.ndarray
    explained_variance_ratio_: np.ndarray

    def _standardised(
        self, X: TableLike, scale: bool, weights: np.ndarray | None = None
    ) -> tuple[Operator, Columns]:
        """The operator of the columns of ``X`` that vary, of which there must be two."""
        op, columns = standardise(self._validated(X, reset=True), scale, weights)
        if op.shape[1] < 2:
            raise InputError(few_columns(op.shape[1], columns.mean.shape[0]))
        return op, columns

    def _opened(
        self, checkpoint: CheckpointLike, X: TableLike, **others: object
    ) -> Checkpoint | None:
        """The file that this fit of ``X`` is kept in, if one was asked for; ``others`` is what it
        depends on beside the parameters, or says them in full."""
        if checkpoint is None:
            return None
        file = checkpoint if isinstance(checkpoint, Checkpoint) else Checkpoint(checkpoint)
        parameters = {"estimator": type(self).__name__, **self.get_params(deep=False), **others}
        for name in ("max_iter", "verbose"):  # these say when to stop, not where to go
            parameters.pop(name, None)
        return file.open(parameters, fingerprint(self._validated(X, reset=False)))

    def _set_columns(
        self,
        columns: Columns,
        order: np.ndarray,
        chosen: np.ndarray,
        components: np.ndarray,
        relevance: np.ndarray,
    ) -> None:
        """As `_set_selection`, with the components of the chosen columns."""
        places, like = self._set_selection(columns, order, chosen, relevance), columns.mean
        components = array_namespace(components).astype(components, like.dtype)
        self.components_ = spread(components, places, like.shape[0])

    def _set_components(self, op: Operator, columns: Columns, W: np.ndarray, total: float) -> None:
        """All that follows from components W (d x varying columns) of ``total`` observations."""
        squares, like = to_numpy(op.column_squares()), columns.mean
        along = sums_of_squares(op, W.T)
        weight = np.max(np.abs(W) * np.sqrt(along)[:, None], axis=0, initial=0.0)
        # columns of one variance, as scaled ones are, stay in their order: rounding says nothing
        order = np.lexsort((-np.round(squares / squares.max(), 9), -weight))
        chosen = np.flatnonzero(np.any(W != 0, axis=0))
        relevance = weight / max(float(weight.max()), np.finfo(float).tiny)
        self._set_columns(columns, order, chosen, from_numpy(W[:, chosen], like), relevance)
        self.n_components_, self.n_selected_ = W.shape[0], int(chosen.size)
        self.n_nonzero_ = from_numpy(np.count_nonzero(W, axis=1), like)
        variances = columns.variance(along / (total - 1.0))
        self.explained_variance_ = from_numpy(variances, like, like.dtype)
        ratio = added_squares(op, W) / float(np.sum(squares))
        self.explained_variance_ratio_ = from_numpy(ratio, like, like.dtype)

    @property
    def _n_features_out(self) -> int:
        return self.components_.shape[0]

    def _filters(self) -> np.ndarray:
        """What a centred row is multiplied with to give its scores, d x p."""
        return self.components_

    def _operator_of(self, X: TableLike, columns: np.ndarray | None = None) -> Operator:
        """New rows, validated (on some of the columns), centred and scaled as in ``fit``."""
        mean, scale = (as_like(v, X, X.dtype) for v in (self.mean_, self.scale_))
        if columns is not None:
            mean, scale = (take_columns(v[None, :], columns)[0, :] for v in (mean, scale))
            X = take_columns(X, columns)
        return operator_of(X, mean, scale)

    def transform(self, X: TableLike) -> Array:
        """Scores of the rows of ``X`` on the components.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
            Centred and scaled as in ``fit``.

        Returns
        -------
        array (n_samples, n_components_)
        """
        check_is_fitted(self)
        chosen = np.flatnonzero(to_numpy(self.support_))
        X = self._validated(X, reset=False)
        op = self._operator_of(X, chosen)
        filters = as_like(take_columns(self._filters(), chosen).T, X, op.dtype)
        scores = op.matmul(filters)
        return op.xp.astype(scores, X.dtype, copy=False) if is_floating(X) else scores

    def score(self, X: TableLike, y: object = None) -> float:
        """Share of the sum of squares of ``X``, centred and scaled as in ``fit``, that lies in the
        span of the components: 1 minus the relative error of the best reconstruction.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
        y : ignored

        Returns
        -------
        float
        """
        check_is_fitted(self)
        kept = np.flatnonzero(to_numpy(self.varying_))
        op = self._operator_of(self._validated(X, reset=False), kept)
        W = to_numpy(take_columns(self.components_, kept)).astype(float)
        total = float(np.sum(to_numpy(op.column_squares())))
        return float(np.sum(added_squares(op, W))) / total if total else 1.0

    def inverse_transform(self, X: TableLike) -> Array:
        """Rows of the table rebuilt from scores; columns that were not chosen are their mean.

        Parameters
        ----------
        X : array (n_samples, n_components_)
            Scores.

        Returns
        -------
        array (n_samples, n_features_in_)
        """
        scores = self._checked_scores(X)
        components, scale, mean = (
            as_like(v, scores, scores.dtype) for v in (self.components_, self.scale_, self.mean_)
        )
        return (scores @ components) * scale + mean

    def _checked_scores(self, X: TableLike) -> TableLike:
        """Scores that a user gives back, in kind."""
        check_is_fitted(self)
        kind = container_of(X)
        X = kind.readable(X, allow_nan=False)
        if kind.stays:
            scores = kind.finite(kind.checked(X, 1))
        else:
            scores = check_array(X, dtype=[np.float64, np.float32], ensure_min_features=0)
        if scores.ndim != 2 or scores.shape[1] != self._n_features_out:
            raise ValueError(
                f"X must be scores of shape (n_samples, {self._n_features_out}), "
                f"got shape {scores.shape}"
            )
        return scores

    def __sklearn_tags__(self) -> Tags:
        tags: Tags = super().__sklearn_tags__()
        tags.transformer_tags.preserves_dtype = ["float64", "float32"]
        return tags


def seed_of(state: int | np.random.RandomState | None) -> int:
    """The seed that scikit-learn's ``random_state`` stands for: a number itself, else drawn."""
    if isinstance(state, int | np.integer) and state >= 0:
        return int(state)
    return int(check_random_state(state).randint(2**31 - 1))


def few_columns(varying: int, width: int) -> str:
    return (
        f"{width - varying} of the {width} columns of X are constant; at least 2 must vary, or "
        "there is nothing to choose from. Check how the table was read."
    )


class HasDensity(ABC):
    """An estimator whose ``score_samples`` gives the log density of every row."""

    @abstractmethod
    def score_samples(self, X: TableLike) -> Array:
        """Log density of every row of ``X``."""

    def score(self, X: TableLike, y: object = None) -> float:
        """Mean log density of the rows of ``X``; see ``score_samples``.

        Parameters
        ----------
        X : table (n_samples, n_features_in_)
        y : ignored

        Returns
        -------
        float
        """
        samples = self.score_samples(X)
        return float(array_namespace(samples).mean(samples))
