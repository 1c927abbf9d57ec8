"""The evidence of logistic models against integrals, and fast scores against slow ones."""

import itertools
import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit
from scipy.stats import norm

from prosparse.models.spinyreg import logistic as lg
from prosparse.models.spinyreg import logistic_average as la
from prosparse.models.spinyreg import logistic_search as ls
from prosparse.models.spinyreg.probability import log_probabilities


def problem(n=60, p=6, seed=0, size=1.0, intercept=True, counts=False):
    """Classes that depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.standard_normal((n, p))
    t = (rng.random(n) < expit(0.5 * size * (X[:, 0] - X[:, 1]) - 0.4)).astype(float)
    count = rng.integers(1, 4, n).astype(float) if counts else np.ones(n)
    X = X - count @ X / count.sum()
    return lg.make_data(X, t, count, intercept)


def rules(data):
    return ls.rules_for(data, data.X.shape[1], max_iter=100, tol=1e-7)


def log_joint(data, v, tau, theta):
    """log p(t, w | v, tau) at theta = (b, w), from the definition."""
    c = data.intercept
    b, w = (theta[..., :1], theta[..., 1:]) if c else (0.0, theta)
    prob = expit(b + w @ data.X[:, v].T)
    prob = np.clip(prob, 1e-300, 1.0 - 1e-16)
    likelihood = (data.t * np.log(prob) + (1 - data.t) * np.log1p(-prob)) @ data.counts
    sd = tau / math.sqrt(np.mean(data.counts @ data.X**2) / data.n)
    return likelihood + norm(0.0, sd).logpdf(w).sum(axis=-1)


def integrated(data, v, tau):
    """log p(t | v, tau) as a sum over a fine grid, in two dimensions at most."""
    fit = lg.fit_model(data, np.array(v, dtype=int), math.log(tau))
    steps = np.linspace(-10.0, 10.0, 81)
    axes = [m + s * steps for m, s in zip(fit.mode, np.sqrt(fit.C.diagonal()), strict=True)]
    theta = np.stack(np.meshgrid(*axes), axis=-1).reshape(-1, len(axes))
    cell = math.prod(axis[1] - axis[0] for axis in axes)
    return np.logaddexp.reduce(log_joint(data, v, tau, theta)) + math.log(cell)


@pytest.mark.parametrize("tau", [0.3, 1.0, 4.0])
@pytest.mark.parametrize(
    ("options", "v", "error"),
    [
        ({}, [], 0.01),
        ({"size": 2.0}, [0], 0.05),
        ({"counts": True}, [0], 0.02),
        ({"intercept": False, "size": 2.0}, [0, 1], 0.05),
        ({"intercept": False, "size": 50.0}, [0, 1], 0.05),  # separated
    ],
)
def test_laplace_is_near_the_integral(options, v, error, tau):
    data = problem(**options)
    fit = lg.fit_model(data, np.array(v, dtype=int), math.log(tau))
    assert fit.log_evidence == pytest.approx(integrated(data, v, tau), abs=error)


def test_the_mode_is_one():
    data, v = problem(counts=True), np.array([3, 0])
    fit = lg.fit_model(data, v, 0.0)
    top = log_joint(data, v, 1.0, fit.mode)
    for step in np.eye(3) * 1e-3:
        assert log_joint(data, v, 1.0, fit.mode + step) < top
        assert log_joint(data, v, 1.0, fit.mode - step) < top
    slope = np.array(
        [
            log_joint(data, v, 1.0, fit.mode + step) - log_joint(data, v, 1.0, fit.mode - step)
            for step in np.eye(3) * 1e-5
        ]
    )
    np.testing.assert_allclose(slope / 2e-5, 0.0, atol=1e-4)


def test_separated_classes_have_finite_weights():
    data = problem(n=30, size=1e6)
    fit = lg.fit_model(data, np.arange(2), math.log(16.0))
    assert np.isfinite(fit.log_evidence)
    assert np.abs(fit.mode).max() < 100.0
    assert np.all(np.linalg.eigvalsh(fit.C) > 0.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_scores_are_of_second_order(intercept):
    """They are the evidence of the Gaussian posterior, in which the curvature stays as it is."""
    data = problem(intercept=intercept, counts=True)
    fit = lg.fit_model(data, np.array([0, 2]), -0.3)
    lam, everything = math.exp(lg.log_lambda(data, -0.3)), np.array([0, 2, 1, 3, 4, 5])
    Z, c = lg.design(data, everything), data.intercept
    A = (Z.T * fit.S) @ Z + np.diag([0.0] * c + [lam] * 6)
    mode = np.concatenate([fit.mode, np.zeros(4)])
    slope = Z.T @ fit.residual - np.array([0.0] * c + [lam] * 6) * mode

    def second_order(v):
        """Log evidence of a set, up to a constant, with w_j = 0 for all others."""
        used = [*range(c), *(c + int(np.flatnonzero(everything == j)[0]) for j in v)]
        a = A[np.ix_(used, used)]
        b = A[used] @ mode + slope[used]
        value = 0.5 * b @ np.linalg.solve(a, b) - 0.5 * np.linalg.slogdet(a)[1]
        return value + 0.5 * len(v) * math.log(lam)

    here = second_order([0, 2])
    near = lg.score_all_additions(data, fit)
    for j in (1, 3, 4, 5):
        assert near.gain[j] == pytest.approx(second_order([0, 2, j]) - here)
    assert lg.removal_gains(data, fit)[0] == pytest.approx(second_order([2]) - here)
    assert lg.removal_gains(data, fit)[1] == pytest.approx(second_order([0]) - here)
    exchange = lg.exchange_gains(data, fit, near)
    assert exchange[3, 0] == pytest.approx(second_order([3, 2]) - here)
    assert exchange[5, 1] == pytest.approx(second_order([0, 5]) - here)
    assert np.all(exchange[[0, 2]] == -np.inf)


# --- the search


def test_the_search_never_falls_and_finds_the_best_set():
    for seed in range(5):
        data = problem(n=80, p=5, seed=seed)
        given = rules(data)
        runs = ls.search(data, given)
        for run in runs:
            assert np.all(np.diff(run.bounds) >= 0.0)
        every = [
            ls.fit_state(data, given, np.array(v, dtype=int), k).bound
            for q in range(6)
            for v in itertools.combinations(range(5), q)
            for k in (range(given.log_tau.size) if q else [0])
        ]
        assert runs[-1].state.bound == pytest.approx(max(every), abs=1e-5)


def test_two_variables_that_tell_nothing_one_by_one():
    """Their difference tells the classes apart, their sum, which is much larger, hides it."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 12))
    hidden = 0.3 * rng.standard_normal(80)
    X[:, 4] = X[:, 2] + hidden
    t = (hidden > 0).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    data = lg.make_data(X, t, np.ones(80), True)
    given = rules(data)
    alone = ls.local_search(data, ls.empty_state(data, given), given).state
    assert alone.fit.v.size == 0
    assert set(ls.search(data, given)[-1].state.fit.v) == {2, 4}


