"""Simulated data follow their models, and invalid parameters raise informative errors."""

import inspect

import numpy as np
import pytest
from scipy import sparse

from prosparse import ParameterError
from prosparse.datasets import (
    make_cell_counts,
    make_globally_sparse,
    make_sparse_projection,
    make_sparse_regression,
)


def test_shapes_and_support():
    X, support, loadings = make_globally_sparse(random_state=0)
    assert X.shape == (50, 30)
    assert loadings.shape == (30, 5)
    assert support.sum() == 10
    np.testing.assert_array_equal(np.any(loadings != 0, axis=1), support)


def test_true_variables_are_at_random_positions():
    first = [make_globally_sparse(random_state=s).support[0] for s in range(60)]
    assert 5 < sum(first) < 40


def test_covariance_agrees_with_the_model():
    X, _, W = make_globally_sparse(
        200_000, 6, n_components=2, n_informative=4, noise=0.7, random_state=1
    )
    np.testing.assert_allclose(np.cov(X.T), W @ W.T + 0.49 * np.eye(6), atol=0.06)


def test_scaled_columns_have_unit_variance():
    data = make_globally_sparse(scale=True, random_state=2)
    np.testing.assert_allclose(data.X.std(axis=0), 1)


def test_reproducible():
    a, b = (make_globally_sparse(random_state=3).X for _ in range(2))
    np.testing.assert_array_equal(a, b)


def test_invalid_sizes_raise():
    with pytest.raises(ValueError, match="`n_samples` must be an integer of at least 2, got 1"):
        make_globally_sparse(1)
    with pytest.raises(ValueError, match="`noise` must be a non-negative number, got -1"):
        make_globally_sparse(noise=-1)
    with pytest.raises(ValueError, match=r"must hold, got 5, 3, 30\."):
        make_globally_sparse(n_informative=3)


@pytest.mark.parametrize("distribution", ["gaussian", "uniform", "laplace"])
def test_sparse_projection(distribution):
    X, clean, loadings, noise = make_sparse_projection(
        40000, factor_distribution=distribution, random_state=0
    )
    np.testing.assert_array_equal(np.sum(loadings != 0, axis=0), [4, 4, 4, 4])
    np.testing.assert_allclose(np.linalg.norm(loadings, axis=0), 1)
    assert noise == pytest.approx(0.5 * np.sqrt(np.mean(clean**2)))
    assert np.std(X - clean) == pytest.approx(noise, rel=0.01)
    np.testing.assert_allclose(np.cov(clean.T), loadings @ loadings.T, atol=0.05)
    Z = clean @ np.linalg.pinv(loadings).T
    kurtosis = np.mean(Z**4) / np.mean(Z**2) ** 2
    expected = {"gaussian": 3, "uniform": 1.8, "laplace": 6}[distribution]
    assert kurtosis == pytest.approx(expected, rel=0.1)


def test_invalid_parameters_of_sparse_projection_raise():
    with pytest.raises(ParameterError, match="`factor_distribution` must be one of"):
        make_sparse_projection(factor_distribution="cauchy")
    with pytest.raises(
        ParameterError, match="`n_nonzero` must be at most `n_features`, 10, got 11"
    ):
        make_sparse_projection(n_nonzero=11)


def test_sparse_regression_follows_the_model():
    X, y, coef = make_sparse_regression(
        50_000, 6, n_informative=3, noise=0.5, correlation=0.6, random_state=0
    )
    lags = np.abs(np.subtract.outer(np.arange(6), np.arange(6)))
    np.testing.assert_allclose(np.cov(X.T), 0.6**lags, atol=0.03)
    assert np.std(y - X @ coef) == pytest.approx(0.5, rel=0.02)
    sizes = np.abs(coef[coef != 0])
    assert sizes.size == 3
    assert np.all((sizes >= 1) & (sizes <= 3))
    first = [make_sparse_regression(random_state=s).coef[0] != 0 for s in range(200)]
    assert 1 <= sum(first) < 40  # at random positions


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_informative": 300}, "`n_informative` must be at most `n_features`, 200, got 300"),
        ({"correlation": 1.0}, "`correlation` must be between -1 and 1, got 1.0"),
        ({"n_samples": 1}, "`n_samples` must be an integer of at least 2, got 1"),
    ],
)
def test_invalid_parameters_of_sparse_regression_raise(parameters, message):
    with pytest.raises(ParameterError, match=message):
        make_sparse_regression(**parameters)


def test_cell_counts_are_the_model():
    X, cell_type, support = make_cell_counts(
        3000, 60, n_types=3, n_markers=5, fold_change=6.0, depth=5000.0, random_state=0
    )
    assert X.shape == (3000, 60)
    assert X.dtype.kind == "i"
    assert support.sum() == 15
    assert np.median(X.sum(axis=1)) == pytest.approx(5000, rel=0.03)
    share = X.toarray() / X.sum(axis=1)[:, None]
    mean = np.array([share[cell_type == k].mean(axis=0) for k in range(3)])
    # relative to genes that mark nothing, whose sum differs between types only by the markers
    mean /= mean[:, ~support].sum(axis=1, keepdims=True)
    fold = mean.max(axis=0) / mean.min(axis=0)
    np.testing.assert_allclose(fold[support], 6.0, rtol=0.15)
    np.testing.assert_allclose(fold[~support], 1.0, atol=0.2)
    assert [(mean.argmax(axis=0)[support] == k).sum() for k in range(3)] == [5, 5, 5]


def test_cell_counts_are_sparse_and_reproducible():
    one, two = (make_cell_counts(50, 300, random_state=3) for _ in range(2))
    assert sparse.issparse(one.X)
    assert (one.X != two.X).nnz == 0
    assert np.array_equal(one.support, two.support)
    first = [make_cell_counts(2, 100, n_markers=2, random_state=s).support[0] for s in range(100)]
    assert 1 <= sum(first) < 40  # at random positions


def test_invalid_parameters_of_cell_counts_raise():
    with pytest.raises(ParameterError, match=r"must be at most `n_genes`, 50, got 5 \* 20"):
        make_cell_counts(n_genes=50)
    with pytest.raises(ParameterError, match="`depth` must be a non-negative number, got -1"):
        make_cell_counts(depth=-1)


@pytest.mark.parametrize(
    "maker",
    [make_globally_sparse, make_sparse_projection, make_sparse_regression, make_cell_counts],
)
def test_invalid_values_of_all_parameters_raise(maker):
    for name, parameter in inspect.signature(maker).parameters.items():
        if name == "random_state":
            continue
        wrong = [None, "a", float("nan"), -3, *([1.5] if type(parameter.default) is int else [])]
        for value in wrong:
            with pytest.raises(ParameterError, match=name):
                maker(**{name: value})
