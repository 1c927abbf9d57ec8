"""Newton's method on the nonzero loadings."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_wine

from prosparse.data import DenseOperator
from prosparse.models.sppca import model, newton
from prosparse.models.sppca.path import fit_one, fit_path, problem_of
from prosparse.numerics.spectrum import spectrum


@pytest.fixture
def example(rng):
    X = rng.standard_normal((30, 6))
    W = rng.standard_normal((2, 6))
    W[0, 1] = W[0, 4] = W[1, 4] = 0.0
    S = X.T @ X
    return X, W, newton.Sums(S, 30, float(np.trace(S)), 1e-12)


def test_the_likelihood_is_the_normal_one(example):
    X, W, sums = example
    law = multivariate_normal(np.zeros(6), W.T @ W + 0.7 * np.eye(6))
    assert newton.at(sums, W, 0.7).log_likelihood == pytest.approx(law.logpdf(X).sum())


def test_derivatives_are_those_of_differences(example):
    """Also of a loading that is zero, and with a variable that has none."""
    _, W, sums = example
    free = W != 0
    free[0, 1] = True
    here = newton.at(sums, W, 0.7)
    H, noise_slope = newton.curvature(sums, here, free)

    def value(change):
        moved = W.copy()
        moved[free] += change[:-1]
        return newton.at(sums, moved, 0.7 * np.exp(change[-1])).log_likelihood

    h, size = 1e-4, int(free.sum()) + 1
    steps = h * np.eye(size)
    slopes = np.array([value(step) - value(-step) for step in steps]) / (2 * h)
    np.testing.assert_allclose(newton.gradient(sums, here)[free], slopes[:-1], atol=1e-5)
    assert noise_slope == pytest.approx(slopes[-1], abs=1e-5)
    second = [
        [value(a + b) - value(a - b) - value(b - a) + value(-a - b) for b in steps] for a in steps
    ]
    np.testing.assert_allclose(H, -np.array(second) / (4 * h * h), atol=1e-4)


def test_where_the_likelihood_is_not_concave_a_step_still_rises(rng):
    H = np.diag([1.0, -2.0, 3.0])
    uphill = np.ones(3)
    assert uphill @ newton.ascent(H, uphill) > 0
    np.testing.assert_allclose(newton.ascent(np.diag([1.0, 2.0, 4.0]), uphill), [1, 0.5, 0.25])


def test_signs_are_kept_and_zeros_exact(example):
    _, W, sums = example
    here = newton.at(sums, W, 0.7)
    there = newton.improved(sums, here, 5.0, 1e-9)
    assert np.all((there.W * W >= 0) | (W == 0))
    price_here, price_there = (5.0 * np.abs(some).sum() for some in (W, there.W))
    assert there.log_likelihood - price_there > here.log_likelihood - price_here


def test_the_optimum_is_that_of_expectation_maximisation():
    X = load_wine().data
    X = (X - X.mean(axis=0)) / X.std(axis=0)
    parts = spectrum(DenseOperator(X))
    problem = problem_of(parts, 5000, 1e-12)
    start = model.init(parts, 2)
    by_newton = fit_one(problem, start, 40.0)
    by_em = fit_one(problem._replace(sums=None), start, 40.0)
    np.testing.assert_allclose(by_newton.state.W, by_em.state.W, atol=1e-5)
    np.testing.assert_array_equal(by_newton.state.W == 0, by_em.state.W == 0)
    assert by_newton.state.bound == pytest.approx(by_em.state.bound, rel=1e-10)
    assert sum(len(run.bounds) for run in by_newton.runs) < 20
    bounds = np.concatenate([run.bounds for run in by_newton.runs])
    assert np.all(np.diff(bounds) >= 0)


def test_columns_of_very_different_size():
    """Alcohol in per cent beside proline in milligrams: the noise is a millionth of the rest, and
    expectation maximisation crawls."""
    X = load_wine().data / 1024
    parts = spectrum(DenseOperator(X - X.mean(axis=0)))
    penalties = np.array([5e3, 5e4, 1.5e5])
    fits = fit_path(problem_of(parts, 200, 1e-10), model.init(parts, 10), penalties)
    for penalty, fit in zip(penalties, fits, strict=True):
        assert model.subgradient_gap(parts.table, parts.n, fit.state, penalty) < 1e-4
        assert sum(len(run.bounds) for run in fit.runs) < 100


def test_a_table_of_exactly_as_many_components(rng):
    """Nothing is left to the noise: it ends at its least, and so does the fit."""
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 7))
    parts = spectrum(DenseOperator(X - X.mean(axis=0)))
    fit = fit_one(problem_of(parts, 500, 1e-10), model.init(parts, 2), 1.0)
    assert np.isfinite(fit.state.bound)
    assert fit.state.sigma2 >= 0.9e-12 * float(np.mean(X.var(axis=0)))
