"""Gene panels chosen without labels: GSPPCA's ranking beside scanpy's highly variable genes.

    python -m benchmarks.cells                     # some ten minutes; needs PROSPARSE_DATA
    python -m benchmarks.cells --seeds 5           # rougher
    python -m benchmarks.cells --picture docs/images/gene_panel.png
    python -m benchmarks.cells --min-cells 3       # without genes that hardly any cell expresses

2,700 blood cells with all their genes, counts normalised to 10,000 a cell and logarithmised. The
first 200, 500, 1000 and 2000 genes of every ranking are reduced to 30 principal components and
clustered by k-means (10 starts); the adjusted Rand index compares the clusters with the annotated
types of 2,638 of the cells: mean and standard deviation over seeds of k-means. No ranking sees the
types. Time and memory of selection and projection are measured in processes of their own.
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
import time
import tracemalloc
import warnings
from pathlib import Path

import numpy as np

PANELS = (200, 500, 1000, 2000)
COMPONENTS = (10, 20, 30)  # of GSPPCA; the how-to's are 30, as many as k-means then works on
CLUSTERS = (8, 9)  # nine types are annotated, one of them (platelets) 14 cells


def cells(min_cells=0):
    """Normalised log counts, sparse, as scanpy makes them."""
    import scanpy

    from prosparse.datasets import load_pbmc3k

    adata = load_pbmc3k()
    if min_cells:
        scanpy.pp.filter_genes(adata, min_cells=min_cells)
    scanpy.pp.normalize_total(adata, target_sum=1e4)
    scanpy.pp.log1p(adata)
    return adata


def highly_variable(adata, flavor):
    """Genes by scanpy's normalised dispersion, the order that ``n_top_genes`` cuts."""
    import scanpy

    genes = np.arange(adata.n_vars)
    if flavor == "cell_ranger":  # its bins are quantiles, which many genes without counts spoil
        genes = np.flatnonzero(np.asarray((adata.X > 0).sum(axis=0)).ravel() >= 3)
    found = scanpy.pp.highly_variable_genes(
        adata[:, genes], flavor=flavor, n_top_genes=2000, inplace=False
    )
    score = found["dispersions_norm"].to_numpy()
    order = np.argsort(-np.where(np.isnan(score), -np.inf, score), kind="stable")
    assert set(order[:2000]) == set(np.flatnonzero(found["highly_variable"]))
    return genes[order]


def by_variance(adata):
    X = adata.X
    mean = np.asarray(X.mean(axis=0)).ravel()
    return np.argsort(mean**2 - np.asarray(X.multiply(X).mean(axis=0)).ravel(), kind="stable")


def by_relevance(adata, n_components):
    import prosparse.anndata as psa

    psa.pp.select_variables(adata, n_components)
    return np.argsort(adata.var["prosparse_ranking"].to_numpy())


def agreement(adata, genes, k, seeds):
    """Adjusted Rand index of k-means on principal components of some genes, for every seed."""
    from sklearn.cluster import KMeans
    from sklearn.decomposition import PCA
    from sklearn.metrics import adjusted_rand_score

    known = adata.obs["cell_type"].notna().to_numpy()
    types = adata.obs["cell_type"].astype(str).to_numpy()[known]
    scores = PCA(30, svd_solver="full").fit_transform(adata.X[:, np.sort(genes)].toarray())
    clusters = (KMeans(k, n_init=10, random_state=s).fit_predict(scores) for s in range(seeds))
    return np.array([adjusted_rand_score(types, found[known]) for found in clusters])


