"""The average over sets of variables, against slow sums over all of them."""

import itertools
import pickle

import numpy as np
import pytest
from regressions import problem
from scipy import sparse
from scipy.special import softmax

from prosparse import NoStructureWarning, ParameterError, SpinyRegressor, load, save
from prosparse.datasets import make_sparse_regression
from prosparse.models.spinyreg import averaging as av
from prosparse.models.spinyreg.model import moments
from prosparse.models.spinyreg.stepwise import log_number_prior, rules_for, search


def searched(data, n, p):
    """The best set that the search finds, and the prior of the average."""
    rules = rules_for(n, p, True, max_iter=1000, tol=1e-6)
    fit = search(data, lambda: data.b, rules)[-1].state.fit
    return fit, av.set_prior(data, rules.log_prior, fit, n - 1)


def slow_average(X, y, prior):
    """Sums over all sets and all lambda, with n x n matrices: inclusion, means, second moments
    and noise. X and y are centred, so that y has n - 1 degrees of freedom."""
    n, p = X.shape
    free, lams = n - 1, np.exp(prior.sizes.log_ratio)
    log_prior = log_number_prior(p)
    terms = []
    for q in range(p + 1):
        for v in itertools.combinations(range(p), q):
            Z = X[:, v]
            for lam, log_size in zip(lams, prior.sizes.log_prior, strict=True):
                C = np.eye(n) + Z @ Z.T / lam
                R = y @ np.linalg.solve(C, y)
                log_density = -0.5 * (free * np.log(R) + np.linalg.slogdet(C)[1])
                P = np.linalg.inv(Z.T @ Z + lam * np.eye(q))
                m, S = np.zeros(p), np.zeros((p, p))
                m[list(v)] = P @ Z.T @ y
                S[np.ix_(v, v)] = R / (free - 2) * P
                active = np.isin(np.arange(p), v)
                terms.append((log_density + log_prior[q] + log_size, active, m, S, R / (free - 2)))
    weights = softmax([term[0] for term in terms])
    inclusion, mean, noise = (
        sum(w * term[i] for w, term in zip(weights, terms, strict=True)) for i in (1, 2, 4)
    )
    second = sum(
        w * (term[3] + np.outer(term[2], term[2])) for w, term in zip(weights, terms, strict=True)
    )
    return inclusion, mean, second - np.outer(mean, mean), noise


@pytest.fixture(scope="module")
def summed():
    """A small problem in which much is open, and its slow average."""
    X, y, data, _ = problem(25, 6, seed=3, q=2, noise=3.0)
    fit, prior = searched(data, 25, 6)
    return X, y, data, fit, prior, slow_average(X, y, prior)


def test_all_sets_are_summed(summed):
    _, _, data, _, prior, (inclusion, mean, covariance, noise) = summed
    found = av.sum_all(data, prior)
    assert found.n_sets == 2**6
    assert 0.05 < inclusion.min() < inclusion.max() < 1.0  # else this would show little
    np.testing.assert_allclose(found.inclusion, inclusion, rtol=1e-9)
    np.testing.assert_allclose(found.mean, mean, rtol=1e-8, atol=1e-12)
    np.testing.assert_allclose(found.covariance, covariance, rtol=1e-8, atol=1e-12)
    assert found.sigma2 == pytest.approx(noise, rel=1e-9)
    assert found.rest == 0.0


def test_the_run_through_sets_agrees_with_their_sum(summed, monkeypatch):
    _, _, data, fit, prior, (inclusion, mean, covariance, noise) = summed
    monkeypatch.setattr(av, "STEADY", 0.0)
    monkeypatch.setattr(av, "MOST_STATES", 8000)
    found = av.sample(data, prior, fit.v, np.random.default_rng(0), [])
    np.testing.assert_allclose(found.inclusion, inclusion, atol=0.02)
    size = np.sqrt(np.diagonal(covariance))
    np.testing.assert_allclose(found.mean, mean, atol=0.05 * size.max())
    np.testing.assert_allclose(found.covariance, covariance, atol=0.05 * size.max() ** 2)
    assert found.sigma2 == pytest.approx(noise, rel=0.02)


