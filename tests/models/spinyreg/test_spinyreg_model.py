"""Evidence of regression models and of their neighbours, compared with dense formulas."""

import math

import numpy as np
import pytest
from regressions import SHAPES, dense, precisions, problem
from scipy.optimize import minimize

from prosparse.models.spinyreg import model as rg

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
    m = np.linalg.solve(A, data.b[v])
    sigma2 = max((data.yy - data.b[v] @ m) / data.n, data.noise_floor)
    lam = np.exp(log_ratio)
    return np.log(lam * (m @ m) / sigma2) - np.log(v.size - lam * np.trace(np.linalg.inv(A)))


@pytest.mark.parametrize("exact", [False, True])
def test_newton_step(exact):
    """Newton's step on the logarithm of MacKay's equation, also with the noise at its floor."""
    X, y, data, coef = problem(30, 8)
    v, h = np.flatnonzero(coef), 1e-5
    if exact:
        y = X[:, v] @ np.array([1.0, -2.0, 0.5])
        data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 30)
    for at in (-27.5, -26.5) if exact else (-3.0, -1.5, 0.0):
        low, here, high = (mismatch(data, v, at + step) for step in (-h, 0.0, h))
        newton = -here / ((high - low) / (2 * h))
        assert abs(newton) < rg.MAX_LOG_STEP
        fit = rg.evaluate(data, v, at)
        assert (fit.sigma2 == data.noise_floor) == exact
        assert fit.step == pytest.approx(newton, abs=1e-5)


def test_step_without_a_solution():
    """Without determined coefficients the step has maximum length along the slope."""
    _, _, data, _ = problem(30, 8)
    no_weights = rg.FitSums(1.0, 0.0, 0.0, 0.1, 0.01)
    assert rg.slope_and_step(data, 2, 0.0, no_weights) == (pytest.approx(0.95), rg.MAX_LOG_STEP)
    undetermined = rg.FitSums(1.0, 1.0, 0.1, 2.0, 4.0)
    slope, step = rg.slope_and_step(data, 2, 0.0, undetermined)
    assert slope < 0
    assert step == -rg.MAX_LOG_STEP
    negative_curvature = rg.FitSums(1.0, 1.0, 40.0, 0.1, 0.01)
    assert rg.slope_and_step(data, 2, 0.0, negative_curvature)[1] == -rg.MAX_LOG_STEP


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
    exact = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert exact.low == pytest.approx(math.log((X**2).sum(axis=0)[1] / 1e12))
    assert exact.high == pytest.approx(math.log((X**2).sum(axis=0)[2] * 1e12))
    assert rg.clip_log_ratio(exact, exact.high - 1.0, 5.0) == exact.high
    assert rg.clip_log_ratio(exact, exact.low + 1.0, -5.0) == exact.low
    closed = rg.fit_single(exact, 0)
    optimised = rg.optimise(exact, rg.evaluate(exact, np.array([0]), 0.0), 1e-10)
    assert optimised.log_evidence == pytest.approx(closed.log_evidence, abs=1e-2)
    y = X[:, 0] / 8 + 5e-7 * X[:, 1]
    nearly = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert rg.fit_single(nearly, 0).log_ratio == nearly.low
    y = rng.standard_normal(49)
    y -= X[:, 1] * (X[:, 1] @ y) / (X[:, 1] @ X[:, 1])
    useless = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert rg.fit_single(useless, 1).log_ratio == useless.high


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
        closed = rg.fit_single(data, j)
        searched = [rg.evaluate(data, np.array([j]), at).log_evidence for at in np.arange(-9, 27)]
        assert closed.log_evidence >= max(searched) - 1e-9
        assert rg.optimise(data, closed, 1e-12).log_evidence == pytest.approx(
            closed.log_evidence, abs=1e-8
        )


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_rank_one_gains_equal_refits(n, p):
    """Gains of additions, removals and exchanges are differences of refitted evidences."""
    _, _, data, _ = problem(n, p, correlation=0.5)
    v = np.array([0, 2, 5])
    fit = rg.evaluate(data, v, 0.7)
    additions = rg.score_additions(fit, data.G[:, v], data.d, data.b, n)
    out, swap = rg.removal_gains(fit, n), rg.exchange_gains(fit, additions, n)

    def gain_of(w):
        return rg.evaluate(data, np.array(w), 0.7).log_evidence - fit.log_evidence

    for j in set(range(p)) - set(v.tolist()):
        assert additions.gain[j] == pytest.approx(gain_of([*v, j]), abs=1e-8)
        for i in range(3):
            assert swap[j, i] == pytest.approx(gain_of([*np.delete(v, i), j]), abs=1e-8)
    for i in range(3):
        assert out[i] == pytest.approx(gain_of(np.delete(v, i)), abs=1e-8)


def test_add_best_variable():
    """The added variable has the highest evidence at the same lambda."""
    _, _, data, coef = problem(60, 15, q=4)
    fit = rg.optimise(data, rg.evaluate(data, np.flatnonzero(coef)[:2], 0.0), rg.EXACT)
    larger = rg.add_best_variable(data, fit, rg.FINE)
    others = [j for j in range(15) if j not in fit.v]
    values = [rg.evaluate(data, np.append(fit.v, j), fit.log_ratio).log_evidence for j in others]
    assert larger.v[-1] == others[int(np.argmax(values))]


def test_remove_the_last_variables():
    _, _, data, _ = problem(30, 6)
    pair = rg.evaluate(data, np.array([2, 4]), 0.3)
    single = rg.remove_variable(data, pair, 0, rg.FINE)
    assert single.v.tolist() == [4]
    assert single.log_ratio == rg.fit_single(data, 4).log_ratio
    none = rg.remove_variable(data, single, 0, rg.FINE)
    assert none.v.size == 0
    assert none.log_ratio == single.log_ratio


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
