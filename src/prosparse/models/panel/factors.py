"""Factor model with held-out common variances and communalities.

Symbols: x (p,) a row of the centred data, v (p,) the variances of the columns, V (p, r) principal
components, W (p, r) loadings, psi (p,) unique variances, z (r,) factors.

    x = W z + e,    z ~ N(0, I),    e ~ N(0, Psi),    W = V diag(delta_i - v_i'Psi v_i)^1/2

Sample eigenvalues overestimate the variances along the components, which are fitted to the same
rows. Here delta_i is the variance of *held-out* rows along the i-th component of the training rows;
the sequence is made non-increasing, and the unique variance in that direction is subtracted. The
method neither selects a number of components nor assumes a distribution: components without common
variance in held-out rows have zero loadings. (For large n and p, delta is the limit to which random
matrix theory shrinks the eigenvalues, see Ledoit & Wolf 2012, section 3; here it is measured.)

With few columns and many rows, the empirical covariance of the training rows is more accurate than
that of the factor model. `mix_covariances` forms a weighted mean of both, again as a factor model.

The *communality* of a column is the proportion of its variance that all other columns predict in
the same held-out rows.
"""

from __future__ import annotations

from functools import partial
from typing import NamedTuple

import numpy as np
from scipy.linalg import solve_triangular
from scipy.optimize import isotonic_regression

from ...data import Operator
from ...data.arrays import from_numpy, to_numpy
from ...errors import InputError
from .folds import Fold, project_columns, project_some_rows, run_parallel, take_rows

MIN_UNIQUENESS = 0.02  # minimum uniqueness
MIN_EMPIRICAL_UNIQUENESS = 1e-4  # minimum if the covariance is empirical; for numerical stability
_N_ITERATIONS = 5
_FIRST_COMPONENTS = 32  # components examined first; the number doubles until noise is reached
# Maximum number of held-out rows per component for which residuals are formed row by row.
_MAX_ROWS_PER_COMPONENT = 2


class FactorModel(NamedTuple):
    """Factor model with covariance W W' + diag(psi)."""

    W: np.ndarray  # (p, r)
    psi: np.ndarray  # (p,)


