"""Selection of variables with shared variance: power and false discoveries."""

import numpy as np
import pytest
from data_matrices import equalised_data, standardised_data
from scipy import sparse

from prosparse.datasets import make_globally_sparse
from prosparse.structure import select_shared_variables, shared_variables
from prosparse.structure.leave_one_out_pvalues import LeaveOneOutTester
from prosparse.structure.shared_variables import eliminate_without, search_sample


def select(X, robust=True, groups=None):
    data = equalised_data(X, groups) if robust else standardised_data(X, groups)
    return select_shared_variables(data, 0.05, robust).selected


def informative(n, p, q, seed, d=5):
    return make_globally_sparse(
        n, p, n_components=d, n_informative=q, noise=1.0, scale=True, random_state=seed
    )[:2]


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("n", [40, 100])
def test_informative_variables_are_selected(n, robust):
    """All variables have unit variance, so that variances are not informative."""
    F, false = [], []
    for seed in range(5):
        X, truth = informative(n, 200, 20, seed, d=10)
        selected = select(X, robust)
        F.append(2 * np.sum(selected & truth) / (selected.sum() + truth.sum()))
        false.append(np.sum(selected & ~truth) / max(1, selected.sum()))
    assert np.mean(F) > 0.85
    assert np.mean(false) < 0.12


@pytest.mark.parametrize("convert", [np.asarray, sparse.csr_array])
def test_members_are_searched_in_a_sample_of_many_rows(convert, monkeypatch):
    """All rows are tested: 400 rows find nearly all variables that need more than 130."""
    power, false, of_sample = [], [], []
    for seed in range(3):
        X, truth = informative(400, 600, 250, seed)
        monkeypatch.setattr(shared_variables, "SEARCHED_ROWS", 130)
        tester = LeaveOneOutTester(equalised_data(convert(X)), True)
        test = search_sample(tester, 0.05)
        assert not np.array_equal(test.members, test.discoveries(0.05))
        selected = select(convert(X))
        np.testing.assert_array_equal(selected, test.discoveries(0.05))
        power.append(np.mean(selected[truth]))
        of_sample.append(np.mean(test.members[truth]))
        false.append(np.sum(selected & ~truth) / selected.sum())
    assert np.mean(power) > np.mean(of_sample)
    assert np.mean(power) > 0.95
    assert np.mean(false) < 0.08


def test_few_discoveries_in_a_sample_are_not_used(monkeypatch):
    monkeypatch.setattr(shared_variables, "SEARCHED_ROWS", 100)
    X, truth = informative(400, 600, 60, 0)
    data = equalised_data(X)
    assert search_sample(LeaveOneOutTester(data, True), 0.05) is None
    assert np.mean(select(X)[truth]) > 0.95


def test_rows_are_sampled_within_groups(rng):
    """The sample is standardised again; a group without rows in it is dropped."""
    X, codes = rng.standard_normal((60, 80)), np.arange(60) % 4
    codes[1] = 9
    data = equalised_data(X, codes)
    sample = data.sample_rows(30)
    assert (data.n, sample.n, data.dof - sample.dof) == (60, 30, 27)
    rows = slice(None, None, 2)
    weighted = data.adjustment.weights[rows, None] * np.eye(10)[codes[rows]]
    Z = np.asarray(data.op.dense())[rows]
    Z = Z - weighted @ np.linalg.lstsq(weighted, Z, rcond=None)[0]
    Z *= np.sqrt(30 / np.sum(Z**2, axis=0))
    np.testing.assert_allclose(np.asarray(sample.op.dense()), Z, atol=1e-10)


DISTRIBUTIONS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "counts": lambda rng, shape: rng.poisson(0.2, shape).astype(float),
    "binary": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
}


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("distribution", DISTRIBUTIONS)
def test_independent_columns_give_few_false_discoveries(distribution, robust):
    """About 2 of 40 data sets may have a discovery; 7 or more have probability 0.3 %."""
    rng = np.random.default_rng(0)
    n_false = 0
    for _ in range(40):
        X = DISTRIBUTIONS[distribution](rng, (40, 80))
        X = X[:, X.std(axis=0) > 0]
        n_false += bool(select(X, robust).any())
    assert n_false <= 6


# --- rows of unequal noise


def three_large(rng, X):
    X[:3] *= 5.0
    return X


def student(rng, X):
    return X * np.sqrt(3.0 / rng.chisquare(3, (len(X), 1)))


def lognormal(rng, X):
    return X * rng.lognormal(0.0, 0.3, (len(X), 1))


NOISE = {f.__name__: f for f in (three_large, student, lognormal)}


@pytest.mark.parametrize("noise", NOISE)
def test_rows_of_unequal_noise_give_few_false_discoveries(noise):
    """Uncorrelated columns, many of which the exchangeable null selects."""
    rng = np.random.default_rng(0)
    tables = [NOISE[noise](rng, rng.standard_normal((200, 120))) for _ in range(6)]
    robust = [select(X).sum() for X in tables]
    assert np.sum(np.array(robust) > 0) <= 1
    assert np.max(robust) <= 3
    assert select(tables[0], robust=False).sum() > 10


@pytest.mark.parametrize("noise", NOISE)
def test_informative_variables_in_rows_of_unequal_noise(noise):
    rng = np.random.default_rng(1)
    found, false = [], []
    for seed in range(3):
        X, truth = informative(100, 120, 30, seed)
        selected = select(NOISE[noise](rng, X))
        found.append(selected[truth].mean())
        false.append(np.sum(selected & ~truth) / max(1, selected.sum()))
    assert np.mean(found) > 0.9
    assert np.mean(false) < 0.12


