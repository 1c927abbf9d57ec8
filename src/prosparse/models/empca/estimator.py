"""emPCA: sparse and non-negative principal components by expectation-maximisation.

[SB08]  C. D. Sigg, J. M. Buhmann. Expectation-maximization for sparse and non-negative PCA.
        ICML 2008.

One component after the other maximises w'Cw, C = X'X, over unit vectors with at most K
nonzeros and, if asked, no negative entry. In probabilistic PCA with one component and
vanishing noise the E-step is y = Xw and the M-step w = X'y / y'y; the constraints only
change the M-step, to a threshold ([SB08] Algorithm 2). That is a local search: it runs from
several starts at once, and the supports it finds are then improved with exact weights
(`engine.search`, `engine.support`). Later components see C without the directions found before
(`engine.quadratic`), only the variables not used before, or an angle (`engine.angle`).

Symbols: X (n, p) centred; w a component; K its cardinality; V the earlier components.
"""

from __future__ import annotations

import math
from copy import copy
from typing import Any

import numpy as np
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted

from ...data import Columns, Operator, kind_of
from ...data.arrays import host, in_kind
from ...errors import (
    FewerComponentsWarning,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    checked_weights,
    warn,
)
from ...inference.loop import StopReason
from ...numerics.quadratic import Quadratic, quadratic_of
from ...selection.bounds import GapProblem, gaps
from ...selection.dimension import counted
from .._base import SparseProjection
from .search import Found, Search, find_at_angle, find_component
from .support import Constraint

Array = np.ndarray

ORTHOGONALITIES = ("deflation", "disjoint", "quasi")
# A component with less than this share of the table's variance is rounding.
RANK_TOL = 1e-12
# Up to this many columns their covariance is kept until the optimality gap is asked for.
LAZY_GAP = 1000


def _turned(w: Array) -> Array:
    """The sign for which the largest entry is positive."""
    return w if w[np.argmax(np.abs(w))] >= 0 else -w


