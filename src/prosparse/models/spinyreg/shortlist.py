"""The search for a regression model among more variables than one Gram matrix should hold.

A thousand variables at a time: those most correlated with y, and those with the largest weights
in the model with all of them. When the search has ended, all others are asked whether they would
help; if some would, they come onto the list and the search goes on.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np
from scipy.linalg.lapack import dposv

from ...data import Operator
from ...inference.loop import Run
from .regression import Fit, moments, neighbours
from .stepwise import Rules, climb, search

Array = np.ndarray

SHORTLIST = 1000
INSTALMENTS = 10  # lists, at most


def all_in(op: Operator, y: Array, b: Array, G: Array | None) -> Array:
    """Posterior means of the weights with all variables in the model, and little prior.

    Regression on all variables, unlike correlation with y, sees through their correlations
    (Wang & Leng 2016). ``G`` is X'X if it is at hand.
    """
    n, p = op.shape
    if n <= p:
        K = np.asarray(op.outer())
        K.flat[:: n + 1] += 0.01 * float(K.trace()) / n
        return np.asarray(op.rmatmul(np.linalg.solve(K, y)[:, None]))[:, 0]
    if G is None:  # correlation with y must do
        return b
    A = G.copy()
    A.flat[:: p + 1] += 0.01 * float(G.trace()) / p
    return np.asarray(dposv(A, b)[1])


class Problem:
    """A response and the variables that may predict it; at most `SHORTLIST` at a time."""

    def __init__(self, op: Operator, y: Array, yy: float):
        self.op, self.y, self.yy, self.n = op, y, yy, op.shape[0]
        self.b = np.asarray(op.rmatmul(y[:, None]))[:, 0]
        p = op.shape[1]
        self.whole = p <= SHORTLIST
        if self.whole:
            self.data = moments(np.asarray(op.gram()), self.b, yy, self.n)
            self.listed, self.d = np.arange(p), self.data.d
        else:
            self.d = np.asarray(op.column_squares())
            self.shortlist(np.abs(self.b) / np.sqrt(self.d), np.abs(self.weights))

    @cached_property
    def weights(self) -> Array:
        return all_in(self.op, self.y, self.b, self.data.G if self.whole else None)

    def shortlist(self, *scores: Array) -> None:
        """Keep the variables at the top of each of the scores."""
        each = SHORTLIST // len(scores)
        tops = [np.argpartition(-score, each)[:each] for score in scores]
        self.listed = np.unique(np.concatenate(tops))
        G = np.asarray(self.op.take_columns(self.listed).gram())
        self.data = moments(G, self.b[self.listed], self.yy, self.n)

    def gains(self, fit: Fit) -> Array:
        """Rise of the log evidence if each of all variables joined ``fit``, a model of listed
        ones; for the empty model the squared correlation with y, up to a constant."""
        if fit.v.size == 0:
            return self.b**2 / self.d
        if self.listed.size == self.b.size:
            cross = self.data.G[:, fit.v]
        else:
            chosen = self.op.take_columns(self.listed[fit.v])
            columns = np.asarray(chosen.matmul(np.eye(fit.v.size)))
            cross = np.asarray(self.op.rmatmul(columns))
        return neighbours(fit, cross, self.d, self.b, self.n).gain

    def solve(self, rules: Rules) -> list[Run]:
        """Search the shortlist, look whether others would help, bring them in, go on."""
        runs = search(self.data, lambda: self.weights[self.listed], rules)
        for _ in range(INSTALMENTS):
            fit = runs[-1].state.fit
            q, chosen = fit.v.size, self.listed[fit.v]
            if q in (0, rules.limit) or self.listed.size == self.b.size:
                break
            gain = self.gains(fit)
            gain[chosen] = np.inf
            better = gain > rules.log_prior[q] - rules.log_prior[q + 1] + rules.tol
            if not np.any(np.delete(better, self.listed)):
                break
            self.shortlist(gain, np.where(gain == np.inf, np.inf, np.abs(self.weights)))
            there = np.searchsorted(self.listed, chosen)
            runs.append(climb(self.data, fit._replace(v=there), rules))
        return runs
