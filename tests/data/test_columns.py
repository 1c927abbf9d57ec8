"""Standardisation: constant columns, rounding, and the range of each precision."""

import array_api_strict
import numpy as np
import pytest
from scipy import sparse

from prosparse import EMPCA, GSPPCA, SCA, InputError
from prosparse.data import standardise
from prosparse.datasets import make_globally_sparse


@pytest.fixture
def X():
    return make_globally_sparse(60, 30, n_components=3, n_informative=10, random_state=0).X


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
@pytest.mark.parametrize("scale", [False, True])
def test_columns_that_vary_by_rounding_are_constant(container, scale, rng):
    """Sums of proportions are 1 up to a few last digits."""
    proportions = rng.random((200, 40))
    proportions /= proportions.sum(axis=1, keepdims=True)
    total = np.zeros(200)
    for column in proportions.T:
        total = total + column
    assert 0.0 < np.ptp(total) < 1e-14
    nine_digits = 1.0 + 1e-9 * proportions[:, 0]
    X = np.column_stack([proportions, total, 1e6 * total, nine_digits])
    if container == "csr":  # Sparse columns must not be far from zero.
        X = X[:, :-1]
    varying = np.asarray(standardise(CONTAINERS[container](X), scale)[1].varying)
    assert varying[:40].all()
    assert not varying[40:42].any()
    assert varying[42:].all()


def test_the_threshold_of_constant_columns_depends_on_the_precision(rng):
    total = (1.0 + 1e-7 * rng.integers(-1, 2, 50)).astype(np.float32)
    measured = (101325.0 + rng.standard_normal(50)).astype(np.float32)
    X = np.column_stack([rng.standard_normal(50).astype(np.float32), total, measured])
    assert standardise(X)[1].varying.tolist() == [True, False, True]
    assert standardise(X.astype(float))[1].varying.tolist() == [True, True, True]


def test_columns_that_vary_by_rounding_with_weights_and_missing_values(rng):
    X = rng.standard_normal((30, 1)) + 0.3 * rng.standard_normal((30, 4))
    X[:, 2] = 0.1 + np.where(rng.random(30) < 0.5, 0.0, 1e-17 * 4)
    X[::3, 2] = np.nextafter(0.1, 1.0)
    assert standardise(X, True, np.ones(30))[1].varying.tolist() == [True, True, False, True]
    X[3, 0] = np.nan
    assert SCA(1).fit(X).varying_.tolist() == [True, True, False, True]


@pytest.mark.parametrize("weights", [None, np.ones(20)])
def test_sparse_columns_far_from_zero_raise_with_and_without_weights(weights, rng):
    far = sparse.csr_array(1e8 + rng.standard_normal((20, 4)))
    with pytest.raises(InputError, match="pass X as a dense array"):
        EMPCA(1).fit(far, sample_weight=weights)


@pytest.mark.parametrize("size", [1e-30, 1e-40, 1e30, 3e37])
@pytest.mark.parametrize("model", [GSPPCA(2), SCA(2)])
def test_variances_beyond_single_precision_raise(model, size, X):
    small = array_api_strict.asarray((size * X).astype(np.float32))
    with pytest.raises(InputError, match="single precision"):
        model.fit(small)
    model.fit((size * X).astype(np.float32))  # NumPy arrays are converted to double precision.


@pytest.mark.parametrize("size", [1e-16, 1e15])
def test_extreme_variances_in_single_precision(size, X):
    X = (size * X).astype(np.float32)
    model, numpy_model = SCA(2).fit(array_api_strict.asarray(X)), SCA(2).fit(X)
    noise = float(model.noise_variance_[0])
    assert noise == pytest.approx(numpy_model.noise_variance_[0], rel=1e-3)
    scores = np.asarray(model.transform(array_api_strict.asarray(X)))
    np.testing.assert_allclose(scores, numpy_model.transform(X), atol=1e-3)


def test_extreme_scales_in_single_precision(X):
    units = np.geomspace(1e-30, 1e30, 30)
    model = GSPPCA(2, scale=True).fit(array_api_strict.asarray((units * X).astype(np.float32)))
    plain = GSPPCA(2, scale=True).fit(X)
    np.testing.assert_array_equal(np.asarray(model.support_), plain.support_)
    with pytest.raises(InputError, match="single precision"):
        GSPPCA(2, scale=True).fit(array_api_strict.asarray((1e-40 * X).astype(np.float32)))


def test_deviations_near_the_largest_double_raise(X):
    with pytest.raises(InputError, match=r"deviates from its mean by \d"):
        GSPPCA(2).fit(1.7e308 * np.sign(X))


def test_rounding_of_means_is_corrected():
    """A mean near 1e4 has three decimals in single precision."""
    X = (1e4 + np.random.default_rng(0).standard_normal((500, 4))).astype(np.float32)
    op, columns = standardise(array_api_strict.asarray(X))
    Z = np.asarray(op.whole, dtype=float) * columns.unit
    assert np.abs(Z.mean(axis=0)).max() < 1e-6
    squares = np.asarray(op.column_squares()) * columns.unit**2
    np.testing.assert_allclose(squares, 500 * X.astype(float).var(axis=0), rtol=1e-8)
