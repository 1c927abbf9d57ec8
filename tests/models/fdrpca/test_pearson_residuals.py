"""Pearson residuals agree with their definition."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import operator_of
from prosparse.models.fdrpca.pearson_residuals import (
    column_moments,
    fit_count_model,
    limited_scores,
    residual_operator,
    row_factors,
)


def counts(n=40, p=25, seed=0):
    rng = np.random.default_rng(seed)
    size = np.exp(rng.uniform(0, 3, n))
    rate = np.exp(rng.normal(-1, 1, p)) * rng.gamma(2.0, 0.5, (n, p))
    X = rng.poisson(size[:, None] * rate).astype(float)
    X[:, 7] = 0.0  # a column without counts
    X[0, 0] += 1.0
    return X


def raw(X):
    return operator_of(X, np.zeros(X.shape[1]), np.ones(X.shape[1]))


def by_definition(X):
    """Compute size factors, proportions, dispersions and residuals densely."""
    present = X.sum(axis=0) > 0
    V = np.ones(X.shape[1])
    for _ in range(3):
        N = X @ (1 / np.maximum(V, 1))
        N = N * X.sum() / N.sum()
        pi = X.sum(axis=0) / X.sum()
        expected = np.outer(N, pi)
        Z = np.where(present, X - expected, 0.0) / np.sqrt(np.where(present, expected, 1.0))
        V = np.where(present, np.mean(Z**2, axis=0), 1.0)
    s = np.sqrt(np.mean((Z**2 / V)[:, present], axis=1))
    return N, pi, V, (X - expected) / (s * np.sqrt(N))[:, None]


def dask_array(X):
    return pytest.importorskip("dask.array").from_array(X, chunks=(9, X.shape[1]))


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, dask_array])
def test_residuals_agree_with_their_definition(convert):
    X = counts()
    N, pi, V, Y = by_definition(X)
    given = raw(convert(X))
    null = fit_count_model(given)
    rows = row_factors(given, null)
    np.testing.assert_allclose(rows.size, N)
    np.testing.assert_allclose(null.proportions, pi)
    np.testing.assert_allclose(null.dispersion, V)
    mean, deviation = column_moments(given, null, rows)
    np.testing.assert_allclose(mean, Y.mean(axis=0), atol=1e-12)
    np.testing.assert_allclose(deviation, Y.std(axis=0), atol=1e-9)
    op = residual_operator(given, null.proportions, rows, mean)
    expected = Y - Y.mean(axis=0)
    F = np.random.default_rng(1).standard_normal((X.shape[1], 3))
    np.testing.assert_allclose(np.asarray(op.matmul(F)), expected @ F, atol=1e-10)
    np.testing.assert_allclose(op.gram(), expected.T @ expected, atol=1e-10)
    np.testing.assert_allclose(op.outer(), expected @ expected.T, atol=1e-10)
    np.testing.assert_allclose(op.column_squares(), np.sum(expected**2, axis=0), atol=1e-10)
    rough = op.rough()
    product = np.asarray(rough.matmul(F.astype(rough.dtype)))
    np.testing.assert_allclose(product, expected @ F, atol=1e-3)


def test_factors_of_new_rows_do_not_depend_on_other_rows():
    X = counts()
    null = fit_count_model(raw(X))
    all_rows, some = row_factors(raw(X), null), row_factors(raw(X[5:9]), null)
    np.testing.assert_allclose(some.size, all_rows.size[5:9])
    np.testing.assert_allclose(some.factor, all_rows.factor[5:9])


def test_size_factors_are_robust_to_a_few_variable_columns():
    """Two variable columns with half of all counts dominate totals but not size factors."""
    rng = np.random.default_rng(0)
    size = np.exp(rng.uniform(0, 1, 200))
    rate = np.full((200, 100), 5.0)
    rate[:, :2] = 250.0 * rng.gamma(1.0, 1.0, (200, 2))
    X = rng.poisson(size[:, None] * rate).astype(float)
    rows = row_factors(raw(X), fit_count_model(raw(X)))
    assert np.corrcoef(np.log(rows.size), np.log(size))[0, 1] > 0.95
    assert np.corrcoef(np.log(X.sum(axis=1)), np.log(size))[0, 1] < 0.7


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array, dask_array])
def test_scores_of_limited_residuals(convert):
    """Residuals of at most three are multiplied, and the counts do not change."""
    X = counts()
    X[3, 0] = 500.0
    given = convert(X)
    op = raw(given)
    null = fit_count_model(op)
    rows = row_factors(op, null)
    residuals = residual_operator(op, null.proportions, rows, column_moments(op, null, rows).mean)
    dense = np.asarray(residuals.dense())
    F = np.random.default_rng(1).standard_normal((X.shape[1], 3))
    assert (dense > 3.0).any()
    expected = np.minimum(dense, 3.0) @ F
    np.testing.assert_allclose(np.asarray(limited_scores(residuals, F)), expected, atol=1e-9)
    unchanged = given.toarray() if sparse.issparse(given) else np.asarray(given)
    np.testing.assert_array_equal(unchanged, X)
