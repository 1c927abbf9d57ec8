"""
Select genes in single-cell data
================================

:class:`~prosparse.GSPPCA` selects genes from counts of 32,738 genes in 2,700 blood cells (10x
Genomics). The selection does not use the cell types.
"""

# %%
# An AnnData object stores the counts as a sparse matrix. If the file is not available, the example
# simulates counts with marker genes for each cell type.

import anndata
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import prosparse.anndata as psa
from papers.cells import load_pbmc3k
from prosparse.datasets import make_cell_counts

try:
    adata = load_pbmc3k()
    print("blood cells:", adata.n_obs, "cells,", adata.n_vars, "genes")
except FileNotFoundError as error:
    print(f"blood cells not found ({error})")
    counts = make_cell_counts(random_state=0)
    adata = anndata.AnnData(counts.X.astype(np.float32))
    adata.obs["cell_type"] = [f"type {k + 1}" for k in counts.cell_type]
    adata.obs["cell_type"] = adata.obs["cell_type"].astype("category")
    adata.var_names = [f"{'marker' if m else 'gene'} {i}" for i, m in enumerate(counts.support)]
    print("simulated data:", adata.n_obs, "cells,", adata.n_vars, "genes")

# %%
# Each cell is normalised to a total of 10,000 molecules, and the values are log-transformed. Zeros
# remain zeros, so the matrix stays sparse.

depth = np.asarray(adata.X.sum(axis=1)).ravel()
adata.X = (sp.diags_array(1e4 / depth) @ adata.X).tocsr()
adata.X.data = np.log1p(adata.X.data)

# %%
# :func:`prosparse.anndata.gsppca` selects the 100 genes with the highest relevance and fits ten
# components to them.

psa.tl.gsppca(adata, n_components=10, n_top_genes=100)
ranked = adata.var.sort_values("gsppca_ranking")
print("first genes:", *ranked.index[:12])
print("explained variance ratio:", adata.uns["gsppca"]["variance_ratio"].sum().round(2))

# %%
# The relevance decreases quickly, and the first two components separate cell types. The annotated
# types of the blood cells are clusters of the same counts and therefore not independent of them.

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(np.arange(1, 501), ranked["gsppca_relevance"][:500], color="#1e4e79")
left.axvspan(1, 100, color="#c2410c", alpha=0.15, label="selected")
left.set(xlabel="rank", ylabel="relevance", xlim=(1, 500), ylim=(0, 1))
left.legend(frameon=False)
scores = adata.obsm["X_gsppca"]
for number, name in enumerate(adata.obs["cell_type"].cat.categories):
    members = (adata.obs["cell_type"] == name).to_numpy()
    right.scatter(scores[members, 0], scores[members, 1], s=5, color=f"C{number}", label=name)
right.set(xlabel="component 1", ylabel="component 2")
right.legend(
    frameon=False, fontsize="small", markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5)
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
