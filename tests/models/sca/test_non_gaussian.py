"""Views that are not Gaussian: bounds, objective and estimator."""

from functools import partial

import numpy as np
import pytest
from scipy import sparse
from scipy.integrate import quad
from scipy.special import expit
from scipy.stats import norm, poisson
from sklearn.exceptions import ConvergenceWarning

from prosparse import SCA, InputError, ParameterError
from prosparse.inference.loop import StopReason
from prosparse.models.sca import non_gaussian
from prosparse.models.sca.hyperbolic import HyperbolicPrior
from prosparse.models.sca.likelihood import (
    bernoulli_bound,
    inverse_link,
    link,
    log_density,
    mean_and_variance,
    poisson_bound,
)
from prosparse.models.sca.model import inclusion_prior, noise_prior, step, view_layout
from prosparse.models.sca.non_gaussian import (
    Rows,
    initial_offsets,
    non_gaussian_init,
    predictor_moments,
    quadratic_bounds,
)
from prosparse.models.sca.packed import pack_outer

NAMES = ["gaussian", "bernoulli", "poisson"]
WIDTHS = (5, 6, 7)


def simulate_views(n=60, seed=0):
    """Simulate a Gaussian, a binary and a count view with two shared factors."""
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2))
    W = [np.where(rng.random((p, 2)) < 0.7, rng.standard_normal((p, 2)), 0) for p in WIDTHS]
    return [
        Z @ W[0].T + 0.5 * rng.standard_normal((n, WIDTHS[0])) + 2.0,
        (rng.random((n, WIDTHS[1])) < expit(2.0 * Z @ W[1].T - 0.3)).astype(float),
        rng.poisson(np.exp(0.7 * Z @ W[2].T + 0.5)).astype(float),
    ]


# --- bounds


@pytest.mark.parametrize("x", [0.0, 1.0])
def test_bernoulli_bound_is_below_and_touches(x):
    eta = np.linspace(-12, 12, 401)
    for mean in (-3.0, 0.0, 2.5):
        w, b, k = bernoulli_bound(np.array(x), np.array(mean), np.array(0.0))
        gap = log_density("bernoulli", x, eta, 1.0) - (k + b * eta - 0.5 * w * eta**2)
        assert gap.min() > -1e-12
        at = log_density("bernoulli", x, np.array(mean), 1.0)
        assert k + b * mean - 0.5 * w * mean**2 == pytest.approx(float(at), abs=1e-9)


@pytest.mark.parametrize("x", [0.0, 1.0, 7.0, 60.0])
@pytest.mark.parametrize("linear_threshold", [1.0, 30.0])
def test_poisson_bound_is_below_and_touches(x, linear_threshold):
    eta = np.linspace(-12, 20, 801)
    for mean in (-4.0, 0.0, 3.0):
        w, b, k = poisson_bound(
            np.array(x), np.array(mean), np.array(0.0), np.array(linear_threshold)
        )
        true = log_density("poisson", x, eta, linear_threshold)
        np.testing.assert_allclose(
            true, poisson.logpmf(x, inverse_link("poisson", eta, linear_threshold)), atol=1e-9
        )
        assert (true - (k + b * eta - 0.5 * w * eta**2)).min() > -1e-9
        at = float(log_density("poisson", x, np.array(mean), linear_threshold))
        assert k + b * mean - 0.5 * w * mean**2 == pytest.approx(at, abs=1e-8)


def test_bounds_are_optimal_for_their_moments(rng):
    """No other parameters of the bound have a higher expectation."""
    for mean, variance, x in ((0.5, 0.8, 1.0), (-2.0, 0.3, 0.0), (1.0, 2.0, 3.0)):
        for bound in (bernoulli_bound, partial(poisson_bound, linear_threshold=np.array(9.0))):
            if bound is bernoulli_bound and x > 1:
                continue

            def value(m, v, bound=bound, x=x, mean=mean, variance=variance):
                w, b, k = bound(np.array(x), np.array(m), np.array(v))
                return k + b * mean - 0.5 * w * (mean**2 + variance)

            best = value(mean, variance)
            for _ in range(50):
                other = mean + 0.7 * rng.standard_normal(), variance * rng.gamma(2.0)
                assert value(*other) <= best + 1e-10


