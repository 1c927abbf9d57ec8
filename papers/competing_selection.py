"""Unsupervised column selection methods that E19 compares with `Panel`.

Each function takes the standardised training matrix, the standard deviations of the raw columns
and the number of columns. It returns that many column indices, in order of selection. The
implementations follow the definitions in the cited papers.
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
ColumnSelector = Callable[[Array, Array, int], Array]

N_NEIGHBOURS = 5


def random_columns(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns at random."""
    return np.random.default_rng(0).permutation(Z.shape[1])[:count]


def largest_variance(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by their raw variance."""
    return np.argsort(-column_std, kind="stable")[:count]


def forward_selection(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by forward selection component analysis (Puggini & McLoone 2017).

    Each column maximises the explained variance of the residuals of all columns.
    """
    R = Z.copy()
    selected: list[int] = []
    for _ in range(count):
        lengths = np.sum(R**2, axis=0)
        explained = np.sum((R.T @ R) ** 2, axis=0) if R.shape[1] <= 500 else _explained(R)
        usable = lengths > 1e-8 * Z.shape[0]
        explained = np.where(usable, explained / np.maximum(lengths, 1e-300), -1.0)
        explained[selected] = -np.inf
        best = int(np.argmax(explained))
        if explained[best] <= 0.0:  # The residuals are zero: the remaining order is arbitrary.
            rest = np.setdiff1d(np.arange(Z.shape[1]), selected)
            return np.array([*selected, *rest])[:count]
        selected.append(best)
        direction = R[:, best] / np.sqrt(lengths[best])
        R = R - np.outer(direction, direction @ R)
    return np.array(selected)


def _explained(R: Array) -> Array:
    """Return the squared norm of R'r for each column r of R, with the smaller Gram matrix."""
    return np.sum(R * ((R @ R.T) @ R), axis=0)


def principal_features(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by principal feature analysis (Lu et al. 2007).

    Columns are clustered by their loadings; each cluster contributes the column nearest to its
    centre.
    """
    n_components = min(count, min(Z.shape) - 1, 50)
    _, _, V = np.linalg.svd(Z, full_matrices=False)
    loadings = V[:n_components].T
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        clusters = KMeans(min(count, Z.shape[1]), n_init=1, max_iter=30, random_state=0).fit(
            loadings
        )
    distance = np.sum((loadings - clusters.cluster_centers_[clusters.labels_]) ** 2, axis=1)
    sizes = np.bincount(clusters.labels_, minlength=count)
    order = np.lexsort((distance, clusters.labels_))
    nearest = order[np.unique(clusters.labels_[order], return_index=True)[1]]
    selected = nearest[np.argsort(-sizes[clusters.labels_[nearest]], kind="stable")]
    rest = np.setdiff1d(np.argsort(distance, kind="stable"), selected)
    return np.concatenate([selected, rest])[:count]


def _graph(Z: Array) -> sparse.csr_matrix:
    """Return the symmetric nearest-neighbour graph of the rows."""
    near = kneighbors_graph(Z, min(N_NEIGHBOURS, Z.shape[0] - 1), mode="connectivity")
    return sparse.csr_matrix(near.maximum(near.T))


def multi_cluster(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by multi-cluster feature selection (Cai, Zhang & He 2010).

    Columns are ranked by their largest coefficient in sparse regressions of the spectral embedding
    of the rows.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        Y = spectral_embedding(_graph(Z), n_components=5, random_state=0)
        largest = np.zeros(Z.shape[1])
        for y in Y.T:
            path = lars_path(Z, y - y.mean(), max_iter=min(count, Z.shape[0] - 1), method="lar")
            largest = np.maximum(largest, np.abs(path[2][:, -1]))
    ties = np.abs(Z.T @ Y).max(axis=1)  # orders columns with zero coefficients
    return np.lexsort((-ties, -largest))[:count]


def laplacian_score(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by the Laplacian score (He, Cai & Niyogi 2005)."""
    S = _graph(Z)
    degree = np.asarray(S.sum(axis=1)).reshape(-1)
    centred = Z - degree @ Z / degree.sum()
    variance = np.sum(centred * (degree[:, None] * centred), axis=0)
    between = variance - np.sum(centred * (S @ centred), axis=0)
    return np.argsort(between / np.maximum(variance, 1e-300), kind="stable")[:count]


def pivoted_qr(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by pivoted QR of the leading right singular vectors.

    References: Drmac & Gugercin 2016; Manohar et al. 2018 (sensor placement).
    """
    _, _, V = np.linalg.svd(Z, full_matrices=False)
    _, _, pivots = qr(V[: min(count, V.shape[0])], mode="economic", pivoting=True)
    return np.asarray(pivots[:count])


def loadings(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by the norm of their loadings on 20 principal components."""
    _, s, V = np.linalg.svd(Z, full_matrices=False)
    length = np.sum((s[:20, None] * V[:20]) ** 2, axis=0)
    return np.argsort(-length, kind="stable")[:count]


def _rank(model: GSPPCA, Z: Array, count: int) -> Array:
    """Return the first columns of the model's ranking, without warnings."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return np.argsort(model.fit(Z).ranking_, kind="stable")[:count]


def gsppca_ranking(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by GSPPCA with ten components on the raw columns."""
    return _rank(GSPPCA(min(10, min(Z.shape) - 2), refine=False), Z * column_std, count)


def gsppca_scaled_ranking(Z: Array, column_std: Array, count: int) -> Array:
    """Select columns by GSPPCA with ten components on standardised columns."""
    return _rank(GSPPCA(min(10, min(Z.shape) - 2), refine=False), Z, count)


COMPETING_METHODS: dict[str, ColumnSelector] = {
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