def test_batches_of_unequal_noise():
    """Batches differ in their means and in their noise."""
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1, 2], 40)
    noise = np.array([0.7, 1.0, 1.5])[groups][:, None]
    found, false = [], []
    for seed in range(3):
        X, truth = informative(120, 120, 30, seed)
        X = noise * X + 3.0 * rng.standard_normal((3, 120))[groups]
        selected = select(X, groups=groups)
        found.append(selected[truth].mean())
        false.append(np.sum(selected & ~truth) / max(1, selected.sum()))
    assert np.mean(found) > 0.9
    assert np.mean(false) < 0.12


def test_large_differences_between_batches_with_unequal_rows():
    """Differences between batches that are divided by unequal scales are not shared variance."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 30)
    for _ in range(3):
        X = rng.standard_normal((120, 100)) * rng.lognormal(0.0, 0.4, (120, 1))
        X += 5.0 * rng.standard_normal((4, 100))[groups]
        assert select(X, groups=groups).sum() <= 2


def test_skewed_null_columns_alongside_informative_ones():
    """Lognormal columns have a heavier tail than a beta distribution."""
    rng = np.random.default_rng(0)
    false, found = [], []
    for seed in range(6):
        X, truth = informative(100, 150, 20, seed)
        X[:, ~truth] = rng.lognormal(0.0, 1.5, (100, 130))
        selected = select(X)
        found.append(selected[truth].mean())
        false.append(np.sum(selected & ~truth) / max(1, selected.sum()))
    assert np.mean(found) > 0.8
    assert np.mean(false) < 0.1


def test_random_signs_remove_all_shared_variance():
    """Rows and columns of real-like data keep their magnitudes; no correlation is left."""
    rng = np.random.default_rng(0)
    n_selected = []
    for seed in range(4):
        X, _ = informative(120, 150, 120, seed, d=6)
        X = np.sign(X) * np.abs(X) ** 1.3 * rng.lognormal(0.0, 0.4, (120, 1))
        X[:20, :50] *= 2.0  # noise that differs by row and column
        X = (X - X.mean(axis=0)) / X.std(axis=0)
        assert select(X).mean() > 0.5
        n_selected.append(select(X * rng.choice([-1.0, 1.0], X.shape)).sum())
    assert np.sum(np.array(n_selected) > 0) <= 1
    assert np.max(n_selected) <= 4


# --- small structures


def test_pairs_are_found():
    """Fifteen pairs of correlation 0.9 form no leading component."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 200))
    X[:, 15:30] = 0.9 * X[:, :15] + np.sqrt(1 - 0.81) * X[:, 15:30]
    selected = select(X)
    assert selected[:30].all()
    assert selected[30:].sum() <= 3


@pytest.mark.parametrize(("size", "robust_finds"), [(12, True), (5, False)])
def test_group_of_few_rows(size, robust_finds):
    """Signs alone cannot distinguish structure in 5 rows from outlying rows."""
    rng = np.random.default_rng(0)
    found = {False: [], True: []}
    for _ in range(3):
        X = rng.standard_normal((200, 80))
        X[:size, :15] += 3.0
        for robust, proportions in found.items():
            proportions.append(select(X, robust)[:15].mean())
    assert np.mean(found[False]) > 0.9
    assert np.mean(found[True]) > 0.9 if robust_finds else np.mean(found[True]) < 0.2


# --- steps of the search


def test_candidate_is_tested_against_the_set_that_remains_without_it():
    """Eight columns share a factor; two share variance with each other only."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, :8] += 2.0 * rng.standard_normal((60, 1))
    X[:, 9] = X[:, 8] + 0.3 * rng.standard_normal(60)
    tester = LeaveOneOutTester(standardised_data(X), robust=True).take_columns(np.arange(10))
    test = eliminate_without(tester, 8, 0.01)
    np.testing.assert_array_equal(np.flatnonzero(test.members), np.arange(8))
    assert test.pvalues_of(np.array([8]), without=9)[0] > 0.01
    assert eliminate_without(tester, 0, 0.01).pvalues[0] < 1e-6


def test_rare_counts_with_a_shared_factor():
    rng = np.random.default_rng(0)
    X = rng.poisson(np.exp(rng.standard_normal(300)[:, None] - 3.0), (300, 60)).astype(float)
    X[:, 30:] = rng.permuted(X[:, 30:], axis=0)
    X = X[:, X.std(axis=0) > 0]
    selected = select(X, robust=False)
    assert selected[:25].mean() > 0.4
    assert selected[30:].sum() <= 3


@pytest.mark.parametrize("robust", [False, True])
@pytest.mark.parametrize("has_groups", [False, True])
def test_sparse_and_dense_data_give_the_same_pvalues(robust, has_groups):
    rng = np.random.default_rng(1)
    X = rng.poisson(np.exp(rng.standard_normal((80, 1)) - 1.0), (80, 40)).astype(float)
    groups = np.arange(80) % 4 if has_groups else None
    make = equalised_data if robust else standardised_data
    pvalues = [
        select_shared_variables(make(container, groups), 0.05, robust).pvalues
        for container in (X, sparse.csr_array(X))
    ]
    np.testing.assert_allclose(*pvalues, rtol=1e-3, atol=1e-12)


def test_differences_between_groups_are_removed():
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(6), 20)
    X = rng.standard_normal((120, 60)) + 2.0 * rng.standard_normal((6, 60))[groups]
    assert select(X, robust=False).mean() > 0.8
    assert select(X, groups=groups).sum() <= 1
