"""Which columns share structure: the whole search, its ways and its level."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import standardise
from prosparse.datasets import make_globally_sparse
from prosparse.structure import leading_components as leading
from prosparse.structure.false_discoveries import discoveries
from prosparse.structure.leading_components import Groups, Sample
from prosparse.structure.leave_one_out import left_out_coordinates
from prosparse.structure.search import (
    ColumnTests,
    Scores,
    components_tested,
    count_components,
    find_structure,
    ledermann,
    standing_without,
)


def sample_of(X, groups=None):
    if groups is None:
        return Sample(standardise(X, True)[0])
    codes = np.unique(groups, return_inverse=True)[1]
    return Sample(standardise(X, True)[0], Groups(codes, np.bincount(codes)))


def standardised(X):
    return (X - X.mean(axis=0)) / X.std(axis=0)


def shared(n=60, p=120, seed=0, **options):
    return make_globally_sparse(n, p, n_informative=20, random_state=seed, scale=True, **options)


# --- the components of some columns, by every way


def slow_components(Z, members, count):
    """Of the definition: singular vectors of the member columns."""
    U, s, _ = np.linalg.svd(Z[:, members], full_matrices=False)
    return s[:count] ** 2, U[:, :count]


@pytest.mark.parametrize(("n", "p"), [(80, 30), (30, 80)])
@pytest.mark.parametrize("exact", [2048, 8])  # 8: only leading components, by products
def test_components_by_every_way(n, p, exact, monkeypatch):
    monkeypatch.setattr(leading, "EXACT_SIDE", exact)
    monkeypatch.setattr(leading, "LEADING", 3)
    monkeypatch.setattr(leading, "BEYOND", 2)
    X = shared(n, p).X
    Z = standardised(X)
    members = np.ones(p, dtype=bool)
    members[::3] = False
    sample = sample_of(X)
    found = sample.components(members, 3, 1e-9)
    values, U = slow_components(Z, members, 3)
    np.testing.assert_allclose(found.values[:3], values, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found.seen[:, :3]), np.abs(Z.T @ U), atol=1e-3)
    np.testing.assert_allclose(np.abs(sample.scores(found, 3)), np.abs(U), atol=1e-4)
    assert (found.ceiling is None) == (exact > 8)
    if found.ceiling is not None:
        every = np.linalg.svd(Z[:, members], compute_uv=False) ** 2
        assert found.ceiling >= every[found.values.size] * (1 - 1e-6)


@pytest.mark.parametrize("grouped", [False, True])
def test_components_of_one_set_after_another_by_the_products_of_rows(grouped, monkeypatch):
    """Of a sparse table of few rows X X' is kept and brought up to date: columns that come, columns
    that go, and sets that have little in common."""
    monkeypatch.setattr(leading, "EXACT_SIDE", 8)
    monkeypatch.setattr(leading, "LEADING", 3)
    monkeypatch.setattr(leading, "BEYOND", 2)
    n, p = 40, 120
    rng = np.random.default_rng(0)
    X = np.where(rng.random((n, p)) < 0.3, np.exp(shared(n, p).X), 0.0)
    X[0] = 1.0  # all columns vary
    Z, groups = standardised(X), np.arange(n) % 3
    if grouped:
        Z = Z - np.array([Z[groups == g].mean(axis=0) for g in range(3)])[groups]
    sample = sample_of(sparse.csr_array(X), groups if grouped else None)
    kept = []
    for first, last in ((0, 120), (10, 110), (5, 105), (60, 120)):
        members = (np.arange(p) >= first) & (np.arange(p) < last)
        found = sample.components(members, 3, 1e-5)
        values, U = slow_components(Z, members, 3)
        np.testing.assert_allclose(found.values[:3], values, rtol=1e-5)
        np.testing.assert_allclose(np.abs(found.seen[:, :3]), np.abs(Z.T @ U), atol=1e-2)
        np.testing.assert_allclose(np.abs(sample.scores(found, 3)), np.abs(U), atol=1e-3)
        np.testing.assert_allclose(found.z, found.seen[members], atol=1e-12)
        every = np.linalg.svd(Z[:, members], compute_uv=False) ** 2
        assert found.ceiling >= every[found.values.size] * (1 - 1e-6)
        kept.append(found.rows is not None)
    assert kept == [False, True, True, True]


@pytest.mark.parametrize(("n", "p"), [(60, 20), (20, 60)])
@pytest.mark.parametrize("exact", [2048, 6])
def test_groups_are_centred_without_making_the_table(n, p, exact, monkeypatch):
    monkeypatch.setattr(leading, "EXACT_SIDE", exact)
    monkeypatch.setattr(leading, "LEADING", 3)
    monkeypatch.setattr(leading, "BEYOND", 2)
    rng = np.random.default_rng(0)
    groups = np.arange(n) % 4
    X = shared(n, p)[0] + 3.0 * rng.standard_normal((4, p))[groups]
    Z = standardised(X)
    within = Z - np.array([Z[groups == g].mean(axis=0) for g in range(4)])[groups]
    sample = sample_of(X, groups)
    np.testing.assert_allclose(sample.squares, np.sum(within**2, axis=0))
    assert sample.freedom == n - 4
    members = np.ones(p, dtype=bool)
    found = sample.components(members, 2, 1e-9)
    values, U = slow_components(within, members, 2)
    np.testing.assert_allclose(found.values[:2], values, rtol=1e-6)
    np.testing.assert_allclose(np.abs(found.seen[:, :2]), np.abs(within.T @ U), atol=1e-3)
    np.testing.assert_allclose(sample.columns(np.array([3]))[:, 0], within[:, 3], atol=1e-12)


# --- the test


@pytest.mark.parametrize("p", [150, 3000])  # 3000: bounds from a grid of tails
@pytest.mark.parametrize("heavy", [False, True])
def test_few_pvalues_tell_the_discoveries(p, heavy):
    """Bounds of p-values decide only what the p-values would decide alike."""
    for seed in range(4):
        X = shared(40, p, seed).X
        tests = ColumnTests(sample_of(X**3 if heavy else X), 0)
        for members in (np.ones(p, dtype=bool), np.arange(p) % 7 == 0):
            exact = tests.against(members).pvalues
            for rate in (0.5, 0.2, 0.05):
                tested = tests.against(members)
                np.testing.assert_array_equal(tested.discoveries(rate), discoveries(exact, rate))
                least, most = tested._bounds
                assert np.all((least <= exact) & (exact <= most))
                np.testing.assert_allclose(tested.pvalues, exact, rtol=1e-9)


@pytest.mark.parametrize(("n", "all_of_them"), [(12, True), (20, False)])
def test_columns_with_few_values_and_few_rows_are_put_in_random_order(n, all_of_them):
    """Of twelve rows 495 orders of four ones are different: no smooth law has such a tail."""
    ones = np.random.default_rng(0).permuted(np.tile(np.arange(n) < n // 3, (50, 1)).T, axis=0)
    tests = ColumnTests(sample_of(ones.astype(float)), 0)
    assert np.all(tests.few_entries) == all_of_them


def test_a_test_of_few_columns_is_that_of_the_whole_table():
    X = shared(40, 150).X
    tests, some = ColumnTests(sample_of(X), 0), np.arange(0, 40, 2)
    members = np.isin(np.arange(150), some[:-1])
    among = tests.within(some).against(np.arange(20) < 19)
    np.testing.assert_allclose(among.pvalues, tests.against(members).pvalues_of(some), rtol=1e-9)


@pytest.mark.parametrize("n", [40, 100])
def test_finds_what_noise_of_every_size_hides(n):
    """Unit variance: the variance says nothing. Fresh draws, few of them; E17 has more."""
    F, false = [], []
    for seed in range(6):
        X, truth, _ = make_globally_sparse(
            n, 200, n_components=10, n_informative=20, noise=1.0, scale=True, random_state=seed
        )
        chosen = find_structure(sample_of(X), 0.05).chosen
        F.append(2 * np.sum(chosen & truth) / (chosen.sum() + truth.sum()))
        false.append(np.sum(chosen & ~truth) / max(1, chosen.sum()))
    assert np.mean(F) > 0.85
    assert np.mean(false) < 0.12


CONTAINERS = {
    "gaussian": lambda rng, shape: rng.standard_normal(shape),
    "heavy": lambda rng, shape: rng.standard_t(3, shape),
    "counts": lambda rng, shape: rng.poisson(0.2, shape).astype(float),
    "binary": lambda rng, shape: (rng.random(shape) < 0.5).astype(float),
}


@pytest.mark.parametrize("kind", CONTAINERS)
def test_nothing_in_nothing(kind):
    """Of 60 tables without structure about 3 may give a discovery; 9 or more have odds of 0.3 %."""
    rng = np.random.default_rng(0)
    found = 0
    for _ in range(60):
        X = CONTAINERS[kind](rng, (40, 80))
        X = X[:, X.std(axis=0) > 0]
        found += bool(find_structure(sample_of(X), 0.05).chosen.any())
    assert found <= 8


def test_false_ones_do_not_hold_each_other_up():
    """Pairs of columns that are alike by chance: confirmed one by one, most fall."""
    rng = np.random.default_rng(5)
    found = [find_structure(sample_of(rng.standard_normal((50, 200))), 0.05) for _ in range(40)]
    assert sum(bool(one.chosen.any()) for one in found) <= 6


def test_a_column_is_confirmed_by_those_that_stand_without_it():
    """Eight columns share a factor, two others only each other: without one, the other falls."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((60, 40))
    X[:, :8] += 2.0 * rng.standard_normal((60, 1))
    X[:, 9] = X[:, 8] + 0.3 * rng.standard_normal(60)
    chosen = np.arange(40) < 10
    tested = standing_without(ColumnTests(sample_of(X), 0), chosen, 8, 0.01)
    np.testing.assert_array_equal(np.flatnonzero(tested.found.members), np.arange(8))
    assert tested.pvalues[8] > 0.01
    assert standing_without(ColumnTests(sample_of(X), 0), chosen, 0, 0.01).pvalues[0] < 1e-6


