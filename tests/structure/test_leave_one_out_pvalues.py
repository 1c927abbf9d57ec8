"""Tests of columns against the components of other columns."""

import numpy as np
import pytest
from data_matrices import simulated, standardised, standardised_data
from scipy import stats

from prosparse.selection.dimension import count_signals
from prosparse.structure import leading_components, leave_one_out_pvalues
from prosparse.structure.false_discoveries import (
    NESTED_CORRECTION,
    benjamini_hochberg,
    combine_pvalues,
)
from prosparse.structure.leave_one_out_pvalues import (
    COMPONENT_WEIGHT,
    PAIR_WEIGHT,
    LeaveOneOutTester,
    max_tested_components,
)
from prosparse.structure.null_distribution import sign_flip_moments, upper_triangle


def scores_without(Z, members, j, D):
    """Delete the column and decompose the other members."""
    others = members.copy()
    others[j] = False
    return np.linalg.svd(Z[:, others], full_matrices=False)[0][:, :D]


def flip_moments_by_deletion(Z, members, j, D, correction):
    """Compute the moments of one column from the definitions."""
    U = scores_without(Z, members, j, D)
    y2 = correction * Z[:, j] ** 2 / np.sum(Z[:, j] ** 2)
    i, k = upper_triangle(D)
    leverages = np.cumsum(U**2, axis=1)
    return sign_flip_moments((y2 @ (U[:, i] * U[:, k]))[None], (y2**2 @ leverages**2)[None])


@pytest.mark.parametrize("p", [30, 150])
@pytest.mark.parametrize("has_heavy_tails", [False, True])
def test_flip_moments_equal_those_after_deleting_the_column(p, has_heavy_tails):
    X = simulated(40, p)
    X = X**3 if has_heavy_tails else X
    Z, members = standardised(X), np.arange(p) % 5 > 0
    test = LeaveOneOutTester(standardised_data(X), robust=True).against(members)
    columns = np.array([0, 1, 2, 7, 10, p - 1])  # members and others
    found = test._flip_moments(columns)
    for row, j in enumerate(columns):
        expected = flip_moments_by_deletion(Z, members, j, test.count, 40 / 39)
        np.testing.assert_allclose(found.mean[row], expected.mean[0], rtol=1e-6)
        np.testing.assert_allclose(found.variance[row], expected.variance[0], rtol=1e-5)
    # Moments are cached, in any order of the columns.
    again = test._flip_moments(columns[::-1])
    np.testing.assert_array_equal(again.mean[::-1], found.mean)


def test_flip_moments_within_groups():
    rng = np.random.default_rng(0)
    groups = np.arange(40) % 8
    X = simulated(40, 30) + 5.0 * rng.standard_normal((8, 30))[groups]
    Z = standardised(X)
    Z = Z - np.stack([Z[groups == g].mean(axis=0) for g in range(8)])[groups]
    members = np.ones(30, dtype=bool)
    test = LeaveOneOutTester(standardised_data(X, groups), robust=True).against(members)
    found = test._flip_moments(np.array([4]))
    expected = flip_moments_by_deletion(Z, members, 4, test.count, 5 / 4)
    np.testing.assert_allclose(found.mean[0], expected.mean[0], rtol=1e-6)
    np.testing.assert_allclose(found.variance[0], expected.variance[0], rtol=1e-5)


def test_scores_of_all_members_approximate_those_without_a_column(monkeypatch):
    """With many members, one of them hardly changes the scores."""
    X = simulated(60, 300)
    data, members = standardised_data(X), np.ones(300, dtype=bool)
    exact = LeaveOneOutTester(data, robust=True).against(members)._flip_moments(np.arange(300))
    monkeypatch.setattr(leave_one_out_pvalues, "MAX_OWN_SCORES", 0)
    found = LeaveOneOutTester(data, robust=True).against(members)._flip_moments(np.arange(300))
    ratio = found.mean / exact.mean
    assert np.median(np.abs(ratio - 1.0)) < 0.15


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("has_heavy_tails", [False, True])
def test_discoveries_equal_those_of_all_pvalues(robust, has_heavy_tails):
    """Bounds contain the p-values, and decide the same discoveries."""
    p = 150
    for seed in range(3):
        X = simulated(40, p, seed)
        tester = LeaveOneOutTester(standardised_data(X**3 if has_heavy_tails else X), robust)
        for members in (np.ones(p, dtype=bool), np.arange(p) % 7 == 0):
            exact = tester.against(members).pvalues
            test = tester.against(members)
            is_small = exact < 0.15  # larger p-values may have larger lower bounds
            assert np.all(test._lower_bounds[is_small] <= exact[is_small])
            upper = test._upper_bounds(np.arange(p), flips=True)
            without_own_scores = ~members | ~np.bool_(test._has_own_scores)
            assert np.all(exact[without_own_scores] <= upper[without_own_scores] * (1 + 1e-6))
            for fdr in (0.5, 0.2, 0.05):
                expected = benjamini_hochberg(exact, fdr)
                np.testing.assert_array_equal(tester.against(members).discoveries(fdr), expected)


