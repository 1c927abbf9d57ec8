"""Search, prior and path of regression models, compared with enumeration and refits."""

import math
from itertools import combinations

import numpy as np
import pytest
from regressions import SHAPES, correlated_design, dense, model_of, precisions, problem
from scipy.integrate import quad

from prosparse.data import DenseOperator
from prosparse.models.spinyreg import linear as rg
from prosparse.models.spinyreg import screening, stepwise

pytestmark = pytest.mark.quick


def rules_for(n, p, **options):
    return stepwise.rules_for(p, screening.max_linear_sizes(n, p, True), **options)


def test_posterior_equals_that_of_orthonormal_contrasts():
    """The mean is excluded: n - 1 orthonormal contrasts of y, and the prior."""
    X, y, data, coef = problem(20, 8)
    rules = rules_for(20, 8, max_iter=9, tol=0.0)
    fit = rg.evaluate(data, np.flatnonzero(coef), 0.3)
    contrasts = np.linalg.svd(np.eye(20) - 1 / 20)[0][:, :19].T
    slow = dense(contrasts @ X, contrasts @ y, fit.v, *precisions(fit))
    slow += stepwise.log_size_prior(8)[3]
    assert rules.posterior(data, fit) == pytest.approx(slow, abs=1e-8)
    plain = fit.log_evidence + stepwise.log_size_prior(8)[3]
    assert rules.posterior(data._replace(dof=20), fit) == pytest.approx(plain)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("flat", [True, False])
def test_local_search_is_non_decreasing(n, p, correlation, flat):
    _, _, data, _ = problem(n, p, correlation=correlation)
    rules = rules_for(n, p, max_iter=500, tol=1e-9)
    if flat:
        rules = rules._replace(log_prior=np.zeros(p + 1))
    step = stepwise.make_step(data, rules)
    fit = rg.evaluate(data, np.array([], dtype=int), 0.0)
    state = stepwise.SearchState(fit, rules.posterior(data, fit))
    for _ in range(30):
        result = step(state)
        assert result.bound >= state.bound
        again = rg.evaluate(data, result.fit.v, result.fit.log_ratio)
        assert result.bound == pytest.approx(rules.posterior(data, again), abs=1e-8)
        assert np.unique(result.fit.v).size == result.fit.v.size <= rules.max_search_size
        state = result


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("correlation", [0.0, 0.7])
def test_search_finds_the_best_of_all_sets(seed, correlation):
    _, _, data, _ = problem(25, 9, seed, noise=3.0, correlation=correlation)
    rules = rules_for(25, 9, max_iter=500, tol=1e-9)
    best = max(
        rules.posterior(
            data, rg.optimise(data, rg.evaluate(data, np.array(v, dtype=int), 3.0), 1e-9)
        )
        for size in range(10)
        for v in combinations(range(9), size)
    )
    found = stepwise.search(data, lambda: data.B[:, 0], rules)[-1].state.fit
    assert rules.posterior(data, rg.optimise(data, found, 1e-9)) == pytest.approx(best, abs=1e-5)


