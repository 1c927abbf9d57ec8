"""SSPCA: structured sparse PCA with groups of variables shared by all components.

[JOB10]  R. Jenatton, G. Obozinski, F. Bach. Structured sparse principal component analysis.
         AISTATS 2010 (arXiv 2009).

    minimise  1/2 |X - U V'|^2 + penalty sum_g |V_g|_2    over U (n, d), V (p, d),  |u_k| <= 1

V_g are the rows of V for the variables of group g. With one variable per group (the default) a
variable has loadings on all components or on none: the globally sparse case of GSPPCA.

The objective is invariant to a joint rotation of U and V, and some rotation gives the columns of U
equal norms. The d constraints therefore reduce to |U|^2 <= d. Given V, the optimal U is a ridge
regression whose multiplier is the root of a monotone function. Given U, the groups are independent,
and each is solved by the root of a monotone function. Both updates are exact; [JOB10] alternates
over columns and over a variational upper bound of the norm.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import numpy as np
from sklearn.model_selection import KFold
from sklearn.utils import check_random_state

from prosparse.data import Columns, DenseOperator, Operator
from prosparse.data.column_groups import column_groups
from prosparse.errors import (
    FewerComponentsWarning,
    InputError,
    ParameterError,
    check_bool,
    check_choice,
    check_integer,
    check_non_negative,
    warn,
)
from prosparse.inference.acceleration import Anderson
from prosparse.inference.loop import Run, iterate
from prosparse.inference.progress import Progress
from prosparse.models._base import SparseProjection
from prosparse.numerics.spectrum import principal_components, spectrum

Array = np.ndarray

# Penalties outside this range, relative to the largest row norm, have no further effect.
MIN_PENALTY, MAX_PENALTY = 1e-15, 1e6


class State(NamedTuple):
    """Loadings and objective."""

    V: Array  # (p, d), zero rows outside the selected groups
    bound: float  # negative objective


def secular_root(f2: Array, a: Array, c: Array | float, goal: float) -> Array:
    """Solve sum_k f2_k / (a_k t + c_k)^2 = goal^2 for t >= 0, for each row of f2; a >= 0.

    Newton's method on the reciprocal square root of the sum, which is concave and nearly linear in
    t, so iterates from the left do not overshoot.
    """
    t = np.zeros(f2.shape[0])
    for _ in range(60):
        denominator = a * t[:, None] + c
        ratio = f2 / denominator**2
        norm = np.sqrt(np.sum(ratio, axis=1))
        slope = np.sum(ratio * a / denominator, axis=1)  # -(1/2) d norm^2 / dt
        safe = np.where(slope > 0, slope, 1.0)
        step = np.where(slope > 0, (norm / goal - 1.0) * norm**2 / safe, 0.0)
        t = t + np.maximum(step, 0.0)
        if np.all(step <= 1e-14 * t):
            break
    return t


def best_rows(F: Array, a: Array, penalty: float, group: Array) -> Array:
    """Return the optimal V given U'U = diag(a) and F = X'U.

    V_g = 0 if |F_g| <= penalty, else V_g = F_g (diag(a) + penalty / s)^-1 with s = |V_g|.
    """
    if penalty == 0.0:  # Least squares.
        return F / np.maximum(a, 1e-12 * max(float(a.max()), 1e-300))
    count = int(group.max()) + 1
    squares = F**2
    f2 = squares if count == F.shape[0] else _sum_groups(squares, group, count)
    inside = np.sum(f2, axis=1) > penalty**2
    s = np.zeros(count)
    s[inside] = secular_root(f2[inside], a, penalty, 1.0)
    s = s[group][:, None]
    return np.where(s > 0, F * s / (a * s + penalty), 0.0)


def _sum_groups(squares: Array, group: Array, count: int) -> Array:
    """Sum the rows of each group."""
    result = np.zeros((count, squares.shape[1]))
    np.add.at(result, group, squares)
    return result


def make_step(op: Operator, penalty: float, group: Array) -> Callable[[State], State]:
    """Return one iteration: update U given V, then V given U."""
    xp = op.xp
    total = float(xp.sum(op.column_squares()))
    count = int(group.max()) + 1

    def step(state: State) -> State:
        d = state.V.shape[1]
        b, P = np.linalg.eigh(state.V.T @ state.V)
        b, VP = np.clip(b, 0.0, None), state.V @ P
        G = np.asarray(op.matmul(xp.asarray(VP)))  # X V in the basis P
        floor = 1e-12 * max(float(b.max()), 1e-300)
        g2 = np.sum(G**2, axis=0)
        mu = float(secular_root(g2[None, :], np.ones(d), b + floor, np.sqrt(d))[0])
        U = G / (b + floor + mu)  # X V (V'V + mu I)^-1
        a, Q = np.linalg.eigh(U.T @ U)
        U = U @ Q
        F = np.asarray(op.rmatmul(xp.asarray(U)))
        V = best_rows(F, np.clip(a, 0.0, None), penalty, group)
        rows = np.sum(V**2, axis=1)
        norms = np.sqrt(rows if count == rows.size else np.bincount(group, rows, count))
        fit = 0.5 * total - np.sum(F * V) + 0.5 * np.sum(a * np.sum(V**2, axis=0))
        return State(V @ (Q.T @ P.T), -float(fit + penalty * norms.sum()))

    return step


def solve(
    op: Operator,
    V: Array,
    penalty: float,
    group: Array,
    max_iter: int,
    tol: float,
    progress: Progress | None = None,
) -> Run[State]:
    """Iterate from V to convergence with Anderson acceleration."""
    accelerator = Anderson(
        lambda state: state.V.ravel(),
        lambda vector, state: state._replace(V=vector.reshape(state.V.shape)),
        np,
    )
    return iterate(
        make_step(op, penalty, group),
        State(V, -np.inf),
        max_iter=max_iter,
        tol=tol * float(op.xp.sum(op.column_squares())),
        accelerator=accelerator,
        exhausted=lambda state: not state.V.any(),
        progress=progress,
    )


def start(op: Operator, d: int) -> tuple[Array, float]:
    """Return V of PCA, and the largest row norm of V."""
    parts = spectrum(op)
    V = np.asarray(parts.directions(d) * op.xp.sqrt(parts.eigenvalues[:d]))
    return V, float(np.sqrt(np.max(np.sum(V**2, axis=1))))


def basis(V: Array) -> Array:
    """Return orthonormal rows that span the columns of V, by decreasing singular value."""
    nonzero = np.any(V != 0, axis=1)
    U, s, _ = np.linalg.svd(V[nonzero], full_matrices=False)
    rank = int(np.sum(s > 1e-10 * max(float(s.max(initial=0.0)), 1e-300)))
    W = np.zeros((rank, V.shape[0]))
    W[:, nonzero] = U[:, :rank].T
    return W


def refit(op: Operator, V: Array) -> Array:
    """Return the principal components of the columns with nonzero rows of V."""
    selected = np.flatnonzero(np.any(V != 0, axis=1))
    d = min(V.shape[1], selected.size)
    W = np.zeros((d, V.shape[0]))
    if d:
        W[:, selected] = principal_components(op.take_columns(op.xp.asarray(selected)), d)[0]
    return W


class SSPCA(SparseProjection):
    """Structured sparse PCA: groups of variables selected for all components jointly.

    Parameters
    ----------
    n_components : int, default=1
        Number of components, less than min(n_samples, number of varying columns).
    penalty : float, "cv" or "cv-refit", default="cv"
        Group penalty, in units of the singular values of X. "cv" selects the penalty with the
        smallest reconstruction error of held-out rows. Shrinkage of the loadings favours small
        penalties and hence too many variables. "cv-refit" reconstructs with the principal
        components of the selected variables and is recommended.
    n_features_to_select : int or None, default=None
        Maximum number of selected variables, which replaces ``penalty``. Ties are broken by row
        norm.
    groups : list of lists of columns or None, default=None
        Partition of the columns (indices, names or slices). None puts each column in a separate
        group.
    n_penalties : int, default=20
        Number of penalties of the cross-validation, in geometric progression.
    cv : int, default=5
        Number of cross-validation folds.
    scale : bool, default=False
        Whether to divide each column by its standard deviation.
    max_iter : int, default=500
        Maximum number of iterations.
    tol : float, default=1e-7
        Minimum decrease of the objective per iteration, relative to ``|X|^2``.
    random_state : int, RandomState or None, default=None
        Seed for the cross-validation folds.
    verbose : int, default=0
        Verbosity; a positive value shows a progress bar.

    Attributes
    ----------
    components_ : ndarray of shape (n_components_, n_features_in_)
        Orthonormal rows, zero outside ``support_``.
    penalty_ : float
        Selected penalty.
    penalties_ : ndarray of shape (n_penalties,)
        Penalties of the cross-validation.
    cv_errors_ : ndarray of shape (n_penalties,)
        Mean squared reconstruction error of held-out rows at each penalty.
    objective_path_ : ndarray of shape (n_iter_,)
        Negative objective after each iteration, non-decreasing.
    support_ : ndarray of bool of shape (n_features_in_,)
        Mask of the selected variables.
    n_selected_ : int
        Number of selected variables.
    n_components_ : int
        Number of nonzero components.
    relevance_ : ndarray of shape (n_features_in_,)
        Largest absolute loading of a variable times the standard deviation of the component,
        relative to the maximum.
    ranking_ : ndarray of int of shape (n_features_in_,)
        Rank by relevance; 1 is the most relevant variable.
    explained_variance_ : ndarray of shape (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : ndarray of shape (n_components_,)
        Proportion of the total variance that each component adds to the preceding ones.
    mean_ : ndarray of shape (n_features_in_,)
        Column means.
    scale_ : ndarray of shape (n_features_in_,)
        Standard deviations of the columns if ``scale=True``, otherwise ones.
    varying_ : ndarray of bool of shape (n_features_in_,)
        Mask of the columns that are not constant.
    n_iter_ : int
        Number of iterations.
    stop_reason_ : StopReason
        Stop reason.

    Examples
    --------
    >>> from papers import baselines
    >>> from prosparse import datasets
    >>> X = datasets.make_globally_sparse(random_state=0).X
    >>> baselines.SSPCA(5, n_features_to_select=10).fit(X).n_selected_
    10
    """

    def __init__(
        self,
        n_components: int = 1,
        *,
        penalty: float | str = "cv",
        n_features_to_select: int | None = None,
        groups: Any = None,
        n_penalties: int = 20,
        cv: int = 5,
        scale: bool = False,
        max_iter: int = 500,
        tol: float = 1e-7,
        random_state: Any = None,
        verbose: int = 0,
    ):
        self.n_components = n_components
        self.penalty = penalty
        self.n_features_to_select = n_features_to_select
        self.groups = groups
        self.n_penalties = n_penalties
        self.cv = cv
        self.scale = scale
        self.max_iter = max_iter
        self.tol = tol
        self.random_state = random_state
        self.verbose = verbose

    def fit(self, X: Any, y: Any = None) -> SSPCA:
        """Select variables of ``X`` and fit their components."""
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        if self.n_components >= min(n, p) and min(n, p) > 1:
            raise ParameterError(
                f"`n_components` must be less than min(n_samples, varying columns) = "
                f"{min(n, p)}, got {self.n_components}"
            )
        group = self._group(np.asarray(columns.varying))
        table = spectrum(op).op  # same X'X, with at most p rows
        if self.n_features_to_select is not None:
            run, V, penalty = self._with_size(table, group, self.n_features_to_select)
        else:
            grid = self._grid(op, group, columns)
            if isinstance(grid, float):
                penalty = grid
            else:
                penalty = self._cross_validated(op, group, grid, columns)
            run = self._run(table, group, penalty)
            V = run.state.V
        self._set_components(op, columns, basis(V), float(n))
        # Row norms determine the order of elimination and are invariant to rotation.
        rows = np.linalg.norm(V, axis=1)
        self.relevance_[self.varying_] = rows / max(float(rows.max()), 1e-300)
        self.ranking_ = 1 + np.argsort(np.argsort(-self.relevance_, kind="stable"))
        self.penalty_ = self._given_penalty(columns.length(penalty))
        self.n_selected_ = int(self.support_.sum())
        self.objective_path_ = columns.variance(np.array(run.bounds))
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason

    def _group(self, varying: Array) -> Array:
        """Return the group index of each varying column."""
        if self.groups is None:
            return np.arange(int(varying.sum()))
        label = np.empty(varying.size, dtype=int)
        names = getattr(self, "feature_names_in_", None)
        for g, members in enumerate(column_groups(self.groups, varying.size, names, "group")):
            label[members] = g
        return np.unique(label[varying], return_inverse=True)[1]

    def _run(
        self, table: Operator, group: Array, penalty: float, V: Array | None = None
    ) -> Run[State]:
        V = start(table, self.n_components)[0] if V is None else V
        progress = Progress(self.max_iter, "SSPCA", self.verbose)
        return solve(table, V, penalty, group, self.max_iter, self.tol, progress)

    def _grid(self, op: Operator, group: Array, columns: Columns) -> Any:
        V, _ = start(op, self.n_components)
        rows = np.sum(V**2, axis=1)
        largest = float(np.sqrt(np.bincount(group, rows).max()))
        if not isinstance(self.penalty, str):
            penalty = float(self.penalty) / columns.unit
            # Smaller penalties are negligible, and larger ones also give zero loadings.
            return min(penalty, MAX_PENALTY * largest) if penalty > MIN_PENALTY * largest else 0.0
        if op.shape[0] < 3:
            raise InputError(
                f"Cross-validation requires at least 3 rows, got {op.shape[0]}. Set `penalty` to a "
                "number, or set `n_features_to_select`."
            )
        return largest * np.geomspace(0.02, 1.0, self.n_penalties)

    def _path(self, table: Operator, group: Array, grid: Array) -> Iterator[Array]:
        """Yield V at increasing penalties with warm starts; zero rows remain zero."""
        V = start(table, self.n_components)[0]
        for penalty in grid:
            V = self._run(table, group, penalty, V).state.V if V.any() else V
            yield V

    def _cross_validated(self, op: Operator, group: Array, grid: Array, columns: Columns) -> float:
        rows = np.asarray(op.map_rows(lambda block: block, entrywise=True))
        folds = KFold(min(self.cv, rows.shape[0]), shuffle=True, random_state=self._seed())
        errors = np.zeros(grid.size)
        for train, held_out in folds.split(rows):
            mean = rows[train].mean(axis=0)
            table, new = DenseOperator(rows[train] - mean), rows[held_out] - mean
            for k, V in enumerate(self._path(spectrum(table).op, group, grid)):
                W = basis(V) if self.penalty == "cv" else refit(table, V)
                errors[k] += np.sum(new**2) - np.sum((new @ W.T) ** 2)
        self.penalties_ = columns.length(grid)
        self.cv_errors_ = columns.variance(errors) / rows.size
        return float(grid[np.argmin(errors)])

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _with_size(
        self, table: Operator, group: Array, size: int
    ) -> tuple[Run[State], Array, float]:
        """Select the penalty by bisection, with warm starts from the last V of sufficient size."""
        V, high = start(table, self.n_components)
        low, run = 0.0, self._run(table, group, 0.0, V)
        high *= np.sqrt(self.n_components)
        for _ in range(40):
            rows = int(np.sum(np.any(run.state.V != 0, axis=1)))
            if rows <= size or high - low <= 1e-6 * high:
                break
            middle = 0.5 * (low + high)
            trial = self._run(table, group, middle, run.state.V)
            if np.sum(np.any(trial.state.V != 0, axis=1)) >= size:
                low, run = middle, trial
            else:
                high = middle
        return run, self._largest_groups(run.state.V, group, size), low

    def _largest_groups(self, V: Array, group: Array, size: int) -> Array:
        """Restrict V to the groups of largest norm with at most ``size`` variables in total."""
        members = np.bincount(group)
        order = np.argsort(-np.sqrt(np.bincount(group, np.sum(V**2, axis=1))), kind="stable")
        selected = order[np.cumsum(members[order]) <= size]
        if not selected.size:
            raise ParameterError(
                f"`n_features_to_select` must be at least {members[order[0]]}, the number of "
                f"variables of the most relevant group, got {size}. Groups are selected as a whole."
            )
        return np.where(np.isin(group, selected)[:, None], V, 0.0)

    def _given_penalty(self, penalty: float) -> float:
        """Return the parameter `penalty` without rounding if it is a number."""
        given = not isinstance(self.penalty, str) and self.n_features_to_select is None
        return float(self.penalty) if given else penalty

    def _check_parameters(self) -> None:
        check_integer("n_components", self.n_components, 1)
        if isinstance(self.penalty, str):
            check_choice("penalty", self.penalty, ("cv", "cv-refit"))
        else:
            check_non_negative("penalty", self.penalty)
        if self.n_features_to_select is not None:
            check_integer("n_features_to_select", self.n_features_to_select, 1, " or None")
        check_integer("n_penalties", self.n_penalties, 2)
        check_integer("cv", self.cv, 2)
        check_bool("scale", self.scale)
        check_integer("max_iter", self.max_iter, 1)
        check_non_negative("tol", self.tol)

    def _warn(self) -> None:
        self._warn_unfinished()
        if self.n_components_ < self.n_components:
            warn(
                f"SSPCA: only {self.n_components_} of {self.n_components} components are nonzero. "
                "Decrease `penalty`.",
                FewerComponentsWarning,
            )
