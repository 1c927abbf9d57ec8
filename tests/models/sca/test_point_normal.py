"""Point-normal priors, learned noise variances and the bound of the model, by definition."""

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import digamma, gammaln, xlogy
from scipy.stats import norm

from prosparse import SCA
from prosparse.data import DenseOperator
from prosparse.models.sca.model import N_PSEUDO_LEARNED, State, init, step, view_layout
from prosparse.models.sca.noise import (
    MAX_STRENGTH,
    NoisePrior,
    initial_noise_prior,
    log_marginal,
    update_noise,
)
from prosparse.models.sca.point_normal import (
    PointNormal,
    local_false_sign_rate,
    observed_posterior,
    update_unknowns,
)
from prosparse.models.sca.scores import SparseScores
from prosparse.models.sca.start import initial_loadings

pytestmark = pytest.mark.quick

OPTIONS = {"prior": "point-normal", "noise": "learned"}


def test_one_unknown_by_numerical_integration():
    """Posterior and divergence of one unknown with a fixed prior."""
    h, e, pi, v = 2.3, 1.7, 0.3, 0.8
    one = np.ones((1, 1))
    now = PointNormal(0 * one, 0 * one, 0 * one, pi * one, v * one, 0.0)
    found = update_unknowns(
        now, np.ones(1), e * one[None], h * one, np.zeros(1, int), one, learn=False
    )

    def slab(power):
        return quad(
            lambda u: u**power * np.exp(h * u - e * u * u / 2) * norm.pdf(u, scale=v**0.5), -20, 20
        )[0]

    total = 1 - pi + pi * slab(0)
    mean, second, w = pi * slab(1) / total, pi * slab(2) / total, pi * slab(0) / total
    assert found.inclusion[0, 0] == pytest.approx(w)
    assert found.mean[0, 0] == pytest.approx(mean)
    assert found.variance[0, 0] == pytest.approx(second - mean**2)
    assert found.divergence == pytest.approx(h * mean - e * second / 2 - np.log(total))
    lfsr = local_false_sign_rate(found.mean, found.variance, found.inclusion)[0, 0]
    negative = quad(lambda u: np.exp(h * u - e * u * u / 2) * norm.pdf(u, scale=v**0.5), -20, 0)[0]
    assert lfsr == pytest.approx(1 - w + pi * negative / total)


def test_observed_posterior_has_the_information_of_the_means():
    """The posterior with a part of the precision equals one updated with that part."""
    h, e = np.array([[2.3], [0.4], [0.0]]), np.array([1.7, 2.0, 0.9])
    one, prior = np.ones((3, 1)), (0.3 * np.ones((1, 1)), 0.8 * np.ones((1, 1)))
    now = PointNormal(0 * one, 0 * one, 0 * one, *prior, 0.0, unit=np.array([1.0, 2.0, 0.5]))

    def posterior(part):
        A, place = part * e[:, None, None], np.zeros(3, int)
        return update_unknowns(now, np.ones(3), A, part * h, place, np.ones((1, 3)), learn=False)

    found = observed_posterior(posterior(1.0), np.zeros(3, int), np.array([0.6]))
    expected = posterior(0.6)
    for name in ("mean", "variance", "inclusion"):
        np.testing.assert_allclose(getattr(found, name), getattr(expected, name), atol=1e-12)


def test_noise_unknowns_are_zero_and_signal_is_not(rng):
    G = 0.1 * rng.standard_normal((200, 2))
    G[:30, 1] += 50 * rng.standard_normal(30)
    start = PointNormal(
        np.zeros((200, 2)),
        np.zeros((200, 2)),
        np.ones((200, 2)),
        np.full((1, 2), 0.5),
        np.ones((1, 2)),
        0.0,
    )
    A = np.diag([4.0, 4.0])[None]
    found = start
    for _ in range(30):
        found = update_unknowns(found, np.ones(200), A, G, np.zeros(200, int), np.ones((1, 200)))
    assert np.all(found.mean[:, 0] == 0)
    assert found.probability[0, 0] == 0
    assert found.probability[0, 1] == pytest.approx(0.15, abs=0.03)
    assert np.mean(found.inclusion[:30, 1] > 0.5) > 0.9
    assert np.all(found.inclusion[30:, 1] < 0.5)


