"""Rows of unequal scale: distances, densities and fits."""

import numpy as np
import pytest
from scipy import sparse
from scipy.stats import multivariate_t

from prosparse import SCA
from prosparse.data import standardise
from prosparse.models.sca.conditional import Factors, predictive_moments, row_log_densities
from prosparse.models.sca.row_weights import estimate_row_weights, leave_one_out_distances

OPTIONS = {"prior": "point-normal", "noise": "learned"}


def simulate_rows(spread, seed=0, n=200, p=60):
    """Simulate three factors; the noise of the rows has log standard deviation ``spread``."""
    rng = np.random.default_rng(seed)
    W = rng.standard_normal((3, p)) * (rng.random((3, p)) < 0.3)
    scale = np.exp(spread * rng.standard_normal(n))
    noise = scale[:, None] * rng.standard_normal((n, p))
    return rng.standard_normal((n, 3)) @ W + noise, scale


def test_distances_without_factors_are_those_of_the_other_rows(rng):
    X, weights = rng.standard_normal((40, 5)), rng.gamma(4.0, 0.25, 40)
    weights *= 40 / weights.sum()
    found = leave_one_out_distances(X, weights, np.mean(X**2, axis=0))
    centred = X - weights @ X / 40
    for n in range(40):
        others = np.arange(40) != n
        variance = weights[others] @ centred[others] ** 2 / 39
        assert found.squares[n] == pytest.approx(np.sum(centred[n] ** 2 / variance))
        assert found.log_det[n] == pytest.approx(np.sum(np.log(variance)))


def test_density_and_predictions_are_those_of_the_multivariate_t(rng):
    L, tau, mean = rng.standard_normal((5, 2)), rng.gamma(3.0, 1.0, 5), rng.standard_normal(5)
    model = Factors(L, tau, mean, df=4.5)
    scatter = L @ L.T + np.diag(1 / tau)
    X = mean + 3.0 * rng.standard_normal((8, 5))
    X[4:, [1, 3]] = np.nan
    found = row_log_densities(X, model)
    predicted, variance = predictive_moments(X, model, np.array([1, 3]))
    for n, row in enumerate(X):
        seen = np.flatnonzero(~np.isnan(row))
        part = scatter[np.ix_(seen, seen)]
        assert found[n] == pytest.approx(multivariate_t(mean[seen], part, 4.5).logpdf(row[seen]))
        if n >= 4:
            gain = np.linalg.solve(part, scatter[np.ix_(seen, [1, 3])]).T
            x = row[seen] - mean[seen]
            np.testing.assert_allclose(predicted[n], mean[[1, 3]] + gain @ x)
            rest = scatter[np.ix_([1, 3], [1, 3])] - gain @ scatter[np.ix_(seen, [1, 3])]
            factor = (4.5 + x @ np.linalg.solve(part, x)) / (4.5 + 3 - 2)
            np.testing.assert_allclose(variance[n], factor * np.diag(rest))


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_equal_scale_have_no_weights(seed):
    X, _ = simulate_rows(0.0, seed)
    assert estimate_row_weights(standardise(X, True)[0]) is None
    model = SCA(3, **OPTIONS).fit(X)
    assert not hasattr(model, "row_df_")
    assert not hasattr(model, "row_scale_")


@pytest.mark.parametrize("seed", range(2))
def test_rows_of_unequal_scale_add_no_factors(seed):
    X, scale = simulate_rows(0.5, seed)
    model = SCA(**OPTIONS).fit(X)
    assert model.n_components_ == 3
    assert np.corrcoef(np.log(model.row_scale_), np.log(scale))[0, 1] > 0.9
    fixed, new = SCA(3, row_scale="equal", **OPTIONS).fit(X), simulate_rows(0.5, seed)[0]
    assert model.score(new) > fixed.score(new) + 1.0


def test_weights_of_few_rows_do_not_grow_without_limit(rng):
    """A noise variance per column can fit a single row if there are many columns."""
    X = rng.standard_normal((40, 200)) * np.exp(0.5 * rng.standard_normal((40, 1)))
    found = estimate_row_weights(standardise(X, True)[0])
    assert found.weights.max() < 20.0


def test_sparse_data_have_the_weights_of_dense_data():
    X, _ = simulate_rows(0.5, n=80, p=30)
    X = np.where(np.abs(X) < 0.3, 0.0, X)
    dense, thin = SCA(2, **OPTIONS).fit(X), SCA(2, **OPTIONS).fit(sparse.csr_array(X))
    np.testing.assert_allclose(thin.row_scale_, dense.row_scale_, rtol=1e-8)
    np.testing.assert_allclose(thin.mean_, dense.mean_, atol=1e-8)
    assert thin.objective_path_[-1] == pytest.approx(dense.objective_path_[-1], rel=1e-6)


def test_scores_of_weighted_rows_are_reproduced():
    """Sparse scores of the fit equal those of new rows."""
    rng = np.random.default_rng(3)
    Z = 2.0 * rng.standard_normal((200, 2)) * (rng.random((200, 2)) < 0.3)
    W = rng.standard_normal((2, 60)) * (rng.random((2, 60)) < 0.3)
    scale = np.exp(0.4 * rng.standard_normal(200))
    X = Z @ W + 0.5 * scale[:, None] * rng.standard_normal((200, 60))
    model = SCA(2, **OPTIONS).fit(X)
    assert model.row_df_ < 50
    scores = model.transform(X)
    assert np.abs(np.corrcoef(scores.T, Z.T)[:2, 2:]).max(axis=0).min() > 0.9
    assert np.var(X - model.inverse_transform(scores)) < np.var(X - X.mean(axis=0))


def test_sparse_rows_have_equal_scales():
    X = sparse.random_array((600, 1200), density=0.01, rng=np.random.default_rng(0))
    op, _ = standardise(X.toarray()[:, X.toarray().any(axis=0)], scale=True)
    assert estimate_row_weights(op) is None
