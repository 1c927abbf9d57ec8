"""Rules for the number of components, against slow forms typed from their papers."""

import math

import numpy as np
import pytest
from scipy.integrate import quad
from scipy.special import gammaln
from scipy.stats import multivariate_normal
from sklearn.decomposition import PCA

from prosparse.selection import dimension
from prosparse.selection.dimension import (
    bic_count,
    completed,
    count_signals,
    hard_threshold_count,
    minka_count,
    parallel_count,
    variational_count,
)
from prosparse.selection.noise import bias_corrected

SHAPES = [(300, 12, 3), (60, 40, 4), (40, 100, 3)]
RULES = [count_signals, variational_count, minka_count, bic_count, hard_threshold_count]


def table(n, p, d, strength=3.0, seed=0):
    rng = np.random.default_rng(seed)
    W = np.linalg.qr(rng.standard_normal((p, d)))[0] * strength * np.sqrt(1 + p / n)
    X = rng.standard_normal((n, d)) @ W.T + rng.standard_normal((n, p))
    return X - X.mean(axis=0)


def eigenvalues(X):
    return np.linalg.svd(X, compute_uv=False)[: min(X.shape[0] - 1, X.shape[1])] ** 2


@pytest.mark.parametrize("rule", RULES)
def test_strong_components_are_counted_by_all(rule):
    X = table(500, 20, 4, strength=5.0)
    assert rule(eigenvalues(X), 500, 20) == 4
    assert parallel_count(eigenvalues(X), 500, np.sum(X**2, axis=0), 0) == 4


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_units_do_not_matter(rule, scale):
    X = table(60, 40, 4, strength=2.0)
    assert rule(eigenvalues(scale * X), 60, 40) == rule(eigenvalues(X), 60, 40)


def test_noise_alone_has_no_component():
    """Those that may answer zero do; Minka's and BIC compare models from one component on."""
    for seed in range(5):
        X = table(80, 30, 0, seed=seed)
        for rule in (count_signals, variational_count):
            assert rule(eigenvalues(X), 80, 30) == 0
        assert parallel_count(eigenvalues(X), 80, np.sum(X**2, axis=0), seed) <= 1


def slow_minka(values, n, p):
    """[M00] (30), every pair written out."""
    values = np.concatenate([values / n, np.zeros(p - values.size)])
    rank = int(np.sum(values > 1e-12 * values[0]))
    evidences = []
    for k in range(1, min(rank, p)):
        v = values[k:].sum() / (p - k)
        model = np.where(np.arange(p) < k, values, v)
        log_u = sum(
            gammaln((p - i) / 2) - (p - i) / 2 * math.log(math.pi) - math.log(2) for i in range(k)
        )
        log_det = sum(
            math.log((1 / model[j] - 1 / model[i]) * (values[i] - values[j])) + math.log(n)
            for i in range(k)
            for j in range(i + 1, p)
        )
        m = p * k - k * (k + 1) / 2
        evidences.append(
            log_u
            - n / 2 * np.log(values[:k]).sum()
            - n * (p - k) / 2 * math.log(v)
            + (m + k) / 2 * math.log(2 * math.pi)
            - log_det / 2
            - k / 2 * math.log(n)
        )
    return int(np.argmax(evidences)) + 1


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("strength", [0.7, 1.2, 3.0])
def test_minka_is_the_formula_of_the_paper(n, p, d, strength):
    values = eigenvalues(table(n, p, d, strength))
    assert minka_count(values, n, p) == slow_minka(values, n, p)


@pytest.mark.parametrize("strength", [0.3, 0.5, 3.0])
def test_minka_is_that_of_scikit_learn_where_n_is_large(strength):
    X = table(2000, 12, 3, strength)
    assert minka_count(eigenvalues(X), 2000, 12) == PCA("mle").fit(X).n_components_


def test_bic_is_that_of_the_normal_law():
    X = table(60, 10, 3, strength=1.2)
    values, vectors = np.linalg.eigh(X.T @ X / 60)
    values, vectors = values[::-1], vectors[:, ::-1]
    criterion = []
    for k in range(1, 10):
        noise = values[k:].mean()
        V = vectors[:, :k]
        covariance = V @ np.diag(values[:k] - noise) @ V.T + noise * np.eye(10)
        law = multivariate_normal(np.zeros(10), covariance)
        n_free = 10 * k - k * (k - 1) / 2 + 1
        criterion.append(law.logpdf(X).sum() - 0.5 * n_free * np.log(60))
    assert bic_count(60 * values, 60, 10) == int(np.argmax(criterion)) + 1


