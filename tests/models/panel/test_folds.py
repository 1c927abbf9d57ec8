"""Cross-validation folds and the components of their training rows."""

import numpy as np
import pytest
from factor_models import low_rank, make_splits, operator, with_whole
from scipy import sparse

from prosparse.data.row_groups import row_groups
from prosparse.models.panel import folds as folds_module
from prosparse.models.panel.cross_validation import N_FOLDS
from prosparse.models.panel.folds import (
    decompose_folds,
    decompose_from_outer,
    project_columns,
    project_some_rows,
    split_rows,
)

# --- splits


@pytest.mark.parametrize("n", [6, 23, 100])
def test_each_row_is_held_out_once(n):
    folds = np.stack([fold.held_out for fold in make_splits(n)])
    assert folds.shape == (N_FOLDS, n)
    np.testing.assert_array_equal(folds.sum(axis=0), 1)
    assert np.ptp(folds.sum(axis=1)) <= 1
    assert np.any(folds != np.stack([fold.held_out for fold in make_splits(n, seed=1)]))


def test_only_given_rows_are_split(rng):
    rows = rng.random(40) < 0.6
    splits = split_rows(rows, 3, None, 0)
    np.testing.assert_array_equal(np.sum([split.held_out for split in splits], axis=0), rows)
    for split in splits:
        np.testing.assert_array_equal(split.training, rows & ~split.held_out)


def test_number_of_held_out_rows_is_limited(monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_HELD_OUT", 7)
    for training, out in make_splits(100):
        assert 0 < out.sum() <= 7
        np.testing.assert_array_equal(training, ~out)


def test_folds_are_stratified_by_group_if_a_group_is_too_large(rng):
    codes = rng.permutation(np.repeat([0, 1, 2], [50, 16, 6]))
    for fold in make_splits(72, codes):
        counts = np.bincount(codes[fold.held_out], minlength=3)
        assert np.all(np.abs(counts - np.array([10, 3.2, 1.2])) <= 1)


@pytest.mark.parametrize("n_groups", [2, 3, 40])
def test_folds_hold_out_whole_groups(n_groups, rng):
    codes = rng.permutation(np.arange(120) % n_groups)
    splits = make_splits(120, codes)
    assert len(splits) == min(n_groups, 5)
    np.testing.assert_array_equal(np.sum([fold.held_out for fold in splits], axis=0), 1)
    for training, held_out in splits:
        assert not np.intersect1d(codes[training], codes[held_out]).size
        assert np.array_equal(training, ~held_out)
    sizes = [fold.held_out.sum() for fold in splits]
    assert max(sizes) - min(sizes) <= 120 // n_groups


# --- components


def svd_components(Z, training, out, count):
    mean = Z[training].mean(axis=0)
    V = np.linalg.svd(Z[training] - mean, full_matrices=False)[2][:count].T
    return mean, V, (Z[out] - mean) @ V


def assert_components(fold, Z, count, tol):
    mean, V, scores = svd_components(Z, fold.training, fold.held_out, count)
    np.testing.assert_allclose(fold.mean, mean, atol=1e-10)
    found = fold.directions(count)
    sign = np.sign(np.sum(found * V, axis=0))
    np.testing.assert_allclose(found * sign, V, atol=tol)
    size = max(1.0, np.abs(scores).max(initial=0.0))
    np.testing.assert_allclose(fold.scores[:, :count] * sign, scores, atol=tol * size)


SHAPES = {"few rows": (23, 40), "few columns": (60, 12), "many of both": (80, 50)}


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_components_are_those_of_the_training_rows(shape, make, rng, monkeypatch):
    """For each algorithm: from X X', from X'X, and leading components."""
    n, p = SHAPES[shape]
    op, Z = operator(make(low_rank(rng, n, p)))
    count, tol = 10, 1e-8
    if shape == "many of both":
        monkeypatch.setattr(folds_module, "EXACT_SIDE", 10)
        monkeypatch.setattr(folds_module, "_TOLERANCE", 1e-3)
        count, tol = 4, 1e-3
    splits = make_splits(n)
    whole, *folds = decompose_folds(op, with_whole(splits))
    assert not whole.held_out.any()
    assert whole.scores.shape[0] == 0
    for fold, split in zip(folds, splits, strict=True):
        np.testing.assert_array_equal(fold.held_out, split.held_out)
        assert_components(fold, Z, count, tol)
    assert_components(whole, Z, count, tol)


def test_components_if_most_rows_are_never_held_out(rng, monkeypatch):
    monkeypatch.setattr(folds_module, "MAX_HELD_OUT", 3)
    op, Z = operator(low_rank(rng, 60, 12))
    for fold in decompose_folds(op, with_whole(make_splits(60))):
        assert_components(fold, Z, 8, 1e-8)


def test_components_of_a_subset_of_the_rows(rng):
    op, Z = operator(low_rank(rng, 23, 40))
    outer = np.asarray(op.outer())
    for fold in decompose_from_outer(op, outer, split_rows(rng.random(23) < 0.7, 3, None, 0)):
        assert_components(fold, Z, 8, 1e-8)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
def test_products_with_a_subset_of_rows(make, rng):
    op, Z = operator(make(low_rank(rng, 23, 12)))
    rows, F, Y = rng.random(23) < 0.4, rng.standard_normal((12, 3)), rng.standard_normal((23, 3))
    np.testing.assert_allclose(project_some_rows(op, F, rows), Z[rows] @ F, atol=1e-12)
    np.testing.assert_allclose(project_columns(op, Y[rows], rows), Z[rows].T @ Y[rows], atol=1e-12)
    np.testing.assert_allclose(project_columns(op, Y), Z.T @ Y, atol=1e-12)


def test_components_of_data_centred_within_groups(rng):
    codes = rng.permutation(np.arange(60) % 3)
    X = low_rank(rng, 60, 12) + 5.0 * rng.standard_normal((3, 12))[codes]
    op, Z = operator(X)
    op = row_groups(codes, codes.size).centre_operator(op)
    Z = Z - np.stack([Z[codes == g].mean(axis=0) for g in range(3)])[codes]
    for fold in decompose_folds(op, make_splits(60, codes)):
        assert_components(fold, Z, 8, 1e-8)
