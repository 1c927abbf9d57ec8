"""Decision rules, representatives and credible intervals."""

import itertools
import warnings

import numpy as np
import pytest
from regressions import model_of, problem

from prosparse import NoStructureWarning, ParameterError, SpinyRegressor
from prosparse.datasets import make_sparse_regression
from prosparse.metrics import support_f_score
from prosparse.models.spinyreg import averaging as av
from prosparse.models.spinyreg import decision_rules as rules_module
from prosparse.models.spinyreg.screening import max_linear_sizes
from prosparse.models.spinyreg.stepwise import rules_for, search


def expected_f(sets, weights, selected):
    """Compute the expected F-score of a set by its definition."""
    return sum(
        w * (1.0 if not v and not selected else 2 * len(v & selected) / (len(v) + len(selected)))
        for v, w in zip(sets, weights, strict=True)
    )


@pytest.mark.parametrize("seed", range(4))
def test_expected_f_score_is_maximal_over_all_sets(seed):
    rng = np.random.default_rng(seed)
    sets = [frozenset(v) for q in range(6) for v in itertools.combinations(range(5), q)]
    weights = rng.dirichlet(np.full(len(sets), 0.2))
    by_size = np.zeros((5, 6))
    for v, w in zip(sets, weights, strict=True):
        by_size[list(v), len(v)] += w
    found = rules_module.maximise_expected_f_score(by_size, weights[0], 5)
    scores = [expected_f(sets, weights, v) for v in sets]
    assert found.expected == pytest.approx(max(scores))
    assert frozenset(found.v.tolist()) == sets[int(np.argmax(scores))]
    few = rules_module.maximise_expected_f_score(by_size, weights[0], 2)
    assert few.expected == pytest.approx(max(s for s, v in zip(scores, sets) if len(v) <= 2))


def test_empty_set_has_the_largest_expected_f_score():
    by_size = np.array([[0.0, 0.3], [0.0, 0.1]])
    assert rules_module.maximise_expected_f_score(by_size, 0.6, 2).v.size == 0
    assert rules_module.maximise_expected_f_score(by_size, 0.29, 2).v.tolist() == [0]
    assert rules_module.maximise_expected_f_score(by_size, 0.29, 0).v.size == 0


def summarise(X, y):
    data = model_of(X, y, len(y) - 1)
    rules = rules_for(X.shape[1], max_linear_sizes(*X.shape, True), max_iter=1000, tol=1e-6)
    fit = search(data, lambda: data.B[:, 0], rules)[-1].state.fit
    return data, av.average_over_sets(data, rules.log_prior, fit, [], 0)


def test_one_of_two_copies_is_selected():
    X, y, _, coef = problem(40, 5, q=2, noise=2.0)
    true = np.flatnonzero(coef)
    data, average = summarise(np.column_stack([X, X[:, true[0]]]), y)
    assert rules_module.representatives(data, average).tolist() in (
        [*range(5), true[0]],
        [5 if j == true[0] else j for j in range(5)] + [5],
    )
    found = rules_module.select_by_f_score(data, average, 6)
    assert len({5, true[0]} & set(found.v.tolist())) == 1
    both = rules_module.maximise_expected_f_score(average.by_size, average.size_probability[0], 6)
    assert {5, true[0]} <= set(both.v.tolist())  # Without representatives both are selected.
    assert found.expected > both.expected


def test_merged_probabilities_are_bounded(rng):
    """A group is at least as probable as its members and at most as probable as the size."""
    X, y, _, _ = problem(25, 6, seed=3, q=3, noise=2.0)
    _, average = summarise(X, y)
    representative = np.array([0, 0, 0, 3, 4, 5])
    once = rules_module.merge_redundant(average.by_size, representative)
    assert np.all(once <= average.size_probability + 1e-12)
    assert np.all(once[0] >= average.by_size[:3].max(axis=0) - 1e-12)
    assert np.any(once[0] < average.by_size[:3].sum(axis=0) - 1e-3)
    assert not np.any(once[1:3])
    np.testing.assert_allclose(once[3:], average.by_size[3:], atol=1e-12)
    assert rules_module.maximise_expected_f_score(once, 0.0, 6).expected <= 1.0


