"""Validation of a covariance matrix that replaces the data matrix."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...data import Columns, DenseOperator, Operator
from ...data.columns import unit_of
from ...errors import InputError, ParameterError, check_integer
from .quadratic import Floats, Gram

# Maximum difference between C_ij and C_ji, relative to the largest entry. The tolerance allows for
# matrices rounded to printed digits.
MAX_ASYMMETRY = 1e-6
# Maximum magnitude of a negative eigenvalue, relative to the largest eigenvalue; also for rounded
# matrices.
MAX_NEGATIVE_EIGENVALUE = 1e-4


class Covariance(NamedTuple):
    """Covariance matrix, and data that have this matrix."""

    op: Operator  # data with this covariance matrix
    columns: Columns
    total: float  # number of observations
    quadratic: Gram  # total - 1 times the matrix, without rounding


def covariance_of(
    given: Any, n_samples: int | None, mean: ArrayLike | None, scale: bool
) -> Covariance:
    """Validate a covariance matrix; with ``scale``, convert it to correlations."""
    C = symmetrise(given)
    p = C.shape[0]
    if n_samples is not None:
        check_integer("n_samples", n_samples, 2, " or None")
    total = 2.0 if n_samples is None else float(n_samples)
    means = np.zeros(p) if mean is None else np.asarray(mean, dtype=float)
    if means.shape != (p,) or not np.all(np.isfinite(means)):
        raise ParameterError(
            f"`mean` must be None or {p} finite numbers, one per row of the covariance matrix, got "
            f"shape {means.shape}."
        )
    variances = np.diagonal(C)
    varying = variances > 0.0
    if varying.sum() < 2:
        raise InputError(
            f"{p - int(varying.sum())} of the {p} variances on the diagonal of C are zero; at "
            "least 2 must be positive."
        )
    deviation = np.where(varying, np.sqrt(variances), 1.0) if scale else np.ones(p)
    unit = 1.0 if scale else unit_of(float(np.sqrt(variances.max())))
    size = deviation[varying] * unit
    block: Floats = C[np.ix_(varying, varying)] / np.outer(size, size) * (total - 1.0)
    if scale:
        np.fill_diagonal(block, total - 1.0)
    values, vectors = np.linalg.eigh(block)
    if values[0] < -MAX_NEGATIVE_EIGENVALUE * values[-1]:
        raise InputError(
            "C must be positive semi-definite, but an eigenvalue is "
            f"{values[0] / values[-1]:.3g} times the largest. Compute all entries from the same "
            "rows; pairwise deletion of missing values can cause negative eigenvalues."
        )
    rows = (np.sqrt(np.clip(values, 0.0, None)) * vectors).T
    return Covariance(
        DenseOperator(rows), Columns(means, deviation, unit, varying), total, Gram(block)
    )


def symmetrise(given: Any) -> Floats:
    """Convert to a symmetric float64 matrix with a non-negative diagonal."""
    C = np.asarray(given, dtype=float) if not hasattr(given, "toarray") else given.toarray()
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise InputError(
            f"C must be a square matrix with one row and one column per variable, got shape "
            f"{C.shape}. For a data matrix use `fit`."
        )
    largest = float(np.abs(C).max())
    apart = float(np.abs(C - C.T).max())
    if apart > MAX_ASYMMETRY * largest:
        raise InputError(
            f"C must be symmetric, but C_ij and C_ji differ by up to {apart:.3g}, and the largest "
            f"entry is {largest:.3g}. For a data matrix use `fit`."
        )
    if float(np.diagonal(C).min()) < 0.0:
        raise InputError(
            "C must have non-negative variances on its diagonal, got "
            f"{float(np.diagonal(C).min()):.3g}. Check how C was computed."
        )
    return 0.5 * (C + C.T)
