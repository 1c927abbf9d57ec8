"""What each variable of a panel adds: the recursion beside conditional variances typed in full."""

import numpy as np
import pytest

from prosparse.models.panel.incremental_r2 import added_shares

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
        "recovered": rng.uniform(0.0, 0.8, p),
    }


def correlations(parts):
    """Of the factor model, all columns of unit variance."""
    W = (parts["loadings"] * np.sqrt(parts["variances"])[:, None]).T
    W *= np.sqrt(parts["communality"] / np.sum(W**2, axis=1))[:, None]
    C = W @ W.T
    np.fill_diagonal(C, 1.0)
    return C


def test_shares_are_those_of_regressions_on_the_first_columns(parts):
    order, C = parts["order"], correlations(parts)
    told = [
        np.diag(C[:, order[:q]] @ np.linalg.solve(C[np.ix_(order[:q], order[:q])], C[order[:q]]))
        for q in range(1, 5)
    ]
    scale = parts["recovered"] / told[-1]
    scale[order] = 1.0
    found = np.cumsum(added_shares(**parts, shown=4), axis=0)
    np.testing.assert_allclose(found, np.array(told) * scale, atol=1e-12)


def test_all_that_is_added_is_what_is_recovered(parts):
    found = added_shares(**parts, shown=4)
    expected = parts["recovered"].copy()
    expected[parts["order"]] = 1.0
    np.testing.assert_allclose(found.sum(axis=0), expected)
    assert np.all(found >= 0)
    np.testing.assert_array_equal(added_shares(**parts, shown=2), found[:2])
    assert added_shares(**parts, shown=9).shape == (4, 12)


def test_what_shares_nothing_is_told_nothing(parts):
    parts["communality"][5] = 0.0
    parts["recovered"][[5, 8]] = -0.02  # held-out rows may say so
    parts["loadings"][:, 6] = 0.0  # a constant column
    parts["recovered"][6] = 0.0
    found = added_shares(**parts, shown=4)
    assert not found[:, [5, 6, 8]].any()
    assert np.all(np.isfinite(found))
