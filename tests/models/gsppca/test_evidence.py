"""Evidence, compared with quadrature, Monte Carlo and scalar optimisation."""

import array_api_compat.numpy as xp
import array_api_strict
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, kv, logsumexp
from scipy.stats import chi2, norm

from prosparse.data import DenseOperator
from prosparse.data.operators import base
from prosparse.datasets import make_globally_sparse
from prosparse.models.gsppca import evidence
from prosparse.models.gsppca.evidence import NestedModels, NoiselessDensity, search_coarse_to_fine
from prosparse.models.gsppca.noisy_density import NoisyDensity


def noiseless_density(r, q, d, b):
    """Compute [MBL16] Theorem 2 for the active variables, misprints corrected."""
    log_c = (1 - (q + d) / 2) * np.log(2) - gammaln(d / 2) - q / 2 * np.log(np.pi)
    return np.exp(log_c + (q + d) / 2 * np.log(b)) * r ** ((d - q) / 2) * kv((q - d) / 2, b * r)


def noisy_density(r, q, d, b, sigma2):
    """Integrate N(x_v; 0, (sigma^2 + g/b^2) I_q) chi2_d(g) over g."""

    def integrand(tau):
        g = np.exp(tau)
        s = sigma2 + g / b**2
        log_f = -q / 2 * np.log(2 * np.pi * s) - r**2 / (2 * s) + chi2.logpdf(g, d) + tau
        return np.exp(log_f)

    return quad(integrand, -60, 8, limit=500, epsabs=0, epsrel=1e-10, points=[-20, -5, 0, 3])[0]


def sphere(q):
    """Return the area of the unit sphere in q dimensions."""
    return 2 * np.pi ** (q / 2) / np.exp(gammaln(q / 2))


def log_noiseless(r, q, d, b):
    density = NoiselessDensity(np.array([q]), d, xp)
    squares = np.reshape(np.square(r), (-1, 1))
    return np.reshape(density.derivatives(squares, np.array([np.log(b)]))[0], np.shape(r))[()]


def log_noisy(r, q, d, b, sigma2):
    density = NoisyDensity(np.array([q]), d, sigma2, xp)
    squares = np.reshape(np.square(r), (-1, 1))
    return np.reshape(density.derivatives(squares, np.array([np.log(b)]))[0], np.shape(r))[()]


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (5, 2), (9, 4), (12, 12)])
@pytest.mark.parametrize("b", [0.4, 3.0])
def test_noiseless_density_equals_the_theorem_and_integrates_to_one(q, d, b):
    for r in (0.01, 0.5, 4.0):
        expected = np.log(noiseless_density(r, q, d, b))
        assert log_noiseless(r, q, d, b) == pytest.approx(expected, rel=1e-12)

    def shell(u):  # r = e^u
        return np.exp(log_noiseless(np.exp(u), q, d, b) + q * u) * sphere(q)

    assert quad(shell, -60, np.log(200 / b), limit=300)[0] == pytest.approx(1, rel=1e-7)


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (5, 2), (9, 4), (12, 12)])
@pytest.mark.parametrize("sigma2", [0.01, 2.0])
def test_noisy_density_equals_quadrature_and_integrates_to_one(q, d, sigma2):
    b = 1.3
    for r in (0.01, 0.5, 4.0):
        expected = np.log(noisy_density(r, q, d, b, sigma2))
        assert log_noisy(r, q, d, b, sigma2) == pytest.approx(expected, abs=1e-5)

    # The integrand vanishes at both ends of r = e^u, so that the trapezoid rule is accurate.
    u = np.linspace(-12, 6, 2001)
    log_p = log_noisy(np.exp(u), q, d, b, sigma2)
    assert np.trapezoid(np.exp(log_p + q * u) * sphere(q), u) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("q", "d", "sigma2"), [(3, 2, 0.0), (4, 2, 0.3), (6, 3, 0.0)])
def test_densities_agree_with_monte_carlo(q, d, sigma2, rng):
    """Compare P(|x_v| < r) with draws of W and y."""
    b = 1.5
    W = rng.standard_normal((200_000, q, d)) / b
    x = np.einsum("iqd,id->iq", W, rng.standard_normal((200_000, d)))
    x += np.sqrt(sigma2) * rng.standard_normal(x.shape)
    norms = np.linalg.norm(x, axis=1)

    def shell(r):
        log_p = log_noisy(r, q, d, b, sigma2) if sigma2 else log_noiseless(r, q, d, b)
        return np.exp(log_p) * sphere(q) * r ** (q - 1)

    for r in (0.5, 1.5, 3.0):
        below = quad(shell, 1e-9, r, epsrel=1e-6)[0]
        assert np.mean(norms < r) == pytest.approx(below, abs=0.005)


