"""Number of components: comparison with the formulas of the papers."""

import math

import numpy as np
import pytest

from prosparse import ManyComponentsWarning
from prosparse.datasets import make_globally_sparse
from prosparse.selection import dimension
from prosparse.selection.dimension import (
    MAX_COUNTED,
    count_signals,
    estimate_n_components,
    impute_by_pca,
    variational_count,
)
from prosparse.selection.noise import bias_corrected

SHAPES = [(300, 12, 3), (60, 40, 4), (40, 100, 3)]
RULES = [count_signals, variational_count]


def simulated(n, p, d, strength=3.0, seed=0):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((p, d)))[0] * strength * np.sqrt(1 + p / n)
    X = rng.standard_normal((n, d)) @ W.T + rng.standard_normal((n, p))
    return X - X.mean(axis=0)


def eigenvalues(X):
    centred = X - X.mean(axis=0)
    return np.linalg.svd(centred, compute_uv=False)[: min(X.shape[0] - 1, X.shape[1])] ** 2


@pytest.mark.parametrize("rule", RULES)
def test_strong_components_are_counted(rule):
    assert rule(eigenvalues(simulated(500, 20, 4, strength=5.0)), 500, 20) == 4


@pytest.mark.parametrize(("n", "p"), [(50, 150), (100, 100), (300, 40)])
def test_number_of_simulated_components(n, p):
    n_correct = 0
    for seed in range(10):
        X = make_globally_sparse(
            n, p, n_components=6, n_informative=20, noise=0.3, random_state=seed
        ).X
        n_correct += count_signals(eigenvalues(X), n, p) == 6
    assert n_correct >= 9


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize(("n", "p"), [(40, 200), (200, 40)])
def test_noise_has_no_components(n, p, rule):
    counts = [
        rule(eigenvalues(np.random.default_rng(seed).standard_normal((n, p))), n, p)
        for seed in range(20)
    ]
    assert np.mean(np.array(counts) == 0) >= 0.9


def iterated_variational_count(X, max_count, sweeps=4000):
    """Count the components that remain after coordinate ascent on the variational bound.

    X (m, p) = A B' + noise with posteriors q(A) q(B). The prior scales of the components and the
    noise variance maximise the bound. Near the threshold the ascent may find a local maximum with
    one component too many.
    """
    m, p = X.shape
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    A, B = U[:, :max_count] * np.sqrt(s[:max_count]), Vt[:max_count].T * np.sqrt(s[:max_count])
    SA, SB = np.eye(max_count), np.eye(max_count)
    a = b = np.ones(max_count) * 10.0
    noise = np.var(X)
    for _ in range(sweeps):
        SA = noise * np.linalg.inv(B.T @ B + p * SB + noise * np.diag(1 / a))
        A = X @ B @ SA / noise
        SB = noise * np.linalg.inv(A.T @ A + m * SA + noise * np.diag(1 / b))
        B = X.T @ A @ SB / noise
        a = np.maximum(np.sum(A**2, axis=0) / m + np.diag(SA), 1e-12)
        b = np.maximum(np.sum(B**2, axis=0) / p + np.diag(SB), 1e-12)
        square = np.trace((A.T @ A + m * SA) @ (B.T @ B + p * SB))
        noise = (np.sum(X**2) - 2 * np.sum(X * (A @ B.T)) + square) / (m * p)
    sizes = np.linalg.norm(A, axis=0) * np.linalg.norm(B, axis=0)
    return int(np.sum(sizes > 1e-3 * s[0]))


@pytest.mark.parametrize(
    ("n", "p", "d", "strength"), [(60, 10, 3, 2.0), (20, 40, 2, 3.0), (40, 30, 4, 2.5)]
)
def test_variational_count_equals_that_of_coordinate_ascent(n, p, d, strength):
    X = simulated(n, p, d, strength)
    rows = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T @ X
    expected = iterated_variational_count(rows, 8)
    assert 0 < expected < 8
    assert variational_count(eigenvalues(X), n, p) == expected


@pytest.mark.parametrize("rule", RULES)
def test_degenerate_spectra(rule):
    one = np.array([5.0, 1e-16, 1e-17])
    assert rule(one, 20, 6) == rule(one[:1], 20, 6) == 1
    assert rule(np.zeros(3), 20, 6) == rule(np.empty(0), 20, 6) == 0
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 30))
    assert rule(eigenvalues(low_rank), 8, 30) == 2
    assert rule(200.0 * np.array([100.0, 1, 1, 1, 1, 1]), 200, 6) == 1


@pytest.mark.parametrize("size", [1e-300, 1e-240, 1e240, 1e300])
def test_count_does_not_depend_on_the_unit(size):
    values = np.array([50.0, 30.0, 1.2, 1.1, 1.0, 0.9, 0.8, 0.7]) * 20
    assert count_signals(size * values, 20, 8) == count_signals(values, 20, 8) == 2
    assert count_signals(size * values, 20, 8, 1.2 * size) == count_signals(values, 20, 8, 1.2)


