"""Update of the prior variances, and parameter expansion."""

import array_api_compat.numpy as xp
import numpy as np
import pytest
from scipy.optimize import minimize

from prosparse.models.gsppca.parameter_expansion import expand
from prosparse.models.gsppca.relevance import update_variances

pytestmark = pytest.mark.quick


def h(t, e, w):
    """Compute h_k(t) from its definition; e and w have shape (d,)."""
    return 0.5 * np.sum(-np.log(1 + e * t) + w * t / (1 + e * t))


def update(t, e, w):
    return update_variances(t, e, w, xp, lambda update: ((), None))[0]


def random_problem(seed, d=4, p=60, strength=3.0):
    rng = np.random.default_rng(seed)
    e = rng.gamma(2.0, 10.0, d)
    w = e[:, None] * rng.chisquare(1, (d, p)) * rng.uniform(0, strength, p)
    t = np.where(rng.random(p) < 0.3, 0.0, rng.gamma(1.0, 0.2, p))
    return e, w, t


@pytest.mark.parametrize("seed", range(8))
def test_updates_increase_every_term_to_a_local_maximum(seed):
    e, w, t = random_problem(seed)
    for _ in range(40):
        before = [h(t[k], e, w[:, k]) for k in range(t.size)]
        new = update(t, e, w)
        t, D, T, log_D, slope = new.t, new.D, new.T, new.log_D, new.slope
        after = np.array([h(t[k], e, w[:, k]) for k in range(t.size)])
        assert np.all(after >= before - 1e-12 * (1 + np.abs(before)))
    np.testing.assert_allclose(0.5 * (T + log_D), after, atol=1e-10)
    np.testing.assert_allclose(D, 1 / (1 + e[:, None] * t))
    np.testing.assert_allclose(new.D_sum, D.sum(0))
    np.testing.assert_allclose(new.TD, (w * t * D**2).sum(0))
    assert 0 < np.sum(t == 0) < t.size
    for k in range(t.size):
        if t[k] == 0:  # Entering the model would decrease the bound.
            assert slope[k] <= 0
            assert h(1e-7 / e.max(), e, w[:, k]) <= 0
        else:
            near = [h(t[k] * f, e, w[:, k]) for f in (0.999, 1.001)]
            assert max(near) <= after[k] + 1e-12


def test_slope_is_the_derivative_at_zero():
    e, w, t = random_problem(3)
    slope = update(t, e, w).slope
    numeric = [h(1e-9, e, w[:, k]) / 1e-9 for k in range(t.size)]
    np.testing.assert_allclose(slope, numeric, rtol=1e-4, atol=1e-4)


def test_variables_with_positive_slope_enter_the_model():
    e, w, _ = random_problem(1)
    t = update(np.zeros(w.shape[1]), e, w).t
    slope = 0.5 * (w.sum(0) - e.sum())
    np.testing.assert_array_equal(t > 0, slope > 0)


def test_variable_with_a_distant_maximum_stays_in_the_model():
    # One direction has much data and no signal, the other little data and a strong signal.
    e, w = np.array([1000.0, 1.0]), np.array([[0.0], [900.0]])
    assert 0.5 * (w.sum() - e.sum()) < 0 < h(200.0, e, w[:, 0])
    t = np.array([200.0])
    for _ in range(20):
        t = update(t, e, w).t
    assert t[0] > 100


@pytest.mark.parametrize("start", [4.0, 1e12])
def test_variable_stays_if_its_term_is_positive_elsewhere(start):
    """The term is negative at the start and near zero, and positive in between."""
    e, w, t = np.array([0.01, 10.0]), np.array([[0.4], [0.0]]), np.array([start])
    assert h(start, e, w[:, 0]) < 0
    assert update(np.zeros(1), e, w).slope[0] < 0
    for _ in range(40):
        t = update(t, e, w).t
    grid = np.geomspace(1e-6, 1e14, 2001)
    best = max(grid, key=lambda value: h(value, e, w[:, 0]))
    assert h(best, e, w[:, 0]) > 0
    assert t[0] == pytest.approx(best, rel=0.05)


def test_variable_leaves_if_its_term_is_negative_everywhere():
    e, w, t = np.array([0.01, 10.0]), np.array([[0.02], [0.0]]), np.array([100.0])
    assert max(h(value, e, w[:, 0]) for value in np.geomspace(1e-6, 1e14, 2001)) < 0
    for _ in range(40):
        t = update(t, e, w).t
    assert t[0] == 0.0


@pytest.mark.parametrize("n", [3, 500])
def test_expansion_minimises_the_divergences(n):
    rng = np.random.default_rng(n)
    d, p = 3, 40
    a = rng.gamma(3.0, 5.0, d)
    t = np.where(rng.random(p) < 0.5, rng.gamma(1.0, 1.0, p), 0.0)
    D = np.where(t > 0, rng.random((d, p)), 1.0)
    V = np.where(t > 0, rng.standard_normal((d, p)), 0.0)
    active = t > 0
    B = V @ V.T + np.diag(D[:, active].sum(1))

    def divergence(R, r2=1.0):
        Z = R @ R.T
        return 0.5 * (
            np.trace(np.linalg.solve(Z, np.diag(a)))
            + np.trace(B @ Z) / r2
            + (n - active.sum()) * np.linalg.slogdet(Z)[1]
            + d * active.sum() * np.log(r2)
        )

    R, scale = expand(a, B, n, active.sum())
    assert divergence(R, scale) <= divergence(np.eye(d))
    shape_only = R / np.sqrt(scale)
    best = minimize(lambda x: divergence(x.reshape(d, d)), np.eye(d).ravel(), tol=1e-12)
    assert divergence(shape_only) == pytest.approx(best.fun, abs=1e-6)
    scales = np.exp(np.linspace(-0.5, 0.5, 11))
    along = [divergence(R * np.sqrt(s), scale * s) for s in scales]
    assert np.argmin(along) == 5
