"""Permuted columns and random signs in every container type."""

import array_api_strict
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import sparse

from prosparse import InputError
from prosparse.data.randomisation import flip_deviations, permute_columns

pytestmark = pytest.mark.quick

NAMES = list("abcde")
CONTAINERS = {
    "numpy": (np.asarray, np.asarray),
    "pandas": (lambda X: pd.DataFrame(X, columns=NAMES), np.asarray),
    "polars": (lambda X: pl.DataFrame(X, schema=NAMES), lambda X: X.to_numpy()),
    "pyarrow": (
        lambda X: pa.table(dict(zip(NAMES, X.T, strict=True))),
        lambda X: np.column_stack([np.asarray(column) for column in X.columns]),
    ),
    "csr": (sparse.csr_array, lambda X: X.toarray()),
    "csc": (sparse.csc_matrix, lambda X: X.toarray()),
    "masked": (np.ma.masked_array, np.asarray),
    "strict": (array_api_strict.asarray, np.asarray),
}
DENSE = [name for name in CONTAINERS if name not in ("csr", "csc")]
GROUPS = pytest.mark.parametrize(
    "groups", [None, np.repeat([1, 0, 2], 4)], ids=["all rows", "groups"]
)


def group_means(X, groups):
    """Return the mean of the group of each row, by a loop over entries."""
    codes = np.zeros(len(X)) if groups is None else groups
    return np.array([[np.mean(X[codes == code, j]) for j in range(X.shape[1])] for code in codes])


@GROUPS
@pytest.mark.parametrize("container", CONTAINERS)
def test_columns_are_permuted_independently_within_groups(container, groups, rng):
    X = rng.normal(size=(12, 5)) * (rng.random((12, 5)) < 0.6)
    convert, to_dense = CONTAINERS[container]
    given = convert(X)
    permuted = permute_columns(given, rng, groups)
    assert type(permuted) is type(given)
    np.testing.assert_array_equal(to_dense(given), X)
    values = to_dense(permuted)
    assert not np.array_equal(values, X)
    for code in np.unique(np.zeros(12) if groups is None else groups):
        rows = slice(None) if groups is None else groups == code
        np.testing.assert_array_equal(np.sort(values[rows], 0), np.sort(X[rows], 0))
    if groups is None:
        assert len({tuple(np.argsort(column)) for column in values.T}) == 5


def test_masked_values_move_with_their_column(rng):
    X = np.ma.masked_greater(rng.standard_normal((30, 3)), 1.0)
    permuted = permute_columns(X, rng)
    np.testing.assert_array_equal(np.ma.count_masked(permuted, 0), np.ma.count_masked(X, 0))
    assert not np.array_equal(permuted.mask, X.mask)


@GROUPS
@pytest.mark.parametrize("container", DENSE)
def test_deviations_from_group_means_get_random_signs(container, groups, rng):
    X = rng.normal(size=(12, 5)) + 3.0
    convert, to_dense = CONTAINERS[container]
    given = convert(X)
    flipped = flip_deviations(given, rng, groups)
    assert type(flipped) is type(given)
    np.testing.assert_array_equal(to_dense(given), X)
    mean = group_means(X, groups)
    signs = (to_dense(flipped) - mean) / (X - mean)
    np.testing.assert_allclose(np.abs(signs), 1.0)
    assert 15 < np.sum(signs > 0) < 45
    assert len({tuple(column > 0) for column in signs.T}) == 5
    if container == "pandas":
        assert list(flipped.columns) == NAMES


def test_random_signs_remove_correlations_and_keep_the_scales_of_rows(rng):
    scale = np.exp(0.5 * rng.normal(size=(2000, 1)))
    X = scale * (rng.normal(size=(2000, 1)) + 0.5 * rng.normal(size=(2000, 12)))
    flipped, permuted = flip_deviations(X, rng), permute_columns(X, rng)
    pairs = np.triu_indices(12, 1)
    correlations, squares = (np.corrcoef(Z, rowvar=False)[pairs] for Z in (flipped, flipped**2))
    assert np.corrcoef(X, rowvar=False)[pairs].min() > 0.7
    assert np.abs(correlations).max() < 0.2
    assert abs(correlations.mean()) < 0.02
    # The magnitudes still rise and fall together; those of permuted columns do not.
    assert squares.mean() > 0.3
    assert abs(np.corrcoef(permuted**2, rowvar=False)[pairs].mean()) < 0.02
    norms, expected = (np.linalg.norm(Z - X.mean(axis=0), axis=1) for Z in (flipped, X))
    np.testing.assert_allclose(norms, expected)
    assert np.corrcoef(np.linalg.norm(permuted - X.mean(axis=0), axis=1), expected)[0, 1] < 0.1


