"""A covariance matrix in place of a table: what the search and the attributes need of it."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from ...data import Columns, DenseOperator, Operator
from ...data.columns import unit_of
from ...errors import InputError, ParameterError, check_integer
from .quadratic import Floats, Gram

# Entries C_ij and C_ji may differ by this share of the largest: printed digits, say.
ASYMMETRY = 1e-6
# A negative eigenvalue may be this share of the largest, as printed digits leave it.
NEGATIVE = 1e-4


class Covariance(NamedTuple):
    """A table that has this covariance, and the matrix itself."""

    op: Operator  # as many rows as the matrix has rank
    columns: Columns
    total: float  # observations
    quadratic: Gram  # total - 1 times the matrix, to the last digit


def covariance_of(
    given: Any, n_samples: int | None, mean: ArrayLike | None, scale: bool
) -> Covariance:
    """A matrix that a user gave, checked.

    Parameters
    ----------
    given : array (p, p)
    n_samples : int or None
    mean : array (p,) or None
        Zero if None.
    scale : bool
        Whether to make it a correlation matrix.

    Returns
    -------
    Covariance
    """
    C = symmetric(given)
    p = C.shape[0]
    if n_samples is not None:
        check_integer("n_samples", n_samples, 2, " or None")
    total = 2.0 if n_samples is None else float(n_samples)
    means = np.zeros(p) if mean is None else np.asarray(mean, dtype=float)
    if means.shape != (p,) or not np.all(np.isfinite(means)):
        raise ParameterError(
            f"`mean` must be {p} finite numbers, one for each row of the covariance matrix, or "
            f"None, got shape {means.shape}"
        )
    variances = np.diagonal(C)
    varying = variances > 0.0
    if varying.sum() < 2:
        raise InputError(
            f"{p - int(varying.sum())} of the {p} variances on the diagonal are zero; at least 2 "
            "must not be, or there is nothing to choose from"
        )
    deviation = np.where(varying, np.sqrt(variances), 1.0) if scale else np.ones(p)
    unit = 1.0 if scale else unit_of(float(np.sqrt(variances.max())))
    size = deviation[varying] * unit
    block: Floats = C[np.ix_(varying, varying)] / np.outer(size, size) * (total - 1.0)
    if scale:
        np.fill_diagonal(block, total - 1.0)
    values, vectors = np.linalg.eigh(block)
    if values[0] < -NEGATIVE * values[-1]:
        raise InputError(
            f"C has a negative eigenvalue, {values[0] / values[-1]:.3g} times the largest: it is "
            "not a covariance or correlation matrix. Was every entry computed from the same rows? "
            "Missing values left out pair by pair can do this: fill them in first."
        )
    rows = (np.sqrt(np.clip(values, 0.0, None)) * vectors).T
    return Covariance(
        DenseOperator(rows), Columns(means, deviation, unit, varying), total, Gram(block)
    )


def symmetric(given: Any) -> Floats:
    """A square symmetric array in double precision, with a diagonal that is not negative."""
    C = np.asarray(given, dtype=float) if not hasattr(given, "toarray") else given.toarray()
    if C.ndim != 2 or C.shape[0] != C.shape[1]:
        raise InputError(
            f"C must be a square matrix, one row and one column for each variable, got shape "
            f"{C.shape}. For a table of observations use `fit`."
        )
    largest = float(np.abs(C).max())
    apart = float(np.abs(C - C.T).max())
    if apart > ASYMMETRY * largest:
        raise InputError(
            f"C must be symmetric: two entries that should be equal differ by {apart:.3g}, where "
            f"the largest is {largest:.3g}. For a table of observations use `fit`."
        )
    if float(np.diagonal(C).min()) < 0.0:
        raise InputError(
            f"C must have variances on its diagonal, got {float(np.diagonal(C).min()):.3g} there"
        )
    return 0.5 * (C + C.T)
