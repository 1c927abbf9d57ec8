"""Updates of the rows of the loadings under ARD."""

import numpy as np
import pytest

from prosparse.models.sca import loadings

pytestmark = pytest.mark.quick


@pytest.mark.parametrize("shared", [True, False])
def test_block_size_does_not_change_the_update(shared, monkeypatch, rng):
    p, Q = 20, 3
    Z = rng.standard_normal((1 if shared else p, 30, Q))
    A = Z.transpose(0, 2, 1) @ Z
    G = 10.0 * rng.standard_normal((p, Q)) * (rng.random((p, Q)) < 0.5)
    t = rng.gamma(1.0, 1.0, (p, Q)) * (rng.random((p, Q)) < 0.5)
    allowed = rng.random((p, Q)) < 0.8
    given = t, rng.gamma(2.0, 1.0, p), A, G, allowed, rng.gamma(1.0, 1.0, (p, Q))
    reference = loadings.update_ard_rows(*given)
    monkeypatch.setattr(loadings, "MAX_BLOCK_ENTRIES", 4 * Q * Q)
    for one, other in zip(reference, loadings.update_ard_rows(*given), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert 0 < np.count_nonzero(reference.t) < reference.t.size
    assert np.all(reference.t[~allowed] == 0)


@pytest.mark.parametrize("shared", [True, False])
def test_screened_and_complete_sweeps_agree(shared, monkeypatch, rng):
    """Sweeps over candidates only converge to the same solution."""
    p, Q, n = 40, 7, 30
    Z = rng.standard_normal((1 if shared else p, n, Q))
    W = np.where(rng.random((p, Q)) < 0.2, rng.standard_normal((p, Q)), 0.0)
    x = np.einsum("inj,ij->in", np.broadcast_to(Z, (p, n, Q)), W) + rng.standard_normal((p, n))
    A, G = Z.transpose(0, 2, 1) @ Z, np.einsum("inj,in->ij", np.broadcast_to(Z, (p, n, Q)), x)
    given = np.ones(p), A, G, rng.random((p, Q)) < 0.9, np.full((p, Q), 1.0)

    def converged():
        t = np.zeros((p, Q))
        for _ in range(30):
            found = loadings.update_ard_rows(t, *given)
            t = found.t
        return found

    reference = converged()
    monkeypatch.setattr(loadings, "MAX_BLOCK_ENTRIES", 1)
    for one, other in zip(reference, converged(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert 0.05 < np.mean(reference.t > 0) < 0.4


def moments_of_rows(rng, p, Q, n, shared):
    """Return moments of correlated factors and their products with sparse data."""
    Z = rng.standard_normal((1 if shared else p, n, Q)) + 0.3 * rng.standard_normal((1, n, 1))
    W = np.where(rng.random((p, Q)) < 0.4, rng.standard_normal((p, Q)), 0.0)
    x = np.einsum("inj,ij->in", np.broadcast_to(Z, (p, n, Q)), W) + rng.standard_normal((p, n))
    return Z.transpose(0, 2, 1) @ Z, np.einsum("inj,in->ij", np.broadcast_to(Z, (p, n, Q)), x)


def evidence_of_rows(t, tau, A, G, cost):
    """Log evidence of each row from its definition, loadings integrated out."""
    found = []
    for i, variances in enumerate(t):
        of_row = A[0 if A.shape[0] == 1 else i]
        root = np.sqrt(variances)
        B = np.eye(t.shape[1]) + tau[i] * root[:, None] * of_row * root
        seen = tau[i] * root * G[i]
        fit = 0.5 * (seen @ np.linalg.solve(B, seen) - np.linalg.slogdet(B)[1])
        found.append(fit - np.sum(cost[i, variances > 0]))
    return np.array(found)


@pytest.mark.parametrize("shared", [True, False])
def test_joint_and_sequential_updates_converge_to_the_same_solution(shared, monkeypatch, rng):
    p, Q = 12, 6
    A, G = moments_of_rows(rng, p, Q, 60, shared)
    given = np.ones(p), A, G, rng.random((p, Q)) < 0.9, np.full((p, Q), 0.5)

    def path(few):
        monkeypatch.setattr(loadings, "MAX_SEQUENTIAL_FACTORS", few)
        t = rng.gamma(1.0, 1.0, (p, Q)) * given[3]
        found = []
        for _ in range(40):
            found.append(loadings.update_ard_rows(t, *given))
            t = found[-1].t
        return found

    at_once, visits = path(0), path(Q)
    for one, other in zip(at_once[-1], visits[-1], strict=True):
        np.testing.assert_allclose(one, other, atol=1e-6)
    assert 0 < np.count_nonzero(at_once[-1].t) < p * Q
    evidence_path = [evidence_of_rows(rows.t, given[0], A, G, given[4]) for rows in at_once]
    assert np.all(np.diff(evidence_path, axis=0) >= -1e-9)


def test_evidence_is_non_decreasing_with_collinear_factors(monkeypatch, rng):
    """A joint update of two nearly equal factors would overshoot."""
    p, Q, n = 5, 3, 40
    z = rng.standard_normal((n, 1))
    Z = np.hstack([z, z + 0.05 * rng.standard_normal((n, 1)), rng.standard_normal((n, 1))])
    G = (Z.T @ (z + 0.1 * rng.standard_normal((n, p)))).T
    given = np.full(p, 10.0), (Z.T @ Z)[None], G, np.full((p, Q), True), np.full((p, Q), 0.1)
    start = np.zeros((p, Q))
    monkeypatch.setattr(loadings, "MAX_SEQUENTIAL_FACTORS", 0)
    tau, A, G, _, cost = given
    t, evidence_path = start, [evidence_of_rows(start, tau, A, G, cost)]
    for _ in range(10):
        t = loadings.update_ard_rows(t, *given).t
        evidence_path.append(evidence_of_rows(t, tau, A, G, cost))
    assert np.all(np.diff(evidence_path, axis=0) >= -1e-9)
