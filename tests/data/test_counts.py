"""Counts as square roots of shares, for every kind of table."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse import InputError
from prosparse.data import container_of
from prosparse.data.operators import mapped
from prosparse.data.row_groups import row_groups
from prosparse.errors import ParameterError

pytestmark = pytest.mark.quick


def torched(X):
    return pytest.importorskip("torch", reason="torch is not installed").asarray(X)


def chunked(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(4, -1))


CONTAINERS = {
    "numpy": np.asarray,
    "csr": sparse.csr_array,
    "strict": array_api_strict.asarray,
    "torch": torched,
    "dask": chunked,
    "dask of sparse": lambda X: chunked(X).map_blocks(sparse.csr_array),
}


def counts(rng):
    X = rng.poisson(1.5, (11, 7)).astype(float)
    X[:, 0] += 1.0
    return X


def dense(X):
    X = X.compute() if hasattr(X, "compute") else X
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_roots_of_shares(kind, rng):
    X = counts(rng)
    table, before = CONTAINERS[kind](X), X.copy()
    totals = container_of(table).row_totals(table)
    assert type(totals) is np.ndarray
    np.testing.assert_array_equal(totals, X.sum(axis=1))
    roots = container_of(table).root_shares(table, 50.0)
    assert type(roots) is type(table)
    np.testing.assert_allclose(dense(roots), np.sqrt(50.0 * X / X.sum(axis=1, keepdims=True)))
    np.testing.assert_array_equal(dense(table), before)
    if kind == "csr":
        assert roots.nnz == table.nnz


@pytest.mark.parametrize("kind", ["numpy", "strict", "torch"])
def test_precision_is_kept(kind, rng):
    X = CONTAINERS[kind](counts(rng).astype(np.float32))
    assert container_of(X).root_shares(X, 9.0).dtype == X.dtype


def test_the_noise_of_a_multinomial_is_the_same_for_all_columns(rng):
    """1 / (4 N) of roots of shares, whatever the share."""
    pi = np.array([0.5, 0.25, 0.15, 0.1])
    X = rng.multinomial(2000, pi, size=4000).astype(float)
    roots = container_of(X).root_shares(X, 1.0)
    np.testing.assert_allclose(roots.mean(axis=0), np.sqrt(pi), rtol=1e-2)
    # shares add up to one, so that a column with a large one varies less by that
    np.testing.assert_allclose(roots.var(axis=0), (1.0 - pi) / (4 * 2000), rtol=0.1)


@pytest.mark.parametrize("kind", CONTAINERS)
def test_what_are_no_counts(kind, rng):
    negative, empty, large, small = (counts(rng) for _ in range(4))
    negative[5, 2] = -3.0
    empty[9] = 0.0
    large[9, 0] = 1e100
    small[9] *= 1e-200
    for wrong, words in (
        (negative, r"negative entry, -3: counts .* `counts=False`"),
        (empty, "row 9 of X has no counts at all: .* leave out empty rows"),
    ):
        table = CONTAINERS[kind](wrong)
        with pytest.raises(InputError, match=words):
            container_of(table).row_totals(table)
        with pytest.raises(InputError, match=words.replace("row 9", "row( 9)?")):
            dense(container_of(table).root_shares(table, 1.0))
    for wrong, total in ((large, r"1e\+100"), (small, r"\de-19\d")):
        table = CONTAINERS[kind](wrong)
        with pytest.raises(InputError, match=f"row 9 of X has a total of .*{total} counts; totals"):
            container_of(table).row_totals(table)


def test_a_memory_map_is_refused(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "is_large_map", lambda X: isinstance(X, np.memmap))
    X = counts(rng)
    np.save(tmp_path / "counts.npy", X)
    table = np.load(tmp_path / "counts.npy", mmap_mode="r")
    np.testing.assert_array_equal(container_of(table).row_totals(table), X.sum(axis=1))
    with pytest.raises(InputError, match=r"X is a memory map.* into memory or into a Dask array"):
        container_of(table).root_shares(table, 1.0)


# --- rows that belong together


def test_groups_of_rows():
    found = row_groups(["b", "a", "b", "c"], 4)
    assert found.codes.tolist() == [1, 0, 1, 2]
    assert found.sizes.tolist() == [1, 2, 1]
    assert found.labels.tolist() == ["a", "b", "c"]
    assert row_groups(None, 4) is None
    mixed = row_groups(np.array(["b", 1, "b", 2.5], dtype=object), 4)
    assert mixed.labels.tolist() == ["1", "2.5", "b"]


@pytest.mark.parametrize(
    ("labels", "words"),
    [
        ([1, 2, 3], r"one label for each of the 4 rows, got shape \(3,\)"),
        ("donor", r"got shape \(\)"),
        ([[1], [2], [3], [4]], r"got shape \(4, 1\)"),
        ([1.0, np.nan, 1.0, 2.0], "have none: give these rows one"),
        (["a", None, "b", "a"], "have none: give these rows one"),
        (np.array(["a", np.nan, "b", "a"], dtype=object), "have none: give these rows one"),
    ],
)
def test_labels_that_are_none(labels, words):
    with pytest.raises(ParameterError, match=words):
        row_groups(labels, 4)
