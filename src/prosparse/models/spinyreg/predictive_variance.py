"""Columns of very different size, and the spread of predictions from uncertain coefficients."""

from __future__ import annotations

import math

import numpy as np

from ...data.containers import Table
from ...errors import InputError

WIDEST_SPREAD = 1e6  # of the deviations of the columns, when they are not scaled


def quadratic(
    X: Table, used: np.ndarray, C: np.ndarray, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """z'Cz of the rows z of ``X``, centred and scaled, in the columns ``used``; where C has one row
    more, z starts with a one, for an intercept."""
    Z = (np.asarray(X[:, used] @ np.eye(used.size)) - mean[used]) / scale[used]
    if C.shape[0] > used.size:
        Z = np.column_stack([np.ones(Z.shape[0]), Z])
    spread: np.ndarray = np.maximum(np.einsum("ij,ij->i", Z @ C, Z), 0.0)
    return spread


def refuse_spread(squares: np.ndarray) -> None:
    """Refuse columns of very different size, when they are not scaled."""
    spread = math.sqrt(float(squares.max()) / max(float(squares.min()), 1e-300))
    if spread > WIDEST_SPREAD:
        raise InputError(
            f"the largest column of X is {spread:.3g} times the smallest: without scaling, no "
            "prior fits both. Set `scale=True`, or bring the columns to similar units."
        )
