"""Measures of components against their definitions."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from prosparse.metrics import (
    additional_explained_deviation,
    adjusted_explained_variance,
    cardinality,
    component_angles,
    pairwise_jaccard_score,
)

pytestmark = pytest.mark.quick


def asdev(X, W):
    """R's nsprcomp::asdev, line by line."""
    Xp = X - X.mean(axis=0)
    Q = np.linalg.qr(W.T)[0]
    deviations = []
    for k in range(len(W)):
        deviations.append(np.std(Xp @ W[k], ddof=1))
        Xp = Xp - np.outer(Xp @ Q[:, k], Q[:, k])
    return deviations


def test_additional_deviation_is_that_of_r():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((30, 8)) * np.arange(1, 9), rng.standard_normal((4, 8))
    np.testing.assert_allclose(additional_explained_deviation(X, W), asdev(X, W))


def test_additional_deviation_of_orthogonal_components_is_theirs():
    X = np.random.default_rng(1).standard_normal((30, 8)) * np.arange(1, 9)
    pca = PCA(3).fit(X)
    added = additional_explained_deviation(X, pca.components_)
    np.testing.assert_allclose(added**2, pca.explained_variance_)
    shares = adjusted_explained_variance(X, pca.components_)
    np.testing.assert_allclose(shares, pca.explained_variance_ratio_)


def test_a_repeated_component_adds_nothing():
    rng = np.random.default_rng(2)
    X, w = rng.standard_normal((20, 5)), rng.standard_normal(5)
    added = additional_explained_deviation(X, [w, 2 * w])
    assert added[0] > 0
    assert added[1] == pytest.approx(0.0, abs=1e-12)


def test_cardinality_counts_exactly():
    assert cardinality([[0.0, 1e-300, -2.0], [0.0, -0.0, 0.0]]).tolist() == [2, 0]


def test_angles():
    W = [[1.0, 0.0], [1.0, 1.0], [0.0, -2.0], [-3.0, 0.0], [0.0, 0.0]]
    expected = [
        [0, 45, 90, 0, 90],
        [45, 0, 45, 45, 90],
        [90, 45, 0, 90, 90],
        [0, 45, 90, 0, 90],
        [90, 90, 90, 90, 90],
    ]
    np.testing.assert_allclose(component_angles(W), expected, atol=1e-12)
    tiny = component_angles([[1.0, 0.0], [1.0, 1e-9]])[0, 1]
    assert tiny == pytest.approx(np.degrees(1e-9), rel=1e-6)


def test_jaccard_by_pairs():
    # pairs together: {01, 23} and {01, 02, 12}: one of both, four of either
    assert pairwise_jaccard_score([0, 0, 1, 1], [5, 5, 5, 7]) == pytest.approx(1 / 4)
    assert pairwise_jaccard_score([0, 0, 1, 2], ["b", "b", "a", "c"]) == 1.0
    assert pairwise_jaccard_score([0, 1, 2], [2, 0, 1]) == 1.0
    assert pairwise_jaccard_score([0, 0, 1, 1], [0, 1, 0, 1]) == 0.0


def test_widths_must_agree():
    with pytest.raises(ValueError, match="components have 3 features, X has 4"):
        additional_explained_deviation(np.zeros((5, 4)), np.zeros((1, 3)))
