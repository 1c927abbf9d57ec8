"""
Genes that tell cells apart
===========================

Which genes carry the structure of a table of cells, and what do the cells look like in them? 2,700
blood cells with 32,738 genes each (10x Genomics), chosen from without looking at the cell types.
"""

# %%
# The counts, sparse, as an AnnData. Without the file of the blood cells a small simulated table
# stands in for them, in which every type of cell has genes of its own.

import anndata
import matplotlib.pyplot as plt
import numpy as np
import scipy.sparse as sp

import prosparse.anndata as psa
from prosparse.datasets import load_pbmc3k, make_cell_counts

try:
    adata = load_pbmc3k()
    print("Blood cells:", adata.n_obs, "cells,", adata.n_vars, "genes")
except FileNotFoundError as error:
    print(f"The blood cells are not here ({error})")
    counts = make_cell_counts(random_state=0)
    adata = anndata.AnnData(counts.X.astype(np.float32))
    adata.obs["cell_type"] = [f"type {k + 1}" for k in counts.cell_type]
    adata.obs["cell_type"] = adata.obs["cell_type"].astype("category")
    adata.var_names = [f"{'marker' if m else 'gene'} {i}" for i, m in enumerate(counts.support)]
    print("Simulated cells instead:", adata.n_obs, "cells,", adata.n_vars, "genes")

# %%
# Every cell is brought to 10,000 molecules, and logarithms are taken; zeros stay zeros.

depth = np.asarray(adata.X.sum(axis=1)).ravel()
adata.X = (sp.diags_array(1e4 / depth) @ adata.X).tocsr()
adata.X.data = np.log1p(adata.X.data)

# %%
# A panel of 100 genes, and the cells in ten components that are zero on all other genes.

psa.tl.gsppca(adata, n_components=10, n_features_to_select=100)
ranked = adata.var.sort_values("gsppca_ranking")
print("The first genes:", *ranked.index[:12])
print("Share of the variance of all genes:", adata.uns["gsppca"]["variance_ratio"].sum().round(2))

# %%
# The relevance falls off quickly, and the types of the cells, which were not used, show. (Those of
# the blood cells were annotated in clusters of these very counts: they are no independent judge.)

figure, (left, right) = plt.subplots(1, 2, figsize=(10, 4.2), layout="constrained")
left.plot(np.arange(1, 501), ranked["gsppca_relevance"][:500], color="#1e4e79")
left.axvspan(1, 100, color="#c2410c", alpha=0.15, label="the panel")
left.set(xlabel="gene, most relevant first", ylabel="relevance", xlim=(1, 500), ylim=(0, 1))
left.legend(frameon=False)
scores = adata.obsm["X_gsppca"]
for number, name in enumerate(adata.obs["cell_type"].cat.categories):
    mine = (adata.obs["cell_type"] == name).to_numpy()
    right.scatter(scores[mine, 0], scores[mine, 1], s=5, color=f"C{number}", label=name)
right.set(xlabel="component 1", ylabel="component 2")
right.legend(
    frameon=False, fontsize="small", markerscale=2, loc="center left", bbox_to_anchor=(1, 0.5)
)
for ax in (left, right):
    ax.spines[["top", "right"]].set_visible(False)
plt.show()
