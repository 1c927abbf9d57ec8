"""Credible sets of the selected variables.

Given the other variables of a model, one variable of a correlated group is active. The posterior
probability of each candidate is proportional to the evidence of the model in which it replaces the
selected variable. A credible set is the smallest group with a total probability of 95 %.
"""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

COVERAGE = 0.95  # probability of a credible set
MIN_CORRELATION = 0.5  # minimum absolute correlation with the selected variable


def credible_sets(v: np.ndarray, gain: np.ndarray, correlation: np.ndarray) -> list[np.ndarray]:
    """Compute a credible set for each selected variable.

    Parameters
    ----------
    v : ndarray of shape (q,)
        Indices of the selected variables.
    gain : ndarray of shape (p, q)
        Increase of the log evidence if a variable replaces a selected variable.
    correlation : ndarray of shape (p, q)
        Absolute correlations of all variables with the selected variables.

    Returns
    -------
    list of ndarray
        Indices of the variables of each set.
    """
    gain = gain.copy()
    gain[v] = -np.inf  # A selected variable replaces no other.
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
