"""Null distribution of R2 under row permutations."""

from itertools import permutations

import numpy as np
import pytest
from scipy import stats

from prosparse.structure.null_distribution import (
    LeaveOneOutScores,
    RowPermutations,
    _exceedance_thresholds,
    bound_moment_matched_pvalues,
    excess_variance,
    moment_matched_pvalues,
    permutation_pvalues,
)

pytestmark = pytest.mark.quick


def scores_of(n, D, seed=0, heavy=False):
    rng = np.random.default_rng(seed)
    U = rng.standard_t(2, (n, D)) if heavy else rng.standard_normal((n, D))
    return np.linalg.qr(U - U.mean(axis=0))[0]


def permutation_pvalue(y, U, orders, most, enough=10):
    """Permutation p-value of one column with given scores."""
    plain = LeaveOneOutScores(U, np.eye(U.shape[1])[None], np.zeros((1, U.shape[1])))
    return permutation_pvalues(y[:, None], plain, orders, most, enough)[0]


def sequential_pvalue(y, U, orders, most, enough, moved):
    """The same, one permutation after another; ``moved`` permutes values instead of rows."""
    d = np.arange(1, U.shape[1] + 1)
    spread = 2.0 / (9.0 * d)

    def statistic(column):
        ratio = np.cumsum((U.T @ column) ** 2) / d
        return np.max((np.cbrt(ratio) - (1.0 - spread)) / np.sqrt(spread))

    y = (y - y.mean()) / np.std(y, ddof=1)
    drawn = exceeded = 0
    for number in range(round(most / orders.chunk_size)):
        for order in orders.chunk(number):
            other = y[order]
            if moved:
                other = np.empty_like(y)
                other[order] = y
            exceeded += statistic(other) >= statistic(y) - 1e-9
            drawn += 1
        if exceeded >= enough:
            break
    return (1 + exceeded) / (1 + drawn)


def unit(y):
    y = y - y.mean()
    return y / np.linalg.norm(y)


@pytest.mark.parametrize("column", [[0, 0, 0, 0, 0, 1, 3], [1, 2, 3, 4, 5, 6, 70], range(7)])
def test_mean_and_variance_over_all_permutations(column):
    U, y = scores_of(7, 3, heavy=True), unit(np.array(column, dtype=float))
    orders = np.array(list(permutations(range(7))))
    R2 = np.cumsum((y[orders] @ U) ** 2, axis=1)
    np.testing.assert_allclose(R2.mean(axis=0), np.arange(1, 4) / 6)
    leverages = np.sum(np.cumsum(U * U, axis=1) ** 2, axis=0)
    excess = excess_variance(leverages, np.array([np.sum(y**4)]), 7)[0]
    d = np.arange(1, 4)
    gaussian = 2 * d * (6 - d) / (6**2 * 8)
    np.testing.assert_allclose(R2.var(axis=0), gaussian * (1 + excess))


def test_matched_distribution_without_excess_is_gaussian():
    R2, d = np.random.default_rng(0).random((5, 4)), np.arange(1, 5)
    pvalues = moment_matched_pvalues(R2, np.zeros((5, 4)), 30)
    np.testing.assert_allclose(pvalues, stats.beta.sf(R2, d / 2, (30 - d) / 2))


def test_matched_distribution_has_the_given_moments():
    excess, dof, d = 0.7, 40, 3
    mean = d / dof
    total = (0.5 * dof + 1) / (1 + excess) - 1
    distribution = stats.beta(mean * total, (1 - mean) * total)
    gaussian = stats.beta(d / 2, (dof - d) / 2)
    assert distribution.mean() == pytest.approx(gaussian.mean())
    assert distribution.var() == pytest.approx(1.7 * gaussian.var())
    x = np.array([[0.01, 0.02, 0.3]])
    p = moment_matched_pvalues(x, np.full((1, 3), excess), dof)
    assert p[0, 2] == pytest.approx(distribution.sf(0.3))