@pytest.mark.parametrize("name", ["bernoulli", "poisson"])
def test_moments_of_entries_match_numerical_integration(name):
    """Compare with scipy's quadrature, and the link with its inverse."""
    eta, variance, linear_threshold = 0.4, 0.6, 12.0
    mean, total = mean_and_variance(
        name, np.array([eta]), np.array([variance]), np.array([linear_threshold])
    )
    hyperbolic = norm(eta, np.sqrt(variance))

    def moment(power):
        return quad(
            lambda t: (
                hyperbolic.pdf(t)
                * inverse_link(name, np.array(t), np.array(linear_threshold)) ** power
            ),
            -9,
            9,
        )[0]

    first, second = moment(1), moment(2)
    conditional_variance = (
        first - second if name == "bernoulli" else first
    )  # the mean of p (1 - p), or of the rate
    assert mean[0] == pytest.approx(first, rel=1e-6)
    assert total[0] == pytest.approx(conditional_variance + second - first**2, rel=1e-5)
    assert link(name, mean, np.array([linear_threshold])) == pytest.approx(
        link(
            name,
            inverse_link(name, link(name, mean, linear_threshold), linear_threshold),
            linear_threshold,
        )
    )


# --- the objective


def problem(prior, noise, incomplete, monkeypatch, seed=0):
    views = simulate_views(seed=seed)
    views[0] = views[0] - views[0].mean(axis=0)
    X = np.hstack(views)
    if incomplete:
        X[np.random.default_rng(seed).random(X.shape) < 0.1] = np.nan
    names = np.repeat(NAMES, WIDTHS)
    observed, squares = (~np.isnan(X)).sum(axis=0).astype(float), np.nansum(X**2, axis=0)
    linear_threshold = np.where(names == "poisson", 1.0 + np.nanmax(X, axis=0), 1.0)
    monkeypatch.setattr(non_gaussian, "MAX_BLOCK_ENTRIES", 500)
    rows = Rows(*X.shape, lambda at: X[at], names, linear_threshold, observed, squares)
    groups = np.split(np.arange(sum(WIDTHS)), np.cumsum(WIDTHS)[:-1])
    lay = view_layout(groups, 2, [1, 0, 0], noise)
    L = np.where(
        lay.allowed, 0.4 * np.random.default_rng(1).standard_normal(lay.allowed.shape), 0.0
    )
    hyperbolic = None if prior is None else HyperbolicPrior(*prior)
    name = "ard" if prior is None else "hyperbolic"
    means = np.clip(np.nanmean(X, axis=0), 0.05, None)
    return (
        X,
        rows,
        lay,
        hyperbolic,
        non_gaussian_init(rows, lay, L, initial_offsets(rows, means), name),
    )


def slow_objective(X, rows, lay, prior, before, after):
    """Objective of a step, entry by entry.

    The bounds follow from the posteriors ``before`` the step, the divergences from those ``after``.
    """
    n, p = X.shape
    old, new = before.ahead, after.fitted
    Q = new.scores.Z.shape[1]
    mean, variance = predictor_moments(
        old.L, old.mu, pack_outer(old.L, old.C), old.scores.Z, old.scores.S
    )
    q = quadratic_bounds(rows, X, mean, variance, old.tau[lay.noise])
    C = np.zeros((p, Q, Q)) if new.C is None else new.C
    total = 0.0
    for row in range(n):
        z, S = new.scores.Z[row], new.scores.S[row]
        total -= 0.5 * (np.trace(S) + z @ z - Q - np.linalg.slogdet(S)[1])
        for i in np.flatnonzero(~np.isnan(X[row])):
            eta = new.L[i] @ z + new.mu[i]
            second = np.outer(new.L[i], new.L[i]) + C[i]
            spread = np.trace(second @ (np.outer(z, z) + S)) - (new.L[i] @ z) ** 2
            if rows.likelihood[i] == "gaussian":
                tau = new.tau[lay.noise[i]]
                left = (X[row, i] - eta) ** 2 + spread
                total += 0.5 * np.log(tau / (2 * np.pi)) - 0.5 * tau * left
            else:
                k, b, w = q.k[row, i], q.b[row, i], q.w[row, i]
                total += k + b * eta - 0.5 * w * (eta**2 + spread)
    total += noise_prior(rows, lay, new.tau, rows.gaussian)[2]
    if prior is not None:
        return total + sum(float(prior.log_density(w)) for w in new.L[lay.allowed])
    for i in range(p):
        a = np.flatnonzero(new.t[i] > 0)
        if a.size:
            K, m, t = C[i][np.ix_(a, a)], new.L[i][a], new.t[i][a]
            total -= 0.5 * (
                np.sum((np.diagonal(K) + m**2) / t) - a.size - np.linalg.slogdet(K / t)[1]
            )
    return total + inclusion_prior(lay, new.t).log_prior


