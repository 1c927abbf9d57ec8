"""What chance explains of a column, whatever its distribution: against all orders of its rows."""

from itertools import permutations

import numpy as np
import pytest

from prosparse.structure.null_distribution import (
    Orders,
    OwnScores,
    _limits,
    bounds_of_matched_pvalues,
    excess_variance,
    gaussian_pvalues,
    matched_pvalues,
    sampled_pvalues,
)

pytestmark = pytest.mark.quick


def scores_of(n, D, seed=0, heavy=False):
    rng = np.random.default_rng(seed)
    U = rng.standard_t(2, (n, D)) if heavy else rng.standard_normal((n, D))
    return np.linalg.qr(U - U.mean(axis=0))[0]


def sampled_pvalue(y, U, orders, most, enough=10):
    """Of one column with given scores."""
    plain = OwnScores(U, np.eye(U.shape[1])[None], np.zeros((1, U.shape[1])))
    return sampled_pvalues(y[:, None], plain, orders, most, enough)[0]


def slowly_sampled(y, U, orders, most, enough, moved):
    """The same, order after order; ``moved`` says whether an order tells where a value goes, or
    where it comes from."""
    d = np.arange(1, U.shape[1] + 1)
    spread = 2.0 / (9.0 * d)

    def size(column):
        ratio = np.cumsum((U.T @ column) ** 2) / d
        return np.max((np.cbrt(ratio) - (1.0 - spread)) / np.sqrt(spread))

    y = (y - y.mean()) / np.std(y, ddof=1)
    tried = reached = 0
    for number in range(round(most / orders.size)):
        for order in orders.chunk(number):
            other = y[order]
            if moved:
                other = np.empty_like(y)
                other[order] = y
            reached += size(other) >= size(y) - 1e-9
            tried += 1
        if reached >= enough:
            break
    return (1 + reached) / (1 + tried)


def unit(y):
    y = y - y.mean()
    return y / np.linalg.norm(y)


@pytest.mark.parametrize("column", [[0, 0, 0, 0, 0, 1, 3], [1, 2, 3, 4, 5, 6, 70], range(7)])
def test_mean_and_variance_over_all_orders(column):
    U, y = scores_of(7, 3, heavy=True), unit(np.array(column, dtype=float))
    orders = np.array(list(permutations(range(7))))
    R2 = np.cumsum((y[orders] @ U) ** 2, axis=1)
    np.testing.assert_allclose(R2.mean(axis=0), np.arange(1, 4) / 6)
    leverages = np.sum(np.cumsum(U * U, axis=1) ** 2, axis=0)
    excess = excess_variance(leverages, np.array([np.sum(y**4)]), 7)[0]
    d = np.arange(1, 4)
    gaussian = 2 * d * (6 - d) / (6**2 * 8)
    np.testing.assert_allclose(R2.var(axis=0), gaussian * (1 + excess))


def test_matched_without_excess_is_gaussian():
    R2 = np.random.default_rng(0).random((5, 4))
    same = matched_pvalues(R2, np.zeros((5, 4)), 30)
    np.testing.assert_allclose(same, gaussian_pvalues(R2, 30))


def test_matched_has_the_moments_it_was_given():
    from scipy import stats

    excess, freedom, d = 0.7, 40, 3
    mean = d / freedom
    total = (0.5 * freedom + 1) / (1 + excess) - 1
    law = stats.beta(mean * total, (1 - mean) * total)
    gaussian = stats.beta(d / 2, (freedom - d) / 2)
    assert law.mean() == pytest.approx(gaussian.mean())
    assert law.var() == pytest.approx(1.7 * gaussian.var())
    x = np.array([[0.01, 0.02, 0.3]])
    p = matched_pvalues(x, np.full((1, 3), excess), freedom)
    assert p[0, 2] == pytest.approx(law.sf(0.3))


