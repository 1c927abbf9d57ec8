"""Single-cell data, read from files that are not part of the repository."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import numpy as np
from scipy import sparse

PBMC3K = "pbmc3k_2700x32738_csr.npz"
PBMC_FACS = "pbmc_facs_3774x16791_csr.npz"
_PBMC3K_ALTERNATIVE = (
    "scanpy.datasets.pbmc3k() downloads the same cells; "
    'scanpy.datasets.pbmc3k_processed().obs["louvain"] has the types of most of them.'
)
_PBMC_FACS_ALTERNATIVE = "The R package fastglmpca contains the same cells as `pbmc_facs`."


def load_pbmc3k(folder: Path | str | None = None) -> Any:
    """Load 2,700 blood cells with 32,738 genes (10x Genomics).

    Parameters
    ----------
    folder : path or None, default=None
        Folder that contains the file. By default, the environment variable PROSPARSE_DATA.

    Returns
    -------
    anndata.AnnData
        Sparse counts. ``.obs["cell_type"]`` contains the types of Seurat's tutorial; they are
        missing for 62 cells. The types were derived by clustering the same counts, restricted to
        highly variable genes. ``.var["gene_ids"]`` contains the Ensembl identifiers.
    """
    path = _cells_file(folder, PBMC3K, _PBMC3K_ALTERNATIVE)
    with np.load(path, allow_pickle=False) as file:
        adata = _cells(file, file["feature_names"])
        adata.obs_names = file["sample_names"]
        adata.var["gene_ids"] = file["gene_ids"].astype(object)
    return adata


def load_pbmc_facs(folder: Path | str | None = None) -> Any:
    """Load 3,774 sorted blood cells with 16,791 genes (Zheng et al. 2017).

    Parameters
    ----------
    folder : path or None, default=None
        Folder that contains the file. By default, the environment variable PROSPARSE_DATA.

    Returns
    -------
    anndata.AnnData
        Sparse counts. ``.obs["cell_type"]`` contains ten types. The cells were sorted by surface
        proteins before sequencing, so the types do not depend on the counts, unlike clusters.
        ``.var_names`` are Ensembl identifiers.
    """
    path = _cells_file(folder, PBMC_FACS, _PBMC_FACS_ALTERNATIVE)
    with np.load(path, allow_pickle=False) as file:
        return _cells(file, file["gene_ids"])


def _cells_file(folder: Path | str | None, name: str, alternative: str) -> Path:
    path = Path(os.environ.get("PROSPARSE_DATA", "") if folder is None else folder) / name
    if not path.is_file():
        raise FileNotFoundError(
            f"File not found: {path}. Set `folder` or the environment variable PROSPARSE_DATA to "
            f"its folder. {alternative}"
        )
    return path


def _cells(file: Any, genes: np.ndarray) -> Any:
    """Convert the arrays of a file to AnnData with counts and cell types."""
    import anndata
    import pandas as pd

    parts = (file["data"].astype(np.float32), file["indices"], file["indptr"])
    adata = anndata.AnnData(sparse.csr_matrix(parts, shape=tuple(file["shape"])))
    adata.var_names = pd.Index(genes)
    adata.var_names_make_unique()
    cell_types = [None if name == "" else str(name) for name in file["y"]]
    adata.obs["cell_type"] = pd.Categorical(cell_types)
    return adata
