"""Views as one data matrix, and E steps of complete and incomplete data."""

import numpy as np
import pytest

from prosparse import InputError
from prosparse.data import DenseOperator, stack_columns
from prosparse.data.missing_values import standardise_observed
from prosparse.models.sca.missing_e_step import IncompleteSamples, invert_stack
from prosparse.models.sca.samples import CompleteSamples
from prosparse.models.sca.views import join_views

pytestmark = pytest.mark.quick


def test_join_views_restores_the_column_order(rng):
    X = rng.standard_normal((4, 5))
    groups = [np.array([4, 0]), np.array([2, 1, 3])]
    np.testing.assert_array_equal(join_views([X[:, g] for g in groups], groups), X)
    missing = join_views([X[:, groups[0]], None], groups)
    assert np.isnan(missing[:, [1, 2, 3]]).all()
    with pytest.raises(InputError, match="rows"):
        stack_columns([X, X[:2]])


def test_centring_by_observed_means(rng):
    X = rng.standard_normal((30, 4)) * 1e3 + 1e6
    X[:, 2] = 5.0
    incomplete = np.where(rng.random((30, 4)) < 0.3, np.nan, X)
    op, columns, seen = standardise_observed(incomplete)
    Z = op.whole
    assert Z.shape == (30, 3)
    assert columns.varying.tolist() == [True, True, False, True]
    np.testing.assert_array_equal(seen, ~np.isnan(incomplete[:, [0, 1, 3]]))
    assert np.all(Z[~seen] == 0)
    np.testing.assert_allclose(columns.mean, np.nanmean(incomplete, axis=0))
    back = columns.mean[[0, 1, 3]] + columns.unit * Z
    np.testing.assert_allclose(back[seen], X[:, [0, 1, 3]][seen])


@pytest.mark.parametrize("uncertain", [False, True])
def test_moments_of_complete_data_agree(uncertain, rng):
    X = rng.standard_normal((20, 6))
    X -= X.mean(axis=0)
    L, tau = rng.standard_normal((6, 3)), rng.uniform(1, 2, 6)
    root = rng.standard_normal((6, 3, 3))
    C = root @ root.transpose(0, 2, 1) if uncertain else None
    whole = CompleteSamples(DenseOperator(X), 20).moments(L, C, tau, np.zeros(6))
    table = IncompleteSamples(X, np.ones_like(X, dtype=bool))
    assert table.patterns.shape[0] == 1
    parts = table.moments(L, C, tau, np.zeros(6))
    for a, b in zip(whole[:6], parts[:6], strict=True):
        np.testing.assert_allclose(np.broadcast_to(a, np.shape(b)), b, atol=1e-10)


def test_rows_with_equal_missing_values_share_a_pattern(rng):
    seen = np.ones((50, 6), dtype=bool)
    seen[:20, :3] = False
    seen[20] = False
    table = IncompleteSamples(rng.standard_normal((50, 6)), seen)
    assert table.patterns.shape[0] == 3
    assert sorted(table.in_pattern) == [1, 20, 29]
    m = table.moments(rng.standard_normal((6, 2)), None, np.ones(6), np.zeros(6))
    assert np.all(np.isfinite(m.A))


@pytest.mark.parametrize("Q", [2, 30])
def test_invert_stack(Q, rng):
    root = rng.standard_normal((7, Q, 2 * Q))
    P = root @ root.transpose(0, 2, 1) + np.eye(Q)
    S, log_det = invert_stack(P)
    np.testing.assert_allclose(S @ P, np.broadcast_to(np.eye(Q), P.shape), atol=1e-9)
    np.testing.assert_array_equal(S, S.transpose(0, 2, 1))
    np.testing.assert_allclose(log_det, -np.linalg.slogdet(P)[1])


def test_invert_stack_with_nan():
    P = np.broadcast_to(2.0 * np.eye(30), (5, 30, 30)).copy()
    P[3] = np.nan
    S, log_det = invert_stack(P)
    assert np.isnan(S[3]).all()
    assert np.isnan(log_det[3])
    np.testing.assert_allclose(S[[0, 4]], 0.5 * P[[0, 4]] / 2.0)


# The slow formula is inaccurate with tiny noise and more factors than columns.
@pytest.mark.parametrize(
    ("Q", "uncertain", "noise"),
    [(2, False, 1.0), (2, True, 1.0), (25, False, 1.0), (25, True, 1.0), (2, False, 1e-9)],
)
@pytest.mark.parametrize("repeated", [False, True])
@pytest.mark.parametrize("missing", [0.1, 0.4, 0.9])
def test_moments_with_missing_values_match_slow_formula(
    Q, uncertain, repeated, missing, noise, rng, monkeypatch
):
    """[AB08] (17) and (25), one sample at a time."""
    monkeypatch.setattr("prosparse.models.sca.missing_e_step.MAX_PATTERN_ENTRIES", 5 * Q * Q)
    n, p = 23, 9
    seen = rng.random((n, p)) > missing
    if repeated:
        seen[:12] = seen[0]
    X, mu = rng.standard_normal((n, p)), 0.1 * rng.standard_normal(p)
    L, tau = rng.standard_normal((p, Q)), rng.uniform(1, 2, p) / noise
    root = rng.standard_normal((p, Q, Q)) / Q
    C = root @ root.transpose(0, 2, 1) if uncertain else None
    got = IncompleteSamples(X, seen).moments(L, C, tau, mu)
    A, G, z_sum = np.zeros((p, Q, Q)), np.zeros((p, Q)), np.zeros((p, Q))
    zz, log_det, explained = np.zeros((Q, Q)), 0.0, 0.0
    for x, observed in zip(X, seen, strict=True):
        precision, y = np.eye(Q), np.zeros(Q)
        for i in np.flatnonzero(observed):
            second = np.outer(L[i], L[i]) + (0.0 if C is None else C[i])
            precision += tau[i] * second
            y += tau[i] * (x[i] - mu[i]) * L[i]
        S = np.linalg.inv(precision)
        z = S @ y
        for i in np.flatnonzero(observed):
            A[i] += S + np.outer(z, z)
            G[i] += (x[i] - mu[i]) * z
            z_sum[i] += z
        zz += S + np.outer(z, z)
        log_det += np.linalg.slogdet(S)[1]
        explained += z @ precision @ z
    for fast, slow in zip(got[:6], (A, G, z_sum, zz, log_det, explained), strict=True):
        np.testing.assert_allclose(fast, slow, rtol=1e-7, atol=1e-9 if noise == 1 else 1e-6)
