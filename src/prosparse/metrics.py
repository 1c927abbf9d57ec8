"""Measures of a selection and of a sparse projection."""

from __future__ import annotations

import math
from numbers import Real
from typing import Any, NamedTuple

import numpy as np
from scipy.stats import false_discovery_control, hypergeom
from sklearn.metrics import f1_score
from sklearn.metrics.cluster import pair_confusion_matrix
from sklearn.utils import check_array

from .data import DenseOperator, container_of
from .errors import InputError, ParameterError, check_choice
from .numerics.spectrum import added_squares, new_direction


def support_f_score(true_support: Any, support: Any) -> float:
    """F-score of a set of variables: harmonic mean of precision and recall.

    Parameters
    ----------
    true_support : bool array of shape (n_features,)
        The variables that should be chosen.
    support : bool array of shape (n_features,)
        The variables that were.

    Returns
    -------
    float
        1 means the same set; two empty sets agree.

    Examples
    --------
    >>> support_f_score([True, True, False], [True, False, False]).__round__(2)
    0.67
    """
    true_support, support = _mask(true_support), _mask(support)
    if true_support.shape != support.shape:
        raise ValueError(
            f"the masks must have the same shape, got {true_support.shape} and {support.shape}"
        )
    return float(f1_score(true_support, support, zero_division=1.0))


def _mask(support: Any) -> np.ndarray:
    support = np.asarray(_unmasked("support", support))
    if not np.all((support == 0) | (support == 1)):
        raise ValueError("a support is a mask of True and False, one for each variable")
    return support.astype(bool)


def adjusted_explained_variance(X: Any, components: Any, method: str = "subspace") -> np.ndarray:
    """Share of the variance of ``X`` that each component adds to those before it.

    Sparse components are correlated and not orthogonal, so that their variances cannot be
    added up.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Centred here.
    components : array of shape (n_components, n_features)
    method : {"subspace", "qr"}
        "subspace": variance of the projection of X on the span of the first k loading vectors
        (Shen & Huang 2008). "qr": variance of the scores of each component that is not
        explained by the scores of those before it, the squared diagonal of R in their QR
        decomposition (Zou, Hastie & Tibshirani 2006). The length of a component does not count.

    Returns
    -------
    array of shape (n_components,), whose cumulative sums are the shares explained.
    """
    check_choice("method", method, ("subspace", "qr"))
    X, W, _, _ = _centred(X, components)
    total = float(np.sum(X**2))
    if total == 0.0:
        return np.zeros(W.shape[0])
    if method == "qr":
        norms = np.linalg.norm(W, axis=1, keepdims=True)
        W = W / np.where(norms > 0, norms, 1.0)  # as loadings in the paper: of length one
        return np.sum(_additions((X @ W.T).T) ** 2, axis=1) / total
    return added_squares(DenseOperator(X), W) / total


def additional_explained_deviation(X: Any, components: Any) -> np.ndarray:
    """Standard deviation that each component adds to those before it, as R's ``asdev``.

    The deviation (denominator n - 1) of the scores X P w, where P removes the span of the
    components before w. For orthogonal components these are the deviations of the scores.

    Parameters
    ----------
    X : array of shape (n_samples, n_features)
        Centred here.
    components : array of shape (n_components, n_features)

    Returns
    -------
    array of shape (n_components,)
    """
    X, W, unit, length = _centred(X, components)
    scores = X @ _additions(W).T
    return unit * length * np.sqrt(np.sum(scores**2, axis=0) / (X.shape[0] - 1))


def _additions(rows: np.ndarray) -> np.ndarray:
    """Every row without its projection on the span of the rows before it; zero if it lies there.

    Not by a QR decomposition, which makes up directions for such rows.
    """
    basis = np.zeros((rows.shape[1], rows.shape[0]))
    added = np.zeros(rows.shape)
    for k, row in enumerate(rows):
        q = new_direction(basis[:, :k], row)
        if q is not None:
            basis[:, k] = q
            added[k] = (q @ row) * q
    return added


def cardinality(components: Any) -> np.ndarray:
    """Number of nonzeros of every component, exactly: no entry is too small to count.

    Parameters
    ----------
    components : array of shape (n_components, n_features)

    Returns
    -------
    int array of shape (n_components,)
    """
    return np.count_nonzero(_components(components), axis=1)


