"""Transformations of counts in every container type."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse import InputError
from prosparse.data.counts import hellinger, row_totals
from prosparse.data.operators import mapped

pytestmark = pytest.mark.quick


def to_torch(X):
    return pytest.importorskip("torch", reason="Torch is not installed").asarray(X)


def to_dask(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(4, -1))


CONTAINERS = {
    "numpy": np.asarray,
    "csr": sparse.csr_array,
    "strict": array_api_strict.asarray,
    "torch": to_torch,
    "dask": to_dask,
    "dask of sparse": lambda X: to_dask(X).map_blocks(sparse.csr_array),
}


def counts(rng):
    X = rng.poisson(1.5, (11, 7)).astype(float)
    X[:, 0] += 1.0
    return X


def to_dense(X):
    X = X.compute() if hasattr(X, "compute") else X
    return X.toarray() if sparse.issparse(X) else np.asarray(X)


@pytest.mark.parametrize("container", CONTAINERS)
def test_row_totals_and_hellinger_transformation(container, rng):
    X = counts(rng)
    given, before = CONTAINERS[container](X), X.copy()
    totals = row_totals(given)
    assert type(totals) is np.ndarray
    np.testing.assert_array_equal(totals, X.sum(axis=1))
    roots = hellinger(given, 50.0)
    assert type(roots) is type(given)
    np.testing.assert_allclose(to_dense(roots), np.sqrt(50.0 * X / X.sum(axis=1, keepdims=True)))
    np.testing.assert_array_equal(to_dense(given), before)
    if container == "csr":
        assert roots.nnz == given.nnz


@pytest.mark.parametrize("container", ["numpy", "strict", "torch"])
def test_single_precision_is_kept(container, rng):
    X = CONTAINERS[container](counts(rng).astype(np.float32))
    assert hellinger(X, 9.0).dtype == X.dtype


def test_hellinger_stabilises_the_multinomial_variance(rng):
    """The variance is (1 - pi) / (4 N) whatever the expected count."""
    pi = np.array([0.5, 0.25, 0.15, 0.1])
    X = rng.multinomial(2000, pi, size=4000).astype(float)
    roots = hellinger(X, 1.0)
    np.testing.assert_allclose(roots.mean(axis=0), np.sqrt(pi), rtol=1e-2)
    np.testing.assert_allclose(roots.var(axis=0), (1.0 - pi) / (4 * 2000), rtol=0.1)


@pytest.mark.parametrize("container", CONTAINERS)
def test_data_that_are_not_counts_raise(container, rng):
    negative, empty, large, small = (counts(rng) for _ in range(4))
    negative[5, 2] = -3.0
    empty[9] = 0.0
    large[9, 0] = 1e100
    small[9] *= 1e-200
    for wrong, message in (
        (negative, "negative entry, -3"),
        (empty, "[Rr]ow( 9)? of X has no counts"),
    ):
        given = CONTAINERS[container](wrong)
        with pytest.raises(InputError, match=message):
            row_totals(given)
        with pytest.raises(InputError, match=message):
            to_dense(hellinger(given, 1.0))
    with pytest.raises(InputError, match="Row 9 of X"):
        row_totals(CONTAINERS[container](empty))
    for wrong in (large, small):
        with pytest.raises(InputError, match="The total of row 9 of X must be between"):
            row_totals(CONTAINERS[container](wrong))


def test_memory_maps_have_totals_but_cannot_be_transformed(rng, tmp_path, monkeypatch):
    monkeypatch.setattr(mapped, "is_large_map", lambda X: isinstance(X, np.memmap))
    X = counts(rng)
    np.save(tmp_path / "counts.npy", X)
    given = np.load(tmp_path / "counts.npy", mmap_mode="r")
    np.testing.assert_array_equal(row_totals(given), X.sum(axis=1))
    with pytest.raises(InputError, match="X is a memory map"):
        hellinger(given, 1.0)
