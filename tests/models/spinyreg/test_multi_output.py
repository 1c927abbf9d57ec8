"""Several responses with one common set of variables."""

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import norm
from sklearn.model_selection import cross_val_score

from prosparse import (
    InputError,
    NoStructureWarning,
    ParameterError,
    SpinyRegressor,
    load,
    save,
)
from prosparse.models.spinyreg import screening


def simulate(n=80, p=15, m=3, seed=0):
    """Simulate responses of different units that depend on the first three columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 2.0
    W = np.zeros((p, m))
    W[:3] = rng.choice([-1.0, 1.0], (3, m)) * rng.uniform(0.5, 1.5, (3, m))
    Y = (X @ W + rng.standard_normal((n, m))) * 10.0 ** np.arange(m) + 5.0
    return X, Y, W


X, Y, W = simulate()


@pytest.fixture(scope="module")
def model():
    return SpinyRegressor().fit(X, Y)


def test_attributes_and_predictions(model):
    assert model.coef_.shape == (3, 15)
    assert model.intercept_.shape == model.noise_variance_.shape == (3,)
    assert list(np.flatnonzero(model.support_)) == [0, 1, 2]
    assert np.array_equal(np.any(model.selected_coef_ != 0, axis=0), model.support_)
    assert model.selected_coef_covariance_.shape == (3, 3, 3)
    prediction, deviation = model.predict(X, return_std=True)
    assert prediction.shape == deviation.shape == Y.shape
    np.testing.assert_array_equal(prediction, X @ model.coef_.T + model.intercept_)
    assert model.inclusion_probability_.shape == (15,)
    assert model.conditional_coef_mean_.shape == (3, 15)
    np.testing.assert_allclose(model.selected_coef_, model.coef_, atol=0.2 * np.abs(Y).max() / 50)
    assert np.array_equal(model.predict(X), prediction)
    np.testing.assert_allclose(model.coef_ / 10.0 ** np.arange(3)[:, None], W.T, atol=0.4)
    np.testing.assert_allclose(np.sqrt(model.noise_variance_), [1.0, 10.0, 100.0], rtol=0.3)
    assert model.score(X, Y) > 0.5
    assert np.all(np.diff(model.objective_path_) >= 0.0)
    inside = np.abs(Y - prediction) < 2.0 * deviation
    assert 0.9 < inside.mean() <= 1.0


def test_least_squares_refit():
    found = SpinyRegressor(refit="ols").fit(X, Y)
    Z = np.column_stack([np.ones(80), X[:, found.support_]])
    expected, left, *_ = np.linalg.lstsq(Z, Y, rcond=None)
    np.testing.assert_allclose(found.coef_[:, found.support_], expected[1:].T)
    np.testing.assert_allclose(found.intercept_, expected[0])
    np.testing.assert_allclose(found.noise_variance_, left / (80 - 4))
    sandwich = np.linalg.inv(Z.T @ Z)[1:, 1:]
    np.testing.assert_allclose(
        found.selected_coef_covariance_[1], found.noise_variance_[1] * sandwich
    )


def test_repeated_responses():
    """Log evidences add up, so repeated responses select at least as many variables."""
    y = Y[:, 0]
    single = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    triple = SpinyRegressor().fit(X, np.column_stack([y, y, y]))
    assert np.array_equal(triple.coef_[0], triple.coef_[1])
    assert set(np.flatnonzero(single.support_)) <= set(np.flatnonzero(triple.support_))
    v = np.flatnonzero(single.support_)
    np.testing.assert_allclose(triple.coef_[0][v], single.coef_[v], rtol=0.2)


def test_weak_effects_in_many_responses():
    """Effects not detectable in one response are detected in ten."""
    rng = np.random.default_rng(4)
    table = rng.standard_normal((60, 20))
    W = np.zeros((20, 10))
    W[:2] = 0.35
    responses = table @ W + rng.standard_normal((60, 10))
    together = SpinyRegressor().fit(table, responses)
    assert list(np.flatnonzero(together.support_)) == [0, 1]


def test_units_and_order_of_responses(model):
    factors = np.array([1e-3, 1.0, 1e6])
    other = SpinyRegressor().fit(1e4 * X, (Y * factors)[:, ::-1])
    np.testing.assert_allclose(other.coef_[::-1], model.coef_ * factors[:, None] / 1e4, rtol=1e-5)
    shift = 80 * np.log(factors).sum()
    expected = model.log_evidence_path_ - shift
    np.testing.assert_allclose(other.log_evidence_path_[:4], expected[:4])
    np.testing.assert_allclose(
        other.coef_precision_[::-1], model.coef_precision_ / factors**2, rtol=1e-3
    )


@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
def test_weighted_rows_equal_repeated_rows():
    weights = np.random.default_rng(0).integers(0, 4, 80)
    repeated = np.repeat(np.arange(80), weights)
    ours = SpinyRegressor().fit(X, Y, sample_weight=weights)
    theirs = SpinyRegressor().fit(X[repeated], Y[repeated])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(ours.noise_variance_, theirs.noise_variance_, rtol=1e-6)


def test_other_containers(model):
    frame = pd.DataFrame(X, columns=[f"gene {k}" for k in range(15)])
    named = SpinyRegressor().fit(frame, pd.DataFrame(Y))
    np.testing.assert_array_equal(named.coef_, model.coef_)
    np.testing.assert_array_equal(SpinyRegressor().fit(X, Y.tolist()).coef_, model.coef_)
    other = SpinyRegressor().fit(sparse.csr_array(X), Y)
    np.testing.assert_allclose(other.coef_, model.coef_, rtol=1e-6)


def test_shortlist_gives_the_result_of_all_variables(monkeypatch, model):
    wide, responses, _ = simulate(100, 120, 2, 3)
    whole = SpinyRegressor().fit(wide, responses)
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 30)
    some = SpinyRegressor().fit(wide, responses)
    np.testing.assert_array_equal(some.support_, whole.support_)
    np.testing.assert_allclose(some.selected_coef_, whole.selected_coef_, rtol=1e-5)
    assert sorted(some.ranking_) == list(range(1, 121))


def test_saved_and_loaded(model, tmp_path):
    again = load(save(model, tmp_path / "model"))
    np.testing.assert_array_equal(again.predict(X), model.predict(X))
    np.testing.assert_array_equal(again.coef_, model.coef_)


def test_cross_validation():
    assert np.all(cross_val_score(SpinyRegressor(), X, Y, cv=3) > 0.3)


def test_noise_selects_nothing():
    rng = np.random.default_rng(0)
    with pytest.warns(NoStructureWarning, match="no variable was selected"):
        found = SpinyRegressor().fit(rng.standard_normal((50, 10)), rng.standard_normal((50, 3)))
    assert not found.support_.any()
    assert np.all(found.inclusion_probability_ < 0.5)
    assert np.var(found.predict(X[:, :10]), axis=0).max() < 0.1


def test_invalid_input():
    with pytest.raises(ParameterError, match="`noise` must be 'gaussian' for several responses"):
        SpinyRegressor(noise="student").fit(X, Y)
    with pytest.raises(InputError, match="Input y contains NaN"):
        SpinyRegressor().fit(X, np.where(Y > 5.0, np.nan, Y))
    with pytest.raises(InputError, match="inconsistent numbers of samples"):
        SpinyRegressor().fit(X, Y[:-1])
    with pytest.raises(InputError, match="some values are masked"):
        SpinyRegressor().fit(X, np.ma.masked_greater(Y, 5.0))
    with pytest.raises(InputError, match="`y` must contain"):
        SpinyRegressor().fit(X, [[1.0, 2.0], [3.0, 4.0, 5.0], *Y[2:, :2].tolist()])


def test_single_column_equals_a_vector():
    with pytest.warns(match="column-vector y"):
        column = SpinyRegressor().fit(X, Y[:, :1])
    np.testing.assert_array_equal(column.coef_, SpinyRegressor().fit(X, Y[:, 0]).coef_)


@pytest.mark.parametrize("options", [{"average": False}, {"refit": "ols"}])
def test_intervals_of_the_coefficients(options):
    model = SpinyRegressor(**options).fit(X, Y)
    ends = model.coef_interval(0.9)
    assert ends.shape == (3, 15, 2)
    assert np.all(ends[:, ~model.support_] == 0.0)
    std = np.sqrt(np.diagonal(model.selected_coef_covariance_, axis1=1, axis2=2))
    mean = model.coef_[:, model.support_]
    expected = np.stack([mean - norm.ppf(0.95) * std, mean + norm.ppf(0.95) * std], axis=-1)
    np.testing.assert_allclose(ends[:, model.support_], expected)


def test_intervals_of_the_average():
    """The mixtures have the inclusion probabilities of the variables."""
    model = SpinyRegressor(selection_rule="median").fit(X, Y)
    ends = model.coef_interval()
    assert ends.shape == (3, 15, 2)
    assert np.all(ends[:, model.inclusion_probability_ <= 0.025] == 0.0)
    truth = W.T * 10.0 ** np.arange(3)[:, None]
    assert np.mean((ends[..., 0] <= truth) & (truth <= ends[..., 1])) > 0.9
    assert np.array_equal(model.support_, model.inclusion_probability_ > 0.5)


def test_least_squares_of_an_exact_fit():
    """Precisions of an exact least squares fit are those of the posterior."""
    rng = np.random.default_rng(3)
    table = rng.integers(0, 4, (20, 4)).astype(float)
    responses = table[:, :2] @ rng.integers(-2, 3, (2, 2)).astype(float)
    model = SpinyRegressor(refit="ols").fit(table, responses)
    posterior = SpinyRegressor().fit(table, responses)
    np.testing.assert_allclose(model.predict(table), responses, atol=1e-9)
    assert np.isfinite(model.noise_precision_).all()
    assert np.isfinite(model.coef_precision_).all()
    np.testing.assert_allclose(model.noise_precision_, posterior.noise_precision_)
    np.testing.assert_allclose(model.coef_precision_, posterior.coef_precision_)
    assert np.all(model.noise_variance_ <= posterior.noise_variance_)