def test_jumps_between_sets_leave_the_average_as_it_is(summed, monkeypatch):
    _, _, data, fit, prior, (inclusion, mean, covariance, _) = summed
    monkeypatch.setattr(av, "STEADY", 0.0)
    monkeypatch.setattr(av, "MOST_STATES", 4000)
    passed = [np.array(v) for v in ([0, 3], [5, 1, 2], [4], [0, 1, 2, 3, 4, 5])]
    found = av.sample(data, prior, fit.v, np.random.default_rng(1), passed)
    np.testing.assert_allclose(found.inclusion, inclusion, atol=0.03)
    size = np.sqrt(np.diagonal(covariance)).max()
    np.testing.assert_allclose(found.mean, mean, atol=0.1 * size)


def test_a_set_that_single_flips_do_not_reach_is_reached_by_a_jump():
    """The difference of two variables that are nearly the same: each of them alone is worse than
    nothing."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 6))
    X[:, 1] = X[:, 0] + 0.01 * X[:, 1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    y = X[:, 0] - X[:, 1]
    y -= X[:, 0] * (X[:, 0] @ y) / 40
    y = y / y.std() + rng.standard_normal(40)
    y -= y.mean()
    data = moments(X.T @ X, X.T @ y, float(y @ y), 40)
    _, prior = searched(data, 40, 6)
    exact = av.sum_all(data, prior).inclusion
    assert exact[:2].min() > 0.9
    nothing, draws = np.zeros(0, dtype=int), np.random.default_rng(0)
    stuck = av.sample(data, prior, nothing, draws, []).inclusion
    assert stuck[:2].max() < 0.5  # else this would show little
    found = av.sample(data, prior, nothing, draws, [np.array([0, 1])]).inclusion
    np.testing.assert_allclose(found, exact, atol=0.05)


def test_rates_are_those_of_the_densities(summed):
    """pi(there) / (pi(here) + pi(there)) of every neighbour, from sums that know no neighbours."""
    _, _, data, _, prior, _ = summed
    here, k = np.array([0, 4]), 3

    def log_posterior(v):
        return av.spectrum(data, prior, np.array(v, int)).log_density + prior.log_prior[len(v)]

    at = log_posterior(here)
    for j in range(6):
        there = log_posterior(sorted(set(here.tolist()) ^ {j}))[k]
        expected = 1.0 / (1.0 + np.exp(at[k] - there))
        assert av.place(data, prior, here, k).rates[j] == pytest.approx(expected, rel=1e-8)
    of_sizes = av.place(data, prior, here, k).rates[6:]
    expected = 1.0 / (1.0 + np.exp(at[k] - at))
    expected[k] = 0.0
    np.testing.assert_allclose(of_sizes, expected, rtol=1e-8)


def test_predictions_and_deviations_are_those_of_all_sets(rng):
    """In the units of the table, and also for a sparse one."""
    X, y, _ = make_sparse_regression(25, 6, n_informative=2, noise=3.0, random_state=3)
    X, y = 3.0 * X + 1.0, 100.0 * y + 7.0
    model = SpinyRegressor().fit(X, y)
    Z = (X - X.mean(axis=0)) / X.std(axis=0)
    _, _, data, _ = problem(25, 6, seed=3, q=2, noise=3.0)
    _, prior = searched(data, 25, 6)
    _, mean, covariance, noise = slow_average(Z, y - y.mean(), prior)
    new = 3.0 * rng.standard_normal((10, 6))
    z = (new - X.mean(axis=0)) / X.std(axis=0)
    variance = noise * (1 + 1 / 25) + np.einsum("ij,jk,ik->i", z, covariance, z)
    for table in (new, sparse.csr_array(new)):
        prediction, deviation = model.predict(table, return_std=True)
        np.testing.assert_allclose(prediction, y.mean() + z @ mean, rtol=1e-7)
        np.testing.assert_allclose(deviation, np.sqrt(variance), rtol=1e-7)
    np.testing.assert_allclose(model.coef_mean_, mean / X.std(axis=0), rtol=1e-7)
    assert model.n_sets_ == 2**6


@pytest.fixture(scope="module")
def open_question():
    """Forty variables of which the data say little: the sets are sampled."""
    X, y, coef = make_sparse_regression(60, 40, n_informative=4, noise=2.5, random_state=0)
    return X, y, coef, SpinyRegressor().fit(X, y)


def test_the_same_draws_give_the_same_average(open_question):
    X, y, _, model = open_question
    again = SpinyRegressor().fit(X, y)
    np.testing.assert_array_equal(again.coef_mean_, model.coef_mean_)
    other = SpinyRegressor(random_state=1).fit(X, y)
    assert np.any(other.coef_mean_ != model.coef_mean_)
    np.testing.assert_allclose(
        other.inclusion_probability_, model.inclusion_probability_, atol=0.15
    )
    np.testing.assert_array_equal(other.coef_, model.coef_)


def test_the_order_of_columns_does_not_matter_to_the_average(open_question, rng):
    X, y, _, model = open_question
    columns = rng.permutation(40)
    moved = SpinyRegressor().fit(X[:, columns], y)
    np.testing.assert_allclose(moved.predict(X[:, columns]), model.predict(X), rtol=1e-6)
    np.testing.assert_allclose(
        moved.inclusion_probability_, model.inclusion_probability_[columns], rtol=1e-6
    )
    both = [
        each.predict(table, return_std=True)[1]
        for each, table in ((moved, X[:, columns]), (model, X))
    ]
    np.testing.assert_allclose(both[0], both[1], rtol=1e-6)


def test_saved_and_pickled_averages_are_the_same(open_question, tmp_path):
    X, _, _, model = open_question
    for again in (load(save(model, tmp_path / "model")), pickle.loads(pickle.dumps(model))):
        for one, other in zip(
            again.predict(X, return_std=True), model.predict(X, return_std=True), strict=True
        ):
            np.testing.assert_array_equal(one, other)
        for group, same in zip(again.credible_sets_, model.credible_sets_, strict=True):
            np.testing.assert_array_equal(group, same)


def test_a_model_without_an_average_predicts_by_the_chosen_set(open_question):
    X, y, _, model = open_question
    alone = SpinyRegressor(choose="map", average=False).fit(X, y)
    np.testing.assert_array_equal(alone.coef_, SpinyRegressor(choose="map").fit(X, y).coef_)
    np.testing.assert_allclose(alone.predict(X), X @ alone.coef_ + alone.intercept_)
    assert not hasattr(alone, "coef_mean_")
    ols = SpinyRegressor(refit="ols").fit(X, y)
    np.testing.assert_allclose(ols.predict(X), X @ ols.coef_ + ols.intercept_)
    np.testing.assert_allclose(model.predict(X), X @ model.coef_mean_ + model.intercept_mean_)


def test_the_median_model_holds_what_is_more_probable_than_not(open_question):
    X, y, _, model = open_question
    median = SpinyRegressor(choose="median").fit(X, y)
    np.testing.assert_array_equal(median.support_, model.inclusion_probability_ > 0.5)
    np.testing.assert_array_equal(median.coef_ != 0, median.support_)
    assert median.n_selected_ == median.support_.sum()
    order = np.argsort(median.ranking_)
    assert set(order[: median.n_selected_]) == set(np.flatnonzero(median.support_))


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
@pytest.mark.parametrize(
    ("options", "least", "most"),
    [({}, 0.92, 0.97), ({"choose": "map", "average": False}, 0.0, 0.92)],
)
def test_intervals_cover(options, least, most):
    """Those of the chosen set alone are too short: they know of no other set."""
    covered = []
    for seed in range(5):
        rng = np.random.default_rng(seed)
        X = rng.standard_normal((560, 60))
        y = X[:, :5].sum(axis=1) + 1.6 * rng.standard_normal(560)
        model = SpinyRegressor(**options).fit(X[:60], y[:60])
        mean, std = model.predict(X[60:], return_std=True)
        covered.append(np.mean(np.abs(y[60:] - mean) < 1.96 * std))
    assert least < np.mean(covered) < most


def test_copies_stand_for_each_other():
    X, y, coef = make_sparse_regression(60, 20, n_informative=3, random_state=0)
    true = np.flatnonzero(coef)
    model = SpinyRegressor().fit(np.hstack([X, X[:, true[:1]]]), y)
    assert model.n_selected_ == len(model.credible_sets_) == 3
    groups = {frozenset(group.tolist()) for group in model.credible_sets_}
    assert groups == {frozenset({true[0], 20}), frozenset({true[1]}), frozenset({true[2]})}
    halves = model.inclusion_probability_[[true[0], 20]]
    assert halves.sum() == pytest.approx(1.0, abs=0.2)
    assert model.inclusion_probability_[true[1:]].min() > 0.95


def test_variables_that_cancel_are_both_probable():
    """As many variables as samples, two of which predict by their difference alone."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(60)
    y = 10.0 * (X[:, 1] - X[:, 0]) + 0.3 * rng.standard_normal(60)
    model = SpinyRegressor().fit(X, y)
    assert np.flatnonzero(model.support_).tolist() == [0, 1]
    assert model.inclusion_probability_[:2].min() > 0.95
    assert model.score(X, y) > 0.85


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_the_average_of_noise_predicts_next_to_nothing():
    shares = []
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X, y = rng.standard_normal((50, 10)), rng.standard_normal(50)
        model = SpinyRegressor(choose="median").fit(X, y)
        shares.append((model.n_selected_, np.var(model.predict(X)) / np.var(y)))
    assert np.mean([n == 0 for n, _ in shares]) >= 0.85
    assert np.median([share for _, share in shares]) < 0.05