def test_jointly_active_variables_represent_themselves():
    """Correlated variables with probabilities of one do not represent each other."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 4))
    X[:, 1] = 0.9 * X[:, 0] + 0.4 * X[:, 1]
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    for noise in (0.0, 0.3):
        y = X[:, 0] + X[:, 1] + noise * rng.standard_normal(60)
        data, average = summarise(X, y - y.mean())
        assert rules_module.representatives(data, average).tolist() == [0, 1, 2, 3]
        assert set(rules_module.select_by_f_score(data, average, 4).v.tolist()) >= {0, 1}


def test_joint_probabilities_add_up(rng):
    X, y, _, _ = problem(25, 6, seed=3, q=2, noise=3.0)
    _, average = summarise(X, y)
    np.testing.assert_allclose(average.by_size.sum(axis=1), average.inclusion)
    assert average.size_probability.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(average.by_size.sum(axis=0), np.arange(7) * average.size_probability)
    np.testing.assert_allclose(average.together.diagonal(), average.inclusion)
    assert average.active_mean * average.inclusion == pytest.approx(average.mean)
    within = average.active_variance + average.active_mean**2
    np.testing.assert_allclose(average.inclusion * within - average.mean**2, average.variance)


def test_f_score_rule_has_the_best_f_score():
    """With weak signals the other rules miss more variables."""
    scores = {"f-score": [], "map": [], "median": []}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", NoStructureWarning)
        for seed in range(40):
            X, y, coef = make_sparse_regression(
                60, 8, n_informative=4, noise=6.0, random_state=seed
            )
            for rule, found in scores.items():
                model = SpinyRegressor(selection_rule=rule).fit(X, y)
                found.append(support_f_score(coef != 0, model.support_))
    best = np.mean(scores.pop("f-score"))
    assert best > max(np.mean(found) for found in scores.values()) + 0.005


def test_selected_set_of_the_rule(monkeypatch):
    rng = np.random.default_rng(1)
    X = rng.standard_normal((40, 11))
    y = X[:, 0] + 0.5 * rng.standard_normal(40)
    monkeypatch.setattr(
        "prosparse.models.spinyreg.solve.select_by_f_score",
        lambda model, average, allowed: rules_module.SelectedSet(np.array([3, 1]), 0.5),
    )
    model = SpinyRegressor().fit(X, y)
    assert np.flatnonzero(model.support_).tolist() == [1, 3]
    assert np.flatnonzero(model.selected_coef_).tolist() == [1, 3]
    assert sorted(model.ranking_[[1, 3]]) == [1, 2]


@pytest.mark.parametrize("level", [0.5, 0.95])
def test_mixture_intervals_equal_sample_quantiles(level, rng):
    inclusion = np.array([1.0, 0.97, 0.6, 0.6, 0.03, 0.0])
    mean = np.array([1.0, 2.0, 0.1, -3.0, 1.0, 0.0])
    deviation = np.array([0.5, 0.5, 1.0, 0.5, 0.1, 0.0])
    active = rng.random((200_000, 6)) < inclusion
    drawn = np.where(active, mean + deviation * rng.standard_normal((200_000, 6)), 0.0)
    tails = 0.5 + np.array([-0.5, 0.5]) * level
    slow = np.quantile(drawn, tails, axis=0).T
    found = av.mixture_interval(inclusion, mean, deviation, level)
    np.testing.assert_allclose(found, slow, atol=0.03)
    np.testing.assert_array_equal(found[5], 0.0)
    np.testing.assert_allclose(found[0], mean[0] + 0.5 * np.array([-1, 1]) * normal(tails[1]))


def normal(tail):
    return {0.75: 0.6744897501960817, 0.975: 1.959963984540054}[round(float(tail), 3)]


def test_intervals_of_coefficients():
    """Intervals are in the units of the data, and zero at one end for inactive variables."""
    X, y, coef = make_sparse_regression(60, 20, n_informative=3, random_state=0)
    model = SpinyRegressor().fit(X, y)
    low, high = model.coef_interval().T
    assert np.all((low <= coef) & (coef <= high))
    assert np.all(low[coef == 0] * high[coef == 0] == 0.0)
    wide, narrow = model.coef_interval(0.99), model.coef_interval(0.5)
    assert np.all(wide[:, 0] <= narrow[:, 0])
    assert np.all(narrow[:, 1] <= wide[:, 1])
    other = SpinyRegressor().fit(10.0 * X + 3.0, 100.0 * y)
    np.testing.assert_allclose(other.coef_interval(), 10.0 * model.coef_interval(), rtol=1e-6)
    alone = SpinyRegressor(selection_rule="map", average=False).fit(X, y)
    half = 1.959963984540054 * np.sqrt(np.diagonal(alone.selected_coef_covariance_))
    ends = alone.coef_interval()
    np.testing.assert_allclose(ends[alone.support_, 1], alone.coef_[alone.support_] + half)
    assert not ends[~alone.support_].any()
    for level in (0.0, 1.0, "0.9"):
        with pytest.raises(ParameterError, match=r"`level` must be in \(0, 1\), got"):
            model.coef_interval(level)