def sparse_table(seed=0, n=60, p=40, missing=0.0):
    rng = np.random.default_rng(seed)
    Z = rng.standard_normal((n, 2)) * (rng.random((n, 2)) < 0.3) * 2
    W = rng.standard_normal((p, 2)) * (rng.random((p, 2)) < 0.3)
    X = Z @ W.T + 0.5 * np.exp(0.3 * rng.standard_normal(p)) * rng.standard_normal((n, p))
    seen = rng.random((n, p)) >= missing
    X = np.where(seen, X, np.nan)
    return X - np.nanmean(X, axis=0), seen, W


def sparse_problem(missing):
    X, seen, _ = sparse_table(missing=missing)
    filled = np.where(seen, X, 0.0)
    op = DenseOperator(filled)
    data = SparseScores(op, seen if missing else None)
    scale = np.exp(0.2 * np.random.default_rng(1).standard_normal(X.shape[1]))
    lay = view_layout([np.arange(25), np.arange(25, 40)], 2, [0, 0], "learned", scale)
    groups = [np.arange(25), np.arange(25, 40)]
    first = init(data, lay, *initial_loadings(op, 60, groups, 2, [0, 0]), "point-normal").ahead
    noise = first.noise._replace(system=None)
    Z = np.linalg.lstsq(first.L, filled.T, rcond=None)[0].T
    first = first._replace(scores=data.initial(Z), noise=noise)
    return X, seen, lay, data, State(first, first, -np.inf)


def slow_divergence(q, view):
    """KL of each unknown from its prior, by its definition."""
    total = 0.0
    for r, k in np.ndindex(q.mean.shape):
        w, pi, v = q.inclusion[r, k], q.probability[view[r], k], q.slab[view[r], k]
        if pi == 0:
            continue
        v = v if q.unit is None else v * q.unit[r]
        total += xlogy(w, w / pi) + xlogy(1 - w, (1 - w) / (1 - pi))
        b = q.mean[r, k] / w
        c = (q.variance[r, k] + q.mean[r, k] ** 2) / w - b * b
        total += w * 0.5 * ((c + b * b) / v - 1 - np.log(c / v))
    return total


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_bound_matches_its_definition(missing):
    """E log p(X | z, L, tau) - KL(z) - KL(L) - KL(tau), entry by entry."""
    X, seen, lay, data, state = sparse_problem(missing)
    for _ in range(3):
        state = step(data, lay, None, state)
    now = state.fitted
    Z, VZ, L, VL = now.scores.mean, now.scores.variance, now.sparse.mean, now.sparse.variance
    total = -slow_divergence(now.sparse, lay.view) - slow_divergence(now.scores, data.view)
    values = np.zeros((len(lay.units), 2))
    for i in range(X.shape[1]):
        rows = seen[:, i]
        mean = Z[rows] @ L[i] + now.mu[i]
        spread = (Z[rows] ** 2 + VZ[rows]) @ (L[i] ** 2 + VL[i]) - Z[rows] ** 2 @ L[i] ** 2
        c, variance = rows.sum(), np.mean(X[rows, i] ** 2)
        r = np.sum((X[rows, i] - mean) ** 2 + spread)
        more = min((N_PSEUDO_LEARNED / c) ** 2, 1.0)
        r, count = r + more * variance, c + more
        total += 0.5 * more * np.log(2 * np.pi * variance)
        for h, u in enumerate(lay.units[:, i]):
            d, s = now.noise.strength[h, lay.view[i]], now.noise.level[h, lay.view[i]]
            a, b = (count + d) / 2, (r + d * s * u) / 2  # q(tau) = Gamma(a, b)
            a0, b0 = d / 2, d * s * u / 2
            log_tau, tau = digamma(a) - np.log(b), a / b
            value = 0.5 * count * (log_tau - np.log(2 * np.pi)) - 0.5 * tau * r
            value += a0 * np.log(b0) - gammaln(a0) + (a0 - 1) * log_tau - b0 * tau
            value -= a * np.log(b) - gammaln(a) + (a - 1) * log_tau - b * tau
            values[h, lay.view[i]] += value
    assert state.bound == pytest.approx(total + values.max(axis=0).sum(), rel=1e-9)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_bound_is_non_decreasing(missing):
    _, _, lay, data, state = sparse_problem(missing)
    for _ in range(40):
        before, state = state.bound, step(data, lay, None, state)
        assert state.bound >= before - 1e-9 * abs(state.bound)