def slow_variational(X, most, sweeps=4000):
    """Components left by variational matrix factorisation, its five updates in turn (which
    near the threshold can stop at a local maximum with one too many).

    X (m, p) = A B' + noise, q(A) q(B), rows with one covariance each; the scale of every
    component's prior on both sides and the noise variance are those that maximise the bound.
    """
    m, p = X.shape
    U, s, Vt = np.linalg.svd(X, full_matrices=False)
    A, B = U[:, :most] * np.sqrt(s[:most]), Vt[:most].T * np.sqrt(s[:most])
    SA, SB = np.eye(most), np.eye(most)
    a = b = np.ones(most) * 10.0
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
def test_the_variational_count_is_that_of_its_iteration(n, p, d, strength):
    X = table(n, p, d, strength)
    rows = np.linalg.qr(np.column_stack([np.ones(n), np.eye(n)[:, 1:]]))[0][:, 1:].T @ X
    slow = slow_variational(rows, 8)
    assert 0 < slow < 8
    assert variational_count(eigenvalues(X), n, p) == slow


@pytest.mark.parametrize("beta", [0.1, 0.3, 0.5, 0.8, 1.0])
def test_the_hard_threshold_is_the_published_one(beta):
    """[GD14] (5): the cubic that the authors fitted to their table, good to 0.02."""
    n, p = 2002, round(2001 / beta)
    cubic = 0.56 * beta**3 - 0.95 * beta**2 + 1.82 * beta + 1.43
    for factor, expected in ((1.03, 1), (0.97, 0)):
        values = np.r_[(factor * cubic) ** 2, np.ones(1001), np.zeros(999)]  # median 1
        assert hard_threshold_count(values, n, p) == expected


def test_the_median_of_noise_by_simulation():
    Z = np.random.default_rng(0).standard_normal((2000, 600))
    simulated = np.median(np.linalg.eigvalsh(Z.T @ Z / 2000))
    assert dimension._marchenko_pastur_median(0.3) == pytest.approx(simulated, rel=0.01)


def test_parallel_analysis_may_count_all_directions():
    values = np.array([9.0, 8.0, 7.0])  # of columns that would have hardly any variance
    assert parallel_count(values, 50, np.full(3, 1e-3), 0) == 3


def test_parallel_analysis_allows_for_different_variances():
    rng = np.random.default_rng(0)
    X = table(100, 30, 0) * np.exp(rng.standard_normal(30))
    squares = np.sum(X**2, axis=0)
    assert parallel_count(eigenvalues(X), 100, squares, 0) <= 1
    assert count_signals(eigenvalues(X), 100, 30) > 3


@pytest.mark.parametrize("rule", RULES)
def test_degenerate_spectra(rule):
    """One direction is one component, none is none; rounding is not counted; ties are no signal."""
    one = np.array([5.0, 1e-16, 1e-17])
    assert rule(one, 20, 6) == rule(one[:1], 20, 6) == 1
    assert rule(np.zeros(3), 20, 6) == rule(np.empty(0), 20, 6) == 0
    rng = np.random.default_rng(0)
    low_rank = rng.standard_normal((8, 2)) @ rng.standard_normal((2, 30))
    assert rule(eigenvalues(low_rank - low_rank.mean(axis=0)), 8, 30) == 2
    if rule is not minka_count:  # whose approximation has no curvature between equal eigenvalues
        assert rule(200.0 * np.array([100.0, 1, 1, 1, 1, 1]), 200, 6) == 1


@pytest.mark.parametrize("size", [1e-300, 1e-240, 1e240, 1e300])
def test_signals_are_counted_in_any_unit(size):
    values = np.array([50.0, 30.0, 1.2, 1.1, 1.0, 0.9, 0.8, 0.7]) * 20
    assert count_signals(size * values, 20, 8) == count_signals(values, 20, 8) == 2
    assert count_signals(size * values, 20, 8, 1.2 * size) == count_signals(values, 20, 8, 1.2)


@pytest.mark.parametrize(("n", "p"), [(400, 60), (50, 200)])
def test_holes_are_filled_before_counting(n, p, rng):
    """Zeros in place of signal look like more signals; filled, hardly one too many is counted."""
    W = rng.normal(size=(4, p)) * 2
    truth = rng.normal(size=(n, 4)) @ W + rng.normal(size=(n, p))
    truth -= truth.mean(axis=0)
    seen = rng.random((n, p)) > 0.1
    holes = np.where(seen, truth, 0.0)

    def count(X):
        return count_signals(np.linalg.svd(X - X.mean(axis=0), compute_uv=False) ** 2, n, p)

    assert count(truth) == 4
    assert count(holes) > 8
    for full in (completed(holes, seen), completed(holes, seen, 4)):
        np.testing.assert_array_equal(full[seen], truth[seen])
        assert 4 <= count(full) <= 5
        assert np.std((full - truth)[~seen]) < 1.15  # of which 1 is noise that nobody knows


