"""Proximal Newton method."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.datasets import load_breast_cancer, load_wine

from prosparse.data import DenseOperator
from prosparse.inference.loop import StopReason
from prosparse.models.sppca import model, newton
from prosparse.models.sppca.l1 import violation
from prosparse.models.sppca.path import fit_one, fit_path, problem_of
from prosparse.numerics.spectrum import spectrum


@pytest.fixture
def example(rng):
    X = rng.standard_normal((30, 6))
    W = rng.standard_normal((2, 6))
    W[0, 1] = W[0, 4] = W[1, 4] = 0.0
    return X, W, newton.sums_of(X.T @ X, 30, 1e-12)


def test_the_likelihood_is_the_normal_one(example):
    X, W, sums = example
    normal = multivariate_normal(np.zeros(6), W.T @ W + 0.7 * np.eye(6))
    assert newton.evaluate(sums, W, 0.7).log_likelihood == pytest.approx(normal.logpdf(X).sum())


def test_derivatives_equal_finite_differences(example):
    """Also for a zero loading, and with a variable without loadings."""
    _, W, sums = example
    free = W != 0
    free[0, 1] = True
    here = newton.evaluate(sums, W, 0.7)
    H, noise_gradient = newton.curvature(sums, here, free)

    def value(change):
        moved = W.copy()
        moved[free] += change[:-1]
        return newton.evaluate(sums, moved, 0.7 * np.exp(change[-1])).log_likelihood

    h, size = 1e-4, int(free.sum()) + 1
    steps = h * np.eye(size)
    slopes = np.array([value(step) - value(-step) for step in steps]) / (2 * h)
    np.testing.assert_allclose(newton.gradient(sums, here)[free], slopes[:-1], atol=1e-5)
    assert noise_gradient == pytest.approx(slopes[-1], abs=1e-5)
    second = [
        [value(a + b) - value(a - b) - value(b - a) + value(-a - b) for b in steps] for a in steps
    ]
    np.testing.assert_allclose(H, -np.array(second) / (4 * h * h), atol=1e-4)


def test_the_operator_equals_the_matrix(example, rng):
    """The linear operator covers all loadings and the noise."""
    _, W, sums = example
    here = newton.evaluate(sums, W, 0.7)
    H, noise_gradient = newton.curvature(sums, here, np.ones_like(W, dtype=bool))
    hessian = newton.Curvature(sums, here)
    U, v = rng.standard_normal(W.shape), 0.3
    there, of_noise = hessian.times(U, v)
    expected = H @ np.append(U, v)
    np.testing.assert_allclose(there.ravel(), expected[:-1], rtol=1e-9)
    assert of_noise == pytest.approx(expected[-1])
    assert hessian.noise_gradient == pytest.approx(noise_gradient)


def best_at(sums, W, penalty):
    """Iterate until the objective no longer increases."""
    point, damping = newton.evaluate(sums, W, 0.7), 0.0
    for _ in range(50):
        before = point
        point, damping = newton.improve(sums, before, penalty, 0.0, damping, None, 1e-8)
        if point is before:
            return point
    raise AssertionError("no convergence")


def test_a_step_solves_the_quadratic_lasso(rng):
    """Coordinate descent on the same quadratic function gives the same zeros and loadings."""
    truth = np.array([[1.0, -0.8, 0.9, 0.7, 0.0, 0.0, 0.0]])
    X = rng.standard_normal((60, 1)) @ truth + 0.8 * rng.standard_normal((60, 7))
    sums = newton.sums_of(X.T @ X, 60, 1e-12)
    there = np.array([[1.0, -0.8, 0.9, 0.0, 0.05, -0.05, 0.0]])
    here, penalty = newton.evaluate(sums, there, 0.7), 8.0
    slopes, hessian = newton.gradient(sums, here), newton.Curvature(sums, here)
    H, noise_gradient = newton.curvature(sums, here, np.ones_like(there, dtype=bool))
    assert np.linalg.eigvalsh(H)[0] > 0
    gradient = np.append(slopes, noise_gradient)
    w, goal = np.append(there, 0.0), np.append(there, 0.0)
    for _ in range(2000):
        for k in range(w.size):
            rest = gradient[k] - H[k] @ (goal - w) + H[k, k] * goal[k]
            threshold = penalty if k < there.size else 0.0
            goal[k] = np.sign(rest) * max(abs(rest) - threshold, 0.0) / H[k, k]
    solve = newton.make_solver(newton.CurvatureMatrix(sums, here), 0.0)
    step = newton.proximal_step(hessian, slopes, penalty, solve)
    assert step.finished
    moved = there + step.U
    np.testing.assert_allclose(moved.ravel(), goal[:-1], atol=1e-7)
    np.testing.assert_array_equal(moved.ravel() == 0, goal[:-1] == 0)
    assert np.any((there == 0) & (moved != 0))
    assert np.any((there != 0) & (moved == 0))
    assert step.v == pytest.approx(goal[-1])
    change = goal - w
    increase = gradient @ change - 0.5 * change @ H @ change
    increase -= penalty * (np.abs(moved).sum() - np.abs(there).sum())
    assert step.predicted == pytest.approx(increase)


def test_a_step_from_a_saddle_increases_the_objective(example):
    """The undamped Newton step leads to the saddle point."""
    _, W, sums = example
    here = newton.evaluate(sums, 1e-3 * W, 1.0)
    H, _ = newton.curvature(sums, here, W != 0)
    assert np.linalg.eigvalsh(H)[0] < 0
    there, damping = newton.improve(sums, here, 1e-3, 1e-9)
    assert damping > 0
    price = 1e-3 * (np.abs(there.W).sum() - np.abs(here.W).sum())
    assert there.log_likelihood - price > here.log_likelihood


def test_zeros_are_exact_and_the_objective_increases(example):
    _, W, sums = example
    here = newton.evaluate(sums, W, 0.7)
    there, _ = newton.improve(sums, here, 20.0, 1e-9)
    assert np.count_nonzero(there.W) < np.count_nonzero(W)
    price_here, price_there = (20.0 * np.abs(some).sum() for some in (W, there.W))
    assert there.log_likelihood - price_there > here.log_likelihood - price_here


def test_iterations_end_at_the_optimality_conditions(example):
    _, W, sums = example
    point = best_at(sums, W, 3.0)
    assert violation(point.W, newton.gradient(sums, point), 3.0, np) < 3e-8
    assert abs(newton.Curvature(sums, point).noise_gradient) < 1e-8 * 30 * 6


def test_the_optimum_equals_that_of_em():
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
    assert {run.reason for run in by_newton.runs} == {StopReason.CONVERGED}


def test_columns_of_very_different_variance():
    """The noise is a millionth of the variance of proline, and EM converges slowly."""
    X = load_wine().data / 1024
    parts = spectrum(DenseOperator(X - X.mean(axis=0)))
    penalties = np.array([5e3, 5e4, 1.5e5])
    fits = fit_path(problem_of(parts, 200, 1e-10), model.init(parts, 10), penalties)
    for penalty, fit in zip(penalties, fits, strict=True):
        assert model.subgradient_gap(parts.op, parts.n, fit.state, penalty) < 1e-4
        assert sum(len(run.bounds) for run in fit.runs) < 100


def test_small_penalties_with_small_noise():
    """The noise is 1e-8 of the variance, and the rotation is nearly free.

    The expected objectives were reached by thousands of EM iterations.
    """
    X = load_breast_cancer().data
    X = (X - X.mean(axis=0)) / 4096
    parts = spectrum(DenseOperator(X))
    start, problem = model.init(parts, 10), problem_of(parts, 2000, 1e-10)
    price = 160000.0 / np.abs(start.W).sum()
    penalties = price * np.array([0.05, 0.1, 0.2, 0.4])
    fits = fit_path(problem, start, penalties)
    assert sum(len(run.bounds) for fit in fits for run in fit.runs) < 80
    objectives = [
        newton.evaluate(problem.sums, fit.state.W, fit.state.sigma2).log_likelihood
        - penalty * np.abs(fit.state.W).sum()
        for penalty, fit in zip(penalties, fits, strict=True)
    ]
    reached = [138244.28, 134947.62, 129516.74, 120654.92]
    assert np.all(np.array(objectives) >= np.array(reached) - 0.01)
    for fit in fits:
        for run in fit.runs:
            assert np.all(np.diff(run.bounds) >= 0)
            assert run.reason is not StopReason.DECREASED


def test_data_of_exact_low_rank(rng):
    """The noise variance ends at its minimum."""
    X = rng.standard_normal((40, 2)) @ rng.standard_normal((2, 7))
    parts = spectrum(DenseOperator(X - X.mean(axis=0)))
    fit = fit_one(problem_of(parts, 500, 1e-10), model.init(parts, 2), 1.0)
    assert np.isfinite(fit.state.bound)
    assert fit.state.sigma2 >= 0.9e-12 * float(np.mean(X.var(axis=0)))
