"""Measures of selected variables and explained variance against their definitions."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from prosparse.metrics import adjusted_explained_variance, support_f_score

pytestmark = pytest.mark.quick


def test_f_score():
    true = np.array([1, 1, 1, 1, 0, 0], bool)
    assert support_f_score(true, true) == 1
    assert support_f_score(true, ~true) == 0
    found = np.array([1, 1, 0, 0, 1, 0], bool)  # precision 2/3, recall 1/2
    assert support_f_score(true, found) == pytest.approx(2 * (2 / 3) * (1 / 2) / (2 / 3 + 1 / 2))
    assert support_f_score(np.zeros(3, bool), np.zeros(3, bool)) == 1
    with pytest.raises(ValueError, match="mask of True and False"):
        support_f_score([2, 5, 7], [1, 5, 9])
    with pytest.raises(ValueError, match=r"must have the same shape, got \(6,\) and \(2,\)"):
        support_f_score(true, np.ones(2, bool))


@pytest.mark.parametrize("method", ["subspace", "qr"])
def test_adjusted_variance_of_principal_components(method, rng):
    X = rng.standard_normal((40, 6)) @ rng.standard_normal((6, 6))
    pca = PCA(4).fit(X)
    ours = adjusted_explained_variance(X, pca.components_, method)
    np.testing.assert_allclose(ours, pca.explained_variance_ratio_)


def test_adjusted_variance_of_correlated_components(rng):
    X = rng.standard_normal((50, 5))
    X[:, 1] = X[:, 0] + 0.1 * X[:, 1]
    W = np.eye(5)[:3]
    centred = X - X.mean(0)
    qr = adjusted_explained_variance(X, W, "qr")
    fit = centred[:, [1]] - centred[:, [0]] * (
        centred[:, 0] @ centred[:, 1] / (centred[:, 0] @ centred[:, 0])
    )
    assert qr[1] == pytest.approx(np.sum(fit**2) / np.sum(centred**2))
    # the span of the first k loading vectors: X W (W'W)^-1 W'
    W = rng.standard_normal((3, 5))
    ours = np.cumsum(adjusted_explained_variance(X, W))
    for k in (1, 2, 3):
        V = W[:k].T
        projected = centred @ V @ np.linalg.inv(V.T @ V) @ V.T
        assert ours[k - 1] == pytest.approx(np.sum(projected**2) / np.sum(centred**2))


def test_a_repeated_component_adds_nothing(rng):
    X, w = rng.standard_normal((20, 4)), rng.standard_normal(4)
    assert adjusted_explained_variance(X, [w, w])[1] == 0
    assert adjusted_explained_variance(X, [w, np.zeros(4)])[1] == 0
    np.testing.assert_array_equal(adjusted_explained_variance(np.ones((5, 4)), [w]), [0.0])


def test_invalid_arguments_raise(rng):
    with pytest.raises(ValueError, match="`method` must be one of 'subspace', 'qr', got 'sum'"):
        adjusted_explained_variance(np.ones((3, 2)), np.ones((1, 2)), "sum")
    with pytest.raises(ValueError, match="`components` have 3 features, but X has 2"):
        adjusted_explained_variance(np.ones((3, 2)), np.ones((1, 3)))
