"""How much views share latents, against samples drawn from the model and dense formulas."""

import numpy as np
import pytest

from prosparse import SCA
from prosparse.models.sca.linked import view_correlations

VIEW = np.repeat([0, 1, 2], [5, 4, 6])
COLUMNS = [slice(0, 5), slice(5, 9), slice(9, 15)]


@pytest.fixture
def model(rng):
    """Weights of three latents, noise; the second view has nothing of the last latent."""
    L, noise = rng.standard_normal((15, 3)), rng.uniform(0.5, 4.0, 15)
    L[COLUMNS[1], 2] = 0.0
    return L, noise


def scores_alone(L, noise, X):
    """E[z | x of one view], from the covariance of the view itself."""
    return X @ np.linalg.solve(L @ L.T + np.diag(noise), L)


def test_correlations_are_those_of_samples(model, rng):
    L, noise = model
    Z = rng.standard_normal((400_000, 3))
    X = Z @ L.T + np.sqrt(noise) * rng.standard_normal((400_000, 15))
    Y = [scores_alone(L[view], noise[view], X[:, view]) for view in COLUMNS]
    expected = np.zeros(3)
    for a, b in ((0, 1), (0, 2), (1, 2)):
        for j in range(3):
            if Y[a][:, j].any() and Y[b][:, j].any():
                expected[j] += np.corrcoef(Y[a][:, j], Y[b][:, j])[0, 1] / 3
    np.testing.assert_allclose(view_correlations(L, noise, VIEW), expected, atol=0.01)


def test_a_latent_of_one_view_is_shared_by_none(model):
    L, noise = model
    L[COLUMNS[2], 2] = 0.0
    found = view_correlations(L, noise, VIEW)
    assert found[2] == 0.0
    assert np.all(found[:2] > 0.0)
    np.testing.assert_array_equal(view_correlations(L[:5], noise[:5], VIEW[:5]), 0.0)


def test_correlations_do_not_depend_on_units(model, rng):
    L, noise = model
    units = np.exp(rng.normal(0.0, 2.0, 15))
    other = view_correlations(L * units[:, None], noise * units**2, VIEW)
    np.testing.assert_allclose(other, view_correlations(L, noise, VIEW), rtol=1e-10)


def two_views(rng, n=400):
    """A strong latent of the first view alone and a weaker one of both."""
    own, common = rng.standard_normal((2, n, 1))
    first = np.hstack([3.0 * own * np.ones(4), common * np.ones(3)])
    second = common * np.ones(5)
    return [view + 0.5 * rng.standard_normal(view.shape) for view in (first, second)], common


@pytest.mark.parametrize("prior", ["ard", "hyperbolic"])
def test_what_views_share_comes_first(prior, rng):
    views, common = two_views(rng)
    fitted = SCA(2, prior=prior).fit(views)
    assert fitted.explained_variance_[0] < fitted.explained_variance_[1]
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


def test_groups_and_counts_are_ordered_alike(rng):
    views, common = two_views(rng)
    groups = np.repeat(["a", "b"], 200)
    grouped = SCA(2).fit(views, groups=groups)
    assert grouped.view_correlation_[0] > 0.8
    assert grouped.view_correlation_[1] < 0.1
    counts = [views[0], rng.poisson(np.exp(0.8 * common * np.ones(5)))]
    mixed = SCA(2, likelihood=["gaussian", "poisson"]).fit(counts)
    assert mixed.view_correlation_[0] > 0.5
    assert mixed.view_correlation_[1] < 0.1
    alone = [mixed.transform(one)[:, 0] for one in ([counts[0], None], [None, counts[1]])]
    assert np.corrcoef(*alone)[0, 1] == pytest.approx(mixed.view_correlation_[0], abs=0.1)
