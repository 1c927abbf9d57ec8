"""Null distributions of R2 under row permutations and sign flips."""

from itertools import permutations, product

import numpy as np
import pytest
from data_matrices import orthonormal_scores
from scipy import stats

from prosparse.data import DenseOperator
from prosparse.structure import null_distribution
from prosparse.structure.null_distribution import (
    Moments,
    beta_tail,
    common_flip_moments,
    gaussian_variance,
    permutation_moments,
    sign_flip_moments,
    smallest_flip_probability,
    upper_triangle,
)

pytestmark = pytest.mark.quick


def unit(y):
    y = y - y.mean()
    return y / np.linalg.norm(y)


def squared_leverages(U):
    return np.sum(np.cumsum(U * U, axis=1) ** 2, axis=0)


def flip_moments_of(Y, U):
    """Compute the moments of unit columns Y from the definitions."""
    i, k = upper_triangle(U.shape[1])
    leverages = np.cumsum(U * U, axis=1)
    return sign_flip_moments((Y**2).T @ (U[:, i] * U[:, k]), (Y**4).T @ leverages**2)


# --- permutation


@pytest.mark.parametrize("column", [[0, 0, 0, 0, 0, 1, 3], [1, 2, 3, 4, 5, 6, 70], range(7)])
def test_moments_over_all_permutations(column):
    U, y = orthonormal_scores(7, 3, heavy=True), unit(np.array(column, dtype=float))
    orders = np.array(list(permutations(range(7))))
    R2 = np.cumsum((y[orders] @ U) ** 2, axis=1)
    mean, variance = permutation_moments(squared_leverages(U), np.array([np.sum(y**4)]), 7, 6)
    np.testing.assert_allclose(mean[0], R2.mean(axis=0))
    np.testing.assert_allclose(variance[0], R2.var(axis=0))


def test_scores_may_differ_between_columns():
    """Leverages (n_columns, D), as for the pair statistic."""
    U, V = (orthonormal_scores(9, 2, seed, heavy=True) for seed in (1, 2))
    fourth = np.array([0.3, 0.5])
    both = permutation_moments(np.stack([squared_leverages(U), squared_leverages(V)]), fourth, 9, 8)
    for row, scores in enumerate((U, V)):
        one = permutation_moments(squared_leverages(scores), fourth[[row]], 9, 8)
        np.testing.assert_allclose(both.variance[row], one.variance[0])


def test_gaussian_moments_are_those_of_the_beta_distribution():
    d, dof = np.arange(1.0, 5.0), 30
    expected = stats.beta(d / 2, (dof - d) / 2)
    np.testing.assert_allclose(gaussian_variance(d / dof, dof), expected.var())


# --- sign flips


@pytest.mark.parametrize("scale", ["equal", "heavy", "one row"])
def test_moments_over_all_signs(scale):
    rng = np.random.default_rng(0)
    n, D = 10, 4
    U = orthonormal_scores(n, D, heavy=True)
    Y = rng.standard_normal((n, 3))
    if scale == "heavy":
        Y = rng.standard_t(1, (n, 3))
    if scale == "one row":
        Y[3] *= 20.0
    Y /= np.linalg.norm(Y, axis=0)
    signs = np.array(list(product([-1.0, 1.0], repeat=n)))
    moments = flip_moments_of(Y, U)
    for j in range(3):
        R2 = np.cumsum(((signs * Y[:, j]) @ U) ** 2, axis=1)
        np.testing.assert_allclose(moments.mean[j], R2.mean(axis=0))
        np.testing.assert_allclose(moments.variance[j], R2.var(axis=0))


def test_moments_of_all_columns_with_common_scores(monkeypatch):
    """Products in chunks give the moments of `sign_flip_moments`, for the requested d."""
    monkeypatch.setattr(null_distribution, "_MAX_PRODUCTS", 4)
    rng = np.random.default_rng(3)
    U, X = orthonormal_scores(20, 5, heavy=True), rng.standard_t(2, (20, 6))
    squares = np.sum(X**2, axis=0)
    expected = flip_moments_of(X / np.sqrt(squares), U)
    found = common_flip_moments(DenseOperator(X), squares, U)
    np.testing.assert_allclose(found.mean, expected.mean)
    np.testing.assert_allclose(found.variance, expected.variance)
    some = common_flip_moments(DenseOperator(X), squares, U, d=np.array([2, 5]))
    np.testing.assert_allclose(some.mean, expected.mean[:, [1, 4]])
    np.testing.assert_allclose(some.variance, expected.variance[:, [1, 4]])


