"""Swaps and starts, compared with all pairs of variables."""

import numpy as np
import pytest

from prosparse import EMPCA
from prosparse.models.empca import exchange
from prosparse.models.empca.exchange import (
    best_swap,
    exact_gains,
    exact_swaps,
    inverse_gains,
    make_polish_step,
    plane_gains,
    rough_swaps,
    swap_values,
)
from prosparse.models.empca.model import Support
from prosparse.models.empca.nonnegative import keep_better, optimal_loadings
from prosparse.models.empca.quadratic import Gram, leading_pair
from prosparse.models.empca.search import single_variable_starts
from prosparse.models.empca.thresholds import Constraint, threshold

pytestmark = pytest.mark.quick


def anything(p, K, nonnegative=False):
    return Constraint(K, nonnegative, np.ones(p, dtype=bool))


def problem(p=9, K=4, seed=0, rank=20):
    """Return C, and the optimal loadings on the first K variables."""
    A = np.random.default_rng(seed).standard_normal((rank, p))
    C = A.T @ A
    w = np.zeros(p)
    values, vectors = np.linalg.eigh(C[:K, :K])
    w[:K] = vectors[:, -1]
    return C, Support(w, values[-1])


@pytest.mark.parametrize("seed", range(3))
def test_plane_gains_are_eigenvalues_of_two_by_two_forms(seed):
    """The form on the plane spanned by w without variable i and by variable j."""
    C, state = problem(seed=seed)
    leave, enter = np.array([2, 0, 3]), np.array([8, 4, 5, 6])
    f = C @ state.w
    gains = plane_gains(state, f, np.diag(C), C[np.ix_(leave, enter)], leave, enter)
    for row, i in zip(gains, leave, strict=True):
        v = state.w.copy()
        v[i] = 0.0
        for gain, j in zip(row, enter, strict=True):
            plane = np.column_stack([v / np.linalg.norm(v), np.eye(9)[j]])
            largest = np.linalg.eigvalsh(plane.T @ C @ plane)[-1]
            assert gain == pytest.approx(largest - state.bound, rel=1e-10)


def exchanged(C, S, i, j):
    T = [k for k in S if k != i] + [j]
    return np.linalg.eigvalsh(C[np.ix_(T, T)])[-1]


@pytest.mark.parametrize("K", [1, 2, 4])
@pytest.mark.parametrize("seed", range(4))
def test_a_swap_is_made_if_and_only_if_one_improves(K, seed):
    C, state = problem(7, K, seed)
    quadratic = Gram(C)
    for _ in range(20):
        S = np.flatnonzero(state.w)
        others = [j for j in range(7) if j not in S]
        best = max(exchanged(C, S, i, j) for i in S for j in others)
        new = best_swap(quadratic, np.diag(C), state, C @ state.w, anything(7, K))
        if new is state:
            assert best <= state.bound * (1 + 1e-9)
            break
        T = np.flatnonzero(new.w)
        assert len(set(S) - set(T)) == len(set(T) - set(S)) == 1
        assert state.bound < new.bound <= best * (1 + 1e-9)
        assert new.bound == pytest.approx(np.linalg.eigvalsh(C[np.ix_(T, T)])[-1])
        assert np.linalg.norm(new.w) == pytest.approx(1.0)
        state = new
    else:
        pytest.fail("swaps do not end")