def _checked_cardinalities(given: Any) -> list[int]:
    """Integers from 1 on, one for each model of a path."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ParameterError(f"`cardinalities` must be a list of integers, got {given!r}")
    wanted = list(given)
    for K in wanted:
        check_integer("cardinalities", K, 1, " each")
    return [int(K) for K in wanted]


class EMPCA(SparseProjection):
    """Sparse and non-negative PCA with the number of nonzeros given directly.

    Components are found one after the other, each the unit vector of largest variance that
    satisfies the constraints: at most ``n_nonzero`` nonzeros, no negative entries, both, or
    neither (then it is PCA).

    Parameters
    ----------
    n_components : int or "auto", default=1
        "auto" counts the eigenvalues that stand out from white noise.
    n_nonzero : int, sequence of int or None, default=None
        The most nonzeros of a component, one number for all or one per component. None: all.
    nonnegative : bool, default=False
        Allow no negative entry. A component can then have fewer nonzeros than allowed.
    orthogonality : {"deflation", "disjoint", "quasi"}, default="deflation"
        What separates a component from those before. "deflation": it maximises the variance
        that they leave unexplained. "disjoint": it uses other variables. "quasi": the angle
        to each of them is at least ``min_angle``.
    min_angle : float or None, default=None
        In degrees, above 0 and at most 90; for ``orthogonality="quasi"``.
    n_restarts : int, default=5
        Random starts of the local search, besides those from the first principal component;
        as many again start at single variables.
    renormalize : bool, default=True
        Replace the shrunken weights of EM by the best ones on the variables found, and
        exchange variables while that raises the variance. False: the plain algorithm.
    scale : bool, default=False
        Divide every column by its standard deviation first.
    max_iter : int, default=500
        The most iterations of each stage of the search for a component.
    tol : float, default=1e-6
        EM stops when an iteration raises the variance by a smaller share than this.
    random_state : int, RandomState or None, default=None
    verbose : int, default=0
        Show a progress bar.

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Unit rows with exact zeros.
    support_ : bool array (n_features_in_,)
        Variables used by any component.
    n_selected_, n_nonzero_ : int, int array (n_components_,)
        The number of these variables, and of the nonzeros of each component.
    n_components_ : int
        Fewer than asked for when nothing is left to explain.
    explained_variance_ : array (n_components_,)
        Variance of the scores, with denominator n - 1.
    explained_variance_ratio_ : array (n_components_,)
        The share of the total variance that each component adds to those before.
    optimality_gap_ : array (n_components_,)
        Between 0 and 1: no component under the same constraints, given those before, has more
        than 1 / (1 - gap) times this one's variance. 0 proves the component optimal.
    bounds_ : list of arrays, one per component
        The objective after every iteration of the start that won, as a variance; never falls.
    n_iter_ : int
        Their total number.
    stop_reason_ : StopReason
    relevance_, ranking_ : arrays (n_features_in_,)
        Largest weight of a variable in any component, weighted by that component's deviation.
    mean_, scale_ : arrays (n_features_in_,)
    varying_ : bool array (n_features_in_,)
        False for constant columns.

    References
    ----------
    C. D. Sigg, J. M. Buhmann (2008). Expectation-maximization for sparse and non-negative PCA.
    ICML.

    Examples
    --------
    >>> import numpy as np
    >>> from prosparse import EMPCA, datasets
    >>> X, support, _ = datasets.make_globally_sparse(n_components=1, random_state=0)
    >>> model = EMPCA(n_nonzero=8, random_state=0).fit(X)
    >>> model.n_nonzero_, bool(support[model.support_].all())
    (array([8]), True)
    """

    _takes_any_table = True

    def __init__(
        self,
        n_components: int | str = 1,
        *,
        n_nonzero: Any = None,
        nonnegative: bool = False,
        orthogonality: str = "deflation",
        min_angle: float | None = None,
        n_restarts: int = 5,
        renormalize: bool = True,
        scale: bool = False,
        max_iter: int = 500,
        tol: float = 1e-6,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.n_nonzero = n_nonzero
        self.nonnegative = nonnegative
        self.orthogonality = orthogonality
        self.min_angle = min_angle
        self.n_restarts = n_restarts
        self.renormalize = renormalize
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> EMPCA:
        """Find the components of ``X``. A row with weight 2 counts as two equal rows."""
        return self._fit_whole(lambda: self._fit(X, sample_weight))

    def _fit(self, X: Any, sample_weight: Any) -> None:
        op, columns, total = self._prepared(X, sample_weight)
        quadratic = quadratic_of(op)
        cardinalities = self._cardinalities(op, total)
        found = self._components(quadratic, cardinalities, {})
        self._set_results(op, columns, total, quadratic, cardinalities, found)

    def path(self, X: Any, cardinalities: Any, sample_weight: Any = None) -> list[EMPCA]:
        """Fit every cardinality, each from the start that its neighbours provide.

        Parameters
        ----------
        X : table (n_samples, n_features)
        cardinalities : sequence of int
        sample_weight : array (n_samples,) or None

        Returns
        -------
        list of EMPCA
            In the given order. The search runs upwards and then downwards.
        """
        wanted = _checked_cardinalities(cardinalities)
        shared = clone(self)
        shared._check_parameters()
        op, columns, total = shared._prepared(X, sample_weight)
        models = [copy(shared).set_params(n_nonzero=K) for K in wanted]
        for model in models:
            model._check_parameters()
        quadratic = quadratic_of(op)
        order = np.argsort(wanted, kind="stable")
        results: dict[int, list[Found]] = {}
        for sweep in (order, order[::-1]):
            previous: list[Found] = []
            for k in sweep:
                known = results.get(k, [])
                if known and not previous:
                    previous = known
                    continue
                warm = {i: [f.w] for i, f in enumerate(previous)}
                Ks = models[k]._cardinalities(op, total)
                rival = models[k]._components(quadratic, Ks, warm, restarts=not known)
                if sum(f.value for f in rival) > sum(f.value for f in known):
                    results[k] = rival
                previous = results[k]
        for k, model in enumerate(models):
            Ks = model._cardinalities(op, total)
            model._set_results(op, columns, total, quadratic, Ks, results[k])
        return models

    def _prepared(self, X: Any, sample_weight: Any) -> tuple[Operator, Columns, float]:
        """Operator, record of the columns, and the number of observations they stand for."""
        if sample_weight is None:
            op, columns = self._standardised(X, self.scale)
            return op, columns, float(op.shape[0])
        kind_of(X).refuse_weights(X)
        n_rows = X.shape[0] if hasattr(X, "shape") else np.asarray(X).shape[0]
        weights = checked_weights(sample_weight, n_rows)
        total = float(weights.sum())
        if not total > 1.0:
            raise ParameterError(
                f"`sample_weight` must add up to more than 1, got {total:g}: a weight says how "
                "many observations a row stands for. If not all are zero, multiply them by a "
                "constant."
            )
        op, columns = self._standardised(X, self.scale, weights)
        return op, columns, total

    def _components(
        self,
        quadratic: Quadratic,
        cardinalities: list[int],
        warm: dict[int, list[Array]],
        restarts: bool = True,
    ) -> list[Found]:
        """Component after component, until none has any variance left to explain."""
        rng = check_random_state(self.random_state)
        n_restarts = self.n_restarts if restarts else 0
        search = Search(rng, n_restarts, self.renormalize, self.max_iter, self.tol, self.verbose)
        allowed = np.ones(quadratic.width, dtype=bool)
        total = float(np.sum(quadratic.diagonal()))
        found: list[Found] = []
        for k, K in enumerate(cardinalities):
            if not np.any(allowed):
                break
            c = Constraint(min(K, int(allowed.sum())), self.nonnegative, allowed)
            if self.orthogonality == "quasi":
                V = np.array([f.w for f in found]).reshape(-1, quadratic.width).T
                cosine = math.cos(math.radians(float(self.min_angle or 90.0)))
                new = find_at_angle(quadratic, c, search, V, cosine, warm.get(k, ()))
            else:
                new = find_component(quadratic, c, search, warm.get(k, ()))
            if new is None or new.value <= RANK_TOL * total:
                break
            found.append(new if self.nonnegative else new._replace(w=_turned(new.w)))
            if self.orthogonality == "disjoint":
                allowed = allowed & (new.w == 0)
            elif self.orthogonality == "deflation":
                quadratic = quadratic.deflated(new.w)
        return found

    def _set_results(
        self,
        op: Operator,
        columns: Columns,
        total: float,
        quadratic: Quadratic,
        cardinalities: list[int],
        found: list[Found],
    ) -> None:
        """Fitted attributes, in the table's own columns and units; see `Columns`."""
        W = np.array([f.w for f in found]).reshape(-1, op.shape[1])
        self._set_components(op, columns, W, total)
        variance_unit = columns.unit**2 / (total - 1.0)
        self._gap_problem: GapProblem | None = GapProblem(
            quadratic, cardinalities, found, self.nonnegative, self.orthogonality
        )
        if quadratic.width > LAZY_GAP:
            self._solve_gap()
        self.bounds_ = [in_kind(variance_unit * np.array(f.trace), columns.mean) for f in found]
        self.n_iter_ = sum(len(f.trace) for f in found)
        stopped = StopReason.MAX_ITER in [f.reason for f in found]
        self.stop_reason_ = StopReason.MAX_ITER if stopped else StopReason.CONVERGED
        if len(found) < len(cardinalities):
            self.stop_reason_ = StopReason.EXHAUSTED
        self._warn_of(len(cardinalities), stopped)

    @property
    def optimality_gap_(self) -> np.ndarray:
        """Between 0 and 1: no component under the same constraints, given those before, has more
        than 1 / (1 - gap) times the variance of this one; 0 proves it optimal.

        With few columns the sharpest bounds cost more than the fit itself, so that they are
        computed when they are first asked for.
        """
        check_is_fitted(self)
        self._solve_gap()
        return in_kind(self._optimality_gap, self.mean_)

    def _solve_gap(self) -> None:
        if self._gap_problem is not None:
            self._optimality_gap = gaps(self._gap_problem)
            self._gap_problem = None

    def __getstate__(self) -> dict[str, Any]:
        if hasattr(self, "_gap_problem"):
            self._solve_gap()
        return dict(super().__getstate__())

    def _cardinalities(self, op: Operator, total: float) -> list[int]:
        """K for every component, checked against the table."""
        p = op.shape[1]
        if isinstance(self.n_components, str):
            n = op.shape[0]
            gram = host(op.outer() if n <= p else op.gram())
            values = np.linalg.eigvalsh(gram)[::-1]
            values = np.where(values > RANK_TOL * values[0], values, 0.0)  # the rest is rounding
            # as many as if every row stood there as often as its weight says
            values = np.pad(values, (0, max(0, min(round(total), p) - values.size)))
            d = counted(values, round(total), p)
        else:
            d = int(self.n_components)
        width = self.n_features_in_
        if d > width and self.orthogonality != "quasi":
            raise ParameterError(
                f"`n_components` must be at most the number of columns, {width}, got {d}"
            )
        Ks = [width] * d if self.n_nonzero is None else np.ravel(self.n_nonzero).tolist()
        Ks = Ks * d if len(Ks) == 1 else Ks
        if len(Ks) != d:
            raise ParameterError(
                f"`n_nonzero` must be one integer or one per component, {d} of them, got {len(Ks)}"
            )
        if max(Ks) > width:
            raise ParameterError(
                f"`n_nonzero` must be at most the number of columns, {width}, got {max(Ks)}"
            )
        return [min(int(K), p) for K in Ks]

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        if self.n_nonzero is not None:
            for K in np.ravel(self.n_nonzero).tolist():
                check_integer("n_nonzero", K, 1, ", one integer per component or None")
        check_bool("nonnegative", self.nonnegative)
        check_bool("scale", self.scale)
        check_choice("orthogonality", self.orthogonality, ORTHOGONALITIES)
        if self.orthogonality == "quasi":
            check_non_negative("min_angle", self.min_angle)
            if not 0 < float(self.min_angle or 0) <= 90:
                raise ParameterError(
                    f"`min_angle` must be above 0 and at most 90 degrees, got {self.min_angle!r}"
                )
        elif self.min_angle is not None:
            raise ParameterError(
                f"`min_angle` = {self.min_angle!r} has no effect with `orthogonality` = "
                f'{self.orthogonality!r}: leave it out, or use `orthogonality="quasi"`'
            )
        check_integer("n_restarts", self.n_restarts, 0)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn_of(self, wanted: int, stopped: bool) -> None:
        if stopped:
            warn(f"EMPCA {StopReason.MAX_ITER}", ConvergenceWarning)
        if self.n_components_ < wanted:
            warn(
                f"EMPCA found {self.n_components_} of {wanted} components: {StopReason.EXHAUSTED}",
                FewerComponentsWarning,
            )
