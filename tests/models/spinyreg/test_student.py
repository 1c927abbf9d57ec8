"""Student's t noise: formulas compared with their definitions, and outliers."""

import math

import numpy as np
import pytest
from scipy import integrate, sparse, stats
from scipy.special import gamma

from prosparse import SpinyRegressor
from prosparse.data import restandardise, standardise
from prosparse.datasets import make_sparse_regression
from prosparse.models.spinyreg import student
from prosparse.models.spinyreg.response import prepare_response


def simulate(n=80, p=12, bad=4, seed=0):
    """Simulate a sparse regression with outliers in the first rows."""
    X, y, coef = make_sparse_regression(n, p, n_informative=3, random_state=seed)
    y[:bad] += 60.0 * (-1.0) ** np.arange(bad)
    return X + 1.0, y + 3.0, coef


def weight_rows(X, y, u, centre=True):
    _, columns = standardise(X, True, centre=centre)
    op, columns = restandardise(X, columns, u, centre=centre)
    return student.WeightedData(op, columns, prepare_response(y, centre, u)._replace(n=y.size))


@pytest.mark.parametrize("nu", [3.0, 50.0])
@pytest.mark.parametrize("d", [0.0, 1.0, 80.0])
def test_row_factor_equals_its_integral(d, nu):
    density = stats.gamma(0.5 * nu, scale=2.0 / nu).pdf
    value, _ = integrate.quad(
        lambda u: math.sqrt(u) * math.exp(-0.5 * u * d) * density(u), 0, 40, points=[0.1, 0.5, 1, 2]
    )
    assert student.log_factor(np.array([d]), nu)[0] == pytest.approx(math.log(value), rel=1e-6)


def test_degrees_of_freedom_maximise_the_bound():
    rng = np.random.default_rng(0)
    d, counts = rng.standard_t(5.0, 300) ** 2, rng.integers(1, 3, 300).astype(float)
    found = student.best_degrees(d, counts, 200.0)
    grid = np.geomspace(3.0, 200.0, 500)
    values = [counts @ student.log_factor(d, nu) for nu in grid]
    assert found == pytest.approx(grid[int(np.argmax(values))], rel=0.02)


@pytest.mark.parametrize("kind", [np.asarray, sparse.csr_array])
@pytest.mark.parametrize("centre", [True, False])
def test_expected_squared_residuals(centre, kind):
    """E (y - b - x'w)^2 / sigma2 from the joint posterior of intercept and coefficients."""
    X, y, _ = simulate(30, 5)
    u = np.random.default_rng(0).uniform(0.05, 1.3, 30)
    weighted = weight_rows(kind(X), y, u, centre)
    v = np.array([3, 0])
    found = student.compute_moments(weighted, v, 0.5, int(centre), 1e-12)
    scale = X.std(axis=0) if centre else np.sqrt((X**2).mean(axis=0))
    Z = X[:, v] / scale[v]
    design = np.column_stack([np.ones(30), Z]) if centre else Z
    prior = np.exp(found.fit.log_ratio) * np.diag([0.0] * centre + [1.0, 1.0])
    unit = weighted.response.column.unit
    P = np.linalg.inv((design.T * u) @ design + prior)
    mean = P @ (design.T @ (u * y / unit))
    left = (y / unit - design @ mean) ** 2 / found.fit.sigma2
    expected = left + np.einsum("ij,jk,ik->i", design, P, design)
    np.testing.assert_allclose(found.d, expected, rtol=1e-6)
    R = float(u @ (y / unit - design @ mean) ** 2 + mean @ prior @ mean)
    assert found.fit.sigma2 == pytest.approx(R / (30 - centre))


def test_bound_is_close_to_the_evidence():
    """For one variable without intercept the integral is computed numerically."""
    X, y, _ = make_sparse_regression(25, 1, n_informative=1, random_state=3)
    y[0] += 30.0
    counts = np.ones(25)

    def reweight(u):
        return weight_rows(X, y, u, centre=False)

    step = student.make_step(reweight, counts, student.SearchSettings(0, 100, 1e-7, 1e-12))
    state = student.StudentState(counts, 200.0, np.array([], dtype=int), 0.0, 1.0, -np.inf)
    for _ in range(30):
        previous, state = state, step(state)
    assert list(state.v) == [0]
    weighted = reweight(previous.u)
    found = student.compute_moments(weighted, state.v, state.log_ratio, 0, 1e-12)
    sigma, unit = math.sqrt(found.fit.sigma2[0]), weighted.response.column.unit
    x, target = X[:, 0] / math.sqrt(np.mean(X**2)), y / unit
    t, prior = (
        stats.t(state.nu, scale=sigma),
        stats.norm(0, sigma / math.exp(0.5 * state.log_ratio)),
    )
    m, s = found.fit.M[0, 0], sigma * math.sqrt(found.fit.P[0, 0])

    def log_joint(w):
        return t.logpdf(target - x * w).sum() + prior.logpdf(w)

    top = log_joint(m)
    value, _ = integrate.quad(lambda w: math.exp(log_joint(w) - top), m - 15 * s, m + 15 * s)
    # Prior of one variable relative to none: integrals of 2 (1 - r) r and 2 (1 - r)^2.
    log_prior = math.log(1 / 3 / (1 + 1 / 15**2)) - math.log(2 / 3)
    evidence = top + math.log(value) + log_prior
    assert state.bound < evidence
    assert state.bound == pytest.approx(evidence, abs=0.3)


