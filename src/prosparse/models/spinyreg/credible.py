"""Credible sets: for each chosen variable, those that could stand for it.

Given the other variables of a model, one of those correlated with a chosen one is the true one,
each with a probability in proportion to the evidence of the model with it instead. A credible set
holds the fewest of them that have 95 % of the probability. Every model of this package knows the
evidence of exchanges, so that the rest is the same for all.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

COVERAGE = 0.95  # probability that a credible set holds
MIN_CORRELATION = 0.5  # least correlation of the members of a credible set with the chosen variable


def credible_sets(v: np.ndarray, gain: np.ndarray, correlation: np.ndarray) -> list[np.ndarray]:
    """For each chosen variable: itself and those that could stand for it, the most probable first.

    Parameters
    ----------
    v : int array (q,)
        The chosen variables.
    gain : array (p, q)
        Rise of the log evidence when a variable comes for a chosen one.
    correlation : array (p, q)
        Of all variables with the chosen ones, without signs.

    Returns
    -------
    list of int arrays
    """
    gain = gain.copy()
    gain[v] = -np.inf  # a chosen variable stands for no other
    gain[v, np.arange(v.size)] = 0.0
    groups = []
    for i, j in enumerate(v):
        correlated = correlation[:, i] >= MIN_CORRELATION
        correlated[j] = True
        members = np.flatnonzero(correlated & np.isfinite(gain[:, i]))
        probability = softmax(gain[members, i])
        falling = np.argsort(-probability, kind="stable")
        size = int(np.searchsorted(np.cumsum(probability[falling]), COVERAGE)) + 1
        groups.append(members[falling[:size]])
    return groups
