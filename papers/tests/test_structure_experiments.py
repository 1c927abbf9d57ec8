"""The tables of E17 and E18: what shares structure in them, and what cannot."""

import numpy as np
from scipy import sparse

from papers.structure import all_shuffled, among_shuffled, permutation_test, unequal


def correlations(table):
    C = np.corrcoef(table, rowvar=False)
    return np.abs(C[np.triu_indices_from(C, 1)])


def of_rank_one(rng, n=400, p=60):
    """Columns that are nearly copies of each other, the first ones the largest."""
    return (rng.normal(size=(n, 1)) + 0.1 * rng.normal(size=(n, p))) * np.linspace(3, 1, p)


def test_real_columns_keep_what_they_share_and_shuffled_ones_lose_it(rng):
    X = of_rank_one(rng)
    table, real = among_shuffled(X, 0)
    assert real.sum() == 10
    np.testing.assert_array_equal(table[:, real], X[:, :10])
    assert correlations(table[:, real]).min() > 0.9
    assert correlations(table[:, ~real]).max() < 0.3
    # every column is one of the table's, its rows in another order
    values = {tuple(column) for column in np.sort(X, axis=0).T}
    assert {tuple(column) for column in np.sort(table, axis=0).T} <= values


def test_nothing_is_shared_where_all_columns_are_shuffled(rng):
    X = of_rank_one(rng)
    table = all_shuffled(X, 0)
    assert correlations(table).max() < 0.3
    np.testing.assert_array_equal(np.sort(table, axis=0)[:, :10], np.sort(X, axis=0)[:, :10])
    assert not np.array_equal(table, all_shuffled(X, 1))


def test_sparse_tables_are_taken_too(rng):
    X = sparse.random_array((80, 30), density=0.3, format="csr", rng=rng)
    dense, sparse_one = among_shuffled(X.toarray(), 3)[0], among_shuffled(X, 3)[0]
    np.testing.assert_array_equal(dense, sparse_one)


def test_columns_of_unequal_noise_have_unit_variance():
    for lognormal in (False, True):
        X, support = unequal(50, 0, lognormal)
        np.testing.assert_allclose(X.std(axis=0), 1.0)
        assert support.sum() == 20


def test_the_plain_test_finds_what_is_plain(rng):
    table, real = among_shuffled(of_rank_one(rng), 0)
    chosen = permutation_test(table, orders=200)
    assert chosen[real].all()
    assert chosen[~real].sum() <= 2