def test_signs_are_fair(rng):
    X = rng.normal(size=(4, 3))
    mean = X.mean(axis=0)
    signs = [np.sign((flip_deviations(X, rng) - mean) / (X - mean)) for _ in range(2000)]
    np.testing.assert_allclose(np.mean(signs, axis=0), 0.0, atol=5 / np.sqrt(2000))


def test_missing_values_stay_missing(rng):
    X = rng.normal(size=(30, 4))
    X[3, 0] = X[5, 0] = np.nan
    X[:, 3] = np.nan
    mean = np.nanmean(X[:, :3], axis=0)
    flipped = flip_deviations(X, rng)
    np.testing.assert_array_equal(np.isnan(flipped), np.isnan(X))
    np.testing.assert_allclose(np.abs(flipped[:, :3] - mean), np.abs(X[:, :3] - mean))
    masked = flip_deviations(np.ma.masked_invalid(X), rng)
    np.testing.assert_array_equal(masked.mask, np.isnan(X))


@pytest.mark.parametrize("randomise", [permute_columns, flip_deviations])
def test_nullable_columns(randomise, rng):
    frame = pd.DataFrame({"a": np.arange(8), "b": np.arange(8) % 3}).astype("Int64")
    frame.iloc[2, 0] = pd.NA
    values = randomise(frame, rng).to_numpy(dtype=float)
    assert np.isnan(values).sum(axis=0).tolist() == [1, 0]
    if randomise is flip_deviations:
        np.testing.assert_allclose(np.abs(values[:, 1] - 7 / 8), np.abs(frame["b"] - 7 / 8))


@pytest.mark.parametrize("scale", [1.0, 1e-305, 1e307])
def test_constant_columns_and_extreme_scales(scale, rng):
    X = np.column_stack([np.full(30, 0.1), np.tile([-1.0, 1.0], 15), rng.normal(size=30)]) * scale
    flipped = flip_deviations(X, rng)
    np.testing.assert_array_equal(flipped[:, 0], X[:, 0])
    np.testing.assert_allclose(np.abs(flipped[:, 1]), scale)
    assert np.isfinite(flipped).all()


@pytest.mark.parametrize("dtype", [np.float32, np.int64])
def test_the_dtype_is_kept(dtype, rng):
    assert permute_columns(np.arange(20).reshape(10, 2).astype(dtype), rng).dtype == dtype


@pytest.mark.parametrize("convert", [np.asarray, array_api_strict.asarray])
def test_random_signs_of_integers_are_floating(convert, rng):
    X = np.array([[0, 1], [1, 0], [3, 0], [0, 0]])
    flipped = flip_deviations(convert(X), rng)
    assert str(flipped.dtype).endswith("float64")
    np.testing.assert_allclose(np.abs(np.asarray(flipped) - [1, 0.25]), np.abs(X - [1, 0.25]))
    assert (
        flip_deviations(convert(X.astype(np.float32)), rng).dtype
        == convert(X.astype(np.float32)).dtype
    )


@pytest.mark.parametrize("randomise", [permute_columns, flip_deviations])
def test_lazy_columns_raise(randomise, rng):
    da = pytest.importorskip("dask.array", reason="Dask is not installed")
    with pytest.raises(InputError, match="can only be randomised in memory"):
        randomise(da.ones((12, 5), chunks=(5, 5)), rng)


def test_random_signs_of_sparse_matrices_raise(rng):
    with pytest.raises(InputError, match="zeros would become nonzero"):
        flip_deviations(sparse.eye_array(5, format="csr"), rng)
