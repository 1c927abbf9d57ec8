"""Single-cell data: the estimators on AnnData and MuData, called as scanpy's functions are.

    import prosparse.anndata as psa

    psa.tl.fdrpca(adata, batch_key="donor")          # adata.var["fdrpca"], adata.obsm["X_fdrpca"]
    psa.pp.select_panel(adata, 150, layer="counts")  # adata.var["panel"], adata.var["panel_rank"]
    psa.pp.select_variables(adata, n_components=30)  # adata.var["prosparse"]
    psa.tl.gsppca(adata, n_components=30)            # adata.obsm["X_gsppca"], adata.varm["gsppca"]
    psa.tl.sca(mdata, n_components=10)               # one view per modality

A function takes the table out of its place, fits the estimator, and puts what was found where
scanpy's other functions look for it. Tables are never made dense: sparse ones stay sparse, and
what is kept in a file is read block by block. Nothing is written when a fit fails.
"""

from .functions import fdrpca, gsppca, sca, select_panel, select_variables
from .functions import pp as pp
from .functions import tl as tl

__all__ = ["fdrpca", "gsppca", "sca", "select_panel", "select_variables"]
