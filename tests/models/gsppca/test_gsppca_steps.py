"""The variational pass against a slow dense one, typed from the paper with its misprints mended."""

import array_api_compat.numpy as xp
import array_api_strict
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from prosparse.data import DenseOperator
from prosparse.datasets import make_globally_sparse
from prosparse.inference.acceleration import over_loadings
from prosparse.inference.loop import StopReason, iterate, residual_rounding
from prosparse.models.gsppca.model import init, make_step
from prosparse.models.gsppca.relevance import update_variances
from prosparse.numerics.spectrum import spectrum

pytestmark = pytest.mark.quick

SHAPES = [(12, 7, 1), (12, 7, 3), (7, 12, 2), (40, 10, 4), (10, 60, 3), (30, 30, 5), (5, 100, 4)]


def table(n, p, d, seed, noise=0.7):
    q = max(d, p // 3)
    X = make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=noise, random_state=seed
    ).X
    return X - X.mean(axis=0)


def started(X, d, steps=3):
    op = DenseOperator(X)
    step, state = make_step(op, X.shape[0]), init(spectrum(op), d)
    for _ in range(steps):
        state = step(state)
    return state, step


def slow_pass(X, state):
    """[MBL16] Proposition 1 and (13) with one covariance matrix per variable, then the bound as
    E log p(X, Y, W) + entropies, term by term."""
    n, p = X.shape
    d, sigma2 = state.M.shape[1], state.sigma2
    M = state.M
    Sigma = np.linalg.inv(np.eye(d) + (M.T @ M + state.S_sum) / sigma2)
    mu = np.array([Sigma @ M.T @ x / sigma2 for x in X])
    A = n * Sigma + mu.T @ mu
    a, Q = np.linalg.eigh(A)
    w = (Q.T @ mu.T @ X / sigma2) ** 2
    t = update_variances(state.t, a / sigma2, w, xp, lambda update: ())[0].t
    S = [np.linalg.inv(np.eye(d) / tk + A / sigma2) if tk > 0 else np.zeros((d, d)) for tk in t]
    m = np.array([Sk @ (mu.T @ X[:, k]) / sigma2 for k, Sk in enumerate(S)])
    second = [Sk + np.outer(mk, mk) for Sk, mk in zip(S, m, strict=True)]
    residual = np.sum(X**2) - 2 * np.sum(X * (mu @ m.T)) + sum(np.trace(A @ E) for E in second)
    sigma2 = residual / (n * p)
    bound = -0.5 * n * p * np.log(2 * np.pi * sigma2) - 0.5 * residual / sigma2
    bound += -0.5 * np.trace(A) - 0.5 * n * d * np.log(2 * np.pi)  # E log p(Y)
    bound += n * multivariate_normal(np.zeros(d), Sigma).entropy()
    for tk, Sk, E in zip(t, S, second, strict=True):
        if tk > 0:
            bound += -0.5 * np.trace(E) / tk - 0.5 * d * np.log(2 * np.pi * tk)  # E log p(W)
            bound += multivariate_normal(np.zeros(d), Sk).entropy()
    return bound, sigma2, t, m, sum(S)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
