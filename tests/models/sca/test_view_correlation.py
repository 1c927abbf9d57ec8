"""Correlation between views of the factor scores, against simulation and dense formulas."""

from types import SimpleNamespace

import numpy as np
import pytest

from prosparse import SCA
from prosparse.models.sca.non_gaussian import fisher_information
from prosparse.models.sca.solve import _correlation_groups, _order_factors
from prosparse.models.sca.view_correlation import Group, view_correlations

VIEW = np.repeat([0, 1, 2], [5, 4, 6])
COLUMNS = [slice(0, 5), slice(5, 9), slice(9, 15)]


@pytest.fixture
def model(rng):
    """Loadings of three factors and noise; the second view does not depend on the last factor."""
    L, noise = rng.standard_normal((15, 3)), rng.uniform(0.5, 4.0, 15)
    L[COLUMNS[1], 2] = 0.0
    return L, noise


def scores_alone(L, noise, X):
    """E[z | x of one view] from the dense covariance of the view."""
    return X @ np.linalg.solve(L @ L.T + np.diag(noise), L)


def one_group(noise, Q=3):
    return [Group(1.0, np.ones(Q), noise, np.ones(noise.size, dtype=bool))]


def simulated_correlation(L, groups, sizes, rng):
    """Mean correlation of the scores of two views in simulated samples of the groups."""
    parts = []
    for (_, v, noise, varying_in_group), n in zip(groups, sizes, strict=True):
        loadings = L * np.sqrt(v)
        Z = rng.standard_normal((n, L.shape[1]))
        X = Z @ loadings.T + np.sqrt(noise) * rng.standard_normal((n, L.shape[0]))
        private = [np.arange(15)[view][varying_in_group[view]] for view in COLUMNS]
        parts.append([scores_alone(loadings[c], noise[c], X[:, c]) * np.sqrt(v) for c in private])
    Y = [np.vstack(scores) for scores in zip(*parts, strict=True)]
    expected = np.zeros(L.shape[1])
    for a, b in ((0, 1), (0, 2), (1, 2)):
        for j in range(L.shape[1]):
            if Y[a][:, j].any() and Y[b][:, j].any():
                expected[j] += np.corrcoef(Y[a][:, j], Y[b][:, j])[0, 1] / 3
    return expected


def test_correlations_match_simulation(model, rng):
    L, noise = model
    groups = one_group(noise)
    expected = simulated_correlation(L, groups, [400_000], rng)
    np.testing.assert_allclose(view_correlations(L, VIEW, groups), expected, atol=0.01)


def test_correlations_of_groups_match_simulation(model, rng):
    """Groups differ in size, noise, factor variances and varying columns."""
    L, noise = model
    varying_in_group = np.ones((2, 15), dtype=bool)
    varying_in_group[1, :3] = False
    groups = [
        Group(0.9, np.array([1.1, 1.0, 0.2]), 5.0 * noise, varying_in_group[0]),
        Group(0.1, np.array([0.1, 1.0, 8.2]), 0.1 * noise, varying_in_group[1]),
    ]
    expected = simulated_correlation(L, groups, [540_000, 60_000], rng)
    found = view_correlations(L, VIEW, groups)
    np.testing.assert_allclose(found, expected, atol=0.01)
    assert np.abs(found - view_correlations(L, VIEW, groups[:1])).max() > 0.05


def test_factor_of_one_view_has_zero_correlation(model):
    L, noise = model
    L[COLUMNS[2], 2] = 0.0
    found = view_correlations(L, VIEW, one_group(noise))
    assert found[2] == 0.0
    assert np.all(found[:2] > 0.0)
    alone = view_correlations(L[:5], VIEW[:5], one_group(noise[:5]))
    np.testing.assert_array_equal(alone, 0.0)


def test_invariance_to_units(model, rng):
    L, noise = model
    units = np.exp(rng.normal(0.0, 2.0, 15))
    other = view_correlations(L * units[:, None], VIEW, one_group(noise * units**2))
    np.testing.assert_allclose(other, view_correlations(L, VIEW, one_group(noise)), rtol=1e-10)


def test_order_of_factors():
    """Shared factors by view correlation, then private factors by strength."""
    block = np.array([1, 0, 0, 2, 0, 0, 0, 1])
    correlation = np.array([0.0, 0.3, 0.8, 0.0, -0.5, 0.0, 0.9, 0.0])
    strength = np.array([1.0, 9.0, 1.0, 5.0, 2.0, 3.0, 0.0, 2.0])
    # Factors without view correlation are ordered by strength; empty factors are removed.
    assert _order_factors(block, correlation, strength).tolist() == [2, 1, 5, 4, 7, 0, 3]
    assert _order_factors(block, correlation, 0.0 * strength).tolist() == [6]


def test_uncertainty_of_loadings_counts_as_noise(rng):
    noise, loading_variance = rng.uniform(1.0, 2.0, 4), rng.uniform(0.0, 1.0, (4, 2))
    (group,) = _correlation_groups(noise, loading_variance, None, None, None)
    np.testing.assert_allclose(
        group.residual_variance, noise + loading_variance[:, 0] + loading_variance[:, 1]
    )
    assert group.proportion == 1.0
    np.testing.assert_array_equal(group.variances, 1.0)
    fisher = np.array([np.nan, 0.25, np.nan, 4.0])
    (mixed,) = _correlation_groups(noise, 0.0 * loading_variance, None, fisher, None)
    np.testing.assert_allclose(mixed.residual_variance, [noise[0], 4.0, noise[2], 0.25])


