"""SSPCA: structured sparse PCA, whole groups of variables at a time, in all components at once.

[JOB10]  R. Jenatton, G. Obozinski, F. Bach. Structured sparse principal component analysis.
         AISTATS 2010 (arXiv 2009).

    minimise  1/2 |X - U V'|^2 + penalty sum_g |V_g|_2    over U (n, d), V (p, d),  |u_k| <= 1

V_g are the rows of V that belong to the variables of group g. With one variable to a group
(the default) a variable is in all components or in none: the globally sparse case with which
GSPPCA is compared.

Neither |X - U V'| nor the penalty sees a rotation of the columns of U and V together, and some
rotation makes the columns of any U equally long. So the d constraints are one, |U|^2 <= d, and
given V the best U is a ridge regression whose multiplier is the root of one increasing function;
given U the groups are independent, and so is each. Both halves of a turn are exact, where
[JOB10] alternates over columns and over a variational upper bound of the norm.
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

WEAKEST, STRONGEST = 1e-15, 1e6  # penalties beyond, in units of the largest row, change nothing


class State(NamedTuple):
    V: Array  # (p, d), exactly zero rows outside the chosen groups
    bound: float  # minus the objective


def secular_root(f2: Array, a: Array, c: Array | float, goal: float) -> Array:
    """The t >= 0 with sum_k f2_k / (a_k t + c_k)^2 = goal^2, for every row of f2; a >= 0.

    Newton's iteration on the reciprocal of the root of the sum, which is nearly linear and
    concave in t: from the left it rises to the root without overshooting.
    """
    t = np.zeros(f2.shape[0])
    for _ in range(60):
        denominator = a * t[:, None] + c
        ratio = f2 / denominator**2
        length = np.sqrt(np.sum(ratio, axis=1))
        slope = np.sum(ratio * a / denominator, axis=1)  # -(1/2) d length^2 / dt
        safe = np.where(slope > 0, slope, 1.0)
        move = np.where(slope > 0, (length / goal - 1.0) * length**2 / safe, 0.0)
        t = t + np.maximum(move, 0.0)
        if np.all(move <= 1e-14 * t):
            break
    return t


def best_rows(F: Array, a: Array, penalty: float, group: Array) -> Array:
    """V given U'U = diag(a) and F = X'U: every group on its own, exactly zero where it must be.

    V_g = 0 if |F_g| <= penalty, else V_g = F_g (diag(a) + penalty / s)^-1 with s = |V_g|.
    """
    if penalty == 0.0:  # least squares
        return F / np.maximum(a, 1e-12 * max(float(a.max()), 1e-300))
    count = int(group.max()) + 1
    squares = F**2
    f2 = squares if count == F.shape[0] else _summed(squares, group, count)
    inside = np.sum(f2, axis=1) > penalty**2
    s = np.zeros(count)
    s[inside] = secular_root(f2[inside], a, penalty, 1.0)
    s = s[group][:, None]
    return np.where(s > 0, F * s / (a * s + penalty), 0.0)


def _summed(squares: Array, group: Array, count: int) -> Array:
    result = np.zeros((count, squares.shape[1]))
    np.add.at(result, group, squares)
    return result


def make_step(op: Operator, penalty: float, group: Array) -> Callable[[State], State]:
    """One turn: U given V, V given U; two products with X."""
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
    """Turns from V until the objective rests, with acceleration over V."""
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
    """PCA's V for a U with orthonormal columns, and the least penalty that empties it at once."""
    parts = spectrum(op)
    V = np.asarray(parts.directions(d) * op.xp.sqrt(parts.eigenvalues[:d]))
    return V, float(np.sqrt(np.max(np.sum(V**2, axis=1))))


def basis(V: Array) -> Array:
    """Orthonormal rows that span the columns of V, the strongest first, zero where V is."""
    kept = np.any(V != 0, axis=1)
    U, s, _ = np.linalg.svd(V[kept], full_matrices=False)
    rank = int(np.sum(s > 1e-10 * max(float(s.max(initial=0.0)), 1e-300)))
    W = np.zeros((rank, V.shape[0]))
    W[:, kept] = U[:, :rank].T
    return W


def refitted(op: Operator, V: Array) -> Array:
    """The principal components of the columns that V uses."""
    chosen = np.flatnonzero(np.any(V != 0, axis=1))
    d = min(V.shape[1], chosen.size)
    W = np.zeros((d, V.shape[0]))
    if d:
        W[:, chosen] = principal_components(op.take_columns(op.xp.asarray(chosen)), d)[0]
    return W


