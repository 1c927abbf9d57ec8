"""Upper bounds without a search, compared with exhaustive search."""

import pickle
from itertools import combinations, product

import numpy as np
import pytest

from prosparse import EMPCA
from prosparse.models.empca import quadratic
from prosparse.models.empca.certify import component
from prosparse.models.empca.certify.branching import gershgorin_bound
from prosparse.models.empca.certify.component import optimality_gap
from prosparse.models.empca.quadratic import Gram
from prosparse.models.empca.thresholds import Constraint


def best_support(C, K):
    blocks = ((S, np.linalg.eigh(C[np.ix_(S, S)])) for S in combinations(range(len(C)), K))
    S, (values, vectors) = max(blocks, key=lambda pair: pair[1][0][-1])
    w = np.zeros(len(C))
    w[list(S)] = vectors[:, -1]
    return values[-1], w


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("K", [1, 2, 4, 6])
def test_the_gap_bounds_the_optimum(seed, K, many, monkeypatch):
    """With a suboptimal component; with many variables, also without the norms of the rows."""
    if many:
        monkeypatch.setattr(component, "MAX_NODE_VARIABLES", 3)
        monkeypatch.setattr(component, "MAX_ROW_NORM_VARIABLES", 20 if seed % 2 else 3)
    rng = np.random.default_rng(seed)
    A = rng.standard_normal((rng.integers(3, 12), 8)) * rng.uniform(0.2, 2.0, 8)
    C = A.T @ A
    allowed = np.arange(8) != 2
    c = Constraint(K, False, allowed)
    best, _ = best_support(C[np.ix_(allowed, allowed)], K)
    w = np.eye(8)[0]
    gap = optimality_gap(Gram(C), c, w, C[0, 0])
    assert C[0, 0] / (1.0 - gap) >= best * (1 - 1e-9)


@pytest.mark.parametrize("K", [1, 2, 5, 8])
@pytest.mark.parametrize("nonnegative", [False, True])
def test_the_gershgorin_bound_equals_its_definition(K, nonnegative):
    A = np.random.default_rng(K).standard_normal((6, 8))
    C = A.T @ A
    discs = []
    for i, row in enumerate(C):
        size = [max(c, 0.0) if nonnegative else abs(c) for j, c in enumerate(row) if j != i]
        discs.append(C[i, i] + sum(sorted(size, reverse=True)[: K - 1]))
    assert gershgorin_bound(C, K, nonnegative) == pytest.approx(max(discs))


@pytest.mark.parametrize("many", [False, True])
def test_the_gap_of_a_component(many, monkeypatch):
    """An optimal and a suboptimal component on the allowed variables."""
    if many:
        monkeypatch.setattr(component, "MAX_NODE_VARIABLES", 2)
    C = np.diag([9.0, 4.0, 2.0, 1.0])
    c = Constraint(1, False, np.array([False, True, True, True]))
    gaps = [optimality_gap(Gram(C), c, np.eye(4)[j], C[j, j]) for j in (1, 2)]
    np.testing.assert_allclose(gaps, [0.0, 0.5], atol=1e-12)


def test_a_clear_optimum_has_no_gap():
    rng = np.random.default_rng(0)
    X = 0.3 * rng.standard_normal((100, 12))
    X[:, :4] += 2.0 * rng.standard_normal((100, 1))
    assert EMPCA(n_nonzero=4, random_state=0).fit(X).optimality_gap_.tolist() == [0.0]


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
