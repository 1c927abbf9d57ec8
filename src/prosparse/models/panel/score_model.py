"""Scores, loadings and proxies of a panel."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from .factors import FactorModel
from .heldout_r2 import posterior_weights

# A variable has a proxy if the panel explains at least these proportions of its communality and of
# its variance.
_MIN_PROXY_RECOVERY = 0.5
_MIN_PROXY_R2 = 0.05


class ScoreModel(NamedTuple):
    """Linear maps from the panel to scores and from scores to all columns."""

    weights: np.ndarray  # (d, q)
    loadings: np.ndarray  # (d, p) orthonormal rows
    variances: np.ndarray  # (d,) of the scores, in decreasing order


def build_score_model(model: FactorModel, panel: np.ndarray) -> ScoreModel:
    """Compute the principal components of the reconstruction by the panel.

    Given the panel, z has the posterior mean F x with covariance H = F Sigma F' = I - S. The
    reconstruction of all columns, W F x, has the covariance W H W'. The loadings are its
    eigenvectors.
    """
    F = posterior_weights(model, panel)
    W = model.W[panel]
    H = F @ (W @ W.T + np.diag(model.psi[panel])) @ F.T
    eigenvalues, vectors = np.linalg.eigh(0.5 * (H + H.T))
    is_positive = _is_positive(eigenvalues)
    is_positive &= np.arange(eigenvalues.size) >= eigenvalues.size - panel.size
    eigenvalues, vectors = eigenvalues[is_positive], vectors[:, is_positive]
    root = vectors * np.sqrt(eigenvalues)  # H = root root'
    W_root = model.W @ root
    variances, rotation = np.linalg.eigh(W_root.T @ W_root)
    variances, rotation = variances[::-1], rotation[:, ::-1]
    is_positive = _is_positive(variances)
    variances, rotation = variances[is_positive], rotation[:, is_positive]
    loadings = (W_root @ rotation / np.sqrt(variances)).T
    whitening = (vectors / np.sqrt(eigenvalues)).T @ F
    weights = np.sqrt(variances)[:, None] * (rotation.T @ whitening)
    largest = loadings[np.arange(variances.size), np.argmax(np.abs(loadings), axis=1)]
    sign = np.where(largest < 0.0, -1.0, 1.0)[:, None]
    return ScoreModel(sign * weights, sign * loadings, variances)


def model_covariance(model: FactorModel, columns: np.ndarray) -> np.ndarray:
    """Compute the covariance of some columns under the model."""
    W = model.W[columns]
    return np.asarray(W @ W.T + np.diag(model.psi[columns]))


def _is_positive(eigenvalues: np.ndarray) -> np.ndarray:
    """Return a mask of the eigenvalues that exceed rounding errors."""
    return np.asarray(eigenvalues > 1e-9 * max(float(np.max(eigenvalues, initial=0.0)), 1e-300))


def assign_proxies(
    model: FactorModel, panel: np.ndarray, r2: np.ndarray, communality: np.ndarray
) -> np.ndarray:
    """Assign to each column the most correlated column of the panel.

    The proxy is -1 for columns that the panel predicts poorly. Columns of the panel are their own
    proxies.
    """
    W = model.W / np.sqrt(model.psi + np.sum(model.W**2, axis=1))[:, None]
    closest = panel[np.argmax(np.abs(W @ W[panel].T), axis=1)]
    is_predicted = (r2 >= _MIN_PROXY_RECOVERY * communality) & (r2 >= _MIN_PROXY_R2)
    proxies = np.where(is_predicted, closest, -1)
    proxies[panel] = panel
    return proxies
