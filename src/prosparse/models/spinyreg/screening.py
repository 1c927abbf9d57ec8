"""Screening: search among more variables than one Gram matrix should hold.

[WL16]  X. Wang, C. Leng. High dimensional ordinary least squares projection for screening
        variables. Journal of the Royal Statistical Society B 78(3), 2016.

The search uses a shortlist of a thousand variables: those most correlated with y, and those with
the largest coefficients in a ridge regression on all variables, [WL16]. After a search, all other
variables are scored. If some would increase the evidence, they join the shortlist and the search
continues.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from scipy.linalg.lapack import dposv

from ...data import Operator
from ...inference.loop import Run
from .model import RegressionFit, RegressionMoments, moments, score_additions
from .stepwise import SearchRules, SearchState, local_search, search

MAX_SHORTLIST = 1000  # maximum number of variables on a shortlist
MAX_EXTENSIONS = 10  # maximum number of extensions of the shortlist


class Candidates(NamedTuple):
    """Response and all variables that may explain it."""

    op: Operator  # X, with rows multiplied by the roots of their weights
    y: np.ndarray  # (n,) response, multiplied likewise
    n: float  # number of observations
    yy: float  # y'y, positive
    b: np.ndarray  # (p,) X'y
    d: np.ndarray  # (p,) diagonal of X'X
    G: np.ndarray | None  # (p, p) X'X if p is at most `MAX_SHORTLIST`


class Shortlist(NamedTuple):
    """Subset of the variables with its sufficient statistics."""

    indices: np.ndarray  # (k,) their column indices, increasing
    data: RegressionMoments


class SearchResult(NamedTuple):
    """Result of a search among all variables."""

    shortlist: Shortlist  # last shortlist; models index its variables
    runs: list[Run[SearchState]]  # best run last
    intermediate_sets: list[np.ndarray]  # other probable sets, as column indices


def candidates(op: Operator, y: np.ndarray, yy: float, n: float) -> Candidates:
    """Prepare the columns of ``op`` as predictors of ``y``."""
    b = np.asarray(op.rmatmul(y[:, None]))[:, 0]
    if op.shape[1] > MAX_SHORTLIST:
        return Candidates(op, y, n, yy, b, np.asarray(op.column_squares()), None)
    G = np.asarray(op.gram())
    return Candidates(op, y, n, yy, b, np.diagonal(G), G)


def ridge_coefficients(pool: Candidates) -> np.ndarray:
    """Compute coefficients of a weakly penalised regression on all variables.

    Unlike marginal correlations, these account for the correlations of the variables, [WL16].
    """
    op, n, (rows, p) = pool.op, pool.n, pool.op.shape
    if n <= p:
        K = np.asarray(op.outer())
        K.flat[:: rows + 1] += 0.01 * float(K.trace()) / n
        return np.asarray(op.rmatmul(np.linalg.solve(K, pool.y)[:, None]))[:, 0]
    if pool.G is None:  # Too many columns: use marginal correlations.
        return pool.b
    A = pool.G.copy()
    A.flat[:: p + 1] += 0.01 * float(A.trace()) / p
    return np.asarray(dposv(A, pool.b)[1])


def select_top(pool: Candidates, *scores: np.ndarray) -> Shortlist:
    """Build a shortlist of the top variables by each of the scores."""
    each = MAX_SHORTLIST // len(scores)
    top_indices = [np.argpartition(-score, each)[:each] for score in scores]
    indices = np.unique(np.concatenate(top_indices))
    G = np.asarray(pool.op.take_columns(indices).gram())
    return Shortlist(indices, moments(G, pool.b[indices], pool.yy, pool.n))


def first_shortlist(pool: Candidates, weights: np.ndarray) -> Shortlist:
    """Build the shortlist from correlations with y and ridge coefficients."""
    return select_top(pool, np.abs(pool.b) / np.sqrt(pool.d), np.abs(weights))


def gains(pool: Candidates, shortlist: Shortlist, fit: RegressionFit) -> np.ndarray:
    """Compute the increase of the log evidence of ``fit`` by adding each variable.

    For the empty model the result is the squared correlation with y, up to a constant.
    """
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
    """Search the shortlist, and extend it while other variables would help."""
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
    """Collect the intermediate sets of the runs as column indices."""
    return [shortlist.indices[v] for run in runs for v in run.state.intermediate_sets]
