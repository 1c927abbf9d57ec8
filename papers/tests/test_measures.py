"""Measures of single papers."""

from math import comb

import numpy as np
import pytest

from papers.measures import pairwise_jaccard_score, pathway_enrichment


def test_pairwise_jaccard_score():
    # Pairs in common clusters: {01, 23} and {01, 02, 12}; 1 of 4 is in both.
    assert pairwise_jaccard_score([0, 0, 1, 1], [5, 5, 5, 7]) == pytest.approx(1 / 4)
    assert pairwise_jaccard_score([0, 0, 1, 2], ["b", "b", "a", "c"]) == 1.0
    assert pairwise_jaccard_score([0, 1, 2], [2, 0, 1]) == 1.0
    assert pairwise_jaccard_score([0, 0, 1, 1], [0, 1, 0, 1]) == 0.0


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