@pytest.mark.parametrize(
    ("swaps", "nonnegative"), [(rough_swaps, False), (rough_swaps, True), (exact_swaps, False)]
)
@pytest.mark.parametrize("seed", range(3))
def test_many_swaps_improve_and_end_at_a_local_optimum(swaps, nonnegative, seed):
    """With exact gains they end at a local optimum of `best_swap`, in fewer steps."""
    C, c = problem(60, 25, seed, rank=80)[0], anything(60, 25, nonnegative)
    quadratic, diagonal, most = Gram(C), np.diag(C), 0
    start = np.zeros(60)
    start[:25] = 0.2
    state = optimal_loadings(quadratic, start, c)
    for _ in range(100):
        new = swaps(quadratic, diagonal, state, C @ state.w, c)
        if new is state:
            break
        assert new.bound > state.bound
        assert new.bound == pytest.approx(new.w @ C @ new.w)
        assert np.count_nonzero(new.w) <= 25
        most = max(most, int(np.sum((new.w != 0) & (state.w == 0))))
        state = new
    else:
        pytest.fail("exchanges do not end")
    assert most > 1 or nonnegative
    if swaps is exact_swaps:
        assert best_swap(quadratic, diagonal, state, C @ state.w, c) is state


def test_noise_takes_few_eigenproblems(monkeypatch):
    """Single swaps would take 1243 eigenproblems."""
    solved, leading = [], Gram.leading

    def count(self, S, near=None):
        solved.append(S.size)
        return leading(self, S, near)

    monkeypatch.setattr(Gram, "leading", count)
    X = np.random.default_rng(0).standard_normal((160, 160))
    model = EMPCA(n_nonzero=80, random_state=0).fit(X)
    assert model.explained_variance_[0] > 3.6732
    assert len(solved) < 400


def test_large_supports_use_the_lower_bound(monkeypatch):
    """Only the swap with the largest lower bound is evaluated."""
    monkeypatch.setattr(exchange, "EXACT_SIDE", 1)
    C, state = problem(8, 3, seed=1)
    f, leave, enter = C @ state.w, np.arange(3), np.arange(3, 8)
    gains = plane_gains(state, f, np.diag(C), C[np.ix_(leave, enter)], leave, enter)
    i, j = np.unravel_index(np.argmax(gains), gains.shape)
    assert gains[i, j] > 0
    new = best_swap(Gram(C), np.diag(C), state, f, anything(8, 3))
    assert set(np.flatnonzero(new.w)) == set(leave) - {i} | {3 + j}
    assert new.bound == pytest.approx(exchanged(C, leave, i, 3 + j))


def test_many_pairs_are_restricted_to_the_best_variables(monkeypatch, rng):
    """At least 256 of the smallest loadings may leave; the largest entries of Cw may enter."""
    w, f = rng.standard_normal(400), rng.standard_normal(400)
    w[300:] = 0.0
    c = anything(400, 300)._replace(allowed=np.arange(400) < 390)
    leave, enter = exchange._candidates(w, f, c)
    np.testing.assert_array_equal(leave, np.arange(300))
    np.testing.assert_array_equal(enter, np.arange(300, 390))
    monkeypatch.setattr(exchange, "MAX_SWAP_ENTRIES", 90 * 270)
    leave, enter = exchange._candidates(w, f, c)
    assert set(leave) == set(np.argsort(np.abs(w[:300]))[:270])
    assert enter.size == 90
    monkeypatch.setattr(exchange, "MAX_SWAP_ENTRIES", 256 * 5)
    leave, enter = exchange._candidates(w, f, c)
    assert set(leave) == set(np.argsort(np.abs(w[:300]))[:256])
    assert set(enter) == set(300 + np.argsort(-np.abs(f[300:390]))[:5])


@pytest.mark.parametrize("nonnegative", [False, True])
def test_single_variable_starts_are_the_best_ones(nonnegative, rng):
    """Column by column: the K largest entries of C, one of every support, the best first."""
    A = rng.standard_normal((8, 12))
    C, K = A.T @ A, 3
    allowed = np.arange(12) != 5
    by_support = {}
    for j in np.flatnonzero(allowed):
        gain = C[:, j] if nonnegative else np.abs(C[:, j])
        top = sorted(np.flatnonzero(allowed), key=lambda i, gain=gain: -gain[i])[:K]
        w = np.zeros(12)
        w[top] = np.clip(C[top, j], 0.0, None) if nonnegative else C[top, j]
        w /= np.linalg.norm(w)
        S = tuple(np.flatnonzero(w))
        if S not in by_support or w @ C @ w > by_support[S] @ C @ by_support[S]:
            by_support[S] = w
    best = sorted(by_support.values(), key=lambda w: -(w @ C @ w))
    c = Constraint(K, nonnegative, allowed)
    for count in (1, 4, 100):
        ours = single_variable_starts(Gram(C), c, rng, count)
        np.testing.assert_allclose(ours, best[:count], atol=1e-12)