CASES = [
    (None, "feature", True),
    (None, "view", False),
    ((0.0, 0.0), "feature", False),
    ((1.0, 2.0), "view", True),
]


@pytest.mark.parametrize(("prior", "noise", "incomplete"), CASES)
def test_objective_matches_slow_formula_and_is_non_decreasing(
    prior, noise, incomplete, monkeypatch
):
    X, rows, lay, hyperbolic, state = problem(prior, noise, incomplete, monkeypatch)
    for number in range(40):
        result = step(rows, lay, hyperbolic, state)
        if number < 2:
            slow = slow_objective(X, rows, lay, hyperbolic, state, result)
            assert result.bound == pytest.approx(slow, rel=1e-9)
        assert result.bound >= state.bound - 1e-9 * abs(result.bound)
        state = result


def test_score_samples_of_binary_rows_is_a_lower_bound():
    """Compare with the integral over a single factor."""
    rng = np.random.default_rng(0)
    X = (rng.random((80, 6)) < expit(2.0 * rng.standard_normal((80, 1)))).astype(float)
    model = SCA(1, likelihood="bernoulli").fit(X)
    bounds = model.score_samples(X[:5])
    for x, bound in zip(X[:5], bounds, strict=True):

        def density(z, x=x):
            p = expit(model.components_[0] * z + model.mean_)
            return norm.pdf(z) * np.prod(np.where(x == 1, p, 1 - p))

        exact = np.log(quad(density, -10, 10)[0])
        assert exact - 0.6 < bound <= exact + 1e-9


# --- estimator


@pytest.fixture(scope="module")
def fitted():
    views = simulate_views(n=150)
    return views, SCA(2, likelihood=NAMES).fit(views)


def test_fitted_attributes(fitted):
    views, model = fitted
    assert model.likelihood_ == NAMES
    assert np.all(np.diff(model.objective_path_) >= -1e-9 * np.abs(model.objective_path_[1:]))
    assert model.transform(views).shape == (150, 2)
    np.testing.assert_array_equal(model.noise_variance_[1:], 1.0)
    assert 0.1 < model.noise_variance_[0] < 0.6


@pytest.mark.parametrize("target", [0, 1, 2])
def test_predict_view_on_the_scale_of_the_view(fitted, target):
    views, model = fitted
    guess = model.predict_view([None if v == target else x for v, x in enumerate(views)], target)
    x = views[target]
    assert np.mean((guess.mean - x) ** 2) < 0.95 * np.mean((x - x.mean(axis=0)) ** 2)
    assert np.all(guess.variance > 0)
    if target == 1:
        assert guess.mean.min() > 0
        assert guess.mean.max() < 1
        np.testing.assert_allclose(guess.variance, guess.mean * (1 - guess.mean))
    if target == 2:
        assert guess.mean.min() > 0
        assert np.all(guess.variance >= guess.mean)


def test_missing_values_are_ignored_and_imputed(fitted):
    views, model = fitted
    incomplete = np.hstack(views)
    missing = np.random.default_rng(0).random(incomplete.shape) < 0.1
    incomplete[missing] = np.nan
    full = model.impute(incomplete)
    assert np.isfinite(full).all()
    np.testing.assert_array_equal(full[~missing], incomplete[~missing])
    groups = np.split(np.arange(18), [5, 11])
    again = SCA(2, likelihood=NAMES, views=groups, tol=1e-4).fit(incomplete)
    assert np.all(np.diff(again.objective_path_) >= -1e-9 * np.abs(again.objective_path_[1:]))


