"""Sparse probabilistic projections: sparse PCA, sparse CCA, and factors of many views.

[AB08]  C. Archambeau, F. Bach. Sparse probabilistic projections. NIPS 21, 2008.

The model and its passes over the data are in `engine.factors`, the weights of all rows at once
in `engine.rows`, what a fitted model says about new rows in `engine.conditional`.
"""

from __future__ import annotations

import math
import warnings
from typing import Any, NamedTuple

import numpy as np
from array_api_compat import array_namespace
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, DenseOperator, Operator, kind_of, standardise, take_columns
from ...data.arrays import host, in_kind, is_floating, spread
from ...errors import (
    InputError,
    NoStructureWarning,
    ParameterError,
    check_choice,
    check_integer,
    check_non_negative,
    warn,
)
from ...inference.checkpoint import Checkpoint
from ...inference.loop import Run, StopReason, iterate, residual_rounding
from ...inference.progress import Progress
from ...numerics.spectrum import spectrum
from ...selection.dimension import completed, counted
from .._base import HasDensity, SparseProjection, few_columns
from .conditional import (
    Factors,
    expected,
    has_gaps,
    latents,
    log_density,
    variances,
)
from .gaps import GappyTable, filled
from .gig import HyperbolicPrior
from .model import (
    Layout,
    Parameters,
    accelerator,
    init,
    layout,
    make_hyperbolic_step,
    make_relevance_step,
)
from .start import initial_weights
from .views import (
    CompleteTable,
    Table,
    check_names,
    column_groups,
    in_old_places,
    is_list_of_tables,
    names_of,
    one_table,
    private_counts,
    varying_groups,
)

PRIORS = ("ard", "hyperbolic")
STRONGEST = 1e100  # scale of the hyperbolic prior, times the largest square of the table


class Prediction(NamedTuple):
    """A predicted view: ``mean`` and ``variance``, that of an observation around the mean, both
    (n_samples, columns of the view)."""

    mean: np.ndarray
    variance: np.ndarray


