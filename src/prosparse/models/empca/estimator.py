"""`EMPCA` as users see it: parameters in, attributes out. The mathematics begins in `model`."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from copy import copy
from typing import Any, Literal, Self, get_args

import numpy as np
from numpy.typing import ArrayLike
from sklearn.base import clone
from sklearn.utils.validation import check_is_fitted

from ...data import Array, Columns, Operator, standardise
from ...data.arrays import from_numpy, to_numpy
from ...errors import (
    FewerComponentsWarning,
    ManyComponentsWarning,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_jobs,
    check_non_negative,
    check_total,
    check_verbose,
    checked_weights,
    warn,
)
from ...inference.loop import StopReason
from ...selection.dimension import MAX_COUNTED
from .._base import SparseProjection, check_varying
from .certify.bounds import gaps
from .covariance import covariance_of
from .search import Effort
from .solve import (
    EmpcaOptions,
    Orthogonality,
    Proving,
    Solution,
    candidates,
    solve,
    solve_form,
    solve_path,
    standing_out,
)

# Up to this many columns their covariance is kept until the optimality gap is asked for.
LAZY_GAP = 1000


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
    certify : bool, default=False
        Prove that no other variables do better, or find those that do: a branch and bound search
        that starts from the component found. Sets whose variances differ by less than 1e-9 of
        them count as equal.
    time_limit : float, default=60.0
        Seconds for the proofs of all components. When they are over, or at Ctrl-C, the best
        component known is returned, with what is proved of it.
    gap : float, default=0.0
        From 0 to below 1: a proof may end when ``optimality_gap_`` is at most this.
    joint : bool, default=False
        Look for components of which the *sum* of variances is largest, with
        ``orthogonality="disjoint"``, instead of one component after the other. With
        ``orthogonality="quasi", min_angle=90`` they are found one after the other, and the bound
        is on their sum.
    n_jobs : int or None, default=None
        Sets of variables that are improved at a time, in processes of their own, as in
        scikit-learn: None is one, unless ``joblib.parallel_config`` says otherwise, and -1 as many
        as there are cores. The result is the same; it pays where a fit takes many seconds.
    random_state : int, RandomState or None, default=None
        Where the random starts come from; an integer makes results reproducible.
    verbose : int, default=0
        Show a progress bar.

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
        Fewer than asked for when nothing is left to explain.
    explained_variance_ : array (n_components_,)
        Variance of the scores, with denominator n - 1.
    explained_variance_ratio_ : array (n_components_,)
        The share of the total variance that each component adds to those before.
    optimality_gap_ : array (n_components_,)
        Between 0 and 1: no component under the same constraints, given those before, has more
        than 1 / (1 - gap) times this one's variance. 0 proves the component optimal. With
        ``joint=True`` the gap of the sum, for every component.
    upper_bound_ : array (n_components_,)
        What no such component exceeds: the last of ``objective_path_`` / (1 - ``optimality_gap_``).
    certified_ : bool array (n_components_,)
        Whether a proof is complete: asked for with ``certify=True``, with a gap of at most
        ``gap``, and none that rounding could break.
    objective_path_ : list of arrays, one per component
        The objective after every iteration of the start that won, as a variance; never falls.
    n_iter_ : int
        The number of these iterations, of all components together.
    stop_reason_ : StopReason
        Why the search ended; of several components the worst reason.
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

    _accepts_any_container = True

    objective_path_: list[Array]
    certified_: Array
    n_iter_: int
    _gap_problem: Solution | None  # until the gap is computed
    _optimality_gap: np.ndarray

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        n_nonzero: int | Sequence[int] | None = None,
        nonnegative: bool = False,
        orthogonality: Orthogonality = "deflation",
        min_angle: float | None = None,
        n_restarts: int = 5,
        renormalize: bool = True,
        scale: bool = False,
        max_iter: int = 500,
        tol: float = 1e-6,
        certify: bool = False,
        time_limit: float = 60.0,
        gap: float = 0.0,
        joint: bool = False,
        n_jobs: int | None = None,
        random_state: int | np.random.RandomState | None = None,
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
        self.certify = certify
        self.time_limit = time_limit
        self.gap = gap
        self.joint = joint
        self.n_jobs = n_jobs
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: object = None, sample_weight: ArrayLike | None = None) -> Self:
        """Find the components of ``X``.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind that the library knows.
        y : ignored
            Here for scikit-learn's sake.
        sample_weight : array (n_samples,), float or None, default=None
            A row with weight 2 counts as two equal rows. Only for tables in the host's memory.

        Returns
        -------
        EMPCA
            Itself.
        """
        with self._fitting():
            op, columns, total = self._prepared(X, sample_weight)
            count = self._count(op, total)
            solution = solve(op, self._options(op, count))
            self._describe(op, columns, total, solution)
        self._warn_of(solution, count)
        return self

    @classmethod
    def from_covariance(
        cls,
        C: Any,
        n_samples: int | None = None,
        *,
        mean: ArrayLike | None = None,
        **parameters: Any,
    ) -> Self:
        """The components of a covariance or correlation matrix, where there is no table.

        Parameters
        ----------
        C : array or DataFrame (n_features, n_features)
            Symmetric, without negative eigenvalues but for rounding.
        n_samples : int or None, default=None
            How many observations it comes from; only ``n_components="auto"`` needs to know.
        mean : array (n_features,) or None, default=None
            Means of the columns, for ``transform`` and ``inverse_transform``. None: zero.
        **parameters : dict
            Parameters of the estimator.

        Returns
        -------
        EMPCA
            Fitted.
        """
        model = cls(**parameters)
        with model._fitting():
            given = covariance_of(model._validate(C, reset=True), n_samples, mean, model.scale)
            if isinstance(model.n_components, str) and n_samples is None:
                raise ParameterError(
                    '`n_components="auto"` needs `n_samples`, the number of observations behind '
                    "the covariance matrix: say it, or say how many components you want"
                )
            count = model._count(given.op, given.total)
            solution = solve_form(given.quadratic, model._options(given.op, count))
            model._describe(given.op, given.columns, given.total, solution)
            # of the matrix itself: the operator's has its negative eigenvalues set to zero
            variances = given.quadratic.form(solution.W) / (given.total - 1.0)
            model.explained_variance_ = given.columns.variance(variances)
        model._warn_of(solution, count)
        return model

    def path(
        self, X: Any, cardinalities: Iterable[int], sample_weight: ArrayLike | None = None
    ) -> list[Self]:
        """Fit every cardinality, each from the start that its neighbours provide.

        Parameters
        ----------
        X : table (n_samples, n_features)
            Of any kind that the library knows.
        cardinalities : sequence of int
            The numbers of nonzeros, one for each model.
        sample_weight : array (n_samples,), float or None, default=None
            As in ``fit``.

        Returns
        -------
        list of EMPCA
            In the given order. The search runs upwards and then downwards.
        """
        wanted = _checked_cardinalities(cardinalities)
        shared = clone(self)
        check_verbose(shared.verbose)
        shared._check_parameters()
        op, columns, total = shared._prepared(X, sample_weight)
        count = shared._count(op, total)
        models: list[Self] = [copy(shared).set_params(n_nonzero=K) for K in wanted]
        order = np.argsort(wanted, kind="stable").tolist()
        solutions = solve_path(op, [models[k]._options(op, count) for k in order])
        for k, solution in zip(order, solutions, strict=True):
            models[k]._describe(op, columns, total, solution)
        for k, solution in zip(order, solutions, strict=True):
            models[k]._warn_of(solution, count)
        return models

    @property
    def optimality_gap_(self) -> Array:
        """Between 0 and 1: no component under the same constraints, given those before, has more
        than 1 / (1 - gap) times the variance of this one; 0 proves it optimal.

        With few columns the sharpest bounds cost more than the fit itself, so that they are
        computed when they are first asked for.
        """
        check_is_fitted(self)
        self._solve_gap()
        return from_numpy(self._optimality_gap, self.mean_)

    @property
    def upper_bound_(self) -> Array:
        """What no component under the same constraints, given those before, exceeds: the last of
        ``objective_path_`` / (1 - ``optimality_gap_``). With ``joint=True``, what the sum over all
        components does not exceed, in proportion to theirs."""
        check_is_fitted(self)
        self._solve_gap()
        last = np.array([float(to_numpy(trace)[-1]) for trace in self.objective_path_])
        return from_numpy(last / (1.0 - self._optimality_gap), self.mean_)

    def _solve_gap(self) -> None:
        if self._gap_problem is not None:
            self._optimality_gap = gaps(candidates(self._gap_problem))
            self._gap_problem = None

    def __getstate__(self) -> dict[str, object]:
        if hasattr(self, "_gap_problem"):
            self._solve_gap()
        return dict(super().__getstate__())

    # --- from parameters to the question

    def _prepared(self, X: Any, sample_weight: ArrayLike | None) -> tuple[Operator, Columns, float]:
        """Operator, record of the columns, and the number of observations they stand for."""
        table = self._validate(X, reset=True)
        weights, total = None, float(table.shape[0])
        if sample_weight is not None:
            weights = checked_weights(sample_weight, table.shape[0])
            total = check_total(weights)
        op, columns = standardise(table, self.scale, weights)
        check_varying(op, columns)
        return op, columns, total

    def _count(self, op: Operator, total: float) -> int:
        """The number of components asked for, or that stand out from white noise."""
        if isinstance(self.n_components, str):
            return standing_out(op, total)
        return int(self.n_components)

    def _options(self, op: Operator, count: int) -> EmpcaOptions:
        """What is asked for, checked against the table."""
        d = max(1, min(count, MAX_COUNTED)) if isinstance(self.n_components, str) else count
        return EmpcaOptions(
            cardinalities=self._cardinalities(d, op.shape[1]),
            nonnegative=self.nonnegative,
            orthogonality=self.orthogonality,
            cosine=math.cos(math.radians(90.0 if self.min_angle is None else self.min_angle)),
            effort=Effort(
                self.n_restarts,
                self.renormalize,
                self.max_iter,
                self.tol,
                self.verbose,
                self.n_jobs,
            ),
            random_state=self.random_state,
            proving=Proving(self.gap, self.time_limit, op.epsilon) if self.certify else None,
            joint=self.joint,
        )

    def _cardinalities(self, d: int, varying: int) -> list[int]:
        """K for each of d components."""
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
        if self.joint and self.orthogonality == "disjoint" and sum(Ks) > varying:
            raise ParameterError(
                f"with `joint=True` the components need {sum(Ks)} different columns, and "
                f"{varying} vary: lower `n_nonzero` or `n_components`"
            )
        return [min(int(K), varying) for K in Ks]

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        if self.n_nonzero is not None:
            for K in np.ravel(self.n_nonzero).tolist():
                check_integer("n_nonzero", K, 1, ", one integer per component or None")
        check_bool("nonnegative", self.nonnegative)
        check_bool("renormalize", self.renormalize)
        check_bool("scale", self.scale)
        check_choice("orthogonality", self.orthogonality, get_args(Orthogonality))
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
        check_jobs(self.n_jobs)
        check_integer("n_restarts", self.n_restarts, 0)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)
        self._check_proof()

    def _check_proof(self) -> None:
        check_bool("certify", self.certify)
        check_bool("joint", self.joint)
        check_non_negative("time_limit", self.time_limit, infinite=True)
        check_non_negative("gap", self.gap)
        if not self.gap < 1:
            raise ParameterError(f"`gap` must be a number from 0 to below 1, got {self.gap!r}")
        if self.certify and not self.renormalize:
            raise ParameterError(
                "`certify=True` needs `renormalize=True`: the shrunken weights of the plain "
                "algorithm are not the best on their variables, so that there is nothing to prove"
            )
        right_angles = self.orthogonality == "quasi" and self.min_angle == 90
        possible = self.orthogonality == "disjoint" or right_angles
        if self.joint and (self.nonnegative or not possible):
            raise ParameterError(
                '`joint=True` needs `orthogonality="disjoint"`, or "quasi" with `min_angle=90`, '
                "and "
                f"`nonnegative=False`, got {self.orthogonality!r}, {self.min_angle!r} and "
                f"{self.nonnegative!r}"
            )

    # --- from the answer to attributes

    def _describe(self, op: Operator, columns: Columns, total: float, solution: Solution) -> None:
        """Fitted attributes, in the table's own columns and units; see `Columns`."""
        self._set_components(op, columns, solution.W, total)
        traces = [np.array(found.trace) / (total - 1.0) for found in solution.components]
        self.objective_path_ = [columns.values(columns.variance(trace)) for trace in traces]
        self.n_iter_ = sum(trace.size for trace in traces)
        self.stop_reason_ = solution.reason
        proofs = solution.certificates
        self.certified_ = columns.values(
            np.array([proof.gap <= self.gap for proof in proofs], dtype=bool)
            if self.certify
            else np.zeros(len(traces), dtype=bool)
        )
        self._gap_problem = None if proofs else solution
        if proofs:
            self._optimality_gap = np.array([proof.gap for proof in proofs])
        elif op.shape[1] > LAZY_GAP:
            self._solve_gap()

    def _warn_of(self, solution: Solution, count: int) -> None:
        """What the user should know of a fit that is whole."""
        self._warn_unfinished()
        if solution.exhausted:
            warn(
                f"EMPCA found {self.n_components_} of {len(solution.options.cardinalities)} "
                f"components: {StopReason.EXHAUSTED}",
                FewerComponentsWarning,
            )
        if isinstance(self.n_components, str) and count > MAX_COUNTED:
            warn(
                f'`n_components="auto"` finds more than {MAX_COUNTED} components that stand out '
                "from white noise, and takes the first of them. Either there are so many, or the "
                "noise is not white (counts? columns in different units?). Say how many you want.",
                ManyComponentsWarning,
            )


def _checked_cardinalities(given: Iterable[int]) -> list[int]:
    """Integers from 1 on, one for each model of a path."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ParameterError(f"`cardinalities` must be a list of integers, got {given!r}")
    wanted = list(given)
    for K in wanted:
        check_integer("cardinalities", K, 1, " each")
    return [int(K) for K in wanted]
