"""Upper bounds, compared with exhaustive search."""

import pickle
from itertools import combinations, product

import numpy as np
import pytest
from scipy.optimize import linprog

from prosparse import EMPCA
from prosparse.models.empca import quadratic
from prosparse.models.empca.certify import bounds
from prosparse.models.empca.certify.bounds import (
    Candidate,
    dual_bound,
    gaps,
    gershgorin_bound,
    row_norm_bound,
    spectral_bound,
    top_sum,
    trace_bound,
    upper_bound,
)
from prosparse.models.empca.quadratic import Gram
from prosparse.models.empca.thresholds import Constraint


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
    np.testing.assert_array_equal(top_sum(values, 3, axis=1), [6.0, 9.0])
    np.testing.assert_array_equal(top_sum(values, 1, axis=0), [3.0, 5.0, 4.0])
    assert top_sum(values[0], 2) == 5.0


def random_form(seed, m=6, p=8):
    A = np.random.default_rng(seed).standard_normal((m, p))
    return A, A.T @ A


@pytest.mark.parametrize("K", [1, 2, 5, 8])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_bounds_of_blocks_equal_their_definition(K, nonnegative):
    _, C = random_form(K)
    size = [[max(c, 0.0) if nonnegative else abs(c) for c in row] for row in C]
    discs, norms = [], []
    for i, row in enumerate(size):
        others = sorted((s for j, s in enumerate(row) if j != i), reverse=True)
        discs.append(C[i, i] + sum(others[: K - 1]))
        norms.append(sum(s**2 for s in sorted(row, reverse=True)[:K]))
    assert gershgorin_bound(C, K, nonnegative) == pytest.approx(max(discs))
    expected = np.sqrt(sum(sorted(norms, reverse=True)[:K]))
    assert row_norm_bound(C, K, nonnegative) == pytest.approx(expected)
    assert trace_bound(np.diag(C), K) == pytest.approx(sum(sorted(np.diag(C), reverse=True)[:K]))


@pytest.mark.parametrize("K", [1, 2, 5])
@pytest.mark.parametrize("known", [1, 2, 8])
def test_the_spectral_bound_solves_a_linear_programme(K, known):
    """maximise sum_l lambda_l s_l over s_l <= t_l with sum s = 1; unknown directions have t = 1."""
    _, C = random_form(K)
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(C))
    rest = values[known] if known < 8 else 0.0
    t = [sum(sorted(u**2, reverse=True)[:K]) for u in vectors.T[:known]]
    solved = linprog(
        -np.r_[values[:known], rest], A_ub=np.ones((1, known + 1)), b_ub=[1.0],
        bounds=[(0, top) for top in [*t, 1.0]],
    )  # fmt: skip
    assert spectral_bound(values[:known], vectors.T[:known], rest, K) == pytest.approx(-solved.fun)


def slow_dual(A, x, K, rho):
    """lambda_max(sum_i Y_i) + rho K with the Y_i of [ABG08] (13), one by one."""
    m, total = len(A), np.zeros((len(A), len(A)))
    P = np.eye(m) - np.outer(x, x)
    for a in A.T:
        B = np.outer(a, a) - rho * np.eye(m)
        along = x @ B @ x
        if along > 0:
            total += B @ np.outer(x, x) @ B / along
        elif a @ a > rho:
            y = rho * (a @ a - rho) / (rho - (a @ x) ** 2)
            total += y * P @ np.outer(a, a) @ P / (a @ P @ a)
    return np.linalg.eigvalsh(total)[-1] + rho * K


