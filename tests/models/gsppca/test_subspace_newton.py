"""Newton steps of the factors out of their span, compared with the bound."""

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
    """Return data, factors, their covariance, prior variances and the noise variance."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, p)) + rng.standard_normal((n, d)) @ rng.standard_normal((d, p))
    Y = rng.standard_normal((n, d)) * np.array([1.0, 2.0, 3.0])[:d]
    return X, Y, 0.1 * np.diag(rng.random(d) + 0.5), rng.gamma(1.0, 1.0, p), 0.8


def collapsed_bound(X, Y, Sigma, t, sigma2):
    """Compute the part of the bound that depends on Y, with the optimal q(W) for it."""
    n, d = Y.shape
    A = n * Sigma + Y.T @ Y
    value = -0.5 * np.trace(A)
    for x, tk in zip(X.T, t, strict=True):
        precision = np.eye(d) / tk + A / sigma2
        g = Y.T @ x / sigma2
        value += 0.5 * g @ np.linalg.solve(precision, g)
        value -= 0.5 * np.linalg.slogdet(tk * precision)[1]
    return value


def curvature_terms(X, Y, Sigma, t, sigma2):
    """Return the basis Q, and S and P in it."""
    n, d = Y.shape
    a, Q = np.linalg.eigh(n * Sigma + Y.T @ Y)
    S = t / (1.0 + a[:, None] * t / sigma2)
    means = S * (Q.T @ Y.T @ X) / sigma2
    return Q, S, np.eye(d) + (means @ means.T + np.diag(S.sum(axis=1))) / sigma2


@pytest.mark.parametrize("seed", range(5))
def test_second_derivative_equals_finite_differences(seed):
    X, Y, Sigma, t, sigma2 = problem(seed)
    Q, S, P = curvature_terms(X, Y, Sigma, t, sigma2)
    u = np.linalg.svd(Y)[0][:, -1]  # orthogonal to the span of Y
    for j in range(Y.shape[1]):
        direction, h = np.outer(u, Q[:, j]), 1e-3
        low, middle, high = (
            collapsed_bound(X, Y + k * h * direction, Sigma, t, sigma2) for k in (-1, 0, 1)
        )
        second = -P[j, j] + np.sum(S[j] * (u @ X) ** 2) / sigma2**2
        assert (high - 2.0 * middle + low) / h**2 == pytest.approx(second, rel=1e-4)


@pytest.mark.parametrize("seed", range(5))
def test_residual_of_the_projection_is_orthogonal_to_the_factors(seed):
    _, Y, *_ = problem(seed)
    F = np.random.default_rng(seed).standard_normal(Y.shape)
    orthogonal = F - Y @ projection_coefficients(Y.T @ Y, Y.T @ F)
    np.testing.assert_allclose(Y.T @ orthogonal, 0.0, atol=1e-7)
    np.testing.assert_allclose(orthogonal, F - Y @ np.linalg.lstsq(Y, F, rcond=None)[0], atol=1e-7)


def newton(orthogonal, X, curvature):
    """Solve one linear system with absolute eigenvalues of the Hessian."""
    n, d = orthogonal.shape
    ratios = np.zeros((n * d, n * d))
    for j in range(d):
        rows = slice(j * n, (j + 1) * n)
        ratios[rows, rows] = curvature.c**2 * (X * curvature.S[j]) @ X.T / curvature.P[j]
    within = np.kron(np.eye(d), orthogonal @ np.linalg.pinv(orthogonal))
    values, vectors = np.linalg.eigh(within @ ratios @ within)
    step = (orthogonal @ curvature.Q).T.ravel()
    newton_step = vectors @ ((vectors.T @ step) / np.abs(1.0 - values))
    return newton_step.reshape(d, n).T @ curvature.Q.T


@pytest.mark.parametrize("strength", [0.3, 0.9, 1.7])  # a ratio above 1 is a saddle
def test_step_is_exact_for_proportional_variances(strength):
    """One basis of the orthogonal complement then diagonalises the Hessian for all directions."""
    X, Y, *_ = problem(0)
    rng = np.random.default_rng(1)
    Q = np.linalg.qr(rng.standard_normal((3, 3)))[0]
    S = np.outer([1.0, 0.8, 0.5], rng.gamma(1.0, 1.0, X.shape[1]))
    F = rng.standard_normal(Y.shape)
    orthogonal = F - Y @ projection_coefficients(Y.T @ Y, Y.T @ F)
    P = np.array([5.0, 6.0, 7.0])
    curvature = Curvature(Q, S, P, 1.0)
    basis = np.linalg.qr(orthogonal)[0]
    largest = np.linalg.eigvalsh(basis.T @ (X * S[0]) @ X.T @ basis)[-1] / P[0]
    curvature = curvature._replace(c=np.sqrt(strength / largest))
    correction, ratio = newton_correction(orthogonal, curvature, lambda B: (orthogonal @ B).T @ X)
    assert ratio == pytest.approx(strength)
    np.testing.assert_allclose(
        orthogonal + orthogonal @ correction, newton(orthogonal, X, curvature), atol=1e-7
    )


def test_correction_is_zero_without_an_orthogonal_part():
    X, Y, Sigma, t, sigma2 = problem(0)
    Q, S, P = curvature_terms(X, Y, Sigma, t, sigma2)
    curvature = Curvature(Q, S, np.diag(P), 1.0 / sigma2)
    assert not newton_correction(np.zeros_like(Y), curvature, lambda B: B.T @ np.zeros_like(S))[
        0
    ].any()


def test_correction_is_zero_if_the_ratios_overflow():
    X, Y, Sigma, t, sigma2 = problem(0)
    Q, S, P = curvature_terms(X, Y, Sigma, t, sigma2)
    curvature = Curvature(Q, S, np.diag(P), np.inf)
    F = np.random.default_rng(0).standard_normal(Y.shape)
    with np.errstate(invalid="ignore"):
        assert not newton_correction(F, curvature, lambda B: (F @ B).T @ X)[0].any()


@pytest.mark.parametrize(
    ("seed", "n", "p", "decay", "factor"), [(1, 30, 300, 0.05, 5), (3, 40, 400, 0.03, 9)]
)
def test_iteration_after_a_newton_step_increases_the_bound_more(seed, n, p, decay, factor):
    """The eigenvalues decrease slowly, so that plain iterations change the span slowly."""
    rng, d = np.random.default_rng(seed), 12
    factors = rng.standard_normal((n, 40)) * np.exp(-decay * np.arange(40))
    X = factors @ rng.standard_normal((40, p)) + 0.7 * rng.standard_normal((n, p))
    op = DenseOperator(X - X.mean(axis=0))
    step, state = make_factor_step(op, n), to_factor_state(init(spectrum(op), d), op)
    for _ in range(15):
        state = step(state)
    plain, newton = (step(state._replace(Y=Y)).bound for Y in (state.Y, state.Y_newton))
    assert newton - state.bound > factor * (plain - state.bound) > 0
