"""Convex bound, its derivatives and its rounding."""

from itertools import combinations

import numpy as np
import pytest

from prosparse.models.empca.certify import relaxation
from prosparse.models.empca.certify.relaxation import Multipliers, Problem


def value_on(C, S, nonnegative):
    """The largest w'Cw on exactly the variables S, typed from its definition."""
    best = 0.0
    for size in range(1, len(S) + 1) if nonnegative else (len(S),):
        for T in combinations(S, size):
            values, vectors = np.linalg.eigh(C[np.ix_(T, T)])
            v = vectors[:, -1]
            if not nonnegative or np.all(v >= -1e-10) or np.all(v <= 1e-10):
                best = max(best, values[-1])
    return best


def random_problem(seed):
    """A small problem, some of its variables pinned, and all its sets with their values."""
    rng = np.random.default_rng(seed)
    p = int(rng.integers(4, 8))
    A = rng.standard_normal((p, int(rng.integers(1, p + 1))))
    C = A @ A.T if seed % 3 else np.corrcoef(rng.standard_normal((p, 5)))
    C = C / np.abs(C).max()
    K = int(rng.integers(1, p))
    pinned = np.zeros(p, dtype=bool)
    pinned[rng.choice(p, int(rng.integers(0, K)), replace=False)] = True
    problem = Problem(C, pinned, K - int(pinned.sum()), bool(seed % 2))
    wanted = set(np.flatnonzero(pinned))
    sets = [S for S in combinations(range(p), K) if wanted <= set(S)]
    return problem, {S: value_on(C, S, problem.nonnegative) for S in sets}, rng


def random_multipliers(p, rng):
    M, A = rng.standard_normal((2, p, p))
    return Multipliers(M, rng.uniform(0.2, 2.0, p), 0.1 * A)


@pytest.mark.parametrize("seed", range(40))
def test_any_multipliers_give_valid_bounds(seed):
    problem, values, rng = random_problem(seed)
    start = relaxation.from_row_norms(problem)
    multipliers = [
        start,
        relaxation.from_leading_vector(problem),
        relaxation.improve(problem, start, 0.01, 30),
        random_multipliers(problem.C.shape[0], rng),
    ]
    for at in multipliers:
        proof = relaxation.prove(problem, at)
        assert proof.bound >= max(values.values())
        for i, inside, outside in zip(*relaxation.children(problem, proof)):
            assert inside >= max((v for S, v in values.items() if i in S), default=-np.inf)
            assert outside >= max((v for S, v in values.items() if i not in S), default=-np.inf)
            assert max(inside, outside) <= proof.bound * (1 + 1e-12)


def test_children_equal_bounds_with_pinned_or_removed_variables():
    """The quick rules, against the same multipliers with one variable pinned or left out."""
    rng = np.random.default_rng(3)
    C = np.corrcoef(rng.standard_normal((7, 12)))
    pinned = np.arange(7) == 2
    problem = Problem(C, pinned, 3)
    at = random_multipliers(7, rng)
    proof = relaxation.prove(problem, at)
    for i, inside, outside in zip(*relaxation.children(problem, proof)):
        also = pinned.copy()
        also[i] = True
        slow = relaxation.prove(Problem(C, also, 2), at)
        assert inside == pytest.approx(slow.bound, rel=1e-9)
        kept = np.arange(7) != i
        rest = relaxation.restrict(at, kept)
        missing = Problem(C[np.ix_(kept, kept)], pinned[kept], 3)
        s, _, _ = relaxation.row_sums(missing, relaxation.pair_terms(rest, missing.nonnegative))
        top = s[pinned[kept]].sum() + np.sort(s[~pinned[kept]])[-3:].sum()
        assert outside == pytest.approx(proof.largest + top, rel=1e-9)