def test_a_pass_equals_the_dense_computation(n, p, d, seed):
    X = table(n, p, d, seed)
    state, step = started(X, d)
    bound, sigma2, t, m, S_sum = slow_pass(X, state)
    result = step(state)
    assert result.bound == pytest.approx(bound, rel=1e-10)
    assert result.sigma2 == pytest.approx(sigma2, rel=1e-10)
    # The change of basis afterwards: W -> W R leaves W W' alone up to the same R R'.
    stretch = result.t[t > 0] / t[t > 0]
    np.testing.assert_allclose(stretch, stretch[0])
    np.testing.assert_array_equal(result.t == 0, t == 0)
    R = np.linalg.lstsq(m, result.M, rcond=None)[0]
    np.testing.assert_allclose(m @ R, result.M, atol=1e-8 * np.abs(m).max())
    if np.sum(t > 0) >= d:
        np.testing.assert_allclose(R.T @ S_sum @ R, result.S_sum, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("accelerated", [False, True])
def test_the_bound_never_falls(n, p, d, seed, accelerated):
    X = table(n, p, d, seed)
    op = DenseOperator(X)
    run = iterate(
        make_step(op, n),
        init(spectrum(op), d),
        max_iter=150,
        tol=0.0,
        accelerator=over_loadings("M", op.xp) if accelerated else None,
        rounding=lambda state: residual_rounding(
            state, np.sum(X**2), state.sigma2, np.finfo(float).eps
        ),
    )
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.reason in (StopReason.CONVERGED, StopReason.MAX_ITER)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_plain_passes_never_fall_beyond_rounding(n, p, d):
    X = table(n, p, d, seed=9)
    state, step = started(X, d, steps=1)
    for _ in range(60):
        result = step(state)
        assert result.bound >= state.bound - 1e-11 * n * p
        state = result


@pytest.mark.parametrize("seed", range(4))
def test_acceleration_and_plain_passes_share_the_limit(seed):
    X = table(30, 80, 3, seed)
    op = DenseOperator(X)
    start, step = init(spectrum(op), 3), make_step(op, 30)
    fast = iterate(step, start, max_iter=500, tol=1e-10, accelerator=over_loadings("M", op.xp))
    slow = iterate(step, start, max_iter=5000, tol=1e-9)
    assert fast.bounds[-1] == pytest.approx(slow.bounds[-1], rel=1e-8)


def test_removed_variables_are_at_a_local_maximum_of_the_bound():
    X = table(40, 60, 3, seed=2)
    state, _ = started(X, 3, steps=400)
    gone = np.flatnonzero(state.t == 0)
    assert 0 < gone.size < 60
    best = slow_pass(X, state)[0]
    for k in gone[:8]:
        for t in (1e-6, 1e-3, 0.1):
            pushed = state._replace(t=np.where(np.arange(60) == k, t, state.t))
            # a pass that may not send variable k away again
            assert forced_pass(X, pushed) < best + 1e-9


def forced_pass(X, state):
    """The bound at q(Y), q(W) best for exactly the given t."""
    n, p = X.shape
    d, c = state.M.shape[1], 1 / state.sigma2
    M = state.M
    Sigma = np.linalg.inv(np.eye(d) + c * (M.T @ M + state.S_sum))
    mu = c * X @ M @ Sigma
    A = n * Sigma + mu.T @ mu
    G = X.T @ mu
    bound = -0.5 * n * p * np.log(2 * np.pi * state.sigma2) - 0.5 * c * np.sum(X**2)
    bound -= 0.5 * (np.trace(A) - n * d - n * np.linalg.slogdet(Sigma)[1])
    for k in range(p):  # int p(x_k | w, q(Y)) p(w) dw in closed form
        if state.t[k] > 0:
            B = np.eye(d) + c * state.t[k] * A
            bound += -0.5 * np.linalg.slogdet(B)[1]
            bound += 0.5 * c**2 * state.t[k] * G[k] @ np.linalg.solve(B, G[k])
    return bound


def test_the_forced_pass_is_the_pass_where_both_apply():
    X = table(20, 15, 2, seed=0)
    state, _ = started(X, 2, steps=300)
    assert forced_pass(X, state) == pytest.approx(slow_pass(X, state)[0], abs=1e-5)


def test_a_tall_table_may_be_reduced_first():
    X = table(90, 12, 3, seed=1)
    op = DenseOperator(X)
    parts = spectrum(op)
    assert parts.table.shape == (12, 12)
    whole, reduced = make_step(op, 90), make_step(parts.table, 90)
    a = b = init(parts, 3)
    for _ in range(10):
        a, b = whole(a), reduced(b)
        assert a.bound == pytest.approx(b.bound, rel=1e-12)
    np.testing.assert_allclose(a.t, b.t, rtol=1e-8, atol=1e-12)


def test_no_step_assumes_numpy():
    X = table(15, 40, 3, seed=3)
    runs = []
    for make in (np.asarray, array_api_strict.asarray):
        op = DenseOperator(make(X))
        parts = spectrum(op)
        run = iterate(
            make_step(parts.table, 15),
            init(parts, 3),
            max_iter=30,
            tol=1e-9,
            accelerator=over_loadings("M", op.xp),
        )
        assert isinstance(run.state.M, type(op.X))
        runs.append(run)
    np.testing.assert_allclose(runs[0].bounds, runs[1].bounds, rtol=1e-9)