@pytest.mark.parametrize(("q", "d"), [(4, 2), (30, 5), (400, 10), (3000, 30)])
def test_noisy_density_converges_to_the_noiseless_one(q, d):
    r, b = 1.7 * np.sqrt(q), 0.9
    differences = [
        abs(log_noisy(r, q, d, b, s) - log_noiseless(r, q, d, b)) for s in (1e-2, 1e-4, 1e-8)
    ]
    assert differences[0] > differences[1]
    assert differences[2] < 1e-5


@pytest.mark.parametrize("d", [1, 3, 20])
def test_derivatives_equal_finite_differences(d, rng):
    q = np.array([d, d + 1, d + 2, 2 * d + 7, 500])
    r2 = rng.gamma(2.0, 1.0, (4, 5)) * q
    log_b = rng.normal(size=5)
    for density in (NoiselessDensity(q, d, xp), NoisyDensity(q, d, 0.5, xp)):
        step = 1e-4
        low, mid, high = (density.derivatives(r2, log_b + s * step)[0] for s in (-1, 0, 1))
        _, first, second = density.derivatives(r2, log_b)
        np.testing.assert_allclose(first, (high - low) / (2 * step), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second, (high - 2 * mid + low) / step**2, rtol=2e-3, atol=2e-3)


def evidence_path(op, order, d, noise, q, kind="noiseless"):
    return NestedModels(op, order, d, noise, kind).path(q)


def separate_log_evidence(X, order, d, noise, cardinalities, kind):
    """Maximise the density of each cardinality separately by a scalar optimiser."""
    path = []
    for q in cardinalities:
        active, inactive = X[:, order[:q]], X[:, order[q:]]
        r = np.linalg.norm(active, axis=1)

        def negative_log_density(log_b, q=q, r=r):
            if kind == "noiseless":
                return -np.sum(log_noiseless(r, q, d, np.exp(log_b)))
            return -np.sum(log_noisy(r, q, d, np.exp(log_b), noise))

        best = minimize_scalar(negative_log_density, bracket=(-1, 1), tol=1e-9)
        path.append(-best.fun + norm.logpdf(inactive, scale=np.sqrt(noise)).sum())
    return np.array(path)


@pytest.mark.parametrize("kind", ["noiseless", "noisy"])
@pytest.mark.parametrize("d", [1, 3])
def test_path_equals_separate_optimisation(kind, d):
    X = make_globally_sparse(9, 8, n_components=d, n_informative=5, random_state=1).X
    X = X - X.mean(0)
    order = np.argsort(-X.var(0))
    q = np.arange(d + 1, 9)
    path = evidence_path(DenseOperator(X), order, d, 0.3, q, kind=kind)
    expected = separate_log_evidence(X, order, d, 0.3, q, kind)
    np.testing.assert_allclose(path.log_evidence, expected, rtol=1e-7)
    np.testing.assert_array_equal(path.cardinalities, q)


@pytest.mark.parametrize("kind", ["noiseless", "noisy"])
def test_blocks_and_other_array_libraries_give_the_same_path(monkeypatch, kind):
    X = make_globally_sparse(40, 30, random_state=1).X
    X = X - X.mean(0)
    order, q = np.argsort(-X.var(0)), np.arange(6, 31)
    whole = evidence_path(DenseOperator(X), order, 5, 0.3, q, kind=kind)
    strict = evidence_path(DenseOperator(array_api_strict.asarray(X)), order, 5, 0.3, q, kind=kind)
    np.testing.assert_allclose(strict.log_evidence, whole.log_evidence, rtol=1e-12)
    monkeypatch.setattr(base.row_slices, "__defaults__", (100,))
    parts = evidence_path(DenseOperator(X), order, 5, 0.3, q, kind=kind)
    np.testing.assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-12)


def test_evidence_with_a_row_at_the_mean_is_finite():
    X = np.vstack([make_globally_sparse(20, 10, random_state=1, n_components=2).X, np.zeros(10)])
    path = evidence_path(DenseOperator(X), np.arange(10), 2, 0.3, np.arange(3, 11))
    assert np.all(np.isfinite(path.log_evidence))


