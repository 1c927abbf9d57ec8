"""Variational iterations, compared with a dense computation from the corrected paper."""

import array_api_compat.numpy as xp
import array_api_strict
import numpy as np
import pytest
from scipy.stats import multivariate_normal

from prosparse.data import DenseOperator
from prosparse.datasets import make_globally_sparse
from prosparse.inference.acceleration import over_loadings
from prosparse.inference.loop import StopReason, iterate, residual_rounding
from prosparse.models.gsppca.factors import (
    make_factor_step,
    over_factors,
    to_factor_state,
)
from prosparse.models.gsppca.model import init, make_step
from prosparse.models.gsppca.quasi_newton import QuasiNewton
from prosparse.models.gsppca.relevance import update_variances
from prosparse.numerics.spectrum import spectrum

pytestmark = pytest.mark.quick

SHAPES = [(12, 7, 1), (12, 7, 3), (7, 12, 2), (40, 10, 4), (10, 60, 3), (30, 30, 5), (5, 100, 4)]


def make_data(n, p, d, seed, noise=0.7):
    q = max(d, p // 3)
    X = make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=noise, random_state=seed
    ).X
    return X - X.mean(axis=0)


def run_steps(X, d, steps=3):
    op = DenseOperator(X)
    step, state = make_step(op, X.shape[0]), init(spectrum(op), d)
    for _ in range(steps):
        state = step(state)
    return state, step


def dense_iteration(X, state):
    """Compute [MBL16] Proposition 1 and (13) with one covariance matrix per variable.

    The bound is E log p(X, Y, W) plus the entropies.
    """
    n, p = X.shape
    d, sigma2 = state.M.shape[1], state.sigma2
    M = state.M
    Sigma = np.linalg.inv(np.eye(d) + (M.T @ M + state.S_sum) / sigma2)
    mu = np.array([Sigma @ M.T @ x / sigma2 for x in X])
    A = n * Sigma + mu.T @ mu
    a, Q = np.linalg.eigh(A)
    w = (Q.T @ mu.T @ X / sigma2) ** 2
    t = update_variances(state.t, a / sigma2, w, xp, lambda update: ((), None))[0].t
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
def test_iteration_equals_the_dense_computation(n, p, d, seed):
    X = make_data(n, p, d, seed)
    state, step = run_steps(X, d)
    bound, sigma2, t, m, S_sum = dense_iteration(X, state)
    result = step(state)
    assert result.bound == pytest.approx(bound, rel=1e-10)
    assert result.sigma2 == pytest.approx(sigma2, rel=1e-10)
    # Parameter expansion multiplies t by a number, and W by a matrix R.
    scale = result.t[t > 0] / t[t > 0]
    np.testing.assert_allclose(scale, scale[0])
    np.testing.assert_array_equal(result.t == 0, t == 0)
    R = np.linalg.lstsq(m, result.M, rcond=None)[0]
    np.testing.assert_allclose(m @ R, result.M, atol=1e-8 * np.abs(m).max())
    if np.sum(t > 0) >= d:
        np.testing.assert_allclose(R.T @ S_sum @ R, result.S_sum, rtol=1e-5, atol=1e-9)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("seed", range(2))
def test_iterations_over_loadings_and_factors_agree(n, p, d, seed):
    op = DenseOperator(make_data(n, p, d, seed))
    parts = spectrum(op)
    step, factor_step = make_step(op, n), make_factor_step(op, n)
    a, b = init(parts, d), to_factor_state(init(parts, d), op)
    assert b.Y.shape == (n, d)
    for _ in range(12):
        a, b = step(a), factor_step(b)
        assert b.bound == pytest.approx(a.bound, rel=1e-10)
        assert b.sigma2 == pytest.approx(a.sigma2, rel=1e-8)
    np.testing.assert_allclose(b.t, a.t, rtol=1e-6, atol=1e-10)
    np.testing.assert_allclose(b.slope, a.slope, rtol=1e-6, atol=1e-8)


