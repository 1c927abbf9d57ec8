"""Selection of gene panels by the methods that E28 compares with `Panel`.

geneBasis (Missarova et al. 2021) is implemented from its definition. spapros (Kuemmerle et al.
2024) is used if it is installed.
"""

from __future__ import annotations

import contextlib
import io
import warnings
from typing import Any

import numpy as np
from sklearn.decomposition import PCA
from sklearn.neighbors import NearestNeighbors

Array = np.ndarray

N_NEIGHBOURS = 5
N_COMPONENTS = 50
MINKOWSKI = 3
N_VARIABLE = 1_000  # candidates: genes with the largest variance of log counts


def variable_genes(logs: Array, count: int = N_VARIABLE) -> Array:
    """Return the genes with the largest variance of log counts."""
    return np.sort(np.argsort(-logs.var(axis=0), kind="stable")[:count])


def _prediction_distances(logs: Array, neighbours: Array) -> Array:
    """Return the Minkowski distance between each gene and its mean over neighbouring cells."""
    predicted = np.mean([logs[column] for column in neighbours.T], axis=0)
    return np.asarray(np.sum(np.abs(logs - predicted) ** MINKOWSKI, axis=0) ** (1.0 / MINKOWSKI))


def _nearest(X: Array) -> Array:
    model = NearestNeighbors(n_neighbors=N_NEIGHBOURS + 1).fit(X)
    return np.asarray(model.kneighbors(X, return_distance=False)[:, 1:])


def select_gene_basis(logs: Array, count: int) -> Array:
    """Select genes by geneBasis, in the order of selection.

    Cells are joined to their nearest cells by all candidates and by the selected genes. The next
    gene is the one whose prediction from the latter neighbours is worst, compared with that from
    the former. The first gene is compared with random neighbours.
    """
    candidates = variable_genes(logs)
    X = logs[:, candidates]
    scores = PCA(N_COMPONENTS, random_state=0).fit_transform(X)
    attainable = _prediction_distances(X, _nearest(scores))
    neighbours = np.random.default_rng(0).integers(0, X.shape[0], (X.shape[0], N_NEIGHBOURS))
    selected: list[int] = []
    while len(selected) < count:
        excess = _prediction_distances(X, neighbours) - attainable
        excess[selected] = -np.inf
        selected.append(int(np.argmax(excess)))
        neighbours = _nearest(X[:, selected])
    return candidates[selected]


def select_by_spapros(logs: Array, cell_types: Array, count: int) -> Array | None:
    """Select genes by spapros with its default settings, best first; None if not installed.

    Unlike the other methods, spapros uses the cell types.
    """
    try:
        import anndata
        import pandas as pd
        from spapros import se
    except ImportError:
        return None
    candidates = variable_genes(logs)
    names = [f"g{k}" for k in candidates]
    obs = pd.DataFrame(
        {"celltype": pd.Categorical(cell_types)}, index=[f"c{k}" for k in range(logs.shape[0])]
    )
    annotated = anndata.AnnData(
        np.ascontiguousarray(logs[:, candidates]), obs=obs, var=pd.DataFrame(index=names)
    )
    annotated.var["highly_variable"] = True
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        selector: Any = se.ProbesetSelector(
            annotated, "celltype", n=count, verbosity=0, n_jobs=1, seed=0
        )
        selector.select_probeset()
    probes = selector.probeset
    chosen = probes[probes["selection"]].sort_values("rank").index[:count]
    return np.array([int(name[1:]) for name in chosen])
