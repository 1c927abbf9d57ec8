"""Predictions and explained variance agree with their definitions."""

import numpy as np
import pytest

from prosparse.data import DenseOperator
from prosparse.data.row_groups import row_groups
from prosparse.models.panel.missing_values import expect_missing
from prosparse.models.panel.prediction import (
    MAX_VARIANCE_RATIO,
    FittedPanel,
    expected_squares,
    explained_proportion,
    predict_others,
    squares_of_operator,
)

N, P, D = 30, 8, 3
PANEL = [1, 4, 6]
OTHERS = [0, 2, 3, 7]  # column 5 is constant


@pytest.fixture
def fitted(rng):
    support, varying = np.zeros(P, dtype=bool), np.ones(P, dtype=bool)
    support[PANEL], varying[5] = True, False
    root = rng.standard_normal((3, 3))
    return FittedPanel(
        support=support,
        varying=varying,
        weights=rng.standard_normal((D, 3)),
        loadings=rng.standard_normal((D, P)) * varying,
        mean=rng.standard_normal(P),
        scale=rng.uniform(0.5, 2.0, P),
        residual_std=rng.uniform(0.5, 2.0, P) * varying,
        width=rng.uniform(0.5, 2.0, P) * varying,
        exponent=0.5,
        covariance=root @ root.T + np.eye(3),
        depth=0.0,
    )


@pytest.mark.parametrize("labels", [None, np.arange(N) % 4])
def test_both_sums_of_squares_agree_with_the_definition(fitted, labels, rng):
    kept = np.flatnonzero(fitted.varying)
    Z, groups = rng.standard_normal((N, kept.size)), row_groups(labels, N)
    inside = np.flatnonzero(fitted.support[kept])
    centred = Z.copy()
    for label in [] if labels is None else np.unique(labels):
        centred[labels == label] -= Z[labels == label].mean(axis=0)
    errors = centred - centred[:, inside] @ fitted.weights.T @ fitted.loadings[:, kept]
    errors[:, inside] = 0.0
    expected = np.sum(errors**2, axis=0), np.sum(centred**2, axis=0)
    rows = expect_missing(Z[:, inside], fitted.covariance)
    for found in (
        squares_of_operator(fitted, DenseOperator(Z), groups),
        expected_squares(fitted, rows, Z, groups),
    ):
        np.testing.assert_allclose(found.residual, expected[0], rtol=1e-10, atol=1e-10)
        np.testing.assert_allclose(found.total, expected[1], rtol=1e-10)
    weight = np.minimum(MAX_VARIANCE_RATIO * N / expected[1], 1.0)
    proportion = 1.0 - np.sum(weight * expected[0]) / np.sum(weight * expected[1])
    assert explained_proportion(found, N, is_scaled=True) == pytest.approx(proportion)


def test_missing_entries_contribute_expected_squares(fitted, rng):
    """The expectation is the mean over draws of the missing entries."""
    kept = np.flatnonzero(fitted.varying)
    Z = rng.standard_normal((N, kept.size))
    inside = np.flatnonzero(fitted.support[kept])
    missing = kept.tolist().index(2)
    rows, entries = expect_missing(Z[:, inside], fitted.covariance), Z.copy()
    entries[3, missing] = np.nan
    found = expected_squares(fitted, rows, entries, None)
    predicted = Z[3, inside] @ fitted.weights.T @ fitted.loadings[:, 2]
    std = fitted.residual_std[2] / fitted.scale[2]
    draws = predicted + std * rng.standard_normal(400_000)
    complete = expected_squares(fitted, rows, Z, None)
    removed = (Z[3, missing] - predicted) ** 2, Z[3, missing] ** 2
    added = np.mean((draws - predicted) ** 2), np.mean(draws**2)
    for k in range(2):
        expected = complete[k][missing] - removed[k] + added[k]
        assert found[k][missing] == pytest.approx(expected, abs=0.03)


def test_predictions_of_counts_are_moments_of_squared_roots(fitted, rng):
    rows, distance = expect_missing(rng.standard_normal((N, 3)), fitted.covariance), np.ones(N)
    totals = rng.uniform(50.0, 150.0, N)
    roots = predict_others(fitted, rows, distance, lambda: totals)
    outside = np.flatnonzero(~fitted.support)
    linear = rows.values @ fitted.weights.T @ fitted.loadings[:, outside]
    expected = linear * fitted.scale[outside] + fitted.mean[outside]
    np.testing.assert_allclose(roots.mean, expected, rtol=1e-10)
    np.testing.assert_allclose(roots.upper - roots.mean, np.tile(fitted.width[outside], (N, 1)))
    counts = predict_others(fitted._replace(depth=100.0), rows, distance, lambda: totals)
    draws = np.maximum(expected[0], 0.0) + roots.std[0] * rng.standard_normal((400_000, 5))
    np.testing.assert_allclose(
        counts.mean[0], totals[0] / 100.0 * np.mean(draws**2, axis=0), rtol=0.02
    )
    np.testing.assert_allclose(
        counts.std[0], totals[0] / 100.0 * np.std(draws**2, axis=0), rtol=0.02, atol=1e-9
    )
    assert np.all(counts.lower >= 0.0)
    upper = totals[0] / 100.0 * (np.maximum(expected[0], 0.0) + fitted.width[outside]) ** 2
    np.testing.assert_allclose(counts.upper[0], upper)
