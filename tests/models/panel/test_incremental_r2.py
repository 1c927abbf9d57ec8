"""Increments of R2 agree with regressions on the first variables."""

import numpy as np
import pytest

from prosparse.models.panel.incremental_r2 import incremental_r2

pytestmark = pytest.mark.quick


@pytest.fixture
def parts(rng):
    d, p = 3, 12
    loadings = np.linalg.qr(rng.standard_normal((p, d)))[0].T
    return {
        "order": np.array([4, 0, 7, 9]),
        "loadings": loadings,
        "variances": np.array([5.0, 2.0, 1.0]),
        "communality": rng.uniform(0.1, 0.9, p),
        "heldout_r2": rng.uniform(0.0, 0.8, p),
    }


def correlations(parts):
    """Correlation matrix of the factor model."""
    W = (parts["loadings"] * np.sqrt(parts["variances"])[:, None]).T
    W *= np.sqrt(parts["communality"] / np.sum(W**2, axis=1))[:, None]
    C = W @ W.T
    np.fill_diagonal(C, 1.0)
    return C


def test_increments_agree_with_regressions(parts):
    order, C = parts["order"], correlations(parts)
    explained = [
        np.diag(C[:, order[:q]] @ np.linalg.solve(C[np.ix_(order[:q], order[:q])], C[order[:q]]))
        for q in range(1, 5)
    ]
    scale = parts["heldout_r2"] / explained[-1]
    scale[order] = 1.0
    found = np.cumsum(incremental_r2(**parts, count=4), axis=0)
    np.testing.assert_allclose(found, np.array(explained) * scale, atol=1e-12)


def test_increments_add_up_to_the_heldout_r2(parts):
    found = incremental_r2(**parts, count=4)
    expected = parts["heldout_r2"].copy()
    expected[parts["order"]] = 1.0
    np.testing.assert_allclose(found.sum(axis=0), expected)
    assert np.all(found >= 0)
    np.testing.assert_array_equal(incremental_r2(**parts, count=2), found[:2])
    assert incremental_r2(**parts, count=9).shape == (4, 12)


def test_variables_without_shared_variance_have_no_increments(parts):
    parts["communality"][5] = 0.0
    parts["heldout_r2"][[5, 8]] = -0.02  # R2 in held-out rows may be negative
    parts["loadings"][:, 6] = 0.0  # a constant column
    parts["heldout_r2"][6] = 0.0
    found = incremental_r2(**parts, count=4)
    assert not found[:, [5, 6, 8]].any()
    assert np.all(np.isfinite(found))
