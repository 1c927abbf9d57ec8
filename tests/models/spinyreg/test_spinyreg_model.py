"""The evidence of regression models and of their neighbours, against slow dense oracles."""

import math

import numpy as np
import pytest
from regressions import SHAPES, dense, precisions, problem
from scipy.optimize import minimize

from prosparse.models.spinyreg import model as rg

pytestmark = pytest.mark.quick


@pytest.mark.parametrize(("n", "p"), SHAPES)
@pytest.mark.parametrize("size", [0, 1, 4])
def test_evidence_is_the_dense_one(n, p, size, rng):
    X, y, data, _ = problem(n, p)
    v = rng.permutation(p)[:size]
    for log_ratio in (-3.0, 0.0, 4.0):
        fit = rg.evaluate(data, v, log_ratio)
        assert fit.log_evidence == pytest.approx(dense(X, y, v, *precisions(fit)), abs=1e-8)


def test_slope_by_differences():
    _, _, data, _ = problem(30, 8)
    v, h = np.array([1, 4, 6]), 1e-4
    for at in (-2.0, 1.0, 5.0):
        low, fit, high = (rg.evaluate(data, v, at + step) for step in (-h, 0.0, h))
        slope = (high.log_evidence - low.log_evidence) / (2 * h)
        assert fit.slope == pytest.approx(slope, abs=1e-6)


def mismatch(data, v, log_ratio):
    """Log of what is equal at the best lambda: lambda m'm / sigma2 over q - lambda tr P."""
    A = data.G[np.ix_(v, v)] + np.exp(log_ratio) * np.eye(v.size)
    m = np.linalg.solve(A, data.b[v])
    sigma2 = max((data.yy - data.b[v] @ m) / data.n, data.noise_floor)
    lam = np.exp(log_ratio)
    return np.log(lam * (m @ m) / sigma2) - np.log(v.size - lam * np.trace(np.linalg.inv(A)))


@pytest.mark.parametrize("exact", [False, True])
def test_step_is_newtons(exact):
    """On the logarithm of MacKay's equation, by differences; also where the noise is at its
    floor."""
    X, y, data, coef = problem(30, 8)
    v, h = np.flatnonzero(coef), 1e-5
    if exact:
        y = X[:, v] @ np.array([1.0, -2.0, 0.5])
        data = rg.moments(X.T @ X, X.T @ y, float(y @ y), 30)
    for at in (-27.5, -26.5) if exact else (-3.0, -1.5, 0.0):
        low, here, high = (mismatch(data, v, at + step) for step in (-h, 0.0, h))
        newton = -here / ((high - low) / (2 * h))
        assert abs(newton) < rg.LONGEST_STEP
        fit = rg.evaluate(data, v, at)
        assert (fit.sigma2 == data.noise_floor) == exact
        assert fit.step == pytest.approx(newton, abs=1e-5)


def test_step_where_there_is_no_equation():
    """No weights, or none that the data determine: as far as allowed, where the slope leads."""
    _, _, data, _ = problem(30, 8)
    no_weights = rg.FitSums(1.0, 0.0, 0.0, 0.1, 0.01)
    assert rg.slope_and_step(data, 2, 0.0, no_weights) == (pytest.approx(0.95), rg.LONGEST_STEP)
    undetermined = rg.FitSums(1.0, 1.0, 0.1, 2.0, 4.0)
    slope, step = rg.slope_and_step(data, 2, 0.0, undetermined)
    assert slope < 0
    assert step == -rg.LONGEST_STEP
    bent = rg.FitSums(1.0, 1.0, 40.0, 0.1, 0.01)  # a slope of the logarithms of the wrong sign
    assert rg.slope_and_step(data, 2, 0.0, bent)[1] == -rg.LONGEST_STEP


def test_a_step_that_leads_too_far_is_shortened():
    _, _, data, coef = problem(30, 8)
    fit = rg.evaluate(data, np.flatnonzero(coef), -3.0)
    best = rg.optimise(data, fit, 1e-10)
    assert rg.evaluate(data, fit.v, 5.0).log_evidence < fit.log_evidence < best.log_evidence
    misled = rg.optimise(data, fit._replace(step=8.0), 1e-10)
    assert misled.log_evidence == pytest.approx(best.log_evidence, abs=1e-9)


def test_lambda_stays_within_reach():
    """Of the smallest and the largest column, whichever model it is of."""
    rng = np.random.default_rng(73)
    X = rng.standard_normal((49, 3)) * [8, 1, 900]
    X -= X.mean(axis=0)
    y = X[:, 0] / 8
    exact = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert exact.low == pytest.approx(math.log((X**2).sum(axis=0)[1] / 1e12))
    assert exact.high == pytest.approx(math.log((X**2).sum(axis=0)[2] * 1e12))
    assert rg.after(exact, exact.high - 1.0, 5.0) == exact.high
    assert rg.after(exact, exact.low + 1.0, -5.0) == exact.low
    alone = rg.alone(exact, 0)
    climbed = rg.optimise(exact, rg.evaluate(exact, np.array([0]), 0.0), 1e-10)
    assert climbed.log_evidence == pytest.approx(alone.log_evidence, abs=1e-2)
    y = X[:, 0] / 8 + 5e-7 * X[:, 1]
    nearly = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert rg.alone(nearly, 0).log_ratio == nearly.low
    y = rng.standard_normal(49)
    y -= X[:, 1] * (X[:, 1] @ y) / (X[:, 1] @ X[:, 1])  # of no use at all
    useless = rg.moments(X.T @ X, X.T @ y, float(y @ y), 49)
    assert rg.alone(useless, 1).log_ratio == useless.high


