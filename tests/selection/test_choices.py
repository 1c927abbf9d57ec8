"""Noise, model prior and number of components."""

import numpy as np
import pytest
from scipy.stats import binom

from prosparse import ManyComponentsWarning
from prosparse.datasets import make_globally_sparse
from prosparse.selection import noise
from prosparse.selection.dimension import MAX_COUNTED, count_signals, counted
from prosparse.selection.model_priors import inclusion_probability, log_prior

pytestmark = pytest.mark.quick


def eigenvalues(X):
    X = X - X.mean(0)
    return np.linalg.svd(X, compute_uv=False) ** 2


@pytest.mark.parametrize(("n", "p"), [(60, 200), (200, 60)])
def test_noise_estimators_find_the_noise(n, p):
    estimates = {kind: [] for kind in noise.NOISE_ESTIMATORS}
    for seed in range(20):
        X = make_globally_sparse(
            n, p, n_components=5, n_informative=15, noise=2.0, random_state=seed
        ).X
        squares = np.sum((X - X.mean(0)) ** 2, axis=0)
        for kind, values in estimates.items():
            values.append(noise.noise_variance(kind, eigenvalues(X), squares, n, 5))
    mean = {kind: np.mean(values) for kind, values in estimates.items()}
    assert mean["bias-corrected"] == pytest.approx(4.0, rel=0.05)
    assert 4.0 - mean["ml"] > 2.0 * (4.0 - mean["bias-corrected"]) > 0  # the bias is downwards
    assert mean["median"] == pytest.approx(4.0, rel=0.15)


def test_maximum_likelihood_is_the_mean_of_the_smallest_eigenvalues(rng):
    X = rng.standard_normal((12, 30))
    X -= X.mean(0)
    covariance = X.T @ X / 12
    small = np.sort(np.linalg.eigvalsh(covariance))[:-4]
    ours = noise.noise_variance("ml", eigenvalues(X), np.sum(X**2, axis=0), 12, 4)
    assert ours == pytest.approx(small.mean())


def test_invisible_spikes_do_not_break_the_correction(rng):
    X = rng.standard_normal((30, 100))
    ml = noise.noise_variance("ml", eigenvalues(X), np.ones(100), 30, 20)
    corrected = noise.noise_variance("bias-corrected", eigenvalues(X), np.ones(100), 30, 20)
    # no spike is visible: every one counts as being at the edge, a = sqrt(p/n) sigma^2
    c = 100 / 30
    bias = np.sqrt(c / 2) * (20 + 20 / np.sqrt(c))
    largest = ml * (1 + bias * np.sqrt(2 * c) / 80)
    assert ml < corrected <= largest * (1 + 1e-12)


@pytest.mark.parametrize(("n", "p"), [(10, 50), (40, 3000), (3, 4)])
def test_inclusion_probability_is_the_largest_allowed(n, p):
    rho = inclusion_probability(n, p)
    assert 0 < rho <= 0.5
    assert binom.sf(n, p, rho) <= 0.05 + 1e-9
    if rho < 0.5:
        assert binom.sf(n, p, 1.001 * rho) > 0.05


def test_model_priors():
    q = np.arange(3, 9)
    assert inclusion_probability(50, 30) == 0.5
    np.testing.assert_array_equal(log_prior("uniform", q, 10, 50), np.zeros(6))
    rho = inclusion_probability(10, 50)
    np.testing.assert_allclose(log_prior("sparse", q, 10, 50), q * np.log(rho / (1 - rho)))
    assert np.all(np.diff(log_prior("sparse", q, 10, 50)) < 0)


@pytest.mark.parametrize(("n", "p"), [(50, 150), (100, 100), (300, 40)])
def test_components_are_counted(n, p):
    right = 0
    for seed in range(10):
        X = make_globally_sparse(
            n, p, n_components=6, n_informative=20, noise=0.3, random_state=seed
        ).X
        right += count_signals(eigenvalues(X), n, p) == 6
    assert right >= 9


@pytest.mark.parametrize(("n", "p"), [(40, 200), (200, 40)])
def test_noise_has_no_components(n, p):
    found = [
        count_signals(eigenvalues(np.random.default_rng(s).standard_normal((n, p))), n, p)
        for s in range(20)
    ]
    assert np.mean(np.array(found) == 0) >= 0.9


def test_counts_without_white_noise_are_cut_off_in_words(rng):
    spread = np.sort(rng.gamma(0.05, 1e6, 400))[::-1]  # eigenvalues over many decades
    assert count_signals(spread, 500, 400) > MAX_COUNTED
    with pytest.warns(ManyComponentsWarning, match=r"finds more than 100 components"):
        assert counted(spread, 500, 400) == MAX_COUNTED
    white = eigenvalues(rng.standard_normal((500, 400)))
    assert count_signals(white, 500, 400) == 0
    assert counted(white, 500, 400) == 1
