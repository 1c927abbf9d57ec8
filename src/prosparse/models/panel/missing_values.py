"""Imputation of missing values in the rows of ``fit`` and in new rows.

`fit` replaces missing values by draws from their distribution given the observed values of their
row, under the covariance used for the selection. Estimation of the covariance from the completed
rows alternates with new draws (stochastic EM, Celeux & Diebolt 1985). Draws, unlike conditional
expectations, do not increase the correlations, so that held-out R2 is not too large.

The covariance from which a row is drawn is estimated *without* this row. With more columns than
rows, the components of all rows contain the earlier draws of each row. The observed values would
identify the row, and its earlier draws would be repeated.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from ...data import standardise
from ...data.row_groups import RowGroups
from .cross_validation import CrossValidatedModel, cross_validate
from .factors import FactorModel, mix_covariances, rescale_loadings

N_DRAWS = 8  # number of times that the missing values are drawn
MAX_FACTORS = 50  # maximum number of factors from which missing values are drawn


def complete_rows(X: np.ndarray, seed: int) -> np.ndarray:
    """Replace missing values (NaN) by draws from their conditional distribution.

    Each column must have an observed value.
    """

    rng = np.random.default_rng(seed)
    is_missing = np.isnan(X)
    mean, std = np.nanmean(X, axis=0), np.nanstd(X, axis=0)
    std = np.where(std > 0.0, std, 1.0)
    Z = np.where(is_missing, 0.0, (X - mean) / std)
    varying = np.flatnonzero(np.nanstd(X, axis=0) > 0.0)
    n, p = X.shape[0], varying.size
    weight = max(0.0, 1.0 - 2.0 * p / n)  # of the empirical covariance
    for number in range(N_DRAWS if p > 1 else 0):
        rows = Z[:, varying]
        centre, scale = rows.mean(axis=0), rows.std(axis=0)
        op, columns = standardise(rows, True)
        fitted = cross_validate(op, scale * std[varying], None, seed + number, n_repeats=1)
        drawn, unit = (rows - centre) / scale, np.sqrt(columns.variance(1.0))
        for part, (W, psi) in held_out_models(fitted, weight):
            model = leading_factors(FactorModel(W * unit, psi * unit**2))
            drawn[part] = draw_missing(model, drawn[part], is_missing[np.ix_(part, varying)], rng)
        Z[:, varying] = drawn * scale + centre
    completed = np.where(is_missing, Z * std + mean, X)
    constant = np.setdiff1d(np.arange(X.shape[1]), varying)
    completed[:, constant] = mean[constant]
    return completed


def held_out_models(
    fitted: CrossValidatedModel, weight: float
) -> Iterator[tuple[np.ndarray, FactorModel]]:
    """Yield sets of rows, each with a model of the other rows.

    Large data have rows that no fold holds out; the model of all rows is used for these.
    """
    rows = [fold.held_out for fold in fitted.folds]
    rows.append(~np.any(rows, axis=0))
    folds = [*fitted.folds, fitted.whole_fold]
    models = [*fitted.fold_models, fitted.whole]
    for part, fold, model in zip(rows, folds, models, strict=True):
        rescaled = rescale_loadings(model, fitted.communality, fitted.variances)
        yield np.flatnonzero(part), mix_covariances(rescaled, fold, fitted.variances, weight)


def observed_means(X: np.ndarray, groups: RowGroups | None) -> np.ndarray:
    """Return for each entry the mean of its column over the rows of its group.

    Missing values are ignored. If a column has no observed value in a group, the mean of all rows
    is used.
    """
    observed = ~np.isnan(X)
    overall = np.where(observed, X, 0.0).sum(axis=0) / np.maximum(observed.sum(axis=0), 1)
    if groups is None:
        return np.broadcast_to(overall, X.shape)
    sums, counts = np.zeros((2, groups.sizes.size, X.shape[1]))
    np.add.at(sums, groups.codes, np.where(observed, X, 0.0))
    np.add.at(counts, groups.codes, observed)
    means = np.where(counts > 0, sums / np.maximum(counts, 1), overall)
    return np.asarray(means[groups.codes])


def leading_factors(model: FactorModel) -> FactorModel:
    """Keep the leading factors and add the others to the unique variances."""
    if model.W.shape[1] <= MAX_FACTORS:
        return model
    vectors = np.linalg.eigh(model.W.T @ model.W)[1]
    W = model.W @ vectors[:, ::-1]
    kept, dropped = W[:, :MAX_FACTORS], W[:, MAX_FACTORS:]
    return FactorModel(kept, model.psi + np.sum(dropped**2, axis=1))


def draw_missing(
    model: FactorModel, Z: np.ndarray, is_missing: np.ndarray, rng: np.random.Generator
) -> np.ndarray:
    """Draw the missing values of centred rows given their observed values."""
    Z = Z.copy()
    W, psi = model
    weighted = W / psi[:, None]
    identity = np.eye(W.shape[1])
    for rows, missing in missing_patterns(is_missing):
        observed = ~missing
        root = np.linalg.cholesky(identity + W[observed].T @ weighted[observed])
        projected = np.linalg.solve(root, weighted[observed].T @ Z[np.ix_(rows, observed)].T)
        noise = rng.standard_normal(projected.shape)
        factors = np.linalg.solve(root.T, projected + noise)  # posterior mean and noise
        unique = rng.standard_normal((rows.size, int(missing.sum()))) * np.sqrt(psi[missing])
        Z[np.ix_(rows, missing)] = factors.T @ W[missing].T + unique
    return Z


def missing_patterns(is_missing: np.ndarray) -> Iterator[tuple[np.ndarray, np.ndarray]]:
    """Yield the rows of each pattern of missing values, and the pattern."""
    rows = np.flatnonzero(is_missing.any(axis=1))
    if not rows.size:
        return
    patterns, number = np.unique(is_missing[rows], axis=0, return_inverse=True)
    order = np.argsort(number.ravel(), kind="stable")
    ends = np.cumsum(np.bincount(number.ravel(), minlength=len(patterns)))
    for pattern, members in zip(patterns, np.split(order, ends[:-1]), strict=True):
        yield rows[members], pattern


class CompletedPanel(NamedTuple):
    """Panel variables of new rows, with missing values imputed."""

    values: np.ndarray  # (n, q)
    patterns: list[tuple[np.ndarray, np.ndarray]]  # rows, and (q, q) conditional covariance

    def added_variance(self, coefficients: np.ndarray) -> np.ndarray:
        """Compute the variance that missing values add to predictions, (n, k).

        ``coefficients``, (k, q), map the panel to the predictions.
        """
        added = np.zeros((self.values.shape[0], coefficients.shape[0]))
        for rows, covariance in self.patterns:
            added[rows] = np.einsum("kq,qr,kr->k", coefficients, covariance, coefficients)
        return added


def expect_missing(values: np.ndarray, covariance: np.ndarray) -> CompletedPanel:
    """Replace missing values (NaN) by their conditional expectations."""
    values, patterns = values.copy(), []
    for rows, missing in missing_patterns(np.isnan(values)):
        observed = ~missing
        coefficients = np.linalg.solve(
            covariance[np.ix_(observed, observed)], covariance[np.ix_(observed, missing)]
        )
        values[np.ix_(rows, missing)] = values[np.ix_(rows, observed)] @ coefficients
        conditional = np.zeros_like(covariance)
        conditional[np.ix_(missing, missing)] = (
            covariance[np.ix_(missing, missing)]
            - covariance[np.ix_(missing, observed)] @ coefficients
        )
        patterns.append((rows, conditional))
    return CompletedPanel(values, patterns)