def test_single_variable_starts_are_sampled_from_many(rng):
    C = np.diag(np.arange(1.0, 201.0))
    assert single_variable_starts(Gram(C), anything(200, 1), rng, 1000).shape[0] == 200
    few = single_variable_starts(Gram(C), anything(200, 1), rng, 2)
    drawn = single_variable_starts(Gram(C), anything(200, 1), rng, 4)
    assert few.shape == (2, 200)
    assert drawn.shape == (4, 200)
    assert len(set(np.argmax(drawn, axis=1))) == 4


def test_optimal_nonnegative_loadings_on_a_support():
    """An optimal non-negative w is the leading eigenvector on its own positive part."""
    for seed in range(6):
        C, _ = problem(5, 5, seed)
        free = 0.0
        for code in range(1, 2**5):
            S = [i for i in range(5) if code >> i & 1]
            values, vectors = np.linalg.eigh(C[np.ix_(S, S)])
            if np.all(vectors[:, -1] > 0) or np.all(vectors[:, -1] < 0):
                free = max(free, values[-1])
        c = anything(5, 5, nonnegative=True)
        starts = threshold(np.vstack([np.eye(5), np.ones(5)]), c)
        found = [optimal_loadings(Gram(C), 0.9 * w + 0.1 / np.sqrt(5), c) for w in starts]
        for w, bound, _ in found:
            assert np.all(w >= 0)
            assert bound == pytest.approx(w @ C @ w)
            assert bound <= free * (1 + 1e-9)
        assert max(best.bound for best in found) == pytest.approx(free)


@pytest.mark.parametrize("seed", [0, 2, 11, 12, 13])
def test_nearly_optimal_loadings_become_optimal(seed):
    """An error in the eighth digit of w is one in the sixteenth of w'Cw: no reason to stay."""
    rng = np.random.default_rng(seed)
    A = np.abs(rng.standard_normal((6, 3)))
    C = A.T @ A
    there = np.abs(np.linalg.eigh(C)[1][:, -1])
    near = there + 1e-8 * rng.standard_normal(3)
    near /= np.linalg.norm(near)
    w, bound, _ = optimal_loadings(Gram(C), near, anything(3, 3, nonnegative=True))
    np.testing.assert_allclose(w, there, rtol=0, atol=1e-14)
    ahead = Support(near, bound * (1.0 + 4e-16))
    assert keep_better(Support(w, bound), ahead).w is w
    assert keep_better(Support(w, bound), ahead).bound == ahead.bound
    assert keep_better(Support(w, bound), Support(near, bound * (1.0 + 1e-13))).w is near


def test_searches_that_meet_are_merged(monkeypatch):
    C, state = problem(12, 4, seed=3)
    known = {}
    ours, theirs = (make_polish_step(Gram(C), anything(12, 4), None, known) for _ in range(2))
    there = ours(state)
    assert there.bound > state.bound
    monkeypatch.setattr(exchange, "optimal_loadings", None)  # must not be called again
    lower = state._replace(bound=0.9 * state.bound)
    assert theirs(lower) is there
    ahead = state._replace(bound=2.0 * there.bound)
    assert theirs(ahead) is ahead  # no step leads down


