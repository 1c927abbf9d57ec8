"""Evidence of logistic models compared with integrals, search and averaging."""

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
    """Simulate classes that depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.standard_normal((n, p))
    t = (rng.random(n) < expit(0.5 * size * (X[:, 0] - X[:, 1]) - 0.4)).astype(float)
    count = rng.integers(1, 4, n).astype(float) if counts else np.ones(n)
    X = X - count @ X / count.sum()
    return lg.make_data(X, t, count, intercept)


def rules(data):
    return ls.rules_for(data, data.X.shape[1], max_iter=100, tol=1e-7)


def log_joint(data, v, tau, theta):
    """Compute log p(t, w | v, tau) at theta = (b, w)."""
    c = data.intercept
    b, w = (theta[..., :1], theta[..., 1:]) if c else (0.0, theta)
    prob = expit(b + w @ data.X[:, v].T)
    prob = np.clip(prob, 1e-300, 1.0 - 1e-16)
    likelihood = (data.t * np.log(prob) + (1 - data.t) * np.log1p(-prob)) @ data.counts
    sd = tau / math.sqrt(np.mean(data.counts @ data.X**2) / data.n)
    return likelihood + norm(0.0, sd).logpdf(w).sum(axis=-1)


def integrate_evidence(data, v, tau):
    """Compute log p(t | v, tau) as a sum over a fine grid."""
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
def test_laplace_evidence_is_close_to_the_integral(options, v, error, tau):
    data = problem(**options)
    fit = lg.fit_model(data, np.array(v, dtype=int), math.log(tau))
    assert fit.log_evidence == pytest.approx(integrate_evidence(data, v, tau), abs=error)


def test_mode_is_a_maximum():
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


def test_separated_classes_have_finite_coefficients():
    data = problem(n=30, size=1e6)
    fit = lg.fit_model(data, np.arange(2), math.log(16.0))
    assert np.isfinite(fit.log_evidence)
    assert np.abs(fit.mode).max() < 100.0
    assert np.all(np.linalg.eigvalsh(fit.C) > 0.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_second_order_gains(intercept):
    """Gains are differences of the evidence of the Gaussian posterior with fixed curvature."""
    data = problem(intercept=intercept, counts=True)
    fit = lg.fit_model(data, np.array([0, 2]), -0.3)
    lam, everything = math.exp(lg.log_lambda(data, -0.3)), np.array([0, 2, 1, 3, 4, 5])
    Z, c = lg.design(data, everything), data.intercept
    A = (Z.T * fit.S) @ Z + np.diag([0.0] * c + [lam] * 6)
    mode = np.concatenate([fit.mode, np.zeros(4)])
    slope = Z.T @ fit.residual - np.array([0.0] * c + [lam] * 6) * mode

    def second_order(v):
        """Compute the log evidence of a set up to a constant, with all other w_j = 0."""
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


def test_search_is_non_decreasing_and_finds_the_best_set():
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


def test_search_finds_suppressor_variables():
    """The classes depend on the difference of two nearly equal variables."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 12))
    hidden = 0.3 * rng.standard_normal(80)
    X[:, 4] = X[:, 2] + hidden
    t = (hidden > 0).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    data = lg.make_data(X, t, np.ones(80), True)
    given = rules(data)
    first = ls.local_search(data, ls.empty_state(data, given), given).state
    assert first.fit.v.size == 0
    assert set(ls.search(data, given)[-1].state.fit.v) == {2, 4}


def test_integral_over_tau():
    data = problem()
    given, v = rules(data), np.array([0, 1])
    fits = [lg.fit_model(data, v, log_tau) for log_tau in given.log_tau]
    terms = [f.log_evidence + s for f, s in zip(fits, given.log_tau_prior, strict=True)]
    found = ls.integrate_tau(data, given, ls.fit_state(data, given, v, 2))
    assert found.log_evidence == pytest.approx(np.logaddexp.reduce(terms), abs=1e-4)
    assert np.exp(given.log_tau_prior).sum() == pytest.approx(1.0)


def test_path_is_nested():
    data = problem(p=8)
    given = rules(data)
    path = ls.logistic_path(data, given, ls.search(data, given)[-1].state, 6)
    for q, state in enumerate(path.states):
        assert set(state.fit.v) == set(path.order[:q])


# --- the average


def test_chain_samples_the_posterior():
    """For few variables the chain agrees with enumeration."""
    data = problem(n=50, p=4, size=0.8)
    given = la.averaging_rules(data, rules(data))
    start = ls.fit_state(data, given, np.array([], dtype=int), 2)
    exact = la.summarise(data, la.sum_all(data, given, 2))
    chain = la.sample(data, given, start, np.random.default_rng(0), steps=4000)
    found = la.summarise(data, chain)
    assert sum(each.probability for each in chain) == pytest.approx(1.0)
    np.testing.assert_allclose(found.inclusion, exact.inclusion, atol=0.03)
    np.testing.assert_allclose(found.mean, exact.mean, atol=0.03)
    assert exact.inclusion.min() > 0.05
    assert 0.1 < exact.inclusion.max() < 0.9
    assert found.n_sets == exact.n_sets == 16


def test_moments_of_the_average():
    """The covariance includes the variance within and between sets."""
    data = problem(n=50, p=3, size=0.6)
    given = la.averaging_rules(data, rules(data))
    sets = la.sum_all(data, given, 2)
    found = la.summarise(data, sets)
    full = []
    for fit, probability in sets:
        mean, C = np.zeros(4), np.zeros((4, 4))
        at = [0, *(fit.v + 1)]
        mean[at] = fit.mode
        C[np.ix_(at, at)] = fit.C
        full.append((probability, mean, C))
    mean = sum(probability * m for probability, m, _ in full)
    covariance = sum(probability * (C + np.outer(m - mean, m - mean)) for probability, m, C in full)
    np.testing.assert_allclose([found.intercept, *found.mean], mean)
    np.testing.assert_allclose(found.covariance, covariance, atol=1e-12)
    inside = [probability for (fit, probability) in sets if 0 in fit.v]
    assert found.inclusion[0] == pytest.approx(sum(inside))


@pytest.mark.parametrize("mu", [-40.0, -3.0, 0.0, 0.7, 20.0])
@pytest.mark.parametrize("deviation", [0.0, 0.5, 3.0, 20.0])
def test_average_probability(mu, deviation):
    def integrand(z):
        return expit(mu + deviation * z) * math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)

    middle = -mu / deviation if deviation else 0.0
    points = [x for x in (0.0, middle, deviation) if abs(x) < 40.0]
    second = integrate.quad(integrand, -40.0, 40.0, points=points, limit=500, epsabs=0.0)[0]
    found = log_probabilities(np.array([mu]), np.array([deviation**2]))[0]
    assert found[1] == pytest.approx(math.log(second), abs=1e-3)
    assert math.exp(found[1]) == pytest.approx(second, abs=1e-10)
    assert np.exp(found).sum() == pytest.approx(1.0)


@pytest.mark.parametrize("power", [0, 6, 12])
@pytest.mark.parametrize("doubling", [-2, 4])
def test_mode_with_unequal_counts(power, doubling):
    """The gradient vanishes at the mode for separated classes and unequal counts."""
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
