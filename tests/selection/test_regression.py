"""The evidence of regression models and the search through them, against slow dense oracles."""

import math
from itertools import combinations

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize
from scipy.stats import multivariate_normal

from prosparse.datasets import make_sparse_regression
from prosparse.operators import DenseOperator
from prosparse.selection import regression as rg
from prosparse.selection import shortlist
from prosparse.selection.prior import log_multiplicity

SHAPES = [(30, 6), (12, 12), (10, 25), (60, 40)]


def problem(n, p, seed=0, q=3, **options):
    X, y, coef = make_sparse_regression(n, p, n_informative=q, random_state=seed, **options)
    X, y = X - X.mean(axis=0), y - y.mean()
    X = X / X.std(axis=0)
    return X, y, rg.moments(X.T @ X, X.T @ y, float(y @ y), n), coef


def dense(X, y, v, alpha, gamma):
    """log N(y; 0, I/gamma + X_v X_v'/alpha), [LM-slides]."""
    n = y.size
    covariance = np.eye(n) / gamma + X[:, v] @ X[:, v].T / alpha
    return multivariate_normal(np.zeros(n), covariance).logpdf(y)


def precisions(fit):
    return np.exp(fit.log_ratio) / fit.sigma2, 1.0 / fit.sigma2


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("size", [0, 1, 4])
def test_evidence_is_the_dense_one(n, p, size, rng):
    X, y, data, _ = problem(n, p)
    v = rng.permutation(p)[:size]
    for log_ratio in (-3.0, 0.0, 4.0):
        fit = rg.evaluate(data, v, log_ratio)
        assert fit.log_evidence == pytest.approx(dense(X, y, v, *precisions(fit)), abs=1e-8)


def test_derivatives_by_differences():
    _, _, data, _ = problem(30, 8)
    v, h = np.array([1, 4, 6]), 1e-4
    for at in (-2.0, 1.0, 5.0):
        low, fit, high = (rg.evaluate(data, v, at + step) for step in (-h, 0.0, h))
        slope = (high.log_evidence - low.log_evidence) / (2 * h)
        curvature = (high.log_evidence - 2 * fit.log_evidence + low.log_evidence) / h**2
        assert fit.slope == pytest.approx(slope, abs=1e-6)
        assert fit.curvature == pytest.approx(curvature, abs=1e-4)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_alpha_and_gamma_are_the_best(n, p, rng):
    """No direct search over both precisions, from several starts, finds more."""
    X, y, data, coef = problem(n, p)
    v = np.flatnonzero(coef)
    fit = rg.optimise(data, rg.evaluate(data, v, 0.0))
    for _ in range(4):
        found = minimize(
            lambda logs: -dense(X, y, v, *np.exp(logs)),
            np.log(precisions(fit)) + rng.standard_normal(2),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000},
        )
        assert -found.fun <= fit.log_evidence + 1e-8


def test_posterior_is_that_of_the_contrasts():
    """Without the share of the mean: n - 1 orthonormal contrasts of y, and the prior."""
    X, y, data, coef = problem(20, 8)
    rules = rg.rules_for(20, 8, True, max_iter=9, tol=0.0)
    fit = rg.evaluate(data, np.flatnonzero(coef), 0.3)
    contrasts = np.linalg.svd(np.eye(20) - 1 / 20)[0][:, :19].T
    slow = dense(contrasts @ X, contrasts @ y, fit.v, *precisions(fit)) + log_multiplicity(8)[3]
    assert rules.posterior(fit) == pytest.approx(slow, abs=1e-8)
    through_origin = rg.rules_for(20, 8, False, max_iter=9, tol=0.0)
    plain = fit.log_evidence + log_multiplicity(8)[3]
    assert through_origin.posterior(fit) == pytest.approx(plain)


def test_the_best_lambda_of_one_variable_is_known():
    _, _, data, _ = problem(40, 10)
    for j in range(10):
        closed = rg.evaluate(data, np.array([j]), rg.first_lambda(data, j))
        assert rg.optimise(data, closed).log_evidence == pytest.approx(
            closed.log_evidence, abs=1e-8
        )


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_every_neighbour_is_the_model_itself(n, p):
    """Rank-one formulas for one more, one less and one exchanged, against refits."""
    _, _, data, _ = problem(n, p, correlation=0.5)
    v = np.array([0, 2, 5])
    fit = rg.evaluate(data, v, 0.7)
    near = rg.neighbours(fit, data.G[:, v], data.d, data.b, n)
    out, swap = rg.removal_gains(fit, n), rg.exchange_gains(fit, near, n)

    def rise(w):
        return rg.evaluate(data, np.array(w), 0.7).log_evidence - fit.log_evidence

    for j in set(range(p)) - set(v.tolist()):
        assert near.gain[j] == pytest.approx(rise([*v, j]), abs=1e-8)
        for i in range(3):
            assert swap[j, i] == pytest.approx(rise([*np.delete(v, i), j]), abs=1e-8)
    for i in range(3):
        assert out[i] == pytest.approx(rise(np.delete(v, i)), abs=1e-8)


