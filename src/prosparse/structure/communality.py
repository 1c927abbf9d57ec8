"""Communality: proportion of variance that the components explain."""

from __future__ import annotations

import numpy as np

from .leading_components import FIT_TOLERANCE, StandardisedData


def compute_communalities(data: StandardisedData, selected: np.ndarray, d: int) -> np.ndarray:
    """Compute R2(d) of each variable given the selected variables.

    Parameters
    ----------
    data : StandardisedData
    selected : bool ndarray of shape (p,)
        Variables whose components are used. The components for a selected variable are computed
        without that variable.
    d : int
        Number of components.

    Returns
    -------
    ndarray of shape (p,)
    """
    members = selected & (data.sums_of_squares > 0.0)
    count = min(d, int(members.sum()) - 1)
    if count < 1:
        return np.zeros(data.p)
    found = data.principal_components(members, count, FIT_TOLERANCE)
    count = min(count, found.eigenvalues.size)
    squares = np.where(data.sums_of_squares > 0.0, data.sums_of_squares, 1.0)
    communalities = np.sum(found.projections[:, :count] ** 2, axis=1) / squares
    communalities[members] = np.sum(data.member_r2(found, count).lower, axis=1)
    return np.clip(communalities, 0.0, 1.0)
