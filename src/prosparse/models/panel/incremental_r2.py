"""Increments of the R2 of all variables by each variable of a panel.

The factor model is reconstructed from the attributes of a fitted panel. The loadings w_j of
variable j follow from the loadings of the panel and the variances of its scores. These loadings are
rescaled to the held-out communalities, so that w_j'w_j + psi_j = 1. Each addition reduces the
posterior covariance S of the factors as in `greedy`, and thereby the unexplained common variance
w_j'S w_j of each variable. The increments of a variable outside the panel are rescaled to its
held-out R2: the model determines their proportions, held-out rows their sum.
"""

from __future__ import annotations

import numpy as np

from .factors import FactorModel
from .greedy import add_variable, init

_MIN_R2 = 1e-12  # smaller values are rounding errors


def incremental_r2(
    order: np.ndarray,
    loadings: np.ndarray,
    variances: np.ndarray,
    communality: np.ndarray,
    heldout_r2: np.ndarray,
    count: int,
) -> np.ndarray:
    """Compute the increments of R2 by the first variables of a panel.

    The result contains non-negative increments, (count, p). ``order`` (q,) are the variables in the
    order of selection, ``loadings`` (d, p) have orthonormal rows, and ``variances`` (d,) are those
    of the scores. ``communality`` (p,), less than 1, and ``heldout_r2`` (p,) are the proportions
    that all other variables and the panel predict. The sum of the increments of all q variables is
    ``heldout_r2``, and 1 for variables of the panel.
    """
    W = (loadings * np.sqrt(variances)[:, None]).T
    length = np.linalg.norm(W, axis=1)
    W = W * (np.sqrt(communality) / np.maximum(length, 1e-300))[:, None]
    model, A = FactorModel(W, 1.0 - np.sum(W**2, axis=1)), W.T @ W
    state = init(model, A)
    increments = np.zeros((min(count, order.size), W.shape[0]))
    total = np.zeros(W.shape[0])
    for number, k in enumerate(order.tolist()):
        unexplained = state.t
        state = add_variable(model, A, state, k)
        increment = np.maximum(unexplained - state.t, 0.0)
        increment[order[:number]] = 0.0  # observed already
        increment[k] = 1.0 - total[k]
        total += increment
        if number < count:
            increments[number] = increment
    factor = np.where(
        total > _MIN_R2, np.maximum(heldout_r2, 0.0) / np.maximum(total, _MIN_R2), 0.0
    )
    factor[order] = 1.0
    return increments * factor