def slow_noise(values, n, p, d):
    """[PLY17]: the spikes from their sample eigenvalues, the bias, and the estimate without it."""
    c, sigma2 = p / n, sum(values[d:]) / (p - d)
    bias = 0.0
    for value in values[:d]:
        # value = (a + sigma2) (1 + c sigma2 / a), times a
        roots = np.roots([1.0, sigma2 * (1 + c) - value, c * sigma2**2])
        visible = np.isreal(roots).all() and roots.max() > math.sqrt(c) * sigma2
        a = roots.max() if visible else math.sqrt(c) * sigma2
        bias += math.sqrt(c / 2) * (1 + sigma2 / a)
    return sigma2 + bias * sigma2 * math.sqrt(2 * c) / (p - d)


def largest_of_noise(m, p, k):
    """[KN08] (13) after Johnstone (2001) and Ma (2012): centre and scale of the largest eigenvalue
    of m rows of p - k columns of unit noise, and where it is with probability 0.1 %."""
    a, b = m - 1 / 2, max(p - k - 1 / 2, 1 / 2)
    centre = (math.sqrt(a) + math.sqrt(b)) ** 2
    scale = math.sqrt(centre) * (a**-0.5 + b**-0.5) ** (1 / 3)
    return centre + 3.2724 * scale


@pytest.mark.parametrize(("n", "p"), [(31, 12), (12, 31), (5, 300), (300, 5), (20, 19)])
def test_a_signal_is_what_the_largest_of_noise_is_not(n, p):
    """A hair above its threshold an eigenvalue counts, a hair below it does not."""
    for k in range(min(n - 1, p) - 1):
        edge = 2.5 * largest_of_noise(n - 1, p, k)
        for factor, expected in ((1 + 1e-9, k + 1), (1 - 1e-9, k)):
            signals = 1e3 * edge * np.arange(k, 0, -1)
            values = np.r_[signals, factor * edge, np.full(min(n - 1, p) - k - 1, 1e-3 * edge)]
            assert count_signals(values, n, p, noise=2.5) == expected


def test_the_last_direction_is_noise():
    """One direction is left to estimate the noise from, however small it is."""
    values = 10.0 ** -np.arange(6)
    assert count_signals(values, 100, 6, noise=1e-12) == 5
    assert count_signals(values, 7, 100, noise=1e-12) == 5
    assert count_signals(values[:3], 100, 6, noise=1e-12) == 3


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_counts_with_an_estimated_noise(n, p, d):
    """Tables whose components are near the threshold."""
    counts = []
    for seed in range(40):
        strength = (p / n) ** 0.25 * (0.8 + 0.02 * seed)
        values = eigenvalues(table(n, p, d, strength, seed)) / (n - 1)
        for k in range(d + 2):
            noise = slow_noise(values, n - 1, p, k)
            assert bias_corrected(values, n - 1, p, k) == pytest.approx(noise, rel=1e-9)
            if values[k] * (n - 1) <= noise * largest_of_noise(n - 1, p, k):
                break
        counts.append(k)
        assert count_signals(values * (n - 1), n, p) == k
    assert len(set(counts)) > 2


@pytest.mark.parametrize("alpha", [0.01, 0.3, 1.0])
def test_at_the_variational_threshold_a_component_gains_nothing(alpha):
    """[NTS15] (23): the share of a component in the free energy, negative above the threshold."""
    least = dimension._variational_threshold(alpha)

    def gain(x):
        tau = np.roots([1.0, 1.0 + alpha - x, alpha]).max()  # x = (1 + tau)(1 + alpha / tau)
        return math.log1p(tau) + alpha * math.log1p(tau / alpha) - tau

    assert least > (1 + math.sqrt(alpha)) ** 2
    assert gain(least) == pytest.approx(0.0, abs=1e-9)
    assert gain(1.001 * least) < 0 < gain(0.999 * least)


@pytest.mark.parametrize("beta", [0.05, 0.3, 0.8, 1.0])
def test_half_of_the_noise_is_below_its_median(beta):
    """The law of Marchenko and Pastur, integrated."""
    low, high = (1 - math.sqrt(beta)) ** 2, (1 + math.sqrt(beta)) ** 2
    median = dimension._marchenko_pastur_median(beta)

    def density(x):
        return math.sqrt(max((high - x) * (x - low), 0.0)) / (2 * math.pi * beta * x)

    assert quad(density, low, median, limit=200)[0] == pytest.approx(0.5, abs=2e-4)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_parallel_analysis_by_simulation(n, p, d):
    """The same draws, each decomposed as a table."""
    counts = set()
    for seed in range(6):
        X = table(n, p, d, strength=0.6 + 0.3 * seed, seed=seed)
        squares, values = np.sum(X**2, axis=0), eigenvalues(X)
        rng, null = np.random.default_rng(seed), []
        for _ in range(40):
            Z = rng.standard_normal((n, p)) * np.sqrt(squares / (n - 1))
            null.append(eigenvalues(Z - Z.mean(axis=0)))
        edge = np.quantile(null, 0.95, axis=0)
        count = next(k for k in range(values.size + 1) if k == values.size or values[k] <= edge[k])
        assert parallel_count(values, n, squares, seed) == count
        counts.add(count)
    assert len(counts) > 1
