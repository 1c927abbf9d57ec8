"""The search through regression models, its prior and its path, against exhaustion and refits."""

import math
from itertools import combinations

import numpy as np
import pytest
from regressions import SHAPES, correlated_design, dense, precisions, problem
from scipy.integrate import quad

from prosparse.data import DenseOperator
from prosparse.models.spinyreg import model as rg
from prosparse.models.spinyreg import screening, stepwise
from prosparse.selection.model_priors import log_multiplicity

pytestmark = pytest.mark.quick


def test_posterior_is_that_of_the_contrasts():
    """Without the share of the mean: n - 1 orthonormal contrasts of y, and the prior."""
    X, y, data, coef = problem(20, 8)
    rules = stepwise.rules_for(20, 8, True, max_iter=9, tol=0.0)
    fit = rg.evaluate(data, np.flatnonzero(coef), 0.3)
    contrasts = np.linalg.svd(np.eye(20) - 1 / 20)[0][:, :19].T
    slow = dense(contrasts @ X, contrasts @ y, fit.v, *precisions(fit))
    slow += stepwise.log_number_prior(8)[3]
    assert rules.posterior(fit) == pytest.approx(slow, abs=1e-8)
    through_origin = stepwise.rules_for(20, 8, False, max_iter=9, tol=0.0)
    plain = fit.log_evidence + stepwise.log_number_prior(8)[3]
    assert through_origin.posterior(fit) == pytest.approx(plain)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("flat", [True, False])
def test_a_climb_never_falls(n, p, correlation, flat):
    _, _, data, _ = problem(n, p, correlation=correlation)
    rules = stepwise.rules_for(n, p, True, max_iter=500, tol=1e-9)
    if flat:
        rules = rules._replace(log_prior=np.zeros(p + 1))
    step = stepwise.make_step(data, rules)
    fit = rg.evaluate(data, np.array([], dtype=int), 0.0)
    state = stepwise.SearchState(fit, rules.posterior(fit))
    for _ in range(30):
        result = step(state)
        assert result.bound >= state.bound
        again = rg.evaluate(data, result.fit.v, result.fit.log_ratio)
        assert result.bound == pytest.approx(rules.posterior(again), abs=1e-8)
        assert np.unique(result.fit.v).size == result.fit.v.size <= rules.limit
        state = result


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_the_search_finds_what_exhaustion_finds(seed, correlation):
    _, _, data, _ = problem(25, 9, seed, noise=3.0, correlation=correlation)
    rules = stepwise.rules_for(25, 9, True, max_iter=500, tol=1e-9)
    best = max(
        rules.posterior(rg.optimise(data, rg.evaluate(data, np.array(v, dtype=int), 3.0), 1e-9))
        for size in range(10)
        for v in combinations(range(9), size)
    )
    found = stepwise.search(data, lambda: data.b, rules)[-1].state.fit
    assert rules.posterior(rg.optimise(data, found, 1e-9)) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(15))