def component_angles(components: Any) -> np.ndarray:
    """Angles between components in degrees, (d, d): 0 for parallel ones, 90 for orthogonal.

    A component and its mirror image are the same direction, so that angles end at 90. The
    angle with a component that is zero is 90.

    Parameters
    ----------
    components : array of shape (n_components, n_features)

    Returns
    -------
    array of shape (n_components, n_components)
    """
    W = _components(components)
    largest = np.max(np.abs(W), axis=1, keepdims=True)
    W = W / np.where(largest > 0, largest, 1.0)  # so that squares are numbers
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    W = W / np.where(lengths > 0, lengths, 1.0)
    # Half angles, since arccos loses half the digits near parallel: |u - v| = 2 sin(angle / 2)
    nearer = np.where(W @ W.T < 0, -1.0, 1.0)
    apart = np.linalg.norm(W[:, None, :] - nearer[:, :, None] * W[None, :, :], axis=2)
    angles = 2.0 * np.degrees(np.arcsin(np.clip(apart / 2.0, 0.0, 1.0)))
    present = lengths > 0
    return np.where(present & present.T, angles, 90.0)


def pairwise_jaccard_score(labels_true: Any, labels: Any) -> float:
    """Agreement of two clusterings by pairs, n11 / (n11 + n10 + n01) (Varshavsky et al. 2006).

    n11 pairs of observations are together in both, n10 and n01 in one of them only. 1 means
    the same clustering; the names of the clusters do not matter. Two clusterings without any
    pair together agree.

    Parameters
    ----------
    labels_true : array of shape (n_samples,)
        The groups that there are.
    labels : array of shape (n_samples,)
        The groups that were found.

    Returns
    -------
    float, between 0 and 1
    """
    for name, given in (("labels_true", labels_true), ("labels", labels)):
        _unmasked(name, given)
    (_, n01), (n10, n11) = pair_confusion_matrix(labels_true, labels)
    together = n11 + n10 + n01
    return float(n11 / together) if together else 1.0


class PathwayEnrichment(NamedTuple):
    """What `pathway_enrichment` finds.

    Attributes
    ----------
    share : float
        Of the sets that are enriched: the index.
    enriched : bool array (n_sets,)
    p_values : array (n_sets,)
        Before the correction for many tests.
    """

    share: float
    enriched: np.ndarray
    p_values: np.ndarray


def pathway_enrichment(support: Any, sets: Any, *, level: float = 0.05) -> PathwayEnrichment:
    """Pathway enrichment index: the share of gene sets over-represented among the chosen genes.

    Each set is tested with the hypergeometric law, the chosen genes being a draw without
    replacement from all; those significant after Benjamini and Hochberg's correction are
    enriched (Teschendorff et al. 2007). Sets without any of the genes are left out.

    Parameters
    ----------
    support : bool array of shape (n_features,)
        The chosen genes.
    sets : bool array or sparse matrix of shape (n_sets, n_features)
        Which gene belongs to which set.
    level : float
        Of the false discovery rate.

    Returns
    -------
    PathwayEnrichment : named tuple (share, enriched, p_values)
        The arrays are about the sets that have genes here, in the given order.
    """
    if not isinstance(level, Real) or not 0.0 < float(level) < 1.0:
        raise ParameterError(f"`level` must be between 0 and 1, got {level!r}")
    support = _mask(support)
    sets = _mask(sets.toarray() if container_of(sets).is_sparse else sets)
    if sets.ndim != 2 or sets.shape[1] != support.size:
        raise ValueError(
            f"`sets` must have one column for each of the {support.size} genes, got shape "
            f"{sets.shape}"
        )
    sets = sets[np.any(sets, axis=1)]
    if not sets.shape[0]:
        raise ValueError("none of the sets has any of the genes: do their names match?")
    found = np.sum(sets & support, axis=1)
    # P(at least as many)
    p = hypergeom.sf(found - 1, support.size, np.sum(sets, axis=1), int(support.sum()))
    p = np.clip(p, 0.0, 1.0)
    enriched = false_discovery_control(p) <= level
    return PathwayEnrichment(float(np.mean(enriched)), enriched, p)


def _unmasked(name: str, values: Any) -> Any:
    """``values``, unless entries of it are masked: what is under a mask is not meant."""
    if np.ma.is_masked(values):
        raise InputError(
            f"`{name}` has masked entries, which mean nothing here: fill them in, or leave their "
            "rows out"
        )
    return values


def _components(components: Any) -> np.ndarray:
    given = np.atleast_2d(_unmasked("components", components))
    # a sparse model may have no component at all
    return check_array(given, dtype=float, ensure_min_samples=0, input_name="components")


def _centred(X: Any, components: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """X, centred, and the components, both in units of their own in which squares are numbers."""
    X = check_array(_unmasked("X", X), dtype=float, ensure_min_samples=2, input_name="X")
    W = _components(components)
    if W.shape[1] != X.shape[1]:
        raise ValueError(f"components have {W.shape[1]} features, X has {X.shape[1]}")
    # powers of two, by which division is exact
    unit, length = (
        math.ldexp(0.5, math.frexp(np.max(np.abs(part), initial=0.0))[1]) for part in (X, W)
    )
    varying = X.min(axis=0) < X.max(axis=0)  # the mean of equal values can be off by rounding
    X = X / unit
    return np.where(varying, X - X.mean(axis=0), 0.0), W / length, unit, length
