"""The evidence against quadrature, Monte Carlo and one-cardinality-at-a-time optimisation."""

import array_api_compat.numpy as xp
import array_api_strict
import numpy as np
import pytest
from scipy.integrate import quad
from scipy.optimize import minimize_scalar
from scipy.special import gammaln, kv
from scipy.stats import chi2, norm

from prosparse.data import DenseOperator
from prosparse.data.operators import base
from prosparse.datasets import make_globally_sparse
from prosparse.models.gsppca import evidence
from prosparse.models.gsppca.evidence import NoiselessDensity, evidence_path, search_coarse_to_fine
from prosparse.models.gsppca.noisy_density import NoisyDensity


def noiseless_density(r, q, d, b):
    """[MBL16] Theorem 2 on the active variables, with K_{(q-d)/2} and q for the misprinted p."""
    log_c = (1 - (q + d) / 2) * np.log(2) - gammaln(d / 2) - q / 2 * np.log(np.pi)
    return np.exp(log_c + (q + d) / 2 * np.log(b)) * r ** ((d - q) / 2) * kv((q - d) / 2, b * r)


def noisy_density(r, q, d, b, sigma2):
    """int N(x_v; 0, (sigma^2 + g/b^2) I_q) chi2_d(g) dg."""

    def integrand(tau):
        g = np.exp(tau)
        s = sigma2 + g / b**2
        log_f = -q / 2 * np.log(2 * np.pi * s) - r**2 / (2 * s) + chi2.logpdf(g, d) + tau
        return np.exp(log_f)

    return quad(integrand, -60, 8, limit=500, epsabs=0, epsrel=1e-10, points=[-20, -5, 0, 3])[0]


def sphere(q):
    return 2 * np.pi ** (q / 2) / np.exp(gammaln(q / 2))


def log_noiseless(r, q, d, b):
    terms = NoiselessDensity(np.array([q]), d, xp)
    squares = np.reshape(np.square(r), (-1, 1))
    return np.reshape(terms.derivatives(squares, np.array([np.log(b)]))[0], np.shape(r))[()]


def log_noisy(r, q, d, b, sigma2):
    terms = NoisyDensity(np.array([q]), d, sigma2, xp)
    squares = np.reshape(np.square(r), (-1, 1))
    return np.reshape(terms.derivatives(squares, np.array([np.log(b)]))[0], np.shape(r))[()]


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (5, 2), (9, 4), (12, 12)])
@pytest.mark.parametrize("b", [0.4, 3.0])
def test_noiseless_density_is_the_theorem_and_integrates_to_one(q, d, b):
    for r in (0.01, 0.5, 4.0):
        expected = np.log(noiseless_density(r, q, d, b))
        assert log_noiseless(r, q, d, b) == pytest.approx(expected, rel=1e-12)

    def shell(u):  # r = e^u
        return np.exp(log_noiseless(np.exp(u), q, d, b) + q * u) * sphere(q)

    assert quad(shell, -60, np.log(200 / b), limit=300)[0] == pytest.approx(1, rel=1e-7)


@pytest.mark.parametrize(("q", "d"), [(2, 1), (3, 1), (5, 2), (9, 4), (12, 12)])
@pytest.mark.parametrize("sigma2", [0.01, 2.0])
def test_noisy_density_is_the_integral_and_integrates_to_one(q, d, sigma2):
    b = 1.3
    for r in (0.01, 0.5, 4.0):
        expected = np.log(noisy_density(r, q, d, b, sigma2))
        assert log_noisy(r, q, d, b, sigma2) == pytest.approx(expected, abs=1e-5)

    # over the shells r = e^u: the trapezoid rule is exact where both ends are flat
    u = np.linspace(-12, 6, 2001)
    log_p = log_noisy(np.exp(u), q, d, b, sigma2)
    assert np.trapezoid(np.exp(log_p + q * u) * sphere(q), u) == pytest.approx(1, rel=1e-5)


@pytest.mark.parametrize(("q", "d", "sigma2"), [(3, 2, 0.0), (4, 2, 0.3), (6, 3, 0.0)])
def test_densities_agree_with_monte_carlo(q, d, sigma2, rng):
    """P(|x_v| < r) by drawing W and y."""
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
def test_noisy_tends_to_noiseless(q, d):
    r, b = 1.7 * np.sqrt(q), 0.9
    gaps = [abs(log_noisy(r, q, d, b, s) - log_noiseless(r, q, d, b)) for s in (1e-2, 1e-4, 1e-8)]
    assert gaps[0] > gaps[1]
    assert gaps[2] < 1e-5


@pytest.mark.parametrize("d", [1, 3, 20])
def test_slopes_are_derivatives(d, rng):
    q = np.array([d, d + 1, d + 2, 2 * d + 7, 500])
    r2 = rng.gamma(2.0, 1.0, (4, 5)) * q
    log_b = rng.normal(size=5)
    for terms in (NoiselessDensity(q, d, xp), NoisyDensity(q, d, 0.5, xp)):
        step = 1e-4
        low, mid, high = (terms.derivatives(r2, log_b + s * step)[0] for s in (-1, 0, 1))
        _, first, second = terms.derivatives(r2, log_b)
        np.testing.assert_allclose(first, (high - low) / (2 * step), rtol=1e-4, atol=1e-4)
        np.testing.assert_allclose(second, (high - 2 * mid + low) / step**2, rtol=2e-3, atol=2e-3)


