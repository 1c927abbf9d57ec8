"""Other ways of choosing a few columns without labels, each from its definition.

Every one takes a training table with standardised columns, its raw standard deviations and a
number, and gives that many columns, the best first. They are what E19 compares `Panel` with; none
of them is part of the library's methods.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable

import numpy as np
from scipy import sparse
from scipy.linalg import qr
from sklearn.cluster import KMeans
from sklearn.linear_model import lars_path
from sklearn.manifold import spectral_embedding
from sklearn.neighbors import kneighbors_graph

from prosparse.models.gsppca import GSPPCA

Array = np.ndarray
Chooser = Callable[[Array, Array, int], Array]

_NEIGHBOURS = 5


def random_columns(Z: Array, spread: Array, count: int) -> Array:
    """At random."""
    return np.random.default_rng(0).permutation(Z.shape[1])[:count]


def largest_variance(Z: Array, spread: Array, count: int) -> Array:
    """By their variance, in the units in which they came."""
    return np.argsort(-spread, kind="stable")[:count]


def forward_selection(Z: Array, spread: Array, count: int) -> Array:
    """Forward selection component analysis (Puggini & McLoone 2017): each column explains most of
    what the ones before leave of all columns."""
    R = Z.copy()
    chosen: list[int] = []
    for _ in range(count):
        lengths = np.sum(R**2, axis=0)
        worth = np.sum((R.T @ R) ** 2, axis=0) if R.shape[1] <= 500 else _explained(R)
        worth = np.where(lengths > 1e-8 * Z.shape[0], worth / np.maximum(lengths, 1e-300), -1.0)
        worth[chosen] = -np.inf
        best = int(np.argmax(worth))
        if worth[best] <= 0.0:  # the rows are exhausted: any other column is as good
            rest = np.setdiff1d(np.arange(Z.shape[1]), chosen)
            return np.array([*chosen, *rest])[:count]
        chosen.append(best)
        direction = R[:, best] / np.sqrt(lengths[best])
        R = R - np.outer(direction, direction @ R)
    return np.array(chosen)


def _explained(R: Array) -> Array:
    """Squared length of R'r for every column r of R, by the smaller Gram matrix."""
    return np.sum(R * ((R @ R.T) @ R), axis=0)


def principal_features(Z: Array, spread: Array, count: int) -> Array:
    """Principal feature analysis (Lu et al. 2007): columns are clustered by their loadings, and of
    every cluster the one nearest to its centre is taken."""
    components = min(count, min(Z.shape) - 1, 50)
    _, _, V = np.linalg.svd(Z, full_matrices=False)
    loadings = V[:components].T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        found = KMeans(min(count, Z.shape[1]), n_init=1, max_iter=30, random_state=0).fit(loadings)
    away = np.sum((loadings - found.cluster_centers_[found.labels_]) ** 2, axis=1)
    sizes = np.bincount(found.labels_, minlength=count)
    order = np.lexsort((away, found.labels_))
    nearest = order[np.unique(found.labels_[order], return_index=True)[1]]
    chosen = nearest[np.argsort(-sizes[found.labels_[nearest]], kind="stable")]
    rest = np.setdiff1d(np.argsort(away, kind="stable"), chosen)
    return np.concatenate([chosen, rest])[:count]


def _graph(Z: Array) -> sparse.csr_matrix:
    """Which rows are among the nearest of each other."""
    near = kneighbors_graph(Z, min(_NEIGHBOURS, Z.shape[0] - 1), mode="connectivity")
    return sparse.csr_matrix(near.maximum(near.T))


def multi_cluster(Z: Array, spread: Array, count: int) -> Array:
    """Multi-cluster feature selection (Cai, Zhang & He 2010): columns that regress the spectral
    embedding of the rows sparsely, by their largest coefficient."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = spectral_embedding(_graph(Z), n_components=5, random_state=0)
        largest = np.zeros(Z.shape[1])
        for y in Y.T:
            path = lars_path(Z, y - y.mean(), max_iter=min(count, Z.shape[0] - 1), method="lar")
            largest = np.maximum(largest, np.abs(path[2][:, -1]))
    ties = np.abs(Z.T @ Y).max(axis=1)  # columns that no path has taken
    return np.lexsort((-ties, -largest))[:count]


def laplacian_score(Z: Array, spread: Array, count: int) -> Array:
    """Laplacian score (He, Cai & Niyogi 2005): columns that vary least between near rows."""
    S = _graph(Z)
    degree = np.asarray(S.sum(axis=1)).reshape(-1)
    centred = Z - degree @ Z / degree.sum()
    varied = np.sum(centred * (degree[:, None] * centred), axis=0)
    between = varied - np.sum(centred * (S @ centred), axis=0)
    return np.argsort(between / np.maximum(varied, 1e-300), kind="stable")[:count]


def pivoted_qr(Z: Array, spread: Array, count: int) -> Array:
    """Columns of the leading right singular vectors that a QR decomposition with pivoting takes
    first (Drmac & Gugercin 2016; Manohar et al. 2018 place sensors so)."""
    _, _, V = np.linalg.svd(Z, full_matrices=False)
    _, _, pivots = qr(V[: min(count, V.shape[0])], mode="economic", pivoting=True)
    return np.asarray(pivots[:count])


def loadings(Z: Array, spread: Array, count: int) -> Array:
    """By the length of their loadings on the first 20 principal components."""
    _, s, V = np.linalg.svd(Z, full_matrices=False)
    length = np.sum((s[:20, None] * V[:20]) ** 2, axis=0)
    return np.argsort(-length, kind="stable")[:count]


def _ranked(model: GSPPCA, Z: Array, count: int) -> Array:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.argsort(model.fit(Z).ranking_, kind="stable")[:count]


def gsppca_ranking(Z: Array, spread: Array, count: int) -> Array:
    """GSPPCA with ten components, of the columns as they came."""
    return _ranked(GSPPCA(min(10, min(Z.shape) - 2)), Z * spread, count)


def gsppca_scaled_ranking(Z: Array, spread: Array, count: int) -> Array:
    """GSPPCA with ten components, of scaled columns."""
    return _ranked(GSPPCA(min(10, min(Z.shape) - 2)), Z, count)


PEERS: dict[str, Chooser] = {
    "forward selection": forward_selection,
    "principal features": principal_features,
    "multi-cluster": multi_cluster,
    "Laplacian score": laplacian_score,
    "pivoted QR": pivoted_qr,
    "PCA loadings": loadings,
    "variance": largest_variance,
    "GSPPCA ranking": gsppca_ranking,
    "GSPPCA ranking, scaled": gsppca_scaled_ranking,
    "random columns": random_columns,
}