def test_log_marginal_of_noise_by_numerical_integration():
    r, c, u, d, s = 3.0, 5.0, 0.7, 4.0, 1.3
    a, b = d / 2, d * s * u / 2

    def density(tau):
        prior = np.exp(a * np.log(b) - gammaln(a) + (a - 1) * np.log(tau) - b * tau)
        return (tau / (2 * np.pi)) ** (c / 2) * np.exp(-tau * r / 2) * prior

    found = log_marginal(np.array([r]), np.array([c]), np.array([u]), d, s)
    assert found == pytest.approx(np.log(quad(density, 0, 50)[0]))


def test_spread_of_noise_variances_is_learned(rng):
    """Equal noise is pooled in the units in which it is equal; unequal noise stays free."""
    p, n = 200, 50
    member = np.ones((1, p))
    units = np.stack([np.ones(p), np.exp(rng.uniform(-2, 2, p))])
    for truth in (2.0 * units[1], np.exp(rng.uniform(-2, 2, p))):
        residual = truth * rng.chisquare(n, p)
        noise = residual / n
        prior = initial_noise_prior(noise, member, units)._replace(system=None)
        for _ in range(30):
            found = update_noise(residual, np.full(p, float(n)), member, units, prior)
            prior = found.prior
        if truth[0] == 2.0 * units[1, 0]:
            assert prior.strength[1, 0] > 1000
            np.testing.assert_allclose(1 / found.tau, truth, rtol=0.05)
        else:
            assert prior.strength.max() < 10
            np.testing.assert_allclose(1 / found.tau, noise, rtol=0.2)
        assert np.all(prior.strength <= MAX_STRENGTH)
        assert isinstance(prior, NoisePrior)


@pytest.mark.parametrize("missing", [0.0, 0.2])
def test_sparse_scores_are_chosen_and_reproduced(missing):
    X, _, W = sparse_table(n=300, missing=missing)
    model = SCA(2, **OPTIONS).fit(X)
    assert np.all(model.score_probability_ < 0.6)
    Z = model.transform(X)
    assert np.mean(np.abs(Z) < 0.1) > 0.4
    assert np.all((model.loadings_lfsr_ >= 0) & (model.loadings_lfsr_ <= 1))
    np.testing.assert_array_equal(model.components_ != 0, model.loadings_lfsr_ < 0.5)
    kept = model.components_ != 0
    np.testing.assert_array_equal(model.components_[kept], model.loadings_mean_[kept])
    correlation = np.abs(np.corrcoef(np.vstack([model.loadings_mean_, W.T]))[:2, 2:])
    assert np.all(correlation.max(axis=0) > 0.95)
    residual = X - model.inverse_transform(Z)
    assert np.nanvar(residual) < 0.5 * np.nanvar(X)


def test_gaussian_scores_stay_gaussian(rng):
    X = rng.standard_normal((200, 2)) @ rng.standard_normal((2, 20))
    model = SCA(2, **OPTIONS).fit(X + 0.5 * rng.standard_normal((200, 20)))
    np.testing.assert_array_equal(model.score_probability_, 1.0)


def test_scores_of_new_rows_do_not_depend_on_other_rows():
    X = sparse_table(n=200)[0]
    model = SCA(2, **OPTIONS).fit(X)
    np.testing.assert_allclose(model.transform(X[:7]), model.transform(X)[:7], atol=1e-6)


def test_no_factors_in_noise():
    for seed in range(3):
        X = np.random.default_rng(seed).standard_normal((100, 60))
        with pytest.warns(UserWarning, match="no shared variance"):
            assert SCA(**OPTIONS).fit(X).n_selected_ == 0


def test_residual_factors_are_found_with_missing_values():
    """Factors too weak for the Gaussian model are found in the residuals."""
    rng = np.random.default_rng([1, 1, 1, 0])
    Z = rng.standard_normal((200, 3)) * (rng.random((200, 3)) < 0.3)
    W = rng.standard_normal((300, 3)) * (rng.random((300, 3)) < 0.15)
    strength = np.sqrt(np.array([0.8, 1.5, 2.0]) * (np.sqrt(200) + np.sqrt(300)) ** 2)
    W *= strength / (np.linalg.norm(Z, axis=0) * np.linalg.norm(W, axis=0))
    X = Z @ W.T + rng.standard_normal((200, 300))
    X[rng.random(X.shape) < 0.3] = np.nan
    assert SCA(**OPTIONS).fit(X).n_components_ == 3
