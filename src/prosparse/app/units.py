"""Columns of another scale, which make up a component by their units alone."""

from __future__ import annotations

import numpy as np

from ..data import container_of
from ..findings import Findings
from ..phrases import percent
from ..tables import Table
from ..tables.base import quietly

_LARGER = 10.0  # times the standard deviation of the median column is another scale
_MOST = 0.9  # of the variance of the table, and of a component


def tell_units(table: Table, found: Findings) -> list[str]:
    """A note, if columns of another scale are nearly all of the variance, and of a component."""
    deviations = _deviations(table)
    varying = deviations[deviations > 0]
    if varying.size < 3 or not found.loadings.size:
        return []
    usual = float(np.median(varying))
    large = deviations >= _LARGER * usual
    share = float(np.sum(deviations[large] ** 2) / np.sum(deviations**2))
    weights = found.loadings**2 / np.maximum(np.sum(found.loadings**2, axis=1), 1e-300)[:, None]
    if share < _MOST or float(weights[:, large].sum(axis=1).max(initial=0.0)) < _MOST:
        return []
    order = [k for k in np.argsort(-deviations) if large[k]]
    names = ", ".join(quietly(table.names[k]) for k in order[:3])
    more = f" and {len(order) - 3} more" if len(order) > 3 else ""
    have = "has" if len(order) == 1 else "have"
    return [
        f"{names}{more} {have} {percent(share)} of the variance of all columns (a standard "
        "deviation of "
        f"{deviations[order[0]]:.3g}, where the median is {usual:.3g}) and so a component, by "
        f"{'its' if len(order) == 1 else 'their'} units alone; if units differ, say --scale"
    ]


def _deviations(table: Table) -> np.ndarray:
    X = table.X
    if container_of(X).is_sparse:
        mean = np.asarray(X.mean(axis=0)).ravel()
        squares = np.asarray(X.multiply(X).mean(axis=0)).ravel()
        deviations: np.ndarray = np.sqrt(np.maximum(squares - mean**2, 0.0))
        return deviations
    return np.asarray(np.nanstd(X, axis=0))