def test_rough_columns_are_sampled_and_said():
    rng = np.random.default_rng(0)
    factor = rng.standard_normal(300)
    X = rng.poisson(np.exp(factor[:, None] - 3.0), (300, 60)).astype(float)
    X[:, 30:] = rng.permuted(X[:, 30:], axis=0)
    X = X[:, X.std(axis=0) > 0]
    found = find_structure(sample_of(X), 0.05)
    assert found.sampled.any()
    assert np.all(found.pvalues[found.sampled] >= 1e-7)
    assert found.chosen[:25].mean() > 0.8
    assert found.chosen[30:].sum() <= 3


def test_sparse_as_dense():
    rng = np.random.default_rng(1)
    X = rng.poisson(np.exp(rng.standard_normal((80, 1)) - 1.0), (80, 40)).astype(float)
    dense, thin = (find_structure(sample_of(t), 0.05) for t in (X, sparse.csr_array(X)))
    np.testing.assert_allclose(dense.pvalues, thin.pvalues, rtol=1e-6, atol=1e-12)


def test_groups_that_differ_are_not_structure():
    """Columns that share nothing but which group a row belongs to."""
    rng = np.random.default_rng(2)
    groups = np.repeat(np.arange(6), 20)
    X = rng.standard_normal((120, 60)) + 2.0 * rng.standard_normal((6, 60))[groups]
    assert find_structure(sample_of(X), 0.05).chosen.mean() > 0.8
    assert find_structure(sample_of(X, groups), 0.05).chosen.sum() <= 1


