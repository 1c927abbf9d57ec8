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
