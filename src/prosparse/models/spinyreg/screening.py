"""The search for a regression model among more variables than one Gram matrix should hold.

A thousand variables at a time: those most correlated with y, and those with the largest weights
in the model with all of them. When the search has ended, all others are asked whether they would
help; if some would, they come onto the list and the search goes on.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from ...data import Operator
from ...inference.loop import Run
from .model import RegressionFit, RegressionMoments, moments, score_additions
from .stepwise import SearchRules, SearchState, local_search, search

MAX_SHORTLIST = 1000
MAX_EXTENSIONS = 10  # lists, at most


class Candidates(NamedTuple):
    """A response and all variables that may predict it."""

    op: Operator  # X, whose rows are multiplied by the roots of their weights
    y: np.ndarray  # one number a row, multiplied likewise
    n: float  # observations: the sum of the weights
    yy: float  # y'y, not zero
    b: np.ndarray  # (p,) X'y
    d: np.ndarray  # (p,) diagonal of X'X
    G: np.ndarray | None  # (p, p) X'X, where p is at most `SHORTLIST`


class Shortlist(NamedTuple):
    """Some of the candidates, and all that the evidence needs of them."""

    indices: np.ndarray  # (k,) their column indices, increasing
    data: RegressionMoments


class SearchResult(NamedTuple):
    """What a search among all candidates has led to."""

    shortlist: Shortlist  # the last; the model's variables are places in it
    runs: list[Run[SearchState]]  # the best one last
    intermediate_sets: list[
        np.ndarray
    ]  # sets on the way, each the places of its variables among all


def candidates(op: Operator, y: np.ndarray, yy: float, n: float) -> Candidates:
    """The columns of ``op`` as predictors of ``y``, of ``n`` observations."""
    b = np.asarray(op.rmatmul(y[:, None]))[:, 0]
    if op.shape[1] > MAX_SHORTLIST:
        return Candidates(op, y, n, yy, b, np.asarray(op.column_squares()), None)
    G = np.asarray(op.gram())
    return Candidates(op, y, n, yy, b, np.diagonal(G), G)


def ridge_coefficients(pool: Candidates) -> np.ndarray:
    """Posterior means of the weights with all variables in the model, and little prior.

    Regression on all variables, unlike correlation with y, sees through their correlations,
    [WL16].
    """
    op, n, (rows, p) = pool.op, pool.n, pool.op.shape
    if n <= p:
        K = np.asarray(op.outer())
        K.flat[:: rows + 1] += 0.01 * float(K.trace()) / n
        return np.asarray(op.rmatmul(np.linalg.solve(K, pool.y)[:, None]))[:, 0]
    if pool.G is None:  # correlation with y must do
        return pool.b
    A = pool.G.copy()
    A.flat[:: p + 1] += 0.01 * float(A.trace()) / p
    return np.asarray(dposv(A, pool.b)[1])


def select_top(pool: Candidates, *scores: np.ndarray) -> Shortlist:
    """The variables at the top of each of the scores."""
    each = MAX_SHORTLIST // len(scores)
    top_indices = [np.argpartition(-score, each)[:each] for score in scores]
    indices = np.unique(np.concatenate(top_indices))
    G = np.asarray(pool.op.take_columns(indices).gram())
    return Shortlist(indices, moments(G, pool.b[indices], pool.yy, pool.n))


def first_shortlist(pool: Candidates, weights: np.ndarray) -> Shortlist:
    """The variables most correlated with y, and those of the largest ``weights``."""
    return select_top(pool, np.abs(pool.b) / np.sqrt(pool.d), np.abs(weights))


def gains(pool: Candidates, shortlist: Shortlist, fit: RegressionFit) -> np.ndarray:
    """Rise of the log evidence if each of all variables joined ``fit``, a model of listed ones;
    for the empty model the squared correlation with y, up to a constant."""
    if fit.v.size == 0:
        squares: np.ndarray = pool.b**2 / pool.d
        return squares
    if pool.G is not None:
        cross = pool.G[:, fit.v]
    else:
        selected = pool.op.take_columns(shortlist.indices[fit.v])
        columns = np.asarray(selected.matmul(np.eye(fit.v.size)))
        cross = np.asarray(pool.op.rmatmul(columns))
    return score_additions(fit, cross, pool.d, pool.b, pool.n).gain


def search_all(pool: Candidates, rules: SearchRules) -> SearchResult:
    """Search a shortlist, look whether others would help, bring them in, go on."""
    if pool.G is not None:
        data = moments(pool.G, pool.b, pool.yy, pool.n)
        everything = Shortlist(np.arange(pool.b.size), data)
        runs = search(data, lambda: ridge_coefficients(pool), rules)
        return SearchResult(everything, runs, collect_intermediate_sets(everything, runs))
    weights = ridge_coefficients(pool)
    shortlist = first_shortlist(pool, weights)
    start = weights[shortlist.indices]
    runs = search(shortlist.data, lambda: start, rules)
    intermediate_sets = collect_intermediate_sets(shortlist, runs)
    for _ in range(MAX_EXTENSIONS):
        fit = runs[-1].state.fit
        q, selected = fit.v.size, shortlist.indices[fit.v]
        if q in (0, rules.max_search_size):
            break
        gain = gains(pool, shortlist, fit)
        gain[selected] = np.inf
        better = gain > rules.log_prior[q] - rules.log_prior[q + 1] + rules.tol
        if not np.any(np.delete(better, shortlist.indices)):
            break
        shortlist = select_top(pool, gain, np.where(gain == np.inf, np.inf, np.abs(weights)))
        positions = np.searchsorted(shortlist.indices, selected)
        runs.append(local_search(shortlist.data, fit._replace(v=positions), rules))
    return SearchResult(shortlist, runs, intermediate_sets)


def collect_intermediate_sets(
    shortlist: Shortlist, runs: list[Run[SearchState]]
) -> list[np.ndarray]:
    """The sets that the runs passed, in places among all."""
    return [shortlist.indices[v] for run in runs for v in run.state.intermediate_sets]
