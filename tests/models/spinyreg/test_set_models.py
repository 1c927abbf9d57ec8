"""The contract of a marginal likelihood over sets of variables, for every model."""

import itertools

import numpy as np
import pytest
from scipy.special import expit

from prosparse.models.spinyreg import averaging, stepwise
from prosparse.models.spinyreg.linear import linear_model
from prosparse.models.spinyreg.logistic import logistic_model
from prosparse.models.spinyreg.set_model import zero_sums

pytestmark = pytest.mark.quick
KINDS = ("one response", "three responses", "classes")
# Gains of logistic regression are accurate to second order.
GAIN_ERROR = {"one response": 1e-8, "three responses": 1e-8, "classes": 0.5}


def simulate(kind, n=60, p=5, seed=0, size=0.7, correlation=0.0):
    """Build a model whose responses depend on the first two of p variables."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + np.sqrt(correlation) * 2.0 * rng.standard_normal((n, 1))
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    signal = size * (X[:, 0] - X[:, 1])
    if kind == "classes":
        t = (rng.random(n) < expit(2.0 * signal)).astype(float)
        return logistic_model(X, t, rng.integers(1, 3, n).astype(float), True)
    m = 1 if kind == "one response" else 3
    Y = signal[:, None] * rng.choice([-1.0, 1.0], m) + rng.standard_normal((n, m))
    Y -= Y.mean(axis=0)
    return linear_model(X.T @ X, X.T @ Y, (Y**2).sum(axis=0), n, n - 1)


def rules_for(model, **options):
    p = model.n_variables
    return stepwise.rules_for(p, (p, p), max_iter=200, tol=1e-9, **options)


def same_scale(model, fit, v):
    """Return the evidence of another set at the scale of ``fit``."""
    v = np.array(v, dtype=int)
    if hasattr(fit, "k"):
        return model.evidence(model.fit(v, fit, tune=False))
    from prosparse.models.spinyreg.linear import evaluate

    # The evidence of f contrasts at the best noise variance, as in the gains.
    other, f = evaluate(model, v, fit.log_ratio), model.dof
    shared = other.log_evidence + 0.5 * model.n * np.log(other.sigma2).sum()
    return shared - 0.5 * f * np.log(other.sigma2).sum()


@pytest.mark.parametrize("kind", KINDS)
def test_gains_are_differences_of_evidence(kind):
    model, error = simulate(kind, size=0.4), GAIN_ERROR[kind]
    fit = model.fit(np.array([0, 3]))
    here = same_scale(model, fit, fit.v)
    additions, removals = model.addition_gains(fit), model.removal_gains(fit)
    exchanges = model.exchange_gains(fit)
    assert np.all(additions[fit.v] == -np.inf)
    assert np.all(exchanges[fit.v] == -np.inf)
    for j in (1, 2, 4):
        assert additions[j] == pytest.approx(same_scale(model, fit, [0, 3, j]) - here, abs=error)
        for i in range(2):
            other = [*np.delete(fit.v, i), j]
            expected = same_scale(model, fit, other) - here
            assert exchanges[j, i] == pytest.approx(expected, abs=error)
    for i in range(2):
        expected = same_scale(model, fit, np.delete(fit.v, i)) - here
        assert removals[i] == pytest.approx(expected, abs=error)


@pytest.mark.parametrize("kind", KINDS)
def test_restricted_model(kind):
    model, order = simulate(kind), np.array([3, 0, 4])
    part = model.take(order)
    whole, restricted = model.fit(np.array([0, 4])), part.fit(np.array([1, 2]))
    assert part.n_variables == 3
    assert part.evidence(restricted) == pytest.approx(model.evidence(whole), abs=0.2)
    np.testing.assert_allclose(part.marginal(), model.marginal()[order])
    assert model.correlations(order, order).diagonal() == pytest.approx(np.ones(3))
    np.testing.assert_allclose(
        part.correlations(np.arange(3)), model.correlations(order)[order], atol=1e-12
    )


@pytest.mark.parametrize("correlation", [0.0, 0.7])
@pytest.mark.parametrize("kind", KINDS)
def test_search_is_non_decreasing_and_finds_the_best_set(kind, correlation):
    for seed in range(4):
        model = simulate(kind, n=80, seed=seed, size=0.5, correlation=correlation)
        rules = rules_for(model)
        runs = stepwise.search(model, lambda model=model: np.sqrt(model.marginal()), rules)
        for run in runs:
            assert np.all(np.diff(run.bounds) >= 0.0)
            assert np.unique(run.state.fit.v).size == run.state.fit.v.size
        best = max(
            rules.posterior(model, model.refine(model.fit(np.array(v, dtype=int))))
            for q in range(6)
            for v in itertools.combinations(range(5), q)
        )
        found = rules.posterior(model, model.refine(runs[-1].state.fit))
        assert found == pytest.approx(best, abs=0.1)  # the tolerance of a search


@pytest.mark.parametrize("kind", KINDS)
def test_path_is_nested(kind):
    model = simulate(kind, p=8)
    found = stepwise.search(model, lambda: np.sqrt(model.marginal()), rules_for(model))
    path = stepwise.nested_path(model, found[-1].state.fit, 6)
    assert [fit.v.size for fit in path.fits] == list(range(7))
    for q, fit in enumerate(path.fits):
        assert set(fit.v) == set(path.order[:q])


def enumerate_average(space):
    sums, by_size, sizes = space.enumerate_sets()
    inclusion = averaging.Inclusion(sums.weight, by_size, sizes)
    return averaging.summarise(space, inclusion, np.arange(space.n_variables), sums, True)


@pytest.mark.parametrize("kind", KINDS)
def test_chain_samples_the_posterior(kind, monkeypatch):
    model = simulate(kind, n=40, p=4, size=0.2)
    space = model.states(rules_for(model).log_prior, model.fit(np.array([0])))
    exact = enumerate_average(space)
    assert 0.01 < exact.inclusion.min() < exact.inclusion.max() < 0.97
    assert exact.size_probability.sum() == pytest.approx(1.0)
    np.testing.assert_allclose(exact.by_size.sum(axis=1), exact.inclusion)
    monkeypatch.setattr(averaging, "STABILITY_TOL", 0.0)
    monkeypatch.setattr(averaging, "MAX_STATES", 6000)
    found, _ = averaging.sample(space, np.array([0]), np.random.default_rng(0), [])
    np.testing.assert_allclose(found.inclusion, exact.inclusion, atol=0.03)
    np.testing.assert_allclose(found.mean, exact.mean, atol=0.03)
    np.testing.assert_allclose(found.covariance, exact.covariance, atol=0.02)
    np.testing.assert_allclose(found.sigma2, exact.sigma2, rtol=0.02)
    np.testing.assert_allclose(found.size_probability[:5], exact.size_probability, atol=0.03)


@pytest.mark.parametrize("kind", KINDS)
def test_average_includes_the_variance_between_sets(kind):
    """Mean and covariance of a mixture of two states."""
    model = simulate(kind)
    space = model.states(rules_for(model).log_prior, model.fit(np.array([0])))
    keys = [space.start(np.array(v, dtype=int), []) for v in ([0], [0, 3])]
    states = [space.visit(key) for key in keys]
    parts = [space.moments([key], [state], np.ones(1)) for key, state in zip(keys, states)]
    visited, sums = space.moments(keys, states, np.array([0.25, 0.75]))
    assert visited.tolist() == [0, 3]
    expected = zero_sums(2, sums.sigma2.size)
    for weight, (seen, part) in zip((0.25, 0.75), parts, strict=True):
        at = np.concatenate([[0], 1 + np.searchsorted(visited, seen)])
        expected.first[:, at] += weight * part.first
        expected.second[np.ix_(range(sums.sigma2.size), at, at)] += weight * part.second
    np.testing.assert_allclose(sums.first, expected.first)
    np.testing.assert_allclose(sums.second, expected.second)
    np.testing.assert_allclose(sums.weight, [1.0, 0.75])
    np.testing.assert_allclose(sums.together, [[1.0, 0.75], [0.75, 0.75]])


@pytest.mark.parametrize("kind", KINDS)
def test_coefficients_of_a_set(kind):
    model = simulate(kind)
    fit = model.refine(model.fit(np.array([0, 1])), exact=True)
    found = model.coefficients(fit)
    m = found.sigma2.size
    assert found.mean.shape == (m, 2)
    assert found.covariance.shape == (m, 3, 3)
    assert np.all(np.linalg.eigvalsh(found.covariance) > 0.0)
    assert found.mean[0, 0] * found.mean[0, 1] < 0.0
    space = model.states(rules_for(model).log_prior, fit)
    empty = space.empty_coefficients()
    assert empty.mean.shape == (m, 0)
    assert np.all(empty.covariance[:, 0, 0] > 0.0)
