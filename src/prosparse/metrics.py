"""Measures of a selection and of a sparse projection."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.metrics import f1_score
from sklearn.utils import check_array

from .errors import check_choice


def support_f_score(true_support: Any, support: Any) -> float:
    """F-score of a set of variables: harmonic mean of precision and recall.

    Both arguments are boolean masks. 1 means the same set; two empty sets agree.
    """
    true_support, support = _mask(true_support), _mask(support)
    if true_support.shape != support.shape:
        raise ValueError(
            f"the masks must have the same shape, got {true_support.shape} and {support.shape}"
        )
    return float(f1_score(true_support, support, zero_division=1.0))


def _mask(support: Any) -> np.ndarray:
    support = np.asarray(support)
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
        (Shen & Huang 2008). "qr": squared diagonal of R in the QR decomposition of the scores
        (Zou, Hastie & Tibshirani 2006).

    Returns
    -------
    array of shape (n_components,), whose cumulative sums are the shares explained.
    """
    check_choice("method", method, ("subspace", "qr"))
    X = check_array(X, dtype=float)
    X = X - X.mean(axis=0)
    W = check_array(np.atleast_2d(components), dtype=float)
    if W.shape[1] != X.shape[1]:
        raise ValueError(f"components have {W.shape[1]} features, X has {X.shape[1]}")
    total = float(np.sum(X**2))
    if total == 0.0:
        return np.zeros(W.shape[0])
    if method == "qr":
        return np.diag(np.linalg.qr(X @ W.T, mode="r")) ** 2 / total
    basis, R = np.linalg.qr(W.T)
    scale = np.linalg.norm(W, axis=1)
    new = np.abs(np.diag(R)) > 1e-10 * np.where(scale > 0, scale, 1.0)
    return np.where(new, np.sum((X @ basis) ** 2, axis=0), 0.0) / total
