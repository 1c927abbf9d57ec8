"""Evidence of logistic models compared with integrals, search and averaging."""

import math

import numpy as np
import pytest
from scipy import integrate
from scipy.special import expit
from scipy.stats import norm

from prosparse.models.spinyreg import logistic as lg
from prosparse.models.spinyreg import stepwise
from prosparse.models.spinyreg.probability import log_probabilities


def problem(n=60, p=6, seed=0, size=1.0, intercept=True, counts=False):
    """Simulate classes that depend on the first two columns."""
    rng = np.random.default_rng(seed)
    X = 2.0 * rng.standard_normal((n, p))
    t = (rng.random(n) < expit(0.5 * size * (X[:, 0] - X[:, 1]) - 0.4)).astype(float)
    count = rng.integers(1, 4, n).astype(float) if counts else np.ones(n)
    X = X - count @ X / count.sum()
    return lg.logistic_model(X, t, count, intercept)


def grid_point(data, tau):
    """Return the model with tau on its grid, and the grid point of tau."""
    log_tau = np.sort(np.append(data.log_tau, math.log(tau)))
    data = data._replace(log_tau=log_tau, log_tau_prior=np.zeros(log_tau.size))
    return data, int(np.argmin(np.abs(log_tau - math.log(tau))))


def fit_at(data, v, tau):
    data, k = grid_point(data, tau)
    return lg.fit_model(data, np.array(v, dtype=int), k)


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
    fit = fit_at(data, v, tau)
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
    fit = fit_at(data, v, tau)
    assert fit.log_evidence == pytest.approx(integrate_evidence(data, v, tau), abs=error)


def test_mode_is_a_maximum():
    data, v = problem(counts=True), np.array([3, 0])
    fit = fit_at(data, v, 1.0)
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
    fit = fit_at(data, np.arange(2), 16.0)
    assert np.isfinite(fit.log_evidence)
    assert np.abs(fit.mode).max() < 100.0
    assert np.all(np.linalg.eigvalsh(fit.C) > 0.0)


@pytest.mark.parametrize("intercept", [True, False])
def test_second_order_gains(intercept):
    """Gains are differences of the evidence of the Gaussian posterior with fixed curvature."""
    data = problem(intercept=intercept, counts=True)
    data, k = grid_point(data, math.exp(-0.3))
    fit = lg.fit_model(data, np.array([0, 2]), k)
    lam, everything = math.exp(data.log_lambda(k)), np.array([0, 2, 1, 3, 4, 5])
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
    assert data.removal_gains(fit)[0] == pytest.approx(second_order([2]) - here)
    assert data.removal_gains(fit)[1] == pytest.approx(second_order([0]) - here)
    exchange = data.exchange_gains(fit, near)
    assert exchange[3, 0] == pytest.approx(second_order([3, 2]) - here)
    assert exchange[5, 1] == pytest.approx(second_order([0, 5]) - here)
    assert np.all(exchange[[0, 2]] == -np.inf)


# --- the search


def test_search_finds_suppressor_variables():
    """The classes depend on the difference of two nearly equal variables."""
    rng = np.random.default_rng(1)
    X = rng.standard_normal((80, 12))
    hidden = 0.3 * rng.standard_normal(80)
    X[:, 4] = X[:, 2] + hidden
    t = (hidden > 0).astype(float)
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    data = lg.logistic_model(X, t, np.ones(80), True)
    rules = stepwise.rules_for(12, (12, 12), max_iter=100, tol=1e-7)
    first = stepwise.local_search(data, stepwise.empty_set(data), rules).state
    assert first.fit.v.size == 0
    found = stepwise.search(data, data.marginal, rules)[-1].state.fit
    assert set(found.v) == {2, 4}


def test_integral_over_tau():
    data, v = problem(), np.array([0, 1])
    fits = [lg.fit_model(data, v, k) for k in range(data.log_tau.size)]
    terms = [f.log_evidence + s for f, s in zip(fits, data.log_tau_prior, strict=True)]
    found = lg.integrate_tau(data, lg.fit_model(data, v, 2))
    assert found.log_evidence == pytest.approx(np.logaddexp.reduce(terms), abs=1e-4)
    assert np.exp(data.log_tau_prior).sum() == pytest.approx(1.0)
    best = data.fit(v)
    assert data.evidence(best) == pytest.approx(max(terms), abs=1e-6)


def test_warm_start_is_close_to_the_mode():
    data = problem(counts=True)
    fit = data.fit(np.array([0, 2, 4]))
    for members in ([0, 4], [4, 0, 2, 1], [2, 5, 0], []):
        v = np.array(members, dtype=int)
        start = lg.warm_start(data, fit, v)
        mode = lg.fit_model(data, v, fit.k).mode
        inside = np.concatenate([[True], np.isin(v, fit.v)])
        np.testing.assert_allclose(start[inside], mode[inside], atol=0.25)
        assert np.all(start[~inside] == 0.0)


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
    data = lg.logistic_model(X - counts @ X / counts.sum(), t, counts, True)
    data, k = grid_point(data, 2.0**doubling)
    fit = lg.fit_model(data, np.arange(6), k, np.full(7, 30.0))
    Z, lam = lg.design(data, fit.v), math.exp(data.log_lambda(k))
    gradient = Z.T @ fit.residual - lam * np.append(0.0, fit.m)
    assert gradient @ fit.C @ gradient < 1e-6
    residual = np.where(t > 0.0, expit(-Z @ fit.mode), -expit(Z @ fit.mode))
    np.testing.assert_allclose(fit.residual, counts * residual, rtol=1e-6)
