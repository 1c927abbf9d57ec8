"""Measures of single papers: clusterings compared by pairs, and enriched gene sets."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, hypergeom
from sklearn.metrics.cluster import pair_confusion_matrix


def pairwise_jaccard_score(labels_true: Any, labels: Any) -> float:
    """Compute the pairwise Jaccard score of two clusterings.

    The score is n11 / (n11 + n10 + n01) (Varshavsky et al. 2006). n11 is the number of pairs of
    samples that share a cluster in both clusterings; n10 and n01 are the numbers of pairs that
    share a cluster in only one of them.

    Parameters
    ----------
    labels_true : array-like of shape (n_samples,)
        True clusters.
    labels : array-like of shape (n_samples,)
        Estimated clusters.

    Returns
    -------
    float
        Score between 0 and 1. It is 1 for equal clusterings, whatever the labels, and for two
        clusterings without pairs.
    """
    (_, n01), (n10, n11) = pair_confusion_matrix(labels_true, labels)
    n_pairs = n11 + n10 + n01
    return float(n11 / n_pairs) if n_pairs else 1.0


class PathwayEnrichment(NamedTuple):
    """Result of `pathway_enrichment`.

    Attributes
    ----------
    proportion : float
        Pathway enrichment index: the proportion of enriched sets.
    enriched : bool ndarray of shape (n_sets,)
        Mask of the enriched sets.
    pvalues : ndarray of shape (n_sets,)
        p-values without correction for multiple testing.
    """

    proportion: float
    enriched: np.ndarray
    pvalues: np.ndarray


def pathway_enrichment(support: Any, sets: Any, *, level: float = 0.05) -> PathwayEnrichment:
    """Compute the pathway enrichment index of selected genes.

    The index is the proportion of gene sets that are over-represented among the selected genes
    (Teschendorff et al. 2007). Each set is tested with the hypergeometric distribution, and the
    Benjamini-Hochberg procedure corrects for multiple testing. Sets without genes in the data are
    dropped.

    Parameters
    ----------
    support : bool array-like of shape (n_features,)
        Mask of the selected genes.
    sets : bool array-like of shape (n_sets, n_features)
        Genes of each set.
    level : float, default=0.05
        Level of the false discovery rate, in (0, 1).

    Returns
    -------
    PathwayEnrichment
        Named tuple (proportion, enriched, pvalues). The arrays refer to the sets with genes in the
        data, in the given order.
    """
    support, sets = np.asarray(support, dtype=bool), np.asarray(sets, dtype=bool)
    sets = sets[np.any(sets, axis=1)]
    n_selected = np.sum(sets & support, axis=1)
    # P(at least n_selected)
    p = hypergeom.sf(n_selected - 1, support.size, np.sum(sets, axis=1), int(support.sum()))
    p = np.clip(p, 0.0, 1.0)
    enriched = false_discovery_control(p) <= level
    return PathwayEnrichment(float(np.mean(enriched)), enriched, p)