def estimate_common_variances(
    whole: Fold, folds: list[Fold], squares: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """Estimate the common variance along each component, delta - v'Psi v, (r,).

    ``squares`` (n_folds, p) are sums of squares of the held-out rows, and ``variances`` (p,) those
    of the columns. The result has the leading components whose common variance exceeds the standard
    error of a variance; it is empty if the training rows of a fold do not vary. An error is raised
    if no held-out row varies.
    """
    r = min(fold.scores.shape[1] for fold in folds)
    if r == 0:
        return np.zeros(0)
    if not squares.any():
        n_held_out = sum(int(fold.held_out.sum()) for fold in folds)
        raise InputError(
            f"X varies in too few of its rows: none of the {n_held_out:,} rows held out for "
            "validation differs from the column means. Fit on a sample with more rows that vary."
        )
    score_squares = sum(np.sum(fold.scores[:, :r] ** 2, axis=0) for fold in folds)
    delta = isotonic_regression(score_squares, increasing=False).x
    # Centring at the mean of other rows increases the variance of the held-out rows.
    delta = delta * (variances.sum() / squares.sum())
    standard_error = delta * np.sqrt(2.0 / whole.training.sum())
    count = min(_FIRST_COMPONENTS, r)
    while True:
        common = _subtract_unique_variance(whole.directions(count) ** 2, delta[:count], variances)
        is_leading = np.logical_and.accumulate(common > standard_error[:count])
        n_leading = int(np.sum(is_leading))
        if n_leading < count or count == r:
            return np.asarray(common[: max(n_leading, 1)])
        count = min(2 * count, r)


def _subtract_unique_variance(
    squared_V: np.ndarray, delta: np.ndarray, variances: np.ndarray
) -> np.ndarray:
    """Compute delta - v'Psi v with the residual variance Psi."""
    unique = variances
    for _ in range(_N_ITERATIONS):  # unique and common variances depend on each other
        common = np.maximum(delta - squared_V.T @ unique, 0.0)
        common = np.maximum(isotonic_regression(common, increasing=False).x, 0.0)
        unique = np.maximum(variances - squared_V @ common, MIN_UNIQUENESS * variances)
    return np.asarray(common)


def build_factor_model(fold: Fold, common: np.ndarray, variances: np.ndarray) -> FactorModel:
    """Build the factor model from components and their common variances."""
    W = fold.directions(common.size)
    W = W * np.sqrt(common[: W.shape[1]])
    psi = np.maximum(variances - np.sum(W**2, axis=1), MIN_UNIQUENESS * variances)
    return FactorModel(W, psi)


def leave_one_out_residuals(
    op: Operator, folds: list[Fold], squares: np.ndarray, models: list[FactorModel]
) -> np.ndarray:
    """Compute sums of squared residuals given other columns, (n_folds, p).

    With the precision matrix P = (W W' + Psi)^-1 = Psi^-1 - C C', the residual of column j given
    all others is (P x)_j / P_jj.
    """
    tasks = [
        partial(_fold_residuals, op, *fold) for fold in zip(folds, squares, models, strict=True)
    ]
    return np.stack(run_parallel(op, tasks))


def _fold_residuals(
    op: Operator, fold: Fold, squares: np.ndarray, model: FactorModel
) -> np.ndarray:
    W, psi = model
    weighted = W / psi[:, None]
    identity = np.eye(W.shape[1])
    root = solve_triangular(np.linalg.cholesky(identity + W.T @ weighted), identity, lower=True)
    C = weighted @ root.T
    precision = 1.0 / psi - np.einsum("pr,pr->p", C, C)
    has_few_rows = int(fold.held_out.sum()) <= _MAX_ROWS_PER_COMPONENT * W.shape[1]
    if has_few_rows and op.whole is not None:
        total = _precision_squares_by_row(op, fold, psi, C)
    else:
        total = _precision_squares_by_product(op, fold, squares, psi, C)
    return np.maximum(total, 0.0) / precision**2


def _precision_squares_by_row(
    op: Operator, fold: Fold, psi: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """Compute sums of squares of P x over held-out rows."""
    like = op.column_squares()
    mean, C_device, inverse = (
        from_numpy(part, like, op.dtype) for part in (fold.mean, C, 1.0 / psi)
    )
    x = take_rows(op, fold.held_out) - mean
    Px = x * inverse - (x @ C_device) @ C_device.T
    return to_numpy(op.xp.sum(Px * Px, axis=0)).astype(float)


def _precision_squares_by_product(
    op: Operator, fold: Fold, squares: np.ndarray, psi: np.ndarray, C: np.ndarray
) -> np.ndarray:
    """Compute the same sums from X'T, with T = X C, without forming the rows."""
    T = project_some_rows(op, C, fold.held_out) - fold.mean @ C
    XT = project_columns(op, T, fold.held_out) - np.outer(fold.mean, T.sum(axis=0))
    cross = np.einsum("pr,pr->p", XT, C)
    quadratic = np.einsum("pr,pr->p", C @ (T.T @ T), C)
    return np.asarray(squares / psi**2 - 2.0 * cross / psi + quadratic)


def shrink_communalities(measured: np.ndarray, scale: np.ndarray, n: int) -> np.ndarray:
    """Shrink communalities towards those of columns with similar scale, (p,).

    If all columns have the same unit (log expression, grey values), those with small standard
    deviations are mostly noise. Isotonic regression on the standard deviation ``scale`` estimates
    this relation; it is flat if units differ. The amount of shrinkage follows from the variance of
    a squared correlation in ``n`` held-out rows, 4 R2 (1 - R2)^2 / n (Olkin & Finn 1995).
    """
    measured = np.clip(measured, -0.5, 1.0)
    order = np.lexsort((measured, scale))
    expected = np.empty_like(measured)
    expected[order] = isotonic_regression(measured[order]).x
    uniqueness = np.clip(1.0 - expected, MIN_UNIQUENESS, 1.0)
    sampling = 4.0 * np.clip(expected, MIN_UNIQUENESS, 1.0) * uniqueness**2 / n
    sampling = sampling + 2.0 * uniqueness**2 / n**2
    total = float(np.mean((measured - expected) ** 2))
    reliability = max(total - float(sampling.mean()), 0.0) / max(total, 1e-300)
    return np.clip(expected + reliability * (measured - expected), 0.0, 1.0 - MIN_UNIQUENESS)


def rescale_loadings(
    model: FactorModel, communality: np.ndarray, variances: np.ndarray
) -> FactorModel:
    """Rescale the loadings of each column to its communality."""
    squared_length = np.maximum(np.sum(model.W**2, axis=1), 1e-300)
    W = model.W * np.sqrt(communality * variances / squared_length)[:, None]
    return FactorModel(W, variances * (1.0 - communality))


def mix_covariances(
    model: FactorModel, fold: Fold, variances: np.ndarray, weight: float
) -> FactorModel:
    """Mix the covariance of a factor model with the empirical one.

    The empirical covariance V diag(lambda) V' is also a factor model. The factors are all principal
    components, and the unique variances are zero unless components are missing. The loadings of a
    weighted mean of two covariances are the concatenated loadings of both. The result has at most p
    factors.
    """
    if weight == 0.0:
        return model
    V = fold.directions(fold.variances.size) * np.sqrt(fold.variances)
    missing = MIN_EMPIRICAL_UNIQUENESS * variances
    if not fold.is_complete:
        missing = np.maximum(missing, variances - np.sum(V**2, axis=1))
    W = V
    if weight < 1.0:
        W = np.hstack([np.sqrt(1.0 - weight) * model.W, np.sqrt(weight) * V])
    if W.shape[1] > W.shape[0]:
        eigenvalues, vectors = np.linalg.eigh(W @ W.T)
        W = vectors * np.sqrt(np.maximum(eigenvalues, 0.0))
    return FactorModel(W, (1.0 - weight) * model.psi + weight * missing)


def set_variances(model: FactorModel, variances: np.ndarray) -> FactorModel:
    """Rescale the columns to given variances; correlations do not change."""
    factor = np.sqrt(variances / (np.sum(model.W**2, axis=1) + model.psi))
    return FactorModel(model.W * factor[:, None], model.psi * factor**2)
