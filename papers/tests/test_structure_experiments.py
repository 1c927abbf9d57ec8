"""Datasets of E17 and E18: real columns share variance, permuted columns do not."""

import numpy as np
from scipy import sparse

from papers.structure import mix_with_permuted, permutation_test, permute_all, simulate_unequal


def correlations(table):
    C = np.corrcoef(table, rowvar=False)
    return np.abs(C[np.triu_indices_from(C, 1)])


def rank_one_data(rng, n=400, p=60):
    """Return almost collinear columns with decreasing variance."""
    return (rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, p))) * np.linspace(3, 1, p)


def test_permuted_columns_are_uncorrelated_and_real_columns_unchanged(rng):
    X = rank_one_data(rng)
    table, real = mix_with_permuted(X, 0)
    assert real.sum() == 10
    np.testing.assert_array_equal(table[:, real], X[:, :10])
    assert correlations(table[:, real]).min() > 0.9
    assert correlations(table[:, ~real]).max() < 0.3
    # Each column is a permutation of an original column.
    values = {tuple(column) for column in np.sort(X, axis=0).T}
    assert {tuple(column) for column in np.sort(table, axis=0).T} <= values


def test_all_columns_permuted(rng):
    X = rank_one_data(rng)
    table = permute_all(X, 0)
    assert correlations(table).max() < 0.3
    np.testing.assert_array_equal(np.sort(table, axis=0)[:, :10], np.sort(X, axis=0)[:, :10])
    assert not np.array_equal(table, permute_all(X, 1))


def test_sparse_input_gives_the_same_columns(rng):
    X = sparse.random_array((80, 30), density=0.3, format="csr", rng=rng)
    from_dense, from_sparse = mix_with_permuted(X.toarray(), 3)[0], mix_with_permuted(X, 3)[0]
    np.testing.assert_array_equal(from_dense, from_sparse)


def test_simulated_columns_have_unit_variance():
    for lognormal in (False, True):
        X, support = simulate_unequal(50, 0, lognormal)
        np.testing.assert_allclose(X.std(axis=0), 1.0)
        assert support.sum() == 20


def test_permutation_test_selects_real_columns(rng):
    table, real = mix_with_permuted(rank_one_data(rng), 0)
    selected = permutation_test(table, n_permutations=200)
    assert selected[real].all()
    assert selected[~real].sum() <= 2