def make_iterations(op, n, parts, d, iterated):
    """Return step, initial state and accelerator over the loadings M or the factors Y."""
    start = init(parts, d)
    if iterated == "M":
        return make_step(op, n), start, over_loadings("M", op.xp, QuasiNewton)
    start = to_factor_state(start, op)
    return make_factor_step(op, n), start, over_factors(start, op.xp)


def smooth_spectra(n, p, lines, noise, seed):
    """Return nearly collinear neighbouring columns: many small eigenvalues and little noise."""
    rng, grid = np.random.default_rng(seed), np.linspace(0.0, 1.0, p)
    centres, widths = rng.random((2, lines, 1))
    shapes = np.exp(-0.5 * ((grid - centres) / (0.02 + 0.1 * widths)) ** 2)
    return rng.gamma(2.0, 1.0, (n, lines)) @ shapes + noise * rng.standard_normal((n, p))


def test_common_rounding_errors_do_not_decrease_the_bound():
    X = smooth_spectra(60, 2500, 40, 1e-3, seed=0)
    X -= X.mean(axis=0)
    op, (n, p), d = DenseOperator(X), X.shape, 30
    start, tol = to_factor_state(init(spectrum(op), d), op), 1e-8 * n * p
    run = iterate(
        make_factor_step(op, n),
        start,
        max_iter=800,
        tol=tol,
        accelerator=over_factors(start, op.xp),
        rounding=lambda state: residual_rounding(
            state, np.sum(X**2), state.sigma2, np.finfo(float).eps
        ),
    )
    assert run.reason is StopReason.CONVERGED


@pytest.mark.slow
@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("accelerated", [False, True])
@pytest.mark.parametrize("iterated", ["M", "Y"])
def test_bound_is_non_decreasing(n, p, d, seed, accelerated, iterated):
    X = make_data(n, p, d, seed)
    op = DenseOperator(X)
    step, start, accelerator = make_iterations(op, n, spectrum(op), d, iterated)
    run = iterate(
        step,
        start,
        max_iter=100,
        tol=0.0,
        accelerator=accelerator if accelerated else None,
        rounding=lambda state: residual_rounding(
            state, np.sum(X**2), state.sigma2, np.finfo(float).eps
        ),
    )
    assert np.all(np.diff(run.bounds) >= 0)
    assert run.reason in (StopReason.CONVERGED, StopReason.MAX_ITER)


@pytest.mark.parametrize(("n", "p", "d"), SHAPES)
def test_plain_iterations_decrease_by_rounding_errors_at_most(n, p, d):
    X = make_data(n, p, d, seed=9)
    state, step = run_steps(X, d, steps=1)
    for _ in range(60):
        result = step(state)
        assert result.bound >= state.bound - 1e-11 * n * p
        state = result


@pytest.mark.parametrize("seed", range(4))
def test_accelerated_and_plain_iterations_have_the_same_limit(seed):
    X = make_data(30, 80, 3, seed)
    op = DenseOperator(X)
    start, step = to_factor_state(init(spectrum(op), 3), op), make_factor_step(op, 30)
    fast = iterate(step, start, max_iter=500, tol=1e-10, accelerator=over_factors(start, op.xp))
    slow = iterate(step, start, max_iter=5000, tol=1e-9)
    assert fast.bounds[-1] == pytest.approx(slow.bounds[-1], rel=1e-8)


def test_removed_variables_are_at_a_local_maximum_of_the_bound():
    X = make_data(40, 60, 3, seed=2)
    state, _ = run_steps(X, 3, steps=400)
    removed = np.flatnonzero(state.t == 0)
    assert 0 < removed.size < 60
    best = dense_iteration(X, state)[0]
    for k in removed[:8]:
        for t in (1e-6, 1e-3, 0.1):
            perturbed = state._replace(t=np.where(np.arange(60) == k, t, state.t))
            assert bound_at_variances(X, perturbed) < best + 1e-9


