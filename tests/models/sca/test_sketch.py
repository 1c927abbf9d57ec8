"""Large tables in few rows, before the passes over the whole table."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import DenseOperator, standardise
from prosparse.inference.loop import StopReason
from prosparse.models.sca import sketch as module
from prosparse.models.sca.samples import CompleteSamples
from prosparse.models.sca.sketch import sketch_rows
from prosparse.models.sca.solve import SCAOptions, solve

pytestmark = pytest.mark.quick

N, SIZES = 400, (90, 150)
GROUPS = [np.arange(90), np.arange(90, 240)]


@pytest.fixture
def small_tables_are_large(monkeypatch):
    monkeypatch.setattr("prosparse.models.sca.sketch.EXACT_SIDE", 100)
    monkeypatch.setattr("prosparse.models.sca.samples.EXACT_SIDE", 100)
    monkeypatch.setattr(module, "MIN_ROW_RATIO", 1)


@pytest.fixture
def cells(rng):
    """Cells of five types, of which few columns know, mostly zeros."""
    type_of = rng.integers(0, 5, N)
    p = sum(SIZES)
    rates = np.full((5, p), 0.2)
    rates[rng.random(rates.shape) < 0.2] = 0.8
    return np.where(rng.random((N, p)) < rates[type_of], 1.0 + rng.random((N, p)), 0.0)


def test_nearly_the_same_squares(cells, small_tables_are_large):
    op = standardise(cells)[0]
    small = sketch_rows(op, GROUPS, [5, 5])
    Y, X = small.table.whole, op.whole
    assert Y.shape == (30, sum(SIZES))
    lacking, V = small.rest
    assert np.all(lacking >= 0)
    np.testing.assert_allclose(np.sum(Y**2, axis=0) + lacking, np.sum(X**2, axis=0))
    np.testing.assert_allclose(small.table.column_squares(), np.sum(X**2, axis=0))
    # along the directions of the views nothing is lacking
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-8)
    np.testing.assert_allclose(Y.T @ (Y @ V), X.T @ (X @ V), atol=1e-8)
    # what the types of the cells do is all there, within and between the views
    values, vectors = np.linalg.eigh(X.T @ X)
    leading = vectors[:, -4:]
    np.testing.assert_allclose(Y.T @ (Y @ leading), leading * values[-4:], atol=2e-3 * values[-1])
    # moments are those of a table with these squares
    L = np.random.default_rng(0).standard_normal((sum(SIZES), 2))
    P = np.eye(sum(SIZES)) - V @ V.T
    table = np.vstack([Y, np.sqrt(lacking)[:, None] * P])
    ones = np.ones(L.shape[0])
    found = CompleteSamples(small.table, N, small.rest).moments(L, None, ones, 0.0 * ones)
    expected = CompleteSamples(DenseOperator(table), N).moments(L, None, ones, 0.0 * ones)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("narrow", [8, 12, 20])
def test_narrow_views(narrow, cells, small_tables_are_large):
    """Of a view of few columns all directions are there, or the leading ones exactly."""
    op = standardise(cells)[0]
    groups = [np.arange(narrow), np.arange(narrow, sum(SIZES))]
    Y, X = sketch_rows(op, groups, [3, 3]).table.whole, op.whole
    _, vectors = np.linalg.eigh(X[:, :narrow].T @ X[:, :narrow])
    leading = vectors[:, -13:]
    found = Y.T @ (Y[:, :narrow] @ leading)
    np.testing.assert_allclose(found, X.T @ (X[:, :narrow] @ leading), atol=1e-8)


def test_small_tables_stay_as_they_are(cells):
    assert sketch_rows(standardise(cells)[0], GROUPS, [5, 5]) is None


@pytest.mark.parametrize("private", [[0, 0], [1, 1]])
def test_few_passes_over_the_whole_table_are_left(
    private, cells, small_tables_are_large, monkeypatch
):
    op = standardise(sparse.csr_array(cells))[0]
    options = SCAOptions(3, private, "ard", 0.0, 0.0, 240, 1000, 1e-8, "feature")
    fast = solve(op, None, GROUPS, options)
    monkeypatch.setattr("prosparse.models.sca.solve.sketch_rows", lambda *given: None)
    slow = solve(op, None, GROUPS, options)
    assert fast.bounds[-1] > slow.bounds[-1] - 1e-4 * abs(slow.bounds[-1])
    assert fast.bounds.size < 0.6 * slow.bounds.size
    assert np.all(np.diff(fast.bounds) >= -1e-8 * abs(fast.bounds[-1]))
    assert fast.reason is StopReason.CONVERGED


def test_a_prior_that_keeps_its_zeros_only_starts_there(cells, small_tables_are_large, monkeypatch):
    """Zeros of a table that is not quite the same would stay."""
    op = standardise(cells)[0]
    options = SCAOptions(3, [0, 0], "hyperbolic", 0.0, 0.0, 240, 1000, 1e-8, "feature", "sparse")
    fast = solve(op, None, GROUPS, options)
    monkeypatch.setattr("prosparse.models.sca.solve.sketch_rows", lambda *given: None)
    slow = solve(op, None, GROUPS, options)
    assert fast.bounds[-1] > slow.bounds[-1] - 1e-4 * abs(slow.bounds[-1])
