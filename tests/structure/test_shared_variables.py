"""Selection of variables with shared variance: power and false discoveries."""

import numpy as np
import pytest
from data_matrices import standardised_data
from scipy import sparse

from prosparse.datasets import make_globally_sparse
from prosparse.structure import select_shared_variables
from prosparse.structure.leave_one_out_pvalues import LeaveOneOutTester
from prosparse.structure.shared_variables import eliminate_without


@pytest.mark.parametrize("n", [40, 100])
def test_informative_variables_are_selected(n):
    """All variables have unit variance, so that variances are not informative."""
    F, false = [], []
    for seed in range(6):
        X, truth, _ = make_globally_sparse(
            n, 200, n_components=10, n_informative=20, noise=1.0, scale=True, random_state=seed
        )
        selected = select_shared_variables(standardised_data(X), 0.05).selected
        F.append(2 * np.sum(selected & truth) / (selected.sum() + truth.sum()))
        false.append(np.sum(selected & ~truth) / max(1, selected.sum()))
    assert np.mean(F) > 0.85
    assert np.mean(false) < 0.12


DISTRIBUTIONS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "counts": lambda rng, shape: rng.poisson(0.2, shape).astype(float),
    "binary": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
}


@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_independent_columns_give_few_false_discoveries(distribution):
    """About 3 of 60 data sets may have a discovery; 9 or more have probability 0.3 %."""
    rng = np.random.default_rng(0)
    n_false = 0
    for _ in range(60):
        X = DISTRIBUTIONS[distribution](rng, (40, 80))
        X = X[:, X.std(axis=0) > 0]
        n_false += bool(select_shared_variables(standardised_data(X), 0.05).selected.any())
    assert n_false <= 8


def test_false_candidates_do_not_support_each_other():
    rng = np.random.default_rng(5)
    n_false = 0
    for _ in range(40):
        X = rng.standard_normal((50, 200))
        n_false += bool(select_shared_variables(standardised_data(X), 0.05).selected.any())
    assert n_false <= 6


def test_candidate_is_tested_against_the_set_that_remains_without_it():
    """Eight columns share a factor; two share variance with each other only."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, :8] += 2.0 * rng.standard_normal((60, 1))
    X[:, 9] = X[:, 8] + 0.3 * rng.standard_normal(60)
    candidates, tester = np.arange(40) < 10, LeaveOneOutTester(standardised_data(X), 0)
    test = eliminate_without(tester, candidates, 8, 0.01)
    np.testing.assert_array_equal(np.flatnonzero(test.members), np.arange(8))
    assert test.pvalues[8] > 0.01
    assert eliminate_without(tester, candidates, 0, 0.01).pvalues[0] < 1e-6


def test_sparse_columns_are_tested_by_permutation():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal(300)
    X = rng.poisson(np.exp(factor[:, None] - 3.0), (300, 60)).astype(float)
    X[:, 30:] = rng.permuted(X[:, 30:], axis=0)
    X = X[:, X.std(axis=0) > 0]
    found = select_shared_variables(standardised_data(X), 0.05)
    assert found.permutation_tested.any()
    assert np.all(found.pvalues[found.permutation_tested] >= 1e-7)
    assert found.selected[:25].mean() > 0.8
    assert found.selected[30:].sum() <= 3


def test_sparse_and_dense_data_give_the_same_pvalues():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.exp(rng.standard_normal((80, 1)) - 1.0), (80, 40)).astype(float)
    pvalues = [
        select_shared_variables(standardised_data(container), 0.05).pvalues
        for container in (X, sparse.csr_array(X))
    ]
    np.testing.assert_allclose(*pvalues, rtol=1e-6, atol=1e-12)


def test_differences_between_groups_are_removed():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(6), 20)
    X = rng.standard_normal((120, 60)) + 2.0 * rng.standard_normal((6, 60))[groups]
    assert select_shared_variables(standardised_data(X), 0.05).selected.mean() > 0.8
    assert select_shared_variables(standardised_data(X, groups), 0.05).selected.sum() <= 1
