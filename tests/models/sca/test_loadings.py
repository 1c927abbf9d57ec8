"""Rows of weights in blocks: each once, and the size of the blocks changes nothing."""

import numpy as np
import pytest

from prosparse.models.sca import loadings

pytestmark = pytest.mark.quick


def test_every_row_is_in_one_block():
    chosen = np.array([1, 4, 5, 8, 9, 12, 20])
    blocks = list(loadings._blocks(chosen, 3))
    assert [block.tolist() for block in blocks] == [[1, 4, 5], [8, 9, 12], [20]]
    assert list(loadings._blocks(chosen[:0], 3)) == []


@pytest.mark.parametrize("shared", [True, False])
def test_blocks_change_nothing(shared, monkeypatch, rng):
    p, Q = 20, 3
    Z = rng.standard_normal((1 if shared else p, 30, Q))
    A = Z.transpose(0, 2, 1) @ Z
    G = 10.0 * rng.standard_normal((p, Q)) * (rng.random((p, Q)) < 0.5)
    t = rng.gamma(1.0, 1.0, (p, Q)) * (rng.random((p, Q)) < 0.5)
    allowed = rng.random((p, Q)) < 0.8
    given = t, rng.gamma(2.0, 1.0, p), A, G, allowed, rng.gamma(1.0, 1.0, (p, Q))
    whole = loadings.update_ard_rows(*given)
    monkeypatch.setattr(loadings, "MAX_BLOCK_ENTRIES", 4 * Q * Q)
    for one, other in zip(whole, loadings.update_ard_rows(*given), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    assert 0 < np.count_nonzero(whole.t) < whole.t.size
    assert np.all(whole.t[~allowed] == 0)


@pytest.mark.parametrize("shared", [True, False])
def test_weights_that_stay_zero_need_no_visit(shared, monkeypatch, rng):
    """Where most weights are zero only the others are visited, to the same end."""
    p, Q, n = 40, 7, 30
    Z = rng.standard_normal((1 if shared else p, n, Q))
    W = np.where(rng.random((p, Q)) < 0.2, rng.standard_normal((p, Q)), 0.0)
    x = np.einsum("inj,ij->in", np.broadcast_to(Z, (p, n, Q)), W) + rng.standard_normal((p, n))
    A, G = Z.transpose(0, 2, 1) @ Z, np.einsum("inj,in->ij", np.broadcast_to(Z, (p, n, Q)), x)
    given = np.ones(p), A, G, rng.random((p, Q)) < 0.9, np.full((p, Q), 1.0)

    def settled():
        t = np.zeros((p, Q))
        for _ in range(30):
            found = loadings.update_ard_rows(t, *given)
            t = found.t
        return found

    whole, widths = settled(), []
    visit = loadings._sweep
    monkeypatch.setattr(loadings, "MAX_BLOCK_ENTRIES", 1)
    monkeypatch.setattr(
        loadings, "_sweep", lambda t, *others: widths.append(t.shape[1]) or visit(t, *others)
    )
    for one, other in zip(whole, settled(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert 0.05 < np.mean(whole.t > 0) < 0.4
    assert np.mean(widths) < 0.5 * Q


def table_of_rows(rng, p, Q, n, shared):
    """Sums over samples whose latents correlate, and what they say of sparse weights."""
    Z = rng.standard_normal((1 if shared else p, n, Q)) + 0.3 * rng.standard_normal((1, n, 1))
    W = np.where(rng.random((p, Q)) < 0.4, rng.standard_normal((p, Q)), 0.0)
    x = np.einsum("inj,ij->in", np.broadcast_to(Z, (p, n, Q)), W) + rng.standard_normal((p, n))
    return Z.transpose(0, 2, 1) @ Z, np.einsum("inj,in->ij", np.broadcast_to(Z, (p, n, Q)), x)


def evidence_of_rows(t, tau, A, G, cost):
    """Per row, typed from the definition: log N(g; ...) with the weights integrated out."""
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
def test_weights_that_move_at_once_end_where_visits_end(shared, monkeypatch, rng):
    p, Q = 12, 6
    A, G = table_of_rows(rng, p, Q, 60, shared)
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
    heights = [evidence_of_rows(rows.t, given[0], A, G, given[4]) for rows in at_once]
    assert np.all(np.diff(heights, axis=0) >= -1e-9)


def test_rows_for_which_moving_at_once_does_not_pay_are_visited(monkeypatch, rng):
    """Two latents that are nearly the same: each alone would take what both have."""
    p, Q, n = 5, 3, 40
    z = rng.standard_normal((n, 1))
    Z = np.hstack([z, z + 0.05 * rng.standard_normal((n, 1)), rng.standard_normal((n, 1))])
    G = (Z.T @ (z + 0.1 * rng.standard_normal((n, p)))).T
    given = np.full(p, 10.0), (Z.T @ Z)[None], G, np.full((p, Q), True), np.full((p, Q), 0.1)
    start = np.zeros((p, Q))
    visited = []
    visit = loadings._sweep
    monkeypatch.setattr(loadings, "MAX_SEQUENTIAL_FACTORS", 0)
    monkeypatch.setattr(
        loadings, "_sweep", lambda t, *rest: visited.append(t.shape[0]) or visit(t, *rest)
    )
    tau, A, G, _, cost = given
    t, heights = start, [evidence_of_rows(start, tau, A, G, cost)]
    for _ in range(10):
        t = loadings.update_ard_rows(t, *given).t
        heights.append(evidence_of_rows(t, tau, A, G, cost))
    assert sum(visited) > 0
    assert np.all(np.diff(heights, axis=0) >= -1e-9)
