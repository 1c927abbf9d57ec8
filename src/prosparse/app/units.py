"""Note on columns of a larger scale, whose units alone determine a component."""

from __future__ import annotations

import numpy as np

from ..data.arrays import to_numpy
from ..findings import Findings
from ..models._base import VariableSelector
from ..phrases import percent
from ..tables.base import quote

MIN_SCALE_RATIO = 10.0  # minimum ratio to the median standard deviation
MIN_PROPORTION = 0.9  # minimum proportion of the total variance, and of a component


def note_units(
    column_names: list[str], variances: np.ndarray, found: Findings, model: VariableSelector
) -> list[str]:
    """Return a note if columns of a larger scale dominate a component.

    A model with one noise variance per variable adapts to the units of each variable: no note.
    """
    noise = getattr(model, "feature_noise_variance_", None)
    if noise is not None and np.ptp(to_numpy(noise)) > 0:
        return []
    std = np.sqrt(variances)
    varying = std[std > 0]
    if varying.size < 3 or not found.loadings.size:
        return []
    median = float(np.median(varying))
    is_large = std >= MIN_SCALE_RATIO * median
    proportion = float(np.sum(std[is_large] ** 2) / np.sum(std**2))
    squared = found.loadings**2
    weights = squared / np.maximum(np.sum(squared, axis=1), 1e-300)[:, None]
    dominated = float(weights[:, is_large].sum(axis=1).max(initial=0.0))
    if min(proportion, dominated) < MIN_PROPORTION:
        return []
    order = [k for k in np.argsort(-std) if is_large[k]]
    names = ", ".join(quote(column_names[k]) for k in order[:3])
    more = f" and {len(order) - 3} more" if len(order) > 3 else ""
    verb = "has" if len(order) == 1 else "have"
    return [
        f"{names}{more} {verb} {percent(proportion)} of the total variance (standard deviation "
        f"{std[order[0]]:.3g}, median of all columns {median:.3g}) and dominate"
        f"{'s' if len(order) == 1 else ''} a component; use --scale if the units differ"
    ]
