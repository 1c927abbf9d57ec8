"""Decision rules that select a set from posterior probabilities.

[BB04]    M. M. Barbieri, J. O. Berger. Optimal predictive model selection. Annals of Statistics
          32(3), 2004.
[DWCH11]  K. Dembczynski, W. Waegeman, W. Cheng, E. Huellermeier. An exact algorithm for F-measure
          maximization. Advances in Neural Information Processing Systems 24, 2011.

The set of maximum posterior probability is often small if many sets have similar probabilities.
The set of maximum expected F-score balances false discoveries against missed variables.

A comparison with the empty set would often select nothing if a signal is present but cannot be
located. A permutation test (`null_test`) therefore determines first whether any variable is
selected. The F-score is then maximised over non-empty sets.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .averaging import MIN_INCLUSION, Average
from .credible import MIN_CORRELATION
from .set_model import F, SetModel

# Variable i represents j if P(j | i) is below this multiple of P(j | not i).
MAX_COOCCURRENCE = 0.75


class SelectedSet(NamedTuple):
    """Set of variables and its expected F-score."""

    v: np.ndarray  # (q,) variables, most useful first
    expected: float  # expected F-score; variables with one representative count once


def representatives(model: SetModel[F], average: Average) -> np.ndarray:
    """Map each of the p variables to its representative, usually itself.

    A variable i represents a correlated, less probable variable j if j is less often active
    together with i than without i: P(j | i) < 3/4 P(j | not i). The probability is then divided
    between both variables, and only i should be selected.
    """
    likely = average.candidates
    correlated = model.correlations(likely, likely) >= MIN_CORRELATION
    return find_representatives(average.inclusion, likely, average.together, correlated)


def find_representatives(
    inclusion: np.ndarray, likely: np.ndarray, together: np.ndarray, correlated: np.ndarray
) -> np.ndarray:
    """Find representatives from joint inclusion probabilities.

    ``together`` (k, k) contains the probabilities that two of the variables ``likely`` are both
    active, and ``correlated`` (k, k) states whether they are correlated.
    """
    representative = np.arange(inclusion.size)
    active = together.diagonal()[:, None]
    without = active.T - together  # P(j, not i)
    # Both sides are multiplied by P(i) P(not i).
    less = together * (1.0 - active) < MAX_COOCCURRENCE * without * active
    instead = correlated & less & (without >= MIN_INCLUSION)
    leaders: list[int] = []
    for j in np.argsort(-inclusion[likely], kind="stable"):
        others = [i for i in leaders if instead[i, j]]
        if others:
            representative[likely[j]] = likely[others[0]]
        else:
            leaders.append(int(j))
    return representative


def merge_redundant(by_size: np.ndarray, representative: np.ndarray) -> np.ndarray:
    """Merge the probabilities of variables with a common representative.

    The result (p, Q + 1) is the joint probability that the representative or a variable that it
    represents is active and that the model size is 0, ..., Q. The sum of the single probabilities
    is an upper bound, as is the probability of the size, P(|v| = q) = sum_j P(j active, |v| = q) /
    q.
    """
    either = np.zeros_like(by_size)
    np.add.at(either, representative, by_size)
    number = by_size.sum(axis=0) / np.maximum(np.arange(by_size.shape[1]), 1)
    most: np.ndarray = np.minimum(either, number)
    return most


def maximise_expected_f_score(by_size: np.ndarray, nothing: float, most: int) -> SelectedSet:
    """Find the set of at most ``most`` variables with largest expected F-score.

    A set of k variables has the F-score 2 |both| / (k + |v|) for the true set v. The expected score
    is a sum over the members of 2 sum_q P(active, |v| = q) / (k + q), so that the best set of each
    size k can be found exactly, [DWCH11]. The empty set has F-score 1 if no variable is active,
    which has probability ``nothing``.
    """
    most = min(most, by_size.shape[0])
    none = SelectedSet(np.zeros(0, dtype=int), nothing)
    if most == 0:
        return none
    q, k = np.arange(1, by_size.shape[1]), np.arange(1, most + 1)
    score = by_size[:, 1:] @ (2.0 / (q[:, None] + k))  # (p, most)
    order = np.argsort(-score, axis=0, kind="stable")[:most]
    expected = np.cumsum(np.take_along_axis(score, order, axis=0), axis=0).diagonal()
    best = int(np.argmax(expected))
    if nothing >= expected[best]:
        return none
    return SelectedSet(order[: best + 1, best], float(expected[best]))


def select_by_f_score(model: SetModel[F], average: Average, max_size: int) -> SelectedSet:
    """Select the set of maximum expected F-score, without redundancy."""
    by_size = merge_redundant(average.by_size, representatives(model, average))
    return maximise_expected_f_score(by_size, 0.0, max_size)


def select_by_median(average: Average, max_size: int) -> np.ndarray:
    """Select all variables with an inclusion probability above 1/2, [BB04]."""
    likely = np.argsort(-average.inclusion, kind="stable")[:max_size]
    v: np.ndarray = likely[average.inclusion[likely] > 0.5]
    return v
