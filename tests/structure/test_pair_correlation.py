"""Largest correlation of each column with another one."""

from itertools import product

import numpy as np
import pytest
from data_matrices import standardised_data
from scipy import sparse

from prosparse.structure import pair_correlation
from prosparse.structure.pair_correlation import find_largest_correlations, sign_flip_bound

pytestmark = pytest.mark.quick


def flip_probability(w):
    """Compute P(|sum_a e_a w_a| >= |sum_a w_a|) by enumeration."""
    signs = np.array(list(product([-1.0, 1.0], repeat=w.size)))
    return np.mean(np.abs(signs @ w) >= abs(w.sum()) * (1 - 1e-12))


@pytest.mark.parametrize("distribution", ["gaussian", "heavy", "positive", "equal"])
def test_bound_is_never_below_the_probability(distribution):
    """Terms that are small beside the largest are dropped from the sum and from the signs."""
    rng = np.random.default_rng(0)
    n = 11
    W = {
        "gaussian": rng.standard_normal((n, 30)) + 0.5,
        "heavy": rng.standard_t(1, (n, 30)),
        "positive": rng.lognormal(0.0, 1.0, (n, 30)),
        "equal": rng.choice([-1.0, 1.0, 1.0], (n, 30)),
    }[distribution]
    bound = sign_flip_bound(W, np.ones(n))
    for w, b in zip(W.T, bound, strict=True):
        kept = np.where(np.abs(w) >= 0.05 * np.abs(w).max(), w, 0.0)
        assert flip_probability(kept) <= b * (1 + 1e-9)
    assert np.all(bound <= 1.0)


@pytest.mark.parametrize("k", [1, 4, 12, 40])
def test_bound_of_equal_terms_is_the_probability(k):
    W = np.zeros((50, 1))
    W[:k] = 0.3
    assert sign_flip_bound(W, np.ones(50))[0] == pytest.approx(2.0 ** (1 - k), rel=0.01)


def test_bound_of_many_terms_is_that_of_a_gaussian_sum():
    rng = np.random.default_rng(0)
    w = rng.standard_normal(4000)
    w = w[np.abs(w) > 0.05 * np.abs(w).max() + 0.1]  # no term is ignored
    w += 4.0 * np.sqrt(np.sum(w * w)) / w.size - w.mean()  # the sum is 4 standard deviations
    z2 = w.sum() ** 2 / np.sum(w * w)
    bound = sign_flip_bound(w[:, None], np.ones(w.size))[0]
    assert np.log(bound / 2.0) == pytest.approx(-z2 / 2.0, rel=0.01)


def test_correction_for_groups_increases_the_bound():
    W = np.random.default_rng(0).standard_normal((30, 4)) + 0.6
    assert np.all(sign_flip_bound(W, np.full(30, 2.0)) > sign_flip_bound(W, np.ones(30)))


@pytest.mark.parametrize(("n", "p"), [(60, 20), (20, 60)])
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_partners_have_the_largest_correlation(n, p, make, monkeypatch):
    monkeypatch.setattr(pair_correlation, "_ENTRIES_PER_BLOCK", 7 * max(n, p))
    X = np.random.default_rng(0).standard_normal((n, p))
    X[:, 3] = X[:, 11] + 0.2 * X[:, 3]
    r2 = np.corrcoef(X.T) ** 2
    np.fill_diagonal(r2, 0.0)
    data = standardised_data(make(X))
    found = find_largest_correlations(data, data.fourth_moments())
    np.testing.assert_array_equal(found.partners, np.argmax(r2, axis=0))
    if n == 60:  # with 20 rows, the bound for random signs is not small enough
        assert found.pvalues[[3, 11]].max() < 1e-3
    assert np.all(found.pvalues <= 1.0)


def test_partners_within_groups():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(5), 10)
    X = rng.standard_normal((50, 12)) + 5.0 * rng.standard_normal((5, 12))[groups]
    within = X - np.stack([X[groups == g].mean(axis=0) for g in range(5)])[groups]
    r2 = np.corrcoef(within.T) ** 2
    np.fill_diagonal(r2, 0.0)
    data = standardised_data(X, groups)
    found = find_largest_correlations(data, data.fourth_moments())
    np.testing.assert_array_equal(found.partners, np.argmax(r2, axis=0))
    assert found.pvalues.min() > 0.01


@pytest.mark.parametrize("rows", ["gaussian", "t3", "three large"])
def test_pvalues_are_valid(rows):
    """The proportion of tables with a p-value below 0.05 / p is at most about 0.05."""
    rng = np.random.default_rng(3)
    n_small = 0
    for _ in range(60):
        X = rng.standard_normal((50, 25))
        if rows == "t3":
            X *= np.sqrt(3.0 / rng.chisquare(3, (50, 1)))
        if rows == "three large":
            X[:3] *= 5.0
        data = standardised_data(X)
        n_small += find_largest_correlations(data, data.fourth_moments()).pvalues.min() < 0.05 / 25
    assert n_small <= 8


def test_large_tables_are_not_searched(monkeypatch):
    monkeypatch.setattr(pair_correlation, "MAX_PRODUCTS", 100)
    data = standardised_data(np.random.default_rng(0).standard_normal((20, 5)))
    found = find_largest_correlations(data, data.fourth_moments())
    assert np.all(found.partners == -1)
    assert np.all(found.pvalues == 1.0)