def test_moments_of_many_rows_need_no_fourth_powers():
    rng = np.random.default_rng(4)
    U, X = orthonormal_scores(1200, 3), rng.standard_normal((1200, 4))
    squares = np.sum(X**2, axis=0)
    expected = flip_moments_of(X / np.sqrt(squares), U)
    found = common_flip_moments(DenseOperator(X), squares, U)
    np.testing.assert_allclose(found.variance, expected.variance, rtol=0.02)
    assert np.all(found.variance >= expected.variance)


def test_moments_by_simulation():
    rng = np.random.default_rng(1)
    n, D, draws = 80, 3, 20_000
    U, y = orthonormal_scores(n, D, heavy=True), rng.standard_t(3, n)
    y /= np.linalg.norm(y)
    R2 = np.cumsum((rng.choice([-1.0, 1.0], (draws, n)) * y @ U) ** 2, axis=1)
    moments = flip_moments_of(y[:, None], U)
    error = np.sqrt(moments.variance[0] / draws)
    assert np.all(np.abs(R2.mean(axis=0) - moments.mean[0]) < 4 * error)
    np.testing.assert_allclose(R2.var(axis=0), moments.variance[0], rtol=0.1)


def test_rows_of_equal_magnitude_give_the_permutation_mean():
    n, D = 12, 3
    U = orthonormal_scores(n, D)
    moments = flip_moments_of(np.full((n, 1), n**-0.5), U)
    np.testing.assert_allclose(moments.mean[0], np.arange(1, D + 1) / n)


def test_moments_of_centred_groups_are_corrected_on_average():
    """In groups of two rows, centring halves the squares; flips of pairs have the same mean."""
    rng = np.random.default_rng(2)
    n, D = 12, 2
    pairs = np.repeat(np.arange(n // 2), 2)
    y = rng.standard_t(2, n)
    y -= (np.bincount(pairs, y) / 2)[pairs]  # (a, -a) in each pair
    y /= np.linalg.norm(y)
    U = rng.standard_normal((n, D))
    U -= (np.stack([np.bincount(pairs, u) for u in U.T], axis=1) / 2)[pairs]
    U = np.linalg.qr(U)[0]
    i, k = upper_triangle(D)
    correction = 2.0  # g / (g - 1)
    mean = sign_flip_moments(
        (correction * y[:, None] ** 2).T @ (U[:, i] * U[:, k]), np.zeros((1, D))
    ).mean[0]
    signs = np.array(list(product([-1.0, 1.0], repeat=n // 2)))[:, pairs]
    R2 = np.cumsum(((signs * y) @ U) ** 2, axis=1)
    np.testing.assert_allclose(mean, R2.mean(axis=0))


# --- tails


def test_tail_is_that_of_the_beta_distribution_with_the_moments():
    mean, variance = np.array([[0.1, 0.3]]), np.array([[0.004, 0.01]])
    total = mean * (1 - mean) / variance - 1
    distribution = stats.beta(mean * total, (1 - mean) * total)
    np.testing.assert_allclose(distribution.mean(), mean)
    np.testing.assert_allclose(distribution.var(), variance)
    R2 = np.array([[0.25, 0.6]])
    np.testing.assert_allclose(beta_tail(R2, Moments(mean, variance)), distribution.sf(R2))


def test_tail_without_excess_is_gaussian():
    R2, d = np.random.default_rng(0).random((5, 4)), np.arange(1, 5)
    mean = np.broadcast_to(d / 30, R2.shape)
    tail = beta_tail(R2, Moments(mean, gaussian_variance(mean, 30)))
    np.testing.assert_allclose(tail, stats.beta.sf(R2, d / 2, (30 - d) / 2))


def test_degenerate_moments_give_probabilities():
    """Columns without variance, with all variance in one row, and R2 beyond 1 by rounding."""
    mean = np.array([[0.0, 0.5, 1.0]])
    for variance in (np.zeros((1, 3)), np.ones((1, 3))):
        for R2 in (0.0, 0.5, 1.0 + 1e-12):
            tail = beta_tail(np.full((1, 3), R2), Moments(mean, variance))
            assert np.all((tail >= 0.0) & (tail <= 1.0))


@pytest.mark.parametrize("k", [4, 10, 30])
def test_smallest_probability_depends_on_the_number_of_entries(k):
    """A third of the k entries of a Gaussian column counts less: 5 / 9 of n in the mean."""
    equal = smallest_flip_probability(np.array([1.0 / k]), 1000)
    assert equal[0] == pytest.approx(2.0 ** (1.0 - 5.0 * k / 3.0))
    gaussian = smallest_flip_probability(np.array([3.0 / (9 * k)]), 9 * k)
    assert gaussian[0] == pytest.approx(2.0 ** (1.0 - 5.0 * k))
    limited = smallest_flip_probability(np.array([1.0 / k]), k)  # at most n entries
    assert limited[0] == 2.0 ** (1.0 - k)
