"""Which set of variables to keep, once the probabilities of all of them are known.

[BB04]    M. M. Barbieri, J. O. Berger. Optimal predictive model selection. Annals of Statistics
          32(3), 2004.
[DWCH11]  K. Dembczynski, W. Waegeman, W. Cheng, E. Huellermeier. An exact algorithm for F-measure
          maximization. Advances in Neural Information Processing Systems 24, 2011.

The most probable set is what the search finds. Where many sets are alike it is one of many, and
the smallest of them more often than not: what it lacks is nearly as probable as what it has. The
set of the largest expected F-score weighs what would be missed against what would be wrong.

Whether anything is kept is another question: if the empty set were weighed with the others, it
would often win where something is there, but nothing can be said for sure of what it is. So it is
asked first (`signal_detected`), and the score is that of the best set that is not empty.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .averaging import MIN_INCLUSION, Average
from .credible import MIN_CORRELATION
from .model import FINE, RegressionFit, RegressionMoments, evaluate, optimise
from .null_test import rejects_null
from .screening import Candidates

MAX_COOCCURRENCE = (
    0.75  # a variable stands in for another if, with that one active, it is so much less
)
# often active than without


class SelectedSet(NamedTuple):
    """A set of variables and how good it should be."""

    v: np.ndarray  # (q,) variables, the most useful first
    expected: float  # F-score; variables that stand for each other count as one


def signal_detected(
    pool: Candidates, found: RegressionFit, root: np.ndarray | None, n_intercepts: int
) -> bool:
    """Whether anything is to be kept: the search has ``found`` a set more probable than none, or
    noise would seldom look as much like a signal as y does, see `chance`."""
    return found.v.size > 0 or rejects_null(pool, root, n_intercepts)


def representatives(data: RegressionMoments, average: Average) -> np.ndarray:
    """(p,): for each variable the one that stands for it, mostly itself.

    Variable j stands in for a correlated and more probable i if it is active where i is not,
    P(j | i) < 3/4 P(j | not i). Each has but a part of their common probability, and of both only
    the more probable one is worth keeping.
    """
    likely = average.candidates
    size = np.sqrt(data.d[likely])
    correlated = np.abs(data.gram(likely)) >= MIN_CORRELATION * np.outer(size, size)
    return find_representatives(average.inclusion, likely, average.together, correlated)


def find_representatives(
    inclusion: np.ndarray, likely: np.ndarray, together: np.ndarray, correlated: np.ndarray
) -> np.ndarray:
    """The same, from the probabilities (l, l) that each two of the variables ``likely`` are both
    active, and which of them are correlated."""
    representative = np.arange(inclusion.size)
    share = together.diagonal()[:, None]
    without = share.T - together  # P(j, not i)
    less = together * (1.0 - share) < MAX_COOCCURRENCE * without * share  # both times P(i) P(not i)
    instead = correlated & less & (without >= MIN_INCLUSION)
    leaders: list[int] = []
    for j in np.argsort(-inclusion[likely], kind="stable"):
        others = [i for i in leaders if instead[i, j]]
        if others:
            representative[likely[j]] = likely[others[0]]
        else:
            leaders.append(int(j))
    return representative


def merge_redundant(by_number: np.ndarray, representative: np.ndarray) -> np.ndarray:
    """(p, Q + 1): of each variable that stands for itself, how probable it is that it, or one that
    it stands for, is active, and 0 .. Q in all.

    That is at most the sum of their probabilities, and at most that of so many active variables:
    P(|v| = q) = sum_j P(j active, |v| = q) / q.
    """
    either = np.zeros_like(by_number)
    np.add.at(either, representative, by_number)
    number = by_number.sum(axis=0) / np.maximum(np.arange(by_number.shape[1]), 1)
    most: np.ndarray = np.minimum(either, number)
    return most


def maximise_expected_f_score(by_number: np.ndarray, nothing: float, most: int) -> SelectedSet:
    """The set of at most ``most`` variables of the largest expected F-score.

    Of a set of k variables, each true set v gives 2 |both| / (k + |v|): the expected score is the
    sum over its members of 2 sum_q P(active, |v| = q) / (k + q), so that for each k the best set
    is known, [DWCH11]. Nothing is right if nothing is active, which has probability ``nothing``.
    """
    most = min(most, by_number.shape[0])
    none = SelectedSet(np.zeros(0, dtype=int), nothing)
    if most == 0:
        return none
    q, k = np.arange(1, by_number.shape[1]), np.arange(1, most + 1)
    score = by_number[:, 1:] @ (2.0 / (q[:, None] + k))  # (p, most)
    order = np.argsort(-score, axis=0, kind="stable")[:most]
    expected = np.cumsum(np.take_along_axis(score, order, axis=0), axis=0).diagonal()
    best = int(np.argmax(expected))
    if nothing >= expected[best]:
        return none
    return SelectedSet(order[: best + 1, best], float(expected[best]))


def select_by_f_score(data: RegressionMoments, average: Average, max_size: int) -> SelectedSet:
    """The set of the largest expected F-score, with one of those that stand for each other."""
    by_number = merge_redundant(average.by_number, representatives(data, average))
    return maximise_expected_f_score(by_number, 0.0, max_size)


def select_by_median(average: Average, max_size: int) -> np.ndarray:
    """The variables more probably active than not, [BB04]."""
    likely = np.argsort(-average.inclusion, kind="stable")[:max_size]
    v: np.ndarray = likely[average.inclusion[likely] > 0.5]
    return v


def fit_set(data: RegressionMoments, v: np.ndarray, start: RegressionFit) -> RegressionFit:
    """The model of the variables ``v``, from the lambda of ``start``."""
    return optimise(data, evaluate(data, v, start.log_ratio), FINE)