@pytest.mark.parametrize("nonnegative", [False, True])
def test_derivatives_equal_finite_differences(nonnegative):
    rng = np.random.default_rng(0)
    C = np.corrcoef(rng.standard_normal((6, 9)))
    problem = Problem(C, np.arange(6) == 1, 2, nonnegative)
    mask, counts = relaxation.fixed_entries(problem), relaxation.free_counts(problem)
    outside_terms = relaxation.OutsideTerms(rng.random((6, 2)), rng.random(2))
    at, along = random_multipliers(6, rng), random_multipliers(6, rng)

    def height(t):
        moved = Multipliers(
            at.M + t * along.M, at.alpha * np.exp(t * along.alpha), at.A + t * along.A
        )
        return relaxation.smoothed(problem, moved, mask, counts, (0.05, 0.02, 0.01), outside_terms)

    _, (dM, dalpha, dA) = height(0.0)
    expected = (height(1e-6)[0] - height(-1e-6)[0]) / 2e-6
    exact = np.sum(dM * along.M) + dalpha @ along.alpha + np.sum(dA * along.A)
    assert exact == pytest.approx(expected, rel=1e-5)


def test_improving_some_variables_gives_valid_multipliers():
    rng = np.random.default_rng(1)
    C = np.corrcoef(rng.standard_normal((30, 12)))
    problem = Problem(C / 4.0, np.zeros(30, dtype=bool), 5)
    at = relaxation.from_row_norms(problem)
    proof = relaxation.prove(problem, at)
    some = np.sort(np.argsort(-proof.s)[:12])
    better = relaxation.improve_some(problem, at, proof, some, 0.01, 60)
    bound = relaxation.prove(problem, better).bound
    exact = relaxation.prove(problem, relaxation.improve(problem, at, 0.01, 200)).bound
    assert exact <= bound < proof.bound
    P = relaxation.inner_matrix(problem.C, better)
    assert relaxation.largest_of_blocks(P) == pytest.approx(np.linalg.eigvalsh(P)[-1], rel=1e-12)


def test_the_smoothed_indicator_solves_its_problem():
    """clip((v - t) / scale, 0, 1) with the threshold t, sum by sum."""
    rng = np.random.default_rng(2)
    V, counts = rng.standard_normal((20, 9)), rng.integers(0, 9, 20)
    Y = relaxation.smoothed_top_indicator(V, counts, 0.3)
    np.testing.assert_allclose(Y.sum(axis=1), counts, atol=1e-7)
    assert np.all((Y >= 0) & (Y <= 1))
    tiny = relaxation.smoothed_top_indicator(V, counts, 1e-9)
    top = [np.sort(v)[::-1][:c].sum() for v, c in zip(V, counts)]
    np.testing.assert_allclose(np.sum(tiny * V, axis=1), top, atol=1e-6)


def test_initial_multipliers_give_the_closed_form_bounds():
    rng = np.random.default_rng(4)
    C = np.corrcoef(rng.standard_normal((9, 20)))
    problem = Problem(C, np.zeros(9, dtype=bool), 4)
    rows = relaxation.prove(problem, relaxation.from_row_norms(problem)).bound
    top = np.sort(np.sort(C**2, axis=1)[:, -4:].sum(axis=1))[-4:].sum()
    assert rows == pytest.approx(np.sqrt(top), rel=1e-12)
    values, vectors = np.linalg.eigh(C)
    on_first = np.sort(vectors[:, -1] ** 2)[-4:].sum()
    spectral = values[-1] * on_first + values[-2] * (1.0 - on_first)
    leading = relaxation.prove(problem, relaxation.from_leading_vector(problem)).bound
    assert leading == pytest.approx(spectral, rel=1e-9)


def test_the_relaxed_bound_is_exact_on_pit_props(pitprops):
    table, _ = pitprops
    pit_props = table.T @ table
    best = max(value_on(pit_props, S, False) for S in combinations(range(13), 5))
    problem = Problem(pit_props / best, np.zeros(13, dtype=bool), 5)
    at = relaxation.from_row_norms(problem)
    for smoothing in (0.01, 0.004, 0.0016, 0.0006):
        at = relaxation.improve(problem, at, smoothing, 40)
    assert 1.0 <= relaxation.prove(problem, at).bound < 1.002


def test_bounds_include_rounding():
    """On matrices of rank one and of copies the bound is exact: only rounding could break it."""
    rng = np.random.default_rng(5)
    for _ in range(50):
        a = rng.standard_normal(6) * 10.0 ** rng.integers(-3, 3, 6)
        problem = Problem(np.outer(a, a) / np.max(a * a), np.zeros(6, dtype=bool), 3)
        best = value_on(problem.C, tuple(np.argsort(-np.abs(a))[:3]), False)
        for start in (relaxation.from_row_norms, relaxation.from_leading_vector):
            assert relaxation.prove(problem, start(problem)).bound >= best