def test_the_sum_over_sizes():
    data = problem()
    given, v = rules(data), np.array([0, 1])
    fits = [lg.fit_model(data, v, log_tau) for log_tau in given.log_tau]
    terms = [f.log_evidence + s for f, s in zip(fits, given.log_tau_prior, strict=True)]
    found = ls.integrate_tau(data, given, ls.fit_state(data, given, v, 2))
    assert found.log_evidence == pytest.approx(np.logaddexp.reduce(terms), abs=1e-4)
    assert np.exp(given.log_tau_prior).sum() == pytest.approx(1.0)


def test_the_path_is_nested():
    data = problem(p=8)
    given = rules(data)
    path = ls.logistic_path(data, given, ls.search(data, given)[-1].state, 6)
    for q, state in enumerate(path.states):
        assert set(state.fit.v) == set(path.order[:q])


# --- the average


def test_the_chain_samples_the_posterior():
    """Of few variables its shares are those of all sets, summed."""
    data = problem(n=50, p=4, size=0.8)
    given = la.averaging_rules(data, rules(data))
    start = ls.fit_state(data, given, np.array([], dtype=int), 2)
    exact = la.summarise(data, la.sum_all(data, given, 2))
    chain = la.sample(data, given, start, np.random.default_rng(0), steps=4000)
    found = la.summarise(data, chain)
    assert sum(each.share for each in chain) == pytest.approx(1.0)
    np.testing.assert_allclose(found.inclusion, exact.inclusion, atol=0.03)
    np.testing.assert_allclose(found.mean, exact.mean, atol=0.03)
    assert exact.inclusion.min() > 0.05
    assert 0.1 < exact.inclusion.max() < 0.9
    assert found.n_sets == exact.n_sets == 16


def test_moments_of_the_average():
    """Within sets and between them, from the definition."""
    data = problem(n=50, p=3, size=0.6)
    given = la.averaging_rules(data, rules(data))
    sets = la.sum_all(data, given, 2)
    found = la.summarise(data, sets)
    full = []
    for fit, share in sets:
        mean, C = np.zeros(4), np.zeros((4, 4))
        at = [0, *(fit.v + 1)]
        mean[at] = fit.mode
        C[np.ix_(at, at)] = fit.C
        full.append((share, mean, C))
    mean = sum(share * m for share, m, _ in full)
    covariance = sum(share * (C + np.outer(m - mean, m - mean)) for share, m, C in full)
    np.testing.assert_allclose([found.intercept, *found.mean], mean)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-12)
    inside = [share for (fit, share) in sets if 0 in fit.v]
    assert found.inclusion[0] == pytest.approx(sum(inside))


@pytest.mark.parametrize("mu", [-40.0, -3.0, 0.0, 0.7, 20.0])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 3.0, 20.0])
def test_average_probability(mu, deviation):
    def weighed(z):
        return expit(mu + deviation * z) * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    middle = -mu / deviation if deviation else 0.0
    points = [x for x in (0.0, middle, deviation) if abs(x) < 40.0]
    second = integrate.quad(weighed, -40.0, 40.0, points=points, limit=500, epsabs=0.0)[0]
    found = log_probabilities(np.array([mu]), np.array([deviation**2]))[0]
    assert found[1] == pytest.approx(math.log(second), abs=1e-3)
    assert math.exp(found[1]) == pytest.approx(second, abs=1e-10)
    assert np.exp(found).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("power", [0, 6, 12])
@pytest.mark.parametrize("doubling", [-2, 4])
def test_mode_with_large_counts(power, doubling):
    """The gradient vanishes at the mode, also where classes are separated and counts differ."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((20, 6))
    t = (X[:, 0] > 0.0).astype(float)
    counts = 10.0 ** rng.uniform(0, power, 20)
    data = lg.make_data(X - counts @ X / counts.sum(), t, counts, True)
    fit = lg.fit_model(data, np.arange(6), doubling * math.log(2.0), np.full(7, 30.0))
    Z, lam = lg.design(data, fit.v), math.exp(lg.log_lambda(data, fit.log_tau))
    gradient = Z.T @ fit.residual - lam * np.append(0.0, fit.m)
    assert gradient @ fit.C @ gradient < 1e-6
    residual = np.where(t > 0.0, expit(-Z @ fit.mode), -expit(Z @ fit.mode))
    np.testing.assert_allclose(fit.residual, counts * residual, rtol=1e-6)