def peak_resident():
    """Bytes; getrusage would count the memory of the process that started this one."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmHWM"):
            return 1024 * int(line.split()[1])
    raise OSError("this system does not tell the peak of resident memory")


def measure(n_components, traced, min_cells):
    """In a process of its own: selection and projection, seconds and bytes beyond the table."""
    import prosparse.anndata as psa

    adata = cells(min_cells)
    before = peak_resident()
    if traced:
        tracemalloc.start()
    wall, cpu = time.perf_counter(), time.process_time()
    psa.tl.gsppca(adata, n_components)
    wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
    peak = tracemalloc.get_traced_memory()[1] if traced else peak_resident() - before
    chosen = int(adata.var["gsppca"].sum())
    print(json.dumps({"wall": wall, "cpu": cpu, "peak": peak, "chosen": chosen}))


def in_a_process(n_components, traced, min_cells):
    command = [sys.executable, "-W", "ignore", __file__, "--measure", str(n_components)]
    command += ["--min-cells", str(min_cells), *(["--traced"] if traced else [])]
    out = subprocess.run(command, check=True, capture_output=True, text=True).stdout
    return json.loads(out.splitlines()[-1])


def costs(shape, min_cells):
    dense = 8 * shape[0] * shape[1] / 2**20
    print(f"selection and projection, {shape[0]} x {shape[1]}; dense the table had {dense:.0f} MiB")
    for d in COMPONENTS:
        plain, traced = (in_a_process(d, traced, min_cells) for traced in (False, True))
        print(
            f"  {d} components: {plain['cpu']:.1f} s of CPU ({plain['wall']:.1f} s by the clock), "
            f"{plain['chosen']} genes chosen by the evidence;\n"
            f"    peak memory beyond the table: {plain['peak'] / 2**20:.0f} MiB resident, "
            f"{traced['peak'] / 2**20:.0f} MiB of arrays",
            flush=True,
        )


def draw(found, adata, orders, path):
    """Agreement against the size of the panel, and which genes the two panels of 500 hold."""
    from matplotlib import pyplot

    ours, theirs = "GSPPCA, 30 components", "highly variable, seurat"
    styles = {
        ours: ("#c2410c", "o"),
        theirs: ("#1e4e79", "s"),
        "highly variable, cell_ranger": ("#6b8fb3", "^"),
        "variance": ("#6b7280", "v"),
    }
    figure, (left, right) = pyplot.subplots(1, 2, figsize=(10.0, 4.2), layout="constrained")
    for name, (colour, marker) in styles.items():
        mean, spread = (np.array([f(ari) for ari in found[name]]) for f in (np.mean, np.std))
        left.errorbar(PANELS, mean, spread, color=colour, marker=marker, capsize=3, label=name)
    left.set(xscale="log", ylim=(0, 0.8), xlabel="genes in the panel")
    left.set_xticks(PANELS, [f"{size:,}" for size in PANELS])
    left.minorticks_off()
    left.set_ylabel("adjusted Rand index with annotated types")
    left.legend(frameon=False, loc="lower right")
    X = adata.X
    share = np.asarray((X > 0).mean(axis=0)).ravel()
    mean = np.asarray(X.mean(axis=0)).ravel()
    variance = np.asarray(X.multiply(X).mean(axis=0)).ravel() - mean**2
    seen = np.flatnonzero(share > 0)
    points = [(seen, "#d1d5db", "all genes", 3.0)]
    points += [
        (orders[name][:500], styles[name][0], f"{name}, first 500", 7.0) for name in (theirs, ours)
    ]
    for genes, colour, label, size in points:
        right.scatter(share[genes], variance[genes], size, colour, label=label, linewidths=0)
    right.set(xscale="log", yscale="log", xlabel="share of cells that express the gene")
    right.set_ylabel("variance of log expression")
    right.legend(frameon=False, loc="upper left", markerscale=2)
    for ax in (left, right):
        ax.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=130)


def main():
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=20)
    parser.add_argument("--min-cells", type=int, default=0)
    parser.add_argument("--picture", help="write the picture of the how-to page to this file")
    parser.add_argument("--measure", type=int, help=argparse.SUPPRESS)
    parser.add_argument("--traced", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    warnings.simplefilter("ignore")  # scanpy's own
    if given.measure:
        measure(given.measure, given.traced, given.min_cells)
        return
    try:
        adata = cells(given.min_cells)
    except (FileNotFoundError, ImportError) as error:
        parser.exit(1, f"{error}\n")
    costs(adata.shape, given.min_cells)
    orders = {f"GSPPCA, {d} components": by_relevance(adata, d) for d in COMPONENTS}
    for flavor in ("seurat", "cell_ranger"):
        orders[f"highly variable, {flavor}"] = highly_variable(adata, flavor)
    orders["variance"] = by_variance(adata)
    pictured = {}
    for k in CLUSTERS:
        print(f"adjusted Rand index, {k} clusters, {given.seeds} seeds; genes:", *PANELS)
        for name, order in orders.items():
            found = [agreement(adata, order[:size], k, given.seeds) for size in PANELS]
            pictured.setdefault(name, found)  # of the first number of clusters
            text = "  ".join(f"{ari.mean():.3f} +- {ari.std():.3f}" for ari in found)
            print(f"  {name:28s} {text}", flush=True)
    if given.picture:
        draw(pictured, adata, orders, given.picture)


if __name__ == "__main__":
    main()