@pytest.mark.parametrize("correlation", [0.0, 0.8])
@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("flat", [True, False])
def test_a_climb_never_falls(n, p, correlation, flat):
    _, _, data, _ = problem(n, p, correlation=correlation)
    rules = rg.rules_for(n, p, True, max_iter=500, tol=1e-9)
    if flat:
        rules = rules._replace(log_prior=np.zeros(p + 1))
    step = rg.make_step(data, rules)
    fit = rg.evaluate(data, np.array([], dtype=int), 0.0)
    state = rg.Search(fit, rules.posterior(fit))
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
    rules = rg.rules_for(25, 9, True, max_iter=500, tol=1e-9)
    best = max(
        rules.posterior(rg.optimise(data, rg.evaluate(data, np.array(v, dtype=int), 3.0)))
        for size in range(10)
        for v in combinations(range(9), size)
    )
    found = rg.search(data, data.b, rules)[-1].state.fit
    assert rules.posterior(rg.optimise(data, found)) == pytest.approx(best, abs=1e-6)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_path_is_nested_and_optimised(n, p):
    X, y, data, coef = problem(n, p)
    v = np.flatnonzero(coef)
    path = rg.evidence_path(data, rg.evaluate(data, v, 0.0), 6)
    np.testing.assert_array_equal(path.cardinalities, np.arange(7))
    assert set(path.order[:3]) == set(v)
    for q, fit in enumerate(path.fits):
        assert set(fit.v) == set(path.order[:q])
        dense_value = dense(X, y, path.order[:q], *precisions(fit)) if q else fit.log_evidence
        assert fit.log_evidence == pytest.approx(dense_value, abs=1e-8)
        assert abs(fit.slope) < 1e-3


def test_first_steps_of_the_path_are_the_best_ones():
    """The next variable is the one that raises the evidence most, its lambda kept."""
    _, _, data, coef = problem(60, 15, q=4)
    fit = rg.optimise(data, rg.evaluate(data, np.flatnonzero(coef)[:2], 0.0))
    larger = rg.with_one_more(data, fit, rg.FINE)
    others = [j for j in range(15) if j not in fit.v]
    values = [rg.evaluate(data, np.append(fit.v, j), fit.log_ratio).log_evidence for j in others]
    assert larger.v[-1] == others[int(np.argmax(values))]


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
    ours = shortlist.all_in(DenseOperator(X), y, data.b, data.G)
    np.testing.assert_allclose(ours, slow, atol=1e-9)


def test_instalments_lead_where_the_whole_table_leads(monkeypatch):
    X, y, data, coef = problem(80, 120, q=6, correlation=0.5)
    rules = rg.rules_for(80, 120, True, max_iter=500, tol=1e-9)
    whole = shortlist.Problem(DenseOperator(X), y, data.yy)
    monkeypatch.setattr(shortlist, "SHORTLIST", 12)
    parts = shortlist.Problem(DenseOperator(X), y, data.yy)
    assert parts.listed.size <= 12
    fits = [each.solve(rules)[-1].state.fit for each in (whole, parts)]
    found = [set(each.listed[fit.v]) for each, fit in zip((whole, parts), fits, strict=True)]
    assert found[0] == found[1] == set(np.flatnonzero(coef))
    np.testing.assert_allclose(parts.gains(fits[1]), whole.gains(fits[0]), atol=1e-2)


def test_a_variable_that_helps_only_beside_another_comes_with_an_instalment(monkeypatch, rng):
    """y = x_7 - x_31 + noise, where x_31 alone is orthogonal to y: no first list has it."""
    z, noise = rng.standard_normal((2, 200))
    y = z + 0.1 * noise
    X = rng.standard_normal((200, 60))
    X[:, 31] -= X[:, 31] @ y / (y @ y) * y
    X[:, 7] = z + X[:, 31]
    rules = rg.rules_for(200, 60, False, max_iter=500, tol=1e-9)
    whole = shortlist.Problem(DenseOperator(X), y, float(y @ y))
    best = whole.solve(rules)[-1].state.fit
    assert set(best.v) == {7, 31}
    monkeypatch.setattr(shortlist, "SHORTLIST", 6)
    parts = shortlist.Problem(DenseOperator(X), y, float(y @ y))
    assert 7 in parts.listed
    assert 31 not in parts.listed
    fit = parts.solve(rules)[-1].state.fit
    assert set(parts.listed[fit.v]) == {7, 31}
    assert fit.log_evidence == pytest.approx(best.log_evidence, abs=1e-3)


@pytest.mark.parametrize("move", ["with_one_more", "with_one_less"])
def test_a_neighbour_starts_near_its_best_lambda(move, monkeypatch):
    """From R, m'm and tr P of the neighbour at the same lambda, which are known without it."""
    _, _, data, coef = problem(80, 12)
    fit = rg.optimise(data, rg.evaluate(data, np.flatnonzero(coef), 0.0))
    weak = rg.evaluate(data, fit.v, data.centre)  # where lambda tr P is not small
    free = weak.v.size - math.exp(data.centre) * np.trace(weak.P)
    there = weak.R / data.n * free / (weak.m @ weak.m)
    known = (weak.v.size, weak.R, weak.m @ weak.m, np.trace(weak.P))
    assert rg.next_lambda(data, weak, *known) == pytest.approx(math.log(there))
    asked, original = [], rg.next_lambda

    def watched(*arguments):
        asked.append(arguments[2:])
        return original(*arguments)

    monkeypatch.setattr(rg, "next_lambda", watched)
    best = getattr(rg, move)(data, fit, 1e-12)
    there = rg.evaluate(data, best.v, fit.log_ratio)
    known = (best.v.size, there.R, there.m @ there.m, np.trace(there.P))
    np.testing.assert_allclose(asked[0], known, rtol=1e-8)
    start = original(data, fit, *asked[0])
    assert abs(start - best.log_ratio) < 0.05 < abs(fit.log_ratio - best.log_ratio)