def bound_at_variances(X, state):
    """Return the bound with optimal q(Y) and q(W) for the given t."""
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


def test_bound_at_variances_equals_the_iteration_after_convergence():
    X = make_data(20, 15, 2, seed=0)
    state, _ = run_steps(X, 2, steps=300)
    assert bound_at_variances(X, state) == pytest.approx(dense_iteration(X, state)[0], abs=1e-5)


def test_reduced_matrix_gives_the_same_iterations():
    X = make_data(90, 12, 3, seed=1)
    op = DenseOperator(X)
    parts = spectrum(op)
    assert parts.op.shape == (12, 12)
    whole, reduced = make_step(op, 90), make_step(parts.op, 90)
    a = b = init(parts, 3)
    for _ in range(10):
        a, b = whole(a), reduced(b)
        assert a.bound == pytest.approx(b.bound, rel=1e-12)
    np.testing.assert_allclose(a.t, b.t, rtol=1e-8, atol=1e-12)


@pytest.mark.parametrize("iterated", ["M", "Y"])
def test_iterations_run_on_other_array_libraries(iterated):
    X = make_data(15, 40, 3, seed=3)
    runs = []
    for make in (np.asarray, array_api_strict.asarray):
        op = DenseOperator(make(X))
        parts = spectrum(op)
        step, start, accelerator = make_iterations(parts.op, 15, parts, 3, iterated)
        run = iterate(step, start, max_iter=30, tol=1e-9, accelerator=accelerator)
        assert isinstance(getattr(run.state, iterated), type(op.X))
        assert isinstance(run.state.t, type(op.X))
        runs.append(run)
    np.testing.assert_allclose(runs[0].bounds, runs[1].bounds, rtol=1e-9)


class InBlocks(DenseOperator):
    """Data matrix in blocks of seven rows that counts how often it is read."""

    whole = None
    n_reads = 0

    def blocks(self, *, entrywise=False):
        self.n_reads += 1
        for low in range(0, self.shape[0], 7):
            rows = slice(low, min(low + 7, self.shape[0]))
            yield rows, self.X[rows]


@pytest.mark.parametrize(("n", "p", "d"), [(15, 40, 3), (40, 41, 5)])
def test_blocks_give_the_same_iterations_and_are_read_once_per_step(n, p, d):
    X = make_data(n, p, d, seed=1)
    runs = []
    for op in (DenseOperator(X), InBlocks(X)):
        parts = spectrum(op, d)
        step, start, accelerator = make_iterations(op, n, parts, d, "Y")
        runs.append(iterate(step, start, max_iter=9, tol=0.0, accelerator=accelerator))
    whole, blocks = runs
    np.testing.assert_allclose(blocks.bounds, whole.bounds, rtol=1e-12)
    for name in ("Y", "t", "slope", "root"):
        a, b = getattr(blocks.state, name), getattr(whole.state, name)
        np.testing.assert_allclose(a, b, rtol=1e-7, atol=1e-8, err_msg=name)
    np.testing.assert_allclose(blocks.state.YX, blocks.state.Y.T @ X, atol=1e-9)
    before = op.n_reads
    step(blocks.state)
    assert op.n_reads == before + 1


def test_proposals_contain_the_product_of_factors_and_data():
    X = make_data(15, 40, 3, seed=2)
    op = InBlocks(X)
    step, state, accelerator = make_iterations(op, 15, spectrum(op, 3), 3, "Y")
    memory = accelerator.begin(state)
    for _ in range(8):
        result = step(state)
        memory, state = accelerator.propose(memory, state, result)
        np.testing.assert_allclose(state.YX, state.Y.T @ X, rtol=1e-9, atol=1e-9)
    assert not np.allclose(state.Y, result.Y, atol=1e-6)
