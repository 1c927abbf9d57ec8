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
from .model import RegressionFit, RegressionMoments, moments, neighbours
from .stepwise import SearchRules, SearchState, climb, search

SHORTLIST = 1000
INSTALMENTS = 10  # lists, at most


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


class Searched(NamedTuple):
    """What a search among all candidates has led to."""

    shortlist: Shortlist  # the last; the model's variables are places in it
    runs: list[Run[SearchState]]  # the best one last
    passed: list[np.ndarray]  # sets on the way, each the places of its variables among all


def candidates(op: Operator, y: np.ndarray, yy: float, n: float) -> Candidates:
    """The columns of ``op`` as predictors of ``y``, of ``n`` observations."""
    b = np.asarray(op.rmatmul(y[:, None]))[:, 0]
    if op.shape[1] > SHORTLIST:
        return Candidates(op, y, n, yy, b, np.asarray(op.column_squares()), None)
    G = np.asarray(op.gram())
    return Candidates(op, y, n, yy, b, np.diagonal(G), G)


def all_in(among: Candidates) -> np.ndarray:
    """Posterior means of the weights with all variables in the model, and little prior.

    Regression on all variables, unlike correlation with y, sees through their correlations,
    [WL16].
    """
    op, n, (rows, p) = among.op, among.n, among.op.shape
    if n <= p:
        K = np.asarray(op.outer())
        K.flat[:: rows + 1] += 0.01 * float(K.trace()) / n
        return np.asarray(op.rmatmul(np.linalg.solve(K, among.y)[:, None]))[:, 0]
    if among.G is None:  # correlation with y must do
        return among.b
    A = among.G.copy()
    A.flat[:: p + 1] += 0.01 * float(A.trace()) / p
    return np.asarray(dposv(A, among.b)[1])


def at_the_top(among: Candidates, *scores: np.ndarray) -> Shortlist:
    """The variables at the top of each of the scores."""
    each = SHORTLIST // len(scores)
    tops = [np.argpartition(-score, each)[:each] for score in scores]
    listed = np.unique(np.concatenate(tops))
    G = np.asarray(among.op.take_columns(listed).gram())
    return Shortlist(listed, moments(G, among.b[listed], among.yy, among.n))


def first_shortlist(among: Candidates, weights: np.ndarray) -> Shortlist:
    """The variables most correlated with y, and those of the largest ``weights``."""
    return at_the_top(among, np.abs(among.b) / np.sqrt(among.d), np.abs(weights))


def gains(among: Candidates, shortlist: Shortlist, fit: RegressionFit) -> np.ndarray:
    """Rise of the log evidence if each of all variables joined ``fit``, a model of listed ones;
    for the empty model the squared correlation with y, up to a constant."""
    if fit.v.size == 0:
        squares: np.ndarray = among.b**2 / among.d
        return squares
    if among.G is not None:
        cross = among.G[:, fit.v]
    else:
        chosen = among.op.take_columns(shortlist.indices[fit.v])
        columns = np.asarray(chosen.matmul(np.eye(fit.v.size)))
        cross = np.asarray(among.op.rmatmul(columns))
    return neighbours(fit, cross, among.d, among.b, among.n).gain


def search_all(among: Candidates, rules: SearchRules) -> Searched:
    """Search a shortlist, look whether others would help, bring them in, go on."""
    if among.G is not None:
        data = moments(among.G, among.b, among.yy, among.n)
        everything = Shortlist(np.arange(among.b.size), data)
        runs = search(data, lambda: all_in(among), rules)
        return Searched(everything, runs, passed_by(everything, runs))
    weights = all_in(among)
    shortlist = first_shortlist(among, weights)
    start = weights[shortlist.indices]
    runs = search(shortlist.data, lambda: start, rules)
    passed = passed_by(shortlist, runs)
    for _ in range(INSTALMENTS):
        fit = runs[-1].state.fit
        q, chosen = fit.v.size, shortlist.indices[fit.v]
        if q in (0, rules.limit):
            break
        gain = gains(among, shortlist, fit)
        gain[chosen] = np.inf
        better = gain > rules.log_prior[q] - rules.log_prior[q + 1] + rules.tol
        if not np.any(np.delete(better, shortlist.indices)):
            break
        shortlist = at_the_top(among, gain, np.where(gain == np.inf, np.inf, np.abs(weights)))
        there = np.searchsorted(shortlist.indices, chosen)
        runs.append(climb(shortlist.data, fit._replace(v=there), rules))
    return Searched(shortlist, runs, passed)


def passed_by(shortlist: Shortlist, runs: list[Run[SearchState]]) -> list[np.ndarray]:
    """The sets that the runs passed, in places among all."""
    return [shortlist.indices[v] for run in runs for v in run.state.passed]
