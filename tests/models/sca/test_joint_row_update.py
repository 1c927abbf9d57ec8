"""Optimal prior variances of the loadings of a row against a numerical search."""

import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from prosparse.models.sca import joint_row_update

p, Q, n = 6, 4, 30


def log_evidence(t, tau, A, g, cost):
    """Log evidence of one row from its definition, over the included loadings."""
    inside = t > 0
    W = np.diag(1.0 / t[inside]) + tau * A[np.ix_(inside, inside)]
    b = tau * g[inside]
    log_det = np.linalg.slogdet(W)[1] + np.log(t[inside]).sum()
    return 0.5 * (b @ np.linalg.solve(W, b) - log_det) - cost[inside].sum()


def optimum_along(t, j, *row):
    """Optimal t_j given the others, or zero."""

    def negative_evidence(log_t):
        moved = t.copy()
        moved[j] = np.exp(log_t)
        return -log_evidence(moved, *row)

    grid = np.linspace(-15.0, 10.0, 200)
    start = grid[np.argmin([negative_evidence(x) for x in grid])]
    found = minimize_scalar(negative_evidence, bounds=(start - 0.2, start + 0.2), method="bounded")
    without = t.copy()
    without[j] = 0.0
    return np.exp(found.x) if -found.fun > log_evidence(without, *row) else 0.0


@pytest.fixture
def rows(rng):
    Z = rng.standard_normal((n, Q)) @ (np.eye(Q) + 0.3 * rng.standard_normal((Q, Q)))
    W = rng.standard_normal((p, Q)) * (rng.random((p, Q)) < 0.6)
    G = (Z @ W.T + 0.7 * rng.standard_normal((n, p))).T @ Z
    tau, A, cost = rng.uniform(1.0, 3.0, p), Z.T @ Z, rng.uniform(0.0, 1.0, (p, Q))
    return tau, A, G, cost


def test_optimal_variances_of_included_loadings(rows, rng):
    tau, A, G, cost = rows
    t = rng.uniform(0.05, 3.0, (p, Q))
    found = joint_row_update.optimal_included_variances(
        joint_row_update.posterior(t, tau, A[None], G), cost
    )
    slow = [[optimum_along(t[i], j, tau[i], A, G[i], cost[i]) for j in range(Q)] for i in range(p)]
    np.testing.assert_allclose(found, slow, rtol=1e-4)
    assert 0 < np.count_nonzero(found) < found.size


def test_optimal_variances_of_excluded_loadings(rows, rng):
    tau, A, G, cost = rows
    at = np.tile([0, 1], (p, 1))
    t = np.zeros((p, Q))
    t[:, :2] = rng.uniform(0.05, 3.0, (p, 2))
    within = joint_row_update.posterior(t[:, :2], tau, A[None, :2, :2], G[:, :2])
    allowed = np.full((p, Q), True)
    allowed[0, 3] = False
    min_residual_squares = (1.0 / np.linalg.inv(A).diagonal())[None]
    i, j, best = joint_row_update.optimal_excluded_variances(
        within, at, tau, A[None], G, allowed, cost, min_residual_squares
    )
    found = np.zeros((p, Q))
    found[i, j] = best
    slow = np.zeros((p, Q))
    for row in range(p):
        for k in (2, 3):
            if allowed[row, k]:
                slow[row, k] = optimum_along(t[row], k, tau[row], A, G[row], cost[row])
    np.testing.assert_allclose(found, slow, rtol=1e-4)
    assert 0 < np.count_nonzero(found) < 2 * p - 1