def test_constant_of_the_t_density():
    """The factor at zero equals the constant of the t density."""
    nu = 4.0
    constant = gamma(2.5) / (gamma(2.0) * math.sqrt(nu * math.pi))
    ours = math.exp(student.log_factor(np.zeros(1), nu)[0]) / math.sqrt(2.0 * math.pi)
    assert ours == pytest.approx(constant)


# --- the estimator


@pytest.mark.parametrize("options", [{}, {"fit_intercept": False}, {"scale": False}])
@pytest.mark.parametrize("seed", range(3))
def test_the_bound_is_non_decreasing(options, seed):
    X, y, _ = simulate(seed=seed)
    model = SpinyRegressor(noise="student", average=False, **options)
    _, run = model._reweight_rows(model._prepare(X, y, None, None))
    assert np.all(np.diff(run.bounds) >= 0.0)
    assert len(run.bounds) > 3


@pytest.mark.filterwarnings("ignore::prosparse.NoStructureWarning")
def test_outliers_have_little_influence():
    X, y, coef = simulate()
    robust, plain = SpinyRegressor(noise="student").fit(X, y), SpinyRegressor().fit(X, y)
    assert np.array_equal(robust.support_, coef != 0)
    wrong = [np.linalg.norm(model.coef_ - coef) for model in (robust, plain)]
    assert wrong[0] < 0.5 * wrong[1]
    assert list(np.flatnonzero(robust.row_weight_ < 0.05)) == [0, 1, 2, 3]
    assert robust.degrees_of_freedom_ < 5.0
    assert robust.intercept_ + robust.mean_ @ robust.coef_ == pytest.approx(
        np.average(y, weights=robust.row_weight_), abs=1e-6
    )
    deviation = robust.predict(X, return_std=True)[1]
    assert np.all(deviation >= math.sqrt(robust.noise_variance_))
    assert not hasattr(plain, "row_weight_")


def test_gaussian_noise_gives_the_gaussian_fit():
    X, y, _ = make_sparse_regression(100, 20, n_informative=4, random_state=0)
    robust, plain = (SpinyRegressor(noise=noise).fit(X, y) for noise in ("student", "gaussian"))
    assert np.array_equal(robust.support_, plain.support_)
    np.testing.assert_allclose(robust.coef_, plain.coef_, atol=0.1)
    assert robust.degrees_of_freedom_ > 8.0
    assert robust.row_weight_.mean() > 0.9


@pytest.mark.filterwarnings("ignore::prosparse.DuplicateRowsWarning")
def test_weighted_rows_equal_repeated_rows():
    X, y, _ = simulate(60)
    weights = np.random.default_rng(0).integers(0, 3, 60)
    repeated = np.repeat(np.arange(60), weights)
    ours = SpinyRegressor(noise="student").fit(X, y, sample_weight=weights)
    theirs = SpinyRegressor(noise="student").fit(X[repeated], y[repeated])
    np.testing.assert_allclose(ours.coef_, theirs.coef_, rtol=1e-5)
    np.testing.assert_allclose(
        ours.row_weight_, theirs.row_weight_[np.unique(repeated, return_index=True)[1]], rtol=1e-5
    )
    for one, other in zip(
        ours.predict(X, return_std=True), theirs.predict(X, return_std=True), strict=True
    ):
        np.testing.assert_allclose(one, other, rtol=1e-5)


def test_sparse_input_and_units():
    X, y, _ = simulate()
    X = np.where(np.abs(X) < 0.5, 0.0, X)
    dense = SpinyRegressor(noise="student", average=False).fit(X, y)
    other = SpinyRegressor(noise="student", average=False).fit(sparse.csr_array(X), y)
    np.testing.assert_allclose(other.coef_, dense.coef_, rtol=1e-6)
    scaled = SpinyRegressor(noise="student", average=False).fit(1e3 * X, 1e-3 * y)
    np.testing.assert_allclose(1e6 * scaled.coef_, dense.coef_, rtol=1e-6)
    np.testing.assert_allclose(scaled.row_weight_, dense.row_weight_, rtol=1e-6)