def slow_path(X, order, d, noise, cardinalities, kind):
    """One cardinality at a time, by a scalar optimiser, from the densities above."""
    path = []
    for q in cardinalities:
        active, inactive = X[:, order[:q]], X[:, order[q:]]
        r = np.linalg.norm(active, axis=1)

        def minus(log_b, q=q, r=r):
            if kind == "noiseless":
                return -np.sum(log_noiseless(r, q, d, np.exp(log_b)))
            return -np.sum(log_noisy(r, q, d, np.exp(log_b), noise))

        best = minimize_scalar(minus, bracket=(-1, 1), tol=1e-9)
        path.append(-best.fun + norm.logpdf(inactive, scale=np.sqrt(noise)).sum())
    return np.array(path)


@pytest.mark.parametrize("kind", ["noiseless", "noisy"])
@pytest.mark.parametrize("d", [1, 3])
def test_path_equals_one_cardinality_at_a_time(kind, d):
    X = make_globally_sparse(9, 8, n_components=d, n_informative=5, random_state=1).X
    X = X - X.mean(0)
    order = np.argsort(-X.var(0))
    q = np.arange(d + 1, 9)
    ours = evidence_path(DenseOperator(X), order, d, 0.3, q, kind=kind)
    np.testing.assert_allclose(ours.log_evidence, slow_path(X, order, d, 0.3, q, kind), rtol=1e-7)
    np.testing.assert_array_equal(ours.cardinalities, q)


@pytest.mark.parametrize("kind", ["noiseless", "noisy"])
def test_blocks_and_other_libraries_change_nothing(monkeypatch, kind):
    X = make_globally_sparse(40, 30, random_state=1).X
    X = X - X.mean(0)
    order, q = np.argsort(-X.var(0)), np.arange(6, 31)
    whole = evidence_path(DenseOperator(X), order, 5, 0.3, q, kind=kind)
    strict = evidence_path(DenseOperator(array_api_strict.asarray(X)), order, 5, 0.3, q, kind=kind)
    np.testing.assert_allclose(strict.log_evidence, whole.log_evidence, rtol=1e-12)
    monkeypatch.setattr(base.row_slices, "__defaults__", (100,))
    parts = evidence_path(DenseOperator(X), order, 5, 0.3, q, kind=kind)
    np.testing.assert_allclose(parts.log_evidence, whole.log_evidence, rtol=1e-12)


def test_a_row_at_the_mean_gives_a_finite_path():
    X = np.vstack([make_globally_sparse(20, 10, random_state=1, n_components=2).X, np.zeros(10)])
    path = evidence_path(DenseOperator(X), np.arange(10), 2, 0.3, np.arange(3, 11))
    assert np.all(np.isfinite(path.log_evidence))


@pytest.mark.parametrize("noise", [1e-40, 0.3])
def test_a_row_at_the_mean_counts_as_one_close_to_it(noise):
    """A tenth of the noise away, or 1e-12 of the usual distance where that is more."""
    X = make_globally_sparse(20, 6, random_state=1, n_components=2, n_informative=4).X
    X[0] = 0.0
    q = np.array([6])
    near, further = X.copy(), X.copy()
    near[0, 3] = max(1e-12 * np.sqrt(np.sum(X**2) / 20), 0.1 * np.sqrt(noise * 6))
    further[0, 3] = 10 * near[0, 3]
    at, close, away = (
        evidence_path(DenseOperator(table), np.arange(6), 2, noise, q)
        for table in (X, near, further)
    )
    assert at.log_evidence > away.log_evidence + 1.0
    np.testing.assert_allclose(at.log_evidence, close.log_evidence, rtol=1e-6)


@pytest.mark.parametrize(("low", "high", "count"), [(0, 999, 40), (5, 60, 20), (7, 9, 12)])
def test_positions_are_spread_and_denser_at_the_low_end(low, high, count):
    half = count // 2
    even = {round(low + (high - low) * k / (half - 1)) for k in range(half)}
    dense = {round(low - 1 + (high - low + 1) ** (k / (half - 1))) for k in range(half)}
    np.testing.assert_array_equal(evidence._spaced_indices(low, high, count), sorted(even | dense))