# --- the count


@pytest.mark.parametrize(
    ("n", "p", "d", "q"), [(66, 200, 10, 20), (200, 300, 3, 50), (300, 60, 5, 40)]
)
def test_count_in_noise_of_every_size(n, p, d, q):
    rng = np.random.default_rng(0)
    for seed in range(4):
        X, truth, _ = make_globally_sparse(
            n, p, n_components=d, n_informative=q, noise=1.0, random_state=seed
        )
        X = X * rng.lognormal(0.0, 1.0, p)
        assert abs(count_components(sample_of(X), truth) - d) <= 2


def test_count_with_many_rows():
    """The less chance there is, the less a noise that is a little wrong is forgiven."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100_000, 40))
    X += 0.2 * rng.standard_normal((100_000, 3)) @ rng.standard_normal((3, 40))
    assert count_components(sample_of(X), np.ones(40, dtype=bool)) == 3


def test_scores_without_a_column_of_a_large_table(monkeypatch):
    """What the leading components leave of the column lies at the ceiling; a column that is no
    member is in none of them."""
    monkeypatch.setattr("prosparse.structure.leading_components.EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 300))
    X[:, :150] += 0.8 * rng.standard_normal((150, 5)) @ rng.standard_normal((5, 150))
    sample, members = sample_of(X), np.arange(300) < 200
    tested = ColumnTests(sample, 0).against(members)
    found, which = tested.found, np.array([3, 180, 250])
    assert found.ceiling is not None
    columns = sample.columns(which)
    U, turns, own = Scores(sample, tested).without(which, columns)
    for k, j in enumerate(which):
        scores = U @ turns[k] + np.outer(columns[:, k], own[k])
        expected = U[:, : tested.tried]
        if members[j]:
            z = U.T @ columns[:, k]
            rest = columns[:, k] - U @ z
            length = np.linalg.norm(rest)
            values, parts = np.append(found.values, found.ceiling), np.append(z, length)
            inside = left_out_coordinates(values, parts[None], tested.tried)[0]
            expected = np.column_stack([U, rest / length]) @ inside
        np.testing.assert_allclose(scores, expected, atol=1e-6)  # leading ones, in few digits
        np.testing.assert_allclose(scores.T @ scores, np.eye(tested.tried), atol=1e-6)


def test_components_of_a_large_table_are_counted_from_the_leading_ones(monkeypatch):
    """What is not known of a column is noise, and not missing."""
    monkeypatch.setattr("prosparse.structure.leading_components.EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((150, 300))
    X[:, :150] += 0.8 * rng.standard_normal((150, 5)) @ rng.standard_normal((5, 150))
    sample, shared = sample_of(X), np.arange(300) < 150
    assert sample.components(shared, 5).ceiling is not None
    assert count_components(sample, shared) == 5


def test_components_are_counted_until_one_does_not_stand_out(monkeypatch):
    """More of them than the leading ones that a large table is asked for at first."""
    monkeypatch.setattr("prosparse.structure.leading_components.EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 300))
    X += rng.standard_normal((400, 40)) @ rng.standard_normal((40, 300))
    sample, every = sample_of(X), np.ones(300, dtype=bool)
    assert sample.components(every, 16).values.size < 40
    assert count_components(sample, every) == 40


def test_what_the_last_test_knew_only_saves_time(monkeypatch):
    """All that it knew stand out: more are asked for at once, and the count is the same."""
    monkeypatch.setattr("prosparse.structure.leading_components.EXACT_SIDE", 50)
    rng = np.random.default_rng(0)
    X = rng.standard_normal((400, 300))
    X[:, :250] += rng.standard_normal((400, 40)) @ rng.standard_normal((40, 250))
    chosen = np.arange(300) < 250
    asked = []
    real = Sample.components

    def components(self, members, count, *options):
        asked.append(count)
        return real(self, members, count, *options)

    monkeypatch.setattr(Sample, "components", components)
    alone, after = sample_of(X), sample_of(X)
    assert count_components(alone, chosen) == 40
    once = len(asked)
    known = after.components(np.ones(300, dtype=bool), 16).values.size
    asked.clear()
    assert count_components(after, chosen) == 40
    assert asked[0] == 2 * known
    assert len(asked) < once


def test_count_of_little():
    sample = sample_of(np.random.default_rng(0).standard_normal((20, 6)))
    assert count_components(sample, np.zeros(6, dtype=bool)) == 0
    assert count_components(sample, np.arange(6) < 1) == 0


def test_ledermann():
    for p in range(3, 40):
        d = ledermann(p)
        assert (p - d) ** 2 >= p + d
        assert (p - d - 1) ** 2 < p + d + 1


def test_how_many_are_tested():
    assert [components_tested(m) for m in (4, 11, 39, 1000)] == [1, 4, 13, 16]
