"""Adjustment of rows for groups and covariates, compared with least squares."""

import numpy as np
import pytest
from scipy import sparse

from prosparse.data import standardise
from prosparse.data.row_adjustment import RowAdjustment, intercept
from prosparse.data.row_groups import row_groups, single_group

pytestmark = pytest.mark.quick


def design_of(kind, rng, n=40):
    groups = row_groups(np.arange(n) % 4, n) if "groups" in kind else single_group(n)
    covariates = None
    if "covariates" in kind:
        level = rng.integers(3, size=n)
        covariates = np.column_stack([rng.standard_normal(n), level == 1, level == 2])
    weights = rng.lognormal(0.0, 0.5, n) if "weights" in kind else None
    return RowAdjustment(groups, covariates, weights)


def dense_design(adjustment):
    indicators = np.eye(adjustment.groups.sizes.size)[adjustment.groups.codes]
    return adjustment.weights[:, None] * np.column_stack([indicators, adjustment.covariates])


KINDS = ["intercept", "groups", "covariates", "groups, covariates", "groups, covariates, weights"]


@pytest.mark.parametrize("kind", KINDS)
def test_residuals_leverages_and_basis(kind, rng):
    adjustment = design_of(kind, rng)
    D, Z = dense_design(adjustment), rng.standard_normal((40, 6))
    expected = Z - D @ np.linalg.lstsq(D, Z)[0]
    H = D @ np.linalg.pinv(D)
    np.testing.assert_allclose(adjustment.residuals(Z), expected, atol=1e-12)
    np.testing.assert_allclose(adjustment.leverages, np.diag(H), atol=1e-12)
    np.testing.assert_allclose(adjustment.flip_correction, 1.0 / (1.0 - np.diag(H)))
    assert adjustment.n_parameters == np.linalg.matrix_rank(D) == adjustment.basis.shape[1]
    np.testing.assert_allclose(adjustment.basis @ adjustment.basis.T, H, atol=1e-12)


@pytest.mark.parametrize("make", [np.asarray, sparse.csr_array], ids=["dense", "sparse"])
@pytest.mark.parametrize("kind", KINDS)
def test_adjusted_operator(make, kind, rng):
    X = rng.standard_normal((40, 7)) * (rng.random((40, 7)) < 0.5)
    adjustment = design_of(kind, rng)
    op = standardise(make(X), True)[0]
    found = adjustment.adjust_operator(op)
    expected = adjustment.residuals(np.asarray(op.dense()))
    np.testing.assert_allclose(np.asarray(found.dense()), expected, atol=1e-12)
    np.testing.assert_allclose(found.column_squares(), np.sum(expected**2, axis=0))
    weights = rng.random((40, 2))
    np.testing.assert_allclose(found.power_sums(4, weights), (expected**4).T @ weights)


def test_coefficients_and_squares_within_groups(rng):
    adjustment = design_of("groups, covariates", rng)
    op = standardise(rng.standard_normal((40, 5)), True)[0]
    X = np.asarray(op.dense())
    expected = np.linalg.lstsq(dense_design(adjustment), X)[0]
    np.testing.assert_allclose(adjustment.coefficients(op), expected[4:], atol=1e-12)
    within = RowAdjustment(adjustment.groups).residuals(X)
    np.testing.assert_allclose(adjustment.squares_within_groups(op), np.sum(within**2, axis=0))


def test_redundant_covariates_are_not_used(rng):
    groups = row_groups(np.arange(40) % 4, 40)
    age = rng.standard_normal(40)
    covariates = np.column_stack([groups.codes == 2, age, 3.0 * age + groups.codes, np.ones(40)])
    adjustment = RowAdjustment(groups, covariates)
    assert adjustment.used.tolist() == [1]
    assert adjustment.n_parameters == 5
    op = standardise(rng.standard_normal((40, 5)), True)[0]
    assert np.all(adjustment.coefficients(op)[[0, 2, 3]] == 0.0)


def test_rows_that_the_design_determines_have_no_residual(rng):
    covariates = np.zeros((20, 1))
    covariates[3] = 1.0
    adjustment = RowAdjustment(single_group(20), covariates)
    assert np.flatnonzero(~adjustment.has_residual).tolist() == [3]
    assert adjustment.flip_correction[3] == 1.0


def test_weighted_rows_have_white_residuals(rng):
    """Noise of unequal rows is white within the weighted residuals, whatever the design."""
    adjustment = design_of("groups, covariates, weights", rng)
    noise = rng.standard_normal((40, 3)) / adjustment.weights[:, None]
    effects = dense_design(adjustment) @ rng.standard_normal((7, 3))
    rows = adjustment.weights[:, None] * noise + effects
    Q = adjustment.basis
    white = adjustment.weights[:, None] * noise
    np.testing.assert_allclose(adjustment.residuals(rows), white - Q @ (Q.T @ white), atol=1e-12)


def test_intercept():
    assert intercept(5).is_intercept
    np.testing.assert_allclose(intercept(5).leverages, 0.2)
