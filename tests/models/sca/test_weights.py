"""Rows of weights in blocks: each once, and the size of the blocks changes nothing."""

import numpy as np
import pytest

from prosparse.models.sca import weights

pytestmark = pytest.mark.quick


def test_every_row_is_in_one_block():
    chosen = np.array([1, 4, 5, 8, 9, 12, 20])
    blocks = list(weights._blocks(chosen, 3))
    assert [block.tolist() for block in blocks] == [[1, 4, 5], [8, 9, 12], [20]]
    assert list(weights._blocks(chosen[:0], 3)) == []


@pytest.mark.parametrize("shared", [True, False])
def test_blocks_change_nothing(shared, monkeypatch, rng):
    p, Q = 20, 3
    Z = rng.standard_normal((1 if shared else p, 30, Q))
    A = Z.transpose(0, 2, 1) @ Z
    G = 10.0 * rng.standard_normal((p, Q)) * (rng.random((p, Q)) < 0.5)
    t = rng.gamma(1.0, 1.0, (p, Q)) * (rng.random((p, Q)) < 0.5)
    allowed = rng.random((p, Q)) < 0.8
    given = t, rng.gamma(2.0, 1.0, p), A, G, allowed, rng.gamma(1.0, 1.0, (p, Q))
    whole = weights.relevance_rows(*given)
    monkeypatch.setattr(weights, "WEIGHT_ENTRIES_PER_BLOCK", 4 * Q * Q)
    for one, other in zip(whole, weights.relevance_rows(*given), strict=True):
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
        for _ in range(60):
            found = weights.relevance_rows(t, *given)
            t = found.t
        return found

    whole, widths = settled(), []
    visit = weights._visit
    monkeypatch.setattr(weights, "WEIGHT_ENTRIES_PER_BLOCK", 1)
    monkeypatch.setattr(
        weights, "_visit", lambda t, *others: widths.append(t.shape[1]) or visit(t, *others)
    )
    for one, other in zip(whole, settled(), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-8)
    assert 0.05 < np.mean(whole.t > 0) < 0.4
    assert np.mean(widths) < 0.5 * Q
