"""Scales of rows of unequal noise."""

import numpy as np
import pytest
from data_matrices import adjustment_of, standardised
from scipy import sparse

from prosparse.data import standardise
from prosparse.structure import equalise_rows, estimate_row_scale

pytestmark = pytest.mark.quick


def scale_of(X, groups=None):
    return estimate_row_scale(standardise(X, True)[0], adjustment_of(groups, len(X)))


def test_known_scales_are_recovered():
    rng = np.random.default_rng(0)
    scale = rng.lognormal(0.0, 0.5, 100)
    found = scale_of(rng.standard_normal((100, 400)) * scale[:, None])
    ratio = np.log(found / scale)
    assert np.std(ratio) < 0.1
    assert np.median(found) == pytest.approx(1.0)


def test_outlying_rows_are_not_shrunk():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 200))
    X[:3] *= 5.0
    found = scale_of(X)
    np.testing.assert_allclose(found[:3], 5.0, rtol=0.25)
    assert np.max(np.abs(np.log(found[3:]))) < 0.3


@pytest.mark.parametrize(("n", "p"), [(40, 30), (100, 200), (30, 1500)])
def test_equal_rows_are_left_nearly_unchanged(n, p):
    found = scale_of(np.random.default_rng(n).standard_normal((n, p)))
    raw_error = np.sqrt(1.36 / p)
    assert np.std(np.log(found)) < 0.6 * raw_error


def test_signs_of_entries_do_not_matter():
    """Standardised columns of zero mean keep mean and variance if all signs in a row change."""
    rng = np.random.default_rng(0)
    half = rng.standard_normal((30, 80)) * rng.lognormal(0.0, 0.5, (30, 1))
    X = np.vstack([half, -half])  # any signs within pairs of rows keep the means at zero
    signs = rng.choice([-1.0, 1.0], (30, 80))
    flipped = np.vstack([signs * half, -signs * half])
    np.testing.assert_allclose(scale_of(flipped), scale_of(X), rtol=1e-9)


def test_units_and_locations_of_columns_do_not_matter():
    rng = np.random.default_rng(0)
    X = rng.standard_normal((50, 60)) * rng.lognormal(0.0, 0.4, (50, 1))
    units = rng.lognormal(0.0, 3.0, 60)
    np.testing.assert_allclose(scale_of(X * units + 7.0 * units), scale_of(X), rtol=1e-7)


def test_structure_in_a_minority_of_columns_is_ignored():
    """A group of rows is raised by 4 standard deviations in a fifth of the columns."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((100, 300))
    X[:10, :60] += 4.0
    found = scale_of(X)
    assert np.mean(np.log(found[:10])) < 0.35
    assert np.max(found) < 2.0


def test_groups_are_centred():
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 15)
    noise = rng.standard_normal((60, 200))
    noise[7] *= 4.0
    X = noise + 20.0 * rng.standard_normal((4, 200))[groups]
    found = scale_of(X, groups)
    assert found[7] > 2.5
    assert np.max(np.delete(found, 7)) < 1.6


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("has_groups", [False, True])
def test_rows_are_divided_and_columns_standardised_again(make, has_groups):
    rng = np.random.default_rng(0)
    X = rng.standard_normal((40, 30)) * rng.lognormal(0.0, 0.7, (40, 1))
    groups = np.arange(40) % 3 if has_groups else np.zeros(40, dtype=int)
    rows = adjustment_of(groups, 40)
    found = equalise_rows(standardise(make(X), True)[0], rows)
    weights = 1.0 / found.row_scale
    design = weights[:, None] * (groups[:, None] == np.unique(groups))
    divided = weights[:, None] * standardised(X)
    divided -= design @ np.linalg.lstsq(design, divided)[0]
    divided *= np.sqrt(40 / np.sum(divided**2, axis=0))
    np.testing.assert_allclose(np.asarray(found.op.dense()), divided, atol=1e-10)
    np.testing.assert_allclose(np.asarray(found.op.column_squares()), 40.0)


def test_differences_between_groups_do_not_remain():
    """Group means divided by unequal scales would be shared by all columns."""
    rng = np.random.default_rng(0)
    groups = np.repeat(np.arange(4), 15)
    noise = rng.standard_normal((60, 80)) * rng.lognormal(0.0, 0.5, (60, 1))
    shift = 30.0 * rng.standard_normal((4, 80))[groups]
    rows = adjustment_of(groups, 60)
    plain, shifted = (equalise_rows(standardise(X, True)[0], rows) for X in (noise, noise + shift))
    np.testing.assert_allclose(shifted.row_scale, plain.row_scale, rtol=1e-7)
    np.testing.assert_allclose(shifted.op.dense(), plain.op.dense(), atol=1e-7)


def test_columns_constant_within_groups_remain_zero():
    rng = np.random.default_rng(0)
    groups = np.repeat([0, 1], 20)
    X = np.column_stack([rng.standard_normal((40, 5)), groups])
    found = equalise_rows(standardise(X, True)[0], adjustment_of(groups, 40))
    assert found.op.column_squares()[5] == 0.0
    np.testing.assert_allclose(np.asarray(found.op.dense())[:, 5], 0.0, atol=1e-9)


def test_rare_entries_give_equal_scales():
    """More than half of the standardised entries of a row may be equal."""
    rng = np.random.default_rng(0)
    X = (rng.random((50, 40)) < 0.05).astype(float)
    X[0] = 1.0
    found = scale_of(X)
    assert np.all(np.isfinite(found) & (found > 0.0))
