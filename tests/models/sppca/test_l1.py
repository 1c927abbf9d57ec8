"""Soft thresholds and sparse rotations."""

import array_api_compat.numpy as xp
import array_api_strict
import numpy as np
import pytest
from scipy.optimize import minimize_scalar

from prosparse.models.sppca import l1
from prosparse.models.sppca.l1 import soft_threshold, sparsest_rotation

pytestmark = pytest.mark.quick


def test_soft_threshold_minimises():
    x = np.array([-3.0, -0.4, 0.0, 0.5, 2.0])
    ours = soft_threshold(x, 0.5, xp)
    np.testing.assert_array_equal(ours, [-2.5, 0.0, 0.0, 0.0, 1.5])
    for value, at in zip(x, ours, strict=True):
        best = minimize_scalar(lambda z, v=value: 0.5 * (z - v) ** 2 + 0.5 * abs(z))
        assert at == pytest.approx(best.x, abs=1e-6)


@pytest.mark.parametrize("seed", range(5))
def test_two_rows_reach_the_best_angle(seed):
    W = np.random.default_rng(seed).standard_normal((2, 30))
    ours = sparsest_rotation(W)
    grid = np.linspace(0, np.pi / 2, 20001)
    cos, sin = np.cos(grid)[:, None], np.sin(grid)[:, None]
    best = np.min(np.sum(np.abs(cos * W[0] + sin * W[1]) + np.abs(cos * W[1] - sin * W[0]), axis=1))
    assert np.abs(ours).sum() <= best + 1e-9
    np.testing.assert_allclose(ours.T @ ours, W.T @ W)  # a rotation and nothing else


def test_sparse_rows_are_recovered_from_their_rotation(rng):
    W = np.zeros((3, 60))
    for j in range(3):
        W[j, 20 * j : 20 * (j + 1)] = rng.standard_normal(20)
    mixed = np.linalg.qr(rng.standard_normal((3, 3)))[0] @ W
    ours = sparsest_rotation(mixed)
    assert np.abs(ours).sum() == pytest.approx(np.abs(W).sum())
    assert np.sum(np.abs(ours) > 1e-9) == 60


def test_the_argument_is_not_modified(rng):
    W = rng.standard_normal((2, 5))
    before = W.copy()
    sparsest_rotation(W)
    np.testing.assert_array_equal(W, before)


def test_other_array_libraries_get_the_same_rotation(rng):
    W = rng.standard_normal((4, 12))
    there = sparsest_rotation(array_api_strict.asarray(W))
    np.testing.assert_array_equal(np.from_dlpack(there), sparsest_rotation(W))


@pytest.mark.parametrize("d", range(2, 8))
def test_the_schedule_has_every_pair_once(d):
    pairs = [pair for both in l1._disjoint_pairs(d) for pair in zip(*both, strict=True)]
    assert sorted(pairs) == [(a, b) for a in range(d) for b in range(a + 1, d)]


def test_rounding_errors_become_zeros():
    W = np.array([[1.0, 1e-17, 3.0], [2.0, 4.0, 1e-6]])
    np.testing.assert_array_equal(
        l1.zero_rounding_errors(W, xp), [[1.0, 0.0, 3.0], [2.0, 4.0, 1e-6]]
    )
