"""No bound may be below the best support; some must be close to it."""

from itertools import combinations

import numpy as np
import pytest

from prosparse.engine.quadratic import Gram
from prosparse.selection.bounds import (
    dual_bound,
    gershgorin_bound,
    row_norm_bound,
    spectral_bound,
    top_sum,
    trace_bound,
    upper_bound,
)


def best_support(C, K):
    blocks = ((S, np.linalg.eigh(C[np.ix_(S, S)])) for S in combinations(range(len(C)), K))
    S, (values, vectors) = max(blocks, key=lambda pair: pair[1][0][-1])
    w = np.zeros(len(C))
    w[list(S)] = vectors[:, -1]
    return values[-1], w


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("K", [1, 2, 4, 7])
def test_bounds_are_bounds(seed, K):
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rng.integers(3, 12), 8)) * rng.uniform(0.2, 2.0, 8)
    C = A.T @ A
    best, w = best_support(C, K)
    values, vectors = np.linalg.eigh(C)
    floor = best * (1 - 1e-12)
    assert trace_bound(np.diag(C), K) >= floor
    assert gershgorin_bound(C, K) >= floor
    assert row_norm_bound(C, K) >= floor
    assert spectral_bound(values[::-1], vectors.T[::-1], 0.0, K) >= floor
    assert spectral_bound(values[:-3:-1], vectors.T[:-3:-1], values[-3], K) >= floor
    image = A @ w
    assert dual_bound(A, image / np.linalg.norm(image), K) >= floor
    other = rng.standard_normal(len(A))  # valid for any x, if not as good
    assert dual_bound(A, other / np.linalg.norm(other), K) >= floor
    assert upper_bound(Gram(C), w, K, np.ones(8, dtype=bool), False) >= floor


def test_nonnegative_bounds_use_the_signs():
    C = np.full((4, 4), -0.3) + 1.3 * np.eye(4)  # any two variables work against each other
    assert gershgorin_bound(C, 2, nonnegative=True) == pytest.approx(1.0)
    assert gershgorin_bound(C, 2) == pytest.approx(1.3)


def test_dual_bound_proves_a_clear_optimum():
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((100, 12))
    X[:, :4] += 2.0 * rng.standard_normal((100, 1))
    best, w = best_support(X.T @ X, 4)
    image = X @ w
    assert dual_bound(X, image / np.linalg.norm(image), 4) == pytest.approx(best, rel=1e-9)


def test_top_sum():
    values = np.array([[3.0, 1.0, 2.0], [0.0, 5.0, 4.0]])
    np.testing.assert_array_equal(top_sum(values, 2, axis=1), [5.0, 9.0])
    np.testing.assert_array_equal(top_sum(values, 9, axis=1), [6.0, 9.0])