def test_of_very_many_variables_the_promising_ones_are_visited():
    X, y, coef = make_sparse_regression(60, 600, n_informative=3, random_state=0)
    _, _, data, _ = problem(60, 600, q=3)
    fit, prior = searched(data, 60, 600)
    visited = av.promising(data, fit, prior.free)
    assert av.MOST_VISITED / 2 <= visited.size <= av.MOST_VISITED + fit.v.size
    assert set(np.flatnonzero(coef)) <= set(visited.tolist())
    assert np.all(np.diff(np.abs(data.b[visited])) <= 0)
    model = SpinyRegressor().fit(X, y)
    assert model.inclusion_probability_[coef != 0].min() > 0.95
    others = np.setdiff1d(np.arange(600), visited)
    assert not model.inclusion_probability_[others].any()
    assert np.all(np.diff(model.likely_) > 0)


def test_what_is_not_allowed():
    X, y, _ = make_sparse_regression(20, 5, n_informative=2, random_state=0)
    with pytest.raises(ParameterError, match="`choose` must be one of 'f-score', 'map', 'median'"):
        SpinyRegressor(choose="best").fit(X, y)
    with pytest.raises(ParameterError, match="`average` must be True or False, got 1"):
        SpinyRegressor(average=1).fit(X, y)


def test_a_constant_response_has_no_active_variable():
    X = make_sparse_regression(20, 15, n_informative=2, random_state=0).X
    with pytest.warns(NoStructureWarning):
        model = SpinyRegressor().fit(X, np.full(20, 3.0))
    assert model.credible_sets_ == []
    assert np.all(np.isfinite(model.inclusion_probability_))
    np.testing.assert_allclose(model.predict(X), 3.0)
