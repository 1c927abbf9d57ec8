"""Search with screening, for more variables than a model can contain.

[WL16]  X. Wang, C. Leng. High dimensional ordinary least squares projection for screening
        variables. Journal of the Royal Statistical Society B 78(3), 2016.

The search uses a shortlist of a thousand variables: those most correlated with y, and those with
the largest coefficients in a ridge regression on all variables, [WL16]. After a search, the gains
of all other variables are computed. Variables that would increase the evidence are added to the
shortlist, and the search continues.
"""

from __future__ import annotations

import math
from typing import Generic, NamedTuple, Protocol, cast

import numpy as np
from scipy.linalg.lapack import dposv

from ...data import Operator
from .labels import Labels
from .linear import LinearFit, LinearModel, linear_model, score_additions
from .logistic import LogisticFit, LogisticModel, design, logistic_model
from .logistic import score_additions as score_logistic_additions
from .set_model import F, SetModel
from .stepwise import SearchRules, SearchRun, local_search, search

MAX_SHORTLIST = 1000  # maximum number of variables on a shortlist
MIN_SHORTLIST = 50  # minimum number of variables on a shortlist
MAX_ENTRIES = 50_000_000  # maximum number of entries of the columns of a logistic model
MAX_EXTENSIONS = 10  # maximum number of extensions of the shortlist


class Candidates(NamedTuple):
    """Responses and all variables that may explain them."""

    op: Operator  # X, with rows multiplied by the roots of their weights
    Y: np.ndarray  # (n, m) responses, multiplied by the same roots
    yy: np.ndarray  # (m,) squared norms, positive
    n: float  # number of observations
    dof: float  # n, less one with an intercept
    B: np.ndarray  # (p, m) X'Y
    d: np.ndarray  # (p,) diagonal of X'X
    G: np.ndarray | None  # (p, p) X'X if p is at most `MAX_SHORTLIST`

    def marginal(self) -> np.ndarray:
        """Compute sums of squared correlations with the responses, (p,)."""
        squares: np.ndarray = (self.B * self.B / (self.d[:, None] * self.yy)).sum(axis=1)
        return squares

    def respond(self, Y: np.ndarray, yy: np.ndarray) -> Candidates:
        """Replace the responses."""
        return self._replace(Y=Y, yy=yy, B=np.asarray(self.op.rmatmul(Y), dtype=float))


def candidates(
    op: Operator, Y: np.ndarray, yy: np.ndarray, n: float, n_intercepts: int
) -> Candidates:
    """Prepare the columns of ``op`` as predictors of ``Y``."""
    B, G = np.asarray(op.rmatmul(Y), dtype=float), None
    if op.shape[1] <= MAX_SHORTLIST:
        G = np.asarray(op.gram(), dtype=float)
    d = np.asarray(op.column_squares(), dtype=float) if G is None else np.diagonal(G)
    return Candidates(op, Y, yy, n, n - n_intercepts, B, d, G)


class Problem(Protocol[F]):
    """Data from which models of some or all variables are built."""

    @property
    def pool(self) -> Candidates:
        """Responses and all variables."""

    @property
    def max_shortlist(self) -> int:
        """Maximum number of variables of a model."""

    def model(self, indices: np.ndarray) -> SetModel[F]:
        """Build the model of the columns ``indices``."""

    def gains(self, model: SetModel[F], indices: np.ndarray, fit: F) -> np.ndarray:
        """Compute the gains of adding columns to ``fit``, (p,)."""


class LinearProblem(NamedTuple):
    """Linear regression of one or several responses."""

    pool: Candidates
    common_sign: bool = False

    @property
    def max_shortlist(self) -> int:
        """Maximum number of variables of a model."""
        return MAX_SHORTLIST

    def model(self, indices: np.ndarray) -> LinearModel:
        """Build the model of the columns ``indices``."""
        pool = self.pool
        if pool.G is not None and indices.size == pool.d.size:
            model = linear_model(pool.G, pool.B, pool.yy, pool.n, pool.dof)
        else:
            G = np.asarray(pool.op.take_columns(indices).gram(), dtype=float)
            model = linear_model(G, pool.B[indices], pool.yy, pool.n, pool.dof)
        return model._replace(common_sign=self.common_sign)

    def gains(self, model: SetModel[LinearFit], indices: np.ndarray, fit: LinearFit) -> np.ndarray:
        """Compute the gains of all columns.

        For the empty set, gains are squared correlations with y.
        """
        pool = self.pool
        if fit.v.size == 0:
            return pool.marginal()
        if pool.G is not None:
            cross = pool.G[:, indices[fit.v]]
        else:
            selected = pool.op.take_columns(indices[fit.v])
            columns = np.asarray(selected.matmul(np.eye(fit.v.size)))
            cross = np.asarray(pool.op.rmatmul(columns), dtype=float)
        return score_additions(fit, cross, pool.d, pool.B, pool.dof).gain


