"""Joint components, compared with exhaustive search."""

from itertools import combinations

import numpy as np
import pytest

from prosparse import EMPCA, ParameterError
from prosparse.models.empca.certify import joint
from prosparse.models.empca.certify.clock import Clock
from prosparse.models.empca.certify.relaxation import Multipliers


def all_sums(C, sizes):
    """Every choice of two disjoint sets, with the sum of their largest eigenvalues."""
    p = C.shape[0]
    largest = {}
    for K in set(sizes):
        for S in combinations(range(p), K):
            largest[S] = np.linalg.eigvalsh(C[np.ix_(S, S)])[-1]
    first, second = sizes
    return {
        (S, T): largest[S] + largest[T]
        for S in combinations(range(p), first)
        for T in combinations([j for j in range(p) if j not in S], second)
    }


def correlations(seed, p=6, n=10):
    return np.corrcoef(np.random.default_rng(seed).standard_normal((p, n)))


def first_sets(C, sizes):
    labels = np.repeat([0, 1, joint.FREE], [*sizes, C.shape[0] - sum(sizes)])
    return joint.components_on_sets(C, labels, 2)


@pytest.mark.parametrize(("sizes", "gap"), [((2, 2), 0.0), ((3, 2), 0.01)])
@pytest.mark.parametrize("seed", range(2))
def test_the_largest_sum_is_certified(sizes, gap, seed):
    C = correlations(seed)
    best = max(all_sums(C, sizes).values())
    found = joint.certify_sum(C, first_sets(C, sizes), np.array(sizes), gap=gap, clock=Clock(20.0))
    assert best * (1 - gap - 1e-9) <= found.value <= best * (1 + 1e-9)
    assert best * (1 - 1e-12) <= found.upper_bound <= found.value / (1 - gap) * (1 + 2e-9)
    assert np.count_nonzero(found.W, axis=1).tolist() == list(sizes)
    assert not np.any(np.all(found.W != 0, axis=0))


@pytest.mark.parametrize("seed", range(6))
def test_any_multipliers_bound_the_sum(seed):
    """With labels too: only choices that respect them count."""
    rng = np.random.default_rng(seed)
    C, sizes = correlations(seed, p=6), (2, 2)
    labels = np.full(6, joint.FREE)
    labels[: seed % 4] = [0, 1, 0][: seed % 4]
    problem = joint.Sum(C, labels, np.array(sizes))
    values = [
        value
        for (S, T), value in all_sums(C, sizes).items()
        if set(np.flatnonzero(labels == 0)) <= set(S) and set(np.flatnonzero(labels == 1)) <= set(T)
    ]
    M, A = rng.standard_normal((2, 6, 6))
    start = joint.from_row_norms(problem)
    tried = [
        start,
        joint.improve_sum(problem, start, 0.01, Clock()),
        Multipliers(M, rng.uniform(0.2, 2.0, 6), 0.1 * A),
    ]
    for at in tried:
        proof = joint.prove_sum(problem, at)
        assert proof.bound >= max(values)
        free = np.flatnonzero(labels == joint.FREE)
        for i, bound in zip(free, joint.bounds_inside(problem, proof, free)):
            inside = [
                value
                for (S, T), value in all_sums(C, sizes).items()
                if i in S + T
                and set(np.flatnonzero(labels == 0)) <= set(S)
                and set(np.flatnonzero(labels == 1)) <= set(T)
            ]
            assert bound >= max(inside)


def test_derivatives_of_the_sum_equal_finite_differences():
    rng = np.random.default_rng(1)
    labels = np.array([0, 1, -1, -1, -1, -1, -1, -1])
    problem = joint.Sum(correlations(1, p=8), labels, np.array([3, 2]))
    at = Multipliers(rng.standard_normal((8, 8)), rng.uniform(0.5, 2, 8), rng.random((8, 8)))
    along = Multipliers(rng.standard_normal((8, 8)), rng.standard_normal(8), rng.random((8, 8)))

    def height(t):
        moved = Multipliers(
            at.M + t * along.M, at.alpha * np.exp(t * along.alpha), at.A + t * along.A
        )
        return joint.smoothed_sum(problem, moved, (0.1, 0.05, 0.02))

    _, (dM, dalpha, dA) = height(0.0)
    exact = np.sum(dM * along.M) + dalpha @ along.alpha + np.sum(dA * along.A)
    assert exact == pytest.approx((height(1e-6)[0] - height(-1e-6)[0]) / 2e-6, rel=1e-5)


def test_interrupts_and_time_limits_return_a_bound(monkeypatch):
    C, sizes = correlations(5, p=9), np.array([3, 3])
    W = first_sets(C, (3, 3))
    best = max(all_sums(C, (3, 3)).values())
    late = joint.certify_sum(C, W, sizes, clock=Clock(0.0))
    assert late.n_nodes == 1  # without time only the first node
    assert late.upper_bound >= best

    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(joint._Search, "process_node", interrupted)
    clock = Clock()
    assert joint.certify_sum(C, W, sizes, clock=clock).upper_bound >= best
    assert clock.interrupted


def test_joint_components_exceed_sequential_ones(pitprops):
    X, _ = pitprops
    options = {"n_nonzero": [5, 4], "orthogonality": "disjoint", "random_state": 0}
    one_by_one = EMPCA(2, **options).fit(X)
    together = EMPCA(2, joint=True, gap=0.01, certify=True, **options).fit(X)
    rough = EMPCA(2, joint=True, **options).fit(X)
    assert together.explained_variance_.sum() > 1.005 * one_by_one.explained_variance_.sum()
    assert together.certified_.tolist() == [True, True]
    assert np.all(together.optimality_gap_ <= 0.01)
    assert together.n_nonzero_.tolist() == [5, 4]
    assert not np.any(np.all(together.components_ != 0, axis=0))
    bound = together.upper_bound_.sum()
    assert together.explained_variance_.sum() <= bound <= rough.upper_bound_.sum() * (1 + 1e-9)
    assert not rough.certified_.any()
    assert rough.optimality_gap_[0] < 1.0


def test_a_joint_fit_needs_enough_columns(pitprops):
    X, _ = pitprops
    with pytest.raises(ParameterError, match="13 vary"):
        EMPCA(3, n_nonzero=5, orthogonality="disjoint", joint=True).fit(X)


def test_many_columns_have_the_bound_of_each_component(monkeypatch):
    monkeypatch.setattr("prosparse.models.empca.solve.MAX_JOINT_VARIABLES", 10)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((30, 20))
    model = EMPCA(2, n_nonzero=3, orthogonality="disjoint", joint=True, certify=True, gap=0.3)
    model.fit(X)
    alone = EMPCA(n_nonzero=3, certify=True).fit(X)
    assert model.upper_bound_.sum() <= 2 * alone.explained_variance_[0] / (1 - 0.3)
    assert model.optimality_gap_[0] == pytest.approx(model.optimality_gap_[1])
    assert model.optimality_gap_[0] > 0
