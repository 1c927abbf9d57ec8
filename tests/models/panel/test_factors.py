"""Common variances, communalities and unique variances."""

import numpy as np
import pytest
from factor_models import covariance, make_splits, operator, random_model, simulate, with_whole

from prosparse.models.panel.factors import (
    MIN_UNIQUENESS,
    FactorModel,
    build_factor_model,
    estimate_common_variances,
    leave_one_out_residuals,
    rescale_loadings,
    shrink_communalities,
)
from prosparse.models.panel.folds import decompose_folds, held_out_squares

# --- held-out rows


def estimated(rng, n, p):
    W, psi = random_model(rng, p)
    op, Z = operator(simulate(FactorModel(W, 0.2 * psi), n, rng) * rng.uniform(0.5, 2.0, p))
    whole, *folds = decompose_folds(op, with_whole(make_splits(n)))
    squares = held_out_squares(op, folds)
    return op, Z, whole, folds, squares


@pytest.mark.parametrize(("n", "p"), [(20, 30), (50, 9)])
def test_squares_of_held_out_rows(n, p, rng):
    _, Z, _, folds, squares = estimated(rng, n, p)
    for fold, found in zip(folds, squares, strict=True):
        rows = Z[fold.held_out] - Z[~fold.held_out].mean(axis=0)
        np.testing.assert_allclose(found, np.sum(rows**2, axis=0), rtol=1e-10)


@pytest.mark.parametrize(("n", "p"), [(20, 30), (50, 9)])
def test_residuals_agree_with_regressions_on_all_other_columns(n, p, rng):
    op, Z, whole, folds, squares = estimated(rng, n, p)
    # More components than held-out rows of a fold with 20 rows, fewer with 50.
    common = estimate_common_variances(whole, folds, squares, Z.var(axis=0))
    common = np.append(common, np.full(3, 0.01))
    models = [build_factor_model(fold, common, Z.var(axis=0)) for fold in folds]
    assert (models[0].W.shape[1] > np.count_nonzero(folds[0].held_out)) == (n == 20)
    expected = np.zeros((len(folds), p))
    for number, (fold, model) in enumerate(zip(folds, models, strict=True)):
        sigma, rows = covariance(model), Z[fold.held_out] - fold.mean
        for j in range(p):
            others = np.delete(np.arange(p), j)
            weights = np.linalg.solve(sigma[np.ix_(others, others)], sigma[others, j])
            expected[number, j] = np.sum((rows[:, j] - rows[:, others] @ weights) ** 2)
    assert np.max(1.0 - expected.sum(axis=0) / squares.sum(axis=0)) > 0.2
    found = leave_one_out_residuals(op, folds, squares, models)
    np.testing.assert_allclose(found, expected, atol=1e-8 * squares.max())


# --- common variances


def estimate_common(X):
    op, Z = operator(X)
    whole, *folds = decompose_folds(op, with_whole(make_splits(X.shape[0])))
    found = estimate_common_variances(whole, folds, held_out_squares(op, folds), Z.var(axis=0))
    return found, X.var() / Z.var()  # in units of X


def test_common_variances_of_known_factors(rng):
    """Eigenvalues of W W', with equal unique variances."""
    W = np.linalg.qr(rng.standard_normal((30, 3)))[0] * [5.0, 3.5, 2.5]
    found, unit = estimate_common(simulate(FactorModel(W, np.full(30, 2.0)), 3000, rng))
    assert found.size == 3
    np.testing.assert_allclose(found * unit, [25.0, 12.25, 6.25], rtol=0.1)


def test_common_variances_with_unequal_noise(rng):
    """Unique variances of noisy columns are not common."""
    W = np.linalg.qr(rng.standard_normal((30, 2)))[0] * [5.0, 3.5]
    psi = np.full(30, 1.0)
    psi[:3] = 4.0
    found, unit = estimate_common(simulate(FactorModel(W, psi), 3000, rng))
    assert found[:2] * unit == pytest.approx([25.0, 12.25], rel=0.1)
    assert np.all(found[2:] * unit < 1.0)


@pytest.mark.parametrize(("n", "p"), [(40, 200), (400, 20)])
def test_noise_has_no_common_variance(n, p, rng):
    found, unit = estimate_common(rng.standard_normal((n, p)))
    assert found.sum() * unit < 0.02 * p


def test_factor_model_of_components(rng):
    _, Z, whole, folds, squares = estimated(rng, 200, 12)
    variances = Z.var(axis=0)
    common = estimate_common_variances(whole, folds, squares, variances)
    W, psi = build_factor_model(whole, common, variances)
    np.testing.assert_allclose(W.T @ W, np.diag(common), atol=1e-8)
    assert np.all(psi >= MIN_UNIQUENESS * variances * (1 - 1e-12))
    free = psi > MIN_UNIQUENESS * variances
    assert free.any()
    np.testing.assert_allclose((np.sum(W**2, axis=1) + psi)[free], variances[free])


# --- communalities


def test_sampling_error_of_communalities_is_reduced(rng):
    """All columns have the same communality."""
    measured = 0.3 + 0.12 * rng.standard_normal(500)
    found = shrink_communalities(measured, rng.gamma(1.0, 1.0, 500), 40)
    assert np.mean((found - 0.3) ** 2) < 0.2 * np.mean((measured - 0.3) ** 2)


def test_many_rows_are_not_shrunk(rng):
    measured = rng.uniform(0.0, 0.9, 500)
    found = shrink_communalities(measured, rng.gamma(1.0, 1.0, 500), 10_000)
    np.testing.assert_allclose(found, measured, atol=0.01)


def test_relation_to_the_standard_deviation_is_estimated(rng):
    scale = np.sort(rng.uniform(0.0, 1.0, 800))
    truth = 0.8 * scale
    measured = truth + 0.2 * rng.standard_normal(800)
    found = shrink_communalities(measured, scale, 20)
    assert np.mean((found - truth) ** 2) < 0.3 * np.mean((measured - truth) ** 2)


def test_communalities_are_bounded():
    found = shrink_communalities(np.array([-3.0, -0.2, 0.5, 1.0, 1.0]), np.arange(5.0), 1000)
    assert found.min() == 0.0
    assert found.max() == 1.0 - MIN_UNIQUENESS


def test_loadings_are_rescaled_to_communalities(rng):
    model = random_model(rng)
    variances, communality = rng.uniform(1.0, 3.0, 12), rng.uniform(0.0, 0.9, 12)
    communality[4] = 0.0
    found = rescale_loadings(model, communality, variances)
    np.testing.assert_allclose(np.sum(found.W**2, axis=1), communality * variances)
    np.testing.assert_allclose(np.diag(covariance(found)), variances)
    cosine = np.sum(found.W * model.W, axis=1)
    lengths = np.linalg.norm(found.W, axis=1) * np.linalg.norm(model.W, axis=1)
    np.testing.assert_allclose(cosine, lengths)
