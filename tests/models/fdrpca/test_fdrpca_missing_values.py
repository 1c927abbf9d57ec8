"""FDRPCA with missing values."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse

from prosparse import FDRPCA, InputError, MissingValuesWarning, load, save
from prosparse.data import DenseOperator
from prosparse.data.row_adjustment import RowAdjustment
from prosparse.data.row_groups import single_group
from prosparse.models.fdrpca.incomplete_rows import conditional_scores
from prosparse.structure import fill_by_design


def draw(n=100, p=30, shared=10, missing=0.15, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 5.0
    X[:, :shared] += 1.5 * rng.standard_normal((n, 2)) @ rng.standard_normal((2, shared))
    return np.where(rng.random((n, p)) < missing, np.nan, X), X


@pytest.fixture(scope="module")
def fitted():
    return FDRPCA(2).fit(draw()[0])


def test_selection(fitted):
    assert fitted.support_[:10].sum() >= 9
    assert fitted.support_[10:].sum() <= 1
    assert np.all(fitted.communality_[:10][fitted.support_[:10]] > fitted.null_communality_)


def test_scores_are_close_to_those_of_the_complete_rows(fitted):
    incomplete, complete = draw()
    scores, std = fitted.transform(incomplete), fitted.transform_std(incomplete)
    expected = fitted.transform(complete)
    has_missing = np.isnan(incomplete[:, fitted.support_]).any(axis=1)
    np.testing.assert_allclose(scores[~has_missing], expected[~has_missing])
    assert np.all(std[~has_missing] == 0.0)
    standardised = (scores - expected)[has_missing] / std[has_missing]
    assert 0.75 < np.sqrt(np.mean(standardised**2)) < 1.25


def test_score_is_the_explained_variance_of_the_observed_entries(fitted):
    incomplete, complete = draw()
    Z = (incomplete - fitted.mean_) / fitted.scale_
    residual = Z - fitted.transform(incomplete) @ fitted.components_
    expected = 1.0 - np.nansum(residual**2) / np.nansum(Z**2)
    np.testing.assert_allclose(fitted.score(incomplete), expected)
    # The fit to few missing values approaches that of complete rows.
    complete[0, 0] = np.nan
    np.testing.assert_allclose(fitted.score(complete), fitted.score(draw()[1]), atol=0.01)


def test_missing_values_of_columns_that_are_not_selected_do_not_change_scores(fitted):
    X = draw()[1]
    other = X.copy()
    other[:, ~fitted.support_] = np.nan
    np.testing.assert_allclose(fitted.transform(other), fitted.transform(X))


def test_units_and_containers_do_not_change_the_result(fitted):
    X = draw()[0]
    scaled = FDRPCA(2).fit(pd.DataFrame(1000.0 * X - 7.0))
    np.testing.assert_array_equal(scaled.support_, fitted.support_)
    np.testing.assert_allclose(scaled.pvalues_, fitted.pvalues_, rtol=1e-6)
    np.testing.assert_allclose(scaled.components_, fitted.components_, atol=1e-8)


def test_saved_model_transforms_incomplete_rows(fitted, tmp_path):
    X = draw()[0]
    save(fitted, tmp_path / "model.prosparse")
    loaded = load(tmp_path / "model.prosparse")
    np.testing.assert_allclose(loaded.transform(X), fitted.transform(X))


def test_covariates_are_removed_on_the_observed_rows():
    X, _ = draw(missing=0.1, seed=2)
    age = np.random.default_rng(3).uniform(20.0, 80.0, 100)
    shifted = X + np.outer(age, np.linspace(-1.0, 1.0, 30))
    model = FDRPCA(2).fit(shifted, covariates=age)
    assert model.support_[:10].sum() >= 9
    assert model.support_[10:].sum() <= 1
    slopes = [np.polyfit(age[rows], y[rows], 1)[0] for y in shifted.T for rows in [~np.isnan(y)]]
    np.testing.assert_allclose(model.covariate_coef_[0], slopes, rtol=1e-6, atol=1e-8)
    scores = model.transform(shifted, covariates=age)
    assert np.all(np.abs(np.corrcoef(scores.T, age)[:-1, -1]) < 0.2)


def test_fitted_values_of_the_design_give_the_regression_of_the_observed_rows():
    rng = np.random.default_rng(0)
    adjustment = RowAdjustment(single_group(40), rng.standard_normal((40, 2)))
    Z, seen = rng.standard_normal((40, 5)), rng.random((40, 5)) > 0.3
    filled = fill_by_design(DenseOperator(Z), seen, adjustment).X
    residuals = adjustment.residuals(filled)
    for j, rows in enumerate(seen.T):
        Q = adjustment.basis[rows]
        expected = Z[rows, j] - Q @ np.linalg.lstsq(Q, Z[rows, j])[0]
        np.testing.assert_allclose(residuals[rows, j], expected, atol=1e-7)
        np.testing.assert_allclose(residuals[~rows, j], 0.0, atol=1e-7)


def test_conditional_scores_are_those_of_the_joint_normal_distribution():
    rng = np.random.default_rng(1)
    V = np.linalg.qr(rng.standard_normal((6, 2)))[0]
    variances, noise = np.array([2.5, 1.5]), 0.5
    W = V * np.sqrt(variances - noise)
    covariance = W @ W.T + np.diag(np.maximum(1.0 - np.sum(W**2, axis=1), 0.02))
    Z = rng.standard_normal((4, 6))
    Z[rng.random(Z.shape) < 0.4] = np.nan
    found = conditional_scores(Z, V, variances, noise)
    for z, mean, std in zip(Z, found.mean, found.std, strict=True):
        m, o = np.isnan(z), ~np.isnan(z)
        slope = covariance[np.ix_(m, o)] @ np.linalg.inv(covariance[np.ix_(o, o)])
        rest = covariance[np.ix_(m, m)] - slope @ covariance[np.ix_(o, m)]
        np.testing.assert_allclose(mean, V[o].T @ z[o] + V[m].T @ slope @ z[o])
        np.testing.assert_allclose(std**2, np.diag(V[m].T @ rest @ V[m]), atol=1e-12)


def test_columns_with_few_observed_values_are_not_tested():
    X = draw()[0]
    X[3:, 4] = np.nan
    with pytest.warns(MissingValuesWarning, match=r"1 column of X has too few observed values"):
        model = FDRPCA(2).fit(X)
    assert not model.support_[4]
    assert model.pvalues_[4] == 1.0


def test_rows_that_are_mostly_missing_are_named():
    X = draw()[0]
    X[17, 1:] = np.nan
    with pytest.warns(MissingValuesWarning, match="row 17 of X has more than 90% missing"):
        FDRPCA(2).fit(X)


def test_values_missing_by_the_components_are_reported():
    X, complete = draw(missing=0.02)
    X[np.ix_(complete[:, 0] > 5.8, np.arange(12, 26))] = np.nan
    with pytest.warns(MissingValuesWarning, match="depends on the components"):
        FDRPCA(2).fit(X)


@pytest.mark.parametrize("parameters", [{"counts": True}, {"rank_transform": True}])
def test_parameters_that_require_complete_data(parameters):
    with pytest.raises(InputError, match="does not support"):
        FDRPCA(**parameters).fit(np.abs(draw()[0]).round())


@pytest.mark.parametrize("null", ["robust", "exchangeable"])
def test_knockoffs(null):
    X = draw()[0]
    X[:5, 12] = np.nan
    X[5:, 12] = 1.0  # constant where it is observed
    model = FDRPCA(fdr=0.2, null=null, control="knockoff", n_shadows=4).fit(X)
    assert model.support_[:10].sum() >= 8
    assert model.support_[10:].sum() <= 3
    assert model.qvalues_[12] == 1.0


def test_sparse_data_must_be_complete():
    with pytest.raises(InputError, match="NaN"):
        FDRPCA().fit(sparse.csr_array(draw()[0]))


def test_infinite_values_raise_an_error():
    X = draw()[0]
    X[0, 0] = np.inf
    with pytest.raises(InputError, match="infinit"):
        FDRPCA().fit(X)