@pytest.mark.parametrize("K", [2, 4, 8])
def test_the_dual_bound_is_the_smallest_over_rho(K):
    """Never above the first guess, and most often, by the few steps of a scalar search, near the
    smallest (which has local neighbours)."""
    excess, first_excess = [], []
    for seed in range(12):
        A, C = random_form(seed)
        image = A @ best_support(C, K)[1]
        x = image / np.linalg.norm(image)
        kept = np.append(np.sort((A.T @ x) ** 2)[::-1], 0.0)
        middle = 0.5 * (kept[K - 1] + kept[K])
        least = min(slow_dual(A, x, K, middle * np.exp(t)) for t in np.linspace(-2.5, 1.0, 200))
        bound, first = dual_bound(A, x, K), slow_dual(A, x, K, middle)
        assert min(least, first) * (1 - 1e-2) <= bound <= first * (1 + 1e-9)
        excess.append(bound / least - 1)
        first_excess.append(first / least - 1)
    assert np.median(excess) < 0.03
    assert K == 8 or np.median(first_excess) > 0.05


@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_upper_bound_is_the_smallest_feasible_one(monkeypatch, nonnegative):
    A, C = random_form(3)
    allowed = np.arange(8) != 2
    A, D = A[:, allowed], C[np.ix_(allowed, allowed)]
    w = np.zeros(8)
    value, w[allowed] = best_support(D, 3)
    image = A @ w[allowed]
    values, vectors = (part[..., ::-1] for part in np.linalg.eigh(D))
    blocks = [gershgorin_bound(D, 3, nonnegative), row_norm_bound(D, 3, nonnegative)]
    always = [values[0], trace_bound(np.diag(D), 3)]
    decomposed = [
        spectral_bound(values, vectors.T, 0.0, 3),
        dual_bound(A, image / np.linalg.norm(image), 3),
    ]
    one = [spectral_bound(values[:1], vectors.T[:1], values[0], 3)]

    def ours():
        bound = upper_bound(Gram(C), w, 3, allowed, nonnegative)
        assert nonnegative or bound >= value * (1 - 1e-12)
        return pytest.approx(bound, rel=1e-6)

    assert min(always + blocks + decomposed) == ours()
    monkeypatch.setattr(bounds, "MAX_GERSHGORIN_WIDTH", 6)
    assert min(always + decomposed) == ours()
    monkeypatch.setattr(bounds, "MAX_DUAL_SIDE", 5)
    assert min(always + one) == ours()


def test_the_gap_of_a_candidate():
    """An optimal and a suboptimal candidate on the allowed variables."""
    C = np.diag([9.0, 4.0, 2.0, 1.0])
    allowed = np.array([False, True, True, True])
    c = Constraint(1, False, allowed)
    w = np.eye(4)
    ours = gaps(Candidate(Gram(C), c, w[j], C[j, j]) for j in (1, 2))
    np.testing.assert_allclose(ours, [0.0, 0.5], atol=1e-12)


@pytest.mark.parametrize("scale", [False, True])
def test_gaps_with_equal_eigenvalues(scale):
    """LAPACK's search for the largest of many equal eigenvalues fails at some sizes."""
    for n in range(6, 13):
        for p in range(4, n + 1):
            X = np.eye(n)[:, :p]
            for K, nonnegative in product((1, 2, 3), (False, True)):
                model = EMPCA(n_nonzero=K, scale=scale, nonnegative=nonnegative, random_state=0)
                model.fit(X)
                gap = pickle.loads(pickle.dumps(model)).optimality_gap_
                assert 0 <= gap[0] <= 1


def test_eigenvalues_that_lapack_does_not_find(monkeypatch):
    def gives_up(*arguments, **options):
        raise np.linalg.LinAlgError("Internal Error.")

    C = np.diag([3.0, -1.0, 2.0])
    for found in (
        gives_up,
        lambda *a, **o: np.empty(0) if "eigvals_only" in o else (np.empty(0), C),
    ):
        monkeypatch.setattr(quadratic, "eigh", found)
        assert quadratic.largest_eigenvalue(C) == pytest.approx(3.0)
        assert quadratic.leading_pair(C)[0] == pytest.approx(3.0)


def test_the_leading_pair_of_a_zero_form():
    value, vector = quadratic.leading_pair(np.zeros((300, 300)))
    assert value == 0.0
    assert np.linalg.norm(vector) == pytest.approx(1.0)
