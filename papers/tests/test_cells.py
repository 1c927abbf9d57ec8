"""Single-cell data."""

import numpy as np
import pytest
from scipy import sparse

from papers.cells import load_pbmc3k, load_pbmc_facs


def test_pbmc3k(data_folder):
    pytest.importorskip("anndata")
    adata = load_pbmc3k(data_folder)
    assert adata.shape == (2700, 32738)
    assert sparse.issparse(adata.X)
    assert adata.obs["cell_type"].notna().sum() == 2638
    assert adata.var_names.is_unique
    lysozyme = np.asarray(adata[:, "LYZ"].X.toarray()).ravel()
    monocyte = (adata.obs["cell_type"] == "CD14+ Mono").to_numpy()
    assert np.median(lysozyme[monocyte]) > 10
    assert np.median(lysozyme[~monocyte]) < 3


def test_sorted_cells(data_folder):
    pytest.importorskip("anndata")
    adata = load_pbmc_facs(data_folder)
    assert adata.shape == (3774, 16791)
    assert sparse.issparse(adata.X)
    assert adata.obs["cell_type"].value_counts().iloc[[0, -1]].to_dict() == {
        "CD19+ B": 767,
        "CD14+ Monocyte": 163,
    }
    genes = load_pbmc3k(data_folder).var["gene_ids"]
    assert set(adata.var_names) <= set(genes)
    lysozyme = np.asarray(adata[:, genes["LYZ"]].X.toarray()).ravel()
    monocyte = (adata.obs["cell_type"] == "CD14+ Monocyte").to_numpy()
    assert lysozyme[monocyte].mean() > 10 * lysozyme[~monocyte].mean()


def test_missing_files_of_sorted_cells_raise(tmp_path):
    pytest.importorskip("anndata")
    with pytest.raises(FileNotFoundError, match=r"pbmc_facs.*PROSPARSE_DATA.*fastglmpca"):
        load_pbmc_facs(tmp_path)


def test_missing_files_of_pbmc3k_raise(tmp_path):
    pytest.importorskip("anndata")
    with pytest.raises(FileNotFoundError, match=r"PROSPARSE_DATA.*scanpy.datasets.pbmc3k\(\)"):
        load_pbmc3k(tmp_path)