class LogisticProblem(NamedTuple):
    """Logistic regression of two classes."""

    pool: Candidates
    labels: Labels
    intercept: bool

    @property
    def max_shortlist(self) -> int:
        """Maximum number of variables of a model."""
        return int(min(max(MAX_ENTRIES // self.pool.op.shape[0], MIN_SHORTLIST), MAX_SHORTLIST))

    def model(self, indices: np.ndarray) -> LogisticModel:
        """Load the columns ``indices``.

        Rows of the operator are divided by the root weights.
        """
        op, labels = self.pool.op, self.labels
        columns = op if indices.size == op.shape[1] else op.take_columns(indices)
        rows = np.asarray(columns.gather_rows(lambda block: block, entrywise=True), dtype=float)
        X = rows / labels.root[:, None]
        return logistic_model(X, labels.t, labels.counts, self.intercept)

    def gains(
        self, model: SetModel[LogisticFit], indices: np.ndarray, fit: LogisticFit
    ) -> np.ndarray:
        """Compute the gains of all columns, to second order."""
        op, labels = self.pool.op, self.labels
        if indices.size == op.shape[1]:
            return model.addition_gains(fit)
        S, loaded = fit.S / labels.root, cast(LogisticModel, model)
        cross = np.asarray(op.rmatmul(S[:, None] * design(loaded, fit.v)), dtype=float)
        e = np.asarray(op.rmatmul((fit.residual / labels.root)[:, None]), dtype=float)[:, 0]
        (squares,) = op.sum_rows(
            lambda block, coefficients: ((block * block).T @ coefficients,),
            (fit.S / labels.counts)[:, None],
            entrywise=True,
        )
        squares = np.asarray(squares, dtype=float)[:, 0]
        return score_logistic_additions(fit, cross, squares, e, loaded.log_lambda(fit.k)).gain


class SearchResult(NamedTuple, Generic[F]):
    """Result of a search among all variables."""

    indices: np.ndarray  # (k,) column indices of the shortlist, in increasing order
    model: SetModel[F]  # model of the shortlist; sets are indices of its variables
    runs: list[SearchRun[F]]  # runs of the search; the best is last
    intermediate_sets: list[np.ndarray]  # other probable sets of the shortlist

    @property
    def fit(self) -> F:
        """Most probable set."""
        return self.runs[-1].state.fit


def ridge_coefficients(pool: Candidates) -> np.ndarray:
    """Compute norms of coefficients of a ridge regression, (p,).

    Unlike marginal correlations, these account for the correlations of the variables, [WL16].
    """
    op, n, (rows, p) = pool.op, pool.n, pool.op.shape
    if n <= p:
        K = np.asarray(op.outer(), dtype=float)
        K.flat[:: rows + 1] += 0.01 * float(K.trace()) / n
        W = np.asarray(op.rmatmul(np.linalg.solve(K, pool.Y)), dtype=float)
    elif pool.G is None:  # With too many columns, marginal correlations are used.
        W = pool.B
    else:
        A = pool.G.copy()
        A.flat[:: p + 1] += 0.01 * float(A.trace()) / p
        W = np.asarray(dposv(A, pool.B)[1])
    sizes: np.ndarray = np.sqrt((W * W / pool.yy).sum(axis=1))
    return sizes


def select_top(size: int, *scores: np.ndarray) -> np.ndarray:
    """Select the top variables by each of the scores, in increasing order."""
    each = size // len(scores)
    return np.unique(np.concatenate([np.argpartition(-s, each)[:each] for s in scores]))


def search_all(problem: Problem[F], rules: SearchRules) -> SearchResult[F]:
    """Search the shortlist; extend it while other variables have gains."""
    pool, size = problem.pool, problem.max_shortlist
    p = pool.d.size
    if p <= size:
        indices = np.arange(p)
        model = problem.model(indices)
        runs = search(model, lambda: ridge_coefficients(pool), rules)
        return SearchResult(indices, model, runs, collect_intermediate_sets(runs))
    ridge = ridge_coefficients(pool)
    indices = select_top(size, pool.marginal(), ridge)
    model = problem.model(indices)
    rules = rules._replace(max_search_size=min(rules.max_search_size, indices.size))
    runs = search(model, lambda: ridge[indices], rules)
    sets = [indices[v] for v in collect_intermediate_sets(runs)]
    for _ in range(MAX_EXTENSIONS):
        fit = runs[-1].state.fit
        q, selected = fit.v.size, indices[fit.v]
        if q in (0, rules.max_search_size):
            break
        gain = problem.gains(model, indices, fit)
        gain[selected] = np.inf
        better = gain > rules.log_prior[q] - rules.log_prior[q + 1] + rules.tol
        if not np.any(np.delete(better, indices)):
            break
        indices = select_top(size, gain, np.where(gain == np.inf, np.inf, ridge))
        model = problem.model(indices)
        start = model.fit(np.searchsorted(indices, selected), None)
        runs.append(local_search(model, start, rules))
    listed = [np.searchsorted(indices, v) for v in sets if np.isin(v, indices).all()]
    return SearchResult(indices, model, runs, listed)


def collect_intermediate_sets(runs: list[SearchRun[F]]) -> list[np.ndarray]:
    """Collect the intermediate sets of the runs."""
    return [v for run in runs for v in run.state.intermediate_sets]


def max_linear_sizes(n: float, p: int, fit_intercept: bool) -> tuple[int, int]:
    """Compute the maximum sizes of sets and of intermediate sets of a search.

    If there are as many variables as degrees of freedom, y is fitted exactly, and the evidence has
    no maximum in gamma. If p >= n, sets of more than n/3 variables cannot be distinguished from
    noise.
    """
    n = math.floor(n)
    most = max(n - 2 if fit_intercept else n - 1, 0)
    if p < n:
        return min(p, most), min(p, most)
    return min(most, max(n // 3, 1)), min(most, max(n // 2, 1))


def max_logistic_sizes(labels: Labels, p: int) -> tuple[int, int]:
    """Compute the maximum sizes of sets and of intermediate sets.

    The maximum is half the number of observations of the less frequent class, because more
    variables can separate random classes.
    """
    second = labels.n * labels.proportion
    most = min(p, max(int(min(second, labels.n - second) / 2.0), 1))
    return most, most