@pytest.mark.parametrize("freedom", [4, 30, 199, 2699])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 100.0])
def test_bounds_from_a_grid_hold_and_are_close(freedom, spread):
    rng = np.random.default_rng(freedom)
    D = max(1, min(16, freedom // 3))
    # rows that are multiples of each other, smaller and larger than no excess
    excess = spread * rng.standard_t(2, (4000, 1)) * rng.standard_normal(D)
    R2 = np.minimum(np.cumsum(rng.chisquare(1, (4000, D)), axis=1) / freedom, 1.0)
    exact = matched_pvalues(R2, excess, freedom)
    least, most = bounds_of_matched_pvalues(R2, R2, excess, freedom)
    assert np.all((least <= exact) & (exact <= most))
    if spread < 1.0 and freedom >= 30:
        between = (exact > 2e-4) & (exact < 0.5)
        assert np.median(least[between] / exact[between]) > 0.85
        seldom = between & (exact < 0.02)  # beyond, a half may be all that is said
        assert np.median(most[seldom] / exact[seldom]) < 1.35  # a step of the grid
    # of R2 that is not known exactly, and of anything made of p-values
    wide = bounds_of_matched_pvalues(0.9 * R2, np.minimum(1.1 * R2, 1.0), excess, freedom, np.log1p)
    assert np.all((wide.least <= np.log1p(exact)) & (np.log1p(exact) <= wide.most))


@pytest.mark.parametrize("k", [1, 2, 12, 40])
def test_sampled_is_uniform_at_least(k):
    """Rows in random order to begin with: p-values at or below a level as often as it says."""
    rng = np.random.default_rng(k)
    U, orders = scores_of(40, 4, heavy=True), Orders(40)
    found = []
    for _ in range(400):
        y = np.zeros(40)
        y[rng.choice(40, k, replace=False)] = rng.poisson(2, k) + 1.0
        if k == 40:
            y = rng.standard_t(2, 40)
        found.append(sampled_pvalue(y, U, orders, 256))
    for level in (0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level / 400)
    assert min(found) >= 1 / 257


def test_limits_say_which_sums_count_as_much():
    rng = np.random.default_rng(0)
    d = np.arange(1, 6)

    def largest(projections):
        ratio = np.cumsum(projections**2, axis=-1) / d
        spread = 2.0 / (9.0 * d)
        return np.max((np.cbrt(ratio) - (1.0 - spread)) / np.sqrt(spread), axis=-1)

    for size in (0.1, 1.0, 3.0):
        given, others = size * rng.standard_normal(5), size * rng.standard_normal((500, 5))
        reached = np.any(np.cumsum(others**2, axis=1) >= _limits(given), axis=1)
        np.testing.assert_array_equal(reached, largest(others) >= largest(given))


def test_sampled_against_all_orders():
    rng = np.random.default_rng(3)
    U = scores_of(7, 2, heavy=True)
    for _ in range(5):
        y = rng.poisson(1.0, 7).astype(float)
        if np.ptp(y) == 0:
            continue
        spread = 2.0 / (9.0 * np.arange(1, 3))

        def size(columns, spread=spread):
            ratio = np.cumsum((columns @ U) ** 2, axis=-1) / np.arange(1, 3)
            return np.max((np.cbrt(ratio) - (1 - spread)) / np.sqrt(spread), axis=-1)

        z = y / np.std(y, ddof=1)
        every = size(z[np.array(list(permutations(range(7))))])
        exact = np.mean(every >= size(z) - 1e-9)
        sampled = sampled_pvalue(y, U, Orders(7), 5000, enough=10_000)
        assert sampled == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 5000))


def test_orders_within_groups_stay_within_groups():
    groups = np.array([0, 1, 0, 2, 1, 0, 2])
    orders = Orders(7, groups).chunk(0)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(7), (len(orders), 1)))
    assert np.all(groups[orders] == groups)
    assert len({tuple(order) for order in orders.tolist()}) > 10


def test_orders_are_the_same_for_every_column():
    np.testing.assert_array_equal(Orders(30).chunk(2), Orders(30).chunk(2))
    assert not np.array_equal(Orders(30).chunk(0), Orders(30).chunk(1))
    assert not np.array_equal(Orders(30, seed=1).chunk(0), Orders(30).chunk(0))


def test_many_columns_at_once_as_one_by_one(rng):
    """Smooth columns, outliers, and columns that are nearly constant, each with scores of its
    own: those of all, turned, and the column itself."""
    n, m, D = 40, 5, 3
    Y = rng.normal(size=(n, 9))
    Y[:, 3:6] = 0.0
    Y[[1, 5], 3:6] = rng.normal(size=(2, 3))
    Y[0, 6:] = 20.0
    scores = OwnScores(scores_of(n, m), rng.normal(size=(9, m, D)), rng.normal(size=(9, D)) / 30)
    Y[:, 0] += 9.0 * scores.U @ scores.turns[0, :, 0]  # seldom reached: all orders are tried
    Y -= Y.mean(axis=0)
    orders = Orders(n)
    together = sampled_pvalues(Y, scores, orders, 1000)
    assert orders.size < 1000
    for j, found in enumerate(together):
        U = scores.U @ scores.turns[j] + np.outer(Y[:, j], scores.own[j])
        assert found == slowly_sampled(Y[:, j], U, orders, 1000, 10, moved=3 <= j < 6)
    assert together.min() < 0.01
    assert together.max() > 0.1
