"""Estimators for AnnData and MuData, with the conventions of scanpy.

    import prosparse.anndata as psa

    psa.tl.fdrpca(adata, batch_key="donor")          # adata.var["fdrpca"], adata.obsm["X_fdrpca"]
    psa.pp.select_panel(adata, 150, layer="counts")  # adata.var["panel"], adata.var["panel_rank"]
    psa.tl.gsppca(adata, n_components=30)            # adata.obsm["X_gsppca"], adata.varm["gsppca"]
    psa.tl.sca(mdata, n_components=10)               # one view per modality
    psa.tl.project(query, adata, key="fdrpca")       # query.obsm["X_fdrpca"]
    psa.pl.communality(adata, "fdrpca")              # the Displays of prosparse.plot

A function reads a data matrix, fits the estimator, and stores the results in the slots where
scanpy's functions expect them. Sparse matrices stay sparse, and matrices in files are read in
blocks. A failed fit leaves the data unchanged.
"""

from .functions import fdrpca, gsppca, sca, select_panel
from .functions import pl as pl
from .functions import pp as pp
from .functions import tl as tl
from .projection import project

__all__ = ["fdrpca", "gsppca", "project", "sca", "select_panel"]
