"""Small gene panels chosen without labels, judged by how well they tell sorted cells apart.

    python -m benchmarks.sorted_cells                  # some minutes; needs PROSPARSE_DATA
    python -m benchmarks.sorted_cells --picture docs/images/sorted_cells.png

3,774 blood cells that were sorted into ten types by proteins on their surface (Zheng et al. 2017),
and all of their genes that at least 1 % of them express. Every ranking sees the counts of all cells
and no type. The first 25, 50, 100 and 150 genes of it are then given to a logistic regression, as
logarithms of counts per 10,000, and the balanced accuracy of ten types is that of five-fold
cross-validation. Panels are chosen once for 150 genes; smaller ones are their first genes.
"""

from __future__ import annotations

import argparse
import warnings

import numpy as np

PANELS = (25, 50, 100, 150)
SHARE = 0.01  # of the cells that express a gene, at least


def cells():
    import scanpy

    from prosparse.datasets import load_pbmc_facs

    adata = load_pbmc_facs()
    scanpy.pp.filter_genes(adata, min_cells=int(np.ceil(SHARE * adata.n_obs)))
    adata.layers["counts"] = adata.X.copy()
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    return adata


def by_panel(adata, layer=None):
    import prosparse.anndata as psa

    psa.pp.select_panel(adata, max(PANELS), layer=layer)
    return np.argsort(adata.var["panel_rank"].to_numpy())[: max(PANELS)]


def by_gsppca(adata):
    import prosparse.anndata as psa

    psa.pp.select_variables(adata, n_components=30)
    return np.argsort(adata.var["prosparse_ranking"].to_numpy())


def by_dispersion(adata, flavor):
    import scanpy

    found = scanpy.pp.highly_variable_genes(
        adata, flavor=flavor, n_top_genes=max(PANELS), inplace=False
    )
    return np.argsort(-found["dispersions_norm"].fillna(-np.inf).to_numpy(), kind="stable")


def by_variance(adata):
    square, mean = adata.X.power(2).mean(axis=0), adata.X.mean(axis=0)
    return np.argsort(-(np.asarray(square) - np.asarray(mean) ** 2).ravel(), kind="stable")


def deviance_residuals(adata):
    """Of the Poisson model in which cells differ by their totals alone; dense."""
    counts = adata.layers["counts"].toarray().astype(float)
    mean = np.outer(counts.sum(axis=1), counts.sum(axis=0) / counts.sum())
    with np.errstate(divide="ignore", invalid="ignore"):
        part = np.where(counts > 0, counts * np.log(counts / mean), 0.0)
    squared = np.maximum(2.0 * (part - (counts - mean)), 0.0)
    return np.sign(counts - mean) * np.sqrt(squared)


def by_deviance(adata):
    return np.argsort(-np.sum(deviance_residuals(adata) ** 2, axis=0), kind="stable")


def by_deviance_loadings(adata):
    """By what 30 principal components of the residuals explain of each gene."""
    from sklearn.decomposition import PCA

    pca = PCA(30, svd_solver="randomized", random_state=0).fit(deviance_residuals(adata))
    explained = pca.explained_variance_ @ pca.components_**2
    return np.argsort(-explained, kind="stable")


RANKINGS = {
    "`select_panel` of counts (this page)": lambda adata: by_panel(adata, "counts"),
    "`select_panel` of log counts": by_panel,
    "`select_variables` (GSPPCA) of log counts": by_gsppca,
    "PCA of deviance residuals, variance explained of each gene": by_deviance_loadings,
    "deviance": by_deviance,
    "variance of log counts": by_variance,
    'highly variable, `"cell_ranger"`': lambda adata: by_dispersion(adata, "cell_ranger"),
    "highly variable, scanpy's default": lambda adata: by_dispersion(adata, "seurat"),
    "at random": lambda adata: np.random.default_rng(0).permutation(adata.n_vars),
}


def accuracy(adata, genes):
    from sklearn.linear_model import LogisticRegression
    from sklearn.model_selection import cross_val_score

    table = adata.X[:, genes].toarray()
    judge = LogisticRegression(C=0.1, max_iter=5000)
    scores = cross_val_score(
        judge, table, adata.obs["cell_type"], scoring="balanced_accuracy", cv=5
    )
    return float(scores.mean())


def draw(found, path):
    import matplotlib as mpl

    mpl.use("agg")
    from matplotlib import pyplot

    figure, ax = pyplot.subplots(figsize=(7.5, 3.8), layout="constrained")
    for number, (name, values) in enumerate(found.items()):
        ours = number == 0
        style = {"color": "#c2410c", "linewidth": 2.5} if ours else {"linewidth": 1.2}
        ax.plot(
            PANELS,
            values,
            marker=".",
            label=name.replace("`", "").replace(" (this page)", ""),
            **style,
        )
    ax.set(xlabel="genes in the panel", ylabel="balanced accuracy of ten types", ylim=(0, 1))
    ax.set_xticks(PANELS)
    ax.spines[["top", "right"]].set_visible(False)
    ax.legend(frameon=False, fontsize=8, loc="center left", bbox_to_anchor=(1.0, 0.5))
    figure.savefig(path, dpi=110)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", help="where to draw the result")
    arguments = parser.parse_args()
    warnings.simplefilter("ignore")  # scanpy's own
    adata, found = cells(), {}
    print(f"{adata.n_obs} cells, {adata.n_vars} genes")
    print("| genes chosen by |", " | ".join(map(str, PANELS)), "|")
    print("|---|" + "---|" * len(PANELS))
    for name, ranking in RANKINGS.items():
        order = ranking(adata)
        found[name] = [accuracy(adata, order[:count]) for count in PANELS]
        print(f"| {name} |", " | ".join(f"{value:.3f}" for value in found[name]), "|", flush=True)
    if arguments.picture:
        draw(found, arguments.picture)


if __name__ == "__main__":
    main()