def test_two_variables_that_nearly_cancel_each_other_are_found(seed):
    """Neither helps alone, and a prior that suits all variables would shrink both to nothing."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 30))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(100)
    y = 10 * (X[:, 1] - X[:, 0]) + 0.3 * rng.standard_normal(100)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 100)
    rules = stepwise.rules_for(100, 30, True, max_iter=500, tol=1e-9)
    assert {0, 1} <= set(stepwise.search(data, lambda: data.b, rules)[-1].state.fit.v.tolist())


@pytest.fixture
def starts(monkeypatch):
    """The variables from which climbs started."""
    seen, original = [], stepwise.ascend

    def watched(data, start, rules):
        seen.append(set(start.v.tolist()))
        return original(data, start, rules)

    monkeypatch.setattr(stepwise, "ascend", watched)
    return seen


def useful(data, log_ratio):
    """Variables without which the evidence of the model of all of them would fall."""
    whole = rg.evaluate(data, np.arange(data.b.size), log_ratio)
    parts = [np.delete(np.arange(data.b.size), j) for j in range(data.b.size)]
    smaller = [rg.evaluate(data, v, log_ratio) for v in parts]
    rules = stepwise.rules_for(data.n, data.b.size, True, max_iter=9, tol=0.0)
    return {j for j, fit in enumerate(smaller) if rules.weight(fit) < rules.weight(whole)}


def test_one_climb_is_enough_where_all_agree(starts):
    _, _, data, coef = problem(200, 12)
    rules = stepwise.rules_for(200, 12, True, max_iter=500, tol=1e-9)
    runs = stepwise.search(data, lambda: data.b, rules)
    true = set(np.flatnonzero(coef).tolist())
    assert starts == [true]
    assert set(runs[-1].state.fit.v.tolist()) == true


@pytest.mark.parametrize("spoil", ["few samples", "nearly a copy", "sizes"])
def test_agreement_is_not_enough_where_weights_are_not_clear(spoil, starts):
    X, y, _, coef = problem(20 if spoil == "few samples" else 200, 12)
    if spoil == "nearly a copy":
        j = np.flatnonzero(coef == 0)[0]
        X[:, j] = X[:, np.flatnonzero(coef)[0]] + 0.1 * X[:, j]
    elif spoil == "sizes":
        X[:, np.flatnonzero(coef == 0)[0]] *= 100.0
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), y.size)
    rules = stepwise.rules_for(y.size, 12, True, max_iter=500, tol=1e-9)
    stepwise.search(data, lambda: data.b, rules)
    assert len(starts) >= 3
    assert set() in starts


def test_few_samples_of_correlated_variables():
    """Found from as many of the largest weights as the climb under a flat prior brings along."""
    rng = np.random.default_rng(128)
    X = rng.standard_normal((40, 10))
    X = (X + 3 * rng.standard_normal((40, 1)))[:14]
    y = X[:, :3] @ [2, -1, 1] + 0.3 * rng.standard_normal(14)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 14)
    rules = stepwise.rules_for(14, 10, True, max_iter=500, tol=1e-9)
    found = stepwise.search(data, lambda: data.b, rules)[-1].state.fit
    assert set(found.v.tolist()) == {0, 1, 2}


def test_pure_noise_is_climbed_once(starts):
    """Even if the climb under a flat prior brings some variables along."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 12)), rng.standard_normal(200)
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 200)
    rules = stepwise.rules_for(200, 12, True, max_iter=500, tol=1e-9)
    flat = rules._replace(log_prior=np.zeros(13))
    assert stepwise.climb(data, stepwise.empty(data), flat).state.fit.v.size == 2
    assert stepwise.search(data, lambda: data.b, rules)[-1].state.fit.v.size == 0
    assert starts == [set()]


def test_climbs_start_from_every_side_where_variables_disagree(starts):
    _, _, data, _ = problem(40, 15, seed=2, noise=2.0, correlation=0.8, q=8)
    rules = stepwise.rules_for(40, 15, True, max_iter=500, tol=1e-9)
    runs = stepwise.search(data, lambda: data.b, rules)
    tiny, small = math.log(1e-6 * data.d.min()), math.log(0.01 * data.d.mean())
    whole = rg.evaluate(data, np.arange(15), tiny)
    at_best = rg.optimise(data, rg.evaluate(data, np.arange(15), small), rg.COARSE)
    size = len(starts[1])
    assert starts[0] == useful(data, tiny)
    assert starts[1] == set(np.argsort(-np.abs(whole.m))[:size].tolist())
    assert starts[2] == set()
    assert starts[3] == useful(data, at_best.log_ratio)
    assert len(starts) == 4
    weights = [rules.posterior(run.state.fit) for run in runs]
    assert weights == sorted(weights)


def test_no_climb_starts_from_none_twice(starts):
    _, _, data, _ = problem(40, 15, seed=0, noise=4.0, correlation=0.9, q=6)
    rules = stepwise.rules_for(40, 15, True, max_iter=500, tol=1e-9)
    stepwise.search(data, lambda: data.b, rules)
    assert len(starts) == 3
    assert [start == set() for start in starts] == [True, False, False]


def test_a_climb_leads_down_from_all_variables():
    _, _, data, coef = problem(80, 10)
    rules = stepwise.rules_for(80, 10, True, max_iter=500, tol=1e-9)
    everything = rg.optimise(data, rg.evaluate(data, np.arange(10), 0.0), rg.COARSE)
    found = stepwise.climb(data, everything, rules).state.fit
    assert set(np.flatnonzero(coef).tolist()) <= set(found.v.tolist())
    assert found.v.size <= 4


def test_with_too_many_variables_climbs_start_from_none_and_from_large_weights(starts):
    _, _, data, _ = problem(20, 40, noise=3.0, correlation=0.8)
    rules = stepwise.rules_for(20, 40, True, max_iter=500, tol=1e-9)
    weights = np.random.default_rng(0).standard_normal(40)
    stepwise.search(data, lambda: weights, rules)
    assert starts[0] == set()
    assert starts[1] == set(np.argsort(-np.abs(weights))[: len(starts[1])].tolist())
    assert len(starts) == 2


def five_of_a_thousand(seed):
    """Each of the five alone tells little of y."""
    truth = correlated_design(seed)
    X, y = truth.X - truth.X.mean(axis=0), truth.y - truth.y.mean()
    X /= X.std(axis=0)
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 50)
    rules = stepwise.rules_for(50, 1000, True, max_iter=500, tol=1e-9)
    return data, rules, frozenset(np.flatnonzero(truth.coef).tolist())


