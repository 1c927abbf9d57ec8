"""Sketches of large data and fits that start from them."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import DenseOperator, standardise
from prosparse.inference.loop import StopReason
from prosparse.models.sca import sketch as module
from prosparse.models.sca.samples import CompleteSamples
from prosparse.models.sca.sketch import sketch_rows
from prosparse.models.sca.solve import SCAOptions, gaussian_data, solve

pytestmark = pytest.mark.quick

N, SIZES = 400, (90, 150)
GROUPS = [np.arange(90), np.arange(90, 240)]


@pytest.fixture
def small_limits(monkeypatch):
    monkeypatch.setattr("prosparse.models.sca.sketch.EXACT_SIDE", 100)
    monkeypatch.setattr("prosparse.models.sca.samples.EXACT_SIDE", 100)
    monkeypatch.setattr(module, "MIN_ROW_RATIO", 1)


@pytest.fixture
def cells(rng):
    """Sparse cells of five types that differ in few columns."""
    type_of = rng.integers(0, 5, N)
    p = sum(SIZES)
    rates = np.full((5, p), 0.2)
    rates[rng.random(rates.shape) < 0.2] = 0.8
    return np.where(rng.random((N, p)) < rates[type_of], 1.0 + rng.random((N, p)), 0.0)


def test_sketch_approximates_the_gram_matrix(cells, small_limits):
    op = standardise(cells)[0]
    small = sketch_rows(op, GROUPS, [5, 5])
    Y, X = small.table.whole, op.whole
    assert Y.shape == (30, sum(SIZES))
    lacking, V = small.residual
    assert np.all(lacking >= 0)
    np.testing.assert_allclose(np.sum(Y**2, axis=0) + lacking, np.sum(X**2, axis=0))
    np.testing.assert_allclose(small.table.column_squares(), np.sum(X**2, axis=0))
    # Products along the directions of the views are exact.
    np.testing.assert_allclose(V.T @ V, np.eye(30), atol=1e-8)
    np.testing.assert_allclose(Y.T @ (Y @ V), X.T @ (X @ V), atol=1e-8)
    # The leading directions of all columns are preserved.
    values, vectors = np.linalg.eigh(X.T @ X)
    leading = vectors[:, -4:]
    np.testing.assert_allclose(Y.T @ (Y @ leading), leading * values[-4:], atol=2e-3 * values[-1])
    # The moments are those of data with the approximated Gram matrix.
    L = np.random.default_rng(0).standard_normal((sum(SIZES), 2))
    P = np.eye(sum(SIZES)) - V @ V.T
    table = np.vstack([Y, np.sqrt(lacking)[:, None] * P])
    ones = np.ones(L.shape[0])
    found = CompleteSamples(small.table, N, small.residual).moments(L, None, ones, 0.0 * ones)
    expected = CompleteSamples(DenseOperator(table), N).moments(L, None, ones, 0.0 * ones)
    for one, other in zip(found[:6], expected[:6], strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-10, atol=1e-8)


@pytest.mark.parametrize("narrow", [8, 12, 20])
def test_sketch_of_narrow_views(narrow, cells, small_limits):
    """Directions of a view of few columns are complete or exact."""
    op = standardise(cells)[0]
    groups = [np.arange(narrow), np.arange(narrow, sum(SIZES))]
    Y, X = sketch_rows(op, groups, [3, 3]).table.whole, op.whole
    _, vectors = np.linalg.eigh(X[:, :narrow].T @ X[:, :narrow])
    leading = vectors[:, -13:]
    found = Y.T @ (Y[:, :narrow] @ leading)
    np.testing.assert_allclose(found, X.T @ (X[:, :narrow] @ leading), atol=1e-8)


def test_small_data_are_not_sketched(cells):
    assert sketch_rows(standardise(cells)[0], GROUPS, [5, 5]) is None


@pytest.mark.slow
@pytest.mark.parametrize("private", [[0, 0], [1, 1]])
def test_fit_from_a_sketch_reaches_the_same_objective(private, cells, small_limits, monkeypatch):
    op = standardise(sparse.csr_array(cells))[0]
    options = SCAOptions(3, private, "ard", 0.0, 0.0, 240, 1000, 1e-8, "feature")
    fast = solve(gaussian_data(op, None, GROUPS, options), GROUPS, options)
    monkeypatch.setattr("prosparse.models.sca.solve.sketch_rows", lambda *given: None)
    slow = solve(gaussian_data(op, None, GROUPS, options), GROUPS, options)
    assert fast.objective_path[-1] > slow.objective_path[-1] - 1e-4 * abs(slow.objective_path[-1])
    assert np.all(np.diff(fast.objective_path) >= -1e-8 * abs(fast.objective_path[-1]))
    assert fast.reason is StopReason.CONVERGED


def test_hyperbolic_fit_from_a_sketch_reaches_the_same_objective(cells, small_limits, monkeypatch):
    op = standardise(cells)[0]
    options = SCAOptions(3, [0, 0], "hyperbolic", 0.0, 0.0, 240, 1000, 1e-8, "feature", "sparse")
    fast = solve(gaussian_data(op, None, GROUPS, options), GROUPS, options)
    monkeypatch.setattr("prosparse.models.sca.solve.sketch_rows", lambda *given: None)
    slow = solve(gaussian_data(op, None, GROUPS, options), GROUPS, options)
    assert fast.objective_path[-1] > slow.objective_path[-1] - 1e-4 * abs(slow.objective_path[-1])