def test_a_step_moves_to_the_largest_entries_of_the_image():
    """[YZ13]: the K largest entries of |Cw| with optimal loadings, a fixed point at the end."""
    C, state = problem(12, 4, seed=3)
    step = make_polish_step(Gram(C), anything(12, 4), None, {})
    moves = 0
    while True:
        target = np.sort(np.argsort(-np.abs(C @ state.w))[:4])
        new = step(state)
        if new is state:
            break
        np.testing.assert_array_equal(np.flatnonzero(new.w), target)
        assert new.bound == pytest.approx(np.linalg.eigvalsh(C[np.ix_(target, target)])[-1])
        state, moves = new, moves + 1
    assert moves > 0
    assert np.linalg.eigvalsh(C[np.ix_(target, target)])[-1] <= state.bound * (1 + 1e-9)


@pytest.mark.parametrize(("K", "p", "n"), [(2, 6, 30), (5, 12, 30), (9, 30, 6)])
def test_exact_gains_have_the_sign_of_the_change(K, p, n):
    """The sign of a gain, against the eigenvalues of every exchanged block."""
    A = np.random.default_rng(K).standard_normal((n, p))
    C = A.T @ A
    S, enter = np.arange(K), np.arange(K, p)
    largest = np.linalg.eigvalsh(C[:K, :K])[-1]
    pairs = np.linalg.eigh(C[:K, :K])
    gains = exact_gains(*pairs, C[K:, :K], np.diagonal(C)[K:])
    pair = leading_pair(C[:K, :K])
    again = inverse_gains(C[:K, :K], C[K:, :K], np.diagonal(C)[K:], pair[1], pair[0])
    np.testing.assert_allclose(again, gains, rtol=1e-9, atol=1e-12 * np.abs(gains).max())
    reached = np.zeros_like(gains)
    for i in S:
        for j in enter:
            T = [k for k in S if k != i] + [j]
            reached[i, j - K] = np.linalg.eigvalsh(C[np.ix_(T, T)])[-1]
    pays = reached > largest
    assert pays.any()
    assert not pays.all()
    np.testing.assert_array_equal(gains > 0, pays)
    i, j = np.nonzero(pays)
    values = swap_values(*pairs, i, C[K:, :K][j], np.diagonal(C)[K:][j])
    np.testing.assert_allclose(values - largest, (reached - largest)[pays], rtol=1e-6)


def test_gains_for_a_variable_without_loading():
    """Its entry of the eigenvector is exactly zero."""
    C = np.diag([2.0, 2.0, 1.0, 1.0, 3.0])
    C[0, 1] = C[1, 0] = 1.0
    C[4, :2] = C[:2, 4] = 0.5
    T = np.array([0, 1, 2, 4])
    values = swap_values(*np.linalg.eigh(C[:4, :4]), np.array([3]), C[4:, :4], C[4, 4:])
    np.testing.assert_allclose(values, np.linalg.eigvalsh(C[np.ix_(T, T)])[-1:], rtol=1e-9)


def test_the_best_swap_is_made():
    """The largest gain does not imply the largest value."""
    disagreed = 0
    for seed in range(40):
        C, state = problem(p=12, K=4, seed=seed)
        S, enter = np.arange(4), np.arange(4, 12)
        reached = np.zeros((4, 8))
        for i in S:
            for j in enter:
                T = [k for k in S if k != i] + [j]
                reached[i, j - 4] = np.linalg.eigvalsh(C[np.ix_(T, T)])[-1]
        gains = exact_gains(*np.linalg.eigh(C[:4, :4]), C[4:, :4], np.diagonal(C)[4:])
        looked_at = np.argsort(-gains.ravel())[: exchange.N_EVALUATED_SWAPS]
        best = max(float(reached.ravel()[looked_at].max()), state.bound)
        new = best_swap(Gram(C), np.diag(C), state, C @ state.w, anything(12, 4))
        assert new.bound == pytest.approx(best, rel=1e-10)
        disagreed += reached.ravel()[looked_at[0]] < best * (1 - 1e-6)
    assert disagreed > 3


def test_a_multiple_largest_eigenvalue_raises_an_error():
    with pytest.raises(np.linalg.LinAlgError):
        inverse_gains(np.eye(3), np.eye(3), np.ones(3), np.array([1.0, 0.0, 0.0]), 1.0)