def sets_of(runs):
    return [frozenset(v.tolist()) for run in runs for v in (run.state.fit.v, *run.state.passed)]


def test_sets_that_climbs_from_none_miss_grow_from_single_variables(monkeypatch):
    data, rules, true = five_of_a_thousand(1009)
    assert true in sets_of(stepwise.search(data, lambda: data.b, rules))
    monkeypatch.setattr(stepwise, "from_singles", lambda data, rules: [])
    assert true not in sets_of(stepwise.search(data, lambda: data.b, rules))


@pytest.mark.parametrize("seed", [1001, 2013])
def test_sets_that_have_grown_are_passed_once_each(seed):
    """The true set is not the best one, but among those that are passed, the best of them first."""
    data, rules, true = five_of_a_thousand(seed)
    (run,) = stepwise.from_singles(data, rules)
    passed = [frozenset(v.tolist()) for v in run.state.passed]
    assert true in passed
    assert true != frozenset(run.state.fit.v.tolist())
    assert len(set(passed)) == len(passed) <= stepwise.MAX_GROWN
    heights = [
        rules.posterior(rg.optimise(data, rg.evaluate(data, v, 1.0), 1e-6))
        for v in run.state.passed
    ]
    assert np.all(np.diff(heights) < 0.2)  # the search is as exact as `COARSE`
    assert rules.posterior(run.state.fit) >= max(heights) - 0.2


def grown_from(monkeypatch, data, rules):
    """The variables from which sets have grown."""
    starts = []

    def alone(data, j):
        starts.append(j)
        return rg.alone(data, j)

    monkeypatch.setattr(stepwise, "alone", alone)
    stepwise.from_singles(data, rules)
    return starts


def test_sets_grow_from_the_variables_most_correlated_with_y(monkeypatch):
    data, rules, _ = five_of_a_thousand(1009)
    order = np.argsort(-np.abs(data.b))  # the columns have unit variance
    units = np.exp(np.random.default_rng(0).normal(0.0, 1.0, 1000))
    data = rg.moments(data.G * np.outer(units, units), data.b * units, data.yy, data.n)
    starts = grown_from(monkeypatch, data, rules)
    assert starts == order[: stepwise.SINGLES].tolist()


