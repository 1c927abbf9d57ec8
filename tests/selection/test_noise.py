"""Estimators of the noise variance."""

import numpy as np
import pytest

from prosparse.datasets import make_globally_sparse
from prosparse.selection import noise

pytestmark = pytest.mark.quick


def eigenvalues(X):
    return np.linalg.svd(X - X.mean(0), compute_uv=False) ** 2


@pytest.mark.parametrize(("n", "p"), [(60, 200), (200, 60)])
def test_noise_estimators_are_accurate(n, p):
    estimates = {estimator: [] for estimator in noise.NOISE_ESTIMATORS}
    for seed in range(20):
        X = make_globally_sparse(
            n, p, n_components=5, n_informative=15, noise=2.0, random_state=seed
        ).X
        squares = np.sum((X - X.mean(0)) ** 2, axis=0)
        for estimator, values in estimates.items():
            values.append(noise.noise_variance(estimator, eigenvalues(X), squares, n, 5))
    mean = {estimator: np.mean(values) for estimator, values in estimates.items()}
    assert mean["bias-corrected"] == pytest.approx(4.0, rel=0.05)
    assert 4.0 - mean["ml"] > 2.0 * (4.0 - mean["bias-corrected"]) > 0  # the bias is downwards
    assert mean["median"] == pytest.approx(4.0, rel=0.15)


def test_maximum_likelihood_is_the_mean_of_the_smallest_eigenvalues(rng):
    X = rng.standard_normal((12, 30))
    X -= X.mean(0)
    covariance = X.T @ X / 12
    small = np.sort(np.linalg.eigvalsh(covariance))[:-4]
    estimate = noise.noise_variance("ml", eigenvalues(X), np.sum(X**2, axis=0), 12, 4)
    assert estimate == pytest.approx(small.mean())


def test_correction_with_spikes_below_the_noise_edge(rng):
    X = rng.standard_normal((30, 100))
    ml = noise.noise_variance("ml", eigenvalues(X), np.ones(100), 30, 20)
    corrected = noise.noise_variance("bias-corrected", eigenvalues(X), np.ones(100), 30, 20)
    # Spikes below the edge of the noise are set to the edge, a = sqrt(p/n) sigma^2.
    c = 100 / 30
    bias = np.sqrt(c / 2) * (20 + 20 / np.sqrt(c))
    largest = ml * (1 + bias * np.sqrt(2 * c) / 80)
    assert ml < corrected <= largest * (1 + 1e-12)