class SCA(HasDensity, SparseProjection):
    """Sparse probabilistic projections of one, two or many views.

    One view: sparse PCA. Two: sparse canonical correlation (inter-battery) analysis. More: group
    factor analysis. Missing entries (NaN) and missing views are handled exactly.

    Parameters
    ----------
    n_components : int or "auto", default="auto"
        Latents shared by all views. "auto" counts the eigenvalues of the table that stand out
        from white noise. Latents that no variable needs are removed.
    prior : {"ard", "hyperbolic"}, default="ard"
        "ard": relevance determination, nothing to set, with posterior uncertainty.
        "hyperbolic": maximum a posteriori under a generalised hyperbolic prior.
    a, b : float, default=0.0
        The hyperbolic prior's shape a / (n_features * latents) and scale. Both zero is
        Normal-Jeffreys, which has no parameter and does not depend on the units of the table;
        ``a = n_features * latents`` is the Laplace prior, an l1 penalty of ``sqrt(2 b)``.
        A larger ``b`` gives more zeros. Ignored under "ard".
    n_private : int or list of int, default=0
        Latents of each view's own; one number for all views, or one per view.
    views : list or None, default=None
        Column groups: names, slices or positions, one group per view. None: one view, or, if
        ``fit`` is given a list of tables, one view per table.
    max_iter, tol : int, default=1000; float, default=1e-9
        The most passes over the data; the rise of the objective per entry that ends them.
    random_state, verbose : None; int, default=0
        Nothing here is random; ``verbose=1`` shows a progress bar.

    Attributes
    ----------
    components_ : array (latents, n_features_in_)
        The loadings Lambda' with exact zeros: shared latents first, then those of each view.
        Latents have unit variance, so the squares of a row add up to its explained variance.
    components_std_ : array, the same shape
        Posterior standard deviations of the loadings ("ard" only).
    view_components_, view_columns_ : lists of arrays (latents, columns of the view), (columns,)
    view_names_ : list of arrays (columns of the view,), or None for views without column names
    latent_view_ : int array (latents,)
        -1 for shared latents, else the view a latent belongs to.
    n_components_, n_private_, n_removed_ : int, list of int, int
        Shared and private latents that are left, and how many were removed.
    noise_variance_ : array (views,)
    explained_variance_ : array (latents,)
    support_, relevance_, ranking_, n_selected_
        Variables with any loading; the norm of their loadings relative to the largest.
    mean_, scale_, varying_ : arrays (n_features_in_,)
    bounds_ : array (n_iter_,)
        "ard": lower bound of the log evidence; "hyperbolic": the exact log posterior (a zero
        weight under a prior that is infinite there counts as one of 1e-12 of the table's
        scale). Never falls.
    n_iter_, stop_reason_ : int, StopReason

    Notes
    -----
    Constant columns get no loading and do not count in `score`.

    References
    ----------
    Archambeau & Bach (2008), NIPS 21.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse import SCA
    >>> rng = np.random.default_rng(0)
    >>> z = rng.normal(size=(100, 1))
    >>> X1, X2 = (z * [1, 1, 0, 0] + 0.3 * rng.normal(size=(100, 4)) for _ in range(2))
    >>> model = SCA(n_components=1).fit([X1, X2])
    >>> (model.components_ != 0).astype(int).tolist()
    [[1, 1, 0, 0, 1, 1, 0, 0]]
    >>> model.predict_view([X1, None], target=1).mean.shape
    (100, 4)
    """

    _takes_any_table = True

    def __init__(
        self,
        n_components: int | str = "auto",
        *,
        prior: str = "ard",
        a: float = 0.0,
        b: float = 0.0,
        n_private: Any = 0,
        views: Any = None,
        max_iter: int = 1000,
        tol: float = 1e-9,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.prior = prior
        self.a = a
        self.b = b
        self.n_private = n_private
        self.views = views
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, *, checkpoint: Any = None) -> SCA:
        """Fit the weights of all views jointly; ``X`` is a table or a list of tables, and
        ``checkpoint`` (a path or a `Checkpoint`) keeps the state of a long fit in a file."""
        return self._fit_whole(lambda: self._fit(X, checkpoint))

    def _fit(self, X: Any, checkpoint: Any) -> None:
        tables = list(X) if is_list_of_tables(X) else None
        X, views = one_table(X, self.views)
        X = self._validated(X, reset=True)
        names = getattr(self, "feature_names_in_", None)
        self.view_columns_ = column_groups(views, X.shape[1], names)
        self._name_views(tables)
        op, columns, seen = self._operator(X)
        groups = varying_groups(self.view_columns_, host(columns.varying))
        private = private_counts(self.n_private, len(groups))
        table, start_op = self._table(op, seen, sum(private))
        shared = self._shared(start_op, table.n, sum(private))
        lay = layout(groups, shared, private)
        L, noise = initial_weights(start_op, table.n, groups, shared, private)
        # a list of tables says in `fit` which views there are, and may be cut elsewhere next time
        file = self._opened(checkpoint, X, views=self.view_columns_ if views else None)
        run = self._iterate(table, lay, L, noise, columns.unit, file)
        log_unit = float(table.observed.sum()) * math.log(columns.unit)
        if self.prior == "hyperbolic":  # a density of weights, too, has units
            log_unit += float(lay.allowed.sum()) * math.log(columns.unit)
        self.bounds_ = in_kind(np.array(run.bounds) - log_unit, columns.mean)
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason
        self._keep(run.state.fitted, lay, columns, private)

    def _name_views(self, tables: list[Any] | None) -> None:
        """Remember the column names of every view; of a list of tables, those of all together
        are the names of the columns, unless two views share one."""
        names = getattr(self, "feature_names_in_", None)
        if tables is None:
            self.view_names_ = [None if names is None else names[c] for c in self.view_columns_]
            return
        self.view_names_ = [names_of(table, number) for number, table in enumerate(tables)]
        known = [part for part in self.view_names_ if part is not None]
        if len(known) == len(tables):
            together = np.concatenate(known)
            if len(set(together)) == together.size:
                self.feature_names_in_ = together

    def _operator(self, X: Any) -> tuple[Operator, Columns, np.ndarray | None]:
        """The centred table without constant columns, and what of it was observed."""
        if has_gaps(X):
            op, columns, seen = filled(X)
        else:
            (op, columns), seen = standardise(X), None
        if op.shape[1] < 2:
            raise InputError(few_columns(op.shape[1], X.shape[1]))
        return op, columns, seen

    def _table(self, op: Operator, seen: np.ndarray | None, private: int) -> tuple[Table, Operator]:
        """The table to iterate on and the operator to start from; n > p is reduced to p rows."""
        n, p = op.shape
        if seen is not None:
            (block,) = (np.asarray(rows) for _, rows in op.blocks())
            count = None if isinstance(self.n_components, str) else self.n_components + private
            full = completed(block, seen, count)
            return GappyTable(block, seen), DenseOperator(full - full.mean(axis=0))
        reduced = spectrum(op).table if n > p else op
        return CompleteTable(reduced, n), reduced

    def _shared(self, op: Operator, n: int, private: int) -> int:
        if not isinstance(self.n_components, str):
            return int(self.n_components)
        return max(1, counted(host(spectrum(op).eigenvalues), n, op.shape[1]) - private)

    def _iterate(
        self,
        table: Table,
        lay: Layout,
        L: np.ndarray,
        noise: np.ndarray,
        unit: float,
        file: Checkpoint | None,
    ) -> Run:
        if self.prior == "ard":
            prior, step = None, make_relevance_step(table, lay)
        else:
            shape = self.a / (self.n_features_in_ * L.shape[1])
            if self.b * unit**2 > STRONGEST:
                raise ParameterError(
                    f"`b` = {self.b:g} leaves no weight in a table with entries of {unit:.1g}: b "
                    "is in units of one over a variance"
                )
            prior = HyperbolicPrior(shape, self.b * unit**2)
            step = make_hyperbolic_step(table, lay, prior)
        total = float(np.sum(table.squares))
        return iterate(
            step,
            init(L, noise, prior),
            max_iter=self.max_iter,
            tol=self.tol * float(table.observed.sum()),
            accelerator=accelerator(),
            exhausted=lambda state: not np.any(state.fitted.L),
            rounding=lambda state: residual_rounding(state, total, 1.0 / state.ahead.tau.max()),
            progress=Progress(self.max_iter, "SCA", self.verbose),
            checkpoint=file.stage("weights") if file else None,
        )

    def _keep(self, fitted: Parameters, lay: Layout, columns: Columns, private: list[int]) -> None:
        """Drop dead latents, put the strongest of each kind first, in the table's units."""
        strength = np.sum(fitted.L**2, axis=0)
        order = np.lexsort((-strength, lay.block))
        alive = order[strength[order] > 0]
        # Without any structure one latent without loadings stays, so that scores have a column.
        alive = alive if alive.size else order[:1]
        L = fitted.L[:, alive]
        strongest = L[np.argmax(np.abs(L), axis=0), np.arange(alive.size)]
        L = L * np.where(strongest < 0, -1.0, 1.0)
        like, varying, unit = columns.mean, host(columns.varying), columns.unit
        kept = np.flatnonzero(varying)
        components = spread(unit * L.T, kept, varying.size)

        def back(values: np.ndarray) -> Any:
            return in_kind(values, like, like.dtype)

        self.components_ = back(components)
        if fitted.C is not None:
            variances = np.diagonal(fitted.C, axis1=1, axis2=2)[:, alive]
            deviations = unit * np.sqrt(np.clip(variances, 0.0, None)).T
            self.components_std_ = back(spread(deviations, kept, varying.size))
        self.mean_ = columns.mean + back(spread(unit * fitted.mu, kept, varying.size))
        self.scale_, self.varying_ = columns.scale, columns.varying
        latent_view = lay.block[alive] - 1
        self.latent_view_ = in_kind(latent_view, like)
        self.n_components_ = int(np.sum(latent_view == -1))
        self.n_private_ = [int(np.sum(latent_view == v)) for v in range(len(private))]
        self.n_removed_ = int(lay.block.size - np.sum(strength > 0))
        self.noise_variance_ = back(unit**2 / fitted.tau)
        self.explained_variance_ = back(np.sum(components**2, axis=1))
        self.support_ = in_kind(np.any(components != 0, axis=0), like)
        self.n_selected_ = int(np.count_nonzero(host(self.support_)))
        norms = spread(np.linalg.norm(L, axis=1)[None, :], kept, varying.size)[0]
        self.relevance_ = back(norms / max(float(norms.max()), np.finfo(float).tiny))
        self.ranking_ = in_kind(1 + np.argsort(np.argsort(-norms, kind="stable")), like)
        self.view_components_ = [back(components[:, c]) for c in self.view_columns_]

    # --- what the fitted model says

    def _factors(self, columns: Any = slice(None)) -> Factors:
        precision = np.empty(self.mean_.shape[0])
        noise = host(self.noise_variance_).astype(float)
        for view, variance in zip(self.view_columns_, noise, strict=True):
            precision[view] = 1.0 / variance
        L, mean = host(self.components_).T.astype(float), host(self.mean_).astype(float)
        return Factors(L[columns], precision[columns], mean[columns])

    def _rows(self, X: Any) -> Any:
        """New rows, from a table or from one table per view (None: that view is missing)."""
        check_is_fitted(self)
        if getattr(getattr(X, "columns", None), "is_unique", True) is False:
            # views may share names, one table of scikit-learn's may not
            if X.shape[1] != self.n_features_in_:
                raise InputError(
                    f"X has {X.shape[1]} features, but {type(self).__name__} is expecting "
                    f"{self.n_features_in_} features as input"
                )
            X = [take_columns(X, columns) for columns in self.view_columns_]
        if not is_list_of_tables(X):
            return self._validated(X, reset=False)
        joined = in_old_places(list(X), self.view_columns_)
        unknown = [None] * len(self.view_columns_)  # of models in files of earlier versions
        check_names(list(X), getattr(self, "view_names_", unknown), type(self).__name__)
        with warnings.catch_warnings():
            # the names were compared above; side by side the views are an array, which has none
            warnings.filterwarnings("ignore", message="X does not have valid feature names")
            return self._validated(joined, reset=False)

    def select(self, X: Any) -> Any:
        """The chosen columns of ``X``, in kind; of a list of tables, those of every table.

        Parameters
        ----------
        X : table (n_samples, n_features_in_), or one table per view

        Returns
        -------
        table (n_samples, n_selected_), or a list of tables
        """
        if not is_list_of_tables(X):
            return super().select(X)
        self._rows(X)
        support = host(self.support_)
        pairs = zip(X, self.view_columns_, strict=True)
        return [
            None if table is None else take_columns(table, np.flatnonzero(support[columns]))
            for table, columns in pairs
        ]

    def transform(self, X: Any) -> Any:
        """Posterior means of the latents, (n, latents), from what is observed of each row."""
        X = self._rows(X)
        Z = latents(X, self._factors())
        return array_namespace(Z).astype(Z, X.dtype, copy=False) if is_floating(X) else Z

    def score_samples(self, X: Any) -> Any:
        """Exact log density of the observed entries of every row."""
        X = self._rows(X)
        kept = np.flatnonzero(host(self.varying_))
        return log_density(take_columns(X, kept), self._factors(kept))

    def predict_view(self, views: Any, target: int) -> Prediction:
        """Mean and variance of view ``target`` given the other views.

        ``views`` is one table per view (None where a view is missing, and for the target), a
        dictionary from view to table, or a whole table, whose target columns are ignored.
        """
        check_is_fitted(self)
        check_integer("target", target, 0)
        if target >= len(self.view_columns_):
            raise ParameterError(
                f"`target` must be below the number of views, {len(self.view_columns_)}, "
                f"got {target}"
            )
        if isinstance(views, dict):
            unknown = [key for key in views if key not in range(len(self.view_columns_))]
            if unknown:
                raise ParameterError(
                    f"the views are numbered from 0 to {len(self.view_columns_) - 1}; there is no "
                    f"view {unknown[0]!r}"
                )
            views = [views.get(v) for v in range(len(self.view_columns_))]
        if isinstance(views, list | tuple) and len(views) == len(self.view_columns_) > 1:
            views = [None if v == target else table for v, table in enumerate(views)]
            if all(table is None for table in views):
                raise InputError("at least one view other than `target` must be given")
        X = self._rows(views)
        columns = self.view_columns_[target]
        kind = kind_of(X)
        if not (kind.on_host and kind.in_memory):
            raise InputError("`predict_view` takes NumPy, pandas, polars or sparse tables")
        X = kind.dense(X)
        X[:, columns] = np.nan
        model = self._factors()
        mean, variance = (f(X, model, columns) for f in (expected, variances))
        return Prediction(mean, np.where(host(self.varying_)[columns], variance, 0.0))

    def impute(self, X: Any) -> Any:
        """``X`` with every missing entry replaced by its mean given the rest of its row; a list of
        tables becomes one array, the views in their places."""
        rows = self._rows(X)
        if not has_gaps(rows):
            return X.copy() if hasattr(X, "copy") and not isinstance(X, list) else rows
        mean = expected(rows, self._factors(), np.arange(self.mean_.shape[0]))
        full = np.where(np.isnan(rows), mean, rows).astype(rows.dtype, copy=False)
        return full if is_list_of_tables(X) else kind_of(X).refilled(X, full)

    # --- checks

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        check_choice("prior", self.prior, PRIORS)
        for name in ("a", "b", "tol"):
            check_non_negative(name, getattr(self, name))
        check_integer("max_iter", self.max_iter, 1)

    def _warn(self) -> None:
        if self.stop_reason_ is StopReason.MAX_ITER:
            warn(f"SCA {self.stop_reason_}", ConvergenceWarning)
        if not host(self.support_).any():
            text = (
                "SCA: every weight is zero: the data show no common structure at this noise. One "
                "latent without loadings is kept. More samples, or a vaguer prior, may help."
            )
            warn(text, NoStructureWarning)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        return tags
