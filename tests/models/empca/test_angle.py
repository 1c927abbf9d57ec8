"""Angle constraints, compared with a grid of points."""

import numpy as np
import pytest

from prosparse.models.empca.angle import maximise_linear

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("nonnegative", [False, True])
@pytest.mark.parametrize("seed", range(5))
def test_maximum_of_a_linear_form_under_angle_constraints(nonnegative, seed):
    """No feasible point among many goes further along f, and the constraint holds."""
    rng = np.random.default_rng(seed)
    V = np.abs(rng.standard_normal((6, 2))) * (rng.random((6, 2)) < 0.7)
    V /= np.linalg.norm(V, axis=0)
    G = V if nonnegative else np.column_stack([V, -V])
    f, c = V.sum(axis=1) + 0.5 * np.abs(rng.standard_normal(6)), 0.3
    w, alpha = maximise_linear(f, G, c, nonnegative)
    assert np.linalg.norm(w) == pytest.approx(1.0)
    assert np.all(G.T @ w <= c)
    assert np.all(alpha >= 0)
    Z = rng.standard_normal((200_000, 6))
    Z = np.abs(Z) if nonnegative else Z
    Z = np.vstack([Z, w + 0.05 * Z])
    Z = np.clip(Z, 0.0, None) if nonnegative else Z
    Z /= np.linalg.norm(Z, axis=1, keepdims=True)
    rivals = Z[np.all(c >= Z @ G, axis=1)]
    assert rivals.shape[0] > 100
    assert np.max(rivals @ f) <= f @ w + 1e-9


def test_unit_norm_with_nearly_dependent_constraints():
    """Nearly parallel constraints amplify rounding errors of the projection."""
    for seed in range(40):
        rng = np.random.default_rng(seed)
        first = rng.normal(size=6)
        first /= np.linalg.norm(first)
        second = first + 10.0 ** rng.uniform(-10, -6) * rng.normal(size=6)
        G = np.column_stack([first, second / np.linalg.norm(second)])
        f = 10.0 * first + 10.0 ** rng.uniform(-6, 0) * rng.normal(size=6)
        w, _ = maximise_linear(f, G, 0.5, False)
        assert w is not None
        assert np.linalg.norm(w) == pytest.approx(1.0, abs=1e-10)
