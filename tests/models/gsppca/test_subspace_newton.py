"""Newton's step out of the span of the latents, against the bound itself."""

import numpy as np
import pytest

from prosparse.data import DenseOperator
from prosparse.models.gsppca.factors import make_factor_step, to_factor_state
from prosparse.models.gsppca.model import init
from prosparse.models.gsppca.subspace_newton import (
    Curvature,
    newton_correction,
    projection_coefficients,
)
from prosparse.numerics.spectrum import spectrum

pytestmark = pytest.mark.quick


def problem(seed, n=12, p=30, d=3):
    """A place on the way: latents, their covariance, and variances of the variables."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal((n, d)) @ rng.standard_normal((d, p))
    Y = rng.standard_normal((n, d)) * np.array([1.0, 2.0, 3.0])[:d]
    return X, Y, 0.1 * np.diag(rng.random(d) + 0.5), rng.gamma(1.0, 1.0, p), 0.8


def collapsed_bound(X, Y, Sigma, t, sigma2):
    """What of the bound depends on Y, with the best q(W) for it, one variable at a time."""
    n, d = Y.shape
    A = n * Sigma + Y.T @ Y
    value = -0.5 * np.trace(A)
    for x, tk in zip(X.T, t, strict=True):
        precision = np.eye(d) / tk + A / sigma2
        g = Y.T @ x / sigma2
        value += 0.5 * g @ np.linalg.solve(precision, g)
        value -= 0.5 * np.linalg.slogdet(tk * precision)[1]
    return value


def known(X, Y, Sigma, t, sigma2):
    """The basis Q, and there the S_jk and all of P."""
    n, d = Y.shape
    a, Q = np.linalg.eigh(n * Sigma + Y.T @ Y)
    S = t / (1.0 + a[:, None] * t / sigma2)
    means = S * (Q.T @ Y.T @ X) / sigma2
    return Q, S, np.eye(d) + (means @ means.T + np.diag(S.sum(axis=1))) / sigma2


@pytest.mark.parametrize("seed", range(5))
def test_the_second_derivative_is_that_of_the_bound(seed):
    X, Y, Sigma, t, sigma2 = problem(seed)
    Q, S, P = known(X, Y, Sigma, t, sigma2)
    u = np.linalg.svd(Y)[0][:, -1]  # outside of the span of Y
    for j in range(Y.shape[1]):
        direction, h = np.outer(u, Q[:, j]), 1e-3
        low, middle, high = (
            collapsed_bound(X, Y + k * h * direction, Sigma, t, sigma2) for k in (-1, 0, 1)
        )
        second = -P[j, j] + np.sum(S[j] * (u @ X) ** 2) / sigma2**2
        assert (high - 2.0 * middle + low) / h**2 == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_the_part_outside_is_orthogonal_to_the_latents(seed):
    _, Y, *_ = problem(seed)
    F = np.random.default_rng(seed).standard_normal(Y.shape)
    outside = F - Y @ projection_coefficients(Y.T @ Y, Y.T @ F)
    np.testing.assert_allclose(Y.T @ outside, 0.0, atol=1e-7)
    np.testing.assert_allclose(outside, F - Y @ np.linalg.lstsq(Y, F, rcond=None)[0], atol=1e-7)


def newton(outside, X, at):
    """The same by one linear system, with every curvature counted as negative."""
    n, d = outside.shape
    shares = np.zeros((n * d, n * d))
    for j in range(d):
        place = slice(j * n, (j + 1) * n)
        shares[place, place] = at.c**2 * (X * at.S[j]) @ X.T / at.P[j]
    within = np.kron(np.eye(d), outside @ np.linalg.pinv(outside))
    values, vectors = np.linalg.eigh(within @ shares @ within)
    step = (outside @ at.Q).T.ravel()
    longer = vectors @ ((vectors.T @ step) / np.abs(1.0 - values))
    return longer.reshape(d, n).T @ at.Q.T


@pytest.mark.parametrize("strength", [0.3, 0.9, 1.7])  # the last beyond a saddle
def test_proportional_variances_give_all_of_newtons_step(strength):
    """One basis of the outside is then the right one for all directions."""
    X, Y, *_ = problem(0)
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    S = np.outer([1.0, 0.8, 0.5], rng.gamma(1.0, 1.0, X.shape[1]))
    F = rng.standard_normal(Y.shape)
    outside = F - Y @ projection_coefficients(Y.T @ Y, Y.T @ F)
    P = np.array([5.0, 6.0, 7.0])
    at = Curvature(Q, S, P, 1.0)
    basis = np.linalg.qr(outside)[0]
    largest = np.linalg.eigvalsh(basis.T @ (X * S[0]) @ X.T @ basis)[-1] / P[0]
    at = at._replace(c=np.sqrt(strength / largest))
    further, share = newton_correction(outside, at, lambda B: (outside @ B).T @ X)
    assert share == pytest.approx(strength)
    np.testing.assert_allclose(outside + outside @ further, newton(outside, X, at), atol=1e-7)


def test_nothing_outside_leaves_nothing_to_turn():
    X, Y, Sigma, t, sigma2 = problem(0)
    Q, S, P = known(X, Y, Sigma, t, sigma2)
    at = Curvature(Q, S, np.diag(P), 1.0 / sigma2)
    assert not newton_correction(np.zeros_like(Y), at, lambda B: B.T @ np.zeros_like(S))[0].any()


def test_what_is_beyond_the_range_of_numbers_is_left_alone():
    X, Y, Sigma, t, sigma2 = problem(0)
    Q, S, P = known(X, Y, Sigma, t, sigma2)
    at = Curvature(Q, S, np.diag(P), np.inf)
    F = np.random.default_rng(0).standard_normal(Y.shape)
    with np.errstate(invalid="ignore"):
        assert not newton_correction(F, at, lambda B: (F @ B).T @ X)[0].any()


@pytest.mark.parametrize(
    ("seed", "n", "p", "decay", "times"), [(1, 30, 300, 0.05, 5), (3, 40, 400, 0.03, 9)]
)
def test_a_pass_from_further_out_raises_the_bound_much_more(seed, n, p, decay, times):
    """Factors of slowly falling strength: the weakest of d directions is nearly any other."""
    rng, d = np.random.default_rng(seed), 12
    factors = rng.standard_normal((n, 40)) * np.exp(-decay * np.arange(40))
    X = factors @ rng.standard_normal((40, p)) + 0.7 * rng.standard_normal((n, p))
    op = DenseOperator(X - X.mean(axis=0))
    step, state = make_factor_step(op, n), to_factor_state(init(spectrum(op), d), op)
    for _ in range(15):
        state = step(state)
    plain, further = (step(state._replace(Y=Y)).bound for Y in (state.Y, state.Y_newton))
    assert further - state.bound > times * (plain - state.bound) > 0