class SSPCA(SparseProjection):
    """Structured sparse PCA: variables, or groups of them, chosen for all components at once.

    Parameters
    ----------
    n_components : int, default=1
        Fewer than min(n_samples, number of columns that vary).
    penalty : float, "cv" or "cv-refit", default="cv"
        Weight of the norms of the groups, in the units of the singular values of X. "cv": the
        one of ``n_penalties`` with the least error of reconstructing rows held out. The penalty
        also shrinks the loadings, which costs reconstruction and favours small penalties, hence
        too many variables; "cv-refit" reconstructs with the principal components of the
        chosen variables, and is the better choice.
    n_features_to_select : int or None, default=None
        Instead of ``penalty``: the smallest at which no more variables are left, and the
        largest rows where several leave at once.
    groups : list of lists of columns or None, default=None
        A partition of the columns (positions, names or slices). None: every column is a group.
    n_penalties : int, default=20
        Penalties tried, in geometric progression.
    cv : int, default=5
        Number of folds.
    scale : bool, default=False
        Divide every column by its standard deviation first.
    max_iter : int, default=500
        The most turns.
    tol : float, default=1e-7
        The fall of the objective, as a share of ``|X|^2``, that ends them.
    random_state : int, RandomState or None, default=None
        Of the folds.
    verbose : int, default=0

    Attributes
    ----------
    components_ : array (n_components_, n_features_in_)
        Orthonormal rows, exactly zero outside ``support_``.
    penalty_ : float
    penalties_ : array
        The penalties tried.
    cv_errors_ : array
        The mean square of what the components leave of rows held out, at each of them.
    objective_path_ : array
        Minus the objective after every turn, never falling.
    support_ : bool array (n_features_in_,)
        The chosen variables.
    n_selected_ : int
        How many there are.
    n_components_ : int
        Components that are not zero.
    relevance_ : array (n_features_in_,)
        How much a variable takes part, relative to the one that does most.
    ranking_ : int array (n_features_in_,)
        1 for the most relevant variable.
    explained_variance_ : array (n_components_,)
        Variance of the scores.
    explained_variance_ratio_ : array (n_components_,)
        Share of the total variance that each component adds to those before it.
    mean_ : array (n_features_in_,)
    scale_ : array (n_features_in_,)
        Standard deviations of the columns if they were scaled, else ones.
    varying_ : bool array (n_features_in_,)
        False for constant columns.
    n_iter_ : int
    stop_reason_ : StopReason

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
        """Choose the variables of ``X`` and find their components."""
        with self._fitting():
            self._fit(X)
        return self

    def _fit(self, X: Any) -> None:
        op, columns = self._standardise(X, self.scale)
        n, p = op.shape
        if self.n_components >= min(n, p) and min(n, p) > 1:
            raise ParameterError(
                f"`n_components` must be less than min(n_samples, columns that vary) = "
                f"{min(n, p)}, got {self.n_components}"
            )
        group = self._group(np.asarray(columns.varying))
        table = spectrum(op).table  # the same X'X, with at most p rows
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
        # The norm of a row says how soon it would leave, which a rotation does not change.
        rows = np.linalg.norm(V, axis=1)
        self.relevance_[self.varying_] = rows / max(float(rows.max()), 1e-300)
        self.ranking_ = 1 + np.argsort(np.argsort(-self.relevance_, kind="stable"))
        self.penalty_ = self._asked(columns.length(penalty))
        self.n_selected_ = int(self.support_.sum())
        self.objective_path_ = columns.variance(np.array(run.bounds))
        self.n_iter_, self.stop_reason_ = len(run.bounds), run.reason

    def _group(self, varying: Array) -> Array:
        """The number of the group of every column that varies."""
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
            # Weaker ones are rounding, stronger ones leave nothing either.
            return min(penalty, STRONGEST * largest) if penalty > WEAKEST * largest else 0.0
        if op.shape[0] < 3:
            raise InputError(
                "cross-validation needs at least 3 rows, one to hold out and two that differ, got "
                f"{op.shape[0]}: give `penalty` as a number, or `n_features_to_select`"
            )
        return largest * np.geomspace(0.02, 1.0, self.n_penalties)

    def _path(self, table: Operator, group: Array, grid: Array) -> Iterator[Array]:
        """V at every penalty, each from the one before; rising, for nothing grows from zero."""
        V = start(table, self.n_components)[0]
        for penalty in grid:
            V = self._run(table, group, penalty, V).state.V if V.any() else V
            yield V

    def _cross_validated(self, op: Operator, group: Array, grid: Array, columns: Columns) -> float:
        rows = np.asarray(op.map_rows(lambda block: block, entrywise=True))
        folds = KFold(min(self.cv, rows.shape[0]), shuffle=True, random_state=self._seed())
        errors = np.zeros(grid.size)
        for kept, held_out in folds.split(rows):
            mean = rows[kept].mean(axis=0)
            table, new = DenseOperator(rows[kept] - mean), rows[held_out] - mean
            for k, V in enumerate(self._path(spectrum(table).table, group, grid)):
                W = basis(V) if self.penalty == "cv" else refitted(table, V)
                errors[k] += np.sum(new**2) - np.sum((new @ W.T) ** 2)
        self.penalties_ = columns.length(grid)
        self.cv_errors_ = columns.variance(errors) / rows.size
        return float(grid[np.argmin(errors)])

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(2**31 - 1))

    def _with_size(
        self, table: Operator, group: Array, size: int
    ) -> tuple[Run[State], Array, float]:
        """Bisection of the penalty, always from the last V that was not sparse enough."""
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
        """V on the largest groups that have no more than ``size`` variables together."""
        members = np.bincount(group)
        order = np.argsort(-np.sqrt(np.bincount(group, np.sum(V**2, axis=1))), kind="stable")
        kept = order[np.cumsum(members[order]) <= size]
        if not kept.size:
            raise ParameterError(
                f"`n_features_to_select` = {size} is less than the {members[order[0]]} variables "
                "of the most relevant group: groups are chosen as a whole"
            )
        return np.where(np.isin(group, kept)[:, None], V, 0.0)

    def _asked(self, penalty: float) -> float:
        """The penalty as it was given, if it was."""
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
                f"SSPCA: {self.n_components_} of {self.n_components} components are not zero: "
                "lower `penalty`",
                FewerComponentsWarning,
            )