def test_a_matrix_that_rounding_made_indefinite():
    A = np.array([[1.0, 1.0 + 1e-13], [1.0 + 1e-13, 1.0]])
    L = np.tril(rg._rounded_factor(A.copy(), 0.0))
    assert np.all(L.diagonal() > 0)
    np.testing.assert_allclose(L @ L.T, A, atol=1e-12)


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_alpha_and_gamma_are_the_best(n, p, rng):
    """No direct search over both precisions, from several starts, finds more."""
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


def test_the_best_lambda_of_one_variable_is_known():
    _, _, data, _ = problem(40, 10)
    for j in range(10):
        closed = rg.alone(data, j)
        searched = [rg.evaluate(data, np.array([j]), at).log_evidence for at in np.arange(-9, 27)]
        assert closed.log_evidence >= max(searched) - 1e-9
        assert rg.optimise(data, closed, 1e-12).log_evidence == pytest.approx(
            closed.log_evidence, abs=1e-8
        )


@pytest.mark.parametrize(("n", "p"), SHAPES)
def test_every_neighbour_is_the_model_itself(n, p):
    """Rank-one formulas for one more, one less and one exchanged, against refits."""
    _, _, data, _ = problem(n, p, correlation=0.5)
    v = np.array([0, 2, 5])
    fit = rg.evaluate(data, v, 0.7)
    near = rg.neighbours(fit, data.G[:, v], data.d, data.b, n)
    out, swap = rg.removal_gains(fit, n), rg.exchange_gains(fit, near, n)

    def rise(w):
        return rg.evaluate(data, np.array(w), 0.7).log_evidence - fit.log_evidence

    for j in set(range(p)) - set(v.tolist()):
        assert near.gain[j] == pytest.approx(rise([*v, j]), abs=1e-8)
        for i in range(3):
            assert swap[j, i] == pytest.approx(rise([*np.delete(v, i), j]), abs=1e-8)
    for i in range(3):
        assert out[i] == pytest.approx(rise(np.delete(v, i)), abs=1e-8)


def test_first_steps_of_the_path_are_the_best_ones():
    """The next variable is the one that raises the evidence most, its lambda kept."""
    _, _, data, coef = problem(60, 15, q=4)
    fit = rg.optimise(data, rg.evaluate(data, np.flatnonzero(coef)[:2], 0.0), rg.EXACT)
    larger = rg.with_one_more(data, fit, rg.FINE)
    others = [j for j in range(15) if j not in fit.v]
    values = [rg.evaluate(data, np.append(fit.v, j), fit.log_ratio).log_evidence for j in others]
    assert larger.v[-1] == others[int(np.argmax(values))]


@pytest.mark.parametrize("move", ["with_one_more", "with_one_less"])
def test_a_neighbour_starts_near_its_best_lambda(move, monkeypatch):
    """From its R, m'm, m'Pm, tr P and tr P^2 at the same lambda, which are known without it."""
    _, _, data, coef = problem(80, 12, q=5, correlation=0.5)
    fit = rg.evaluate(data, np.flatnonzero(coef), 2.0)  # where lambda tr P is not small
    seen, original = [], rg.moved

    def watched(data, fit, v, sums, tol):
        seen.append((v, sums))
        return original(data, fit, v, sums, tol)

    monkeypatch.setattr(rg, "moved", watched)
    getattr(rg, move)(data, fit, 1e-12)
    fit = rg.optimise(data, fit, rg.EXACT)
    best = getattr(rg, move)(data, fit, 1e-12)
    for (v, sums), at in zip(seen, (2.0, fit.log_ratio), strict=True):
        np.testing.assert_allclose(sums, rg.evaluate(data, v, at).sums, rtol=1e-8)
    assert best.v.size == seen[1][0].size
    start = fit.log_ratio + rg.slope_and_step(data, best.v.size, fit.log_ratio, seen[1][1])[1]
    assert abs(start - best.log_ratio) < 0.1 * abs(fit.log_ratio - best.log_ratio)


def test_the_last_variables_leave():
    _, _, data, _ = problem(30, 6)
    pair = rg.evaluate(data, np.array([2, 4]), 0.3)
    single = rg.left_by(data, pair, 0, rg.FINE)
    assert single.v.tolist() == [4]
    assert single.log_ratio == rg.alone(data, 4).log_ratio
    none = rg.left_by(data, single, 0, rg.FINE)
    assert none.v.size == 0
    assert none.log_ratio == single.log_ratio
