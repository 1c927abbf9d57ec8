"""Metrics of variable selection and of sparse components."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.utils import check_array

from .data import DenseOperator
from .errors import InputError, check_choice
from .numerics.spectrum import added_directions, added_squares


def support_f_score(true_support: Any, support: Any) -> float:
    """Compute the F-score of selected variables.

    The F-score is the harmonic mean of precision and recall.

    Parameters
    ----------
    true_support : bool array-like of shape (n_features,)
        Mask of the true variables.
    support : bool array-like of shape (n_features,)
        Mask of the selected variables.

    Returns
    -------
    float
        F-score; 1 for equal sets, including two empty sets.

    Examples
    --------
    >>> support_f_score([True, True, False], [True, False, False]).__round__(2)
    0.67
    """
    true_support, support = _mask(true_support), _mask(support)
    if true_support.shape != support.shape:
        raise ValueError(
            "`true_support` and `support` must have the same shape, got "
            f"{true_support.shape} and {support.shape}."
        )
    return float(f1_score(true_support, support, zero_division=1.0))


def _mask(support: Any) -> np.ndarray:
    support = np.asarray(_check_unmasked("support", support))
    invalid = support[(support != 0) & (support != 1)]
    if invalid.size:
        raise ValueError(
            f"A support must be a mask of True and False, one per variable, got {invalid[0]!r}."
        )
    return support.astype(bool)


def adjusted_explained_variance(X: Any, components: Any, method: str = "subspace") -> np.ndarray:
    """Compute the proportion of variance that each component adds.

    The variances of sparse components cannot be summed, because the components are correlated and
    not orthogonal. Each proportion therefore excludes variance explained by previous components.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data matrix. It is centred internally.
    components : array-like of shape (n_components, n_features)
        Loading vectors of any length.
    method : {"subspace", "qr"}, default="subspace"
        - "subspace": increase in the variance of the projection of X on the span of the first k
          loading vectors (Shen & Huang 2008).
        - "qr": variance of the scores of each component that is not explained by the scores of the
          previous ones, that is, the squared diagonal of R in the QR decomposition of the scores
          (Zou, Hastie & Tibshirani 2006).

    Returns
    -------
    ndarray of shape (n_components,)
        Proportions of the total variance. Their cumulative sums are the proportions explained.
    """
    check_choice("method", method, ("subspace", "qr"))
    X, W, _, _ = _centre(X, components)
    total = float(np.sum(X**2))
    if total == 0.0:
        return np.zeros(W.shape[0])
    if method == "qr":
        norms = np.linalg.norm(W, axis=1, keepdims=True)
        W = W / np.where(norms > 0, norms, 1.0)  # loadings of unit length, as in the paper
        return np.sum(_additions((X @ W.T).T) ** 2, axis=1) / total
    return added_squares(DenseOperator(X), W) / total


def additional_explained_deviation(X: Any, components: Any) -> np.ndarray:
    """Compute the standard deviation that each component adds.

    The result is the standard deviation (denominator n - 1) of the scores X P w, where P removes
    the span of the components before w, as in ``asdev`` of the R package nsprcomp. For orthogonal
    components, it is the standard deviation of the scores.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Data matrix. It is centred internally.
    components : array-like of shape (n_components, n_features)
        Loading vectors.

    Returns
    -------
    ndarray of shape (n_components,)
        Standard deviations in the units of ``X``.
    """
    X, W, unit, length = _centre(X, components)
    scores = X @ _additions(W).T
    return unit * length * np.sqrt(np.sum(scores**2, axis=0) / (X.shape[0] - 1))


def _additions(rows: np.ndarray) -> np.ndarray:
    """Subtract from each row its projection on the span of the previous rows."""
    basis = added_directions(rows).T
    added: np.ndarray = np.sum(basis * rows, axis=1, keepdims=True) * basis
    return added


def cardinality(components: Any) -> np.ndarray:
    """Count the nonzero entries of each component.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Loading vectors.

    Returns
    -------
    int ndarray of shape (n_components,)
        Numbers of entries that are not exactly zero.
    """
    return np.count_nonzero(_components(components), axis=1)


def component_angles(components: Any) -> np.ndarray:
    """Compute the angles between components in degrees.

    Parameters
    ----------
    components : array-like of shape (n_components, n_features)
        Loading vectors.

    Returns
    -------
    ndarray of shape (n_components, n_components)
        Angles between 0 (parallel) and 90 (orthogonal), because the sign of a component is
        arbitrary. Zero components have an angle of 90 with all others.
    """
    W = _components(components)
    largest = np.max(np.abs(W), axis=1, keepdims=True)
    W = W / np.where(largest > 0, largest, 1.0)  # avoids overflow and underflow
    lengths = np.linalg.norm(W, axis=1, keepdims=True)
    W = W / np.where(lengths > 0, lengths, 1.0)
    # |u - v| = 2 sin(angle / 2) is accurate for nearly parallel vectors, unlike arccos.
    signs = np.where(W @ W.T < 0, -1.0, 1.0)
    distances = np.linalg.norm(W[:, None, :] - signs[:, :, None] * W[None, :, :], axis=2)
    angles = 2.0 * np.degrees(np.arcsin(np.clip(distances / 2.0, 0.0, 1.0)))
    present = lengths > 0
    return np.where(present & present.T, angles, 90.0)


def _check_unmasked(name: str, values: Any) -> Any:
    """Return ``values``; raise an error if entries are masked."""
    if np.ma.is_masked(values):
        raise InputError(f"`{name}` has masked entries. Fill them, or drop their rows.")
    return values


def _components(components: Any) -> np.ndarray:
    rows = np.atleast_2d(_check_unmasked("components", components))
    # A sparse model may have no components.
    return check_array(rows, dtype=float, ensure_min_samples=0, input_name="components")


def _centre(X: Any, components: Any) -> tuple[np.ndarray, np.ndarray, float, float]:
    """Centre X, and rescale X and W to avoid overflow; return both units."""
    X = check_array(_check_unmasked("X", X), dtype=float, ensure_min_samples=2, input_name="X")
    W = _components(components)
    if W.shape[1] != X.shape[1]:
        raise ValueError(f"`components` have {W.shape[1]} features, but X has {X.shape[1]}.")
    # Division by powers of two is exact.
    unit, length = (
        math.ldexp(0.5, math.frexp(np.max(np.abs(part), initial=0.0))[1]) for part in (X, W)
    )
    varying = X.min(axis=0) < X.max(axis=0)  # means of constant columns may be rounded
    X = X / unit
    return np.where(varying, X - X.mean(axis=0), 0.0), W / length, unit, length