@pytest.mark.parametrize("seed", range(15))
def test_search_finds_suppressor_variables(seed):
    """Neither variable explains y alone; the prior of the full model shrinks both to zero."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((100, 30))
    X[:, 1] = X[:, 0] + 0.1 * rng.standard_normal(100)
    y = 10 * (X[:, 1] - X[:, 0]) + 0.3 * rng.standard_normal(100)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    data = model_of(X, y, len(y) - 1)
    rules = rules_for(100, 30, max_iter=500, tol=1e-9)
    assert {0, 1} <= set(
        stepwise.search(data, lambda: data.B[:, 0], rules)[-1].state.fit.v.tolist()
    )


def test_few_samples_of_correlated_variables():
    """The search starts from the largest coefficients of the full model."""
    rng = np.random.default_rng(128)
    X = rng.standard_normal((40, 10))
    X = (X + 3 * rng.standard_normal((40, 1)))[:14]
    y = X[:, :3] @ [2, -1, 1] + 0.3 * rng.standard_normal(14)
    X, y = (X - X.mean(axis=0)) / X.std(axis=0), y - y.mean()
    data = model_of(X, y, len(y) - 1)
    rules = rules_for(14, 10, max_iter=500, tol=1e-9)
    found = stepwise.search(data, lambda: data.B[:, 0], rules)[-1].state.fit
    assert set(found.v.tolist()) == {0, 1, 2}


def test_local_search_from_all_variables_removes_noise():
    _, _, data, coef = problem(80, 10)
    rules = rules_for(80, 10, max_iter=500, tol=1e-9)
    full = rg.optimise(data, rg.evaluate(data, np.arange(10), 0.0), rg.COARSE)
    found = stepwise.local_search(data, full, rules).state.fit
    assert set(np.flatnonzero(coef).tolist()) <= set(found.v.tolist())
    assert found.v.size <= 4


def five_of_a_thousand(seed):
    """Simulate five active variables, none of which explains much of y alone."""
    truth = correlated_design(seed)
    X, y = truth.X - truth.X.mean(axis=0), truth.y - truth.y.mean()
    X /= X.std(axis=0)
    data = model_of(X, y, len(y) - 1)
    rules = rules_for(50, 1000, max_iter=500, tol=1e-9)
    return data, rules, frozenset(np.flatnonzero(truth.coef).tolist())


def sets_of(runs):
    return [
        frozenset(v.tolist())
        for run in runs
        for v in (run.state.fit.v, *run.state.intermediate_sets)
    ]


def test_search_finds_jointly_relevant_variables_from_singles():
    """Local searches from the empty set and from the largest coefficients miss the true set."""
    data, rules, true = five_of_a_thousand(1009)
    assert true in sets_of(stepwise.search(data, lambda: data.B[:, 0], rules))
    missed = stepwise.search_from(data, stepwise.empty_set(data), rules)
    assert true not in sets_of(missed)


def test_pure_noise_selects_nothing():
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((200, 12)), rng.standard_normal(200)
    data = model_of(X, y, len(y) - 1)
    rules = rules_for(200, 12, max_iter=500, tol=1e-9)
    assert stepwise.search(data, lambda: data.B[:, 0], rules)[-1].state.fit.v.size == 0


@pytest.mark.parametrize("seed", [1001, 2013])
def test_search_from_singles_returns_distinct_sets(seed):
    """The true set is among the intermediate sets, which are in order of their posterior."""
    data, rules, true = five_of_a_thousand(seed)
    (run,) = stepwise.search_from_singles(data, rules)
    intermediate_sets = [frozenset(v.tolist()) for v in run.state.intermediate_sets]
    assert true in intermediate_sets
    assert true != frozenset(run.state.fit.v.tolist())
    assert len(set(intermediate_sets)) == len(intermediate_sets) <= stepwise.MAX_GROWN_SETS
    log_posteriors = [
        rules.posterior(data, rg.optimise(data, rg.evaluate(data, v, 1.0), 1e-6))
        for v in run.state.intermediate_sets
    ]
    assert np.all(np.diff(log_posteriors) < 0.2)  # the search is as exact as `COARSE`
    assert rules.posterior(data, run.state.fit) >= max(log_posteriors) - 0.2


def test_no_search_from_singles_if_models_have_one_variable():
    _, _, data, _ = problem(4, 12)
    rules = rules_for(4, 12, max_iter=9, tol=0.0)
    assert rules.max_size == 1
    assert stepwise.search_from_singles(data, rules) == []


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_path_is_nested_and_optimised(n, p):
    X, y, data, coef = problem(n, p)
    v = np.flatnonzero(coef)
    path = stepwise.nested_path(data, rg.evaluate(data, v, 0.0), 6)
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
def test_size_prior_equals_its_integral(p):
    """Each variable is active with probability r of density 2 (1 - r), times 1 / (1 + (q/15)^2)."""
    ours = stepwise.log_size_prior(p)
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


def test_size_prior_favours_sparse_models():
    """The prior is nearly flat for few variables and small for many."""
    ours = stepwise.log_size_prior(400)
    numbers = np.exp([math.log(math.comb(400, q)) + ours[q] for q in range(401)])
    assert numbers[5] / numbers[0] > 0.85
    assert numbers[150] / numbers[0] < 0.011


def pool_of(X, y, n_intercepts=1):
    yy = np.array([float(y @ y)])
    return screening.candidates(DenseOperator(X), y[:, None], yy, y.size, n_intercepts)


@pytest.mark.parametrize(("n", "p"), [(20, 50), (50, 20)])
def test_ridge_coefficients(n, p):
    X, y, data, _ = problem(n, p)
    ridge = 0.01 * np.trace(X.T @ X) / min(n, p)
    slow = np.linalg.solve(X.T @ X + ridge * np.eye(p), X.T @ y)
    pool = pool_of(X, y)
    np.testing.assert_allclose(pool.G, data.G, atol=1e-9)
    sizes = np.abs(slow) / np.sqrt(y @ y)
    np.testing.assert_allclose(screening.ridge_coefficients(pool), sizes, atol=1e-9)


def test_shortlist_gives_the_result_of_all_variables(monkeypatch):
    X, y, _, coef = problem(80, 120, q=6, correlation=0.5)
    rules = rules_for(80, 120, max_iter=500, tol=1e-9)
    full_pool = pool_of(X, y)
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 12)
    found, gains = [], []
    for pool in (full_pool, pool_of(X, y)):
        given = screening.LinearProblem(pool)
        listed = screening.search_all(given, rules)
        assert listed.indices.size <= 12 or pool is full_pool
        fit = listed.model.refine(listed.fit, exact=True)
        found.append(set(listed.indices[fit.v]))
        gains.append(given.gains(listed.model, listed.indices, fit))
    assert found[0] == found[1] == set(np.flatnonzero(coef))
    np.testing.assert_allclose(gains[1], gains[0], atol=1e-4)


def test_shortlist_is_extended_by_a_suppressor_variable(monkeypatch, rng):
    """y = x_7 - x_31 + noise with x_31 orthogonal to y: the first shortlist excludes x_31."""
    z, noise = rng.standard_normal((2, 200))
    y = z + 0.1 * noise
    X = rng.standard_normal((200, 60))
    X[:, 31] -= X[:, 31] @ y / (y @ y) * y
    X[:, 7] = z + X[:, 31]
    sizes = screening.max_linear_sizes(200, 60, False)
    rules = stepwise.rules_for(60, sizes, max_iter=500, tol=1e-9)
    best = screening.search_all(screening.LinearProblem(pool_of(X, y, 0)), rules).fit
    assert set(best.v) == {7, 31}
    monkeypatch.setattr(screening, "MAX_SHORTLIST", 6)
    pool = pool_of(X, y, 0)
    first = screening.select_top(6, pool.marginal(), screening.ridge_coefficients(pool))
    assert 7 in first
    assert 31 not in first
    last = screening.search_all(screening.LinearProblem(pool), rules)
    assert set(last.indices[last.fit.v]) == {7, 31}
    assert last.fit.log_evidence == pytest.approx(best.log_evidence, abs=1e-3)
