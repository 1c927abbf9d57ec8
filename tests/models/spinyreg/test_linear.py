"""Evidence of regression models and of their neighbours, compared with dense formulas."""

import math

import numpy as np
import pytest
from regressions import SHAPES, dense, model_of, precisions, problem
from scipy.optimize import minimize

from prosparse.models.spinyreg import linear as rg

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("size", [0, 1, 4])
def test_evidence_equals_the_dense_formula(n, p, size, rng):
    X, y, data, _ = problem(n, p)
    v = rng.permutation(p)[:size]
    for log_ratio in (-3.0, 0.0, 4.0):
        fit = rg.evaluate(data, v, log_ratio)
        assert fit.log_evidence == pytest.approx(dense(X, y, v, *precisions(fit)), abs=1e-8)


def test_slope_equals_finite_differences():
    _, _, data, _ = problem(30, 8)
    v, h = np.array([1, 4, 6]), 1e-4
    for at in (-2.0, 1.0, 5.0):
        low, fit, high = (rg.evaluate(data, v, at + step) for step in (-h, 0.0, h))
        slope = (high.log_evidence - low.log_evidence) / (2 * h)
        assert fit.slope == pytest.approx(slope, abs=1e-6)


def mismatch(data, v, log_ratio):
    """Log of lambda m'm / sigma2 over q - lambda tr P, which is zero at the best lambda."""
    A = data.G[np.ix_(v, v)] + np.exp(log_ratio) * np.eye(v.size)
    m = np.linalg.solve(A, data.B[v, 0])
    sigma2 = max((data.yy[0] - data.B[v, 0] @ m) / data.n, data.noise_floor[0])
    lam = np.exp(log_ratio)
    return np.log(lam * (m @ m) / sigma2) - np.log(v.size - lam * np.trace(np.linalg.inv(A)))


@pytest.mark.parametrize("exact", [False, True])
def test_newton_step(exact):
    """Newton's step on the logarithm of MacKay's equation, also with the noise at its floor."""
    X, y, data, coef = problem(30, 8)
    v, h = np.flatnonzero(coef), 1e-5
    if exact:
        y = X[:, v] @ np.array([1.0, -2.0, 0.5])
        data = model_of(X, y)
    for at in (-27.5, -26.5) if exact else (-3.0, -1.5, 0.0):
        low, here, high = (mismatch(data, v, at + step) for step in (-h, 0.0, h))
        newton = -here / ((high - low) / (2 * h))
        assert abs(newton) < rg.MAX_LOG_STEP
        fit = rg.evaluate(data, v, at)
        assert (fit.sigma2[0] == data.noise_floor[0]) == exact
        assert fit.step == pytest.approx(newton, abs=1e-5)


def test_step_without_a_solution():
    """Without determined coefficients the step has maximum length along the slope."""
    _, _, data, _ = problem(30, 8)

    def at(P, m):
        ones = np.ones(1)
        return rg.slope_and_step(data, 1.0, np.diag(P), np.array(m)[:, None], ones, ones)

    assert at([0.05, 0.05], [0.0, 0.0]) == (pytest.approx(0.95), rg.MAX_LOG_STEP)
    slope, step = at([1.0, 1.0], [1.0, 0.0])  # undetermined
    assert slope < 0
    assert step == -rg.MAX_LOG_STEP
    assert at([0.9, 0.9], [2.0, 0.0])[1] == -rg.MAX_LOG_STEP  # negative curvature


def test_too_long_steps_are_shortened():
    _, _, data, coef = problem(30, 8)
    fit = rg.evaluate(data, np.flatnonzero(coef), -3.0)
    best = rg.optimise(data, fit, 1e-10)
    assert rg.evaluate(data, fit.v, 5.0).log_evidence < fit.log_evidence < best.log_evidence
    misled = rg.optimise(data, fit._replace(step=8.0), 1e-10)
    assert misled.log_evidence == pytest.approx(best.log_evidence, abs=1e-9)


def test_lambda_is_bounded():
    """The bounds depend on the smallest and the largest column."""
    rng = np.random.default_rng(73)
    X = rng.standard_normal((49, 3)) * [8, 1, 900]
    X -= X.mean(axis=0)
    y = X[:, 0] / 8
    exact = model_of(X, y)
    assert exact.low == pytest.approx(math.log((X**2).sum(axis=0)[1] / 1e12))
    assert exact.high == pytest.approx(math.log((X**2).sum(axis=0)[2] * 1e12))
    assert rg.clip_log_ratio(exact, exact.high + 4.0) == exact.high
    assert rg.clip_log_ratio(exact, exact.low - 4.0) == exact.low
    closed = rg.evaluate(exact, np.array([0]), rg.single_log_ratio(exact, 0))
    optimised = rg.optimise(exact, rg.evaluate(exact, np.array([0]), 0.0), 1e-10)
    assert optimised.log_evidence == pytest.approx(closed.log_evidence, abs=1e-2)
    y = X[:, 0] / 8 + 5e-7 * X[:, 1]
    nearly = model_of(X, y)
    assert rg.single_log_ratio(nearly, 0) == nearly.low
    y = rng.standard_normal(49)
    y -= X[:, 1] * (X[:, 1] @ y) / (X[:, 1] @ X[:, 1])
    useless = model_of(X, y)
    assert rg.single_log_ratio(useless, 1) == useless.high