def test_parameters_of_each_group(rng):
    noise, loading_variance = rng.uniform(1.0, 2.0, (2, 4)), rng.uniform(0.0, 1.0, (4, 2))
    factor_variance, varying_in_group = np.array([[1.0, 0.0], [0.5, 3.0]]), rng.random((2, 4)) < 0.5
    members = [SimpleNamespace(samples=SimpleNamespace(n=n)) for n in (30, 10)]
    data = SimpleNamespace(members=members, varying_in_group=varying_in_group)
    first, second = _correlation_groups(noise, loading_variance, factor_variance, None, data)
    assert (first.proportion, second.proportion) == (0.75, 0.25)
    np.testing.assert_allclose(first.residual_variance, noise[0] + loading_variance[:, 0])
    np.testing.assert_allclose(
        second.residual_variance,
        noise[1] + 0.5 * loading_variance[:, 0] + 3.0 * loading_variance[:, 1],
    )
    np.testing.assert_array_equal(second.variances, factor_variance[1])
    np.testing.assert_array_equal(second.varying_in_group, varying_in_group[1])


def test_fisher_information():
    """p (1 - p) for binary entries, the mean for counts."""
    rows = SimpleNamespace(p=3, likelihood=np.array(["bernoulli", "poisson", "gaussian"]))
    found = fisher_information(rows, np.array([0.2, 3.0, 7.0]))
    np.testing.assert_allclose(found, [0.16, 3.0, np.nan])


def two_views(rng, n=400):
    """Simulate a strong factor of the first view and a weaker factor of both views."""
    private, common = rng.standard_normal((2, n, 1))
    first = np.hstack([3.0 * private * np.ones(12), common * np.ones(3)])
    second = common * np.ones(5)
    return [view + 0.5 * rng.standard_normal(view.shape) for view in (first, second)], common


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_shared_factors_come_first(prior, rng):
    views, common = two_views(rng)
    fitted = SCA(2, prior=prior).fit(views)
    shares = np.sum((fitted.components_ / np.hstack(views).std(axis=0)) ** 2, axis=1)
    assert shares[0] < shares[1]
    scores = fitted.transform(views)
    assert abs(np.corrcoef(scores[:, 0], common[:, 0])[0, 1]) > 0.9
    assert fitted.view_correlation_[0] > 0.8
    assert fitted.view_correlation_[1] < 0.1
    alone = [fitted.transform(one)[:, 0] for one in ([views[0], None], [None, views[1]])]
    assert np.corrcoef(*alone)[0, 1] == pytest.approx(fitted.view_correlation_[0], abs=0.05)
    single = SCA(2, prior=prior).fit(np.hstack(views))
    shares = np.sum((single.components_ / np.hstack(views).std(axis=0)) ** 2, axis=1)
    assert shares[0] > shares[1]
    np.testing.assert_array_equal(single.view_correlation_, 0.0)


def test_order_of_factors_with_counts(rng):
    views, common = two_views(rng)
    counts = [views[0], rng.poisson(np.exp(0.8 * common * np.ones(5)))]
    mixed = SCA(2, likelihood=["gaussian", "poisson"]).fit(counts)
    assert mixed.view_correlation_[0] > 0.5
    assert mixed.view_correlation_[1] < 0.1
    alone = [mixed.transform(one)[:, 0] for one in ([counts[0], None], [None, counts[1]])]
    assert np.corrcoef(*alone)[0, 1] == pytest.approx(mixed.view_correlation_[0], abs=0.1)


@pytest.mark.parametrize(("sizes", "most"), [((100, 900), 0.7), ((500, 500), 0.85)])
def test_groups_are_weighted_by_their_size(sizes, most, rng):
    """The second group is noisy, and some of its columns are constant."""
    groups = np.repeat(["quiet", "loud"], sizes)
    noise = np.where(groups == "quiet", 0.5, 4.0)[:, None]

    def draw():
        common = rng.standard_normal((groups.size, 1))
        views = [common + noise * rng.standard_normal((groups.size, p)) for p in (6, 5)]
        views[0][groups == "loud", :3] = 0.0
        return views

    fitted = SCA(1).fit(draw(), groups=groups)
    new = [draw() for _ in range(4)]
    one, other = (
        np.hstack([fitted.transform(part, groups=groups)[:, 0] for part in parts])
        for parts in ([[a, None] for a, _ in new], [[None, b] for _, b in new])
    )
    found = float(fitted.view_correlation_[0])
    assert found == pytest.approx(np.corrcoef(one, other)[0, 1], abs=0.08)
    assert found < most


def test_tiny_noise_gives_correlations_of_one(model):
    """I + M is numerically singular."""
    L, noise = model
    for scale in (1e-10, 1e-20, 1e-40):
        found = view_correlations(L, VIEW, one_group(scale * noise))
        np.testing.assert_allclose(found[:2], 1.0, atol=1e-6)
    few = np.where(np.arange(15) % 5 == 0, scale * noise, noise)
    assert np.all(np.abs(view_correlations(L, VIEW, one_group(few))) <= 1.0 + 1e-12)
