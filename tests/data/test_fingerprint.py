"""The fingerprint depends on the content of a matrix and not on its container."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse.data import fingerprint

pytestmark = pytest.mark.quick


def to_dask(X):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    return da.from_array(X, chunks=(17, -1))


CONTAINERS = {
    "numpy": np.asarray,
    "csr": sparse.csr_array,
    "dask": to_dask,
    "strict": array_api_strict.asarray,
}


@pytest.mark.parametrize("container", CONTAINERS)
def test_fingerprint_identifies_the_content(container, rng):
    X = np.where(rng.random((60, 30)) < 0.3, 0.0, rng.standard_normal((60, 30)))
    convert, known = CONTAINERS[container], fingerprint(X)
    np.testing.assert_array_equal(fingerprint(convert(X)), known)
    one_entry = X.copy()
    one_entry[11, 3] = np.nextafter(one_entry[11, 3], 1.0)
    swapped = X.copy()
    swapped[:, [2, 5]] = swapped[:, [5, 2]]
    permuted = rng.permuted(X, axis=0)
    reversed_matrices = X[::-1].copy(), X[:, ::-1].copy()
    for other in (one_entry, swapped, permuted, *reversed_matrices, 2.0 * X, X[:-1]):
        assert not np.array_equal(fingerprint(convert(other)), known)


def test_fingerprint_depends_on_the_positions_of_zeros():
    assert not np.array_equal(fingerprint(np.eye(4)), fingerprint(np.eye(4)[::-1].copy()))


def test_fingerprint_of_large_matrices_does_not_depend_on_blocks(rng):
    X = rng.standard_normal((700, 400))  # several blocks
    np.testing.assert_array_equal(fingerprint(X), fingerprint(sparse.csr_array(X)))
