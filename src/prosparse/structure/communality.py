"""Communality: proportion of variance that the components explain."""

from __future__ import annotations

import numpy as np

from .leading_components import StandardisedData


def compute_communalities(data: StandardisedData, selected: np.ndarray, d: int) -> np.ndarray:
    """Compute R2(d) of each variable given the selected variables, (p,).

    The components for a selected variable are computed without that variable.
    """
    members = selected & (data.sums_of_squares > 0.0)
    count = min(d, data.max_count(members))
    if count < 1:
        return np.zeros(data.p)
    r2 = data.sequential_r2(members, count)
    return np.clip(np.sum(r2, axis=1), 0.0, 1.0)