@pytest.mark.parametrize("noise", [1e-40, 0.3])
def test_row_at_the_mean_has_the_minimum_radius(noise):
    """The minimum is a tenth of the noise, or 1e-12 of the root mean square if this is larger."""
    X = make_globally_sparse(20, 6, random_state=1, n_components=2, n_informative=4).X
    X[0] = 0.0
    q = np.array([6])
    near, far = X.copy(), X.copy()
    near[0, 3] = max(1e-12 * np.sqrt(np.sum(X**2) / 20), 0.1 * np.sqrt(noise * 6))
    far[0, 3] = 10 * near[0, 3]
    at_mean, at_minimum, beyond_minimum = (
        evidence_path(DenseOperator(data), np.arange(6), 2, noise, q).log_evidence
        for data in (X, near, far)
    )
    assert at_mean > beyond_minimum + 1.0
    np.testing.assert_allclose(at_mean, at_minimum, rtol=1e-6)


@pytest.mark.parametrize("peak", [3, 40, 700, 2999, 3002])
def test_coarse_to_fine_search_finds_the_maximum_in_few_evaluations(peak):
    evaluated = []

    def evaluate(q):
        evaluated.extend(q)
        return -np.abs(q - peak) / peak

    q, values = search_coarse_to_fine(evaluate, np.arange(3, 3003))
    assert len(set(evaluated)) == len(evaluated) < 500
    np.testing.assert_array_equal(q, np.sort(evaluated))
    np.testing.assert_array_equal(values, -np.abs(q - peak) / peak)
    assert set(range(max(peak - 2, 3), min(peak + 3, 3003))) <= set(q)


def test_coarse_to_fine_search_evaluates_few_cardinalities_exhaustively():
    q, values = search_coarse_to_fine(lambda q: -1.0 * q, np.arange(5, 5 + evidence.GRID_SIZE))
    np.testing.assert_array_equal(q, np.arange(5, 5 + evidence.GRID_SIZE))
    np.testing.assert_array_equal(values, -1.0 * q)


@pytest.mark.parametrize("rows", [6, 60])
def test_interpolated_start_gives_the_same_path(monkeypatch, rows):
    """The start is interpolated between few cardinalities, computed from a sample or all rows."""
    X = make_globally_sparse(60, 80, n_components=3, n_informative=20, random_state=1).X
    op, q = DenseOperator(X - X.mean(0)), np.arange(4, 81)
    order = np.argsort(-X.var(0))
    whole = evidence_path(op, order, 3, 0.3, q)
    monkeypatch.setattr(evidence, "N_NODES", 12)
    if rows < 60:
        monkeypatch.setattr(evidence, "MAX_RADII", rows * 80)
    interpolated = evidence_path(op, order, 3, 0.3, q)
    np.testing.assert_allclose(interpolated.log_evidence, whole.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(interpolated.log_b, whole.log_b, atol=1e-5)


def test_search_on_large_data_selects_the_same_model(monkeypatch):
    X = make_globally_sparse(40, 200, n_components=3, n_informative=20, random_state=1).X
    op, q = DenseOperator(X - X.mean(0)), np.arange(4, 201)
    arguments = op, np.argsort(-X.var(0)), 3, 0.3, "noiseless"

    def log_prior(q):
        return -0.1 * q

    every, whole = evidence.NestedModels(*arguments).search(q, log_prior)
    np.testing.assert_array_equal(every, q)
    np.testing.assert_allclose(whole, evidence_path(*arguments[:4], q).log_evidence - 0.1 * q)
    monkeypatch.setattr(evidence, "MAX_ENTRIES_EXHAUSTIVE", 7999)
    monkeypatch.setattr(evidence, "GRID_SIZE", 20)
    some, values = evidence.NestedModels(*arguments).search(q, log_prior)
    assert some.size < q.size / 2
    np.testing.assert_allclose(values, whole[some - 4], rtol=1e-8)
    assert some[np.argmax(values)] == q[np.argmax(whole)]


@pytest.mark.parametrize("sigma2", [1e-9, 0.01, 2.0])
@pytest.mark.parametrize(("q", "d"), [(1, 1), (4, 4), (7, 2), (300, 20)])
def test_noisy_density_equals_the_trapezoid_rule_on_a_fine_grid(q, d, sigma2):
    """The integrand is narrow, wide or has a plateau, depending on q, b and r."""
    tau = np.linspace(-60, 12, 200_001)
    g = np.exp(tau)
    for b in (0.05, 1.0, 30.0, 1000.0):
        s = sigma2 + g / b**2
        for r2 in (1e-4, 0.5 * q, 50.0 * q):
            log_f = norm.logpdf(0.0, scale=np.sqrt(s)) * q - r2 / (2 * s) + chi2.logpdf(g, d) + tau
            expected = logsumexp(log_f) + np.log(tau[1] - tau[0])
            assert log_noisy(np.sqrt(r2), q, d, b, sigma2) == pytest.approx(expected, abs=1e-5)
