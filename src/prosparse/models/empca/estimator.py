"""Estimator class `EMPCA`; `model` describes the mathematics."""

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
    check_weights,
    warn,
)
from ...inference.loop import StopReason
from ...selection.dimension import MAX_COUNTED
from .._base import SparseProjection, check_varying
from .cardinality import cardinality_path
from .certify.component import MAX_NODE_VARIABLES
from .covariance import covariance_of
from .quadratic import Quadratic, quadratic_of
from .search import Effort
from .solve import (
    CertificationOptions,
    EmpcaOptions,
    Orthogonality,
    Solution,
    count_components,
    optimality_gaps,
    solve_form,
    solve_path,
)


class EMPCA(SparseProjection):
    """Sparse and non-negative PCA with a given number of nonzero loadings.

    The components are computed sequentially. Each component is the unit vector that maximises the
    variance subject to at most ``n_nonzero`` nonzero loadings, non-negative loadings, or both.

    Parameters
    ----------
    n_components : int or "auto", default=1
        Number of components. "auto" counts the eigenvalues that exceed those of white noise.
    n_nonzero : int, sequence of int, "all" or None, default=None
        Maximum number of nonzero loadings, common to all components or one number per component.
        "all" imposes no limit. None selects a common number by extended BIC (see Notes).
    nonnegative : bool, default=False
        Whether all loadings must be non-negative. Components can then have fewer than ``n_nonzero``
        nonzero loadings.
    orthogonality : {"deflation", "disjoint", "quasi"}, default="deflation"
        Constraint between components. "deflation": a component maximises the variance that the
        preceding components do not explain. "disjoint": components have no variables in common.
        "quasi": the angle between any two components is at least ``min_angle``.
    min_angle : float or None, default=None
        Minimum angle in degrees, in (0, 90], for ``orthogonality="quasi"``.
    n_restarts : int, default=5
        Number of random starts of the local search, in addition to starts from the first
        principal component. With ``renormalize=True``, the search also starts from as many single
        variables.
    renormalize : bool, default=True
        Whether the shrunken loadings of EM are replaced by the optimal loadings on the selected
        variables, and variables are exchanged while the variance increases. ``renormalize=False``
        is the algorithm of Sigg and Buhmann (2008).
    scale : bool, default=False
        Whether columns are divided by their standard deviations.
    max_iter : int, default=500
        Maximum number of iterations of each stage of the search for a component.
    tol : float, default=1e-6
        Relative increase of the variance below which EM stops.
    certify : bool, default=False
        Whether to certify each component by branch and bound, which replaces the component if a
        better one is found. Variances with a relative difference below 1e-9 count as equal.
    time_limit : float, default=60.0
        Time limit in seconds for the certification of all components. At the limit, or on
        ``KeyboardInterrupt``, the best components and their bounds are returned.
    gap : float, default=0.0
        Value of ``optimality_gap_`` at which branch and bound may stop, in [0, 1).
    joint : bool, default=False
        Whether to maximise the sum of the variances instead of each variance in turn; requires
        ``orthogonality="disjoint"``.
    n_jobs : int or None, default=None
        Number of parallel processes, as in scikit-learn. The result does not depend on ``n_jobs``.
    random_state : int, RandomState or None, default=None
        Seed for the random starts.
    verbose : int, default=0
        Verbosity level. 1 prints the progress.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Components, as unit vectors with exact zeros.
    support_ : ndarray of bool, shape (n_features_in_,)
        Mask of the variables with a nonzero loading in any component.
    n_selected_ : int
        Number of selected variables.
    n_nonzero_ : ndarray of int, shape (n_components_,)
        Number of nonzero loadings of each component.
    cardinality_ : int
        Selected maximum number of nonzero loadings. This attribute and the next two exist only
        if ``n_nonzero=None``.
    cardinalities_ : ndarray of int, shape (n_compared,)
        Maximum numbers of nonzero loadings that were compared.
    criterion_path_ : ndarray of shape (n_compared,)
        Extended BIC of each of ``cardinalities_``; ``cardinality_`` maximises it.
    n_components_ : int
        Number of components; smaller than requested if no variance remains.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores, with denominator n - 1.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Proportion of the total variance explained by each component in addition to the preceding
        ones.
    optimality_gap_ : ndarray of shape (n_components_,)
        Relative optimality gap in [0, 1). Given the preceding components, no component under the
        same constraints has more than 1 / (1 - gap) times the variance; 0 certifies optimality.
        With ``joint=True``, the gap refers to the sum of the variances.
    upper_bound_ : ndarray of shape (n_components_,)
        Upper bound on the variance of any component under the same constraints, ``variance / (1 -
        optimality_gap_)``.
    certified_ : ndarray of bool, shape (n_components_,)
        Whether branch and bound reached the requested ``gap``. False with ``certify=False``.
    objective_path_ : list of ndarray, one per component
        Variance after each iteration of the best start; non-decreasing.
    n_iter_ : int
        Total number of iterations of ``objective_path_`` over all components.
    stop_reason_ : StopReason
        Reason why the search stopped; the most severe reason over all components.
    relevance_ : ndarray of shape (n_features_in_,)
        Maximum over the components of the absolute loading times the standard deviation of the
        scores, relative to the largest.
    ranking_ : ndarray of int, shape (n_features_in_,)
        Rank of each variable by relevance, 1 for the most relevant.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Divisors of the columns: ones, or standard deviations with ``scale=True``.
    varying_ : ndarray of bool, shape (n_features_in_,)
        Mask of the columns that are not constant.

    Notes
    -----
    A sparse component is the maximum likelihood estimate of a factor with at most K loadings in
    probabilistic PCA with isotropic noise. ``n_nonzero=None`` therefore compares values of K by the
    extended BIC of this model, as `SPPCA` compares penalties. The criterion recovers the number of
    loadings if the noise is isotropic. If all variables load on the components, all are selected,
    because no sparse component fits as well; set ``n_nonzero`` to trade variance for sparsity.

    References
    ----------
    C. D. Sigg, J. M. Buhmann (2008). Expectation-maximization for sparse and non-negative PCA.
    ICML.
    J. Chen, Z. Chen (2008). Extended Bayesian information criteria for model selection with large
    model spaces. Biometrika 95(3).

    Examples
    --------
    >>> from prosparse import EMPCA, datasets
    >>> X, support, _ = datasets.make_globally_sparse(n_components=1, random_state=0)
    >>> model = EMPCA(n_nonzero=8, random_state=0).fit(X)
    >>> model.n_nonzero_, bool(support[model.support_].all())
    (array([8]), True)
    """

    _accepts_any_container = True

    _gap_problem: Solution | None  # None once the gap is computed

    def __init__(
        self,
        n_components: int | Literal["auto"] = 1,
        *,
        n_nonzero: int | Sequence[int] | Literal["all"] | None = None,
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
        """Compute the components of ``X``.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix, in any supported container.
        y : object
            Ignored. Present for API consistency.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Weights of the rows. A row with weight 2 counts as two equal rows. Data must be in CPU
            memory.

        Returns
        -------
        EMPCA
            The fitted estimator.
        """
        with self._fitting():
            op, columns, total = self._prepare(X, sample_weight)
            count = self._count_components(op, total)
            solution = self._solve(quadratic_of(op), op, columns, count, total)
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
        """Compute the components of a covariance or correlation matrix.

        Parameters
        ----------
        C : array-like or DataFrame of shape (n_features, n_features)
            Symmetric positive semi-definite matrix, up to rounding.
        n_samples : int or None, default=None
            Number of observations. Required by ``n_components="auto"`` and ``n_nonzero=None``.
        mean : array-like of shape (n_features,) or None, default=None
            Column means for ``transform`` and ``inverse_transform``. By default, zeros.
        **parameters : dict
            Parameters of the estimator.

        Returns
        -------
        EMPCA
            The fitted estimator.
        """
        model = cls(**parameters)
        with model._fitting():
            given = covariance_of(model._validate(C, reset=True), n_samples, mean, model.scale)
            if n_samples is None:
                model._check_without_n_samples()
            count = model._count_components(given.op, given.total)
            solution = model._solve(given.quadratic, given.op, given.columns, count, given.total)
            model._describe(given.op, given.columns, given.total, solution)
            # The operator has no negative eigenvalues; variances are therefore computed from C
            # itself.
            variances = given.quadratic.form(solution.W) / (given.total - 1.0)
            model.explained_variance_ = given.columns.variance(variances)
        model._warn_of(solution, count)
        return model

    def path(
        self, X: Any, cardinalities: Iterable[int], sample_weight: ArrayLike | None = None
    ) -> list[Self]:
        """Fit models with several cardinalities, started from their neighbours.

        Parameters
        ----------
        X : array-like, sparse matrix or DataFrame of shape (n_samples, n_features)
            Data matrix, in any supported container.
        cardinalities : iterable of int
            Maximum numbers of nonzero loadings, one per model.
        sample_weight : array-like of shape (n_samples,), float or None, default=None
            Weights of the rows, as in ``fit``.

        Returns
        -------
        list of EMPCA
            Fitted models in the order of ``cardinalities``.
        """
        wanted = _check_cardinalities(cardinalities)
        shared = clone(self)
        check_verbose(shared.verbose)
        shared._check_parameters()
        op, columns, total = shared._prepare(X, sample_weight)
        count = shared._count_components(op, total)
        models: list[Self] = [copy(shared).set_params(n_nonzero=K) for K in wanted]
        order = np.argsort(wanted, kind="stable").tolist()
        solutions = solve_path(op, [models[k]._options(op, count, wanted[k]) for k in order])
        for k, solution in zip(order, solutions, strict=True):
            models[k]._describe(op, columns, total, solution)
        for k, solution in zip(order, solutions, strict=True):
            models[k]._warn_of(solution, count)
        return models

    @property
    def optimality_gap_(self) -> Array:
        """Relative optimality gap of each component; 0 certifies optimality.

        Given the preceding components, no component under the same constraints has more than
        1 / (1 - gap) times the variance. The gap is in [0, 1). With up to 1000 columns, sharper
        bounds are computed on first access, which can be slower than the fit.
        """
        check_is_fitted(self)
        self._solve_gap()
        return from_numpy(self._optimality_gap, self.mean_)

    @property
    def upper_bound_(self) -> Array:
        """Upper bound on the variance of each component under the constraints.

        The bound is the last value of ``objective_path_`` divided by 1 - ``optimality_gap_``. With
        ``joint=True``, the bounds sum to the upper bound of the sum of the variances.
        """
        check_is_fitted(self)
        self._solve_gap()
        last = np.array([float(to_numpy(trace)[-1]) for trace in self.objective_path_])
        return from_numpy(last / (1.0 - self._optimality_gap), self.mean_)

    def _solve_gap(self) -> None:
        if self._gap_problem is not None:
            self._optimality_gap = optimality_gaps(self._gap_problem)
            self._gap_problem = None

    def __getstate__(self) -> dict[str, object]:
        if hasattr(self, "_gap_problem"):
            self._solve_gap()
        return dict(super().__getstate__())

    def _prepare(self, X: Any, sample_weight: ArrayLike | None) -> tuple[Operator, Columns, float]:
        """Return the operator, the columns and the number of observations."""
        X = self._validate(X, reset=True)
        weights, total = None, float(X.shape[0])
        if sample_weight is not None:
            weights = check_weights(sample_weight, X.shape[0])
            total = check_total(weights)
        op, columns = standardise(X, self.scale, weights)
        check_varying(op, columns)
        if not self.scale:
            self._warn_about_units(op, columns)
        return op, columns, total

    def _count_components(self, op: Operator, total: float) -> int:
        """Return the requested or estimated number of components."""
        if isinstance(self.n_components, str):
            return count_components(op, total)
        return int(self.n_components)

    def _solve(
        self, quadratic: Quadratic, op: Operator, columns: Columns, count: int, total: float
    ) -> Solution:
        """Select the number of nonzeros if necessary, and fit the components."""
        if self.n_nonzero is not None:
            return solve_form(quadratic, self._options(op, count, self.n_nonzero))
        d, varying = self._limit_count(count), op.shape[1]
        largest = max(1, varying // d) if self.orthogonality == "disjoint" else varying
        path = cardinality_path(
            quadratic, lambda K: self._options(op, count, K), total, largest=largest
        )
        self.cardinality_ = path.best
        self.cardinalities_ = columns.values(path.cardinalities)
        entries = total * varying
        self.criterion_path_ = columns.values(columns.log_density(path.criterion, entries))
        return solve_form(quadratic, self._options(op, count, path.best))

    def _limit_count(self, count: int) -> int:
        """Return the number of components to compute."""
        return max(1, min(count, MAX_COUNTED)) if isinstance(self.n_components, str) else count

    def _options(
        self, op: Operator, count: int, n_nonzero: int | Sequence[int] | str
    ) -> EmpcaOptions:
        """Return the options of the search, checked against the data."""
        return EmpcaOptions(
            cardinalities=self._cardinalities(self._limit_count(count), op.shape[1], n_nonzero),
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
            certification=CertificationOptions(self.gap, self.time_limit, op.epsilon)
            if self.certify
            else None,
            joint=self.joint,
        )

    def _cardinalities(
        self, d: int, varying: int, n_nonzero: int | Sequence[int] | str
    ) -> list[int]:
        """Return the maximum number of nonzeros of each of d components."""
        width = self.n_features_in_
        if d > width and self.orthogonality != "quasi":
            raise ParameterError(
                f"`n_components` must be at most the number of columns, {width}, got {d}."
            )
        Ks = [width] if isinstance(n_nonzero, str) else np.ravel(n_nonzero).tolist()
        Ks = Ks * d if len(Ks) == 1 else Ks
        if len(Ks) != d:
            raise ParameterError(
                f"`n_nonzero` must be one integer or one per component ({d}), got {len(Ks)}."
            )
        if max(Ks) > width:
            raise ParameterError(
                f"`n_nonzero` must be at most the number of columns, {width}, got {max(Ks)}."
            )
        if self.joint and sum(Ks) > varying:
            raise ParameterError(
                f"`joint=True` needs {sum(Ks)} different columns, but only {varying} vary. Lower "
                "`n_nonzero` or `n_components`."
            )
        return [min(int(K), varying) for K in Ks]

    def _check_without_n_samples(self) -> None:
        """Raise an error if a criterion requires the number of observations."""
        for name, value in (("n_components", self.n_components), ("n_nonzero", self.n_nonzero)):
            if value is None or (name == "n_components" and isinstance(value, str)):
                raise ParameterError(
                    f"`{name}={value!r}` needs `n_samples`, the number of observations from which "
                    f"the covariance matrix was computed. Pass `n_samples`, or set `{name}`."
                )

    def _check_parameters(self) -> None:
        if not (isinstance(self.n_components, str) and self.n_components == "auto"):
            check_integer("n_components", self.n_components, 1, ' or "auto"')
        if isinstance(self.n_nonzero, str):
            check_choice("n_nonzero", self.n_nonzero, ["all"])
        elif self.n_nonzero is not None:
            for K in np.ravel(self.n_nonzero).tolist():
                check_integer("n_nonzero", K, 1, ', one integer per component, "all" or None')
        check_bool("nonnegative", self.nonnegative)
        check_bool("renormalize", self.renormalize)
        check_bool("scale", self.scale)
        check_choice("orthogonality", self.orthogonality, get_args(Orthogonality))
        if self.orthogonality == "quasi":
            check_non_negative("min_angle", self.min_angle)
            if not 0 < float(self.min_angle or 0) <= 90:
                raise ParameterError(
                    f"`min_angle` must be above 0 and at most 90 degrees, got {self.min_angle!r}."
                )
        elif self.min_angle is not None:
            raise ParameterError(
                f"`min_angle` has no effect with `orthogonality={self.orthogonality!r}`, got "
                f'{self.min_angle!r}. Remove it, or use `orthogonality="quasi"`.'
            )
        check_jobs(self.n_jobs)
        check_integer("n_restarts", self.n_restarts, 0)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)
        self._check_certification()

    def _check_certification(self) -> None:
        check_bool("certify", self.certify)
        check_bool("joint", self.joint)
        check_non_negative("time_limit", self.time_limit, infinite=True)
        check_non_negative("gap", self.gap)
        if not self.gap < 1:
            raise ParameterError(f"`gap` must be a number from 0 to below 1, got {self.gap!r}.")
        if self.certify and not self.renormalize:
            raise ParameterError(
                "`certify=True` needs `renormalize=True`, got False: the shrunken loadings of EM "
                "are not optimal on their variables and cannot be certified."
            )
        if self.joint and (self.nonnegative or self.orthogonality != "disjoint"):
            raise ParameterError(
                '`joint=True` needs `orthogonality="disjoint"` and `nonnegative=False`, got '
                f"{self.orthogonality!r} and {self.nonnegative!r}."
            )

    def _describe(self, op: Operator, columns: Columns, total: float, solution: Solution) -> None:
        """Set the fitted attributes in the columns and units of the data."""
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
        elif op.shape[1] > MAX_NODE_VARIABLES:
            self._solve_gap()

    def _warn_of(self, solution: Solution, count: int) -> None:
        """Issue warnings about a finished fit."""
        self._warn_unfinished()
        if solution.exhausted:
            warn(
                f"EMPCA found {self.n_components_} of {len(solution.options.cardinalities)} "
                f"components: {StopReason.EXHAUSTED}.",
                FewerComponentsWarning,
            )
        if isinstance(self.n_components, str) and count > MAX_COUNTED:
            warn(
                f"EMPCA: more than {MAX_COUNTED} eigenvalues exceed those of white noise, and the "
                f"first {MAX_COUNTED} components are computed. The noise may not be white, e.g. in "
                "counts or in columns of different units. Set `n_components`.",
                ManyComponentsWarning,
            )


def _check_cardinalities(given: Iterable[int]) -> list[int]:
    """Return cardinalities as a list of positive integers."""
    if isinstance(given, str) or not hasattr(given, "__iter__"):
        raise ParameterError(f"`cardinalities` must be a list of integers, got {given!r}.")
    wanted = list(given)
    for K in wanted:
        check_integer("cardinalities", K, 1, " each")
    return [int(K) for K in wanted]
