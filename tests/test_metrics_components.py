"""Measures of components and clusterings against their definitions."""

import numpy as np
import pytest
from sklearn.decomposition import PCA

from prosparse import InputError
from prosparse.metrics import (
    additional_explained_deviation,
    adjusted_explained_variance,
    cardinality,
    component_angles,
    support_f_score,
)

pytestmark = pytest.mark.quick


def asdev(X, W):
    """Translate nsprcomp::asdev from R."""
    Xp = X - X.mean(axis=0)
    Q = np.linalg.qr(W.T)[0]
    deviations = []
    for k in range(len(W)):
        deviations.append(np.std(Xp @ W[k], ddof=1))
        Xp = Xp - np.outer(Xp @ Q[:, k], Q[:, k])
    return deviations


def test_additional_deviation_agrees_with_r():
    rng = np.random.default_rng(0)
    X, W = rng.standard_normal((30, 8)) * np.arange(1, 9), rng.standard_normal((4, 8))
    np.testing.assert_allclose(additional_explained_deviation(X, W), asdev(X, W))


def test_additional_deviation_of_orthogonal_components():
    X = np.random.default_rng(1).standard_normal((30, 8)) * np.arange(1, 9)
    pca = PCA(3).fit(X)
    added = additional_explained_deviation(X, pca.components_)
    np.testing.assert_allclose(added**2, pca.explained_variance_)
    proportions = adjusted_explained_variance(X, pca.components_)
    np.testing.assert_allclose(proportions, pca.explained_variance_ratio_)


def test_a_repeated_component_adds_nothing():
    rng = np.random.default_rng(2)
    X, w = rng.standard_normal((20, 5)), rng.standard_normal(5)
    added = additional_explained_deviation(X, [w, 2 * w])
    assert added[0] > 0
    assert added[1] == pytest.approx(0.0, abs=1e-12)


def test_cardinality_counts_tiny_entries():
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


def test_different_numbers_of_features_raise():
    with pytest.raises(ValueError, match="`components` have 3 features, but X has 4"):
        additional_explained_deviation(np.zeros((5, 4)), np.zeros((1, 3)))


def squared_distances(rows):
    """Compute the squared distance of each row from the span of the previous rows."""
    return [
        np.sum((row - rows[:k].T @ np.linalg.lstsq(rows[:k].T, row, rcond=1e-10)[0]) ** 2)
        if k
        else np.sum(row**2)
        for k, row in enumerate(rows)
    ]


@pytest.mark.parametrize(
    "W",
    [
        [[0, 0, 0], [1, 0, 0]],
        [[1, 1, 0], [0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 2]],
        [[1, 2, 3], [2, 4, 6], [1, 0, 0]],
        np.random.default_rng(0).standard_normal((7, 3)),
    ],
)
@pytest.mark.parametrize("n", [2, 4, 20])
def test_dependent_components_add_nothing(W, n):
    """Zero, dependent and surplus components do not affect the others."""
    W = np.asarray(W, dtype=float)
    X = np.random.default_rng(1).standard_normal((n, 3))
    Z = X - X.mean(axis=0)
    proportions = adjusted_explained_variance(X, W, "qr")
    assert proportions.shape == (len(W),)
    unit = W / np.maximum(np.linalg.norm(W, axis=1, keepdims=True), 1e-300)
    np.testing.assert_allclose(
        proportions, squared_distances((Z @ unit.T).T) / np.sum(Z**2), atol=1e-12
    )
    deviations = additional_explained_deviation(X, W)
    assert deviations.shape == (len(W),)
    for k, w in enumerate(W):
        before = W[:k].T
        rest = w - before @ np.linalg.lstsq(before, w, rcond=1e-10)[0] if k else w
        assert deviations[k] == pytest.approx(np.std(Z @ rest, ddof=1), abs=1e-12)


def test_additional_deviation_after_a_zero_component():
    X = np.array([[0.5, 1, 2], [1.5, 0, 1], [2.5, 3, 0], [3.5, 1, 1]])
    np.testing.assert_allclose(
        additional_explained_deviation(X, [[0, 0, 0], [1, 0, 0]]), [0, np.std(X[:, 0], ddof=1)]
    )


@pytest.mark.parametrize("unit", [1e-200, 1e200])
def test_units_have_no_effect(unit, rng):
    X, W = rng.standard_normal((20, 4)), rng.standard_normal((2, 4))
    for method in ("qr", "subspace"):
        np.testing.assert_allclose(
            adjusted_explained_variance(unit * X, W, method),
            adjusted_explained_variance(X, W, method),
        )
    deviations = additional_explained_deviation(X, W)
    np.testing.assert_allclose(additional_explained_deviation(unit * X, W), unit * deviations)
    np.testing.assert_allclose(additional_explained_deviation(X, unit * W), unit * deviations)
    np.testing.assert_allclose(component_angles(unit * W), component_angles(W))
    assert adjusted_explained_variance(np.full((7, 4), 0.1), W).tolist() == [0, 0]


def test_masked_entries_raise(rng):
    X, W = rng.standard_normal((20, 4)), np.eye(4)[:2]
    masked, labels = np.ma.masked_greater(X, 1.0), np.ma.masked_equal([0, 0, 1, 1], 1)
    for call in (
        lambda: adjusted_explained_variance(masked, W),
        lambda: additional_explained_deviation(masked, W),
        lambda: additional_explained_deviation(X, np.ma.masked_equal(W, 1.0)),
        lambda: cardinality(np.ma.masked_equal(W, 1.0)),
        lambda: component_angles(np.ma.masked_equal(W, 1.0)),
        lambda: support_f_score(labels, [0, 0, 1, 1]),
    ):
        with pytest.raises(InputError, match="masked entries"):
            call()
    proportions = adjusted_explained_variance(np.ma.array(X), W)  # nothing is masked
    np.testing.assert_array_equal(proportions, adjusted_explained_variance(X, W))


def test_models_without_components(rng):
    X, none = rng.standard_normal((20, 4)), np.zeros((0, 4))
    assert cardinality(none).shape == (0,)
    assert component_angles(none).shape == (0, 0)
    assert additional_explained_deviation(X, none).shape == (0,)
    for method in ("qr", "subspace"):
        assert adjusted_explained_variance(X, none, method).shape == (0,)


@pytest.mark.parametrize("method", ["subspace", "qr"])
def test_lengths_of_components_have_no_effect(method, rng):
    X, W = rng.standard_normal((40, 6)), rng.standard_normal((3, 6))
    proportions = adjusted_explained_variance(X, W, method=method)
    longer = adjusted_explained_variance(X, W * [[10.0], [0.1], [-3.0]], method=method)
    np.testing.assert_allclose(longer, proportions)
    assert 0.0 < proportions.sum() < 1.0