@pytest.mark.parametrize("dof", [4, 30, 199, 2699])
@pytest.mark.parametrize("spread", [0.0, 0.01, 1.0, 100.0])
def test_bounds_from_a_grid_contain_the_pvalues_and_are_tight(dof, spread):
    rng = np.random.default_rng(dof)
    D = max(1, min(16, dof // 3))
    # Rows are multiples of each other, with negative and positive excess.
    excess = spread * rng.standard_t(2, (4000, 1)) * rng.standard_normal(D)
    R2 = np.minimum(np.cumsum(rng.chisquare(1, (4000, D)), axis=1) / dof, 1.0)
    exact = moment_matched_pvalues(R2, excess, dof)
    lower, upper = bound_moment_matched_pvalues(R2, R2, excess, dof)
    assert np.all((lower <= exact) & (exact <= upper))
    if spread < 1.0 and dof >= 30:
        between = (exact > 2e-4) & (exact < 0.5)
        assert np.median(lower[between] / exact[between]) > 0.85
        small = between & (exact < 0.02)  # above, the bound may be 1/2
        assert np.median(upper[small] / exact[small]) < 1.35  # a step of the grid
    # Bounds of R2 and a function of the p-values.
    wide = bound_moment_matched_pvalues(0.9 * R2, np.minimum(1.1 * R2, 1.0), excess, dof, np.log1p)
    assert np.all((wide.lower <= np.log1p(exact)) & (np.log1p(exact) <= wide.upper))


@pytest.mark.parametrize("k", [1, 2, 12, 40])
def test_permutation_pvalues_are_valid(k):
    """Under the null, the proportion of p-values below a level is at most the level."""
    rng = np.random.default_rng(k)
    U, orders = scores_of(40, 4, heavy=True), RowPermutations(40)
    found = []
    for _ in range(400):
        y = np.zeros(40)
        y[rng.choice(40, k, replace=False)] = rng.poisson(2, k) + 1.0
        if k == 40:
            y = rng.standard_t(2, 40)
        found.append(permutation_pvalue(y, U, orders, 256))
    for level in (0.05, 0.2):
        assert np.mean(np.array(found) <= level) <= level + 3 * np.sqrt(level / 400)
    assert min(found) >= 1 / 257


def test_thresholds_are_equivalent_to_the_statistic():
    rng = np.random.default_rng(0)
    d = np.arange(1, 6)

    def largest(projections):
        ratio = np.cumsum(projections**2, axis=-1) / d
        spread = 2.0 / (9.0 * d)
        return np.max((np.cbrt(ratio) - (1.0 - spread)) / np.sqrt(spread), axis=-1)

    for size in (0.1, 1.0, 3.0):
        given, others = size * rng.standard_normal(5), size * rng.standard_normal((500, 5))
        exceeded = np.any(np.cumsum(others**2, axis=1) >= _exceedance_thresholds(given), axis=1)
        np.testing.assert_array_equal(exceeded, largest(others) >= largest(given))


def test_permutation_pvalues_agree_with_all_permutations():
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
        sampled = permutation_pvalue(y, U, RowPermutations(7), 5000, enough=10_000)
        assert sampled == pytest.approx(exact, abs=4 * np.sqrt(0.25 / 5000))


def test_rows_are_permuted_within_groups():
    groups = np.array([0, 1, 0, 2, 1, 0, 2])
    orders = RowPermutations(7, groups).chunk(0)
    np.testing.assert_array_equal(np.sort(orders, axis=1), np.tile(np.arange(7), (len(orders), 1)))
    assert np.all(groups[orders] == groups)
    assert len({tuple(order) for order in orders.tolist()}) > 10


def test_permutations_depend_on_chunk_and_seed_only():
    np.testing.assert_array_equal(RowPermutations(30).chunk(2), RowPermutations(30).chunk(2))
    assert not np.array_equal(RowPermutations(30).chunk(0), RowPermutations(30).chunk(1))
    assert not np.array_equal(RowPermutations(30, seed=1).chunk(0), RowPermutations(30).chunk(0))


def test_columns_together_and_one_by_one_give_the_same_pvalues(rng):
    """Gaussian columns, columns with outliers and nearly constant columns."""
    n, m, D = 40, 5, 3
    Y = rng.normal(size=(n, 9))
    Y[:, 3:6] = 0.0
    Y[[1, 5], 3:6] = rng.normal(size=(2, 3))
    Y[0, 6:] = 20.0
    scores = LeaveOneOutScores(
        scores_of(n, m), rng.normal(size=(9, m, D)), rng.normal(size=(9, D)) / 30
    )
    Y[:, 0] += (
        9.0 * scores.U @ scores.rotations[0, :, 0]
    )  # small p-value: all permutations are drawn
    Y -= Y.mean(axis=0)
    orders = RowPermutations(n)
    together = permutation_pvalues(Y, scores, orders, 1000)
    assert orders.chunk_size < 1000
    for j, found in enumerate(together):
        U = scores.U @ scores.rotations[j] + np.outer(Y[:, j], scores.own_weights[j])
        assert found == sequential_pvalue(Y[:, j], U, orders, 1000, 10, moved=3 <= j < 6)
    assert together.min() < 0.01
    assert together.max() > 0.1
