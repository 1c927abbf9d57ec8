"""Measures of selected variables and explained variance against their definitions."""

from math import comb

import numpy as np
import pytest
from scipy import sparse
from sklearn.decomposition import PCA

from prosparse import ParameterError
from prosparse.metrics import adjusted_explained_variance, pathway_enrichment, support_f_score

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


def test_pathway_enrichment_of_a_small_example():
    """Four of ten genes are selected; the first set has three of them."""
    selected = np.arange(10) < 4
    sets = np.zeros((3, 10), dtype=bool)
    sets[0, :3] = True
    sets[1, [3, 7, 8, 9]] = True
    result = pathway_enrichment(selected, sets)
    tail = comb(3, 3) * comb(7, 1) / comb(10, 4)  # all three genes are selected
    at_least_one = 1.0 - comb(6, 4) / comb(10, 4)
    np.testing.assert_allclose(result.pvalues, [tail, at_least_one])  # without the empty set
    assert result.enriched.tolist() == [tail * 2 <= 0.05, False]
    assert pathway_enrichment(selected, sets, level=0.5).proportion == 0.5


def test_pathway_enrichment_corrects_for_many_tests():
    rng = np.random.default_rng(0)
    sets = rng.random((400, 300)) < 0.1
    selected = rng.random(300) < 0.3
    result = pathway_enrichment(selected, sets)
    assert np.mean(result.pvalues <= 0.05) > 0.01  # before correction
    assert result.proportion <= 0.01
    selected = sets[0] | sets[1]
    assert pathway_enrichment(selected, sets).enriched[:2].all()


def test_invalid_arguments_of_pathway_enrichment_raise():
    with pytest.raises(ValueError, match="one column for each of the 3 genes"):
        pathway_enrichment([True, False, True], np.ones((2, 4)))
    with pytest.raises(ValueError, match="at least one gene"):
        pathway_enrichment([True, False], np.zeros((2, 2)))


def test_sparse_gene_sets_and_levels():
    support = np.arange(20) < 5
    sets = np.array([np.arange(20) < 4, np.arange(20) > 12])
    result = pathway_enrichment(support, sparse.csr_array(sets))
    np.testing.assert_array_equal(result.enriched, pathway_enrichment(support, sets).enriched)
    with pytest.raises(ParameterError, match="`level` must be between 0 and 1, got 7"):
        pathway_enrichment(support, sets, level=7)