def test_factor_of_an_indefinite_matrix():
    A = np.array([[1.0, 1.0 + 1e-13], [1.0 + 1e-13, 1.0]])
    L = np.tril(rg._rounded_factor(A.copy(), 0.0))
    assert np.all(L.diagonal() > 0)
    np.testing.assert_allclose(L @ L.T, A, atol=1e-12)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_precisions_maximise_the_evidence(n, p, rng):
    """Direct maximisation over both precisions from several starts finds no higher evidence."""
    X, y, data, coef = problem(n, p)
    v = np.flatnonzero(coef)
    fit = rg.optimise(data, rg.evaluate(data, v, 0.0), rg.EXACT)
    for _ in range(4):
        found = minimize(
            lambda logs: -dense(X, y, v, *np.exp(logs)),
            np.log(precisions(fit)) + rng.standard_normal(2),
            method="Nelder-Mead",
            options={"xatol": 1e-9, "fatol": 1e-11, "maxiter": 4000},
        )
        assert -found.fun <= fit.log_evidence + 1e-8


def test_best_lambda_of_a_single_variable():
    _, _, data, _ = problem(40, 10)
    for j in range(10):
        closed = rg.evaluate(data, np.array([j]), rg.single_log_ratio(data, j))
        searched = [rg.evaluate(data, np.array([j]), at).log_evidence for at in np.arange(-9, 27)]
        assert closed.log_evidence >= max(searched) - 1e-9
        assert rg.optimise(data, closed, 1e-12).log_evidence == pytest.approx(
            closed.log_evidence, abs=1e-8
        )


def test_gains_of_single_variables():
    """Gains of the empty set are those of each variable at its best lambda."""
    _, _, data, _ = problem(40, 10)
    data = data._replace(dof=data.n)
    empty = data.fit(np.zeros(0, dtype=int))
    for j, gain in enumerate(data.addition_gains(empty)):
        single = data.fit(np.array([j]))
        assert gain == pytest.approx(single.log_evidence - empty.log_evidence, abs=1e-8)


@pytest.mark.parametrize("v", [[], [4], [0, 1, 3]])
def test_several_responses_add_up(v, rng):
    """The evidence of several responses is the sum of theirs at the same lambda."""
    X, _, _, _ = problem(30, 6)
    Y = X[:, :2] @ rng.standard_normal((2, 3)) + rng.standard_normal((30, 3))
    data = rg.linear_model(X.T @ X, X.T @ Y, (Y**2).sum(axis=0), 30)
    v = np.array(v, dtype=int)
    fit = data.refine(data.fit(v), exact=True)
    singles = [rg.evaluate(model_of(X, y), v, fit.log_ratio) for y in Y.T]
    assert fit.log_evidence == pytest.approx(sum(each.log_evidence for each in singles))
    np.testing.assert_allclose(fit.sigma2, [each.sigma2[0] for each in singles])
    assert fit.slope == pytest.approx(sum(each.slope for each in singles), abs=1e-9)
    for step in (-0.3, 0.3):
        other = rg.evaluate(data, v, fit.log_ratio + step)
        assert other.log_evidence <= fit.log_evidence + 1e-9
    low, high = (rg.evaluate(data, v, 1.0 + h) for h in (-1e-4, 1e-4))
    slope = (high.log_evidence - low.log_evidence) / 2e-4
    assert rg.evaluate(data, v, 1.0).slope == pytest.approx(slope, abs=1e-5)


def test_pseudo_inverse_of_collinear_columns_is_positive_semidefinite():
    """Rounding errors of X'X must not become negative variances."""
    for seed in range(20):
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(30, 4))
        regular = X.T @ X
        np.testing.assert_allclose(rg.pseudo_inverse(regular), np.linalg.inv(regular), rtol=1e-9)
        X[:, 3] = X[:, 1]
        error = 1e-7 * rng.normal(size=(4, 4))
        inverse = rg.pseudo_inverse(X.T @ X + error + error.T)
        assert np.diagonal(inverse).min() >= 0.0
