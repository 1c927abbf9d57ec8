"""Several responses with one common set of variables."""

import itertools
import math

import numpy as np
import pandas as pd
import pytest
from scipy import sparse
from scipy.stats import multivariate_normal, norm
from sklearn.model_selection import cross_val_score

from prosparse import (
    InputError,
    NoStructureWarning,
    ParameterError,
    SpinyRegressor,
    load,
    save,
)
from prosparse.models.spinyreg import model as one
from prosparse.models.spinyreg import several
from prosparse.models.spinyreg.stepwise import rules_for


def simulate(n=80, p=15, m=3, seed=0):
    """Simulate responses of different units that depend on the first three columns."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + 2.0
    W = np.zeros((p, m))
    W[:3] = rng.choice([-1.0, 1.0], (3, m)) * rng.uniform(0.5, 1.5, (3, m))
    Y = (X @ W + rng.standard_normal((n, m))) * 10.0 ** np.arange(m) + 5.0
    return X, Y, W


def centred(X, Y):
    X, Y = (X - X.mean(axis=0)) / X.std(axis=0), Y - Y.mean(axis=0)
    return X, Y, several.several_moments(X.T @ X, X.T @ Y, (Y**2).sum(axis=0), len(X))


def dense(X, Y, fit):
    """Compute the sum of log N(y_k; 0, sigma2_k (I + X_v X_v' / lambda))."""
    K = np.eye(len(X)) + X[:, fit.v] @ X[:, fit.v].T / math.exp(fit.log_ratio)
    return sum(
        multivariate_normal(np.zeros(len(X)), s * K).logpdf(y)
        for y, s in zip(Y.T, fit.sigma2, strict=True)
    )


X, Y, W = simulate()


@pytest.mark.parametrize("v", [[], [4], [0, 1, 7]])
def test_evidence(v):
    Z, y, data = centred(X, Y)
    fit = several.best_fit(data, np.array(v, dtype=int))
    assert fit.log_evidence == pytest.approx(dense(Z, y, fit))
    for step in (-0.3, 0.3):
        other = several.fit_at(data, fit.v, several.spectrum_of(data, fit.v), fit.log_ratio + step)
        assert other.log_evidence == pytest.approx(dense(Z, y, other))
        assert other.log_evidence <= fit.log_evidence + 1e-9


def test_rank_one_gains_equal_refits():
    """Each gain is the difference of two log evidences."""
    _, _, data = centred(X, Y)
    fit = several.best_fit(data, np.array([0, 4, 7]))

    def at(v):
        v = np.array(v, dtype=int)
        return several.fit_at(data, v, several.spectrum_of(data, v), fit.log_ratio).log_evidence

    near = several.score_all_additions(data, fit, data.n)
    for j in (1, 9):
        assert near.gain[j] == pytest.approx(at([0, 4, 7, j]) - fit.log_evidence)
    out = several.removal_gains(fit, data.n)
    swap = several.exchange_gains(fit, near, data.n)
    for i in range(3):
        excluded_variance = np.delete(fit.v, i)
        assert out[i] == pytest.approx(at(excluded_variance) - fit.log_evidence)
        assert swap[1, i] == pytest.approx(at([*excluded_variance, 1]) - fit.log_evidence)


def test_one_response_gives_the_single_response_model():
    Z, y, data = centred(X, Y[:, :1])
    alone = one.moments(Z.T @ Z, (Z.T @ y)[:, 0], float(y[:, 0] @ y[:, 0]), len(Z))
    v = np.array([0, 1, 5])
    fit = several.best_fit(data, v)
    other = one.optimise(alone, one.evaluate(alone, v, 0.0), one.EXACT)
    assert fit.log_evidence == pytest.approx(other.log_evidence)
    np.testing.assert_allclose(fit.M[:, 0], other.m, rtol=1e-3)
    rules = rules_for(80, 15, True, max_iter=100, tol=1e-7)
    selected = several.search(data, rules)[-1].state.fit.v
    vector = SpinyRegressor(selection_rule="map").fit(X, Y[:, 0])
    assert set(selected) == set(np.flatnonzero(vector.support_))
    means = several.posterior(rules, fit)
    assert means == pytest.approx(rules.posterior(other))


def test_search_finds_the_best_set():
    for seed in range(3):
        _, _, data = centred(*simulate(40, 6, 2, seed)[:2])
        rules = rules_for(40, 6, True, max_iter=100, tol=1e-7)
        runs = several.search(data, rules)
        for run in runs:
            assert np.all(np.diff(run.bounds) >= 0.0)
        every = [
            several.posterior(rules, several.best_fit(data, np.array(v, dtype=int)))
            for q in range(7)
            for v in itertools.combinations(range(6), q)
        ]
        assert runs[-1].state.bound == pytest.approx(max(every), abs=1e-4)


# --- the estimator


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
    np.testing.assert_array_equal(model.selected_coef_, model.coef_)
    np.testing.assert_array_equal(model.selected_intercept_, model.intercept_)
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
    monkeypatch.setattr(several, "MAX_SHORTLIST", 30)
    some = SpinyRegressor().fit(wide, responses)
    np.testing.assert_array_equal(some.support_, whole.support_)
    np.testing.assert_allclose(some.coef_, whole.coef_, rtol=1e-5)
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
    np.testing.assert_allclose(found.predict(X[:2, :10]), np.tile(found.intercept_, (2, 1)))


def test_invalid_input():
    with pytest.raises(ParameterError, match="`noise` must be 'gaussian' for several responses"):
        SpinyRegressor(noise="student").fit(X, Y)
    with pytest.raises(
        ParameterError, match="`selection_rule` must be 'f-score' or 'map' for several"
    ):
        SpinyRegressor(selection_rule="median").fit(X, Y)
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


@pytest.mark.parametrize("refit", ["posterior", "ols"])
def test_intervals_of_the_coefficients(refit):
    model = SpinyRegressor(refit=refit).fit(X, Y)
    ends = model.coef_interval(0.9)
    assert ends.shape == (3, 15, 2)
    assert np.all(ends[:, ~model.support_] == 0.0)
    std = np.sqrt(np.diagonal(model.selected_coef_covariance_, axis1=1, axis2=2))
    mean = model.coef_[:, model.support_]
    expected = np.stack([mean - norm.ppf(0.95) * std, mean + norm.ppf(0.95) * std], axis=-1)
    np.testing.assert_allclose(ends[:, model.support_], expected)


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
