"""What each variable of a panel adds to what those before it tell, for every variable.

The factor model is put together from what a fitted panel keeps: directions w_j of unit length from
its loadings and the variances of its scores, made as long as the communalities that held-out rows
confirm, so that w_j'w_j + psi_j = 1 for every column. The covariance S of the latent scores given
the first columns of the panel falls as in `greedy`, and with it what is not yet known of a column,
w_j'S w_j. Columns outside the panel are brought to what held-out rows say of the whole panel: the
model says in which order, the rows how much.
"""

from __future__ import annotations

import numpy as np

from .factors import Factors
from .greedy import init, step

# Shares below this are rounding.
_NOTHING = 1e-12


def added_shares(
    order: np.ndarray,
    loadings: np.ndarray,
    variances: np.ndarray,
    communality: np.ndarray,
    recovered: np.ndarray,
    shown: int,
) -> np.ndarray:
    """The share of every column that each of the first columns of a panel adds.

    Parameters
    ----------
    order : int array (q,)
        The panel.
    loadings : array (d, p)
        Orthonormal rows.
    variances : array (d,)
        Of the scores.
    communality : array (p,)
        The share of every column that all others predict; below 1.
    recovered : array (p,)
        The share of every column that the whole panel predicts.
    shown : int
        For how many columns of the panel the answer is wanted.

    Returns
    -------
    array (shown, p)
        The sum over all q columns of the panel would be ``recovered``, and 1 for the panel's own;
        nothing is negative.
    """
    W = (loadings * np.sqrt(variances)[:, None]).T
    length = np.linalg.norm(W, axis=1)
    W = W * (np.sqrt(communality) / np.maximum(length, 1e-300))[:, None]
    psi = 1.0 - np.sum(W**2, axis=1)
    model, A = Factors(W, psi), W.T @ W
    state = init(model, A)
    added = np.zeros((min(shown, order.size), W.shape[0]))
    told = np.zeros(W.shape[0])
    for number, k in enumerate(order.tolist()):
        known = state.t
        state = step(model, A, state, k)
        gain = np.maximum(known - state.t, 0.0)
        gain[order[:number]] = 0.0  # known already
        gain[k] = 1.0 - told[k]
        told += gain
        if number < shown:
            added[number] = gain
    factor = np.where(told > _NOTHING, np.maximum(recovered, 0.0) / np.maximum(told, _NOTHING), 0.0)
    factor[order] = 1.0
    return added * factor