def test_no_more_sets_grow_where_all_grow_alike(monkeypatch):
    """Eight clear variables: from wherever a set grows, it has seven of them or all."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 300))
    y = X[:, :8].sum(axis=1) + 0.01 * rng.standard_normal(200)
    data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 200)
    rules = stepwise.rules_for(200, 300, True, max_iter=500, tol=1e-9)
    assert len(grown_from(monkeypatch, data, rules)) == stepwise.SINGLES  # each has its own start
    monkeypatch.setattr(stepwise, "SINGLES", 8)
    monkeypatch.setattr(stepwise, "NOTHING_NEW", 3)
    assert len(grown_from(monkeypatch, data, rules)) == 4  # one new, and three like it


def test_no_sets_grow_where_what_was_found_is_clear(monkeypatch):
    calls = []
    monkeypatch.setattr(stepwise, "from_singles", lambda data, rules: calls.append(data) or [])
    data, rules, _ = five_of_a_thousand(1009)
    stepwise.search(data, lambda: data.b, rules)
    assert len(calls) == 1
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 300))
    y = X[:, :4].sum(axis=1) + 0.1 * rng.standard_normal(100)
    clear = rg.moments(X.T @ X, X.T @ y, float(y @ y), 100)
    rules = stepwise.rules_for(100, 300, True, max_iter=500, tol=1e-9)
    runs = stepwise.search(clear, lambda: clear.b, rules)
    assert sorted(runs[-1].state.fit.v.tolist()) == [0, 1, 2, 3]
    assert len(calls) == 1


def test_nothing_grows_where_models_have_one_variable_at_most():
    _, _, data, _ = problem(4, 12)
    rules = stepwise.rules_for(4, 12, True, max_iter=9, tol=0.0)
    assert rules.allowed == 1
    assert stepwise.from_singles(data, rules) == []


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_path_is_nested_and_optimised(n, p):
    X, y, data, coef = problem(n, p)
    v = np.flatnonzero(coef)
    path = stepwise.regression_path(data, rg.evaluate(data, v, 0.0), 6)
    assert path.order.size == 6
    assert [fit.v.size for fit in path.fits] == list(range(7))
    assert set(path.order[:3]) == set(v)
    for q, fit in enumerate(path.fits):
        assert set(fit.v) == set(path.order[:q])
        dense_value = dense(X, y, path.order[:q], *precisions(fit)) if q else fit.log_evidence
        assert fit.log_evidence == pytest.approx(dense_value, abs=1e-8)
        best = rg.optimise(data, fit, 1e-12)
        assert best.log_evidence - fit.log_evidence <= rg.FINE


@pytest.mark.parametrize("p", [1, 12, 60])
def test_the_prior_of_numbers_is_its_integral(p):
    """Each variable is active with probability r, of density 2 (1 - r); q / 15 of many are few."""
    ours = stepwise.log_number_prior(p)
    numbers = np.exp([math.log(math.comb(p, q)) + ours[q] for q in range(p + 1)])
    assert numbers.sum() == pytest.approx(1.0)
    slow = np.array(
        [
            quad(lambda r, q=q: r**q * (1 - r) ** (p - q) * 2 * (1 - r), 0, 1, epsabs=0)[0]
            / (1 + (q / 15) ** 2)
            for q in range(p + 1)
        ]
    )
    np.testing.assert_allclose(ours - ours[0], np.log(slow / slow[0]), atol=1e-8)


def test_few_variables_are_more_probable_than_many():
    """Half of many variables is hundreds of times less probable than a few, which are alike."""
    ours = stepwise.log_number_prior(400)
    numbers = np.exp([math.log(math.comb(400, q)) + ours[q] for q in range(401)])
    assert numbers[5] / numbers[0] > 0.85
    assert numbers[150] / numbers[0] < 0.011


@pytest.mark.parametrize("p", [1, 2, 8, 60])
def test_prior_is_the_integral(p):
    ours = log_multiplicity(p)
    for q in range(p + 1):
        integral, _ = quad(lambda r, q=q: r**q * (1 - r) ** (p - q), 0, 0.5, epsabs=0)
        assert ours[q] == pytest.approx(np.log(2 * integral), abs=1e-9)


def test_prior_of_many_variables_is_finite_and_falls():
    ours = log_multiplicity(5000)
    assert np.all(np.isfinite(ours))
    assert np.all(np.diff(ours) < 0)


@pytest.mark.parametrize(("n", "p"), [(20, 50), (50, 20)])
def test_all_in_is_ridge_regression(n, p):
    X, y, data, _ = problem(n, p)
    ridge = 0.01 * np.trace(X.T @ X) / min(n, p)
    slow = np.linalg.solve(X.T @ X + ridge * np.eye(p), X.T @ y)
    among = screening.candidates(DenseOperator(X), y, data.yy, y.size)
    np.testing.assert_allclose(among.G, data.G, atol=1e-9)
    np.testing.assert_allclose(screening.all_in(among), slow, atol=1e-9)


def test_instalments_lead_where_the_whole_table_leads(monkeypatch):
    X, y, data, coef = problem(80, 120, q=6, correlation=0.5)
    rules = stepwise.rules_for(80, 120, True, max_iter=500, tol=1e-9)
    everyone = screening.candidates(DenseOperator(X), y, data.yy, y.size)
    monkeypatch.setattr(screening, "SHORTLIST", 12)
    some = screening.candidates(DenseOperator(X), y, data.yy, y.size)
    assert screening.first_shortlist(some, screening.all_in(some)).indices.size <= 12
    found, gains = [], []
    for among in (everyone, some):
        listed, runs, _ = screening.search_all(among, rules)
        fit = rg.optimise(listed.data, runs[-1].state.fit, rg.EXACT)
        found.append(set(listed.indices[fit.v]))
        gains.append(screening.gains(among, listed, fit))
    assert found[0] == found[1] == set(np.flatnonzero(coef))
    np.testing.assert_allclose(gains[1], gains[0], atol=1e-4)


def test_a_variable_that_helps_only_beside_another_comes_with_an_instalment(monkeypatch, rng):
    """y = x_7 - x_31 + noise, where x_31 alone is orthogonal to y: no first list has it."""
    z, noise = rng.standard_normal((2, 200))
    y = z + 0.1 * noise
    X = rng.standard_normal((200, 60))
    X[:, 31] -= X[:, 31] @ y / (y @ y) * y
    X[:, 7] = z + X[:, 31]
    rules = stepwise.rules_for(200, 60, False, max_iter=500, tol=1e-9)
    everyone = screening.candidates(DenseOperator(X), y, float(y @ y), y.size)
    best = screening.search_all(everyone, rules).runs[-1].state.fit
    assert set(best.v) == {7, 31}
    monkeypatch.setattr(screening, "SHORTLIST", 6)
    some = screening.candidates(DenseOperator(X), y, float(y @ y), y.size)
    first = screening.first_shortlist(some, screening.all_in(some))
    assert 7 in first.indices
    assert 31 not in first.indices
    last, runs, _ = screening.search_all(some, rules)
    fit = runs[-1].state.fit
    assert set(last.indices[fit.v]) == {7, 31}
    assert fit.log_evidence == pytest.approx(best.log_evidence, abs=1e-3)