@pytest.mark.parametrize(("n", "p"), [(400, 60), (50, 200)])
def test_imputation_before_counting(n, p, rng):
    """Zeros for missing entries give too many components; imputed entries at most one."""
    W = rng.normal(size=(4, p)) * 2
    truth = rng.normal(size=(n, 4)) @ W + rng.normal(size=(n, p))
    truth -= truth.mean(axis=0)
    observed = rng.random((n, p)) > 0.1
    with_zeros = np.where(observed, truth, 0.0)

    def count(X):
        return count_signals(np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2, n, p)

    assert count(truth) == 4
    assert count(with_zeros) > 8
    for imputed in (impute_by_pca(with_zeros, observed), impute_by_pca(with_zeros, observed, 4)):
        np.testing.assert_array_equal(imputed[observed], truth[observed])
        assert 4 <= count(imputed) <= 5
        assert np.std((imputed - truth)[~observed]) < 1.15  # the noise has standard deviation 1


def noise_by_formula(values, n, p, d):
    """[PLY17]: spikes from their sample eigenvalues, bias, and corrected estimate."""
    c, sigma2 = p / n, sum(values[d:]) / (p - d)
    bias = 0.0
    for value in values[:d]:
        # value = (a + sigma2) (1 + c sigma2 / a), times a
        roots = np.roots([1.0, sigma2 * (1 + c) - value, c * sigma2**2])
        visible = np.isreal(roots).all() and roots.max() > math.sqrt(c) * sigma2
        a = roots.max() if visible else math.sqrt(c) * sigma2
        bias += math.sqrt(c / 2) * (1 + sigma2 / a)
    return sigma2 + bias * sigma2 * math.sqrt(2 * c) / (p - d)


def noise_quantile(m, p, k):
    """[KN08] (13), Johnstone (2001), Ma (2012): 99.9 % quantile of the largest eigenvalue of m rows
    and p - k columns of unit noise."""
    a, b = m - 1 / 2, max(p - k - 1 / 2, 1 / 2)
    centre = (math.sqrt(a) + math.sqrt(b)) ** 2
    scale = math.sqrt(centre) * (a**-0.5 + b**-0.5) ** (1 / 3)
    return centre + 3.2724 * scale


@pytest.mark.parametrize(("n", "p"), [(31, 12), (12, 31), (5, 300), (300, 5), (20, 19)])
def test_signals_exceed_the_noise_quantile(n, p):
    """An eigenvalue just above the threshold is counted, one just below is not."""
    for k in range(min(n - 1, p) - 1):
        edge = 2.5 * noise_quantile(n - 1, p, k)
        for factor, expected in ((1 + 1e-9, k + 1), (1 - 1e-9, k)):
            signals = 1e3 * edge * np.arange(k, 0, -1)
            values = np.r_[signals, factor * edge, np.full(min(n - 1, p) - k - 1, 1e-3 * edge)]
            assert count_signals(values, n, p, noise=2.5) == expected


def test_last_direction_is_not_counted():
    """One direction remains to estimate the noise."""
    values = 10.0 ** -np.arange(6)
    assert count_signals(values, 100, 6, noise=1e-12) == 5
    assert count_signals(values, 7, 100, noise=1e-12) == 5
    assert count_signals(values[:3], 100, 6, noise=1e-12) == 3


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_count_with_estimated_noise(n, p, d):
    """Components are near the threshold."""
    counts = []
    for seed in range(40):
        strength = (p / n) ** 0.25 * (0.8 + 0.02 * seed)
        values = eigenvalues(simulated(n, p, d, strength, seed)) / (n - 1)
        for k in range(d + 2):
            noise = noise_by_formula(values, n - 1, p, k)
            assert bias_corrected(values, n - 1, p, k) == pytest.approx(noise, rel=1e-9)
            if values[k] * (n - 1) <= noise * noise_quantile(n - 1, p, k):
                break
        counts.append(k)
        assert count_signals(values * (n - 1), n, p) == k
    assert len(set(counts)) > 2


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0])
def test_components_gain_nothing_at_the_variational_threshold(alpha):
    """[NTS15] (23): the contribution to the free energy is negative above the threshold."""
    threshold = dimension._variational_threshold(alpha)

    def gain(x):
        tau = np.roots([1.0, 1.0 + alpha - x, alpha]).max()  # x = (1 + tau)(1 + alpha / tau)
        return math.log1p(tau) + alpha * math.log1p(tau / alpha) - tau

    assert threshold > (1 + math.sqrt(alpha)) ** 2
    assert gain(threshold) == pytest.approx(0.0, abs=1e-9)
    assert gain(1.001 * threshold) < 0 < gain(0.999 * threshold)


def test_auto_is_limited_with_a_warning(rng):
    many = np.sort(rng.gamma(0.05, 1e6, 400))[::-1]  # eigenvalues over many decades
    assert count_signals(many, 500, 400) > MAX_COUNTED
    with pytest.warns(ManyComponentsWarning, match="found more than 100 components"):
        assert estimate_n_components(many, 500, 400) == MAX_COUNTED
    white = eigenvalues(rng.standard_normal((500, 400)))
    assert count_signals(white, 500, 400) == 0
    assert estimate_n_components(white, 500, 400) == 1
