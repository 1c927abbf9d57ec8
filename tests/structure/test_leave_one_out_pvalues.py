"""Tests of columns against the components of other columns."""

import numpy as np
import pytest
from data_matrices import simulated, standardised_data

from prosparse.structure import leading_components
from prosparse.structure.false_discoveries import benjamini_hochberg
from prosparse.structure.leave_one_out import leave_one_out_eigenvectors
from prosparse.structure.leave_one_out_pvalues import (
    LeaveOneOutScorer,
    LeaveOneOutTester,
    max_tested_components,
)


@pytest.mark.parametrize("p", [150, 3000])  # with 3000 columns p-values are bounded by a grid
@pytest.mark.parametrize("has_heavy_tails", [False, True])
def test_discoveries_equal_those_of_all_pvalues(p, has_heavy_tails):
    for seed in range(4):
        X = simulated(40, p, seed)
        tester = LeaveOneOutTester(standardised_data(X**3 if has_heavy_tails else X), 0)
        for members in (np.ones(p, dtype=bool), np.arange(p) % 7 == 0):
            exact = tester.against(members).pvalues
            for fdr in (0.5, 0.2, 0.05):
                test = tester.against(members)
                np.testing.assert_array_equal(test.discoveries(fdr), benjamini_hochberg(exact, fdr))
                lower, upper = test._pvalue_bounds
                assert np.all((lower <= exact) & (exact <= upper))
                np.testing.assert_allclose(test.pvalues, exact, rtol=1e-9)


@pytest.mark.parametrize(("n", "expected"), [(12, True), (20, False)])
def test_all_columns_are_permuted_if_rows_are_few(n, expected):
    """Twelve rows with four ones have 495 distinct permutations."""
    ones = np.random.default_rng(0).permuted(np.tile(np.arange(n) < n // 3, (50, 1)).T, axis=0)
    tester = LeaveOneOutTester(standardised_data(ones.astype(float)), 0)
    assert np.all(tester.has_few_entries) == expected


def test_subset_of_columns_gives_the_same_pvalues():
    X = simulated(40, 150)
    tester, columns = LeaveOneOutTester(standardised_data(X), 0), np.arange(0, 40, 2)
    members = np.isin(np.arange(150), columns[:-1])
    in_subset = tester.take_columns(columns).against(np.arange(20) < 19)
    expected = tester.against(members).pvalues_of(columns)
    np.testing.assert_allclose(in_subset.pvalues, expected, rtol=1e-9)


def test_scores_without_a_column_of_large_data(monkeypatch):
    """The remainder of a column lies at the bound; other columns are in no component."""
    monkeypatch.setattr(leading_components, "EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 300))
    X[:, :150] += 0.8 * rng.standard_normal((150, 5)) @ rng.standard_normal((5, 150))
    data, members = standardised_data(X), np.arange(300) < 200
    test = LeaveOneOutTester(data, 0).against(members)
    found, columns = test.components, np.array([3, 180, 250])
    assert found.eigenvalue_bound is not None
    Y = data.dense_columns(columns)
    U, rotations, own_weights = LeaveOneOutScorer(test).scores(columns, Y)
    for k, j in enumerate(columns):
        scores = U @ rotations[k] + np.outer(Y[:, k], own_weights[k])
        expected = U[:, : test.count]
        if members[j]:
            z = U.T @ Y[:, k]
            rest = Y[:, k] - U @ z
            length = np.linalg.norm(rest)
            eigenvalues = np.append(found.eigenvalues, found.eigenvalue_bound)
            V = leave_one_out_eigenvectors(eigenvalues, np.append(z, length)[None], test.count)
            expected = np.column_stack([U, rest / length]) @ V[0]
        np.testing.assert_allclose(scores, expected, atol=1e-6)
        np.testing.assert_allclose(scores.T @ scores, np.eye(test.count), atol=1e-6)


def test_number_of_tested_components():
    assert [max_tested_components(dof) for dof in (4, 11, 39, 1000)] == [1, 4, 13, 16]
