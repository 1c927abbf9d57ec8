"""Variance of a prediction due to the uncertainty of the coefficients."""

from __future__ import annotations

import numpy as np

from ...data.containers import Table


def quadratic_form(
    X: Table, indices: np.ndarray, C: np.ndarray, mean: np.ndarray, scale: np.ndarray
) -> np.ndarray:
    """Compute z'Cz for each standardised row z of ``X[:, indices]``.

    If C has one row more than there are indices, z starts with a one for the intercept.
    """
    Z = (np.asarray(X[:, indices] @ np.eye(indices.size)) - mean[indices]) / scale[indices]
    if C.shape[0] > indices.size:
        Z = np.column_stack([np.ones(Z.shape[0]), Z])
    values: np.ndarray = np.maximum(np.einsum("ij,ij->i", Z @ C, Z), 0.0)
    return values