@pytest.mark.parametrize("peak", [3, 40, 700, 2999, 3002])
def test_from_coarse_to_fine_the_maximum_is_found(peak):
    """In few evaluations, none of them twice, with every cardinality around the best."""
    asked, rounds = [], []

    def evaluate(q):
        asked.extend(q)
        rounds.append(q.size)
        return -np.abs(q - peak) / peak

    q, values = search_coarse_to_fine(evaluate, np.arange(3, 3003))
    assert len(set(asked)) == len(asked) < 500
    assert len(rounds) <= 2
    np.testing.assert_array_equal(q, np.sort(asked))
    np.testing.assert_array_equal(values, -np.abs(q - peak) / peak)
    assert set(range(max(peak - 2, 3), min(peak + 3, 3003))) <= set(q)
    assert set(np.arange(3, 3003)[evidence._spaced_indices(0, 2999, evidence.GRID_SIZE)]) <= set(q)


def test_few_cardinalities_are_all_tried():
    q, values = search_coarse_to_fine(lambda q: -1.0 * q, np.arange(5, 5 + evidence.GRID_SIZE))
    np.testing.assert_array_equal(q, np.arange(5, 5 + evidence.GRID_SIZE))
    np.testing.assert_array_equal(values, -1.0 * q)


@pytest.mark.parametrize("rows", [6, 60])
def test_looking_ahead_changes_nothing(monkeypatch, rows):
    """The maximiser sought at some cardinalities and interpolated between, on a sample or not."""
    X = make_globally_sparse(60, 80, n_components=3, n_informative=20, random_state=1).X
    op, q = DenseOperator(X - X.mean(0)), np.arange(4, 81)
    order = np.argsort(-X.var(0))
    whole = evidence_path(op, order, 3, 0.3, q)
    monkeypatch.setattr(evidence, "N_NODES", 12)
    if rows < 60:
        monkeypatch.setattr(evidence, "MAX_RADII", rows * 80)
    ahead = evidence_path(op, order, 3, 0.3, q)
    np.testing.assert_allclose(ahead.log_evidence, whole.log_evidence, rtol=1e-8)
    np.testing.assert_allclose(ahead.log_b, whole.log_b, atol=1e-5)
    models = evidence.NestedModels(op, order, 3, 0.3, "noiseless")
    models._initialise_nodes(q)
    guides = q[evidence._spaced_indices(0, 76, 12)]
    np.testing.assert_array_equal(models.nodes[0], guides)
    sample = evidence.NestedModels(op.sample_rows(rows), order, 3, 0.3, "noiseless")
    found = sample.path(guides).log_b
    np.testing.assert_allclose(models.nodes[1], found - sample.moment_estimate(guides), atol=1e-5)


def test_a_search_on_a_large_table_ends_at_the_same_model(monkeypatch):
    X = make_globally_sparse(40, 200, n_components=3, n_informative=20, random_state=1).X
    op, q = DenseOperator(X - X.mean(0)), np.arange(4, 201)
    given = op, np.argsort(-X.var(0)), 3, 0.3, "noiseless"

    def log_prior(q):
        return -0.1 * q

    every, whole = evidence.NestedModels(*given).search(q, log_prior)
    np.testing.assert_array_equal(every, q)
    np.testing.assert_allclose(whole, evidence_path(*given[:4], q).log_evidence - 0.1 * q)
    monkeypatch.setattr(evidence, "MAX_ENTRIES_EXHAUSTIVE", 7999)
    monkeypatch.setattr(evidence, "GRID_SIZE", 20)
    some, values = evidence.NestedModels(*given).search(q, log_prior)
    assert some.size < q.size / 2
    np.testing.assert_allclose(values, whole[some - 4], rtol=1e-8)
    assert some[np.argmax(values)] == q[np.argmax(whole)]


@pytest.mark.parametrize("sigma2", [1e-9, 0.01, 2.0])
@pytest.mark.parametrize(("q", "d"), [(4, 4), (7, 2), (300, 20)])
def test_the_peak_of_the_noisy_integrand_and_its_width(q, d, sigma2):
    """By a scalar search and by differences; where q is near d the flat top counts as well."""
    terms = NoisyDensity(np.array([q]), d, sigma2, xp)
    for b in (0.05, 1.0, 30.0):
        for r2 in (1e-4, 0.5 * q, 50.0 * q):

            def log_f(tau, r2=r2, b=b):
                g = np.exp(tau)
                s = sigma2 + g / b**2
                return -q / 2 * np.log(s) - r2 / (2 * s) + d / 2 * tau - g / 2

            grid = np.linspace(-40, 10, 2001)
            top = grid[np.argmax(log_f(grid))]
            mode = minimize_scalar(
                lambda tau: -log_f(tau), bounds=(top - 0.1, top + 0.1), options={"xatol": 1e-9}
            ).x
            bend = (log_f(mode + 1e-3) - 2 * log_f(mode) + log_f(mode - 1e-3)) / 1e-6
            shelf = np.log(d) - np.log(max(r2, sigma2 * q) * b**2 / q)
            reach = min(shelf, 2 / (q - d + 1e-3))
            ours = terms._peak(np.array([[r2]]), np.array([b**-2]), np.array([1.0 * q]))
            assert ours[0][0, 0] == pytest.approx(mode, abs=1e-5)
            expected = max(max(-bend, 1e-3) ** -0.5, 0.25 * reach)
            assert ours[1][0, 0] == pytest.approx(expected, rel=1e-3)