def test_sparse_counts_in_blocks_match_dense_counts(monkeypatch):
    X = np.random.default_rng(0).poisson(0.3, (60, 12)).astype(float)
    X[:, :6] += np.random.default_rng(1).poisson(2.0, (60, 1))
    dense = SCA(1, likelihood="poisson", tol=1e-4).fit(X)
    monkeypatch.setattr(non_gaussian, "MAX_BLOCK_ENTRIES", 100)
    blocks = SCA(1, likelihood="poisson", tol=1e-4).fit(sparse.csr_array(X))
    np.testing.assert_allclose(dense.components_, blocks.components_, atol=1e-6)
    np.testing.assert_allclose(dense.transform(X), blocks.transform(sparse.csr_array(X)), atol=1e-5)


def test_invariance_to_units_of_gaussian_columns():
    views = simulate_views(n=80)
    one = SCA(1, likelihood=NAMES, tol=1e-4).fit(views)
    factor = np.array([1e-3, 1.0, 10.0, 1e4, 2.0])
    other = SCA(1, likelihood=NAMES, tol=1e-4).fit([views[0] * factor, *views[1:]])
    np.testing.assert_allclose(other.components_[:, :5], one.components_[:, :5] * factor, rtol=1e-5)
    shift = -80 * np.log(factor).sum()
    assert other.objective_path_[-1] == pytest.approx(one.objective_path_[-1] + shift, rel=1e-8)


def test_invalid_input():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 4))
    counts = (
        r"`likelihood='poisson'` requires non-negative integers up to 9.01e\+15, "
        r"got {} in row {}, column {}"
    )
    with pytest.raises(InputError, match=counts.format("0.12.*", 0, 0)):
        SCA(1, likelihood="poisson").fit(X)
    for prior in ("ard", "hyperbolic"):
        large = rng.poisson(2.0, (30, 4)).astype(float)
        large[7, 2] = 1e150
        with pytest.raises(InputError, match=counts.format(r"1e\+150", 7, 2)):
            SCA(2, likelihood="poisson", prior=prior).fit(large)
    with pytest.raises(
        InputError, match="likelihood='bernoulli'` requires entries equal to 0 or 1"
    ):
        SCA(1, likelihood="bernoulli").fit(rng.poisson(2.0, (30, 4)))
    with pytest.raises(ParameterError, match="one of 'gaussian', 'bernoulli', 'poisson'"):
        SCA(1, likelihood="normal").fit(X)
    with pytest.raises(ParameterError, match=r"one name per view \(2 given, n_views=1\)"):
        SCA(1, likelihood=["gaussian", "poisson"]).fit(X)


def test_auto_selects_one_factor_of_counts():
    rng = np.random.default_rng(0)
    Z = rng.standard_normal((200, 1))
    X = rng.poisson(np.exp(0.8 * Z * np.r_[np.ones(8), np.zeros(8)] + 0.5))
    assert SCA(likelihood="poisson").fit(X.astype(float)).n_components_ == 1


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_objective_path_of_a_failed_fit_has_accepted_states_only(prior, monkeypatch):
    calls = []

    def decreases_after_five(*given):
        calls.append(given)
        found = step(*given)
        return found if len(calls) <= 5 else found._replace(bound=-1e9 * len(calls))

    monkeypatch.setattr("prosparse.models.sca.solve.step", decreases_after_five)
    rng = np.random.default_rng(3)
    X = rng.poisson(np.exp(1.0 + rng.standard_normal((60, 2)) @ rng.standard_normal((2, 6))))
    with pytest.warns(ConvergenceWarning, match="the objective decreased"):
        model = SCA(2, likelihood="poisson", prior=prior).fit(X)
    assert model.stop_reason_ is StopReason.DECREASED
    assert model.n_iter_ == len(calls) > 5
    assert np.all(np.diff(model.objective_path_) >= 0.0)


def test_quantities_of_a_gaussian_distribution_are_not_defined(fitted):
    _, model = fitted
    for method in (model.get_covariance, model.get_precision):
        message = f"`{method.__name__}` requires Gaussian views, got `likelihood` 'bernoulli'"
        with pytest.raises(ParameterError, match=message):
            method()
    with pytest.raises(AttributeError, match="`explained_variance_ratio_` is not defined"):
        _ = model.explained_variance_ratio_
    assert not hasattr(model, "explained_variance_ratio_")