def test_pvalues_by_deletion():
    """Both null distributions, all numbers of components and both statistics."""
    n, p = 40, 30
    X = simulated(n, p)
    Z, members = standardised(X), np.ones(p, dtype=bool)
    tester = LeaveOneOutTester(standardised_data(X), robust=True)
    test = tester.against(members)
    d = np.arange(1, test.count + 1)
    for j in (0, 13, 29):
        U, y = scores_without(Z, members, j, test.count), Z[:, j] / np.linalg.norm(Z[:, j])
        R2 = np.cumsum((U.T @ y) ** 2)
        moments = test._permutation_moments(np.array([j]))
        permuted = _tail(R2, moments.mean[0], moments.variance[0])
        np.testing.assert_allclose(moments.mean[0], d / (n - 1))
        flips = flip_moments_by_deletion(Z, members, j, test.count, n / (n - 1))
        flipped = _tail(R2, flips.mean[0], flips.variance[0])
        flipped = np.maximum(flipped, tester.smallest_pvalues[j])
        component = max(combine_pvalues(part[None])[0] for part in (permuted, flipped))
        pair = tester.pairs.pvalues[j]
        expected = min(component / COMPONENT_WEIGHT, pair / PAIR_WEIGHT, 1.0)
        assert test.pvalues[j] == pytest.approx(expected, rel=1e-5)


def test_weights_of_numbers_of_components():
    """With few rows, half of the weight is on the number of eigenvalues above white noise."""
    for n in (28, 60):
        X = simulated(n, 40)
        test = LeaveOneOutTester(standardised_data(X), True).against(np.ones(40, dtype=bool))
        estimate = count_signals(np.linalg.svd(standardised(X), compute_uv=False) ** 2, n, 40)
        assert 0 < estimate < test.count
        weights = np.full(test.count, 1.0 / test.count)
        pvalues = np.full((1, test.count), 0.5)
        pvalues[0, estimate - 1] = 1e-6
        if n == 28:
            weights = 0.5 * weights + 0.5 * (np.arange(1, test.count + 1) == estimate)
        expected = NESTED_CORRECTION * 1e-6 / weights[estimate - 1]
        assert test._combine(pvalues)[0] == pytest.approx(expected, rel=1e-3)


def _tail(R2, mean, variance):
    total = mean * (1 - mean) / variance - 1
    return stats.beta.sf(R2, mean * total, (1 - mean) * total)


@pytest.mark.parametrize(
    "rows", ["gaussian", "t3", "three large", "a fifth in half of the columns"]
)
def test_pvalues_are_valid_under_unequal_noise(rows):
    """Proportions of p-values below 0.05 and 0.01; tables differ more than single p-values."""
    rng = np.random.default_rng(0)
    n, p, found = 100, 60, []
    for _ in range(12):
        X = rng.standard_normal((n, p))
        if rows == "t3":
            X *= np.sqrt(3.0 / rng.chisquare(3, (n, 1)))
        if rows == "three large":
            X[:3] *= 5.0
        if rows.startswith("a fifth"):
            X[: n // 5, : p // 2] *= 3.0
        data = standardised_data(X)
        found.append(LeaveOneOutTester(data, robust=True).against_all.pvalues)
    found = np.concatenate(found)
    assert np.mean(found < 0.05) < 0.09
    assert np.mean(found < 0.01) < 0.03


def test_correlations_with_a_removed_column_are_ignored():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 20))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    test = LeaveOneOutTester(standardised_data(X), robust=True).against(np.arange(20) > 1)
    columns = np.array([1, 5])
    assert test.pvalues_of(columns)[0] < 1e-4
    without = test.pvalues_of(columns, without=0)
    assert without[0] > 1e-3
    assert without[1] == test.pvalues_of(columns)[1]


@pytest.mark.parametrize("robust", [False, True])
def test_subset_of_columns_gives_the_same_component_pvalues(robust):
    X = simulated(40, 150)
    tester, columns = LeaveOneOutTester(standardised_data(X), robust), np.arange(0, 40, 2)
    members = np.isin(np.arange(150), columns[:-1])
    subset = tester.take_columns(columns)
    np.testing.assert_array_equal(subset.pairs.pvalues, tester.pairs.pvalues[columns])
    expected = tester.against(members).pvalues_of(columns)
    np.testing.assert_allclose(subset.against(np.arange(20) < 19).pvalues, expected, rtol=1e-9)


def test_leading_components_of_large_data_give_similar_pvalues(monkeypatch):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 300))
    X[:, :150] += 0.8 * rng.standard_normal((150, 5)) @ rng.standard_normal((5, 150))
    exact = LeaveOneOutTester(standardised_data(X), robust=True).against_all
    monkeypatch.setattr(leading_components, "EXACT_SIDE", 50)
    leading = LeaveOneOutTester(standardised_data(X), robust=True).against_all
    assert leading.components.eigenvalue_bound is not None
    assert np.mean(exact.discoveries(0.05) == leading.discoveries(0.05)) > 0.97


def test_number_of_tested_components():
    assert [max_tested_components(dof) for dof in (4, 11, 39, 1000)] == [1, 4, 13, 16]
